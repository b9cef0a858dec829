//! One entry of the directory, or where one will be.

use super::scan::{FileReader, Scan};
use super::{Disk, info, key};
use crate::core::cancel::Work;
use crate::core::content::Content;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail::{self, Replace};
use crate::core::fs::{Keeper, Place, PutMode};
use crate::core::path::WsPath;
use crate::core::tree::ignore::IgnoreRules;
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::Info;
use crate::core::tree::{Entry, Kind};
use std::sync::Arc;

/// What stood at a place is carried in the record up to this size; more goes to the store first.
const CARRIED_BYTES: u64 = 1 << 20;

impl Disk {
    /// Finds the deepest directory on the way to `path` that is there, and what is missing below it.
    pub(super) fn missing_parents(&self, path: &WsPath) -> Result<(WsPath, Vec<WsPath>)> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let nowhere = |at: &WsPath| Error::new(ErrorKind::DirectoryNotFound, "a link that leads nowhere").at(at);
        if self.jail.lookup(path, Follow::No).is_ok_and(|found| found.is_some()) {
            return Err(nowhere(path));
        }
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
                return Err(nowhere(&at));
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
pub(super) struct DiskPlace<'a> {
    pub(super) disk: &'a Disk,
    pub(super) path: WsPath,
    pub(super) missing: Vec<WsPath>,
    pub(super) place: Option<jail::Place>,
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
                let index = self.disk.index.read();
                let nothing_ignored = IgnoreRules::none();
                let scanned = Scan::run(place.open_dir()?, &self.path, None, &index, &nothing_ignored, keeper, work)?;
                // What cannot be kept must not be removed: it could not be brought back.
                if let Some(lost) = scanned.skipped.iter().find(|skipped| skipped.reason == "unreadable") {
                    return Err(Error::new(
                        ErrorKind::PermissionDenied,
                        "cannot be read, so it could not be brought back",
                    )
                    .at(&lost.path));
                }
                Some(Entry::Directory { tree: scanned.tree, mode })
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
