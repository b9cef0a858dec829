//! One change at a time: the lock, the record, the change, the mark.

use super::expected::Expected;
use super::reads::file_id;
use super::{DEFAULT_AUTHOR, EXTERNAL_AUTHOR, Files, LOCK_TIMEOUT, Track, Workspace, now_ns};
use crate::core::cancel::Work;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::Flock;
use crate::core::fs::{Captured, FileSystem, IGNORED, PutMode, Skipped, is_within};
use crate::core::path::WsPath;
use crate::core::store::checkpoint::{Checkpoint, CheckpointKind, Details, MAX_TOUCHED};
use crate::core::store::past::{NewCheckpoint, Past};
use crate::core::store::record::{MutationKind, Record, Status};
use crate::core::tree::diff::{Change, diff, expand, inverse};
use crate::core::tree::ignore::{IgnoreRules, Layer};
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::Info;
use crate::core::tree::{Entry, Kind, Tree};
use parking_lot::MutexGuard;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The right to change a workspace, held until dropped.
pub(super) struct Changing<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) past: MutexGuard<'a, Box<dyn Past>>,
    pub(super) work: &'a Work,
    _state: Option<Flock>,
    _root: Option<Flock>,
}

/// What a record says beside its changes.
pub(super) struct Said<'a> {
    pub(super) kind: MutationKind,
    pub(super) author: Option<&'a str>,
    pub(super) source: Option<WsPath>,
    pub(super) through: Option<WsPath>,
    pub(super) checkpoint: Option<ObjectId>,
    pub(super) label: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub(super) fn new(kind: MutationKind, author: Option<&'a str>) -> Self {
        Said { kind, author, source: None, through: None, checkpoint: None, label: None }
    }
}

impl Workspace {
    /// Waits for the right to change things, and notices what others did meanwhile.
    pub(super) fn change<'a>(&'a self, work: &'a Work) -> Result<Changing<'a>> {
        self.check_writable()?;
        self.hold(work)
    }

    /// As [`Workspace::change`], for reading the past: a read-only handle may.
    pub(super) fn hold<'a>(&'a self, work: &'a Work) -> Result<Changing<'a>> {
        self.check_open()?;
        let past = self.lock_past(work)?;
        let root = self.files().hold(work, LOCK_TIMEOUT)?;
        let state = past.hold(work, LOCK_TIMEOUT).map_err(store_gone)?;
        let mut changing = Changing { workspace: self, past, work, _state: state, _root: root };
        let others_came = changing.past.refresh().map_err(store_gone)?;
        if others_came {
            changing.reload_memory()?;
        }
        if others_came || self.inner.in_doubt.load(Ordering::Acquire) {
            changing.finish_interrupted()?;
        }
        Ok(changing)
    }

    fn lock_past<'a>(&'a self, work: &Work) -> Result<MutexGuard<'a, Box<dyn Past>>> {
        if let Some(past) = self.inner.past.try_lock() {
            return Ok(past);
        }
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            if let Some(past) = self.inner.past.try_lock_for(Duration::from_millis(20)) {
                return Ok(past);
            }
            work.check()?;
            if Instant::now() >= deadline {
                return Err(Error::new(ErrorKind::LockTimeout, "another thread holds the workspace"));
            }
        }
    }

    /// Brings a memory workspace back to where its store last saw it.
    pub(super) fn restore_memory(&self) -> Result<()> {
        let work = Work::default();
        let mut changing = self.hold(&work)?;
        changing.reload_memory()?;
        changing.finish_interrupted()
    }
}

