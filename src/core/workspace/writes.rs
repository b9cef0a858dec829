//! Tracked writes: each one record, each atomic by itself.

use super::changing::{Changing, Said};
use super::{Files, Workspace};
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::jail::refuse_reserved;
use crate::core::fs::{Keeper, Place, PutMode};
use crate::core::path::{RawPath, WsPath};
use crate::core::store::past::Past;
use crate::core::store::record::{MutationKind, NotKept};
use crate::core::text;
use crate::core::tree::diff::{Change, expand};
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::Info;
use crate::core::tree::{DIRECTORY_MODE, Entry, FILE_MODE, Kind, MAX_DEPTH, Tree};
use std::io::Read;
use std::sync::Arc;

/// Lines of a diff an edit answers with.
const EDIT_DIFF_LINES: usize = 200;

/// How a file is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// Make missing directories.
    pub parents: bool,
    /// Refuse to replace anything.
    pub create_only: bool,
    /// Refuse unless the present content has this id.
    pub if_hash: Option<ObjectId>,
    /// Who writes.
    pub author: Option<&'a str>,
}

/// How text is replaced.
#[derive(Debug, Clone, Copy)]
pub struct EditOptions<'a> {
    /// Occurrences required; `None` for all, at least one.
    pub count: Option<usize>,
    /// Refuse unless the present content has this id.
    pub if_hash: Option<ObjectId>,
    /// Encoding of the file, if it is not found out by itself.
    pub encoding: Option<&'a str>,
    /// Who edits.
    pub author: Option<&'a str>,
}

/// What an edit did.
#[derive(Debug, Clone, serde::Serialize)]
pub struct EditOutcome {
    /// The file.
    pub path: WsPath,
    /// Its content now.
    pub id: ObjectId,
    /// Occurrences replaced.
    pub replaced: usize,
    /// 1-based line of the first one.
    pub line: usize,
    /// Unified diff, at most [`EDIT_DIFF_LINES`] lines.
    pub diff: String,
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// Whether the diff was cut.
    pub truncated: bool,
}

fn directory(mode: u32) -> Entry {
    Entry::Directory { tree: Tree::default(), mode }
}

