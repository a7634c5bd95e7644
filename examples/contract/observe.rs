//! Logs when each turn ended, in virtual time.

use tandem_plugin::*;

pub struct Plugin;

impl Observe for Plugin {
    fn observe(_context: Context, name: String, _payload: String) {
        if name == "turn" {
            log::info(&format!("a turn ended after {} ms", clock::now_ms()));
        }
    }
}

export_observe!(Plugin);
