//! Priorities of threads in the operating system's scheduler.
//!
//! **Nice levels.** Linux gives each thread a weight by its nice level: 1024 for level 0, 110 for 10, 15 for 19. A
//! thread that wakes up runs at once only if it has had less than its share. Otherwise the running thread continues
//! until the next tick of the clock, 1 to 10 ms later. The smaller the weight of the running thread, the sooner it has
//! used its share. So the nice level of background threads decides how long a request waits for them. This was measured
//! by 8,000 gets a second beside two busy threads. At nice 10 their p99.9 latency was 0.7 to 1.0 ms. At nice 19 it was
//! 0.2 to 0.5 ms, the same as without busy threads. `SCHED_IDLE` was no better, and reduces the background work to one
//! part in three hundred.
//!
//! **Slices.** Among threads of equal weight the running thread continues for 0.7 to 3 ms and up to the next tick.
//! Linux 6.12 and later lets a woken thread run first if it asks for a shorter slice. Serving threads ask for 0.1 ms.
//! Then work of the kernel (writing files back, freeing memory) and work in the blocking thread pool waits for them.
//! With a flush or compaction now and then, the slowest thousandth of 4,000 operations a second waited 0.27 to 0.35 ms
//! instead of 0.41 to 0.46.
//!
//! **Raising.** Background work at a small weight may fall behind, so its weight must be raised again then. A process
//! may raise a weight that it lowered only with a permission (`CAP_SYS_NICE` or `RLIMIT_NICE`). Without the permission
//! a [`BackgroundThreads`] keeps its threads at nice 10, at which the work gets done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::threads::{Priority, Thread, spawn_thread};

/// The nice level of background threads that could not be raised again.
pub(crate) const BACKGROUND: i32 = 10;

/// Threads whose work may be done late, in processor time that other threads leave. While they
/// [hurry](BackgroundThreads::hurry), they have the weight of serving threads.
#[derive(Debug)]
pub struct BackgroundThreads {
    /// The nice level of the group's threads while they do not hurry.
    nice: i32,
    members: Mutex<Vec<system::Id>>,
    hurries: AtomicBool,
    /// Number of threads that could not be raised, and that keep the weight of background threads.
    fixed: AtomicUsize,
}

impl BackgroundThreads {
    /// Creates a group without threads. `nice` is the nice level of its threads while they do not hurry, 0 to 19; a
    /// higher number counts as 19.
    pub fn new(nice: u8) -> Arc<BackgroundThreads> {
        Arc::new(BackgroundThreads {
            nice: i32::from(nice.min(19)),
            members: Mutex::default(),
            hurries: AtomicBool::new(false),
            fixed: AtomicUsize::new(0),
        })
    }

    /// Starts a thread in the group.
    pub fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Thread<T>> {
        let group = Arc::clone(self);
        #[cfg(debug_assertions)]
        if crate::simulation::is_active() {
            // A simulated thread has no priority that could be raised, so it is not added to the group's members.
            return spawn_thread(name, Priority::Foreground, work);
        }
        spawn_thread(name, Priority::Foreground, move || {
            let _member = Member::join(group);
            work()
        })
    }

    /// Gives the group's threads, except the [fixed](BackgroundThreads::fixed) ones, the weight of serving threads if
    /// `now` is set, or takes it away again. Returns whether that is a change.
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
            // Setting the priority does not fail: only threads whose priority can be raised are members.
            let _unchanged = system::set_nice(*member, nice);
        }
        true
    }

    /// Whether the group's threads, except the fixed ones, have the weight of serving threads.
    pub fn hurries(&self) -> bool {
        self.hurries.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that could not be raised, and that therefore keep a medium weight.
    pub fn fixed(&self) -> usize {
        self.fixed.load(Ordering::Relaxed)
    }
}

/// The membership of a thread in a group. It ends with the thread, since another thread may then get the thread's id.
struct Member {
    group: Arc<BackgroundThreads>,
    id: Option<system::Id>,
}

