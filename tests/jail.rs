//! The jail against the corpus of hostile and of ordinary paths, with both resolvers, with and without
//! the system calls it prefers, as another user, and against plain file calls in a twin directory.
//!
//! A case is one line of `corpus/jail.jsonl`: a layout, an operation, a path, and the answer. Layout
//! lines: `d/` a directory, `f` a file, `f=text`, `l => target`, `h <= name` a hard link to an outside
//! file, `h <- name` to an inside one, `s | fifo`. `{root}` and `{out}` are host paths, `\xNN` a byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]
#![allow(clippy::disallowed_methods, reason = "the tests build and inspect what the jail is locked into")]

use hedgerow::core::cancel::Work;
use hedgerow::core::error::{Error, ErrorKind, Result};
use hedgerow::core::fs::jail::{Follow, Jail, Kind, Place, Replace, ResolverChoice};
use hedgerow::core::path::{RawPath, WsPath};
use rustix::fs::{CWD, FileType, Mode};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const CORPUS: &str = include_str!("corpus/jail.jsonl");

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    layout: Vec<String>,
    op: String,
    path: String,
    to: Option<String>,
    want: String,
}

fn corpus() -> Vec<Case> {
    CORPUS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A root with an outside around it.
struct World {
    temp: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        // In memory where there is such a place: the corpus makes some ten thousand small trees.
        let shm = Path::new("/dev/shm");
        let temp = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        Self::within(temp.unwrap())
    }

    fn on_disk() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    fn within(temp: tempfile::TempDir) -> Self {
        let world = World { temp };
        fs::create_dir(world.root()).unwrap();
        for dir in ["out", "out/dir", "root_evil", "root2"] {
            fs::create_dir(world.at(dir)).unwrap();
        }
        for file in ["out/secret", "out/dir/secret", "root_evil/secret", "root2/secret", "secret"] {
            fs::write(world.at(file), "TOP SECRET").unwrap();
        }
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.temp.path()).unwrap().join(path)
    }

    fn root(&self) -> PathBuf {
        self.at("root")
    }

    fn jail(&self, resolver: ResolverChoice) -> Jail {
        Jail::open(&self.root(), resolver, false).unwrap()
    }

    fn expand(&self, text: &str) -> Vec<u8> {
        let text = text
            .replace("{x255}", &"x".repeat(255))
            .replace("{x256}", &"x".repeat(256))
            .replace("{ä127}", &"ä".repeat(127))
            .replace("{updown}", &"a/../".repeat(1500))
            .replace("{root}", self.root().to_str().unwrap())
            .replace("{out}", self.at("out").to_str().unwrap());
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, after) {
                (b'\\', [b'x', high, low, after @ ..]) => {
                    let digits = [*high, *low];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                    rest = after;
                }
                (b'\\', [b'\\', after @ ..]) => {
                    bytes.push(b'\\');
                    rest = after;
                }
                _ => bytes.push(byte),
            }
        }
        bytes
    }

    /// Builds one line; `false` if the system does not let us.
    fn build(&self, line: &str) -> bool {
        let host = |text: &str| self.root().join(OsStr::from_bytes(&self.expand(text)));
        let with_parent = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        if let Some((name, target)) = line.split_once(" => ") {
            symlink(OsStr::from_bytes(&self.expand(target)), with_parent(host(name))).unwrap();
        } else if let Some((name, target)) = line.split_once(" <= ") {
            fs::hard_link(self.at("out").join(target), with_parent(host(name))).unwrap();
        } else if let Some((name, target)) = line.split_once(" <- ") {
            fs::hard_link(host(target), with_parent(host(name))).unwrap();
        } else if let Some((name, kind)) = line.split_once(" | ") {
            let path = with_parent(host(name));
            let (kind, device) = match kind {
                "fifo" => (FileType::Fifo, 0),
                "socket" => (FileType::Socket, 0),
                "chardev" => (FileType::CharacterDevice, rustix::fs::makedev(1, 5)),
                _ => (FileType::BlockDevice, rustix::fs::makedev(7, 250)),
            };
            return rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).is_ok();
        } else if let Some(name) = line.strip_suffix('/') {
            fs::create_dir_all(host(name)).unwrap();
        } else {
            let (name, content) = match line.rsplit_once('=') {
                Some((name, content)) => (name, content.to_owned()),
                None => (line, format!("inside {line}")),
            };
            fs::write(with_parent(host(name)), content).unwrap();
        }
        true
    }

    /// All that is below the temporary directory but not below the root.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut found = picture(&self.at(""), &["root"]);
        found.retain(|path, _| path.as_path() != Path::new("root"));
        found
    }
}

