//! Crash proofs: every change is killed, and every system call of it made to fail, one call at a time.
//!
//! A change runs in a child process under `strace`, which kills it at the entry of one call or lets that
//! call fail. Then this process opens what is left and demands the state before or the state after:
//! bytes, modes, links, empty directories, checkpoints, records, and what plain git says of the store.
//!
//! Needs `strace` and `git` on the path. Which calls there are to hit is learned from a run that is left
//! alone. By default a sample of them is tried; all with
//! `HEDGEROW_TORTURE=full cargo test --test torture`. Figures go to standard error:
//!
//! ```text
//! killed  rollback           41 of  41 points, 0 bad states
//! ```
//!
//! A kill matters only at a call that changes something: between two of those the disk stays the same. So
//! the sample is taken from those, and the full run takes every call.
//!
//! The last test turns the same harness on a rollback as one would write it in ten lines, and demands
//! that it is caught.

#![allow(clippy::unwrap_used, clippy::panic, clippy::exit, reason = "a test may fail by panic; a child ends at once")]
#![allow(clippy::disallowed_methods, reason = "the tests look at the directories from outside")]

mod common;

use hedgerow::core::cancel::Work;
use hedgerow::core::content::ObjectId;
use hedgerow::core::error::{Error, Result};
use hedgerow::core::fs::jail::is_temp_name;
use hedgerow::core::store::record::Status;
use hedgerow::core::workspace::{EditOptions, OpenOptions, Options, TransferOptions, Workspace, WriteOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

const CHILD: &str = "HEDGEROW_TORTURE_CHILD";
const MARK: &str = "/hedgerow-torture-mark";
/// A child that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Points tried for each kind of fault of one change, unless all are asked for.
const KILLS: usize = 26;
const FAILURES: usize = 34;

/// Calls that reach the file system; `?` lets strace pass over those an architecture does not have.
fn watched_calls() -> impl Iterator<Item = &'static str> {
    LOOKING.iter().chain(CHANGING).copied()
}

const LOOKING: &[&str] = &[
    "openat",
    "openat2",
    "open",
    "read",
    "pread64",
    "readv",
    "preadv",
    "readlink",
    "readlinkat",
    "fsync",
    "fdatasync",
    "syncfs",
    "statx",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "getdents64",
    "lseek",
    "flock",
    "fcntl",
    "fgetxattr",
    "flistxattr",
    "getxattr",
    "listxattr",
    "faccessat",
    "faccessat2",
    "access",
];
const CHANGING: &[&str] = &[
    "creat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "ftruncate",
    "fsetxattr",
    "fremovexattr",
    "fallocate",
    "copy_file_range",
    "utimensat",
];
const OPENING: &[&str] = &["openat", "openat2", "open", "creat"];

fn is_full() -> bool {
    std::env::var_os("HEDGEROW_TORTURE").is_some_and(|value| value == "full")
}

/// Prints past the capture of the test runner: the figures are the point of these tests.
#[expect(clippy::explicit_write, reason = "`eprintln!` is captured, this is not")]
fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").unwrap();
}

// ---------------------------------------------------------------------------------------------------
// What a tree is

/// Path to kind, mode and content.
type Snapshot = BTreeMap<String, String>;

fn snapshot(root: &Path) -> (Snapshot, Vec<PathBuf>) {
    let (mut found, mut temporary) = (Snapshot::new(), Vec::new());
    look(root, root, &mut found, &mut temporary);
    (found, temporary)
}

fn look(root: &Path, directory: &Path, found: &mut Snapshot, temporary: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if is_temp_name(path.file_name().unwrap().as_bytes()) {
            temporary.push(path);
            continue;
        }
        let meta = fs::symlink_metadata(&path).unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let what = if meta.is_dir() {
            look(root, &path, found, temporary);
            format!("directory {mode:o}")
        } else if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else {
            let bytes = fs::read(&path).unwrap();
            format!("file {mode:o} {} {}", bytes.len(), ObjectId::hash("blob", &bytes))
        };
        found.insert(name, what);
    }
}

