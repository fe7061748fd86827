//! Fuzz targets that read bytes from sockets.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
use env::{Runtime, WallTime, World};
use registry::Tree;
use rpc::{Answer, Call, Compressor, Limits, Output, Reply, Service, Services, Session, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Nothing;

impl Service for Nothing {
    fn call(&self, call: Call) -> Answer {
        Ok(Reply { message: call.param, cells: call.cells, share: None }).into()
    }
}

/// Reads a connection of HBase's RPC from its first byte on, in pieces, as from a socket.
pub(crate) fn frame(bytes: &[u8]) {
    let limits = Limits {
        request_size_max: 1 << 20,
        header_size_max: 1 << 16,
        cells_size_max: 1 << 20,
        timeout_min: Duration::from_millis(20),
    };
    let services = Services::new().with("ClientService", Arc::new(Nothing)).with_cluster_id("id");
    let mut session =
        Session::new(services, limits, rpc::Answers::new(u64::MAX), SocketAddr::from(([127, 0, 0, 1], 1)));
    let (mut input, mut output) = (BytesMut::new(), Output::default());
    let piece = 1 + bytes.first().map_or(0, |byte| usize::from(*byte) * 7);
    for piece in bytes.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            let before = input.len();
            match session.next(&mut input, &mut output) {
                Step::Starved(wanted) => {
                    assert!(wanted > 0, "starved of nothing with {before} bytes");
                    break;
                }
                Step::Opened => assert!(session.opened().is_some()),
                Step::Request(request) => {
                    assert!(request.param.len() <= request.size && request.cells.len() <= 1 << 20);
                }
                Step::Ended(_) => return,
            }
        }
        // Each request gets a refusal, which is at most a few times as long as the request.
        assert!(output.len() <= 4_096 * (1 + bytes.len()), "{} bytes of answers", output.len());
    }
}

/// Reads a cell block, and all parts of each cell.
pub(crate) fn cell_block(bytes: &[u8]) {
    let Ok(block) = CellBlock::parse(Bytes::copy_from_slice(bytes)) else { return };
    let mut count = 0;
    for cell in block.cells() {
        count += 1;
        let parts = cell.row().len() + cell.family().len() + cell.qualifier().len() + cell.value().len();
        let tags: usize = cell.tags().into_iter().map(|tag| tag.value.len()).sum();
        assert!(parts + tags <= bytes.len(), "a cell's parts have {parts} bytes of {}", bytes.len());
        let (_, _) = (cell.timestamp(), cell.cell_type());
        let again = Cell::parse(cell.bytes(), SequenceId::ZERO).expect("what was parsed is a cell");
        assert!(again.key().row() == cell.row() && again.value() == cell.value());
    }
    assert_eq!(count, block.count());
}

/// Reads a compressed cell block; the first byte chooses the compressor.
pub(crate) fn packed_cells(bytes: &[u8]) {
    let Some((first, packed)) = bytes.split_first() else { return };
    let compressor = [Compressor::Gzip, Compressor::Snappy, Compressor::Lz4][usize::from(*first) % 3];
    let limit = 1 << 20;
    if let Ok(raw) = compressor.decompress(Bytes::copy_from_slice(packed), limit) {
        assert!(raw.len() <= limit, "{} bytes were unpacked, {limit} are allowed", raw.len());
    }
}

/// Reads a `Filter` message with comparators and patterns, and applies the filter to some cells.
pub(crate) fn filter(bytes: &[u8]) {
    let world = World::simulated(1, WallTime(0));
    let Ok(mut filter) = regionserver::filter_of(Bytes::copy_from_slice(bytes), &world) else { return };
    for row in [&b""[..], b"a", b"row-1", b"\xff\xff"] {
        filter.reset();
        if filter.filter_all_remaining() {
            break;
        }
        if filter.filter_row_key(row) {
            continue;
        }
        let made: Vec<Vec<u8>> = [(&b""[..], &b""[..]), (b"q", b"12345678"), (b"\xff", b"value")]
            .into_iter()
            .map(|(qualifier, value)| {
                let parts = CellParts {
                    row: if row.is_empty() { b"-" } else { row },
                    family: b"f",
                    qualifier,
                    timestamp: Timestamp(5),
                    cell_type: CellType::Put,
                    value,
                    tags: b"",
                };
                parts.to_vec().expect("a cell")
            })
            .collect();
        let cells: Vec<Cell<'_>> =
            made.iter().map(|bytes| Cell::parse(bytes, SequenceId::ZERO).expect("a cell")).collect();
        for cell in &cells {
            let _judged = filter.filter_cell(*cell);
            let _hint = filter.next_hint(*cell);
        }
        let mut keep = vec![true; cells.len()];
        filter.filter_row_cells(&cells, &mut keep);
        let _left_out = filter.filter_row();
        let _why = filter.failure();
    }
}

/// Reads a frame of a ZooKeeper client, as the connect request and as another one.
pub(crate) fn zookeeper(bytes: &[u8]) {
    let tree = Tree::new(World::simulated(1, WallTime(0)));
    tree.set("/hbase/master", "m");
    tree.set("/hbase/rs/one", "");
    let answered = registry::answer(&tree, bytes);
    let length = answered.as_ref().map_or(0, Vec::len);
    assert!(length <= 1_024 + 64 * bytes.len(), "{length} bytes of answer to {}", bytes.len());
}

/// Sends bytes to the web port through a real socket, until the server closes the connection.
pub(crate) fn http(bytes: &[u8]) {
    static SERVER: OnceLock<(Runtime, SocketAddr)> = OnceLock::new();
    let (runtime, address) = SERVER.get_or_init(|| {
        let runtime = Runtime::start("web", 1).expect("a thread");
        let listener = {
            let _inside = runtime.handle().enter();
            env::listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback")
        };
        let address = listener.local_addr().expect("bound");
        runtime.spawn(web::serve(listener, web::Options::default(), web::Console::without_server(address)));
        (runtime, address)
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    let (bytes, address) = (bytes.to_vec(), *address);
    runtime.spawn(async move {
        let whole = env::timeout(Duration::from_secs(20), async {
            let mut stream = env::dial(address).await.expect("the server accepts");
            // The server may close the connection early.
            let _refused = stream.write_all(&bytes).await;
            let _gone = stream.shutdown().await;
            let mut answer = Vec::new();
            let _reset = stream.read_to_end(&mut answer).await;
            answer.is_empty() || answer.starts_with(b"HTTP/1.")
        });
        // The receiver waits below.
        let _sent = sender.send(whole.await);
    });
    match receiver.recv().expect("the task ends") {
        Some(is_http) => assert!(is_http, "an answer that is not HTTP"),
        None => panic!("the server neither answers nor hangs up"),
    }
}
