//! System calls with their habits: interrupted ones are repeated, missing ones remembered.
//!
//! The facts remembered here are about the kernel and the process's seccomp filter, so they hold for
//! every jail and survive a fork. They only ever go from "can" to "cannot".

use super::handle::Stat;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How regular files are opened for reading.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
/// How an entry is opened to see what it is, without opening it.
pub(super) const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Tries of a kernel resolution that keeps meeting renames. Each costs about a microsecond; the walk
/// that follows needs no luck.
const AGAIN_TRIES: usize = 128;

static NO_OPENAT2: AtomicBool = AtomicBool::new(false);
static NO_RENAMEAT2: AtomicBool = AtomicBool::new(false);

/// Repeats an interrupted call.
pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Forgets how a call ended that was only worth a try.
pub(super) fn best_effort<T>(_: rustix::io::Result<T>) {}

/// Widens a device number, whose width depends on the architecture.
pub(super) fn widen(number: impl Into<u64>) -> u64 {
    number.into()
}

pub(super) fn fstat(fd: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
    retry(|| rustix::fs::fstat(fd)).map(|stat| Stat::from_raw(&stat))
}

pub(super) fn stat_leaf(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Stat> {
    retry(|| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)).map(|stat| Stat::from_raw(&stat))
}

/// Opens one name in a directory; the flags must hold `NOFOLLOW`.
pub(super) fn open_leaf(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    debug_assert!(flags.contains(OFlags::NOFOLLOW) || name == b"." || name == b"..");
    debug_assert!(!name.contains(&b'/'));
    retry(|| rustix::fs::openat(dir, name, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()))
}

/// Tells whether the kernel was found unable to resolve beneath a handle.
pub(super) fn kernel_is_missing() -> bool {
    NO_OPENAT2.load(Ordering::Relaxed)
}

/// Probes whether the kernel resolves beneath a handle.
pub(super) fn kernel_resolves(root: BorrowedFd<'_>) -> bool {
    let probe = open_beneath(root, b".", OFlags::PATH | OFlags::CLOEXEC, super::resolve::NO_LINKS);
    !kernel_is_missing() && !matches!(probe, Err(Errno::INVAL))
}

/// Resolves a path beneath a handle in one call.
pub(super) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    if kernel_is_missing() {
        return Err(Errno::NOSYS);
    }
    let tries = if resolve.contains(ResolveFlags::CACHED) { 1 } else { AGAIN_TRIES };
    for _ in 0..tries {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            // No right is needed to look, so EPERM is a seccomp filter that does not know the call.
            Err(Errno::PERM) if !flags.contains(OFlags::PATH) => return Err(Errno::PERM),
            Err(Errno::NOSYS | Errno::PERM) => {
                NO_OPENAT2.store(true, Ordering::Relaxed);
                return Err(Errno::NOSYS);
            }
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Renames without replacing; `NOSYS` or `INVAL` where kernel or file system cannot.
pub(super) fn rename_exclusive(
    from: BorrowedFd<'_>,
    from_name: &[u8],
    to: BorrowedFd<'_>,
    to_name: &[u8],
) -> rustix::io::Result<()> {
    if NO_RENAMEAT2.load(Ordering::Relaxed) {
        return Err(Errno::NOSYS);
    }
    let done = retry(|| rustix::fs::renameat_with(from, from_name, to, to_name, rustix::fs::RenameFlags::NOREPLACE));
    if done == Err(Errno::NOSYS) {
        NO_RENAMEAT2.store(true, Ordering::Relaxed);
    }
    done
}

/// A handle as a name: `/proc/self/fd/N`, without allocating.
pub(super) struct ProcPath {
    bytes: [u8; 32],
    len: usize,
}

impl ProcPath {
    pub(super) fn new(fd: BorrowedFd<'_>) -> Self {
        const PREFIX: &[u8] = b"/proc/self/fd/";
        let mut bytes = [0; 32];
        bytes[..PREFIX.len()].copy_from_slice(PREFIX);
        let mut digits = [0_u8; 10];
        let mut count = 0;
        let mut number = fd.as_raw_fd().unsigned_abs();
        while count == 0 || number > 0 {
            digits[count] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            count += 1;
        }
        for (at, digit) in digits[..count].iter().rev().enumerate() {
            bytes[PREFIX.len() + at] = *digit;
        }
        ProcPath { bytes, len: PREFIX.len() + count }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Tells whether `/proc` is procfs, so that a handle can be reopened and never anything else.
pub(super) fn proc_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    *WORKS.get_or_init(|| {
        rustix::fs::statfs("/proc/self/fd").is_ok_and(|stat| {
            #[expect(clippy::useless_conversion, reason = "the width of f_type depends on the architecture")]
            let kind = i64::from(stat.f_type);
            kind == PROC_SUPER_MAGIC
        })
    })
}

/// Tells whether a handle lies on procfs.
pub(super) fn is_procfs(fd: BorrowedFd<'_>) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    rustix::fs::fstatfs(fd).is_ok_and(|stat| {
        #[expect(clippy::useless_conversion, reason = "the width of f_type depends on the architecture")]
        let kind = i64::from(stat.f_type);
        kind == PROC_SUPER_MAGIC
    })
}

/// Returns the host path of a directory handle.
pub(super) fn proc_readlink(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    if !proc_works() {
        return None;
    }
    let target = rustix::fs::readlinkat(CWD, ProcPath::new(fd).as_bytes(), Vec::new()).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
}

/// Opens what an `O_PATH` handle stands for; the kernel checks permissions again.
pub(super) fn reopen(handle: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = ProcPath::new(handle);
    retry(|| rustix::fs::openat(CWD, path.as_bytes(), flags, Mode::empty()))
}

/// Returns the id of the mount a handle lies on: two mounts of one device differ in it.
pub(super) fn mount_id(fd: BorrowedFd<'_>) -> Option<u64> {
    use rustix::fs::StatxFlags;
    if let Ok(stat) = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        && stat.stx_mask & StatxFlags::MNT_ID.bits() != 0
    {
        return Some(stat.stx_mnt_id);
    }
    if !proc_works() {
        return None;
    }
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let info = rustix::fs::openat(CWD, path, READ, Mode::empty()).ok()?;
    let mut bytes = [0; 512];
    let len = retry(|| rustix::io::read(&info, &mut bytes)).ok()?;
    let text = std::str::from_utf8(&bytes[..len]).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}
