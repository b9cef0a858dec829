//! Paths inside a workspace.
//!
//! [`WsPath`] is the boundary: strings become one here, and nothing below takes a string. It is POSIX
//! with the workspace root as `/`, holds any bytes the OS allows in a name, and never `.`, `..`, an
//! empty component or a NUL. `a` and `/a` are the same entry. What a caller typed is a [`RawPath`],
//! which may still hold `..`; only the filesystem can resolve that, because `link/..` is where the
//! link leads, not where it stands.

use crate::core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Longest component most filesystems take, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest path the kernel takes, in bytes.
pub const MAX_PATH_BYTES: usize = 4095;

/// One name in a directory: any bytes but `/` and NUL, never `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Checks one name.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::PathEmpty, "an empty name"));
        }
        if bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
            return Err(Error::new(ErrorKind::PathEscape, "not a plain name"));
        }
        if bytes.contains(&0) {
            return Err(Error::new(ErrorKind::PathNul, "path contains null byte"));
        }
        Ok(Name(Arc::from(bytes)))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// A path relative to the workspace root; the root itself is the empty path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WsPath(Arc<[u8]>);

impl Borrow<[u8]> for WsPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl WsPath {
    /// Returns the root.
    pub fn root() -> Self {
        WsPath(Arc::from(&[][..]))
    }

    /// Parses a path that must not hold `..`: names from stores, logs and directory listings.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self> {
        let raw = RawPath::parse(text.as_ref())?;
        if raw.has_parent_parts {
            return Err(Error::new(ErrorKind::PathEscape, "path holds '..'"));
        }
        Ok(raw.lexical())
    }

    /// Takes the path of an entry that was found, not typed: it may be longer than any one call can name.
    pub fn stored(bytes: &[u8]) -> Result<Self> {
        let mut path = Self::root();
        if bytes.is_empty() {
            return Ok(path);
        }
        for name in bytes.split(|&byte| byte == b'/') {
            path = path.join(Name::new(name)?.as_bytes());
        }
        Ok(path)
    }

    /// Returns the bytes, without a leading slash; the root is empty.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Tells whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Yields the names from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|part| !part.is_empty())
    }

    /// Counts the names.
    pub fn depth(&self) -> usize {
        self.names().count()
    }

    /// Returns the last name, or `None` for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.names().next_back()
    }

    /// Returns the directory that holds this entry; the root's parent is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(at) => WsPath(Arc::from(&self.0[..at])),
            None => Self::root(),
        }
    }

    /// Returns the entry `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        if self.is_root() {
            return WsPath(Arc::from(name));
        }
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        WsPath(Arc::from(bytes))
    }

    /// Returns the path below this one: `below` with this path in front.
    #[must_use]
    pub fn join_path(&self, below: &WsPath) -> Self {
        if below.is_root() { self.clone() } else { self.join(below.as_bytes()) }
    }

    /// Tells whether this is `other` or lies below it.
    pub fn starts_with(&self, other: &WsPath) -> bool {
        other.is_root()
            || (self.0.starts_with(&other.0) && (self.0.len() == other.0.len() || self.0[other.0.len()] == b'/'))
    }

    /// Returns this path relative to `base`, if it lies in it.
    pub fn strip_prefix(&self, base: &WsPath) -> Option<WsPath> {
        if !self.starts_with(base) {
            return None;
        }
        let rest = &self.0[base.0.len()..];
        Some(WsPath(Arc::from(rest.strip_prefix(b"/").unwrap_or(rest))))
    }
}

impl fmt::Debug for WsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Shows the path as users see it: relative, the root as `/`, undecodable bytes replaced, control
/// characters escaped so that a name cannot forge a line of output.
impl fmt::Display for WsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        for character in String::from_utf8_lossy(&self.0).chars() {
            if character.is_control() || is_bidi(character) {
                write!(f, "{}", character.escape_unicode())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

fn is_bidi(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text where it is text, an array of bytes where the name is not UTF-8: lossless both ways.
impl Serialize for WsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok("") => serializer.serialize_str("/"),
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for WsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Bytes(Vec<u8>),
        }
        let bytes = match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into_bytes(),
            Form::Bytes(bytes) => bytes,
        };
        // As the root is written.
        let bytes = if bytes == b"/" { &[][..] } else { &bytes };
        WsPath::stored(bytes).map_err(serde::de::Error::custom)
    }
}

