//! What is written is read back the same, and what is damaged is named.

use std::path::{Path, PathBuf};

use burn::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{CausalLm, LoraConfig, ModelConfig};
use crate::tokenizer::Tokenizer;
use crate::weights::{NamedTensors, StoredType};

fn shape(tied: bool) -> ModelConfig {
    ModelConfig {
        max_position_embeddings: 64,
        tie_word_embeddings: tied,
        bos_token_id: 0,
        eos_token_id: 1,
        ..ModelConfig::llama(16, 24, 3, [4, 2], 6)
    }
}

/// A tokenizer of six tokens with a chat template, as a folder.
fn tokenizer(root: &Path) -> Tokenizer {
    let folder = root.join("tokenizer");
    std::fs::create_dir_all(&folder).unwrap();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "single_word": false,
               "lstrip": false, "rstrip": false, "normalized": false})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [special(0, "<s>"), special(1, "</s>")],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "Ċ": 4, "ab": 5}, "merges": ["a b"]},
    });
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "chat_template": "{% for message in messages %}{{ '<s>' + message['content'] + '</s>' }}{% endfor %}{% if add_generation_prompt %}{{ '<s>' }}{% endif %}",
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    Tokenizer::from_folder(&folder).unwrap()
}

fn info() -> CheckpointInfo {
    CheckpointInfo {
        policy_version: 7,
        harness_digest: Some("sha256:00ff".into()),
        parent: Some("policy-6".into()),
        base: "tiny".into(),
    }
}

fn model(tied: bool) -> CausalLm {
    CausalLm::random(shape(tied), 5, &Device::flex())
}

/// A model with LoRA factors that are not zero.
fn adapted() -> CausalLm {
    let lora = LoraConfig { rank: 2, alpha: 3.0, first_layer: 1, ..LoraConfig::default() };
    let start = model(true).with_lora(lora, 3);
    let mut tensors = start.lora_tensors();
    let changed: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| {
            let mut tensor = tensor.clone();
            // Exact in bf16, so that a checkpoint in bf16 has the same bits.
            let values = tensor.data.iter_mut().enumerate();
            values.for_each(|(i, value)| *value = (i % 7) as f32 / 8.0 - 0.375);
            (name.to_string(), tensor)
        })
        .collect();
    changed.into_iter().for_each(|(name, tensor)| tensors.insert(name, tensor));
    model(true).load_lora(&tensors, lora).unwrap()
}

fn logits(model: &CausalLm) -> Vec<f32> {
    let ids = Tensor::<2, Int>::from_data([[0, 2, 3, 5, 4, 1]], &Device::flex());
    let hidden = model.hidden(ids).reshape([6, 16]);
    model.logits(hidden).into_data().try_into_vec().unwrap()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < tolerance, "{found}, expected {expected}");
    }
}

#[test]
fn a_full_checkpoint_is_read_back_with_the_same_bits() {
    for tied in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("policy-7");
        let written = model(tied);
        save_policy(&folder, &written, &tokenizer(root.path()), StoredType::F32, &info()).unwrap();
        let policy = load_policy(&folder, None, &Device::flex()).unwrap();
        assert_eq!(policy.model.named_tensors_sorted(), written.named_tensors_sorted());
        assert_eq!(logits(&policy.model), logits(&written));
        assert_eq!(policy.tokenizer.encode("abba").unwrap(), [5, 3, 2]);
        assert_eq!(policy.chat.end_of_turn(), 1);
        let manifest = policy.manifest.unwrap();
        assert_eq!((manifest.policy_version, manifest.kind), (7, CheckpointKind::Full));
        let files: Vec<_> = manifest.files.keys().map(String::as_str).collect();
        assert_eq!(
            files,
            [
                "config.json",
                "generation_config.json",
                "model.safetensors",
                "tokenizer.json",
                "tokenizer_config.json"
            ]
        );
        // Hugging Face leaves a tied head out.
        let stored = crate::weights::read_safetensors(&folder).unwrap();
        assert_eq!(stored.get("lm_head.weight").is_none(), tied);
    }
}

trait Sorted {
    fn named_tensors_sorted(&self) -> Vec<(String, Vec<f32>)>;
}

impl Sorted for CausalLm {
    fn named_tensors_sorted(&self) -> Vec<(String, Vec<f32>)> {
        let tensors: NamedTensors = self.named_tensors();
        tensors.iter().map(|(name, tensor)| (name.to_string(), tensor.data.clone())).collect()
    }
}

#[test]
fn a_bf16_checkpoint_is_half_the_size_and_close() {
    let root = tempfile::tempdir().unwrap();
    let (half, whole) = (root.path().join("half"), root.path().join("whole"));
    let tokenizer = tokenizer(root.path());
    save_policy(&half, &model(true), &tokenizer, StoredType::BF16, &info()).unwrap();
    save_policy(&whole, &model(true), &tokenizer, StoredType::F32, &info()).unwrap();
    let size = |folder: &Path| std::fs::metadata(folder.join("model.safetensors")).unwrap().len();
    assert!(size(&half) < size(&whole));
    let policy = load_policy(&half, None, &Device::flex()).unwrap();
    let apart = logits(&policy.model)
        .iter()
        .zip(logits(&model(true)))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(apart > 0.0 && apart < 0.2, "{apart}");
    let config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(half.join("config.json")).unwrap()).unwrap();
    assert_eq!((&config["torch_dtype"], &config["model_type"]), (&json!("bfloat16"), &json!("llama")));
}

