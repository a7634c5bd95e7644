//! What shape does a policy have?

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::rope::RopeScaling;
use super::targets::LoraTargets;
use crate::weights::WeightsError;

/// Which `transformers` architecture computes a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama 2 and 3, SmolLM2.
    Llama,
    /// Qwen2 and 2.5: biases on q, k and v.
    Qwen2,
    /// Norms of each query and key head.
    Qwen3,
    /// The same with a mixture of experts in place of the feed-forward network.
    Qwen3Moe,
    /// Gemma 3 for text: norms before and after each half of a layer, local and global attention.
    Gemma3,
}

impl Family {
    pub const ALL: [Self; 5] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Qwen3Moe, Self::Gemma3];
    /// For error messages.
    pub(crate) const KNOWN: &'static str =
        "`llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models";

    /// `model_type` in a config.json.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3_moe",
            Self::Gemma3 => "gemma3_text",
        }
    }

    /// `general.architecture` in a GGUF file.
    pub fn gguf(self) -> &'static str {
        match self {
            Self::Qwen3Moe => "qwen3moe",
            Self::Gemma3 => "gemma3",
            other => other.model_type(),
        }
    }

    /// The class of `transformers`.
    pub(super) fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen3Moe => "Qwen3MoeForCausalLM",
            Self::Gemma3 => "Gemma3ForCausalLM",
        }
    }
}

/// The shape of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub family: Family,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    /// Width of one head; not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    pub vocab_size: usize,
    /// Which projections add a bias.
    pub bias: Biases,
    /// Base of the rotary position embedding.
    pub rope_theta: f64,
    /// How a longer context than the one of pre-training is reached.
    pub rope_scaling: RopeScaling,
    /// Layers that look at the newest tokens only.
    pub window: Option<SlidingWindow>,
    /// Attention scores are divided by its root; the width of a head unless given.
    pub query_scalar: Option<usize>,
    /// Logits `x` become `cap · tanh(x / cap)`.
    pub logit_softcap: Option<f64>,
    pub experts: Option<ExpertsConfig>,
    pub rms_norm_eps: f64,
    /// Longest context that the policy was trained for, in tokens.
    pub max_position_embeddings: usize,
    /// Whether the head is the transposed embedding.
    pub tie_word_embeddings: bool,
    pub bos_token_id: u32,
    pub eos_token_id: u32,
}

/// Which projections add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    pub qkv: bool,
    pub output: bool,
    pub mlp: bool,
}

/// Attention to the newest tokens only, in some layers.
#[derive(Clone, Debug, PartialEq)]
pub struct SlidingWindow {
    /// Tokens that a token looks at, itself among them.
    pub tokens: usize,
    /// For each layer whether it has the window.
    pub layers: Vec<bool>,
    /// Base of the rotary embedding in those layers, which no scaling changes; none for that of all.
    pub rope_theta: Option<f64>,
}

/// A mixture of experts (Shazeer et al. 2017, arXiv:1701.06538).
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertsConfig {
    pub count: usize,
    /// Experts that each token uses.
    pub per_token: usize,
    /// Inner width of an expert.
    pub intermediate_size: usize,
    /// Whether the weights of a token's experts are made to add up to 1.
    pub normalised: bool,
    /// For each layer whether it has experts.
    pub layers: Vec<bool>,
}

/// Low-rank adaptation (Hu et al. 2021, arXiv:2106.09685) of linear maps of a policy:
/// `y = xW + (alpha / rank) · (xA)B`, with `W` frozen. The product `AB` is never made while training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// Width of the bottleneck.
    pub rank: usize,
    /// Numerator of the scale.
    pub alpha: f32,
    /// Layers below this one have no adapter, and no gradient flows through them.
    #[serde(default)]
    pub first_layer: usize,
    /// Which linear maps of a layer have one.
    #[serde(default, skip_serializing_if = "LoraTargets::is_usual")]
    pub targets: LoraTargets,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 8, alpha: 16.0, first_layer: 0, targets: LoraTargets::default() }
    }
}

impl LoraConfig {
    /// The factor of the low-rank term.
    pub fn scale(&self) -> f64 {
        f64::from(self.alpha) / self.rank as f64
    }
}

impl ModelConfig {
    /// A Llama of the given shape, with the usual values elsewhere: a start for others.
    pub fn llama(
        hidden_size: usize,
        intermediate_size: usize,
        layers: usize,
        heads: [usize; 2],
        vocab_size: usize,
    ) -> Self {
        let head_dim = hidden_size / heads[0].max(1);
        Self {
            family: Family::Llama,
            hidden_size,
            intermediate_size,
            num_hidden_layers: layers,
            num_attention_heads: heads[0],
            num_key_value_heads: heads[1],
            head_dim,
            vocab_size,
            bias: Biases::default(),
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            window: None,
            query_scalar: None,
            logit_softcap: None,
            experts: None,
            rms_norm_eps: 1e-5,
            max_position_embeddings: 2048,
            tie_word_embeddings: true,
            bos_token_id: 1,
            eos_token_id: 2,
        }
    }