impl Changing<'_> {
    /// Makes the files of a memory workspace what checkpoints and records say: another handle of the same
    /// store may have changed them.
    fn reload_memory(&mut self) -> Result<()> {
        let Files::Memory(memory) = &self.workspace.inner.files else { return Ok(()) };
        let head = self.past.head();
        memory.set_tree(self.expected(head.as_deref())?.into_tree());
        Ok(())
    }

    /// Replays what was recorded since a checkpoint, or ever.
    fn expected(&mut self, head: Option<&Checkpoint>) -> Result<Expected> {
        let mut expected = Expected::new(head.map(|head| self.past.tree(head)).transpose()?.unwrap_or_default());
        for record in self.past.records(head.map_or(0, |head| head.details.cursor))? {
            if record.status == Status::Applied {
                expected.replay(&record)?;
            }
        }
        Ok(expected)
    }

    /// Makes sure there is a state to go back to before anything changes.
    pub(super) fn ensure_baseline(&mut self) -> Result<()> {
        if self.past.head().is_some() {
            return Ok(());
        }
        let captured = self.capture()?;
        let changes = self.since_head(&captured.tree)?;
        self.commit(&captured, &changes, CheckpointKind::Baseline, Some("baseline".to_owned()), DEFAULT_AUTHOR, None)?;
        Ok(())
    }

    /// Writes the record, makes the change, and says that it happened; or leaves everything as it was.
    pub(super) fn record(
        &mut self,
        said: &Said<'_>,
        changes: Vec<Change>,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.work.check()?;
        let tracked = self.workspace.inner.track != Track::Off;
        let record = Arc::new(Record {
            sequence: self.past.sequence() + 1,
            time_ns: now_ns(),
            kind: said.kind,
            author: said.author.unwrap_or(DEFAULT_AUTHOR).to_owned(),
            status: Status::Applied,
            source: said.source.clone(),
            through: said.through.clone(),
            checkpoint: said.checkpoint,
            label: said.label.map(ToOwned::to_owned),
            changes,
        });
        if tracked {
            self.past.append(Arc::clone(&record), self.workspace.keep())?;
        }
        match act() {
            Ok(()) => {
                // A rollback has happened when its checkpoint stands.
                if tracked && said.kind != MutationKind::Rollback {
                    self.settle();
                }
                Ok(())
            }
            Err(error) => {
                self.undo_failed(tracked, undoable(record.kind, &record.changes));
                Err(error)
            }
        }
    }

    /// Undoes the newest record's change after a failure. What cannot be undone now (whatever made the change
    /// fail may last) is undone by the next call, or the next opening, before anything else.
    pub(super) fn undo_failed(&mut self, tracked: bool, changes: &[Change]) {
        if tracked {
            self.past.doom();
        }
        let undone =
            put_back(self.workspace, changes).and_then(|()| if tracked { self.past.take_back() } else { Ok(()) });
        if tracked && undone.is_err() {
            self.workspace.inner.in_doubt.store(true, Ordering::Release);
        }
    }

    /// Finishes the newest record if nobody said that it happened.
    pub(super) fn finish_interrupted(&mut self) -> Result<()> {
        let doubt = &self.workspace.inner.in_doubt;
        let Some((record, is_doomed)) = self.past.in_doubt()? else {
            doubt.store(false, Ordering::Release);
            return Ok(());
        };
        doubt.store(true, Ordering::Release);
        let finished = match record.kind {
            // It tells of what others did: there is nothing to do.
            MutationKind::External => Ok(()),
            _ if is_doomed => self.undo(&record),
            _ => self.redo(&record),
        };
        match finished {
            Ok(()) if is_doomed => self.past.mark_failed()?,
            Ok(()) => {
                if record.kind == MutationKind::Rollback
                    && let Some(target) = record.checkpoint
                {
                    self.finish_rollback(target, &record.author, record.label.clone())?;
                }
                self.past.settle()?;
            }
            // What lasts may end; nothing else will change by waiting, and no workspace is lost for one call.
            Err(error) if matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::Io) => return Err(error),
            Err(_) => self.past.mark_failed()?,
        }
        doubt.store(false, Ordering::Release);
        Ok(())
    }

    /// Says that the newest record has happened. A mark that cannot be written is not the change's failure:
    /// the next opening finds the record in doubt, looks, and finds it done.
    pub(super) fn settle(&mut self) {
        drop(self.past.settle());
    }

    /// Undoes what a record tells of, wherever it was done and nobody changed anything since.
    fn undo(&self, record: &Record) -> Result<()> {
        let changes = undoable(record.kind, &record.changes);
        self.sweep(changes);
        put_back(self.workspace, changes)
    }

    /// Does what a record tells of, wherever it is not done yet; what somebody else changed since stays.
    fn redo(&mut self, record: &Record) -> Result<()> {
        let files = self.workspace.files();
        let work = Work::default();
        if record.kind == MutationKind::Move
            && let Some(change) = record.changes.last()
            && let Some(source) = &change.source
        {
            for made in &record.changes[..record.changes.len() - 1] {
                let mut place = files.place(&made.path, Follow::No)?;
                place.make_missing()?;
                if let (None, Some(entry)) = (place.info()?, &made.after) {
                    place.put(entry, PutMode::Create, &work)?;
                }
            }
            if files.lookup(source, Follow::No)?.is_some() {
                let there = files.lookup(&change.path, Follow::No)?.is_some();
                if !there || change.before.is_some() {
                    files.rename(source, &change.path, there)?;
                }
            }
            return Ok(());
        }
        let todo = still_to_do(files, &record.changes)?;
        self.sweep(&record.changes);
        self.sweep(&todo);
        files.apply(&todo, &work)
    }

    fn sweep(&self, changes: &[Change]) {
        if let Files::Disk(disk) = &self.workspace.inner.files {
            let parents: BTreeSet<WsPath> = changes.iter().map(|change| change.path.parent()).collect();
            for parent in parents {
                // Left over names are hidden from every listing: not worth failing for.
                if disk.sweep_temporary(&parent).is_err() {
                    return;
                }
            }
        }
    }

    /// Turns the present state into a tree, with all its bytes kept.
    pub(super) fn capture(&self) -> Result<Captured> {
        let keeper = self.past.keeper();
        let captured = self.workspace.files().capture(keeper.as_ref(), self.work)?;
        keeper.finish()?;
        match &self.workspace.inner.files {
            Files::Disk(disk) if !self.workspace.is_read_only() => {
                for directory in &captured.leftovers {
                    // Hidden from every listing, so not worth failing for.
                    drop(disk.sweep_temporary(directory));
                }
                Ok(captured)
            }
            Files::Memory(_) => self.without_ignored(&captured.tree),
            Files::Disk(_) => Ok(captured),
        }
    }

    /// Leaves out of a tree what the rules leave out of a scan on disk.
    pub(super) fn without_ignored(&self, tree: &Tree) -> Result<Captured> {
        let rules = &self.workspace.inner.ignore;
        if rules.is_none() {
            return Ok(Captured { tree: tree.clone(), ..Captured::default() });
        }
        let mut skipped = Vec::new();
        let tree = filter(tree, &WsPath::root(), rules, &rules.layer(), &mut skipped)?;
        Ok(Captured { tree, skipped, ..Captured::default() })
    }

    /// Lists what differs between the head and a state; before the first checkpoint, everything.
    pub(super) fn since_head(&self, tree: &Tree) -> Result<Vec<Change>> {
        let parent = self.past.head().map(|head| self.past.tree(&head)).transpose()?.unwrap_or_default();
        diff(&parent, tree)
    }

    /// Adds a checkpoint of `captured` on top of the head; `changes` is what [`Changing::since_head`] says of it.
    pub(super) fn commit(
        &mut self,
        captured: &Captured,
        changes: &[Change],
        kind: CheckpointKind,
        label: Option<String>,
        author: &str,
        rollback_of: Option<ObjectId>,
    ) -> Result<Arc<Checkpoint>> {
        let since = self.past.head().map_or(0, |head| head.details.cursor);
        let cursor = self.past.sequence();
        let (first, last) = if cursor > since { (Some(since + 1), Some(cursor)) } else { (None, None) };
        let details = Details {
            kind,
            rollback_of,
            cursor,
            first_sequence: first,
            last_sequence: last,
            changes: changes.len() as u64,
            touched: changes.iter().take(MAX_TOUCHED).map(|change| change.path.clone()).collect(),
            has_text_diffs: any_text(changes)?,
            // All of them: a rollback to this state must not take them for deleted.
            skipped: captured.skipped.clone(),
        };
        let checkpoint = self.past.commit(NewCheckpoint {
            tree: &captured.tree,
            label,
            author: author.to_owned(),
            created: now_ns(),
            details,
        })?;
        // Housekeeping: the checkpoint stands whether or not it succeeds, and the next one tries again.
        drop(self.past.tidy());
        Ok(checkpoint)
    }

    /// Records what changed since the head without anybody telling us: what differs between the head with
    /// all that was recorded since, and what there is.
    pub(super) fn record_external(&mut self, captured: &Captured) -> Result<()> {
        let (Some(head), Files::Disk(_)) = (self.past.head(), &self.workspace.inner.files) else { return Ok(()) };
        if self.workspace.inner.track == Track::Off {
            return Ok(());
        }
        let expected = self.expected(Some(&head))?;
        let skipped: HashSet<&WsPath> = captured.skipped.iter().map(|skipped| &skipped.path).collect();
        // What was ignored until now did not come only because it is seen.
        let unseen: HashSet<&WsPath> = head.details.skipped.iter().map(|skipped| &skipped.path).collect();
        let ignores = !self.workspace.inner.ignore.is_none();
        let external = expected.differs_from(&captured.tree, |change| match (&change.before, &change.after) {
            (_, None) => is_within(&change.path, &skipped),
            (None, _) => {
                is_within(&change.path, &unseen)
                    || (ignores && expected.moved.iter().any(|moved| change.path.starts_with(moved)))
            }
            _ => false,
        })?;
        if external.is_empty() {
            return Ok(());
        }
        let said = Said::new(MutationKind::External, Some(EXTERNAL_AUTHOR));
        self.record(&said, external, || Ok(()))
    }
}

