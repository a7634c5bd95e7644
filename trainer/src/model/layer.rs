//! One layer: attention, then the feed-forward network, each beside a residual.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use super::ModelConfig;
use super::attention::{Attention, HEAD_NORMS};
use super::feed_forward::FeedForward;
use super::inputs::LayerInputs;
use super::norm::RmsNorm;
use super::projection::{Projection, host};
use crate::weights::{NamedTensors, WeightsError};

/// A decoder layer.
#[derive(Module, Debug)]
pub(crate) struct DecoderLayer {
    pub attention_norm: RmsNorm,
    pub attention: Attention,
    /// Of what attention gives, in Gemma.
    attention_output_norm: Option<RmsNorm>,
    mlp_norm: RmsNorm,
    mlp: FeedForward,
    /// Of what the feed-forward network gives, in Gemma.
    mlp_output_norm: Option<RmsNorm>,
    /// Whether it looks at the newest tokens only.
    pub slides: bool,
}

/// What a usual layer computes with.
#[cfg(feature = "cuda")]
pub(crate) struct PlainParts {
    pub attention_norm: Tensor<1>,
    pub qkv: Tensor<2>,
    pub qkv_bias: Option<Tensor<1>>,
    /// Of queries and keys.
    pub head_norms: Option<[Tensor<1>; 2]>,
    pub output: Tensor<2>,
    pub mlp_norm: Tensor<1>,
    pub gate_up: Tensor<2>,
    pub down: Tensor<2>,
}

/// The names of a layer's norms.
struct NormNames {
    attention: &'static str,
    attention_output: Option<&'static str>,
    mlp: &'static str,
    mlp_output: Option<&'static str>,
}

impl NormNames {
    /// Hugging Face's name of the one before the feed-forward network depends on whether attention has one
    /// after it.
    fn of(output_norms: bool) -> Self {
        const SECOND: &str = "post_attention_layernorm.weight";
        let (attention_output, mlp, mlp_output) = match output_norms {
            true => {
                (Some(SECOND), "pre_feedforward_layernorm.weight", Some("post_feedforward_layernorm.weight"))
            }
            false => (None, SECOND, None),
        };
        Self { attention: "input_layernorm.weight", attention_output, mlp, mlp_output }
    }
}

impl ModelConfig {
    /// The names and widths of a layer's norms.
    pub(super) fn norms_of_layer(&self) -> Vec<(&'static str, usize)> {
        let NormNames { attention, attention_output, mlp, mlp_output } = NormNames::of(self.output_norms());
        let whole = [Some(attention), attention_output, Some(mlp), mlp_output].into_iter().flatten();
        let heads = HEAD_NORMS.into_iter().filter(|_| self.head_norms()).map(|name| (name, self.head_dim));
        whole.map(|name| (name, self.hidden_size)).chain(heads).collect()
    }
}

impl DecoderLayer {
    pub fn load(
        config: &ModelConfig,
        tensors: &NamedTensors,
        index: usize,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let prefix = prefix(index);
        let norm =
            |name: &str| load_norm(config, tensors, &format!("{prefix}.{name}"), config.hidden_size, device);
        let names = NormNames::of(config.output_norms());
        Ok(Self {
            attention_norm: norm(names.attention)?,
            attention: Attention::load(config, tensors, &prefix, index, device)?,
            attention_output_norm: names.attention_output.map(norm).transpose()?,
            mlp_norm: norm(names.mlp)?,
            mlp: FeedForward::load(config, tensors, &prefix, index, device)?,
            mlp_output_norm: names.mlp_output.map(norm).transpose()?,
            slides: config.slides(index),
        })
    }

    /// `[batch, tokens, hidden]` to the same.
    pub fn forward(&self, x: Tensor<3>, inputs: &LayerInputs) -> Tensor<3> {
        let (rotation, bias) = inputs.of(self.slides);
        let attended = self.attention.forward(self.attention_norm.forward(x.clone()), rotation, bias);
        self.after_attention(x, attended)
    }

