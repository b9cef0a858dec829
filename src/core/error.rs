//! One error type for the whole core.
//!
//! An error is a kind with a stable code, the workspace path it concerns, one sentence without the
//! cause, and the cause. No message ever holds a host path: io errors are reduced to their OS text,
//! and paths are always [`WsPath`]. Codes are append-only: adding one is compatible, renaming is not.

use crate::core::path::WsPath;
use std::fmt;

/// Result of every core call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $hint:literal;)*) => {
        /// What went wrong; the code is part of the public interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $name,)* }

        impl ErrorKind {
            /// Every kind, in declaration order.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$name,)*];

            /// Returns the stable code.
            pub fn code(self) -> &'static str {
                match self { $(ErrorKind::$name => $code,)* }
            }

            /// Returns one imperative sentence for an agent, or an empty string.
            pub fn hint(self) -> &'static str {
                match self { $(ErrorKind::$name => $hint,)* }
            }
        }
    };
}

kinds! {
    /// The path leaves the workspace.
    PathEscape = "path-escape", "Use a path inside the workspace, without a leading '..'.";
    /// A symbolic link on the path leads out of the workspace.
    SymlinkEscape = "symlink-escape", "The link leads out of the workspace; read or write a file inside it instead.";
    /// An absolute path where only relative ones are accepted.
    PathAbsolute = "path-absolute", "Use a path relative to the workspace root.";
    /// A name that belongs to hedgerow or to a protected class.
    ReservedName = "reserved-name", "Choose another file name.";
    /// The path is empty.
    PathEmpty = "path-empty", "Give a file name.";
    /// The path holds a NUL byte.
    PathNul = "path-nul", "Remove the NUL byte from the path.";
    /// The path cannot be represented.
    PathEncoding = "path-encoding", "Use text that can be encoded as a file name.";
    /// A component or the whole path is too long for the system.
    PathTooLong = "path-too-long", "Use a shorter path.";
    /// An argument outside its allowed values.
    InvalidArgument = "invalid-argument", "Correct the argument and retry.";
    /// No such file or entry.
    FileNotFound = "file-not-found", "List the directory to see what exists.";
    /// No such directory.
    DirectoryNotFound = "directory-not-found", "List the parent directory, or create the directory first.";
    /// No such checkpoint, label, author or prefix.
    CheckpointNotFound = "checkpoint-not-found", "List the checkpoints and use one of their ids or labels.";
    /// A ref that matches several checkpoints.
    CheckpointAmbiguous = "checkpoint-ambiguous", "Use a longer id, or a label that occurs once.";
    /// No such branch.
    BranchNotFound = "branch-not-found", "List the branches and use one of their names.";
    /// The entry exists already.
    FileExists = "file-exists", "Choose another path, or ask for overwriting.";
    /// The branch exists already.
    BranchExists = "branch-exists", "Choose another name.";
    /// A directory where a file is needed.
    IsADirectory = "is-a-directory", "Name a file, or list the directory instead.";
    /// Something else where a directory is needed.
    NotADirectory = "not-a-directory", "One part of the path is a file; name a directory.";
    /// The directory has entries.
    DirectoryNotEmpty = "directory-not-empty", "Ask for recursive removal if the contents may go too.";
    /// The entry is not a symbolic link.
    NotALink = "not-a-link", "Only symbolic links have a target; use stat to see what the entry is.";
    /// A FIFO, socket or device.
    SpecialFile = "special-file", "This is not a regular file; leave it alone or delete it.";
    /// The file is not text.
    BinaryFile = "binary-file", "Read it as bytes.";
    /// The file is not valid UTF-8.
    NotUtf8 = "not-utf8", "Read it as bytes, or pass the encoding it is written in.";
    /// Symbolic links that lead in a circle, or too many of them.
    SymlinkLoop = "symlink-loop", "The links lead in a circle; name the file itself.";
    /// The workspace or handle is read-only.
    ReadOnlyWorkspace = "read-only-workspace", "This handle can only read.";
    /// The operating system refused.
    PermissionDenied = "permission-denied", "The operating system refuses access to this entry; leave it alone.";
    /// `old` does not occur.
    EditNoMatch = "edit-no-match", "Read the file again and copy the text exactly, with its white space.";
    /// `old` occurs more or less often than asked for.
    EditAmbiguous = "edit-ambiguous", "Use a longer text that occurs exactly once, or give the number of occurrences.";
    /// The content changed since it was read.
    StaleContent = "stale-content", "Read the file again and repeat the change on its present content.";
    /// The base of a merge moved.
    BaseMoved = "base-moved", "Look at what changed since, then retry.";
    /// There are changes no checkpoint holds.
    UncheckpointedChanges = "uncheckpointed-changes", "Take a checkpoint first.";
    /// Both sides changed the same thing.
    MergeConflict = "merge-conflict", "Resolve each conflict, then merge again.";
    /// A file larger than the limit.
    FileTooLarge = "file-too-large", "Read or write it in parts.";
    /// More entries than the limit.
    TooManyEntries = "too-many-entries", "Narrow the path or the pattern.";
    /// No space, or a quota is used up.
    QuotaExceeded = "quota-exceeded", "Free some space and retry; nothing was changed.";
    /// A root that is a whole machine or home.
    RootTooLarge = "root-too-large", "Open a project directory, or pass allow_large=True.";
    /// Somebody else holds the lock.
    LockTimeout = "lock-timeout", "Another process is changing this workspace; retry in a moment.";
    /// Waiting for oneself.
    WouldDeadlock = "would-deadlock", "Use the handle of the lease that is held, or end it first.";
    /// The operation took too long.
    OperationTimeout = "operation-timeout", "Narrow the work and retry.";
    /// The path was changed by somebody else at the same moment, again and again.
    PathRace = "path-race", "Something keeps replacing a directory on this path; retry when it has stopped.";
    /// The root is not the directory that was opened.
    RootReplaced = "root-replaced", "The workspace directory was replaced; open it again.";
    /// The workspace is closed.
    WorkspaceClosed = "workspace-closed", "Open the workspace again.";
    /// A handle used in a forked child.
    UsedAfterFork = "used-after-fork", "Open the workspace again in this process.";
    /// The store is damaged.
    StoreCorrupt = "store-corrupt", "Nothing was changed; restore the store or use another checkpoint.";
    /// The store was written by a newer version.
    StoreVersion = "store-version", "Use the version of hedgerow that wrote this store, or a newer one.";
    /// A git object could not be read or written.
    GitFailed = "git-failed", "Check the store with git fsck.";
    /// The backend cannot do this.
    NotSupported = "not-supported", "This kind of workspace cannot do that.";
    /// The operating system reported an error.
    Io = "io-error", "Retry; if it fails again the disk or file system has a problem.";
    /// The caller cancelled.
    Cancelled = "cancelled", "";
    /// A fault of ours.
    Bug = "bug", "Report this with what led to it.";
}

