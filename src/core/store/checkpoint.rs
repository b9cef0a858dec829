//! Checkpoints: named states of a workspace, each a git commit.
//!
//! Everything a checkpoint knows of itself stands in its commit, so that the list of checkpoints can be
//! read from the store alone, without the mutation log.

use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::Skipped;
use crate::core::path::WsPath;
use crate::core::store::commit::CommitData;
use crate::core::tree::TreeKey;
use serde::{Deserialize, Serialize};

/// Paths a checkpoint lists as touched, at most; `changes` has the full number.
pub const MAX_TOUCHED: usize = 1000;

/// Why a checkpoint was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointKind {
    /// The state before the first write.
    Baseline,
    /// Somebody asked.
    Checkpoint,
    /// The state after a rollback.
    Rollback,
    /// What was unsaved before a rollback or a writer.
    Safety,
    /// What an interrupted rollback left, before it was finished.
    Recovered,
}

/// What a checkpoint says beside its tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Details {
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// The checkpoint a rollback went to.
    #[serde(default)]
    pub rollback_of: Option<ObjectId>,
    /// Sequence of the last mutation it covers; 0 before the first.
    pub cursor: u64,
    /// First mutation since its parent.
    #[serde(default)]
    pub first_sequence: Option<u64>,
    /// Last mutation since its parent.
    #[serde(default)]
    pub last_sequence: Option<u64>,
    /// Number of paths that differ from its parent.
    pub changes: u64,
    /// Those paths, sorted, at most [`MAX_TOUCHED`].
    pub touched: Vec<WsPath>,
    /// Whether any of them is text.
    pub has_text_diffs: bool,
    /// What the capture left out.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}

/// One checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct Checkpoint {
    /// The commit's id.
    pub id: ObjectId,
    /// The last label it was given.
    pub label: Option<String>,
    /// All labels it was given.
    pub labels: Vec<String>,
    /// Who asked for it.
    pub author: String,
    /// When, in nanoseconds since the epoch.
    pub created: i64,
    /// The checkpoint before it.
    pub parent: Option<ObjectId>,
    /// What names its tree.
    #[serde(skip)]
    pub key: TreeKey,
    /// The git tree.
    pub tree: ObjectId,
    /// Everything else.
    #[serde(flatten)]
    pub details: Details,
}

#[derive(Serialize, Deserialize)]
struct Extra {
    #[serde(default)]
    modes: Option<ObjectId>,
    created: i64,
    #[serde(flatten)]
    details: Details,
}

impl Checkpoint {
    /// Writes the commit that is this checkpoint; its id is not known before.
    pub(crate) fn to_commit(&self) -> Result<CommitData> {
        let extra = Extra { modes: self.key.modes, created: self.created, details: self.details.clone() };
        let serde_json::Value::Object(extra) = serde_json::to_value(extra)
            .map_err(|error| Error::new(ErrorKind::Bug, "a checkpoint cannot be written").because(error))?
        else {
            return Err(Error::new(ErrorKind::Bug, "a checkpoint cannot be written"));
        };
        Ok(CommitData {
            tree: self.key.tree,
            parents: self.parent.into_iter().collect(),
            author: self.author.clone(),
            time_ms: self.created / 1_000_000,
            label: self.label.clone(),
            extra,
        })
    }

    /// Reads a checkpoint from its commit. A commit somebody else put there counts as a plain checkpoint.
    pub(crate) fn from_commit(id: ObjectId, commit: CommitData) -> Result<Self> {
        let foreign = Extra {
            modes: None,
            created: commit.time_ms.saturating_mul(1_000_000),
            details: Details {
                kind: CheckpointKind::Checkpoint,
                rollback_of: None,
                cursor: 0,
                first_sequence: None,
                last_sequence: None,
                changes: 0,
                touched: Vec::new(),
                has_text_diffs: false,
                skipped: Vec::new(),
            },
        };
        let extra = if commit.extra.is_empty() {
            foreign
        } else {
            serde_json::from_value::<Extra>(serde_json::Value::Object(commit.extra)).map_err(|error| {
                Error::new(ErrorKind::StoreCorrupt, format!("checkpoint {id} is damaged")).because(error)
            })?
        };
        Ok(Checkpoint {
            id,
            labels: commit.label.iter().cloned().collect(),
            label: commit.label,
            author: commit.author,
            created: extra.created,
            parent: commit.parents.first().copied(),
            key: TreeKey { tree: commit.tree, modes: extra.modes },
            tree: commit.tree,
            details: extra.details,
        })
    }
}
