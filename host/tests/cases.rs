//! Does every first-party plugin do what the cases beside it say? As a real component: built by
//! the forge, admitted with the grants of its cases, called in a real workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use tandem_host::agent::{Cancel, EpisodeSpec, Outcome, run_episode};
use tandem_host::cases::{Cases, run_cases};
use tandem_host::forge::{Built, Forge, ForgeConfig, Source};
use tandem_host::harness::{Generation, Generations, HarnessManifest, PluginEntry};
use tandem_host::plugin::{AdmissionOptions, Engine, Grants, PluginLimits, admit};
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

/// Cases that a plugin has at least, of each kind: it fires, it stays silent.
const AT_LEAST: usize = 3;
/// Bytes that a component has at most; it is loaded once for every harness that has it.
const MAX_BYTES: usize = 160 << 10;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(PluginLimits::default()).unwrap());

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});

/// Each component is built once for all tests.
fn built(name: &str) -> Arc<Built> {
    static BUILT: LazyLock<Vec<OnceLock<Arc<Built>>>> =
        LazyLock::new(|| NAMES.iter().map(|_| OnceLock::new()).collect());
    let at = NAMES.iter().position(|known| *known == name).unwrap();
    let build = || {
        let text = std::fs::read_to_string(plugins().join(name).join("src/lib.rs")).unwrap();
        let built = FORGE.build(&Source::File { name: format!("{name}.rs"), text });
        Arc::new(built.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    BUILT[at].get_or_init(build).clone()
}

fn plugins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins")
}

async fn check(name: &str) {
    let folder = plugins().join(name);
    let cases = Cases::read(&folder).unwrap_or_else(|error| panic!("{error}"));
    let fires = cases.cases.iter().filter(|case| case.fires()).count();
    let silent = cases.cases.len() - fires;
    assert!(fires >= AT_LEAST && silent >= AT_LEAST, "{name}: {fires} cases fire, {silent} are silent");

    let built = built(name);
    println!("{name}: {} bytes", built.component.len());
    assert!(built.component.len() <= MAX_BYTES, "{name}: {} bytes", built.component.len());
    let grants = cases.grants.clone().unwrap_or_else(|| panic!("{name}: its cases name no grants"));
    assert_eq!(grants, Grants::parse(&built.grants).unwrap(), "{name}: grants as it asks for");

    let admitted = admit(&ENGINE, &built.component, &grants, &AdmissionOptions::default()).await;
    let admitted = admitted.unwrap_or_else(|error| panic!("{name}: {error}"));
    let report = run_cases(&admitted, &cases, &WorkspaceConfig::default()).await;
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(report.failed(), 0, "{name}:\n{report}");
    println!("{report}");
}

/// One test for each plugin, and the list of them.
macro_rules! plugins {
    ($($test:ident $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(#[tokio::test]
        async fn $test() {
            check($name).await;
        })*
    };
}

plugins! {
    budget_warning "budget-warning",
    check_names "check-names",
    edit "edit",
    editor "editor",
    encoding_guard "encoding-guard",
    fold_output "fold-output",
    format_help "format-help",
    hold_empty_patch "hold-empty-patch",
    interactive_guard "interactive-guard",
    lint_after_edit "lint-after-edit",
    new_file_reminder "new-file-reminder",
    no_test_edits "no-test-edits",
    outline "outline",
    path_hint "path-hint",
    remind_tests "remind-tests",
    rescue_patch "rescue-patch",
    retry_flaky "retry-flaky",
    search "search",
    stop_repeats "stop-repeats",
    test_summary "test-summary",
    think "think",
    timeout_advice "timeout-advice",
}

#[test]
fn no_plugin_is_without_cases() {
    let folders = std::fs::read_dir(plugins()).unwrap().map(|entry| entry.unwrap().path());
    let found: BTreeSet<String> = folders
        .filter(|path| path.join("src/lib.rs").is_file() && !path.ends_with("sdk"))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed);
}

/// All plugins in one harness, and an episode that gives six of them reason to act.
#[tokio::test]
async fn all_plugins_serve_one_episode_without_a_fault() {
    let store = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(store.path()).unwrap();
    let mut manifest = HarnessManifest::bare();
    for name in NAMES {
        let built = built(name);
        let digest = blobs.put(&built.component).unwrap();
        let (name, settings) = ((*name).to_owned(), serde_json::Map::new());
        manifest.plugins.push(PluginEntry { name, digest, grants: built.grants.clone(), settings });
    }
    let generation =
        Generation::build(&ENGINE, manifest, &blobs).await.unwrap_or_else(|error| panic!("{error}"));

    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";
    let bash = |command: &str| format!("```bash\n{command}\n```");
    let replies = vec![
        bash("cat src/calc.py"),
        bash("vim calc.py"),
        "```sh\nls\n```".to_owned(),
        bash("sed -i 's/left - right/(left + right/' calc.py"),
        bash("seq 1 200"),
        bash("sed -i 's/(left + right/left + right/' calc.py"),
        bash(submit),
        bash("python3 -c 'import calc; print(calc.add(2, 3))'"),
        bash(submit),
    ];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add");
    let spec = EpisodeSpec {
        id: "e1".into(),
        group: "g1".into(),
        task: Arc::new(Task::load(&task).unwrap()),
        seed: 7,
        sampling: Sampling::default(),
        skill: None,
    };
    let lease = Generations::new(generation).lease();
    let record =
        run_episode(&spec, &policy, &lease, &WorkspaceConfig::default(), &Cancel::new()).await.unwrap();
    assert_eq!(record.faults, []);
    let effects: Vec<_> =
        record.effects.iter().map(|effect| (effect.turn, effect.name.as_str(), effect.kind.name())).collect();
    assert_eq!(
        effects,
        [
            (1, "path-hint", "annotate"),
            (2, "interactive-guard", "refuse"),
            (3, "format-help", "replace"),
            (4, "lint-after-edit", "annotate"),
            (5, "fold-output", "replace"),
            (7, "remind-tests", "defer"),
        ]
    );
    assert_eq!(record.outcome, Outcome::Solved);
}
