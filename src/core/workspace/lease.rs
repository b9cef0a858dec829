//! The writer lease: one writer at a time, first come first served.
//!
//! Whoever wants to write for a while stands in a line; the one at its head holds the lease. There is no
//! other state: leaving the line, for whatever reason (done, cancelled, timed out, dropped), is one
//! removal, and if it was the head's, the next is woken. A waiter that was woken and gave up in the same
//! instant leaves as the holder it was, so no wake-up is lost. Waiting itself is the caller's: a line
//! holds no thread and knows no event loop.
//!
//! The lease is between those who ask for it in one process, as locks of a program are: through whichever
//! handle, and however often they opened the directory. Every single call is atomic without it, and is never
//! held up by it.

use super::changing::Said;
use super::{Files, Track, Workspace};
use crate::core::cancel::Work;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::store::record::MutationKind;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// Who asks: what is told apart to see that somebody waits for himself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The thread.
    pub thread: u64,
    /// The task it runs, if it runs any.
    pub task: Option<u64>,
    /// Whether waiting blocks the thread, and with it every task there.
    pub blocks: bool,
}

/// Tells a waiter that its turn has come; false if nobody hears it any more.
pub type Wake = Box<dyn FnOnce() -> bool + Send>;

struct Waiter {
    number: u64,
    pid: u32,
    asker: Asker,
    author: String,
    wake: Option<Wake>,
}

/// Device and inode.
type Identity = (u64, u64);

/// The lines of the directories that are open.
static OPEN: Mutex<Vec<(Identity, Weak<Line>)>> = Mutex::new(Vec::new());

/// Everybody who holds or wants the lease of one tree, in the order they came.
#[derive(Default)]
pub(super) struct Line(Mutex<Places>);

#[derive(Default)]
struct Places {
    last: u64,
    waiters: VecDeque<Waiter>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Line").field(&self.0.lock().waiters.len()).finish()
    }
}

impl Line {
    /// Returns the line of a tree: of a directory that is open already, the one there is.
    pub(super) fn of(files: &Files) -> Arc<Self> {
        let Files::Disk(disk) = files else { return Arc::default() };
        let identity = disk.identity();
        let mut open = OPEN.lock();
        open.retain(|(_, line)| line.strong_count() > 0);
        let known = open.iter().find(|(whose, _)| *whose == identity);
        known.and_then(|(_, line)| line.upgrade()).unwrap_or_else(|| {
            let line = Arc::default();
            open.push((identity, Arc::downgrade(&line)));
            line
        })
    }

    fn join(self: &Arc<Self>, asker: Asker, author: &str, wake: Wake) -> Result<Turn> {
        let mut places = self.0.lock();
        let pid = std::process::id();
        if places.waiters.iter().any(|waiter| waiter.pid != pid) {
            // A forked child: nobody of the parent will ever leave, and what would wake them is not here.
            std::mem::forget(std::mem::take(&mut places.waiters));
        }
        let waits_for_itself =
            |waiter: &&Waiter| waiter.asker.thread == asker.thread && (asker.blocks || waiter.asker.task == asker.task);
        if let Some(other) = places.waiters.iter().find(waits_for_itself) {
            return Err(Error::new(
                ErrorKind::WouldDeadlock,
                format!("waiting here for the writer {:?} would be waiting for ever", other.author),
            ));
        }
        places.last += 1;
        let number = places.last;
        let author = author.to_owned();
        places.waiters.push_back(Waiter { number, pid, asker, author, wake: Some(wake) });
        Ok(Turn { line: Arc::clone(self), number })
    }

    /// What is removed is dropped when the lock is free again: it is the waiter's, and may do anything.
    fn leave(&self, number: u64) {
        let Some((gone, was_first)) = self.remove(number) else { return };
        // Those behind it in a forked child are the parent's: there is nobody to wake.
        while was_first
            && gone.pid == std::process::id()
            && let Some((next, wake)) = self.first()
        {
            if wake.is_none_or(|wake| wake()) {
                return;
            }
            // Nobody hears that it is his turn: a loop that was closed.
            drop(self.remove(next));
        }
    }

    fn remove(&self, number: u64) -> Option<(Waiter, bool)> {
        let mut places = self.0.lock();
        let at = places.waiters.iter().position(|waiter| waiter.number == number)?;
        places.waiters.remove(at).map(|waiter| (waiter, at == 0))
    }

    fn first(&self) -> Option<(u64, Option<Wake>)> {
        self.0.lock().waiters.front_mut().map(|first| (first.number, first.wake.take()))
    }
}

/// A place in the line; dropping it is leaving.
#[derive(Debug)]
pub struct Turn {
    line: Arc<Line>,
    number: u64,
}

impl Turn {
    /// Tells whether the lease is held.
    pub fn has_come(&self) -> bool {
        self.line.0.lock().waiters.front().is_some_and(|first| first.number == self.number)
    }

    /// The error of a wait that took too long.
    pub fn timed_out(&self) -> Error {
        let holder = self.line.0.lock().waiters.front().map(|first| first.author.clone()).unwrap_or_default();
        Error::new(ErrorKind::LockTimeout, format!("the writer {holder:?} is still at work"))
            .with_hint("Wait longer, or retry when it has finished.")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.leave(self.number);
    }
}

