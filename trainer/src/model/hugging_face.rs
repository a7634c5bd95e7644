//! How does `transformers` write down the shape of a policy?

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{Biases, ExpertsConfig, Family, ModelConfig, SlidingWindow, unsupported};
use super::rope::RopeScaling;
use crate::weights::WeightsError;

/// `transformers`' pattern of Gemma 3: every sixth layer looks at everything.
const GEMMA_PATTERN: usize = 6;

/// config.json as Hugging Face writes it. Absent fields have `transformers`' defaults.
#[derive(Deserialize)]
struct HuggingFace {
    model_type: String,
    hidden_act: Option<String>,
    hidden_activation: Option<String>,
    attention_bias: Option<bool>,
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
    rope_local_base_freq: Option<f64>,
    rope_scaling: Option<Value>,
    /// The place of all three since `transformers` 5.
    rope_parameters: Option<Value>,
    rms_norm_eps: f64,
    max_position_embeddings: usize,
    tie_word_embeddings: Option<bool>,
    bos_token_id: Option<u32>,
    eos_token_id: Option<OneOrMany>,
    // Windows.
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    max_window_layers: Option<usize>,
    sliding_window_pattern: Option<usize>,
    layer_types: Option<Vec<String>>,
    // Gemma.
    query_pre_attn_scalar: Option<usize>,
    attn_logit_softcapping: Option<f64>,
    final_logit_softcapping: Option<f64>,
    #[serde(default)]
    use_bidirectional_attention: bool,
    // Experts.
    num_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    moe_intermediate_size: Option<usize>,
    #[serde(default)]
    norm_topk_prob: bool,
    decoder_sparse_step: Option<usize>,
    #[serde(default)]
    mlp_only_layers: Vec<usize>,
}

/// `eos_token_id` may be a list; the first is the end of a turn.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl ModelConfig {
    /// Reads a Hugging Face config.json.
    pub fn from_hugging_face(path: &Path) -> Result<Self, WeightsError> {
        let text = std::fs::read_to_string(path).map_err(WeightsError::io(path))?;
        let wire: HuggingFace =
            serde_json::from_str(&text).map_err(|error| WeightsError::corrupt(path, error.to_string()))?;
        wire.parse(path)
    }

    /// The config.json that `transformers` reads.
    pub fn to_hugging_face(&self) -> Value {
        let act = match self.family {
            Family::Gemma3 => json!({"hidden_activation": "gelu_pytorch_tanh"}),
            _ => json!({"hidden_act": "silu"}),
        };
        let mut value = json!({
            "architectures": [self.family.architecture()],
            "model_type": self.family.model_type(),
            "attention_dropout": 0.0,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_size,
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling.to_hugging_face(),
            "rms_norm_eps": self.rms_norm_eps,
            "max_position_embeddings": self.max_position_embeddings,
            "tie_word_embeddings": self.tie_word_embeddings,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": self.eos_token_id,
            "pad_token_id": self.eos_token_id,
            "initializer_range": 0.02,
            "use_cache": true,
        });
        let mut add = |more: Value| {
            if let (Value::Object(all), Value::Object(more)) = (&mut value, more) {
                all.extend(more);
            }
        };
        add(act);
        match self.family {
            Family::Qwen2 => {}
            Family::Llama => add(json!({
                "attention_bias": self.bias.output, "mlp_bias": self.bias.mlp, "pretraining_tp": 1,
            })),
            _ => add(json!({ "attention_bias": self.bias.output })),
        }
        if let Some(window) = &self.window {
            let kinds: Vec<_> = window.layers.iter().map(|slides| kind(*slides)).collect();
            add(json!({ "sliding_window": window.tokens, "layer_types": kinds }));
            match self.family {
                Family::Gemma3 => add(json!({ "rope_local_base_freq": window.rope_theta })),
                _ => {
                    let first = window.layers.iter().position(|slides| *slides);
                    add(json!({ "use_sliding_window": true, "max_window_layers": first }));
                }
            }
        }
        if self.family == Family::Gemma3 {
            add(json!({
                "query_pre_attn_scalar": self.query_scalar.unwrap_or(self.head_dim),
                "final_logit_softcapping": self.logit_softcap,
            }));
        }
        if let Some(experts) = &self.experts {
            let dense: Vec<_> =
                experts.layers.iter().enumerate().filter(|(_, has)| !**has).map(|(layer, _)| layer).collect();
            add(json!({
                "num_experts": experts.count,
                "num_experts_per_tok": experts.per_token,
                "moe_intermediate_size": experts.intermediate_size,
                "norm_topk_prob": experts.normalised,
                "decoder_sparse_step": 1,
                "mlp_only_layers": dense,
                "output_router_logits": false,
            }));
        }
        value
    }
}

