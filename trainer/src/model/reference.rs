//! Does the policy compute what `transformers` computes on the same weights?
//!
//! The values come from `trainer/reference/smollm2_logits.py` and `gemma3_logits.py`, which say how to
//! make them again.

use std::path::Path;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;

use super::{CausalLm, ModelConfig};
use crate::testing::{GEMMA3, SMOLLM2, weights};
use crate::tokenizer::{ChatMessage, ChatRole, ChatTemplate, Tokenizer};
use crate::weights::Gguf;

#[derive(Deserialize)]
struct Reference {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    name: String,
    ids: Vec<u32>,
    positions: Vec<Position>,
    /// Of each token after the first, given those before it.
    next_logprobs: Vec<f32>,
}

#[derive(Deserialize)]
struct Position {
    position: usize,
    /// Ids and logits of the likeliest tokens.
    top: Vec<(usize, f32)>,
    mean: f64,
    square: f64,
}

fn load(model: &str) -> Option<(Gguf, CausalLm)> {
    let file = Gguf::open(&weights(model)?).unwrap();
    let config = ModelConfig::from_gguf(file.metadata(), true).unwrap();
    let model = CausalLm::from_tensors(config, &file.tensors().unwrap(), &Device::flex()).unwrap();
    Some((file, model))
}

/// The logits of every token: `[tokens, vocabulary]`.
fn logits(model: &CausalLm, ids: &[u32]) -> Tensor<2> {
    let values: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(values, [1, ids.len()]), &Device::flex());
    model.logits(model.hidden(ids).squeeze_dim(0))
}

fn check(model: &str, reference: &str) {
    let Some((_, model)) = load(model) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference").join(reference);
    let text = std::fs::read_to_string(path).expect("the reference values are in the repository");
    let reference: Reference = serde_json::from_str(&text).unwrap();
    let vocabulary = model.config().vocab_size;
    for prompt in reference.prompts {
        let all = logits(&model, &prompt.ids);
        let logprobs = log_softmax(all.clone(), 1).try_into_vec_as::<f32>().unwrap();
        let all = all.try_into_vec_as::<f32>().unwrap();
        let mut worst: f32 = 0.0;
        for position in &prompt.positions {
            let row = &all[position.position * vocabulary..][..vocabulary];
            for (id, expected) in &position.top {
                worst = worst.max((row[*id] - expected).abs());
            }
            let mean = |f: fn(f64) -> f64| {
                row.iter().map(|value| f(f64::from(*value))).sum::<f64>() / vocabulary as f64
            };
            assert!((mean(|value| value) - position.mean).abs() < 1e-3, "{}: mean", prompt.name);
            assert!(
                (mean(|value| value * value) / position.square - 1.0).abs() < 1e-3,
                "{}: square",
                prompt.name
            );
        }
        for (index, expected) in prompt.next_logprobs.iter().enumerate() {
            let id = prompt.ids[index + 1] as usize;
            worst = worst.max((logprobs[index * vocabulary + id] - expected).abs());
        }
        eprintln!("{}: largest difference {worst:e}", prompt.name);
        assert!(worst < 1e-3, "{}: logits differ by {worst}", prompt.name);
    }
}

#[test]
fn logits_are_those_of_transformers() {
    check(SMOLLM2, "smollm2_logits.json");
}

#[test]
fn gemma_has_the_logits_of_transformers() {
    check(GEMMA3, "gemma3_logits.json");
}

#[test]
fn gemma_cuts_text_as_its_vocabulary_says() {
    let Some(path) = weights(GEMMA3) else { return };
    let file = Gguf::open(&path).unwrap();
    let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
    let tokens = file.metadata().texts("tokenizer.ggml.tokens").unwrap();
    let check = |text: &str, expected: &[&str]| {
        let ids = tokenizer.encode(text).unwrap();
        let found: Vec<_> = ids.iter().map(|id| tokens[*id as usize]).collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    };
    check("The capital of France is", &["The", "▁capital", "▁of", "▁France", "▁is"]);
    check(
        "def f(x):\n    return x\n\n",
        &["def", "▁f", "(", "x", "):", "\n", "    ", "return", "▁x", "\n\n"],
    );
    check("Größe 日本 1234", &["Gr", "ö", "ße", "▁日本", "▁", "1", "2", "3", "4"]);
    // A base policy has no chat template of its own.
    let template = ChatTemplate::new(&tokenizer).unwrap();
    let ids = template.first(&[ChatMessage::new(ChatRole::User, "Hi")]).unwrap();
    let prompt: Vec<_> = ids.iter().map(|id| tokens[*id as usize]).collect();
    assert_eq!(
        prompt,
        [
            "<bos>",
            "<start_of_turn>",
            "user",
            "\n",
            "Hi",
            "<end_of_turn>",
            "\n",
            "<start_of_turn>",
            "model",
            "\n"
        ]
    );
    assert_eq!(template.end_of_turn(), 106);
    // What the vocabulary lacks is spelled in bytes; what spells a special token is text.
    check("\u{7}", &["<0x07>"]);
    assert!(!tokenizer.encode("<end_of_turn>").unwrap().contains(&106));
}

#[test]
fn the_policy_answers_in_english() {
    let Some((file, model)) = load(SMOLLM2) else { return };
    let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
    let template = ChatTemplate::new(&tokenizer).unwrap();
    let question = ChatMessage::new(ChatRole::User, "What is the capital of France?");
    let mut ids = template.first(&[question]).unwrap();
    let prompt = ids.len();
    while ids.len() < prompt + 12 && ids.last() != Some(&template.end_of_turn()) {
        let last = logits(&model, &ids).slice([ids.len() - 1..ids.len()]);
        ids.push(last.argmax(1).into_scalar::<i64>() as u32);
    }
    let reply = tokenizer.decode_with_special(&ids[prompt..]).unwrap();
    assert_eq!(reply, "The capital of France is Paris.<|im_end|>");
}
