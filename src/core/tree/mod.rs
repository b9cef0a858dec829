//! `Tree`: the one idea everything else is made of.
//!
//! A tree is an immutable directory: sorted entries, each a file, a link or another tree, shared by
//! `Arc`. Cloning one is a snapshot. A change costs a path, not a directory: entries stand in a
//! persistent ordered map, changed in place while nobody else holds it and by copying a few nodes of
//! the map when somebody does. A tree that came from the store is read only when somebody looks into it.
//!
//! What names a tree is its [`TreeKey`]: the id git gives it, and the id of the modes git cannot hold.
//! This floor compares and caches keys; only the store computes them, because only it knows how names
//! and modes are written.

pub mod diff;
pub mod glob;
pub mod ignore;
pub mod matcher;
pub mod resolve;
pub mod walk;

use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::{Name, WsPath};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Mode of a file nobody gave a mode.
pub const FILE_MODE: u32 = 0o644;
/// Mode of a directory nobody gave a mode.
pub const DIRECTORY_MODE: u32 = 0o755;

/// Directories inside each other, at most: as many as the longest path has room for. Trees are compared, written
/// and dropped by recursion: on a stack of 8 MiB 4,000 levels passed and 4,900 did not (debug build).
pub const MAX_DEPTH: usize = 2048;

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe; never opened.
    Fifo,
    /// A socket; never opened.
    Socket,
    /// A device; never opened.
    Device,
}

impl Kind {
    /// Tells whether a tree can hold it.
    pub fn is_special(self) -> bool {
        matches!(self, Kind::Fifo | Kind::Socket | Kind::Device)
    }

    /// Refuses what holds no bytes.
    ///
    /// # Errors
    /// `special-file` for a pipe, socket or device.
    pub fn refuse_special(self) -> Result<()> {
        if self.is_special() {
            return Err(Error::new(ErrorKind::SpecialFile, format!("is a {}, not a file", self.as_str())));
        }
        Ok(())
    }

    /// Returns the word users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Device => "device",
        }
    }
}

/// What names a tree for good: equal keys mean equal trees, modes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeKey {
    /// The git tree.
    pub tree: ObjectId,
    /// The git tree of the modes beyond 644, 755 and directories of 755, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<ObjectId>,
}

/// Where trees that were not read yet come from.
pub trait TreeSource: Send + Sync + fmt::Debug {
    /// Reads the entries of one directory.
    fn load(&self, key: TreeKey) -> Result<OrdMap<Name, Entry>>;
}

/// One entry of a directory.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A regular file.
    File {
        /// Its bytes.
        content: Content,
        /// Its permission bits, at most 0777.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as written.
        target: Arc<[u8]>,
    },
    /// A directory.
    Directory {
        /// Its entries.
        tree: Tree,
        /// Its permission bits, at most 0777.
        mode: u32,
    },
}

impl Entry {
    /// Makes a file entry from bytes.
    pub fn file(bytes: &[u8], mode: u32) -> Self {
        Entry::File { content: Content::from_bytes(bytes), mode }
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Entry::File { .. } => Kind::File,
            Entry::Symlink { .. } => Kind::Symlink,
            Entry::Directory { .. } => Kind::Directory,
        }
    }

    /// Returns the permission bits; a link's mean nothing.
    pub fn mode(&self) -> u32 {
        match self {
            Entry::File { mode, .. } | Entry::Directory { mode, .. } => *mode,
            Entry::Symlink { .. } => 0o777,
        }
    }

    /// Returns the length in bytes: of the file, or of the link's target; a directory has none.
    pub fn len(&self) -> u64 {
        match self {
            Entry::File { content, .. } => content.len(),
            Entry::Symlink { target } => target.len() as u64,
            Entry::Directory { .. } => 0,
        }
    }

    /// Tells whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether both are the same in kind, bytes and mode; of directories only the mode is compared.
    pub fn same(&self, other: &Entry) -> Result<bool> {
        Ok(match (self, other) {
            (Entry::File { content: a, mode: m }, Entry::File { content: b, mode: n }) => m == n && a.same(b)?,
            (Entry::Symlink { target: a }, Entry::Symlink { target: b }) => a == b,
            (Entry::Directory { mode: m, .. }, Entry::Directory { mode: n, .. }) => m == n,
            _ => false,
        })
    }
}

/// An immutable directory; clones share everything.
#[derive(Clone)]
pub struct Tree(Arc<Node>);

struct Node {
    entries: OnceLock<OrdMap<Name, Entry>>,
    source: Option<Arc<dyn TreeSource>>,
    key: OnceLock<TreeKey>,
}

impl Clone for Node {
    fn clone(&self) -> Self {
        Node { entries: self.entries.clone(), source: self.source.clone(), key: self.key.clone() }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({:?})", self.0.key.get())
    }
}

impl Default for Tree {
    fn default() -> Self {
        Tree::from_entries(OrdMap::new())
    }
}

