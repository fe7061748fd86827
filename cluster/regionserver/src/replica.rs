//! A read replica serves reads of regions that another server, the primary, writes.
//!
//! One thread reads the primary's log as it grows, and passes each record to the follower of its region
//! ([`region::RegionFollower`]). The primary does not know its replicas, which write and delete nothing in its storage.
//!
//! 1. **Opening.** The replica reads the region's file lists, and the region's records in the log up to the tail's
//!    position. The tail knows where each region's records are. It does not advance while regions are opened.
//! 2. **Serving.** A region is served after the next round that reads the log to its end. By then the replica has read
//!    every log record of which the region's files had writes when it was opened.
//! 3. **Rounds.** In each round the tail returns the new records of the log. A round begins every
//!    [poll](ReplicaOptions::poll). After it, readers see all of these records.
//! 4. **Opening again.** A follower that is outdated is replaced by a new one, and the old region is served until then.
//!    A follower is outdated if a new owner of the primary's storage has found other files. It is also outdated if a
//!    file was compacted away and deleted before the follower opened it. The primary keeps such files for
//!    `hbase.master.hfilecleaner.ttl`, so this happens only to a replica that was suspended. If a log file was deleted
//!    before it was read, all regions are opened again.
//!
//! 5. **Another log.** An operator may let the primary begin its log in [another place](LogPlace), or anew in the same one.
//!    Then nothing is ever written to the log that the replica reads. So a round looks for that when a client waits, and
//!    when the log has an end; any other round does so if that was not done for [`PLACE_PERIOD`]. All regions are then
//!    opened again from the other log.
//!
//! **Lag.** A round that reaches the end of the log shows everything that was acknowledged before the round began. The
//! lag is the time since the beginning of the last such round that left no region outdated. It does not depend on
//! another machine's clock, and does not grow while the primary writes nothing.

use std::sync::Arc;
use std::time::Duration;

use conf::{Conf, keys};
use env::sync::{Condvar, Mutex, RwLock};
use env::{HashMap, Moment, Priority, World};
use proto::{EncodedName, RegionInfo, TableDescriptor};
use region::{Opening, Region, RegionFollower};
use rpc::Exception;
use storage::{FileName, Files, Kind};
use wal::{LogReader, LogTail, Record};

use crate::RegionServer;

/// Maximum number of attempts to open a region whose files are deleted meanwhile.
const ATTEMPTS_MAX: usize = 20;
/// Maximum time for which an order to open a region waits until the region is served.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time for which a client waits for the latest writes.
const REFRESHED_WITHIN: Duration = Duration::from_secs(60);
/// Maximum number of rounds without a pause, which are made to catch up after regions were opened again.
const ROUNDS_MAX: usize = 10;
/// Minimum pause between two rounds, so that a thread that opens a region need not wait for a second round, however slow
/// the rounds are.
const REST_MIN: Duration = Duration::from_millis(1);
/// How often the place of the log is read while the log may grow and nothing new comes.
pub const PLACE_PERIOD: Duration = Duration::from_secs(30);
/// Number of threads that reopen regions.
const OPENERS: usize = 8;

/// The primary's storage, from which a replica reads.
#[derive(Clone)]
pub struct Primary {
    /// The storage of the primary's files.
    pub files: Arc<dyn Files>,
    /// Where the primary's log is.
    pub log: Arc<dyn LogPlace>,
    /// The folder of the log in its storage.
    pub folder: FileName,
}

/// Finds the primary's log, which may be in another place after the primary has started again.
pub trait LogPlace: Send + Sync {
    /// Returns what the primary has recorded about the place of its log. The log is another one if this changes. Takes at
    /// most one request.
    fn recorded(&self) -> Result<String, String>;

    /// Opens the storage of the log that is recorded now, for reading.
    fn open(&self) -> Result<Arc<dyn Files>, String>;
}

/// A log that stays where it is.
impl LogPlace for Arc<dyn Files> {
    fn recorded(&self) -> Result<String, String> {
        Ok(String::new())
    }

