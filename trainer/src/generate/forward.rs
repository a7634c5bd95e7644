//! What are the next-token logits of a ragged batch, given what is in the cache?

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
#[cfg(feature = "cuda")]
use rand::Rng;

#[cfg(feature = "cuda")]
use super::GenerateError;
use super::cache::{KvCache, Places};
#[cfg(feature = "cuda")]
use super::sampler::{Draw, Token};
#[cfg(feature = "cuda")]
use crate::kernel::{Decoder, Drawing, Step};
use crate::kernel::{fuses_attention, matmul_wide};
use crate::model::{CausalLm, LayerInputs, MASKED, RotaryTable};

/// New tokens of one slot.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub slot: usize,
    /// How many tokens of the slot are in the cache already.
    pub start: usize,
    /// At least one.
    pub ids: Vec<u32>,
}

/// To which sizes batches are padded. Few different shapes matter where a shape means
/// compiling and tuning kernels; on the CPU any padding is wasted work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    /// Positions attended to are a multiple of this.
    pub positions: usize,
    /// New tokens of a row, unless it is one, are a multiple of this.
    pub tokens: usize,
    /// Whether rows are padded to a power of two and attention runs over all slots.
    pub rows: bool,
    /// Padded tokens of one batch.
    pub budget: usize,
}

impl Buckets {
    pub fn of(device: &Device) -> Self {
        match *device == Device::flex() {
            true => Self { positions: 16, tokens: 1, rows: false, budget: 256 },
            false => Self { positions: 256, tokens: 64, rows: true, budget: 8192 },
        }
    }

    fn tokens(&self, longest: usize) -> usize {
        if longest == 1 { 1 } else { longest.next_multiple_of(self.tokens) }
    }
}

/// Reading a token with a recorded graph takes a few milliseconds, and a padded batch some tens.
#[cfg(feature = "cuda")]
const SINGLY: usize = 8;

/// The policy as the worker computes it.
pub(super) struct Inference {
    model: CausalLm,
    /// `[hidden, vocabulary]`, laid out so that a product reads it in order.
    head: Tensor<2>,
    rotary: RotaryTable,
    /// Of layers with a window, where it differs.
    local_rotary: Option<RotaryTable>,
    pub buckets: Buckets,
    device: Device,
    /// Computes one token a row where it can, in one launch.
    #[cfg(feature = "cuda")]
    decoder: Option<Decoder>,
}

