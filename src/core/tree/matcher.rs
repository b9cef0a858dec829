//! Finds lines in bytes, for search and for replacing across files.
//!
//! A pattern is literal text or a regular expression, and is matched within lines. The whole buffer is
//! searched at once and lines are looked at only where something was found, so that a file without a hit
//! costs one pass at memory speed. To make that exact the expression is rewritten first: no part of
//! it can match a line's end, and its anchors mean the ends of a line. Only a line that holds a `\r` is
//! matched once more alone, because there the scan may find more than it should (never less). Nothing a model can write makes this
//! slow: the engine is linear and the size of the compiled expression is limited.
//!
//! What is handed out is bounded: a line longer than the limit is cut around its match, and says so.

use crate::core::cancel::Work;
use crate::core::error::{Error, ErrorKind, Result};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};
use std::ops::{ControlFlow, Range};

/// Longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 64 << 10;
/// Largest compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 8 << 20;
/// Deepest nesting of an expression.
const MAX_NESTING: u32 = 200;

/// How a pattern is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchOptions {
    /// The pattern is a regular expression, not literal text.
    pub regex: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
}

/// Bounds of what one search hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLimits {
    /// Longest text of a line, in bytes; longer ones are cut around the match.
    pub max_line_bytes: usize,
    /// Lines shown before a match.
    pub before: usize,
    /// Lines shown after a match.
    pub after: usize,
}

impl Default for LineLimits {
    fn default() -> Self {
        LineLimits { max_line_bytes: 500, before: 0, after: 0 }
    }
}

/// A piece of a line, cut to the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineText<'a> {
    /// Number of the line, 1-based.
    pub number: usize,
    /// What is shown of it, without its ending.
    pub text: &'a [u8],
    /// Bytes left out before `text`.
    pub cut_before: usize,
    /// Bytes left out behind `text`.
    pub cut_after: usize,
}

/// One line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The line.
    pub line: LineText<'a>,
    /// Where the first match is in the whole line, in bytes.
    pub range: Range<usize>,
    /// Where the line begins in the content.
    pub offset: usize,
    /// Lines before it, oldest first.
    pub before: Vec<LineText<'a>>,
    /// Lines after it.
    pub after: Vec<LineText<'a>>,
}

/// What a search of one content came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scan {
    /// Lines handed out.
    pub hits: usize,
    /// The caller stopped it.
    pub stopped: bool,
    /// The content is binary and was not searched.
    pub binary: bool,
}

/// A compiled pattern for searching lines.
#[derive(Debug, Clone)]
pub struct Matcher(Engine);

#[derive(Debug, Clone)]
enum Engine {
    Literal(Box<memmem::Finder<'static>>),
    Pattern {
        /// Searches whole buffers; anchors are the ends of lines.
        scan: Regex,
        /// Matches one line, without its ending.
        line: Regex,
    },
}

impl Matcher {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `invalid-argument` if the pattern is empty, is no valid expression, is too large or needs more than one line.
    pub fn new(pattern: &str, options: MatchOptions) -> Result<Self> {
        check_pattern(pattern)?;
        if !options.regex && !options.ignore_case {
            if pattern.contains('\n') {
                return Err(spans_lines());
            }
            return Ok(Matcher(Engine::Literal(Box::new(memmem::Finder::new(pattern).into_owned()))));
        }
        let source = if options.regex { pattern.to_owned() } else { regex::escape(pattern) };
        let parsed = ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .case_insensitive(options.ignore_case)
            .nest_limit(MAX_NESTING)
            .build()
            .parse(&source)
            .map_err(|error| invalid(&error.to_string()))?;
        let scan = within_line(parsed.clone(), true);
        if matches!(scan.kind(), HirKind::Class(class) if class.is_empty()) {
            return Err(spans_lines());
        }
        let line = within_line(parsed, false);
        Ok(Matcher(Engine::Pattern {
            scan: compile(&scan.to_string(), false)?,
            line: compile(&line.to_string(), false)?,
        }))
    }

    /// Tells whether any line matches; binary content is searched too.
    pub fn is_match(&self, content: &[u8]) -> bool {
        self.next_line(content, 0).is_some()
    }