/// Every entry with kind, mode, time and content.
fn picture(top: &Path, except: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(top).unwrap().to_owned();
            let stat = fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_file() {
                format!("{:?}", fs::read(&path).unwrap())
            } else if stat.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else {
                String::new()
            };
            found.insert(below.clone(), format!("{:o} {content}", stat.mode()));
            if stat.is_dir() && !except.iter().any(|name| below.as_path() == Path::new(name)) {
                pending.push(path);
            }
        }
    }
    found
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::Device => "device",
    }
}

fn resolve(jail: &Jail, text: &[u8]) -> Result<WsPath> {
    jail.canonical(&RawPath::parse(text)?)
}

fn put(place: &Place, bytes: &[u8], how: Replace) -> Result<()> {
    let mut write = |out: &mut dyn Write| out.write_all(bytes).map_err(|error| Error::io(&error, "writing"));
    place.replace(&mut write, how).map(drop)
}

/// Does one operation and tells its result in a word.
fn act(jail: &Jail, op: &str, path: &[u8], to: &[u8]) -> Result<String> {
    let done = || Ok("ok".to_owned());
    let path = resolve(jail, path)?;
    let written = |place: &Place| {
        put(place, b"NEW", Replace { keep_metadata: op == "write_keep", ..Replace::default() })?;
        assert_eq!(place.open_file()?.read_all(10)?, b"NEW");
        Ok(format!("ok:{}", place.path()))
    };
    match op {
        "read" => {
            let bytes = jail.read(&path, None)?;
            assert_eq!(jail.open_file(&path)?.read_all(1000)?, bytes);
            if let Some(tried) = jail.try_read(&path, None, 1000)? {
                assert_eq!(tried, bytes);
            }
            Ok(format!("ok:{}", String::from_utf8_lossy(&bytes)))
        }
        "list" => jail.dir(&path)?.entries().and_then(|_| done()),
        "list_has" => {
            let listed = jail.dir(&path.parent())?.entries()?;
            let with_stat = jail.dir(&path.parent())?.entries_with_stat()?;
            assert_eq!(listed.len(), with_stat.len());
            assert!(listed.is_sorted_by_key(|(name, _)| name.clone()));
            let has = listed.iter().any(|(name, _)| Some(name.as_bytes()) == path.name());
            Ok(if has { "ok" } else { "not-listed" }.to_owned())
        }
        "stat" | "lstat" => {
            let follow = if op == "stat" { Follow::Yes } else { Follow::No };
            Ok(format!("ok:{}", jail.lookup(&path, follow)?.map_or("none", |(_, stat)| word(stat.kind))))
        }
        "lookup" => Ok(format!("ok:{}", jail.lookup(&path, Follow::Yes)?.unwrap().0)),
        "canonical" => Ok(format!("ok:{path}")),
        "readlink" => {
            let target = jail.place(&path, Follow::No)?.read_link()?;
            Ok(format!("ok:{}", String::from_utf8_lossy(&target)))
        }
        "write" | "write_keep" => written(&jail.place(&path, Follow::Yes)?),
        "write_parents" => written(&jail.place_creating(&path, Follow::Yes, 0o777)?.0),
        "write_then_lstat" => {
            written(&jail.place(&path, Follow::Yes)?)?;
            Ok(format!("ok:{}", word(jail.lookup(&path, Follow::No)?.unwrap().1.kind)))
        }
        "create" => {
            let how = Replace { exclusive: true, ..Replace::default() };
            put(&jail.place(&path, Follow::No)?, b"NEW", how).and_then(|()| done())
        }
        "mkdir" => jail.place(&path, Follow::No)?.make_dir(0o777).and_then(|()| done()),
        "remove" => jail.place(&path, Follow::No)?.remove_file().and_then(|()| done()),
        "rmdir" => jail.place(&path, Follow::No)?.remove_dir().and_then(|()| done()),
        "remove_tree" => {
            jail.place(&path, Follow::No)?.remove_tree(&Work::default())?;
            assert!(jail.lookup(&path, Follow::No)?.is_none());
            done()
        }
        "chmod" => jail.place(&path, Follow::Yes)?.chmod(0o700).and_then(|()| done()),
        "chmod_link" => jail.place(&path, Follow::No)?.chmod(0o600).and_then(|()| done()),
        "chmod_setuid" => jail.place(&path, Follow::Yes)?.chmod(0o4755).and_then(|()| done()),
        "rename" | "rename_over" => {
            let to = jail.place(&resolve(jail, to)?, Follow::No)?;
            jail.place(&path, Follow::No)?.rename_to(&to, op == "rename_over").and_then(|()| done())
        }
        "link" => {
            let to = jail.place(&resolve(jail, to)?, Follow::No)?;
            jail.place(&path, Follow::No)?.hard_link_to(&to).and_then(|()| done())
        }
        "symlink" => jail.place(&path, Follow::No)?.symlink(to, false).and_then(|()| done()),
        "symlink_over" => jail.place(&path, Follow::No)?.symlink(to, true).and_then(|()| done()),
        other => panic!("no operation {other}"),
    }
}

