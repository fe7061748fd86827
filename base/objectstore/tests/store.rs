//! Tests against a real store. `cargo xtask test --only s3` starts an S3 server, and passes its address in
//! `BELLOWS_S3_ENDPOINT`. `cargo xtask test --only azure` starts Azurite, and passes its address in
//! `BELLOWS_AZURE_ENDPOINT`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use objectstore::{Azure, AzureSecret, Bucket, Options, PART_BYTES, PUBLIC_DOMAIN, PUT_MAX, S3, Service};
use storage::{FileName, Files, Kind, Outcome, Settled};

/// The account of Azurite, and its key, which is the same everywhere.
const AZURITE: (&str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
);

/// What the tests must know of the service.
struct Expected {
    service: Service,
    /// How long requests are repeated. Azurite is slow on a busy machine.
    settle_time: Duration,
    /// The path of the service's URL.
    path: &'static str,
    /// Number of requests that a file of three parts takes.
    of_three_parts: u64,
    /// Number of requests that open a file that is longer than its end that is read then.
    of_opening: u64,
    /// Number of files that are deleted by one request.
    in_deletion: usize,
    /// The last bytes of the opening tag and of the closing tag of an object in a listing, and a name of the same length.
    entry: (&'static [u8], &'static [u8]),
}

/// Returns the address of the store, as `cargo xtask test` sets it, and what is expected of it.
fn store() -> (String, Expected) {
    if let Ok(endpoint) = std::env::var("BELLOWS_AZURE_ENDPOINT") {
        let (account, key) = AZURITE;
        let azure = Azure {
            account: Some(account.to_owned()),
            domain: PUBLIC_DOMAIN.to_owned(),
            secret: Some(AzureSecret::AccountKey(key.to_owned())),
        };
        let expected = Expected {
            service: Service::Azure(azure),
            settle_time: Duration::from_secs(20),
            path: "/devstoreaccount1",
            of_three_parts: 3 + 1,
            of_opening: 2,
            in_deletion: 256,
            entry: (b"Blob>", b"Hide>"),
        };
        return (endpoint, expected);
    }
    let endpoint = std::env::var("BELLOWS_S3_ENDPOINT").expect(
        "BELLOWS_S3_ENDPOINT, as `cargo xtask test --only s3` sets it, or BELLOWS_AZURE_ENDPOINT, as `--only azure` does",
    );
    let s3 = S3 {
        region: Some("us-east-1".to_owned()),
        keys: Some(("bellows".to_owned(), "bellowssecret".to_owned())),
        path_style: true,
        ..S3::default()
    };
    let expected = Expected {
        service: Service::S3(s3),
        settle_time: Duration::from_secs(5),
        path: "",
        of_three_parts: 1 + 3 + 1,
        of_opening: 1,
        in_deletion: 1_000,
        entry: (b"Contents>", b"Hidden__>"),
    };
    (endpoint, expected)
}

fn endpoint() -> String {
    store().0
}

fn expected() -> Expected {
    store().1
}

/// Returns a bucket with a prefix that no other test and no earlier run uses.
fn bucket_at(endpoint: String, test: &str) -> Bucket {
    static RUN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let run = RUN.get_or_init(|| env::World::real().random());
    let Expected { service, settle_time, path, .. } = expected();
    Bucket::new(Options {
        endpoint: Some(endpoint + path),
        service,
        settle_time,
        ..Options::new("bellows", format!("{run:x}/{test}"))
    })
    .expect("a bucket")
}

fn bucket(test: &str) -> Bucket {
    bucket_at(endpoint(), test)
}

fn name(text: &str) -> FileName {
    FileName::new(text)
}

#[test]
fn it_keeps_the_rules_of_storage() {
    storage::conformance::check(&bucket("rules"));
}

