//! What does one call of a hook cost on a warm instance?

use std::hint::black_box;

use anyhow::{Result, ensure};
use measure::{batches, tell};
use serde_json::json;
use tandem_host::harness::{Generations, ModelCallEffect};
use tandem_host::plugin::{Budget, Context, NoWorkspace, NoteOrStop, RewriteOrRefuse, Usage};
use tandem_host::policy::ToolCall;
use tandem_host::store::BlobStore;

use crate::guests::{self, Guests, LANGUAGES, now};
use crate::starts::instance;

const ME: &str = "tandem";

/// Near the end of an episode, so that the hook has something to say.
pub fn context() -> Context {
    Context {
        turn: 48,
        budget: Budget {
            turns: Usage { used: 47, limit: Some(50) },
            tokens: Usage { used: 12_345, limit: None },
            seconds: Usage { used: 90, limit: Some(600) },
        },
        now_ms: 90_000,
    }
}

/// A call that the hook refuses.
pub fn tool_call() -> ToolCall {
    let arguments = json!({"command": "rm -rf / --no-preserve-root"});
    ToolCall { id: "c1".into(), name: "bash".into(), arguments }
}

pub fn run(guests: &Guests) -> Result<()> {
    let engine = guests::engine()?;
    let (context, tool_call) = (context(), tool_call());
    for language in LANGUAGES {
        let Some(component) = guests.hook(language) else { continue };
        let admitted = guests::admitted(&engine, &component)?;
        let mut instance = instance(&admitted);
        let answer = now(instance.on_model_call(&context))?;
        let said = matches!(&answer, Some(NoteOrStop::Note(text)) if text == "3 of 50 turns are left.");
        ensure!(said, "the {language} guest answered {answer:?}");
        let answer = now(instance.on_tool_call(&context, &tool_call))?;
        let said = matches!(&answer, Some(RewriteOrRefuse::Refuse(why)) if why == "Work in the repository.");
        ensure!(said, "the {language} guest answered {answer:?}");

        let of = |point: &str| match language {
            "rust" => format!("call/{point}"),
            _ => format!("call/{point}/{language}"),
        };
        tell(&batches(&of("on-model-call"), ME, 5000, 100, || {
            black_box(now(instance.on_model_call(&context))).ok();
        }));
        tell(&batches(&of("on-tool-call"), ME, 5000, 100, || {
            black_box(now(instance.on_tool_call(&context, &tool_call))).ok();
        }));
    }

    // The same through the chain of an episode, which records every effect.
    let blobs_dir = tempfile::tempdir()?;
    let blobs = BlobStore::open(blobs_dir.path())?;
    let generation = guests::generation(&engine, guests, &["rust-0".to_owned()], &blobs)?;
    let lease = Generations::new(generation).lease();
    let mut hooks = lease.open(1, std::sync::Arc::new(NoWorkspace));
    let effect = now(hooks.on_model_call(&context));
    ensure!(matches!(&effect, ModelCallEffect::Proceed(notes) if notes.len() == 1), "{effect:?}");
    tell(&batches("call/chain-of-one", ME, 2000, 100, || {
        black_box(now(hooks.on_model_call(&context)));
    }));
    Ok(())
}
