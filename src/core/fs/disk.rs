//! A directory of the host, through the jail.
//!
//! Capture scans every directory (what others changed behind our back must be seen) but reads only what
//! the [`Index`] does not know to be unchanged. Apply touches only what differs: an untouched file keeps
//! its inode and its times.

use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::{self, Flock};
use crate::core::fs::index::{Index, StatKey};
use crate::core::fs::jail::{self, Jail, Replace, Stat};
use crate::core::fs::{Captured, Features, FileSystem, Keeper, OpenFile, Place, PutMode, ResolverChoice, Skipped};
use crate::core::path::{Name, RawPath, WsPath};
use crate::core::tree::diff::{Change, unchanged};
use crate::core::tree::ignore::{IgnoreRules, Layer};
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::{Directory, Info, Listed, Visitor, listed, walk};
use crate::core::tree::{Entry, Kind, Tree};
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files up to this size are read whole; larger ones flow through.
const WHOLE_BYTES: u64 = 8 << 20;
/// What stood at a place is carried in the record up to this size; more goes to the store first.
const CARRIED_BYTES: u64 = 1 << 20;

/// A directory of the host.
#[derive(Debug)]
pub struct Disk {
    jail: Jail,
    ignore: IgnoreRules,
    index: RwLock<Index>,
    /// The tree of the last capture, whose nodes are used again where nothing changed.
    last: Mutex<Option<Tree>>,
    index_file: Option<PathBuf>,
    /// Files hashed since the index was saved.
    unsaved: AtomicUsize,
}

impl Disk {
    /// Opens `host`.
    pub fn open(host: &Path, resolver: ResolverChoice, create: bool, ignore: IgnoreRules) -> Result<Self> {
        Ok(Disk {
            jail: Jail::open(host, resolver, create)?,
            ignore,
            index: RwLock::new(Index::default()),
            last: Mutex::new(None),
            index_file: None,
            unsaved: AtomicUsize::new(0),
        })
    }

    /// Keeps what captures learn in `index_file` from now on, and learns what it holds.
    #[must_use]
    pub fn with_index(mut self, index_file: PathBuf) -> Self {
        if let Some(index) = Index::load(&index_file, self.jail.identity()) {
            self.index = RwLock::new(index);
        }
        self.index_file = Some(index_file);
        self
    }

    /// Returns the host path of the root, for telling the user, never for opening.
    pub fn host_root(&self) -> &Path {
        self.jail.host_root()
    }

    /// Gives captures a tree to share nodes with: that of the newest checkpoint.
    pub fn remember_tree(&self, tree: Tree) {
        self.last.lock().get_or_insert(tree);
    }

    /// Removes temporary files of writers that are gone; only under the hold, when no writer can be alive.
    pub fn sweep_temporary(&self, directory: &WsPath) -> Result<()> {
        let Ok(dir) = self.jail.dir(directory) else { return Ok(()) };
        sweep(&dir)
    }
}

fn sweep(dir: &jail::Dir) -> Result<()> {
    for (name, _) in dir.temp_entries()? {
        dir.remove_temp(&name)?;
    }
    Ok(())
}

fn info(stat: &Stat) -> Info {
    Info { kind: stat.kind, mode: stat.mode, size: stat.size, modified_ns: Some(stat.mtime_ns), links: stat.nlink }
}

