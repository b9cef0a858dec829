//! Line diffs and the patches that carry them.
//!
//! What is printed must always apply, with `git apply` and (for text) `patch -p1`: names are quoted as git
//! quotes them, only `\n` ends a line, a missing final newline is marked, and creating or deleting an empty
//! file or changing only a mode is a valid patch too. Hunks are placed as git places them with
//! `--no-indent-heuristic`: a block of lines that can slide goes to where the other side changed as well, else
//! down as far as it can.
//!
//! Lines that occur on one side only are taken out before the search; without that two files with nothing
//! in common would cost the square of their length. What is left is bounded by time: after
//! [`DEADLINE`] the rest comes out as one coarse block, which is still a right diff.

use crate::core::path::WsPath;
use similar::{Algorithm, DiffOp};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longest search for a small diff of one file.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// Context lines of a usual diff.
pub const CONTEXT: usize = 3;

/// What changed between two contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// Lines added.
    pub additions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// The places that changed, in order.
    pub hunks: Vec<Hunk>,
    /// At least one side is binary and they differ; there are no hunks.
    pub binary: bool,
}

impl FileDiff {
    /// Tells whether both sides hold the same bytes.
    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty() && !self.binary
    }
}

/// One changed place with its surroundings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// First line in the old content, 1-based; the line before if there are none.
    pub old_start: usize,
    /// Lines of the old content.
    pub old_lines: usize,
    /// First line in the new content, 1-based; the line before if there are none.
    pub new_start: usize,
    /// Lines of the new content.
    pub new_lines: usize,
    /// The lines, removed before added.
    pub lines: Vec<Line>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What became of it.
    pub kind: LineKind,
    /// Its bytes with the final `\n`, which only the last line of a content may lack.
    pub text: Vec<u8>,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// Stands on both sides.
    Context,
    /// Stands on the new side.
    Add,
    /// Stands on the old side.
    Remove,
}

/// One side of a patch.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Where the entry is.
    pub path: &'a WsPath,
    /// Its git mode: `0o100644`, `0o100755` or `0o120000`.
    pub mode: u32,
}

/// Compares two contents line by line, with `context` unchanged lines around each change.
pub fn diff(old: &[u8], new: &[u8], context: usize) -> FileDiff {
    if old == new {
        return FileDiff::default();
    }
    if super::is_binary(old) || super::is_binary(new) {
        return FileDiff { binary: true, ..FileDiff::default() };
    }
    let mut ids = HashMap::new();
    let mut old = Sequence::new(old, &mut ids);
    let mut new = Sequence::new(new, &mut ids);
    find_changes(&mut old, &mut new, ids.len());
    slide(&mut old, &mut new);
    slide(&mut new, &mut old);
    hunks(&old, &new, context)
}

/// Prints a whole patch of one entry from its contents; the content of a link is its target.
///
/// An entry that became another kind (a file that is now a link) is printed as removed and added, since a
/// patch cannot say it otherwise.
pub fn patch(old: Option<(Side<'_>, &[u8])>, new: Option<(Side<'_>, &[u8])>, context: usize) -> Vec<u8> {
    if let (Some(before), Some(after)) = (old, new)
        && (before.0.mode ^ after.0.mode) & 0o170_000 != 0
    {
        let mut out = patch(Some(before), None, context);
        out.extend(patch(None, Some(after), context));
        return out;
    }
    let bytes = |side: Option<(Side<'_>, &'_ [u8])>| side.map_or_else(Vec::new, |(_, bytes)| bytes.to_vec());
    let changes = diff(&bytes(old), &bytes(new), context);
    unified(old.map(|side| side.0), new.map(|side| side.0), &changes)
}

