//! Checkpoints, differences and going back.

use super::changing::{Changing, Said, stands};
use super::{DEFAULT_AUTHOR, Files, Track, Workspace, now_ns};
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::disk::Disk;
use crate::core::fs::{Captured, FileSystem, ResolverChoice, Skipped, is_within};
use crate::core::path::WsPath;
use crate::core::store::checkpoint::{Checkpoint, CheckpointKind};
use crate::core::store::past::PastStats;
use crate::core::store::record::{MutationKind, Record};
use crate::core::text;
use crate::core::tree::diff::{Change, diff, with_renames};
use crate::core::tree::ignore::IgnoreRules;
use crate::core::tree::resolve::Follow;
use crate::core::tree::{Entry, Tree};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// What a rollback did.
#[derive(Debug)]
pub struct Rollback {
    /// The state now.
    pub checkpoint: Arc<Checkpoint>,
    /// What was unsaved before, if anything was.
    pub saved: Option<Arc<Checkpoint>>,
    /// The checkpoint gone back to.
    pub target: Arc<Checkpoint>,
    /// What changed.
    pub changes: Vec<Change>,
}

/// How to get from the present state to a checkpoint.
pub(super) struct Way {
    pub(super) changes: Vec<Change>,
    /// What will be there then, which may be less than was asked for.
    pub(super) tree: Tree,
}

/// Two trees and what differs.
#[derive(Debug, Clone)]
pub struct DiffResult {
    /// Sorted by path; renames of exactly equal files are joined.
    pub changes: Vec<Change>,
}

/// A patch as text.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Patch {
    /// The patch, as git prints it; undecodable bytes are replaced.
    pub text: String,
    /// The patch, byte for byte: what `git apply` takes.
    #[serde(serialize_with = "as_bytes")]
    pub data: Vec<u8>,
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// Whether it was cut.
    pub truncated: bool,
}

fn as_bytes<S: serde::Serializer>(data: &[u8], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bytes(data)
}

/// Files larger than this are shown as binary in a patch: nobody reads the difference.
const MAX_PATCHED_BYTES: u64 = 32 << 20;

impl Workspace {
    /// Names the present state.
    ///
    /// Everything in the tree is captured, whoever changed it. If nothing changed since the head, the head
    /// is returned; a label or author given is remembered as another name of it.
    pub fn checkpoint(&self, label: Option<&str>, author: Option<&str>, work: &Work) -> Result<Arc<Checkpoint>> {
        let mut changing = self.change(work)?;
        changing.ensure_baseline()?;
        let captured = changing.capture()?;
        changing.checkpoint(&captured, label, author)
    }

    /// Lists all checkpoints, oldest first.
    pub fn checkpoints(&self, work: &Work) -> Result<Vec<Arc<Checkpoint>>> {
        self.with_baseline(work)?.past.checkpoints()
    }

    /// Returns the newest checkpoint, with all its names.
    pub fn head(&self, work: &Work) -> Result<Arc<Checkpoint>> {
        self.checkpoints(work)?.pop().ok_or_else(|| Error::new(ErrorKind::CheckpointNotFound, "no checkpoint yet"))
    }

    /// Holds the past, with a first checkpoint in it if this handle may make one.
    fn with_baseline<'a>(&'a self, work: &'a Work) -> Result<Changing<'a>> {
        let mut changing = self.hold(work)?;
        if !self.is_read_only() {
            changing.ensure_baseline()?;
        }
        Ok(changing)
    }

    /// The path of an entry in checkpoints and records: links on the way are followed as they lead now.
    pub(super) fn past_path(&self, text: &[u8]) -> Result<WsPath> {
        let path = self.path(text)?;
        match self.files().lookup(&path, Follow::No) {
            Ok(Some((real, _))) => Ok(real),
            Err(error) if error.kind() == ErrorKind::SymlinkEscape => Err(error),
            // Not there now; it may have been.
            _ => Ok(path),
        }
    }

