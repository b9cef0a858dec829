//! Between Python values and the core's.

use super::call::breathe;
use crate::core::error::{Error, ErrorKind};
use crate::core::path::WsPath;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString};
use serde::Serialize;

static ERROR_FACTORY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Takes the callable that makes exceptions: `(kind, message, path, hint, detail) -> BaseException`.
#[pyfunction]
pub(crate) fn _set_error_factory(py: Python<'_>, factory: Py<PyAny>) {
    ERROR_FACTORY.get_or_init(py, || factory);
}

/// Turns an error of the core into an exception.
pub(crate) fn to_py_err(py: Python<'_>, error: &Error) -> PyErr {
    let Some(factory) = ERROR_FACTORY.get(py) else {
        return PyRuntimeError::new_err(format!("{}: {error}", error.kind().code()));
    };
    let path = error.path().map(|path| path_to_py(py, path));
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    let detail = if causes.is_empty() { None } else { Some(causes.join("\n")) };
    match factory.call1(py, (error.kind().code(), error.message(), path, error.hint(), detail)) {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => error,
    }
}

/// Bytes that came from the OS as `str`: undecodable ones as surrogates, so that the name round-trips.
pub(crate) fn bytes_to_str<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes)
            .call_method1("decode", ("utf-8", "surrogateescape"))
            .unwrap_or_else(|_| PyString::new(py, &String::from_utf8_lossy(bytes)).into_any()),
    }
}

pub(crate) fn path_to_py<'py>(py: Python<'py>, path: &WsPath) -> Bound<'py, PyAny> {
    bytes_to_str(py, if path.is_root() { b"/" } else { path.as_bytes() })
}

/// A name argument: a label, an author, a ref.
pub(crate) struct TextArg(String);

impl std::ops::Deref for TextArg {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for TextArg {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = value.cast::<PyString>()?;
        match text.to_str() {
            Ok(text) => Ok(TextArg(text.to_owned())),
            Err(_) => Err(to_py_err(
                value.py(),
                &Error::new(ErrorKind::InvalidArgument, "labels, authors and refs are text without lone surrogates"),
            )),
        }
    }
}

/// A number that counts something: whole, and not negative.
#[derive(Clone, Copy)]
pub(crate) struct Whole<T>(T);

impl<T> Whole<T> {
    pub(crate) fn new(value: T) -> Self {
        Whole(value)
    }

    pub(crate) fn get(self) -> T {
        self.0
    }
}

impl<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Whole<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        value.extract::<T>().map(Whole).map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(value.py()) {
                let message = format!("{} is not a number that counts something", &*value);
                to_py_err(value.py(), &Error::new(ErrorKind::InvalidArgument, message))
            } else {
                error
            }
        })
    }
}

/// A path argument: `str` or `os.PathLike` that gives one.
pub(crate) struct PathArg(pub(crate) Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for PathArg {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(PathArg(str_bytes(&text)?));
        }
        let py = value.py();
        if !value.is_instance_of::<PyBytes>()
            && let Ok(plain) = py.import("os")?.call_method1("fspath", (value,))
            && let Ok(text) = plain.cast::<PyString>()
        {
            return Ok(PathArg(str_bytes(text)?));
        }
        let name = value.get_type().qualname()?;
        Err(PyTypeError::new_err(format!("a path must be str or os.PathLike[str], not {name}")))
    }
}

fn str_bytes(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    if let Ok(text) = text.to_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let py = text.py();
    match text.call_method1("encode", ("utf-8", "surrogateescape")) {
        Ok(bytes) => Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec()),
        Err(_) => {
            Err(to_py_err(py, &Error::new(ErrorKind::PathEncoding, "the path holds characters no file name can hold")))
        }
    }
}

/// Turns a value into dicts, lists, strings and numbers.
pub(crate) fn plain<T: Serialize>(py: Python<'_>, value: &T) -> PyResult<Py<PyAny>> {
    Ok(pythonize::pythonize(py, value)?.unbind())
}

/// As [`plain`], for a list that may be long.
pub(crate) fn plain_list<T: Serialize>(py: Python<'_>, values: &[T]) -> PyResult<Py<PyAny>> {
    // An entry may be a record with changes of its own.
    const PIECE: usize = 4;
    let list = PyList::empty(py);
    for piece in values.chunks(PIECE) {
        for value in piece {
            list.append(pythonize::pythonize(py, value)?)?;
        }
        if values.len() > PIECE {
            breathe(py);
        }
    }
    Ok(list.into_any().unbind())
}

#[expect(clippy::unnecessary_wraps, reason = "has the shape of every conversion")]
pub(crate) fn nothing(py: Python<'_>, (): ()) -> PyResult<Py<PyAny>> {
    Ok(py.None())
}

pub(crate) fn bytes(py: Python<'_>, value: &[u8]) -> Py<PyAny> {
    PyBytes::new(py, value).into_any().unbind()
}

pub(crate) fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
}

pub(crate) fn number(py: Python<'_>, value: u64) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
}
