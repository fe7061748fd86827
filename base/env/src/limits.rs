//! Limits that the system sets for this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the number of files and sockets that this process may have open to the highest number that the system
/// allows, as a JVM does. The initial limit, often 1024, exists for programs that use `select`.
///
/// Returns the new number; `None` means no limit.
pub fn raise_open_files() -> std::io::Result<Option<u64>> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current)
}

/// The limits that the system sets for this process; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open files and sockets, after [`raise_open_files`].
    pub open_files: Option<u64>,
    /// Maximum number of processes and threads of this user.
    pub processes: Option<u64>,
}

/// Reads this process's limits.
pub fn limits() -> Limits {
    Limits { open_files: getrlimit(Resource::Nofile).maximum, processes: getrlimit(Resource::Nproc).current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_are_allowed() {
        let raised = raise_open_files().expect("nobody needs rights to ask for what is allowed");
        let now = getrlimit(Resource::Nofile);
        assert_eq!((now.current, now.maximum), (raised, raised));
        assert_eq!(limits().open_files, raised);
    }
}
