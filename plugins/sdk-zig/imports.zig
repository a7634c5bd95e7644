//! Which functions does the host give? The imports of the contract, with the flat parameters of
//! the canonical ABI. One that is not used does not come into the component.

const Bytes = [*]const u8;
/// Where the host writes a result.
const Out = *anyopaque;

pub const failure = struct {
    pub extern "tandem:harness/failure@0.1.0" fn explain(Bytes, usize) void;
};

pub const log = struct {
    pub extern "tandem:harness/log@0.1.0" fn log(u32, Bytes, usize) void;
};

pub const clock = struct {
    pub extern "tandem:harness/clock@0.1.0" fn @"now-ms"() u64;
};

pub const random = struct {
    pub extern "tandem:harness/random@0.1.0" fn @"next-u64"() u64;
};

pub const state = struct {
    pub extern "tandem:harness/state@0.1.0" fn get(Bytes, usize, Out) void;
    pub extern "tandem:harness/state@0.1.0" fn set(Bytes, usize, Bytes, usize, Out) void;
};

pub const settings = struct {
    pub extern "tandem:harness/settings@0.1.0" fn get(Out) void;
};

pub const workspace_read = struct {
    pub extern "tandem:harness/workspace-read@0.1.0" fn read(Bytes, usize, Out) void;
    pub extern "tandem:harness/workspace-read@0.1.0" fn list(Bytes, usize, Out) void;
    pub extern "tandem:harness/workspace-read@0.1.0" fn stat(Bytes, usize, Out) void;
    pub extern "tandem:harness/workspace-read@0.1.0" fn search(Bytes, usize, Bytes, usize, u32, Out) void;
    pub extern "tandem:harness/workspace-read@0.1.0" fn diff(Out) void;
    pub extern "tandem:harness/workspace-read@0.1.0" fn untracked(Out) void;
};

pub const workspace_write = struct {
    pub extern "tandem:harness/workspace-write@0.1.0" fn write(Bytes, usize, Bytes, usize, Out) void;
};

pub const exec = struct {
    pub extern "tandem:harness/exec@0.1.0" fn run(*const anyopaque, usize, u32, Out) void;
};
