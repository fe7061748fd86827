//! What the operating system's scheduler makes of a thread.
//!
//! Linux weighs each thread by itself. A nice level is a weight: 0 is 1024, 10 is 110, 19 is 15. When a thread that has
//! slept is woken it runs at once only if it had less than its share until then; else the other one goes on to the next
//! tick of the clock, 1 to 10 ms later. The less the other one weighs, the sooner it has had its share. Beside two threads
//! that never sleep, 8,000 gets a second waited at p99.9 0.7 and 1.0 ms with these at nice 10, 0.2 and 0.5 at nice 19, which
//! is what they wait beside none. A policy of lower rank (`SCHED_IDLE`) brought no more, and starves work to a part in
//! three hundred.
//!
//! Of threads that weigh the same the one goes on that runs, for 0.7 to 3 ms and to the next tick, unless the other asks for
//! less time at once than it: Linux 6.12 and later then lets that one go first as soon as it is woken. A thread that serves
//! asks for 0.1 ms. What the system does itself beside it (writing files back, making room in memory), and work in the
//! pool, then waits for it and not it for them: with a flush or compaction now and then, the slowest thousandth of 4,000
//! operations a second waited 0.27 to 0.35 ms where it had waited 0.41 to 0.46.
//!
//! What weighs little may not be done in time. Who has lowered the weight of a thread may raise it again only with the
//! right to do so (`CAP_SYS_NICE`, or a `RLIMIT_NICE`). So a [`Crew`] whose threads could not be raised keeps to a weight
//! that work gets done with.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::threads::{Priority, Thread, spawn_thread};

/// The nice level of work that nobody waits for, where it cannot be raised.
pub(crate) const BACKGROUND: i32 = 10;

/// Threads whose work can wait for a while: they take what others leave, and weigh like others when they are told to
/// [hurry](Crew::hurry).
#[derive(Debug)]
pub struct Crew {
    /// The nice level of its threads when nothing presses.
    nice: i32,
    members: Mutex<Vec<system::Id>>,
    hurries: AtomicBool,
    /// Threads that could not be raised, and weigh what background threads do.
    fixed: AtomicUsize,
}

impl Crew {
    /// Without threads yet; `nice` is their level when nothing presses, 0 to 19.
    pub fn new(nice: u8) -> Arc<Crew> {
        Arc::new(Crew {
            nice: i32::from(nice.min(19)),
            members: Mutex::default(),
            hurries: AtomicBool::new(false),
            fixed: AtomicUsize::new(0),
        })
    }

    /// Starts a thread of the crew.
    pub fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Thread<T>> {
        let crew = Arc::clone(self);
        #[cfg(debug_assertions)]
        if crate::simulation::is_active() {
            // A simulated thread has no weight.
            return spawn_thread(name, Priority::Foreground, work);
        }
        spawn_thread(name, Priority::Foreground, move || {
            let _member = Member::join(crew);
            work()
        })
    }

    /// Lets its threads weigh as much as those that serve, or again less. Says whether that is a change.
    pub fn hurry(&self, now: bool) -> bool {
        if self.hurries.load(Ordering::Relaxed) == now {
            return false;
        }
        let members = self.members.lock();
        if self.hurries.swap(now, Ordering::Relaxed) == now {
            return false;
        }
        let nice = if now { 0 } else { self.nice };
        for member in &*members {
            // A thread that may not be raised is no member.
            let _unchanged = system::set_nice(*member, nice);
        }
        true
    }

    /// Whether its threads weigh as much as those that serve.
    pub fn hurries(&self) -> bool {
        self.hurries.load(Ordering::Relaxed)
    }

    /// How many of its threads could not be raised, so that they keep a weight between.
    pub fn fixed(&self) -> usize {
        self.fixed.load(Ordering::Relaxed)
    }
}

/// A thread of a crew, until its end: its number may then be another thread's.
struct Member {
    crew: Arc<Crew>,
    id: Option<system::Id>,
}

