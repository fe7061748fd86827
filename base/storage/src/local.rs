//! Implements [`Files`](crate::Files) in a folder on this machine's disk.
//!
//! `fdatasync` makes a file's bytes durable. `fsync` of its folder, and of each parent folder, makes its name durable.
//! A folder that exists may have been created by a process that could not sync its parent. So the parent of each folder
//! is synced once in the life of a process.
//!
//! [`swap`](crate::Files::swap) writes the new content to a second file, syncs it, and renames it over the old one.
//! Files are renamed only there and in [`reuse_space`](crate::Files::reuse_space), and no caller notices.
//!
//! A swap or a link that finds the disk full gives up the disk's [reserve](crate::reserve) and is repeated.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::sync::Mutex;
use rustix::fs::{Access, Advice, CWD, RenameFlags, access, fadvise, renameat_with};
use rustix::io::{Errno, pwritev, retry_on_intr};

use crate::reserve::{RESERVE, Reserve, ReserveState, is_full};
use crate::{
    Capabilities, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Object, Outcome, PAGE, Result,
    Settled, Version, ZEROS_MIN, zeros_to,
};

/// The name of the file that a process locks while it uses the folder.
const LOCK: &str = "LOCK";
/// Suffix of the file with a swapped object's new content, until it replaces the old one. Such files are never listed.
const ASIDE: &str = ".swap~";
/// Maximum size in bytes of an object whose swap may use the reserve. What frees room needs smaller ones.
const RESERVED_SWAP_MAX: usize = 1 << 20;

/// Storage in a folder that only this process uses.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    /// Held by a swap while it reads, compares and replaces.
    swapping: Mutex<()>,
    /// The folders whose names are known to be durable. Held while folders are created or removed. So a folder that a
    /// writer has found is durable, and is not removed before the writer has created its file.
    folders: Mutex<HashSet<PathBuf>>,
    /// The files that have a writer, each with the lock that a seal takes. Only this process writes here, so no other
    /// file has a writer.
    writers: Arc<Mutex<HashMap<FileName, Arc<Seal>>>>,
    /// Renames a file; tests replace it by a function that fails.
    rename: fn(&Path, &Path) -> io::Result<()>,
    /// Syncs the parent of a folder; tests replace it by a function that fails.
    sync_parent: fn(&Path) -> io::Result<()>,
    reserve: Arc<Reserve>,
    /// `None` if this process cannot write to the folder.
    _lock: Option<File>,
}

/// Whether a file is sealed. Locked during each write to the file.
type Seal = Mutex<bool>;

/// Returns the absolute path of a root. Clients name files by such paths, and whether a file is the server's own is decided
/// by comparing with it.
fn absolute(root: PathBuf) -> Result<PathBuf> {
    std::path::absolute(&root).map_err(|source| {
        Error::from_io(&source, Outcome::DidNotHappen, &FileName::root(), "open")
            .because(format!("the path {} has no absolute form", root.display()))
    })
}

impl Local {
    /// Creates the writer of `file` and registers it, so that it can be sealed.
    fn writer(
        &self,
        file: File,
        name: &FileName,
        folder: PathBuf,
        old: Option<u64>,
        is_reserved: bool,
    ) -> Box<Writer> {
        let seal = Arc::new(Seal::default());
        self.writers.lock().insert(name.clone(), Arc::clone(&seal));
        Box::new(Writer {
            file,
            name: name.clone(),
            path: self.path(name),
            folder,
            size: 0,
            named: old.is_some(),
            old: old.unwrap_or(0),
            zeros_to: 0,
            seal,
            writers: Arc::clone(&self.writers),
            reserve: (!is_reserved).then(|| Arc::clone(&self.reserve)),
        })
    }

