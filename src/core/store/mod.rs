//! What outlives a call: git objects, checkpoints and the mutation log.
//!
//! A store is a directory outside every workspace, a bare git repository that plain git can read, with
//! our own state in `hedgerow/` beside git's. One store serves many workspaces and processes.

pub mod checkpoint;
pub mod commit;
pub(crate) mod files;
pub mod log;
mod loose;
pub mod names;
pub mod objects;
mod pack;
pub mod past;
pub mod record;
pub mod refs;
mod stats;
pub mod trees;
