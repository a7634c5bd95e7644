//! `tandem`: trains a coding agent's policy and evolves its harness in one loop.
//! The program joins the crates `tandem-host` and `tandem-trainer`.

mod campaign;
mod cli;
mod evolve;
mod model;
mod pair;
mod serve;
mod view;

fn main() -> std::process::ExitCode {
    cli::main()
}
