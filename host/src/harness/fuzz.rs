//! Does the hook chain keep the rules of the contract for any mix of plugins that behave and
//! misbehave? A small model of the rules says what has to come out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, NoWorkspace, PluginLimits};
use crate::policy::{Piece, ToolCall};
use crate::store::BlobStore;

/// Longest script. Turn 100 plays the first letter.
const STEPS: usize = 16;

/// What a plugin does at a turn, a letter of its script.
///
/// `.` nothing, `n` the first effect of the point, `s` the second, `e` the second with what it
/// was shown, `w` a wrong value, `t` a trap, `l` an endless loop.
const LETTERS: [(u32, char); 7] = [(4, '.'), (3, 'n'), (2, 's'), (1, 'e'), (1, 'w'), (1, 't'), (1, 'l')];

/// A plugin on every point that does what the script in its settings says. The settings are
/// `{"s":"t0..."}`: the name of its tool, then the script; the whole is the text of its effects.
fn actor() -> Vec<u8> {
    let (text, length) = ("(global.get $text)", "(global.get $length)");
    let act = "(global $text (mut i32) (i32.const 0))
        (global $length (mut i32) (i32.const 0))
        (func $act (param $turn i32) (result i32) (local $letter i32)
            (memory.fill (i32.const 64) (i32.const 0) (i32.const 64))
            (call $get (i32.const 128))
            (global.set $text (i32.load (i32.const 128)))
            (global.set $length (i32.load (i32.const 132)))
            (if (i32.lt_u (local.get $turn) (i32.const 100)) (then (return (i32.const 46))))
            (local.set $letter (i32.load8_u offset=8
                (i32.add (global.get $text) (i32.sub (local.get $turn) (i32.const 100)))))
            (if (i32.eq (local.get $letter) (i32.const 116)) (then (unreachable)))
            (if (i32.eq (local.get $letter) (i32.const 108)) (then (loop $l (br $l))))
            (local.get $letter))";
    // Turn and body for each letter; `.` and the rest do `other`.
    let play = |turn: &str, letters: &[(char, String)], other: &str| {
        let mut body = other.to_owned();
        for (letter, arm) in letters {
            let letter = u32::from(*letter);
            body = format!(
                "(if (result i32) (i32.eq (local.get $n) (i32.const {letter})) (then {arm}) (else {body}))"
            );
        }
        format!("(local.set $n (call $act {turn})) {body}")
    };
    let (flat, stored) = ("(local.get 0)", "(i32.load (local.get 0))");
    let effects = |turn: &str, (shown, shown_length): (&str, &str)| {
        let arms = [
            ('n', say(0, text, length)),
            ('s', say(1, text, length)),
            ('e', say(1, shown, shown_length)),
            ('w', say(9, text, length)),
        ];
        play(turn, &arms, NOTHING)
    };
    let option = |case: u32| {
        format!(
            "(i32.store8 (i32.const 64) (i32.const {case})) (i32.store (i32.const 68) {text})
             (i32.store (i32.const 72) {length}) (i32.const 64)"
        )
    };
    let texts = |turn: &str| {
        play(turn, &[('n', option(1)), ('s', option(1)), ('e', option(1)), ('w', option(9))], NOTHING)
    };
    let index = |index: u32| {
        format!(
            "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const {index})) (i32.const 64)"
        )
    };
    let yes = "(i32.const 1)".to_owned();
    let silent = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let call = [
        ('n', tool_says(text, length, false)),
        ('s', tool_says(text, length, true)),
        ('e', tool_says(TOOL_ARGUMENTS.0, TOOL_ARGUMENTS.1, true)),
        // Its first content block is of no kind.
        ('w', format!("(i32.store8 (i32.const 96) (i32.const 9)) {}", tool_says(text, length, false))),
    ];

    let mut guest = Guest::new()
        .import("settings", "get", "(param i32)")
        .import("log", "log", "(param i32 i32 i32)")
        .items(act);
    let (name, _) = guest.text("t9");
    let (description, description_length) = guest.text("Says what its script says.");
    let (schema, schema_length) = guest.text("{\"type\":\"object\"}");
    let definitions = format!(
        "(drop (call $act (i32.const 0)))
         (i32.store (i32.const 200) (if (result i32) (i32.lt_u {length} (i32.const 8))
            (then (i32.const {name})) (else (i32.add {text} (i32.const 6)))))
         (i32.store (i32.const 204) (i32.const 2))
         (i32.store (i32.const 208) (i32.const {description}))
         (i32.store (i32.const 212) (i32.const {description_length}))
         (i32.store (i32.const 216) (i32.const {schema})) (i32.store (i32.const 220) (i32.const {schema_length}))
         (i32.store (i32.const 64) (i32.const 200)) (i32.store (i32.const 68) (i32.const 1)) (i32.const 64)"
    );
    guest
        .tools_with(&definitions, &play(flat, &call, &silent))
        .on(HookPoint::OnEpisodeStart, &texts(flat))
        .on(HookPoint::OnModelCall, &effects(flat, (text, length)))
        .on(HookPoint::OnFormatError, &texts(flat))
        .on(HookPoint::OnToolCall, &effects(flat, CALL_ARGUMENTS))
        .on(HookPoint::OnToolResult, &effects(stored, RESULT_TEXT))
        .on(HookPoint::OnLoop, &effects(flat, (text, length)))
        .on(HookPoint::OnSubmit, &texts(stored))
        .on(
            HookPoint::OnChoosePatch,
            &play(flat, &[('n', index(1)), ('s', index(0)), ('w', index(7))], NOTHING),
        )
        .on(HookPoint::OnLimit, &play(flat, &[('n', yes.clone()), ('s', yes)], "(i32.const 0)"))
        .on(
            HookPoint::Observe,
            "(drop (call $act (local.get 0))) (call $log (i32.const 1) (local.get 10) (local.get 11))",
        )
        .build()
}

