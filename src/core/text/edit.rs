//! Exact edits of text in bytes, and the text a reader is shown.
//!
//! Two laws. Whatever a reader was shown ([`view`]) can be used as `old`, for every mixture of line endings, with a
//! byte order mark, in UTF-16, and where bytes that are no text stand as U+FFFD. And bytes outside the
//! match never change: nothing is decoded and encoded again but the match itself, so one edit of ASCII cannot
//! destroy the rest of a file in another encoding.
//!
//! Matching is done on the shown text, where every character knows which bytes it stands for. Exact text
//! wins. Only if there is none, line endings are let go: tools that hide `\r` are common, and what they show
//! must match too; the replacement then gets the ending the place uses. Replacement text is literal.
//!
//! One liberty is taken with an exact match: when neither `old` nor `new` holds a `\r`, new lines given as `\n`
//! get the ending the place uses, that of the match or else of its line. Who names `\r` gets what was named.

use super::legacy::Legacy;
use crate::core::error::{Error, ErrorKind, Result};
use encoding_rs::Encoding;
use memchr::memmem;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Files larger than this, or that would be, are not edited as text.
pub const MAX_BYTES: usize = 256 << 20;
/// Longest search for a near match once an edit has failed.
const NEAR_BUDGET: Duration = Duration::from_millis(40);
/// Text looked at for a near match; behind it the exact message is not worth the time.
const NEAR_BYTES: usize = 512 << 10;
/// Longest piece of a file quoted in a message, in bytes.
const QUOTE_BYTES: usize = 200;
const BOM: char = '\u{feff}';
const REPLACEMENT: char = '\u{fffd}';

/// The outcome of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The new content.
    pub bytes: Vec<u8>,
    /// Occurrences replaced.
    pub replaced: usize,
    /// Line of the first one, 1-based.
    pub first_line: usize,
}

/// What a reader is shown of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// The text, without a byte order mark, line endings as they are.
    pub text: Cow<'a, str>,
    /// Some bytes were no text and stand as U+FFFD.
    pub lossy: bool,
    /// Label of the encoding the text was read as: `utf-8`, `utf-16le`, `utf-16be` or one that was named.
    pub encoding: &'static str,
    /// A byte order mark stands before the text.
    pub bom: bool,
}

/// Returns the text a reader is shown: UTF-8, or UTF-16 where a byte order mark says so.
pub fn view(content: &[u8]) -> View<'_> {
    let form = Form::of(content);
    let (text, lossy) = form.decode(content);
    View { text, lossy, encoding: form.label(), bom: form.bom_len() > 0 }
}

/// Returns the text of UTF-16 with a byte order mark; `None` for anything else, told by its first two bytes.
pub fn utf16_text(content: &[u8]) -> Option<String> {
    let form = Form::of(content);
    let is_text = matches!(form, Form::Utf16 { .. }) && !is_binary_for_edit(content);
    is_text.then(|| form.decode(content).0.into_owned())
}

/// Writes a whole text as the content that stands there holds its own: UTF-16 and a byte order mark stay. What is no
/// text becomes UTF-8.
pub fn encode_as(present: &[u8], text: &str) -> Vec<u8> {
    let form = if is_binary_for_edit(present) { Form::Utf8 { bom: 0 } } else { Form::of(present) };
    let mark = &present[..form.bom_len()];
    let text = if mark.is_empty() { text } else { text.strip_prefix(BOM).unwrap_or(text) };
    [mark, &form.encode(text)].concat()
}

/// Tells whether [`edit`] refuses a content as binary: a NUL near the beginning and no UTF-16 mark.
pub fn is_binary_for_edit(content: &[u8]) -> bool {
    let utf16 = matches!(Form::of(content), Form::Utf16 { .. });
    // What looks like a UTF-16 mark and a NUL character is the mark of UTF-32.
    if utf16 { content.starts_with(&[0xff, 0xfe, 0, 0]) } else { super::is_binary(content) }
}

/// Replaces `old` by `new`. It must occur exactly `count` times; `None` takes all, at least one.
///
/// # Errors
/// `invalid-argument` (empty `old`, `count` of zero), `binary-file`, `edit-no-match`, `edit-ambiguous`, `file-too-large`
/// for what would come out of it, and `not-utf8` if the file is not UTF-8 and the edit would put characters of another
/// encoding into it.
pub fn edit(content: &[u8], old: &str, new: &str, count: Option<usize>) -> Result<Edited> {
    check_arguments(old, count)?;
    if is_binary_for_edit(content) {
        return Err(Error::new(ErrorKind::BinaryFile, "the file is binary"));
    }
    edit_unicode(content, Form::of(content), old, new, count)
}

/// Replaces `old` by `new` in a file of a named encoding, as [`edit`] does in UTF-8.
///
/// # Errors
/// Those of [`edit`]; `not-utf8` also if the content is not valid in that encoding, if a character of `new` does not
/// exist there, or if the place cannot be changed without changing what stands around it.
pub fn edit_encoded(content: &[u8], old: &str, new: &str, count: Option<usize>, label: &str) -> Result<Edited> {
    check_arguments(old, count)?;
    let encoding = match find_encoding(label)? {
        Named::Unicode(Form::Utf8 { .. }) => return edit(content, old, new, count),
        Named::Unicode(Form::Utf16 { big, .. }) => {
            // The name without an order of bytes leaves that to the mark.
            let any_order = matches!(label.trim().to_ascii_lowercase().as_str(), "utf-16" | "utf_16" | "utf16" | "u16");
            let form = match Form::of(content) {
                marked @ Form::Utf16 { big: marked_big, .. } if any_order || marked_big == big => marked,
                _ => Form::Utf16 { big, bom: 0 },
            };
            return edit_unicode(content, form, old, new, count);
        }
        Named::Legacy(encoding) => encoding,
    };
    if super::is_binary(content) {
        return Err(Error::new(ErrorKind::BinaryFile, "the file is binary"));
    }
    let refused = |what: String| {
        Error::new(ErrorKind::NotUtf8, what)
            .with_hint("Nothing was changed; edit the bytes, or name the right encoding.")
    };
    let (text, malformed) = encoding.decode(content);
    if malformed {
        return Err(refused(format!("the file is not valid {}", encoding.name())));
    }
    let found = find(&text, old, new, count)?;
    let cuts: Vec<usize> = found.iter().flat_map(|hit| [hit.range.start, hit.range.end]).collect();
    let places = encoding.offsets(content, &cuts);
    let mut bytes = Vec::with_capacity(content.len() + new.len());
    let mut expected = String::with_capacity(text.len() + new.len());
    let (mut at, mut text_at) = (0, 0);
    for (hit, place) in found.iter().zip(places.chunks_exact(2)) {
        let [Some(start), Some(end)] = *place else {
            return Err(refused("the match begins or ends inside a character of the file".to_owned()));
        };
        bytes.extend_from_slice(&content[at..start]);
        bytes.extend(encode_legacy(&hit.new, &encoding)?);
        expected.push_str(&text[text_at..hit.range.start]);
        expected.push_str(&hit.new);
        (at, text_at) = (end, hit.range.end);
    }
    bytes.extend_from_slice(&content[at..]);
    expected.push_str(&text[text_at..]);
    // An encoding with states (ISO-2022-JP) may read the untouched bytes differently behind the new ones.
    let (now, malformed) = encoding.decode(&bytes);
    if malformed || now != expected {
        return Err(refused(format!("the change would alter what stands around it in {}", encoding.name())));
    }
    Ok(Edited { bytes, replaced: found.len(), first_line: first_line(&text, &found) })
}

fn check_arguments(old: &str, count: Option<usize>) -> Result<()> {
    if old.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "old is empty").with_hint("Give the text to replace."));
    }
    if count == Some(0) {
        return Err(
            Error::new(ErrorKind::InvalidArgument, "count is zero").with_hint("Give the number of occurrences.")
        );
    }
    Ok(())
}

