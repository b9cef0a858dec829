//! Bytes and the id that names them.
//!
//! A content id is the id git gives the same bytes as a blob: collision-checked SHA-1 over
//! `blob <len>\0` and the bytes. One id serves records, `if_hash`, trees and the store.
//!
//! A [`Content`] may stand in memory or somewhere it can be read again; its id is computed at most
//! once and only when somebody asks. That matters: hashing 4 KB costs more than writing it to memory,
//! and most writes are overwritten before anybody looks.

use crate::core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha1_checked::{Digest, Sha1};
use std::fmt;
use std::io::{Read, Write};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// A git object id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 20]);

impl ObjectId {
    /// Hashes a whole object of `kind` (`blob`, `tree` or `commit`).
    pub fn hash(kind: &str, bytes: &[u8]) -> Self {
        let mut hasher = ObjectHasher::new(kind, bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::new(ErrorKind::InvalidArgument, "not an object id of 40 hexadecimal digits");
        if text.len() != 40 || !text.is_ascii() {
            return Err(bad());
        }
        let mut bytes = [0; 20];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| bad())?;
        }
        Ok(ObjectId(bytes))
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes an object piece by piece.
#[derive(Clone)]
pub struct ObjectHasher(Sha1);

impl fmt::Debug for ObjectHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectHasher")
    }
}

impl ObjectHasher {
    /// Starts an object of `kind` with `len` bytes.
    pub fn new(kind: &str, len: u64) -> Self {
        let mut sha = Sha1::new();
        sha.update(format!("{kind} {len}\0").as_bytes());
        ObjectHasher(sha)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the id.
    pub fn finish(self) -> ObjectId {
        ObjectId((*self.0.try_finalize().hash()).into())
    }
}

/// Where bytes that are not in memory can be read again.
pub trait ContentSource: Send + Sync + fmt::Debug {
    /// Reads `range` of the content; past the end is empty, at the end is short.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>>;

    /// Writes the whole content to `out` in pieces of at most 1 MiB.
    fn copy_to(&self, out: &mut dyn Write) -> Result<()>;

    /// Says at once if it is known that reading must fail; even the length then means nothing.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The bytes of one file, wherever they are.
#[derive(Clone)]
pub struct Content(Arc<Inner>);

struct Inner {
    len: u64,
    id: OnceLock<ObjectId>,
    data: Data,
}

enum Data {
    Memory(Box<dyn AsRef<[u8]> + Send + Sync>),
    Source(Box<dyn ContentSource>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes, {:?})", self.0.len, self.0.id.get())
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Content {
    fn from(bytes: &T) -> Self {
        Content::from_bytes(bytes.as_ref())
    }
}

impl Content {
    /// Copies bytes into memory.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Content::from_owner(Box::<[u8]>::from(bytes))
    }

    /// Keeps what holds bytes in memory, without copying them. They must never change.
    ///
    /// PERF: a copy of 4 KB that is kept costs a fresh page of memory each time, which is a third of a write.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let len = owner.as_ref().len() as u64;
        Content(Arc::new(Inner { len, id: OnceLock::new(), data: Data::Memory(Box::new(owner)) }))
    }

    /// Names bytes that can be read from `source`; `id` if it is known.
    pub fn from_source(len: u64, id: Option<ObjectId>, source: Box<dyn ContentSource>) -> Self {
        let cell = OnceLock::new();
        if let Some(id) = id {
            cell.get_or_init(|| id);
        }
        Content(Arc::new(Inner { len, id: cell, data: Data::Source(source) }))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Tells whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the bytes if they stand in memory.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match &self.0.data {
            Data::Memory(owner) => Some((**owner).as_ref()),
            Data::Source(_) => None,
        }
    }

    /// Fails if it is known that these bytes cannot be read.
    pub fn check(&self) -> Result<()> {
        match &self.0.data {
            Data::Memory(_) => Ok(()),
            Data::Source(source) => source.check(),
        }
    }

    /// Tells whether nothing but the length is known: not even the id can be found out.
    pub fn is_unknown(&self) -> bool {
        self.known_id().is_none() && self.check().is_err()
    }

    /// Returns the id if it is known already.
    pub fn known_id(&self) -> Option<ObjectId> {
        self.0.id.get().copied()
    }

    /// Returns the id, hashing the bytes the first time.
    pub fn id(&self) -> Result<ObjectId> {
        if let Some(id) = self.known_id() {
            return Ok(id);
        }
        let mut hasher = ObjectHasher::new("blob", self.0.len);
        match &self.0.data {
            Data::Memory(owner) => hasher.update((**owner).as_ref()),
            Data::Source(source) => source.copy_to(&mut HashWriter(&mut hasher))?,
        }
        Ok(*self.0.id.get_or_init(|| hasher.finish()))
    }

    /// Tells whether both hold the same bytes, without hashing where that can be avoided.
    pub fn same(&self, other: &Content) -> Result<bool> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(true);
        }
        if let (Some(mine), Some(theirs)) = (self.known_id(), other.known_id()) {
            return Ok(mine == theirs);
        }
        if self.0.len != other.0.len {
            return Ok(false);
        }
        if let (Some(mine), Some(theirs)) = (self.in_memory(), other.in_memory()) {
            return Ok(std::ptr::eq(mine, theirs) || mine == theirs);
        }
        if self.is_unknown() || other.is_unknown() {
            return Ok(false);
        }
        Ok(self.id()? == other.id()?)
    }

    /// Reads a range; past the end is empty, at the end is short.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        match &self.0.data {
            Data::Memory(owner) => {
                let bytes = (**owner).as_ref();
                let end = usize::try_from(range.end.min(self.0.len)).unwrap_or(bytes.len());
                let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
                Ok(bytes[start..end].to_vec())
            }
            Data::Source(source) => source.read(range),
        }
    }

    /// Reads everything.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        self.read(0..self.0.len)
    }

    /// Reads it from front to back.
    pub fn reader(&self) -> ContentReader<'_> {
        ContentReader { content: self, at: 0 }
    }

    /// Writes everything to `out`, in pieces.
    pub fn copy_to(&self, out: &mut dyn Write) -> Result<()> {
        match &self.0.data {
            Data::Memory(owner) => {
                for piece in (**owner).as_ref().chunks(1 << 20) {
                    out.write_all(piece).map_err(|error| Error::io(&error, "writing"))?;
                }
                Ok(())
            }
            Data::Source(source) => source.copy_to(out),
        }
    }
}

/// Reads a content from front to back.
#[derive(Debug)]
pub struct ContentReader<'a> {
    content: &'a Content,
    at: u64,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let until = self.at.saturating_add(buffer.len() as u64);
        let piece = self.content.read(self.at..until).map_err(std::io::Error::other)?;
        buffer[..piece.len()].copy_from_slice(&piece);
        self.at += piece.len() as u64;
        Ok(piece.len())
    }
}

struct HashWriter<'a>(&'a mut ObjectHasher);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_gits() {
        assert_eq!(Content::from_bytes(b"").id().unwrap().to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(
            Content::from_bytes(b"hello\n").id().unwrap().to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn ranges_are_clamped() {
        let content = Content::from_bytes(b"0123456789");
        assert_eq!(content.read(3..7).unwrap(), b"3456");
        assert_eq!(content.read(42..50).unwrap(), b"");
        assert_eq!(content.read(8..u64::MAX).unwrap(), b"89");
    }
}