impl Workspace {
    /// The path of an entry that will be written; the root is none.
    fn target(&self, text: &[u8], may_be_dir: bool) -> Result<WsPath> {
        // Said before anything is looked at: a read handle tells nothing about what it refuses.
        self.check_writable()?;
        let (path, must_be_dir) = self.parse(text)?;
        if path.is_root() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the root of the workspace cannot be written, moved or removed",
            )
            .at(&path));
        }
        path.name().map_or(Ok(()), refuse_reserved).map_err(|error| error.at(&path))?;
        if !may_be_dir && must_be_dir {
            return Err(Error::new(ErrorKind::IsADirectory, "the path names a directory").at(&path));
        }
        Ok(path)
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// `is-a-directory`, `special-file`, `directory-not-found` without `parents`, `file-exists` with
    /// `create_only`, `stale-content`, and what the path itself can be refused for.
    pub fn write(
        &self,
        path: &[u8],
        content: impl Into<Content>,
        options: WriteOptions<'_>,
        work: &Work,
    ) -> Result<u64> {
        let kind = if options.create_only { MutationKind::Create } else { MutationKind::Write };
        let (_, content) = self.rewrite(path, kind, options, work, |_, _| Ok(content.into()))?;
        Ok(content.len())
    }

    /// Writes a whole text in the encoding of the file that stands there, for who was shown it decoded.
    pub fn write_shown(&self, path: &[u8], text: &str, options: WriteOptions<'_>, work: &Work) -> Result<u64> {
        let kind = if options.create_only { MutationKind::Create } else { MutationKind::Write };
        let (_, content) = self.rewrite(path, kind, options, work, |before, _| {
            let head =
                before.map(|present| present.read(0..text::BINARY_PROBE as u64)).transpose()?.unwrap_or_default();
            Ok(Content::from_owner(text::edit::encode_as(&head, text)))
        })?;
        Ok(content.len())
    }

    /// Adds bytes at the end of a file, making it if there is none.
    ///
    /// The file is replaced, as by every write: a second name of it keeps the old bytes.
    pub fn append(&self, path: &[u8], bytes: &[u8], options: WriteOptions<'_>, work: &Work) -> Result<u64> {
        self.rewrite(path, MutationKind::Append, options, work, |before, past| {
            let Some(content) = before else { return Ok(Content::from_bytes(bytes)) };
            if let Some(present) = content.in_memory() {
                return Ok(Content::from_owner([present, bytes].concat()));
            }
            // Not in memory, so too large for it: the new content flows into the store, and from there to its place.
            let len = content.len() + bytes.len() as u64;
            let keeper = past.keeper();
            let id = keeper.keep_stream(len, &mut content.reader().chain(bytes), work)?;
            keeper.finish()?;
            Ok(keeper.content(id, len))
        })?;
        Ok(bytes.len() as u64)
    }

    /// Replaces exact text in a file; see [`text::edit`].
    pub fn edit(
        &self,
        path: &[u8],
        old: &str,
        new: &str,
        options: EditOptions<'_>,
        work: &Work,
    ) -> Result<EditOutcome> {
        let mut outcome = None;
        let write =
            WriteOptions { parents: false, create_only: false, if_hash: options.if_hash, author: options.author };
        let (at, content) = self.rewrite(path, MutationKind::Edit, write, work, |before, _| {
            let Some(before) = before else { return Err(Error::new(ErrorKind::FileNotFound, "no such file")) };
            if before.len() > text::edit::MAX_BYTES as u64 {
                return Err(Error::new(ErrorKind::FileTooLarge, "the file is too large to be edited as text"));
            }
            let bytes = before.read_all()?;
            let edited = match options.encoding {
                Some(encoding) => text::edit::edit_encoded(&bytes, old, new, options.count, encoding)?,
                None => text::edit::edit(&bytes, old, new, options.count)?,
            };
            let content = Content::from_bytes(&edited.bytes);
            outcome = Some((edited, bytes));
            Ok(content)
        })?;
        let Some((edited, before)) = outcome else {
            return Err(Error::new(ErrorKind::Bug, "an edit ended without a result"));
        };
        let changes = text::diff::diff(&before, &edited.bytes, 3);
        let side = || Some(text::diff::Side { path: &at, mode: 0o100_644 });
        let shown = String::from_utf8_lossy(&text::diff::unified(side(), side(), &changes)).into_owned();
        let lines: Vec<&str> = shown.split_inclusive('\n').collect();
        Ok(EditOutcome {
            path: at,
            id: content.id()?,
            replaced: edited.replaced,
            line: edited.first_line,
            diff: lines.iter().take(EDIT_DIFF_LINES).copied().collect(),
            additions: changes.additions,
            deletions: changes.deletions,
            truncated: lines.len() > EDIT_DIFF_LINES,
        })
    }

    /// The one way a file gets new bytes: lock, look, decide, record, replace.
    fn rewrite(
        &self,
        text: &[u8],
        kind: MutationKind,
        options: WriteOptions<'_>,
        work: &Work,
        decide: impl FnOnce(Option<&Content>, &dyn Past) -> Result<Content>,
    ) -> Result<(WsPath, Content)> {
        let path = self.target(text, false)?;
        let mut changing = self.change(work)?;
        let follow = if options.create_only { Follow::No } else { Follow::Yes };
        let place = self.files().place(&path, follow).map_err(root_is_a_directory)?;
        let info = place.info()?;
        match info.map(|info| info.kind) {
            Some(_) if options.create_only => return Err(exists(&path)),
            Some(Kind::Directory) => return Err(Error::new(ErrorKind::IsADirectory, "is a directory").at(&path)),
            Some(kind) => kind.refuse_special().map_err(|error| error.at(&path))?,
            None => {}
        }
        let keeper = changing.past.keeper();
        let before = place.before(keeper.as_ref(), work)?;
        // What was too large to carry can be read again from here on.
        keeper.finish()?;
        let present = match &before {
            Some(Entry::File { content, .. }) => Some(content),
            _ => None,
        };
        if let Some(wanted) = options.if_hash {
            let stale = match present {
                Some(content) => content.id()? != wanted,
                None => true,
            };
            if stale {
                return Err(Error::new(ErrorKind::StaleContent, "the file changed since it was read").at(&path));
            }
        }
        let content = decide(present, changing.past.as_ref()).map_err(|error| error.at(&path))?;
        changing.ensure_baseline()?;
        let mode = before.as_ref().map_or(FILE_MODE, Entry::mode);
        let after = Entry::File { content: content.clone(), mode };
        let put = if options.create_only { PutMode::Create } else { PutMode::Write };
        let said = Said { through: self.link_at(&path, place.as_ref())?, ..Said::new(kind, options.author) };
        // Through a link the change is that of the file behind it; the record tells of the link too.
        changing.put(&said, place, before, &after, put, options.parents)?;
        Ok((path, content))
    }

    /// Tells which link a write to `path` goes through: the one standing there, if the place is another.
    fn link_at(&self, path: &WsPath, place: &dyn Place) -> Result<Option<WsPath>> {
        if place.path() == path {
            return Ok(None);
        }
        let found = self.files().lookup(path, Follow::No)?;
        Ok(found.filter(|(_, info)| info.kind == Kind::Symlink).map(|(link, _)| link))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `file-exists` (unless `exist_ok` and it is a directory), `directory-not-found` without `parents`,
    /// `not-a-directory` if a file is in the way.
    pub fn mkdir(&self, path: &[u8], parents: bool, exist_ok: bool, author: Option<&str>, work: &Work) -> Result<()> {
        self.check_writable()?;
        let path = self.path(path)?;
        if path.is_root() {
            return if exist_ok { Ok(()) } else { Err(exists(&path)) };
        }
        let mut changing = self.change(work)?;
        if self.files().lookup(&path, Follow::Yes)?.is_some_and(|(_, info)| info.kind == Kind::Directory) {
            return if exist_ok { Ok(()) } else { Err(exists(&path)) };
        }
        let place = self.files().place(&path, Follow::Yes)?;
        if place.info()?.is_some() {
            return Err(exists(&path));
        }
        changing.ensure_baseline()?;
        let said = Said::new(MutationKind::Mkdir, author);
        changing.put(&said, place, None, &directory(DIRECTORY_MODE), PutMode::Create, parents)
    }

    /// Makes a symbolic link. Where it leads is not looked at: following it later is what the jail guards.
    pub fn symlink(&self, path: &[u8], target: &[u8], parents: bool, author: Option<&str>, work: &Work) -> Result<()> {
        let path = self.target(path, false)?;
        if target.is_empty() || target.contains(&0) || target.len() > crate::core::path::MAX_PATH_BYTES {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "a link target is 1 to 4095 bytes without null").at(&path)
            );
        }
        let mut changing = self.change(work)?;
        let place = self.files().place(&path, Follow::No)?;
        if place.info()?.is_some() {
            return Err(exists(&path));
        }
        changing.ensure_baseline()?;
        let said = Said::new(MutationKind::Symlink, author);
        changing.put(&said, place, None, &Entry::Symlink { target: Arc::from(target) }, PutMode::Create, parents)
    }

    /// Makes `path` a second name of the file `source`. A later write through either name parts them.
    pub fn hardlink(&self, source: &[u8], path: &[u8], author: Option<&str>, work: &Work) -> Result<()> {
        let source = self.target(source, true)?;
        let path = self.target(path, false)?;
        let mut changing = self.change(work)?;
        let from = self.files().place(&source, Follow::No)?;
        match from.info()?.map(|info| info.kind) {
            None => return Err(missing(&source)),
            Some(Kind::Directory) => {
                return Err(
                    Error::new(ErrorKind::PermissionDenied, "a directory cannot have a second name").at(&source)
                );
            }
            Some(_) => {}
        }
        let to = self.files().place(&path, Follow::No)?;
        require_parents(to.as_ref(), false)?;
        if to.info()?.is_some() {
            return Err(exists(&path));
        }
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        let after = from.before(keeper.as_ref(), work)?;
        keeper.finish()?;
        let (from, to) = (from.path().clone(), to.path().clone());
        let change = Change { path: to.clone(), source: Some(from.clone()), before: None, after };
        let said = Said { source: Some(from.clone()), ..Said::new(MutationKind::Hardlink, author) };
        changing.record(&said, vec![change], || self.files().hard_link(&from, &to))
    }

    /// Changes the permission bits of a file or directory, through links inside.
    pub fn chmod(&self, path: &[u8], mode: u32, author: Option<&str>, work: &Work) -> Result<()> {
        let path = self.target(path, true)?;
        if mode & !0o777 != 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "only the permission bits 0777 can be set").at(&path));
        }
        let mut changing = self.change(work)?;
        let place = self.files().place(&path, Follow::Yes)?;
        let Some(info) = place.info()? else { return Err(missing(&path)) };
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        let (before, after) = match info.kind {
            Kind::Directory => (Some(directory(info.mode & 0o777)), directory(mode)),
            Kind::File => match unkept(place.as_ref(), keeper.as_ref(), info, work)? {
                Some(Entry::File { content, mode: old }) => {
                    (Some(Entry::File { content: content.clone(), mode: old }), Entry::File { content, mode })
                }
                _ => return Err(missing(&path)),
            },
            _ => return Err(Error::new(ErrorKind::SpecialFile, "only files and directories have a mode").at(&path)),
        };
        keeper.finish()?;
        let change = Change { path: place.path().clone(), source: None, before, after: Some(after) };
        let said = Said::new(MutationKind::Chmod, author);
        changing.record(&said, vec![change], || place.set_mode(mode))
    }

    /// Removes an entry; of a link, the link itself.
    ///
    /// # Errors
    /// `file-not-found` unless `missing_ok`, `directory-not-empty` unless `recursive`.
    pub fn remove(
        &self,
        path: &[u8],
        recursive: bool,
        missing_ok: bool,
        author: Option<&str>,
        work: &Work,
    ) -> Result<()> {
        let path = self.target(path, true)?;
        let mut changing = self.change(work)?;
        let place = match self.files().place(&path, Follow::No) {
            Ok(place) => place,
            Err(error) if missing_ok && error.kind() == ErrorKind::NotADirectory => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(info) = place.info()? else {
            return if missing_ok { Ok(()) } else { Err(missing(&path)) };
        };
        if info.kind == Kind::Directory && !recursive && !self.files().directory(place.path())?.list()?.is_empty() {
            return Err(Error::new(ErrorKind::DirectoryNotEmpty, "the directory is not empty").at(&path));
        }
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        let before = place.before(keeper.as_ref(), work)?;
        keeper.finish()?;
        let change = Change { path: place.path().clone(), source: None, before, after: None };
        let said = Said::new(MutationKind::Remove, author);
        changing.record(&said, vec![change], || place.remove(work))
    }

    /// Removes every entry of a workspace in memory.
    pub fn clear(&self, author: Option<&str>, work: &Work) -> Result<()> {
        let mut changing = self.change(work)?;
        let Files::Memory(memory) = &self.inner.files else {
            return Err(Error::new(ErrorKind::NotSupported, "only a workspace in memory can be cleared")
                .with_hint("Remove the entries one by one; a directory on disk is not emptied in one call."));
        };
        changing.ensure_baseline()?;
        let root = WsPath::root();
        let changes = memory
            .tree()
            .entries()?
            .iter()
            .map(|(name, entry)| Change {
                path: root.join(name.as_bytes()),
                source: None,
                before: Some(entry.clone()),
                after: None,
            })
            .collect();
        let said = Said::new(MutationKind::Clear, author);
        changing.record(&said, changes, || {
            memory.set_tree(Tree::default());
            Ok(())
        })
    }

    /// Copies a file, a link (as a link) or, with `recursive`, a directory.
    ///
    /// # Errors
    /// `is-a-directory` without `recursive`, `file-exists` without `overwrite`, `invalid-argument` into itself.
    pub fn copy(&self, source: &[u8], destination: &[u8], options: TransferOptions<'_>, work: &Work) -> Result<()> {
        let from = self.target(source, true)?;
        let to = self.target(destination, true)?;
        let directory_wanted = RawPath::parse(destination)?.must_be_dir;
        let mut changing = self.change(work)?;
        let from = self.files().place(&from, Follow::No)?;
        let Some(info) = from.info()? else { return Err(missing(from.path())) };
        if info.kind.is_special() {
            return Err(Error::new(ErrorKind::SpecialFile, format!("a {} cannot be copied", info.kind.as_str()))
                .at(from.path()));
        }
        if info.kind == Kind::Directory && !options.recursive {
            return Err(Error::new(ErrorKind::IsADirectory, "is a directory")
                .at(from.path())
                .with_hint("Ask for recursive copying to copy a directory."));
        }
        let to = self.files().place(&to, Follow::No)?;
        check_destination(self, from.as_ref(), info, to.as_ref(), options.overwrite)?;
        if from.path() == to.path() {
            return Err(exists(to.path()));
        }
        if directory_wanted && info.kind != Kind::Directory {
            return Err(not_a_directory(to.path()));
        }
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        let after = from.before(keeper.as_ref(), work)?.ok_or_else(|| missing(from.path()))?;
        let before = to.before(keeper.as_ref(), work)?;
        keeper.finish()?;
        let source = from.path().clone();
        let said = Said { source: Some(source), ..Said::new(MutationKind::Copy, options.author) };
        changing.put(&said, to, before, &after, PutMode::Restore, options.parents)
    }

    /// Moves an entry. Onto itself is nothing, and no record.
    ///
    /// # Errors
    /// `file-exists` without `overwrite`, `directory-not-empty`, `invalid-argument` into itself.
    pub fn rename(&self, source: &[u8], destination: &[u8], options: TransferOptions<'_>, work: &Work) -> Result<()> {
        let from = self.target(source, true)?;
        let to = self.target(destination, true)?;
        let directory_wanted = RawPath::parse(destination)?.must_be_dir;
        let mut changing = self.change(work)?;
        let from = self.files().place(&from, Follow::No)?;
        let Some(info) = from.info()? else { return Err(missing(from.path())) };
        let mut to = self.files().place(&to, Follow::No)?;
        if from.path() == to.path() {
            return Ok(());
        }
        check_destination(self, from.as_ref(), info, to.as_ref(), options.overwrite)?;
        if directory_wanted && info.kind != Kind::Directory {
            return Err(not_a_directory(to.path()));
        }
        require_parents(to.as_ref(), options.parents)?;
        changing.ensure_baseline()?;
        let keeper = changing.past.keeper();
        if matches!(self.inner.files, Files::Memory(_))
            && let Some(Entry::Directory { tree, .. }) = from.before(keeper.as_ref(), work)?
        {
            check_depth(to.path(), &tree)?;
        }
        let before = to.before(keeper.as_ref(), work)?;
        let after = match info.kind {
            // Nothing in it changes, so nothing of it has to be kept.
            Kind::Directory => Some(directory(info.mode & 0o777)),
            _ => unkept(from.as_ref(), keeper.as_ref(), info, work)?,
        };
        keeper.finish()?;
        let (from, path) = (from.path().clone(), to.path().clone());
        let mut changes = made(to.as_ref());
        let replaces = before.is_some();
        changes.push(Change { path: path.clone(), source: Some(from.clone()), before, after });
        let said = Said { source: Some(from.clone()), ..Said::new(MutationKind::Move, options.author) };
        let files = self.files();
        changing.record(&said, changes, || {
            to.make_missing()?;
            files.rename(&from, &path, replaces)
        })
    }
}

