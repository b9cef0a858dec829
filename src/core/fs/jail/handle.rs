//! Handles of directories and regular files, and what they tell.

use super::place::{Place, is_temp_name, temp_name_pid};
use super::{MAX_WHOLE_READ, sys};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::{Name, WsPath};
use crate::core::tree::Kind;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

/// Largest piece asked from one read call.
const PIECE: u64 = 64 << 20;
/// First piece asked from a file that claims to be empty, and nearly always is.
const FIRST_PIECE: u64 = 4096;
/// Bytes taken from files that claim to be empty: those of pseudo file systems do.
const UNKNOWN_LEN: u64 = 16 << 20;

/// Tells the kind of a file from its type; a type invented later is taken for a device, never opened.
fn kind_of(kind: FileType) -> Option<Kind> {
    Some(match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
        FileType::Unknown => return None,
    })
}

/// What the file system tells about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Permission bits and the three above them: 07777.
    pub mode: u32,
    /// Length in bytes.
    pub size: u64,
    /// When the content changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When anything about it changed, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Inode.
    pub ino: u64,
    /// Device.
    pub dev: u64,
    /// Number of names.
    pub nlink: u64,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Stat {
    #[expect(
        clippy::useless_conversion,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::unnecessary_cast,
        reason = "the width of the fields depends on the architecture; sizes are never negative"
    )]
    pub(super) fn from_raw(raw: &rustix::fs::Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Stat {
            kind: kind_of(FileType::from_raw_mode(raw.st_mode)).unwrap_or(Kind::Device),
            mode: raw.st_mode & 0o7777,
            size: raw.st_size as u64,
            mtime_ns: nanoseconds(raw.st_mtime as i64, raw.st_mtime_nsec as i64),
            ctime_ns: nanoseconds(raw.st_ctime as i64, raw.st_ctime_nsec as i64),
            ino: raw.st_ino as u64,
            dev: u64::from(raw.st_dev),
            nlink: raw.st_nlink as u64,
            uid: raw.st_uid,
            gid: raw.st_gid,
        }
    }

    /// Tells whether both are the same inode.
    pub fn is_same(&self, other: &Stat) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

/// Refuses mode bits above 0777.
pub(super) fn check_mode(mode: u32) -> Result<()> {
    if mode & !0o777 != 0 {
        return Err(Error::new(ErrorKind::InvalidArgument, "only the permission bits 0777 can be set"));
    }
    Ok(())
}

/// Says why a file cannot be read or written as one.
pub(super) fn check_regular(kind: Kind) -> Result<()> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::new(ErrorKind::IsADirectory, "is a directory")),
        // Only reached when a file was exchanged for a link at this moment.
        Kind::Symlink => Err(Error::new(ErrorKind::PathRace, "the entry was replaced by a link meanwhile")),
        special => special.refuse_special(),
    }
}

/// An open directory and its canonical path.
#[derive(Debug, Clone)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    path: WsPath,
}

impl Dir {
    pub(super) fn new(fd: Arc<OwnedFd>, path: WsPath) -> Self {
        Dir { fd, path }
    }

