//! What does a new plugin look like? For each export a part in Rust and the cases that show it.

use tandem_host::plugin::HookPoint;

/// One export of a new plugin.
struct Part {
    point: HookPoint,
    /// Constants and an `impl`, without its `export_…!`. `QUIET` stands where a setting may end it.
    rust: &'static str,
    /// What the body gives back when it does nothing.
    silent: &'static str,
    /// What the cases beside it expect: one that fires and one that is silent.
    fires: &'static str,
    stays_silent: &'static str,
    /// The answer under the setting that switches it off.
    off: &'static str,
    /// In the words of a README: when it fires.
    when: &'static str,
}

/// What `tandem plugin new` was asked for.
pub struct Wanted {
    pub name: String,
    /// At least one, in the order of the contract.
    pub points: Vec<HookPoint>,
    /// Whether it declares which settings it takes.
    pub settings_schema: bool,
}

impl Wanted {
    /// The capabilities that the plugin uses, which its cases grant.
    pub fn grants(&self) -> Vec<&'static str> {
        let mut grants = Vec::new();
        if self.points.contains(&HookPoint::Observe) {
            grants.push("log");
        }
        if self.settings_schema {
            grants.push("settings");
        }
        grants
    }

    fn grants_toml(&self) -> String {
        let words: Vec<_> = self.grants().iter().map(|grant| format!("\"{grant}\"")).collect();
        format!("[{}]", words.join(", "))
    }

    /// The source.
    pub fn rust(&self) -> String {
        let parts: Vec<_> = self.points.iter().map(|point| part(*point)).collect();
        let names: Vec<_> = self.points.iter().map(|point| format!("`{}`", point.name())).collect();
        let mut text =
            format!("//! `{}`: say here what it does, and when it stays silent.\n//!\n", self.name);
        let grants = self.grants();
        let grants = if grants.is_empty() { "none".to_owned() } else { format!("`{}`", grants.join("`, `")) };
        text += &format!("//! Exports: {}.\n//! Grants: {grants}.\n\n", names.join(", "));
        text += "use tandem_plugin::*;\n\npub struct Plugin;\n";
        if self.settings_schema {
            text += SETTINGS;
        }
        for part in parts {
            let quiet = match self.settings_schema {
                true => format!("if quiet() {{\n            return {};\n        }}\n        ", part.silent),
                false => String::new(),
            };
            text += &part.rust.replace("QUIET", &quiet).replace("return ();", "return;");
            text += &format!("\nexport_{}!(Plugin);\n", part.point.name().replace('-', "_"));
        }
        text
    }

    /// The cases.
    pub fn cases(&self) -> String {
        let mut text = format!(
            "# When `{}` fires and when it stays silent: `tandem plugin test` runs this.\ngrants = {}\n",
            self.name,
            self.grants_toml()
        );
        for part in self.points.iter().map(|point| part(*point)) {
            let point = part.point.name();
            for (says, case) in [(part.when, part.fires), ("it stays silent otherwise", part.stays_silent)] {
                text += &format!("\n[[case]]\nname = \"{point}: {says}\"\npoint = \"{point}\"\n{case}");
            }
            if self.settings_schema {
                // What the firing case calls, with the setting and with the silent answer.
                let calls: String = part
                    .fires
                    .lines()
                    .filter(|line| line.starts_with("input"))
                    .map(|l| format!("{l}\n"))
                    .collect();
                text += &format!(
                    "\n[[case]]\nname = \"{point}: the setting `quiet` silences it\"\npoint = \"{point}\"\nsettings.quiet = true\n{calls}{}",
                    part.off
                );
            }
        }
        text
    }

    /// What the folder is and what to do next.
    pub fn readme(&self, source: &str) -> String {
        let mut text = format!("# {}\n\nSay here what it does and why.\n\n", self.name);
        text += "| export | what it does until you change it |\n|---|---|\n";
        for part in self.points.iter().map(|point| part(*point)) {
            text += &format!("| `{}` | {} |\n", part.point.name(), part.when);
        }
        if self.settings_schema {
            text += "| `settings-schema` | takes one setting, `quiet`, which silences everything |\n";
        }
        text += &format!(
            "\nIts entry in a harness manifest grants `{}`. `{source}` is the source, `cases.toml` says what it does.\n",
            self.grants_toml()
        );
        text += &format!(
            "\n```sh\ntandem plugin test .                       # build it, admit it, run the cases\ntandem plugin watch .                      # the same at every save\ntandem plugin build . -o {0}.wasm\ntandem plugin check {0}.wasm\n```\n",
            self.name
        );
        text
    }
}

