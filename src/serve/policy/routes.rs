//! What can be asked of a served policy? The routes of OpenAI's API, its health and its counts.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::answer::{Answer, Kind, random};
use super::conversation::Prompt;
use super::engine::{Engine, Event, Running, Wanted, failed};
use super::meters::Meters;
use super::request::{ChatRequest, Common, TextRequest};
use crate::serve::drain::Drain;
use crate::serve::listen::{HEALTH, Limits, read_body};
use crate::serve::refusal::{Refusal, json_body};

/// Silence in a stream after which a comment says that the server is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a request may wait until it is read and tokenized.
const TURN: Duration = Duration::from_secs(10);

/// What every route knows.
#[derive(Clone)]
struct App {
    engine: Arc<Engine>,
    limits: Limits,
    drain: Drain,
    refused: Arc<AtomicU64>,
    /// Places for requests that are read and tokenized.
    readers: Arc<Semaphore>,
}

/// The routes. `refused` counts the connections that the listener turned away.
pub fn router(engine: Arc<Engine>, limits: Limits, drain: Drain, refused: Arc<AtomicU64>) -> Router {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let app = App { engine, limits, drain, refused, readers: Arc::new(Semaphore::new(cores)) };
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(text))
        .route(HEALTH, get(health))
        .route("/metrics", get(metrics))
        .fallback(nothing_there)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

/// Counts requests by route, of which there are few whatever is asked for.
async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let known = ["/v1/models", "/v1/chat/completions", "/v1/completions", HEALTH, "/metrics"];
    let route = known.into_iter().find(|route| path == *route).unwrap_or("other");
    let response = next.run(request).await;
    app.engine.meters.answered(route, response.status().as_u16());
    response
}

async fn nothing_there(request: Request) -> Refusal {
    let said = format!("there is nothing at {}", request.uri().path());
    Refusal::new(StatusCode::NOT_FOUND, "not_found", said)
}

