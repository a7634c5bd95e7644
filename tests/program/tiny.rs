//! A policy so small that a test can train it, as a Hugging Face folder.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::path::Path;

use tandem_trainer::Device;
use tandem_trainer::checkpoint::{CheckpointInfo, save_policy};
use tandem_trainer::model::{CausalLm, ModelConfig};
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::StoredType;

/// The shape: bytes as tokens, two layers, ChatML.
pub fn config() -> ModelConfig {
    ModelConfig {
        head_dim: 8,
        bos_token_id: 257,
        eos_token_id: 258,
        max_position_embeddings: 256,
        ..ModelConfig::llama(32, 64, 2, [4, 2], 259)
    }
}

/// Writes it into the new folder `folder`.
pub fn write(folder: &Path) {
    let model = CausalLm::random(config(), 7, &Device::flex());
    let info = CheckpointInfo { policy_version: 4, harness_digest: None, parent: None, base: "tiny".into() };
    save_policy(folder, &model, &Tokenizer::of_bytes(), StoredType::F32, &info).unwrap();
}