fn key(stat: &Stat) -> StatKey {
    StatKey { ino: stat.ino, size: stat.size, mtime_ns: stat.mtime_ns, ctime_ns: stat.ctime_ns }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a file of the jail from front to back.
struct FileReader<'a> {
    file: &'a jail::File,
    at: u64,
    work: &'a Work,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(self.at, buffer).map_err(std::io::Error::other)?;
        self.at += read as u64;
        self.work.progress.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl FileSystem for Disk {
    fn features(&self) -> Features {
        Features { symlinks: true, hard_links: true, permissions: true, real_path: true }
    }

    fn canonical(&self, raw: &RawPath) -> Result<WsPath> {
        self.jail.canonical(raw)
    }

    fn lookup(&self, path: &WsPath, follow: Follow) -> Result<Option<(WsPath, Info)>> {
        Ok(self.jail.lookup(path, follow)?.map(|(path, stat)| (path, info(&stat))))
    }

    fn read(&self, path: &WsPath, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.jail.read(path, range)
    }

    fn try_read(&self, path: &WsPath, range: Option<Range<u64>>, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.jail.try_read(path, range, max_bytes)
    }

    fn open(&self, path: &WsPath) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(self.jail.open_file(path)?))
    }

    fn directory(&self, path: &WsPath) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(self.jail.dir(path)?))
    }

    fn read_link(&self, path: &WsPath) -> Result<Vec<u8>> {
        if path.is_root() {
            return Err(Error::new(ErrorKind::NotALink, "not a symbolic link").at(path));
        }
        self.jail.place(path, Follow::No)?.read_link()
    }

    fn place(&self, path: &WsPath, follow: Follow) -> Result<Box<dyn Place + '_>> {
        match self.jail.place(path, follow) {
            Ok(place) => {
                Ok(Box::new(DiskPlace { disk: self, path: place.path(), missing: vec![], place: Some(place) }))
            }
            Err(error) if matches!(error.kind(), ErrorKind::FileNotFound | ErrorKind::DirectoryNotFound) => {
                let (path, missing) = self.missing_parents(path)?;
                Ok(Box::new(DiskPlace { disk: self, path, missing, place: None }))
            }
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &WsPath, to: &WsPath, replace: bool) -> Result<()> {
        self.jail.place(from, Follow::No)?.rename_to(&self.jail.place(to, Follow::No)?, replace)
    }

    fn hard_link(&self, from: &WsPath, to: &WsPath) -> Result<()> {
        self.jail.place(from, Follow::No)?.hard_link_to(&self.jail.place(to, Follow::No)?)
    }

    fn capture(&self, keeper: &dyn Keeper, work: &Work) -> Result<Captured> {
        self.check_identity()?;
        let root: Arc<dyn Directory> = Arc::new(self.jail.dir(&WsPath::root())?);
        let index = self.index.read();
        let scan = Scan {
            keeper,
            work,
            index: &index,
            ignore: &self.ignore,
            layers: Mutex::new(HashMap::new()),
            found: Mutex::new(HashMap::new()),
            skipped: Mutex::new(Vec::new()),
            leftovers: Mutex::new(Vec::new()),
            hashed: AtomicUsize::new(0),
        };
        walk(root, &WsPath::root(), &scan, work)?;
        let (found, mut skipped) = (scan.found.into_inner(), scan.skipped.into_inner());
        let (leftovers, hashed) = (scan.leftovers.into_inner(), scan.hashed.into_inner());
        drop(index);
        let previous = self.last.lock().clone();
        let (tree, index) = assemble(found, previous.as_ref())?;
        // Before the index names anything: what was not kept must be read again next time.
        keeper.finish()?;
        *self.index.write() = index;
        *self.last.lock() = Some(tree.clone());
        self.unsaved.fetch_add(hashed, Ordering::Relaxed);
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Captured { tree, skipped, leftovers })
    }

    fn apply(&self, changes: &[Change], keep: &[Skipped], work: &Work) -> Result<()> {
        Apply { disk: self, keep, work, opened: BTreeMap::new() }.run(changes)
    }

    fn check_apply(&self, changes: &[Change], keep: &[Skipped]) -> Result<()> {
        Apply { disk: self, keep, work: &Work::default(), opened: BTreeMap::new() }.refuse_what_would_lose(changes)
    }

    fn check_identity(&self) -> Result<()> {
        self.jail.check_identity()
    }

    fn hold(&self, work: &Work, timeout: Duration) -> Result<Option<Flock>> {
        let handle = rustix::fs::openat(
            self.jail.fd(),
            c".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(|errno| Error::os(errno, "locking the workspace"))?;
        flock::exclusive(handle, work, timeout)
    }

    fn save_index(&self) -> Result<()> {
        let Some(path) = &self.index_file else { return Ok(()) };
        if self.unsaved.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.index.read().save(path, self.jail.identity()).map_err(|error| Error::io(&error, "saving the index"))
    }
}