/// Tells in a few words how two trees differ.
fn difference(a: &Snapshot, b: &Snapshot) -> String {
    let mut out = String::new();
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names.into_iter().filter(|name| a.get(*name) != b.get(*name)).take(4) {
        write!(out, "{name}: {:?} / {:?}; ", a.get(name), b.get(name)).unwrap();
    }
    out
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_tree(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
}

// ---------------------------------------------------------------------------------------------------
// Places: a root and a store beside each other

fn scratch() -> tempfile::TempDir {
    // Memory is quicker, and a kill does not care.
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

fn root_of(place: &Path) -> PathBuf {
    place.join("root")
}

fn store_of(place: &Path) -> PathBuf {
    place.join("store")
}

fn open(place: &Path) -> Result<Workspace> {
    let options = Options { store: Some(store_of(place)), id: Some("ws".into()), ..Options::default() };
    let how = OpenOptions { allow_large: true, ..OpenOptions::default() };
    Workspace::open(&root_of(place), options, &how, &Work::default())
}

fn put(place: &Path, name: &str, bytes: &[u8], mode: u32) {
    let path = root_of(place).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

fn lines(word: &str, count: usize) -> Vec<u8> {
    (0..count).fold(Vec::new(), |mut out, at| {
        writeln!(out, "{word} {at}").unwrap();
        out
    })
}

/// Fills a root with one of everything.
fn fill(place: &Path) {
    put(place, "a.txt", &lines("alpha", 40), 0o644);
    put(place, "run.sh", b"#!/bin/sh\necho run\n", 0o755);
    put(place, "dir/b.txt", &lines("beta", 30), 0o640);
    put(place, "dir/sub/c.bin", &[0, 159, 146, 150, 7].repeat(1000), 0o600);
    put(place, "tree/one.txt", b"one\n", 0o644);
    put(place, "tree/in/two.txt", b"two\n", 0o600);
    put(place, "tree/in/deep/three.txt", &lines("three", 300), 0o644);
    let root = root_of(place);
    symlink("a.txt", root.join("link")).unwrap();
    symlink("../one.txt", root.join("tree/in/up")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::create_dir(root.join("tree/hollow")).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// What a change starts from.
#[derive(Clone, Copy, PartialEq)]
enum Base {
    /// A root without a store.
    Fresh,
    /// Two checkpoints with records between them.
    Used,
    /// As `Used`, with changes no checkpoint holds, some of them made behind our back.
    Dirty,
    /// As `Dirty`, with so many new files that they become a pack.
    Many,
    /// As `Used`, and then everything different; the last of it is in a checkpoint.
    Far,
    /// As `Far`, and more of ours that is in none.
    FarUnsaved,
    /// As `FarUnsaved`, and something of somebody else's.
    FarDirty,
    /// As `FarDirty`, killed in the middle of going back.
    Broken,
}

fn prepare(place: &Path, base: Base) {
    let work = Work::default();
    fs::create_dir_all(root_of(place)).unwrap();
    fill(place);
    if base == Base::Fresh {
        return;
    }
    let ws = open(place).unwrap();
    let write = WriteOptions { parents: true, ..WriteOptions::default() };
    ws.checkpoint(Some("one"), Some("ann"), &work).unwrap();
    ws.write(b"a.txt", &lines("second", 50), write, &work).unwrap();
    ws.write(b"notes/n.txt", b"a note\n", write, &work).unwrap();
    ws.append(b"run.sh", b"exit 0\n", write, &work).unwrap();
    ws.checkpoint(Some("two"), None, &work).unwrap();
    if base == Base::Used {
        return;
    }
    let root = root_of(place);
    if matches!(base, Base::Dirty | Base::Many) {
        ws.write(b"dir/b.txt", b"by us\n", write, &work).unwrap();
        put(place, "outside.txt", b"by somebody\n", 0o644);
        put(place, "dir/sub/c.bin", b"shorter", 0o600);
        fs::remove_file(root.join("link")).unwrap();
        if base == Base::Many {
            for at in 0..40 {
                put(place, &format!("many/m{at}.txt"), &lines(&format!("m{at}"), 5 + at), 0o644);
            }
        }
        return;
    }
    // Created, changed, deleted, other kinds, modes, links, empty directories.
    ws.write(b"new/file.txt", b"new\n", write, &work).unwrap();
    ws.write(b"a.txt", b"third\n", write, &work).unwrap();
    ws.remove(b"dir", true, false, None, &work).unwrap();
    ws.write(b"dir", b"a file now\n", write, &work).unwrap();
    ws.chmod(b"run.sh", 0o600, None, &work).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("run.sh", root.join("link")).unwrap();
    fs::remove_dir(root.join("empty")).unwrap();
    fs::create_dir_all(root.join("hollow/more")).unwrap();
    fs::remove_file(root.join("tree/one.txt")).unwrap();
    symlink("in", root.join("tree/one.txt")).unwrap();
    fs::remove_file(root.join("tree/in/up")).unwrap();
    put(place, "tree/in/up", b"a file now\n", 0o644);
    fs::set_permissions(root.join("tree/in"), fs::Permissions::from_mode(0o711)).unwrap();
    ws.checkpoint(Some("three"), None, &work).unwrap();
    if base == Base::Far {
        return;
    }
    ws.write(b"unsaved.txt", b"unsaved\n", write, &work).unwrap();
    ws.remove(b"tree", true, false, None, &work).unwrap();
    if base == Base::FarUnsaved {
        return;
    }
    put(place, "a.txt", b"fourth\n", 0o600);
    if base == Base::FarDirty {
        return;
    }
    drop(ws);
    // Half of it: the removals are done, and some of what comes back is there.
    let case = case("rollback");
    let before = scratch();
    copy_tree(place, before.path());
    let calls = learn(before.path(), case.name, "op");
    let last = calls.iter().rfind(|call| call.name == "symlinkat").unwrap();
    let status = run_child(place, case.name, &[kill_at(last)]);
    assert!(was_killed(status));
}

// ---------------------------------------------------------------------------------------------------
// Changes

/// What tells the state after from the state before.
#[derive(Clone, Copy, PartialEq)]
enum Decides {
    Tree,
    Checkpoints,
    Both,
    Records,
    /// Every state from which one can go on is good.
    Nothing,
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    base: Base,
    /// Where the sweep starts: with opening, or with the change.
    from: &'static str,
    decides: Decides,
    act: fn(&Workspace, &Work) -> Result<()>,
}

fn parents() -> WriteOptions<'static> {
    WriteOptions { parents: true, author: Some("tess"), ..WriteOptions::default() }
}

fn transfer() -> TransferOptions<'static> {
    TransferOptions { overwrite: true, recursive: true, parents: true, author: Some("tess") }
}

fn tree_case(name: &'static str, act: fn(&Workspace, &Work) -> Result<()>) -> Case {
    Case { name, base: Base::Used, from: "op", decides: Decides::Tree, act }
}

fn cases() -> Vec<Case> {
    use Decides::{Both, Checkpoints, Nothing, Records};
    vec![
        tree_case("write_over", |ws, work| ws.write(b"a.txt", &lines("new", 200), parents(), work).map(drop)),
        tree_case("write_new", |ws, work| ws.write(b"fresh/deep/er/f.txt", b"fresh\n", parents(), work).map(drop)),
        tree_case("append", |ws, work| ws.append(b"a.txt", b"appended\n", parents(), work).map(drop)),
        tree_case("edit", |ws, work| {
            let options = EditOptions { count: Some(1), if_hash: None, encoding: None, author: None };
            ws.edit(b"a.txt", "second 7\n", "SEVEN\n", options, work).map(drop)
        }),
        tree_case("create", |ws, work| {
            let options = WriteOptions { create_only: true, ..parents() };
            ws.write(b"created.txt", b"created\n", options, work).map(drop)
        }),
        tree_case("mkdir", |ws, work| ws.mkdir(b"made/in/side", true, false, None, work)),
        tree_case("copy_file", |ws, work| ws.copy(b"run.sh", b"dir/b.txt", transfer(), work)),
        tree_case("copy_tree", |ws, work| ws.copy(b"tree", b"copies/tree", transfer(), work)),
        tree_case("move_over", |ws, work| ws.rename(b"a.txt", b"dir/b.txt", transfer(), work)),
        tree_case("move_dir", |ws, work| ws.rename(b"tree", b"moved/to/tree", transfer(), work)),
        tree_case("remove_tree", |ws, work| ws.remove(b"tree", true, false, None, work)),
        tree_case("remove_file", |ws, work| ws.remove(b"dir/sub/c.bin", false, false, None, work)),
        tree_case("chmod", |ws, work| ws.chmod(b"run.sh", 0o600, None, work)),
        tree_case("chmod_dir", |ws, work| ws.chmod(b"tree/in", 0o711, None, work)),
        tree_case("symlink", |ws, work| ws.symlink(b"links/to", b"../a.txt", true, None, work)),
        tree_case("hardlink", |ws, work| ws.hardlink(b"a.txt", b"dir/second", None, work)),
        Case {
            base: Base::Fresh,
            from: "open",
            ..tree_case("first_write", |ws, work| ws.write(b"a.txt", b"first\n", parents(), work).map(drop))
        },
        Case {
            name: "checkpoint_few",
            base: Base::Dirty,
            from: "op",
            decides: Checkpoints,
            act: |ws, work| ws.checkpoint(Some("next"), Some("tess"), work).map(drop),
        },
        Case {
            name: "checkpoint_many",
            base: Base::Many,
            from: "op",
            decides: Checkpoints,
            act: |ws, work| ws.checkpoint(Some("next"), None, work).map(drop),
        },
        Case {
            name: "checkpoint_first",
            base: Base::Fresh,
            from: "open",
            decides: Checkpoints,
            act: |ws, work| ws.checkpoint(Some("first"), None, work).map(drop),
        },
        Case {
            name: "checkpoint_named",
            base: Base::Used,
            from: "op",
            decides: Checkpoints,
            act: |ws, work| ws.checkpoint(Some("another name"), Some("tess"), work).map(drop),
        },
        Case {
            name: "rollback",
            base: Base::FarDirty,
            from: "op",
            decides: Both,
            act: |ws, work| ws.rollback("one", None, Some("back"), Some("tess"), work).map(drop),
        },
        Case {
            name: "rollback_saved",
            base: Base::Far,
            from: "op",
            decides: Both,
            act: |ws, work| ws.rollback("two", None, None, None, work).map(drop),
        },
        Case {
            name: "rollback_paths",
            base: Base::FarDirty,
            from: "op",
            decides: Both,
            act: |ws, work| ws.rollback("one", Some(&[b"dir", b"tree/in", b"a.txt"]), None, None, work).map(drop),
        },
        Case {
            name: "undo_writer",
            base: Base::FarUnsaved,
            from: "op",
            decides: Decides::Tree,
            act: |ws, work| ws.undo_writer(ws.head(work)?.id, "tess", work),
        },
        Case {
            name: "prune_history",
            base: Base::Far,
            from: "op",
            decides: Records,
            act: |ws, work| ws.prune_history(4, work).map(drop),
        },
        Case { name: "open_first", base: Base::Fresh, from: "open", decides: Nothing, act: |_, _| Ok(()) },
        Case { name: "open_again", base: Base::Dirty, from: "open", decides: Nothing, act: |_, _| Ok(()) },
        Case { name: "recover", base: Base::Broken, from: "open", decides: Decides::Tree, act: |_, _| Ok(()) },
    ]
}

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

// ---------------------------------------------------------------------------------------------------
// The child

fn mark(name: &str) {
    // Nothing is there: what counts is that strace sees the call.
    let _absent = fs::symlink_metadata(format!("{MARK}/{name}"));
}

/// Makes harmless calls of each kind that starting a test binary makes, too.
///
/// strace counts the calls of each thread and each kind by themselves, and a test runs in a thread of its
/// own: without this the first `write` of a change could not be told from the first of the test runner.
fn count_up() {
    use rustix::fs as raw;
    let absent = format!("{MARK}/absent");
    let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    let mut byte = [0];
    for _ in 0..120 {
        let _one = fs::File::open(&absent);
        let _two = fs::symlink_metadata(&absent);
        let _three = raw::statat(raw::CWD, &absent, raw::AtFlags::empty());
        let _four = raw::fstat(&null);
        let _five = raw::access(&absent, raw::Access::EXISTS);
        let _six = raw::readlink(&absent, Vec::new());
        let _seven = raw::readlinkat(raw::CWD, &absent, Vec::new());
        let _eight = rustix::io::read(&null, &mut byte);
        let _nine = rustix::io::pread(&null, &mut byte, 0);
        let _ten = rustix::io::write(&null, &byte);
        let _eleven = raw::seek(&null, raw::SeekFrom::Start(0));
        let _twelve = rustix::io::fcntl_getfd(&null);
    }
}

/// Opens a workspace and makes one change; told what by environment variables.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn child_operation() {
    let Ok(name) = std::env::var(CHILD) else { return };
    let place = PathBuf::from(std::env::var_os("HEDGEROW_TORTURE_PLACE").unwrap());
    let report = std::env::var_os("HEDGEROW_TORTURE_REPORT");
    if name == "naive" {
        count_up();
        mark("op");
        naive_rollback(&place).unwrap();
        mark("end");
        std::process::exit(0);
    }
    let case = case(&name);
    let work = Work::default();
    let tracer = tracer();
    let again = std::env::var_os("HEDGEROW_TORTURE_AGAIN").is_some();
    count_up();
    mark("open");
    let opened = open(&place);
    mark("op");
    let result = opened.as_ref().map_err(brief).and_then(|ws| (case.act)(ws, &work).map_err(|error| brief(&error)));
    mark("end");
    let Some(report) = report else { std::process::exit(i32::from(result.is_err())) };
    // The fault ends with the tracer.
    if let Some(tracer) = tracer {
        kill_process(tracer, Signal::KILL).unwrap();
    }
    let status = || fs::read_to_string("/proc/self/status");
    while !status().is_ok_and(|text| text.lines().any(|line| line == "TracerPid:\t0")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    age_locks(&store_of(&place));
    let seen = snapshot(&root_of(&place)).0;
    let mut retried = None;
    let mut then = None;
    if again && result.is_err() {
        let ws = opened.map_err(|error| brief(&error)).or_else(|_| open(&place).map_err(|error| brief(&error)));
        retried = Some(ws.and_then(|ws| (case.act)(&ws, &work).map_err(|error| brief(&error))));
        then = Some(snapshot(&root_of(&place)).0);
    }
    let said = serde_json::json!({ "result": result, "seen": seen, "retried": retried, "then": then });
    fs::write(report, said.to_string()).unwrap();
    std::process::exit(0);
}

fn brief(error: &Error) -> String {
    format!("{}: {error}", error.kind().code())
}

fn tracer() -> Option<Pid> {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

/// Lets the ref locks of killed writers look as old as they are when somebody comes back: a lock younger
/// than three seconds is waited for, which is right and would take this test an hour.
fn age_locks(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age_locks(&path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
    }
}

/// A rollback as one would write it in ten lines: away with what is there, and the copy back.
fn naive_rollback(place: &Path) -> std::io::Result<()> {
    fn fill(from: &Path, to: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(from)? {
            let (from, kind) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_type()?);
            let to = to.join(from.file_name().unwrap());
            if kind.is_dir() {
                fs::create_dir(&to)?;
                fill(&from, &to)?;
            } else if kind.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
            } else {
                fs::copy(&from, &to)?;
            }
        }
        fs::set_permissions(to, fs::metadata(from)?.permissions())
    }
    let root = root_of(place);
    fs::remove_dir_all(&root)?;
    fs::create_dir(&root)?;
    fill(&place.join("saved"), &root)
}

// ---------------------------------------------------------------------------------------------------
// Running a child

/// One system call of the change.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    /// Which one of its name in the whole process, from 1: that is how strace counts.
    nth: usize,
    changing: bool,
}

fn traced() -> String {
    let names: Vec<String> = watched_calls().map(|name| format!("?{name}")).collect();
    format!("trace={}", names.join(","))
}

fn kill_at(call: &Call) -> String {
    format!("inject={}:signal=SIGKILL:when={}", call.name, call.nth)
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

fn child(place: &Path, name: &str, strace: &[String]) -> Command {
    let mut command = Command::new("strace");
    command.args(strace).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child_operation", "--ignored", "--nocapture", "--test-threads=1", "-q"]);
    command.env(CHILD, name).env("HEDGEROW_TORTURE_PLACE", place).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn wait(mut command: Command) -> ExitStatus {
    let mut child =
        command.spawn().unwrap_or_else(|_| panic!("install strace: these tests run it (apt install strace)"));
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            return child.wait().unwrap();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(4));
    }
}

fn run_child(place: &Path, name: &str, inject: &[String]) -> ExitStatus {
    let mut options: Vec<String> = ["-f", "-qq", "-o", "/dev/null", "-e"].map(String::from).to_vec();
    // Not `--seccomp-bpf`: with it strace 6.1 forgets a signal that is not due at the first call.
    // Only what is injected into is traced: every other call runs at full speed.
    let names: Vec<&str> = inject.iter().filter_map(|one| one.strip_prefix("inject=")?.split(':').next()).collect();
    options.push(format!("trace={}", names.join(",")));
    for one in inject {
        options.extend(["-e".to_owned(), one.clone()]);
    }
    wait(child(place, name, &options))
}

/// Runs a change untouched and returns its calls from a mark to the end.
fn learn(place: &Path, name: &str, from: &str) -> Vec<Call> {
    let log = scratch();
    let log = log.path().join("trace");
    let options = ["-f", "-qq", "-s", "64", "-o", log.to_str().unwrap(), "-e", &traced()].map(String::from);
    let status = wait(child(place, name, &options));
    assert!(status.success(), "{name} fails when left alone: {status:?}");
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    let begin = format!("\"{MARK}/{from}\"");
    let end = format!("\"{MARK}/end\"");
    let main = text.lines().find(|line| line.contains(&begin)).unwrap().split_whitespace().next().unwrap();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut others: HashMap<(&str, &str), usize> = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut on = false;
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        let Some((call, arguments)) = rest.split_once('(') else { continue };
        if !watched_calls().any(|known| known == call) {
            continue;
        }
        if pid != main {
            *others.entry((pid, call)).or_default() += 1;
            continue;
        }
        let nth = counts.entry(call).or_default();
        *nth += 1;
        if arguments.contains(&begin) {
            on = true;
        } else if arguments.contains(&end) {
            break;
        } else if on && !arguments.contains(MARK) {
            let creates = OPENING.contains(&call) && (arguments.contains("O_CREAT") || arguments.contains("O_TRUNC"));
            let changing = creates || CHANGING.contains(&call);
            calls.push(Call { name: call.to_owned(), nth: *nth, changing });
        }
    }
    assert!(!calls.is_empty());
    // Else another thread would be hit before the one that makes the change.
    for ((_, name), count) in others {
        let first = calls.iter().find(|call| call.name == name).map_or(usize::MAX, |call| call.nth);
        assert!(first > count, "{name} is called {count} times elsewhere, and the change starts at {first}");
    }
    calls
}