#[test]
fn a_small_file_a_swap_and_an_opening_are_one_request_each() {
    let bucket = bucket("requests");
    let mut writer = bucket.create(&name("f")).expect("new");
    writer.write(&[7; 100_000]).expect("written");
    writer.finish().expect("durable");
    assert_eq!(bucket.requests().all(), [1, 0, 0, 0, 0]);
    let first = bucket.swap(&name("list"), None, b"one").expect("new");
    bucket.swap(&name("list"), Some(&first), b"two").expect("as expected");
    assert_eq!(bucket.requests().all(), [3, 0, 0, 0, 0]);
    bucket.open(&name("f")).expect("there").read_at(99_000, &mut [0; 1_000]).expect("just written");
    assert_eq!(bucket.requests().all(), [3, 0, 0, 0, 0]);
    let bucket = self::bucket("requests");
    let reader = bucket.open(&name("f")).expect("there");
    reader.read_at(99_000, &mut [0; 1_000]).expect("what came with the opening");
    let of_opening = expected().of_opening;
    assert_eq!(bucket.requests().all(), [0, of_opening, 0, 0, 0]);
    reader.read_at(0, &mut [0; 1_000]).expect("a range");
    assert_eq!(bucket.requests().all(), [0, of_opening + 1, 0, 0, 0]);
    let short = bucket.open(&name("list")).expect("there");
    short.read_at(0, &mut [0; 3]).expect("what came with the opening");
    assert_eq!(
        bucket.requests().all(),
        [0, of_opening + 2, 0, 0, 0],
        "a short file is opened by one request"
    );
}

