//! Does a pool of repair tasks survive kills, and is it the same each time?

mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use program::{Program, root};

/// The command on the small package of the tests; the archive is made where it is missing.
fn mutate(out: &Path, jobs: usize) -> Program {
    let made = Command::new(root().join("scripts/pytest_zip.sh")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let archive = String::from_utf8(made.stdout).unwrap();
    let line = format!(
        "tasks mutate host/tests/data/mutate/shop-1.0 --out {} --python {} --limit 40 --per-function 2 --jobs {jobs}",
        out.display(),
        archive.trim()
    );
    Program::new(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

/// Every file of every task by its path in the pool.
fn files(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = ["train", "gate", "hold-out"].map(|split| out.join(split)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(out).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Starts the command and kills it as soon as `reached` holds; false where it ended before.
fn kill_when(out: &Path, reached: impl Fn() -> bool) -> bool {
    let mut running = mutate(out, 1).spawn();
    let end = Instant::now() + Duration::from_secs(300);
    while Instant::now() < end {
        if reached() {
            running.kill();
            return true;
        }
        if running.wait_at_most(Duration::from_millis(1)) {
            return false;
        }
    }
    panic!("neither a task nor an end in five minutes");
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_pool_is_the_same_whatever_killed_its_making() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, torn) = (folder.path().join("whole"), folder.path().join("torn"));
    let output = mutate(&whole, 2).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let expected = files(&whole);
    let texts = expected.iter().filter(|(path, _)| path.ends_with("instruction.md"));
    let texts: Vec<_> = texts.map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
    assert!((10..40).contains(&texts.len()), "{}", output.stdout);
    assert!(texts.iter().any(|text| text.contains("letters")), "no text shows a set, which has no order");

    let suite = torn.join("state/shop.suite.json");
    assert!(kill_when(&torn, || suite.exists()), "it ended before its tests were run");
    let unverified = torn.join("state/new");
    assert!(kill_when(&torn, || entries(&unverified) > 0), "it ended before a task was written");
    let published = || ["train", "gate", "hold-out"].iter().any(|split| entries(&torn.join(split)) > 0);
    assert!(kill_when(&torn, published), "it ended before a task was published");
    let output = mutate(&torn, 1).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let found = files(&torn);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, bytes) in expected {
        assert!(found[&path] == bytes, "{} is not the same", path.display());
    }
    assert_eq!(entries(&unverified), 0, "what was not verified is gone");
}
