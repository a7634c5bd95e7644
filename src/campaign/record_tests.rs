//! Does the record keep what happened, whatever is done to its file?

use expect_test::{Expect, expect};
use rusqlite::Connection;
use tandem_host::forge::Language;
use tandem_host::store::Digest;

use super::projections;
use super::record::{Arm, Place, Publication, RunRecord, SourceRow};
use crate::evolve::teacher::Skill;
use crate::evolve::testkit;

/// A run with something of everything.
fn filled() -> (tempfile::TempDir, RunRecord) {
    let folder = tempfile::tempdir().unwrap();
    let record = RunRecord::open(folder.path()).unwrap();
    let digest = Digest::of(b"harness");
    record.publish(&Publication { round: 0, digest, reason: "the first".into() }).unwrap();
    for index in 0..3 {
        let place = Place { round: 1, arm: Arm::Collect, group: "r1/collect/a".into() };
        let mut episode = testkit::episode("a");
        episode.id = format!("r1/collect/a/{index}");
        episode.seconds = 0.1 + 0.2 * f64::from(index);
        record.add_episode(&place, &episode).unwrap();
        // A second time it is left as it is.
        record.add_episode(&place, &episode).unwrap();
    }
    let source = SourceRow { digest: Digest::of(b"source"), language: Language::default() };
    record.add_source(&Digest::of(b"plugin"), &source, "hold").unwrap();
    record.end_phase(1, "diagnosis", &serde_json::json!({"share": 0.1 + 0.2, "z": 1, "a": "\n"})).unwrap();
    let publication = Publication { round: 1, digest: Digest::of(b"next"), reason: "added hold".into() };
    record.end_gate(1, "candidate-0", &7, Some(&publication)).unwrap();
    let skill = Skill {
        task: "a".into(),
        mechanism: "it counts from one".into(),
        check: "the last item is lost".into(),
        text: "Count from zero.".into(),
    };
    record.add_skill("r1/skill/a", &skill).unwrap();
    (folder, record)
}

fn tables(record: &RunRecord) -> Vec<Vec<String>> {
    let connection = record.connection();
    projections::TABLES.iter().map(|table| projections::rows(&connection, table).unwrap()).collect()
}

