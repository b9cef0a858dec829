//! The store beside real git: what plain git says of it, and what is left of it after git has been at it.
//!
//! Needs `git` on the path. The figures are printed by
//! `cargo test --release --test store_git -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail by panic, and prints its figures")]
#![allow(clippy::disallowed_methods, reason = "the tests run git and inspect the store with it")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers made up here are small"
)]
#![allow(clippy::used_underscore_binding, clippy::many_single_char_names, reason = "guards are kept by name")]

mod common;

use hedgerow::core::cancel::Work;
use hedgerow::core::content::ObjectId;
use hedgerow::core::error::ErrorKind;
use hedgerow::core::path::WsPath;
use hedgerow::core::store::checkpoint::{CheckpointKind, Details};
use hedgerow::core::store::commit::CommitData;
use hedgerow::core::store::names::{EMPTY_TREE, TreeItem, TreeMode, decode_tree, encode_tree};
use hedgerow::core::store::objects::{ObjectKind, Objects};
use hedgerow::core::store::past::{GitPast, MemoryPast, NewCheckpoint, Past};
use hedgerow::core::store::refs::Refs;
use hedgerow::core::tree::{Entry, Tree};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const MAIN: &str = "refs/heads/ws/main";

fn git(store: &Path, args: &[&str]) -> String {
    let (done, said) = common::git(store, args);
    assert!(done, "git {args:?}: {said}");
    said
}

/// Fails for a warning, too.
fn fsck(store: &Path) {
    let said = git(store, common::FSCK);
    assert!(common::complaints(&said).is_empty(), "{said}");
}

/// Name and content.
type Files = BTreeMap<Vec<u8>, Vec<u8>>;

struct Fixture {
    _dir: tempfile::TempDir,
    path: PathBuf,
    objects: Arc<Objects>,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/store");
    let objects = Objects::open(&path, true).unwrap();
    Fixture { _dir: dir, path, objects }
}

/// Bytes that look like program text, different for each number.
fn text(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words: [&[u8]; 16] = [
        b"let ", b"return ", b"value", b" = ", b"self.", b"(", b");\n", b"    ", b"name", b"if ", b"else ", b"{\n",
        b"}\n", b"for ", b"1024", b"error",
    ];
    let mut out = format!("// {number}\n").into_bytes();
    while out.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(words[(state >> 60) as usize]);
        if state & 0xf000 == 0 {
            out.extend_from_slice(format!("{:x}", state >> 32).as_bytes());
        }
    }
    out.truncate(len);
    out
}

