//! Making a directory what a list of changes says.

use super::place::DiskPlace;
use super::{Disk, is_gone, key, sweep};
use crate::core::cancel::Work;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail::{self, Stat};
use crate::core::fs::{Place, PutMode, file_id};
use crate::core::path::WsPath;
use crate::core::tree::diff::Change;
use crate::core::tree::resolve::Follow;
use crate::core::tree::{Entry, Kind};
use std::collections::BTreeMap;

/// One application of changes.
///
/// Order: what goes, deepest first; then what comes, directories before what they hold; then the modes
/// of directories, deepest first, because a directory may be one that nobody may write in.
pub(super) struct Apply<'a> {
    disk: &'a Disk,
    work: &'a Work,
    /// Directories given a writable mode for the while, with the mode they get back.
    opened: BTreeMap<WsPath, u32>,
}

impl<'a> Apply<'a> {
    pub(super) fn new(disk: &'a Disk, work: &'a Work) -> Self {
        Apply { disk, work, opened: BTreeMap::new() }
    }

    pub(super) fn run(mut self, changes: &[Change]) -> Result<()> {
        let result = self.change(changes);
        let mut modes = std::mem::take(&mut self.opened);
        if result.is_ok() {
            for change in changes {
                if let Some(Entry::Directory { mode, .. }) = &change.after {
                    modes.insert(change.path.clone(), *mode);
                }
            }
        }
        let mut first = result;
        for (path, mode) in modes.iter().rev() {
            // All of them, as far as it goes; the first error is the one to tell.
            match self.give_mode(path, *mode) {
                Err(error) if first.is_ok() && !is_gone(&error) => first = Err(error),
                _ => {}
            }
        }
        first
    }

    /// Sets the mode of a directory; what took its place meanwhile has a mode of its own.
    fn give_mode(&self, path: &WsPath, mode: u32) -> Result<()> {
        let place = self.place(path)?;
        match place.stat()? {
            Some(stat) if stat.kind == Kind::Directory => place.chmod(mode),
            _ => Ok(()),
        }
    }

    fn change(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes.iter().rev() {
            let leaves = match (&change.before, &change.after) {
                (Some(_), None) => true,
                (Some(before), Some(after))
                    if (before.kind() == Kind::Directory) != (after.kind() == Kind::Directory) =>
                {
                    // Not if it is of the new kind already: an interrupted application is being finished.
                    let there = self.disk.jail.lookup(&change.path, Follow::No)?;
                    let here = there.filter(|(real, _)| *real == change.path);
                    here.is_some_and(|(_, stat)| (stat.kind == Kind::Directory) != (after.kind() == Kind::Directory))
                }
                _ => false,
            };
            if leaves {
                self.take_away(change)?;
            }
        }
        for change in changes {
            match (&change.before, &change.after) {
                (_, None) | (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => {}
                (_, Some(Entry::Directory { .. })) => {
                    let (disk, work) = (self.disk, self.work);
                    self.at(&change.path, &|place| match place.stat()? {
                        Some(stat) if stat.kind == Kind::Directory => Ok(()),
                        Some(_) => {
                            check_unchanged(disk, place, change, work)?;
                            place.remove_file()?;
                            place.make_dir(0o777)
                        }
                        None => place.make_dir(0o777),
                    })?;
                }
                (before, Some(after)) => {
                    let only_mode = match (before, after) {
                        (Some(Entry::File { content: a, .. }), Entry::File { content: b, mode }) if a.same(b)? => {
                            Some(*mode)
                        }
                        _ => None,
                    };
                    let (disk, work) = (self.disk, self.work);
                    self.at(&change.path, &|place| {
                        if let Some(mode) = only_mode {
                            return place.chmod(mode);
                        }
                        check_unchanged(disk, place, change, work)?;
                        let path = change.path.clone();
                        DiskPlace { disk, path, missing: vec![], place: Some(place.clone()) }.put(
                            after,
                            PutMode::Restore,
                            work,
                        )
                    })?;
                }
            }
            self.work.advance(change.after.as_ref().map_or(0, Entry::len));
        }
        Ok(())
    }

    fn take_away(&mut self, change: &Change) -> Result<()> {
        let (disk, work) = (self.disk, self.work);
        let result = self.at(&change.path, &|place| match place.stat()? {
            None => Ok(()),
            Some(stat) if stat.kind == Kind::Directory => match place.remove_dir() {
                // Temporary files of writers that died are nobody's.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                    sweep(&place.open_dir()?)?;
                    place.remove_dir()
                }
                result => result,
            },
            Some(_) => {
                check_unchanged(disk, place, change, work)?;
                place.remove_file()
            }
        });
        match result {
            // Gone already, with its directory: an interrupted application is being finished.
            Err(error) if is_gone(&error) || error.kind() == ErrorKind::NotADirectory => Ok(()),
            result => result,
        }
    }

    /// Goes to a path without following any link: one that took the place of a directory leads elsewhere.
    fn place(&self, path: &WsPath) -> Result<jail::Place> {
        let in_the_way = || Error::new(ErrorKind::NotADirectory, "a link stands where a directory should be").at(path);
        match self.disk.jail.place(path, Follow::No) {
            Ok(place) if place.path() == *path => Ok(place),
            Ok(_) => Err(in_the_way()),
            Err(error) if matches!(error.kind(), ErrorKind::SymlinkEscape | ErrorKind::SymlinkLoop) => {
                Err(in_the_way())
            }
            Err(error) => Err(error),
        }
    }

