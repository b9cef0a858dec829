//! Git objects: reading, writing in batches, keeping the number of packs bounded.
//!
//! The store is a bare git repository that plain git can read (`git --git-dir=… log`, `fsck --strict`,
//! `gc`, `clone`). Nothing here runs git, reads a git configuration or looks at the environment, and
//! `objects/info/alternates` is not followed: the store owns what it promises to keep.
//!
//! # Promises
//! * What is read was checked against its id, or is an error of kind `store-corrupt`; a range of a large
//!   object is served after the whole object was checked once in this process.
//! * Many processes read and write one store at the same time. Objects are immutable and appear by
//!   rename; a pack appears before its index; an index goes before its pack. A reader that misses an
//!   object looks at the directory again before it says so, because `git gc` or another process may
//!   have moved it between two looks.
//! * A killed writer leaves only files in `hedgerow/tmp`, which the next [`Objects::open`] removes.
//!
//! # Decisions
//! * A batch of a few small objects becomes loose files, a larger one a single pack: 50,000 files of
//!   their own take longer to create than to hash and deflate.
//! * Deflate level 1, and stored blocks where a sample shows no redundancy: compressed media only costs
//!   time.
//! * Files over 8 MiB go to loose objects of their own, in a stream: their deflated length is not known
//!   beforehand, and a pack that waits for it would block the other workers.
//!
//! What this must never do: delete an object nobody else holds. [`Objects::consolidate`] deletes a file
//! only after all its objects stand in a finished pack.

use super::files::{Dir, Scratch, Temp, sync_file, write_all};
use super::loose;
use super::pack::{
    EntryKind, Index, Pack, Written, checksum, checksum_bytes, entry_head, make_index, read_exactly, stream_error,
};
use crate::core::cancel::Work;
use crate::core::content::{Content, ContentSource, ObjectHasher, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use flate2::{Compress, Compression, FlushCompress, Status};
use parking_lot::{Mutex, RwLock};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha1_checked::Digest;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch of at most this many objects is stored loose.
const LOOSE_MAX_OBJECTS: usize = 2;
/// A batch of at most this many bytes is stored loose.
const LOOSE_MAX_BYTES: usize = 1 << 20;
/// Deflated bytes collected before they are written to a pack.
const WRITE_BUFFER: usize = 1 << 20;
/// Bytes handled between two looks at the cancel token.
const PIECE: usize = 1 << 20;
/// More loose objects than this are swept into a pack.
const MAX_LOOSE: usize = 2000;
/// A larger loose object is left alone by the sweep: copying it gains nothing.
const SWEEP_MAX_BYTES: u64 = 4 << 20;
/// Version of what stands in `hedgerow/`.
const FORMAT: u64 = 1;

/// The four kinds of git objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Content of a file, or the target of a link.
    Blob,
    /// A directory.
    Tree,
    /// A checkpoint.
    Commit,
    /// An annotated tag; never written here.
    Tag,
}

impl ObjectKind {
    /// Returns git's word for it.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Blob => "blob",
            ObjectKind::Tree => "tree",
            ObjectKind::Commit => "commit",
            ObjectKind::Tag => "tag",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [ObjectKind::Blob, ObjectKind::Tree, ObjectKind::Commit, ObjectKind::Tag]
            .into_iter()
            .find(|kind| kind.name() == text)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An object being read.
pub(super) struct Stream {
    pub(super) kind: ObjectKind,
    pub(super) len: u64,
    pub(super) body: Box<dyn Read + Send>,
}

pub(super) fn damaged_object(id: &ObjectId) -> Error {
    Error::new(ErrorKind::StoreCorrupt, format!("object {id} is damaged"))
}

fn missing_object(id: &ObjectId) -> Error {
    Error::new(ErrorKind::StoreCorrupt, format!("object {id} is missing from the store"))
}

/// The objects of one store.
#[derive(Debug)]
pub struct Objects {
    root: Dir,
    /// `objects/`.
    loose: Dir,
    /// `objects/pack/`.
    pack: Dir,
    own: Dir,
    scratch: Mutex<Option<Arc<Scratch>>>,
    packs: RwLock<Packs>,
    /// Large objects whose whole content was checked, so that ranges of them may be served.
    verified: Mutex<HashSet<ObjectId>>,
    deflaters: Mutex<Vec<Deflater>>,
}

/// What a store held at one moment: somebody may collect garbage between two of them.
#[derive(Debug)]
pub struct Present {
    objects: Arc<Objects>,
    /// Largest first: most of what is asked for is there.
    packs: Vec<Arc<Pack>>,
}

impl Present {
    /// Tells whether an object was there.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.objects.is_in(&self.packs, id)
    }
}

#[derive(Debug, Default)]
struct Packs {
    list: Arc<[Arc<Pack>]>,
    /// Change time of the pack directory when it was listed.
    seen: Option<(i64, i64)>,
    /// That time was old enough then that a later change cannot carry the same one.
    settled: bool,
}

impl Objects {
    /// Opens the store in `dir`, making it if `create`.
    ///
    /// # Errors
    /// `directory-not-found` if there is nothing and `create` is off, `store-version` for a store of a
    /// newer version, `store-corrupt` for one whose version cannot be read, `invalid-argument` if the
    /// directory holds something else, `permission-denied` if others could write to it.
    pub fn open(dir: &Path, create: bool) -> Result<Arc<Self>> {
        let root = Dir::open_root(dir, create)?;
        if create {
            lay_out(&root)?;
        }
        root.require_private()?;
        let own = root.try_sub("hedgerow")?.ok_or_else(|| {
            Error::new(ErrorKind::StoreCorrupt, "the directory is not a store: its version file is missing")
        })?;
        check_format(&own)?;
        let objects = root.sub("objects", false)?;
        // Git leaves no empty pack directory behind in some copies of a repository.
        let pack = objects.sub("pack", true)?;
        Scratch::sweep(&own.sub("tmp", true)?);
        Ok(Arc::new(Objects {
            root,
            loose: objects,
            pack,
            own,
            scratch: Mutex::new(None),
            packs: RwLock::new(Packs::default()),
            verified: Mutex::new(HashSet::new()),
            deflaters: Mutex::new(Vec::new()),
        }))
    }