/// Prints a patch of one entry in git's format: created without `old`, deleted without `new`, renamed if
/// the paths differ. Empty if nothing differs. Both sides must be of one kind, else use [`patch`].
pub fn unified(old: Option<Side<'_>>, new: Option<Side<'_>>, changes: &FileDiff) -> Vec<u8> {
    let Some(any) = old.or(new) else { return Vec::new() };
    let (before, after) = (old.unwrap_or(any), new.unwrap_or(any));
    let renamed = before.path != after.path;
    if old.is_some() && new.is_some() && !renamed && before.mode == after.mode && changes.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::new();
    put(&mut out, &[b"diff --git ", &quoted("a/", before.path), b" ", &quoted("b/", after.path), b"\n"]);
    match (old, new) {
        (None, _) => put(&mut out, &[format!("new file mode {:06o}\n", after.mode).as_bytes()]),
        (_, None) => put(&mut out, &[format!("deleted file mode {:06o}\n", before.mode).as_bytes()]),
        _ if before.mode != after.mode => {
            let modes = format!("old mode {:06o}\nnew mode {:06o}\n", before.mode, after.mode);
            put(&mut out, &[modes.as_bytes()]);
        }
        _ => {}
    }
    if renamed {
        put(&mut out, &[b"rename from ", &quoted("", before.path), b"\nrename to ", &quoted("", after.path), b"\n"]);
    }
    let label = |side: Option<Side<'_>>, prefix: &str| match side {
        Some(side) => quoted(prefix, side.path),
        None => b"/dev/null".to_vec(),
    };
    if changes.binary {
        put(&mut out, &[b"Binary files ", &label(old, "a/"), b" and ", &label(new, "b/"), b" differ\n"]);
        return out;
    }
    if changes.hunks.is_empty() {
        // Without a line of text only this says that an empty file comes or goes; `patch` asks for it.
        match (old, new) {
            (None, Some(_)) => put(&mut out, &[b"index 0000000..e69de29\n"]),
            (Some(_), None) => put(&mut out, &[b"index e69de29..0000000\n"]),
            _ => {}
        }
        return out;
    }
    for (mark, side, prefix) in [(&b"--- "[..], old, "a/"), (b"+++ ", new, "b/")] {
        // A space would end the name for `patch`; git puts a tab behind it.
        let tab: &[u8] = if side.is_some_and(|side| side.path.as_bytes().contains(&b' ')) { b"\t" } else { b"" };
        put(&mut out, &[mark, &label(side, prefix), tab, b"\n"]);
    }
    for hunk in &changes.hunks {
        print_hunk(&mut out, hunk);
    }
    out
}

/// Prints the hunks alone, as they stand below the names of a patch.
pub fn print_hunks(changes: &FileDiff) -> Vec<u8> {
    let mut out = Vec::new();
    for hunk in &changes.hunks {
        print_hunk(&mut out, hunk);
    }
    out
}

