//! Threads as coroutines, time as a queue of events, and one random choice at a time.
//!
//! 1. A random number chooses one of the runnable threads; it runs until it waits, and some microseconds pass.
//! 2. When no thread can run, time jumps to the next event: a timer, the end of a wait, a packet.
//! 3. Every step goes into the transcript's hash. The same seed gives the same steps, so the same hash.
//!
//! The threads of a killed machine run nothing any more, not even destructors, so everything that they own is leaked.
//! So one process runs some seeds, and another one the next.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use env::simulation::{Acceptor, Boxed, Director, Socket, ThreadId, Timer};
use env::{WallTime, World};

use crate::network::{Network, Packet};
use crate::random::Random;
use crate::transcript::Transcript;

/// Size of a coroutine's stack in bytes; the system allocates it page by page.
const STACK_BYTES: usize = 1 << 20;

/// The number of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub usize);

impl MachineId {
    /// Returns the machine's address.
    pub fn ip(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + self.0 as u8))
    }

    /// Returns the machine of an address; `None` for an address that no simulated machine can have.
    pub fn of(address: SocketAddr) -> Option<MachineId> {
        match address.ip() {
            IpAddr::V4(ip) if ip.octets()[..3] == [10, 0, 0] => {
                Some(MachineId(usize::from(ip.octets()[3]) - 1))
            }
            _ => None,
        }
    }
}

/// The state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The machine runs.
    Up,
    /// The process of the machine is suspended.
    Paused,
    /// The process of the machine has ended; its system refuses connections.
    Killed,
    /// The machine answers nothing.
    Dark,
}

struct Machine {
    name: &'static str,
    world: World,
    health: Health,
    /// The threads that were runnable when the process was suspended.
    held: Vec<u64>,
}

struct Fiber {
    name: String,
    machine: MachineId,
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    yielder: Rc<Cell<*const Yielder<(), ()>>>,
    /// Whether the thread was unparked since it last waited.
    permit: bool,
    parked: bool,
    queued: bool,
    /// Number of the thread's current wait: timers of earlier waits are ignored.
    wait: u64,
}

enum Event {
    Ring(Weak<Timer>),
    WaitOver { fiber: u64, wait: u64 },
    Packet(Packet),
}

struct Queued {
    at: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

struct State {
    random: Random,
    machines: Vec<Machine>,
    fibers: BTreeMap<u64, Fiber>,
    next_fiber: u64,
    /// The runnable threads, sorted by number, because tokio's `watch` wakes in an order that is not deterministic.
    runnable: BTreeSet<u64>,
    events: BinaryHeap<Reverse<Queued>>,
    sequence: u64,
    stacks: Vec<DefaultStack>,
    /// The scheduler interrupts one lock in this many; 0 for none.
    interrupt_one_in: u64,
    planted: u32,
    steps: u64,
    panics: Vec<String>,
}

/// The scheduler of a simulation; see the module documentation.
pub struct Scheduler {
    world: World,
    start: env::Moment,
    state: RefCell<State>,
    current: Cell<Option<u64>>,
    /// Whether taking a lock never switches threads at this moment.
    is_calm: Cell<bool>,
    pub(crate) network: RefCell<Network>,
    transcript: RefCell<Transcript>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

/// Returns the scheduler of the simulation that runs in this thread.
///
/// # Panics
/// Outside a simulation.
pub fn scheduler() -> Rc<Scheduler> {
    CURRENT.with_borrow(Clone::clone).expect("a simulation runs")
}

/// Like [`scheduler`]; returns `None` outside a simulation.
pub(crate) fn try_scheduler() -> Option<Rc<Scheduler>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Ends the simulation of this thread when it is dropped.
pub struct Running {
    scheduler: Rc<Scheduler>,
    entered: Option<env::simulation::Entered>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let count = self.scheduler.state.borrow().machines.len();
        for index in 0..count {
            self.scheduler.kill(MachineId(index), Health::Dark);
        }
        for index in 0..count {
            self.scheduler.announce_death(MachineId(index), Health::Dark);
        }
        self.scheduler.network.borrow_mut().clear();
        self.scheduler.state.borrow_mut().events.clear();
        self.entered.take();
        CURRENT.with_borrow_mut(Option::take);
    }
}

impl Scheduler {
    /// Begins a simulation in this thread.
    pub fn start(seed: u64, planted: u32, transcript: Transcript) -> (Rc<Scheduler>, Running) {
        let mut random = Random::new(seed);
        let world = World::simulated(random.bits(), WallTime(1_700_000_000_000));
        let interrupt_one_in = [0, 0, 10, 100, 1_000][random.below(5) as usize];
        let network = Network::new(Random::new(random.bits()));
        let scheduler = Rc::new(Scheduler {
            start: world.moment(),
            world,
            state: RefCell::new(State {
                random,
                machines: Vec::new(),
                fibers: BTreeMap::new(),
                next_fiber: 1,
                runnable: BTreeSet::new(),
                events: BinaryHeap::new(),
                sequence: 0,
                stacks: Vec::new(),
                interrupt_one_in,
                planted,
                steps: 0,
                panics: Vec::new(),
            }),
            current: Cell::new(None),
            is_calm: Cell::new(false),
            network: RefCell::new(network),
            transcript: RefCell::new(transcript),
        });
        CURRENT.with_borrow_mut(|current| *current = Some(Rc::clone(&scheduler)));
        let entered = env::simulation::enter(Rc::clone(&scheduler) as Rc<dyn Director>);
        let running = Running { scheduler: Rc::clone(&scheduler), entered: Some(entered) };
        (scheduler, running)
    }

