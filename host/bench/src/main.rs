//! What does the plugin host cost, and what do its peers cost? `make bench-host` runs this; the
//! table is `docs/benchmarks.md`.
//!
//! One process for each contender: `tandem-bench run` starts the others, and each prints its
//! figures as lines of JSON (see the crate `measure`).

mod admission;
mod agent;
mod agent_idle;
mod agent_page;
mod bare;
mod calls;
mod chain;
mod driver;
mod episode;
mod forge;
mod guests;
mod hostile;
mod machine;
mod memory;
mod neighbours;
mod report;
mod starts;
mod subprocess;

use anyhow::{Result, anyhow, bail};
use tandem_host::plugin::compile_child;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["run", guests, extism, out] => driver::run(guests.as_ref(), extism, out.as_ref()),
        ["guests", dir] => guests::build(dir.as_ref()),
        ["forge", examples, cache, out] => forge::run(examples.as_ref(), cache.as_ref(), out.as_ref()),
        ["agent", script, out] => agent::run(&agent::package(), script.as_ref(), out.as_ref()),
        ["agent-idle", files] => agent_idle::run(files),
        ["tandem", guests] => {
            let guests = guests::Guests::at(guests)?;
            calls::run(&guests)?;
            starts::run(&guests)?;
            episode::run(&guests)?;
            admission::run(&guests)?;
            neighbours::run(&guests)?;
            hostile::run(&guests)?;
            chain::run(&guests)
        }
        // One group alone, for a profiler.
        ["only", group, guests] => {
            let guests = guests::Guests::at(guests)?;
            match group {
                "calls" => calls::run(&guests),
                "starts" => starts::run(&guests),
                "episode" => episode::run(&guests),
                "admission" => admission::run(&guests),
                "neighbours" => neighbours::run(&guests),
                "hostile" => hostile::run(&guests),
                "chain" => chain::run(&guests),
                _ => bail!("there is no group `{group}`"),
            }
        }
        ["memory", language, guests] => memory::run(language, &guests::Guests::at(guests)?),
        ["bare", guests] => bare::run(&guests::Guests::at(guests)?).map_err(|error| anyhow!("{error:#}")),
        // The child process of an admission.
        ["compile", input, output] => {
            compile_child(input.as_ref(), output.as_ref(), None).map_err(anyhow::Error::msg)
        }
        ["compile", input, output, functions] => {
            compile_child(input.as_ref(), output.as_ref(), Some(functions.as_ref()))
                .map_err(anyhow::Error::msg)
        }
        ["subprocess"] => subprocess::run(),
        _ => bail!("usage: tandem-bench run GUESTS EXTISM_CONTENDER OUT.md\nhelp: `make bench-host` does it"),
    }
}