fn print_hunk(out: &mut Vec<u8>, hunk: &Hunk) {
    let range = |start: usize, lines: usize| if lines == 1 { start.to_string() } else { format!("{start},{lines}") };
    let (old, new) = (range(hunk.old_start, hunk.old_lines), range(hunk.new_start, hunk.new_lines));
    put(out, &[format!("@@ -{old} +{new} @@\n").as_bytes()]);
    for line in &hunk.lines {
        out.push(match line.kind {
            LineKind::Context => b' ',
            LineKind::Add => b'+',
            LineKind::Remove => b'-',
        });
        out.extend_from_slice(&line.text);
        if !line.text.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

fn put(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Writes a name as git does: plain if it is plain, else in quotes with C escapes.
fn quoted(prefix: &str, path: &WsPath) -> Vec<u8> {
    let bytes = path.as_bytes();
    let unusual = |byte: &u8| *byte < 0x20 || *byte >= 0x7f || *byte == b'"' || *byte == b'\\';
    let mut out = Vec::with_capacity(bytes.len() + prefix.len() + 2);
    if !bytes.iter().any(unusual) {
        put(&mut out, &[prefix.as_bytes(), bytes]);
        return out;
    }
    put(&mut out, &[b"\"", prefix.as_bytes()]);
    for byte in bytes {
        let short = match byte {
            7 => b'a',
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            b'"' | b'\\' => *byte,
            _ if unusual(byte) => {
                put(&mut out, &[format!("\\{byte:03o}").as_bytes()]);
                continue;
            }
            _ => {
                out.push(*byte);
                continue;
            }
        };
        put(&mut out, &[b"\\", &[short]]);
    }
    out.push(b'"');
    out
}

/// One side: its lines, each as a small number, and which of them changed.
struct Sequence<'a> {
    lines: Vec<&'a [u8]>,
    ids: Vec<u32>,
    changed: Vec<bool>,
}

impl<'a> Sequence<'a> {
    fn new(content: &'a [u8], known: &mut HashMap<&'a [u8], u32>) -> Self {
        let lines: Vec<&[u8]> = super::lines(content).collect();
        let ids = lines
            .iter()
            .map(|line| {
                // More than 2^32 different lines do not fit into memory.
                let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                *known.entry(line).or_insert(next)
            })
            .collect();
        let changed = vec![false; lines.len()];
        Sequence { lines, ids, changed }
    }
}

fn find_changes(old: &mut Sequence<'_>, new: &mut Sequence<'_>, kinds: usize) {
    let prefix = old.ids.iter().zip(&new.ids).take_while(|(a, b)| a == b).count();
    let suffix = old.ids[prefix..].iter().rev().zip(new.ids[prefix..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut seen = vec![0_u8; kinds];
    for (sequence, bit) in [(&*old, 1), (&*new, 2)] {
        for id in &sequence.ids[prefix..sequence.ids.len() - suffix] {
            seen[*id as usize] |= bit;
        }
    }
    let shared = |sequence: &mut Sequence<'_>| -> Vec<usize> {
        let end = sequence.ids.len() - suffix;
        sequence.changed[prefix..end].fill(true);
        (prefix..end).filter(|at| seen[sequence.ids[*at] as usize] == 3).collect()
    };
    let (old_shared, new_shared) = (shared(old), shared(new));
    let old_ids: Vec<u32> = old_shared.iter().map(|at| old.ids[*at]).collect();
    let new_ids: Vec<u32> = new_shared.iter().map(|at| new.ids[*at]).collect();
    let deadline = Instant::now().checked_add(DEADLINE);
    for op in similar::capture_diff_slices_deadline(Algorithm::Myers, &old_ids, &new_ids, deadline) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            for step in 0..len {
                old.changed[old_shared[old_index + step]] = false;
                new.changed[new_shared[new_index + step]] = false;
            }
        }
    }
}

/// A run of changed lines, or the empty place between two unchanged ones.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
}

impl Group {
    fn first(changed: &[bool]) -> Self {
        Group { start: 0, end: run_end(changed, 0) }
    }

    fn next(&mut self, changed: &[bool]) -> bool {
        if self.end == changed.len() {
            return false;
        }
        self.start = self.end + 1;
        self.end = run_end(changed, self.start);
        true
    }

