//! Where a file to be loaded is: in the server's storage, or elsewhere on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use rpc::Exception;
use storage::{FileName, FileReader, Files};

use super::is_own_data;

/// The place that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A file below the root directory.
    Within(FileName),
    /// An absolute path of this machine.
    Outside(PathBuf),
}

/// The URL of a file or folder below the root directory.
pub(super) fn url(files: &dyn Files, name: &FileName) -> String {
    format!("file:{}/{name}", files.place())
}

impl Source {
    /// Reads a path as Java clients write it: with or without `file:`, absolute.
    pub(super) fn parse(files: &dyn Files, path: &str) -> Result<Source, Exception> {
        let refused = |why: &str| Err(Exception::do_not_retry(format!("cannot read {path}: {why}")));
        let local = match path.split_once(':') {
            Some(("file", rest)) => rest,
            Some((scheme, _)) if !scheme.is_empty() && !scheme.contains('/') => {
                return refused(
                    "this server reads files of its own machine only; copy it there and name it file:/PATH",
                );
            }
            _ => path,
        };
        // `file:///a` and `file:/a` are the same.
        let local = local.strip_prefix("//").unwrap_or(local);
        if local.split('/').any(|part| part == "..") {
            return refused("a path with .. is not accepted; name the file by its whole path");
        }
        let within = local.strip_prefix(&files.place()).and_then(|rest| rest.strip_prefix('/'));
        match within {
            Some(name) if !name.is_empty() => Ok(Source::Within(FileName::new(name))),
            _ if local.starts_with('/') => Ok(Source::Outside(PathBuf::from(local))),
            _ => refused("the path is not absolute; name the file by its whole path"),
        }
    }

    /// Refuses a file that a store, a snapshot or the log may need, because a load without copying deletes it.
    pub(super) fn check_may_go(&self) -> Result<(), Exception> {
        match self {
            Source::Within(name) if is_own_data(name) => Err(Exception::do_not_retry(format!(
                "{name} belongs to the server and a bulk load would take it away; load it with copyFiles"
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn open(&self, files: &dyn Files) -> storage::Result<Arc<dyn FileReader>> {
        match self {
            Source::Within(name) => files.open(name),
            Source::Outside(path) => storage::open_outside(path),
        }
    }

    /// Its name below the root directory; `None` outside.
    pub(super) fn within(&self) -> Option<FileName> {
        match self {
            Source::Within(name) => Some(name.clone()),
            Source::Outside(_) => None,
        }
    }

    /// Deletes the file. Its folder outside the root directory stays.
    pub(super) fn delete(&self, files: &dyn Files) -> storage::Result<()> {
        match self {
            Source::Within(name) => files.delete(name),
            Source::Outside(path) => storage::delete_outside(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Memory;

    #[test]
    fn paths_are_read_as_java_writes_them() {
        let files = Memory::new();
        let parse = |path: &str| Source::parse(&files, path).map_err(|refused| refused.message);
        for path in ["file:///out/f/a", "file:/out/f/a", "/out/f/a"] {
            assert_eq!(parse(path), Ok(Source::Outside(PathBuf::from("/out/f/a"))), "{path}");
        }
        assert_eq!(parse("file:memory/job/f/a"), Ok(Source::Within(FileName::new("job/f/a"))));
        assert_eq!(url(&files, &FileName::new("job/f/a")), "file:memory/job/f/a");
        for (path, why) in [
            ("hdfs://host:8020/out/f/a", "copy it there"),
            ("s3a://bucket/f/a", "copy it there"),
            ("out/f/a", "not absolute"),
            ("file:/out/../etc/a", "by its whole path"),
            ("memory", "not absolute"),
        ] {
            assert!(parse(path).expect_err(path).contains(why), "{path}");
        }
    }
}
