//! The store's own directory: a pinned handle, opened without following links.
//!
//! Every file of the store is reached through a directory handle taken once, so a renamed or replaced
//! store path cannot redirect a later write. Files are 0600 and directories 0700: a store holds the
//! content of private files.
//!
//! Temporary files live in `hedgerow/tmp/<run>/`, a directory whose handle its owner keeps locked
//! (`flock`). The kernel drops the lock when the owner dies, in any pid namespace and over a reboot, so
//! "nobody holds the lock" means "left behind by a dead run" without guessing from process ids, and
//! without a name git would take for its own garbage. Nothing is ever removed by its name alone.

use crate::core::error::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of the store, held open.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

const DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Dir {
    /// Opens the directory of a store, making it and its parents (0700) if `create`.
    ///
    /// # Errors
    /// `directory-not-found` without `create`; `permission-denied` if the directory is a link or belongs
    /// to somebody else: what stands in it could not be trusted.
    pub(crate) fn open_root(path: &Path, create: bool) -> Result<Self> {
        // Normalised, because a trailing slash would make the kernel follow a final link.
        let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        let opened = match rustix::fs::open(&path, DIR_FLAGS, Mode::empty()) {
            Err(Errno::NOENT) if create => {
                make_with_parents(&path)?;
                rustix::fs::open(&path, DIR_FLAGS, Mode::empty())
            }
            other => other,
        };
        let dir = match opened {
            Ok(fd) => Dir(fd),
            Err(Errno::NOENT) => return Err(Error::new(ErrorKind::DirectoryNotFound, "there is no store directory")),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(Error::new(ErrorKind::PermissionDenied, "the store is not a plain directory"));
            }
            Err(error) => return Err(Error::os(error, "opening the store directory")),
        };
        let stat = rustix::fs::fstat(&dir).map_err(|error| Error::os(error, "examining the store directory"))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Error::new(ErrorKind::PermissionDenied, "the store directory belongs to another user"));
        }
        Ok(dir)
    }

    /// Refuses a directory others can write to.
    pub(crate) fn require_private(&self) -> Result<()> {
        let stat = rustix::fs::fstat(self).map_err(|error| Error::os(error, "examining the store directory"))?;
        if stat.st_mode & 0o022 != 0 {
            return Err(Error::new(ErrorKind::PermissionDenied, "the store directory can be written by other users"));
        }
        Ok(())
    }

    /// Opens the directory of a file of the store and returns it with the file's name.
    pub(crate) fn of_file(path: &Path) -> Result<(Self, String)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "not the name of a file"))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match rustix::fs::open(parent, DIR_FLAGS, Mode::empty()) {
            Ok(fd) => Ok((Dir(fd), name.to_owned())),
            Err(error) => Err(Error::os(error, "opening a directory of the store")),
        }
    }

    /// Takes every right from group and others.
    pub(crate) fn protect(&self) -> Result<()> {
        let stat = rustix::fs::fstat(self).map_err(|error| Error::os(error, "examining the store directory"))?;
        if stat.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(self, Mode::RWXU).map_err(|error| Error::os(error, "protecting the store directory"))?;
        }
        Ok(())
    }

    /// Opens a directory below this one, making it if `create`.
    pub(crate) fn sub(&self, name: &str, create: bool) -> Result<Self> {
        match self.try_sub(name) {
            Ok(Some(dir)) => Ok(dir),
            Ok(None) if create => {
                self.make_dir(name)?;
                self.try_sub(name)?.ok_or_else(|| Error::os(Errno::NOENT, "opening a directory of the store"))
            }
            Ok(None) => Err(Error::new(ErrorKind::StoreCorrupt, format!("the store has no directory {name}"))),
            Err(error) => Err(error),
        }
    }

    /// Opens a directory below this one, or returns `None` if there is none.
    pub(crate) fn try_sub(&self, name: &str) -> Result<Option<Self>> {
        match rustix::fs::openat(self, name, DIR_FLAGS, Mode::empty()) {
            Ok(fd) => Ok(Some(Dir(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::os(error, "opening a directory of the store")),
        }
    }

    /// Opens a directory several levels below, going through no link, or returns `None` if there is none.
    pub(crate) fn try_sub_path(&self, path: &str) -> Result<Option<Self>> {
        let mut dir: Option<Self> = None;
        for part in path.split('/') {
            let Some(next) = dir.as_ref().unwrap_or(self).try_sub(part)? else { return Ok(None) };
            dir = Some(next);
        }
        Ok(dir)
    }

    /// Reads a small file several levels below, going through no link.
    pub(crate) fn read_path(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>> {
        match path.rsplit_once('/') {
            Some((dir, name)) => self.try_sub_path(dir)?.map_or(Ok(None), |dir| dir.read(name, max)),
            None => self.read(path, max),
        }
    }

    /// Tells whether a name stands for a known file.
    pub(crate) fn is_same_file(&self, name: &str, device: u64, inode: u64) -> bool {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| stat.st_dev == device && stat.st_ino == inode)
    }

    /// Returns how long ago an entry was changed.
    pub(crate) fn age(&self, name: &str) -> Option<std::time::Duration> {
        let stat = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Some(std::time::Duration::from_secs(u64::try_from(now.tv_sec.saturating_sub(stat.st_mtime)).ok()?))
    }

    /// Makes a directory; one that exists already is fine.
    pub(crate) fn make_dir(&self, name: &str) -> Result<()> {
        match rustix::fs::mkdirat(self, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(Error::os(error, "making a directory of the store")),
        }
    }

    /// Opens a file for reading, or returns `None` if there is none.
    pub(crate) fn open(&self, name: &str) -> Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match rustix::fs::openat(self, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::os(error, "opening a file of the store")),
        }
    }

    /// Opens a file for reading and writing, making it (0600) if it is missing.
    pub(crate) fn open_write(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(self, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| Error::os(error, "opening a file of the store"))?;
        Ok(File::from(fd))
    }

    /// Makes a file that must not exist yet.
    pub(crate) fn create_new(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Reads a small file, or returns `None` if there is none.
    pub(crate) fn read(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>> {
        use std::io::Read;
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut limited = (&file).take(max + 1);
        limited.read_to_end(&mut bytes).map_err(|error| Error::io(&error, "reading a file of the store"))?;
        if bytes.len() as u64 > max {
            return Err(Error::new(ErrorKind::StoreCorrupt, "a file of the store is larger than it can be"));
        }
        Ok(Some(bytes))
    }

    /// Tells whether an entry is there.
    pub(crate) fn exists(&self, name: &str) -> bool {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Moves `name` here to `to_name` in `to`, replacing what is there.
    pub(crate) fn rename(&self, name: &str, to: &Dir, to_name: &str) -> Result<(), Errno> {
        rustix::fs::renameat(self, name, to, to_name)
    }

    /// Gives `name` here the second name `to_name` in `to`, which must be free.
    pub(crate) fn link(&self, name: &str, to: &Dir, to_name: &str) -> Result<(), Errno> {
        rustix::fs::linkat(self, name, to, to_name, AtFlags::empty())
    }

    /// Removes a file; one that is gone already is fine.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(self, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(Error::os(error, "removing a file of the store")),
        }
    }

    /// Removes an empty directory and tells whether it is gone now.
    pub(crate) fn remove_dir(&self, name: &str) -> bool {
        matches!(rustix::fs::unlinkat(self, name, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT))
    }

    /// Lists the names that are UTF-8, unsorted; the store makes no others.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let failed = |error| Error::os(error, "listing a directory of the store");
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Makes the entries of this directory survive a power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(self).map_err(|error| Error::os(error, "flushing a directory of the store"))
    }

    /// Writes a small file at once: readers see nothing or all of it. The first of several writers wins.
    pub(crate) fn publish_first(&self, name: &str, bytes: &[u8], scratch: &Scratch) -> Result<()> {
        let temp = scratch.file()?;
        write_all(&temp.file, bytes, "writing a file of the store")?;
        match scratch.dir.link(&temp.name, self, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            // File systems without hard links: a rename replaces, which is harmless for equal bytes.
            Err(_) => temp.publish(self, name),
        }
    }
}

