//! Removing a tree: names on handles, depth without recursion, a bounded number of handles.
//!
//! Invariants: a directory is entered by a name that is not followed, and only on the mount it stands
//! on; nothing but entries of directories entered so is removed. A tree may be deeper than a path can
//! name and than there are descriptors: far ancestors are let go and found again by `..`, which is
//! believed only if it leads to the inode we came from.

use super::handle::{Stat, read_entries};
use super::place::{Place, chmod_handle};
use super::sys;
use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::Name;
use crate::core::tree::Kind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Handles kept open on the way down.
const MAX_OPEN: usize = 32;
/// Rounds through a directory that others keep filling.
const MAX_ROUNDS: usize = 64;

struct Level {
    name: Name,
    /// `None` once it was let go.
    fd: Option<OwnedFd>,
    stat: Stat,
    entries: Vec<(Name, Option<Kind>)>,
    rounds: usize,
}

/// Removes the directory at `place` with everything in it.
pub(super) fn remove(place: &Place, work: &Work) -> Result<()> {
    Removal { place, work, levels: Vec::new() }.run().map_err(|error| error.at(&place.path()))
}

struct Removal<'a> {
    place: &'a Place,
    work: &'a Work,
    levels: Vec<Level>,
}

enum Entered {
    Yes,
    /// Gone, or something else than a directory by now.
    No,
}