/// The same operation with plain file calls; `None` where there is none that means the same.
fn act_plainly(root: &Path, op: &str, path: &[u8], to: &[u8]) -> Option<std::io::Result<()>> {
    let host = |path: &[u8]| {
        let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
        root.join(OsStr::from_bytes(&path[start..]))
    };
    let path = host(path);
    Some(match op {
        "read" => fs::read(path).map(drop),
        "list" => fs::read_dir(path).map(drop),
        "stat" => match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        },
        "write" => fs::write(path, "NEW"),
        "mkdir" => fs::create_dir(path),
        "remove" => fs::remove_file(path),
        "rmdir" => fs::remove_dir(path),
        "readlink" => fs::read_link(path).map(drop),
        "rename_over" => fs::rename(path, host(to)),
        "link" => fs::hard_link(path, host(to)),
        "symlink" => symlink(OsStr::from_bytes(to), path),
        "chmod" => fs::set_permissions(path, fs::Permissions::from_mode(0o700)),
        _ => return None,
    })
}

fn run_corpus(resolver: ResolverChoice) {
    let started = Instant::now();
    let (mut ran, mut skipped, mut slowest) = (0, 0, Duration::ZERO);
    let mut wrong = Vec::new();
    for case in corpus() {
        let world = World::new();
        let is_root = rustix::process::getuid().is_root();
        if !case.layout.iter().all(|line| world.build(line)) {
            assert!(!is_root, "{}: cannot build", case.id);
            skipped += 1;
            continue;
        }
        let jail = world.jail(resolver);
        let before = world.outside();
        let (path, to) = (world.expand(&case.path), world.expand(case.to.as_deref().unwrap_or("")));
        let at = Instant::now();
        let got = act(&jail, &case.op, &path, &to);
        slowest = slowest.max(at.elapsed());
        let shown = match &got {
            Ok(text) => text.clone(),
            Err(error) => error.kind().code().to_owned(),
        };
        let want = String::from_utf8_lossy(&world.expand(&case.want)).into_owned();
        if shown != want && !(want == "ok" && shown.starts_with("ok:")) {
            wrong.push(format!("{}: {} {:?} gave {shown}, not {want}", case.id, case.op, case.path));
        }
        if let Err(error) = &got {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(world.temp.path().to_str().unwrap()), "{}: host path in {text}", case.id);
        }
        assert_eq!(before, world.outside(), "{}: the outside changed", case.id);
        let ours = picture(&world.root(), &[]);
        let left = |path: &&PathBuf| path.to_string_lossy().contains(".hedgerow-") && !case.id.starts_with("temp-");
        assert_eq!(ours.keys().find(left), None, "{}: a temporary file was left", case.id);
        ran += 1;
    }
    assert!(wrong.is_empty(), "{} of {ran} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(slowest < Duration::from_secs(1), "an operation took {slowest:?}");
    report(&format!("{resolver:?}: {ran} cases, {skipped} skipped, slowest {slowest:?}, {:?}", started.elapsed()));
}

