//! How does one try go over HTTP? Sends a request, reads the answer whole or as a
//! stream, and says what went wrong. Redirects are not followed: the key goes to
//! the host that the campaign names and to no other.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tandem_host::policy::{message_of, root_message};

use super::backend::{Backend, Passing, Secrets, Trouble, variable};
use super::config::{TeacherConfig, TeacherKind};
use super::request::{TeacherReply, TeacherRequest};
use super::sse;
use super::wire::Partial;
use super::{anthropic, openai};

/// More than any model writes.
const MAX_ANSWER: usize = 8 << 20;

/// A model behind an endpoint.
pub struct Endpoint {
    config: TeacherConfig,
    client: reqwest::Client,
    url: reqwest::Url,
    headers: HeaderMap,
    secrets: Secrets,
}

/// A wire format.
struct Wire {
    path: &'static str,
    body: fn(&TeacherConfig, &TeacherRequest) -> Value,
    whole: fn(&str, &str, &mut Partial) -> Result<(), Trouble>,
    event: fn(&str, &str, &mut Partial) -> Result<(), Trouble>,
}

const OPENAI: Wire =
    Wire { path: openai::PATH, body: openai::body, whole: openai::whole, event: openai::event };
const ANTHROPIC: Wire =
    Wire { path: anthropic::PATH, body: anthropic::body, whole: anthropic::whole, event: anthropic::event };

fn wire(kind: TeacherKind) -> &'static Wire {
    if kind == TeacherKind::Anthropic { &ANTHROPIC } else { &OPENAI }
}

impl Endpoint {
    /// Reads the key; connects only when asked.
    ///
    /// # Errors
    /// A key variable that is not set and headers that are none, in one sentence with its help.
    pub fn new(config: &TeacherConfig) -> Result<Self, String> {
        let text = format!("{}{}", config.url.trim_end_matches('/'), wire(config.kind).path);
        let url = text.parse().map_err(|_| format!("`{}` is not a URL", config.url))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let wrong = || format!("the header `{name}` is not one");
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            headers.insert(name, value.parse().map_err(|_| wrong())?);
        }
        if config.kind == TeacherKind::Anthropic && !headers.contains_key("anthropic-version") {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        let key = config.key_env.as_deref().map(variable).transpose()?.map(|key| key.trim().to_owned());
        if let Some(key) = &key {
            let (name, value) = match config.kind {
                TeacherKind::Anthropic => ("x-api-key", key.clone()),
                _ => ("authorization", format!("Bearer {key}")),
            };
            let variable = config.key_env.as_deref().unwrap_or_default();
            // The error of the parser would show the value.
            let mut value: HeaderValue = value
                .parse()
                .map_err(|_| format!("what the variable `{variable}` holds cannot be sent as a key"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(config.idle_seconds))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| root_message(&error))?;
        Ok(Self { config: config.clone(), client, url, headers, secrets: Secrets::new(key) })
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Waits for the next thing of the endpoint, as long as it may be silent: an answer that
    /// is not streamed comes all at once at the end.
    async fn within<T>(&self, part: impl Future<Output = T>) -> Result<T, Trouble> {
        let limit = if self.config.stream { self.config.idle_seconds } else { self.config.timeout_seconds };
        tokio::time::timeout(Duration::from_secs(limit), part)
            .await
            .map_err(|_| Trouble::passing(format!("{} was silent for {limit} seconds", self.host())))
    }

    async fn exchange(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        let (host, wire) = (self.host(), wire(self.config.kind));
        let body = (wire.body)(&self.config, request);
        let sent = self.client.post(self.url.clone()).headers(self.headers.clone()).json(&body).send();
        let mut response = self
            .within(sent)
            .await
            .map_err(|trouble| trouble.after(""))?
            .map_err(|error| no_answer(&host, &error))?;
        if !response.status().is_success() {
            let status = response.status();
            let wait = wait_of(response.headers());
            // A body that does not come changes nothing: the status says enough.
            let text = self.text(&mut response).await.unwrap_or_default();
            return Err(refused(&host, status, wait, &text));
        }
        let mut partial = Partial::default();
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let text = self.text(&mut response).await.map_err(|trouble| trouble.after(""))?;
            (wire.whole)(&host, &text, &mut partial)?;
            return partial.finish(&host, request);
        }
        let mut reader = sse::Reader::default();
        while !partial.ended {
            let piece = match self.within(response.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    let what =
                        format!("{host} broke off in the middle of the reply: {}", root_message(&error));
                    return Err(Trouble::passing(what).after(&partial.text));
                }
                Err(silent) => return Err(silent.after(&partial.text)),
            };
            let events = reader.push(&piece).map_err(|what| too_long(&host, &what).after(&partial.text))?;
            for event in events {
                (wire.event)(&host, &event.data, &mut partial)?;
            }
            if partial.text.len() > MAX_ANSWER {
                let what = format!("the reply has more than {MAX_ANSWER} bytes");
                return Err(too_long(&host, &what).after(&partial.text));
            }
        }
        partial.finish(&host, request)
    }

