//! Does a device compute what the CPU computes?

mod checks;
mod models;
#[cfg(test)]
mod tests;
#[cfg(feature = "cuda")]
mod timings;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{DType, Device, Tensor, TensorData};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::model::{ComputeType, gaussian};
#[cfg(feature = "cuda")]
pub use timings::{Timing, timings};

/// One operation, or several that belong together, on the device and on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: String,
    pub compute: ComputeType,
    /// `‖found − right‖ / ‖right‖`, or what the device said instead of computing.
    pub error: Result<f64, String>,
    /// The largest error that is due to rounding.
    pub limit: f64,
}

impl Check {
    /// Whether the device is right.
    pub fn passed(&self) -> bool {
        // Not `error > limit`: NaN is no small error.
        self.error.as_ref().is_ok_and(|error| *error <= self.limit)
    }
}

/// Where and in which format a case is computed.
struct Place {
    device: Device,
    dtype: DType,
}

/// A case computes the same everywhere, up to rounding, and gives all its results as f32.
type Case = (&'static str, fn(&Place) -> Vec<f32>);

/// Runs every operation that policies, generation and learning build on, in f32 and in bf16, on
/// `device` and in f32 on the CPU, with the same inputs. `on_check` sees each check as it ends.
///
/// With `only`, those whose name contains it. A failing check does not end the others, but after some
/// faults of a GPU nothing works any more.
pub fn examine(device: &Device, only: &str, on_check: impl FnMut(&Check)) -> Vec<Check> {
    examine_in(&[ComputeType::F32, ComputeType::Bf16], device, only, on_check)
}

/// The same in some formats only. Own kernels are used in bf16.
pub fn examine_in(
    formats: &[ComputeType],
    device: &Device,
    only: &str,
    mut on_check: impl FnMut(&Check),
) -> Vec<Check> {
    let mut all = Vec::new();
    let cases = checks::CASES.iter().chain(models::CASES);
    for (name, case) in cases.filter(|(name, _)| name.contains(only)) {
        for &compute in formats {
            let place = Place { device: device.clone(), dtype: compute.dtype() };
            let right = case(&Place { device: Device::flex(), dtype: DType::F32 });
            let found = catch_unwind(AssertUnwindSafe(|| case(&place)));
            let error = match found {
                Ok(found) => distance(&found, &right),
                Err(panic) => Err(crate::generate::panic_text(panic.as_ref())),
            };
            // f32 products may run on tensor cores as TF32, with 10 bits.
            let limit = if compute == ComputeType::F32 { 3e-3 } else { 6e-2 };
            let check = Check { name: name.to_string(), compute, error, limit };
            on_check(&check);
            all.push(check);
        }
    }
    all
}

fn distance(found: &[f32], right: &[f32]) -> Result<f64, String> {
    if found.len() != right.len() {
        return Err(format!("it gave {} values and not {}", found.len(), right.len()));
    }
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(right).map(|(a, b)| f64::from(a - b)));
    Ok(difference / length(&mut right.iter().map(|x| f64::from(*x))).max(1e-30))
}

impl Place {
    /// Normal values, the same for the same seed, that bf16 can hold: so both sides begin with equal numbers.
    fn random<const D: usize>(&self, shape: [usize; D], seed: u64) -> Tensor<D> {
        let mut values = gaussian(&mut StdRng::seed_from_u64(seed), &shape, 1.0).data;
        values.iter_mut().for_each(|value| *value = half::bf16::from_f32(*value).to_f32());
        Tensor::<D>::from_data(TensorData::new(values, shape), (&self.device, DType::F32)).cast(self.dtype)
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}
