//! What does a token look at?

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{DType, Device, Tensor};

use super::projection::{Part, Projection};
use super::{ModelConfig, Rotation};
use crate::weights::{NamedTensors, WeightsError};

/// Grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245): `g` query heads
/// share each key and value head. Keys and values are never repeated; the query heads
/// of a group are stacked as rows of one product instead.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    pub qkv: Projection,
    pub output: Projection,
    key_value_heads: usize,
    query_group: usize,
    head_dim: usize,
}

/// Queries, keys and values of one batch of tokens, rotated to their positions.
pub(crate) struct Qkv {
    /// `[batch, tokens, query heads, head_dim]`.
    pub queries: Tensor<4>,
    /// `[batch, tokens, key heads, head_dim]`, as `values`.
    pub keys: Tensor<4>,
    pub values: Tensor<4>,
}

impl Attention {
    pub fn load(
        config: &ModelConfig,
        tensors: &NamedTensors,
        prefix: &str,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let query_width = config.num_attention_heads * config.head_dim;
        let key_width = config.num_key_value_heads * config.head_dim;
        let qkv = vec![
            Part { name: "self_attn.q_proj", width: query_width },
            Part { name: "self_attn.k_proj", width: key_width },
            Part { name: "self_attn.v_proj", width: key_width },
        ];
        let output = vec![Part { name: "self_attn.o_proj", width: config.hidden_size }];
        Ok(Self {
            qkv: Projection::load(tensors, prefix, qkv, config.hidden_size, device)?,
            output: Projection::load(tensors, prefix, output, query_width, device)?,
            key_value_heads: config.num_key_value_heads,
            query_group: config.query_group(),
            head_dim: config.head_dim,
        })
    }

    /// Attention of each token to itself and those before it.
    pub fn forward(&self, x: Tensor<3>, rotation: &Rotation, causal: &Tensor<5>) -> Tensor<3> {
        let Qkv { queries, keys, values } = self.project(x, rotation);
        let attended = self.attend(queries, keys.permute([0, 2, 3, 1]), values.swap_dims(1, 2), causal);
        self.output.forward(attended)
    }

    /// Projects `[batch, tokens, hidden]`.
    pub fn project(&self, x: Tensor<3>, rotation: &Rotation) -> Qkv {
        let [batch, tokens, _] = x.dims();
        let query_heads = self.key_value_heads * self.query_group;
        let turned = query_heads + self.key_value_heads;
        let all = self.qkv.forward(x).reshape([batch, tokens, turned + self.key_value_heads, self.head_dim]);
        // Queries and keys stand side by side and turn alike.
        let rotated = rotation.apply(all.clone().narrow(2, 0, turned));
        Qkv {
            queries: rotated.clone().narrow(2, 0, query_heads),
            keys: rotated.narrow(2, query_heads, self.key_value_heads),
            values: all.narrow(2, turned, self.key_value_heads),
        }
    }

    /// `softmax(q·kᵀ / √d + bias) · v`.
    ///
    /// Queries are `[batch, tokens, query heads, head_dim]`, keys `[batch, key heads, head_dim,
    /// positions]` and values `[batch, key heads, positions, head_dim]`; the bias is `[batch or 1, 1, 1, tokens, positions]`,
    /// very negative where a token must not look. Returns `[batch, tokens, query heads · head_dim]`.
    pub fn attend(
        &self,
        queries: Tensor<4>,
        keys: Tensor<4>,
        values: Tensor<4>,
        bias: &Tensor<5>,
    ) -> Tensor<3> {
        let [batch, tokens, query_heads, width] = queries.dims();
        let positions = keys.dims()[3];
        let (heads, group) = (self.key_value_heads, self.query_group);
        let rows: Tensor<4> = queries
            .mul_scalar(1.0 / (width as f64).sqrt())
            .reshape([batch, tokens, heads, group, width])
            .permute([0, 2, 3, 1, 4])
            .reshape([batch, heads, group * tokens, width]);
        let dtype = rows.dtype();
        let scores = rows.matmul(keys).cast(DType::F32);
        let scores: Tensor<5> = scores.reshape([batch, heads, group, tokens, positions]);
        let weights = softmax(scores + bias.clone(), 4).cast(dtype);
        let weights: Tensor<4> = weights.reshape([batch, heads, group * tokens, positions]);
        weights
            .matmul(values)
            .reshape([batch, heads, group, tokens, width])
            .permute([0, 3, 1, 2, 4])
            .reshape([batch, tokens, query_heads * width])
    }
}
