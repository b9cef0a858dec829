//! A filesystem in memory: one [`Tree`] behind a lock.
//!
//! A snapshot is a clone of the tree. Hard links are two entries that share their bytes until one is
//! replaced, which is all a writer can see of a hard link here and on disk, where writes never go
//! through an existing file.

use crate::core::cancel::Work;
use crate::core::content::Content;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::Flock;
use crate::core::fs::jail::refuse_reserved;
use crate::core::fs::{Captured, Features, FileSystem, Keeper, OpenFile, Place, PutMode};
use crate::core::path::{Name, RawPath, WsPath};
use crate::core::tree::diff::Change;
use crate::core::tree::resolve::{Follow, resolve, resolve_plain};
use crate::core::tree::walk::{Directory, Info, Listed};
use crate::core::tree::{DIRECTORY_MODE, Entry, Tree};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A filesystem in memory.
#[derive(Debug, Default)]
pub struct Memory {
    tree: RwLock<Tree>,
}

impl Memory {
    /// Starts with the entries of `tree`.
    pub fn new(tree: Tree) -> Self {
        Memory { tree: RwLock::new(tree) }
    }

    /// Returns the present tree.
    pub fn tree(&self) -> Tree {
        self.tree.read().clone()
    }

    /// Replaces everything.
    pub fn set_tree(&self, tree: Tree) {
        *self.tree.write() = tree;
    }

    fn with_file<T>(&self, path: &WsPath, read: impl FnOnce(&Content) -> Result<T>) -> Result<T> {
        let tree = self.tree.read();
        let found = match resolve_plain(&tree, path, Follow::Yes).map_err(|error| error.at(path))? {
            Some(found) => found,
            None => find(&tree, path, Follow::Yes)?.map(|(_, entry)| entry),
        };
        drop(tree);
        match found {
            Some(Entry::File { content, .. }) => read(&content),
            Some(Entry::Directory { .. }) => Err(Error::new(ErrorKind::IsADirectory, "is a directory").at(path)),
            _ => Err(Error::new(ErrorKind::FileNotFound, "no such file").at(path)),
        }
    }

    fn put_at(&self, path: &WsPath, entry: Option<Entry>) -> Result<()> {
        let mut tree = self.tree.write();
        match entry {
            Some(entry) => tree.insert(path, entry),
            None => tree.remove(path),
        }
    }
}

/// Finds what stands at a path; nothing stands where a link leads nowhere.
fn find(tree: &Tree, path: &WsPath, follow: Follow) -> Result<Option<(WsPath, Entry)>> {
    match resolve(tree, path.names(), follow) {
        Ok(found) => Ok(found.entry.map(|entry| (found.path, entry))),
        Err(error) if error.kind() == ErrorKind::FileNotFound => Ok(None),
        Err(error) => Err(error.at(path)),
    }
}

/// Finds the link on the way to a missing `path` that leads nowhere: no directory is made there, as on a disk.
fn link_to_nowhere(tree: &Tree, path: &WsPath) -> Result<Option<WsPath>> {
    let mut at = path.clone();
    while !at.is_root() && find(tree, &at, Follow::Yes)?.is_none() {
        if find(tree, &at, Follow::No)?.is_some() {
            return Ok(Some(at));
        }
        at = at.parent();
    }
    Ok(None)
}

/// Refuses to make what no directory on a disk could hold beside our temporary files.
fn check_name(path: &WsPath, asked: &WsPath) -> Result<()> {
    path.name().map_or(Ok(()), refuse_reserved).map_err(|error| error.at(asked))
}

/// Fails for a file whose bytes a store has lost: no size would be true.
fn info(entry: &Entry) -> Result<Info> {
    if let Entry::File { content, .. } = entry {
        content.check()?;
    }
    Ok(Info { kind: entry.kind(), mode: entry.mode(), size: entry.len(), modified_ns: None, links: 1 })
}

fn clamp(content: &Content, range: Option<Range<u64>>) -> Range<u64> {
    range.unwrap_or(0..content.len())
}

impl FileSystem for Memory {
    fn features(&self) -> Features {
        Features { symlinks: true, hard_links: true, permissions: true, real_path: false }
    }

    fn canonical(&self, raw: &RawPath) -> Result<WsPath> {
        if let Some(path) = raw.plain() {
            return Ok(path);
        }
        let (parts, below) = raw.split_parents();
        match resolve(&self.tree(), parts.into_iter(), Follow::Yes) {
            Ok(found) => Ok(found.path.join_path(&below)),
            Err(error) if error.kind() == ErrorKind::FileNotFound => Err(if raw.climbs_out() {
                Error::new(ErrorKind::PathEscape, "the path leaves the workspace")
            } else {
                error.with_kind(ErrorKind::DirectoryNotFound)
            }),
            Err(error) => Err(error),
        }
    }

