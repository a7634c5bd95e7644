//! How is a Tandem plugin written in Zig?
//!
//!     const tandem = @import("tandem");
//!
//!     pub fn onModelCall(context: tandem.Context) ?tandem.ModelCallEffect {
//!         return if (context.turn == 3) .{ .note = "Run the tests." } else null;
//!     }
//!
//! What is public is what the plugin subscribes to: a `pub fn` with the name of a point, listed in
//! `Points`. Same input must give same output. A point may return an error instead, so that `try`
//! works; that is a fault, which shows the error's name to the plugin's author, and so is a panic.
//! The functions under "Capabilities" are what the plugin asks for: each is a grant.
//!
//! Memory: all that `allocator` gives and all that this file hands out belongs to the call and is
//! freed when the next one begins. What must last goes through `state`.

const std = @import("std");
/// What `root.zig` needs; not for plugins.
pub const abi = @import("abi.zig");

/// The memory of the call. Free nothing.
pub const allocator = abi.allocator;
pub const json = @import("json.zig");

// ---- Types of the contract ----

/// How much of one resource an episode has used, and its limit if it has one.
pub const Usage = struct { used: u64, limit: ?u64 };
/// Seconds are virtual: they count turns and commands, not a wall clock.
pub const Budget = struct { turns: Usage, tokens: Usage, seconds: Usage };
/// Where in the episode a call happens. Turns count from 1.
pub const Context = struct { turn: u32, budget: Budget };

/// A tool call of the policy. `arguments` is a JSON object.
pub const ToolCall = struct {
    id: []const u8,
    name: []const u8,
    arguments: []const u8,

    /// The text argument under `key`.
    pub fn text(call: ToolCall, key: []const u8) ?[]const u8 {
        return json.text(json.get(json.parse(call.arguments), key));
    }

    /// The command line of a call of `bash`; null of a call of another tool.
    pub fn command(call: ToolCall) ?[]const u8 {
        return if (equals(call.name, "bash")) call.text("command") else null;
    }
};

pub const ToolStatus = enum(u8) { finished, failed, timed_out, refused };
/// What the policy is about to be shown of a tool call. `raw_bytes`: before the visible cap.
pub const ToolResult = struct { status: ToolStatus, exit_code: ?i32, text: []const u8, raw_bytes: u64 };

/// The work tree against the commit that the episode started from.
pub const WorkTree = struct { changed: []const []const u8, untracked: []const []const u8 };
/// Handed in by the policy, or the difference of the work tree.
pub const PatchSource = enum(u8) { submitted, work_tree };
/// One patch that the host could hand in. `bytes` 0 is an empty patch.
pub const PatchCandidate = struct { source: PatchSource, bytes: u64, files: []const []const u8, applies: bool };
/// `deferrals`: how often this episode's submission was deferred already.
pub const Submission = struct { patch: PatchCandidate, work_tree: WorkTree, deferrals: u32 };

pub const FormatError = enum(u8) { no_action, several_actions, unknown_tool, bad_arguments, cut_off };
/// The same call with the same result 4 times, the same error 3 times, two calls in turn 6 times,
/// output without an action 3 times.
pub const Repetition = enum(u8) { same_call, same_error, alternating, no_action };
pub const Limit = enum(u8) { turns, tokens, seconds, format_errors };

/// A tool: letters, digits, `_` and `-` in its name, at most 64; a JSON Schema of its arguments.
pub const ToolDefinition = struct { name: []const u8, description: []const u8, input_schema: []const u8 };
pub const Image = struct { media_type: []const u8, data: []const u8 };
pub const Content = union(enum) { text: []const u8, image: Image };
/// The result of a tool: what the policy reads, and JSON if it has a structured answer.
pub const ToolOutput = struct {
    content: []const Content,
    structured: ?[]const u8 = null,
    is_error: bool = false,

    pub fn plain(text: []const u8) ToolOutput {
        const content = allocator.create(Content) catch unreachable;
        content.* = .{ .text = text };
        return .{ .content = content[0..1] };
    }

    /// A failure that the policy reads. Say what to do instead.
    pub fn failure(text: []const u8) ToolOutput {
        var output = plain(text);
        output.is_error = true;
        return output;
    }
};

/// A note stands at the end of the newest content that the policy has not seen; stopping ends the
/// episode, with a reason for the record.
pub const ModelCallEffect = union(enum) { note: []const u8, stop: []const u8 };
pub const LoopEffect = union(enum) { note: []const u8, stop: []const u8 };
/// Other arguments, a JSON object, or a reason that the policy reads as the result.
pub const ToolCallEffect = union(enum) { rewrite: []const u8, refuse: []const u8 };
/// Text after the result, or instead of it.
pub const ToolResultEffect = union(enum) { annotate: []const u8, replace: []const u8 };