    fn open(&self) -> Result<Arc<dyn Files>, String> {
        Ok(Arc::clone(self))
    }
}

/// The log that a replica reads.
struct PlacedLog {
    /// What was [recorded](LogPlace::recorded) before the log was opened.
    record: String,
    files: Arc<dyn Files>,
}

impl PlacedLog {
    fn open(place: &dyn LogPlace) -> wal::Result<PlacedLog> {
        let record = place.recorded().map_err(wal::Error::Storage)?;
        Ok(PlacedLog { record, files: place.open().map_err(wal::Error::Storage)? })
    }

    /// Returns a reader of the present log, and a tail that continues after it.
    fn look(&self, folder: &FileName) -> wal::Result<(Arc<LogReader>, LogTail)> {
        let reader = Arc::new(LogReader::open(&self.files, folder)?);
        let tail = LogTail::after(&reader, folder.clone());
        Ok((reader, tail))
    }
}

/// The options of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Pause between two rounds while rounds find new records (`bellows.replica.poll`).
    pub poll: Duration,
    /// Maximum pause between two rounds, after several rounds that found nothing (`bellows.replica.poll.idle`). At most
    /// half of `lag_max`, but not less than `poll`.
    pub poll_idle: Duration,
    /// The lag above which reads are refused; `None` for no limit (`bellows.replica.max.lag`).
    pub lag_max: Option<Duration>,
}

impl ReplicaOptions {
    /// Reads the options from the configuration.
    pub fn from_conf(conf: &Conf) -> conf::Result<ReplicaOptions> {
        let poll = conf.value(&keys::cluster::REPLICA_POLL)?.max(Duration::from_millis(1));
        let lag_max = Some(conf.value(&keys::cluster::REPLICA_MAX_LAG)?).filter(|max| !max.is_zero());
        let poll_idle = conf.value(&keys::cluster::REPLICA_POLL_IDLE)?;
        // The lag grows between two rounds. A pause as long as the limit would let an idle replica refuse reads.
        let poll_idle = lag_max.map_or(poll_idle, |max| poll_idle.min(max / 2)).max(poll);
        Ok(ReplicaOptions { poll, poll_idle, lag_max })
    }
}

/// A read replica; see the module documentation.
pub struct Replica {
    world: World,
    primary: Primary,
    options: ReplicaOptions,
    /// Locked shared while a region is opened, and exclusively during a round.
    standstill: RwLock<()>,
    log: Mutex<PlacedLog>,
    /// When it was last known that the log is in its place, or that it grows.
    placed: Mutex<Moment>,
    tail: Mutex<LogTail>,
    /// The log reader from which regions are opened. It covers the log at least up to the tail's position, because every
    /// batch of the tail is added to it.
    reader: Mutex<Arc<LogReader>>,
    regions: Mutex<HashMap<Box<[u8]>, Followed>>,
    /// Notified after each round, with `regions`.
    after_round: Condvar,
    /// The beginning of the last round that left no region outdated.
    current: Mutex<Moment>,
    /// Why the last round failed; `None` if it did not.
    failure: Mutex<Option<String>>,
    pace: Mutex<Pace>,
    /// Notified when `pace` changes.
    hurried: Condvar,
}

/// When the next round begins.
#[derive(Default)]
struct Pace {
    hurry: bool,
    /// Number of threads that wait for what was acknowledged before a moment.
    waiting: usize,
    stop: bool,
}

/// A region that the replica follows.
struct Followed {
    follower: RegionFollower,
    /// Whether the follower's region is the one that clients find now.
    is_served: bool,
    /// Whether clients may find the region at all.
    is_public: bool,
}

/// How a round ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The round reached the end of the log and read this number of new records, and every region is served.
    Current(u64),
    /// Another round must follow at once.
    Again,
    /// The storage failed.
    Failed,
}