/// A missing file of the store is not a missing file of the workspace.
fn store_gone(error: Error) -> Error {
    match error.kind() {
        ErrorKind::FileNotFound | ErrorKind::DirectoryNotFound => {
            Error::new(ErrorKind::StoreCorrupt, "the store of this workspace is gone").because(error)
        }
        _ => error,
    }
}

fn filter(tree: &Tree, at: &WsPath, rules: &IgnoreRules, layer: &Layer, skipped: &mut Vec<Skipped>) -> Result<Tree> {
    let entries = tree.entries()?;
    let layer = match entries.get(&b".gitignore"[..]) {
        Some(Entry::File { content, .. }) if rules.reads_files() => layer.push(at, &content.read_all()?),
        _ => layer.clone(),
    };
    let mut kept = entries.clone();
    for (name, entry) in entries {
        let path = at.join(name.as_bytes());
        if layer.is_entry_ignored(&path, entry.kind() == Kind::Directory) {
            kept.remove(name);
            skipped.push(Skipped { path, reason: IGNORED.to_owned() });
        } else if let Entry::Directory { tree, mode } = entry {
            let inside = filter(tree, &path, rules, &layer, skipped)?;
            if !inside.is_same(tree) {
                kept.insert(name.clone(), Entry::Directory { tree: inside, mode: *mode });
            }
        }
    }
    if kept.len() == entries.len() && kept.ptr_eq(entries) { Ok(tree.clone()) } else { Ok(Tree::from_entries(kept)) }
}