fn not_a_directory(path: &WsPath) -> Error {
    Error::new(ErrorKind::NotADirectory, "the path names a directory, and what should go there is none")
        .at(path)
        .with_hint("Give the whole new path, with the name of the file at its end.")
}

/// What stands at a place whose bytes stay as they are: if they cannot be read, they need not be kept.
fn unkept(place: &dyn Place, keeper: &dyn Keeper, info: Info, work: &Work) -> Result<Option<Entry>> {
    match place.before(keeper, work) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && info.kind == Kind::File => {
            let content = Content::from_source(info.size, None, Box::new(NotKept));
            Ok(Some(Entry::File { content, mode: info.mode & 0o777 }))
        }
        found => found,
    }
}

/// How an entry is copied or moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransferOptions<'a> {
    /// Replace what stands at the destination.
    pub overwrite: bool,
    /// Copy directories.
    pub recursive: bool,
    /// Make missing directories of the destination.
    pub parents: bool,
    /// Who does it.
    pub author: Option<&'a str>,
}

fn exists(path: &WsPath) -> Error {
    Error::new(ErrorKind::FileExists, "already exists").at(path)
}

/// Refuses what would make the tree deeper than it may be: directories put into others reach further than any path.
pub(super) fn check_depth(path: &WsPath, tree: &Tree) -> Result<()> {
    if !tree.is_deeper_than(MAX_DEPTH.saturating_sub(path.depth()))? {
        return Ok(());
    }
    let message = format!("the tree would be more than {MAX_DEPTH} directories deep");
    Err(Error::new(ErrorKind::PathTooLong, message).at(path))
}

