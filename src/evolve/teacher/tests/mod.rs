//! The teachers against real counterparts: an HTTP server, programs, the forge, episodes.

mod canary;
mod evidence;
mod http;
mod leaks;
mod programs;
mod replies;
mod rounds;
#[path = "../../../../tests/openai_server/mod.rs"]
mod server;

use super::request::{TeacherReply, TeacherRequest, TeacherRole};
use super::{TeacherConfig, TeacherError};
use crate::campaign::RunRecord;
use server::Server;

/// A run record in a folder of its own.
struct Log {
    record: RunRecord,
    folder: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { record: RunRecord::open(folder.path()).unwrap(), folder }
    }

    /// Outcome, tokens and cost of each try.
    fn tries(&self) -> Vec<(String, u64, u64, f64)> {
        let rows = self.record.exchanges().unwrap();
        rows.into_iter().map(|row| (row.outcome, row.prompt_tokens, row.reply_tokens, row.cost)).collect()
    }

    fn outcomes(&self) -> Vec<String> {
        self.tries().into_iter().map(|(outcome, ..)| outcome).collect()
    }
}

fn request(user: &str) -> TeacherRequest {
    TeacherRequest { role: TeacherRole::Harness, system: "s".into(), user: user.into(), repairs: Vec::new() }
}

/// A campaign's section, for this server.
fn config(server: &Server, text: &str) -> TeacherConfig {
    let base = format!("kind = 'openai'\nurl = '{}'\nmodel = 'm'\nmax_tokens = 1000\n", server.url);
    let config: TeacherConfig = toml::from_str(&format!("{base}{text}")).unwrap();
    config.check(TeacherRole::Harness).unwrap();
    config
}

const QUICK: &str = "[budget]\nbackoff_ms = 1\n";

async fn ask(config: &TeacherConfig, log: &Log) -> Result<TeacherReply, TeacherError> {
    let teacher = super::Teacher::open(TeacherRole::Harness, config, None).unwrap().unwrap();
    teacher.ask("r1/harness/0/0", &request("u"), &log.record).await
}
