//! How does a policy get, keep and lose a low-rank adapter?

use burn::module::Module;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::projection::Part;
use super::{CausalLm, LoraConfig};
use crate::weights::{HostTensor, NamedTensors, WeightsError};

/// How PEFT begins the names of an adapter's tensors.
const PEFT: &str = "base_model.model";

impl CausalLm {
    /// Freezes the policy and puts an adapter on each target in the layers from
    /// `lora.first_layer`: `A` gaussian with variance `1 / in`, `B` zero, so that the
    /// policy computes what it did. An adapter that it has already is folded in first.
    pub fn with_lora(self, lora: LoraConfig, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let fresh = |_: &str, part: &Part, input: usize| {
            let spread = 1.0 / (input as f64).sqrt();
            let a = gaussian(&mut random, &[input, lora.rank], spread);
            let b = HostTensor::new([lora.rank, part.width], vec![0.0; lora.rank * part.width]);
            Ok::<_, std::convert::Infallible>((a, b))
        };
        match self.adapted(lora, fresh) {
            Ok(model) => model,
            Err(never) => match never {},
        }
    }

    /// The policy with an adapter that does something from the start, for checks: `B` is random as `A` is.
    ///
    /// # Errors
    /// As [`CausalLm::load_lora`].
    pub(crate) fn with_drawn_lora(self, lora: LoraConfig) -> Result<Self, WeightsError> {
        let mut tensors = self.clone().with_lora(lora, 3).lora_tensors();
        let mut random = StdRng::seed_from_u64(4);
        let changed: Vec<_> = tensors
            .iter()
            .filter(|(name, _)| name.contains("lora_B"))
            .map(|(name, tensor)| (name.to_string(), gaussian(&mut random, &tensor.shape, 0.2)))
            .collect();
        changed.into_iter().for_each(|(name, tensor)| tensors.insert(name, tensor));
        self.load_lora(&tensors, lora)
    }

    /// The policy with a stored adapter (PEFT's names and layout).
    ///
    /// # Errors
    /// When a tensor is missing, has another shape, or belongs to no adapted layer.
    pub fn load_lora(self, tensors: &NamedTensors, lora: LoraConfig) -> Result<Self, WeightsError> {
        if lora.rank == 0 || lora.first_layer >= self.config().num_hidden_layers {
            return Err(WeightsError::Adapter {
                reason: format!(
                    "rank {} from layer {} on a policy of {} layers",
                    lora.rank,
                    lora.first_layer,
                    self.config().num_hidden_layers
                ),
                help: "use the adapter with the policy that it was trained on",
            });
        }
        let mut used = 0;
        let model = self.adapted(lora, |prefix, part, input| {
            let mut factor = |letter: &str, rows: usize, columns: usize| {
                used += 1;
                let name = format!("{PEFT}.{prefix}.{}.lora_{letter}.weight", part.name);
                Ok::<_, WeightsError>(tensors.expect(&name, &[rows, columns])?.transposed())
            };
            Ok::<_, WeightsError>((factor("A", lora.rank, input)?, factor("B", part.width, lora.rank)?))
        })?;
        if used != tensors.len() {
            return Err(WeightsError::Adapter {
                reason: format!(
                    "{} has {} tensors and layers {} to {} take {used}",
                    tensors.origin(),
                    tensors.len(),
                    lora.first_layer,
                    model.config().num_hidden_layers - 1
                ),
                help: "give the first layer and the targets that the adapter was trained with; adapters of a head or an embedding cannot be used",
            });
        }
        Ok(model)
    }

    /// The adapter under PEFT's names, in PEFT's layout; empty without one.
    pub fn lora_tensors(&self) -> NamedTensors {
        let mut tensors = NamedTensors::new("the adapter");
        for (index, layer) in self.layers.iter().enumerate() {
            for (prefix, projection) in layer.projections(index) {
                projection.store_adapters(&mut tensors, &format!("{PEFT}.{prefix}"));
            }
        }
        tensors
    }

    /// The same policy with its adapter folded into the weights, detached from any graph.
    pub fn merged(&self) -> Self {
        let mut model = self.clone();
        model.lora = None;
        model.layers = model
            .layers
            .into_iter()
            .enumerate()
            .map(|(index, layer)| {
                let merged = layer.map_projections(index, |_, projection| {
                    Ok::<_, std::convert::Infallible>(projection.merged())
                });
                match merged {
                    Ok(layer) => layer,
                    Err(never) => match never {},
                }
            })
            .collect();
        model
    }

    /// The frozen policy with an adapter whose factors `factors` gives, from how a part's name begins, the
    /// part, and the width of its input.
    fn adapted<E>(
        self,
        lora: LoraConfig,
        mut factors: impl FnMut(&str, &Part, usize) -> Result<(HostTensor, HostTensor), E>,
    ) -> Result<Self, E> {
        let mut model = if self.lora.is_some() { self.merged() } else { self };
        model = model.no_grad();
        model.layers = model
            .layers
            .into_iter()
            .enumerate()
            .map(|(index, layer)| {
                if index < lora.first_layer {
                    return Ok(layer);
                }
                layer.map_projections(index, |prefix, projection| {
                    projection.with_adapters(&lora, |part, input| factors(prefix, part, input))
                })
            })
            .collect::<Result<_, E>>()?;
        model.lora = Some(lora);
        Ok(model)
    }
}

/// A tensor of independent normal values with mean 0 (Box and Muller 1958).
pub(crate) fn gaussian(random: &mut StdRng, shape: &[usize], deviation: f64) -> HostTensor {
    let values = (0..shape.iter().product())
        .map(|_| {
            let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
            let angle = std::f64::consts::TAU * random.random::<f64>();
            (deviation * radius * angle.cos()) as f32
        })
        .collect();
    HostTensor::new(shape, values)
}