impl Member {
    fn join(group: Arc<BackgroundThreads>) -> Member {
        let id = system::this_thread();
        let can_be_raised = group.nice <= BACKGROUND || system::may_raise(id);
        let id = if can_be_raised {
            let mut members = group.members.lock();
            members.push(id);
            let nice = if group.hurries() { 0 } else { group.nice };
            // Without permission the thread keeps its priority. Then it only delays foreground work, so an error is
            // ignored.
            let _unchanged = system::set_nice(id, nice);
            Some(id)
        } else {
            group.fixed.fetch_add(1, Ordering::Relaxed);
            let _unchanged = system::set_nice(id, BACKGROUND);
            None
        };
        Member { group, id }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        match self.id {
            Some(id) => self.group.members.lock().retain(|member| *member != id),
            None => {
                self.group.fixed.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Gives the calling thread the weight of background work.
pub(crate) fn lower() {
    // Without permission the thread keeps its priority. Then it only delays foreground work, so an error is ignored.
    let _unchanged = system::set_nice(system::this_thread(), BACKGROUND);
}

/// The time slice that a serving thread asks for, in ns: the smallest that Linux accepts.
const BRIEF: u64 = 100_000;

/// Makes the calling thread ask for a short time slice, so that it runs soon after it is woken. Threads that it starts
/// do not inherit this.
pub(crate) fn be_brief() {
    // A system without time slices treats the thread like others, so an error is ignored.
    let _as_before = system::be_brief(BRIEF);
}

/// Makes the calling thread run as soon as it is woken, with exact timers. Returns whether the system allowed both.
/// If it refuses the priority, the thread keeps its priority, but may already have exact timers.
pub(crate) fn be_prompt() -> bool {
    system::be_prompt(1).is_ok()
}

/// Returns the processors of the machine: those on which its first process may run.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    system::processors()
}

/// Binds the calling thread to one processor, on which it has priority over all others, [prompt](Priority::Prompt)
/// threads included.
pub(crate) fn be_first_on(processor: usize) -> io::Result<()> {
    // The priority is raised first. Otherwise the thread would have to wait for its turn on the new processor.
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

    /// Returns whether the nice level of a lowered thread can be raised again. The only way to find out is to try: one
    /// level down, and back at once.
    pub(super) fn may_raise(thread: Id) -> bool {
        let Ok(now) = getpriority_process(Some(thread)) else { return false };
        setpriority_process(Some(thread), now - 1).is_ok() && setpriority_process(Some(thread), now).is_ok()
    }

    /// Gives the calling thread the policy `SCHED_FIFO` with this rank, 1 to 99: it runs before all threads with a nice
    /// level, and before those of a lower rank.
    #[expect(unsafe_code, reason = "no library that is here asks for a policy")]
    pub(super) fn be_prompt(rank: libc::c_int) -> io::Result<()> {
        // By default the system may fire a thread's timers up to 50 µs late, to let several fire together. The slack is
        // set to 1 ns, so that they are exact.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        // Makes the system call directly, because in some versions of libc the function does nothing.
        //
        // SAFETY: 0 names the calling thread, and the system only reads `rank`, which outlives the call.
        match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const rank) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for a time slice of `ns`, and keeps the thread's weight. A thread with another policy than the usual one
    /// keeps that policy, and the call fails.
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

    /// Returns the time slice that the calling thread asks for, in ns; 0 where the system has no slices.
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

/// On other systems than Linux all threads of a process have one weight.
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
    fn background_threads_have_low_priority_until_they_are_raised_where_that_is_allowed() {
        let group = BackgroundThreads::new(19);
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = group
            .spawn("group", move || {
                tell.send(system::this_thread()).expect("the test waits");
                // The thread runs until the test drops its end of the channel.
                let _over = ended.recv();
            })
            .expect("a thread");
        let member = told.recv().expect("it runs");
        let may_be_raised = group.fixed() == 0;
        assert_eq!(system::nice(member), if may_be_raised { 19 } else { BACKGROUND });
        assert!(group.hurry(true) && !group.hurry(true), "reported once");
        assert_eq!(
            (system::nice(member), group.hurries()),
            (if may_be_raised { 0 } else { BACKGROUND }, true)
        );
        assert!(group.hurry(false));
        assert_eq!(system::nice(member), if may_be_raised { 19 } else { BACKGROUND });
        drop(end);
        thread.join().expect("no panic");
        assert!(group.members.lock().is_empty() && group.fixed() == 0, "who has ended is no member");
    }

    #[test]
    fn the_usual_background_priority_can_be_raised_without_a_privilege() {
        let group = BackgroundThreads::new(BACKGROUND as u8);
        let nice = group.spawn("group", || system::nice(system::this_thread())).expect("a thread");
        assert_eq!((nice.join().expect("no panic"), group.fixed()), (BACKGROUND, 0));
    }

    #[test]
    fn serving_threads_ask_for_short_time_slices_and_threads_that_they_start_do_not() {
        let serving = spawn_thread("test", Priority::Serving, || {
            let own = system::runs_at_once().expect("known");
            let started = std::thread::spawn(|| system::runs_at_once().expect("known"));
            (own, started.join().expect("no panic"), system::nice(system::this_thread()))
        });
        let (own, started, nice) = serving.expect("a thread").join().expect("no panic");
        // Before version 6.12 Linux has no time slices to ask for.
        assert!(own == BRIEF || own == 0, "{own}");
        assert!(started > BRIEF || started == 0, "{started}");
        assert_eq!(nice, system::nice(system::this_thread()));
    }
}
