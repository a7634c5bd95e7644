//! How long does each own kernel of a GPU take alone?

use std::time::Instant;

use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};

use crate::kernel::{causal_attention, logits_gradient, matmul, read_logits, rms_norm, rows, swiglu};

/// One kernel, or several that belong together, at a size that training has.
#[derive(Clone, Debug)]
pub struct Timing {
    pub name: String,
    /// Of one run, the mean of several that were queued together.
    pub seconds: f64,
    /// What it computes, in 10¹² operations a second, or moves, in 10¹² bytes a second.
    pub rate: f64,
}

/// Times the kernels one by one. A kernel that takes less than its launch is shown with the time of the launch.
pub fn timings(device: &Device, mut on_timing: impl FnMut(&Timing)) {
    let random = |shape: [usize; 2]| -> Tensor<2> {
        Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), (device, DType::F32)).cast(DType::BF16)
    };
    let mut time = |name: String, work: f64, run: &mut dyn FnMut()| {
        let mut repeat = |count: usize| {
            let start = Instant::now();
            (0..count).for_each(|_| run());
            let _ = device.sync();
            start.elapsed().as_secs_f64() / count as f64
        };
        repeat(3);
        let seconds = repeat(10);
        on_timing(&Timing { name, seconds, rate: work / seconds / 1e12 });
    };
    for [batch, heads, group, tokens, width] in
        [[16, 3, 3, 1024, 64], [8, 2, 6, 2048, 128], [2, 8, 4, 4096, 128]]
    {
        let side = |count: usize| -> Tensor<4> {
            random([batch * heads * count * tokens, width]).reshape([batch, heads, count * tokens, width])
        };
        let (queries, keys, values) = (side(group), side(1), side(1));
        let scale = (width as f64).powf(-0.5);
        let shape = format!("{batch} × {} heads × {tokens} × {width}", heads * group);
        // Of the causal half, two products.
        let work = (2 * batch * heads * group * tokens * tokens * width) as f64;
        time(format!("attention, {shape}"), work, &mut || {
            causal_attention(queries.clone(), keys.clone(), values.clone(), scale, usize::MAX);
        });
        let tracked = [queries, keys, values].map(|side| side.autodiff().require_grad());
        let above = side(group).autodiff();
        // Twice forward, five products backward.
        time(format!("attention and its gradient, {shape}"), 4.5 * work, &mut || {
            let [queries, keys, values] = tracked.clone();
            let out = causal_attention(queries, keys, values, scale, usize::MAX);
            (out * above.clone()).sum().backward();
        });
    }
    for [count, vocabulary] in [[16384, 49152], [4096, 151_936]] {
        let logits: Tensor<2> =
            Tensor::random([count, vocabulary], Distribution::Normal(0.0, 2.0), (device, DType::F32));
        let ids: Vec<i32> = (0..count as i32).collect();
        let ids: Tensor<1, Int> = Tensor::from_data(TensorData::new(ids, [count]), device);
        let [logp, entropy, normalisers] = read_logits(logits.clone(), ids.clone(), 1.0);
        let values = (count * vocabulary) as f64;
        time(format!("reading logits, {count} × {vocabulary}"), 4.0 * values, &mut || {
            read_logits(logits.clone(), ids.clone(), 1.0);
        });
        time(format!("gradient by logits, {count} × {vocabulary}"), 6.0 * values, &mut || {
            let of_rows = [normalisers.clone(), entropy.clone()];
            logits_gradient(logits.clone(), ids.clone(), of_rows, [logp.clone(), logp.zeros_like()], 1.0);
        });
    }
    for [count, hidden, inner] in [[16384, 576, 1536], [16384, 1536, 8960], [8192, 4096, 14336]] {
        let x = random([count, hidden]);
        let weight: Tensor<1> = random([1, hidden]).reshape([hidden]);
        let size = (2 * count * hidden) as f64;
        time(format!("norm, {count} × {hidden}"), 2.0 * size, &mut || {
            rms_norm(x.clone(), weight.clone(), 1e-5);
        });
        let (tracked, tracked_weight) =
            (x.clone().autodiff().require_grad(), weight.autodiff().require_grad());
        // Forward, the product with 1, and backward.
        time(format!("norm and its gradient, {count} × {hidden}"), 9.0 * size, &mut || {
            (rms_norm(tracked.clone(), tracked_weight.clone(), 1e-5)).sum().backward();
        });
        let both = random([count, 2 * inner]);
        let size = (2 * count * inner) as f64;
        time(format!("SwiGLU, {count} × {inner}"), 3.0 * size, &mut || {
            swiglu(both.clone());
        });
        let tracked = both.autodiff().require_grad();
        time(format!("SwiGLU and its gradient, {count} × {inner}"), 10.0 * size, &mut || {
            swiglu(tracked.clone()).sum().backward();
        });
        let weight = random([hidden, inner]);
        let work = 2.0 * (count * hidden * inner) as f64;
        time(format!("product, {count} × {hidden} × {inner}"), work, &mut || {
            matmul(x.clone(), weight.clone());
        });
        let (other, sum) = (random([count, hidden]), x.clone());
        time(format!("sum of two, {count} × {hidden}"), (6 * count * hidden) as f64, &mut || {
            let _ = (sum.clone() + other.clone()).into_dispatch();
        });
    }
    let ids: Vec<i32> = (0..16384).map(|at| (at * 7919) % 49152).collect();
    let ids: Tensor<1, Int> = Tensor::from_data(TensorData::new(ids, [16384]), device);
    let table = random([49152, 576]).autodiff().require_grad();
    time("embedding and its gradient, 16384 of 49152 × 576".into(), (2 * 49152 * 576) as f64, &mut || {
        rows(table.clone(), ids.clone()).sum().backward();
    });
}