impl Replica {
    /// Reads the primary's log. Follows no region before [`start`](Replica::start).
    pub fn new(world: World, primary: Primary, options: ReplicaOptions) -> wal::Result<Arc<Replica>> {
        let log = PlacedLog::open(&*primary.log)?;
        let (reader, tail) = log.look(&primary.folder)?;
        Ok(Arc::new(Replica {
            current: Mutex::new(world.moment()),
            failure: Mutex::default(),
            placed: Mutex::new(world.moment()),
            log: Mutex::new(log),
            world,
            primary,
            options,
            standstill: RwLock::default(),
            tail: Mutex::new(tail),
            reader: Mutex::new(reader),
            regions: Mutex::default(),
            after_round: Condvar::new(),
            pace: Mutex::default(),
            hurried: Condvar::new(),
        }))
    }

    /// Starts the thread that follows the log. It ends when the server stops.
    pub fn start(self: &Arc<Self>, server: &Arc<RegionServer>) -> std::io::Result<()> {
        let (replica, server) = (Arc::clone(self), Arc::downgrade(server));
        let follow = move || {
            let mut pause = replica.options.poll;
            while let Some(server) = server.upgrade() {
                let began = replica.world.moment();
                pause = match env::caught(|| replica.catch_up(&server)) {
                    Ok(Round::Current(0)) => (pause * 2).min(replica.options.poll_idle),
                    Ok(_) => replica.options.poll,
                    Err(words) => {
                        tracing::error!(
                            words,
                            "an invariant is broken; the replica goes on with the next round"
                        );
                        replica.options.poll_idle
                    }
                };
                drop(server);
                if !replica.rest(pause.saturating_sub(replica.world.moment().since(began))) {
                    return;
                }
            }
        };
        env::spawn_thread("replica", Priority::Serving, follow).map(drop)
    }

    /// Stops the thread that follows the log.
    pub fn stop(&self) {
        self.pace.lock().stop = true;
        self.hurried.notify_all();
    }

    /// Returns the files of the primary.
    pub fn files(&self) -> &Arc<dyn Files> {
        &self.primary.files
    }

    /// Returns how old the replica's view is: the time since it last had everything that the primary had acknowledged.
    pub fn lag(&self) -> Duration {
        self.world.moment().since(*self.current.lock())
    }

    /// Returns the number of followed regions.
    pub fn count(&self) -> usize {
        self.regions.lock().len()
    }

    /// Refuses a call of a method that writes. If the replica's lag exceeds the maximum, refuses any call. A batch is
    /// not refused here; each of its actions that write is refused when it runs.
    pub(crate) fn check(&self, method: &str) -> Result<(), Exception> {
        if matches!(method, "Mutate" | "PrepareBulkLoad" | "BulkLoadHFile" | "CleanupBulkLoad") {
            return Err(refused());
        }
        let Some(max) = self.options.lag_max else { return Ok(()) };
        let lag = self.lag();
        if lag <= max {
            return Ok(());
        }
        Err(Exception::io(format!(
            "this read replica is {} ms behind its primary, more than bellows.replica.max.lag = {} ms; try again, or read from \
             the primary",
            lag.as_millis(),
            max.as_millis()
        )))
    }

    /// Waits until everything that the primary had acknowledged before this call is visible here. Returns `false` if
    /// that takes longer than `limit`.
    pub fn wait_current(&self, limit: Duration) -> bool {
        let _waiting = Waiting::begin(self);
        let asked = self.world.moment();
        self.hurry();
        let mut regions = self.regions.lock();
        while *self.current.lock() < asked {
            let waited = self.world.moment().since(asked);
            if waited >= limit {
                return false;
            }
            self.after_round.wait_for(&mut regions, limit.saturating_sub(waited));
        }
        true
    }

    /// [Waits](Replica::wait_current) for the primary's acknowledged writes, for at most `REFRESHED_WITHIN`. The
    /// error names the lag.
    pub fn refresh(&self) -> Result<(), String> {
        if self.wait_current(REFRESHED_WITHIN) {
            return Ok(());
        }
        let failure = self.failure.lock().as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        Err(format!(
            "this read replica is {} ms behind its primary and has not caught up within {} ms{failure}; try again",
            self.lag().as_millis(),
            REFRESHED_WITHIN.as_millis()
        ))
    }