fn edit_unicode(content: &[u8], form: Form, old: &str, new: &str, count: Option<usize>) -> Result<Edited> {
    let (text, lossy) = form.decode(content);
    // Who read the bytes has the mark in hand; it belongs to the file, not to the text.
    let marked = form.bom_len() > 0 && old.starts_with(BOM) && old.len() > BOM.len_utf8();
    let (old, new) = if marked && !text.contains(old) {
        (&old[BOM.len_utf8()..], new.strip_prefix(BOM).unwrap_or(new))
    } else {
        (old, new)
    };
    let mixed = lossy && matches!(form, Form::Utf8 { .. });
    let found = find(&text, old, new, count).map_err(|error| {
        if mixed && error.kind() == ErrorKind::EditNoMatch && !old.is_ascii() && !old.contains(REPLACEMENT) {
            return not_utf8("the file is not valid UTF-8 and old holds characters it does not have as UTF-8");
        }
        error
    })?;
    let mut map = OffsetMap::new(content, form, &text);
    let mut bytes = Vec::with_capacity(content.len() + new.len());
    let mut at = 0;
    for hit in &found {
        let start = map.place(hit.range.start);
        let before = &text[hit.range.clone()];
        bytes.extend_from_slice(&content[at..start]);
        if lossy {
            let stood = map.stray(hit.range.clone());
            bytes.extend(keep_bytes(before, &hit.new, &stood, form, mixed)?);
        } else {
            bytes.extend(form.encode(&hit.new));
        }
        at = map.place(hit.range.end);
    }
    bytes.extend_from_slice(&content[at..]);
    if lossy && matches!(form, Form::Utf16 { .. }) {
        // A lone byte at the end, or half a surrogate pair, would join with what is put beside it.
        let mut expected = String::with_capacity(text.len());
        let mut at = 0;
        for hit in &found {
            expected.push_str(&text[at..hit.range.start]);
            expected.push_str(&hit.new);
            at = hit.range.end;
        }
        expected.push_str(&text[at..]);
        if form.decode(&bytes).0 != expected {
            return Err(not_utf8(
                "the file is not valid UTF-16 at this place, and the change would alter what stands beside it",
            ));
        }
    }
    Ok(Edited { bytes, replaced: found.len(), first_line: first_line(&text, &found) })
}

fn not_utf8(message: &str) -> Error {
    Error::new(ErrorKind::NotUtf8, message)
        .with_hint("Nothing was changed; name the encoding of the file, or read it as bytes.")
}

/// Encodes `new`, which replaces `old`, in a file that is not all text: each U+FFFD kept from `old` becomes
/// the bytes it stood for. `stood` holds those, in order.
fn keep_bytes(old: &str, new: &str, stood: &[&[u8]], form: Form, mixed: bool) -> Result<Vec<u8>> {
    let prefix: usize = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let same = old_rest.chars().rev().zip(new_rest.chars().rev()).take_while(|(a, b)| a == b);
    let suffix: usize = same.map(|(a, _)| a.len_utf8()).sum();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - suffix], &new_rest[..new_rest.len() - suffix]);
    let marks = |text: &str| text.chars().filter(|&character| character == REPLACEMENT).count();
    let (gone, kept) = (marks(old_middle), marks(new_middle));
    if kept != 0 && kept != gone {
        return Err(not_utf8("new does not keep the undecodable places of old, so their bytes cannot be put back"));
    }
    if mixed {
        // Characters may stay or go, but none may come: nobody knows how this file would write it.
        let mut had = old_middle.chars().filter(|character| !character.is_ascii());
        if !new_middle.chars().filter(|character| !character.is_ascii()).all(|new| had.any(|old| old == new)) {
            return Err(not_utf8("the file is not valid UTF-8 and new brings in characters beyond ASCII"));
        }
    }
    let before = marks(&old[..prefix]);
    let behind = before + gone;
    let mut order = (0..before).chain(before..before + kept).chain(behind..stood.len());
    let mut out = Vec::with_capacity(new.len());
    for (index, piece) in new.split(REPLACEMENT).enumerate() {
        if index > 0 {
            out.extend_from_slice(order.next().and_then(|at| stood.get(at)).copied().unwrap_or_default());
        }
        out.extend(form.encode(piece));
    }
    Ok(out)
}

/// How a content holds text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Utf8 { bom: usize },
    Utf16 { big: bool, bom: usize },
}

impl Form {
    fn of(content: &[u8]) -> Self {
        match content {
            [0xef, 0xbb, 0xbf, ..] => Form::Utf8 { bom: 3 },
            [0xff, 0xfe, ..] => Form::Utf16 { big: false, bom: 2 },
            [0xfe, 0xff, ..] => Form::Utf16 { big: true, bom: 2 },
            _ => Form::Utf8 { bom: 0 },
        }
    }

    fn bom_len(self) -> usize {
        match self {
            Form::Utf8 { bom } | Form::Utf16 { bom, .. } => bom,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Form::Utf8 { .. } => "utf-8",
            Form::Utf16 { big: false, .. } => "utf-16le",
            Form::Utf16 { big: true, .. } => "utf-16be",
        }
    }

    /// Returns the text and whether some bytes were none.
    fn decode(self, content: &[u8]) -> (Cow<'_, str>, bool) {
        let body = content.get(self.bom_len()..).unwrap_or_default();
        match self {
            Form::Utf8 { .. } => {
                let text = String::from_utf8_lossy(body);
                let lossy = matches!(text, Cow::Owned(_));
                (text, lossy)
            }
            Form::Utf16 { big, .. } => {
                let pairs = body.chunks_exact(2);
                let odd = !pairs.remainder().is_empty();
                let units = pairs.map(|pair| {
                    let pair = [pair[0], pair[1]];
                    if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
                });
                let mut lossy = odd;
                let mut text = String::with_capacity(body.len());
                for unit in char::decode_utf16(units) {
                    lossy |= unit.is_err();
                    text.push(unit.unwrap_or(REPLACEMENT));
                }
                if odd {
                    text.push(REPLACEMENT);
                }
                (Cow::Owned(text), lossy)
            }
        }
    }

    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Form::Utf8 { .. } => text.as_bytes().to_vec(),
            Form::Utf16 { big, .. } => {
                text.encode_utf16().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
            }
        }
    }
}

/// Finds the bytes a place of the shown text stands for. Places must be asked for in rising order.
struct OffsetMap<'a> {
    content: &'a [u8],
    form: Form,
    text: &'a str,
    /// For broken UTF-8: where each U+FFFD of ours stands in the text, and its bytes in the content.
    strays: Vec<(usize, Range<usize>)>,
    /// UTF-16: the last place asked for, in the text and in the content.
    last: (usize, usize),
}

impl<'a> OffsetMap<'a> {
    fn new(content: &'a [u8], form: Form, text: &'a str) -> Self {
        let bom = form.bom_len();
        let mut strays = Vec::new();
        if let Form::Utf8 { .. } = form {
            let (mut at, mut text_at) = (bom, 0);
            for chunk in content[bom..].utf8_chunks() {
                at += chunk.valid().len();
                text_at += chunk.valid().len();
                if !chunk.invalid().is_empty() {
                    strays.push((text_at, at..at + chunk.invalid().len()));
                    at += chunk.invalid().len();
                    text_at += REPLACEMENT.len_utf8();
                }
            }
        }
        OffsetMap { content, form, text, strays, last: (0, bom) }
    }