/// A path as a caller wrote it: no `.`, no empty parts, but maybe `..` and a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPath {
    /// The parts, joined by single slashes.
    joined: Arc<[u8]>,
    has_parent_parts: bool,
    /// The caller wrote `x/` or `x/.`: only a directory will do.
    pub must_be_dir: bool,
}

impl RawPath {
    /// Splits and checks what the caller wrote.
    ///
    /// # Errors
    /// `path-empty`, `path-nul`, `path-too-long`.
    pub fn parse(text: &[u8]) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::PathEmpty, "path is empty"));
        }
        if text.contains(&0) {
            return Err(Error::new(ErrorKind::PathNul, "path contains null byte"));
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(Error::new(ErrorKind::PathTooLong, "path is longer than 4095 bytes"));
        }
        let (mut plain, mut has_parent_parts) = (true, false);
        for part in text.strip_prefix(b"/").unwrap_or(text).split(|&byte| byte == b'/') {
            if part.len() > MAX_NAME_BYTES {
                return Err(Error::new(ErrorKind::PathTooLong, "a name in the path is longer than 255 bytes"));
            }
            plain &= !part.is_empty() && part != b".";
            has_parent_parts |= part == b"..";
        }
        // PERF: nearly every path is plain already and costs one allocation.
        let joined = if plain {
            Arc::from(text.strip_prefix(b"/").unwrap_or(text))
        } else {
            let parts: Vec<&[u8]> =
                text.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
            Arc::from(parts.join(&b'/'))
        };
        let must_be_dir =
            text.ends_with(b"/") || text.ends_with(b"/.") || text == b"." || text == b".." || text.ends_with(b"/..");
        Ok(RawPath { joined, has_parent_parts, must_be_dir })
    }

    /// Returns the path if it holds no `..`, which is nearly always.
    pub fn plain(&self) -> Option<WsPath> {
        if self.has_parent_parts { None } else { Some(self.lexical()) }
    }

    /// Splits behind the last `..`: the parts that have to be looked at, and the path below where they lead.
    pub fn split_parents(&self) -> (Vec<&[u8]>, WsPath) {
        let mut parts: Vec<&[u8]> = self.parts().collect();
        let below = parts.split_off(parts.iter().rposition(|part| *part == b"..").map_or(0, |at| at + 1));
        (parts, WsPath(Arc::from(below.join(&b'/'))))
    }

    /// Yields the parts; some may be `..`.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.joined.split(|&byte| byte == b'/').filter(|part| !part.is_empty())
    }

    /// Tells whether the parts, read without looking at any link, climb above the root at some point.
    pub fn climbs_out(&self) -> bool {
        let mut depth = 0_usize;
        for part in self.parts() {
            if part == b".." {
                if depth == 0 {
                    return true;
                }
                depth -= 1;
            } else {
                depth += 1;
            }
        }
        false
    }

    fn lexical(&self) -> WsPath {
        WsPath(Arc::clone(&self.joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: S15
    #[test]
    fn paths_are_normalised() {
        for (text, shown) in [("a", "a"), ("/a", "a"), ("./a//b/", "a/b"), ("/", "/"), (".", "/"), ("a/./b", "a/b")] {
            assert_eq!(WsPath::new(text).unwrap().to_string(), shown, "{text}");
        }
        assert_eq!(WsPath::new("").unwrap_err().kind(), ErrorKind::PathEmpty);
        assert_eq!(WsPath::new("a\0b").unwrap_err().kind(), ErrorKind::PathNul);
        assert_eq!(WsPath::new("a/../b").unwrap_err().kind(), ErrorKind::PathEscape);
        assert_eq!(WsPath::new("x".repeat(256)).unwrap_err().kind(), ErrorKind::PathTooLong);
        for literal in ["...", "..a", "a..", "~", "%2e%2e/x", "$HOME"] {
            assert_eq!(WsPath::new(literal).unwrap().to_string(), literal);
        }
    }

    #[test]
    fn climbing_is_seen_at_any_point() {
        for (text, out) in
            [("..", true), ("a/..", false), ("a/../..", true), ("a/../../root/x", true), ("a/../b", false)]
        {
            assert_eq!(RawPath::parse(text.as_bytes()).unwrap().climbs_out(), out, "{text}");
        }
    }

    #[test]
    fn json_is_lossless() {
        for bytes in [&b"a/b"[..], "é/ü".as_bytes(), b"\xff/x"] {
            let path = WsPath::new(bytes).unwrap();
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<WsPath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn display_cannot_forge_a_line() {
        assert_eq!(WsPath::new("a\nb").unwrap().to_string(), "a\\u{a}b");
    }
}
