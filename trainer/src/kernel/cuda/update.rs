//! How are all parameters changed by AdamW in one launch, and how long is their gradient?

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::context::{Argument, Gpu, Pointer, Work, pointer};
use super::decode::cube;
use crate::kernel::cube::gpu;

/// Values that a block takes; as in `learning.cu`.
const SPAN: usize = 16384;
const THREADS: usize = 256;
const F32: u64 = 4;

/// What a step of AdamW multiplies with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// On the gradient.
    pub scale: f64,
    pub beta_1: f64,
    pub beta_2: f64,
    pub epsilon: f64,
    /// The learning rate over the first moment's bias correction.
    pub rate: f64,
    /// 1 over the root of the second moment's bias correction.
    pub root: f64,
    /// On the weight.
    pub decay: f64,
}

/// A parameter in a step; all tensors are flat.
pub(crate) struct Stepped {
    pub path: String,
    /// In f32.
    pub gradient: Tensor<1>,
    /// In bf16, before the step.
    pub weight: Tensor<1>,
}

/// f32 weights and both moments of all parameters, in memory of our own that every step changes in place.
pub(crate) struct DeviceMoments {
    gpu: Arc<Gpu>,
    device: Device,
    places: BTreeMap<String, Place>,
    /// Values, first moments and second moments, `total` of each.
    at: Pointer,
    total: usize,
}

impl std::fmt::Debug for DeviceMoments {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.debug_struct("DeviceMoments").field("total", &self.total).finish_non_exhaustive()
    }
}

struct Place {
    start: usize,
    count: usize,
    /// Whether it holds anything yet.
    filled: bool,
}

impl DeviceMoments {
    /// Room for the parameters, filled from `stored` (f32 weights and both moments) where that knows them. None on a
    /// device without own kernels.
    ///
    /// # Errors
    /// When the memory does not suffice.
    pub fn new(
        parameters: &[Stepped],
        stored: impl Fn(&str) -> Option<[Tensor<1>; 3]>,
    ) -> Result<Option<Self>, String> {
        let Some(first) = parameters.first() else { return Ok(None) };
        let device = first.gradient.device();
        let Some(gpu) = gpu(&cube(first.gradient.clone())?) else { return Ok(None) };
        let (mut places, mut total) = (BTreeMap::new(), 0);
        for parameter in parameters {
            let count = parameter.gradient.dims()[0];
            places.insert(parameter.path.clone(), Place { start: total, count, filled: false });
            // Four values are read at once.
            total += count.next_multiple_of(4);
        }
        let at = gpu.queue(|work| work.allocate(3 * total * F32 as usize))?;
        let mut made = Self { gpu, device, places, at, total };
        let paths: Vec<String> = made.places.keys().cloned().collect();
        for path in paths {
            if let Some(tensors) = stored(&path) {
                made.fill(&path, tensors)?;
            }
        }
        Ok(Some(made))
    }

    /// Whether it has room for exactly these parameters.
    pub fn covers(&self, parameters: &[Stepped]) -> bool {
        let fits = |parameter: &Stepped| {
            let place = self.places.get(&parameter.path);
            place.is_some_and(|place| place.count == parameter.gradient.dims()[0])
        };
        parameters.iter().all(fits)
    }

    fn part(&self, which: usize, start: usize) -> Pointer {
        Pointer(self.at.0 + F32 * (which * self.total + start) as u64)
    }

    fn fill(&mut self, path: &str, tensors: [Tensor<1>; 3]) -> Result<(), String> {
        let Some(Place { start, count, .. }) = self.places.get(path) else { return Ok(()) };
        let (start, bytes) = (*start, *count * F32 as usize);
        for (which, tensor) in tensors.into_iter().enumerate() {
            let tensor = into_contiguous(cube(tensor)?);
            let (from, to) = (pointer(&tensor)?, self.part(which, start));
            self.gpu.queue(|work| work.copy(to, from, bytes))?;
        }
        if let Some(place) = self.places.get_mut(path) {
            place.filled = true;
        }
        Ok(())
    }

    /// Copies of the f32 weights and of both moments, by path.
    pub fn read(&self) -> Result<BTreeMap<String, [Tensor<1>; 3]>, String> {
        let mut all = BTreeMap::new();
        for (path, place) in self.places.iter().filter(|(_, place)| place.filled) {
            let copies = [0; 3].map(|_| Tensor::<1>::empty([place.count], (&self.device, DType::F32)));
            for (which, copy) in copies.iter().enumerate() {
                let target = cube(copy.clone())?;
                let (to, from) = (pointer(&target)?, self.part(which, place.start));
                self.gpu.queue(|work| work.copy(to, from, place.count * F32 as usize))?;
            }
            all.insert(path.clone(), copies);
        }
        Ok(all)
    }

