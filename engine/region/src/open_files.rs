//! Files in use by this process, which the janitor must keep.
//!
//! ```text
//! open    a store lists the file, or a reader has it open since before the store dropped it
//! pinned  the file is being written and no list names it yet, a reference to it is being made, or it is being opened
//! ```
//!
//! Before the janitor asks other holders it [condemns](OpenFiles::condemn) a file. That fails while the file is in use;
//! afterwards nobody can make a reference to it. So no reference is made to a file that is about to be deleted.
//!
//! A region may still open a condemned file to which an existing list refers. So the janitor
//! [asks again](CondemnedFile::begin_deletion) directly before it deletes the file, and leaves a file that is in use by
//! then. While it deletes the file, openers wait. They find the file gone afterwards, and look in the archive.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use env::sync::{Condvar, Mutex};
use hfile::Reader;
use storage::FileName;

#[derive(Debug, Default)]
struct FileUse {
    /// The readers of the file. A reader lives as long as a cursor over the file.
    readers: Vec<Weak<Reader>>,
    pins: usize,
    fate: Fate,
}

/// What the janitor does with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    /// Nothing.
    #[default]
    Spared,
    /// It finds out whether the file has a holder.
    Condemned,
    /// It deletes the file.
    Deleted,
}

impl FileUse {
    fn is_in_use(&self) -> bool {
        self.pins > 0 || self.readers.iter().any(|reader| reader.strong_count() > 0)
    }
}

/// The files in use by this process, shared by all regions of a server.
#[derive(Debug, Default)]
pub struct OpenFiles {
    uses: Mutex<BTreeMap<FileName, FileUse>>,
    /// Notified when the janitor has decided about a file, and has deleted it or not.
    decided: Condvar,
    kept: Mutex<KeptReaders>,
}

/// Maximum number of MOB files that stay open for the next reader, by default.
const KEPT_READERS_MAX: usize = 1_000;

/// Readers of MOB files that stay open after their use: the most recently used ones. They do not keep a file from being
/// deleted, because the janitor closes them.
#[derive(Debug)]
struct KeptReaders {
    max: usize,
    uses: u64,
    /// The kept readers, each with the number of its last use.
    readers: BTreeMap<FileName, (u64, Arc<Reader>)>,
}

impl Default for KeptReaders {
    fn default() -> KeptReaders {
        KeptReaders { max: KEPT_READERS_MAX, uses: 0, readers: BTreeMap::new() }
    }
}

/// A file that is in use until this value is dropped.
#[derive(Debug)]
pub struct PinnedFile {
    all: Arc<OpenFiles>,
    name: FileName,
}

/// A file to which no reference can be made until this value is dropped.
#[derive(Debug)]
pub(crate) struct CondemnedFile<'a> {
    all: &'a OpenFiles,
    name: &'a FileName,
}

impl OpenFiles {
    /// Creates the set of files in use. Up to `max` MOB files stay open for the next reader
    /// (`hbase.mob.file.cache.size`).
    pub fn keeping(max: usize) -> OpenFiles {
        let kept = KeptReaders { max, ..KeptReaders::default() };
        OpenFiles { kept: Mutex::new(kept), ..OpenFiles::default() }
    }

    /// Records that a file has a reader. The caller has [pinned](OpenFiles::pin_to_open) the file since before it opened
    /// it, or a list of its own region names the file.
    pub(crate) fn opened(&self, reader: &Arc<Reader>) {
        let mut uses = self.uses.lock();
        let file_use = uses.entry(reader.name().clone()).or_default();
        file_use.readers.retain(|reader| reader.strong_count() > 0);
        file_use.readers.push(Arc::downgrade(reader));
    }

