//! What does a token look at?

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{DType, Device, Tensor};

use super::layer::load_norm;
use super::norm::RmsNorm;
use super::projection::{Part, Projection};
use super::{ModelConfig, Rotation};
use crate::kernel::causal_attention;
#[cfg(feature = "cuda")]
use crate::kernel::{Turn, attend, has_own_kernels};
use crate::model::projection::host;
use crate::weights::{NamedTensors, WeightsError};

/// The names of the norms of query and key heads.
pub(super) const HEAD_NORMS: [&str; 2] = ["self_attn.q_norm.weight", "self_attn.k_norm.weight"];

/// Grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245): `g` query heads
/// share each key and value head. Keys and values are never repeated; the query heads
/// of a group are stacked as rows of one product instead.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    pub qkv: Projection,
    pub output: Projection,
    /// Of each query and each key head, `[head_dim]`.
    query_norm: Option<RmsNorm>,
    key_norm: Option<RmsNorm>,
    /// Of the scores.
    scale: f64,
    key_value_heads: usize,
    query_group: usize,
    head_dim: usize,
    /// Newest tokens that a token looks at.
    window: usize,
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
        layer: usize,
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
        let norm = |name: &str| {
            let norm = || load_norm(config, tensors, &format!("{prefix}.{name}"), config.head_dim, device);
            config.head_norms().then(norm).transpose()
        };
        Ok(Self {
            qkv: Projection::load(tensors, prefix, qkv, config.hidden_size, config.bias.qkv, device)?,
            output: Projection::load(tensors, prefix, output, query_width, config.bias.output, device)?,
            query_norm: norm(HEAD_NORMS[0])?,
            key_norm: norm(HEAD_NORMS[1])?,
            scale: config.attention_scale(),
            key_value_heads: config.num_key_value_heads,
            query_group: config.query_group(),
            head_dim: config.head_dim,
            window: config.window_of(layer),
        })
    }

    /// Attention of each token to itself and those before it.
    pub fn forward(&self, x: Tensor<3>, rotation: &Rotation, causal: Option<&Tensor<5>>) -> Tensor<3> {
        #[cfg(feature = "cuda")]
        if causal.is_none() && self.query_norm.is_none() && has_own_kernels(&x) {
            let turn = Turn {
                query_heads: self.key_value_heads * self.query_group,
                key_heads: self.key_value_heads,
                scale: self.scale,
                window: self.window,
            };
            return self.output.forward(attend(self.qkv.forward(x), rotation.tables(), turn));
        }
        let Qkv { queries, keys, values } = self.project(x, rotation);
        self.output.forward(match causal {
            None => self.attend_fused(queries, keys, values),
            bias => self.attend(queries, keys.permute([0, 2, 3, 1]), values.swap_dims(1, 2), bias),
        })
    }

    /// Projects `[batch, tokens, hidden]`.
    pub fn project(&self, x: Tensor<3>, rotation: &Rotation) -> Qkv {
        let [batch, tokens, _] = x.dims();
        let query_heads = self.key_value_heads * self.query_group;
        let turned = query_heads + self.key_value_heads;
        let all = self.qkv.forward(x).reshape([batch, tokens, turned + self.key_value_heads, self.head_dim]);
        // Queries and keys stand side by side and turn alike.
        let turning = match (&self.query_norm, &self.key_norm) {
            (Some(of_query), Some(of_key)) => Tensor::cat(
                vec![
                    of_query.forward(all.clone().narrow(2, 0, query_heads)),
                    of_key.forward(all.clone().narrow(2, query_heads, self.key_value_heads)),
                ],
                2,
            ),
            _ => all.clone().narrow(2, 0, turned),
        };
        let rotated = rotation.apply(turning);
        Qkv {
            queries: rotated.clone().narrow(2, 0, query_heads),
            keys: rotated.narrow(2, query_heads, self.key_value_heads),
            values: all.narrow(2, turned, self.key_value_heads),
        }
    }

    /// `softmax(scale · q·kᵀ + bias) · v`.
    ///
    /// Queries are `[batch, tokens, query heads, head_dim]`, keys `[batch, key heads, head_dim,
    /// positions]` and values `[batch, key heads, positions, head_dim]`; the bias is `[batch or 1, 1, 1, tokens, positions]`,
    /// very negative where a token must not look; none if all may look at all. Returns `[batch, tokens, query heads · head_dim]`.
    pub fn attend(
        &self,
        queries: Tensor<4>,
        keys: Tensor<4>,
        values: Tensor<4>,
        bias: Option<&Tensor<5>>,
    ) -> Tensor<3> {
        let [batch, tokens, query_heads, width] = queries.dims();
        let positions = keys.dims()[3];
        let (heads, group) = (self.key_value_heads, self.query_group);
        let rows: Tensor<4> = queries
            .mul_scalar(self.scale)
            .reshape([batch, tokens, heads, group, width])
            .permute([0, 2, 3, 1, 4])
            .reshape([batch, heads, group * tokens, width]);
        let dtype = rows.dtype();
        let scores = rows.matmul(keys).cast(DType::F32);
        let scores: Tensor<5> = scores.reshape([batch, heads, group, tokens, positions]);
        let scores = match bias {
            Some(bias) => scores + bias.clone(),
            None => scores,
        };
        let weights = softmax(scores, 4).cast(dtype);
        let weights: Tensor<4> = weights.reshape([batch, heads, group * tokens, positions]);
        weights
            .matmul(values)
            .reshape([batch, heads, group, tokens, width])
            .permute([0, 3, 1, 2, 4])
            .reshape([batch, tokens, query_heads * width])
    }

    /// The same for whole sequences, without a matrix of scores for each layer that waits for the backward pass.
    pub fn attend_fused(&self, queries: Tensor<4>, keys: Tensor<4>, values: Tensor<4>) -> Tensor<3> {
        let [batch, tokens, query_heads, width] = queries.dims();
        let (heads, group) = (self.key_value_heads, self.query_group);
        let rows: Tensor<4> = queries
            .reshape([batch, tokens, heads, group, width])
            .permute([0, 2, 3, 1, 4])
            .reshape([batch, heads, group * tokens, width]);
        let (keys, values) = (keys.swap_dims(1, 2), values.swap_dims(1, 2));
        causal_attention(rows, keys, values, self.scale, self.window)
            .reshape([batch, heads, group, tokens, width])
            .permute([0, 3, 1, 2, 4])
            .reshape([batch, tokens, query_heads * width])
    }

    /// The norms of queries and keys.
    #[cfg(feature = "cuda")]
    pub fn head_norms(&self) -> Option<[&RmsNorm; 2]> {
        Some([self.query_norm.as_ref()?, self.key_norm.as_ref()?])
    }

    /// Adds the norms of the heads to `tensors` under their Hugging Face names.
    pub fn store_norms(&self, tensors: &mut NamedTensors, prefix: &str) {
        for (name, norm) in HEAD_NORMS.into_iter().zip([&self.query_norm, &self.key_norm]) {
            if let Some(norm) = norm {
                tensors.insert(format!("{prefix}.{name}"), host(norm.weight.val()));
            }
        }
    }
}
