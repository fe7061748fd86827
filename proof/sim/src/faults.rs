//! The schedule of faults of a run.
//!
//! The seed chooses the kinds of faults of a run, which may be none. The time between two faults and the duration of
//! each are random. All faults end when the clients finish.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use storage::{Files, ReserveState};

use crate::disk::Conduct;
use crate::network::Link;
use crate::random::Random;
use crate::replica::Replica;
use crate::scheduler::{Health, MachineId, Scheduler};
use crate::server::{Replaced, Server};
use crate::store::{Store, StoreConduct};
use crate::target::Target;

/// Kinds of faults; a run has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kill -9` and a start some time later.
    Kill,
    /// A loss of power.
    Power,
    /// An orderly stop and a start.
    Stop,
    /// A suspended process: SIGSTOP, and SIGCONT later.
    Pause,
    /// Slow and lossy links.
    Slow,
    /// Network partitions, in one direction or both.
    Cut,
    /// Slow disk calls.
    SlowDisk,
    /// Failing disk calls. A kill follows, because a failed log does not recover.
    FailingDisk,
    /// Reads with a wrong bit.
    WrongBits,
    /// Reads that end early.
    ShortReads,
    /// Misdirected writes. They destroy acknowledged bytes, so the judges accept that those cannot be read.
    Misdirected,
    /// A full disk.
    FullDisk,
    /// The wall clock jumps ahead.
    Clock,
    /// The wall clock steps back, also across a start. By HBase's rules new writes may then be older than existing
    /// ones.
    ClockBack,
    /// Calls of the object store fail, or happen and report failure, or arrive twice; listings are stale.
    FailingStore,
    /// Another server takes over the files while the process is suspended, which then continues. It must acknowledge
    /// nothing more, and end.
    TakeOver,
    /// The read replica is killed, suspended, or cut off from its clients.
    Replica,
}

/// Kinds that are chosen often.
const OFTEN: [Kind; 13] = [
    Kind::Kill,
    Kind::Power,
    Kind::Stop,
    Kind::Pause,
    Kind::Slow,
    Kind::Cut,
    Kind::SlowDisk,
    Kind::FailingDisk,
    Kind::WrongBits,
    Kind::ShortReads,
    Kind::FullDisk,
    Kind::Clock,
    Kind::ClockBack,
];

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 17] = [
        Kind::Kill,
        Kind::Power,
        Kind::Stop,
        Kind::Pause,
        Kind::Slow,
        Kind::Cut,
        Kind::SlowDisk,
        Kind::FailingDisk,
        Kind::WrongBits,
        Kind::ShortReads,
        Kind::Misdirected,
        Kind::FullDisk,
        Kind::Clock,
        Kind::ClockBack,
        Kind::FailingStore,
        Kind::TakeOver,
        Kind::Replica,
    ];

    /// Returns what a run must have so that this kind of fault has an effect.
    pub fn target(self) -> Target {
        match self {
            Kind::SlowDisk
            | Kind::FailingDisk
            | Kind::WrongBits
            | Kind::ShortReads
            | Kind::Misdirected
            | Kind::FullDisk => Target::Disk,
            Kind::FailingStore => Target::Store,
            Kind::TakeOver => Target::Shared,
            Kind::Replica => Target::Replica,
            Kind::Kill
            | Kind::Power
            | Kind::Stop
            | Kind::Pause
            | Kind::Slow
            | Kind::Cut
            | Kind::Clock
            | Kind::ClockBack => Target::Server,
        }
    }

    /// Returns the kind of fault with this name; `None` when there is none.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == name)
    }
}

/// A scheduled action.
struct Due {
    at: u64,
    act: Act,
}

#[derive(Clone, Copy)]
enum Act {
    Begin,
    Start,
    Resume,
    MendNetwork,
    MendDisk,
    MendStore,
    KillAfterDisk,
    GiveRoom,
    TakeOver,
    ResumeReplaced,
    StartReplica,
    ResumeReplica,
}

/// Size in bytes of the reserve of a simulated disk that becomes full.
const RESERVE_BYTES: u64 = 200_000;

