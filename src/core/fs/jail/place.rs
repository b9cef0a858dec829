//! Places: an open parent and a name, and everything that changes what is there.
//!
//! Invariants: each change is one call on (handle, name) that does not follow the name, so whatever
//! is exchanged meanwhile, only an entry of that one directory changes. Bytes reach a name by a
//! rename only. A failed change leaves the entry as it was and no temporary file.

use super::handle::{Dir, File, Stat, check_mode, check_regular};
use super::sys;
use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::{Name, WsPath};
use crate::core::tree::Kind;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

const TEMP_PREFIX: &[u8] = b".hedgerow-";
const TEMP_SUFFIX: &[u8] = b".tmp";
/// Tries of a change that keeps meeting somebody else's.
const MAX_TRIES: usize = 128;
const ACL: &[u8] = b"system.posix_acl_access";

/// Tells whether a name has the form of our temporary files. Listings hide such names.
pub fn is_temp_name(name: &[u8]) -> bool {
    temp_name_pid(name).is_some()
}

/// Returns the process that made a temporary file, from its name.
pub fn temp_name_pid(name: &[u8]) -> Option<u32> {
    let middle = name.strip_prefix(TEMP_PREFIX)?.strip_suffix(TEMP_SUFFIX)?;
    let at = middle.iter().position(|&byte| byte == b'-')?;
    let (pid, rest) = (&middle[..at], &middle[at + 1..]);
    if rest.is_empty() || !rest.iter().all(u8::is_ascii_hexdigit) || !pid.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(pid).ok()?.parse().ok()
}

/// A name nobody uses: the process, a counter and a number drawn once per call.
fn temp_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().build_hasher().finish();
    // The id is asked for each time: a forked child shares the counter's value and the generator's state.
    let pid = rustix::process::getpid().as_raw_nonzero();
    format!(".hedgerow-{pid}-{count:x}{:08x}.tmp", random & 0xffff_ffff)
}

/// Refuses a name of that form.
///
/// # Errors
/// `reserved-name`.
pub fn refuse_reserved(name: &[u8]) -> Result<()> {
    if is_temp_name(name) {
        return Err(Error::new(ErrorKind::ReservedName, "the name is reserved for temporary files"));
    }
    Ok(())
}

/// How [`Place::replace`] treats what is there.
#[derive(Debug, Clone, Copy)]
pub struct Replace {
    /// Permission bits; `None` keeps those of the old file, or takes 0666 less the umask.
    pub mode: Option<u32>,
    /// Fails with `file-exists` if anything is there, be it made this instant.
    pub exclusive: bool,
    /// Keeps extended attributes, access list and owner of the old file.
    pub keep_metadata: bool,
    /// Brings the bytes to disk before they get their name.
    pub sync: bool,
}

impl Default for Replace {
    fn default() -> Self {
        Replace { mode: None, exclusive: false, keep_metadata: true, sync: false }
    }
}

/// An entry of an open directory, there or not.
#[derive(Debug, Clone)]
pub struct Place {
    dir: Dir,
    name: Name,
}

impl Place {
    pub(super) fn new(dir: Dir, name: Name) -> Result<Self> {
        refuse_reserved(name.as_bytes())?;
        Ok(Place { dir, name })
    }

    /// Returns the canonical path.
    pub fn path(&self) -> WsPath {
        self.dir.path().join(self.name.as_bytes())
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.dir.fd()
    }

    fn leaf(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn fail(&self, errno: Errno, doing: &str) -> Error {
        os(errno, doing).at(&self.path())
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(&self.path())
    }

    /// Tells what is there; a link is told, not followed.
    pub fn stat(&self) -> Result<Option<Stat>> {
        self.dir.stat(self.leaf())
    }

    fn existing(&self) -> Result<Stat> {
        self.stat()?.ok_or_else(|| self.error(ErrorKind::FileNotFound, "no such file or directory"))
    }

    /// Opens the regular file there.
    pub fn open_file(&self) -> Result<File> {
        self.dir.open_file(self.leaf())
    }

    /// Returns the target of the link there, as it is written.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        self.dir.read_link(self.leaf())
    }

    /// Opens the directory there.
    pub fn open_dir(&self) -> Result<Dir> {
        self.dir.child(self.leaf())
    }

