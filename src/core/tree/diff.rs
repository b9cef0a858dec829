//! What differs between two trees; cost follows the change, not the size.
//!
//! Every pair of directories that is the same node, or has the same key, is skipped unread. The order
//! is that of a walk: entries sorted by name within a directory, a directory before what it holds.

use crate::core::error::Result;
use crate::core::path::WsPath;
use crate::core::tree::{Entry, Tree};

/// One path that differs. In a difference a directory stands for itself alone: what it holds has changes of its
/// own. In a record of one call it may stand for all it holds; see [`expand`].
#[derive(Debug, Clone)]
pub struct Change {
    /// Where.
    pub path: WsPath,
    /// Where the entry was before, if it was moved or copied here.
    pub source: Option<WsPath>,
    /// What stood there before.
    pub before: Option<Entry>,
    /// What stands there after.
    pub after: Option<Entry>,
}

impl Change {
    /// Names what happened with one of the words users see.
    pub fn effect(&self) -> &'static str {
        match (&self.before, &self.after, &self.source) {
            (_, Some(_), Some(_)) => "renamed",
            (None, Some(_), _) => "created",
            (Some(_), None, _) => "deleted",
            _ => "modified",
        }
    }
}

/// Lists what turns `old` into `new`.
pub fn diff(old: &Tree, new: &Tree) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    compare(&WsPath::root(), old, new, &mut changes)?;
    Ok(changes)
}

fn compare(at: &WsPath, old: &Tree, new: &Tree, out: &mut Vec<Change>) -> Result<()> {
    if old.is_same(new) {
        return Ok(());
    }
    let (old, new) = (old.entries()?, new.entries()?);
    if old.ptr_eq(new) {
        return Ok(());
    }
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let before = if order.is_le() { left.next() } else { None };
        let after = if order.is_ge() { right.next() } else { None };
        let Some((name, _)) = before.or(after) else { return Ok(()) };
        let (before, after) = (before.map(|(_, entry)| entry), after.map(|(_, entry)| entry));
        // PERF: nearly all entries of a directory that changed are the same; for those no path is made.
        if !unchanged(before, after)? {
            entry(&at.join(name.as_bytes()), before, after, out)?;
        }
    }
}

/// Tells whether both are the same, with all below them.
pub fn unchanged(before: Option<&Entry>, after: Option<&Entry>) -> Result<bool> {
    Ok(match (before, after) {
        (Some(Entry::Directory { tree: a, mode: m }), Some(Entry::Directory { tree: b, mode: n })) => {
            m == n && a.is_same(b)
        }
        (Some(before), Some(after)) => before.same(after)?,
        _ => false,
    })
}

fn entry(path: &WsPath, before: Option<&Entry>, after: Option<&Entry>, out: &mut Vec<Change>) -> Result<()> {
    let same = match (before, after) {
        (Some(before), Some(after)) => before.same(after)?,
        _ => false,
    };
    if !same {
        out.push(Change { path: path.clone(), source: None, before: alone(before), after: alone(after) });
    }
    let empty = Tree::default();
    let (old, new) = (subtree(before), subtree(after));
    if old.is_some() || new.is_some() {
        compare(path, old.unwrap_or(&empty), new.unwrap_or(&empty), out)?;
    }
    Ok(())
}

/// A directory in a list of changes stands for itself: what it holds has changes of its own.
fn alone(entry: Option<&Entry>) -> Option<Entry> {
    match entry {
        Some(Entry::Directory { mode, .. }) => Some(Entry::Directory { tree: Tree::default(), mode: *mode }),
        entry => entry.cloned(),
    }
}

fn subtree(entry: Option<&Entry>) -> Option<&Tree> {
    match entry {
        Some(Entry::Directory { tree, .. }) => Some(tree),
        _ => None,
    }
}

/// Turns changes into those that take them back, in the same order: a directory before what it holds.
pub fn inverse(changes: &[Change]) -> Vec<Change> {
    let turned =
        |change: &Change| Change { before: change.after.clone(), after: change.before.clone(), ..change.clone() };
    changes.iter().map(turned).collect()
}

/// Expands one change of a whole directory into the changes of all it holds, itself first.
pub fn expand(change: &Change) -> Result<Vec<Change>> {
    let mut out = Vec::new();
    entry(&change.path, change.before.as_ref(), change.after.as_ref(), &mut out)?;
    Ok(out)
}

