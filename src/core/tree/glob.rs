//! Glob patterns over workspace paths.
//!
//! One pattern language for `glob`, for the filter of `search` and for the tools:
//!
//! | written | means |
//! |---|---|
//! | `*` `?` | any run of characters, one character, within one name |
//! | `**` | any number of directories, none included; at the end at least one entry |
//! | `[abc]` `[a-z]` `[!abc]` `[^abc]` `[[:alpha:]]` | one character of a class |
//! | `{a,b}` | alternatives, may nest and may hold `/`; `{a}` and unclosed `{` or `[` are literal |
//! | `\x` | the character `x` itself |
//! | leading `/` | from the workspace root instead of the directory asked from |
//! | trailing `/` | directories only |
//!
//! Names are bytes. One character is one UTF-8 character where the name is UTF-8 and one byte where it
//! is not, so every name can be matched, and `?` matches `é`. Hidden names are matched like all others;
//! [`Glob::hidden`] with `false` gives the shell's rule instead.
//!
//! A pattern is kept as a list of parts, one for each name, and matching is a set of positions in that list.
//! A walk can therefore ask whether anything below a directory can match ([`Glob::may_match_below`]) and
//! the answer is exact; a compiled regular expression cannot tell. That, `?` on bytes, and refusing an
//! unclosed brace are why this is not `globset`. Matching is linear in the name times the part.

use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::WsPath;

/// Longest pattern, in bytes: that of a path.
const MAX_PATTERN_BYTES: usize = 4095;
/// Most alternatives `{a,b}{c,d}…` may stand for.
const MAX_ALTERNATIVES: usize = 1024;
/// Most names in a pattern behind its literal beginning: they are positions in a `u128`.
const MAX_PARTS: usize = 126;

/// A compiled pattern.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a pattern, each asked for by name")]
pub struct Glob {
    alternatives: Vec<Alternative>,
    rooted: bool,
    dir_only: bool,
    basename_only: bool,
    hidden: bool,
}

