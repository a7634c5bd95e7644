//! Root mean square normalisation.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

/// RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467): `x / √(mean(x²) + ε) · weight`.
#[derive(Module, Debug)]
pub(crate) struct RmsNorm {
    /// `[width]`.
    pub weight: Param<Tensor<1>>,
    epsilon: f64,
}

impl RmsNorm {
    pub fn new(weight: Tensor<1>, epsilon: f64) -> Self {
        Self { weight: Param::from_tensor(weight), epsilon }
    }

    /// Normalises the last dimension; in f32 whatever the type of `x`, as `transformers` does.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let x = x.cast(DType::F32);
        let mean_square = (x.clone() * x.clone()).mean_dim(2);
        let normal = x * mean_square.add_scalar(self.epsilon).sqrt().recip();
        normal.cast(dtype) * self.weight.val().unsqueeze()
    }
}
