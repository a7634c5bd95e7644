//! Which groups get more episodes, and which of those are trained on?
//!
//! A group whose episodes all failed teaches nothing. It is topped up in stages until its outcomes differ
//! or a cap is reached; then it is left out. Stopping at the first success biases the share of solved
//! episodes upwards, so rates come from the first `group_size` episodes alone. What is trained on is
//! chosen at random within each outcome, not by who was ready first, and measured against the mean of all
//! that was drawn; with `reweight` each kept episode stands for those of its outcome that were not kept, so
//! that the expected gradient is that of all that was drawn.
//!
//! This is our own rule for what the paper on Self-HPO names BAR and does not define.

use serde::{Deserialize, Serialize};

use super::sections::{TopUpConfig, Uniform};
use crate::evolve::Random;

/// How one kind of group is topped up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Episodes before any top-up (G).
    first: usize,
    stage: usize,
    cap: usize,
    groups: Uniform,
}

/// The outcomes of the first episodes of a group, in the order of their numbers: solved or not, none for an
/// episode without a verdict.
pub type Outcomes<'a> = &'a [Option<bool>];

impl Schedule {
    /// The schedule of groups of `first` episodes with at most `cap`.
    pub fn new(first: usize, cap: usize, config: &TopUpConfig) -> Self {
        let stage = if config.stage == 0 { first } else { config.stage };
        Self { first, stage: stage.max(1), cap: cap.max(first), groups: config.groups }
    }

    /// Whether any group can be topped up.
    pub fn is_on(&self) -> bool {
        self.cap > self.first
    }

    /// How many episodes a group needs by what is known of it: the first ones, and those of every stage up
    /// to the first after which its outcomes differ. It depends on whole stages alone, so a stage that was
    /// cut off is finished before the group is looked at again.
    pub fn wanted(&self, outcomes: Outcomes<'_>) -> usize {
        let mut wanted = self.first;
        while wanted < self.cap && outcomes.len() >= wanted && self.is_uniform(&outcomes[..wanted]) {
            wanted = (wanted + self.stage).min(self.cap);
        }
        wanted
    }

    fn is_uniform(&self, outcomes: Outcomes<'_>) -> bool {
        let valid: Vec<bool> = outcomes.iter().flatten().copied().collect();
        // Without a single verdict something is broken, and more of it helps nobody.
        match self.groups {
            Uniform::AllFailed => !valid.is_empty() && valid.iter().all(|solved| !solved),
            Uniform::Any => !valid.is_empty() && valid.iter().all(|solved| *solved == valid[0]),
        }
    }
}

/// Chooses at most `size` of the drawn rewards (true is solved): of the rarer outcome half of the places at
/// most, the rest of the other; gives their places, in order, and the weight of each.
pub fn choose(drawn: &[bool], size: usize, reweight: bool, random: &mut Random) -> Vec<(usize, f32)> {
    let places = |solved: bool| (0..drawn.len()).filter(|at| drawn[*at] == solved).collect::<Vec<_>>();
    let (solved, failed) = (places(true), places(false));
    if drawn.len() <= size {
        return (0..drawn.len()).map(|at| (at, 1.0)).collect();
    }
    let (rare, common) = if solved.len() <= failed.len() { (solved, failed) } else { (failed, solved) };
    // Both are there in a group that is trained on, so each has a place.
    let of_rare = rare.len().min((size / 2).max(1));
    let of_common = common.len().min(size - of_rare);
    let mut chosen = Vec::new();
    for (all, count) in [(rare, of_rare), (common, of_common)] {
        let weight = if reweight && count > 0 { all.len() as f32 / count as f32 } else { 1.0 };
        chosen.extend(some_of(all, count, random).into_iter().map(|at| (at, weight)));
    }
    chosen.sort_by_key(|(at, _)| *at);
    chosen
}

/// `count` of `all`, each with the same chance (Fisher and Yates).
fn some_of(mut all: Vec<usize>, count: usize, random: &mut Random) -> Vec<usize> {
    for at in 0..count.min(all.len()) {
        let other = at + random.below(all.len() - at);
        all.swap(at, other);
    }
    all.truncate(count);
    all
}

