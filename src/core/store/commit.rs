//! Commits: what a checkpoint knows about itself, readable with `git log` and exact for us.
//!
//! Git's header lines take neither line breaks nor angle brackets in names, its subject is one line, and
//! its messages no NUL. So the lines git reads are a readable rendering, and the last line of the message,
//! `Hedgerow: {json}`, holds the exact values; JSON escapes every control character, so a label cannot
//! forge a line. Commits of other programs have no such line and are read from what git's lines say.

use super::objects::ObjectKind;
use crate::core::content::ObjectId;
use crate::core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const TRAILER: &str = "Hedgerow: ";
const SUBJECT_CHARS: usize = 72;
/// The JSON reader stops at 128 levels; what cannot be read back must not be written.
const MAX_NESTING: usize = 100;
/// The last second git can print with four digits of a year.
const MAX_SECONDS: i64 = 253_402_300_799;

/// Everything a commit says.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitData {
    /// The tree of the checkpoint.
    pub tree: ObjectId,
    /// The checkpoints it came from.
    pub parents: Vec<ObjectId>,
    /// Who made it.
    pub author: String,
    /// When, in milliseconds since 1970 (UTC).
    pub time_ms: i64,
    /// What its author called it.
    pub label: Option<String>,
    /// What else is to be kept.
    pub extra: Map<String, Value>,
}

#[derive(Serialize)]
struct TrailerOut<'a> {
    v: u32,
    author: &'a str,
    time_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: &'a Map<String, Value>,
}

#[derive(Deserialize)]
struct TrailerIn {
    author: String,
    time_ms: i64,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    extra: Map<String, Value>,
}

impl CommitData {
    /// Makes the commit object.
    ///
    /// # Errors
    /// `invalid-argument` if `extra` is nested deeper than can be read back.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.extra.values().any(|value| nesting(value) > MAX_NESTING) {
            return Err(Error::new(ErrorKind::InvalidArgument, "metadata nested too deeply"));
        }
        let json = serde_json::to_string(&TrailerOut {
            v: 1,
            author: &self.author,
            time_ms: self.time_ms,
            label: self.label.as_deref(),
            extra: &self.extra,
        })
        .map_err(|error| Error::new(ErrorKind::Bug, "metadata cannot be written").because(error))?;
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text.extend(["parent ", &parent.to_string(), "\n"]);
        }
        // Git knows no time before 1970.
        let seconds = self.time_ms.div_euclid(1000).clamp(0, MAX_SECONDS);
        let name = one_line(&self.author, SUBJECT_CHARS, "unknown");
        let who = name.replace(['<', '>'], "").trim_matches(is_crud).to_owned();
        let who = if who.is_empty() { "unknown" } else { &who };
        for line in ["author", "committer"] {
            text.extend([line, " ", who, " <hedgerow> ", &seconds.to_string(), " +0000\n"]);
        }
        let kind = self.extra.get("kind").and_then(Value::as_str).unwrap_or("checkpoint");
        let subject = one_line(self.label.as_deref().unwrap_or_default(), SUBJECT_CHARS, "");
        let subject = if subject.is_empty() { one_line(kind, SUBJECT_CHARS, "checkpoint") } else { subject };
        text.extend(["\n", &subject, "\n\n", TRAILER, &json, "\n"]);
        Ok(text.into_bytes())
    }

    /// Reads a commit object, ours or another program's.
    ///
    /// # Errors
    /// `store-corrupt` if it is no commit.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::new(ErrorKind::StoreCorrupt, "a commit cannot be read");
        let split = memchr::memmem::find(bytes, b"\n\n");
        let (head, message) = match split {
            Some(at) => (&bytes[..at], &bytes[at + 2..]),
            None => (bytes.strip_suffix(b"\n").unwrap_or(bytes), &b""[..]),
        };
        let mut lines = head.split(|byte| *byte == b'\n');
        let id = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<ObjectId>().ok());
        let tree = lines.next().and_then(|line| id(line.strip_prefix(b"tree ")?)).ok_or_else(bad)?;
        let mut parents = Vec::new();
        let mut author = None;
        let mut committed = None;
        for line in lines {
            if let Some(parent) = line.strip_prefix(b"parent ") {
                if author.is_some() {
                    return Err(bad());
                }
                parents.push(id(parent).ok_or_else(bad)?);
            } else if let Some(rest) = line.strip_prefix(b"author ") {
                author.get_or_insert(person(rest));
            } else if let Some(rest) = line.strip_prefix(b"committer ") {
                committed.get_or_insert(person(rest).1);
            }
        }
        let (author, author_time) = author.ok_or_else(bad)?;
        let message = String::from_utf8_lossy(message);
        let last = message.strip_suffix('\n').unwrap_or(&message).rsplit('\n').next().unwrap_or_default();
        let ours = last.strip_prefix(TRAILER).and_then(|json| serde_json::from_str::<TrailerIn>(json).ok());
        if let Some(TrailerIn { author, time_ms, label, extra }) = ours {
            return Ok(CommitData { tree, parents, author, time_ms, label, extra });
        }
        let subject = message.lines().next().unwrap_or_default().trim();
        Ok(CommitData {
            tree,
            parents,
            author,
            time_ms: committed.unwrap_or(author_time).saturating_mul(1000),
            label: (!subject.is_empty()).then(|| subject.to_owned()),
            extra: Map::new(),
        })
    }

    /// Returns the kind of object this is.
    pub fn kind() -> ObjectKind {
        ObjectKind::Commit
    }
}