/// Takes `count` of `all`, evenly, with the first and the last; all in a full run.
fn sample<T: Clone>(all: &[T], count: usize) -> Vec<T> {
    if is_full() || all.len() <= count {
        return all.to_vec();
    }
    (0..count).map(|at| all[at * (all.len() - 1) / (count - 1)].clone()).collect()
}

// ---------------------------------------------------------------------------------------------------
// What must hold

/// All that can be seen of a workspace.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    tree: Snapshot,
    checkpoints: Vec<String>,
    ids: Vec<ObjectId>,
    records: Vec<(u64, bool)>,
}

fn see(place: &Path, ws: &Workspace) -> std::result::Result<Seen, String> {
    let work = Work::default();
    let reader = ws.read_only();
    let checkpoints = reader.checkpoints(&work).map_err(|error| format!("checkpoints: {error}"))?;
    let records = reader.history(0, None, None, None, &work).map_err(|error| format!("history: {error}"))?;
    let records: Vec<(u64, bool)> =
        records.iter().map(|record| (record.sequence, record.status == Status::Applied)).collect();
    if let Some(gap) = records.windows(2).find(|pair| pair[1].0 != pair[0].0 + 1) {
        return Err(format!("the sequences have a gap at {gap:?}"));
    }
    Ok(Seen {
        tree: snapshot(&root_of(place)).0,
        checkpoints: checkpoints
            .iter()
            .map(|one| format!("{:?} {:?} {}", one.details.kind, one.labels, one.author))
            .collect(),
        ids: checkpoints.iter().map(|one| one.id).collect(),
        records,
    })
}