    /// Keeps a reader open for later readers of its file. If there are too many, the reader that was unused for longest
    /// is closed.
    pub(crate) fn keep(&self, reader: &Arc<Reader>) {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let last_use = kept.uses;
        kept.readers.insert(reader.name().clone(), (last_use, Arc::clone(reader)));
        if kept.readers.len() > kept.max {
            let oldest = kept.readers.iter().min_by_key(|(_, (last_use, _))| *last_use);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                kept.readers.remove(&oldest);
            }
        }
    }

    /// Returns the reader that was kept for a file; `None` if there is none.
    pub(crate) fn kept(&self, name: &FileName) -> Option<Arc<Reader>> {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let last_use = kept.uses;
        let (used, reader) = kept.readers.get_mut(name)?;
        *used = last_use;
        Some(Arc::clone(reader))
    }

    /// Whether a file is pinned, or has readers, including [kept](OpenFiles::keep) ones.
    pub(crate) fn is_in_use(&self, name: &FileName) -> bool {
        self.uses.lock().get(name).is_some_and(FileUse::is_in_use)
    }

    /// Returns the readers of all files in use. As long as the caller has them, the files stay in use.
    pub(crate) fn readers(&self) -> Vec<Arc<Reader>> {
        let uses = self.uses.lock();
        uses.values().flat_map(|file_use| file_use.readers.iter().filter_map(Weak::upgrade)).collect()
    }

    /// Pins a file that is about to be written or referred to. Returns `None` if the janitor is about to delete it.
    pub fn pin(self: &Arc<Self>, name: &FileName) -> Option<PinnedFile> {
        let mut uses = self.uses.lock();
        let file_use = uses.entry(name.clone()).or_default();
        if file_use.fate != Fate::Spared {
            return None;
        }
        file_use.pins += 1;
        Some(PinnedFile { all: Arc::clone(self), name: name.clone() })
    }

    /// Pins a file that is about to be opened, which need not exist. A condemned file is pinned, too. If the janitor is
    /// deleting the file, waits until it has done so.
    pub(crate) fn pin_to_open(self: &Arc<Self>, name: &FileName) -> PinnedFile {
        let mut uses = self.uses.lock();
        while uses.get(name).is_some_and(|file_use| file_use.fate == Fate::Deleted) {
            self.decided.wait(&mut uses);
        }
        uses.entry(name.clone()).or_default().pins += 1;
        PinnedFile { all: Arc::clone(self), name: name.clone() }
    }

    /// Prevents references to a file, and closes its kept reader. Returns `None` if the file is in use or already
    /// condemned.
    pub(crate) fn condemn<'a>(&'a self, name: &'a FileName) -> Option<CondemnedFile<'a>> {
        let kept = self.kept.lock().readers.remove(name);
        // A kept reader has no user, so it does not count as use.
        drop(kept);
        let mut uses = self.uses.lock();
        let file_use = uses.entry(name.clone()).or_default();
        if file_use.fate != Fate::Spared || file_use.is_in_use() {
            return None;
        }
        *file_use = FileUse { fate: Fate::Condemned, ..FileUse::default() };
        Some(CondemnedFile { all: self, name })
    }
}

impl Drop for PinnedFile {
    fn drop(&mut self) {
        let mut uses = self.all.uses.lock();
        if let Some(file_use) = uses.get_mut(&self.name) {
            file_use.pins -= 1;
            if file_use.fate == Fate::Spared && !file_use.is_in_use() {
                uses.remove(&self.name);
            }
        }
    }
}

impl CondemnedFile<'_> {
    pub(crate) fn name(&self) -> &FileName {
        self.name
    }

    /// Returns false if the file was opened or pinned since it was condemned, so that it must not be deleted. Otherwise
    /// openers wait until this value is dropped. The caller deletes the file and drops this value at once.
    pub(crate) fn begin_deletion(&self) -> bool {
        let mut uses = self.all.uses.lock();
        let file_use = uses.entry(self.name.clone()).or_default();
        if file_use.is_in_use() {
            return false;
        }
        file_use.fate = Fate::Deleted;
        true
    }
}

impl Drop for CondemnedFile<'_> {
    fn drop(&mut self) {
        let mut uses = self.all.uses.lock();
        if let Some(file_use) = uses.get_mut(self.name) {
            file_use.fate = Fate::Spared;
            if !file_use.is_in_use() {
                uses.remove(self.name);
            }
        }
        self.all.decided.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn files_in_use_are_not_condemned_and_condemned_files_are_not_pinned() {
        let (all, name) = (Arc::new(OpenFiles::default()), FileName::new("a"));
        let (one, two) = (all.pin(&name), all.pin(&name));
        drop(one);
        assert!(two.is_some() && all.condemn(&name).is_none());
        drop(two);
        let condemned = all.condemn(&name).expect("nobody has it");
        assert!(all.pin(&name).is_none() && all.condemn(&name).is_none());
        drop(condemned);
        assert!(all.pin(&name).is_some());
        assert!(all.uses.lock().is_empty(), "unused files have no entry");
    }

    #[test]
    fn a_condemned_file_that_is_opened_is_not_deleted() {
        let (all, name) = (Arc::new(OpenFiles::default()), FileName::new("a"));
        let condemned = all.condemn(&name).expect("nobody has it");
        let opening = all.pin_to_open(&name);
        assert!(!condemned.begin_deletion());
        drop(opening);
        assert!(all.pin(&name).is_none(), "it is still condemned");
        assert!(condemned.begin_deletion());
        drop(condemned);
        assert!(all.uses.lock().is_empty(), "unused files have no entry");
    }

    #[test]
    fn an_opener_waits_until_a_file_is_deleted() {
        let (all, name) = (Arc::new(OpenFiles::default()), FileName::new("a"));
        let condemned = all.condemn(&name).expect("nobody has it");
        assert!(condemned.begin_deletion());
        let is_deleted = Arc::new(AtomicBool::new(false));
        let (begun, begins) = std::sync::mpsc::channel();
        let opener = env::spawn_thread("opener", env::Priority::Foreground, {
            let (all, name, is_deleted) = (Arc::clone(&all), name.clone(), Arc::clone(&is_deleted));
            move || {
                begun.send(()).expect("the test waits");
                let _pin = all.pin_to_open(&name);
                is_deleted.load(Ordering::SeqCst)
            }
        });
        begins.recv().expect("the opener runs");
        (0..1_000).for_each(|_| std::thread::yield_now());
        is_deleted.store(true, Ordering::SeqCst);
        drop(condemned);
        assert!(opener.expect("a thread").join().expect("no panic"));
    }
}