    /// Hands each matching line to `sink`, in order, until it breaks off. Binary content is not searched.
    ///
    /// # Errors
    /// `cancelled`.
    pub fn find_lines<'a>(
        &self,
        content: &'a [u8],
        limits: LineLimits,
        work: &Work,
        mut sink: impl FnMut(Hit<'a>) -> ControlFlow<()>,
    ) -> Result<Scan> {
        let mut scan = Scan::default();
        if crate::core::text::is_binary(content) {
            return Ok(Scan { binary: true, ..scan });
        }
        let (mut at, mut number, mut counted) = (0, 1, 0);
        while at < content.len() {
            // Searching from a line's beginning keeps what anchors look at, the byte before, in view.
            let Some((start, end, range)) = self.next_line(content, at) else { break };
            number += memchr::memchr_iter(b'\n', &content[counted..start]).count();
            counted = start;
            let line = trim_ending(&content[start..end]);
            let hit = Hit {
                line: clamp(line, number, range.clone(), limits.max_line_bytes),
                range,
                offset: start,
                before: lines_before(content, start, number, limits),
                after: lines_after(content, end, number, limits),
            };
            scan.hits += 1;
            if scan.hits % 256 == 0 {
                work.check()?;
            }
            if sink(hit).is_break() {
                scan.stopped = true;
                break;
            }
            at = end + 1;
        }
        Ok(scan)
    }

    /// Returns the next matching line from the beginning of a line on: its ends, and the match in it.
    fn next_line(&self, content: &[u8], from: usize) -> Option<(usize, usize, Range<usize>)> {
        let mut at = from;
        // An empty match behind the last newline is on no line.
        while at < content.len() {
            let found =
                self.next(content, at).filter(|found| found.start < content.len() || !content.ends_with(b"\n"))?;
            let start = memchr::memrchr(b'\n', &content[..found.start]).map_or(0, |at| at + 1);
            let end = line_end(content, start);
            let text = trim_ending(&content[start..end]);
            match &self.0 {
                Engine::Pattern { line, .. } if memchr::memchr(b'\r', &content[start..end]).is_some() => {
                    if let Some(found) = line.find(text) {
                        return Some((start, end, found.range()));
                    }
                }
                _ => {
                    let from = (found.start - start).min(text.len());
                    return Some((start, end, from..(found.end - start).clamp(from, text.len())));
                }
            }
            at = end + 1;
        }
        None
    }

    fn next(&self, content: &[u8], at: usize) -> Option<Range<usize>> {
        match &self.0 {
            Engine::Literal(finder) => {
                finder.find(&content[at..]).map(|start| at + start..at + start + finder.needle().len())
            }
            Engine::Pattern { scan, .. } => scan.find_at(content, at).map(|found| found.range()),
        }
    }
}

/// A replacement to be made throughout a text.
#[derive(Debug, Clone)]
pub struct Substitution {
    find: Regex,
    replacement: Vec<u8>,
    template: bool,
}

impl Substitution {
    /// Compiles a replacement. Literal text is replaced by literal text; with an expression `$1`, `${name}` and `$$` in
    /// the replacement stand for groups and a dollar sign, and `^` and `$` are the ends of lines.
    ///
    /// # Errors
    /// `invalid-argument` for an empty or invalid pattern.
    pub fn new(pattern: &str, replacement: &str, options: MatchOptions) -> Result<Self> {
        check_pattern(pattern)?;
        let source = if options.regex { pattern.to_owned() } else { regex::escape(pattern) };
        let find = compile(&format!("(?m:{source})"), options.ignore_case)?;
        Ok(Substitution { find, replacement: replacement.as_bytes().to_vec(), template: options.regex })
    }

    /// Replaces every match; returns the new content and how many there were.
    ///
    /// # Errors
    /// `binary-file`, and `not-utf8` since a replacement is UTF-8; only if there is something to replace.
    pub fn apply(&self, content: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
        if crate::core::text::is_binary(content) {
            return Err(Error::new(ErrorKind::BinaryFile, "the file is binary"));
        }
        if !self.find.is_match(content) {
            return Ok(None);
        }
        if std::str::from_utf8(content).is_err() {
            return Err(Error::new(ErrorKind::NotUtf8, "the file is not valid UTF-8"));
        }
        let mut out = Vec::with_capacity(content.len());
        let (mut at, mut count) = (0, 0);
        for groups in self.find.captures_iter(content) {
            let Some(whole) = groups.get(0) else { continue };
            out.extend_from_slice(&content[at..whole.start()]);
            if self.template {
                groups.expand(&self.replacement, &mut out);
            } else {
                out.extend_from_slice(&self.replacement);
            }
            at = whole.end();
            count += 1;
        }
        out.extend_from_slice(&content[at..]);
        Ok(Some((out, count)))
    }
}

fn check_pattern(pattern: &str) -> Result<()> {
    if pattern.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "the pattern is empty"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(Error::new(ErrorKind::InvalidArgument, "the pattern is longer than 65536 bytes"));
    }
    Ok(())
}

