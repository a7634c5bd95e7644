//! One or several linear maps of the same input, computed as one.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};

use super::LoraConfig;
use crate::kernel::matmul;
#[cfg(feature = "cuda")]
use crate::kernel::{Columns, add_low_rank, has_own_kernels};
use crate::weights::{HostTensor, NamedTensors, WeightsError};

/// A linear map that Hugging Face stores under a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name within the layer, such as `self_attn.q_proj`.
    pub name: &'static str,
    /// Width of its output.
    pub width: usize,
}

/// Linear maps of the same input, side by side in one matrix: one big product is
/// much faster than several small ones, on every device.
#[derive(Module, Debug)]
pub(crate) struct Projection {
    /// `[in, sum of the parts' widths]`.
    pub weight: Param<Tensor<2>>,
    /// `[sum of the parts' widths]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// Of the parts with the numbers `adapted`.
    pub adapters: Vec<Adapter>,
    /// `alpha / rank` of the adapters.
    scale: f64,
    #[module(skip)]
    adapted: Vec<usize>,
    #[module(skip)]
    parts: Vec<Part>,
}

/// The low-rank term of one part.
#[derive(Module, Debug)]
pub(crate) struct Adapter {
    /// `[in, rank]`.
    pub a: Param<Tensor<2>>,
    /// `[rank, out]`.
    pub b: Param<Tensor<2>>,
}

impl Projection {
    /// Takes the parts' weights from `tensors`, where their names begin with `prefix`; with `bias`, their
    /// biases too.
    pub fn load(
        tensors: &NamedTensors,
        prefix: &str,
        parts: Vec<Part>,
        input: usize,
        bias: bool,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let output: usize = parts.iter().map(|part| part.width).sum();
        // Hugging Face keeps `[out, in]`: side by side there is one below the other here.
        let mut rows = Vec::with_capacity(output * input);
        for part in &parts {
            let name = format!("{prefix}.{}.weight", part.name);
            rows.extend_from_slice(&tensors.expect(&name, &[part.width, input])?.data);
        }
        let weight = HostTensor::new([output, input], rows).transposed();
        let mut biases = Vec::new();
        for part in parts.iter().filter(|_| bias) {
            let name = format!("{prefix}.{}.bias", part.name);
            biases.extend_from_slice(&tensors.expect(&name, &[part.width])?.data);
        }
        let bias = bias.then(|| parameter(HostTensor::new([output], biases), device));
        let (adapters, adapted) = (Vec::new(), Vec::new());
        Ok(Self { weight: parameter(weight, device), bias, adapters, scale: 0.0, adapted, parts })
    }

