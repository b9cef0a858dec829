//! The past of one workspace: its checkpoints and its mutation log.
//!
//! Two kinds keep the same promises: [`MemoryPast`] holds everything in memory and dies with the
//! workspace, [`GitPast`] stands in a store directory, shared with other workspaces and processes. The
//! caller holds the workspace's lock around every call that changes something.
//!
//! Order of a mutation on disk: record, change, settled mark. A record beyond the mark is in doubt; the
//! floor above does what it tells of before anything else happens, or undoes it if it is doomed: somebody
//! was told that it failed.

#![expect(clippy::disallowed_methods, reason = "the store's own directory, which no tool can reach")]

use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::flock::{self, Flock};
use crate::core::fs::Keeper;
use crate::core::store::checkpoint::{Checkpoint, Details};
use crate::core::store::commit::CommitData;
use crate::core::store::log::{self, Log};
use crate::core::store::objects::{Batch, ObjectKind, Objects, Present};
use crate::core::store::record::{self, Frame, Keep, Record, Status};
use crate::core::store::refs::Refs;
use crate::core::store::stats;
use crate::core::store::trees::{self, HashOnly, IntoBatch, StoredTrees};
use crate::core::tree::{Entry, Tree, TreeKey, TreeSource};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a new checkpoint is made of.
#[derive(Debug)]
pub struct NewCheckpoint<'a> {
    /// The state.
    pub tree: &'a Tree,
    /// What users call it.
    pub label: Option<String>,
    /// Who asked.
    pub author: String,
    /// When, in nanoseconds since the epoch.
    pub created: i64,
    /// Everything else.
    pub details: Details,
}

/// Another name of a checkpoint: somebody asked for one when nothing had changed.
#[derive(Debug, Clone)]
pub struct Named {
    /// The checkpoint.
    pub id: ObjectId,
    /// Who asked.
    pub author: String,
    /// What they called it.
    pub label: Option<String>,
    /// When, in nanoseconds since the epoch.
    pub time_ns: i64,
}

/// Counts of what is kept.
#[derive(Debug, Default, Clone, Copy, serde::Serialize)]
pub struct PastStats {
    /// Checkpoints of this workspace.
    pub checkpoints: u64,
    /// Records of this workspace.
    pub records: u64,
    /// Objects in the store, of all workspaces that share it.
    pub objects: u64,
    /// How many of those are file contents.
    pub blobs: u64,
    /// Pack files.
    pub packs: u64,
    /// Objects in files of their own.
    pub loose: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// The past of one workspace.
pub trait Past: Send + Sync + Debug {
    /// Notices what other processes did; call it first under the lock. Tells whether they did anything.
    fn refresh(&mut self) -> Result<bool>;

    /// Keeps other processes off this past.
    fn hold(&self, _work: &Work, _timeout: Duration) -> Result<Option<Flock>> {
        Ok(None)
    }

    /// Returns the newest checkpoint.
    fn head(&self) -> Option<Arc<Checkpoint>>;

    /// Returns the tree of a checkpoint.
    fn tree(&self, checkpoint: &Checkpoint) -> Result<Tree>;

    /// Lists all checkpoints, oldest first.
    fn checkpoints(&mut self) -> Result<Vec<Arc<Checkpoint>>>;