    /// Adds a machine without threads.
    pub fn machine(&self, name: &'static str) -> MachineId {
        let mut state = self.state.borrow_mut();
        let world = self.world.beside(state.random.bits());
        state.machines.push(Machine { name, world, health: Health::Up, held: Vec::new() });
        MachineId(state.machines.len() - 1)
    }

    /// Returns the simulated time since the start, in ns.
    pub fn now(&self) -> u64 {
        self.world.moment().since(self.start).as_nanos() as u64
    }

    /// Returns the environment of a machine.
    pub fn world_of(&self, machine: MachineId) -> World {
        self.state.borrow().machines[machine.0].world.clone()
    }

    /// Returns the state of a machine.
    pub fn health(&self, machine: MachineId) -> Health {
        self.state.borrow().machines[machine.0].health
    }

    /// Returns a random number below `bound` from the simulation's generator.
    pub fn below(&self, bound: u64) -> u64 {
        self.state.borrow_mut().random.below(bound)
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// Removes and returns the messages of the panics so far.
    pub fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().panics)
    }

    /// Runs `act` without a thread switch, unless it waits.
    pub fn without_interruption<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = self.is_calm.replace(true);
        let done = act();
        self.is_calm.set(before);
        done
    }

    /// Adds a line to the transcript.
    pub fn note(&self, line: impl FnOnce() -> String) {
        self.transcript.borrow_mut().line(self.now(), line);
    }

    /// Counts an operation or a reached state.
    pub fn count(&self, what: &'static str) {
        self.transcript.borrow_mut().count(what);
    }

    /// Removes and returns the transcript; an empty one is left.
    pub fn take_transcript(&self) -> Transcript {
        std::mem::take(&mut self.transcript.borrow_mut())
    }

    /// Starts a thread on a machine.
    pub fn spawn_on(&self, machine: MachineId, name: &str, work: Box<dyn FnOnce()>) -> ThreadId {
        let mut state = self.state.borrow_mut();
        let id = state.next_fiber;
        state.next_fiber += 1;
        let yielder = Rc::new(Cell::new(std::ptr::null::<Yielder<(), ()>>()));
        let own = Rc::clone(&yielder);
        let stack =
            state.stacks.pop().unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("room for a stack"));
        let thread = name.to_owned();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            own.set(std::ptr::from_ref(yielder));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if ended.is_err() {
                scheduler().panicked(&format!("thread {thread} ends by a panic"));
            }
        });
        let fiber = Fiber {
            name: name.to_owned(),
            machine,
            coroutine: Some(coroutine),
            yielder,
            permit: false,
            parked: false,
            queued: true,
            wait: 0,
        };
        state.fibers.insert(id, fiber);
        state.runnable.insert(id);
        ThreadId(id)
    }

    /// Schedules the delivery of a packet.
    pub(crate) fn send_after(&self, after_ns: u64, packet: Packet) {
        self.push(after_ns, Event::Packet(packet));
    }

    fn push(&self, after_ns: u64, event: Event) {
        let at = self.now().saturating_add(after_ns);
        let mut state = self.state.borrow_mut();
        state.sequence += 1;
        let sequence = state.sequence;
        state.events.push(Reverse(Queued { at, sequence, event }));
    }

    fn make_runnable(state: &mut State, id: u64) {
        let Some(fiber) = state.fibers.get_mut(&id) else { return };
        if fiber.parked {
            fiber.parked = false;
            if !std::mem::replace(&mut fiber.queued, true) {
                state.runnable.insert(id);
            }
        } else {
            fiber.permit = true;
        }
    }

    /// Runs one step; returns `false` when no thread can run and no event is left.
    pub fn step(&self) -> bool {
        self.fire_due();
        let chosen = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            loop {
                if state.runnable.is_empty() {
                    break None;
                }
                let at = state.random.below(state.runnable.len() as u64) as usize;
                let id = *state.runnable.iter().nth(at).expect("it is below their number");
                state.runnable.remove(&id);
                let Some(fiber) = state.fibers.get_mut(&id) else { continue };
                let machine = &mut state.machines[fiber.machine.0];
                if machine.health == Health::Paused {
                    machine.held.push(id);
                    continue;
                }
                break Some(id);
            }
        };
        let Some(id) = chosen else { return self.jump() };
        self.resume(id);
        let passes = 200 + self.below(4_000);
        self.world.advance(Duration::from_nanos(passes));
        true
    }

    /// Runs a thread until it waits or ends.
    fn resume(&self, id: u64) {
        let mut coroutine = {
            let mut state = self.state.borrow_mut();
            state.steps += 1;
            let fiber = state.fibers.get_mut(&id).expect("it was chosen");
            fiber.queued = false;
            fiber.coroutine.take().expect("it does not run")
        };
        let now = self.now();
        self.transcript.borrow_mut().step(now, &[1, id, now], || {
            let state = self.state.borrow();
            let fiber = &state.fibers[&id];
            format!("{}/{} {id}", state.machines[fiber.machine.0].name, fiber.name)
        });
        let before = self.current.replace(Some(id));
        let outcome = coroutine.resume(());
        self.current.set(before);
        let mut state = self.state.borrow_mut();
        match outcome {
            CoroutineResult::Yield(()) => {
                state.fibers.get_mut(&id).expect("it has not ended").coroutine = Some(coroutine);
            }
            CoroutineResult::Return(()) => {
                state.fibers.remove(&id);
                state.stacks.push(coroutine.into_stack());
            }
        }
    }

    /// Fires the events that are due.
    fn fire_due(&self) {
        let now = self.now();
        loop {
            let event = {
                let mut state = self.state.borrow_mut();
                match state.events.peek() {
                    Some(Reverse(next)) if next.at <= now => {
                        state.events.pop().map(|Reverse(next)| next.event)
                    }
                    _ => return,
                }
            };
            if let Some(event) = event {
                self.fire(event);
            }
        }
    }

    fn fire(&self, event: Event) {
        match event {
            Event::Ring(timer) => {
                if let Some(timer) = timer.upgrade() {
                    let now = self.now();
                    self.transcript.borrow_mut().step(now, &[2, now], || "a timer rings".to_owned());
                    timer.ring();
                }
            }
            Event::WaitOver { fiber, wait } => {
                let mut state = self.state.borrow_mut();
                if state.fibers.get(&fiber).is_some_and(|fiber| fiber.parked && fiber.wait == wait) {
                    Scheduler::make_runnable(&mut state, fiber);
                }
            }
            Event::Packet(packet) => {
                let now = self.now();
                let digest = packet.digest();
                self.transcript.borrow_mut().step(now, &[3, now, digest], || format!("packet {digest:x}"));
                crate::network::deliver(self, packet);
            }
        }
    }

    /// Advances time to the next effective event, because no thread can run.
    fn jump(&self) -> bool {
        loop {
            let queued = {
                let mut state = self.state.borrow_mut();
                let Some(Reverse(queued)) = state.events.pop() else { return false };
                let means_something = match &queued.event {
                    Event::Ring(timer) => timer.strong_count() > 0,
                    Event::WaitOver { fiber, wait } => {
                        state.fibers.get(fiber).is_some_and(|fiber| fiber.parked && fiber.wait == *wait)
                    }
                    Event::Packet(_) => true,
                };
                if !means_something {
                    continue;
                }
                queued
            };
            let by = queued.at.saturating_sub(self.now());
            self.world.advance(Duration::from_nanos(by));
            self.fire(queued.event);
            return true;
        }
    }

    /// Runs until `over` returns true or `limit` has passed. Returns whether `over` returned true.
    pub fn run_until(&self, limit: Duration, over: impl Fn() -> bool) -> bool {
        let end = self.now() + limit.as_nanos() as u64;
        loop {
            if over() {
                return true;
            }
            if self.now() >= end {
                return false;
            }
            if !self.step() {
                // All processes have ended, and nobody calls them.
                self.world.advance(Duration::from_nanos(end - self.now()));
            }
        }
    }

    /// Suspends a machine's process.
    pub fn pause(&self, machine: MachineId) {
        self.state.borrow_mut().machines[machine.0].health = Health::Paused;
    }

    /// Resumes a suspended machine.
    pub fn resume_machine(&self, machine: MachineId) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let machine = &mut state.machines[machine.0];
        if machine.health == Health::Paused {
            machine.health = Health::Up;
            state.runnable.extend(machine.held.drain(..));
        }
    }

    /// Lets a killed machine run again.
    pub fn revive(&self, machine: MachineId) {
        self.state.borrow_mut().machines[machine.0].health = Health::Up;
    }

    /// Ends all threads of a machine, as `kill -9` or a loss of power does. Not even their destructors run, so
    /// everything that they own is leaked.
    #[expect(unsafe_code, reason = "a killed thread must not run its destructors")]
    pub fn kill(&self, machine: MachineId, how: Health) {
        assert!(self.current.get().is_none(), "machines are killed from outside");
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.machines[machine.0].health = how;
        state.machines[machine.0].held.clear();
        let dead: Vec<u64> =
            state.fibers.iter().filter(|(_, fiber)| fiber.machine == machine).map(|(id, _)| *id).collect();
        for id in &dead {
            let mut fiber = state.fibers.remove(id).expect("it was just found");
            let mut coroutine = fiber.coroutine.take().expect("it does not run");
            // SAFETY: no reference into this stack is used any more. Other machines share only sockets with it, whose
            // wakers are forgotten below; the threads of this machine end together.
            unsafe { coroutine.force_reset() };
            state.stacks.push(coroutine.into_stack());
            env::simulation::forget(ThreadId(*id));
        }
        state.runnable.retain(|id| !dead.contains(id));
    }

    /// Tells other machines of a machine's end: connections break or hang.
    pub fn announce_death(&self, machine: MachineId, how: Health) {
        crate::network::machine_is_gone(self, machine, how);
    }

    #[expect(unsafe_code, reason = "the way back out of a coroutine is known to its own frame alone")]
    fn suspend(&self) {
        let id = self.current.get().expect("a thread calls");
        let yielder = {
            let state = self.state.borrow();
            state.fibers.get(&id).expect("it runs").yielder.get()
        };
        // SAFETY: `current` says that the coroutine with this number runs now. Its yielder lives in the first frame of
        // its stack until it ends, and only the coroutine itself uses it.
        unsafe { (*yielder).suspend(()) };
    }
}

