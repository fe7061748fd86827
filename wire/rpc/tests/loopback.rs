//! Tests server and client over real sockets on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use env::sync::Mutex;
use env::{Runtime, World};
use rpc::client::{self, Connection, Error, Invocation};
use rpc::{
    Answer, Call, Codec, Compressor, Exception, Options, Reply, Server, Service, Services, UpcomingRequests,
    class,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// A service that answers in every way that a service can.
struct Sample {
    /// Calls of `Wait` continue when this semaphore has a permit.
    gate: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<Call>>>,
}

impl Service for Sample {
    fn call(&self, call: Call) -> Answer {
        self.seen.lock().push(Call { permit: None, ..call.clone() });
        match &*call.method {
            "Echo" => Answer::Now(Ok(Reply { message: call.param, cells: call.cells, share: None })),
            "Wait" => {
                let gate = Arc::clone(&self.gate);
                Answer::later(async move {
                    gate.acquire().await.expect("never closed").forget();
                    Ok(Reply { message: call.param, ..Reply::default() })
                })
            }
            "Spin" => {
                let world = World::real();
                let began = world.moment();
                while world.moment().since(began) < Duration::from_micros(20) {
                    std::hint::spin_loop();
                }
                Answer::Now(Ok(Reply::default()))
            }
            "Fail" => Exception::not_serving_region("r").into(),
            "Panic" => panic!("on purpose"),
            "PanicLater" => Answer::later(async { panic!("on purpose, later") }),
            "Large" => Answer::Now(Ok(Reply { cells: vec![7; 8 << 20].into(), ..Reply::default() })),
            "Counted" => {
                let reply = Reply { cells: vec![7; 1 << 20].into(), ..Reply::default() };
                let reply = reply.counted_by(call.connection.answers.share());
                Answer::later(async { Ok(reply) })
            }
            "Taken" => {
                let answers = call.connection.answers.clone();
                Answer::later(async move {
                    let taken = answers.taken().to_be_bytes().to_vec();
                    Ok(Reply { message: taken.into(), ..Reply::default() })
                })
            }
            other => Exception::unknown_method("Sample", other).into(),
        }
    }
}

struct Fixture {
    server: Server,
    runtime: Runtime,
    gate: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<Call>>>,
}

impl Fixture {
    fn new(options: Options) -> Fixture {
        let (gate, seen) = (Arc::new(Semaphore::new(0)), Arc::default());
        let service = Arc::new(Sample { gate: Arc::clone(&gate), seen: Arc::clone(&seen) });
        let services = Services::new().with("Sample", service).with_cluster_id("the-cluster");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = Server::bind(World::real(), options, &[address]).expect("loopback");
        assert_ne!(bound.addresses()[0].port(), 0);
        let runtime = Runtime::start("client", 1).expect("a thread");
        Fixture { server: bound.serve(services), runtime, gate, seen }
    }

    fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let _entered = self.runtime.handle().enter();
        self.runtime
            .handle()
            .block_on(async { env::timeout(Duration::from_secs(60), work).await.expect("within a minute") })
    }

    async fn connect(&self) -> Connection {
        Connection::open(self.address(), "Sample", &client::Options::default()).await.expect("connects")
    }
}

fn call(method: &'static str, param: &[u8]) -> Invocation {
    Invocation {
        method: rpc::Text::from_static(method),
        param: Bytes::copy_from_slice(param),
        ..Invocation::default()
    }
}

fn remote(error: Error) -> Exception {
    match error {
        Error::Remote(exception) => exception,
        other => panic!("not from the server: {other}"),
    }
}

