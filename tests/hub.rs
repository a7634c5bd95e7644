//! Models of the hub: fetched once over a network that breaks, and then used without one.

mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use program::{Output, Program};
use sha1::Sha1;
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret_of_the_test";

/// What a server was asked.
#[derive(Clone, Debug, Default)]
struct Request {
    path: String,
    range: Option<String>,
    authorization: Option<String>,
}

/// What it answers.
struct Answer {
    status: &'static str,
    headers: Vec<String>,
    body: Vec<u8>,
    /// Bytes of the body that are sent before the connection is cut.
    cut: Option<usize>,
}

fn answer(status: &'static str, body: impl Into<Vec<u8>>) -> Answer {
    Answer { status, headers: Vec::new(), body: body.into(), cut: None }
}

/// A server on this machine that notes what it is asked.
struct Server {
    url: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(respond: impl Fn(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                kept.lock().unwrap().push(request.clone());
                let answer = respond(&request);
                let mut head =
                    format!("HTTP/1.1 {}\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
                for header in &answer.headers {
                    head.push_str(&format!("{header}\r\n"));
                }
                let sent = &answer.body[..answer.cut.unwrap_or(answer.body.len())];
                // The other side may have had enough.
                let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
                let _ = stream.write_all(sent);
            }
        });
        Self { url, log }
    }

    fn asked(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut request = Request { path: first.split(' ').nth(1)?.to_owned(), ..Request::default() };
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "range" => request.range = Some(value.to_owned()),
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(request)
}

/// The small policy's files.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(&folder.path().join("tiny"));
    let entries = std::fs::read_dir(folder.path().join("tiny")).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn git_id(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    hex::encode(hasher.finalize())
}

/// A hub whose weights lie at `store`; `sum` gives the checksum that it claims for them.
fn hub(store: &str, sum: impl Fn(&[u8]) -> String + Send + 'static) -> Server {
    let (files, store) = (files(), store.to_owned());
    Server::start(move |request| {
        let listing = "/api/models/team/tiny/revision/main?blobs=true";
        if request.path == listing {
            let siblings: Vec<_> = files
                .iter()
                .map(|(name, bytes)| match name.ends_with(".safetensors") {
                    true => serde_json::json!({
                        "rfilename": name, "size": bytes.len(), "blobId": git_id(b"pointer"),
                        "lfs": { "sha256": sum(bytes), "size": bytes.len(), "pointerSize": 130 },
                    }),
                    false => serde_json::json!({
                        "rfilename": name, "size": bytes.len(), "blobId": git_id(bytes),
                    }),
                })
                .collect();
            return answer("200 OK", serde_json::json!({ "sha": COMMIT, "siblings": siblings }).to_string());
        }
        let name = request.path.strip_prefix(&format!("/team/tiny/resolve/{COMMIT}/")).unwrap_or_default();
        match files.iter().find(|(file, _)| file == name) {
            Some(_) if name.ends_with(".safetensors") => {
                let location = format!("Location: {store}/signed?key=of-the-store");
                Answer { headers: vec![location], ..answer("302 Found", "") }
            }
            Some((_, bytes)) => answer("200 OK", bytes.clone()),
            None => answer("404 Not Found", "no such file"),
        }
    })
}

