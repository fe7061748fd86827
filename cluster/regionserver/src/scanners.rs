//! The scanners that clients have open, and their leases.
//!
//! 1. A call takes the engine's scanner out of its entry. Until the call puts it back, the lease cannot expire, and a
//!    second call is refused.
//! 2. The client numbers its calls. If a call's number is not the next one, a call was lost or repeated, and the call
//!    is refused.
//! 3. At its end the call puts the scanner back with a new lease, or closes it.
//! 4. The server remembers an exhausted scanner for the time of a lease. If a client closes this scanner again, or asks
//!    it for more, it gets an empty answer and not UnknownScannerException.
//! 5. If a region is closed here, the server remembers the region's name for each of its scanners, for the time of a
//!    lease. As in HBase, the client is told once that the region has changed, and looks for it elsewhere.
//!
//! A scanner's id begins with a hash of the server's name and ends with a counter, so that ids of other servers, or of
//! earlier starts of this one, are unknown here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::sync::Mutex;
use env::{HashMap, Moment, World};
use proto::ServerName;
use region::{Region, RegionScanner};
use rpc::{Exception, class};

/// The id by which a client names a scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScannerId(pub(crate) u64);

/// The state of a scanner between two calls.
pub(crate) struct ScannerState {
    /// The engine's scanner.
    pub(crate) scanner: RegionScanner<'static>,
    /// The row of which the last reply returned only a part; `None` if the reply ended with a complete row.
    pub(crate) unfinished_row: Option<Bytes>,
    /// Size of the last reply's cell block in bytes, as an estimate for the next one.
    pub(crate) block_bytes: usize,
}

/// A scanner that a client has open: the data that all of its calls share.
pub(crate) struct OpenScanner {
    pub(crate) id: ScannerId,
    pub(crate) region: Arc<Region>,
    /// Whether heartbeats carry the row that the scan has reached.
    pub(crate) wants_cursor: bool,
    /// Maximum number of bytes of cells in one reply, as requested by the client; 0 if it requests no limit.
    pub(crate) result_bytes_max: u64,
    state: Mutex<State>,
}

struct State {
    kept: Option<Box<ScannerState>>,
    next_call: u64,
    lease_end: Moment,
}

#[derive(Default)]
struct Table {
    held: HashMap<ScannerId, Arc<OpenScanner>>,
    /// Exhausted scanners. Each has the number of its next call, and the time until which it is remembered.
    ended: HashMap<ScannerId, (u64, Moment)>,
    /// Scanners whose region was closed here. Each has the region's name, and the time until which it is remembered.
    parted: HashMap<ScannerId, (String, Moment)>,
}

/// All scanners of a server.
pub(crate) struct Scanners {
    world: World,
    lease: Duration,
    prefix: u64,
    counter: AtomicU32,
    table: Mutex<Table>,
}

/// The result of [`Scanners::take`].
pub(crate) enum TakenScanner {
    /// The scanner and its state. The caller returns the state when its call ends.
    Scanner(Arc<OpenScanner>, Box<ScannerState>),
    /// The scanner has ended: there is nothing more.
    Ended,
}

impl Scanners {
    pub(crate) fn new(server: &ServerName, world: World, lease: Duration) -> Scanners {
        // The hash is FNV-1a. Any hash is good enough that differs between servers and between starts of a server.
        let hash = server
            .to_string()
            .bytes()
            .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let prefix = u64::from(hash & 0x7fff_ffff) << 32;
        Scanners { world, lease, prefix, counter: AtomicU32::new(0), table: Mutex::default() }
    }

