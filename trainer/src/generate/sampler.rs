//! Which token comes next?
//!
//! Inverse-transform sampling in two steps: the device sums the probabilities of
//! blocks of tokens, the host draws a block, and then a token of that block. So only
//! some hundred numbers of a row come to the host, and the draw uses the row's own
//! seeded generator, whatever else is in the batch. A row with top-k or top-p comes to the
//! host as a whole, since which tokens it may draw depends on all of them.

use burn::tensor::{Int, Tensor, TensorData};
use rand::Rng;
use rand::rngs::StdRng;

use super::{GenerateError, nucleus};

/// How one row is sampled.
pub(super) struct Draw<'a> {
    /// 0 takes the likeliest token.
    pub temperature: f32,
    /// Only this many of the likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that together have this probability; 1 for all.
    pub top_p: f32,
    pub random: &'a mut StdRng,
}

impl Draw<'_> {
    /// Whether top-k or top-p leave tokens out.
    pub fn is_restricted(&self) -> bool {
        self.temperature > 0.0 && (self.top_k > 0 || self.top_p < 1.0)
    }
}

/// A sampled token and its log-probability under the distribution that it was drawn from.
/// With temperature 0 that is the policy's own distribution (temperature 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub id: u32,
    pub logprob: f32,
}

/// Most tokens of a block: the square root of a vocabulary is where both steps move the least.
const LARGEST_BLOCK: usize = 512;

/// Draws one token for each row of `logits` (`[rows, vocabulary]`, f32).
///
/// # Errors
/// When the device fails or a row has no finite distribution.
pub(super) fn sample(logits: Tensor<2>, draws: &mut [Draw]) -> Result<Vec<Token>, GenerateError> {
    let [rows, vocabulary] = logits.dims();
    let device = logits.device();
    let block = (1..=LARGEST_BLOCK.min(vocabulary)).rev().find(|size| vocabulary % size == 0).unwrap_or(1);
    let blocks = vocabulary / block;
    let integers =
        |values: Vec<i64>| -> Tensor<1, Int> { Tensor::from_data(TensorData::new(values, [rows]), &device) };

    let scaled = if draws.iter().any(|draw| draw.temperature > 0.0 && draw.temperature != 1.0) {
        let inverse =
            draws.iter().map(|draw| if draw.temperature > 0.0 { draw.temperature.recip() } else { 1.0 });
        logits * Tensor::from_data(TensorData::new(inverse.collect::<Vec<f32>>(), [rows, 1]), &device)
    } else {
        logits
    };
    let greedy = match draws.iter().any(|draw| draw.temperature <= 0.0) {
        true => scaled.clone().argmax(1).try_into_vec_as::<i64>().map_err(failed)?,
        false => Vec::new(),
    };
    // Relative to the largest, so that the exponential neither overflows nor vanishes.
    let largest = scaled.clone().max_dim(1);
    let weights: Tensor<2> = (scaled - largest).exp().reshape([rows * blocks, block]);
    let sums = weights.clone().sum_dim(1).try_into_vec_as::<f32>().map_err(failed)?;

    let restricted: Vec<usize> = (0..rows).filter(|row| draws[*row].is_restricted()).collect();
    let whole = match restricted.is_empty() {
        true => Vec::new(),
        false => {
            let index: Vec<i64> = restricted.iter().map(|row| *row as i64).collect();
            let index: Tensor<1, Int> =
                Tensor::from_data(TensorData::new(index, [restricted.len()]), &device);
            let all: Tensor<2> = weights.clone().reshape([rows, vocabulary]);
            all.select(0, index).try_into_vec_as::<f32>().map_err(failed)?
        }
    };
    let mut whole = whole.chunks(vocabulary);

    let mut picked = Vec::with_capacity(rows);
    for (row, draw) in draws.iter_mut().enumerate() {
        let sums = &sums[row * blocks..][..blocks];
        let total: f64 = sums.iter().map(|sum| f64::from(*sum)).sum();
        if !(total.is_finite() && total > 0.0) {
            return Err(GenerateError::Failed { reason: "the logits are not finite".into() });
        }
        picked.push(match draw.is_restricted().then(|| whole.next()).flatten() {
            Some(weights) => {
                let drawn = nucleus::draw(weights, draw.top_k, draw.top_p, draw.random.random());
                Picked::Token(Token { id: drawn.id as u32, logprob: drawn.probability.ln() as f32 })
            }
            None if draw.temperature > 0.0 => {
                Picked::Block(Choice::drawn(sums, draw.random.random::<f64>() * total), total)
            }
            None => Picked::Block(Choice { index: greedy[row] as usize / block, rest: None }, total),
        });
    }
    if restricted.len() == rows {
        return Ok(picked.into_iter().filter_map(Picked::token).collect());
    }
    let index = picked.iter().enumerate().map(|(row, picked)| (row * blocks + picked.block()) as i64);
    let inner = weights.select(0, integers(index.collect())).try_into_vec_as::<f32>().map_err(failed)?;
    Ok(picked
        .into_iter()
        .enumerate()
        .map(|(row, picked)| {
            let (choice, total) = match picked {
                Picked::Token(token) => return token,
                Picked::Block(choice, total) => (choice, total),
            };
            let inner = &inner[row * block..][..block];
            let within = match choice.rest {
                Some(rest) => Choice::drawn(inner, rest).index,
                None => greedy[row] as usize % block,
            };
            let id = (choice.index * block + within) as u32;
            Token { id, logprob: (f64::from(inner[within]) / total).ln() as f32 }
        })
        .collect())
}

