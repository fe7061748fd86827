//! Ends a file of the log, and begins the next one.

use std::sync::atomic::Ordering;

use env::sync::MutexGuard;
use storage::{FileName, FileWriter, ReserveState};

use super::Shared;
use super::back::{
    Back, begin_file, file_name, index_batch, make_file, own_record, remove_spares, void_header,
};
use crate::format::{HEADER_LENGTH, Header, Kind, VERSION_OVER};
use crate::owner::NotedFiles;
use crate::{Error, Result};

/// How a thread handles a full file.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WhenFull {
    /// The thread rolls the log, and waits for the disk.
    Roll,
    /// The thread must not wait for the disk, and asks the log's thread to roll.
    Ask,
}

/// Number of parts from which a file is [worth replacing](Shared::is_worth_replacing).
const PARTS_MANY: usize = 8;

impl Shared {
    fn is_due(&self, back: &Back) -> bool {
        let is_full =
            |writer: &dyn FileWriter| writer.size() >= back.roll_at || writer.parts() >= back.roll_at_parts;
        back.writer.as_deref().is_some_and(is_full)
    }

    /// Whether the last file of a log that is closed should be one without edits, although that takes some requests more:
    /// the current file has many parts, each of which the next start would request, and no region needs it.
    pub(super) fn is_worth_replacing(&self) -> bool {
        let back = self.back();
        let parts = back.writer.as_ref().map_or(0, |writer| writer.parts());
        let is_needed = || back.live[&back.number].unflushed(&back.flushed).next().is_some();
        parts >= PARTS_MANY && !is_needed()
    }

    /// Asks the log's thread to roll if the file is full.
    pub(crate) fn ask_for_roll(&self, back: &Back) {
        if self.is_due(back) {
            self.front.lock().roll_wanted = true;
            self.disk_wanted.notify_one();
        }
    }

    /// Rolls if the file is full and no other thread waits for the disk. A failed roll is logged, and is tried again
    /// when the file has grown further.
    pub(crate) fn roll_if_due(&self) {
        if !self.is_due(&self.back()) {
            return;
        }
        if let Some(rolling) = self.rolling.try_lock() {
            self.roll_if_still_due(&rolling);
        }
    }

    pub(super) fn roll_if_still_due(&self, rolling: &MutexGuard<'_, ()>) {
        if self.is_due(&self.back()) {
            // Waiters get the failure of a dead log anyway, and a failed roll was logged.
            let _logged = self.roll(rolling);
        }
    }

