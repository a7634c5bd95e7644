//! What does a new plugin in Python look like?

use std::collections::BTreeSet;

use tandem_host::plugin::HookPoint;

/// One export, with the same behaviour as in Rust, so that the same cases pass.
struct Part {
    /// The function, or what the export is called where that is none.
    name: &'static str,
    /// Names of the module `tandem` that it uses.
    uses: &'static [&'static str],
    /// The definition. `QUIET` stands where a setting may end it.
    text: &'static str,
    /// What stands behind `return` when it does nothing.
    silent: &'static str,
}

/// The source of a plugin that has the cases of `tandem plugin new`.
pub fn source(name: &str, points: &[HookPoint], settings_schema: bool) -> String {
    let parts: Vec<Part> = points.iter().map(|point| part(*point)).collect();
    let mut defines: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let mut uses: BTreeSet<&str> = parts.iter().flat_map(|part| part.uses).copied().collect();
    let mut grants = Vec::new();
    if points.contains(&HookPoint::Observe) {
        grants.push("log");
    }
    if settings_schema {
        defines.insert(0, "settings_schema");
        grants.push("settings");
    }
    let words = if grants.is_empty() { "none".to_owned() } else { grants.join(", ") };
    let mut text = format!(
        "\"\"\"`{name}`: say here what it does, and when it stays silent.\n\nDefines: {}. Grants: {words}.\n\"\"\"\n\n",
        defines.join(", ")
    );
    uses.extend(grants);
    let mut names: Vec<&str> = uses.into_iter().collect();
    names.sort_by_key(|name| (name.to_lowercase(), *name));
    if !names.is_empty() {
        text += &format!("from tandem import {}\n", names.join(", "));
    }
    if settings_schema {
        text += SETTINGS;
    }
    for part in &parts {
        let quiet = match settings_schema {
            true => format!("if quiet():\n        {}\n    ", part.silent),
            false => String::new(),
        };
        text += &part.text.replace("QUIET", &quiet);
    }
    text
}

const SETTINGS: &str = r#"

def settings_schema():
    return {"type": "object", "properties": {"quiet": {"type": "boolean"}}, "additionalProperties": False}


def quiet():
    """Whether its entry in the harness manifest silences it."""
    return settings.get("quiet") is True
"#;

fn part(point: HookPoint) -> Part {
    match point {
        HookPoint::Tools => Part {
            name: "a tool",
            uses: &["Context", "ToolError", "lines", "tool"],
            text: r#"

@tool(
    "count_lines",
    "Counts the lines of a text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
def count_lines(context: Context, args: dict):
    QUIETtext = args.get("text")
    if not isinstance(text, str):
        raise ToolError("Give a `text`.")
    return f"{len(lines(text))} lines"
"#,
            silent: r#"raise ToolError("This tool is switched off.")"#,
        },
        HookPoint::OnEpisodeStart => Part {
            name: "on_episode_start",
            uses: &["Context"],
            text: r#"

def on_episode_start(context: Context, instruction: str):
    QUIETif "test" in instruction:
        return "Run the tests before you hand in."
"#,
            silent: "return None",
        },
        HookPoint::OnModelCall => Part {
            name: "on_model_call",
            uses: &["Context", "note"],
            text: r#"

# Say it in this turn.
TURN = 3  # parameter


def on_model_call(context: Context):
    QUIETif context.turn == TURN:
        return note("Run the tests.")
"#,
            silent: "return None",
        },
        HookPoint::OnFormatError => Part {
            name: "on_format_error",
            uses: &["Context", "FormatError"],
            text: r#"

def on_format_error(context: Context, error: FormatError, output: str):
    QUIETif error == "several-actions":
        return "Give one command in one block."
"#,
            silent: "return None",
        },
        HookPoint::OnToolCall => Part {
            name: "on_tool_call",
            uses: &["Context", "ToolCall", "refuse"],
            text: r#"

def on_tool_call(context: Context, call: ToolCall):
    QUIETif "git push" in (call.command() or ""):
        return refuse("There is nowhere to push to; hand the change in.")
"#,
            silent: "return None",
        },
        HookPoint::OnToolResult => Part {
            name: "on_tool_result",
            uses: &["Context", "ToolCall", "ToolResult", "annotate"],
            text: r#"

def on_tool_result(context: Context, call: ToolCall, outcome: ToolResult):
    QUIETif outcome.exit_code == 127:
        return annotate("That program is not installed; use another one.")
"#,
            silent: "return None",
        },
        HookPoint::OnLoop => Part {
            name: "on_loop",
            uses: &["Context", "Repetition", "note"],
            text: r#"

def on_loop(context: Context, repetition: Repetition):
    QUIETif repetition == "same-error":
        return note("The same error again: read it from its start.")
"#,
            silent: "return None",
        },
        HookPoint::OnSubmit => Part {
            name: "on_submit",
            uses: &["Context", "Submission"],
            text: r#"

def on_submit(context: Context, submission: Submission):
    QUIETif submission.patch.bytes == 0 and submission.deferrals == 0:
        return "Your patch is empty. Hand in the difference."
"#,
            silent: "return None",
        },
        HookPoint::OnChoosePatch => Part {
            name: "on_choose_patch",
            uses: &["Context", "PatchCandidate"],
            text: r#"

def on_choose_patch(context: Context, candidates: list[PatchCandidate]):
    QUIETif not candidates or candidates[0].applies:
        return None
    return next((index for index, candidate in enumerate(candidates) if candidate.applies), None)
"#,
            silent: "return None",
        },
        HookPoint::OnLimit => Part {
            name: "on_limit",
            uses: &["Context", "Limit", "PatchCandidate"],
            text: r#"

def on_limit(context: Context, limit: Limit, work_tree: PatchCandidate):
    QUIETreturn work_tree.applies and work_tree.bytes > 0
"#,
            silent: "return False",
        },
        HookPoint::Observe => Part {
            name: "observe",
            uses: &["Context"],
            text: r#"

def observe(context: Context, name: str, payload: str):
    QUIETif name == "refused":
        log.info(f"a call was refused: {payload}")
"#,
            silent: "return None",
        },
    }
}
