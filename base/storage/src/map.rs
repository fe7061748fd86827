//! A memory map of a device's file, from which bytes in the system's memory are copied without a system call.
//!
//! Writes still go to the file; the system shows both the same memory. Touching a mapped byte is dangerous: if the file
//! was truncated, or its disk cannot supply the page, the touch raises a signal (SIGBUS) instead of returning an error.
//! So no reference into a map leaves this module. Only [`Map::read_now`] touches mapped bytes, and copies them. The
//! [signal's handler](gone) replaces the missing page by zeros and records that the map has *lost* it. After the copy
//! the record is checked: bytes copied from a map with a loss are discarded, and the map is not used again. Its file is
//! read instead, where a failure is an error.
//!
//! Before it copies, the map asks the system whether the pages are in memory, because the caller does not want to wait
//! for a disk. This system call costs as much as copying and checking a few kilobytes. So its answer counts for a
//! second or two: the system evicts recently used pages last. If it did evict one, the reader waits for the disk.
//!
//! Rejected: returning references to mapped bytes instead of copies. That saves 80 ns of the 1,600 that it takes to
//! load and check 16 KB, and every holder of a block would have to cope with bytes that turn to zeros.

mod gone;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use env::{Moment, World};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Maximum number of pages that one system call asks about.
const PAGES_AT_ONCE: usize = 64;
/// Number of pages after the wanted ones that a query includes, because a reader usually reads the rest of a record
/// soon after its beginning.
const PAGES_BESIDE: usize = 8;

/// A map of a file; see the module documentation.
pub(crate) struct Map {
    start: NonNull<u8>,
    length: usize,
    page: usize,
    watched: gone::Watched,
    /// For each page, when it was last seen in memory, in seconds since `made`; 0 means never. The counter wraps
    /// around, so a page may wrongly count as seen once.
    seen: Box<[AtomicU16]>,
    made: Moment,
    world: World,
}

#[expect(unsafe_code, reason = "an owning pointer")]
// SAFETY: the map has one owner, its memory is only read, and any thread may unmap it.
unsafe impl Send for Map {}
#[expect(unsafe_code, reason = "an owning pointer")]
// SAFETY: as above: shared references only read.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `length` bytes of `file`.
    #[expect(unsafe_code, reason = "asks the system for a map")]
    pub(crate) fn of(file: &File, length: u64, world: World) -> io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let page = rustix::param::page_size();
        // SAFETY: the system chooses the address, so no existing mapping is replaced.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let made = world.moment();
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("a map at nowhere"))?;
        let watched = gone::watch(start.as_ptr().addr(), length.next_multiple_of(page), page);
        let watched = watched.inspect_err(|_| {
            // SAFETY: the range is the map that was made above, and no reference to it exists yet.
            let _mapped = unsafe { munmap(start.as_ptr().cast(), length) };
        })?;
        let seen = (0..length.div_ceil(page)).map(|_| AtomicU16::new(0)).collect();
        let map = Map { start, length, page, watched, seen, made, world };
        // Blocks are read one by one, so reading ahead is of no use.
        // SAFETY: the range is the map that was made above; the advice changes no content.
        unsafe { madvise(start.as_ptr().cast(), length, Advice::Random) }?;
        Ok(map)
    }

    /// Whether a touched page was missing. A map with a lost page is not read again.
    pub(crate) fn is_lost(&self) -> bool {
        self.watched.is_lost()
    }

    /// Fills `buffer` from `offset` and returns `true` if it need not wait. Returns `false`, with undefined content in
    /// `buffer`, if it would have to wait, if the range ends after the map, or after a [loss](Map::is_lost).
    #[expect(unsafe_code, reason = "touches mapped memory")]
    pub(crate) fn read_now(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let Ok(from) = usize::try_from(offset) else { return false };
        if from.checked_add(buffer.len()).is_none_or(|end| end > self.length) || self.is_lost() {
            return false;
        }
        if !self.is_likely_resident(from, buffer.len()) {
            return false;
        }
        // SAFETY: the range lies in the map, which lives as long as `self`, and `buffer` is exclusively borrowed. The
        // signal handler in `gone` replaces a missing page while this waits. Another thread may write to the file
        // meanwhile, as to any file; the bytes are copied without being interpreted, and the reader verifies a
        // checksum.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(from), buffer.as_mut_ptr(), buffer.len());
        }
        // A thread that has read zeros of a replaced page then also reads the record of the loss.
        fence(Ordering::Acquire);
        !self.is_lost()
    }

    fn is_likely_resident(&self, from: usize, length: usize) -> bool {
        let now = (self.world.recent_moment().since(self.made).as_secs() % u64::from(u16::MAX)) as u16 + 1;
        let pages = from / self.page..(from + length).div_ceil(self.page);
        let is_fresh = |seen: &AtomicU16| {
            let at = seen.load(Ordering::Relaxed);
            at == now || at != 0 && at.wrapping_add(1) == now
        };
        self.seen.get(pages.clone()).is_some_and(|seen| seen.iter().all(is_fresh)) || self.look(pages, now)
    }

    /// Asks the system whether these pages and some after them are in memory, and records for those that are the time
    /// `now`. Returns whether all of these pages are; `false` if the system does not tell.
    #[expect(unsafe_code, reason = "asks the system about pages")]
    #[cold]
    fn look(&self, pages: Range<usize>, now: u16) -> bool {
        let all = pages.end.max(pages.start + PAGES_BESIDE).min(self.seen.len());
        let mut are_there = true;
        let mut at = pages.start;
        while at < all {
            let count = (all - at).min(PAGES_AT_ONCE);
            let mut told = [0u8; PAGES_AT_ONCE];
            // SAFETY: the `count` pages from `at` on belong to the map, the last one perhaps partly. The system writes
            // one byte for each, and `told` has room for them.
            let outcome = unsafe {
                let start = self.start.as_ptr().add(at * self.page);
                libc::mincore(start.cast(), count * self.page, told.as_mut_ptr())
            };
            for (page, told) in (at..at + count).zip(told) {
                let is_there = outcome == 0 && told & 1 != 0;
                self.seen[page].store(if is_there { now } else { 0 }, Ordering::Relaxed);
                are_there &= is_there || page >= pages.end;
            }
            at += count;
        }
        are_there
    }
}

