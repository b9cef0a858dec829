//! How trees stand in the store: git trees, and beside them what git cannot hold.
//!
//! Git knows two modes of a file and none of a directory. What goes beyond 644, 755 and directories of
//! 755 stands in a second tree of the same shape: in each directory a blob `m` of modes and a tree `d`
//! of the subdirectories that have any. Directories without such modes have none, so most projects
//! have no second tree at all, and where they have, it is shared between checkpoints as the first is.
//!
//! A blob of modes is a list of `<octal> <kind or name>\0`: the kinds `/f`, `/x` and `/d` give the mode
//! of every plain file, executable and directory there (a whole project under another umask costs one
//! short blob, the same for all its directories), a name gives its own.

use crate::core::cancel::Work;
use crate::core::content::{Content, ContentSource, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::Name;
use crate::core::store::names::{OwnedItem, TreeItem, TreeMode, decode_tree, encode_tree};
use crate::core::store::objects::{Batch, ObjectKind, Objects};
use crate::core::tree::{Entry, Tree, TreeKey, TreeSource};
use imbl::OrdMap;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Where the objects of a tree go.
pub trait Sink: Sync {
    /// Tells whether the whole tree of this key is there already.
    fn has(&self, key: TreeKey) -> bool;

    /// Puts one object.
    fn put(&self, kind: ObjectKind, bytes: &[u8]) -> Result<ObjectId>;

    /// Puts the bytes of a file.
    fn put_content(&self, content: &Content) -> Result<ObjectId>;
}

/// Only computes ids: for workspaces whose past stands in memory.
#[derive(Debug)]
pub struct HashOnly;

impl Sink for HashOnly {
    fn has(&self, _key: TreeKey) -> bool {
        true
    }

    fn put(&self, kind: ObjectKind, bytes: &[u8]) -> Result<ObjectId> {
        Ok(ObjectId::hash(kind.name(), bytes))
    }

    fn put_content(&self, content: &Content) -> Result<ObjectId> {
        content.id()
    }
}

/// Writes what the store lacks.
#[derive(Debug)]
pub struct IntoBatch<'a> {
    /// The store.
    pub objects: &'a Arc<Objects>,
    /// What is being written.
    pub batch: &'a Batch,
}

impl Sink for IntoBatch<'_> {
    fn has(&self, key: TreeKey) -> bool {
        self.objects.contains(&key.tree) && key.modes.is_none_or(|modes| self.objects.contains(&modes))
    }

    fn put(&self, kind: ObjectKind, bytes: &[u8]) -> Result<ObjectId> {
        self.batch.put(kind, bytes)
    }

    fn put_content(&self, content: &Content) -> Result<ObjectId> {
        if let Some(id) = content.known_id().filter(|id| self.objects.contains(id)) {
            return Ok(id);
        }
        match content.in_memory() {
            Some(bytes) => self.batch.put(ObjectKind::Blob, bytes),
            None => self.batch.put_stream(content.len(), &mut content.reader(), &Work::default()),
        }
    }
}

/// Names a tree, putting into `sink` what it lacks.
pub fn save(tree: &Tree, sink: &dyn Sink) -> Result<TreeKey> {
    if let Some(key) = tree.known_key().filter(|key| sink.has(*key)) {
        return Ok(key);
    }
    let entries = tree.entries()?;
    let mut items = Vec::with_capacity(entries.len());
    let mut below: Vec<(&Name, ObjectId)> = Vec::new();
    for (name, entry) in entries {
        let (mode, id) = match entry {
            Entry::File { content, mode } => (file_mode(*mode), sink.put_content(content)?),
            Entry::Symlink { target } => (TreeMode::Symlink, sink.put(ObjectKind::Blob, target)?),
            Entry::Directory { tree, .. } => {
                let key = save(tree, sink)?;
                if let Some(modes) = key.modes {
                    below.push((name, modes));
                }
                (TreeMode::Directory, key.tree)
            }
        };
        items.push(TreeItem { name: name.as_bytes(), mode, id });
    }
    let tree_id = sink.put(ObjectKind::Tree, &encode_tree(&items))?;
    let key = TreeKey { tree: tree_id, modes: save_modes(entries, &below, sink)? };
    tree.remember_key(key);
    Ok(key)
}

fn file_mode(mode: u32) -> TreeMode {
    if mode & 0o100 == 0 { TreeMode::File } else { TreeMode::Executable }
}

const KINDS: [(&str, u32); 3] = [("/f", 0o644), ("/x", 0o755), ("/d", 0o755)];

fn kind_of(entry: &Entry) -> Option<usize> {
    match entry {
        Entry::File { mode, .. } => Some(usize::from(mode & 0o100 != 0)),
        Entry::Directory { .. } => Some(2),
        Entry::Symlink { .. } => None,
    }
}

