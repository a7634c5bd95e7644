//! A server under test: the program as it runs, and HTTP by hand, so that a test can be as rude as it wants.

#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tandem_trainer::Device;
use tandem_trainer::checkpoint::{CheckpointInfo, save_policy};
use tandem_trainer::model::CausalLm;
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::StoredType;

/// How long anything may take that should happen soon; a loaded machine is slow.
pub const SOON: Duration = Duration::from_secs(60);

/// A random policy with a long context, in a new folder.
pub fn policy(folder: &Path) -> PathBuf {
    let config =
        tandem_trainer::model::ModelConfig { max_position_embeddings: 8192, ..crate::tiny::config() };
    let path = folder.join("tiny");
    let info = CheckpointInfo { policy_version: 4, harness_digest: None, parent: None, base: "tiny".into() };
    let model = CausalLm::random(config, 7, &Device::flex());
    save_policy(&path, &model, &Tokenizer::of_bytes(), StoredType::F32, &info).unwrap();
    path
}

/// A running server.
pub struct Served {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// Everything that it said so far on both streams.
    pub said: Arc<Mutex<String>>,
}

impl Served {
    /// Starts `tandem serve …` with a free port and waits until it listens.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.args(arguments).current_dir(crate::program::root()).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said: Arc<Mutex<String>> = Arc::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap();
                    said.push_str(&line);
                    said.push('\n');
                }
            });
        }
        let mut served = Self { child, address: String::new(), said };
        let end = Instant::now() + SOON;
        while served.address.is_empty() {
            let said = served.said.lock().unwrap().clone();
            if let Some((_, rest)) = said.split_once("at http://") {
                served.address = rest.split(['/', '\n']).next().unwrap_or_default().to_owned();
            }
            assert!(Instant::now() < end && served.child.try_wait().unwrap().is_none(), "no server: {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// Sends a request and leaves the connection open.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let length = body.len();
        let host = &self.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let headers = format!("connection: close\r\n{headers}");
        Answer::read(&mut self.send(method, path, &headers, body))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, "", &body.to_string())
    }

    /// A value of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    /// Waits until a value of `/metrics` is `expected`.
    pub fn wait_for(&self, name: &str, expected: f64) {
        let end = Instant::now() + SOON;
        loop {
            let found = self.metric(name);
            if found == expected {
                return;
            }
            assert!(Instant::now() < end, "{name} is {found}, wanted {expected}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// How it ended.
    pub fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer of a server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads to the end of the connection.
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A server that closed while the client still sent resets the connection.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Self { status, head: head.to_owned(), body }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The data of the events of a stream.
    pub fn events(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// Reads until `text` has come.
pub fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the connection ended before {text:?}: {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    seen
}

/// Whether the other end closes within [`SOON`], whatever it says before.
pub fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                );
            }
        }
    }
}

/// The client says that it sends no more.
pub fn half_close(stream: &TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
}

/// A request for a long reply.
pub fn long(stream: bool) -> Value {
    json!({"model": "tiny", "temperature": 0, "max_tokens": 8000, "ignore_eos": true, "stream": stream, "prompt": "a"})
}
