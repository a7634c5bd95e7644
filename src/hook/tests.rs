//! What is an agent's JSON read as, and how is an answer said to it?

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::agent::{Agent, AgentEvent};
use super::answer::Answer;
use super::capabilities::{Expressed, effects};
use super::input::{Input, What};
use tandem_host::harness::HookPoint;

const CLAUDE_CALL: &str = r#"{"session_id":"s1","transcript_path":"/t","cwd":"/p","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","description":"List","timeout":5},"tool_use_id":"t1"}"#;
const CLAUDE_RESULT: &str = r#"{"session_id":"s1","cwd":"/p","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":{"stdout":"a\n","stderr":"w","interrupted":false,"isImage":false},"tool_use_id":"t1","duration_ms":3}"#;
const CODEX_CALL: &str = r#"{"session_id":"s2","turn_id":"1","transcript_path":null,"cwd":"/p","hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"c1"}"#;
const CODEX_RESULT: &str = r#"{"session_id":"s2","turn_id":"1","transcript_path":null,"cwd":"/p","hook_event_name":"PostToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":"a\nb","tool_use_id":"c1"}"#;
const OPENHANDS_CALL: &str = r#"{"event_type":"PreToolUse","tool_name":"terminal","tool_input":{"command":"ls","is_input":false,"kind":"TerminalAction"},"tool_response":null,"message":null,"session_id":"s3","working_dir":"/p","metadata":{}}"#;
const OPENHANDS_RESULT: &str = r#"{"event_type":"PostToolUse","tool_name":"terminal","tool_input":{"command":"ls"},"tool_response":{"content":[{"type":"text","text":"out"}],"is_error":true,"command":"ls","exit_code":2,"metadata":{"exit_code":2}},"message":null,"session_id":null,"working_dir":"/p","metadata":{}}"#;

