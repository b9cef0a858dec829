//! hedgerow: a jailed tree of files in which every change is seen, named and undone.
//!
//! `core` is the product: it knows no Python, no async runtime, no environment and prints nothing.
//! `bindings` is everything that knows Python; it is compiled only with the `python` feature.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests build and inspect their own directories"))]

#[forbid(unsafe_code)]
pub mod core;

#[cfg(feature = "python")]
mod bindings;