    /// Opens a region and follows it. When this succeeds, the region has all writes that the primary had acknowledged
    /// before the call. It fails if that takes longer than [`SERVED_WITHIN`]. If `is_public` is set, clients can find
    /// the region from now on.
    pub(crate) fn open(&self, opening: &Opening, is_public: bool) -> Result<Arc<Region>, region::Error> {
        let name: Box<[u8]> = opening.info.encoded_name().as_str().as_bytes().into();
        let opening = Opening { files: Arc::clone(&self.primary.files), ..opening.clone() };
        {
            let _still = self.standstill.read();
            let follower = self.open_follower(&opening)?;
            self.regions.lock().insert(name.clone(), Followed { follower, is_served: false, is_public });
        }
        let _waiting = Waiting::begin(self);
        let began = self.world.moment();
        self.hurry();
        let mut regions = self.regions.lock();
        loop {
            let Some(followed) = regions.get(&name) else {
                return Err(region::Error::NotServing(opening.info.to_string()));
            };
            if followed.is_served {
                return Ok(Arc::clone(followed.follower.region()));
            }
            if self.pace.lock().stop || self.world.moment().since(began) > SERVED_WITHIN {
                regions.remove(&name);
                return Err(region::Error::NotServing(format!(
                    "{} does not become current, and",
                    opening.info
                )));
            }
            self.after_round.wait_for(&mut regions, self.options.poll_idle);
        }
    }

    /// Follows a region of the primary's catalog, which clients cannot find here.
    pub fn watch(
        &self,
        server: &RegionServer,
        info: RegionInfo,
        table: Arc<TableDescriptor>,
    ) -> Result<Arc<Region>, region::Error> {
        self.open(&server.opening(info, table), false)
    }

    /// Returns the present object of a region; `None` while the region is not served. Another object replaces it when
    /// the region is opened again.
    pub fn region(&self, name: &EncodedName) -> Option<Arc<Region>> {
        let regions = self.regions.lock();
        let followed = regions.get(name.as_str().as_bytes()).filter(|followed| followed.is_served)?;
        Some(Arc::clone(followed.follower.region()))
    }

    /// Whether a region is the primary's. The others are of this server.
    pub(crate) fn follows(&self, name: &EncodedName) -> bool {
        self.regions.lock().contains_key(name.as_str().as_bytes())
    }

    /// Stops following a region.
    pub fn forget(&self, name: &EncodedName) {
        self.regions.lock().remove(name.as_str().as_bytes());
    }

    /// Opens a follower at the tail's position. The caller makes sure that the tail does not advance meanwhile.
    fn open_follower(&self, opening: &Opening) -> Result<RegionFollower, region::Error> {
        let position = self.tail.lock().position();
        let mut attempts = 0;
        loop {
            let reader = Arc::clone(&*self.reader.lock());
            let error = match RegionFollower::open(opening.clone(), &reader, position) {
                Ok(follower) => return Ok(follower),
                Err(error) => error,
            };
            attempts += 1;
            if !is_gone(&error) || attempts == ATTEMPTS_MAX {
                return Err(error);
            }
            // The primary has meanwhile closed the region or deleted a file. The next attempt reads the log and the
            // region's file lists again.
            self.renew_reader(&reader)?;
        }
    }

    /// Reads the log again, unless another thread has done so since `old` was read. The caller makes sure that the tail
    /// does not advance meanwhile.
    fn renew_reader(&self, old: &Arc<LogReader>) -> Result<(), wal::Error> {
        let mut kept = self.reader.lock();
        if Arc::ptr_eq(&kept, old) {
            let log = Arc::clone(&self.log.lock().files);
            let reader = Arc::new(LogReader::open(&log, &self.primary.folder)?);
            self.tail.lock().note_in(Arc::clone(&reader));
            *kept = reader;
        }
        Ok(())
    }

    fn hurry(&self) {
        self.pace.lock().hurry = true;
        self.hurried.notify_all();
    }

