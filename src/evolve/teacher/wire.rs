//! What has come of a reply so far, whatever the wire format?

use super::backend::Trouble;
use super::request::{Finish, TeacherReply, TeacherRequest, TokenUsage};
use super::tokens;

/// A reply while it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    pub text: String,
    /// Why it ended, once that is known.
    pub finish: Option<Finish>,
    pub prompt_tokens: Option<u64>,
    pub reply_tokens: Option<u64>,
    /// The endpoint said that nothing more comes.
    pub ended: bool,
}

impl Partial {
    /// The reply, if it is whole.
    pub fn finish(self, host: &str, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        // Some endpoints leave out the mark of the end, none the reason why it ended.
        let Some(finish) = self.finish else {
            let what = match self.ended {
                true => format!("{host} ended the reply without saying why"),
                false => format!("{host} broke off in the middle of the reply"),
            };
            return Err(Trouble::passing(what).after(&self.text));
        };
        let estimated = self.prompt_tokens.is_none() || self.reply_tokens.is_none();
        let usage = TokenUsage {
            prompt: self.prompt_tokens.unwrap_or_else(|| request.estimated_tokens()),
            reply: self.reply_tokens.unwrap_or_else(|| tokens::estimate(&self.text) as u64),
            estimated,
        };
        Ok(TeacherReply { text: self.text, finish, usage })
    }
}

/// An answer that is not in the shape of its wire format.
pub fn unreadable(host: &str, what: impl std::fmt::Display) -> Trouble {
    Trouble::lasting(
        format!("{host} answered in another shape: {what}"),
        "check that `kind` and `url` fit the endpoint",
    )
}
