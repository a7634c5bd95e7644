//! A policy behind an OpenAI chat-completions endpoint.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    FinishReason, Message, OpenSession, Policy, PolicyError, Price, Reply, Role, Session, TokenUsage,
    ToolCall,
};

/// Where the endpoint is and how to ask it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Up to and with the version, such as `http://localhost:8000/v1`.
    pub url: String,
    /// The model's name at the endpoint.
    pub model: String,
    /// Name of the environment variable that holds the key; no key when not given.
    pub key_env: Option<String>,
    /// Asks for token ids and log-probabilities, as vLLM gives them, and fails
    /// where they cannot be trained on. Off, episodes carry no tokens.
    pub token_ids: bool,
    /// Seconds that one request may take.
    pub timeout_seconds: u64,
    /// Further tries after a failed one that may pass: no connection, 408, 429, 5xx.
    pub retries: u32,
    /// Milliseconds before the second try; doubled for each after it, at most 30 seconds.
    pub backoff_ms: u64,
    /// Which version of the policy the endpoint serves.
    pub policy_version: u64,
    /// Money for its tokens; without it a harness that limits money is refused.
    pub price: Option<Price>,
    /// Tokens that the model's context holds; 0 when nobody knows.
    pub context: u64,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            key_env: None,
            token_ids: false,
            timeout_seconds: 300,
            retries: 4,
            backoff_ms: 500,
            policy_version: 0,
            price: None,
            context: 0,
        }
    }
}

/// A model behind an endpoint.
#[derive(Clone)]
pub struct HttpPolicy {
    config: HttpConfig,
    client: reqwest::Client,
    url: reqwest::Url,
    key: Option<String>,
}

impl HttpPolicy {
    /// Reads the key; connects only when asked.
    ///
    /// # Errors
    /// A base URL that is none, and a key variable that is not set.
    pub fn new(config: HttpConfig) -> Result<Self, PolicyError> {
        let failed = |reason: String| PolicyError::Failed { policy: config.model.clone(), reason };
        let text = format!("{}/chat/completions", config.url.trim_end_matches('/'));
        let url =
            reqwest::Url::parse(&text).ok().filter(|url| url.host_str().is_some()).ok_or_else(|| {
                failed(format!(
                    "`{}` is not a URL\nhelp: write it like `http://localhost:8000/v1`",
                    config.url
                ))
            })?;
        let key = match &config.key_env {
            None => None,
            Some(name) => Some(std::env::var(name).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
                failed(format!("the variable `{name}` is not set\nhelp: put the endpoint's key into it"))
            })?),
        };
        if let Some(price) = config.price.filter(|price| !price.is_an_amount()) {
            let Price { prompt, reply } = price;
            return Err(failed(format!(
                "its price is {prompt} and {reply}\nhelp: give numbers from 0 on, for a million tokens of the prompt and of the reply"
            )));
        }
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(config.timeout_seconds))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { config, client, url, key })
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn failed(&self, reason: String) -> PolicyError {
        PolicyError::Failed { policy: self.config.model.clone(), reason }
    }

    /// Sends a request, again where that may help.
    async fn post(&self, body: &Value) -> Result<Value, PolicyError> {
        let mut wait = Duration::from_millis(self.config.backoff_ms);
        let mut tries = 0;
        loop {
            tries += 1;
            let (reason, told_to_wait) = match self.post_once(body).await? {
                Ok(value) => return Ok(value),
                Err(passing) => passing,
            };
            if tries > self.config.retries {
                return Err(
                    self.failed(format!("{reason} ({tries} tries)\nhelp: see whether the endpoint is up"))
                );
            }
            tracing::debug!("{reason}; trying again");
            tokio::time::sleep(told_to_wait.unwrap_or(wait).min(Duration::from_secs(30))).await;
            wait = wait.saturating_mul(2);
        }
    }

    /// The inner error is one that may pass, with the time the endpoint asks to wait.
    async fn post_once(
        &self,
        body: &Value,
    ) -> Result<Result<Value, (String, Option<Duration>)>, PolicyError> {
        let host = self.host();
        let mut request = self.client.post(self.url.clone()).json(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_timeout() => {
                let limit = self.config.timeout_seconds;
                return Ok(Err((format!("{host} did not answer within {limit} seconds"), None)));
            }
            Err(error) => return Ok(Err((format!("no answer from {host}: {}", root_message(&error)), None))),
        };
        let status = response.status();
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let after = after.map(Duration::from_secs);
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => {
                return Ok(Err((format!("the answer of {host} broke off: {}", root_message(&error)), None)));
            }
        };
        if status.is_success() {
            let value = serde_json::from_str(&text);
            return value.map(Ok).map_err(|error| {
                self.failed(format!("{host} answered {status} with something else than JSON: {error}"))
            });
        }
        let said: String = message_of(&text).chars().take(300).collect();
        let reason = format!("{host} answered {status}: {said}");
        match status.as_u16() {
            408 | 429 | 500..=599 => Ok(Err((reason, after))),
            400 | 413 | 422 if said.contains("context") => Err(self.context_full(&said, reason)),
            401 | 403 => {
                Err(self.failed(format!("{reason}\nhelp: name the variable of the key in `key_env`")))
            }
            _ => Err(self.failed(reason)),
        }
    }

    /// Endpoints tell a full context in words: the limit first, then what was asked for.
    fn context_full(&self, said: &str, reason: String) -> PolicyError {
        let numbers: Vec<usize> =
            said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [limit, used, ..] => PolicyError::ContextFull { policy: self.config.model.clone(), used, limit },
            _ => self.failed(reason),
        }
    }
}

