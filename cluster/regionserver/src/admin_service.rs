//! AdminService: requests of operators and tools to a region server.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cell::string_binary;
use prost::Message;
use proto::{RegionId, RegionInfo, TableName, pb};
use region::Region;
use rpc::{Answer, Call, Exception, Reply, Service, class};

use crate::RegionServer;
use crate::background::PendingCompactions;
use crate::counters::count;

/// Answers the calls of AdminService, which are behind shell commands such as `flush`, `compact` and `status`.
#[derive(Clone, Debug)]
pub struct AdminService {
    server: Arc<RegionServer>,
}

/// The start key of the region that stands for the MOB files of a table. Source: HBase 2.6 `MobUtils.getMobRegionInfo`.
const MOB_START_KEY: &[u8] = b".mob";
/// Names of the methods that a read replica refuses, because they change files or control compactions.
const CHANGES: [&str; 5] =
    ["FlushRegion", "RollWALWriter", "CompactRegion", "CompactionSwitch", "ClearCompactionQueues"];

impl AdminService {
    /// Creates the service of `server`.
    pub fn new(server: Arc<RegionServer>) -> AdminService {
        AdminService { server }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Exception> {
        let server = &self.server;
        if CHANGES.contains(&&*call.method) {
            server.check_primary()?;
        }
        let reply = match &*call.method {
            "FlushRegion" => return self.flush(call),
            "RollWALWriter" => return self.roll_log(),
            "GetRegionInfo" => return self.region_info(call),
            "GetStoreFile" => self.store_files(call)?,
            "GetOnlineRegion" => {
                let region_info = server.regions().all().iter().map(|region| region.info().into()).collect();
                Reply::of(&pb::GetOnlineRegionResponse { region_info })
            }
            "GetRegionLoad" => self.region_load(call)?,
            "GetServerInfo" => {
                let webui_port = server.options().info_port.map(u32::from);
                let server_info = pb::ServerInfo { server_name: server.name().into(), webui_port };
                Reply::of(&pb::GetServerInfoResponse { server_info })
            }
            "CompactRegion" => self.compact(call)?,
            "CompactionSwitch" => {
                let request: pb::CompactionSwitchRequest = call.decode()?;
                let prev_state = server.background.switch_compaction(request.enabled);
                Reply::of(&pb::CompactionSwitchResponse { prev_state })
            }
            "ClearCompactionQueues" => {
                let request: pb::ClearCompactionQueuesRequest = call.decode()?;
                clear_compaction_queues(server, &request.queue_name)?;
                Reply::of(&pb::ClearCompactionQueuesResponse {})
            }
            "ClearRegionBlockCache" => self.clear_cache(call)?,
            // HBase lists the files of which its bucket cache has every block, if `hbase.bucketcache.persistent.path`
            // is set. The cache here does not record whether it has all blocks of a file, so the list is empty.
            "GetCachedFilesList" => Reply::of(&pb::GetCachedFilesListResponse { cached_files: Vec::new() }),
            // There are no quotas, so the answer is empty.
            "GetSpaceQuotaSnapshots" => {
                Reply::of(&pb::GetSpaceQuotaSnapshotsResponse { snapshots: Vec::new() })
            }
            "UpdateConfiguration" => {
                server.update_configuration()?;
                Reply::of(&pb::UpdateConfigurationResponse {})
            }
            "GetLogEntries" => self.log_entries(call)?,
            "ClearSlowLogsResponses" => {
                server.slow_calls.clear();
                let is_cleaned = server.options().slow_calls_max > 0;
                Reply::of(&pb::ClearSlowLogResponses { is_cleaned })
            }
            "StopServer" => {
                server.stop();
                Reply::of(&pb::StopServerResponse {})
            }
            method => return Err(Exception::unknown_method("AdminService", method)),
        };
        Ok(Ok(reply).into())
    }

    /// Answers for the region that stands for the MOB files of a table. They are compacted by major compactions that a client
    /// or the MOB chore has requested; in HBase the state is MAJOR or NONE, too.
    fn mob_region_info(&self, mob: &RegionInfo, with_state: bool) -> pb::GetRegionInfoResponse {
        let regions = self.server.regions().of_table(mob.table());
        let has_mob = |region: &Region| {
            let table = region.table();
            table.families().iter().any(|family| family.options().is_ok_and(|options| options.is_mob))
        };
        let is_major = |region: &Arc<Region>| self.server.background.compacting(region).major;
        let major = regions.iter().any(|region| is_major(region) && has_mob(region));
        let compacting = PendingCompactions { minor: false, major };
        pb::GetRegionInfoResponse {
            region_info: mob.into(),
            compaction_state: with_state.then(|| compaction_state(compacting)),
            splittable: None,
            mergeable: None,
            best_split_row: None,
        }
    }

    fn region_info(&self, call: &Call) -> Result<Answer, Exception> {
        let request: pb::GetRegionInfoRequest = call.decode()?;
        if let Some(mob) = mob_region(&request.region.value) {
            return Ok(Ok(Reply::of(&self.mob_region_info(&mob, request.compaction_state()))).into());
        }
        let region = self.server.regions().find(&request.region)?;
        let compacting = self.server.background.compacting(&region);
        let mut response = pb::GetRegionInfoResponse {
            region_info: region.info().into(),
            compaction_state: request.compaction_state().then(|| compaction_state(compacting)),
            splittable: Some(
                !region.info().is_meta()
                    && !region.has_references()
                    && self.server.split_policy(&region).can_split(),
            ),
            mergeable: Some(!region.has_references()),
            best_split_row: None,
        };
        if !request.best_split_row() {
            return Ok(Ok(Reply::of(&response)).into());
        }
        let server = self.server.clone();
        Ok(Answer::later(env::blocking(move || {
            let told = |error: region::Error| server.exception(&error);
            response.best_split_row = server.find_split_row(&region).map_err(told)?;
            Ok(Reply::of(&response))
        })))
    }

    fn store_files(&self, call: &Call) -> Result<Reply, Exception> {
        let request: pb::GetStoreFileRequest = call.decode()?;
        let region = self.server.regions().find(&request.region)?;
        let names = region.file_names(&request.family).map_err(|error| self.server.exception(&error))?;
        let paths = self.server.source_paths();
        let store_file = names.iter().map(|name| paths.url(name)).collect();
        Ok(Reply::of(&pb::GetStoreFileResponse { store_file }))
    }

    fn region_load(&self, call: &Call) -> Result<Reply, Exception> {
        let request: pb::GetRegionLoadRequest = call.decode()?;
        let regions = match &request.table_name {
            Some(table) => {
                let table = proto::TableName::try_from(table)
                    .map_err(|error| Exception::new(class::ILLEGAL_ARGUMENT, error.to_string()))?;
                self.server.regions().of_table(&table)
            }
            None => self.server.regions().all(),
        };
        let region_loads = regions.iter().map(|region| self.server.region_load(region)).collect();
        Ok(Reply::of(&pb::GetRegionLoadResponse { region_loads }))
    }

    /// Returns the families that `named` lists, or all families of the region if it lists none. Fails with HBase's
    /// exception for unknown families if one does not exist.
    fn families(&self, region: &Region, named: &[Bytes]) -> Result<Vec<Bytes>, Exception> {
        if named.is_empty() {
            return Ok(region.table().families().iter().map(|family| family.name().clone()).collect());
        }
        let missing: Vec<_> = named
            .iter()
            .filter(|name| region.table().family(name).is_none())
            .map(|name| string_binary(name).to_string())
            .collect();
        if !missing.is_empty() {
            return Err(Exception::new(
                class::NO_SUCH_COLUMN_FAMILY,
                format!(
                    "Column families [{}] don't exist in table {}",
                    missing.join(", "),
                    region.info().table()
                ),
            ));
        }
        Ok(named.to_vec())
    }

    fn flush(&self, call: &Call) -> Result<Answer, Exception> {
        let request: pb::FlushRegionRequest = call.decode()?;
        let region = self.server.regions().find(&request.region)?;
        // If no family is named, the whole region is flushed, as in HBase.
        let families = match &request.family {
            Some(family) => self.families(&region, std::slice::from_ref(family))?,
            None => Vec::new(),
        };
        let last_flush_time = self.server.last_flush(region.info().encoded_name());
        if request.if_older_than_ts.is_some_and(|than| last_flush_time >= than) {
            return Ok(
                Ok(Reply::of(&pb::FlushRegionResponse { last_flush_time, ..Default::default() })).into()
            );
        }
        let server = self.server.clone();
        Ok(Answer::later(env::blocking(move || {
            let flushed =
                server.flush_families(&region, &families).map_err(|error| server.exception(&error))?;
            Ok(Reply::of(&pb::FlushRegionResponse {
                last_flush_time: server.last_flush(region.info().encoded_name()),
                flushed: Some(flushed.files > 0),
                wrote_flush_wal_marker: Some(false),
            }))
        })))
    }

    fn compact(&self, call: &Call) -> Result<Reply, Exception> {
        let request: pb::CompactRegionRequest = call.decode()?;
        let region = self.server.regions().find(&request.region)?;
        if let Some(family) = request.family.as_ref().filter(|name| region.table().family(name).is_none()) {
            return Err(Exception::new(
                class::NO_SUCH_COLUMN_FAMILY,
                format!(
                    "column family {} does not exist in region {}",
                    string_binary(family),
                    string_binary(region.info().name())
                ),
            ));
        }
        self.server.background.request_compaction(
            &region,
            request.major(),
            request.family.into_iter().collect(),
        );
        Ok(Reply::of(&pb::CompactRegionResponse {}))
    }

    fn roll_log(&self) -> Result<Answer, Exception> {
        let server = self.server.clone();
        Ok(Answer::later(env::blocking(move || {
            let log = &server.foundation().log;
            log.roll().map_err(|error| Exception::io(format!("the log could not be rolled: {error}")))?;
            Ok(Reply::of(&pb::RollWalWriterResponse { region_to_flush: Vec::new() }))
        })))
    }

    /// Answers with the recorded slow calls and large responses.
    fn log_entries(&self, call: &Call) -> Result<Reply, Exception> {
        let request: pb::LogRequest = call.decode()?;
        if !request.log_class_name.contains("SlowLogResponseRequest") {
            return Err(Exception::do_not_retry(format!(
                "Invalid request params: {}",
                request.log_class_name
            )));
        }
        let wanted = pb::SlowLogResponseRequest::decode(request.log_message).map_err(|error| {
            Exception::do_not_retry(format!("the request for slow calls is malformed: {error}"))
        })?;
        let slow_log_payloads = self.server.slow_calls.find(&wanted);
        Ok(Reply::of(&pb::LogEntry {
            log_class_name: "org.apache.hadoop.hbase.shaded.protobuf.generated.AdminProtos$SlowLogResponses"
                .to_owned(),
            log_message: pb::SlowLogResponses { slow_log_payloads }.encode_to_vec().into(),
        }))
    }

    fn clear_cache(&self, call: &Call) -> Result<Reply, Exception> {
        let request: pb::ClearRegionBlockCacheRequest = call.decode()?;
        let mut stats = pb::CacheEvictionStats::default();
        let mut blocks = 0;
        for specifier in request.region {
            match self.server.regions().find(&specifier) {
                Ok(region) => blocks += region.evict_blocks(),
                Err(exception) => stats.exception.push(pb::RegionExceptionMessage {
                    region: specifier,
                    exception: pb::NameBytesPair {
                        name: exception.class.to_string(),
                        value: Some(exception.text().into()),
                    },
                }),
            }
        }
        stats.evicted_blocks = i64::try_from(blocks).ok();
        stats.max_cache_size = Some(self.server.foundation().cache.bytes_max() as i64);
        Ok(Reply::of(&pb::ClearRegionBlockCacheResponse { stats }))
    }
}

impl Service for AdminService {
    fn call(&self, call: Call) -> Answer {
        if let Err(stopped) = self.server.check_open() {
            return stopped.into();
        }
        count(&self.server.counters().requests);
        self.answer(&call).unwrap_or_else(Into::into)
    }
}

/// Drops the waiting compactions of the named queues: `long` for large compactions, `short` for the others, as in
/// HBase. Another name is an error; queues that were named before it are already cleared then.
fn clear_compaction_queues(server: &RegionServer, names: &[String]) -> Result<(), Exception> {
    for name in names {
        match &**name {
            "long" => server.background.clear_compactions(false),
            "short" => server.background.clear_compactions(true),
            unknown => return Err(Exception::io(format!("Unknown queue name {unknown}"))),
        }
    }
    Ok(())
}

/// Returns the region that stands for the MOB files of a table in HBase's API, if this is its name.
fn mob_region(name: &[u8]) -> Option<RegionInfo> {
    let table = name.split(|byte| *byte == b',').next()?;
    let table: TableName = std::str::from_utf8(table).ok()?.parse().ok()?;
    let mob = RegionInfo::new(table, MOB_START_KEY.into(), Bytes::new(), RegionId(0)).ok()?;
    (mob.name() == name).then_some(mob)
}

fn compaction_state(compacting: PendingCompactions) -> i32 {
    use pb::get_region_info_response::CompactionState as State;
    let state = match (compacting.minor, compacting.major) {
        (false, false) => State::None,
        (true, false) => State::Minor,
        (false, true) => State::Major,
        (true, true) => State::MajorAndMinor,
    };
    state as i32
}

/// Returns a size in units of `1 << shift` bytes, rounded down. A size above 0 gives at least 1, because balancers and
/// people take 0 for empty.
fn in_units(bytes: u64, shift: u32) -> u32 {
    u32::try_from(bytes >> shift).unwrap_or(u32::MAX).max(u32::from(bytes > 0))
}

impl RegionServer {
    /// Returns the load of one region, as reported to the master and by `status`.
    pub fn region_load(&self, region: &Region) -> pb::RegionLoad {
        let load = region.load();
        let (kilobytes, megabytes) = (|bytes| in_units(bytes, 10), |bytes| in_units(bytes, 20));
        pb::RegionLoad {
            region_specifier: pb::RegionSpecifier {
                r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
                value: region.info().name().clone(),
            },
            stores: u32::try_from(load.stores.len()).ok(),
            storefiles: u32::try_from(load.files).ok(),
            store_uncompressed_size_mb: Some(megabytes(load.sizes.uncompressed)),
            storefile_index_size_kb: Some(kilobytes(load.sizes.root_index).into()),
            root_index_size_kb: Some(kilobytes(load.sizes.root_index)),
            total_static_index_size_kb: Some(kilobytes(load.sizes.index)),
            total_static_bloom_size_kb: Some(kilobytes(load.sizes.bloom)),
            filtered_read_requests_count: Some(load.filtered),
            storefile_size_mb: Some(megabytes(load.file_bytes)),
            mem_store_size_mb: Some(megabytes(load.memstore_bytes)),
            read_requests_count: Some(load.reads),
            write_requests_count: Some(load.writes),
            total_compacting_k_vs: Some(load.compacting_cells),
            current_compacted_k_vs: Some(load.compacted_cells),
            complete_sequence_id: Some(load.flushed_sequence.0),
            store_complete_sequence_id: load
                .stores
                .iter()
                .map(|store| pb::StoreSequenceId {
                    family_name: store.family.clone(),
                    sequence_id: store.flushed_sequence.0,
                })
                .collect(),
            last_major_compaction_ts: Some(load.last_major_compaction.map_or(0, |time| time.0.max(0) as u64)),
            data_locality: Some(1.0),
            compaction_state: Some(compaction_state(self.background.compacting(region))),
            region_size_mb: Some(megabytes(load.file_bytes)),
            ..Default::default()
        }
    }