fn noise(number: u64, len: usize) -> Vec<u8> {
    let mut state = number | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// Writes files as one commit on `main`.
fn commit(objects: &Arc<Objects>, files: &Files, label: &str, number: i64) -> ObjectId {
    let batch = objects.batch().unwrap();
    let ids: Vec<_> = files.values().map(|bytes| batch.put(ObjectKind::Blob, bytes).unwrap()).collect();
    let items: Vec<_> =
        files.keys().zip(&ids).map(|(name, id)| TreeItem { name, mode: TreeMode::File, id: *id }).collect();
    let tree = batch.put(ObjectKind::Tree, &encode_tree(&items)).unwrap();
    let refs = Refs::new(Arc::clone(objects));
    let parent = refs.read(MAIN).unwrap();
    let data = CommitData {
        tree,
        parents: parent.into_iter().collect(),
        author: "agent <one>\n".into(),
        time_ms: 1_700_000_000_000 + number * 1000,
        label: Some(label.into()),
        extra: serde_json::Map::new(),
    };
    let id = batch.put(ObjectKind::Commit, &data.encode().unwrap()).unwrap();
    batch.finish().unwrap();
    refs.write(MAIN, id, parent).unwrap();
    id
}

fn history(objects: &Arc<Objects>, checkpoints: i64) -> Vec<(ObjectId, Files)> {
    let mut files: Files =
        (0..30).map(|n| (format!("file{n}.rs").into_bytes(), text(n, 3000 + 400 * n as usize))).collect();
    (0..checkpoints)
        .map(|number| {
            let name = format!("file{}.rs", number % 30).into_bytes();
            let line = format!("// changed in {number}\n");
            files.get_mut(&name).unwrap().splice(100..100, line.into_bytes());
            (commit(objects, &files, &format!("step {number}"), number), files.clone())
        })
        .collect()
}

fn check(objects: &Objects, history: &[(ObjectId, Files)]) {
    for (id, files) in history {
        let (kind, bytes) = objects.read(id).unwrap();
        assert_eq!(kind, ObjectKind::Commit);
        let tree = CommitData::decode(&bytes).unwrap().tree;
        let items = decode_tree(&objects.read(&tree).unwrap().1).unwrap();
        assert_eq!(items.len(), files.len());
        for item in items {
            let expected = &files[&item.name];
            assert_eq!(objects.blob_len(&item.id).unwrap(), expected.len() as u64);
            assert_eq!(&objects.read(&item.id).unwrap().1, expected);
            assert_eq!(objects.read_blob(&item.id, 5..50).unwrap(), expected[5..50]);
            objects.verify_blob(&item.id, &Work::default()).unwrap();
        }
    }
}

#[test]
fn plain_git_reads_the_store() {
    let Fixture { path, objects, _dir } = fixture();
    fsck(&path);
    let history = history(&objects, 5);
    fsck(&path);
    let log = git(&path, &["log", "--format=%s|%an", "ws/main"]);
    assert_eq!(log.lines().count(), 5);
    assert_eq!(log.lines().next().unwrap(), "step 4|agent one");
    assert!(git(&path, &["diff", "--stat", "ws/main~1", "ws/main"]).contains("1 file changed"));
    let clone = path.with_file_name("clone");
    git(&path, &["clone", "-q", "--bare", path.to_str().unwrap(), clone.to_str().unwrap()]);
    // A clone is a store, too: what it lacks is made.
    check(&Objects::open(&clone, true).unwrap(), &history);
    for (entry, mode) in [("", 0o40700), ("hedgerow/format.json", 0o100_600), ("objects/pack", 0o40700)] {
        assert_eq!(std::fs::metadata(path.join(entry)).unwrap().permissions().mode(), mode, "{entry}");
    }
}

// rows: L23 L24
#[test]
fn case_l24_everything_reads_back_after_gc() {
    let Fixture { path, objects, _dir } = fixture();
    let before = history(&objects, 40);
    check(&objects, &before);
    // The open store knows the packs as they were.
    git(&path, &["gc", "-q", "--prune=now", "--aggressive"]);
    assert!(git(&path, &["verify-pack", "-v", &first_index(&path)]).contains("chain length"), "no deltas to test with");
    check(&objects, &before);
    check(&Objects::open(&path, false).unwrap(), &before);
    let refs = Refs::new(Arc::clone(&objects));
    assert_eq!(refs.read(MAIN).unwrap(), Some(before[39].0));
    assert_eq!(refs.list("refs/heads/").unwrap(), [(MAIN.to_owned(), before[39].0)]);
    let more = history(&objects, 3);
    check(&objects, &more);
    fsck(&path);
    objects.consolidate(1, &Work::default()).unwrap();
    check(&objects, &before);
    check(&objects, &more);
    fsck(&path);
}

fn first_index(path: &Path) -> String {
    let names = std::fs::read_dir(path.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    names
        .filter(|name| name.extension().is_some_and(|ending| ending == "idx"))
        .map(|name| name.display().to_string())
        .next()
        .unwrap()
}

#[test]
fn fsck_takes_every_name_and_every_text() {
    let Fixture { path, objects, _dir } = fixture();
    let names = [
        ".git",
        ".GIT",
        ".Git",
        ".git.",
        ".git ",
        "git~1",
        ".git::$INDEX_ALLOCATION",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".git\\config",
        "a\\.git",
        "a\\..\\.git",
        ".gitmodules",
        ".gitModules.",
        ".gitmodules ",
        ".gitmodules:x",
        ".gitmod\u{200d}ules",
        "gitmod~1",
        "GITMOD~4",
        "gi7eba~1",
        "gi7eb~12",
        ".gitattributes",
        "gitatt~1",
        "gi7d29~9",
        ".gitignore",
        "gitign~1",
        "gi250a~1",
        ".mailmap",
        "maba30~1",
        "mailma~1",
        "%",
        "%2Egit",
        "a\nb",
        "a\tb",
        "a\"b",
        "-rf",
        " lead",
        "trail ",
        "dir.",
        "aux",
        "公共.cpp",
        "e\u{301}",
        "\u{e9}",
        "...",
        "~",
        "con.txt",
        "a:b",
        "\u{202e}gpj",
        "\\",
        "a\\b",
    ];
    let mut raw: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    raw.extend([b"\xff\xfe".to_vec(), b"\xe0.yml".to_vec(), vec![b'n'; 255], vec![b'%'; 255], b"\x01\x7f".to_vec()]);
    let batch = objects.batch().unwrap();
    assert_eq!(batch.put(ObjectKind::Tree, &[]).unwrap(), EMPTY_TREE);
    let blob = batch.put(ObjectKind::Blob, &noise(1, 5000)).unwrap();
    let link = batch.put(ObjectKind::Blob, b"/etc/passwd").unwrap();
    let mut tops = Vec::new();
    for mode in [TreeMode::File, TreeMode::Executable, TreeMode::Symlink, TreeMode::Directory] {
        let id = match mode {
            TreeMode::Directory => EMPTY_TREE,
            TreeMode::Symlink => link,
            _ => blob,
        };
        let items: Vec<_> = raw.iter().map(|name| TreeItem { name, mode, id }).collect();
        let encoded = encode_tree(&items);
        let mut expected = raw.clone();
        expected.sort();
        assert_eq!(decode_tree(&encoded).unwrap().into_iter().map(|item| item.name).collect::<Vec<_>>(), expected);
        tops.push(batch.put(ObjectKind::Tree, &encoded).unwrap());
    }
    let names: Vec<_> = (0..tops.len()).map(|n| format!("d{n}")).collect();
    let items: Vec<_> = names
        .iter()
        .zip(&tops)
        .map(|(name, id)| TreeItem { name: name.as_bytes(), mode: TreeMode::Directory, id: *id })
        .collect();
    let tree = batch.put(ObjectKind::Tree, &encode_tree(&items)).unwrap();
    let refs = Refs::new(Arc::clone(&objects));
    let long = "x\n".repeat(1 << 19);
    for (number, author) in
        ["", "<>", "a\nparent b", "\0", "é <é@x> \u{202e}", ".,;", long.as_str()].into_iter().enumerate()
    {
        for time_ms in [i64::MIN, -1, 0, 1_700_000_000_999, i64::MAX] {
            let data = CommitData {
                tree,
                parents: vec![],
                author: author.into(),
                time_ms,
                label: Some(author.into()),
                extra: serde_json::Map::new(),
            };
            let id = batch.put(ObjectKind::Commit, &data.encode().unwrap()).unwrap();
            refs.write(&format!("refs/heads/n{number}/t{}", time_ms.unsigned_abs()), id, None).unwrap();
        }
    }
    batch.finish().unwrap();
    fsck(&path);
}

// rows: F03
#[test]
fn large_files_go_through_in_pieces() {
    let Fixture { path, objects, _dir } = fixture();
    for bytes in [text(1, 20 << 20), noise(2, 9 << 20), vec![0; 10 << 20], vec![]] {
        let batch = objects.batch().unwrap();
        let len = bytes.len() as u64;
        let id = batch.put_stream(len, &mut &bytes[..], &Work::default()).unwrap();
        assert_eq!(id, ObjectId::hash("blob", &bytes));
        for wrong in [len + 1, len.saturating_sub(1)] {
            if wrong != len {
                let error = batch.put_stream(wrong, &mut &bytes[..], &Work::default()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PathRace);
            }
        }
        assert!(!objects.contains(&id));
        assert_eq!(batch.finish().unwrap().objects, 1);
        assert!(objects.contains(&id));
        let content = objects.content(id, len);
        let mut copy = Vec::new();
        content.copy_to(&mut copy).unwrap();
        assert!(copy == bytes);
        let mut at = 0;
        while at < len {
            let end = (at + (3 << 20)).min(len);
            assert!(content.read(at..end).unwrap() == bytes[at as usize..end as usize]);
            at = end;
        }
    }
    fsck(&path);
    assert_eq!(
        std::fs::read_dir(path.join("hedgerow/tmp"))
            .unwrap()
            .flat_map(|run| std::fs::read_dir(run.unwrap().path()).unwrap())
            .count(),
        0
    );
}

// rows: L26 L25
#[test]
fn damage_is_an_error_that_names_the_object() {
    let Fixture { path, objects, _dir } = fixture();
    let batch = objects.batch().unwrap();
    let ids: Vec<_> = (0..50).map(|n| batch.put(ObjectKind::Blob, &text(n, 4000)).unwrap()).collect();
    batch.finish().unwrap();
    let pack = PathBuf::from(first_index(&path)).with_extension("pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    for at in (12..bytes.len() - 20).step_by(97) {
        bytes[at] ^= 0x55;
    }
    std::fs::write(&pack, &bytes).unwrap();
    for id in &ids {
        let error = objects.read(id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreCorrupt);
        assert!(error.message().contains(&id.to_string()));
        assert!(objects.copy_blob(id, &mut Vec::new()).is_err());
        assert!(objects.read_blob(id, 0..10).is_err());
    }
    let missing = ObjectId([3; 20]);
    assert!(objects.read(&missing).unwrap_err().message().contains(&missing.to_string()));
    // Cut short, the pack does not count as holding anything, and a retry writes it again.
    std::fs::write(&pack, &bytes[..bytes.len() / 2]).unwrap();
    let objects = Objects::open(&path, false).unwrap();
    assert!(!objects.contains(&ids[0]));
    let batch = objects.batch().unwrap();
    for n in 0..50 {
        batch.put(ObjectKind::Blob, &text(n, 4000)).unwrap();
    }
    batch.finish().unwrap();
    assert_eq!(objects.read(&ids[0]).unwrap().1, text(0, 4000));
    // A torn loose object is written again, too.
    let batch = objects.batch().unwrap();
    let id = batch.put(ObjectKind::Blob, b"small").unwrap();
    batch.finish().unwrap();
    let hex = id.to_string();
    let loose = path.join("objects").join(&hex[..2]).join(&hex[2..]);
    std::fs::write(&loose, b"").unwrap();
    assert_eq!(objects.read(&id).unwrap_err().kind(), ErrorKind::StoreCorrupt);
    let batch = objects.batch().unwrap();
    batch.put(ObjectKind::Blob, b"small").unwrap();
    batch.finish().unwrap();
    assert_eq!(objects.read(&id).unwrap().1, b"small");
}

#[test]
fn only_a_store_of_this_version_opens() {
    let Fixture { path, _dir, .. } = fixture();
    let format = path.join("hedgerow/format.json");
    for (text, kind) in [
        ("{\"version\":2}", ErrorKind::StoreVersion),
        ("", ErrorKind::StoreCorrupt),
        ("{\"version\":\"x\"}", ErrorKind::StoreCorrupt),
        ("\u{0}", ErrorKind::StoreCorrupt),
    ] {
        std::fs::write(&format, text).unwrap();
        for create in [false, true] {
            assert_eq!(Objects::open(&path, create).unwrap_err().kind(), kind, "{text:?}");
        }
    }
    let other = path.with_file_name("other");
    assert_eq!(Objects::open(&other, false).unwrap_err().kind(), ErrorKind::DirectoryNotFound);
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    assert_eq!(Objects::open(&other, true).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
    let shared = path.with_file_name("shared");
    Objects::open(&shared, true).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(Objects::open(&shared, true).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let link = path.with_file_name("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(Objects::open(&link.join(""), true).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn many_may_open_and_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let objects = Objects::open(path, true).unwrap();
                for round in 0..10 {
                    let batch = objects.batch().unwrap().sync(false);
                    let ids: Vec<_> = (0..20)
                        .map(|n| batch.put(ObjectKind::Blob, &text(n + 1000 * round + worker % 2, 500)).unwrap())
                        .collect();
                    batch.finish().unwrap();
                    objects.consolidate(5, &Work::default()).unwrap();
                    for id in ids {
                        objects.read(&id).unwrap();
                    }
                }
            });
        }
    });
    fsck(&path);
    let objects = Objects::open(&path, false).unwrap();
    objects.consolidate(5, &Work::default()).unwrap();
    assert!(std::fs::read_dir(path.join("objects/pack")).unwrap().count() <= 10);
    for n in 0..20 {
        objects.read(&ObjectId::hash("blob", &text(n + 9000, 500))).unwrap();
    }
}

