//! Trees: names git refuses, the order of entries, and the check of trees from elsewhere.
//!
//! A workspace may hold names that git forbids in a tree (`.git` in each spelling some file system
//! takes for it, `.gitmodules`, whose content git would interpret …). They are stored in a percent form,
//! so that `git fsck --strict` passes, a clone is possible and no git ever acts on them:
//!
//! * A name is stored as it is unless git gives it a meaning, or it starts with `%`.
//! * Else its first byte, and each `%` and `\` in it, is written as `%XX`.
//!
//! So a stored name that starts with `%` is always an encoded one, and both directions are exact.
//! The test for a dangerous name is wider than git's own, on purpose: a name encoded without need costs
//! nothing, one that is missed is an attack.
//!
//! [`decode_tree`] reads trees that anybody may have made, for example pushed into the store. It
//! rejects what could leave the workspace or mean two things, before anything is written.

use super::objects::ObjectKind;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use std::cmp::Ordering;

/// The tree without entries; an empty directory is an entry with this id.
pub const EMPTY_TREE: ObjectId = ObjectId([
    0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49,
    0x04,
]);

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeMode {
    /// A file.
    File,
    /// A file its owner may execute.
    Executable,
    /// A symbolic link; the blob holds its target.
    Symlink,
    /// A directory.
    Directory,
}

impl TreeMode {
    fn digits(self) -> &'static str {
        match self {
            TreeMode::File => "100644",
            TreeMode::Executable => "100755",
            TreeMode::Symlink => "120000",
            TreeMode::Directory => "40000",
        }
    }
}

/// An entry to be written.
#[derive(Debug, Clone, Copy)]
pub struct TreeItem<'a> {
    /// The name as the workspace knows it.
    pub name: &'a [u8],
    /// What it is.
    pub mode: TreeMode,
    /// Its blob or tree.
    pub id: ObjectId,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedItem {
    /// The name as the workspace knows it.
    pub name: Vec<u8>,
    /// What it is.
    pub mode: TreeMode,
    /// Its blob or tree.
    pub id: ObjectId,
}

impl OwnedItem {
    /// Returns the kind of object the id names.
    pub fn kind(&self) -> ObjectKind {
        if self.mode == TreeMode::Directory { ObjectKind::Tree } else { ObjectKind::Blob }
    }
}

/// Makes a tree object of entries in any order; names must be legal and differ.
pub fn encode_tree(items: &[TreeItem<'_>]) -> Vec<u8> {
    let mut entries: Vec<(std::borrow::Cow<'_, [u8]>, &TreeItem<'_>)> =
        items.iter().map(|item| (encode_name(item.name, item.mode), item)).collect();
    entries.sort_unstable_by(|(a, one), (b, other)| order(a, one.mode, b, other.mode));
    let len = entries.iter().map(|(name, _)| name.len() + 28).sum();
    let mut out = Vec::with_capacity(len);
    for (name, item) in entries {
        out.extend_from_slice(item.mode.digits().as_bytes());
        out.push(b' ');
        out.extend_from_slice(&name);
        out.push(0);
        out.extend_from_slice(&item.id.0);
    }
    out
}

/// Reads a tree object; entries come sorted by name.
///
/// # Errors
/// `store-corrupt` for bytes that are no tree or a tree that no honest program makes; `not-supported`
/// for a submodule.
pub fn decode_tree(mut bytes: &[u8]) -> Result<Vec<OwnedItem>> {
    let bad = |what: &str| Error::new(ErrorKind::StoreCorrupt, format!("a tree holds {what}"));
    let mut items = Vec::with_capacity(bytes.len() / 32);
    let mut last: Option<(&[u8], TreeMode)> = None;
    while !bytes.is_empty() {
        let head = bytes.len().min(8);
        let space = memchr::memchr(b' ', &bytes[..head]).ok_or_else(|| bad("an entry without a mode"))?;
        let mode = match &bytes[..space] {
            // Old gits wrote group-writable files.
            b"100644" | b"100664" => TreeMode::File,
            b"100755" => TreeMode::Executable,
            b"120000" => TreeMode::Symlink,
            b"40000" => TreeMode::Directory,
            b"160000" => return Err(Error::new(ErrorKind::NotSupported, "a tree holds a submodule")),
            _ => return Err(bad("an entry of unknown mode")),
        };
        let rest = &bytes[space + 1..];
        let end = memchr::memchr(0, rest).ok_or_else(|| bad("an entry without an end"))?;
        let stored = &rest[..end];
        let id = rest.get(end + 1..end + 21).ok_or_else(|| bad("an entry that is cut short"))?;
        bytes = &rest[end + 21..];
        if let Some((before, before_mode)) = last
            && order(before, before_mode, stored, mode) != Ordering::Less
        {
            return Err(bad("entries out of order"));
        }
        last = Some((stored, mode));
        let name = decode_name(stored);
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return Err(bad("a name that is no name"));
        }
        if stored.first() != Some(&b'%') && is_dot_git(stored) {
            return Err(bad("a name git reserves for itself"));
        }
        let mut raw = [0; 20];
        raw.copy_from_slice(id);
        items.push(OwnedItem { name, mode, id: ObjectId(raw) });
    }
    // Git's order lets `a` (a file) and `a` (a directory) stand apart, and two stored names may mean
    // the same; sorted by the real name, equals are neighbours.
    let sorted = items.is_sorted_by(|a, b| a.name < b.name);
    if !sorted {
        items.sort_by(|a, b| a.name.cmp(&b.name));
        if items.windows(2).any(|pair| pair[0].name == pair[1].name) {
            return Err(bad("two entries of one name"));
        }
    }
    Ok(items)
}