    /// Returns the time after which a scanner without calls is closed.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the number of open scanners.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().held.len()
    }

    /// Registers a new scanner. Its first call is under way and [puts it back](Scanners::put_back) at its end.
    pub(crate) fn register(
        &self,
        region: Arc<Region>,
        wants_cursor: bool,
        result_bytes_max: u64,
    ) -> Arc<OpenScanner> {
        let id = ScannerId(self.prefix | u64::from(self.counter.fetch_add(1, Ordering::Relaxed)));
        let state = State { kept: None, next_call: 0, lease_end: self.lease_end() };
        let held =
            Arc::new(OpenScanner { id, region, wants_cursor, result_bytes_max, state: Mutex::new(state) });
        self.table.lock().held.insert(id, held.clone());
        held
    }

    /// Takes a scanner for a call. `call` is the number of the call, if the client numbers its calls. Fails if the
    /// scanner is unknown or its lease has expired, if another call has it, or if `call` is not the next number.
    pub(crate) fn take(&self, id: ScannerId, call: Option<u64>) -> Result<TakenScanner, Exception> {
        loop {
            let Some(held) = self.find(id, call)? else { return Ok(TakenScanner::Ended) };
            if let Some(kept) = self.take_found(&held, call)? {
                return Ok(TakenScanner::Scanner(held, kept));
            }
        }
    }

    /// Takes a scanner that was just found. Returns `None` if it was closed meanwhile, and must be looked up again.
    fn take_found(
        &self,
        held: &Arc<OpenScanner>,
        call: Option<u64>,
    ) -> Result<Option<Box<ScannerState>>, Exception> {
        {
            let mut state = held.state.lock();
            if state.kept.is_some() {
                held.count_call(&mut state, call)?;
                return Ok(state.kept.take());
            }
        }
        // A scanner without its state is in use by another call, or is no longer in the table.
        match self.table.lock().held.get(&held.id) {
            Some(now) if Arc::ptr_eq(now, held) => {
                Err(Exception::new(class::LEASE, format!("lease '{}' does not exist", held.id.0)))
            }
            _ => Ok(None),
        }
    }

    /// Renews a scanner's lease. Returns `false` when the scanner is exhausted.
    pub(crate) fn renew(&self, id: ScannerId, call: Option<u64>) -> Result<bool, Exception> {
        let Some(held) = self.find(id, call)? else { return Ok(false) };
        let mut state = held.state.lock();
        state.lease_end = self.lease_end();
        held.count_call(&mut state, call)?;
        Ok(true)
    }

    /// Puts a scanner back after a call, with a new lease.
    pub(crate) fn put_back(&self, held: &OpenScanner, kept: Box<ScannerState>) {
        let mut state = held.state.lock();
        state.lease_end = self.lease_end();
        state.kept = Some(kept);
    }

    /// Closes an exhausted scanner, and remembers it for the time of a lease.
    pub(crate) fn end(&self, held: &OpenScanner) {
        let next_call = held.state.lock().next_call;
        let mut table = self.table.lock();
        table.held.remove(&held.id);
        table.ended.insert(held.id, (next_call, self.lease_end()));
    }

    /// Closes a scanner whose last call failed, and forgets it.
    pub(crate) fn abandon(&self, held: &OpenScanner) {
        self.table.lock().held.remove(&held.id);
    }

    /// Closes the scanners of a region that is closed here. A client is told when it asks for more.
    pub(crate) fn close_region(&self, region: &Arc<Region>) {
        let (name, until) = (region.info().to_string(), self.lease_end());
        let closed = {
            let mut table = self.table.lock();
            let closed = table.remove_where(|held| Arc::ptr_eq(&held.region, region));
            // Under the same lock: a call that no longer finds its scanner must find the region's name.
            table.parted.extend(closed.iter().map(|held| (held.id, (name.clone(), until))));
            closed
        };
        drop_states(&closed);
    }

    /// Closes the scanners whose lease has expired, and returns their number.
    pub(crate) fn expire(&self) -> usize {
        let now = self.world.moment();
        let expired = {
            let mut table = self.table.lock();
            table.ended.retain(|_, (_, until)| *until > now);
            table.parted.retain(|_, (_, until)| *until > now);
            table.remove_where(|held| held.state.try_lock().is_some_and(|state| state.has_expired(now)))
        };
        drop_states(&expired);
        expired.len()
    }

    /// Returns the scanner with this id; `None` for an exhausted scanner whose client may not know that yet. Fails for
    /// an unknown or expired scanner, and for one whose region was closed here.
    fn find(&self, id: ScannerId, call: Option<u64>) -> Result<Option<Arc<OpenScanner>>, Exception> {
        let now = self.world.moment();
        let mut table = self.table.lock();
        if let Some(held) = table.held.get(&id).cloned() {
            if held.state.lock().has_expired(now) {
                table.held.remove(&id);
                drop(table);
                drop(held.state.lock().kept.take());
                return Err(unknown(id));
            }
            return Ok(Some(held));
        }
        if let Some((region, until)) = table.parted.remove(&id)
            && until > now
        {
            return Err(Exception::not_serving_region(format!(
                "Region has changed on the scanner {}: regionName={region}",
                id.0
            )));
        }
        match table.ended.get(&id) {
            // HBase expects the number after the next one here, and logs other numbers. A client that knows that its
            // scanner has ended does not call it again. Other clients do not number their calls.
            Some((next, until)) if *until > now => match call {
                Some(call) if call != *next + 1 => Err(Exception::new(
                    class::OUT_OF_ORDER_SCANNER_NEXT,
                    format!(
                        "Expected nextCallSeq for closed request: {} But the nextCallSeq got from client: {call}",
                        *next + 1
                    ),
                )),
                _ => Ok(None),
            },
            _ => Err(unknown(id)),
        }
    }

    fn lease_end(&self) -> Moment {
        self.world.moment().plus(self.lease)
    }
}

