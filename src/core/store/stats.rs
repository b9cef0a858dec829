//! Counts what a store holds, by looking at its files. Slow on purpose: nothing depends on it.

#![expect(clippy::disallowed_methods, reason = "the store's own directory, which no tool can reach")]

use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::store::objects::{ObjectKind, Objects};
use std::collections::HashSet;
use std::path::Path;

/// Counts of a store.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StoreStats {
    pub(crate) objects: u64,
    pub(crate) blobs: u64,
    pub(crate) packs: u64,
    pub(crate) loose: u64,
    pub(crate) bytes: u64,
}

/// Start of the names in a version 2 pack index: magic, version, fan-out.
const IDX_NAMES: usize = 8 + 256 * 4;

pub(crate) fn count(store: &Path, objects: &Objects) -> Result<StoreStats> {
    let mut stats = StoreStats::default();
    let mut ids = HashSet::new();
    for entry in walkdir::WalkDir::new(store).follow_links(false) {
        // A temporary file that vanished between listing and looking is no fault of the store.
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        stats.bytes += metadata.len();
        let name = entry.file_name().to_string_lossy();
        let directory = entry.path().parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let directory = directory.unwrap_or_default();
        if directory == "pack" && name.ends_with(".idx") {
            stats.packs += 1;
            let index = std::fs::read(entry.path()).map_err(|error| Error::io(&error, "reading the store"))?;
            let total = index.get(IDX_NAMES - 4..IDX_NAMES).and_then(|bytes| bytes.try_into().ok());
            let total = usize::try_from(total.map_or(0, u32::from_be_bytes)).unwrap_or_default();
            let names = index
                .get(IDX_NAMES..IDX_NAMES + total * 20)
                .ok_or_else(|| Error::new(ErrorKind::StoreCorrupt, "a pack index is shorter than it says"))?;
            ids.extend(names.chunks_exact(20).filter_map(|id| id.try_into().ok().map(ObjectId)));
        } else if directory.len() == 2
            && name.len() == 38
            && let Ok(id) = format!("{directory}{name}").parse()
        {
            stats.loose += 1;
            ids.insert(id);
        }
    }
    stats.objects = ids.len() as u64;
    for id in ids {
        if objects.header(&id)?.0 == ObjectKind::Blob {
            stats.blobs += 1;
        }
    }
    Ok(stats)
}
