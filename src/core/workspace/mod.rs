//! The facade: locks, records and names what happens on a filesystem.
//!
//! Every change goes one way down: capability and access, the lock, a place of the filesystem, the
//! record of what is about to happen, the change itself, the mark that it happened. Every call is
//! atomic by itself: threads, tasks and processes that change one file are served one after the other,
//! each on what the one before left.
//!
//! LOCK ORDER: the past's mutex (this process), the root's lock (other processes on the same files),
//! the state lock (other processes on the same history). Reads take none of them.

mod archive;
mod changing;
mod expected;
mod lease;
mod lineage;
mod past;
mod reads;
mod writes;

pub use lease::{Asker, Turn, Wake};
pub use lineage::{BlameLine, LogEntry, Visit};
pub use past::{DiffResult, Patch, Rollback};
pub use reads::{GlobResult, Match, SearchOptions, SearchResult, SkippedFile, StatResult, Summary, View};
pub use writes::{EditOptions, EditOutcome, TransferOptions, WriteOptions};

use crate::core::cancel::Work;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::disk::Disk;
use crate::core::fs::memory::Memory;
use crate::core::fs::{Features, FileSystem, ResolverChoice};
use crate::core::path::{RawPath, WsPath};
use crate::core::store::objects::Objects;
use crate::core::store::past::{GitPast, MemoryPast, Past};
use crate::core::store::record::Keep;
use crate::core::tree::Tree;
use crate::core::tree::ignore::IgnoreRules;
use parking_lot::Mutex;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Who writes when nobody says.
pub const DEFAULT_AUTHOR: &str = "user";
/// Who made what happened behind our back.
pub const EXTERNAL_AUTHOR: &str = "external";
/// How long a change waits for another process.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Counts the forks after which inherited workspaces cannot be used.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Says, in a child, that other threads of the parent were in calls when it was forked: their locks will
/// never be given up here, so every workspace opened before is out of use. New ones are not affected.
pub fn forked_while_busy() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// How much the mutation log keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Track {
    /// Records with the contents before and after.
    #[default]
    Full,
    /// Records without contents.
    Paths,
    /// No records; checkpoints still work.
    Off,
}

/// How a workspace is opened.
#[derive(Debug, Default)]
pub struct Options {
    /// Directory of the store; without one a memory workspace keeps its past in memory.
    pub store: Option<PathBuf>,
    /// The workspace's name in the store.
    pub id: Option<String>,
    /// How much the log keeps.
    pub track: Track,
    /// Contents up to this size are kept in records.
    pub max_diff_bytes: Option<u64>,
    /// What is neither captured nor touched by a rollback.
    pub ignore: IgnoreRules,
}

impl Options {
    /// The program may change its directory later; the store stays where it was.
    fn make_absolute(&mut self) -> Result<()> {
        if let Some(store) = &self.store {
            self.store = Some(absolute(store, "opening the store")?);
        }
        Ok(())
    }
}

/// How a directory is opened.
#[derive(Debug, Default)]
pub struct OpenOptions {
    /// Make the directory if it is missing.
    pub create: bool,
    /// Allow `/` and home directories.
    pub allow_large: bool,
    /// The directory that counts as a home; the core does not know one by itself.
    pub home: Option<PathBuf>,
    /// Who resolves paths.
    pub resolver: ResolverChoice,
    /// Open for reading only: nothing is written, neither in the tree nor in the store.
    pub read_only: bool,
}

/// What a handle may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// A jailed tree of files whose past is kept. Clones are handles of the same workspace.
#[derive(Debug, Clone)]
pub struct Workspace {
    inner: Arc<Inner>,
    access: Access,
}

#[derive(Debug)]
enum Files {
    Memory(Memory),
    Disk(Disk),
}

#[derive(Debug)]
struct Inner {
    id: String,
    files: Files,
    past: Mutex<Box<dyn Past>>,
    /// The generation it was opened in; see [`forked_while_busy`].
    born: u64,
    store: Option<PathBuf>,
    track: Track,
    max_diff_bytes: Option<u64>,
    ignore: IgnoreRules,
    closed: AtomicBool,
    /// Who holds and who wants the writer lease.
    line: Arc<lease::Line>,
    /// A change failed half way and could not be taken back: whoever comes next finishes it.
    in_doubt: AtomicBool,
}

