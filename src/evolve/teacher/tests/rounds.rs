//! Repair rounds through the real forge and the real admission.

use std::collections::BTreeSet;
use std::sync::Arc;

use tandem_host::forge::{Forge, ForgeConfig, Language};
use tandem_host::harness::HarnessManifest;
use tandem_host::plugin::{AdmissionOptions, Engine, PluginLimits};
use tandem_host::store::Digest;

use super::super::harness::Proposed;
use super::super::{Evidence, HarnessBrief, HarnessTeacher, Rules, SearchSetNames, Teacher};
use super::server::{Answer, error, stream};
use super::*;
use crate::campaign::{Bench, Builder};
use crate::evolve::{Diagnosis, Edit, EditKind, Proposal, Signal};

fn reply(name: &str, points: &str, grants: &str, source: &str) -> String {
    format!(
        "A hook helps.\n\n```toml\nname = \"{name}\"\nmechanism = \"Says it in time.\"\npoints = {points}\ngrants = {grants}\nfixes = [\"limit-with-edits\"]\n```\n\n```rust\n{source}\n```\n"
    )
}

fn hook(body: &str) -> String {
    format!(
        "use tandem_plugin::*;\npub struct Plugin;\nimpl OnModelCall for Plugin {{\n    fn on_model_call(context: Context) -> Option<ModelCallEffect> {{\n        {body}\n    }}\n}}\nexport_on_model_call!(Plugin);"
    )
}

const GOOD: &str = "(context.turn == 3).then(|| ModelCallEffect::Note(\"Three.\".into()))";

struct Bed {
    log: Log,
    builder: Builder,
    names: SearchSetNames,
    tried: BTreeSet<Digest>,
    /// Harnesses that were tried.
    made: BTreeSet<Digest>,
    taken: BTreeSet<String>,
    incumbent: HarnessManifest,
}

impl Bed {
    fn new() -> Self {
        let log = Log::new();
        let cache = crate::model::home().unwrap().join("forge");
        let builder = Builder {
            engine: Engine::new(PluginLimits::default()).unwrap(),
            forge: Arc::new(Forge::new(ForgeConfig::new(cache)).unwrap()),
            admission: AdmissionOptions::default(),
            blobs: log.record.blobs().clone(),
        };
        Self {
            log,
            builder,
            names: SearchSetNames::default(),
            tried: BTreeSet::new(),
            made: BTreeSet::new(),
            taken: BTreeSet::new(),
            incumbent: HarnessManifest::bare(),
        }
    }

    async fn propose(&self, config: &TeacherConfig) -> Result<Proposed, TeacherError> {
        self.propose_at("r1/harness/0", config).await
    }

    async fn propose_at(&self, place: &str, config: &TeacherConfig) -> Result<Proposed, TeacherError> {
        let teacher = Teacher::open(TeacherRole::Harness, config, None).unwrap().unwrap();
        let writer = HarnessTeacher::open(config).unwrap();
        let (evidence, diagnosis) = (Evidence::default(), Diagnosis::default());
        let incumbent = self.incumbent.clone();
        let brief = HarnessBrief {
            evidence: &evidence,
            diagnosis: &diagnosis,
            recurring: &[(Signal::LimitWithEdits, 2)],
            harness: &incumbent,
            plugins: vec![],
            kept: vec![],
            rejected: vec![],
        };
        let bench = Bench::new(&self.builder, &incumbent, self.made.clone());
        let rules = Rules { names: &self.names, tried: &self.tried, taken: &self.taken, judge: &bench };
        writer.propose(&teacher, place, &brief, &rules, &self.log.record).await
    }
}