#[test]
fn many_files_are_deleted_by_one_request() {
    let bucket = bucket("deleted");
    let names: Vec<FileName> = (0..40).map(|number| name(&format!("part{number}"))).collect();
    for name in &names {
        bucket.swap(name, None, b"x").expect("written");
    }
    let before = bucket.requests().all()[3];
    bucket.delete_all(&names[1..]).expect("deleted");
    assert_eq!(bucket.requests().all()[3] - before, 1);
    let left: Vec<FileName> =
        bucket.list(&FileName::root()).expect("listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(left, names[..1]);
    bucket.delete_all(&names).expect("files that are gone do no harm");
    bucket.delete_all(&[]).expect("nothing to do");
    assert_eq!(bucket.list(&FileName::root()).expect("listed"), []);
}

/// A listing of more files than one request returns is whole, also if replies break.
#[test]
fn a_listing_of_several_pages_is_whole() {
    let lossy = Lossy::new();
    let bucket = bucket_at(lossy.endpoint.clone(), "pages");
    let names: Vec<FileName> = (0..1_100).map(|number| name(&format!("part{number:04}"))).collect();
    std::thread::scope(|scope| {
        for some in names.chunks(names.len() / 8 + 1) {
            let bucket = &bucket;
            scope.spawn(move || {
                some.iter().for_each(|name| drop(bucket.swap(name, None, b"x").expect("written")))
            });
        }
    });
    let listed = || -> Vec<FileName> {
        let listed = bucket.list(&FileName::root()).expect("listed");
        listed.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(listed(), names);
    assert_eq!(bucket.requests().all()[2], 2);
    lossy.cuts.store(2, Ordering::Release);
    assert_eq!(listed(), names);
    assert_eq!(bucket.requests().all()[2], 2 + 4, "each broken reply is one more request");
    bucket.delete_all(&names).expect("deleted");
    assert_eq!(bucket.requests().all()[3], names.len().div_ceil(expected().in_deletion) as u64);
}

#[test]
fn a_large_file_is_sent_in_parts_and_read_in_ranges() {
    let bucket = bucket("parts");
    let pattern = |at: usize| (at / 1_000 % 251) as u8;
    let size = 2 * PART_BYTES + 12_345;
    let content: Vec<u8> = (0..size).map(pattern).collect();
    let mut writer = bucket.create(&name("large")).expect("new");
    content.chunks(1 << 20).for_each(|chunk| writer.write(chunk).expect("written"));
    assert_eq!(bucket.open(&name("large")).err().expect("not finished").kind(), Kind::NotFound);
    assert_eq!(writer.finish().expect("durable"), size as u64);
    assert_eq!(bucket.requests().all()[4], expected().of_three_parts);
    let reader = bucket.open(&name("large")).expect("there");
    let runtime = env::Runtime::start("reader", 1).expect("a runtime");
    for (offset, length) in [(0, 10), (PART_BYTES - 5, 10), (size - 70_000, 70_000), (size - 10, 10)] {
        let mut found = vec![0; length];
        reader.read_at(offset as u64, &mut found).expect("inside");
        assert_eq!(found, content[offset..offset + length]);
        let read = reader.read_awaited(offset as u64, length).expect("reads can be awaited");
        let (done, awaited) = std::sync::mpsc::channel();
        drop(runtime.spawn(async move { done.send(read.await) }));
        assert_eq!(awaited.recv().expect("it ends").expect("inside"), content[offset..offset + length]);
    }
    let mut writer = bucket.create(&name("given-up")).expect("new");
    writer.write(&content).expect("written");
    writer.abandon();
    assert_eq!(bucket.list(&FileName::root()).expect("listed").len(), 1);
}

#[test]
fn a_file_of_at_most_the_limit_is_one_put() {
    let bucket = bucket("limit");
    for (size, of_upload) in [(PUT_MAX, 0), (PUT_MAX + 1, expected().of_three_parts - 1)] {
        let content: Vec<u8> = (0..size).map(|at| (at / 1_000 % 251) as u8).collect();
        for chunk in [size, PUT_MAX - 1, PART_BYTES + 1, 3 << 20] {
            let file = name(&format!("{size}-{chunk}"));
            let before = bucket.requests().all();
            let mut writer = bucket.create(&file).expect("new");
            content.chunks(chunk).for_each(|chunk| writer.write(chunk).expect("written"));
            assert_eq!(writer.finish().expect("durable"), size as u64);
            let puts = bucket.requests().all()[0] - before[0];
            let uploads = bucket.requests().all()[4] - before[4];
            assert_eq!((puts, uploads), (u64::from(of_upload == 0), of_upload), "{file}");
            let mut found = vec![0; size];
            bucket.open(&file).expect("there").read_at(0, &mut found).expect("inside");
            assert!(found == content, "{file} has other bytes");
        }
    }
}

#[test]
fn of_two_writers_of_one_object_one_wins_each_round() {
    let (one, other) = (bucket("race"), bucket("race"));
    let mut version = one.swap(&name("list"), None, b"start").expect("new");
    for round in 0..30 {
        let swap = |bucket: &Bucket, who: &str| {
            bucket.swap(&name("list"), Some(&version), format!("{who} {round}").as_bytes())
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| swap(&other, "other"));
            (swap(&one, "one"), second.join().expect("no panic"))
        });
        let winner = match (first, second) {
            (Ok(version), Err(error)) | (Err(error), Ok(version)) => {
                assert_eq!((error.kind(), error.outcome()), (Kind::Conflict, Outcome::DidNotHappen));
                version
            }
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(one.load(&name("list"), 100).expect("there").version, winner);
        version = winner;
    }
}

/// Forwards connections to the store, and changes or loses the replies that a test chooses.
struct Lossy {
    endpoint: String,
    /// Number of next replies that are lost.
    losses: Arc<AtomicUsize>,
    /// Number of next replies of which the last bytes are lost.
    cuts: Arc<AtomicUsize>,
    /// Number of next PUTs that the store gets twice. The client receives the second reply.
    doubles: Arc<AtomicUsize>,
    /// Whether listings are returned without their objects.
    hides_objects: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

impl Lossy {
    fn new() -> Lossy {
        let store = endpoint().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let (losses, stopped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (hides_objects, doubles) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (doubled, cuts) = (Arc::clone(&doubles), Arc::<AtomicUsize>::default());
        let bends = Bends {
            losses: Arc::clone(&losses),
            cuts: Arc::clone(&cuts),
            hides_objects: Arc::clone(&hides_objects),
        };
        let ended = Arc::clone(&stopped);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    break;
                }
                let client = client.expect("accepted");
                let server = TcpStream::connect(&store).expect("the store");
                let (from, to) =
                    (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
                let (doubled, store) = (Arc::clone(&doubled), store.clone());
                std::thread::spawn(move || forward_requests(from, to, &doubled, &store));
                let bends = bends.clone();
                std::thread::spawn(move || forward_replies(server, client, &bends));
            }
        });
        Lossy { endpoint, losses, cuts, doubles, hides_objects, stopped }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let _woken = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
    }
}