fn kind(slides: bool) -> &'static str {
    if slides { "sliding_attention" } else { "full_attention" }
}

impl HuggingFace {
    fn parse(self, path: &Path) -> Result<ModelConfig, WeightsError> {
        let Some(family) = Family::ALL.into_iter().find(|family| family.model_type() == self.model_type)
        else {
            return Err(unsupported(path, self.model_type));
        };
        let name = family.model_type();
        let refuse = |what: &str| Err(unsupported(path, format!("{name} with {what}")));
        let usual = if family == Family::Gemma3 { "gelu_pytorch_tanh" } else { "silu" };
        let act = self.hidden_activation.as_deref().or(self.hidden_act.as_deref());
        if act.unwrap_or(usual) != usual {
            return refuse(&format!("the activation `{}`", act.unwrap_or_default()));
        }
        // `transformers` reads it and computes without it.
        if self.attn_logit_softcapping.is_some() {
            return refuse("`attn_logit_softcapping`");
        }
        if self.use_bidirectional_attention {
            return refuse("attention to both sides");
        }
        let rope = self.rope(path, family)?;
        let window = self.window(family, rope.local);
        let head_dim = match (self.head_dim, family) {
            (Some(width), _) => width,
            (None, Family::Gemma3) => 256,
            (None, _) => self.hidden_size / self.num_attention_heads.max(1),
        };
        let attention_bias = self.attention_bias.unwrap_or(false);
        let missing = |key: &str| WeightsError::MissingKey {
            path: path.to_owned(),
            key: key.into(),
            expected: "a token id",
        };
        let eos = match &self.eos_token_id {
            Some(OneOrMany::One(id)) => Some(*id),
            Some(OneOrMany::Many(ids)) => ids.first().copied(),
            None => None,
        };
        let eos_token_id = eos.ok_or_else(|| missing("eos_token_id"))?;
        ModelConfig {
            family,
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            num_key_value_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim,
            vocab_size: self.vocab_size,
            bias: Biases {
                qkv: attention_bias || family == Family::Qwen2,
                output: attention_bias && family != Family::Qwen2,
                mlp: self.mlp_bias && family == Family::Llama,
            },
            rope_theta: rope.theta,
            rope_scaling: rope.scaling,
            window,
            query_scalar: match (family, self.query_pre_attn_scalar) {
                (Family::Gemma3, scalar) => Some(scalar.unwrap_or(256)),
                _ => None,
            },
            logit_softcap: self.final_logit_softcapping.filter(|_| family == Family::Gemma3),
            experts: self.experts(family),
            rms_norm_eps: self.rms_norm_eps,
            max_position_embeddings: self.max_position_embeddings,
            tie_word_embeddings: self.tie_word_embeddings.unwrap_or(family == Family::Gemma3),
            // Qwen's models have none; nothing begins with it then.
            bos_token_id: match (self.bos_token_id, family) {
                (Some(id), _) => id,
                (None, Family::Qwen2 | Family::Qwen3 | Family::Qwen3Moe) => eos_token_id,
                (None, _) => return Err(missing("bos_token_id")),
            },
            eos_token_id,
        }
        .checked(path)
    }

    /// Bases and scaling of the rotary embedding, from wherever the version of `transformers` has them.
    fn rope(&self, path: &Path, family: Family) -> Result<Rope, WeightsError> {
        let parameters = self.rope_parameters.clone().unwrap_or_default();
        let gemma = family == Family::Gemma3;
        // Gemma has a set for each kind of layer.
        let (full, local) = match gemma && parameters.get(kind(false)).is_some() {
            true => (parameters[kind(false)].clone(), parameters[kind(true)].clone()),
            false => (parameters, Value::Null),
        };
        let theta = self.rope_theta.or(full["rope_theta"].as_f64());
        let scaling = match &self.rope_scaling {
            Some(scaling) if !scaling.is_null() => scaling,
            _ => &full,
        };
        let scaling = RopeScaling::from_hugging_face(scaling, self.max_position_embeddings)
            .map_err(|what| unsupported(path, format!("{} with {what}", family.model_type())))?;
        let local = self.rope_local_base_freq.or(local["rope_theta"].as_f64());
        Ok(Rope {
            theta: theta.unwrap_or(if gemma { 1_000_000.0 } else { 10_000.0 }),
            scaling,
            local: gemma.then_some(local.unwrap_or(10_000.0)),
        })
    }

