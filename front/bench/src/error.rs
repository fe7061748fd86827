//! Errors of a run.

/// Why a run failed, or why its results are not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster gave an unexpected response.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The first read of a starting server has not returned the row that the first write wrote.
    #[error(
        "no read has returned the row that was written, for {waited:?}: check that nothing else deletes rows of the table"
    )]
    NotRead {
        /// The time since the beginning of the wait.
        waited: std::time::Duration,
    },
    /// Some options do not work together.
    #[error("{0}")]
    Options(String),
    /// The process to measure cannot be read.
    #[error("process {pid} cannot be looked at: {reason}; is --pid the server's, and is it yours?")]
    Process {
        /// The id of the process.
        pid: u32,
        /// The system's error.
        reason: String,
    },
    /// System calls cannot be counted.
    #[error(
        "system calls cannot be counted: {0}; leave out --count-calls, or let perf read tracepoints of this process"
    )]
    Calls(String),
    /// The processors cannot be watched.
    #[error(
        "the processors cannot be watched: {0}; leave out --calm, or run as root or with the right to go before other \
         threads (CAP_SYS_NICE)"
    )]
    Calm(std::io::Error),
    /// A file of results cannot be read or written.
    #[error("{file}: {reason}")]
    File {
        /// The name of the file.
        file: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// No thread could be started, or no timer for one.
    #[error("cannot start a thread or its timer: {0}")]
    Thread(std::io::Error),
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(std::io::Error),
    /// Operations failed or gave back what was not written. The results are printed nevertheless.
    #[error("{count} operations failed or gave back something other than what was written; see the table")]
    Failed {
        /// Number of operations that failed or returned wrong rows.
        count: u64,
    },
}
