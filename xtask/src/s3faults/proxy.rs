//! A proxy between the server and its store that injects faults of one kind, or records the requests.
//!
//! Each connection has a thread, which reads a request whole, chooses its fate by the seed, and answers. Requests that
//! the store gets later ([`Act::Again`], [`Arrival::Late`]) are sent by one more thread, on connections of their own.

use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::kind::{Act, Arrival, Kind};
use super::listings::Listings;
use super::message::Message;
use super::request::{RequestKind, key, parameter};
use crate::random::Random;

/// How far listings are out of date.
const STALE: Duration = Duration::from_secs(3);
/// Maximum time for which a client is left without a reply.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Least and greatest time of a storm, and of the calm before it, in ms.
const STORM_MS: [u64; 2] = [1_000, 5_000];
const CALM_MS: [u64; 2] = [3_000, 9_000];
/// How many GET requests there are for each [slow](Delays::slow) one.
const SLOW_EVERY: u64 = 100;
/// How often the thread that sends late requests looks for one that is due.
const LOOK: Duration = Duration::from_millis(10);

/// The delays of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    /// Until the store gets a request again.
    pub(crate) again: Duration,
    /// Until the store gets a request whose client has given up.
    pub(crate) late: Duration,
    /// Until the store gets any request.
    pub(crate) each: Duration,
    /// Until the store gets one of [`SLOW_EVERY`] GET requests, chosen by the seed.
    pub(crate) slow: Duration,
}

/// A running proxy, which ends when the value is dropped.
pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    shared: Arc<Shared>,
}

/// A request that the store gets later.
struct Pending {
    due: Instant,
    request: Message,
    what: &'static str,
}

/// A request that the proxy has recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) kind: RequestKind,
    /// The key of the object; for a listing, its prefix.
    pub(crate) key: String,
    /// Time from the end of the request to the reply.
    pub(crate) took: Duration,
}

