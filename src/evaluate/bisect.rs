//! Which publication changed what a run solves of given tasks? From recorded episodes where they suffice,
//! else by running episodes under ever fewer harnesses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tandem_host::store::Digest;

use super::arms::{Arm, Part};
use super::bench::Bench;
use crate::campaign::{Arm as Use, Publication, RunRecord};

/// Solved episodes of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub solved: usize,
    pub episodes: usize,
}

impl Tally {
    fn share(&self) -> f64 {
        self.solved as f64 / self.episodes.max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.solved += other.solved;
        self.episodes += other.episodes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.solved, self.episodes)
    }
}

/// A publication and the tasks under the harness before it and under its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Its place among the publications of the run, from 0.
    pub number: usize,
    pub round: u32,
    pub digest: Digest,
    pub reason: String,
    /// None where too few episodes are recorded.
    pub evidence: Option<Evidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    pub policy_version: u64,
    pub before: Tally,
    pub after: Tally,
    /// The chance of a difference as large as this when the harnesses are equally good (Fisher's exact test).
    pub p: f64,
}

/// What a bisection found.
#[derive(Debug, Serialize)]
pub struct Bisected {
    pub tasks: Vec<String>,
    pub steps: Vec<Step>,
    /// The place in `steps` of the publication that changed most; none when nothing changed.
    pub culprit: Option<usize>,
    /// Episodes that were run for the answer.
    pub run: usize,
}

/// What is asked.
pub struct Asked<'a> {
    pub record: &'a RunRecord,
    pub tasks: &'a BTreeSet<String>,
    /// Places among the publications; `from` comes first.
    pub from: usize,
    pub to: usize,
    /// Fewest episodes on each side of a step.
    pub need: usize,
}

/// The places of two harnesses among the publications, earlier first.
///
/// # Errors
/// A digest that none or several publications begin with, or one and the same.
pub fn places(record: &RunRecord, from: &str, to: &str) -> Result<(usize, usize)> {
    let publications = record.publications()?;
    let place = |prefix: &str| {
        let digits = prefix.strip_prefix("sha256:").unwrap_or(prefix);
        let fits = |publication: &Publication| publication.digest.hex().starts_with(digits);
        let distinct: BTreeSet<Digest> =
            publications.iter().filter(|publication| fits(publication)).map(|found| found.digest).collect();
        match distinct.len() {
            1 => publications.iter().position(fits).context("a publication was lost"),
            0 => bail!(
                "the run published no harness `{prefix}`\nhelp: `tandem run lineage RUN` tells the digests"
            ),
            count => {
                bail!("{count} harnesses of the run begin with `{prefix}`\nhelp: give more of the digest")
            }
        }
    };
    let (from, to) = (place(from)?, place(to)?);
    if from == to {
        bail!("both are the same harness\nhelp: name two that the run published");
    }
    Ok((from.min(to), from.max(to)))
}

/// The steps between two publications, with what the record says of each.
pub fn recorded(asked: &Asked<'_>) -> Result<Vec<Step>> {
    let publications = asked.record.publications()?;
    // By harness, policy version and task; a skill is no part of a harness.
    let mut tallies: BTreeMap<(Digest, u64), BTreeMap<String, Tally>> = BTreeMap::new();
    for row in asked.record.episodes()? {
        // Top-ups end at the first success, so their share of successes is too high.
        if !row.valid()
            || row.arm == Use::TopUp.name()
            || row.skill.is_some()
            || !asked.tasks.contains(&row.task)
        {
            continue;
        }
        let tally =
            tallies.entry((row.harness, row.policy_version)).or_default().entry(row.task).or_default();
        tally.add(&Tally { solved: usize::from(row.outcome == "solved"), episodes: 1 });
    }
    let versions: BTreeSet<u64> = tallies.keys().map(|(_, version)| *version).collect();
    let none = BTreeMap::new();
    let step = |number: usize| {
        let publication = &publications[number];
        let before = publications[number - 1].digest;
        let of = |version: u64| {
            let left = tallies.get(&(before, version)).unwrap_or(&none);
            let right = tallies.get(&(publication.digest, version)).unwrap_or(&none);
            let mut sides = [Tally::default(); 2];
            for (task, tally) in left {
                // Only tasks that both were asked: else the mix of tasks would change the rates.
                if let Some(other) = right.get(task) {
                    sides[0].add(tally);
                    sides[1].add(other);
                }
            }
            (sides[0].episodes.min(sides[1].episodes), version, sides)
        };
        let best =
            versions.iter().map(|version| of(*version)).max_by_key(|(least, version, _)| (*least, *version));
        let evidence = best
            .filter(|(least, ..)| *least >= asked.need.max(1))
            .map(|(_, version, sides)| evidence(version, sides));
        Step {
            number,
            round: publication.round,
            digest: publication.digest,
            reason: publication.reason.clone(),
            evidence,
        }
    };
    Ok((asked.from + 1..=asked.to).map(step).collect())
}

