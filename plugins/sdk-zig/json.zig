//! How does a plugin read and write JSON? `std.json` with the choices made, and answers of none
//! where something is missing or has another type.

const std = @import("std");
const allocator = @import("abi.zig").allocator;

pub const Value = std.json.Value;

/// Reads one value; null if the text is not JSON.
pub fn parse(source: []const u8) ?Value {
    return std.json.parseFromSliceLeaky(Value, allocator, source, .{ .duplicate_field_behavior = .use_first }) catch null;
}

/// The value under `key`; null if there is none, also of null and of what is no object.
pub fn get(object: ?Value, key: []const u8) ?Value {
    const value = object orelse return null;
    return if (value == .object) value.object.get(key) else null;
}

pub fn text(value: ?Value) ?[]const u8 {
    const some = value orelse return null;
    return if (some == .string) some.string else null;
}

/// True of the value `true` only.
pub fn isTrue(value: ?Value) bool {
    const some = value orelse return false;
    return some == .bool and some.bool;
}

/// A whole number; 10.0 is one.
pub fn whole(value: ?Value) ?i64 {
    // Past 2^53 not every whole number is a double.
    const most = 1 << 53;
    return switch (value orelse return null) {
        .integer => |number| number,
        .float => |number| if (@abs(number) <= most and @trunc(number) == number) @intFromFloat(number) else null,
        else => null,
    };
}

/// Any value as JSON: structs are objects, slices arrays, bytes texts.
pub fn write(value: anytype) []const u8 {
    return std.json.Stringify.valueAlloc(allocator, value, .{}) catch unreachable;
}