/// One call of the chain.
#[derive(Clone, Copy, Debug)]
struct Step {
    point: HookPoint,
    /// For `on-submit`.
    deferrals: u32,
    /// For `tools`: whose tool.
    tool: usize,
}

/// The rules, for plugins that are scripts.
struct Model {
    /// Name, settings, faults so far.
    plugins: Vec<(String, String, u32)>,
    effects: Vec<String>,
    faults: Vec<String>,
}

impl Model {
    fn text(&self, plugin: usize) -> String {
        self.plugins[plugin].1.clone()
    }

    /// What the plugin does, if it does anything: a fault is recorded and nothing else, and who
    /// has three is not called.
    fn letter(&mut self, plugin: usize, point: HookPoint, step: usize) -> Option<char> {
        let (name, settings, faults) = &mut self.plugins[plugin];
        if *faults == 3 {
            return None;
        }
        let letter = settings.chars().nth(8 + step).unwrap();
        let fault = match letter {
            't' => "trapped",
            'l' => "ran out of fuel",
            'w' if !matches!(point, HookPoint::OnLimit | HookPoint::Observe) => "returned a wrong value",
            letter => return Some(letter),
        };
        *faults += 1;
        let out = if *faults == 3 { ", out" } else { "" };
        self.faults.push(format!("{name} {} {fault}{out}", point.name()));
        None
    }

    fn record(&mut self, plugin: usize, point: HookPoint, kind: EffectKind, text: &str) {
        self.effects.push(format!("{} {} {}: {text}", self.plugins[plugin].0, point.name(), kind.name()));
    }

    fn observe(&mut self, step: usize, name: &str) {
        for plugin in 0..self.plugins.len() {
            if self.letter(plugin, HookPoint::Observe, step).is_some() {
                self.record(plugin, HookPoint::Observe, EffectKind::Log, &format!("info: {name}"));
            }
        }
    }