    fn place(&mut self, text_at: usize) -> usize {
        match self.form {
            Form::Utf8 { bom } => {
                let before = self.strays.partition_point(|(at, _)| *at < text_at);
                match before.checked_sub(1).and_then(|index| self.strays.get(index)) {
                    Some((at, bytes)) => bytes.end + (text_at - at - REPLACEMENT.len_utf8()),
                    None => bom + text_at,
                }
            }
            Form::Utf16 { .. } => {
                let (from, mut place) = self.last;
                place += self.text[from..text_at].chars().map(|character| 2 * character.len_utf16()).sum::<usize>();
                // The odd byte at the end is one U+FFFD.
                place = place.min(self.content.len());
                self.last = (text_at, place);
                place
            }
        }
    }

    /// Returns the bytes of each U+FFFD in a range of the text, real ones included.
    fn stray(&self, range: Range<usize>) -> Vec<&'a [u8]> {
        let mut ahead = OffsetMap { strays: self.strays.clone(), ..*self };
        let marks =
            self.text[range.clone()].match_indices(REPLACEMENT).map(|(at, mark)| (range.start + at, mark.len()));
        marks.map(|(at, len)| &self.content[ahead.place(at)..ahead.place(at + len)]).collect()
    }
}

/// One occurrence in the shown text and what replaces it: shared, because one text may come to a million places.
struct Hit {
    range: Range<usize>,
    new: Rc<str>,
}

fn find(text: &str, old: &str, new: &str, count: Option<usize>) -> Result<Vec<Hit>> {
    let exact = places(text.as_bytes(), old.as_bytes(), count);
    if !exact.is_empty() {
        check_count(text, &exact, count)?;
        return bounded(text, exact_hits(text, old, new, exact));
    }
    for lone in [false, true] {
        let found = places_any_ending(text, old, count, lone);
        if !found.is_empty() {
            let starts: Vec<usize> = found.iter().map(|range| range.start).collect();
            check_count(text, &starts, count)?;
            return bounded(text, any_ending_hits(text, new, found));
        }
    }
    Err(no_match(text, old))
}

/// Finds where `old` occurs. Asked for the one place, an overlapping one counts too: which of them is meant?
fn places(text: &[u8], old: &[u8], count: Option<usize>) -> Vec<usize> {
    let finder = memmem::Finder::new(old);
    let mut found: Vec<usize> = finder.find_iter(text).collect();
    if let ([only], Some(1)) = (found.as_slice(), count) {
        let after = only + 1;
        found.extend(finder.find(&text[after..]).map(|at| after + at));
    }
    found
}

fn check_count(text: &str, places: &[usize], count: Option<usize>) -> Result<()> {
    let Some(wanted) = count.filter(|&wanted| wanted != places.len()) else { return Ok(()) };
    let mut lines = String::new();
    let (mut at, mut line) = (0, 1);
    for &place in places.iter().take(10) {
        line += newlines(&text[at..place]);
        at = place;
        let _infallible = write!(lines, "{}{line}", if lines.is_empty() { "" } else { ", " });
    }
    let times = if places.len() == 1 { "once".to_owned() } else { format!("{} times", places.len()) };
    let word = if places.len() == 1 { "line" } else { "lines" };
    let more = if places.len() > 10 { ", …" } else { "" };
    let message = format!("old occurs {times}, not {wanted}: {word} {lines}{more}");
    Err(Error::new(ErrorKind::EditAmbiguous, message))
}

/// Refuses what would grow beyond what can be edited, before a byte of it is made.
fn bounded(text: &str, hits: Vec<Hit>) -> Result<Vec<Hit>> {
    let goes: usize = hits.iter().map(|hit| hit.range.len()).sum();
    let comes = hits.iter().fold(0_usize, |sum, hit| sum.saturating_add(hit.new.len()));
    let size = comes.saturating_add(text.len() - goes);
    if size > MAX_BYTES && comes > goes {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("the file would have {size} bytes"))
            .with_hint("Use a shorter replacement, or replace fewer places."));
    }
    Ok(hits)
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

fn first_line(text: &str, hits: &[Hit]) -> usize {
    hits.first().map_or(1, |hit| 1 + newlines(&text[..hit.range.start]))
}

/// Makes the hits of exact places, given in rising order. New lines get the ending of the place, unless `\r` is named.
fn exact_hits(text: &str, old: &str, new: &str, places: Vec<usize>) -> Vec<Hit> {
    let bytes = text.as_bytes();
    let is_named = old.contains('\r') || new.contains('\r') || !new.contains('\n');
    let ending_at = |at: usize| if at > 0 && bytes[at - 1] == b'\r' { "\r\n" } else { "\n" };
    // A file without `\n` has at most lone `\r`.
    let last = memchr::memrchr(b'\n', bytes).map_or_else(|| dominant_ending(text).unwrap_or("\n"), ending_at);
    let mut next = memchr::memchr(b'\n', bytes);
    let mut hits = Vec::with_capacity(places.len());
    let as_it_is: Rc<str> = Rc::from(new);
    let mut with_endings = Vec::new();
    for at in places {
        let range = at..at + old.len();
        if is_named {
            hits.push(Hit { range, new: Rc::clone(&as_it_is) });
            continue;
        }
        if next.is_some_and(|next| next < range.end) {
            next = memchr::memchr(b'\n', &bytes[range.end..]).map(|after| range.end + after);
        }
        // The `\r` of a match that begins with `\n` stands before it.
        let is_cut = old.starts_with('\n') && ending_at(at) == "\r\n";
        let ending = if old[usize::from(is_cut)..].contains('\n') {
            "\n"
        } else if is_cut {
            "\r\n"
        } else {
            next.map_or(last, ending_at)
        };
        let new = made_once(&mut with_endings, (is_cut, ending), || {
            let (first, rest) = match new.strip_prefix('\n') {
                Some(rest) if is_cut => ("\n", rest),
                _ => ("", new),
            };
            format!("{first}{}", rest.replace('\n', ending))
        });
        hits.push(Hit { range, new });
    }
    hits
}

/// Returns the text of a key, made when it is asked for the first time; there are a handful of keys.
fn made_once<K: PartialEq>(made: &mut Vec<(K, Rc<str>)>, key: K, make: impl FnOnce() -> String) -> Rc<str> {
    if let Some((_, text)) = made.iter().find(|(known, _)| *known == key) {
        return Rc::clone(text);
    }
    let text: Rc<str> = Rc::from(make());
    made.push((key, Rc::clone(&text)));
    text
}

/// Finds `old` with every line ending taken as the same: `\r\n` and `\n`, and `\r` alone too if `lone`.
fn places_any_ending(text: &str, old: &str, count: Option<usize>, lone: bool) -> Vec<Range<usize>> {
    let plain = |text: &str| {
        let text = text.replace("\r\n", "\n");
        if lone { text.replace('\r', "\n") } else { text }
    };
    let plain_old = plain(old);
    // Without a line ending there is nothing to let go; without `\r` on either side neither.
    if !plain_old.contains('\n') || !(text.contains('\r') || old.contains('\r')) {
        return Vec::new();
    }
    let plain_text = plain(text);
    // Each `\r` left out, by its place in the plain text, which is that of its `\n`.
    let bytes = text.as_bytes();
    let mut left_out = Vec::new();
    for at in memchr::memchr_iter(b'\r', bytes) {
        if bytes.get(at + 1) == Some(&b'\n') {
            left_out.push(at - left_out.len());
        }
    }
    let place = |plain_at: usize| plain_at + left_out.partition_point(|&cut| cut < plain_at);
    let found = places(plain_text.as_bytes(), plain_old.as_bytes(), count);
    found.into_iter().map(|at| place(at)..place(at + plain_old.len())).collect()
}