    /// What follows attention, from the layer's input and what attention gave.
    pub fn after_attention(&self, x: Tensor<3>, attended: Tensor<3>) -> Tensor<3> {
        let normed = |norm: &Option<RmsNorm>, y: Tensor<3>| match norm {
            Some(norm) => norm.forward(y),
            None => y,
        };
        let x = x + normed(&self.attention_output_norm, attended);
        let y = self.mlp.forward(self.mlp_norm.forward(x.clone()));
        x + normed(&self.mlp_output_norm, y)
    }

    /// The layer with the number `index`, with each of its projections changed by `change`, which is told how
    /// the names of a projection's parts begin.
    pub fn map_projections<E>(
        mut self,
        index: usize,
        mut change: impl FnMut(&str, Projection) -> Result<Projection, E>,
    ) -> Result<Self, E> {
        let prefix = prefix(index);
        self.attention.qkv = change(&prefix, self.attention.qkv)?;
        self.attention.output = change(&prefix, self.attention.output)?;
        self.mlp = self.mlp.map_projections(&prefix, &mut change)?;
        Ok(self)
    }

    /// The projections of the layer with the number `index`, and how the names of their parts begin.
    pub fn projections(&self, index: usize) -> Vec<(String, &Projection)> {
        let prefix = prefix(index);
        let own = [&self.attention.qkv, &self.attention.output].map(|own| (prefix.clone(), own));
        own.into_iter().chain(self.mlp.projections(&prefix)).collect()
    }

    /// The layer's weights, if it is one of Llama's or Qwen's: one norm before each half, attention to everything,
    /// a SiLU-gated network, no adapters.
    #[cfg(feature = "cuda")]
    pub fn plain_parts(&self) -> Option<PlainParts> {
        let FeedForward::Dense(mlp) = &self.mlp else { return None };
        let unusual = self.slides
            || self.attention_output_norm.is_some()
            || self.mlp_output_norm.is_some()
            || mlp.is_gelu()
            || self.attention.output.bias.is_some()
            || mlp.gate_up.bias.is_some()
            || mlp.down.bias.is_some()
            || self.projections(0).iter().any(|(_, projection)| !projection.adapters.is_empty());
        if unusual {
            return None;
        }
        Some(PlainParts {
            attention_norm: self.attention_norm.plain_weight()?,
            qkv: self.attention.qkv.weight.val(),
            qkv_bias: self.attention.qkv.bias.as_ref().map(|bias| bias.val()),
            head_norms: self.attention.head_norms().map(|norms| norms.map(|norm| norm.weight.val())),
            output: self.attention.output.weight.val(),
            mlp_norm: self.mlp_norm.plain_weight()?,
            gate_up: mlp.gate_up.weight.val(),
            down: mlp.down.weight.val(),
        })
    }

    /// Adds the layer's weights to `tensors` under their Hugging Face names.
    pub fn store(&self, tensors: &mut NamedTensors, index: usize) {
        let prefix = prefix(index);
        let names = NormNames::of(self.attention_output_norm.is_some());
        for (name, norm) in [
            (Some(names.attention), Some(&self.attention_norm)),
            (names.attention_output, self.attention_output_norm.as_ref()),
            (Some(names.mlp), Some(&self.mlp_norm)),
            (names.mlp_output, self.mlp_output_norm.as_ref()),
        ] {
            if let (Some(name), Some(norm)) = (name, norm) {
                tensors.insert(format!("{prefix}.{name}"), host(norm.weight.val()));
            }
        }
        self.attention.qkv.store(tensors, &prefix);
        self.attention.output.store(tensors, &prefix);
        self.attention.store_norms(tensors, &prefix);
        self.mlp.store(tensors, &prefix);
    }
}

/// How the names of a layer's tensors begin.
pub(crate) fn prefix(index: usize) -> String {
    format!("model.layers.{index}")
}

pub(crate) fn load_norm(
    config: &ModelConfig,
    tensors: &NamedTensors,
    name: &str,
    width: usize,
    device: &Device,
) -> Result<RmsNorm, WeightsError> {
    let weight = tensors.expect(name, &[width])?;
    let weight = Tensor::from_data(TensorData::new(weight.data.clone(), [width]), device);
    Ok(RmsNorm::new(weight, config.rms_norm_eps, config.norm_offset()))
}