/// Joins a deletion and a creation of the same bytes into one rename, as lineage and patches show it.
///
/// Only exact matches of files that are not empty count, each source once, in path order: a guess by
/// similarity would make lineage depend on a threshold.
pub fn with_renames(changes: Vec<Change>) -> Result<Vec<Change>> {
    use crate::core::content::ObjectId;
    use std::collections::{HashMap, VecDeque};
    let file_id = |entry: &Option<Entry>| -> Result<Option<ObjectId>> {
        match entry {
            Some(Entry::File { content, .. }) if !content.is_empty() => Ok(Some(content.id()?)),
            _ => Ok(None),
        }
    };
    let created_lens: std::collections::HashSet<u64> = changes
        .iter()
        .filter(|change| change.before.is_none())
        .filter_map(|change| change.after.as_ref().map(Entry::len))
        .collect();
    let mut gone: HashMap<ObjectId, VecDeque<usize>> = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        // Hash only what could match: most deletions have no creation of the same length beside them.
        if change.after.is_none()
            && change.before.as_ref().is_some_and(|entry| created_lens.contains(&entry.len()))
            && let Some(id) = file_id(&change.before)?
        {
            gone.entry(id).or_default().push_back(at);
        }
    }
    if gone.is_empty() {
        return Ok(changes);
    }
    let mut taken = vec![None; changes.len()];
    let mut used = vec![false; changes.len()];
    for (at, change) in changes.iter().enumerate() {
        if change.before.is_none()
            && let Some(id) = file_id(&change.after)?
            && let Some(source) = gone.get_mut(&id).and_then(VecDeque::pop_front)
        {
            taken[at] = Some(source);
            used[source] = true;
        }
    }
    Ok(changes
        .iter()
        .enumerate()
        .filter(|(at, _)| !used[*at])
        .map(|(at, change)| match taken[at] {
            Some(source) => Change {
                source: Some(changes[source].path.clone()),
                before: changes[source].before.clone(),
                ..change.clone()
            },
            None => change.clone(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tree::{DIRECTORY_MODE, FILE_MODE};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn tree_of(files: &BTreeMap<String, Vec<u8>>) -> Tree {
        let mut tree = Tree::default();
        for (path, bytes) in files {
            let path = WsPath::new(path).unwrap();
            let mut parent = WsPath::root();
            for name in path.parent().names() {
                parent = parent.join(name);
                if tree.get(&parent).unwrap().is_none() {
                    tree.insert(&parent, Entry::Directory { tree: Tree::default(), mode: DIRECTORY_MODE }).unwrap();
                }
            }
            tree.insert(&path, Entry::file(bytes, FILE_MODE)).unwrap();
        }
        tree
    }

    fn files() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
        prop::collection::btree_map("[ab]/[cd]/[ef]", prop::collection::vec(0_u8..3, 0..3), 0..6)
    }

    proptest! {
        #[test]
        fn applying_a_diff_gives_the_new_tree(old in files(), new in files()) {
            let (old, new) = (tree_of(&old), tree_of(&new));
            let mut patched = old.clone();
            let changes = diff(&old, &new).unwrap();
            for change in changes.iter().rev().filter(|change| change.after.is_none()) {
                patched.remove(&change.path).unwrap();
            }
            for change in &changes {
                match &change.after {
                    Some(Entry::Directory { mode, .. }) =>
                        patched.insert(&change.path, Entry::Directory { tree: Tree::default(), mode: *mode }).unwrap(),
                    Some(entry) => patched.insert(&change.path, entry.clone()).unwrap(),
                    None => {}
                }
            }
            prop_assert!(diff(&patched, &new).unwrap().is_empty());
            prop_assert!(diff(&new, &new.clone()).unwrap().is_empty());
        }
    }

    #[test]
    fn a_moved_file_is_one_rename() {
        let old = tree_of(&[("a/c/e".to_owned(), b"1".to_vec())].into());
        let new = tree_of(&[("a/c/f".to_owned(), b"1".to_vec())].into());
        let changes = with_renames(diff(&old, &new).unwrap()).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(
            (changes[0].effect(), changes[0].source.as_ref().unwrap().to_string().as_str()),
            ("renamed", "a/c/e")
        );
    }
}
