//! The jail while somebody keeps exchanging what it walks over.
//!
//! A second thread swaps a directory with a link to the outside (or a file with a link, or moves the
//! directory or the root away and back) as fast as it can, while each operation runs 20,000 times on
//! each resolver (`HEDGEROW_RACE_ROUNDS` for more). An operation may work or fail; it must never read
//! an outside byte nor change anything outside. Control, measured with the
//! first scenario: a reader that resolves the path, checks that it lies inside and then opens it read
//! 1,055 secrets in 94,758 tries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]
#![allow(clippy::unused_result_ok, reason = "the swapper does not care which of its moves fail")]
#![allow(clippy::disallowed_methods, reason = "the tests build and inspect what the jail is locked into")]

use hedgerow::core::cancel::Work;
use hedgerow::core::error::{Error, ErrorKind, Result};
use hedgerow::core::fs::jail::{Follow, Jail, Place, Replace, ResolverChoice};
use hedgerow::core::path::{RawPath, WsPath};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SECRET: &[u8] = b"TOP SECRET";

fn rounds() -> usize {
    std::env::var("HEDGEROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// `root/d/sub/f` inside, the same names with secrets outside, and `root/l`, a link to those.
struct World {
    _temp: tempfile::TempDir,
    top: PathBuf,
}

impl World {
    fn new(link: &str) -> Self {
        let shm = Path::new("/dev/shm");
        let temp = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        let top = fs::canonicalize(temp.path()).unwrap();
        for (place, text) in [("root/d", b"INSIDE".as_slice()), ("out", SECRET)] {
            fs::create_dir_all(top.join(place).join("sub")).unwrap();
            for name in ["f", "sub/f", "a"] {
                fs::write(top.join(place).join(name), text).unwrap();
            }
        }
        fs::write(top.join("root/f"), "INSIDE").unwrap();
        fs::create_dir(top.join("away")).unwrap();
        symlink(link.replace("{top}", top.to_str().unwrap()), top.join("root/l")).unwrap();
        World { _temp: temp, top }
    }

    fn outside(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.top.join("out")];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let stat = fs::symlink_metadata(&path).unwrap();
                let bytes = if stat.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if stat.is_dir() {
                    pending.push(path.clone());
                }
                found.insert(path, (stat.mode(), bytes));
            }
        }
        found
    }
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    link: &'static str,
    swap: fn(&Path),
}

fn exchange(left: &Path, right: &Path) {
    renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE).ok();
}

fn there_and_back(here: &Path, there: &Path) {
    fs::rename(here, there).ok();
    fs::rename(there, here).ok();
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "directory and absolute link",
        link: "{top}/out",
        swap: |top| exchange(&top.join("root/d"), &top.join("root/l")),
    },
    Scenario {
        name: "directory and relative link",
        link: "../out",
        swap: |top| exchange(&top.join("root/d"), &top.join("root/l")),
    },
    Scenario {
        name: "file and link",
        link: "{top}/out/f",
        swap: |top| exchange(&top.join("root/d/f"), &top.join("root/l")),
    },
    Scenario {
        name: "directory moved out",
        link: "{top}/out",
        swap: |top| there_and_back(&top.join("root/d"), &top.join("away/d")),
    },
    Scenario {
        name: "root moved",
        link: "{top}/out",
        swap: |top| there_and_back(&top.join("root"), &top.join("away/root")),
    },
];

fn path(text: &str) -> WsPath {
    WsPath::new(text).unwrap()
}

fn put(place: &Place, exclusive: bool) -> Result<()> {
    let mut write = |out: &mut dyn Write| out.write_all(b"INSIDE").map_err(|error| Error::io(&error, "writing"));
    place.replace(&mut write, Replace { exclusive, ..Replace::default() }).map(drop)
}

/// Runs `act` many times beside the swapper; it returns whether it got through.
fn race(act: fn(&Jail, usize) -> Result<()>, rounds: usize) {
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        for scenario in SCENARIOS {
            let world = World::new(scenario.link);
            let jail = Jail::open(&world.top.join("root"), resolver, false).unwrap();
            let before = world.outside();
            let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
            let (mut passed, mut refused) = (0, 0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        (scenario.swap)(&world.top);
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                });
                for round in 0..rounds {
                    match act(&jail, round) {
                        Ok(()) => passed += 1,
                        Err(error) => {
                            assert_ne!(error.kind(), ErrorKind::Bug, "{}: {error}", scenario.name);
                            refused += 1;
                        }
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(before, world.outside(), "{}: the outside changed", scenario.name);
            report(&format!(
                "{resolver:?}, {}: {passed} passed, {refused} refused, {} swaps, 0 escapes",
                scenario.name,
                swaps.into_inner()
            ));
        }
    }
}

#[expect(clippy::print_stderr, reason = "shown by cargo test only on request")]
fn report(text: &str) {
    eprintln!("{text}");
}

