//! Cancellation and progress of one call.
//!
//! Every core call that can take longer than a moment polls [`Work::check`]; a caller who changed its
//! mind waits for one chunk of work at most (1 MiB of a file, or one directory).

use crate::core::error::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a piece of work is; read by another thread while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Entries finished.
    pub entries: AtomicU64,
    /// Bytes finished.
    pub bytes: AtomicU64,
    /// Entries known so far; grows while a scan goes on.
    pub total_entries: AtomicU64,
}

/// Runs at every check, on whichever thread checks: lets a caller who waits for this very call look around
/// (for a signal, say) and cancel it. Must be quick when there is nothing to see.
pub trait Watcher: Send + Sync {
    /// Looks around.
    fn look(&self, work: &Work);
}

/// What a call carries along: whether it is to stop, and how far it is. Clones are the same call.
#[derive(Clone, Default)]
pub struct Work(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    progress: Progress,
    watcher: Option<Arc<dyn Watcher>>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("progress", self.progress()).finish_non_exhaustive()
    }
}

impl Work {
    /// Makes a call that somebody watches.
    pub fn watched(watcher: Arc<dyn Watcher>) -> Self {
        Work(Arc::new(Shared { watcher: Some(watcher), ..Shared::default() }))
    }

    /// Asks the call to stop.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
    }

    /// Tells whether [`Work::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Returns the counts of what was done.
    pub fn progress(&self) -> &Progress {
        &self.0.progress
    }

    /// Returns an error of kind [`ErrorKind::Cancelled`] once the caller cancelled.
    pub fn check(&self) -> Result<()> {
        if let Some(watcher) = &self.0.watcher {
            watcher.look(self);
        }
        if self.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
        Ok(())
    }

    /// Counts one finished entry of `bytes` bytes.
    pub fn advance(&self, bytes: u64) {
        self.progress().entries.fetch_add(1, Ordering::Relaxed);
        self.progress().bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
