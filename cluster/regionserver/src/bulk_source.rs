//! Finds a file that is to be loaded: in the server's root, elsewhere on this machine, or in other storage.
//!
//! | path | after the load |
//! |---|---|
//! | below the root | deleted, unless the load copies |
//! | of this machine, root in a folder of this machine | deleted, unless the load copies |
//! | of this machine, root elsewhere | stays |
//! | a URL of other storage ([`ForeignStorage`]) | stays |
//!
//! On this machine the place is that of the file and not what the path looks like: through symbolic links, mounts or `/proc`
//! a path that is not below the root leads to the server's own files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::{Error, FileName, FileReader, Files, Kind, LocatedFile, Outcome};

/// The folders below the root, and below the place of the log, whose files a load must not delete.
const OWN_FOLDERS: [&str; 7] = ["data", "archive", "mobdir", "WALs", "oldWALs", "MasterData", "bellows"];

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

/// What a path says, before anything was looked up on this machine.
enum NamedPlace {
    /// A file below the root.
    Within(FileName),
    /// The absolute path of a file of this machine.
    Outside(PathBuf),
    /// A file of other storage: the URL as the client wrote it, and the place.
    Foreign(String, ForeignFile),
}

/// The file of a bulk load.
pub(crate) enum Source {
    /// A file below the root.
    Within {
        name: FileName,
        /// The file and its path; `None` if the root is no folder of this machine.
        located: Option<(LocatedFile, PathBuf)>,
        /// The name below the root or the log's place, if the server itself needs the file.
        own: Option<FileName>,
    },
    /// Any other file of this machine, or a symbolic link.
    Outside {
        /// The path.
        path: PathBuf,
        /// The file, or why it cannot be found.
        located: storage::Result<LocatedFile>,
        /// The name below the root or the log's place, if the server itself needs the file.
        own: Option<FileName>,
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
    /// The folder or URL of the log, which has the log's own folder.
    log: String,
    foreign: Option<&'a dyn ForeignStorage>,
}

impl<'a> SourcePaths<'a> {
    pub(crate) fn new(
        files: &dyn Files,
        log: &wal::Log,
        foreign: Option<&'a dyn ForeignStorage>,
    ) -> SourcePaths<'a> {
        SourcePaths { root: files.place().trim_end_matches('/').to_owned(), log: log.place(), foreign }
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

    /// Finds the file that a path names, which [`named`](SourcePaths::named) interprets. That nothing is there is no error
    /// before the file is opened, since a repeated call may name a file that the first one has deleted.
    pub(crate) fn find(&self, path: &str) -> Result<Source, PathRefusal> {
        Ok(match self.named(path)? {
            NamedPlace::Foreign(url, file) => Source::Foreign { url, file },
            NamedPlace::Within(name) if Path::new(&self.root).is_absolute() => {
                self.locate(Path::new(&self.root).join(name.as_str()))
            }
            NamedPlace::Within(name) => {
                let own = Some(&name).filter(|name| is_own_data(name)).cloned();
                Source::Within { name, located: None, own }
            }
            NamedPlace::Outside(path) => self.locate(path),
        })
    }

    /// Returns the folder below the root that a path names, without looking whether it is there; `None` for any other path.
    pub(crate) fn folder_within(&self, path: &str) -> Result<Option<FileName>, PathRefusal> {
        match self.named(path)? {
            NamedPlace::Within(name) => Ok(Some(name)),
            NamedPlace::Outside(_) | NamedPlace::Foreign(..) => Ok(None),
        }
    }

    /// Finds a file of this machine.
    fn locate(&self, path: PathBuf) -> Source {
        let stays = !self.is_root_local();
        let placed = LocatedFile::find(&path).and_then(|file| Ok((self.place_of(&file)?, file)));
        match placed {
            // A symbolic link is never linked into a store, because what it leads to may be deleted.
            Ok(((Some(name), own), file)) if !file.is_link() => {
                let path = Path::new(&self.root).join(name.as_str());
                Source::Within { name, located: Some((file, path)), own }
            }
            Ok(((_, own), file)) => Source::Outside { path, located: Ok(file), own, stays },
            Err(error) => Source::Outside { path, located: Err(error), own: None, stays },
        }
    }

    /// Returns the file's name below the root, if it is there, and its name below the root or the log's place, if the server
    /// itself needs it. An own folder may itself be a symbolic link to another disk.
    fn place_of(&self, file: &LocatedFile) -> storage::Result<(Option<FileName>, Option<FileName>)> {
        let (mut within, mut own) = (None, None);
        for place in [&self.root, &self.log] {
            let place = Path::new(place);
            if !place.is_absolute() {
                continue;
            }
            let name = file.path_below(place)?;
            for folder in OWN_FOLDERS {
                let below = file.path_below(&place.join(folder))?;
                own = own.or(below.map(|name| FileName::new(folder).join(name.as_str())));
            }
            own = own.or_else(|| name.clone().filter(is_own_data));
            if place == Path::new(&self.root) {
                within = name;
            }
        }
        Ok((within, own))
    }

