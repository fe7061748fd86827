//! The switches by which operators turn the master's chores on and off.
//!
//! A single server has no use for a balancer, but tools set its switch and expect its previous value. The switches are
//! stored in one small object, so they survive a restart.
//!
//! As with the object of [intents](crate::intents), each write has a number, which is greater than that of the write
//! before and shows which master wrote. In storage that several processes reach, a master also writes the object when
//! it opens it. After that, an earlier master that hung and goes on cannot set a switch.

use std::sync::Arc;

use env::sync::Mutex;
use env::{FirstFailure, World};
use storage::{Capability, FileName, Files, Kind, Outcome, Version, swap_confirmed};

/// All switches, each with its key in the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Whether regions are moved between servers by load.
    Balancer,
    /// Whether regions are split and merged by size.
    Normalizer,
    /// Whether unneeded parents of splits and merges are deleted.
    CatalogJanitor,
    /// Whether files that nobody needs are deleted.
    Cleaner,
    /// Whether regions are split.
    Split,
    /// Whether regions are merged.
    Merge,
    /// Whether snapshots past their time to live are deleted.
    SnapshotCleanup,
    /// Whether replication peers may be added, changed and removed.
    PeerModification,
}

impl Switch {
    const ALL: [Switch; 8] = [
        Switch::Balancer,
        Switch::Normalizer,
        Switch::CatalogJanitor,
        Switch::Cleaner,
        Switch::Split,
        Switch::Merge,
        Switch::SnapshotCleanup,
        Switch::PeerModification,
    ];

    fn key(self) -> &'static str {
        match self {
            Switch::Balancer => "balancer",
            Switch::Normalizer => "normalizer",
            Switch::CatalogJanitor => "catalog-janitor",
            Switch::Cleaner => "cleaner",
            Switch::Split => "split",
            Switch::Merge => "merge",
            Switch::SnapshotCleanup => "snapshot-cleanup",
            Switch::PeerModification => "peer-modification",
        }
    }
}

/// Maximum size of the stored object, in bytes.
const SIZE_MAX: usize = 4096;

/// The switches' state. Each is on in a new cluster, as in HBase.
#[derive(Debug)]
struct State {
    on: [bool; Switch::ALL.len()],
    /// The version of the object that was last read or written; `None` while there is no object.
    version: Option<Version>,
    /// Whether a write of the object failed but may have happened. Then the object must be read before the next change.
    is_in_doubt: bool,
    /// The number of the last write of the object.
    written: u64,
}

/// The text that precedes the number of a write in the object.
const WRITTEN: &str = "written=";

impl State {
    /// Reads the object: one `key=on|off` a line, and `written=NUMBER`. The number differs in each write. So if a store
    /// carries out a swap late, the swap does not find the content that it expects.
    fn read(files: &dyn Files, name: &FileName) -> storage::Result<State> {
        let mut on = [true; Switch::ALL.len()];
        let (content, version) = match files.load(name, SIZE_MAX) {
            Ok(object) => (object.content, Some(object.version)),
            Err(error) if error.kind() == Kind::NotFound => (Vec::new(), None),
            Err(error) => return Err(error),
        };
        let mut written = 0;
        for line in content.split(|&byte| byte == b'\n') {
            if let Some(number) = line.strip_prefix(WRITTEN.as_bytes()) {
                written = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            for (at, switch) in Switch::ALL.iter().enumerate() {
                if line.strip_prefix(switch.key().as_bytes()).is_some_and(|rest| rest == b"=off") {
                    on[at] = false;
                }
            }
        }
        Ok(State { on, version, is_in_doubt: false, written })
    }
}

/// Returns the content of the object with these switches, as its write number `written`.
fn encode_object(on: [bool; Switch::ALL.len()], written: u64) -> String {
    let lines = Switch::ALL.iter().zip(on);
    let text: String =
        lines.map(|(switch, on)| format!("{}={}\n", switch.key(), if on { "on" } else { "off" })).collect();
    format!("{text}{WRITTEN}{written}\n")
}

/// All switches of a master.
pub struct Switches {
    files: Arc<dyn Files>,
    name: FileName,
    state: Mutex<State>,
    /// The number of the last write when this master opened the object.
    found: u64,
    /// The number that precedes this master's first write.
    first: u64,
    /// Where this master reports that another process has written the object.
    replaced: Arc<FirstFailure>,
}

impl Switches {
    /// Reads the switches stored at `name`, and prevents earlier masters from setting them. If another process writes
    /// the object later, this is recorded in `replaced`.
    pub fn open(
        files: Arc<dyn Files>,
        name: FileName,
        world: &World,
        replaced: Arc<FirstFailure>,
    ) -> storage::Result<Switches> {
        let is_shared = !files.capabilities().has(Capability::OneProcess);
        loop {
            let mut state = State::read(&*files, &name)?;
            let found = state.written;
            let first = found + (world.random() >> 32);
            state.written = first;
            if is_shared {
                // An earlier master may have read this version, too.
                state.written += 1;
                let content = encode_object(state.on, state.written);
                match swap_confirmed(&*files, &name, state.version.as_ref(), content.as_bytes()) {
                    Ok(version) => state.version = Some(version),
                    Err(error) if error.kind() == Kind::Conflict => continue,
                    Err(error) => return Err(error),
                }
            }
            return Ok(Switches { files, name, state: Mutex::new(state), found, first, replaced });
        }
    }

