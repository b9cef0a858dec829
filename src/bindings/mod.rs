//! Everything that knows Python.
//!
//! A call goes one way: arguments are checked and taken out of Python objects, [`call`] lets go of the
//! interpreter and runs the core, and the result is turned into plain Python values. Classes with
//! documentation, defaults and types are Python source; this module is private to them.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

mod call;
mod convert;
mod diff;
mod lease;
mod reader;
mod workspace;

use pyo3::prelude::*;

/// The compiled core. Private: users import `hedgerow`.
#[pymodule(gil_used = false)]
mod _native {
    use super::{PyResult, Python};
    use crate::core::error::ErrorKind;
    use pyo3::types::{PyAnyMethods, PyModule, PyModuleMethods};
    use pyo3::{Bound, pyfunction};

    #[pymodule_export]
    use super::call::{Later, Stopped};
    #[pymodule_export]
    use super::diff::PyDiff;
    #[pymodule_export]
    use super::lease::PyTurn;
    #[pymodule_export]
    use super::reader::PyReader;
    #[pymodule_export]
    use super::workspace::PyWorkspace;

    #[pymodule_export]
    use super::call::{_after_fork_in_child, _after_fork_in_parent, _before_fork, _shutdown};
    #[pymodule_export]
    use super::convert::_set_error_factory;

    /// Lists every error code with its general hint.
    #[pyfunction]
    fn _all_error_kinds() -> Vec<(&'static str, &'static str)> {
        ErrorKind::ALL.iter().map(|kind| (kind.code(), kind.hint())).collect()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("build_profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
        // Pickled errors and reprs should name the package, not the file.
        let _py: Python<'_> = module.py();
        module.setattr("__doc__", "The compiled core. Private: users import `hedgerow`.")
    }
}