impl Member {
    fn join(crew: Arc<Crew>) -> Member {
        let id = system::this_thread();
        let can_be_raised = crew.nice <= BACKGROUND || system::may_raise(id);
        let id = if can_be_raised {
            let mut members = crew.members.lock();
            members.push(id);
            let nice = if crew.hurries() { 0 } else { crew.nice };
            // Without the right to do so it keeps its weight: a slower foreground, nothing wrong.
            let _unchanged = system::set_nice(id, nice);
            Some(id)
        } else {
            crew.fixed.fetch_add(1, Ordering::Relaxed);
            let _unchanged = system::set_nice(id, BACKGROUND);
            None
        };
        Member { crew, id }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        match self.id {
            Some(id) => self.crew.members.lock().retain(|member| *member != id),
            None => {
                self.crew.fixed.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Gives the calling thread the weight of work that nobody waits for.
pub(crate) fn lower() {
    // Without the right to do so the thread keeps its weight: a slower foreground, nothing wrong.
    let _unchanged = system::set_nice(system::this_thread(), BACKGROUND);
}

/// How long at once a thread that serves asks to run, in ns: the least that Linux takes.
const BRIEF: u64 = 100_000;

/// Has the calling thread ask for little time at once, so that it is given some soon. Threads that it starts do not.
pub(crate) fn be_brief() {
    // A system that does not know of it gives it time as to others: nothing wrong.
    let _as_before = system::be_brief(BRIEF);
}

/// Lets the calling thread run as soon as it is woken, and its timers end when they should. Where the system does not
/// allow it, nothing changes; says whether it did.
pub(crate) fn be_prompt() -> bool {
    system::be_prompt(1).is_ok()
}

/// The processors of the machine: those that its first process may run on.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    system::processors()
}

/// Binds the calling thread to one processor, where it goes before all others, those that are
/// [prompt](Priority::Prompt) too.
pub(crate) fn be_first_on(processor: usize) -> io::Result<()> {
    // First before others, or it would wait for its turn there.
    system::be_prompt(2)?;
    system::bind(processor)
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::num::NonZeroU64;

    use rustix::process::{getpriority_process, setpriority_process};
    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

    pub(super) type Id = Pid;

    pub(super) fn this_thread() -> Id {
        rustix::thread::gettid()
    }

    pub(super) fn set_nice(thread: Id, nice: i32) -> bool {
        setpriority_process(Some(thread), nice).is_ok()
    }

    #[cfg(test)]
    pub(super) fn nice(thread: Id) -> i32 {
        getpriority_process(Some(thread)).expect("the thread lives")
    }

    /// Whether a thread that was lowered can be raised again. The system says so only when it is asked to: by one level,
    /// and back at once.
    pub(super) fn may_raise(thread: Id) -> bool {
        let Ok(now) = getpriority_process(Some(thread)) else { return false };
        setpriority_process(Some(thread), now - 1).is_ok() && setpriority_process(Some(thread), now).is_ok()
    }

    /// `SCHED_FIFO` with this rank, 1 to 99: before all threads that share by weight, and those of a lower rank.
    #[expect(unsafe_code, reason = "no library that is here asks for a policy")]
    pub(super) fn be_prompt(rank: libc::c_int) -> io::Result<()> {
        // The system may put timers off by 50 µs so that several end together.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        // The system's own call: the parameter is one number, and not every libc passes the call on.
        // SAFETY: 0 names the calling thread, and the system only reads `rank`, which outlives the call.
        match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const rank) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for `ns` at once, with the weight that the thread has. One that was given another policy than the usual keeps it.
    #[expect(unsafe_code, reason = "no library that is here asks for it")]
    pub(super) fn be_brief(ns: u64) -> io::Result<()> {
        // SAFETY: 0 names the calling thread.
        if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let asked = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: libc::SCHED_OTHER as u32,
            sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
            sched_nice: getpriority_process(None)?,
            sched_priority: 0,
            sched_runtime: ns,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: 0 names the calling thread, and the system only reads `asked`, which outlives the call and says its size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const asked, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How long at once the thread asks to run, in ns; 0 where the system does not know of it.
    #[cfg(test)]
    #[expect(unsafe_code, reason = "no library that is here asks for it")]
    pub(super) fn runs_at_once() -> io::Result<u64> {
        let mut found = libc::sched_attr {
            size: 0,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: 0 names the calling thread, and the system writes no more than `size` bytes to `found`, which has as many.
        match unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) } {
            0 => Ok(found.sched_runtime),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn processors() -> io::Result<Vec<usize>> {
        let set = sched_getaffinity(Some(Pid::INIT))?;
        Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
    }

    pub(super) fn bind(processor: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(processor);
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// Elsewhere a process has one weight for all its threads.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) type Id = std::thread::ThreadId;

    pub(super) fn this_thread() -> Id {
        std::thread::current().id()
    }

    pub(super) fn set_nice(_thread: Id, _nice: i32) -> bool {
        false
    }

    pub(super) fn may_raise(_thread: Id) -> bool {
        false
    }

    pub(super) fn be_brief(_ns: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn be_prompt(_rank: i32) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn processors() -> std::io::Result<Vec<usize>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn bind(_processor: usize) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_crew_weighs_little_until_it_hurries_where_it_may_be_raised() {
        let crew = Crew::new(19);
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = crew
            .spawn("crew", move || {
                tell.send(system::this_thread()).expect("the test waits");
                // Until the test drops its end.
                let _over = ended.recv();
            })
            .expect("a thread");
        let member = told.recv().expect("it runs");
        let may_be_raised = crew.fixed() == 0;
        assert_eq!(system::nice(member), if may_be_raised { 19 } else { BACKGROUND });
        assert!(crew.hurry(true) && !crew.hurry(true), "told once");
        assert_eq!(
            (system::nice(member), crew.hurries()),
            (if may_be_raised { 0 } else { BACKGROUND }, true)
        );
        assert!(crew.hurry(false));
        assert_eq!(system::nice(member), if may_be_raised { 19 } else { BACKGROUND });
        drop(end);
        thread.join().expect("no panic");
        assert!(crew.members.lock().is_empty() && crew.fixed() == 0, "who has ended is no member");
    }

    #[test]
    fn what_lowers_itself_no_more_than_ever_needs_no_right_to_be_raised() {
        let crew = Crew::new(BACKGROUND as u8);
        let nice = crew.spawn("crew", || system::nice(system::this_thread())).expect("a thread");
        assert_eq!((nice.join().expect("no panic"), crew.fixed()), (BACKGROUND, 0));
    }

    #[test]
    fn what_serves_asks_for_little_time_and_what_it_starts_does_not() {
        let serving = spawn_thread("test", Priority::Serving, || {
            let own = system::runs_at_once().expect("known");
            let started = std::thread::spawn(|| system::runs_at_once().expect("known"));
            (own, started.join().expect("no panic"), system::nice(system::this_thread()))
        });
        let (own, started, nice) = serving.expect("a thread").join().expect("no panic");
        // Before Linux 6.12 nobody asks.
        assert!(own == BRIEF || own == 0, "{own}");
        assert!(started > BRIEF || started == 0, "{started}");
        assert_eq!(nice, system::nice(system::this_thread()));
    }
}
