//! Which entries the store leaves alone.
//!
//! The rule is the store's own (`ignore=`): nothing, a list of patterns, or, when asked for, the `.gitignore`
//! files found in the tree. What is ignored is neither captured nor touched by a rollback, so the meaning
//! must be git's to the letter: people trust what `git status` told them. In short: the last pattern that
//! matches decides, deeper files before upper ones, `!` takes back, a slash not at the end anchors at the
//! file's directory, a slash at the end means directories (never a link to one), and below an ignored
//! directory nothing can be taken back. Tests compare with `git check-ignore`.
//!
//! Nothing here reads the disk: whoever walks hands in the bytes of each `.gitignore`. One oddity of git is left
//! out: `x**/y`, where git lets the stars behind a literal beginning cross directories.

use super::glob::{Dialect, Segment};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::path::WsPath;
use std::sync::Arc;

/// What a store ignores.
#[derive(Debug, Clone, Default)]
pub struct IgnoreRules {
    base: Layer,
    read_files: bool,
}

impl IgnoreRules {
    /// Ignores nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Ignores what a list of gitignore-style patterns says, taken from the root.
    ///
    /// # Errors
    /// `invalid-argument` for a pattern that holds a newline or NUL.
    pub fn patterns(patterns: &[impl AsRef<[u8]>]) -> Result<Self> {
        let mut lines = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            if pattern.contains(&b'\n') || pattern.contains(&0) {
                return Err(Error::new(ErrorKind::InvalidArgument, "an ignore pattern holds a newline or null byte"));
            }
            lines.extend_from_slice(pattern);
            lines.push(b'\n');
        }
        Ok(IgnoreRules { base: Layer::default().push(&WsPath::root(), &lines), read_files: false })
    }

    /// Ignores what the `.gitignore` files in the tree say.
    pub fn gitignore() -> Self {
        IgnoreRules { base: Layer::default(), read_files: true }
    }

    /// Tells whether a walk must read the `.gitignore` of each directory and [`Layer::push`] it.
    pub fn reads_files(&self) -> bool {
        self.read_files
    }

    /// Tells whether nothing can be ignored, so that a walk need not ask.
    pub fn is_none(&self) -> bool {
        !self.read_files && self.base.0.is_none()
    }

    /// Returns the rules in force at the root, before its own `.gitignore`.
    pub fn layer(&self) -> Layer {
        self.base.clone()
    }
}

/// The rules in force in one directory: its own and those of the directories above. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Layer(Option<Arc<Node>>);

#[derive(Debug)]
struct Node {
    above: Layer,
    dir: WsPath,
    patterns: Vec<Pattern>,
}

impl Layer {
    /// Adds the rules of the `.gitignore` in `dir`. A file without patterns changes nothing.
    #[must_use]
    pub fn push(&self, dir: &WsPath, gitignore: &[u8]) -> Layer {
        let text = gitignore.strip_prefix(b"\xef\xbb\xbf").unwrap_or(gitignore);
        let patterns: Vec<Pattern> = text.split(|&byte| byte == b'\n').filter_map(Pattern::parse).collect();
        if patterns.is_empty() {
            return self.clone();
        }
        Layer(Some(Arc::new(Node { above: self.clone(), dir: dir.clone(), patterns })))
    }

    /// Tells whether an entry or a directory it lies in is ignored. `is_dir` is false for a link to a
    /// directory.
    pub fn is_ignored(&self, path: &WsPath, is_dir: bool) -> bool {
        if self.0.is_none() || path.is_root() {
            return false;
        }
        let bytes = path.as_bytes();
        let above = memchr::memchr_iter(b'/', bytes).any(|at| self.decides(&bytes[..at], true));
        above || self.decides(bytes, is_dir)
    }

    /// Tells whether an entry of a directory that is itself not ignored is ignored: for walks, which never
    /// enter an ignored directory.
    pub fn is_entry_ignored(&self, path: &WsPath, is_dir: bool) -> bool {
        !path.is_root() && self.decides(path.as_bytes(), is_dir)
    }

    fn decides(&self, path: &[u8], is_dir: bool) -> bool {
        let mut layer = self;
        while let Some(node) = &layer.0 {
            if let Some(below) = strip_dir(path, node.dir.as_bytes())
                && let Some(pattern) = node.patterns.iter().rev().find(|pattern| pattern.matches(below, is_dir))
            {
                return !pattern.negated;
            }
            layer = &node.above;
        }
        false
    }
}

fn strip_dir<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    if dir.is_empty() { Some(path) } else { path.strip_prefix(dir)?.strip_prefix(b"/") }
}

#[derive(Debug)]
struct Pattern {
    negated: bool,
    dir_only: bool,
    /// Without a slash the last name is matched, at any depth.
    any_depth: bool,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    AnyDirectories,
    Name(Segment),
}

