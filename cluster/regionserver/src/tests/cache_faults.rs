//! Tests reads by clients while the device of the bucket cache fails in every way. No wrong byte may be returned, and
//! no request may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cache::{Bucket, BucketCounts, BucketOptions, Cache};
use cell::{CellBlock, CellParts, CellType, Timestamp};
use env::{WallTime, World};
use prost::Message;
use proto::pb;
use region::{FlushReason, RegionOptions};
use storage::{Device, DeviceFault, LocalDevice, Scratch};

use super::bench::Bench;
use crate::Options;

const ROWS: u64 = 3_000;
const CLIENTS: usize = 4;
/// Number of requests of each client in a round.
const REQUESTS: u64 = 120;
const TOLERATED: Duration = Duration::from_secs(60);
/// Size of the device in bytes: about half of all rows fit, so that blocks are always being read, written and evicted.
const DEVICE: u64 = 1 << 20;

fn row(number: u64) -> Bytes {
    format!("row{number:05}").into()
}

fn value(number: u64) -> Vec<u8> {
    (0..600).map(|at| (number.wrapping_mul(31).wrapping_add(at * 7) >> (at % 5)) as u8).collect()
}

/// A server whose blocks are cached on a device, with rows in a file.
struct Scene {
    bench: Bench,
    clock: World,
    turns: AtomicU64,
}

impl Scene {
    fn over(device: Arc<dyn Device>) -> Scene {
        let clock = World::simulated(7, WallTime(0));
        let options = BucketOptions {
            slot_sizes: vec![4 << 10, 16 << 10, 80 << 10],
            queue_length: 10_000,
            errors_tolerated: TOLERATED,
            ..BucketOptions::default()
        };
        let bucket = Bucket::on(vec![device], &options, clock.clone());
        let cache = Cache::with_bytes(64 << 10).with_bucket(bucket);
        let bench = Bench::with_cache(Options::default(), RegionOptions::default(), cache, &[("", "")]);
        let scene = Scene { bench, clock, turns: AtomicU64::new(0) };
        for from in (0..ROWS).step_by(500) {
            scene.fill(from..from + 500);
        }
        let region = scene.bench.server.regions().all().remove(0);
        scene.bench.server.flush(&region, FlushReason::Requested).expect("flushed");
        scene
    }

    fn fill(&self, numbers: std::ops::Range<u64>) {
        let mut cells = Vec::new();
        let action = |number: u64| {
            let parts = CellParts {
                row: &row(number),
                family: b"f",
                qualifier: b"q",
                timestamp: Timestamp::LATEST,
                cell_type: CellType::Put,
                value: &value(number),
                tags: b"",
            };
            let bytes = parts.to_vec().expect("a cell");
            cell::block::write_without_tags(&mut cells, cell::Cell::trusted(&bytes, cell::SequenceId::ZERO));
            let mutation = pb::MutationProto {
                row: Some(row(number)),
                mutate_type: Some(pb::mutation_proto::MutationType::Put as i32),
                associated_cell_count: Some(1),
                ..Default::default()
            };
            pb::Action { mutation: Some(mutation), ..Default::default() }
        };
        let action = numbers.map(action).collect();
        let actions = pb::RegionAction { region: self.bench.region_of(b"row"), action, ..Default::default() };
        let request = pb::MultiRequest { region_action: vec![actions], ..Default::default() };
        let reply = self.bench.client("Multi", &request, cells.into()).expect("written");
        let response = pb::MultiResponse::decode(reply.message).expect("the message");
        let entries = &response.region_action_result[0].result_or_exception;
        assert!(entries.iter().all(|entry| entry.exception.is_none()));
    }

    fn counts(&self) -> BucketCounts {
        self.bench.server.foundation().cache.bucket().expect("there is one").counts()
    }

    fn settle(&self) {
        self.bench.server.foundation().cache.bucket().expect("there is one").settle();
    }

    /// Checks that the cells of a response are those of these rows, byte by byte.
    fn check(cells: Bytes, numbers: impl Iterator<Item = u64>) {
        let block = CellBlock::parse(cells).expect("a whole block");
        let mut cells = block.cells();
        for number in numbers {
            let cell = cells.next().expect("every row has a cell");
            assert!(cell.row() == row(number) && cell.value() == value(number), "row {number}");
        }
        assert!(cells.next().is_none());
    }

    fn get(&self, number: u64) {
        let get = pb::Get { row: row(number), ..Default::default() };
        let request = pb::GetRequest { region: self.bench.region_of(b"row"), get };
        let reply = self.bench.client("Get", &request, Bytes::new()).expect("a get does not fail");
        Scene::check(reply.cells, std::iter::once(number));
    }

    fn multi_get(&self, numbers: &[u64]) {
        let action = |(index, &number): (usize, &u64)| pb::Action {
            index: Some(index as u32),
            get: Some(pb::Get { row: row(number), ..Default::default() }),
            ..Default::default()
        };
        let action = numbers.iter().enumerate().map(action).collect();
        let actions = pb::RegionAction { region: self.bench.region_of(b"row"), action, ..Default::default() };
        let request = pb::MultiRequest { region_action: vec![actions], ..Default::default() };
        let reply = self.bench.client("Multi", &request, Bytes::new()).expect("a multi does not fail");
        Scene::check(reply.cells, numbers.iter().copied());
    }

