//! Records of episodes for tests: what is the least that a record says?

use tandem_host::agent::{CallRecord, EpisodeRecord, Exit, Outcome, TurnRecord};
use tandem_host::harness::{PatchSource, ToolResult, ToolStatus, WorkTree};
use tandem_host::policy::{Message, Role};
use tandem_host::store::Digest;

/// A failed episode that looked once and handed a patch in.
pub(crate) fn episode(task: &str) -> EpisodeRecord {
    EpisodeRecord {
        id: "e".into(),
        task: task.into(),
        seed: 0,
        policy: "p".into(),
        policy_version: 0,
        harness: Digest::of(b"h"),
        turns: vec![turn("ls", "", Some(0))],
        segments: vec![],
        effects: vec![],
        faults: vec![],
        exit: Exit::Submitted,
        patch_source: Some(PatchSource::Submitted),
        patch: b"diff --git a/m.py b/m.py\n".to_vec(),
        work_tree: WorkTree { changed: vec!["m.py".into()], untracked: vec![] },
        submitted_applies: Some(true),
        outcome: Outcome::Unsolved,
        seconds: 0.0,
        spent: Default::default(),
    }
}

/// A turn with one command; without an exit code it was stopped at its time limit.
pub(super) fn turn(command: &str, text: &str, exit_code: Option<i32>) -> TurnRecord {
    TurnRecord {
        input: vec![],
        reply: Message::new(Role::Assistant, ""),
        policy_version: 0,
        sampled_tokens: 1,
        prompt_tokens: 0,
        cost: 0.0,
        condensed: None,
        finish: Default::default(),
        calls: vec![CallRecord {
            name: "bash".into(),
            arguments: serde_json::json!({ "command": command }),
            result: ToolResult {
                status: if exit_code.is_none() { ToolStatus::TimedOut } else { ToolStatus::Finished },
                exit_code,
                text: text.into(),
                raw_bytes: text.len() as u64,
            },
            seconds: 0.0,
        }],
    }
}
