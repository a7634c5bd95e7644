//! Where in the text does a token stand? Rotary position embedding.

use std::f64::consts::TAU;

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde_json::{Value, json};

use super::ModelConfig;

/// How the rotary embedding reaches further than it was pre-trained for. Lengths are in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling {
    #[default]
    None,
    /// All angles divided by `factor` (Chen et al. 2023, arXiv:2306.15595).
    Linear { factor: f64 },
    /// Slow components divided by `factor`, fast ones kept, and a slope between (Llama 3.1).
    /// `low` and `high` are the turns within `original` tokens that bound the slope.
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    /// YaRN (Peng et al. 2023, arXiv:2309.00071): the same with a slope over components, and
    /// cosines and sines scaled by `attention`, which follows from `factor` unless given.
    Yarn { factor: f64, original: f64, fast: f64, slow: f64, attention: Option<f64>, truncate: bool },
}

impl RopeScaling {
    /// Reads `rope_scaling` or `rope_parameters`; the error names what is not computed here.
    pub(super) fn from_hugging_face(value: &Value, context: usize) -> Result<Self, String> {
        let kind = value["rope_type"].as_str().or(value["type"].as_str()).unwrap_or("default");
        let number = |key: &str| {
            value[key].as_f64().ok_or_else(|| format!("RoPE scaling `{kind}` without a number `{key}`"))
        };
        let or = |key: &str, usual: f64| value[key].as_f64().unwrap_or(usual);
        let context = context as f64;
        Ok(match kind {
            "default" => Self::None,
            "linear" => Self::Linear { factor: number("factor")? },
            "llama3" => Self::Llama3 {
                factor: number("factor")?,
                low: number("low_freq_factor")?,
                high: number("high_freq_factor")?,
                original: number("original_max_position_embeddings")?,
            },
            "yarn" => {
                let factor = number("factor")?;
                let mscale = |key: &str| value[key].as_f64().filter(|scale| *scale != 0.0);
                let attention =
                    match (value["attention_factor"].as_f64(), mscale("mscale"), mscale("mscale_all_dim")) {
                        (Some(given), ..) => Some(given),
                        (None, Some(one), Some(all)) => {
                            Some(temperature(factor, one) / temperature(factor, all))
                        }
                        _ => None,
                    };
                Self::Yarn {
                    factor,
                    original: or("original_max_position_embeddings", context),
                    fast: or("beta_fast", 32.0),
                    slow: or("beta_slow", 1.0),
                    attention,
                    truncate: value["truncate"].as_bool().unwrap_or(true),
                }
            }
            other => return Err(format!("RoPE scaling `{other}`")),
        })
    }

    /// `rope_scaling` as `transformers` reads it.
    pub(super) fn to_hugging_face(self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
            Self::Llama3 { factor, low, high, original } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": original as u64,
            }),
            Self::Yarn { factor, original, fast, slow, attention, truncate } => {
                let mut value = json!({
                    "rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow,
                    "original_max_position_embeddings": original as u64, "truncate": truncate,
                });
                if let Some(attention) = attention {
                    value["attention_factor"] = json!(attention);
                }
                value
            }
        }
    }

    /// What cannot be computed.
    pub(super) fn fault(self) -> Option<String> {
        let (factor, original) = match self {
            Self::None => return None,
            Self::Linear { factor } => (factor, 1.0),
            Self::Llama3 { factor, low, high, .. } if low >= high => {
                return Some(format!("its RoPE scaling by {factor} is between {low} and {high} turns"));
            }
            Self::Llama3 { factor, original, .. } | Self::Yarn { factor, original, .. } => (factor, original),
        };
        let usable = factor.is_finite() && factor > 0.0 && original >= 1.0;
        (!usable).then(|| format!("its RoPE scaling has factor {factor} over {original} tokens"))
    }

    /// Radians that each pair of components turns with a token, and the factor of cosines and sines.
    fn rates(self, theta: f64, head_dim: usize) -> (Vec<f64>, f64) {
        let width = head_dim as f64;
        let plain = (0..head_dim / 2).map(|pair| theta.powf(-(2.0 * pair as f64) / width));
        match self {
            Self::None => (plain.collect(), 1.0),
            Self::Linear { factor } => (plain.map(|rate| rate / factor).collect(), 1.0),
            Self::Llama3 { factor, low, high, original } => {
                let scaled = plain.map(|rate| {
                    let turns = original * rate / TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - kept) * rate / factor + kept * rate
                });
                (scaled.collect(), 1.0)
            }
            Self::Yarn { factor, original, fast, slow, attention, truncate } => {
                // The component that turns so many times within the original context.
                let component = |turns: f64| width * (original / (turns * TAU)).ln() / (2.0 * theta.ln());
                let (mut first, mut last) = (component(fast), component(slow));
                if truncate {
                    (first, last) = (first.floor(), last.ceil());
                }
                let (first, last) = (first.max(0.0), last.min(width - 1.0));
                let span = if first == last { 0.001 } else { last - first };
                let scaled = plain.enumerate().map(|(pair, rate)| {
                    let slow = ((pair as f64 - first) / span).clamp(0.0, 1.0);
                    rate / factor * slow + rate * (1.0 - slow)
                });
                (scaled.collect(), attention.unwrap_or_else(|| temperature(factor, 1.0)))
            }
        }
    }
}

