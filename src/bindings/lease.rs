//! A place in the line for the writer lease.

use super::convert::to_py_err;
use crate::core::workspace::{Turn, Wake};
use parking_lot::Mutex;
use pyo3::prelude::*;

/// A place in the line for the writer lease; giving it up is `leave`.
#[pyclass(name = "Turn", module = "hedgerow._native", frozen)]
pub(crate) struct PyTurn(Mutex<Option<Turn>>);

impl PyTurn {
    pub(crate) fn new(turn: Turn) -> Self {
        PyTurn(Mutex::new(Some(turn)))
    }
}

/// Calls a function of Python; one that fails belongs to a loop that was closed, and nobody hears it.
pub(crate) fn wake(function: Py<PyAny>) -> Wake {
    Box::new(move || Python::try_attach(|py| function.call0(py).is_ok()).unwrap_or(false))
}

#[pymethods]
impl PyTurn {
    /// Whether the lease is held.
    #[getter]
    fn has_come(&self) -> bool {
        self.0.lock().as_ref().is_some_and(Turn::has_come)
    }

    /// Gives up the place, or the lease; twice is harmless.
    fn leave(&self) {
        let turn = self.0.lock().take();
        drop(turn);
    }

    /// Returns the error of a wait that took too long.
    fn timed_out(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.0.lock().as_ref().map(Turn::timed_out)?;
        Some(to_py_err(py, &error).into_value(py).into_any())
    }
}
