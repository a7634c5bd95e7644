//! Do pairs travel? Through OCI layouts, a real registry on this machine, and the hands of skopeo.

#[path = "program/pairs.rs"]
mod pairs;
mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use pairs::{FIXTURE, settled, tree};
use program::{Output, Program, tandem_home};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A scratch folder beside the pair of the fixture: `PAIR` is the pair, `DIR` the folder.
struct Travel {
    folder: tempfile::TempDir,
    home: PathBuf,
}

impl Travel {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("user");
        fs::create_dir(&home).unwrap();
        Self { folder, home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let (dir, pair) = (self.folder.path().to_string_lossy(), FIXTURE.path("pair"));
        let words =
            words.iter().map(|word| word.replace("DIR", &dir).replace("PAIR", &pair.to_string_lossy()));
        let program = Program::new(&words.collect::<Vec<_>>())
            .env("TANDEM_HOME", &tandem_home())
            .env("HOME", &self.home.to_string_lossy());
        variables.iter().fold(program, |program, (name, value)| program.env(name, value)).run()
    }

    fn run(&self, words: &[&str]) -> Output {
        self.run_with(words, &[])
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    fn check(&self, words: &[&str], code: i32, expected: Expect) {
        let output = self.run(words);
        let text = output.stdout + &output.stderr;
        // Progress has times in it.
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with('[')).collect();
        let text = text.replace(&*self.folder.path().to_string_lossy(), "DIR");
        // The size of a component depends on its compiler.
        let size = text.find(" KiB").and_then(|end| Some((text[..end].rfind(' ')?, end)));
        let text = size.map_or(text.clone(), |(from, end)| format!("{} N{}", &text[..from], &text[end..]));
        let port = |text: String| match REGISTRY.as_ref() {
            Some(registry) => text.replace(&registry.host, "REGISTRY"),
            None => text,
        };
        expected.assert_eq(&settled(&port(text)));
        assert_eq!(output.code, Some(code));
    }
}