/// What an endpoint says went wrong, in the body of an answer of any OpenAI-compatible server.
pub fn message_of(body: &str) -> String {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let said = value.as_ref().and_then(|value| {
        value["error"]["message"].as_str().or(value["message"].as_str()).or(value["error"].as_str())
    });
    said.unwrap_or(body).trim().to_owned()
}

/// The innermost message of an error, which is the one that says why. It never
/// holds the request's headers.
pub fn root_message(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[async_trait]
impl Policy for HttpPolicy {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let policy = self.clone();
        let turn = request.after as u64;
        Ok(Box::new(HttpSession { policy, request, messages: Vec::new(), turn, known: Vec::new() }))
    }

    fn version(&self) -> u64 {
        self.config.policy_version
    }

    fn name(&self) -> String {
        self.config.model.clone()
    }

    fn price(&self) -> Option<Price> {
        self.config.price
    }

    fn context(&self) -> Option<u64> {
        (self.config.context > 0).then_some(self.config.context)
    }
}

struct HttpSession {
    policy: HttpPolicy,
    request: OpenSession,
    messages: Vec<Value>,
    turn: u64,
    /// Ids of the conversation so far, where the endpoint tells them.
    known: Vec<u32>,
}

/// The part of an answer that is used.
#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
    prompt_token_ids: Option<Vec<u32>>,
    usage: Option<AnswerUsage>,
}

#[derive(Deserialize)]
struct AnswerUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl AnswerUsage {
    /// None when it is left at zero, as servers do that do not count.
    fn told(self) -> Option<TokenUsage> {
        let usage = TokenUsage { prompt: self.prompt_tokens, reply: self.completion_tokens };
        (usage.prompt > 0).then_some(usage)
    }
}

#[derive(Deserialize)]
struct Choice {
    message: AnswerMessage,
    finish_reason: Option<String>,
    /// vLLM: the text that ended the reply, which is not part of `content`.
    stop_reason: Option<Value>,
    token_ids: Option<Vec<u32>>,
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize)]
struct AnswerMessage {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<AnswerCall>>,
}

#[derive(Deserialize)]
struct AnswerCall {
    id: Option<String>,
    function: AnswerFunction,
}

#[derive(Deserialize)]
struct AnswerFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<Logprob>>,
}

#[derive(Deserialize)]
struct Logprob {
    logprob: f32,
}

