//! Reads: none of them takes a lock of the workspace, so none waits for a checkpoint or a writer.

use super::Workspace;
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::{self, FileSystem, OpenFile};
use crate::core::path::{Name, RawPath, WsPath};
use crate::core::text;
use crate::core::tree::Kind;
use crate::core::tree::glob::Glob;
use crate::core::tree::matcher::{LineLimits, LineText, MatchOptions, Matcher};
use crate::core::tree::resolve::Follow;
use crate::core::tree::walk::{Directory, Info, Visitor, listed, walk};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest file [`Workspace::try_read`] reads on the caller's thread.
const TRY_BYTES: u64 = 256 << 10;
/// Largest file shown as text.
const MAX_VIEW_BYTES: u64 = 256 << 20;

/// What is known of one entry.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StatResult {
    /// Where: the path asked for.
    pub path: WsPath,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change of the content, in nanoseconds since the epoch, where the filesystem knows it.
    pub modified: Option<i64>,
    /// Names the file has.
    pub links: u64,
    /// Where a link points, as written.
    pub target: Option<LinkTarget>,
}

/// A link's target: text where it is text, bytes where not.
#[derive(Debug, Clone)]
pub struct LinkTarget(pub Vec<u8>);

impl serde::Serialize for LinkTarget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0.iter()),
        }
    }
}

impl StatResult {
    fn new(path: WsPath, info: Info, target: Option<Vec<u8>>) -> Self {
        StatResult {
            path,
            kind: info.kind,
            size: info.size,
            mode: info.mode & 0o7777,
            modified: info.modified_ns,
            links: info.links,
            target: target.map(LinkTarget),
        }
    }
}

/// Text as a model is shown it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct View {
    /// The text; any part of it can be the `old` of an edit.
    pub text: String,
    /// Bytes that are no text are shown as U+FFFD.
    pub lossy: bool,
    /// The encoding found.
    pub encoding: &'static str,
    /// The file begins with a byte order mark, which is not shown.
    pub bom: bool,
    /// Size of the file in bytes.
    pub size: u64,
    /// Its content id.
    pub id: ObjectId,
}

/// Counts of a directory and everything below it. Links count as links, whatever they lead to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Regular files.
    pub files: u64,
    /// Directories, the one asked for included.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Bytes of the regular files.
    pub bytes: u64,
}

/// Paths a pattern matches.
#[derive(Debug, Clone, serde::Serialize)]
pub struct GlobResult {
    /// Sorted.
    pub paths: Vec<WsPath>,
    /// There were more than asked for.
    pub truncated: bool,
    /// Directories that could not be looked into.
    pub unreadable: Vec<WsPath>,
}

/// How a tree is searched.
#[derive(Debug)]
pub struct SearchOptions<'a> {
    /// The pattern is a regular expression, not plain text.
    pub regex: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// Only files that match one of these globs; empty for all.
    pub include: &'a [String],
    /// No files that match one of these globs.
    pub exclude: &'a [String],
    /// Lines shown before and after a match.
    pub context: usize,
    /// Larger files are skipped.
    pub max_file_bytes: u64,
    /// Files searched, at most.
    pub max_files: Option<usize>,
    /// Matches returned, at most.
    pub max_matches: usize,
    /// Bytes of a line shown, at most.
    pub max_line_bytes: usize,
}

/// One line that matches.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Match {
    /// The file.
    pub path: WsPath,
    /// 1-based.
    pub line: u64,
    /// The line, without its end; clamped around the match if it is long.
    pub text: String,
    /// Where the match starts in `text`, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Lines before.
    pub before: Vec<String>,
    /// Lines after.
    pub after: Vec<String>,
    /// The line was clamped.
    pub clamped: bool,
}

/// A file that was not searched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct SkippedFile {
    /// The file or directory.
    pub path: WsPath,
    /// `binary`, `too-large` or `unreadable`.
    pub reason: &'static str,
}

/// What a search found.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SearchResult {
    /// Sorted by path and line.
    pub matches: Vec<Match>,
    /// Files looked into.
    pub files_searched: usize,
    /// Files not looked into, sorted.
    pub skipped: Vec<SkippedFile>,
    /// What was cut, if anything: `matches` or `files`.
    pub truncated: Option<&'static str>,
}

/// Skipped files listed in a result, at most.
const MAX_SKIPPED: usize = 1000;

