//! What does a campaign say about a teacher? One section for each role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tandem_host::forge::Language;
use tandem_host::policy::Price;

use super::request::TeacherRole;

/// `[teacher.harness]` and `[teacher.skill]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeachersConfig {
    /// Writes tools and hooks; the catalog if absent.
    pub harness: TeacherConfig,
    /// Writes skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<TeacherConfig>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherKind {
    /// The built-in catalog; no model.
    #[default]
    Catalog,
    /// An endpoint that speaks OpenAI's chat completions.
    Openai,
    /// An endpoint that speaks Anthropic's messages.
    Anthropic,
    /// The campaign's current policy.
    Policy,
    /// A program: the request as JSON on its standard input, the reply on its standard output.
    Command,
    /// Exchanges that were recorded before.
    Recorded,
}

impl TeacherKind {
    /// The name in the campaign file and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Policy => "policy",
            Self::Command => "command",
            Self::Recorded => "recorded",
        }
    }

    fn is_http(self) -> bool {
        matches!(self, Self::Openai | Self::Anthropic)
    }
}

/// One teacher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeacherConfig {
    pub kind: TeacherKind,
    /// Base URL up to and with the version, such as `http://localhost:8000/v1`.
    pub url: String,
    /// The model's name at the endpoint.
    pub model: String,
    /// Environment variable that holds the endpoint's key. The key itself has no place in a file.
    pub key_env: Option<String>,
    /// Further headers of each request. No keys: the file is copied into the run.
    pub headers: BTreeMap<String, String>,
    /// Not sent if absent; the policy samples with 1.
    pub temperature: Option<f64>,
    /// Most tokens of one reply.
    pub max_tokens: u64,
    /// What the endpoint calls `max_tokens`; some models want `max_completion_tokens`.
    pub max_tokens_key: String,
    /// Take the reply piece by piece, so that a slow one is not mistaken for a dead one.
    pub stream: bool,
    /// Seconds of silence in a stream after which a try is given up.
    pub idle_seconds: u64,
    /// Seconds that one try may take in all.
    pub timeout_seconds: u64,
    /// The program of `command` and its arguments; the program is looked up in `PATH`.
    pub command: Vec<String>,
    /// Environment variables that the program sees beside `PATH`, `HOME`, `LANG` and `TMPDIR`.
    pub env: Vec<String>,
    /// The file that `recorded` replays.
    pub exchanges: Option<PathBuf>,
    /// Any kind: append each exchange to this file, for `recorded`.
    pub record: Option<PathBuf>,
    /// The language that the teacher of the harness writes; each request has its SDK.
    pub language: Language,
    /// Folder of prompt files that stand in for the built-in ones of the same name.
    pub prompts: Option<PathBuf>,
    /// Most tokens of the failing evidence in one request, by an upper estimate.
    pub evidence_tokens: usize,
    /// Rounds in which the teacher may mend a reply that was not usable.
    pub repairs: u32,
    pub budget: BudgetConfig,
    pub price: Price,
}

impl Default for TeacherConfig {
    fn default() -> Self {
        Self {
            kind: TeacherKind::Catalog,
            url: String::new(),
            model: String::new(),
            key_env: None,
            headers: BTreeMap::new(),
            temperature: None,
            max_tokens: 8_192,
            max_tokens_key: "max_tokens".into(),
            stream: true,
            idle_seconds: 120,
            timeout_seconds: 600,
            command: Vec::new(),
            env: Vec::new(),
            exchanges: None,
            record: None,
            language: Language::Rust,
            prompts: None,
            evidence_tokens: 12_000,
            repairs: 3,
            budget: BudgetConfig::default(),
            price: Price::default(),
        }
    }
}

/// What a teacher may use. 0 is no limit, except for `attempts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetConfig {
    /// Tries of one exchange: rate limits, server errors, time-outs and broken connections are tried again.
    pub attempts: u32,
    /// Seconds of one exchange with all its tries and waits.
    pub seconds: u64,
    /// Tokens of this role in the whole run, prompts and replies.
    pub tokens: u64,
    /// Money of this role in the whole run, in the currency of `price`.
    pub money: f64,
    /// Milliseconds before the second try; doubled for each after it, at most a minute.
    /// A `Retry-After` of the endpoint is kept to instead.
    pub backoff_ms: u64,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self { attempts: 5, seconds: 1_800, tokens: 0, money: 0.0, backoff_ms: 1_000 }
    }
}

/// Headers that carry keys; their place is `key_env`.
const KEY_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"];