impl Removal<'_> {
    fn run(&mut self) -> Result<()> {
        let name = self.place.name().clone();
        if let Entered::No = self.enter(name)? {
            return self.place.remove_file();
        }
        while let Some(level) = self.levels.last_mut() {
            self.work.check()?;
            match level.entries.pop() {
                Some((name, Some(Kind::Directory))) => {
                    if let Entered::No = self.enter(name.clone())? {
                        self.unlink(name)?;
                    }
                }
                Some((name, _)) => self.unlink(name)?,
                None => self.leave()?,
            }
        }
        Ok(())
    }

    fn parent(&self) -> BorrowedFd<'_> {
        match self.levels.last() {
            Some(Level { fd: Some(fd), .. }) => fd.as_fd(),
            _ => self.place.dir().fd(),
        }
    }

    /// Opens a directory on the mount of its parent and lists it.
    fn enter(&mut self, name: Name) -> Result<Entered> {
        let fail = |errno| Error::os(errno, "removing");
        let handle = match open_on_mount(self.parent(), name.as_bytes()) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Entered::No),
            Err(Errno::XDEV) => {
                return Err(Error::new(ErrorKind::NotSupported, "another file system is mounted in the directory"));
            }
            Err(errno) => return Err(fail(errno)),
        };
        let stat = sys::fstat(handle.as_fd()).map_err(fail)?;
        // The owner may always look into and empty his directory; what stands in the way is only its mode.
        if stat.mode & 0o700 != 0o700 {
            sys::best_effort(chmod_handle(
                self.parent(),
                name.as_bytes(),
                handle.as_fd(),
                &stat,
                (stat.mode & 0o777) | 0o700,
            ));
        }
        let fd = sys::open_leaf(handle.as_fd(), b".", sys::READ | OFlags::DIRECTORY).map_err(fail)?;
        drop(handle);
        let entries = list(fd.as_fd()).map_err(fail)?;
        if self.levels.len() >= MAX_OPEN {
            let at = self.levels.len() - MAX_OPEN;
            self.levels[at].fd = None;
        }
        self.levels.push(Level { name, fd: Some(fd), stat, entries, rounds: 0 });
        Ok(Entered::Yes)
    }

    /// Removes an entry that is not a directory; one that turned into one is put back as such.
    fn unlink(&mut self, name: Name) -> Result<()> {
        match sys::retry(|| rustix::fs::unlinkat(self.parent(), name.as_bytes(), AtFlags::empty())) {
            Ok(()) => self.work.advance(0),
            Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) if self.is_directory(&name) => {
                let Some(level) = self.levels.last_mut() else { return Ok(()) };
                level.rounds += 1;
                if level.rounds > MAX_ROUNDS {
                    return Err(Error::new(ErrorKind::PathRace, "an entry of the directory keeps changing"));
                }
                level.entries.push((name, Some(Kind::Directory)));
            }
            Err(Errno::BUSY) => {
                return Err(Error::new(ErrorKind::NotSupported, "another file system is mounted in the directory"));
            }
            Err(errno) => return Err(Error::os(errno, "removing")),
        }
        Ok(())
    }

    fn is_directory(&self, name: &Name) -> bool {
        sys::stat_leaf(self.parent(), name.as_bytes()).is_ok_and(|stat| stat.kind == Kind::Directory)
    }

    /// Removes the directory that was emptied and goes back to its parent.
    fn leave(&mut self) -> Result<()> {
        let Some(mut level) = self.levels.pop() else { return Ok(()) };
        if let Some(parent) = self.levels.last_mut()
            && parent.fd.is_none()
        {
            let Some(child) = level.fd.as_ref() else {
                return Err(Error::new(ErrorKind::Bug, "a directory was left without its handle"));
            };
            let fd = sys::open_leaf(child.as_fd(), b"..", sys::READ | OFlags::DIRECTORY)
                .map_err(|errno| Error::os(errno, "removing"))?;
            let stat = sys::fstat(fd.as_fd()).map_err(|errno| Error::os(errno, "removing"))?;
            if !stat.is_same(&parent.stat) {
                return Err(Error::new(ErrorKind::PathRace, "the directory was moved while it was removed"));
            }
            parent.fd = Some(fd);
        }
        match sys::retry(|| rustix::fs::unlinkat(self.parent(), level.name.as_bytes(), AtFlags::REMOVEDIR)) {
            Ok(()) => self.work.advance(0),
            Err(Errno::NOENT) => {}
            // Exchanged for something else after it was emptied.
            Err(Errno::NOTDIR) => self.unlink(level.name)?,
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                level.rounds += 1;
                if level.rounds > MAX_ROUNDS {
                    return Err(Error::new(ErrorKind::DirectoryNotEmpty, "something keeps filling the directory"));
                }
                self.refill(level)?;
            }
            Err(Errno::BUSY) => {
                return Err(Error::new(ErrorKind::NotSupported, "another file system is mounted in the directory"));
            }
            Err(errno) => return Err(Error::os(errno, "removing")),
        }
        Ok(())
    }

    /// Enters again a directory that is not empty: something was put there, or it is not the one we emptied.
    fn refill(&mut self, old: Level) -> Result<()> {
        let rounds = old.rounds;
        drop(old.fd);
        match self.enter(old.name.clone())? {
            Entered::Yes => {
                if let Some(level) = self.levels.last_mut() {
                    level.rounds = rounds;
                }
            }
            Entered::No => self.unlink(old.name)?,
        }
        Ok(())
    }
}

fn list(fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<(Name, Option<Kind>)>> {
    read_entries(sys::open_leaf(fd, b".", sys::READ | OFlags::DIRECTORY)?)
}

/// Opens a directory by name unless it is a link or lies on another mount (`XDEV`).
fn open_on_mount(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = sys::LOOK | OFlags::DIRECTORY;
    let resolve = super::resolve::NO_LINKS | ResolveFlags::NO_XDEV;
    match sys::open_beneath(parent, name, flags, resolve) {
        Err(Errno::NOSYS | Errno::AGAIN) => {}
        done => return done,
    }
    let handle = sys::open_leaf(parent, name, flags)?;
    let (here, there) = (sys::mount_id(parent), sys::mount_id(handle.as_fd()));
    if here != there || (here.is_none() && sys::fstat(parent)?.dev != sys::fstat(handle.as_fd())?.dev) {
        return Err(Errno::XDEV);
    }
    Ok(handle)
}