    /// Finds the checkpoint a ref names: an id, a unique prefix of one (4 digits or more), a label, an author.
    ///
    /// A label given twice names the newer checkpoint, as moving a name does. An author names the
    /// newest checkpoint of theirs.
    pub fn resolve(&self, reference: &str, work: &Work) -> Result<Arc<Checkpoint>> {
        find(&mut self.with_baseline(work)?, reference)
    }

    /// Opens the tree of a checkpoint for reading.
    pub fn at(&self, reference: &str, work: &Work) -> Result<Workspace> {
        let mut changing = self.with_baseline(work)?;
        let checkpoint = find(&mut changing, reference)?;
        Ok(Workspace::of_tree(changing.past.tree(&checkpoint)?))
    }

    /// Tells what differs between two states: `None` is the head for `a` and the present for `b`.
    pub fn diff(&self, a: Option<&str>, b: Option<&str>, path: &[u8], work: &Work) -> Result<DiffResult> {
        let base = self.past_path(path)?;
        let mut changing = self.with_baseline(work)?;
        let old = match a {
            Some(reference) => find(&mut changing, reference)?,
            None => changing.head()?,
        };
        let old = changing.past.tree(&old)?;
        let (new, left_out) = if let Some(reference) = b {
            let checkpoint = find(&mut changing, reference)?;
            (changing.past.tree(&checkpoint)?, checkpoint.details.skipped.clone())
        } else {
            let captured = changing.capture()?;
            (captured.tree, captured.skipped)
        };
        drop(changing);
        let mut changes = diff(&old, &new)?;
        // What cannot be looked at is not known to be gone.
        let left_out: HashSet<&WsPath> =
            left_out.iter().filter(|skipped| !skipped.is_special()).map(|skipped| &skipped.path).collect();
        changes.retain(|change| change.after.is_some() || !is_within(&change.path, &left_out));
        if !base.is_root() {
            changes.retain(|change| change.path.starts_with(&base));
        }
        Ok(DiffResult { changes: with_renames(changes)? })
    }