fn make_with_parents(path: &Path) -> Result<()> {
    let failed = |error| Error::os(error, "making the store directory");
    match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                make_with_parents(parent)?;
                match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(error) => Err(failed(error)),
                }
            }
            _ => Err(failed(Errno::NOENT)),
        },
        Err(error) => Err(failed(error)),
    }
}

/// Writes all bytes at the present position.
pub(crate) fn write_all(mut file: &File, bytes: &[u8], doing: &str) -> Result<()> {
    use std::io::Write;
    file.write_all(bytes).map_err(|error| Error::io(&error, doing))
}

/// Makes the data of a file survive a power loss.
pub(crate) fn sync_file(file: &File) -> Result<()> {
    rustix::fs::fdatasync(file).map_err(|error| Error::os(error, "flushing a file of the store"))
}

/// The directory for temporary files of one open store, locked as long as it is in use.
#[derive(Debug)]
pub(crate) struct Scratch {
    parent: Dir,
    name: String,
    pub(crate) dir: Dir,
    next: AtomicU64,
    owner: u32,
}

impl Scratch {
    /// Makes a locked directory below `parent`.
    pub(crate) fn create(parent: Dir) -> Result<Self> {
        let pid = std::process::id();
        for attempt in 0_u32..10_000 {
            let name = format!("{pid}-{attempt}");
            match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(Error::os(error, "making a directory for temporary files")),
            }
            // A sweep by another process may come between making and locking it; then the lock is
            // taken or the directory gone, and the next name is tried.
            let dir = match parent.try_sub(&name) {
                Ok(Some(dir)) => dir,
                Ok(None) => continue,
                Err(error) => {
                    parent.remove_dir(&name);
                    return Err(error);
                }
            };
            // Any other error: without locks nothing can be swept either, see `sweep`.
            let taken = rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            if taken || !parent.exists(&name) {
                continue;
            }
            return Ok(Scratch { parent, name, dir, next: AtomicU64::new(0), owner: pid });
        }
        Err(Error::new(ErrorKind::Io, "cannot make a directory for temporary files"))
    }

    /// Makes an empty temporary file; it is removed again unless published.
    pub(crate) fn file(&self) -> Result<Temp<'_>> {
        loop {
            // The process id is part of the name because a forked child shares this directory.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            match self.dir.create_new(&name) {
                Ok(file) => return Ok(Temp { scratch: self, name, file, published: false }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::os(error, "making a temporary file")),
            }
        }
    }

    /// Removes what dead runs left below `parent`; best effort.
    pub(crate) fn sweep(parent: &Dir) {
        let Ok(names) = parent.list() else { return };
        for name in names {
            let Ok(Some(dir)) = parent.try_sub(&name) else { continue };
            if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let removed = dir.list().is_ok_and(|files| files.iter().all(|file| dir.remove(file).is_ok()));
            if removed {
                parent.remove_dir(&name);
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A forked child must not pull the directory from under its parent.
        if self.owner == std::process::id() {
            self.parent.remove_dir(&self.name);
        }
    }
}

/// A temporary file, removed when dropped.
#[derive(Debug)]
pub(crate) struct Temp<'a> {
    scratch: &'a Scratch,
    pub(crate) name: String,
    pub(crate) file: File,
    published: bool,
}

impl Temp<'_> {
    /// Moves the file to its place, replacing what is there.
    pub(crate) fn publish(mut self, to: &Dir, name: &str) -> Result<()> {
        self.scratch
            .dir
            .rename(&self.name, to, name)
            .map_err(|error| Error::os(error, "putting a file of the store in place"))?;
        self.published = true;
        Ok(())
    }

    /// Gives up ownership: the caller removes or publishes `name` itself.
    pub(crate) fn into_parts(mut self) -> Result<(String, File)> {
        let file = self.file.try_clone().map_err(|error| Error::io(&error, "keeping a temporary file"))?;
        self.published = true;
        Ok((std::mem::take(&mut self.name), file))
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.published && self.scratch.dir.remove(&self.name).is_err() {
            // The sweep of a later run removes it.
        }
    }
}
