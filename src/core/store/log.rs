//! An append-only file of frames, opaque to what they hold.
//!
//! ```text
//! 0   magic "hrl" and version 1          4 bytes
//! 4   length of the header               u32, little endian as all numbers
//! 8   length of all bodies               u64
//! 16  CRC-32 of header and bodies        u32
//! 20  CRC-32 of the 20 bytes before      u32
//! 24  header, bodies
//!     length of the whole frame          u64
//!     "1lrh"                             4 bytes
//! ```
//!
//! The end repeats the length, so the last frame is found from the end of the file and opening does not
//! depend on how long the history is. The head has a checksum of its own: only a length that can be
//! trusted tells a frame cut short from one whose length was damaged.
//!
//! # Promises
//! * An append is one write. Cut anywhere, the file keeps all earlier frames; [`Log::repair`] (called by
//!   the next append) removes exactly the incomplete end.
//! * Damage anywhere else is an error of kind `store-corrupt` when it is read, is never repaired away,
//!   and does not keep the frames after it from being read.
//! * What is read was checked. A body that is read later is checked with its whole frame the first time.
//!
//! Reading needs no lock: an append in progress looks like an incomplete end and is passed over.
//! [`Log::append`], [`Log::truncate_to`] and [`Log::repair`] must be called under the lock that all
//! writers of this file share, after [`Log::refresh`].

use super::files::Dir;
use crate::core::content::{Content, ContentSource, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: [u8; 4] = *b"hrl\x01";
const END: [u8; 4] = *b"1lrh";
const HEAD: u64 = 24;
const TAIL: u64 = 12;
/// A header is what is parsed for each frame; anything long belongs into a body.
const MAX_HEADER: u64 = 64 << 20;
const PIECE: usize = 1 << 20;

/// Where a frame was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRef {
    /// Start of the frame in the file.
    pub offset: u64,
    /// Start of its bodies in the file.
    pub bodies_offset: u64,
}

/// A frame that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it stands.
    pub place: FrameRef,
    /// Its header.
    pub header: Vec<u8>,
    /// Length of all its bodies together.
    pub bodies_len: u64,
    /// Where the next frame starts.
    pub end: u64,
}

/// What [`Log::refresh`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing new.
    Same,
    /// Frames were added at the end.
    Grown,
    /// Frames were taken back, or the file was replaced: offsets may mean something else now.
    Replaced,
}

/// An append-only file of frames.
#[derive(Debug)]
pub struct Log {
    dir: Dir,
    name: String,
    file: Arc<File>,
    /// End of the last whole frame.
    end: u64,
    /// Length of the file when it was last looked at; more than `end` if the end is incomplete.
    len: u64,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    header_len: u64,
    bodies_len: u64,
    crc: u32,
}

impl Head {
    fn parse(bytes: &[u8; 24]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MAGIC || number(20) != crc32fast::hash(&bytes[..20]) {
            return None;
        }
        let bodies_len = u64::from(number(8)) | u64::from(number(12)) << 32;
        let head = Head { header_len: u64::from(number(4)), bodies_len, crc: number(16) };
        (head.header_len <= MAX_HEADER && bodies_len < 1 << 62).then_some(head)
    }

    fn total(self) -> u64 {
        HEAD + self.header_len + self.bodies_len + TAIL
    }
}

fn corrupt(at: u64) -> Error {
    Error::new(ErrorKind::StoreCorrupt, format!("the log is damaged at byte {at}"))
}

fn reading(error: &std::io::Error) -> Error {
    Error::io(error, "reading the log")
}

impl Log {
    /// Opens the log file `path` in a directory of the store, making it if it is missing.
    pub fn open(path: &Path) -> Result<Self> {
        let (dir, name) = Dir::of_file(path)?;
        let file = Arc::new(dir.open_write(&name)?);
        let mut log = Log { dir, name, file, end: 0, len: 0 };
        log.locate_end(0)?;
        Ok(log)
    }