    /// Adds a checkpoint on top of the head.
    fn commit(&mut self, new: NewCheckpoint<'_>) -> Result<Arc<Checkpoint>>;

    /// Gives the head another label or author.
    fn name_head(&mut self, label: Option<String>, author: String, time_ns: i64) -> Result<Arc<Checkpoint>>;

    /// Lists who was at an unchanged checkpoint.
    fn visits(&mut self) -> Result<Vec<Named>>;

    /// Returns the sequence of the newest record, 0 before the first.
    fn sequence(&self) -> u64;

    /// Writes a record; it is in doubt until [`Past::settle`].
    fn append(&mut self, record: Arc<Record>, keep: Keep) -> Result<()>;

    /// Says that the record just written failed: if it stays in doubt, it is to be undone, not done.
    fn doom(&mut self);

    /// Takes the record just written back: what it tells of did not happen.
    fn take_back(&mut self) -> Result<()>;

    /// Says that what the newest record tells of has happened.
    fn settle(&mut self) -> Result<()>;

    /// Returns the newest record if it is in doubt, and whether it is doomed.
    fn in_doubt(&mut self) -> Result<Option<(Record, bool)>>;

    /// Says that what the newest record tells of cannot be finished.
    fn mark_failed(&mut self) -> Result<()>;

    /// Lists records with a sequence above `after`, oldest first.
    fn records(&mut self, after: u64) -> Result<Vec<Arc<Record>>>;

    /// Drops records up to and including `through`, but never the newest, nor, where a store keeps them, those
    /// no checkpoint holds yet; returns how many went.
    fn prune(&mut self, through: u64) -> Result<u64>;

    /// Takes bytes that must outlive a change.
    fn keeper(&self) -> Arc<dyn Keeper>;

    /// Fails unless these bytes are whole.
    fn verify(&self, content: &Content, work: &Work) -> Result<()>;

    /// Counts.
    fn stats(&mut self) -> Result<PastStats>;

    /// Makes what was recorded survive a power loss.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Does housekeeping that bounds the number of files.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Gives up what is needed only while something is stored; whoever stores makes it again.
    fn rest(&self) {}
}

/// A past that dies with the workspace.
#[derive(Debug, Default)]
pub struct MemoryPast {
    checkpoints: Vec<(Arc<Checkpoint>, Tree)>,
    visits: Vec<Named>,
    records: Vec<Arc<Record>>,
    pruned: u64,
}

#[derive(Debug, Default)]
struct MemoryKeeper(Mutex<HashMap<ObjectId, Content>>);

impl Keeper for MemoryKeeper {
    fn keep(&self, bytes: &[u8]) -> Result<ObjectId> {
        let content = Content::from_bytes(bytes);
        let id = content.id()?;
        self.0.lock().insert(id, content);
        Ok(id)
    }

    fn keep_stream(&self, len: u64, reader: &mut dyn Read, work: &Work) -> Result<ObjectId> {
        work.check()?;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        reader.read_to_end(&mut bytes).map_err(|error| Error::io(&error, "reading"))?;
        self.keep(&bytes)
    }

