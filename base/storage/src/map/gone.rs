//! Handles the signal for a touched page that is missing from a map, by replacing the page.
//!
//! Touching a page beyond the file's end, or one that its disk cannot supply, raises SIGBUS in the touching thread,
//! which by default ends the process. Here
//!
//! 1. maps are registered in a fixed table of atomics, which the handler can read wherever it interrupts;
//! 2. if the address is in a registered map, the handler records the loss and then puts a page of zeros there. The
//!    thread continues with zeros and finds the record ([`super::Map::read_now`]);
//! 3. any other cause goes to the previous handler, or to the default action.
//!
//! A map stays registered until no thread touches it any more. So when an entry of the table contains an address that
//! was just touched, the map of that entry exists, and the handler never replaces other memory.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of registered maps. A server has one, its tests a few.
const MAPS_MAX: usize = 64;

/// An entry of the table of registered maps; it is free while `end` is 0.
struct Range {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

static RANGES: [Range; MAPS_MAX] = [const {
    Range {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; MAPS_MAX];

/// The size of a page in bytes, for the signal handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The previous handler of the signal.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A registered map, until [`end`](Watched::end).
pub(super) struct Watched(&'static Range);

/// Registers a map of `length` bytes at `start`, both multiples of the page size.
pub(super) fn watch(start: usize, length: usize, page: usize) -> io::Result<Watched> {
    PAGE.store(page, Ordering::Release);
    install()?;
    let free = RANGES.iter().find(|range| !range.taken.swap(true, Ordering::AcqRel));
    let Some(range) = free else {
        return Err(io::Error::other(format!(
            "{MAPS_MAX} files are mapped already; no further file can be mapped"
        )));
    };
    range.lost.store(false, Ordering::Relaxed);
    // A reader of the new end also sees that the entry was free before.
    range.start.store(start, Ordering::Release);
    range.end.store(start + length, Ordering::Release);
    Ok(Watched(range))
}

impl Watched {
    /// Whether a touched page of the map was missing.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        // The handler runs in the touching thread, which therefore reads its write. Other threads see it soon.
        self.0.lost.load(Ordering::Acquire)
    }

    /// Removes the map: its addresses may be reused, and no thread touches it any more.
    pub(super) fn end(&self) {
        self.0.end.store(0, Ordering::Release);
        self.0.taken.store(false, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "installs a signal handler")]
fn install() -> io::Result<()> {
    static INSTALLED: env::sync::Mutex<bool> = env::sync::Mutex::new(false);
    let mut installed = INSTALLED.lock();
    if *installed {
        return Ok(());
    }
    // SAFETY: an action of zeros is the default one, with nothing masked.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = handle as *const () as usize;
    // The handler runs on the thread's alternative stack if it has one. The runtime needs that for stack overflows,
    // which may raise this signal, too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions outlive the calls. The previous handler is stored before ours can be called, so ours finds
    // it; our handler calls async-signal-safe functions only.
    unsafe {
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let _first = BEFORE.set(before);
        if libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

/// The signal handler. It may interrupt anything, so it neither allocates nor locks, and restores `errno`.
#[expect(unsafe_code, reason = "handles a signal")]
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes a valid `info`, and `errno` belongs to this thread.
    let (address, code, errno) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code, libc::__errno_location()) };
    // SAFETY: as above.
    let errno_was = unsafe { *errno };
    // Only access to a missing page has an address; a signal that was sent by a process has none.
    let is_touch = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    if !(is_touch && replace(address)) {
        pass_on(signal, code, info, context);
    }
    // SAFETY: as above.
    unsafe { *errno = errno_was };
}

/// Replaces the page at `address` by zeros if it is in a registered map; returns whether it is.
#[expect(unsafe_code, reason = "replaces a page of a map")]
fn replace(address: usize) -> bool {
    // The entry may be reused between the two loads. The end is stored last and read again, so equal ends show that
    // both values are of one map.
    let is_within = |range: &&Range| {
        let end = range.end.load(Ordering::Acquire);
        let start = range.start.load(Ordering::Acquire);
        (start..end).contains(&address) && range.end.load(Ordering::Relaxed) == end
    };
    let Some(range) = RANGES.iter().find(is_within) else { return false };
    let page = PAGE.load(Ordering::Acquire);
    // Record first: another thread that reads zeros of the page then also reads the record.
    range.lost.store(true, Ordering::SeqCst);
    // SAFETY: the page lies in a map from which the interrupted thread is copying, so the map exists. Its content is
    // lost, and no reference into a map exists. The system call is async-signal-safe.
    let put = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(address / page * page),
            page,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    put != libc::MAP_FAILED
}

/// Passes the signal to the previous handler.
#[expect(unsafe_code, reason = "calls another handler of a signal")]
fn pass_on(signal: libc::c_int, code: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    let handler = before.sa_sigaction;
    if handler == libc::SIG_IGN && code <= 0 {
        return;
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: `before` came from the system. When this returns, the access to the missing page is repeated, and
        // raises the signal for that action. A signal that a process sent is sent again.
        unsafe {
            libc::sigaction(signal, before, ptr::null_mut());
            if code <= 0 {
                libc::raise(signal);
            }
        }
        return;
    }
    // SAFETY: the flags with which the handler was set say which of the two signatures it has.
    unsafe {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}
