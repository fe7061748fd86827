//! Files of this machine outside the data directory, which an operator names by path: those of a bulk load.
//!
//! The files belong to the operator. The server only reads them, and deletes a file once its content has been taken
//! over.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, stat, statat, unlinkat};
use rustix::io::Errno;

use crate::local::Reader;
use crate::{Error, FileName, FileReader, Kind, Outcome, Result};

/// Opens the file at an absolute path for reading. Fails with [`Kind::NotFound`] if it does not exist or is a folder.
pub fn open_outside(path: &Path) -> Result<Arc<dyn FileReader>> {
    let name = name_of(path)?;
    let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, &name, "open");
    // Without the flag, the opening of a pipe would wait for somebody who writes into it. It has no effect on a file.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    reader(file, name).map(|(reader, _)| reader)
}

/// Returns a reader of an open file and the file's identity. Fails with [`Kind::NotFound`] if it is a folder or a pipe.
fn reader(file: File, name: FileName) -> Result<(Arc<dyn FileReader>, FileId)> {
    let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, &name, "open");
    let found = fstat(&file).map_err(|source| failed(source.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(
            Error::new(Kind::NotFound, Outcome::DidNotHappen, &name, "open").because("it is not a file")
        );
    }
    let size = file.metadata().map_err(failed)?.len();
    Ok((Arc::new(Reader { file, name, size }), FileId::of(&found)))
}

/// Deletes the file at an absolute path, but not its folder. Deleting an absent file succeeds.
pub fn delete_outside(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::from_io(&error, Outcome::DidNotHappen, &name_of(path)?, "delete"))
        }
        _ => Ok(()),
    }
}

/// The device and the inode, by which a file or folder is recognised under any path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(found: &Stat) -> FileId {
        FileId { device: found.st_dev, inode: found.st_ino }
    }
}

/// A file of this machine that was found by its path, and the folders above it.
///
/// One file has many paths: through symbolic links, bind mounts, or `/proc/self/root`. So a caller that may not delete
/// certain files cannot go by the path. The folder of the file is kept open, and it is compared with other folders by
/// device and inode, as are the folders above it, and those that the path names on its way there.
/// [`open`](LocatedFile::open) and [`delete`](LocatedFile::delete) act in that folder and on that file only, whatever the path
/// names by then. A folder that is bind-mounted hides the folders which are above it in its file system, so it is not recognised
/// as being below these.
#[derive(Debug)]
pub struct LocatedFile {
    /// The folder, opened without the right to read it.
    folder: OwnedFd,
    /// The folder and all folders above it, and then those that the path names, each with the rest of the path.
    folders: Vec<(FileId, PathBuf)>,
    /// The name in the folder.
    entry: OsString,
    id: FileId,
    is_link: bool,
    /// For messages.
    name: FileName,
}