    /// Returns the handle of the store's directory.
    pub(crate) fn dir(&self) -> &Dir {
        &self.root
    }

    /// Removes the directory for temporary files, unless somebody uses it, and frees what compressing took.
    pub(crate) fn rest(&self) {
        drop(self.scratch.lock().take());
        // PERF: 0.4 MB each, and milliseconds for the kernel to take back.
        self.deflaters.lock().clear();
    }

    /// Returns the directory for temporary files, making it the first time.
    pub(crate) fn scratch(&self) -> Result<Arc<Scratch>> {
        let mut scratch = self.scratch.lock();
        if let Some(scratch) = &*scratch {
            return Ok(Arc::clone(scratch));
        }
        let made = Arc::new(Scratch::create(self.own.sub("tmp", true)?)?);
        *scratch = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Tells whether the store holds an object.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.is_in(&self.current_packs(true), id)
    }

    fn is_in(&self, packs: &[Arc<Pack>], id: &ObjectId) -> bool {
        packs.iter().any(|pack| pack.find(id).is_some()) || self.loose.exists(&loose::place(id).1)
    }

    /// Looks at what there is now, to ask for many objects.
    pub fn present(self: &Arc<Self>) -> Present {
        let mut packs = self.current_packs(true).to_vec();
        packs.sort_by_key(|pack| std::cmp::Reverse(pack.len));
        Present { objects: Arc::clone(self), packs }
    }

    /// Reads a whole object and checks it against its id.
    ///
    /// # Errors
    /// `store-corrupt` naming the id if it is missing or damaged.
    pub fn read(&self, id: &ObjectId) -> Result<(ObjectKind, Vec<u8>)> {
        self.read_at_depth(id, 0)
    }

    fn read_at_depth(&self, id: &ObjectId, depth: usize) -> Result<(ObjectKind, Vec<u8>)> {
        self.find(id, depth, |stream| {
            let (kind, bytes) = read_exactly(id, stream)?;
            if ObjectId::hash(kind.name(), &bytes) == *id { Ok((kind, bytes)) } else { Err(damaged_object(id)) }
        })
    }

    /// Returns the length of a blob without reading it.
    pub fn blob_len(&self, id: &ObjectId) -> Result<u64> {
        let (kind, len) = self.header(id)?;
        if kind == ObjectKind::Blob { Ok(len) } else { Err(not_a_blob(id)) }
    }

    /// Returns kind and length of an object without reading it.
    pub fn header(&self, id: &ObjectId) -> Result<(ObjectKind, u64)> {
        self.header_at_depth(id, 0)
    }