impl Pattern {
    fn parse(line: &[u8]) -> Option<Self> {
        if line.first() == Some(&b'#') {
            return None;
        }
        let line = trim(line.strip_suffix(b"\r").unwrap_or(line));
        // git reads lines as C strings.
        let line = line.split(|&byte| byte == 0).next().unwrap_or(line);
        let (negated, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
        let (dir_only, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
        if line.is_empty() {
            return None;
        }
        let any_depth = !line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        let mut parts = Vec::new();
        for text in split_names(line) {
            let stars = text.len() > 1 && text.iter().all(|&byte| byte == b'*');
            parts.push(if stars && !any_depth {
                Part::AnyDirectories
            } else {
                Part::Name(Segment::parse(&text, Dialect::Gitignore))
            });
        }
        if let Some(Part::AnyDirectories) = parts.last() {
            parts.push(Part::Name(Segment::parse(b"*", Dialect::Gitignore)));
        }
        Some(Pattern { negated, dir_only, any_depth, parts })
    }

    fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.dir_only && !is_dir {
            return false;
        }
        if self.any_depth {
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
            return matches!(self.parts.as_slice(), [Part::Name(segment)] if segment.matches(name));
        }
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        let (mut part, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                Some(Part::AnyDirectories) => {
                    retry = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(Part::Name(segment)) if at < names.len() && segment.matches(names[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == names.len() => return true,
                _ => {}
            }
            match retry {
                Some((stars, from)) if from < names.len() => {
                    retry = Some((stars, from + 1));
                    part = stars + 1;
                    at = from + 1;
                }
                _ => return false,
            }
        }
    }
}

/// Cuts trailing spaces that no backslash protects.
fn trim(line: &[u8]) -> &[u8] {
    let mut spaces = None;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => {
                spaces.get_or_insert(at);
            }
            b'\\' => {
                at += 1;
                if at == line.len() {
                    return line;
                }
                spaces = None;
            }
            _ => spaces = None,
        }
        at += 1;
    }
    spaces.map_or(line, |at| &line[..at])
}

/// Splits at each slash, one written `\/` included.
fn split_names(line: &[u8]) -> Vec<Vec<u8>> {
    let mut names = vec![Vec::new()];
    let mut at = 0;
    while at < line.len() {
        let escaped = line[at] == b'\\' && at + 1 < line.len();
        let end = at + 1 + usize::from(escaped);
        let piece = &line[at..end];
        if piece == b"/" || piece == b"\\/" {
            names.push(Vec::new());
        } else if let Some(name) = names.last_mut() {
            name.extend_from_slice(piece);
        }
        at = end;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;

    fn path(text: &str) -> WsPath {
        WsPath::new(text).unwrap()
    }

    #[test]
    fn case_g09_an_empty_file_above_cancels_nothing() {
        for above in [None, Some(&b""[..]), Some(b"# only a comment\n\n")] {
            let mut layer = IgnoreRules::gitignore().layer();
            if let Some(bytes) = above {
                layer = layer.push(&path("a"), bytes);
            }
            layer = layer.push(&path("a/b"), b"/*.bin\n");
            assert!(layer.is_ignored(&path("a/b/large.bin"), false));
            assert!(!layer.is_ignored(&path("a/large.bin"), false));
        }
    }

    #[test]
    fn case_g10_a_directory_pattern_does_not_match_a_link() {
        let layer = IgnoreRules::patterns(&["/node_modules/"]).unwrap().layer();
        assert!(layer.is_ignored(&path("node_modules"), true));
        assert!(layer.is_ignored(&path("node_modules/x"), false));
        assert!(!layer.is_ignored(&path("node_modules"), false));
    }

    #[test]
    fn below_an_ignored_directory_nothing_is_taken_back() {
        let layer = IgnoreRules::patterns(&["build/", "!build/keep"]).unwrap().layer();
        assert!(layer.is_ignored(&path("x/build/keep"), false));
        let layer = IgnoreRules::patterns(&["build/*", "!build/keep"]).unwrap().layer();
        assert!(!layer.is_ignored(&path("build/keep"), false));
        assert!(layer.is_ignored(&path("build/x"), false));
        assert!(IgnoreRules::none().is_none());
        assert!(IgnoreRules::patterns(&["a\nb"]).is_err());
    }

    /// Asks git which of `paths` (true for directories) it would ignore, given these `.gitignore` files.
    fn ask_git(root: &Path, files: &BTreeMap<String, Vec<u8>>, paths: &[(String, bool)]) -> Vec<bool> {
        use std::io::Write as _;
        let git = || {
            let mut command = Command::new("git");
            command.current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            command
        };
        assert!(git().args(["init", "-q", "."]).status().unwrap().success());
        for (name, is_dir) in paths {
            let full = root.join(name);
            if *is_dir {
                std::fs::create_dir_all(full).unwrap();
            } else {
                std::fs::create_dir_all(full.parent().unwrap()).unwrap();
                std::fs::write(full, b"").unwrap();
            }
        }
        for (dir, bytes) in files {
            std::fs::create_dir_all(root.join(dir)).unwrap();
            std::fs::write(root.join(dir).join(".gitignore"), bytes).unwrap();
        }
        let mut child = git()
            .args(["check-ignore", "-z", "--stdin", "-v", "-n"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = Vec::new();
        for (name, _) in paths {
            input.extend_from_slice(name.as_bytes());
            input.push(0);
        }
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap().stdout;
        let fields: Vec<&[u8]> = output.split(|&byte| byte == 0).collect();
        // source, line, pattern, path
        fields.chunks_exact(4).map(|entry| !entry[2].is_empty() && !entry[2].starts_with(b"!")).collect()
    }

    const PATHS: &[(&str, bool)] = &[
        ("a", true),
        ("a/b", true),
        ("a/b/c", false),
        ("a/b/ab", false),
        ("a/c", false),
        ("a/ab", true),
        ("a/ab/c", false),
        ("b", true),
        ("b/a", true),
        ("b/a/c", false),
        ("b/a/b", true),
        ("b/a/b/c", false),
        ("c", false),
        ("ab", false),
        ("a b", false),
        ("#c", false),
        ("!c", false),
        ("c ", false),
        ("b/é", false),
        ("b/*", false),
        ("[a", false),
    ];

    fn compare(files: &BTreeMap<String, Vec<u8>>) {
        let root = tempfile::tempdir().unwrap();
        let paths: Vec<(String, bool)> = PATHS.iter().map(|(name, is_dir)| ((*name).to_owned(), *is_dir)).collect();
        let expected = ask_git(root.path(), files, &paths);
        let mut layer = IgnoreRules::gitignore().layer();
        for (dir, bytes) in files {
            let dir = if dir.is_empty() { WsPath::root() } else { path(dir) };
            layer = layer.push(&dir, bytes);
        }
        for ((name, is_dir), expected) in paths.iter().zip(expected) {
            let ours = layer.is_ignored(&WsPath::new(name.as_bytes()).unwrap(), *is_dir);
            let shown: Vec<_> = files.iter().map(|(dir, bytes)| (dir, String::from_utf8_lossy(bytes))).collect();
            assert_eq!(ours, expected, "{name} under {shown:?}");
        }
    }

    #[test]
    fn odd_lines_mean_what_git_means() {
        for text in [
            &b"c \n"[..],
            b"c\\ \n",
            b"\\#c\n",
            b"#c\n",
            b"\\!c\n",
            b"!c\n",
            b"c\r\n",
            b"a/**\n",
            b"**\n!a\n",
            b"/**/c\n",
            b"a/**/c\n",
            b"**/b/\n",
            b"[a\n",
            b"\\[a\n",
            b"c\\\n",
            b"/\n",
            b"//\n",
            b"a//b\n",
            b"[!a]\n",
            b"[^a]\n",
            b"[[:alpha:]]\n",
            b"[]a]\n",
            b"b/\\*\n",
            b"\xef\xbb\xbfc\n",
            b"*\n!*/\n!c\n",
            b"c",
            b"b/?\n",
            b"b/??\n",
            b"a\\/b\n",
            b"[b-a]\n",
            b"/a/*/c\n",
            b"***\n",
            b"a/***/c\n",
            b" c\n",
            b"*/c\n",
            b"**/c\n",
            b"a/\n!a/\n",
            b"b/*\n!b/a\n",
            b"[[:foo:]]\n",
        ] {
            compare(&BTreeMap::from([(String::new(), text.to_vec())]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]
        #[test]
        fn agrees_with_git_check_ignore(
            root in line_strategy(), a in proptest::option::of(line_strategy()),
            ab in proptest::option::of(line_strategy()), b in proptest::option::of(line_strategy()),
        ) {
            let mut files = BTreeMap::from([(String::new(), root)]);
            for (dir, text) in [("a", a), ("a/b", ab), ("b/a", b)] {
                if let Some(text) = text {
                    files.insert(dir.to_owned(), text);
                }
            }
            compare(&files);
        }
    }

    fn line_strategy() -> impl Strategy<Value = Vec<u8>> {
        "((!|/|)(\\*|a|b|c|ab|\\*b|\\?|\\[ab\\]|\\*\\*)(/(\\*|a|b|c|\\*\\*|\\?)){0,2}(/|)\n){0,4}"
            .prop_map(String::into_bytes)
    }
}
