//! Does batched sampling with a cache compute what the plain policy computes?

use std::sync::Arc;
use std::sync::mpsc;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};

use super::forward::{Buckets, Inference, Row};
use super::*;
use crate::model::{CausalLm, Family, ModelConfig, tiny_of};

fn config() -> ModelConfig {
    ModelConfig { head_dim: 8, ..ModelConfig::llama(24, 40, 3, [4, 2], 64) }
}

fn policy(seed: u64) -> CausalLm {
    CausalLm::random(config(), seed, &Device::flex())
}

/// Log-probabilities of every next token, `[tokens][vocabulary]`, without any cache.
fn plain(model: &CausalLm, ids: &[u32]) -> Vec<Vec<f32>> {
    let values: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(values, [1, ids.len()]), &Device::flex());
    let all = log_softmax(model.logits(model.hidden(ids).squeeze_dim(0)), 1);
    all.try_into_vec_as::<f32>().unwrap().chunks(64).map(<[f32]>::to_vec).collect()
}

fn tokens(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| (seed.wrapping_mul(31) + i * i * 7 + i) % 64).collect()
}

fn request(append: Vec<u32>, max_tokens: usize, seed: u64) -> SampleRequest {
    SampleRequest { append, max_tokens, seed, ..SampleRequest::default() }
}

fn close(left: &[f32], right: &[f32]) {
    let worst = left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
    assert!(left.len() == right.len() && worst <= 1e-4, "values differ by {worst}");
}

#[test]
fn a_ragged_batch_with_a_cache_computes_what_the_plain_policy_computes() {
    assert!(!Buckets::of(&Device::flex()).rows);
    for model in policies(1) {
        ragged(&model, Inference::new(&model, 8, 256));
    }
}

#[test]
fn a_batch_that_is_padded_for_a_gpu_computes_the_same() {
    for model in policies(1) {
        let mut inference = Inference::new(&model, 8, 256);
        inference.buckets = Buckets { positions: 32, tokens: 8, rows: true, budget: 256 };
        ragged(&model, inference);
    }
}

/// One of each family, with windows and experts.
fn policies(seed: u64) -> Vec<CausalLm> {
    let shape = |family| ModelConfig { vocab_size: 64, ..tiny_of(family) };
    Family::ALL.map(|family| CausalLm::random(shape(family), seed, &Device::flex())).to_vec()
}

fn ragged(model: &CausalLm, mut inference: Inference) {
    let mut cache = inference.cache(5, 256);
    // Slots out of order and with gaps; prompts in uneven pieces, then token by token.
    let sequences = [(3, tokens(1, 40)), (0, tokens(2, 75)), (4, tokens(3, 33))];
    let mut filled = [0; 3];
    for piece in [17, 1, 9, 1, 1, 1, 1, 1] {
        let mut order = [0, 1, 2];
        order.rotate_left(piece % 3);
        let rows: Vec<Row> = order
            .iter()
            .map(|index| {
                let (slot, ids) = &sequences[*index];
                let length = if piece == 1 { 1 } else { piece - index };
                let start = filled[*index];
                filled[*index] += length;
                Row { slot: *slot, start, ids: ids[start..start + length].to_vec() }
            })
            .collect();
        let hidden = inference.advance(&mut cache, &rows);
        let logits = log_softmax(inference.logits(hidden), 1);
        let logits = logits.try_into_vec_as::<f32>().unwrap();
        for (number, index) in order.iter().enumerate() {
            let expected = plain(model, &sequences[*index].1[..filled[*index]]);
            close(&logits[number * 64..][..64], expected.last().unwrap());
        }
    }
}

#[test]
fn a_cache_that_grows_and_a_copied_prefix_keep_their_values() {
    let model = policy(2);
    let mut inference = Inference::new(&model, 8, 1200);
    let mut cache = inference.cache(3, 1200);
    let ids = tokens(4, 700);
    let row = |slot, start: usize, end: usize| Row { slot, start, ids: ids[start..end].to_vec() };
    inference.advance(&mut cache, &[row(1, 0, 500)]);
    inference.advance(&mut cache, &[row(1, 500, 699)]);
    cache.copy(1, 2, 600);
    inference.advance(&mut cache, &[row(2, 600, 699)]);
    let expected = plain(&model, &ids);
    for slot in [1, 2] {
        let hidden = inference.advance(&mut cache, &[row(slot, 699, 700)]);
        let logits = log_softmax(inference.logits(hidden), 1);
        close(&logits.try_into_vec_as::<f32>().unwrap(), &expected[699]);
    }
}

