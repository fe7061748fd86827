//! Writes the buffer as batches, handles a full disk, syncs, and wakes waiters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::{Outcome, ReserveState};

use super::back::{Back, Batch, OpenSection, empty_batch, file_name, index_batch, remove_spares};
use super::{Front, Shared};
use crate::commit::Waiter;
use crate::format::{BATCH_HEADER_LENGTH, BatchHeader};
use crate::index::FileSpan;
use crate::{Error, Level, Result};

impl Shared {
    /// Returns the position in the stream of records up to which they have reached `level`.
    pub(crate) fn reached(&self, level: Level) -> u64 {
        match level {
            Level::Os => self.written.load(Ordering::Acquire),
            Level::Disk => self.durable.load(Ordering::Acquire),
        }
    }

    /// Writes all appended records to the file as one batch. If an earlier batch waits because the disk was full,
    /// writes that batch first. Waiters are woken when the back is released.
    pub(crate) fn drain(&self, back: &mut Back) -> Result<()> {
        if let Some(failure) = &self.front.lock().failure {
            return Err(failure.clone());
        }
        if let Some(stuck) = back.stuck.take() {
            self.write_batch(back, stuck)?;
        }
        self.drain_buffer(back)?;
        match self.files.reserve_state() {
            ReserveState::Spent => self.is_short(back),
            _ if self.is_full() => self.has_room(),
            _ => {}
        }
        Ok(())
    }

    /// Writes the records of the buffer as one batch.
    fn drain_buffer(&self, back: &mut Back) -> Result<()> {
        let batch = {
            let mut front = self.front.lock();
            if front.buffer.len() == BATCH_HEADER_LENGTH {
                return Ok(());
            }
            let spare = std::mem::take(&mut back.spare);
            Batch {
                bytes: std::mem::replace(&mut front.buffer, spare),
                regions: std::mem::take(&mut front.regions),
                newest_nonce: front.newest_nonce.take(),
                upto: front.appended,
                records: std::mem::take(&mut front.records),
            }
        };
        self.write_batch(back, batch)
    }

    fn write_batch(&self, back: &mut Back, mut batch: Batch) -> Result<()> {
        let Some(writer) = back.writer.as_mut() else {
            return Err(Error::Closed);
        };
        let offset = writer.size();
        let (header, payload) = batch.bytes.split_at_mut(BATCH_HEADER_LENGTH);
        header.copy_from_slice(&BatchHeader::of(back.number, offset, back.synced_offset, payload).to_bytes());
        let mut written = writer.write(&batch.bytes);
        let is_full = |error: &storage::Error| error.kind() == storage::Kind::Full;
        // The disk is full: removing the spares may free enough space for another attempt.
        if written.as_ref().is_err_and(is_full) && remove_spares(&mut back.spares) {
            writer.cut(offset).map_err(|error| self.dead(back.number, &error))?;
            written = writer.write(&batch.bytes);
        }
        if written.as_ref().is_err_and(is_full) && self.may_use_reserve() && self.files.spend_reserve() {
            writer.cut(offset).map_err(|error| self.dead(back.number, &error))?;
            written = writer.write(&batch.bytes);
        }
        if let Err(error) = written {
            if !is_full(&error) {
                return Err(self.dead(back.number, &error));
            }
            // A part of the batch may be written, and the next attempt must begin at the same offset.
            writer.cut(offset).map_err(|error| self.dead(back.number, &error))?;
            back.stuck = Some(batch);
            back.spare = empty_batch();
            return Err(self.is_full_now(&error));
        }
        let Batch { mut bytes, regions, newest_nonce, upto, records } = batch;
        self.counts.appends.add(records);
        self.counts.writes.count();
        self.counts.bytes.add(bytes.len() as u64);
        let span = FileSpan { offset, length: bytes.len() as u64 };
        let file = back.live.get_mut(&back.number).expect("the current file is live");
        for (region, sequences) in regions {
            file.note_written(region, sequences, span);
        }
        file.newest_nonce = file.newest_nonce.max(newest_nonce);
        self.written.store(upto, Ordering::Release);
        // A very large write has made this buffer grow. It is freed, so that the memory is not kept.
        if bytes.capacity() > 2 * self.options.buffer_bytes_max {
            bytes = empty_batch();
        }
        bytes.truncate(BATCH_HEADER_LENGTH);
        back.spare = bytes;
        if span.end() - back.section.from >= self.options.index_every {
            self.write_index(back)?;
        }
        Ok(())
    }