#[expect(clippy::print_stderr, reason = "shown by cargo test only on request")]
fn report(text: &str) {
    eprintln!("{text}");
}

// rows: B33, S21, S33, S34, S36, S38, S39
#[test]
fn corpus_with_the_kernel() {
    prepare();
    run_corpus(ResolverChoice::Auto);
}

// rows: B33, B34
#[test]
fn corpus_with_the_walk() {
    prepare();
    run_corpus(ResolverChoice::Walk);
}

/// What is allowed does what plain file calls do, and fails as they fail.
#[test]
fn twin_directory_agrees_unless_denied() {
    let denied = ["path-escape", "symlink-escape", "special-file", "reserved-name", "invalid-argument"];
    let mut compared = 0;
    for case in corpus() {
        if denied.contains(&case.want.as_str()) || case.path.ends_with('/') || case.id.starts_with("temp-") {
            continue;
        }
        let (jailed, plain) = (World::new(), World::new());
        if !case.layout.iter().all(|line| jailed.build(line) && plain.build(line)) {
            continue;
        }
        let to = case.to.as_deref().unwrap_or("");
        let twin = act_plainly(&plain.root(), &case.op, &plain.expand(&case.path), &plain.expand(to));
        let Some(twin) = twin else { continue };
        let ours = act(&jailed.jail(ResolverChoice::Auto), &case.op, &jailed.expand(&case.path), &jailed.expand(to));
        let class = |kind: ErrorKind| match kind {
            ErrorKind::DirectoryNotFound => "file-not-found",
            other => other.code(),
        };
        let ours = ours.map(drop).map_err(|error| class(error.kind()));
        let twin = twin.map_err(|error| class(Error::io(&error, "").kind()));
        // Said more precisely than errno does.
        let finer = matches!(
            (&ours, &twin),
            (Err("is-a-directory"), Err("permission-denied" | "directory-not-empty"))
                | (Err("not-a-link" | "path-nul"), Err("io-error"))
                | (Err("path-empty"), Err("is-a-directory"))
        );
        // POSIX leaves both names of one file where they are.
        if case.id.starts_with("A36-twin") {
            continue;
        }
        assert!(ours == twin || finer, "{}: {ours:?} but plainly {twin:?}", case.id);
        if !case.id.starts_with("A18")
            && !case.layout.iter().any(|line| line.contains("{root}") || line.contains("{out}"))
        {
            assert_eq!(picture(&jailed.root(), &[]), picture(&plain.root(), &[]), "{}: trees differ", case.id);
        }
        compared += 1;
    }
    assert!(compared > 300, "only {compared} compared");
}

// ---- the same in other surroundings -----------------------------------------------------------

/// Takes away the system calls a parent named.
fn prepare() {
    let Ok(names) = std::env::var("HEDGEROW_TEST_WITHOUT") else { return };
    // Old container profiles answer EPERM to calls they do not know; std itself is lost without statx then.
    let (errno, count) = if names.contains("eperm") { (1, 1) } else { (38, 3) };
    let numbers: &[i64] = match std::env::consts::ARCH {
        "x86_64" => &[437, 332, 316], // openat2, statx, renameat2
        "aarch64" => &[437, 291, 276],
        other => panic!("no numbers for {other}"),
    };
    let rules = numbers.iter().take(count).map(|number| (*number, Vec::new())).collect();
    let filter = seccompiler::SeccompFilter::new(
        rules,
        seccompiler::SeccompAction::Allow,
        seccompiler::SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into().unwrap(),
    )
    .unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    let world = World::new();
    assert!(world.jail(ResolverChoice::Auto).walks(), "the filter does not bite");
}

fn rerun(command: &mut Command, tests: &[&str]) {
    let done = command.arg("--exact").args(tests).arg("--test-threads=1").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{text}");
    assert!(text.contains(&format!("{} passed", tests.len())), "{text}");
}