impl Drop for Map {
    #[expect(unsafe_code, reason = "gives a map back")]
    fn drop(&mut self) {
        // No thread copies from the map any more, so no signal refers to it; a later page at this address is not part
        // of it.
        self.watched.end();
        // SAFETY: the range is the whole map that was made in `of`, and no reference into it left this module.
        // Unmapping a mapped range does not fail; if it did, nothing could be done.
        let _mapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map")
            .field("length", &self.length)
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use env::WallTime;

    use super::*;

    /// A test file of `pages` patterned pages, and a map of it.
    struct Bench {
        path: std::path::PathBuf,
        file: File,
        map: Map,
        world: World,
    }

    fn pattern(at: u64) -> u8 {
        (at % 251) as u8 + 1
    }

    impl Bench {
        fn new(length: u64) -> Bench {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("bellows-map-{}-{count}", std::process::id()));
            std::fs::write(&path, (0..length).map(pattern).collect::<Vec<_>>()).expect("written");
            let file = File::options().read(true).write(true).open(&path).expect("opened");
            let world = World::simulated(1, WallTime(0));
            let map = Map::of(&file, length, world.clone()).expect("mapped");
            Bench { path, file, map, world }
        }

        /// Reads through the map, and checks the bytes if they were in memory. Returns whether they were.
        fn read(&self, offset: u64, length: usize) -> bool {
            let mut buffer = vec![0; length];
            let came = self.map.read_now(offset, &mut buffer);
            assert!(!came || (offset..).zip(&buffer).all(|(at, byte)| *byte == pattern(at)), "at {offset}");
            came
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            std::fs::remove_file(&self.path).expect("removed");
        }
    }

    #[test]
    fn the_bytes_of_the_file_are_read_and_none_beyond_its_end() {
        let bench = Bench::new(1 << 20);
        assert!(bench.read(70_000, 9) && bench.read(0, 1 << 20) && bench.read((1 << 20) - 5, 5));
        assert!(!bench.read((1 << 20) - 4, 8) && !bench.read(u64::MAX, 8) && !bench.read(1 << 20, 1));
        assert!(!bench.map.is_lost());
    }

    /// The system may report truncated pages as in memory, because it keeps some pages together. Then they are touched,
    /// and the map is lost. Otherwise the map stays in use.
    #[test]
    fn bytes_that_were_cut_off_are_missing_after_the_map_is_renewed() {
        let bench = Bench::new(1 << 20);
        assert!(bench.read(70_000, 9));
        bench.file.set_len(4_096).expect("cut");
        bench.world.advance(Duration::from_secs(3));
        let says = bench.map.look(17..18, 9);
        assert!(!bench.read(70_000, 9));
        assert!(says || !bench.map.is_lost(), "a page that is reported as missing is not read");
    }

    /// Asking about one page says nothing about pages that are asked about in other calls.
    #[test]
    fn each_page_is_checked_for_presence() {
        let bench = Bench::new(1 << 20);
        assert!(bench.read(0, 9));
        let seen = |page: usize| bench.map.seen[page].load(Ordering::Relaxed) != 0;
        assert!((0..PAGES_BESIDE).all(seen) && !seen(PAGES_BESIDE));
        bench.map.seen[3].store(0, Ordering::Relaxed);
        assert!(bench.read(2 * 4_096, 4_096) && !seen(3), "it is not wanted");
        assert!(bench.read(2 * 4_096, 4_097) && seen(3));
        assert!(bench.read(0, 1 << 20) && (0..256).all(seen));
    }

    #[test]
    fn a_missing_page_invalidates_the_map_and_kills_no_process() {
        let (bench, other) = (Bench::new(1 << 20), Bench::new(1 << 20));
        assert!(bench.read(70_000, 9) && other.read(70_000, 9));
        bench.file.set_len(4_096).expect("cut");
        assert!(!bench.read(70_000, 9), "it was there a moment ago");
        assert!(bench.map.is_lost() && !other.map.is_lost());
        bench.file.set_len(1 << 20).expect("longer again");
        assert!(!bench.read(0, 9), "not even what is there");
        assert!(other.read(70_000, 9));
    }

    #[test]
    fn whoever_reads_while_the_file_is_cut_gets_the_right_bytes_or_none() {
        for round in 0..20 {
            let bench = Bench::new(4 << 20);
            // Makes all pages count as being in memory, so that all are touched.
            (0..1024).for_each(|page| assert!(bench.read(page * 4096, 4096)));
            let turn = AtomicUsize::new(0);
            env::together("reader", 4, || {
                if turn.fetch_add(1, Ordering::Relaxed) == 0 {
                    bench.file.set_len(round * 4096 + 100).expect("cut");
                }
                // The part of the last page after the end of the file reads as zeros, without a signal or an error.
                // Only checksums can detect that.
                for page in (0..1024).filter(|page| *page != round).rev() {
                    bench.read(page * 4096, 4096);
                }
            });
            assert!(bench.map.is_lost());
        }
    }
}
