//! What shape does a policy have?

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::weights::{Metadata, WeightsError};

/// The shape of a decoder-only transformer of the Llama family.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    /// Width of one head; not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    pub vocab_size: usize,
    /// Base of the rotary position embedding.
    pub rope_theta: f64,
    pub rms_norm_eps: f64,
    /// Longest context that the policy was trained for, in tokens.
    pub max_position_embeddings: usize,
    /// Whether the head is the transposed embedding.
    pub tie_word_embeddings: bool,
    pub bos_token_id: u32,
    pub eos_token_id: u32,
}

/// Low-rank adaptation (Hu et al. 2021, arXiv:2106.09685) of q, k, v, o, gate, up and down:
/// `y = xW + (alpha / rank) · (xA)B`, with `W` frozen.
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
}

impl LoraConfig {
    /// The factor of the low-rank term.
    pub fn scale(&self) -> f64 {
        f64::from(self.alpha) / self.rank as f64
    }
}

impl ModelConfig {
    /// Reads a Hugging Face config.json.
    pub fn from_hugging_face(path: &Path) -> Result<Self, WeightsError> {
        let text = std::fs::read_to_string(path).map_err(WeightsError::io(path))?;
        let wire: HuggingFace =
            serde_json::from_str(&text).map_err(|error| WeightsError::corrupt(path, error.to_string()))?;
        wire.parse(path)
    }

    /// Reads a GGUF file's metadata. `tied` says that the file has no head of its own.
    pub fn from_gguf(metadata: &Metadata, tied: bool) -> Result<Self, WeightsError> {
        let count = |key: &str| metadata.count(&format!("llama.{key}"));
        let number = |key: &str| metadata.number(&format!("llama.{key}"));
        let or = |key: &str, value: usize| {
            if metadata.has(&format!("llama.{key}")) { count(key) } else { Ok(value) }
        };
        let num_attention_heads = count("attention.head_count")?;
        let hidden_size = count("embedding_length")?;
        let head_dim = or("attention.key_length", hidden_size / num_attention_heads.max(1))?;
        let config = Self {
            hidden_size,
            intermediate_size: count("feed_forward_length")?,
            num_hidden_layers: count("block_count")?,
            num_attention_heads,
            num_key_value_heads: or("attention.head_count_kv", num_attention_heads)?,
            head_dim,
            vocab_size: metadata.texts("tokenizer.ggml.tokens")?.len(),
            rope_theta: if metadata.has("llama.rope.freq_base") {
                number("rope.freq_base")?
            } else {
                10_000.0
            },
            // The file holds an f32, and 1e-5 as f32 is not the 1e-5 that the model was trained with.
            rms_norm_eps: shortest(number("attention.layer_norm_rms_epsilon")?),
            max_position_embeddings: count("context_length")?,
            tie_word_embeddings: tied,
            bos_token_id: metadata.id("tokenizer.ggml.bos_token_id")?,
            eos_token_id: metadata.id("tokenizer.ggml.eos_token_id")?,
        };
        if or("rope.dimension_count", head_dim)? != head_dim {
            return Err(unsupported(metadata.path(), "llama with rotary embedding of a part of each head"));
        }
        if metadata.has("llama.rope.scaling.type") && metadata.text("llama.rope.scaling.type")? != "none" {
            return Err(unsupported(metadata.path(), "llama with RoPE scaling"));
        }
        config.checked(metadata.path())
    }

    /// The config.json that `transformers` reads.
    pub fn to_hugging_face(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": false,
            "attention_dropout": 0.0,
            "mlp_bias": false,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_size,
            "rope_theta": self.rope_theta,
            "rope_scaling": null,
            "rms_norm_eps": self.rms_norm_eps,
            "max_position_embeddings": self.max_position_embeddings,
            "tie_word_embeddings": self.tie_word_embeddings,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": self.eos_token_id,
            "pad_token_id": self.eos_token_id,
            "initializer_range": 0.02,
            "pretraining_tp": 1,
            "use_cache": true,
        })
    }

    /// Query heads that share one key and value head.
    pub fn query_group(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// Refuses shapes that cannot be computed, so that no later room meets them.
    fn checked(self, path: &Path) -> Result<Self, WeightsError> {
        let reason = if self.hidden_size == 0
            || self.intermediate_size == 0
            || self.num_hidden_layers == 0
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
        } else {
            return Ok(self);
        };
        Err(WeightsError::corrupt(path, reason))
    }
}

/// The shortest decimal that reads as the same f32.
fn shortest(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}

fn unsupported(path: &Path, found: impl Into<String>) -> WeightsError {
    WeightsError::UnsupportedModel {
        path: path.to_owned(),
        found: found.into(),
        known: "`llama` models (SmolLM2, Llama without RoPE scaling)",
    }
}