    fn content(&self, id: ObjectId, _len: u64) -> Content {
        self.0.lock().get(&id).cloned().unwrap_or_else(|| Content::from_bytes(&[]))
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}

impl Past for MemoryPast {
    fn refresh(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn head(&self) -> Option<Arc<Checkpoint>> {
        self.checkpoints.last().map(|(checkpoint, _)| Arc::clone(checkpoint))
    }

    fn tree(&self, checkpoint: &Checkpoint) -> Result<Tree> {
        self.checkpoints
            .iter()
            .rev()
            .find(|(known, _)| known.id == checkpoint.id)
            .map(|(_, tree)| tree.clone())
            .ok_or_else(|| Error::new(ErrorKind::CheckpointNotFound, "no such checkpoint"))
    }

    fn checkpoints(&mut self) -> Result<Vec<Arc<Checkpoint>>> {
        Ok(self.checkpoints.iter().map(|(checkpoint, _)| Arc::clone(checkpoint)).collect())
    }

    fn commit(&mut self, new: NewCheckpoint<'_>) -> Result<Arc<Checkpoint>> {
        let key = trees::save(new.tree, &HashOnly)?;
        let tree = new.tree.clone();
        let mut checkpoint = unnamed(new, key, self.head().map(|head| head.id));
        checkpoint.id = ObjectId::hash("commit", &checkpoint.to_commit()?.encode()?);
        let checkpoint = Arc::new(checkpoint);
        self.checkpoints.push((Arc::clone(&checkpoint), tree));
        Ok(checkpoint)
    }

    fn name_head(&mut self, label: Option<String>, author: String, time_ns: i64) -> Result<Arc<Checkpoint>> {
        let Some((head, _)) = self.checkpoints.last_mut() else {
            return Err(Error::new(ErrorKind::Bug, "no checkpoint to name"));
        };
        let mut named = Checkpoint::clone(head);
        add_name(&mut named, label.clone());
        *head = Arc::new(named);
        let head = Arc::clone(head);
        self.visits.push(Named { id: head.id, author, label, time_ns });
        Ok(head)
    }

    fn visits(&mut self) -> Result<Vec<Named>> {
        Ok(self.visits.clone())
    }

    fn sequence(&self) -> u64 {
        self.records.last().map_or(self.pruned, |record| record.sequence)
    }

    fn append(&mut self, mut record: Arc<Record>, keep: Keep) -> Result<()> {
        if keep.contents && keep.max_bytes.is_none() {
            self.records.push(record);
            return Ok(());
        }
        for entry in Arc::make_mut(&mut record)
            .changes
            .iter_mut()
            .flat_map(|change| [&mut change.before, &mut change.after])
            .flatten()
        {
            if let Entry::File { content, .. } = entry
                && (!keep.contents || keep.max_bytes.is_some_and(|max| content.len() > max))
            {
                // Not kept, but named: what happened can still be told from what did not.
                *content = Content::from_source(content.len(), Some(content.id()?), Box::new(record::NotKept));
            }
        }
        self.records.push(record);
        Ok(())
    }

    fn doom(&mut self) {}

    fn take_back(&mut self) -> Result<()> {
        self.records.pop();
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn in_doubt(&mut self) -> Result<Option<(Record, bool)>> {
        Ok(None)
    }

    fn mark_failed(&mut self) -> Result<()> {
        Ok(())
    }

    fn records(&mut self, after: u64) -> Result<Vec<Arc<Record>>> {
        let start = self.records.partition_point(|record| record.sequence <= after);
        Ok(self.records[start..].to_vec())
    }

    fn prune(&mut self, through: u64) -> Result<u64> {
        let newest = self.sequence();
        let end = self.records.partition_point(|record| record.sequence <= through && record.sequence < newest);
        self.records.drain(..end);
        Ok(end as u64)
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(MemoryKeeper::default())
    }

    fn verify(&self, _content: &Content, _work: &Work) -> Result<()> {
        Ok(())
    }

    fn stats(&mut self) -> Result<PastStats> {
        let mut seen = std::collections::HashSet::new();
        let mut stats = PastStats {
            checkpoints: self.checkpoints.len() as u64,
            records: self.records.len() as u64,
            ..PastStats::default()
        };
        for (_, tree) in &self.checkpoints {
            count(tree, &mut seen, &mut stats)?;
        }
        Ok(stats)
    }
}

fn count(tree: &Tree, seen: &mut std::collections::HashSet<ObjectId>, stats: &mut PastStats) -> Result<()> {
    if !seen.insert(trees::save(tree, &HashOnly)?.tree) {
        return Ok(());
    }
    stats.objects += 1;
    for entry in tree.entries()?.values() {
        match entry {
            Entry::File { content, .. } if seen.insert(content.id()?) => {
                stats.objects += 1;
                stats.blobs += 1;
                stats.bytes += content.len();
            }
            Entry::Directory { tree, .. } => count(tree, seen, stats)?,
            _ => {}
        }
    }
    Ok(())
}

fn unnamed(new: NewCheckpoint<'_>, key: TreeKey, parent: Option<ObjectId>) -> Checkpoint {
    Checkpoint {
        id: ObjectId([0; 20]),
        labels: new.label.iter().cloned().collect(),
        label: new.label,
        author: new.author,
        created: new.created,
        parent,
        key,
        tree: key.tree,
        details: new.details,
    }
}

fn add_name(checkpoint: &mut Checkpoint, label: Option<String>) {
    if let Some(label) = label {
        checkpoint.labels.retain(|known| *known != label);
        checkpoint.labels.push(label.clone());
        checkpoint.label = Some(label);
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct NameExtra {
    names: ObjectId,
    time_ns: i64,
}

/// A past in a store directory.
#[derive(Debug)]
pub struct GitPast {
    objects: Arc<Objects>,
    refs: Refs,
    reference: String,
    /// Keeps the modes trees of checkpoints reachable, so that no garbage collection takes them.
    modes_reference: String,
    /// Other names of checkpoints, each a commit.
    names_reference: String,
    store: PathBuf,
    directory: PathBuf,
    log: Log,
    /// Two numbers of eight bytes: the sequence of the newest record known to have happened, and the time of
    /// the newest doomed one. Both are there from the start, so that a full disk cannot keep them from
    /// being written.
    settled: File,
    /// As in the file, which may refuse to be written.
    doomed: i64,
    head: Option<Arc<Checkpoint>>,
    chain: Vec<Arc<Checkpoint>>,
    names: Option<Vec<Named>>,
    sequence: u64,
    last_offset: Option<u64>,
    last_time: i64,
}

impl GitPast {
    /// Tells whether a store holds anything of workspace `id`, without making anything.
    pub fn exists(store: &Path, id: &str) -> bool {
        std::fs::symlink_metadata(store.join("hedgerow").join("workspaces").join(id)).is_ok()
    }

    /// Opens the past of workspace `id` in a store, making it if it is new.
    pub fn open(objects: Arc<Objects>, store: &Path, id: &str) -> Result<Self> {
        let directory = store.join("hedgerow").join("workspaces").join(id);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| Error::io(&error, "making the state directory"))?;
        let path = directory.join("log");
        let log = Log::open(&path)?;
        let settled = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join("settled"))
            .map_err(|error| Error::io(&error, "opening the state directory"))?;
        let mut past = GitPast {
            refs: Refs::new(Arc::clone(&objects)),
            objects,
            reference: format!("refs/heads/{id}/main"),
            modes_reference: format!("refs/hedgerow/{id}/modes"),
            names_reference: format!("refs/hedgerow/{id}/names"),
            store: store.to_owned(),
            directory,
            log,
            settled,
            doomed: 0,
            head: None,
            chain: Vec::new(),
            names: None,
            sequence: 0,
            last_offset: None,
            last_time: 0,
        };
        past.reload()?;
        let (settled, doomed) = past.marks()?;
        past.doomed = doomed;
        past.mark(settled, doomed)?;
        Ok(past)
    }

    /// Returns the state directory of this workspace, for locks and indexes beside the log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn reload(&mut self) -> Result<()> {
        let reference = self.refs.read(&self.reference)?;
        let known = self.head.as_ref().map(|head| head.id);
        if reference != known {
            self.head = match reference {
                Some(id) => Some(Arc::new(self.read_checkpoint(id)?)),
                None => None,
            };
        }
        self.names = None;
        self.sequence = 0;
        self.last_offset = None;
        if let Some(frame) = self.log.last()? {
            if self.head.is_none() {
                // Nothing is recorded before the first checkpoint stands.
                return Err(Error::new(ErrorKind::StoreCorrupt, "the branch of this workspace's checkpoints is gone")
                    .with_hint(format!(
                        "Its last commit may still be there: find it with git fsck --lost-found in the store and give it the name {}.",
                        self.reference
                    )));
            }
            match record::from_json(&frame.header)? {
                Frame::Mutation(mutation) => {
                    self.sequence = mutation.sequence;
                    self.last_offset = Some(frame.place.offset);
                }
                Frame::Moved { cursor: sequence } | Frame::Failed { sequence } => self.sequence = sequence,
            }
        }
        if let Some(head) = &self.head {
            self.sequence = self.sequence.max(head.details.cursor);
        }
        Ok(())
    }

    /// Gives `git log` in a new store something to show: HEAD names the first workspace, once.
    fn point_head(&self) -> Result<()> {
        let failed = |error: &std::io::Error| Error::io(error, "writing the store");
        let head = self.store.join("HEAD");
        let named = std::fs::read_to_string(&head).map_err(|error| failed(&error))?;
        let Some(named) = named.trim().strip_prefix("ref: ") else { return Ok(()) };
        if named == self.reference || self.refs.read(named)?.is_some() {
            return Ok(());
        }
        let aside = self.directory.join("HEAD.new");
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)
            .map_err(|error| failed(&error))?;
        file.write_all(format!("ref: {}\n", self.reference).as_bytes()).map_err(|error| failed(&error))?;
        std::fs::rename(&aside, &head).map_err(|error| failed(&error))
    }

