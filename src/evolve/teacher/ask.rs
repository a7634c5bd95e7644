//! How is one exchange held? Looks whether it was held before, tries until there
//! is a reply or the budget is spent, and writes each try down before and after.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tandem_host::policy::{Policy, Price};

use super::backend::{Backend, Passing, Trouble};
use super::config::{BudgetConfig, TeacherConfig, TeacherKind};
use super::http::Endpoint;
use super::own_policy::OwnPolicy;
use super::program::Program;
use super::recorded::{self, Recorded};
use super::request::{TeacherReply, TeacherRequest, TeacherRole, TokenUsage};

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TryOutcome {
    /// There is a reply, good or not.
    Answered,
    /// Trouble that may pass.
    Passing,
    /// Trouble that stays.
    Failed,
}

impl TryOutcome {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Passing => "passing-trouble",
            Self::Failed => "failed",
        }
    }
}

/// A try before it is sent.
pub struct TryBegun<'a> {
    /// Which exchange of the run: decided before it is sent, and unique.
    pub place: &'a str,
    pub kind: TeacherKind,
    pub model: String,
    pub request: &'a TeacherRequest,
    /// The most that it can use: what counts if the program dies before the end.
    pub most: TokenUsage,
    pub most_cost: f64,
}

/// A try after it ended.
pub struct TryEnded<'a> {
    pub outcome: TryOutcome,
    /// Why there is no reply.
    pub reason: &'a str,
    pub reply: Option<&'a TeacherReply>,
    pub usage: TokenUsage,
    pub cost: f64,
    pub seconds: f64,
}

/// What a role has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    pub tokens: u64,
    pub money: f64,
}

/// Where exchanges are written down. What was begun survives the program's death at
/// any moment, and what was answered is never asked again.
pub trait ExchangeLog: Send + Sync {
    /// The reply of an exchange that was held.
    fn answered(&self, place: &str) -> Result<Option<TeacherReply>>;
    fn spent(&self, role: TeacherRole) -> Result<Spent>;
    /// Writes a try down; the number names it.
    fn begin(&self, begun: &TryBegun<'_>) -> Result<i64>;
    fn end(&self, number: i64, ended: &TryEnded<'_>) -> Result<()>;
}

/// Why an exchange has no reply.
#[derive(Debug, thiserror::Error)]
pub enum TeacherError {
    #[error(
        "the teacher `{model}` gave no reply in {attempts} tries; the last: {reason}\nhelp: see whether it is up; `budget.attempts` sets the number of tries"
    )]
    Attempts { model: String, attempts: u32, reason: String },
    #[error(
        "the teacher `{model}` gave no reply within its {limit} seconds; the last try: {reason}\nhelp: `budget.seconds` sets the time of one exchange"
    )]
    Seconds { model: String, limit: u64, reason: String },
    #[error(
        "the {role} teacher has used {used} tokens and the next request may take {next} more; its limit is {limit}\nhelp: raise `teacher.{role}.budget.tokens`, or lower `evidence_tokens` or `max_tokens`"
    )]
    Tokens { role: TeacherRole, used: u64, next: u64, limit: u64 },
    #[error(
        "the {role} teacher has cost {used:.4} and the next request may cost {next:.4} more; its limit is {limit:.4}\nhelp: raise `teacher.{role}.budget.money`, or lower `evidence_tokens` or `max_tokens`"
    )]
    Money { role: TeacherRole, used: f64, next: f64, limit: f64 },
    #[error("the teacher `{model}` failed: {reason}\nhelp: {help}")]
    Failed { model: String, reason: String, help: String },
    /// The run's record or a file of recorded exchanges.
    #[error(transparent)]
    Log(#[from] anyhow::Error),
}

/// One teacher, ready to be asked.
pub struct Teacher {
    role: TeacherRole,
    kind: TeacherKind,
    backend: Box<dyn Backend>,
    budget: BudgetConfig,
    price: Price,
    max_tokens: u64,
    record: Option<PathBuf>,
}

impl Teacher {
    /// The teacher of a section; none for the catalog. Everything that can be wrong
    /// without asking is found here. `policy` is asked by the kind `policy`.
    ///
    /// # Errors
    /// A sentence with its help.
    pub fn open(
        role: TeacherRole,
        config: &TeacherConfig,
        policy: Option<Arc<dyn Policy>>,
    ) -> Result<Option<Self>, String> {
        let backend: Box<dyn Backend> = match config.kind {
            TeacherKind::Catalog => return Ok(None),
            TeacherKind::Openai | TeacherKind::Anthropic => Box::new(Endpoint::new(config)?),
            TeacherKind::Command => Box::new(Program::new(config)?),
            TeacherKind::Policy => match policy {
                Some(policy) => Box::new(OwnPolicy::new(config, policy)),
                None => {
                    return Err("the policy is only there while a campaign runs\nhelp: ask with another kind, or see the request with `--dry-run`".into());
                }
            },
            TeacherKind::Recorded => {
                let file = config.exchanges.as_deref().ok_or("`exchanges` names no file")?;
                Box::new(Recorded::open(file)?)
            }
        };
        Ok(Some(Self {
            role,
            kind: config.kind,
            backend,
            budget: config.budget.clone(),
            price: config.price,
            max_tokens: config.max_tokens,
            record: config.record.clone(),
        }))
    }

