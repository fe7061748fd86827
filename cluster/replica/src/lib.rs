//! How a read replica follows the tables of its primary.
//!
//! A read replica is a region server that follows the primary's log ([`regionserver::Replica`]), and a master whose
//! catalog is a copy of the primary's ([`master::Mirror`]). Neither knows the other. This crate joins them: a thread
//! compares the primary's hbase:meta, which the region server follows like any region, with the master's, and lets the
//! master open and close regions.

use std::sync::Arc;
use std::time::Duration;

use env::sync::{Condvar, Mutex};
use env::{Priority, World};
use master::{FollowedPrimary, Master, Mirror, MirrorOutcome, PrimaryCatalog};
use proto::{RegionInfo, TableDescriptor, catalog};
use region::Region;
use regionserver::{RegionServer, Replica};
use storage::Files;

/// How often the replica looks for changed descriptors although no region has changed, because a change of some attributes
/// changes no region. Costs one request if there is none.
pub const REREAD: Duration = Duration::from_secs(30);
/// Pause before a region that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum time that a client waits for the tables of the primary.
const CATALOG_WITHIN: Duration = Duration::from_secs(60);

/// Lets this process become the primary when it has ended its work as a replica, or fails with the reason why it cannot.
pub type Promote = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Copies the primary's catalog to `master`'s, opens the regions on `server`, and repeats this every `poll` in the
/// background. Calls `promote` when a client requests the promotion: it makes the caller end this process, or fails with
/// the reason why that would be refused.
///
/// # Errors
/// An error text if the first copy fails, if `server` [follows](RegionServer::follow) no primary, or if there is no
/// thread.
pub fn follow_catalog(
    world: &World,
    poll: Duration,
    server: &Arc<RegionServer>,
    master: &Arc<Master>,
    promote: Promote,
) -> Result<(), String> {
    let replica = Arc::clone(server.replica().ok_or("the server is no read replica")?);
    let files = Arc::clone(replica.files());
    let rounds = Arc::new(CatalogRounds::new(world.clone(), replica, promote));
    let asked: Arc<dyn FollowedPrimary> = Arc::clone(&rounds) as Arc<dyn FollowedPrimary>;
    let mut catalog = Catalog {
        mirror: Mirror::new(Arc::clone(master), Arc::clone(&files), asked),
        files,
        meta: RegionInfo::meta(),
        namespaces: None,
    };
    let mut last = catalog.look(server)?;
    let first = catalog.follow(server, true)?;
    let (world, server) = (world.clone(), Arc::downgrade(server));
    let mut retry = first != MirrorOutcome::default();
    let work = move || {
        let (mut read, mut tried) = (world.moment(), world.moment());
        loop {
            let asked = rounds.next(poll);
            let Some(server) = server.upgrade().filter(|server| !server.is_stopping()) else { return };
            let now = world.moment();
            let reread = is_reread(asked, now.since(read));
            let outcome = catalog.look(&server).and_then(|seen| {
                let is_retried = retry && (asked.is_some() || now.since(tried) >= RETRY);
                let is_due = reread || seen != last || is_retried;
                if !is_due {
                    return Ok(None);
                }
                last = seen;
                catalog.follow(&server, reread).map(Some)
            });
            match outcome {
                Ok(None) => {
                    rounds.ended(asked);
                    continue;
                }
                Ok(Some(mirrored)) => {
                    retry = mirrored != MirrorOutcome::default();
                    // Tables without a descriptor do not count as failures: they are being created or dropped.
                    if mirrored.failed == 0 {
                        rounds.ended(asked);
                    }
                }
                Err(error) => {
                    tracing::warn!(error, "the primary's catalog cannot be followed; it is tried again");
                    retry = true;
                }
            }
            tried = now;
            if reread {
                read = now;
            }
        }
    };
    let spawned = env::spawn_thread("catalog", Priority::Background, work);
    spawned.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Whether a round looks for changed descriptors of tables: if a client waits for it, or if the last such round began
/// `since_reread` ago. A client that waits must see every change that was acknowledged before, and some of them change
/// nothing in hbase:meta.
fn is_reread(asked: Option<u64>, since_reread: Duration) -> bool {
    asked.is_some() || since_reread >= REREAD
}

/// Counts the rounds in which the catalog is followed, and the clients that wait for one of them.
struct CatalogRounds {
    world: World,
    replica: Arc<Replica>,
    promote: Promote,
    state: Mutex<Rounds>,
    /// Notified when `state` changes.
    changed: Condvar,
}

#[derive(Default)]
struct Rounds {
    /// Number of requests for a round so far.
    asked: u64,
    /// Number of requests when the last round began.
    begun: u64,
    /// Number of requests when the last successful round began: these requests have been served.
    served: u64,
}

impl CatalogRounds {
    fn new(world: World, replica: Arc<Replica>, promote: Promote) -> CatalogRounds {
        CatalogRounds { world, replica, promote, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until the next round is due. Returns the number of requests that this round serves, or `None` if nobody
    /// waits.
    fn next(&self, pause: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        if state.asked == state.begun {
            self.changed.wait_for(&mut state, pause);
        }
        state.begun = state.asked;
        (state.asked > state.served).then_some(state.asked)
    }

    /// Records that a round has followed the catalog, and wakes the clients that wait for it.
    fn ended(&self, asked: Option<u64>) {
        if let Some(asked) = asked {
            self.state.lock().served = asked;
            self.changed.notify_all();
        }
    }
}

impl FollowedPrimary for CatalogRounds {
    fn refresh(&self) -> Result<(), String> {
        // The catalog itself has two regions, which must be current first. A region that the round opens is current
        // when it is opened.
        self.replica.refresh()?;
        let began = self.world.moment();
        let mut state = self.state.lock();
        state.asked += 1;
        let number = state.asked;
        self.changed.notify_all();
        while state.served < number {
            let waited = self.world.moment().since(began);
            if waited >= CATALOG_WITHIN {
                return Err(format!(
                    "the primary's tables are not all open here {} ms after their rows had come; the log says why; try again",
                    waited.as_millis()
                ));
            }
            self.changed.wait_for(&mut state, CATALOG_WITHIN.saturating_sub(waited));
        }
        Ok(())
    }

    fn promote(&self) -> Result<(), String> {
        (self.promote)()
    }
}

/// The primary's catalog, which the replica follows and which no client finds on the replica.
struct Catalog {
    mirror: Mirror,
    files: Arc<dyn Files>,
    meta: RegionInfo,
    namespaces: Option<RegionInfo>,
}

/// The sequence ids up to which the two regions of the catalog were read.
type Seen = (u64, u64);

impl Catalog {
    fn region(&self, server: &RegionServer, info: &RegionInfo) -> Result<Arc<Region>, String> {
        let replica = server.replica().ok_or("the server is no read replica")?;
        if let Some(region) = replica.region(info.encoded_name()) {
            return Ok(region);
        }
        let table =
            master::descriptors::read(&*self.files, info.table()).map_err(|error| error.to_string())?;
        let built_in = || -> TableDescriptor {
            if info.is_meta() { catalog::meta_descriptor() } else { catalog::namespaces_descriptor() }
        };
        let table = Arc::new(table.unwrap_or_else(built_in));
        replica.watch(server, info.clone(), table).map_err(|error| error.to_string())
    }

    fn look(&self, server: &RegionServer) -> Result<Seen, String> {
        let meta = self.region(server, &self.meta)?.read_point();
        let namespaces = match &self.namespaces {
            Some(region) => self.region(server, region)?.read_point().0,
            None => 0,
        };
        Ok((meta.0, namespaces))
    }

    fn follow(&mut self, server: &RegionServer, reread: bool) -> Result<MirrorOutcome, String> {
        let rows = |region: &Arc<Region>| region::catalog_rows(region).map_err(|error| error.to_string());
        let meta = rows(&self.region(server, &self.meta)?)?;
        let region = PrimaryCatalog::namespace_region(meta.clone());
        if region != self.namespaces
            && let (Some(old), Some(replica)) = (&self.namespaces, server.replica())
        {
            replica.forget(old.encoded_name());
        }
        self.namespaces = region;
        let namespaces = match &self.namespaces {
            Some(region) => rows(&self.region(server, region)?)?,
            None => Vec::new(),
        };
        let primary = PrimaryCatalog { meta, namespaces };
        self.mirror.follow(&primary, reread).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waits_gets_the_descriptors_of_this_moment() {
        assert!(is_reread(Some(1), Duration::ZERO), "an attribute may have changed since the last round");
        assert!(!is_reread(None, REREAD - Duration::from_millis(1)), "each costs a request");
        assert!(is_reread(None, REREAD));
    }
}