    fn play(&mut self, step: usize, Step { point, deferrals, tool }: Step) -> String {
        let all = 0..self.plugins.len();
        match point {
            HookPoint::Tools => {
                let Some((_, _, faults)) = self.plugins.get(tool) else { return "none".into() };
                let name = format!("t{tool}");
                if *faults == 3 {
                    return format!("failed The tool `{name}` is out of order in this task.");
                }
                let Some(letter) = self.letter(tool, point, step) else {
                    return format!("failed The tool `{name}` broke down.");
                };
                let text = match letter {
                    'n' | 's' => self.text(tool),
                    'e' => "{\"command\":\"ls\"}".into(),
                    _ => String::new(),
                };
                self.record(tool, point, EffectKind::ToolCall, &text);
                let status = if matches!(letter, 's' | 'e') { "failed" } else { "finished" };
                format!("{status} {text}")
            }
            HookPoint::OnEpisodeStart => {
                let mut texts = Vec::new();
                for plugin in all {
                    if self.letter(plugin, point, step).is_some_and(|letter| "nse".contains(letter)) {
                        texts.push(self.text(plugin));
                        self.record(plugin, point, EffectKind::Note, &self.text(plugin));
                    }
                }
                texts.join("|")
            }
            HookPoint::OnModelCall | HookPoint::OnLoop => {
                let mut notes = Vec::new();
                for plugin in all {
                    let text = self.text(plugin);
                    match self.letter(plugin, point, step) {
                        Some('n') => {
                            self.record(plugin, point, EffectKind::Note, &text);
                            notes.push(text);
                        }
                        Some('s' | 'e') => {
                            self.record(plugin, point, EffectKind::Stop, &text);
                            self.observe(step, "stopped");
                            return format!("stop {text}");
                        }
                        _ => {}
                    }
                }
                format!("proceed {}", notes.join("|"))
            }
            HookPoint::OnFormatError => {
                for plugin in all {
                    if self.letter(plugin, point, step).is_some_and(|letter| "nse".contains(letter)) {
                        self.record(plugin, point, EffectKind::Replace, &self.text(plugin));
                        return self.text(plugin);
                    }
                }
                "none".into()
            }
            HookPoint::OnToolCall => {
                let mut arguments = "{\"command\":\"ls\"}".to_owned();
                for plugin in all {
                    let reason = match self.letter(plugin, point, step) {
                        Some('n') => {
                            arguments = self.text(plugin);
                            self.record(plugin, point, EffectKind::Rewrite, &arguments);
                            continue;
                        }
                        Some('s') => self.text(plugin),
                        Some('e') => arguments.clone(),
                        _ => continue,
                    };
                    self.record(plugin, point, EffectKind::Refuse, &reason);
                    self.observe(step, "refused");
                    return format!("refuse {reason}");
                }
                format!("run {arguments}")
            }
            HookPoint::OnToolResult => {
                let mut pieces = vec!["a.py".to_owned()];
                for plugin in all {
                    let (kind, text) = match self.letter(plugin, point, step) {
                        Some('n') => (EffectKind::Annotate, format!("\n{}", self.text(plugin))),
                        Some('s') => (EffectKind::Replace, self.text(plugin)),
                        Some('e') => (EffectKind::Replace, pieces.concat()),
                        _ => continue,
                    };
                    self.record(plugin, point, kind, &text);
                    if kind == EffectKind::Replace {
                        pieces.clear();
                    }
                    pieces.push(text);
                }
                pieces.join("|")
            }
            HookPoint::OnSubmit => {
                for plugin in all {
                    if deferrals >= 2 {
                        break;
                    }
                    if self.letter(plugin, point, step).is_some_and(|letter| "nse".contains(letter)) {
                        let text = self.text(plugin);
                        self.record(plugin, point, EffectKind::Defer, &text);
                        self.observe(step, "deferred");
                        return format!("defer {text}");
                    }
                }
                "accept".into()
            }
            HookPoint::OnChoosePatch => {
                let mut order = [0, 1];
                for plugin in all {
                    match self.letter(plugin, point, step) {
                        Some('n') => order.swap(0, 1),
                        Some('s') => {}
                        _ => continue,
                    }
                    self.record(plugin, point, EffectKind::Choose, &format!("candidate {}", order[0]));
                }
                order[0].to_string()
            }
            HookPoint::OnLimit => {
                for plugin in all {
                    if self.letter(plugin, point, step).is_some_and(|letter| "ns".contains(letter)) {
                        self.record(plugin, point, EffectKind::Salvage, "");
                        return "true".into();
                    }
                }
                "false".into()
            }
            HookPoint::Observe => {
                self.observe(step, "turn");
                String::new()
            }
        }
    }
}

fn joined(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>().join("|")
}

/// The same call of the real chain, as the model words it.
async fn play(hooks: &mut EpisodeHooks, step: usize, Step { point, deferrals, tool }: Step) -> String {
    let at = &Context { turn: 100 + step as u32, ..Context::default() };
    let call = ToolCall { id: "1".into(), name: format!("t{tool}"), arguments: json!({"command": "ls"}) };
    let patch = |source| PatchCandidate { source, bytes: 9, files: vec!["a.py".into()], applies: true };
    let candidates = [patch(PatchSource::Submitted), patch(PatchSource::WorkTree)];
    let on_model_call = |effect| match effect {
        ModelCallEffect::Proceed(pieces) => format!("proceed {}", joined(&pieces)),
        ModelCallEffect::Stop { reason, .. } => format!("stop {reason}"),
    };
    match point {
        HookPoint::Tools => match hooks.call_tool(at, &call).await {
            None => "none".into(),
            Some(result) if result.status == ToolStatus::Finished => format!("finished {}", result.text),
            Some(result) => format!("failed {}", result.text),
        },
        HookPoint::OnEpisodeStart => joined(&hooks.on_episode_start(at, "Repair it.").await),
        HookPoint::OnModelCall => on_model_call(hooks.on_model_call(at).await),
        HookPoint::OnLoop => on_model_call(hooks.on_loop(at, Repetition::SameCall).await),
        HookPoint::OnFormatError => {
            let piece = hooks.on_format_error(at, FormatError::NoAction, "hm").await;
            piece.map_or("none".into(), |piece| piece.text)
        }
        HookPoint::OnToolCall => match hooks.on_tool_call(at, &call).await {
            ToolCallEffect::Proceed(arguments) => format!("run {arguments}"),
            ToolCallEffect::Refuse(piece) => format!("refuse {}", piece.text),
        },
        HookPoint::OnToolResult => {
            let (status, text) = (ToolStatus::Finished, "a.py".to_owned());
            let result = ToolResult { status, exit_code: Some(0), text, raw_bytes: 4 };
            joined(&hooks.on_tool_result(at, &call, &result).await)
        }
        HookPoint::OnSubmit => {
            let [patch, _] = candidates;
            let submission = Submission { patch, work_tree: WorkTree::default(), deferrals };
            match hooks.on_submit(at, &submission).await {
                SubmitEffect::Accept => "accept".into(),
                SubmitEffect::Defer(piece) => format!("defer {}", piece.text),
            }
        }
        HookPoint::OnChoosePatch => hooks.on_choose_patch(at, &candidates).await.to_string(),
        HookPoint::OnLimit => hooks.on_limit(at, LimitKind::Turns, &candidates[1]).await.to_string(),
        HookPoint::Observe => {
            hooks.observe(at, "turn", &json!({})).await;
            String::new()
        }
    }
}

