//! What does a layer do with each token by itself?

use burn::module::Module;
use burn::tensor::activation::{gelu_approximate, silu, softmax};
use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use super::ModelConfig;
use super::config::ExpertsConfig;
use super::projection::{Part, Projection};
#[cfg(feature = "cuda")]
use crate::kernel::{has_own_kernels, swiglu};
use crate::weights::{NamedTensors, WeightsError};

/// The second half of a layer.
#[derive(Module, Debug)]
pub(crate) enum FeedForward {
    Dense(Mlp),
    Experts(Experts),
}

/// A gated network (Shazeer 2020, arXiv:2002.05202): `(act(x·gate) ∘ x·up)·down`.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    pub gate_up: Projection,
    pub down: Projection,
    width: usize,
    gelu: bool,
}

/// Several gated networks, of which each token uses a few: those that the router likes best.
#[derive(Module, Debug)]
pub(crate) struct Experts {
    /// To the number of experts.
    router: Projection,
    experts: Vec<Mlp>,
    per_token: usize,
    normalised: bool,
}

/// The names of gate, up and down.
const DENSE: [&str; 3] = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
const EXPERT: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];
const ROUTER: &str = "mlp.gate";

impl FeedForward {
    pub fn load(
        config: &ModelConfig,
        tensors: &NamedTensors,
        prefix: &str,
        layer: usize,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        Ok(match config.experts_of(layer) {
            None => {
                let width = config.intermediate_size;
                Self::Dense(Mlp::load(config, tensors, prefix, DENSE, width, config.bias.mlp, device)?)
            }
            Some(experts) => Self::Experts(Experts::load(config, experts, tensors, prefix, device)?),
        })
    }

    /// `[batch, tokens, hidden]` to the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Dense(mlp) => mlp.forward(x),
            Self::Experts(experts) => experts.forward(x),
        }
    }

    /// The network of the layer whose names begin with `prefix`, with each of its projections changed by `change`.
    pub fn map_projections<E>(
        self,
        prefix: &str,
        change: &mut impl FnMut(&str, Projection) -> Result<Projection, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Dense(mlp) => Self::Dense(mlp.map_projections(prefix, change)?),
            Self::Experts(mut experts) => {
                experts.router = change(prefix, experts.router)?;
                let all = experts.experts.into_iter().enumerate();
                experts.experts = all
                    .map(|(number, expert)| expert.map_projections(&expert_prefix(prefix, number), change))
                    .collect::<Result<_, E>>()?;
                Self::Experts(experts)
            }
        })
    }

    /// The projections, and how the names of their parts begin.
    pub fn projections(&self, prefix: &str) -> Vec<(String, &Projection)> {
        match self {
            Self::Dense(mlp) => mlp.projections(prefix.to_string()).to_vec(),
            Self::Experts(experts) => {
                let mut all = vec![(prefix.to_string(), &experts.router)];
                for (number, expert) in experts.experts.iter().enumerate() {
                    all.extend(expert.projections(expert_prefix(prefix, number)));
                }
                all
            }
        }
    }

    /// Adds the weights to `tensors` under their Hugging Face names, which begin with `prefix`.
    pub fn store(&self, tensors: &mut NamedTensors, prefix: &str) {
        match self {
            Self::Dense(mlp) => mlp.store(tensors, prefix),
            Self::Experts(experts) => {
                experts.router.store(tensors, prefix);
                for (number, expert) in experts.experts.iter().enumerate() {
                    expert.store(tensors, &expert_prefix(prefix, number));
                }
            }
        }
    }
}

/// How the names of an expert's tensors begin.
pub(super) fn expert_prefix(layer: &str, number: usize) -> String {
    format!("{layer}.mlp.experts.{number}")
}

