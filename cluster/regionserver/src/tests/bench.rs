//! A server with one table, and a client that sends messages, for tests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp, block};
use env::{Runtime, WallTime, World};
use prost::Message;
use proto::region_info::RegionId;
use proto::{FamilyDescriptor, RegionInfo, ServerName, TableDescriptor, pb};
use region::RegionOptions;
use rpc::{Answer, Call, ClientVersion, Codec, Compressor, ConnectionInfo, Exception, Reply, Service};
use storage::{FileName, Files};

use crate::{AdminService, ClientService, Foundation, Options, RegionServer};

use pb::mutation_proto::column_value::QualifierValue;
use pb::mutation_proto::{ColumnValue, MutationType};

/// A server, and a client that calls it.
pub(crate) struct Bench {
    pub(crate) server: Arc<RegionServer>,
    pub(super) world: World,
    pub(super) codec: Codec,
    pub(super) version: Option<(u32, u32)>,
    pub(super) timeout: Option<Duration>,
    pub(super) answers: rpc::Answers,
    /// The server's storage. Tests fill it, make it fail, and kill it.
    pub(super) place: storage::Memory,
    client: ClientService,
    admin: AdminService,
    pub(super) runtime: Runtime,
}

impl Bench {
    /// Creates table `t` with families `f` and `g`, one region for all rows, and default options.
    pub(crate) fn new() -> Bench {
        Bench::with(Options::default(), &[("", "")])
    }

    /// Creates table `t` with these regions.
    pub(super) fn with(options: Options, regions: &[(&'static str, &'static str)]) -> Bench {
        Bench::of(options, RegionOptions::default(), 1 << 20, regions)
    }

    /// Like [`with`](Bench::with), with region options, and a cache of `cache_bytes` bytes.
    pub(super) fn of(
        options: Options,
        region_options: RegionOptions,
        cache_bytes: usize,
        regions: &[(&'static str, &'static str)],
    ) -> Bench {
        Bench::with_cache(options, region_options, cache::Cache::with_bytes(cache_bytes), regions)
    }

    /// Like [`of`](Bench::of), with an existing cache.
    pub(super) fn with_cache(
        options: Options,
        region_options: RegionOptions,
        cache: cache::Cache,
        regions: &[(&'static str, &'static str)],
    ) -> Bench {
        Bench::over(storage::Memory::new(), options, region_options, cache, wal::Options::default(), regions)
    }

    /// Creates table `t` with one region, over a log with these options.
    pub(super) fn with_log(options: Options, log: wal::Options) -> Bench {
        let cache = cache::Cache::with_bytes(1 << 20);
        Bench::over(storage::Memory::new(), options, RegionOptions::default(), cache, log, &[("", "")])
    }

    /// Creates table `t` with one region over this storage.
    pub(super) fn with_storage(place: storage::Memory, options: Options) -> Bench {
        let (cache, region_options) = (cache::Cache::with_bytes(1 << 20), RegionOptions::default());
        Bench::over(place, options, region_options, cache, wal::Options::default(), &[("", "")])
    }

    /// Creates table `t` with one region and an empty cache, over storage with awaited reads.
    pub(super) fn with_delayed_reads(delay: storage::memory::ReadDelay, at_once_max: usize) -> Bench {
        let (place, cache) = (storage::Memory::new(), cache::Cache::with_bytes(0));
        place.delay_reads(delay, at_once_max);
        let (options, regions) = (RegionOptions::default(), [("", "")]);
        Bench::over(place, Options::default(), options, cache, wal::Options::default(), &regions)
    }

    /// Kills the process and starts another over its storage, with one region for all rows.
    pub(super) fn kill(self) -> Bench {
        self.kill_and_open(&[("", "")])
    }

    /// Kills the process and starts another over its storage, which opens these regions.
    pub(super) fn kill_and_open(self, regions: &[(&'static str, &'static str)]) -> Bench {
        let options = Options::clone(&self.server.options());
        let region_options = self.server.foundation().region_options.clone();
        let region_options = RegionOptions { first_abort: Arc::default(), ..region_options };
        let cache = cache::Cache::with_bytes(1 << 20);
        Bench::over(self.place.kill(), options, region_options, cache, wal::Options::default(), regions)
    }

    fn over(
        place: storage::Memory,
        options: Options,
        region_options: RegionOptions,
        cache: cache::Cache,
        log: wal::Options,
        regions: &[(&'static str, &'static str)],
    ) -> Bench {
        let world = World::simulated(3, WallTime(1_700_000_000_000));
        let files: Arc<dyn Files> = Arc::new(place.clone());
        let (log, recovered) =
            wal::Log::open(world.clone(), files.clone(), FileName::new("WALs"), log).expect("a log");
        let foundation = Foundation {
            world: world.clone(),
            files,
            log: Arc::new(log),
            cache: Arc::new(cache),
            region_options,
            recovered: Some(Arc::new(recovered)),
        };
        let name = ServerName { host: "localhost".into(), port: 16020, start_code: 1_700_000_000_000 };
        let server = RegionServer::new(name, foundation, options);
        for (start, end) in regions {
            server.open_region(region(start, end), Arc::new(table())).expect("a new region");
        }
        Bench::before(server, place, world)
    }

