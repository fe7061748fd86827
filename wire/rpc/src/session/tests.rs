//! Feeds a session with bytes that clients send, and with bytes that no client should send.

use super::*;
use crate::client::Invocation;
use crate::envelope::{NO_CALL, ResponseHeader, delimited};
use crate::{Answer, Answers, Call, Reply, User};
use env::{WallTime, World};
use prost::Message;
use proto::pb;

struct Echo;

impl Service for Echo {
    fn call(&self, call: Call) -> Answer {
        Answer::Now(Ok(Reply { message: call.param, cells: call.cells, share: None }))
    }
}

const LIMITS: Limits = Limits {
    request_size_max: 64 << 10,
    header_size_max: 4 << 10,
    cells_size_max: 64 << 10,
    timeout_min: Duration::from_millis(20),
};

fn session() -> Session {
    let services = Services::new().with("ClientService", Arc::new(Echo)).with_cluster_id("the-id");
    Session::new(services, LIMITS, Answers::new(u64::MAX), SocketAddr::from(([127, 0, 0, 1], 4711)))
}

fn connection_header(header: &ConnectionHeader) -> Vec<u8> {
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    let mut bytes = (encoded.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&encoded);
    bytes
}

fn plain_header() -> ConnectionHeader {
    ConnectionHeader {
        user: User { effective: Some("alice".to_owned()), real: None },
        service: Some("ClientService".to_owned()),
        codec: Codec::KeyValue.class().to_owned(),
        ..ConnectionHeader::default()
    }
}

fn hello() -> Vec<u8> {
    let mut bytes = b"HBas\x00\x50".to_vec();
    bytes.extend_from_slice(&connection_header(&plain_header()));
    bytes
}

fn request(header: &RequestHeader, param: &[u8], cells: &[u8]) -> Vec<u8> {
    let mut output = Output::default();
    output.put_request(header, &Bytes::copy_from_slice(param), Bytes::copy_from_slice(cells));
    output.take().to_vec()
}

fn header(call_id: u32) -> RequestHeader {
    RequestHeader { call_id, method: Text::from("Get"), has_param: true, ..RequestHeader::default() }
}

/// Returns the output of a session for `bytes`: a line for each step and each frame that it answers. `cuts` are the
/// positions at which the input is cut into pieces.
fn transcript(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let (mut session, mut input, mut output) = (session(), BytesMut::new(), Output::default());
    let mut lines = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&bytes.len()]) {
        input.extend_from_slice(&bytes[from..to]);
        from = to;
        loop {
            let step = session.next(&mut input, &mut output);
            answers(&output.take(), &mut lines);
            match step {
                Step::Starved(wanted) => {
                    assert!(wanted > 0, "starved of nothing");
                    break;
                }
                Step::Opened => {
                    let (info, _) = session.opened().expect("it says so");
                    lines.push(format!("opened {} {:?} {:?}", info.service, info.codec, info.compressor));
                }
                Step::Request(request) => lines.push(format!(
                    "request {} {} param={} cells={}",
                    request.call_id,
                    request.method,
                    request.param.len(),
                    request.cells.len()
                )),
                Step::Ended(ending) => {
                    lines.push(format!("ended {ending:?}"));
                    return lines;
                }
            }
        }
    }
    lines
}

fn answers(bytes: &[u8], lines: &mut Vec<String>) {
    let mut rest = Bytes::copy_from_slice(bytes);
    if rest.starts_with(&[0, 0, 0, 0]) {
        assert_eq!(rest[4..8], (-88i32).to_be_bytes());
        lines.push("switch to simple".to_owned());
        rest.advance(8);
    }
    while !rest.is_empty() {
        let length = rest.get_u32() as usize;
        let frame = rest.split_to(length);
        let header = delimited(&frame, 0).expect("own bytes");
        let to = header.end;
        let header = ResponseHeader::decode(&frame, header).expect("own bytes");
        let id = if header.call_id == NO_CALL { "-".to_owned() } else { header.call_id.to_string() };
        lines.push(match header.exception {
            Some(exception) => {
                let class = exception.class.rsplit('.').next().expect("never empty").to_owned();
                format!("answer {id} {class}: {}", exception.message)
            }
            None => {
                let message = delimited(&frame, to).expect("own bytes");
                format!("answer {id} {}", frame[message].escape_ascii())
            }
        });
    }
}

