//! `tandem`: trains a coding agent's policy and evolves its harness in one loop.
//! The program joins the crates `tandem-host` and `tandem-trainer`.

mod campaign;
mod cli;
mod evaluate;
mod evolve;
mod hook;
mod model;
mod pair;
mod serve;
mod view;

fn main() -> std::process::ExitCode {
    tandem_trainer::checkpoint::tell_moments(tandem_host::store::named_moment);
    cli::main()
}
