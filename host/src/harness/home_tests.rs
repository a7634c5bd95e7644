//! Does a harness home keep every publication, whole and in order, whoever writes at once?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::store::Digest;

struct Home {
    dir: tempfile::TempDir,
    home: HarnessHome,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = HarnessHome::create(dir.path()).unwrap();
        Self { dir, home }
    }

    /// The harness with this limit, kept as a blob.
    fn harness(&self, turns: u64) -> Digest {
        let limits = Limits { turns, ..Limits::default() };
        self.keep(&HarnessManifest { limits, ..HarnessManifest::bare() })
    }

    fn keep(&self, manifest: &HarnessManifest) -> Digest {
        self.home.blobs().put(manifest.canonical_json().as_bytes()).unwrap()
    }

    fn publish(&self, kind: PublicationKind, harness: Digest) -> LedgerEntry {
        self.home.publish(entry(kind, harness), Base::Any).unwrap().entry
    }

    /// The error of reading the ledger, with what differs from run to run left out.
    fn refused(&self, expected: Expect) {
        self.said(self.home.log().unwrap_err(), expected);
        // Nothing is written onto a ledger that cannot be trusted.
        let harness = self.harness(1);
        let files = || fs::read_dir(self.dir.path().join("ledger")).unwrap().count();
        let before = files();
        assert!(self.home.publish(entry(PublicationKind::Publish, harness), Base::Any).is_err());
        assert_eq!(files(), before);
    }

    fn said(&self, error: HomeError, expected: Expect) {
        expected.assert_eq(&error.to_string().replace(&self.dir.path().display().to_string(), "HOME"));
    }

    fn file(&self, number: u64) -> std::path::PathBuf {
        self.dir.path().join(format!("ledger/{number:06}.json"))
    }

    /// Three publications.
    fn with_three() -> Self {
        let home = Self::new();
        for turns in 1..=3 {
            home.publish(PublicationKind::Publish, home.harness(turns));
        }
        home
    }
}

fn entry(kind: PublicationKind, harness: Digest) -> NewEntry {
    let (actor, reason) = ("ada".to_owned(), "more turns".to_owned());
    NewEntry { kind, actor, reason, harness, sources: BTreeMap::new(), key: None }
}

#[test]
fn publications_are_read_back_as_they_were_written() {
    let home = Home::new();
    let (one, two) = (home.harness(1), home.harness(2));
    let first = home.publish(PublicationKind::Publish, one);
    let second = home.publish(PublicationKind::Publish, two);
    assert_eq!((first.number, first.previous, first.harness), (1, None, one));
    assert_eq!((second.number, second.previous, second.harness), (2, Some(one), two));
    let again = HarnessHome::open(home.dir.path()).unwrap();
    assert_eq!(again.log().unwrap(), [first.clone(), second]);
    assert_eq!(first.at.len(), "2026-03-01T09:30:00Z".len());
    assert_eq!(again.manifest(&two).unwrap().limits.turns, 2);
}

