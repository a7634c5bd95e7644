//! How does a teacher mend a reply that will not do? What is wrong with it goes back, a few times.

use super::ask::{ExchangeLog, Teacher, TeacherError};
use super::prompts::{Prompt, Prompts};
use super::request::{TeacherReply, TeacherRequest};
use super::tokens::shorten;

/// An exchange with its repairs.
pub(super) struct Exchange<'a> {
    pub teacher: &'a Teacher,
    /// Names the exchanges in the run's record; the number of the round comes behind it.
    pub place: &'a str,
    pub log: &'a dyn ExchangeLog,
    pub prompts: &'a Prompts,
    /// Most repair rounds.
    pub repairs: u32,
    /// Most tokens of a reason that goes back.
    pub reason_tokens: usize,
}

impl Exchange<'_> {
    /// What `read` made of the first reply that would do, and why those before it would not. `read` is given
    /// the place of the reply too; its reasons go back to the teacher.
    ///
    /// # Errors
    /// No first reply within the budget, and trouble of this machine.
    pub async fn until_usable<T>(
        &self,
        mut request: TeacherRequest,
        read: impl AsyncFn(&TeacherReply, &str) -> anyhow::Result<Result<T, String>>,
    ) -> Result<(Option<T>, Vec<String>), TeacherError> {
        let mut reasons = Vec::new();
        for round in 0..=self.repairs {
            let place = format!("{}/{round}", self.place);
            let reply = match self.teacher.ask(&place, &request, self.log).await {
                Ok(reply) => reply,
                // What the first rounds cost is spent; their reasons are worth keeping.
                Err(error @ TeacherError::Log(_)) => return Err(error),
                Err(error) if reasons.is_empty() => return Err(error),
                Err(error) => {
                    reasons.push(error.to_string());
                    break;
                }
            };
            let reason = match read(&reply, &place).await? {
                Ok(made) => return Ok((Some(made), reasons)),
                Err(reason) => reason,
            };
            let left = self.repairs.saturating_sub(round + 1);
            let context =
                minijinja::context! { reason => shorten(&reason, self.reason_tokens), left => left };
            let told = self.prompts.render(Prompt::Repair, context).map_err(unrendered)?;
            reasons.push(reason);
            request = request.repaired(&reply.text, told);
        }
        Ok((None, reasons))
    }
}

/// A prompt that cannot be made is trouble of this machine.
pub(super) fn unrendered(reason: String) -> TeacherError {
    TeacherError::Log(anyhow::anyhow!(reason))
}
