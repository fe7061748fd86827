//! Finds a file that is to be loaded: in the server's root, elsewhere on this machine, or in other storage.
//!
//! | path | after the load |
//! |---|---|
//! | below the root | deleted, unless the load copies |
//! | of this machine, root in a folder of this machine | deleted, unless the load copies |
//! | of this machine, root elsewhere | stays |
//! | a URL of other storage ([`ForeignStorage`]) | stays |

use std::path::PathBuf;
use std::sync::Arc;

use storage::{Error, FileName, FileReader, Files, Kind, Outcome};

/// Storage other than the root and the folders of this machine, from which files are bulk-loaded. The program that
/// starts the server implements it, because this crate knows no kind of store.
pub trait ForeignStorage: Send + Sync {
    /// Returns the place of the file at `url`, which has a scheme other than `file:`. Does not open the file. The error
    /// says why the server cannot read it, and what to do.
    fn locate(&self, url: &str) -> Result<SourcePlace, String>;
}

/// The place of a file that a URL names.
pub enum SourcePlace {
    /// A file below the server's root.
    Root(FileName),
    /// A file of other storage.
    Foreign(ForeignFile),
}

/// A file of storage other than the server's own.
pub struct ForeignFile {
    /// The storage.
    pub files: Arc<dyn Files>,
    /// The file's name in the storage.
    pub name: FileName,
    /// What an operator checks if the storage does not answer or refuses the server; part of messages.
    pub remedy: &'static str,
}

/// Why a path of a bulk load is refused. Each message says which path to name instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathRefusal {
    #[error(
        "cannot read {path}: this server reads files of its own machine only; copy it there and name it file:/PATH"
    )]
    OtherScheme { path: String },
    #[error("cannot read {path}: {reason}")]
    Foreign { path: String, reason: String },
    #[error("cannot read {path}: a path with .. is not accepted; name the file by its whole path")]
    Climbs { path: String },
    #[error("cannot read {path:?}: a path with a NUL character is not accepted; rename the file")]
    HasNul { path: String },
    #[error("cannot read {path}: the path is not absolute; name the file by its whole path")]
    NotAbsolute { path: String },
    #[error("{name} belongs to the server and a bulk load would take it away; load it with copyFiles")]
    OwnData { name: FileName },
    #[error("bulk token {token} is no folder in {staging}; use the one that PrepareBulkLoad has returned")]
    NoToken { token: String, staging: String },
}

/// The place that a path of a bulk load names.
pub(crate) enum Source {
    /// A file below the root.
    Within(FileName),
    /// A file of this machine.
    Outside {
        /// The absolute path.
        path: PathBuf,
        /// Whether the file stays after a load without a copy.
        stays: bool,
    },
    /// A file of other storage, which stays.
    Foreign {
        /// The URL as the client wrote it.
        url: String,
        /// The storage and the name there.
        file: ForeignFile,
    },
}

/// Interprets the paths of bulk loads.
pub(crate) struct SourcePaths<'a> {
    /// The folder or URL of the root, without a slash at its end.
    root: String,
    foreign: Option<&'a dyn ForeignStorage>,
}

