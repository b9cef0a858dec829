//! The two doorways between Python and the core: [`run`] blocks, a [`Later`] completes a future.
//!
//! Nothing else in this crate lets go of the interpreter or starts a thread (a lint sees to that).
//!
//! Blocking: the call runs on the caller's own thread. At most every 50 ms a check of the core takes the
//! interpreter back for a moment, so that Ctrl-C and a progress callback get their turn.
//!
//! Later: the call runs on a pool thread and hands its result to the loop with `call_soon_threadsafe`.
//! Calls that change a workspace first wait for that workspace's lane, asynchronously, so that at most one
//! pool thread stands at its lock. PERF: 97 µs an await; `pyo3_async_runtimes::future_into_py` with
//! `spawn_blocking` 165 µs, `asyncio.to_thread` 124-141 µs (2026-11-30, two cores). Its completion also
//! attaches to the interpreter unasked, which panics while that is closing, and its runtime cannot be
//! replaced after a fork; so the completion is ours and the runtime is plain tokio.
//!
//! Fork: a fork waits (two seconds at most) until no other thread is in the core, so that the child
//! inherits no lock that nobody will give up; if one is still at work then, the child's inherited
//! workspaces say `used-after-fork` instead of hanging. The runtime carries the pid it was made in; a child
//! makes its own. Exit: no new call is taken, running ones are cancelled and waited for with the interpreter
//! released, and after that no pool thread attaches again: what is still running is left to the operating
//! system. What is awaited from then on runs on the thread that awaits it, and so does what was stopped for
//! the end: an exit function, or a daemon thread that one of them waits for, may still have something to save.

use super::convert::to_py_err;
use crate::core::cancel::{Watcher, Work};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::workspace::forked_while_busy;
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyException;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Deep trees are walked by recursion; a page of this is used only when it is needed.
const STACK_BYTES: usize = 64 << 20;
const POLL: Duration = Duration::from_millis(50);

pyo3::create_exception!(
    hedgerow._native,
    Stopped,
    PyException,
    "The end of the interpreter stopped a call before anything happened; called again, it runs in place."
);

/// One pending call: the loop and future to complete, and the flag that cancels the work.
#[pyclass(module = "hedgerow._native", frozen)]
pub(crate) struct Later {
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
    work: Work,
}

#[pymethods]
impl Later {
    #[new]
    fn new(r#loop: Py<PyAny>, future: Py<PyAny>) -> Self {
        Later { event_loop: r#loop, future, work: Work::default() }
    }

    /// Asks the call to stop: it has not happened then, or it completes.
    fn cancel(&self) {
        self.work.cancel();
    }

    /// Returns entries done, entries known so far, and bytes done.
    fn progress(&self) -> (u64, u64, u64) {
        counts(&self.work)
    }
}

fn counts(work: &Work) -> (u64, u64, u64) {
    let progress = work.progress();
    (
        progress.entries.load(Ordering::Relaxed),
        progress.total_entries.load(Ordering::Relaxed),
        progress.bytes.load(Ordering::Relaxed),
    )
}

/// Serves the calls of one workspace that change it one after the other. Made anew in a forked child, where
/// the call that held it does not exist.
#[derive(Clone, Default)]
pub(crate) struct Lane(Arc<Mutex<Option<(u32, OneByOne)>>>);

type OneByOne = Arc<tokio::sync::Mutex<()>>;

impl Lane {
    fn here(&self) -> OneByOne {
        let pid = std::process::id();
        let mut lane = self.0.lock();
        match &*lane {
            Some((made, queue)) if *made == pid => Arc::clone(queue),
            _ => {
                let queue = OneByOne::default();
                *lane = Some((pid, Arc::clone(&queue)));
                queue
            }
        }
    }
}

/// How a call is made.
#[derive(Default)]
pub(crate) struct How {
    /// Complete this instead of blocking.
    pub(crate) later: Option<Py<Later>>,
    /// Call this now and then while blocking.
    pub(crate) progress: Option<Py<PyAny>>,
    /// Wait for this before using a thread.
    pub(crate) lane: Option<Lane>,
}

impl How {
    pub(crate) fn later(later: Option<Py<Later>>) -> Self {
        How { later, ..How::default() }
    }
}

/// Runs `act` without the interpreter and turns its result into a Python value.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    how: How,
    act: impl FnOnce(&Work) -> Result<T> + Send + 'static,
    convert: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if let Some(later) = how.later {
        return start(py, later, how.lane, act, convert);
    }
    let value = block(py, how.progress, act)?;
    convert(py, value)
}