#[test]
fn log_probabilities_are_those_of_the_plain_policy_over_several_turns() {
    let model = policy(3);
    let generator = Generator::spawn(model.clone(), 7, GeneratorConfig { slots: 4, context: 400 });
    let sequence = generator.open().unwrap();
    let mut all = Vec::new();
    for turn in 0..3 {
        let append = tokens(turn, 20 + turn as usize);
        all.extend_from_slice(&append);
        let sampled = sequence.sample_blocking(request(append, 12, u64::from(turn))).unwrap();
        assert_eq!((sampled.version, sampled.finish, sampled.ids.len()), (7, Finish::Length, 12));
        let from = all.len();
        all.extend_from_slice(&sampled.ids);
        let expected = plain(&model, &all);
        let expected: Vec<f32> = (from..all.len()).map(|at| expected[at - 1][all[at] as usize]).collect();
        close(&sampled.logprobs, &expected);
    }
}

/// Samples several replies at once and returns them in order.
fn together(generator: &Generator, requests: Vec<SampleRequest>) -> Vec<Result<Sampled, GenerateError>> {
    let (sender, receiver) = mpsc::channel();
    let sequences: Vec<Sequence> = requests.iter().map(|_| generator.open().unwrap()).collect();
    for (index, (sequence, request)) in sequences.iter().zip(requests).enumerate() {
        let sender = sender.clone();
        sequence.sample(request, Box::new(move |result| sender.send((index, result)).unwrap()));
    }
    drop(sender);
    let mut results: Vec<_> = receiver.iter().collect();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn a_reply_does_not_depend_on_what_else_is_sampled() {
    let shared = tokens(9, 40);
    let requests: Vec<SampleRequest> = (0..6)
        .map(|index| {
            let prompt = [&shared[..], &tokens(index, 3 + 5 * index as usize)].concat();
            // With and without limits on what can come.
            let (top_k, top_p) = [(0, 1.0), (12, 1.0), (0, 0.8), (20, 0.7)][index as usize % 4];
            SampleRequest { top_k, top_p, ..request(prompt, 10 + index as usize, u64::from(index)) }
        })
        .collect();
    let config = GeneratorConfig { slots: 6, context: 400 };
    let batched = together(&Generator::spawn(policy(4), 0, config), requests.clone());
    let again = together(&Generator::spawn(policy(4), 0, config), requests.clone());
    for ((request, batched), again) in requests.into_iter().zip(batched).zip(again) {
        let alone = Generator::spawn(policy(4), 0, config).open().unwrap().sample_blocking(request).unwrap();
        for other in [batched.unwrap(), again.unwrap()] {
            assert_eq!(other.ids, alone.ids);
            close(&other.logprobs, &alone.logprobs);
        }
    }
}

#[test]
fn a_published_version_sees_no_key_or_value_of_the_old_one() {
    let (old, new) = (policy(5), policy(6));
    let generator = Generator::spawn(old, 1, GeneratorConfig { slots: 2, context: 400 });
    let sequence = generator.open().unwrap();
    let prompt = tokens(1, 50);
    let first = sequence.sample_blocking(request(prompt.clone(), 8, 1)).unwrap();
    generator.publish(new.clone(), 2).unwrap();
    assert_eq!(generator.version(), 2);

    let second = sequence.sample_blocking(request(tokens(2, 5), 8, 2)).unwrap();
    let other = generator.open().unwrap().sample_blocking(request(prompt.clone(), 8, 1)).unwrap();
    assert_eq!((first.version, second.version, other.version), (1, 2, 2));
    let check = |before: Vec<u32>, sampled: &Sampled| {
        let all = [before.clone(), sampled.ids.clone()].concat();
        let expected = plain(&new, &all);
        let expected: Vec<f32> =
            (before.len()..all.len()).map(|at| expected[at - 1][all[at] as usize]).collect();
        close(&sampled.logprobs, &expected);
    };
    check([prompt.clone(), first.ids, tokens(2, 5)].concat(), &second);
    check(prompt, &other);
}

#[test]
fn replies_end_where_they_should() {
    let generator = Generator::spawn(policy(7), 0, GeneratorConfig { slots: 2, context: 60 });
    let free = generator.open().unwrap().sample_blocking(request(tokens(1, 10), 20, 3)).unwrap();
    let sample = |request| generator.open().unwrap().sample_blocking(request).unwrap();

    let end = free.ids[6];
    let until = free.ids.iter().position(|id| *id == end).unwrap();
    let ended = sample(SampleRequest { end_ids: vec![end], ..request(tokens(1, 10), 20, 3) });
    assert_eq!((&ended.ids[..], ended.finish), (&free.ids[..=until], Finish::Stop));

    let stop: StopWhen = Arc::new(|ids| ids.len() == 4);
    let stopped = sample(SampleRequest { stop: Some(stop), ..request(tokens(1, 10), 20, 3) });
    assert_eq!((&stopped.ids[..], stopped.finish), (&free.ids[..4], Finish::Stop));

    let full = sample(request(tokens(1, 55), 20, 3));
    assert_eq!((full.ids.len(), full.finish), (5, Finish::Length));
}

#[test]
fn bad_requests_are_errors_and_leave_the_sequence_as_it_was() {
    let generator = Generator::spawn(policy(8), 0, GeneratorConfig { slots: 1, context: 60 });
    let sequence = generator.open().unwrap();
    assert_eq!(generator.open().err(), Some(GenerateError::SlotsInUse { open: 1, slots: 1 }));
    let fails = |request, expected| assert_eq!(sequence.sample_blocking(request).err(), Some(expected));
    fails(request(vec![3, 64], 4, 0), GenerateError::UnknownToken { id: 64, vocabulary: 64 });
    let bad = |name, value: &str, wanted| GenerateError::BadSampling { name, value: value.into(), wanted };
    fails(
        SampleRequest { top_p: 1.5, ..request(vec![3], 4, 0) },
        bad("top_p", "1.5", "a number over 0 and at most 1"),
    );
    fails(
        SampleRequest { temperature: f32::NAN, ..request(vec![3], 4, 0) },
        bad("temperature", "NaN", "0 or a positive number"),
    );
    fails(request(tokens(0, 60), 4, 0), GenerateError::ContextFull { used: 60, limit: 60 });
    assert!(matches!(
        sequence.sample_blocking(request(Vec::new(), 4, 0)),
        Err(GenerateError::EmptyRequest { .. })
    ));
    let panics: StopWhen = Arc::new(|_| panic!("a fault of the caller"));
    let faulty = SampleRequest { stop: Some(panics), ..request(tokens(5, 30), 4, 0) };
    assert!(matches!(sequence.sample_blocking(faulty), Err(GenerateError::Failed { .. })));

    let prompt = tokens(6, 30);
    let after = sequence.sample_blocking(request(prompt.clone(), 6, 9)).unwrap();
    drop(sequence);
    let fresh = generator.open().unwrap().sample_blocking(request(prompt, 6, 9)).unwrap();
    assert_eq!(after.ids, fresh.ids);
    close(&after.logprobs, &fresh.logprobs);
}

#[test]
fn a_worker_that_cannot_go_on_says_why_and_answers_no_more() {
    // No device has room for so many slots.
    let generator = Generator::spawn(policy(9), 0, GeneratorConfig { slots: usize::MAX / 2, context: 60 });
    let sequence = generator.open().unwrap();
    let answer = sequence.sample_blocking(request(tokens(1, 10), 4, 0));
    assert_eq!(answer.err(), Some(GenerateError::Stopped));
    // It is said as soon as the worker is gone.
    let why = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        generator.ended()
    });
    assert!(why.is_some_and(|why| why.starts_with("generate: the policy could not be computed: ")));
    assert_eq!(Generator::spawn(policy(9), 0, GeneratorConfig { slots: 1, context: 60 }).ended(), None);
}

