//! Root mean square normalisation.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

#[cfg(feature = "cuda")]
use crate::kernel::{has_own_kernels, rms_norm};

/// RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467): `x / √(mean(x²) + ε) · (offset + weight)`.
#[derive(Module, Debug)]
pub(crate) struct RmsNorm {
    /// `[width]`.
    pub weight: Param<Tensor<1>>,
    epsilon: f64,
    /// 1 in Gemma, whose weights say how far they are from 1.
    offset: f64,
}

impl RmsNorm {
    pub fn new(weight: Tensor<1>, epsilon: f64, offset: f64) -> Self {
        Self { weight: Param::from_tensor(weight), epsilon, offset }
    }

    /// The weight, if it is all that is multiplied with.
    #[cfg(feature = "cuda")]
    pub fn plain_weight(&self) -> Option<Tensor<1>> {
        (self.offset == 0.0).then(|| self.weight.val())
    }

    /// Normalises the last dimension; in f32 whatever the type of `x`, as `transformers` does.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        #[cfg(feature = "cuda")]
        if self.offset == 0.0 && has_own_kernels(&x) {
            return rms_norm(x, self.weight.val(), self.epsilon);
        }
        let dtype = x.dtype();
        let x = x.cast(DType::F32);
        let mean_square = (x.clone() * x.clone()).mean_dim(D - 1);
        let normal = x * mean_square.add_scalar(self.epsilon).sqrt().recip();
        if self.offset == 0.0 {
            return normal.cast(dtype) * self.weight.val().unsqueeze();
        }
        // Gemma multiplies before it rounds.
        let weight = self.weight.val().cast(DType::F32).add_scalar(self.offset);
        (normal * weight.unsqueeze()).cast(dtype)
    }
}
