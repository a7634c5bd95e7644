//! How does a Rust program run a Tandem hook? From source to an answer, without an async runtime.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use pollster::block_on;
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::plugin::{
    AdmissionOptions, Budget, Context, Engine, Grants, Instance, InstanceConfig, NoWorkspace, NoteOrStop,
    PluginLimits, Usage, admit,
};

fn main() {
    match run(concat!(env!("CARGO_MANIFEST_DIR"), "/target/forge").as_ref()) {
        Ok(answer) => println!("{answer}"),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

/// What the hook says before the 9th of 10 model calls.
pub fn run(cache: &Path) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(cache)?;
    // Source to component, in a sandbox. Bytes of a component from anywhere else do as well.
    let forge = Forge::new(ForgeConfig::new(cache))?;
    let source = Source::File { name: "hook.rs".into(), text: include_str!("hook.rs").into() };
    let component = forge.build(&source)?.component;

    // May it run? Checked, compiled and called on trial; with no grant it reaches nothing outside.
    let engine = Engine::new(PluginLimits::default())?;
    let options = AdmissionOptions::default();
    let plugin = block_on(admit(&engine, &component, &Grants::none(), &options))?;

    // One instance for one episode.
    let config = InstanceConfig { settings: "{}".into(), seed: 1, workspace: Arc::new(NoWorkspace) };
    let mut instance = Instance::new(&plugin, config);
    let turns = Usage { used: 8, limit: Some(10) };
    let context = Context { turn: 9, budget: Budget { turns, ..Budget::default() }, now_ms: 0 };
    match block_on(instance.on_model_call(&context)).map_err(|fault| format!("the hook {fault}"))? {
        Some(NoteOrStop::Note(text)) => Ok(format!("note: {text}")),
        Some(NoteOrStop::Stop(reason)) => Ok(format!("stop: {reason}")),
        None => Ok("nothing".into()),
    }
}