#[test]
fn the_tables_are_made_again_from_the_events() {
    let (folder, record) = filled();
    let before = tables(&record);
    assert_eq!(record.episodes().unwrap().len(), 3);
    record
        .connection()
        .execute_batch("DROP TABLE episode; DELETE FROM phase; PRAGMA user_version = 0")
        .unwrap();
    drop(record);
    let again = RunRecord::open(folder.path()).unwrap();
    assert_eq!(tables(&again), before);
    assert_eq!(again.audit(true).unwrap().faults, Vec::<String>::new());
    assert_eq!(again.rebuild().unwrap(), 9);
    assert_eq!(tables(&again), before);
    // Numbers of a report are those that were written, to the last digit.
    let phase: serde_json::Value = again.phase(1, "diagnosis").unwrap().unwrap();
    assert_eq!(phase.to_string(), r#"{"a":"\n","share":0.30000000000000004,"z":1}"#);
}

#[test]
fn an_event_can_neither_be_changed_nor_removed_and_what_gets_round_that_is_found() {
    let check = |statement: &str, expected: Expect| {
        let (_folder, record) = filled();
        let plain = statement.replace("DROP TRIGGER event_is_never_changed;", "");
        let plain = plain.replace("DROP TRIGGER event_is_never_removed;", "");
        if plain != statement {
            let error = record.connection().execute_batch(&plain).unwrap_err().to_string();
            assert!(error.contains("an event of a run is never"), "{error}");
        }
        record.connection().execute_batch(statement).unwrap();
        let faults = record.audit(true).unwrap().faults;
        expected.assert_eq(&faults.join("\n"));
    };
    check(
        "DROP TRIGGER event_is_never_changed; UPDATE event SET body = replace(body, 'unsolved', 'solved') WHERE seq = 3",
        expect![[r#"
            event 3, `episode`, is not what it was sealed as
            the table `episode` does not follow from the events"#]],
    );
    check(
        "DROP TRIGGER event_is_never_removed; DELETE FROM event WHERE seq = 4",
        expect![[r#"
            events 4 to 4 are missing
            event 5, `built`, is not what it was sealed as
            the table `episode` does not follow from the events"#]],
    );
    check(
        "DROP TRIGGER event_is_never_changed; UPDATE event SET at = 0 WHERE seq = 9",
        expect!["event 9, `skill`, is not what it was sealed as"],
    );
    check(
        "UPDATE episode SET outcome = 'solved' WHERE rowid = 1",
        expect!["the table `episode` does not follow from the events"],
    );
    check("UPDATE skill SET skill = skill", expect![""]);
}

#[test]
fn a_record_that_is_missing_from_the_blobs_is_told() {
    let (_folder, record) = filled();
    let row = &record.episodes().unwrap()[1];
    std::fs::remove_file(record.blobs().path(&row.record)).unwrap();
    let audit = record.audit(true).unwrap();
    assert_eq!((audit.events, audit.blobs, audit.faults.len()), (9, 3, 1), "{:?}", audit.faults);
    assert!(audit.faults[0].starts_with("the record of event 3: the blob sha256:"), "{:?}", audit.faults);
    assert_eq!(record.audit(false).unwrap().faults, Vec::<String>::new());
}

#[test]
fn who_reads_sees_a_run_that_is_worked_on_and_changes_nothing() {
    let (folder, record) = filled();
    let reader = RunRecord::read(folder.path()).unwrap();
    assert_eq!(reader.episodes().unwrap(), record.episodes().unwrap());
    let error = reader.end_phase(2, "diagnosis", &1).unwrap_err().to_string();
    assert!(error.contains("readonly"), "{error}");
    // A reader in the middle of a long look does not hold the writer up.
    let connection = reader.connection();
    connection.execute_batch("BEGIN; SELECT COUNT(*) FROM event").unwrap();
    record.end_phase(2, "diagnosis", &1).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    drop(connection);
    assert_eq!(reader.phase::<u64>(2, "diagnosis").unwrap(), Some(1));
    assert_eq!(reader.events(9, 10).unwrap().len(), 1);
}

/// What the program of layout 2 made.
const LAYOUT_2: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema', '2');
CREATE TABLE episode (id TEXT PRIMARY KEY, round INTEGER NOT NULL, arm TEXT NOT NULL, task TEXT NOT NULL,
    group_key TEXT NOT NULL, policy_version INTEGER NOT NULL, harness TEXT NOT NULL, outcome TEXT NOT NULL,
    exit TEXT NOT NULL, turns INTEGER NOT NULL, sampled_tokens INTEGER NOT NULL, effects INTEGER NOT NULL,
    faults INTEGER NOT NULL, seconds REAL NOT NULL, record TEXT NOT NULL);
CREATE INDEX episode_by_arm ON episode (round, arm);
CREATE TABLE publication (seq INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL,
    digest TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE source (plugin TEXT PRIMARY KEY, source TEXT NOT NULL, language TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE phase (round INTEGER NOT NULL, name TEXT NOT NULL, report TEXT NOT NULL, PRIMARY KEY (round, name));
CREATE TABLE exchange (seq INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL, role TEXT NOT NULL,
    kind TEXT NOT NULL, model TEXT NOT NULL, request TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    reply TEXT, prompt_tokens INTEGER NOT NULL, reply_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL,
    cost REAL NOT NULL, seconds REAL NOT NULL);
CREATE INDEX exchange_by_place ON exchange (place);
CREATE TABLE skill (digest TEXT NOT NULL, task TEXT NOT NULL, place TEXT NOT NULL, skill TEXT NOT NULL,
    PRIMARY KEY (digest, task));
INSERT INTO publication (round, digest, reason) VALUES (0, 'DIGEST', 'the first harness'), (1, 'DIGEST', 'again');
INSERT INTO source VALUES ('DIGEST', 'DIGEST', 'rust', 'hold');
INSERT INTO phase VALUES (1, 'update', '{\"loss\":0.1,\"b\": 2}');
INSERT INTO episode VALUES ('r1/z/0', 1, 'collect', 'z', 'r1/z', 3, 'DIGEST', 'solved', 'submitted', 2, 9, 1, 0, 0.7, 'DIGEST'),
    ('r1/a/0', 1, 'collect', 'a', 'r1/a', 3, 'DIGEST', 'invalid:policy', 'failed:policy', 0, 0, 0, 0, 0.3, 'DIGEST');
INSERT INTO exchange (place, role, kind, model, request, outcome, reason, reply, prompt_tokens, reply_tokens,
    estimated, cost, seconds) VALUES
    ('p0', 'harness', 'openai', 'm', 'DIGEST', 'answered', '', 'DIGEST', 10, 20, 0, 0.5, 1.5),
    ('p1', 'harness', 'openai', 'm', 'DIGEST', 'cut-off', 'the program ended before the reply was there', NULL, 30, 40, 1, 0.7, 0),
    ('p2', 'skill', 'openai', 'm', 'DIGEST', 'begun', '', NULL, 50, 60, 1, 0.9, 0);
INSERT INTO skill VALUES ('DIGEST', 'a', 'p2', '{\"task\":\"a\",\"mechanism\":\"m\",\"check\":\"c\",\"text\":\"t\"}');
";

fn layout_2() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let statements = LAYOUT_2.replace("DIGEST", &Digest::of(b"t").to_string());
    Connection::open(folder.path().join("run.sqlite")).unwrap().execute_batch(&statements).unwrap();
    folder
}

#[test]
fn a_record_of_layout_2_is_upgraded_and_nothing_is_lost() {
    let folder = layout_2();
    let old = Connection::open(folder.path().join("run.sqlite")).unwrap();
    let dump = |connection: &Connection, columns: &str, table: &str| {
        let mut statement =
            connection.prepare(&format!("SELECT {columns} FROM {table} ORDER BY rowid")).unwrap();
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            Ok((0..count)
                .map(|at| format!("{:?}", row.get::<_, rusqlite::types::Value>(at).unwrap()))
                .collect())
        });
        rows.unwrap().collect::<Result<Vec<Vec<String>>, _>>().unwrap()
    };
    let episode = "id, round, arm, task, group_key, policy_version, harness, outcome, exit, turns, \
                   sampled_tokens, effects, faults, seconds, record";
    let exchange = "place, role, kind, model, request, outcome, reason, reply, prompt_tokens, reply_tokens, \
                    estimated, cost, seconds";
    let parts = [
        (episode, "episode"),
        (exchange, "exchange"),
        ("round, digest, reason", "publication"),
        ("*", "source"),
        ("*", "phase"),
        ("*", "skill"),
    ];
    let all = |connection: &Connection| parts.map(|(columns, table)| dump(connection, columns, table));
    let before = all(&old);
    drop(old);
    // Reading alone upgrades it, when nobody works on the run.
    let lock = super::RunLock::take(folder.path(), std::time::Duration::ZERO).unwrap();
    let error = format!("{:#}", RunRecord::read(folder.path()).err().unwrap());
    assert!(
        error.contains("of another program version") && error.contains("another program works on"),
        "{error}"
    );
    drop(lock);
    let record = RunRecord::read(folder.path()).unwrap();
    assert_eq!(all(&record.connection()), before);
    assert_eq!(record.audit(false).unwrap().faults, Vec::<String>::new());
    drop(record);
    let record = RunRecord::open(folder.path()).unwrap();
    assert_eq!(all(&record.connection()), before);
    record.rebuild().unwrap();
    assert_eq!(all(&record.connection()), before);
    // What was begun and never ended is cut off, as before.
    let log: &dyn crate::evolve::teacher::ExchangeLog = &record;
    assert!(log.answered("p2").unwrap().is_none());
    assert_eq!(record.exchanges().unwrap()[2].outcome, "cut-off");
}

#[test]
fn a_record_of_another_layout_is_refused_by_name() {
    let folder = layout_2();
    let connection = Connection::open(folder.path().join("run.sqlite")).unwrap();
    connection.execute_batch("UPDATE meta SET value = '9'").unwrap();
    let error = RunRecord::open(folder.path()).err().unwrap().to_string();
    expect![[r#"
        the run record DIR/run.sqlite has layout 9, and this program reads the layouts 2 and 3
        help: use the program version that wrote it"#]]
    .assert_eq(&error.replace(&folder.path().display().to_string(), "DIR"));
}

#[test]
fn what_was_taken_back_is_no_part_of_the_harness_that_is_left() {
    let check = |published: &[&str], expected: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::open(folder.path()).unwrap();
        let digest = |name: &&str| Digest::of(name.as_bytes());
        for (round, name) in published.iter().enumerate() {
            let publication = Publication { round: round as u32, digest: digest(name), reason: "x".into() };
            record.publish(&publication).unwrap();
        }
        let expected: Vec<_> = expected.iter().map(digest).collect();
        assert_eq!(record.ancestry().unwrap(), expected, "{published:?}");
    };
    check(&[], &[]);
    check(&["a", "b", "c"], &["a", "b", "c"]);
    check(&["a", "b", "c", "a"], &["a"]);
    check(&["a", "b", "c", "b", "d"], &["a", "b", "d"]);
}