/// Makes the hits of places with other line endings than `old`: new lines get those of the place.
fn any_ending_hits(text: &str, new: &str, places: Vec<Range<usize>>) -> Vec<Hit> {
    let plain_new = new.replace("\r\n", "\n");
    let of_file = dominant_ending(text);
    let mut with_endings = Vec::new();
    let hit = |range: Range<usize>| {
        let ending = dominant_ending(&text[range.clone()]).or(of_file).unwrap_or("\n");
        Hit { range, new: made_once(&mut with_endings, ending, || plain_new.replace('\n', ending)) }
    };
    places.into_iter().map(hit).collect()
}

/// Returns the most frequent line ending, the first one seen among equals.
fn dominant_ending(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let mut counts = [("\r\n", 0_usize, usize::MAX), ("\n", 0, usize::MAX), ("\r", 0, usize::MAX)];
    for at in memchr::memchr2_iter(b'\r', b'\n', bytes) {
        let kind = match bytes[at] {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => 0,
            b'\r' => 2,
            _ if at > 0 && bytes[at - 1] == b'\r' => continue,
            _ => 1,
        };
        counts[kind].1 += 1;
        counts[kind].2 = counts[kind].2.min(at);
    }
    let best = counts.into_iter().max_by_key(|(_, count, first)| (*count, std::cmp::Reverse(*first)))?;
    (best.1 > 0).then_some(best.0)
}

enum Named {
    Unicode(Form),
    Legacy(Legacy),
}

fn find_encoding(label: &str) -> Result<Named> {
    let unknown = || Error::new(ErrorKind::InvalidArgument, format!("unknown encoding: {}", quote(label)));
    if let Some(encoding) = Legacy::of_python(label) {
        return Ok(Named::Legacy(encoding));
    }
    let normal = label.trim().to_ascii_lowercase().replace('_', "-");
    // Names Python uses that the web does not know.
    let web = match normal.as_str() {
        "utf-8-sig" => "utf-8",
        "cp932" | "ms932" | "shift-jis" => "shift_jis",
        "cp936" | "ms936" => "gbk",
        "cp949" => "euc-kr",
        "cp950" => "big5",
        "utf16" | "u16" => "utf-16",
        "utf-16-le" => "utf-16le",
        "utf-16-be" => "utf-16be",
        other => other,
    };
    let encoding =
        Encoding::for_label(web.as_bytes()).or_else(|| Encoding::for_label(label.as_bytes())).ok_or_else(unknown)?;
    Ok(if encoding == encoding_rs::UTF_8 {
        Named::Unicode(Form::Utf8 { bom: 0 })
    } else if encoding == encoding_rs::UTF_16LE {
        Named::Unicode(Form::Utf16 { big: false, bom: 0 })
    } else if encoding == encoding_rs::UTF_16BE {
        Named::Unicode(Form::Utf16 { big: true, bom: 0 })
    } else if encoding == encoding_rs::REPLACEMENT {
        return Err(unknown());
    } else {
        Named::Legacy(Legacy::Web(encoding))
    })
}

fn encode_legacy(text: &str, encoding: &Legacy) -> Result<Vec<u8>> {
    encoding.encode(text).map_err(|missing| {
        let message =
            format!("new holds a character that {} does not have: {}", encoding.name(), name_character(missing));
        Error::new(ErrorKind::NotUtf8, message).with_hint("Nothing was changed; use characters of the file's encoding.")
    })
}

/// Makes the refusal that says where something like `old` stands and what differs.
fn no_match(text: &str, old: &str) -> Error {
    let error = Error::new(ErrorKind::EditNoMatch, "old does not occur in the file");
    let mut end = text.len().min(NEAR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let Some(near) = near_match(&text[..end], old) else { return error };
    let line = 1 + newlines(&text[..near.range.start]);
    let have = &text[near.range.clone()];
    let message = format!(
        "old does not occur in the file; near match at line {line}, which differs in {}: {}",
        near.difference,
        quote(have)
    );
    Error::new(ErrorKind::EditNoMatch, message)
        .with_hint(format!("Copy the text of line {line} exactly as the file has it ({}).", near.difference))
}

struct Near {
    range: Range<usize>,
    difference: String,
}

/// How much is forgiven when looking for a near match, each level more than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Forgive {
    LookAlikes,
    WhiteSpace,
    Case,
}

fn near_match(text: &str, old: &str) -> Option<Near> {
    let deadline = Instant::now() + NEAR_BUDGET;
    if old.len() > NEAR_BYTES {
        return None;
    }
    let ascii = text.is_ascii() && old.is_ascii();
    for level in [Forgive::LookAlikes, Forgive::WhiteSpace, Forgive::Case] {
        if ascii && level == Forgive::LookAlikes {
            continue;
        }
        // A letter of another script looks the same only in its own case.
        let letters = level != Forgive::Case;
        let (wanted, _) = canonical(old, level, letters);
        let wanted = wanted.trim_matches(' ');
        if wanted.is_empty() {
            return None;
        }
        let (have, places) = canonical(text, level, letters);
        if let Some(at) = memmem::find(have.as_bytes(), wanted.as_bytes()) {
            let start = *places.get(at)?;
            let last = *places.get(at + wanted.len() - 1)?;
            let mut end = last + text[last..].chars().next().map_or(0, char::len_utf8);
            // An accent that stands apart belongs to its letter.
            end += text[end..].chars().take_while(|&mark| is_combining_mark(mark)).map(char::len_utf8).sum::<usize>();
            // What stands at the edges counts where old has white space there.
            let lead = old.len() - old.trim_start().len();
            let from = if lead == 0 { start } else { text[..start].trim_end_matches([' ', '\t', '\u{a0}']).len() };
            let difference = describe(old, &text[start..end], &text[from..end], letters);
            return Some(Near { range: from..end, difference });
        }
        if Instant::now() > deadline {
            return None;
        }
    }
    most_similar(text, old, deadline.max(Instant::now() + NEAR_BUDGET / 3))
}

/// Writes text with some differences taken away, with `letters` also those between scripts, and where each byte of it
/// came from.
fn canonical(text: &str, level: Forgive, letters: bool) -> (String, Vec<usize>) {
    if text.is_ascii() && level != Forgive::LookAlikes {
        return canonical_ascii(text, level);
    }
    let mut out = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if let Some(plain) = look_alike(character) {
            places.extend(std::iter::repeat_n(at, plain.len()));
            out.push_str(plain);
            continue;
        }
        // One form for what looks the same: a letter and its accent apart, full-width forms as plain ones.
        decompose_compatible(character, |part| {
            let part = if letters { same_letter(part).unwrap_or(part) } else { part };
            places.extend(std::iter::repeat_n(at, part.len_utf8()));
            out.push(part);
        });
    }
    if level == Forgive::LookAlikes {
        return (out, places);
    }
    let (mut tight, mut tight_places) = (String::with_capacity(out.len()), Vec::with_capacity(out.len()));
    for (at, character) in out.char_indices() {
        let character = if character.is_whitespace() { ' ' } else { character };
        if character == ' ' && tight.ends_with(' ') {
            continue;
        }
        if level == Forgive::Case {
            for lower in character.to_lowercase() {
                tight_places.extend(std::iter::repeat_n(places[at], lower.len_utf8()));
                tight.push(lower);
            }
        } else {
            tight_places.extend(std::iter::repeat_n(places[at], character.len_utf8()));
            tight.push(character);
        }
    }
    (tight, tight_places)
}

/// Does what [`canonical`] does where every character is a byte, many times faster.
fn canonical_ascii(text: &str, level: Forgive) -> (String, Vec<usize>) {
    let (mut out, mut places) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    let mut space = false;
    for (at, byte) in text.bytes().enumerate() {
        let blank = byte == 0x0b || byte.is_ascii_whitespace();
        if !(blank && space) {
            let shown = if level == Forgive::Case { byte.to_ascii_lowercase() } else { byte };
            out.push(if blank { ' ' } else { char::from(shown) });
            places.push(at);
        }
        space = blank;
    }
    (out, places)
}

