//! Turning what stands on disk into a tree.
//!
//! Every directory is listed and every entry looked at; what the [`Index`] and the tree of the last scan
//! know to be unchanged is not read, and makes nothing new: a directory in which nothing changed is the
//! node it was. PERF: before, a checkpoint after one change took 0.58 of git's time (`make bench`), since 0.39.

use super::index::{Index, Indexed, StatKey};
use super::{is_gone, key};
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail::{self, Stat};
use crate::core::fs::{IGNORED, Keeper, Skipped};
use crate::core::path::{Name, WsPath};
use crate::core::tree::diff::unchanged;
use crate::core::tree::ignore::{IgnoreRules, Layer};
use crate::core::tree::walk::{Directory, Visitor, listed, walk};
use crate::core::tree::{Entry, Kind, MAX_DEPTH, Tree};
use imbl::OrdMap;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files up to this size are read whole; larger ones flow through.
const WHOLE_BYTES: u64 = 8 << 20;

/// A `.gitignore` may be as large as git takes it.
const MAX_RULES_BYTES: u64 = 100 << 20;

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a file of the jail from front to back.
pub(super) struct FileReader<'a> {
    pub(super) file: &'a jail::File,
    pub(super) at: u64,
    pub(super) work: &'a Work,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(self.at, buffer).map_err(std::io::Error::other)?;
        self.at += read as u64;
        self.work.progress().bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// What a scan found.
pub(super) struct Scanned {
    pub(super) tree: Tree,
    pub(super) index: Index,
    /// What the tree does not hold, sorted by path.
    pub(super) skipped: Vec<Skipped>,
    /// Directories with temporary files of ours.
    pub(super) leftovers: Vec<WsPath>,
    /// Files that were read.
    pub(super) hashed: usize,
}

/// One scan, while it goes on.
pub(super) struct Scan<'a> {
    keeper: &'a dyn Keeper,
    work: &'a Work,
    index: &'a Index,
    ignore: &'a IgnoreRules,
    /// Nodes of the last scan, of directories that were listed and not yet visited.
    old: Mutex<HashMap<WsPath, Tree>>,
    layers: Mutex<HashMap<WsPath, Layer>>,
    found: Mutex<HashMap<WsPath, Found>>,
    skipped: Mutex<Vec<Skipped>>,
    leftovers: Mutex<Vec<WsPath>>,
    hashed: AtomicUsize,
}

/// One directory as it was found; subdirectories are joined when all are there.
struct Found {
    old: Option<Tree>,
    /// `None` if all but what is below subdirectories is as in `old`.
    files: Option<Vec<(Name, Entry)>>,
    directories: Vec<(Name, u32)>,
    known: Indexed,
}

impl<'a> Scan<'a> {
    /// Scans `directory`, which stands at `path`; `last` is the tree an earlier scan made of it.
    pub(super) fn run(
        directory: jail::Dir,
        path: &WsPath,
        last: Option<Tree>,
        index: &'a Index,
        ignore: &'a IgnoreRules,
        keeper: &'a dyn Keeper,
        work: &'a Work,
    ) -> Result<Scanned> {
        let scan = Scan {
            keeper,
            work,
            index,
            ignore,
            old: Mutex::new(last.map(|last| (path.clone(), last)).into_iter().collect()),
            layers: Mutex::default(),
            found: Mutex::default(),
            skipped: Mutex::default(),
            leftovers: Mutex::default(),
            hashed: AtomicUsize::new(0),
        };
        walk(Arc::new(directory), path, &scan, work)?;
        let (tree, index) = assemble(scan.found.into_inner(), path)?;
        let mut skipped = scan.skipped.into_inner();
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        let (leftovers, hashed) = (scan.leftovers.into_inner(), scan.hashed.into_inner());
        Ok(Scanned { tree, index, skipped, leftovers, hashed })
    }

    fn skip(&self, path: WsPath, reason: &str) {
        self.skipped.lock().push(Skipped { path, reason: reason.to_owned() });
    }

    fn list(&self, dir: &jail::Dir, path: &WsPath) -> Result<Vec<(Name, Stat)>> {
        let mut leftovers = false;
        let listing = dir.entries_and_leftovers().map(|(entries, found)| {
            leftovers = found;
            entries
        });
        if leftovers {
            self.leftovers.lock().push(path.clone());
        }
        listed(self, path, listing)
    }