/// Files looked at before a checkpoint says that nothing in it is text.
const TEXT_SAMPLES: usize = 50;

fn any_text(changes: &[Change]) -> Result<bool> {
    let files =
        changes.iter().flat_map(|change| [&change.after, &change.before]).flatten().filter_map(|entry| match entry {
            Entry::File { content, .. } => Some(content),
            _ => None,
        });
    for content in files.take(TEXT_SAMPLES) {
        if !crate::core::text::is_binary(&content.read(0..8192)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether what stands at a path is `entry`, modes aside; of a directory, whether it is one.
pub(super) fn stands(files: &dyn FileSystem, path: &WsPath, entry: Option<&Entry>) -> Result<bool> {
    let found = found(files, path)?;
    Ok(match (entry, found) {
        (None, None) => true,
        (Some(Entry::File { content, .. }), Some(info)) if info.kind == Kind::File => {
            let same = || Ok(file_id(files, path, &Work::default())? == content.id()?);
            info.size == content.len() && (content.is_unknown() || same()?)
        }
        (Some(Entry::Symlink { target }), Some(info)) if info.kind == Kind::Symlink => {
            files.read_link(path)? == target.as_ref()
        }
        (Some(Entry::Directory { .. }), Some(info)) => info.kind == Kind::Directory,
        _ => false,
    })
}

/// What stands at exactly this path: behind a link that took the place of a directory, nothing does.
fn found(files: &dyn FileSystem, path: &WsPath) -> Result<Option<Info>> {
    let elsewhere = [
        ErrorKind::NotADirectory,
        ErrorKind::DirectoryNotFound,
        ErrorKind::FileNotFound,
        ErrorKind::SymlinkEscape,
        ErrorKind::SymlinkLoop,
    ];
    match files.lookup(path, Follow::No) {
        Ok(found) => Ok(found.filter(|(real, _)| real == path).map(|(_, info)| info)),
        Err(error) if elsewhere.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists what is left of changes that were made in part, one entry each.
///
/// A path is touched only if it is as it was before or as it should be, or is not there: anything else
/// somebody wrote since. A file whose bytes are right gets its mode at most. A directory that should go and
/// holds what these changes do not know stays, with those above it; what should come where no directory
/// is any more does not.
fn still_to_do(files: &dyn FileSystem, changes: &[Change]) -> Result<Vec<Change>> {
    let mut todo = Vec::new();
    let mut directories = BTreeSet::from([WsPath::root()]);
    for change in changes {
        for mut change in expand(change)? {
            let parent = change.path.parent();
            if change.after.is_some() && !directories.contains(&parent) {
                if found(files, &parent)?.is_none_or(|info| info.kind != Kind::Directory) {
                    continue;
                }
                directories.insert(parent);
            }
            if stands(files, &change.path, change.after.as_ref())? {
                change.before.clone_from(&change.after);
            } else if !stands(files, &change.path, None)? && !stands(files, &change.path, change.before.as_ref())? {
                continue;
            }
            if matches!(change.after, Some(Entry::Directory { .. })) {
                directories.insert(change.path.clone());
            }
            todo.push(change);
        }
    }
    let goes: BTreeSet<WsPath> = todo.iter().filter(|change| change.after.is_none()).map(|c| c.path.clone()).collect();
    let mut kept = Vec::new();
    for path in &goes {
        if found(files, path)?.is_none_or(|info| info.kind != Kind::Directory) {
            continue;
        }
        let listing = files.directory(path)?.list()?;
        if listing.iter().any(|entry| !goes.contains(&path.join(entry.name.as_bytes()))) {
            kept.push(path.clone());
        }
    }
    todo.retain(|change| change.after.is_some() || !kept.iter().any(|kept| kept.starts_with(&change.path)));
    Ok(todo)
}

/// Renaming is the last step of a move: if it failed, the directories made for it are all there is.
fn undoable(kind: MutationKind, changes: &[Change]) -> &[Change] {
    &changes[..changes.len() - usize::from(kind == MutationKind::Move)]
}

/// Puts back what failed changes left half done, and nothing else. Uses no cancel token: the caller's may
/// be the cause.
fn put_back(workspace: &Workspace, changes: &[Change]) -> Result<()> {
    let files = workspace.files();
    files.apply(&still_to_do(files, &inverse(changes))?, &Work::default())
}
