//! Refs: names for commits, as git stores them.
//!
//! Read from loose files and from `packed-refs`, which `git gc` makes of them; written loose.
//!
//! The callers hold the store's own lock, so no other hedgerow writes at the same time. Plain git may:
//! `git gc` packs a ref and then removes its file if it still holds the same id. A write in between must
//! not be lost, so a write follows git's protocol: the new value goes to `<ref>.lock`, made exclusively,
//! and is moved over the ref. A `.lock` older than [`STALE`] belongs to nobody alive (git holds one for
//! milliseconds) and is taken over, so that a process killed at the wrong moment blocks nobody for ever.

use super::files::{Dir, sync_file, write_all};
use super::objects::Objects;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Age at which somebody else's lock file counts as left behind.
const STALE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);
const MAX_REF_BYTES: u64 = 4096;
const MAX_PACKED_BYTES: u64 = 1 << 30;

/// The refs of one store.
#[derive(Debug)]
pub struct Refs {
    objects: Arc<Objects>,
    sync: bool,
}

impl Refs {
    /// Uses the refs of the store that holds `objects`; writes are flushed to the disk.
    pub fn new(objects: Arc<Objects>) -> Self {
        Refs { objects, sync: true }
    }

    /// Chooses whether writes are flushed to the disk before they return.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    fn dir(&self) -> &Dir {
        self.objects.dir()
    }

    /// Returns the commit a ref names, or `None` if there is no such ref.
    ///
    /// # Errors
    /// `store-corrupt` if it holds something else; `invalid-argument` for a name git would not take.
    pub fn read(&self, name: &str) -> Result<Option<ObjectId>> {
        check_name(name)?;
        if let Some(id) = self.read_loose(name)? {
            return Ok(Some(id));
        }
        // Only now: git writes the packed form before it removes the loose one.
        Ok(self.packed()?.remove(name))
    }

    /// Lists the refs whose name starts with `prefix`, by name.
    pub fn list(&self, prefix: &str) -> Result<Vec<(String, ObjectId)>> {
        let mut loose = Vec::new();
        // The directories in the prefix are gone into directly: a store may serve many workspaces.
        let start = match prefix.rsplit_once('/') {
            Some((dir, _)) if dir == "refs" || check_name(dir).is_ok() => dir,
            _ => "refs",
        };
        if let Some(dir) = self.dir().try_sub_path(start)? {
            walk(&dir, start, &mut loose)?;
        }
        let mut found = self.packed()?;
        found.extend(loose);
        Ok(found.into_iter().filter(|(name, _)| name.starts_with(prefix)).collect())
    }

    /// Lets a ref name `id`, if it names `expected` now; `None` stands for a ref that is not there.
    ///
    /// # Errors
    /// `base-moved` if it names something else.
    pub fn write(&self, name: &str, id: ObjectId, expected: Option<ObjectId>) -> Result<()> {
        self.change(name, Some(id), expected)
    }

    /// Removes a ref, if it names `expected` now.
    ///
    /// # Errors
    /// `base-moved` if it names something else.
    pub fn delete(&self, name: &str, expected: ObjectId) -> Result<()> {
        self.change(name, None, Some(expected))
    }

    fn change(&self, name: &str, id: Option<ObjectId>, expected: Option<ObjectId>) -> Result<()> {
        check_name(name)?;
        let (dir_name, leaf) = name.rsplit_once('/').unwrap_or(("", name));
        let (dir, made) = self.make_dirs(dir_name)?;
        let lock = match LockFile::take(&dir, &format!("{leaf}.lock")) {
            // Git removed the directory, which was empty, in this very moment.
            Err(error) if error.kind() == ErrorKind::FileNotFound => return self.change(name, id, expected),
            other => other?,
        };
        let present = self.read(name)?;
        if present != expected {
            return Err(Error::new(ErrorKind::BaseMoved, "the branch was moved by somebody else"));
        }
        if let Some(id) = id {
            write_all(&lock.file, format!("{id}\n").as_bytes(), "writing a ref")?;
            if self.sync {
                sync_file(&lock.file)?;
            }
            lock.publish(leaf)?;
        } else {
            // The packed form first, else the ref would be back for a moment with an old value.
            self.unpack(name)?;
            dir.remove(leaf)?;
        }
        if self.sync {
            made.iter().try_for_each(Dir::sync)?;
            dir.sync()?;
        }
        Ok(())
    }

    /// Makes the directories of a ref; returns the last, and those that got a new entry.
    fn make_dirs(&self, path: &str) -> Result<(Dir, Vec<Dir>)> {
        let mut changed = Vec::new();
        let mut dir = self.dir().sub("refs", true)?;
        for part in path.split('/').skip(1) {
            let next = match dir.try_sub(part) {
                Ok(Some(next)) => next,
                Ok(None) => {
                    let next = dir.sub(part, true)?;
                    changed.push(std::mem::replace(&mut dir, next));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::NotADirectory => {
                    return Err(Error::new(ErrorKind::BranchExists, "a branch has the name of this one's directory"));
                }
                Err(error) => return Err(error),
            };
            dir = next;
        }
        Ok((dir, changed))
    }

    fn read_loose(&self, name: &str) -> Result<Option<ObjectId>> {
        match self.dir().read_path(name, MAX_REF_BYTES) {
            Ok(Some(bytes)) => parse_ref(&bytes).map(Some),
            Ok(None) => Ok(None),
            // The name of a directory of refs, or below a ref: not a ref.
            Err(error) if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn packed(&self) -> Result<BTreeMap<String, ObjectId>> {
        let Some(bytes) = self.dir().read("packed-refs", MAX_PACKED_BYTES)? else { return Ok(BTreeMap::new()) };
        packed_lines(&bytes)
            .filter_map(|(line, name)| name.map(|name| (line, name)))
            .map(|(line, name)| Ok((name.to_owned(), parse_ref(&line[..40])?)))
            .collect()
    }

    /// Removes a ref from `packed-refs`.
    fn unpack(&self, name: &str) -> Result<()> {
        if !self.packed()?.contains_key(name) {
            return Ok(());
        }
        let lock = LockFile::take(self.dir(), "packed-refs.lock")?;
        let bytes = self.dir().read("packed-refs", MAX_PACKED_BYTES)?.unwrap_or_default();
        let mut out = Vec::with_capacity(bytes.len());
        let mut dropping = false;
        for (line, found) in packed_lines(&bytes) {
            // A line `^<id>` belongs to the tag before it.
            dropping = if line.starts_with(b"^") { dropping } else { found == Some(name) };
            if !dropping {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
        }
        write_all(&lock.file, &out, "writing the packed refs")?;
        if self.sync {
            sync_file(&lock.file)?;
        }
        lock.publish("packed-refs")?;
        if self.sync { self.dir().sync() } else { Ok(()) }
    }
}

fn walk(dir: &Dir, path: &str, out: &mut Vec<(String, ObjectId)>) -> Result<()> {
    for name in dir.list()? {
        let full = format!("{path}/{name}");
        if has_ending(&name, "lock") {
            continue;
        }
        match dir.try_sub(&name) {
            Ok(Some(below)) => walk(&below, &full, out)?,
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                // Read through the directory that was listed: it may have been packed meanwhile.
                if let Some(bytes) = dir.read(&name, MAX_REF_BYTES)? {
                    out.push((full, parse_ref(&bytes)?));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Yields the lines, with the name of the ref where one stands.
fn packed_lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], Option<&str>)> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let is_ref = line.len() > 41 && line[40] == b' ' && !matches!(line[0], b'#' | b'^');
        (line, if is_ref { std::str::from_utf8(&line[41..]).ok() } else { None })
    })
}

fn parse_ref(bytes: &[u8]) -> Result<ObjectId> {
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim_ascii_end();
    text.parse().map_err(|_| Error::new(ErrorKind::StoreCorrupt, "a ref of the store does not hold an id"))
}

/// Checks a full name by git's rules.
fn check_name(name: &str) -> Result<()> {
    let part_ok = |part: &str| {
        !part.is_empty()
            && part.len() <= 200
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !has_ending(part, "lock")
    };
    let bad = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let good = name.strip_prefix("refs/").is_some_and(|rest| rest.split('/').all(part_ok))
        && name.len() <= 1024
        && !name.contains(bad)
        && !name.contains("..")
        && !name.contains("@{");
    if good { Ok(()) } else { Err(Error::new(ErrorKind::InvalidArgument, "not a valid name for a ref")) }
}

fn has_ending(name: &str, ending: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, last)| last == ending)
}

