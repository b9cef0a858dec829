//! Records of the mutation log: who did what, and what stood there before and after.
//!
//! A record is written before the change it tells of, so that a kill leaves either no record and no
//! change, or a record from which the change can be finished. It names contents by id when the store
//! has them and carries them when it has not: a write never waits for a hash, a diff or a second file.

use crate::core::content::{Content, ContentSource, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::WsPath;
use crate::core::tree::diff::Change;
use crate::core::tree::{Entry, Tree, TreeKey, TreeSource};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// What kind of call a record tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MutationKind {
    /// A file was written whole.
    Write,
    /// Bytes were added at the end of a file.
    Append,
    /// A file was made where none was.
    Create,
    /// A directory was made.
    Mkdir,
    /// An entry was copied.
    Copy,
    /// An entry was moved.
    Move,
    /// An entry was removed.
    Remove,
    /// A symbolic link was made.
    Symlink,
    /// A second name was made.
    Hardlink,
    /// Permission bits were changed.
    Chmod,
    /// Text in a file was replaced.
    Edit,
    /// Everything was removed.
    Clear,
    /// An archive was unpacked.
    Import,
    /// The tree went back to a checkpoint.
    Rollback,
    /// What a failed writer did was undone.
    Undo,
    /// A change made behind our back, found at a capture.
    External,
}

/// Whether the change took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Applied,
    /// It was interrupted and could not be finished.
    Failed,
}

/// One mutation.
#[derive(Debug, Clone)]
pub struct Record {
    /// 1 for the first mutation of the workspace; gap-free.
    pub sequence: u64,
    /// When, in nanoseconds since the epoch.
    pub time_ns: i64,
    /// What kind of call.
    pub kind: MutationKind,
    /// Who.
    pub author: String,
    /// Whether it took place.
    pub status: Status,
    /// The source of a copy, move or hard link.
    pub source: Option<WsPath>,
    /// The link that was named, if a file was written through one; the change is that of the file.
    pub through: Option<WsPath>,
    /// The checkpoint a rollback or an undo went to.
    pub checkpoint: Option<ObjectId>,
    /// What the checkpoint a rollback ends in is to be called.
    pub label: Option<String>,
    /// What changed; a directory that went or came as a whole is one change.
    pub changes: Vec<Change>,
}

/// A frame of the log as it is written: mutations, and the bookkeeping between them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub(crate) enum Frame {
    /// A mutation.
    Mutation(MutationFrame),
    /// A checkpoint was taken or got another name: whoever reads this looks at the references again.
    Moved {
        /// The last sequence it covers.
        cursor: u64,
    },
    /// A mutation that was in doubt turned out not to have taken place.
    Failed { sequence: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MutationFrame {
    #[serde(rename = "n")]
    pub(crate) sequence: u64,
    #[serde(rename = "at")]
    time_ns: i64,
    kind: MutationKind,
    #[serde(rename = "by")]
    author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<WsPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    through: Option<WsPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<ObjectId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(rename = "c")]
    changes: Vec<ChangeFrame>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChangeFrame {
    #[serde(rename = "p")]
    path: WsPath,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    source: Option<WsPath>,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    before: Option<EntryFrame>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    after: Option<EntryFrame>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "lowercase")]
enum EntryFrame {
    File {
        #[serde(rename = "m")]
        mode: u32,
        #[serde(rename = "l")]
        len: u64,
        /// The store has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ObjectId>,
        /// The frame carries it, this far into its bodies.
        #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
        /// Nobody has it: the id is all that was kept.
        #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
        dropped: bool,
    },
    Symlink {
        #[serde(rename = "t")]
        target: Vec<u8>,
    },
    Directory {
        #[serde(rename = "m")]
        mode: u32,
        /// What it holds, if it went or came as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<TreeKey>,
    },
}

/// What a record keeps of the bytes it names.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Keep contents at all.
    pub contents: bool,
    /// Only of files up to this size.
    pub max_bytes: Option<u64>,
}

impl Keep {
    fn keeps(self, len: u64) -> bool {
        self.contents && self.max_bytes.is_none_or(|max| len <= max)
    }
}

/// A record as the log takes it.
pub(crate) struct Encoded {
    pub(crate) header: Vec<u8>,
    pub(crate) bodies: Vec<Content>,
}