    fn header_at_depth(&self, id: &ObjectId, depth: usize) -> Result<(ObjectKind, u64)> {
        if depth > MAX_DEPTH {
            return Err(damaged_object(id));
        }
        let mut last = None;
        for _ in 0..ATTEMPTS {
            for pack in self.known_packs().iter() {
                if let Some(at) = pack.find(id) {
                    match pack.header(at, &|base| self.header_at_depth(base, depth + 1).map(|found| found.0)) {
                        Ok(found) => return Ok(found),
                        Err(error) => last = Some(error),
                    }
                }
            }
            match loose::open(&self.loose, id) {
                Ok(Some(stream)) => return Ok((stream.kind, stream.len)),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            self.rescan()?;
        }
        Err(last.unwrap_or_else(|| missing_object(id)))
    }

    /// Reads a range of a blob; past the end is empty, at the end is short.
    pub fn read_blob(&self, id: &ObjectId, range: Range<u64>) -> Result<Vec<u8>> {
        self.open_verified(id)?.read(id, range)
    }

    /// Writes a blob to `out` in pieces. An error may come after bytes were written, because the check
    /// of the id comes last: then what was written is not to be used.
    pub fn copy_blob(&self, id: &ObjectId, out: &mut dyn Write) -> Result<()> {
        self.copy(id, out, &Work::default(), true)
    }

    /// Checks a blob against its id without keeping it.
    pub fn verify_blob(&self, id: &ObjectId, work: &Work) -> Result<()> {
        self.copy(id, &mut std::io::sink(), work, true)
    }

    /// Checks an object of any kind against its id without keeping it.
    pub fn verify(&self, id: &ObjectId, work: &Work) -> Result<()> {
        self.copy(id, &mut std::io::sink(), work, false)
    }

    /// Names a blob that stays in the store until it is read.
    pub fn content(self: &Arc<Self>, id: ObjectId, len: u64) -> Content {
        let source = BlobSource { objects: Arc::clone(self), id, len, cursor: Mutex::new(None) };
        Content::from_source(len, Some(id), Box::new(source))
    }

    /// Starts a batch of writes, which becomes visible when it is finished. Flushed to the disk before.
    pub fn batch(self: &Arc<Self>) -> Result<Batch> {
        Ok(Batch {
            scratch: self.scratch()?,
            objects: Arc::clone(self),
            sync: true,
            failed: AtomicBool::new(false),
            state: Mutex::new(BatchState::default()),
        })
    }

    fn copy(&self, id: &ObjectId, out: &mut dyn Write, work: &Work, blob: bool) -> Result<()> {
        let Stream { kind, len, body } = self.find(id, 0, Ok)?;
        if blob && kind != ObjectKind::Blob {
            return Err(not_a_blob(id));
        }
        let mut hasher = ObjectHasher::new(kind.name(), len);
        let mut body = body.take(len.saturating_add(1));
        let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE)).max(1)];
        let mut left = len;
        loop {
            let got = read_full(&mut body, &mut piece).map_err(|error| stream_error(id, &error))?;
            if got == 0 {
                break;
            }
            if got as u64 > left {
                return Err(damaged_object(id));
            }
            left -= got as u64;
            hasher.update(&piece[..got]);
            out.write_all(&piece[..got]).map_err(|error| Error::io(&error, "writing"))?;
            work.check()?;
        }
        if left == 0 && hasher.finish() == *id { Ok(()) } else { Err(damaged_object(id)) }
    }

    /// Opens a blob at its start once its whole content was checked; small ones are held in memory.
    fn open_verified(&self, id: &ObjectId) -> Result<Cursor> {
        let known = self.verified.lock().contains(id);
        let stream = self.find(id, 0, |stream| {
            if known || stream.len > PIECE as u64 {
                return Ok(stream);
            }
            let (kind, bytes) = read_exactly(id, stream)?;
            if ObjectId::hash(kind.name(), &bytes) != *id {
                return Err(damaged_object(id));
            }
            Ok(Stream { kind, len: bytes.len() as u64, body: Box::new(std::io::Cursor::new(bytes)) })
        })?;
        if stream.kind != ObjectKind::Blob {
            return Err(not_a_blob(id));
        }
        if !known && stream.len > PIECE as u64 {
            self.verify_blob(id, &Work::default())?;
            let mut verified = self.verified.lock();
            if verified.len() > 1 << 16 {
                verified.clear();
            }
            verified.insert(*id);
        }
        Ok(Cursor { at: 0, len: stream.len, body: stream.body })
    }

    /// Finds an object wherever it is and hands it to `read`; tries the next place if `read` fails.
    fn find<T>(&self, id: &ObjectId, depth: usize, mut read: impl FnMut(Stream) -> Result<T>) -> Result<T> {
        if depth > MAX_DEPTH {
            return Err(damaged_object(id));
        }
        let mut last = None;
        for _ in 0..ATTEMPTS {
            for pack in self.known_packs().iter() {
                let Some(at) = pack.find(id) else { continue };
                let found = pack.stream(at, &|base| self.read_at_depth(base, depth + 1)).and_then(&mut read);
                match found {
                    Ok(found) => return Ok(found),
                    Err(error) => last = Some(error),
                }
            }
            match loose::open(&self.loose, id).and_then(|stream| stream.map(&mut read).transpose()) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            // Packed between the two looks, or packs replaced since they were listed: look again.
            self.rescan()?;
        }
        Err(match last {
            Some(error) if error.kind() == ErrorKind::StoreCorrupt && !error.message().starts_with("object ") => {
                damaged_object(id).because(error)
            }
            Some(error) => error,
            None => missing_object(id),
        })
    }

    fn known_packs(&self) -> Arc<[Arc<Pack>]> {
        let packs = self.packs.read();
        if packs.seen.is_some() {
            return Arc::clone(&packs.list);
        }
        drop(packs);
        self.current_packs(false)
    }

    /// Returns the packs, listed again if the directory changed, or with `strict` if it might have. A
    /// directory that cannot be listed is reported by the read that then misses its object.
    fn current_packs(&self, strict: bool) -> Arc<[Arc<Pack>]> {
        let now = rustix::fs::fstat(&self.pack).ok().map(|stat| (stat.st_mtime, signed(stat.st_mtime_nsec)));
        {
            let packs = self.packs.read();
            if packs.seen.is_some() && packs.seen == now && (packs.settled || !strict) {
                return Arc::clone(&packs.list);
            }
        }
        match self.rescan() {
            Ok(()) | Err(_) => Arc::clone(&self.packs.read().list),
        }
    }

    /// Lists the pack directory; packs already open are kept as they are.
    fn rescan(&self) -> Result<()> {
        let stat = rustix::fs::fstat(&self.pack).map_err(|error| Error::os(error, "examining the pack directory"))?;
        let changed = (stat.st_mtime, signed(stat.st_mtime_nsec));
        let mut known: HashMap<String, Arc<Pack>> =
            self.packs.read().list.iter().map(|pack| (pack.stem.clone(), Arc::clone(pack))).collect();
        let mut list = Vec::new();
        let mut names = self.pack.list()?;
        names.sort_unstable();
        for name in names {
            let Some(stem) = name.strip_suffix(".idx").filter(|stem| stem.starts_with("pack-")) else { continue };
            if let Some(pack) = known.remove(stem) {
                list.push(pack);
            } else if let Some(pack) = self.load(stem)? {
                list.push(Arc::new(pack));
            }
        }
        // Larger packs first: they answer most questions.
        list.sort_by_key(|pack| std::cmp::Reverse(pack.index.len()));
        let settled = settled(changed);
        let mut packs = self.packs.write();
        packs.list = list.into();
        packs.seen = Some(changed);
        packs.settled = settled;
        Ok(())
    }

    /// Opens one pack; `None` if it has gone, or is damaged (its objects may also stand elsewhere).
    fn load(&self, stem: &str) -> Result<Option<Pack>> {
        let Some(file) = self.pack.open(&format!("{stem}.pack"))? else { return Ok(None) };
        let Some(index) = self.pack.open(&format!("{stem}.idx"))? else { return Ok(None) };
        let reading = |error: &std::io::Error| Error::io(error, "reading a pack index");
        let len = index.metadata().map_err(|error| reading(&error))?.len();
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        if let Err(error) = index.read_exact_at(&mut bytes, 0) {
            return if error.kind() == std::io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(reading(&error)) };
        }
        match Index::parse(bytes).and_then(|index| Pack::new(stem.to_owned(), index, file)) {
            Ok(pack) => Ok(Some(pack)),
            Err(error) if error.kind() == ErrorKind::StoreCorrupt => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells whether a write of this object can be skipped.
    ///
    /// A pack is flushed before its index appears, so being indexed is enough. A loose object may stem
    /// from a run that did not flush, and be empty after a power loss: it counts only if it reads back
    /// right, else a retry would build on the torn file for ever.
    fn holds(&self, id: &ObjectId) -> bool {
        // Not strict: to write what another process wrote a moment ago is harmless.
        if self.current_packs(false).iter().any(|pack| pack.find(id).is_some()) {
            return true;
        }
        match loose::open(&self.loose, id) {
            Ok(Some(Stream { kind, len, mut body })) => {
                let mut hasher = ObjectHasher::new(kind.name(), len);
                let mut piece = vec![0; 64 << 10];
                loop {
                    match body.read(&mut piece) {
                        Ok(0) => return hasher.finish() == *id,
                        Ok(got) => hasher.update(&piece[..got]),
                        Err(_) => return false,
                    }
                }
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn deflater(&self) -> Deflater {
        self.deflaters.lock().pop().unwrap_or_default()
    }

    fn give_back(&self, deflater: Deflater) {
        self.deflaters.lock().push(deflater);
    }
}

const ATTEMPTS: usize = 3;
/// Deltas whose base stands in another pack; git makes none on disk, so this only ends a circle.
const MAX_DEPTH: usize = 8;

fn not_a_blob(id: &ObjectId) -> Error {
    Error::new(ErrorKind::StoreCorrupt, format!("object {id} is not the content of a file"))
}

fn signed(nanoseconds: impl TryInto<i64>) -> i64 {
    nanoseconds.try_into().unwrap_or(0)
}

/// Tells whether a change time is so old that a later change cannot carry the same one: file systems
/// stamp with the kernel's tick, at most 10 ms, or in whole seconds.
fn settled((seconds, _): (i64, i64)) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec > seconds + 2
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A blob being read from a place on.
struct Cursor {
    at: u64,
    len: u64,
    body: Box<dyn Read + Send>,
}

impl Cursor {
    fn read(&mut self, id: &ObjectId, range: Range<u64>) -> Result<Vec<u8>> {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        let skipped = std::io::copy(&mut (&mut self.body).take(start - self.at), &mut std::io::sink())
            .map_err(|error| stream_error(id, &error))?;
        let mut bytes = Vec::with_capacity(usize::try_from((end - start).min(64 << 20)).unwrap_or(0));
        (&mut self.body).take(end - start).read_to_end(&mut bytes).map_err(|error| stream_error(id, &error))?;
        if skipped != start - self.at || bytes.len() as u64 != end - start {
            return Err(damaged_object(id));
        }
        self.at = end;
        Ok(bytes)
    }
}

/// A blob as a [`ContentSource`]. Keeps its place, so that reading a large file piece by piece
/// inflates it once and not once per piece.
struct BlobSource {
    objects: Arc<Objects>,
    id: ObjectId,
    len: u64,
    cursor: Mutex<Option<Cursor>>,
}

impl fmt::Debug for BlobSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobSource({}, {} bytes)", self.id, self.len)
    }
}

impl ContentSource for BlobSource {
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let kept = self.cursor.lock().take().filter(|cursor| cursor.at <= range.start.min(cursor.len));
        let mut cursor = match kept {
            Some(cursor) => cursor,
            None => self.objects.open_verified(&self.id)?,
        };
        if cursor.len != self.len {
            return Err(damaged_object(&self.id));
        }
        let bytes = cursor.read(&self.id, range)?;
        if cursor.at < cursor.len {
            *self.cursor.lock() = Some(cursor);
        }
        Ok(bytes)
    }

    fn copy_to(&self, out: &mut dyn Write) -> Result<()> {
        self.objects.copy_blob(&self.id, out)
    }
}

