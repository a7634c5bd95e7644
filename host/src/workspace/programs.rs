//! Where does a program of the host lie?

use std::path::PathBuf;

/// The first file of that name in `PATH` or the usual folders, with its whole path.
///
/// Name programs so when starting them with an environment of their own: the standard library
/// starts a program that it must search for by `fork`, which copies the page tables of the whole
/// process. Where a GPU is mapped that takes tens of milliseconds, and every thread waits.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).chain(usual);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
