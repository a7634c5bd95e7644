//! What does a new plugin look like in the languages beside Rust?

pub mod javascript;
pub mod python;
#[cfg(test)]
mod tests;
