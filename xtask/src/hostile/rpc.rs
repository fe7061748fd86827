//! Attacks on the ports that speak HBase's RPC.

use super::wire::{
    Answer, GZIP, KEY_VALUE_CODEC, LZ4, Message, PREAMBLE, Peer, SNAPPY, framed, get, header, named, request,
    request_header, varint,
};
use super::{Attack, Scene};
use crate::Outcome;
use crate::random::Random;

const CLIENT: &str = "ClientService";
/// A frame length in bytes that exceeds what a server accepts.
const HUGE: usize = 300 << 20;
/// Frame lengths that are always invalid.
const ABSURD: [u32; 5] = [u32::MAX, 0x8000_0000, i32::MAX as u32, 0x4000_0000, (256 << 20) + 1];

const NOT_SERVING: &str = "org.apache.hadoop.hbase.NotServingRegionException";
const FATAL: &str = "org.apache.hadoop.hbase.ipc.FatalConnectionException";
const NO_RETRY: &str = "org.apache.hadoop.hbase.DoNotRetryIOException";
const TOO_BIG: &str = "org.apache.hadoop.hbase.exceptions.RequestTooBigException";

pub(super) fn attacks() -> Vec<Attack> {
    vec![
        Attack { name: "garbage instead of a preamble", megabytes: 16, act: garbage },
        Attack { name: "other protocols' first words", megabytes: 16, act: other_protocols },
        Attack { name: "preambles that are nearly right", megabytes: 16, act: preambles },
        Attack { name: "a handshake and a call cut at every byte", megabytes: 16, act: cut },
        Attack { name: "a handshake and a call with every byte changed", megabytes: 32, act: bent },
        Attack { name: "invalid lengths of connection headers", megabytes: 16, act: absurd_headers },
        Attack { name: "invalid lengths of frames", megabytes: 16, act: absurd_frames },
        Attack { name: "invalid lengths inside frames", megabytes: 16, act: absurd_insides },
        Attack { name: "unknown services, codecs, compressors", megabytes: 16, act: unknown_names },
        Attack {
            name: "every method with parameters that are no valid message",
            megabytes: 128,
            act: bad_parameters,
        },
        Attack { name: "a frame that claims 300 MB", megabytes: 16, act: huge_claimed },
        Attack { name: "a frame of 300 MB", megabytes: 64, act: huge_sent },
        Attack { name: "very many attributes in connection headers", megabytes: 64, act: attribute_flood },
        // The second of these is a list of 100,000 filters. Each takes some hundred bytes as a message, and the same
        // again as a filter.
        Attack { name: "filters nested too deep, and too many", megabytes: 256, act: deep_filters },
        Attack { name: "batches of millions of tiny actions", megabytes: 768, act: tiny_actions },
        Attack { name: "groups nested too deep", megabytes: 128, act: deep_groups },
        Attack { name: "patterns that backtrack exponentially", megabytes: 256, act: patterns },
        Attack { name: "cell blocks that unpack to 300 MB", megabytes: 1024, act: bombs },
        Attack { name: "eight such cell blocks at once", megabytes: 1536, act: bombs_at_once },
        Attack { name: "cell blocks that are not compressed bytes", megabytes: 32, act: bad_blocks },
        Attack { name: "calls whose answers are never read", megabytes: 128, act: unread },
        Attack { name: "scans of 48 MB whose answers are never read", megabytes: 512, act: unread_scans },
    ]
}

fn expect(what: &str, answer: &Answer, call: i32, class: &str) -> Outcome {
    match answer {
        Answer::Bad(id, found, _) if *id == call && found == class => Ok(()),
        other => Err(format!("{what}: expected {class} for call {call}, got {other:?}")),
    }
}

/// Expects that the connection is refused with an exception of this class, and closed.
fn expect_end(what: &str, peer: &mut Peer, call: i32, class: &str) -> Outcome {
    expect(what, &peer.answer()?, call, class)?;
    match peer.answer()? {
        Answer::Closed => Ok(()),
        other => Err(format!("{what}: expected the end, got {other:?}")),
    }
}