/// Returns what a character is easily mistaken for.
fn look_alike(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        // Marks nobody sees: joiners, directions, variants, tags.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | BOM
        | '\u{e0000}'..='\u{e0fff}' => "",
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' | '\u{ff07}' => "'",
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' | '\u{ff02}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => "-",
        '\u{2026}' => "...",
        _ => return None,
    })
}

/// Returns the plain letter that one of another script (Cyrillic, Greek and a few more) looks like. Unicode's own
/// table of confusables (UTS 39) is not used: it makes one of `I`, `l` and `1` too, which in code are three.
fn same_letter(character: char) -> Option<char> {
    Some(match character {
        '\u{391}' | '\u{410}' => 'A',
        '\u{251}' | '\u{3b1}' | '\u{430}' => 'a',
        '\u{392}' | '\u{412}' => 'B',
        '\u{3f9}' | '\u{421}' => 'C',
        '\u{3f2}' | '\u{441}' => 'c',
        '\u{501}' => 'd',
        '\u{395}' | '\u{415}' => 'E',
        '\u{435}' => 'e',
        '\u{50c}' => 'G',
        '\u{261}' => 'g',
        '\u{397}' | '\u{41d}' => 'H',
        '\u{4bb}' => 'h',
        '\u{399}' | '\u{406}' | '\u{4c0}' => 'I',
        '\u{131}' | '\u{3b9}' | '\u{456}' => 'i',
        '\u{408}' => 'J',
        '\u{3f3}' | '\u{458}' => 'j',
        '\u{39a}' | '\u{41a}' => 'K',
        '\u{3ba}' => 'k',
        '\u{4cf}' => 'l',
        '\u{39c}' | '\u{41c}' => 'M',
        '\u{39d}' => 'N',
        '\u{39f}' | '\u{41e}' => 'O',
        '\u{3bf}' | '\u{43e}' | '\u{585}' => 'o',
        '\u{3a1}' | '\u{420}' => 'P',
        '\u{3c1}' | '\u{440}' => 'p',
        '\u{51a}' => 'Q',
        '\u{51b}' => 'q',
        '\u{405}' => 'S',
        '\u{455}' | '\u{a731}' => 's',
        '\u{3a4}' | '\u{422}' => 'T',
        '\u{3c5}' | '\u{57d}' => 'u',
        '\u{3bd}' => 'v',
        '\u{51c}' => 'W',
        '\u{51d}' => 'w',
        '\u{3a7}' | '\u{425}' => 'X',
        '\u{3c7}' | '\u{445}' => 'x',
        '\u{3a5}' | '\u{423}' => 'Y',
        '\u{3b3}' | '\u{443}' => 'y',
        '\u{396}' => 'Z',
        _ => return None,
    })
}

/// The characters in which a text first differs from what was asked for, line ends let go; `None` where it ends.
struct FirstDifference {
    has: Option<char>,
    asked: Option<char>,
}

impl FirstDifference {
    /// Returns it unless both are ASCII, which a model sees as they are.
    fn of(old: &str, have: &str) -> Option<Self> {
        let plain = |text: &str| text.replace("\r\n", "\n");
        let (old, have) = (plain(old), plain(have));
        let (mut old, mut have) = (old.chars(), have.chars());
        let first = loop {
            match (have.next(), old.next()) {
                (None, None) => return None,
                (has, asked) if has != asked => break FirstDifference { has, asked },
                _ => {}
            }
        };
        if first.characters().all(|character| character.is_ascii()) { None } else { Some(first) }
    }

    fn characters(&self) -> impl Iterator<Item = char> {
        self.has.into_iter().chain(self.asked)
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |character: Option<char>| character.map_or_else(|| "nothing".to_owned(), name_character);
        write!(out, "the file has {} where old has {}", name(self.has), name(self.asked))
    }
}

/// Says what differs between what was asked for and what stands there.
fn describe(old: &str, core: &str, have: &str, letters: bool) -> String {
    let mut differences = Vec::new();
    let plain = |text: &str| canonical(text, Forgive::LookAlikes, letters).0;
    let is_alike = |character: char| look_alike(character).is_some() || (letters && same_letter(character).is_some());
    if let Some(first) = FirstDifference::of(old.trim(), core.trim()) {
        let what = if first.characters().any(is_alike) {
            "a look-alike character"
        } else if plain(old.trim()) == plain(core.trim()) {
            "the form of a character"
        } else {
            "a character"
        };
        differences.push(format!("{what} ({first})"));
    } else {
        let odd = |text: &str, other: &str| {
            text.chars().find(|&character| look_alike(character).is_some() && !other.contains(character))
        };
        if let Some(character) = odd(core, old) {
            differences.push(format!("a look-alike character (the file has {})", name_character(character)));
        }
        if let Some(character) = odd(old, core) {
            differences.push(format!("a look-alike character (old has {})", name_character(character)));
        }
    }
    let (old_plain, have_plain) = (plain(old), plain(have));
    let endings = |text: &str| text.replace("\r\n", "\n");
    if old_plain.contains('\r') != have_plain.contains('\r') && old_plain.contains('\n') {
        differences.push("line endings".to_owned());
    }
    let (old_plain, have_plain) = (endings(&old_plain), endings(&have_plain));
    if old_plain.contains('\t') == have_plain.contains('\t') {
        let indents =
            |text: &str| text.split('\n').map(|line| line.len() - line.trim_start().len()).collect::<Vec<_>>();
        let trimmed = |text: &str| text.split('\n').map(|line| line.trim().to_lowercase()).collect::<Vec<_>>();
        if trimmed(&old_plain) != trimmed(&have_plain) {
            differences.push("white space".to_owned());
        } else if indents(&old_plain) != indents(&have_plain) {
            differences.push("indentation".to_owned());
        }
    } else {
        let (file, asked) = if have_plain.contains('\t') { ("tabs", "none") } else { ("spaces", "tabs") };
        differences.push(format!("tabs and spaces (the file has {file}, old has {asked})"));
    }
    let tight = |text: &str| canonical(text, Forgive::WhiteSpace, letters).0.trim().to_owned();
    if tight(old) != tight(have) {
        differences.push("upper and lower case".to_owned());
    }
    if differences.is_empty() {
        differences.push("white space at its edges".to_owned());
    }
    differences.join(", ")
}

fn name_character(character: char) -> String {
    let name = match character {
        '\u{a0}' => " no-break space",
        '\u{202f}' => " narrow no-break space",
        '\u{3000}' => " ideographic space",
        '\u{ad}' => " soft hyphen",
        '\u{200b}' => " zero-width space",
        '\u{200c}' | '\u{200d}' => " zero-width joiner",
        BOM => " byte order mark",
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => " curly quote",
        '\u{2013}' => " en dash",
        '\u{2014}' => " em dash",
        '\u{2212}' => " minus sign",
        '\u{2026}' => " ellipsis",
        _ => "",
    };
    format!("U+{:04X}{name}", u32::from(character))
}

