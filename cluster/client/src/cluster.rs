//! A cluster as seen by a client: its cached locations, its connections, and its retries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::sync::Mutex;
use env::{Moment, World};
use prost::Message;
use proto::catalog::{self, RegionRow, TableState};
use proto::{RegionInfo, ServerName, TableName, pb};
use rpc::client::{Connection, Happened, Invocation, Response};
use rpc::{Exception, class};

use crate::connections::Connections;
use crate::location::{Cache, LookupMode, meta_start, meta_stop};
use crate::row::Cells;
use crate::{Admin, Advice, Error, Get, Location, Options, Pause, Result, Table};

pub(crate) const CLIENT_SERVICE: &str = "ClientService";

/// Factors of [`Options::pause`] before each retry, as in HBase (`HConstants.RETRY_BACKOFF`).
const BACKOFF: [u32; 13] = [1, 2, 3, 5, 10, 20, 40, 100, 100, 100, 100, 200, 200];
/// The priority of calls to hbase:meta, above all others.
const PRIORITY_META: u32 = 300;
const PRIORITY_SYSTEM: u32 = 200;

/// A cluster to which a client connects. Cloning is cheap; all clones share connections and cached locations.
#[derive(Clone)]
pub struct Cluster(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) connections: Connections,
    cache: Cache,
    meta: Mutex<Option<Location>>,
    master: Mutex<Option<ServerName>>,
    pub(crate) nonce_group: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("registry", &self.0.options.registry).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Creates a client for the cluster that `options` names. The first operation connects to the cluster. Each
    /// connection runs on the runtime of the task that opens it.
    pub fn connect(world: World, options: Options) -> Cluster {
        let connections = Connections::new(world.clone(), &options);
        Cluster(Arc::new(Shared {
            connections,
            nonce_group: world.random(),
            options,
            world,
            cache: Cache::default(),
            meta: Mutex::default(),
            master: Mutex::default(),
        }))
    }

    /// Returns a table by `name` or `namespace:name`; fails if the name is not valid. Nothing is sent: whether the
    /// table exists is known after its first operation.
    pub fn table(&self, name: &str) -> Result<Table> {
        Ok(Table::new(self.clone(), name.parse()?))
    }

    /// Returns the interface for administration.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Returns the cluster id.
    pub async fn id(&self) -> Result<String> {
        let mut tries = self.tries();
        loop {
            match self.0.options.registry.cluster_id(&self.0.connections).await {
                Ok(id) => return Ok(id),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Returns the region that contains `row`, and the region's server, from the cache where possible.
    pub async fn locate(&self, table: &TableName, row: &[u8]) -> Result<Location> {
        let mut tries = self.tries();
        loop {
            match self.find(table, row, LookupMode::Of).await {
                Ok(location) => return Ok(Arc::unwrap_or_clone(location)),
                Err(error) => tries.again(self.explained(table, error).await).await?,
            }
        }
    }

    /// Returns all regions of a table in key order, as hbase:meta lists them now.
    pub async fn locations(&self, table: &TableName) -> Result<Vec<Location>> {
        let mut all: Vec<Location> = Vec::new();
        self.0.cache.remove_table(table);
        let mut row = Bytes::new();
        loop {
            let location = self.locate(table, &row).await?;
            row = location.region.end_key().clone();
            all.push(location);
            if row.is_empty() {
                return Ok(all);
            }
        }
    }

    pub(crate) fn tries(&self) -> Attempts {
        Attempts { shared: Arc::clone(&self.0), started: self.0.world.moment(), count: 0, is_in_doubt: false }
    }

    /// Finds a region in the cache or, if it is not there, in hbase:meta.
    pub(crate) async fn find(
        &self,
        table: &TableName,
        row: &[u8],
        which: LookupMode,
    ) -> Result<Arc<Location>> {
        if table.is_meta() {
            return Ok(Arc::new(self.meta().await?));
        }
        if let Some(known) = self.0.cache.find(table, row, which) {
            return Ok(known);
        }
        let meta = self.meta().await?;
        let rows =
            self.scan_meta(&meta, table, row, which).await.inspect_err(|error| self.learn(error, &meta))?;
        let mut found = None;
        for (index, region) in rows.into_iter().enumerate() {
            let info = &region.region;
            if info.is_split() || info.is_offline() || info.replica().0 != 0 {
                continue;
            }
            let holds = match which {
                LookupMode::Of => info.contains_row(row),
                LookupMode::Before if row.is_empty() => info.end_key().is_empty(),
                LookupMode::Before => info.end_key().is_empty() || &info.end_key()[..] >= row,
            };
            let location = region.server.clone().map(|server| Location { region: info.clone(), server });
            if found.is_none() {
                match &location {
                    _ if !holds => {
                        let reason = format!(
                            "row {} of {table} is in no region: hbase:meta has {info} at place {index}",
                            row.escape_ascii()
                        );
                        return Err(Error::RegionOffline(reason));
                    }
                    None => return Err(Error::RegionOffline(info.to_string())),
                    Some(location) => found = Some(location.clone()),
                }
            }
            if let Some(location) = location {
                self.0.cache.insert(location);
            }
        }
        found.map(Arc::new).ok_or_else(|| Error::TableNotFound(table.clone()))
    }

    async fn meta(&self) -> Result<Location> {
        let known = self.0.meta.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let location = self.0.options.registry.meta(&self.0.connections).await?;
        *self.0.meta.lock() = Some(location.clone());
        Ok(location)
    }

    async fn scan_meta(
        &self,
        meta: &Location,
        table: &TableName,
        row: &[u8],
        which: LookupMode,
    ) -> Result<Vec<RegionRow>> {
        const METHOD: &str = "Scan";
        let prefetch = self.0.options.prefetch.max(1);
        let scan = pb::Scan {
            column: vec![pb::Column { family: Bytes::from_static(catalog::INFO), qualifier: Vec::new() }],
            start_row: Some(meta_start(table, row, which)),
            stop_row: Some(meta_stop(table)),
            include_start_row: Some(true),
            include_stop_row: Some(true),
            reversed: Some(true),
            caching: Some(prefetch),
            max_result_size: Some(self.0.options.scan_size_max),
            read_type: Some(pb::scan::ReadType::Pread as i32),
            ..pb::Scan::default()
        };
        let request = pb::ScanRequest {
            region: Some(specifier(&meta.region)),
            scan: Some(scan),
            number_of_rows: Some(prefetch),
            limit_of_rows: Some(prefetch),
            close_scanner: Some(true),
            ..pb::ScanRequest::default()
        };
        let response = self.ask(&meta.region, &meta.server, Invocation::of(METHOD, &request)).await?;
        let answer: pb::ScanResponse = decode(METHOD, &response)?;
        let mut cells = Cells::new(METHOD, response.cells)?;
        let mut rows = Vec::new();
        let mut read = |row: crate::Row| -> Result<()> {
            let columns =
                row.cells().iter().map(|cell| (cell.family(), cell.qualifier(), cell.value_bytes()));
            rows.extend(RegionRow::decode(columns)?);
            Ok(())
        };
        for count in &answer.cells_per_result {
            read(crate::Row { cells: cells.take(*count as usize)?, partial: false })?;
        }
        for result in &answer.results {
            read(cells.row(result)?)?;
        }
        Ok(rows)
    }

    /// Updates the location cache after a call for a region failed with `error`.
    pub(crate) fn learn(&self, error: &Error, location: &Location) {
        let Shared { cache, meta, .. } = &*self.0;
        match error.advice() {
            Advice::GiveUp | Advice::Wait(_) => return,
            Advice::Relocate(_) => match moved_to(error) {
                Some(server) if !location.region.is_meta() => {
                    cache.insert(Location { region: location.region.clone(), server });
                }
                _ => cache.remove(location),
            },
            Advice::ForgetServer(_) => cache.remove_server(&location.server),
        }
        let mut meta = meta.lock();
        let forget = |known: &Location| {
            location.region.is_meta()
                || matches!(error.advice(), Advice::ForgetServer(_)) && known.server == location.server
        };
        if meta.as_ref().is_some_and(forget) {
            *meta = None;
        }
    }

    /// Removes a table's regions from the location cache.
    pub(crate) fn forget(&self, table: &TableName) {
        self.0.cache.remove_table(table);
    }

    /// Returns the connection to the server of a region.
    pub(crate) async fn connection(&self, server: &ServerName) -> Result<Connection> {
        self.0.connections.of_server(server, CLIENT_SERVICE).await
    }

    /// Returns the call with the deadline and the priority that apply to its region.
    pub(crate) fn timed(&self, region: &RegionInfo, invocation: Invocation) -> Invocation {
        let invocation = invocation.within(self.0.options.call_max);
        match region.table() {
            table if table.is_meta() => invocation.with_priority(PRIORITY_META),
            table if table.is_system() => invocation.with_priority(PRIORITY_SYSTEM),
            _ => invocation,
        }
    }

    async fn ask(
        &self,
        region: &RegionInfo,
        server: &ServerName,
        invocation: Invocation,
    ) -> Result<Response> {
        let connection = self.connection(server).await?;
        Ok(connection.call(self.timed(region, invocation)).await?)
    }

    /// Makes a call for a row, and retries it until it succeeds or the error is final.
    pub(crate) async fn on_row(
        &self,
        table: &TableName,
        row: &[u8],
        make: impl Fn(&Location) -> Invocation,
    ) -> Result<Response> {
        let mut tries = self.tries();
        loop {
            let error = match self.find(table, row, LookupMode::Of).await {
                Ok(location) => match self.ask(&location.region, &location.server, make(&location)).await {
                    Ok(response) => return Ok(response),
                    Err(error) => {
                        self.learn(&error, &location);
                        error
                    }
                },
                Err(error) => error,
            };
            tries.again(self.explained(table, error).await).await?;
        }
    }

    /// Returns [`Error::TableNotEnabled`] if an operation on `table` has failed with `error` because the table is disabled.
    /// Otherwise returns `error`. As HBase's client does, this reads hbase:meta after an error of a region that no server
    /// serves: a retry would be in vain as long as the table stays disabled.
    pub(crate) async fn explained(&self, table: &TableName, error: Error) -> Error {
        if table.is_meta() || !error.may_mean_disabled() {
            return error;
        }
        match self.state_once(table).await {
            Ok(Some(TableState::Disabled)) => Error::TableNotEnabled(table.clone()),
            Ok(_) => error,
            Err(cause) => {
                tracing::debug!(%table, %cause, "it is not known whether the table is disabled");
                error
            }
        }
    }

    /// Reads the state of a table from hbase:meta, without retries; `None` if it has none.
    async fn state_once(&self, table: &TableName) -> Result<Option<TableState>> {
        const METHOD: &str = "Get";
        let meta = self.meta().await?;
        let get = Get::row(Bytes::copy_from_slice(table.as_bytes())).family(catalog::TABLE).to_message();
        let request = pb::GetRequest { region: specifier(&meta.region), get };
        let response = self.ask(&meta.region, &meta.server, Invocation::of(METHOD, &request)).await;
        let response = response.inspect_err(|error| self.learn(error, &meta))?;
        let answer: pb::GetResponse = decode(METHOD, &response)?;
        Cells::new(METHOD, response.cells)?.row(&answer.result.unwrap_or_default())?.table_state()
    }

    /// Calls a service of a server once, without retries.
    pub(crate) async fn on_server<M: Message + Default>(
        &self,
        server: &ServerName,
        service: &'static str,
        method: &'static str,
        request: &impl Message,
    ) -> Result<M> {
        let connection = self.0.connections.of_server(server, service).await?;
        let invocation = Invocation::of(method, request).within(self.0.options.call_max);
        let response = connection.call(invocation).await?;
        decode(method, &response)
    }

    /// Calls the active master, and retries until the call succeeds or the error is final.
    pub(crate) async fn on_master<M: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<M> {
        self.on_master_service("MasterService", method, request).await
    }

    /// Like [`on_master`](Cluster::on_master), for another service of the master.
    pub(crate) async fn on_master_service<M: Message + Default>(
        &self,
        service: &'static str,
        method: &'static str,
        request: &impl Message,
    ) -> Result<M> {
        let mut tries = self.tries();
        loop {
            let answer = match self.master().await {
                Ok(master) => self.on_server(&master, service, method, request).await,
                Err(error) => Err(error),
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if matches!(error.advice(), Advice::Relocate(_) | Advice::ForgetServer(_)) {
                *self.0.master.lock() = None;
            }
            tries.again(error).await?;
        }
    }

    async fn master(&self) -> Result<ServerName> {
        let known = self.0.master.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let master = self.0.options.registry.master(&self.0.connections).await?;
        *self.0.master.lock() = Some(master.clone());
        Ok(master)
    }
}

pub(crate) fn specifier(region: &RegionInfo) -> pb::RegionSpecifier {
    let kind = pb::region_specifier::RegionSpecifierType::RegionName;
    pb::RegionSpecifier { r#type: kind as i32, value: region.name().clone() }
}

pub(crate) fn decode<M: Message + Default>(method: &'static str, response: &Response) -> Result<M> {
    M::decode(response.message.clone())
        .map_err(|error| Error::Unreadable { method, reason: error.to_string() })
}

/// Returns the server that a RegionMoved exception names; `None` for any other error.
fn moved_to(error: &Error) -> Option<ServerName> {
    let Error::Remote(Exception { class, message, moved_to: Some((host, port)), .. }) = error else {
        return None;
    };
    if class != class::REGION_MOVED {
        return None;
    }
    let (_, rest) = message.split_once("startCode=")?;
    let start_code = rest.split_once('.')?.0.parse().ok()?;
    Some(ServerName { host: host.clone(), port: *port, start_code })
}

/// Counts the attempts of one operation.
pub(crate) struct Attempts {
    shared: Arc<Shared>,
    started: Moment,
    count: u32,
    /// Whether an attempt that failed may have been applied.
    is_in_doubt: bool,
}

impl Attempts {
    /// Waits as the error advises before the next attempt. Returns the error if it is final, or [`Error::GivenUp`] when
    /// attempts or time are used up, or if the error is final but an earlier attempt may have been applied.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        let pause = match error.advice() {
            Advice::GiveUp if self.is_in_doubt && error.happened() == Happened::No => {
                return Err(self.given_up(error));
            }
            Advice::GiveUp => return Err(error),
            Advice::Wait(pause) | Advice::Relocate(pause) | Advice::ForgetServer(pause) => pause,
        };
        self.pause(pause, error).await
    }

    /// Goes on at once after an attempt that has done a part of the work, and does not count it. Returns [`Error::GivenUp`]
    /// when the time is used up.
    pub(crate) fn go_on(&self, error: Error) -> Result<()> {
        let elapsed = self.shared.world.moment().since(self.started);
        if elapsed > self.shared.options.operation_max { Err(self.given_up(error)) } else { Ok(()) }
    }

    /// Waits before the next attempt; returns [`Error::GivenUp`] when attempts or time are used up.
    pub(crate) async fn pause(&mut self, pause: Pause, error: Error) -> Result<()> {
        let options = &self.shared.options;
        let steps = BACKOFF[(self.count as usize).min(BACKOFF.len() - 1)];
        let wait = match pause {
            Pause::None => Duration::ZERO,
            Pause::Exactly(wait) => wait,
            Pause::Backoff => options.pause * steps,
            Pause::Overloaded => options.pause_overloaded * steps,
        };
        // Adds up to 1 % of jitter, so that clients that failed together do not retry together.
        let wait = wait + wait.mul_f64(0.01 * (self.shared.world.random() % 1_000) as f64 / 1_000.0);
        self.count += 1;
        self.is_in_doubt |= error.happened() == Happened::Maybe;
        let elapsed = self.shared.world.moment().since(self.started);
        if self.count > options.retries || elapsed + wait > options.operation_max {
            return Err(self.given_up(error));
        }
        tracing::debug!(%error, ?wait, tries = self.count, "trying again");
        if !wait.is_zero() {
            env::sleep(wait).await;
        }
        Ok(())
    }

    /// Returns the error of an operation that ends with `last`.
    pub(crate) fn given_up(&self, last: Error) -> Error {
        let elapsed = self.shared.world.moment().since(self.started);
        Error::GivenUp { tries: self.count, elapsed, last: Box::new(last) }
    }
}