    /// Goes back to a checkpoint, all of it or only `paths`.
    ///
    /// What is unsaved is checkpointed first; every object needed is verified; then only what differs is
    /// touched. The state reached is a new checkpoint: history is appended to, and this too can be undone.
    pub fn rollback(
        &self,
        reference: &str,
        paths: Option<&[&[u8]]>,
        label: Option<&str>,
        author: Option<&str>,
        work: &Work,
    ) -> Result<Rollback> {
        let mut changing = self.change(work)?;
        changing.ensure_baseline()?;
        let target = find(&mut changing, reference)?;
        let captured = changing.capture()?;
        let paths = match paths {
            Some(paths) => Some(changing.held(&captured, &target, paths)?),
            None => None,
        };
        let Way { changes, tree } = changing.way_to(&captured, &target, paths.as_deref())?;
        let saved = changing.save_unsaved(&captured, "before rollback")?;
        let said = Said { checkpoint: Some(target.id), label, ..Said::new(MutationKind::Rollback, author) };
        let files = self.files();
        if !changes.is_empty() {
            changing.record(&said, changes.clone(), || files.apply(&changes, work))?;
        }
        let ignores = |change: &Change| change.path.name() == Some(b".gitignore");
        let after = if self.inner.ignore.reads_files() && changes.iter().any(ignores) {
            // Under other rules another part of what is there counts.
            changing.capture()
        } else {
            Ok(Captured { tree, ..captured })
        };
        let author = author.unwrap_or(DEFAULT_AUTHOR);
        let label = label.map(ToOwned::to_owned);
        let kind = CheckpointKind::Rollback;
        let reached = after.and_then(|after| {
            let since = changing.since_head(&after.tree)?;
            changing.commit(&after, &since, kind, label, author, Some(target.id))
        });
        let checkpoint = match reached {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                let tracked = self.inner.track != Track::Off && !changes.is_empty();
                changing.undo_failed(tracked, &changes);
                return Err(error);
            }
        };
        changing.settle();
        Ok(Rollback { checkpoint, saved, target, changes: with_renames(changes)? })
    }

    /// Lists mutations with a sequence above `after`, oldest first.
    pub fn history(
        &self,
        after: u64,
        limit: Option<usize>,
        path: Option<&[u8]>,
        author: Option<&str>,
        work: &Work,
    ) -> Result<Vec<Arc<Record>>> {
        let path = path.map(|path| self.past_path(path)).transpose()?;
        let mut records = self.hold(work)?.past.records(after)?;
        records.retain(|record| {
            author.is_none_or(|author| record.author == author)
                && path.as_ref().is_none_or(|path| {
                    record.changes.iter().any(|change| {
                        change.path.starts_with(path)
                            || change.source.as_ref().is_some_and(|source| source.starts_with(path))
                            || record.through.as_ref().is_some_and(|link| link.starts_with(path))
                            // A directory that went as a whole took the path with it.
                            || (path.starts_with(&change.path) && change.after.is_none())
                    })
                })
        });
        if let Some(limit) = limit {
            let extra = records.len().saturating_sub(limit);
            records.drain(..extra);
        }
        Ok(records)
    }

    /// Prints what one mutation changed.
    pub fn record_diff(&self, sequence: u64, max_lines: Option<usize>, work: &Work) -> Result<Patch> {
        let records = self.hold(work)?.past.records(sequence.saturating_sub(1))?;
        let Some(record) = records.first().filter(|record| record.sequence == sequence) else {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("no record has the sequence {sequence}"))
                .with_hint("List the history and use one of its sequence numbers."));
        };
        let mut changes = Vec::new();
        for change in &record.changes {
            changes.extend(crate::core::tree::diff::expand(change)?.into_iter().map(|expanded| Change {
                source: change.source.clone().filter(|_| expanded.path == change.path),
                ..expanded
            }));
        }
        DiffResult { changes }.patch(None, 3, max_lines, work)
    }

    /// Drops records up to and including `through`; the newest always stays.
    pub fn prune_history(&self, through: u64, work: &Work) -> Result<u64> {
        self.change(work)?.past.prune(through)
    }

    /// Counts what is kept.
    pub fn stats(&self, work: &Work) -> Result<PastStats> {
        self.with_baseline(work)?.past.stats()
    }

    /// Returns the tree of a checkpoint, or of the present state.
    pub fn tree_at(&self, reference: Option<&str>, work: &Work) -> Result<Tree> {
        if self.is_read_only()
            && reference.is_none()
            && let Files::Memory(memory) = &self.inner.files
        {
            return Ok(memory.tree());
        }
        let mut changing = self.with_baseline(work)?;
        match reference {
            Some(reference) => {
                let checkpoint = find(&mut changing, reference)?;
                changing.past.tree(&checkpoint)
            }
            None => Ok(changing.capture()?.tree),
        }
    }

    /// Writes a tree into an empty directory of the host that the caller made for it.
    pub fn materialize(&self, directory: &Path, reference: Option<&str>, work: &Work) -> Result<()> {
        let tree = self.tree_at(reference, work)?;
        let disk = Disk::open(directory, ResolverChoice::Auto, false, IgnoreRules::none())?;
        if !disk.directory(&WsPath::root())?.list()?.is_empty() {
            return Err(Error::new(ErrorKind::DirectoryNotEmpty, "the directory to fill is not empty"));
        }
        disk.apply(&diff(&Tree::default(), &tree)?, work)
    }
}

fn patched(tree: &Tree, changes: &[Change]) -> Result<Tree> {
    let memory = crate::core::fs::memory::Memory::new(tree.clone());
    memory.apply(changes, &Work::default())?;
    Ok(memory.tree())
}