/// Lets other threads have the interpreter for a moment: between the pieces of a long conversion, so that
/// an event loop is not kept waiting by a result it did not ask for.
pub(crate) fn breathe(py: Python<'_>) {
    #[expect(clippy::disallowed_methods, reason = "this is the doorway")]
    py.detach(std::thread::yield_now);
}

/// Runs `act` on this thread without the interpreter: for calls that end by themselves in no time and look
/// at no cancel token. PERF: less than [`block`], which has a watcher to make.
pub(crate) fn quick<T: Send>(py: Python<'_>, act: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    #[expect(clippy::disallowed_methods, reason = "this is the doorway")]
    let result = py.detach(|| {
        let _inside = enter();
        guarded(act)
    });
    result.map_err(|error| to_py_err(py, &error))
}

/// Runs `act` on this thread without the interpreter.
pub(crate) fn block<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    act: impl FnOnce(&Work) -> Result<T> + Send,
) -> PyResult<T> {
    let last_report = progress.as_ref().map(|progress| progress.clone_ref(py));
    let watch = Arc::new(Watch::new(progress));
    let work = Work::watched(Arc::clone(&watch) as Arc<dyn Watcher>);
    #[expect(clippy::disallowed_methods, reason = "this is the doorway")]
    let result = py.detach(|| {
        let _inside = enter();
        guarded(|| act(&work))
    });
    if let Some(error) = watch.raised.lock().take() {
        return Err(error);
    }
    let value = result.map_err(|error| to_py_err(py, &error))?;
    if let Some(progress) = last_report {
        // A call shorter than the polling interval has not reported at all yet.
        let (done, total, bytes) = counts(&work);
        progress.call1(py, (done, total.max(done), bytes))?;
    }
    Ok(value)
}

/// Looks for signals and reports progress, at most every 50 ms, on the thread that called only.
struct Watch {
    caller: ThreadId,
    progress: Option<Py<PyAny>>,
    /// When it last looked; at first, when it was first asked to.
    last: Mutex<Option<Instant>>,
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    fn new(progress: Option<Py<PyAny>>) -> Self {
        let (last, raised) = (Mutex::new(None), Mutex::new(None));
        Watch { caller: std::thread::current().id(), progress, last, raised }
    }
}

impl Watcher for Watch {
    fn look(&self, work: &Work) {
        if std::thread::current().id() != self.caller {
            return;
        }
        let now = Instant::now();
        let mut last = self.last.lock();
        if now.duration_since(*last.get_or_insert(now)) < POLL {
            return;
        }
        *last = Some(now);
        let outcome = Python::try_attach(|py| {
            py.check_signals()?;
            match &self.progress {
                Some(progress) => {
                    let (done, total, bytes) = counts(work);
                    progress.call1(py, (done, total, bytes)).map(|_| ())
                }
                None => Ok(()),
            }
        });
        if let Some(Err(error)) = outcome {
            self.raised.lock().get_or_insert(error);
            work.cancel();
        }
    }
}

/// A fault of ours must reach the caller as an exception, not end the process.
fn guarded<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|cause| {
        let said = cause
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Error::new(ErrorKind::Bug, format!("hedgerow met a fault of its own: {said}")))
    })
}

/// Held for reading by every thread that is in the core, and for writing while the process forks.
///
/// The standard library's lock, because it hands nothing over: what it remembers of waiting threads, which
/// do not exist in the child, is forgotten when it is given up.
static INSIDE: RwLock<()> = RwLock::new(());
/// Keeps new calls out while a fork waits.
static FORKING: AtomicBool = AtomicBool::new(false);
const FORK_WAIT: Duration = Duration::from_secs(2);