impl LocatedFile {
    /// Finds the file at `path`. If the path ends in a symbolic link, that link is what is located. Fails with
    /// [`Kind::NotFound`] if nothing is there.
    pub fn find(path: &Path) -> Result<LocatedFile> {
        let name = name_of(path)?;
        let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, &name, "find");
        let (Some(folder), Some(entry)) = (path.parent(), path.file_name()) else {
            return Err(Error::new(Kind::NotFound, Outcome::DidNotHappen, &name, "find")
                .because("the path names no file"));
        };
        let folder_path = fs::canonicalize(folder).map_err(failed)?;
        let of_errno = |source: Errno| failed(source.into());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&folder_path, flags, Mode::empty()).map_err(of_errno)?;
        let found = statat(&folder, entry, AtFlags::SYMLINK_NOFOLLOW).map_err(of_errno)?;
        let whole = folder_path.join(entry);
        let rest =
            |above: &Path, path: &Path| path.strip_prefix(above).map(Path::to_owned).unwrap_or_default();
        let mut folders = vec![(FileId::of(&fstat(&folder).map_err(of_errno)?), rest(&folder_path, &whole))];
        let mut above = openat(&folder, "..", flags, Mode::empty()).map_err(of_errno)?;
        for path in folder_path.ancestors().skip(1) {
            folders.push((FileId::of(&fstat(&above).map_err(of_errno)?), rest(path, &whole)));
            above = openat(&above, "..", flags, Mode::empty()).map_err(of_errno)?;
        }
        // A link in one of these folders may lead out of it, but the folder's owner names the file by that link.
        for above in path.ancestors().skip(1) {
            let below = rest(above, path);
            let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
            if let (true, Ok(found)) = (is_plain, stat(above)) {
                folders.push((FileId::of(&found), below));
            }
        }
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        let (entry, id) = (entry.to_owned(), FileId::of(&found));
        Ok(LocatedFile { folder, folders, entry, id, is_link, name })
    }

    /// Whether a symbolic link was found, and not the file itself.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    /// Opens the file, or the file to which the symbolic link leads, for reading. Fails with [`Kind::NotFound`] if it is a
    /// folder, or if another file has taken its place.
    pub fn open(&self) -> Result<Arc<dyn FileReader>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = if self.is_link { flags } else { flags | OFlags::NOFOLLOW };
        let opened = openat(&self.folder, &self.entry, flags, Mode::empty());
        let opened = opened
            .map_err(|source| Error::from_io(&source.into(), Outcome::DidNotHappen, &self.name, "open"))?;
        let (reader, id) = reader(opened.into(), self.name.clone())?;
        if !self.is_link && id != self.id {
            return Err(self.replaced("open"));
        }
        Ok(reader)
    }

    /// Deletes the file, or the symbolic link but not the file to which it leads. Succeeds if nothing is there any more. Fails
    /// if another file has taken its place, which stays.
    pub fn delete(&self) -> Result<()> {
        let failed =
            |source: Errno| Error::from_io(&source.into(), Outcome::DidNotHappen, &self.name, "delete");
        match statat(&self.folder, &self.entry, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileId::of(&found) != self.id => return Err(self.replaced("delete")),
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(source) => return Err(failed(source)),
        }
        match unlinkat(&self.folder, &self.entry, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(source) => Err(failed(source)),
        }
    }

    /// Fails with [`Kind::NotFound`] unless `path` names this file.
    pub fn check_is_at(&self, path: &Path) -> Result<()> {
        match statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileId::of(&found) == self.id => Ok(()),
            Ok(_) => Err(self.replaced("find")),
            Err(source) => Err(Error::from_io(&source.into(), Outcome::DidNotHappen, &self.name, "find")),
        }
    }

    /// Returns the file's path below `folder`, which may itself be named by any of its paths; `None` if the file is
    /// elsewhere, or the folder does not exist.
    pub fn path_below(&self, folder: &Path) -> Result<Option<FileName>> {
        let failed =
            |source: Errno| Error::from_io(&source.into(), Outcome::DidNotHappen, &self.name, "find");
        let id = match stat(folder) {
            Ok(found) => FileId::of(&found),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let Some((_, below)) = self.folders.iter().find(|(above, _)| *above == id) else { return Ok(None) };
        // The path was looked up before the folder was opened, and may have been another one's by then.
        self.check_is_at(&folder.join(below))?;
        name_of(below).map(Some)
    }

    fn replaced(&self, act: &'static str) -> Error {
        Error::new(Kind::NotFound, Outcome::DidNotHappen, &self.name, act)
            .because("another file has taken its place")
    }
}