/// What a finished batch wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchStats {
    /// Objects that were new to the store.
    pub objects: u64,
    /// Bytes they take on disk.
    pub bytes: u64,
}

/// Objects on their way into the store; several threads may put at the same time.
///
/// Nothing is visible before [`Batch::finish`]; a batch that is dropped leaves nothing behind.
pub struct Batch {
    objects: Arc<Objects>,
    scratch: Arc<Scratch>,
    sync: bool,
    /// A put failed after its id was promised to others: the batch cannot be finished any more.
    failed: AtomicBool,
    state: Mutex<BatchState>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} objects)", self.state.lock().seen.len())
    }
}

#[derive(Default)]
struct BatchState {
    seen: HashSet<ObjectId>,
    /// Objects kept as they are while the batch may still become loose files.
    small: Vec<(ObjectKind, ObjectId, Vec<u8>)>,
    small_bytes: usize,
    pack: Option<PackFile>,
    large: Vec<(ObjectId, String, File, u64)>,
}

/// A pack being written: its file, and what is not in it yet.
struct PackFile {
    name: String,
    file: Arc<File>,
    pending: Vec<u8>,
    pending_at: u64,
    entries: Vec<Written>,
}

impl Batch {
    /// Chooses whether [`Batch::finish`] flushes to the disk before objects become visible.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Adds an object and returns its id.
    pub fn put(&self, kind: ObjectKind, bytes: &[u8]) -> Result<ObjectId> {
        let id = ObjectId::hash(kind.name(), bytes);
        self.put_as(kind, id, bytes)?;
        Ok(id)
    }

