//! What the last capture learnt of each file, so that an unchanged one is not read again.
//!
//! A file counts as unchanged if inode, size, and both times are what they were, and those times were
//! already old when the file was read: a file changed twice within one tick of the clock looks the same
//! both times. The index is a cache: lost, damaged or from another version, it costs one full read.

#![expect(clippy::disallowed_methods, reason = "the store's own directory, which no tool can reach")]

use crate::core::content::ObjectId;
use crate::core::path::{Name, WsPath};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"hedgidx1";

/// What tells one state of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatKey {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl StatKey {
    /// Tells whether a later change might leave this key as it is, given when the file was looked at.
    ///
    /// Local filesystems stamp with the kernel's tick (at most 10 ms); ones whose stamps are whole
    /// milliseconds or seconds are given two seconds.
    pub(crate) fn is_racy(&self, looked_ns: i64) -> bool {
        let newest = self.mtime_ns.max(self.ctime_ns);
        let coarse = newest % 1_000_000 == 0;
        let slack = if coarse { 2_000_000_000 } else { 20_000_000 };
        newest.saturating_add(slack) >= looked_ns
    }
}

/// The files of one directory, sorted by name.
pub(crate) type Indexed = Arc<[(Name, StatKey, ObjectId)]>;

/// The files of every directory.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) directories: HashMap<WsPath, Indexed>,
}

impl Index {
    /// Finds what is known of one file.
    pub(crate) fn get(&self, path: &WsPath) -> Option<(StatKey, ObjectId)> {
        Self::find(self.directories.get(&path.parent())?, path.name()?)
    }

    /// Finds one file among those of its directory.
    pub(crate) fn find(files: &[(Name, StatKey, ObjectId)], name: &[u8]) -> Option<(StatKey, ObjectId)> {
        let at = files.binary_search_by(|(known, _, _)| known.as_bytes().cmp(name)).ok()?;
        Some((files[at].1, files[at].2))
    }

    /// Reads an index; `None` if there is none, or none that can be trusted for the root `identity`.
    pub(crate) fn load(path: &Path, identity: (u64, u64)) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (crc, payload) = rest.split_at_checked(4)?;
        if crc32fast::hash(payload).to_le_bytes() != crc {
            return None;
        }
        let mut reader = Fields(payload);
        if (reader.u64()?, reader.u64()?) != identity {
            return None;
        }
        let mut directories = HashMap::new();
        while !reader.0.is_empty() {
            let len = reader.u32()?;
            let path = WsPath::stored(reader.bytes(len)?).ok()?;
            let count = reader.u32()?;
            let mut files = Vec::with_capacity(usize::try_from(count).ok()?.min(1 << 20));
            for _ in 0..count {
                let len = reader.u32()?;
                let name = Name::new(reader.bytes(len)?).ok()?;
                let key = StatKey {
                    ino: reader.u64()?,
                    size: reader.u64()?,
                    mtime_ns: reader.u64()?.cast_signed(),
                    ctime_ns: reader.u64()?.cast_signed(),
                };
                files.push((name, key, ObjectId(reader.bytes(20)?.try_into().ok()?)));
            }
            directories.insert(path, files.into());
        }
        Some(Index { directories })
    }

    /// Writes the index; a reader sees the old one or the new one.
    pub(crate) fn save(&self, path: &Path, identity: (u64, u64)) -> std::io::Result<()> {
        let mut payload = Vec::new();
        payload.extend_from_slice(&identity.0.to_le_bytes());
        payload.extend_from_slice(&identity.1.to_le_bytes());
        let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
        for (directory, files) in &self.directories {
            payload.extend_from_slice(&len(directory.as_bytes().len()));
            payload.extend_from_slice(directory.as_bytes());
            payload.extend_from_slice(&len(files.len()));
            for (name, key, id) in files.iter() {
                payload.extend_from_slice(&len(name.as_bytes().len()));
                payload.extend_from_slice(name.as_bytes());
                for field in [key.ino, key.size, key.mtime_ns.cast_unsigned(), key.ctime_ns.cast_unsigned()] {
                    payload.extend_from_slice(&field.to_le_bytes());
                }
                payload.extend_from_slice(&id.0);
            }
        }
        let aside = path.with_extension(format!("new{}", std::process::id()));
        let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        file.write_all(MAGIC)?;
        file.write_all(&crc32fast::hash(&payload).to_le_bytes())?;
        file.write_all(&payload)?;
        drop(file);
        std::fs::rename(&aside, path)
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_survives_saving_and_no_damage_is_believed() {
        let mut index = Index::default();
        let key = StatKey { ino: 1, size: 2, mtime_ns: -3, ctime_ns: 4 };
        index.directories.insert(WsPath::root(), [(Name::new(b"a\xff").unwrap(), key, ObjectId([7; 20]))].into());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        index.save(&path, (1, 2)).unwrap();
        let path_a = WsPath::new(b"a\xff").unwrap();
        assert_eq!(Index::load(&path, (1, 2)).unwrap().get(&path_a), Some((key, ObjectId([7; 20]))));
        assert!(Index::load(&path, (1, 3)).is_none());
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(Index::load(&path, (1, 2)).is_none(), "byte {at}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(Index::load(&path, (1, 2)).is_none(), "cut at {at}");
        }
    }

    // rows: S63
    #[test]
    fn a_file_touched_within_a_tick_is_not_trusted() {
        let key = |ns| StatKey { ino: 1, size: 1, mtime_ns: ns, ctime_ns: ns };
        assert!(key(1_000_000_123).is_racy(1_010_000_000));
        assert!(!key(1_000_000_123).is_racy(1_030_000_000));
        assert!(key(1_000_000_000).is_racy(2_500_000_000), "a coarse clock is given longer");
    }
}
