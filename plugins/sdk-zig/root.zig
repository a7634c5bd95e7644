//! Which functions does the component export? One for each point that `plugin` defines, with the
//! flat parameters of the canonical ABI: at most 16 values, else a pointer to them.

const std = @import("std");
const tandem = @import("tandem");
const abi = tandem.abi;
const plugin = @import("plugin");

pub const panic = std.debug.FullPanic(tandem.panic);

const Context = tandem.Context;
const Out = *const anyopaque;

comptime {
    @export(&abi.realloc, .{ .name = "cabi_realloc" });
    if (has("definitions") or has("call")) {
        point(&definitions, "tools", "definitions");
        point(&call, "tools", "call");
    }
    if (has("settingsSchema")) point(&settingsSchema, "settings-schema", "settings-schema");
    if (has("onEpisodeStart")) point(&onEpisodeStart, "on-episode-start", "on-episode-start");
    if (has("onModelCall")) point(&onModelCall, "on-model-call", "on-model-call");
    if (has("onFormatError")) point(&onFormatError, "on-format-error", "on-format-error");
    if (has("onToolCall")) point(&onToolCall, "on-tool-call", "on-tool-call");
    if (has("onToolResult")) point(&onToolResult, "on-tool-result", "on-tool-result");
    if (has("onLoop")) point(&onLoop, "on-loop", "on-loop");
    if (has("onSubmit")) point(&onSubmit, "on-submit", "on-submit");
    if (has("onChoosePatch")) point(&onChoosePatch, "on-choose-patch", "on-choose-patch");
    if (has("onLimit")) point(&onLimit, "on-limit", "on-limit");
    if (has("observe")) point(&observe, "observe", "observe");
    refuseUnknownPoints();
}

fn has(comptime name: []const u8) bool {
    return @hasDecl(plugin, name);
}

fn point(comptime function: anytype, comptime interface: []const u8, comptime name: []const u8) void {
    @export(function, .{ .name = "tandem:harness/" ++ interface ++ "@0.1.0#" ++ name });
}

/// A misspelt point would be silent for ever.
fn refuseUnknownPoints() void {
    const points = std.meta.fieldNames(tandem.Points);
    for (std.meta.declarations(plugin)) |name| {
        const looks_like_one = name.len > 2 and name[0] == 'o' and name[1] == 'n' and std.ascii.isUpper(name[2]);
        if (!looks_like_one) continue;
        for (points) |known| {
            if (std.mem.eql(u8, known, name)) break;
        } else {
            var list: []const u8 = "";
            for (points) |known| list = list ++ " " ++ known;
            @compileError("`" ++ name ++ "` is no point; the points are:" ++ list);
        }
    }
}

/// What a point of the plugin answers. An error is a fault.
fn answer(comptime name: []const u8, arguments: anytype) Answer(name) {
    comptime check(name);
    const result = @call(.auto, @field(plugin, name), arguments);
    if (@typeInfo(@TypeOf(result)) != .error_union) return result;
    return result catch |err| tandem.fail(tandem.format("{s} returned error.{s}", .{ name, @errorName(err) }));
}

fn Answer(comptime name: []const u8) type {
    return @typeInfo(@FieldType(tandem.Points, name)).@"fn".return_type.?;
}

/// Compares the function with the one in `tandem.Points`; the result may be of an error union.
fn check(comptime name: []const u8) void {
    const Wanted = @FieldType(tandem.Points, name);
    const wanted = @typeInfo(Wanted).@"fn";
    const message = "`" ++ name ++ "` must be a `pub " ++ @typeName(Wanted) ++ "`";
    if (!@hasDecl(plugin, name)) @compileError(message ++ ", which is missing");
    const Found = @TypeOf(@field(plugin, name));
    const misfit = message ++ ", and is `" ++ @typeName(Found) ++ "`";
    if (@typeInfo(Found) != .@"fn") @compileError(misfit);
    const found = @typeInfo(Found).@"fn";
    if (found.param_types.len != wanted.param_types.len) @compileError(misfit);
    for (found.param_types, wanted.param_types) |one, other| {
        if (one != null and one.? != other.?) @compileError(misfit);
    }
    const result = found.return_type orelse return;
    const payload = switch (@typeInfo(result)) {
        .error_union => |info| info.payload,
        else => result,
    };
    if (payload != wanted.return_type.?) @compileError(misfit);
}

