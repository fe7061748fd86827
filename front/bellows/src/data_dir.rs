//! The data directory: its name, its lock and its layout version.

use std::io;
use std::path::{Path, PathBuf};

use storage::{FileName, Files, Kind, Local};

use crate::failure::Failure;

/// The newest layout version of a data directory that this program knows.
const VERSION: u32 = 1;
const VERSION_FILE: &str = "bellows.version";

/// Name of the file in a data directory that [`storage::Local`] locks.
pub(crate) const LOCK: &str = "LOCK";

/// Name of the version file in a root folder of Apache HBase.
const HBASE_VERSION_FILE: &str = "hbase.version";

/// Returns the directory named by `text`, the value of `option`: a path or a `file:` URL. As in Hadoop, letters before
/// a colon are a scheme; a directory with such a name is written `./NAME`. A directory with `://` in its name is also
/// written `./NAME`, because such a text is nearly always a mistyped URL.
pub(crate) fn folder(option: &str, text: &str) -> Result<PathBuf, Failure> {
    let expected = "expected a path or a file: URL of this machine, s3://BUCKET/FOLDER, \
                    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, or hdfs://HOST:PORT/FOLDER";
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        if text.contains("://") && !text.starts_with(['/', '.']) {
            return Err(Failure::new(format!(
                "{option} is {text:?}, {expected}: what is before :// is no scheme; a folder of this name is ./{text}"
            )));
        }
        return Ok(PathBuf::from(text));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        let reason = if rest.starts_with("//") {
            format!("the scheme {scheme}: is not served")
        } else {
            format!("this is no URL; a folder of this name is ./{text}")
        };
        return Err(Failure::new(format!("{option} is {text:?}, {expected}: {reason}")));
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => match rest.find('/') {
            Some(slash) if ["", "localhost"].contains(&&rest[..slash]) => &rest[slash..],
            _ => {
                return Err(Failure::new(format!(
                    "{option} is {text:?}, {expected}: no host may be named, as in file:///srv/bellows"
                )));
            }
        },
    };
    if path.is_empty() {
        return Err(Failure::new(format!("{option} is {text:?}, {expected}: it names no folder")));
    }
    Ok(PathBuf::from(path))
}

pub(crate) fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// To which program a folder belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootOwner {
    /// To none: the folder does not exist, or has no version file.
    Nobody,
    /// To Bellows, in a layout that this version knows.
    Bellows,
}

/// Returns to which program `root` belongs, without taking or changing it. Fails where [`open`] would refuse it.
pub(crate) fn owner_of(root: &Path) -> Result<RootOwner, Failure> {
    let read = |name: &str| match storage::read_text(&root.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(format!(
            "{}: {error}; grant the right to read it, or choose another --data-dir",
            root.join(name).display()
        ))),
    };
    if let Some(text) = read(VERSION_FILE)? {
        check_version(&root.display(), &text)?;
        return Ok(RootOwner::Bellows);
    }
    // HBase's version file is not text, so only its existence is checked.
    if storage::open_outside(&root.join(HBASE_VERSION_FILE)).is_ok() {
        return Err(of_hbase(&root.display()));
    }
    Ok(RootOwner::Nobody)
}

/// Locks `root`. Fails unless it is the root folder of an Apache HBase that was not adopted yet.
pub(crate) fn open_of_hbase(root: &Path, for_reading: bool) -> Result<Local, Failure> {
    if storage::open_outside(&root.join(VERSION_FILE)).is_ok() {
        return Err(already_adopted(&root.display()));
    }
    if let Err(error) = storage::open_outside(&root.join(HBASE_VERSION_FILE)) {
        return Err(Failure::new(format!(
            "{} is no root folder of Apache HBase ({HBASE_VERSION_FILE}: {error}); name the folder that hbase.rootdir says",
            root.display()
        )));
    }
    let opened = if for_reading { Local::open_for_reading(root) } else { Local::open(root) };
    opened.map_err(|error| Failure::of_storage(root.display(), &error))
}

/// Returns the refusal of an adoption of a root that was adopted before.
pub(crate) fn already_adopted(root: &impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "{root} is the data directory of bellows already; run bellows start --data-dir {root}"
    ))
}

/// Whether `files` have the version file of Bellows. Errors call the place `place`.
pub(crate) fn is_of_bellows(files: &dyn Files, place: impl std::fmt::Display) -> Result<bool, Failure> {
    has_file(files, VERSION_FILE, place)
}

/// Whether `files` are a data directory of Bellows or a root folder of HBase. Errors call the place `place`.
pub(crate) fn is_root(files: &dyn Files, place: &str) -> Result<bool, Failure> {
    Ok(is_of_bellows(files, place)? || has_file(files, HBASE_VERSION_FILE, place)?)
}