impl OpenFile for jail::File {
    fn size(&self) -> u64 {
        self.opened_stat().size
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.read_range(range)
    }
}

impl Directory for jail::Dir {
    fn list(&self) -> Result<Vec<Listed>> {
        Ok(self.entries()?.into_iter().map(|(name, kind)| Listed { name, kind }).collect())
    }

    fn list_with_info(&self) -> Result<Vec<(Name, Info)>> {
        Ok(self.entries_with_stat()?.into_iter().map(|(name, stat)| (name, info(&stat))).collect())
    }

    fn child(&self, name: &Name) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(jail::Dir::child(self, name.as_bytes())?))
    }

    fn read_into(&self, name: &Name, max_bytes: u64, buffer: &mut Vec<u8>) -> Result<u64> {
        let file = self.open_listed(name.as_bytes())?;
        let size = file.opened_stat().size;
        buffer.clear();
        if size <= max_bytes {
            *buffer = file.read_all(max_bytes)?;
        }
        Ok(size)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// One directory as a scan found it; subdirectories are joined when all are there.
struct Found {
    files: Vec<(Name, Entry, Option<StatKey>)>,
    directories: Vec<(Name, u32)>,
}

struct Scan<'a> {
    keeper: &'a dyn Keeper,
    work: &'a Work,
    index: &'a Index,
    ignore: &'a IgnoreRules,
    layers: Mutex<HashMap<WsPath, Layer>>,
    found: Mutex<HashMap<WsPath, Found>>,
    skipped: Mutex<Vec<Skipped>>,
    leftovers: Mutex<Vec<WsPath>>,
    hashed: AtomicUsize,
}

impl Scan<'_> {
    fn skip(&self, path: WsPath, reason: &str) {
        self.skipped.lock().push(Skipped { path, reason: reason.to_owned() });
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
            Ok(file) => above.push(path, &file.read_all(1 << 20)?),
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
        {
            self.work.progress.bytes.fetch_add(stat.size, Ordering::Relaxed);
            return Ok((self.keeper.content(id, stat.size), stat.mode, Some(known)));
        }
        let mut tries = 0;
        loop {
            self.work.check()?;
            let looked = now_ns();
            let file = dir.open_listed(name.as_bytes())?;
            let before = *file.opened_stat();
            let id = if before.size <= WHOLE_BYTES {
                let bytes = file.read_all(WHOLE_BYTES * 2)?;
                self.work.progress.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.keeper.keep(&bytes).map(|id| (id, bytes.len() as u64))
            } else {
                self.keeper
                    .keep_stream(before.size, &mut FileReader { file: &file, at: 0, work: self.work }, self.work)
                    .map(|id| (id, before.size))
            };
            let after = file.stat()?;
            let steady = key(&before) == key(&after);
            match id {
                Ok((id, len)) if (steady && len == after.size) || tries == 3 => {
                    self.hashed.fetch_add(1, Ordering::Relaxed);
                    let trusted = (steady && !key(&after).is_racy(looked)).then(|| key(&after));
                    return Ok((self.keeper.content(id, len), after.mode, trusted));
                }
                Err(error) if error.kind() != ErrorKind::PathRace || tries == 3 => return Err(error),
                _ => tries += 1,
            }
        }
    }
}