    pub(super) fn roll(&self, _rolling: &MutexGuard<'_, ()>) -> Result<()> {
        let (number, spare) = {
            let mut back = self.back();
            self.drain(&mut back)?;
            // If the current file ends by its age, before it is full, the log grows slowly and needs no spares.
            if back.writer.as_ref().is_some_and(|writer| writer.size() < back.reuse_min) {
                remove_spares(&mut back.spares);
            }
            let next = match back.spares.pop_first() {
                Some((number, writer)) => (number, Some(writer)),
                None => (back.reserve(), None),
            };
            // The limit on the number of spares (`files_min`) may have been higher when they were made. One spare too
            // many is removed at each roll.
            if back.spares.len() >= self.options.files_min
                && let Some((_, last)) = back.spares.pop_last()
            {
                last.abandon();
            }
            next
        };
        if self.notes_files {
            let first = self.back().live.keys().next().copied().unwrap_or(number);
            match self.claim.note_files(NotedFiles { first, last: number }) {
                Err(error @ Error::Fenced { .. }) => {
                    self.fail(error.clone());
                    return Err(error);
                }
                Err(error) => return Err(self.put_off(&mut self.back(), &error)),
                Ok(()) => {}
            }
        }
        let made = match spare {
            Some(writer) => {
                self.counts.reused.count();
                begin_file(writer, Header { version: VERSION_OVER, epoch: self.claim.owner.epoch, number })
            }
            None => make_file(&*self.files, &self.folder, self.claim.owner.epoch, number),
        };
        let next = match made {
            Ok(next) => next,
            Err(error) if error.kind() == storage::Kind::Sealed => return Err(self.dead(number, &error)),
            Err(error) => {
                self.check_claim()?;
                return Err(self.put_off(&mut self.back(), &error));
            }
        };
        // Checks the owner after the next file was created and before anything is written to it. The module
        // [`owner`](crate::owner) says why this order is safe.
        if let Err(error) = self.check_claim() {
            next.abandon();
            return Err(error);
        }
        let (retired, old, upto) = {
            let mut back = self.back();
            match self.write_end(&mut back) {
                Ok(()) => {}
                Err(error) => {
                    next.abandon();
                    return Err(error);
                }
            }
            let (retired, old) = (back.writer.take().expect("its end was just written"), back.number);
            back.retiring = Some(old);
            back.roll_at = self.options.file_bytes_max;
            back.roll_at_parts = self.options.file_parts_max();
            back.begin(&self.folder, number, next);
            (retired, old, self.written.load(Ordering::Acquire))
        };
        let (began, parts) = (self.world.moment(), retired.parts());
        let bytes = retired.finish().map_err(|error| self.dead(old, &error))?;
        self.synced(old, began);
        self.counts.rolls.count();
        self.grown.store(true, Ordering::Relaxed);
        self.durable.fetch_max(upto, Ordering::AcqRel);
        self.is_durable_to(old, bytes);
        {
            // The `Whole` record must be in the new file before anything in that file counts as durable.
            let mut front = self.front.lock();
            let whole = own_record(Kind::Whole, old);
            whole.write(&mut front.buffer);
            front.appended += whole.size() as u64;
        }
        {
            let mut back = self.back();
            back.whole_to = Some(old);
            let ended = back.live.get_mut(&old).expect("it is kept while it retires");
            (ended.bytes, ended.parts) = (bytes, parts);
            back.retiring = None;
            back.find_unneeded(&self.world);
        }
        self.remove_unneeded_soon();
        tracing::info!(target: "wal", file = %file_name(&self.folder, old), bytes, next = number, "rolled the log");
        Ok(())
    }

    /// Fails, and ends this log, if another process has taken it over.
    pub(super) fn check_claim(&self) -> Result<()> {
        self.claim.check().inspect_err(|error| {
            if matches!(error, Error::Fenced { .. }) {
                self.fail(error.clone());
            }
        })
    }

    /// Raises the size and the number of parts at which the current file ends by a quarter, because the next file cannot
    /// be created. Returns the error for the caller of the roll.
    fn put_off(&self, back: &mut Back, cause: &dyn std::fmt::Display) -> Error {
        let size = back.writer.as_ref().map_or(0, |writer| writer.size());
        self.counts.rolls_failed.count();
        back.roll_at = size.saturating_add((self.options.file_bytes_max / 4).max(1));
        let parts = back.writer.as_ref().map_or(0, |writer| writer.parts());
        back.roll_at_parts = parts.saturating_add((self.options.file_parts_max() / 4).max(1));
        tracing::warn!(target: "wal", file = %file_name(&self.folder, back.number), bytes = size, cause = %cause,
            "the next log file cannot be made: the log goes on in this one and tries again at {} bytes; check the storage of {}",
            back.roll_at, self.files.place());
        Error::Storage(cause.to_string())
    }

    /// Writes the buffer and the record that ends the file, and syncs neither.
    fn write_end(&self, back: &mut Back) -> Result<()> {
        self.drain(back)?;
        let (number, synced, section) = (back.number, back.synced_offset, back.section);
        let Some(writer) = back.writer.as_mut() else { return Err(Error::Closed) };
        let file = back.live.get_mut(&number).expect("the current file is live");
        let (offset, index) = (writer.size(), file.section_index(back.whole_to, section.from));
        match writer.write(&index_batch(number, offset, synced, &index, section.previous, true)) {
            Ok(()) => {
                file.end_section();
                Ok(())
            }
            Err(error) if error.kind() == storage::Kind::Full => {
                writer.cut(offset).map_err(|error| self.dead(number, &error))?;
                Err(self.put_off(back, &error))
            }
            Err(error) => Err(self.dead(number, &error)),
        }
    }

