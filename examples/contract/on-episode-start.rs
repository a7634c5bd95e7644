//! Names the files at the top of the workspace, so that the first command need not.

use tandem_plugin::*;

pub struct Plugin;

impl OnEpisodeStart for Plugin {
    fn on_episode_start(_context: Context, _instruction: String) -> Option<String> {
        let entries = workspace::list("").ok()?;
        let names: Vec<String> =
            entries.into_iter().map(|entry| entry.path).filter(|path| !path.starts_with('.')).collect();
        (!names.is_empty()).then(|| format!("The repository has: {}", names.join(", ")))
    }
}

export_on_episode_start!(Plugin);