#[test]
fn a_folder_without_a_ledger_is_no_home_and_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let error = HarnessHome::open(dir.path()).unwrap_err().to_string();
    expect![[r#"
        `HOME` is not a harness home: it has no folder `ledger`
        help: `tandem harness add` makes one; `--home DIR` names another"#]]
    .assert_eq(&error.replace(&dir.path().display().to_string(), "HOME"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn publishers_at_once_get_a_number_each_and_lose_none() {
    let home = Home::new();
    let harnesses: Vec<_> = (0..8).map(|turns| home.harness(turns)).collect();
    std::thread::scope(|scope| {
        for harness in &harnesses {
            let home = home.home.clone();
            scope.spawn(move || {
                for _ in 0..20 {
                    home.publish(entry(PublicationKind::Publish, *harness), Base::Any).unwrap();
                }
            });
        }
    });
    let log = home.home.log().unwrap();
    assert_eq!(log.len(), 160);
    for harness in &harnesses {
        assert_eq!(log.iter().filter(|entry| entry.harness == *harness).count(), 20);
    }
    for pair in log.windows(2) {
        assert_eq!(pair[1].previous, Some(pair[0].harness));
    }
    let left = fs::read_dir(home.dir.path().join("ledger")).unwrap().count();
    assert_eq!(left, 160, "a temporary file was left behind");
}

#[test]
fn one_key_is_one_publication_however_many_ask_for_it() {
    let home = Home::new();
    let harness = home.harness(1);
    let new = NewEntry { key: Some("r1/gate0".into()), ..entry(PublicationKind::Publish, harness) };
    let appended: Vec<_> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| home.home.publish(new.clone(), Base::Any).unwrap());
        let threads: Vec<_> = (0..8).map(|_| ask()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(home.home.log().unwrap().len(), 1);
    assert_eq!(appended.iter().filter(|appended| appended.new).count(), 1);
    assert_eq!(appended.iter().map(|appended| appended.entry.number).collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn a_change_of_what_is_not_current_any_more_is_not_published() {
    let home = Home::with_three();
    let new = entry(PublicationKind::Publish, home.harness(9));
    home.said(
        home.home.publish(new.clone(), Base::Entry(2)).unwrap_err(),
        expect![[r#"
            somebody else published meanwhile: the ledger was at entry 2 and is at entry 3
            help: look at it with `tandem harness log`, then do it again"#]],
    );
    assert_eq!(home.home.log().unwrap().len(), 3);
    assert!(home.home.publish(new, Base::Entry(3)).unwrap().new);
}

#[test]
fn a_damaged_entry_is_named() {
    let home = Home::with_three();
    let text = fs::read_to_string(home.file(2)).unwrap();
    fs::write(home.file(2), text.replace("more turns", "fewer turn")).unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000002.json` is damaged: what it says was changed after it was written
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
    fs::write(home.file(2), &text[..100]).unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000002.json` is damaged: EOF while parsing a string at line 6 column 17
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
    fs::write(home.file(2), "").unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000002.json` is damaged: EOF while parsing a value at line 1 column 0
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
}

#[test]
fn every_single_flipped_bit_of_an_entry_is_found_or_changes_nothing() {
    let home = Home::with_three();
    let expected = home.home.log().unwrap();
    let whole = fs::read(home.file(3)).unwrap();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(home.file(3), bytes).unwrap();
            if let Ok(read) = home.home.log() {
                // A space that became another kind of white space.
                assert_eq!(read, expected, "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn a_rewritten_history_shows_at_the_entry_after_it() {
    let (home, other) = (Home::with_three(), Home::new());
    // An entry 2 that is whole in itself, of another history.
    other.publish(PublicationKind::Publish, other.harness(7));
    other.publish(PublicationKind::Publish, other.harness(8));
    fs::copy(other.file(2), home.file(2)).unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000002.json` is damaged: it does not follow the entry before it
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
}

#[test]
fn an_entry_of_another_layout_is_told_from_a_damaged_one() {
    let home = Home::with_three();
    fs::write(home.file(3), r#"{"entry": {"layout": 2, "what": "is not known yet"}, "extra": 1}"#).unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000003.json` has layout 2, and this program reads layout 1
        help: use the program version that wrote it"#]]);
}

#[test]
fn a_missing_entry_is_named() {
    let home = Home::with_three();
    fs::remove_file(home.file(2)).unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/000002.json` is missing, and `HOME/ledger/000003.json` is there
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
}

#[test]
fn a_file_that_is_no_entry_is_named_and_an_unfinished_one_is_passed_over() {
    let home = Home::with_three();
    fs::write(home.dir.path().join("ledger/.new-x1"), "{\"entry\": {").unwrap();
    assert_eq!(home.home.log().unwrap().len(), 3);
    fs::write(home.dir.path().join("ledger/4.json"), "{}").unwrap();
    home.refused(expect![[r#"
        the ledger entry `HOME/ledger/4.json` is damaged: its name is not a number of six digits and `.json`
        help: bring the file back from a copy of the folder; nothing is published until then"#]]);
}

#[test]
fn a_harness_without_its_manifest_or_components_is_not_published() {
    let home = Home::new();
    let nowhere = Digest::of(b"nowhere");
    assert!(home.home.publish(entry(PublicationKind::Activate, nowhere), Base::Any).is_err());
    let mut manifest = HarnessManifest::bare();
    let (name, settings) = ("edit".to_owned(), serde_json::Map::new());
    manifest.plugins.push(PluginEntry { name, digest: nowhere, grants: vec![], settings });
    let harness = home.keep(&manifest);
    let error = home.home.publish(entry(PublicationKind::Publish, harness), Base::Any).unwrap_err();
    home.said(
        error,
        expect![[r#"
            the component of the plugin `edit` of the harness sha256:425432cedd8bb181055460e3b94d97b3d0ebcbd7ec62d792c5c41304a4b5397a is not at hand: the blob sha256:20aeff0494e828d188c704e1f488a589b15ae01d11f6cb129f62129caa6cc543 is not in `HOME/blobs`
            help: put the file with these exact bytes into the store, or name another digest"#]],
    );
    assert!(home.home.log().unwrap().is_empty());
}

#[test]
fn rollback_goes_a_step_further_back_each_time() {
    use PublicationKind::{Activate, Publish, Rollback};
    let check = |history: &[(PublicationKind, u64)], expected: Option<u64>| {
        let home = Home::new();
        for (kind, turns) in history {
            home.publish(*kind, home.harness(*turns));
        }
        let found = home.home.resolve("previous").ok();
        assert_eq!(found, expected.map(|turns| home.harness(turns)), "{history:?}");
    };
    check(&[], None);
    check(&[(Publish, 1)], None);
    check(&[(Publish, 1), (Publish, 2)], Some(1));
    check(&[(Publish, 1), (Publish, 2), (Publish, 3), (Rollback, 2)], Some(1));
    check(&[(Publish, 1), (Publish, 2), (Publish, 3), (Rollback, 2), (Rollback, 1)], None);
    check(&[(Publish, 1), (Publish, 2), (Rollback, 1), (Publish, 3)], Some(1));
    check(&[(Publish, 1), (Publish, 2), (Activate, 1)], Some(2));
    check(&[(Publish, 1), (Publish, 2), (Publish, 2)], Some(1));
    // Back to something that was never current: where it was left is what comes before.
    check(&[(Publish, 1), (Rollback, 5)], Some(1));
}

#[test]
fn a_word_names_a_harness_or_says_what_would() {
    let home = Home::with_three();
    let three = home.harness(3);
    let check = |word: &str| assert_eq!(home.home.resolve(word).unwrap(), three);
    check("current");
    check(&three.to_string());
    check(&three.hex()[..4]);
    check(&format!("sha256:{}", three.short()));
    // Kept, though never published.
    let kept = home.harness(77);
    assert_eq!(home.home.resolve(&kept.short()).unwrap(), kept);
    let refused = |word: &str, expected| home.said(home.home.resolve(word).unwrap_err(), expected);
    refused(
        "newest",
        expect![[r#"
            `newest` names no harness of `HOME`
            help: take a digest, or at least 4 of its digits, from `tandem harness log`; or `current`, `previous`, or a manifest file"#]],
    );
    assert!(home.home.resolve("abc").is_err() && home.home.resolve("").is_err());
    let empty = Home::new();
    empty.said(
        empty.home.resolve("current").unwrap_err(),
        expect![[r#"
            nothing is published in `HOME` yet
            help: `tandem harness add` or `tandem harness activate FILE.toml` publishes the first harness"#]],
    );
    empty.said(
        empty.home.resolve("previous").unwrap_err(),
        expect![[r#"
            there is no harness before the current one in `HOME`
            help: `tandem harness log` shows what was published; `tandem harness activate DIGEST` takes any of it"#]],
    );
}

#[test]
fn the_source_of_a_plugin_comes_along_while_its_component_stays() {
    let home = Home::new();
    let blobs = home.home.blobs();
    let plugin = |name: &str, bytes: &[u8]| PluginEntry {
        name: name.into(),
        digest: blobs.put(bytes).unwrap(),
        grants: vec![],
        settings: serde_json::Map::new(),
    };
    let publish = |plugins: Vec<PluginEntry>, sources: &[(&str, Digest)]| {
        let harness = home.keep(&HarnessManifest { plugins, ..HarnessManifest::bare() });
        let sources = sources.iter().map(|(name, digest)| ((*name).to_owned(), *digest)).collect();
        let new = NewEntry { sources, ..entry(PublicationKind::Publish, harness) };
        home.home.publish(new, Base::Any).unwrap().entry.sources
    };
    let (a, b) = (Digest::of(b"source of a"), Digest::of(b"source of b"));
    assert_eq!(publish(vec![plugin("a", b"1")], &[("a", a)]), BTreeMap::from([("a".into(), a)]));
    let both = BTreeMap::from([("a".into(), a), ("b".into(), b)]);
    assert_eq!(publish(vec![plugin("a", b"1"), plugin("b", b"2")], &[("b", b)]), both);
    // Another component: where it came from is not known.
    assert_eq!(publish(vec![plugin("a", b"1"), plugin("b", b"3")], &[]), BTreeMap::from([("a".into(), a)]));
    assert_eq!(publish(vec![], &[]), BTreeMap::new());
    // The component of before comes back, and so does its source.
    assert_eq!(publish(vec![plugin("b", b"2")], &[]), BTreeMap::from([("b".into(), b)]));
}
