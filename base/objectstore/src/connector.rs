//! Sends the HTTP requests of a bucket, counts them, and sends a read that is not answered a second time.
//!
//! Each request is counted when it is sent, so also those that the library repeats, each page of a listing, and second
//! requests of reads. The bytes of a reply are counted as they arrive. The task in which the library runs says for which
//! file it sends requests ([`for_file`]).
//!
//! Only a GET with a range is sent twice at the same time: that is a read of a file, which never changes. The first reply
//! that is no failure counts, and the other request is dropped. When that is done is described in
//! [`hedge`](crate::hedge).
//!
//! A request that reads or writes an object fails if its reply does not begin in time
//! ([`reply_limit`](Connector::reply_limit)), or if the reply stops. A connection that was cut off without notice gives no
//! other sign, and the same request often succeeds on a new one. Other requests, such as the completion of an upload, may
//! take a store longer, and have no such limit.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use env::World;
use env::sync::Mutex;
use futures::future::{Either, select};
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use storage::FileName;
use tokio::task::futures::TaskLocalFuture;

use crate::clock::StoreClock;
use crate::hedge::Hedge;
use crate::meter::{Account, Meter, RequestKind};

tokio::task_local! {
    /// The file for which the task sends requests.
    static FILE: FileName;
}

/// Returns a future that runs `work`, whose requests are counted to the account of the file `name`.
pub(crate) fn for_file<F: Future>(name: &FileName, work: F) -> TaskLocalFuture<FileName, F> {
    FILE.scope(name.clone(), work)
}

/// Returns the file for which the running task sends requests; the root if it has none.
fn this_file() -> FileName {
    FILE.try_with(FileName::clone).unwrap_or_else(|_| FileName::root())
}

/// Makes HTTP clients that count requests, hedge reads, and note the time at the store.
#[derive(Clone)]
pub(crate) struct Connector {
    hedge: Arc<Hedge>,
    meter: Arc<Meter>,
    clock: Arc<StoreClock>,
    world: World,
    /// How long the reply to a request without a body may take to begin, and how long it may pause.
    reply_max: Duration,
}

/// Minimum of the time that a reply may take to begin.
const REPLY_MAX_MIN: Duration = Duration::from_secs(1);

impl Connector {
    /// `settle_time` is that of the bucket: a third of it is the time that a reply may take to begin, so that a call
    /// survives the loss of two.
    pub(crate) fn new(
        hedge: Hedge,
        meter: Arc<Meter>,
        clock: Arc<StoreClock>,
        settle_time: Duration,
    ) -> Connector {
        let reply_max = (settle_time / 3).max(REPLY_MAX_MIN);
        Connector { hedge: Arc::new(hedge), meter, clock, world: World::real(), reply_max }
    }

    /// Returns how long the reply to a request of this kind may pause. [`Duration::MAX`] is no limit.
    fn pause_max(&self, kind: RequestKind) -> Duration {
        match kind {
            RequestKind::Put | RequestKind::Get => self.reply_max,
            RequestKind::List | RequestKind::Delete | RequestKind::Multipart => Duration::MAX,
        }
    }