    /// Adds an object whose id is known; a wrong id would be found when it is read.
    pub fn put_as(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<()> {
        if self.state.lock().seen.contains(&id) || self.objects.holds(&id) {
            return Ok(());
        }
        let spilled = {
            let mut state = self.state.lock();
            if !state.seen.insert(id) {
                return Ok(());
            }
            let fits = state.small.len() < LOOSE_MAX_OBJECTS && state.small_bytes + bytes.len() < LOOSE_MAX_BYTES;
            if state.pack.is_none() && fits {
                state.small_bytes += bytes.len();
                state.small.push((kind, id, bytes.to_vec()));
                return Ok(());
            }
            if state.pack.is_none() {
                let made = self.start_pack();
                state.pack = Some(made.inspect_err(|_| self.fail())?);
            }
            state.small_bytes = 0;
            std::mem::take(&mut state.small)
        };
        let added = spilled
            .iter()
            .map(|(kind, id, bytes)| (*kind, *id, bytes.as_slice()))
            .chain([(kind, id, bytes)])
            .try_for_each(|(kind, id, bytes)| self.add_to_pack(kind, id, bytes));
        added.inspect_err(|_| self.fail())
    }

    /// Adds a blob of `len` bytes from `reader`, a piece at a time: for large files.
    ///
    /// # Errors
    /// `path-race` if the reader yields less or more; `cancelled`.
    pub fn put_stream(&self, len: u64, reader: &mut dyn Read, work: &Work) -> Result<ObjectId> {
        let changed = || Error::new(ErrorKind::PathRace, "the file changed while it was read");
        let reading = |error: std::io::Error| Error::io(&error, "reading");
        let temp = self.scratch.file()?;
        let mut hasher = ObjectHasher::new(ObjectKind::Blob.name(), len);
        let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE)).max(1)];
        let mut out = Vec::with_capacity(PIECE + (PIECE >> 4));
        let mut deflater = self.objects.deflater();
        let mut stored = 0;
        let mut left = len;
        let mut compress: Option<&mut Compress> = None;
        while left > 0 {
            work.check()?;
            let want = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let got = read_full(&mut &mut *reader, &mut piece[..want]).map_err(reading)?;
            if got < want {
                return Err(changed());
            }
            left -= got as u64;
            hasher.update(&piece[..got]);
            out.clear();
            let state = if let Some(state) = compress.take() {
                state
            } else {
                let state = deflater.choose(&piece[..got]);
                deflate(state, &loose::head(ObjectKind::Blob, len), FlushCompress::None, &mut out)?;
                state
            };
            deflate(state, &piece[..got], FlushCompress::None, &mut out)?;
            write_all(&temp.file, &out, "writing an object")?;
            stored += out.len() as u64;
            compress = Some(state);
        }
        work.check()?;
        if reader.read(&mut [0]).map_err(reading)? != 0 {
            return Err(changed());
        }
        out.clear();
        let state = if let Some(state) = compress {
            state
        } else {
            let state = deflater.choose(&[]);
            deflate(state, &loose::head(ObjectKind::Blob, 0), FlushCompress::None, &mut out)?;
            state
        };
        deflate(state, &[], FlushCompress::Finish, &mut out)?;
        write_all(&temp.file, &out, "writing an object")?;
        stored += out.len() as u64;
        self.objects.give_back(deflater);
        let id = hasher.finish();
        if self.objects.holds(&id) {
            return Ok(id);
        }
        let mut state = self.state.lock();
        if state.seen.insert(id) {
            let (name, file) = temp.into_parts()?;
            state.large.push((id, name, file, stored));
        }
        Ok(id)
    }

    /// Puts all objects in place and makes them visible.
    pub fn finish(mut self) -> Result<BatchStats> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Io, "an earlier write of this batch failed"));
        }
        let mut state = std::mem::take(self.state.get_mut());
        let stats = self.finish_state(&mut state);
        if stats.is_err() {
            *self.state.get_mut() = state; // dropped with the batch, which removes the files
        }
        stats
    }

    fn finish_state(&self, state: &mut BatchState) -> Result<BatchStats> {
        let mut stats = BatchStats::default();
        let mut places = Places::default();
        for (id, name, file, bytes) in &state.large {
            if self.sync {
                sync_file(file)?;
            }
            self.objects.place_loose(&self.scratch.dir, name, id, &mut places)?;
            stats.objects += 1;
            stats.bytes += bytes;
        }
        state.large.clear();
        let small = std::mem::take(&mut state.small);
        let mut temps = Vec::with_capacity(small.len());
        for (kind, id, bytes) in small {
            let temp = self.loose_temp(kind, &bytes)?;
            stats.objects += 1;
            stats.bytes += temp.1;
            temps.push((id, temp.0));
        }
        if self.sync {
            for (_, temp) in &temps {
                sync_file(&temp.file)?;
            }
        }
        for (id, temp) in temps {
            let (name, _file) = temp.into_parts()?;
            self.objects
                .place_loose(&self.scratch.dir, &name, &id, &mut places)
                .inspect_err(|_| forget(self.scratch.dir.remove(&name)))?;
        }
        if let Some(pack) = &mut state.pack {
            stats.objects += pack.entries.len() as u64;
            stats.bytes += self.finish_pack(pack)?;
            state.pack = None;
            places.pack = true;
        }
        if self.sync {
            places.sync(&self.objects)?;
        }
        Ok(stats)
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    fn start_pack(&self) -> Result<PackFile> {
        let temp = self.scratch.file()?;
        write_all(&temp.file, &[0; 12], "writing a pack")?;
        let (name, file) = temp.into_parts()?;
        Ok(PackFile {
            name,
            file: Arc::new(file),
            pending: Vec::with_capacity(WRITE_BUFFER + (WRITE_BUFFER >> 2)),
            pending_at: 12,
            entries: Vec::new(),
        })
    }

    /// Deflates outside of the lock, reserves a place under it, writes outside of it again.
    fn add_to_pack(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<()> {
        let mut deflater = self.objects.deflater();
        let mut entry = std::mem::take(&mut deflater.out);
        entry.clear();
        entry_head(kind, bytes.len() as u64, &mut entry);
        let deflated = deflate(deflater.choose(bytes), bytes, FlushCompress::Finish, &mut entry);
        let crc = crc32fast::hash(&entry);
        let full = deflated.map(|()| {
            let mut state = self.state.lock();
            let pack = state.pack.as_mut()?;
            pack.entries.push(Written { id, offset: pack.pending_at + pack.pending.len() as u64, crc });
            pack.pending.extend_from_slice(&entry);
            (pack.pending.len() >= WRITE_BUFFER).then(|| pack.take_pending())
        });
        if entry.capacity() <= WRITE_BUFFER {
            deflater.out = entry;
        }
        self.objects.give_back(deflater);
        if let Some((file, bytes, at)) = full? {
            write_at(&file, &bytes, at)?;
        }
        Ok(())
    }

    fn loose_temp(&self, kind: ObjectKind, bytes: &[u8]) -> Result<(Temp<'_>, u64)> {
        let temp = self.scratch.file()?;
        let mut deflater = self.objects.deflater();
        let mut out = std::mem::take(&mut deflater.out);
        out.clear();
        let state = deflater.choose(bytes);
        let done = deflate(state, &loose::head(kind, bytes.len() as u64), FlushCompress::None, &mut out)
            .and_then(|()| deflate(state, bytes, FlushCompress::Finish, &mut out))
            .and_then(|()| write_all(&temp.file, &out, "writing an object"));
        let len = out.len() as u64;
        deflater.out = out;
        self.objects.give_back(deflater);
        done.map(|()| (temp, len))
    }

    /// Completes the pack's head and tail and puts it in place, its index last.
    fn finish_pack(&self, pack: &mut PackFile) -> Result<u64> {
        let (file, bytes, at) = pack.take_pending();
        write_at(&file, &bytes, at)?;
        drop(bytes);
        let end = pack.pending_at;
        let count = u32::try_from(pack.entries.len())
            .map_err(|_| Error::new(ErrorKind::NotSupported, "more objects than one pack can hold"))?;
        write_at(&file, &pack_head(count), 0)?;
        // The count comes first in the checksum and is known last: one more pass, from the page cache.
        let mut sha = checksum();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            file.read_exact_at(&mut piece[..want], at).map_err(|error| Error::io(&error, "reading back a pack"))?;
            sha.update(&piece[..want]);
            at += want as u64;
        }
        let sum = checksum_bytes(sha);
        write_at(&file, &sum, end)?;
        let index = make_index(&mut pack.entries, &sum);
        let index_temp = self.scratch.file()?;
        write_all(&index_temp.file, &index, "writing a pack index")?;
        if self.sync {
            sync_file(&file)?;
            sync_file(&index_temp.file)?;
        }
        self.objects.place_pack(&self.scratch.dir, &pack.name, index_temp, ObjectId(sum))?;
        Ok(end + 20 + index.len() as u64)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let names = state.large.drain(..).map(|(_, name, ..)| name).chain(state.pack.take().map(|pack| pack.name));
        for name in names {
            forget(self.scratch.dir.remove(&name));
        }
    }
}