/// A base, what it looks like, and what it looks like after the change.
struct Stage {
    case: Case,
    _dir: tempfile::TempDir,
    base: PathBuf,
    before: Seen,
    after: Seen,
    /// What each checkpoint that was there before holds.
    held: Vec<(ObjectId, Snapshot)>,
    calls: Vec<Call>,
    bad: Vec<String>,
    tried: usize,
    checked: usize,
}

fn held(ws: &Workspace, id: ObjectId) -> std::result::Result<Snapshot, String> {
    let out = scratch();
    ws.materialize(out.path(), Some(&id.to_string()), &Work::default())
        .map_err(|error| format!("checkpoint {id} cannot be restored: {error}"))?;
    Ok(snapshot(out.path()).0)
}

impl Stage {
    fn new(case: Case) -> Self {
        let dir = scratch();
        let base = dir.path().join("base");
        prepare(&base, case.base);
        let look = dir.path().join("look");
        copy_tree(&base, &look);
        let (before, held) = {
            let tree = snapshot(&root_of(&look)).0;
            let ws = open(&look).unwrap();
            let seen = see(&look, &ws).unwrap();
            let held = seen.ids.iter().map(|id| (*id, held(&ws, *id).unwrap())).collect();
            (Seen { tree, ..seen }, held)
        };
        let (mut before, mut held): (Seen, Vec<_>) = (before, held);
        match case.base {
            // Every opening finishes the rollback: what was there before it has one checkpoint less.
            Base::Broken => {
                before.checkpoints.pop();
                before.ids.pop();
                held.pop();
            }
            // Every opening makes the first checkpoint, each with a time and so an id of its own.
            Base::Fresh => {
                before.ids.clear();
                held.clear();
            }
            _ => {}
        }
        fs::remove_dir_all(&look).unwrap();
        copy_tree(&base, &look);
        let calls = learn(&look, case.name, case.from);
        let after = see(&look, &open(&look).unwrap()).unwrap();
        if matches!(case.decides, Decides::Tree | Decides::Both) {
            assert!(before.tree != after.tree, "{} changes nothing", case.name);
        }
        fs::remove_dir_all(&look).unwrap();
        Stage { case, _dir: dir, base, before, after, held, calls, bad: vec![], tried: 0, checked: 0 }
    }