fn has_file(files: &dyn Files, name: &str, place: impl std::fmt::Display) -> Result<bool, Failure> {
    match files.open(&FileName::new(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(Failure::of_storage(place, &error)),
    }
}

/// Makes the root folder of an HBase a data directory of Bellows: writes its version file. From then on HBase must not
/// open it.
pub(crate) fn take(files: &dyn Files, root: impl std::fmt::Display) -> Result<(), Failure> {
    storage::swap_confirmed(files, &FileName::new(VERSION_FILE), None, format!("{VERSION}\n").as_bytes())
        .map(drop)
        .map_err(|error| Failure::of_storage(root, &error))
}

/// Locks `root`. Fails unless it is a data directory of Bellows.
pub(crate) fn open_existing(root: &Path) -> Result<Local, Failure> {
    check_owner(root)?;
    open(root)
}

/// Opens `root` for a caller that writes nothing; it may be on a read-only file system. Fails unless it is a data directory of
/// Bellows.
pub(crate) fn open_existing_for_reading(root: &Path) -> Result<Local, Failure> {
    check_owner(root)?;
    let local = Local::open_for_reading(root).map_err(|error| {
        let failure = Failure::of_storage(root.display(), &error);
        match error.kind() {
            Kind::InUse => Failure::new(format!(
                "{failure}; a server that runs checks itself: hbck_chore_run in HBase's shell, and /api/check of its web port"
            )),
            _ => failure,
        }
    })?;
    check_layout(&local, root.display())?;
    Ok(local)
}

/// Fails unless `root` is a data directory of Bellows.
fn check_owner(root: &Path) -> Result<(), Failure> {
    match owner_of(root)? {
        RootOwner::Bellows => Ok(()),
        RootOwner::Nobody => Err(Failure::new(format!(
            "{} is no data directory of bellows (it has no {VERSION_FILE}); name the one that bellows start was given",
            root.display()
        ))),
    }
}

/// Deletes the version file of a data directory that HBase can open, so that the directory no longer belongs to
/// Bellows. This is the last step of a hand-back. Errors call the directory `root`.
pub(crate) fn give(files: &dyn Files, root: impl std::fmt::Display) -> Result<(), Failure> {
    files.delete(&FileName::new(VERSION_FILE)).map_err(|error| Failure::of_storage(root, &error))
}

/// Deletes the lock file of `folder`, which HBase does not use. A failure is only logged.
pub(crate) fn forget_lock(folder: &Path) {
    if let Err(error) = storage::delete_outside(&folder.join(LOCK)) {
        tracing::debug!(%error, "the lock file stays");
    }
}

/// Deletes the reserve of `folder`, which HBase does not use. A failure is only logged.
pub(crate) fn forget_reserve(folder: &Path) {
    if let Err(error) = storage::delete_outside(&folder.join(storage::RESERVE)) {
        tracing::debug!(%error, "the reserve stays");
    }
}

/// Locks `root` and checks its layout version. An empty directory gets the current version.
pub(crate) fn open(root: &Path) -> Result<Local, Failure> {
    let local = Local::open(root).map_err(|error| Failure::of_storage(root.display(), &error))?;
    check_layout(&local, root.display())?;
    Ok(local)
}

/// Checks the version of the layout in `files`; errors call the place `root`. An empty place gets the current version.
pub(crate) fn check_layout(files: &dyn Files, root: impl std::fmt::Display) -> Result<(), Failure> {
    let name = FileName::new(VERSION_FILE);
    match files.read(&name, 64) {
        Ok(content) => check_version(&root, &String::from_utf8_lossy(&content)),
        Err(error) if error.kind() == Kind::NotFound => {
            // Bellows writes its own version file before HBase's. So a folder that has only HBase's belongs to HBase,
            // and is refused here.
            check_before_taking(files, &root)?;
            let content = format!("{VERSION}\n");
            storage::swap_confirmed(files, &name, None, content.as_bytes())
                .map_err(|error| Failure::of_storage(&root, &error))?;
            Ok(())
        }
        Err(error) => Err(Failure::of_storage(&root, &error)),
    }
}

/// Fails where [`check_layout`] would refuse the place, and writes nothing.
pub(crate) fn check_before_taking(files: &dyn Files, root: impl std::fmt::Display) -> Result<(), Failure> {
    match files.read(&FileName::new(VERSION_FILE), 64) {
        Ok(content) => check_version(&root, &String::from_utf8_lossy(&content)),
        Err(error) if error.kind() == Kind::NotFound => {
            match files.open(&FileName::new(HBASE_VERSION_FILE)) {
                Ok(_) => Err(of_hbase(&root)),
                Err(error) if error.kind() == Kind::NotFound => Ok(()),
                Err(error) => Err(Failure::of_storage(&root, &error)),
            }
        }
        Err(error) => Err(Failure::of_storage(&root, &error)),
    }
}

/// Checks the version of the layout in `files`, which another server has written.
pub(crate) fn check_is_there(files: &dyn Files, root: impl std::fmt::Display) -> Result<(), Failure> {
    match files.read(&FileName::new(VERSION_FILE), 64) {
        Ok(content) => check_version(&root, &String::from_utf8_lossy(&content)),
        Err(error) if error.kind() == Kind::NotFound => Err(Failure::new(format!(
            "{root} has no data of bellows ({VERSION_FILE} is missing): start the primary there first, or name its --data-dir"
        ))),
        Err(error) => Err(Failure::of_storage(&root, &error)),
    }
}

/// Checks the content of the version file of `root`.
fn check_version(root: &impl std::fmt::Display, text: &str) -> Result<(), Failure> {
    match text.trim().parse::<u32>() {
        Ok(found) if found <= VERSION => Ok(()),
        Ok(found) => Err(Failure::new(format!(
            "{root} was written by a newer version of bellows (layout {found}, this one knows {VERSION}); start that version, or \
             choose another --data-dir"
        ))),
        Err(_) => Err(Failure::new(format!(
            "{root}/{VERSION_FILE} holds {text:?} where a version was expected; it is damaged: restore it, or choose another \
             --data-dir"
        ))),
    }
}

fn of_hbase(root: &impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "{root} belongs to Apache HBase (it has {HBASE_VERSION_FILE} and no {VERSION_FILE}); choose another --data-dir, or stop \
         that HBase and take its data over: bellows adopt --dry-run {root}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_file_urls_name_folders_and_other_schemes_are_refused() {
        for (text, path) in [
            ("data", "data"),
            ("/srv/a:b", "/srv/a:b"),
            ("./s3:x", "./s3:x"),
            ("./://x", "./://x"),
            ("/srv/a://b", "/srv/a://b"),
            ("file:/srv/x", "/srv/x"),
            ("file:///srv/x", "/srv/x"),
            ("FILE://localhost/srv/x", "/srv/x"),
            ("file:relative", "relative"),
        ] {
            assert_eq!(folder("--data-dir", text).expect(text), Path::new(path));
        }
        for (text, reason) in [
            ("S3n://bucket/x", "or hdfs://HOST:PORT/FOLDER: the scheme S3n: is not served"),
            ("gs://bucket/x", "the scheme gs: is not served"),
            ("s3:x", "this is no URL; a folder of this name is ./s3:x"),
            (" s3://bucket/x", "no scheme; a folder of this name is ./ s3://bucket/x"),
            ("s3_a://bucket/x", "no scheme"),
            ("://x", "no scheme"),
            ("file://elsewhere/x", "no host may be named"),
            ("file://srv", "no host may be named"),
            ("file:", "it names no folder"),
        ] {
            let line = folder("--data-dir", text).expect_err(text).to_string();
            assert!(
                line.starts_with(&format!("--data-dir is {text:?}, expected a path or a file: URL")),
                "{line}"
            );
            assert!(line.contains(reason), "{line}");
        }
    }

    #[test]
    fn a_version_that_was_written_despite_an_error_is_there_after_a_crash() {
        let version = |place: &storage::Memory| place.read(&FileName::new(VERSION_FILE), 64).ok();
        let overcome = storage::at_every_false_alarm(
            |_empty| {},
            |place| check_layout(place, "root").is_ok(),
            |next, succeeded| {
                assert!(!succeeded || version(next).is_some(), "the directory is this server's");
                check_layout(next, "root").expect("the next start takes it");
                assert_eq!(version(next).expect("written"), b"1\n");
            },
        );
        assert_eq!(overcome, 1, "the version is read again");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "real folders are the point")]
    fn a_directory_of_a_newer_version_is_refused_and_left_as_it_is() {
        let root = std::env::temp_dir().join(format!("bellows-place-{:x}", env::World::real().random()));
        assert_eq!(owner_of(&root).expect("readable"), RootOwner::Nobody);
        drop(open(&root).expect("new"));
        drop(open(&root).expect("again"));
        assert_eq!(owner_of(&root).expect("readable"), RootOwner::Bellows);
        std::fs::write(root.join(VERSION_FILE), "2\n").expect("writable");
        let failure = open(&root).expect_err("newer").to_string();
        assert!(failure.contains("newer version") && failure.contains("layout 2"), "{failure}");
        assert_eq!(owner_of(&root).expect_err("newer").to_string(), failure);
        assert_eq!(std::fs::read(root.join(VERSION_FILE)).expect("there"), b"2\n");
        std::fs::remove_dir_all(&root).expect("the test's own");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "real folders are the point")]
    fn the_root_of_an_hbase_is_refused() {
        let root = std::env::temp_dir().join(format!("bellows-place-{:x}", env::World::real().random()));
        std::fs::create_dir_all(&root).expect("new");
        std::fs::write(root.join(HBASE_VERSION_FILE), "PBUF").expect("writable");
        let failure = open(&root).expect_err("of another").to_string();
        assert!(failure.contains("Apache HBase") && failure.contains("--data-dir"), "{failure}");
        assert_eq!(owner_of(&root).expect_err("of another").to_string(), failure);
        assert!(!root.join(VERSION_FILE).exists());
        std::fs::remove_dir_all(&root).expect("the test's own");
    }
}
