//! What happens when a mapped page is touched that is gone: the signal, and what is put in place of the page.
//!
//! A touch of a page that the file does not reach any more, or that its disk cannot give, raises SIGBUS in the thread that
//! touches. Its default ends the process. Here
//!
//! 1. maps are noted in a table of fixed size, which the handler can read wherever it interrupts: it is all atomics;
//! 2. when the address that was touched lies in one of them, the handler notes that this map has lost something, and then
//!    puts a page of zeros there. The thread goes on, with zeros, and finds the note ([`super::Map::read_now`]);
//! 3. anything else that raises the signal goes to whoever handled it before, or has its default.
//!
//! A map is watched until it is given up, and is given up only when nobody touches it any more. So a place in the table
//! that names an address that was just touched is that of a map that is there, and no other memory is ever replaced.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maps that are watched at once. A server has one, its tests a few.
const MAPS_MAX: usize = 64;

/// A place in the table. It is free while `end` is 0.
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

/// Bytes of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Who handled the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A map that is watched, until [`end`](Watched::end).
pub(super) struct Watched(&'static Range);

/// Watches a map of `length` bytes at `start`, both of whole pages.
pub(super) fn watch(start: usize, length: usize, page: usize) -> io::Result<Watched> {
    PAGE.store(page, Ordering::Release);
    install()?;
    let free = RANGES.iter().find(|range| !range.taken.swap(true, Ordering::AcqRel));
    let Some(range) = free else {
        return Err(io::Error::other(format!(
            "{MAPS_MAX} files are mapped already, and no more are watched"
        )));
    };
    range.lost.store(false, Ordering::Relaxed);
    // Who sees it sees that the place was free before.
    range.start.store(start, Ordering::Release);
    range.end.store(start + length, Ordering::Release);
    Ok(Watched(range))
}

impl Watched {
    /// Whether a page of it was gone.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        // The signal comes to the thread that touches, and what it writes that thread reads. Others learn it soon.
        self.0.lost.load(Ordering::Acquire)
    }

    /// Its addresses may become another's. Nobody touches it any more.
    pub(super) fn end(&self) {
        self.0.end.store(0, Ordering::Release);
        self.0.taken.store(false, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "says who handles a signal")]
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
    // On a stack of its own where the thread has one, as the runtime wants it for an overflow, which may raise this too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions live through the calls. What was there is kept before ours can be called, so that ours finds
    // it; the handler calls nothing but what a handler may.
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

/// The handler. It may interrupt anything, so it neither allocates nor locks, and leaves `errno` as it was.
#[expect(unsafe_code, reason = "handles a signal")]
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system hands over what it says of the signal, and `errno` is this thread's.
    let (address, code, errno) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code, libc::__errno_location()) };
    // SAFETY: as above.
    let errno_was = unsafe { *errno };
    // Raised by a touch, and not sent by somebody: only then is there an address, and a thread that holds the map.
    let is_touch = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    if !(is_touch && replace(address)) {
        pass_on(signal, code, info, context);
    }
    // SAFETY: as above.
    unsafe { *errno = errno_was };
}

/// Puts a page of zeros where `address` is, if that lies in a map. Says whether it did.
#[expect(unsafe_code, reason = "replaces a page of a map")]
fn replace(address: usize) -> bool {
    // A place may be given to another map between the two loads. Its end, which is stored last, is looked at again: both
    // are of one map then.
    let is_within = |range: &&Range| {
        let end = range.end.load(Ordering::Acquire);
        let start = range.start.load(Ordering::Acquire);
        (start..end).contains(&address) && range.end.load(Ordering::Relaxed) == end
    };
    let Some(range) = RANGES.iter().find(is_within) else { return false };
    let page = PAGE.load(Ordering::Acquire);
    // Before the page is there: another thread that reads zeros in it reads the note behind them.
    range.lost.store(true, Ordering::SeqCst);
    // SAFETY: the page lies in a map that the interrupted thread is copying from, hence holds; what it had is gone; and
    // nobody has a reference into a map. The call is one to the system, which a handler may make.
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

/// Gives the signal to whoever had it before.
#[expect(unsafe_code, reason = "calls another handler of a signal")]
fn pass_on(signal: libc::c_int, code: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    let handler = before.sa_sigaction;
    if handler == libc::SIG_IGN && code <= 0 {
        return;
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: `before` is what the system gave. A touch is done again when this returns and meets it; what was sent is
        // sent again.
        unsafe {
            libc::sigaction(signal, before, ptr::null_mut());
            if code <= 0 {
                libc::raise(signal);
            }
        }
        return;
    }
    // SAFETY: whoever set the handler said by its flags which of the two kinds it is, and it is called as that.
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
