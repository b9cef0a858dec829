//! Locks between processes: `flock` on a file nobody ever removes.
//!
//! The kernel drops the lock when its holder dies, so there is no stale lock to guess about. `flock`
//! and not `fcntl`: the latter is lost when any handle of the file closes. The file must not be removed
//! while it may be in use, or two processes lock two files of one name.
//!
//! A lock excludes other holders of other handles; between the threads that share one handle a mutex
//! does, because the kernel counts them as one.

use super::files::Dir;
use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A file that is locked and unlocked.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    threads: Mutex<()>,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub struct FileLockGuard<'a> {
    file: &'a File,
    _threads: MutexGuard<'a, ()>,
}

impl FileLock {
    /// Uses an open file, which must not be locked through another handle of this process.
    pub fn new(file: File) -> Self {
        FileLock { file, threads: Mutex::new(()) }
    }

    /// Opens the file `path` on the host, in a directory of the store, making it if it is missing.
    pub fn open(path: &Path) -> Result<Self> {
        let (dir, name) = Dir::of_file(path)?;
        Ok(Self::new(dir.open_write(&name)?))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// `lock-timeout` naming the holder's process if the system tells; `cancelled`.
    pub fn lock(&self, work: &Work, timeout: Duration) -> Result<FileLockGuard<'_>> {
        self.acquire(work, timeout, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock together with others who take it this way.
    pub fn lock_shared(&self, work: &Work, timeout: Duration) -> Result<FileLockGuard<'_>> {
        self.acquire(work, timeout, FlockOperation::NonBlockingLockShared)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Result<Option<FileLockGuard<'_>>> {
        self.attempt(FlockOperation::NonBlockingLockExclusive)
    }

    fn attempt(&self, how: FlockOperation) -> Result<Option<FileLockGuard<'_>>> {
        let Some(threads) = self.threads.try_lock() else { return Ok(None) };
        loop {
            match rustix::fs::flock(&self.file, how) {
                Ok(()) => return Ok(Some(FileLockGuard { file: &self.file, _threads: threads })),
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os(error, "taking the lock")),
            }
        }
    }

    fn acquire(&self, work: &Work, timeout: Duration, how: FlockOperation) -> Result<FileLockGuard<'_>> {
        if let Some(guard) = self.attempt(how)? {
            return Ok(guard);
        }
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            work.check()?;
            let waited = start.elapsed();
            if waited >= timeout {
                return Err(self.timed_out());
            }
            std::thread::sleep(pause.min(timeout.saturating_sub(waited)));
            pause = (pause * 2).min(LONGEST_PAUSE);
            if let Some(guard) = self.attempt(how)? {
                return Ok(guard);
            }
        }
    }

    /// Asks the kernel who holds the lock; asked only now, so that taking it costs one call.
    fn holder(&self) -> Option<u32> {
        let meta = self.file.metadata().ok()?;
        let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
        let proc = Dir::open_system("/proc")?;
        let table = proc.read("locks", 4 << 20).ok()??;
        String::from_utf8_lossy(&table).lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "->").collect();
            let found = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&place.as_str());
            if found { words.get(4)?.parse().ok().filter(|pid| *pid != 0) } else { None }
        })
    }

    fn timed_out(&self) -> Error {
        let message = match self.holder() {
            Some(pid) if pid == std::process::id() => "another part of this process holds the lock".to_owned(),
            Some(pid) => format!("process {pid} holds the lock"),
            None => "somebody else holds the lock".to_owned(),
        };
        Error::new(ErrorKind::LockTimeout, message)
    }
}

impl Drop for FileLockGuard<'_> {
    fn drop(&mut self) {
        // Cannot fail on a handle that is locked; if it does, closing the handle unlocks.
        let _unlocked = rustix::fs::flock(self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_handle_waits_and_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let one = FileLock::open(&dir.path().join("x.lock")).unwrap();
        let two = FileLock::open(&dir.path().join("x.lock")).unwrap();
        let guard = one.lock(&Work::default(), Duration::ZERO).unwrap();
        let error = two.lock(&Work::default(), Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        assert!(error.message().contains("holds the lock"), "{error}");
        drop(guard);
        two.lock(&Work::default(), Duration::ZERO).unwrap();
    }

    #[test]
    fn threads_that_share_a_handle_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FileLock::open(&dir.path().join("x.lock")).unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _guard = lock.lock(&Work::default(), Duration::from_secs(60)).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn waiting_ends_when_the_call_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let one = FileLock::open(&dir.path().join("x.lock")).unwrap();
        let two = FileLock::open(&dir.path().join("x.lock")).unwrap();
        let _guard = one.try_lock().unwrap().unwrap();
        let work = Work::default();
        work.cancel.cancel();
        assert_eq!(two.lock(&work, Duration::from_secs(60)).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