    fn window(&self, family: Family, rope_theta: Option<f64>) -> Option<SlidingWindow> {
        let layers = self.num_hidden_layers;
        let named =
            self.layer_types.as_ref().map(|kinds| kinds.iter().map(|one| one == kind(true)).collect());
        let (tokens, otherwise): (usize, Vec<bool>) = match family {
            Family::Llama => return None,
            Family::Gemma3 => {
                let pattern = self.sliding_window_pattern.unwrap_or(GEMMA_PATTERN).max(1);
                let slides = (0..layers).map(|layer| !(layer + 1).is_multiple_of(pattern));
                (self.sliding_window.unwrap_or(4_096), slides.collect())
            }
            Family::Qwen2 | Family::Qwen3 | Family::Qwen3Moe => {
                if !self.use_sliding_window.unwrap_or(false) {
                    return None;
                }
                let first = self.max_window_layers.unwrap_or(layers);
                (self.sliding_window?, (0..layers).map(|layer| layer >= first).collect())
            }
        };
        let layers: Vec<bool> = named.unwrap_or(otherwise);
        layers.contains(&true).then_some(SlidingWindow { tokens, layers, rope_theta })
    }

    fn experts(&self, family: Family) -> Option<ExpertsConfig> {
        if family != Family::Qwen3Moe {
            return None;
        }
        let step = self.decoder_sparse_step.unwrap_or(1);
        let has = |layer: usize| {
            !self.mlp_only_layers.contains(&layer) && step > 0 && (layer + 1).is_multiple_of(step)
        };
        Some(ExpertsConfig {
            count: self.num_experts.unwrap_or(128),
            per_token: self.num_experts_per_tok.unwrap_or(8),
            intermediate_size: self.moe_intermediate_size.unwrap_or(768),
            normalised: self.norm_topk_prob,
            layers: (0..self.num_hidden_layers).map(has).collect(),
        })
    }
}

struct Rope {
    theta: f64,
    scaling: RopeScaling,
    /// Base in the layers with a window.
    local: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::{tiny, tiny_of};
    use super::*;
    use expect_test::{Expect, expect};

    fn read(value: &Value) -> Result<ModelConfig, WeightsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, value.to_string()).unwrap();
        ModelConfig::from_hugging_face(&path)
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(read(&tiny().to_hugging_face()).unwrap(), tiny());
        for family in Family::ALL {
            assert_eq!(read(&tiny_of(family).to_hugging_face()).unwrap(), tiny_of(family));
        }
        for scaling in [
            RopeScaling::Linear { factor: 4.0 },
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64.0 },
            RopeScaling::Yarn {
                factor: 4.0,
                original: 32.0,
                fast: 32.0,
                slow: 1.0,
                attention: None,
                truncate: true,
            },
        ] {
            let config = ModelConfig { rope_scaling: scaling, ..tiny() };
            assert_eq!(read(&config.to_hugging_face()).unwrap(), config);
        }
    }

    #[test]
    fn both_spellings_of_the_rotary_base_and_of_eos_are_read() {
        let mut value = tiny().to_hugging_face();
        value["rope_theta"] = Value::Null;
        value["rope_parameters"] = json!({ "rope_type": "default", "rope_theta": 10_000.0 });
        value["eos_token_id"] = json!([2, 7]);
        assert_eq!(read(&value).unwrap(), tiny());
        let mut value = tiny_of(Family::Gemma3).to_hugging_face();
        value["rope_theta"] = Value::Null;
        value["rope_local_base_freq"] = Value::Null;
        value["rope_parameters"] = json!({
            "full_attention": { "rope_type": "default", "rope_theta": 10_000.0 },
            "sliding_attention": { "rope_type": "default", "rope_theta": 1_000.0 },
        });
        assert_eq!(read(&value).unwrap(), tiny_of(Family::Gemma3));
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
            json!("mamba"),
            expect![
                "config.json` holds a `mamba` model; `llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models are supported"
            ],
        );
        check(
            "hidden_act",
            json!("relu"),
            expect![
                "config.json` holds a `llama with the activation `relu`` model; `llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models are supported"
            ],
        );
        check(
            "rope_scaling",
            json!({ "rope_type": "longrope" }),
            expect![
                "config.json` holds a `llama with RoPE scaling `longrope`` model; `llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models are supported"
            ],
        );
        check(
            "rope_scaling",
            json!({ "rope_type": "llama3", "factor": 8.0 }),
            expect![
                "config.json` holds a `llama with RoPE scaling `llama3` without a number `low_freq_factor`` model; `llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models are supported"
            ],
        );
        check(
            "rope_scaling",
            json!({ "rope_type": "linear", "factor": 0.0 }),
            expect!["config.json` is corrupt: its RoPE scaling has factor 0 over 1 tokens"],
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
