//! Where do the keys and values of tokens live that were computed before?

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::model::ModelConfig;

/// Keys and values of every slot.
///
/// One matrix for each layer and kind, whose row `(slot · heads + head) · capacity +
/// position` is one head of one token. So one indexed write stores the tokens of a
/// whole ragged batch, in place.
pub(super) struct KvCache {
    layers: Vec<[Tensor<2>; 2]>,
    slots: usize,
    heads: usize,
    /// Tokens that fit into a slot now.
    capacity: usize,
    /// Tokens that it may grow to.
    limit: usize,
    width: usize,
    device: Device,
    dtype: DType,
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
        };
        cache.layers = (0..config.num_hidden_layers).map(|_| [cache.zeros(), cache.zeros()]).collect();
        cache
    }

    fn zeros(&self) -> Tensor<2> {
        let rows = self.slots * self.heads * self.capacity;
        Tensor::zeros([rows, self.width], (&self.device, self.dtype))
    }

    /// How many sequences fit.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Makes room for `tokens` in every slot.
    pub fn reserve(&mut self, tokens: usize) {
        if tokens <= self.capacity {
            return;
        }
        let old = self.capacity;
        self.capacity = tokens.max(old * GROWTH).min(self.limit.max(tokens));
        let (slots, heads, width) = (self.slots, self.heads, self.width);
        let new_rows = slots * heads * self.capacity;
        for index in 0..self.layers.len() {
            for kind in 0..2 {
                let wide: Tensor<4> = self.zeros().reshape([slots, heads, self.capacity, width]);
                self.layers[index][kind].inplace(|narrow| {
                    let narrow: Tensor<4> = narrow.reshape([slots, heads, old, width]);
                    wide.slice_assign([0..slots, 0..heads, 0..old, 0..width], narrow)
                        .reshape([new_rows, width])
                });
            }
        }
    }

    /// The rows of tokens at `(slot, position)`, all heads of one after the other.
    pub fn rows(&self, tokens: impl Iterator<Item = (usize, usize)>) -> Tensor<1, Int> {
        let rows: Vec<i64> = tokens
            .flat_map(|(slot, position)| {
                (0..self.heads)
                    .map(move |head| ((slot * self.heads + head) * self.capacity + position) as i64)
            })
            .collect();
        let count = rows.len();
        Tensor::from_data(TensorData::new(rows, [count]), &self.device)
    }

    /// Stores keys and values, `[rows, tokens, heads, head_dim]`, at `rows`.
    pub fn write(&mut self, layer: usize, rows: &Tensor<1, Int>, keys: Tensor<4>, values: Tensor<4>) {
        for (stored, new) in self.layers[layer].iter_mut().zip([keys, values]) {
            let [batch, tokens, heads, width] = new.dims();
            let new = new.reshape([batch * tokens * heads, width]);
            stored.inplace(|stored| stored.select_assign(0, rows.clone(), new, IndexingUpdateOp::Assign));
        }
    }

    /// Keys and values of the first `positions` tokens of the slots in `range`:
    /// `[slots, heads, positions, head_dim]`. They must be dropped before the next write,
    /// which would copy the cache otherwise.
    pub fn read(&self, layer: usize, range: std::ops::Range<usize>, positions: usize) -> [Tensor<4>; 2] {
        self.layers[layer].each_ref().map(|stored| {
            let all: Tensor<4> = stored.clone().reshape([self.slots, self.heads, self.capacity, self.width]);
            all.slice([range.clone(), 0..self.heads, 0..positions, 0..self.width])
        })
    }

    /// Copies the first `tokens` of one slot to another.
    pub fn copy(&mut self, from: usize, to: usize, tokens: usize) {
        let source = self.rows((0..tokens).map(|position| (from, position)));
        let target = self.rows((0..tokens).map(|position| (to, position)));
        for stored in self.layers.iter_mut().flatten() {
            let copied = stored.clone().select(0, source.clone());
            stored
                .inplace(|stored| stored.select_assign(0, target.clone(), copied, IndexingUpdateOp::Assign));
        }
    }
}
