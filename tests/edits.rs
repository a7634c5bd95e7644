//! A campaign whose teacher edits what is there: a prompt is proposed, gated, published and told of, and
//! nothing of it depends on kills.

mod program;
#[path = "program/scripted.rs"]
mod scripted;

use program::Output;
use scripted::{DIE_AT, Site};
use serde_json::Value;

const PROMPT: &str = r#"The policy hands in nothing.

```toml
kind = "prompt"
name = "say-the-word"
mechanism = "The system text says which word is asked for."
prompt = "system"
fixes = ["empty-patch"]
risks = ["A longer text."]
```

````text
You are a careful programmer. The word is right.
````
"#;

const LIMITS: &str = r#"```toml
kind = "limits"
name = "send-back-less"
mechanism = "Hand-ins come through sooner."
limits = { deferrals = 1 }
fixes = ["empty-patch"]
```
"#;

/// Only what the prompt says helps, and nothing helps on `e`.
const SCRIPT: &str = r#"
proposals = ["prompt.md", "limits.md"]
[[rules]]
tasks = ["e"]
[[rules]]
when = "The word is right."
chance = 1.0
"#;

fn site() -> Site {
    let site = Site::new();
    let campaign = scripted::CAMPAIGN
        .replace("diagnosed = 0.6", "diagnosed = 1.0")
        .replace("candidates = 2", "candidates = 1\nsavings.inert = true");
    let campaign = format!("{campaign}[teacher.harness]\nkind = \"policy\"\nrepairs = 0\n");
    for (name, text) in [
        ("campaign.toml", campaign.as_str()),
        ("script.toml", SCRIPT),
        ("prompt.md", PROMPT),
        ("limits.md", LIMITS),
    ] {
        std::fs::write(site.path(name), text).unwrap();
    }
    site
}

fn done(output: Output) -> String {
    assert_eq!(output.code, Some(0), "{}\n{}", output.stdout, output.stderr);
    output.stdout
}

fn check(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "the output lacks `{part}`:\n{said}");
    }
}

#[test]
fn an_edit_of_a_prompt_is_gated_published_and_told_of_whatever_was_killed() {
    let site = site();
    let report = done(site.train("run").run());
    check(
        &report,
        &[
            "changed prompt, say-the-word: The system text says which word is asked for.",
            "round 1: say-the-word (prompt) for empty-patch (edit ",
            "round 2: send-back-less (limits) for empty-patch (edit ",
        ],
    );
    // The prompt is in force: its text is read, and the harness in the ledger has it.
    let expected = site.ending("run");
    assert_eq!(expected.ledger.len(), 2, "{expected:?}");
    let manifest =
        std::path::PathBuf::from(site.path("run/blobs")).join(&expected.ledger[1]["sha256:".len()..]);
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    assert_eq!(manifest["prompts"]["system"], "You are a careful programmer. The word is right.");
    // Of a prompt no tie is claimed, though the campaign would take some.
    check(&expected.gates, &["say-the-word (prompt)", "send-back-less (limits)"]);
    let saved = done(site.tell(&["report", "RUN:run"]));
    assert!(!saved.contains("ties by replay"), "{saved}");

    let lineage = done(site.tell(&["run", "lineage", "RUN:run", "--json"]));
    let lineage: Value = serde_json::from_str(&lineage).unwrap();
    assert_eq!(lineage["plugins"], Value::Array(vec![]));
    let [prompt, limits] = lineage["edits"].as_array().unwrap().as_slice() else { panic!("{lineage}") };
    assert_eq!((&prompt["kind"], &prompt["changes"]), (&"prompt".into(), &"the prompt `system`".into()));
    assert_eq!((&prompt["alive"], prompt["lived"].to_string().as_str()), (&true.into(), "[1,1]"));
    assert_eq!((&prompt["evidence"]["signal"], &prompt["gate"]), (&"empty-patch".into(), &"r1/gate0".into()));
    assert_eq!((&limits["changes"], &limits["lived"]), (&"limits: deferrals 1".into(), &Value::Null));
    check(
        &done(site.tell(&["run", "lineage", "RUN:run"])),
        &[
            "say-the-word (prompt): the prompt `system`, by policy",
            "mechanism  The system text says which word is asked for.",
            "survival   since harness 1, in force",
            "survival   never published",
        ],
    );
    check(&done(site.tell(&["run", "lineage", "RUN:run", "--graph"])), &["say-the-word (prompt)"]);
    // The teacher of the second round was told of the first.
    let asked = done(site.tell(&[
        "teacher",
        "ask",
        &site.path("campaign.toml"),
        "--role",
        "harness",
        "--evidence",
        "RUN:run",
        "--dry-run",
    ]));
    check(
        &asked,
        &[
            "- `say-the-word` (prompt): The system text says which word is asked for.",
            "- `send-back-less` (limits): Hand-ins come through sooner. — refused: ",
            "``````text\nYou are a careful programmer. The word is right.\n``````",
            "deferrals 2, condense after 0",
        ],
    );

    let (mut kills, mut start) = (0, 0);
    loop {
        start += 1;
        let program = match kills < 12 {
            // Moments around durable writes, the first ones of a start among them.
            true => site.train("killed").env(DIE_AT, &(1 + start * 7 % 13).to_string()),
            false => site.train("killed"),
        };
        match program.run().code {
            Some(0) => break,
            None => kills += 1,
            Some(code) => panic!("start {start} ended with {code}"),
        }
    }
    assert!(kills > 3, "it was killed {kills} times only");
    assert_eq!(site.ending("killed"), expected);
}

#[test]
fn a_prompt_that_is_not_needed_any_more_is_taken_back() {
    let site = site();
    let campaign = std::fs::read_to_string(site.path("campaign.toml")).unwrap();
    let campaign = campaign
        .replace("harness-only", "harness-adapt")
        .replace("candidates = 1", "candidates = 1\nremoval.every = 1");
    std::fs::write(site.path("campaign.toml"), campaign).unwrap();
    // Only what became longer is tested.
    let longer =
        PROMPT.replace("The word is right.\n", &format!("The word is right.{}\n", " Take care.".repeat(200)));
    std::fs::write(site.path("prompt.md"), longer).unwrap();
    // The first update teaches what the prompt said.
    let script = SCRIPT.replace(
        "[[rules]]\ntasks = [\"e\"]\n[[rules]]",
        "[[rules]]\nfrom_version = 1\nchance = 1.0\n[[rules]]\ntasks = [\"e\"]\nchance = 0.5\n[[rules]]",
    );
    std::fs::write(site.path("script.toml"), script).unwrap();
    let report = done(site.train("run").run());
    check(
        &report,
        &["changed prompt, say-the-word: ", "removed say-the-word: neither rate is lower without it"],
    );
    let ledger = site.ending("run").ledger;
    assert_eq!((ledger.len(), ledger.first()), (3, ledger.last()), "{report}");
    let lineage = done(site.tell(&["run", "lineage", "RUN:run"]));
    check(&lineage, &["without say-the-word: the prompt `system`, by policy"]);
    let lineage = done(site.tell(&["run", "lineage", "RUN:run", "--json"]));
    let lineage: Value = serde_json::from_str(&lineage).unwrap();
    let lives: Vec<_> = lineage["edits"].as_array().unwrap().iter().map(|line| &line["alive"]).collect();
    assert_eq!(lives, [false, true], "{lineage}");
}

/// A policy that writes no action until it is told that nothing ran.
const TALKS: &str = r#"
[[rules]]
when = "Nothing of that reply was run."
chance = 1.0
[[rules]]
otherwise = ["I think that I should look at the file first."]
"#;

#[test]
fn the_catalog_edits_a_prompt_as_a_variant_of_self_hpo() {
    let site = Site::new();
    let campaign = scripted::CAMPAIGN
        .replace("harness-only", "self-hpo")
        .replace("rounds = 2\n", "")
        .replace("candidates = 2\n", "")
        .replace(
            "[evaluation]",
            "[self_hpo]\ncycles = 1\nvariants = 5\nattempts = 1\nupdates = 1\n[evaluation]",
        );
    let harness = "contract = \"tandem:harness@0.1.0\"\n[limits]\nturns = 6\ncommand_seconds = 10\n";
    for (name, text) in
        [("campaign.toml", campaign.as_str()), ("script.toml", TALKS), ("harness.toml", harness)]
    {
        std::fs::write(site.path(name), text).unwrap();
    }
    let report = done(site.train("run").run());
    check(
        &report,
        &[
            "Screen of round 1 on 3 tasks: the incumbent 0/3",
            "say-what-ran (prompt) 3/3",
            "forgive-format-errors (limits) 0/3",
            "changed prompt, say-what-ran: ",
        ],
    );
    let lineage = done(site.tell(&["run", "lineage", "RUN:run"]));
    check(
        &lineage,
        &[
            "say-what-ran (prompt): the prompt `format-error`, by catalog",
            "forgive-format-errors (limits): limits: format_errors 5, by catalog",
            "evidence   round 1: format-error in ",
            "not the best of the round's screen: it solved 0/3, say-what-ran (prompt) 3/3",
        ],
    );
    // What is trained on afterwards ran under the edited prompt.
    let newest = site.ending("run").ledger.pop().unwrap();
    let connection = rusqlite::Connection::open(site.path("run/run.sqlite")).unwrap();
    let count = "SELECT COUNT(*) FROM episode WHERE arm = 'collect' AND outcome = 'solved' AND harness = ?1";
    let solved: u32 = connection.query_row(count, [newest], |row| row.get(0)).unwrap();
    assert_eq!(solved, 6, "{report}");
}