    /// Returns the coprocessors that the descriptors of open regions name, by class without package, as in HBase.
    fn coprocessors(&self) -> Vec<pb::Coprocessor> {
        let mut names = BTreeSet::new();
        for region in self.regions().all() {
            for (key, value) in region.table().attributes().iter() {
                let value = String::from_utf8_lossy(value);
                if key.to_ascii_lowercase().starts_with(b"coprocessor$")
                    && let Some(class) = value.split('|').nth(1)
                {
                    names.insert(class.rsplit('.').next().unwrap_or(class).trim().to_owned());
                }
            }
        }
        names.into_iter().map(|name| pb::Coprocessor { name }).collect()
    }

    /// Returns the load of the whole server, for the cluster's status.
    pub fn server_load(&self) -> pb::ServerLoad {
        let counters = self.counters().snapshot();
        let megabytes = |bytes: u64| u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        let cache = &self.foundation().cache;
        // HBase reports the use and the limit of its Java heap here. This server reports the memory of memstores and
        // cached blocks, and their limits.
        let used = self.background.memory().saturating_add(cache.counts().bytes);
        let max = self.options().memstore_bytes_max.saturating_add(cache.bytes_max() as u64);
        pb::ServerLoad {
            total_number_of_requests: Some(counters.requests),
            // HBase's field is the number of requests in one second.
            number_of_requests: Some(self.background.requests_per_second()),
            used_heap_mb: Some(megabytes(used)),
            max_heap_mb: Some(megabytes(max)),
            region_loads: self.regions().all().iter().map(|region| self.region_load(region)).collect(),
            report_start_time: Some(self.name().start_code),
            report_end_time: u64::try_from(self.foundation().world.now().0).ok(),
            info_server_port: self.options().info_port.map(u32::from),
            user_loads: self.user_loads.to_message(),
            coprocessors: self.coprocessors(),
            ..Default::default()
        }
    }
}