    /// What records call it.
    pub fn model(&self) -> String {
        self.backend.model()
    }

    /// Holds the exchange at `place`, or gives what was answered there before.
    pub async fn ask(
        &self,
        place: &str,
        request: &TeacherRequest,
        log: &dyn ExchangeLog,
    ) -> Result<TeacherReply, TeacherError> {
        if let Some(reply) = log.answered(place)? {
            return Ok(reply);
        }
        let start = Instant::now();
        let mut wait = Duration::from_millis(self.budget.backoff_ms);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let most = self.check_budget(request, log)?;
            let begun = TryBegun {
                place,
                kind: self.kind,
                model: self.model(),
                request,
                most,
                most_cost: most.cost(&self.price),
            };
            let number = log.begin(&begun)?;
            let began = Instant::now();
            let answered = self.within(start, self.backend.answer(request)).await;
            let seconds = began.elapsed().as_secs_f64();
            let trouble = match answered {
                Ok(reply) => {
                    // First the file, then the row that says that it need not be asked again.
                    if let Some(file) = &self.record {
                        recorded::append(file, request, &reply).with_context(|| {
                            format!(
                                "the exchange cannot be written to {}\nhelp: check `record`",
                                file.display()
                            )
                        })?;
                    }
                    let usage = reply.usage;
                    let cost = usage.cost(&self.price);
                    let outcome = TryOutcome::Answered;
                    log.end(
                        number,
                        &TryEnded { outcome, reason: "", reply: Some(&reply), usage, cost, seconds },
                    )?;
                    return Ok(reply);
                }
                Err(trouble) => trouble,
            };
            let usage = match trouble.paid {
                true => TokenUsage { reply: super::tokens::estimate(&trouble.partial) as u64, ..most },
                false => TokenUsage::default(),
            };
            let cost = usage.cost(&self.price);
            let outcome = match trouble.passing {
                Passing::Yes { .. } => TryOutcome::Passing,
                Passing::No { .. } => TryOutcome::Failed,
            };
            log.end(number, &TryEnded { outcome, reason: &trouble.what, reply: None, usage, cost, seconds })?;
            let (model, reason) = (self.model(), trouble.what);
            let asked = match trouble.passing {
                Passing::No { help } => return Err(TeacherError::Failed { model, reason, help }),
                Passing::Yes { wait } => wait,
            };
            if attempts >= self.budget.attempts {
                return Err(TeacherError::Attempts { model, attempts, reason });
            }
            let pause = asked.unwrap_or(wait.min(Duration::from_secs(60)));
            let limit = self.budget.seconds;
            if limit > 0 && start.elapsed() + pause > Duration::from_secs(limit) {
                return Err(TeacherError::Seconds { model, limit, reason });
            }
            tracing::warn!(
                "try {attempts} of {} of the {} teacher gave no reply, the next one comes in {:.1} s: {reason}",
                self.budget.attempts,
                self.role,
                pause.as_secs_f64()
            );
            tokio::time::sleep(pause).await;
            wait = wait.saturating_mul(2);
        }
    }

    /// A try ends with the time of its exchange at the latest.
    async fn within(
        &self,
        start: Instant,
        answer: impl Future<Output = Result<TeacherReply, Trouble>>,
    ) -> Result<TeacherReply, Trouble> {
        if self.budget.seconds == 0 {
            return answer.await;
        }
        let left = Duration::from_secs(self.budget.seconds).saturating_sub(start.elapsed());
        tokio::time::timeout(left, answer).await.unwrap_or_else(|_| {
            Err(Trouble::passing("the time of the exchange was over before the reply came").after(""))
        })
    }

    /// The most that the request can use, if the role's budget still has that much.
    fn check_budget(
        &self,
        request: &TeacherRequest,
        log: &dyn ExchangeLog,
    ) -> Result<TokenUsage, TeacherError> {
        let most = TokenUsage { prompt: request.estimated_tokens(), reply: self.max_tokens, estimated: true };
        let (role, budget, spent) = (self.role, &self.budget, log.spent(self.role)?);
        let next = most.prompt + most.reply;
        if budget.tokens > 0 && spent.tokens + next > budget.tokens {
            return Err(TeacherError::Tokens { role, used: spent.tokens, next, limit: budget.tokens });
        }
        let next = most.cost(&self.price);
        if budget.money > 0.0 && spent.money + next > budget.money {
            return Err(TeacherError::Money { role, used: spent.money, next, limit: budget.money });
        }
        Ok(most)
    }
}
