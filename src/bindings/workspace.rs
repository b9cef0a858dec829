//! The workspace as Python reaches it. Documentation and defaults stand in `hedgerow.Workspace`.

use super::call::{How, Lane, Later, block, quick, run};
use super::convert::{
    PathArg, TextArg, Whole, bytes, bytes_to_str, nothing, number, object, path_to_py, plain, plain_list, to_py_err,
};
use super::diff::{PlainChange, PyDiff, plain_changes};
use super::lease::PyTurn;
use super::reader::PyReader;
use crate::core::cancel::Work;
use crate::core::content::{Content, ObjectId};
use crate::core::error::{Error, ErrorKind, Result};
use crate::core::fs::ResolverChoice;
use crate::core::path::WsPath;
use crate::core::store::checkpoint::Checkpoint;
use crate::core::store::record::{MutationKind, Record, Status};
use crate::core::tree::diff::{Change, expand};
use crate::core::tree::ignore::IgnoreRules;
use crate::core::tree::{Entry, Kind};
use crate::core::workspace::{
    Asker, EditOptions, OpenOptions, Options, SearchOptions, Track, TransferOptions, Workspace, WriteOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyDict, PyString};
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A jailed tree of files whose past is kept.
#[pyclass(name = "Workspace", module = "hedgerow._native", frozen)]
pub(crate) struct PyWorkspace {
    core: Workspace,
    lane: Lane,
}

fn ignore_rules(py: Python<'_>, ignore: Option<Bound<'_, PyAny>>) -> PyResult<IgnoreRules> {
    let Some(ignore) = ignore else { return Ok(IgnoreRules::none()) };
    if let Ok(word) = ignore.cast::<PyString>() {
        return match word.to_str()? {
            "gitignore" => Ok(IgnoreRules::gitignore()),
            _ => Err(PyValueError::new_err("ignore must be None, \"gitignore\" or a list of patterns")),
        };
    }
    let patterns: Vec<PathArg> = ignore.extract()?;
    let patterns: Vec<Vec<u8>> = patterns.into_iter().map(|pattern| pattern.0).collect();
    IgnoreRules::patterns(&patterns).map_err(|error| to_py_err(py, &error))
}

fn options(
    py: Python<'_>,
    store: Option<PathBuf>,
    id: Option<String>,
    track: &str,
    max_diff_bytes: Option<u64>,
    ignore: Option<Bound<'_, PyAny>>,
) -> PyResult<Options> {
    let track = match track {
        "full" => Track::Full,
        "paths" => Track::Paths,
        "off" => Track::Off,
        _ => return Err(PyValueError::new_err("track must be \"full\", \"paths\" or \"off\"")),
    };
    Ok(Options { store, id, track, max_diff_bytes, ignore: ignore_rules(py, ignore)? })
}

fn range(offset: u64, length: Option<u64>) -> Option<Range<u64>> {
    match (offset, length) {
        (0, None) => None,
        (offset, length) => Some(offset..length.map_or(u64::MAX, |length| offset.saturating_add(length))),
    }
}

fn parse_id(text: Option<&str>) -> Result<Option<ObjectId>> {
    text.map(str::parse).transpose()
}

/// Text of a file, or an error that says where it stops being text.
///
/// PERF: checked once, by Python's own decoder.
fn text(py: Python<'_>, bytes: &[u8], path: &[u8]) -> PyResult<Py<PyAny>> {
    let error = match PyString::from_bytes(py, bytes) {
        Ok(text) => return Ok(text.into_any().unbind()),
        Err(error) => error,
    };
    let Err(wrong) = std::str::from_utf8(bytes) else { return Err(error) };
    let mut error = Error::new(ErrorKind::NotUtf8, format!("not valid UTF-8 at byte {}", wrong.valid_up_to()));
    if let Ok(path) = WsPath::new(path) {
        error = error.at(&path);
    }
    Err(to_py_err(py, &error))
}

#[derive(Serialize)]
struct PlainRecord {
    sequence: u64,
    time: i64,
    kind: MutationKind,
    author: String,
    status: Status,
    source: Option<WsPath>,
    checkpoint: Option<ObjectId>,
    paths: Vec<WsPath>,
    changes: Vec<PlainRecorded>,
}