#[test]
fn calls_and_cells_go_there_and_back_with_every_compressor() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        for compressor in [Compressor::None, Compressor::Gzip, Compressor::Snappy, Compressor::Lz4] {
            let options =
                client::Options { compressor, codec: Codec::KeyValueWithTags, ..client::Options::default() };
            let connection = Connection::open(fixture.address(), "Sample", &options).await.expect("connects");
            let cells: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
            let invocation = call("Echo", b"hello").with_cells(cells.clone()).with_priority(200);
            let response =
                connection.call(invocation.within(Duration::from_secs(30))).await.expect("answered");
            assert_eq!(&response.message[..], b"hello");
            assert!(response.cells == cells, "{compressor:?}");
        }
    });
    let seen = fixture.seen.lock();
    assert_eq!(seen.len(), 4);
    assert_eq!((seen[0].priority, seen[0].timeout), (Some(200), Some(Duration::from_secs(30))));
    assert_eq!(seen[0].connection.codec, Codec::KeyValueWithTags);
    assert!(seen[0].connection.client_is_at_least(2, 6) && !seen[0].connection.client_is_at_least(3, 0));
}

#[test]
fn answers_come_in_any_order_and_others_go_on_while_one_waits() {
    let fixture = Fixture::new(Options { threads: 1, ..Options::default() });
    fixture.run(async {
        let connection = fixture.connect().await;
        let waiting: Vec<_> = (0..50u8).map(|index| connection.call(call("Wait", &[index]))).collect();
        let other = fixture.connect().await;
        for connection in [&connection, &other] {
            assert_eq!(connection.call(call("Echo", b"x")).await.expect("answered").message, "x");
        }
        assert_eq!(fixture.server.counters().calls_in_flight, 50);
        fixture.gate.add_permits(50);
        for (index, waiting) in waiting.into_iter().enumerate() {
            assert_eq!(waiting.await.expect("answered").message, [index as u8][..], "its own answer");
        }
        let counters = fixture.server.counters();
        assert_eq!((counters.calls_in_flight, counters.calls_in_flight_size), (0, 0));
        assert_eq!((counters.calls, counters.calls_inline), (52, 2));
    });
}

#[test]
fn exceptions_and_panics_cost_their_call_alone() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let connection = fixture.connect().await;
        let failed = remote(connection.call(call("Fail", b"")).await.expect_err("fails"));
        assert_eq!(
            (&*failed.class, &*failed.message, failed.do_not_retry),
            (class::NOT_SERVING_REGION, "r", false)
        );
        let unknown = remote(connection.call(call("NoSuch", b"")).await.expect_err("fails"));
        assert_eq!(unknown.class, class::DO_NOT_RETRY_IO);
        assert!(unknown.message.contains("java.lang.UnsupportedOperationException"), "{unknown}");
        for (method, text) in [("Panic", "on purpose"), ("PanicLater", "on purpose, later")] {
            let panicked = remote(connection.call(call(method, b"")).await.expect_err("fails"));
            assert_eq!((&*panicked.class, panicked.message.contains(text)), (class::IO, true), "{panicked}");
        }
        connection.call(call("Echo", b"")).await.expect("the same connection still works");
        let counters = fixture.server.counters();
        assert_eq!((counters.panics, counters.connections_open), (2, 1));
        assert_eq!(counters.exceptions[class::NOT_SERVING_REGION], 1);
        assert_eq!(counters.exceptions[class::IO], 2);
    });
}

#[test]
fn an_unknown_service_is_refused_and_the_caller_learns_it() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let options = client::Options::default();
        let connection = Connection::open(fixture.address(), "NoSuch", &options).await.expect("connects");
        let refused = remote(connection.call(call("Echo", b"")).await.expect_err("refused"));
        assert_eq!(refused.class, class::UNKNOWN_SERVICE);
        assert!(connection.is_closed());
        let again = remote(connection.call(call("Echo", b"")).await.expect_err("still refused"));
        assert_eq!(again.class, class::UNKNOWN_SERVICE);
    });
}

#[test]
fn the_cluster_id_is_had_without_a_header() {
    let fixture = Fixture::new(Options::default());
    let id = fixture.run(client::cluster_id(fixture.address(), Duration::from_secs(10)));
    assert_eq!(id.expect("answered"), "the-cluster");
}