impl Visitor for Scan<'_> {
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, _depth: usize) -> Result<Vec<Name>> {
        let Some(dir) = directory.as_any().downcast_ref::<jail::Dir>() else {
            return Err(Error::new(ErrorKind::Bug, "a scan met a directory of another kind"));
        };
        let mut leftovers = false;
        let listing = dir.entries_and_leftovers().map(|(entries, found)| {
            leftovers = found;
            entries
        });
        let listing = listed(self, path, listing)?;
        if leftovers {
            self.leftovers.lock().push(path.clone());
        }
        let layer = self.layer(dir, path)?;
        let indexed = self.index.directories.get(path).map_or(&[][..], Vec::as_slice);
        let mut found = Found { files: Vec::with_capacity(listing.len()), directories: Vec::new() };
        self.work.progress.total_entries.fetch_add(listing.len() as u64, Ordering::Relaxed);
        for (name, stat) in listing {
            let below = || path.join(name.as_bytes());
            let mode = stat.mode & 0o777;
            if !self.ignore.is_none() && layer.is_entry_ignored(&below(), stat.kind == Kind::Directory) {
                self.skip(below(), "ignored");
                continue;
            }
            match stat.kind {
                Kind::Directory => found.directories.push((name.clone(), mode)),
                Kind::Symlink => match dir.read_link(name.as_bytes()) {
                    Ok(target) => found.files.push((name.clone(), Entry::Symlink { target: Arc::from(target) }, None)),
                    Err(error) if is_gone(&error) || error.kind() == ErrorKind::NotALink => {}
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => self.skip(below(), "unreadable"),
                    Err(error) => return Err(error.at(&below())),
                },
                Kind::File => match self.content(dir, indexed, &name, &stat) {
                    Ok((content, mode, trusted)) => {
                        found.files.push((name.clone(), Entry::File { content, mode: mode & 0o777 }, trusted));
                    }
                    Err(error) if is_gone(&error) => {}
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => self.skip(below(), "unreadable"),
                    Err(error) if error.kind() == ErrorKind::SpecialFile => self.skip(below(), "special"),
                    Err(error) => return Err(error.at(&below())),
                },
                special => self.skip(below(), special.as_str()),
            }
            // The bytes of files are counted where they are read.
            self.work.advance(0);
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

fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::FileNotFound | ErrorKind::DirectoryNotFound)
}

/// Joins what a scan found into a tree, deepest directories first, using nodes of `previous` again
/// wherever a directory is what it was.
fn assemble(mut found: HashMap<WsPath, Found>, previous: Option<&Tree>) -> Result<(Tree, Index)> {
    let mut paths: Vec<(usize, WsPath)> = found.keys().map(|path| (path.depth(), path.clone())).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    let mut index = Index::default();
    let mut trees: HashMap<WsPath, Tree> = HashMap::with_capacity(paths.len());
    let mut old_trees: HashMap<WsPath, Tree> = HashMap::with_capacity(paths.len());
    if let Some(previous) = previous {
        for (_, path) in paths.iter().rev() {
            let old = if path.is_root() {
                Some(previous.clone())
            } else {
                match old_trees
                    .get(&path.parent())
                    .map(Tree::entries)
                    .transpose()?
                    .and_then(|entries| entries.get(path.name().unwrap_or_default()))
                {
                    Some(Entry::Directory { tree, .. }) => Some(tree.clone()),
                    _ => None,
                }
            };
            if let Some(old) = old {
                old_trees.insert(path.clone(), old);
            }
        }
    }
    for (_, path) in paths {
        let Some(Found { files, directories }) = found.remove(&path) else { continue };
        let mut known = Vec::new();
        let mut entries: Vec<(Name, Entry)> = Vec::with_capacity(files.len() + directories.len());
        for (name, entry, trusted) in files {
            if let (Some(key), Entry::File { content, .. }) = (trusted, &entry)
                && let Some(id) = content.known_id()
            {
                known.push((name.clone(), key, id));
            }
            entries.push((name, entry));
        }
        for (name, mode) in directories {
            // A directory that vanished or could not be read while the scan went on is not there.
            if let Some(tree) = trees.remove(&path.join(name.as_bytes())) {
                entries.push((name, Entry::Directory { tree, mode }));
            }
        }
        known.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        index.directories.insert(path.clone(), known);
        let tree = match old_trees.get(&path) {
            Some(old) if is_unchanged(old, &entries)? => old.clone(),
            _ => Tree::from_entries(OrdMap::from_iter(entries)),
        };
        trees.insert(path, tree);
    }
    Ok((trees.remove(&WsPath::root()).unwrap_or_default(), index))
}