/// Finds a checkpoint among all of a workspace.
pub(super) fn find(changing: &mut Changing<'_>, reference: &str) -> Result<Arc<Checkpoint>> {
    let all = changing.past.checkpoints()?;
    // An id means its checkpoint, whatever somebody called another one.
    let exact = reference.parse::<ObjectId>().ok().and_then(|id| all.iter().find(|known| known.id == id));
    if let Some(known) = exact {
        return Ok(Arc::clone(known));
    }
    if let Some(known) = all.iter().rev().find(|known| known.labels.iter().any(|label| label == reference)) {
        return Ok(Arc::clone(known));
    }
    let lower = reference.to_ascii_lowercase();
    if lower.len() >= 4 && lower.len() <= 40 && lower.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let found: Vec<_> = all.iter().filter(|known| known.id.to_string().starts_with(&lower)).collect();
        match found.as_slice() {
            [one] => return Ok(Arc::clone(one)),
            [] => {}
            several => {
                let names: Vec<String> = several
                    .iter()
                    .take(5)
                    .map(|known| match &known.label {
                        Some(label) => format!("{} ({label:?})", &known.id.to_string()[..12]),
                        None => known.id.to_string()[..12].to_owned(),
                    })
                    .collect();
                return Err(Error::new(
                    ErrorKind::CheckpointAmbiguous,
                    format!("{reference:?} names {} checkpoints: {}", several.len(), names.join(", ")),
                ));
            }
        }
    }
    // By place in the line, not by time: clocks go back.
    let visits = changing.past.visits()?;
    let visited = visits.iter().rev().find(|named| named.author == reference).map(|named| named.id);
    let is_theirs = |known: &&Arc<Checkpoint>| known.author == reference || Some(known.id) == visited;
    all.iter().rev().find(is_theirs).map(Arc::clone).ok_or_else(|| {
        let shown: String = reference.chars().take(80).collect();
        Error::new(ErrorKind::CheckpointNotFound, format!("no checkpoint is called {shown:?}"))
    })
}