impl Table {
    /// Removes the open scanners for which `ends` returns true, and returns them.
    fn remove_where(&mut self, mut ends: impl FnMut(&OpenScanner) -> bool) -> Vec<Arc<OpenScanner>> {
        let mut removed = Vec::new();
        self.held.retain(|_, held| {
            let ends = ends(held);
            if ends {
                removed.push(held.clone());
            }
            !ends
        });
        removed
    }
}

/// Drops the engine's scanners of removed entries. The caller does not hold the table's lock, because this may take
/// time.
fn drop_states(removed: &[Arc<OpenScanner>]) {
    for held in removed {
        drop(held.state.lock().kept.take());
    }
}

impl State {
    /// Whether the lease has expired. A scanner that a call has taken has no lease.
    fn has_expired(&self, now: Moment) -> bool {
        self.kept.is_some() && self.lease_end <= now
    }
}

impl OpenScanner {
    fn count_call(&self, state: &mut State, call: Option<u64>) -> Result<(), Exception> {
        match call {
            Some(call) if call != state.next_call => Err(Exception::new(
                class::OUT_OF_ORDER_SCANNER_NEXT,
                format!(
                    "Expected nextCallSeq: {} But the nextCallSeq got from client: {call}; region={}",
                    state.next_call,
                    self.region.info()
                ),
            )),
            Some(_) => {
                state.next_call += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn unknown(id: ScannerId) -> Exception {
    Exception::new(
        class::UNKNOWN_SCANNER,
        format!(
            "Unknown scanner '{}'. This can happen due to any of the following reasons: a) Scanner id given is wrong, \
             b) Scanner lease expired because of long wait between consecutive client checkins, c) Server may be \
             closing down, d) RegionServer restart during upgrade.\nIf the issue is due to reason (b), a possible fix \
             would be increasing the value of 'hbase.client.scanner.timeout.period' configuration.",
            id.0
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use region::Scan;

    use super::*;
    use crate::tests::bench::Bench;

    #[test]
    fn a_call_that_meets_the_closing_of_its_region_is_told_that_the_region_has_changed() {
        let bench = Bench::new();
        let world = World::simulated(1, env::WallTime(0));
        let server = ServerName { host: "localhost".into(), port: 16020, start_code: 1 };
        let scanners = Scanners::new(&server, world, Duration::from_secs(60));
        let region = bench.server.regions().all().remove(0);
        let held = scanners.register(region.clone(), false, 0);
        let busy = scanners.take(held.id, None).err().expect("its first call is under way");
        assert_eq!(busy.class, class::LEASE);
        let scanner = region.scanner(Scan::default()).expect("a scanner");
        scanners.put_back(&held, Box::new(ScannerState { scanner, unfinished_row: None, block_bytes: 0 }));
        // The call has found the scanner, and then the region is closed.
        let found = scanners.find(held.id, None).expect("open").expect("not at its end");
        scanners.close_region(&region);
        assert!(scanners.take_found(&found, None).expect("no other call has it").is_none());
        let changed = scanners.take(held.id, None).err().expect("closed");
        assert!(changed.message.starts_with("Region has changed on the scanner"), "{changed}");
        let unknown = scanners.take(held.id, None).err().expect("told once");
        assert_eq!(unknown.class, class::UNKNOWN_SCANNER);
    }
}