/// Maximum time between a fault of the disk or of the store, and the end of a process that ends because of it, in ns. Calls of
/// a store are repeated for some seconds, and the machine may be paused for half a minute meanwhile.
const ENDS_WITHIN: u64 = 120_000_000_000;

/// Maximum time between the moment from which a replaced process can learn that it was replaced, and its end, in ns. A
/// process checks its ownership within seconds; the rest is for calls that are repeated.
const REPLACED_MAX: u64 = 120_000_000_000;

/// Whether the error text of a server that does not start says that a file is not as it was written.
fn reports_damage(words: &str) -> bool {
    ["corrupt", "cannot be read", "cannot read"].iter().any(|part| words.contains(part))
}

/// The schedule of faults; see the module documentation.
pub struct Faults {
    scheduler: Rc<Scheduler>,
    server: Rc<Server>,
    replica: Option<Rc<Replica>>,
    clients: MachineId,
    random: Random,
    kinds: Vec<Kind>,
    between_ms: u64,
    due: Vec<Due>,
    ahead_ms: i64,
    is_down: bool,
    /// The last time at which the disk or the store of the present process was faulty, in ns.
    faulty_at: Option<u64>,
    /// Number of consecutive processes that reported damaged files and ended before they served a client.
    damaged_starts: u32,
    /// The time since which a replaced process runs beside one that owns its files, in ns.
    replaced_since: Option<u64>,
    /// Whether the server replaced one that had not opened the log yet. When that one goes on, it may take the log, once, from
    /// the server or from one that was started after it.
    may_lose_log: bool,
}

