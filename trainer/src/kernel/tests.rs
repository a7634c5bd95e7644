//! Do our own operations give what Burn's give, gradients too?

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Distribution, Tensor};

use super::*;
use crate::model::projection_host as host;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

fn close<const D: usize>(left: Tensor<D>, right: Tensor<D>, tolerance: f32) {
    assert_eq!(left.dims(), right.dims());
    let (left, right) = (host(left).data, host(right).data);
    let worst = left.iter().zip(&right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "values differ by {worst}");
}

/// What attention is, in Burn's own operations.
fn composed(queries: Tensor<4>, keys: Tensor<4>, values: Tensor<4>, scale: f64, window: usize) -> Tensor<4> {
    let (rows, tokens) = (queries.dims()[2], keys.dims()[2]);
    let looks = |from: usize, to: usize| to <= from && from - to < window;
    let bias: Vec<f32> = (0..rows * tokens)
        .map(|at| if looks(at / tokens % tokens, at % tokens) { 0.0 } else { -1e9 })
        .collect();
    let bias = Tensor::<1>::from_floats(bias.as_slice(), &queries.device()).reshape([1, 1, rows, tokens]);
    let scores = queries.matmul(keys.swap_dims(2, 3)).mul_scalar(scale);
    softmax(scores + bias, 3).matmul(values)
}

fn attention_case(tokens: usize, group: usize, window: usize) {
    let tracked = |shape| random::<4>(shape).autodiff().require_grad();
    let inputs = [tracked([2, 3, group * tokens, 4]), tracked([2, 3, tokens, 4]), tracked([2, 3, tokens, 4])];
    let weight = random::<4>([2, 3, group * tokens, 4]).autodiff();
    let [q, k, v] = inputs.clone();
    let own = causal_attention(q, k, v, 0.4, window);
    let own_gradients = (own.clone() * weight.clone()).sum().backward();
    let [q, k, v] = inputs.clone();
    let usual = composed(q, k, v, 0.4, window);
    let usual_gradients = (usual.clone() * weight).sum().backward();
    close(own.inner(), usual.inner(), 1e-5);
    for input in &inputs {
        close(input.grad(&own_gradients).unwrap(), input.grad(&usual_gradients).unwrap(), 1e-5);
    }
}

#[test]
fn attention_and_its_gradient_are_those_of_its_parts() {
    for (tokens, group, window) in [(6, 1, usize::MAX), (6, 3, usize::MAX), (8, 2, 3), (1, 2, 9)] {
        attention_case(tokens, group, window);
    }
}

#[test]
fn a_product_and_its_gradient_are_burns() {
    use super::ops::TrainerOps;
    use burn::backend::Dispatch;
    let left = random::<2>([5, 7]).autodiff().require_grad();
    let right = random::<2>([7, 3]).autodiff().require_grad();
    let weight = random::<2>([5, 3]).autodiff();
    let own = Tensor::<2>::from_dispatch(<Dispatch as TrainerOps>::product(
        left.clone().into_dispatch(),
        right.clone().into_dispatch(),
    ));
    let own_gradients = (own.clone() * weight.clone()).sum().backward();
    let usual = left.clone().matmul(right.clone());
    let usual_gradients = (usual.clone() * weight).sum().backward();
    close(own.inner(), usual.inner(), 0.0);
    for input in [&left, &right] {
        close(input.grad(&own_gradients).unwrap(), input.grad(&usual_gradients).unwrap(), 1e-6);
    }
}

#[test]
fn a_frozen_factor_gets_no_gradient() {
    use burn::tensor::DType;
    let left = random::<2>([4, 6]).cast(DType::BF16).autodiff().require_grad();
    let right = random::<2>([6, 3]).cast(DType::BF16).autodiff();
    let wide = matmul_wide(left.clone(), right.clone());
    assert_eq!(wide.dtype(), DType::F32);
    let gradients = wide.clone().sum().backward();
    assert!(right.grad(&gradients).is_none());
    let gradient = left.grad(&gradients).unwrap();
    assert_eq!(gradient.dtype(), DType::BF16);
    let exact = left.inner().cast(DType::F32).matmul(right.clone().inner().cast(DType::F32));
    close(wide.inner(), exact, 1e-4);
    let sums = right.inner().cast(DType::F32).sum_dim(1).transpose().expand([4, 6]);
    close(gradient.cast(DType::F32), sums, 3e-2);
}
