//! Which whole computations are examined?

use super::{Case, Place};
use crate::generate::{Generator, GeneratorConfig, SampleRequest, replayed_logits};
use crate::learner::{Learner, LearnerConfig, Sample};
use crate::model::{
    Biases, CausalLm, ComputeType, ExpertsConfig, Family, LoraConfig, LoraTargets, ModelConfig, SlidingWindow,
};
use burn::tensor::DType;

pub(super) const CASES: &[Case] = &[
    ("Llama: log-probabilities and a step of AdamW", |place| learn(place, llama(), None)),
    ("Llama with heads of 64: log-probabilities and a step of AdamW", |place| {
        learn(place, ModelConfig { head_dim: 64, vocab_size: 132, ..llama() }, None)
    }),
    ("Qwen2 with heads of 128: log-probabilities and a step of AdamW", |place| {
        learn(place, ModelConfig { head_dim: 128, ..qwen2() }, None)
    }),
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
    ("Llama with a trained LoRA on some maps: log-probabilities and a step of AdamW", some_maps),
    ("Llama: a policy step with entropy bonus and temperature", policy_step),
    ("Llama: log-probabilities of sampled tokens", sampled),
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
    vec![sequence(1, 150), sequence(2, 41), sequence(3, 26)]
}

/// Log-probabilities before and after a step: the second ones depend on gradients and optimizer.
fn learn(place: &Place, config: ModelConfig, lora: Option<LoraConfig>) -> Vec<f32> {
    let model = policy(place, config);
    let model = match lora {
        Some(lora) => model.with_lora(lora, 3),
        None => model,
    };
    learn_with(model)
}

/// An adapter on a middle part of one projection and on the last of another, whose factors are all random.
fn some_maps(place: &Place) -> Vec<f32> {
    let fault = |reason: String| -> ! { panic!("{reason}") };
    let targets = LoraTargets::named(["k_proj", "up_proj"]);
    let targets = targets.unwrap_or_else(|error| fault(error.to_string()));
    let lora = LoraConfig { rank: 4, alpha: 8.0, targets, ..LoraConfig::default() };
    let base = policy(place, llama());
    learn_with(base.with_drawn_lora(lora).unwrap_or_else(|error| fault(error.to_string())))
}

fn learn_with(model: CausalLm) -> Vec<f32> {
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

/// A policy step whose samples come from the policy itself, so that no ratio is near a clip.
fn policy_step(place: &Place) -> Vec<f32> {
    let settings = LearnerConfig {
        learning_rate: 1e-3,
        pad_to_multiple_of: 8,
        temperature: 0.7,
        entropy_bonus: 0.05,
        ..LearnerConfig::default()
    };
    let fault = |reason: String| -> ! { panic!("{reason}") };
    let learner = Learner::new(policy(place, llama()), settings);
    let mut learner = learner.unwrap_or_else(|error| fault(error.to_string()));
    let masks = |ids: &[u32]| (0..ids.len()).map(|at| at > 4 && at % 5 != 0).collect::<Vec<bool>>();
    let plain: Vec<Sample> = sequences()
        .into_iter()
        .map(|ids| {
            let mask = masks(&ids);
            Sample::demonstration(ids, mask)
        })
        .collect();
    let before = learner.logprobs(&plain).unwrap_or_else(|error| fault(error.to_string()));
    let samples: Vec<Sample> = sequences()
        .into_iter()
        .zip(&before)
        .zip([0.5, -1.0, 0.25])
        .map(|((ids, logprobs), advantage)| {
            let mask = masks(&ids);
            Sample::new(ids, mask, logprobs.clone(), advantage)
        })
        .collect();
    let report = learner.policy_step(&samples).unwrap_or_else(|error| fault(error.to_string()));
    if let Some(reason) = report.skipped {
        fault(reason);
    }
    let after = learner.logprobs(&plain).unwrap_or_else(|error| fault(error.to_string()));
    let numbers = [report.grad_norm as f32, report.entropy as f32];
    [before.concat(), numbers.to_vec(), after.concat()].concat()
}

/// For some replies, e to the mean difference of the log-probabilities that the generator and the learner give their
/// tokens: all near 1. Drawn at temperature 1, at 0.7, and the likeliest.
fn sampled(place: &Place) -> Vec<f32> {
    let fault = |reason: String| -> ! { panic!("{reason}") };
    let model = policy(place, llama());
    let mut all = Vec::new();
    for temperature in [1.0, 0.7, 0.0] {
        let slots = GeneratorConfig { slots: 4, context: 128 };
        let generator = Generator::spawn(model.clone(), 0, slots);
        let learned = if temperature > 0.0 { temperature } else { 1.0 };
        let settings = LearnerConfig { temperature: learned, ..LearnerConfig::default() };
        let learner = Learner::new(model.clone(), settings);
        let learner = learner.unwrap_or_else(|error| fault(error.to_string()));
        for seed in 0..2 {
            let prompt = sequences()[2].clone();
            let request = SampleRequest {
                append: prompt.clone(),
                max_tokens: 40,
                temperature,
                seed,
                ..SampleRequest::default()
            };
            let sequence = generator.open().unwrap_or_else(|error| fault(error.to_string()));
            let sampled = sequence.sample_blocking(request);
            let sampled = sampled.unwrap_or_else(|error| fault(error.to_string()));
            let ids = [prompt.clone(), sampled.ids.clone()].concat();
            let mask = (0..ids.len()).map(|at| at >= prompt.len()).collect();
            let learned = learner.logprobs(&[Sample::demonstration(ids, mask)]);
            let learned = learned.unwrap_or_else(|error| fault(error.to_string()));
            let pairs = sampled.logprobs.iter().zip(&learned[0][prompt.len()..]);
            let difference: f32 = pairs.map(|(sampled, learned)| sampled - learned).sum();
            all.push((difference / sampled.ids.len() as f32).exp());
        }
    }
    all
}

fn generate(place: &Place, config: ModelConfig) -> Vec<f32> {
    replayed_logits(&policy(place, config), &sequences())
}
