//! Whole episodes: scripted replies, real workspaces, real verifiers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, Exit, InvalidCause, Outcome, run_episode};
use tandem_host::harness::{
    Generation, Generations, HarnessManifest, LimitKind, Limits, PatchSource, Prompts, Protocol, ToolStatus,
};
use tandem_host::policy::{
    FinishReason, Message, OpenSession, Origin, Policy, PolicyError, Reply, Role, Sampling, ScriptedPolicy,
    Session, ToolCall,
};
use tandem_host::rollout::{Cancelled, PolicyLost, RolloutConfig, RolloutError, run_many};
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";
const FIX: &str = "sed -i 's/left - right/left + right/' calc.py";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks").join(name)
}

fn spec(task: &str) -> EpisodeSpec {
    EpisodeSpec {
        id: "e1".into(),
        group: "g1".into(),
        task: Arc::new(Task::load(&data(task)).unwrap()),
        seed: 7,
        sampling: Sampling::default(),
        skill: None,
    }
}

fn bash(command: &str) -> String {
    format!("I do this.\n```bash\n{command}\n```")
}

/// Runs a script under a harness without plugins.
async fn play_with(policy: &ScriptedPolicy, limits: Limits, spec: &EpisodeSpec) -> EpisodeRecord {
    let manifest = HarnessManifest { limits, ..HarnessManifest::bare() };
    let generations = Generations::new(Generation::bare(manifest));
    let config = WorkspaceConfig::default();
    run_episode(spec, policy, &generations.lease(), &config, &Cancel::new()).await.unwrap()
}

async fn play(replies: &[&str]) -> EpisodeRecord {
    let replies: Vec<_> = replies.iter().map(|reply| (*reply).to_owned()).collect();
    play_with(&ScriptedPolicy::new(move |_| replies.clone()), Limits::default(), &spec("add")).await
}

#[tokio::test]
async fn a_demonstration_solves_its_task() {
    let replies = ScriptedPolicy::read_replies(&data("add").join("solution/demo.json")).unwrap();
    let policy = ScriptedPolicy::new(move |_| replies.clone()).with_byte_ids();
    let record = play_with(&policy, Limits::default(), &spec("add")).await;
    assert_eq!((record.outcome, &record.exit), (Outcome::Solved, &Exit::Submitted));
    assert_eq!(record.patch_source, Some(PatchSource::Submitted));
    assert_eq!(record.submitted_applies, Some(true));
    assert_eq!(record.work_tree.changed, ["calc.py"]);
    assert!(String::from_utf8_lossy(&record.patch).ends_with("+    return left + right\n"));
    assert_eq!(record.turns.len(), 3);
    assert_eq!(
        record.turns[1].input[0].text(),
        "exit code 0\n     1\tdef add(left, right):\n     2\t    return left - right"
    );
    // The tokens are those of the conversation, and only the replies are trained on.
    let segment = &record.segments[0];
    let sampled: Vec<u8> =
        segment.ids.iter().zip(&segment.mask).filter(|(_, mask)| **mask).map(|(id, _)| *id as u8).collect();
    let said: String = record.turns.iter().map(|turn| turn.reply.text()).collect();
    assert_eq!(String::from_utf8(sampled).unwrap(), said);
    assert_eq!(record.segments.len(), 1);
    // A record survives its way through JSON.
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<EpisodeRecord>(&json).unwrap(), record);
}