fn save_modes(entries: &OrdMap<Name, Entry>, below: &[(&Name, ObjectId)], sink: &dyn Sink) -> Result<Option<ObjectId>> {
    let mut counts: [BTreeMap<u32, usize>; 3] = Default::default();
    for entry in entries.values() {
        if let Some(kind) = kind_of(entry) {
            *counts[kind].entry(entry.mode()).or_default() += 1;
        }
    }
    let usual: [u32; 3] = std::array::from_fn(|kind| {
        counts[kind].iter().max_by_key(|(_, count)| **count).map_or(KINDS[kind].1, |(mode, _)| *mode)
    });
    let mut blob = Vec::new();
    for (kind, (word, plain)) in KINDS.iter().enumerate() {
        if usual[kind] != *plain {
            blob.extend_from_slice(format!("{:o} {word}\0", usual[kind]).as_bytes());
        }
    }
    for (name, entry) in entries {
        if kind_of(entry).is_some_and(|kind| entry.mode() != usual[kind]) {
            blob.extend_from_slice(format!("{:o} ", entry.mode()).as_bytes());
            blob.extend_from_slice(name.as_bytes());
            blob.push(0);
        }
    }
    if blob.is_empty() && below.is_empty() {
        return Ok(None);
    }
    let mut items = Vec::new();
    if !below.is_empty() {
        let inner: Vec<TreeItem<'_>> = below
            .iter()
            .map(|(name, id)| TreeItem { name: name.as_bytes(), mode: TreeMode::Directory, id: *id })
            .collect();
        let id = sink.put(ObjectKind::Tree, &encode_tree(&inner))?;
        items.push(TreeItem { name: b"d", mode: TreeMode::Directory, id });
    }
    if !blob.is_empty() {
        items.push(TreeItem { name: b"m", mode: TreeMode::File, id: sink.put(ObjectKind::Blob, &blob)? });
    }
    Ok(Some(sink.put(ObjectKind::Tree, &encode_tree(&items))?))
}

/// Stands for bytes the store should have and has not.
#[derive(Debug)]
struct Lost(ObjectId);

impl Lost {
    fn error(&self) -> Error {
        Error::new(ErrorKind::StoreCorrupt, format!("object {} is missing or damaged", self.0))
    }
}

impl ContentSource for Lost {
    fn read(&self, _range: Range<u64>) -> Result<Vec<u8>> {
        Err(self.error())
    }

    fn copy_to(&self, _out: &mut dyn Write) -> Result<()> {
        Err(self.error())
    }

    fn check(&self) -> Result<()> {
        Err(self.error())
    }
}

/// Reads trees of one store.
#[derive(Debug, Clone)]
pub struct StoredTrees(pub Arc<Objects>);

impl StoredTrees {
    fn tree(&self, id: ObjectId) -> Result<Vec<OwnedItem>> {
        match self.0.read(&id)? {
            (ObjectKind::Tree, bytes) => decode_tree(&bytes),
            _ => Err(Error::new(ErrorKind::StoreCorrupt, format!("object {id} is not a tree"))),
        }
    }

    fn blob(&self, id: ObjectId) -> Result<Vec<u8>> {
        match self.0.read(&id)? {
            (ObjectKind::Blob, bytes) => Ok(bytes),
            _ => Err(Error::new(ErrorKind::StoreCorrupt, format!("object {id} is not a blob"))),
        }
    }

    fn modes(&self, id: Option<ObjectId>) -> Result<Modes> {
        let mut modes = Modes::default();
        let Some(id) = id else { return Ok(modes) };
        for item in self.tree(id)? {
            match (item.name.as_slice(), item.mode) {
                (b"d", TreeMode::Directory) => {
                    modes.below = self.tree(item.id)?.into_iter().map(|item| (item.name, item.id)).collect();
                }
                (b"m", _) => modes.read(&self.blob(item.id)?)?,
                _ => {}
            }
        }
        Ok(modes)
    }
}

#[derive(Debug)]
struct Modes {
    usual: [u32; 3],
    named: HashMap<Vec<u8>, u32>,
    below: HashMap<Vec<u8>, ObjectId>,
}

impl Default for Modes {
    fn default() -> Self {
        Modes { usual: KINDS.map(|(_, mode)| mode), named: HashMap::new(), below: HashMap::new() }
    }
}

impl Modes {
    fn read(&mut self, blob: &[u8]) -> Result<()> {
        let damaged = || Error::new(ErrorKind::StoreCorrupt, "a list of modes is damaged");
        for line in blob.split(|&byte| byte == 0).filter(|line| !line.is_empty()) {
            let space = line.iter().position(|&byte| byte == b' ').ok_or_else(damaged)?;
            let digits = std::str::from_utf8(&line[..space]).map_err(|_| damaged())?;
            let mode = u32::from_str_radix(digits, 8).map_err(|_| damaged())? & 0o777;
            let name = &line[space + 1..];
            match KINDS.iter().position(|(word, _)| word.as_bytes() == name) {
                Some(kind) => self.usual[kind] = mode,
                None => {
                    self.named.insert(name.to_vec(), mode);
                }
            }
        }
        Ok(())
    }

    fn mode(&self, name: &[u8], kind: usize) -> u32 {
        self.named.get(name).copied().unwrap_or(self.usual[kind])
    }
}

impl TreeSource for StoredTrees {
    fn load(&self, key: TreeKey) -> Result<OrdMap<Name, Entry>> {
        let modes = self.modes(key.modes)?;
        let source: Arc<dyn TreeSource> = Arc::new(self.clone());
        let mut entries = OrdMap::new();
        for item in self.tree(key.tree)? {
            let name = Name::new(&item.name)?;
            let entry = match item.mode {
                TreeMode::File | TreeMode::Executable => {
                    // A lost object costs its own content, not the names of its directory.
                    let content = match self.0.blob_len(&item.id) {
                        Ok(len) => self.0.content(item.id, len),
                        Err(_) => Content::from_source(0, Some(item.id), Box::new(Lost(item.id))),
                    };
                    let kind = usize::from(item.mode == TreeMode::Executable);
                    Entry::File { content, mode: modes.mode(&item.name, kind) }
                }
                TreeMode::Symlink => Entry::Symlink { target: Arc::from(self.blob(item.id)?) },
                TreeMode::Directory => Entry::Directory {
                    tree: Tree::lazy(
                        TreeKey { tree: item.id, modes: modes.below.get(&item.name).copied() },
                        Arc::clone(&source),
                    ),
                    mode: modes.mode(&item.name, 2),
                },
            };
            entries.insert(name, entry);
        }
        Ok(entries)
    }
}