/// Finds the lines most like those of `old`: those that share most whole lines with it, then the closest
/// by characters, as far as the time allows.
fn most_similar(text: &str, old: &str, deadline: Instant) -> Option<Near> {
    let wanted: Vec<&str> = old.trim_matches('\n').split('\n').map(str::trim).collect();
    let longest = wanted.iter().copied().max_by_key(|line| line.len()).filter(|line| !line.is_empty())?;
    let longest_at = wanted.iter().position(|line| *line == longest)?;
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        starts.push(at);
        at += line.len();
    }
    let line_at = |index: usize| -> &str {
        let end = starts.get(index + 1).copied().unwrap_or(text.len());
        text[starts[index]..end].trim_end_matches(['\n', '\r'])
    };
    let mut best: Option<(f32, usize)> = None;
    let bag = |line: &str| {
        let mut counts = [0_i32; 64];
        line.bytes().for_each(|byte| counts[usize::from(byte & 63)] += 1);
        counts
    };
    let wanted_bag = bag(longest);
    for index in 0..starts.len() {
        if index % 64 == 0 && Instant::now() > deadline {
            break;
        }
        let line = line_at(index).trim();
        let (shorter, longer) = (line.len().min(longest.len()), line.len().max(longest.len()));
        if shorter * 2 < longer || longer > 2000 {
            continue;
        }
        // The bytes two lines share bound how alike they can be, and counting them costs little.
        let shared: i32 = bag(line).iter().zip(&wanted_bag).map(|(a, b)| a.min(b)).sum();
        let total = line.len() + longest.len();
        let bound = 2.0 * as_f32(usize::try_from(shared).unwrap_or(0)) / as_f32(total);
        if bound < 0.7 || best.is_some_and(|(ratio, _)| bound <= ratio) {
            continue;
        }
        let ops = similar::capture_diff_slices_deadline(
            similar::Algorithm::Myers,
            line.as_bytes(),
            longest.as_bytes(),
            Some(deadline),
        );
        let ratio = similar::diff_ratio(&ops, line.len(), longest.len());
        if ratio >= 0.7 && best.is_none_or(|(before, _)| ratio > before) {
            best = Some((ratio, index));
        }
    }
    let (_, index) = best?;
    let first = index.saturating_sub(longest_at);
    let last = (first + wanted.len() - 1).min(starts.len() - 1);
    let mut lines = (first..=last).zip(&wanted);
    // The line that differs tells more than the block around it.
    let (shown, asked) = lines.find(|(have, want)| line_at(*have).trim() != **want).unwrap_or((index, &longest));
    let start = starts[shown];
    let difference = match FirstDifference::of(asked, line_at(shown).trim()) {
        Some(first) => format!("its text ({first})"),
        None => "its text".to_owned(),
    };
    Some(Near { range: start..start + line_at(shown).len(), difference })
}

#[expect(clippy::cast_precision_loss, reason = "lengths of lines below 4000")]
fn as_f32(count: usize) -> f32 {
    count as f32
}