    /// Creates a client of `server`, whose files are in `place`.
    pub(super) fn before(server: Arc<RegionServer>, place: storage::Memory, world: World) -> Bench {
        Bench {
            place,
            client: ClientService::new(server.clone()),
            admin: AdminService::new(server.clone()),
            server,
            world,
            codec: Codec::KeyValue,
            version: Some((2, 6)),
            timeout: None,
            answers: rpc::Answers::new(u64::MAX),
            runtime: Runtime::start("bench", 4).expect("a runtime"),
        }
    }

    pub(super) fn client(
        &self,
        method: &'static str,
        message: &impl Message,
        cells: Bytes,
    ) -> Result<Reply, Exception> {
        self.wait(self.client.call(self.call(method, message, cells)))
    }

    /// Sends an existing call.
    pub(super) fn send(&self, call: Call) -> Result<Reply, Exception> {
        self.wait(self.client.call(call))
    }

    /// Sends a call and abandons it before the response.
    pub(super) fn send_and_abandon(&self, call: Call) {
        let _entered = self.runtime.handle().enter();
        drop(self.client.call(call));
    }

    /// Sends a call and returns its answer, which may wait.
    pub(super) fn begin(&self, call: Call) -> Answer {
        let _entered = self.runtime.handle().enter();
        self.client.call(call)
    }

    /// Waits for an answer that [began](Bench::begin).
    pub(super) fn end(&self, answer: Answer) -> Result<Reply, Exception> {
        self.wait(answer)
    }

    /// Sends a call, lets it begin, and abandons it before the response.
    pub(super) fn begin_and_abandon(&self, call: Call) {
        let _entered = self.runtime.handle().enter();
        if let Answer::Later(mut answer) = self.client.call(call) {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _begun = answer.as_mut().poll(&mut context);
        }
    }

    pub(super) fn admin<M: Message + Default>(
        &self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<M, Exception> {
        let reply = self.wait(self.admin.call(self.call(method, message, Bytes::new())))?;
        Ok(M::decode(reply.message).expect("the method's message"))
    }

    pub(super) fn call(&self, method: &'static str, message: &impl Message, cells: Bytes) -> Call {
        let version = self.version.map(|(major, minor)| ClientVersion {
            text: format!("{major}.{minor}.0"),
            major,
            minor,
        });
        let now = self.world.moment();
        Call {
            method: rpc::Text::from_static(method),
            param: message.encode_to_vec().into(),
            cells,
            connection: Arc::new(ConnectionInfo {
                user: Default::default(),
                service: "ClientService".to_owned(),
                codec: self.codec,
                compressor: Compressor::None,
                version,
                remote: "127.0.0.1:1".parse().expect("an address"),
                attributes: Vec::new(),
                answers: self.answers.clone(),
            }),
            priority: None,
            timeout: self.timeout,
            deadline: self.timeout.map(|timeout| now.plus(timeout)),
            received: now,
            size: 0,
            attributes: Vec::new(),
            traceparent: None,
            permit: None,
        }
    }

    fn wait(&self, answer: Answer) -> Result<Reply, Exception> {
        match answer {
            Answer::Now(outcome) => outcome,
            // A call that never ends must fail its test.
            Answer::Later(future) => {
                let bounded = async { env::timeout(Duration::from_secs(60), future).await };
                self.runtime.handle().block_on(bounded).expect("an answer within a minute")
            }
        }
    }

    /// Puts one value and expects success.
    pub(super) fn put(&self, row: &'static str, column: &'static str, value: &str) {
        let reply = self.mutate(mutation(MutationType::Put, row, column, value)).expect("a put");
        assert_eq!(reply.processed, Some(true));
        assert_eq!(reply.result, None);
    }

    /// Sends one mutation to the region of its row.
    pub(super) fn mutate(&self, mutation: pb::MutationProto) -> Result<pb::MutateResponse, Exception> {
        self.mutate_if(mutation, None).map(|(response, _)| response)
    }

    pub(super) fn mutate_if(
        &self,
        mutation: pb::MutationProto,
        condition: Option<pb::Condition>,
    ) -> Result<(pb::MutateResponse, Bytes), Exception> {
        let request = pb::MutateRequest {
            region: self.region_of(mutation.row.as_deref().unwrap_or_default()),
            mutation,
            condition,
            nonce_group: Some(77),
        };
        let reply = self.client("Mutate", &request, Bytes::new())?;
        Ok((pb::MutateResponse::decode(reply.message).expect("the method's message"), reply.cells))
    }

    /// Returns the cells of a row as `family:qualifier=value`.
    pub(super) fn row(&self, row: &'static str) -> Vec<String> {
        let request = pb::GetRequest { region: self.region_of(row.as_bytes()), get: get(row) };
        let reply = self.client("Get", &request, Bytes::new()).expect("a get");
        let result = pb::GetResponse::decode(reply.message).expect("the method's message").result;
        self.shown(&result.expect("a result"), reply.cells)
    }

    /// Returns the cells of a result, from the message or the block.
    pub(super) fn shown(&self, result: &pb::Result, cells: Bytes) -> Vec<String> {
        let shown = shown(cells);
        if self.codec != Codec::None && self.version.is_some() {
            assert_eq!(result.associated_cell_count, Some(shown.len() as i32));
            return shown;
        }
        assert!(shown.is_empty());
        result.cell.iter().map(shown_message).collect()
    }

    /// Returns the specifier of the region that contains the row.
    pub(super) fn region_of(&self, row: &[u8]) -> pb::RegionSpecifier {
        let regions = self.server.regions().all();
        let region =
            regions.iter().find(|region| region.info().contains_row(row)).expect("all rows are covered");
        specifier(region.info())
    }
}

pub(super) fn specifier(info: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
        value: info.name().clone(),
    }
}