thread_local! {
    static FORK: RefCell<Fork> = const { RefCell::new(Fork::None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

enum Fork {
    None,
    Quiet(#[expect(dead_code, reason = "dropping it lets the others in")] RwLockWriteGuard<'static, ()>),
    Busy,
}

struct Inside(Option<RwLockReadGuard<'static, ()>>);

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        self.0 = None;
    }
}

/// Marks this thread as being in the core. A callback may call again from inside; it is in already.
fn enter() -> Inside {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth > 0 {
        return Inside(None);
    }
    let deadline = Instant::now() + FORK_WAIT * 2;
    while FORKING.load(Ordering::Acquire) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(50));
    }
    Inside(Some(INSIDE.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Waits until no other thread is in the core: called before a fork, on the thread that forks.
#[pyfunction]
pub(crate) fn _before_fork(py: Python<'_>) {
    let busy = DEPTH.get() > 0;
    #[expect(clippy::disallowed_methods, reason = "this is the doorway")]
    let quiet = py.detach(|| {
        if busy {
            // The thread that forks is in a call itself: waiting for it would be waiting for ever.
            return false;
        }
        FORKING.store(true, Ordering::Release);
        let deadline = Instant::now() + FORK_WAIT;
        loop {
            match INSIDE.try_write() {
                Ok(guard) => {
                    FORK.set(Fork::Quiet(guard));
                    return true;
                }
                Err(TryLockError::Poisoned(guard)) => {
                    FORK.set(Fork::Quiet(guard.into_inner()));
                    return true;
                }
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(TryLockError::WouldBlock) => return false,
            }
        }
    });
    if !quiet {
        FORK.set(Fork::Busy);
    }
}

/// Lets the others in again.
#[pyfunction]
pub(crate) fn _after_fork_in_parent() {
    FORK.set(Fork::None);
    FORKING.store(false, Ordering::Release);
}

struct Pool {
    pid: u32,
    runtime: Runtime,
}

#[derive(Default)]
struct Calls {
    next: u64,
    running: HashMap<u64, Work>,
    /// The pool takes no new calls: the interpreter ends.
    closing: bool,
    /// No attaching: the wait is over.
    closed: bool,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);
static CALLS: Mutex<Option<Calls>> = Mutex::new(None);
static IDLE: Condvar = Condvar::new();

fn start<T: Send + 'static>(
    py: Python<'_>,
    later: Py<Later>,
    lane: Option<Lane>,
    act: impl FnOnce(&Work) -> Result<T> + Send + 'static,
    convert: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let work = later.get().work.clone();
    let Some(ticket) = take_ticket(&work) else {
        let value = block(py, None, act).and_then(|value| convert(py, value))?;
        return later.get().future.call_method1(py, "set_result", (value,));
    };
    let call = move |turn: Option<tokio::sync::OwnedMutexGuard<()>>| {
        let result = {
            let _inside = enter();
            let result = if work.is_cancelled() {
                Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"))
            } else {
                guarded(|| act(&work))
            };
            // Given up before anybody hears of the result: who awaits it may fork at once.
            drop(turn);
            result
        };
        finish(ticket, later, result, convert);
    };
    let spawned = with_pool(|runtime| match lane {
        Some(lane) => {
            let handle = runtime.handle().clone();
            let lane = lane.here();
            runtime.spawn(async move {
                let turn = lane.lock_owned().await;
                handle.spawn_blocking(move || call(Some(turn)));
            });
        }
        None => {
            runtime.spawn_blocking(move || call(None));
        }
    });
    if let Err(error) = spawned {
        give_back(ticket);
        return Err(to_py_err(py, &error));
    }
    Ok(py.None())
}

/// Hands a result to its loop, unless the interpreter is past caring.
fn finish<T>(
    ticket: u64,
    later: Py<Later>,
    result: Result<T>,
    convert: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Py<PyAny>>,
) {
    if CALLS.lock().as_ref().is_some_and(|calls| calls.closed) {
        // Even dropping a reference would touch the interpreter.
        std::mem::forget(later);
        std::mem::forget(convert);
        return;
    }
    let closing = CALLS.lock().as_ref().is_some_and(|calls| calls.closing);
    let attached = Python::try_attach(|py| {
        let outcome = match result {
            Ok(value) => convert(py, value),
            Err(error) if error.kind() == ErrorKind::Cancelled && closing => Err(Stopped::new_err(())),
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(CancelledError::new_err(())),
            Err(error) => Err(to_py_err(py, &error)),
        };
        let held = later.get();
        let (value, error) = match outcome {
            Ok(value) => (value, py.None()),
            Err(error) => (py.None(), error.into_value(py).into_any()),
        };
        let complete = pyo3::wrap_pyfunction!(complete, py);
        let handed = complete.and_then(|complete| {
            held.event_loop.call_method1(py, "call_soon_threadsafe", (complete, &held.future, value, error))
        });
        // An error means that the loop was closed: nobody waits for the result any more.
        drop(handed);
        give_back(ticket);
        drop(later);
    });
    if attached.is_none() {
        give_back(ticket);
    }
}

/// Runs on the loop's own thread.
#[pyfunction]
fn complete(future: &Bound<'_, PyAny>, value: Py<PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    // Cancelled meanwhile: the result has nobody to go to.
    if future.call_method0("done")?.extract()? {
        return Ok(());
    }
    if error.is_none() {
        future.call_method1("set_result", (value,))?;
    } else if error.is_instance_of::<CancelledError>() {
        future.call_method0("cancel")?;
    } else {
        future.call_method1("set_exception", (error,))?;
    }
    Ok(())
}

/// Enters a call among the running ones, unless the interpreter ends.
fn take_ticket(work: &Work) -> Option<u64> {
    let mut held = CALLS.lock();
    let calls = held.get_or_insert_with(Calls::default);
    if calls.closing {
        return None;
    }
    calls.next += 1;
    calls.running.insert(calls.next, work.clone());
    Some(calls.next)
}

fn give_back(ticket: u64) {
    if let Some(calls) = CALLS.lock().as_mut() {
        calls.running.remove(&ticket);
    }
    IDLE.notify_all();
}

fn with_pool(act: impl FnOnce(&Runtime)) -> Result<()> {
    // Held for an instant only; a fork in that instant leaves it locked in the child for ever.
    let Some(mut pool) = POOL.try_lock_for(Duration::from_millis(500)) else {
        return Err(Error::new(ErrorKind::UsedAfterFork, "the process was forked at a bad moment"));
    };
    let pid = std::process::id();
    if pool.as_ref().is_some_and(|pool| pool.pid != pid) {
        // The parent's threads do not exist here; waiting for them would never end.
        std::mem::forget(pool.take());
    }
    if pool.is_none() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(32)
            .thread_name("hedgerow")
            .thread_stack_size(STACK_BYTES)
            .build()
            .map_err(|error| Error::io(&error, "starting threads"))?;
        *pool = Some(Pool { pid, runtime });
    }
    if let Some(pool) = pool.as_ref() {
        act(&pool.runtime);
    }
    Ok(())
}

/// Ends all calls: called once, at exit.
#[pyfunction]
pub(crate) fn _shutdown(py: Python<'_>, timeout: f64) {
    let timeout = Duration::from_secs_f64(timeout.clamp(0.0, 60.0));
    #[expect(clippy::disallowed_methods, reason = "this is the doorway")]
    py.detach(|| {
        let deadline = Instant::now() + timeout;
        let mut held = CALLS.lock();
        let calls = held.get_or_insert_with(Calls::default);
        calls.closing = true;
        for work in calls.running.values() {
            work.cancel();
        }
        while held.as_ref().is_some_and(|calls| !calls.running.is_empty()) {
            if IDLE.wait_until(&mut held, deadline).timed_out() {
                break;
            }
        }
        if let Some(calls) = held.as_mut() {
            calls.closed = true;
        }
        drop(held);
        if let Some(pool) = POOL.lock().take() {
            pool.runtime.shutdown_background();
        }
    });
}

/// Forgets threads and calls that exist in the parent only.
#[pyfunction]
pub(crate) fn _after_fork_in_child() {
    if matches!(FORK.replace(Fork::None), Fork::Busy) {
        forked_while_busy();
    }
    FORKING.store(false, Ordering::Release);
    if let Some(mut pool) = POOL.try_lock() {
        std::mem::forget(pool.take());
    }
    if let Some(mut calls) = CALLS.try_lock() {
        std::mem::forget(calls.take());
    }
}
