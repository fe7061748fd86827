//! Finds a file that is to be loaded: in the server's storage, or elsewhere on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use storage::{FileName, FileReader, Files};

/// Why a path of a bulk load is refused. Each message says which path to name instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathRefusal {
    #[error(
        "cannot read {path}: this server reads files of its own machine only; copy it there and name it file:/PATH"
    )]
    OtherScheme { path: String },
    #[error("cannot read {path}: a path with .. is not accepted; name the file by its whole path")]
    Climbs { path: String },
    #[error("cannot read {path}: the path is not absolute; name the file by its whole path")]
    NotAbsolute { path: String },
    #[error("{name} belongs to the server and a bulk load would take it away; load it with copyFiles")]
    OwnData { name: FileName },
    #[error("bulk token {token} is no folder in {staging}; use the one that PrepareBulkLoad has returned")]
    NoToken { token: String, staging: String },
}

/// The place that a path of a bulk load names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file below the root directory.
    Within(FileName),
    /// An absolute path of this machine.
    Outside(PathBuf),
}

/// Returns the URL of a file or folder below the root directory.
pub(crate) fn url(files: &dyn Files, name: &FileName) -> String {
    format!("file:{}/{name}", files.place())
}

impl Source {
    /// Reads an absolute path as Java clients write it, with or without `file:`. Refuses other schemes, paths with `..`
    /// and relative paths. A path below the root directory becomes [`Source::Within`].
    pub(crate) fn parse(files: &dyn Files, path: &str) -> Result<Source, PathRefusal> {
        let whole = || path.to_owned();
        let local = match path.split_once(':') {
            Some(("file", rest)) => rest,
            Some((scheme, _)) if !scheme.is_empty() && !scheme.contains('/') => {
                return Err(PathRefusal::OtherScheme { path: whole() });
            }
            _ => path,
        };
        // `file:///a` and `file:/a` name the same file.
        let local = local.strip_prefix("//").unwrap_or(local);
        if local.split('/').any(|part| part == "..") {
            return Err(PathRefusal::Climbs { path: whole() });
        }
        let within = local.strip_prefix(&files.place()).and_then(|rest| rest.strip_prefix('/'));
        match within {
            Some(name) if !name.is_empty() => Ok(Source::Within(FileName::new(name))),
            _ if local.starts_with('/') => Ok(Source::Outside(PathBuf::from(local))),
            _ => Err(PathRefusal::NotAbsolute { path: whole() }),
        }
    }

    /// Refuses a file that a store, a snapshot or the log may need. Such a file may be loaded only as a copy, because a
    /// load without a copy deletes it.
    pub(crate) fn check_may_go(&self) -> Result<(), PathRefusal> {
        match self {
            Source::Within(name) if is_own_data(name) => Err(PathRefusal::OwnData { name: name.clone() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn open(&self, files: &dyn Files) -> storage::Result<Arc<dyn FileReader>> {
        match self {
            Source::Within(name) => files.open(name),
            Source::Outside(path) => storage::open_outside(path),
        }
    }

    /// Returns the name below the root directory; `None` for a file outside.
    pub(crate) fn within(&self) -> Option<FileName> {
        match self {
            Source::Within(name) => Some(name.clone()),
            Source::Outside(_) => None,
        }
    }

    /// Deletes the file. If it is outside the root directory, its folder stays even when it becomes empty.
    pub(crate) fn delete(&self, files: &dyn Files) -> storage::Result<()> {
        match self {
            Source::Within(name) => files.delete(name),
            Source::Outside(path) => storage::delete_outside(path),
        }
    }
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
    use storage::Memory;

    #[test]
    fn paths_are_read_as_java_writes_them() {
        let files = Memory::new();
        let parse = |path: &str| Source::parse(&files, path);
        for path in ["file:///out/f/a", "file:/out/f/a", "/out/f/a"] {
            assert_eq!(parse(path), Ok(Source::Outside(PathBuf::from("/out/f/a"))), "{path}");
        }
        assert_eq!(parse("file:memory/job/f/a"), Ok(Source::Within(FileName::new("job/f/a"))));
        assert_eq!(url(&files, &FileName::new("job/f/a")), "file:memory/job/f/a");
        for path in ["hdfs://host:8020/out/f/a", "s3a://bucket/f/a"] {
            assert_eq!(parse(path), Err(PathRefusal::OtherScheme { path: path.to_owned() }));
        }
        for path in ["out/f/a", "memory"] {
            assert_eq!(parse(path), Err(PathRefusal::NotAbsolute { path: path.to_owned() }));
        }
        let climbing = "file:/out/../etc/a".to_owned();
        assert_eq!(parse(&climbing), Err(PathRefusal::Climbs { path: climbing }));
    }
}