    fn read_checkpoint(&self, id: ObjectId) -> Result<Checkpoint> {
        match self.objects.read(&id)? {
            (ObjectKind::Commit, bytes) => Checkpoint::from_commit(id, CommitData::decode(&bytes)?),
            _ => Err(Error::new(ErrorKind::StoreCorrupt, format!("object {id} is not a commit"))),
        }
    }

    /// Names a tree, keeping it.
    fn save_tree(&self, tree: &Tree) -> Result<TreeKey> {
        let batch = self.objects.batch()?;
        let key = trees::save(tree, &IntoBatch { objects: &self.objects, batch: &batch })?;
        batch.finish()?;
        Ok(key)
    }

    fn source(&self) -> Arc<dyn TreeSource> {
        Arc::new(StoredTrees(Arc::clone(&self.objects)))
    }

    /// Reads the other names of checkpoints: a chain of commits of its own, so that they are found again
    /// from the store alone.
    fn load_names(&mut self) -> Result<&[Named]> {
        if self.names.is_none() {
            let mut names = Vec::new();
            let mut at = self.refs.read(&self.names_reference)?;
            while let Some(id) = at {
                let (_, bytes) = self.objects.read(&id)?;
                let commit = CommitData::decode(&bytes)?;
                at = commit.parents.first().copied();
                let extra = serde_json::from_value::<NameExtra>(serde_json::Value::Object(commit.extra));
                let extra = extra.map_err(|error| {
                    Error::new(ErrorKind::StoreCorrupt, format!("the name {id} is damaged")).because(error)
                })?;
                let label = commit.label;
                names.push(Named { id: extra.names, author: commit.author, label, time_ns: extra.time_ns });
            }
            names.reverse();
            self.names = Some(names);
        }
        Ok(self.names.as_deref().unwrap_or_default())
    }

