//! Which tokens of an episode are trained on?

use super::record::Segment;
use crate::policy::Reply;

/// Appends one reply to the segment of an episode. Nothing is rewritten between
/// turns, so an episode has one segment (contract rule 5).
///
/// # Errors
/// A sentence, when the policy told ids that cannot be trained on.
pub(super) fn append(segments: &mut Vec<Segment>, reply: &Reply, first: bool) -> Result<(), String> {
    let (ids, logprobs) = (&reply.ids, &reply.logprobs);
    if ids.is_empty() && logprobs.is_empty() && reply.prompt_ids.is_empty() {
        return match segments.is_empty() {
            true => Ok(()),
            false => Err("it told token ids for earlier replies and none for this one".into()),
        };
    }
    if ids.len() != logprobs.len() {
        return Err(format!("it told {} token ids and {} log-probabilities", ids.len(), logprobs.len()));
    }
    if let Some(bad) = logprobs.iter().find(|value| !value.is_finite()) {
        return Err(format!("it told {bad} as a log-probability"));
    }
    if segments.is_empty() {
        if !first {
            return Err("it told token ids for this reply and none for earlier ones".into());
        }
        segments.push(Segment::default());
    }
    if let Some(segment) = segments.last_mut() {
        segment.ids.extend_from_slice(&reply.prompt_ids);
        segment.ids.extend_from_slice(ids);
        segment.mask.resize(segment.mask.len() + reply.prompt_ids.len(), false);
        segment.mask.resize(segment.mask.len() + ids.len(), true);
        segment.logprobs.resize(segment.logprobs.len() + reply.prompt_ids.len(), 0.0);
        segment.logprobs.extend_from_slice(logprobs);
    }
    Ok(())
}

/// Tokens that the policy sampled; estimated as a quarter of the text's bytes
/// when it does not tell ids.
pub(super) fn sampled_tokens(reply: &Reply) -> u64 {
    match reply.ids.len() {
        0 => (reply.text.len() as u64).div_ceil(4),
        count => count as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(prompt: &[u32], ids: &[u32], logprobs: &[f32]) -> Reply {
        let (prompt_ids, ids, logprobs) = (prompt.to_vec(), ids.to_vec(), logprobs.to_vec());
        Reply { prompt_ids, ids, logprobs, ..Reply::default() }
    }

    #[test]
    fn sampled_tokens_alone_are_trained_on() {
        let mut segments = Vec::new();
        append(&mut segments, &reply(&[1, 2], &[3], &[-0.5]), true).unwrap();
        append(&mut segments, &reply(&[4], &[5, 6], &[-1.0, -2.0]), false).unwrap();
        assert_eq!(
            segments,
            [Segment {
                ids: vec![1, 2, 3, 4, 5, 6],
                mask: vec![false, false, true, false, true, true],
                logprobs: vec![0.0, 0.0, -0.5, 0.0, -1.0, -2.0],
            }]
        );
    }

    #[test]
    fn ids_that_cannot_be_trained_on_are_refused() {
        let check = |replies: &[Reply], expected: Result<(), &str>| {
            let mut segments = Vec::new();
            let mut results = (0..).zip(replies).map(|(at, reply)| append(&mut segments, reply, at == 0));
            let first_error = results.find(Result::is_err).unwrap_or(Ok(()));
            assert_eq!(first_error, expected.map_err(str::to_owned));
        };
        let (silent, good) = (reply(&[], &[], &[]), reply(&[1], &[2], &[-1.0]));
        check(&[silent.clone(), silent.clone()], Ok(()));
        check(
            &[good.clone(), silent.clone()],
            Err("it told token ids for earlier replies and none for this one"),
        );
        check(&[silent, good], Err("it told token ids for this reply and none for earlier ones"));
        check(&[reply(&[1], &[2, 3], &[-1.0])], Err("it told 2 token ids and 1 log-probabilities"));
        check(&[reply(&[1], &[2], &[f32::NAN])], Err("it told NaN as a log-probability"));
    }
}
