//! A directory of the host, through the jail.
//!
//! Capture scans every directory (what others changed behind our back must be seen) but reads only what
//! the [`Index`] does not know to be unchanged. Apply touches only what differs: an untouched file keeps
//! its inode and its times.

mod apply;
mod index;
mod place;
mod scan;

use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::{self, Flock};
use crate::core::fs::jail::{self, Jail, Stat};
use crate::core::fs::{Captured, Features, FileSystem, Keeper, OpenFile, Place, ResolverChoice};
use crate::core::path::{Name, RawPath, WsPath};
use crate::core::tree::Tree;
use crate::core::tree::diff::Change;
use crate::core::tree::ignore::IgnoreRules;
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::{Directory, Info, Listed};
use apply::Apply;
use index::{Index, StatKey};
use parking_lot::{Mutex, RwLock};
use place::DiskPlace;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use scan::{Scan, Scanned};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

    /// Returns what tells the root from every other directory: device and inode.
    pub fn identity(&self) -> (u64, u64) {
        self.jail.identity()
    }

    fn open_root(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(self.jail.fd(), c".", flags, rustix::fs::Mode::empty())
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
        self.jail.read_link(path)
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
        let root = WsPath::root();
        let index = self.index.read();
        let last = self.last.lock().clone();
        let Scanned { tree, index: learnt, skipped, leftovers, hashed } =
            Scan::run(self.jail.dir(&root)?, &root, last, &index, &self.ignore, keeper, work)?;
        drop(index);
        // Before the index names anything: what was not kept must be read again next time.
        keeper.finish()?;
        *self.index.write() = learnt;
        *self.last.lock() = Some(tree.clone());
        self.unsaved.fetch_add(hashed, Ordering::Relaxed);
        Ok(Captured { tree, skipped, leftovers })
    }

    fn apply(&self, changes: &[Change], work: &Work) -> Result<()> {
        Apply::new(self, work).run(changes)
    }

    fn check_identity(&self) -> Result<()> {
        self.jail.check_identity()
    }

    fn hold(&self, work: &Work, timeout: Duration) -> Result<Option<Flock>> {
        let handle = self.open_root().map_err(|errno| Error::os(errno, "locking the workspace"))?;
        flock::exclusive(handle, work, timeout)
    }

    /// One call for all files and directories: which ones were written is not known here.
    fn flush(&self) -> Result<()> {
        let flushed = self.open_root().and_then(rustix::fs::syncfs);
        flushed.map_err(|errno| Error::os(errno, "flushing the workspace"))
    }

    fn close(&self) -> Result<()> {
        let index = std::mem::take(&mut *self.index.write());
        // A large tree takes longer to free than an event loop may be held: it goes here, not with the handle.
        drop(self.last.lock().take());
        let Some(path) = &self.index_file else { return Ok(()) };
        if self.unsaved.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        index.save(path, self.jail.identity()).map_err(|error| Error::io(&error, "saving the index"))
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

fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::FileNotFound | ErrorKind::DirectoryNotFound)
}