/// Drops the result of a clean-up that a later open repeats.
fn forget(result: Result<()>) {
    drop(result);
}

impl PackFile {
    fn take_pending(&mut self) -> (Arc<File>, Vec<u8>, u64) {
        let at = self.pending_at;
        self.pending_at += self.pending.len() as u64;
        (Arc::clone(&self.file), std::mem::replace(&mut self.pending, Vec::with_capacity(WRITE_BUFFER)), at)
    }
}

fn pack_head(count: u32) -> [u8; 12] {
    let mut head = *b"PACK\0\0\0\x02\0\0\0\0";
    head[8..].copy_from_slice(&count.to_be_bytes());
    head
}

fn write_at(file: &File, bytes: &[u8], at: u64) -> Result<()> {
    file.write_all_at(bytes, at).map_err(|error| Error::io(&error, "writing a pack"))
}

/// Directories that got new entries.
#[derive(Default)]
struct Places {
    fans: HashMap<String, Dir>,
    new_fan: bool,
    pack: bool,
}

impl Places {
    fn sync(&self, objects: &Objects) -> Result<()> {
        self.fans.values().try_for_each(Dir::sync)?;
        if self.new_fan {
            objects.loose.sync()?;
        }
        if self.pack {
            objects.pack.sync()?;
        }
        Ok(())
    }
}

impl Objects {
    fn place_loose(&self, from: &Dir, name: &str, id: &ObjectId, places: &mut Places) -> Result<()> {
        let (fan, path) = loose::place(id);
        if !places.fans.contains_key(&fan) {
            let dir = if let Some(dir) = self.loose.try_sub(&fan)? {
                dir
            } else {
                places.new_fan = true;
                self.loose.sub(&fan, true)?
            };
            places.fans.insert(fan.clone(), dir);
        }
        let placing = |error| Error::os(error, "putting an object in place");
        match from.rename(name, &self.loose, &path) {
            // Git removes a fan-out directory that became empty.
            Err(Errno::NOENT) => {
                places.fans.insert(fan.clone(), self.loose.sub(&fan, true)?);
                places.new_fan = true;
                from.rename(name, &self.loose, &path).map_err(placing)
            }
            other => other.map_err(placing),
        }
    }

    fn place_pack(&self, from: &Dir, name: &str, index: Temp<'_>, sum: ObjectId) -> Result<()> {
        from.rename(name, &self.pack, &format!("pack-{sum}.pack"))
            .map_err(|error| Error::os(error, "putting a pack in place"))?;
        index.publish(&self.pack, &format!("pack-{sum}.idx"))
    }