    /// Reads what is settled and what is doomed; zeros before anything was written.
    fn marks(&self) -> Result<(u64, i64)> {
        let mut marks = [[0; 8]; 2];
        let mut at = 0;
        while at < 16 {
            match self.settled.read_at(&mut marks.as_flattened_mut()[at..], at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&error, "reading the state directory")),
            }
        }
        Ok((u64::from_le_bytes(marks[0]), i64::from_le_bytes(marks[1])))
    }

    fn mark(&self, settled: u64, doomed: i64) -> Result<()> {
        self.settled
            .write_all_at([settled.to_le_bytes(), doomed.to_le_bytes()].as_flattened(), 0)
            .map_err(|error| Error::io(&error, "writing the state directory"))
    }

    fn decode(&self, mutation: record::MutationFrame, offset: u64) -> Result<Record> {
        let objects = &self.objects;
        record::decode(
            mutation,
            &|id, len| objects.content(id, len),
            &|at, len| self.log.body(offset, at..at + len, None),
            &self.source(),
        )
    }
}

impl Past for GitPast {
    fn refresh(&mut self) -> Result<bool> {
        let changed = self.log.refresh()? != log::Change::Same;
        if changed {
            self.reload()?;
        }
        Ok(changed)
    }

    fn hold(&self, work: &Work, timeout: Duration) -> Result<Option<Flock>> {
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.directory.join("lock"))
            .map_err(|error| Error::io(&error, "locking the history"))?;
        flock::exclusive(file.into(), work, timeout)
    }

    fn head(&self) -> Option<Arc<Checkpoint>> {
        self.head.clone()
    }

    fn tree(&self, checkpoint: &Checkpoint) -> Result<Tree> {
        Ok(Tree::lazy(checkpoint.key, self.source()))
    }

