//! Who changed what: read from the checkpoints, nothing else.

use super::Workspace;
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::WsPath;
use crate::core::store::checkpoint::{Checkpoint, CheckpointKind};
use crate::core::text;
use crate::core::tree::diff::{Change, diff, unchanged, with_renames};
use crate::core::tree::{Entry, Tree};
use std::collections::HashMap;
use std::sync::Arc;

/// One checkpoint that changed a path.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The checkpoint.
    pub checkpoint: Arc<Checkpoint>,
    /// `created`, `modified`, `deleted` or `renamed`.
    pub effect: &'static str,
    /// What the path was called after it.
    pub path: WsPath,
    /// What it was called before, if it was renamed.
    pub source: Option<WsPath>,
}

/// One line and the checkpoint that brought it.
#[derive(Debug, Clone)]
pub struct BlameLine {
    /// 1-based.
    pub line: usize,
    /// The line without its end.
    pub text: String,
    /// The checkpoint; `None` for a line no checkpoint holds yet.
    pub checkpoint: Option<Arc<Checkpoint>>,
}

/// One time an author was at work.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Who.
    pub author: String,
    /// The checkpoint that ended it.
    pub checkpoint: Arc<Checkpoint>,
    /// What it changed; nothing if it left everything as it was.
    pub changes: Vec<Change>,
}

/// A checkpoint, its tree, and the tree before it.
type Step = (Arc<Checkpoint>, Tree, Tree);

impl Workspace {
    /// Lists the checkpoints with their trees, oldest first.
    fn steps(&self, work: &Work) -> Result<Vec<Step>> {
        let mut changing = self.hold(work)?;
        let mut before = Tree::default();
        let mut steps = Vec::new();
        for checkpoint in changing.past.checkpoints()? {
            let tree = changing.past.tree(&checkpoint)?;
            steps.push((checkpoint, tree.clone(), before));
            before = tree;
        }
        Ok(steps)
    }

    /// Lists the checkpoints that changed a path, newest first, through renames.
    ///
    /// # Errors
    /// `file-not-found` if no checkpoint ever held it.
    pub fn log(&self, path: &[u8], limit: Option<usize>, work: &Work) -> Result<Vec<LogEntry>> {
        let mut path = self.past_path(path)?;
        let asked = path.clone();
        let mut entries = Vec::new();
        for (checkpoint, tree, before) in self.steps(work)?.into_iter().rev() {
            work.check()?;
            if limit.is_some_and(|limit| entries.len() >= limit) {
                return Ok(entries);
            }
            if let Some(entry) = step(&path, checkpoint, &tree, &before)? {
                if let Some(source) = &entry.source {
                    path = source.clone();
                }
                entries.push(entry);
            }
        }
        if entries.is_empty() && limit != Some(0) {
            return Err(Error::new(ErrorKind::FileNotFound, "no checkpoint ever held this path").at(&asked));
        }
        Ok(entries)
    }