impl Director for Scheduler {
    fn world(&self) -> World {
        let state = self.state.borrow();
        let machine = self.current.get().and_then(|id| state.fibers.get(&id)).map(|fiber| fiber.machine);
        machine.map_or_else(|| self.world.clone(), |machine| state.machines[machine.0].world.clone())
    }

    fn random(&self) -> u64 {
        self.state.borrow_mut().random.bits()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce()>) -> io::Result<ThreadId> {
        let machine = {
            let state = self.state.borrow();
            let id = self.current.get().ok_or_else(|| io::Error::other("no machine to start a thread on"))?;
            state.fibers[&id].machine
        };
        Ok(self.spawn_on(machine, name, work))
    }

    fn current(&self) -> Option<ThreadId> {
        self.current.get().map(ThreadId)
    }

    fn park(&self, limit: Option<Duration>) {
        let Some(id) = self.current.get() else { panic!("nobody may wait outside of a thread") };
        let wait = {
            let mut state = self.state.borrow_mut();
            let fiber = state.fibers.get_mut(&id).expect("it runs");
            if std::mem::take(&mut fiber.permit) {
                None
            } else {
                fiber.parked = true;
                fiber.wait += 1;
                Some(fiber.wait)
            }
        };
        let Some(wait) = wait else { return };
        if let Some(limit) = limit {
            self.push(limit.as_nanos() as u64, Event::WaitOver { fiber: id, wait });
        }
        self.suspend();
    }

