//! Which single operations are examined?

use burn::tensor::activation::{log_softmax, silu, softmax};
use burn::tensor::module::embedding;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

use super::{Case, Place, values};
use crate::kernel::{causal_attention, matmul, matmul_wide};
use crate::model::{ModelConfig, RmsNorm, RotaryTable};

pub(super) const CASES: &[Case] = &[
    ("matmul 64 × 32 × 48", |place| product(place, [64, 32, 48])),
    ("matmul 1 × 576 × 960", |place| product(place, [1, 576, 960])),
    ("matmul 3 × 64 × 512", |place| product(place, [3, 64, 512])),
    ("matmul 257 × 65 × 7", |place| product(place, [257, 65, 7])),
    ("matmul 1024 × 576 × 1536", |place| product(place, [1024, 576, 1536])),
    ("matmul, batched and transposed", batched),
    ("own matmul with its gradient", own_product),
    ("matmul with f32 logits", |place| {
        values(matmul_wide(place.random([96, 64], 1), place.random([64, 130], 2)))
    }),
    ("softmax and log-softmax", |place| {
        let x = place.random::<2>([37, 1030], 3);
        [values(softmax(x.clone(), 1)), values(log_softmax(x, 1))].concat()
    }),
    ("RMSNorm with its gradient", norm),
    ("SiLU", |place| values(silu(place.random::<2>([33, 70], 4)))),
    ("RoPE", rope),
    ("attention of whole sequences with its gradient", |place| {
        attention(place, [2, 3, 2, 64, 64], usize::MAX)
    }),
    ("attention within a window with its gradient", |place| attention(place, [2, 2, 3, 40, 32], 7)),
    ("attention of heads of 64, of many tokens, with its gradient", |place| {
        attention(place, [2, 1, 3, 330, 64], usize::MAX)
    }),
    ("attention of heads of 128 within a window with its gradient", |place| {
        attention(place, [1, 2, 2, 202, 128], 70)
    }),
    ("gather and scatter", scatter),
    ("select and select-assign", select),
    ("slice and slice-assign", slices),
    ("argmax", |place| {
        let indices = place.random::<2>([65, 1000], 5).argmax(1);
        indices.into_data().iter::<i64>().map(|index| index as f32).collect()
    }),
    ("embedding with its gradient", embedded),
];

fn integers<const D: usize>(place: &Place, shape: [usize; D], below: usize) -> Tensor<D, Int> {
    let values =
        (0..shape.iter().product()).map(|at: usize| ((at * 7919 + 13) % below) as i64).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(values, shape), &place.device)
}

fn product(place: &Place, [m, k, n]: [usize; 3]) -> Vec<f32> {
    values(place.random::<2>([m, k], 1).matmul(place.random([k, n], 2)))
}

fn batched(place: &Place) -> Vec<f32> {
    // As attention to a cache does it: few queries, keys in part of a larger matrix.
    let (queries, keys) = (place.random::<4>([5, 3, 3, 64], 1), place.random::<4>([5, 3, 64, 300], 2));
    let scores = queries.matmul(keys.slice([0..5, 0..3, 0..64, 0..256]));
    let weights = scores.matmul(place.random::<4>([5, 3, 64, 256], 3).swap_dims(2, 3));
    values(weights)
}

/// The values of a function's result and of its inputs' gradients.
fn with_gradients<const D: usize, const E: usize>(
    place: &Place,
    inputs: &[Tensor<D>],
    compute: impl FnOnce(&[Tensor<D>]) -> Tensor<E>,
) -> Vec<f32> {
    let inputs: Vec<_> = inputs.iter().map(|input| input.clone().autodiff().require_grad()).collect();
    let out = compute(&inputs);
    let weight = place.random(out.dims(), 99).cast(out.dtype()).autodiff();
    let gradients = (out.clone() * weight).sum().backward();
    let mut all = values(out.inner());
    for input in &inputs {
        all.extend(input.grad(&gradients).map(values).unwrap_or_default());
    }
    all
}

fn own_product(place: &Place) -> Vec<f32> {
    let inputs = [place.random([70, 48], 1), place.random([48, 90], 2)];
    with_gradients(place, &inputs, |inputs| matmul(inputs[0].clone(), inputs[1].clone()))
}

fn norm(place: &Place) -> Vec<f32> {
    let norm = RmsNorm::new(place.random([96], 2).autodiff().require_grad(), 1e-5, 0.0);
    let x = place.random::<3>([3, 301, 96], 1).autodiff().require_grad();
    let out = norm.forward(x.clone());
    let gradients = (out.clone() * place.random([3, 301, 96], 3).autodiff()).sum().backward();
    let gradient = [x.grad(&gradients).map(values), norm.weight.val().grad(&gradients).map(values)];
    [vec![values(out.inner())], gradient.into_iter().flatten().collect()].concat().concat()
}

fn rope(place: &Place) -> Vec<f32> {
    let table = RotaryTable::new(&ModelConfig::llama(64, 64, 1, [2, 1], 10), 50, &place.device);
    values(table.all().apply(place.random::<4>([2, 50, 3, 32], 1)))
}

fn attention(place: &Place, [batch, heads, group, tokens, width]: [usize; 5], window: usize) -> Vec<f32> {
    let inputs = [
        place.random([batch, heads, group * tokens, width], 1),
        place.random([batch, heads, tokens, width], 2),
        place.random([batch, heads, tokens, width], 3),
    ];
    let scale = (width as f64).powf(-0.5);
    with_gradients(place, &inputs, |inputs| match &inputs {
        [queries, keys, values] => {
            causal_attention(queries.clone(), keys.clone(), values.clone(), scale, window)
        }
        _ => unreachable!("there are three inputs"),
    })
}

fn scatter(place: &Place) -> Vec<f32> {
    let (x, indices) = (place.random::<2>([40, 70], 1), integers(place, [40, 1], 70));
    let picked = x.clone().gather(1, indices.clone());
    [values(picked), values(x.scatter(1, indices, place.random([40, 1], 2), IndexingUpdateOp::Add))].concat()
}

fn select(place: &Place) -> Vec<f32> {
    let (x, rows) = (place.random::<2>([97, 30], 1), integers(place, [20], 97));
    let picked = x.clone().select(0, rows.clone());
    let new = place.random::<2>([20, 30], 2);
    let assigned = x.clone().select_assign(0, rows.clone(), new.clone(), IndexingUpdateOp::Assign);
    let added = x.select_assign(0, rows, new, IndexingUpdateOp::Add);
    [values(picked), values(assigned), values(added)].concat()
}

fn slices(place: &Place) -> Vec<f32> {
    let x = place.random::<3>([6, 20, 30], 1);
    let part = x.clone().slice([1..4, 3..20, 5..17]);
    [values(part), values(x.slice_assign([1..4, 3..20, 5..17], place.random([3, 17, 12], 2)))].concat()
}

fn embedded(place: &Place) -> Vec<f32> {
    // 500 places for 60 rows: most ids come more than once.
    let ids = integers::<2>(place, [5, 100], 60);
    with_gradients(place, &[place.random::<2>([60, 48], 1)], |inputs| embedding(inputs[0].clone(), ids))
}