const EVERYWHERE: &[&str] = &[
    "corpus_with_the_kernel",
    "exclusive_creation_has_one_winner",
    "metadata_survives_replacement",
    "very_deep_trees_are_removed",
    "directories_without_rights_are_removed",
];

fn this_test() -> PathBuf {
    std::env::current_exe().unwrap()
}

#[test]
fn corpus_without_openat2_statx_renameat2() {
    if std::env::var_os("HEDGEROW_TEST_WITHOUT").is_none() {
        rerun(Command::new(this_test()).env("HEDGEROW_TEST_WITHOUT", "enosys"), EVERYWHERE);
        rerun(Command::new(this_test()).env("HEDGEROW_TEST_WITHOUT", "eperm"), EVERYWHERE);
    }
}

fn can_unshare() -> bool {
    Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// Without procfs a handle cannot be reopened by name; nothing may become weaker or fail.
#[test]
fn corpus_without_proc() {
    if !can_unshare() {
        return report("skipped: no mount namespace");
    }
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    rerun(command.args(["-m", "sh", "-c", script]).arg(this_test()), EVERYWHERE);
}

/// As a user without privileges: mode bits bite.
#[test]
fn corpus_as_another_user() {
    use std::os::unix::process::CommandExt;
    if rustix::process::getuid().is_root() {
        // The build directory may be closed to others; a copy is not.
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = dir.path().join("jail");
        fs::copy(this_test(), &copy).unwrap();
        rerun(Command::new(copy).uid(65534).gid(65534).current_dir("/"), EVERYWHERE);
    }
}

// ---- single promises ---------------------------------------------------------------------------

fn path(text: &str) -> WsPath {
    WsPath::new(text).unwrap()
}

// rows: S38
#[test]
fn exclusive_creation_has_one_winner() {
    prepare();
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let world = World::new();
        let jail = world.jail(resolver);
        for round in 0..20 {
            let name = format!("f{round}");
            let won = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..20)
                    .map(|_| {
                        scope.spawn(|| {
                            let place = jail.place(&path(&name), Follow::No).unwrap();
                            match put(&place, b"x", Replace { exclusive: true, ..Replace::default() }) {
                                Ok(()) => 1,
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::FileExists);
                                    0
                                }
                            }
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
            });
            assert_eq!(won, 1);
        }
        assert_eq!(fs::read_dir(world.root()).unwrap().count(), 20);
    }
}

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// An access list: owner rw, user 12345 `named`, group r, mask rw, others none.
fn acl(named: u16) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1, 6, u32::MAX), (2, named, 12345), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
    {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(u16::to_le_bytes(rights));
        bytes.extend(u32::to_le_bytes(id));
    }
    bytes
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let len = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
}

// rows: S40
#[test]
fn metadata_survives_replacement() {
    prepare();
    let world = World::new();
    let jail = world.jail(ResolverChoice::Auto);
    let host = world.root().join("f");
    let write = |how: Replace| put(&jail.place(&path("f"), Follow::Yes).unwrap(), b"new", how).unwrap();
    for mode in [0o600, 0o644, 0o755, 0o400, 0o666] {
        fs::write(&host, "old").unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(mode)).unwrap();
        let can_set = set_xattr(&host, "user.colour", b"green") && set_xattr(&host, "user.empty", b"");
        write(Replace::default());
        assert_eq!(fs::metadata(&host).unwrap().mode() & 0o7777, mode);
        if can_set {
            assert_eq!(xattr(&host, "user.colour").unwrap(), b"green");
            assert_eq!(xattr(&host, "user.empty").unwrap(), b"");
        }
        fs::remove_file(&host).unwrap();
    }
    fs::write(&host, "old").unwrap();
    if set_xattr(&host, ACL, &acl(6)) {
        write(Replace::default());
        assert_eq!(xattr(&host, ACL).unwrap(), acl(6));
        write(Replace { mode: Some(0o600), ..Replace::default() });
        assert_eq!(fs::metadata(&host).unwrap().mode() & 0o777, 0o600);
        // What the directory hands to new files must not open an old one to others.
        fs::remove_file(&host).unwrap();
        fs::write(&host, "old").unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(set_xattr(&world.root(), DEFAULT_ACL, &acl(6)));
        write(Replace::default());
        assert_eq!(xattr(&host, ACL), None);
        assert_eq!(fs::metadata(&host).unwrap().mode() & 0o777, 0o640);
    }
}