    fn create_as(&self, name: &FileName, is_reserved: bool) -> Result<Box<dyn FileWriter>> {
        let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, name, "create");
        let folder = self.folder_of(name);
        let mut folders = self.folders.lock();
        self.make_durable(&mut folders, &folder).map_err(failed)?;
        let file = OpenOptions::new().write(true).create_new(true).open(self.path(name)).map_err(failed)?;
        Ok(self.writer(file, name, folder, None, is_reserved))
    }

    /// Opens `root`, which is created if missing. A relative path counts from the process's present folder.
    ///
    /// Fails with [`Kind::InUse`] while another process holds the folder.
    pub fn open(root: impl Into<PathBuf>) -> Result<Local> {
        let root = absolute(root.into())?;
        let lock = Local::lock(&root)?;
        Ok(Local::with(root, Some(lock)))
    }

    /// Opens the existing folder `root` for a caller that writes nothing. If this process can write to it, the folder is
    /// locked as by [`open`](Local::open). On a read-only file system it is not: no server of this machine runs there.
    pub fn open_for_reading(root: impl Into<PathBuf>) -> Result<Local> {
        let root = absolute(root.into())?;
        match access(&root, Access::WRITE_OK) {
            Err(Errno::ROFS) => Ok(Local::with(root, None)),
            _ => Local::open(root),
        }
    }

    fn with(root: PathBuf, lock: Option<File>) -> Local {
        Local {
            reserve: Arc::new(Reserve::find(&root)),
            root,
            swapping: Mutex::new(()),
            folders: Mutex::default(),
            writers: Arc::default(),
            rename: |from, to| fs::rename(from, to),
            sync_parent: sync_folder,
            _lock: lock,
        }
    }

    /// Locks `root`, which is created if missing.
    fn lock(root: &Path) -> Result<File> {
        let lock_name = FileName::new(LOCK);
        let failed = |source: &io::Error, act| Error::from_io(source, Outcome::DidNotHappen, &lock_name, act);
        make_folder(root).map_err(|source| failed(&source, "make the folder of"))?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(root.join(LOCK))
            .map_err(|source| failed(&source, "open"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The content is only used in the error message, so a failure to read it is ignored.
                let _unread = Read::by_ref(&mut lock).take(32).read_to_string(&mut holder);
                let holder = holder.trim();
                let by = if holder.is_empty() {
                    "another process".to_owned()
                } else {
                    format!("process {holder}")
                };
                return Err(Error::new(Kind::InUse, Outcome::DidNotHappen, &lock_name, "lock")
                    .because(format!("{by} has the folder {} open", root.display())));
            }
            Err(fs::TryLockError::Error(source)) => return Err(failed(&source, "lock")),
        }
        let note = |lock: &mut File| -> io::Result<()> {
            lock.set_len(0)?;
            lock.rewind()?;
            writeln!(lock, "{}", std::process::id())
        };
        match note(&mut lock) {
            // The content is only used in error messages, and on a full disk an operator still needs the server.
            Err(source) if !is_full(&source) => Err(failed(&source, "write")),
            _ => Ok(lock),
        }
    }

    /// Returns the folder of this storage.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, name: &FileName) -> PathBuf {
        self.root.join(name.as_str())
    }

    fn folder_of(&self, name: &FileName) -> PathBuf {
        name.parent().map_or_else(|| self.root.clone(), |folder| self.path(&folder))
    }

    /// Creates a folder of this storage and its missing parents, and makes the name of each durable. `durable` has those
    /// that are known to be durable.
    fn make_durable(&self, durable: &mut HashSet<PathBuf>, folder: &Path) -> io::Result<()> {
        if durable.contains(folder) && folder.is_dir() {
            return Ok(());
        }
        let parent = match folder.parent() {
            Some(parent) if folder != self.root => parent,
            _ => return make_folder(folder),
        };
        self.make_durable(durable, parent)?;
        create_folder(folder)?;
        (self.sync_parent)(parent)?;
        durable.insert(folder.to_owned());
        Ok(())
    }

    /// Reads a small object; returns `None` if it does not exist.
    fn current(&self, name: &FileName) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Ok(current) => Ok(Some(current)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn collect(&self, folder: &Path, entries: &mut Vec<Entry>) -> io::Result<()> {
        let listing = match fs::read_dir(folder) {
            Ok(listing) => listing,
            // A folder that is deleted during the listing counts as empty. So does one whose name the file system does
            // not permit.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for entry in listing {
            let entry = entry?;
            let path = entry.path();
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if metadata.is_dir() {
                self.collect(&path, entries)?;
            } else if let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str)
                && name != LOCK
                && name != RESERVE
                && !name.ends_with(ASIDE)
            {
                entries.push(Entry { name: FileName::new(name), size: metadata.len() });
            }
        }
        Ok(())
    }
}

/// Creates `folder` and its missing parents, each durable in its parent.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_folder(parent)?;
        create_folder(folder)?;
        return sync_folder(parent);
    }
    create_folder(folder)?;
    sync_folder(Path::new("."))
}

