//! What of a round's episodes is trained on, and with which advantage?

use std::borrow::Cow;

use anyhow::Result;
use tandem_host::agent::{EpisodeRecord, Exit, Outcome, Segment};
use tandem_host::policy::{Message, Origin, Piece};
use tandem_trainer::learner::Sample;
use tandem_trainer::objective::{AdvantageKind, group_advantages, pooled_advantages};

use super::group::FreshGroup;
use super::reports::UpdateReport;
use super::update_section::UpdateConfig;

/// One group as the learner gets it: task, policy version, harness and skill are one.
pub struct TrainingGroup {
    /// The episodes that are trained on, each with the weight of its tokens.
    pub kept: Vec<(EpisodeRecord, f32)>,
    /// Rewards of all valid episodes that were drawn, kept or not.
    pub drawn: Vec<f32>,
    /// Whether more were drawn than a group has, so that which are kept depends on their outcomes.
    pub topped_up: bool,
    /// Whether the skill of the rollout is left out of the prompt.
    pub without_skill: bool,
}

/// 1 for a solved episode, else 0: nothing else is rewarded.
pub fn reward(episode: &EpisodeRecord) -> f32 {
    f32::from(u8::from(episode.outcome == Outcome::Solved))
}

/// Gives the ids of the first prompt of an episode, from its messages.
pub type Prompt<'a> = &'a dyn Fn(&[Message]) -> Result<Vec<u32>>;

/// Samples by group, and the report of an update that has not been made yet.
pub struct Chosen {
    pub report: UpdateReport,
    pub batches: Vec<Vec<Sample>>,
}

/// Chooses what an update of policy `version` trains on. Uniform groups are left out.
///
/// # Errors
/// When another version of the policy sampled an episode: its log-probabilities would be of another
/// distribution than the one that is trained.
pub fn choose_batches(
    config: &UpdateConfig,
    groups: &[TrainingGroup],
    version: u64,
    prompt: Prompt<'_>,
) -> Result<Chosen> {
    let mut report = UpdateReport {
        version,
        groups: groups.len(),
        mixed_groups: 0,
        left_out: 0,
        episodes: 0,
        tokens: 0,
        steps: Vec::new(),
        skipped: None,
        stuck: false,
    };
    let mut batches = Vec::new();
    for group in groups {
        let samples = samples(group, config.advantage, version, prompt)?;
        if samples.is_empty() {
            continue;
        }
        report.mixed_groups += 1;
        let tokens: usize = samples.iter().map(|sample| sample.ids.len()).sum();
        if config.max_tokens > 0 && report.tokens > 0 && report.tokens + tokens > config.max_tokens {
            report.left_out += 1;
            continue;
        }
        report.tokens += tokens;
        // An episode of several segments gives a sample for each.
        report.episodes += samples.iter().map(|sample| sample.share).sum::<f32>().round() as usize;
        batches.push(samples);
    }
    if batches.is_empty() {
        report.skipped = Some(format!(
            "none of the {} groups has both a solved and an unsolved episode, so no advantage differs from 0",
            groups.len()
        ));
    }
    Ok(Chosen { report, batches })
}

/// The training samples of a group: nothing for a uniform group, whose advantages are all 0. An episode
/// that was solved when a limit ended it counts in the group's mean, and is not trained on: it did not
/// know that it was done.
fn samples(
    group: &TrainingGroup,
    kind: AdvantageKind,
    version: u64,
    prompt: Prompt<'_>,
) -> Result<Vec<Sample>> {
    let fresh = FreshGroup::new(group.kept.iter().map(|(episode, _)| episode), version)?;
    let rewards: Vec<f32> = fresh.episodes().iter().map(|episode| reward(episode)).collect();
    let advantages = match group.topped_up {
        true => pooled_advantages(&rewards, &group.drawn),
        false => group_advantages(&rewards, kind),
    };
    if !advantages.counted {
        return Ok(Vec::new());
    }
    let by_chance = |episode: &EpisodeRecord| {
        matches!(episode.exit, Exit::Limit { .. }) && episode.outcome == Outcome::Solved
    };
    let mut all = Vec::new();
    for ((episode, weight), advantage) in group.kept.iter().zip(advantages.values) {
        if by_chance(episode) {
            continue;
        }
        let segments = trained_segments(episode, group.without_skill, prompt)?;
        let trained = |segment: &Cow<'_, Segment>| segment.mask.iter().any(|sampled| *sampled);
        let segments: Vec<_> = segments.into_iter().filter(trained).collect();
        let share = 1.0 / segments.len() as f32;
        for segment in segments {
            let Segment { ids, mask, logprobs } = segment.into_owned();
            let mut sample = Sample::new(ids, mask, logprobs, advantage);
            (sample.weight, sample.share) = (*weight, share);
            all.push(sample);
        }
    }
    Ok(all)
}

