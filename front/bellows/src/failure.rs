//! Why a command failed: one line that names the thing, the cause and what to do.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use storage::Kind;

/// The exit status of a server whose files another process has taken over. A supervisor must not start such a server
/// again, because it would take the files back.
const STATUS_TAKEN_OVER: u8 = 3;

/// The line that the command prints, and its exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    line: String,
    status: u8,
}

impl Failure {
    pub(crate) fn new(line: impl std::fmt::Display) -> Failure {
        // Messages of causes may have several lines; the failure must be one.
        Failure { line: line.to_string().replace('\n', " "), status: 1 }
    }

    /// Returns the same failure as that of a server whose files another process has taken over.
    pub(crate) fn of_takeover(self) -> Failure {
        Failure { status: STATUS_TAKEN_OVER, ..self }
    }

    /// Returns the command's exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Returns the failure for an error in the command line of `command`, such as `bellows start`.
    pub(crate) fn of_command_line(command: &str, error: &clap::Error) -> Failure {
        let text = error.to_string();
        let lines =
            text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let words: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        let words = words.join("; ");
        let words = words.strip_prefix("error: ").unwrap_or(&words);
        Failure::new(format!("{words}; {command} --help lists the options"))
    }

    /// Returns the failure of a server that cannot listen at an address. `option` is the option that chooses its port.
    pub(crate) fn of_listening(address: SocketAddr, option: &str, error: &io::Error) -> Failure {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => {
                format!(
                    "end the process that has the port, or choose another with {option} (0: any free one)"
                )
            }
            ErrorKind::AddrNotAvailable => "choose an address of this machine with --bind".to_owned(),
            ErrorKind::PermissionDenied => format!("choose a port above 1023 with {option}"),
            _ => format!("choose another address with --bind or another port with {option}"),
        };
        Failure::new(format!("cannot listen at {address}: {error}; {remedy}"))
    }

    /// Returns the failure for an error of the data directory.
    pub(crate) fn of_storage(root: impl std::fmt::Display, error: &storage::Error) -> Failure {
        Failure::of_kind(root, error.kind(), error)
    }

    /// As [`of_storage`](Failure::of_storage), for an error that is only a message.
    pub(crate) fn of_words(root: impl std::fmt::Display, words: impl std::fmt::Display) -> Failure {
        let words = words.to_string();
        let kind = if words.contains("No space left") {
            Kind::Full
        } else if words.contains("Read-only") || words.contains("Permission denied") {
            Kind::ReadOnly
        } else {
            Kind::Failed
        };
        Failure::of_kind(root, kind, words)
    }

    fn of_kind(root: impl std::fmt::Display, kind: Kind, error: impl std::fmt::Display) -> Failure {
        Failure::new(match kind {
            Kind::InUse => format!("{error}; end that process or choose another --data-dir"),
            Kind::Full => format!("the disk of {root} is full ({error}); free some space and start again"),
            Kind::ReadOnly => {
                format!(
                    "{root} cannot be written ({error}); grant the right, mount it writable, or choose another --data-dir"
                )
            }
            // This kind of error comes only from the creation of the directory itself: there is a file of that name.
            Kind::Exists => {
                format!(
                    "{root} cannot be a folder, for it or a part of its path is a file; choose another --data-dir"
                )
            }
            _ => format!("{root}: {error}"),
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.line)
    }
}

impl From<conf::Error> for Failure {
    fn from(error: conf::Error) -> Failure {
        Failure::new(error)
    }
}