fn no_secret(bytes: &[u8]) {
    assert_ne!(bytes, SECRET, "an outside byte was read");
}

// rows: B34
#[test]
fn case_a15_reading_stays_inside() {
    race(
        |jail, round| {
            let at = path(["d/f", "d/sub/f", "d/sub/../f"][round % 2]);
            if round % 4 == 3 {
                let found = jail.open_file(&at)?;
                no_secret(&found.read_all(100)?);
            }
            if let Ok(Some(bytes)) = jail.try_read(&at, None, 100) {
                no_secret(&bytes);
            }
            no_secret(&jail.read(&at, None)?);
            Ok(())
        },
        rounds(),
    );
}

#[test]
fn case_a16_looking_stays_inside() {
    race(
        |jail, round| match round % 4 {
            0 => jail.lookup(&path("d/f"), Follow::Yes).map(|found| {
                if let Some((at, stat)) = found {
                    assert_eq!(at, path("d/f"));
                    assert_eq!(stat.size, 6);
                }
            }),
            1 => {
                let dir = jail.dir(&path("d"))?;
                assert_eq!(dir.path(), &path("d"));
                for (name, stat) in dir.entries_with_stat()? {
                    assert!(
                        stat.size != SECRET.len() as u64 || stat.kind != hedgerow::core::fs::jail::Kind::File,
                        "{name}"
                    );
                }
                Ok(())
            }
            2 => {
                let dir = jail.dir(&path("d/sub"))?;
                no_secret(&dir.open_file(b"f")?.read_all(100)?);
                Ok(())
            }
            _ => {
                let at = jail.canonical(&RawPath::parse(b"d/sub/../../f")?)?;
                assert_eq!(at, path("f"));
                Ok(())
            }
        },
        rounds(),
    );
}

#[test]
fn case_a17_writing_stays_inside() {
    race(
        |jail, round| match round % 3 {
            0 => put(&jail.place(&path("d/f"), Follow::Yes)?, false),
            1 => {
                let place = jail.place(&path("d/sub/new"), Follow::No)?;
                put(&place, true)?;
                place.remove_file()
            }
            _ => jail.place(&path("d/f"), Follow::Yes)?.chmod(if round % 2 == 0 { 0o644 } else { 0o600 }),
        },
        rounds(),
    );
}

#[test]
fn case_a23_names_are_changed_inside() {
    race(
        |jail, round| match round % 4 {
            0 => {
                let (place, _) = jail.place_creating(&path("d/x/y/z"), Follow::Yes, 0o755)?;
                place.make_dir(0o755)
            }
            1 => jail.place(&path("d/x"), Follow::No)?.remove_tree(&Work::default()),
            2 => {
                let (from, to) = if round % 8 < 4 { ("d/a", "d/sub/a") } else { ("d/sub/a", "d/a") };
                jail.place(&path(from), Follow::No)?.rename_to(&jail.place(&path(to), Follow::No)?, true)
            }
            _ => {
                let place = jail.place(&path("d/link"), Follow::No)?;
                place.symlink(b"/nowhere", true)?;
                jail.place(&path("d/f"), Follow::No)?.hard_link_to(&jail.place(&path("d/hard"), Follow::No)?)?;
                jail.place(&path("d/hard"), Follow::No)?.remove_file()
            }
        },
        rounds(),
    );
}

/// A directory of the tree is exchanged for a link to the outside while the tree is removed.
#[test]
fn case_a18_removing_a_tree_stays_inside() {
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let world = World::new("{top}/out");
        let jail = Jail::open(&world.top.join("root"), resolver, false).unwrap();
        let before = world.outside();
        let stop = AtomicBool::new(false);
        let tree = world.top.join("root/t");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Never by a path through what is exchanged: the swapper has no jail.
                    exchange(&tree.join("d"), &tree.join("l"));
                    exchange(&tree.join("e/sub"), &tree.join("m"));
                    there_and_back(&tree.join("d"), &world.top.join("away/d"));
                }
            });
            for _ in 0..rounds() {
                // Built elsewhere and moved in, or the builder itself would walk through the links.
                let stage = world.top.join("stage");
                fs::create_dir_all(stage.join("d/sub/deep")).unwrap();
                fs::create_dir_all(stage.join("e/sub/deep")).unwrap();
                fs::write(stage.join("d/sub/f"), "INSIDE").unwrap();
                symlink(world.top.join("out"), stage.join("l")).ok();
                symlink("../../out", stage.join("m")).ok();
                fs::rename(&stage, &tree).ok();
                for _ in 0..3 {
                    match jail.place(&path("t"), Follow::No).and_then(|place| place.remove_tree(&Work::default())) {
                        Ok(()) => break,
                        Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "{error}"),
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(before, world.outside(), "the outside changed");
    }
}