#[test]
fn many_loose_objects_become_a_pack() {
    let Fixture { path, objects, _dir } = fixture();
    let mut ids = Vec::new();
    for round in 0..210 {
        let batch = objects.batch().unwrap().sync(false);
        ids.extend((0..12).map(|n| batch.put(ObjectKind::Blob, &text(round * 12 + n, 60)).unwrap()));
        batch.finish().unwrap();
    }
    objects.consolidate(40, &Work::default()).unwrap();
    assert!(git(&path, &["count-objects"]).starts_with("0 objects"));
    for id in &ids {
        objects.read(id).unwrap();
    }
    fsck(&path);
}

/// Run by the tests below as a process of its own; does nothing by itself.
#[test]
fn child_writer() {
    let Some(path) = std::env::var_os("HEDGEROW_TEST_STORE") else { return };
    let rounds: u64 = std::env::var("HEDGEROW_TEST_ROUNDS").unwrap().parse().unwrap();
    let seed = u64::from(std::process::id()) << 20;
    for round in 0..rounds {
        let objects = Objects::open(Path::new(&path), true).unwrap();
        let count = if round % 2 == 0 { 5 } else { 60 };
        let files = (0..count).map(|n| (format!("f{n}").into_bytes(), text(seed + round * 100 + n, 2000))).collect();
        commit(&objects, &files, "child", i64::try_from(round).unwrap());
        objects.consolidate(3, &Work::default()).unwrap();
    }
}

