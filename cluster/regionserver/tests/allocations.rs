//! Tests that a get of a row in memory, from the bytes of its frame to the bytes of its response, allocates nothing and
//! moves to no other task or thread.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use cache::{Bucket, BucketOptions, Cache};
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp, block};
use env::{WallTime, World};
use prost::Message;
use proto::region_info::RegionId;
use proto::{FamilyDescriptor, RegionInfo, ServerName, TableDescriptor, pb};
use region::{
    CellSink, Durability, FlushReason, Mutation, MutationKind, ReadMode, Region, RegionOptions, Scan,
};
use regionserver::{ClientService, Foundation, RegionServer};
use rpc::{Answer, Answers, Call, Output, Services, Session, Step};
use storage::{FileName, Files};

#[global_allocator]
static COUNTING: micro::Counting = micro::Counting;

const ROWS: u32 = 2_000;

fn row(number: u32) -> Bytes {
    format!("row{:019}", number.wrapping_mul(2_654_435_761) % ROWS).into()
}

/// A sink that drops cells.
struct Nothing;

impl CellSink for Nothing {
    fn cell(&mut self, _: Cell<'_>) {}
}

/// One server with one region, and the connection of one client.
struct Bench {
    world: World,
    region: Arc<Region>,
    specifier: pb::RegionSpecifier,
    session: Session,
    input: BytesMut,
    output: Output,
}

impl Bench {
    fn new(cache: Cache) -> Bench {
        let world = World::simulated(3, WallTime(1_700_000_000_000));
        let files: Arc<dyn Files> = Arc::new(storage::Memory::new());
        let (log, recovered) =
            wal::Log::open(world.clone(), files.clone(), FileName::new("WALs"), wal::Options::default())
                .expect("a log");
        let foundation = Foundation {
            world: world.clone(),
            files,
            log: Arc::new(log),
            cache: Arc::new(cache),
            region_options: RegionOptions::default(),
            recovered: Some(Arc::new(recovered)),
        };
        let name = ServerName { host: "localhost".into(), port: 16020, start_code: 1_700_000_000_000 };
        let server = RegionServer::new(name, foundation, regionserver::Options::default());
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        table.set_family(FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", 4_096));
        let id = RegionId(1_700_000_000_000);
        let info = RegionInfo::new(table.name().clone(), Bytes::new(), Bytes::new(), id).expect("a region");
        let specifier = pb::RegionSpecifier {
            r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
            value: info.name().clone(),
        };
        let region = server.open_region(info, Arc::new(table)).expect("a new region");
        let services = Services::new().with("ClientService", Arc::new(ClientService::new(server)));
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        let limits = rpc::Options::default().limits();
        let session = Session::new(services, limits, Answers::new(u64::MAX), remote);
        let (input, output) = (BytesMut::with_capacity(16 << 10), Output::default());
        let mut bench = Bench { world, region, specifier, session, input, output };
        bench.hello();
        bench
    }

    fn hello(&mut self) {
        let header = pb::ConnectionHeader {
            service_name: Some("ClientService".to_owned()),
            cell_block_codec_class: Some("org.apache.hadoop.hbase.codec.KeyValueCodec".to_owned()),
            version_info: Some(pb::VersionInfo {
                version: "2.6.4".to_owned(),
                version_major: Some(2),
                version_minor: Some(6),
                ..Default::default()
            }),
            ..Default::default()
        };
        self.input.extend_from_slice(b"HBas\x00\x50");
        self.input.extend_from_slice(&framed(&[&header.encode_to_vec()]));
        let step = self.session.next(&mut self.input, &mut self.output);
        assert!(matches!(step, Step::Opened), "{step:?}");
    }

    /// Puts rows with two columns.
    fn fill(&self, value: &[u8]) {
        let mutations: Vec<Mutation> = (0..ROWS).map(|number| put(&row(number), value)).collect();
        let applied = self.region.apply(&mutations, ReadMode::Any).expect("applied");
        applied.outcomes.into_iter().for_each(|outcome| outcome.expect("written"));
        applied.pending.wait_blocking().expect("durable");
    }

    fn flush(&self) {
        self.region.flush(FlushReason::Requested).expect("flushed");
        self.warm();
    }

    /// Gets every row, so that the blocks of all rows are in memory.
    fn warm(&self) {
        for number in 0..ROWS {
            let found = self.region.get(&Scan::get(row(number)), ReadMode::Any, &mut Nothing);
            assert_eq!(found.expect("serving"), 2);
        }
    }

    fn get(&self, number: u32, columns: &[&'static str]) -> Vec<u8> {
        let column =
            pb::Column { family: "f".into(), qualifier: columns.iter().map(|&name| name.into()).collect() };
        let get = pb::Get { row: row(number), column: vec![column], ..Default::default() };
        let request = pb::GetRequest { region: self.specifier.clone(), get };
        framed(&[&header("Get", number), &request.encode_length_delimited_to_vec()])
    }

    fn multi_get(&self, call_id: u32, rows: u32) -> Vec<u8> {
        let action = |index: u32| pb::Action {
            index: Some(index),
            get: Some(pb::Get { row: row(call_id * rows + index), ..Default::default() }),
            ..Default::default()
        };
        let region = pb::RegionAction {
            region: self.specifier.clone(),
            action: (0..rows).map(action).collect(),
            ..Default::default()
        };
        let request = pb::MultiRequest { region_action: vec![region], ..Default::default() };
        framed(&[&header("Multi", call_id), &request.encode_length_delimited_to_vec()])
    }

    /// Processes the bytes of one frame as a connection does. Passes the response to `look`, and returns the response's
    /// size in bytes.
    fn serve(&mut self, frame: &[u8], look: impl FnOnce(&[u8])) -> usize {
        self.input.reserve(frame.len());
        self.input.extend_from_slice(frame);
        let step = self.session.next(&mut self.input, &mut self.output);
        let Step::Request(request) = step else { panic!("{step:?}") };
        let (info, service) = self.session.opened().expect("it was");
        let call = Call {
            method: request.method,
            param: request.param,
            cells: request.cells,
            connection: Arc::clone(info),
            priority: request.priority,
            timeout: request.timeout,
            deadline: None,
            received: self.world.moment(),
            size: request.size,
            attributes: request.attributes,
            traceparent: request.traceparent,
            permit: None,
        };
        let Answer::Now(reply) = service.call(call) else { panic!("it is handed to somebody else") };
        self.output.put_reply(request.call_id, reply.expect("an answer")).expect("it fits");
        let length = self.output.len();
        let mut slices = [std::io::IoSlice::new(&[]); 4];
        assert!(self.output.slices(&mut slices) > 0);
        look(&slices[0]);
        self.output.advance(length);
        length
    }
}

fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let length: usize = messages.iter().map(|message| message.len()).sum();
    let mut frame = (length as u32).to_be_bytes().to_vec();
    messages.iter().for_each(|message| frame.extend_from_slice(message));
    frame
}

fn header(method: &str, call_id: u32) -> Vec<u8> {
    let header = pb::RequestHeader {
        call_id: Some(call_id),
        method_name: Some(method.to_owned()),
        request_param: Some(true),
        timeout: Some(60_000),
        ..Default::default()
    };
    header.encode_length_delimited_to_vec()
}

fn put(row: &Bytes, value: &[u8]) -> Mutation {
    let mut cells = Vec::new();
    for qualifier in [b"a", b"b"] {
        let parts = CellParts {
            row,
            family: b"f",
            qualifier,
            timestamp: Timestamp::LATEST,
            cell_type: CellType::Put,
            value,
            tags: b"",
        };
        let bytes = parts.to_vec().expect("within limits");
        block::write_with_tags(&mut cells, Cell::parse(&bytes, SequenceId::ZERO).expect("whole"));
    }
    Mutation {
        kind: MutationKind::Put,
        row: row.clone(),
        cells: CellBlock::parse(cells.into()).expect("whole"),
        durability: Durability::Sync,
        time_range: None,
        return_results: false,
        nonce: None,
    }
}

/// Gets rows twice, and returns the number of allocations of the second round.
fn allocations(bench: &mut Bench, columns: &[&'static str], value: &[u8]) -> u64 {
    let frames: Vec<Vec<u8>> = (0..ROWS).step_by(3).map(|number| bench.get(number, columns)).collect();
    for (frame, number) in frames.iter().zip((0..ROWS).step_by(3)) {
        bench.serve(frame, |mut answer| {
            let cells = match columns.len() {
                0 => 2,
                named => named,
            };
            answer.advance(answer.len() - cells * (4 + 8 + 12 + 22 + 2 + value.len()));
            let block = CellBlock::parse(Bytes::copy_from_slice(answer)).expect("whole");
            let wanted = row(number);
            assert!(block.cells().all(|cell| cell.row() == wanted && cell.value() == value));
            assert_eq!(block.count(), cells);
        });
    }
    let (count, bytes) = micro::allocations_of(|| {
        let lengths = frames.iter().map(|frame| bench.serve(frame, |_| {}));
        lengths.sum::<usize>()
    });
    assert!(bytes > frames.len() * 2 * value.len() / 2);
    count
}

fn tiers() -> Vec<(&'static str, Cache)> {
    let offheap = Bucket::offheap(64 << 20, &BucketOptions::default());
    vec![
        ("memory", Cache::with_bytes(64 << 20)),
        ("offheap", Cache::with_bytes(16 << 20).with_bucket(offheap)),
    ]
}

#[test]
fn a_get_from_memory_allocates_nothing_wherever_the_row_is() {
    for (tier, cache) in tiers() {
        let mut bench = Bench::new(cache);
        bench.fill(b"the first value");
        for columns in [&[][..], &["a"], &["a", "b"]] {
            assert_eq!(
                allocations(&mut bench, columns, b"the first value"),
                0,
                "{columns:?} from the memstore"
            );
        }
        bench.flush();
        for columns in [&[][..], &["a"], &["a", "b"]] {
            assert_eq!(allocations(&mut bench, columns, b"the first value"), 0, "{columns:?} from {tier}");
        }
        bench.fill(b"another");
        bench.flush();
        bench.fill(b"the last");
        for columns in [&[][..], &["a"], &["a", "b"]] {
            assert_eq!(allocations(&mut bench, columns, b"the last"), 0, "{columns:?} from all of {tier}");
        }
    }
}

#[test]
fn a_multi_get_from_memory_allocates_no_more_for_more_rows() {
    let mut bench = Bench::new(Cache::with_bytes(64 << 20));
    bench.fill(b"a value");
    bench.flush();
    bench.fill(b"another");
    let mut count = |rows: u32| {
        let frames: Vec<Vec<u8>> = (0..20).map(|call_id| bench.multi_get(call_id, rows)).collect();
        let mut serve_all = || frames.iter().map(|frame| bench.serve(frame, |_| {})).sum::<usize>();
        let bytes = serve_all();
        let (count, again) = micro::allocations_of(&mut serve_all);
        assert_eq!(bytes, again);
        count / frames.len() as u64
    };
    let (few, many) = (count(10), count(200));
    assert!(many <= few + 8, "{few} for ten rows, {many} for two hundred");
}