    /// Returns where the next frame will start.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Tells whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Finds the end of the last whole frame; `known` is a boundary that holds already.
    fn locate_end(&mut self, known: u64) -> Result<()> {
        self.len = self.file.metadata().map_err(|error| reading(&error))?.len();
        self.end = if self.len == known {
            known
        } else if self.whole_frame_before(self.len)? {
            self.len
        } else {
            self.scan(known)?
        };
        Ok(())
    }

    /// Tells whether a whole, undamaged frame ends at `end`.
    fn whole_frame_before(&self, end: u64) -> Result<bool> {
        let Some(start) = self.start_of_frame_before(end)? else { return Ok(false) };
        match self.head_at(start)? {
            Some(head) if start + head.total() == end => Ok(self.crc_of(start, head)? == head.crc),
            _ => Ok(false),
        }
    }

    /// Reads the end of the frame that ends at `end`; `None` if there is none.
    fn start_of_frame_before(&self, end: u64) -> Result<Option<u64>> {
        if end < HEAD + TAIL {
            return Ok(None);
        }
        let mut tail = [0; 12];
        if !read_exact(&self.file, &mut tail, end - TAIL)? || tail[8..] != END {
            return Ok(None);
        }
        let mut total = [0; 8];
        total.copy_from_slice(&tail[..8]);
        let total = u64::from_le_bytes(total);
        Ok(end.checked_sub(total).filter(|_| total >= HEAD + TAIL))
    }

    fn head_at(&self, at: u64) -> Result<Option<Head>> {
        let mut bytes = [0; 24];
        Ok(if read_exact(&self.file, &mut bytes, at)? { Head::parse(&bytes) } else { None })
    }