const SETTINGS: &str = r##"
impl SettingsSchema for Plugin {
    fn settings_schema() -> String {
        r#"{"type": "object", "properties": {"quiet": {"type": "boolean"}}, "additionalProperties": false}"#.into()
    }
}

export_settings_schema!(Plugin);

/// Whether its entry in the harness manifest silences it.
fn quiet() -> bool {
    settings::get("quiet") == Some(json::Value::Bool(true))
}
"##;

fn part(point: HookPoint) -> Part {
    match point {
        HookPoint::Tools => Part {
            point,
            rust: r##"
impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "count_lines".into(),
            description: "Counts the lines of a text.".into(),
            input_schema: r#"{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}"#
                .into(),
        }]
    }

    fn call(_context: Context, _name: String, arguments: String) -> ToolOutput {
        QUIETlet arguments = json::parse(&arguments).unwrap_or(json::Value::Null);
        match arguments.get("text").and_then(|text| text.as_str()) {
            Some(text) => ToolOutput::text(format!("{} lines", text.lines().count())),
            None => ToolOutput::error("Give a `text`."),
        }
    }
}
"##,
            silent: r#"ToolOutput::error("This tool is switched off.")"#,
            fires: "input = { name = \"count_lines\", arguments = { text = \"a\\nb\" } }\nexpect = { is_error = false, text = \"2 lines\" }\n",
            stays_silent: "input = { name = \"count_lines\", arguments = {} }\nexpect = { is_error = true, text = \"Give a `text`.\" }\n",
            off: "expect = { is_error = true, text = { contains = \"switched off\" } }\n",
            when: "`count_lines` counts the lines of a text",
        },
        HookPoint::OnEpisodeStart => Part {
            point,
            rust: r#"
impl OnEpisodeStart for Plugin {
    fn on_episode_start(_context: Context, instruction: String) -> Option<String> {
        QUIETlet tests = instruction.contains("test");
        tests.then(|| "Run the tests before you hand in.".into())
    }
}
"#,
            silent: "None",
            fires: "input.instruction = \"Make the tests pass.\"\nexpect = { contains = \"Run the tests\" }\n",
            stays_silent: "input.instruction = \"Correct the spelling.\"\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "an instruction that speaks of tests gets a reminder",
        },
        HookPoint::OnModelCall => Part {
            point,
            rust: r#"
/// Say it in this turn.
const TURN: u32 = 3; // parameter

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        QUIET(context.turn == TURN).then(|| ModelCallEffect::Note("Run the tests.".into()))
    }
}
"#,
            silent: "None",
            fires: "input.context.turn = 3\nexpect.note = \"Run the tests.\"\n",
            stays_silent: "input.context.turn = 4\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "a note comes in turn 3",
        },
        HookPoint::OnFormatError => Part {
            point,
            rust: r#"
impl OnFormatError for Plugin {
    fn on_format_error(_context: Context, error: FormatError, _output: String) -> Option<String> {
        QUIETmatch error {
            FormatError::SeveralActions => Some("Give one command in one block.".into()),
            _ => None,
        }
    }
}
"#,
            silent: "None",
            fires: "input.error = \"several-actions\"\nexpect = { contains = \"one command\" }\n",
            stays_silent: "input.error = \"cut-off\"\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "several actions at once get another corrective text",
        },
        HookPoint::OnToolCall => Part {
            point,
            rust: r#"
impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        QUIETlet command = call.command()?;
        let pushes = command.contains("git push");
        let reason = "There is nowhere to push to; hand the change in.";
        pushes.then(|| ToolCallEffect::Refuse(reason.into()))
    }
}
"#,
            silent: "None",
            fires: "input.call.arguments.command = \"git push origin main\"\nexpect.refuse = { contains = \"hand the change in\" }\n",
            stays_silent: "input.call.arguments.command = \"git diff\"\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "a push is refused",
        },
        HookPoint::OnToolResult => Part {
            point,
            rust: r#"
impl OnToolResult for Plugin {
    fn on_tool_result(
        _context: Context,
        _call: ToolCall,
        outcome: ToolResult,
    ) -> Option<ToolResultEffect> {
        QUIETlet missing = outcome.exit_code == Some(127);
        let advice = "That program is not installed; use another one.";
        missing.then(|| ToolResultEffect::Annotate(advice.into()))
    }
}
"#,
            silent: "None",
            fires: "input.result = { exit_code = 127, text = \"exit code 127\\nbash: nano: command not found\" }\nexpect.annotate = { contains = \"not installed\" }\n",
            stays_silent: "input.result = { exit_code = 1, text = \"exit code 1\" }\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "a program that is missing gets advice",
        },
        HookPoint::OnLoop => Part {
            point,
            rust: r#"
impl OnLoop for Plugin {
    fn on_loop(_context: Context, repetition: Repetition) -> Option<LoopEffect> {
        QUIETlet note = "The same error again: read it from its start.";
        match repetition {
            Repetition::SameError => Some(LoopEffect::Note(note.into())),
            _ => None,
        }
    }
}
"#,
            silent: "None",
            fires: "input.repetition = \"same-error\"\nexpect.note = { contains = \"same error\" }\n",
            stays_silent: "input.repetition = \"no-action\"\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "the same error three times gets a note",
        },
        HookPoint::OnSubmit => Part {
            point,
            rust: r#"
impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        QUIETlet first_empty = submission.patch.is_empty() && submission.deferrals == 0;
        first_empty.then(|| "Your patch is empty. Hand in the difference.".into())
    }
}
"#,
            silent: "None",
            fires: "input.submission.patch = { bytes = 0, files = [] }\nexpect = { starts = \"Your patch is empty.\" }\n",
            stays_silent: "input.submission.patch.bytes = 120\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "an empty patch is held back once",
        },
        HookPoint::OnChoosePatch => Part {
            point,
            rust: r#"
impl OnChoosePatch for Plugin {
    fn on_choose_patch(_context: Context, candidates: Vec<PatchCandidate>) -> Option<u32> {
        QUIETif candidates.first().is_none_or(|first| first.applies) {
            return None;
        }
        let other = candidates.iter().position(|candidate| candidate.applies)?;
        u32::try_from(other).ok()
    }
}
"#,
            silent: "None",
            fires: "input.candidates = [{ source = \"submitted\", bytes = 80, files = [\"a.py\"], applies = false }, { source = \"work-tree\", bytes = 90, files = [\"a.py\"], applies = true }]\nexpect = 1\n",
            stays_silent: "expect = \"nothing\"\n",
            off: SILENT,
            when: "the first patch that applies is taken when the submitted one does not",
        },
        HookPoint::OnLimit => Part {
            point,
            rust: r#"
impl OnLimit for Plugin {
    fn on_limit(_context: Context, _limit: Limit, work_tree: PatchCandidate) -> bool {
        QUIETwork_tree.applies && !work_tree.is_empty()
    }
}
"#,
            silent: "false",
            fires: "input.work_tree.bytes = 120\nexpect = true\n",
            stays_silent: "input.work_tree = { bytes = 0, files = [] }\nexpect = \"nothing\"\n",
            off: SILENT,
            when: "at a limit a work tree with changes is handed in",
        },
        HookPoint::Observe => Part {
            point,
            rust: r#"
impl Observe for Plugin {
    fn observe(_context: Context, name: String, payload: String) {
        QUIETif name == "refused" {
            log::info(&format!("a call was refused: {payload}"));
        }
    }
}
"#,
            silent: "()",
            fires: "input = { name = \"refused\", payload = { reason = \"no\" } }\nexpect = \"nothing\"\nlog = { starts = \"a call was refused\" }\n",
            stays_silent: "input.name = \"turn\"\nexpect = \"nothing\"\nlog = \"nothing\"\n",
            off: "expect = \"nothing\"\nlog = \"nothing\"\n",
            when: "a refused call is logged",
        },
    }
}

const SILENT: &str = "expect = \"nothing\"\n";