/// Creates one folder, unless it exists.
fn create_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !folder.is_dir() => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Files for Local {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_as(name, false)
    }

    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_as(name, true)
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        let failed = |source: io::Error| Error::from_io(&source, Outcome::MayHaveHappened, name, "create");
        let (path, old_path, folder) = (self.path(name), self.path(given_up), self.folder_of(name));
        let mut folders = self.folders.lock();
        let file = OpenOptions::new().write(true).open(&old_path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        file.write_all_at(marker, 0).and_then(|()| file.sync_data()).map_err(failed)?;
        self.make_durable(&mut folders, &folder).map_err(failed)?;
        renameat_with(CWD, &old_path, CWD, &path, RenameFlags::NOREPLACE)
            .map_err(|source| failed(source.into()))?;
        sync_folder(&folder).map_err(failed)?;
        // Only the log calls this.
        Ok(self.writer(file, name, folder, Some(size), true))
    }

    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        let failed = |source: io::Error| Error::from_io(&source, Outcome::MayHaveHappened, to, "link");
        // The creator of the file may not have synced it, so it is synced now.
        File::open(self.path(from)).and_then(|file| file.sync_all()).map_err(failed)?;
        let folder = self.folder_of(to);
        let mut folders = self.folders.lock();
        let mut link = || {
            self.make_durable(&mut folders, &folder)?;
            fs::hard_link(self.path(from), self.path(to))
        };
        let linked = match link() {
            Err(error) if is_full(&error) && self.reserve.spend() => link(),
            linked => linked,
        };
        linked.and_then(|()| sync_folder(&folder)).map_err(failed)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let failed = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, name, "open");
        let file = File::open(self.path(name)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(
                Error::new(Kind::NotFound, Outcome::DidNotHappen, name, "open").because("it is a folder")
            );
        }
        Ok(Arc::new(Reader { file, name: name.clone(), size: metadata.len() }))
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        File::open(self.path(name))
            .and_then(|file| file.sync_data())
            .and_then(|()| sync_folder(&self.folder_of(name)))
            .map_err(|source| Error::from_io(&source, Outcome::MayHaveHappened, name, "sync"))
    }

    fn forget(&self, name: &FileName) {
        // Best effort: if the file cannot be opened, nobody can read it either.
        if let Ok(file) = File::open(self.path(name)) {
            let _kept = fadvise(&file, 0, None, Advice::DontNeed);
        }
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        // A file that is being created can be seen before its writer is registered. Its creator has this lock until the
        // writer is registered.
        drop(self.folders.lock());
        let seal = self.writers.lock().get(name).cloned();
        if let Some(seal) = seal {
            // This lock waits until a running write has ended.
            *seal.lock() = true;
            return Ok(());
        }
        self.open(name).map(drop)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.collect(&self.path(folder), &mut entries)
            .map_err(|source| Error::from_io(&source, Outcome::DidNotHappen, folder, "list"))?;
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        match fs::remove_file(self.path(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::from_io(&error, Outcome::DidNotHappen, name, "delete")),
        }
        let mut folders = self.folders.lock();
        let mut folder = name.parent();
        while let Some(empty) = folder.filter(|folder| *folder != FileName::root()) {
            let path = self.path(&empty);
            // The folder is not empty, or another thread has removed it. Then its parents stay, too.
            if fs::remove_dir(&path).is_err() {
                break;
            }
            folders.remove(&path);
            folder = empty.parent();
        }
        Ok(())
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let file = self.open(name)?;
        let size = file.size();
        if size > bytes_max as u64 {
            return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read")
                .because(format!("{size} bytes, at most {bytes_max} expected")));
        }
        let mut content = vec![0; size as usize];
        file.read_at(0, &mut content)?;
        let version = Version::new(content.as_slice());
        Ok(Object { content, version })
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let _alone = self.swapping.lock();
        let before = |source: io::Error| Error::from_io(&source, Outcome::DidNotHappen, name, "swap");
        if self.current(name).map_err(before)?.as_deref() != expected.map(Version::as_bytes) {
            return Err(Error::new(Kind::Conflict, Outcome::DidNotHappen, name, "swap"));
        }
        let folder = self.folder_of(name);
        let mut folders = self.folders.lock();
        let aside = folder.join(format!("{}{ASIDE}", name.last()));
        let mut write_aside = || -> io::Result<()> {
            self.make_durable(&mut folders, &folder)?;
            let mut file = File::create(&aside)?;
            file.write_all(new)?;
            file.sync_all()
        };
        let written = match write_aside() {
            Err(error) if is_full(&error) && new.len() <= RESERVED_SWAP_MAX && self.reserve.spend() => {
                write_aside()
            }
            written => written,
        };
        if let Err(error) = written {
            // If the second file remains, it does no harm: it is never listed or read, and the next swap overwrites it.
            let _left = fs::remove_file(&aside);
            return Err(before(error));
        }
        // If the rename reports failure, it may have happened. So from here on the outcome is unknown.
        (self.rename)(&aside, &self.path(name))
            .and_then(|()| sync_folder(&folder))
            .map_err(|source| Error::from_io(&source, Outcome::MayHaveHappened, name, "swap"))?;
        Ok(Version::new(new))
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let _alone = self.swapping.lock();
        let undecided = |source: io::Error| Error::from_io(&source, Outcome::MayHaveHappened, name, "settle");
        // A swap renames only a file that is durable. So it is enough to sync the folder.
        match sync_folder(&self.folder_of(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(undecided(error)),
            _ => {}
        }
        let current = self.current(name).map_err(undecided)?;
        Ok(Settled::of(current.as_deref(), expected, new))
    }

    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn bytes_free(&self) -> Result<u64> {
        let free = rustix::fs::statvfs(&self.root).map_err(|source| {
            Error::from_io(&source.into(), Outcome::DidNotHappen, &FileName::root(), "measure the space of")
        })?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    fn keep_reserve(&self) -> Result<ReserveState> {
        self.reserve.keep().map_err(|source| {
            Error::from_io(&source, Outcome::DidNotHappen, &FileName::new(RESERVE), "reserve space for")
        })
    }

    fn spend_reserve(&self) -> bool {
        self.reserve.spend()
    }

    fn reserve_state(&self) -> ReserveState {
        self.reserve.state()
    }
}