impl Workspace {
    /// Opens an empty workspace in memory, or one whose past (and last state) a store holds.
    ///
    /// # Errors
    /// `invalid-argument` for a store without full tracking: between checkpoints the records are all that
    /// is left of a memory.
    pub fn memory(mut options: Options) -> Result<Self> {
        if options.store.is_some() && (options.track != Track::Full || options.max_diff_bytes.is_some()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a workspace in memory with a store keeps its files by its records, so they must be full",
            )
            .with_hint("Leave track and max_diff_bytes as they are, or keep the files on disk."));
        }
        if options.store.is_some() && !options.ignore.is_none() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a workspace in memory with a store keeps its files by its checkpoints, so none can be left out",
            )
            .with_hint("Leave ignore as it is, or keep the files on disk."));
        }
        options.make_absolute()?;
        let id = checked_id(options.id.as_deref())?.unwrap_or_else(random_id);
        let files = Files::Memory(Memory::default());
        let past: Box<dyn Past> = match &options.store {
            Some(store) => Box::new(GitPast::open(Objects::open(store, true)?, store, &id)?),
            None => Box::new(MemoryPast::default()),
        };
        let workspace = Self::assemble(id, files, past, options);
        workspace.restore_memory()?;
        Ok(workspace)
    }

    /// Opens a directory of the host.
    ///
    /// # Errors
    /// `directory-not-found`, `root-too-large`, `store-version`, `store-corrupt`; opening finishes what a
    /// killed process left half done.
    ///
    /// The state found is checkpointed as the baseline if the store knows none yet: what changes from now
    /// on, through whomever, can be undone.
    pub fn open(root: &Path, mut options: Options, open: &OpenOptions, work: &Work) -> Result<Self> {
        options.make_absolute()?;
        if !open.allow_large {
            refuse_large(root, open.home.as_deref())?;
        }
        let Some(store) = &options.store else {
            return Err(Error::new(ErrorKind::InvalidArgument, "a workspace on disk needs a store"));
        };
        let disk = Disk::open(root, open.resolver, open.create, options.ignore.clone())?;
        let id = match checked_id(options.id.as_deref())? {
            Some(id) => id,
            None => id_of_root(disk.host_root()),
        };
        if !open.allow_large {
            refuse_large(disk.host_root(), open.home.as_deref())?;
        }
        let real_store = real(store);
        let nested = if real_store.starts_with(disk.host_root()) {
            Some("the store lies inside the workspace")
        } else if disk.host_root().starts_with(&real_store) {
            Some("the workspace lies inside the store")
        } else {
            None
        };
        if let Some(message) = nested {
            return Err(Error::new(ErrorKind::InvalidArgument, message)
                .with_hint("Choose a store directory outside the workspace, where no tool can reach it."));
        }
        if open.read_only && !GitPast::exists(store, &id) {
            let past = Box::new(MemoryPast::default());
            return Ok(Self::assemble(id, Files::Disk(disk), past, options).read_only());
        }
        let past = GitPast::open(Objects::open(store, true)?, store, &id)?;
        let index_file = past.directory().join("index");
        let disk = disk.with_index(index_file);
        if let Some(head) = past.head() {
            disk.remember_tree(past.tree(&head)?);
        }
        let workspace = Self::assemble(id, Files::Disk(disk), Box::new(past), options);
        let mut changing = workspace.hold(work)?;
        changing.finish_interrupted()?;
        if open.read_only {
            drop(changing);
            return Ok(workspace.read_only());
        }
        changing.ensure_baseline()?;
        drop(changing);
        Ok(workspace)
    }

    /// Makes a read-only workspace of a tree: a checkpoint to look at.
    pub fn of_tree(tree: Tree) -> Self {
        let files = Files::Memory(Memory::new(tree));
        let mut workspace = Self::assemble(random_id(), files, Box::new(MemoryPast::default()), Options::default());
        workspace.access = Access::Read;
        workspace
    }

    fn assemble(id: String, files: Files, past: Box<dyn Past>, options: Options) -> Self {
        let line = lease::Line::of(&files);
        Workspace {
            inner: Arc::new(Inner {
                id,
                files,
                past: Mutex::new(past),
                born: GENERATION.load(Ordering::Acquire),
                store: options.store,
                track: options.track,
                max_diff_bytes: options.max_diff_bytes,
                ignore: options.ignore,
                closed: AtomicBool::new(false),
                line,
                in_doubt: AtomicBool::new(false),
            }),
            access: Access::Write,
        }
    }

    /// Returns a handle that can only read.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Workspace { inner: Arc::clone(&self.inner), access: Access::Read }
    }

    /// Tells whether this handle can only read.
    pub fn is_read_only(&self) -> bool {
        self.access == Access::Read
    }

    /// Returns the workspace's name in its store.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Returns the host path of the root, if there is one.
    pub fn root(&self) -> Option<&Path> {
        match &self.inner.files {
            Files::Disk(disk) => Some(disk.host_root()),
            Files::Memory(_) => None,
        }
    }

    /// Returns the directory of the store, if there is one.
    pub fn store(&self) -> Option<&Path> {
        self.inner.store.as_deref()
    }

    /// Tells what the filesystem can do.
    pub fn features(&self) -> Features {
        self.files().features()
    }

    /// Makes every write so far survive a power loss: the files first, so that no record tells of what is lost.
    pub fn flush(&self, work: &Work) -> Result<()> {
        let changing = self.change(work)?;
        self.files().flush()?;
        changing.past.flush()
    }

    /// Ends the use of this workspace through any of its handles.
    pub fn close(&self) -> Result<()> {
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Only a cache: without it the next capture reads more, which is no reason to fail.
        drop(self.files().close());
        // This takes time, and may wait for the disk: it is done here, not where the last handle is let go of, which may be
        // an event loop. Whoever is at work does it in the end.
        if let Some(past) = self.inner.past.try_lock() {
            past.rest();
        }
        Ok(())
    }

    /// Tells whether [`Workspace::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    fn files(&self) -> &dyn FileSystem {
        match &self.inner.files {
            Files::Memory(memory) => memory,
            Files::Disk(disk) => disk,
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::new(ErrorKind::ReadOnlyWorkspace, "the workspace is read-only"));
        }
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        if self.inner.born != GENERATION.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::UsedAfterFork,
                "this process was forked while another thread was using a workspace",
            ));
        }
        if self.is_closed() {
            return Err(Error::new(ErrorKind::WorkspaceClosed, "the workspace is closed"));
        }
        Ok(())
    }

    fn keep(&self) -> Keep {
        Keep { contents: self.inner.track == Track::Full, max_bytes: self.inner.max_diff_bytes }
    }

    /// Turns what a caller wrote into the path of an entry to read.
    fn path(&self, text: &[u8]) -> Result<WsPath> {
        self.parse(text).map(|(path, _)| path)
    }

    /// As [`Workspace::path`]; tells too whether only a directory will do.
    fn parse(&self, text: &[u8]) -> Result<(WsPath, bool)> {
        self.check_open()?;
        let raw = RawPath::parse(text)?;
        let path = match raw.plain() {
            Some(path) => path,
            None => self.files().canonical(&raw).map_err(|error| at_raw(error, text))?,
        };
        if raw.must_be_dir && !path.is_root() {
            use crate::core::tree::resolve::Follow;
            if let Some((_, info)) = self.files().lookup(&path, Follow::Yes)?
                && info.kind != crate::core::tree::Kind::Directory
            {
                return Err(Error::new(ErrorKind::NotADirectory, "not a directory").at(&path));
            }
        }
        Ok((path, raw.must_be_dir))
    }
}

