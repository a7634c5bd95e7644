//! Who may connect, how many at once, and how long may each of them keep the server waiting?

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::drain::Drain;
use super::refusal::Refusal;
use super::stall::Stalling;
use super::token::{AccessToken, VARIABLE};

/// The path that tells whether a server is well, to anybody.
pub const HEALTH: &str = "/health";

/// What a listener grants to those who connect.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at once; one more is told so and closed.
    pub connections: usize,
    /// Most bytes of a request's body.
    pub body_bytes: usize,
    /// How long the head of a request may take, and the next request of an idle connection.
    pub head: Duration,
    /// How long the body of a request may take.
    pub body: Duration,
    /// How long the other end may take nothing of an answer.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 256,
            body_bytes: 8 << 20,
            head: seconds(30),
            body: seconds(30),
            stall: seconds(60),
        }
    }
}

/// A place to listen at, and who may ask there.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    token: Option<Arc<AccessToken>>,
    limits: Limits,
    /// Connections that were turned away.
    refused: Arc<AtomicU64>,
}

impl Listener {
    /// Listens at `address`, which is `HOST:PORT` with an address of this machine or `localhost`; port 0
    /// takes a free one.
    ///
    /// # Errors
    /// An address that others can reach, without a token; one that is none, or is taken.
    pub async fn bind(address: &str, token: Option<AccessToken>, limits: Limits) -> Result<Self> {
        let parsed = match address.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}").parse(),
            None => address.parse::<SocketAddr>(),
        };
        let Ok(wanted) = parsed else {
            bail!("`{address}` is no address to listen at\nhelp: write it like `127.0.0.1:8000`")
        };
        if token.is_none() && !wanted.ip().to_canonical().is_loopback() {
            bail!(
                "others can reach {wanted}, and no token keeps them out\nhelp: put a token into a file and name it with `--token-file`, or into `{VARIABLE}`; or listen at 127.0.0.1"
            );
        }
        let socket = TcpListener::bind(wanted).await.with_context(|| {
            format!("nobody can listen at {wanted}\nhelp: choose another port with `--listen`")
        })?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, token: token.map(Arc::new), limits, refused: Arc::default() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Counts the connections that are turned away.
    pub fn refused(&self) -> Arc<AtomicU64> {
        self.refused.clone()
    }

    /// Answers requests by `router` until `drain` has begun and everything that was under way is
    /// answered. Requests after that are told to come back later.
    pub async fn serve(self, router: Router, drain: Drain) {
        let guard = Guard { token: self.token.clone(), limits: self.limits, drain: drain.clone() };
        let router = router.layer(middleware::from_fn_with_state(Arc::new(guard), admit));
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let mut before = JoinSet::new();
        let mut latecomers = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(_) = before.join_next(), if !before.is_empty() => continue,
                () = drain.begun(), if before.is_empty() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                // No file handles left, most likely: others give theirs back.
                Err(error) => {
                    tracing::warn!("a connection could not be taken: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(place) = places.clone().try_acquire_owned() else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                turn_away(&stream);
                continue;
            };
            // Who comes late is told so, on a connection that ends with the server.
            let late = drain.has_begun();
            let begun = (!late).then(|| drain.clone());
            let connection = connection(stream, router.clone(), self.limits, begun, place);
            match late {
                false => before.spawn(connection),
                true => latecomers.spawn(connection),
            };
            while latecomers.try_join_next().is_some() {}
        }
    }
}

/// Says that there is no room, as far as that is possible without waiting for anybody.
fn turn_away(stream: &TcpStream) {
    let said = "too many connections are open";
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", said);
    let body = refusal.body().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A new connection has room for as much as this.
    let _ = stream.try_write(answer.as_bytes());
}

async fn connection(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    drain: Option<Drain>,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Stalling::new(stream, limits.stall));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.into_response()) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(64 << 10)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let begun = async {
        match &drain {
            Some(drain) => drain.begun().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = begun => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection broke off: {error}");
    }
}

/// What is asked of every request before it is looked at.
struct Guard {
    token: Option<Arc<AccessToken>>,
    limits: Limits,
    drain: Drain,
}

