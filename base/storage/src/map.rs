//! A device's bytes where they lie: a map of its file, to be read in place and never written through.
//!
//! Whoever writes goes on writing to the file; the system shows both the same memory. A byte in a map is touched like any
//! other, and that is its danger: where the file has ended or its disk cannot be read, the touch ends the process
//! (SIGBUS) where a read would have given an error. So
//!
//! 1. the file is held by this process alone, and never cut while the map is there;
//! 2. [`Map::is_resident`] says whether pages are in the system's memory: what is there can be touched without a wait and
//!    without an error, and what is not is read from the file, where an error is an error. What others cut off a file
//!    is not resident any more. What remains is a page that the system drops between question and touch, and that its
//!    disk cannot give back.
//!
//! A [`Part`] keeps the map as long as somebody reads.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Pages that are asked about at once.
const PAGES_AT_ONCE: usize = 64;

/// See the file.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    length: usize,
    page: usize,
}

#[expect(unsafe_code, reason = "a pointer that owns")]
// SAFETY: the map is its owner's alone, is only read through, and does not care which thread unmaps it.
unsafe impl Send for Map {}
#[expect(unsafe_code, reason = "a pointer that owns")]
// SAFETY: as above: all its functions read.
unsafe impl Sync for Map {}

impl Map {
    /// A map of the first `length` bytes of `file`, which must be as long for as long as the map is there.
    #[expect(unsafe_code, reason = "asks the system for a map")]
    pub(crate) fn of(file: &File, length: u64) -> io::Result<Map> {
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: the system chooses the place, so nothing that is there is replaced.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("a map at nowhere"))?;
        let map = Map { start, length, page: rustix::param::page_size() };
        // Blocks are asked for one by one: what lies around one is none of its business.
        // SAFETY: the range is the map that was made above; the advice changes no content.
        unsafe { madvise(start.as_ptr().cast(), length, Advice::Random) }?;
        Ok(map)
    }

    /// Whether all of these bytes are in the system's memory now. `false` beyond the map's end, and where the system does
    /// not tell.
    #[expect(unsafe_code, reason = "asks the system about pages")]
    pub fn is_resident(&self, offset: u64, length: usize) -> bool {
        let Some(end) = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(length)) else {
            return false;
        };
        if end > self.length {
            return false;
        }
        let mut at = offset as usize / self.page * self.page;
        while at < end {
            let span = (end - at).min(PAGES_AT_ONCE * self.page);
            let mut pages = [0u8; PAGES_AT_ONCE];
            // SAFETY: `at..at + span` lies in the map, begins on a page, and touches no more pages than `pages` has room
            // for; the system writes one byte for each.
            let told = unsafe { libc::mincore(self.start.as_ptr().add(at).cast(), span, pages.as_mut_ptr()) };
            if told != 0 || pages[..span.div_ceil(self.page)].iter().any(|page| page & 1 == 0) {
                return false;
            }
            at += span;
        }
        true
    }

    /// These bytes, in place. `None` beyond the map's end.
    pub fn part(self: &Arc<Map>, offset: u64, length: usize) -> Option<Part> {
        let start = usize::try_from(offset).ok()?;
        (start.checked_add(length)? <= self.length).then(|| Part { map: Arc::clone(self), start, length })
    }
}

impl Drop for Map {
    #[expect(unsafe_code, reason = "gives a map back")]
    fn drop(&mut self) {
        // SAFETY: the range is the whole of the map that was made in `of`; every part holds the map, so there is none.
        // Nothing can be done about a failure, and none is known for a range that is mapped.
        let _mapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Some bytes of a map. Whoever writes to the device leaves them alone as long as somebody holds this.
#[derive(Debug)]
pub struct Part {
    map: Arc<Map>,
    start: usize,
    length: usize,
}

impl Part {
    /// Whether they can be touched without a wait.
    pub fn is_resident(&self) -> bool {
        self.map.is_resident(self.start as u64, self.length)
    }
}

impl AsRef<[u8]> for Part {
    #[expect(unsafe_code, reason = "a borrow of mapped memory")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start + length` is within the map, as `part` has seen, and the map lives as long as `self`. Writers of
        // the device leave a part alone while it is held; a process that writes to the file behind a lock's back is as
        // harmful as one that writes to our memory, and is found by checksums like a disk that does.
        unsafe { std::slice::from_raw_parts(self.map.start.as_ptr().add(self.start), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, LocalDevice};

    #[test]
    fn what_is_written_to_the_file_is_read_in_place_and_what_is_cut_off_is_not_touched() {
        let path = std::env::temp_dir().join(format!("bellows-map-{}", std::process::id()));
        let size = 1 << 20;
        let device = LocalDevice::open_mapped(&path, size).expect("opened");
        let map = device.map().expect("mapped");
        device.write_at(70_000, b"in place").expect("written");
        let part = map.part(70_000, 8).expect("within");
        assert!(part.is_resident(), "what was written just now");
        assert_eq!(part.as_ref(), b"in place");
        device.write_at(70_000, b"another!").expect("written");
        assert_eq!(part.as_ref(), b"another!", "the same memory");
        assert!(map.part(size - 4, 8).is_none() && map.part(u64::MAX, 8).is_none());
        assert!(!map.is_resident(size - 4, 8) && !map.is_resident(u64::MAX, 8));
        // Somebody cuts the file: its pages are gone, and nobody touches them.
        let other = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        other.set_len(4_096).expect("cut");
        assert!(!part.is_resident());
        assert!(device.read_at(70_000, &mut [0; 8]).is_err(), "a read gives an error instead");
        // The map outlives the device as long as a part is held.
        other.set_len(size).expect("longer again");
        device.write_at(70_000, b"in place").expect("written");
        drop(device);
        assert_eq!(part.as_ref(), b"in place");
        std::fs::remove_file(&path).expect("removed");
    }
}