    /// Returns the canonical path the directory had when it was opened.
    pub fn path(&self) -> &WsPath {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn shared_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn fail(&self, errno: Errno, doing: &str) -> Error {
        Error::os(errno, doing).at(&self.path)
    }

    fn fail_at(&self, errno: Errno, doing: &str, name: &[u8]) -> Error {
        Error::os(errno, doing).at(&self.path.join(name))
    }

    /// Opens the directory for reading; each reader has its own position.
    pub(super) fn readable(&self) -> rustix::io::Result<OwnedFd> {
        sys::open_leaf(self.fd(), b".", sys::READ | OFlags::DIRECTORY)
    }

    /// Yields every name, our temporary ones too, with its kind if the directory itself tells it.
    pub(super) fn raw_entries(&self) -> rustix::io::Result<Vec<(Name, Option<Kind>)>> {
        read_entries(self.readable()?)
    }

    /// Lists the directory, sorted by bytes, without our temporary files.
    pub fn entries(&self) -> Result<Vec<(Name, Kind)>> {
        let raw = self.raw_entries().map_err(|errno| self.fail(errno, "listing the directory"))?;
        let mut entries = Vec::with_capacity(raw.len());
        for (name, kind) in raw {
            if is_temp_name(name.as_bytes()) {
                continue;
            }
            let kind = match kind {
                Some(kind) => kind,
                None => match self.stat(name.as_bytes())? {
                    Some(stat) => stat.kind,
                    None => continue, // gone since
                },
            };
            entries.push((name, kind));
        }
        entries.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(entries)
    }

    /// Lists the directory with what each entry is; entries that vanish meanwhile are left out.
    pub fn entries_with_stat(&self) -> Result<Vec<(Name, Stat)>> {
        self.entries_and_leftovers().map(|(entries, _)| entries)
    }

    /// As [`Dir::entries_with_stat`]; tells too whether our temporary files are here.
    pub fn entries_and_leftovers(&self) -> Result<(Vec<(Name, Stat)>, bool)> {
        let raw = self.raw_entries().map_err(|errno| self.fail(errno, "listing the directory"))?;
        let mut entries = Vec::with_capacity(raw.len());
        let mut leftovers = false;
        for (name, _) in raw {
            if is_temp_name(name.as_bytes()) {
                leftovers = true;
                continue;
            }
            if let Some(stat) = self.stat(name.as_bytes())? {
                entries.push((name, stat));
            }
        }
        entries.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok((entries, leftovers))
    }

    /// Lists our temporary files here, with the process that made each: what a crash leaves behind.
    pub fn temp_entries(&self) -> Result<Vec<(Name, u32)>> {
        let raw = self.raw_entries().map_err(|errno| self.fail(errno, "listing the directory"))?;
        Ok(raw.into_iter().filter_map(|(name, _)| temp_name_pid(name.as_bytes()).map(|pid| (name, pid))).collect())
    }

    /// Removes one of our temporary files.
    ///
    /// # Errors
    /// `invalid-argument` if it is not one.
    pub fn remove_temp(&self, name: &Name) -> Result<()> {
        if !is_temp_name(name.as_bytes()) {
            return Err(Error::new(ErrorKind::InvalidArgument, "not a temporary file of ours").at(&self.path));
        }
        match sys::retry(|| rustix::fs::unlinkat(self.fd(), name.as_bytes(), rustix::fs::AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.fail_at(errno, "removing", name.as_bytes())),
        }
    }

    /// Tells what the directory itself is.
    pub fn self_stat(&self) -> Result<Stat> {
        sys::fstat(self.fd()).map_err(|errno| self.fail(errno, "looking up"))
    }

    /// Tells what an entry is, without following it; `None` if it is not there.
    pub fn stat(&self, name: &[u8]) -> Result<Option<Stat>> {
        let name = self.check(name)?;
        match sys::stat_leaf(self.fd(), name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.fail_at(errno, "looking up", name)),
        }
    }

    /// Opens a directory in this one; a link is not a directory.
    pub fn child(&self, name: &[u8]) -> Result<Dir> {
        let name = self.check(name)?;
        let fd = sys::open_leaf(self.fd(), name, sys::LOOK | OFlags::DIRECTORY).map_err(|errno| {
            let error = self.fail_at(errno, "opening the directory", name);
            if errno == Errno::NOENT { error.with_kind(ErrorKind::DirectoryNotFound) } else { error }
        })?;
        Ok(Dir::new(Arc::new(fd), self.path.join(name)))
    }

    /// Opens a regular file in this directory; a link is not one.
    pub fn open_file(&self, name: &[u8]) -> Result<File> {
        let name = self.check(name)?;
        let path = self.path.join(name);
        let handle =
            sys::open_leaf(self.fd(), name, sys::LOOK).map_err(|errno| Error::os(errno, "opening").at(&path))?;
        let again = || {
            sys::open_leaf(self.fd(), name, sys::READ | OFlags::NOFOLLOW | OFlags::NONBLOCK)
                .map_err(|errno| Error::os(errno, "opening"))
        };
        File::from_handle(handle.as_fd(), path.clone(), again).map_err(|error| error.at(&path))
    }

    /// Opens an entry that a listing of this directory has just told to be a regular file.
    ///
    /// PERF: one open instead of two, 3 µs a file in scans of many. Should a pipe or device have taken the
    /// name since, it is opened without waiting and closed again.
    pub fn open_listed(&self, name: &[u8]) -> Result<File> {
        let name = self.check(name)?;
        let path = self.path.join(name);
        let fail = |errno| Error::os(errno, "opening").at(&path);
        let flags = sys::READ | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = sys::open_leaf(self.fd(), name, flags).map_err(fail)?;
        let opened = sys::fstat(fd.as_fd()).map_err(fail)?;
        check_regular(opened.kind).map_err(|error| error.at(&path))?;
        Ok(File { fd, path, opened })
    }