#[test]
fn case_i06_no_temporary_file_is_wider_than_the_file() {
    let world = World::new();
    world.build("f=secret");
    fs::set_permissions(world.root().join("f"), fs::Permissions::from_mode(0o644)).unwrap();
    let jail = world.jail(ResolverChoice::Auto);
    let place = jail.place(&path("f"), Follow::Yes).unwrap();
    let mut seen = 0;
    let mut write = |out: &mut dyn Write| {
        out.write_all(b"new").unwrap();
        for (name, pid) in jail.root().temp_entries()? {
            assert_eq!(pid, std::process::id());
            assert_eq!(jail.root().stat(name.as_bytes())?.unwrap().mode, 0o600);
            seen += 1;
        }
        assert_eq!(jail.root().entries()?.len(), 1);
        assert_eq!(jail.read(&path("f"), None)?, b"secret");
        Ok(())
    };
    place.replace(&mut write, Replace { sync: true, ..Replace::default() }).unwrap();
    place.sync_dir().unwrap();
    assert_eq!(seen, 1);
    assert_eq!(place.stat().unwrap().unwrap().mode, 0o644);
}

#[test]
fn new_files_follow_the_umask() {
    let world = World::new();
    let jail = world.jail(ResolverChoice::Auto);
    fs::write(world.root().join("plain"), "").unwrap();
    put(&jail.place(&path("ours"), Follow::No).unwrap(), b"", Replace::default()).unwrap();
    let mode = |name: &str| fs::metadata(world.root().join(name)).unwrap().mode();
    assert_eq!(mode("ours"), mode("plain"));
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let world = World::new();
    world.build("f=old");
    let jail = world.jail(ResolverChoice::Auto);
    for exclusive in [false, true] {
        let name = if exclusive { "new" } else { "f" };
        let place = jail.place(&path(name), Follow::No).unwrap();
        let mut write = |out: &mut dyn Write| {
            out.write_all(b"half").unwrap();
            Err(Error::new(ErrorKind::Cancelled, "stop"))
        };
        let error = place.replace(&mut write, Replace { exclusive, ..Replace::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    assert_eq!(picture(&world.root(), &[]).len(), 1);
    assert_eq!(fs::read(world.root().join("f")).unwrap(), b"old");
}

// rows: B33
#[test]
fn case_b07_a_replaced_root_is_noticed_and_never_entered() {
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let world = World::new();
        world.build("f=ours");
        let jail = world.jail(resolver);
        jail.check_identity().unwrap();
        fs::rename(world.root(), world.at("moved")).unwrap();
        assert_eq!(jail.check_identity().unwrap_err().kind(), ErrorKind::RootReplaced);
        fs::create_dir(world.root()).unwrap();
        fs::write(world.root().join("f"), "theirs").unwrap();
        assert_eq!(jail.check_identity().unwrap_err().kind(), ErrorKind::RootReplaced);
        assert_eq!(jail.read(&path("f"), None).unwrap(), b"ours");
        fs::remove_dir_all(world.at("moved")).unwrap();
        assert_eq!(jail.read(&path("f"), None).unwrap_err().kind(), ErrorKind::FileNotFound);
        let place = jail.place(&path("g"), Follow::No).unwrap();
        assert_eq!(put(&place, b"", Replace::default()).unwrap_err().kind(), ErrorKind::FileNotFound);
    }
}

#[test]
fn the_root_may_be_reached_through_links() {
    let world = World::new();
    world.build("dir/file=x");
    symlink("root", world.at("alias")).unwrap();
    symlink(world.at("alias/dir"), world.root().join("l")).unwrap();
    let jail = Jail::open(&world.at("alias"), ResolverChoice::Auto, false).unwrap();
    assert_eq!(jail.host_root(), world.root());
    assert_eq!(jail.read(&path("l/file"), None).unwrap(), b"x");
    jail.check_identity().unwrap();
    let made = Jail::open(&world.at("new/root"), ResolverChoice::Auto, true).unwrap();
    assert!(made.root().entries().unwrap().is_empty());
    let missing = Jail::open(&world.at("nothing"), ResolverChoice::Auto, false).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::DirectoryNotFound);
    let file = Jail::open(&world.at("secret"), ResolverChoice::Auto, false).unwrap_err();
    assert_eq!(file.kind(), ErrorKind::NotADirectory);
}

/// Deeper than a path can name, with fewer descriptors than levels.
#[test]
fn very_deep_trees_are_removed() {
    prepare();
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let world = World::new();
        let jail = world.jail(resolver);
        let mut dir = jail.root();
        let mut deep = WsPath::root();
        for _ in 0..5000 {
            dir.place(b"level").unwrap().make_dir(0o777).unwrap();
            put(&dir.place(b"file").unwrap(), b"x", Replace::default()).unwrap();
            deep = deep.join(b"level");
            dir = dir.child(b"level").unwrap();
        }
        assert_eq!(dir.path(), &deep);
        assert_eq!(jail.dir(&deep).unwrap().entries().unwrap(), vec![]);
        assert_eq!(jail.read(&deep.parent().join(b"file"), None).unwrap(), b"x");
        jail.place(&path("level"), Follow::No).unwrap().remove_tree(&Work::default()).unwrap();
        assert_eq!(jail.root().entries().unwrap().len(), 1);
    }
}

