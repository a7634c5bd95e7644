//! What do all layers need to know of a batch? Where its tokens stand, and what each may look at.

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::{ModelConfig, RotaryTable, Rotation};
use crate::kernel::fuses_attention;

/// What is added to a score that must not count. Finite, so that a row in which
/// nothing counts gives numbers and not NaN.
pub(crate) const MASKED: f32 = -1e9;

/// Rotation and bias of the attention scores, for layers of both kinds.
pub(crate) struct LayerInputs {
    rotation: Rotation,
    /// `[batch or 1, 1, 1, tokens, positions]`: 0 where a token may look, [`MASKED`] where it may not.
    /// None where attention knows that by itself.
    bias: Option<Tensor<5>>,
    /// The same for layers with a window, where there are some.
    local: Option<(Rotation, Option<Tensor<5>>)>,
}

impl LayerInputs {
    /// For sequences of `tokens` tokens from their beginning, embedded in `x`.
    pub fn causal<const D: usize>(config: &ModelConfig, tokens: usize, x: &Tensor<D>) -> Self {
        let device = &x.device();
        let rotation = RotaryTable::new(config, tokens, device).all();
        let local = RotaryTable::local(config, tokens, device).map(RotaryTable::all);
        let fused = fuses_attention(x, tokens);
        Self::new(config, rotation, local, |window| (!fused).then(|| causal_bias(tokens, window, device)))
    }

    /// `local` is the rotation of layers with a window, where it differs; `bias` gives that of a window of so
    /// many tokens.
    pub fn new(
        config: &ModelConfig,
        rotation: Rotation,
        local: Option<Rotation>,
        bias: impl Fn(usize) -> Option<Tensor<5>>,
    ) -> Self {
        let local = config
            .window
            .as_ref()
            .map(|window| (local.unwrap_or_else(|| rotation.clone()), bias(window.tokens)));
        Self { rotation, bias: bias(usize::MAX), local }
    }

    /// For a layer that looks at the newest tokens only, or for one that looks at all.
    pub fn of(&self, slides: bool) -> (&Rotation, Option<&Tensor<5>>) {
        match &self.local {
            Some((rotation, bias)) if slides => (rotation, bias.as_ref()),
            _ => (&self.rotation, self.bias.as_ref()),
        }
    }
}

/// A token looks at itself and the `window - 1` tokens before it.
fn causal_bias(tokens: usize, window: usize, device: &Device) -> Tensor<5> {
    let looks = |from: usize, to: usize| to <= from && from - to < window;
    let values: Vec<f32> = (0..tokens)
        .flat_map(|from| (0..tokens).map(move |to| if looks(from, to) { 0.0 } else { MASKED }))
        .collect();
    Tensor::from_data(TensorData::new(values, [1, 1, 1, tokens, tokens]), (device, DType::F32))
}
