//! What can become a tree and take one.
//!
//! A [`FileSystem`] answers reads by path, hands out [`Place`]s for changes, and is captured whole. It
//! knows nothing of records, authors and checkpoints: the floor above holds the lock, writes down what
//! is about to happen, and then asks a place to do it. A place is where a path really is: links and
//! parents are resolved once, when it is made.

pub mod disk;
pub mod jail;
pub mod memory;

use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectHasher, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::Flock;
use crate::core::path::{RawPath, WsPath};
use crate::core::tree::diff::Change;
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::{Directory, Info};
use crate::core::tree::{Entry, Kind, Tree};
use std::collections::HashSet;
use std::fmt::Debug;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Tells whether a path is one of these or lies below one.
pub(crate) fn is_within(path: &WsPath, any: &HashSet<&WsPath>) -> bool {
    let mut at = path.clone();
    while !any.is_empty() && !at.is_root() {
        if any.contains(&at) {
            return true;
        }
        at = at.parent();
    }
    any.contains(&at)
}

/// What a filesystem can do.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent abilities")]
pub struct Features {
    /// It holds symbolic links.
    pub symlinks: bool,
    /// Two names may share one file.
    pub hard_links: bool,
    /// It keeps permission bits.
    pub permissions: bool,
    /// It stands at a path of the host.
    pub real_path: bool,
}

/// Takes bytes that must outlive what is about to happen, and answers with where they are kept.
pub trait Keeper: Send + Sync {
    /// Tells whether bytes kept earlier are still there.
    fn has(&self, _id: ObjectId) -> bool {
        true
    }

    /// Keeps small content, already in memory.
    fn keep(&self, bytes: &[u8]) -> Result<ObjectId>;

    /// Keeps `len` bytes of `reader`, however many, in bounded memory.
    fn keep_stream(&self, len: u64, reader: &mut dyn Read, work: &Work) -> Result<ObjectId>;

    /// Names kept content.
    fn content(&self, id: ObjectId, len: u64) -> Content;

    /// Makes everything kept so far last; until then it is only promised.
    fn finish(&self) -> Result<()>;
}

/// A path that was left out of a capture, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Skipped {
    /// Where.
    pub path: WsPath,
    /// One word or two: `fifo`, `socket`, `device`, `unreadable`, `too deep`, `changing`, `ignored`.
    pub reason: String,
}

/// The reason of what the rules leave out.
pub const IGNORED: &str = "ignored";

impl Skipped {
    /// Tells whether a pipe, socket or device stands there, so that it is known not to be a file.
    pub fn is_special(&self) -> bool {
        matches!(self.reason.as_str(), "fifo" | "socket" | "device" | "special")
    }

    /// Tells whether the rules left it out, rather than that it could not be read.
    pub fn is_ignored(&self) -> bool {
        self.reason == IGNORED
    }
}

/// A whole filesystem as a tree.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// The tree.
    pub tree: Tree,
    /// What it does not hold, sorted by path. Nothing may delete these paths for not being in the tree.
    pub skipped: Vec<Skipped>,
    /// Directories with temporary files of ours, which a crash or a failing disk left behind.
    pub leftovers: Vec<WsPath>,
}

/// A file opened for reading from front to back.
pub trait OpenFile: Send + Sync + Debug {
    /// Returns the size when it was opened.
    fn size(&self) -> u64;

    /// Reads `range`; past the end is empty, at the end is short.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>>;
}

/// Hashes a file in pieces, however large it is.
pub(crate) fn file_id(file: &dyn OpenFile, path: &WsPath, work: &Work) -> Result<ObjectId> {
    let mut hasher = ObjectHasher::new("blob", file.size());
    let mut at = 0;
    while at < file.size() {
        work.check()?;
        let piece = file.read(at..(at + (1 << 20)).min(file.size()))?;
        if piece.is_empty() {
            return Err(Error::new(ErrorKind::PathRace, "the file changed while it was read").at(path));
        }
        hasher.update(&piece);
        at += piece.len() as u64;
    }
    Ok(hasher.finish())
}

/// A place for files.
pub trait FileSystem: Send + Sync + Debug {
    /// Tells what it can do.
    fn features(&self) -> Features;

    /// Turns what a caller wrote into a path, resolving `..` through links.
    fn canonical(&self, raw: &RawPath) -> Result<WsPath>;

    /// Finds an entry: its canonical path and what is known of it. `None` if nothing stands there.
    fn lookup(&self, path: &WsPath, follow: Follow) -> Result<Option<(WsPath, Info)>>;

    /// Reads a file, or a range of it.
    fn read(&self, path: &WsPath, range: Option<Range<u64>>) -> Result<Vec<u8>>;