/// `..` far up, after handles were let go.
#[test]
fn climbing_far_up_comes_back_to_the_same_place() {
    let world = World::new();
    let down = "d/".repeat(300);
    fs::create_dir_all(world.root().join(&down)).unwrap();
    world.build("d/x=found");
    let jail = world.jail(ResolverChoice::Auto);
    let raw = format!("{down}{}x", "../".repeat(299));
    assert_eq!(resolve(&jail, raw.as_bytes()).unwrap().to_string(), "d/x");
    let raw = format!("{down}{}x", "../".repeat(301));
    assert_eq!(resolve(&jail, raw.as_bytes()).unwrap_err().kind(), ErrorKind::PathEscape);
}

#[test]
fn directories_without_rights_are_removed() {
    prepare();
    let world = World::new();
    for line in ["top/closed/a/b", "top/closed/c", "top/frozen/d/e", "top/blind/f"] {
        world.build(line);
    }
    for (name, mode) in [("closed", 0o000), ("frozen", 0o555), ("blind", 0o300)] {
        fs::set_permissions(world.root().join("top").join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let jail = world.jail(ResolverChoice::Auto);
    jail.place(&path("top"), Follow::No).unwrap().remove_tree(&Work::default()).unwrap();
    assert!(jail.root().entries().unwrap().is_empty());
}

#[test]
fn removal_stops_at_mounts() {
    const INSIDE: &str = "HEDGEROW_TEST_MOUNT";
    if let Some(top) = std::env::var_os(INSIDE) {
        let top = PathBuf::from(top);
        for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
            let jail = Jail::open(&top.join("root"), resolver, false).unwrap();
            for tree in ["a", "b"] {
                let place = jail.place(&path(tree), Follow::No).unwrap();
                let error = place.remove_tree(&Work::default()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            }
            assert_eq!(jail.read(&path("a/bind/secret"), None).unwrap(), b"TOP SECRET");
            let name = b"proc/self/root/etc/passwd";
            for path in [&name[..], b"proc/self/fd/0", b"proc/1/cwd/x"] {
                let path = WsPath::new(path).unwrap();
                assert_eq!(jail.read(&path, None).unwrap_err().kind(), ErrorKind::SymlinkEscape, "{path}");
            }
        }
        return;
    }
    if !can_unshare() {
        return report("skipped: no mount namespace");
    }
    let world = World::new();
    for line in ["a/bind/", "b/other/x", "b/file-mount", "proc/"] {
        world.build(line);
    }
    let before = world.outside();
    let script = "cd \"$1\" && mount --bind out root/a/bind && mount -t tmpfs none root/b/other && \
        mount --bind secret root/b/file-mount && mount -t proc none root/proc && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(world.at("")).arg(this_test()).env(INSIDE, world.at(""));
    rerun(&mut command, &["removal_stops_at_mounts"]);
    assert_eq!(before, world.outside());
}

#[test]
fn case_c01_special_files_answer_at_once() {
    let world = World::new();
    world.build("p | fifo");
    world.build("l => p");
    let jail = world.jail(ResolverChoice::Auto);
    let fastest = (0..20)
        .map(|_| {
            let at = Instant::now();
            for name in ["p", "l"] {
                assert_eq!(jail.read(&path(name), None).unwrap_err().kind(), ErrorKind::SpecialFile);
                assert_eq!(jail.open_file(&path(name)).unwrap_err().kind(), ErrorKind::SpecialFile);
                assert_eq!(jail.try_read(&path("p"), None, 100).unwrap_err().kind(), ErrorKind::SpecialFile);
            }
            at.elapsed()
        })
        .min()
        .unwrap();
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

#[test]
fn ranges_and_limits() {
    let world = World::on_disk();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
    fs::write(world.root().join("f"), &bytes).unwrap();
    world.build("empty=");
    let sparse = fs::File::create(world.root().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let jail = world.jail(resolver);
        let file = jail.open_file(&path("f")).unwrap();
        for range in [0..0, 0..10, 5..70_000, 99_990..200_000, 100_000..100_001, 3..u64::MAX, u64::MAX - 1..u64::MAX] {
            let end = usize::try_from(range.end.min(100_000)).unwrap();
            let want = &bytes[usize::try_from(range.start.min(100_000)).unwrap().min(end)..end];
            assert_eq!(jail.read(&path("f"), Some(range.clone())).unwrap(), want);
            assert_eq!(file.read_range(range.clone()).unwrap(), want);
            if let Some(tried) = jail.try_read(&path("f"), Some(range), 1 << 20).unwrap() {
                assert_eq!(tried, want);
            }
        }
        assert_eq!(file.read_all(99_999).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(jail.try_read(&path("f"), None, 99_999).unwrap(), None);
        assert_eq!(jail.read(&path("empty"), None).unwrap(), b"");
        assert_eq!(jail.read(&path("sparse"), None).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(jail.read(&path("sparse"), Some(1 << 39..(1 << 39) + 3)).unwrap(), [0, 0, 0]);
        let mut buffer = [1; 10];
        assert_eq!(file.read_at(99_995, &mut buffer).unwrap(), 5);
        assert_eq!(file.read_at(u64::MAX, &mut buffer).unwrap(), 0);
    }
    let auto = world.jail(ResolverChoice::Auto);
    assert_eq!(auto.try_read(&path("f"), None, 1 << 20).unwrap().unwrap(), bytes);
}

#[test]
fn files_that_grow_and_shrink_are_read_to_their_end() {
    let world = World::new();
    world.build("f=x");
    let jail = world.jail(ResolverChoice::Auto);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(world.root().join("f")).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for len in [1 << 20, 10, 1 << 18, 0] {
                    file.set_len(len).unwrap();
                }
            }
        });
        for _ in 0..500 {
            assert!(jail.read(&path("f"), None).unwrap().len() <= 1 << 20);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn created_parents_are_told_and_stay_inside() {
    for resolver in [ResolverChoice::Auto, ResolverChoice::Walk] {
        let world = World::new();
        world.build("l => dir");
        world.build("dir/");
        let jail = world.jail(resolver);
        let (place, created) = jail.place_creating(&path("l/a/b/f"), Follow::Yes, 0o755).unwrap();
        assert_eq!(place.path().to_string(), "dir/a/b/f");
        assert_eq!(created, [path("dir/a"), path("dir/a/b")]);
        let (_, created) = jail.place_creating(&path("l/a/b/f"), Follow::Yes, 0o755).unwrap();
        assert_eq!(created, []);
        world.build("file");
        let error = jail.place_creating(&path("file/x/y"), Follow::Yes, 0o755).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
    }
}

#[test]
fn removal_stops_when_cancelled() {
    let world = World::new();
    for at in 0..100 {
        world.build(&format!("top/d{at}/f"));
    }
    let jail = world.jail(ResolverChoice::Auto);
    let work = Work::default();
    work.cancel();
    let error = jail.place(&path("top"), Follow::No).unwrap().remove_tree(&work).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(world.root().join("top")).unwrap().count(), 100);
}