/// config.json as Hugging Face writes it. Absent fields have `transformers`' defaults.
#[derive(Deserialize)]
struct HuggingFace {
    model_type: String,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    rope_theta: Option<f64>,
    rope_scaling: Option<Value>,
    /// The place of both since `transformers` 5.
    rope_parameters: Option<Value>,
    rms_norm_eps: f64,
    max_position_embeddings: usize,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    bos_token_id: Option<u32>,
    #[serde(default)]
    eos_token_id: Option<OneOrMany>,
}

/// `eos_token_id` may be a list; the first is the end of a turn.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl HuggingFace {
    fn parse(self, path: &Path) -> Result<ModelConfig, WeightsError> {
        if self.model_type != "llama" {
            return Err(unsupported(path, self.model_type));
        }
        if self.hidden_act.as_deref().unwrap_or("silu") != "silu" || self.attention_bias || self.mlp_bias {
            return Err(unsupported(path, "llama with biases or another activation than SiLU"));
        }
        let rope = self.rope_parameters.unwrap_or_default();
        let kind = |value: &Value| value["rope_type"].as_str().unwrap_or("default") != "default";
        if self.rope_scaling.is_some_and(|scaling| !scaling.is_null()) || kind(&rope) {
            return Err(unsupported(path, "llama with RoPE scaling"));
        }
        let missing = |key: &str| WeightsError::MissingKey {
            path: path.to_owned(),
            key: key.into(),
            expected: "a token id",
        };
        let eos = match self.eos_token_id {
            Some(OneOrMany::One(id)) => Some(id),
            Some(OneOrMany::Many(ids)) => ids.first().copied(),
            None => None,
        };
        ModelConfig {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            num_key_value_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim: self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            vocab_size: self.vocab_size,
            rope_theta: self.rope_theta.or(rope["rope_theta"].as_f64()).unwrap_or(10_000.0),
            rms_norm_eps: self.rms_norm_eps,
            max_position_embeddings: self.max_position_embeddings,
            tie_word_embeddings: self.tie_word_embeddings,
            bos_token_id: self.bos_token_id.ok_or_else(|| missing("bos_token_id"))?,
            eos_token_id: eos.ok_or_else(|| missing("eos_token_id"))?,
        }
        .checked(path)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// A policy small enough for exhaustive tests, with grouped heads and an own head width.
    pub(crate) fn tiny() -> ModelConfig {
        ModelConfig {
            hidden_size: 24,
            intermediate_size: 40,
            num_hidden_layers: 3,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 8,
            vocab_size: 50,
            rope_theta: 10_000.0,
            rms_norm_eps: 1e-5,
            max_position_embeddings: 128,
            tie_word_embeddings: true,
            bos_token_id: 1,
            eos_token_id: 2,
        }
    }

    fn read(value: &Value) -> Result<ModelConfig, WeightsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, value.to_string()).unwrap();
        ModelConfig::from_hugging_face(&path)
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(read(&tiny().to_hugging_face()).unwrap(), tiny());
    }

    #[test]
    fn both_spellings_of_the_rotary_base_and_of_eos_are_read() {
        let mut value = tiny().to_hugging_face();
        value["rope_theta"] = Value::Null;
        value["rope_parameters"] = json!({ "rope_type": "default", "rope_theta": 10_000.0 });
        value["eos_token_id"] = json!([2, 7]);
        assert_eq!(read(&value).unwrap(), tiny());
    }

    #[test]
    fn models_that_would_be_computed_wrongly_are_refused() {
        let check = |key: &str, new: Value, expected: Expect| {
            let mut value = tiny().to_hugging_face();
            value[key] = new;
            let error = read(&value).unwrap_err().to_string();
            let start = error.find("config.json").unwrap_or(0);
            expected.assert_eq(error[start..].lines().next().unwrap_or_default());
        };
        check(
            "model_type",
            json!("qwen3"),
            expect![
                "config.json` holds a `qwen3` model; `llama` models (SmolLM2, Llama without RoPE scaling) are supported"
            ],
        );
        check(
            "attention_bias",
            json!(true),
            expect![
                "config.json` holds a `llama with biases or another activation than SiLU` model; `llama` models (SmolLM2, Llama without RoPE scaling) are supported"
            ],
        );
        check(
            "rope_scaling",
            json!({ "rope_type": "llama3" }),
            expect![
                "config.json` holds a `llama with RoPE scaling` model; `llama` models (SmolLM2, Llama without RoPE scaling) are supported"
            ],
        );
        check(
            "num_key_value_heads",
            json!(3),
            expect!["config.json` is corrupt: 4 attention heads cannot share 3 key and value heads"],
        );
        check(
            "head_dim",
            json!(7),
            expect!["config.json` is corrupt: its head width 7 is not even, as rotary embedding needs"],
        );
        check(
            "eos_token_id",
            json!(99),
            expect!["config.json` is corrupt: its token ids 1 and 99 do not fit its vocabulary of 50"],
        );
    }
}