impl Workspace {
    /// Stands in line for the writer lease. It is held once [`Turn::has_come`], of which `wake` tells
    /// unless it has come at once.
    ///
    /// # Errors
    /// `would-deadlock` if the same thread, or the same task, holds or awaits the lease already.
    pub fn stand_in_line(&self, asker: Asker, author: &str, wake: Wake) -> Result<Turn> {
        self.check_open()?;
        self.check_writable()?;
        self.inner.line.join(asker, author, wake)
    }

    /// Returns the checkpoint a writer starts from; what was unsaved is saved first, so that it is
    /// not put down to the writer.
    pub fn begin_writer(&self, work: &Work) -> Result<ObjectId> {
        let mut changing = self.change(work)?;
        changing.ensure_baseline()?;
        let captured = changing.capture()?;
        changing.save_unsaved(&captured, "before writer")?;
        Ok(changing.head()?.id)
    }

    /// Goes back to where a failed writer started, and makes no checkpoint: it leaves no state behind, only
    /// its records and one of this.
    pub fn undo_writer(&self, start: ObjectId, author: &str, work: &Work) -> Result<()> {
        let mut changing = self.change(work)?;
        let head = changing.head()?;
        // Without contents in the records, only a checkpoint keeps what goes; and checkpoints stay.
        if self.inner.track != Track::Full || self.inner.max_diff_bytes.is_some() || head.id != start {
            drop(changing);
            return self.rollback(&start.to_string(), None, None, Some(author), work).map(drop);
        }
        let captured = changing.capture()?;
        changing.record_external(&captured)?;
        let changes = changing.way_to(&captured, &head, None)?.changes;
        if changes.is_empty() {
            return Ok(());
        }
        let said = Said { checkpoint: Some(start), ..Said::new(MutationKind::Undo, Some(author)) };
        changing.record(&said, changes.clone(), || self.files().apply(&changes, work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn asker(thread: u64) -> Asker {
        Asker { thread, task: None, blocks: true }
    }

    /// What the line is by the book: everybody in the order they came, the first holds.
    struct Model {
        turns: Vec<(u64, Turn, Arc<AtomicUsize>, bool)>,
    }

    impl Model {
        fn check(&self) {
            for (at, (thread, turn, woken, hears)) in self.turns.iter().enumerate() {
                assert!(*hears || at > 0, "thread {thread} holds and does not know");
                assert_eq!(turn.has_come(), at == 0, "thread {thread} at {at}");
                assert!(woken.load(Ordering::Relaxed) <= usize::from(at == 0), "thread {thread} woken at {at}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn whoever_comes_and_goes_the_first_in_line_holds_and_knows_it(
            steps in vec((any::<bool>(), any::<bool>(), any::<Index>()), 0..300),
        ) {
            let line = Arc::new(Line::default());
            let mut model = Model { turns: vec![] };
            for (thread, (comes, hears, who)) in (0..).zip(steps) {
                if comes || model.turns.is_empty() {
                    // Who comes first holds at once: there is nothing to hear.
                    let hears = hears || model.turns.is_empty();
                    let woken = Arc::new(AtomicUsize::new(0));
                    let heard = Arc::clone(&woken);
                    let wake = move || {
                        heard.fetch_add(1, Ordering::Relaxed);
                        hears
                    };
                    let turn = line.join(asker(thread), "somebody", Box::new(wake)).unwrap();
                    model.turns.push((thread, turn, woken, hears));
                    model.check();
                    continue;
                }
                let at = who.index(model.turns.len());
                drop(model.turns.remove(at));
                while at == 0 && let Some((_, _, woken, hears)) = model.turns.first() {
                    assert_eq!(woken.load(Ordering::Relaxed), 1, "the next was not woken");
                    if *hears {
                        break;
                    }
                    // Out of the line with the wake-up that nobody heard.
                    model.turns.remove(0);
                }
                model.check();
            }
        }
    }

    #[test]
    fn who_would_wait_for_himself_is_told() {
        let line = Arc::new(Line::default());
        let quiet = || -> Wake { Box::new(|| true) };
        let task = |thread, task| Asker { thread, task: Some(task), blocks: false };
        let held = line.join(task(1, 10), "first", quiet()).unwrap();
        let error = line.join(task(1, 10), "again", quiet()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
        assert!(error.to_string().contains("first"), "{error}");
        // Another task can wait; one that blocks the thread cannot, holding or not.
        let waits = line.join(task(1, 11), "second", quiet()).unwrap();
        assert_eq!(line.join(asker(1), "third", quiet()).unwrap_err().kind(), ErrorKind::WouldDeadlock);
        drop(held);
        assert!(waits.has_come());
        assert_eq!(line.join(asker(1), "third", quiet()).unwrap_err().kind(), ErrorKind::WouldDeadlock);
        drop(waits);
        assert!(line.join(asker(1), "third", quiet()).unwrap().has_come());
    }
}