    fn lookup(&self, path: &WsPath, follow: Follow) -> Result<Option<(WsPath, Info)>> {
        let found = find(&self.tree.read(), path, follow)?;
        found.map(|(at, entry)| Ok((at, info(&entry).map_err(|error| error.at(path))?))).transpose()
    }

    fn read(&self, path: &WsPath, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.with_file(path, |content| content.read(clamp(content, range)))
    }

    fn try_read(&self, path: &WsPath, range: Option<Range<u64>>, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let Some(tree) = self.tree.try_read() else { return Ok(None) };
        drop(tree);
        self.with_file(path, |content| {
            let range = clamp(content, range);
            // Bytes that stand elsewhere (a store's) have to be read from a disk.
            if content.in_memory().is_none() || range.end.min(content.len()).saturating_sub(range.start) > max_bytes {
                return Ok(None);
            }
            content.read(range).map(Some)
        })
    }

    fn open(&self, path: &WsPath) -> Result<Box<dyn OpenFile>> {
        self.with_file(path, |content| Ok(Box::new(content.clone()) as Box<dyn OpenFile>))
    }

    fn directory(&self, path: &WsPath) -> Result<Arc<dyn Directory>> {
        match find(&self.tree.read(), path, Follow::Yes)?.map(|(_, entry)| entry) {
            Some(Entry::Directory { tree, .. }) => Ok(Arc::new(tree)),
            Some(_) => Err(Error::new(ErrorKind::NotADirectory, "not a directory").at(path)),
            None => Err(Error::new(ErrorKind::DirectoryNotFound, "no such directory").at(path)),
        }
    }

    fn read_link(&self, path: &WsPath) -> Result<Vec<u8>> {
        match find(&self.tree.read(), path, Follow::No)?.map(|(_, entry)| entry) {
            Some(Entry::Symlink { target }) => Ok(target.to_vec()),
            Some(_) => Err(Error::new(ErrorKind::NotALink, "not a symbolic link").at(path)),
            None => Err(Error::new(ErrorKind::FileNotFound, "no such entry").at(path)),
        }
    }

    fn place(&self, path: &WsPath, follow: Follow) -> Result<Box<dyn Place + '_>> {
        let tree = self.tree.read();
        if let Some(present) = resolve_plain(&tree, path, follow).map_err(|error| error.at(path))? {
            check_name(path, path)?;
            return Ok(Box::new(MemoryPlace { memory: self, path: path.clone(), missing: vec![], present }));
        }
        let nowhere = |at: &WsPath| Error::new(ErrorKind::DirectoryNotFound, "a link that leads nowhere").at(at);
        let found = match resolve(&tree, path.names(), follow) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::FileNotFound => {
                return Err(nowhere(link_to_nowhere(&tree, path)?.as_ref().unwrap_or(path)));
            }
            Err(error) => return Err(error.at(path)),
        };
        if found.path.is_root() {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "the path leads to the root, which cannot be replaced").at(path)
            );
        }
        let mut missing = Vec::new();
        let mut parent = found.path.parent();
        while !parent.is_root() && found.entry.is_none() && tree.get(&parent)?.is_none() {
            missing.push(parent.clone());
            parent = parent.parent();
        }
        missing.reverse();
        if !missing.is_empty()
            && let Some(link) = link_to_nowhere(&tree, path)?
        {
            return Err(nowhere(&link));
        }
        if missing.is_empty() {
            check_name(&found.path, path)?;
        }
        Ok(Box::new(MemoryPlace { memory: self, path: found.path, missing, present: found.entry }))
    }

    fn rename(&self, from: &WsPath, to: &WsPath, replace: bool) -> Result<()> {
        let mut tree = self.tree.write();
        let entry = tree.get(from)?.ok_or_else(|| Error::new(ErrorKind::FileNotFound, "no such entry").at(from))?;
        if !replace && tree.get(to)?.is_some() {
            return Err(Error::new(ErrorKind::FileExists, "already exists").at(to));
        }
        tree.insert(to, entry)?;
        tree.remove(from)
    }

    fn hard_link(&self, from: &WsPath, to: &WsPath) -> Result<()> {
        let mut tree = self.tree.write();
        let entry = tree.get(from)?.ok_or_else(|| Error::new(ErrorKind::FileNotFound, "no such entry").at(from))?;
        tree.insert(to, entry)
    }

    fn capture(&self, _keeper: &dyn Keeper, _work: &Work) -> Result<Captured> {
        Ok(Captured { tree: self.tree(), ..Captured::default() })
    }

    fn apply(&self, changes: &[Change], _work: &Work) -> Result<()> {
        // Prepared aside and shown at once: a reader sees the tree before or after.
        let mut tree = self.tree();
        for change in changes.iter().rev().filter(|change| change.after.is_none()) {
            tree.remove(&change.path)?;
        }
        for change in changes {
            if change.after.is_some() {
                check_name(&change.path, &change.path)?;
            }
            match &change.after {
                Some(Entry::Directory { mode, .. }) => {
                    let inside = match tree.get(&change.path)? {
                        Some(Entry::Directory { tree, .. }) => tree,
                        _ => Tree::default(),
                    };
                    tree.insert(&change.path, Entry::Directory { tree: inside, mode: *mode })?;
                }
                Some(entry) => tree.insert(&change.path, entry.clone())?,
                None => {}
            }
        }
        self.set_tree(tree);
        Ok(())
    }

    fn check_identity(&self) -> Result<()> {
        Ok(())
    }

    fn hold(&self, _work: &Work, _timeout: Duration) -> Result<Option<Flock>> {
        Ok(None)
    }
}

