//! Loose objects: one zlib stream per file, `<kind> <len>\0` in front of the content.

use super::files::Dir;
use super::objects::{ObjectKind, Stream, damaged_object};
use super::pack::stream_error;
use crate::core::content::ObjectId;
use crate::core::error::Result;
use flate2::bufread::ZlibDecoder;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};

/// Returns where below `objects/` an object stands: its fan-out directory, and the path with it.
pub(super) fn place(id: &ObjectId) -> (String, String) {
    let mut path = String::with_capacity(41);
    for (at, byte) in id.0.iter().enumerate() {
        if at == 1 {
            path.push('/');
        }
        // Writing to a string cannot fail.
        let _infallible = write!(path, "{byte:02x}");
    }
    (path[..2].to_owned(), path)
}

/// Opens a loose object, or returns `None` if there is none.
pub(super) fn open(objects: &Dir, id: &ObjectId) -> Result<Option<Stream>> {
    let Some(file) = objects.open(&place(id).1)? else { return Ok(None) };
    let mut body = BufReader::new(ZlibDecoder::new(BufReader::with_capacity(32 << 10, file)));
    let mut head = Vec::new();
    (&mut body).take(32).read_until(0, &mut head).map_err(|error| stream_error(id, &error))?;
    let parsed = std::str::from_utf8(&head).ok().and_then(|head| {
        let (kind, len) = head.strip_suffix('\0')?.split_once(' ')?;
        Some((ObjectKind::parse(kind)?, len.parse().ok()?))
    });
    let Some((kind, len)) = parsed else { return Err(damaged_object(id)) };
    Ok(Some(Stream { kind, len, body: Box::new(body) }))
}

/// Returns the head of an object: what is hashed before its content.
pub(super) fn head(kind: ObjectKind, len: u64) -> Vec<u8> {
    format!("{kind} {len}\0").into_bytes()
}