impl Workspace {
    /// Reads a file, or a range of it: past the end is empty, at the end is short.
    pub fn read(&self, path: &[u8], range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.files().read(&self.path(path)?, range)
    }

    /// Reads as [`Workspace::read`] does if that waits for nothing; `None` if it might.
    pub fn try_read(&self, path: &[u8], range: Option<Range<u64>>) -> Result<Option<Vec<u8>>> {
        self.check_open()?;
        let raw = RawPath::parse(path)?;
        match raw.plain() {
            Some(path) if !raw.must_be_dir => self.files().try_read(&path, range, TRY_BYTES),
            _ => Ok(None),
        }
    }

    /// Opens a file for reading from front to back.
    pub fn open_file(&self, path: &[u8]) -> Result<Box<dyn OpenFile>> {
        self.files().open(&self.path(path)?)
    }

    /// Reads a file as a model is shown it.
    pub fn view(&self, path: &[u8]) -> Result<View> {
        let path = self.path(path)?;
        let bytes = self.files().read(&path, Some(0..MAX_VIEW_BYTES + 1))?;
        if bytes.len() as u64 > MAX_VIEW_BYTES {
            return Err(Error::new(ErrorKind::FileTooLarge, "the file is too large to be shown as text").at(&path));
        }
        let view = text::edit::view(&bytes);
        if text::edit::is_binary_for_edit(&bytes) {
            return Err(Error::new(ErrorKind::BinaryFile, "the file is binary").at(&path));
        }
        Ok(View {
            text: view.text.into_owned(),
            lossy: view.lossy,
            encoding: view.encoding,
            bom: view.bom,
            size: bytes.len() as u64,
            id: Content::from_bytes(&bytes).id()?,
        })
    }

