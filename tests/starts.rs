//! What does a start that failed leave? Nothing that stands in the way of the next one.

mod program;
#[path = "program/scripted.rs"]
mod scripted;
#[path = "program/tiny.rs"]
mod tiny;

use std::fs;
use std::path::{Path, PathBuf};

use scripted::Site;

/// A campaign that trains a tiny policy for one round; `more` is said of the policy.
fn write_campaign(site: &Site, more: &str) {
    let folder = site.0.path();
    let text = scripted::CAMPAIGN
        .replace("method = \"harness-only\"", "method = \"grpo\"")
        .replace("rounds = 2", "rounds = 1")
        .replace(
            "policy.base = \"script:script.toml\"",
            &format!("policy = {{ base = \"./tiny\", context = 256{more} }}"),
        );
    fs::write(folder.join("campaign.toml"), text).unwrap();
}

fn write_harness(site: &Site, turns: u32) {
    let text = format!("contract = \"tandem:harness@0.1.0\"\n[limits]\nturns = {turns}\n");
    fs::write(site.0.path().join("harness.toml"), text).unwrap();
}

fn events(run: &Path) -> i64 {
    let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
    connection.query_row("SELECT COUNT(*) FROM event", [], |row| row.get(0)).unwrap()
}

/// Fails a start by `fault`, mends it and starts with the very same command, under another harness.
fn check(fault: impl Fn(&Site), mend: impl Fn(&Site), expected: &str) {
    let site = Site::new();
    tiny::write(&site.0.path().join("tiny"));
    write_campaign(&site, "");
    write_harness(&site, 2);
    fault(&site);
    let run = PathBuf::from(site.path("run"));
    let failed = site.train("run").run();
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    for left in ["campaign.json", "ledger", "checkpoints"] {
        assert!(!run.join(left).exists(), "a start that failed left `{left}`: {expected}");
    }
    if run.join("run.sqlite").exists() {
        assert_eq!(events(&run), 0, "a start that failed recorded something: {expected}");
    }
    mend(&site);
    write_harness(&site, 1);
    let started = site.train("run").run();
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let log = site.tell(&["harness", "show", "--home", "RUN:run", "current"]).stdout;
    assert!(log.contains("\n  1 turns,"), "the first harness is that of the failed start: {log}");
    assert!(run.join("checkpoints/v0/learner.json").exists());
}

#[test]
fn a_start_that_failed_leaves_nothing_that_refuses_the_mended_one() {
    let nothing = |_: &Site| ();
    let folder = |site: &Site, name: &str| site.0.path().join(name);
    let moved = |from: &'static str, to: &'static str| {
        move |site: &Site| fs::rename(folder(site, from), folder(site, to)).unwrap()
    };
    check(moved("tiny", "away"), moved("away", "tiny"), "there is no model");
    check(moved("held-out", "away"), moved("away", "held-out"), "held-out");
    let plugin = format!("[[plugins]]\nname = \"gone\"\ndigest = \"sha256:{}\"\n", "1".repeat(64));
    check(
        |site| {
            let harness = folder(site, "harness.toml");
            fs::write(&harness, fs::read_to_string(&harness).unwrap() + &plugin).unwrap();
        },
        nothing,
        "gone",
    );
    // Found last, when policy and harness were opened: a pool that is trained on.
    let overlap = |site: &Site| {
        fs::create_dir_all(folder(site, "near")).unwrap();
        let copied = std::process::Command::new("cp")
            .args(["-r", &site.path("tasks/a"), &site.path("near/a")])
            .status()
            .unwrap();
        assert!(copied.success());
        let campaign = folder(site, "campaign.toml");
        let text = fs::read_to_string(&campaign).unwrap();
        fs::write(&campaign, text.replace("\"held-out\"", "\"near\"")).unwrap();
    };
    // Another shape of the adapter: a `v0` of the failed start would not fit.
    let mend = |site: &Site| write_campaign(site, ", lora = { rank = 3, alpha = 6.0 }");
    check(overlap, mend, "have one name");
}

#[test]
fn a_record_without_its_campaign_is_neither_gone_on_with_nor_lost() {
    let site = Site::new();
    assert_eq!(site.train("run").run().code, Some(0));
    let run = PathBuf::from(site.path("run"));
    let before = events(&run);
    fs::rename(run.join("campaign.json"), run.join("elsewhere.json")).unwrap();
    let refused = site.train("run").run();
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let said = "holds the record of a run without the campaign that it began with";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert_eq!(events(&run), before);
    fs::rename(run.join("elsewhere.json"), run.join("campaign.json")).unwrap();
    assert_eq!(site.train("run").run().code, Some(0));
}