/// Checks that a call on this connection still succeeds.
fn expect_alive(what: &str, peer: &mut Peer) -> Outcome {
    peer.tell(&request(4_711, "Get", &get(None), b""));
    match peer.answer()? {
        Answer::Good(4_711) => Ok(()),
        other => Err(format!("{what}: the connection is of no use afterwards: {other:?}")),
    }
}

/// Returns random bytes; some begin like a valid request.
fn noise(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
    match random.below(4) {
        0 => bytes.splice(0..0, PREAMBLE.iter().copied()).for_each(drop),
        1 => {
            let mut opened = PREAMBLE.to_vec();
            opened.extend_from_slice(&header(CLIENT, KEY_VALUE_CODEC, ""));
            bytes.splice(0..0, opened).for_each(drop);
        }
        _ => {}
    }
    bytes
}

fn garbage(scene: &Scene<'_>) -> Outcome {
    for round in 0..60 {
        let length = scene.below(1 << (4 + round % 14)) as usize;
        let bytes = noise(&mut scene.random.borrow_mut(), length);
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&bytes);
        peer.finish();
        peer.rest().map_err(|why| format!("{} bytes of noise: {why}", bytes.len()))?;
    }
    Ok(())
}

fn other_protocols(scene: &Scene<'_>) -> Outcome {
    let words: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x00\x00\x2d\x00\x00\x00\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for word in words {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(word);
        expect_end(&word.escape_ascii().to_string(), &mut peer, -1, FATAL)?;
    }
    Ok(())
}

fn preambles(scene: &Scene<'_>) -> Outcome {
    for (preamble, class) in [
        (b"HBas\x01\x50", "org.apache.hadoop.hbase.ipc.WrongVersionException"),
        (b"HBas\xff\x50", "org.apache.hadoop.hbase.ipc.WrongVersionException"),
        (b"HBas\x00\x00", "org.apache.hadoop.hbase.ipc.BadAuthException"),
        (b"HBas\x00\xff", "org.apache.hadoop.hbase.ipc.BadAuthException"),
        (b"HBax\x00\x50", FATAL),
        (b"RegisX", FATAL),
    ] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(preamble);
        expect_end(&preamble.escape_ascii().to_string(), &mut peer, -1, class)?;
    }
    // The request is repeated until the server stops reading. The server answers each with a frame, and nobody reads
    // the answers.
    let mut peer = Peer::connect(scene.address)?;
    peer.tell(&b"Securi".repeat(100_000));
    peer.finish();
    peer.rest().map(drop)
}

fn handshake_and_call() -> Vec<u8> {
    let mut bytes = PREAMBLE.to_vec();
    bytes.extend_from_slice(&header(CLIENT, KEY_VALUE_CODEC, GZIP));
    bytes.extend_from_slice(&request(7, "Get", &get(None), &gzip(b"\0\0\0\0")));
    bytes
}

fn cut(scene: &Scene<'_>) -> Outcome {
    let bytes = handshake_and_call();
    for at in 0..bytes.len() {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(&bytes[..at]);
        peer.finish();
        peer.rest().map_err(|why| format!("cut at byte {at} of {}: {why}", bytes.len()))?;
    }
    Ok(())
}

fn bent(scene: &Scene<'_>) -> Outcome {
    let bytes = handshake_and_call();
    for at in 0..bytes.len() {
        for with in [0xff, 0x80, 0x01] {
            let mut bent = bytes.clone();
            bent[at] ^= with;
            let mut peer = Peer::connect(scene.address)?;
            peer.tell(&bent);
            peer.finish();
            peer.rest().map_err(|why| format!("byte {at} bent by {with:#x}: {why}"))?;
        }
    }
    Ok(())
}