impl Inference {
    /// Prepares a copy of `model` for contexts of `context` tokens in `slots` slots.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub fn new(model: &CausalLm, slots: usize, context: usize) -> Self {
        let model = model.inference_copy();
        let device = model.device();
        let buckets = Buckets::of(&device);
        // Padding may reach past the context.
        let (rotary, local_rotary) = model.rotary_tables(context + buckets.positions.max(buckets.tokens));
        Self {
            head: model.head(),
            #[cfg(feature = "cuda")]
            decoder: Decoder::new(&model, &rotary, slots),
            rotary,
            local_rotary,
            model,
            buckets,
            device,
        }
    }

    pub fn model(&self) -> &CausalLm {
        &self.model
    }

    /// The most tokens of a prompt that are better read one by one; 0 if none.
    pub fn reads_singly(&self) -> usize {
        #[cfg(feature = "cuda")]
        if self.decoder.is_some() {
            return SINGLY;
        }
        0
    }

    fn fuses_attention(&self, tokens: usize) -> bool {
        fuses_attention(&self.model.embedding.val(), tokens)
    }

    /// A cache for this policy.
    pub fn cache(&self, slots: usize, context: usize) -> KvCache {
        let dtype = self.model.embedding.val().dtype();
        let limit = context + self.buckets.positions.max(self.buckets.tokens);
        KvCache::new(self.model.config(), slots, limit, &self.device, dtype)
    }

    /// Computes the rows' tokens and stores their keys and values. Returns the last hidden
    /// state of each row, `[rows, hidden]`, after the final norm.
    pub fn advance(&mut self, cache: &mut KvCache, rows: &[Row]) -> Tensor<2> {
        #[cfg(feature = "cuda")]
        if let Some(hidden) = self.decode(cache, rows) {
            return hidden;
        }
        let asked = rows.len();
        let mut rows = rows.to_vec();
        if self.buckets.rows {
            // A repeated row writes what is there already.
            let last = rows[asked - 1].clone();
            rows.resize(asked.next_power_of_two(), last);
        }
        let tokens = self.buckets.tokens(rows.iter().map(|row| row.ids.len()).max().unwrap_or(1));
        let end = rows.iter().map(|row| row.start).max().unwrap_or(0) + tokens;
        let positions = end.next_multiple_of(self.buckets.positions);
        cache.reserve(positions);

        let batch = Batch::new(self, cache, &rows, tokens, positions);
        let mut x = self.model.embed(batch.ids.clone());
        for (index, layer) in self.model.layers.iter().enumerate() {
            let (rotation, bias) = batch.inputs.of(layer.slides);
            let qkv = layer.attention.project(layer.attention_norm.forward(x.clone()), rotation);
            if batch.fresh {
                cache.write(index, &batch.places, qkv.keys.clone(), qkv.values.clone());
                let attended = layer.attention.attend_fused(qkv.queries, qkv.keys, qkv.values);
                x = layer.after_attention(x, layer.attention.output.forward(attended));
                continue;
            }
            cache.write(index, &batch.places, qkv.keys, qkv.values);
            let [keys, values] = cache.read(index, batch.slots.clone(), positions);
            let queries = match &batch.to_slots {
                Some(to_slots) => qkv.queries.select(0, to_slots.clone()),
                None => qkv.queries,
            };
            let mut attended = layer.attention.attend(queries, keys, values, bias);
            if let Some(from_slots) = &batch.from_slots {
                attended = attended.select(0, from_slots.clone());
            }
            x = layer.after_attention(x, layer.attention.output.forward(attended));
        }
        let [count, _, hidden] = x.dims();
        let last: Tensor<2> = match tokens {
            1 => x.reshape([count, hidden]),
            _ => x.reshape([count * tokens, hidden]).select(0, batch.last.clone()),
        };
        let last: Tensor<2> = self.model.norm.forward(last);
        last.narrow(0, 0, asked)
    }

    /// [`advance`](Self::advance) for rows of one token each, where the device has a way of its own.
    #[cfg(feature = "cuda")]
    fn decode(&mut self, cache: &mut KvCache, rows: &[Row]) -> Option<Tensor<2>> {
        let steps = self.steps(cache, rows)?;
        let hidden = self.decoder.as_mut()?.advance(&steps, cache.own()?);
        // The worker starts over with an empty cache after a panic, as after those of a backend.
        Some(hidden.unwrap_or_else(|reason| panic!("{reason}")))
    }

    /// The rows as single tokens, with room for them in the cache; none if a row has more.
    #[cfg(feature = "cuda")]
    fn steps(&self, cache: &mut KvCache, rows: &[Row]) -> Option<Vec<Step>> {
        self.decoder.as_ref()?;
        let steps = rows.iter().map(|row| match row.ids.as_slice() {
            [id] => Some(Step { slot: row.slot, position: row.start, id: *id }),
            _ => None,
        });
        let steps = steps.collect::<Option<Vec<_>>>()?;
        let end = steps.iter().map(|step| step.position).max().unwrap_or(0) + 1;
        cache.reserve(end.next_multiple_of(self.buckets.positions));
        Some(steps)
    }

    /// Computes rows of one token each and draws the token after each on the device, where it can: with one launch
    /// and one transfer. The draws' generators are asked for a seed each.
    #[cfg(feature = "cuda")]
    pub fn draw(
        &mut self,
        cache: &mut KvCache,
        rows: &[Row],
        draws: &mut [Draw],
    ) -> Option<Result<Vec<Token>, GenerateError>> {
        if !self.decoder.as_ref()?.draws() || draws.iter().any(Draw::is_restricted) {
            return None;
        }
        let steps = self.steps(cache, rows)?;
        let drawings: Vec<Drawing> = draws
            .iter_mut()
            .map(|draw| Drawing {
                seed: draw.random.random(),
                inverse: if draw.temperature > 0.0 { draw.temperature.recip() } else { 0.0 },
                unused: 0,
            })
            .collect();
        let drawn = self.decoder.as_mut()?.draw(&steps, &drawings, cache.own()?);
        let drawn = drawn.unwrap_or_else(|reason| panic!("{reason}"));
        let token = |id: i32, logprob: f32| match u32::try_from(id) {
            Ok(id) => Ok(Token { id, logprob }),
            Err(_) => Err(GenerateError::Failed { reason: "the logits are not finite".into() }),
        };
        Some(drawn.into_iter().map(|drawn| token(drawn.id, drawn.logp)).collect())
    }

    /// `[rows, hidden]` to `[rows, vocabulary]`, in f32.
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        self.model.capped(matmul_wide(hidden, self.head.clone()))
    }
}

