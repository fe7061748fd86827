//! The allocator, and the thread that returns freed memory to the system.
//!
//! mimalloc keeps freed memory, such as blocks of the cache, for a second. Then the next thread that allocates returns
//! all of it to the system: 7 µs for each 64 KB, 2 ms after a compaction of some megabytes. Meanwhile a serving thread
//! would answer no request. So a background thread returns freed memory earlier. It also returns the memory of each
//! large request before the next large request may begin.

use std::sync::Arc;
use std::time::Duration;

use env::{Priority, Runtime};

use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time between two returns of freed memory: half of mimalloc's delay, because the thread may have to wait for a
/// processor.
const EVERY: Duration = Duration::from_millis(400);

/// The environment variable for mimalloc's own delay, in ms. If it is set, the thread is not started.
const OWN_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Starts the thread, which ends when the returned runtime is dropped. `None` if [`OWN_DELAY`] is set.
pub(crate) fn start_memory_release() -> Result<Option<Runtime>, Failure> {
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

/// Returns the function by which the RPC server makes a large request wait, before it begins, until the background
/// thread has returned the memory of earlier requests.
pub(crate) fn reclaim(runtime: &Runtime) -> rpc::Reclaim {
    let handle = runtime.handle().clone();
    Arc::new(move |done| {
        handle.spawn(async move {
            collect();
            done();
        });
    })
}

/// Returns to the system the memory that any thread has freed.
#[expect(unsafe_code, reason = "the allocator's own call")]
fn collect() {
    // The call has no effect on a thread that has never allocated.
    drop(std::hint::black_box(Box::new(0u64)));
    // SAFETY: any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of pages of memory that this process has resident.
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "the process's own figures, of no storage")]
    fn resident_pages() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        resident.expect("a number")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn freed_memory_returns_to_the_system_when_it_is_collected() {
        // The blocks are far larger than everything else in the process.
        let blocks: Vec<Vec<u8>> = (0..4_000).map(|_| vec![1; 65_000]).collect();
        let full = resident_pages();
        drop(blocks);
        let thread = env::spawn_thread("test", Priority::Foreground, collect).expect("a thread");
        thread.join().expect("no panic");
        let left = resident_pages();
        assert!(left < full / 2, "{left} of {full} pages");
    }
}