    fn unpark(&self, thread: ThreadId) {
        Scheduler::make_runnable(&mut self.state.borrow_mut(), thread.0);
    }

    fn give_way(&self) {
        let Some(id) = self.current.get() else { return };
        {
            let mut state = self.state.borrow_mut();
            let fiber = state.fibers.get_mut(&id).expect("it runs");
            fiber.queued = true;
            state.runnable.insert(id);
        }
        self.suspend();
    }

    fn wake_after(&self, time: Duration, timer: &Arc<Timer>) {
        self.push(time.as_nanos() as u64, Event::Ring(Arc::downgrade(timer)));
    }

    fn dial(&self, address: SocketAddr) -> Boxed<io::Result<Box<dyn Socket>>> {
        crate::network::dial(self, self.machine_of_current(), address)
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Acceptor>> {
        crate::network::listen(self, self.machine_of_current(), address)
    }

    fn interrupts(&self) -> bool {
        if self.is_calm.get() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        let one_in = state.interrupt_one_in;
        one_in > 0 && state.random.below(one_in) == 0
    }

    fn planted(&self) -> u32 {
        self.state.borrow().planted
    }

    fn reached(&self, state: &'static str) {
        self.count(state);
    }

    fn panicked(&self, words: &str) {
        self.note(|| format!("PANIC  {words}"));
        self.state.borrow_mut().panics.push(words.to_owned());
    }
}

impl Scheduler {
    fn machine_of_current(&self) -> MachineId {
        let state = self.state.borrow();
        self.current.get().and_then(|id| state.fibers.get(&id)).map_or(MachineId(0), |fiber| fiber.machine)
    }

