//! Tests the ZooKeeper server and client over real sockets on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::{Runtime, World};
use registry::client::Client;
use registry::{Options, Server, Tree, payload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(10);

struct Fixture {
    tree: Arc<Tree>,
    server: Server,
    runtime: Runtime,
}

impl Fixture {
    fn new(options: Options) -> Fixture {
        let tree = Arc::new(Tree::new(World::real()));
        tree.set("/hbase/hbaseid", payload::wrap("master:h,1,2", 7, b"\x0a\x02id"));
        tree.set("/hbase/meta-region-server", "zero");
        tree.set("/hbase/meta-region-server-1", "one");
        let bound =
            Server::bind(World::real(), options, SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback");
        let server = bound.serve(Arc::clone(&tree));
        Fixture { tree, server, runtime: Runtime::start("client", 1).expect("a thread") }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let _entered = self.runtime.handle().enter();
        self.runtime
            .handle()
            .block_on(async { env::timeout(Duration::from_secs(60), work).await.expect("within a minute") })
    }
}

#[test]
fn a_client_finds_what_is_in_the_tree_and_sees_it_change() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let mut client = Client::connect(fixture.server.address(), LIMIT).await.expect("connects");
        let id = client.data("/hbase/hbaseid").await.expect("answered").expect("there");
        assert_eq!(payload::unwrap(&id), Some(&b"\x0a\x02id"[..]));
        let metas = client.data_of_children("/hbase", "meta-region-server").await.expect("answered");
        assert_eq!(metas.len(), 2);
        assert_eq!(metas["meta-region-server-1"], "one");
        assert!(!client.exists("/hbase/master").await.expect("answered"));
        fixture.tree.set("/hbase/master", "m");
        assert!(client.exists("/hbase/master").await.expect("answered"));
        assert_eq!(client.data("/hbase/master").await.expect("answered").expect("there"), "m");
        client.close().await.expect("an orderly end");
    });
    assert!(fixture.server.counters().requests >= 8);
}

async fn hello(stream: &mut env::Stream, session: &[u8]) -> (i32, Vec<u8>) {
    let mut hello = vec![0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x75, 0x30];
    hello.extend_from_slice(session);
    stream.write_all(&hello).await.expect("taken");
    let mut answer = [0; 41];
    stream.read_exact(&mut answer).await.expect("answered");
    let timeout = i32::from_be_bytes([answer[8], answer[9], answer[10], answer[11]]);
    // The session's id and its password with a length, in the form in which a client sends them back.
    (timeout, answer[12..40].to_vec())
}

#[test]
fn a_session_can_be_resumed_and_an_unknown_one_has_expired() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        let mut fresh = vec![0; 8];
        fresh.extend_from_slice(&[0, 0, 0, 16]);
        fresh.extend_from_slice(&[0; 16]);
        let mut first = env::dial(fixture.server.address()).await.expect("connects");
        let (timeout, session) = hello(&mut first, &fresh).await;
        assert_eq!(timeout, 30_000);
        drop(first);
        let mut again = env::dial(fixture.server.address()).await.expect("connects");
        assert_eq!(hello(&mut again, &session).await, (30_000, session.clone()));
        let mut wrong = session.clone();
        wrong[20] ^= 1;
        let mut other = env::dial(fixture.server.address()).await.expect("connects");
        assert_eq!(hello(&mut other, &wrong).await.0, 0, "a wrong password finds no session");
        // After the client has closed the session (xid 1, close), the session does not exist any more.
        again.write_all(&[0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5]).await.expect("taken");
        let mut goodbye = Vec::new();
        again.read_to_end(&mut goodbye).await.expect("an orderly end");
        assert_eq!(goodbye.len(), 20);
        let mut late = env::dial(fixture.server.address()).await.expect("connects");
        assert_eq!(hello(&mut late, &session).await.0, 0);
    });
}

#[test]
fn the_four_letter_commands_are_answered() {
    let fixture = Fixture::new(Options::default());
    fixture.run(async {
        for (word, expected) in [
            ("ruok", "imok"),
            ("srvr", "Mode: standalone\nNode count: 5\n"),
            ("stat", "Clients:\n /127.0.0.1:"),
            ("wchp", "not in the whitelist"),
        ] {
            let mut stream = env::dial(fixture.server.address()).await.expect("connects");
            stream.write_all(word.as_bytes()).await.expect("taken");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an orderly end");
            assert!(answer.contains(expected), "{word}: {answer}");
        }
    });
}

#[test]
fn limits_are_kept() {
    let fixture = Fixture::new(Options {
        frame_size_max: 1_000,
        socket_max: Duration::from_millis(50),
        session_min: Duration::from_millis(50),
        session_max: Duration::from_millis(50),
        ..Options::default()
    });
    let ended = async |bytes: &[u8]| {
        let mut stream = env::dial(fixture.server.address()).await.expect("connects");
        stream.write_all(bytes).await.expect("taken");
        // The server closes the connection with unread bytes, so the client may see a reset.
        matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
    };
    fixture.run(async {
        assert!(ended(&[0, 0, 0x10, 0]).await, "a frame that is too long");
        assert!(ended(b"").await, "no hello");
        assert!(ended(&[0, 0, 0, 1, 9]).await, "a hello that is none");
        let mut silent = env::dial(fixture.server.address()).await.expect("connects");
        let mut fresh = vec![0; 8];
        fresh.extend_from_slice(&[0, 0, 0, 16]);
        fresh.extend_from_slice(&[0; 16]);
        assert_eq!(hello(&mut silent, &fresh).await.0, 50, "what it asked for was too long");
        assert_eq!(silent.read(&mut [0; 1]).await.expect("an orderly end"), 0, "its session is over");
    });
}

#[test]
fn too_many_connections_are_refused() {
    let fixture = Fixture::new(Options { connections_max: 2, ..Options::default() });
    fixture.run(async {
        let _first = Client::connect(fixture.server.address(), LIMIT).await.expect("connects");
        let _second = Client::connect(fixture.server.address(), LIMIT).await.expect("connects");
        Client::connect(fixture.server.address(), LIMIT).await.expect_err("refused");
        assert_eq!(fixture.server.counters().connections_refused, 1);
    });
}
