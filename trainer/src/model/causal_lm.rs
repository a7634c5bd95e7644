//! What does the policy say comes next?

use burn::module::{Module, Param};
use burn::tensor::module::embedding;
use burn::tensor::{Device, Int, Tensor};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::inputs::LayerInputs;
use super::layer::{DecoderLayer, load_norm};
use super::lora::gaussian;
use super::norm::RmsNorm;
use super::projection::{host, parameter};
use super::{LoraConfig, ModelConfig, RotaryTable};
use crate::kernel::matmul_wide;
#[cfg(feature = "cuda")]
use crate::kernel::{has_own_kernels, rows};
use crate::weights::{NamedTensors, WeightsError};

pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";
pub(super) const FINAL_NORM: &str = "model.norm.weight";
pub(super) const HEAD: &str = "lm_head.weight";

/// A causal language model.
///
/// As a Burn module it is visited, mapped, trained and moved like any other. All
/// parameters train; after [`with_lora`](Self::with_lora) only the adapters do.
#[derive(Module, Debug)]
pub struct CausalLm {
    /// `[vocabulary, hidden]`.
    pub(crate) embedding: Param<Tensor<2>>,
    pub(crate) layers: Vec<DecoderLayer>,
    pub(crate) norm: RmsNorm,
    /// `[hidden, vocabulary]`; none if the embedding serves as head too.
    head: Option<Param<Tensor<2>>>,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    pub(super) lora: Option<LoraConfig>,
}

impl CausalLm {
    /// A policy with the given weights (Hugging Face names and layout), in the device's float type.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape than the configuration says. A
    /// head that the configuration ties is not looked at.
    pub fn from_tensors(
        config: ModelConfig,
        tensors: &NamedTensors,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let table = tensors.expect(EMBEDDING, &[vocabulary, hidden])?.clone();
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(parameter(tensors.expect(HEAD, &[vocabulary, hidden])?.transposed(), device)),
        };
        let layers = (0..config.num_hidden_layers)
            .map(|index| DecoderLayer::load(&config, tensors, index, device))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            embedding: parameter(table, device),
            layers,
            norm: load_norm(&config, tensors, FINAL_NORM, hidden, device)?,
            head,
            config,
            lora: None,
        })
    }

    /// A policy with random weights, the same for the same seed; for tests.
    pub fn random(config: ModelConfig, seed: u64, device: &Device) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut tensors = NamedTensors::new("random weights");
        for (name, shape) in config.shapes() {
            // Larger than usual initial weights, so that tests meet decided distributions.
            let mut tensor = gaussian(&mut random, &shape, 2.0 / (config.hidden_size as f64).sqrt());
            if name.ends_with("norm.weight") {
                let usual = 1.0 - config.norm_offset() as f32;
                tensor.data.iter_mut().for_each(|value| *value = usual + 0.1 * *value);
            }
            tensors.insert(name, tensor);
        }
        match Self::from_tensors(config, &tensors, device) {
            Ok(model) => model,
            Err(error) => unreachable!("the weights were made to fit: {error}"),
        }
    }

    /// The same weights under a configuration that they fit.
    pub(super) fn with_config(self, config: ModelConfig) -> Self {
        Self { config, ..self }
    }

    /// The policy's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The adapter's settings, if there is one.
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// The device that holds the weights.
    pub fn device(&self) -> Device {
        self.embedding.val().device()
    }

    /// The last hidden states, `[batch, tokens, hidden]`, after the final norm.
    ///
    /// `ids` are `[batch, tokens]`, padded on the right with any valid id: no token looks
    /// at what comes after it, so padding changes nothing but its own rows. Ids must be
    /// smaller than the vocabulary; a device does not check them.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let [_, tokens] = ids.dims();
        let mut x = self.embed(ids);
        let inputs = LayerInputs::causal(&self.config, tokens, &x);
        for layer in &self.layers {
            x = layer.forward(x, &inputs);
        }
        self.norm.forward(x)
    }

    /// `[batch, tokens]` ids to `[batch, tokens, hidden]`.
    pub(crate) fn embed(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let x = self.embedded(ids);
        match self.config.embedding_scale() {
            1.0 => x,
            scale => x.mul_scalar(scale),
        }
    }

    fn embedded(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let table = self.embedding.val();
        #[cfg(feature = "cuda")]
        if has_own_kernels(&table) {
            let ([batch, tokens], width) = (ids.dims(), table.dims()[1]);
            return rows(table, ids.reshape([batch * tokens])).reshape([batch, tokens, width]);
        }
        embedding(table, ids)
    }

    /// The logits of hidden states: `[rows, hidden]` to `[rows, vocabulary]`, in f32.
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        self.capped(matmul_wide(hidden, self.head()))
    }

    /// Logits as the policy bounds them.
    pub(crate) fn capped(&self, logits: Tensor<2>) -> Tensor<2> {
        match self.config.logit_softcap {
            Some(cap) => logits.div_scalar(cap).tanh().mul_scalar(cap),
            None => logits,
        }
    }

    /// `[hidden, vocabulary]`.
    pub(crate) fn head(&self) -> Tensor<2> {
        match &self.head {
            Some(head) => head.val(),
            None => self.embedding.val().transpose(),
        }
    }

    /// A copy for sampling: adapter folded in, no graph, on the plain device. It shares
    /// unchanged weights with the original.
    pub(crate) fn inference_copy(&self) -> Self {
        let merged = if self.lora.is_some() { self.merged() } else { self.clone() };
        merged.valid()
    }

    /// All weights in f32 under their Hugging Face names, in Hugging Face layout, with
    /// the adapter folded in. A tied head is left out, as Hugging Face does.
    pub fn named_tensors(&self) -> NamedTensors {
        if self.lora.is_some() {
            return self.merged().named_tensors();
        }
        let mut tensors = NamedTensors::new("the policy");
        tensors.insert(EMBEDDING, host(self.embedding.val()));
        for (index, layer) in self.layers.iter().enumerate() {
            layer.store(&mut tensors, index);
        }
        tensors.insert(FINAL_NORM, host(self.norm.weight.val()));
        if let Some(head) = &self.head {
            tensors.insert(HEAD, host(head.val()).transposed());
        }
        tensors
    }

    /// The rotary tables for positions `0..length`: of all layers, and of those with a window if it differs.
    pub(crate) fn rotary_tables(&self, length: usize) -> (RotaryTable, Option<RotaryTable>) {
        let device = self.device();
        (RotaryTable::new(&self.config, length, &device), RotaryTable::local(&self.config, length, &device))
    }
}