    /// Does something at a place whose directory may refuse to be written in, and is then opened for the while.
    fn at(&mut self, path: &WsPath, act: &dyn Fn(&jail::Place) -> Result<()>) -> Result<()> {
        let place = match self.place(path) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.open_up(&path.parent())?;
                self.place(path)?
            }
            place => place?,
        };
        match act(&place) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && self.open_up(&path.parent())? => act(&place),
            result => result,
        }
    }

    /// Gives the owner access to the directories on the way; `false` if they had it.
    fn open_up(&mut self, directory: &WsPath) -> Result<bool> {
        let mut opened = false;
        let mut at = WsPath::root();
        for name in directory.names() {
            at = at.join(name);
            let Ok(place) = self.place(&at) else { break };
            let Some(stat) = place.stat()? else { break };
            let mode = stat.mode & 0o777;
            if mode & 0o700 != 0o700 {
                place.chmod(mode | 0o700)?;
                self.opened.entry(at.clone()).or_insert(mode);
                opened = true;
            }
        }
        Ok(opened)
    }
}

/// Fails if a file or link stands at a place that is neither what was found there when the changes were listed
/// nor what they bring: somebody wrote it since, and it is kept nowhere. Directories need no look: one that is
/// not empty is not removed.
fn check_unchanged(disk: &Disk, place: &jail::Place, change: &Change, work: &Work) -> Result<()> {
    let Some(stat) = place.stat()? else { return Ok(()) };
    if stat.kind == Kind::Directory {
        return Ok(());
    }
    for entry in [&change.before, &change.after].into_iter().flatten() {
        let same = match entry {
            Entry::File { content, .. } if stat.kind == Kind::File => {
                // Of contents that records do not keep nobody can tell.
                content.is_unknown()
                    || (content.len() == stat.size && content.id()? == id_of(disk, place, &stat, work)?)
            }
            Entry::Symlink { target } if stat.kind == Kind::Symlink => place.read_link()? == **target,
            _ => false,
        };
        if same {
            return Ok(());
        }
    }
    Err(Error::new(ErrorKind::UncheckpointedChanges, "somebody changes this entry right now")
        .at(&change.path)
        .with_hint("Retry: what was written meanwhile is kept first; ignore what is written all the time."))
}

/// Names the bytes of a file; what the last capture read and is as it was is not read again.
fn id_of(disk: &Disk, place: &jail::Place, stat: &Stat, work: &Work) -> Result<ObjectId> {
    match disk.index.read().get(&place.path()) {
        Some((known, id)) if known == key(stat) => Ok(id),
        _ => file_id(&place.open_file()?, &place.path(), work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fs::{FileSystem, ResolverChoice};
    use crate::core::tree::Tree;
    use crate::core::tree::ignore::IgnoreRules;
    use std::sync::Arc;

    /// A link put where a directory was, between the moment changes were listed and the moment they are made.
    #[test]
    fn a_link_in_the_place_of_a_directory_is_not_followed() {
        for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path();
            std::fs::create_dir(root.join("other")).unwrap();
            std::fs::write(root.join("other/x"), "precious").unwrap();
            std::os::unix::fs::symlink("other", root.join("d")).unwrap();
            let disk = Disk::open(root, resolver, false, IgnoreRules::none()).unwrap();
            let path = WsPath::new("d/x").unwrap();
            let file = || Some(Entry::file(b"old", 0o644));
            let change = |before, after| Change { path: path.clone(), source: None, before, after };
            let error = disk.apply(&[change(None, file())], &Work::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotADirectory);
            // To be taken away there is nothing.
            disk.apply(&[change(file(), None)], &Work::default()).unwrap();
            assert_eq!(std::fs::read(root.join("other/x")).unwrap(), b"precious");
        }
    }

    /// A file or link written between the moment changes were listed and the moment they are made.
    #[test]
    fn case_l_what_was_written_meanwhile_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let disk = Disk::open(root, ResolverChoice::Auto, false, IgnoreRules::none()).unwrap();
        let file = |bytes: &[u8]| Some(Entry::file(bytes, 0o644));
        let link = || Some(Entry::Symlink { target: Arc::from(&b"there"[..]) });
        let directory = || Some(Entry::Directory { tree: Tree::default(), mode: 0o755 });
        let apply = |before: Option<Entry>, after: Option<Entry>| {
            let change = Change { path: WsPath::new("f").unwrap(), source: None, before, after };
            disk.apply(&[change], &Work::default())
        };
        for before in [file(b"old"), file(b"older"), link(), None] {
            for after in [file(b"new"), link(), directory(), None] {
                if before.is_none() && after.is_none() {
                    continue;
                }
                std::fs::write(root.join("f"), "hers").unwrap();
                let error = apply(before.clone(), after.clone()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UncheckpointedChanges, "{before:?} {after:?}");
                assert_eq!(std::fs::read(root.join("f")).unwrap(), b"hers");
            }
        }
        std::fs::remove_file(root.join("f")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join("f")).unwrap();
        assert_eq!(apply(link(), file(b"new")).unwrap_err().kind(), ErrorKind::UncheckpointedChanges);
        std::fs::remove_file(root.join("f")).unwrap();
        // Done in part already, which is found by a recovery.
        for there in ["old", "new"] {
            std::fs::write(root.join("f"), there).unwrap();
            apply(file(b"old"), file(b"new")).unwrap();
            assert_eq!(std::fs::read(root.join("f")).unwrap(), b"new");
        }
    }
}