/// Quotes a piece of a file in one short line, what cannot be seen escaped.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            ' '..='~' if character != '"' && character != '\\' => out.push(character),
            _ if character.is_alphanumeric() => out.push(character),
            '"' | '\\' | '\n' | '\r' | '\t' => out.extend(character.escape_default()),
            _ => {
                let _infallible = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
        }
        if out.len() >= QUOTE_BYTES {
            out.push('…');
            break;
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(result: Result<Edited>) -> ErrorKind {
        result.unwrap_err().kind()
    }

    fn edited(content: &[u8], old: &str, new: &str) -> Vec<u8> {
        edit(content, old, new, Some(1)).unwrap().bytes
    }

    #[test]
    fn case_e01_bom_and_crlf_stay() {
        assert_eq!(edited(b"\xef\xbb\xbfa\r\nb\r\n", "b", "c"), b"\xef\xbb\xbfa\r\nc\r\n");
        assert_eq!(edited(b"\xef\xbb\xbfa\r\nb\r\n", "a", "x\ny"), b"\xef\xbb\xbfx\r\ny\r\nb\r\n");
        assert_eq!(edited(b"a\r\nb", "\nb", "\nc\nd"), b"a\r\nc\r\nd");
        assert_eq!(edit(b"a\r\nb\r\n", "\r\n", "\n", None).unwrap().bytes, b"a\nb\n");
        assert_eq!(edited(b"\xef\xbb\xbfab", "\u{feff}a", "\u{feff}c"), b"\xef\xbb\xbfcb");
    }

    #[test]
    fn case_e03_lf_text_matches_a_crlf_file() {
        let result = edit(b"x\r\na\r\nb\r\n", "a\nb", "a\nc\nd", Some(1)).unwrap();
        assert_eq!((result.bytes.as_slice(), result.replaced, result.first_line), (&b"x\r\na\r\nc\r\nd\r\n"[..], 1, 2));
        assert_eq!(edited(b"a\nb\n", "a\r\nb", "c\r\nd"), b"c\nd\n");
        assert_eq!(edited(b"a\rb\r", "a\nb", "c\nd"), b"c\rd\r");
        assert_eq!(edited(b"a\r\nb\nc", "a\nb\nc", "1\n2\n3"), b"1\r\n2\r\n3");
    }

    #[test]
    fn new_lines_end_as_those_around_the_match() {
        for (file, old, new, expected) in [
            // The line the match ends in.
            (&b"a\r\nb\nc\n"[..], "a", "x\ny", &b"x\r\ny\r\nb\nc\n"[..]),
            (b"a\r\nb\r\nc\n", "c", "x\ny", b"a\r\nb\r\nx\ny\n"),
            // The one before, where it has no end.
            (b"a\nb\r\nc", "c", "x\ny\n", b"a\nb\r\nx\r\ny\r\n"),
            (b"a\r\nb\r\nc\nd", "d", "x\ny", b"a\r\nb\r\nc\nx\ny"),
            // The match itself.
            (b"a\nb\nc\r\nd\r\n", "a\nb", "a\nx\nb", b"a\nx\nb\nc\r\nd\r\n"),
            (b"a\nb\r\nc\r\n", "a\n", "a\nx\n", b"a\nx\nb\r\nc\r\n"),
            (b"a\nb\nc\r\nd\r\ne\n", "c\nd", "c\nx\nd", b"a\nb\nc\r\nx\r\nd\r\ne\n"),
            (b"a\r\nb\n", "\nb", "\nx\ny", b"a\r\nx\r\ny\n"),
            (b"a\r\nb\n", "\nb\n", "\nx\ny\n", b"a\r\nx\ny\n"),
            // Who names `\r` gets what was named.
            (b"a\r\nb\n", "b", "x\r\ny", b"a\r\nx\r\ny\n"),
            (b"a\r\nb\n", "a\r\n", "a\nx\r\n", b"a\nx\r\nb\n"),
            // A `\r` alone ends lines only where nothing else does.
            (b"10%\r20%\n", "10%", "x\ny", b"x\ny\r20%\n"),
            (b"a\rb\r", "b", "x\ny", b"a\rx\ry\r"),
            (b"a", "a", "x\ny", b"x\ny"),
        ] {
            let have = edited(file, old, new);
            assert_eq!(have, expected, "{:?} {old:?}: {:?}", file.escape_ascii(), have.escape_ascii());
        }
        let all = edit(b"a\r\nb a\na\r\na", "a", "x\ny", None).unwrap();
        assert_eq!(all.bytes, b"x\r\ny\r\nb x\ny\nx\r\ny\r\nx\r\ny");
        let long = "a ".repeat(300_000);
        // Each place is looked at, not the file from each.
        assert_eq!(edit(long.as_bytes(), "a", "x\ny", None).unwrap().replaced, 300_000);
    }

    #[test]
    fn case_e04_two_encodings_never_meet() {
        let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("日本 = 1\n表示 = 2\n");
        assert_eq!(kind(edit(&sjis, "= 1", "= 漢", Some(1))), ErrorKind::NotUtf8);
        assert_eq!(kind(edit(&sjis, "日本", "x", Some(1))), ErrorKind::NotUtf8);
        let result = edit_encoded(&sjis, "日本 = 1", "漢字 = 1", Some(1), "cp932").unwrap();
        assert_eq!(result.bytes, encoding_rs::SHIFT_JIS.encode("漢字 = 1\n表示 = 2\n").0.into_owned());
        assert_eq!(kind(edit_encoded(&sjis, "日本", "😀", Some(1), "shift_jis")), ErrorKind::NotUtf8);
        assert_eq!(kind(edit_encoded(b"\xff\xff", "a", "b", Some(1), "shift_jis")), ErrorKind::NotUtf8);
        assert_eq!(kind(edit_encoded(b"a", "a", "b", Some(1), "klingon")), ErrorKind::InvalidArgument);
    }

    #[test]
    fn case_e05_other_bytes_survive_an_ascii_edit() {
        assert_eq!(edited(b"x = 1\n# caf\xe9\n", "x = 1", "x = 2"), b"x = 2\n# caf\xe9\n");
        assert_eq!(edited(b"x = 1\n# caf\xe9\n", "= 1\n# caf\u{fffd}", "= 2\n# Caf\u{fffd}!"), b"x = 2\n# Caf\xe9!\n");
        assert_eq!(
            edited(b"\xe9\xe8\xe9", "\u{fffd}\u{fffd}\u{fffd}", "a\u{fffd}\u{fffd}\u{fffd}b"),
            b"a\xe9\xe8\xe9b"
        );
        assert_eq!(edited(b"caf\xe9", "caf\u{fffd}", "cafe"), b"cafe");
        assert_eq!(kind(edit(b"\xe9\xe8", "\u{fffd}\u{fffd}", "x\u{fffd}y", Some(1))), ErrorKind::NotUtf8);
        assert_eq!(kind(edit(b"a\xe9", "a", "\u{fffd}", Some(1))), ErrorKind::NotUtf8);
        assert_eq!(edited("é\u{fffd}".as_bytes(), "\u{fffd}", "ü\u{fffd}"), "éü\u{fffd}".as_bytes());
    }

    #[test]
    fn case_e08_a_no_break_space_is_named() {
        let error = edit("x\na\u{a0}b".as_bytes(), "a b", "c", Some(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EditNoMatch);
        assert!(error.message().contains("U+00A0") && error.message().contains("line 2"), "{error}");
    }

    #[test]
    fn near_matches_say_what_differs() {
        for (file, old, says) in [
            ("if x:\n        y()\n", "if x:\n    y()", "indentation"),
            ("if x:\n\ty()\n", "if x:\n    y()", "tabs"),
            ("say(\u{201c}hi\u{201d})", "say(\"hi\")", "U+201C"),
            ("Hello World", "hello world", "case"),
            ("a  =  1", "a = 1", "white space"),
            ("one\ndef compute_total(items):\n", "def compute_totals(items):", "line 2"),
            ("a\u{200b}b", "ab", "U+200B"),
        ] {
            let error = edit(file.as_bytes(), old, "x", Some(1)).unwrap_err();
            assert!(error.message().contains(says), "{file:?} {old:?}: {error}");
        }
        for (file, old, says) in [
            ("x = p\u{430}ssword\n", "password", "the file has U+0430 where old has U+0061"),
            ("password", "p\u{430}ssword", "the file has U+0061 where old has U+0430"),
            ("f\u{3bf}o(bar)", "foo(bar)", "the file has U+03BF where old has U+006F"),
            ("log(\u{ff41}b)", "log(ab)", "the file has U+FF41 where old has U+0061"),
            ("a\u{200b}b", "ab", "the file has U+200B zero-width space where old has U+0062"),
            ("ab", "a\u{2066}b", "the file has U+0062 where old has U+2066"),
            ("say(\"hi\")", "say(\u{201c}hi\")", "the file has U+0022 where old has U+201C curly quote"),
            ("x\r\ncaf\u{435}\r\n", "x\ncafe\n", "the file has U+0435 where old has U+0065"),
            (
                "\u{441}\u{43b}\u{43e}\u{432}\u{43e}",
                "\u{421}\u{43b}\u{43e}\u{432}\u{43e}",
                "the file has U+0441 where old has U+0421",
            ),
            // What no look-alike explains, in the most similar line.
            (
                "one\ntwo = compute_t\u{f8}tal(items)\n",
                "two = compute_total(items)",
                "the file has U+00F8 where old has U+006F",
            ),
            ("total = compute(items)\u{e9}", "total = compute(items)!", "the file has U+00E9 where old has U+0021"),
        ] {
            let error = edit(file.as_bytes(), old, "x", Some(1)).unwrap_err();
            assert!(error.message().contains(says), "{file:?} {old:?}: {error}");
        }
        for (file, old) in [("total = compute(items)\u{e9}", "total = compute(items, 1)"), ("a  = \u{430}", "a = a")] {
            let error = edit(file.as_bytes(), old, "x", Some(1)).unwrap_err();
            assert!(!error.message().contains("where old has"), "{file:?} {old:?}: {error}");
        }
        let error = edit(b"abc", "something else entirely", "x", None).unwrap_err();
        assert_eq!(error.message(), "old does not occur in the file");
    }

    /// The search for what was meant has a budget, whatever it meets.
    #[test]
    fn a_failed_edit_of_a_big_file_ends_in_time() {
        let plain = (0..200_000).fold(String::new(), |mut file, n| {
            writeln!(file, "def function_{n}(argument): return {n}").unwrap();
            file
        });
        let line = "def \u{444}\u{443}\u{43d}\u{43a}\u{446}\u{438}\u{44f}(\u{430}\u{440}\u{433}): return \u{200b}1\n";
        for (file, old) in [
            (plain, "def fonction_123457(argument): retourn".to_owned()),
            (line.repeat(20_000), line.replace('1', "2").repeat(5_000)),
        ] {
            let start = Instant::now();
            assert_eq!(kind(edit(file.as_bytes(), &old, "x", Some(1))), ErrorKind::EditNoMatch);
            assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
        }
    }

    #[test]
    fn case_n10_many_places_and_long_texts_cost_what_they_hold() {
        let before = Instant::now();
        let file = "}\n".repeat(200_000);
        let long = "x".repeat(30_000);
        assert_eq!(kind(edit(file.as_bytes(), "}", &long, Some(1))), ErrorKind::EditAmbiguous);
        assert_eq!(kind(edit(file.as_bytes(), "}", &long, None)), ErrorKind::FileTooLarge);
        assert_eq!(kind(edit(file.replace('\n', "\r\n").as_bytes(), "}\n}", &long, None)), ErrorKind::FileTooLarge);
        // A text that overlaps itself everywhere is not compared everywhere.
        let line = "a".repeat(400_000);
        assert_eq!(kind(edit(line.as_bytes(), &line[..200_001], "b", Some(1))), ErrorKind::EditAmbiguous);
        assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    }

    #[test]
    fn counts_are_kept() {
        let file = b"a\nb\na\na\n";
        let error = edit(file, "a", "x", Some(1)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::EditAmbiguous, "old occurs 3 times, not 1: lines 1, 3, 4")
        );
        assert_eq!(kind(edit(b"a", "a", "x", Some(2))), ErrorKind::EditAmbiguous);
        assert_eq!(edit(file, "a", "x", Some(3)).unwrap().replaced, 3);
        assert_eq!(edit(file, "a", "", None).unwrap().bytes, b"\nb\n\n\n");
        assert_eq!(edit(b"aaa", "aa", "b", None).unwrap().bytes, b"ba");
        assert_eq!(kind(edit(b"aaa", "aa", "b", Some(1))), ErrorKind::EditAmbiguous);
        // The number told is one that can be given.
        let told = edit(b"aaaa", "aa", "b", Some(1)).unwrap_err();
        assert!(told.message().starts_with("old occurs 2 times"), "{told}");
        assert_eq!(edit(b"aaaa", "aa", "b", Some(2)).unwrap().bytes, b"bb");
        assert_eq!(edit(file, "b", "b", Some(1)).unwrap().bytes, file);
        for (old, count, expected) in [
            ("", Some(1), ErrorKind::InvalidArgument),
            ("a", Some(0), ErrorKind::InvalidArgument),
            ("zzz", None, ErrorKind::EditNoMatch),
        ] {
            assert_eq!(kind(edit(file, old, "x", count)), expected);
        }
    }

    #[test]
    fn case_n10_replacement_text_is_literal() {
        for new in ["$$100 $& $1 \\1 \\g<0>", "${name} $0", "\\n", "$& ok"] {
            assert_eq!(edited(b"a old b", "old", new), format!("a {new} b").into_bytes());
        }
    }

    #[test]
    fn case_n14_binary_files_are_refused() {
        assert_eq!(kind(edit(b"\x89PNG\0", "PNG", "x", Some(1))), ErrorKind::BinaryFile);
        assert_eq!(kind(edit(b"\xff\xfe\0\0a\0\0\0", "a", "x", Some(1))), ErrorKind::BinaryFile);
    }

    #[test]
    fn utf16_keeps_mark_and_order() {
        for big in [false, true] {
            let form = Form::Utf16 { big, bom: 2 };
            let mark = if big { [0xfe, 0xff] } else { [0xff, 0xfe] };
            let file = |text: &str| [mark.to_vec(), form.encode(text)].concat();
            assert_eq!(edited(&file("a\r\né😀b\r\n"), "a\né😀", "x\nü"), file("x\r\nüb\r\n"));
            let broken = [file("a"), vec![0xd8, 0xd8], form.encode("b"), vec![7]].concat();
            assert_eq!(view(&broken).text, "a\u{fffd}b\u{fffd}");
            let expected = [file("c"), vec![0xd8, 0xd8], form.encode("é"), vec![7]].concat();
            assert_eq!(edited(&broken, "a\u{fffd}b\u{fffd}", "c\u{fffd}é\u{fffd}"), expected);
            let label = if big { "utf-16be" } else { "utf-16le" };
            assert_eq!(
                edit_encoded(&form.encode("añb"), "ñ", "日", Some(1), label).unwrap().bytes,
                form.encode("a日b")
            );
        }
    }

    /// Content made to be difficult: endings of all kinds, characters of all lengths, bytes that are none.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = proptest::sample::select(vec![
            &b"\r\n"[..],
            &b"\n"[..],
            &b"\r"[..],
            &b"a"[..],
            &b"b "[..],
            "é".as_bytes(),
            "😀".as_bytes(),
            "\u{fffd}".as_bytes(),
            &b"\xe9"[..],
            &b"\xe2\x82"[..],
            &b"\xf0\x9f\x98"[..],
            &b"\xff"[..],
            &b"\xef\xbb\xbf"[..],
            &b"\t"[..],
        ]);
        let mark = proptest::sample::select(vec![&b""[..], &b"\xef\xbb\xbf"[..], &b"\xff\xfe"[..], &b"\xfe\xff"[..]]);
        (mark, prop::collection::vec(piece, 0..24)).prop_map(|(mark, pieces)| [mark, &pieces.concat()].concat())
    }

    /// Counts overlapping ones too.
    fn occurrences(text: &str, old: &str) -> usize {
        text.char_indices().filter(|(at, _)| text[*at..].starts_with(old)).count()
    }

    fn check_law(content: &[u8], from: usize, to: usize) -> Result<(), TestCaseError> {
        let shown = view(content);
        let places: Vec<usize> = shown.text.char_indices().map(|(at, _)| at).chain([shown.text.len()]).collect();
        let (mut start, mut end) = (places[from % places.len()], places[to % places.len()]);
        if start > end {
            std::mem::swap(&mut start, &mut end);
        }
        let old = &shown.text[start..end];
        if old.is_empty() || occurrences(&shown.text, old) != 1 || is_binary_for_edit(content) {
            return Ok(());
        }
        // Putting the same text back changes nothing, whatever its bytes are.
        let same = edit(content, old, old, Some(1)).unwrap();
        prop_assert_eq!(&same.bytes, content);
        prop_assert_eq!(same.first_line, 1 + shown.text[..start].matches('\n').count());
        // Text around it changes nothing in it.
        let form = Form::of(content);
        let around = match edit(content, old, &format!("<{old}>"), Some(1)) {
            Err(error) if error.kind() == ErrorKind::NotUtf8 && shown.lossy && shown.encoding != "utf-8" => {
                return Ok(());
            }
            result => result.unwrap(),
        };
        let text = view(&around.bytes);
        // "\n" alone inside the replacement may become "\r\n" only where every line ends so.
        prop_assert_eq!(
            text.text.replace("\r\n", "\n"),
            format!("{}<{old}>{}", &shown.text[..start], &shown.text[end..]).replace("\r\n", "\n")
        );
        // Anything else takes its place and leaves all other bytes as they are.
        let Ok(Edited { bytes: gone, .. }) = edit(content, old, "#", Some(1)) else {
            prop_assert!(shown.lossy && shown.encoding != "utf-8");
            return Ok(());
        };
        let mut map = OffsetMap::new(content, form, &shown.text);
        let (first, last) = (map.place(start), map.place(end));
        prop_assert_eq!(gone, [&content[..first], &form.encode("#"), &content[last..]].concat());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
        // case E13
        #[test]
        fn case_e13_whatever_was_shown_can_be_edited(content in content(), from: usize, to: usize) {
            check_law(&content, from, to)?;
        }

        #[test]
        fn case_e13_holds_for_any_bytes(content: Vec<u8>, from: usize, to: usize) {
            check_law(&content, from, to)?;
        }

        // What a tool shows without `\r` can be used too.
        #[test]
        fn case_e13_holds_with_hidden_carriage_returns(content in "(\r\n|\n|a|b|c|é){1,16}", from: usize, to: usize) {
            let hidden = content.replace("\r\n", "\n");
            let places: Vec<usize> = hidden.char_indices().map(|(at, _)| at).chain([hidden.len()]).collect();
            let (a, b) = (places[from % places.len()], places[to % places.len()]);
            let (start, end) = (a.min(b), a.max(b));
            let old = &hidden[start..end];
            if !old.is_empty() && occurrences(&hidden, old) == 1 {
                let bytes = edit(content.as_bytes(), old, "#", Some(1)).unwrap().bytes;
                let text = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
                let expected = format!("{}#{}", &hidden[..start], &hidden[end..]);
                // An `\r` whose `\n` was named without it stays: it was not part of what matched.
                prop_assert_eq!(text.replace('\r', ""), expected);
            }
        }

        #[test]
        fn arguments_of_any_kind_are_safe(content in content(), old: String, new: String, count in proptest::option::of(0_usize..4)) {
            drop(edit(&content, &old, &new, count));
            for label in ["gb18030", "shift_jis", "iso-2022-jp", "big5", "windows-1252", "latin-1", "ascii", "utf-16le", "utf-8"] {
                drop(edit_encoded(&content, &old, &new, count, label));
            }
        }

        #[test]
        fn a_named_encoding_keeps_all_other_bytes(
            before in "[ a日本é\n]{0,8}", old in "[語x]{1,3}", behind in "[ a日本é\n]{0,8}", new in "[漢b]{0,3}", which in 0_usize..4,
        ) {
            let label = ["gb18030", "shift_jis", "euc-jp", "iso-2022-jp"][which];
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let text = format!("{before}{old}{behind}");
            let (content, _, unmappable) = encoding.encode(&text);
            if !unmappable {
                match edit_encoded(&content, &old, &new, Some(1), label) {
                    Ok(result) => prop_assert_eq!(encoding.decode_without_bom_handling(&result.bytes).0, format!("{before}{new}{behind}")),
                    Err(error) => prop_assert!(label == "iso-2022-jp" && error.kind() == ErrorKind::NotUtf8, "{}", error),
                }
            }
        }
    }
}