    fn crc_of(&self, start: u64, head: Head) -> Result<u32> {
        let mut crc = crc32fast::Hasher::new();
        let mut at = start + HEAD;
        let end = at + head.header_len + head.bodies_len;
        let mut piece = vec![0; PIECE.min(usize::try_from(end - at).unwrap_or(PIECE))];
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            if !read_exact(&self.file, &mut piece[..want], at)? {
                return Err(corrupt(start));
            }
            crc.update(&piece[..want]);
            at += want as u64;
        }
        Ok(crc.finalize())
    }

    /// Goes forward from a boundary and returns where the incomplete end starts.
    fn scan(&self, from: u64) -> Result<u64> {
        let mut at = from;
        loop {
            if at >= self.len {
                return Ok(at.min(self.len));
            }
            if let Some(head) = self.head_at(at)? {
                let end = at + head.total();
                if end < self.len || (end == self.len && !self.is_torn(at, head)?) {
                    at = end;
                    continue;
                }
                // A head that can be trusted, and a frame that was not written to its end.
                return Ok(at);
            }
            // No head here: the start of a frame that was cut, or damage. It is damage if a whole frame
            // follows, and then that frame must not be cut off with it.
            match self.next_whole_frame(at + 1)? {
                Some(found) => at = found,
                None => return Ok(at),
            }
        }
    }

    /// Tells whether the frame at the end of the file has its full length but never got its content.
    ///
    /// After a power loss the file may have grown before its pages were written, which leaves sectors of
    /// zeros, or no end mark. Anything else in a frame of full length is damage, and damage is kept.
    fn is_torn(&self, start: u64, head: Head) -> Result<bool> {
        const SECTOR: u64 = 512;
        if self.crc_of(start, head)? == head.crc {
            return Ok(false);
        }
        let end = start + head.total();
        if self.start_of_frame_before(end)? != Some(start) {
            return Ok(true);
        }
        let mut at = start.next_multiple_of(SECTOR);
        let mut sector = [1_u8; 512];
        while at + SECTOR <= end {
            if read_exact(&self.file, &mut sector, at)? && sector.iter().all(|byte| *byte == 0) {
                return Ok(true);
            }
            at += SECTOR;
        }
        Ok(false)
    }

    fn next_whole_frame(&self, from: u64) -> Result<Option<u64>> {
        let mut at = from;
        let mut piece = vec![0; PIECE];
        while at + HEAD + TAIL <= self.len {
            let want = usize::try_from(self.len - at).unwrap_or(PIECE).min(PIECE);
            if !read_exact(&self.file, &mut piece[..want], at)? {
                return Ok(None);
            }
            for found in memchr::memmem::find_iter(&piece[..want], &MAGIC) {
                let start = at + found as u64;
                if let Some(head) = self.head_at(start)?
                    && start + head.total() <= self.len
                    && self.start_of_frame_before(start + head.total())? == Some(start)
                    && self.crc_of(start, head)? == head.crc
                {
                    return Ok(Some(start));
                }
            }
            // The magic may lie across the border.
            at += (want as u64).saturating_sub(3).max(1);
        }
        Ok(None)
    }

    /// Cuts off an incomplete end; returns whether there was one. Under the writers' lock only.
    pub fn repair(&mut self) -> Result<bool> {
        let torn = self.len > self.end;
        if torn {
            self.set_len(self.end)?;
        }
        Ok(torn)
    }

    /// Adds a frame. Under the writers' lock and after [`Log::refresh`] only.
    ///
    /// # Errors
    /// `base-moved` if another process appended since the last refresh; `quota-exceeded` and `io-error`
    /// leave the file as it was.
    pub fn append(&mut self, header: &[u8], bodies: &[&[u8]]) -> Result<FrameRef> {
        if header.len() as u64 > MAX_HEADER {
            return Err(Error::new(ErrorKind::InvalidArgument, "a record is too large"));
        }
        let now = self.file.metadata().map_err(|error| reading(&error))?.len();
        if now != self.len {
            return Err(Error::new(ErrorKind::BaseMoved, "another process wrote to the log"));
        }
        self.repair()?;
        let bodies_len = bodies.iter().map(|body| body.len() as u64).sum::<u64>();
        let mut crc = crc32fast::Hasher::new();
        crc.update(header);
        for body in bodies {
            crc.update(body);
        }
        let mut head = [0; 24];
        head[..4].copy_from_slice(&MAGIC);
        // Bounded by MAX_HEADER above.
        head[4..8].copy_from_slice(&u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
        head[8..16].copy_from_slice(&bodies_len.to_le_bytes());
        head[16..20].copy_from_slice(&crc.finalize().to_le_bytes());
        let check = crc32fast::hash(&head[..20]);
        head[20..].copy_from_slice(&check.to_le_bytes());
        let total = HEAD + header.len() as u64 + bodies_len + TAIL;
        let mut tail = [0; 12];
        tail[..8].copy_from_slice(&total.to_le_bytes());
        tail[8..].copy_from_slice(&END);
        let mut parts = Vec::with_capacity(bodies.len() + 3);
        parts.extend([&head[..], header]);
        parts.extend(bodies.iter().copied());
        parts.push(&tail);
        if let Err(error) = write_parts(&self.file, self.end, &parts) {
            // The first error is the one to report; an end that cannot be cut now is cut by a repair.
            self.len = self.end + 1;
            if self.set_len(self.end).is_err() {
                self.len = self.file.metadata().map_or(self.end + 1, |meta| meta.len());
            }
            return Err(error);
        }
        let place = FrameRef { offset: self.end, bodies_offset: self.end + HEAD + header.len() as u64 };
        self.end += total;
        self.len = self.end;
        Ok(place)
    }

    /// Takes back all frames from `offset` on, which must be where a frame starts or the end. Under the
    /// writers' lock only.
    pub fn truncate_to(&mut self, offset: u64) -> Result<()> {
        if offset > self.end {
            return Err(Error::new(ErrorKind::Bug, "the log does not reach that far"));
        }
        self.set_len(offset)?;
        self.end = offset;
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| Error::io(&error, "shortening the log"))?;
        self.len = len;
        Ok(())
    }

    /// Makes what was appended survive a power loss.
    pub fn sync(&self) -> Result<()> {
        super::files::sync_file(&self.file)
    }

    /// Looks at what other processes did to the file.
    pub fn refresh(&mut self) -> Result<Change> {
        let here = self.file.metadata().map_err(|error| reading(&error))?;
        if here.nlink() == 0 || !self.dir.is_same_file(&self.name, here.dev(), here.ino()) {
            let file = Arc::new(self.dir.open_write(&self.name)?);
            let before = std::mem::replace(&mut self.file, file);
            if let Err(error) = self.locate_end(0) {
                self.file = before;
                return Err(error);
            }
            return Ok(Change::Replaced);
        }
        if here.len() == self.len {
            return Ok(Change::Same);
        }
        let before = self.end;
        // A file that shrank may have been cut back and grown again, so the old end proves nothing.
        self.locate_end(if here.len() < before { 0 } else { before })?;
        Ok(match self.end.cmp(&before) {
            std::cmp::Ordering::Less => Change::Replaced,
            std::cmp::Ordering::Equal => Change::Same,
            std::cmp::Ordering::Greater => Change::Grown,
        })
    }

    /// Reads the last frame, or `None` if there is none.
    ///
    /// # Errors
    /// `store-corrupt` if it is damaged.
    pub fn last(&self) -> Result<Option<Frame>> {
        self.iter_back().next().transpose()
    }

    /// Reads the frame that starts at `offset`.
    pub fn frame(&self, offset: u64) -> Result<Frame> {
        let head = self.head_at(offset)?.filter(|head| offset + head.total() <= self.end);
        let head = head.ok_or_else(|| corrupt(offset))?;
        let mut header = vec![0; usize::try_from(head.header_len).map_err(|_| corrupt(offset))?];
        if !read_exact(&self.file, &mut header, offset + HEAD)? || self.crc_of(offset, head)? != head.crc {
            return Err(corrupt(offset));
        }
        Ok(Frame {
            place: FrameRef { offset, bodies_offset: offset + HEAD + head.header_len },
            header,
            bodies_len: head.bodies_len,
            end: offset + head.total(),
        })
    }

    /// Yields frames from `offset` on, where one must start. Ends after the first error.
    pub fn iter_from(&self, offset: u64) -> impl Iterator<Item = Result<Frame>> {
        let mut at = Some(offset);
        std::iter::from_fn(move || {
            let start = at.take().filter(|start| *start < self.end)?;
            let frame = self.frame(start);
            at = frame.as_ref().ok().map(|frame| frame.end);
            Some(frame)
        })
    }

    /// Yields frames from the last to the first. Ends after the first error.
    pub fn iter_back(&self) -> impl Iterator<Item = Result<Frame>> {
        let mut end = Some(self.end);
        std::iter::from_fn(move || {
            let upto = end.take().filter(|upto| *upto > 0)?;
            let frame = match self.start_of_frame_before(upto) {
                Ok(Some(start)) => {
                    self.frame(start).and_then(|frame| if frame.end == upto { Ok(frame) } else { Err(corrupt(start)) })
                }
                Ok(None) => Err(corrupt(upto)),
                Err(error) => Err(error),
            };
            end = frame.as_ref().ok().map(|frame| frame.place.offset);
            Some(frame)
        })
    }

    /// Names a piece of a frame's bodies, to be read later. `offset` is where the frame starts, `range`
    /// counts from the start of its bodies; the id is given if it is known.
    ///
    /// It stays readable if the file is replaced by a shorter history meanwhile.
    ///
    /// # Errors
    /// `store-corrupt` if the frame's head is damaged or the range lies outside of its bodies.
    pub fn body(&self, offset: u64, range: Range<u64>, id: Option<ObjectId>) -> Result<Content> {
        let head = self.head_at(offset)?.ok_or_else(|| corrupt(offset))?;
        if range.start > range.end || range.end > head.bodies_len || offset + head.total() > self.end {
            return Err(corrupt(offset));
        }
        let start = offset + HEAD + head.header_len;
        let source = BodySource {
            file: Arc::clone(&self.file),
            frame: offset,
            head,
            range: start + range.start..start + range.end,
            checked: AtomicBool::new(false),
        };
        Ok(Content::from_source(range.end - range.start, id, Box::new(source)))
    }
}