/// What is known of a row after the first step.
enum Picked {
    /// The block in which its token lies, and the sum of all weights.
    Block(Choice, f64),
    /// The token itself.
    Token(Token),
}

impl Picked {
    fn block(&self) -> usize {
        match self {
            Self::Block(choice, _) => choice.index,
            Self::Token(_) => 0,
        }
    }

    fn token(self) -> Option<Token> {
        match self {
            Self::Token(token) => Some(token),
            Self::Block(..) => None,
        }
    }
}

/// Where a point on the line of summed weights lies.
struct Choice {
    index: usize,
    /// How far into that weight; none if it was not drawn.
    rest: Option<f64>,
}

impl Choice {
    /// The weight that the point `at` falls into; the last that is not 0 when rounding
    /// left the point behind all of them.
    fn drawn(weights: &[f32], mut at: f64) -> Self {
        let mut last = 0;
        for (index, weight) in weights.iter().enumerate() {
            let weight = f64::from(*weight);
            if weight <= 0.0 {
                continue;
            }
            last = index;
            if at < weight {
                return Self { index, rest: Some(at) };
            }
            at -= weight;
        }
        Self { index: last, rest: Some(f64::from(weights[last])) }
    }
}

fn failed(error: impl std::fmt::Display) -> GenerateError {
    GenerateError::Failed { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use rand::SeedableRng;

    fn draw(rows: &[&[f32]], temperature: f32, seed: u64) -> Vec<Token> {
        draw_of(rows, temperature, &vec![(0, 1.0); rows.len()], seed)
    }

    /// With top-k and top-p of each row.
    fn draw_of(rows: &[&[f32]], temperature: f32, limits: &[(usize, f32)], seed: u64) -> Vec<Token> {
        let values = rows.concat();
        let logits = Tensor::from_data(TensorData::new(values, [rows.len(), rows[0].len()]), &Device::flex());
        let mut randoms: Vec<_> =
            (0..rows.len()).map(|row| StdRng::seed_from_u64(seed + row as u64)).collect();
        let mut draws: Vec<_> = randoms
            .iter_mut()
            .zip(limits)
            .map(|(random, (top_k, top_p))| Draw { temperature, top_k: *top_k, top_p: *top_p, random })
            .collect();
        sample(logits, &mut draws).unwrap()
    }

    #[test]
    fn tokens_come_as_often_as_their_probability() {
        // 1,000 tokens, of which three can come: in different blocks and in one.
        let mut row = vec![-200.0; 1000];
        for (id, probability) in [(3, 0.5f32), (4, 0.2), (900, 0.3)] {
            row[id] = probability.ln();
        }
        let rows = vec![row.as_slice(); 2000];
        let tokens = draw(&rows, 1.0, 7);
        for (id, probability) in [(3, 0.5f64), (4, 0.2), (900, 0.3)] {
            let drawn: Vec<_> = tokens.iter().filter(|token| token.id == id).collect();
            // Four standard deviations of a binomial count.
            let deviation = (probability * (1.0 - probability) / 2000.0).sqrt();
            assert!(
                (drawn.len() as f64 / 2000.0 - probability).abs() < 4.0 * deviation,
                "{id}: {}",
                drawn.len()
            );
            assert!(drawn.iter().all(|token| (f64::from(token.logprob) - probability.ln()).abs() < 1e-5));
        }
    }

    #[test]
    fn temperature_scales_before_the_log_probability() {
        let row = [0.0, 2.0];
        for token in draw(&[row.as_slice(); 50], 2.0, 1) {
            let expected = f32::ln(1.0 / (1.0 + f32::exp(if token.id == 1 { -1.0 } else { 1.0 })));
            assert!((token.logprob - expected).abs() < 1e-6);
        }
        let greedy = draw(&[&row], 0.0, 1)[0];
        assert_eq!(greedy.id, 1);
        assert!((greedy.logprob - f32::ln(1.0 / (1.0 + f32::exp(-2.0)))).abs() < 1e-6);
    }

    /// Logits 2·ln(w) at temperature 2 are probabilities w/16; then top-k and top-p.
    #[test]
    fn temperature_comes_first_then_top_k_then_top_p_and_the_log_probability_is_of_what_is_left() {
        let row: Vec<f32> = [2.0f32, 8.0, 1.0, 4.0, 1.0].iter().map(|weight| 2.0 * weight.ln()).collect();
        let cases: [(usize, f32, &[(u32, f64)]); 4] = [
            (0, 1.0, &[(0, 2.0 / 16.0), (1, 8.0 / 16.0), (2, 1.0 / 16.0), (3, 4.0 / 16.0), (4, 1.0 / 16.0)]),
            (3, 1.0, &[(0, 2.0 / 14.0), (1, 8.0 / 14.0), (3, 4.0 / 14.0)]),
            (0, 0.7, &[(1, 8.0 / 12.0), (3, 4.0 / 12.0)]),
            (2, 0.5, &[(1, 1.0)]),
        ];
        // All cases in one batch, and each row alone, draw the same.
        let limits: Vec<(usize, f32)> = (0..400).map(|row| (cases[row % 4].0, cases[row % 4].1)).collect();
        let tokens = draw_of(&vec![row.as_slice(); 400], 2.0, &limits, 5);
        for (number, token) in tokens.iter().enumerate() {
            let (top_k, top_p, possible) = cases[number % 4];
            let expected = possible.iter().find(|(id, _)| *id == token.id);
            let (_, probability) = expected.unwrap_or_else(|| panic!("{top_k} {top_p} drew {}", token.id));
            assert!((f64::from(token.logprob) - probability.ln()).abs() < 1e-5, "{top_k} {top_p} {token:?}");
            let alone = draw_of(&[&row], 2.0, &limits[number..=number], 5 + number as u64);
            assert_eq!(alone, [*token]);
        }
        for (number, (_, _, possible)) in cases.iter().enumerate() {
            let drawn: std::collections::BTreeSet<u32> =
                tokens.iter().skip(number).step_by(4).map(|token| token.id).collect();
            assert_eq!(drawn.len(), possible.len(), "each possible token is drawn by one of 100 seeds");
        }
    }

    #[test]
    fn a_row_that_is_not_finite_is_an_error() {
        let logits = Tensor::from_data(TensorData::new(vec![f32::NAN, 1.0], [1, 2]), &Device::flex());
        let mut random = StdRng::seed_from_u64(0);
        assert!(
            sample(logits, &mut [Draw { temperature: 1.0, top_k: 0, top_p: 1.0, random: &mut random }])
                .is_err()
        );
    }
}
