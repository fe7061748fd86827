//! The error of a call on a file: why it failed, and whether it may have happened.

use std::fmt;
use std::io;

use crate::{Capability, FileName};

/// The result of a call on a file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. The caller reacts differently to each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The file does not exist.
    NotFound,
    /// The name of the file is taken.
    Exists,
    /// The object does not have the version that the caller expects: another writer swapped it.
    Conflict,
    /// The file ends before the requested range: it is damaged or not finished.
    TooShort,
    /// The object is larger than the caller's limit.
    TooLarge,
    /// No space is left on the storage.
    Full,
    /// The storage is read-only, or the process lacks the permission.
    ReadOnly,
    /// Another process has the folder or device open.
    InUse,
    /// The file was [sealed](crate::Files::seal): its writer may write no more.
    Sealed,
    /// The implementation lacks the [capability](Capability).
    Unsupported,
    /// Any other error of the device or the system.
    Failed,
}

/// Whether a failed call may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call changed nothing, so it may be repeated.
    DidNotHappen,
    /// The call may have taken effect, wholly or partly. The caller must look at the file to find out.
    MayHaveHappened,
}

/// A failed call: the operation, the file, the reason, and whether it may have taken effect.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    outcome: Outcome,
    name: FileName,
    act: &'static str,
    reason: Option<String>,
}

impl Error {
    /// Creates the error of the call `act`, which is a verb: `create`, `write`, `sync`, `read` …
    pub fn new(kind: Kind, outcome: Outcome, name: &FileName, act: &'static str) -> Error {
        Error { kind, outcome, name: name.clone(), act, reason: None }
    }

    /// Creates the error of a call whose capability the implementation lacks.
    pub fn unsupported(name: &FileName, act: &'static str, lacks: Capability) -> Error {
        Error::new(Kind::Unsupported, Outcome::DidNotHappen, name, act)
            .because(format!("this storage cannot {lacks}"))
    }

    /// Returns the error with a reason: the message of the system or of the store.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Error {
        self.reason = Some(reason.into());
        self
    }

    /// Classifies an error of the operating system.
    pub fn from_io(source: &io::Error, outcome: Outcome, name: &FileName, act: &'static str) -> Error {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::AlreadyExists => Kind::Exists,
            io::ErrorKind::UnexpectedEof => Kind::TooShort,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Kind::ReadOnly,
            _ => Kind::Failed,
        };
        Error::new(kind, outcome, name, act).because(source.to_string())
    }

    /// Why the call failed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the call may have taken effect.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The file that the call was about.
    pub fn name(&self) -> &FileName {
        &self.name
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "cannot {} the root folder: ", self.act)?,
            name => write!(f, "cannot {} {name}: ", self.act)?,
        }
        match (&self.reason, self.kind) {
            (Some(reason), _) => f.write_str(reason)?,
            (None, Kind::NotFound) => f.write_str("no such file")?,
            (None, Kind::Exists) => f.write_str("it exists already")?,
            (None, Kind::Conflict) => f.write_str("its content was changed by somebody else")?,
            (None, Kind::TooShort) => f.write_str("the file is too short")?,
            (None, Kind::TooLarge) => f.write_str("the file is too large")?,
            (None, Kind::Full) => f.write_str("no space left")?,
            (None, Kind::ReadOnly) => f.write_str("it cannot be written")?,
            (None, Kind::InUse) => f.write_str("another process has it open")?,
            (None, Kind::Sealed) => f.write_str("it was sealed, and takes no more")?,
            (None, Kind::Unsupported) => f.write_str("this storage cannot do that")?,
            (None, Kind::Failed) => f.write_str("the device failed")?,
        }
        if self.outcome == Outcome::MayHaveHappened {
            f.write_str(" (it may have happened)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
