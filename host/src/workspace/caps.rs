//! How much may a plugin read, write and run at once in a workspace?

use std::time::Duration;

/// Bytes of one file that is read or written.
pub const FILE_BYTES: u64 = 1 << 20;
/// Entries of one listing.
pub const LIST_ENTRIES: usize = 10_000;
/// Hits of one search, whatever a plugin asks for.
pub const SEARCH_HITS: usize = 1_000;
/// Files and folders that one search looks at.
pub const SEARCH_ENTRIES: usize = 20_000;
/// Bytes of a line that a search gives back.
pub const LINE_BYTES: usize = 1_000;
/// Bytes of output of one `exec`, half from each end.
pub const EXEC_BYTES: usize = 64 << 10;
/// Longest time limit of one `exec`.
pub const EXEC_TIME: Duration = Duration::from_secs(60);