/// Opens a plain socket that has sent the preamble and the connection header.
async fn raw(fixture: &Fixture) -> env::Stream {
    let mut stream = env::dial(fixture.address()).await.expect("connects");
    // ConnectionHeader{service_name = "Sample"}
    stream.write_all(b"HBas\x00\x50\x00\x00\x00\x08\x12\x06Sample").await.expect("taken");
    stream
}

async fn rest(stream: &mut env::Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("an orderly end");
    bytes
}

#[test]
fn the_refusal_of_300_mb_reaches_a_client_that_writes_them_all_first() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let mut stream = raw(&fixture).await;
        let mut head = (300u32 << 20).to_be_bytes().to_vec();
        // RequestHeader{call_id = 7, method_name = "Echo", request_param = true}
        head.extend_from_slice(b"\x0a\x08\x07\x1a\x04Echo\x20\x01");
        stream.write_all(&head).await.expect("taken");
        let piece = vec![0u8; 1 << 20];
        for _ in 0..300 {
            stream.write_all(&piece).await.expect("the server reads on");
        }
        let answer = rest(&mut stream).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("RPC data length of 314572800"), "{text}");
        assert_eq!(answer[6..8], [0x08, 7], "the call's own id");
    });
    assert_eq!(fixture.server.counters().calls, 0);
}

#[test]
fn invalid_bytes_are_answered_with_an_error_and_the_connection_is_closed() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let mut stream = env::dial(fixture.address()).await.expect("connects");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").await.expect("taken");
        let answer = rest(&mut stream).await;
        assert!(String::from_utf8_lossy(&answer).contains("Expected HEADER=HBas but received HEADER=GET "));
    });
}

#[test]
fn too_many_calls_are_refused_and_the_connection_kept() {
    let fixture = Fixture::new(Options { threads: 1, calls_max: 3, ..Options::default() });
    fixture.run(async {
        let connection = fixture.connect().await;
        let waiting: Vec<_> = (0..3).map(|_| connection.call(call("Wait", b""))).collect();
        let refused = remote(connection.call(call("Echo", b"")).await.expect_err("refused"));
        assert_eq!((&*refused.class, refused.server_overloaded), (class::CALL_QUEUE_TOO_BIG, true));
        fixture.gate.add_permits(3);
        for waiting in waiting {
            waiting.await.expect("answered");
        }
        connection.call(call("Echo", b"")).await.expect("there is room again");
        assert_eq!(fixture.server.counters().calls_refused, 1);
    });
}

#[test]
fn too_many_bytes_of_calls_are_refused_and_the_connection_kept() {
    let options =
        Options { calls_size_max: 100 << 10, request_size_max: 80 << 10, threads: 1, ..Options::default() };
    let fixture = Fixture::new(options);
    fixture.run(async {
        let connection = fixture.connect().await;
        let waiting = connection.call(call("Wait", &[0; 60 << 10]));
        let refused = remote(connection.call(call("Echo", &[0; 60 << 10])).await.expect_err("refused"));
        assert_eq!(refused.class, class::CALL_QUEUE_TOO_BIG);
        fixture.gate.add_permits(1);
        waiting.await.expect("answered");
        connection.call(call("Echo", &[0; 60 << 10])).await.expect("there is room again");
    });
}

#[test]
fn too_many_connections_are_closed() {
    let fixture = Fixture::new(Options { connections_max: 1, ..Options::default() });
    fixture.run(async {
        let first = fixture.connect().await;
        first.call(call("Echo", b"")).await.expect("answered");
        let second = fixture.connect().await;
        second.call(call("Echo", b"")).await.expect_err("closed");
        first.call(call("Echo", b"")).await.expect("the first is not concerned");
        assert_eq!(fixture.server.counters().connections_refused, 1);
    });
}

