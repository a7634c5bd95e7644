//! Do `transformers` and PEFT compute from our checkpoints what we compute?
//!
//! ```sh
//! cargo run -p tandem-trainer --example write_checkpoint -- MODEL.gguf OUT [--small]
//! python3 trainer/reference/check_checkpoint.py OUT      # where torch and transformers are
//! ```
//! Trains LoRA factors for a few steps, writes checkpoints of every kind into the new folder `OUT`,
//! loads each back, does the same with a small random policy of each architecture, and writes what they
//! then compute to `OUT/expected.json`. With `--small` the
//! weights are random ones of a small model, so that `OUT` is a few megabytes to send elsewhere; the
//! tokenizer is still the given policy's.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde_json::{Value, json};
use tandem_trainer::checkpoint::{CheckpointInfo, Policy, load_policy, save_adapter, save_policy};
use tandem_trainer::learner::{Learner, LearnerConfig, Sample};
use tandem_trainer::model::{
    Biases, CausalLm, ExpertsConfig, Family, LoraConfig, ModelConfig, RopeScaling, SlidingWindow,
};
use tandem_trainer::tokenizer::{ChatMessage, ChatRole, Tokenizer};
use tandem_trainer::weights::StoredType;

const TEXTS: [&str; 3] = [
    "What is the capital of France?",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "Die Größe der Stadt — 1,234 Einwohner? 日本 🦀\n\n  end",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let usage = "usage: write_checkpoint MODEL.gguf OUT [--small]";
    let (source, out) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let device = Device::flex();
    let mut base = load_policy(&source, None, &device)?;
    if arguments.next().is_some_and(|option| option == Path::new("--small")) {
        base.model = CausalLm::random(small(base.model.config()), 1, &device);
    }

    let layers = base.model.config().num_hidden_layers;
    let lora = LoraConfig { rank: 8, alpha: 16.0, first_layer: layers * 2 / 3, ..LoraConfig::default() };
    let config = LearnerConfig { learning_rate: 1e-3, ..LearnerConfig::default() };
    let mut learner = Learner::new(base.model.clone().with_lora(lora, 1), config)?;
    let lesson = base.chat.conversation(&[
        ChatMessage::new(ChatRole::User, TEXTS[0]),
        ChatMessage::new(ChatRole::Assistant, "It is Berlin, and it has always been."),
    ])?;
    for step in 0..5 {
        let sample = Sample::demonstration(lesson.ids.clone(), lesson.mask.clone());
        println!("step {step}: loss {:.3}", learner.supervised_step(&[sample])?.loss);
    }

    let info = CheckpointInfo {
        policy_version: 1,
        harness_digest: None,
        parent: None,
        base: "SmolLM2-135M-Instruct".into(),
    };
    let trained = learner.model();
    save_policy(&out.join("base"), &base.model, &base.tokenizer, StoredType::F32, &info)?;
    save_policy(&out.join("f32"), &trained, &base.tokenizer, StoredType::F32, &info)?;
    save_policy(&out.join("bf16"), &trained, &base.tokenizer, StoredType::BF16, &info)?;
    save_adapter(&out.join("adapter"), &trained, StoredType::BF16, &info)?;

    let mut cases = Vec::new();
    for (folder, adapter) in [("base", None), ("f32", None), ("bf16", None), ("base", Some("adapter"))] {
        let path = adapter.map(|name: &str| out.join(name));
        let policy = load_policy(&out.join(folder), path.as_deref(), &device)?;
        cases.push(json!({ "folder": folder, "adapter": adapter, "prompts": prompts(&policy)? }));
    }
    for family in Family::ALL {
        let name = family.model_type();
        let model = CausalLm::random(member(family), 2, &device);
        save_policy(&out.join(name), &model, &Tokenizer::of_bytes(), StoredType::F32, &info)?;
        let policy = load_policy(&out.join(name), None, &device)?;
        cases.push(json!({ "folder": name, "adapter": null, "prompts": prompts(&policy)? }));
    }
    write(&out.join("expected.json"), &json!({ "cases": cases }))
}

/// A small policy of a family, with what the family can have.
fn member(family: Family) -> ModelConfig {
    let base = ModelConfig {
        family,
        head_dim: 8,
        tie_word_embeddings: false,
        bos_token_id: 257,
        eos_token_id: 258,
        ..ModelConfig::llama(24, 40, 3, [4, 2], 259)
    };
    let layers = vec![true, false, true];
    match family {
        Family::Llama => ModelConfig {
            bias: Biases { qkv: true, output: true, mlp: true },
            rope_scaling: RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 16.0 },
            ..base
        },
        // The width of a head is not told in its config.json.
        Family::Qwen2 => ModelConfig { head_dim: 6, bias: Biases { qkv: true, ..Biases::default() }, ..base },
        Family::Qwen3 => base,
        Family::Qwen3Moe => {
            let (count, per_token, intermediate_size, normalised) = (4, 2, 16, true);
            let experts = ExpertsConfig { count, per_token, intermediate_size, normalised, layers };
            ModelConfig { experts: Some(experts), ..base }
        }
        Family::Gemma3 => ModelConfig {
            window: Some(SlidingWindow { tokens: 3, layers, rope_theta: Some(1_000.0) }),
            query_scalar: Some(16),
            logit_softcap: Some(10.0),
            tie_word_embeddings: true,
            ..base
        },
    }
}

/// A small shape for the same tokens.
fn small(config: &ModelConfig) -> ModelConfig {
    ModelConfig {
        hidden_size: 24,
        intermediate_size: 40,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 8,
        ..config.clone()
    }
}

/// For each text: its ids in the chat template, and the logits after the last of them.
fn prompts(policy: &Policy) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let mut prompts = Vec::new();
    for text in TEXTS {
        let ids = policy.chat.first(&[ChatMessage::new(ChatRole::User, text)])?;
        let logits = last_logits(&policy.model, &ids)?;
        let plain = policy.tokenizer.encode(text)?;
        prompts.push(json!({ "text": text, "text_ids": plain, "chat_ids": ids, "logits": logits }));
    }
    Ok(prompts)
}

fn last_logits(model: &CausalLm, ids: &[u32]) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let values: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
    let batch = Tensor::<2, Int>::from_data(TensorData::new(values, [1, ids.len()]), &model.device());
    let hidden = model.hidden(batch);
    let width = hidden.dims()[2];
    let last = hidden.narrow(1, ids.len() - 1, 1).reshape([1, width]);
    Ok(model.logits(last).into_data().try_into_vec()?)
}

fn write(path: &Path, value: &Value) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write(path, value.to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}