#[test]
fn a_failure_of_the_policy_reaches_every_caller_and_the_generator_goes_on() {
    let broken = {
        let mut tensors = policy(9).named_tensors();
        let mut norm = tensors.get("model.norm.weight").unwrap().clone();
        norm.data.fill(f32::NAN);
        tensors.insert("model.norm.weight", norm);
        CausalLm::from_tensors(config(), &tensors, &Device::flex()).unwrap()
    };
    let generator = Generator::spawn(broken, 0, GeneratorConfig { slots: 3, context: 60 });
    let requests = (0..3).map(|index| request(tokens(index, 10), 4, 0)).collect();
    for result in together(&generator, requests) {
        assert!(matches!(result, Err(GenerateError::Failed { .. })), "{result:?}");
    }
    generator.publish(policy(9), 1).unwrap();
    let fine = generator.open().unwrap().sample_blocking(request(tokens(1, 10), 4, 0)).unwrap();
    assert_eq!(fine.version, 1);
}

#[test]
fn two_requests_at_once_for_one_sequence_are_refused() {
    let generator = Generator::spawn(policy(10), 0, GeneratorConfig { slots: 1, context: 300 });
    let sequence = generator.open().unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..2 {
        let sender = sender.clone();
        let done = Box::new(move |result: Result<Sampled, _>| sender.send(result.err()).unwrap());
        sequence.sample(request(tokens(1, 100), 100, 0), done);
    }
    let mut results = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    results.sort_by_key(Option::is_some);
    assert_eq!(results, [None, Some(GenerateError::Busy)]);
}