#[test]
fn clients_that_stop_sending_are_disconnected() {
    let short = Duration::from_millis(50);
    let fixture = Fixture::new(Options {
        handshake_max: short,
        read_stall_max: short,
        idle_max: short * 2,
        idle_threshold: usize::MAX,
        ..Options::default()
    });
    fixture.run(async {
        let mut silent = env::dial(fixture.address()).await.expect("connects");
        assert_eq!(silent.read(&mut [0; 1]).await.expect("an orderly end"), 0, "in the handshake");
        let mut half = raw(&fixture).await;
        half.write_all(b"\x00\x00\x10\x00half a req").await.expect("taken");
        // The server closes the connection with unread bytes, so the client may see a reset.
        let ended = half.read(&mut [0; 1]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "in the middle of a request");
        assert_eq!(fixture.server.counters().connections_expired, 2);
    });
}

#[test]
fn a_client_that_sends_a_request_byte_by_byte_is_disconnected() {
    let short = Duration::from_millis(50);
    let fixture =
        Fixture::new(Options { read_stall_max: short * 4, idle_threshold: usize::MAX, ..Options::default() });
    fixture.run(async {
        let mut slow = raw(&fixture).await;
        slow.write_all(b"\x00\x00\x10\x00").await.expect("taken");
        let mut bytes = 0;
        // The server closes the connection with unread bytes, so the client may see a reset.
        while slow.write_all(b"x").await.is_ok() && bytes < 200 {
            bytes += 1;
            env::sleep(short).await;
        }
        assert!(bytes < 200, "{bytes} bytes were taken, one after the other");
        assert_eq!(fixture.server.counters().connections_expired, 1);
    });
}

#[test]
fn idle_connections_go_when_there_are_many() {
    let fixture = Fixture::new(Options {
        idle_max: Duration::from_millis(30),
        idle_threshold: 1,
        ..Options::default()
    });
    fixture.run(async {
        let (mut first, mut second) = (raw(&fixture).await, raw(&fixture).await);
        let (mut a, mut b) = ([0; 1], [0; 1]);
        // One connection more than the threshold is open, so exactly one of the two is closed.
        tokio::select! {
            ended = first.read(&mut a) => assert_eq!(ended.expect("an orderly end"), 0),
            ended = second.read(&mut b) => assert_eq!(ended.expect("an orderly end"), 0),
        }
        assert!(fixture.server.counters().connections_expired >= 1);
    });
}

#[test]
fn a_client_that_does_not_read_is_disconnected_and_uses_limited_memory() {
    let options = Options {
        write_stall_max: Duration::from_millis(100),
        output_high: 1 << 20,
        threads: 1,
        ..Options::default()
    };
    let fixture = Fixture::new(options);
    fixture.run(async {
        let mut deaf = raw(&fixture).await;
        let mut calls = BytesMut::new();
        for id in 0..100u8 {
            // RequestHeader{call_id, method_name = "Large", request_param = true}, an empty parameter
            calls.extend_from_slice(&[0, 0, 0, 13, 11, 0x08, id, 0x1a, 5]);
            calls.extend_from_slice(b"Large\x20\x01\x00");
        }
        deaf.write_all(&calls).await.expect("taken");
        let polite = fixture.connect().await;
        while fixture.server.counters().connections_expired == 0 {
            polite.call(call("Echo", b"")).await.expect("others are served meanwhile");
        }
        let large = fixture.seen.lock().iter().filter(|call| &*call.method == "Large").count();
        assert!(large < 10, "{large} answers of 8 MB were made for a client that reads none");
    });
}

