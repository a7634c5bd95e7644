//! A real HTTP server on this machine that speaks the wire formats of model
//! endpoints, and can be slow, break off, or say no.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What the server does with one request.
pub enum Answer {
    /// A whole answer: the status line's rest, further header lines, the body.
    Whole { status: &'static str, headers: String, body: String },
    /// A stream of these pieces, and how it ends.
    Stream { pieces: Vec<String>, end: End },
    /// Nothing, until the test is over.
    Silence,
    /// The connection is closed before a byte of the answer.
    Close,
}

/// How a stream ends.
pub enum End {
    /// As it should.
    Whole,
    /// The connection breaks in the middle.
    Break,
    /// Nothing more comes, and the connection stays.
    Silence,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub head: String,
    pub body: Value,
}

pub struct Server {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    /// `answer` is given the number of the request, from 0, and the request.
    pub fn start(answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let (kept, ended, answer) = (asked.clone(), over.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (kept, ended, answer) = (kept.clone(), ended.clone(), answer.clone());
                std::thread::spawn(move || {
                    let Ok(mut stream) = stream else { return };
                    let Some(request) = read(&mut stream) else { return };
                    let number = {
                        let mut kept = kept.lock().unwrap();
                        kept.push(request.clone());
                        kept.len() - 1
                    };
                    // A client that has gone away is no fault of the server.
                    let _ = send(&mut stream, answer(number, &request), &ended);
                });
            }
        });
        Self { url, asked, over }
    }

    /// Answers one after the other; the last one again and again.
    pub fn saying(answers: Vec<Box<dyn Fn() -> Answer + Send + Sync>>) -> Self {
        Self::start(move |number, _| answers[number.min(answers.len() - 1)]())
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// A text with the port, which differs from run to run, left out.
    pub fn plain(&self, text: &str) -> String {
        let port = self.url.rsplit([':', '/']).nth(1).unwrap();
        text.replace(port, "PORT")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let address = self.url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(address);
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 16 << 10];
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if bytes.len() >= at + 4 + length.unwrap_or(0) {
            let body = serde_json::from_slice(&bytes[at + 4..]).unwrap_or(Value::Null);
            return Some(Asked { head, body });
        }
    }
}

fn send(stream: &mut TcpStream, answer: Answer, over: &AtomicBool) -> std::io::Result<()> {
    let wait = || {
        while !over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    match answer {
        Answer::Whole { status, headers, body } => {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
            )
        }
        Answer::Stream { pieces, end } => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
            )?;
            for piece in pieces {
                write!(stream, "{:x}\r\n{piece}\r\n", piece.len())?;
                stream.flush()?;
            }
            match end {
                End::Whole => write!(stream, "0\r\n\r\n"),
                End::Break => Ok(()),
                End::Silence => {
                    wait();
                    Ok(())
                }
            }
        }
        Answer::Silence => {
            wait();
            Ok(())
        }
        Answer::Close => Ok(()),
    }
}

/// A whole answer in the format of chat completions.
pub fn whole(text: &str) -> Answer {
    let body = json!({
        "id": "c1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    });
    Answer::Whole {
        status: "200 OK",
        headers: "content-type: application/json\r\n".into(),
        body: body.to_string(),
    }
}

/// An error as endpoints tell it.
pub fn error(status: &'static str, headers: &str, message: &str) -> Answer {
    let body = json!({"error": {"message": message, "type": "x"}}).to_string();
    Answer::Whole { status, headers: headers.to_owned(), body }
}

/// Events of a stream of chat completions that say `text` in pieces of a few characters.
pub fn chunks(text: &str, finish: Option<&str>) -> Vec<String> {
    let event = |value: Value| format!("data: {value}\n\n");
    let chunk = |delta: Value, finish: Option<&str>| {
        event(json!({"id": "c1", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let mut events =
        vec![": keep alive\n\n".to_owned(), chunk(json!({"role": "assistant", "content": ""}), None)];
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(7) {
        events.push(chunk(json!({"content": piece.iter().collect::<String>()}), None));
    }
    if let Some(finish) = finish {
        events.push(chunk(json!({}), Some(finish)));
        events.push(event(json!({"id": "c1", "object": "chat.completion.chunk", "choices": [],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}})));
        events.push("data: [DONE]\n\n".to_owned());
    }
    events
}

/// A whole stream of chat completions.
pub fn stream(text: &str) -> Answer {
    Answer::Stream { pieces: chunks(text, Some("stop")), end: End::Whole }
}
