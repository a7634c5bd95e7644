//! Which edits of prompts, settings and limits does the catalog have, and which signals do they answer?
//!
//! They come after the plugins that answer the same signal. Each is made for the harness that is in force:
//! a sentence goes behind the prompt that is there, a limit moves from where it is, a setting is for a plugin that
//! is there.

use tandem_host::harness::{HarnessManifest, Limits};

use super::edit::{Edit, LimitsEdit, PromptName};
use super::signals::Signal::{self, *};

/// An edit that answers a signal.
pub(super) struct Adjustment {
    pub signal: Signal,
    /// What people call it.
    pub name: &'static str,
    pub change: Change,
    pub rationale: &'static str,
}

pub(super) enum Change {
    /// A paragraph behind the text of a prompt.
    Append(PromptName, &'static str),
    Limits(fn(&Limits) -> LimitsEdit),
    /// A setting of a plugin of the catalog, beside those that it has.
    Set {
        plugin: &'static str,
        key: &'static str,
        value: u64,
    },
}

impl Adjustment {
    /// The edit for `harness`; none where it would change nothing, or would go too far.
    pub fn edit(&self, harness: &HarnessManifest) -> Option<Edit> {
        let edit = match &self.change {
            Change::Append(prompt, sentence) => {
                let now = prompt.of(&harness.prompts);
                if now.contains(sentence) {
                    return None;
                }
                Edit::Prompt { prompt: *prompt, text: format!("{}\n\n{sentence}", now.trim_end()) }
            }
            Change::Set { plugin, key, value } => {
                let entry = harness.plugins.iter().find(|entry| entry.name == *plugin)?;
                let mut settings = entry.settings.clone();
                settings.insert((*key).into(), (*value).into());
                Edit::Settings { plugin: (*plugin).into(), settings }
            }
            Change::Limits(change) => Edit::Limits { limits: change(&harness.limits) },
        };
        let edited = edit.apply(self.name, None, harness).ok()?;
        (edited != *harness).then_some(edit)
    }
}

/// For each signal the edits to try, in this order.
pub(super) const ADJUSTMENTS: &[Adjustment] = &[
    Adjustment {
        signal: FormatError,
        name: "say-what-ran",
        change: Change::Append(
            PromptName::FormatError,
            "Nothing of that reply was run. Reply again with one short thought and one action, and wait for its result.",
        ),
        rationale: "the policy learns that nothing happened and what a reply looks like",
    },
    Adjustment {
        signal: FormatError,
        name: "forgive-format-errors",
        change: Change::Limits(|now| LimitsEdit {
            format_errors: Some(now.format_errors.saturating_add(2)),
            ..LimitsEdit::default()
        }),
        rationale: "an episode goes on after replies that the policy can still mend",
    },
    Adjustment {
        signal: UntestedHandIn,
        name: "check-before-hand-in",
        change: Change::Append(
            PromptName::System,
            "After the last change and before you hand in, run the code that you changed, or its tests, and read the result.",
        ),
        rationale: "a change is run before it is handed in",
    },
    Adjustment {
        signal: ManyLooks,
        name: "change-early",
        change: Change::Append(
            PromptName::System,
            "Look only at what the task names and at what that leads to. As soon as the cause is clear, make the change and check it.",
        ),
        rationale: "turns go into changes and checks instead of looks",
    },
    Adjustment {
        signal: RepeatedCommand,
        name: "never-repeat",
        change: Change::Append(
            PromptName::System,
            "A command that was run gives the same result again as long as no file has changed. When something does not work twice, try another way.",
        ),
        rationale: "the policy leaves a way that does not work",
    },
    Adjustment {
        signal: CommandTimeout,
        name: "longer-commands",
        change: Change::Limits(|now| LimitsEdit {
            command_seconds: Some(now.command_seconds.saturating_mul(2)),
            ..LimitsEdit::default()
        }),
        rationale: "commands that need more time come to their end",
    },
    Adjustment {
        signal: LongTestFailure,
        name: "longer-observations",
        change: Change::Limits(|now| LimitsEdit {
            observation_chars: Some(now.observation_chars.saturating_add(10_000)),
            ..LimitsEdit::default()
        }),
        rationale: "the report of a failing run is read without a cut in its middle",
    },
    Adjustment {
        signal: LongOutput,
        name: "fold-earlier",
        change: Change::Set { plugin: "fold-output", key: "max_lines", value: 50 },
        rationale: "output that is still long to read is folded too",
    },
    Adjustment {
        signal: LongOutput,
        name: "shorter-observations",
        change: Change::Limits(|now| LimitsEdit {
            observation_chars: Some(now.observation_chars / 2),
            ..LimitsEdit::default()
        }),
        rationale: "long output leaves more of the conversation to what matters",
    },
    Adjustment {
        signal: SlowSearch,
        name: "search-narrowly",
        change: Change::Append(
            PromptName::System,
            "Search in the folder that matters, for names of files first and for text in few files then, and cut long lists with `head`.",
        ),
        rationale: "searches end quickly and give what can be read",
    },
];