/// An answer must be counted without a gap. Otherwise answers that other threads create meanwhile would find room that
/// does not exist.
#[test]
fn an_answer_counts_without_a_gap_from_its_making_until_it_is_written() {
    let fixture = Fixture::new(Options { threads: 1, ..Options::default() });
    fixture.run(async {
        let mut stream = raw(&fixture).await;
        let mut calls = Vec::new();
        for (id, name) in [(1u8, &b"Counted"[..]), (2, b"Counted"), (3, b"Taken")] {
            // RequestHeader{call_id, method_name, request_param = true}, an empty parameter
            let length = 6 + name.len() as u8;
            calls.extend_from_slice(&[0, 0, 0, length + 2, length, 0x08, id, 0x1a, name.len() as u8]);
            calls.extend_from_slice(name);
            calls.extend_from_slice(&[0x20, 1, 0]);
        }
        stream.write_all(&calls).await.expect("taken");
        // All three calls came together. The third reads the counter when the first two are answered and not yet
        // written.
        let mut frame = Vec::new();
        for id in 1..=3u8 {
            let length = stream.read_u32().await.expect("a length");
            frame.resize(length as usize, 0);
            stream.read_exact(&mut frame).await.expect("a frame");
            assert_eq!(frame[2], id);
        }
        let taken = u64::from_be_bytes(*frame.last_chunk().expect("a number"));
        assert_eq!(taken, 2 << 20);
        // There is one thread, which serves this call after the turn of the first connection.
        fixture.connect().await.call(call("Echo", b"")).await.expect("answered");
    });
    assert_eq!(fixture.server.counters().answers_size, 0);
}

#[test]
fn a_call_goes_on_to_its_end_when_its_client_is_gone() {
    let fixture = Fixture::new(Options { threads: 1, ..Options::default() });
    fixture.run(async {
        let connection = fixture.connect().await;
        let waiting = connection.call(call("Wait", b""));
        connection.call(call("Echo", b"")).await.expect("answered");
        drop((waiting, connection));
        let other = fixture.connect().await;
        other.call(call("Echo", b"")).await.expect("answered");
        assert_eq!(fixture.server.counters().calls_in_flight, 1);
        fixture.gate.add_permits(1);
        while fixture.server.counters().calls_in_flight > 0 {
            other.call(call("Echo", b"")).await.expect("answered");
        }
        assert_eq!(fixture.gate.available_permits(), 0, "it took its permit");
    });
}

#[test]
fn a_timed_out_call_is_forgotten_and_the_connection_goes_on() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let connection = fixture.connect().await;
        let late = connection.call(call("Wait", b"").within(Duration::from_millis(30))).await;
        let error = late.expect_err("nobody opened the gate");
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert_eq!(error.happened(), client::Happened::Maybe);
        fixture.gate.add_permits(1);
        connection.call(call("Echo", b"")).await.expect("answered");
    });
}

/// A service that records the prefetches and calls that it receives, in order.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Service for Diary {
    fn call(&self, call: Call) -> Answer {
        self.0.lock().push(format!("{}", call.param[0]));
        Answer::Now(Ok(Reply::default()))
    }

    fn prefetch(&self, upcoming: UpcomingRequests<'_>) -> bool {
        let seen: Vec<String> = upcoming
            .map(|(method, param)| {
                assert_eq!((method, param[0] < 99), (&b"Go"[..], true), "on purpose");
                param[0].to_string()
            })
            .collect();
        self.0.lock().push(format!("prefetched {}", seen.join(" ")));
        // Prefetching is of no use for requests of which the first has the number 50.
        seen.first().is_some_and(|first| first != "50")
    }
}

