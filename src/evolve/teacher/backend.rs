//! What answers one try of an exchange, and what can go wrong in it?

use std::time::Duration;

use async_trait::async_trait;

use super::request::{TeacherReply, TeacherRequest};

/// One kind of teacher. A backend tries once; [`super::ask`] tries again.
#[async_trait]
pub trait Backend: Send + Sync {
    async fn answer(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble>;

    /// What records call it: the model, the program.
    fn model(&self) -> String;
}

/// Why a try gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One sentence.
    pub what: String,
    pub passing: Passing,
    /// What of the reply had come, if some had: it is paid for.
    pub partial: String,
    /// Whether the endpoint may have worked on it: a refused connection costs nothing.
    pub paid: bool,
}

/// Whether trying again may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It may, after this time if the endpoint named one.
    Yes { wait: Option<Duration> },
    /// It will not; what to do instead.
    No { help: String },
}

impl Trouble {
    /// Trouble that may pass.
    pub fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), passing: Passing::Yes { wait: None }, partial: String::new(), paid: false }
    }

    /// Trouble that stays.
    pub fn lasting(what: impl Into<String>, help: impl Into<String>) -> Self {
        let passing = Passing::No { help: help.into() };
        Self { what: what.into(), passing, partial: String::new(), paid: false }
    }

    /// With what had come of the reply.
    pub fn after(mut self, partial: &str) -> Self {
        self.partial = partial.to_owned();
        self.paid = true;
        self
    }
}

/// Keys that must appear nowhere: what comes from outside is searched for them.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// A key shorter than this stands for none (`none`, `EMPTY`), as local servers want one.
const SHORTEST_KEY: usize = 8;

impl Secrets {
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        Self(keys.into_iter().filter(|key| key.len() >= SHORTEST_KEY).collect())
    }

    /// The text with every key blotted out.
    pub fn blot(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, key| text.replace(key.as_str(), "[key]"))
    }

    /// The same for whatever a backend gave.
    pub fn blot_result(&self, result: Result<TeacherReply, Trouble>) -> Result<TeacherReply, Trouble> {
        match result {
            Ok(reply) => Ok(TeacherReply { text: self.blot(&reply.text), ..reply }),
            Err(trouble) => Err(Trouble {
                what: self.blot(&trouble.what),
                partial: self.blot(&trouble.partial),
                ..trouble
            }),
        }
    }
}

/// What an environment variable holds.
///
/// # Errors
/// The sentence that says what is missing.
pub fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty()).ok_or_else(|| {
        format!("the environment variable `{name}` is not set\nhelp: put the endpoint's key into it")
    })
}