/// YaRN's factor of the attention's temperature.
fn temperature(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
}

/// Cosines and sines of every position (Su et al. 2021, arXiv:2104.09864).
#[derive(Clone, Debug)]
pub(crate) struct RotaryTable {
    /// `[positions, head_dim / 2]`, as `sin`.
    cos: Tensor<2>,
    sin: Tensor<2>,
}

/// The rotation of the tokens of one batch.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    /// `[batch or 1, tokens, 1, head_dim / 2]`, as `sin`.
    cos: Tensor<4>,
    sin: Tensor<4>,
}

impl RotaryTable {
    /// The table for positions `0..length` of layers that look at everything.
    pub fn new(config: &ModelConfig, length: usize, device: &Device) -> Self {
        Self::of(config.rope_scaling, config.rope_theta, config.head_dim, length, device)
    }

    /// The same for layers with a window, where it differs.
    pub fn local(config: &ModelConfig, length: usize, device: &Device) -> Option<Self> {
        let theta = config.window.as_ref()?.rope_theta?;
        Some(Self::of(RopeScaling::None, theta, config.head_dim, length, device))
    }

    fn of(scaling: RopeScaling, theta: f64, head_dim: usize, length: usize, device: &Device) -> Self {
        let half = head_dim / 2;
        let mut cos = Vec::with_capacity(length * half);
        let mut sin = Vec::with_capacity(length * half);
        // In f64: an f32 angle at position 8,000 is already off by 1e-4.
        let (rates, factor) = scaling.rates(theta, head_dim);
        for position in 0..length {
            for rate in &rates {
                let angle = position as f64 * rate;
                cos.push((angle.cos() * factor) as f32);
                sin.push((angle.sin() * factor) as f32);
            }
        }
        let tensor = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [length, half]), device);
        Self { cos: tensor(cos), sin: tensor(sin) }
    }

    /// Cosines and sines, `[positions, head_dim / 2]`.
    #[cfg(feature = "cuda")]
    pub fn tables(&self) -> [Tensor<2>; 2] {
        [self.cos.clone(), self.sin.clone()]
    }

    /// The rotation of tokens at positions `0..`, the same in every row of a batch.
    pub fn all(self) -> Rotation {
        let [length, half] = self.cos.dims();
        Rotation { cos: self.cos.reshape([1, length, 1, half]), sin: self.sin.reshape([1, length, 1, half]) }
    }

    /// The rotation of tokens at `positions`, `[rows · tokens]` in row-major order.
    pub fn at(&self, positions: Tensor<1, Int>, rows: usize, tokens: usize) -> Rotation {
        let half = self.cos.dims()[1];
        let pick =
            |table: &Tensor<2>| table.clone().select(0, positions.clone()).reshape([rows, tokens, 1, half]);
        Rotation { cos: pick(&self.cos), sin: pick(&self.sin) }
    }
}

impl Rotation {
    /// Cosines and sines, `[batch or 1, tokens, 1, head_dim / 2]`.
    #[cfg(feature = "cuda")]
    pub fn tables(&self) -> [Tensor<4>; 2] {
        [self.cos.clone(), self.sin.clone()]
    }

    /// Rotates `[batch, tokens, heads, head_dim]`. Component `j` pairs with `j + head_dim / 2`,
    /// which is Hugging Face's order.
    pub fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let half = x.dims()[3] / 2;
        let dtype = x.dtype();
        let (cos, sin) = (self.cos.clone().cast(dtype), self.sin.clone().cast(dtype));
        let first = x.clone().narrow(3, 0, half);
        let second = x.narrow(3, half, half);
        Tensor::cat(
            vec![first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin],
            3,
        )
    }
}
