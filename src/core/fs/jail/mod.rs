//! The jail: the only code that opens a path on the host.
//!
//! Duty: every access starts at one directory handle opened once and ends at a handle inside it. A
//! name is never resolved, checked and then used again: resolving *is* opening, and what is done next
//! is done to the handle. Measured with a thread that exchanges a directory and a link, "realpath,
//! check, open" reads outside files, handles never do (`tests/jail_races.rs`).
//!
//! Invariants
//! * Two resolvers give the same answers on the whole corpus (`tests/jail.rs`). The *kernel* resolves
//!   a path in one `openat2` that refuses links; such a path is its own canonical path, so no
//!   canonical path is ever guessed from `/proc`. A path that holds a link, and every path where
//!   `openat2` is missing, takes the *walk*: one component at a time, never following, with a stack of
//!   directory handles, links expanded by us. `read` alone lets the kernel follow relative links too
//!   (it needs no canonical path), and takes the walk for the rest. Under a storm of renames the
//!   kernel may answer `EAGAIN` for ever; the walk cannot, so it takes over after some tries.
//! * Links inside are followed, absolute ones when their target lies under the real root; a link that
//!   leads out is `symlink-escape`, and `..` above the root is an error, never clamped. Links on procfs
//!   are never followed: most of them are doors, not names.
//! * What a FIFO, socket or device is, is seen on an `O_PATH` handle; none is ever opened.
//! * A file that exists is never written: a new one is renamed over it, so readers see old or new, and
//!   an outside name of the same inode keeps its bytes.
//! * After `open`, no absolute path and no current directory is used, but for `/proc/self/fd/N` (a
//!   handle again; used only if it is procfs) and [`Jail::check_identity`], which compares and opens
//!   nothing.
//! * There is no state that a fork could break: handles, and facts about the kernel.
//!
//! It never shows a host path, never follows a name it was not asked to follow, never crosses a mount
//! when it removes a tree. It confines paths, not programs; a same-user program can always reach what
//! the user can reach.

mod handle;
mod place;
mod remove;
mod resolve;
mod sys;

pub use crate::core::tree::Kind;
pub use handle::{Dir, File, Stat};
pub use place::{Place, Replace, is_temp_name, refuse_reserved, temp_name_pid};

use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::{Name, RawPath, WsPath};
pub use crate::core::tree::resolve::Follow;
use resolve::{Leaf, Walk};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes [`Jail::read`] takes into memory in one piece; larger files are read in ranges.
pub const MAX_WHOLE_READ: u64 = 2 << 30;

/// Who resolves paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResolverChoice {
    /// The kernel where it can, the walk elsewhere.
    #[default]
    Auto,
    /// The kernel; opening fails with `not-supported` where it cannot.
    Kernel,
    /// The walk, also where the kernel could.
    Walk,
}

/// One directory of the host, and nothing outside it.
#[derive(Debug)]
pub struct Jail {
    fd: Arc<OwnedFd>,
    /// As the caller gave it, made absolute; what `check_identity` looks at.
    host: PathBuf,
    /// Without links; absolute links are measured against both.
    real: PathBuf,
    identity: (u64, u64),
    walk_only: bool,
}