fn read(agent: Agent, event: AgentEvent, text: &str) -> Input {
    Input::read(agent, event, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn check_read(agent: Agent, event: AgentEvent, text: &str, expected: Expect) {
    let told = match Input::read(agent, event, text.as_bytes()) {
        Err(error) => format!("error: {error}"),
        Ok(Input { session, folder, what, .. }) => {
            let what = match what {
                What::Call { call, .. } => format!("{} {} {}", call.id, call.name, call.arguments),
                What::Result { call, result, .. } => {
                    let text = json!(result.text);
                    format!("{} {} -> {:?} {:?} {text}", call.id, call.name, result.status, result.exit_code)
                }
                other => format!("{other:?}"),
            };
            format!("{session} in {}: {what}", folder.unwrap_or_default())
        }
    };
    expected.assert_eq(&told);
}

fn check(agent: Agent, event: AgentEvent, text: &str, answer: Answer, expected: Expect) {
    let told = answer.tell(&read(agent, event, text));
    let lost: Vec<_> = told.lost.iter().map(|lost| format!("\nlost: {lost}")).collect();
    expected.assert_eq(&format!("{}{}", told.reply.stdout, lost.concat()));
}

#[test]
fn shells_of_all_agents_are_the_bash_of_our_plugins() {
    use Agent::{Claude, Codex, OpenHands};
    use AgentEvent::{PostToolUse, PostToolUseFailure, PreToolUse};
    check_read(Claude, PreToolUse, CLAUDE_CALL, expect![[r#"s1 in /p: t1 bash {"command":"ls"}"#]]);
    check_read(Codex, PreToolUse, CODEX_CALL, expect![[r#"s2 in /p: c1 bash {"command":"ls"}"#]]);
    check_read(OpenHands, PreToolUse, OPENHANDS_CALL, expect![[r#"s3 in /p:  bash {"command":"ls"}"#]]);
    check_read(
        Claude,
        PostToolUse,
        CLAUDE_RESULT,
        expect![[r#"s1 in /p: t1 bash -> Finished Some(0) "a\nw""#]],
    );
    check_read(Codex, PostToolUse, CODEX_RESULT, expect![[r#"s2 in /p: c1 bash -> Finished None "a\nb""#]]);
    check_read(
        OpenHands,
        PostToolUse,
        OPENHANDS_RESULT,
        expect![[r#"/p in /p:  bash -> Finished Some(2) "out""#]],
    );
    let failed = r#"{"session_id":"s","agent_id":"a","cwd":"/p","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"x"},"tool_use_id":"t","error":"Exit code 2\nno such file"}"#;
    check_read(
        Claude,
        PostToolUseFailure,
        failed,
        expect![[r#"s/a in /p: t bash -> Finished Some(2) "no such file""#]],
    );
    let failed = failed.replace("Exit code 2\\n", "");
    check_read(
        Claude,
        PostToolUseFailure,
        &failed,
        expect![[r#"s/a in /p: t bash -> Failed None "no such file""#]],
    );
}

#[test]
fn what_lacks_something_is_told_apart() {
    use AgentEvent::{Stop, UserPromptSubmit};
    let claude = Agent::Claude;
    check_read(
        claude,
        Stop,
        "x",
        expect!["error: what Claude Code said is not JSON: expected value at line 1 column 1"],
    );
    check_read(claude, Stop, "{}", expect!["error: what Claude Code said of Stop has no `session_id`"]);
    check_read(
        claude,
        Stop,
        r#"{"session_id":"s","hook_event_name":"PreToolUse"}"#,
        expect!["error: Claude Code said PreToolUse, and its settings say Stop"],
    );
    check_read(
        claude,
        UserPromptSubmit,
        r#"{"session_id":"s"}"#,
        expect!["error: what Claude Code said of UserPromptSubmit has no `prompt`"],
    );
    check_read(
        Agent::OpenHands,
        UserPromptSubmit,
        r#"{"session_id":"s","message":"hello"}"#,
        expect![[r#"s in : Prompt { text: "hello" }"#]],
    );
}

#[test]
fn nothing_returned_means_no_output() {
    for (agent, text) in
        [(Agent::Claude, CLAUDE_CALL), (Agent::Codex, CODEX_CALL), (Agent::OpenHands, OPENHANDS_CALL)]
    {
        check(agent, AgentEvent::PreToolUse, text, Answer::default(), expect![""]);
    }
}

#[test]
fn a_refusal_is_said_in_each_format() {
    let refuse = || Answer { refuse: Some("no".into()), ..Answer::default() };
    use AgentEvent::PreToolUse;
    let expected = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}"#;
    assert_eq!(refuse().tell(&read(Agent::Claude, PreToolUse, CLAUDE_CALL)).reply.stdout, expected);
    assert_eq!(refuse().tell(&read(Agent::Codex, PreToolUse, CODEX_CALL)).reply.stdout, expected);
    check(
        Agent::OpenHands,
        PreToolUse,
        OPENHANDS_CALL,
        refuse(),
        expect![[r#"{"decision":"deny","reason":"no"}"#]],
    );
    let silent = Answer { refuse: Some(" ".into()), ..Answer::default() };
    check(
        Agent::OpenHands,
        PreToolUse,
        OPENHANDS_CALL,
        silent,
        expect![[r#"{"decision":"deny","reason":"a hook of the harness decided so and gave no reason"}"#]],
    );
}

#[test]
fn a_rewrite_keeps_what_else_the_agent_gave_and_asks_no_permission() {
    let rewrite = || Answer { rewrite: Some(json!({"command": "ls -a"})), ..Answer::default() };
    use AgentEvent::PreToolUse;
    check(
        Agent::Claude,
        PreToolUse,
        CLAUDE_CALL,
        rewrite(),
        expect![[
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"ls -a","description":"List","timeout":5}}}"#
        ]],
    );
    check(
        Agent::Codex,
        PreToolUse,
        CODEX_CALL,
        rewrite(),
        expect![[
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"ls -a"}}}"#
        ]],
    );
    check(
        Agent::OpenHands,
        PreToolUse,
        OPENHANDS_CALL,
        rewrite(),
        expect![[r#"

        lost: rewritten arguments: OpenHands runs a tool with those of the model"#]],
    );
}

#[test]
fn a_result_is_replaced_in_the_shape_that_the_tool_has() {
    let replace = || Answer { replace: Some("new".into()), notes: vec!["and".into()], ..Answer::default() };
    use AgentEvent::PostToolUse;
    check(
        Agent::Claude,
        PostToolUse,
        CLAUDE_RESULT,
        replace(),
        expect![[
            r#"{"hookSpecificOutput":{"additionalContext":"and","hookEventName":"PostToolUse","updatedToolOutput":{"interrupted":false,"isImage":false,"stderr":"","stdout":"new"}}}"#
        ]],
    );
    let glob = CLAUDE_RESULT.replace(
        r#"{"stdout":"a\n","stderr":"w","interrupted":false,"isImage":false}"#,
        r#"{"filenames":[]}"#,
    );
    check(
        Agent::Claude,
        PostToolUse,
        &glob,
        replace(),
        expect![[r#"
        {"hookSpecificOutput":{"additionalContext":"Read this instead of the tool's result:\nnew\nand","hookEventName":"PostToolUse"}}
        lost: a replaced result was given as text beside the result"#]],
    );
    check(
        Agent::Codex,
        PostToolUse,
        CODEX_RESULT,
        replace(),
        expect![[
            r#"{"decision":"block","hookSpecificOutput":{"additionalContext":"and","hookEventName":"PostToolUse"},"reason":"new"}"#
        ]],
    );
    check(
        Agent::OpenHands,
        PostToolUse,
        OPENHANDS_RESULT,
        replace(),
        expect![[r#"

        lost: a replaced result: OpenHands shows the tool's own
        lost: a note: OpenHands takes none at PostToolUse"#]],
    );
}

#[test]
fn a_deferral_makes_the_agent_go_on() {
    let defer = || Answer { defer: Some("more".into()), ..Answer::default() };
    let stop = r#"{"session_id":"s","cwd":"/p","hook_event_name":"Stop","stop_hook_active":false}"#;
    check(
        Agent::Claude,
        AgentEvent::Stop,
        stop,
        defer(),
        expect![[r#"{"decision":"block","reason":"more"}"#]],
    );
    check(
        Agent::Codex,
        AgentEvent::Stop,
        stop,
        defer(),
        expect![[r#"{"decision":"block","reason":"more"}"#]],
    );
    let stop = r#"{"session_id":"s","working_dir":"/p","event_type":"Stop"}"#;
    check(
        Agent::OpenHands,
        AgentEvent::Stop,
        stop,
        defer(),
        expect![[r#"{"decision":"deny","reason":"more"}"#]],
    );
}

#[test]
fn an_end_is_said_where_the_agent_can_end() {
    let stop = || Answer { stop: Some("enough".into()), ..Answer::default() };
    check(
        Agent::Claude,
        AgentEvent::PostToolUse,
        CLAUDE_RESULT,
        stop(),
        expect![[r#"{"continue":false,"stopReason":"enough"}"#]],
    );
    check(
        Agent::Codex,
        AgentEvent::PostToolUse,
        CODEX_RESULT,
        stop(),
        expect![[r#"{"continue":false,"stopReason":"enough"}"#]],
    );
    check(
        Agent::OpenHands,
        AgentEvent::PostToolUse,
        OPENHANDS_RESULT,
        stop(),
        expect![[r#"

        lost: an end: OpenHands can be stopped at a message of the user alone"#]],
    );
}

/// Every answer that the table says an agent can express leads to output, and what it says it cannot, to a loss.
#[test]
fn the_table_of_capabilities_says_what_the_adapters_do() {
    let text = |agent, event: AgentEvent| match (agent, event) {
        (Agent::OpenHands, event) => {
            let fields = json!({"session_id": "s", "event_type": event.name(), "tool_name": "terminal", "tool_input": {"command": "x"}, "tool_response": {"content": [{"text": "y"}]}, "message": "m"});
            fields.to_string()
        }
        (_, event) => {
            let fields = json!({"session_id": "s", "hook_event_name": event.name(), "tool_name": "Bash", "tool_input": {"command": "x"}, "tool_response": {"stdout": "y", "stderr": ""}, "prompt": "m"});
            fields.to_string()
        }
    };
    let some = || Some("text".to_owned());
    let cases: [(HookPoint, &str, AgentEvent, Answer); 9] = [
        (
            HookPoint::OnEpisodeStart,
            "note",
            AgentEvent::UserPromptSubmit,
            Answer { notes: vec!["text".into()], ..Answer::default() },
        ),
        (
            HookPoint::OnModelCall,
            "note",
            AgentEvent::UserPromptSubmit,
            Answer { notes: vec!["text".into()], ..Answer::default() },
        ),
        (
            HookPoint::OnModelCall,
            "stop",
            AgentEvent::UserPromptSubmit,
            Answer { stop: some(), ..Answer::default() },
        ),
        (
            HookPoint::OnToolCall,
            "rewrite",
            AgentEvent::PreToolUse,
            Answer { rewrite: Some(json!({"command": "y"})), ..Answer::default() },
        ),
        (
            HookPoint::OnToolCall,
            "refuse",
            AgentEvent::PreToolUse,
            Answer { refuse: some(), ..Answer::default() },
        ),
        (
            HookPoint::OnToolResult,
            "annotate",
            AgentEvent::PostToolUse,
            Answer { notes: vec!["text".into()], ..Answer::default() },
        ),
        (
            HookPoint::OnToolResult,
            "replace",
            AgentEvent::PostToolUse,
            Answer { replace: some(), ..Answer::default() },
        ),
        (HookPoint::OnLoop, "stop", AgentEvent::PostToolUse, Answer { stop: some(), ..Answer::default() }),
        (HookPoint::OnSubmit, "defer", AgentEvent::Stop, Answer { defer: some(), ..Answer::default() }),
    ];
    for agent in Agent::ALL {
        for (point, effect, event, answer) in &cases {
            let table = effects(agent, *point);
            let (_, expressed) = table.iter().find(|(name, _)| name == effect).unwrap();
            let told = answer.tell(&read(agent, *event, &text(agent, *event)));
            let said = !told.reply.stdout.is_empty();
            let name = format!("{} {} {effect}", agent.title(), point.name());
            assert_eq!(said, !matches!(expressed, Expressed::No(_)), "{name}");
            assert_eq!(told.lost.is_empty(), said, "{name}");
            let output: Value = serde_json::from_str(&told.reply.stdout).unwrap_or_default();
            assert!(output.is_object() || !said, "{name}");
        }
    }
}
