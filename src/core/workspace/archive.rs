//! A subtree as a tar archive, and back.
//!
//! An archive is somebody else's word: it is read whole into a tree before anything is written, and one
//! entry that points out of the workspace, or that a tree cannot hold, refuses all of it.

use super::Workspace;
use super::changing::Said;
use super::writes::check_depth;
use crate::core::cancel::Work;
use crate::core::content::Content;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail::refuse_reserved;
use crate::core::path::WsPath;
use crate::core::store::record::MutationKind;
use crate::core::tree::diff::diff;
use crate::core::tree::resolve::Follow;
use crate::core::tree::{DIRECTORY_MODE, Entry, Kind, Tree};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Files up to this size stay in memory while an archive is read; larger ones are kept in the store.
const SMALL_BYTES: u64 = 1 << 20;

impl Workspace {
    /// Writes the entry at `path` of a checkpoint (or of the present state) as a tar archive; a directory
    /// with what it holds, names relative to it.
    pub fn export(&self, path: &[u8], reference: Option<&str>, out: &mut dyn Write, work: &Work) -> Result<()> {
        let path = self.past_path(path)?;
        let Some(entry) = self.tree_at(reference, work)?.get(&path)? else {
            if reference.is_none() {
                self.say_why_left_out(&path)?;
            }
            return Err(Error::new(ErrorKind::FileNotFound, "no such file or directory").at(&path));
        };
        let mut builder = tar::Builder::new(out);
        match &entry {
            Entry::Directory { tree, .. } => add_all(&mut builder, tree, &WsPath::root(), work)?,
            entry => {
                let name = path.name().map(WsPath::new).transpose()?.unwrap_or_else(WsPath::root);
                add(&mut builder, &name, entry)?;
            }
        }
        builder.finish().map_err(|error| Error::io(&error, "writing the archive"))
    }

    /// Fails for an entry that is there and yet in no tree: a special file, one nobody may read, one that is ignored.
    fn say_why_left_out(&self, path: &WsPath) -> Result<()> {
        match self.files().lookup(path, Follow::No) {
            Ok(Some((_, info))) if info.kind == Kind::Directory => drop(self.files().directory(path)?.list()?),
            Ok(Some(_)) => drop(self.files().open(path)?),
            _ => return Ok(()),
        }
        Err(Error::new(ErrorKind::FileNotFound, "what is ignored is in no archive").at(path))
    }

    /// Unpacks a tar archive below `path`, all of it or nothing; existing files of the same names are
    /// replaced. Returns the number of entries.
    pub fn import(&self, archive: &mut dyn Read, path: &[u8], author: Option<&str>, work: &Work) -> Result<u64> {
        let base = self.path(path)?;
        let mut changing = self.change(work)?;
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        let mut incoming = Tree::default();
        let mut count = 0;
        let damaged =
            |error: &std::io::Error| Error::io(error, "reading the archive").with_kind(ErrorKind::InvalidArgument);
        let mut archive = tar::Archive::new(archive);
        for entry in archive.entries().map_err(|error| damaged(&error))? {
            work.check()?;
            let mut entry = entry.map_err(|error| damaged(&error))?;
            let header = entry.header().clone();
            let name = entry.path_bytes().into_owned();
            if name.starts_with(b"/") {
                return Err(Error::new(ErrorKind::PathEscape, "the archive holds an absolute path"));
            }
            let inside = WsPath::new(if name.is_empty() { b"." } else { name.as_slice() })?;
            for name in inside.names() {
                refuse_reserved(name).map_err(|error| error.at(&base.join_path(&inside)))?;
            }
            let mode = header.mode().unwrap_or(0o644) & 0o777;
            let made = match header.entry_type() {
                tar::EntryType::Directory => {
                    if inside.is_root() {
                        continue;
                    }
                    let tree = match incoming.get(&inside)? {
                        Some(Entry::Directory { tree, .. }) => tree,
                        _ => Tree::default(),
                    };
                    Entry::Directory { tree, mode }
                }
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    let len = entry.size();
                    let content = if len <= SMALL_BYTES {
                        let mut bytes = Vec::new();
                        entry.read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
                        Content::from_bytes(&bytes)
                    } else {
                        let id = keeper.keep_stream(len, &mut entry, work)?;
                        keeper.content(id, len)
                    };
                    Entry::File { content, mode }
                }
                tar::EntryType::Symlink => {
                    let target = entry.link_name_bytes().map(Cow::into_owned).unwrap_or_default();
                    refuse_outward(&inside, &target)?;
                    Entry::Symlink { target: Arc::from(target) }
                }
                tar::EntryType::Link => {
                    let target = entry.link_name_bytes().map(Cow::into_owned).unwrap_or_default();
                    match incoming.get(&WsPath::new(&target)?)? {
                        Some(file @ Entry::File { .. }) => file,
                        _ => {
                            return Err(Error::new(
                                ErrorKind::PathEscape,
                                "a hard link in the archive leads out of it",
                            )
                            .at(&inside));
                        }
                    }
                }
                tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => continue,
                _ => {
                    return Err(Error::new(ErrorKind::SpecialFile, "the archive holds a device or pipe").at(&inside));
                }
            };
            if inside.is_root() {
                return Err(Error::new(ErrorKind::PathEmpty, "an entry of the archive has no name"));
            }
            make_parents(&mut incoming, &inside)?;
            incoming.insert(&inside, made)?;
            count += 1;
        }
        keeper.finish()?;
        check_depth(&base, &incoming)?;
        let present = changing.capture()?;
        let target = merged(&present.tree, &incoming, &base)?;
        let changes = diff(&present.tree, &target)?;
        if changes.is_empty() {
            return Ok(count);
        }
        let files = self.files();
        files.check_apply(&changes, &present.skipped)?;
        let said = Said::new(MutationKind::Import, author);
        changing.record(&said, changes.clone(), || files.apply(&changes, work))?;
        Ok(count)
    }
}