/// The segments of an episode as they are trained on. Without the skill, the first one has a prompt that
/// was written without it, before the very tokens that were sampled; later segments, which a shortened
/// history opened, are left out.
fn trained_segments<'a>(
    episode: &'a EpisodeRecord,
    without_skill: bool,
    prompt: Prompt<'_>,
) -> Result<Vec<Cow<'a, Segment>>> {
    let first = episode.turns.first().map(|turn| &turn.input);
    let (true, Some(first), Some(segment)) = (without_skill, first, episode.segments.first()) else {
        return Ok(episode.segments.iter().map(Cow::Borrowed).collect());
    };
    let prompt = prompt(&without_skills(first))?;
    let begin = segment.mask.iter().position(|sampled| *sampled).unwrap_or(segment.mask.len());
    let joined = |head: Vec<u32>, tail: &[u32]| [head, tail.to_vec()].concat();
    Ok(vec![Cow::Owned(Segment {
        mask: [vec![false; prompt.len()], segment.mask[begin..].to_vec()].concat(),
        logprobs: [vec![0.0; prompt.len()], segment.logprobs[begin..].to_vec()].concat(),
        ids: joined(prompt, &segment.ids[begin..]),
    })])
}

/// Messages without skills and the separators before them.
pub fn without_skills(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    for message in &mut messages {
        let mut kept: Vec<Piece> = Vec::with_capacity(message.pieces.len());
        for piece in message.pieces.drain(..) {
            if piece.origin != Origin::Skill {
                kept.push(piece);
            } else if kept.last().is_some_and(|last| last.origin == Origin::Host && last.text == "\n\n") {
                kept.pop();
            }
        }
        message.pieces = kept;
    }
    messages
}