    fn place(&self) -> tempfile::TempDir {
        let dir = scratch();
        copy_tree(&self.base, dir.path());
        dir
    }

    /// Tells whether this is the state after (`true`) or before, or what is wrong.
    fn side(&self, seen: &Seen) -> std::result::Result<bool, String> {
        let (before, after) = (&self.before, &self.after);
        let tree = if seen.tree == after.tree {
            true
        } else if seen.tree == before.tree {
            false
        } else {
            let (to_before, to_after) = (difference(&seen.tree, &before.tree), difference(&seen.tree, &after.tree));
            let marks: Vec<&(u64, bool)> = seen.records.iter().filter(|record| !record.1).collect();
            return Err(format!(
                "the tree is neither; against {} (failed records: {marks:?})",
                if to_after.len() < to_before.len() {
                    format!("after: {to_after}")
                } else {
                    format!("before: {to_before}")
                }
            ));
        };
        let known = seen.checkpoints.iter().zip(&after.checkpoints).all(|(a, b)| a == b)
            && seen.checkpoints.len() <= after.checkpoints.len();
        let kept = seen.ids.starts_with(&before.ids);
        if !kept {
            return Err(format!("checkpoints are gone: {:?}", seen.checkpoints));
        }
        let done = seen.checkpoints == after.checkpoints;
        let as_before = seen.checkpoints == before.checkpoints;
        if self.case.decides != Decides::Nothing && !known && !as_before {
            return Err(format!("the checkpoints are neither: {:?}, not {:?}", seen.checkpoints, after.checkpoints));
        }
        let applied = |records: &[(u64, bool)]| records.iter().filter(|record| record.1).count();
        match self.case.decides {
            Decides::Nothing => Ok(true),
            Decides::Checkpoints => Ok(done),
            Decides::Both if tree == done => Ok(tree),
            Decides::Both => {
                Err(format!("the tree is {}, the checkpoints are {:?}", side_name(tree), seen.checkpoints))
            }
            Decides::Records if seen.records == after.records => Ok(true),
            Decides::Records if seen.records == before.records => Ok(false),
            Decides::Records => Err(format!("the records are neither: {:?}", seen.records)),
            Decides::Tree => {
                let want = if tree { applied(&after.records) } else { applied(&before.records) };
                if applied(&seen.records) == want || self.case.base == Base::Broken {
                    Ok(tree)
                } else {
                    Err(format!("the tree is {}, the records are {:?}", side_name(tree), seen.records))
                }
            }
        }
    }

