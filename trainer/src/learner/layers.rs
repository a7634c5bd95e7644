//! How do a pass forward and its gradient go through the layers, and what is kept in between?

use burn::module::Module;
use burn::prelude::*;

use super::Recompute;
use super::batch::MicroBatch;
use crate::model::{CausalLm, LayerInputs, pick_rows};
use crate::optimizer::{StepGradients, has_trainable};

/// A pass forward that is ready to be pulled back.
pub(super) enum Forward {
    /// With its graph: the final hidden states of the trained rows, `[rows, hidden size]`.
    Whole(Tensor<2>),
    /// Without a graph.
    ByLayers(Kept),
}

/// What is kept to compute layers again.
pub(super) struct Kept {
    ids: Tensor<2, Int>,
    /// The inputs of the layers from the lowest one that a gradient reaches, each `[sequences, width, hidden size]`.
    inputs: Vec<Tensor<3>>,
    /// What the last layer gave.
    last: Tensor<3>,
    /// The final hidden states of the trained rows.
    selected: Tensor<2>,
}

impl Forward {
    pub fn new(model: &CausalLm, batch: &MicroBatch, recompute: Recompute, device: &Device) -> Self {
        match recompute {
            Recompute::None => Self::Whole(trained_hidden(model, batch, device)),
            Recompute::Layer => Self::ByLayers(Kept::new(model, batch, device)),
        }
    }

    /// The final hidden states of the trained rows, without a graph.
    pub fn values(&self) -> Tensor<2> {
        match self {
            Self::Whole(selected) => selected.clone().inner(),
            Self::ByLayers(kept) => kept.selected.clone(),
        }
    }

    /// Adds the gradients of everything before the head to `sums`, given those by the rows.
    pub fn pull_back(
        self,
        model: &CausalLm,
        batch: &MicroBatch,
        by_rows: Tensor<2>,
        sums: &mut StepGradients,
        device: &Device,
    ) {
        match self {
            // The gradient of Σ hidden · constant by the hidden states is the constant. Without a
            // graph only the head is trained, and it has its gradient already.
            Self::Whole(selected) => {
                if selected.is_tracked() {
                    let mut gradients = (selected * by_rows).sum().backward();
                    sums.accumulate(model, &mut gradients);
                }
            }
            Self::ByLayers(kept) => kept.pull_back(model, batch, by_rows, sums, device),
        }
    }
}

impl Kept {
    fn new(model: &CausalLm, batch: &MicroBatch, device: &Device) -> Self {
        let ids = ids(batch, device);
        let lowest = lowest_trained(model);
        // The operations are those of a pass with a graph, and there is nothing to keep: where nothing can ever have a
        // gradient, a backend may compute in another order, and the bits would differ.
        let frozen = model.clone().no_grad();
        let mut x = frozen.embed(ids.clone());
        let layer_inputs = LayerInputs::causal(model.config(), batch.width, &x);
        let mut inputs = Vec::new();
        for (index, layer) in frozen.layers.iter().enumerate() {
            if index >= lowest {
                inputs.push(x.clone().inner());
            }
            x = layer.forward(x, &layer_inputs);
        }
        let selected = trained_rows(frozen.norm.forward(x.clone()), batch, device).inner();
        Self { ids, inputs, last: x.inner(), selected }
    }