impl OpenFile for Content {
    fn size(&self) -> u64 {
        self.len()
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        Content::read(self, range)
    }
}

impl Directory for Tree {
    fn list(&self) -> Result<Vec<Listed>> {
        Ok(self.entries()?.iter().map(|(name, entry)| Listed { name: name.clone(), kind: entry.kind() }).collect())
    }

    fn list_with_info(&self) -> Result<Vec<(Name, Info)>> {
        self.entries()?.iter().map(|(name, entry)| Ok((name.clone(), info(entry)?))).collect()
    }

    fn child(&self, name: &Name) -> Result<Arc<dyn Directory>> {
        match self.entries()?.get(name) {
            Some(Entry::Directory { tree, .. }) => Ok(Arc::new(tree.clone())),
            _ => Err(Error::new(ErrorKind::NotADirectory, "not a directory")),
        }
    }

    fn read_into(&self, name: &Name, max_bytes: u64, buffer: &mut Vec<u8>) -> Result<u64> {
        buffer.clear();
        let Some(Entry::File { content, .. }) = self.entries()?.get(name) else {
            return Err(Error::new(ErrorKind::FileNotFound, "no such file"));
        };
        if content.len() <= max_bytes {
            match content.in_memory() {
                Some(bytes) => buffer.extend_from_slice(bytes),
                None => *buffer = content.read_all()?,
            }
        }
        Ok(content.len())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[derive(Debug)]
struct MemoryPlace<'a> {
    memory: &'a Memory,
    path: WsPath,
    missing: Vec<WsPath>,
    /// What stood there when the place was made; nobody else changes anything while it is used.
    present: Option<Entry>,
}

impl Place for MemoryPlace<'_> {
    fn path(&self) -> &WsPath {
        &self.path
    }

    fn missing(&self) -> &[WsPath] {
        &self.missing
    }

    fn make_missing(&mut self) -> Result<()> {
        for path in self.missing.iter().chain([&self.path]) {
            check_name(path, &self.path)?;
        }
        for path in std::mem::take(&mut self.missing) {
            self.memory.put_at(&path, Some(Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE }))?;
        }
        Ok(())
    }

    fn info(&self) -> Result<Option<Info>> {
        self.present.as_ref().map(info).transpose()
    }

    fn before(&self, _keeper: &dyn Keeper, _work: &Work) -> Result<Option<Entry>> {
        Ok(self.present.clone())
    }

    fn put(&self, entry: &Entry, mode: PutMode, _work: &Work) -> Result<()> {
        let mut tree = self.memory.tree.write();
        let present = &self.present;
        if mode == PutMode::Create && present.is_some() {
            return Err(Error::new(ErrorKind::FileExists, "already exists").at(&self.path));
        }
        let entry = match (entry, present, mode) {
            (Entry::File { .. }, Some(Entry::Directory { .. }), _) => {
                return Err(Error::new(ErrorKind::IsADirectory, "is a directory").at(&self.path));
            }
            (Entry::File { content, .. }, Some(Entry::File { mode: kept, .. }), PutMode::Write) => {
                Entry::File { content: content.clone(), mode: *kept }
            }
            _ => entry.clone(),
        };
        tree.insert(&self.path, entry)
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        let mut tree = self.memory.tree.write();
        let entry = match tree.get(&self.path)? {
            Some(Entry::File { content, .. }) => Entry::File { content, mode },
            Some(Entry::Directory { tree, .. }) => Entry::Directory { tree, mode },
            Some(Entry::Symlink { .. }) => {
                return Err(
                    Error::new(ErrorKind::NotSupported, "a symbolic link has no mode of its own").at(&self.path)
                );
            }
            None => return Err(Error::new(ErrorKind::FileNotFound, "no such entry").at(&self.path)),
        };
        tree.insert(&self.path, entry)
    }

    fn remove(&self, _work: &Work) -> Result<()> {
        self.memory.put_at(&self.path, None)
    }
}