    /// Tells whether anything stands at `path`, a link that leads nowhere included.
    pub fn exists(&self, path: &[u8]) -> Result<bool> {
        let path = match self.path(path) {
            Ok(path) => path,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotADirectory | ErrorKind::FileNotFound | ErrorKind::DirectoryNotFound
                ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        match self.files().lookup(&path, Follow::No) {
            Ok(found) => Ok(found.is_some()),
            Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::FileNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tells what an entry is; of a link, the link itself.
    pub fn stat(&self, path: &[u8]) -> Result<StatResult> {
        let path = self.path(path)?;
        let Some((_, info)) = self.files().lookup(&path, Follow::No)? else {
            return Err(Error::new(ErrorKind::FileNotFound, "no such file or directory").at(&path));
        };
        let target = if info.kind == Kind::Symlink { Some(self.files().read_link(&path)?) } else { None };
        Ok(StatResult::new(path, info, target))
    }

    /// Returns the id of a file's content.
    pub fn content_id(&self, path: &[u8], work: &Work) -> Result<ObjectId> {
        file_id(self.files(), &self.path(path)?, work)
    }

    /// Reads where a link points, as written.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.files().read_link(&self.path(path)?)
    }

    /// Returns the path without links.
    pub fn real_path(&self, path: &[u8]) -> Result<WsPath> {
        let path = self.path(path)?;
        match self.files().lookup(&path, Follow::Yes)? {
            Some((real, _)) => Ok(real),
            None => Err(Error::new(ErrorKind::FileNotFound, "no such file or directory").at(&path)),
        }
    }

    /// Lists a directory, sorted by name.
    pub fn list_dir(&self, path: &[u8]) -> Result<Vec<StatResult>> {
        let path = self.path(path)?;
        let directory = self.files().directory(&path)?;
        directory
            .list_with_info()?
            .into_iter()
            .map(|(name, info)| {
                let below = path.join(name.as_bytes());
                let target = self.target_of(&below, info)?;
                Ok(StatResult::new(below, info, target))
            })
            .collect()
    }

    fn target_of(&self, path: &WsPath, info: Info) -> Result<Option<Vec<u8>>> {
        if info.kind != Kind::Symlink {
            return Ok(None);
        }
        match self.files().read_link(path) {
            Ok(target) => Ok(Some(target)),
            // Replaced since it was listed.
            Err(error) if matches!(error.kind(), ErrorKind::NotALink | ErrorKind::FileNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists everything below a directory, each directory before what it holds, sorted by name. Links are
    /// not followed; directories that cannot be read are listed but not entered.
    pub fn walk(&self, path: &[u8], max_depth: Option<usize>, work: &Work) -> Result<Vec<StatResult>> {
        let path = self.path(path)?;
        let collector = Collect { base: path.clone(), found: Mutex::new(Vec::new()), max_depth };
        walk(self.files().directory(&path)?, &path, &collector, work)?;
        let mut found = collector.found.into_inner();
        found.sort_by(|a, b| a.0.names().cmp(b.0.names()));
        found
            .into_iter()
            .map(|(path, info)| {
                let target = self.target_of(&path, info)?;
                Ok(StatResult::new(path, info, target))
            })
            .collect()
    }

    /// Counts everything below a directory, itself included.
    pub fn summary(&self, path: &[u8], work: &Work) -> Result<Summary> {
        let path = self.path(path)?;
        let collector = Collect { base: path.clone(), found: Mutex::new(Vec::new()), max_depth: None };
        walk(self.files().directory(&path)?, &path, &collector, work)?;
        let mut summary = Summary { directories: 1, ..Summary::default() };
        for (_, info) in collector.found.into_inner() {
            match info.kind {
                Kind::File => {
                    summary.files += 1;
                    summary.bytes += info.size;
                }
                Kind::Directory => summary.directories += 1,
                Kind::Symlink => summary.symlinks += 1,
                _ => summary.special += 1,
            }
        }
        Ok(summary)
    }

    /// Lists the paths a glob matches below `path`, sorted. A pattern with a leading `/` starts at the root.
    pub fn glob(&self, pattern: &[u8], path: &[u8], max_results: Option<usize>, work: &Work) -> Result<GlobResult> {
        let base = self.path(path)?;
        let glob = Glob::new(pattern)?;
        let from = if glob.is_rooted() { WsPath::root() } else { base };
        let mut result = GlobResult { paths: Vec::new(), truncated: false, unreadable: Vec::new() };
        if let Some(literal) = glob.literal_path() {
            // Not a pattern at all: a test whether it exists.
            let path = if literal.is_empty() { from } else { from.join_path(&WsPath::new(&literal)?) };
            let found = self.files().lookup(&path, Follow::No).or_else(|error| match error.kind() {
                ErrorKind::NotADirectory | ErrorKind::FileNotFound | ErrorKind::SymlinkEscape => Ok(None),
                _ => Err(error),
            })?;
            if found.is_some_and(|(_, info)| !glob.is_dir_only() || info.kind == Kind::Directory) {
                result.paths.push(path);
            }
            return Ok(result);
        }
        // A link given as the base is followed; one in the literal part is not, as below it none is.
        let base = self.files().lookup(&from, Follow::Yes)?.map_or_else(|| from.clone(), |(real, _)| real);
        let below = |path: &WsPath| glob.literal_prefix().into_iter().fold(path.clone(), |path, name| path.join(name));
        let start = below(&from);
        match self.files().lookup(&start, Follow::No) {
            Ok(Some((real, info))) if info.kind == Kind::Directory && real == below(&base) => {}
            Ok(_) if !start.is_root() && start != from => return Ok(result),
            Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::SymlinkEscape) => {
                return Ok(result);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let globber =
            Globber { glob: &glob, from: &from, paths: Mutex::new(Vec::new()), unreadable: Mutex::new(Vec::new()) };
        walk(self.files().directory(&start)?, &start, &globber, work)?;
        result.paths = globber.paths.into_inner();
        result.paths.sort_unstable();
        result.unreadable = globber.unreadable.into_inner();
        result.unreadable.sort_unstable();
        if let Some(max) = max_results {
            result.truncated = result.paths.len() > max;
            result.paths.truncate(max);
        }
        Ok(result)
    }

    /// Searches the files below `path`, or the one file `path`, line by line.
    pub fn search(&self, pattern: &str, path: &[u8], options: &SearchOptions<'_>, work: &Work) -> Result<SearchResult> {
        let path = self.path(path)?;
        let matcher = Matcher::new(pattern, MatchOptions { regex: options.regex, ignore_case: options.ignore_case })?;
        let globs = |patterns: &[String]| patterns.iter().map(Glob::new).collect::<Result<Vec<_>>>();
        let searcher = Searcher {
            matcher,
            base: path.clone(),
            include: globs(options.include)?,
            exclude: globs(options.exclude)?,
            limits: LineLimits {
                max_line_bytes: options.max_line_bytes,
                before: options.context,
                after: options.context,
            },
            max_file_bytes: options.max_file_bytes,
            max_files: options.max_files.unwrap_or(usize::MAX),
            max_matches: options.max_matches,
            files: AtomicUsize::new(0),
            matches: Mutex::new(Vec::new()),
            skipped: Mutex::new(Vec::new()),
            work,
        };
        match self.files().lookup(&path, Follow::Yes)? {
            None => return Err(Error::new(ErrorKind::FileNotFound, "no such file or directory").at(&path)),
            Some((_, info)) if info.kind == Kind::Directory => {
                walk(self.files().directory(&path)?, &path, &searcher, work)?;
            }
            Some((real, info)) => {
                info.kind.refuse_special().map_err(|error| error.at(&path))?;
                let directory = self.files().directory(&real.parent())?;
                let name = Name::new(real.name().unwrap_or_default())?;
                searcher.file(directory.as_ref(), &name, path.clone(), &mut Vec::new())?;
            }
        }
        Ok(searcher.finish())
    }
}

/// Hashes a file of the tree.
pub(super) fn file_id(files: &dyn FileSystem, path: &WsPath, work: &Work) -> Result<ObjectId> {
    fs::file_id(files.open(path)?.as_ref(), path, work)
}

struct Collect {
    base: WsPath,
    found: Mutex<Vec<(WsPath, Info)>>,
    max_depth: Option<usize>,
}

impl Visitor for Collect {
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, depth: usize) -> Result<Vec<Name>> {
        let listing = listed(self, path, directory.list_with_info())?;
        let enter = if self.max_depth.is_some_and(|max| depth + 1 >= max) {
            Vec::new()
        } else {
            listing.iter().filter(|(_, info)| info.kind == Kind::Directory).map(|(name, _)| name.clone()).collect()
        };
        if self.max_depth != Some(0) {
            self.found.lock().extend(listing.into_iter().map(|(name, info)| (path.join(name.as_bytes()), info)));
        }
        Ok(enter)
    }

    fn unreadable(&self, path: &WsPath, error: Error) -> Result<()> {
        if *path == self.base { Err(error) } else { pass_over(path, error) }
    }
}

/// One directory that is locked or gone must not cost the listing of all others.
fn pass_over(path: &WsPath, error: Error) -> Result<()> {
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::FileNotFound
        | ErrorKind::DirectoryNotFound
        | ErrorKind::NotADirectory
        | ErrorKind::PathRace
            if !path.is_root() =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

struct Globber<'a> {
    glob: &'a Glob,
    from: &'a WsPath,
    paths: Mutex<Vec<WsPath>>,
    unreadable: Mutex<Vec<WsPath>>,
}

impl Visitor for Globber<'_> {
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, _depth: usize) -> Result<Vec<Name>> {
        let listing = listed(self, path, directory.list())?;
        let mut relative = path.strip_prefix(self.from).unwrap_or_else(WsPath::root).as_bytes().to_vec();
        if !relative.is_empty() {
            relative.push(b'/');
        }
        let prefix = relative.len();
        let (mut found, mut enter) = (Vec::new(), Vec::new());
        for entry in listing {
            relative.truncate(prefix);
            relative.extend_from_slice(entry.name.as_bytes());
            let is_dir = entry.kind == Kind::Directory;
            if (is_dir || !self.glob.is_dir_only()) && self.glob.matches(&relative) {
                found.push(path.join(entry.name.as_bytes()));
            }
            if is_dir && self.glob.may_match_below(&relative) {
                enter.push(entry.name);
            }
        }
        if !found.is_empty() {
            self.paths.lock().append(&mut found);
        }
        Ok(enter)
    }

    fn unreadable(&self, path: &WsPath, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::PermissionDenied {
            self.unreadable.lock().push(path.clone());
        }
        pass_over(path, error)
    }
}

struct Searcher<'a> {
    matcher: Matcher,
    base: WsPath,
    include: Vec<Glob>,
    exclude: Vec<Glob>,
    limits: LineLimits,
    max_file_bytes: u64,
    max_files: usize,
    max_matches: usize,
    files: AtomicUsize,
    matches: Mutex<Vec<Match>>,
    skipped: Mutex<Vec<SkippedFile>>,
    work: &'a Work,
}

impl Searcher<'_> {
    fn wants(&self, path: &WsPath) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let relative = path.strip_prefix(&self.base).unwrap_or_else(|| path.clone());
        let hit = |glob: &Glob| {
            let path = if glob.is_rooted() { path } else { &relative };
            glob.filters_in(path.as_bytes())
        };
        (self.include.is_empty() || self.include.iter().any(hit)) && !self.exclude.iter().any(hit)
    }

