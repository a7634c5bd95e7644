//! How do files of a workspace become what the task has again, whatever a patch made of them?
//!
//! The host does it between two commands, when no process of the workspace runs, and
//! follows no link that lies there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::beneath::Beneath;
use super::error::Error;
use super::snapshot::Snapshot;
use super::tree::in_background;
use super::workspace::Workspace;

/// What of a repository decides what git runs.
const GIT_PARTS: [&str; 3] = [".git/config", ".git/hooks", ".git/info"];

impl Workspace {
    /// Puts back every file for which `guarded` is true, given its path and whether the
    /// task has it: one of the task becomes what it was, another goes. So does what the
    /// repository is set up to run. No command may run meanwhile. Gives back the paths of
    /// files that were different, sorted.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub async fn put_back(
        &self,
        guarded: impl Fn(&Path, bool) -> bool + Send + 'static,
    ) -> Result<Vec<PathBuf>, Error> {
        let (beneath, owner) = (self.beneath(), self.owner());
        let (tree, snapshot) = (self.host_tree().to_owned(), self.snapshot());
        in_background(move || {
            let act = |_: &Beneath| -> Result<Vec<PathBuf>, Error> {
                let mut work = PutBack { tree: &tree, snapshot: &snapshot, changed: BTreeSet::new() };
                work.repository()?;
                work.remove_new(&guarded)?;
                work.restore(&guarded)?;
                Ok(work.changed.into_iter().collect())
            };
            beneath.acting_as(owner, act)
        })
        .await
    }
}

struct PutBack<'a> {
    tree: &'a Path,
    snapshot: &'a Arc<Snapshot>,
    changed: BTreeSet<PathBuf>,
}

impl PutBack<'_> {
    /// Files that the task does not have.
    fn remove_new(&mut self, guarded: &impl Fn(&Path, bool) -> bool) -> Result<(), Error> {
        let snapshot = self.snapshot;
        let tracked = snapshot.tracked();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let full = self.tree.join(&folder);
            for entry in fs::read_dir(&full).map_err(Error::io("reading", &full))? {
                let entry = entry.map_err(Error::io("reading", &full))?;
                let name = folder.join(entry.file_name());
                if name.as_os_str() == ".git" {
                    continue;
                }
                if entry.file_type().map_err(Error::io("reading", &full))?.is_dir() {
                    folders.push(name);
                } else if !tracked.contains(&name) && guarded(&name, false) {
                    remove(&self.tree.join(&name))?;
                    self.changed.insert(name);
                }
            }
        }
        Ok(())
    }

    /// Files that the task has.
    fn restore(&mut self, guarded: &impl Fn(&Path, bool) -> bool) -> Result<(), Error> {
        let snapshot = self.snapshot;
        for name in snapshot.tracked().iter().filter(|name| guarded(name, true)) {
            let (from, to) = (self.snapshot.tree().join(name), self.tree.join(name));
            if self.parents_are_folders(name) && same(&from, &to) {
                continue;
            }
            self.make_parents(name)?;
            remove(&to)?;
            copy(&from, &to)?;
            self.changed.insert(name.clone());
        }
        Ok(())
    }

    fn repository(&mut self) -> Result<(), Error> {
        if !self.parents_are_folders(Path::new(".git/config")) {
            return Ok(());
        }
        for part in GIT_PARTS {
            let (from, to) = (self.snapshot.agent_repository().join(part), self.tree.join(part));
            if same(&from, &to) {
                continue;
            }
            remove(&to)?;
            copy(&from, &to)?;
        }
        Ok(())
    }

    /// Whether nothing but folders lies above a path.
    fn parents_are_folders(&self, name: &Path) -> bool {
        let mut parents = name.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        parents.all(|above| fs::symlink_metadata(self.tree.join(above)).is_ok_and(|meta| meta.is_dir()))
    }

    fn make_parents(&mut self, name: &Path) -> Result<(), Error> {
        let mut above = PathBuf::new();
        for part in name.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { continue };
            above.push(part);
            let full = self.tree.join(&above);
            if fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            remove(&full)?;
            fs::create_dir(&full).map_err(Error::io("making", &full))?;
            self.changed.insert(above.clone());
        }
        Ok(())
    }
}

/// Whether two paths hold the same: a link, a file with its mode, a folder of such, or nothing.
fn same(left: &Path, right: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let (left_meta, right_meta) = match (fs::symlink_metadata(left), fs::symlink_metadata(right)) {
        (Ok(left), Ok(right)) => (left, right),
        (left, right) => return left.is_err() && right.is_err(),
    };
    if left_meta.is_symlink() || right_meta.is_symlink() {
        return fs::read_link(left).is_ok_and(|left| fs::read_link(right).is_ok_and(|right| left == right));
    }
    if left_meta.is_dir() && right_meta.is_dir() {
        let names = |folder: &Path| -> Option<BTreeSet<_>> {
            fs::read_dir(folder).ok()?.map(|entry| Some(entry.ok()?.file_name())).collect()
        };
        let (left_names, right_names) = (names(left), names(right));
        return left_names == right_names
            && left_names
                .is_some_and(|names| names.iter().all(|name| same(&left.join(name), &right.join(name))));
    }
    let mode = |meta: &fs::Metadata| meta.permissions().mode() & 0o100;
    left_meta.is_file()
        && right_meta.is_file()
        && mode(&left_meta) == mode(&right_meta)
        && left_meta.len() == right_meta.len()
        && fs::read(left).is_ok_and(|left| fs::read(right).is_ok_and(|right| left == right))
}

/// Removes what lies at a path, a link itself and not what it names.
fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("removing", path)(error)),
        _ => Ok(()),
    }
}

/// Copies a link, a file, a folder, or nothing where nothing is.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    if meta.is_symlink() {
        let target = fs::read_link(from).map_err(Error::io("reading", from))?;
        return std::os::unix::fs::symlink(target, to).map_err(Error::io("making", to));
    }
    if meta.is_dir() {
        fs::create_dir(to).map_err(Error::io("making", to))?;
        for entry in fs::read_dir(from).map_err(Error::io("reading", from))? {
            let name = entry.map_err(Error::io("reading", from))?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(Error::io("copying", from))
}
