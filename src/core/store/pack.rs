//! Pack files and their indexes (version 2), as git writes them.
//!
//! An index is read into memory once and checked against its own checksum: a damaged index could claim
//! an object that is not there, and a batch would then skip writing it. It is not mapped, because a
//! mapped file that another process cuts short kills this one. The pack itself stays open, so that a
//! `git gc` that replaces it takes nothing away from a reader that found an object in it.
//!
//! Deltas are resolved here too, sixty lines against a C library: git makes them when it repacks, we
//! write none. What a reader gets is only as true as its caller's hash check; this file promises that
//! a damaged pack is an error, never a panic, an endless loop or an allocation of the size it claims.

use super::objects::{ObjectKind, Stream, damaged_object};
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use flate2::bufread::ZlibDecoder;
use sha1_checked::{Digest, Sha1};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Objects up to this size are inflated in one step from one read.
const SMALL: u64 = 128 << 10;
/// Longest chain of deltas followed; git's own default limit is 50.
const MAX_CHAIN: usize = 4096;
const HEAD: u64 = 12;
const TRAILER: u64 = 20;

/// A plain SHA-1 for the checksums of packs and indexes: they guard against damage, not against an
/// attacker, and without collision detection the processor's own instructions are used.
pub(super) fn checksum() -> Sha1 {
    Sha1::builder().detect_collision(false).build()
}

/// Returns the checksum's bytes.
pub(super) fn checksum_bytes(sha: Sha1) -> [u8; 20] {
    (*sha.try_finalize().hash()).into()
}

fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::StoreCorrupt, message)
}

/// The index of one pack, in memory.
#[derive(Debug)]
pub(super) struct Index {
    bytes: Vec<u8>,
    count: usize,
}

const FANOUT_AT: usize = 8;
const IDS_AT: usize = FANOUT_AT + 256 * 4;

impl Index {
    /// Checks an index file.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self> {
        if bytes.len() < IDS_AT + 40 || !bytes.starts_with(b"\xfftOc\0\0\0\x02") {
            return Err(corrupt("a pack index has an unknown form"));
        }
        let (body, sum) = bytes.split_at(bytes.len() - 20);
        let mut sha = checksum();
        sha.update(body);
        if checksum_bytes(sha) != *sum {
            return Err(corrupt("a pack index is damaged"));
        }
        let count = u32_at(&bytes, FANOUT_AT + 255 * 4) as usize;
        let index = Index { bytes, count };
        let least = count.checked_mul(28).and_then(|table| table.checked_add(IDS_AT + 40));
        let rising = (1..256).all(|byte| index.fanout(byte - 1) <= index.fanout(byte));
        if least.is_none_or(|least| least > index.bytes.len()) || !rising {
            return Err(corrupt("a pack index is damaged"));
        }
        Ok(index)
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn fanout(&self, byte: usize) -> usize {
        u32_at(&self.bytes, FANOUT_AT + 4 * byte) as usize
    }

    /// Returns the id at a place in id order.
    pub(super) fn id(&self, at: usize) -> ObjectId {
        let start = IDS_AT + 20 * at;
        let mut id = [0; 20];
        id.copy_from_slice(&self.bytes[start..start + 20]);
        ObjectId(id)
    }

    /// Returns the CRC-32 of the entry at a place in id order.
    pub(super) fn crc(&self, at: usize) -> u32 {
        u32_at(&self.bytes, IDS_AT + 20 * self.count + 4 * at)
    }