    /// Whether a switch is on.
    pub fn is_on(&self, switch: Switch) -> bool {
        self.state.lock().on[switch as usize]
    }

    /// Sets a switch and returns its previous value. A change is durable when this returns.
    pub fn set(&self, switch: Switch, on: bool) -> storage::Result<bool> {
        let mut state = self.state.lock();
        loop {
            if state.is_in_doubt {
                self.read_again(&mut state)?;
            }
            let before = state.on[switch as usize];
            if before == on {
                return Ok(before);
            }
            let mut wanted = state.on;
            wanted[switch as usize] = on;
            // The number also grows after a failed attempt, which the store may still carry out.
            state.written += 1;
            let content = encode_object(wanted, state.written);
            match swap_confirmed(&*self.files, &self.name, state.version.as_ref(), content.as_bytes()) {
                Ok(version) => {
                    state.on = wanted;
                    state.version = Some(version);
                    return Ok(before);
                }
                // Either the store has carried out an earlier attempt after the object was read, or another process
                // wrote the object.
                Err(error) if error.kind() == Kind::Conflict => {
                    state.is_in_doubt = true;
                    self.read_again(&mut state)?;
                    if self.replaced.has_happened() {
                        return Err(error);
                    }
                }
                Err(error) => {
                    state.is_in_doubt = error.outcome() == Outcome::MayHaveHappened;
                    return Err(error);
                }
            }
        }
    }

    /// Reads the object after a failed write, and finds out whether this master is still its only writer.
    fn read_again(&self, state: &mut State) -> storage::Result<()> {
        let found = State::read(&*self.files, &self.name)?;
        let is_own = (self.first..=state.written).contains(&found.written);
        if !is_own && found.written != self.found {
            let name = &self.name;
            self.replaced.record(|| {
                format!(
                    "another process writes {name}: it has taken over the files of this server, which must end. Start \
                     only one server in a root directory"
                )
            });
        }
        let written = state.written.max(found.written);
        *state = State { written, ..found };
        Ok(())
    }
}

impl std::fmt::Debug for Switches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switches").field("state", &*self.state.lock()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Memory;
    use storage::memory::Fault;

    fn open(memory: &Memory, seed: u64) -> Switches {
        let world = World::simulated(seed, env::WallTime(1));
        Switches::open(Arc::new(memory.clone()), FileName::new("switches"), &world, Arc::default()).unwrap()
    }

    #[test]
    fn a_master_that_goes_on_after_another_has_started_sets_no_switch() {
        let memory = Memory::with(storage::Capabilities::NONE);
        let old = open(&memory, 1);
        assert!(old.set(Switch::Merge, false).unwrap());
        let new = open(&memory, 2);
        assert_eq!(old.set(Switch::Split, false).unwrap_err().kind(), Kind::Conflict);
        assert!(old.replaced.has_happened());
        assert!(new.set(Switch::Normalizer, false).expect("it is the only writer"));
        assert!(!new.replaced.has_happened());
        let next = open(&memory, 3);
        let is_on = [Switch::Merge, Switch::Split, Switch::Normalizer].map(|switch| next.is_on(switch));
        assert_eq!(is_on, [false, true, false]);
    }

    #[test]
    fn a_change_that_happened_and_reported_failure_is_found_out() {
        let memory = Memory::new();
        let open = |memory: &Memory| open(memory, 1);
        let fault = |last| {
            let (act, outcome) = (memory.acts() + 1, Outcome::MayHaveHappened);
            memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
        };
        let switches = open(&memory);
        switches.set(Switch::Balancer, false).unwrap();
        fault(false);
        assert!(switches.set(Switch::Split, false).expect("it is read again and written once more"));
        assert!(switches.set(Switch::Merge, false).expect("what was kept is known"));
        let reopened = open(&memory);
        assert!(
            [Switch::Balancer, Switch::Split, Switch::Merge].iter().all(|switch| !reopened.is_on(*switch))
        );
        // Here even reading the object fails, so the next change would have to read it first.
        fault(true);
        assert_eq!(switches.set(Switch::Split, true).unwrap_err().outcome(), Outcome::MayHaveHappened);
        assert!(switches.state.lock().is_in_doubt);
        assert!(open(&memory.kill()).is_on(Switch::Split));
    }
}
