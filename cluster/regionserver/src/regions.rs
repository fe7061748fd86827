//! The regions that are open on this server, which requests find by full or encoded name without a lock.
//!
//! Readers load one shared map, which is replaced when a region is opened or closed. A second table has the regions
//! that are being opened, for which clients should wait, and the new locations of regions that moved to another server.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cell::string_binary;
use env::sync::Mutex;
use env::{HashMap, Moment, World};
use proto::pb::region_specifier::RegionSpecifierType;
use proto::region_info::EncodedName;
use proto::{ServerName, TableName, pb};
use region::Region;
use rpc::Exception;
use rpc::class::REGION_OPENING;

/// How long the new location of a moved region is remembered (`HRegionServer.TIMEOUT_REGION_MOVED`).
const MOVED_REMEMBERED: Duration = Duration::from_secs(2 * 60);

/// The new location of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTo {
    /// The server that has the region now.
    pub server: ServerName,
    /// The sequence id with which the region was opened there. Of two locations, clients use the one with the greater
    /// id.
    pub sequence: u64,
}

#[derive(Clone, Default)]
struct Open {
    by_name: HashMap<Bytes, Arc<Region>>,
    by_encoded: HashMap<Bytes, Arc<Region>>,
}

impl Open {
    fn get(&self, by: RegionSpecifierType, name: &[u8]) -> Option<&Arc<Region>> {
        match by {
            RegionSpecifierType::RegionName => self.by_name.get(name),
            RegionSpecifierType::EncodedRegionName => self.by_encoded.get(name),
        }
    }
}

#[derive(Default)]
struct Elsewhere {
    opening: HashMap<EncodedName, Bytes>,
    moved: HashMap<EncodedName, (MovedTo, Moment)>,
}

/// The regions of one server.
pub struct OnlineRegions {
    server: ServerName,
    world: World,
    open: ArcSwap<Open>,
    elsewhere: Mutex<Elsewhere>,
}

impl OnlineRegions {
    /// Creates the regions of a server that has none open.
    pub fn new(server: ServerName, world: World) -> OnlineRegions {
        OnlineRegions { server, world, open: ArcSwap::default(), elsewhere: Mutex::default() }
    }

    /// Returns the open region that a request names, or the exception that tells the client what to do instead.
    pub fn find(&self, specifier: &pb::RegionSpecifier) -> Result<Arc<Region>, Exception> {
        let by = RegionSpecifierType::try_from(specifier.r#type).map_err(|_| {
            Exception::do_not_retry(format!("Unsupported region specifier type: {}", specifier.r#type))
        })?;
        let open = self.open.load();
        open.get(by, &specifier.value).cloned().ok_or_else(|| self.absent(by, &specifier.value))
    }

    /// Returns the open region of this name; `None`, without building an exception, if there is none.
    pub fn find_open(&self, by: RegionSpecifierType, name: &[u8]) -> Option<Arc<Region>> {
        self.open.load().get(by, name).cloned()
    }

    /// Returns the open region with this encoded name.
    pub fn by_encoded_name(&self, name: &EncodedName) -> Option<Arc<Region>> {
        self.open.load().by_encoded.get(name.as_str().as_bytes()).cloned()
    }

    /// Whether `region` is the object that is open under its name, and not an earlier opening of the same region.
    pub fn is_open(&self, region: &Arc<Region>) -> bool {
        self.open.load().by_name.get(region.info().name()).is_some_and(|open| Arc::ptr_eq(open, region))
    }

    /// Returns all open regions, ordered by name.
    pub fn all(&self) -> Vec<Arc<Region>> {
        let mut all: Vec<_> = self.open.load().by_name.values().cloned().collect();
        all.sort_by(|a, b| a.info().name().cmp(b.info().name()));
        all
    }

    /// Returns the open regions of one table, ordered by name.
    pub fn of_table(&self, table: &TableName) -> Vec<Arc<Region>> {
        let mut regions = self.all();
        regions.retain(|region| region.info().table() == table);
        regions
    }

    /// Returns the number of open regions.
    pub fn count(&self) -> usize {
        self.open.load().by_name.len()
    }

    /// Records that a region is being opened. Clients that ask for the region are told to wait.
    pub fn begin_opening(&self, encoded: EncodedName, name: Bytes) {
        self.elsewhere.lock().opening.insert(encoded, name);
    }

    /// Records that an opening failed.
    pub fn opening_failed(&self, encoded: &EncodedName) {
        self.elsewhere.lock().opening.remove(encoded);
    }

    /// Adds an open region, which requests find from now on.
    pub fn insert(&self, region: Arc<Region>) {
        let info = region.info();
        let (name, encoded) = (info.name().clone(), info.encoded_name().clone());
        self.open.rcu(|open| {
            let mut open = Open::clone(open);
            open.by_encoded.insert(Bytes::copy_from_slice(encoded.as_str().as_bytes()), region.clone());
            open.by_name.insert(name.clone(), region.clone());
            open
        });
        let mut elsewhere = self.elsewhere.lock();
        elsewhere.opening.remove(&encoded);
        elsewhere.moved.remove(&encoded);
    }

    /// Removes a region, so that requests do not find it any more, and returns it; `None` if it is not open. If
    /// `moved_to` names another server, clients are told the new location for two minutes.
    pub fn remove(&self, encoded: &EncodedName, moved_to: Option<MovedTo>) -> Option<Arc<Region>> {
        let region = self.by_encoded_name(encoded)?;
        if let Some(moved_to) = moved_to.filter(|moved_to| moved_to.server != self.server) {
            let now = self.world.moment();
            let mut elsewhere = self.elsewhere.lock();
            elsewhere.moved.retain(|_, (_, since)| now.since(*since) < MOVED_REMEMBERED);
            elsewhere.moved.insert(encoded.clone(), (moved_to, now));
        }
        self.open.rcu(|open| {
            let mut open = Open::clone(open);
            open.by_encoded.remove(encoded.as_str().as_bytes());
            open.by_name.remove(region.info().name());
            open
        });
        Some(region)
    }

    fn absent(&self, by: RegionSpecifierType, value: &Bytes) -> Exception {
        let encoded = match by {
            RegionSpecifierType::RegionName => EncodedName::of_region_name(value),
            RegionSpecifierType::EncodedRegionName => EncodedName::parse(&String::from_utf8_lossy(value)),
        };
        let shown = string_binary(value);
        if let Ok(encoded) = encoded {
            let elsewhere = self.elsewhere.lock();
            if let Some((moved, since)) = elsewhere.moved.get(&encoded)
                && self.world.moment().since(*since) < MOVED_REMEMBERED
            {
                let start_code = i64::try_from(moved.server.start_code).unwrap_or(i64::MAX);
                return Exception::region_moved(
                    &moved.server.host,
                    moved.server.port,
                    start_code,
                    moved.sequence,
                );
            }
            if elsewhere.opening.contains_key(&encoded) {
                return Exception::new(
                    REGION_OPENING,
                    format!("Region {shown} is opening on {}", self.server),
                );
            }
        }
        Exception::not_serving_region(format!("{shown} is not online on {}", self.server))
    }
}

impl std::fmt::Debug for OnlineRegions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnlineRegions")
            .field("server", &self.server)
            .field("open", &self.count())
            .finish_non_exhaustive()
    }
}
