//! Which samples go through the model together, and which rows of its output matter?

use super::Sample;

/// A trained token: where its prediction stands in the padded batch, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Index of the sample.
    pub sample: usize,
    /// Position of the trained token in the sample; the position before predicts it.
    pub position: usize,
    /// Index of the predicting position in the flattened `[sequences · width]` batch.
    pub flat: usize,
    /// The token id to be predicted.
    pub target: u32,
}

/// Sequences of similar length, padded on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MicroBatch {
    /// `sequences · width` token ids, row by row.
    pub ids: Vec<i32>,
    pub sequences: usize,
    pub width: usize,
    /// Ids that are no padding.
    pub tokens: usize,
    /// Only the trained tokens: nothing else can have a gradient.
    pub rows: Vec<Row>,
}

/// How many tokens of a sample go through the model: those before the last trained one. 0 for one
/// that teaches nothing.
pub(super) fn input_length(sample: &Sample) -> usize {
    let last = sample.mask.iter().rposition(|trained| *trained);
    if sample.weight > 0.0 { last.unwrap_or(0) } else { 0 }
}

/// Packs the samples with the numbers `members`: sorted by length, as many in one micro-batch as
/// `budget` padded tokens hold.
///
/// Samples without a trained token or with weight 0 are left out. The tokens after the last
/// trained one, and that one itself, are no input: nothing that is learnt depends on them.
pub(super) fn pack(samples: &[Sample], members: &[usize], budget: usize, multiple: usize) -> Vec<MicroBatch> {
    let lengths = members.iter().map(|index| (*index, input_length(&samples[*index])));
    let mut order: Vec<(usize, usize)> = lengths.filter(|(_, length)| *length > 0).collect();
    // The longest first: it sets the width. The sort is stable, so the order is always the same.
    order.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    let mut batches = Vec::new();
    let mut rest = order.as_slice();
    while let Some((_, longest)) = rest.first() {
        let width = longest.next_multiple_of(multiple);
        let count = (budget / width).clamp(1, rest.len());
        let (now, later) = rest.split_at(count);
        batches.push(micro_batch(samples, now, width));
        rest = later;
    }
    batches
}

fn micro_batch(samples: &[Sample], members: &[(usize, usize)], width: usize) -> MicroBatch {
    let mut ids = Vec::with_capacity(members.len() * width);
    let mut rows = Vec::new();
    for (line, (sample, length)) in members.iter().enumerate() {
        let tokens = &samples[*sample];
        ids.extend(tokens.ids[..*length].iter().map(|id| *id as i32));
        // Padding stands after everything that is read, and attention is causal: any id will do.
        ids.resize((line + 1) * width, 0);
        let trained = (1..=*length).filter(|position| tokens.mask[*position]);
        rows.extend(trained.map(|position| Row {
            sample: *sample,
            position,
            flat: line * width + position - 1,
            target: tokens.ids[position],
        }));
    }
    let tokens = members.iter().map(|(_, length)| length).sum();
    MicroBatch { ids, sequences: members.len(), width, tokens, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(samples: &[Sample], budget: usize, multiple: usize) -> Vec<MicroBatch> {
        let all: Vec<usize> = (0..samples.len()).collect();
        super::pack(samples, &all, budget, multiple)
    }

    fn sample(length: usize, trained: &[usize]) -> Sample {
        let ids = (0..length as u32).map(|id| id + 10).collect();
        let mask = (0..length).map(|position| trained.contains(&position)).collect();
        Sample::demonstration(ids, mask)
    }

    #[test]
    fn rows_predict_exactly_the_trained_tokens() {
        let samples = [sample(4, &[2]), sample(6, &[3, 5])];
        let batches = pack(&samples, 100, 1);
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        assert_eq!((batch.sequences, batch.width, batch.tokens), (2, 5, 7));
        assert_eq!(batch.ids, [10, 11, 12, 13, 14, 10, 11, 0, 0, 0]);
        let rows: Vec<_> = batch.rows.iter().map(|row| (row.sample, row.flat, row.target)).collect();
        assert_eq!(rows, [(1, 2, 13), (1, 4, 15), (0, 6, 12)]);
        for row in &batch.rows {
            assert_eq!(samples[row.sample].ids[row.position], row.target);
        }
    }

    #[test]
    fn the_budget_counts_padding_and_one_long_sample_still_goes_through() {
        let samples = [sample(3, &[2]), sample(9, &[8]), sample(3, &[1]), sample(3, &[2])];
        let shapes = |budget, multiple| -> Vec<_> {
            pack(&samples, budget, multiple).iter().map(|b| (b.sequences, b.width)).collect()
        };
        assert_eq!(shapes(4, 1), [(1, 8), (2, 2), (1, 1)]);
        assert_eq!(shapes(16, 1), [(2, 8), (2, 2)]);
        assert_eq!(shapes(1000, 1), [(4, 8)]);
        assert_eq!(shapes(16, 8), [(2, 8), (2, 8)]);
    }

    #[test]
    fn sequences_of_like_length_stand_together_and_leave_little_padding() {
        let samples: Vec<_> =
            (0..32).map(|index| sample(9 + (index * 37) % 64, &[8 + (index * 37) % 64])).collect();
        let padded =
            |batches: &[MicroBatch]| -> usize { batches.iter().map(|b| b.sequences * b.width).sum() };
        let packed = pack(&samples, 256, 1);
        let tokens: usize = packed.iter().map(|batch| batch.tokens).sum();
        assert_eq!(tokens, samples.iter().map(|sample| sample.ids.len() - 1).sum::<usize>());
        assert!(packed.iter().all(|batch| batch.sequences * batch.width <= 256));
        // The same number of sequences at a time, in the order that they came in.
        let unsorted: usize =
            samples.chunks(4).map(|four| 4 * four.iter().map(input_length).max().unwrap_or(0)).sum();
        assert!(padded(&packed) < tokens + tokens / 8, "{} of {tokens}", padded(&packed));
        assert!(unsorted > tokens + tokens / 4, "{unsorted} of {tokens}");
    }

    #[test]
    fn only_the_samples_that_are_asked_for_are_packed() {
        let samples = [sample(4, &[2]), sample(6, &[3, 5]), sample(5, &[4])];
        let batches = super::pack(&samples, &[0, 2], 100, 1);
        let rows: Vec<_> = batches[0].rows.iter().map(|row| row.sample).collect();
        assert_eq!((batches.len(), rows), (1, vec![2, 0]));
    }

    #[test]
    fn samples_that_teach_nothing_are_not_computed() {
        let mut weightless = sample(5, &[4]);
        weightless.weight = 0.0;
        assert!(pack(&[sample(5, &[]), weightless, sample(0, &[])], 100, 1).is_empty());
    }
}
