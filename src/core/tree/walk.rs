//! The one walk over directories, whatever they stand on.
//!
//! Listing, globbing, searching, summing up and capturing are visitors of this walk. It goes through
//! directories last found first (so that few are open at a time), on as many threads as there are cores
//! once there is enough to do, and never follows a link. Order of visits is unspecified: visitors sort.

use crate::core::cancel::Work;
use crate::core::error::{Error, Result};
use crate::core::path::{Name, WsPath};
use crate::core::tree::Kind;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// What is known of an entry without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, at most 07777.
    pub mode: u32,
    /// Length in bytes; of a link, of its target.
    pub size: u64,
    /// Last change of the content in nanoseconds since the epoch; trees know none.
    pub modified_ns: Option<i64>,
    /// Names this file has; more than one means hard links.
    pub links: u64,
}

/// One entry of a listing.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
}

/// A directory that can be looked at: a jailed one on disk, or a tree.
pub trait Directory: Send + Sync {
    /// Lists the entries, sorted by name.
    fn list(&self) -> Result<Vec<Listed>>;

    /// Lists the entries with what is known of each, sorted by name; an entry that vanished meanwhile is left out.
    fn list_with_info(&self) -> Result<Vec<(Name, Info)>>;

    /// Opens the directory `name`, never through a link.
    fn child(&self, name: &Name) -> Result<Arc<dyn Directory>>;

    /// Reads the file `name` into `buffer` (cleared first) unless it is larger than `max_bytes`; returns its size.
    fn read_into(&self, name: &Name, max_bytes: u64, buffer: &mut Vec<u8>) -> Result<u64>;

    /// Lets a filesystem get at its own kind of directory in its own visitor.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Which directories a walk enters.
pub trait Visitor: Sync {
    /// Looks at one directory and returns the names of the subdirectories to enter.
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, depth: usize) -> Result<Vec<Name>>;

    /// Is told of a directory that could not be opened or listed; returning the error ends the walk.
    fn unreadable(&self, path: &WsPath, error: Error) -> Result<()>;

    /// Tells whether the walk may end early.
    fn is_done(&self) -> bool {
        false
    }
}

struct Queue {
    todo: Vec<(Arc<dyn Directory>, Name, WsPath, usize)>,
    busy: usize,
    failed: Option<Error>,
}

/// Takes a listing, or tells the visitor why there is none.
pub fn listed<T>(visitor: &dyn Visitor, path: &WsPath, listing: Result<Vec<T>>) -> Result<Vec<T>> {
    listing.or_else(|error| visitor.unreadable(path, error).map(|()| Vec::new()))
}

/// Visits `start` and everything below it that the visitor enters.
pub fn walk(start: Arc<dyn Directory>, path: &WsPath, visitor: &dyn Visitor, work: &Work) -> Result<()> {
    let found = enter(&start, path, 0, visitor, work)?;
    let queue = Mutex::new(Queue { todo: Vec::new(), busy: 0, failed: None });
    let wake = Condvar::new();
    push(&mut queue.lock(), &start, path, 0, found);
    drop(start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        let mut spawned = 1;
        let run = || drain(&queue, &wake, visitor, work);
        // A thread costs about 20 µs, which is what a handful of directories costs.
        while spawned < threads && queue.lock().todo.len() >= 8 {
            scope.spawn(run);
            spawned += 1;
        }
        if spawned > 1 {
            run();
            return;
        }
        while step(&queue, &wake, visitor, work, false) {
            if spawned < threads && queue.lock().todo.len() >= 8 {
                while spawned < threads {
                    scope.spawn(run);
                    spawned += 1;
                }
                run();
                return;
            }
        }
    });
    match queue.into_inner().failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn drain(queue: &Mutex<Queue>, wake: &Condvar, visitor: &dyn Visitor, work: &Work) {
    while step(queue, wake, visitor, work, true) {}
}

/// Handles one directory; `false` when the walk is over.
fn step(queue: &Mutex<Queue>, wake: &Condvar, visitor: &dyn Visitor, work: &Work, wait: bool) -> bool {
    let mut held = queue.lock();
    let (parent, name, path, depth) = loop {
        if held.failed.is_some() || visitor.is_done() {
            wake.notify_all();
            return false;
        }
        if let Some(next) = held.todo.pop() {
            held.busy += 1;
            break next;
        }
        if held.busy == 0 || !wait {
            wake.notify_all();
            return false;
        }
        wake.wait(&mut held);
    };
    drop(held);
    let result = open_and_enter(parent, &name, &path, depth, visitor, work);
    let mut held = queue.lock();
    held.busy -= 1;
    match result {
        Ok(Some((directory, found))) => push(&mut held, &directory, &path, depth, found),
        Ok(None) => {}
        Err(error) => {
            held.failed.get_or_insert(error);
        }
    }
    drop(held);
    wake.notify_all();
    true
}

/// A directory and the subdirectories to enter.
type Entered = (Arc<dyn Directory>, Vec<Name>);

fn open_and_enter(
    parent: Arc<dyn Directory>,
    name: &Name,
    path: &WsPath,
    depth: usize,
    visitor: &dyn Visitor,
    work: &Work,
) -> Result<Option<Entered>> {
    let directory = match parent.child(name) {
        Ok(directory) => directory,
        Err(error) => {
            visitor.unreadable(path, error.at(path))?;
            return Ok(None);
        }
    };
    drop(parent);
    let found = enter(&directory, path, depth, visitor, work)?;
    Ok(Some((directory, found)))
}

fn enter(
    directory: &Arc<dyn Directory>,
    path: &WsPath,
    depth: usize,
    visitor: &dyn Visitor,
    work: &Work,
) -> Result<Vec<Name>> {
    work.check()?;
    visitor.visit(directory, path, depth)
}

fn push(queue: &mut Queue, directory: &Arc<dyn Directory>, path: &WsPath, depth: usize, found: Vec<Name>) {
    for name in found {
        let below = path.join(name.as_bytes());
        queue.todo.push((Arc::clone(directory), name, below, depth + 1));
    }
}