fn evidence(policy_version: u64, [before, after]: [Tally; 2]) -> Evidence {
    Evidence { policy_version, before, after, p: fisher(before, after) }
}

/// The step that changed most, if every step is known.
pub fn culprit(steps: &[Step]) -> Option<usize> {
    let change = |step: &Step| {
        step.evidence.map_or(0.0, |evidence| (evidence.after.share() - evidence.before.share()).abs())
    };
    let largest = steps.iter().enumerate().max_by(|a, b| change(a.1).total_cmp(&change(b.1)));
    largest.filter(|(_, step)| change(step) > 0.0).map(|(at, _)| at)
}

/// Finds the publication by running episodes of `version` under the harnesses in the middle of what is left.
/// The tasks are the held-out ones of `bench`.
pub async fn search(bench: &Bench<'_>, asked: &Asked<'_>, version: u64) -> Result<Bisected> {
    let publications = asked.record.publications()?;
    let known = bench.own.episode_ids()?.len();
    let (mut low, mut high) = (asked.from, asked.to);
    let mut rates =
        [under(bench, &publications[low], version).await?, under(bench, &publications[high], version).await?];
    if rates[0] != rates[1] {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let found = under(bench, &publications[middle], version).await?;
            let nearer = (found.share() - rates[0].share()).abs() < (found.share() - rates[1].share()).abs();
            match nearer {
                true => (low, rates[0]) = (middle, found),
                false => (high, rates[1]) = (middle, found),
            }
        }
    }
    let publication = &publications[high];
    let step = Step {
        number: high,
        round: publication.round,
        digest: publication.digest,
        reason: publication.reason.clone(),
        evidence: Some(evidence(version, rates)),
    };
    let run = bench.own.episode_ids()?.len() - known;
    let culprit = (rates[0] != rates[1]).then_some(0);
    Ok(Bisected { tasks: asked.tasks.iter().cloned().collect(), steps: vec![step], culprit, run })
}

/// The tasks under one harness, as far as they were not run already.
async fn under(bench: &Bench<'_>, publication: &Publication, policy_version: u64) -> Result<Tally> {
    let name = format!("v{policy_version}-{}", publication.digest.short());
    let arm = Arm {
        told: format!("harness {}", publication.digest.short()),
        name: name.clone(),
        part: Part::HeldOut,
        source: 0,
        policy_version,
        harness: publication.digest,
        skills: false,
    };
    bench.run(&[arm]).await?;
    let mut tally = Tally::default();
    for row in bench.own.episodes()? {
        if row.valid()
            && row.group == format!("{name}/{}", row.task)
            && bench.held_out.contains_key(&row.task)
        {
            tally.add(&Tally { solved: usize::from(row.solved()), episodes: 1 });
        }
    }
    Ok(tally)
}

/// Fisher's exact test of two shares, two-sided: the chance of all tables that are no likelier than this one.
fn fisher(left: Tally, right: Tally) -> f64 {
    let (solved, all) = (left.solved + right.solved, left.episodes + right.episodes);
    let ln_choose = |n: usize, k: usize| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let chance = |k: usize| {
        (ln_choose(left.episodes, k) + ln_choose(right.episodes, solved - k) - ln_choose(all, solved)).exp()
    };
    let lowest = solved.saturating_sub(right.episodes);
    let highest = solved.min(left.episodes);
    let own = chance(left.solved);
    let sum: f64 = (lowest..=highest).map(chance).filter(|other| *other <= own * (1.0 + 1e-9)).sum();
    sum.min(1.0)
}

fn ln_factorial(n: usize) -> f64 {
    (2..=n).map(|i| (i as f64).ln()).sum()
}

