//! `tandem serve`: let other programs use a policy or the tools of a harness.

mod mcp;
mod policy;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::Exit;
use crate::serve::{AccessToken, Ended, Limits, Listener};

#[derive(Subcommand)]
pub enum ServeCommand {
    /// Answer OpenAI's API with a policy: models, chat completions, completions.
    Policy(policy::PolicyArguments),
    /// Offer the tools of a harness as MCP tools, over standard input and output or over HTTP.
    Mcp(mcp::McpArguments),
}

/// Who may connect.
#[derive(clap::Args)]
pub struct ListenArguments {
    /// A file that holds the access token; else the variable `TANDEM_SERVE_TOKEN`. Where others can
    /// connect, one of them is needed.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Most connections at once.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Most bytes of a request.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    body_bytes: usize,
    /// Seconds that the head of a request may take, and as many again its body.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = parse_seconds)]
    read_seconds: f64,
    /// Seconds for which a client may take nothing of its answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    write_seconds: f64,
    /// Seconds that what is under way may take after the signal to end.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = parse_seconds)]
    drain_seconds: f64,
}

impl ListenArguments {
    async fn listen(&self, address: &str) -> Result<Listener> {
        let seconds = Duration::from_secs_f64;
        let limits = Limits {
            connections: self.connections,
            body_bytes: self.body_bytes,
            head: seconds(self.read_seconds),
            body: seconds(self.read_seconds),
            stall: seconds(self.write_seconds),
        };
        Listener::bind(address, AccessToken::find(self.token_file.as_deref())?, limits).await
    }

    fn drain(&self) -> Duration {
        Duration::from_secs_f64(self.drain_seconds)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.001 to 1000000 is needed".into())
}

fn exit(ended: Ended) -> Exit {
    match ended {
        Ended::Drained => Exit::Done,
        Ended::Cut => Exit::Interrupted,
    }
}

pub async fn run(command: ServeCommand) -> Result<Exit> {
    match command {
        ServeCommand::Policy(arguments) => policy::run(arguments).await,
        ServeCommand::Mcp(arguments) => mcp::run(arguments).await,
    }
}