fn check(bytes: &[u8], expected: &[&str]) {
    let whole = transcript(bytes, &[]);
    let matches = whole.len() == expected.len()
        && whole.iter().zip(expected).all(|(line, expected)| line.contains(expected));
    assert!(matches, "got {whole:#?}\nexpected {expected:#?}");
    // The transcript must not depend on where the input is cut.
    let every: Vec<usize> = (1..bytes.len()).collect();
    assert_eq!(transcript(bytes, &every), whole, "byte by byte");
    for cut in 1..bytes.len().min(400) {
        assert_eq!(transcript(bytes, &[cut]), whole, "cut at {cut}");
    }
}

#[test]
fn a_client_connects_and_calls() {
    let mut bytes = hello();
    bytes.extend(request(&header(0), b"abc", b""));
    bytes.extend(request(&RequestHeader { cells: Some(5), ..header(1) }, b"", b"cells"));
    check(
        &bytes,
        &[
            "opened ClientService KeyValue None",
            "request 0 Get param=3 cells=0",
            "request 1 Get param=0 cells=5",
        ],
    );
}

#[test]
fn preambles_that_ask_for_information_are_answered() {
    check(b"Regist", &["answer - \\n\\x06the-id", "ended Close"]);
    let mut bytes = b"Securi".to_vec();
    bytes.extend(hello());
    check(&bytes, &["answer - SecurityNotEnabledException: security is not enabled", "opened ClientService"]);
}

#[test]
fn invalid_preambles_are_refused() {
    check(
        b"GET / HTTP/1.1\r\n\r\n",
        &["FatalConnectionException: Expected HEADER=HBas but received", "Drain"],
    );
    check(
        b"HBas\x01\x50",
        &["WrongVersionException: serverVersion=0, clientVersion=1, authMethod=80", "Drain"],
    );
    check(b"HBas\x00\x17", &["BadAuthException: serverVersion=0, clientVersion=0, authMethod=23", "Drain"]);
    check(b"Regiment", &["FatalConnectionException: Expected HEADER=HBas but received HEADER=Regi", "Drain"]);
}

#[test]
fn a_sasl_client_is_told_to_continue_without_sasl() {
    for auth in [b'\x51', b'\x52'] {
        let mut bytes = vec![b'H', b'B', b'a', b's', 0, auth];
        bytes.extend_from_slice(&7u32.to_be_bytes());
        bytes.extend_from_slice(b"tokens!");
        bytes.extend(connection_header(&plain_header()));
        check(&bytes, &["switch to simple", "opened ClientService"]);
    }
    check(b"HBas\x00\x51\x7f\xff\xff\xff", &["switch to simple", "ended Close"]);
}

#[test]
fn connection_headers_that_are_refused() {
    let refused = |change: &dyn Fn(&mut ConnectionHeader), expected: &str| {
        let mut header = plain_header();
        change(&mut header);
        let mut bytes = b"HBas\x00\x50".to_vec();
        bytes.extend(connection_header(&header));
        check(&bytes, &[expected, "ended Drain"]);
    };
    refused(&|header| header.service = Some("NoSuch".to_owned()), "answer - UnknownServiceException: NoSuch");
    refused(&|header| header.service = None, "answer - EmptyServiceNameException");
    refused(&|header| header.codec = "x.Codec".to_owned(), "answer - UnsupportedCellCodecException: x.Codec");
    refused(
        &|header| header.compressor = Some("x.Codec".to_owned()),
        "answer - UnsupportedCompressionCodecException: x.Codec",
    );
    let long = "x".repeat(5_000);
    refused(&|header| header.service = Some(long.clone()), "FatalConnectionException: connection header of");
    let mut bytes = b"HBas\x00\x50".to_vec();
    bytes.extend_from_slice(b"\x00\x00\x00\x03\x0f\xff\xff");
    check(&bytes, &["answer - FatalConnectionException: connection header from", "ended Drain"]);
}

#[test]
fn connection_headers_that_are_accepted() {
    let accepted = |change: &dyn Fn(&mut ConnectionHeader), expected: &str| {
        let mut header = plain_header();
        change(&mut header);
        let mut bytes = b"HBas\x00\x50".to_vec();
        bytes.extend(connection_header(&header));
        check(&bytes, &[expected]);
    };
    accepted(&|header| header.codec = String::new(), "opened ClientService None None");
    accepted(&|header| header.user = User::default(), "opened ClientService KeyValue None");
    accepted(
        &|header| header.cipher = Some("AES/CTR/NoPadding".to_owned()),
        "opened ClientService KeyValue None",
    );
    accepted(
        &|header| header.compressor = Some(Compressor::Lz4.class().to_owned()),
        "opened ClientService KeyValue Lz4",
    );
}