pub(super) fn table() -> TableDescriptor {
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    for family in ["f", "g"] {
        table.set_family(FamilyDescriptor::new(family).expect("a name"));
    }
    table
}

pub(super) fn region(start: &'static str, end: &'static str) -> RegionInfo {
    RegionInfo::new("t".parse().expect("a name"), start.into(), end.into(), RegionId(1_700_000_000_000))
        .expect("a region")
}

pub(super) fn get(row: &'static str) -> pb::Get {
    pb::Get { row: row.into(), ..Default::default() }
}

pub(super) fn mutation(
    kind: MutationType,
    row: &'static str,
    column: &'static str,
    value: &str,
) -> pb::MutationProto {
    let (family, qualifier) = column.split_once(':').expect("family:qualifier");
    let delete = (kind == MutationType::Delete)
        .then_some(pb::mutation_proto::DeleteType::DeleteMultipleVersions as i32);
    let value = QualifierValue {
        qualifier: Some(qualifier.into()),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        delete_type: delete,
        ..Default::default()
    };
    pb::MutationProto {
        row: Some(row.into()),
        mutate_type: Some(kind as i32),
        column_value: vec![ColumnValue { family: family.into(), qualifier_value: vec![value] }],
        ..Default::default()
    }
}

/// Returns an increment by `amount`.
pub(super) fn increment(row: &'static str, column: &'static str, amount: i64) -> pb::MutationProto {
    let mut mutation = mutation(MutationType::Increment, row, column, "");
    mutation.column_value[0].qualifier_value[0].value = Some(Bytes::copy_from_slice(&amount.to_be_bytes()));
    mutation
}

/// Returns a condition that the column has this value, or none if the value is empty.
pub(super) fn equals(row: &'static str, column: &'static str, value: &'static str) -> pb::Condition {
    let (family, qualifier) = column.split_once(':').expect("family:qualifier");
    let comparator =
        pb::BinaryComparator { comparable: pb::ByteArrayComparable { value: Some(value.into()) } };
    pb::Condition {
        row: row.into(),
        family: Some(family.into()),
        qualifier: Some(qualifier.into()),
        compare_type: Some(pb::CompareType::Equal as i32),
        comparator: Some(pb::Comparator {
            name: "org.apache.hadoop.hbase.filter.BinaryComparator".to_owned(),
            serialized_comparator: Some(comparator.encode_to_vec().into()),
        }),
        ..Default::default()
    }
}

/// Returns a cell block of puts to `row column value`.
pub(super) fn cells(puts: &[(&str, &str, &str)]) -> Bytes {
    let mut out = Vec::new();
    for (row, column, value) in puts {
        let (family, qualifier) = column.split_once(':').expect("family:qualifier");
        let cell = CellParts {
            row: row.as_bytes(),
            family: family.as_bytes(),
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp::LATEST,
            cell_type: CellType::Put,
            value: value.as_bytes(),
            tags: b"",
        };
        let cell = cell.to_vec().expect("a cell");
        block::write_without_tags(&mut out, Cell::parse(&cell, SequenceId::ZERO).expect("a cell"));
    }
    out.into()
}

/// Returns the cells of a block as `row family:qualifier=value`; without the row if all cells have the same row.
pub(super) fn shown(block: Bytes) -> Vec<String> {
    let block = CellBlock::parse(block).expect("a whole block");
    block.cells().map(|cell| shown_parts(cell.family(), cell.qualifier(), cell.value())).collect()
}

/// Returns the rows of a block, one for each cell.
pub(super) fn rows(block: Bytes) -> Vec<String> {
    let block = CellBlock::parse(block).expect("a whole block");
    block.cells().map(|cell| cell.row().escape_ascii().to_string()).collect()
}

pub(super) fn shown_message(cell: &pb::Cell) -> String {
    let part = |part: &Option<Bytes>| part.clone().unwrap_or_default();
    shown_parts(&part(&cell.family), &part(&cell.qualifier), &part(&cell.value))
}

fn shown_parts(family: &[u8], qualifier: &[u8], value: &[u8]) -> String {
    format!("{}:{}={}", family.escape_ascii(), qualifier.escape_ascii(), value.escape_ascii())
}

/// Returns the last part of an exception's class.
pub(super) fn class(exception: &Exception) -> &str {
    exception.class.rsplit('.').next().unwrap_or_default()
}