    /// Keeps the number of packs at `max_packs` or below and sweeps many loose objects into a pack.
    ///
    /// Entries are copied as they are. Packs with deltas or a `.keep` file are left alone. Returns at
    /// once if another process is at it. Killed at any point it leaves every object in at least one place.
    pub fn consolidate(self: &Arc<Self>, max_packs: usize, work: &Work) -> Result<()> {
        let lock = self.own.open_write("consolidate.lock")?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(error) => return Err(Error::os(error, "locking the packs")),
        }
        self.sweep_loose(work)?;
        self.merge_packs(max_packs, work)
    }

    fn merge_packs(&self, max_packs: usize, work: &Work) -> Result<()> {
        self.rescan()?;
        let packs = self.known_packs();
        if packs.len() <= max_packs.max(1) {
            return Ok(());
        }
        // Smallest first, down to half of what is allowed: so each byte is copied a logarithmic number
        // of times, and the large packs hardly ever.
        let mut by_size: Vec<&Arc<Pack>> = packs.iter().collect();
        by_size.sort_by_key(|pack| pack.len);
        let wanted = packs.len() - max_packs / 2;
        let mut chosen = Vec::new();
        for pack in by_size {
            if chosen.len() > wanted {
                break;
            }
            work.check()?;
            if !self.pack.exists(&format!("{}.keep", pack.stem))
                && let Some(plan) = Plan::new(pack)
            {
                chosen.push(plan);
            }
        }
        if chosen.len() < 2 {
            return Ok(());
        }
        let scratch = self.scratch()?;
        let temp = scratch.file()?;
        let Some((sum, mut entries)) = merge(&chosen, &temp.file, work)? else { return Ok(()) };
        let index_temp = scratch.file()?;
        write_all(&index_temp.file, &make_index(&mut entries, &sum), "writing a pack index")?;
        sync_file(&temp.file)?;
        sync_file(&index_temp.file)?;
        let stem = format!("pack-{}", ObjectId(sum));
        temp.publish(&self.pack, &format!("{stem}.pack"))?;
        index_temp.publish(&self.pack, &format!("{stem}.idx"))?;
        self.pack.sync()?;
        for Plan { pack, .. } in chosen {
            if pack.stem != stem {
                self.remove_pack(&pack.stem)?;
            }
        }
        self.rescan()
    }

    fn remove_pack(&self, stem: &str) -> Result<()> {
        // The index first: a reader never finds an index without its pack.
        for ending in ["idx", "pack", "rev", "bitmap", "mtimes"] {
            self.pack.remove(&format!("{stem}.{ending}"))?;
        }
        Ok(())
    }

    fn sweep_loose(self: &Arc<Self>, work: &Work) -> Result<()> {
        // One of 256 directories tells about the others, as git does it; the exact count is for the
        // rare case that it is near.
        let sample = self.loose.try_sub("17")?.map_or(Ok(0), |dir| dir.list().map(|names| names.len()))?;
        if sample * 256 < MAX_LOOSE / 2 {
            return Ok(());
        }
        let mut ids = Vec::new();
        for fan in 0..=255_u8 {
            let fan = format!("{fan:02x}");
            let Some(dir) = self.loose.try_sub(&fan)? else { continue };
            ids.extend(dir.list()?.iter().filter_map(|name| format!("{fan}{name}").parse::<ObjectId>().ok()));
        }
        if ids.len() <= MAX_LOOSE {
            return Ok(());
        }
        let batch = self.batch()?;
        let mut swept = Vec::new();
        let packs = self.current_packs(false);
        for id in ids {
            work.check()?;
            // A damaged object stays where it is: it is evidence, and nothing is lost by it.
            let Ok(Some(stream)) = loose::open(&self.loose, &id) else { continue };
            if stream.len > SWEEP_MAX_BYTES {
                continue;
            }
            let Ok((kind, bytes)) = read_exactly(&id, stream) else { continue };
            if ObjectId::hash(kind.name(), &bytes) != id {
                continue;
            }
            if !packs.iter().any(|pack| pack.find(&id).is_some()) {
                batch.pack_in(kind, id, &bytes)?;
            }
            swept.push(id);
        }
        batch.finish()?;
        for id in swept {
            self.loose.remove(&loose::place(&id).1)?;
        }
        Ok(())
    }
}

impl Batch {
    /// Adds an object to the pack even if the store holds it loose.
    fn pack_in(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<()> {
        {
            let mut state = self.state.lock();
            if !state.seen.insert(id) {
                return Ok(());
            }
            if state.pack.is_none() {
                state.pack = Some(self.start_pack()?);
            }
        }
        self.add_to_pack(kind, id, bytes).inspect_err(|_| self.fail())
    }
}

/// A pack to be merged, its entries in the order of their places.
struct Plan<'a> {
    pack: &'a Arc<Pack>,
    /// Offset and place in id order.
    order: Vec<(u64, usize)>,
}

impl<'a> Plan<'a> {
    /// Returns `None` for a pack that holds deltas or cannot be understood.
    fn new(pack: &'a Arc<Pack>) -> Option<Self> {
        let mut order = Vec::with_capacity(pack.index.len());
        for at in 0..pack.index.len() {
            let offset = pack.index.offset(at)?;
            if !matches!(pack.entry(offset).ok()?.kind, EntryKind::Whole(_)) {
                return None;
            }
            order.push((offset, at));
        }
        order.sort_unstable();
        Some(Plan { pack, order })
    }

    fn end_of(&self, place: usize) -> u64 {
        self.order.get(place + 1).map_or(self.pack.len - 20, |next| next.0)
    }
}

/// Copies the entries of all packs into `file`; `None` if one of them is damaged.
fn merge(plans: &[Plan<'_>], file: &File, work: &Work) -> Result<Option<([u8; 20], Vec<Written>)>> {
    let mut taken = HashSet::new();
    let count = plans
        .iter()
        .flat_map(|plan| plan.order.iter().map(|(_, at)| plan.pack.index.id(*at)))
        .filter(|id| taken.insert(*id))
        .count();
    let Ok(total) = u32::try_from(count) else { return Ok(None) };
    let mut writer = SumWriter { file, sha: checksum(), at: 0, pending: Vec::with_capacity(WRITE_BUFFER) };
    writer.write(&pack_head(total))?;
    let mut entries = Vec::with_capacity(count);
    let mut piece = vec![0; PIECE];
    for plan in plans {
        for (place, (offset, at)) in plan.order.iter().enumerate() {
            let id = plan.pack.index.id(*at);
            if !taken.remove(&id) {
                continue;
            }
            work.check()?;
            let start = writer.place();
            let end = plan.end_of(place);
            let mut crc = crc32fast::Hasher::new();
            let mut from = *offset;
            while from < end {
                let want = usize::try_from(end - from).unwrap_or(PIECE).min(PIECE);
                plan.pack
                    .file
                    .read_exact_at(&mut piece[..want], from)
                    .map_err(|error| Error::io(&error, "reading a pack"))?;
                crc.update(&piece[..want]);
                writer.write(&piece[..want])?;
                from += want as u64;
            }
            let crc = crc.finalize();
            if crc != plan.pack.index.crc(*at) {
                return Ok(None);
            }
            entries.push(Written { id, offset: start, crc });
        }
    }
    Ok(Some((writer.finish()?, entries)))
}

struct SumWriter<'a> {
    file: &'a File,
    sha: sha1_checked::Sha1,
    at: u64,
    pending: Vec<u8>,
}