fn absurd_headers(scene: &Scene<'_>) -> Outcome {
    for length in ABSURD.into_iter().chain([(1 << 20) + 1]) {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(PREAMBLE);
        peer.tell(&length.to_be_bytes());
        expect_end(&format!("a header of {length} bytes"), &mut peer, -1, FATAL)?;
    }
    for body in [&b""[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x12\xff\xff\xff\xff\x07x"] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(PREAMBLE);
        peer.tell(&framed(body));
        match peer.answer()? {
            Answer::Bad(-1, ..) => {}
            other => return Err(format!("a header of {}: got {other:?}", body.escape_ascii())),
        }
    }
    Ok(())
}

fn absurd_frames(scene: &Scene<'_>) -> Outcome {
    for length in ABSURD {
        // If the request has a header, the exception names its call; otherwise it is an exception of the connection.
        for call in [Some(9), None] {
            let mut peer = Peer::open(scene.address, CLIENT, "")?;
            peer.tell(&length.to_be_bytes());
            match call {
                Some(call) => peer.tell(&request_header(call, "Get", None).delimited()),
                None => peer.tell(&[0xff; 11]),
            };
            let call = call.map_or(-1, |call| call as i32);
            expect(&format!("a frame of {length} bytes"), &peer.answer()?, call, TOO_BIG)?;
        }
    }
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    peer.tell(&0u32.to_be_bytes());
    expect_end("a frame of no bytes", &mut peer, -1, FATAL)
}

fn absurd_insides(scene: &Scene<'_>) -> Outcome {
    for length in [u64::MAX, 1 << 63, u64::from(u32::MAX), i32::MAX as u64, 1_000] {
        // The length of the request header. As in HBase, only its low 32 bits count. If they are negative, the
        // connection ends. Any other length leaves an empty header, which cannot be answered.
        let mut body = Vec::new();
        varint(&mut body, length);
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        peer.tell(&framed(&body));
        let what = format!("a request header of {length} bytes");
        if (length as i32) < 0 {
            expect_end(&what, &mut peer, -1, FATAL)?;
        } else {
            expect(&what, &peer.answer()?, 0, NO_RETRY)?;
        }
        // The lengths of the parameter and of the cell block are wrong. The call fails, and the connection stays open.
        let mut body = request_header(5, "Get", None).delimited();
        varint(&mut body, length);
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        peer.tell(&framed(&body));
        // A negative length is refused. Any other leaves an empty Get, which fails because it names no region.
        let class = if (length as i32) < 0 { NO_RETRY } else { NOT_SERVING };
        expect(&format!("a parameter of {length} bytes"), &peer.answer()?, 5, class)?;
        expect_alive("a parameter of no length", &mut peer)?;
        let mut body = request_header(6, "Get", Some(length)).delimited();
        body.push(0);
        peer.tell(&framed(&body));
        let answer = peer.answer()?;
        // On the wire a length has 32 bits. A longer one is cut to these, which may be 0.
        if length as u32 != 0 {
            expect(&format!("a cell block of {length} bytes"), &answer, 6, NO_RETRY)?;
        }
        expect_alive("a cell block of no length", &mut peer)?;
    }
    Ok(())
}

fn unknown_names(scene: &Scene<'_>) -> Outcome {
    let long = "x".repeat(100_000);
    for (service, codec, compressor, class) in [
        ("NoService", "", "", "org.apache.hadoop.hbase.ipc.UnknownServiceException"),
        (&*long, "", "", "org.apache.hadoop.hbase.ipc.UnknownServiceException"),
        ("", "", "", "org.apache.hadoop.hbase.ipc.EmptyServiceNameException"),
        (CLIENT, "java.lang.Runtime", "", "org.apache.hadoop.hbase.ipc.UnsupportedCellCodecException"),
        (
            CLIENT,
            KEY_VALUE_CODEC,
            "java.lang.Runtime",
            "org.apache.hadoop.hbase.ipc.UnsupportedCompressionCodecException",
        ),
    ] {
        let mut peer = Peer::connect(scene.address)?;
        peer.tell(PREAMBLE);
        peer.tell(&header(service, codec, compressor));
        expect_end(&format!("{service:.20} {codec} {compressor}"), &mut peer, -1, class)?;
    }
    for service in [CLIENT, "AdminService", "MasterService", "ClientMetaService"] {
        let mut peer = Peer::open(scene.address, service, "")?;
        for method in ["NoMethod", "", "get", &long] {
            peer.tell(&request(3, method, b"", b""));
            expect(&format!("{service} {method:.20}"), &peer.answer()?, 3, NO_RETRY)?;
        }
    }
    // The request has a header and no parameter.
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    let bare = Message::default().number(1, 8).bytes(3, b"Get");
    peer.tell(&framed(&bare.delimited()));
    expect("a call without a parameter", &peer.answer()?, 8, NO_RETRY)?;
    expect_alive("a call without a parameter", &mut peer)
}

fn bad_parameters(scene: &Scene<'_>) -> Outcome {
    for (service, method) in scene.methods {
        let mut peer = Peer::open(scene.address, service, "")?;
        for round in 0..24u64 {
            let mut random = scene.random.borrow_mut();
            let mut bytes = match round % 4 {
                0 => get(None),
                1 => framed(&get(None)),
                2 => Message::default().bytes(1, &[0xff; 40]).number(2, u64::MAX).bytes(3, b"t").0,
                _ => (0..random.below(200)).map(|_| random.word() as u8).collect(),
            };
            if round >= 4 && !bytes.is_empty() {
                for _ in 0..=random.below(3) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.word() as u8;
                }
                bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
            }
            drop(random);
            peer.tell(&request(round + 1, method, &bytes, b""));
            match peer.answer() {
                Ok(Answer::Good(_) | Answer::Bad(..)) => {}
                Ok(Answer::Closed) => {
                    return Err(format!(
                        "{service} {method} closed the connection: {}",
                        bytes.escape_ascii()
                    ));
                }
                Err(why) => return Err(format!("{service} {method}: {why}: {}", bytes.escape_ascii())),
            }
        }
    }
    Ok(())
}