#[derive(Serialize)]
struct PlainRecorded {
    path: WsPath,
    real_path: Option<WsPath>,
    source: Option<WsPath>,
    effect: &'static str,
    kind: Option<Kind>,
    before_id: Option<ObjectId>,
    after_id: Option<ObjectId>,
    before_size: Option<u64>,
    after_size: Option<u64>,
    before_mode: Option<u32>,
    after_mode: Option<u32>,
    has_content: bool,
}

/// The id of recorded content; `None` where the tracking mode did not keep it.
fn recorded_id(entry: Option<&Entry>) -> Result<Option<ObjectId>> {
    match entry {
        Some(Entry::File { content, .. }) => match content.id() {
            Ok(id) => Ok(Some(id)),
            Err(error) if error.kind() == ErrorKind::NotSupported => Ok(None),
            Err(error) => Err(error),
        },
        Some(Entry::Symlink { target }) => Ok(Some(ObjectId::hash("blob", target))),
        _ => Ok(None),
    }
}

fn plain_record(record: &Record) -> Result<PlainRecord> {
    let mut changes = Vec::new();
    for whole in &record.changes {
        for change in expand(whole)? {
            let moved = change.path == whole.path;
            changes.push(plain_recorded(
                record.kind,
                Change { source: whole.source.clone().filter(|_| moved), ..change },
            )?);
        }
        if changes.is_empty() || changes.last().is_some_and(|last| !last.path.starts_with(&whole.path)) {
            // The same before and after: nothing to expand, but it happened.
            changes.push(plain_recorded(record.kind, whole.clone())?);
        }
    }
    if let (Some(link), Some(last)) = (&record.through, changes.last_mut()) {
        last.kind = Some(Kind::Symlink);
        last.real_path = Some(std::mem::replace(&mut last.path, link.clone()));
    }
    let moved = record.kind == MutationKind::Move;
    let mut paths: Vec<WsPath> = record
        .changes
        .iter()
        .flat_map(|change| [Some(&change.path), change.source.as_ref().filter(|_| moved)])
        .flatten()
        .chain(&record.through)
        .cloned()
        .collect();
    paths.sort();
    paths.dedup();
    Ok(PlainRecord {
        sequence: record.sequence,
        time: record.time_ns,
        kind: record.kind,
        author: record.author.clone(),
        status: record.status,
        source: record.source.clone(),
        checkpoint: record.checkpoint,
        paths,
        changes,
    })
}

fn plain_recorded(kind: MutationKind, change: Change) -> Result<PlainRecorded> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let (before_id, after_id) = (recorded_id(before)?, recorded_id(after)?);
    let effect = match (kind, before, after) {
        (MutationKind::Move, _, Some(_)) if change.source.is_some() => "moved",
        (MutationKind::Copy | MutationKind::Hardlink, None, Some(_)) if change.source.is_some() => "copied",
        (_, Some(before), Some(after)) => {
            let same = before.kind() == after.kind()
                && before.mode() == after.mode()
                && before_id == after_id
                && (before_id.is_some() || before.kind() == Kind::Directory);
            if same { "unchanged" } else { "modified" }
        }
        (_, None, Some(_)) => "created",
        (_, _, None) => "deleted",
    };
    let kept = |entry: Option<&Entry>| !matches!(entry, Some(Entry::File { content, .. }) if content.check().is_err());
    Ok(PlainRecorded {
        effect,
        kind: after.or(before).map(Entry::kind),
        has_content: kept(before) && kept(after),
        before_id,
        after_id,
        before_size: before.map(Entry::len),
        after_size: after.map(Entry::len),
        before_mode: before.map(Entry::mode),
        after_mode: after.map(Entry::mode),
        path: change.path,
        real_path: None,
        source: change.source,
    })
}

fn checkpoint(py: Python<'_>, checkpoint: Arc<Checkpoint>) -> PyResult<Py<PyAny>> {
    plain(py, checkpoint.as_ref())
}

