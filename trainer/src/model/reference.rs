//! Does the policy compute what `transformers` computes on the same weights?
//!
//! The values come from `trainer/reference/smollm2_logits.py`, which says how to make them again.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;

use super::{CausalLm, ModelConfig};
use crate::testing::{SMOLLM2, weights};
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

fn smollm2() -> Option<(Gguf, CausalLm)> {
    let file = Gguf::open(&weights(SMOLLM2)?).unwrap();
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

#[test]
fn logits_are_those_of_transformers() {
    let Some((_, model)) = smollm2() else { return };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/smollm2_logits.json");
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
fn the_policy_answers_in_english() {
    let Some((file, model)) = smollm2() else { return };
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
