//! What does the same hook cost in Extism? `extism-contender HOOK.wasm` prints figures.

use anyhow::{Context as _, Result, ensure};
use extism::convert::Json;
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};
use measure::{Figure, Unit, batches, memory, nanoseconds, tell};
use serde::{Deserialize, Serialize};

const ME: &str = "extism";

#[derive(Clone, Serialize)]
struct Context {
    turn: u32,
    budget: Budget,
}

#[derive(Clone, Serialize)]
struct Budget {
    turns: Usage,
    tokens: Usage,
    seconds: Usage,
}

#[derive(Clone, Serialize)]
struct Usage {
    used: u64,
    limit: Option<u64>,
}

#[derive(Serialize)]
struct ToolCallInput {
    context: Context,
    call: ToolCall,
}

#[derive(Serialize)]
struct ToolCall {
    id: &'static str,
    name: &'static str,
    arguments: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Effect {
    Note(String),
    Refuse(String),
}

type Answer = Json<Option<Effect>>;

fn context() -> Context {
    Context {
        turn: 48,
        budget: Budget {
            turns: Usage { used: 47, limit: Some(50) },
            tokens: Usage { used: 12_345, limit: None },
            seconds: Usage { used: 90, limit: Some(600) },
        },
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: extism-contender HOOK.wasm")?;
    let manifest = Manifest::new([Wasm::file(&path)]);
    let compiled = CompiledPlugin::new(PluginBuilder::new(manifest))?;
    let mut plugin = Plugin::new_from_compiled(&compiled)?;

    let context = context();
    let Json(answer) = plugin.call::<_, Answer>("on_model_call", Json(&context))?;
    let said = matches!(&answer, Some(Effect::Note(text)) if text == "3 of 50 turns are left.");
    ensure!(said, "the Extism plugin answered {answer:?}");
    tell(&batches("call/on-model-call", ME, 1000, 100, || {
        let answer = plugin.call::<_, Answer>("on_model_call", Json(&context));
        std::hint::black_box(answer).ok();
    }));

    let refused = ToolCallInput {
        context: context.clone(),
        call: ToolCall { id: "c1", name: "bash", arguments: r#"{"command":"rm -rf / --no-preserve-root"}"# },
    };
    let Json(answer) = plugin.call::<_, Answer>("on_tool_call", Json(&refused))?;
    let said = matches!(&answer, Some(Effect::Refuse(text)) if text == "Work in the repository.");
    ensure!(said, "the Extism plugin answered {answer:?}");
    tell(&batches("call/on-tool-call", ME, 1000, 100, || {
        let answer = plugin.call::<_, Answer>("on_tool_call", Json(&refused));
        std::hint::black_box(answer).ok();
    }));

    let (mut starts, mut firsts) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let (plugin, start) = nanoseconds(|| Plugin::new_from_compiled(&compiled));
        let mut plugin = plugin?;
        let (answer, first) = nanoseconds(|| plugin.call::<_, Answer>("on_model_call", Json(&context)));
        answer?;
        starts.push(start);
        firsts.push(first);
    }
    let figure = |id, samples| Figure::of(id, ME, Unit::Nanoseconds, samples, "500 instances");
    tell(&figure("start/rust", starts));
    tell(&figure("first-call/rust", firsts));

    let figure = memory("memory/rust", ME, 500, |_| {
        let mut plugin = Plugin::new_from_compiled(&compiled).ok();
        if let Some(plugin) = &mut plugin {
            plugin.call::<_, Answer>("on_model_call", Json(&context)).ok();
        }
        plugin
    });
    figure.iter().for_each(tell);
    Ok(())
}