    /// Query heads that share one key and value head.
    pub fn query_group(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// What attention scores are multiplied by.
    pub(crate) fn attention_scale(&self) -> f64 {
        (self.query_scalar.unwrap_or(self.head_dim) as f64).powf(-0.5)
    }

    /// Whether queries and keys are normalised, head by head, before they are turned.
    pub(crate) fn head_norms(&self) -> bool {
        matches!(self.family, Family::Qwen3 | Family::Qwen3Moe | Family::Gemma3)
    }

    /// What is added to the weight of each norm.
    pub(crate) fn norm_offset(&self) -> f64 {
        if self.family == Family::Gemma3 { 1.0 } else { 0.0 }
    }

    /// What embeddings are multiplied by.
    pub(crate) fn embedding_scale(&self) -> f64 {
        if self.family == Family::Gemma3 { (self.hidden_size as f64).sqrt() } else { 1.0 }
    }

    /// Whether the gate of the feed-forward network is GELU, by its approximation with tanh, and not SiLU.
    pub(crate) fn gelu(&self) -> bool {
        self.family == Family::Gemma3
    }

    /// Whether what each half of a layer gives is normalised too.
    pub(crate) fn output_norms(&self) -> bool {
        self.family == Family::Gemma3
    }

    /// Whether the layer looks at the newest tokens only.
    pub(crate) fn slides(&self, layer: usize) -> bool {
        self.window.as_ref().is_some_and(|window| window.layers[layer])
    }

    /// How many of the newest tokens a layer looks at.
    pub(crate) fn window_of(&self, layer: usize) -> usize {
        let window = self.window.as_ref().filter(|window| window.layers[layer]);
        window.map_or(usize::MAX, |window| window.tokens)
    }

    /// The experts of a layer.
    pub(crate) fn experts_of(&self, layer: usize) -> Option<&ExpertsConfig> {
        self.experts.as_ref().filter(|experts| experts.layers[layer])
    }

    /// Refuses shapes that cannot be computed, so that no later room meets them.
    pub(super) fn checked(self, path: &Path) -> Result<Self, WeightsError> {
        let experts = self.experts.as_ref();
        let layers = self.num_hidden_layers;
        let reason = if self.hidden_size == 0
            || self.intermediate_size == 0
            || layers == 0
            || self.vocab_size == 0
            || self.max_position_embeddings == 0
        {
            "a size in its configuration is 0".to_string()
        } else if self.num_key_value_heads == 0
            || !self.num_attention_heads.is_multiple_of(self.num_key_value_heads)
        {
            format!(
                "{} attention heads cannot share {} key and value heads",
                self.num_attention_heads, self.num_key_value_heads
            )
        } else if self.head_dim == 0 || !self.head_dim.is_multiple_of(2) {
            format!("its head width {} is not even, as rotary embedding needs", self.head_dim)
        } else if !(self.rms_norm_eps > 0.0 && self.rope_theta > 1.0) {
            format!("its `rms_norm_eps` is {} and `rope_theta` is {}", self.rms_norm_eps, self.rope_theta)
        } else if self.bos_token_id.max(self.eos_token_id) as usize >= self.vocab_size {
            let (bos, eos) = (self.bos_token_id, self.eos_token_id);
            format!("its token ids {bos} and {eos} do not fit its vocabulary of {}", self.vocab_size)
        } else if let Some(window) =
            self.window.as_ref().filter(|window| window.tokens == 0 || window.layers.len() != layers)
        {
            format!(
                "its window of {} tokens is told for {} of its {layers} layers",
                window.tokens,
                window.layers.len()
            )
        } else if let Some(experts) = experts.filter(|experts| {
            !(1..=experts.count).contains(&experts.per_token)
                || experts.intermediate_size == 0
                || experts.layers.len() != layers
        }) {
            format!("a token cannot use {} of its {} experts", experts.per_token, experts.count)
        } else if let Some(reason) = self.rope_scaling.fault() {
            reason
        } else {
            return Ok(self);
        };
        Err(WeightsError::corrupt(path, reason))
    }
}

pub(super) fn unsupported(path: &Path, found: impl Into<String>) -> WeightsError {
    WeightsError::UnsupportedModel { path: path.to_owned(), found: found.into(), known: Family::KNOWN }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A policy small enough for exhaustive tests, with grouped heads and an own head width.
    pub(crate) fn tiny() -> ModelConfig {
        ModelConfig { head_dim: 8, max_position_embeddings: 128, ..ModelConfig::llama(24, 40, 3, [4, 2], 50) }
    }

    /// The same as a member of each family, with everything that the family can have.
    pub(crate) fn tiny_of(family: Family) -> ModelConfig {
        let base = ModelConfig { family, ..tiny() };
        match family {
            Family::Llama => ModelConfig { bias: Biases { qkv: true, output: true, mlp: true }, ..base },
            Family::Qwen2 => ModelConfig { bias: Biases { qkv: true, ..Biases::default() }, ..base },
            Family::Qwen3 => base,
            Family::Qwen3Moe => ModelConfig {
                experts: Some(ExpertsConfig {
                    count: 4,
                    per_token: 2,
                    intermediate_size: 16,
                    normalised: true,
                    layers: vec![true, false, true],
                }),
                ..base
            },
            Family::Gemma3 => ModelConfig {
                window: Some(SlidingWindow {
                    tokens: 3,
                    layers: vec![true, false, true],
                    rope_theta: Some(1_000.0),
                }),
                query_scalar: Some(16),
                logit_softcap: Some(10.0),
                ..base
            },
        }
    }
}