    fn checkpoints(&mut self) -> Result<Vec<Arc<Checkpoint>>> {
        let mut newer = Vec::new();
        let known = self.chain.last().map(|checkpoint| checkpoint.id);
        let mut at = self.head.clone();
        while let Some(checkpoint) = at {
            if Some(checkpoint.id) == known {
                break;
            }
            at = match checkpoint.parent {
                Some(parent) if Some(parent) != known => Some(Arc::new(self.read_checkpoint(parent)?)),
                _ => None,
            };
            newer.push(checkpoint);
        }
        self.chain.extend(newer.into_iter().rev());
        let mut all: Vec<Checkpoint> = self.chain.iter().map(|checkpoint| Checkpoint::clone(checkpoint)).collect();
        let names = self.load_names()?;
        if !names.is_empty() {
            let at: HashMap<ObjectId, usize> = all.iter().enumerate().map(|(at, known)| (known.id, at)).collect();
            for name in names {
                if let Some(&at) = at.get(&name.id) {
                    add_name(&mut all[at], name.label.clone());
                }
            }
        }
        Ok(all.into_iter().map(Arc::new).collect())
    }

    fn commit(&mut self, new: NewCheckpoint<'_>) -> Result<Arc<Checkpoint>> {
        let batch = self.objects.batch()?;
        let key = trees::save(new.tree, &IntoBatch { objects: &self.objects, batch: &batch })?;
        let parent = self.head.as_ref().map(|head| head.id);
        let cursor = new.details.cursor;
        let mut checkpoint = unnamed(new, key, parent);
        checkpoint.id = batch.put(ObjectKind::Commit, &checkpoint.to_commit()?.encode()?)?;
        // A chain of its own keeps the modes reachable; most workspaces never start it.
        let mut modes_before = None;
        let modes_tip = match key.modes {
            Some(modes) => {
                modes_before = self.refs.read(&self.modes_reference)?;
                let commit = CommitData {
                    tree: modes,
                    parents: modes_before.into_iter().collect(),
                    author: "hedgerow".to_owned(),
                    time_ms: checkpoint.created / 1_000_000,
                    label: Some(format!("modes of {}", checkpoint.id)),
                    extra: serde_json::Map::new(),
                };
                Some(batch.put(ObjectKind::Commit, &commit.encode()?)?)
            }
            None => None,
        };
        batch.finish()?;
        if let Some(tip) = modes_tip {
            self.refs.write(&self.modes_reference, tip, modes_before)?;
        }
        if let Err(error) = self.refs.write(&self.reference, checkpoint.id, parent) {
            // It may have moved all the same (its directory could not be flushed): what it says now counts.
            if self.refs.read(&self.reference)? != Some(checkpoint.id) {
                return Err(error);
            }
        }
        if parent.is_none() {
            // Only a convenience of plain git.
            drop(self.point_head());
        }
        let checkpoint = Arc::new(checkpoint);
        self.head = Some(Arc::clone(&checkpoint));
        // The reference is the truth; the frame tells other processes to look at it.
        let header = record::to_json(&Frame::Moved { cursor })?;
        drop(self.log.append(&header, &[]));
        Ok(checkpoint)
    }

    fn name_head(&mut self, label: Option<String>, author: String, time_ns: i64) -> Result<Arc<Checkpoint>> {
        let Some(head) = self.head.clone() else {
            return Err(Error::new(ErrorKind::Bug, "no checkpoint to name"));
        };
        self.load_names()?;
        let before = self.refs.read(&self.names_reference)?;
        let extra = serde_json::to_value(NameExtra { names: head.id, time_ns })
            .map_err(|error| Error::new(ErrorKind::Bug, "a name cannot be written").because(error))?;
        let commit = CommitData {
            tree: head.tree,
            parents: before.into_iter().collect(),
            author: author.clone(),
            time_ms: time_ns / 1_000_000,
            label: label.clone(),
            extra: extra.as_object().cloned().unwrap_or_default(),
        };
        let batch = self.objects.batch()?;
        let tip = batch.put(ObjectKind::Commit, &commit.encode()?)?;
        batch.finish()?;
        self.refs.write(&self.names_reference, tip, before)?;
        // Tells other processes to look.
        drop(self.log.append(&record::to_json(&Frame::Moved { cursor: self.sequence })?, &[]));
        if let Some(names) = &mut self.names {
            names.push(Named { id: head.id, author, label: label.clone(), time_ns });
        }
        let mut named = Checkpoint::clone(&head);
        for name in self.names.iter().flatten() {
            if name.id == head.id {
                add_name(&mut named, name.label.clone());
            }
        }
        Ok(Arc::new(named))
    }

