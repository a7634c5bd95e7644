//! How is a large policy with random weights made without reading or drawing them on the host?

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Distribution, Tensor};

use super::{CausalLm, ComputeType, ModelConfig};
use crate::weights::{HostTensor, NamedTensors};

impl CausalLm {
    /// A policy with weights that the device draws, for measuring speed and memory: it says nothing
    /// sensible. Not for mixtures of experts.
    pub fn random_on_device(config: ModelConfig, compute: ComputeType, device: &Device) -> Self {
        let layers = config.num_hidden_layers;
        // The names and shapes of one layer serve for all.
        let one = ModelConfig { num_hidden_layers: 1, experts: None, ..config.clone() };
        let mut tensors = NamedTensors::new("random weights");
        for (name, shape) in one.shapes() {
            let value = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
            let count = shape.iter().product();
            tensors.insert(name, HostTensor::new(shape, vec![value; count]));
        }
        let model = match Self::from_tensors(one, &tensors, device) {
            Ok(model) => model.computing_in(compute),
            Err(error) => unreachable!("the weights were made to fit: {error}"),
        };
        drop(tensors);
        let mut model = model.map(&mut Draw);
        model.layers = (0..layers).map(|_| model.layers[0].clone().map(&mut Draw)).collect();
        model.with_config(config)
    }
}

/// New matrices of the usual size of initial weights; vectors stay as they are.
struct Draw;

impl ModuleMapper for Draw {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let tensor = param.val();
        let drawn = match D {
            1 => tensor,
            _ => Tensor::random(
                tensor.shape(),
                Distribution::Normal(0.0, 0.02),
                (&tensor.device(), tensor.dtype()),
            ),
        };
        Param::from_tensor(drawn)
    }
}
