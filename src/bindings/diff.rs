//! What differs between two states.

use super::call::{How, Later, run};
use super::convert::{PathArg, Whole, plain};
use crate::core::content::ObjectId;
use crate::core::error::Result;
use crate::core::path::WsPath;
use crate::core::tree::diff::Change;
use crate::core::tree::{Entry, Kind};
use crate::core::workspace::DiffResult;
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// Two trees and what differs; contents are read only when a text is asked for.
#[pyclass(name = "Diff", module = "hedgerow._native", frozen)]
pub(crate) struct PyDiff(pub(crate) Arc<DiffResult>);

/// One change as Python sees it.
#[derive(Serialize)]
pub(crate) struct PlainChange {
    path: WsPath,
    source: Option<WsPath>,
    effect: &'static str,
    kind: Option<Kind>,
    old_mode: Option<u32>,
    new_mode: Option<u32>,
    old_id: Option<ObjectId>,
    new_id: Option<ObjectId>,
    old_size: Option<u64>,
    new_size: Option<u64>,
}

fn id(entry: Option<&Entry>) -> Result<Option<ObjectId>> {
    match entry {
        Some(Entry::File { content, .. }) => content.id().map(Some),
        Some(Entry::Symlink { target }) => Ok(Some(ObjectId::hash("blob", target))),
        _ => Ok(None),
    }
}

pub(crate) fn plain_changes(changes: &[Change]) -> Result<Vec<PlainChange>> {
    changes
        .iter()
        .map(|change| {
            let (old, new) = (change.before.as_ref(), change.after.as_ref());
            Ok(PlainChange {
                path: change.path.clone(),
                source: change.source.clone(),
                effect: change.effect(),
                kind: new.or(old).map(Entry::kind),
                old_mode: old.map(Entry::mode),
                new_mode: new.map(Entry::mode),
                old_id: id(old)?,
                new_id: id(new)?,
                old_size: old.map(Entry::len),
                new_size: new.map(Entry::len),
            })
        })
        .collect()
}

#[pymethods]
impl PyDiff {
    fn changes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let result = Arc::clone(&self.0);
        run(py, How::default(), move |_| plain_changes(&result.changes), |py, changes| plain(py, &changes))
    }

    #[pyo3(signature = (*, paths=None, context=Whole::new(3), max_lines=None, later=None))]
    fn unified(
        &self,
        py: Python<'_>,
        paths: Option<Vec<PathArg>>,
        context: Whole<usize>,
        max_lines: Option<Whole<usize>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let (context, max_lines) = (context.get(), max_lines.map(Whole::get));
        let result = Arc::clone(&self.0);
        run(
            py,
            How::later(later),
            move |work| {
                let paths = match paths {
                    Some(paths) => Some(paths.iter().map(|path| WsPath::new(&path.0)).collect::<Result<Vec<_>>>()?),
                    None => None,
                };
                result.patch(paths.as_deref(), context, max_lines, work)
            },
            |py, patch| plain(py, &patch),
        )
    }
}