    /// Returns where in the pack the entry at a place in id order starts.
    pub(super) fn offset(&self, at: usize) -> Option<u64> {
        let low = u32_at(&self.bytes, IDS_AT + 24 * self.count + 4 * at);
        if low & 0x8000_0000 == 0 {
            return Some(u64::from(low));
        }
        let start = (IDS_AT + 28 * self.count).checked_add(8 * (low & 0x7fff_ffff) as usize)?;
        let bytes = self.bytes.get(start..start + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Returns where the object stands in id order.
    pub(super) fn position(&self, id: &ObjectId) -> Option<usize> {
        let first = usize::from(id.0[0]);
        let mut low = if first == 0 { 0 } else { self.fanout(first - 1) };
        let mut high = self.fanout(first);
        while low < high {
            let middle = low + (high - low) / 2;
            let start = IDS_AT + 20 * middle;
            match self.bytes[start..start + 20].cmp(&id.0) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Returns the checksum of the pack this index belongs to.
    fn pack_checksum(&self) -> &[u8] {
        let end = self.bytes.len() - 20;
        &self.bytes[end - 20..end]
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// One pack with its index.
#[derive(Debug)]
pub(super) struct Pack {
    /// `pack-<checksum>`, the file name without its ending.
    pub(super) stem: String,
    pub(super) index: Index,
    pub(super) file: File,
    /// Length of the file.
    pub(super) len: u64,
}

/// Finds the object a delta is based on.
pub(super) type Lookup<'a> = dyn Fn(&ObjectId) -> Result<(ObjectKind, Vec<u8>)> + 'a;

/// What the head of an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Whole(ObjectKind),
    /// A delta against the entry at this offset.
    Offset(u64),
    /// A delta against the object of this id.
    Id(ObjectId),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: EntryKind,
    /// Length when inflated: of the object, or of the delta.
    pub(super) len: u64,
    data_at: u64,
}

impl Pack {
    /// Takes an index and the pack it describes.
    ///
    /// Only the two checksums at the ends are compared: that is what tells a pack cut short or of
    /// zeros after a power loss, at the cost of one read.
    pub(super) fn new(stem: String, index: Index, file: File) -> Result<Self> {
        let len = file.metadata().map_err(|error| Error::io(&error, "examining a pack"))?.len();
        let mut head = [0; 12];
        let mut trailer = [0; 20];
        let whole = len >= HEAD + TRAILER
            && file.read_exact_at(&mut head, 0).is_ok()
            && file.read_exact_at(&mut trailer, len - TRAILER).is_ok()
            && head.starts_with(b"PACK\0\0\0\x02")
            && u32_at(&head, 8) as usize == index.len()
            && trailer == *index.pack_checksum();
        if whole { Ok(Pack { stem, index, file, len }) } else { Err(corrupt("a pack does not fit its index")) }
    }

    /// Returns where the object's entry starts, if it is here.
    pub(super) fn find(&self, id: &ObjectId) -> Option<u64> {
        self.index.position(id).and_then(|at| self.index.offset(at))
    }

    /// Reads the head of the entry at `offset`.
    pub(super) fn entry(&self, offset: u64) -> Result<Entry> {
        let mut bytes = [0_u8; 48];
        let end = self.len - TRAILER;
        if offset < HEAD || offset >= end {
            return Err(corrupt("a pack index points outside its pack"));
        }
        let want = usize::try_from((end - offset).min(48)).unwrap_or(48);
        self.file.read_exact_at(&mut bytes[..want], offset).map_err(|error| Error::io(&error, "reading a pack"))?;
        parse_entry(&bytes[..want], offset).ok_or_else(|| corrupt("a pack entry is damaged"))
    }

    /// Opens the object at `offset`; `base` finds objects outside of this pack that a delta needs.
    pub(super) fn stream(self: &Arc<Self>, offset: u64, base: &Lookup<'_>) -> Result<Stream> {
        let entry = self.entry(offset)?;
        let EntryKind::Whole(kind) = entry.kind else {
            let (kind, bytes) = self.resolve(entry, offset, base)?;
            return Ok(Stream { kind, len: bytes.len() as u64, body: Box::new(io::Cursor::new(bytes)) });
        };
        if entry.len <= SMALL {
            let bytes = self.inflate(&entry)?;
            return Ok(Stream { kind, len: entry.len, body: Box::new(io::Cursor::new(bytes)) });
        }
        Ok(Stream { kind, len: entry.len, body: Box::new(self.inflater(&entry)) })
    }

    /// Returns kind and length of the object at `offset`, without inflating more than a few bytes.
    pub(super) fn header(
        self: &Arc<Self>,
        offset: u64,
        base: &dyn Fn(&ObjectId) -> Result<ObjectKind>,
    ) -> Result<(ObjectKind, u64)> {
        let mut entry = self.entry(offset)?;
        let mut at = offset;
        let len = if matches!(entry.kind, EntryKind::Whole(_)) {
            entry.len
        } else {
            let mut head = Vec::new();
            self.inflater(&entry)
                .take(20)
                .read_to_end(&mut head)
                .map_err(|_| corrupt("a delta in a pack is damaged"))?;
            delta_lengths(&head).ok_or_else(|| corrupt("a delta in a pack is damaged"))?.1
        };
        for _ in 0..MAX_CHAIN {
            match entry.kind {
                EntryKind::Whole(kind) => return Ok((kind, len)),
                EntryKind::Offset(base_at) => at = base_at,
                EntryKind::Id(id) => match self.find(&id) {
                    Some(base_at) if base_at != at => at = base_at,
                    _ => return Ok((base(&id)?, len)),
                },
            }
            entry = self.entry(at)?;
        }
        Err(corrupt("a chain of deltas in a pack does not end"))
    }

    fn inflater(self: &Arc<Self>, entry: &Entry) -> ZlibDecoder<BufReader<PackCursor>> {
        let cursor = PackCursor { pack: Arc::clone(self), at: entry.data_at };
        let capacity = if entry.len < 1024 { 4096 } else { 64 << 10 };
        ZlibDecoder::new(BufReader::with_capacity(capacity, cursor))
    }

    /// Inflates a whole entry, with one read where it is small.
    fn inflate(self: &Arc<Self>, entry: &Entry) -> Result<Vec<u8>> {
        let wrong = || corrupt("a pack entry is damaged");
        let mut out = Vec::new();
        if entry.len <= SMALL {
            // Deflate grows data by less than this; an entry that needs more is not deflate's work,
            // but still legal, and takes the other way.
            let bound = entry.len + entry.len / 512 + 64;
            let want = bound.min(self.len - TRAILER - entry.data_at);
            let mut packed = vec![0; usize::try_from(want).map_err(|_| wrong())?];
            self.file.read_exact_at(&mut packed, entry.data_at).map_err(|error| Error::io(&error, "reading a pack"))?;
            let len = usize::try_from(entry.len).map_err(|_| wrong())?;
            out.reserve_exact(len + 1);
            let mut state = flate2::Decompress::new(true);
            let status = state.decompress_vec(&packed, &mut out, flate2::FlushDecompress::Finish);
            if matches!(status, Ok(flate2::Status::StreamEnd)) {
                return if out.len() == len { Ok(out) } else { Err(wrong()) };
            }
            out.clear();
        }
        self.inflater(entry).take(entry.len.saturating_add(1)).read_to_end(&mut out).map_err(|_| wrong())?;
        if out.len() as u64 == entry.len { Ok(out) } else { Err(wrong()) }
    }

    /// Applies a chain of deltas.
    fn resolve(self: &Arc<Self>, mut entry: Entry, mut at: u64, base: &Lookup<'_>) -> Result<(ObjectKind, Vec<u8>)> {
        let mut deltas = Vec::new();
        let (kind, mut bytes) = loop {
            match entry.kind {
                EntryKind::Whole(kind) => break (kind, self.inflate(&entry)?),
                EntryKind::Offset(base_at) => {
                    deltas.push(self.inflate(&entry)?);
                    at = base_at;
                }
                EntryKind::Id(id) => {
                    deltas.push(self.inflate(&entry)?);
                    match self.find(&id) {
                        Some(base_at) if base_at != at => at = base_at,
                        _ => break base(&id)?,
                    }
                }
            }
            if deltas.len() > MAX_CHAIN {
                return Err(corrupt("a chain of deltas in a pack does not end"));
            }
            entry = self.entry(at)?;
        };
        while let Some(delta) = deltas.pop() {
            bytes = apply_delta(&bytes, &delta).ok_or_else(|| corrupt("a delta in a pack is damaged"))?;
        }
        Ok((kind, bytes))
    }
}

/// Reads a pack from a place on, never beyond its last entry.
struct PackCursor {
    pack: Arc<Pack>,
    at: u64,
}

impl Read for PackCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = (self.pack.len - TRAILER).saturating_sub(self.at);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let got = self.pack.file.read_at(&mut buffer[..want], self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

fn parse_entry(bytes: &[u8], offset: u64) -> Option<Entry> {
    let first = *bytes.first()?;
    let mut used = 1;
    let mut len = u64::from(first & 15);
    let mut shift = 4;
    let mut byte = first;
    while byte & 0x80 != 0 {
        byte = *bytes.get(used)?;
        used += 1;
        if shift > 57 {
            return None;
        }
        len |= u64::from(byte & 0x7f) << shift;
        shift += 7;
    }
    let kind = match (first >> 4) & 7 {
        1 => EntryKind::Whole(ObjectKind::Commit),
        2 => EntryKind::Whole(ObjectKind::Tree),
        3 => EntryKind::Whole(ObjectKind::Blob),
        4 => EntryKind::Whole(ObjectKind::Tag),
        6 => {
            let mut byte = *bytes.get(used)?;
            used += 1;
            let mut back = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = *bytes.get(used)?;
                used += 1;
                back = back.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
            }
            if back == 0 {
                return None;
            }
            EntryKind::Offset(offset.checked_sub(back)?)
        }
        7 => {
            let id = bytes.get(used..used + 20)?;
            used += 20;
            EntryKind::Id(ObjectId(id.try_into().ok()?))
        }
        _ => return None,
    };
    Some(Entry { kind, len, data_at: offset + used as u64 })
}

/// Writes the head of a whole object's entry.
pub(super) fn entry_head(kind: ObjectKind, len: u64, out: &mut Vec<u8>) {
    let number: u8 = match kind {
        ObjectKind::Commit => 1,
        ObjectKind::Tree => 2,
        ObjectKind::Blob => 3,
        ObjectKind::Tag => 4,
    };
    let mut rest = len >> 4;
    let mut byte = (number << 4) | (len & 15) as u8;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

fn delta_lengths(delta: &[u8]) -> Option<(u64, u64, usize)> {
    let mut at = 0;
    let mut number = || {
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let byte = *delta.get(at)?;
            at += 1;
            if shift > 56 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    };
    let base = number()?;
    let result = number()?;
    Some((base, result, at))
}

/// Applies one delta; `None` if it does not fit.
fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let (base_len, len, mut at) = delta_lengths(delta)?;
    if base_len != base.len() as u64 {
        return None;
    }
    // Grows with what the delta really yields: the claimed length is not to be trusted.
    let len = usize::try_from(len).ok()?;
    let mut out = Vec::with_capacity(len.min(16 << 20));
    while at < delta.len() {
        let code = delta[at];
        at += 1;
        if code & 0x80 == 0 {
            let count = usize::from(code);
            if count == 0 {
                return None;
            }
            out.extend_from_slice(delta.get(at..at + count)?);
            at += count;
        } else {
            let mut number = |bits: std::ops::Range<u8>| {
                let mut value = 0_usize;
                for (place, bit) in bits.enumerate() {
                    if code & (1 << bit) != 0 {
                        value |= usize::from(*delta.get(at)?) << (8 * place);
                        at += 1;
                    }
                }
                Some(value)
            };
            let from = number(0..4)?;
            let count = match number(4..7)? {
                0 => 0x1_0000,
                count => count,
            };
            out.extend_from_slice(base.get(from..from.checked_add(count)?)?);
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// One object of a pack that is being written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) id: ObjectId,
    pub(super) offset: u64,
    pub(super) crc: u32,
}

/// Makes the index of a pack; sorts `entries` by id.
pub(super) fn make_index(entries: &mut [Written], pack_checksum: &[u8; 20]) -> Vec<u8> {
    entries.sort_unstable_by_key(|entry| entry.id);
    let mut out = Vec::with_capacity(IDS_AT + 28 * entries.len() + 40);
    out.extend_from_slice(b"\xfftOc\0\0\0\x02");
    let mut upto = 0;
    for byte in 0..=255_u8 {
        while upto < entries.len() && entries[upto].id.0[0] == byte {
            upto += 1;
        }
        out.extend_from_slice(&u32::try_from(upto).unwrap_or(u32::MAX).to_be_bytes());
    }
    for entry in &*entries {
        out.extend_from_slice(&entry.id.0);
    }
    for entry in &*entries {
        out.extend_from_slice(&entry.crc.to_be_bytes());
    }
    let mut large = Vec::new();
    for entry in &*entries {
        let low = match u32::try_from(entry.offset) {
            Ok(low) if low & 0x8000_0000 == 0 => low,
            _ => {
                large.push(entry.offset);
                0x8000_0000 | u32::try_from(large.len() - 1).unwrap_or(0x7fff_ffff)
            }
        };
        out.extend_from_slice(&low.to_be_bytes());
    }
    for offset in large {
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out.extend_from_slice(pack_checksum);
    let mut sha = checksum();
    sha.update(&out);
    out.extend_from_slice(&checksum_bytes(sha));
    out
}

/// Reads back what a stream says it holds, and not a byte more.
pub(super) fn read_exactly(id: &ObjectId, stream: Stream) -> Result<(ObjectKind, Vec<u8>)> {
    let Stream { kind, len, body } = stream;
    let mut bytes = Vec::with_capacity(usize::try_from(len.min(1 << 20)).unwrap_or(0) + 1);
    body.take(len.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| stream_error(id, &error))?;
    if bytes.len() as u64 == len { Ok((kind, bytes)) } else { Err(damaged_object(id)) }
}

/// Tells a failing disk from damaged data.
pub(super) fn stream_error(id: &ObjectId, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(_) => Error::io(error, "reading an object"),
        None => damaged_object(id),
    }
}
