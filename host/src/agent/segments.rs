//! Which tokens of an episode are trained on?

use super::record::Segment;
use crate::policy::{Message, Reply, TokenUsage};

/// Where the tokens of a reply go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the first of the episode.
    First,
    /// Its prompt goes on where the reply before it ended.
    Next,
    /// Its prompt was written anew: what was there is closed.
    Anew,
}

/// Appends one reply to the segments of an episode. Without a history that was
/// shortened nothing is rewritten between turns, and there is one (contract rule 5).
///
/// # Errors
/// A sentence, when the policy told ids that cannot be trained on.
pub(super) fn append(segments: &mut Vec<Segment>, reply: &Reply, place: Place) -> Result<(), String> {
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
    if segments.is_empty() && place != Place::First {
        return Err("it told token ids for this reply and none for earlier ones".into());
    }
    if place != Place::Next {
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

/// Tokens of a reply to `new` messages behind a conversation of `before` tokens: as they were
/// sampled, or as the endpoint counted them; a quarter of the bytes where neither is told.
pub(super) fn usage(reply: &Reply, before: u64, new: &[Message]) -> TokenUsage {
    let estimate = |bytes: usize| (bytes as u64).div_ceil(4);
    let told = reply.usage;
    let sampled = (!reply.ids.is_empty()).then_some(reply.ids.len() as u64);
    let new = match reply.prompt_ids.len() {
        0 => estimate(new.iter().map(|message| message.text().len()).sum()),
        count => count as u64,
    };
    TokenUsage {
        prompt: told.map_or(before.saturating_add(new), |told| told.prompt),
        reply: sampled.or(told.map(|told| told.reply)).unwrap_or_else(|| estimate(reply.text.len())),
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
        append(&mut segments, &reply(&[1, 2], &[3], &[-0.5]), Place::First).unwrap();
        append(&mut segments, &reply(&[4], &[5, 6], &[-1.0, -2.0]), Place::Next).unwrap();
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
    fn a_prompt_that_was_written_anew_opens_a_segment() {
        let mut segments = Vec::new();
        append(&mut segments, &reply(&[1, 2], &[3], &[-0.5]), Place::First).unwrap();
        append(&mut segments, &reply(&[1, 9], &[4], &[-1.0]), Place::Anew).unwrap();
        append(&mut segments, &reply(&[5], &[6], &[-2.0]), Place::Next).unwrap();
        let ids: Vec<_> = segments.iter().map(|segment| segment.ids.clone()).collect();
        assert_eq!(ids, [vec![1, 2, 3], vec![1, 9, 4, 5, 6]]);
        assert_eq!(segments[1].mask, [false, false, true, false, true]);
    }

    #[test]
    fn tokens_are_counted_as_sampled_as_told_or_by_bytes() {
        let check = |reply: Reply, expected: (u64, u64)| {
            let reply = Reply { text: "seven c".into(), ..reply };
            let usage = usage(&reply, 10, &[Message::new(crate::policy::Role::User, "five.")]);
            assert_eq!((usage.prompt, usage.reply), expected);
        };
        let told = Some(TokenUsage { prompt: 40, reply: 9 });
        check(Reply::default(), (12, 2));
        check(reply(&[1, 2, 3], &[4], &[0.0]), (13, 1));
        check(Reply { usage: told, ..Reply::default() }, (40, 9));
        // An endpoint counts what it leaves out of the ids of a reply; those are what was sampled.
        check(Reply { usage: told, ..reply(&[1, 2, 3], &[4], &[0.0]) }, (40, 1));
    }

    #[test]
    fn ids_that_cannot_be_trained_on_are_refused() {
        let check = |replies: &[Reply], expected: Result<(), &str>| {
            let mut segments = Vec::new();
            let mut results = (0..).zip(replies).map(|(at, reply)| {
                append(&mut segments, reply, if at == 0 { Place::First } else { Place::Next })
            });
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