/// Reads all of `buffer`; `false` if the file ends before.
fn read_exact(file: &File, buffer: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(reading(&error)),
    }
}

/// Writes all parts at once, which is one call unless the system writes less.
fn write_parts(file: &File, mut at: u64, parts: &[&[u8]]) -> Result<()> {
    // The kernel takes at most 1024 parts.
    for some in parts.chunks(1024) {
        let mut slices: Vec<IoSlice<'_>> = some.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        // Empty parts at the front would read as "nothing was written".
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(file, rest, at) {
                Ok(0) => return Err(Error::new(ErrorKind::Io, "the log could not be written")),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::os(error, "writing the log")),
            }
        }
    }
    Ok(())
}

/// A piece of the bodies of one frame.
#[derive(Debug)]
struct BodySource {
    file: Arc<File>,
    frame: u64,
    head: Head,
    range: Range<u64>,
    checked: AtomicBool,
}

impl BodySource {
    /// Checks the whole frame the first time.
    fn check(&self) -> Result<()> {
        if self.checked.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut crc = crc32fast::Hasher::new();
        let start = self.frame + HEAD;
        let end = start + self.head.header_len + self.head.bodies_len;
        self.pieces(start..end, &mut |piece| {
            crc.update(piece);
            Ok(())
        })?;
        if crc.finalize() != self.head.crc {
            return Err(corrupt(self.frame));
        }
        self.checked.store(true, Ordering::Release);
        Ok(())
    }

