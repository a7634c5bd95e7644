//! The reference page of the contract, from the WIT, the limits of the host and the examples.
//!
//! Docs and types come from `wit/harness.wit`, numbers from the code, examples from
//! `examples/contract`. What the WIT does not say, when a point is called and what an answer
//! does, is in [`EXPORTS`] and [`CAPABILITIES`].

use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tandem_host::harness::Limits;
use tandem_host::plugin::PluginLimits;
use tandem_host::workspace::caps;

use super::examples::{Case, cases, source};
use super::wit::Contract;

/// What the page says of an export beside its WIT.
struct Export {
    name: &'static str,
    called: &'static str,
    answer: &'static str,
    nothing: &'static str,
    /// Caps of its own, beside those of every call.
    caps: fn(&Limits, &PluginLimits) -> Option<String>,
}

/// How much text of a hook the policy sees.
fn visible(limits: &Limits, _: &PluginLimits) -> Option<String> {
    let chars = number(limits.observation_chars as u64);
    Some(format!(
        "the policy sees {chars} characters of a text (`limits.observation_chars`); longer text is cut head and tail"
    ))
}

fn none(_: &Limits, _: &PluginLimits) -> Option<String> {
    None
}

const EXPORTS: [Export; 12] = [
    Export {
        name: "tools",
        called: "`definitions` at admission and when a harness is built; `call` when the policy calls one of the tools",
        answer: "content blocks, structured JSON, or an error that the policy reads: the result shape of the Model Context Protocol. An image becomes one line of text, since policies here read text; structured JSON is shown when there is no content",
        nothing: "a result without content is an empty result",
        caps: |limits, _| {
            let chars = number(limits.observation_chars as u64);
            Some(format!(
                "names have 1 to 64 characters and are unique in a harness; `bash` is taken; the policy sees {chars} characters of a result"
            ))
        },
    },
    Export {
        name: "settings-schema",
        called: "at admission; when a harness is built, the plugin's settings in its manifest are checked against the answer",
        answer: "a JSON Schema. Settings that do not fit make the harness fail to build, with the place and the reason",
        nothing: "a plugin without this export takes any JSON object",
        caps: |_, _| Some("64 KiB of schema; no `$ref` or `$dynamicRef`".into()),
    },
    Export {
        name: "on-episode-start",
        called: "once, when the workspace is ready and before the first model call; `turn` is 0",
        answer: "text for the plugin's own section of the first prompt, after the host's instruction and before a skill",
        nothing: "there is no section",
        caps: visible,
    },
    Export {
        name: "on-model-call",
        called: "before each model call, with what is used and left of the budget",
        answer: "`note`: text at the end of the newest content that the policy has not seen. `stop`: the episode ends with nothing handed in, and the reason is in its record",
        nothing: "the call is made",
        caps: visible,
    },
    Export {
        name: "on-format-error",
        called: "when the output of the policy could not be parsed, before the host's corrective text is shown",
        answer: "text instead of the corrective text. The first plugin with a text ends the chain",
        nothing: "the host's text stands",
        caps: |limits, plugin| {
            Some(format!(
                "{} format errors in a row end the episode (`limits.format_errors`); {}",
                limits.format_errors,
                visible(limits, plugin)?
            ))
        },
    },
    Export {
        name: "on-tool-call",
        called: "before each tool call, `bash` and plugin tools alike",
        answer: "`rewrite`: a JSON object, run instead of the arguments; the next plugin sees it. `refuse`: the call does not run, and the policy reads the reason as its result; the chain ends",
        nothing: "the call runs as it is",
        caps: visible,
    },
    Export {
        name: "on-tool-result",
        called: "after each tool call, exactly once whatever happened to it: refused, failed, timed out, broken arguments, handed in, or not run because the call before it handed in",
        answer: "`annotate`: text after the result. `replace`: text instead of it. The next plugin sees the result with it",
        nothing: "the result stands",
        caps: visible,
    },
    Export {
        name: "on-loop",
        called: "after a turn that completed a repetition; the same repetition counts anew after it was told. Output without an action ends an episode by `limits.format_errors` at the same number unless that is raised",
        answer: "`note` and `stop`, as in `on-model-call`",
        nothing: "the episode goes on",
        caps: visible,
    },
    Export {
        name: "on-submit",
        called: "when the policy hands in, with the patch and the state of the work tree",
        answer: "a message that holds the submission back; the policy reads it after the result of its command. The first message ends the chain",
        nothing: "the submission is accepted",
        caps: |limits, plugin| {
            Some(format!(
                "{} deferrals an episode (`limits.deferrals`), after which no plugin is asked; {}",
                limits.deferrals,
                visible(limits, plugin)?
            ))
        },
    },
    Export {
        name: "on-choose-patch",
        called: "when the policy has handed in and the work tree can be read: the submitted patch is candidate 0, the work tree's is 1",
        answer: "the index of the candidate to hand in, never bytes of its own. The next plugin is shown that one first",
        nothing: "the first candidate stands",
        caps: none,
    },
    Export {
        name: "on-limit",
        called: "when a limit ended the episode with nothing handed in; for the limits of money and of the policy's context it is told `tokens`",
        answer: "true hands in the difference of the work tree. The first plugin that says true ends the chain",
        nothing: "false: nothing is handed in",
        caps: none,
    },
    Export {
        name: "observe",
        called: "for `episode-start` (`instruction`, `tools`), `turn` (`turn`, `finish`, `calls`), `context-pressure` (`used`, `limit`; tokens, at three quarters and nine tenths of the policy's context), `condensed` (`from`, `to`; turns that a summary stands for), `refused`, `deferred`, `stopped` (`by`, and `reason` or `message`) and `episode-end` (`exit`, `patch_source`, `patch_bytes`, `work_tree`); never with a verdict, a reward or a skill",
        answer: "nothing",
        nothing: "always so",
        caps: none,
    },
];

