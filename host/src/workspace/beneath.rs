//! How is a file of a workspace opened without ever leaving the workspace?
//!
//! The kernel resolves each path below the workspace's folder (`openat2` with
//! `RESOLVE_BENEATH`): `..`, absolute paths and links that lead out fail in the
//! same step that opens the file, so nothing can be swapped in between.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// A folder below which paths are opened.
#[derive(Debug)]
pub(crate) struct Beneath {
    folder: OwnedFd,
    /// What the kernel refuses beside paths that lead out.
    refused: u64,
}

impl Beneath {
    /// Opens the folder itself; this path is the host's own and trusted.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { folder: File::open(folder)?.into(), refused: 0 })
    }

    /// As [`Beneath::open`], for a folder in which a link may lead to what is not for its readers: no link in a
    /// path is followed, not even inside the folder.
    pub(crate) fn open_without_links(folder: &Path) -> io::Result<Self> {
        Ok(Self { refused: libc::RESOLVE_NO_SYMLINKS, ..Self::open(folder)? })
    }

    /// A file or folder to read. Never blocks on a pipe.
    pub(crate) fn read(&self, path: &str) -> io::Result<File> {
        self.open_at(path, libc::O_RDONLY | libc::O_NONBLOCK, 0)
    }

    /// A file to write, made if it is not there, cut to nothing if it is.
    pub(crate) fn create(&self, path: &str) -> io::Result<File> {
        // Without O_TRUNC: what is opened is checked to be a plain file first.
        let file = self.open_at(path, libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK, 0o644)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        file.set_len(0)?;
        Ok(file)
    }

    /// Makes a folder whose parent exists; no error if it is there.
    pub(crate) fn make_folder(&self, path: &str) -> io::Result<()> {
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (parent, name),
            None => (".", path),
        };
        let parent = self.open_at(parent, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let name = CString::new(name)?;
        // SAFETY: an open folder and a zero-terminated name without a slash.
        let made = unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), 0o755) };
        let error = io::Error::last_os_error();
        match made {
            0 => Ok(()),
            _ if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        }
    }

    /// Does the work of `action` as another user of the host, as far as files
    /// are concerned, so that what it makes belongs to that user.
    pub(crate) fn acting_as<T>(&self, user: Option<u32>, action: impl FnOnce(&Self) -> T) -> T {
        let _acting = user.map(ActingAs::new);
        action(self)
    }

    fn open_at(&self, path: &str, flags: i32, mode: u64) -> io::Result<File> {
        let path = CString::new(if path.is_empty() { "." } else { path })?;
        // SAFETY: all-zero is a valid `open_how`.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (flags | libc::O_CLOEXEC | libc::O_NOCTTY) as u64;
        how.mode = mode;
        how.resolve =
            libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_XDEV | self.refused;
        loop {
            // SAFETY: an open folder, a zero-terminated path, and a struct of the size told.
            let fd = unsafe {
                libc::syscall(
                    libc::SYS_openat2,
                    self.folder.as_raw_fd(),
                    path.as_ptr(),
                    &raw const how,
                    size_of::<libc::open_how>(),
                )
            };
            if fd >= 0 {
                // SAFETY: the kernel just gave this descriptor to us alone.
                return Ok(unsafe { File::from_raw_fd(fd as i32) });
            }
            let error = io::Error::last_os_error();
            // EAGAIN: something above the path was renamed meanwhile; the kernel asks to try again.
            if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) {
                return Err(error);
            }
        }
    }
}

/// The file-system user of this thread alone, until it is dropped.
struct ActingAs {
    user: libc::c_int,
    group: libc::c_int,
}

impl ActingAs {
    fn new(user: u32) -> Self {
        // SAFETY: both calls change numbers of this thread only, and cannot fail in a way that
        // gives more rights: a refused one leaves the thread as it was.
        unsafe { Self { group: libc::setfsgid(user), user: libc::setfsuid(user) } }
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        // SAFETY: as above, back to what they were.
        unsafe {
            libc::setfsuid(self.user as libc::uid_t);
            libc::setfsgid(self.group as libc::gid_t);
        }
    }
}