fn missing(path: &WsPath) -> Error {
    Error::new(ErrorKind::FileNotFound, "no such file or directory").at(path)
}

/// Of a link that leads to the root a writer is told what of any other directory.
fn root_is_a_directory(error: Error) -> Error {
    if error.kind() == ErrorKind::InvalidArgument { error.with_kind(ErrorKind::IsADirectory) } else { error }
}

fn require_parents(place: &dyn Place, parents: bool) -> Result<()> {
    match place.missing().first() {
        Some(missing) if !parents => Err(Error::new(ErrorKind::DirectoryNotFound, "no such directory").at(missing)),
        _ => Ok(()),
    }
}

/// The directories a place needs, as changes.
/// The directories made on the way to `place`, with room for one change more.
fn made(place: &dyn Place) -> Vec<Change> {
    let missing = place.missing();
    // PERF: records keep this for ever; `push` alone would take room for four.
    let mut changes = Vec::with_capacity(missing.len() + 1);
    changes.extend(missing.iter().map(|path| Change {
        path: path.clone(),
        source: None,
        before: None,
        after: Some(directory(DIRECTORY_MODE)),
    }));
    changes
}

fn check_destination(
    workspace: &Workspace,
    from: &dyn Place,
    info: Info,
    to: &dyn Place,
    overwrite: bool,
) -> Result<()> {
    if to.path() != from.path() && to.path().starts_with(from.path()) && info.kind == Kind::Directory {
        return Err(Error::new(ErrorKind::InvalidArgument, "a directory cannot go into itself").at(to.path()));
    }
    let Some(present) = to.info()? else { return Ok(()) };
    if !overwrite {
        return Err(exists(to.path()));
    }
    // No record could hold it, so nothing brings it back.
    present.kind.refuse_special().map_err(|error| error.at(to.path()))?;
    match (info.kind, present.kind) {
        (Kind::Directory, Kind::Directory) => {
            if workspace.files().directory(to.path())?.list()?.is_empty() {
                Ok(())
            } else {
                Err(Error::new(ErrorKind::DirectoryNotEmpty, "the destination is not empty").at(to.path()))
            }
        }
        (_, Kind::Directory) => {
            Err(Error::new(ErrorKind::IsADirectory, "the destination is a directory").at(to.path()))
        }
        (Kind::Directory, _) => {
            Err(Error::new(ErrorKind::NotADirectory, "a directory cannot replace a file").at(to.path()))
        }
        _ => Ok(()),
    }
}

impl Changing<'_> {
    /// Records and makes one change at `place`, with the directories it needs.
    fn put(
        &mut self,
        said: &Said<'_>,
        mut place: Box<dyn Place + '_>,
        before: Option<Entry>,
        after: &Entry,
        mode: PutMode,
        parents: bool,
    ) -> Result<()> {
        require_parents(place.as_ref(), parents)?;
        let mut changes = made(place.as_ref());
        changes.push(Change {
            path: place.path().clone(),
            source: said.source.clone(),
            before,
            after: Some(after.clone()),
        });
        let (files, work) = (self.workspace.files(), self.work);
        if let Entry::Directory { tree, .. } = after
            && !tree.entries()?.is_empty()
        {
            check_depth(place.path(), tree)?;
            let mut whole = Vec::new();
            for change in &changes {
                whole.extend(expand(change)?);
            }
            return self.record(said, changes, || files.apply(&whole, work));
        }
        self.record(said, changes, || {
            place.make_missing()?;
            place.put(after, mode, work)
        })
    }
}