    fn previous(&mut self, changed: &[bool]) {
        self.end = self.start.saturating_sub(1);
        self.start = run_start(changed, self.end);
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn slide_up(&mut self, side: &mut Sequence<'_>) -> bool {
        if self.start == 0 || side.ids[self.start - 1] != side.ids[self.end - 1] {
            return false;
        }
        side.changed[self.start - 1] = true;
        side.changed[self.end - 1] = false;
        self.end -= 1;
        self.start = run_start(&side.changed, self.start - 1);
        true
    }

    fn slide_down(&mut self, side: &mut Sequence<'_>) -> bool {
        if self.end == side.ids.len() || side.ids[self.start] != side.ids[self.end] {
            return false;
        }
        side.changed[self.start] = false;
        side.changed[self.end] = true;
        self.start += 1;
        self.end = run_end(&side.changed, self.end + 1);
        true
    }
}

fn run_end(changed: &[bool], from: usize) -> usize {
    changed[from..].iter().position(|changed| !changed).map_or(changed.len(), |at| from + at)
}

fn run_start(changed: &[bool], end: usize) -> usize {
    changed[..end].iter().rposition(|changed| !changed).map_or(0, |at| at + 1)
}

/// Moves each run of changed lines of `side` to its best place: beside a change of `other` if it can reach
/// one, else down to the end. Runs that meet become one.
fn slide(side: &mut Sequence<'_>, other: &mut Sequence<'_>) {
    let mut group = Group::first(&side.changed);
    let mut opposite = Group::first(&other.changed);
    loop {
        if !group.is_empty() {
            let mut beside;
            let mut highest;
            loop {
                let size = group.end - group.start;
                beside = None;
                while group.slide_up(side) {
                    opposite.previous(&other.changed);
                }
                highest = group.end;
                if !opposite.is_empty() {
                    beside = Some(group.end);
                }
                while group.slide_down(side) {
                    opposite.next(&other.changed);
                    if !opposite.is_empty() {
                        beside = Some(group.end);
                    }
                }
                if group.end - group.start == size {
                    break;
                }
            }
            if group.end != highest && beside.is_some() {
                while opposite.is_empty() && group.slide_up(side) {
                    opposite.previous(&other.changed);
                }
            }
        }
        if !group.next(&side.changed) {
            return;
        }
        opposite.next(&other.changed);
    }
}

fn hunks(old: &Sequence<'_>, new: &Sequence<'_>, context: usize) -> FileDiff {
    struct Change {
        old: (usize, usize),
        new: (usize, usize),
    }
    let mut changes: Vec<Change> = Vec::new();
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old.lines.len() || at_new < new.lines.len() {
        let (old_end, new_end) = (run_end(&old.changed, at_old), run_end(&new.changed, at_new));
        if old_end > at_old || new_end > at_new {
            changes.push(Change { old: (at_old, old_end), new: (at_new, new_end) });
        }
        (at_old, at_new) = (old_end + 1, new_end + 1);
        if old_end >= old.lines.len() && new_end >= new.lines.len() {
            break;
        }
    }
    let mut result = FileDiff::default();
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        let count =
            1 + rest.windows(2).take_while(|pair| pair[1].old.0 - pair[0].old.1 <= context.saturating_mul(2)).count();
        let (these, later) = rest.split_at(count);
        rest = later;
        let before = context.min(first.old.0);
        let mut lines = Vec::new();
        let mut add = |kind, texts: &[&[u8]]| lines.extend(texts.iter().map(|text| Line { kind, text: text.to_vec() }));
        let (start_old, start_new) = (first.old.0 - before, first.new.0 - before);
        let (mut end_old, mut end_new) = (start_old, start_new);
        for change in these {
            add(LineKind::Context, &old.lines[end_old..change.old.0]);
            add(LineKind::Remove, &old.lines[change.old.0..change.old.1]);
            add(LineKind::Add, &new.lines[change.new.0..change.new.1]);
            result.deletions += change.old.1 - change.old.0;
            result.additions += change.new.1 - change.new.0;
            (end_old, end_new) = (change.old.1, change.new.1);
        }
        let after = context.min(old.lines.len() - end_old);
        add(LineKind::Context, &old.lines[end_old..end_old + after]);
        let (old_lines, new_lines) = (end_old + after - start_old, end_new + after - start_new);
        result.hunks.push(Hunk {
            old_start: start_old + usize::from(old_lines > 0),
            old_lines,
            new_start: start_new + usize::from(new_lines > 0),
            new_lines,
            lines,
        });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};

    fn run(dir: &Path, program: &str, arguments: &[&str], input: &[u8]) -> (bool, Vec<u8>, String) {
        use std::io::Write as _;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn write(root: &Path, path: &WsPath, bytes: &[u8]) -> std::path::PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        let full = root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(&full, bytes).unwrap();
        full
    }

