//! Records timestamps of recent writes to rows, so that no write hides a later one.
//!
//! A version hides versions with older timestamps, and a delete marker also hides versions with its own timestamp. So
//! two kinds of writes would hide writes that are acknowledged after them. HBase behaves like that (HBASE-25975), but
//! is slower: a server that answers in microseconds meets the first kind in half of all quick put-delete-put sequences.
//!
//! - *A delete*, when a put in the same millisecond follows. The put waits for the next millisecond. A put before the
//!   delete needs no wait, since the delete should hide it. All mutations of one RowMutations keep one timestamp.
//! - *A write stamped ahead of the clock.* An increment or append gets the timestamp of the cell that it replaces, plus
//!   1 ms; a put after a check gets that of the tested cell. The next write of the row gets the same timestamp, or
//!   after a delete the next one.
//!
//! Both apply with [`RegionOptions::put_waits_for_delete`](crate::RegionOptions::put_waits_for_delete).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use cell::Timestamp;
use env::WallTime;

/// Number of slots for rows. It is a multiple of the number of row locks, so that one lock guards each slot.
const SLOTS: u64 = 8192;
/// Number of bits of a slot that have a tag of the row. The other bits have the time in ms.
const TAG_BITS: u32 = 20;
/// Tag of a slot that two rows share.
const ANY_ROW: u64 = 0;
/// Maximum time in ms that a put waits. A delete further in the future was made before the clock was set back.
const WAIT_MAX_MS: i64 = 10;
/// Maximum time in ms by which a timestamp may be ahead of the clock to be applied to later writes of the row. A
/// timestamp further ahead was chosen by a client for the cell that was replaced, and does not concern the row's other
/// columns.
const AHEAD_MAX_MS: i64 = 1_000;

/// The recorded times of deletes, and of writes that were stamped ahead of the clock.
pub(crate) struct WriteTimes {
    deletes: RowTimes,
    ahead: RowTimes,
}

impl WriteTimes {
    pub(crate) fn new() -> WriteTimes {
        WriteTimes { deletes: RowTimes::new(), ahead: RowTimes::new() }
    }

    /// Whether a delete would hide a put at `now`. The caller holds the row's lock. `hash` is called only if some row
    /// had a delete just now.
    pub(crate) fn hides(&self, hash: impl FnOnce() -> u64, now: WallTime) -> bool {
        self.deletes.newest_of(hash, now, WAIT_MAX_MS).is_some()
    }

    /// Returns the time with which to stamp a write at `now`. The caller holds the row's lock.
    pub(crate) fn stamp(&self, hash: impl FnOnce() -> u64, now: WallTime) -> WallTime {
        self.ahead.newest_of(hash, now, AHEAD_MAX_MS).unwrap_or(now)
    }

    /// Records a delete at `now`. The caller holds the row's lock.
    pub(crate) fn note_delete(&self, hash: u64, now: WallTime) {
        match self.stamp(|| hash, now) {
            stamp if stamp == now => self.deletes.note(hash, now, now),
            // A later write cannot wait until the clock reaches this stamp. So it gets the timestamp after the stamp.
            stamp => self.ahead.note(hash, WallTime(stamp.0 + 1), now),
        }
    }

    /// Records that a cell was stamped with `timestamp` at `now`. The caller holds the row's lock. `hash` is called
    /// only if the timestamp is ahead of the clock.
    pub(crate) fn note_stamp(&self, hash: impl FnOnce() -> u64, timestamp: Timestamp, now: WallTime) {
        if (1..=AHEAD_MAX_MS).contains(&timestamp.0.saturating_sub(now.0)) {
            self.ahead.note(hash(), WallTime(timestamp.0), now);
        }
    }
}

/// The newest time recorded for each row, in a fixed number of slots.
struct RowTimes {
    /// The newest time recorded for any row, in ms.
    newest: AtomicI64,
    slots: Box<[AtomicU64]>,
}

impl RowTimes {
    fn new() -> RowTimes {
        RowTimes { newest: AtomicI64::new(i64::MIN), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    fn slot(&self, hash: u64) -> (&AtomicU64, u64) {
        (&self.slots[(hash % SLOTS) as usize], (hash >> (u64::BITS - TAG_BITS)) | 1)
    }

    /// Records a time of a row. The caller holds the row's lock. If two rows share a slot at about the same time, both
    /// get the later time.
    fn note(&self, hash: u64, time: WallTime, now: WallTime) {
        let (slot, tag) = self.slot(hash);
        let (time, noted) = (time.0.max(0) as u64, slot.load(Relaxed));
        let (noted_time, noted_tag) = (noted >> TAG_BITS, noted % (1 << TAG_BITS));
        let is_shared = noted_tag != tag && noted_time as i64 >= now.0;
        let (time, tag) = if is_shared { (time.max(noted_time), ANY_ROW) } else { (time, tag) };
        slot.store(time << TAG_BITS | tag, Relaxed);
        self.newest.fetch_max(time as i64, Relaxed);
    }

    /// Returns the time recorded for the row, if it is `now` or up to `ahead_max` ms later.
    #[inline]
    fn newest_of(&self, hash: impl FnOnce() -> u64, now: WallTime, ahead_max: i64) -> Option<WallTime> {
        if self.newest.load(Relaxed) < now.0 {
            return None;
        }
        let (slot, tag) = self.slot(hash());
        let noted = slot.load(Relaxed);
        let time = (noted >> TAG_BITS) as i64;
        let is_of_row = [tag, ANY_ROW].contains(&(noted % (1 << TAG_BITS)));
        (is_of_row && (0..=ahead_max).contains(&time.saturating_sub(now.0))).then_some(WallTime(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> impl Fn() -> u64 + Copy {
        move || number << 44 | 7
    }

    #[test]
    fn a_delete_hides_puts_of_its_row_and_millisecond_only() {
        let times = WriteTimes::new();
        let delete = |row, now| times.deletes.note(hash(row)(), WallTime(now), WallTime(now));
        let hides = |row, now| times.hides(hash(row), WallTime(now));
        assert!(!hides(1, 5));
        delete(1, 5);
        assert!(hides(1, 5) && !hides(2, 5));
        assert!(!hides(1, 6), "the next millisecond");
        assert!(hides(1, 4) && !hides(1, -6), "the clock was set back");
        // If rows with two different tags were deleted in one slot and one millisecond, the slot counts for all of its
        // rows.
        delete(2, 5);
        assert!(hides(1, 5) && hides(3, 5));
        delete(3, 6);
        assert!(hides(3, 6) && !hides(1, 6));
    }

    #[test]
    fn a_row_stamped_ahead_of_the_clock_stays_ahead_until_the_clock_is_there() {
        let times = WriteTimes::new();
        let note = |row, time, now| times.ahead.note(hash(row)(), WallTime(time), WallTime(now));
        let stamp = |row, now| times.stamp(hash(row), WallTime(now)).0;
        assert_eq!(stamp(1, 100), 100);
        note(1, 105, 100);
        assert_eq!([stamp(1, 100), stamp(1, 104), stamp(1, 105), stamp(1, 106)], [105, 105, 105, 106]);
        assert_eq!(stamp(2, 100), 100, "another row");
        assert_eq!(stamp(1, 105 - AHEAD_MAX_MS - 1), 105 - AHEAD_MAX_MS - 1, "the clock was set back");
        // Two rows in one slot both get the later time.
        note(2, 103, 100);
        assert_eq!([stamp(1, 100), stamp(2, 100)], [105, 105]);
    }
}