impl Changing<'_> {
    fn checkpoint(
        &mut self,
        captured: &Captured,
        label: Option<&str>,
        author: Option<&str>,
    ) -> Result<Arc<Checkpoint>> {
        let label = label.map(ToOwned::to_owned);
        let by = author.unwrap_or(DEFAULT_AUTHOR);
        let changes = self.since_head(&captured.tree)?;
        self.record_external(captured)?;
        let head = self.head()?;
        let known: HashSet<&Skipped> = head.details.skipped.iter().collect();
        if changes.is_empty() && captured.skipped.iter().all(|skipped| known.contains(skipped)) {
            // Only what happened, and was undone by hand, since the head: nothing to name but the head itself.
            if label.is_none() && author.is_none_or(|author| author == head.author) {
                return self.past.checkpoints()?.pop().ok_or_else(|| Error::new(ErrorKind::Bug, "the head is gone"));
            }
            return self.past.name_head(label, by.to_owned(), now_ns());
        }
        self.commit(captured, &changes, CheckpointKind::Checkpoint, label, by, None)
    }

    /// The newest checkpoint, as it was made: without the names it got later.
    pub(super) fn head(&self) -> Result<Arc<Checkpoint>> {
        self.past.head().ok_or_else(|| Error::new(ErrorKind::CheckpointNotFound, "no checkpoint yet"))
    }

    /// Chooses for each path how it is meant: as it is written if either state holds that, else through the
    /// links on the way as they lead now.
    fn held(&mut self, captured: &Captured, target: &Checkpoint, paths: &[&[u8]]) -> Result<Vec<WsPath>> {
        let target_tree = self.past.tree(target)?;
        let is_held = |path: &WsPath| Ok(captured.tree.get(path)?.is_some() || target_tree.get(path)?.is_some());
        let mut held = Vec::with_capacity(paths.len());
        for text in paths {
            let written = self.workspace.path(text)?;
            let path = if is_held(&written)? { written } else { self.workspace.past_path(text)? };
            if let Some(left_out) = captured.skipped.iter().find(|skipped| path.starts_with(&skipped.path))
                && (left_out.is_ignored() || !is_held(&path)?)
            {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("checkpoints leave this path out ({}), and so does a rollback", left_out.reason),
                )
                .at(&path)
                .with_hint("Read it from the checkpoint with at(ref), if that holds it, and write it yourself."));
            }
            if !is_held(&path)? {
                return Err(Error::new(
                    ErrorKind::FileNotFound,
                    "neither the present state nor the checkpoint holds this path",
                )
                .at(&path));
            }
            held.push(path);
        }
        Ok(held)
    }

    /// Finds what has to change to reach a checkpoint, all of it or only `paths`, and makes sure that it can:
    /// nothing stands in the way, and every object needed is verified.
    pub(super) fn way_to(&mut self, captured: &Captured, target: &Checkpoint, paths: Option<&[WsPath]>) -> Result<Way> {
        // The checkpoint may be older than the rules: what they ignore stays as it is, there or not.
        let aimed = self.without_ignored(&self.past.tree(target)?)?;
        let mut changes = diff(&captured.tree, &aimed.tree)?;
        if let Some(paths) = paths {
            changes.retain(|change| {
                // A directory on the way to a wanted path has to come with it, whatever stands there now.
                let comes = matches!(change.after, Some(Entry::Directory { .. }))
                    && !matches!(change.before, Some(Entry::Directory { .. }));
                paths.iter().any(|path| change.path.starts_with(path) || (comes && path.starts_with(&change.path)))
            });
        }
        // What either capture left out is not known to be absent, so it is not removed for being so.
        let left_out: HashSet<&WsPath> = captured.skipped.iter().map(|skipped| &skipped.path).collect();
        let mut unknown = left_out.clone();
        unknown.extend(target.details.skipped.iter().chain(&aimed.skipped).map(|skipped| &skipped.path));
        let ignored: HashSet<&WsPath> =
            captured.skipped.iter().filter(|skipped| skipped.is_ignored()).map(|skipped| &skipped.path).collect();
        let all = changes.len();
        changes.retain(|change| !is_within(&change.path, &ignored));
        changes.retain(|change| {
            let is_directory = matches!(change.before, Some(Entry::Directory { .. }));
            let holds_unknown = || is_directory && unknown.iter().any(|path| path.starts_with(&change.path));
            change.after.is_some() || !(is_within(&change.path, &unknown) || holds_unknown())
        });
        let files = self.workspace.files();
        // What was left out may be what is wanted all the same.
        changes.retain(|change| {
            !(is_within(&change.path, &left_out) && stands(files, &change.path, change.after.as_ref()).unwrap_or(false))
        });
        files.check_apply(&changes, &captured.skipped)?;
        for change in &changes {
            self.work.check()?;
            if let Some(Entry::File { content, .. }) = &change.after {
                self.past.verify(content, self.work).map_err(|error| error.at(&change.path))?;
            }
        }
        let is_whole = paths.is_none() && changes.len() == all;
        let tree = if is_whole { aimed.tree } else { patched(&captured.tree, &changes)? };
        Ok(Way { changes, tree })
    }

    /// Checkpoints what no checkpoint holds yet.
    pub(super) fn save_unsaved(&mut self, captured: &Captured, label: &str) -> Result<Option<Arc<Checkpoint>>> {
        let changes = self.since_head(&captured.tree)?;
        self.record_external(captured)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let label = Some(label.to_owned());
        self.commit(captured, &changes, CheckpointKind::Safety, label, DEFAULT_AUTHOR, None).map(Some)
    }

    /// After an interrupted rollback was finished: what is there now is the state reached.
    pub(super) fn finish_rollback(&mut self, target: ObjectId, author: &str, label: Option<String>) -> Result<()> {
        let reached = self.past.head().is_some_and(|head| {
            head.details.kind == CheckpointKind::Rollback
                && head.details.rollback_of == Some(target)
                && head.details.cursor == self.past.sequence()
        });
        if !reached {
            let captured = self.capture()?;
            let since = self.since_head(&captured.tree)?;
            self.commit(&captured, &since, CheckpointKind::Rollback, label, author, Some(target))?;
        }
        Ok(())
    }
}