    /// Writes the index of the section that ends here. If the disk has no room for the index, this is no failure, and
    /// the section continues.
    fn write_index(&self, back: &mut Back) -> Result<()> {
        let (number, synced, section) = (back.number, back.synced_offset, back.section);
        let Some(writer) = back.writer.as_mut() else { return Ok(()) };
        let file = back.live.get_mut(&number).expect("the current file is live");
        let (offset, index) = (writer.size(), file.section_index(back.whole_to, section.from));
        match writer.write(&index_batch(number, offset, synced, &index, section.previous, false)) {
            Ok(()) => {
                file.end_section();
                back.section = OpenSection { from: writer.size(), previous: Some(offset) };
                Ok(())
            }
            Err(error) if error.kind() == storage::Kind::Full => {
                writer.cut(offset).map_err(|error| self.dead(number, &error))
            }
            Err(error) => Err(self.dead(number, &error)),
        }
    }

    /// Whether a record that is not written yet may use the reserve.
    fn may_use_reserve(&self) -> bool {
        self.front.lock().reserve_wanted > self.reached(Level::Os)
    }

    /// Gives the error of a full disk to all waiters whose [`Patience`](crate::commit::Patience) is at its end, and returns it.
    fn is_full_now(&self, cause: &storage::Error) -> Error {
        let error = Error::Full {
            place: self.files.place(),
            cause: cause.to_string(),
            outcome: Outcome::MayHaveHappened,
        };
        let (waiters, is_news) = {
            let mut front = self.front.lock();
            let is_news = front.full.is_none();
            front.full = Some(error.clone());
            // If the reserve was wanted before this attempt, it had no room. A record that asks for it later is tried again.
            front.reserve_failed = front.reserve_wanted;
            self.full.store(true, Ordering::Relaxed);
            self.counts.full.count();
            let waiters = std::mem::take(&mut front.waiters);
            let (told, kept) = waiters
                .into_iter()
                .partition::<Vec<_>, _>(|waiter| front.gets_error(waiter.patience, waiter.ticket));
            front.waiters = kept;
            (told, is_news)
        };
        if is_news {
            tracing::error!(target: "wal", place = self.files.place(), cause = %cause,
                "the disk is full: writes are refused until there is room; free some space, no restart is needed");
        }
        // The log's thread will try again.
        self.disk_wanted.notify_one();
        for waiter in waiters {
            waiter.waker.wake();
        }
        error
    }

    /// Refuses new writes, although everything is written: the room that is left is that of the spent reserve. Asks the
    /// storage to keep the reserve again.
    fn is_short(&self, back: &mut Back) {
        remove_spares(&mut back.spares);
        match self.files.keep_reserve() {
            Ok(ReserveState::Spent) => {}
            Ok(_) => return self.has_room(),
            Err(error) if !self.is_full() => tracing::warn!(target: "wal", %error,
                "the reserve cannot be kept again, so writes stay refused; if this stays, stop the server, delete the file and start \
                 again"),
            Err(_) => {}
        }
        if !self.is_full() {
            let cause = "the disk was full, and what it has free is less than twice its reserve".to_owned();
            let full = Error::Full { place: self.files.place(), cause, outcome: Outcome::MayHaveHappened };
            self.front.lock().full = Some(full);
            self.full.store(true, Ordering::Relaxed);
            // The log's thread will ask again.
            self.disk_wanted.notify_one();
        }
    }

    fn has_room(&self) {
        if !self.is_full() {
            return;
        }
        self.front.lock().full = None;
        self.full.store(false, Ordering::Relaxed);
        tracing::info!(target: "wal", place = self.files.place(), "the disk has space again: writes are accepted");
    }