    /// Returns the names of all threads, with their machines, for a run that does not end.
    pub fn waiting(&self) -> Vec<String> {
        let state = self.state.borrow();
        let name = |fiber: &Fiber| format!("{}/{}", state.machines[fiber.machine.0].name, fiber.name);
        state.fibers.values().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn threads_that_work_together_wait_at_the_same_time() {
        let (scheduler, running) = Scheduler::start(1, 0, Transcript::new(false));
        let machine = scheduler.machine("test");
        let (done, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(8)));
        let (counts, shares) = (Arc::clone(&done), Arc::clone(&left));
        let work = move || {
            env::together("share", 4, || {
                while shares
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    env::simulation::suspend(Duration::from_secs(1));
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            });
            counts.fetch_add(100, Ordering::Relaxed);
        };
        scheduler.spawn_on(machine, "main", Box::new(work));
        assert!(scheduler.run_until(Duration::from_secs(10), || done.load(Ordering::Relaxed) >= 100));
        assert_eq!(done.load(Ordering::Relaxed), 108, "the call returns when all shares are done");
        let seconds = Duration::from_nanos(scheduler.now()).as_secs_f64();
        assert!((2.0..2.1).contains(&seconds), "8 waits of 4 threads took {seconds} s");
        drop(running);
    }

    #[test]
    fn a_panic_of_one_of_the_threads_that_work_together_ends_the_call() {
        let (scheduler, running) = Scheduler::start(1, 0, Transcript::new(false));
        let machine = scheduler.machine("test");
        let ended = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&ended);
        let work = move || {
            let number = AtomicUsize::new(0);
            let caught = env::catch_unwind(|| {
                env::together("share", 3, || {
                    let number = number.fetch_add(1, Ordering::Relaxed);
                    env::simulation::suspend(Duration::from_secs(1));
                    assert_ne!(number, 1, "planned");
                });
            });
            counts.fetch_add(1 + usize::from(caught.is_err()), Ordering::Relaxed);
        };
        scheduler.spawn_on(machine, "main", Box::new(work));
        assert!(scheduler.run_until(Duration::from_secs(10), || ended.load(Ordering::Relaxed) > 0));
        assert_eq!(ended.load(Ordering::Relaxed), 2, "the caller gets the panic");
        assert!(!scheduler.take_panics().is_empty());
        drop(running);
    }
}