/// Returns the path, without its leading slash, as a name for messages.
fn name_of(path: &Path) -> Result<FileName> {
    path.to_str().map(|path| FileName::new(path.trim_start_matches('/'))).ok_or_else(|| {
        let name = FileName::new(path.to_string_lossy().trim_start_matches('/'));
        Error::new(Kind::NotFound, Outcome::DidNotHappen, &name, "open").because("the path is not UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path of a folder for one test.
    fn folder() -> PathBuf {
        std::env::temp_dir().join(format!("bellows-storage-outside-{:x}", env::World::real().random()))
    }

    #[test]
    fn a_located_file_is_known_by_its_folders_under_any_path() {
        let folder = folder();
        let root = folder.join("root");
        fs::create_dir_all(root.join("data/t")).expect("the test's own folder");
        fs::create_dir(folder.join("rooted")).expect("made");
        let path = root.join("data/t/file");
        fs::write(&path, b"content").expect("written");
        std::os::unix::fs::symlink(&root, folder.join("alias")).expect("linked");
        std::os::unix::fs::symlink(root.join("data"), folder.join("deep")).expect("linked");
        let behind_proc = Path::new("/proc/self/root").join(path.strip_prefix("/").expect("absolute"));
        for place in [path.clone(), folder.join("alias/data/t/file"), folder.join("deep/t/file"), behind_proc]
        {
            let found = LocatedFile::find(&place).expect("there");
            for root in [root.clone(), folder.join("alias")] {
                let below = found.path_below(&root).expect("compared");
                assert_eq!(below, Some(FileName::new("data/t/file")), "{}", place.display());
            }
            let below = found.path_below(&folder.join("deep")).expect("compared");
            assert_eq!(below, Some(FileName::new("t/file")), "{}", place.display());
            for other in ["rooted", "none", "root/data/t/file"] {
                assert_eq!(found.path_below(&folder.join(other)).expect("compared"), None, "{other}");
            }
        }
        // The root has a link to a folder elsewhere.
        fs::write(folder.join("rooted/far"), b"content").expect("written");
        std::os::unix::fs::symlink(folder.join("rooted"), root.join("data/moved")).expect("linked");
        for place in ["root/data/moved/far", "alias/data/moved/far"] {
            let found = LocatedFile::find(&folder.join(place)).expect("there");
            let below = found.path_below(&root).expect("compared");
            assert_eq!(below, Some(FileName::new("data/moved/far")), "{place}");
        }
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn only_the_located_file_is_opened_and_deleted() {
        let folder = folder();
        fs::create_dir(&folder).expect("the test's own folder");
        let [path, other, link] = ["file", "other", "link"].map(|name| folder.join(name));
        fs::write(&path, b"content").expect("written");
        fs::write(&other, b"another").expect("written");
        std::os::unix::fs::symlink(&other, &link).expect("linked");
        let found = LocatedFile::find(&path).expect("there");
        assert_eq!(found.open().expect("opened").size(), 7);
        fs::rename(&other, &path).expect("replaced");
        for outcome in [found.open().map(drop), found.delete(), found.check_is_at(&path)] {
            let error = outcome.expect_err("another file");
            assert!(error.to_string().contains("another file has taken its place"), "{error}");
        }
        assert!(path.exists(), "the other file stays");
        fs::rename(&path, &other).expect("moved");
        found.delete().expect("nothing is there");
        let found = LocatedFile::find(&link).expect("there");
        assert!(found.is_link());
        assert_eq!(found.open().expect("opened").size(), 7);
        found.delete().expect("deleted");
        assert!(!link.is_symlink() && other.exists(), "the link alone is deleted");
        assert_eq!(LocatedFile::find(&link).map(drop).expect_err("gone").kind(), Kind::NotFound);
        let error = LocatedFile::find(&folder).expect("there").open().map(drop).expect_err("a folder");
        assert_eq!(error.kind(), Kind::NotFound, "{error}");
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn a_file_outside_is_read_and_deleted_and_a_folder_is_not() {
        let folder = folder();
        let path = folder.join("file");
        fs::create_dir(&folder).expect("the test's own folder");
        fs::write(&path, b"content").expect("written");
        let mut read = [0; 4];
        open_outside(&path).expect("there").read_at(3, &mut read).expect("read");
        assert_eq!(&read, b"tent");
        let pipe = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        for place in [&folder, &folder.join("other"), &pipe] {
            let error = open_outside(place).map(drop).expect_err("no file");
            assert_eq!(error.kind(), Kind::NotFound, "{error}");
        }
        delete_outside(&path).expect("deleted");
        delete_outside(&path).expect("deleted before");
        delete_outside(&pipe).expect("deleted");
        assert!(delete_outside(&folder).is_err(), "folders stay");
        fs::remove_dir(&folder).expect("empty");
    }
}