impl Faults {
    /// Draws the kinds of faults for a run. Each of them has an effect where the server's files are.
    pub fn draw(
        scheduler: &Rc<Scheduler>,
        server: &Rc<Server>,
        replica: Option<&Rc<Replica>>,
        clients: MachineId,
        mut random: Random,
    ) -> Faults {
        let mut kinds = Vec::new();
        let of_store =
            [Kind::FailingStore, Kind::TakeOver, Kind::Replica].into_iter().flat_map(|kind| [kind; 5]);
        let choice: Vec<Kind> =
            OFTEN.into_iter().chain(of_store).filter(|kind| server.has(kind.target())).collect();
        for _ in 0..random.below(5) {
            let kind = random.choose(&choice);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        // This kind is chosen rarely, because the judges must then accept unreadable data.
        if random.one_in(12) && server.has(Kind::Misdirected.target()) {
            kinds.push(Kind::Misdirected);
        }
        let between_ms = random.spread(200, 20_000);
        let mut faults = Faults {
            scheduler: Rc::clone(scheduler),
            server: Rc::clone(server),
            replica: replica.cloned(),
            clients,
            random,
            kinds,
            between_ms,
            due: Vec::new(),
            ahead_ms: 0,
            is_down: false,
            faulty_at: None,
            damaged_starts: 0,
            replaced_since: None,
            may_lose_log: false,
        };
        faults.set_links(Link::default());
        faults
    }

    /// Adds a kind of fault, if the seed has not chosen it.
    ///
    /// # Panics
    /// If the fault would have no effect.
    pub fn add(&mut self, kind: Kind) {
        assert!(self.server.has(kind.target()), "{kind:?} has no effect without {:?}", kind.target());
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    /// Removes the kinds of faults that the seed has chosen.
    pub fn clear(&mut self) {
        self.kinds.clear();
    }

    /// Returns the kinds of this run.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether no kind of fault of this run lets the server forget a nonce that its log has: the log is not damaged, and
    /// no clock makes a nonce look old.
    pub fn keep_nonces(&self) -> bool {
        const HARMLESS: [Kind; 7] =
            [Kind::Kill, Kind::Power, Kind::Stop, Kind::Pause, Kind::Slow, Kind::Cut, Kind::SlowDisk];
        self.kinds.iter().all(|kind| HARMLESS.contains(kind))
    }

    /// Schedules the first fault; does nothing if the run has no kinds of faults.
    pub fn begin(&mut self) {
        if !self.kinds.is_empty() {
            self.later(self.between_ms, Act::Begin);
        }
    }

    fn later(&mut self, within_ms: u64, act: Act) {
        let wait = self.random.below(within_ms * 1_000_000 + 1);
        self.due.push(Due { at: self.scheduler.now() + wait, act });
    }

    /// Returns the time of the next action, in ns; `u64::MAX` if none is scheduled.
    pub fn next_at(&self) -> u64 {
        self.due.iter().map(|due| due.at).min().unwrap_or(u64::MAX)
    }

    /// Performs the actions that are due.
    pub fn act(&mut self) {
        let now = self.scheduler.now();
        while let Some(at) = self.due.iter().position(|due| due.at <= now) {
            let due = self.due.remove(at);
            self.perform(due.act);
        }
    }

    fn set_links(&mut self, link: Link) {
        let (server, clients) = (self.server.machine(), self.clients);
        let mut network = self.scheduler.network.borrow_mut();
        if let Some(replica) = &self.replica {
            *network.link(replica.machine(), clients) = link;
            *network.link(clients, replica.machine()) = link;
            *network.link(replica.machine(), replica.machine()) = Link::default();
        }
        if let Some(replaced) = self.server.replaced() {
            *network.link(replaced.machine, clients) = link;
            *network.link(clients, replaced.machine) = link;
        }
        for (from, to) in [(server, clients), (clients, server), (clients, clients), (server, server)] {
            *network.link(from, to) = if from == to { Link::default() } else { link };
        }
    }

    /// Records that the disk or the store is faulty now.
    fn note_disk_faults(&mut self) {
        if self.has_disk_faults() {
            self.faulty_at = Some(self.scheduler.now());
        }
    }

    fn perform(&mut self, act: Act) {
        // Most acts that are performed later end a fault.
        self.note_disk_faults();
        match act {
            Act::Begin => {
                let kind = self.random.choose(&self.kinds.clone());
                self.strike(kind);
                self.later(2 * self.between_ms, Act::Begin);
            }
            Act::Start => self.start(),
            Act::Resume => {
                self.scheduler.note(|| "fault  the server goes on".to_owned());
                self.scheduler.resume_machine(self.server.machine());
            }
            Act::MendNetwork => {
                self.scheduler.note(|| "fault  the network is whole".to_owned());
                self.set_links(Link::default());
            }
            Act::MendDisk => self.mend_disk(),
            Act::MendStore => self.mend_store(),
            Act::KillAfterDisk => {
                self.mend_disk();
                self.go_down(Server::kill, 3_000);
            }
            Act::GiveRoom => {
                self.scheduler.note(|| "fault  the disk has room".to_owned());
                self.server.place().set_bytes_max(None);
            }
            Act::TakeOver => self.take_over(),
            Act::ResumeReplaced => self.server.resume_replaced(),
            Act::StartReplica => self.replica.iter().for_each(|replica| replica.start()),
            Act::ResumeReplica => self.replica.iter().for_each(|replica| replica.resume()),
        }
    }

    /// Lets another server take over, also while this one starts, unless the process has ended meanwhile.
    fn take_over(&mut self) {
        if self.is_down || self.server.replaced().is_some() {
            return self.scheduler.resume_machine(self.server.machine());
        }
        self.may_lose_log = !self.server.life().owns_log.load(Ordering::Acquire);
        if !self.server.life().ready.load(Ordering::Acquire) {
            env::sometimes("server: another one took over while it started");
        }
        self.scheduler.count("fault: another server takes over");
        self.scheduler.pause(self.server.machine());
        self.server.take_over();
        // Both machines have the same time.
        self.scheduler.world_of(self.server.machine()).set_ahead(self.ahead_ms);
        let most = self.random.spread(100, 20_000);
        self.later(most, Act::ResumeReplaced);
    }

    fn mend_disk(&mut self) {
        self.scheduler.note(|| "fault  the disk is well".to_owned());
        *self.server.conduct.lock() = Conduct::default();
    }

    fn mend_store(&mut self) {
        if let Some(store) = self.server.store() {
            self.scheduler.note(|| "fault  the store is well".to_owned());
            store.set_conduct(StoreConduct::default());
        }
    }

    fn start(&mut self) {
        if self.is_down {
            self.is_down = false;
            // A start must not take wrong bytes for right ones, because its first reads decide about everything that
            // follows. So these faults often begin before a start.
            for kind in [Kind::WrongBits, Kind::ShortReads] {
                if self.kinds.contains(&kind) && self.random.one_in(2) {
                    self.strike(kind);
                }
            }
            self.faulty_at = None;
            self.note_disk_faults();
            self.server.start();
        }
    }

    fn go_down(&mut self, how: impl FnOnce(&Server), within_ms: u64) {
        if !self.is_down {
            self.scheduler.resume_machine(self.server.machine());
            how(&self.server);
            self.is_down = true;
            self.later(within_ms, Act::Start);
        }
    }

    fn strike(&mut self, kind: Kind) {
        let tell = |what: &'static str, scheduler: &Scheduler| {
            scheduler.count(what);
            scheduler.note(|| what.to_owned());
        };
        if matches!(
            kind,
            Kind::FailingDisk | Kind::WrongBits | Kind::ShortReads | Kind::FullDisk | Kind::FailingStore
        ) {
            self.faulty_at = Some(self.scheduler.now());
        }
        match kind {
            Kind::Kill => self.go_down(Server::kill, 3_000),
            Kind::Power => self.go_down(Server::lose_power, 5_000),
            Kind::Stop => {
                if !self.is_down {
                    tell("fault: stop in order", &self.scheduler);
                    self.server.stop();
                }
            }
            Kind::Pause => {
                if !self.is_down {
                    tell("fault: pause", &self.scheduler);
                    self.scheduler.pause(self.server.machine());
                    let most = self.random.spread(100, 30_000);
                    self.later(most, Act::Resume);
                }
            }
            Kind::Slow => {
                tell("fault: slow and lossy network", &self.scheduler);
                let most = self.random.spread(1_000, 1_000_000) * 1_000;
                let link = Link {
                    latency: (50_000, most),
                    lost_of_1000: self.random.choose(&[0, 5, 50, 300]),
                    rate: self.random.choose(&[0, 0, 10_000, 1_000_000]),
                    is_cut: false,
                };
                self.set_links(link);
                self.later(20_000, Act::MendNetwork);
            }
            Kind::Cut => {
                tell("fault: network cut", &self.scheduler);
                let (server, clients) = (self.server.machine(), self.clients);
                let which = self.random.below(3);
                let mut network = self.scheduler.network.borrow_mut();
                network.link(server, clients).is_cut = which != 0;
                network.link(clients, server).is_cut = which != 1;
                drop(network);
                let most = self.random.spread(100, 40_000);
                self.later(most, Act::MendNetwork);
            }
            Kind::SlowDisk => {
                tell("fault: slow disk", &self.scheduler);
                let most = self.random.spread(1_000, 2_000_000);
                self.server.conduct.lock().sync_us = (500, most);
                self.server.conduct.lock().access_us = (5, most / 50);
                self.later(20_000, Act::MendDisk);
            }
            Kind::FailingDisk => {
                tell("fault: failing disk", &self.scheduler);
                self.server.conduct.lock().failing_of_10_000 = self.random.spread(5, 2_000);
                self.later(5_000, Act::KillAfterDisk);
            }
            Kind::WrongBits => {
                tell("fault: wrong bits", &self.scheduler);
                self.server.conduct.lock().flipped_of_10_000 = self.random.spread(10, 1_000);
                self.later(5_000, Act::MendDisk);
            }
            Kind::ShortReads => {
                tell("fault: short reads", &self.scheduler);
                self.server.conduct.lock().short_of_10_000 = self.random.spread(10, 1_000);
                self.later(5_000, Act::MendDisk);
            }
            Kind::Misdirected => {
                tell("fault: misdirected writes", &self.scheduler);
                self.server.conduct.lock().misdirected_of_10_000 = self.random.spread(5, 1_000);
                self.later(2_000, Act::MendDisk);
            }
            Kind::FullDisk => {
                tell("fault: full disk", &self.scheduler);
                let more = self.random.spread(1, 100_000);
                let place = self.server.place();
                // What may be written then: what frees room, such as records of hbase:meta. If an earlier full disk has used
                // this room, it is missing now.
                if place.reserve_state() == ReserveState::None {
                    place.set_reserve(RESERVE_BYTES);
                }
                let kept = if place.reserve_state() == ReserveState::Kept { RESERVE_BYTES } else { 0 };
                place.set_bytes_max(Some(place.bytes() + kept + more));
                self.later(10_000, Act::GiveRoom);
            }
            Kind::FailingStore => {
                let store = self.server.store().expect("this kind has a store");
                tell("fault: failing store", &self.scheduler);
                let most = self.random.spread(1_000, 500_000);
                store.set_conduct(StoreConduct {
                    call_us: (1_000, most),
                    failing_of_10_000: self.random.spread(5, 5_000),
                    stale_of_10: self.random.below(8),
                    twice_of_10_000: if self.random.one_in(2) { self.random.spread(5, 5_000) } else { 0 },
                });
                self.later(10_000, Act::MendStore);
            }
            Kind::TakeOver => {
                if !self.is_down && self.server.replaced().is_none() {
                    tell("fault: pause", &self.scheduler);
                    self.scheduler.pause(self.server.machine());
                    let most = self.random.spread(100, 10_000);
                    self.later(most, Act::TakeOver);
                }
            }
            Kind::Replica => self.strike_replica(),
            Kind::Clock => {
                tell("fault: clock jump", &self.scheduler);
                let ahead = self.random.spread(1, 600_000) as i64;
                self.set_clock(ahead);
            }
            Kind::ClockBack => {
                tell("fault: clock steps back", &self.scheduler);
                let back = self.random.spread(1, 600_000) as i64;
                self.set_clock(-back);
            }
        }
    }

    fn strike_replica(&mut self) {
        let replica = Rc::clone(self.replica.as_ref().expect("this kind has a replica"));
        if !replica.is_up() {
            return;
        }
        match self.random.below(3) {
            0 => {
                replica.kill();
                self.later(5_000, Act::StartReplica);
            }
            1 => {
                replica.pause();
                let most = self.random.spread(100, 60_000);
                self.later(most, Act::ResumeReplica);
            }
            _ => {
                self.scheduler.note(|| "fault  the replica is cut off".to_owned());
                self.scheduler.count("fault: the replica is cut off");
                let (machine, clients) = (replica.machine(), self.clients);
                let which = self.random.below(3);
                let mut network = self.scheduler.network.borrow_mut();
                network.link(machine, clients).is_cut = which != 0;
                network.link(clients, machine).is_cut = which != 1;
                drop(network);
                let most = self.random.spread(100, 20_000);
                self.later(most, Act::MendNetwork);
            }
        }
    }

    /// If the replica has ended by itself, schedules a new start. Returns an error text if it had served clients: the
    /// faults of a store may end a start, and nothing else.
    fn supervise_replica(&mut self) -> Option<String> {
        let (failure, was_ready) = self.replica.as_ref()?.take_end()?;
        self.later(1_000, Act::StartReplica);
        was_ready.then(|| format!("the replica ends without need: {failure}"))
    }

    /// Moves the server's wall clock by `by_ms` ms.
    fn set_clock(&mut self, by_ms: i64) {
        self.ahead_ms += by_ms;
        self.scheduler
            .note(|| format!("fault  the clock is set by {by_ms} ms, to {} ms ahead", self.ahead_ms));
        self.scheduler.world_of(self.server.machine()).set_ahead(self.ahead_ms);
    }

    /// If the process has ended by itself, schedules a new start, as a supervisor does. Returns an error text if the
    /// process failed without a fault that explains it, or if a replaced process does not end.
    pub fn supervise(&mut self) -> Option<String> {
        if let Some(failure) = self.supervise_replaced().or_else(|| self.supervise_replica()) {
            return Some(failure);
        }
        let life = self.server.life();
        if self.is_down || !life.ended.load(Ordering::Acquire) {
            return None;
        }
        let failure = life.failure.lock().take();
        if let Some(failure) = &failure {
            self.scheduler.note(|| format!("server ends: {failure}"));
        }
        // The process has ended, so its remaining threads end, too.
        self.server.exit();
        self.is_down = true;
        self.later(500, Act::Start);
        let has_failed = !life.was_ready.load(Ordering::Acquire);
        let is_damaged = has_failed && failure.as_deref().is_some_and(reports_damage);
        self.damaged_starts = if is_damaged { self.damaged_starts + 1 } else { 0 };
        let has_lost_log =
            self.may_lose_log && failure.as_deref().is_some_and(|words| words.contains("was taken over by"));
        self.may_lose_log &= !has_lost_log;
        let was_faulty = self.faulty_at.is_some_and(|at| self.scheduler.now() - at <= ENDS_WITHIN);
        let may_end = has_lost_log || was_faulty || self.has_disk_faults() || self.has_destroyed();
        failure.filter(|_| !may_end).map(|words| format!("the server ends without need: {words}"))
    }

    /// Ends the remaining threads of a replaced process that has ended. Returns a sentence if it does not end.
    fn supervise_replaced(&mut self) -> Option<String> {
        let Some(Replaced { machine, life }) = self.server.replaced() else {
            self.replaced_since = None;
            return None;
        };
        if life.ended.load(Ordering::Acquire) {
            let failure = life.failure.lock().take();
            self.scheduler.note(|| format!("replaced server ends: {failure:?}"));
            env::sometimes("server: a replaced server has ended");
            self.server.exit_replaced();
            return None;
        }
        let now = self.scheduler.now();
        let is_running = self.scheduler.health(machine) != Health::Paused;
        // Calls of a failing store are repeated, and until then nobody knows who owns the files.
        let has_owner = self.server.life().ready.load(Ordering::Acquire) && !self.has_disk_faults();
        if !is_running || !has_owner {
            self.replaced_since = None;
            return None;
        }
        let since = *self.replaced_since.get_or_insert(now);
        (now - since > REPLACED_MAX).then(|| "a replaced server does not end".to_owned())
    }

    /// Whether a process may end because of its disk.
    fn has_disk_faults(&self) -> bool {
        let conduct = *self.server.conduct.lock();
        let is_full = self.due.iter().any(|due| matches!(due.act, Act::GiveRoom));
        let store_fails = self.server.store().is_some_and(Store::is_failing);
        conduct.is_faulty() || is_full || store_fails
    }

    /// Whether the disk destroyed acknowledged bytes.
    pub fn has_destroyed(&self) -> bool {
        self.server.medium().misdirected > 0
    }

    /// Returns the number of consecutive processes that reported damaged files and ended before they served a client.
    pub fn damaged_starts(&self) -> u32 {
        self.damaged_starts
    }

    /// Ends all faults and starts the server if it is down.
    pub fn end(&mut self) {
        self.note_disk_faults();
        let had_failed = self.server.conduct.lock().failing_of_10_000 > 0
            || self.kinds.contains(&Kind::FailingStore)
            || self.kinds.contains(&Kind::FullDisk);
        self.due.clear();
        self.kinds.clear();
        self.scheduler.note(|| "faults are over".to_owned());
        self.scheduler.resume_machine(self.server.machine());
        self.server.resume_replaced();
        self.perform(Act::ResumeReplica);
        self.perform(Act::StartReplica);
        self.set_links(Link::default());
        self.mend_disk();
        self.mend_store();
        self.server.place().set_bytes_max(None);
        if had_failed && self.random.one_in(2) {
            self.go_down(Server::kill, 1);
            self.due.clear();
        }
        self.start();
    }

    /// Returns the time until the next action, but at least 1 ms and at most 100 ms.
    pub fn until_next(&self) -> Duration {
        Duration::from_nanos(
            self.next_at().saturating_sub(self.scheduler.now()).clamp(1_000_000, 100_000_000),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_files_report_damage() {
        assert!(reports_damage("log corrupt file=WALs/7.wal offset=0: file header, expected a whole header"));
        assert!(reports_damage("a/.tableinfo.1.2 cannot be read: .tableinfo does not begin with PBUF"));
        assert!(!reports_damage("cannot swap WALs/OWNER: no space left"));
        assert!(!reports_damage("region t,,1.0. was aborted"));
    }
}