    fn scan(&self, from: u64, count: u64) {
        let scan = pb::Scan {
            start_row: Some(row(from)),
            stop_row: Some(row(from + count)),
            max_result_size: Some(1 << 20),
            ..Default::default()
        };
        let request = pb::ScanRequest {
            region: Some(self.bench.region_of(b"row")),
            scan: Some(scan),
            number_of_rows: Some(count as u32 + 1),
            close_scanner: Some(true),
            client_handles_partials: Some(true),
            ..Default::default()
        };
        let reply = self.bench.client("Scan", &request, Bytes::new()).expect("a scan does not fail");
        Scene::check(reply.cells, from..from + count);
    }

    /// Lets clients read random rows, and checks the results. Calls `meanwhile` at every 16th request.
    fn load(&self, meanwhile: impl Fn(u64) + Sync) {
        let clients = AtomicUsize::new(0);
        env::together("client", CLIENTS, || {
            let client = clients.fetch_add(1, Ordering::SeqCst) as u64;
            let random = World::simulated(100 + client, WallTime(0));
            let any = |below: u64| random.random() % below;
            for _ in 0..REQUESTS {
                let turn = self.turns.fetch_add(1, Ordering::SeqCst);
                if turn.is_multiple_of(16) {
                    meanwhile(turn / 16);
                }
                match any(4) {
                    0 => self.multi_get(&(0..20).map(|_| any(ROWS)).collect::<Vec<_>>()),
                    1 => self.scan(any(ROWS - 60), 50),
                    _ => self.get(any(ROWS)),
                }
            }
        });
        self.settle();
    }
}

const FAULTS: [DeviceFault; 6] = [
    DeviceFault::ReadFails,
    DeviceFault::ReadShort,
    DeviceFault::ReadFlips,
    DeviceFault::Full,
    DeviceFault::WriteLost,
    DeviceFault::Gone,
];

#[test]
fn device_faults_never_reach_clients() {
    let device = Scratch::new(DEVICE);
    let scene = Scene::over(Arc::new(device.clone()));
    scene.load(|_| {});
    scene.load(|_| {});
    let sound = scene.counts();
    assert!(sound.blocks > 5 && (sound.corrupt, sound.failed) == (0, 0), "{sound:?}");
    let mut harm = 0;
    for fault in FAULTS {
        device.set_fault(fault);
        scene.load(|_| {});
        let counts = scene.counts();
        assert!(counts.corrupt + counts.failed > harm, "{fault:?} was met: {counts:?}");
        harm = counts.corrupt + counts.failed;
        device.set_fault(DeviceFault::None);
        scene.load(|_| {});
    }
    // While clients read and write, sets one fault after the other, and flips bits in blocks.
    scene.load(|turn| match turn as usize % (FAULTS.len() + 2) {
        0 => device.set_fault(DeviceFault::None),
        1 => device.damage(|bytes| bytes.iter_mut().step_by(4_001).for_each(|byte| *byte ^= 4)),
        fault => device.set_fault(FAULTS[fault - 2]),
    });
    device.set_fault(DeviceFault::None);
    scene.load(|_| {});
    assert!(!scene.counts().disabled, "all of it has passed");
}

#[test]
fn a_device_lost_for_too_long_is_given_up() {
    let device = Scratch::new(DEVICE);
    let scene = Scene::over(Arc::new(device.clone()));
    scene.load(|_| {});
    device.set_fault(DeviceFault::Gone);
    scene.load(|turn| {
        if turn % 4 == 0 {
            scene.clock.advance(TOLERATED / 2);
        }
    });
    let counts = scene.counts();
    assert!(counts.disabled && counts.blocks == 0, "{counts:?}");
    let acts = device.acts();
    scene.load(|_| {});
    assert_eq!(device.acts(), acts, "it is asked for nothing any more");
}

/// A truncated or overwritten device file is detected before its bytes are used.
#[test]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a real file is the point")]
fn a_mapped_file_that_is_cut_and_scribbled_on_costs_hits_and_nothing_more() {
    use std::os::unix::fs::FileExt;
    let path = std::env::temp_dir().join(format!("bellows-cache-faults-{}", std::process::id()));
    let device = LocalDevice::open_mapped(&path, DEVICE, World::real()).expect("opened");
    let scene = Scene::over(Arc::new(device));
    let behind = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    scene.load(|_| {});
    for at in (0..DEVICE).step_by(4_001) {
        behind.write_all_at(&[0x55; 3], at).expect("written");
    }
    scene.load(|_| {});
    let corrupt = scene.counts().corrupt;
    assert!(corrupt > 0);
    behind.set_len(DEVICE / 8).expect("cut");
    scene.load(|_| {});
    // Truncated parts cannot be read or, if a later part was written again, are zeros.
    let counts = scene.counts();
    assert!(counts.failed + counts.corrupt > corrupt, "{counts:?}");
    behind.set_len(DEVICE).expect("longer again");
    scene.load(|_| {});
    drop(scene);
    std::fs::remove_file(&path).expect("removed");
}