impl<'a> SourcePaths<'a> {
    pub(crate) fn new(files: &dyn Files, foreign: Option<&'a dyn ForeignStorage>) -> SourcePaths<'a> {
        SourcePaths { root: files.place().trim_end_matches('/').to_owned(), foreign }
    }

    /// Whether the root is a folder of this machine, and not the URL of a store.
    fn is_root_local(&self) -> bool {
        !self.root.contains("://")
    }

    /// Returns the URL of a file or folder below the root.
    pub(crate) fn url(&self, name: &FileName) -> String {
        let scheme = if self.is_root_local() { "file:" } else { "" };
        format!("{scheme}{}/{name}", self.root)
    }

    /// Interprets an absolute path as Java clients write it, with or without `file:`, or a URL. A path below the root
    /// becomes [`Source::Within`]. Refuses paths with `..`, relative paths, and URLs that the foreign storage refuses.
    pub(crate) fn parse(&self, path: &str) -> Result<Source, PathRefusal> {
        let whole = || path.to_owned();
        if path.contains('\0') {
            return Err(PathRefusal::HasNul { path: whole() });
        }
        if path.split('/').any(|part| part == "..") {
            return Err(PathRefusal::Climbs { path: whole() });
        }
        let local = match path.split_once(':') {
            Some(("file", rest)) => rest,
            Some((scheme, _)) if !scheme.is_empty() && !scheme.contains('/') => {
                return match (self.below_root(path), self.foreign) {
                    (Some(name), _) if !self.is_root_local() => Ok(Source::Within(name)),
                    (_, None) => Err(PathRefusal::OtherScheme { path: whole() }),
                    (_, Some(foreign)) => match foreign.locate(path) {
                        Ok(SourcePlace::Root(name)) => Ok(Source::Within(name)),
                        Ok(SourcePlace::Foreign(file)) => Ok(Source::Foreign { url: whole(), file }),
                        Err(reason) => Err(PathRefusal::Foreign { path: whole(), reason }),
                    },
                };
            }
            _ => path,
        };
        // Earlier versions returned tokens such as `file:s3://bucket/folder/staging/…`.
        if let (Some(name), false) = (self.below_root(local), self.is_root_local()) {
            return Ok(Source::Within(name));
        }
        // `file:///a` and `file:/a` name the same file.
        let local = local.strip_prefix("//").unwrap_or(local);
        let joined = join(local);
        let local = if local.starts_with('/') { format!("/{joined}") } else { joined };
        match self.below_root(&local) {
            Some(name) => Ok(Source::Within(name)),
            None if local.len() > 1 && local.starts_with('/') => {
                Ok(Source::Outside { path: PathBuf::from(local), stays: !self.is_root_local() })
            }
            None => Err(PathRefusal::NotAbsolute { path: whole() }),
        }
    }

    /// Returns the name of a file below the root.
    fn below_root(&self, path: &str) -> Option<FileName> {
        let name = join(path.strip_prefix(&self.root)?.strip_prefix('/')?);
        (!name.is_empty()).then(|| FileName::new(name))
    }
}

/// Joins the parts of a path, without those that name no file.
fn join(path: &str) -> String {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}

impl Source {
    /// Refuses a file that a store, a snapshot or the log may need. Such a file may be loaded only as a copy, because a
    /// load without a copy deletes it.
    pub(crate) fn check_may_go(&self) -> Result<(), PathRefusal> {
        match self {
            Source::Within(name) if is_own_data(name) => Err(PathRefusal::OwnData { name: name.clone() }),
            _ => Ok(()),
        }
    }

    /// Opens the file. Errors, also those of later reads, name the path and say what to do.
    pub(crate) fn open(&self, files: &dyn Files) -> storage::Result<Arc<dyn FileReader>> {
        let (path, opened, remedy) = match self {
            Source::Within(name) => return files.open(name),
            Source::Outside { path, .. } => {
                let remedy = "check the disk and the rights of the server's user";
                (format!("file:{}", path.display()), storage::open_outside(path), remedy)
            }
            Source::Foreign { url, file } => (url.clone(), file.files.open(&file.name), file.remedy),
        };
        match opened {
            Ok(file) => Ok(Arc::new(SourceReader { file, path, remedy })),
            Err(error) => Err(explain(&error, &path, remedy)),
        }
    }

    /// Returns the name below the root; `None` for any other file.
    pub(crate) fn within(&self) -> Option<FileName> {
        match self {
            Source::Within(name) => Some(name.clone()),
            Source::Outside { .. } | Source::Foreign { .. } => None,
        }
    }

