//! Why the server does not start or run: one line each, with the thing and the remedy.

use std::path::Path;

use storage::Kind;

/// One line for whoever started the server.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl std::fmt::Display) -> Failure {
        // One failure is one line, whatever its causes have to say.
        Failure(line.to_string().replace('\n', " "))
    }

    /// Something about the data directory.
    pub(crate) fn of_storage(root: &Path, error: &storage::Error) -> Failure {
        let root = root.display();
        Failure::new(match error.kind() {
            Kind::InUse => format!("{error}; end that process or choose another --data-dir"),
            Kind::Full => format!("the disk of {root} is full ({error}); free some space and start again"),
            Kind::ReadOnly => {
                format!(
                    "{root} cannot be written ({error}); grant the right, mount it writable, or choose another --data-dir"
                )
            }
            _ => format!("{root}: {error}"),
        })
    }

    /// The same, when what failed only tells it in words.
    pub(crate) fn of_words(root: &Path, words: impl std::fmt::Display) -> Failure {
        let (root, words) = (root.display(), words.to_string());
        let remedy = if words.contains("No space left") {
            "; free some space and start again"
        } else if words.contains("Read-only") || words.contains("Permission denied") {
            "; grant the right, mount it writable, or choose another --data-dir"
        } else {
            ""
        };
        Failure::new(format!("{root}: {words}{remedy}"))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<conf::Error> for Failure {
    fn from(error: conf::Error) -> Failure {
        Failure::new(error)
    }
}