    /// `y = xW + b + scale · (xA)B`, on the last dimension of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mut shape = x.dims();
        let width = shape[D - 1];
        let rows = shape[..D - 1].iter().product();
        let x: Tensor<2> = x.reshape([rows, width]);
        let mut y = matmul(x.clone(), self.weight.val());
        if let Some(bias) = &self.bias {
            y = y + bias.val().unsqueeze();
        }
        #[cfg(feature = "cuda")]
        if !self.adapters.is_empty() && has_own_kernels(&y) {
            for (part, adapter) in self.adapted.iter().zip(&self.adapters) {
                let start = self.parts[..*part].iter().map(|before| before.width).sum();
                let columns = Columns { start, width: self.parts[*part].width, scale: self.scale };
                y = add_low_rank(y, matmul(x.clone(), adapter.a.val()), adapter.b.val(), columns);
            }
            shape[D - 1] = y.dims()[1];
            return y.reshape(shape);
        }
        if !self.adapters.is_empty() {
            let terms: Vec<Tensor<2>> = self
                .adapters
                .iter()
                .map(|adapter| matmul(matmul(x.clone(), adapter.a.val()), adapter.b.val()))
                .collect();
            y = y + self.side_by_side(terms).mul_scalar(self.scale);
        }
        shape[D - 1] = y.dims()[1];
        y.reshape(shape)
    }

    /// What the adapters give, where their parts stand, and 0 in between.
    fn side_by_side(&self, terms: Vec<Tensor<2>>) -> Tensor<2> {
        if terms.len() == self.parts.len() {
            return Tensor::cat(terms, 1);
        }
        let (rows, device, dtype) = (terms[0].dims()[0], terms[0].device(), terms[0].dtype());
        let mut terms = terms.into_iter();
        let all = self.parts.iter().enumerate().filter_map(|(number, part)| {
            let zeros = || Some(Tensor::zeros([rows, part.width], (&device, dtype)));
            if self.adapted.contains(&number) { terms.next() } else { zeros() }
        });
        Tensor::cat(all.collect(), 1)
    }

    /// Puts an adapter on each part that is a target. `factors` gives a part's `A` (`[in, rank]`) and `B`
    /// (`[rank, out]`).
    pub fn with_adapters<E>(
        mut self,
        lora: &LoraConfig,
        mut factors: impl FnMut(&Part, usize) -> Result<(HostTensor, HostTensor), E>,
    ) -> Result<Self, E> {
        let weight = self.weight.val();
        let (device, dtype, input) = (weight.device(), weight.dtype(), weight.dims()[0]);
        // In the type that the layer computes in; the optimizer keeps what is trained in f32.
        let factor = |tensor| Param::from_tensor(parameter::<2>(tensor, &device).val().cast(dtype));
        self.scale = lora.scale();
        self.adapted =
            (0..self.parts.len()).filter(|part| lora.targets.has(self.parts[*part].name)).collect();
        self.adapters = self
            .adapted
            .iter()
            .map(|part| {
                let (a, b) = factors(&self.parts[*part], input)?;
                Ok(Adapter { a: factor(a), b: factor(b) })
            })
            .collect::<Result<_, E>>()?;
        Ok(self)
    }

    /// The same map with the adapters folded into the weight.
    pub fn merged(&self) -> Self {
        let mut weight = self.weight.val();
        if !self.adapters.is_empty() {
            let terms = self.adapters.iter().map(|adapter| adapter.a.val().matmul(adapter.b.val())).collect();
            weight = weight + self.side_by_side(terms).mul_scalar(self.scale);
        }
        let weight = Param::from_tensor(weight.detach());
        let (bias, parts) = (self.bias.clone(), self.parts.clone());
        Self { weight, bias, adapters: Vec::new(), scale: 0.0, adapted: Vec::new(), parts }
    }

    /// Adds the parts' weights to `tensors` under their Hugging Face names. Adapters are not looked at.
    pub fn store(&self, tensors: &mut NamedTensors, prefix: &str) {
        let HostTensor { shape, data } = host(self.weight.val()).transposed();
        let input = shape[1];
        let mut rest = data.as_slice();
        for part in &self.parts {
            let (rows, tail) = rest.split_at(part.width * input);
            rest = tail;
            let tensor = HostTensor::new([part.width, input], rows.to_vec());
            tensors.insert(format!("{prefix}.{}.weight", part.name), tensor);
        }
        let Some(bias) = &self.bias else { return };
        let values = host(bias.val()).data;
        let mut rest = values.as_slice();
        for part in &self.parts {
            let (own, tail) = rest.split_at(part.width);
            rest = tail;
            tensors
                .insert(format!("{prefix}.{}.bias", part.name), HostTensor::new([part.width], own.to_vec()));
        }
    }

    /// Adds the adapters to `tensors` under PEFT's names.
    pub fn store_adapters(&self, tensors: &mut NamedTensors, prefix: &str) {
        for (part, adapter) in self.adapted.iter().zip(&self.adapters) {
            let part = &self.parts[*part];
            for (letter, factor) in [("A", &adapter.a), ("B", &adapter.b)] {
                let name = format!("{prefix}.{}.lora_{letter}.weight", part.name);
                tensors.insert(name, host(factor.val()).transposed());
            }
        }
    }
}

/// A trainable parameter with the device's float type.
pub(crate) fn parameter<const D: usize>(tensor: HostTensor, device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(tensor.data, tensor.shape), device))
}

/// A tensor's values as f32 on the host.
pub(crate) fn host<const D: usize>(tensor: Tensor<D>) -> HostTensor {
    let shape = tensor.dims().to_vec();
    let data = tensor.try_into_vec_as::<f32>();
    HostTensor::new(shape, data.unwrap_or_else(|error| panic!("the device cannot give its weights: {error}")))
}