/// What the page says of a capability beside its WIT.
struct Capability {
    name: &'static str,
    what: &'static str,
    caps: fn(&PluginLimits) -> String,
}

const CAPABILITIES: [Capability; 9] = [
    Capability {
        name: "log",
        what: "Messages are in the episode's record as effects of kind `log`. They outlive a fault of the call that logged them.",
        caps: |limits| {
            format!(
                "{} an episode; messages that do not fit are counted and dropped",
                bytes(limits.log_bytes as u64)
            )
        },
    },
    Capability {
        name: "failure",
        what: "It is no grant and every plugin has it. The text goes into the plugin fault after \"it wrote\"; without it the host shows the end of what the plugin wrote to standard error. That is how the text of an exception reaches its author, where a `result` of every hook would say it a second time: a hook that fails is a fault (rule 3), whatever it returns.",
        caps: |_| "2,000 characters are shown; the last text of a call counts".into(),
    },
    Capability {
        name: "clock",
        what: "It moves with the commands that the host ran, each rounded to whole seconds, so that the same record gives the same time; never with the wall clock.",
        caps: |_| "none".into(),
    },
    Capability {
        name: "random",
        what: "SplitMix64 from the episode's seed and the plugin's digest: the same episode gives the same numbers, two plugins of an episode get different ones. After a fault the numbers go on from another seed. Not for secrets.",
        caps: |_| "none".into(),
    },
    Capability {
        name: "state",
        what: "Kept by the host over faults, gone with the episode; no other plugin and no other episode sees it.",
        caps: |limits| {
            format!(
                "{} of keys and values an episode; `set` past it fails with both numbers and changes nothing",
                bytes(limits.state_bytes as u64)
            )
        },
    },
    Capability { name: "settings", what: "`{}` where the manifest has none.", caps: |_| "none".into() },
    Capability {
        name: "workspace-read",
        what: "Links that lead out of the workspace are `denied`. `search` and `diff` see files as they are now.",
        caps: |limits| {
            format!(
                "{} a file; {} entries a listing; {} hits of {} bytes and {} files and folders a search; {} a difference; {} a call",
                bytes(caps::FILE_BYTES),
                number(caps::LIST_ENTRIES as u64),
                number(caps::SEARCH_HITS as u64),
                number(caps::LINE_BYTES as u64),
                number(caps::SEARCH_ENTRIES as u64),
                bytes(limits.output_bytes as u64),
                time(limits.host_call),
            )
        },
    },
    Capability {
        name: "workspace-write",
        what: "Missing folders are made. `.git` is `denied`. What is written is part of the work tree, so it can be in the patch.",
        caps: |limits| format!("{} a file; {} a call", bytes(caps::FILE_BYTES), time(limits.host_call)),
    },
    Capability {
        name: "exec",
        what: "Runs as the commands of the policy do: same sandbox, same folder, no network. `argv` is run as it is, not by a shell.",
        caps: |limits| {
            format!(
                "a longer `timeout-ms` is cut to {}; {} of output, half from each end, with a line between that says what is left out",
                time(limits.exec.min(caps::EXEC_TIME)),
                bytes(caps::EXEC_BYTES as u64)
            )
        },
    },
];