fn compile(source: &str, ignore_case: bool) -> Result<Regex> {
    RegexBuilder::new(source)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        // The rewritten form nests a little deeper than what was written.
        .nest_limit(4 * MAX_NESTING)
        .build()
        .map_err(|error| invalid(&error.to_string()))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("invalid pattern: {message}"))
        .with_hint("Correct the regular expression; look-around and back-references are not supported.")
}

fn spans_lines() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the pattern holds a newline and could never match within a line")
        .with_hint("Search for one line at a time.")
}

/// Rewrites an expression so that it matches within a line only: nothing in it matches `\n`, and the ends
/// of the text are the ends of the line. For the scan of a buffer those are the places around a `\n`, and
/// the one before `\r\n`.
fn within_line(hir: Hir, scan: bool) -> Hir {
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => Hir::fail(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Look(Look::Start | Look::StartLF | Look::StartCRLF) => {
            Hir::look(if scan { Look::StartLF } else { Look::Start })
        }
        HirKind::Look(Look::End | Look::EndLF | Look::EndCRLF) if scan => {
            Hir::alternation(vec![Hir::look(Look::EndLF), Hir::look(Look::EndCRLF)])
        }
        HirKind::Look(Look::End | Look::EndLF | Look::EndCRLF) => Hir::look(Look::End),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(within_line(*repetition.sub, scan));
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => within_line(*capture.sub, scan),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(|part| within_line(part, scan)).collect()),
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(|part| within_line(part, scan)).collect())
        }
    }
}

fn line_end(content: &[u8], start: usize) -> usize {
    memchr::memchr(b'\n', &content[start..]).map_or(content.len(), |at| start + at)
}

fn trim_ending(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn lines_before(content: &[u8], start: usize, number: usize, limits: LineLimits) -> Vec<LineText<'_>> {
    let mut lines = Vec::new();
    let mut end = start;
    while end > 0 && lines.len() < limits.before {
        let from = memchr::memrchr(b'\n', &content[..end - 1]).map_or(0, |at| at + 1);
        let line = trim_ending(&content[from..end - 1]);
        lines.push(clamp(line, number - lines.len() - 1, 0..0, limits.max_line_bytes));
        end = from;
    }
    lines.reverse();
    lines
}

fn lines_after(content: &[u8], end: usize, number: usize, limits: LineLimits) -> Vec<LineText<'_>> {
    let mut lines = Vec::new();
    let mut start = end + 1;
    while start < content.len() && lines.len() < limits.after {
        let end = line_end(content, start);
        lines.push(clamp(trim_ending(&content[start..end]), number + lines.len() + 1, 0..0, limits.max_line_bytes));
        start = end + 1;
    }
    lines
}