    /// Puts a new file there in one step: others see the old one or the whole new one. What `write`
    /// writes goes to a temporary file beside it. A link that is there is replaced, not followed; an
    /// old file keeps its mode unless told otherwise, and is itself never written to.
    ///
    /// # Errors
    /// `is-a-directory`, `special-file`, `file-exists` if exclusive, and what `write` returns; the
    /// entry is then as it was.
    pub fn replace(&self, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>, how: Replace) -> Result<Stat> {
        if let Some(mode) = how.mode {
            check_mode(mode).map_err(|error| error.at(&self.path()))?;
        }
        let old = self.look().map_err(|errno| self.fail(errno, "looking up"))?;
        if let Some((_, stat)) = &old {
            if how.exclusive {
                return Err(self.error(ErrorKind::FileExists, "exists already"));
            }
            if stat.kind != Kind::Symlink {
                check_regular(stat.kind).map_err(|error| error.at(&self.path()))?;
            }
        }
        let old = old.filter(|(_, stat)| stat.kind == Kind::File);
        // A new file without a given mode gets it from the kernel, which applies the umask and the
        // directory's default access list. Any other starts closed and is opened up when it is complete.
        let plain = how.mode.is_none() && old.is_none();
        let mut temp = Temp::create(self.fd(), if plain { 0o666 } else { 0o600 })
            .map_err(|errno| self.fail(errno, "making a temporary file"))?;
        write(&mut FdWriter(temp.fd.as_fd())).map_err(|error| error.at(&self.path()))?;
        let finish = || -> rustix::io::Result<()> {
            if let Some((handle, stat)) = old.as_ref().filter(|_| how.keep_metadata) {
                keep_owner(temp.fd.as_fd(), stat)?;
                set_mode(temp.fd.as_fd(), how.mode.unwrap_or(stat.mode & 0o777))?;
                self.keep_attributes(temp.fd.as_fd(), handle.as_fd(), stat)?;
                if let Some(mode) = how.mode {
                    // The access list that was copied carries the old mode.
                    set_mode(temp.fd.as_fd(), mode)?;
                }
            } else if !plain {
                let mode = how.mode.or(old.as_ref().map(|(_, stat)| stat.mode & 0o777)).unwrap_or(0o600);
                set_mode(temp.fd.as_fd(), mode)?;
            }
            if how.sync { sys::retry(|| rustix::fs::fsync(&temp.fd)) } else { Ok(()) }
        };
        finish().map_err(|errno| self.fail(errno, "finishing a temporary file"))?;
        let placed = if how.exclusive {
            rename_new(self.fd(), temp.name.as_bytes(), self.fd(), self.leaf(), Kind::File)
        } else if old.is_some() && !how.sync {
            self.exchange(&temp)
        } else {
            sys::retry(|| rustix::fs::renameat(self.fd(), temp.name.as_str(), self.fd(), self.leaf()))
        };
        placed.map_err(|errno| self.fail(errno, "replacing the file"))?;
        temp.keep();
        sys::fstat(temp.fd.as_fd()).map_err(|errno| self.fail(errno, "looking up"))
    }