    /// Applies the patch with git and with patch and compares.
    fn applies(name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>, with_patch: bool) {
        let path = WsPath::new(name).unwrap();
        let side = Side { path: &path, mode: 0o100_644 };
        let text = patch(old.map(|bytes| (side, bytes)), new.map(|bytes| (side, bytes)), CONTEXT);
        if old == new {
            assert!(text.is_empty());
            return;
        }
        let programs: &[(&str, &[&str])] =
            &[("git", &["apply", "-p1", "--whitespace=nowarn"]), ("patch", &["-p1", "-s", "--binary"])];
        for (program, arguments) in &programs[..=usize::from(with_patch)] {
            let root = tempfile::tempdir().unwrap();
            let full = write(root.path(), &path, old.unwrap_or_default());
            if old.is_none() {
                fs::remove_file(&full).unwrap();
            }
            let (ok, out, error) = run(root.path(), program, arguments, &text);
            let shown = String::from_utf8_lossy(&text);
            assert!(ok, "{program}: {error}{}\n{shown}", String::from_utf8_lossy(&out));
            assert_eq!(fs::read(&full).ok().as_deref(), new, "{program}\n{shown}");
        }
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        let line = proptest::sample::select(vec![
            &b"a\n"[..],
            &b"b\n"[..],
            &b"c\r\n"[..],
            &b"\n"[..],
            &b"\x0c\n"[..],
            "é\u{2028}\n".as_bytes(),
            &b"\xff\n"[..],
            &b"x\ry\n"[..],
            &b"-- a\n"[..],
            &b"++ b\n"[..],
            &b"\r\n"[..],
        ]);
        (
            prop::collection::vec(line, 0..14),
            prop::option::of(proptest::sample::select(vec![&b"end"[..], &b"a"[..], &b"\r"[..], &b"\\"[..]])),
        )
            .prop_map(|(lines, last)| [lines.concat(), last.unwrap_or_default().to_vec()].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]
        // rows: S51
        #[test]
        fn every_patch_applies(old in content(), new in content()) {
            applies(b"dir/file.txt", Some(&old), Some(&new), true);
        }

        // rows: S51
        #[test]
        fn hunks_are_gits(old in content(), new in content()) {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join("old"), &old).unwrap();
            fs::write(root.path().join("new"), &new).unwrap();
            let arguments = ["diff", "--no-index", "--no-indent-heuristic", "--minimal", "--no-color", "old", "new"];
            let (_, out, _) = run(root.path(), "git", &arguments, b"");
            let ours = diff(&old, &new, CONTEXT);
            let added = |text: &[u8], mark: u8| super::super::lines(text).filter(|line| line.first() == Some(&mark)).count();
            let theirs = (added(&out, b'+').saturating_sub(1), added(&out, b'-').saturating_sub(1));
            // Git gives up on a line that is in the other file too often, so ours may be smaller.
            let ours = (ours.additions, ours.deletions);
            prop_assert!(ours.0 <= theirs.0 && ours.1 <= theirs.1, "{ours:?} {theirs:?}");
        }
    }

    proptest! {
        #[test]
        fn hunks_rebuild_the_new_content(old in content(), new in content(), context in 0_usize..5) {
            let changes = diff(&old, &new, context);
            let lines: Vec<&[u8]> = super::super::lines(&old).collect();
            let mut built = Vec::new();
            let mut at = 0;
            for hunk in &changes.hunks {
                let start = hunk.old_start - usize::from(hunk.old_lines > 0);
                built.extend(lines[at..start].concat());
                at = start + hunk.old_lines;
                for line in &hunk.lines {
                    if line.kind != LineKind::Remove {
                        built.extend_from_slice(&line.text);
                    }
                }
            }
            built.extend(lines[at..].concat());
            prop_assert_eq!(built, new);
        }
    }

    // rows: S51
    #[test]
    fn simple_hunks_are_byte_equal_to_gits() {
        let long: Vec<u8> = (0..60).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let edited = String::from_utf8(long.clone()).unwrap().replace("line 7\n", "x\ny\n").replace("line 30\n", "");
        for (old, new) in [
            (&b"a\nb\nc\n"[..], &b"a\nx\nc\n"[..]),
            (b"a\nb\n", b"a\nb"),
            (b"", b"a\n"),
            (b"a\n", b""),
            (b"f\n{\n}\n", b"f\n{\n}\ng\n{\n}\n"),
            (b"a\na\na\n", b"a\na\n"),
            (&long, edited.as_bytes()),
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join("o"), old).unwrap();
            fs::write(root.path().join("n"), new).unwrap();
            let (_, out, _) = run(root.path(), "git", &["diff", "--no-index", "--no-indent-heuristic", "o", "n"], b"");
            let at = memchr::memmem::find(&out, b"\n@@").unwrap() + 1;
            // git names the function behind the second @@; that is decoration.
            let theirs: Vec<u8> = super::super::lines(&out[at..])
                .flat_map(|line| match memchr::memmem::find(line, b" @@ ") {
                    Some(end) if line.starts_with(b"@@") => [&line[..end + 3], b"\n"].concat(),
                    _ => line.to_vec(),
                })
                .collect();
            let ours = print_hunks(&diff(old, new, CONTEXT));
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
        }
    }

    // rows: S51, cases D01 and D12
    #[test]
    fn case_d01_unusual_names_and_empty_files_apply() {
        for name in [
            "plain",
            "with space",
            " lead",
            "trail ",
            "公共.cpp",
            "a\tb",
            "a\"b",
            "a\\b",
            "a\nb",
            "-rf",
            "x/é/y",
            "a\x01\x7fb",
            "a\u{b}b",
        ] {
            // `patch` drops a space at the end of any name, git's own patches included.
            let with_patch = !name.ends_with(' ');
            applies(name.as_bytes(), Some(b"1\n2\n"), Some(b"1\n3\n"), with_patch);
            applies(name.as_bytes(), None, Some(b""), false);
            applies(name.as_bytes(), Some(b""), None, false);
            applies(name.as_bytes(), None, Some(b"x"), with_patch);
            applies(name.as_bytes(), Some(b"x\n"), None, with_patch);
        }
        applies(b"\xff\xfe", Some(b"1\n2\n"), Some(b"1\n3\n"), true);
    }

    // rows: S51
    #[test]
    fn modes_renames_and_links_are_valid_patches() {
        use std::os::unix::fs::PermissionsExt as _;
        let (a, b) = (WsPath::new("a b").unwrap(), WsPath::new("é").unwrap());
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &a, b"1\n2\n");
        let plain = Side { path: &a, mode: 0o100_644 };
        let text = patch(Some((plain, b"1\n2\n")), Some((Side { path: &a, mode: 0o100_755 }, b"1\n2\n")), 3);
        assert!(run(root.path(), "git", &["apply"], &text).0);
        assert_eq!(fs::metadata(root.path().join("a b")).unwrap().permissions().mode() & 0o111, 0o111);
        let text = patch(
            Some((Side { path: &a, mode: 0o100_755 }, b"1\n2\n")),
            Some((Side { path: &b, mode: 0o100_755 }, b"1\n3\n")),
            3,
        );
        assert!(run(root.path(), "git", &["apply"], &text).0, "{}", String::from_utf8_lossy(&text));
        assert_eq!(fs::read(root.path().join("é")).unwrap(), b"1\n3\n");
        let link = Side { path: &b, mode: 0o120_000 };
        let text = patch(Some((Side { path: &b, mode: 0o100_755 }, b"1\n3\n")), Some((link, b"a b")), 3);
        let (ok, _, error) = run(root.path(), "git", &["apply"], &text);
        assert!(ok, "{error}{}", String::from_utf8_lossy(&text));
        assert_eq!(fs::read_link(root.path().join("é")).unwrap(), Path::new("a b"));
        let changes = diff(b"a\0", b"b", 3);
        assert!(changes.binary && !changes.is_empty());
        assert!(unified(Some(link), Some(link), &changes).ends_with(b"differ\n"));
    }

    #[test]
    fn nothing_in_common_and_pathological_input_end_in_time() {
        let numbered =
            |word: &str| (0..100_000).flat_map(|n| format!("{word} {n}\n").into_bytes()).collect::<Vec<u8>>();
        let start = Instant::now();
        let changes = diff(&numbered("old"), &numbered("new"), 3);
        assert_eq!((changes.additions, changes.deletions), (100_000, 100_000));
        let noise = |seed: u64| {
            let mut state = seed;
            (0..100_000)
                .flat_map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    format!("{}\n", (state >> 33) % 50).into_bytes()
                })
                .collect::<Vec<u8>>()
        };
        diff(&noise(1), &noise(2), 3);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