impl Jail {
    /// Opens the directory at `host`, which may be reached through links; makes it if `create`.
    ///
    /// # Errors
    /// `directory-not-found`, `not-a-directory`, `permission-denied`, `not-supported`.
    #[expect(clippy::disallowed_methods, reason = "the one place where a host path becomes a handle")]
    pub fn open(host: &Path, resolver: ResolverChoice, create: bool) -> Result<Self> {
        let fail = |errno: Errno| {
            let error = Error::os(errno, "opening the workspace root");
            if errno == Errno::NOENT { error.with_kind(ErrorKind::DirectoryNotFound) } else { error }
        };
        let host = std::path::absolute(host).map_err(|error| Error::io(&error, "opening the workspace root"))?;
        if create {
            std::fs::DirBuilder::new()
                .recursive(true)
                .create(&host)
                .map_err(|error| Error::io(&error, "making the workspace root"))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = sys::retry(|| rustix::fs::openat(CWD, &host, flags, Mode::empty())).map_err(fail)?;
        let stat = sys::fstat(fd.as_fd()).map_err(fail)?;
        // The name the kernel gives to what was opened; without procfs, the best the name itself tells.
        let real = match sys::proc_readlink(fd.as_fd()) {
            Some(real) => real,
            None => std::fs::canonicalize(&host).map_err(|error| Error::io(&error, "opening the workspace root"))?,
        };
        let can = sys::kernel_resolves(fd.as_fd());
        if resolver == ResolverChoice::Kernel && !can {
            return Err(Error::new(ErrorKind::NotSupported, "this system cannot resolve paths beneath a handle"));
        }
        let walk_only = resolver == ResolverChoice::Walk || !can;
        Ok(Jail { fd: Arc::new(fd), host, real, identity: (stat.dev, stat.ino), walk_only })
    }

    /// Returns the host path of the root without links, for comparing with other host paths; never for opening.
    pub fn host_root(&self) -> &Path {
        &self.real
    }

    /// Returns the handle of the root, for locking it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns what tells the root from every other directory: device and inode.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Tells whether every path takes the walk.
    pub fn walks(&self) -> bool {
        self.walk_only || sys::kernel_is_missing()
    }

    /// Checks that the host path still names the directory that was opened.
    ///
    /// # Errors
    /// `root-replaced`.
    pub fn check_identity(&self) -> Result<()> {
        let replaced = |message: &str| Err(Error::new(ErrorKind::RootReplaced, message));
        match sys::retry(|| rustix::fs::stat(&self.host)) {
            Ok(stat) if (sys::widen(stat.st_dev), stat.st_ino) == self.identity => Ok(()),
            Ok(_) => replaced("the path of the workspace names another directory now"),
            Err(Errno::NOENT | Errno::NOTDIR) => replaced("the workspace directory is no longer where it was"),
            Err(errno) => Err(Error::os(errno, "checking the workspace root")),
        }
    }

    /// Returns the root as a directory.
    pub fn root(&self) -> Dir {
        Dir::new(Arc::clone(&self.fd), WsPath::root())
    }

    /// Turns what a caller wrote into a path without `..`, looking at links: `link/..` is the directory
    /// that holds what the link leads to. Without `..` nothing is looked at.
    ///
    /// # Errors
    /// `path-escape` and `symlink-escape` if `..` climbs above the root, `directory-not-found` and
    /// `not-a-directory` if there is nothing to climb from, `symlink-loop`.
    pub fn canonical(&self, raw: &RawPath) -> Result<WsPath> {
        if let Some(plain) = raw.plain() {
            return Ok(plain);
        }
        let (parts, below) = raw.split_parents();
        let mut walk = Walk::new(self);
        walk.push_parts(&parts);
        let base = match walk.run(Follow::Yes) {
            Ok(Leaf::Top) => walk.top_path(),
            Ok(_) => return Err(Error::new(ErrorKind::Bug, "a path that ends in '..' led to an entry")),
            Err(error) if matches!(error.kind(), ErrorKind::FileNotFound | ErrorKind::NotADirectory) => {
                if raw.climbs_out() {
                    return Err(Error::new(ErrorKind::PathEscape, "the path leaves the workspace"));
                }
                return Err(match error.kind() {
                    ErrorKind::FileNotFound => error.with_kind(ErrorKind::DirectoryNotFound),
                    _ => error,
                });
            }
            Err(error) => return Err(error),
        };
        Ok(base.join_path(&below))
    }

    /// Opens a directory, following links inside; its path is the canonical one.
    ///
    /// # Errors
    /// `directory-not-found`, `not-a-directory`, and what resolving can meet.
    pub fn dir(&self, path: &WsPath) -> Result<Dir> {
        if path.is_root() {
            return Ok(self.root());
        }
        if let Some(found) = self.kernel(path, OFlags::PATH | OFlags::DIRECTORY, resolve::NO_LINKS) {
            match found {
                Ok(fd) => return Ok(Dir::new(Arc::new(fd), path.clone())),
                Err(Errno::NOTDIR) => {} // perhaps a link at the end
                Err(errno) => return Err(no_directory(errno, "opening the directory", path)),
            }
        }
        self.walk_dir(path)
    }

    fn walk_dir(&self, path: &WsPath) -> Result<Dir> {
        let mut walk = Walk::new(self);
        walk.push(path);
        let missing = |error: Error| match error.kind() {
            ErrorKind::FileNotFound => error.with_kind(ErrorKind::DirectoryNotFound).at(path),
            _ => error.at(path),
        };
        match walk.run(Follow::Yes).map_err(missing)? {
            Leaf::Top => Ok(walk.into_top()),
            Leaf::Entry { name, handle, stat } if stat.kind == Kind::Directory => {
                Ok(Dir::new(Arc::new(handle), walk.top_path().join(&name)))
            }
            Leaf::Entry { .. } => Err(Error::new(ErrorKind::NotADirectory, "not a directory").at(path)),
            Leaf::Missing { .. } => Err(Error::new(ErrorKind::DirectoryNotFound, "no such directory").at(path)),
        }
    }

    /// Looks an entry up; `None` if there is none. With [`Follow::Yes`] a link is looked through.
    ///
    /// # Errors
    /// `not-a-directory` if a name before the last is a file, `symlink-escape`, `symlink-loop`.
    pub fn lookup(&self, path: &WsPath, follow: Follow) -> Result<Option<(WsPath, Stat)>> {
        match self.entry(path, follow) {
            Ok((canonical, handle)) => {
                let stat = sys::fstat(handle.as_fd()).map_err(|errno| Error::os(errno, "looking up").at(path))?;
                if stat.kind == Kind::Symlink && follow == Follow::Yes {
                    return Err(Error::new(ErrorKind::Bug, "a link was not followed").at(path));
                }
                Ok(Some((canonical, stat)))
            }
            Err(error) if error.kind() == ErrorKind::FileNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens an `O_PATH` handle on any entry.
    fn entry(&self, path: &WsPath, follow: Follow) -> Result<(WsPath, Arc<OwnedFd>)> {
        if path.is_root() {
            return Ok((WsPath::root(), Arc::clone(&self.fd)));
        }
        let nofollow = if follow == Follow::No { OFlags::NOFOLLOW } else { OFlags::empty() };
        if let Some(found) = self.kernel(path, OFlags::PATH | nofollow, resolve::NO_LINKS) {
            return match found {
                Ok(fd) => Ok((path.clone(), Arc::new(fd))),
                Err(errno) => Err(Error::os(errno, "looking up").at(path)),
            };
        }
        let mut walk = Walk::new(self);
        walk.push(path);
        match walk.run(follow).map_err(|error| error.at(path))? {
            Leaf::Top => {
                let top = walk.into_top();
                Ok((top.path().clone(), top.shared_fd()))
            }
            Leaf::Entry { name, handle, .. } => Ok((walk.top_path().join(&name), Arc::new(handle))),
            Leaf::Missing { .. } => Err(Error::new(ErrorKind::FileNotFound, "no such file or directory").at(path)),
        }
    }

    /// Reads where the link at `path` points, as it is written.
    ///
    /// # Errors
    /// `file-not-found`, `not-a-link`.
    pub fn read_link(&self, path: &WsPath) -> Result<Vec<u8>> {
        let (_, handle) = self.entry(path, Follow::No)?;
        match sys::retry(|| rustix::fs::readlinkat(handle.as_fd(), c"", Vec::new())) {
            Ok(target) => Ok(target.into_bytes()),
            // What the kernel says of a handle that is none of a link.
            Err(Errno::NOENT | Errno::INVAL) => Err(Error::new(ErrorKind::NotALink, "not a symbolic link").at(path)),
            Err(errno) => Err(Error::os(errno, "reading the link").at(path)),
        }
    }

    /// Opens a regular file for reading, following links inside; its path is the canonical one.
    ///
    /// # Errors
    /// `file-not-found`, `is-a-directory`, `special-file` (at once: such a file is never opened).
    pub fn open_file(&self, path: &WsPath) -> Result<File> {
        let (canonical, handle) = self.entry(path, Follow::Yes)?;
        let file = File::from_handle(handle.as_fd(), canonical, || self.second_open(path));
        file.map_err(|error| error.at(path))
    }

    /// Opens the file behind a path a second time, where a handle cannot be reopened (no procfs). The
    /// caller compares both; `NONBLOCK` because a FIFO may have taken the place in between.
    fn second_open(&self, path: &WsPath) -> Result<OwnedFd> {
        let place = self.place(path, Follow::Yes)?;
        sys::open_leaf(place.dir().fd(), place.name().as_bytes(), sys::READ | OFlags::NOFOLLOW | OFlags::NONBLOCK)
            .map_err(|errno| Error::os(errno, "opening"))
    }

    /// Reads a file, or a range of it: past the end is empty, at the end is short.
    ///
    /// The length is the one the file has when it is opened: what is appended meanwhile is left for
    /// the next read, so that a growing file cannot hold a caller for ever.
    ///
    /// # Errors
    /// As [`Jail::open_file`]; `file-too-large` above [`MAX_WHOLE_READ`].
    pub fn read(&self, path: &WsPath, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        if let Some(Ok(handle)) = self.kernel(path, OFlags::PATH, resolve::BENEATH) {
            // PERF: no canonical path is needed, so the kernel may follow links: 5 calls for a file.
            let again = || match self.kernel(path, sys::READ | OFlags::NONBLOCK, resolve::BENEATH) {
                Some(Ok(fd)) => Ok(fd),
                _ => self.second_open(path),
            };
            return handle::read_handle(handle.as_fd(), range, again).map_err(|error| error.at(path));
        }
        let file = self.open_file(path)?;
        match range {
            Some(range) => file.read_range(range),
            None => file.read_all(MAX_WHOLE_READ),
        }
    }

    /// Reads without ever waiting for a disk, so that an event loop may call it: `None` if the names or
    /// the bytes are not in memory, there are more than `max_bytes`, or the system cannot promise it.
    ///
    /// # Errors
    /// As [`Jail::read`], where the answer is known without waiting.
    pub fn try_read(&self, path: &WsPath, range: Option<Range<u64>>, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        if self.walks() {
            return Ok(None);
        }
        let flags = resolve::BENEATH | ResolveFlags::CACHED;
        match sys::open_beneath(self.fd.as_fd(), path.as_bytes(), OFlags::PATH | OFlags::CLOEXEC, flags) {
            Ok(handle) => {
                let again = || sys::open_beneath(self.fd.as_fd(), path.as_bytes(), sys::READ | OFlags::NONBLOCK, flags);
                handle::try_read_handle(handle.as_fd(), range, max_bytes, again).map_err(|error| error.at(path))
            }
            // Whatever went wrong, the full read tells it better; only "not there" is common enough to be worth it.
            Err(Errno::NOENT) => Err(Error::os(Errno::NOENT, "opening").at(path)),
            Err(_) => Ok(None),
        }
    }

    /// Finds where an entry is or would be: an open parent and a name. A link at the end is followed
    /// with [`Follow::Yes`], also to a place where nothing is yet, as long as that is inside.
    ///
    /// # Errors
    /// `directory-not-found` without a parent, `symlink-escape`, `invalid-argument` for the root,
    /// `reserved-name` for names of our temporary files.
    pub fn place(&self, path: &WsPath, follow: Follow) -> Result<Place> {
        let name = leaf_name(path)?;
        let parent = path.parent();
        let dir = if parent.is_root() {
            Some(self.root())
        } else {
            match self.kernel(&parent, OFlags::PATH | OFlags::DIRECTORY, resolve::NO_LINKS) {
                Some(Ok(fd)) => Some(Dir::new(Arc::new(fd), parent)),
                Some(Err(Errno::NOTDIR)) | None => None,
                Some(Err(errno)) => return Err(no_directory(errno, "opening the directory", &parent).at(path)),
            }
        };
        if let Some(dir) = dir {
            let is_link = follow == Follow::Yes
                && dir
                    .stat(name.as_bytes())
                    .map_err(|error| error.at(path))?
                    .is_some_and(|stat| stat.kind == Kind::Symlink);
            if !is_link {
                return Place::new(dir, name).map_err(|error| error.at(path));
            }
        }
        let mut walk = Walk::new(self);
        walk.push(path);
        let leaf = walk.run(follow);
        walk.into_place(leaf, path)
    }

    /// As [`Jail::place`], making the directories that are missing, with `dir_mode` less the umask.
    /// Returns those it made, from the top down, also when the place was then lost to somebody else.
    ///
    /// # Errors
    /// As [`Jail::place`]; `not-a-directory` where a file is in the way.
    pub fn place_creating(&self, path: &WsPath, follow: Follow, dir_mode: u32) -> Result<(Place, Vec<WsPath>)> {
        match self.place(path, follow) {
            Ok(place) => return Ok((place, Vec::new())),
            Err(error) if error.kind() == ErrorKind::DirectoryNotFound => {}
            Err(error) => return Err(error),
        }
        handle::check_mode(dir_mode).map_err(|error| error.at(path))?;
        let mut walk = Walk::new(self);
        walk.create_parents(dir_mode);
        walk.push(path);
        let leaf = walk.run(follow);
        let created = walk.take_created();
        walk.into_place(leaf, path).map(|place| (place, created))
    }

    /// Lets the kernel resolve; `None` where the walk has to.
    fn kernel(&self, path: &WsPath, flags: OFlags, resolve: ResolveFlags) -> Option<Result<OwnedFd, Errno>> {
        if self.walk_only {
            return None;
        }
        let bytes = if path.is_root() { &b"."[..] } else { path.as_bytes() };
        match sys::open_beneath(self.fd.as_fd(), bytes, flags | OFlags::CLOEXEC, resolve) {
            // A link where none is allowed, one that is absolute or leads out, an unlucky race, no such call.
            // And trees may be deeper than one call can name; a too long name stays one for the walk too.
            Err(Errno::LOOP | Errno::XDEV | Errno::AGAIN | Errno::NOSYS | Errno::NAMETOOLONG) => None,
            other => Some(other),
        }
    }

    fn rebase(&self, target: &[u8]) -> Option<Vec<Vec<u8>>> {
        [&self.real, &self.host].into_iter().find_map(|root| below(root.as_os_str().as_bytes(), target))
    }
}

/// Returns the parts of the absolute path `target` below the absolute path `root`, compared part by part.
fn below(root: &[u8], target: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_part = |part: &&[u8]| !part.is_empty() && *part != b".";
    let mut rest = target.split(|&byte| byte == b'/').filter(is_part);
    for part in root.split(|&byte| byte == b'/').filter(is_part) {
        if rest.next() != Some(part) {
            return None;
        }
    }
    let mut parts: Vec<Vec<u8>> = rest.map(<[u8]>::to_vec).collect();
    if target.ends_with(b"/") || target.ends_with(b"/.") {
        parts.push(b".".to_vec());
    }
    Some(parts)
}

fn leaf_name(path: &WsPath) -> Result<Name> {
    let Some(name) = path.name() else {
        return Err(
            Error::new(ErrorKind::InvalidArgument, "the workspace root itself cannot be replaced or removed").at(path)
        );
    };
    Name::new(name).map_err(|error| error.at(path))
}

fn no_directory(errno: Errno, doing: &str, path: &WsPath) -> Error {
    let error = Error::os(errno, doing).at(path);
    if errno == Errno::NOENT { error.with_kind(ErrorKind::DirectoryNotFound) } else { error }
}