    /// Returns the rules in force in a directory; its parent was visited before it.
    fn layer(&self, dir: &jail::Dir, path: &WsPath) -> Result<Layer> {
        if !self.ignore.reads_files() {
            return Ok(self.ignore.layer());
        }
        let above = match self.layers.lock().get(&path.parent()) {
            Some(layer) if !path.is_root() => layer.clone(),
            _ => self.ignore.layer(),
        };
        let layer = match dir.open_file(b".gitignore") {
            // A list that cannot be read fails the capture: ignoring nothing would capture what must not be.
            Ok(file) => above.push(path, &file.read_all(MAX_RULES_BYTES)?),
            Err(error)
                if is_gone(&error) || matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::SpecialFile) =>
            {
                above
            }
            Err(error) if error.kind() == ErrorKind::PathRace => above,
            Err(error) => return Err(error.at(&path.join(b".gitignore"))),
        };
        self.layers.lock().insert(path.clone(), layer.clone());
        Ok(layer)
    }

    fn visit_dir(&self, dir: &jail::Dir, path: &WsPath) -> Result<Found> {
        let listing = self.list(dir, path)?;
        // A directory that may not be entered shows nothing, and no rules.
        let layer = if listing.is_empty() { self.ignore.layer() } else { self.layer(dir, path)? };
        let old = self.old.lock().remove(path);
        // A node that cannot be read (its store was damaged) is a node not known.
        let old_entries = old.as_ref().and_then(|old| old.entries().ok());
        let indexed = self.index.directories.get(path);
        self.work.progress().total_entries.fetch_add(listing.len() as u64, Ordering::Relaxed);
        let ignored = |name: &Name, stat: &Stat| {
            !self.ignore.is_none() && layer.is_entry_ignored(&path.join(name.as_bytes()), stat.kind == Kind::Directory)
        };
        if let (Some(old_entries), Some(indexed)) = (old_entries, indexed)
            && !listing.iter().any(|(name, stat)| ignored(name, stat))
            && is_as_before(dir, &listing, old_entries, indexed, self.keeper)
        {
            let bytes = listing.iter().map(|(_, stat)| if stat.kind == Kind::File { stat.size } else { 0 }).sum();
            self.work.progress().entries.fetch_add(listing.len() as u64, Ordering::Relaxed);
            self.work.progress().bytes.fetch_add(bytes, Ordering::Relaxed);
            let is_directory =
                |(name, stat): (Name, Stat)| (stat.kind == Kind::Directory).then_some((name, stat.mode & 0o777));
            let directories = listing.into_iter().filter_map(is_directory).collect();
            return Ok(Found { old, files: None, directories, known: Arc::clone(indexed) });
        }
        let indexed = indexed.map_or(&[][..], |indexed| &**indexed);
        let depth = path.depth();
        let (mut files, mut known) = (Vec::with_capacity(listing.len()), Vec::with_capacity(listing.len()));
        let mut directories = Vec::new();
        for (name, stat) in listing {
            let below = || path.join(name.as_bytes());
            if ignored(&name, &stat) {
                self.skip(below(), IGNORED);
                continue;
            }
            match stat.kind {
                Kind::Directory if depth >= MAX_DEPTH => self.skip(below(), "too deep"),
                Kind::Directory => directories.push((name.clone(), stat.mode & 0o777)),
                Kind::Symlink => match dir.read_link(name.as_bytes()) {
                    Ok(target) => files.push((name.clone(), Entry::Symlink { target: Arc::from(target) })),
                    Err(error) if is_gone(&error) || error.kind() == ErrorKind::NotALink => {}
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => self.skip(below(), "unreadable"),
                    Err(error) => return Err(error.at(&below())),
                },
                Kind::File => match self.content(dir, indexed, &name, &stat) {
                    Ok((content, mode, trusted)) => {
                        if let (Some(key), Some(id)) = (trusted, content.known_id()) {
                            known.push((name.clone(), key, id));
                        }
                        files.push((name.clone(), Entry::File { content, mode: mode & 0o777 }));
                    }
                    Err(error) if is_gone(&error) => {}
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => self.skip(below(), "unreadable"),
                    Err(error) if error.kind() == ErrorKind::SpecialFile => self.skip(below(), "special"),
                    // One file that is rewritten all the time must not cost the checkpoint of all others.
                    Err(error) if error.kind() == ErrorKind::PathRace => self.skip(below(), "changing"),
                    Err(error) => return Err(error.at(&below())),
                },
                special => self.skip(below(), special.as_str()),
            }
            // The bytes of files are counted where they are read.
            self.work.advance(0);
        }
        Ok(Found { old, files: Some(files), directories, known: known.into() })
    }

    /// Returns the content of a file and, unless it may still be changing, what tells this state of it.
    fn content(
        &self,
        dir: &jail::Dir,
        indexed: &[(Name, StatKey, ObjectId)],
        name: &Name,
        stat: &Stat,
    ) -> Result<(Content, u32, Option<StatKey>)> {
        if let Some((known, id)) = Index::find(indexed, name.as_bytes())
            && known == key(stat)
            && self.keeper.has(id)
        {
            self.work.progress().bytes.fetch_add(stat.size, Ordering::Relaxed);
            return Ok((self.keeper.content(id, stat.size), stat.mode, Some(known)));
        }
        let mut tries = 0;
        loop {
            self.work.check()?;
            let looked = now_ns();
            let file = dir.open_listed(name.as_bytes())?;
            let before = *file.opened_stat();
            let is_large = before.size > WHOLE_BYTES;
            let is_last = tries >= if is_large { 1 } else { 3 };
            let id = if is_large {
                let reader = FileReader { file: &file, at: 0, work: self.work };
                // What is appended all the time (a log) is kept as long as it was when it was opened.
                let len = if is_last { before.size } else { u64::MAX };
                self.keeper.keep_stream(before.size, &mut reader.take(len), self.work).map(|id| (id, before.size))
            } else {
                file.read_all(WHOLE_BYTES * 2).and_then(|bytes| {
                    self.work.progress().bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    self.keeper.keep(&bytes).map(|id| (id, bytes.len() as u64))
                })
            };
            let after = file.stat()?;
            let steady = key(&before) == key(&after);
            match id {
                Ok((id, len)) if (steady && len == after.size) || is_last => {
                    self.hashed.fetch_add(1, Ordering::Relaxed);
                    let trusted = (steady && !key(&after).is_racy(looked)).then(|| key(&after));
                    return Ok((self.keeper.content(id, len), after.mode, trusted));
                }
                Err(error) if is_last || error.kind() != ErrorKind::PathRace => return Err(error),
                _ => tries += 1,
            }
        }
    }
}

