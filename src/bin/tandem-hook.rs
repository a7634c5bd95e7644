//! The hook's process that an agent starts: small, so that it is there at once. `tandem hook AGENT EVENT`
//! does the same.

// Each module is a room of `src/hook`, of which this program needs a part.
#![allow(dead_code)]

#[path = "../hook/agent.rs"]
mod agent;
#[path = "../hook/client.rs"]
mod client;
#[path = "../hook/journal.rs"]
mod journal;
#[path = "../hook/place.rs"]
mod place;
#[path = "../hook/target.rs"]
mod target;
#[path = "../hook/wire.rs"]
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1);
    let words = ["tandem", "hook"].into_iter().map(Into::into).chain(words);
    match client::quick(words) {
        Some(code) => ExitCode::from(code),
        None => {
            eprintln!(
                "error: these are no words of a hook\nhelp: `tandem hook install AGENT --harness H` writes them into the agent's settings"
            );
            // 2 would be a refusal to an agent.
            ExitCode::FAILURE
        }
    }
}
