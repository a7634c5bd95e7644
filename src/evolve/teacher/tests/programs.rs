//! Teachers that are programs or the policy itself.

use std::sync::Arc;

use expect_test::{Expect, expect};
use tandem_host::policy::{Reply, ScriptedPolicy};

use super::super::config::TeacherKind;
use super::super::request::{Finish, Repair};
use super::super::{Teacher, TeacherConfig};
use super::*;

fn shell(script: &str, text: &str) -> TeacherConfig {
    let mut config: TeacherConfig =
        toml::from_str(&format!("kind = 'command'\ncommand = ['sh', '-c', 'x']\n{text}")).unwrap();
    config.command[2] = script.to_owned();
    config.check(TeacherRole::Harness).unwrap();
    config
}

#[tokio::test]
async fn a_program_reads_the_request_and_its_output_is_the_reply() {
    let script = r#"python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["role"], r["system"], r["user"], end="")'"#;
    let reply = ask(&shell(script, ""), &Log::new()).await.unwrap();
    assert_eq!(reply.text, "harness s u");
    assert!(reply.usage.estimated);
    // It need not read its input.
    assert_eq!(ask(&shell("echo hi", ""), &Log::new()).await.unwrap().text, "hi\n");
}

#[tokio::test]
async fn a_program_sees_only_the_variables_that_the_campaign_names() {
    let script = "echo \"[$CARGO] [$USER]\"";
    let bare = ask(&shell(script, ""), &Log::new()).await.unwrap();
    assert_eq!(bare.text, "[] []\n");
    let named = ask(&shell(script, "env = ['CARGO']"), &Log::new()).await.unwrap();
    // What was named counts as a key, and is blotted out of the reply.
    assert_eq!(named.text, "[[key]] []\n");
}

#[tokio::test]
async fn a_program_that_fails_is_told_with_its_last_words() {
    let check = async |script: &str, text: &str, expected: Expect| {
        let error = ask(&shell(script, text), &Log::new()).await.unwrap_err();
        expected.assert_eq(&error.to_string());
    };
    let once = "[budget]\nattempts = 1";
    check(
        "echo first >&2; echo out of paper >&2; exit 4",
        once,
        expect![[r#"
            the teacher `sh` gave no reply in 1 tries; the last: the teacher program `sh` ended with 4: out of paper
            help: see whether it is up; `budget.attempts` sets the number of tries"#]],
    )
    .await;
    check(
        "head -c 1000000 /dev/zero >&2; echo >&2; echo too much to say >&2; exit 5",
        once,
        expect![[r#"
            the teacher `sh` gave no reply in 1 tries; the last: the teacher program `sh` ended with 5: too much to say
            help: see whether it is up; `budget.attempts` sets the number of tries"#]],
    )
    .await;
    check(
        "printf '\\377'",
        once,
        expect![[r#"
            the teacher `sh` gave no reply in 1 tries; the last: the teacher program `sh` wrote something else than UTF-8 text
            help: see whether it is up; `budget.attempts` sets the number of tries"#]],
    )
    .await;
    check(
        "head -c 9000000 /dev/zero",
        once,
        expect![[r#"
            the teacher `sh` failed: the teacher program `sh` wrote more than 8388608 bytes
            help: let it write the reply alone"#]],
    )
    .await;
    let mut missing = shell("", once);
    missing.command = vec!["/nowhere/teacher".into()];
    let error = ask(&missing, &Log::new()).await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the teacher `teacher` failed: the teacher program `/nowhere/teacher` cannot be started"
        ),
        "{error}"
    );
}

/// A process writes its number, sleeps in the background of a program, and must be gone.
async fn check_gone(script: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let _ = ask(&shell(&script.replace("FILE", &file.to_string_lossy()), text), &Log::new()).await;
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    // A killed process stays as a zombie until its parent has looked.
    for _ in 0..200 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z') {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("process {pid} is still there");
}

#[tokio::test]
async fn a_program_out_of_time_is_gone_with_all_that_it_started() {
    check_gone("sleep 1000 & echo $! > FILE; wait", "timeout_seconds = 1\n[budget]\nattempts = 1").await;
    check_gone(
        "echo $$ > FILE; trap '' TERM INT; while :; do sleep 1000; done",
        "timeout_seconds = 1\n[budget]\nattempts = 1",
    )
    .await;
}

#[tokio::test]
async fn what_a_program_leaves_running_is_gone_when_it_ends() {
    check_gone("sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > FILE; echo reply", "").await;
}

#[tokio::test]
async fn the_policy_itself_reads_the_whole_conversation() {
    let policy = ScriptedPolicy::answering(|open, turn, new| {
        assert!(open.episode.starts_with("teacher/") && turn == 1, "{open:?}");
        let text = new.iter().map(|message| format!("{:?}:{}", message.role, message.text()));
        let text = text.collect::<Vec<_>>().join("|");
        Some(Reply { text, ..Reply::default() })
    });
    let config = TeacherConfig { kind: TeacherKind::Policy, ..TeacherConfig::default() };
    assert!(Teacher::open(TeacherRole::Harness, &config, None).is_err());
    let teacher = Teacher::open(TeacherRole::Harness, &config, Some(Arc::new(policy))).unwrap().unwrap();
    let mut asked = request("u");
    asked.repairs.push(Repair { reply: "a".into(), reason: "r".into() });
    let log = Log::new();
    let reply = teacher.ask("p", &asked, &log.record).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("System:s|User:u|Assistant:a|User:r", Finish::End));
    assert_eq!(log.record.exchanges().unwrap()[0].model, "script v0");
}