/// The points: what a plugin may define. `tools` has two functions, `definitions` and `call`.
pub const Points = struct {
    /// Asked for at admission, twice: the answers must be equal.
    definitions: fn () []const ToolDefinition,
    /// A call of one of the tools. `arguments` is a JSON object.
    call: fn (context: Context, name: []const u8, arguments: []const u8) ToolOutput,
    /// JSON Schema of the settings. It accepts `{}`, or has `examples` whose first it accepts.
    settingsSchema: fn () []const u8,
    /// When the workspace is ready: text for the first prompt.
    onEpisodeStart: fn (context: Context, instruction: []const u8) ?[]const u8,
    /// Before each model call.
    onModelCall: fn (context: Context) ?ModelCallEffect,
    /// The output of the policy could not be parsed: text instead of the host's corrective text.
    onFormatError: fn (context: Context, err: FormatError, output: []const u8) ?[]const u8,
    /// Before each tool call.
    onToolCall: fn (context: Context, call: ToolCall) ?ToolCallEffect,
    /// After each tool call, failures and time-outs too.
    onToolResult: fn (context: Context, call: ToolCall, outcome: ToolResult) ?ToolResultEffect,
    /// The host saw repetition.
    onLoop: fn (context: Context, repetition: Repetition) ?LoopEffect,
    /// The policy hands in: a text defers the submission, twice an episode at most.
    onSubmit: fn (context: Context, submission: Submission) ?[]const u8,
    /// There is more than one patch: the index of the one to hand in; without one the first.
    onChoosePatch: fn (context: Context, candidates: []const PatchCandidate) ?u32,
    /// A limit ended the episode with no submission: true hands in the difference of the work tree.
    onLimit: fn (context: Context, limit: Limit, work_tree: PatchCandidate) bool,
    /// Everything else. `payload` is a JSON object whose keys depend on `name`.
    observe: fn (context: Context, name: []const u8, payload: []const u8) void,
};

// ---- Text ----

/// The text, in the memory of the call.
pub fn format(comptime fmt: []const u8, arguments: anytype) []const u8 {
    return std.fmt.allocPrint(allocator, fmt, arguments) catch unreachable;
}

pub fn equals(text: []const u8, other: []const u8) bool {
    return std.mem.eql(u8, text, other);
}

pub fn contains(text: []const u8, part: []const u8) bool {
    return std.mem.find(u8, text, part) != null;
}

/// The pieces that are not empty, between any of the bytes of `separators`.
pub fn words(text: []const u8, separators: []const u8) []const []const u8 {
    var pieces: std.ArrayList([]const u8) = .empty;
    var iterator = std.mem.tokenizeAny(u8, text, separators);
    while (iterator.next()) |piece| pieces.append(allocator, piece) catch unreachable;
    return pieces.items;
}

/// The lines; a line end at the end makes no further line.
pub fn lines(text: []const u8) []const []const u8 {
    var pieces: std.ArrayList([]const u8) = .empty;
    var iterator = std.mem.splitScalar(u8, text, '\n');
    while (iterator.next()) |piece| {
        if (piece.len == 0 and iterator.peek() == null) break;
        pieces.append(allocator, piece) catch unreachable;
    }
    return pieces.items;
}

/// All of them, `separator` between.
pub fn join(texts: []const []const u8, separator: []const u8) []const u8 {
    return std.mem.join(allocator, separator, texts) catch unreachable;
}

// ---- Capabilities: each needs its grant in the harness manifest. ----

const imports = @import("imports.zig");

/// Messages for the plugin's author. Grant: `log`.
pub const log = struct {
    pub fn debug(comptime fmt: []const u8, arguments: anytype) void {
        send(0, format(fmt, arguments));
    }
    pub fn info(comptime fmt: []const u8, arguments: anytype) void {
        send(1, format(fmt, arguments));
    }
    pub fn warn(comptime fmt: []const u8, arguments: anytype) void {
        send(2, format(fmt, arguments));
    }
    fn send(level: u32, message: []const u8) void {
        imports.log.log(level, message.ptr, message.len);
    }
};

/// Virtual time: milliseconds since the episode started. Grant: `clock`.
pub fn nowMs() u64 {
    return imports.clock.@"now-ms"();
}

/// Random bits, the same for the same episode and plugin. Grant: `random`.
pub fn random() u64 {
    return imports.random.@"next-u64"();
}

