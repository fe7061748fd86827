//! Where memory comes from, and who gives it back.
//!
//! What is freed in large pieces, as blocks of the cache are, mimalloc keeps for a second. Then whichever thread asks for memory
//! next gives all of it back to the system: 7 µs for each 64 KB, 2 ms after a compaction of some megabytes, in which a thread
//! that serves answers nobody. So a thread in the background does it before that second is over.

use std::time::Duration;

use env::{Priority, Runtime};

use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Twice before somebody else would: the thread may have to wait for a processor.
const EVERY: Duration = Duration::from_millis(400);

/// The allocator's own setting: whoever gives it wants freed memory kept for so many milliseconds, and not this.
const OWN_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Starts the thread that gives memory back, which goes on until what is returned is dropped; none where the
/// allocator's [own setting](OWN_DELAY) is given.
pub(crate) fn give_back() -> Result<Option<Runtime>, Failure> {
    if std::env::var_os(OWN_DELAY).is_some() {
        return Ok(None);
    }
    let runtime = Runtime::start_as("allocator", Priority::Background, 1)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    runtime.spawn(async {
        loop {
            env::sleep(EVERY).await;
            collect();
        }
    });
    Ok(Some(runtime))
}

/// Gives back at once what was freed by any thread, in large pieces.
#[expect(unsafe_code, reason = "the allocator's own call")]
fn collect() {
    // A thread that has never asked for memory is not one of the allocator's yet, and nothing would be done.
    drop(std::hint::black_box(Box::new(0u64)));
    // SAFETY: it may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of whatever size this machine's pages are.
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "the process's own figures, of no storage")]
    fn resident_pages() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        resident.expect("a number")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_freed_goes_back_at_once() {
        // Far more than all else that the process has.
        let blocks: Vec<Vec<u8>> = (0..4_000).map(|_| vec![1; 65_000]).collect();
        let full = resident_pages();
        drop(blocks);
        let thread = env::spawn_thread("test", Priority::Foreground, collect).expect("a thread");
        thread.join().expect("no panic");
        let left = resident_pages();
        assert!(left < full / 2, "{left} of {full} pages");
    }
}