/// The logits of every token of `sequences`, read in the way of the generator: prompts of half their
/// length together, then token by token. Rows of all sequences, one after another.
pub(crate) fn replayed_logits(model: &CausalLm, sequences: &[Vec<u32>]) -> Vec<f32> {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut inference = Inference::new(model, sequences.len(), longest);
    let mut cache = inference.cache(sequences.len(), longest);
    let mut all: Vec<f32> = Vec::new();
    let mut read = |rows: &[Row]| {
        let hidden = inference.advance(&mut cache, rows);
        let logits = inference.logits(hidden);
        all.extend(logits.into_data().iter::<f32>());
    };
    let row = |slot: usize, start: usize, end: usize| Row {
        slot,
        start,
        ids: sequences[slot][start..end].to_vec(),
    };
    let halves: Vec<Row> = (0..sequences.len()).map(|slot| row(slot, 0, sequences[slot].len() / 2)).collect();
    read(&halves);
    for step in 0..longest {
        let rows: Vec<Row> = (0..sequences.len())
            .filter(|slot| sequences[*slot].len() / 2 + step < sequences[*slot].len())
            .map(|slot| (slot, sequences[slot].len() / 2 + step))
            .map(|(slot, at)| row(slot, at, at + 1))
            .collect();
        if !rows.is_empty() {
            read(&rows);
        }
    }
    all
}

/// What all layers need to know of a batch.
struct Batch {
    /// `[rows, tokens]`, padded.
    ids: Tensor<2, Int>,
    /// With biases of `[slots, 1, 1, tokens, positions]`.
    inputs: LayerInputs,
    /// Where the tokens' keys and values go.
    places: Places,
    /// Slots that attention runs over: all between the first and the last of the batch,
    /// since a part of the cache can be read in place only as a range.
    slots: std::ops::Range<usize>,
    /// For each slot of the range, a row of the batch; none if they are the same.
    to_slots: Option<Tensor<1, Int>>,
    /// For each row of the batch, its slot within the range; likewise.
    from_slots: Option<Tensor<1, Int>>,
    /// The last token of each row among `rows · tokens`.
    last: Tensor<1, Int>,
    /// Whether each row begins its sequence, so that it looks at nothing but itself.
    fresh: bool,
}

impl Batch {
    fn new(inference: &Inference, cache: &KvCache, rows: &[Row], tokens: usize, positions: usize) -> Self {
        let device = &inference.device;
        let count = rows.len();
        let integers = |values: Vec<i64>| -> Tensor<1, Int> {
            let length = values.len();
            Tensor::from_data(TensorData::new(values, [length]), device)
        };

        let mut ids = Vec::with_capacity(count * tokens);
        for row in rows {
            ids.extend(row.ids.iter().map(|id| i64::from(*id)));
            ids.resize(ids.len().next_multiple_of(tokens), 0);
        }
        let (first, last) =
            rows.iter().fold((usize::MAX, 0), |(first, last), row| (first.min(row.slot), last.max(row.slot)));
        let slots = match inference.buckets.rows {
            true => 0..(last + 1).next_power_of_two().min(cache.slots()),
            false => first..last + 1,
        };
        let in_order =
            count == slots.len() && rows.iter().zip(slots.clone()).all(|(row, slot)| row.slot == slot);

        let fresh = rows.iter().all(|row| row.start == 0) && inference.fuses_attention(tokens);
        // Padding writes behind its row's tokens, where nobody looks before it is overwritten.
        let bias = |window: usize| -> Option<Tensor<5>> {
            if fresh {
                return None;
            }
            let mut bias = vec![MASKED; slots.len() * tokens * positions];
            for row in rows {
                for token in 0..tokens {
                    let from = ((row.slot - slots.start) * tokens + token) * positions;
                    let end = row.start + token + 1;
                    bias[from + end.saturating_sub(window)..from + end].fill(0.0);
                }
            }
            let bias = TensorData::new(bias, [slots.len(), 1, 1, tokens, positions]);
            Some(Tensor::from_data(bias, (device, DType::F32)))
        };
        let mut to_slots = vec![0; slots.len()];
        for (number, row) in rows.iter().enumerate() {
            to_slots[row.slot - slots.start] = number as i64;
        }
        let from_slots: Vec<i64> = rows.iter().map(|row| (row.slot - slots.start) as i64).collect();
        let at = rows.iter().flat_map(|row| (row.start..row.start + tokens).map(|at| at as i64));
        let at = integers(at.collect());
        let rotation = inference.rotary.at(at.clone(), count, tokens);
        let local = inference.local_rotary.as_ref().map(|table| table.at(at, count, tokens));
        let inputs = LayerInputs::new(inference.model.config(), rotation, local, bias);
        Self {
            ids: integers(ids).reshape([count, tokens]),
            inputs,
            places: cache.places(rows.iter().map(|row| (row.slot, row.start)), tokens),
            to_slots: (!in_order).then(|| integers(to_slots)),
            from_slots: (!in_order).then(|| integers(from_slots)),
            slots,
            fresh,
            last: integers(
                rows.iter().enumerate().map(|(n, row)| (n * tokens + row.ids.len() - 1) as i64).collect(),
            ),
        }
    }
}
