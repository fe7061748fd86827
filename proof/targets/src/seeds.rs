//! The valid inputs of each target, from which mutated ones are made.

use std::sync::Arc;

use cell::{CellParts, CellType, SequenceId, Timestamp};
use env::WallTime;
use prost::Message;
use proto::pb;
use rpc::Compressor;
use storage::{FileName, Files, Memory};
use wal::{Kind, Level, Log, Options, Record};

const HFILES: &[&[u8]] = &[
    include_bytes!("../../golden/hfiles/checksum-null.hfile"),
    include_bytes!("../../golden/hfiles/checksum-crc32.hfile"),
    include_bytes!("../../golden/hfiles/gz-rowindex.hfile"),
    include_bytes!("../../golden/hfiles/snappy-rowindex-tags.hfile"),
    include_bytes!("../../golden/hfiles/lz4-plain-tags.hfile"),
    include_bytes!("../../golden/hfiles/zstd-plain.hfile"),
    include_bytes!("../../golden/hfiles/encoding-prefix.hfile"),
    include_bytes!("../../golden/hfiles/encoding-diff-tags.hfile"),
    include_bytes!("../../golden/hfiles/encoding-fast-diff.hfile"),
    include_bytes!("../../golden/hfiles/deletes.hfile"),
    include_bytes!("../../golden/hfiles/empty.hfile"),
    include_bytes!("../../golden/hfiles/meta-blocks.hfile"),
];
/// Size of a trailer, in bytes.
const TRAILER: usize = 4_096;

/// Returns the valid inputs of a target.
///
/// # Panics
/// When there is no such target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frame" => frames(),
        "cell_block" => vec![cells(b""), cells(b"\0\x03\x01ab")],
        "packed_cells" => packed(),
        "filter" => filters(),
        "zookeeper" => zookeeper(),
        "http" => vec![
            b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                .to_vec(),
            b"GET /metrics HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc".to_vec(),
        ],
        "hfile" | "hfile_block" => HFILES.iter().map(|file| file.to_vec()).collect(),
        "hfile_trailer" => HFILES.iter().map(|file| file[file.len() - TRAILER..].to_vec()).collect(),
        "wal_file" => vec![log()],
        "hbase_log" => vec![hbase_log(false), hbase_log(true)],
        // Without the header and batch header before them, and the end record after them.
        "wal_records" => vec![log()[48..].to_vec()],
        other => panic!("no target is called {other}"),
    }
}

fn cells(tags: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (number, cell_type) in
        [CellType::Put, CellType::DeleteColumn, CellType::DeleteFamily].into_iter().enumerate()
    {
        let parts = CellParts {
            row: format!("row-{number}").as_bytes(),
            family: b"f",
            qualifier: b"qualifier",
            timestamp: Timestamp(number as i64 - 1),
            cell_type,
            value: b"value",
            tags,
        }
        .to_vec()
        .expect("a cell");
        block.extend_from_slice(&(parts.len() as u32).to_be_bytes());
        block.extend_from_slice(&parts);
    }
    block
}