    fn skip(&self, path: WsPath, reason: &'static str) {
        self.skipped.lock().push(SkippedFile { path, reason });
    }

    fn file(&self, directory: &dyn Directory, name: &Name, path: WsPath, buffer: &mut Vec<u8>) -> Result<()> {
        if self.files.fetch_add(1, Ordering::Relaxed) >= self.max_files {
            return Ok(());
        }
        self.work.check()?;
        let size = match directory.read_into(name, self.max_file_bytes, buffer) {
            Ok(size) => size,
            Err(error)
                if matches!(error.kind(), ErrorKind::FileNotFound | ErrorKind::PathRace | ErrorKind::SpecialFile) =>
            {
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.skip(path, "unreadable");
                return Ok(());
            }
            Err(error) => return Err(error.at(&path)),
        };
        if size > self.max_file_bytes {
            self.skip(path, "too-large");
            return Ok(());
        }
        // The mark at the beginning is none of the first line's text, here as in every other view of it.
        let decoded = text::edit::utf16_text(buffer);
        let text = match &decoded {
            Some(decoded) => decoded.as_bytes(),
            None => buffer.strip_prefix("\u{feff}".as_bytes()).unwrap_or(buffer),
        };
        let mut found = Vec::new();
        let scan = self.matcher.find_lines(text, self.limits, self.work, |hit| {
            let shown = |line: &LineText<'_>| String::from_utf8_lossy(line.text).into_owned();
            // The range is given in the line's bytes; what is shown may start later and be decoded with loss.
            let until = |at: usize| {
                let at = at.saturating_sub(hit.line.cut_before).min(hit.line.text.len());
                String::from_utf8_lossy(&hit.line.text[..at]).len()
            };
            found.push(Match {
                path: path.clone(),
                line: hit.line.number as u64,
                text: shown(&hit.line),
                start: until(hit.range.start),
                end: until(hit.range.end),
                before: hit.before.iter().map(shown).collect(),
                after: hit.after.iter().map(shown).collect(),
                clamped: hit.line.cut_before + hit.line.cut_after > 0,
            });
            if found.len() > self.max_matches { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if scan.binary {
            self.skip(path, "binary");
        }
        if !found.is_empty() {
            let mut matches = self.matches.lock();
            matches.append(&mut found);
            // What sorts behind the limit can never be returned, in whatever order files are searched.
            if matches.len() > self.max_matches.saturating_mul(8).max(100_000) {
                sort(&mut matches);
                matches.truncate(self.max_matches + 1);
            }
        }
        Ok(())
    }

    fn finish(self) -> SearchResult {
        let mut matches = self.matches.into_inner();
        sort(&mut matches);
        let mut skipped = self.skipped.into_inner();
        skipped.sort_unstable();
        skipped.truncate(MAX_SKIPPED);
        let searched = self.files.into_inner();
        let truncated = if matches.len() > self.max_matches {
            Some("matches")
        } else if searched > self.max_files {
            Some("files")
        } else {
            None
        };
        matches.truncate(self.max_matches);
        SearchResult { matches, files_searched: searched.min(self.max_files), skipped, truncated }
    }
}

fn sort(matches: &mut [Match]) {
    matches.sort_by(|a, b| (&a.path, a.line, a.start).cmp(&(&b.path, b.line, b.start)));
}

impl Visitor for Searcher<'_> {
    fn visit(&self, directory: &Arc<dyn Directory>, path: &WsPath, _depth: usize) -> Result<Vec<Name>> {
        let listing = listed(self, path, directory.list())?;
        let mut buffer = Vec::new();
        let mut enter = Vec::new();
        for entry in listing {
            match entry.kind {
                Kind::Directory => enter.push(entry.name),
                Kind::File => {
                    let below = path.join(entry.name.as_bytes());
                    if self.wants(&below) {
                        self.file(directory.as_ref(), &entry.name, below, &mut buffer)?;
                    }
                }
                _ => {}
            }
        }
        Ok(enter)
    }

    fn unreadable(&self, path: &WsPath, error: Error) -> Result<()> {
        if *path == self.base {
            return Err(error);
        }
        if error.kind() == ErrorKind::PermissionDenied {
            self.skip(path.clone(), "unreadable");
        }
        pass_over(path, error)
    }
}
