//! One layer: attention, then the gated feed-forward network, each beside a residual.

use burn::module::Module;
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor, TensorData};

use super::attention::Attention;
use super::norm::RmsNorm;
use super::projection::{Part, Projection};
use super::{ModelConfig, Rotation};
use crate::weights::{NamedTensors, WeightsError};

/// A decoder layer of the Llama family.
#[derive(Module, Debug)]
pub(crate) struct DecoderLayer {
    pub attention_norm: RmsNorm,
    pub attention: Attention,
    pub mlp_norm: RmsNorm,
    pub mlp: Mlp,
}

/// SwiGLU (Shazeer 2020, arXiv:2002.05202): `(silu(x·gate) ∘ x·up)·down`.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    pub gate_up: Projection,
    pub down: Projection,
    width: usize,
}

impl Mlp {
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let both = self.gate_up.forward(x);
        let gate = both.clone().narrow(2, 0, self.width);
        let up = both.narrow(2, self.width, self.width);
        self.down.forward(silu(gate) * up)
    }
}

const ATTENTION_NORM: &str = "input_layernorm.weight";
const MLP_NORM: &str = "post_attention_layernorm.weight";

impl DecoderLayer {
    pub fn load(
        config: &ModelConfig,
        tensors: &NamedTensors,
        index: usize,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let prefix = prefix(index);
        let norm = |name: &str| load_norm(config, tensors, &format!("{prefix}.{name}"), device);
        let width = config.intermediate_size;
        let gate_up = vec![Part { name: "mlp.gate_proj", width }, Part { name: "mlp.up_proj", width }];
        let down = vec![Part { name: "mlp.down_proj", width: config.hidden_size }];
        Ok(Self {
            attention_norm: norm(ATTENTION_NORM)?,
            attention: Attention::load(config, tensors, &prefix, device)?,
            mlp_norm: norm(MLP_NORM)?,
            mlp: Mlp {
                gate_up: Projection::load(tensors, &prefix, gate_up, config.hidden_size, device)?,
                down: Projection::load(tensors, &prefix, down, width, device)?,
                width,
            },
        })
    }

    /// `[batch, tokens, hidden]` to the same.
    pub fn forward(&self, x: Tensor<3>, rotation: &Rotation, causal: &Tensor<5>) -> Tensor<3> {
        let x = x.clone() + self.attention.forward(self.attention_norm.forward(x), rotation, causal);
        self.feed_forward(x)
    }

    /// The second half of the layer.
    pub fn feed_forward(&self, x: Tensor<3>) -> Tensor<3> {
        x.clone() + self.mlp.forward(self.mlp_norm.forward(x))
    }

    /// The layer with each of its projections changed by `change`.
    pub fn map_projections<E>(
        mut self,
        mut change: impl FnMut(Projection) -> Result<Projection, E>,
    ) -> Result<Self, E> {
        self.attention.qkv = change(self.attention.qkv)?;
        self.attention.output = change(self.attention.output)?;
        self.mlp.gate_up = change(self.mlp.gate_up)?;
        self.mlp.down = change(self.mlp.down)?;
        Ok(self)
    }

    /// All projections.
    pub fn projections(&self) -> [&Projection; 4] {
        [&self.attention.qkv, &self.attention.output, &self.mlp.gate_up, &self.mlp.down]
    }

    /// Adds the layer's weights to `tensors` under their Hugging Face names.
    pub fn store(&self, tensors: &mut NamedTensors, index: usize) {
        let prefix = prefix(index);
        tensors.insert(
            format!("{prefix}.{ATTENTION_NORM}"),
            super::projection::host(self.attention_norm.weight.val()),
        );
        tensors.insert(format!("{prefix}.{MLP_NORM}"), super::projection::host(self.mlp_norm.weight.val()));
        for projection in self.projections() {
            projection.store(tensors, &prefix);
        }
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
    device: &Device,
) -> Result<RmsNorm, WeightsError> {
    let weight = tensors.expect(name, &[config.hidden_size])?;
    let weight = Tensor::from_data(TensorData::new(weight.data.clone(), [config.hidden_size]), device);
    Ok(RmsNorm::new(weight, config.rms_norm_eps))
}