fn child(path: &Path, rounds: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child_writer", "--nocapture"])
        .env("HEDGEROW_TEST_STORE", path)
        .env("HEDGEROW_TEST_ROUNDS", rounds.to_string())
        .stdout(std::process::Stdio::null());
    command
}

// rows: F06 K06
#[test]
fn case_f06_a_killed_writer_leaves_a_clean_store() {
    let Fixture { path, objects, _dir } = fixture();
    let refs = Refs::new(Arc::clone(&objects));
    for round in 0..25_u64 {
        let mut writer = child(&path, 1_000_000).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + round * 3_700));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let fresh = Objects::open(&path, false).unwrap();
        let left: Vec<_> = std::fs::read_dir(path.join("hedgerow/tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        // Everything reachable is there.
        let mut next = refs.read(MAIN).unwrap();
        while let Some(id) = next {
            let data = CommitData::decode(&fresh.read(&id).unwrap().1).unwrap();
            for item in decode_tree(&fresh.read(&data.tree).unwrap().1).unwrap() {
                fresh.read(&item.id).unwrap();
            }
            next = data.parents.first().copied();
        }
    }
    fsck(&path);
}

// rows: H01 H02 H04 H05 H08 G15
#[test]
fn case_h04_environment_and_configuration_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.git");
    git(&other, &["init", "-q", "--bare", other.to_str().unwrap()]);
    let marker = dir.path().join("marker");
    let config = format!(
        "[core]\n\thooksPath = {0}\n\tfsmonitor = \"touch {0}\"\n[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = \"touch {0}\"\n[gc]\n\tauto = 1\n",
        marker.display()
    );
    std::fs::write(dir.path().join(".gitconfig"), config).unwrap();
    let path = dir.path().join("store");
    let mut writer = child(&path, 4);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"] {
        writer.env(name, &other);
    }
    writer.env("GIT_OBJECT_DIRECTORY", other.join("objects")).env("GIT_INDEX_FILE", other.join("index"));
    writer.env("GIT_NAMESPACE", "x").env("HOME", dir.path()).env("XDG_CONFIG_HOME", dir.path());
    writer.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", other.join("objects"));
    assert!(writer.status().unwrap().success());
    assert!(!marker.exists());
    assert!(git(&other, &["count-objects", "-v"]).starts_with("count: 0"));
    assert_eq!(git(&path, &["log", "--format=%s", "ws/main"]).lines().count(), 4);
    fsck(&path);
    // Where the system can trace: no configuration of git is even looked at.
    let trace = dir.path().join("trace");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=%file", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_writer"])
        .env("HEDGEROW_TEST_STORE", &path)
        .env("HEDGEROW_TEST_ROUNDS", "2")
        .env("HOME", dir.path())
        .stdout(std::process::Stdio::null())
        .status();
    if traced.is_ok_and(|status| status.success()) {
        let calls = std::fs::read_to_string(trace).unwrap();
        for word in ["gitconfig", "/etc/git", ".config/git", "execve(\"/usr/bin/git"] {
            assert!(!calls.contains(word), "{word}");
        }
    }
}