    /// Returns the target of a link, as it is written.
    ///
    /// # Errors
    /// `not-a-link`.
    pub fn read_link(&self, name: &[u8]) -> Result<Vec<u8>> {
        let name = self.check(name)?;
        match sys::retry(|| rustix::fs::readlinkat(self.fd(), name, Vec::new())) {
            Ok(target) => Ok(target.into_bytes()),
            Err(Errno::INVAL) => Err(Error::new(ErrorKind::NotALink, "not a symbolic link").at(&self.path.join(name))),
            Err(errno) => Err(self.fail_at(errno, "reading the link", name)),
        }
    }

    /// Names an entry of this directory, there or not.
    pub fn place(&self, name: &[u8]) -> Result<Place> {
        let path = self.path.join(name);
        Place::new(self.clone(), Name::new(name).map_err(|error| error.at(&path))?).map_err(|error| error.at(&path))
    }

    /// Makes what was renamed, made or removed here survive a crash of the machine.
    pub fn sync(&self) -> Result<()> {
        let fd = self.readable().map_err(|errno| self.fail(errno, "opening the directory"))?;
        sys::retry(|| rustix::fs::fsync(&fd)).map_err(|errno| self.fail(errno, "writing the directory to disk"))
    }

    /// A name that is a path would make one call resolve many names.
    fn check<'n>(&self, name: &'n [u8]) -> Result<&'n [u8]> {
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return Err(Error::new(ErrorKind::PathEscape, "not a plain name").at(&self.path));
        }
        Ok(name)
    }
}

/// Reads a directory to its end.
pub(super) fn read_entries(fd: OwnedFd) -> rustix::io::Result<Vec<(Name, Option<Kind>)>> {
    // `rustix::fs::Dir` would allocate for each entry, and the `Name` does so again.
    let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
    let mut raw = rustix::fs::RawDir::new(fd, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        // `.` and `..` are no names; nothing else the kernel returns can fail.
        if let Ok(name) = Name::new(entry.file_name().to_bytes()) {
            entries.push((name, kind_of(entry.file_type())));
        }
    }
    Ok(entries)
}

/// An open regular file and its canonical path. Reading never maps it: a file that shrinks under a
/// mapping kills the process.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    path: WsPath,
    opened: Stat,
}

impl File {
    /// Opens what `handle` stands for if it is a regular file.
    pub(super) fn from_handle(
        handle: BorrowedFd<'_>,
        path: WsPath,
        again: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<File> {
        let (fd, opened) = open_regular(handle, again)?;
        Ok(File { fd, path, opened })
    }

    /// Returns the canonical path the file had when it was opened.
    pub fn path(&self) -> &WsPath {
        &self.path
    }

    /// Tells what the file was when it was opened.
    pub fn opened_stat(&self) -> &Stat {
        &self.opened
    }

    /// Tells what the file is now.
    pub fn stat(&self) -> Result<Stat> {
        sys::fstat(self.fd.as_fd()).map_err(|errno| self.fail(errno))
    }

    fn fail(&self, errno: Errno) -> Error {
        Error::os(errno, "reading").at(&self.path)
    }

    /// Reads the bytes the file has now.
    ///
    /// # Errors
    /// `file-too-large` if these are more than `max_bytes`.
    pub fn read_all(&self, max_bytes: u64) -> Result<Vec<u8>> {
        read_whole(self.fd.as_fd(), self.stat()?.size, max_bytes).map_err(|error| error.at(&self.path))
    }

    /// Reads a range: past the end is empty, at the end is short.
    pub fn read_range(&self, range: Range<u64>) -> Result<Vec<u8>> {
        read_range(self.fd.as_fd(), range, self.stat()?.size).map_err(|error| error.at(&self.path))
    }

    /// Fills `buffer` from `offset` on and returns how much there was; less than asked only at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset.saturating_add(filled as u64);
            match sys::retry(|| rustix::io::pread(&self.fd, &mut buffer[filled..], at)) {
                Ok(0) | Err(Errno::INVAL) => break, // an offset above what the kernel can count is past the end
                Ok(count) => filled += count,
                Err(errno) => return Err(self.fail(errno)),
            }
        }
        Ok(filled)
    }
}