#[test]
fn lora_factors_are_folded_into_a_full_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("merged");
    save_policy(&folder, &adapted(), &tokenizer(root.path()), StoredType::F32, &info()).unwrap();
    let policy = load_policy(&folder, None, &Device::flex()).unwrap();
    assert!(policy.model.lora().is_none());
    assert_close(&logits(&policy.model), &logits(&adapted()), 1e-4);
    let apart = logits(&adapted()).iter().zip(logits(&model(true))).any(|(a, b)| (a - b).abs() > 0.01);
    assert!(apart, "the adapter must change something for this test to mean anything");
}

/// A full checkpoint of the base, and an adapter over it.
fn pair(root: &Path) -> (PathBuf, PathBuf) {
    let (base, adapter) = (root.join("base"), root.join("adapter"));
    save_policy(&base, &model(true), &tokenizer(root), StoredType::F32, &info()).unwrap();
    save_adapter(&adapter, &adapted(), StoredType::BF16, &CheckpointInfo { policy_version: 8, ..info() })
        .unwrap();
    (base, adapter)
}

#[test]
fn an_adapter_is_read_back_over_its_base() {
    let root = tempfile::tempdir().unwrap();
    let (base, adapter) = pair(root.path());
    let policy = load_policy(&base, Some(&adapter), &Device::flex()).unwrap();
    assert_eq!(policy.model.lora(), adapted().lora());
    assert_eq!(logits(&policy.model), logits(&adapted()));
    assert_eq!(policy.manifest.unwrap().policy_version, 8);
    let config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(adapter.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(config["layers_to_transform"], json!([1, 2]));
}

#[test]
fn a_missing_or_damaged_file_is_named() {
    let check = |harm: &dyn Fn(&Path, &Path), with_adapter: bool, expected: &str| {
        let root = tempfile::tempdir().unwrap();
        let (base, adapter) = pair(root.path());
        harm(&base, &adapter);
        let adapter = with_adapter.then_some(adapter.as_path());
        let error = load_policy(&base, adapter, &Device::flex()).err().unwrap().to_string();
        let error = error.replace(&root.path().display().to_string(), "ROOT");
        assert!(error.contains(expected), "wanted `{expected}` in:\n{error}");
        assert!(error.contains("\nhelp: "), "no help in:\n{error}");
    };
    let remove = |path: PathBuf| std::fs::remove_file(path).unwrap();
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).unwrap();
    let gone = "is missing";

    check(
        &|base, _| remove(base.join("model.safetensors")),
        false,
        "`ROOT/base/model.safetensors` is missing",
    );
    check(&|base, _| remove(base.join("config.json")), false, "`ROOT/base/config.json` is missing");
    check(
        &|base, _| write(base.join("config.json"), "{}"),
        false,
        "`ROOT/base/config.json` is corrupt: its sha256",
    );
    check(&|base, _| write(base.join("tandem.json"), "{"), false, "`ROOT/base/tandem.json` is corrupt: EOF");
    check(&|base, _| std::fs::remove_dir_all(base).unwrap(), false, "`ROOT/base` cannot be used");
    check(&|_, adapter| remove(adapter.join("adapter_model.safetensors")), true, gone);
    check(
        &|_, adapter| std::fs::remove_dir_all(adapter).unwrap(),
        true,
        "`ROOT/adapter/adapter_config.json` is missing",
    );
    // A folder of someone else has no tandem.json, and its own faults.
    let foreign = |base: &Path| remove(base.join("tandem.json"));
    check(
        &|base, _| {
            foreign(base);
            remove(base.join("tokenizer.json"));
        },
        false,
        "`ROOT/base/tokenizer.json` is missing",
    );
    check(
        &|base, _| {
            foreign(base);
            remove(base.join("config.json"));
        },
        false,
        "`ROOT/base` is neither a GGUF file nor a model folder",
    );
    check(
        &|base, _| {
            foreign(base);
            let bytes = std::fs::read(base.join("model.safetensors")).unwrap();
            std::fs::write(base.join("model.safetensors"), &bytes[..bytes.len() - 9]).unwrap();
        },
        false,
        "model.safetensors` is truncated",
    );
    check(
        &|_, adapter| {
            remove(adapter.join("tandem.json"));
            write(
                adapter.join("adapter_config.json"),
                r#"{"peft_type":"LORA","r":2,"lora_alpha":3,"use_dora":true}"#,
            );
        },
        true,
        "adapter_config.json` is corrupt: it uses rsLoRA",
    );
}

#[test]
fn an_adapter_alone_is_no_policy() {
    let root = tempfile::tempdir().unwrap();
    let (_, adapter) = pair(root.path());
    let error = load_policy(&adapter, None, &Device::flex()).err().unwrap();
    assert!(matches!(&error, CheckpointError::OnlyAdapter { base, .. } if base == "tiny"), "{error}");
    assert!(matches!(
        save_adapter(&root.path().join("x"), &model(true), StoredType::BF16, &info()),
        Err(CheckpointError::NoAdapter)
    ));
}

#[test]
fn the_adapter_of_the_built_in_policy_stays_small() {
    // SmolLM2-135M has 30 such layers; three are enough to weigh.
    let wide = ModelConfig {
        hidden_size: 576,
        intermediate_size: 1536,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        ..shape(true)
    };
    let lora = LoraConfig { rank: 8, alpha: 16.0, first_layer: 0, ..LoraConfig::default() };
    let model = CausalLm::random(wide, 5, &Device::flex()).with_lora(lora, 3);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("adapter");
    save_adapter(&folder, &model, StoredType::BF16, &info()).unwrap();
    let bytes = std::fs::metadata(folder.join("adapter_model.safetensors")).unwrap().len();
    assert!(bytes > 400_000 && 10 * bytes < 6_000_000, "{bytes} bytes for three layers");
}