#[derive(Debug, Clone)]
struct Alternative {
    /// Literal names the pattern begins with.
    prefix: Vec<Vec<u8>>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    AnyDirectories,
    Name(Segment),
}

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `invalid-argument` if it is empty, too long or stands for too many alternatives; `path-escape` if it
    /// holds `..`; `path-nul`.
    pub fn new(pattern: impl AsRef<[u8]>) -> Result<Self> {
        let pattern = pattern.as_ref();
        if pattern.is_empty() {
            return Err(Error::new(ErrorKind::InvalidArgument, "the pattern is empty"));
        }
        if pattern.contains(&0) {
            return Err(Error::new(ErrorKind::PathNul, "pattern contains null byte"));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Error::new(ErrorKind::InvalidArgument, "the pattern is longer than 4095 bytes"));
        }
        let mut alternatives = Vec::new();
        let mut basename_only = !pattern.starts_with(b"/");
        for expanded in expand_braces(pattern)? {
            let body = expanded.strip_suffix(b"/").unwrap_or(&expanded);
            basename_only &= !body.contains(&b'/');
            alternatives.push(Alternative::parse(&expanded)?);
        }
        Ok(Glob {
            alternatives,
            rooted: pattern.starts_with(b"/"),
            dir_only: pattern.ends_with(b"/"),
            basename_only,
            hidden: true,
        })
    }

    /// Sets whether wildcards match names that begin with a dot (they do unless told otherwise).
    ///
    /// With `false` such a name is matched only by a part of the pattern that begins with a dot itself, and
    /// `**` does not enter such a directory.
    #[must_use]
    pub fn hidden(mut self, matched: bool) -> Self {
        self.hidden = matched;
        self
    }

    /// Tells whether the pattern matches a path relative to the directory it is asked from (or to the
    /// root, see [`Glob::is_rooted`]).
    pub fn matches(&self, relative: &[u8]) -> bool {
        self.alternatives.iter().any(|alternative| {
            let states = alternative.run(relative, self.hidden);
            states & (1 << alternative.parts.len()) != 0
        })
    }

    /// Tells whether the pattern, used as a filter, lets a path through: without a slash it is the last
    /// name that must match, at any depth; with one it is the path.
    pub fn filters_in(&self, relative: &[u8]) -> bool {
        if !self.basename_only {
            return self.matches(relative);
        }
        self.matches(relative.rsplit(|&byte| byte == b'/').next().unwrap_or(relative))
    }

    /// Tells whether some entry below the directory `dir` could match: when not, a walk need not enter it.
    pub fn may_match_below(&self, dir: &[u8]) -> bool {
        self.alternatives.iter().any(|alternative| {
            let depth = names(dir).count();
            if depth < alternative.prefix.len() {
                return names(dir).eq(alternative.prefix[..depth].iter().map(Vec::as_slice));
            }
            // A position before the end means that more names can follow.
            alternative.run(dir, self.hidden) & ((1 << alternative.parts.len()) - 1) != 0
        })
    }

    /// Returns the directories every match lies in: a walk starts there and need not list those above.
    pub fn literal_prefix(&self) -> Vec<&[u8]> {
        let mut common: Option<Vec<&[u8]>> = None;
        for alternative in &self.alternatives {
            let all_literal = alternative.parts.is_empty();
            let keep = alternative.prefix.len() - usize::from(all_literal && !alternative.prefix.is_empty());
            let prefix = alternative.prefix[..keep].iter().map(Vec::as_slice);
            common = Some(match common {
                None => prefix.collect(),
                Some(before) => before.into_iter().zip(prefix).take_while(|(a, b)| a == b).map(|(a, _)| a).collect(),
            });
        }
        common.unwrap_or_default()
    }

    /// Returns the directory a walk for this pattern starts at when asked from `base`.
    pub fn start(&self, base: &WsPath) -> WsPath {
        let from = if self.rooted { WsPath::root() } else { base.clone() };
        self.literal_prefix().into_iter().fold(from, |path, name| path.join(name))
    }

    /// Returns the one path the pattern stands for if it holds no wildcard: existence is the whole test.
    pub fn literal_path(&self) -> Option<Vec<u8>> {
        match self.alternatives.as_slice() {
            [only] if only.parts.is_empty() => Some(only.prefix.join(&b'/')),
            _ => None,
        }
    }

    /// Tells whether the pattern holds no wildcard.
    pub fn is_literal(&self) -> bool {
        self.literal_path().is_some()
    }

    /// Tells whether the pattern begins with `/`, so that paths are taken from the root.
    pub fn is_rooted(&self) -> bool {
        self.rooted
    }

    /// Tells whether the pattern ends with `/`, so that only directories are meant.
    pub fn is_dir_only(&self) -> bool {
        self.dir_only
    }

    /// Tells whether the pattern holds no slash, so that as a filter it matches names at any depth.
    pub fn basename_only(&self) -> bool {
        self.basename_only
    }
}

impl Alternative {
    fn parse(pattern: &[u8]) -> Result<Self> {
        let mut prefix = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        for text in names(pattern) {
            let part =
                if text == b"**" { Part::AnyDirectories } else { Part::Name(Segment::parse(text, Dialect::Glob)) };
            if let Part::Name(segment) = &part
                && let Some(name) = segment.literal()
            {
                match name.as_slice() {
                    b"." => continue,
                    b".." => return Err(Error::new(ErrorKind::PathEscape, "the pattern holds '..'")),
                    _ if parts.is_empty() => {
                        prefix.push(name);
                        continue;
                    }
                    _ => {}
                }
            }
            if part != Part::AnyDirectories || parts.last() != Some(&Part::AnyDirectories) {
                parts.push(part);
            }
        }
        if parts.last() == Some(&Part::AnyDirectories) {
            parts.push(Part::Name(Segment::parse(b"*", Dialect::Glob)));
        }
        if parts.len() > MAX_PARTS {
            return Err(Error::new(ErrorKind::InvalidArgument, "the pattern has too many parts"));
        }
        Ok(Alternative { prefix, parts })
    }

