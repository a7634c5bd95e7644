//! A policy so small that a test can train it, as a Hugging Face folder.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;

use tandem_trainer::Device;
use tandem_trainer::checkpoint::{CheckpointInfo, save_policy};
use tandem_trainer::model::{CausalLm, ModelConfig};
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::{HostTensor, NamedTensors, StoredType};

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

/// Tokens of a conversation that a policy of [`write_replying`] can read.
pub const CONTEXT: usize = 1024;

/// Writes a policy into the new folder `folder` whose whole reply is one of two texts, each about as often:
/// each text is a token of its own, and after it comes the end of the turn.
pub fn write_replying(folder: &Path, replies: [&str; 2]) {
    let words = config().vocab_size;
    let shape = ModelConfig {
        vocab_size: words + replies.len(),
        max_position_embeddings: CONTEXT,
        tie_word_embeddings: false,
        ..config()
    };
    let (hidden, end) = (shape.hidden_size, 258);
    let random = CausalLm::random(shape.clone(), 7, &Device::flex()).named_tensors();
    let mut tensors = NamedTensors::new("a policy with two replies");
    for (name, tensor) in random.iter() {
        let mut data = tensor.data.clone();
        if name.contains("proj") || name.contains("embed") {
            // What comes out is decided by the last token; the layers add little.
            data.iter_mut().for_each(|value| *value *= 0.02);
        }
        if name.contains("lm_head") {
            data.iter_mut().for_each(|value| *value *= 0.1);
        }
        for row in 0..words + replies.len() {
            let is_reply = row >= words;
            if name.contains("embed") {
                data[row * hidden + usize::from(is_reply)] = 1.0;
            }
            if name.contains("lm_head") && (is_reply || row == end) {
                data[row * hidden + usize::from(!is_reply)] = 4.0;
            }
        }
        tensors.insert(name, HostTensor::new(tensor.shape.clone(), data));
    }
    let model = CausalLm::from_tensors(shape, &tensors, &Device::flex()).unwrap();
    let info = CheckpointInfo { policy_version: 0, harness_digest: None, parent: None, base: "tiny".into() };
    save_policy(folder, &model, &Tokenizer::of_bytes(), StoredType::F32, &info).unwrap();
    // It names the digests of the files as they were.
    std::fs::remove_file(folder.join("tandem.json")).unwrap();
    let path = folder.join("tokenizer.json");
    let mut tokenizer: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // A byte-level vocabulary writes these two bytes as other characters.
    let spelled = replies.map(|reply| reply.replace(' ', "\u{120}").replace('\n', "\u{10a}"));
    let new: BTreeMap<String, usize> = spelled.into_iter().zip(words..).collect();
    for (text, id) in new {
        tokenizer["model"]["vocab"][text] = id.into();
    }
    std::fs::write(&path, tokenizer.to_string()).unwrap();
}
