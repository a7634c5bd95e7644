//! Whatever bytes come: does admission answer with a plugin or with a reason, and never break?

use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

use super::state::lock;
use super::testkit::*;
use super::*;

/// Components that are fine, with every kind of part in them.
fn originals() -> Vec<Vec<u8>> {
    let mut texts = Guest::new();
    let body = texts.effect(0, "a note of some length, to have bytes that may change without harm");
    let tool = tool_says(TOOL_ARGUMENTS.0, TOOL_ARGUMENTS.1, false);
    vec![
        texts.on(HookPoint::OnModelCall, &body).build(),
        Guest::new().tools(&[("count", "Counts lines.", "{\"type\": \"object\"}")], &tool).build(),
        Guest::new()
            .import("log", "log", "(param i32 i32 i32)")
            .import("exec", "run", "(param i32 i32 i32 i32)")
            .on(HookPoint::Observe, "(call $log (i32.const 1) (local.get 10) (local.get 11))")
            .on(HookPoint::OnLimit, "(i32.const 1)")
            .build(),
        Guest::new()
            .package("package wasi:random@0.2.6 { interface random { get-random-u64: func() -> u64; } }")
            .import_from("wasi:random/random@0.2.6", "get-random-u64", "(result i64)")
            .start("(drop (i32.const 0))")
            .items("(table $t 4 funcref) (elem (i32.const 0) func $start)")
            .on(HookPoint::OnSubmit, NOTHING)
            .build(),
    ]
}

/// One change of a run of bytes.
#[derive(Clone, Debug)]
enum Change {
    Set {
        at: Index,
        byte: u8,
    },
    Flip {
        at: Index,
        bit: u8,
    },
    Cut {
        at: Index,
    },
    Remove {
        at: Index,
        length: usize,
    },
    Repeat {
        at: Index,
        length: usize,
        times: usize,
    },
    Insert {
        at: Index,
        bytes: Vec<u8>,
    },
    /// A run of another component.
    Splice {
        of: Index,
        from: Index,
        length: usize,
        at: Index,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set { at, byte }),
        4 => (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip { at, bit }),
        1 => at().prop_map(|at| Change::Cut { at }),
        1 => (at(), 1..64_usize).prop_map(|(at, length)| Change::Remove { at, length }),
        1 => (at(), 1..64_usize, 1..40_usize)
            .prop_map(|(at, length, times)| Change::Repeat { at, length, times }),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        1 => (at(), at(), 1..256_usize, at())
            .prop_map(|(of, from, length, at)| Change::Splice { of, from, length, at }),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, originals: &[Vec<u8>]) {
        if bytes.is_empty() {
            return;
        }
        let place = |at: &Index| at.index(bytes.len());
        match self {
            Self::Set { at, byte } => {
                let at = place(at);
                bytes[at] = *byte;
            }
            Self::Flip { at, bit } => {
                let at = place(at);
                bytes[at] ^= 1 << bit;
            }
            Self::Cut { at } => bytes.truncate(place(at)),
            Self::Remove { at, length } => {
                let at = place(at);
                let end = (at + length).min(bytes.len());
                bytes.drain(at..end);
            }
            Self::Repeat { at, length, times } => {
                let at = place(at);
                let run = bytes[at..(at + length).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, run);
            }
            Self::Insert { at, bytes: more } => {
                let at = place(at);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Splice { of, from, length, at } => {
                let other = of.get(originals);
                let from = from.index(other.len());
                let run = &other[from..(from + length).min(other.len())];
                let at = place(at);
                bytes.splice(at..at, run.iter().copied());
            }
        }
    }
}

/// Bytes: a component with a few changes, or sections made from nothing.
#[derive(Clone, Debug)]
enum Bytes {
    Changed { of: Index, changes: Vec<Change> },
    Sections { layer: bool, sections: Vec<(u8, Vec<u8>)> },
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let section = (0..14_u8, prop::collection::vec(any::<u8>(), 0..40));
    prop_oneof![
        9 => (any::<Index>(), prop::collection::vec(change(), 0..4))
            .prop_map(|(of, changes)| Bytes::Changed { of, changes }),
        1 => (any::<bool>(), prop::collection::vec(section, 0..8))
            .prop_map(|(layer, sections)| Bytes::Sections { layer, sections }),
    ]
}

impl Bytes {
    fn make(&self, originals: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Self::Changed { of, changes } => {
                let mut bytes = of.get(originals).clone();
                for change in changes {
                    change.apply(&mut bytes, originals);
                }
                bytes
            }
            Self::Sections { layer, sections } => {
                // A component or a module.
                let mut bytes = b"\0asm".to_vec();
                bytes.extend(if *layer { [0x0d, 0, 1, 0] } else { [1, 0, 0, 0] });
                for (id, content) in sections {
                    bytes.extend([*id, content.len() as u8]);
                    bytes.extend(content);
                }
                bytes
            }
        }
    }
}

#[test]
fn admission_never_breaks() {
    let limits = PluginLimits {
        fuel_start: 1_000_000,
        fuel_hook: 1_000_000,
        fuel_tool: 1_000_000,
        ..PluginLimits::default()
    };
    let engine = Engine::new(limits).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let originals = originals();
    let seen = Mutex::new(BTreeMap::new());
    let admitted = |case: Bytes| {
        let bytes = case.make(&originals);
        let answer = runtime.block_on(admit(&engine, &bytes, &Grants::all(), &AdmissionOptions::default()));
        let step = answer.as_ref().err().map(|error| error.step);
        *lock(&seen).entry(step).or_insert(0) += 1;
        let Err(error) = answer else { return Ok(()) };
        let broke = error.what.contains("broke down");
        let shown = |text: &str| !text.trim().is_empty() && text.len() < 2_000;
        if broke || !shown(&error.what) || !shown(&error.help) {
            return Err(TestCaseError::fail(error.to_string()));
        }
        Ok(())
    };
    let result = tries(400, file!()).run(&bytes(), admitted);
    println!("admission ended at {:?}", lock(&seen));
    if let Err(error) = result {
        panic!("{error}");
    }
}
