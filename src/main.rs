//! `tandem`: trains a coding agent's policy and evolves its harness in one loop.
//! The program joins the crates `tandem-host` and `tandem-trainer`.

// Without the trainer no campaign runs; its file, gate and teacher stay for the report.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]

mod campaign;
mod cli;
mod evolve;
mod model;
mod pair;
mod view;

fn main() -> std::process::ExitCode {
    cli::main()
}