/// What the plugin keeps during one episode. Grant: `state`.
pub const state = struct {
    pub fn get(key: []const u8) ?[]const u8 {
        var result: abi.Memory(?[]const u8) = undefined;
        imports.state.get(key.ptr, key.len, &result);
        return abi.load(?[]const u8, &result);
    }

    /// False when the host's cap would be passed.
    pub fn set(key: []const u8, value: []const u8) bool {
        const Done = union(enum) { ok: void, err: []const u8 };
        var result: abi.Memory(Done) = undefined;
        imports.state.set(key.ptr, key.len, value.ptr, value.len, &result);
        return abi.load(Done, &result) == .ok;
    }

    /// A number; 0 if none is kept.
    pub fn number(key: []const u8) u64 {
        return std.fmt.parseInt(u64, get(key) orelse return 0, 10) catch 0;
    }

    pub fn setNumber(key: []const u8, value: u64) void {
        _ = set(key, format("{d}", .{value}));
    }
};

/// The plugin's settings in the harness manifest, an object. Grant: `settings`.
pub fn settings() ?json.Value {
    var result: abi.Memory([]const u8) = undefined;
    imports.settings.get(&result);
    return json.parse(abi.load([]const u8, &result));
}

/// `not_found` and `denied` have the path, the others what went wrong.
pub const WorkspaceError = union(enum) {
    not_found: []const u8,
    denied: []const u8,
    too_large: []const u8,
    failed: []const u8,

    /// One sentence for a policy to read.
    pub fn explain(err: WorkspaceError) []const u8 {
        return switch (err) {
            .not_found => |path| format("{s} does not exist", .{path}),
            .denied => |path| format("{s} is outside the workspace or may not be used", .{path}),
            .too_large, .failed => |what| what,
        };
    }
};

/// What a capability gives, or why it does not.
pub fn Result(comptime T: type) type {
    return union(enum) { ok: T, err: WorkspaceError };
}

/// The files of the task. Paths are relative to the workspace. Grant: `workspace-read`, and
/// `workspace-write` for `write`.
pub const workspace = struct {
    pub const Entry = struct { path: []const u8, is_folder: bool, bytes: u64 };
    /// Lines count from 1.
    pub const SearchHit = struct { path: []const u8, line: u32, text: []const u8 };

    pub fn read(path: []const u8) Result([]const u8) {
        return called([]const u8, imports.workspace_read.read, .{ path.ptr, path.len });
    }
    pub fn list(path: []const u8) Result([]const Entry) {
        return called([]const Entry, imports.workspace_read.list, .{ path.ptr, path.len });
    }
    pub fn stat(path: []const u8) Result(Entry) {
        return called(Entry, imports.workspace_read.stat, .{ path.ptr, path.len });
    }
    /// Lines that contain `text`, in files whose name ends in `suffix`.
    pub fn search(text: []const u8, suffix: []const u8, max_hits: u32) Result([]const SearchHit) {
        return called([]const SearchHit, imports.workspace_read.search, .{ text.ptr, text.len, suffix.ptr, suffix.len, max_hits });
    }
    /// The difference of the work tree to the start of the episode.
    pub fn diff() Result([]const u8) {
        return called([]const u8, imports.workspace_read.diff, .{});
    }
    pub fn untracked() Result([]const []const u8) {
        return called([]const []const u8, imports.workspace_read.untracked, .{});
    }
    pub fn write(path: []const u8, content: []const u8) Result(void) {
        return called(void, imports.workspace_write.write, .{ path.ptr, path.len, content.ptr, content.len });
    }
};

/// No exit code when it was stopped at its time limit. `text` is standard output and error.
pub const ExecOutput = struct { exit_code: ?i32, text: []const u8 };
/// Runs a program in the workspace's sandbox. Grant: `exec`.
pub fn exec(argv: []const []const u8, timeout_ms: u32) Result(ExecOutput) {
    const list = abi.storedList([]const u8, argv);
    return called(ExecOutput, imports.exec.run, .{ list, argv.len, timeout_ms });
}

/// Calls an import whose result comes back in memory.
fn called(comptime T: type, import: anytype, arguments: anytype) Result(T) {
    var result: abi.Memory(Result(T)) = undefined;
    @call(.auto, import, arguments ++ .{@as(*anyopaque, &result)});
    return abi.load(Result(T), &result);
}

/// Ends the call with a fault that shows this text to the plugin's author. Needs no grant.
pub fn fail(message: []const u8) noreturn {
    imports.failure.explain(message.ptr, message.len);
    @trap();
}

/// What a panic does.
pub fn panic(message: []const u8, _: ?usize) noreturn {
    fail(message);
}
