//! How are the gradients of a step added up over devices?

use std::collections::{BTreeMap, BTreeSet};

use burn::prelude::*;
use burn::tensor::DType;

use super::meeting::{Gone, Meeting};
use super::{Exchange, ParallelError};
use crate::optimizer::StepGradients;

/// Values that are added up at once: enough to fill a link, little beside the weights.
const BUCKET: usize = 1 << 24;

/// What a device's thread holds to add up its gradients with those of the others.
pub(crate) struct Link {
    /// Parameters that have a gradient on some device.
    paths: Meeting<BTreeSet<String>>,
    way: Way,
}

enum Way {
    Host(Meeting<Vec<f32>>),
    /// The devices in the order of ranks.
    #[cfg(feature = "cuda")]
    Nccl(Vec<Device>),
}

/// The links of `devices`, in their order.
///
/// # Errors
/// If the exchange cannot work between them.
pub(crate) fn connect(devices: &[Device], exchange: Exchange) -> Result<Vec<Link>, ParallelError> {
    exchange.check(devices)?;
    let paths = Meeting::of(devices.len()).into_iter();
    Ok(match exchange {
        #[cfg(feature = "cuda")]
        Exchange::Nccl => paths.map(|paths| Link { paths, way: Way::Nccl(devices.to_vec()) }).collect(),
        _ => {
            let values = Meeting::of(devices.len());
            paths.zip(values).map(|(paths, values)| Link { paths, way: Way::Host(values) }).collect()
        }
    })
}

impl Link {
    /// Replaces `gradients` by the sum over all devices, the same bits on each. A parameter that has a gradient
    /// somewhere has one everywhere afterwards. `lengths` are those of all trainable parameters.
    ///
    /// # Errors
    /// If the thread of another device has ended.
    pub fn sum(
        &self,
        gradients: &mut StepGradients,
        lengths: &BTreeMap<String, usize>,
        device: &Device,
    ) -> Result<(), Gone> {
        let own = gradients.paths().map(str::to_string).collect();
        let agreed = self.paths.meet(own, |all, more| all.extend(more))?;
        let known = agreed.iter().filter_map(|path| Some((path, *lengths.get(path)?)));
        for bucket in buckets(known) {
            let parts: Vec<Tensor<1>> = bucket
                .iter()
                .map(|(path, length)| {
                    let zeros = || Tensor::zeros([*length], (device, DType::F32));
                    gradients.take(path).unwrap_or_else(zeros)
                })
                .collect();
            let sum = self.reduce(Tensor::cat(parts, 0), device)?;
            let mut start = 0;
            for (path, length) in bucket {
                gradients.set(path, sum.clone().narrow(0, start, length));
                start += length;
            }
        }
        Ok(())
    }

    fn reduce(&self, values: Tensor<1>, device: &Device) -> Result<Tensor<1>, Gone> {
        match &self.way {
            Way::Host(meeting) => {
                // One copy: the values are f32 already.
                let own = values.into_data().try_into_vec::<f32>();
                let own = own.unwrap_or_else(|error| panic!("the device cannot give its gradients: {error}"));
                let add = |all: &mut Vec<f32>, more: Vec<f32>| {
                    all.iter_mut().zip(more).for_each(|(sum, value)| *sum += value);
                };
                let sum = meeting.meet(own, add)?;
                let data = TensorData::new(sum.to_vec(), [sum.len()]);
                Ok(Tensor::from_data(data, (device, DType::F32)))
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(devices) => {
                use burn::tensor::distributed::{ReduceOperation, all_reduce};
                // Waited for at once: CubeCL may move what it holds when it allocates, and must not while it is read.
                Ok(all_reduce(values, ReduceOperation::Sum, devices.clone()).resolve())
            }
        }
    }
}

/// Parameters in order, each bucket with at most [`BUCKET`] values or with one parameter.
fn buckets<'a>(lengths: impl Iterator<Item = (&'a String, usize)>) -> Vec<Vec<(&'a str, usize)>> {
    let mut all: Vec<Vec<(&str, usize)>> = Vec::new();
    let mut filled = usize::MAX;
    for (path, length) in lengths {
        if filled.saturating_add(length) > BUCKET {
            all.push(Vec::new());
            filled = 0;
        }
        filled += length;
        if let Some(bucket) = all.last_mut() {
            bucket.push((path, length));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradients(values: &[(&str, &[f32])]) -> StepGradients {
        let mut gradients = StepGradients::new();
        for (path, values) in values {
            let data = TensorData::new(values.to_vec(), [values.len()]);
            gradients.set(path, Tensor::from_data(data, &Device::flex()));
        }
        gradients
    }

    #[test]
    fn a_gradient_that_only_one_device_has_reaches_all() {
        let links = connect(&[Device::flex(), Device::flex()], Exchange::Host).unwrap();
        let lengths = BTreeMap::from([("a".into(), 2), ("b".into(), 1), ("c".into(), 1), ("d".into(), 1)]);
        let own: [&[(&str, &[f32])]; 2] =
            [&[("a", &[1.0, 2.0]), ("b", &[3.0])], &[("a", &[10.0, 20.0]), ("d", &[f32::INFINITY])]];
        std::thread::scope(|scope| {
            for (link, own) in links.into_iter().zip(own) {
                let lengths = &lengths;
                scope.spawn(move || {
                    let mut sum = gradients(own);
                    link.sum(&mut sum, lengths, &Device::flex()).unwrap();
                    let read =
                        |path: &str| -> Vec<f32> { sum.get(path).unwrap().to_data().try_into_vec().unwrap() };
                    assert_eq!(sum.paths().collect::<Vec<_>>(), ["a", "b", "d"]);
                    assert_eq!((read("a"), read("b")), (vec![11.0, 22.0], vec![3.0]));
                    assert_eq!(read("d"), [f32::INFINITY]);
                });
            }
        });
    }

    #[test]
    fn a_bucket_holds_whole_parameters_and_no_more_than_it_should() {
        let lengths: Vec<(String, usize)> = [BUCKET, 5, BUCKET - 5, 1, 3 * BUCKET, 7, 8]
            .iter()
            .enumerate()
            .map(|(at, length)| (at.to_string(), *length))
            .collect();
        let found = buckets(lengths.iter().map(|(path, length)| (path, *length)));
        let found: Vec<Vec<&str>> =
            found.iter().map(|bucket| bucket.iter().map(|(path, _)| *path).collect()).collect();
        assert_eq!(found, [vec!["0"], vec!["1", "2"], vec!["3"], vec!["4"], vec!["5", "6"]]);
    }
}