// rows: S12
#[test]
fn a_clock_that_goes_back_does_not_move_the_head() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let in_git = || GitPast::open(Objects::open(&store, true).unwrap(), &store, "w").unwrap();
    let mut ids = Vec::new();
    for mut past in [Box::new(MemoryPast::default()) as Box<dyn Past>, Box::new(in_git())] {
        ids.clear();
        for (number, second) in [500, 900, 100].into_iter().enumerate() {
            let mut tree = Tree::default();
            tree.insert(&WsPath::new("f").unwrap(), Entry::file(number.to_string().as_bytes(), 0o644)).unwrap();
            let details = Details {
                kind: CheckpointKind::Checkpoint,
                rollback_of: None,
                cursor: 0,
                first_sequence: None,
                last_sequence: None,
                changes: 1,
                touched: vec![],
                has_text_diffs: true,
                skipped: vec![],
            };
            let new = NewCheckpoint {
                tree: &tree,
                label: Some(format!("at {second}")),
                author: "a".to_owned(),
                created: second * 1_000_000_000,
                details,
            };
            ids.push(past.commit(new).unwrap().id);
            assert_eq!(past.head().unwrap().id, ids[number]);
        }
        assert_eq!(past.checkpoints().unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), ids);
    }
    // Found again by whoever opens the store, and by plain git, in the order they were made in.
    assert_eq!(in_git().head().unwrap().id, ids[2]);
    let log = git(&store, &["log", "--format=%H", "refs/heads/w/main"]);
    let newest_first: Vec<String> = ids.iter().rev().map(ToString::to_string).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), newest_first);
    fsck(&store);
}
