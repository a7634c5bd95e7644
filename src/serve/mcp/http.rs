//! How do clients talk to a server that runs already? Streamable HTTP: messages are posted, answers and
//! notifications come as JSON or as streams of events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::message::{Failure, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, VERSIONS, notification, read};
use super::server::Server;
use super::session::Session;
use super::stdio::start;
use crate::serve::drain::Drain;
use crate::serve::listen::{HEALTH, Limits, read_body};
use crate::serve::refusal::{Refusal, json_body};

/// Where messages are posted.
pub const PATH: &str = "/mcp";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// Silence in a stream after which a comment says that the server is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How many sessions there may be, and how long one may be silent.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    pub count: usize,
    pub silent: Duration,
}

/// What every route knows.
#[derive(Clone)]
struct App {
    server: Arc<Server>,
    sessions: Arc<Mutex<HashMap<String, Open>>>,
    session_limits: SessionLimits,
    limits: Limits,
    drain: Drain,
}

/// A session that clients can name.
struct Open {
    session: Arc<Session>,
    last: Instant,
    /// Told when it is closed.
    closed: watch::Sender<bool>,
}

/// The routes.
pub fn router(server: Arc<Server>, limits: Limits, session_limits: SessionLimits, drain: Drain) -> Router {
    let app = App { server, sessions: Arc::default(), session_limits, limits, drain };
    tokio::spawn(sweeping(app.clone()));
    Router::new()
        .route(PATH, post(posted).get(listen).delete(close))
        .route(HEALTH, get(health))
        .fallback(|| async {
            Refusal::new(StatusCode::NOT_FOUND, "not_found", format!("messages are posted to {PATH}"))
        })
        .with_state(app)
}

/// Closes silent sessions also where nobody asks for new ones.
async fn sweeping(app: App) {
    let pause = app.session_limits.silent.clamp(Duration::from_millis(100), Duration::from_secs(30));
    while !app.drain.has_begun() {
        tokio::time::sleep(pause).await;
        app.sweep();
    }
}

