//! Sends the HTTP requests of a bucket, and sends a read that is not answered a second time.
//!
//! Only a GET with a range is sent twice: that is a read of a file, which never changes. The first reply that is no
//! failure counts, and the other request is dropped. When that is done is described in [`hedge`](crate::hedge).

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use env::World;
use futures::future::{Either, select};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use storage::FileName;

use crate::hedge::Hedge;
use crate::meter::Meter;

tokio::task_local! {
    /// The file for which the task sends requests.
    static FILE: FileName;
}

/// Runs `work`. Its requests are counted to the account of the file `name`.
pub(crate) async fn for_file<T>(name: &FileName, work: impl Future<Output = T>) -> T {
    FILE.scope(name.clone(), work).await
}

/// Returns the file for which the running task sends requests.
fn this_file() -> FileName {
    FILE.try_with(FileName::clone).unwrap_or_else(|_| FileName::root())
}

/// Makes HTTP clients that hedge reads.
#[derive(Clone)]
pub(crate) struct Connector {
    hedge: Arc<Hedge>,
    meter: Arc<Meter>,
}

impl Connector {
    pub(crate) fn new(hedge: Hedge, meter: Arc<Meter>) -> Connector {
        Connector { hedge: Arc::new(hedge), meter }
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
    async fn send(&self, request: HttpRequest) -> Reply {
        let hedge = &self.connector.hedge;
        let is_read = request.method().as_str() == "GET" && request.headers().contains_key("range");
        let Some(delay) = is_read.then(|| hedge.begin()).flatten() else {
            return self.client.execute(request).await;
        };
        let world = World::real();
        let (again, began) = (request.clone(), world.moment());
        let mut first = pin!(self.client.execute(request));
        let reply = loop {
            match env::timeout(delay, &mut first).await {
                Some(reply) => break reply,
                None if hedge.take() => {
                    self.connector.meter.hedged(&this_file());
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
        Box::pin(self.send(request))
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use storage::{FileReader, Files};
    use telemetry::{Exposition, Source};

    use super::*;
    use crate::{Bucket, Hedging, Options, TAIL_BYTES};

    /// Size of the only file of the store.
    const SIZE: u64 = TAIL_BYTES + 1_000;

    /// A store of one file of zeros. It never answers some requests.
    #[derive(Default)]
    struct Store {
        /// Number of next requests that it does not answer.
        silent: AtomicUsize,
        /// Number of requests so far.
        requests: AtomicUsize,
        /// Whether it refuses all requests with a status 503.
        is_busy: AtomicBool,
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
                let take = |left: usize| left.checked_sub(1);
                if self.silent.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
                    continue;
                }
                let request = String::from_utf8_lossy(&buffer[..count]).to_ascii_lowercase();
                let reply = match ranged(&request) {
                    _ if self.is_busy.load(Ordering::Acquire) => {
                        b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n".to_vec()
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
                    None => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
                };
                if client.write_all(&reply).is_err() {
                    break;
                }
            }
        }
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
            region: Some("us-east-1".to_owned()),
            keys: Some(("a".to_owned(), "b".to_owned())),
            path_style: true,
            settle_time: Duration::from_secs(5),
            hedging,
            ..Options::new("bucket", "")
        })
        .expect("a client")
    }

    const ONE_IN_TEN: Hedging = Hedging { percent_max: 10.0, delay_min: Duration::from_millis(1) };

    fn hedged(bucket: &Bucket) -> f64 {
        let mut out = Exposition::default();
        bucket.show(&mut out);
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