    fn visits(&mut self) -> Result<Vec<Named>> {
        Ok(self.load_names()?.to_vec())
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn append(&mut self, record: Arc<Record>, keep: Keep) -> Result<()> {
        let objects = &self.objects;
        let record::Encoded { header, bodies } =
            record::encode(&record, keep, &|id| objects.contains(&id), &|tree| self.save_tree(tree))?;
        let bodies: Vec<&[u8]> = bodies.iter().filter_map(Content::in_memory).collect();
        let frame = self.log.append(&header, &bodies)?;
        self.last_offset = Some(frame.offset);
        self.last_time = record.time_ns;
        self.sequence = record.sequence;
        Ok(())
    }

    fn doom(&mut self) {
        self.doomed = self.last_time;
        // Known to this process in any case; another one would do what was not undone by then.
        drop(self.settled.write_all_at(&self.doomed.to_le_bytes(), 8));
    }

    fn take_back(&mut self) -> Result<()> {
        if let Some(offset) = self.last_offset {
            self.log.truncate_to(offset)?;
            self.last_offset = None;
            self.sequence -= 1;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.mark(self.sequence, self.doomed)
    }

    fn in_doubt(&mut self) -> Result<Option<(Record, bool)>> {
        let (settled, doomed) = self.marks()?;
        if self.sequence <= settled {
            return Ok(None);
        }
        for frame in self.log.iter_back() {
            let frame = frame?;
            match record::from_json(&frame.header)? {
                Frame::Mutation(mutation) => {
                    let record = self.decode(mutation, frame.place.offset)?;
                    let is_doomed = [doomed, self.doomed].contains(&record.time_ns);
                    return Ok(Some((record, is_doomed)));
                }
                Frame::Failed { .. } => break,
                Frame::Moved { .. } => {}
            }
        }
        self.settle()?;
        Ok(None)
    }

    fn mark_failed(&mut self) -> Result<()> {
        self.log.append(&record::to_json(&Frame::Failed { sequence: self.sequence })?, &[])?;
        self.settle()
    }

    fn records(&mut self, after: u64) -> Result<Vec<Arc<Record>>> {
        let mut records: Vec<Record> = Vec::new();
        let mut failed = Vec::new();
        // Backwards, so that asking for the newest few does not read the rest.
        for frame in self.log.iter_back() {
            let frame = frame?;
            match record::from_json(&frame.header)? {
                Frame::Mutation(mutation) if mutation.sequence <= after => break,
                Frame::Mutation(mutation) => records.push(self.decode(mutation, frame.place.offset)?),
                Frame::Failed { sequence } => failed.push(sequence),
                Frame::Moved { .. } => {}
            }
        }
        records.reverse();
        for record in &mut records {
            if failed.contains(&record.sequence) {
                record.status = Status::Failed;
            }
        }
        Ok(records.into_iter().map(Arc::new).collect())
    }

    fn prune(&mut self, through: u64) -> Result<u64> {
        let newest = self.sequence;
        // Records since the newest checkpoint say who changed what, and in memory they are all there is of it.
        let through = through.min(self.head.as_ref().map_or(0, |head| head.details.cursor));
        let path = self.directory.join("log");
        let aside = self.directory.join("log.new");
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&error, "pruning the history"));
            }
            _ => {}
        }
        let mut kept = Log::open(&aside)?;
        let mut gone = 0;
        for frame in self.log.iter_from(0) {
            let frame = frame?;
            if let Frame::Mutation(mutation) = record::from_json(&frame.header)?
                && mutation.sequence <= through
                && mutation.sequence < newest
            {
                gone += 1;
                continue;
            }
            let body = self.log.body(frame.place.offset, 0..frame.bodies_len, None)?.read_all()?;
            kept.append(&frame.header, &[&body])?;
        }
        drop(kept);
        std::fs::rename(&aside, &path).map_err(|error| Error::io(&error, "pruning the history"))?;
        // Pruned it is; if the new log cannot be opened now, the next call notices that the old one is gone.
        drop(self.refresh());
        Ok(gone)
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(GitKeeper {
            objects: Arc::clone(&self.objects),
            batch: RwLock::new(Kept::Nothing),
            present: OnceLock::new(),
        })
    }

    fn verify(&self, content: &Content, work: &Work) -> Result<()> {
        match content.known_id() {
            Some(id) if content.in_memory().is_none() => self.objects.verify_blob(&id, work),
            _ => Ok(()),
        }
    }

    fn stats(&mut self) -> Result<PastStats> {
        let checkpoints = self.checkpoints()?.len() as u64;
        let mut records = 0;
        for frame in self.log.iter_from(0) {
            if matches!(record::from_json(&frame?.header)?, Frame::Mutation(_)) {
                records += 1;
            }
        }
        let store = stats::count(&self.store, &self.objects)?;
        Ok(PastStats {
            checkpoints,
            records,
            objects: store.objects,
            blobs: store.blobs,
            packs: store.packs,
            loose: store.loose,
            bytes: store.bytes,
        })
    }

    fn flush(&self) -> Result<()> {
        self.log.sync()?;
        self.settled.sync_data().map_err(|error| Error::io(&error, "flushing the state directory"))
    }

    fn tidy(&self) -> Result<()> {
        self.objects.consolidate(MAX_PACKS, &Work::default())
    }

    fn rest(&self) {
        self.objects.rest();
    }
}

