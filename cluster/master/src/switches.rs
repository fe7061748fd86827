//! The switches by which operators turn the master's chores on and off.
//!
//! A single server has no use for a balancer, but tools set its switch and expect its previous value. The switches are
//! stored in one small object, so they survive a restart.
//!
//! The object has one `key=on|off` a line, and `written=NUMBER`. The master is its only writer ([`OwnedObject`]).

use std::sync::Arc;

use env::World;
use storage::{FileName, Files};

use crate::Error;
use crate::owned_object::{Content, OwnedObject, Ownership};

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

/// The state of each switch. All are on in a new cluster, as in HBase.
#[derive(Clone, Debug)]
struct States([bool; Switch::ALL.len()]);

impl Default for States {
    fn default() -> States {
        States([true; Switch::ALL.len()])
    }
}

/// The text that precedes the number of a write in the object.
const WRITTEN: &str = "written=";

impl Content for States {
    const SIZE_MAX: usize = 4096;
    const ONLY_READ_BUG: Option<u32> = None;

    fn encode(&self, written: u64) -> Vec<u8> {
        let lines = Switch::ALL.iter().zip(self.0);
        let text: String = lines
            .map(|(switch, on)| format!("{}={}\n", switch.key(), if on { "on" } else { "off" }))
            .collect();
        format!("{text}{WRITTEN}{written}\n").into_bytes()
    }

    /// Lines that are unknown or damaged count as missing.
    fn decode(bytes: &[u8]) -> Result<(States, u64), proto::Error> {
        let (mut states, mut written) = (States::default(), 0);
        for line in bytes.split(|&byte| byte == b'\n') {
            if let Some(number) = line.strip_prefix(WRITTEN.as_bytes()) {
                written = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            for (at, switch) in Switch::ALL.iter().enumerate() {
                if line.strip_prefix(switch.key().as_bytes()).is_some_and(|rest| rest == b"=off") {
                    states.0[at] = false;
                }
            }
        }
        Ok((states, written))
    }
}

/// All switches of a master.
pub struct Switches(OwnedObject<States>);

impl Switches {
    /// Reads the switches stored at `name`, and prevents earlier masters from setting them. If another process writes
    /// the object later, this is recorded in `ownership`.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        name: FileName,
        world: &World,
        ownership: Arc<Ownership>,
    ) -> Result<Switches, Error> {
        OwnedObject::open(files, name, world, ownership).map(Switches)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, switch: Switch) -> bool {
        self.0.look(|states| states.0[switch as usize])
    }

    /// Sets a switch and returns its previous value. A change is durable when this returns.
    pub fn set(&self, switch: Switch, on: bool) -> storage::Result<bool> {
        if self.0.look_confirmed(|states| states.0[switch as usize] == on)? {
            return Ok(on);
        }
        self.0.change(|states| std::mem::replace(&mut states.0[switch as usize], on))
    }
}

impl std::fmt::Debug for Switches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Switches").field(&self.0.look(States::clone)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Memory;

    #[test]
    fn switches_are_on_until_they_are_set_and_survive_a_restart() {
        let memory = Memory::new();
        let open = || {
            let world = World::simulated(1, env::WallTime(1));
            Switches::open(Arc::new(memory.clone()), FileName::new("switches"), &world, Arc::default())
                .unwrap()
        };
        let switches = open();
        assert!(Switch::ALL.iter().all(|switch| switches.is_on(*switch)));
        assert!(switches.set(Switch::Merge, false).unwrap());
        assert!(!switches.set(Switch::Merge, false).unwrap(), "it was off");
        assert!(switches.set(Switch::Split, false).unwrap());
        assert!(!switches.set(Switch::Split, true).unwrap());
        let reopened = open();
        for switch in Switch::ALL {
            assert_eq!(reopened.is_on(switch), switch != Switch::Merge, "{switch:?}");
        }
    }

    #[test]
    fn a_switch_that_already_has_the_value_is_not_written() {
        let memory = Memory::new();
        let world = World::simulated(1, env::WallTime(1));
        let name = FileName::new("switches");
        let switches =
            Switches::open(Arc::new(memory.clone()), name.clone(), &world, Arc::default()).unwrap();
        assert!(switches.set(Switch::Balancer, true).unwrap());
        assert_eq!(memory.read(&name, 100).unwrap_err().kind(), storage::Kind::NotFound);
    }
}