/// Git's order: by bytes, a directory as if its name ended in a slash.
fn order(a: &[u8], a_mode: TreeMode, b: &[u8], b_mode: TreeMode) -> Ordering {
    let common = a.len().min(b.len());
    a[..common].cmp(&b[..common]).then_with(|| {
        let next = |name: &[u8], mode| match name.get(common) {
            Some(byte) => u16::from(*byte),
            None if mode == TreeMode::Directory => u16::from(b'/'),
            None => 0,
        };
        next(a, a_mode).cmp(&next(b, b_mode))
    })
}

/// Returns the form of a name that is stored.
pub fn encode_name(name: &[u8], mode: TreeMode) -> std::borrow::Cow<'_, [u8]> {
    if name.first() != Some(&b'%') && !is_special(name, mode) {
        return name.into();
    }
    let mut out = Vec::with_capacity(name.len() + 8);
    for (at, byte) in name.iter().enumerate() {
        if at == 0 || matches!(byte, b'%' | b'\\') {
            out.push(b'%');
            out.extend_from_slice(&hex(*byte));
        } else {
            out.push(*byte);
        }
    }
    out.into()
}

/// Returns the name that is meant by a stored one; a percent form we never write is taken literally.
pub fn decode_name(stored: &[u8]) -> Vec<u8> {
    if stored.first() != Some(&b'%') {
        return stored.to_vec();
    }
    let mut name = Vec::with_capacity(stored.len());
    let mut at = 0;
    while at < stored.len() {
        if stored[at] != b'%' {
            name.push(stored[at]);
            at += 1;
            continue;
        }
        let digits = stored.get(at + 1..at + 3).and_then(|digits| Some((unhex(digits[0])?, unhex(digits[1])?)));
        let Some((high, low)) = digits else { return stored.to_vec() };
        name.push(high << 4 | low);
        at += 3;
    }
    name
}