    fn pieces(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut at = range.start;
        let mut piece = vec![0; PIECE.min(usize::try_from(range.end - at).unwrap_or(PIECE))];
        while at < range.end {
            let want = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
            if !read_exact(&self.file, &mut piece[..want], at)? {
                return Err(corrupt(self.frame));
            }
            take(&piece[..want])?;
            at += want as u64;
        }
        Ok(())
    }
}

impl ContentSource for BodySource {
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check()?;
        let len = self.range.end - self.range.start;
        let end = range.end.min(len);
        let start = range.start.min(end);
        let mut bytes = vec![0; usize::try_from(end - start).map_err(|_| corrupt(self.frame))?];
        if read_exact(&self.file, &mut bytes, self.range.start + start)? { Ok(bytes) } else { Err(corrupt(self.frame)) }
    }

    fn copy_to(&self, out: &mut dyn Write) -> Result<()> {
        self.check()?;
        self.pieces(self.range.clone(), &mut |piece| out.write_all(piece).map_err(|error| Error::io(&error, "writing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &Path, frames: usize) -> Vec<u64> {
        let mut log = Log::open(path).unwrap();
        let mut ends = vec![0];
        for number in 0..frames {
            let header = format!("{{\"n\":{number}}}");
            let body = vec![u8::try_from(number).unwrap() + 1; 10 * number];
            log.append(header.as_bytes(), &[&body, b"end"]).unwrap();
            ends.push(log.end());
        }
        ends
    }

    fn headers(log: &Log) -> Vec<String> {
        log.iter_from(0).map(|frame| String::from_utf8(frame.unwrap().header).unwrap()).collect()
    }

    #[test]
    fn frames_are_read_back_in_both_directions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        sample(&path, 5);
        let log = Log::open(&path).unwrap();
        let mut back: Vec<Frame> = log.iter_back().map(Result::unwrap).collect();
        back.reverse();
        assert_eq!(back, log.iter_from(0).map(Result::unwrap).collect::<Vec<_>>());
        let last = log.last().unwrap().unwrap();
        assert_eq!((last.header.as_slice(), last.bodies_len), (&b"{\"n\":4}"[..], 43));
        let body = log.body(last.place.offset, 40..43, None).unwrap();
        assert_eq!(body.read_all().unwrap(), b"end");
        assert_eq!(body.read(1..99).unwrap(), b"nd");
        assert_eq!(log.body(last.place.offset, 40..44, None).unwrap_err().kind(), ErrorKind::StoreCorrupt);
    }

    // rows: S10
    #[test]
    fn cut_at_every_byte_only_the_incomplete_frame_vanishes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let ends = sample(&path, 5);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let mut log = Log::open(&path).unwrap();
            let whole = ends.iter().rposition(|end| *end <= cut as u64).unwrap();
            assert_eq!(headers(&log).len(), whole, "cut at {cut}");
            assert_eq!(log.repair().unwrap(), ends[whole] != cut as u64);
            log.append(b"next", &[]).unwrap();
            assert_eq!(
                std::fs::read(&path).unwrap()[..usize::try_from(ends[whole]).unwrap()],
                bytes[..usize::try_from(ends[whole]).unwrap()]
            );
            let log = Log::open(&path).unwrap();
            assert_eq!(headers(&log).len(), whole + 1);
            assert_eq!(log.last().unwrap().unwrap().header, b"next");
        }
    }

    // rows: S10
    #[test]
    fn a_flipped_byte_is_an_error_and_never_wrong_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let ends = sample(&path, 5);
        let bytes = std::fs::read(&path).unwrap();
        let right = headers(&Log::open(&path).unwrap());
        for at in 0..usize::try_from(ends[4]).unwrap() {
            for bit in [1_u8, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                std::fs::write(&path, &damaged).unwrap();
                let mut log = Log::open(&path).unwrap();
                assert!(!log.repair().unwrap(), "nothing may be cut, byte {at}");
                let hit = ends.iter().rposition(|end| *end <= at as u64).unwrap();
                let mut forward = log.iter_from(0);
                for expected in &right[..hit] {
                    assert_eq!(forward.next().unwrap().unwrap().header, expected.as_bytes());
                }
                // The end mark only serves reading backwards.
                let in_tail = at as u64 >= ends[hit + 1] - TAIL;
                if !in_tail {
                    assert_eq!(forward.next().unwrap().unwrap_err().kind(), ErrorKind::StoreCorrupt, "byte {at}");
                }
                drop(forward);
                let mut back = log.iter_back();
                for expected in right[hit + 1..].iter().rev() {
                    assert_eq!(back.next().unwrap().unwrap().header, expected.as_bytes());
                }
                assert_eq!(back.next().unwrap().unwrap_err().kind(), ErrorKind::StoreCorrupt, "byte {at}");
            }
        }
    }

    #[test]
    fn damage_does_not_take_later_frames_when_the_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let ends = sample(&path, 5);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[usize::try_from(ends[1]).unwrap() + 5] ^= 1;
        bytes.truncate(bytes.len() - 3);
        std::fs::write(&path, &bytes).unwrap();
        let mut log = Log::open(&path).unwrap();
        assert!(log.repair().unwrap());
        assert_eq!(log.end(), ends[4]);
    }

    #[test]
    fn pages_that_never_reached_the_disk_are_an_incomplete_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::open(&path).unwrap();
        log.append(b"one", &[]).unwrap();
        let end = log.end();
        log.append(b"two", &[&vec![7; 20_000]]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4096..8192].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Log::open(&path).unwrap().end(), end);
        bytes[usize::try_from(end).unwrap()..].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Log::open(&path).unwrap().end(), end);
    }

    #[test]
    fn another_handle_sees_appends_and_what_was_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut one = Log::open(&path).unwrap();
        let mut two = Log::open(&path).unwrap();
        let first = one.append(b"a", &[b"body"]).unwrap();
        assert_eq!(two.append(b"b", &[]).unwrap_err().kind(), ErrorKind::BaseMoved);
        assert_eq!(two.refresh().unwrap(), Change::Grown);
        two.append(b"b", &[]).unwrap();
        assert_eq!(one.refresh().unwrap(), Change::Grown);
        assert_eq!(headers(&one), ["a", "b"]);
        let body = one.body(first.offset, 0..4, None).unwrap();
        two.truncate_to(first.offset).unwrap();
        assert_eq!(one.refresh().unwrap(), Change::Replaced);
        assert!(one.is_empty());
        assert_eq!(body.read_all().unwrap_err().kind(), ErrorKind::StoreCorrupt);
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(one.refresh().unwrap(), Change::Replaced);
        one.append(b"new", &[]).unwrap();
        assert_eq!(headers(&Log::open(&path).unwrap()), ["new"]);
    }

    #[test]
    fn many_bodies_are_one_frame() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::open(&path).unwrap();
        let bodies = vec![&b"x"[..]; 3000];
        let place = log.append(b"", &bodies).unwrap();
        assert_eq!(log.body(place.offset, 0..3000, None).unwrap().read_all().unwrap(), vec![b'x'; 3000]);
    }
}