    /// Returns the positions reached behind `path` as bits; the bit behind the last part is a match.
    fn run(&self, path: &[u8], hidden: bool) -> u128 {
        let mut rest = names(path);
        for literal in &self.prefix {
            if rest.next() != Some(literal.as_slice()) {
                return 0;
            }
        }
        run_parts(&self.parts, rest, hidden)
    }
}

fn run_parts<'a>(parts: &[Part], path: impl Iterator<Item = &'a [u8]>, hidden: bool) -> u128 {
    let mut states = skip_directories(parts, 1);
    for name in path {
        let mut next = 0;
        let mut left = states & ((1 << parts.len()) - 1);
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let dotted = name.starts_with(b".") && !hidden;
            match &parts[at] {
                Part::AnyDirectories if !dotted => next |= 1 << at,
                Part::Name(segment) if (!dotted || segment.begins_with_dot()) && segment.matches(name) => {
                    next |= 1 << (at + 1);
                }
                _ => {}
            }
        }
        if next == 0 {
            return 0;
        }
        states = skip_directories(parts, next);
    }
    states
}

/// Adds the positions behind every `**` reached: it also stands for no directory at all.
fn skip_directories(parts: &[Part], states: u128) -> u128 {
    let mut states = states;
    for (at, part) in parts.iter().enumerate() {
        if *part == Part::AnyDirectories && states & (1 << at) != 0 {
            states |= 1 << (at + 1);
        }
    }
    states
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// Writes a pattern out once for each combination of its `{a,b}`.
fn expand_braces(pattern: &[u8]) -> Result<Vec<Vec<u8>>> {
    if !pattern.contains(&b'{') {
        return Ok(vec![pattern.to_vec()]);
    }
    let mut done = Vec::new();
    // Depth first with the first alternative on top, so that the order written is the order kept.
    let mut open = vec![(pattern.to_vec(), 0)];
    let mut steps = 0_usize;
    while let Some((text, from)) = open.pop() {
        steps += 1;
        if steps > 2 * MAX_ALTERNATIVES || done.len() + open.len() > MAX_ALTERNATIVES {
            return Err(Error::new(ErrorKind::InvalidArgument, "the braces stand for too many alternatives"));
        }
        let Some(group) = find_group(&text, from) else {
            done.push(text);
            continue;
        };
        for &(start, end) in group.alternatives.iter().rev() {
            let mut one = text[..group.start].to_vec();
            one.extend_from_slice(&text[start..end]);
            one.extend_from_slice(&text[group.end..]);
            open.push((one, group.start));
        }
    }
    Ok(done)
}

struct Group {
    start: usize,
    end: usize,
    alternatives: Vec<(usize, usize)>,
}

/// Finds the first brace group that is closed and holds a comma.
fn find_group(text: &[u8], from: usize) -> Option<Group> {
    let mut at = from;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'[' => at = class_end(text, at).unwrap_or(at + 1),
            b'{' => match close_group(text, at) {
                Some(group) if group.alternatives.len() > 1 => return Some(group),
                _ => at += 1,
            },
            _ => at += 1,
        }
    }
    None
}