impl Tree {
    /// Makes a tree of these entries.
    pub fn from_entries(entries: OrdMap<Name, Entry>) -> Self {
        let cell = OnceLock::new();
        cell.get_or_init(|| entries);
        Tree(Arc::new(Node { entries: cell, source: None, key: OnceLock::new() }))
    }

    /// Names a tree that `source` reads when somebody looks into it.
    pub fn lazy(key: TreeKey, source: Arc<dyn TreeSource>) -> Self {
        let cell = OnceLock::new();
        cell.get_or_init(|| key);
        Tree(Arc::new(Node { entries: OnceLock::new(), source: Some(source), key: cell }))
    }

    /// Tells whether it holds more than `levels` directories inside each other.
    pub fn is_deeper_than(&self, levels: usize) -> Result<bool> {
        let mut level = vec![self.clone()];
        for _ in 0..=levels {
            let mut below = Vec::new();
            for tree in &level {
                below.extend(tree.entries()?.values().filter_map(|entry| match entry {
                    Entry::Directory { tree, .. } => Some(tree.clone()),
                    _ => None,
                }));
            }
            if below.is_empty() {
                return Ok(false);
            }
            level = below;
        }
        Ok(true)
    }

    /// Returns the entries, reading them if need be.
    pub fn entries(&self) -> Result<&OrdMap<Name, Entry>> {
        if let Some(entries) = self.0.entries.get() {
            return Ok(entries);
        }
        let (Some(source), Some(key)) = (&self.0.source, self.0.key.get()) else {
            return Err(Error::new(ErrorKind::Bug, "a tree without entries and source"));
        };
        let entries = source.load(*key)?;
        Ok(self.0.entries.get_or_init(|| entries))
    }

    /// Returns the key if it is known already.
    pub fn known_key(&self) -> Option<TreeKey> {
        self.0.key.get().copied()
    }

    /// Remembers the key the store computed for exactly these entries.
    pub fn remember_key(&self, key: TreeKey) {
        self.0.key.get_or_init(|| key);
    }

    /// Tells whether both are the very same node, or are known to be equal.
    pub fn is_same(&self, other: &Tree) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || matches!((self.known_key(), other.known_key()), (Some(a), Some(b)) if a == b)
    }

    /// Returns the entry at `path` without following links; the root is a directory entry of this tree.
    pub fn get(&self, path: &WsPath) -> Result<Option<Entry>> {
        let mut here = Entry::Directory { tree: self.clone(), mode: DIRECTORY_MODE };
        for name in path.names() {
            let Entry::Directory { tree, .. } = &here else { return Ok(None) };
            match tree.entries()?.get(name) {
                Some(entry) => here = entry.clone(),
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    /// Puts `entry` at `path`, replacing what stands there; the parent must be a directory.
    pub fn insert(&mut self, path: &WsPath, entry: Entry) -> Result<()> {
        self.change(path, Some(entry))
    }

    /// Takes the entry at `path` away, with all below it; nothing happens if there is none.
    pub fn remove(&mut self, path: &WsPath) -> Result<()> {
        self.change(path, None)
    }

    fn change(&mut self, path: &WsPath, entry: Option<Entry>) -> Result<()> {
        let mut names = path.names();
        let Some(leaf) = names.next_back() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "the root cannot be replaced"));
        };
        let mut here = self.entries_mut()?;
        for name in names {
            here = match here.get_mut(name) {
                Some(Entry::Directory { tree, .. }) => tree.entries_mut()?,
                Some(_) => return Err(Error::new(ErrorKind::NotADirectory, "not a directory").at(path)),
                None => return Err(Error::new(ErrorKind::DirectoryNotFound, "no such directory").at(&path.parent())),
            };
        }
        match entry {
            Some(entry) => match here.get_mut(leaf) {
                Some(present) => *present = entry,
                None => drop(here.insert(Name::new(leaf)?, entry)),
            },
            None => {
                here.remove(leaf);
            }
        }
        Ok(())
    }

    /// Opens this node for change: copied if shared, and nameless from now on.
    fn entries_mut(&mut self) -> Result<&mut OrdMap<Name, Entry>> {
        self.entries()?;
        let node = Arc::make_mut(&mut self.0);
        node.source = None;
        node.key = OnceLock::new();
        node.entries.get_mut().ok_or_else(|| Error::new(ErrorKind::Bug, "a tree lost its entries"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WsPath {
        WsPath::new(text).unwrap()
    }

    #[test]
    fn a_snapshot_does_not_see_later_changes() {
        let mut tree = Tree::default();
        tree.insert(&path("d"), Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE }).unwrap();
        tree.insert(&path("d/a"), Entry::file(b"1", FILE_MODE)).unwrap();
        let snapshot = tree.clone();
        tree.insert(&path("d/a"), Entry::file(b"2", FILE_MODE)).unwrap();
        tree.remove(&path("d")).unwrap();
        let Some(Entry::File { content, .. }) = snapshot.get(&path("d/a")).unwrap() else { panic!() };
        assert_eq!(content.read_all().unwrap(), b"1");
        assert!(tree.get(&path("d")).unwrap().is_none());
    }
}