async fn other_method(request: Request) -> Refusal {
    let said = format!("{} is not taken at {}", request.method(), request.uri().path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", said)
}

impl App {
    fn model(&self) -> Value {
        let context = self.engine.generator.context();
        json!({"id": self.engine.name, "object": "model", "created": 0, "owned_by": "tandem", "max_model_len": context})
    }
}

async fn models(State(app): State<App>) -> Response {
    json_body(&json!({"object": "list", "data": [app.model()]}))
}

async fn model(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Refusal> {
    is_served(&app.engine, &name)?;
    Ok(json_body(&app.model()))
}

fn is_served(engine: &Engine, name: &str) -> Result<(), Refusal> {
    if name == engine.name {
        return Ok(());
    }
    let said = format!("there is no model `{}` here; there is `{}`", name.escape_debug(), engine.name);
    let refusal = Refusal::new(StatusCode::NOT_FOUND, "model_not_found", said);
    Err(Refusal { param: Some("model".into()), ..refusal })
}

async fn health(State(app): State<App>) -> Response {
    let version = app.engine.generator.version();
    let (status, word) = match app.drain.has_begun() {
        false => (StatusCode::OK, "ok"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    let body = json!({"status": word, "model": app.engine.name, "policy_version": version});
    (status, json_body(&body)).into_response()
}

async fn metrics(State(app): State<App>) -> Response {
    let (running, waiting) = app.engine.load();
    let slots = app.engine.generator.slots() as u64;
    let refused = app.refused.load(Ordering::Relaxed);
    let text = app.engine.meters.text(&[
        ("tandem_serve_slots", "Replies that can be sampled at once.", slots),
        ("tandem_serve_slots_in_use", "Replies that are sampled now.", running as u64),
        ("tandem_serve_queue_length", "Replies that wait for a slot.", waiting as u64),
        ("tandem_serve_connections_refused_total", "Connections over the most that are taken.", refused),
        ("tandem_serve_policy_version", "Version of the policy.", app.engine.generator.version()),
    ]);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Does work that takes a while, such as to tokenize a long prompt, once there is a place for it.
///
/// # Errors
/// Those of the work; and that no place was free within `wait`.
async fn in_turn<T: Send + 'static>(
    places: &Arc<Semaphore>,
    wait: Duration,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(Ok(place)) = tokio::time::timeout(wait, places.clone().acquire_owned()).await else {
        let said = "too many requests wait to be read; try again soon";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", said).retry_after(1));
    };
    let done = tokio::task::spawn_blocking(move || {
        // Nothing stops this once it runs, also when its client goes away: the place is its own, so that
        // such work cannot pile up.
        let _place = place;
        work()
    });
    done.await.map_err(|_| Refusal::internal("the request broke the server"))?
}

async fn chat(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let watch = Watch::new(&app.engine);
    let body = read_body(request.into_body(), &app.limits).await?;
    let engine = app.engine.clone();
    let made = in_turn(&app.readers, TURN, move || {
        let request = ChatRequest::read(&body, &engine.defaults)?;
        is_served(&engine, &request.common.model)?;
        let prompt = engine.dialect.prompt(&engine.chat, &request).map_err(|error| {
            let text = error.to_string();
            Refusal::of_parameter("messages", text.split("\nhelp: ").next().unwrap_or_default())
        })?;
        Ok((request.tool_names(), request.common, vec![prompt]))
    });
    let (tools, how, prompts) = made.await?;
    answer(&app, Kind::Chat, how, tools, prompts, watch).await
}

async fn text(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let watch = Watch::new(&app.engine);
    let body = read_body(request.into_body(), &app.limits).await?;
    let engine = app.engine.clone();
    let made = in_turn(&app.readers, TURN, move || {
        let request = TextRequest::read(&body, &engine.defaults)?;
        is_served(&engine, &request.common.model)?;
        let ids = |prompt| match prompt {
            Prompt::Ids(ids) => Ok(ids),
            Prompt::Text(text) => {
                let ids = engine.tokenizer.encode_document(&text);
                ids.map_err(|error| Refusal::of_parameter("prompt", error.to_string()))
            }
        };
        let prompts: Result<Vec<_>, Refusal> = request.prompts.into_iter().map(ids).collect();
        Ok((request.common, prompts?))
    });
    let (how, prompts) = made.await?;
    answer(&app, Kind::Text, how, Vec::new(), prompts, watch).await
}

/// Samples the replies and answers, whole or as a stream.
async fn answer(
    app: &App,
    kind: Kind,
    how: Common,
    tools: Vec<String>,
    prompts: Vec<Vec<u32>>,
    mut watch: Watch,
) -> Result<Response, Refusal> {
    let seed = how.seed.unwrap_or_else(random);
    let mut wanted = Vec::new();
    for prompt in &prompts {
        let max_tokens = app.engine.reply_tokens(prompt.len(), how.max_tokens)?;
        for _ in 0..how.n {
            // A seed of its own for each reply; the constant is the golden ratio in 64 bits.
            let seed = seed.wrapping_add((wanted.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            wanted.push(Wanted { prompt: prompt.clone(), max_tokens, seed });
        }
    }
    let open = wanted.len();
    let mut running = app.engine.start(wanted, &how)?;
    let streamed = how.stream;
    let mut answer = Answer::new(app.engine.clone(), kind, how, tools, prompts);
    watch.began = true;
    if streamed {
        let pending = answer.first_events().iter().map(event).collect();
        let streaming = Streaming { running, answer, open, pending, watch };
        let body = Body::from_stream(stream::unfold(Some(streaming), Streaming::next));
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        return Ok((headers, body).into_response());
    }
    let mut open = open;
    while open > 0 {
        match running.events.recv().await {
            Some((number, Event::Token(token))) => {
                watch.token();
                answer.push(number, token)?;
            }
            Some((number, Event::Done(Ok(sampled)))) => {
                answer.end(number, &sampled)?;
                open -= 1;
            }
            Some((_, Event::Done(Err(error)))) => {
                watch.over(&answer);
                return Err(failed(&error));
            }
            None => return Err(Refusal::internal("the reply was not sampled to its end")),
        }
    }
    watch.over(&answer);
    Ok(json_body(&answer.whole()))
}

/// An answer that is being streamed. Dropped with the connection, it ends the sampling.
struct Streaming {
    running: Running,
    answer: Answer,
    /// Replies that have not ended.
    open: usize,
    pending: VecDeque<Bytes>,
    watch: Watch,
}

fn event(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

impl Streaming {
    /// The next piece, and what comes after it.
    async fn next(this: Option<Self>) -> Option<(Result<Bytes, Infallible>, Option<Self>)> {
        let mut this = this?;
        loop {
            if let Some(piece) = this.pending.pop_front() {
                let over = this.open == 0 && this.pending.is_empty();
                return Some((Ok(piece), (!over).then_some(this)));
            }
            let Ok(next) = tokio::time::timeout(KEEP_ALIVE, this.running.events.recv()).await else {
                return Some((Ok(Bytes::from_static(b": still here\n\n")), Some(this)));
            };
            if let Err(refusal) = this.take(next) {
                this.open = 0;
                this.watch.over(&this.answer);
                this.pending.push_back(event(&refusal.body()));
            }
        }
    }

    fn take(&mut self, next: Option<(usize, Event)>) -> Result<(), Refusal> {
        match next {
            Some((number, Event::Token(token))) => {
                self.watch.token();
                self.answer.push(number, token)?;
                self.pending.extend(self.answer.news(number).as_ref().map(event));
            }
            Some((number, Event::Done(Ok(sampled)))) => {
                self.answer.end(number, &sampled)?;
                self.pending.extend(self.answer.last_events(number).iter().map(event));
                self.open -= 1;
                if self.open == 0 {
                    self.watch.over(&self.answer);
                    self.pending.extend(self.answer.usage_event().as_ref().map(event));
                    self.pending.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
                }
            }
            Some((_, Event::Done(Err(error)))) => return Err(failed(&error)),
            None => return Err(Refusal::internal("the reply was not sampled to its end")),
        }
        Ok(())
    }
}

/// Measures one request, also one whose client goes away.
struct Watch {
    meters: Arc<Meters>,
    start: Instant,
    /// Whether sampling was asked for.
    began: bool,
    first: bool,
    over: bool,
}

impl Watch {
    fn new(engine: &Engine) -> Self {
        Self { meters: engine.meters.clone(), start: Instant::now(), began: false, first: true, over: false }
    }

    fn token(&mut self) {
        if std::mem::take(&mut self.first) {
            self.meters.first_token(self.start.elapsed());
        }
    }

    fn over(&mut self, answer: &Answer) {
        self.over = true;
        let (prompt, reply) = answer.tokens();
        self.meters.prompt_tokens.fetch_add(prompt, Ordering::Relaxed);
        self.meters.reply_tokens.fetch_add(reply, Ordering::Relaxed);
        self.meters.whole(self.start.elapsed());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.began && !self.over {
            self.meters.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_whose_client_went_away_keeps_its_place() {
        let places = Arc::new(Semaphore::new(1));
        let (begin, begun) = tokio::sync::oneshot::channel::<()>();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let of_client = places.clone();
        let client = tokio::spawn(async move {
            let work = move || {
                let _ = begin.send(());
                let _ = released.recv();
                Ok(())
            };
            in_turn(&of_client, TURN, work).await
        });
        begun.await.unwrap();
        client.abort();
        assert!(client.await.is_err());
        let refusal = in_turn(&places, Duration::ZERO, || Ok(())).await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after), (429, Some(1)));
        release.send(()).unwrap();
        assert_eq!(in_turn(&places, TURN, || Ok(7)).await, Ok(7));
    }
}