/// Bytes for ids, where there is no tokeniser.
pub fn plain_context(messages: &[Message]) -> Result<Vec<u32>> {
    Ok(messages.iter().flat_map(|message| message.text().into_bytes()).map(u32::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evolve::testkit;
    use tandem_host::policy::Role;

    impl TrainingGroup {
        /// A group that was not topped up, from its valid episodes.
        pub fn whole(episodes: Vec<EpisodeRecord>) -> Self {
            Self {
                drawn: episodes.iter().map(reward).collect(),
                kept: episodes.into_iter().map(|episode| (episode, 1.0)).collect(),
                topped_up: false,
                without_skill: false,
            }
        }
    }
    fn episode(solved: bool, skill: Option<&str>) -> EpisodeRecord {
        let mut episode = testkit::episode("t");
        episode.outcome = if solved { Outcome::Solved } else { Outcome::Unsolved };
        let mut first = Message::new(Role::User, "Do it.");
        if let Some(skill) = skill {
            first.pieces.push(Piece { origin: Origin::Host, text: "\n\n".into() });
            first.pieces.push(Piece { origin: Origin::Skill, text: skill.into() });
        }
        let prompt: Vec<u32> = first.text().bytes().map(u32::from).collect();
        episode.turns[0].input = vec![first];
        let (length, sampled) = (prompt.len(), [7, 8]);
        episode.segments = vec![Segment {
            ids: [prompt, sampled.to_vec()].concat(),
            mask: [vec![false; length], vec![true; 2]].concat(),
            logprobs: [vec![0.0; length], vec![-0.5; 2]].concat(),
        }];
        episode
    }

    fn chosen(groups: &[TrainingGroup]) -> Chosen {
        choose_batches(&UpdateConfig::default(), groups, 0, &plain_context).unwrap()
    }

    fn prompt_of(sample: &Sample) -> String {
        let ids = sample.ids.iter().zip(&sample.mask).filter(|(_, sampled)| !**sampled);
        ids.map(|(id, _)| char::from(*id as u8)).collect()
    }

    #[test]
    fn out_of_context_the_skill_is_gone_and_the_sampled_tokens_are_the_same() {
        let group = |without_skill| TrainingGroup {
            without_skill,
            ..TrainingGroup::whole(vec![
                episode(true, Some("Look twice.")),
                episode(false, Some("Look twice.")),
            ])
        };
        for (without, expected) in [(false, "Do it.\n\nLook twice."), (true, "Do it.")] {
            let batches = chosen(&[group(without)]).batches;
            for sample in &batches[0] {
                assert_eq!(prompt_of(sample), expected);
                assert_eq!(sample.trained(), 2);
                let tail: Vec<_> = sample.ids[sample.ids.len() - 2..].to_vec();
                assert_eq!(tail, [7, 8]);
                assert_eq!(sample.logprobs[sample.logprobs.len() - 2..], [-0.5, -0.5]);
                assert_eq!(sample.mask.len(), sample.ids.len());
            }
        }
    }

    #[test]
    fn no_token_of_a_skill_is_trained_on() {
        let batches = chosen(&[TrainingGroup::whole(vec![
            episode(true, Some("Look twice.")),
            episode(false, Some("Look twice.")),
        ])])
        .batches;
        let sample = &batches[0][0];
        let text: String = prompt_of(sample);
        assert!(text.contains("Look twice.") && sample.trained() == 2);
    }

    #[test]
    fn a_group_of_one_or_of_one_outcome_trains_nothing() {
        let uniform = TrainingGroup::whole(vec![episode(false, None), episode(false, None)]);
        let single = TrainingGroup::whole(vec![episode(true, None)]);
        let found = chosen(&[uniform, single]);
        assert!(found.batches.is_empty());
        let skipped = found.report.skipped.unwrap();
        assert!(skipped.starts_with("none of the 2 groups"), "{skipped}");
    }

    #[test]
    fn a_topped_up_group_is_measured_against_all_that_was_drawn() {
        // 12 drawn with one success, of which the success and 7 failures are kept.
        let mut drawn = vec![0.0; 12];
        drawn[11] = 1.0;
        let mut kept = vec![(episode(true, None), 1.0)];
        kept.extend((0..7).map(|_| (episode(false, None), 11.0 / 7.0)));
        let group = TrainingGroup { kept, drawn, topped_up: true, without_skill: false };
        let batches = chosen(&[group]).batches;
        let sum: f32 = batches[0].iter().map(|sample| sample.weight * sample.advantage).sum();
        assert!(sum.abs() < 1e-5, "{sum}");
        assert!((batches[0][0].advantage - 11.0 / 12.0).abs() < 1e-6);
    }

    #[test]
    fn an_episode_whose_history_was_rewritten_counts_once() {
        let mut long = episode(true, None);
        let segment = long.segments[0].clone();
        // Nothing was sampled in the last one.
        let idle = Segment { mask: vec![false; segment.ids.len()], ..segment.clone() };
        long.segments = vec![segment.clone(), segment, idle];
        let chosen = chosen(&[TrainingGroup::whole(vec![long, episode(false, None)])]);
        let shares: Vec<f32> = chosen.batches[0].iter().map(|sample| sample.share).collect();
        assert_eq!(shares, [0.5, 0.5, 1.0]);
        assert_eq!(chosen.report.episodes, 2);
    }

    #[test]
    fn an_episode_of_another_version_is_refused() {
        let mut stale = episode(true, None);
        stale.policy_version = 3;
        let group = TrainingGroup::whole(vec![stale, episode(false, None)]);
        let error = choose_batches(&UpdateConfig::default(), &[group], 0, &plain_context).err().unwrap();
        assert!(error.to_string().contains("was sampled by policy v3, and v0 is trained"), "{error}");
    }
}