/// Sends the rest of `bytes` from where it is asked to begin.
fn part(bytes: &[u8], request: &Request) -> Answer {
    let Some(range) = &request.range else { return answer("200 OK", bytes) };
    let start: usize = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
    let header = format!("Content-Range: bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
    Answer { headers: vec![header], ..answer("206 Partial Content", &bytes[start..]) }
}

fn weights() -> Vec<u8> {
    files().into_iter().find(|(name, _)| name == "model.safetensors").unwrap().1
}

fn tandem(hub: &str, home: &Path, arguments: &[&str]) -> Output {
    let output = Program::new(&arguments.iter().map(|word| word.to_string()).collect::<Vec<_>>())
        .env("HF_ENDPOINT", hub)
        .env("HF_HOME", &home.to_string_lossy())
        .env("HF_TOKEN", TOKEN)
        .env("TANDEM_LOG", "trace")
        .run();
    assert!(!format!("{}{}", output.stdout, output.stderr).contains(TOKEN), "the token is shown");
    output
}

fn model_folder(home: &Path) -> PathBuf {
    home.join("hub/models--team--tiny")
}

#[test]
fn a_model_comes_through_redirects_and_cuts_and_is_then_used_offline() {
    let home = tempfile::tempdir().unwrap();
    let bytes = weights();
    let store = Server::start({
        let bytes = bytes.clone();
        move |request| {
            let cut = request.range.is_none().then_some(bytes.len() / 3);
            Answer { cut, ..part(&bytes, request) }
        }
    });
    let hub = hub(&store.url, sha256);
    let output = tandem(&hub.url, home.path(), &["model", "fetch", "team/tiny"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let folder = model_folder(home.path());
    let snapshot = folder.join("snapshots").join(COMMIT);
    assert_eq!(output.stdout, format!("{}\n", snapshot.display()));

    // As the hub's own library lays it out.
    assert_eq!(std::fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    let target = Path::new("../../blobs").join(sha256(&bytes));
    assert_eq!(std::fs::read_link(snapshot.join("model.safetensors")).unwrap(), target);
    for (name, bytes) in files().into_iter().filter(|(name, _)| name != "tandem.json") {
        assert_eq!(std::fs::read(snapshot.join(&name)).unwrap(), bytes, "{name}");
    }
    assert!(
        !std::fs::read_dir(folder.join("blobs"))
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with(".incomplete") })
    );

    // The token went to the hub, and not with the redirection to another host.
    assert!(
        hub.asked()
            .iter()
            .all(|request| request.authorization.as_deref() == Some(&format!("Bearer {TOKEN}")))
    );
    let ranges: Vec<_> = store.asked().into_iter().map(|request| request.range).collect();
    assert_eq!(ranges, [None, Some(format!("bytes={}-", bytes.len() / 3))]);
    assert!(store.asked().iter().all(|request| request.authorization.is_none()));

    // Once here, nobody is asked.
    let before = hub.asked().len();
    let info = tandem(&hub.url, home.path(), &["model", "info", "team/tiny", "--json"]);
    assert!(info.stdout.contains("\"parameters\": 26880"), "{}{}", info.stdout, info.stderr);
    assert_eq!(hub.asked().len(), before);
}

#[test]
fn what_came_before_a_failure_is_gone_on_with_by_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let bytes = weights();
    let first_run = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let store = Server::start({
        let (bytes, first_run) = (bytes.clone(), first_run.clone());
        move |request| match (&request.range, first_run.load(std::sync::atomic::Ordering::SeqCst)) {
            (None, _) => Answer { cut: Some(1000), ..part(&bytes, request) },
            // The signed address is no longer good.
            (Some(_), true) => answer("403 Forbidden", "expired"),
            (Some(_), false) => part(&bytes, request),
        }
    });
    let hub = hub(&store.url, sha256);
    let failed = tandem(&hub.url, home.path(), &["model", "fetch", "team/tiny"]);
    assert_eq!(failed.code, Some(1));
    let partial = model_folder(home.path()).join(format!("blobs/{}.incomplete", sha256(&bytes)));
    assert_eq!(std::fs::read(&partial).unwrap(), bytes[..1000]);
    assert!(!model_folder(home.path()).join("refs/main").exists());

    first_run.store(false, std::sync::atomic::Ordering::SeqCst);
    let output = tandem(&hub.url, home.path(), &["model", "fetch", "team/tiny"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(store.asked().last().unwrap().range.as_deref(), Some("bytes=1000-"));
    assert!(!partial.exists());
}

/// The error of a fetch, with `HUB` for its address.
fn fails(hub: &Server, expected: Expect) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let output = tandem(&hub.url, home.path(), &["model", "fetch", "team/tiny"]);
    assert_eq!(output.code, Some(1));
    let text: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| ["error: ", "cause: ", "help: "].iter().any(|word| line.starts_with(word)))
        .collect();
    expected.assert_eq(&text.join("\n").replace(&hub.url, "HUB").replace(&sha256(&weights()), "SUM"));
    home
}

#[test]
fn a_refusal_says_what_the_token_has_to_do_with_it() {
    fails(
        &Server::start(|_| answer("401 Unauthorized", "{}")),
        expect![[r#"
            error: `team/tiny@main` could not be fetched
            cause: the hub refuses it (401; HF_TOKEN is set)
            help: accept the model's terms on its page, and set HF_TOKEN to a token that may read it; a wrong name is refused too"#]],
    );
    fails(
        &Server::start(|_| answer("404 Not Found", "{}")),
        expect![[r#"
            error: `team/tiny@main` could not be fetched
            cause: the hub has no such model, revision or file (404; HF_TOKEN is set), and there is no file or folder of that name here
            help: check the spelling of `owner/name@revision`"#]],
    );
    fails(
        &Server::start(|_| answer("200 OK", "<html>")),
        expect![[r#"
            error: `team/tiny@main` could not be fetched
            cause: the hub's answer is no listing
            cause: error decoding response body
            cause: expected value at line 1 column 1
            help: check HF_ENDPOINT"#]],
    );
}

#[test]
fn a_file_with_another_checksum_is_never_used() {
    let bytes = weights();
    let store = Server::start(move |request| part(&bytes, request));
    let home = fails(
        &hub(&store.url, |_| "ab".repeat(32)),
        expect![[r#"
            error: `team/tiny@main` could not be fetched
            cause: the file `model.safetensors` did not come
            cause: its checksum is SUM, and the hub says abababababababababababababababababababababababababababababababab; what came was removed
            help: try again; if it stays wrong, a proxy or mirror changes files"#]],
    );
    let blobs: Vec<_> = std::fs::read_dir(model_folder(home.path()).join("blobs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("abab") || name.ends_with(".incomplete"))
        .collect();
    assert!(blobs.is_empty(), "{blobs:?}");
    assert!(!model_folder(home.path()).join("refs/main").exists());
}
