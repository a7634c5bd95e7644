//! Where do keys and values lie that kernels of our own read and write?

use std::sync::Arc;

use burn::tensor::{DType, Device, Int, Tensor};
use burn_cubecl::kernel::into_contiguous;

use super::context::{Argument, Gpu, Pointer, pointer};
use super::decode::{cube, cube_integers};
use crate::kernel::cube::{gpu, narrow_ids};

const THREADS: usize = 256;
/// Of a block for one head of one token.
const SLOT_THREADS: usize = 64;
/// Tokens that are read at once, in 16 bytes.
const PIECE: usize = 8;

/// Keys and values of all layers in memory of our own, which nothing moves.
///
/// Both are `[slots, heads, capacity, head_dim]`, in bf16.
pub(crate) struct DeviceCache {
    gpu: Arc<Gpu>,
    device: Device,
    layers: Vec<[Pointer; 2]>,
    slots: usize,
    heads: usize,
    width: usize,
    capacity: usize,
    changes: u64,
}

impl DeviceCache {
    /// An empty cache; none on a device without own kernels.
    ///
    /// # Errors
    /// When the memory does not suffice.
    pub fn new(
        device: &Device,
        layers: usize,
        [slots, heads, width, capacity]: [usize; 4],
    ) -> Result<Option<Self>, String> {
        let probe = cube(Tensor::<1>::zeros([1], (device, DType::BF16)))?;
        let Some(gpu) = gpu(&probe) else { return Ok(None) };
        let capacity = capacity.next_multiple_of(PIECE);
        let layers = allocate(&gpu, layers, slots * heads * width * capacity)?;
        Ok(Some(Self { gpu, device: device.clone(), layers, slots, heads, width, capacity, changes: 0 }))
    }

    /// Changes whenever keys and values have moved.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Tokens that fit into a slot.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where the keys and the values of each layer lie.
    pub fn places(&self) -> impl Iterator<Item = [Pointer; 2]> {
        self.layers.iter().copied()
    }

    /// Makes the slots longer; what is stored stays.
    pub fn grow(&mut self, capacity: usize) -> Result<(), String> {
        let capacity = capacity.next_multiple_of(PIECE);
        let (old, lines) = (self.capacity, self.slots * self.heads);
        let wider = allocate(&self.gpu, self.layers.len(), lines * self.width * capacity)?;
        for ([keys, values], [new_keys, new_values]) in self.layers.iter().zip(&wider) {
            let [from, to] = [old, capacity].map(|tokens| tokens * self.width);
            self.copy_lines(*keys, *new_keys, lines, [from, to, from])?;
            self.copy_lines(*values, *new_values, lines, [from, to, from])?;
        }
        release(&self.gpu, &std::mem::replace(&mut self.layers, wider));
        self.capacity = capacity;
        self.changes += 1;
        Ok(())
    }

    /// Stores keys and values of new tokens, `[rows, tokens, heads, head_dim]`; each row has a slot and a
    /// first position.
    pub fn store(
        &self,
        layer: usize,
        new: [Tensor<4>; 2],
        places: [Tensor<1, Int>; 2],
    ) -> Result<(), String> {
        let tokens = new[0].dims()[1];
        let [keys, values] = new.map(|tensor| cube(tensor).map(into_contiguous));
        let [slots, starts] = places.map(|tensor| cube_integers(tensor).map(narrow_ids));
        let (keys, values, slots, starts) = (keys?, values?, slots?, starts?);
        let [key_cache, value_cache] = self.layers[layer];
        let blocks = slots.meta.shape()[0] * tokens;
        let arguments: [&dyn Argument; 10] = [
            &pointer(&keys)?,
            &pointer(&values)?,
            &key_cache,
            &value_cache,
            &pointer(&slots)?,
            &pointer(&starts)?,
            &(tokens as i32),
            &(self.heads as i32),
            &(self.width as i32),
            &(self.capacity as i32),
        ];
        self.gpu.queue(|work| work.launch(("", "store_tokens"), [blocks, 1], THREADS, &arguments))
    }

    /// A copy of the first `positions` tokens of the slots in `range`, for Burn: keys as `[slots, heads,
    /// head_dim, positions]`, values as `[slots, heads, positions, head_dim]`.
    pub fn read(
        &self,
        layer: usize,
        range: std::ops::Range<usize>,
        positions: usize,
    ) -> Result<[Tensor<4>; 2], String> {
        let (slots, heads, width) = (range.len(), self.heads, self.width);
        let options = (&self.device, DType::BF16);
        // Flat, since CubeCL may put a gap between the rows of a matrix.
        let empty = || Tensor::<1>::empty([slots * heads * width * positions], options);
        let (keys, values) = (empty(), empty());
        let (key_tensor, value_tensor) = (cube(keys.clone())?, cube(values.clone())?);
        let [from_keys, from_values] = self.layers[layer];
        let skipped = 2 * (range.start * heads * width * self.capacity) as u64;
        let skip = |at: Pointer| Pointer(at.0 + skipped);
        let (to_keys, to_values) = (pointer(&key_tensor)?, pointer(&value_tensor)?);
        let [from, to] = [self.capacity, positions].map(|tokens| tokens * width);
        self.copy_lines(skip(from_keys), to_keys, slots * heads, [from, to, to])?;
        self.copy_lines(skip(from_values), to_values, slots * heads, [from, to, to])?;
        let rows = |tensor: Tensor<1>| -> Tensor<4> { tensor.reshape([slots, heads, positions, width]) };
        Ok([rows(keys).swap_dims(2, 3), rows(values)])
    }

    /// Copies the first `tokens` of one slot to another, in all layers.
    pub fn copy(&self, from: usize, to: usize, tokens: usize) -> Result<(), String> {
        for [keys, values] in &self.layers {
            let arguments: [&dyn Argument; 8] = [
                keys,
                values,
                &(from as i32),
                &(to as i32),
                &(tokens as i32),
                &(self.heads as i32),
                &(self.width as i32),
                &(self.capacity as i32),
            ];
            let blocks = self.heads * tokens;
            self.gpu.queue(|work| work.launch(("", "copy_slot"), [blocks, 1], SLOT_THREADS, &arguments))?;
        }
        Ok(())
    }

    /// `lines` lines of `count` values, which begin `from_step` and `to_step` values apart.
    fn copy_lines(
        &self,
        from: Pointer,
        to: Pointer,
        lines: usize,
        [from_step, to_step, count]: [usize; 3],
    ) -> Result<(), String> {
        let arguments: [&dyn Argument; 5] =
            [&from, &to, &(from_step as i64), &(to_step as i64), &(count as i32)];
        self.gpu.queue(|work| work.launch(("", "copy_lines"), [lines, 1], THREADS, &arguments))
    }
}

impl Drop for DeviceCache {
    fn drop(&mut self) {
        release(&self.gpu, &self.layers);
    }
}

fn allocate(gpu: &Gpu, layers: usize, values: usize) -> Result<Vec<[Pointer; 2]>, String> {
    gpu.queue(|work| {
        let one = |work: &super::context::Work| {
            let at = work.allocate(2 * values)?;
            // Positions that nothing was written to are masked, but 0 · NaN would be NaN.
            work.clear(at, 2 * values).map(|()| at)
        };
        (0..layers).map(|_| Ok([one(work)?, one(work)?])).collect()
    })
}

fn release(gpu: &Gpu, layers: &[[Pointer; 2]]) {
    let _ = gpu.queue(|work| {
        work.synchronize()?;
        layers.iter().flatten().for_each(|at| work.free(*at));
        Ok(())
    });
}
