//! The contract: does the page say what `wit/` says, does a new version keep what was released,
//! and do exports and imports really work?

mod episode;
mod examples;
mod page;
mod wit;

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect, expect_file};
use sha2::{Digest, Sha256};
use wit_parser::Resolve;

use page::{RULES, page};
use wit::{Contract, breaks};

const WIT: &str = include_str!("../../../wit/harness.wit");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `UPDATE_EXPECT=1 cargo test --workspace --test contract` writes it anew.
#[test]
fn page_is_not_stale() {
    expect_file!["../../../docs/contract.md"].assert_eq(&page(WIT));
}

#[test]
fn page_names_the_hash_of_the_contract_that_it_describes() {
    let page = read("docs/contract.md");
    let documented =
        page.lines().find_map(|line| line.strip_prefix("<!-- wit-sha256: ")?.strip_suffix(" -->"));
    let hash: String = Sha256::digest(WIT).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(documented, Some(hash.as_str()), "wit/harness.wit changed: write docs/contract.md anew");
}

#[test]
fn every_export_has_an_example_with_cases_and_every_example_an_export() {
    let contract = Contract::parse(WIT);
    let mut exports = contract.exports();
    exports.sort_unstable();
    let cases = examples::cases();
    assert_eq!(cases.keys().map(String::as_str).collect::<Vec<_>>(), exports);
    assert!(cases.values().all(|cases| !cases.is_empty()));
}

#[test]
fn every_rule_has_tests_named_after_it() {
    let mut folders = vec![root().join("host/src")];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    for number in 1..=RULES.len() {
        let tests = text.matches(&format!("fn rule_{number}_")).count();
        assert!(tests >= 2, "rule {number} has {tests} tests");
    }
}

#[test]
fn contract_keeps_what_was_released() {
    let version = Contract::parse(WIT).version();
    let released = read(&format!("wit/released/harness@{version}.wit"));
    let breaks = breaks(&Contract::parse(&released), &Contract::parse(WIT));
    assert!(
        breaks.is_empty(),
        "plugins built against {version} would break:\n{}\nhelp: leave released interfaces as they are and add a new one, or raise the version",
        breaks.join("\n")
    );
}

/// A folder of WIT is read without its subfolders: the released copy is no part of the contract.
#[test]
fn released_copies_are_not_read_with_the_contract() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).unwrap();
    let files: Vec<_> = Contract::parse(WIT).interfaces().map(str::to_owned).collect();
    let interfaces: Vec<_> = resolve.packages[package].interfaces.keys().cloned().collect();
    assert_eq!((interfaces, resolve.packages.len()), (files, 1));
}

/// What breaks when `from` of the contract becomes `to`.
#[track_caller]
fn check(from: &str, to: &str, expected: Expect) {
    assert!(WIT.contains(from), "the contract has no `{from}`");
    let changed = WIT.replacen(from, to, 1);
    let found = breaks(&Contract::parse(WIT), &Contract::parse(&changed));
    expected.assert_eq(&found.join("\n"));
}

#[test]
fn what_would_break_a_plugin_is_found() {
    check(
        "    stat: func(path: string) -> result<entry, workspace-error>;\n",
        "",
        expect!["`workspace-read.stat` is gone"],
    );
    check(
        "    now-ms: func() -> u64;",
        "    now-ms: func(zone: string) -> u64;",
        expect![[r#"
            `clock.now-ms` was
            now-ms: func() -> u64;
            and is
            now-ms: func(zone: string) -> u64;"#]],
    );
    check(
        "        used: u64,\n",
        "        used: u64,\n        soft-limit: u64,\n",
        expect![[r#"
            `types.usage` was
            record usage {
                used: u64,
                limit: option<u64>,
            }
            and is
            record usage {
                used: u64,
                soft-limit: u64,
                limit: option<u64>,
            }"#]],
    );
    check(
        "        changed: list<string>,\n        untracked: list<string>,",
        "        untracked: list<string>,\n        changed: list<string>,",
        expect![[r#"
            `types.work-tree` was
            record work-tree {
                changed: list<string>,
                untracked: list<string>,
            }
            and is
            record work-tree {
                untracked: list<string>,
                changed: list<string>,
            }"#]],
    );
    check(
        "        cut-off,\n",
        "        cut-off,\n        empty,\n",
        expect![[r#"
            `on-format-error.format-error` was
            enum format-error {
                no-action,
                several-actions,
                unknown-tool,
                bad-arguments,
                cut-off,
            }
            and is
            enum format-error {
                no-action,
                several-actions,
                unknown-tool,
                bad-arguments,
                cut-off,
                empty,
            }"#]],
    );
    check(
        "    next-u64: func() -> u64;",
        "    next-u64: func() -> u64;\n    next-u32: func() -> u32;",
        expect!["`random.next-u32` is new in a released interface"],
    );
    check("    export on-limit;\n", "", expect!["`on-limit` can no longer be exported"]);
    check("    import exec;\n", "", expect!["`exec` can no longer be imported"]);
}

#[test]
fn what_breaks_no_plugin_passes() {
    check(
        "world plugin {\n",
        "interface on-reply { on-reply: func(text: string); }\nworld plugin {\n    export on-reply;\n",
        expect![""],
    );
    check(
        "world plugin {\n",
        "interface network { fetch: func(url: string) -> list<u8>; }\nworld plugin {\n    import network;\n",
        expect![""],
    );
    check("/// Random bytes, seeded", "/// Numbers, seeded", expect![""]);
}
