//! Tandem's trainer: policy models, generation, objectives, learner and
//! checkpoints on Burn. It knows nothing of plugins, tasks or the files of a run.

pub mod checkpoint;
pub mod doctor;
pub mod generate;
mod kernel;
pub mod learner;
pub mod model;
pub mod objective;
pub mod optimizer;
pub mod parallel;
pub mod tokenizer;
pub mod weights;

pub use burn::tensor::Device;

#[cfg(test)]
mod testing;
