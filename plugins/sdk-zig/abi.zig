//! How do Zig values lie in memory for the host (component-model, CanonicalABI.md)? Structs are
//! records, tagged unions variants, slices of bytes texts or byte lists, other slices lists,
//! optionals options, enums of `u8` enums.

const std = @import("std");
const imports = @import("imports.zig");

// ---- The memory of a call ----

var arena: std.heap.ArenaAllocator = .init(std.heap.wasm_allocator);
var call_is_over = false;

/// Gives from the memory of the call; running out of it ends the call, so that no helper has to
/// return an error.
pub const allocator: std.mem.Allocator = .{ .ptr = undefined, .vtable = &.{
    .alloc = alloc,
    .resize = resize,
    .remap = remap,
    .free = free,
} };

fn alloc(_: *anyopaque, size: usize, alignment: std.mem.Alignment, from: usize) ?[*]u8 {
    return arena.allocator().rawAlloc(size, alignment, from) orelse outOfMemory(size);
}

fn resize(_: *anyopaque, memory: []u8, alignment: std.mem.Alignment, size: usize, from: usize) bool {
    return arena.allocator().rawResize(memory, alignment, size, from);
}

fn remap(_: *anyopaque, memory: []u8, alignment: std.mem.Alignment, size: usize, from: usize) ?[*]u8 {
    return arena.allocator().rawRemap(memory, alignment, size, from);
}

fn free(_: *anyopaque, memory: []u8, alignment: std.mem.Alignment, from: usize) void {
    arena.allocator().rawFree(memory, alignment, from);
}

/// Without the call's memory: there is none left.
fn outOfMemory(size: usize) noreturn {
    var buffer: [80]u8 = undefined;
    const text = std.fmt.bufPrint(&buffer, "out of memory: {d} bytes asked for", .{size}) catch "out of memory";
    imports.failure.explain(text.ptr, text.len);
    @trap();
}

/// Begins a call: frees what the last one used, unless the host did by passing arguments.
pub fn begin() void {
    if (!call_is_over) return;
    call_is_over = false;
    // What most calls use stays.
    _ = arena.reset(.{ .retain_with_limit = 64 << 10 });
}

/// Ends a call: its memory stays until the host has read the result.
pub fn end() void {
    call_is_over = true;
}

/// How the host gets memory for arguments and for the results of imports.
pub fn realloc(old: [*]u8, old_size: usize, alignment: usize, size: usize) callconv(.c) [*]u8 {
    _ = alignment; // 8 at most.
    begin();
    const fresh = allocator.alignedAlloc(u8, .@"8", @max(size, 1)) catch unreachable;
    @memcpy(fresh[0..@min(old_size, size)], old[0..@min(old_size, size)]);
    return fresh.ptr;
}

// ---- Layout ----

pub fn alignOf(comptime T: type) usize {
    return switch (@typeInfo(T)) {
        .void => 1,
        .bool => 1,
        .int => @sizeOf(T),
        .@"enum" => 1,
        .pointer => 4,
        .optional => |info| alignOf(info.child),
        .@"struct" => |info| {
            var most: usize = 1;
            inline for (info.field_types) |Field| most = @max(most, alignOf(Field));
            return most;
        },
        .@"union" => caseAlign(T),
        else => @compileError("no type of the contract: " ++ @typeName(T)),
    };
}

fn caseAlign(comptime T: type) usize {
    var most: usize = 1;
    inline for (@typeInfo(T).@"union".field_types) |Field| most = @max(most, alignOf(Field));
    return most;
}

pub fn sizeOf(comptime T: type) usize {
    return switch (@typeInfo(T)) {
        .void => 0,
        .bool => 1,
        .int => @sizeOf(T),
        .@"enum" => 1,
        .pointer => 8,
        .optional => |info| std.mem.alignForward(usize, alignOf(T) + sizeOf(info.child), alignOf(T)),
        .@"struct" => |info| {
            var size: usize = 0;
            inline for (info.field_types) |Field| {
                size = std.mem.alignForward(usize, size, alignOf(Field)) + sizeOf(Field);
            }
            return std.mem.alignForward(usize, size, alignOf(T));
        },
        .@"union" => |info| {
            var most: usize = 0;
            inline for (info.field_types) |Field| most = @max(most, sizeOf(Field));
            return std.mem.alignForward(usize, caseAlign(T) + most, alignOf(T));
        },
        else => @compileError("no type of the contract: " ++ @typeName(T)),
    };
}