    /// Deletes the file after a load without a copy, unless it stays. If it is outside the root, its folder stays even
    /// when it becomes empty.
    pub(crate) fn delete(&self, files: &dyn Files) -> storage::Result<()> {
        match self {
            Source::Within(name) => files.delete(name),
            Source::Outside { path, stays: false } => storage::delete_outside(path),
            Source::Outside { stays: true, .. } | Source::Foreign { .. } => Ok(()),
        }
    }
}

/// A file outside the root. Its errors name the path that the client gave, and say what to do.
struct SourceReader {
    file: Arc<dyn FileReader>,
    path: String,
    remedy: &'static str,
}

impl FileReader for SourceReader {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        self.file.read_at(offset, buffer).map_err(|error| explain(&error, &self.path, self.remedy))
    }
}

/// Adds the path and what to do to an error of a file that is to be loaded. Reading it has changed nothing.
fn explain(error: &Error, path: &str, remedy: &str) -> Error {
    let remedy = match error.kind() {
        Kind::NotFound => {
            format!("check that {path} is there, and that no other program moves or deletes it")
        }
        Kind::ReadOnly => format!("give the server the right to read {path}; {remedy}"),
        Kind::TooShort => format!("{path} changed while it was read; load it when its writer has ended"),
        _ => format!("the path is {path}; {remedy}"),
    };
    Error::new(error.kind(), Outcome::DidNotHappen, error.name(), "bulk load")
        .because(format!("{error}; {remedy}"))
}

/// Whether the name is in a folder with data of the server itself, such as stores, logs or the archive. A load must not
/// delete such a file.
fn is_own_data(name: &FileName) -> bool {
    let first = name.as_str().split('/').next().unwrap_or_default();
    matches!(first, "data" | "archive" | "mobdir" | "WALs" | "oldWALs" | "MasterData" | "bellows")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a path names, as text, or the refusal.
    fn parse(root: &str, path: &str) -> Result<String, PathRefusal> {
        let paths = SourcePaths { root: root.to_owned(), foreign: None };
        paths.parse(path).map(|source| match source {
            Source::Within(name) => format!("root {name}"),
            Source::Outside { path, stays } => {
                format!("{} {}", if stays { "stays" } else { "taken" }, path.display())
            }
            Source::Foreign { url, .. } => url,
        })
    }

    #[test]
    fn paths_are_read_as_java_writes_them() {
        let text = |text: &str| Ok(text.to_owned());
        for path in ["file:///out/f/a", "file:/out/f/a", "/out/f/a", "file:/out//f/./a"] {
            assert_eq!(parse("memory", path), text("taken /out/f/a"), "{path}");
            assert_eq!(parse("s3://b/x", path), text("stays /out/f/a"), "{path}");
        }
        assert_eq!(parse("memory", "file:memory/job/f/a"), text("root job/f/a"));
        for path in ["file:///srv/x/job//a", "/srv//x/job/a", "/srv/./x/job/a"] {
            assert_eq!(parse("/srv/x", path), text("root job/a"), "{path}");
        }
        for path in ["s3://b/x/job//a", "file:s3://b/x/job/a"] {
            assert_eq!(parse("s3://b/x", path), text("root job/a"), "{path}");
        }
        for path in ["hdfs://host:8020/out/f/a", "s3a://bucket/f/a", "s3://b/xy/a"] {
            assert_eq!(parse("s3://b/x", path), Err(PathRefusal::OtherScheme { path: path.to_owned() }));
        }
        for path in ["out/f/a", "memory", "/", "file:"] {
            assert_eq!(parse("memory", path), Err(PathRefusal::NotAbsolute { path: path.to_owned() }));
        }
        for path in ["file:/out/../etc/a", "s3://b/x/../a"] {
            assert_eq!(parse("s3://b/x", path), Err(PathRefusal::Climbs { path: path.to_owned() }));
        }
        let path = "/out/\0".to_owned();
        assert_eq!(parse("memory", &path), Err(PathRefusal::HasNul { path }));
    }

    #[test]
    fn the_root_has_a_url_in_either_kind_of_storage() {
        let url = |root: &str| {
            SourcePaths { root: root.to_owned(), foreign: None }.url(&FileName::new("staging/a"))
        };
        assert_eq!(url("/srv/x"), "file:/srv/x/staging/a");
        assert_eq!(url("s3://b/x"), "s3://b/x/staging/a");
    }
}