    /// Opens what is left and demands everything; returns which state it is.
    fn check(&self, place: &Path, git: bool) -> std::result::Result<bool, String> {
        let work = Work::default();
        age_locks(&store_of(place));
        let said = |what: &'static str| move |error: Error| format!("{what}: {}", brief(&error));
        let ws = open(place).map_err(said("reopening"))?;
        let seen = see(place, &ws)?;
        let side = self.side(&seen)?;
        let listed = ws.walk(b".", None, &work).map_err(said("walking"))?;
        if let Some(found) = listed.iter().find(|found| found.path.name().is_some_and(is_temp_name)) {
            return Err(format!("a temporary file is seen: {}", found.path));
        }
        for (id, tree) in &self.held {
            let found = held(&ws, *id)?;
            if found != *tree {
                return Err(format!("checkpoint {id} holds something else: {}", difference(&found, tree)));
            }
        }
        for id in seen.ids.iter().skip(self.held.len()) {
            let found = held(&ws, *id)?;
            if found != self.before.tree && found != self.after.tree {
                return Err(format!("a checkpoint of neither state: {}", difference(&found, &self.before.tree)));
            }
        }
        if git {
            fsck(&store_of(place))?;
        }
        // Life goes on: another write, another checkpoint, back to the first and to the newest.
        ws.write(b"later/l.txt", b"later\n", parents(), &work).map_err(said("a later write"))?;
        let newest = ws.checkpoint(Some("later"), None, &work).map_err(said("a later checkpoint"))?;
        let (now, temporary) = snapshot(&root_of(place));
        if !temporary.is_empty() {
            return Err(format!("temporary files stay: {temporary:?}"));
        }
        if held(&ws, newest.id)? != now {
            return Err("a later checkpoint holds something else than the tree".to_owned());
        }
        if let Some((first, tree)) = self.held.first() {
            ws.rollback(&first.to_string(), None, None, None, &work).map_err(said("a later rollback"))?;
            let found = snapshot(&root_of(place)).0;
            if found != *tree {
                return Err(format!("a later rollback ended elsewhere: {}", difference(&found, tree)));
            }
            ws.rollback("later", None, None, None, &work).map_err(said("a rollback of the rollback"))?;
            let found = snapshot(&root_of(place)).0;
            if found != now {
                return Err(format!("the rollback of a rollback ended elsewhere: {}", difference(&found, &now)));
            }
        }
        let last = see(place, &ws)?;
        drop(ws);
        let ws = open(place).map_err(said("reopening again"))?;
        if see(place, &ws)? != last {
            return Err("another reopening shows something else".to_owned());
        }
        if git { fsck(&store_of(place)).map(|()| side) } else { Ok(side) }
    }

    fn note(&mut self, point: &str, result: std::result::Result<(), String>) {
        self.tried += 1;
        if let Err(wrong) = result {
            self.bad.push(format!("{point}: {wrong}"));
        }
    }

    /// Git costs more than all the rest, so it looks at every fifth point.
    fn asks_git(&mut self) -> bool {
        self.checked += 1;
        is_full() || self.checked % 5 == 1
    }

    fn finish(self, what: &str, of: usize) -> usize {
        let (tried, bad) = (self.tried, self.bad.len());
        say(&format!("{what:<8}{:<18}{tried:>5} of {of:>5} points, {bad} bad states", self.case.name));
        for wrong in self.bad.iter().take(8) {
            say(&format!("        {wrong}"));
        }
        bad
    }
}

fn side_name(after: bool) -> &'static str {
    if after { "after" } else { "before" }
}

fn fsck(store: &Path) -> std::result::Result<(), String> {
    match common::git(store, common::FSCK) {
        (true, said) if common::complaints(&said).is_empty() => Ok(()),
        (_, said) => Err(format!("git fsck: {said}")),
    }
}

// ---------------------------------------------------------------------------------------------------
// The sweeps

fn kill_sweep(name: &str) {
    let mut stage = Stage::new(case(name));
    let all = stage.calls.clone();
    let points = if is_full() { all } else { all.into_iter().filter(|call| call.changing).collect() };
    let mut unreached = 0;
    for call in sample(&points, KILLS) {
        let place = stage.place();
        let status = run_child(place.path(), name, &[kill_at(&call)]);
        let git = stage.asks_git();
        let result = if was_killed(status) {
            stage.check(place.path(), git).map(drop)
        } else if status.success() {
            unreached += 1;
            stage.check(place.path(), git).and_then(|after| {
                if after { Ok(()) } else { Err("nobody was killed, and nothing happened".to_owned()) }
            })
        } else {
            Err(format!("the child ended by itself: {status:?}"))
        };
        stage.note(&format!("{} {}", call.name, call.nth), result);
    }
    let tried = stage.tried;
    let bad = stage.finish("killed", points.len());
    assert_eq!(bad, 0, "{name}: states that are neither before nor after");
    // How often a call is made differs a little between runs, by the timing of threads; no more than that.
    assert!(unreached * 20 <= tried, "{name}: {unreached} of {tried} kills were not reached");
}

/// Kills the recovery from a kill, at each point of it.
#[test]
fn a_recovery_that_is_killed_is_finished_by_the_next() {
    let mut stage = Stage::new(case("rollback"));
    let changing: Vec<Call> = stage.calls.iter().filter(|call| call.changing).cloned().collect();
    let (mut of, every) = (0, if is_full() { usize::MAX } else { 5 });
    // The last calls that change something belong to the rollback itself: what is before is its record.
    for call in sample(&changing, 12) {
        let broken = stage.place();
        assert!(was_killed(run_child(broken.path(), "rollback", &[kill_at(&call)])));
        age_locks(&store_of(broken.path()));
        let copy = scratch();
        copy_tree(broken.path(), copy.path());
        let calls: Vec<Call> =
            learn(copy.path(), "open_again", "open").into_iter().filter(|call| call.changing).collect();
        of += calls.len();
        for second in sample(&calls, every) {
            let place = scratch();
            copy_tree(broken.path(), place.path());
            age_locks(&store_of(place.path()));
            run_child(place.path(), "open_again", &[kill_at(&second)]);
            let git = stage.asks_git();
            let result = stage.check(place.path(), git).map(drop);
            stage.note(&format!("{} {}, then {} {}", call.name, call.nth, second.name, second.nth), result);
        }
    }
    assert_eq!(stage.finish("twice", of), 0, "states that are neither before nor after");
}

