//! Cancellation and progress of one call.
//!
//! Every core call that can take longer than a moment polls [`Work::check`]; a caller who changed its
//! mind waits for one chunk of work at most (1 MiB of a file, or one directory).

use crate::core::error::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag that asks running work to stop; clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the work to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Tells whether [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

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

/// What a call carries along: its cancel token and where it reports to.
#[derive(Clone, Default)]
pub struct Work {
    /// Asks the call to stop.
    pub cancel: CancelToken,
    /// Counts what was done.
    pub progress: Arc<Progress>,
    /// Runs at every check, on whichever thread checks: lets a caller who waits for this very call look
    /// around (for a signal, say) and cancel it. Must be quick when there is nothing to see.
    pub poll: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("cancel", &self.cancel).field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Work {
    /// Returns an error of kind [`ErrorKind::Cancelled`] once the caller cancelled.
    pub fn check(&self) -> Result<()> {
        if let Some(poll) = &self.poll {
            poll();
        }
        if self.cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
        Ok(())
    }

    /// Counts one finished entry of `bytes` bytes.
    pub fn advance(&self, bytes: u64) {
        self.progress.entries.fetch_add(1, Ordering::Relaxed);
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