fn hex(byte: u8) -> [u8; 2] {
    let digits = b"0123456789ABCDEF";
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

fn unhex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Tells whether git, on some system, reads a meaning into the name.
fn is_special(name: &[u8], mode: TreeMode) -> bool {
    // Most names hold none of these bytes at the start, and no backslash.
    components(name).any(|part| {
        let plain = plain_form(&part);
        let symlink_only: &[&[u8]] = &[b".gitignore", b".mailmap"];
        matches!(&*plain, b".git" | b"git~1" | b".gitmodules" | b".gitattributes")
            || (mode == TreeMode::Symlink && symlink_only.contains(&&*plain))
            || is_short_name(&part)
    })
}

fn is_dot_git(name: &[u8]) -> bool {
    components(name).any(|part| matches!(&*plain_form(&part), b".git" | b"git~1"))
}

/// Splits at backslashes, which separate directories on Windows, and drops what HFS+ ignores. A name
/// that cannot be special is not copied.
fn components(name: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, [u8]>> {
    name.split(|byte| *byte == b'\\')
        .map(without_ignorable)
        .filter(|part| part.first().is_some_and(|first| matches!(first, b'.' | b'g' | b'G' | b'm' | b'M')))
}

/// Removes the code points HFS+ ignores when it compares names.
fn without_ignorable(part: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let ignorable = |bytes: &[u8]| match bytes {
        [0xe2, 0x80, third, ..] => (0x8c..=0x8f).contains(third) || (0xaa..=0xae).contains(third),
        [0xe2, 0x81, third, ..] => (0xaa..=0xaf).contains(third),
        [0xef, 0xbb, 0xbf, ..] => true,
        _ => false,
    };
    if !part.iter().any(|byte| matches!(byte, 0xe2 | 0xef)) {
        return part.into();
    }
    let mut out = Vec::with_capacity(part.len());
    let mut at = 0;
    while at < part.len() {
        if ignorable(&part[at..]) {
            at += 3;
        } else {
            out.push(part[at]);
            at += 1;
        }
    }
    out.into()
}

/// Lower case, without a stream name (`::$INDEX_ALLOCATION`) and without the dots and spaces that
/// Windows drops from the end.
fn plain_form(part: &[u8]) -> Vec<u8> {
    let part = part.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = part.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
    part[..end].to_ascii_lowercase()
}

/// Names NTFS may have made up for `.gitmodules` and its kin: `gitmod~1`, `gi7eba~1`, `maba30~1` …
fn is_short_name(part: &[u8]) -> bool {
    let tilde = part.iter().take(8).position(|byte| *byte == b'~');
    tilde.is_some_and(|at| at > 0 && part.get(at + 1).is_some_and(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODES: [TreeMode; 4] = [TreeMode::File, TreeMode::Executable, TreeMode::Symlink, TreeMode::Directory];

    #[test]
    fn ordinary_names_are_stored_as_they_are() {
        for name in
            [&b".gitignore"[..], b".github", b"a\nb", b"\xff", b"git", b"main.c~", b"a\\b", b"100%", "é".as_bytes()]
        {
            assert_eq!(&*encode_name(name, TreeMode::File), name);
        }
    }

    #[test]
    fn every_alias_is_encoded() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git . .",
            "git~1",
            "GIT~1",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206a}t",
            ".git\\config",
            "a\\.git",
            ".gitmodules",
            ".GITMODULES ",
            ".gitattributes",
            "gitmod~1",
            "gi7eba~1",
            "GI7EBA~9",
            "gi7d29~1",
            "gitatt~2",
            "%2Egit",
        ] {
            for mode in MODES {
                let stored = encode_name(name.as_bytes(), mode);
                assert!(stored.starts_with(b"%"), "{name:?}");
                assert_eq!(decode_name(&stored), name.as_bytes());
            }
        }
        for name in [".gitignore", ".mailmap", ".MailMap", "maba30~1"] {
            assert!(encode_name(name.as_bytes(), TreeMode::Symlink).starts_with(b"%"), "{name}");
        }
    }

    fn entry(mode: &str, name: &[u8]) -> Vec<u8> {
        [mode.as_bytes(), b" ", name, b"\0", &[7; 20]].concat()
    }

    // rows: A34
    #[test]
    fn hostile_trees_are_refused() {
        for name in [&b".."[..], b".", b"", b"a/b", b"/a", b".git", b".GIT ", b"a\\.git", b"%2E%2E", b"%61%2Fb", b"%2E"]
        {
            let error = decode_tree(&entry("100644", name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreCorrupt, "{name:?}");
        }
        for mode in ["100600", "0100644", "", "040000", "120777"] {
            assert!(decode_tree(&entry(mode, b"a")).is_err(), "{mode}");
        }
        assert_eq!(decode_tree(&entry("160000", b"a")).unwrap_err().kind(), ErrorKind::NotSupported);
        let pairs: [(&str, &[u8], &str, &[u8]); 4] = [
            ("100644", b"a", "100644", b"a"),
            ("100644", b"a", "40000", b"a"),
            ("100644", b"b", "100644", b"a"),
            ("100644", b"%61", "100644", b"a"),
        ];
        for (mode, name, other_mode, other) in pairs {
            assert!(
                decode_tree(&[entry(mode, name), entry(other_mode, other)].concat()).is_err(),
                "{name:?} {other:?}"
            );
        }
    }

    fn names() -> impl Strategy<Value = Vec<u8>> {
        let special = prop::sample::select(vec![
            ".git",
            ".gitmodules",
            "git~1",
            "%",
            "%2E",
            "%25",
            "a\\.git",
            "\u{200c}.git",
            ".gitignore",
            "a",
            "a.",
            "a-",
        ]);
        let bytes = prop::collection::vec(any::<u8>(), 1..12);
        (prop::option::of(special), bytes)
            .prop_map(|(special, bytes)| {
                let tail: Vec<u8> = bytes.into_iter().filter(|byte| !matches!(byte, 0 | b'/')).collect();
                [special.unwrap_or_default().as_bytes(), &tail].concat()
            })
            .prop_filter("legal", |name| !name.is_empty() && name != b"." && name != b"..")
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(entries in prop::collection::btree_map(names(), 0..4_usize, 0..12)) {
            let items: Vec<TreeItem<'_>> = entries
                .iter()
                .map(|(name, mode)| TreeItem { name, mode: MODES[*mode], id: ObjectId([9; 20]) })
                .collect();
            let back = decode_tree(&encode_tree(&items)).unwrap();
            prop_assert_eq!(back.len(), items.len());
            for (item, back) in items.iter().zip(&back) {
                prop_assert_eq!(item.name, &back.name);
                prop_assert_eq!(item.mode, back.mode);
            }
        }

        #[test]
        fn any_bytes_are_a_tree_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(decode_tree(&bytes));
        }
    }
}
