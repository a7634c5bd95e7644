//! What does a new plugin look like in C++? A part for each export; they do what the Rust parts do.

use tandem_host::plugin::HookPoint;

/// Between the comment at the head and the first part.
pub const USES: &str =
    "#include \"tandem.hpp\"\n\nusing std::optional;\nusing std::string;\nusing std::string_view;\n";

/// `settings-schema`, and what the other parts ask.
pub const SETTINGS: &str = r##"
string settings_schema() {
    return R"({"type": "object", "properties": {"quiet": {"type": "boolean"}}, "additionalProperties": false})";
}
TANDEM_EXPORT(settings_schema);

/// Whether its entry in the harness manifest silences it.
static bool quiet() {
    return tandem::settings()["quiet"].is_true();
}
"##;

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
            r##"
std::vector<tandem::ToolDefinition> definitions() {
    return { {
        "count_lines",
        "Counts the lines of a text.",
        R"({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})",
    } };
}

tandem::ToolOutput call(const tandem::Context &, string_view, string_view arguments) {
    QUIETconst auto text = tandem::Json::parse(arguments)["text"].text();
    if (!text) return tandem::ToolOutput::error("Give a `text`.");
    return tandem::ToolOutput::text(std::to_string(tandem::lines(*text).size()) + " lines");
}
TANDEM_EXPORT(tools);
"##,
            "tandem::ToolOutput::error(\"This tool is switched off.\")",
        ),
        HookPoint::OnEpisodeStart => (
            r#"
optional<string> on_episode_start(const tandem::Context &, string_view instruction) {
    QUIETif (!instruction.contains("test")) return std::nullopt;
    return "Run the tests before you hand in.";
}
TANDEM_EXPORT(on_episode_start);
"#,
            "std::nullopt",
        ),
        HookPoint::OnModelCall => (
            r#"
/// Say it in this turn.
constexpr std::uint32_t TURN = 3; // parameter

optional<tandem::ModelCallEffect> on_model_call(const tandem::Context &context) {
    QUIETif (context.turn != TURN) return std::nullopt;
    return tandem::Note{"Run the tests."};
}
TANDEM_EXPORT(on_model_call);
"#,
            "std::nullopt",
        ),
        HookPoint::OnFormatError => (
            r#"
optional<string> on_format_error(const tandem::Context &, tandem::FormatError error, string_view) {
    QUIETif (error != tandem::FormatError::several_actions) return std::nullopt;
    return "Give one command in one block.";
}
TANDEM_EXPORT(on_format_error);
"#,
            "std::nullopt",
        ),
        HookPoint::OnToolCall => (
            r#"
optional<tandem::ToolCallEffect> on_tool_call(const tandem::Context &, const tandem::ToolCall &call) {
    QUIETif (!call.command().value_or("").contains("git push")) return std::nullopt;
    return tandem::Refuse{"There is nowhere to push to; hand the change in."};
}
TANDEM_EXPORT(on_tool_call);
"#,
            "std::nullopt",
        ),
        HookPoint::OnToolResult => (
            r#"
optional<tandem::ToolResultEffect> on_tool_result(
    const tandem::Context &, const tandem::ToolCall &, const tandem::ToolResult &outcome) {
    QUIETif (outcome.exit_code != 127) return std::nullopt;
    return tandem::Annotate{"That program is not installed; use another one."};
}
TANDEM_EXPORT(on_tool_result);
"#,
            "std::nullopt",
        ),
        HookPoint::OnLoop => (
            r#"
optional<tandem::LoopEffect> on_loop(const tandem::Context &, tandem::Repetition repetition) {
    QUIETif (repetition != tandem::Repetition::same_error) return std::nullopt;
    return tandem::Note{"The same error again: read it from its start."};
}
TANDEM_EXPORT(on_loop);
"#,
            "std::nullopt",
        ),
        HookPoint::OnSubmit => (
            r#"
optional<string> on_submit(const tandem::Context &, const tandem::Submission &submission) {
    QUIETif (!submission.patch.is_empty() || submission.deferrals > 0) return std::nullopt;
    return "Your patch is empty. Hand in the difference.";
}
TANDEM_EXPORT(on_submit);
"#,
            "std::nullopt",
        ),
        HookPoint::OnChoosePatch => (
            r#"
optional<std::uint32_t> on_choose_patch(
    const tandem::Context &, const std::vector<tandem::PatchCandidate> &candidates) {
    QUIETfor (std::uint32_t i = 0; i < candidates.size(); i++) {
        // Of the first it need not be said.
        if (candidates[i].applies) return i == 0 ? std::nullopt : optional(i);
    }
    return std::nullopt;
}
TANDEM_EXPORT(on_choose_patch);
"#,
            "std::nullopt",
        ),
        HookPoint::OnLimit => (
            r#"
bool on_limit(const tandem::Context &, tandem::Limit, const tandem::PatchCandidate &work_tree) {
    QUIETreturn work_tree.applies && !work_tree.is_empty();
}
TANDEM_EXPORT(on_limit);
"#,
            "false",
        ),
        HookPoint::Observe => (
            r#"
void observe(const tandem::Context &, string_view name, string_view payload) {
    QUIETif (name == "refused") tandem::log::info("a call was refused: " + string(payload));
}
TANDEM_EXPORT(observe);
"#,
            "",
        ),
    }
}
