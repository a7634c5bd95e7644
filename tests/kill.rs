//! Campaigns killed at many moments and resumed: they end as the one that nobody disturbed. Moments lie around
//! every durable write: a blob, a whole file, a transaction of the record, a checkpoint.

mod program;
#[path = "program/scripted.rs"]
mod scripted;
#[path = "program/tiny.rs"]
mod tiny;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use scripted::{DIE_AT, Site};

/// The n-th draw of a fixed sequence (SplitMix64).
fn draw(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs a campaign to its end, killed on the way as long as `kills` are too few.
fn run_killed(site: &Site, run: &str, seed: u64, kills: &AtomicUsize) {
    for start in 0.. {
        let program = site.train(run);
        let program = match kills.load(Ordering::SeqCst) < KILLS {
            true => program.env(DIE_AT, &(1 + draw(seed, start) % MOMENTS).to_string()),
            false => program,
        };
        let output = program.run();
        match output.code {
            Some(0) => return,
            None => {
                kills.fetch_add(1, Ordering::SeqCst);
            }
            Some(code) => panic!("start {start} of {run} ended with {code}:\n{}", output.stderr),
        }
    }
}

/// Kills that are counted, in campaigns that run beside each other.
const KILLS: usize = 200;
/// A start passes so many moments at most before it is killed.
const MOMENTS: u64 = 16;

#[test]
fn a_campaign_killed_at_200_moments_ends_as_the_undisturbed_one() {
    let site = Site::new();
    let undisturbed = site.train("undisturbed").run();
    assert_eq!(undisturbed.code, Some(0), "{}", undisturbed.stderr);
    let expected = site.ending("undisturbed");
    assert!(expected.ledger.len() >= 2, "no candidate was accepted: {expected:?}");
    assert!(expected.gates.contains("reject") && expected.counts.len() >= 4, "{expected:?}");
    let (kills, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while kills.load(Ordering::SeqCst) < KILLS {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let run = format!("killed-{number}");
                    run_killed(&site, &run, number as u64, &kills);
                    assert_eq!(site.ending(&run), expected, "{run}");
                }
            });
        }
    });
    eprintln!("killed {} times in {} campaigns", kills.into_inner(), next.into_inner());
}

/// The moments above are ours; these are the machine's.
#[test]
fn a_campaign_killed_by_the_clock_ends_as_the_undisturbed_one() {
    let site = Site::new();
    assert_eq!(site.train("undisturbed").run().code, Some(0));
    for kill in 0..6 {
        let mut child = site.train("killed").spawn();
        let finished = child.wait_at_most(Duration::from_millis(200 + draw(5, kill) % 900));
        child.kill();
        if finished {
            break;
        }
    }
    let output = site.train("killed").run();
    let over = output.code == Some(0) || output.stderr.contains("holds a run already");
    assert!(over, "{}", output.stderr);
    assert_eq!(site.ending("killed"), site.ending("undisturbed"));
}

const SOLVES: &str =
    "```bash\necho right > answer.txt; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```";
const GIVES_UP: &str = "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```";

/// A campaign that trains a real policy, so small that each of its steps takes a moment.
fn trained() -> Site {
    let site = Site::new();
    let folder = site.0.path();
    tiny::write_replying(&folder.join("tiny"), [SOLVES, GIVES_UP]);
    // Episodes one by one: the bits of a policy do not depend on who else is sampled from it.
    let policy = format!(
        "policy = {{ base = \"./tiny\", context = {}, slots = 1, lora = {{ rank = 2, alpha = 4.0 }} }}",
        tiny::CONTEXT
    );
    let text = scripted::CAMPAIGN
        .replace("method = \"harness-only\"", "method = \"grpo\"")
        .replace("policy.base = \"script:script.toml\"", &policy)
        .replace("group_size = 2\ngroups = 3", "group_size = 4\ngroups = 2\nsampling.max_tokens = 4")
        .replace("concurrency = 4", "concurrency = 1");
    let update = "[update]\nlearning_rate = 1e-3\nsteps = 2\n";
    std::fs::write(folder.join("campaign.toml"), format!("{text}{update}")).unwrap();
    let prompts = "[prompts]\nsystem = \"Repair.\"\ninstance = \"{{ instruction }}\"\n";
    let harness = std::fs::read_to_string(folder.join("harness.toml")).unwrap();
    std::fs::write(folder.join("harness.toml"), format!("{harness}{prompts}")).unwrap();
    site
}