/// Git's lock file, which is also the new file.
struct LockFile<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    published: bool,
}

impl<'a> LockFile<'a> {
    fn take(dir: &'a Dir, name: &str) -> Result<Self> {
        let start = Instant::now();
        loop {
            match dir.create_new(name) {
                Ok(file) => return Ok(LockFile { dir, name: name.to_owned(), file, published: false }),
                Err(Errno::EXIST) if start.elapsed() < STALE * 2 => {
                    if dir.age(name).is_some_and(|age| age > STALE) {
                        dir.remove(name)?;
                    } else {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(Errno::EXIST) => {
                    return Err(Error::new(ErrorKind::LockTimeout, "another program is writing the refs of the store"));
                }
                Err(error) => return Err(Error::os(error, "writing a ref")),
            }
        }
    }

    fn publish(mut self, name: &str) -> Result<()> {
        match self.dir.rename(&self.name, self.dir, name) {
            // A directory that lost its last ref may stand there.
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) if self.dir.remove_dir(name) => {
                self.dir.rename(&self.name, self.dir, name).map_err(|error| Error::os(error, "writing a ref"))?;
            }
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                return Err(Error::new(ErrorKind::BranchExists, "the name is a directory of other branches"));
            }
            other => other.map_err(|error| Error::os(error, "writing a ref"))?,
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for LockFile<'_> {
    fn drop(&mut self) {
        if !self.published {
            // Left behind, it is taken over when it is old.
            drop(self.dir.remove(&self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Refs) {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::open(&dir.path().join("s"), true).unwrap();
        (dir, Refs::new(objects).sync(false))
    }

    const A: ObjectId = ObjectId([1; 20]);
    const B: ObjectId = ObjectId([2; 20]);

    #[test]
    fn a_write_needs_the_right_expectation() {
        let (_dir, refs) = store();
        refs.write("refs/heads/ws/main", A, None).unwrap();
        assert_eq!(refs.write("refs/heads/ws/main", B, None).unwrap_err().kind(), ErrorKind::BaseMoved);
        refs.write("refs/heads/ws/main", B, Some(A)).unwrap();
        assert_eq!(refs.read("refs/heads/ws/main").unwrap(), Some(B));
        assert_eq!(refs.read("refs/heads/ws").unwrap(), None);
        assert_eq!(refs.read("refs/heads/ws/main/x").unwrap(), None);
        assert_eq!(refs.write("refs/heads/ws", A, None).unwrap_err().kind(), ErrorKind::BranchExists);
        assert_eq!(refs.write("refs/heads/ws/main/x", A, None).unwrap_err().kind(), ErrorKind::BranchExists);
        refs.delete("refs/heads/ws/main", B).unwrap();
        assert_eq!(refs.list("refs/").unwrap(), []);
        refs.write("refs/heads/ws", A, None).unwrap();
    }

    #[test]
    fn packed_refs_are_read_overridden_and_removed() {
        let (dir, refs) = store();
        let text = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{A} refs/heads/w/a\n{A} refs/tags/t\n^{B}\n{B} refs/x\n"
        );
        std::fs::write(dir.path().join("s/packed-refs"), text).unwrap();
        assert_eq!(refs.read("refs/heads/w/a").unwrap(), Some(A));
        refs.write("refs/heads/w/a", B, Some(A)).unwrap();
        refs.write("refs/heads/w/b", B, None).unwrap();
        assert_eq!(refs.list("refs/heads/w/").unwrap(), [("refs/heads/w/a".into(), B), ("refs/heads/w/b".into(), B)]);
        refs.delete("refs/heads/w/a", B).unwrap();
        assert_eq!(refs.read("refs/heads/w/a").unwrap(), None);
        refs.delete("refs/tags/t", A).unwrap();
        assert_eq!(refs.list("refs/").unwrap(), [("refs/heads/w/b".into(), B), ("refs/x".into(), B)]);
    }

    #[test]
    fn a_lock_left_behind_is_taken_over() {
        let (dir, refs) = store();
        refs.write("refs/heads/a", A, None).unwrap();
        let lock = File::create(dir.path().join("s/refs/heads/a.lock")).unwrap();
        lock.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
        refs.write("refs/heads/a", B, Some(A)).unwrap();
        assert_eq!(refs.list("refs/heads/").unwrap(), [("refs/heads/a".into(), B)]);
    }

    #[test]
    fn names_git_would_refuse_are_refused() {
        let (_dir, refs) = store();
        for name in [
            "HEAD",
            "refs/",
            "refs/a//b",
            "refs/.a",
            "refs/a..b",
            "refs/a.lock",
            "refs/a b",
            "refs/../x",
            "refs/a@{0}",
            "refs/a\n",
        ] {
            assert_eq!(refs.read(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
        }
    }
}
