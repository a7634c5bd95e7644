//! How does a folder appear on disk whole, or not at all?

use std::fs::File;
use std::path::Path;

use super::CheckpointError;
use super::moments::moment;

/// Makes the folder `target` with what `fill` writes into the folder that it is given.
///
/// The files are written beside the target, flushed to the disk, and the folder is then renamed:
/// whoever is killed, at whatever moment, leaves either no folder `target` or a complete one.
pub(crate) fn write_folder<E: From<CheckpointError>>(
    target: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if target.exists() {
        return Err(CheckpointError::Exists { path: target.to_owned() }.into());
    }
    moment("checkpoint-begun");
    let parent = match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent).map_err(CheckpointError::io(parent))?;
    let temporary = tempfile::Builder::new()
        .prefix(".incomplete-")
        .tempdir_in(parent)
        .map_err(CheckpointError::io(parent))?;
    fill(temporary.path())?;
    publish(temporary, target, parent)?;
    Ok(())
}

fn publish(temporary: tempfile::TempDir, target: &Path, parent: &Path) -> Result<(), CheckpointError> {
    let path = temporary.path();
    for entry in std::fs::read_dir(path).map_err(CheckpointError::io(path))? {
        let file = entry.map_err(CheckpointError::io(path))?.path();
        share(&file, 0o644)?;
        sync(&file)?;
    }
    share(path, 0o755)?;
    sync(path)?;
    moment("checkpoint-written");
    std::fs::rename(path, target).map_err(|source| match source.kind() {
        std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::AlreadyExists => {
            CheckpointError::Exists { path: target.to_owned() }
        }
        _ => CheckpointError::Io { path: target.to_owned(), source },
    })?;
    // The folder has another name now: there is nothing left to remove.
    let _ = temporary.keep();
    moment("checkpoint-renamed");
    sync(parent)
}

/// Flushes a file's data, or a folder's entries, to the disk.
fn sync(path: &Path) -> Result<(), CheckpointError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(CheckpointError::io(path))
}

/// Temporary files and folders are private to their owner; a checkpoint is not.
fn share(path: &Path, mode: u32) -> Result<(), CheckpointError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(CheckpointError::io(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("one");
        let result: Result<(), CheckpointError> = write_folder(&target, |folder| {
            std::fs::write(folder.join("half"), "x").map_err(CheckpointError::io(folder))?;
            Err(CheckpointError::NoAdapter)
        });
        assert!(matches!(result, Err(CheckpointError::NoAdapter)));
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn a_folder_is_never_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("deep/one");
        let write = |text: &str| -> Result<(), CheckpointError> {
            write_folder(&target, |folder| {
                let file = tempfile::NamedTempFile::new_in(folder).map_err(CheckpointError::io(folder))?;
                std::fs::write(file.path(), text).map_err(CheckpointError::io(folder))?;
                file.persist(folder.join("file"))
                    .map_err(|error| error.error)
                    .map_err(CheckpointError::io(folder))?;
                Ok(())
            })
        };
        write("first").unwrap();
        assert!(matches!(write("second"), Err(CheckpointError::Exists { .. })));
        assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "first");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&target), mode(&target.join("file"))), (0o755, 0o644));
        }
        assert_eq!(names(&root.path().join("deep")), ["one"]);
    }
}