/// One fault: the calls it hits, and how.
struct Fault {
    name: String,
    /// Whether it stays until the process has given up.
    lasting: bool,
    inject: Vec<String>,
}

fn takes_space(call: &Call) -> bool {
    let frees = ["unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "fchmodat2", "fchown", "ftruncate"];
    call.changing && !frees.contains(&call.name.as_str())
}

fn faults(calls: &[Call]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let opens = OPENING.contains(&call.name.as_str());
        let syncs = matches!(call.name.as_str(), "fsync" | "fdatasync" | "syncfs");
        let mut kinds = vec!["EIO"];
        if takes_space(call) {
            kinds.push("ENOSPC");
        }
        if opens {
            kinds.push("EMFILE");
        }
        for errno in kinds {
            faults.push(Fault {
                name: format!("{errno} once at {} {}", call.name, call.nth),
                lasting: false,
                inject: vec![format!("inject={}:error={errno}:when={}", call.name, call.nth)],
            });
            // From here on: every call such a fault can hit.
            if errno == "EIO" && !call.changing && !syncs {
                continue;
            }
            let hit = |other: &Call| match errno {
                "EMFILE" => OPENING.contains(&other.name.as_str()),
                "ENOSPC" => takes_space(other) && !OPENING.contains(&other.name.as_str()),
                _ => other.changing && !OPENING.contains(&other.name.as_str()) || syncs && other.name == call.name,
            };
            let mut first: BTreeMap<&str, usize> = BTreeMap::new();
            first.insert(&call.name, call.nth);
            for other in calls[at..].iter().filter(|other| hit(other)) {
                first.entry(&other.name).or_insert(other.nth);
            }
            faults.push(Fault {
                name: format!("{errno} from {} {} on", call.name, call.nth),
                lasting: true,
                inject: first.iter().map(|(name, nth)| format!("inject={name}:error={errno}:when={nth}+")).collect(),
            });
        }
    }
    faults
}

fn failure_sweep(name: &str) {
    let mut stage = Stage::new(case(name));
    let all = faults(&stage.calls);
    let indices: Vec<usize> = (0..all.len()).collect();
    for (round, at) in sample(&indices, FAILURES).into_iter().enumerate() {
        let fault = &all[at];
        let place = stage.place();
        let report = place.path().join("report");
        let again = round % 2 == 0;
        // Detached, so that the child is ours and can end the fault by ending the tracer. Not with
        // `--seccomp-bpf`: without a tracer such a child can call nothing any more.
        let mut options: Vec<String> = ["-D", "-f", "-qq", "-o", "/dev/null", "-e"].map(String::from).to_vec();
        let names: Vec<&str> =
            fault.inject.iter().filter_map(|one| one.strip_prefix("inject=")?.split(':').next()).collect();
        options.push(format!("trace={}", names.join(",")));
        for one in &fault.inject {
            options.extend(["-e".to_owned(), one.clone()]);
        }
        let mut command = child(place.path(), name, &options);
        command.env("HEDGEROW_TORTURE_REPORT", &report);
        if again {
            command.env("HEDGEROW_TORTURE_AGAIN", "1");
        }
        let status = wait(command);
        let git = stage.asks_git();
        let result = judge(&stage, place.path(), status, &report, fault.lasting, git);
        stage.note(&fault.name, result);
    }
    let bad = stage.finish("failing", all.len());
    assert_eq!(bad, 0, "{name}: failures that left something behind");
}

/// Compares what the child saw and what is left with what it was told.
///
/// While a fault lasts nothing can be put back, so there the process may see half a change; what counts
/// is that the next opening, or a retry, finds or makes it whole. Whole is then either state.
fn judge(
    stage: &Stage,
    place: &Path,
    status: ExitStatus,
    report: &Path,
    lasting: bool,
    git: bool,
) -> std::result::Result<(), String> {
    let Ok(text) = fs::read(report) else {
        return Err(format!("the child panicked or hung: {status:?}"));
    };
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let error = said["result"]["Err"].as_str();
    let seen: Snapshot = serde_json::from_value(said["seen"].clone()).unwrap();
    let tree_decides = matches!(stage.case.decides, Decides::Tree | Decides::Both);
    let wanted = if error.is_some() { &stage.before.tree } else { &stage.after.tree };
    let told = error.unwrap_or("success");
    if tree_decides && stage.case.base != Base::Broken && seen != *wanted && !(lasting && error.is_some()) {
        return Err(format!("{told}, and the process sees {}", difference(&seen, wanted)));
    }
    let mut expected = error.is_none();
    if !said["retried"].is_null() {
        if let Some(error) = said["retried"]["Err"].as_str() {
            return Err(format!("{told}, and the retry fails: {error}"));
        }
        let then: Snapshot = serde_json::from_value(said["then"].clone()).unwrap();
        if tree_decides && then != stage.after.tree {
            return Err(format!("{told}, and the retry ends elsewhere: {}", difference(&then, &stage.after.tree)));
        }
        expected = true;
    }
    let retried = !said["retried"].is_null();
    match stage.check(place, git) {
        // A retry may stand on what the first try kept: one more checkpoint, one more failed record.
        Err(wrong) if retried && wrong.starts_with("the checkpoints are neither") => Ok(()),
        Err(wrong) => {
            Err(format!("{told}{}, and a reopening shows: {wrong}", if retried { " with retry" } else { "" }))
        }
        Ok(_) if stage.case.decides == Decides::Nothing || stage.case.base == Base::Broken || lasting => Ok(()),
        Ok(side) if side == expected => Ok(()),
        Ok(side) => Err(format!("{told}, and a reopening shows the state {}", side_name(side))),
    }
}