impl Mlp {
    fn load(
        config: &ModelConfig,
        tensors: &NamedTensors,
        prefix: &str,
        [gate, up, down]: [&'static str; 3],
        width: usize,
        bias: bool,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let hidden = config.hidden_size;
        let gate_up = vec![Part { name: gate, width }, Part { name: up, width }];
        let down = vec![Part { name: down, width: hidden }];
        Ok(Self {
            gate_up: Projection::load(tensors, prefix, gate_up, hidden, bias, device)?,
            down: Projection::load(tensors, prefix, down, width, bias, device)?,
            width,
            gelu: config.gelu(),
        })
    }

    #[cfg(feature = "cuda")]
    pub fn is_gelu(&self) -> bool {
        self.gelu
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let both = self.gate_up.forward(x);
        #[cfg(feature = "cuda")]
        if !self.gelu && has_own_kernels(&both) {
            return self.down.forward(swiglu(both));
        }
        let gate = both.clone().narrow(2, 0, self.width);
        let up = both.narrow(2, self.width, self.width);
        let open = if self.gelu { gelu_approximate(gate) } else { silu(gate) };
        self.down.forward(open * up)
    }

    fn map_projections<E>(
        mut self,
        prefix: &str,
        change: &mut impl FnMut(&str, Projection) -> Result<Projection, E>,
    ) -> Result<Self, E> {
        self.gate_up = change(prefix, self.gate_up)?;
        self.down = change(prefix, self.down)?;
        Ok(self)
    }

    fn projections(&self, prefix: String) -> [(String, &Projection); 2] {
        [(prefix.clone(), &self.gate_up), (prefix, &self.down)]
    }

    fn store(&self, tensors: &mut NamedTensors, prefix: &str) {
        self.gate_up.store(tensors, prefix);
        self.down.store(tensors, prefix);
    }
}

impl Experts {
    fn load(
        config: &ModelConfig,
        experts: &ExpertsConfig,
        tensors: &NamedTensors,
        prefix: &str,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let router = vec![Part { name: ROUTER, width: experts.count }];
        let width = experts.intermediate_size;
        let load =
            |number| Mlp::load(config, tensors, &expert_prefix(prefix, number), EXPERT, width, false, device);
        Ok(Self {
            router: Projection::load(tensors, prefix, router, config.hidden_size, false, device)?,
            experts: (0..experts.count).map(load).collect::<Result<_, _>>()?,
            per_token: experts.per_token,
            normalised: experts.normalised,
        })
    }

    /// Each expert is run once, on the tokens that use it; which those are is read back from the device.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, tokens, hidden] = x.dims();
        let rows = batch * tokens;
        let x: Tensor<2> = x.reshape([rows, hidden]);
        let device = x.device();
        let dtype = x.dtype();
        let scores = softmax(self.router.forward(x.clone()).cast(DType::F32), 1);
        let chosen = scores.clone().detach().argtopk(self.per_token, 1);
        let mut weights = scores.gather(1, chosen.clone());
        if self.normalised {
            weights = weights.clone() / weights.sum_dim(1);
        }
        let weights: Tensor<2> = weights.cast(dtype).reshape([rows * self.per_token, 1]);
        let chosen = chosen.try_into_vec_as::<i64>();
        let chosen =
            chosen.unwrap_or_else(|error| panic!("the device cannot say which experts are used: {error}"));
        let mut places = vec![Vec::new(); self.experts.len()];
        for (at, expert) in (0..).zip(chosen) {
            places[expert as usize].push(at);
        }
        let mut out = Tensor::<2>::zeros([rows, hidden], (&device, dtype));
        for (expert, places) in self.experts.iter().zip(places).filter(|(_, places)| !places.is_empty()) {
            let integers = |values: Vec<i64>| -> Tensor<1, Int> {
                let count = values.len();
                Tensor::from_data(TensorData::new(values, [count]), &device)
            };
            let used_by = integers(places.iter().map(|at| at / self.per_token as i64).collect());
            let count = places.len();
            let own: Tensor<2> = expert
                .forward(x.clone().select(0, used_by.clone()).reshape([1, count, hidden]))
                .reshape([count, hidden]);
            let own = own * weights.clone().select(0, integers(places));
            out = out.select_assign(0, used_by, own, IndexingUpdateOp::Add);
        }
        out.reshape([batch, tokens, hidden])
    }
}