/// Memory that holds one value of `T`.
pub fn Memory(comptime T: type) type {
    return extern struct { bytes: [sizeOf(T)]u8 align(8) };
}

fn Cell(comptime T: type) type {
    return *align(1) T;
}

fn at(comptime T: type, address: usize) Cell(T) {
    return @ptrFromInt(address);
}

// ---- Reading ----

/// The value that lies at `memory`. Slices point to where the host put them.
pub fn load(comptime T: type, memory: *const anyopaque) T {
    return loadAt(T, @intFromPtr(memory));
}

fn loadAt(comptime T: type, address: usize) T {
    switch (@typeInfo(T)) {
        .void => return {},
        .bool => return at(u8, address).* != 0,
        .int => return at(T, address).*,
        .@"enum" => return @enumFromInt(at(u8, address).*),
        .pointer => |info| {
            const start = at(usize, address).*;
            const size = at(usize, address + 4).*;
            if (info.child == u8) return bytes(start, size);
            return loadList(info.child, start, size);
        },
        .optional => |info| {
            if (at(u8, address).* == 0) return null;
            return loadAt(info.child, address + alignOf(T));
        },
        .@"struct" => |info| {
            var value: T = undefined;
            comptime var offset: usize = 0;
            inline for (info.field_names, info.field_types) |name, Field| {
                offset = comptime std.mem.alignForward(usize, offset, alignOf(Field));
                @field(value, name) = loadAt(Field, address + offset);
                offset += comptime sizeOf(Field);
            }
            return value;
        },
        .@"union" => |info| {
            const case = at(u8, address).*;
            inline for (info.field_names, info.field_types, 0..) |name, Field, index| {
                if (case == index) return @unionInit(T, name, loadAt(Field, address + caseAlign(T)));
            }
            unreachable;
        },
        else => comptime unreachable,
    }
}

pub fn bytes(start: usize, size: usize) []const u8 {
    if (size == 0) return "";
    return @as([*]const u8, @ptrFromInt(start))[0..size];
}

pub fn loadList(comptime T: type, start: usize, size: usize) []const T {
    const list = allocator.alloc(T, size) catch unreachable;
    for (list, 0..) |*item, index| item.* = loadAt(T, start + index * sizeOf(T));
    return list;
}

// ---- Writing ----

/// The value in memory that stays until the call is over.
pub fn stored(comptime T: type, value: T) *const anyopaque {
    return storedList(T, &.{value});
}

/// The values one behind the other.
pub fn storedList(comptime T: type, values: []const T) *const anyopaque {
    const memory = allocator.alignedAlloc(u8, .@"8", @max(values.len * sizeOf(T), 1)) catch unreachable;
    @memset(memory, 0);
    for (values, 0..) |value, index| storeAt(T, @intFromPtr(memory.ptr) + index * sizeOf(T), value);
    return memory.ptr;
}

fn storeAt(comptime T: type, address: usize, value: T) void {
    switch (@typeInfo(T)) {
        .void => {},
        .bool => at(u8, address).* = @intFromBool(value),
        .int => at(T, address).* = value,
        .@"enum" => at(u8, address).* = @intFromEnum(value),
        .pointer => |info| {
            const start = if (info.child == u8) @intFromPtr(value.ptr) else @intFromPtr(storedList(info.child, value));
            at(usize, address).* = start;
            at(usize, address + 4).* = value.len;
        },
        .optional => |info| if (value) |some| {
            at(u8, address).* = 1;
            storeAt(info.child, address + alignOf(T), some);
        },
        .@"struct" => |info| {
            comptime var offset: usize = 0;
            inline for (info.field_names, info.field_types) |name, Field| {
                offset = comptime std.mem.alignForward(usize, offset, alignOf(Field));
                storeAt(Field, address + offset, @field(value, name));
                offset += comptime sizeOf(Field);
            }
        },
        .@"union" => |info| inline for (info.field_names, info.field_types, 0..) |name, Field, index| {
            if (value == @field(std.meta.Tag(T), name)) {
                at(u8, address).* = index;
                storeAt(Field, address + caseAlign(T), @field(value, name));
            }
        },
        else => comptime unreachable,
    }
}