    /// Waits for the next round. Returns `false` when the replica stops.
    fn rest(&self, pause: Duration) -> bool {
        let mut pace = self.pace.lock();
        if !pace.hurry && !pace.stop {
            self.hurried.wait_for(&mut pace, pause.max(REST_MIN));
        }
        pace.hurry = false;
        !pace.stop
    }

    /// Runs rounds until one leaves no region outdated or fails, at most [`ROUNDS_MAX`]. Returns how the last one
    /// ended.
    fn catch_up(&self, server: &RegionServer) -> Round {
        let mut round = Round::Again;
        for _ in 0..ROUNDS_MAX {
            round = self.round(server);
            if round != Round::Again {
                break;
            }
        }
        self.after_round.notify_all();
        round
    }

    fn round(&self, server: &RegionServer) -> Round {
        let _alone = self.standstill.write();
        let began = self.world.moment();
        // Whoever waits for this round counted itself before the round began.
        let is_awaited = self.pace.lock().waiting > 0;
        match self.moved(is_awaited) {
            Ok(None) => {}
            Ok(Some(log)) => {
                tracing::warn!(
                    place = log.files.place(),
                    "the primary's log is in another place: all regions are opened again"
                );
                return self.begin_again(server, Some(log));
            }
            Err(error) => return self.failed(&error),
        }
        if is_awaited {
            self.tail.lock().look_at_owner();
        }
        let advanced = self.advance(server);
        let records = match advanced {
            Ok(records) => records,
            Err(wal::Error::Gone { number, .. }) => {
                tracing::warn!(
                    file = number,
                    "a file of the primary's log was deleted before it was read, or the log was begun anew: all regions are opened \
                     again"
                );
                return self.begin_again(server, None);
            }
            Err(error) => return self.failed(&error),
        };
        if records > 0 {
            *self.placed.lock() = began;
        }
        let outdated = self.outdated();
        if outdated.is_empty() {
            *self.failure.lock() = None;
            *self.current.lock() = if env::planted(41) { self.world.moment() } else { began };
            return Round::Current(records);
        }
        let (began, lag_ms) = (self.world.moment(), self.lag().as_millis() as u64);
        let all = self.open_again(server, &outdated);
        let ms = self.world.moment().since(began).as_millis() as u64;
        tracing::info!(regions = outdated.len(), first = %outdated[0].info, lag_ms, ms, "regions were opened again");
        if all { Round::Again } else { Round::Failed }
    }

    /// Returns the log that the primary has begun in another place; `None` if the log is where it was. With `is_awaited` reads the
    /// record of the place in any case.
    fn moved(&self, is_awaited: bool) -> wal::Result<Option<PlacedLog>> {
        let now = self.world.moment();
        let is_due =
            is_awaited || self.tail.lock().is_at_end() || now.since(*self.placed.lock()) >= PLACE_PERIOD;
        if !is_due {
            return Ok(None);
        }
        let record = self.primary.log.recorded().map_err(wal::Error::Storage)?;
        if record == self.log.lock().record {
            *self.placed.lock() = now;
            return Ok(None);
        }
        PlacedLog::open(&*self.primary.log).map(Some)
    }

    fn failed(&self, error: &wal::Error) -> Round {
        tracing::warn!(%error, lag_ms = self.lag().as_millis() as u64, "the primary's log cannot be read; it is tried again");
        *self.failure.lock() = Some(error.to_string());
        Round::Failed
    }

    /// Applies the new records of the log, and makes them visible. Returns their number.
    fn advance(&self, server: &RegionServer) -> Result<u64, wal::Error> {
        let mut regions = self.regions.lock();
        let mut tail = self.tail.lock();
        let records = tail.advance::<wal::Error>(|record| {
            if let Some(followed) = regions.get_mut(record.region) {
                followed.apply(record);
            }
            Ok(())
        })?;
        drop(tail);
        for followed in regions.values_mut().filter(|followed| !followed.follower.is_outdated()) {
            followed.follower.show();
            let region = followed.follower.region();
            if followed.is_public && !followed.is_served {
                server.regions().insert(Arc::clone(region));
            }
            followed.is_served = true;
            server.background.account(region);
        }
        Ok(records)
    }