fn packed() -> Vec<Vec<u8>> {
    let raw = cells(b"").repeat(20);
    let of = |(first, compressor): (usize, &Compressor)| {
        [&[first as u8][..], &compressor.compress(raw.clone().into())].concat()
    };
    [Compressor::Gzip, Compressor::Snappy, Compressor::Lz4].iter().enumerate().map(of).collect()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

fn frames() -> Vec<Vec<u8>> {
    let connection = |compressor: &str| {
        let header = pb::ConnectionHeader {
            service_name: Some("ClientService".to_owned()),
            cell_block_codec_class: Some("org.apache.hadoop.hbase.codec.KeyValueCodec".to_owned()),
            cell_block_compressor_class: Some(compressor.to_owned()),
            ..pb::ConnectionHeader::default()
        };
        [b"HBas\0\x50", &framed(&header.encode_to_vec())[..]].concat()
    };
    let call = |cells: &[u8]| {
        let header = pb::RequestHeader {
            call_id: Some(7),
            method_name: Some("Get".to_owned()),
            request_param: Some(true),
            cell_block_meta: Some(pb::CellBlockMeta { length: Some(cells.len() as u32) }),
            timeout: Some(60_000),
            ..pb::RequestHeader::default()
        };
        let mut body = header.encode_length_delimited_to_vec();
        body.extend_from_slice(&pb::GetRequest::default().encode_length_delimited_to_vec());
        body.extend_from_slice(cells);
        framed(&body)
    };
    let mut all = vec![b"Regist".to_vec(), [b"Securi", &connection("")[..]].concat()];
    for compressor in [Compressor::None, Compressor::Gzip, Compressor::Lz4] {
        let packed = compressor.compress(cells(b"").into());
        all.push([connection(compressor.class()), call(&packed), call(&packed)].concat());
    }
    all.push([&b"HBas\0\x51"[..], &framed(b"sasl"), &connection("")[6..], &call(b"")].concat());
    all
}

fn filters() -> Vec<Vec<u8>> {
    const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";
    let filter = |class: &str, bytes: Vec<u8>| pb::Filter {
        name: format!("{PACKAGE}{class}"),
        serialized_filter: Some(bytes.into()),
    };
    let comparator = |class: &str, bytes: Vec<u8>| pb::Comparator {
        name: format!("{PACKAGE}{class}"),
        serialized_comparator: Some(bytes.into()),
    };
    let value = || pb::ByteArrayComparable { value: Some(b"value".to_vec().into()) };
    let compare =
        |comparator: pb::Comparator| pb::CompareFilter { compare_op: 2, comparator: Some(comparator) };
    let regex = pb::RegexStringComparator {
        pattern: r"(?i)r[o0]w-\d+(a|b)*$".to_owned(),
        pattern_flags: 2,
        charset: "UTF-8".to_owned(),
        engine: None,
    };
    let comparators = [
        comparator("BinaryComparator", pb::BinaryComparator { comparable: value() }.encode_to_vec()),
        comparator(
            "BinaryPrefixComparator",
            pb::BinaryPrefixComparator { comparable: value() }.encode_to_vec(),
        ),
        comparator("RegexStringComparator", regex.encode_to_vec()),
        comparator(
            "SubstringComparator",
            pb::SubstringComparator { substr: "alu".to_owned() }.encode_to_vec(),
        ),
        comparator("LongComparator", pb::LongComparator { comparable: value() }.encode_to_vec()),
        comparator("BigDecimalComparator", pb::BigDecimalComparator { comparable: value() }.encode_to_vec()),
        comparator("BitComparator", pb::BitComparator { comparable: value(), bitwise_op: 1 }.encode_to_vec()),
        comparator("NullComparator", Vec::new()),
    ];
    let mut all: Vec<pb::Filter> = comparators
        .into_iter()
        .map(|comparator| {
            filter("ValueFilter", pb::ValueFilter { compare_filter: compare(comparator) }.encode_to_vec())
        })
        .collect();
    let fuzzy = pb::FuzzyRowFilter {
        fuzzy_keys_data: vec![pb::BytesBytesPair {
            first: b"row-?".to_vec().into(),
            second: vec![0xff, 0xff, 0xff, 0xff, 2].into(),
        }],
        is_mask_v2: Some(true),
    };
    let range = pb::RowRange {
        start_row: Some(b"a".to_vec().into()),
        start_row_inclusive: Some(true),
        stop_row: Some(b"s".to_vec().into()),
        stop_row_inclusive: Some(false),
    };
    let paging = pb::ColumnPaginationFilter { limit: 2, offset: Some(1), column_offset: None };
    all.push(filter("FuzzyRowFilter", fuzzy.encode_to_vec()));
    all.push(filter(
        "MultiRowRangeFilter",
        pb::MultiRowRangeFilter { row_range_list: vec![range] }.encode_to_vec(),
    ));
    all.push(filter("ColumnPaginationFilter", paging.encode_to_vec()));
    all.push(filter(
        "TimestampsFilter",
        pb::TimestampsFilter { timestamps: vec![5, 7], can_hint: Some(true) }.encode_to_vec(),
    ));
    all.push(filter("PageFilter", pb::PageFilter { page_size: 3 }.encode_to_vec()));
    let list = pb::FilterList { operator: 2, filters: all.clone() };
    all.push(filter(
        "SkipFilter",
        pb::SkipFilter { filter: filter("FilterList", list.encode_to_vec()) }.encode_to_vec(),
    ));
    all.extend([(DOCUMENTS, HDOCDB), (SPARK, PUSH_DOWN)].map(|(class, hex)| pb::Filter {
        name: class.to_owned(),
        serialized_filter: Some(crate::unhex(hex).expect("hexadecimal digits").into()),
    }));
    all.iter().map(Message::encode_to_vec).collect()
}

const DOCUMENTS: &str = "io.hdocdb.store.HDocumentFilter";
const SPARK: &str = "org.apache.hadoop.hbase.spark.SparkSQLPushDownFilter";

/// The bytes that HDocDB's class writes for some conditions on paths.
const HDOCDB: &str = "\
        aced00057793000000000100000002010003635b5d0000000d0000000005000000000200000003010001620000000101\
        1100000001100000000100016210000000010001620c000000040000000001000b74776f20776f7264732e6200000003\
        010c0000000400000000010005642e612e6300000003011100000001100000000100016210000000010001620c000000\
        040000000000000000";

/// The bytes that the class of the Spark connector writes for a filter.
const PUSH_DOWN: &str = "\
        0a0b432069734e6f744e756c6c1a0c0a0012036b65791a034b45591a090a01661201611a01411a090a01661201621a01\
        421a090a01671201611a014322366f72672e6170616368652e6861646f6f702e68626173652e737061726b2e64617461\
        736f75726365732e4e61697665456e636f646572";

fn zookeeper() -> Vec<Vec<u8>> {
    let text = |value: &str| framed(value.as_bytes());
    let request =
        |operation: i32, body: &[u8]| [&1i32.to_be_bytes()[..], &operation.to_be_bytes(), body].concat();
    let path = [&text("/hbase/master")[..], &[1]].concat();
    let mut hello = vec![0; 12];
    hello.extend_from_slice(&30_000i32.to_be_bytes());
    hello.extend_from_slice(&[0; 8]);
    hello.extend_from_slice(&framed(&[0; 16]));
    hello.push(0);
    let mut all = vec![hello];
    all.extend([3, 4, 6, 8, 9, 12, 17, 18, 103, 104].map(|operation| request(operation, &path)));
    let part = [&4i32.to_be_bytes()[..], &[0], &(-1i32).to_be_bytes(), &path].concat();
    let parts = [&part.repeat(3)[..], &(-1i32).to_be_bytes(), &[1], &(-1i32).to_be_bytes()].concat();
    all.push(request(22, &parts));
    let mut watches = 0i64.to_be_bytes().to_vec();
    for _ in 0..3 {
        watches.extend_from_slice(&1i32.to_be_bytes());
        watches.extend_from_slice(&text("/hbase/rs"));
    }
    all.push(request(101, &watches));
    all.push(request(100, &[&[0; 4][..], &text("digest"), &framed(b"user:password")].concat()));
    all
}

/// Returns a log file of HBase with three entries; a compressed one repeats words of its dictionary.
fn hbase_log(is_compressed: bool) -> Vec<u8> {
    let header = pb::WalHeader { has_compression: Some(is_compressed), ..pb::WalHeader::default() };
    let mut file = [&b"PWAL"[..], &header.encode_length_delimited_to_vec()].concat();
    for number in 0..3u8 {
        let word = |text: &[u8]| match (is_compressed, number) {
            (false, _) => text.to_vec(),
            (true, 0) => [&[0xff, text.len() as u8], text].concat(),
            (true, _) => vec![0, 0],
        };
        let key = pb::WalKey {
            encoded_region_name: word(b"1588230740").into(),
            table_name: word(b"hbase:meta").into(),
            log_sequence_number: u64::from(number),
            write_time: 1,
            following_kv_count: Some(1),
            ..pb::WalKey::default()
        };
        file.extend(key.encode_length_delimited_to_vec());
        let stamp_and_type = [0, 0, 0, 0, 0, 0, 0, 9, 4];
        if is_compressed {
            file.extend([15, 1, 0]);
            file.extend([word(b"r"), word(b"f"), word(b"q")].concat());
            file.extend(stamp_and_type);
        } else {
            file.extend([0, 0, 0, 24, 0, 0, 0, 15, 0, 0, 0, 1, 0, 1, b'r', 1, b'f', b'q']);
            file.extend(stamp_and_type);
        }
        file.push(b'v');
    }
    file
}

/// Returns a log of two regions, with three batches and an end record.
fn log() -> Vec<u8> {
    let (files, folder) = (Memory::new(), FileName::new("WALs"));
    let (log, _) = Log::open(env::World::real(), Arc::new(files.clone()), folder.clone(), Options::default())
        .expect("new");
    for sequence in 1..=3 {
        for region in [&b"1588230740"[..], b"0123456789abcdef"] {
            let cells = cells(b"");
            let record = Record {
                kind: Kind::Edit,
                region,
                table: b"ns:table",
                sequence: SequenceId(sequence),
                time: WallTime(5),
                nonce: Some((1, sequence)),
                cells: &cells,
            };
            let ticket = log.append(&record).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("alive");
        }
    }
    log.close().expect("alive");
    files.read(&folder.join("00000000000000000001.wal"), 1 << 20).expect("it is there")
}
