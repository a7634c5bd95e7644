//! How is a registry asked? The OCI Distribution Specification 1.1, over HTTP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION, RANGE,
    WWW_AUTHENTICATE,
};
use reqwest::{Client, Method, Request, Response, StatusCode, Url};
use serde::Deserialize;
use tandem_host::store::Digest;

use super::artefact::{MANIFEST, MANIFEST_BYTES};
use super::credentials::{Credentials, find};
use super::error::OciError;
use super::reference::address_of;
use super::store::Access;

/// Bytes of one piece of an upload.
const PIECE: u64 = 16 << 20;
/// Tries without a new byte, after which a transfer fails.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(300);
/// Time for a whole answer that is small.
const SMALL: Duration = Duration::from_secs(120);
/// Time for a file, whatever its size, and the bytes of a second that give it more.
const FILE: Duration = Duration::from_secs(600);
const RATE: u64 = 16 << 10;
/// Bytes of an answer that is an error.
const ERROR_BYTES: usize = 64 << 10;

/// One repository of one registry.
pub struct Registry {
    client: Client,
    /// `https://HOST/v2/REPOSITORY/`.
    base: Url,
    host: String,
    repository: String,
    credentials: Option<Credentials>,
    /// Whether other machines may be asked without TLS.
    plain_http: bool,
    /// What the registry let us in with, by whether it is to write.
    tokens: Mutex<BTreeMap<Access, HeaderValue>>,
}