/// A path that leaves the root has no canonical form to name; what the caller wrote does, as far as it goes.
fn at_raw(error: Error, text: &[u8]) -> Error {
    let shown: Vec<&[u8]> =
        text.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"." | b"..")).collect();
    match WsPath::new(shown.join(&b'/')) {
        Ok(path) => error.at(&path),
        Err(_) => error,
    }
}

fn checked_id(id: Option<&str>) -> Result<Option<String>> {
    let Some(id) = id else { return Ok(None) };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let good = id.len() <= 100
        && id.chars().all(plain)
        && ends(id.chars().next())
        && ends(id.chars().next_back())
        && !id.contains("..")
        && !id.to_ascii_lowercase().ends_with(".lock");
    if good {
        Ok(Some(id.to_owned()))
    } else {
        Err(Error::new(ErrorKind::InvalidArgument, "a workspace id is 1 to 100 letters, digits, '-', '_' or '.'")
            .with_hint("Use a slug such as \"run-1\"; it starts and ends with a letter or digit."))
    }
}

/// An id nobody else has: a name in a store, not a secret.
fn random_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut bytes = Vec::with_capacity(40);
    for _ in 0..2 {
        bytes.extend_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    bytes.extend_from_slice(&now_ns().to_le_bytes());
    bytes.extend_from_slice(&std::process::id().to_le_bytes());
    format!("ws-{}", &ObjectId::hash("blob", &bytes).to_string()[..32])
}

/// The id of a directory opened without one: its name for people, its path for uniqueness.
fn id_of_root(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hash = ObjectId::hash("blob", root.as_os_str().as_bytes()).to_string();
    let name: String = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { format!("root-{}", &hash[..12]) } else { format!("{name}-{}", &hash[..12]) }
}

/// Makes a path of the caller absolute: what `open` is given may be relative to the program's directory.
#[expect(clippy::disallowed_methods, reason = "the caller's own paths, once, at open")]
fn absolute(path: &Path, doing: &str) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io(&error, doing))
}

/// Returns where an absolute path leads, as far as it exists, for comparing with other host paths; never for opening.
#[expect(clippy::disallowed_methods, reason = "the caller's own paths, once, at open")]
fn real(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            _ => real.push(part),
        }
        if let Ok(there) = std::fs::canonicalize(&real) {
            real = there;
        }
    }
    real
}

/// A whole machine or a home is hardly ever what somebody wants an agent to work in.
fn refuse_large(root: &Path, home: Option<&Path>) -> Result<()> {
    let root = absolute(root, "opening the workspace root")?;
    let top = root.parent().is_none();
    let is_home = home.is_some_and(|home| home == root || home.starts_with(&root))
        || matches!(root.to_str(), Some("/home" | "/root" | "/Users"))
        || root.parent().is_some_and(|parent| matches!(parent.to_str(), Some("/home" | "/Users")));
    if top || is_home {
        return Err(Error::new(ErrorKind::RootTooLarge, "this directory is a whole machine or a home"));
    }
    Ok(())
}

pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