#[test]
fn one_bad_request_leaves_the_connection_as_it_is() {
    let mut bytes = hello();
    bytes.extend(request(&RequestHeader { has_param: false, ..header(1) }, b"", b""));
    bytes.extend(request(&RequestHeader { cells: Some(500), ..header(2) }, b"", b"short"));
    let mut cut = request(&header(3), b"", b"");
    cut.truncate(cut.len() - 1);
    let length = (cut.len() - 4) as u32;
    cut[..4].copy_from_slice(&length.to_be_bytes());
    bytes.extend(cut);
    bytes.extend(request(&header(4), b"", b""));
    check(
        &bytes,
        &[
            "opened",
            "answer 1 DoNotRetryIOException: Invalid request header",
            "answer 2 DoNotRetryIOException: unable to read call parameter",
            "answer 3 DoNotRetryIOException: unable to read call parameter",
            "request 4",
        ],
    );
}

/// Builds a request whose header and parameter state the given lengths, whatever their real lengths are.
fn request_stating(header: &RequestHeader, header_length: u64, param: &[u8], param_length: u64) -> Vec<u8> {
    let mut body = Vec::new();
    proto::wire::put_varint(&mut body, header_length);
    header.encode(&mut body);
    proto::wire::put_varint(&mut body, param_length);
    body.extend_from_slice(param);
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Expects what Apache HBase 2.6.4 does with the same frames.
#[test]
fn a_parameter_longer_than_its_frame_is_the_rest_of_the_frame() {
    let stating = |call_id, length| {
        let mut encoded = Vec::new();
        header(call_id).encode(&mut encoded);
        request_stating(&header(call_id), encoded.len() as u64, &[b'p'; 200], length)
    };
    let mut bytes = hello();
    for (call_id, length) in [
        (1, 201),
        (2, 400),
        (3, (1 << 31) - 1),
        // Only the low 32 bits of a length count.
        (4, (1 << 32) + 150),
        (5, 1 << 31),
        (6, u64::MAX),
    ] {
        bytes.extend(stating(call_id, length));
    }
    check(
        &bytes,
        &[
            "opened",
            "request 1 Get param=200 cells=0",
            "request 2 Get param=200",
            "request 3 Get param=200",
            "request 4 Get param=150",
            "answer 5 DoNotRetryIOException: unable to read call parameter",
            "answer 6 DoNotRetryIOException: unable to read call parameter",
        ],
    );
}

#[test]
fn nothing_follows_a_parameter_that_runs_to_the_end_of_its_frame() {
    let mut bytes = hello();
    for (call_id, cells) in [(1, 0), (2, 3)] {
        let header = RequestHeader { cells: Some(cells), ..header(call_id) };
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        bytes.extend(request_stating(&header, encoded.len() as u64, b"paramcel", 9));
    }
    // A header that takes the rest of the frame leaves no parameter.
    let mut encoded = Vec::new();
    header(3).encode(&mut encoded);
    let mut bare = vec![encoded.len() as u8 + 9];
    bare.extend_from_slice(&encoded);
    bytes.extend((bare.len() as u32).to_be_bytes());
    bytes.extend(bare);
    check(
        &bytes,
        &[
            "opened",
            "answer 1 DoNotRetryIOException: unable to read call parameter",
            "answer 2 DoNotRetryIOException: unable to read call parameter",
            "answer 3 DoNotRetryIOException: unable to read call parameter",
        ],
    );
}

#[test]
fn cells_without_a_codec_and_cells_that_do_not_unpack_cost_their_call() {
    let cells = RequestHeader { cells: Some(4), ..header(1) };
    let mut bytes = b"HBas\x00\x50".to_vec();
    bytes.extend(connection_header(&ConnectionHeader { codec: String::new(), ..plain_header() }));
    bytes.extend(request(&cells, b"", b"abcd"));
    check(&bytes, &["opened", "answer 1 DoNotRetryIOException: a cell block from"]);

    let mut bytes = b"HBas\x00\x50".to_vec();
    let compressor = Some(Compressor::Snappy.class().to_owned());
    bytes.extend(connection_header(&ConnectionHeader { compressor, ..plain_header() }));
    bytes.extend(request(&cells, b"", b"abcd"));
    let packed = Compressor::Snappy.compress(vec![b'a'; 5_000].into());
    bytes.extend(request(&RequestHeader { cells: Some(packed.len() as u32), ..header(2) }, b"", &packed));
    check(
        &bytes,
        &[
            "opened",
            "answer 1 DoNotRetryIOException: from 127.0.0.1:4711: cell block",
            "request 2 Get param=0 cells=5000",
        ],
    );
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_call_id() {
    let mut bytes = hello();
    let mut frame = request(&header(5), b"some", b"");
    frame[..4].copy_from_slice(&(300u32 << 20).to_be_bytes());
    bytes.extend(&frame);
    // If the client has stated no version, it may not know the newer class.
    check(
        &bytes,
        &["opened", "answer 5 DoNotRetryIOException: RPC data length of 314572800", "ended Drain(314572800)"],
    );
    let mut bytes = b"HBas\x00\x50".to_vec();
    let version = Some(crate::ClientVersion { text: "2.6.4".to_owned(), major: 2, minor: 6 });
    bytes.extend(connection_header(&ConnectionHeader { version, ..plain_header() }));
    bytes.extend(&frame);
    check(
        &bytes,
        &[
            "opened",
            "answer 5 RequestTooBigException: RPC data length of 314572800",
            "ended Drain(314572800)",
        ],
    );
    let mut bytes = hello();
    bytes.extend_from_slice(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    check(
        &bytes,
        &["opened", "answer - DoNotRetryIOException: RPC data length of 4294967295", "ended Drain"],
    );
}

#[test]
fn a_request_header_that_is_garbage_ends_the_connection() {
    let mut bytes = hello();
    bytes.extend_from_slice(b"\x00\x00\x00\x05\x04garb");
    check(&bytes, &["opened", "answer - FatalConnectionException: request header from", "ended Drain"]);
    let mut bytes = hello();
    bytes.extend_from_slice(b"\x00\x00\x00\x00");
    check(&bytes, &["opened", "answer - FatalConnectionException: request header from", "ended Drain"]);
}

#[test]
fn a_stated_timeout_is_at_least_the_minimum_and_zero_is_none() {
    for (stated, expected) in [
        (None, None),
        (Some(0), None),
        (Some(1), Some(20)),
        (Some(20), Some(20)),
        (Some(60_000), Some(60_000)),
    ] {
        let mut input = BytesMut::from(&hello()[..]);
        input.extend(request(&RequestHeader { timeout: stated, ..header(1) }, b"", b""));
        let (mut session, mut output) = (session(), Output::default());
        assert!(matches!(session.next(&mut input, &mut output), Step::Opened));
        let Step::Request(request) = session.next(&mut input, &mut output) else { panic!("a request") };
        assert_eq!(request.timeout, expected.map(Duration::from_millis), "{stated:?}");
    }
}

/// Feeds random bytes, and valid bytes with random changes, for many seeds. The session must not panic, its output must
/// stay in proportion to its input, and its transcript must not depend on where the input is cut.
#[test]
fn any_bytes_are_handled_without_a_panic() {
    let mut good = hello();
    for id in 0..6 {
        let get = pb::GetRequest::default().encode_to_vec();
        good.extend(request(&RequestHeader { timeout: Some(1_000), ..header(id) }, &get, b""));
        let invocation = Invocation::of("Mutate", &pb::MutateRequest::default());
        good.extend(request(
            &RequestHeader { method: invocation.method, cells: Some(9), ..header(100 + id) },
            &invocation.param,
            b"nine byte",
        ));
    }
    for seed in 0..4_000 {
        let world = World::simulated(seed, WallTime(0));
        let below = |bound: usize| (world.random() % bound.max(1) as u64) as usize;
        let mut bytes = good.clone();
        match seed % 4 {
            0 => bytes = (0..below(300)).map(|_| world.random() as u8).collect(),
            1 => bytes.truncate(below(good.len())),
            2 => {
                for _ in 0..=below(8) {
                    let at = below(bytes.len());
                    bytes[at] = world.random() as u8;
                }
            }
            _ => {
                let (at, length) = (below(bytes.len()), below(40));
                let end = (at + length).min(bytes.len());
                bytes.splice(at..end, (0..below(40)).map(|_| world.random() as u8).collect::<Vec<_>>());
            }
        }
        let whole = transcript(&bytes, &[]);
        let mut cuts: Vec<usize> = (0..4).map(|_| below(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        assert_eq!(transcript(&bytes, &cuts), whole, "seed {seed} cut at {cuts:?}");
        let told: usize = whole.iter().map(String::len).sum();
        assert!(told <= 1_000 + bytes.len() * 100, "seed {seed}: {told} bytes told about {}", bytes.len());
    }
}
