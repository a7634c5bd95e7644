//! Shorter corrective texts than the host's.

use tandem_plugin::*;

pub struct Plugin;

impl OnFormatError for Plugin {
    fn on_format_error(_context: Context, error: FormatError, _output: String) -> Option<String> {
        match error {
            FormatError::NoAction => Some("Answer with one command in a bash block.".into()),
            FormatError::SeveralActions => Some("One command in each answer, please.".into()),
            // The host's own texts name the tool and the place.
            FormatError::UnknownTool | FormatError::BadArguments | FormatError::CutOff => None,
        }
    }
}

export_on_format_error!(Plugin);