/// Forwards requests, and sends as many PUTs twice as `doubled` says, the first time on a connection of their own.
fn forward_requests(mut from: TcpStream, mut to: TcpStream, doubled: &AtomicUsize, store: &str) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut request = buffer[..count].to_vec();
        if request.starts_with(b"PUT ") && take_one(doubled) {
            while !is_whole(&request) {
                let more = from.read(&mut buffer).expect("the rest of the request");
                request.extend_from_slice(&buffer[..more]);
            }
            let mut first = TcpStream::connect(store).expect("the store");
            first.write_all(&request).expect("sent");
            let reply = first.read(&mut buffer).expect("a reply");
            assert!(buffer[..reply].starts_with(b"HTTP/1.1 20"), "the first of two equal requests");
        }
        if to.write_all(&request).is_err() {
            break;
        }
    }
    let _ended = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Whether the request has all bytes that its header announces.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    let header = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = header.lines().find_map(|line| line.strip_prefix("content-length: "));
    request.len() >= end + 4 + length.map_or(0, |length| length.trim().parse().expect("a number"))
}

/// Reduces a count that is not zero by one; returns `false` if it is zero.
fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
}

/// What happens to replies, as [`Lossy`] has it.
#[derive(Clone)]
struct Bends {
    losses: Arc<AtomicUsize>,
    cuts: Arc<AtomicUsize>,
    hides_objects: Arc<AtomicBool>,
}