/// Cuts a line to at most `max` bytes with the beginning of `keep` in it, and all of it if it fits; never inside a
/// character.
fn clamp(line: &[u8], number: usize, keep: Range<usize>, max: usize) -> LineText<'_> {
    if line.len() <= max {
        return LineText { number, text: line, cut_before: 0, cut_after: 0 };
    }
    let spare = max.saturating_sub(keep.len());
    let mut start = keep.start.saturating_sub(spare / 2).min(line.len() - max);
    let mut end = start + max;
    let continues = |at: usize| line.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // Three continuation bytes at most make a character; more are no text and may be cut anywhere.
    for _ in 0..3 {
        if continues(start) && start < keep.start {
            start += 1;
        }
        if continues(end) && end > start {
            end -= 1;
        }
    }
    LineText { number, text: &line[start..end], cut_before: start, cut_after: line.len() - end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const REGEX: MatchOptions = MatchOptions { regex: true, ignore_case: false };

    fn numbers(matcher: &Matcher, content: &[u8]) -> Vec<(usize, Range<usize>)> {
        let mut found = Vec::new();
        let keep = |hit: Hit<'_>| {
            found.push((hit.line.number, hit.range));
            ControlFlow::Continue(())
        };
        matcher.find_lines(content, LineLimits::default(), &Work::default(), keep).unwrap();
        found
    }

    fn regex(pattern: &str) -> Matcher {
        Matcher::new(pattern, REGEX).unwrap()
    }

    // rows: S24
    #[test]
    fn lines_are_found_with_numbers_and_ranges() {
        let literal = Matcher::new("b", MatchOptions::default()).unwrap();
        assert_eq!(numbers(&literal, b"a\nabb\r\n\nb"), [(2, 1..2), (4, 0..1)]);
        let folded = Matcher::new("É", MatchOptions { ignore_case: true, ..MatchOptions::default() }).unwrap();
        assert_eq!(numbers(&folded, "x\né\n".as_bytes()), [(2, 0..2)]);
        assert_eq!(numbers(&regex("^b.*c$"), b"abc\nbxc\r\nbc\n"), [(2, 0..3), (3, 0..2)]);
        assert_eq!(numbers(&regex(r"\Ab\z"), b"a\nb\n"), [(2, 0..1)]);
        assert_eq!(numbers(&regex("^$"), b"a\n\n\r\nb\n"), [(2, 0..0), (3, 0..0)]);
        assert_eq!(numbers(&regex("x*"), b"a\nxx"), [(1, 0..0), (2, 0..2)]);
        assert_eq!(numbers(&regex(r"a\s+b"), b"a\nb\na  b\n"), [(3, 0..4)]);
        assert_eq!(numbers(&regex("[^x]+"), b"a\nb"), [(1, 0..1), (2, 0..1)]);
        assert_eq!(numbers(&regex(r"(?-u:\xff)"), b"a\n\xff"), [(2, 0..1)]);
        assert_eq!(numbers(&regex("a|\n"), b"b\na"), [(2, 0..1)]);
        assert_eq!(numbers(&regex("a.$"), b"a\r\nab\r\n"), [(2, 0..2)]);
        assert_eq!(numbers(&literal, b""), []);
        assert!(regex("b$").is_match(b"ab\r\n") && !regex("b$").is_match(b"abc\n"));
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in ["", "(", "a{1000}{1000}{1000}", "\n", "(?<=a)b", r"(a)\1"] {
            assert_eq!(Matcher::new(pattern, REGEX).unwrap_err().kind(), ErrorKind::InvalidArgument, "{pattern:?}");
        }
        let nested = "(".repeat(5000) + &")".repeat(5000);
        assert!(Matcher::new(&nested, REGEX).is_err());
        assert!(Matcher::new("a\nb", MatchOptions::default()).is_err());
    }

    // rows: S24
    #[test]
    fn context_and_binary_are_reported() {
        let mut hits = Vec::new();
        let limits = LineLimits { before: 2, after: 1, ..LineLimits::default() };
        let matcher = Matcher::new("3", MatchOptions::default()).unwrap();
        let scan = matcher
            .find_lines(b"1\n2\r\n3\n4\n5\n3", limits, &Work::default(), |hit| {
                hits.push(hit);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(scan, Scan { hits: 2, stopped: false, binary: false });
        let shown =
            |lines: &[LineText<'_>]| lines.iter().map(|line| (line.number, line.text.to_vec())).collect::<Vec<_>>();
        assert_eq!(shown(&hits[0].before), [(1, b"1".to_vec()), (2, b"2".to_vec())]);
        assert_eq!(shown(&hits[0].after), [(4, b"4".to_vec())]);
        assert_eq!(shown(&hits[1].before), [(4, b"4".to_vec()), (5, b"5".to_vec())]);
        assert!(hits[1].after.is_empty());
        let scan = matcher.find_lines(b"3\0", limits, &Work::default(), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(scan, Scan { binary: true, ..Scan::default() });
        let scan = matcher.find_lines(b"3\n3", limits, &Work::default(), |_| ControlFlow::Break(())).unwrap();
        assert_eq!((scan.hits, scan.stopped), (1, true));
    }

    #[test]
    fn case_s01_nested_quantifiers_are_linear() {
        let start = Instant::now();
        let line = "a".repeat(100_000) + "!";
        assert!(!regex("(a+)+$").is_match(line.as_bytes()));
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    // The first figure must stay near that of reading memory: no hit, no lines.
    #[test]
    fn a_file_without_hits_is_one_pass() {
        let content = "let value = compute(argument, other);\n".repeat(500_000);
        for matcher in [Matcher::new("needle", MatchOptions::default()).unwrap(), regex(r"^\s*needle\d+$")] {
            let start = Instant::now();
            assert!(!matcher.is_match(content.as_bytes()));
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        }
    }

    #[test]
    fn case_s02_long_lines_are_cut_around_the_match() {
        let line = "é".repeat(1 << 20) + "needle" + &"ü".repeat(1 << 20);
        let matcher = Matcher::new("needle", MatchOptions::default()).unwrap();
        matcher
            .find_lines(
                line.as_bytes(),
                LineLimits { max_line_bytes: 101, ..LineLimits::default() },
                &Work::default(),
                |hit| {
                    let text = std::str::from_utf8(hit.line.text).unwrap();
                    assert!(text.contains("needle") && text.len() <= 101);
                    assert_eq!(hit.line.cut_before + hit.line.text.len() + hit.line.cut_after, line.len());
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
    }

    // rows: S49
    #[test]
    fn substitutions_are_literal_or_templates() {
        let apply = |pattern, replacement, options, text: &[u8]| {
            Substitution::new(pattern, replacement, options)
                .unwrap()
                .apply(text)
                .map(|done| done.map(|(bytes, n)| (String::from_utf8(bytes).unwrap(), n)))
        };
        let literal = MatchOptions::default();
        assert_eq!(apply("a.", "$1", literal, b"a. ab").unwrap(), Some(("$1 ab".to_owned(), 1)));
        assert_eq!(
            apply("A", "x", MatchOptions { ignore_case: true, ..literal }, b"aA").unwrap(),
            Some(("xx".to_owned(), 2))
        );
        assert_eq!(apply("^(a)(b)$", "${2}$1$$", REGEX, b"ab\nab").unwrap(), Some(("ba$\nba$".to_owned(), 2)));
        assert_eq!(apply("z", "x", literal, b"a\xff").unwrap(), None);
        assert_eq!(apply("a", "x", literal, b"a\xff").unwrap_err().kind(), ErrorKind::NotUtf8);
        assert_eq!(apply("a", "x", literal, b"a\0").unwrap_err().kind(), ErrorKind::BinaryFile);
        assert!(Substitution::new("", "x", literal).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        // rows: S24
        #[test]
        fn the_whole_buffer_says_what_each_line_says(
            pattern in "(\\^|)([ab.]|\\\\s|\\\\b|[ab][*+?]|\\[\\^a\\]\\*|\\(a\\|b\\)|\\\\W|\\$|\\^|\\\\n){1,5}(\\$|)",
            content in "([ab ]|\n|\r\n){0,20}",
        ) {
            let Ok(matcher) = Matcher::new(&pattern, REGEX) else { return Ok(()) };
            let alone = Regex::new(&pattern).unwrap();
            let lines: Vec<&str> = content.split_inclusive('\n').collect();
            let expected: Vec<usize> = lines.iter().enumerate()
                .filter(|(_, line)| alone.is_match(line.trim_end_matches('\n').trim_end_matches('\r').as_bytes()))
                .map(|(at, _)| at + 1).collect();
            let found: Vec<usize> = numbers(&matcher, content.as_bytes()).into_iter().map(|(number, _)| number).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_clamp_holds_the_match(len in 0_usize..200, from in 0_usize..200, width in 0_usize..40, max in 1_usize..100) {
            let line = "é".repeat(len);
            let from = from.min(line.len());
            let keep = from..(from + width).min(line.len());
            let cut = clamp(line.as_bytes(), 1, keep.clone(), max);
            prop_assert!(cut.text.len() <= max);
            prop_assert_eq!(cut.cut_before + cut.text.len() + cut.cut_after, line.len());
            prop_assert!(cut.cut_before <= keep.start);
            if keep.len() + 8 <= max {
                prop_assert!(cut.cut_before + cut.text.len() >= keep.end);
            }
        }
    }
}