impl DiffResult {
    /// Prints a patch of all changes, or of those at or below `paths`.
    pub fn patch(
        &self,
        paths: Option<&[WsPath]>,
        context: usize,
        max_lines: Option<usize>,
        work: &Work,
    ) -> Result<Patch> {
        let mut out = Vec::new();
        let (mut additions, mut deletions, mut lines, mut truncated) = (0, 0, 0, false);
        for change in &self.changes {
            work.check()?;
            if paths.is_some_and(|paths| !paths.iter().any(|path| change.path.starts_with(path))) {
                continue;
            }
            let source = change.source.as_ref().unwrap_or(&change.path);
            let (before, after) = (side(change.before.as_ref())?, side(change.after.as_ref())?);
            // A change of kind is a deletion and a creation, as git prints it.
            let kinds = [change.before.as_ref().map(Entry::kind), change.after.as_ref().map(Entry::kind)];
            let pieces: Vec<(Option<&Printed>, Option<&Printed>)> = match (&before, &after) {
                (Some(a), Some(b)) if kinds[0] != kinds[1] => vec![(Some(a), None), (None, Some(b))],
                (a, b) => vec![(a.as_ref(), b.as_ref())],
            };
            for (old, new) in pieces {
                if old.is_none() && new.is_none() {
                    continue;
                }
                if max_lines.is_some_and(|max| lines >= max) {
                    truncated = true;
                    break;
                }
                let empty: &[u8] = b"";
                let changes = text::diff::diff(
                    old.map_or(empty, |side| &side.bytes),
                    new.map_or(empty, |side| &side.bytes),
                    context,
                );
                additions += changes.additions;
                deletions += changes.deletions;
                let piece = text::diff::unified(
                    old.map(|side| text::diff::Side { path: source, mode: side.mode }),
                    new.map(|side| text::diff::Side { path: &change.path, mode: side.mode }),
                    &changes,
                );
                for line in piece.split_inclusive(|&byte| byte == b'\n') {
                    if max_lines.is_some_and(|max| lines >= max) {
                        truncated = true;
                        break;
                    }
                    lines += 1;
                    out.extend_from_slice(line);
                }
            }
        }
        Ok(Patch { text: String::from_utf8_lossy(&out).into_owned(), data: out, additions, deletions, truncated })
    }
}

struct Printed {
    mode: u32,
    bytes: Vec<u8>,
}

/// A file or link as a patch shows it; directories have no place in one.
fn side(entry: Option<&Entry>) -> Result<Option<Printed>> {
    Ok(match entry {
        Some(Entry::File { content, mode }) => {
            Some(Printed { mode: if mode & 0o100 == 0 { 0o100_644 } else { 0o100_755 }, bytes: printable(content)? })
        }
        Some(Entry::Symlink { target }) => Some(Printed { mode: 0o120_000, bytes: target.to_vec() }),
        _ => None,
    })
}

/// The bytes to print. A file too large, or not kept, is shown as binary, different for different contents.
fn printable(content: &Content) -> Result<Vec<u8>> {
    let stand_in = || Ok(format!("\0{}", content.id()?).into_bytes());
    if content.len() > MAX_PATCHED_BYTES {
        return stand_in();
    }
    match content.read_all() {
        Err(error) if error.kind() == ErrorKind::NotSupported => stand_in(),
        read => read,
    }
}
