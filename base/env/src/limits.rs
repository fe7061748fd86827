//! What the system allows this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the number of files and sockets that this process may have open to the most that the system allows it, as a
/// JVM does. The lower limit that processes begin with, often 1024, is meant for programs that cannot take more.
///
/// Gives the number from now on; `None` is no limit.
pub fn raise_open_files() -> std::io::Result<Option<u64>> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current)
}

/// What this process may have at most; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and sockets open at once, after [`raise_open_files`].
    pub open_files: Option<u64>,
    /// Processes and threads of this user.
    pub processes: Option<u64>,
}

/// Reads the limits.
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
