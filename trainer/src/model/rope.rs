//! Where in the text does a token stand? Rotary position embedding.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::ModelConfig;

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
    /// The table for positions `0..length`.
    pub fn new(config: &ModelConfig, length: usize, device: &Device) -> Self {
        let half = config.head_dim / 2;
        let mut cos = Vec::with_capacity(length * half);
        let mut sin = Vec::with_capacity(length * half);
        // In f64: an f32 angle at position 8,000 is already off by 1e-4.
        let rates: Vec<f64> = (0..half)
            .map(|pair| config.rope_theta.powf(-(2.0 * pair as f64) / config.head_dim as f64))
            .collect();
        for position in 0..length {
            for rate in &rates {
                let angle = position as f64 * rate;
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        let tensor = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [length, half]), device);
        Self { cos: tensor(cos), sin: tensor(sin) }
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