fn checkpoint_list(py: Python<'_>, list: Vec<Arc<Checkpoint>>) -> PyResult<Py<PyAny>> {
    plain(py, &list.iter().map(AsRef::as_ref).collect::<Vec<&Checkpoint>>())
}

#[derive(Serialize)]
struct PlainRollback {
    checkpoint: Checkpoint,
    saved: Option<Checkpoint>,
    target: Checkpoint,
    #[serde(skip)]
    changes: Vec<PlainChange>,
}

#[derive(Serialize)]
struct PlainLogEntry {
    checkpoint: Checkpoint,
    effect: &'static str,
    path: WsPath,
    source: Option<WsPath>,
}

#[derive(Serialize)]
struct PlainBlame {
    line: usize,
    text: String,
    author: Option<String>,
    checkpoint: Option<ObjectId>,
    created: Option<i64>,
}

#[derive(Serialize)]
struct PlainVisit {
    author: String,
    checkpoint: ObjectId,
    label: Option<String>,
    changes: Vec<PlainChange>,
}

impl PyWorkspace {
    fn new(core: Workspace) -> Self {
        PyWorkspace { core, lane: Lane::default() }
    }

    /// Runs `act` on the workspace through the doorway.
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        how: How,
        act: impl FnOnce(&Workspace, &Work) -> Result<T> + Send + 'static,
        convert: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let core = self.core.clone();
        run(py, how, move |work| act(&core, work), convert)
    }

    /// A call that changes the workspace: later ones wait their turn without a thread.
    fn changing(&self, later: Option<Py<Later>>) -> How {
        self.slow(later, None)
    }

    fn slow(&self, later: Option<Py<Later>>, progress: Option<Py<PyAny>>) -> How {
        How { later, progress, lane: Some(self.lane.clone()) }
    }
}

#[pymethods]
impl PyWorkspace {
    #[staticmethod]
    #[pyo3(signature = (*, store, id, track, max_diff_bytes, ignore))]
    fn memory(
        py: Python<'_>,
        store: Option<PathBuf>,
        id: Option<String>,
        track: &str,
        max_diff_bytes: Option<Whole<u64>>,
        ignore: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let max_diff_bytes = max_diff_bytes.map(Whole::get);
        let options = options(py, store, id, track, max_diff_bytes, ignore)?;
        block(py, None, |_| Workspace::memory(options)).map(Self::new)
    }

    #[staticmethod]
    #[pyo3(signature = (root, *, store, id, track, max_diff_bytes, ignore, create, allow_large, home, resolver, read_only=false, progress=None, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python constructor, one by one")]
    fn open(
        py: Python<'_>,
        root: PathBuf,
        store: PathBuf,
        id: Option<String>,
        track: &str,
        max_diff_bytes: Option<Whole<u64>>,
        ignore: Option<Bound<'_, PyAny>>,
        create: bool,
        allow_large: bool,
        home: Option<PathBuf>,
        resolver: &str,
        read_only: bool,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let max_diff_bytes = max_diff_bytes.map(Whole::get);
        let options = options(py, Some(store), id, track, max_diff_bytes, ignore)?;
        let resolver = match resolver {
            "auto" => ResolverChoice::Auto,
            "kernel" => ResolverChoice::Kernel,
            "walk" => ResolverChoice::Walk,
            _ => return Err(PyValueError::new_err("resolver must be \"auto\", \"kernel\" or \"walk\"")),
        };
        let open = OpenOptions { create, allow_large, home, resolver, read_only };
        run(
            py,
            How { later, progress, lane: None },
            move |work| Workspace::open(&root, options, &open, work),
            |py, core| object(py, Self::new(core)),
        )
    }

    #[getter]
    fn id(&self) -> &str {
        self.core.id()
    }

    #[getter]
    fn root(&self) -> Option<&std::ffi::OsStr> {
        self.core.root().map(std::path::Path::as_os_str)
    }

    #[getter]
    fn store(&self) -> Option<&std::ffi::OsStr> {
        self.core.store().map(std::path::Path::as_os_str)
    }