/// The error of every core call.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    path: Option<WsPath>,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of `kind`; `message` is a lower-case sentence without path and cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, path: None, message: message.into(), hint: None, source: None }))
    }

    /// Names the workspace path, unless one is named already.
    #[must_use]
    pub fn at(mut self, path: &WsPath) -> Self {
        if self.0.path.is_none() {
            self.0.path = Some(path.clone());
        }
        self
    }

    /// Replaces the kind's general hint by one that knows the case.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Turns an OS error into the kind a caller can act on.
    pub fn os(errno: rustix::io::Errno, doing: &str) -> Self {
        use rustix::io::Errno as E;
        let kind = match errno {
            E::NOENT => ErrorKind::FileNotFound,
            E::EXIST => ErrorKind::FileExists,
            E::ISDIR => ErrorKind::IsADirectory,
            E::NOTDIR => ErrorKind::NotADirectory,
            E::NOTEMPTY => ErrorKind::DirectoryNotEmpty,
            E::LOOP => ErrorKind::SymlinkLoop,
            E::NAMETOOLONG => ErrorKind::PathTooLong,
            E::ACCESS | E::PERM | E::ROFS => ErrorKind::PermissionDenied,
            E::NOSPC | E::DQUOT => ErrorKind::QuotaExceeded,
            E::FBIG => ErrorKind::FileTooLarge,
            E::NXIO | E::NODEV => ErrorKind::SpecialFile,
            E::TIMEDOUT => ErrorKind::OperationTimeout,
            E::OPNOTSUPP | E::NOSYS => ErrorKind::NotSupported,
            E::ILSEQ => ErrorKind::PathEncoding,
            _ => ErrorKind::Io,
        };
        let text = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        Error::new(kind, format!("{doing}: {text}"))
    }

    /// Turns a std io error (never one that names a path) into an [`Error`].
    pub fn io(error: &std::io::Error, doing: &str) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::os(rustix::io::Errno::from_raw_os_error(code), doing),
            None => Error::new(ErrorKind::Io, format!("{doing}: {error}")),
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the workspace path the error concerns.
    pub fn path(&self) -> Option<&WsPath> {
        self.0.path.as_ref()
    }

    /// Returns the sentence, without path and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns one imperative sentence for an agent.
    pub fn hint(&self) -> &str {
        self.0.hint.as_deref().unwrap_or_else(|| self.0.kind.hint())
    }

    /// Replaces the kind, keeping path and message: for a caller who knows better what is missing.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.path {
            Some(path) => write!(f, "{path}: {}", self.0.message),
            None => f.write_str(&self.0.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