/// A link that leads out of the archive could be written through by the entries after it, or by the next tool.
fn refuse_outward(at: &WsPath, target: &[u8]) -> Result<()> {
    let mut depth = at.depth().saturating_sub(1);
    let out = || Error::new(ErrorKind::SymlinkEscape, "a link in the archive leads out of it").at(at);
    if target.is_empty() || target.starts_with(b"/") {
        return Err(out());
    }
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or_else(out)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

fn make_parents(tree: &mut Tree, path: &WsPath) -> Result<()> {
    let mut at = WsPath::root();
    for name in path.parent().names() {
        at = at.join(name);
        match tree.get(&at)? {
            Some(Entry::Directory { .. }) => {}
            None => tree.insert(&at, Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE })?,
            // A file or link beneath which the archive goes on: nothing honest looks like this.
            Some(_) => {
                return Err(Error::new(ErrorKind::NotADirectory, "the archive goes on below a file or link").at(&at));
            }
        }
    }
    Ok(())
}

/// The present tree with `incoming` laid over it at `base`.
fn merged(present: &Tree, incoming: &Tree, base: &WsPath) -> Result<Tree> {
    let mut tree = present.clone();
    if !base.is_root() {
        make_parents(&mut tree, &base.join(b"x"))?;
    }
    lay(&mut tree, incoming, base)?;
    Ok(tree)
}

fn lay(tree: &mut Tree, incoming: &Tree, at: &WsPath) -> Result<()> {
    for (name, entry) in incoming.entries()? {
        let path = at.join(name.as_bytes());
        match (tree.get(&path)?, entry) {
            (Some(Entry::Directory { .. }), Entry::Directory { tree: inside, .. }) => lay(tree, inside, &path)?,
            // As with every write: a directory is not replaced by accident, nor by one.
            (Some(Entry::Directory { .. }), _) => {
                return Err(
                    Error::new(ErrorKind::IsADirectory, "the archive holds a file where a directory is").at(&path)
                );
            }
            (Some(_), Entry::Directory { .. }) => {
                return Err(
                    Error::new(ErrorKind::NotADirectory, "the archive holds a directory where none is").at(&path)
                );
            }
            _ => tree.insert(&path, entry.clone())?,
        }
    }
    Ok(())
}

fn add_all(builder: &mut tar::Builder<&mut dyn Write>, tree: &Tree, at: &WsPath, work: &Work) -> Result<()> {
    for (name, entry) in tree.entries()? {
        work.check()?;
        let path = at.join(name.as_bytes());
        add(builder, &path, entry)?;
        work.advance(entry.len());
        if let Entry::Directory { tree, .. } = entry {
            add_all(builder, tree, &path, work)?;
        }
    }
    Ok(())
}

fn add(builder: &mut tar::Builder<&mut dyn Write>, path: &WsPath, entry: &Entry) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(&error, "writing the archive").at(path);
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode());
    header.set_mtime(0);
    header.set_size(0);
    let host = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
    match entry {
        Entry::File { content, .. } => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(content.len());
            builder.append_data(&mut header, host, content.reader()).map_err(failed)
        }
        Entry::Symlink { target } => {
            header.set_entry_type(tar::EntryType::Symlink);
            builder.append_link(&mut header, host, Path::new(std::ffi::OsStr::from_bytes(target))).map_err(failed)
        }
        Entry::Directory { .. } => {
            header.set_entry_type(tar::EntryType::Directory);
            builder.append_data(&mut header, host, std::io::empty()).map_err(failed)
        }
    }
}