    /// Interprets an absolute path as Java clients write it, with or without `file:`, or a URL. Refuses paths with `..`,
    /// relative paths, and URLs that the foreign storage refuses.
    fn named(&self, path: &str) -> Result<NamedPlace, PathRefusal> {
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
                    (Some(name), _) if !self.is_root_local() => Ok(NamedPlace::Within(name)),
                    (_, None) => Err(PathRefusal::OtherScheme { path: whole() }),
                    (_, Some(foreign)) => match foreign.locate(path) {
                        Ok(SourcePlace::Root(name)) => Ok(NamedPlace::Within(name)),
                        Ok(SourcePlace::Foreign(file)) => Ok(NamedPlace::Foreign(whole(), file)),
                        Err(reason) => Err(PathRefusal::Foreign { path: whole(), reason }),
                    },
                };
            }
            _ => path,
        };
        // Earlier versions returned tokens such as `file:s3://bucket/folder/staging/…`.
        if let (Some(name), false) = (self.below_root(local), self.is_root_local()) {
            return Ok(NamedPlace::Within(name));
        }
        // `file:///a` and `file:/a` name the same file.
        let local = local.strip_prefix("//").unwrap_or(local);
        let joined = join(local);
        let local = if local.starts_with('/') { format!("/{joined}") } else { joined };
        match self.below_root(&local) {
            Some(name) => Ok(NamedPlace::Within(name)),
            None if local.len() > 1 && local.starts_with('/') => {
                Ok(NamedPlace::Outside(PathBuf::from(local)))
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
        let own = match self {
            Source::Within { own, .. } | Source::Outside { own, stays: false, .. } => own.as_ref(),
            Source::Outside { .. } | Source::Foreign { .. } => None,
        };
        own.map_or(Ok(()), |name| Err(PathRefusal::OwnData { name: name.clone() }))
    }

    /// Opens the file. Errors, also those of later reads, name the path and say what to do.
    pub(crate) fn open(&self, files: &dyn Files) -> storage::Result<Arc<dyn FileReader>> {
        let (path, opened, remedy) = match self {
            Source::Within { name, located, .. } => {
                if let Some((file, path)) = located {
                    file.check_is_at(path)?;
                }
                return files.open(name);
            }
            Source::Outside { path, located, .. } => {
                let remedy = "check the disk and the rights of the server's user";
                let opened = located.as_ref().map_err(Error::clone).and_then(LocatedFile::open);
                (format!("file:{}", path.display()), opened, remedy)
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
            Source::Within { name, .. } => Some(name.clone()),
            Source::Outside { .. } | Source::Foreign { .. } => None,
        }
    }

    /// Deletes the file after a load without a copy, unless it stays. If it is outside the root, its folder stays even
    /// when it becomes empty. Fails if the path names another file by now.
    pub(crate) fn delete(&self, files: &dyn Files) -> storage::Result<()> {
        match self {
            Source::Within { name, located, .. } => {
                if let Some((file, path)) = located {
                    file.check_is_at(path)?;
                }
                files.delete(name)
            }
            Source::Outside { located: Ok(file), stays: false, .. } => file.delete(),
            Source::Outside { .. } | Source::Foreign { .. } => Ok(()),
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
    OWN_FOLDERS.contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(root: &str) -> SourcePaths<'static> {
        SourcePaths { root: root.to_owned(), log: root.to_owned(), foreign: None }
    }

    /// Returns what a path names, as text, or the refusal.
    fn parse(root: &str, path: &str) -> Result<String, PathRefusal> {
        let paths = paths(root);
        paths.named(path).map(|place| match place {
            NamedPlace::Within(name) => format!("root {name}"),
            NamedPlace::Outside(path) => {
                format!("{} {}", if paths.is_root_local() { "taken" } else { "stays" }, path.display())
            }
            NamedPlace::Foreign(url, _) => url,
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
        let url = |root: &str| paths(root).url(&FileName::new("staging/a"));
        assert_eq!(url("/srv/x"), "file:/srv/x/staging/a");
        assert_eq!(url("s3://b/x"), "s3://b/x/staging/a");
    }

    /// Whatever path leads to a file, the server's own files stay, and no other file than the one that was found is deleted.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "real files and links are the point")]
    fn a_file_is_the_servers_own_under_any_path() {
        let folder = format!("bellows-bulk-source-{:x}", env::World::real().random());
        let folder = std::env::temp_dir().join(folder);
        let [root, log] = ["root", "log"].map(|name| folder.join(name));
        let made = |path: &str| {
            let path = folder.join(path);
            let parent = path.parent().expect("in the folder");
            std::fs::create_dir_all(parent).expect("the test's own folder");
            std::fs::write(path, b"content").expect("written");
        };
        let own = [
            ("root/data/default/t/r/f/a", "data/default/t/r/f/a"),
            ("root/data/hbase/namespace/r/info/a", "data/hbase/namespace/r/info/a"),
            ("root/archive/data/default/t/r/f/a", "archive/data/default/t/r/f/a"),
            ("log/WALs/a", "WALs/a"),
            ("disk/mobs/a", "mobdir/a"),
        ];
        let moved = "data/default/moved/r/f/a";
        own.into_iter().for_each(|(path, _)| made(path));
        ["root/job/f/a", "root/job/f/b", "out/f/a", "out/f/b", "disk/t/r/f/a"].into_iter().for_each(made);
        let links = [
            ("root", "alias"),
            ("log", "logs"),
            ("root/data/default/t", "table"),
            ("root/data/default/t", "root/job/t"),
            ("disk/mobs", "root/mobdir"),
            ("disk/t", "root/data/default/moved"),
            ("root/data/default/t/r/f/a", "out/f/link"),
        ];
        for (target, link) in links {
            std::os::unix::fs::symlink(folder.join(target), folder.join(link)).expect("linked");
        }
        let at = |path: &str| folder.join(path).display().to_string();
        let behind_proc = |path: &str| format!("file:/proc/self/root{}", at(path));
        // A server's root is often given by a relative path.
        let here = std::path::absolute(".").expect("the present folder");
        let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = |path: &Path| up.join(path.strip_prefix("/").expect("absolute"));
        let files = storage::Local::open(relative(&root)).expect("the test's own folder");
        let log_files = storage::Local::open(relative(&log)).expect("the test's own folder");
        let paths = SourcePaths { root: files.place(), log: log_files.place(), foreign: None };
        let aliases = [
            ("alias/data/default/t/r/f/a", own[0].1),
            ("table/r/f/a", own[0].1),
            ("root/job/t/r/f/a", own[0].1),
            ("alias/data/hbase/namespace/r/info/a", own[1].1),
            ("logs/WALs/a", own[3].1),
            ("root/mobdir/a", own[4].1),
            ("root/data/default/moved/r/f/a", moved),
            ("alias/data/default/moved/r/f/a", moved),
        ];
        for (path, name) in own.into_iter().chain(aliases) {
            for path in [at(path), behind_proc(path)] {
                let source = paths.find(&path).expect("a path");
                let name = FileName::new(name);
                assert_eq!(source.check_may_go(), Err(PathRefusal::OwnData { name }), "{path}");
                source.open(&files).expect("may be copied");
            }
        }
        for path in ["alias/job/f/a", "root/job/f/b"] {
            let source = paths.find(&behind_proc(path)).expect("a path");
            source.check_may_go().expect("no own file");
            assert_eq!(source.within(), Some(FileName::new(format!("job/f/{}", &path[path.len() - 1..]))));
            source.delete(&files).expect("deleted");
            assert!(!folder.join(path).exists());
        }
        // A link is copied, and the link alone goes.
        for path in ["out/f/a", "out/f/link"] {
            let source = paths.find(&at(path)).expect("a path");
            source.check_may_go().expect("no own file");
            assert_eq!(source.within(), None);
            source.open(&files).expect("there");
            source.delete(&files).expect("deleted");
            assert!(!folder.join(path).is_symlink() && !folder.join(path).exists());
            source.delete(&files).expect("a repeated call");
        }
        // The path leads to the server's own file only after it was checked.
        let source = paths.find(&at("out/f/b")).expect("a path");
        source.check_may_go().expect("no own file");
        for (from, to) in [("out", "moved"), ("root/data/default/t/r", "out")] {
            std::fs::rename(folder.join(from), folder.join(to)).expect("moved");
        }
        made("out/f/b");
        source.open(&files).expect("the file that was checked");
        source.delete(&files).expect("deleted");
        assert!(folder.join("out/f/b").exists() && !folder.join("moved/f/b").exists());
        assert!(folder.join("out/f/a").exists());
        let absent = paths.find(&at("none/a")).expect("a path").open(&files).map(drop).expect_err("nothing");
        assert_eq!(absent.kind(), Kind::NotFound);
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