fn is_unchanged(old: &Tree, entries: &[(Name, Entry)]) -> Result<bool> {
    let old = old.entries()?;
    if old.len() != entries.len() {
        return Ok(false);
    }
    for ((old_name, old), (name, entry)) in old.iter().zip(entries) {
        let same = old_name == name && unchanged(Some(old), Some(entry))?;
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Disk {
    /// Finds the deepest directory on the way to `path` that is there, and what is missing below it.
    fn missing_parents(&self, path: &WsPath) -> Result<(WsPath, Vec<WsPath>)> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = path.clone();
        let mut base = loop {
            if let Some(name) = at.name() {
                names.push(name.to_vec());
            }
            at = at.parent();
            if let Some((canonical, stat)) = self.jail.lookup(&at, Follow::Yes)? {
                if stat.kind != Kind::Directory {
                    return Err(Error::new(ErrorKind::NotADirectory, "not a directory").at(&at));
                }
                break canonical;
            }
            if self.jail.lookup(&at, Follow::No)?.is_some() {
                return Err(Error::new(ErrorKind::DirectoryNotFound, "a link that leads nowhere").at(&at));
            }
        };
        let mut missing = Vec::new();
        for name in names.iter().skip(1).rev() {
            base = base.join(name);
            missing.push(base.clone());
        }
        if let Some(leaf) = names.first() {
            base = base.join(leaf);
        }
        Ok((base, missing))
    }
}

#[derive(Debug)]
struct DiskPlace<'a> {
    disk: &'a Disk,
    path: WsPath,
    missing: Vec<WsPath>,
    place: Option<jail::Place>,
}

impl DiskPlace<'_> {
    fn place(&self) -> Result<&jail::Place> {
        self.place.as_ref().ok_or_else(|| {
            let at = self.missing.first().unwrap_or(&self.path);
            Error::new(ErrorKind::DirectoryNotFound, "no such directory").at(at)
        })
    }
}

impl Place for DiskPlace<'_> {
    fn path(&self) -> &WsPath {
        &self.path
    }

    fn missing(&self) -> &[WsPath] {
        &self.missing
    }

    fn make_missing(&mut self) -> Result<()> {
        if self.place.is_none() {
            let (place, _) = self.disk.jail.place_creating(&self.path, Follow::No, 0o777)?;
            self.place = Some(place);
            self.missing.clear();
        }
        Ok(())
    }

    fn info(&self) -> Result<Option<Info>> {
        match &self.place {
            Some(place) => Ok(place.stat()?.as_ref().map(info)),
            None => Ok(None),
        }
    }

    fn before(&self, keeper: &dyn Keeper, work: &Work) -> Result<Option<Entry>> {
        let Some(place) = &self.place else { return Ok(None) };
        let Some(stat) = place.stat()? else { return Ok(None) };
        let mode = stat.mode & 0o777;
        Ok(match stat.kind {
            Kind::Symlink => Some(Entry::Symlink { target: Arc::from(place.read_link()?) }),
            Kind::File => {
                if let Some((known, id)) = self.disk.index.read().get(&self.path)
                    && known == key(&stat)
                {
                    return Ok(Some(Entry::File { content: keeper.content(id, stat.size), mode }));
                }
                let file = place.open_file()?;
                let size = file.opened_stat().size;
                let content = if size <= CARRIED_BYTES {
                    Content::from_bytes(&file.read_all(CARRIED_BYTES * 2)?)
                } else {
                    let id = keeper.keep_stream(size, &mut FileReader { file: &file, at: 0, work }, work)?;
                    keeper.content(id, size)
                };
                Some(Entry::File { content, mode })
            }
            Kind::Directory => {
                let root: Arc<dyn Directory> = Arc::new(place.open_dir()?);
                let index = self.disk.index.read();
                let nothing_ignored = IgnoreRules::none();
                let scan = Scan {
                    keeper,
                    work,
                    index: &index,
                    ignore: &nothing_ignored,
                    layers: Mutex::new(HashMap::new()),
                    found: Mutex::new(HashMap::new()),
                    skipped: Mutex::new(Vec::new()),
                    leftovers: Mutex::new(Vec::new()),
                    hashed: AtomicUsize::new(0),
                };
                walk(root, &self.path, &scan, work)?;
                let skipped = scan.skipped.into_inner();
                // What cannot be kept must not be removed: it could not be brought back.
                if let Some(lost) = skipped.iter().find(|skipped| skipped.reason == "unreadable") {
                    return Err(Error::new(
                        ErrorKind::PermissionDenied,
                        "cannot be read, so it could not be brought back",
                    )
                    .at(&lost.path));
                }
                let found = scan.found.into_inner();
                let tree = assemble_at(found, &self.path)?;
                Some(Entry::Directory { tree, mode })
            }
            _ => None,
        })
    }

    fn put(&self, entry: &Entry, mode: PutMode, work: &Work) -> Result<()> {
        let place = self.place()?;
        match entry {
            Entry::File { content, mode: bits } => {
                let how = Replace {
                    mode: (mode == PutMode::Restore).then_some(*bits),
                    exclusive: mode == PutMode::Create,
                    keep_metadata: true,
                    sync: false,
                };
                place.replace(
                    &mut |out| {
                        work.check()?;
                        content.copy_to(out)
                    },
                    how,
                )?;
                Ok(())
            }
            Entry::Symlink { target } => place.symlink(target, mode != PutMode::Create),
            Entry::Directory { mode: bits, .. } => place.make_dir(*bits),
        }
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.place()?.chmod(mode)
    }

    fn remove(&self, work: &Work) -> Result<()> {
        let place = self.place()?;
        match place.stat()? {
            Some(stat) if stat.kind == Kind::Directory => place.remove_tree(work),
            _ => place.remove_file(),
        }
    }
}