    /// A body as text, as far as it fits.
    async fn text(&self, response: &mut reqwest::Response) -> Result<String, Trouble> {
        let host = self.host();
        let mut bytes = Vec::new();
        loop {
            match self.within(response.chunk()).await? {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) => {
                    let what =
                        format!("{host} broke off in the middle of the reply: {}", root_message(&error));
                    return Err(Trouble::passing(what));
                }
            }
            if bytes.len() > MAX_ANSWER {
                return Err(too_long(&host, &format!("the answer has more than {MAX_ANSWER} bytes")));
            }
        }
    }
}

#[async_trait]
impl Backend for Endpoint {
    async fn answer(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        let limit = self.config.timeout_seconds;
        let answered = tokio::time::timeout(Duration::from_secs(limit), self.exchange(request)).await;
        let answered = answered.unwrap_or_else(|_| {
            let what = format!("{} was not done after {limit} seconds", self.host());
            Err(Trouble::passing(what).after(""))
        });
        self.secrets.blot_result(answered)
    }

    fn model(&self) -> String {
        self.config.model.clone()
    }
}

fn no_answer(host: &str, error: &reqwest::Error) -> Trouble {
    let trouble = Trouble::passing(format!("no answer from {host}: {}", root_message(error)));
    // Once the request was on its way, the endpoint may have worked on it.
    if error.is_connect() { trouble } else { trouble.after("") }
}

fn too_long(host: &str, what: &str) -> Trouble {
    Trouble::lasting(format!("{host}: {what}"), "lower `max_tokens`, or take another endpoint")
}

/// What a status other than success means.
fn refused(host: &str, status: reqwest::StatusCode, wait: Option<Duration>, body: &str) -> Trouble {
    let said: String = message_of(body).chars().take(300).collect();
    let what = match said.is_empty() {
        true => format!("{host} answered {status}"),
        false => format!("{host} answered {status}: {said}"),
    };
    match status.as_u16() {
        // 529 is Anthropic's "overloaded".
        408 | 409 | 425 | 429 | 500..=599 => {
            Trouble { passing: Passing::Yes { wait }, ..Trouble::passing(what) }
        }
        401 | 403 => Trouble::lasting(what, "put a valid key into a variable and name it in `key_env`"),
        404 => Trouble::lasting(what, "check `url`, which goes up to and with the version, and `model`"),
        300..=399 => Trouble::lasting(what, "set `url` to where the endpoint really is"),
        413 => Trouble::lasting(what, "lower `evidence_tokens`"),
        _ if said.contains("context") => Trouble::lasting(what, "lower `evidence_tokens` or `max_tokens`"),
        _ => Trouble::lasting(what, "correct what the endpoint complains about"),
    }
}

/// How long the endpoint asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.parse::<u64>().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = http_date(value)?;
    // The endpoint's own clock, if it tells it: ours may be wrong.
    let now = text("date").and_then(http_date).unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    });
    Some(Duration::from_secs(until.saturating_sub(now)))
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, IMF-fixdate).
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let [hours, minutes, seconds] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let clock = [hours, minutes, seconds].map(|part| part.parse::<i64>().ok());
    let [Some(hours), Some(minutes), Some(seconds)] = clock else { return None };
    // Days since 1970 in the proleptic Gregorian calendar, the year beginning in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 719_469;
    u64::try_from(days * 86_400 + hours * 3_600 + minutes * 60 + seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_read_in_every_form() {
        let check = |pairs: &[(&'static str, &'static str)], expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(wait_of(&headers), expected.map(Duration::from_millis), "{pairs:?}");
        };
        check(&[], None);
        check(&[("retry-after", "3")], Some(3_000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after-ms", "20"), ("retry-after", "9")], Some(20));
        let now = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[now, ("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], Some(3_000));
        check(&[now, ("retry-after", "Sun, 06 Nov 1994 08:40:00 GMT")], Some(0));
        for wrong in ["-1", "soon", "NaN", "Sun, 06 Nov"] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_static(wrong));
            assert_eq!(wait_of(&headers), None, "{wrong}");
        }
    }

    #[test]
    fn dates_count_from_1970() {
        let check = |text, expected| assert_eq!(http_date(text), Some(expected), "{text}");
        check("Thu, 01 Jan 1970 00:00:00 GMT", 0);
        check("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777);
        check("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000);
    }
}
