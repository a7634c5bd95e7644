//! Does `tandem serve mcp` bring tools and hooks of a harness to clients, and swap it while they work?

mod program;
#[path = "program/served.rs"]
mod served;
#[path = "program/tiny.rs"]
mod tiny;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use program::{Output, Program, root, tandem_home};
use serde_json::{Value, json};
use served::{Answer, SOON, Served, read_until};

/// A home with a harness whose plugin has a tool and hooks, and a folder with a file.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(home.path("repo")).unwrap();
        std::fs::write(home.path("repo/given.txt"), "given\n").unwrap();
        home.done(&["plugin", "build", "tests/data/count.rs", "-o", &home.word("count.wasm")]);
        home.done(&["harness", "add", "count", &home.word("count.wasm"), "--reason", "to count"]);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn run(&self, words: &[&str]) -> Output {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let program = Program::new(&words).env("TANDEM_HOME", &tandem_home()).env("TANDEM_ACTOR", "ada");
        let home = self.word("home");
        program.env("TANDEM_HARNESS_HOME", &home).run()
    }

    fn done(&self, words: &[&str]) -> Output {
        let output = self.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.stdout, output.stderr);
        output
    }

    /// The words that start a server of this home.
    fn serve(&self, more: &[&str]) -> Vec<String> {
        let (home, repo) = (self.word("home"), self.word("repo"));
        let words = ["serve", "mcp", "--home", &home, "--repo", &repo, "--bash"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn http(&self, more: &[&str]) -> Served {
        let words = self.serve(&[&["--http", "127.0.0.1:0"], more].concat());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Served::start(&words, &[("TANDEM_HOME", &tandem_home())])
    }

    /// Messages on standard input, and what comes of them.
    fn talk(&self, more: &[&str], lines: &[String]) -> (Vec<Value>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.args(self.serve(more)).env("TANDEM_HOME", tandem_home()).current_dir(root());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Requests are answered beside each other.
        answers.sort_by_key(|answer| answer["id"].as_u64());
        (answers, said)
    }
}

fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(id: u64, name: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn initialize(version: &str) -> String {
    let client = json!({"name": "test", "version": "1"});
    request(0, "initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

#[test]
fn a_line_of_requests_is_answered_before_the_end() {
    let home = Home::new();
    let (answers, said) = home.talk(
        &[],
        &[
            initialize("2025-06-18"),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
            request(1, "tools/list", json!({})),
            call(2, "count", json!({"text": "a b"})),
            call(3, "bash", json!({"command": "cat given.txt; exit 3"})),
            call(4, "bash", json!({"cmd": "ls"})),
            call(5, "count", json!([1])),
            request(6, "sampling/createMessage", json!({})),
            request(7, "resources/read", json!({"uri": "file:///etc/passwd"})),
            "{\"jsonrpc\": \"2.0\"".to_owned(),
        ],
    );
    let tool = |answers: &[Value], name: &str| {
        let tools = answers.iter().find(|answer| answer["id"] == 1).unwrap()["result"]["tools"].clone();
        tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned().unwrap()
    };
    expect![[r#"{"description":"Counts words.","inputSchema":{"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"},"name":"count","outputSchema":{"properties":{"words":{"type":"integer"}},"required":["words"],"type":"object"}}"#]].assert_eq(&tool(&answers, "count").to_string());
    let rest: Vec<String> = answers
        .iter()
        .filter(|answer| answer["id"] != 1 && answer["id"] != 0)
        .map(|answer| answer.get("result").or(answer.get("error")).unwrap().to_string())
        .collect();
    expect![[r#"
        {"code":-32700,"message":"this is no JSON: EOF while parsing an object at line 1 column 17"}
        {"content":[{"text":"{\"words\":2}","type":"text"}],"isError":false,"structuredContent":{"words":2}}
        {"content":[{"text":"given\n[exit code 3]","type":"text"},{"text":"\nlooked at by a hook","type":"text"}],"isError":true}
        {"content":[{"text":"`bash` takes one argument: `command`, a string.","type":"text"}],"isError":true}
        {"code":-32602,"message":"`arguments` is no object"}
        {"code":-32601,"message":"there is no method `sampling/createMessage`"}
        {"code":-32002,"message":"there is one resource, `tandem://workspace.patch`"}"#]].assert_eq(&rest.join("\n"));
    let first = &answers.iter().find(|answer| answer["id"] == 0).unwrap()["result"];
    assert_eq!(first["protocolVersion"], "2025-06-18");
    assert_eq!(first["capabilities"], json!({"resources": {}, "tools": {"listChanged": false}}));
    assert!(said.starts_with("serving the harness sha256:"), "{said}");
}

#[test]
fn the_version_is_the_clients_if_it_is_known() {
    let home = Home::new();
    let check = |asked: &str, expected: &str| {
        let (answers, _) = home.talk(&[], &[initialize(asked)]);
        assert_eq!(answers[0]["result"]["protocolVersion"], expected);
    };
    check("2024-11-05", "2024-11-05");
    check("2025-11-25", "2025-11-25");
    check("2099-01-01", "2025-11-25");
}

#[test]
fn what_a_client_cannot_be_given_is_told_at_the_start() {
    let home = Home::new();
    home.done(&["plugin", "build", "plugins/budget-warning/src/lib.rs", "-o", &home.word("warning.wasm")]);
    home.done(&["harness", "add", "warning", &home.word("warning.wasm"), "--reason", "to warn"]);
    let (_, said) = home.talk(&[], &[]);
    let rest: Vec<&str> = said.lines().skip(1).collect();
    expect![[r#"
        not expressible over MCP:
          `warning` at `on-model-call`: the client calls its model itself"#]]
    .assert_eq(&rest.join("\n"));
}

/// A client over HTTP.
struct Client<'a> {
    served: &'a Served,
    session: String,
}

const JSON: &str = "accept: application/json, text/event-stream\r\n";

impl<'a> Client<'a> {
    fn open(served: &'a Served) -> Self {
        let answer = served.ask("POST", "/mcp", JSON, &initialize("2025-06-18"));
        assert_eq!(answer.status, 200, "{answer:?} {}", served.said.lock().unwrap());
        Self { served, session: answer.header("mcp-session-id").unwrap() }
    }

    fn headers(&self) -> String {
        format!("{JSON}mcp-session-id: {}\r\nmcp-protocol-version: 2025-06-18\r\n", self.session)
    }

    fn ask(&self, body: &str) -> Answer {
        self.served.ask("POST", "/mcp", &self.headers(), body)
    }

    fn tools(&self) -> Vec<String> {
        let answer = self.ask(&request(1, "tools/list", json!({}))).json();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn sessions_over_http_are_kept_apart_and_end() {
    let home = Home::new();
    let served = home.http(&["--sessions", "2"]);
    let (first, second) = (Client::open(&served), Client::open(&served));
    let full = served.ask("POST", "/mcp", JSON, &initialize("2025-06-18"));
    assert_eq!((full.status, full.header("retry-after").as_deref()), (503, Some("5")));

    let bash = |client: &Client, command: &str| {
        let answer = client.ask(&call(3, "bash", json!({"command": command})));
        let event: Value = serde_json::from_str(&answer.events()[0]).unwrap();
        event["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(bash(&first, "echo mine > mine.txt; ls"), "given.txt\nmine.txt");
    assert_eq!(bash(&second, "ls"), "given.txt");
    assert!(!home.path("repo/mine.txt").exists(), "a session works on a copy");

    let status = |headers: &str, body: &str| served.ask("POST", "/mcp", headers, body).status;
    let list = request(1, "tools/list", json!({}));
    assert_eq!(status(JSON, &list), 400, "no session");
    assert_eq!(status(&format!("{JSON}mcp-session-id: {}\r\n", "0".repeat(32)), &list), 404);
    assert_eq!(
        status(
            &format!(
                "{}mcp-protocol-version: 1999-01-01\r\n",
                first.headers().replace("mcp-protocol-version: 2025-06-18\r\n", "")
            ),
            &list
        ),
        400
    );
    assert_eq!(first.ask("{").status, 400);
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(first.ask(&told).status, 202);
    assert_eq!(served.ask("GET", "/mcp", "accept: application/json\r\n", "").status, 406);
    assert_eq!(served.ask("PUT", "/mcp", "", "").status, 405);
    assert_eq!(served.ask("DELETE", "/mcp", &first.headers(), "").status, 204);
    assert_eq!(first.ask(&list).status, 404, "it is closed");
    assert_eq!(Client::open(&served).tools(), ["bash", "count"]);
}

#[test]
fn a_silent_session_is_closed_and_a_gone_client_leaves_no_command() {
    let home = Home::new();
    let served = home.http(&["--session-seconds", "0.5"]);
    let client = Client::open(&served);
    let body = call(3, "bash", json!({"command": "sleep 600"}));
    let mut stream = served.send("POST", "/mcp", &client.headers(), &body);
    read_until(&mut stream, "text/event-stream");
    drop(stream);
    // While a call runs the session is in use, so this needs the call to have ended.
    let end = Instant::now() + SOON;
    while served.get("/health").json()["sessions"] != 0 {
        assert!(Instant::now() < end, "the session stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.ask(&request(1, "ping", json!({}))).status, 404);
}

#[test]
fn a_swap_is_seen_by_the_next_session_and_told_in_the_audit() {
    let home = Home::new();
    let socket = home.word("control");
    let mut served = home.http(&["--control", &socket]);
    let before = Client::open(&served);
    home.done(&["plugin", "build", "plugins/think/src/lib.rs", "-o", &home.word("think.wasm")]);
    home.done(&["harness", "add", "think", &home.word("think.wasm"), "--reason", "to think"]);
    let end = Instant::now() + SOON;
    // Nobody told the server: it watches the ledger.
    while Client::open(&served).tools() != ["bash", "count", "think"] {
        assert!(Instant::now() < end, "the server does not follow");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(before.tools(), ["bash", "count"], "an open session keeps its generation");

    let settled = |text: &str| {
        let sessions = text.split("; ").nth(1).unwrap_or_default();
        let count: usize = sessions.split(' ').next().unwrap_or_default().parse().unwrap_or(0);
        assert!(count > 0, "{text}");
        text.split_whitespace()
            .map(|word| if word.contains("sha256:") { "DIGEST" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
            .replace(&format!(" {count} "), " N ")
    };
    let back = home.done(&["harness", "rollback", "--server", &socket, "--reason", "it thinks too much"]);
    expect!["the server gives DIGEST to new sessions; N sessions had been open and keep what they have"]
        .assert_eq(&settled(&back.stderr));
    assert_eq!(Client::open(&served).tools(), ["bash", "count"]);
    let log = home.done(&["harness", "log", "--json"]).stdout;
    let second: Value = serde_json::from_str(log.lines().nth(1).unwrap()).unwrap();
    let digest = second["harness"].as_str().unwrap();
    home.done(&["harness", "activate", digest, "--server", &socket, "--reason", "it has to think"]);
    assert_eq!(Client::open(&served).tools(), ["bash", "count", "think"]);
    let other = home.run(&["harness", "rollback", "--server", &socket, "--home", "/tmp"]);
    assert!(other.stderr.contains("and /tmp was named"), "{}", other.stderr);
    let none = home.run(&["harness", "rollback", "--server", &home.word("nothing")]);
    assert!(none.stderr.contains("no server listens at"), "{}", none.stderr);

    served.signal("-TERM");
    assert_eq!(served.ended().code(), Some(0));
    assert!(!Path::new(&socket).exists());
    let audit = std::fs::read_to_string(home.path("home/serve-audit.jsonl")).unwrap();
    let lines: Vec<String> = audit
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {} {}",
                word("what"),
                line["entry"],
                word("kind"),
                word("actor"),
                word("reason")
            )
        })
        .collect();
    expect![[r#"
        start null - - -
        swap 2 publish ada to think
        swap 3 rollback ada it thinks too much
        swap 4 activate ada it has to think
        stop null - - -"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn who_wants_to_follow_is_told_that_the_list_changed() {
    let home = Home::new();
    let socket = home.word("control");
    let served = home.http(&["--control", &socket, "--follow"]);
    let client = Client::open(&served);
    let mut stream = served.send("GET", "/mcp", &client.headers(), "");
    read_until(&mut stream, "text/event-stream");
    home.done(&["harness", "remove", "count", "--reason", "nobody counts"]);
    read_until(&mut stream, "notifications/tools/list_changed");
    assert_eq!(client.tools(), ["bash"]);
    home.done(&["harness", "rollback", "--server", &socket]);
    read_until(&mut stream, "notifications/tools/list_changed");
    assert_eq!(client.tools(), ["bash", "count"]);
}

#[test]
fn a_harness_that_cannot_be_built_leaves_the_server_as_it_was() {
    let home = Home::new();
    let socket = home.word("control");
    let served = home.http(&["--control", &socket]);
    home.done(&["harness", "set", "limits.turns=7", "--reason", "fewer"]);
    // The component is gone from the home behind everybody's back.
    for file in std::fs::read_dir(home.path("home/blobs")).unwrap() {
        let path = file.unwrap().path();
        if std::fs::metadata(&path).unwrap().len() > 10_000 {
            std::fs::remove_file(path).unwrap();
        }
    }
    let back = home.run(&["harness", "rollback", "--server", &socket]);
    assert_eq!(back.code, Some(1), "{}", back.stderr);
    assert_eq!(Client::open(&served).tools(), ["bash", "count"]);
}

/// The ledger does not change again: the server itself tries once more what failed.
#[test]
fn a_publication_that_could_not_be_served_is_served_when_it_can() {
    let home = Home::new();
    let mut served = home.http(&[]);
    home.done(&["plugin", "build", "plugins/think/src/lib.rs", "-o", &home.word("think.wasm")]);
    // While it sleeps, a harness is published and its component is lost.
    served.signal("-STOP");
    let blobs = home.path("home/blobs");
    let names = || -> BTreeSet<PathBuf> {
        std::fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let before = names();
    home.done(&["harness", "add", "think", &home.word("think.wasm"), "--reason", "to think"]);
    let large = |path: &PathBuf| std::fs::metadata(path).unwrap().len() > 10_000;
    let lost = names().into_iter().find(|path| !before.contains(path) && large(path)).unwrap();
    std::fs::rename(&lost, home.path("away.wasm")).unwrap();
    served.signal("-CONT");
    let audit = || std::fs::read_to_string(home.path("home/serve-audit.jsonl")).unwrap_or_default();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let end = Instant::now() + SOON;
        while !done() {
            assert!(Instant::now() < end, "not {what}: {}", audit());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    until("refused", &|| audit().contains("\"refused\""));
    assert_eq!(Client::open(&served).tools(), ["bash", "count"]);
    std::fs::rename(home.path("away.wasm"), &lost).unwrap();
    until("served", &|| Client::open(&served).tools() == ["bash", "count", "think"]);
    served.signal("-TERM");
    served.ended();
    // It says once that it could not, however often it tried.
    assert_eq!(audit().matches("\"refused\"").count(), 1, "{}", audit());
}

#[test]
fn the_control_socket_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let socket = home.word("control");
    let _served = home.http(&["--control", &socket]);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let again = home.run(&["serve", "mcp", "--http", "127.0.0.1:0", "--control", &socket]);
    assert!(again.stderr.contains("another server listens at"), "{}", again.stderr);
    assert_eq!(again.code, Some(1));
}

#[test]
fn wrong_arguments_are_told_before_anything_runs() {
    let home = Home::new();
    let check = |words: &[&str], code: i32, expected: Expect| {
        let output = home.run(&[&["serve", "mcp"], words].concat());
        expected.assert_eq(&output.stderr.replace(&home.word(""), "DIR/"));
        assert_eq!(output.code, Some(code));
    };
    check(
        &["--repo", "nothing"],
        1,
        expect![[r#"
        error: the folder nothing cannot be opened
        cause: No such file or directory (os error 2)
        help: check `--repo`
    "#]],
    );
    check(
        &["--http", "0.0.0.0:0"],
        1,
        expect![[r#"
        error: others can reach 0.0.0.0:0, and no token keeps them out
        help: put a token into a file and name it with `--token-file`, or into `TANDEM_SERVE_TOKEN`; or listen at 127.0.0.1
    "#]],
    );
    check(
        &["--harness", "0123456789"],
        1,
        expect![[r#"
        error: `0123456789` names no harness of `DIR/home`
        help: take a digest, or at least 4 of its digits, from `tandem harness log`; or `current`, `previous`, or a manifest file
    "#]],
    );
}