/// Debian's `docker-registry` on a port of its own.
struct Registry {
    host: String,
    folder: tempfile::TempDir,
    process: Child,
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

static REGISTRY: LazyLock<Option<Registry>> = LazyLock::new(|| {
    let registry = start_registry("");
    let required = std::env::var_os("TANDEM_REQUIRE_REGISTRY").is_some();
    assert!(registry.is_some() || !required, "`docker-registry` is not here: run `scripts/test_tools.sh`");
    if registry.is_none() {
        eprintln!("left out: `docker-registry` is not here; `scripts/test_tools.sh` gets it");
    }
    registry
});

fn start_registry(more: &str) -> Option<Registry> {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = format!("127.0.0.1:{port}");
    let config = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\n  delete:\n    enabled: true\nhttp:\n  addr: {host}\n{more}",
        folder.path().join("data").display()
    );
    let file = folder.path().join("config.yml");
    fs::write(&file, config).unwrap();
    Command::new("docker-registry").arg("--version").output().ok()?;
    // It ends with whoever holds its input: a value that is never dropped leaves no server behind.
    let script = "docker-registry serve \"$1\" & cat >/dev/null; kill $!";
    let process = Command::new("sh")
        .args(["-c", script, "sh", &file.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let registry = Registry { host, folder, process };
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(&registry.host).is_err() {
        assert!(Instant::now() < end, "the registry does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(registry)
}

#[test]
fn a_pair_goes_through_a_layout_on_disk_and_comes_out_the_same() {
    let travel = Travel::new();
    travel.check(
        &["pair", "push", "PAIR", "oci:DIR/layout:1"],
        0,
        expect![[r#"
            pair sha256:A is at oci:DIR/layout:1
              manifest sha256:B
              9 of 9 files sent, N KiB
        "#]],
    );
    travel.check(
        &["pair", "pull", "oci:DIR/layout:1", "-o", "DIR/back"],
        0,
        expect![[r#"
        pair sha256:A is whole in DIR/back
          manifest sha256:B
          nobody's signature was asked for; `--key FILE` or `--policy FILE` asks for one
    "#]],
    );
    assert!(tree(&travel.path("back")) == tree(&FIXTURE.path("pair")));
    assert!(!travel.path(".back.pulling").exists());
    // The same pair is the same artefact, and nothing of it is kept twice.
    let before = tree(&travel.path("layout"));
    let again = travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:1"]);
    assert!(again.contains("0 of 9 files sent"), "{again}");
    assert!(tree(&travel.path("layout")) == before);
    let manifest = layout_manifest(&travel.path("layout"), "1");
    assert_eq!(manifest["artifactType"], "application/vnd.tandem.pair.v1");
    let of = |kind: &str| {
        let layers = manifest["layers"].as_array().unwrap().iter();
        layers.filter(|layer| layer["mediaType"] == kind).count()
    };
    assert_eq!((of("application/wasm"), of("application/vnd.tandem.pair.weights.v1.safetensors")), (1, 1));
    travel.check(
        &["pair", "pull", "oci:DIR/layout:2", "-o", "DIR/none"],
        1,
        expect![[r#"
        error: oci:DIR/layout has no `2`
        help: check the spelling; `tandem pair push` puts a pair there
    "#]],
    );
    travel.check(
        &["pair", "pull", "oci:DIR/layout:1", "-o", "DIR/back"],
        1,
        expect![[r#"
        error: DIR/back exists already, and nothing is overwritten
        help: give another name
    "#]],
    );
}

fn layout_manifest(layout: &Path, tag: &str) -> Value {
    let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let index = read(layout.join("index.json"));
    let named = |one: &&Value| one["annotations"]["org.opencontainers.image.ref.name"] == tag;
    let found = index["manifests"].as_array().unwrap().iter().find(named).unwrap();
    read(layout.join("blobs/sha256").join(&found["digest"].as_str().unwrap()["sha256:".len()..]))
}

#[test]
fn what_was_changed_on_the_way_is_refused_and_leaves_no_folder() {
    let travel = Travel::new();
    travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:1"]);
    let layout = travel.path("layout");
    let manifest = layout_manifest(&layout, "1");
    let wasm =
        manifest["layers"].as_array().unwrap().iter().find(|layer| layer["mediaType"] == "application/wasm");
    let hex = &wasm.unwrap()["digest"].as_str().unwrap()["sha256:".len()..];
    let blob = layout.join("blobs/sha256").join(hex);
    let mut bytes = fs::read(&blob).unwrap();
    bytes[100] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    travel.check(
        &["pair", "pull", "oci:DIR/layout:1", "-o", "DIR/out"],
        3,
        expect![[r#"
        error: `components/A.wasm` is sha256:B, and sha256:A was asked for
        help: whoever keeps it changed it or it was damaged on the way; do not use it, and tell its owner
    "#]],
    );
    assert!(!travel.path("out").exists());
    // A manifest that names another component for the same path.
    let other = b"\0asm no component";
    let digest = hex::encode(Sha256::digest(other));
    fs::write(layout.join("blobs/sha256").join(&digest), other).unwrap();
    let mut forged = manifest.clone();
    for layer in forged["layers"].as_array_mut().unwrap() {
        if layer["mediaType"] == "application/wasm" {
            layer["digest"] = json!(format!("sha256:{digest}"));
            layer["size"] = json!(other.len());
        }
    }
    retag(&layout, &forged);
    travel.check(
        &["pair", "pull", "oci:DIR/layout:1", "-o", "DIR/out"],
        3,
        expect![[r#"
        error: `components/A.wasm` of oci:DIR/layout:1 is sha256:B, and sha256:A was asked for
        help: whoever keeps it changed it or it was damaged on the way; do not use it, and tell its owner
    "#]],
    );
    // A layer that would lie outside.
    let mut forged = manifest;
    forged["layers"][0]["annotations"]["org.opencontainers.image.title"] = json!("../outside");
    retag(&layout, &forged);
    travel.check(
        &["pair", "pull", "oci:DIR/layout:1", "-o", "DIR/out"],
        3,
        expect![[r#"
        error: the pair names the file `../outside`, which is no place inside a pair
        help: do not use this pair: whoever made it tried to reach other files
    "#]],
    );
    assert!(!travel.path("out").exists() && !travel.path("outside").exists());
}

/// Puts another manifest under the tag of a layout with one.
fn retag(layout: &Path, manifest: &Value) {
    let bytes = manifest.to_string().into_bytes();
    let digest = hex::encode(Sha256::digest(&bytes));
    fs::write(layout.join("blobs/sha256").join(&digest), &bytes).unwrap();
    let path = layout.join("index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    index["manifests"][0]["digest"] = json!(format!("sha256:{digest}"));
    index["manifests"][0]["size"] = json!(bytes.len());
    fs::write(&path, index.to_string()).unwrap();
}

#[test]
fn a_pair_goes_through_a_registry_and_is_not_sent_twice() {
    let Some(registry) = REGISTRY.as_ref() else { return };
    let travel = Travel::new();
    let reference = format!("{}/team/agent:1", registry.host);
    travel.check(
        &["pair", "push", "PAIR", &reference],
        0,
        expect![[r#"
            pair sha256:A is at REGISTRY/team/agent:1
              manifest sha256:B
              9 of 9 files sent, N KiB
        "#]],
    );
    let again = travel.done(&["pair", "push", "PAIR", &format!("{}/team/agent:2", registry.host)]);
    assert!(again.contains("0 of 9 files sent"), "{again}");
    travel.check(
        &["pair", "pull", &reference, "-o", "DIR/back"],
        0,
        expect![[r#"
        pair sha256:A is whole in DIR/back
          manifest sha256:B
          nobody's signature was asked for; `--key FILE` or `--policy FILE` asks for one
    "#]],
    );
    assert!(tree(&travel.path("back")) == tree(&FIXTURE.path("pair")));
    // By digest, which no tag can change.
    let pushed = travel.done(&["pair", "push", "PAIR", &reference, "--json"]);
    let pushed: Value = serde_json::from_str(&pushed).unwrap();
    let pinned = format!("{}/team/agent@{}", registry.host, pushed["manifest"].as_str().unwrap());
    travel.done(&["pair", "pull", &pinned, "-o", "DIR/pinned"]);
    travel.check(
        &["pair", "pull", &format!("{}/team/other:1", registry.host), "-o", "DIR/none"],
        1,
        expect![[r#"
            error: REGISTRY/team/other has no `1`
            help: check the spelling; `tandem pair push` puts a pair there
        "#]],
    );
}

#[test]
fn skopeo_carries_a_pair_from_a_registry_to_a_layout() {
    let Some(registry) = REGISTRY.as_ref() else { return };
    if Command::new("skopeo").arg("--version").output().is_err() {
        eprintln!("left out: `skopeo` is not here; `scripts/test_tools.sh` gets it");
        return;
    }
    let travel = Travel::new();
    let reference = format!("{}/skopeo/agent:1", registry.host);
    travel.done(&["pair", "push", "PAIR", &reference]);
    let skopeo = |words: &[&str]| {
        let output = Command::new("skopeo").args(words).env("HOME", &travel.home).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let from = format!("docker://{reference}");
    let raw: Value =
        serde_json::from_str(&skopeo(&["inspect", "--raw", "--tls-verify=false", &from])).unwrap();
    assert_eq!(raw["artifactType"], "application/vnd.tandem.pair.v1");
    let policy = travel.path("policy.json");
    fs::write(&policy, r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).unwrap();
    let to = format!("oci:{}:1", travel.path("copied").display());
    skopeo(&["copy", "--policy", &policy.to_string_lossy(), "--src-tls-verify=false", &from, &to]);
    travel.done(&["pair", "pull", "oci:DIR/copied:1", "-o", "DIR/back"]);
    assert!(tree(&travel.path("back")) == tree(&FIXTURE.path("pair")));
}

#[test]
fn a_pull_that_broke_off_goes_on_where_it_was() {
    let Some(registry) = REGISTRY.as_ref() else { return };
    let travel = Travel::new();
    travel.done(&["pair", "push", "PAIR", &format!("{}/broken/agent:1", registry.host)]);
    // Between them: it cuts the first answers that are long, and counts what it lets through.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    static LONG: AtomicUsize = AtomicUsize::new(0);
    static RANGES: AtomicUsize = AtomicUsize::new(0);
    let upstream = registry.host.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let upstream = TcpStream::connect(&upstream).unwrap();
            std::thread::spawn(move || relay(connection, upstream, &LONG, &RANGES));
        }
    });
    travel.done(&["pair", "pull", &format!("{host}/broken/agent:1"), "-o", "DIR/back"]);
    assert!(tree(&travel.path("back")) == tree(&FIXTURE.path("pair")));
    assert!(RANGES.load(Ordering::SeqCst) > 0, "it was asked for the rest of a file");
}

/// Passes requests on; the first two long answers end early.
fn relay(mut near: TcpStream, mut far: TcpStream, long: &'static AtomicUsize, ranges: &'static AtomicUsize) {
    let (mut asked, mut answers) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let asking = std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = asked.read(&mut bytes) {
            if String::from_utf8_lossy(&bytes[..count]).to_lowercase().contains("range: bytes=") {
                ranges.fetch_add(1, Ordering::SeqCst);
            }
            if far.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = far.shutdown(std::net::Shutdown::Both);
    });
    let (mut bytes, mut passed) = ([0; 8192], 0);
    while let Ok(count @ 1..) = answers.read(&mut bytes) {
        passed += count;
        if near.write_all(&bytes[..count]).is_err() {
            break;
        }
        if passed > 24_000 && long.fetch_add(1, Ordering::SeqCst) < 2 {
            break;
        }
    }
    let _ = near.shutdown(std::net::Shutdown::Both);
    let _ = answers.shutdown(std::net::Shutdown::Both);
    let _ = asking.join();
}

#[test]
fn a_registry_that_wants_a_password_gets_it_from_dockers_file() {
    let travel = Travel::new();
    let users = travel.path("htpasswd");
    // python3 -c "import crypt; print(crypt.crypt('secret', '$2b$05$abcdefghijklmnopqrstuu'))"
    fs::write(&users, "ada:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n").unwrap();
    let auth = format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", users.display());
    let Some(registry) = start_registry(&auth) else { return };
    let reference = format!("{}/team/agent:1", registry.host);
    let refused = travel.run(&["pair", "push", "PAIR", &reference]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("answered 401") && refused.stderr.contains("docker login"),
        "{}",
        refused.stderr
    );
    let config = json!({"auths": {registry.host.clone(): {"auth": "YWRhOnNlY3JldA=="}}});
    fs::create_dir(travel.home.join(".docker")).unwrap();
    fs::write(travel.home.join(".docker/config.json"), config.to_string()).unwrap();
    travel.done(&["pair", "push", "PAIR", &reference]);
    fs::remove_dir_all(travel.home.join(".docker")).unwrap();
    let variables = [("TANDEM_REGISTRY_USER", "ada"), ("TANDEM_REGISTRY_PASSWORD", "secret")];
    let pulled = travel.run_with(&["pair", "pull", &reference, "-o", "DIR/back"], &variables);
    assert_eq!(pulled.code, Some(0), "{}", pulled.stderr);
    let wrong = [("TANDEM_REGISTRY_USER", "ada"), ("TANDEM_REGISTRY_PASSWORD", "guessed-wrong")];
    let refused = travel.run_with(&["pair", "pull", &reference, "-o", "DIR/no"], &wrong);
    assert_eq!(refused.code, Some(1));
    assert!(!refused.stderr.contains("guessed-wrong"), "{}", refused.stderr);
    assert!(registry.folder.path().exists());
}

#[test]
fn another_machine_is_not_asked_without_encryption() {
    let travel = Travel::new();
    // A port of this machine by a name that could be anybody's: TLS is tried, and nothing answers in it.
    let output = travel.run(&["pair", "push", "PAIR", "registry.invalid:5000/a:1"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("registry.invalid:5000 cannot be reached"), "{}", output.stderr);
}

#[test]
fn signatures_are_those_of_cosign_and_a_policy_says_whose_are_taken() {
    let travel = Travel::new();
    travel.done(&["pair", "new-key", "DIR/team"]);
    travel.done(&["pair", "new-key", "DIR/other"]);
    let pull = |out: &str, more: &[&str]| {
        let out = format!("DIR/{out}");
        let words = ["pair", "pull", "oci:DIR/layout:1", "-o", &out];
        let words: Vec<_> = words.iter().chain(more).map(|word| (*word).to_owned()).collect();
        words
    };
    let check = |words: Vec<String>, code, expected: Expect| {
        travel.check(&words.iter().map(String::as_str).collect::<Vec<_>>(), code, expected);
    };
    travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:1"]);
    check(
        pull("a", &["--key", "DIR/team.pub"]),
        3,
        expect![[r#"
        error: oci:DIR/layout:1 (sha256:A) is not signed, and a signature is asked for
        help: ask its owner to sign it with `tandem pair push --sign KEY`, or with cosign
    "#]],
    );
    travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:1", "--sign", "DIR/team.pem"]);
    check(
        pull("b", &["--key", "DIR/other.pub"]),
        3,
        expect![[r#"
        error: no signature of oci:DIR/layout:1 (sha256:A) is one of DIR/other.pub; 1 are there
        help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
    "#]],
    );
    check(
        pull("c", &["--key", "DIR/other.pub", "--key", "DIR/team.pub"]),
        0,
        expect![[r#"
        pair sha256:A is whole in DIR/c
          manifest sha256:B
          signed by the key DIR/team.pub
    "#]],
    );
    fs::write(
        travel.path("policy.toml"),
        format!(
            "[[allow]]\nreference = \"oci:{}/*\"\nkeys = [\"other.pub\"]\n[[allow]]\nreference = \"registry.example.com/*\"\nunsigned = true\n",
            travel.folder.path().display()
        ),
    )
    .unwrap();
    check(
        pull("d", &["--policy", "DIR/policy.toml"]),
        3,
        expect![[r#"
        error: no signature of oci:DIR/layout:1 (sha256:A) is one of DIR/other.pub; 1 are there
        help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
    "#]],
    );
    travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:1", "--sign", "DIR/other.pem"]);
    travel.done(&pull("e", &["--policy", "DIR/policy.toml"]).iter().map(String::as_str).collect::<Vec<_>>());
    travel.check(
        &["pair", "pull", "localhost:1/a:1", "-o", "DIR/f", "--policy", "DIR/policy.toml"],
        3,
        expect![[r#"
            error: no rule of DIR/policy.toml allows localhost:1/a
            help: add one that says whose signature is needed, if you trust that source
        "#]],
    );
    // One that was good for no day.
    travel.done(&["pair", "push", "PAIR", "oci:DIR/short:1", "--sign", "DIR/team.pem", "--expires", "0"]);
    let late = travel.run(&["pair", "pull", "oci:DIR/short:1", "-o", "DIR/g", "--key", "DIR/team.pub"]);
    assert_eq!(late.code, Some(3));
    assert!(
        late.stderr.contains("was good until") && late.stderr.matches("sha256:").count() >= 2,
        "{}",
        late.stderr
    );
    // The payload and the signature as another program checks them.
    let layout = travel.path("layout");
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let tags: Vec<_> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["annotations"]["org.opencontainers.image.ref.name"].as_str().unwrap().to_owned())
        .collect();
    let tag = tags.iter().find(|tag| tag.ends_with(".sig")).unwrap();
    let signatures = layout_manifest(&layout, tag);
    let last = signatures["layers"].as_array().unwrap().last().unwrap().clone();
    let payload = layout.join("blobs/sha256").join(&last["digest"].as_str().unwrap()["sha256:".len()..]);
    let said: Value = serde_json::from_slice(&fs::read(&payload).unwrap()).unwrap();
    let signed = said["critical"]["image"]["docker-manifest-digest"].as_str().unwrap();
    assert_eq!(*tag, format!("sha256-{}.sig", &signed["sha256:".len()..]));
    let text = last["annotations"]["dev.cosignproject.cosign/signature"].as_str().unwrap();
    fs::write(travel.path("signature"), decoded(text)).unwrap();
    let openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-verify"])
        .arg(travel.path("other.pub"))
        .arg("-signature")
        .arg(travel.path("signature"))
        .arg(&payload)
        .output();
    match openssl {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "Verified OK"),
        Err(_) => eprintln!("left out: openssl is not here"),
    }
}

fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(value(*letter)));
        let whole = (bits << (6 * (4 - four.len()))).to_be_bytes();
        bytes.extend_from_slice(&whole[1..four.len()]);
    }
    bytes
}

#[test]
fn a_signature_under_another_artefact_is_refused_with_both_digests() {
    let travel = Travel::new();
    travel.done(&["pair", "new-key", "DIR/team"]);
    travel.done(&["pair", "push", "PAIR", "oci:DIR/layout:good", "--sign", "DIR/team.pem"]);
    // The signature of the first, put under the tag that belongs to the second.
    let path = travel.path("layout/index.json");
    let early = FIXTURE.path("early").to_string_lossy().into_owned();
    travel.done(&["pair", "push", &early, "oci:DIR/layout:evil"]);
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    const NAME: &str = "org.opencontainers.image.ref.name";
    let evil =
        index["manifests"].as_array().unwrap().iter().find(|one| one["annotations"][NAME] == "evil").unwrap();
    let stolen = format!("sha256-{}.sig", &evil["digest"].as_str().unwrap()["sha256:".len()..]);
    for one in index["manifests"].as_array_mut().unwrap() {
        if one["annotations"][NAME].as_str().unwrap().ends_with(".sig") {
            one["annotations"][NAME] = json!(stolen);
        }
    }
    fs::write(&path, index.to_string()).unwrap();
    travel.check(
        &["pair", "pull", "oci:DIR/layout:evil", "-o", "DIR/out", "--key", "DIR/team.pub"],
        3,
        expect![[r#"
            error: the signature of oci:DIR/layout:evil is for sha256:A, and what is there is sha256:B
            help: somebody put another artefact under a signature that was made for the first; do not use it
        "#]],
    );
    assert!(!travel.path("out").exists());
}