#[test]
fn a_service_learns_of_requests_that_arrived_together_and_is_called_for_each() {
    let diary = Arc::new(Diary::default());
    let services = Services::new().with("Sample", Arc::clone(&diary) as Arc<dyn Service>);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(World::real(), Options { threads: 1, ..Options::default() }, &[address]);
    let fixture = Fixture {
        server: server.expect("loopback").serve(services),
        runtime: Runtime::start("client", 1).expect("a thread"),
        gate: Arc::new(Semaphore::new(0)),
        seen: Arc::default(),
    };
    let count = UpcomingRequests::TOGETHER as u8 + 3;
    fixture.run(async {
        let mut stream = raw(&fixture).await;
        // RequestHeader{call_id, method_name = "Go", request_param = true}, a parameter of one byte
        let frame = |id| [0, 0, 0, 11, 8, 0x08, id, 0x1a, 2, b'G', b'o', 0x20, 1, 1, id];
        let frames: Vec<u8> = (1..=count).flat_map(|id| frame(id).map(|byte: u8| byte)).collect();
        stream.write_all(&frames).await.expect("taken");
        stream.read_exact(&mut vec![0; 8 * usize::from(count)]).await.expect("answered");
        assert_eq!(fixture.server.counters().panics, 0);
        // If the service panics while it prefetches, the calls are served nevertheless.
        stream.write_all(&[frame(98), frame(99)].concat()).await.expect("taken");
        stream.read_exact(&mut [0; 2 * 8]).await.expect("answered");
        assert_eq!(fixture.server.counters().panics, 1);
    });
    let list = |ids: std::ops::RangeInclusive<u8>| ids.map(|id| id.to_string()).collect::<Vec<_>>();
    let mut expected = vec![format!("prefetched {}", list(1..=16).join(" "))];
    expected.extend(list(1..=16));
    expected.push("prefetched 17 18 19".to_owned());
    expected.extend(list(17..=19));
    expected.extend(list(98..=99));
    let noted: Vec<String> = diary.0.lock().iter().filter(|line| *line != "prefetched ").cloned().collect();
    assert_eq!(noted, expected);
}

#[test]
fn a_service_that_did_not_use_the_announcement_gets_none_for_a_while() {
    let diary = Arc::new(Diary::default());
    let services = Services::new().with("Sample", Arc::clone(&diary) as Arc<dyn Service>);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(World::real(), Options { threads: 1, ..Options::default() }, &[address]);
    let fixture = Fixture {
        server: server.expect("loopback").serve(services),
        runtime: Runtime::start("client", 1).expect("a thread"),
        gate: Arc::new(Semaphore::new(0)),
        seen: Arc::default(),
    };
    fixture.run(async {
        let mut stream = raw(&fixture).await;
        let frame = |id| [0, 0, 0, 11, 8, 0x08, id, 0x1a, 2, b'G', b'o', 0x20, 1, 1, id];
        // Prefetching is useless twice, with the skipped rounds between, and then useful each time.
        for id in [[50; 17].as_slice(), &[51; 20]].concat() {
            stream.write_all(&[frame(id), frame(id)].concat()).await.expect("taken");
            stream.read_exact(&mut [0; 2 * 8]).await.expect("answered");
        }
    });
    let told = |what: &str| diary.0.lock().iter().filter(|line| *line == what).count();
    assert_eq!((told("prefetched 50 50"), told("prefetched 51 51")), (2, 5));
    assert_eq!((told("50"), told("51")), (34, 40), "each is called");
}

/// A service that moves the server's clock.
struct Clock(World);

impl Service for Clock {
    fn call(&self, call: Call) -> Answer {
        self.0.advance(Duration::from_millis(25));
        Answer::Now(Ok(Reply { message: call.param, ..Reply::default() }))
    }
}