/// Opens a regular file behind an `O_PATH` handle.
fn open_regular(handle: BorrowedFd<'_>, again: impl FnOnce() -> Result<OwnedFd>) -> Result<(OwnedFd, Stat)> {
    let stat = sys::fstat(handle).map_err(|errno| Error::os(errno, "opening"))?;
    check_regular(stat.kind)?;
    // PERF: opening the name again and comparing makes a read of 4 KB 9.9 µs, opening the handle through procfs
    // 12.1 (`cargo bench`, 2026-11-30). Somebody may have exchanged the file in between; then only the handle tells the truth.
    if let Ok(fd) = again() {
        let second = sys::fstat(fd.as_fd()).map_err(|errno| Error::os(errno, "opening"))?;
        if second.is_same(&stat) && second.kind == Kind::File {
            return Ok((fd, second));
        }
    }
    if sys::proc_works() {
        return match sys::reopen(handle, sys::READ) {
            Ok(fd) => Ok((fd, stat)),
            Err(errno) => Err(Error::os(errno, "opening")),
        };
    }
    Err(Error::new(ErrorKind::PathRace, "the file was replaced meanwhile"))
}

pub(super) fn read_handle(
    handle: BorrowedFd<'_>,
    range: Option<Range<u64>>,
    again: impl FnOnce() -> Result<OwnedFd>,
) -> Result<Vec<u8>> {
    let (fd, stat) = open_regular(handle, again)?;
    match range {
        Some(range) => read_range(fd.as_fd(), range, stat.size),
        None => read_whole(fd.as_fd(), stat.size, MAX_WHOLE_READ),
    }
}

fn read_whole(fd: BorrowedFd<'_>, size: u64, max_bytes: u64) -> Result<Vec<u8>> {
    if size > max_bytes {
        return Err(too_large());
    }
    if size > 0 {
        return fill(fd, 0, size, PIECE);
    }
    let bytes = fill(fd, 0, UNKNOWN_LEN.min(max_bytes.saturating_add(1)), FIRST_PIECE)?;
    if bytes.len() as u64 > max_bytes { Err(too_large()) } else { Ok(bytes) }
}

fn read_range(fd: BorrowedFd<'_>, range: Range<u64>, size: u64) -> Result<Vec<u8>> {
    let end = if size == 0 { range.end.min(UNKNOWN_LEN) } else { range.end.min(size) };
    if range.start >= end {
        return Ok(Vec::new());
    }
    fill(fd, range.start, end - range.start, if size == 0 { FIRST_PIECE } else { PIECE })
}

fn too_large() -> Error {
    Error::new(ErrorKind::FileTooLarge, "the file is too large to be read in one piece")
}

/// Reads `len` bytes from `offset`, fewer at the end; asks for `piece` at first.
fn fill(fd: BorrowedFd<'_>, offset: u64, len: u64, mut piece: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < len {
        let step = usize::try_from(piece.min(len - done)).map_err(|_| too_large())?;
        bytes.try_reserve_exact(step).map_err(|_| too_large())?;
        let before = bytes.len();
        match sys::retry(|| rustix::io::pread(fd, spare_capacity(&mut bytes), offset + done)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(errno) => return Err(Error::os(errno, "reading")),
        }
        done += (bytes.len() - before) as u64;
        piece = PIECE;
    }
    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    Ok(bytes)
}

/// Reads what is in memory; `None` if that is not all of it.
pub(super) fn try_read_handle(
    handle: BorrowedFd<'_>,
    range: Option<Range<u64>>,
    max_bytes: u64,
    again: impl FnOnce() -> rustix::io::Result<OwnedFd>,
) -> Result<Option<Vec<u8>>> {
    let stat = sys::fstat(handle).map_err(|errno| Error::os(errno, "opening"))?;
    check_regular(stat.kind)?;
    let range = range.unwrap_or(0..stat.size);
    let end = range.end.min(stat.size);
    let len = end.saturating_sub(range.start);
    // A size of 0 may be a pseudo file's, whose length nobody knows.
    if len > max_bytes || stat.size == 0 {
        return Ok(None);
    }
    // Whatever is in the way, the full read tells it better.
    let Ok(fd) = again() else { return Ok(None) };
    if !sys::fstat(fd.as_fd()).is_ok_and(|second| second.is_same(&stat) && second.kind == Kind::File) {
        return Ok(None);
    }
    let Ok(len) = usize::try_from(len) else { return Ok(None) };
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let mut slices = [IoSliceMut::new(&mut bytes[filled..])];
        match rustix::io::preadv2(&fd, &mut slices, range.start + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => return Ok(None),
            Err(errno) => return Err(Error::os(errno, "reading")),
        }
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}