    /// Counts a sync of file `number`, and logs a slow one.
    pub(super) fn synced(&self, number: u64, began: env::Moment) {
        let took = self.world.moment().since(began);
        self.counts.syncs.record_time(took);
        if took > self.options.slow_sync {
            self.counts.slow_syncs.count();
            tracing::warn!(target: "wal", file = %file_name(&self.folder, number), ms = took.as_millis() as u64,
                "slow sync: the storage of the log is busy or failing");
        }
    }

    /// Ends the log because of `cause`, and returns the error. Every later call returns the error of the first such
    /// failure.
    pub(super) fn dead(&self, number: u64, cause: &storage::Error) -> Error {
        let error = match cause.kind() {
            storage::Kind::Sealed => self.claim.fenced(),
            _ => {
                let file = file_name(&self.folder, number);
                // The next process must not replay records that only the system's memory has: its own sync would report
                // success, writes would build on them, and a loss of power would take them.
                self.files.forget(&file);
                Error::Dead { place: self.files.place(), file, cause: cause.to_string() }
            }
        };
        self.fail(error.clone());
        error
    }

    pub(crate) fn fail(&self, error: Error) {
        let (waiters, watchers) = {
            let mut front = self.front.lock();
            front.failure.get_or_insert(error);
            (std::mem::take(&mut front.waiters), std::mem::take(&mut front.watchers))
        };
        for waker in waiters.into_iter().map(|waiter| waiter.waker).chain(watchers) {
            waker.wake();
        }
    }

    /// Whether a batch waits for room on the disk. If so, only the log's thread tries to write.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Wakes all waiters whose ticket was reached, in one pass. If there is something to write and the disk is not
    /// full, also wakes one waiter for [`Level::Os`], which becomes the next leader.
    pub(crate) fn wake_reached(&self) {
        let (written, durable) = (self.reached(Level::Os), self.reached(Level::Disk));
        let woken: Vec<Waiter> = {
            let mut front = self.front.lock();
            let can_lead =
                front.failure.is_none() && front.full.is_none() && front.buffer.len() > BATCH_HEADER_LENGTH;
            let mut leader = !can_lead;
            front
                .waiters
                .extract_if(.., |waiter| match waiter.level {
                    Level::Disk => waiter.ticket.0 <= durable,
                    Level::Os if waiter.ticket.0 <= written => true,
                    Level::Os => !std::mem::replace(&mut leader, true),
                })
                .collect()
        };
        for waiter in woken {
            waiter.waker.wake();
        }
    }

    /// Runs the log's thread: it syncs for all waiters, writes records for which nobody waits, and retries when the
    /// disk is full.
    pub(super) fn sync_for_waiters(self: &Arc<Self>) {
        *self.thread.lock() = Some(env::this_thread());
        loop {
            let wanted = {
                let mut front = self.front.lock();
                loop {
                    if front.stopping || front.failure.is_some() {
                        return;
                    }
                    if front.full.is_some() {
                        // A record that may use the reserve is written and synced at once.
                        if !self.reserve_is_awaited(&front) {
                            self.disk_wanted.wait_for(&mut front, self.options.full_retry);
                        }
                        break true;
                    }
                    if front.disk_wanted > self.sync_begun(&front) {
                        let (now, buffered) = (self.world.moment(), front.buffer.len());
                        let of_budget = |waited| self.files.sync_pause(waited);
                        match front.syncs.pause(now, self.syncs_at_once, buffered, of_budget) {
                            None => break true,
                            Some(pause) => {
                                self.disk_wanted.wait_for(&mut front, pause);
                                continue;
                            }
                        }
                    }
                    if std::mem::take(&mut front.roll_wanted) {
                        break false;
                    }
                    let waited = self.disk_wanted.wait_for(&mut front, self.options.idle_write);
                    if !waited.timed_out() {
                        continue;
                    }
                    if !self.writes_through && front.appended > self.sync_begun(&front) {
                        // On this storage written records do not survive the process, so the records are synced
                        // instead.
                        front.disk_wanted = front.appended;
                        continue;
                    }
                    if front.buffer.len() > BATCH_HEADER_LENGTH {
                        break false;
                    }
                }
            };
            {
                let rolling = self.rolling.lock();
                // If the log has failed, the waiters have already got the error.
                let drained = self.drain(&mut self.back());
                if drained.is_ok() {
                    self.roll_if_still_due(&rolling);
                    let is_wanted = wanted && {
                        let front = self.front.lock();
                        front.disk_wanted > self.sync_begun(&front)
                    };
                    let _seen = match is_wanted {
                        false => Ok(()),
                        true if self.syncs_at_once > 1 => self.begin_sync(&mut self.back()),
                        true => self.sync_file(&mut self.back()),
                    };
                }
            }
        }
    }