    /// Ends the current file and makes everything durable.
    pub(super) fn finish_current(&self, back: &mut Back) -> Result<()> {
        let Some(mut writer) = back.writer.take() else { return Ok(()) };
        remove_spares(&mut back.spares);
        // The end record says that everything before it is durable, so this sync comes first.
        writer.sync().map_err(|error| self.dead(back.number, &error))?;
        let offset = writer.size();
        let (file, section) = (&back.live[&back.number], back.section);
        let index = file.section_index(back.whole_to, section.from);
        let last = index_batch(back.number, offset, offset, &index, section.previous, true);
        let mut written = writer.write(&last);
        if written.as_ref().is_err_and(|error| error.kind() == storage::Kind::Full)
            && self.files.spend_reserve()
        {
            written = writer.cut(offset).and_then(|()| writer.write(&last));
        }
        let finished = written.and_then(|()| writer.finish());
        let bytes = finished.map_err(|error| self.dead(back.number, &error))?;
        back.live.get_mut(&back.number).expect("the current file is live").bytes = bytes;
        self.durable.fetch_max(self.written.load(Ordering::Acquire), Ordering::AcqRel);
        self.is_durable_to(back.number, bytes);
        Ok(())
    }

    /// Removes unneeded files like [`remove_unneeded`](Shared::remove_unneeded), but only on storage with one sync at a
    /// time, such as a local disk. In an object store a removal takes many requests. There the next
    /// [`tidy`](super::Log::tidy) removes the files, so that no flush, sync or start waits.
    pub(super) fn remove_unneeded_soon(&self) {
        if self.syncs_at_once == 1 {
            self.remove_unneeded();
        }
    }

    /// Removes unneeded files, or turns them into spares. Must be called without locks, because removing a large file
    /// takes time.
    pub(super) fn remove_unneeded(&self) {
        let mut files = std::mem::take(&mut self.back().unneeded);
        // If another process has taken over the log, that process decides which files are needed.
        if files.is_empty() || self.check_claim().is_err() {
            self.back().unneeded.append(&mut files);
            return;
        }
        // The files that could not be removed stay in the list, and the next call tries them again.
        files.retain(|file| {
            !(file.can_be_reused && self.make_spare(&file.name)) && self.files.delete(&file.name).is_err()
        });
        if !files.is_empty() {
            self.back().unneeded.append(&mut files);
        }
    }

    /// Whether the file `name` has the header of a spare that this owner made.
    fn is_own_spare(&self, name: &FileName) -> bool {
        let mut header = [0; HEADER_LENGTH];
        let read = self.files.open(name).and_then(|file| file.read_at(0, &mut header));
        let own = void_header(self.claim.owner.epoch);
        read.is_ok() && Header::parse(&header) == Some(own)
    }

    /// Turns the file `old` into a spare, if the log may keep so many files and the disk has room. Returns whether it did.
    pub(super) fn make_spare(&self, old: &FileName) -> bool {
        // A dead log creates no files: another process may own the folder.
        if self.front.lock().failure.is_some() {
            return false;
        }
        let number = {
            let mut back = self.back();
            let has_enough = back.live.len() + back.spares.len() >= self.options.files_max;
            let is_short = self.is_full() || self.files.reserve_state() == ReserveState::Spent;
            if back.writer.is_none() || has_enough || !back.reuses() || is_short {
                return false;
            }
            back.reserve()
        };
        let name = file_name(&self.folder, number);
        match self.files.reuse_space(&name, old, &void_header(self.claim.owner.epoch).to_bytes()) {
            Ok(writer) => {
                self.back().add_spare(number, writer);
                true
            }
            Err(error) => {
                // A full disk may have room later. Any other failure would occur again with the next file.
                let again = matches!(error.kind(), storage::Kind::Full | storage::Kind::Exists);
                if !again {
                    self.back().stop_reuse();
                }
                tracing::warn!(target: "wal", file = %old, cause = %error, tried_again = again,
                    "the space of a log file cannot be reused; bellows.wal.reuse=false turns reuse off");
                // The rename may have happened although the call failed. Then the file with the new name is this
                // owner's spare and must be deleted here, or the next owner would find it. But the file may also belong
                // to another owner, which is taking over the log.
                if self.is_own_spare(&name) {
                    let _left = self.files.delete(&name);
                }
                false
            }
        }
    }
}