/// Tells whether a listing shows exactly what `old` holds, subdirectories by name and mode only.
fn is_as_before(
    dir: &jail::Dir,
    listing: &[(Name, Stat)],
    old: &OrdMap<Name, Entry>,
    known: &[(Name, StatKey, ObjectId)],
    keeper: &dyn Keeper,
) -> bool {
    if listing.len() != old.len() {
        return false;
    }
    // All three are sorted by name.
    let mut known = known.iter().peekable();
    listing.iter().zip(old).all(|((name, stat), (old_name, old))| {
        name == old_name
            && match (stat.kind, old) {
                (Kind::File, Entry::File { content, mode }) => {
                    while known.next_if(|(known, ..)| known < name).is_some() {}
                    known.next_if(|(known, ..)| known == name).is_some_and(|(_, known, id)| {
                        *known == key(stat)
                            && content.known_id() == Some(*id)
                            && content.len() == stat.size
                            && keeper.has(*id)
                            && *mode == stat.mode & 0o777
                    })
                }
                (Kind::Directory, Entry::Directory { mode, .. }) => *mode == stat.mode & 0o777,
                (Kind::Symlink, Entry::Symlink { target }) => {
                    dir.read_link(name.as_bytes()).is_ok_and(|found| found == **target)
                }
                _ => false,
            }
    })
}

impl Visitor for Scan<'_> {
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, _depth: usize) -> Result<Vec<Name>> {
        let Some(dir) = directory.as_any().downcast_ref::<jail::Dir>() else {
            return Err(Error::new(ErrorKind::Bug, "a scan met a directory of another kind"));
        };
        let found = self.visit_dir(dir, path)?;
        if let Some(entries) = found.old.as_ref().and_then(|old| old.entries().ok()) {
            let mut old = self.old.lock();
            for (name, _) in &found.directories {
                if let Some(Entry::Directory { tree, .. }) = entries.get(name) {
                    old.insert(path.join(name.as_bytes()), tree.clone());
                }
            }
        }
        let enter = found.directories.iter().map(|(name, _)| name.clone()).collect();
        self.found.lock().insert(path.clone(), found);
        Ok(enter)
    }

    fn unreadable(&self, path: &WsPath, error: Error) -> Result<()> {
        if is_gone(&error) {
            return Ok(());
        }
        // Left out whole, and said so: one locked directory must not cost the checkpoint of all others.
        if matches!(error.kind(), ErrorKind::PermissionDenied) && !path.is_root() {
            self.skip(path.clone(), "unreadable");
            return Ok(());
        }
        Err(error.at(path))
    }
}