    #[getter]
    fn is_read_only(&self) -> bool {
        self.core.is_read_only()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    #[getter]
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let features = self.core.features();
        let dict = PyDict::new(py);
        dict.set_item("symlinks", features.symlinks)?;
        dict.set_item("hard_links", features.hard_links)?;
        dict.set_item("permissions", features.permissions)?;
        dict.set_item("real_path", features.real_path)?;
        Ok(dict)
    }

    fn read_only(&self) -> Self {
        PyWorkspace { core: self.core.read_only(), lane: self.lane.clone() }
    }

    #[pyo3(signature = (r#ref, *, later=None))]
    fn at(&self, py: Python<'_>, r#ref: TextArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.at(&r#ref, work),
            |py, core| object(py, Self::new(core)),
        )
    }

    #[pyo3(signature = (*, later=None))]
    fn close(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, How::later(later), |core, _| core.close(), nothing)
    }

    #[pyo3(signature = (path, offset=0, length=None))]
    fn try_read_bytes(
        &self,
        py: Python<'_>,
        path: PathArg,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let read = quick(py, || self.core.try_read(&path.0, range(offset, length)))?;
        Ok(read.map(|read| bytes(py, &read)))
    }

    fn try_read_text(&self, py: Python<'_>, path: PathArg) -> PyResult<Option<Py<PyAny>>> {
        quick(py, || self.core.try_read(&path.0, None))?.map(|read| text(py, &read, &path.0)).transpose()
    }

    #[pyo3(signature = (path, offset=Whole::new(0), length=None, *, later=None))]
    fn read_bytes(
        &self,
        py: Python<'_>,
        path: PathArg,
        offset: Whole<u64>,
        length: Option<Whole<u64>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let range = range(offset.get(), length.map(Whole::get));
        self.call(py, How::later(later), move |core, _| core.read(&path.0, range), |py, read| Ok(bytes(py, &read)))
    }

    #[pyo3(signature = (path, *, later=None))]
    fn read_text(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        if later.is_none() {
            // PERF: the call made most often; without clones and boxes it is 0.3 µs less.
            let read = quick(py, || self.core.read(&path.0, None))?;
            return text(py, &read, &path.0);
        }
        let name = path.0.clone();
        self.call(
            py,
            How::later(later),
            move |core, _| core.read(&path.0, None),
            move |py, read| text(py, &read, &name),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn view(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, How::later(later), move |core, _| core.view(&path.0), |py, view| plain(py, &view))
    }

    #[pyo3(signature = (path, *, later=None))]
    fn open_reader(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, _| core.open_file(&path.0),
            |py, file| object(py, PyReader::new(file)),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn exists(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, _| core.exists(&path.0),
            |py, exists| Ok(exists.into_pyobject(py)?.to_owned().into_any().unbind()),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn stat(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, How::later(later), move |core, _| core.stat(&path.0), |py, stat| plain(py, &stat))
    }

    #[pyo3(signature = (path, *, later=None))]
    fn content_id(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, work| core.content_id(&path.0, work),
            |py, id| object(py, id.to_string()),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn readlink(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, _| core.read_link(&path.0),
            |py, target| Ok(bytes_to_str(py, &target).unbind()),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn realpath(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, _| core.real_path(&path.0),
            |py, path| Ok(path_to_py(py, &path).unbind()),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn list_dir(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, How::later(later), move |core, _| core.list_dir(&path.0), |py, list| plain_list(py, &list))
    }

    #[pyo3(signature = (path, *, max_depth, later=None))]
    fn walk(
        &self,
        py: Python<'_>,
        path: PathArg,
        max_depth: Option<Whole<usize>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let max_depth = max_depth.map(Whole::get);
        self.call(
            py,
            How::later(later),
            move |core, work| core.walk(&path.0, max_depth, work),
            |py, list| plain_list(py, &list),
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn summary(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            How::later(later),
            move |core, work| core.summary(&path.0, work),
            |py, summary| plain(py, &summary),
        )
    }

    #[pyo3(signature = (pattern, path, *, max_results, later=None))]
    fn glob(
        &self,
        py: Python<'_>,
        pattern: PathArg,
        path: PathArg,
        max_results: Option<Whole<usize>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let max_results = max_results.map(Whole::get);
        self.call(
            py,
            How::later(later),
            move |core, work| core.glob(&pattern.0, &path.0, max_results, work),
            |py, result| plain(py, &result),
        )
    }

    #[pyo3(signature = (
        pattern, path, *, regex, ignore_case, include, exclude, context, max_file_bytes, max_files, max_matches,
        max_line_bytes, later=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn search(
        &self,
        py: Python<'_>,
        pattern: PyBackedStr,
        path: PathArg,
        regex: bool,
        ignore_case: bool,
        include: Vec<String>,
        exclude: Vec<String>,
        context: Whole<usize>,
        max_file_bytes: Whole<u64>,
        max_files: Option<Whole<usize>>,
        max_matches: Whole<usize>,
        max_line_bytes: Whole<usize>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let context = context.get();
        let max_file_bytes = max_file_bytes.get();
        let max_files = max_files.map(Whole::get);
        let max_matches = max_matches.get();
        let max_line_bytes = max_line_bytes.get();
        self.call(
            py,
            How::later(later),
            move |core, work| {
                let options = SearchOptions {
                    regex,
                    ignore_case,
                    include: &include,
                    exclude: &exclude,
                    context,
                    max_file_bytes,
                    max_files,
                    max_matches,
                    max_line_bytes,
                };
                core.search(&pattern, &path.0, &options, work)
            },
            |py, result| plain(py, &result),
        )
    }

    #[pyo3(signature = (path, data, *, parents, create_only, if_hash, author, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn write_bytes(
        &self,
        py: Python<'_>,
        path: PathArg,
        data: PyBackedBytes,
        parents: bool,
        create_only: bool,
        if_hash: Option<String>,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let if_hash = parse_id(if_hash.as_deref())?;
                let options = WriteOptions { parents, create_only, if_hash, author: author.as_deref() };
                core.write(&path.0, Content::from_owner(data), options, work)
            },
            number,
        )
    }

    #[pyo3(signature = (path, text, *, parents, create_only, if_hash, author, keep_encoding=false, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn write_text(
        &self,
        py: Python<'_>,
        path: PathArg,
        text: PyBackedStr,
        parents: bool,
        create_only: bool,
        if_hash: Option<String>,
        author: Option<TextArg>,
        keep_encoding: bool,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let if_hash = parse_id(if_hash.as_deref())?;
                let options = WriteOptions { parents, create_only, if_hash, author: author.as_deref() };
                if keep_encoding {
                    core.write_shown(&path.0, &text, options, work)
                } else {
                    core.write(&path.0, Content::from_owner(text), options, work)
                }
            },
            number,
        )
    }

    #[pyo3(signature = (path, data, *, parents, author, later=None))]
    fn append(
        &self,
        py: Python<'_>,
        path: PathArg,
        data: PyBackedBytes,
        parents: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let options = WriteOptions { parents, author: author.as_deref(), ..WriteOptions::default() };
                core.append(&path.0, &data, options, work)
            },
            number,
        )
    }

    #[pyo3(signature = (path, *, parents, exist_ok, author, later=None))]
    fn mkdir(
        &self,
        py: Python<'_>,
        path: PathArg,
        parents: bool,
        exist_ok: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.mkdir(&path.0, parents, exist_ok, author.as_deref(), work),
            nothing,
        )
    }

    #[pyo3(signature = (source, destination, *, overwrite, recursive, parents, author, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn copy(
        &self,
        py: Python<'_>,
        source: PathArg,
        destination: PathArg,
        overwrite: bool,
        recursive: bool,
        parents: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let options = TransferOptions { overwrite, recursive, parents, author: author.as_deref() };
                core.copy(&source.0, &destination.0, options, work)
            },
            nothing,
        )
    }

    #[pyo3(name = "move", signature = (source, destination, *, overwrite, parents, author, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn rename(
        &self,
        py: Python<'_>,
        source: PathArg,
        destination: PathArg,
        overwrite: bool,
        parents: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let options = TransferOptions { overwrite, recursive: true, parents, author: author.as_deref() };
                core.rename(&source.0, &destination.0, options, work)
            },
            nothing,
        )
    }

    #[pyo3(signature = (path, *, recursive, missing_ok, author, later=None))]
    fn remove(
        &self,
        py: Python<'_>,
        path: PathArg,
        recursive: bool,
        missing_ok: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.remove(&path.0, recursive, missing_ok, author.as_deref(), work),
            nothing,
        )
    }

    #[pyo3(signature = (path, target, *, parents, author, later=None))]
    fn symlink(
        &self,
        py: Python<'_>,
        path: PathArg,
        target: PathArg,
        parents: bool,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.symlink(&path.0, &target.0, parents, author.as_deref(), work),
            nothing,
        )
    }

    #[pyo3(signature = (source, path, *, author, later=None))]
    fn hardlink(
        &self,
        py: Python<'_>,
        source: PathArg,
        path: PathArg,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.hardlink(&source.0, &path.0, author.as_deref(), work),
            nothing,
        )
    }

    #[pyo3(signature = (path, mode, *, author, later=None))]
    fn chmod(
        &self,
        py: Python<'_>,
        path: PathArg,
        mode: Whole<u32>,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let mode = mode.get();
        self.call(
            py,
            self.changing(later),
            move |core, work| core.chmod(&path.0, mode, author.as_deref(), work),
            nothing,
        )
    }

    #[pyo3(signature = (*, author, later=None))]
    fn clear(&self, py: Python<'_>, author: Option<String>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), move |core, work| core.clear(author.as_deref(), work), nothing)
    }

    #[pyo3(signature = (path, old, new, *, count, if_hash, encoding, author, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn edit(
        &self,
        py: Python<'_>,
        path: PathArg,
        old: PyBackedStr,
        new: PyBackedStr,
        count: Option<Whole<usize>>,
        if_hash: Option<String>,
        encoding: Option<String>,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let count = count.map(Whole::get);
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let options = EditOptions {
                    count,
                    if_hash: parse_id(if_hash.as_deref())?,
                    encoding: encoding.as_deref(),
                    author: author.as_deref(),
                };
                core.edit(&path.0, &old, &new, options, work)
            },
            |py, outcome| plain(py, &outcome),
        )
    }

    #[pyo3(signature = (label, *, author, progress=None, later=None))]
    fn checkpoint(
        &self,
        py: Python<'_>,
        label: Option<TextArg>,
        author: Option<TextArg>,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.slow(later, progress),
            move |core, work| core.checkpoint(label.as_deref(), author.as_deref(), work),
            checkpoint,
        )
    }

    #[pyo3(signature = (*, later=None))]
    fn checkpoints(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), Workspace::checkpoints, checkpoint_list)
    }

    #[pyo3(signature = (*, later=None))]
    fn head(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), Workspace::head, checkpoint)
    }

    #[pyo3(signature = (r#ref, *, later=None))]
    fn resolve(&self, py: Python<'_>, r#ref: TextArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), move |core, work| core.resolve(&r#ref, work), checkpoint)
    }

    #[pyo3(signature = (a, b, *, path=None, progress=None, later=None))]
    fn diff(
        &self,
        py: Python<'_>,
        a: Option<TextArg>,
        b: Option<TextArg>,
        path: Option<PathArg>,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.slow(later, progress),
            move |core, work| core.diff(a.as_deref(), b.as_deref(), path.as_ref().map_or(b"/", |path| &path.0), work),
            |py, diff| object(py, PyDiff(Arc::new(diff))),
        )
    }

    #[pyo3(signature = (r#ref, *, paths, label, author, progress=None, later=None))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python method, one by one")]
    fn rollback(
        &self,
        py: Python<'_>,
        r#ref: TextArg,
        paths: Option<Vec<PathArg>>,
        label: Option<TextArg>,
        author: Option<TextArg>,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.slow(later, progress),
            move |core, work| {
                let paths: Option<Vec<&[u8]>> =
                    paths.as_ref().map(|paths| paths.iter().map(|path| path.0.as_slice()).collect());
                let done = core.rollback(&r#ref, paths.as_deref(), label.as_deref(), author.as_deref(), work)?;
                Ok(PlainRollback {
                    checkpoint: Checkpoint::clone(&done.checkpoint),
                    saved: done.saved.as_deref().cloned(),
                    target: Checkpoint::clone(&done.target),
                    changes: plain_changes(&done.changes)?,
                })
            },
            |py, done| {
                let plain = plain(py, &done)?;
                plain.bind(py).set_item("changes", plain_list(py, &done.changes)?)?;
                Ok(plain)
            },
        )
    }

    /// Stands in line; `wake` is called when the turn has come, unless it has come at once. The label is for the
    /// end, and taken here so that one that will not do is refused before any work.
    #[expect(clippy::too_many_arguments, reason = "this is the signature Python sees")]
    fn stand_in_line(
        &self,
        py: Python<'_>,
        author: TextArg,
        label: Option<TextArg>,
        thread: u64,
        task: Option<u64>,
        blocks: bool,
        wake: Py<PyAny>,
    ) -> PyResult<PyTurn> {
        drop(label);
        let wake = super::lease::wake(wake);
        let turn = self.core.stand_in_line(Asker { thread, task, blocks }, &author, wake);
        turn.map(PyTurn::new).map_err(|error| to_py_err(py, &error))
    }

    #[pyo3(signature = (*, later=None))]
    fn begin_writer(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), Workspace::begin_writer, |py, start| plain(py, &start))
    }

    #[pyo3(signature = (start, *, author, later=None))]
    fn undo_writer(
        &self,
        py: Python<'_>,
        start: TextArg,
        author: TextArg,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let undo = move |core: &Workspace, work: &Work| core.undo_writer(start.parse()?, &author, work);
        self.call(py, self.changing(later), undo, nothing)
    }

    #[pyo3(signature = (*, after, limit, path, author, later=None))]
    fn history(
        &self,
        py: Python<'_>,
        after: Whole<u64>,
        limit: Option<Whole<usize>>,
        path: Option<PathArg>,
        author: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let limit = limit.map(Whole::get);
        let after = after.get();
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                let path = path.as_ref().map(|path| path.0.as_slice());
                let records = core.history(after, limit, path, author.as_deref(), work)?;
                records.iter().map(|record| plain_record(record)).collect::<Result<Vec<_>>>()
            },
            |py, records| plain_list(py, &records),
        )
    }

    #[pyo3(signature = (sequence, *, max_lines, later=None))]
    fn record_diff(
        &self,
        py: Python<'_>,
        sequence: Whole<u64>,
        max_lines: Option<Whole<usize>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let max_lines = max_lines.map(Whole::get);
        let sequence = sequence.get();
        self.call(
            py,
            self.changing(later),
            move |core, work| core.record_diff(sequence, max_lines, work),
            |py, patch| plain(py, &patch),
        )
    }

    #[pyo3(signature = (through, *, later=None))]
    fn prune_history(&self, py: Python<'_>, through: Whole<u64>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        let through = through.get();
        self.call(py, self.changing(later), move |core, work| core.prune_history(through, work), number)
    }

    #[pyo3(signature = (*, later=None))]
    fn flush(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), Workspace::flush, nothing)
    }

    #[pyo3(signature = (path, *, limit, later=None))]
    fn log(
        &self,
        py: Python<'_>,
        path: PathArg,
        limit: Option<Whole<usize>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        let limit = limit.map(Whole::get);
        self.call(
            py,
            self.changing(later),
            move |core, work| core.log(&path.0, limit, work),
            |py, entries| {
                let entries: Vec<PlainLogEntry> = entries
                    .into_iter()
                    .map(|entry| PlainLogEntry {
                        checkpoint: Checkpoint::clone(&entry.checkpoint),
                        effect: entry.effect,
                        path: entry.path,
                        source: entry.source,
                    })
                    .collect();
                plain(py, &entries)
            },
        )
    }

    #[pyo3(signature = (path, *, later=None))]
    fn blame(&self, py: Python<'_>, path: PathArg, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.blame(&path.0, work),
            |py, lines| {
                let lines: Vec<PlainBlame> = lines
                    .into_iter()
                    .map(|line| PlainBlame {
                        line: line.line,
                        text: line.text,
                        author: line.checkpoint.as_ref().map(|checkpoint| checkpoint.author.clone()),
                        created: line.checkpoint.as_ref().map(|checkpoint| checkpoint.created),
                        checkpoint: line.checkpoint.map(|checkpoint| checkpoint.id),
                    })
                    .collect();
                plain(py, &lines)
            },
        )
    }

    #[pyo3(signature = (*, later=None))]
    fn changed_by(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| {
                core.visits(work)?
                    .into_iter()
                    .map(|visit| {
                        Ok(PlainVisit {
                            author: visit.author,
                            checkpoint: visit.checkpoint.id,
                            label: visit.checkpoint.label.clone(),
                            changes: plain_changes(&visit.changes)?,
                        })
                    })
                    .collect::<Result<Vec<_>>>()
            },
            |py, visits| plain_list(py, &visits),
        )
    }

    #[pyo3(signature = (*, later=None))]
    fn stats(&self, py: Python<'_>, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        self.call(py, self.changing(later), Workspace::stats, |py, stats| plain(py, &stats))
    }

    #[pyo3(signature = (path, destination, *, r#ref, progress=None, later=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: PathArg,
        destination: Option<PathBuf>,
        r#ref: Option<TextArg>,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.slow(later, progress),
            move |core, work| {
                let Some(destination) = destination else {
                    let mut out = Vec::new();
                    core.export(&path.0, r#ref.as_deref(), &mut out, work)?;
                    return Ok(Some(out));
                };
                #[expect(clippy::disallowed_methods, reason = "the caller's own file on the host")]
                let file =
                    std::fs::File::create(&destination).map_err(|error| Error::io(&error, "writing the archive"))?;
                let mut out = std::io::BufWriter::new(file);
                core.export(&path.0, r#ref.as_deref(), &mut out, work)?;
                std::io::Write::flush(&mut out).map_err(|error| Error::io(&error, "writing the archive"))?;
                Ok(None)
            },
            |py, archive| Ok(archive.map_or_else(|| py.None(), |archive| bytes(py, &archive))),
        )
    }

    #[pyo3(signature = (archive, path, *, author, progress=None, later=None))]
    fn import_(
        &self,
        py: Python<'_>,
        archive: Bound<'_, PyAny>,
        path: PathArg,
        author: Option<TextArg>,
        progress: Option<Py<PyAny>>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        enum Source {
            Bytes(PyBackedBytes),
            Host(PathBuf),
        }
        let source = if let Ok(bytes) = archive.extract::<PyBackedBytes>() {
            Source::Bytes(bytes)
        } else if let Ok(path) = archive.extract::<PathBuf>() {
            Source::Host(path)
        } else {
            return Err(PyTypeError::new_err("an archive is bytes or the path of a file on this machine"));
        };
        self.call(
            py,
            self.slow(later, progress),
            move |core, work| match source {
                Source::Bytes(bytes) => core.import(&mut bytes.as_ref(), &path.0, author.as_deref(), work),
                Source::Host(host) => {
                    #[expect(clippy::disallowed_methods, reason = "the caller's own file on the host")]
                    let file = std::fs::File::open(&host).map_err(|error| Error::io(&error, "reading the archive"))?;
                    core.import(&mut std::io::BufReader::new(file), &path.0, author.as_deref(), work)
                }
            },
            number,
        )
    }

    #[pyo3(signature = (directory, *, r#ref, later=None))]
    fn materialize(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        r#ref: Option<TextArg>,
        later: Option<Py<Later>>,
    ) -> PyResult<Py<PyAny>> {
        self.call(
            py,
            self.changing(later),
            move |core, work| core.materialize(&directory, r#ref.as_deref(), work),
            nothing,
        )
    }
}