macro_rules! sweeps {
    ($($name:ident)*) => {
        mod killed {
            $(#[test] fn $name() { super::kill_sweep(stringify!($name)); })*
        }
        mod failing {
            $(#[test] fn $name() { super::failure_sweep(stringify!($name)); })*
        }
        #[test]
        fn every_case_is_swept() {
            let swept = [$(stringify!($name)),*];
            assert!(cases().iter().map(|case| case.name).eq(swept));
        }
    };
}

sweeps! {
    write_over write_new append edit create mkdir copy_file copy_tree move_over move_dir remove_tree remove_file
    chmod chmod_dir symlink hardlink first_write checkpoint_few checkpoint_many checkpoint_first checkpoint_named
    rollback rollback_saved rollback_paths undo_writer prune_history open_first open_again recover
}

// ---------------------------------------------------------------------------------------------------
// A full disk

/// A file system of its own size, gone when dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "hedgerow-torture"])
            .arg(dir.path())
            .output()
            .ok()?;
        output.status.success().then_some(Mount(dir))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Gives a change a little more space each time, until it has enough.
fn full_disk(name: &str) -> Option<usize> {
    let work = Work::default();
    let mut stage = Stage::new(case(name));
    let page = 4096;
    let mount = Mount::new("size=8m")?;
    for free in 0..400 {
        let place = mount.0.path().join("place");
        let _absent = fs::remove_dir_all(&place);
        copy_tree(&stage.base, &place);
        let opened = open(&place);
        let filler = mount.0.path().join("filler");
        let room = rustix::fs::statvfs(mount.0.path()).unwrap();
        let take = room.f_bavail.saturating_sub(free) * room.f_bsize / page * page;
        fs::write(&filler, vec![1; usize::try_from(take).unwrap()]).unwrap();
        let result = opened.as_ref().map_err(brief).and_then(|ws| (stage.case.act)(ws, &work).map_err(|e| brief(&e)));
        let seen = snapshot(&root_of(&place)).0;
        let point = format!("{free} pages free");
        let wanted = if result.is_ok() { &stage.after.tree } else { &stage.before.tree };
        let mut verdict = Ok(());
        // A rollback that only its checkpoint did not fit in any more cannot be put back without space either:
        // whoever comes next takes it back.
        let late = name == "rollback" && result.is_err();
        if matches!(stage.case.decides, Decides::Tree | Decides::Both) && seen != *wanted && !late {
            verdict = Err(format!("{result:?}, and the process sees {}", difference(&seen, wanted)));
        }
        fs::remove_file(&filler).unwrap();
        if let (Err(_), Ok(ws), Ok(())) = (&result, &opened, &verdict)
            && free % 4 == 0
            && let Err(error) = (stage.case.act)(ws, &work)
        {
            verdict = Err(format!("{result:?}, and with space the retry fails: {}", brief(&error)));
        }
        drop(opened);
        let git = stage.asks_git();
        let verdict = verdict.and_then(|()| match stage.check(&place, git) {
            Err(wrong) if free % 4 == 0 && wrong.starts_with("the checkpoints are neither") => Ok(()),
            Err(wrong) => Err(format!("{result:?}: {wrong}")),
            Ok(side) if side == (result.is_ok() || free % 4 == 0) || stage.case.decides == Decides::Nothing => Ok(()),
            Ok(side) => Err(format!("{result:?}, and a reopening shows the state {}", side_name(side))),
        });
        stage.note(&point, verdict);
        if result.is_ok() {
            break;
        }
    }
    let tried = stage.tried;
    Some(stage.finish("full", tried))
}

#[test]
fn a_full_disk_leaves_the_state_before() {
    let names = [
        "write_over",
        "write_new",
        "copy_tree",
        "remove_tree",
        "first_write",
        "checkpoint_few",
        "checkpoint_many",
        "rollback",
        "prune_history",
    ];
    let (mut bad, mut skipped) = (0, 0);
    for name in names {
        match full_disk(name) {
            Some(found) => bad += found,
            None => skipped += 1,
        }
    }
    if skipped > 0 {
        say(&format!("full    SKIPPED: {skipped} of {} changes, because this user may not mount a tmpfs", names.len()));
    }
    assert_eq!(bad, 0, "changes that a full disk left half done");
}

// ---------------------------------------------------------------------------------------------------
// The harness bites

#[test]
fn a_naive_rollback_is_caught() {
    let dir = scratch();
    let base = dir.path().join("base");
    prepare(&base, Base::Fresh);
    copy_tree(&root_of(&base), &base.join("saved"));
    put(&base, "a.txt", b"changed\n", 0o644);
    put(&base, "more.txt", b"more\n", 0o644);
    let (before, after) = (snapshot(&root_of(&base)).0, snapshot(&base.join("saved")).0);
    let run = dir.path().join("run");
    copy_tree(&base, &run);
    let calls: Vec<Call> = learn(&run, "naive", "op").into_iter().filter(|call| call.changing).collect();
    let mut bad = 0;
    for call in &calls {
        fs::remove_dir_all(&run).unwrap();
        copy_tree(&base, &run);
        let status = run_child(&run, "naive", &[kill_at(call)]);
        assert!(was_killed(status), "{call:?}: {status:?}");
        let (seen, _) = if root_of(&run).is_dir() { snapshot(&root_of(&run)) } else { Default::default() };
        bad += usize::from(seen != before && seen != after);
    }
    say(&format!(
        "control {:<18}{:>5} of {:>5} points, {bad} bad states (wanted: many)",
        "naive",
        calls.len(),
        calls.len()
    ));
    assert!(bad > calls.len() / 2, "the harness does not bite");
}
