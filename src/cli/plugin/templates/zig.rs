//! What does a new plugin look like in Zig? A part for each export; they do what the Rust parts do.

use tandem_host::plugin::HookPoint;

/// Between the comment at the head and the first part.
pub const USES: &str = "const tandem = @import(\"tandem\");\n";

/// `settings-schema`, and what the other parts ask.
pub const SETTINGS: &str = r#"
pub fn settingsSchema() []const u8 {
    return
        \\{"type": "object", "properties": {"quiet": {"type": "boolean"}}, "additionalProperties": false}
    ;
}

/// Whether its entry in the harness manifest silences it.
fn quiet() bool {
    return tandem.json.isTrue(tandem.json.get(tandem.settings(), "quiet"));
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
pub fn definitions() []const tandem.ToolDefinition {
    return &.{.{
        .name = "count_lines",
        .description = "Counts the lines of a text.",
        .input_schema =
        \\{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        ,
    }};
}

pub fn call(_: tandem.Context, _: []const u8, arguments: []const u8) tandem.ToolOutput {
    QUIETconst text = tandem.json.text(tandem.json.get(tandem.json.parse(arguments), "text")) orelse
        return .failure("Give a `text`.");
    return .plain(tandem.format("{d} lines", .{tandem.lines(text).len}));
}
"#,
            ".failure(\"This tool is switched off.\")",
        ),
        HookPoint::OnEpisodeStart => (
            r#"
pub fn onEpisodeStart(_: tandem.Context, instruction: []const u8) ?[]const u8 {
    QUIETif (!tandem.contains(instruction, "test")) return null;
    return "Run the tests before you hand in.";
}
"#,
            "null",
        ),
        HookPoint::OnModelCall => (
            r#"
/// Say it in this turn.
const turn: u32 = 3; // parameter

pub fn onModelCall(context: tandem.Context) ?tandem.ModelCallEffect {
    QUIETreturn if (context.turn == turn) .{ .note = "Run the tests." } else null;
}
"#,
            "null",
        ),
        HookPoint::OnFormatError => (
            r#"
pub fn onFormatError(_: tandem.Context, err: tandem.FormatError, _: []const u8) ?[]const u8 {
    QUIETreturn if (err == .several_actions) "Give one command in one block." else null;
}
"#,
            "null",
        ),
        HookPoint::OnToolCall => (
            r#"
pub fn onToolCall(_: tandem.Context, tool_call: tandem.ToolCall) ?tandem.ToolCallEffect {
    QUIETconst command = tool_call.command() orelse return null;
    if (!tandem.contains(command, "git push")) return null;
    return .{ .refuse = "There is nowhere to push to; hand the change in." };
}
"#,
            "null",
        ),
        HookPoint::OnToolResult => (
            r#"
pub fn onToolResult(_: tandem.Context, _: tandem.ToolCall, outcome: tandem.ToolResult) ?tandem.ToolResultEffect {
    QUIETif (outcome.exit_code != 127) return null;
    return .{ .annotate = "That program is not installed; use another one." };
}
"#,
            "null",
        ),
        HookPoint::OnLoop => (
            r#"
pub fn onLoop(_: tandem.Context, repetition: tandem.Repetition) ?tandem.LoopEffect {
    QUIETif (repetition != .same_error) return null;
    return .{ .note = "The same error again: read it from its start." };
}
"#,
            "null",
        ),
        HookPoint::OnSubmit => (
            r#"
pub fn onSubmit(_: tandem.Context, submission: tandem.Submission) ?[]const u8 {
    QUIETif (submission.patch.bytes > 0 or submission.deferrals > 0) return null;
    return "Your patch is empty. Hand in the difference.";
}
"#,
            "null",
        ),
        HookPoint::OnChoosePatch => (
            r#"
pub fn onChoosePatch(_: tandem.Context, candidates: []const tandem.PatchCandidate) ?u32 {
    QUIETfor (candidates, 0..) |candidate, index| {
        // Of the first it need not be said.
        if (candidate.applies) return if (index == 0) null else @intCast(index);
    }
    return null;
}
"#,
            "null",
        ),
        HookPoint::OnLimit => (
            r#"
pub fn onLimit(_: tandem.Context, _: tandem.Limit, work_tree: tandem.PatchCandidate) bool {
    QUIETreturn work_tree.applies and work_tree.bytes > 0;
}
"#,
            "false",
        ),
        HookPoint::Observe => (
            r#"
pub fn observe(_: tandem.Context, name: []const u8, payload: []const u8) void {
    QUIETif (tandem.equals(name, "refused")) tandem.log.info("a call was refused: {s}", .{payload});
}
"#,
            "",
        ),
    }
}