/// Joins what a scan found into the tree of `root`, deepest directories first.
fn assemble(mut found: HashMap<WsPath, Found>, root: &WsPath) -> Result<(Tree, Index)> {
    let mut paths: Vec<(usize, WsPath)> = found.keys().map(|path| (path.depth(), path.clone())).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    let mut index = Index { directories: HashMap::with_capacity(paths.len()) };
    let mut trees: HashMap<WsPath, Tree> = HashMap::with_capacity(paths.len());
    for (_, path) in paths {
        let Some(Found { old, files, directories, known }) = found.remove(&path) else { continue };
        // A directory that vanished or could not be read while the scan went on is not there.
        let below = directories.into_iter().map(|(name, mode)| {
            let tree = trees.remove(&path.join(name.as_bytes()));
            (name, tree.map(|tree| Entry::Directory { tree, mode }))
        });
        let tree = match (files, old) {
            (None, Some(old)) => with_below(&old, below)?,
            (files, old) => {
                let mut entries = files.unwrap_or_default();
                entries.extend(below.filter_map(|(name, entry)| Some((name, entry?))));
                entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                match old {
                    Some(old) if is_unchanged(&old, &entries) => old,
                    _ => Tree::from_entries(OrdMap::from_iter(entries)),
                }
            }
        };
        index.directories.insert(path.clone(), known);
        trees.insert(path, tree);
    }
    Ok((trees.remove(root).unwrap_or_default(), index))
}

/// Returns `old` with other subdirectories; itself if they are the same.
fn with_below(old: &Tree, below: impl Iterator<Item = (Name, Option<Entry>)>) -> Result<Tree> {
    let entries = old.entries()?;
    let mut changed: Option<OrdMap<Name, Entry>> = None;
    for (name, entry) in below {
        if unchanged(entries.get(&name), entry.as_ref())? {
            continue;
        }
        let changed = changed.get_or_insert_with(|| entries.clone());
        match entry {
            Some(entry) => changed.insert(name, entry),
            None => changed.remove(&name),
        };
    }
    Ok(changed.map_or_else(|| old.clone(), Tree::from_entries))
}

fn is_unchanged(old: &Tree, entries: &[(Name, Entry)]) -> bool {
    let Ok(old) = old.entries() else { return false };
    old.len() == entries.len()
        && old.iter().zip(entries).all(|((old_name, old), (name, entry))| {
            old_name == name && unchanged(Some(old), Some(entry)).unwrap_or(false)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[&str]) -> Entry {
        let named = |name: &&str| (Name::new(name.as_bytes()).unwrap(), Entry::file(b"x", 0o644));
        Entry::Directory { tree: Tree::from_entries(files.iter().map(named).collect()), mode: 0o755 }
    }

    #[test]
    fn a_directory_is_its_old_node_with_other_subdirectories() {
        let name = |name: &str| Name::new(name.as_bytes()).unwrap();
        let entries = [("a", directory(&["x"])), ("b", directory(&["y"])), ("f", Entry::file(b"f", 0o644))];
        let old = Tree::from_entries(entries.iter().map(|(at, entry)| (name(at), entry.clone())).collect());
        let same = || [(name("a"), Some(entries[0].1.clone())), (name("b"), Some(entries[1].1.clone()))];
        assert!(with_below(&old, same().into_iter()).unwrap().is_same(&old));

        let [a, mut b] = same();
        b.1 = None; // gone while the scan went on
        let less = with_below(&old, [a.clone(), b].into_iter()).unwrap();
        assert_eq!(less.entries().unwrap().keys().cloned().collect::<Vec<_>>(), [name("a"), name("f")]);

        let other = (name("b"), Some(directory(&["z"])));
        let changed = with_below(&old, [a, other].into_iter()).unwrap();
        assert!(!changed.is_same(&old));
        assert!(changed.get(&WsPath::new("b/z").unwrap()).unwrap().is_some());
        assert!(changed.get(&WsPath::new("f").unwrap()).unwrap().is_some());
    }
}