fn huge_claimed(scene: &Scene<'_>) -> Outcome {
    let mut peers = Vec::new();
    for _ in 0..50 {
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        peer.tell(&(HUGE as u32).to_be_bytes());
        peer.tell(&request_header(9, "Multi", None).delimited());
        expect("300 MB claimed", &peer.answer()?, 9, TOO_BIG)?;
        peers.push(peer);
    }
    // The frame states the maximum length, but only a few bytes of it are sent.
    for _ in 0..200 {
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        peer.tell(&(256u32 << 20).to_be_bytes());
        peer.tell(&request_header(9, "Multi", None).delimited());
        peers.push(peer);
    }
    scene.alive("250 connections that claim 256 MB and more each")
}

fn huge_sent(scene: &Scene<'_>) -> Outcome {
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    peer.tell(&(HUGE as u32).to_be_bytes());
    let head = request_header(9, "Multi", None).delimited();
    peer.tell(&head);
    let megabyte = vec![0x5a; 1 << 20];
    let mut left = HUGE - head.len();
    while left > 0 && peer.tell(&megabyte[..left.min(megabyte.len())]) {
        left -= left.min(megabyte.len());
    }
    if left > 0 {
        return Err(format!("the server hung up {left} bytes before the end"));
    }
    // A client that sends the whole frame before it reads gets the answer, too.
    expect_end("300 MB sent", &mut peer, 9, TOO_BIG)
}

fn attribute_flood(scene: &Scene<'_>) -> Outcome {
    let attribute = Message::default().bytes(1, b"k").bytes(2, b"v").0;
    // A connection header just below its limit.
    let mut flood = Message::default().bytes(2, CLIENT.as_bytes());
    while flood.0.len() < (1 << 20) - 100 {
        flood = flood.bytes(7, &attribute);
    }
    let mut peer = Peer::connect(scene.address)?;
    peer.tell(PREAMBLE);
    peer.tell(&framed(&flood.0));
    expect_end("a connection header of 150,000 attributes", &mut peer, -1, FATAL)?;
    // The same in request headers, which are limited only by the length of the frame.
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    let mut flood = request_header(3, "Get", None);
    while flood.0.len() < 4 << 20 {
        flood = flood.bytes(8, &attribute);
    }
    let mut body = flood.delimited();
    body.extend_from_slice(&Message(get(None)).delimited());
    peer.tell(&framed(&body));
    expect_end("a call of 500,000 attributes", &mut peer, -1, FATAL)
}