/// Forwards replies, except those that are lost.
fn forward_replies(mut from: TcpStream, mut to: TcpStream, bends: &Bends) {
    let (entry, hidden) = expected().entry;
    let Bends { losses, cuts, hides_objects } = bends;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let is_lost = take_one(losses);
        if hides_objects.load(Ordering::Acquire) {
            // The replacement has the same length, so that the length in the header stays correct.
            while let Some(at) = buffer[..count].windows(entry.len()).position(|part| part == entry) {
                buffer[at..at + entry.len()].copy_from_slice(hidden);
            }
        }
        if is_lost {
            break;
        }
        if take_one(cuts) {
            // Only the end of the body is missing.
            let _sent = to.write_all(&buffer[..count - 1]);
            break;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Both directions are closed, so that the client sees a broken connection instead of a reply.
    let _ended = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_request_that_arrives_twice_counts_as_one() {
    let lossy = Lossy::new();
    let bucket = bucket_at(lossy.endpoint.clone(), "twice");
    let doubled = |count| assert_eq!(lossy.doubles.swap(count, Ordering::AcqRel), 0, "the last was doubled");
    doubled(1);
    let mut writer = bucket.create(&name("f")).expect("new");
    writer.write(b"content of my own").expect("written");
    writer.finish().expect("the other request was this one");
    doubled(1);
    let first = bucket.swap(&name("list"), None, b"term 1").expect("the other request was this one");
    doubled(1);
    let second = bucket.swap(&name("list"), Some(&first), b"term 2").expect("the other request was this one");
    doubled(0);
    assert_eq!(bucket.load(&name("list"), 100).expect("there").version, second);
    // The file of another writer is not taken for this one's, even if it has the same bytes.
    for content in [&b"content of another"[..], b"content of my own"] {
        let mut other = bucket.create(&name("f")).expect("the name is compared later");
        other.write(content).expect("written");
        assert_eq!(other.finish().expect_err("taken").kind(), Kind::Exists);
    }
}

#[test]
fn a_swap_whose_reply_is_lost_is_resolved_by_reading() {
    let lossy = Lossy::new();
    let bucket = bucket_at(lossy.endpoint.clone(), "lost");
    let mut version = None;
    for round in 0..20 {
        lossy.losses.store(1, Ordering::Release);
        let content = format!("owner 7, term {round}");
        version = Some(
            bucket
                .swap(&name("list"), version.as_ref(), content.as_bytes())
                .unwrap_or_else(|error| panic!("round {round}: {error}")),
        );
        assert_eq!(lossy.losses.load(Ordering::Acquire), 0, "a reply was lost");
        let found = bucket.load(&name("list"), 100).expect("there");
        assert_eq!((found.content, Some(found.version)), (content.into_bytes(), version.clone()));
    }
    // The same for a file that is written by one request.
    lossy.losses.store(1, Ordering::Release);
    let mut writer = bucket.create(&name("f")).expect("new");
    writer.write(b"content of my own").expect("written");
    writer.finish().expect("it is there, and ours");
    assert_eq!(bucket.read(&name("f"), 100).expect("there"), b"content of my own");
}

#[test]
fn a_read_whose_reply_breaks_is_repeated() {
    let lossy = Lossy::new();
    let bucket = bucket_at(lossy.endpoint.clone(), "broken");
    bucket.swap(&name("list"), None, b"term 1").expect("new");
    let cut = || assert_eq!(lossy.cuts.swap(2, Ordering::AcqRel), 0, "the last replies were cut");
    cut();
    assert_eq!(bucket.list(&FileName::root()).expect("listed").len(), 1);
    cut();
    assert_eq!(bucket.load(&name("list"), 100).expect("there").content, b"term 1");
    cut();
    assert_eq!(bucket.load(&name("absent"), 100).expect_err("absent").kind(), Kind::NotFound);
    cut();
    assert_eq!(bucket.open(&name("absent")).err().expect("absent").kind(), Kind::NotFound);
    cut();
    let mut found = [0; 6];
    bucket.open(&name("list")).expect("there").read_at(0, &mut found).expect("what came with the opening");
    assert_eq!((&found, lossy.cuts.load(Ordering::Acquire)), (b"term 1", 0));
}

#[test]
fn a_swap_that_cannot_be_resolved_says_so_and_is_settled_later() {
    let lossy = Lossy::new();
    let bucket = bucket_at(lossy.endpoint.clone(), "unknown");
    let first = bucket.swap(&name("list"), None, b"term 1").expect("new");
    lossy.losses.store(usize::MAX, Ordering::Release);
    let error = bucket.swap(&name("list"), Some(&first), b"term 2").expect_err("no reply ever comes");
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    lossy.losses.store(0, Ordering::Release);
    let settled = bucket.settle(&name("list"), Some(&first), b"term 2").expect("decided");
    let Settled::Happened(second) = settled else { panic!("{settled:?}") };
    assert_eq!(bucket.load(&name("list"), 100).expect("there").version, second);
    bucket.swap(&name("list"), Some(&second), b"term 3").expect("as expected");
    let late = bucket.settle(&name("list"), Some(&first), b"term 2").expect("decided");
    assert_eq!(late, Settled::Replaced);
}

#[test]
fn a_store_that_keeps_its_promises_passes_the_probe_and_keeps_nothing_of_it() {
    let bucket = bucket("probe");
    bucket.probe().expect("versitygw and Azurite write conditionally");
    assert_eq!(bucket.list(&FileName::root()).expect("listed"), []);
}

/// Starts a store that accepts every request, as a store that ignores conditions does; returns its URL.
fn yes_sayer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a client");
            std::thread::spawn(move || {
                let mut request = [0; 64 << 10];
                while connection.read(&mut request).is_ok_and(|count| count > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n";
                    connection.write_all(answer).expect("the client waits");
                }
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn a_store_that_ignores_conditions_is_refused_with_what_it_lacks() {
    let error = bucket_at(yes_sayer(), "refused").probe().expect_err("it cannot hold this data");
    assert!(error.to_string().contains("ignores If-None-Match"), "{error}");
    assert!(error.to_string().contains("use a store with conditional writes"), "{error}");
}

#[test]
fn a_store_whose_listings_miss_objects_is_refused() {
    let lossy = Lossy::new();
    lossy.hides_objects.store(true, Ordering::Release);
    let error = bucket_at(lossy.endpoint.clone(), "hidden").probe().expect_err("it cannot hold this data");
    assert!(error.to_string().contains("misses an object that was written before"), "{error}");
    lossy.hides_objects.store(false, Ordering::Release);
    bucket_at(lossy.endpoint.clone(), "hidden").probe().expect("it lists what it has");
}