struct Writer {
    file: File,
    name: FileName,
    path: PathBuf,
    folder: PathBuf,
    size: u64,
    /// Whether the file's name is durable in its folder.
    named: bool,
    /// Size of the file whose space is reused, in bytes.
    old: u64,
    /// Offset up to which the old bytes are overwritten.
    zeros_to: u64,
    seal: Arc<Seal>,
    writers: Arc<Mutex<HashMap<FileName, Arc<Seal>>>>,
    /// The reserve, which this file must not use; `None` if it may.
    reserve: Option<Arc<Reserve>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut writers = self.writers.lock();
        // Another writer may have registered under this name meanwhile, and its entry must stay.
        if writers.get(&self.name).is_some_and(|seal| Arc::ptr_eq(seal, &self.seal)) {
            writers.remove(&self.name);
        }
    }
}

impl Writer {
    /// Writes `bytes`, and zeros up to the end of a page if old bytes would follow, in one write.
    fn write_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.size + bytes.len() as u64;
        let to = zeros_to(end).min(self.old).max(end);
        let zeros = &[0; PAGE as usize + ZEROS_MIN][..(to - end) as usize];
        let (mut parts, mut at) = ([IoSlice::new(bytes), IoSlice::new(zeros)], self.size);
        let mut left = &mut parts[..];
        while at < to {
            let written = retry_on_intr(|| pwritev(&self.file, left, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        self.zeros_to = to;
        Ok(())
    }

    fn sealed(&self, act: &'static str) -> Error {
        Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, act)
    }

    fn failed(&self, source: &io::Error, act: &'static str) -> Error {
        Error::from_io(source, Outcome::MayHaveHappened, &self.name, act)
    }
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let seal = Arc::clone(&self.seal);
        let sealed = seal.lock();
        if *sealed {
            return Err(self.sealed("write"));
        }
        if self.reserve.as_ref().is_some_and(|reserve| !reserve.admits(bytes.len())) {
            return Err(crate::reserve::is_spent(&self.name));
        }
        let end = self.size + bytes.len() as u64;
        let meets_old = end < self.old && end + ZEROS_MIN as u64 > self.zeros_to;
        let written =
            if meets_old { self.write_over(bytes) } else { self.file.write_all_at(bytes, self.size) };
        written.map_err(|source| self.failed(&source, "write"))?;
        self.size = end;
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        let sealed = self.seal.lock();
        if *sealed {
            return Err(self.sealed("cut"));
        }
        self.file.set_len(size).map_err(|source| self.failed(&source, "cut"))?;
        (self.size, self.old) = (size, 0);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if *self.seal.lock() {
            return Err(self.sealed("sync"));
        }
        self.file.sync_data().map_err(|source| self.failed(&source, "sync"))?;
        if !self.named {
            sync_folder(&self.folder).map_err(|source| self.failed(&source, "sync the folder of"))?;
            self.named = true;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        if self.size < self.old {
            self.cut(self.size)?;
        }
        self.sync()?;
        Ok(self.size)
    }

    fn abandon(self: Box<Self>) {
        // If the unfinished file cannot be deleted, it does no harm, because no list names it.
        let _left = fs::remove_file(&self.path);
    }
}

pub(crate) struct Reader {
    pub(crate) file: File,
    pub(crate) name: FileName,
    pub(crate) size: u64,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|source| {
            let error = Error::from_io(&source, Outcome::DidNotHappen, &self.name, "read");
            if error.kind() == Kind::TooShort {
                let wanted = buffer.len();
                error.because(format!(
                    "{wanted} bytes at offset {offset} expected, the file has {}",
                    self.size
                ))
            } else {
                error
            }
        })
    }
}

