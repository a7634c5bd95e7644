//! What a plugin may ask the host for. Using a function here imports its
//! interface, and an import is a grant that the harness manifest must give.

use crate::bindings::tandem::harness as raw;

/// Messages for the plugin's author, kept in the episode's record. Grant: `log`.
pub mod log {
    use super::raw::log::{Level, log};

    pub fn debug(message: &str) {
        log(Level::Debug, message);
    }

    pub fn info(message: &str) {
        log(Level::Info, message);
    }

    pub fn warn(message: &str) {
        log(Level::Warn, message);
    }

    /// Sends the message of a panic to the log too. Without this it goes to
    /// standard error only, which needs no grant.
    pub fn panics() {
        std::panic::set_hook(Box::new(|panic| warn(&panic.to_string())));
    }
}

/// Why this call is about to fail. Needs no grant. A panic needs no word of it: its message goes to
/// standard error, which the host shows too.
pub mod failure {
    pub use super::raw::failure::explain;
}

/// Virtual time. Grant: `clock`.
pub mod clock {
    pub use super::raw::clock::now_ms;
}

/// Random numbers, the same for the same episode and plugin. Grant: `random`.
pub mod random {
    pub use super::raw::random::next_u64;
}

/// What the plugin keeps during one episode. Grant: `state`.
pub mod state {
    pub use super::raw::state::{get, set};

    /// A text; an empty one if nothing is kept under `key`.
    pub fn text(key: &str) -> String {
        get(key).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// A number; 0 if nothing is kept under `key`.
    pub fn number(key: &str) -> u64 {
        text(key).parse().unwrap_or(0)
    }

    /// Keeps a number. Nothing is kept past the host's cap.
    pub fn set_number(key: &str, number: u64) {
        // A few digits never pass a cap that holds anything at all.
        let _ = set(key, number.to_string().as_bytes());
    }
}

/// The plugin's settings in the harness manifest. Grant: `settings`.
pub mod settings {
    use crate::json::{self, Value};

    /// All settings, an object; an empty one if the host's text is not JSON.
    pub fn all() -> Value {
        json::parse(&super::raw::settings::get()).unwrap_or(Value::Object(Vec::new()))
    }

    /// One setting.
    pub fn get(key: &str) -> Option<Value> {
        all().get(key).cloned()
    }
}

/// The files of the task. Grants: `workspace-read`, and `workspace-write` for [`write`](workspace::write).
pub mod workspace {
    pub use super::raw::workspace_read::{diff, list, read, search, stat, untracked};
    pub use super::raw::workspace_types::{Entry, SearchHit, WorkspaceError};
    pub use super::raw::workspace_write::write;

    /// A file as text; bytes that are not UTF-8 become the replacement character.
    pub fn read_text(path: &str) -> Result<String, WorkspaceError> {
        read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One sentence for a policy to read.
    pub fn explain(error: &WorkspaceError) -> String {
        match error {
            WorkspaceError::NotFound(path) => format!("{path} does not exist"),
            WorkspaceError::Denied(path) => format!("{path} is outside the workspace or may not be used"),
            WorkspaceError::TooLarge(what) | WorkspaceError::Failed(what) => what.clone(),
        }
    }
}

/// Programs in the workspace's sandbox. Grant: `exec`.
pub mod exec {
    pub use super::raw::exec::{Output, run};
}