struct State {
    random: Random,
    requests: u64,
    /// All requests since the last call of [`Proxy::recorded`]; `None` if they are not recorded.
    recorded: Option<Vec<Recorded>>,
    /// Counts of faults by name and kind of request.
    injected: BTreeMap<(&'static str, RequestKind), u64>,
    /// Counts of late requests by name, kind of request and the store's status.
    arrived: BTreeMap<(&'static str, RequestKind, u16), u64>,
    pending: Vec<Pending>,
    in_storm: bool,
    /// The moment when a storm or a calm ends.
    weather_ends: Instant,
}

struct Shared {
    /// The address of the store.
    store: String,
    kind: Kind,
    delays: Delays,
    /// Whether faults are injected.
    injects: AtomicBool,
    ended: AtomicBool,
    state: Mutex<State>,
    listings: Mutex<Listings>,
}

/// A connection to the store.
type Upstream = BufReader<TcpStream>;

impl Proxy {
    /// Starts a proxy on a free port in front of the store at this URL.
    pub(crate) fn start(store: &str, kind: Kind, seed: u64, delays: Delays) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            store: store.trim_start_matches("http://").to_owned(),
            kind,
            delays,
            injects: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            state: Mutex::new(State {
                random: Random::new(seed),
                requests: 0,
                recorded: None,
                injected: BTreeMap::new(),
                arrived: BTreeMap::new(),
                pending: Vec::new(),
                in_storm: false,
                weather_ends: Instant::now() + Duration::from_millis(CALM_MS[1]),
            }),
            listings: Mutex::new(Listings::new(STALE)),
        });
        let later = Arc::clone(&shared);
        std::thread::spawn(move || later.send_late_requests());
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::Acquire) {
                    break;
                }
                let (Ok(client), serving) = (client, Arc::clone(&accepting)) else { continue };
                // A connection that breaks is what this proxy is for.
                std::thread::spawn(move || drop(serving.serve(client)));
            }
        });
        Ok(Proxy { endpoint, shared })
    }

    /// Starts a proxy that records requests and injects no faults.
    pub(crate) fn recording(store: &str) -> Result<Proxy> {
        Proxy::delaying(store, Delays::default())
    }

    /// Starts a proxy that records requests, and delays them as an object store far away would.
    pub(crate) fn delaying(store: &str, delays: Delays) -> Result<Proxy> {
        let proxy = Proxy::start(store, Kind::Mixed, 0, delays)?;
        proxy.settle();
        proxy.shared.state().recorded = Some(Vec::new());
        Ok(proxy)
    }

    /// Returns the requests since the last call, when none has come for `calm`.
    pub(crate) fn recorded(&self, calm: Duration) -> Vec<Recorded> {
        let mut count = self.shared.state().requests;
        loop {
            std::thread::sleep(calm);
            let mut state = self.shared.state();
            if state.requests == count {
                return state.recorded.as_mut().map(std::mem::take).unwrap_or_default();
            }
            count = state.requests;
        }
    }

    /// Injects no more faults. Returns when the store has got every request that was to arrive later.
    pub(crate) fn settle(&self) {
        self.shared.injects.store(false, Ordering::Release);
        while !self.shared.state().pending.is_empty() {
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the number of requests, and the injected faults by name and kind of request.
    pub(crate) fn report(&self) -> (u64, String) {
        let state = self.shared.state();
        let injected =
            state.injected.iter().map(|((what, of), count)| format!("{what} {} {count}", of.name()));
        let arrived = state
            .arrived
            .iter()
            .map(|((what, of, status), count)| format!("{what} {} answered {status}: {count}", of.name()));
        (state.requests, injected.chain(arrived).collect::<Vec<_>>().join(", "))
    }

    /// Returns the number of injected faults.
    pub(crate) fn injected(&self) -> u64 {
        self.shared.state().injected.values().sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // A connection wakes the thread that accepts them.
        let _woken = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of one connection until it ends.
    fn serve(&self, client: TcpStream) -> Result<()> {
        client.set_nodelay(true)?;
        let mut from = BufReader::new(client.try_clone()?);
        let mut to = client;
        let mut upstream = None;
        while let Some(request) = Message::request(&mut from)? {
            let Some(act) = self.fate_of(&request) else {
                let began = Instant::now();
                std::thread::sleep(self.delay_of(&request));
                let reply = self.forward(&mut upstream, &request)?;
                self.record(&request, began.elapsed());
                to.write_all(&reply.bytes())?;
                continue;
            };
            match act {
                Act::ErrorAfter => {
                    self.forward(&mut upstream, &request)?;
                    let error =
                        Message::error("500 Internal Server Error", "InternalError", request.method());
                    to.write_all(&error.bytes())?;
                }
                Act::ResetAfter { within_reply } => {
                    let reply = self.forward(&mut upstream, &request)?.bytes();
                    if within_reply {
                        to.write_all(&reply[..reply.len() / 2])?;
                    }
                    return to.shutdown(Shutdown::Both);
                }
                Act::Silence(arrival) => {
                    match arrival {
                        Arrival::AtOnce => drop(self.forward(&mut upstream, &request)?),
                        Arrival::Late => self.later("late", self.delays.late, &request),
                        Arrival::Never => {}
                    }
                    to.set_read_timeout(Some(SILENCE_MAX))?;
                    // Returns when the client has given up and closes the connection.
                    let _gone = from.read(&mut [0]);
                    return to.shutdown(Shutdown::Both);
                }
                Act::Twice { first_replies } => {
                    let (first, second) = std::thread::scope(|scope| {
                        let second = scope.spawn(|| self.forward(&mut None, &request));
                        (self.forward(&mut upstream, &request), second.join())
                    });
                    let second = second.unwrap_or_else(|_| Err(ErrorKind::Other.into()));
                    let reply = if first_replies { first } else { second };
                    to.write_all(&reply?.bytes())?;
                }
                Act::Again => {
                    let reply = self.forward(&mut upstream, &request)?;
                    self.later("again", self.delays.again, &request);
                    to.write_all(&reply.bytes())?;
                }
                Act::Refuse { status, code } => {
                    to.write_all(&Message::error(status, code, request.method()).bytes())?;
                }
                Act::NoRoute => to.write_all(&Message::no_route(request.method()).bytes())?,
                Act::StaleList => {
                    let mut reply = self.forward(&mut upstream, &request)?;
                    let (omitted, added) = self.listings().edit(&request, &mut reply, Instant::now());
                    let mut state = self.state();
                    for (what, count) in [("omitted objects in", omitted), ("deleted objects in", added)] {
                        *state.injected.entry((what, RequestKind::List)).or_default() += count;
                    }
                    drop(state);
                    to.write_all(&reply.bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Chooses what happens to a request, and counts it.
    fn fate_of(&self, request: &Message) -> Option<Act> {
        let mut state = self.state();
        state.requests += 1;
        if !self.injects.load(Ordering::Acquire) {
            return None;
        }
        if state.weather_ends <= Instant::now() {
            state.in_storm = !state.in_storm;
            let [least, most] = if state.in_storm { STORM_MS } else { CALM_MS };
            let time = least + state.random.below(most - least);
            state.weather_ends = Instant::now() + Duration::from_millis(time);
        }
        let in_storm = state.in_storm;
        let act = self.kind.strike(request, &mut state.random, in_storm)?;
        let what = match act {
            Act::ErrorAfter => "500 after",
            Act::ResetAfter { within_reply: false } => "reset before the reply to",
            Act::ResetAfter { within_reply: true } => "reset within the reply to",
            Act::Silence(Arrival::AtOnce) => "no reply to",
            Act::Silence(Arrival::Late) => "no reply and late",
            Act::Silence(Arrival::Never) => "never arrived",
            Act::Twice { .. } => "twice",
            Act::Again => "again",
            Act::Refuse { code, .. } => code,
            Act::NoRoute => "no route for",
            Act::StaleList => "stale",
        };
        *state.injected.entry((what, RequestKind::of(request))).or_default() += 1;
        Some(act)
    }

    /// Returns how long a request waits before the store gets it.
    fn delay_of(&self, request: &Message) -> Duration {
        let Delays { each, slow, .. } = self.delays;
        let is_slow = !slow.is_zero()
            && RequestKind::of(request) == RequestKind::Get
            && self.state().random.below(SLOW_EVERY) == 0;
        if is_slow { each + slow } else { each }
    }

    /// Records a request that was answered after `took`, if requests are recorded.
    fn record(&self, request: &Message, took: Duration) {
        if let Some(recorded) = &mut self.state().recorded {
            let (path, query) = request.target();
            let prefix = parameter(query, "prefix").unwrap_or_default();
            let key = Some(key(path)).filter(|key| !key.is_empty()).unwrap_or(prefix);
            recorded.push(Recorded { kind: RequestKind::of(request), key, took });
        }
    }

    /// Sends a request to the store and returns its reply. Connects first if there is no connection.
    fn forward(&self, upstream: &mut Option<Upstream>, request: &Message) -> Result<Message> {
        let mut connection = match upstream.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(&self.store)?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        connection.get_mut().write_all(&request.bytes())?;
        let reply = Message::reply(&mut connection, request.method())?;
        if reply.field("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close")) {
            *upstream = Some(connection);
        }
        if matches!(self.kind, Kind::StaleLogList | Kind::StaleList) && (200..300).contains(&reply.status()) {
            self.listings().record(request, Instant::now());
        }
        Ok(reply)
    }

    fn later(&self, what: &'static str, delay: Duration, request: &Message) {
        let due = Instant::now() + delay;
        self.state().pending.push(Pending { due, request: request.clone(), what });
    }

    fn send_late_requests(&self) {
        while !self.ended.load(Ordering::Acquire) {
            let now = Instant::now();
            let due = {
                let state = &self.state().pending;
                state.iter().position(|pending| pending.due <= now).map(|index| {
                    let Pending { request, what, .. } = &state[index];
                    (index, request.clone(), *what)
                })
            };
            let Some((index, request, what)) = due else {
                std::thread::sleep(LOOK);
                continue;
            };
            let status = self.forward(&mut None, &request).map_or(0, |reply| reply.status());
            let mut state = self.state();
            *state.arrived.entry((what, RequestKind::of(&request), status)).or_default() += 1;
            // It is removed when the store has answered, so that `settle` waits for the answer. New ones are appended.
            state.pending.remove(index);
        }
    }
}