/// Writes a record as a header and the bodies it carries.
///
/// `stored` tells whether the store has an object; `tree_key` names a directory's tree, keeping it first.
pub(crate) fn encode(
    record: &Record,
    keep: Keep,
    stored: &dyn Fn(ObjectId) -> bool,
    tree_key: &dyn Fn(&Tree) -> Result<TreeKey>,
) -> Result<Encoded> {
    let mut bodies = Vec::new();
    let mut filled = 0;
    let mut entry = |entry: &Entry| -> Result<EntryFrame> {
        Ok(match entry {
            Entry::File { content, mode } => {
                let (mut id, mut offset, mut dropped) = (None, None, false);
                if let Some(known) = content.known_id().filter(|known| stored(*known)) {
                    id = Some(known);
                } else if content.is_unknown() {
                    dropped = true;
                } else if keep.keeps(content.len()) {
                    let body = match content.in_memory() {
                        Some(_) => content.clone(),
                        None => Content::from_owner(content.read_all()?),
                    };
                    offset = Some(filled);
                    filled += body.len();
                    bodies.push(body);
                } else {
                    // Not kept, but named: what happened can still be told from what did not.
                    id = Some(content.id()?);
                    dropped = true;
                }
                EntryFrame::File { mode: *mode, len: content.len(), id, offset, dropped }
            }
            Entry::Symlink { target } => EntryFrame::Symlink { target: target.to_vec() },
            Entry::Directory { tree, mode } => {
                let empty = tree.entries()?.is_empty();
                EntryFrame::Directory { mode: *mode, key: if empty { None } else { Some(tree_key(tree)?) } }
            }
        })
    };
    let mut changes = Vec::with_capacity(record.changes.len());
    for change in &record.changes {
        changes.push(ChangeFrame {
            path: change.path.clone(),
            source: change.source.clone(),
            before: change.before.as_ref().map(&mut entry).transpose()?,
            after: change.after.as_ref().map(&mut entry).transpose()?,
        });
    }
    let frame = Frame::Mutation(MutationFrame {
        sequence: record.sequence,
        time_ns: record.time_ns,
        kind: record.kind,
        author: record.author.clone(),
        source: record.source.clone(),
        through: record.through.clone(),
        checkpoint: record.checkpoint,
        label: record.label.clone(),
        changes,
    });
    Ok(Encoded { header: to_json(&frame)?, bodies })
}

/// Reads a mutation back. `stored` names content of the store, `body` content of this frame.
pub(crate) fn decode(
    frame: MutationFrame,
    stored: &dyn Fn(ObjectId, u64) -> Content,
    body: &dyn Fn(u64, u64) -> Result<Content>,
    trees: &Arc<dyn TreeSource>,
) -> Result<Record> {
    let entry = |entry: EntryFrame| -> Result<Entry> {
        Ok(match entry {
            EntryFrame::File { mode, len, id, offset, dropped } => {
                let content = match (id, offset) {
                    (id, _) if dropped => Content::from_source(len, id, Box::new(NotKept)),
                    (Some(id), _) => stored(id, len),
                    (None, Some(offset)) => body(offset, len)?,
                    (None, None) => Content::from_source(len, None, Box::new(NotKept)),
                };
                Entry::File { content, mode }
            }
            EntryFrame::Symlink { target } => Entry::Symlink { target: Arc::from(target) },
            EntryFrame::Directory { mode, key } => Entry::Directory {
                mode,
                tree: key.map_or_else(Tree::default, |key| Tree::lazy(key, Arc::clone(trees))),
            },
        })
    };
    let mut changes = Vec::with_capacity(frame.changes.len());
    for change in frame.changes {
        changes.push(Change {
            path: change.path,
            source: change.source,
            before: change.before.map(entry).transpose()?,
            after: change.after.map(entry).transpose()?,
        });
    }
    Ok(Record {
        sequence: frame.sequence,
        time_ns: frame.time_ns,
        kind: frame.kind,
        author: frame.author,
        status: Status::Applied,
        source: frame.source,
        through: frame.through,
        checkpoint: frame.checkpoint,
        label: frame.label,
        changes,
    })
}

pub(crate) fn to_json(frame: &Frame) -> Result<Vec<u8>> {
    serde_json::to_vec(frame).map_err(|error| Error::new(ErrorKind::Bug, "a record cannot be written").because(error))
}

pub(crate) fn from_json(header: &[u8]) -> Result<Frame> {
    serde_json::from_slice(header)
        .map_err(|error| Error::new(ErrorKind::StoreCorrupt, "a record of the history is damaged").because(error))
}

/// Stands for bytes the tracking mode did not keep.
#[derive(Debug)]
pub struct NotKept;

impl NotKept {
    fn error() -> Error {
        Error::new(ErrorKind::NotSupported, "this record does not keep the content")
            .with_hint("Open the workspace with track=\"full\" and a larger max_diff_bytes to keep contents.")
    }
}

impl ContentSource for NotKept {
    fn read(&self, _range: Range<u64>) -> Result<Vec<u8>> {
        Err(Self::error())
    }

    fn copy_to(&self, _out: &mut dyn Write) -> Result<()> {
        Err(Self::error())
    }

    fn check(&self) -> Result<()> {
        Err(Self::error())
    }
}
