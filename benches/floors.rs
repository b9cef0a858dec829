//! What the floors of the core cost, each beside the plainest way of doing the same: the figures that
//! headers of modules quote. `cargo bench` prints them; `tests/bench/run.py` measures whole calls from Python.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may fail by panic")]
#![allow(clippy::disallowed_methods, reason = "the benchmark makes its own directories")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hedgerow::core::cancel::Work;
use hedgerow::core::content::ObjectId;
use hedgerow::core::fs::ResolverChoice;
use hedgerow::core::fs::jail::{Follow, Jail, Replace};
use hedgerow::core::path::WsPath;
use hedgerow::core::tree::diff::diff;
use hedgerow::core::tree::{DIRECTORY_MODE, Entry, FILE_MODE, Tree};
use hedgerow::core::workspace::{OpenOptions, Options, Workspace, WriteOptions};
use rustix::fs::{Mode, OFlags};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

const SIZE: usize = 4096;

fn path(text: &str) -> WsPath {
    WsPath::new(text).unwrap()
}

fn jail(root: &Path) -> Jail {
    std::fs::create_dir_all(root.join("src/package")).unwrap();
    std::fs::write(root.join("src/package/module.py"), vec![b'x'; SIZE]).unwrap();
    Jail::open(root, ResolverChoice::Auto, false).unwrap()
}

/// `fs/jail/handle.rs`: a second look-up of the name, or the handle again through procfs.
fn read(c: &mut Criterion) {
    let place = tempfile::tempdir().unwrap();
    let jail = jail(place.path());
    let (name, host) = (path("src/package/module.py"), place.path().join("src/package/module.py"));
    let mut group = c.benchmark_group("read 4 KB");
    group.bench_function("jail", |b| b.iter(|| jail.read(&name, None).unwrap()));
    group.bench_function("std::fs::read, no jail", |b| b.iter(|| std::fs::read(&host).unwrap()));
    group.bench_function("O_PATH, then through procfs", |b| {
        b.iter(|| {
            let handle = rustix::fs::open(&host, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
            rustix::fs::fstat(&handle).unwrap();
            let number = std::os::fd::AsRawFd::as_raw_fd(&handle);
            std::fs::read(format!("/proc/self/fd/{number}")).unwrap()
        });
    });
    group.finish();
}

/// `fs/jail/place.rs`: exchanging two names, or renaming over one, which on ext4 waits for the new bytes.
fn replace(c: &mut Criterion) {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let jail = jail(place.path());
    let bytes = vec![b'y'; SIZE];
    let host = place.path().join("src/package/module.py");
    let target = jail.place(&path("src/package/module.py"), Follow::No).unwrap();
    let mut group = c.benchmark_group("replace 4 KB");
    group.bench_function("jail, names exchanged", |b| {
        let how = || Replace { mode: None, exclusive: false, keep_metadata: true, sync: false };
        let mut write = |out: &mut dyn Write| {
            out.write_all(&bytes).unwrap();
            Ok(())
        };
        b.iter(|| target.replace(&mut write, how()).unwrap());
    });
    group.bench_function("written beside and renamed over, no jail", |b| {
        let aside = place.path().join("src/package/aside");
        b.iter(|| {
            std::fs::write(&aside, &bytes).unwrap();
            std::fs::rename(&aside, &host).unwrap();
        });
    });
    group.finish();
}

/// `core/content.rs`: ids are checked for collisions.
fn hash(c: &mut Criterion) {
    let bytes = vec![b'z'; SIZE];
    c.bench_function("id of 4 KB", |b| b.iter(|| ObjectId::hash("blob", black_box(&bytes))));
}

/// `core/tree`: a change costs its path, a difference what differs.
fn trees(c: &mut Criterion) {
    let mut group = c.benchmark_group("tree");
    for files in [1_000, 50_000] {
        let mut tree = Tree::default();
        for number in 0..files / 20 {
            let directory = Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE };
            tree.insert(&path(&format!("d{number}")), directory).unwrap();
            for file in 0..20 {
                tree.insert(&path(&format!("d{number}/f{file}")), Entry::file(b"old", FILE_MODE)).unwrap();
            }
        }
        let changed = path("d7/f3");
        group.bench_function(format!("one change, {files} files"), |b| {
            b.iter_batched(
                || tree.clone(),
                |mut tree| tree.insert(&changed, Entry::file(b"new", FILE_MODE)).unwrap(),
                BatchSize::SmallInput,
            );
        });
        let mut other = tree.clone();
        other.insert(&changed, Entry::file(b"new", FILE_MODE)).unwrap();
        group.bench_function(format!("difference of one, {files} files"), |b| {
            b.iter(|| assert_eq!(diff(&tree, &other).unwrap().len(), 1));
        });
    }
    group.finish();
}

/// `fs/disk/scan.rs` and `workspace`: whole calls without Python.
fn workspace(c: &mut Criterion) {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (root, work) = (place.path().join("root"), Work::default());
    for number in 0..5_000 {
        let directory = root.join(format!("d{}", number / 20));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("f{number}")), format!("{number}\n")).unwrap();
    }
    // Files are trusted to be unchanged once they are older than a tick of the clock.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let options = Options { store: Some(place.path().join("store")), ..Options::default() };
    let on_disk = Workspace::open(&root, options, &OpenOptions::default(), &work).unwrap();
    let in_memory = Workspace::memory(Options::default()).unwrap();
    let writing = WriteOptions { parents: true, create_only: false, if_hash: None, author: None };
    let bytes = vec![b'w'; SIZE];
    let mut group = c.benchmark_group("workspace");
    group.sample_size(20);
    group.bench_function("checkpoint of 5,000 unchanged files", |b| {
        b.iter(|| on_disk.checkpoint(None, None, &work).unwrap());
    });
    for (name, workspace) in [("disk", &on_disk), ("memory", &in_memory)] {
        group.bench_function(format!("write 4 KB, recorded, {name}"), |b| {
            b.iter(|| workspace.write(b"d1/f20", &bytes, writing, &work).unwrap());
        });
        workspace.prune_history(u64::MAX, &work).unwrap();
    }
    group.finish();
}

criterion_group!(floors, read, replace, hash, trees, workspace);
criterion_main!(floors);
