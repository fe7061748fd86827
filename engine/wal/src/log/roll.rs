//! The end of a file and the beginning of the next.

use std::sync::atomic::Ordering;

use env::sync::MutexGuard;
use storage::FileName;

use super::Shared;
use super::back::{Back, begin_file, file_name, give_back, index_batch, make_file, own_record, void_header};
use crate::format::{Header, Kind, VERSION_OVER};
use crate::{Error, Result};

/// What a writer does that finds the file full.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WhenFull {
    /// It waits for the disk and begins the next file.
    Roll,
    /// It must not wait: the log's thread is asked to.
    Ask,
}

impl Shared {
    fn is_due(&self, back: &Back) -> bool {
        back.writer.as_ref().is_some_and(|writer| writer.size() >= back.roll_at)
    }

    /// Asks the log's thread for a roll if the file is full.
    pub(crate) fn ask_for_roll(&self, back: &Back) {
        if self.is_due(back) {
            self.front.lock().roll_wanted = true;
            self.disk_wanted.notify_one();
        }
    }

    /// Rolls if the file is full and nobody else is at it. A roll that came to nothing is told in the log and tried
    /// again when the file has grown.
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
            // A dead log has told everybody; one that could not roll has told the operator.
            let _told = self.roll(rolling);
        }
    }

    pub(super) fn roll(&self, _rolling: &MutexGuard<'_, ()>) -> Result<()> {
        let (number, ready) = {
            let mut back = self.back();
            self.drain(&mut back)?;
            // Who writes so little that time ends the file needs no space beforehand.
            if back.writer.as_ref().is_some_and(|writer| writer.size() < back.reuse_min) {
                give_back(&mut back.ready);
            }
            let next = match back.ready.pop_first() {
                Some((number, writer)) => (number, Some(writer)),
                None => (back.reserve(), None),
            };
            // What a time of much memory has left goes bit by bit.
            if back.ready.len() >= self.options.files_min
                && let Some((_, last)) = back.ready.pop_last()
            {
                last.abandon();
            }
            next
        };
        let made = match ready {
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
        // After the file is made, and before anything is written to it: see `owner`.
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
            back.begin(&self.folder, number, next);
            (retired, old, self.written.load(Ordering::Acquire))
        };
        let began = self.world.moment();
        let bytes = retired.finish().map_err(|error| self.dead(old, &error))?;
        self.synced(old, began);
        self.counts.rolls.count();
        self.grown.store(true, Ordering::Relaxed);
        self.durable.fetch_max(upto, Ordering::AcqRel);
        self.is_durable_to(old, bytes);
        {
            // Before anything in the new file is called durable, the new file says that the old one is.
            let mut front = self.front.lock();
            let whole = own_record(Kind::Whole, old);
            whole.write(&mut front.buffer);
            front.appended += whole.size() as u64;
        }
        {
            let mut back = self.back();
            back.whole_to = Some(old);
            back.live.get_mut(&old).expect("it is kept while it retires").bytes = bytes;
            back.retiring = None;
            back.forget(self.world.moment());
        }
        self.remove_unneeded();
        tracing::info!(target: "wal", file = %file_name(&self.folder, old), bytes, next = number, "rolled the log");
        Ok(())
    }

    /// Fails when another has taken the log, and ends this one then.
    fn check_claim(&self) -> Result<()> {
        self.claim.check().inspect_err(|error| {
            if matches!(error, Error::Fenced { .. }) {
                self.fail(error.clone());
            }
        })
    }

    /// The next file cannot be begun: the current one grows on for a while.
    fn put_off(&self, back: &mut Back, cause: &storage::Error) -> Error {
        let size = back.writer.as_ref().map_or(0, |writer| writer.size());
        self.counts.rolls_failed.count();
        back.roll_at = size.saturating_add((self.options.file_bytes_max / 4).max(1));
        tracing::warn!(target: "wal", file = %file_name(&self.folder, back.number), bytes = size, cause = %cause,
            "the next log file cannot be begun: this one goes on, and it is tried again at {} bytes; see to the disk",
            back.roll_at);
        Error::Storage(cause.to_string())
    }

    /// Writes what was appended meanwhile, and that the file ends there; it is not durable yet.
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

    /// Writes the batch that says the file is whole, and makes everything durable.
    pub(super) fn finish_current(&self, back: &mut Back) -> Result<()> {
        let Some(mut writer) = back.writer.take() else { return Ok(()) };
        give_back(&mut back.ready);
        // This end record says that all before it is durable, so it is, before the record is written.
        writer.sync().map_err(|error| self.dead(back.number, &error))?;
        let offset = writer.size();
        let (file, section) = (&back.live[&back.number], back.section);
        let index = file.section_index(back.whole_to, section.from);
        let last = index_batch(back.number, offset, offset, &index, section.previous, true);
        let finished = writer.write(&last).and_then(|()| writer.finish());
        let bytes = finished.map_err(|error| self.dead(back.number, &error))?;
        back.live.get_mut(&back.number).expect("the current file is live").bytes = bytes;
        self.durable.fetch_max(self.written.load(Ordering::Acquire), Ordering::AcqRel);
        self.is_durable_to(back.number, bytes);
        Ok(())
    }

    /// Removes files outside of the locks, for a large one takes the system its time, or makes others of them that are begun later
    /// in their space.
    pub(super) fn remove_unneeded(&self) {
        let mut files = std::mem::take(&mut self.back().unneeded);
        // Whoever has taken the log decides what is needed of it.
        if files.is_empty() || self.check_claim().is_err() {
            self.back().unneeded.append(&mut files);
            return;
        }
        // A file that could not be removed is tried again at the next occasion.
        files.retain(|file| {
            !(file.can_be_reused && self.reuse(&file.name)) && self.files.delete(&file.name).is_err()
        });
        if !files.is_empty() {
            self.back().unneeded.append(&mut files);
        }
    }

    /// Makes a file to come of `old`, if the log may need as many. Says whether `old` is gone by it.
    fn reuse(&self, old: &FileName) -> bool {
        // Who is at an end begins nothing: somebody else may own the folder.
        if self.front.lock().failure.is_some() {
            return false;
        }
        let number = {
            let mut back = self.back();
            let has_enough = back.live.len() + back.ready.len() >= self.options.files_max;
            if back.writer.is_none() || has_enough || !back.reuses() {
                return false;
            }
            back.reserve()
        };
        let name = file_name(&self.folder, number);
        match self.files.reuse_space(&name, old, &void_header(self.claim.owner.epoch).to_bytes()) {
            Ok(writer) => {
                self.back().take_up(number, writer);
                true
            }
            Err(error) => {
                // A full disk may have room again. What else does not work here will not work for the next file either.
                let again = matches!(error.kind(), storage::Kind::Full | storage::Kind::Exists);
                if !again {
                    self.back().reuse_no_more();
                }
                tracing::warn!(target: "wal", file = %old, cause = %error, tried_again = again,
                    "the space of a log file cannot be used again; bellows.wal.reuse=false does without");
                // It may have its new name all the same, which was this log's to give. What stays is found by the next life.
                if error.kind() != storage::Kind::Exists {
                    let _left = self.files.delete(&name);
                }
                false
            }
        }
    }
}