/// Reads a text file outside the data directory, such as a configuration file that an operator names.
pub fn read_text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_folder_is_used_only_after_its_parent_was_synced() {
        static FAILS: AtomicBool = AtomicBool::new(true);
        static SYNCED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        let folder =
            std::env::temp_dir().join(format!("bellows-storage-folders-{:x}", env::World::real().random()));
        let open = || {
            let mut files = Local::open(&folder).expect("a folder");
            files.sync_parent = |folder| {
                if FAILS.load(Ordering::Relaxed) {
                    return Err(io::Error::from_raw_os_error(5));
                }
                SYNCED.lock().push(folder.to_owned());
                sync_folder(folder)
            };
            files
        };
        let created = |files: &Local, name: &str| files.create(&FileName::new(name)).map(drop);
        let synced = || std::mem::take(&mut *SYNCED.lock());
        let parents = || [folder.clone(), folder.join("a")];
        let files = open();
        created(&files, "a/b/one").expect_err("the parent cannot be synced");
        FAILS.store(false, Ordering::Relaxed);
        created(&files, "a/b/one").expect("created");
        assert_eq!(synced(), parents(), "the first attempt has created a folder");
        created(&files, "a/b/two").expect("created");
        assert_eq!(synced(), [] as [PathBuf; 0], "once is enough");
        drop(files);
        let files = open();
        created(&files, "a/b/three").expect("created");
        assert_eq!(synced(), parents(), "another process may have failed");
        for name in ["a/b/one", "a/b/two", "a/b/three"] {
            files.delete(&FileName::new(name)).expect("deleted");
        }
        assert!(!folder.join("a").exists());
        created(&files, "a/b/one").expect("created");
        assert_eq!(synced(), parents(), "the folders are new");
        drop(files);
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn a_rename_that_happened_and_reported_failure_may_have_happened() {
        let unique = env::World::real().random();
        let folder = std::env::temp_dir().join(format!("bellows-storage-rename-{unique:x}"));
        let mut files = Local::open(&folder).expect("new");
        let name = FileName::new("object");
        let old = files.swap(&name, None, b"old").expect("swapped");
        files.rename = |from, to| fs::rename(from, to).and(Err(io::Error::from_raw_os_error(5)));
        let error = files.swap(&name, Some(&old), b"new").expect_err("it reports failure");
        assert_eq!(error.outcome(), Outcome::MayHaveHappened, "{error}");
        assert!(matches!(files.settle(&name, Some(&old), b"new"), Ok(Settled::Happened(_))));
        let new =
            crate::swap_confirmed(&files, &name, Some(&Version::new(*b"new")), b"newer").expect("settled");
        // The rename fails and does not happen. The swap cannot know that, so it reports an unknown outcome; `settle`
        // finds it out.
        files.rename = |_, _| Err(io::Error::from_raw_os_error(5));
        let error = files.swap(&name, Some(&new), b"newest").expect_err("it reports failure");
        assert_eq!(error.outcome(), Outcome::MayHaveHappened, "{error}");
        assert!(matches!(files.settle(&name, Some(&new), b"newest"), Ok(Settled::DidNotHappen)));
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