fn close_group(text: &[u8], start: usize) -> Option<Group> {
    let mut depth = 0_usize;
    let mut at = start;
    let mut piece = start + 1;
    let mut alternatives = Vec::new();
    while at < text.len() {
        match text[at] {
            b'\\' => {
                at += 2;
                continue;
            }
            b'[' => {
                at = class_end(text, at).unwrap_or(at + 1);
                continue;
            }
            b'{' => depth += 1,
            b',' if depth == 1 => {
                alternatives.push((piece, at));
                piece = at + 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    alternatives.push((piece, at));
                    return Some(Group { start, end: at + 1, alternatives });
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the place behind the `]` of the class that begins at `start`, if it is closed within its name.
fn class_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    if matches!(text.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let first = at;
    while at < text.len() && text[at] != b'/' {
        match text[at] {
            b']' if at > first => return Some(at + 1),
            b'\\' => at += 1,
            b'[' if text.get(at + 1) == Some(&b':') => {
                if let Some(len) = memchr::memmem::find(&text[at + 2..], b":]") {
                    at += 2 + len + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whose rules a segment follows where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Characters; an unclosed class is literal.
    Glob,
    /// Bytes, and a malformed pattern matches nothing, as in git's own matcher.
    Gitignore,
}

/// The pattern of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    tokens: Vec<Token>,
    by_bytes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    One,
    Run,
    Class { negated: bool, ranges: Vec<(u32, u32)> },
    Never,
}

/// Stands for a byte that is no part of a UTF-8 character: behind all characters.
const STRAY: u32 = 0x11_0000;

impl Segment {
    pub(super) fn parse(text: &[u8], dialect: Dialect) -> Self {
        let by_bytes = dialect == Dialect::Gitignore;
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < text.len() {
            match text[at] {
                b'*' => {
                    if tokens.last() != Some(&Token::Run) {
                        tokens.push(Token::Run);
                    }
                }
                b'?' => tokens.push(Token::One),
                b'[' => match class_end(text, at) {
                    Some(end) => {
                        tokens.push(parse_class(&text[at + 1..end - 1], by_bytes));
                        at = end;
                        continue;
                    }
                    None if by_bytes => tokens.push(Token::Never),
                    None => tokens.push(Token::Byte(b'[')),
                },
                b'\\' => match text.get(at + 1) {
                    Some(&byte) => {
                        tokens.push(Token::Byte(byte));
                        at += 1;
                    }
                    None if by_bytes => tokens.push(Token::Never),
                    None => tokens.push(Token::Byte(b'\\')),
                },
                byte => tokens.push(Token::Byte(byte)),
            }
            at += 1;
        }
        Segment { tokens, by_bytes }
    }

    /// Returns the one name this matches, if it holds no wildcard.
    fn literal(&self) -> Option<Vec<u8>> {
        self.tokens.iter().map(|token| if let Token::Byte(byte) = token { Some(*byte) } else { None }).collect()
    }

    fn begins_with_dot(&self) -> bool {
        self.tokens.first() == Some(&Token::Byte(b'.'))
    }

    /// Tells whether the whole name matches. Going back only to the last `*` is enough, so this is linear
    /// in the name times the pattern.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let mut token = 0;
        let mut at = 0;
        let mut retry: Option<(usize, usize)> = None;
        loop {
            if token == self.tokens.len() && at == name.len() {
                return true;
            }
            let step = match self.tokens.get(token) {
                Some(Token::Run) => {
                    retry = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(Token::Byte(byte)) => name.get(at).filter(|have| *have == byte).map(|_| 1),
                Some(Token::One) => self.unit(&name[at..]).map(|(_, len)| len),
                Some(Token::Class { negated, ranges }) => self
                    .unit(&name[at..])
                    .filter(|(unit, _)| ranges.iter().any(|(low, high)| (low..=high).contains(&unit)) != *negated)
                    .map(|(_, len)| len),
                Some(Token::Never) => return false,
                None => None,
            };
            if let Some(len) = step {
                at += len;
                token += 1;
                continue;
            }
            let Some((run, from)) = retry else { return false };
            let Some((_, len)) = self.unit(&name[from..]) else { return false };
            retry = Some((run, from + len));
            token = run + 1;
            at = from + len;
        }
    }

    fn unit(&self, rest: &[u8]) -> Option<(u32, usize)> {
        if self.by_bytes { rest.first().map(|&byte| (u32::from(byte), 1)) } else { next_unit(rest) }
    }
}

/// Returns the next character, or the next byte if no character begins there, and its length.
fn next_unit(rest: &[u8]) -> Option<(u32, usize)> {
    let &first = rest.first()?;
    if first < 0x80 {
        return Some((u32::from(first), 1));
    }
    let width = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((STRAY + u32::from(first), 1)),
    };
    let character =
        rest.get(..width).and_then(|bytes| std::str::from_utf8(bytes).ok()).and_then(|text| text.chars().next());
    Some(character.map_or((STRAY + u32::from(first), 1), |character| (u32::from(character), width)))
}

fn parse_class(body: &[u8], by_bytes: bool) -> Token {
    let negated = matches!(body.first(), Some(b'!' | b'^'));
    let mut rest = if negated { &body[1..] } else { body };
    let mut ranges = Vec::new();
    let next = |rest: &mut &[u8]| -> Option<u32> {
        if rest.first() == Some(&b'\\') && rest.len() > 1 {
            *rest = &rest[1..];
        }
        let (unit, len) = if by_bytes { (u32::from(*rest.first()?), 1) } else { next_unit(rest)? };
        *rest = &rest[len..];
        Some(unit)
    };
    while !rest.is_empty() {
        if let Some(named) = rest.strip_prefix(b"[:")
            && let Some(len) = memchr::memmem::find(named, b":]")
        {
            match named_class(&named[..len]) {
                Some(set) => ranges.extend(set),
                None => return Token::Never,
            }
            rest = &named[len + 2..];
            continue;
        }
        let Some(low) = next(&mut rest) else { break };
        if rest.first() == Some(&b'-') && rest.len() > 1 {
            rest = &rest[1..];
            let Some(high) = next(&mut rest) else { break };
            // git tests the first character of a range before it sees the range: it counts in any case.
            if by_bytes {
                ranges.push((low, low));
            }
            ranges.push((low, high));
        } else {
            ranges.push((low, low));
        }
    }
    Token::Class { negated, ranges }
}

fn named_class(name: &[u8]) -> Option<Vec<(u32, u32)>> {
    const fn range(low: u8, high: u8) -> (u32, u32) {
        (low as u32, high as u32)
    }
    const UPPER: (u32, u32) = range(b'A', b'Z');
    const LOWER: (u32, u32) = range(b'a', b'z');
    const DIGIT: (u32, u32) = range(b'0', b'9');
    Some(match name {
        b"alnum" => vec![UPPER, LOWER, DIGIT],
        b"alpha" => vec![UPPER, LOWER],
        b"blank" => vec![range(b'\t', b'\t'), range(b' ', b' ')],
        b"cntrl" => vec![range(0, 31), range(127, 127)],
        b"digit" => vec![DIGIT],
        b"graph" => vec![range(b'!', b'~')],
        b"lower" => vec![LOWER],
        b"print" => vec![range(b' ', b'~')],
        b"punct" => vec![range(b'!', b'/'), range(b':', b'@'), range(b'[', b'`'), range(b'{', b'~')],
        b"space" => vec![range(b'\t', b'\r'), range(b' ', b' ')],
        b"upper" => vec![UPPER],
        b"xdigit" => vec![DIGIT, range(b'a', b'f'), range(b'A', b'F')],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(pattern: &str) -> Glob {
        Glob::new(pattern).unwrap()
    }

    // rows: S16
    #[test]
    fn patterns_mean_what_the_table_says() {
        for (pattern, yes, no) in [
            ("*.py", "a.py b.py .py", "a.pyc sub/a.py"),
            ("?.txt", "a.txt é.txt", "ab.txt .txt"),
            ("**/*.py", "a.py x/a.py x/y/a.py .h/a.py", "a.pyc"),
            ("src/**/t.py", "src/t.py src/a/t.py src/a/b/t.py", "t.py src/t.pyc xsrc/t.py"),
            ("src/**", "src/a src/a/b", "src"),
            ("**", "a a/b", ""),
            ("a**b", "ab axxb", "a/b"),
            ("[abc].x", "a.x c.x", "d.x [abc].x"),
            ("[!a].x", "b.x é.x", "a.x"),
            ("[^a].x", "b.x", "a.x"),
            ("[]x]", "] x", "y"),
            ("[а-я]", "ж", "z"),
            ("[[:digit:]]", "7", "a"),
            ("[abc", "[abc", "a"),
            ("{a,b", "{a,b", "a"),
            ("{a}", "{a}", "a"),
            ("*.{py,md}", "a.py a.md", "a.rs"),
            ("{a/b,c}/d", "a/b/d c/d", "a/d"),
            ("x{,1{2,3}}", "x x12 x13", "x1"),
            ("[{,}]", "{ , }", "[{,}]"),
            (r"\*\[\{", "*[{", "a"),
            (r"\{a,b\}", "{a,b}", "a"),
            ("/a/b", "a/b", "b"),
            ("./a//b", "a/b", "a"),
        ] {
            let glob = glob(pattern);
            for path in yes.split_whitespace() {
                assert!(glob.matches(path.as_bytes()), "{pattern} must match {path}");
            }
            for path in no.split_whitespace() {
                assert!(!glob.matches(path.as_bytes()), "{pattern} must not match {path}");
            }
        }
        assert!(Glob::new(b"\xff*").unwrap().matches(b"\xff\xfe"));
        assert!(glob("?").matches(b"\xff"));
        assert!(!glob("?").matches(b"\xff\xfe"));
    }

    #[test]
    fn bad_patterns_are_refused() {
        for (pattern, kind) in [
            ("", ErrorKind::InvalidArgument),
            ("../x", ErrorKind::PathEscape),
            ("a/{..,b}", ErrorKind::PathEscape),
            ("a\0", ErrorKind::PathNul),
        ] {
            assert_eq!(Glob::new(pattern).unwrap_err().kind(), kind, "{pattern}");
        }
        for pattern in ["{a,b}".repeat(20), "x".repeat(5000), "*/".repeat(200)] {
            assert_eq!(Glob::new(&pattern).unwrap_err().kind(), ErrorKind::InvalidArgument, "{pattern}");
        }
        assert!(Glob::new("{".repeat(2000)).unwrap().is_literal());
    }

    #[test]
    fn literal_beginnings_are_known() {
        for (pattern, prefix) in [
            ("a/b/*.py", "a/b"),
            ("a/b", "a"),
            ("a", ""),
            ("*", ""),
            ("src/**/x", "src"),
            ("{src/a,src/b}/x/*.py", "src"),
            ("/a/*", "a"),
            ("{a,b}", ""),
        ] {
            assert_eq!(glob(pattern).literal_prefix().join(&b'/'), prefix.as_bytes(), "{pattern}");
        }
        let base = WsPath::new("base").unwrap();
        assert_eq!(glob("a/*").start(&base).to_string(), "base/a");
        assert_eq!(glob("/a/*").start(&base).to_string(), "a");
        assert_eq!(glob(r"a/\*").literal_path().unwrap(), b"a/*");
        assert!(!glob("a/*").is_literal());
    }

    // rows: S16, cases S05 and S08: one table for every backend, hidden names by the shell's rule.
    #[test]
    fn case_s08_filter_matrix() {
        let tree = [
            "a.py",
            "sub/b.py",
            "sub/nested/c.py",
            "readme.md",
            ".hidden.py",
            ".hidden/x.py",
            ".github/workflows/ci.yml",
        ];
        for (pattern, expected) in [
            ("*.py", "a.py sub/b.py sub/nested/c.py .hidden/x.py"),
            ("**/*.py", "a.py sub/b.py sub/nested/c.py"),
            ("sub/*.py", "sub/b.py"),
            ("sub/**/*.py", "sub/b.py sub/nested/c.py"),
            ("/*.py", "a.py"),
            ("a.py/**", ""),
            ("*.yml", ".github/workflows/ci.yml"),
            ("**/*.yml", ""),
            (".github/**/*.yml", ".github/workflows/ci.yml"),
            (".hidden.py", ".hidden.py"),
            (".*.py", ".hidden.py"),
            ("*", "a.py sub/b.py sub/nested/c.py readme.md .hidden/x.py .github/workflows/ci.yml"),
            ("*.{py,md}", "a.py sub/b.py sub/nested/c.py readme.md .hidden/x.py"),
            ("?.py", "a.py sub/b.py sub/nested/c.py .hidden/x.py"),
            ("[ab].py", "a.py sub/b.py"),
            ("[!a].py", "sub/b.py sub/nested/c.py .hidden/x.py"),
            ("[^a].py", "sub/b.py sub/nested/c.py .hidden/x.py"),
        ] {
            let glob = glob(pattern).hidden(false);
            let found: Vec<_> = tree.into_iter().filter(|path| glob.filters_in(path.as_bytes())).collect();
            assert_eq!(found.join(" "), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_stay_linear() {
        let pattern = "*a".repeat(100) + "b";
        assert!(!glob(&pattern).matches("a".repeat(255).as_bytes()));
        let pattern = "**/a/".repeat(60) + "b";
        assert!(!glob(&pattern).matches("a/".repeat(1000).as_bytes()));
    }

    /// Says the same as [`Glob::matches`] in the most direct way.
    fn slow(parts: &[Part], path: &[&[u8]]) -> bool {
        match (parts.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((Part::AnyDirectories, rest)), _) => {
                slow(rest, path) || path.split_first().is_some_and(|(_, below)| slow(parts, below))
            }
            (Some((Part::Name(segment), rest)), Some((name, below))) => {
                slow_name(&segment.tokens, name) && slow(rest, below)
            }
            _ => false,
        }
    }

    fn slow_name(tokens: &[Token], name: &[u8]) -> bool {
        match (tokens.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((Token::Run, rest)), _) => {
                slow_name(rest, name) || name.split_first().is_some_and(|(_, below)| slow_name(tokens, below))
            }
            (Some((Token::Byte(byte), rest)), Some((have, below))) => byte == have && slow_name(rest, below),
            (Some((Token::One, rest)), Some((_, below))) => slow_name(rest, below),
            _ => false,
        }
    }

    proptest! {
        // rows: S16
        #[test]
        fn matching_and_pruning_agree_with_brute_force(
            pattern in "((a|b|\\*|\\?|ab|\\*\\*)(/|){0,1}){1,6}",
            path in "(a|b|ab|ba)(/(a|b|ab)){0,5}",
        ) {
            let glob = glob(&pattern);
            let alternative = &glob.alternatives[0];
            let parts: Vec<Part> = alternative.prefix.iter()
                .map(|name| Part::Name(Segment::parse(name, Dialect::Glob)))
                .chain(alternative.parts.iter().cloned()).collect();
            let split: Vec<&[u8]> = path.as_bytes().split(|&byte| byte == b'/').collect();
            let expected = slow(&parts, &split);
            prop_assert_eq!(glob.matches(path.as_bytes()), expected);
            if expected {
                for depth in 0..split.len() {
                    let dir = split[..depth].join(&b'/');
                    prop_assert!(glob.may_match_below(&dir), "{} pruned {:?}", pattern, dir);
                }
                let prefix = glob.literal_prefix();
                prop_assert!(split.starts_with(&prefix) && prefix.len() < split.len());
            }
        }

        #[test]
        fn any_bytes_are_safe_as_pattern_and_path(pattern: Vec<u8>, path: Vec<u8>) {
            if let Ok(glob) = Glob::new(&pattern) {
                let _ = glob.matches(&path) || glob.may_match_below(&path) || glob.filters_in(&path);
            }
        }
    }
}