#[test]
fn tokens_are_seen_one_by_one_before_the_reply() {
    let generator = Generator::spawn(policy(11), 0, GeneratorConfig { slots: 1, context: 100 });
    let (sender, receiver) = mpsc::channel();
    let on_token: OnToken = Arc::new(move |token| sender.send(token).unwrap());
    let request = SampleRequest { on_token: Some(on_token), ..request(tokens(1, 10), 12, 3) };
    let sampled = generator.open().unwrap().sample_blocking(request).unwrap();
    // The sender went with the request: the list ends.
    let seen: Vec<SampledToken> = receiver.iter().collect();
    assert_eq!(seen.iter().map(|token| token.id).collect::<Vec<_>>(), sampled.ids);
    assert_eq!(seen.iter().map(|token| token.logprob).collect::<Vec<_>>(), sampled.logprobs);
}

#[test]
fn a_cancelled_request_ends_and_changes_nothing_for_others_or_its_sequence() {
    let config = GeneratorConfig { slots: 2, context: 4000 };
    let prompt = tokens(1, 20);
    let other = |generator: &Generator, start: &dyn Fn()| {
        let sequence = generator.open().unwrap();
        let (sender, receiver) = mpsc::channel();
        let done = Box::new(move |result: Result<Sampled, _>| sender.send(result.unwrap()).unwrap());
        sequence.sample(request(tokens(2, 30), 40, 5), done);
        start();
        receiver.recv().unwrap()
    };
    let alone = other(&Generator::spawn(policy(12), 0, config), &|| {});

    let generator = Generator::spawn(policy(12), 0, config);
    let sequence = generator.open().unwrap();
    let first = sequence.sample_blocking(request(prompt.clone(), 6, 1)).unwrap();
    let cancel = Cancel::default();
    let (sender, ended) = mpsc::channel();
    // After its fifth token, from within: a point of time that no machine moves.
    let (seen, own) = (std::sync::atomic::AtomicUsize::new(0), cancel.clone());
    let on_token: OnToken = Arc::new(move |_| {
        if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 4 {
            own.cancel();
        }
    });
    let beside = other(&generator, &|| {
        let asked = SampleRequest {
            cancel: cancel.clone(),
            on_token: Some(on_token.clone()),
            ..request(tokens(3, 10), 3000, 2)
        };
        let sender = sender.clone();
        sequence.sample(asked, Box::new(move |result| sender.send(result).unwrap()));
    });
    assert_eq!(ended.recv().unwrap(), Err(GenerateError::Cancelled));
    assert_eq!(beside.ids, alone.ids);
    close(&beside.logprobs, &alone.logprobs);

    // Cancelled before it began: not a token is computed.
    let at_once = SampleRequest { cancel, ..request(tokens(4, 10), 3000, 2) };
    assert_eq!(sequence.sample_blocking(at_once), Err(GenerateError::Cancelled));

    let next = sequence.sample_blocking(request(tokens(5, 7), 6, 3)).unwrap();
    let whole = [prompt, first.ids, tokens(5, 7)].concat();
    let fresh = Generator::spawn(policy(12), 0, config).open().unwrap();
    let expected = fresh.sample_blocking(request(whole, 6, 3)).unwrap();
    assert_eq!(next.ids, expected.ids);
    close(&next.logprobs, &expected.logprobs);
}
