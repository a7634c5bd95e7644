//! What a run says of itself while it works and afterwards, and what an evaluation says of it.

mod program;
#[path = "program/scripted.rs"]
mod scripted;
#[path = "program/tiny.rs"]
mod tiny;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use program::{Output, Program};
use scripted::{DIE_AT, Site};
use serde_json::Value;

/// A campaign that ran to its end, in the folder `run`.
fn finished() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let site = Site::new();
        let output = site.train("run").run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        site
    })
}

fn told(arguments: &[&str]) -> String {
    ok(arguments, finished().tell(arguments))
}

fn ok(arguments: &[&str], output: Output) -> String {
    assert_eq!(output.code, Some(0), "{arguments:?}\n{}{}", output.stdout, output.stderr);
    output.stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// Published harnesses, as the record has them.
fn published() -> Vec<String> {
    finished().ending("run").ledger
}

#[test]
fn a_run_that_is_over_says_how_far_it_came() {
    let status = json(&told(&["run", "status", "RUN:run", "--json"]));
    assert_eq!(status["working"], false);
    assert_eq!((status["name"].as_str(), status["method"].as_str()), (Some("killed"), Some("harness-only")));
    assert_eq!(status["publications"].as_u64(), Some(published().len() as u64));
    assert_eq!(status["harness"].as_str(), published().last().map(String::as_str));
    let gates = &status["gates"];
    let count = |name: &str| gates[name].as_u64().unwrap();
    assert_eq!(count("begun"), count("accepted") + count("rejected"));
    assert!(count("accepted") >= 1 && status["disk"]["blobs"].as_u64() > Some(0));
    let events = lines(&told(&["run", "events", "RUN:run", "--json"]));
    assert_eq!(status["last"]["seq"].as_u64(), Some(events.len() as u64));
    assert_eq!(status["last"]["digest"], events.last().unwrap()["digest"]);
    let text = told(&["run", "status", "RUN:run"]);
    for part in [
        "done: rounds 1 to 2 were run",
        "round      the final table",
        "collect",
        "gates",
        "sealed by sha256:",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_run_that_was_stopped_is_not_told_to_be_done() {
    let site = scripted::Site::new();
    assert_eq!(site.train("run").env(scripted::DIE_AT, "40").run().code, None);
    let stopped = site.tell(&["run", "status", "RUN:run"]).stdout;
    assert!(stopped.contains("nothing works on it, and no end is recorded"), "{stopped}");
    assert_eq!(site.train("run").run().code, Some(0));
    let done = site.tell(&["run", "events", "RUN:run"]).stdout;
    assert!(done.trim_end().ends_with("the run ended: nothing is left to do"), "{done}");
    // Whoever asks it to go on changes nothing.
    assert_eq!(site.train("run").run().code, Some(0));
    assert_eq!(site.tell(&["run", "events", "RUN:run"]).stdout, done);
}

#[test]
fn events_are_told_from_a_number_an_age_and_of_a_kind() {
    let all = lines(&told(&["run", "events", "RUN:run", "--json"]));
    let later = lines(&told(&["run", "events", "RUN:run", "--json", "--since", "5"]));
    assert_eq!(later, all[5..]);
    assert_eq!(lines(&told(&["run", "events", "RUN:run", "--json", "--since", "9d"])), all);
    let phases = lines(&told(&["run", "events", "RUN:run", "--json", "--kind", "phase"]));
    assert_eq!(phases.len(), all.iter().filter(|event| event["kind"] == "phase").count());
    let text = told(&["run", "events", "RUN:run", "--kind", "published"]);
    assert_eq!(text.lines().count(), published().len());
    assert!(text.contains("published: the first harness"), "{text}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = std::process::Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["run", "events", &finished().path("run")])
        .stdout(writer)
        .output()
        .unwrap();
    // Whoever read has seen enough: not a word of it.
    assert_eq!((unread.status.code(), unread.stderr.as_slice()), (Some(141), &b""[..]));
    let none = finished().tell(&["run", "events", "RUN:run", "--kind", "gate"]);
    assert!(none.code == Some(2) && none.stderr.contains("published"), "{}", none.stderr);
    let wrong = finished().tell(&["run", "events", "RUN:run", "--since", "soon"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("neither a number of an event nor an age"));
}

#[test]
fn who_looks_at_a_running_campaign_holds_nothing_up() {
    let site = Site::new();
    let mut campaign = site.train("live").spawn();
    let run = site.path("live");
    while !PathBuf::from(&run).join("campaign.json").exists() {
        assert!(!campaign.wait_at_most(Duration::from_millis(20)), "it ended before it began");
    }
    let mut follower =
        Program::new(&["run", "events", &run, "--follow", "--json"].map(str::to_owned)).spawn();
    let mut looks = 0;
    while !campaign.wait_at_most(Duration::from_millis(50)) {
        for look in ["status", "lineage", "verify"] {
            ok(&[look], site.tell(&["run", look, "RUN:live"]));
        }
        let out = format!("copy-{looks}");
        ok(&["export"], site.tell(&["run", "export", "RUN:live", "--out", &site.path(&out)]));
        looks += 1;
    }
    let output = campaign.output();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(looks > 0);
    assert!(!follower.wait_at_most(Duration::from_millis(700)), "it must go on until it is told to end");
    follower.interrupt();
    let followed = lines(&follower.output().stdout);
    let all = lines(&ok(&["events"], site.tell(&["run", "events", "RUN:live", "--json"])));
    assert_eq!(followed, all);
}

#[test]
fn lineage_tells_where_each_plugin_came_from_and_whether_it_lives() {
    let lineage = json(&told(&["run", "lineage", "RUN:run", "--json"]));
    let plugins = lineage["plugins"].as_array().unwrap();
    let rescue = plugins.iter().find(|plugin| plugin["name"] == "rescue-patch").unwrap();
    assert_eq!((rescue["author"].as_str(), rescue["alive"].as_bool()), (Some("catalog"), Some(true)));
    assert_eq!(rescue["evidence"]["signal"], "limit-with-edits");
    assert_eq!(rescue["gate"], "r1/gate0");
    assert!(rescue["times"].as_u64() > Some(0) && rescue["mechanism"].is_string());
    let dead = plugins.iter().find(|plugin| plugin["lived"].is_null()).unwrap();
    assert_eq!(dead["alive"], false);
    let text = told(&["run", "lineage", "RUN:run"]);
    for part in ["by catalog", "evidence   round 1: limit-with-edits", "in force", "never published"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let graph = told(&["run", "lineage", "RUN:run", "--graph"]);
    assert!(graph.starts_with("digraph lineage {") && graph.trim_end().ends_with('}'), "{graph}");
    assert_eq!(graph.matches("shape=box").count(), published().len());
}

#[test]
fn bisect_finds_the_publication_from_the_record_or_by_running() {
    let published = published();
    let ends = [published[0].as_str(), published.last().unwrap().as_str()];
    let ask = |more: &[&str]| {
        let fixed = ["run", "bisect", "RUN:run", "--between", ends[0], ends[1], "--json"];
        let arguments: Vec<&str> = fixed.into_iter().chain(more.iter().copied()).collect();
        finished().tell(&arguments)
    };
    let found = json(&ok(&["bisect"], ask(&["--tasks", "a", "--episodes", "1"])));
    assert_eq!((found["run"].as_u64(), found["culprit"].as_u64()), (Some(0), Some(0)), "{found}");
    let evidence = &found["steps"][0]["evidence"];
    assert_eq!(
        (evidence["before"]["solved"].as_u64(), &evidence["after"]["solved"]),
        (Some(0), &evidence["after"]["episodes"])
    );
    let few = ask(&["--tasks", "a", "--episodes", "7"]);
    assert!(few.code == Some(1) && few.stderr.contains("help: add `--rerun`"), "{}", few.stderr);
    let run = json(&ok(&["bisect"], ask(&["--tasks", "a", "--episodes", "7", "--rerun"])));
    assert_eq!(run["steps"][0]["evidence"]["after"]["solved"].as_u64(), Some(7), "{run}");
    assert_eq!(run["run"].as_u64(), Some(14));
    // What was run is not run again.
    let again = json(&ok(&["bisect"], ask(&["--tasks", "a", "--episodes", "7", "--rerun"])));
    assert_eq!((again["run"].as_u64(), &again["steps"]), (Some(0), &run["steps"]));
    let unknown = ask(&["--tasks", "z"]);
    assert!(unknown.stderr.contains("the run has no episode of a task `z`"), "{}", unknown.stderr);
}

#[test]
fn an_export_holds_everything_and_names_nothing_that_is_not_there() {
    let out = finished().path("exported");
    told(&["run", "export", "RUN:run", "--out", &out]);
    let read = |name: &str| std::fs::read_to_string(PathBuf::from(&out).join(name)).unwrap();
    let about = json(&read("export.json"));
    let events = lines(&read("events.jsonl"));
    assert_eq!(about["written"]["events"].as_u64(), Some(events.len() as u64));
    let episodes = lines(&read("episodes.jsonl"));
    assert_eq!(episodes.len(), events.iter().filter(|event| event["kind"] == "episode").count());
    let blob = |digest: &Value| {
        let name = digest.as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        std::fs::read(PathBuf::from(&out).join("blobs").join(name)).unwrap()
    };
    for episode in &episodes {
        let record: Value = serde_json::from_slice(&blob(&episode["record"])).unwrap();
        assert_eq!(record["id"], episode["id"]);
    }
    for harness in lines(&read("harnesses.jsonl")) {
        blob(&harness["digest"]);
        for plugin in harness["manifest"]["plugins"].as_array().unwrap() {
            assert!(blob(&plugin["digest"]).starts_with(b"\0asm"));
        }
    }
    let again = finished().tell(&["run", "export", "RUN:run", "--out", &out]);
    assert!(again.code == Some(1) && again.stderr.contains("is there already"), "{}", again.stderr);
}

#[test]
fn a_record_that_was_changed_is_found_and_its_tables_are_made_again() {
    let site = finished();
    let copy = PathBuf::from(site.path("changed"));
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(PathBuf::from(site.path("run")).join("run.sqlite"), copy.join("run.sqlite")).unwrap();
    let connection = rusqlite::Connection::open(copy.join("run.sqlite")).unwrap();
    connection.execute("DELETE FROM episode WHERE outcome = 'solved'", []).unwrap();
    let found = site.tell(&["run", "verify", "RUN:changed"]);
    assert_eq!(found.code, Some(3));
    assert!(found.stdout.contains("fault: the table `episode` does not follow"), "{}", found.stdout);
    ok(&["rebuild"], site.tell(&["run", "rebuild", "RUN:changed"]));
    ok(&["verify"], site.tell(&["run", "verify", "RUN:changed"]));
    let error = connection.execute("UPDATE event SET body = '{}'", []).unwrap_err().to_string();
    assert!(error.contains("an event of a run is never changed"), "{error}");
    connection.execute_batch("DROP TRIGGER event_is_never_changed").unwrap();
    connection.execute("UPDATE event SET at = at + 1 WHERE seq = 2", []).unwrap();
    let found = site.tell(&["run", "verify", "RUN:changed"]);
    assert!(found.code == Some(3) && found.stdout.contains("fault: event 2, `"), "{}", found.stdout);
}

#[test]
fn an_evaluation_measures_the_arms_that_apply_on_tasks_that_were_not_seen() {
    let ask = |out: &str, more: &[&str]| {
        let out = finished().path(out);
        let fixed = ["eval", "RUN:run", "--episodes", "2", "--json", "--out", &out];
        let arguments: Vec<&str> = fixed.into_iter().chain(more.iter().copied()).collect();
        finished().tell(&arguments)
    };
    let list = ok(&["list"], ask("eval-list", &["--list"]));
    let names: BTreeSet<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, BTreeSet::from(["base", "hard-base", "hard-joint", "harness-only"]), "{list}");
    let found = json(&ok(&["eval"], ask("eval", &[])));
    let arms = found["parts"][0]["arms"].as_array().unwrap();
    let rate = |name: &str| {
        let arm = arms.iter().find(|arm| arm["arm"]["name"] == name).unwrap();
        assert_eq!(arm["episodes"].as_u64(), Some(4));
        arm["pass"]["value"].as_f64().unwrap()
    };
    // `c` is solved under the evolved harness alone; `d` alike under both.
    assert_eq!(rate("harness-only") - rate("base"), 0.5, "{found}");
    let line = &found["parts"][0]["comparisons"][0];
    assert_eq!((line["mcnemar"]["gained"].as_u64(), line["mcnemar"]["lost"].as_u64()), (Some(1), Some(0)));
    let hard = &found["parts"][1];
    assert_eq!(
        (hard["part"].as_str(), hard["arms"][1]["pass"]["value"].as_f64()),
        (Some("hard-set"), Some(1.0))
    );
    // Killed on the way, it goes on, and says the same.
    let mut kills = 0;
    let killed = loop {
        let out = finished().path("eval-killed");
        let arguments = [
            "eval".into(),
            finished().path("run"),
            "--episodes".into(),
            "2".into(),
            "--json".into(),
            "--out".into(),
            out,
        ];
        let output = Program::new(&arguments).env(DIE_AT, "17").run();
        if output.code.is_some() {
            break json(&ok(&["eval"], output));
        }
        kills += 1;
        assert!(kills < 30);
    };
    assert!(kills > 0);
    assert_eq!(killed["parts"], found["parts"]);
    // The pages say what the numbers do.
    let page =
        |name: &str| std::fs::read_to_string(PathBuf::from(finished().path("eval")).join(name)).unwrap();
    let (text, html) = (page("report.md"), page("report.html"));
    assert!(text.contains("| harness-only | first policy, a harness that was evolved"), "{text}");
    assert!(text.contains("| base | harness-only | +50.0 |"), "{text}");
    assert!(html.contains("<svg") && !html.contains("<script") && !html.contains("src="));
    let other = ask("eval", &["--seed", "9"]);
    assert!(
        other.code == Some(1) && other.stderr.contains("other settings: `seed` was "),
        "{}",
        other.stderr
    );
}

/// An evaluation that is taken up again when the run has gone on asks what it asked before.
#[test]
fn a_run_that_grows_between_two_calls_changes_nothing_of_an_evaluation() {
    let site = Site::new();
    let teacher = program::root().join("examples/teachers/century-skill.md");
    let text =
        scripted::CAMPAIGN.replace("harness-only", "harness-adapt").replace("rounds = 2", "rounds = 3");
    let skills = format!(
        "[teacher.skill]\nkind = \"command\"\ncommand = [\"cat\", \"{}\"]\n[skills]\nper_round = 1\n",
        teacher.display()
    );
    std::fs::write(site.0.path().join("campaign.toml"), format!("{text}{skills}")).unwrap();
    // What fails does so by its idea: it hands in a wrong patch.
    let script = "[[rules]]\nchance = 0.4\notherwise = [\"```bash\\necho other > answer.txt\\n```\", \
                  \"```bash\\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\\n```\"]\n";
    std::fs::write(site.0.path().join("script.toml"), script).unwrap();
    let skills = || -> i64 {
        let path = PathBuf::from(site.path("run")).join("run.sqlite");
        let connection = rusqlite::Connection::open(path).unwrap();
        let count = "SELECT COUNT(DISTINCT task) FROM skill";
        connection.query_row(count, [], |row| row.get(0)).unwrap_or(0)
    };
    for start in 0.. {
        assert_eq!(site.train("run").env(DIE_AT, "20").run().code, None, "no skill was written");
        if skills() > 0 {
            break;
        }
        assert!(start < 100);
    }
    assert_eq!(skills(), 1);
    let ask = |out: &str, more: &[&str]| {
        let out = site.path(out);
        let fixed =
            ["eval", "RUN:run", "--arms", "skills-off,skills-on", "--episodes", "1", "--json", "--out", &out];
        json(&ok(&["eval"], site.tell(&[&fixed[..], more].concat())))
    };
    let begun = ask("begun", &["--report"]);
    assert_eq!(begun["parts"][0]["tasks"], 1, "{begun}");
    let ended = site.train("run").run();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(skills() > 1, "the run did not grow");
    let found = ask("begun", &[]);
    assert_eq!(
        (&found["parts"][0]["tasks"], &found["run_head"]),
        (&begun["parts"][0]["tasks"], &begun["run_head"])
    );
    let arms = found["parts"][0]["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2);
    assert!(arms.iter().all(|arm| arm["episodes"] == 1), "{found}");
    // One that begins now asks for more.
    assert!(ask("later", &["--report"])["parts"][0]["tasks"].as_i64() > Some(1));
}

/// An arm of another run compares like with like, or says that it does not.
#[test]
fn a_run_that_began_otherwise_is_no_arm_unless_that_is_allowed() {
    let site = Site::new();
    let begin = |run: &str, campaign: &str| {
        std::fs::write(site.0.path().join("campaign.toml"), campaign).unwrap();
        // It has begun, and that is all.
        let output = site.train(run).env(DIE_AT, "12").run();
        assert_eq!(output.code, None, "{}", output.stderr);
    };
    begin("run", scripted::CAMPAIGN);
    begin("alike", &scripted::CAMPAIGN.replace("seed = 11", "seed = 12"));
    begin("other", &format!("{}[rollout.sampling]\nmax_tokens = 9\n", scripted::CAMPAIGN));
    let list = |out: &str, more: &[&str]| {
        let out = site.path(out);
        let fixed =
            ["eval", "RUN:run", "--arms", "base,harness-only", "--list", "--out", &out, "--harness-only"];
        site.tell(&[&fixed[..], more].concat())
    };
    ok(&["alike"], list("first", &["RUN:alike"]));
    let refused = list("second", &["RUN:other"]);
    assert_eq!(refused.code, Some(1));
    let said = "the sampling of the run of `--harness-only` is temperature 1, 9 tokens at most";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("help: take a run that began as the evaluated one did; `--allow-mismatch`")
    );
    ok(&["allowed"], list("third", &["RUN:other", "--allow-mismatch"]));
    // An evaluation stays with the runs that it began with.
    begin("twin", &scripted::CAMPAIGN.replace("seed = 11", "seed = 13"));
    let keep = |run: &str| {
        let (out, run) = (site.path("kept"), format!("RUN:{run}"));
        let fixed =
            ["eval", "RUN:run", "--arms", "base,harness-only", "--report", "--out", &out, "--harness-only"];
        site.tell(&[&fixed[..], &[&run]].concat())
    };
    ok(&["kept"], keep("alike"));
    ok(&["kept"], keep("alike"));
    let swapped = keep("twin");
    assert_eq!(swapped.code, Some(1));
    assert!(swapped.stderr.contains("other settings: `others.--harness-only` was "), "{}", swapped.stderr);
}

#[test]
fn an_evaluation_loads_the_policy_from_the_checkpoints_of_the_run() {
    let site = Site::new();
    let folder = site.0.path();
    tiny::write(&folder.join("tiny"));
    let text = scripted::CAMPAIGN
        .replace("harness-only", "grpo")
        .replace("policy.base = \"script:script.toml\"", "policy = { base = \"./tiny\", context = 256 }");
    std::fs::write(folder.join("campaign.toml"), text).unwrap();
    let trained = site.train("run").run();
    assert_eq!(trained.code, Some(0), "{}", trained.stderr);
    let found = json(&ok(&["eval"], site.tell(&["eval", "RUN:run", "--episodes", "1", "--json"])));
    let arm = &found["parts"][0]["arms"][0];
    // It was loaded and asked; that so small a policy has no room for the prompt is another matter.
    assert_eq!((arm["arm"]["name"].as_str(), arm["episodes"].as_u64()), (Some("base"), Some(2)), "{found}");
}

#[test]
fn what_retention_gives_up_is_an_event_and_takes_nothing_that_is_asked_for() {
    let events = lines(&told(&["run", "events", "RUN:run", "--json"]));
    let collected = |event: &&Value| {
        event["kind"] == "episode" && event["body"]["arm"] == "collect" && event["body"]["round"] == 1
    };
    let old = events.iter().filter(collected).count();
    let thinned: Vec<&Value> = events.iter().filter(|event| event["kind"] == "thinned").collect();
    assert!(old > 0 && thinned.len() == old, "{} of {old} were thinned", thinned.len());
    let blob = |name: &str| {
        let digest = thinned[0]["body"][name].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        PathBuf::from(finished().path("run")).join("blobs").join(digest)
    };
    assert!(!blob("was").exists() && blob("record").exists());
    // Gates, ledger and the blobs that are left were looked at by `ending`; an export leaves the others out.
    published();
    let id = thinned[0]["body"]["episode"].as_str().unwrap();
    let one = finished().tell(&["replay", "RUN:run", id, "--same"]);
    assert!(one.code == Some(1) && one.stderr.contains("were given up for room"), "{}", one.stderr);
}

#[test]
fn every_command_of_the_pages_works() {
    let (site, published) = (finished(), published());
    let mut count = 0;
    for page in ["runs", "evaluation"] {
        let text = std::fs::read_to_string(program::root().join(format!("docs/{page}.md"))).unwrap();
        let blocks = text.split("```\n").skip(1).step_by(2);
        for line in blocks.flat_map(str::lines).filter(|line| line.starts_with("tandem ")) {
            // The names of the page, and what makes it end soon.
            let mut words: Vec<String> = Vec::new();
            for word in line.split_whitespace().skip(1).filter(|word| *word != "--follow") {
                words.push(match word {
                    "runs/NAME" => site.path("run"),
                    "copy" | "held-out" => site.path(word),
                    "OLD" => published[0].clone(),
                    "NEW" => published.last().unwrap().clone(),
                    other => other.to_owned(),
                });
            }
            if line.contains("bisect") || line.contains("eval") {
                words.extend(["--episodes".to_owned(), "1".to_owned()]);
            }
            let output = Program::new(&words).run();
            assert!(matches!(output.code, Some(0 | 3)), "{line}\n{}{}", output.stdout, output.stderr);
            count += 1;
        }
    }
    assert!(count >= 7, "{count} commands");
}

#[test]
fn tasks_that_were_trained_on_are_refused_by_name() {
    let tasks = finished().path("tasks");
    let output =
        finished().tell(&["eval", "RUN:run", "--tasks", &tasks, "--out", &finished().path("eval-seen")]);
    assert_eq!(output.code, Some(1));
    let expected = "training task `a` and held-out task `a` have one name";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
    let unknown =
        finished().tell(&["eval", "RUN:run", "--arms", "joint", "--out", &finished().path("eval-joint")]);
    assert!(
        unknown
            .stderr
            .contains("the arm `joint` does not apply: the run changed nothing, or its method changes only one of policy and harness"),
        "{}",
        unknown.stderr
    );
}