#[async_trait]
impl Session for HttpSession {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        self.messages.extend(new.iter().map(wire));
        let body = self.body();
        let value = self.policy.post(&body).await?;
        self.turn += 1;
        let policy = self.policy.clone();
        let answer: Answer = serde_json::from_value(value).map_err(|error| {
            policy.failed(format!("{} answered in another shape: {error}", policy.host()))
        })?;
        let Some(choice) = answer.choices.into_iter().next() else {
            return Err(policy.failed(format!("{} answered without a choice", policy.host())));
        };
        let mut reply = Reply {
            text: choice.message.content.unwrap_or_default(),
            finish: match choice.finish_reason.as_deref() {
                Some("length") => FinishReason::Length,
                _ => FinishReason::Stop,
            },
            policy_version: policy.config.policy_version,
            usage: answer.usage.and_then(AnswerUsage::told),
            ..Reply::default()
        };
        for (at, call) in choice.message.tool_calls.unwrap_or_default().into_iter().enumerate() {
            let id = call.id.unwrap_or_else(|| format!("call-{}-{at}", self.turn));
            // What is no JSON stays a string, which the agent loop answers as bad arguments.
            let arguments = serde_json::from_str(&call.function.arguments)
                .unwrap_or_else(|_| Value::String(call.function.arguments.clone()));
            reply.tool_calls.push(ToolCall { id, name: call.function.name, arguments });
        }
        let mut said = Message::new(Role::Assistant, reply.text.clone());
        said.tool_calls = reply.tool_calls.clone();
        self.messages.push(wire(&said));
        if let Some(Value::String(stop)) = choice.stop_reason
            && self.request.sampling.stop.contains(&stop)
            && !reply.text.ends_with(&stop)
        {
            reply.text.push_str(&stop);
        }
        if policy.config.token_ids {
            let logprobs = choice.logprobs.and_then(|logprobs| logprobs.content).unwrap_or_default();
            let logprobs: Vec<f32> = logprobs.iter().map(|entry| entry.logprob).collect();
            self.keep_tokens(&mut reply, answer.prompt_token_ids, choice.token_ids, logprobs)?;
        }
        Ok(reply)
    }
}

impl HttpSession {
    fn body(&self) -> Value {
        let sampling = &self.request.sampling;
        // Every turn has its own seed; endpoints take 63 bits.
        let seed = self.request.seed.wrapping_add(self.turn) & (u64::MAX >> 1);
        let mut body = json!({
            "model": self.policy.config.model,
            "messages": self.messages,
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "seed": seed,
        });
        if !sampling.stop.is_empty() {
            body["stop"] = json!(sampling.stop);
        }
        if !self.request.tools.is_empty() {
            body["tools"] = json!(self.request.tools);
        }
        if self.policy.config.token_ids {
            body["logprobs"] = json!(true);
            body["return_token_ids"] = json!(true);
        }
        body
    }

    /// Takes the ids that are new since the last reply.
    fn keep_tokens(
        &mut self,
        reply: &mut Reply,
        prompt: Option<Vec<u32>>,
        ids: Option<Vec<u32>>,
        logprobs: Vec<f32>,
    ) -> Result<(), PolicyError> {
        let host = self.policy.host();
        let untrusted = |what: String| {
            let help = "help: train with a local policy, or set `token_ids = false` to evaluate only";
            self.policy.failed(format!("{what}\n{help}"))
        };
        let (Some(prompt), Some(ids)) = (prompt, ids) else {
            return Err(untrusted(format!("{host} tells no token ids")));
        };
        if ids.len() != logprobs.len() {
            let counts = format!("{} ids and {} log-probabilities", ids.len(), logprobs.len());
            return Err(untrusted(format!("{host} tells {counts} for one reply")));
        }
        let Some(suffix) = prompt.strip_prefix(&self.known[..]) else {
            let turn = self.turn;
            return Err(untrusted(format!(
                "{host} wrote the conversation anew: turn {turn} does not extend the last"
            )));
        };
        reply.prompt_ids = suffix.to_vec();
        self.known = [prompt, ids.clone()].concat();
        reply.ids = ids;
        reply.logprobs = logprobs;
        Ok(())
    }
}

/// A message in the shape of chat completions.
fn wire(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut value = json!({"role": role, "content": message.text()});
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Value::String(raw) => raw.clone(),
                other => other.to_string(),
            };
            let function = json!({"name": call.name, "arguments": arguments});
            json!({"id": call.id, "type": "function", "function": function})
        });
        value["tool_calls"] = calls.collect();
    }
    if let Some(id) = &message.tool_call_id {
        value["tool_call_id"] = json!(id);
    }
    value
}