/// What topping up did in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopUpReport {
    /// Groups whose first episodes all ended alike and that were topped up.
    pub groups: usize,
    /// Those whose outcomes differ now.
    pub rescued: usize,
    /// Those that reached the cap and are left out.
    pub given_up: usize,
    /// Episodes beyond the first ones.
    pub episodes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        Schedule::new(4, 16, &TopUpConfig { cap: Some(16), stage: 4, ..TopUpConfig::default() })
    }

    fn outcomes(text: &str) -> Vec<Option<bool>> {
        text.chars().map(|c| (c != '?').then_some(c == '+')).collect()
    }

    #[test]
    fn only_groups_that_teach_nothing_are_topped_up_and_only_to_the_cap() {
        let check = |text: &str, expected: usize| {
            assert_eq!(schedule().wanted(&outcomes(text)), expected, "{text}");
        };
        check("", 4);
        check("---", 4);
        check("--+-", 4);
        check("++++", 4);
        check("----", 8);
        // A stage that was cut off is finished first, whatever its first episodes say.
        check("----+", 8);
        check("-----", 8);
        check("----+---", 8);
        check("--------", 12);
        check(&"-".repeat(12), 16);
        check(&"-".repeat(16), 16);
        // Episodes without a verdict are neither; without any verdict there is no top-up.
        check("?---", 8);
        check("????", 4);
        let any = Schedule { groups: Uniform::Any, ..schedule() };
        assert_eq!(any.wanted(&outcomes("++++")), 8);
        let off = Schedule::new(4, 0, &TopUpConfig::default());
        assert!(!off.is_on() && off.wanted(&outcomes("----")) == 4);
    }

    /// A group of a task that is solved with probability `p`: all outcomes, in order.
    fn group(p: f64, random: &mut Random) -> Vec<bool> {
        let mut drawn: Vec<Option<bool>> = Vec::new();
        loop {
            let wanted = schedule().wanted(&drawn);
            if wanted == drawn.len() {
                return drawn.into_iter().flatten().collect();
            }
            while drawn.len() < wanted {
                drawn.push(Some(random.uniform() < p));
            }
        }
    }

    /// Rates of the first G are right; those of all that was drawn are not (measured: 0.09 for 0.05).
    #[test]
    fn rates_of_the_first_episodes_are_unbiased_and_those_of_all_are_not() {
        const GROUPS: usize = 20_000;
        for p in [0.02, 0.05, 0.1, 0.3] {
            let mut random = Random::new(5, (p * 1000.0) as u64);
            let (mut first, mut all, mut trainable) = (0.0, 0.0, 0.0);
            for _ in 0..GROUPS {
                let drawn = group(p, &mut random);
                let solved = |part: &[bool]| part.iter().filter(|solved| **solved).count();
                first += solved(&drawn[..4]) as f64 / 4.0;
                all += solved(&drawn) as f64 / drawn.len() as f64;
                trainable += f64::from(u8::from((1..4).contains(&solved(&drawn[..4]))));
            }
            let count = GROUPS as f64;
            let error = 4.0 * (p * (1.0 - p) / (4.0 * count)).sqrt();
            assert!((first / count - p).abs() < error, "{p}: {}", first / count);
            let mixed: f64 = 1.0 - p.powi(4) - (1.0 - p).powi(4);
            let error = 4.0 * (mixed * (1.0 - mixed) / count).sqrt();
            assert!((trainable / count - mixed).abs() < error, "{p}: {}", trainable / count);
            assert!(all / count > p + 0.01, "{p}: {}", all / count);
        }
    }

    /// With weights, the expected sum over the kept is the sum over all that was drawn; without, it leans.
    #[test]
    fn what_is_kept_stands_for_all_that_was_drawn() {
        // A gradient of its own for each episode: what an estimator must not mix up.
        let gradient = |at: usize| (at as f64 * 0.7).sin() + 2.0;
        let mut drawn = vec![false; 12];
        drawn[9] = true;
        drawn[11] = true;
        let mean = 2.0 / 12.0;
        let reward = |solved: bool| f64::from(u8::from(solved)) - mean;
        let whole: f64 = (0..12).map(|at| reward(drawn[at]) * gradient(at)).sum();
        let mut random = Random::new(3, 0);
        let mut estimate = |reweight: bool| {
            const DRAWS: usize = 20_000;
            let sum: f64 = (0..DRAWS)
                .flat_map(|_| choose(&drawn, 4, reweight, &mut random))
                .map(|(at, weight)| f64::from(weight) * reward(drawn[at]) * gradient(at))
                .sum();
            sum / DRAWS as f64
        };
        let (with, without) = (estimate(true), estimate(false));
        assert!((with - whole).abs() < 0.03, "{with} is not {whole}");
        assert!((without - whole).abs() > 0.3, "{without} is {whole}");
    }

    #[test]
    fn places_go_to_the_rarer_outcome_first_and_to_nobody_by_speed() {
        let mut drawn = vec![true; 3];
        drawn.extend([false; 9]);
        let mut times = [0; 12];
        for number in 0..2_000 {
            let kept = choose(&drawn, 4, true, &mut Random::new(1, number));
            assert_eq!(kept.len(), 4);
            assert_eq!(kept.iter().filter(|(at, _)| drawn[*at]).count(), 2);
            kept.iter().for_each(|(at, _)| times[*at] += 1);
        }
        // 2 of 3 successes and 2 of 9 failures.
        for (at, times) in times.into_iter().enumerate() {
            let expected = if drawn[at] { 2_000.0 * 2.0 / 3.0 } else { 2_000.0 * 2.0 / 9.0 };
            assert!((f64::from(times) - expected).abs() < 100.0, "{at}: {times}");
        }
        assert_eq!(choose(&[true, false], 8, true, &mut Random::new(1, 1)), [(0, 1.0), (1, 1.0)]);
    }

    #[test]
    fn one_success_of_many_is_always_kept() {
        let mut drawn = vec![false; 30];
        drawn[29] = true;
        for size in [2, 3, 8] {
            let kept = choose(&drawn, size, true, &mut Random::new(2, size as u64));
            assert!(kept.iter().any(|(at, weight)| *at == 29 && *weight == 1.0), "{kept:?}");
            assert_eq!(kept.len(), size);
        }
    }
}