impl SumWriter<'_> {
    fn place(&self) -> u64 {
        self.at + self.pending.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.sha.update(&self.pending);
        write_at(self.file, &self.pending, self.at)?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<[u8; 20]> {
        self.flush()?;
        let sum = checksum_bytes(self.sha);
        write_at(self.file, &sum, self.at)?;
        Ok(sum)
    }
}

/// Compressors kept from one object to the next: making one costs more than deflating a small file.
struct Deflater {
    fast: Compress,
    stored: Compress,
    out: Vec<u8>,
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflater")
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Deflater {
            fast: Compress::new(Compression::new(1), true),
            stored: Compress::new(Compression::none(), true),
            out: Vec::new(),
        }
    }
}

impl Deflater {
    /// Picks a level by a look at the first bytes, and starts a new stream.
    fn choose(&mut self, bytes: &[u8]) -> &mut Compress {
        let state = if looks_incompressible(bytes) { &mut self.stored } else { &mut self.fast };
        state.reset();
        state
    }
}

/// Judges by how evenly the bytes of a sample are spread: text and code need 4 to 6 bits per byte,
/// compressed or encrypted data nearly 8. Costs 2 µs where trial compression of the sample costs 20.
fn looks_incompressible(bytes: &[u8]) -> bool {
    const SAMPLE: usize = 4096;
    if bytes.len() < SAMPLE {
        return false;
    }
    let mut counts = [0_u32; 256];
    for byte in &bytes[..SAMPLE] {
        counts[usize::from(*byte)] += 1;
    }
    // Sum of squares instead of logarithms: for even spread 4096² / 256 = 65,536 and a variance of
    // 4096 more; 7.5 bits per byte is reached at about 1.6 times that.
    let squares: u32 = counts.iter().map(|count| count * count).sum();
    squares < 80_000
}

/// Deflates `input` to the end of `out`.
fn deflate(state: &mut Compress, mut input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<()> {
    loop {
        out.reserve(input.len() / 2 + 256);
        let before = state.total_in();
        let status = state
            .compress_vec(input, out, flush)
            .map_err(|error| Error::new(ErrorKind::Bug, "deflating an object failed").because(error))?;
        let used = usize::try_from(state.total_in() - before).unwrap_or(input.len());
        input = input.get(used..).unwrap_or_default();
        let done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => input.is_empty(),
        };
        if done {
            return Ok(());
        }
    }
}

/// Makes what is missing of a store. Every step can be repeated and done by several processes at once.
fn lay_out(root: &Dir) -> Result<()> {
    const KNOWN: [&str; 13] = [
        "HEAD",
        "branches",
        "config",
        "description",
        "hedgerow",
        "hooks",
        "info",
        "logs",
        "objects",
        "packed-refs",
        "refs",
        "ORIG_HEAD",
        "FETCH_HEAD",
    ];
    let own = root.try_sub("hedgerow")?;
    if let Some(own) = &own
        && own.exists("format.json")
    {
        return Ok(());
    }
    if own.is_none() && root.list()?.iter().any(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Error::new(ErrorKind::InvalidArgument, "the store directory holds other files")
            .with_hint("Name a directory that is empty or does not exist yet."));
    }
    if own.is_none()
        && let Some(config) = root.read("config", 1 << 20)?
        && !is_bare(&config)
    {
        return Err(Error::new(ErrorKind::InvalidArgument, "the store directory is the repository of a working tree")
            .with_hint("Name a directory that is empty or does not exist yet."));
    }
    root.protect()?;
    root.make_dir("hedgerow")?;
    let own = root.sub("hedgerow", true)?;
    for dir in ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"] {
        root.make_dir(dir)?;
    }
    let scratch = Scratch::create(own.sub("tmp", true)?)?;
    // No automatic gc: plain git used on the store must not start repacking behind a running writer.
    let config = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogallrefupdates = false\n[gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n";
    root.publish_first("config", config, &scratch)?;
    root.publish_first("HEAD", b"ref: refs/heads/main\n", &scratch)?;
    // Last: who finds it finds everything else.
    own.publish_first("format.json", format!("{{\"version\":{FORMAT}}}\n").as_bytes(), &scratch)?;
    own.sync()?;
    root.sync()
}

/// Tells whether a repository says in its configuration that it has no working tree.
fn is_bare(config: &[u8]) -> bool {
    config.split(|&byte| byte == b'\n').any(|line| {
        let mut words = line.split(|byte| byte.is_ascii_whitespace() || *byte == b'=').filter(|word| !word.is_empty());
        let [name, value] = [words.next(), words.next()].map(Option::unwrap_or_default);
        name.eq_ignore_ascii_case(b"bare") && value.eq_ignore_ascii_case(b"true")
    })
}

fn check_format(own: &Dir) -> Result<()> {
    let garbled = || Error::new(ErrorKind::StoreCorrupt, "the store's version file cannot be read");
    let bytes = own
        .read("format.json", 1 << 16)?
        .ok_or_else(|| Error::new(ErrorKind::StoreCorrupt, "the store's version file is missing"))?;
    let format: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| garbled().because(error))?;
    let version = format.get("version").and_then(serde_json::Value::as_u64).ok_or_else(garbled)?;
    match version {
        FORMAT => Ok(()),
        0 => Err(garbled()),
        newer => Err(Error::new(
            ErrorKind::StoreVersion,
            format!("the store has version {newer}, this program knows version {FORMAT}"),
        )),
    }
}
