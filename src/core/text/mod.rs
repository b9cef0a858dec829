//! Text inside files: line diffs and edits.
//!
//! Works on bytes handed in and returns bytes; it opens nothing and knows no tree. What counts as text is
//! decided here once, so that diff, edit, search and the readers agree.

pub mod diff;
pub mod edit;
mod legacy;

/// Bytes looked at for a NUL, as git does.
pub const BINARY_PROBE: usize = 8000;

/// Tells whether content is binary by git's rule: a NUL in the first 8000 bytes.
pub fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, &content[..content.len().min(BINARY_PROBE)]).is_some()
}

/// Returns the lines of `content`, each with its `\n`; only that byte separates lines.
pub(crate) fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|&byte| byte == b'\n')
}