/// The digests of the files of a checkpoint, optimiser's state included.
fn checkpoint(run: &str, version: u32) -> serde_json::Value {
    let path = Path::new(run).join(format!("checkpoints/v{version}/learner.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["files"].clone()
}

/// What a step of training writes: the checkpoint, then the event that says so.
const WRITES: [&str; 5] =
    ["checkpoint-begun", "checkpoint-written", "checkpoint-renamed", "update-made", "update-recorded"];

#[test]
fn a_campaign_killed_at_each_write_of_its_training_ends_with_the_same_policy() {
    let site = trained();
    let undisturbed = site.train("undisturbed").run();
    assert_eq!(undisturbed.code, Some(0), "{}", undisturbed.stderr);
    let expected = site.ending("undisturbed");
    let versions = [0, 1, 2].map(|version| checkpoint(&site.path("undisturbed"), version));
    assert!(versions[0] != versions[1] && versions[1] != versions[2], "nothing was learnt");
    // The first version has no update, and the last folder that is written is that of the pair.
    let kills = [&WRITES[..3], &WRITES, &WRITES, &WRITES[..3]].concat();
    for (number, moment) in kills.into_iter().enumerate() {
        let output = site.train("killed").env(DIE_AT, moment).run();
        assert_eq!(output.code, None, "start {number} was not killed at {moment}:\n{}", output.stderr);
    }
    let output = site.train("killed").run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(site.ending("killed"), expected);
    assert_eq!([0, 1, 2].map(|version| checkpoint(&site.path("killed"), version)), versions);
    // Neither half of a folder is left, nor a version that no event tells of.
    let folder = Path::new(&site.path("killed")).join("checkpoints");
    let mut left: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["v0", "v1", "v2"]);
}

/// The candidate is accepted in the second round, so the first one had no look at the hold-out, and has none
/// when a later start walks through it again.
#[test]
fn a_hold_out_of_a_run_that_goes_on_is_asked_in_the_round_that_was_due_alone() {
    let site = Site::new();
    let text = scripted::CAMPAIGN
        .replace("method = \"harness-only\"", "method = \"harness-adapt\"")
        .replace("tasks.evaluation = \"held-out\"\n", "")
        .replace("episodes = 1", "episodes = 0");
    let holdout = "[evolve.holdout]\ntasks = \"held-out\"\nevery = 1\ngroup_size = 1\n";
    std::fs::write(site.0.path().join("campaign.toml"), format!("{text}{holdout}")).unwrap();
    // The policy forgets to hand in when it has been trained once.
    let script = "[[rules]]\nfrom_version = 1\notherwise = [\"```bash\\necho right > answer.txt\\n```\"]\n\
                  [[rules]]\nchance = 0.5\notherwise = [\"```bash\\necho other > answer.txt\\n```\", \
                  \"```bash\\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\\n```\"]\n";
    std::fs::write(site.0.path().join("script.toml"), script).unwrap();
    let undisturbed = site.train("undisturbed").run();
    assert_eq!(undisturbed.code, Some(0), "{}", undisturbed.stderr);
    let expected = site.ending("undisturbed");
    let looks = |round: u32| expected.counts.get(&("holdout".to_owned(), round)).copied();
    assert_eq!((looks(1), looks(2)), (None, Some(4)), "{expected:?}");
    for start in 0.. {
        let moment = (1 + draw(3, start) % MOMENTS).to_string();
        let output = site.train("killed").env(DIE_AT, &moment).run();
        match output.code {
            Some(0) => break,
            Some(code) => panic!("start {start} ended with {code}:\n{}", output.stderr),
            None => assert!(start < 200, "it does not end"),
        }
    }
    assert_eq!(site.ending("killed"), expected);
}