    fn pull_back(
        self,
        model: &CausalLm,
        batch: &MicroBatch,
        by_rows: Tensor<2>,
        sums: &mut StepGradients,
        device: &Device,
    ) {
        let embedding_is_trained = model.embedding.is_require_grad();
        let goes_on = |inputs: usize| inputs > 0 || embedding_is_trained;
        if !goes_on(self.inputs.len()) && !has_trainable(&model.norm) {
            return;
        }
        let last = self.last.autodiff().require_grad();
        let selected = trained_rows(model.norm.forward(last.clone()), batch, device);
        let mut gradients = (selected * by_rows).sum().backward();
        sums.accumulate_within(&["norm"], &model.norm, &mut gradients);
        let mut above = last.grad_remove(&mut gradients);
        let mut inputs = self.inputs;
        let mut index = model.layers.len();
        let layer_inputs = LayerInputs::causal(model.config(), batch.width, &last);
        while let Some(input) = inputs.pop() {
            let Some(by_output) = above.take() else { return };
            index -= 1;
            let layer = &model.layers[index];
            let wanted = goes_on(inputs.len());
            let input = input.autodiff().set_require_grad(wanted);
            let output = layer.forward(input.clone(), &layer_inputs);
            let mut gradients = (output * by_output).sum().backward();
            sums.accumulate_within(&["layers", &index.to_string()], layer, &mut gradients);
            if wanted {
                above = input.grad_remove(&mut gradients);
            }
        }
        if let (true, Some(by_embedded)) = (embedding_is_trained, above) {
            let mut gradients = (model.embed(self.ids) * by_embedded).sum().backward();
            sums.accumulate(model, &mut gradients);
        }
    }
}

/// The lowest layer that a gradient goes into.
fn lowest_trained(model: &CausalLm) -> usize {
    if model.embedding.is_require_grad() {
        return 0;
    }
    model.layers.iter().position(has_trainable).unwrap_or(model.layers.len())
}

fn ids(batch: &MicroBatch, device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(batch.ids.clone(), [batch.sequences, batch.width]), device)
}

/// The final hidden states of the trained rows, `[rows, hidden size]`.
pub(super) fn trained_hidden(model: &CausalLm, batch: &MicroBatch, device: &Device) -> Tensor<2> {
    trained_rows(model.hidden(ids(batch, device)), batch, device)
}

fn trained_rows(hidden: Tensor<3>, batch: &MicroBatch, device: &Device) -> Tensor<2> {
    let width = hidden.dims()[2];
    let hidden: Tensor<2> = hidden.reshape([batch.sequences * batch.width, width]);
    let flat: Vec<i32> = batch.rows.iter().map(|row| row.flat as i32).collect();
    let all = flat.len() == batch.sequences * batch.width && flat.iter().zip(0..).all(|(at, n)| *at == n);
    if all {
        return hidden;
    }
    let flat = Tensor::<1, Int>::from_data(TensorData::new(flat, [batch.rows.len()]), device);
    pick_rows(hidden, flat)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{adapted, all_objectives, full, policy_gradient, samples};
    use super::*;
    use crate::learner::LearnerConfig;
    use crate::model::{Family, LoraConfig, tiny_of};

    #[test]
    fn layers_computed_again_give_the_same_bits() {
        let families = Family::ALL.map(|family| CausalLm::random(tiny_of(family), 3, &Device::flex()));
        let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 1, ..LoraConfig::default() };
        let with_adapters = families.clone().map(|model| model.with_lora(lora, 3));
        let own = [full(true), full(false), adapted()];
        for model in own.into_iter().chain(families).chain(with_adapters) {
            for objective in all_objectives() {
                // Several micro-batches, and several chunks of rows.
                let kept =
                    LearnerConfig { objective, micro_batch_tokens: 30, head_rows: 5, ..Default::default() };
                let again = LearnerConfig { recompute: Recompute::Layer, ..kept.clone() };
                let expected = policy_gradient(&model, &kept, &samples(1));
                assert!(expected.iter().flat_map(|(_, values)| values).any(|value| *value != 0.0));
                let family = model.config().family;
                assert_eq!(policy_gradient(&model, &again, &samples(1)), expected, "{family:?}");
            }
        }
    }

    #[test]
    fn only_inputs_that_a_gradient_reaches_are_kept() {
        let samples = samples(1);
        let members: Vec<usize> = (0..samples.len()).collect();
        let batch = &super::super::batch::pack(&samples, &members, 10_000, 1)[0];
        for (model, expected) in [(full(true), 3), (adapted(), 2)] {
            let model = model.train();
            let kept = Kept::new(&model, batch, &Device::flex());
            assert_eq!(kept.inputs.len(), expected);
            assert!(!kept.selected.is_tracked() && !kept.last.is_tracked());
        }
    }
}