    /// Whether a record that may use the reserve waits for a write or a sync, and the reserve has not failed it.
    fn reserve_is_awaited(&self, front: &Front) -> bool {
        let is_unwritten = front.reserve_wanted > self.reached(Level::Os);
        // Not every written record waits for a sync. One that does not must not keep the thread from its pause.
        let is_unsynced = front.reserve_wanted.min(front.disk_wanted) > self.sync_begun(front);
        front.reserve_wanted > front.reserve_failed && (is_unwritten || is_unsynced)
    }

    /// Returns the position in the stream of records up to which a sync has ended or is under way.
    fn sync_begun(&self, front: &Front) -> u64 {
        self.reached(Level::Disk).max(front.syncs.sent)
    }

    /// Writes the buffer and begins a sync of the current file, which [`sync_ended`](Shared::sync_ended) ends. The caller
    /// has the rolling lock, so the previous file is durable.
    fn begin_sync(self: &Arc<Self>, back: &mut Back) -> Result<()> {
        let durable = *self.durable_at.lock();
        if durable.file == back.number {
            back.synced_offset = back.synced_offset.max(durable.offset);
        }
        self.drain(back)?;
        let (upto, number) = (self.written.load(Ordering::Acquire), back.number);
        let Some(writer) = back.writer.as_mut() else { return Err(Error::Closed) };
        let (offset, began) = (writer.size(), self.world.moment());
        self.front.lock().syncs.begin(upto, began);
        let shared = Arc::clone(self);
        writer.sync_later(Box::new(move |outcome| shared.sync_ended(number, offset, upto, began, outcome)));
        Ok(())
    }

    /// Records the outcome of a sync that ran beside others. The storage calls this with success only when every
    /// earlier sync of the file has succeeded. It must not lock the back: a thread that has the back may wait for it.
    fn sync_ended(
        &self,
        number: u64,
        offset: u64,
        upto: u64,
        began: env::Moment,
        outcome: storage::Result<()>,
    ) {
        match outcome {
            Ok(()) => {
                self.synced(number, began);
                self.is_durable_to(number, offset);
                self.durable.fetch_max(upto, Ordering::AcqRel);
            }
            // Only the first of several failed syncs is reported. `dead` also asks the storage whether another process
            // has taken the log.
            Err(error) if self.front.lock().failure.is_none() => drop(self.dead(number, &error)),
            Err(_) => {}
        }
        self.front.lock().syncs.end(self.world.moment().since(began));
        self.disk_wanted.notify_one();
        self.wake_reached();
    }

    /// Writes the buffer and syncs the current file. The caller has the rolling lock, so the previous file is durable.
    fn sync_file(&self, back: &mut Back) -> Result<()> {
        self.drain(back)?;
        let upto = self.written.load(Ordering::Acquire);
        if let Some(writer) = back.writer.as_mut() {
            let began = self.world.moment();
            if !env::planted(2) {
                let synced = match writer.sync() {
                    Err(_) if env::planted(46) => writer.sync(),
                    synced => synced,
                };
                synced.map_err(|error| self.dead(back.number, &error))?;
            }
            back.synced_offset = writer.size();
            self.synced(back.number, began);
        }
        self.durable.fetch_max(upto, Ordering::AcqRel);
        self.is_durable_to(back.number, back.synced_offset);
        Ok(())
    }
}