fn finish(comptime name: []const u8, value: Answer(name)) Out {
    defer abi.end();
    return abi.stored(Answer(name), value);
}

/// A context from its flat parameters.
fn contextOf(turn: u32, numbers: [6]u64, limited: [3]u32) Context {
    return .{ .turn = turn, .budget = .{
        .turns = .{ .used = numbers[0], .limit = if (limited[0] != 0) numbers[1] else null },
        .tokens = .{ .used = numbers[2], .limit = if (limited[1] != 0) numbers[3] else null },
        .seconds = .{ .used = numbers[4], .limit = if (limited[2] != 0) numbers[5] else null },
    } };
}

fn definitions() callconv(.c) Out {
    abi.begin();
    return finish("definitions", answer("definitions", .{}));
}

fn call(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, name: usize, name_size: usize, arguments: usize, arguments_size: usize) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    return finish("call", answer("call", .{ context, abi.bytes(name, name_size), abi.bytes(arguments, arguments_size) }));
}

fn settingsSchema() callconv(.c) Out {
    abi.begin();
    return finish("settingsSchema", answer("settingsSchema", .{}));
}

fn onEpisodeStart(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, text: usize, size: usize) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    return finish("onEpisodeStart", answer("onEpisodeStart", .{ context, abi.bytes(text, size) }));
}

fn onModelCall(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    return finish("onModelCall", answer("onModelCall", .{context}));
}

fn onFormatError(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, err: u32, text: usize, size: usize) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    const kind: tandem.FormatError = @enumFromInt(err);
    return finish("onFormatError", answer("onFormatError", .{ context, kind, abi.bytes(text, size) }));
}

fn onToolCall(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, id: usize, id_size: usize, name: usize, name_size: usize, arguments: usize, arguments_size: usize) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    const tool_call: tandem.ToolCall = .{
        .id = abi.bytes(id, id_size),
        .name = abi.bytes(name, name_size),
        .arguments = abi.bytes(arguments, arguments_size),
    };
    return finish("onToolCall", answer("onToolCall", .{ context, tool_call }));
}

fn onToolResult(flat: Out) callconv(.c) Out {
    abi.begin();
    const Flat = struct { context: Context, call: tandem.ToolCall, outcome: tandem.ToolResult };
    const all = abi.load(Flat, flat);
    return finish("onToolResult", answer("onToolResult", .{ all.context, all.call, all.outcome }));
}

fn onLoop(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, repetition: u32) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    const kind: tandem.Repetition = @enumFromInt(repetition);
    return finish("onLoop", answer("onLoop", .{ context, kind }));
}

fn onSubmit(flat: Out) callconv(.c) Out {
    abi.begin();
    const Flat = struct { context: Context, submission: tandem.Submission };
    const all = abi.load(Flat, flat);
    return finish("onSubmit", answer("onSubmit", .{ all.context, all.submission }));
}

fn onChoosePatch(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, items: usize, size: usize) callconv(.c) Out {
    abi.begin();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    const candidates = abi.loadList(tandem.PatchCandidate, items, size);
    return finish("onChoosePatch", answer("onChoosePatch", .{ context, candidates }));
}

fn onLimit(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, limit: u32, source: u32, size: u64, files: usize, files_size: usize, applies: u32) callconv(.c) u32 {
    abi.begin();
    defer abi.end();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    const kind: tandem.Limit = @enumFromInt(limit);
    const work_tree: tandem.PatchCandidate = .{
        .source = @enumFromInt(source),
        .bytes = size,
        .files = abi.loadList([]const u8, files, files_size),
        .applies = applies != 0,
    };
    return @intFromBool(answer("onLimit", .{ context, kind, work_tree }));
}

fn observe(t: u32, a: u64, x: u32, b: u64, c: u64, y: u32, d: u64, e: u64, z: u32, f: u64, name: usize, name_size: usize, payload: usize, payload_size: usize) callconv(.c) void {
    abi.begin();
    defer abi.end();
    const context = contextOf(t, .{ a, b, c, d, e, f }, .{ x, y, z });
    answer("observe", .{ context, abi.bytes(name, name_size), abi.bytes(payload, payload_size) });
}