/// The rules of the contract, in the words of the design.
pub const RULES: [&str; 10] = [
    "Order is the order in the harness manifest. Each hook sees the effects of the ones before it; the first refusal ends a chain; observers still run.",
    "Exactly one result call for every tool call, whatever happened to it.",
    "Nothing returned means nothing happens. A trap, a time-out, exhausted fuel, an output over its cap or a wrong value is a plugin fault, never a decision: the original value stands, the fault is recorded, and after 3 faults the plugin is out for the rest of the episode.",
    "Only the guest's own time counts. Fuel gives the verdict, the same on every machine; an epoch deadline is the backstop, a host-call time-out the second.",
    "Append-only over sampled tokens: effects touch only text that the policy has not seen yet.",
    "Every token that a hook put in has loss mask 0 and names the plugin digest, the hook point and the effect.",
    "One harness digest for the episodes of a group. A swap is seen by the next episode, never by a running one.",
    "The same path runs in training, evaluation and deployment; a mode can only leave skills out.",
    "Same input, same output: admission calls a plugin twice and refuses it when the answers differ.",
    "Text over the model-visible cap is cut head and tail, and says so with both numbers.",
];

const OPENING: &str = "\
A plugin is one WebAssembly component. What it exports is what it subscribes to; what it imports is what it asks for,
and each import is a grant in the harness manifest. The contract is [`wit/harness.wit`](../wit/harness.wit); how to
write a plugin in Rust is in [plugins/README.md](../plugins/README.md).
";

const LANGUAGES: &str = "\
The examples are in Rust and in JavaScript; [plugin-languages.md](plugin-languages.md) says which other languages the
forge builds, and `examples/plugins` has one plugin in each of them. In JavaScript names are in camel case
(`on-tool-call` is `onToolCall`), `u32`, `s32` and `u64` are numbers, an `option` without a value is `null` and may be
answered as `undefined` too, a variant is `{ tag, val }`, an enumeration a string, `list<u8>` a `Uint8Array`, and a failed
`result` throws; `plugins/sdk-javascript/tandem.d.ts` has the types. An uncaught exception is a fault.
";