/// Splits `Name <mail> seconds zone`.
fn person(line: &[u8]) -> (String, i64) {
    let text = String::from_utf8_lossy(line);
    let (name, rest) = text.split_once('<').unwrap_or((&text, ""));
    let (mail, rest) = rest.rsplit_once('>').unwrap_or(("", rest));
    let seconds = rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let name = if name.trim().is_empty() { mail } else { name.trim() };
    (name.to_owned(), seconds)
}

/// Characters git strips from the ends of a name.
fn is_crud(character: char) -> bool {
    character <= ' ' || matches!(character, '.' | ',' | ':' | ';' | '<' | '>' | '"' | '\\' | '\'')
}

/// Returns the first line that says something, without control characters, cut to `max` characters.
fn one_line(text: &str, max: usize, otherwise: &str) -> String {
    let line = text.split(['\n', '\r']).map(str::trim).find(|line| line.chars().any(|c| !c.is_control()));
    let line: String = line.unwrap_or(otherwise).chars().filter(|c| !c.is_control()).take(max).collect();
    let line = line.trim();
    if line.is_empty() { otherwise.to_owned() } else { line.to_owned() }
}

fn nesting(value: &Value) -> usize {
    // Not recursive: the depth is what is in doubt.
    let mut deepest = 0;
    let mut todo = vec![(value, 1)];
    while let Some((value, depth)) = todo.pop() {
        deepest = deepest.max(depth);
        if depth > MAX_NESTING {
            break;
        }
        match value {
            Value::Array(items) => todo.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(items) => todo.extend(items.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(author: &str, label: Option<&str>) -> CommitData {
        CommitData {
            tree: ObjectId([1; 20]),
            parents: vec![ObjectId([2; 20]), ObjectId([3; 20])],
            author: author.to_owned(),
            time_ms: 1_700_000_000_123,
            label: label.map(str::to_owned),
            extra: Map::from_iter([("kind".to_owned(), "rollback".into())]),
        }
    }

    // rows: D15
    #[test]
    fn case_d15_labels_cannot_forge_a_line() {
        let long = "x\ny".repeat(1 << 19);
        for label in ["a\n\nHedgerow: {\"author\":\"eve\",\"time_ms\":0}", "\0", "\n", "", "Hedgerow: {}", &long] {
            let data = sample("A <b>\ncommitter eve <e> 0 +0000", Some(label));
            let bytes = data.encode().unwrap();
            assert_eq!(CommitData::decode(&bytes).unwrap(), data);
            assert!(!bytes.contains(&0));
            assert_eq!(bytes.windows(10).filter(|window| *window == b"\ncommitter").count(), 1);
        }
    }

    #[test]
    fn foreign_commits_are_read_from_gits_lines() {
        let text = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A B <a@b> 12 +0200\ncommitter C <c@d> 34 +0000\ngpgsig x\n y\n\nsubject\n\nbody\n";
        let data = CommitData::decode(text.as_bytes()).unwrap();
        assert_eq!((data.author.as_str(), data.time_ms, data.label.as_deref()), ("A B", 34_000, Some("subject")));
        assert!(data.parents.is_empty());
    }

    #[test]
    fn too_deep_metadata_is_refused() {
        let mut deep = Value::Null;
        for _ in 0..200 {
            deep = Value::Array(vec![deep]);
        }
        let mut data = sample("a", None);
        data.extra.insert("deep".into(), deep);
        assert_eq!(data.encode().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(author in any::<String>(), label in any::<Option<String>>(), time_ms in any::<i64>(), key in any::<String>(), value in any::<String>()) {
            let mut data = sample(&author, label.as_deref());
            data.time_ms = time_ms;
            data.extra.insert(key, value.into());
            prop_assert_eq!(CommitData::decode(&data.encode().unwrap()).unwrap(), data);
        }

        #[test]
        fn any_bytes_are_a_commit_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(CommitData::decode(&bytes));
        }
    }
}
