//! Telling what others did from what we did.
//!
//! The head's tree with every record since replayed on it is what would be there if nobody but us had changed
//! anything. What a record found and we had not left there, and what a capture finds beside it, is theirs.

use crate::core::error::{ErrorKind, Result};
use crate::core::path::WsPath;
use crate::core::store::record::{MutationKind, Record};
use crate::core::tree::diff::{Change, diff, expand};
use crate::core::tree::{DIRECTORY_MODE, Entry, Kind, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// What the tree would be if nobody but us had changed anything, and what others did that our records met.
pub(super) struct Expected {
    tree: Tree,
    /// Entries whose mode the system chose when they were made (its umask, a list of the directory).
    made: BTreeSet<WsPath>,
    /// Where directories went as a whole, with whatever was in them that nobody captured.
    pub(super) moved: BTreeSet<WsPath>,
    external: Vec<Change>,
}

impl Expected {
    pub(super) fn new(tree: Tree) -> Self {
        Expected { tree, made: BTreeSet::new(), moved: BTreeSet::new(), external: Vec::new() }
    }

    pub(super) fn replay(&mut self, record: &Record) -> Result<()> {
        for change in &record.changes {
            if let (Some(source), MutationKind::Move) = (&change.source, record.kind) {
                self.replay_move(source, change)?;
                continue;
            }
            let steps = expand(change)?;
            // All of it was found before any of it was changed.
            for step in &steps {
                self.meet(&step.path, step.before.as_ref())?;
            }
            let is_exact =
                change.source.is_some() || matches!(record.kind, MutationKind::Chmod | MutationKind::External);
            for step in steps {
                self.set(&step.path, step.after.as_ref())?;
                if is_exact {
                    self.made.remove(&step.path);
                } else if step.before.is_none() {
                    self.made.insert(step.path);
                }
            }
        }
        Ok(())
    }

    fn replay_move(&mut self, source: &WsPath, change: &Change) -> Result<()> {
        let is_directory = matches!(change.after, Some(Entry::Directory { .. }));
        self.meet(&change.path, change.before.as_ref())?;
        if !is_directory {
            self.meet(source, change.after.as_ref())?;
        }
        let entry = match self.tree.get(source)? {
            Some(entry) if (entry.kind() == Kind::Directory) == is_directory => Some(entry),
            _ => change.after.clone(),
        };
        let was_made = self.made.contains(source);
        let inside = |path: &WsPath| {
            let rest = path.strip_prefix(source)?;
            Some(rest.names().fold(change.path.clone(), |path, name| path.join(name)))
        };
        let made: Vec<WsPath> = self.made.iter().filter_map(inside).collect();
        self.set(source, None)?;
        self.set(&change.path, None)?;
        if let Some(entry) = entry {
            self.set(&change.path, Some(&entry))?;
            // With all it holds.
            self.tree.insert(&change.path, entry)?;
        }
        self.made.extend(made);
        if !was_made {
            self.made.remove(&change.path);
        }
        if is_directory {
            self.moved.insert(change.path.clone());
        }
        Ok(())
    }

    /// Takes note of what a record found at a path, if it is not what we left there.
    fn meet(&mut self, path: &WsPath, found: Option<&Entry>) -> Result<()> {
        let left = self.tree.get(path)?;
        let same = match (&left, found) {
            (None, None) | (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => true,
            (Some(Entry::File { .. }), Some(Entry::File { content, .. })) if content.is_unknown() => true,
            (Some(left), Some(found)) => left.same(found)?,
            _ => false,
        };
        let change = Change { path: path.clone(), source: None, before: left, after: found.cloned() };
        if !same && !self.is_made(&change) {
            self.set(path, found)?;
            for change in expand(&change)? {
                // Of a directory that a record found, the record tells the rest itself.
                if change.path == *path || change.after.is_none() {
                    self.external.push(change);
                }
            }
        }
        Ok(())
    }

    /// Makes one entry what it is after a change; of a directory, itself alone. Directories on the way that we
    /// did not make, somebody else did.
    fn set(&mut self, path: &WsPath, entry: Option<&Entry>) -> Result<()> {
        let Some(entry) = entry else {
            return match self.tree.remove(path) {
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotFound | ErrorKind::NotADirectory) => Ok(()),
                done => done,
            };
        };
        let parent = path.parent();
        let is_there = parent.is_root() || matches!(self.tree.get(&parent)?, Some(Entry::Directory { .. }));
        let mut at = WsPath::root();
        for name in parent.names().filter(|_| !is_there) {
            at = at.join(name);
            let there = self.tree.get(&at)?;
            if !matches!(there, Some(Entry::Directory { .. })) {
                let made = Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE };
                self.external.push(Change { path: at.clone(), source: None, before: there, after: Some(made.clone()) });
                self.tree.insert(&at, made)?;
                self.made.insert(at.clone());
            }
        }
        let entry = match (self.tree.get(path)?, entry) {
            // A record could not name the bytes of a file it changed but the mode of.
            (Some(Entry::File { content: known, .. }), Entry::File { content, mode }) if content.is_unknown() => {
                Entry::File { content: known, mode: *mode }
            }
            (Some(Entry::Directory { tree, .. }), Entry::Directory { mode, .. }) => {
                Entry::Directory { tree, mode: *mode }
            }
            (_, Entry::Directory { mode, .. }) => Entry::Directory { tree: Tree::default(), mode: *mode },
            _ => entry.clone(),
        };
        self.tree.insert(path, entry)
    }

    /// Returns the tree as it would be.
    pub(super) fn into_tree(self) -> Tree {
        self.tree
    }

    /// Lists what others did, each path once, leaving out what is `excused`.
    pub(super) fn differs_from(&self, captured: &Tree, excused: impl Fn(&Change) -> bool) -> Result<Vec<Change>> {
        let mut external: BTreeMap<WsPath, Change> = BTreeMap::new();
        let last = diff(&self.tree, captured)?.into_iter().filter(|change| !self.is_made(change));
        for change in self.external.iter().cloned().chain(last).filter(|change| !excused(change)) {
            match external.get_mut(&change.path) {
                Some(known) => known.after = change.after,
                None => drop(external.insert(change.path.clone(), change)),
            }
        }
        Ok(external.into_values().collect())
    }

    /// Tells whether only the mode differs, of an entry we made, and is one a system would choose.
    fn is_made(&self, change: &Change) -> bool {
        match (&change.before, &change.after) {
            (Some(Entry::File { content: a, .. }), Some(Entry::File { content: b, mode })) => {
                self.made.contains(&change.path) && mode & !0o666 == 0 && a.same(b).unwrap_or(true)
            }
            (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => self.made.contains(&change.path),
            _ => false,
        }
    }
}