/// What a registry wants to see.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    basic: bool,
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registry {
    /// A repository. Without TLS only on this machine, unless `plain_http` allows it.
    pub fn open(host: &str, repository: &str, plain_http: bool) -> Result<Self, OciError> {
        let local = is_local(host);
        let scheme = if local || plain_http { "http" } else { "https" };
        let asked = address_of(host);
        let bad = |reason| OciError::Reference { text: host.to_owned(), reason };
        let base = Url::parse(&format!("{scheme}://{asked}/v2/{repository}/"));
        let base = base.map_err(|_| bad("what stands first is no host"))?;
        // What began with TLS never goes on without it.
        let redirect = reqwest::redirect::Policy::custom(|attempt| {
            let from_tls = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
            match attempt.previous().len() > 10 || (from_tls && attempt.url().scheme() != "https") {
                true => attempt.stop(),
                false => attempt.follow(),
            }
        });
        let client = Client::builder()
            .user_agent(concat!("tandem/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(20))
            .read_timeout(Duration::from_secs(60))
            .redirect(redirect)
            .build()
            .map_err(|source| OciError::Unreachable { host: host.to_owned(), source })?;
        Ok(Self {
            client,
            base,
            host: host.to_owned(),
            repository: repository.to_owned(),
            credentials: find(host)?,
            plain_http,
            tokens: Mutex::default(),
        })
    }

    fn url(&self, path: &str) -> Result<Url, OciError> {
        let bad = |_| OciError::Reference { text: path.to_owned(), reason: "it is no part of an address" };
        self.base.join(path).map_err(bad)
    }

    fn unreachable(&self) -> impl Fn(reqwest::Error) -> OciError {
        // An address of a store can have a secret in it.
        |error| OciError::Unreachable { host: self.host.clone(), source: error.without_url() }
    }

    /// Sends a request with what lets us in; where the registry asks for it first, twice.
    async fn send(&self, access: Access, request: Request) -> Result<Response, OciError> {
        let again = request.try_clone();
        let response = self.client.execute(self.with_token(access, request)).await;
        let response = response.map_err(self.unreachable())?;
        let Some(again) = again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) else {
            return Ok(response);
        };
        let asked: Vec<_> = response.headers().get_all(WWW_AUTHENTICATE).iter().cloned().collect();
        let challenges = asked.iter().filter_map(|header| challenge(header.to_str().ok()?));
        let Some(challenge) = challenges.max_by_key(|challenge| !challenge.basic) else {
            return Ok(response);
        };
        let Some(token) = self.let_in(access, &challenge).await? else { return Ok(response) };
        if let Ok(mut tokens) = self.tokens.lock() {
            tokens.insert(access, token);
        }
        self.client.execute(self.with_token(access, again)).await.map_err(self.unreachable())
    }

    fn with_token(&self, access: Access, mut request: Request) -> Request {
        let token = self.tokens.lock().ok().and_then(|tokens| tokens.get(&access).cloned());
        // Uploads can go on at another host, which is not the one that gave the token.
        if let Some(token) = token.filter(|_| request.url().host_str() == self.base.host_str()) {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        request
    }

    /// What to say after a challenge; none where we have nothing to say.
    async fn let_in(&self, access: Access, challenge: &Challenge) -> Result<Option<HeaderValue>, OciError> {
        let secret = |text: String| {
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        if challenge.basic {
            return Ok(match &self.credentials {
                Some(Credentials::Password { user, password }) => {
                    use base64::Engine as _;
                    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
                    secret(format!("Basic {text}"))
                }
                _ => None,
            });
        }
        let failed =
            |reason: &str| OciError::Credentials { host: self.host.clone(), reason: reason.to_owned() };
        let realm =
            Url::parse(&challenge.realm).map_err(|_| failed("the registry names no place for tokens"))?;
        if !may_ask(self.base.scheme() == "http", &realm, self.plain_http) {
            return Err(failed("the registry wants secrets to be sent without encryption"));
        }
        let scope = challenge.scope.clone().unwrap_or_else(|| {
            let actions = if access == Access::Write { "pull,push" } else { "pull" };
            format!("repository:{}:{actions}", self.repository)
        });
        let service = challenge.service.clone().unwrap_or_default();
        let request = match &self.credentials {
            Some(Credentials::Identity(token)) => {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("service", &service),
                    ("client_id", "tandem"),
                    ("scope", &scope),
                    ("refresh_token", token),
                ];
                let body = form.map(|(name, value)| format!("{name}={}", escaped(value))).join("&");
                let form = HeaderValue::from_static("application/x-www-form-urlencoded");
                self.client.post(realm).header(CONTENT_TYPE, form).body(body)
            }
            credentials => {
                let mut realm = realm;
                realm.query_pairs_mut().append_pair("service", &service).append_pair("scope", &scope);
                let request = self.client.get(realm);
                match credentials {
                    Some(Credentials::Password { user, password }) => {
                        request.basic_auth(user, Some(password))
                    }
                    _ => request,
                }
            }
        };
        let response = request.timeout(SMALL).send().await.map_err(self.unreachable())?;
        if !response.status().is_success() {
            let why = format!("the place for tokens answered {}", response.status().as_u16());
            return Err(failed(&why));
        }
        let text = self.read(response, MANIFEST_BYTES, "a token").await?;
        let token: Token = serde_json::from_slice(&text).map_err(|_| failed("the answer is no token"))?;
        let token = token.token.or(token.access_token).ok_or_else(|| failed("the answer has no token"))?;
        Ok(secret(format!("Bearer {token}")))
    }

    /// An answer that is not what was asked for.
    async fn refused(&self, what: &str, response: Response) -> OciError {
        #[derive(Deserialize)]
        struct Errors {
            errors: Vec<Told>,
        }
        #[derive(Deserialize)]
        struct Told {
            code: Option<String>,
            message: Option<String>,
        }
        let status = response.status().as_u16();
        let text = self.read(response, ERROR_BYTES as u64, what).await.unwrap_or_default();
        let told = serde_json::from_slice(&text).ok().and_then(|errors: Errors| {
            let first = errors.errors.into_iter().next()?;
            let told = format!("{}: {}", first.code.unwrap_or_default(), first.message.unwrap_or_default());
            // Shown to people: no control characters of another's.
            Some(format!(
                " ({})",
                told.chars().filter(|letter| !letter.is_control()).take(200).collect::<String>()
            ))
        });
        let told = told.unwrap_or_default();
        OciError::Answer { host: self.host.clone(), what: what.to_owned(), status, told }
    }

    async fn read(&self, mut response: Response, limit: u64, what: &str) -> Result<Vec<u8>, OciError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(self.unreachable())? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                let found = response.content_length().unwrap_or(bytes.len() as u64);
                return Err(OciError::TooLarge { what: what.to_owned(), found, limit });
            }
        }
        Ok(bytes)
    }

    /// The bytes of a manifest, by tag or digest; none where there is none.
    pub async fn manifest(&self, name: &str) -> Result<Option<Vec<u8>>, OciError> {
        let mut request = Request::new(Method::GET, self.url(&format!("manifests/{name}"))?);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(MANIFEST));
        *request.timeout_mut() = Some(SMALL);
        let response = self.send(Access::Read, request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                Ok(Some(self.read(response, MANIFEST_BYTES, "the manifest").await?))
            }
            _ => Err(self.refused("a question for a manifest", response).await),
        }
    }

    /// Puts a manifest under a tag.
    pub async fn put_manifest(&self, bytes: &[u8], tag: &str) -> Result<(), OciError> {
        let mut request = Request::new(Method::PUT, self.url(&format!("manifests/{tag}"))?);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
        *request.body_mut() = Some(bytes.to_vec().into());
        let response = self.send(Access::Write, request).await?;
        if !response.status().is_success() {
            return Err(self.refused("a new manifest", response).await);
        }
        let found = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let (expected, found) = (Digest::of(bytes), found.and_then(|text| text.parse().ok()));
        match found {
            Some(found) if found != expected => Err(OciError::Digest {
                what: format!("the manifest that {} keeps", self.host),
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// Whether it has these bytes.
    pub async fn has(&self, digest: &Digest) -> Result<bool, OciError> {
        let request = Request::new(Method::HEAD, self.url(&format!("blobs/{digest}"))?);
        let response = self.send(Access::Write, request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(self.refused("a question for a file", response).await),
        }
    }

    /// Puts a file's bytes there, piece by piece; a piece that did not arrive is sent again from where
    /// the registry stands.
    pub async fn put(&self, digest: &Digest, from: &Path, size: u64) -> Result<(), OciError> {
        let open = |error| crate::pair::PairError::io("read", from)(error);
        let mut file = File::open(from).map_err(open)?;
        let mut start = Request::new(Method::POST, self.url("blobs/uploads/")?);
        start.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let response = self.send(Access::Write, start).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.refused("an upload", response).await);
        }
        let mut place = self.place(&response)?;
        let (mut sent, mut tries, mut pause) = (0, 0, FIRST_PAUSE);
        while sent < size {
            let mut piece = Vec::new();
            file.seek(SeekFrom::Start(sent)).map_err(open)?;
            (&file).take(PIECE).read_to_end(&mut piece).map_err(open)?;
            let end = sent + piece.len() as u64;
            if piece.is_empty() {
                let what = std::io::Error::other("it became shorter meanwhile");
                return Err(crate::pair::PairError::io("read", from)(what).into());
            }
            let mut request = Request::new(Method::PATCH, place.clone());
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            if let Ok(range) = HeaderValue::from_str(&format!("{sent}-{}", end - 1)) {
                headers.insert(CONTENT_RANGE, range);
            }
            headers.insert(CONTENT_LENGTH, HeaderValue::from(piece.len()));
            *request.body_mut() = Some(piece.into());
            let trouble = match self.send(Access::Write, request).await {
                Ok(response) if response.status() == StatusCode::ACCEPTED => {
                    place = self.place(&response)?;
                    (sent, tries, pause) = (end, 0, FIRST_PAUSE);
                    continue;
                }
                Ok(response) => {
                    let status = response.status();
                    let refused = self.refused("a piece of a file", response).await;
                    if !(status.is_server_error() || status == StatusCode::RANGE_NOT_SATISFIABLE) {
                        return Err(refused);
                    }
                    refused
                }
                Err(error @ OciError::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            tries += 1;
            if tries == TRIES {
                return Err(trouble);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            if let Ok((there, next)) = self.progress(&place).await {
                (sent, place) = (there.min(size), next);
            }
        }
        place.query_pairs_mut().append_pair("digest", &digest.to_string());
        let mut request = Request::new(Method::PUT, place);
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let response = self.send(Access::Write, request).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(self.refused("the end of an upload", response).await),
        }
    }

    /// How much of an upload the registry has, and where it goes on.
    async fn progress(&self, place: &Url) -> Result<(u64, Url), OciError> {
        let response = self.send(Access::Write, Request::new(Method::GET, place.clone())).await?;
        if !response.status().is_success() {
            return Err(self.refused("a question for an upload", response).await);
        }
        let range = response.headers().get(RANGE).and_then(|value| value.to_str().ok());
        let last = range.and_then(|range| range.rsplit_once('-')?.1.parse::<u64>().ok());
        Ok((last.map_or(0, |last| if last == 0 { 0 } else { last + 1 }), self.place(&response)?))
    }

    /// Where an upload goes on.
    fn place(&self, response: &Response) -> Result<Url, OciError> {
        let told = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let place = told.and_then(|told| response.url().join(told).ok());
        let place = place.filter(|url| url.scheme() == "https" || self.base.scheme() == "http");
        place.ok_or_else(|| OciError::Answer {
            host: self.host.clone(),
            what: "an upload".into(),
            status: response.status().as_u16(),
            told: " without a place to go on".into(),
        })
    }

    /// The bytes of a digest, if they are few.
    pub async fn small(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, OciError> {
        let mut request = Request::new(Method::GET, self.url(&format!("blobs/{digest}"))?);
        *request.timeout_mut() = Some(SMALL);
        let response = self.send(Access::Read, request).await?;
        match response.status().is_success() {
            true => self.read(response, limit, "a part of the artefact").await,
            false => Err(self.refused("a question for a file", response).await),
        }
    }

    /// Fills a file with the bytes of a digest, from where it ends, until it has `size` bytes.
    pub async fn fetch(&self, digest: &Digest, size: u64, out: &mut File) -> Result<(), OciError> {
        let failed = |error| crate::pair::PairError::io("written", Path::new("a file of the pair"))(error);
        let (mut tries, mut pause) = (0, FIRST_PAUSE);
        // A byte now and then is no reason to wait for ever.
        let until = Instant::now() + FILE + Duration::from_secs(size / RATE);
        loop {
            let mut have = out.seek(SeekFrom::End(0)).map_err(failed)?;
            if have > size {
                out.set_len(0).map_err(failed)?;
                have = out.seek(SeekFrom::Start(0)).map_err(failed)?;
            }
            if have == size {
                return Ok(());
            }
            let mut request = Request::new(Method::GET, self.url(&format!("blobs/{digest}"))?);
            if let Some(range) = HeaderValue::from_str(&format!("bytes={have}-")).ok().filter(|_| have > 0) {
                request.headers_mut().insert(RANGE, range);
            }
            let trouble = match self.send(Access::Read, request).await {
                Ok(response) if response.status().is_success() => {
                    if response.status() != StatusCode::PARTIAL_CONTENT {
                        out.set_len(0).map_err(failed)?;
                        have = out.seek(SeekFrom::Start(0)).map_err(failed)?;
                    }
                    let before = have;
                    let ended = self.take(response, size, until, &mut have, out).await;
                    if have > before {
                        (tries, pause) = (0, FIRST_PAUSE);
                    }
                    match ended {
                        Ok(()) if have == size => return Ok(()),
                        Ok(()) => OciError::Answer {
                            host: self.host.clone(),
                            what: format!("a question for {digest}"),
                            status: 200,
                            told: format!(" with {have} of {size} bytes"),
                        },
                        Err(error) => error,
                    }
                }
                Ok(response) if response.status().is_server_error() => {
                    self.refused("a question for a file", response).await
                }
                Ok(response) => return Err(self.refused("a question for a file", response).await),
                Err(error @ OciError::Unreachable { .. }) => error,
                Err(error) => return Err(error),
            };
            if matches!(trouble, OciError::TooLarge { .. } | OciError::Slow { .. } | OciError::Pair(_)) {
                return Err(trouble);
            }
            tries += 1;
            if tries == TRIES {
                return Err(trouble);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn take(
        &self,
        mut response: Response,
        size: u64,
        until: Instant,
        have: &mut u64,
        out: &mut File,
    ) -> Result<(), OciError> {
        while let Some(chunk) = response.chunk().await.map_err(self.unreachable())? {
            if *have + chunk.len() as u64 > size {
                let found = *have + chunk.len() as u64;
                return Err(OciError::TooLarge { what: "a file of the pair".into(), found, limit: size });
            }
            out.write_all(&chunk)
                .map_err(crate::pair::PairError::io("written", Path::new("a file of the pair")))?;
            *have += chunk.len() as u64;
            if *have < size && Instant::now() > until {
                return Err(OciError::Slow { host: self.host.clone(), have: *have, size });
            }
        }
        Ok(())
    }
}

/// Whether secrets may go to a place for tokens: with TLS, or as openly as the registry is asked.
fn may_ask(plain: bool, realm: &Url, plain_http: bool) -> bool {
    match realm.scheme() {
        "https" => true,
        "http" => plain && (plain_http || realm.host_str().is_some_and(is_local)),
        _ => false,
    }
}

/// Whether a host is this machine.
pub fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Reads `Bearer realm="…",service="…",scope="…"` or `Basic …`.
fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    let mut found = BTreeMap::new();
    let mut rest = rest.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        rest = after.trim_start_matches([',', ' ']);
    }
    let basic = scheme.eq_ignore_ascii_case("basic");
    if !basic && !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let realm = found.remove("realm").unwrap_or_default();
    Some(Challenge { basic, realm, service: found.remove("service"), scope: found.remove("scope") })
}

/// A value of a form.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let check = |header: &str, expected: Option<(bool, &str, Option<&str>, Option<&str>)>| {
            let found = challenge(header);
            let found = found.as_ref().map(|found| {
                (found.basic, found.realm.as_str(), found.service.as_deref(), found.scope.as_deref())
            });
            assert_eq!(found, expected, "{header}");
        };
        check("Basic realm=\"x\"", Some((true, "x", None, None)));
        check(
            "Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:a:pull,push\"",
            Some((false, "https://a/token", Some("s"), Some("repository:a:pull,push"))),
        );
        check("bearer realm=https://a, service=s", Some((false, "https://a", Some("s"), None)));
        check("Negotiate", None);
        check("Bearer realm=\"open", None);
    }

    #[test]
    fn secrets_do_not_leave_this_machine_in_the_clear() {
        for (plain, realm, plain_http, expected) in [
            (false, "https://other.host/token", false, true),
            (false, "http://localhost/token", false, false),
            (true, "http://localhost:5001/token", false, true),
            (true, "http://other.host/token", false, false),
            (true, "http://other.host/token", true, true),
            (true, "ftp://localhost/token", true, false),
        ] {
            assert_eq!(may_ask(plain, &Url::parse(realm).unwrap(), plain_http), expected, "{realm}");
        }
    }

    #[test]
    fn only_this_machine_is_asked_without_encryption() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:80", "[::1]:5000", "127.9.9.9"] {
            assert!(is_local(host), "{host}");
        }
        for host in
            ["example.com", "localhost.example.com", "10.0.0.1:5000", "127.0.0.1.example.com", "[::2]:1"]
        {
            assert!(!is_local(host), "{host}");
        }
    }
}
