//! The core, in floors; a room may call only rooms on lower floors.
//!
//! | floor | rooms |
//! |---|---|
//! | 5 | `workspace`: the facade that locks, records and names |
//! | 4 | `store`: git objects, checkpoints, the mutation log |
//! | 3 | `fs`: what can become a tree and take one; `fs::jail` is the only code that opens a path on the host |
//! | 2 | `tree`: diff, walk, glob, search; `text`: line diff and edits |
//! | 1 | `path`, `error`, `cancel`, `content`, `flock` |

pub mod cancel;
pub mod content;
pub mod error;
pub mod flock;
pub mod fs;
pub mod path;
pub mod store;
pub mod text;
pub mod tree;
pub mod workspace;