fn deep_filters(scene: &Scene<'_>) -> Outcome {
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    for (class, field) in
        [("SkipFilter", 1), ("WhileMatchFilter", 1), ("FilterWrapper", 1), ("FilterList", 2)]
    {
        for depth in [100, 1_000, 5_000] {
            let mut filter = named("filter", "FirstKeyOnlyFilter", b"");
            for _ in 0..depth {
                let mut message = Message::default();
                if class == "FilterList" {
                    message = message.number(1, 1);
                }
                filter = named("filter", class, &message.bytes(field, &filter).0);
            }
            peer.tell(&request(5, "Get", &get(Some(&filter)), b""));
            expect(&format!("{depth} times {class}"), &peer.answer()?, 5, NO_RETRY)?;
        }
    }
    // One list with as many filters as fit into a frame.
    let one = named("filter", "FirstKeyOnlyFilter", b"");
    let mut wide = Message::default().number(1, 1);
    for _ in 0..100_000 {
        wide = wide.bytes(2, &one);
    }
    peer.tell(&request(6, "Get", &get(Some(&named("filter", "FilterList", &wide.0))), b""));
    match peer.answer()? {
        Answer::Good(6) | Answer::Bad(6, ..) => expect_alive("a list of 100,000 filters", &mut peer),
        other => Err(format!("a list of 100,000 filters: {other:?}")),
    }
}

fn tiny_actions(scene: &Scene<'_>) -> Outcome {
    // Actions that ask for nothing; gets of which no two in a row are alike; and actions that only the plain decoder
    // reads, because an empty group comes after them.
    let gets = b"\x1a\x05\x1a\x03\x0a\x01a\x1a\x07\x1a\x05\x0a\x01a\x30\x02";
    let requests = [
        ("empty actions", b"\x1a\x00".repeat(7_000_000)),
        ("gets that differ", gets.repeat(900_000)),
        ("empty actions before a group", [b"\x1a\x00".repeat(7_000_000), vec![0x7b, 0x7c]].concat()),
    ];
    let region = Message::default().number(1, 1).bytes(2, b"t");
    for (what, actions) in requests {
        let mut action = Message::default().bytes(1, &region.0);
        action.0.extend_from_slice(&actions);
        let multi = Message::default().bytes(1, &action.0);
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        peer.tell(&request(5, "Multi", &multi.0, b""));
        expect(what, &peer.answer()?, 5, NO_RETRY)?;
        expect_alive(what, &mut peer)?;
    }
    Ok(())
}

fn deep_groups(scene: &Scene<'_>) -> Outcome {
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    // Field 15 opens a group inside a group, and so on. A reader that recurses for each would overflow its stack.
    for depth in [101, 10_000, 8_000_000] {
        let groups = vec![15 << 3 | 3; depth];
        peer.tell(&request(5, "Get", &groups, b""));
        expect(&format!("{depth} groups in a parameter"), &peer.answer()?, 5, NO_RETRY)?;
    }
    // Messages inside messages, as in the services of endpoints.
    let mut nested = Message::default().bytes(1, b"x").0;
    for _ in 0..2_000 {
        nested = Message::default().bytes(1, &nested).bytes(2, &[]).0;
    }
    for method in ["Get", "Multi", "Scan", "Mutate", "ExecService"] {
        peer.tell(&request(6, method, &nested, b""));
        match peer.answer()? {
            Answer::Good(6) | Answer::Bad(6, ..) => {}
            other => return Err(format!("{method} of 2,000 messages in one another: {other:?}")),
        }
    }
    expect_alive("messages in messages", &mut peer)
}

