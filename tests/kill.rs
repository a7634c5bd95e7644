//! A campaign without a model, killed at many moments and resumed: it ends as the one that nobody
//! disturbed. Moments lie around every durable write: a blob, a whole file, a transaction of the record.

mod program;
#[path = "program/scripted.rs"]
mod scripted;

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