    /// Reads as [`FileSystem::read`] does, but only if that waits for nothing; `None` if it might.
    fn try_read(&self, path: &WsPath, range: Option<Range<u64>>, max_bytes: u64) -> Result<Option<Vec<u8>>>;

    /// Opens a file for reading.
    fn open(&self, path: &WsPath) -> Result<Box<dyn OpenFile>>;

    /// Opens a directory, through links inside.
    fn directory(&self, path: &WsPath) -> Result<Arc<dyn Directory>>;

    /// Reads where a link points, as written.
    fn read_link(&self, path: &WsPath) -> Result<Vec<u8>>;

    /// Finds where a change of `path` would take place. Parents may be missing: [`Place::missing`].
    ///
    /// # Errors
    /// `invalid-argument` for the root, also where a link leads there: it is no place.
    fn place(&self, path: &WsPath, follow: Follow) -> Result<Box<dyn Place + '_>>;

    /// Renames in one step. With `replace`, a file, link or empty directory at `to` goes.
    fn rename(&self, from: &WsPath, to: &WsPath, replace: bool) -> Result<()>;

    /// Makes `to` a second name of the file `from`.
    fn hard_link(&self, from: &WsPath, to: &WsPath) -> Result<()>;

    /// Turns everything into a tree. What is known from the last capture is not read again.
    fn capture(&self, keeper: &dyn Keeper, work: &Work) -> Result<Captured>;

    /// Makes the filesystem hold exactly `changes`, in an order that never needs what is not there yet.
    fn apply(&self, changes: &[Change], work: &Work) -> Result<()>;

    /// Fails if [`FileSystem::apply`] would take the place of something that was left out of the capture and
    /// so could not be brought back; changes nothing.
    ///
    /// # Errors
    /// `uncheckpointed-changes` with the path of what would be lost.
    fn check_apply(&self, changes: &[Change], keep: &[Skipped]) -> Result<()> {
        let kept: HashSet<&WsPath> = keep.iter().map(|skipped| &skipped.path).collect();
        if kept.is_empty() {
            return Ok(());
        }
        for change in changes {
            let Some(after) = &change.after else { continue };
            let makes_leaf = after.kind() != Kind::Directory;
            let lost = if kept.contains(&change.path) {
                Some(&change.path)
            } else if makes_leaf && matches!(change.before, Some(Entry::Directory { .. })) {
                kept.iter().copied().find(|path| path.starts_with(&change.path))
            } else if is_within(&change.path, &kept) && !matches!(self.lookup(&change.path, Follow::No), Ok(None)) {
                // Something stands in a directory that was not looked into, or nobody can tell.
                Some(&change.path)
            } else {
                None
            };
            if let Some(path) = lost {
                return Err(Error::new(
                    ErrorKind::UncheckpointedChanges,
                    "no checkpoint holds this entry, and it would be replaced",
                )
                .at(path)
                .with_hint("Move it elsewhere, or make it readable and take a checkpoint, then retry."));
            }
        }
        Ok(())
    }

    /// Fails if the place the filesystem was opened at is another one now.
    fn check_identity(&self) -> Result<()>;

    /// Keeps other processes off the files.
    fn hold(&self, work: &Work, timeout: Duration) -> Result<Option<Flock>>;

    /// Makes what was written survive a power loss.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Remembers across processes what the last capture learnt, if it is that kind of filesystem, and lets go
    /// of it. Calls that are still going on are not disturbed.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Where one change takes place.
pub trait Place: Debug {
    /// Returns the canonical path.
    fn path(&self) -> &WsPath;

    /// Returns the directories that have to be made first, outermost first.
    fn missing(&self) -> &[WsPath];

    /// Makes the missing directories and goes there.
    fn make_missing(&mut self) -> Result<()>;

    /// Looks at what stands there.
    fn info(&self) -> Result<Option<Info>>;

    /// Returns what stands there, with its bytes safe: in memory if they are few, kept if not.
    fn before(&self, keeper: &dyn Keeper, work: &Work) -> Result<Option<Entry>>;

    /// Puts a file, link or empty directory there, in one step. How an existing entry and its mode are treated
    /// `mode` says.
    fn put(&self, entry: &Entry, mode: PutMode, work: &Work) -> Result<()>;

    /// Changes the permission bits.
    fn set_mode(&self, mode: u32) -> Result<()>;

    /// Removes what stands there, with all below it.
    fn remove(&self, work: &Work) -> Result<()>;
}

/// How [`Place::put`] treats what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutMode {
    /// A caller's write: keeps the mode and attributes of the file it replaces.
    Write,
    /// As [`PutMode::Write`], but nothing may stand there.
    Create,
    /// A restore: the entry's mode counts, attributes of a replaced file stay.
    Restore,
}

pub use jail::ResolverChoice;