    /// Returns the time within which the reply to a request with a body of `sent_bytes` must begin: a millisecond more
    /// for each KB.
    fn reply_limit(&self, kind: RequestKind, sent_bytes: usize) -> Duration {
        self.pause_max(kind).saturating_add(Duration::from_millis(sent_bytes as u64 >> 10))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { client, connector: self.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    connector: Connector,
}

type Reply = Result<HttpResponse, HttpError>;

impl Service {
    /// Sends a request, a second time if it is a read that is late. Counts second requests, but not the first one.
    async fn send(&self, request: HttpRequest, account: &Account) -> Reply {
        let hedge = &self.connector.hedge;
        let is_read = request.method().as_str() == "GET" && request.headers().contains_key("range");
        let Some(delay) = is_read.then(|| hedge.begin()).flatten() else {
            return self.client.execute(request).await;
        };
        let world = &self.connector.world;
        let (again, began) = (request.clone(), world.moment());
        let mut first = pin!(self.client.execute(request));
        let reply = loop {
            match env::timeout(delay, &mut first).await {
                Some(reply) => break reply,
                None if hedge.take() => {
                    account.hedged();
                    break first_success(first, self.client.execute(again)).await;
                }
                None => {}
            }
        };
        if has_succeeded(&reply) {
            hedge.measure(world.moment().since(began));
        }
        reply
    }
}

impl HttpService for Service {
    fn call<'service, 'reply>(
        &'service self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'reply>>
    where
        'service: 'reply,
        Self: 'reply,
    {
        Box::pin(async move {
            let account = self.connector.meter.account(&this_file());
            let sent_bytes = request.body().content_length();
            let kind = kind_of(&request);
            account.requested(kind, sent_bytes);
            let sent = self.connector.world.now();
            let limit = self.connector.reply_limit(kind, sent_bytes);
            let reply = env::timeout(limit, self.send(request, &account)).await;
            let (parts, body) = reply.unwrap_or_else(|| Err(late("no reply began", limit)))?.into_parts();
            if let Some(date) = parts.headers.get("date").and_then(|date| date.to_str().ok()) {
                self.connector.clock.note(date, sent, self.connector.world.now());
            }
            let pause_max = self.connector.pause_max(kind);
            let body = ReplyBody { body, account, pause_max, pause: Mutex::default() };
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        })
    }
}

fn late(what: &str, limit: Duration) -> HttpError {
    let cause = io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {limit:?}"));
    HttpError::new(HttpErrorKind::Timeout, cause)
}

/// Returns the kind of a request, as it is billed. The requests of S3 have other parameters than those of Azure.
fn kind_of(request: &HttpRequest) -> RequestKind {
    let query = request.uri().query().unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let does = |what: &str| query.split('&').any(|pair| pair.strip_prefix("comp=") == Some(what));
    match request.method().as_str() {
        _ if has("uploads") || has("uploadId") || does("block") || does("blocklist") => {
            RequestKind::Multipart
        }
        "PUT" => RequestKind::Put,
        "GET" if has("list-type") || does("list") => RequestKind::List,
        "POST" if has("delete") || does("batch") => RequestKind::Delete,
        "DELETE" => RequestKind::Delete,
        _ => RequestKind::Get,
    }
}

/// The body of a reply, whose bytes are counted as they arrive. It fails if no more of them arrive.
struct ReplyBody {
    body: HttpResponseBody,
    account: Account,
    /// How long nothing may arrive.
    pause_max: Duration,
    /// Ends when nothing has arrived for that long; `None` if the reader waits for nothing.
    pause: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let pause_max = self.pause_max;
        let pause = self.pause.get_mut();
        if polled.is_pending() {
            let over = pause.get_or_insert_with(|| Box::pin(env::sleep(pause_max)));
            return over
                .as_mut()
                .poll(context)
                .map(|()| Some(Err(late("no more of the reply came", pause_max))));
        }
        *pause = None;
        let frame = ready!(polled);
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.account.received(bytes.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the first reply that is no failure, and drops the other request. If both fail, returns the later reply.
async fn first_success(one: impl Future<Output = Reply>, other: impl Future<Output = Reply>) -> Reply {
    match select(pin!(one), pin!(other)).await {
        Either::Left((reply, _)) | Either::Right((reply, _)) if has_succeeded(&reply) => reply,
        Either::Left((_, other)) => other.await,
        Either::Right((_, one)) => one.await,
    }
}

fn has_succeeded(reply: &Reply) -> bool {
    reply.as_ref().is_ok_and(|reply| reply.status().is_success())
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store that does not answer")]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use storage::{FileReader, Files};
    use telemetry::{Exposition, Source};

    use super::*;
    use crate::{Bucket, Hedging, Options, PUT_MAX, S3, Service, TAIL_BYTES};

    /// Size of the only file of the store.
    const SIZE: u64 = TAIL_BYTES + 1_000;

    /// A store of one file of zeros. It never answers some requests.
    #[derive(Default)]
    struct Store {
        /// Number of next requests that it does not answer.
        silent: AtomicUsize,
        /// Number of requests so far.
        requests: AtomicUsize,
        /// Number of next requests that it refuses with a status 503.
        refused: AtomicUsize,
    }

    impl Store {
        fn start() -> (Arc<Store>, String) {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
            let store = Arc::<Store>::default();
            let served = Arc::clone(&store);
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    let (store, client) = (Arc::clone(&served), client.expect("accepted"));
                    std::thread::spawn(move || store.serve(client));
                }
            });
            (store, endpoint)
        }

        fn serve(&self, mut client: TcpStream) {
            let mut buffer = [0; 16 << 10];
            while let Ok(count @ 1..) = client.read(&mut buffer) {
                self.requests.fetch_add(1, Ordering::AcqRel);
                let take = |from: &AtomicUsize| {
                    from.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
                };
                if take(&self.silent) {
                    continue;
                }
                let request = String::from_utf8_lossy(&buffer[..count]).to_ascii_lowercase();
                let reply = match ranged(&request) {
                    _ if take(&self.refused) => {
                        b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n".to_vec()
                    }
                    _ if request.contains("list-type=2") => {
                        let body = page(request.contains("continuation-token=more"));
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                            .into_bytes()
                    }
                    Some((first, last)) => {
                        let length = last - first + 1;
                        let head = format!(
                            "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\n\
                             Content-Range: bytes {first}-{last}/{SIZE}\r\nETag: \"e\"\r\n\
                             Last-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\n\r\n"
                        );
                        [head.as_bytes(), &vec![0; length as usize]].concat()
                    }
                    None => {
                        let body = "<Error><Code>NoSuchKey</Code></Error>";
                        let length = body.len();
                        format!("HTTP/1.1 404 Not Found\r\nContent-Length: {length}\r\n\r\n{body}")
                            .into_bytes()
                    }
                };
                if client.write_all(&reply).is_err() {
                    break;
                }
            }
        }
    }

    /// Returns the first or the second page of a listing of two objects.
    fn page(is_second: bool) -> String {
        let (key, next) = match is_second {
            true => ("b", ""),
            false => ("a", "<NextContinuationToken>more</NextContinuationToken>"),
        };
        format!(
            "<ListBucketResult>{next}<Contents><Key>{key}</Key><Size>1</Size>\
             <LastModified>2026-11-28T00:00:00.000Z</LastModified><ETag>e</ETag></Contents></ListBucketResult>"
        )
    }

    /// Returns the first and the last offset that a request asks for; `None` without a range.
    fn ranged(request: &str) -> Option<(u64, u64)> {
        let (_, range) = request.split_once("range: bytes=")?;
        let (first, last) = range.lines().next()?.trim().split_once('-')?;
        match first {
            "" => Some((SIZE - last.parse::<u64>().ok()?, SIZE - 1)),
            _ => Some((first.parse().ok()?, last.parse().ok()?)),
        }
    }

    fn bucket(endpoint: String, hedging: Hedging) -> Bucket {
        Bucket::new(Options {
            endpoint: Some(endpoint),
            service: Service::S3(S3 {
                region: Some("us-east-1".to_owned()),
                keys: Some(("a".to_owned(), "b".to_owned())),
                path_style: true,
                ..S3::default()
            }),
            settle_time: Duration::from_secs(5),
            hedging,
            ..Options::new("bucket", "")
        })
        .expect("a client")
    }

    const ONE_IN_TEN: Hedging = Hedging { percent_max: 10.0, delay_min: Duration::from_millis(1) };

    fn hedged(bucket: &Bucket) -> f64 {
        let mut out = Exposition::default();
        bucket.meter().show(&mut out);
        out.sum("bellows_store_hedged_total", None)
    }

    /// Opens the file, and reads so often that its latency is known and the budget has some requests.
    fn warm(bucket: &Bucket) -> Arc<dyn FileReader> {
        let reader = bucket.open(&FileName::new("f")).expect("there");
        (0..63).for_each(|_| reader.read_at(0, &mut [0; 100]).expect("answered"));
        reader
    }

    #[test]
    fn a_read_that_is_not_answered_is_sent_again() {
        let (store, endpoint) = Store::start();
        let bucket = bucket(endpoint, ONE_IN_TEN);
        let reader = warm(&bucket);
        // On a busy machine, ordinary reads may have been sent again, too.
        let (before, sent) = (hedged(&bucket), store.requests.load(Ordering::Acquire));
        store.silent.store(1, Ordering::Release);
        reader.read_at(0, &mut [0; 100]).expect("the second request is answered");
        assert!(hedged(&bucket) > before, "it was sent again");
        assert_eq!(store.requests.load(Ordering::Acquire), sent + 2);
        assert_eq!(bucket.requests().all()[1] as usize, sent + 2, "both are counted");
        store.silent.store(1, Ordering::Release);
        bucket.open(&FileName::new("g")).expect("an opening is sent again, too");
        assert_eq!(store.silent.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_budget_and_zero_percent_limit_second_requests() {
        let (store, endpoint) = Store::start();
        let off = bucket(endpoint.clone(), Hedging::OFF);
        warm(&off);
        assert_eq!((hedged(&off), store.requests.load(Ordering::Acquire)), (0.0, 64));
        let bucket = bucket(endpoint, ONE_IN_TEN);
        let reader = warm(&bucket);
        let before = hedged(&bucket);
        let saved = (6.4 - before).floor();
        for _ in 0..20 {
            store.silent.store(1, Ordering::Release);
            let early = reader.read_early(0, 100).expect("reads can be begun");
            // A read for which the budget has no request waits; these reads fill it.
            (0..30).for_each(|_| reader.read_at(0, &mut [0; 100]).expect("answered"));
            early().expect("answered");
        }
        let reads = bucket.requests().all()[1] as f64 - hedged(&bucket);
        assert!(hedged(&bucket) <= reads / 10.0, "{} of {reads}", hedged(&bucket));
        assert!(hedged(&bucket) - before >= 20.0 - saved);
    }

    #[test]
    fn requests_have_the_kinds_of_the_bill() {
        for (method, target, kind) in [
            ("PUT", "/b/k", RequestKind::Put),
            ("GET", "/b/k", RequestKind::Get),
            ("HEAD", "/b/k", RequestKind::Get),
            ("GET", "/b?list-type=2&prefix=uploads", RequestKind::List),
            ("DELETE", "/b/k", RequestKind::Delete),
            ("POST", "/b?delete", RequestKind::Delete),
            ("POST", "/b/k?uploads=", RequestKind::Multipart),
            ("PUT", "/b/k?partNumber=1&uploadId=u", RequestKind::Multipart),
            ("POST", "/b/k?uploadId=u", RequestKind::Multipart),
            ("DELETE", "/b/k?uploadId=u", RequestKind::Multipart),
            ("GET", "/b?restype=container&comp=list&prefix=x", RequestKind::List),
            ("POST", "/b?restype=container&comp=batch", RequestKind::Delete),
            ("PUT", "/b/k?comp=block&blockid=u", RequestKind::Multipart),
            ("PUT", "/b/k?comp=blocklist", RequestKind::Multipart),
        ] {
            let mut request = HttpRequest::new(Vec::new().into());
            *request.method_mut() = method.parse().expect("a method");
            *request.uri_mut() = target.parse().expect("a URI");
            assert_eq!(kind_of(&request), kind, "{method} {target}");
        }
    }

    #[test]
    fn two_buckets_can_share_a_meter() {
        let ((_one, endpoint), (_other, log)) = (Store::start(), Store::start());
        let first = bucket(endpoint, Hedging::OFF);
        let options = bucket(log, Hedging::OFF).shared.options.clone();
        let second =
            Bucket::new(Options { meter: Some(Arc::clone(first.meter())), ..options }).expect("a client");
        for bucket in [&first, &second, &second] {
            bucket.open(&FileName::new("f")).expect("there");
        }
        assert_eq!(first.requests().all(), [0, 3, 0, 0, 0]);
        assert_eq!(second.requests().all(), [0, 3, 0, 0, 0]);
    }

    #[test]
    fn repeated_requests_and_pages_are_counted_with_their_bytes() {
        let (store, endpoint) = Store::start();
        let bucket = bucket(endpoint, Hedging::OFF);
        let reader = bucket.open(&FileName::new("f")).expect("there");
        store.refused.store(2, Ordering::Release);
        reader.read_at(0, &mut [0; 100]).expect("the third request is answered");
        assert_eq!(bucket.requests().all(), [0, 4, 0, 0, 0]);
        let bytes = |way| {
            let mut out = Exposition::default();
            bucket.meter().show(&mut out);
            out.sum("bellows_store_bytes_total", Some(("way", way)))
        };
        assert_eq!(bytes("received"), (TAIL_BYTES + 100) as f64);
        assert_eq!(bucket.list(&FileName::root()).expect("listed").len(), 2);
        assert_eq!(bucket.requests().all(), [0, 4, 2, 0, 0], "two pages are two requests");
        let pages = page(false).len() + page(true).len();
        assert_eq!(bytes("received"), (TAIL_BYTES + 100) as f64 + pages as f64);
        assert_eq!(bytes("sent"), 0.0);
        store.refused.store(1, Ordering::Release);
        bucket.delete(&FileName::new("f")).expect("no such object");
        assert_eq!(bucket.requests().all(), [0, 4, 2, 2, 0]);
        store.refused.store(1, Ordering::Release);
        let mut writer = bucket.create(&FileName::new("g")).expect("new");
        writer.write(&vec![0; PUT_MAX + 1]).expect_err("the store refuses uploads in parts");
        assert_eq!(bucket.requests().all(), [0, 4, 2, 2, 2], "the library repeats the first of its requests");
        assert_eq!(store.requests.load(Ordering::Acquire), 10);
        assert!(bytes("sent") > 0.0, "the names of deleted objects are sent");
    }

    #[test]
    fn a_refusal_of_one_request_does_not_count_before_the_other_reply() {
        let runtime = env::Runtime::start("test", 1).expect("a runtime");
        let reply = |status: u16| {
            let mut reply = HttpResponse::new(Vec::new().into());
            *reply.status_mut() = status.try_into().expect("a status");
            Ok::<_, HttpError>(reply)
        };
        let status = |reply: Reply| reply.expect("a reply").status().as_u16();
        let first = |one, other| {
            let (done, result) = std::sync::mpsc::channel();
            drop(runtime.spawn(async move {
                let one = async { one };
                let other = async { other };
                let _received =
                    done.send(first_success(one, other).await.map(|reply| reply.status().as_u16()));
            }));
            result.recv().expect("it ends").expect("a reply")
        };
        assert_eq!(first(reply(503), reply(206)), 206);
        assert_eq!(first(reply(206), reply(503)), 206);
        assert_eq!(first(reply(503), reply(404)), 404);
        assert_eq!(status(reply(206)), 206);
    }
}
