//! How do the rows of a published data set become task folders?
//!
//! One type for a problem, [`Instance`]; one reader for each format makes it; one
//! writer lays it down as a Harbor task folder. What this room deliberately does not
//! do: it fetches nothing, it runs nothing, and it judges nothing. Files in, folders out.

mod classic;
mod container_free;
mod error;
mod format;
mod import;
mod instance;
mod parquet;
mod related;
mod row;
mod source;
mod swebench;
mod write;

#[cfg(test)]
mod tests;

pub use error::DatasetError;
pub use format::Format;
pub use import::{ImportOptions, Imported, import};
pub use instance::{Instance, Solution};
pub use write::write;