#[test]
fn a_call_whose_client_has_given_up_is_dropped_without_an_answer() {
    let world = World::simulated(1, env::WallTime(0));
    let services = Services::new().with("Sample", Arc::new(Clock(world.clone())));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(world, Options { threads: 1, ..Options::default() }, &[address]);
    let fixture = Fixture {
        server: server.expect("loopback").serve(services),
        runtime: Runtime::start("client", 1).expect("a thread"),
        gate: Arc::new(Semaphore::new(0)),
        seen: Arc::default(),
    };
    fixture.run(async {
        let mut stream = raw(&fixture).await;
        let mut calls = Vec::new();
        for (id, timeout) in [(1u8, 10u8), (2, 10), (3, 24), (4, 26), (5, 99)] {
            // RequestHeader{call_id, method_name = "Go", request_param = true, timeout}, an empty parameter
            calls.extend_from_slice(&[
                0, 0, 0, 12, 10, 0x08, id, 0x1a, 2, b'G', b'o', 0x20, 1, 0x38, timeout, 0,
            ]);
        }
        stream.write_all(&calls).await.expect("taken");
        // All four calls came together. The first makes 25 ms pass. That is too long for the second and the third,
        // whose time-outs are 20 ms (the minimum) and 24 ms. The fourth has 1 ms left, and makes another 25 ms pass.
        let mut answers = [0; 3 * 8];
        stream.read_exact(&mut answers).await.expect("answered");
        let ids: Vec<u8> = answers.chunks(8).map(|frame| frame[6]).collect();
        assert_eq!(ids, [1, 4, 5]);
        assert_eq!(fixture.server.counters().calls_expired, 2);
    });
}

#[test]
fn a_cell_block_counts_as_what_it_was_unpacked_to() {
    let fixture = Fixture::new(Options { threads: 1, ..Options::default() });
    fixture.run(async {
        let options = client::Options { compressor: Compressor::Gzip, ..client::Options::default() };
        let connection = Connection::open(fixture.address(), "Sample", &options).await.expect("connects");
        let waiting = connection.call(call("Wait", b"").with_cells(vec![0; 4 << 20]));
        connection.call(call("Echo", b"")).await.expect("answered");
        let held = fixture.server.counters().calls_in_flight_size;
        assert!((4 << 20..5 << 20).contains(&held), "{held} bytes are counted of 4 MB");
        fixture.gate.add_permits(1);
        waiting.await.expect("answered");
        assert_eq!(fixture.server.counters().calls_in_flight_size, 0);
    });
}

#[test]
fn a_connection_with_many_requests_yields_to_the_others_of_its_thread() {
    let fixture = Fixture::new(Options { threads: 1, ..Options::default() });
    fixture.run(async {
        let other = fixture.connect().await;
        other.call(call("Echo", b"")).await.expect("answered");
        let mut floods = Vec::new();
        for _ in 0..8 {
            let mut stream = raw(&fixture).await;
            floods.push(env::spawn(async move {
                // RequestHeader{call_id = 1, method_name = "Spin", request_param = true}, an empty parameter
                let spin = [0, 0, 0, 12, 10, 0x08, 1, 0x1a, 4, b'S', b'p', b'i', b'n', 0x20, 1, 0];
                // The write fails when the server ends.
                let _cut = stream.write_all(&spin.repeat(100_000)).await;
                stream
            }));
        }
        for _ in 0..5 {
            let before = fixture.server.counters().calls;
            other.call(call("Echo", b"")).await.expect("answered");
            let between = fixture.server.counters().calls - before;
            assert!(between < 20_000, "{between} calls were served before another connection's one");
        }
        floods.iter().for_each(|flood| flood.abort());
    });
}

#[test]
fn stopping_answers_what_waits_and_then_closes() {
    let fixture = Fixture::new(Options { threads: 2, ..Options::default() });
    let (address, gate) = (fixture.address(), Arc::clone(&fixture.gate));
    let (connection, waiting) = fixture.run(async {
        let connection = fixture.connect().await;
        let waiting = connection.call(call("Wait", b"last"));
        connection.call(call("Echo", b"")).await.expect("answered");
        (connection, waiting)
    });
    let Fixture { server, runtime, .. } = fixture;
    let stopping =
        env::spawn_thread("stop", env::Priority::Foreground, move || server.stop()).expect("a thread");
    runtime.handle().block_on(async {
        // When the listener is gone, new connections are refused.
        while env::dial(address).await.is_ok() {}
        gate.add_permits(1);
        assert_eq!(waiting.await.expect("answered").message, "last");
        connection.call(call("Echo", b"")).await.expect_err("closed");
    });
    assert!(stopping.join().expect("no panic"), "all came to their end");
}

