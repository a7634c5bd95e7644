//! Refuses `rm -r` of everything, names failing tests, and gives the tool `head`.
//!
//! Exports: `on-tool-call`, `on-tool-result`, `tools`.
//! Grants: `workspace-read`.

const std = @import("std");
const tandem = @import("tandem");
const json = tandem.json;

// ---- on-tool-call: refuse a deletion of everything ----

fn isEverything(target: []const u8) bool {
    const everything = [_][]const u8{ "/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*" };
    return for (everything) |one| {
        if (tandem.equals(target, one)) break true;
    } else false;
}

fn isRecursive(flag: []const u8) bool {
    if (tandem.equals(flag, "--recursive")) return true;
    return !std.mem.startsWith(u8, flag, "--") and std.mem.findAny(u8, flag, "rR") != null;
}

/// The first target that is everything, of an `rm` that deletes folders.
fn deletesEverything(command: []const u8) ?[]const u8 {
    var words = tandem.words(command, " \t");
    if (words.len > 0 and tandem.equals(words[0], "sudo")) words = words[1..];
    if (words.len == 0) return null;
    if (!tandem.equals(words[0], "rm") and !std.mem.endsWith(u8, words[0], "/rm")) return null;

    var recursive = false;
    var target: ?[]const u8 = null;
    for (words[1..]) |word| {
        if (std.mem.startsWith(u8, word, "-")) {
            recursive = recursive or isRecursive(word);
        } else if (target == null and isEverything(word)) {
            target = word;
        }
    }
    return if (recursive) target else null;
}

pub fn onToolCall(_: tandem.Context, tool_call: tandem.ToolCall) ?tandem.ToolCallEffect {
    const line = tool_call.command() orelse return null;
    var commands = std.mem.splitAny(u8, line, ";&|\n");
    while (commands.next()) |command| {
        const target = deletesEverything(command) orelse continue;
        const reason = "`rm -r` of `{s}` would delete what the task needs; name the folder that you mean";
        return .{ .refuse = tandem.format(reason, .{target}) };
    }
    return null;
}

// ---- on-tool-result: name the failing tests ----

pub fn onToolResult(_: tandem.Context, tool_call: tandem.ToolCall, outcome: tandem.ToolResult) ?tandem.ToolResultEffect {
    if (!tandem.equals(tool_call.name, "bash") or outcome.status != .finished) return null;
    if ((outcome.exit_code orelse 0) == 0) return null;

    var count: usize = 0;
    var first: []const u8 = "";
    var lines = std.mem.splitScalar(u8, outcome.text, '\n');
    while (lines.next()) |line| {
        const failed = "FAILED ";
        if (!std.mem.startsWith(u8, line, failed)) continue;
        const rest = line[failed.len..];
        // The reason stands behind the name, if there is one.
        const end = std.mem.find(u8, rest, " - ") orelse rest.len;
        const name = std.mem.trim(u8, rest[0..end], " \t\r");
        if (name.len == 0) continue;
        if (count == 0) first = name;
        count += 1;
    }
    return switch (count) {
        0 => null,
        1 => .{ .annotate = tandem.format("1 test fails: {s}", .{first}) },
        else => .{ .annotate = tandem.format("{d} tests fail; the first is {s}", .{ count, first }) },
    };
}

// ---- tools: the first lines of a file ----

pub fn definitions() []const tandem.ToolDefinition {
    return &.{.{
        .name = "head",
        .description = "Shows the first lines of a file, with their numbers.",
        .input_schema = "{\"type\":\"object\",\"properties\":{" ++
            "\"path\":{\"type\":\"string\",\"description\":\"relative to the workspace\"}," ++
            "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":200,\"description\":\"10 unless given\"}}," ++
            "\"required\":[\"path\"],\"additionalProperties\":false}",
    }};
}

pub fn call(_: tandem.Context, name: []const u8, arguments: []const u8) tandem.ToolOutput {
    if (!tandem.equals(name, "head")) return failure("there is no tool {s}", .{name});

    const given = json.parse(arguments);
    const path = json.text(json.get(given, "path")) orelse
        return failure("`path` is missing: name a file of the workspace", .{});
    const wanted = if (json.get(given, "lines")) |lines| json.whole(lines) orelse 0 else 10;
    if (wanted < 1 or wanted > 200) return failure("`lines` must be a whole number from 1 to 200", .{});

    const content = switch (tandem.workspace.read(path)) {
        .ok => |content| content,
        .err => |err| return switch (err) {
            .not_found => failure("{s} does not exist", .{path}),
            else => failure("{s} cannot be read", .{path}),
        },
    };
    if (!std.unicode.utf8ValidateSlice(content)) return failure("{s} is not UTF-8 text", .{path});
    if (content.len == 0) return .plain(tandem.format("{s} is empty", .{path}));

    const lines = tandem.lines(content);
    const shown = lines[0..@min(lines.len, @as(usize, @intCast(wanted)))];
    const numbered = tandem.allocator.alloc([]const u8, shown.len) catch unreachable;
    for (shown, numbered, 1..) |line, *text, number| text.* = tandem.format("{d}\t{s}", .{ number, line });

    var output: tandem.ToolOutput = .plain(tandem.join(numbered, "\n"));
    output.structured = json.write(.{ .lines = shown.len });
    return output;
}

fn failure(comptime fmt: []const u8, arguments: anytype) tandem.ToolOutput {
    return .failure(tandem.format(fmt, arguments));
}
