//! The walk: resolves a path one name at a time on handles.
//!
//! Invariants: no call here names more than one component, none follows a link, and `..` is never
//! given to the kernel: it pops the stack of handles we came down by. So whatever is renamed
//! meanwhile, each handle was reached from the root by names alone. The stack keeps a bounded number
//! of handles open; one that was let go is reopened from its nearest open ancestor, again by names.

use super::handle::{Dir, Stat};
use super::place::Place;
use super::{Follow, Jail, sys};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::WsPath;
use crate::core::tree::Kind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::sync::Arc;

/// The kernel follows nothing: a path that opens so is canonical.
pub(super) const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);
/// The kernel follows relative links that stay inside.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Links on one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Handles the stack keeps open.
const MAX_OPEN: usize = 64;
/// Tries to make a directory that somebody else keeps removing, or to open one that keeps changing.
const MAX_TRIES: usize = 128;

/// Parts of a path, the next one last.
pub(super) type Parts = Vec<Vec<u8>>;

/// Where a walk ended.
#[derive(Debug)]
pub(super) enum Leaf {
    /// At the directory on top of the stack: the root, or a path that ended in `..`.
    Top,
    /// At an entry of the directory on top of the stack.
    Entry { name: Vec<u8>, handle: OwnedFd, stat: Stat },
    /// At a name that is not in the directory on top of the stack.
    Missing { name: Vec<u8> },
}

struct Frame {
    name: Vec<u8>,
    /// `None` once it was let go.
    fd: Option<Arc<OwnedFd>>,
}