fn answers(replies: Vec<String>) -> Server {
    Server::start(move |number, _| stream(&replies[number.min(replies.len() - 1)]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_compiles_only_in_the_second_round_becomes_a_proposal() {
    let bed = Bed::new();
    let broken = reply("say-three", "['on-model-call']", "['state']", &hook("context.turns.missing"));
    let server =
        answers(vec![broken.clone(), reply("say-three", "['on-model-call']", "['state']", &hook(GOOD))]);
    let proposed = bed.propose(&config(&server, QUICK)).await.unwrap();
    let proposal = proposed.proposal.unwrap();
    assert_eq!((proposal.name.as_str(), proposal.signal), ("say-three", Signal::LimitWithEdits));
    // A grant that nothing uses is not given.
    let Edit::Plugin { grants, .. } = &proposal.edit else { panic!("{proposal:?}") };
    assert_eq!(*grants, Vec::<String>::new());
    assert_eq!(proposal.manifest.unwrap().mechanism, "Says it in time.");
    assert_eq!(proposed.reasons.len(), 1);
    assert!(proposed.reasons[0].starts_with("1 compile error:"), "{}", proposed.reasons[0]);
    // The second request holds the first reply and the compiler's own words.
    let asked = server.asked.lock().unwrap();
    let messages = asked[1].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[2], serde_json::json!({"role": "assistant", "content": broken}));
    let told = messages[3]["content"].as_str().unwrap();
    assert!(told.contains("no field `turns`") && told.contains("2 more tries"), "{told}");
    assert_eq!(asked[0].body["messages"][1], messages[1]);
    let places: Vec<_> = bed.log.record.exchanges().unwrap().into_iter().map(|row| row.place).collect();
    assert_eq!(places, ["r1/harness/0/0", "r1/harness/0/1"]);
}

/// A teacher that writes `language`: Rust goes back, a source with a fault of the language goes back, `good`
/// is admitted. Left out, and said so, where the compiler is missing.
async fn check_language(language: Language, wrong: &str, fault: &str, good: &str) {
    let bed = Bed::new();
    if let Err(missing) = bed.builder.forge.tools(language) {
        assert!(std::env::var_os("TANDEM_REQUIRE_LANGUAGES").is_none(), "{missing}");
        eprintln!("{language} is left out: {missing}");
        return;
    }
    let written = |source: &str| {
        reply("say-three", "['on-model-call']", "[]", source).replace("```rust", &format!("```{language}"))
    };
    let server = answers(vec![
        reply("say-three", "['on-model-call']", "[]", &hook(GOOD)),
        written(wrong),
        written(good),
    ]);
    let proposed = bed.propose(&TeacherConfig { language, ..config(&server, QUICK) }).await.unwrap();
    let reasons = &proposed.reasons;
    let proposal = proposed.proposal.unwrap_or_else(|| panic!("{language}: {reasons:?}"));
    let Edit::Plugin { language: written, .. } = proposal.edit else { panic!("{language}") };
    assert_eq!((written, proposal.name.as_str()), (language, "say-three"));
    assert!(
        reasons[0].starts_with("a fenced block is in `rust`, which is not asked for"),
        "{language}: {}",
        reasons[0]
    );
    assert!(reasons[1].contains(fault), "{language}: {}", reasons[1]);
    let asked = server.asked.lock().unwrap();
    let system = asked[0].body["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains(&format!("a single file in {language}")) && !system.contains("tandem_plugin"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teacher_writes_the_language_that_the_campaign_names() {
    check_language(
        Language::JavaScript,
        "import { note } from \"fs\";\nexport function onModelCall(context) { return note(\"x\"); }",
        "fs",
        "import { note } from \"tandem\";\nexport function onModelCall(context) { if (context.turn === 3) return note(\"Three.\"); }",
    )
    .await;
    check_language(
        Language::Python,
        "def on_model_call(context):\n    return note(",
        "was never closed",
        "from tandem import note\n\ndef on_model_call(context):\n    return note(\"Three.\") if context.turn == 3 else None",
    )
    .await;
    check_language(
        Language::Go,
        "package plugin\n\nimport \"tandem\"\n\nfunc OnModelCall(ctx tandem.Context) tandem.NoteOrStop {\n\treturn ctx.Turns\n}",
        "Turns",
        "package plugin\n\nimport \"tandem\"\n\nfunc OnModelCall(ctx tandem.Context) tandem.NoteOrStop {\n\tif ctx.Turn == 3 {\n\t\treturn tandem.Note(\"Three.\")\n\t}\n\treturn nil\n}",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_of_forge_and_admission_goes_back() {
    let bed = Bed::new();
    let clock = hook(
        "(tandem_plugin::clock::now_ms() == context.turn as u64).then(|| ModelCallEffect::Stop(\"x\".into()))",
    );
    let panics = hook("if context.turn > 0 { panic!(\"out of range\") } None");
    let server = answers(vec![
        reply("say-three", "['on-submit']", "[]", &hook(GOOD)),
        reply("say-three", "['on-model-call']", "[]", &clock),
        reply("say-three", "['on-model-call']", "[]", &panics),
        "I cannot do that.".into(),
    ]);
    let proposed = bed.propose(&config(&server, QUICK)).await.unwrap();
    assert_eq!(proposed.proposal, None);
    let reasons: Vec<_> = proposed.reasons.iter().map(|reason| reason.lines().next().unwrap()).collect();
    assert_eq!(reasons[0], "`points` of the manifest are on-submit, and the source exports on-model-call");
    assert!(reasons[1].contains("clock") && reasons[1].contains("grants"), "{}", reasons[1]);
    assert!(reasons[2].contains("failed a trial call of `on-model-call`"), "{}", reasons[2]);
    assert_eq!(reasons[3], "the reply declines: \"I cannot do that.\"");
    // One request and three repair rounds, and no more.
    assert_eq!(server.count(), 4);
    // Held exchanges are not held again: a resumed campaign ends at the same place.
    let again = bed.propose(&config(&server, QUICK)).await.unwrap();
    assert_eq!((again, server.count()), (proposed, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_what_is_taken_and_what_names_a_task_goes_back() {
    let mut bed = Bed::new();
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("task.toml", "schema_version = \"1.4\"\n"),
        ("instruction.md", "x"),
        ("environment/workspace/m.py", ""),
        ("tests/test.sh", ""),
    ] {
        let path = folder.path().join("meeting-clash").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let task = tandem_host::task::Task::load(&folder.path().join("meeting-clash")).unwrap();
    bed.names = SearchSetNames::of([&task]);
    bed.taken.insert("other-name".into());
    let source = hook(GOOD);
    bed.tried.insert(Digest::of(format!("{source}\n").as_bytes()));
    let named = format!("// for meeting_clash\n{source}");
    let server = answers(vec![
        reply("say-three", "['on-model-call']", "[]", &source),
        reply("other-name", "['on-model-call']", "[]", &format!("{source}\n// new")),
        reply("say-three", "['on-model-call']", "[]", &named),
        reply("meeting-clash", "['on-model-call']", "[]", &format!("{source}\n// new")),
    ]);
    let proposed = bed.propose(&config(&server, QUICK)).await.unwrap();
    let reasons: Vec<_> = proposed.reasons.iter().map(|reason| reason.lines().next().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "this very source was tried before",
            "`other-name` is the name of another proposal of this round",
            "the source mentions `meeting_clash`, a task of the search set",
            "the manifest mentions `meeting-clash`, a task of the search set",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_dies_after_the_first_round_leaves_its_reasons() {
    let bed = Bed::new();
    let server = Server::start(|number, _| match number {
        0 => stream("no blocks here"),
        _ => error("400 Bad Request", "", "out of credit"),
    });
    let proposed = bed.propose(&config(&server, QUICK)).await.unwrap();
    assert_eq!(proposed.proposal, None::<Proposal>);
    assert_eq!(proposed.reasons.len(), 2);
    assert!(proposed.reasons[1].contains("out of credit"), "{}", proposed.reasons[1]);
    let dead = Server::start(|_, _| Answer::Close);
    let bed = Bed::new();
    assert!(bed.propose(&config(&dead, "[budget]\nattempts = 1")).await.is_err());
}

/// A manifest of an edit, with the block beside it.
fn edit(name: &str, own: &str, text: &str) -> String {
    let block = if text.is_empty() { String::new() } else { format!("````text\n{text}\n````\n") };
    format!(
        "```toml\nname = \"{name}\"\nmechanism = \"Says it.\"\nfixes = [\"limit-with-edits\"]\n{own}\n```\n{block}"
    )
}

const SETTINGS: &str = include_str!("../../../../examples/contract/settings-schema.rs");

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_admitted_over_the_harness_in_force_and_what_cannot_be_goes_back() {
    let mut bed = Bed::new();
    // Two plugins through the real forge, of which one takes settings.
    for (name, source, grants) in
        [("turns", SETTINGS.to_owned(), vec!["settings"]), ("three", hook(GOOD), vec![])]
    {
        let grants = grants.into_iter().map(str::to_owned).collect();
        let plugin = Edit::Plugin { language: Language::Rust, source, grants };
        let built = bed.builder.build(name, &plugin, &bed.incumbent).await.unwrap();
        let built = built.unwrap_or_else(|refused| panic!("{}", refused.reason));
        bed.incumbent = built.generation.manifest().clone();
    }
    let turns = bed.incumbent.plugins[0].digest.to_string();
    let check = async |replies: Vec<String>, kind: EditKind, reasons: &[&str]| {
        let server = answers(replies);
        let proposed = bed.propose_at(kind.name(), &config(&server, QUICK)).await.unwrap();
        let first =
            proposed.reasons.iter().map(|reason| reason.lines().next().unwrap().replace(&turns, "TURNS"));
        assert_eq!(first.collect::<Vec<_>>(), reasons);
        assert_eq!(proposed.proposal.unwrap().edit.kind(), kind);
    };
    let settings = |text: &str| edit("warn-earlier", &format!("kind = 'settings'\n{text}"), "");
    check(
        vec![
            settings("plugin = 'turns'\nsettings = { turns_left = 99 }"),
            settings("plugin = 'three'\nsettings = { turns_left = 9 }"),
            settings("plugin = 'nobody'\nsettings = { turns_left = 9 }"),
            settings("plugin = 'turns'\nsettings = { turns_left = 9 }"),
        ],
        EditKind::Settings,
        &[
            "the plugin `turns` was not admitted: it does not take its settings: at `/turns_left`: must be <=20, but got 99 (admission step: settings, TURNS)",
            "`three` reads no settings",
            "the harness has no plugin `nobody`",
        ],
    )
    .await;
    let order = |text: &str| edit("three-first", &format!("kind = 'order'\nplugin = 'three'\n{text}"), "");
    check(
        vec![order("after = 'turns'"), order("before = 'three'"), order("before = 'turns'")],
        EditKind::Order,
        &["the harness is so already: the edit changes nothing", "`three` cannot stand beside itself"],
    )
    .await;
    let prompt =
        |which: &str, text: &str| edit("say-more", &format!("kind = 'prompt'\nprompt = '{which}'"), text);
    check(
        vec![
            prompt("instance", "Do it: {{ instruction }}"),
            prompt("system", "{% for a in range(9) %}x{% endfor %}"),
            prompt("system", "You repair {{ instruction }}."),
            prompt("system", "You are careful.\n\n```bash\nls\n```"),
        ],
        EditKind::Prompt,
        &[
            "the prompt `instance` does not say any more how the policy hands in",
            "the template has the statement `for`, which a prompt of a candidate must not have",
            "the prompt `system` reads `instruction`, which is not there",
        ],
    )
    .await;
    let limits = |text: &str| edit("see-more", &format!("kind = 'limits'\nlimits = {{ {text} }}"), "");
    check(
        vec![limits("command_seconds = 4000"), limits("turns = 4000"), limits("observation_chars = 20000")],
        EditKind::Limits,
        &[
            "`command_seconds` is 4000, and a candidate may set 1 to 300",
            "the manifest is not right: unknown field `turns`, expected one of `observation_chars`, `command_seconds`, `format_errors`, `deferrals`, `condense`",
        ],
    )
    .await;
    check(vec![edit("less", "kind = 'remove'\nplugin = 'three'", "")], EditKind::Remove, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_prompt_must_not_name_a_task_either() {
    let mut bed = Bed::new();
    bed.builder.admission.forbidden = vec!["meeting-clash".into()];
    let prompt = |text: &str| edit("say-more", "kind = 'prompt'\nprompt = 'system'", text);
    let fine = prompt("Meetings are hard.");
    let server = answers(vec![prompt("Think of meeting-clash."), fine.clone()]);
    let proposed = bed.propose(&config(&server, QUICK)).await.unwrap();
    assert_eq!(
        proposed.reasons,
        [
            "it holds the string `meeting-clash`, which belongs to a task or its tests\nhelp: write what holds for every task"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_was_tried_is_not_tried_again_and_a_removal_from_another_one_is() {
    let prompt = edit("say-more", "kind = 'prompt'\nprompt = 'system'", "Meetings are hard.");
    let proposal = Bed::new().propose(&config(&answers(vec![prompt.clone()]), QUICK)).await.unwrap().proposal;
    let made = |edit: &Edit, harness: &HarnessManifest| edit.apply("x", None, harness).unwrap().digest();
    let made = BTreeSet::from([made(&proposal.unwrap().edit, &HarnessManifest::bare())]);
    // Whatever is said about it, and whatever it is called.
    let bed = Bed { made: made.clone(), ..Bed::new() };
    let server = answers(vec![prompt.replace("Says it.", "Says it anew.").replace("say-more", "other")]);
    let again = bed.propose(&config(&server, QUICK)).await.unwrap();
    assert!(again.reasons[0].starts_with("the harness that this makes was tried before"), "{again:?}");
    // Beside other limits the same text is another harness.
    let mut bed = Bed { made, ..Bed::new() };
    bed.incumbent.limits.deferrals += 1;
    let proposed = bed.propose(&config(&answers(vec![prompt]), QUICK)).await.unwrap();
    assert!(proposed.proposal.is_some(), "{proposed:?}");
}
