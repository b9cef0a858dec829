//! Locks between processes: `flock` on a handle opened for the one purpose.
//!
//! The kernel gives the lock up when its holder dies. The handle is opened anew each time because a
//! handle inherited by a forked child is the parent's: both would hold its lock at once. That costs two
//! microseconds; a child that writes into its parent's lock costs a file.

use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Held until dropped.
#[derive(Debug)]
pub struct Flock(#[expect(dead_code, reason = "closing the handle gives the lock up")] OwnedFd);

/// Locks `handle`, waiting with growing pauses. `None` on a filesystem without locks: there one process
/// at a time is all that can be promised.
///
/// # Errors
/// `lock-timeout`; `cancelled`.
pub fn exclusive(handle: OwnedFd, work: &Work, timeout: Duration) -> Result<Option<Flock>> {
    let mut deadline = None;
    let mut pause = Duration::from_micros(200);
    loop {
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Flock(handle))),
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::INTR) => continue,
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
            Err(errno) => return Err(Error::os(errno, "locking the workspace")),
        }
        work.check()?;
        if Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + timeout) {
            return Err(Error::new(ErrorKind::LockTimeout, "another process holds the workspace"));
        }
        std::thread::sleep(pause);
        // Short, because another process that writes in a row holds the lock nearly always: who looks once
        // in 10 ms never finds it free.
        pause = (pause * 2).min(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> OwnedFd {
        std::fs::File::options().append(true).create(true).open(path).unwrap().into()
    }

    #[test]
    fn a_second_holder_waits_and_gives_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let work = Work::default();
        let first = exclusive(open(&path), &work, Duration::ZERO).unwrap();
        let error = exclusive(open(&path), &work, Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        work.cancel();
        let error = exclusive(open(&path), &work, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        drop(first);
        assert!(exclusive(open(&path), &Work::default(), Duration::ZERO).unwrap().is_some());
    }
}