async fn health(State(app): State<App>) -> Response {
    let (status, word) = match app.drain.has_begun() {
        false => (StatusCode::OK, "ok"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    let harness = app.server.lease().digest().to_string();
    let body = json!({"status": word, "harness": harness, "sessions": app.server.sessions()});
    (status, json_body(&body)).into_response()
}

/// An answer that is no success, as a message without an id.
fn refused(status: StatusCode, failure: &Failure) -> Response {
    (status, json_body(&failure.response(&Value::Null))).into_response()
}

impl App {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the sessions that nobody used for long; one in use is held by somebody else too.
    fn sweep(&self) {
        let silent = self.session_limits.silent;
        let is_over = |open: &Open| Arc::strong_count(&open.session) == 1 && open.last.elapsed() >= silent;
        // Dropped after the lock is free: a workspace takes a while to go.
        let _over: Vec<(String, Open)> = self.open().extract_if(|_, open| is_over(open)).collect();
    }

    /// The session that a request names.
    fn session(&self, headers: &HeaderMap) -> Result<(Arc<Session>, watch::Receiver<bool>), Box<Response>> {
        let told = headers.get(VERSION).and_then(|version| version.to_str().ok());
        if let Some(version) = told.filter(|version| !VERSIONS.contains(version)) {
            let said = format!(
                "the protocol version `{}` is not spoken; these are: {}",
                version.escape_debug(),
                VERSIONS.join(", ")
            );
            return Err(Box::new(refused(StatusCode::BAD_REQUEST, &Failure::new(INVALID_REQUEST, said))));
        }
        let Some(id) = headers.get(SESSION).and_then(|id| id.to_str().ok()) else {
            let said = "there is no session: send `initialize` first, then the header `Mcp-Session-Id`";
            return Err(Box::new(refused(StatusCode::BAD_REQUEST, &Failure::new(METHOD_NOT_FOUND, said))));
        };
        match self.open().get_mut(id) {
            Some(open) => {
                open.last = Instant::now();
                Ok((open.session.clone(), open.closed.subscribe()))
            }
            None => {
                let said = "the session is not open any more; send `initialize` again";
                Err(Box::new(refused(StatusCode::NOT_FOUND, &Failure::new(INVALID_REQUEST, said))))
            }
        }
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accepted.any(|accept| accept.contains("text/event-stream"))
}

async fn posted(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let bytes = read_body(body, &app.limits).await?;
    let messages = match read(&bytes) {
        Ok(messages) => messages,
        Err(failure) => return Ok(refused(StatusCode::BAD_REQUEST, &failure)),
    };
    let begins =
        |message: &Incoming| matches!(message, Incoming::Request { method, .. } if method == "initialize");
    if messages.iter().any(begins) {
        return initialize(&app, messages).await;
    }
    let (session, _) = match app.session(&head.headers) {
        Ok(session) => session,
        Err(refusal) => return Ok(*refusal),
    };
    let slow =
        |message: &Incoming| matches!(message, Incoming::Request { method, .. } if method == "tools/call");
    let streamed = messages.iter().any(slow) && accepts_events(&head.headers);
    let many = messages.len() > 1;
    let (out, outgoing) = unbounded_channel();
    let mut tasks = JoinSet::new();
    session.prune();
    for message in messages {
        start(&session, message, &out, &mut tasks);
    }
    drop(out);
    let answering = Answering { outgoing, _tasks: tasks, session };
    match streamed {
        true => Ok(events(stream::unfold(answering, Answering::event))),
        false => Ok(answering.whole(many).await),
    }
}

/// Opens a session and answers its first request.
async fn initialize(app: &App, messages: Vec<Incoming>) -> Result<Response, Refusal> {
    let Ok([Incoming::Request { id, params, .. }]) = <[Incoming; 1]>::try_from(messages) else {
        let failure = Failure::new(INVALID_REQUEST, "`initialize` comes alone");
        return Ok(refused(StatusCode::BAD_REQUEST, &failure));
    };
    app.sweep();
    let full = || {
        let said = format!("{} sessions are open, and no more are taken", app.session_limits.count);
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_sessions", said).retry_after(5)
    };
    let session = app.server.open(app.session_limits.count).await.map_err(|error| {
        tracing::error!("{error:#}");
        Refusal::internal("the session could not be opened; the log of the server says why")
    })?;
    let session = session.ok_or_else(full)?;
    let (out, _outgoing) = unbounded_channel();
    let session = Arc::new(session);
    let answer = session.answer("initialize", &params, &out).await;
    let name = session_name()?;
    app.open()
        .insert(name.clone(), Open { session, last: Instant::now(), closed: watch::Sender::new(false) });
    let body = json_body(&super::message::response(&id, answer));
    Ok(([(SESSION, name)], body).into_response())
}

/// A name that nobody guesses: whoever knows it is the session's client.
fn session_name() -> Result<String, Refusal> {
    use ring::rand::SecureRandom;
    let mut bytes = [0; 16];
    let random = ring::rand::SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| Refusal::internal("this machine has no random numbers"))?;
    Ok(hex::encode(bytes))
}

/// Answers on their way to a client. Dropped, when the client is gone, what runs for it ends.
struct Answering {
    outgoing: UnboundedReceiver<Value>,
    _tasks: JoinSet<()>,
    session: Arc<Session>,
}

impl Answering {
    /// The answers as JSON; nothing where nothing is to be answered, or all was cancelled.
    async fn whole(mut self, many: bool) -> Response {
        let mut answers = Vec::new();
        while let Some(message) = self.outgoing.recv().await {
            // What is told on the way has no place here.
            if message.get("id").is_some() {
                answers.push(message);
            }
        }
        match (answers.pop(), many) {
            (None, _) => StatusCode::ACCEPTED.into_response(),
            (Some(answer), false) => json_body(&answer),
            (Some(last), true) => {
                answers.push(last);
                json_body(&Value::Array(answers))
            }
        }
    }

    async fn event(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let piece = match tokio::time::timeout(KEEP_ALIVE, self.outgoing.recv()).await {
            Ok(Some(message)) => Bytes::from(format!("event: message\ndata: {message}\n\n")),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(piece), self))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The tasks end with the set that holds them; the session remembers none of them for long.
        self.session.prune();
    }
}

fn events(pieces: impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(pieces)).into_response()
}

/// A stream of what the server says by itself.
async fn listen(State(app): State<App>, headers: HeaderMap) -> Response {
    if !accepts_events(&headers) {
        let failure = Failure::new(INVALID_REQUEST, "a stream of events is all there is here");
        return refused(StatusCode::NOT_ACCEPTABLE, &failure);
    }
    let (session, closed) = match app.session(&headers) {
        Ok(session) => session,
        Err(refusal) => return *refusal,
    };
    let listening = Listening {
        swaps: app.server.swaps(),
        server: app.server,
        closed,
        drain: app.drain,
        _session: session,
    };
    events(stream::unfold(listening, Listening::next))
}

struct Listening {
    server: Arc<Server>,
    swaps: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    drain: Drain,
    /// Held, so that the session is in use.
    _session: Arc<Session>,
}

impl Listening {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let piece = tokio::select! {
            swapped = self.swaps.changed(), if self.server.follows() => {
                swapped.ok()?;
                let said = notification("notifications/tools/list_changed", json!({}));
                Bytes::from(format!("event: message\ndata: {said}\n\n"))
            }
            // The sender goes with the session, which is an end too.
            _ = self.closed.wait_for(|closed| *closed) => return None,
            () = self.drain.begun() => return None,
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(piece), self))
    }
}

/// Ends a session.
async fn close(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Err(refusal) = app.session(&headers) {
        return *refusal;
    }
    let id = headers.get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    if let Some(open) = app.open().remove(id) {
        open.session.cancel_all();
        open.closed.send_replace(true);
    }
    StatusCode::NO_CONTENT.into_response()
}
