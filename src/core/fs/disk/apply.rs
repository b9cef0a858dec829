//! Making a directory what a list of changes says.

use super::place::DiskPlace;
use super::{Disk, is_gone, sweep};
use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail;
use crate::core::fs::{Place, PutMode};
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
                self.take_away(&change.path)?;
            }
        }
        for change in changes {
            match (&change.before, &change.after) {
                (_, None) | (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => {}
                (_, Some(Entry::Directory { .. })) => {
                    self.at(&change.path, &|place| match place.stat()? {
                        Some(stat) if stat.kind == Kind::Directory => Ok(()),
                        Some(_) => {
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
                    self.at(&change.path, &|place| match only_mode {
                        Some(mode) => place.chmod(mode),
                        None => {
                            DiskPlace { disk, path: change.path.clone(), missing: vec![], place: Some(place.clone()) }
                                .put(after, PutMode::Restore, work)
                        }
                    })?;
                }
            }
            self.work.advance(change.after.as_ref().map_or(0, Entry::len));
        }
        Ok(())
    }

    fn take_away(&mut self, path: &WsPath) -> Result<()> {
        let result = self.at(path, &|place| match place.stat()? {
            None => Ok(()),
            Some(stat) if stat.kind == Kind::Directory => match place.remove_dir() {
                // Temporary files of writers that died are nobody's.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                    sweep(&place.open_dir()?)?;
                    place.remove_dir()
                }
                result => result,
            },
            Some(_) => place.remove_file(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fs::{FileSystem, ResolverChoice};
    use crate::core::tree::ignore::IgnoreRules;

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
}