    fn outdated(&self) -> Vec<Opening> {
        let regions = self.regions.lock();
        let outdated = regions.values().filter(|followed| followed.follower.is_outdated());
        outdated.map(|followed| followed.follower.opening().clone()).collect()
    }

    /// Opens regions again. Returns whether all could be opened.
    fn open_again(&self, server: &RegionServer, openings: &[Opening]) -> bool {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let all = std::sync::atomic::AtomicBool::new(true);
        env::together("replica", openings.len().min(OPENERS), || {
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(opening) = openings.get(index) else { return };
                match self.open_follower(opening) {
                    Ok(follower) => {
                        let mut regions = self.regions.lock();
                        let name = opening.info.encoded_name().as_str().as_bytes();
                        if let Some(followed) = regions.get_mut(name) {
                            // Clients find the old region until the new one has all records. Its memory no longer
                            // counts, because the new one's memory does.
                            server.background.disregard(followed.follower.region());
                            (followed.follower, followed.is_served) = (follower, env::planted(42));
                        }
                    }
                    Err(error) => {
                        tracing::warn!(region = %opening.info, %error,
                            "the region cannot be opened again, and is served as it was; it is tried again");
                        all.store(false, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            }
        });
        all.into_inner()
    }

    /// Reads the log again, or the log that takes its place, and opens all regions again.
    fn begin_again(&self, server: &RegionServer, moved: Option<PlacedLog>) -> Round {
        // Opening the place again fails if the log is lost. Without its records the regions would lack rows that they have
        // shown, so they serve on as they are.
        let opened = moved.map_or_else(|| PlacedLog::open(&*self.primary.log), Ok);
        let found = opened.and_then(|log| log.look(&self.primary.folder).map(|found| (log, found)));
        let (log, (reader, tail)) = match found {
            Ok(found) => found,
            Err(error) => return self.failed(&error),
        };
        *self.log.lock() = log;
        (*self.reader.lock(), *self.tail.lock()) = (reader, tail);
        if env::planted(43) {
            return Round::Again;
        }
        let openings: Vec<Opening> = {
            let mut regions = self.regions.lock();
            // A region that cannot be opened now has missed records, so its follower is outdated, and a later round
            // opens it.
            regions.values_mut().for_each(|followed| followed.follower.give_up());
            regions.values().map(|followed| followed.follower.opening().clone()).collect()
        };
        match self.open_again(server, &openings) {
            true => Round::Again,
            false => Round::Failed,
        }
    }
}

/// Lets rounds find everything that was acknowledged before they began, as long as it exists.
struct Waiting<'a>(&'a Replica);

impl<'a> Waiting<'a> {
    fn begin(replica: &'a Replica) -> Waiting<'a> {
        replica.pace.lock().waiting += 1;
        Waiting(replica)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.pace.lock().waiting -= 1;
    }
}

impl Followed {
    fn apply(&mut self, record: &Record<'_>) {
        if let Err(error) = self.follower.apply(record) {
            let region = self.follower.region().info();
            tracing::warn!(%region, %error, "a record of the primary's log cannot be applied: the region is opened again");
            self.follower.give_up();
        }
    }
}

/// Whether the error means that a file was deleted because the primary no longer needed it.
pub(crate) fn is_gone(error: &region::Error) -> bool {
    match error {
        region::Error::Storage(error) => error.kind() == Kind::NotFound,
        region::Error::Log(error) => matches!(error, wal::Error::Gone { .. }),
        region::Error::NoMobValue { .. } => true,
        _ => false,
    }
}

/// Returns the exception for a call that would change something.
pub(crate) fn refused() -> Exception {
    // HBase 3 has an exception class of its own for this refusal. Clients of HBase 2 do not know that class, so its
    // superclass is sent.
    Exception::do_not_retry(
        "Operation not allowed in Read-Only Mode: this server is a read replica; write to the primary, or start this server \
         without --read-replica to make it the primary",
    )
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("options", &self.options).finish_non_exhaustive()
    }
}