/// Packs a store holds before the smaller ones are joined: each costs every lookup of an absent object.
const MAX_PACKS: usize = 40;

/// Keeps bytes in a batch of the store; what is already there costs a look-up.
#[derive(Debug)]
struct GitKeeper {
    objects: Arc<Objects>,
    batch: RwLock<Kept>,
    present: OnceLock<Present>,
}

#[derive(Debug)]
enum Kept {
    Nothing,
    Some(Box<Batch>),
    Finished,
}

impl GitKeeper {
    /// Most writes keep nothing, so the batch is started by the first who does.
    fn with_batch<T>(&self, act: impl FnOnce(&Batch) -> Result<T>) -> Result<T> {
        if matches!(*self.batch.read(), Kept::Nothing) {
            let mut kept = self.batch.write();
            if matches!(*kept, Kept::Nothing) {
                *kept = Kept::Some(Box::new(self.objects.batch()?));
            }
        }
        match &*self.batch.read() {
            Kept::Some(batch) => act(batch),
            _ => Err(Error::new(ErrorKind::Bug, "bytes were kept after the batch was finished")),
        }
    }
}

impl Keeper for GitKeeper {
    fn keep(&self, bytes: &[u8]) -> Result<ObjectId> {
        self.with_batch(|batch| batch.put(ObjectKind::Blob, bytes))
    }

    fn keep_stream(&self, len: u64, reader: &mut dyn Read, work: &Work) -> Result<ObjectId> {
        self.with_batch(|batch| batch.put_stream(len, reader, work))
    }

    fn has(&self, id: ObjectId) -> bool {
        self.present.get_or_init(|| self.objects.present()).contains(&id)
    }

    fn content(&self, id: ObjectId, len: u64) -> Content {
        self.objects.content(id, len)
    }

    fn finish(&self) -> Result<()> {
        match std::mem::replace(&mut *self.batch.write(), Kept::Finished) {
            Kept::Some(batch) => (*batch).finish().map(|_| ()),
            _ => Ok(()),
        }
    }
}
