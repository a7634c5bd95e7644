//! How does llama.cpp write down the shape of a policy?

use super::config::{Biases, ExpertsConfig, Family, ModelConfig, SlidingWindow, unsupported};
use super::rope::RopeScaling;
use crate::weights::{Metadata, WeightsError};

/// Every sixth layer of Gemma 3 looks at everything; the file does not say so.
const GEMMA_PATTERN: usize = 6;
/// Base of the rotary embedding in the other ones; likewise.
const GEMMA_LOCAL_THETA: f64 = 10_000.0;
/// The 27B model has its own scale of attention; likewise.
const GEMMA_LAYERS_27B: usize = 62;

impl Family {
    /// The family of a GGUF file.
    pub(crate) fn of_gguf(metadata: &Metadata) -> Result<Self, WeightsError> {
        let architecture = metadata.text("general.architecture")?;
        let family = Self::ALL.into_iter().find(|family| family.gguf() == architecture);
        family.ok_or_else(|| unsupported(metadata.path(), architecture))
    }
}

impl ModelConfig {
    /// Reads a GGUF file's metadata. `tied` says that the file has no head of its own.
    pub fn from_gguf(metadata: &Metadata, tied: bool) -> Result<Self, WeightsError> {
        let family = Family::of_gguf(metadata)?;
        let name = family.gguf();
        let key = |key: &str| format!("{name}.{key}");
        let count = |of: &str| metadata.count(&key(of));
        let count_or = |of: &str, value: usize| if metadata.has(&key(of)) { count(of) } else { Ok(value) };
        let number_or = |of: &str, value: f64| {
            if metadata.has(&key(of)) { metadata.number(&key(of)) } else { Ok(value) }
        };
        let num_attention_heads = count("attention.head_count")?;
        let hidden_size = count("embedding_length")?;
        let head_dim = count_or("attention.key_length", hidden_size / num_attention_heads.max(1))?;
        let num_hidden_layers = count("block_count")?;
        let max_position_embeddings = count("context_length")?;
        if count_or("rope.dimension_count", head_dim)? != head_dim {
            let what = format!("{name} with rotary embedding of a part of each head");
            return Err(unsupported(metadata.path(), what));
        }
        let gemma = family == Family::Gemma3;
        let scaling = match metadata.has(&key("rope.scaling.type")) {
            true => metadata.text(&key("rope.scaling.type"))?,
            false => "none",
        };
        let rope_scaling = match scaling {
            "none" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: metadata.number(&key("rope.scaling.factor"))? },
            "yarn" => RopeScaling::Yarn {
                factor: metadata.number(&key("rope.scaling.factor"))?,
                original: number_or("rope.scaling.original_context_length", max_position_embeddings as f64)?,
                fast: 32.0,
                slow: 1.0,
                attention: None,
                truncate: true,
            },
            other => {
                return Err(unsupported(metadata.path(), format!("{name} with RoPE scaling `{other}`")));
            }
        };
        let window = gemma.then(|| -> Result<_, WeightsError> {
            Ok(SlidingWindow {
                tokens: count("attention.sliding_window")?,
                layers: (0..num_hidden_layers)
                    .map(|layer| !(layer + 1).is_multiple_of(GEMMA_PATTERN))
                    .collect(),
                rope_theta: Some(GEMMA_LOCAL_THETA),
            })
        });
        let experts = (family == Family::Qwen3Moe).then(|| -> Result<_, WeightsError> {
            Ok(ExpertsConfig {
                count: count("expert_count")?,
                per_token: count("expert_used_count")?,
                intermediate_size: count("expert_feed_forward_length")?,
                normalised: true,
                layers: vec![true; num_hidden_layers],
            })
        });
        let eos_token_id = metadata.id("tokenizer.ggml.eos_token_id")?;
        Self {
            family,
            hidden_size,
            intermediate_size: count("feed_forward_length")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: count_or("attention.head_count_kv", num_attention_heads)?,
            head_dim,
            vocab_size: metadata.texts("tokenizer.ggml.tokens")?.len(),
            bias: Biases { qkv: family == Family::Qwen2, ..Biases::default() },
            rope_theta: number_or("rope.freq_base", if gemma { 1_000_000.0 } else { 10_000.0 })?,
            rope_scaling,
            window: window.transpose()?,
            query_scalar: gemma.then_some(match num_hidden_layers {
                GEMMA_LAYERS_27B => hidden_size / num_attention_heads.max(1),
                _ => head_dim,
            }),
            logit_softcap: None,
            experts: experts.transpose()?,
            // The file holds an f32, and 1e-5 as f32 is not the 1e-5 that the model was trained with.
            rms_norm_eps: shortest(metadata.number(&key("attention.layer_norm_rms_epsilon"))?),
            max_position_embeddings,
            tie_word_embeddings: tied,
            bos_token_id: match metadata.has("tokenizer.ggml.bos_token_id") {
                true => metadata.id("tokenizer.ggml.bos_token_id")?,
                false => eos_token_id,
            },
            eos_token_id,
        }
        .checked(metadata.path())
    }
}

/// The shortest decimal that reads as the same f32.
fn shortest(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}