    /// Tells for each line of a file which checkpoint brought it.
    pub fn blame(&self, path: &[u8], work: &Work) -> Result<Vec<BlameLine>> {
        let path = self.path(path)?;
        let present = self.files().read(&path, None)?;
        if text::is_binary(&present) {
            return Err(Error::new(ErrorKind::BinaryFile, "the file is binary").at(&path));
        }
        // From the newest version back: each version takes the blame for the lines it does not share
        // with the one before, and what is left over goes to the first.
        let mut names = vec![path.clone()];
        let mut versions: Vec<(Option<Arc<Checkpoint>>, Content)> = vec![(None, Content::from_bytes(&present))];
        for (checkpoint, tree, before) in self.steps(work)?.into_iter().rev() {
            work.check()?;
            let Some(name) = names.last() else { break };
            let Some(entry) = step(name, Arc::clone(&checkpoint), &tree, &before)? else { continue };
            if let Some(Entry::File { content, .. }) = tree.get(name)? {
                versions.push((Some(checkpoint), content));
            }
            match entry.source {
                Some(source) => names.push(source),
                None if entry.effect == "created" => break,
                None => {}
            }
        }
        versions.reverse();
        let mut blame: Vec<Option<Arc<Checkpoint>>> = Vec::new();
        let mut old: Vec<u8> = Vec::new();
        let mut seen: HashMap<ObjectId, Vec<Option<Arc<Checkpoint>>>> = HashMap::new();
        for (checkpoint, content) in versions {
            let new = content.read_all()?;
            let id = ObjectId::hash("blob", &new);
            let rolled_back =
                checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.details.kind == CheckpointKind::Rollback);
            blame = match seen.get(&id) {
                // Going back brings no lines: they are whose they were.
                Some(before) if rolled_back => before.clone(),
                _ => carry(&old, &new, &blame, checkpoint.as_ref()),
            };
            seen.insert(id, blame.clone());
            old = new;
        }
        let lines = present.split_inclusive(|&byte| byte == b'\n');
        Ok(lines
            .zip(blame)
            .enumerate()
            .map(|(at, (line, checkpoint))| {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                BlameLine { line: at + 1, text: String::from_utf8_lossy(line).into_owned(), checkpoint }
            })
            .collect())
    }

    /// Lists every time somebody was at work, oldest first, with what it changed. The state before the
    /// first write, and what was saved before rollbacks, are nobody's work.
    pub fn visits(&self, work: &Work) -> Result<Vec<Visit>> {
        let steps = self.steps(work)?;
        let quiet = self.hold(work)?.past.visits()?;
        let mut visits: Vec<(i64, Visit)> = Vec::new();
        for (checkpoint, tree, before) in &steps {
            work.check()?;
            for named in &quiet {
                if named.id == checkpoint.id {
                    let author = named.author.clone();
                    let visit = Visit { author, checkpoint: Arc::clone(checkpoint), changes: vec![] };
                    visits.push((named.time_ns, visit));
                }
            }
            if checkpoint.details.kind == CheckpointKind::Baseline {
                continue;
            }
            let changes = with_renames(diff(before, tree)?)?;
            let visit = Visit { author: checkpoint.author.clone(), checkpoint: Arc::clone(checkpoint), changes };
            visits.push((checkpoint.created, visit));
        }
        visits.sort_by_key(|(time, _)| *time);
        Ok(visits.into_iter().map(|(_, visit)| visit).collect())
    }
}

/// Tells what one checkpoint did to a path, if it did anything.
fn step(path: &WsPath, checkpoint: Arc<Checkpoint>, tree: &Tree, before: &Tree) -> Result<Option<LogEntry>> {
    let (old, new) = (before.get(path)?, tree.get(path)?);
    let same = (old.is_none() && new.is_none()) || unchanged(old.as_ref(), new.as_ref())?;
    if same {
        return Ok(None);
    }
    let entry = |effect, source| Some(LogEntry { checkpoint, effect, path: path.clone(), source });
    if old.is_none() && matches!(new, Some(Entry::File { .. })) {
        let renamed = with_renames(diff(before, tree)?)?;
        if let Some(source) = renamed.into_iter().find(|change| change.path == *path).and_then(|change| change.source) {
            return Ok(entry("renamed", Some(source)));
        }
    }
    Ok(match (&old, &new) {
        (None, _) => entry("created", None),
        (_, None) => entry("deleted", None),
        _ => entry("modified", None),
    })
}

/// Carries the blame of `old`'s lines over to `new`; lines that are new are `checkpoint`'s.
fn carry(
    old: &[u8],
    new: &[u8],
    blame: &[Option<Arc<Checkpoint>>],
    checkpoint: Option<&Arc<Checkpoint>>,
) -> Vec<Option<Arc<Checkpoint>>> {
    let mut out = Vec::with_capacity(blame.len());
    let mut at = 0;
    for hunk in text::diff::diff(old, new, 0).hunks {
        // A hunk without old lines names the line before it.
        let start = if hunk.old_lines == 0 { hunk.old_start } else { hunk.old_start - 1 };
        out.extend(blame.get(at..start).unwrap_or_default().iter().cloned());
        out.extend(std::iter::repeat_n(checkpoint.cloned(), hunk.new_lines));
        at = start + hunk.old_lines;
    }
    out.extend(blame.get(at..).unwrap_or_default().iter().cloned());
    out
}