impl Bisected {
    /// What is known of each publication, a line or two for each.
    pub fn steps_told(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let told = step.evidence.map_or("too few recorded episodes".into(), |evidence| {
                let Evidence { policy_version, before, after, p } = evidence;
                format!("{before} to {after} solved, policy v{policy_version}, p = {p:.3}")
            });
            let short = step.digest.short();
            let _ = writeln!(text, "  harness {} ({short}), round {}: {told}", step.number, step.round);
            let _ = writeln!(text, "      {}", step.reason);
        }
        text
    }
}

impl fmt::Display for Bisected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps_told())?;
        match self.culprit.and_then(|at| self.steps.get(at)) {
            Some(step) => {
                writeln!(
                    f,
                    "The publication of harness {} ({}) changed it most.",
                    step.number,
                    step.digest.short()
                )
            }
            None => writeln!(
                f,
                "No publication between them changed what is solved of {}.",
                self.tasks.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::agent::Outcome;

    use crate::campaign::Place;
    use crate::evolve::testkit;

    #[test]
    fn fisher_is_exact() {
        let check = |left: (usize, usize), right: (usize, usize), expected: f64| {
            let tally = |(solved, episodes)| Tally { solved, episodes };
            let found = fisher(tally(left), tally(right));
            assert!((found - expected).abs() < 1e-6, "{left:?} {right:?}: {found}");
        };
        check((0, 4), (0, 4), 1.0);
        check((0, 4), (4, 4), 2.0 / 70.0);
        // The lady tasting tea: 3 of 4 cups.
        check((3, 4), (1, 4), 0.485714);
        check((1, 10), (11, 14), 0.002759);
    }

    /// A run with harnesses h0, h1, ... in this order; episodes as (harness, version, task, solved).
    fn run(harnesses: usize, episodes: &[(usize, u64, &str, bool)]) -> (tempfile::TempDir, RunRecord) {
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::open(folder.path()).unwrap();
        let digest = |at: usize| Digest::of(format!("h{at}").as_bytes());
        for at in 0..harnesses {
            let publication = Publication { round: at as u32, digest: digest(at), reason: format!("h{at}") };
            record.publish(&publication).unwrap();
        }
        for (number, (harness, version, task, solved)) in episodes.iter().enumerate() {
            let mut episode = testkit::episode(task);
            episode.id = number.to_string();
            episode.harness = digest(*harness);
            episode.policy_version = *version;
            episode.outcome = if *solved { Outcome::Solved } else { Outcome::Unsolved };
            let place = Place { round: 1, arm: Use::Collect, group: "g".into() };
            record.add_episode(&place, &episode).unwrap();
        }
        (folder, record)
    }

    #[test]
    fn recorded_episodes_of_one_policy_on_the_same_tasks_decide() {
        let mut episodes = Vec::new();
        for _ in 0..3 {
            // h1 breaks `a`; `b` was only asked under h1, and v1 only under h2: neither is compared.
            episodes.extend([(0, 0, "a", true), (1, 0, "a", false), (2, 0, "a", false)]);
            episodes.extend([(1, 0, "b", true), (2, 1, "a", true), (0, 0, "c", false), (1, 0, "c", false)]);
        }
        let (_folder, record) = run(3, &episodes);
        let tasks = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let asked = Asked { record: &record, tasks: &tasks, from: 0, to: 2, need: 3 };
        let steps = recorded(&asked).unwrap();
        let found = Bisected { culprit: culprit(&steps), tasks: tasks.into_iter().collect(), steps, run: 0 };
        let text = found.to_string();
        let short = |at: usize| Digest::of(format!("h{at}").as_bytes()).short();
        let text = text.replace(&short(1), "H1").replace(&short(2), "H2");
        expect_test::expect![[r#"
              harness 1 (H1), round 1: 3/3 to 0/3 solved, policy v0, p = 0.100
                  h1
              harness 2 (H2), round 2: 0/3 to 0/3 solved, policy v0, p = 1.000
                  h2
            The publication of harness 1 (H1) changed it most.
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn too_few_episodes_leave_a_step_open() {
        let (_folder, record) = run(2, &[(0, 0, "a", true), (1, 1, "a", false)]);
        let tasks = BTreeSet::from(["a".to_owned()]);
        let asked = Asked { record: &record, tasks: &tasks, from: 0, to: 1, need: 1 };
        assert_eq!(recorded(&asked).unwrap()[0].evidence, None);
        let error = places(&record, "00ff", "h").unwrap_err().to_string();
        assert!(error.starts_with("the run published no harness `00ff`"), "{error}");
    }
}