fn patterns(scene: &Scene<'_>) -> Outcome {
    let mut peer = Peer::open(scene.address, CLIENT, "")?;
    let mut nested = "a".to_owned();
    for _ in 0..2_000 {
        nested = format!("({nested})*");
    }
    let texts = [
        "(((a{1000}){1000}){1000}){1000}".to_owned(),
        "(?:(?=a){4000000000})".to_owned(),
        r"\p{L}{1000}{1000}".repeat(50),
        format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000)),
        "(?i)".repeat(10_000),
        "[".repeat(10_000),
        "(a+)+$".to_owned(),
        nested,
        "a|".repeat(500_000),
    ];
    for text in &texts {
        let comparator = Message::default().bytes(1, text.as_bytes()).number(2, 0).bytes(3, b"UTF-8").0;
        let comparator = named("filter", "RegexStringComparator", &comparator);
        let compare = Message::default().number(1, 2).bytes(2, &comparator).0;
        let filter = named("filter", "RowFilter", &Message::default().bytes(1, &compare).0);
        peer.tell(&request(5, "Get", &get(Some(&filter)), b""));
        match peer.answer()? {
            Answer::Good(5) | Answer::Bad(5, ..) => {}
            other => return Err(format!("{text:.40}: {other:?}")),
        }
    }
    expect_alive("patterns", &mut peer)
}

/// Returns a gzip stream whose bytes are stored without compression.
fn gzip(raw: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    out.extend_from_slice(&(raw.len() as u16).to_le_bytes());
    out.extend_from_slice(&(!(raw.len() as u16)).to_le_bytes());
    out.extend_from_slice(raw);
    let mut crc = !0u32;
    for byte in raw {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    out.extend_from_slice(&(!crc).to_le_bytes());
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    out
}

/// Returns a gzip stream of zeros that unpacks to at least `length` bytes: one literal, then copies of 258 bytes in 13
/// bits.
fn gzip_bomb(length: usize) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff], 0u64, 0);
    let mut put = |out: &mut Vec<u8>, value: u64, width: u32| {
        bits |= value << count;
        count += width;
        while count >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            count -= 8;
        }
    };
    // The last block uses fixed codes, whose bits are written from the highest to the lowest.
    put(&mut out, 0b011, 3);
    put(&mut out, 0b0000_1100, 8);
    for _ in 0..=length / 258 {
        put(&mut out, 0b1010_0011, 8);
        put(&mut out, 0, 5);
    }
    out
}

/// Returns one Hadoop block that claims `length` bytes and has one LZ4 chunk of zeros.
fn lz4_bomb(length: usize) -> Vec<u8> {
    let mut chunk = vec![0x1f, 0, 1, 0];
    chunk.resize(4 + (length - 20) / 255, 0xff);
    chunk.extend_from_slice(&[0, 0x50, 0, 0, 0, 0, 0]);
    [&(length as u32).to_be_bytes()[..], &framed(&chunk)].concat()
}

/// Returns the same block in Snappy: a literal, then copies of 64 bytes in three.
fn snappy_bomb(length: usize) -> Vec<u8> {
    let mut chunk = Vec::new();
    varint(&mut chunk, length as u64);
    chunk.extend_from_slice(&[0, 0]);
    for _ in 0..length / 64 {
        chunk.extend_from_slice(&[63 << 2 | 2, 1, 0]);
    }
    [&(length as u32).to_be_bytes()[..], &framed(&chunk)].concat()
}

fn bombs(scene: &Scene<'_>) -> Outcome {
    for (compressor, bomb) in [(GZIP, gzip_bomb(HUGE)), (LZ4, lz4_bomb(HUGE)), (SNAPPY, snappy_bomb(HUGE))] {
        let mut peer = Peer::open(scene.address, CLIENT, compressor)?;
        for method in ["Get", "Multi"] {
            peer.tell(&request(5, method, &get(None), &bomb));
            expect(&format!("{compressor}, {} bytes", bomb.len()), &peer.answer()?, 5, NO_RETRY)?;
        }
        expect_alive(compressor, &mut peer)?;
    }
    // A gzip stream may have several members; this one has very many empty ones.
    let mut peer = Peer::open(scene.address, CLIENT, GZIP)?;
    peer.tell(&request(5, "Get", &get(None), &gzip(b"").repeat(200_000)));
    match peer.answer()? {
        Answer::Good(5) | Answer::Bad(5, ..) => expect_alive("200,000 empty members", &mut peer),
        other => Err(format!("200,000 empty members: {other:?}")),
    }
}

