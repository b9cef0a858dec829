//! An open file, read from front to back.

use super::call::{How, Later, run};
use super::convert::bytes;
use crate::core::error::{Error, ErrorKind};
use crate::core::fs::OpenFile;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

struct State {
    file: Option<Box<dyn OpenFile>>,
    at: u64,
}

/// An open file, read from front to back.
#[pyclass(name = "Reader", module = "hedgerow._native", frozen)]
pub(crate) struct PyReader {
    size: u64,
    state: Arc<Mutex<State>>,
}

impl PyReader {
    pub(crate) fn new(file: Box<dyn OpenFile>) -> Self {
        PyReader { size: file.size(), state: Arc::new(Mutex::new(State { file: Some(file), at: 0 })) }
    }
}

#[pymethods]
impl PyReader {
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    #[pyo3(signature = (size, *, later=None))]
    fn read(&self, py: Python<'_>, size: u64, later: Option<Py<Later>>) -> PyResult<Py<PyAny>> {
        let state = Arc::clone(&self.state);
        run(
            py,
            How::later(later),
            move |_| {
                let mut state = state.lock();
                let at = state.at;
                let Some(file) = &state.file else {
                    return Err(Error::new(ErrorKind::WorkspaceClosed, "the file is closed"));
                };
                let piece = file.read(at..at.saturating_add(size))?;
                state.at += piece.len() as u64;
                Ok(piece)
            },
            |py, piece| Ok(bytes(py, &piece)),
        )
    }

    fn close(&self) {
        self.state.lock().file = None;
    }
}