async fn admit(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if let Some(refusal) = guard.refusal(request.uri(), request.headers()) {
        return refusal.into_response();
    }
    next.run(request).await
}

impl Guard {
    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<Refusal> {
        if uri.path() == HEALTH {
            return None;
        }
        match &self.token {
            Some(token) if !token.is_shown(headers) => {
                let said = "the access token is missing or another one; send `Authorization: Bearer TOKEN`";
                return Some(Refusal::new(StatusCode::UNAUTHORIZED, "invalid_api_key", said));
            }
            None if !is_from_here(headers) => {
                let said = "a page of another site asks, or this machine is named by another name; without an access token only `localhost` and loopback addresses are answered";
                return Some(Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", said));
            }
            _ => {}
        }
        if self.drain.has_begun() {
            let said = "the server is shutting down";
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", said);
            return Some(refusal.retry_after(5));
        }
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        length.filter(|length| *length > self.limits.body_bytes as u64).map(|length| {
            let limit = self.limits.body_bytes;
            let said = format!("the body has {length} bytes, and at most {limit} are taken");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", said)
        })
    }
}

/// Whether `Host` and `Origin` name this machine: a page in a browser here may send requests to loopback
/// addresses, and a name of its own may be made to lead there.
fn is_from_here(headers: &HeaderMap) -> bool {
    let is_local = |name: &header::HeaderName, prefix: bool| {
        let Some(value) = headers.get(name) else { return true };
        let Ok(text) = value.to_str() else { return false };
        let authority = match (prefix, text.split_once("://")) {
            (true, Some((_, authority))) => authority,
            (true, None) => return false,
            (false, _) => text,
        };
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let address = host.parse::<std::net::IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    };
    is_local(&header::HOST, false) && is_local(&header::ORIGIN, true)
}

/// The body of a request, within size and time.
pub async fn read_body(body: Body, limits: &Limits) -> Result<Bytes, Refusal> {
    let read = async {
        let mut stream = body.into_data_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|_| {
                Refusal::new(StatusCode::BAD_REQUEST, "broken_body", "the body of the request broke off")
            })?;
            if bytes.len() + piece.len() > limits.body_bytes {
                let limit = limits.body_bytes;
                let said = format!("the body has more than the {limit} bytes that are taken");
                return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", said));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Bytes::from(bytes))
    };
    tokio::time::timeout(limits.body, read).await.unwrap_or_else(|_| {
        let said = format!("the body of the request took longer than {} seconds", limits.body.as_secs_f32());
        Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow_body", said))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_are_not_answered_without_a_token() {
        let check = |host: Option<&str>, origin: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(is_from_here(&headers), expected, "{host:?} {origin:?}");
        };
        check(None, None, true);
        check(Some("127.0.0.1:8000"), None, true);
        check(Some("localhost"), Some("http://localhost:3000"), true);
        check(Some("[::1]:80"), Some("http://[::1]"), true);
        check(Some("attacker.example:8000"), None, false);
        check(Some("127.0.0.1.attacker.example"), None, false);
        check(Some("127.0.0.1"), Some("https://attacker.example"), false);
        check(Some("127.0.0.1"), Some("null"), false);
    }

    #[tokio::test]
    async fn nobody_listens_for_others_without_a_token() {
        let check = |address: &'static str, token: Option<AccessToken>| async move {
            let bound = Listener::bind(address, token, Limits::default()).await;
            bound.map(|_| ()).map_err(|error| error.to_string())
        };
        let refused = check("0.0.0.0:0", None).await.unwrap_err();
        assert!(refused.starts_with("others can reach 0.0.0.0:0, and no token keeps them out\nhelp: "));
        assert!(check("[::]:0", None).await.is_err());
        assert!(check("10.1.2.3:0", None).await.unwrap_err().contains("others can reach"));
        assert!(check("somewhere", None).await.unwrap_err().contains("no address to listen at"));
        assert_eq!(check("localhost:0", None).await, Ok(()));
        assert_eq!(check("127.0.0.1:0", None).await, Ok(()));
        assert_eq!(check("0.0.0.0:0", AccessToken::new("0123456789abcdef").ok()).await, Ok(()));
    }
}
