//! What does a new plugin look like in Go? A part for each export; they do what the Rust parts do.

use tandem_host::plugin::HookPoint;

/// Between the comment at the head and the first part: Go refuses a package that is not used.
pub fn uses(points: &[HookPoint], settings_schema: bool) -> String {
    let has = |point| points.contains(&point);
    let mut standard = Vec::new();
    if has(HookPoint::Tools) {
        standard.push("fmt");
    }
    if has(HookPoint::Tools) || has(HookPoint::OnEpisodeStart) || has(HookPoint::OnToolCall) {
        standard.push("strings");
    }
    let mut own = vec!["tandem"];
    if has(HookPoint::Tools) {
        own.push("tandem/json");
    }
    if has(HookPoint::Observe) {
        own.push("tandem/log");
    }
    if settings_schema {
        own.push("tandem/settings");
    }
    if standard.is_empty() && own.len() == 1 {
        return "package plugin\n\nimport \"tandem\"\n".into();
    }
    let lines = |packages: &[&str]| packages.iter().map(|name| format!("\t\"{name}\"\n")).collect::<String>();
    let gap = if standard.is_empty() { "" } else { "\n" };
    format!("package plugin\n\nimport (\n{}{gap}{})\n", lines(&standard), lines(&own))
}

/// `settings-schema`, and what the other parts ask.
pub const SETTINGS: &str = r#"
func SettingsSchema() string {
	return `{"type": "object", "properties": {"quiet": {"type": "boolean"}}, "additionalProperties": false}`
}

// quiet says whether its entry in the harness manifest silences it.
func quiet() bool {
	return settings.All().Bool("quiet")
}
"#;

/// Stands for `QUIET` where settings may silence a part that then gives back `silent`.
pub fn quiet(silent: &str) -> String {
    let answer = if silent.is_empty() { String::new() } else { format!(" {silent}") };
    format!("if quiet() {{\n\t\treturn{answer}\n\t}}\n\t")
}

/// The source of a part, with `QUIET` at the beginning of its body, and what it gives back when it
/// does nothing.
pub fn part(point: HookPoint) -> (&'static str, &'static str) {
    match point {
        HookPoint::Tools => (
            r#"
func Tools() []tandem.Tool {
	return []tandem.Tool{{
		Name:        "count_lines",
		Description: "Counts the lines of a text.",
		InputSchema: `{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`,
		Call:        countLines,
	}}
}

func countLines(ctx tandem.Context, arguments string) tandem.ToolOutput {
	QUIETgiven, _ := json.ParseObject(arguments)
	text, ok := given.Text("text")
	if !ok {
		return tandem.Fail("Give a `text`.")
	}
	count := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		count++
	}
	return tandem.Say(fmt.Sprintf("%d lines", count))
}
"#,
            "tandem.Fail(\"This tool is switched off.\")",
        ),
        HookPoint::OnEpisodeStart => (
            r#"
func OnEpisodeStart(ctx tandem.Context, instruction string) string {
	QUIETif !strings.Contains(instruction, "test") {
		return ""
	}
	return "Run the tests before you hand in."
}
"#,
            "\"\"",
        ),
        HookPoint::OnModelCall => (
            r#"
// turn is when it is said.
const turn = 3 // parameter

func OnModelCall(ctx tandem.Context) tandem.NoteOrStop {
	QUIETif ctx.Turn != turn {
		return nil
	}
	return tandem.Note("Run the tests.")
}
"#,
            "nil",
        ),
        HookPoint::OnFormatError => (
            r#"
func OnFormatError(ctx tandem.Context, problem tandem.FormatError, output string) string {
	QUIETif problem != tandem.SeveralActions {
		return ""
	}
	return "Give one command in one block."
}
"#,
            "\"\"",
        ),
        HookPoint::OnToolCall => (
            r#"
func OnToolCall(ctx tandem.Context, call tandem.ToolCall) tandem.RewriteOrRefuse {
	QUIETcommand, _ := call.Command()
	if !strings.Contains(command, "git push") {
		return nil
	}
	return tandem.Refuse("There is nowhere to push to; hand the change in.")
}
"#,
            "nil",
        ),
        HookPoint::OnToolResult => (
            r#"
func OnToolResult(ctx tandem.Context, call tandem.ToolCall, result tandem.ToolResult) tandem.AnnotateOrReplace {
	QUIETif !result.Exited || result.ExitCode != 127 {
		return nil
	}
	return tandem.Annotate("That program is not installed; use another one.")
}
"#,
            "nil",
        ),
        HookPoint::OnLoop => (
            r#"
func OnLoop(ctx tandem.Context, repetition tandem.Repetition) tandem.NoteOrStop {
	QUIETif repetition != tandem.SameError {
		return nil
	}
	return tandem.Note("The same error again: read it from its start.")
}
"#,
            "nil",
        ),
        HookPoint::OnSubmit => (
            r#"
func OnSubmit(ctx tandem.Context, submission tandem.Submission) string {
	QUIETif !submission.Patch.Empty() || submission.Deferrals > 0 {
		return ""
	}
	return "Your patch is empty. Hand in the difference."
}
"#,
            "\"\"",
        ),
        HookPoint::OnChoosePatch => (
            r#"
func OnChoosePatch(ctx tandem.Context, candidates []tandem.PatchCandidate) (index int, ok bool) {
	QUIETfor index, candidate := range candidates {
		if candidate.Applies {
			return index, index > 0
		}
	}
	return 0, false
}
"#,
            "0, false",
        ),
        HookPoint::OnLimit => (
            r#"
func OnLimit(ctx tandem.Context, limit tandem.Limit, workTree tandem.PatchCandidate) bool {
	QUIETreturn workTree.Applies && !workTree.Empty()
}
"#,
            "false",
        ),
        HookPoint::Observe => (
            r#"
func Observe(ctx tandem.Context, name, payload string) {
	QUIETif name == "refused" {
		log.Info("a call was refused: " + payload)
	}
}
"#,
            "",
        ),
    }
}