    /// Changes all of `parameters`, which it [`covers`](Self::covers). Gives the new bf16 weights, in their order,
    /// and the squared L2 norm of the change, `[1]`.
    ///
    /// # Errors
    /// What the device says.
    pub fn step(
        &mut self,
        parameters: Vec<Stepped>,
        rates: Rates,
    ) -> Result<(Vec<Tensor<1>>, Tensor<1>), String> {
        let mut table = Table::default();
        let (mut tensors, mut results) = (Vec::new(), Vec::new());
        for parameter in &parameters {
            let count = parameter.gradient.dims()[0];
            let result = Tensor::<1>::empty([count], (&self.device, DType::BF16));
            tensors.push([
                into_contiguous(cube(parameter.gradient.clone())?),
                into_contiguous(cube(parameter.weight.clone())?),
                cube(result.clone())?,
            ]);
            results.push(result);
            table.add_blocks(count);
        }
        let sums = Sums::new(&self.device, table.blocks.len())?;
        for (parameter, tensors) in parameters.iter().zip(&tensors) {
            let place = self.places.get(&parameter.path).ok_or("a parameter has no room for its moments")?;
            let [gradient, weight, result] = tensors;
            let [value, first, second] = [0, 1, 2].map(|which| self.part(which, place.start).0);
            let before = if place.filled { [value, 0, first, second] } else { [0, pointer(weight)?.0, 0, 0] };
            let [old_value, old_narrow, old_first, old_second] = before;
            table.rows.extend([pointer(gradient)?.0, old_value, old_narrow, old_first, old_second]);
            table.rows.extend([value, first, second, pointer(result)?.0, place.count as u64]);
        }
        let numbers = [
            rates.scale,
            rates.beta_1,
            1.0 - rates.beta_1,
            rates.beta_2,
            1.0 - rates.beta_2,
            rates.epsilon,
            rates.rate,
            rates.root,
            rates.decay,
        ];
        let numbers = numbers.map(|number| number as f32);
        let places = sums.places()?;
        self.gpu.queue(|work| Sums::launch(places, work, "adamw", &table, &numbers))?;
        for parameter in &parameters {
            if let Some(place) = self.places.get_mut(&parameter.path) {
                place.filled = true;
            }
        }
        Ok((results, sums.out))
    }
}

impl Drop for DeviceMoments {
    fn drop(&mut self) {
        let _ = self.gpu.queue(|work| {
            work.synchronize()?;
            work.free(self.at);
            Ok(())
        });
    }
}

/// What the kernels over all parameters read: a row of ten numbers for each, and a number for each block.
#[derive(Default)]
struct Table {
    rows: Vec<u64>,
    blocks: Vec<u64>,
    parameters: u64,
}

impl Table {
    fn add_blocks(&mut self, count: usize) {
        let row = self.parameters << 32;
        self.blocks.extend((0..count.div_ceil(SPAN) as u64).map(|span| row | span));
        self.parameters += 1;
    }
}

/// Where the blocks' parts of a sum go, and the sum.
struct Sums {
    parts: CubeTensor,
    out: Tensor<1>,
    target: CubeTensor,
}

impl Sums {
    fn new(device: &Device, blocks: usize) -> Result<Self, String> {
        let empty = |count| Tensor::<1>::empty([count], (device, DType::F32));
        let out = empty(1);
        Ok(Self { parts: cube(empty(blocks.max(1)))?, target: cube(out.clone())?, out })
    }

    /// Where parts and sum lie; to be asked for before work is queued.
    fn places(&self) -> Result<[Pointer; 2], String> {
        Ok([pointer(&self.parts)?, pointer(&self.target)?])
    }

    /// Runs a kernel over all blocks and adds up their parts.
    fn launch(
        [parts, out]: [Pointer; 2],
        work: &mut Work,
        name: &'static str,
        table: &Table,
        numbers: &[f32],
    ) -> Result<(), String> {
        let rows = work.upload(&[table.rows.as_slice(), &table.blocks].concat())?;
        let blocks = Pointer(rows.0 + 8 * table.rows.len() as u64);
        let mut arguments: Vec<&dyn Argument> = vec![&rows, &blocks, &parts];
        arguments.extend(numbers.iter().map(|number| number as &dyn Argument));
        work.launch(("", name), [table.blocks.len(), 1], THREADS, &arguments)?;
        let count = table.blocks.len() as i32;
        work.launch(("", "sum_parts"), [1, 1], 1024, &[&parts, &out, &count])
    }
}

/// The squared L2 norm of all gradients together, `[1]`; they are flat and f32. None on a device without own kernels.
///
/// # Errors
/// What the device says.
pub(crate) fn squared_norm(gradients: &[Tensor<1>]) -> Result<Option<Tensor<1>>, String> {
    let Some(first) = gradients.first() else { return Ok(None) };
    let tensors = gradients.iter().map(|gradient| cube(gradient.clone()).map(into_contiguous));
    let tensors: Vec<CubeTensor> = tensors.collect::<Result<_, _>>()?;
    let Some(gpu) = gpu(&tensors[0]) else { return Ok(None) };
    let mut table = Table::default();
    gradients.iter().for_each(|gradient| table.add_blocks(gradient.dims()[0]));
    let sums = Sums::new(&first.device(), table.blocks.len())?;
    for tensor in &tensors {
        let count = tensor.meta.shape()[0] as u64;
        table.rows.extend([pointer(tensor)?.0, 0, 0, 0, 0, 0, 0, 0, 0, count]);
    }
    let places = sums.places()?;
    gpu.queue(|work| Sums::launch(places, work, "square_gradients", &table, &[]))?;
    Ok(Some(sums.out))
}