pub(super) struct Walk<'a> {
    jail: &'a Jail,
    stack: Vec<Frame>,
    pending: Parts,
    links: usize,
    create: Option<u32>,
    created: Vec<WsPath>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(jail: &'a Jail) -> Self {
        Walk { jail, stack: Vec::new(), pending: Vec::new(), links: 0, create: None, created: Vec::new() }
    }

    pub(super) fn push(&mut self, path: &WsPath) {
        self.pending.extend(path.names().rev().map(<[u8]>::to_vec));
    }

    pub(super) fn push_parts(&mut self, parts: &[&[u8]]) {
        self.pending.extend(parts.iter().rev().map(|part| part.to_vec()));
    }

    /// Makes missing directories on the way.
    pub(super) fn create_parents(&mut self, mode: u32) {
        self.create = Some(mode);
    }

    pub(super) fn take_created(&mut self) -> Vec<WsPath> {
        std::mem::take(&mut self.created)
    }

    /// Returns the canonical path of the directory on top of the stack.
    pub(super) fn top_path(&self) -> WsPath {
        let names: Vec<&[u8]> = self.stack.iter().map(|frame| frame.name.as_slice()).collect();
        let joined = names.join(&b'/');
        if joined.is_empty() { WsPath::root() } else { WsPath::root().join(&joined) }
    }

    pub(super) fn into_top(mut self) -> Dir {
        let path = self.top_path();
        let fd = match self.stack.pop() {
            Some(Frame { fd: Some(fd), .. }) => fd,
            _ => Arc::clone(&self.jail.fd),
        };
        Dir::new(fd, path)
    }

    /// Turns the end of a walk into a place.
    pub(super) fn into_place(mut self, leaf: Result<Leaf>, asked: &WsPath) -> Result<Place> {
        let name = match leaf {
            Ok(Leaf::Entry { name, .. } | Leaf::Missing { name }) => name,
            Ok(Leaf::Top) => {
                let Some(frame) = self.stack.pop() else {
                    let message = "the path leads to the workspace root, which cannot be replaced or removed";
                    return Err(Error::new(ErrorKind::InvalidArgument, message).at(asked));
                };
                self.reopen_top().map_err(|error| error.at(asked))?;
                frame.name
            }
            Err(error) if error.kind() == ErrorKind::FileNotFound => {
                return Err(error.with_kind(ErrorKind::DirectoryNotFound).at(asked));
            }
            Err(error) => return Err(error.at(asked)),
        };
        let name = crate::core::path::Name::new(&name).map_err(|error| error.at(asked))?;
        Place::new(self.into_top(), name).map_err(|error| error.at(asked))
    }

    fn top(&self) -> BorrowedFd<'_> {
        match self.stack.last() {
            Some(Frame { fd: Some(fd), .. }) => fd.as_fd(),
            _ => self.jail.fd.as_fd(),
        }
    }

    /// Walks to the end.
    pub(super) fn run(&mut self, follow: Follow) -> Result<Leaf> {
        let mut tries = 0;
        while let Some(part) = self.pending.pop() {
            if part == b"." {
                continue;
            }
            if part == b".." {
                self.pop()?;
                continue;
            }
            let last = self.pending.is_empty();
            let handle = match sys::open_leaf(self.top(), &part, sys::LOOK) {
                Ok(handle) => handle,
                Err(Errno::NOENT) if last => return Ok(Leaf::Missing { name: part }),
                Err(Errno::NOENT) if self.create.is_some() && self.pending.iter().all(|part| part != b"..") => {
                    tries += 1;
                    if tries > MAX_TRIES {
                        return Err(Error::new(ErrorKind::PathRace, "a directory on the path keeps disappearing"));
                    }
                    self.make(&part)?;
                    self.pending.push(part);
                    continue;
                }
                Err(errno) => return Err(Error::os(errno, "resolving the path")),
            };
            let stat = sys::fstat(handle.as_fd()).map_err(|errno| Error::os(errno, "resolving the path"))?;
            match stat.kind {
                Kind::Symlink if last && follow == Follow::No => return Ok(Leaf::Entry { name: part, handle, stat }),
                Kind::Symlink => self.expand(handle.as_fd())?,
                _ if last => return Ok(Leaf::Entry { name: part, handle, stat }),
                Kind::Directory => {
                    tries = 0;
                    self.descend(part, handle);
                }
                _ => return Err(Error::os(Errno::NOTDIR, "resolving the path")),
            }
        }
        Ok(Leaf::Top)
    }

    fn make(&mut self, name: &[u8]) -> Result<()> {
        let mode = Mode::from_raw_mode(self.create.unwrap_or(0o777));
        super::place::refuse_reserved(name)?;
        match sys::retry(|| rustix::fs::mkdirat(self.top(), name, mode)) {
            Ok(()) => {
                let path = self.top_path().join(name);
                self.created.push(path);
                Ok(())
            }
            Err(Errno::EXIST) => Ok(()), // somebody else was faster; the next look tells what it is
            Err(errno) => Err(Error::os(errno, "making a directory")),
        }
    }

    fn descend(&mut self, name: Vec<u8>, fd: OwnedFd) {
        if self.stack.len() >= MAX_OPEN {
            let at = self.stack.len() - MAX_OPEN;
            self.stack[at].fd = None;
        }
        self.stack.push(Frame { name, fd: Some(Arc::new(fd)) });
    }

    fn pop(&mut self) -> Result<()> {
        if self.stack.pop().is_none() {
            return Err(self.escape());
        }
        self.reopen_top()
    }

    /// Opens the top of the stack again if it was let go, from its nearest open ancestor.
    fn reopen_top(&mut self) -> Result<()> {
        let open = self.stack.iter().rposition(|frame| frame.fd.is_some());
        let first = open.map_or(0, |at| at + 1);
        let depth = self.stack.len();
        let mut current = match open {
            Some(at) => self.stack[at].fd.clone(),
            None => None,
        };
        for at in first..depth {
            let parent = current.as_ref().unwrap_or(&self.jail.fd);
            let fd = sys::open_leaf(parent.as_fd(), &self.stack[at].name, sys::LOOK | OFlags::DIRECTORY).map_err(
                |errno| match errno {
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                        Error::new(ErrorKind::PathRace, "a directory on the path was moved meanwhile")
                    }
                    errno => Error::os(errno, "resolving the path"),
                },
            )?;
            let fd = Arc::new(fd);
            if depth - at <= MAX_OPEN {
                self.stack[at].fd = Some(Arc::clone(&fd));
            }
            current = Some(fd);
        }
        Ok(())
    }

    /// Replaces a link by the parts of its target, read from the handle: what is read is what was seen.
    fn expand(&mut self, link: BorrowedFd<'_>) -> Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Error::new(ErrorKind::SymlinkLoop, "too many symbolic links on the path"));
        }
        if sys::is_procfs(link) {
            return Err(self.escape());
        }
        let target = sys::retry(|| rustix::fs::readlinkat(link, c"", Vec::new()))
            .map_err(|errno| Error::os(errno, "reading a link"))?
            .into_bytes();
        let parts = if target.starts_with(b"/") {
            let Some(parts) = self.jail.rebase(&target) else { return Err(self.escape()) };
            self.stack.clear();
            parts
        } else {
            let mut parts: Parts = target
                .split(|&byte| byte == b'/')
                .filter(|part| !part.is_empty() && *part != b".")
                .map(<[u8]>::to_vec)
                .collect();
            if target.ends_with(b"/") || target.ends_with(b"/.") {
                parts.push(b".".to_vec());
            }
            parts
        };
        self.pending.extend(parts.into_iter().rev());
        Ok(())
    }

    fn escape(&self) -> Error {
        if self.links > 0 {
            Error::new(ErrorKind::SymlinkEscape, "a symbolic link on the path leads out of the workspace")
        } else {
            Error::new(ErrorKind::PathEscape, "the path leaves the workspace")
        }
    }
}