#[tokio::test]
async fn the_first_prompt_is_exactly_this() {
    let record = play(&[&bash(SUBMIT)]).await;
    let first = &record.turns[0].input;
    assert_eq!((first[0].role, first[1].role), (Role::System, Role::User));
    expect_test::expect![[r#"
        You are a careful programmer. You work in a shell: every reply has a short thought and exactly one command in a fenced bash block.
        -----
        Solve this task in the repository of the current folder:

        <task>
        In `calc.py`, `add(2, 3)` returns -1, but it should return 5.
        </task>

        Each reply holds one command in this form, and nothing runs that is not in it:

        ```bash
        the command
        ```

        Every command starts in a new shell in the repository's folder: `cd` and variables do not last. Change source files only; leave tests and configuration alone. Reproduce the fault, fix it, check the fix.

        When the work is done, hand in with this one command, alone in its reply; nothing can be changed after it:

        ```bash
        echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff
        ```"#]].assert_eq(&format!("{}\n-----\n{}", first[0].text(), first[1].text()));
}

#[tokio::test]
async fn an_empty_submission_is_unsolved_and_submitted() {
    let record = play(&[&bash(FIX), &bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]).await;
    assert_eq!((record.outcome, &record.exit), (Outcome::Unsolved, &Exit::Submitted));
    assert_eq!((record.patch_source, record.patch.len()), (Some(PatchSource::Submitted), 0));
    assert_eq!(record.work_tree.changed, ["calc.py"]);
}

#[tokio::test]
async fn a_wrong_patch_and_one_that_does_not_apply_are_unsolved() {
    let wrong = play(&[&bash("echo '# x' >> calc.py"), &bash(SUBMIT)]).await;
    assert_eq!((wrong.outcome, wrong.submitted_applies), (Outcome::Unsolved, Some(true)));
    let broken = play(&[&bash(FIX), &bash(&format!("{SUBMIT} | head -c -20"))]).await;
    assert_eq!((broken.outcome, broken.submitted_applies), (Outcome::Unsolved, Some(false)));
    // Text of the policy's own is a submission too, and no patch.
    let text = play(&[&bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done")]).await;
    assert_eq!((text.outcome, text.patch.as_slice()), (Outcome::Unsolved, b"done\n".as_slice()));
}

#[tokio::test]
async fn a_new_file_solves_a_task_that_needs_one() {
    let write = "printf 'def greet(name):\\n    return f\"Hello, {name}!\"\\n' > greet.py";
    let submit = format!("git add -N . && {SUBMIT}");
    let replies = vec![bash(write), bash(&submit)];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let record = play_with(&policy, Limits::default(), &spec("greet")).await;
    assert_eq!(record.outcome, Outcome::Solved);
    assert_eq!(record.work_tree.untracked, ["greet.py"]);
}

#[tokio::test]
async fn three_format_errors_in_a_row_end_it_and_fewer_do_not() {
    let record = play(&["I think.", "```bash\nls\n```\n```bash\nls\n```", "Still thinking."]).await;
    let exit = Exit::Limit { limit: LimitKind::FormatErrors, salvaged: false };
    assert_eq!((record.outcome, &record.exit), (Outcome::Unsolved, &exit));
    assert_eq!((record.patch_source, record.turns.len()), (None, 3));
    assert!(record.turns[1].input[0].text().starts_with("Your reply has 0 fenced bash blocks"));
    assert!(record.turns[2].input[0].text().starts_with("Your reply has 2 fenced bash blocks"));

    let record = play(&["a", "b", &bash(FIX), "c", "d", &bash(SUBMIT)]).await;
    assert_eq!(record.outcome, Outcome::Solved);
}

#[tokio::test]
async fn a_reply_that_was_cut_off_is_told_so() {
    let policy = ScriptedPolicy::answering(|_, turn, _| {
        let (text, finish) = match turn {
            1 => ("```bash\ncat <<E".to_owned(), FinishReason::Length),
            _ => (bash(SUBMIT), FinishReason::Stop),
        };
        Some(Reply { text, finish, ..Reply::default() })
    });
    let record = play_with(&policy, Limits::default(), &spec("add")).await;
    assert!(record.turns[1].input[0].text().starts_with("Your reply was cut off at 256 tokens."));
    assert_eq!(record.exit, Exit::Submitted);
}

#[tokio::test]
async fn limits_end_a_valid_episode_with_nothing_handed_in() {
    let check = async |limits: Limits, replies: &[&str], limit: LimitKind, turns: usize| {
        let replies: Vec<_> = replies.iter().map(|reply| bash(reply)).collect();
        let policy = ScriptedPolicy::new(move |_| replies.clone()).with_byte_ids();
        let record = play_with(&policy, limits, &spec("add")).await;
        assert_eq!(record.exit, Exit::Limit { limit, salvaged: false });
        assert_eq!((record.outcome, record.turns.len()), (Outcome::Unsolved, turns));
        assert_eq!((record.patch.len(), record.patch_source), (0, None));
        assert_eq!(record.work_tree.changed, ["calc.py"]);
    };
    check(Limits { turns: 2, ..Limits::default() }, &[FIX, "ls", "ls"], LimitKind::Turns, 2).await;
    check(Limits { tokens: 90, ..Limits::default() }, &[FIX, "ls", "ls"], LimitKind::Tokens, 2).await;
    let seconds = Limits { seconds: 1, ..Limits::default() };
    check(seconds, &[FIX, "sleep 1.2", "ls"], LimitKind::Seconds, 2).await;
}

#[tokio::test]
async fn a_command_past_its_time_limit_is_told_with_its_output() {
    let replies = vec![bash("echo half; sleep 30"), bash(SUBMIT)];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let limits = Limits { command_seconds: 1, ..Limits::default() };
    let record = play_with(&policy, limits, &spec("add")).await;
    let call = &record.turns[0].calls[0];
    assert_eq!((call.result.status, call.result.exit_code, call.seconds), (ToolStatus::TimedOut, None, 1.0));
    assert_eq!(record.turns[1].input[0].text(), "stopped after 1 seconds\nhalf");
}

#[tokio::test]
async fn long_output_is_cut_head_and_tail_and_the_patch_is_not() {
    let replies = vec![
        bash("seq 100000"),
        bash(FIX),
        bash("seq 3000 > numbers; git add numbers"),
        bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff HEAD"),
    ];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let limits = Limits { observation_chars: 100, ..Limits::default() };
    let record = play_with(&policy, limits, &spec("add")).await;
    let shown = record.turns[1].input[0].text();
    assert!(shown.contains("[cut: 100 of 588894 characters are shown]"), "{shown}");
    assert!(shown.starts_with("exit code 0\n1\n2\n") && shown.ends_with("\n100000"), "{shown}");
    assert_eq!(record.turns[0].calls[0].result.raw_bytes, 588_895);
    assert!(record.patch.len() > 10_000);
    assert_eq!(record.outcome, Outcome::Solved);
}

#[tokio::test]
async fn native_calls_run_in_order_and_each_is_answered() {
    let call = |id: &str, command: &str| ToolCall {
        id: id.into(),
        name: "bash".into(),
        arguments: json!({ "command": command }),
    };
    let policy = ScriptedPolicy::answering(move |request, turn, new| {
        assert_eq!(request.tools[0]["function"]["name"], "bash");
        let tool_calls = match turn {
            1 => vec![call("a", FIX), call("b", "cat calc.py")],
            2 => {
                let answers: Vec<_> = new.iter().map(|answer| answer.tool_call_id.clone()).collect();
                assert_eq!(answers, [Some("a".to_owned()), Some("b".to_owned())]);
                vec![call("c", "ls"), ToolCall { name: "shell".into(), ..call("d", "ls") }]
            }
            3 => {
                assert!(
                    new.iter().all(|answer| answer.role == Role::Tool && answer.text().contains("`shell`"))
                );
                vec![call("e", SUBMIT), call("f", "rm calc.py")]
            }
            _ => return None,
        };
        Some(Reply { text: "Now.".into(), tool_calls, ..Reply::default() })
    });
    let limits = Limits { protocol: Protocol::Tools, ..Limits::default() };
    let record = play_with(&policy, limits, &spec("add")).await;
    assert_eq!(record.outcome, Outcome::Solved, "{:?}", record.exit);
    assert!(record.turns[1].calls.is_empty(), "nothing of a malformed reply runs");
    let last: Vec<_> = record.turns[2].calls.iter().map(|call| call.result.status).collect();
    assert_eq!(last, [ToolStatus::Finished, ToolStatus::Failed]);
}

#[tokio::test]
async fn a_skill_is_in_the_first_prompt_with_its_origin() {
    let spec = EpisodeSpec { skill: Some("Look at the sign.".into()), ..spec("add") };
    let replies = vec![bash(SUBMIT)];
    let record = play_with(&ScriptedPolicy::new(move |_| replies.clone()), Limits::default(), &spec).await;
    let pieces = &record.turns[0].input[1].pieces;
    assert_eq!(
        pieces.last().map(|piece| (&piece.origin, piece.text.as_str())),
        Some((&Origin::Skill, "Look at the sign."))
    );
}

#[tokio::test]
async fn trouble_that_the_policy_did_not_cause_is_invalid() {
    // The script ends: the policy failed.
    let record = play(&[&bash("ls")]).await;
    assert_eq!(record.outcome, Outcome::Invalid(InvalidCause::Policy));
    assert_eq!(record.turns.len(), 1);
    let Exit::Failed { reason, .. } = &record.exit else { panic!("{:?}", record.exit) };
    assert_eq!(reason, "policy `script` failed: its script for `tandem/add` has no reply 2");

    // No workspace can be made.
    let config = WorkspaceConfig { root: Some("/nonexistent/folder".into()), ..WorkspaceConfig::default() };
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let policy = ScriptedPolicy::new(|_| Vec::new());
    let spec = spec("add");
    let record = run_episode(&spec, &policy, &generations.lease(), &config, &Cancel::new()).await.unwrap();
    assert_eq!(record.outcome, Outcome::Invalid(InvalidCause::Workspace));

    // A prompt that is no template.
    let prompts = Prompts { instance: "{{ nothing }}".into(), ..Prompts::default() };
    let generations =
        Generations::new(Generation::bare(HarnessManifest { prompts, ..HarnessManifest::bare() }));
    let config = WorkspaceConfig::default();
    let record = run_episode(&spec, &policy, &generations.lease(), &config, &Cancel::new()).await.unwrap();
    assert_eq!(record.outcome, Outcome::Invalid(InvalidCause::Harness));

    // A panic inside the policy does not leave the episode.
    let policy = ScriptedPolicy::answering(|_, _, _| panic!("a policy that breaks down"));
    let record = run_episode(&spec, &policy, &generations.lease(), &config, &Cancel::new()).await.unwrap();
    assert!(matches!(record.outcome, Outcome::Invalid(_)));
}

#[tokio::test]
async fn tests_that_leave_no_reward_are_invalid() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["environment/workspace", "tests"] {
        std::fs::create_dir_all(folder.path().join(part)).unwrap();
    }
    for (name, text) in [("task.toml", ""), ("instruction.md", "do"), ("tests/test.sh", "exit 0")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let spec = EpisodeSpec { task: Arc::new(Task::load(folder.path()).unwrap()), ..spec("add") };
    let replies = vec![bash(SUBMIT)];
    let record = play_with(&ScriptedPolicy::new(move |_| replies.clone()), Limits::default(), &spec).await;
    assert_eq!(record.outcome, Outcome::Invalid(InvalidCause::Verifier));
}

/// A policy whose context is full from a turn on.
struct Full(u32);

#[async_trait::async_trait]
impl tandem_host::policy::Policy for Full {
    async fn open(
        &self,
        _: tandem_host::policy::OpenSession,
    ) -> Result<Box<dyn tandem_host::policy::Session>, PolicyError> {
        Ok(Box::new(Full(self.0)))
    }

    fn version(&self) -> u64 {
        1
    }

    fn name(&self) -> String {
        "full".into()
    }
}

#[async_trait::async_trait]
impl tandem_host::policy::Session for Full {
    async fn reply(&mut self, _: &[Message]) -> Result<Reply, PolicyError> {
        if self.0 == 0 {
            return Err(PolicyError::ContextFull { policy: "full".into(), used: 9, limit: 8 });
        }
        self.0 -= 1;
        Ok(Reply { text: bash("ls"), ..Reply::default() })
    }
}

#[tokio::test]
async fn a_context_that_the_policy_filled_is_a_limit() {
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let config = WorkspaceConfig::default();
    let play = async |turns: u32| {
        let lease = generations.lease();
        run_episode(&spec("add"), &Full(turns), &lease, &config, &Cancel::new()).await.unwrap()
    };
    let record = play(1).await;
    assert_eq!(record.exit, Exit::Limit { limit: LimitKind::Context, salvaged: false });
    assert_eq!(record.outcome, Outcome::Unsolved);
    assert_eq!((record.spent.context.used, record.spent.context.limit), (9, Some(8)));
    assert_eq!(play(0).await.outcome, Outcome::Invalid(InvalidCause::Policy));
}

fn rollout(count: usize) -> Vec<EpisodeSpec> {
    let task = spec("add").task;
    let make = |at: usize| EpisodeSpec {
        id: format!("e{at}"),
        group: format!("g{}", at / 4),
        task: task.clone(),
        seed: at as u64,
        ..spec("add")
    };
    (0..count).map(make).collect()
}

#[tokio::test]
async fn a_group_has_one_harness_while_others_are_published() {
    let manifest =
        |turns| HarnessManifest { limits: Limits { turns, ..Limits::default() }, ..HarnessManifest::bare() };
    let generations = Generations::new(Generation::bare(manifest(10)));
    let taken = AtomicUsize::new(0);
    let mut digests: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut published = 10;
    let policy = ScriptedPolicy::new(|request| match request.seed % 2 {
        0 => vec![bash(FIX), bash(SUBMIT)],
        _ => vec![bash(SUBMIT)],
    });
    let config = RolloutConfig { concurrency: 3, ..RolloutConfig::default() };
    let cancel = Cancel::new();
    let summary = run_many::<RolloutError>(
        rollout(12),
        Arc::new(policy),
        |_| {
            taken.fetch_add(1, Ordering::SeqCst);
            generations.lease()
        },
        &config,
        &cancel,
        |record| {
            published += 1;
            generations.publish(Arc::new(Generation::bare(manifest(published))));
            let at: usize = record.id[1..].parse().unwrap();
            let expected = if at % 2 == 0 { Outcome::Solved } else { Outcome::Unsolved };
            assert_eq!(record.outcome, expected);
            digests.entry(format!("g{}", at / 4)).or_default().push(record.harness);
            Ok(())
        },
    );
    let summary = summary.await.unwrap();
    assert_eq!((summary.valid, summary.invalid, summary.retried), (12, 0, 0));
    assert_eq!(taken.load(Ordering::SeqCst), 3);
    for (group, digests) in &digests {
        assert!(digests.len() == 4 && digests.iter().all(|digest| *digest == digests[0]), "{group}");
    }
    assert_ne!(digests["g0"][0], digests["g2"][0]);
}

#[tokio::test]
async fn an_invalid_episode_runs_again_and_is_then_told() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    // Episode e0 fails in its first try, e1 in every try.
    let policy = ScriptedPolicy::new(move |request| match request.episode.as_str() {
        "e0" if counted.fetch_add(1, Ordering::SeqCst) == 0 => Vec::new(),
        "e0" => vec![bash(SUBMIT)],
        _ => Vec::new(),
    });
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let config = RolloutConfig { retries: 2, ..RolloutConfig::default() };
    let mut outcomes = BTreeMap::new();
    let cancel = Cancel::new();
    let summary = run_many::<RolloutError>(
        rollout(2),
        Arc::new(policy),
        |_| generations.lease(),
        &config,
        &cancel,
        |record| {
            outcomes.insert(record.id.clone(), record.outcome);
            Ok(())
        },
    );
    let summary = summary.await.unwrap();
    assert_eq!((summary.valid, summary.invalid, summary.retried), (1, 1, 3));
    assert_eq!(outcomes["e0"], Outcome::Unsolved);
    assert_eq!(outcomes["e1"], Outcome::Invalid(InvalidCause::Policy));
}

/// A script that never answers again after `left` sessions.
struct Dying {
    script: ScriptedPolicy,
    left: AtomicUsize,
}

#[async_trait::async_trait]
impl Policy for Dying {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => self.script.open(request).await,
            Err(_) => Err(PolicyError::Failed { policy: self.name(), reason: "the device is full".into() }),
        }
    }

    fn version(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "dying".into()
    }

    fn lost(&self) -> Option<String> {
        (self.left.load(Ordering::SeqCst) == 0).then(|| "the device is full".into())
    }
}

#[tokio::test]
async fn a_policy_that_is_lost_ends_the_rollout_instead_of_failing_every_task() {
    let script = ScriptedPolicy::new(|_| vec![bash(SUBMIT)]);
    let policy = Arc::new(Dying { script, left: AtomicUsize::new(2) });
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let config = RolloutConfig { concurrency: 1, ..RolloutConfig::default() };
    let (mut seen, cancel) = (Vec::new(), Cancel::new());
    let result = run_many::<RolloutError>(
        rollout(9),
        policy,
        |_| generations.lease(),
        &config,
        &cancel,
        |record| {
            seen.push((record.id, record.outcome));
            Ok(())
        },
    );
    let error = result.await.unwrap_err();
    assert_eq!(error, PolicyLost { policy: "dying".into(), reason: "the device is full".into() }.into());
    assert_eq!(error.to_string(), "no reply comes from the policy `dying` any more: the device is full");
    assert_eq!(seen, [("e0".into(), Outcome::Unsolved), ("e1".into(), Outcome::Unsolved)]);
}

#[tokio::test]
async fn cancelling_ends_running_episodes_without_a_record() {
    let policy = ScriptedPolicy::new(|request| match request.seed {
        0 => vec![bash(SUBMIT)],
        _ => vec![bash("sleep 40"), bash(SUBMIT)],
    });
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let cancel = Cancel::new();
    let config = RolloutConfig { concurrency: 4, ..RolloutConfig::default() };
    let start = Instant::now();
    let mut seen = Vec::new();
    let result = run_many::<RolloutError>(
        rollout(6),
        Arc::new(policy),
        |_| generations.lease(),
        &config,
        &cancel,
        |record| {
            seen.push(record.id);
            cancel.cancel();
            Ok(())
        },
    );
    assert_eq!(result.await, Err(Cancelled.into()));
    assert_eq!(seen, ["e0"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_episode_costs_little_beside_its_policy() {
    let replies = vec![bash("cat calc.py"), bash(FIX), bash(SUBMIT)];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let spec = spec("add");
    let mut times = Vec::new();
    for _ in 0..8 {
        let start = Instant::now();
        let record = play_with(&policy, Limits::default(), &spec).await;
        assert_eq!(record.outcome, Outcome::Solved);
        times.push(start.elapsed());
    }
    times.sort();
    println!("episode of 3 commands with verification: median {:?}, best {:?}", times[4], times[0]);
}