impl TeacherConfig {
    /// Makes paths relative to `folder` absolute.
    pub fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.exchanges, &mut self.record, &mut self.prompts].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// Says in one sentence what cannot work.
    pub fn check(&self, role: TeacherRole) -> Result<(), String> {
        let section = format!("teacher.{role}");
        let kind = self.kind;
        let name = kind.name();
        if kind == TeacherKind::Catalog && role == TeacherRole::Skill {
            return Err(format!(
                "`{section}.kind` is `catalog`, but the catalog knows no skills: name a model"
            ));
        }
        if self.language != Language::Rust && (kind == TeacherKind::Catalog || role == TeacherRole::Skill) {
            let why = match role {
                TeacherRole::Skill => "skills are plain text",
                TeacherRole::Harness => "the catalog is written in rust",
            };
            return Err(format!("`{section}.language` is `{}`, but {why}: leave it out", self.language));
        }
        let http = kind.is_http();
        let keys = [
            ("url", !self.url.is_empty(), http, http),
            ("model", !self.model.is_empty(), http, http),
            ("key_env", self.key_env.is_some(), http, false),
            ("headers", !self.headers.is_empty(), http, false),
            ("command", !self.command.is_empty(), kind == TeacherKind::Command, kind == TeacherKind::Command),
            ("env", !self.env.is_empty(), kind == TeacherKind::Command, false),
            (
                "exchanges",
                self.exchanges.is_some(),
                kind == TeacherKind::Recorded,
                kind == TeacherKind::Recorded,
            ),
        ];
        for (key, set, allowed, required) in keys {
            if set && !allowed {
                return Err(format!("`{section}.{key}` has no use with `kind = \"{name}\"`: leave it out"));
            }
            if required && !set {
                return Err(format!("`{section}.{key}` is missing, and `kind = \"{name}\"` needs it"));
            }
        }
        if http {
            self.check_url(&section)?;
        }
        if let Some(header) = self.headers.keys().find(|header| is_key_header(header)) {
            return Err(format!(
                "`{section}.headers` sets `{header}`, but this file is copied into the run: put the key into a variable and name it in `key_env`"
            ));
        }
        let positive = [
            ("max_tokens", self.max_tokens),
            ("idle_seconds", self.idle_seconds),
            ("timeout_seconds", self.timeout_seconds),
            ("budget.attempts", u64::from(self.budget.attempts)),
            ("evidence_tokens", self.evidence_tokens as u64),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{section}.{key}` is 0, but must be at least 1"));
        }
        if self.repairs > 3 {
            return Err(format!("`{section}.repairs` is {}, but at most 3 rounds are held", self.repairs));
        }
        let amounts = [
            ("budget.money", self.budget.money),
            ("price.prompt", self.price.prompt),
            ("price.reply", self.price.reply),
            ("temperature", self.temperature.unwrap_or(0.0)),
        ];
        if let Some((key, value)) =
            amounts.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0))
        {
            return Err(format!("`{section}.{key}` is {value}, but must be a number from 0 on"));
        }
        if self.budget.money > 0.0 && self.price == Price::default() {
            return Err(format!(
                "`{section}.budget.money` limits money, but `{section}.price` says nothing: give the price of a million tokens"
            ));
        }
        Ok(())
    }

    fn check_url(&self, section: &str) -> Result<(), String> {
        let url = reqwest::Url::parse(&self.url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
        let Some(url) = url else {
            return Err(format!("`{section}.url` is not a URL: write it like `http://localhost:8000/v1`"));
        };
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(format!(
                "`{section}.url` carries a user, a password or a query, but this file is copied into the run: put the key into a variable and name it in `key_env`"
            ));
        }
        Ok(())
    }
}

fn is_key_header(name: &str) -> bool {
    KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, role: TeacherRole, expected: &str) {
        let config: TeacherConfig = toml::from_str(text).unwrap();
        let found = config.check(role).err().unwrap_or_default();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn what_cannot_work_is_said_before_the_first_request() {
        let harness = |text: &str, expected: &str| check(text, TeacherRole::Harness, expected);
        harness("", "");
        harness("kind = 'openai'\nurl = 'http://localhost:1/v1'\nmodel = 'm'", "");
        harness(
            "kind = 'openai'\nurl = 'http://localhost:1/v1'",
            "`teacher.harness.model` is missing, and `kind = \"openai\"` needs it",
        );
        harness(
            "kind = 'anthropic'\nurl = 'localhost'\nmodel = 'm'",
            "`teacher.harness.url` is not a URL: write it like `http://localhost:8000/v1`",
        );
        harness(
            "url = 'http://a/v1'",
            "`teacher.harness.url` has no use with `kind = \"catalog\"`: leave it out",
        );
        harness(
            "kind = 'command'",
            "`teacher.harness.command` is missing, and `kind = \"command\"` needs it",
        );
        harness(
            "kind = 'policy'\nrepairs = 4",
            "`teacher.harness.repairs` is 4, but at most 3 rounds are held",
        );
        harness(
            "kind = 'policy'\nmax_tokens = 0",
            "`teacher.harness.max_tokens` is 0, but must be at least 1",
        );
        harness(
            "kind = 'policy'\n[budget]\nmoney = 2.0",
            "`teacher.harness.budget.money` limits money, but `teacher.harness.price` says nothing: give the price of a million tokens",
        );
        harness("kind = 'policy'\nlanguage = 'python'", "");
        harness(
            "language = 'python'",
            "`teacher.harness.language` is `python`, but the catalog is written in rust: leave it out",
        );
        check(
            "kind = 'policy'\nlanguage = 'go'",
            TeacherRole::Skill,
            "`teacher.skill.language` is `go`, but skills are plain text: leave it out",
        );
        check(
            "kind = 'catalog'",
            TeacherRole::Skill,
            "`teacher.skill.kind` is `catalog`, but the catalog knows no skills: name a model",
        );
    }

    #[test]
    fn a_key_has_no_place_in_the_file() {
        let base = "kind = 'openai'\nmodel = 'm'\n";
        let moved = "this file is copied into the run: put the key into a variable and name it in `key_env`";
        for url in ["http://me:secret@host/v1", "http://host/v1?key=secret"] {
            let expected =
                format!("`teacher.harness.url` carries a user, a password or a query, but {moved}");
            check(&format!("{base}url = '{url}'"), TeacherRole::Harness, &expected);
        }
        for header in ["Authorization", "x-api-key", "API-Key"] {
            let text = format!("{base}url = 'http://host/v1'\nheaders = {{ '{header}' = 'secret' }}");
            let expected = format!("`teacher.harness.headers` sets `{header}`, but {moved}");
            check(&text, TeacherRole::Harness, &expected);
        }
    }
}