#[test]
fn a_taken_port_is_named() {
    let fixture = Fixture::new(Options::default());
    let error = Server::bind(World::real(), Options::default(), &[fixture.address()]).expect_err("taken");
    assert!(error.to_string().contains(&fixture.address().to_string()), "{error}");
}

/// Starts a server where requests of more than 100 KB are large, and whose budget for them is 200 KB.
fn for_large(threads: usize) -> Fixture {
    let (large_size_min, large_size_max) = (100 << 10, 300 << 10);
    let large_read_max = Duration::from_millis(100);
    Fixture::new(Options { large_size_min, large_size_max, large_read_max, threads, ..Options::default() })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        env::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn large_requests_wait_for_each_other_and_small_ones_for_nobody() {
    let fixture = for_large(2);
    let counters = || fixture.server.counters();
    fixture.run(async {
        let (first, second) = (fixture.connect().await, fixture.connect().await);
        let body = vec![7; 200 << 10];
        let held = first.call(call("Wait", &body));
        until(|| counters().calls_in_flight == 1).await;
        let waiting = second.call(call("Wait", &body));
        until(|| counters().large_waiting == 1).await;
        assert!((200 << 10..201 << 10).contains(&counters().large_size));
        let third = fixture.connect().await;
        for connection in [&first, &third] {
            connection.call(call("Echo", &[7; 100 << 9])).await.expect("small ones are answered");
        }
        assert_eq!((counters().calls_in_flight, counters().large_waiting), (1, 1));
        assert!(counters().bytes_received < 600 << 10, "the second was not read to its end");
        fixture.gate.add_permits(2);
        assert!(held.await.expect("answered").message == body);
        assert!(waiting.await.expect("answered").message == body);
        until(|| counters().large_size == 0).await;
        assert_eq!(counters().large_waiting, 0);
    });
}

#[test]
fn a_large_request_that_comes_too_slowly_or_not_at_all_makes_room_for_others() {
    let fixture = for_large(1);
    let counters = || fixture.server.counters();
    fixture.run(async {
        let mut slow = raw(&fixture).await;
        slow.write_all(&[0, 3, 0, 0, 7, 7, 7]).await.expect("taken");
        until(|| counters().large_size > 0).await;
        let mut gone = raw(&fixture).await;
        gone.write_all(&[0, 3, 0, 0, 7, 7, 7]).await.expect("taken");
        until(|| counters().large_waiting == 1).await;
        drop(gone);
        let body = vec![7; 200 << 10];
        let connection = fixture.connect().await;
        assert!(connection.call(call("Echo", &body)).await.expect("answered").message == body);
        assert_eq!(counters().connections_expired, 1, "the slow one");
        let ended = slow.read(&mut [0; 1]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "it was cut off");
    });
}

#[test]
fn a_large_answer_counts_until_it_is_read_and_its_client_must_hurry_when_others_wait() {
    let fixture = Fixture::new(Options {
        large_size_min: 1 << 20,
        large_size_max: 9 << 20,
        write_stall_short: Duration::from_millis(100),
        threads: 1,
        ..Options::default()
    });
    let counters = || fixture.server.counters();
    fixture.run(async {
        let mut deaf = raw(&fixture).await;
        // RequestHeader{call_id, method_name = "Large", request_param = true}, an empty parameter
        deaf.write_all(b"\0\0\0\x0d\x0b\x08\x01\x1a\x05Large\x20\x01\0").await.expect("taken");
        until(|| counters().large_size == 8 << 20).await;
        let connection = fixture.connect().await;
        let body = vec![7; 2 << 20];
        assert!(connection.call(call("Echo", &body)).await.expect("answered").message == body);
        assert_eq!(counters().connections_expired, 1);
        until(|| counters().large_size == 0).await;
    });
}