/// Effects and faults, as the model words them.
fn record(hooks: EpisodeHooks) -> (Vec<String>, Vec<String>) {
    let (effects, faults) = hooks.finish();
    let effects = effects.iter().map(|effect| {
        format!("{} {} {}: {}", effect.name, effect.point.name(), effect.kind.name(), effect.text)
    });
    let faults = faults.iter().map(|fault| {
        let kinds = ["trapped", "ran out of fuel", "returned a wrong value"];
        let kind = kinds.iter().find(|kind| fault.reason.starts_with(&format!("it {kind}")));
        let out = if fault.barred { ", out" } else { "" };
        format!("{} {} {}{out}", fault.name, fault.point.name(), kind.unwrap_or(&"did something else"))
    });
    (effects.collect(), faults.collect())
}

#[test]
fn hook_chain_keeps_the_rules_whatever_plugins_do() {
    const FUEL: u64 = 200_000;
    let limits =
        PluginLimits { fuel_start: FUEL, fuel_hook: FUEL, fuel_tool: FUEL, ..PluginLimits::default() };
    let engine = Engine::new(limits).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(dir.path()).unwrap();
    let digest = blobs.put(&actor()).unwrap();
    let grants = vec!["log".to_owned(), "settings".to_owned()];

    let letter = proptest::strategy::Union::new_weighted(
        LETTERS.map(|(weight, letter)| (weight, Just(letter).boxed())).to_vec(),
    );
    let scripts = prop::collection::vec(prop::collection::vec(letter, STEPS), 1..5);
    let step = (0..HookPoint::ALL.len(), 0..4_u32, 0..5_usize).prop_map(|(point, deferrals, tool)| Step {
        point: HookPoint::ALL[point],
        deferrals,
        tool,
    });
    let steps = prop::collection::vec(step, 1..=STEPS);

    let kept = |(scripts, steps): (Vec<Vec<char>>, Vec<Step>)| {
        let mut manifest = HarnessManifest::bare();
        let mut model = Model { plugins: Vec::new(), effects: Vec::new(), faults: Vec::new() };
        for (number, script) in scripts.iter().enumerate() {
            let name = format!("p{number}");
            let script: String = script.iter().collect();
            let text = format!("t{number}{script}");
            let settings = serde_json::Map::from_iter([("s".to_owned(), Value::from(text))]);
            model.plugins.push((name.clone(), Value::Object(settings.clone()).to_string(), 0));
            manifest.plugins.push(PluginEntry { name, digest, grants: grants.clone(), settings });
        }
        runtime.block_on(async {
            let generation = Generation::build(&engine, manifest, &blobs).await.unwrap();
            let mut hooks = generation.lease().open(1, Arc::new(NoWorkspace));
            for (number, step) in steps.into_iter().enumerate() {
                let expected = model.play(number, step);
                let found = play(&mut hooks, number, step).await;
                prop_assert_eq!(found, expected, "step {} at {}", number, step.point.name());
            }
            let (effects, faults) = record(hooks);
            prop_assert_eq!(effects, model.effects);
            prop_assert_eq!(faults, model.faults);
            Ok(())
        })
    };
    if let Err(error) = tries(200, file!()).run(&(scripts, steps), kept) {
        panic!("{error}");
    }
}
