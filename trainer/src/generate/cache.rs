//! Where do the keys and values of tokens live that were computed before?

use std::ops::Range;

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::model::ModelConfig;

/// Keys and values of every slot, written in place for a whole ragged batch at once.
///
/// Values are kept as rows of one matrix: row `(slot · heads + head) · capacity +
/// position` is one head of one token. Keys are kept transposed, as one column in which
/// the positions of a component follow each other: the product of queries and keys then
/// reads memory in order, which is four times as fast on the CPU as transposing each time.
pub(super) struct KvCache {
    layers: Vec<Stored>,
    slots: usize,
    heads: usize,
    /// Tokens that fit into a slot now.
    capacity: usize,
    /// Tokens that it may grow to.
    limit: usize,
    width: usize,
    device: Device,
    dtype: DType,
    /// Grows with each change that may move what is stored.
    changes: u64,
}

struct Stored {
    /// `[slots · heads · head_dim · capacity, 1]`.
    keys: Tensor<2>,
    /// `[slots · heads · capacity, head_dim]`.
    values: Tensor<2>,
}

/// Where the tokens of a batch are kept, in the order of the batch.
pub(super) struct Places {
    keys: Tensor<1, Int>,
    values: Tensor<1, Int>,
}

/// Capacity grows in steps of this factor, since growing copies everything.
const GROWTH: usize = 2;
const FIRST_CAPACITY: usize = 512;

impl KvCache {
    pub fn new(config: &ModelConfig, slots: usize, limit: usize, device: &Device, dtype: DType) -> Self {
        let mut cache = Self {
            layers: Vec::new(),
            slots,
            heads: config.num_key_value_heads,
            capacity: limit.min(FIRST_CAPACITY),
            limit,
            width: config.head_dim,
            device: device.clone(),
            dtype,
            changes: 0,
        };
        cache.layers = (0..config.num_hidden_layers).map(|_| cache.empty()).collect();
        cache
    }

    fn empty(&self) -> Stored {
        let rows = self.slots * self.heads * self.capacity;
        let zeros = |shape: [usize; 2]| Tensor::zeros(shape, (&self.device, self.dtype));
        Stored { keys: zeros([rows * self.width, 1]), values: zeros([rows, self.width]) }
    }

    /// How many sequences fit.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Changes whenever keys or values may have moved in memory.
    #[cfg(feature = "cuda")]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Tokens that fit into a slot now.
    #[cfg(feature = "cuda")]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keys and values of all layers as they are stored.
    #[cfg(feature = "cuda")]
    pub fn stored(&self) -> impl Iterator<Item = [Tensor<2>; 2]> {
        self.layers.iter().map(|Stored { keys, values }| [keys.clone(), values.clone()])
    }

    /// Makes room for `tokens` in every slot.
    pub fn reserve(&mut self, tokens: usize) {
        if tokens <= self.capacity {
            return;
        }
        self.changes += 1;
        let old = self.capacity;
        self.capacity = tokens.max(old * GROWTH).min(self.limit.max(tokens));
        let (slots, heads, width, new) = (self.slots, self.heads, self.width, self.capacity);
        for index in 0..self.layers.len() {
            let wider = self.empty();
            let stored = &mut self.layers[index];
            stored.keys.inplace(|narrow| {
                let narrow: Tensor<4> = narrow.reshape([slots, heads, width, old]);
                let wide: Tensor<4> = wider.keys.reshape([slots, heads, width, new]);
                let wide = wide.slice_assign([0..slots, 0..heads, 0..width, 0..old], narrow);
                wide.reshape([slots * heads * width * new, 1])
            });
            stored.values.inplace(|narrow| {
                let narrow: Tensor<4> = narrow.reshape([slots, heads, old, width]);
                let wide: Tensor<4> = wider.values.reshape([slots, heads, new, width]);
                let wide = wide.slice_assign([0..slots, 0..heads, 0..old, 0..width], narrow);
                wide.reshape([slots * heads * new, width])
            });
        }
    }

    /// The places of tokens at `(slot, position)`.
    pub fn places(&self, tokens: impl Iterator<Item = (usize, usize)>) -> Places {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (slot, position) in tokens {
            for head in slot * self.heads..(slot + 1) * self.heads {
                values.push((head * self.capacity + position) as i64);
                for component in head * self.width..(head + 1) * self.width {
                    keys.push((component * self.capacity + position) as i64);
                }
            }
        }
        let integers = |values: Vec<i64>| {
            let count = values.len();
            Tensor::from_data(TensorData::new(values, [count]), &self.device)
        };
        Places { keys: integers(keys), values: integers(values) }
    }

    /// Stores keys and values, `[rows, tokens, heads, head_dim]`.
    pub fn write(&mut self, layer: usize, places: &Places, keys: Tensor<4>, values: Tensor<4>) {
        self.changes += 1;
        let [batch, tokens, heads, width] = keys.dims();
        let stored = &mut self.layers[layer];
        assign(&mut stored.keys, &places.keys, keys.reshape([batch * tokens * heads * width, 1]));
        assign(&mut stored.values, &places.values, values.reshape([batch * tokens * heads, width]));
    }

    /// What is kept of the first `positions` tokens of the slots in `range`: keys as
    /// `[slots, heads, head_dim, positions]` and values as `[slots, heads, positions, head_dim]`.
    /// They must be dropped before the next write, which would copy the cache otherwise.
    pub fn read(&self, layer: usize, range: Range<usize>, positions: usize) -> [Tensor<4>; 2] {
        let Stored { keys, values } = &self.layers[layer];
        let (slots, heads, width) = (self.slots, self.heads, self.width);
        let keys: Tensor<4> = keys.clone().reshape([slots, heads, width, self.capacity]);
        let values: Tensor<4> = values.clone().reshape([slots, heads, self.capacity, width]);
        [
            keys.slice([range.clone(), 0..heads, 0..width, 0..positions]),
            values.slice([range, 0..heads, 0..positions, 0..width]),
        ]
    }

    /// Copies the first `tokens` of one slot to another.
    pub fn copy(&mut self, from: usize, to: usize, tokens: usize) {
        self.changes += 1;
        let source = self.places((0..tokens).map(|position| (from, position)));
        let target = self.places((0..tokens).map(|position| (to, position)));
        for Stored { keys, values } in &mut self.layers {
            let copied = keys.clone().select(0, source.keys.clone());
            assign(keys, &target.keys, copied);
            let copied = values.clone().select(0, source.values.clone());
            assign(values, &target.values, copied);
        }
    }
}

/// Overwrites rows of a matrix; in place, as nobody else holds it.
fn assign(stored: &mut Tensor<2>, rows: &Tensor<1, Int>, new: Tensor<2>) {
    stored.inplace(|stored| stored.select_assign(0, rows.clone(), new, IndexingUpdateOp::Assign));
}
