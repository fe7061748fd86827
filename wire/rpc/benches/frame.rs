//! Measures what the protocol costs, without sockets: `cargo bench -p rpc`.
//!
//! The planned costs are 10 ns to find a request's frame by its length and to read three fields of its header in place,
//! and 10 ns for a slice of its parameter, which takes two reference counts. Writing a reply (a header of four bytes,
//! the result's message and cells) takes 30 ns, and copying a kilobyte 20 ns.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use micro::Sheet;
use prost::Message;
use proto::pb;
use rpc::{Answer, Answers, Call, Options, Output, Reply, Service, Services, Session, Step};

struct Silent;

impl Service for Silent {
    fn call(&self, _: Call) -> Answer {
        Answer::Now(Ok(Reply::default()))
    }
}

fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let length: usize = messages.iter().map(|message| message.len()).sum();
    let mut frame = (length as u32).to_be_bytes().to_vec();
    messages.iter().for_each(|message| frame.extend_from_slice(message));
    frame
}

fn hello() -> Vec<u8> {
    let header = pb::ConnectionHeader {
        service_name: Some("ClientService".to_owned()),
        cell_block_codec_class: Some("org.apache.hadoop.hbase.codec.KeyValueCodec".to_owned()),
        ..pb::ConnectionHeader::default()
    };
    [b"HBas\x00\x50".to_vec(), framed(&[&header.encode_to_vec()])].concat()
}

fn get(call_id: u32) -> Vec<u8> {
    let header = pb::RequestHeader {
        call_id: Some(call_id),
        method_name: Some("Get".to_owned()),
        request_param: Some(true),
        timeout: Some(60_000),
        ..pb::RequestHeader::default()
    };
    let column =
        pb::Column { family: Bytes::from_static(b"info0"), qualifier: vec![Bytes::from_static(b"0")] };
    let region = pb::RegionSpecifier {
        r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
        value: Bytes::from_static(b"TestTable,,1700000000000.0123456789abcdef0123456789abcdef."),
    };
    let get = pb::Get {
        row: Bytes::from_static(b"00000000000000000000012345"),
        column: vec![column],
        ..pb::Get::default()
    };
    let request = pb::GetRequest { region, get };
    framed(&[&header.encode_length_delimited_to_vec(), &request.encode_length_delimited_to_vec()])
}

fn main() {
    let sheet = Sheet::new("frames of gets, 16 in a read");
    let rounds: u64 = if sheet.is_trial() { 10 } else { 2_000 };
    const TOGETHER: u64 = 16;
    let requests: Vec<u8> = (0..TOGETHER as u32).flat_map(get).collect();
    let open = || {
        let services = Services::new().with("ClientService", Arc::new(Silent));
        let mut session = Session::new(
            services,
            Options::default().limits(),
            Answers::new(u64::MAX),
            SocketAddr::from(([127, 0, 0, 1], 1)),
        );
        let mut input = BytesMut::from(&hello()[..]);
        let step = session.next(&mut input, &mut Output::default());
        assert!(matches!(step, Step::Opened), "{step:?}");
        (session, BytesMut::with_capacity(64 << 10), Output::default())
    };
    sheet.time(
        "request, from bytes to a parameter",
        45.0,
        rounds * TOGETHER,
        open,
        |(session, input, output)| {
            for _ in 0..rounds {
                input.extend_from_slice(&requests);
                let mut served = 0;
                while let Step::Request(request) = session.next(input, output) {
                    black_box(request);
                    served += 1;
                }
                assert_eq!(served, TOGETHER);
            }
        },
    );
    let request = get(1);
    sheet.time(
        "request, with its message decoded",
        200.0,
        rounds * TOGETHER,
        open,
        |(session, input, output)| {
            for _ in 0..rounds * TOGETHER {
                input.extend_from_slice(&request);
                let Step::Request(request) = session.next(input, output) else { panic!("a whole frame") };
                let message = pb::GetRequest::decode_length_delimited(&request.param[..]);
                let message = message.or_else(|_| pb::GetRequest::decode(request.param));
                black_box(message.expect("a get"));
            }
        },
    );
    let cells = Bytes::from(vec![7; 1_060]);
    let result = pb::GetResponse {
        result: Some(pb::Result { associated_cell_count: Some(1), ..pb::Result::default() }),
    };
    sheet.time("reply with a cell of 1 KB", 80.0, rounds * TOGETHER, Output::default, |output| {
        for _ in 0..rounds {
            for call_id in 0..TOGETHER as u32 {
                let reply = Reply::with_cells(&result, cells.clone());
                output.put_reply(call_id, reply).expect("within limits");
            }
            black_box(output.take());
        }
    });
}