fn bombs_at_once(scene: &Scene<'_>) -> Outcome {
    // The unpacked block is just small enough for the limit.
    let bomb = gzip_bomb(250 << 20);
    let mut peers = Vec::new();
    for _ in 0..8 {
        let mut peer = Peer::open(scene.address, CLIENT, GZIP)?;
        peer.tell(&request(5, "Multi", &get(None), &bomb));
        peers.push(peer);
    }
    for mut peer in peers {
        match peer.answer()? {
            Answer::Good(5) | Answer::Bad(5, ..) => {}
            other => return Err(format!("one of eight: {other:?}")),
        }
    }
    Ok(())
}

fn bad_blocks(scene: &Scene<'_>) -> Outcome {
    for compressor in [GZIP, SNAPPY, LZ4] {
        let mut peer = Peer::open(scene.address, CLIENT, compressor)?;
        for round in 0..200 {
            let length = 1 + scene.below(200) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| scene.below(256) as u8).collect();
            match round % 3 {
                0 => bytes.splice(0..0, [0, 0, 1, 0, 0, 0, 0, length as u8]).for_each(drop),
                1 => bytes.splice(0..0, [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]).for_each(drop),
                _ => {}
            }
            peer.tell(&request(5, "Get", &get(None), &bytes));
            match peer.answer()? {
                Answer::Good(5) | Answer::Bad(5, ..) => {}
                other => return Err(format!("{compressor} of {}: {other:?}", bytes.escape_ascii())),
            }
        }
        expect_alive(compressor, &mut peer)?;
    }
    Ok(())
}

fn unread(scene: &Scene<'_>) -> Outcome {
    let calls = request(5, "Get", &get(None), b"").repeat(2_000);
    let mut peers = Vec::new();
    for _ in 0..20 {
        let peer = Peer::open(scene.address, CLIENT, "")?;
        peer.0
            .set_write_timeout(Some(std::time::Duration::from_millis(200)))
            .map_err(|error| format!("a socket: {error}"))?;
        peers.push(peer);
    }
    // The server stops reading from a client that does not read its answers. So at some point sending must fail.
    for peer in &mut peers {
        for _ in 0..50 {
            if !peer.tell(&calls) {
                break;
            }
        }
    }
    scene.alive("20 connections that read no answer")
}

/// Opens scans 48 times for 48 MB each, without a limit of rows or bytes, and reads no answer. A third of the answers
/// alone would be 768 MB.
fn unread_scans(scene: &Scene<'_>) -> Outcome {
    let answer = scene.pulse.borrow_mut().ask("fill 48")?;
    let region = answer.strip_prefix("region ").ok_or(&answer)?;
    let region = Message::default().number(1, 1).bytes(2, region.as_bytes()).0;
    let scan = Message::default().number(10, 1 << 40).0;
    let scan = Message::default().bytes(1, &region).bytes(2, &scan).number(4, i32::MAX as u64).0;
    let mut peers = Vec::new();
    for _ in 0..16 {
        let mut peer = Peer::open(scene.address, CLIENT, "")?;
        for call in 1..=3 {
            peer.tell(&request(call, "Scan", &scan, b""));
        }
        peers.push(peer);
    }
    for peer in &peers {
        // The first answer has arrived at the client, which does not read it.
        match peer.0.peek(&mut [0]) {
            Ok(1) => {}
            other => return Err(format!("a scan was not answered: {other:?}")),
        }
    }
    scene.alive("16 connections that read none of 48 MB")
}
