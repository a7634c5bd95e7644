//! How does a program ask a policy of ours? As it asks any server with OpenAI's API.

mod answer;
mod conversation;
mod dialect;
mod engine;
mod fields;
mod meters;
mod request;
mod routes;

pub use engine::Engine;
pub use routes::router;
