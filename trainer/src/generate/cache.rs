//! Where do the keys and values of tokens live that were computed before?

use std::ops::Range;

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

#[cfg(feature = "cuda")]
use crate::kernel::{DeviceCache, has_own_kernels};
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
    /// In place of `layers`, where kernels of our own read and write keys and values.
    #[cfg(feature = "cuda")]
    own: Option<DeviceCache>,
}

struct Stored {
    /// `[slots · heads · head_dim · capacity, 1]`.
    keys: Tensor<2>,
    /// `[slots · heads · capacity, head_dim]`.
    values: Tensor<2>,
}

/// Where the tokens of a batch are kept, in the order of the batch.
pub(super) enum Places {
    /// The row of each key component and of each value.
    Rows { keys: Tensor<1, Int>, values: Tensor<1, Int> },
    /// The slot and the first position of each row, for a kernel that finds the rest.
    #[cfg(feature = "cuda")]
    Starts { slots: Tensor<1, Int>, starts: Tensor<1, Int> },
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
            #[cfg(feature = "cuda")]
            own: None,
        };
        #[cfg(feature = "cuda")]
        if dtype == DType::BF16 && has_own_kernels(&Tensor::<1>::empty([1], (device, dtype))) {
            let sizes = [slots, cache.heads, cache.width, cache.capacity];
            cache.own = done(DeviceCache::new(device, config.num_hidden_layers, sizes));
            if cache.own.is_some() {
                return cache;
            }
        }
        cache.layers = (0..config.num_hidden_layers).map(|_| cache.empty()).collect();
        cache
    }

    fn empty(&self) -> Stored {
        let rows = self.slots * self.heads * self.capacity;
        let zeros = |shape: [usize; 2]| Tensor::zeros(shape, (&self.device, self.dtype));
        Stored { keys: zeros([rows * self.width, 1]), values: zeros([rows, self.width]) }
    }

    /// Gives all memory back; the cache is of no use any more.
    pub fn release(&mut self) {
        self.layers.clear();
        #[cfg(feature = "cuda")]
        {
            self.own = None;
        }
    }

    /// How many sequences fit.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Keys and values as kernels of our own have them.
    #[cfg(feature = "cuda")]
    pub fn own(&self) -> Option<&DeviceCache> {
        self.own.as_ref()
    }

    /// Makes room for `tokens` in every slot.
    pub fn reserve(&mut self, tokens: usize) {
        if tokens <= self.capacity {
            return;
        }
        let old = self.capacity;
        self.capacity = tokens.max(old * GROWTH).min(self.limit.max(tokens));
        #[cfg(feature = "cuda")]
        if let Some(own) = &mut self.own {
            return done(own.grow(self.capacity));
        }
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

    /// The places of `tokens` tokens each from `(slot, position)` on.
    pub fn places(&self, rows: impl Iterator<Item = (usize, usize)> + Clone, tokens: usize) -> Places {
        let integers = |values: Vec<i64>| {
            let count = values.len();
            Tensor::from_data(TensorData::new(values, [count]), &self.device)
        };
        #[cfg(feature = "cuda")]
        if self.own.is_some() {
            let slots = integers(rows.clone().map(|(slot, _)| slot as i64).collect());
            return Places::Starts { slots, starts: integers(rows.map(|(_, start)| start as i64).collect()) };
        }
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (slot, position) in
            rows.flat_map(|(slot, start)| (start..start + tokens).map(move |at| (slot, at)))
        {
            for head in slot * self.heads..(slot + 1) * self.heads {
                values.push((head * self.capacity + position) as i64);
                for component in head * self.width..(head + 1) * self.width {
                    keys.push((component * self.capacity + position) as i64);
                }
            }
        }
        Places::Rows { keys: integers(keys), values: integers(values) }
    }

    /// Stores keys and values, `[rows, tokens, heads, head_dim]`.
    pub fn write(&mut self, layer: usize, places: &Places, keys: Tensor<4>, values: Tensor<4>) {
        let [batch, tokens, heads, width] = keys.dims();
        match places {
            Places::Rows { keys: key_rows, values: value_rows } => {
                let stored = &mut self.layers[layer];
                assign(&mut stored.keys, key_rows, keys.reshape([batch * tokens * heads * width, 1]));
                assign(&mut stored.values, value_rows, values.reshape([batch * tokens * heads, width]));
            }
            #[cfg(feature = "cuda")]
            Places::Starts { slots, starts } => {
                if let Some(own) = &self.own {
                    done(own.store(layer, [keys, values], [slots.clone(), starts.clone()]));
                }
            }
        }
    }

    /// What is kept of the first `positions` tokens of the slots in `range`: keys as
    /// `[slots, heads, head_dim, positions]` and values as `[slots, heads, positions, head_dim]`.
    /// They must be dropped before the next write, which would copy the cache otherwise.
    pub fn read(&self, layer: usize, range: Range<usize>, positions: usize) -> [Tensor<4>; 2] {
        #[cfg(feature = "cuda")]
        if let Some(own) = &self.own {
            return done(own.read(layer, range, positions));
        }
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
        #[cfg(feature = "cuda")]
        if let Some(own) = &self.own {
            return done(own.copy(from, to, tokens));
        }
        let source = self.places(std::iter::once((from, 0)), tokens);
        let target = self.places(std::iter::once((to, 0)), tokens);
        for Stored { keys, values } in &mut self.layers {
            match (&source, &target) {
                (
                    Places::Rows { keys: from_keys, values: from_values },
                    Places::Rows { keys: to_keys, values: to_values },
                ) => {
                    let copied = keys.clone().select(0, from_keys.clone());
                    assign(keys, to_keys, copied);
                    let copied = values.clone().select(0, from_values.clone());
                    assign(values, to_values, copied);
                }
                #[cfg(feature = "cuda")]
                _ => unreachable!("without own kernels, places are rows"),
            }
        }
    }
}

/// The worker starts over with an empty cache after a panic, as after those of a backend.
#[cfg(feature = "cuda")]
fn done<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|reason| panic!("{reason}"))
}

/// Overwrites rows of a matrix; in place, as nobody else holds it.
fn assign(stored: &mut Tensor<2>, rows: &Tensor<1, Int>, new: Tensor<2>) {
    stored.inplace(|stored| stored.select_assign(0, rows.clone(), new, IndexingUpdateOp::Assign));
}
