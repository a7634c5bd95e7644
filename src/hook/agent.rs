//! Which agents can call our hooks, at which of their events, and where do they keep their settings?
//!
//! Written against Claude Code's hooks as its Agent SDK 0.3.332 types them, Codex CLI 0.171 and the
//! OpenHands SDK 1.58.2.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An agent whose hooks are commands that read JSON and answer in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    Claude,
    Codex,
    #[value(name = "openhands")]
    OpenHands,
}

/// A moment that an agent tells its hooks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AgentEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Stop,
    SessionEnd,
}

impl AgentEvent {
    const ALL: [Self; 8] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PostToolBatch,
        Self::Stop,
        Self::SessionEnd,
    ];

    /// The name in settings and in the JSON of all three agents.
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PostToolBatch => "PostToolBatch",
            Self::Stop => "Stop",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// The event with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether its settings say for which tools it is wanted.
    pub fn is_of_a_tool(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PostToolUse | Self::PostToolUseFailure)
    }
}

impl Agent {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::OpenHands];

    /// The word of the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenHands => "openhands",
        }
    }

    /// The agent that a word of the command line names.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.word() == word)
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenHands => "OpenHands",
        }
    }

    /// The version whose formats this was written against.
    pub fn version(self) -> &'static str {
        match self {
            Self::Claude => "Agent SDK 0.3.332",
            Self::Codex => "0.171",
            Self::OpenHands => "SDK 1.58.2",
        }
    }

    /// The events that we want to hear of, of those that it has.
    pub fn events(self) -> &'static [AgentEvent] {
        use AgentEvent::{PostToolUse, PreToolUse, SessionEnd, SessionStart, Stop, UserPromptSubmit};
        match self {
            Self::Claude => &AgentEvent::ALL,
            Self::Codex => &[SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Stop],
            Self::OpenHands => &[SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Stop, SessionEnd],
        }
    }

    /// Where its hooks stand: in a project's folder, or in the user's home.
    pub fn settings(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Claude => ".claude/settings.json",
            Self::Codex => ".codex/hooks.json",
            Self::OpenHands => ".openhands/hooks.json",
        })
    }

    /// Whether a tool of it runs lines of a shell, which our plugins know as `bash`.
    pub fn is_shell(self, tool: &str) -> bool {
        match self {
            Self::Claude => tool == "Bash",
            Self::Codex => matches!(tool, "Bash" | "shell" | "exec_command"),
            Self::OpenHands => matches!(tool, "terminal" | "execute_bash" | "bash"),
        }
    }

    /// The variable in which it tells hooks the project's folder, if it does.
    pub fn project_variable(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDE_PROJECT_DIR"),
            Self::Codex => None,
            Self::OpenHands => Some("OPENHANDS_PROJECT_DIR"),
        }
    }
}