/// The whole page.
pub fn page(wit: &str) -> String {
    let contract = Contract::parse(wit);
    let (limits, plugin) = (Limits::default(), PluginLimits::default());
    let hash: String = Sha256::digest(wit).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut page = String::new();
    let p = &mut page;
    line(p, &format!("# The contract: `tandem:harness@{}`\n", contract.version()));
    line(p, "<!-- Written by `UPDATE_EXPECT=1 cargo test --workspace --test contract`; do not edit. -->");
    line(p, &format!("<!-- wit-sha256: {hash} -->\n"));
    line(p, OPENING);
    table_of_exports(p, &contract);

    line(p, "## Rules\n");
    for (number, rule) in (1..).zip(RULES) {
        line(p, &format!("{number}. {rule}"));
    }
    line(p, "\nEach rule has tests named after it: `cargo test --workspace --lib rule_`.\n");
    caps_of_a_call(p, &plugin);

    line(p, "## Exports\n");
    for name in contract.exports() {
        let export = EXPORTS.iter().find(|export| export.name == name);
        let export = export.unwrap_or_else(|| panic!("say in page.rs when `{name}` is called"));
        line(p, &format!("### `{name}`\n\n{}\n", contract.docs(name)));
        line(p, &format!("- **Called**: {}.", export.called));
        line(p, &format!("- **May answer**: {}.", export.answer));
        line(p, &format!("- **Nothing returned**: {}.", export.nothing));
        if let Some(own) = (export.caps)(&limits, &plugin) {
            line(p, &format!("- **Caps**: {own}."));
        }
        line(p, "");
        interface(p, &contract, name);
        example(p, name);
    }

    line(
        p,
        "## Capabilities\n\nThe name of a capability is the word in `grants` of the plugin's entry in the harness manifest; `failure` needs no grant.\n",
    );
    for name in contract.capabilities() {
        let capability = CAPABILITIES.iter().find(|capability| capability.name == name);
        let capability = capability.unwrap_or_else(|| panic!("say in page.rs what `{name}` does"));
        line(p, &format!("### `{name}`\n\n{} {}\n", contract.docs(name), capability.what));
        line(p, &format!("**Caps**: {}.\n", (capability.caps)(&plugin)));
        interface(p, &contract, name);
    }

    line(p, "## Types\n");
    let (exports, capabilities) = (contract.exports(), contract.capabilities());
    for name in contract.interfaces() {
        if !exports.contains(&name) && !capabilities.contains(&name) {
            line(p, &format!("### `{name}`\n\n{}\n", contract.docs(name)));
            interface(p, &contract, name);
        }
    }

    line(p, "## WASI\n");
    line(p, &wasi(&plugin));
    line(p, "## Languages\n");
    line(p, LANGUAGES.trim_end());
    page
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

fn table_of_exports(p: &mut String, contract: &Contract) {
    line(p, "| export | called |\n|---|---|");
    for name in contract.exports() {
        let docs = contract.docs(name);
        let first = docs.split_inclusive('.').next().unwrap_or_default();
        line(p, &format!("| [`{name}`](#{name}) | {} |", first.trim().replace('\n', " ")));
    }
    let names: Vec<_> = contract.capabilities().iter().map(|name| format!("[`{name}`](#{name})")).collect();
    line(p, &format!("\nCapabilities: {}.\n", names.join(" · ")));
}

fn caps_of_a_call(p: &mut String, limits: &PluginLimits) {
    line(p, "## What one call may use\n");
    line(p, "| | hook | tool |\n|---|---|---|");
    let mut row = |what: &str, hook: String, tool: String| line(p, &format!("| {what} | {hook} | {tool} |"));
    row("fuel, about one unit an instruction", number(limits.fuel_hook), number(limits.fuel_tool));
    row("the guest's own time, the backstop", time(limits.deadline_hook), time(limits.deadline_tool));
    let mut both = |what: &str, cap: String| row(what, cap.clone(), cap);
    both("wall-clock time with everything in it", time(limits.wall));
    both("memory of the instance", bytes(limits.memory_bytes as u64));
    both("bytes that cross to the host at once", bytes(limits.output_bytes as u64));
    both("calls of capabilities", number(limits.host_calls.into()));
    both("time of one of them, but for `exec`", time(limits.host_call));
    line(
        p,
        &format!(
            "\nA component has at most {}, and its start {} units of fuel. Past a cap is a fault, with both numbers.\n",
            bytes(limits.component_bytes as u64),
            number(limits.fuel_start)
        ),
    );
}

/// The types and functions of an interface as WIT.
fn interface(p: &mut String, contract: &Contract, name: &str) {
    let items: Vec<_> = contract.items(name).into_iter().map(|item| item.shown).collect();
    line(p, &format!("```wit\n{}\n```\n", items.join("\n")));
}

/// The examples of an export, with what they answer.
fn example(p: &mut String, name: &str) {
    let rust = source(name, "rs");
    let title = rust.lines().next().unwrap_or_default().trim_start_matches("//! ");
    line(p, &format!("Example: {title}\n"));
    for case in &cases()[name] {
        line(p, &format!("- {}", told(case)));
    }
    let mut folded = |language: &str, code: &str, text: &str| {
        let text = text.trim_end();
        line(p, &format!("\n<details><summary>{language}</summary>\n\n```{code}\n{text}\n```\n\n</details>"));
    };
    folded("Rust", "rust", &rust);
    folded("JavaScript", "js", &source(name, "js"));
    line(p, "");
}

/// A case in one line.
fn told(case: &Case) -> String {
    let mut text = format!("`{}`", case.input);
    if !case.settings.is_empty() {
        let settings = serde_json::Value::Object(case.settings.clone());
        write!(text, " with the settings `{settings}`").expect("text takes text");
    }
    match &case.log {
        Some(log) => write!(text, " logs `{log}`"),
        None => write!(text, " gives `{}`", case.output),
    }
    .expect("text takes text");
    text
}

fn wasi(limits: &PluginLimits) -> String {
    format!(
        "Most language runtimes import WASI 0.2, so `wasi:cli`, `wasi:io`, `wasi:clocks` and `wasi:random` are linked without a
grant, and nothing of the machine is behind them: no environment, no arguments, an empty standard input; standard output
and error keep their first {} and show in the text of a fault; `exit` is a fault; clocks start at
2026-01-01T00:00:00Z and move with the episode's virtual time, a microsecond with each look; a sleep is over at once;
random numbers are seeded. Admission calls a plugin at two times of day and with two seeds, so an answer that depends on
them is refused; import `clock` or `random` of the contract instead. Files, sockets and HTTP are not linked.
",
        bytes(limits.stdio_bytes as u64)
    )
}

/// `8 MiB`.
fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{} bytes", number(count)),
    }
}

/// `2,000,000`.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 120 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
