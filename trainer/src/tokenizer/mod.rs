//! How does text become token ids, and a conversation a prompt?

mod build;
mod chat;
mod error;
mod stream;
mod text;
mod tools;

pub use chat::{ChatMessage, ChatRole, ChatTemplate, Masked};
pub use error::TokenizerError;
pub use stream::TextStream;
pub use text::Tokenizer;
pub use tools::ToolStyle;