fn assemble_at(found: HashMap<WsPath, Found>, base: &WsPath) -> Result<Tree> {
    let relative =
        found.into_iter().filter_map(|(path, found)| path.strip_prefix(base).map(|path| (path, found))).collect();
    Ok(assemble(relative, None)?.0)
}

/// One application of changes.
///
/// Order: what goes, deepest first; then what comes, directories before what they hold; then the modes
/// of directories, deepest first, because a directory may be one that nobody may write in.
struct Apply<'a> {
    disk: &'a Disk,
    keep: &'a [Skipped],
    work: &'a Work,
    /// Directories given a writable mode for the while, with the mode they get back.
    opened: BTreeMap<WsPath, u32>,
}

impl Apply<'_> {
    fn run(mut self, changes: &[Change]) -> Result<()> {
        let result = self.change(changes);
        let mut modes = std::mem::take(&mut self.opened);
        if result.is_ok() {
            for change in changes {
                if let Some(Entry::Directory { mode, .. }) = &change.after {
                    modes.insert(change.path.clone(), *mode);
                }
            }
        }
        let mut first = result;
        for (path, mode) in modes.iter().rev() {
            // All of them, as far as it goes; the first error is the one to tell.
            match self.give_mode(path, *mode) {
                Err(error) if first.is_ok() && !is_gone(&error) => first = Err(error),
                _ => {}
            }
        }
        first
    }

    /// Sets the mode of a directory; what took its place meanwhile has a mode of its own.
    fn give_mode(&self, path: &WsPath, mode: u32) -> Result<()> {
        let place = self.disk.jail.place(path, Follow::No)?;
        match place.stat()? {
            Some(stat) if stat.kind == Kind::Directory => place.chmod(mode),
            _ => Ok(()),
        }
    }

    /// A path that was left out of the capture cannot be brought back, so nothing may take its place.
    fn refuse_what_would_lose(&self, changes: &[Change]) -> Result<()> {
        let kept: HashSet<&WsPath> = self.keep.iter().map(|skipped| &skipped.path).collect();
        if kept.is_empty() {
            return Ok(());
        }
        for change in changes {
            let becomes_leaf = matches!(&change.after, Some(Entry::File { .. } | Entry::Symlink { .. }));
            let hit = match &change.after {
                Some(_) if kept.contains(&change.path) => Some(&change.path),
                Some(_) if becomes_leaf && matches!(change.before, Some(Entry::Directory { .. })) => {
                    kept.iter().copied().find(|path| path.starts_with(&change.path))
                }
                _ => None,
            };
            if let Some(path) = hit {
                return Err(Error::new(
                    ErrorKind::UncheckpointedChanges,
                    "no checkpoint holds this entry, and the rollback would replace it",
                )
                .at(path)
                .with_hint("Move it elsewhere, or make it readable and take a checkpoint, then retry."));
            }
        }
        Ok(())
    }

    fn change(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes.iter().rev() {
            let leaves = match (&change.before, &change.after) {
                (Some(_), None) => true,
                (Some(before), Some(after))
                    if (before.kind() == Kind::Directory) != (after.kind() == Kind::Directory) =>
                {
                    // Not if it is of the new kind already: an interrupted application is being finished.
                    let there = self.disk.jail.lookup(&change.path, Follow::No)?;
                    there.is_some_and(|(_, stat)| (stat.kind == Kind::Directory) != (after.kind() == Kind::Directory))
                }
                _ => false,
            };
            if leaves {
                self.take_away(&change.path)?;
            }
        }
        for change in changes {
            match (&change.before, &change.after) {
                (_, None) | (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => {}
                (_, Some(Entry::Directory { .. })) => {
                    self.at(&change.path, &|place| match place.stat()? {
                        Some(stat) if stat.kind == Kind::Directory => Ok(()),
                        Some(_) => {
                            place.remove_file()?;
                            place.make_dir(0o777)
                        }
                        None => place.make_dir(0o777),
                    })?;
                }
                (before, Some(after)) => {
                    let only_mode = match (before, after) {
                        (Some(Entry::File { content: a, .. }), Entry::File { content: b, mode }) if a.same(b)? => {
                            Some(*mode)
                        }
                        _ => None,
                    };
                    let (disk, work) = (self.disk, self.work);
                    self.at(&change.path, &|place| match only_mode {
                        Some(mode) => place.chmod(mode),
                        None => {
                            DiskPlace { disk, path: change.path.clone(), missing: vec![], place: Some(place.clone()) }
                                .put(after, PutMode::Restore, work)
                        }
                    })?;
                }
            }
            self.work.advance(change.after.as_ref().map_or(0, Entry::len));
        }
        Ok(())
    }

    fn take_away(&mut self, path: &WsPath) -> Result<()> {
        let kept = self.keep.iter().any(|skipped| skipped.path.starts_with(path));
        let result = self.at(path, &|place| match place.stat()? {
            None => Ok(()),
            Some(stat) if stat.kind == Kind::Directory => match place.remove_dir() {
                // Holds something no checkpoint holds: it stays, and so does its directory.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && kept => Ok(()),
                // Temporary files of writers that died are nobody's.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                    sweep(&place.open_dir()?)?;
                    place.remove_dir()
                }
                result => result,
            },
            Some(_) => place.remove_file(),
        });
        match result {
            // Gone already, with its directory: an interrupted application is being finished.
            Err(error) if is_gone(&error) => Ok(()),
            result => result,
        }
    }

    /// Does something at a place whose directory may refuse to be written in, and is then opened for the while.
    fn at(&mut self, path: &WsPath, act: &dyn Fn(&jail::Place) -> Result<()>) -> Result<()> {
        let place = match self.disk.jail.place(path, Follow::No) {
            Ok(place) => place,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.open_up(&path.parent())?;
                self.disk.jail.place(path, Follow::No)?
            }
            Err(error) => return Err(error),
        };
        match act(&place) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && self.open_up(&path.parent())? => act(&place),
            result => result,
        }
    }

    /// Gives the owner access to the directories on the way; `false` if they had it.
    fn open_up(&mut self, directory: &WsPath) -> Result<bool> {
        let mut opened = false;
        let mut at = WsPath::root();
        for name in directory.names() {
            at = at.join(name);
            let Ok(place) = self.disk.jail.place(&at, Follow::No) else { break };
            let Some(stat) = place.stat()? else { break };
            let mode = stat.mode & 0o777;
            if mode & 0o700 != 0o700 {
                place.chmod(mode | 0o700)?;
                self.opened.entry(at.clone()).or_insert(mode);
                opened = true;
            }
        }
        Ok(opened)
    }
}