    /// Puts the temporary file in the place of the file there, and removes that one.
    ///
    /// PERF: ext4 brings the new bytes to disk when a file is renamed over another (`auto_da_alloc`), and
    /// not when two are exchanged: 89 µs for 4 KB instead of 233 (`cargo bench`, 2026-11-30), the same for a reader.
    /// Without that flush a power loss within the next half minute may leave an empty file, as it may
    /// after any write that is not synced; `sync` asks for the flush and takes the plain rename.
    fn exchange(&self, temp: &Temp<'_>) -> rustix::io::Result<()> {
        let (name, leaf) = (temp.name.as_str(), self.leaf());
        let swap = || rustix::fs::renameat_with(self.fd(), name, self.fd(), leaf, RenameFlags::EXCHANGE);
        match sys::retry(swap) {
            Ok(()) => {}
            // The file went meanwhile, or the system cannot exchange: a rename does as well.
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                return sys::retry(|| rustix::fs::renameat(self.fd(), name, self.fd(), leaf));
            }
            Err(errno) => return Err(errno),
        }
        match sys::retry(|| rustix::fs::unlinkat(self.fd(), name, AtFlags::empty())) {
            // Somebody had put a directory there at this very moment: it goes back where it was.
            Err(Errno::ISDIR | Errno::PERM) => {
                sys::retry(swap)?;
                Err(Errno::ISDIR)
            }
            result => result,
        }
    }

    /// Opens an `O_PATH` handle on what is there.
    fn look(&self) -> rustix::io::Result<Option<(OwnedFd, Stat)>> {
        match sys::open_leaf(self.fd(), self.leaf(), sys::LOOK) {
            Ok(handle) => {
                let stat = sys::fstat(handle.as_fd())?;
                Ok(Some((handle, stat)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Copies extended attributes and the access list of the old file, all read from its handle.
    ///
    /// Not copied: capabilities, which the kernel drops from a file whose bytes change, and digests of
    /// the old bytes. Labels that only the system may set are copied where it lets us.
    fn keep_attributes(&self, new: BorrowedFd<'_>, old: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<()> {
        let source = if sys::proc_works() {
            Source::Path(sys::ProcPath::new(old))
        } else {
            let flags = sys::READ | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            match sys::open_leaf(self.fd(), self.leaf(), flags) {
                Ok(fd) if sys::fstat(fd.as_fd())?.is_same(stat) => Source::Fd(fd),
                _ => return Ok(()),
            }
        };
        let names = source.list()?;
        // An access list the new file inherited from its directory would let in whom the old one did not.
        if !has_name(&names, ACL) && has_name(&Source::list_fd(new)?, ACL) {
            sys::retry(|| rustix::fs::fremovexattr(new, ACL))?;
        }
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let must = name.starts_with(b"user.") || name == ACL;
            let may = name.starts_with(b"security.")
                && !matches!(name, b"security.capability" | b"security.ima" | b"security.evm");
            if !must && !may {
                continue;
            }
            let value = match source.get(name) {
                Ok(value) => value,
                Err(Errno::NODATA) => continue, // removed since
                Err(_) if !must => continue,
                Err(errno) => return Err(errno),
            };
            match sys::retry(|| rustix::fs::fsetxattr(new, name, &value, XattrFlags::empty())) {
                Err(errno) if must => return Err(errno),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what is there if it is not a directory; a link is removed, not what it leads to.
    pub fn remove_file(&self) -> Result<()> {
        sys::retry(|| rustix::fs::unlinkat(self.fd(), self.leaf(), AtFlags::empty())).map_err(|errno| match errno {
            Errno::PERM if self.is_directory() => self.error(ErrorKind::IsADirectory, "is a directory"),
            errno => self.fail(errno, "removing"),
        })
    }

    fn is_directory(&self) -> bool {
        matches!(self.stat(), Ok(Some(stat)) if stat.kind == Kind::Directory)
    }

    /// Removes the empty directory there. Our own temporary files do not count as content.
    pub fn remove_dir(&self) -> Result<()> {
        let remove = || sys::retry(|| rustix::fs::unlinkat(self.fd(), self.leaf(), AtFlags::REMOVEDIR));
        let mut removed = remove();
        if matches!(removed, Err(Errno::NOTEMPTY | Errno::EXIST)) {
            let dir = self.open_dir()?;
            if dir.entries()?.is_empty() {
                for (name, _) in dir.temp_entries()? {
                    dir.remove_temp(&name)?;
                }
                removed = remove();
            }
        }
        removed.map_err(|errno| {
            let error = self.fail(errno, "removing the directory");
            match errno {
                Errno::NOENT => error.with_kind(ErrorKind::DirectoryNotFound),
                Errno::EXIST => error.with_kind(ErrorKind::DirectoryNotEmpty),
                _ => error,
            }
        })
    }

    /// Removes what is there with everything in it. Links are removed, not followed; a directory on
    /// which something is mounted stops it, and so does what the system refuses.
    ///
    /// # Errors
    /// `file-not-found`, `not-supported` at a mount, `permission-denied`, `path-race`, `cancelled`.
    pub fn remove_tree(&self, work: &Work) -> Result<()> {
        if self.existing()?.kind == Kind::Directory { super::remove::remove(self, work) } else { self.remove_file() }
    }

    /// Makes a directory with `mode` less the umask.
    pub fn make_dir(&self, mode: u32) -> Result<()> {
        check_mode(mode).map_err(|error| error.at(&self.path()))?;
        sys::retry(|| rustix::fs::mkdirat(self.fd(), self.leaf(), Mode::from_raw_mode(mode)))
            .map_err(|errno| self.fail(errno, "making the directory"))
    }

    /// Makes a symbolic link; the target is written as it is and may lead anywhere, since it is never
    /// followed out. With `replace` it takes the place of a file or link in one step.
    pub fn symlink(&self, target: &[u8], replace: bool) -> Result<()> {
        if target.is_empty() {
            return Err(self.error(ErrorKind::InvalidArgument, "a link needs a target"));
        }
        if target.contains(&0) {
            return Err(self.error(ErrorKind::PathNul, "the target of the link contains a null byte"));
        }
        let made = sys::retry(|| rustix::fs::symlinkat(target, self.fd(), self.leaf()));
        if made != Err(Errno::EXIST) || !replace {
            return made.map_err(|errno| self.fail(errno, "making the link"));
        }
        if self.is_directory() {
            return Err(self.error(ErrorKind::IsADirectory, "is a directory"));
        }
        for _ in 0..MAX_TRIES {
            let name = temp_name();
            match sys::retry(|| rustix::fs::symlinkat(target, self.fd(), name.as_str())) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.fail(errno, "making the link")),
                Ok(()) => {
                    let placed = sys::retry(|| rustix::fs::renameat(self.fd(), name.as_str(), self.fd(), self.leaf()));
                    if placed.is_err() {
                        remove_temp(self.fd(), &name);
                    }
                    return placed.map_err(|errno| self.fail(errno, "replacing by a link"));
                }
            }
        }
        Err(self.error(ErrorKind::PathRace, "no free name for a temporary link"))
    }

    /// Moves what is there to another place; a link moves itself. With `replace` a file takes the
    /// place of a file, a directory that of an empty directory, in one step.
    ///
    /// # Errors
    /// `file-exists`, `is-a-directory`, `not-a-directory`, `directory-not-empty`, `invalid-argument`
    /// for a directory into itself, `not-supported` between two file systems.
    pub fn rename_to(&self, to: &Place, replace: bool) -> Result<()> {
        let source = self.existing()?;
        let target = to.stat()?;
        if let Some(target) = target.as_ref()
            && source.is_same(target)
        {
            if self.is_at(to)? {
                return Ok(());
            }
            // Two names of one file: POSIX would leave both and call it done.
            if source.kind != Kind::Directory && replace {
                return self.remove_file();
            }
        }
        let renamed = if replace {
            sys::retry(|| rustix::fs::renameat(self.fd(), self.leaf(), to.fd(), to.leaf()))
        } else {
            rename_new(self.fd(), self.leaf(), to.fd(), to.leaf(), source.kind)
        };
        renamed.map_err(|errno| {
            let is_dir = source.kind == Kind::Directory;
            let (kind, message) = match errno {
                Errno::INVAL => (ErrorKind::InvalidArgument, "a directory cannot move into itself"),
                Errno::XDEV => (ErrorKind::NotSupported, "the target is on another file system"),
                Errno::EXIST if !replace => (ErrorKind::FileExists, "exists already"),
                Errno::NOTEMPTY | Errno::EXIST if target.is_some_and(|stat| stat.kind == Kind::Directory) => {
                    // A directory onto one of its own ancestors is "not empty" too.
                    if is_dir {
                        (ErrorKind::DirectoryNotEmpty, "the directory in the way is not empty")
                    } else {
                        (ErrorKind::IsADirectory, "a directory is in the way")
                    }
                }
                Errno::NOTDIR => (ErrorKind::NotADirectory, "a file is in the way of a directory"),
                Errno::ISDIR => (ErrorKind::IsADirectory, "a directory is in the way"),
                Errno::NOENT => return self.fail(errno, "moving"),
                errno => return os(errno, "moving").at(&to.path()),
            };
            to.error(kind, message)
        })
    }

    /// Tells whether both are the same name in the same directory.
    fn is_at(&self, other: &Place) -> Result<bool> {
        Ok(self.name == other.name && self.dir.self_stat()?.is_same(&other.dir.self_stat()?))
    }

    /// Gives the file there a second name; a link gets a second name itself.
    ///
    /// # Errors
    /// `is-a-directory`, `special-file`, `file-exists`, `not-supported` between two file systems.
    pub fn hard_link_to(&self, to: &Place) -> Result<()> {
        let stat = self.existing()?;
        if stat.kind != Kind::Symlink {
            check_regular(stat.kind).map_err(|error| error.at(&self.path()))?;
        }
        sys::retry(|| rustix::fs::linkat(self.fd(), self.leaf(), to.fd(), to.leaf(), AtFlags::empty())).map_err(
            |errno| match errno {
                Errno::NOENT => self.fail(errno, "linking"),
                Errno::PERM if self.is_directory() => self.error(ErrorKind::IsADirectory, "is a directory"),
                errno => os(errno, "linking").at(&to.path()),
            },
        )
    }

    /// Sets the permission bits of the file or directory there. A directory keeps its bits above 0777.
    /// A file with several names is replaced by a copy with the new mode, as a write would: the mode
    /// belongs to the inode, and its other names may be outside.
    ///
    /// # Errors
    /// `invalid-argument` for bits above 0777, `not-supported` for a link, `special-file`.
    pub fn chmod(&self, mode: u32) -> Result<()> {
        check_mode(mode).map_err(|error| error.at(&self.path()))?;
        let looked = self.look().map_err(|errno| self.fail(errno, "looking up"))?;
        let Some((handle, stat)) = looked else {
            return Err(self.error(ErrorKind::FileNotFound, "no such file or directory"));
        };
        let mode = match stat.kind {
            Kind::File if stat.nlink > 1 => return self.copy_with_mode(mode),
            Kind::File => mode,
            Kind::Directory => mode | (stat.mode & 0o7000),
            Kind::Symlink => return Err(self.error(ErrorKind::NotSupported, "a symbolic link has no mode of its own")),
            special => {
                check_regular(special).map_err(|error| error.at(&self.path()))?;
                mode
            }
        };
        chmod_handle(self.fd(), self.leaf(), handle.as_fd(), &stat, mode)
            .map_err(|errno| self.fail(errno, "changing the mode"))
    }

    fn copy_with_mode(&self, mode: u32) -> Result<()> {
        let file = self.open_file()?;
        let mut write = |out: &mut dyn Write| {
            let mut buffer = vec![0; 1 << 18];
            let mut at = 0;
            loop {
                let count = file.read_at(at, &mut buffer)?;
                out.write_all(&buffer[..count]).map_err(|error| Error::io(&error, "writing"))?;
                at += count as u64;
                if count < buffer.len() {
                    return Ok(());
                }
            }
        };
        self.replace(&mut write, Replace { mode: Some(mode), ..Replace::default() }).map(drop)
    }

    /// Makes the change of this entry survive a crash of the machine.
    pub fn sync_dir(&self) -> Result<()> {
        self.dir.sync()
    }
}

/// Changes the mode of exactly the inode behind `handle`.
pub(super) fn chmod_handle(
    dir: BorrowedFd<'_>,
    name: &[u8],
    handle: BorrowedFd<'_>,
    stat: &Stat,
    mode: u32,
) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    if sys::proc_works() {
        let path = sys::ProcPath::new(handle);
        return sys::retry(|| rustix::fs::chmodat(CWD, path.as_bytes(), mode, AtFlags::empty()));
    }
    let fd = sys::open_leaf(dir, name, sys::READ | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    if !sys::fstat(fd.as_fd())?.is_same(stat) {
        return Err(Errno::NOENT);
    }
    sys::retry(|| rustix::fs::fchmod(&fd, mode))
}

/// Adds what only this room knows to the general meaning of an OS error.
fn os(errno: Errno, doing: &str) -> Error {
    let error = Error::os(errno, doing);
    match errno {
        Errno::BUSY => Error::new(ErrorKind::NotSupported, "another file system is mounted here"),
        Errno::XDEV => Error::new(ErrorKind::NotSupported, "the target is on another file system"),
        _ => error,
    }
}

/// Renames to a name that must be free.
fn rename_new(
    from: BorrowedFd<'_>,
    from_name: &[u8],
    to: BorrowedFd<'_>,
    to_name: &[u8],
    kind: Kind,
) -> rustix::io::Result<()> {
    match sys::rename_exclusive(from, from_name, to, to_name) {
        // Also what a directory moved into itself meets; the fallback meets it again.
        Err(Errno::NOSYS | Errno::INVAL) => {}
        done => return done,
    }
    if kind == Kind::Directory {
        // An empty directory is a lock on the name that a directory may be renamed over.
        sys::retry(|| rustix::fs::mkdirat(to, to_name, Mode::from_raw_mode(0o700)))?;
        let renamed = sys::retry(|| rustix::fs::renameat(from, from_name, to, to_name));
        if renamed.is_err() {
            // Fails if it is no longer ours and empty, and is right to.
            sys::best_effort(rustix::fs::unlinkat(to, to_name, AtFlags::REMOVEDIR));
        }
        return renamed;
    }
    sys::retry(|| rustix::fs::linkat(from, from_name, to, to_name, AtFlags::empty()))?;
    let removed = sys::retry(|| rustix::fs::unlinkat(from, from_name, AtFlags::empty()));
    if removed.is_err() {
        sys::best_effort(rustix::fs::unlinkat(to, to_name, AtFlags::empty()));
    }
    removed
}

fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> rustix::io::Result<()> {
    sys::retry(|| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)))
}

/// Gives the new file the owner of the old one, as far as we may.
fn keep_owner(new: BorrowedFd<'_>, old: &Stat) -> rustix::io::Result<()> {
    let mine = sys::fstat(new)?;
    if (mine.uid, mine.gid) == (old.uid, old.gid) {
        return Ok(());
    }
    let group = (mine.gid != old.gid).then(|| Gid::from_raw(old.gid));
    let user = (mine.uid != old.uid).then(|| Uid::from_raw(old.uid));
    if rustix::fs::fchown(new, user, group).is_err() && user.is_some() && group.is_some() {
        // Not the owner's right to give away, but perhaps a group we are in.
        sys::best_effort(rustix::fs::fchown(new, None, group));
    }
    Ok(())
}

/// Where the attributes of the old file are read: a handle reopened as a name, or a descriptor.
enum Source {
    Path(sys::ProcPath),
    Fd(OwnedFd),
}

impl Source {
    fn list(&self) -> rustix::io::Result<Vec<u8>> {
        match self {
            Source::Path(path) => none_if_unsupported(grow(|buffer| rustix::fs::listxattr(path.as_bytes(), buffer))),
            Source::Fd(fd) => Self::list_fd(fd.as_fd()),
        }
    }

    fn list_fd(fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
        none_if_unsupported(grow(|buffer| rustix::fs::flistxattr(fd, buffer)))
    }

    fn get(&self, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
        match self {
            Source::Path(path) => grow(|buffer| rustix::fs::getxattr(path.as_bytes(), name, buffer)),
            Source::Fd(fd) => grow(|buffer| rustix::fs::fgetxattr(fd, name, buffer)),
        }
    }
}

fn none_if_unsupported(names: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Vec<u8>> {
    match names {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
        names => names,
    }
}

fn has_name(names: &[u8], name: &[u8]) -> bool {
    names.split(|&byte| byte == 0).any(|one| one == name)
}

/// Calls with larger buffers until the answer fits; 64 KiB is the kernel's limit for names and values.
fn grow(
    mut call: impl FnMut(rustix::buffer::SpareCapacity<'_, u8>) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    for size in [256, 4096, 65536] {
        let mut buffer = Vec::with_capacity(size);
        match sys::retry(|| call(spare_capacity(&mut buffer))) {
            Err(Errno::RANGE) => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Ok(buffer),
        }
    }
    Err(Errno::RANGE)
}

/// A temporary file that is removed unless kept.
struct Temp<'a> {
    dir: BorrowedFd<'a>,
    name: String,
    fd: OwnedFd,
    kept: bool,
}

impl<'a> Temp<'a> {
    fn create(dir: BorrowedFd<'a>, mode: u32) -> rustix::io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        for _ in 0..MAX_TRIES {
            let name = temp_name();
            match sys::retry(|| rustix::fs::openat(dir, name.as_str(), flags, Mode::from_raw_mode(mode))) {
                Ok(fd) => return Ok(Temp { dir, name, fd, kept: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Leaves the file alone from now on: it has its name.
    fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.kept {
            remove_temp(self.dir, &self.name);
        }
    }
}

/// Removes a temporary entry; if that fails too, its name tells who left it behind.
fn remove_temp(dir: BorrowedFd<'_>, name: &str) {
    sys::best_effort(sys::retry(|| rustix::fs::unlinkat(dir, name, AtFlags::empty())));
}

/// Writes to a descriptor.
struct FdWriter<'a>(BorrowedFd<'a>);

impl Write for FdWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(sys::retry(|| rustix::io::write(self.0, bytes))?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
