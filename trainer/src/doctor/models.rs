//! Which whole computations are examined?

use super::{Case, Place};
use crate::generate::replayed_logits;
use crate::learner::{Learner, LearnerConfig, Sample};
use crate::model::{
    Biases, CausalLm, ComputeType, ExpertsConfig, Family, LoraConfig, ModelConfig, SlidingWindow,
};
use burn::tensor::DType;

pub(super) const CASES: &[Case] = &[
    ("Llama: log-probabilities and a step of AdamW", |place| learn(place, llama(), None)),
    ("Qwen2: log-probabilities and a step of AdamW", |place| learn(place, qwen2(), None)),
    ("Qwen3: log-probabilities and a step of AdamW", |place| learn(place, qwen3(), None)),
    ("Qwen3-MoE: log-probabilities and a step of AdamW", |place| learn(place, experts(), None)),
    ("Gemma 3: log-probabilities and a step of AdamW", |place| learn(place, gemma3(), None)),
    ("Llama with LoRA: log-probabilities and a step of AdamW", |place| {
        learn(
            place,
            llama(),
            Some(LoraConfig { rank: 4, alpha: 8.0, first_layer: 1, ..LoraConfig::default() }),
        )
    }),
    ("Llama: reading and decoding with a cache", |place| generate(place, llama())),
    ("Qwen2: reading and decoding with a cache", |place| generate(place, qwen2())),
    ("Qwen3: reading and decoding with a cache", |place| generate(place, qwen3())),
    ("Gemma 3: reading and decoding with a cache", |place| generate(place, gemma3())),
];

fn llama() -> ModelConfig {
    ModelConfig { max_position_embeddings: 1024, ..ModelConfig::llama(96, 160, 3, [6, 2], 130) }
}

fn qwen2() -> ModelConfig {
    let bias = Biases { qkv: true, ..Biases::default() };
    ModelConfig { family: Family::Qwen2, bias, tie_word_embeddings: false, ..llama() }
}

fn qwen3() -> ModelConfig {
    ModelConfig { family: Family::Qwen3, head_dim: 32, ..llama() }
}

fn experts() -> ModelConfig {
    let layers = vec![true, false, true];
    let experts = ExpertsConfig { count: 4, per_token: 2, intermediate_size: 64, normalised: true, layers };
    ModelConfig { family: Family::Qwen3Moe, experts: Some(experts), ..llama() }
}

fn gemma3() -> ModelConfig {
    let layers = vec![true, false, true];
    let window = SlidingWindow { tokens: 8, layers, rope_theta: Some(1_000.0) };
    ModelConfig { family: Family::Gemma3, window: Some(window), logit_softcap: Some(10.0), ..llama() }
}

/// The weights, rounded to bf16 for both sides.
fn policy(place: &Place, config: ModelConfig) -> CausalLm {
    let compute = if place.dtype == DType::BF16 { ComputeType::Bf16 } else { ComputeType::F32 };
    let model = CausalLm::random(config, 5, &place.device);
    model.computing_in(ComputeType::Bf16).computing_in(compute)
}

fn sequences() -> Vec<Vec<u32>> {
    let sequence =
        |seed: u32, length: u32| (0..length).map(|at| (at * at * 7 + at * 31 + seed * 17) % 130).collect();
    vec![sequence(1, 60), sequence(2, 41), sequence(3, 26)]
}

/// Log-probabilities before and after a step: the second ones depend on gradients and optimizer.
fn learn(place: &Place, config: ModelConfig, lora: Option<LoraConfig>) -> Vec<f32> {
    let model = policy(place, config);
    let model = match lora {
        Some(lora) => model.with_lora(lora, 3),
        None => model,
    };
    let settings = LearnerConfig { learning_rate: 1e-3, pad_to_multiple_of: 8, ..LearnerConfig::default() };
    let samples: Vec<Sample> = sequences()
        .into_iter()
        .map(|ids| {
            let mask = (0..ids.len()).map(|at| at > 4 && at % 5 != 0).collect();
            Sample::demonstration(ids, mask)
        })
        .collect();
    let fault = |reason: String| -> ! { panic!("{reason}") };
    let mut learner = Learner::new(model, settings).unwrap_or_else(|error| fault(error.to_string()));
    let logprobs = |learner: &Learner| match learner.logprobs(&samples) {
        Ok(all) => all.concat(),
        Err(error) => fault(error.to_string()),
    };
    let before = logprobs(&learner);
    match learner.supervised_step(&samples) {
        Ok(report) => {
            if let Some(reason) = report.skipped {
                fault(reason);
            }
            let after = logprobs(&learner);
            let norms = [report.grad_norm as f32, report.loss as f32];
            [before, norms.to_vec(), after].concat()
        }
        Err(error) => fault(error.to_string()),
    }
}

fn generate(place: &Place, config: ModelConfig) -> Vec<f32> {
    replayed_logits(&policy(place, config), &sequences())
}