/// The rows of a matrix with the given numbers.
pub(crate) fn pick_rows(matrix: Tensor<2>, numbers: Tensor<1, Int>) -> Tensor<2> {
    #[cfg(feature = "cuda")]
    if has_own_kernels(&matrix) {
        return rows(matrix, numbers);
    }
    matrix.select(0, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    use crate::model::config::tests::{tiny, tiny_of};
    use crate::model::{Family, LoraTargets};

    fn device() -> Device {
        Device::flex()
    }

    fn ids(rows: &[&[i32]]) -> Tensor<2, Int> {
        let values: Vec<i32> = rows.concat();
        Tensor::from_data(TensorData::new(values, [rows.len(), rows[0].len()]), &device())
    }

    /// Logits of every token, `[rows · tokens, vocabulary]`.
    fn logits(model: &CausalLm, rows: &[&[i32]]) -> Vec<f32> {
        let hidden = model.hidden(ids(rows));
        let [batch, tokens, width] = hidden.dims();
        host(model.logits(hidden.reshape([batch * tokens, width]))).data
    }

    fn close(left: &[f32], right: &[f32], tolerance: f32) {
        assert_eq!(left.len(), right.len());
        let worst = left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        assert!(worst <= tolerance, "values differ by {worst}");
    }

    #[test]
    fn no_token_sees_what_comes_after_it_or_in_another_row() {
        for family in Family::ALL {
            blind(&CausalLm::random(tiny_of(family), 1, &device()));
        }
    }

    fn blind(model: &CausalLm) {
        let one = logits(model, &[&[5, 6, 7, 8]]);
        let two = logits(model, &[&[5, 6, 7, 8, 2, 2], &[9, 9, 9, 9, 9, 9]]);
        close(&one, &two[..one.len()], 1e-5);
        // And the test can fail: another token before changes what follows.
        let other = logits(model, &[&[4, 6, 7, 8]]);
        let last = one.len() - 50;
        assert!(one[last..].iter().zip(&other[last..]).any(|(a, b)| (a - b).abs() > 1e-2));
    }

    #[test]
    fn weights_survive_the_way_to_the_device_and_back() {
        let untied = ModelConfig { tie_word_embeddings: false, ..tiny() };
        for config in Family::ALL.map(tiny_of).into_iter().chain([tiny(), untied]) {
            let model = CausalLm::random(config.clone(), 2, &device());
            let tensors = model.named_tensors();
            let names: Vec<_> =
                tensors.iter().map(|(name, tensor)| (name.to_string(), tensor.shape.clone())).collect();
            let mut expected = config.shapes();
            expected.sort();
            assert_eq!(names, expected);
            let again = CausalLm::from_tensors(config, &tensors, &device()).unwrap();
            assert_eq!(again.named_tensors(), tensors);
            close(&logits(&model, &[&[3, 4, 5]]), &logits(&again, &[&[3, 4, 5]]), 0.0);
        }
    }

    #[test]
    fn a_missing_weight_is_an_error() {
        let config = ModelConfig { tie_word_embeddings: false, ..tiny() };
        let tensors = CausalLm::random(tiny(), 2, &device()).named_tensors();
        let error = CausalLm::from_tensors(config, &tensors, &device()).err().map(|error| error.to_string());
        assert!(error.unwrap_or_default().contains("`lm_head.weight` is missing from the policy"));
    }

    fn lora() -> LoraConfig {
        LoraConfig { rank: 2, alpha: 6.0, first_layer: 1, ..LoraConfig::default() }
    }

    fn trained(model: CausalLm) -> CausalLm {
        trained_as(model, lora())
    }

    fn trained_as(model: CausalLm, lora: LoraConfig) -> CausalLm {
        model.with_drawn_lora(lora).unwrap()
    }

    #[test]
    fn an_adapter_goes_on_any_linear_map() {
        let check = |family: Family, names: &[&str], modules: &[&str]| {
            let targets = LoraTargets::named(names.iter().copied()).unwrap();
            let lora = LoraConfig { targets, first_layer: 0, ..lora() };
            let base = CausalLm::random(tiny_of(family), 5, &device());
            let before = logits(&base, &[&[3, 4, 5, 6]]);
            close(&before, &logits(&base.clone().with_lora(lora, 3), &[&[3, 4, 5, 6]]), 0.0);
            let adapted = trained_as(base, lora);
            let with = logits(&adapted, &[&[3, 4, 5, 6]]);
            assert!(before.iter().zip(&with).any(|(a, b)| (a - b).abs() > 1e-3), "{names:?}");
            close(&with, &logits(&adapted.merged(), &[&[3, 4, 5, 6]]), 1e-4);
            let tensors = adapted.lora_tensors();
            assert_eq!(
                LoraTargets::of_tensors(tensors.iter().map(|(name, _)| name)).names(adapted.config()),
                targets.names(adapted.config())
            );
            let found: std::collections::BTreeSet<String> = tensors
                .iter()
                .map(|(name, _)| name.split(".lora_").next().unwrap().rsplit('.').next().unwrap().to_string())
                .collect();
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), modules, "{names:?}");
        };
        check(Family::Llama, &["q_proj"], &["q_proj"]);
        check(Family::Qwen2, &["v_proj", "k_proj", "down_proj"], &["down_proj", "k_proj", "v_proj"]);
        check(Family::Gemma3, &["self_attn.o_proj", "mlp.up_proj"], &["o_proj", "up_proj"]);
        check(Family::Qwen3Moe, &["gate"], &["gate"]);
        check(Family::Qwen3Moe, &["up_proj", "q_proj"], &["q_proj", "up_proj"]);
        let all = ["down_proj", "gate", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"];
        check(Family::Qwen3Moe, &["all-linear"], &all);
    }

    #[test]
    fn every_factor_of_experts_and_router_is_trained() {
        use crate::learner::{Learner, LearnerConfig, Sample};
        let lora = LoraConfig { targets: LoraTargets::all(), first_layer: 0, ..lora() };
        let base = CausalLm::random(tiny_of(Family::Qwen3Moe), 5, &device());
        let config = LearnerConfig { learning_rate: 1e-2, ..LearnerConfig::default() };
        let adapted = trained_as(base, lora);
        let before = adapted.lora_tensors();
        let mut learner = Learner::new(adapted, config).unwrap();
        let sample = |seed: u32| {
            Sample::demonstration(
                (0..30).map(|at| (at * 7 + seed * 5) % 50).collect(),
                (0..30).map(|at| at > 2).collect(),
            )
        };
        let report = learner.supervised_step(&(0..8).map(sample).collect::<Vec<_>>()).unwrap();
        assert_eq!(report.skipped, None);
        let after = learner.model().lora_tensors();
        for (name, tensor) in before.iter() {
            assert_ne!(&after.get(name).unwrap().data, &tensor.data, "{name}");
        }
    }

    #[test]
    fn a_new_adapter_changes_nothing_and_a_merged_one_computes_the_same() {
        let base = CausalLm::random(tiny(), 5, &device());
        let fresh = base.clone().with_lora(lora(), 3);
        let before = logits(&base, &[&[3, 4, 5]]);
        close(&before, &logits(&fresh, &[&[3, 4, 5]]), 0.0);

        let adapted = trained(base);
        let with = logits(&adapted, &[&[3, 4, 5]]);
        assert!(before.iter().zip(&with).any(|(a, b)| (a - b).abs() > 1e-2));
        close(&with, &logits(&adapted.merged(), &[&[3, 4, 5]]), 1e-4);
        assert!(adapted.merged().lora().is_none());
        let exported = CausalLm::from_tensors(tiny(), &adapted.named_tensors(), &device()).unwrap();
        close(&with, &logits(&exported, &[&[3, 4, 5]]), 1e-4);
    }

    #[test]
    fn an_adapter_has_pefts_names_and_shapes() {
        let adapter = CausalLm::random(tiny(), 5, &device()).with_lora(lora(), 3).lora_tensors();
        assert_eq!(adapter.len(), 2 * 7 * 2);
        let prefix = "base_model.model.model.layers.2";
        for (name, shape) in [("self_attn.k_proj.lora_A", [2, 24]), ("mlp.down_proj.lora_B", [24, 2])] {
            adapter.expect(&format!("{prefix}.{name}.weight"), &shape).unwrap();
        }
        assert!(!adapter.iter().any(|(name, _)| name.contains("layers.0.")));
    }

    #[test]
    fn an_adapter_for_other_layers_is_refused() {
        let model = CausalLm::random(tiny(), 5, &device());
        let adapter = model.clone().with_lora(lora(), 3).lora_tensors();
        for first_layer in [0, 2, 9] {
            assert!(model.clone().load_lora(&adapter, LoraConfig { first_layer, ..lora() }).is_err());
        }
        assert!(model.load_lora(&adapter, LoraConfig { rank: 3, ..lora() }).is_err());
    }

    #[test]
    fn only_adapters_get_a_gradient() {
        let model = trained(CausalLm::random(tiny(), 6, &device())).to_device(&device().autodiff()).train();
        let rows = ids(&[&[3, 4, 5]]);
        let loss = model.logits(model.hidden(rows).reshape([3, 24])).powi_scalar(2).mean();
        let gradients = loss.backward();
        assert!(model.embedding.val().grad(&gradients).is_none());
        for (index, layer) in model.layers.iter().enumerate() {
            for (_, projection) in layer.projections(index) {
                assert!(projection.weight.val().grad(&gradients).is_none());
                assert_eq!(projection.adapters.is_empty(), index == 0);
                for adapter in &projection.adapters {
                    for factor in [&adapter.a, &adapter.b] {
                        let gradient = factor.val().grad(&gradients).expect("an adapter has a gradient");
                        assert!(host(gradient).data.iter().any(|value| *value != 0.0));
                    }
                }
            }
        }
    }
}
