//! What does a new plugin look like in C? A part for each export; they do what the Rust parts do.

use tandem_host::plugin::HookPoint;

/// Between the comment at the head and the first part.
pub const USES: &str = "#include \"tandem.h\"\n";

/// `settings-schema`, and what the other parts ask.
pub const SETTINGS: &str = r#"
tandem_text tandem_settings_schema(void) {
    return TANDEM_TEXT("{\"type\": \"object\", \"properties\": {\"quiet\": {\"type\": \"boolean\"}},"
                       " \"additionalProperties\": false}");
}
TANDEM_EXPORT(settings_schema);

/// Whether its entry in the harness manifest silences it.
static bool quiet(void) {
    return tandem_json_true(tandem_json_get(tandem_settings(), "quiet"));
}
"#;

/// Stands for `QUIET` where settings may silence a part that then gives back `silent`.
pub fn quiet(silent: &str) -> String {
    let answer = if silent.is_empty() { String::new() } else { format!(" {silent}") };
    format!("if (quiet()) return{answer};\n    ")
}

/// The source of a part, with `QUIET` at the beginning of its body, and what it gives back when it
/// does nothing.
pub fn part(point: HookPoint) -> (&'static str, &'static str) {
    match point {
        HookPoint::Tools => (
            r#"
tandem_tool_definitions tandem_definitions(void) {
    static const tandem_tool_definition count_lines = {
        TANDEM_TEXT("count_lines"),
        TANDEM_TEXT("Counts the lines of a text."),
        TANDEM_TEXT("{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}}, \"required\": [\"text\"]}"),
    };
    return (tandem_tool_definitions){ &count_lines, 1 };
}

tandem_tool_output tandem_call(const tandem_context *, tandem_text, tandem_text arguments) {
    QUIETtandem_text text;
    if (!tandem_json_text(tandem_json_get(tandem_json_parse(arguments), "text"), &text)) {
        return tandem_error("Give a `text`.");
    }
    return tandem_answer("%zu lines", tandem_lines(text).size);
}
TANDEM_EXPORT(tools);
"#,
            "tandem_error(\"This tool is switched off.\")",
        ),
        HookPoint::OnEpisodeStart => (
            r#"
const tandem_text *tandem_on_episode_start(const tandem_context *, tandem_text instruction) {
    QUIETif (!tandem_contains(instruction, "test")) return NULL;
    return tandem_say("Run the tests before you hand in.");
}
TANDEM_EXPORT(on_episode_start);
"#,
            "NULL",
        ),
        HookPoint::OnModelCall => (
            r#"
/// Say it in this turn.
static const uint32_t TURN = 3; // parameter

const tandem_model_call_effect *tandem_on_model_call(const tandem_context *context) {
    QUIETreturn context->turn == TURN ? tandem_note("Run the tests.") : NULL;
}
TANDEM_EXPORT(on_model_call);
"#,
            "NULL",
        ),
        HookPoint::OnFormatError => (
            r#"
const tandem_text *tandem_on_format_error(const tandem_context *, tandem_format_error error, tandem_text) {
    QUIETif (error != TANDEM_SEVERAL_ACTIONS) return NULL;
    return tandem_say("Give one command in one block.");
}
TANDEM_EXPORT(on_format_error);
"#,
            "NULL",
        ),
        HookPoint::OnToolCall => (
            r#"
const tandem_tool_call_effect *tandem_on_tool_call(const tandem_context *, const tandem_tool_call *call) {
    QUIETtandem_text command;
    if (!tandem_command(call, &command) || !tandem_contains(command, "git push")) return NULL;
    return tandem_refuse("There is nowhere to push to; hand the change in.");
}
TANDEM_EXPORT(on_tool_call);
"#,
            "NULL",
        ),
        HookPoint::OnToolResult => (
            r#"
const tandem_tool_result_effect *tandem_on_tool_result(
    const tandem_context *, const tandem_tool_call *, const tandem_tool_result *outcome) {
    QUIETif (!outcome->has_exit_code || outcome->exit_code != 127) return NULL;
    return tandem_annotate("That program is not installed; use another one.");
}
TANDEM_EXPORT(on_tool_result);
"#,
            "NULL",
        ),
        HookPoint::OnLoop => (
            r#"
const tandem_loop_effect *tandem_on_loop(const tandem_context *, tandem_repetition repetition) {
    QUIETif (repetition != TANDEM_SAME_ERROR) return NULL;
    return tandem_note("The same error again: read it from its start.");
}
TANDEM_EXPORT(on_loop);
"#,
            "NULL",
        ),
        HookPoint::OnSubmit => (
            r#"
const tandem_text *tandem_on_submit(const tandem_context *, const tandem_submission *submission) {
    QUIETif (submission->patch.bytes > 0 || submission->deferrals > 0) return NULL;
    return tandem_say("Your patch is empty. Hand in the difference.");
}
TANDEM_EXPORT(on_submit);
"#,
            "NULL",
        ),
        HookPoint::OnChoosePatch => (
            r#"
const tandem_patch_candidate *tandem_on_choose_patch(
    const tandem_context *, const tandem_patch_candidates *candidates) {
    QUIETfor (size_t i = 0; i < candidates->size; i++) {
        // Of the first it need not be said.
        if (candidates->items[i].applies) return i == 0 ? NULL : &candidates->items[i];
    }
    return NULL;
}
TANDEM_EXPORT(on_choose_patch);
"#,
            "NULL",
        ),
        HookPoint::OnLimit => (
            r#"
bool tandem_on_limit(const tandem_context *, tandem_limit, const tandem_patch_candidate *work_tree) {
    QUIETreturn work_tree->applies && work_tree->bytes > 0;
}
TANDEM_EXPORT(on_limit);
"#,
            "false",
        ),
        HookPoint::Observe => (
            r#"
void tandem_observe(const tandem_context *, tandem_text name, tandem_text payload) {
    QUIETif (tandem_equals(name, "refused")) tandem_log(TANDEM_INFO, "a call was refused: %s", payload.data);
}
TANDEM_EXPORT(observe);
"#,
            "",
        ),
    }
}
