//! Runs one connection on its thread.
//!
//! The task repeats these steps as long as any of them makes progress:
//!
//! 1. Serve all complete frames of the input in this task, and append the answers that are ready to the output. The
//!    service may prefetch memory for the [upcoming requests](UpcomingRequests).
//! 2. Poll waiting calls that can continue, and calls that have just started to wait. By then all requests that arrived
//!    together have been started, so one write of the log serves all of them.
//! 3. Write the output, as much as the socket accepts. All answers of a round share a write.
//! 4. If the input has no complete frame any more, read from the socket. Until then further requests stay in the
//!    socket's buffer.
//!
//! After [`REQUESTS_PER_WRITE`] requests the task yields to the other connections of its thread. Steps 1 and 4 pause
//! while more output than [`Options::output_high`] is unsent, so answers that a client does not read take that much
//! memory and one answer more at most. If the answers of all connections use too much memory, the steps pause as long
//! as any output is unsent. A waiting call is always polled to its end, even if its client has left: other calls may
//! wait for a write that it has begun.
//!
//! Before step 4 reads the rest of a [large](crate::LargeBudget) request, it waits for a permit. Until then nothing
//! else is read from this connection, because requests arrive in order; calls that wait are still polled and answered.
//! If the steps pause, the connection leaves the queue for permits, so that it delays no other connection.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use env::{Moment, Stream};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::Shared;
use crate::counters::{Shard, count};
use crate::flight::{Flight, FutureResult};
use crate::{
    Answer, Call, Ending, Exception, LargePermit, LargeWait, Output, Reply, Request, Session, Share, Step,
    UpcomingRequests, class,
};

/// Minimum free room for a read, in bytes.
const READ_MIN: usize = 16 << 10;
/// Maximum free room for a read, in bytes: the step by which the buffer of a large request grows.
const READ_MAX: usize = 1 << 20;
/// Number of requests after which a connection writes its answers and lets the thread's other connections run, even if
/// it has more input. The runtime polls its sockets after about 60 such turns. If many clients flood the server, these
/// turns must not take too long.
const REQUESTS_PER_WRITE: usize = 128;
/// Number of rounds without prefetching after a round in which the service prefetched nothing. The service prefetches
/// nothing for puts, and inspecting them took one percent of the time of a put.
const PREFETCH_SKIPS: u32 = 15;
/// Maximum number of slices in one write to the socket.
const SLICES: usize = 32;

/// A waiting call.
struct Waiting {
    call_id: u32,
    size: u64,
    /// Keeps the permit of a large request until the call is answered.
    _permit: Option<LargePermit>,
}

/// Whether the large request at the start of the input has its permit.
enum Admission {
    /// The request is small, or the connection has not asked for a permit yet.
    None,
    Waiting(LargeWait),
    /// The permit was granted at this moment.
    Granted(LargePermit, Moment),
}

/// The result of serving the input once.
struct Served {
    requests: usize,
    /// Whether any request was served or the session made progress.
    moved: bool,
    /// Whether the input has no complete frame any more.
    starved: bool,
}

enum Phase {
    /// The connection reads and answers.
    Serving,
    /// The connection reads no more. It answers the waiting calls, and then ends in this way.
    Ending(Ending),
    /// Everything was sent and the socket is shut down. Up to this many bytes are still read and discarded.
    Draining(u64),
}

pub(super) struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    shard: Arc<Shard>,
    session: Session,
    input: BytesMut,
    output: Output,
    /// The share of the answers' budget that counts the output.
    share: Share,
    /// Whether serving and reading pause because too much output is unsent.
    held_back: bool,
    flight: Flight<Waiting, Result<Reply, Exception>>,
    phase: Phase,
    /// Whether the client has left, so that nothing can be written any more.
    broken: bool,
    /// Upper limit for the number of requests at the front of the input that the service has inspected for prefetching.
    prefetched: usize,
    /// Number of further rounds in which the service does not inspect requests, because it prefetched nothing the last
    /// time.
    prefetch_skips: u32,
    /// Approximate number of bytes that the next step still needs.
    wanted: usize,
    admission: Admission,
    received: Moment,
    /// When the first bytes of the request arrived that the input has only a part of; later if the connection has paused
    /// meanwhile. `None` if there is no such request.
    begun: Option<Moment>,
    accepted: Moment,
    /// When the socket stopped accepting output; `None` while it accepts it.
    stalled: Option<Moment>,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    remote: SocketAddr,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        remote: SocketAddr,
        shared: Arc<Shared>,
        shard: Arc<Shard>,
    ) -> Connection {
        let session =
            Session::new(shared.services.clone(), shared.options.limits(), shared.answers.clone(), remote);
        let share = shared.answers.share();
        let timer = Box::pin(env::sleep(shared.options.handshake_max));
        let received = shared.world.moment();
        Connection {
            stream,
            shared,
            shard,
            session,
            input: BytesMut::new(),
            output: Output::default(),
            share,
            held_back: false,
            flight: Flight::new(),
            phase: Phase::Serving,
            broken: false,
            prefetched: 0,
            prefetch_skips: 0,
            wanted: 0,
            admission: Admission::None,
            received,
            begun: None,
            accepted: received,
            stalled: None,
            timer,
            remote,
        }
    }

    pub(super) async fn run(mut self) {
        let mut stopping = self.shared.stopping.subscribe();
        let served = poll_fn(|context| self.poll(context));
        tokio::select! {
            biased;
            () = served => return,
            // The sender is owned by `shared`, so this wait does not fail.
            _stopped = stopping.wait_for(|stop| *stop) => {}
        }
        if matches!(self.phase, Phase::Serving) {
            self.phase = Phase::Ending(Ending::Close);
        }
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut turn = 0;
        loop {
            let mut moved = false;
            match self.phase {
                Phase::Serving => {
                    if turn >= REQUESTS_PER_WRITE {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    let served = self.serve();
                    turn += served.requests;
                    moved |= served.moved;
                    moved |= self.go_on(context);
                    moved |= self.write(context);
                    if self.broken {
                        self.phase = Phase::Ending(Ending::Close);
                        moved = true;
                    } else if served.starved && matches!(self.phase, Phase::Serving) {
                        if self.holds_back() {
                            self.leave_queue();
                            // The client cannot send the rest meanwhile.
                            self.begun = None;
                        } else if self.is_admitted(context) {
                            moved |= self.read(context);
                        }
                    }
                }
                Phase::Ending(ending) => {
                    self.admission = Admission::None;
                    moved |= self.go_on(context);
                    moved |= self.write(context);
                    if self.flight.len() == 0 && (self.output.is_empty() || self.broken) {
                        match ending {
                            Ending::Drain(length) if !self.broken => {
                                ready!(self.shut_down(context));
                                self.phase = Phase::Draining(length);
                                self.timer = Box::pin(env::sleep(self.shared.options.drain_max));
                                moved = true;
                            }
                            _ => {
                                // The client may have closed the connection already, so an error is ignored.
                                let _gone = ready!(Pin::new(&mut self.stream).poll_shutdown(context));
                                return Poll::Ready(());
                            }
                        }
                    }
                }
                Phase::Draining(length) => {
                    ready!(self.drain(context, length));
                    return Poll::Ready(());
                }
            }
            if self.timer.as_mut().poll(context).is_ready() {
                if self.expired() {
                    return Poll::Ready(());
                }
                moved = true;
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Makes step 2 of a round: polls waiting calls. Returns whether any call ran.
    fn go_on(&mut self, context: &mut Context<'_>) -> bool {
        let Connection { flight, output, share, shared, shard, session, remote, .. } = self;
        flight.poll(context, |waiting, ended| {
            shared.gauges.calls.fetch_sub(1, Ordering::Relaxed);
            shared.gauges.calls_size.fetch_sub(waiting.size, Ordering::Relaxed);
            let result = unpanic(ended, shard, *remote);
            answer(waiting.call_id, result, session, shared, share, output);
        })
    }

    /// Makes step 1 of a round: serves complete frames.
    fn serve(&mut self) -> Served {
        let mut served = 0;
        while served < REQUESTS_PER_WRITE && !self.holds_back() {
            if self.prefetched == 0
                && let Some((_, service)) = self.session.opened()
                && UpcomingRequests::of(&self.input).is_several()
            {
                if self.prefetch_skips > 0 {
                    self.prefetch_skips -= 1;
                } else {
                    let telling = || service.prefetch(UpcomingRequests::of(&self.input));
                    // A panic here fails no call, since prefetching has no effect on results.
                    let was_of_use = env::catch_unwind(telling).unwrap_or_else(|_| {
                        count(&self.shard.panics, 1);
                        tracing::error!(remote = %self.remote, "a service panicked while it prefetched");
                        false
                    });
                    self.prefetch_skips = if was_of_use { 0 } else { PREFETCH_SKIPS };
                }
                self.prefetched = UpcomingRequests::TOGETHER;
            }
            let before = self.output.len();
            match self.session.next(&mut self.input, &mut self.output) {
                Step::Starved(wanted) => {
                    (self.wanted, self.prefetched) = (wanted, 0);
                    if !self.input.is_empty() {
                        self.begun.get_or_insert(self.received);
                    }
                    let moved = served > 0 || self.output.len() > before;
                    return Served { requests: served, moved, starved: true };
                }
                Step::Opened => {
                    let (info, _) = self.session.opened().expect("it says so");
                    tracing::debug!(remote = %self.remote, service = %info.service, "connection opened");
                    self.arm();
                }
                Step::Request(request) => {
                    self.prefetched = self.prefetched.saturating_sub(1);
                    let large = request.size > READ_MAX;
                    let permit = match std::mem::replace(&mut self.admission, Admission::None) {
                        Admission::Granted(permit, _) => Some(permit),
                        Admission::None | Admission::Waiting(_) => None,
                    };
                    self.call(request, permit);
                    if large {
                        // The buffer was large because of one request. It is replaced, so that the memory is not kept
                        // for small requests.
                        self.input = BytesMut::from(&self.input[..]);
                    }
                }
                Step::Ended(ending) => {
                    tracing::debug!(remote = %self.remote, "connection refused or over");
                    self.phase = Phase::Ending(ending);
                    return Served { requests: served, moved: true, starved: false };
                }
            }
            served += 1;
            self.begun = None;
        }
        Served { requests: served, moved: served > 0, starved: false }
    }

    fn call(&mut self, request: Request, permit: Option<LargePermit>) {
        let Connection { flight, output, share, shared, shard, session, received, remote, .. } = self;
        let deadline = request.timeout.map(|timeout| received.plus(timeout));
        if deadline.is_some_and(|deadline| shared.world.recent_moment() > deadline) {
            count(&shard.calls_expired, 1);
            return;
        }
        let (calls, size) = (&shared.gauges.calls, &shared.gauges.calls_size);
        let full =
            if size.load(Ordering::Relaxed) + request.held as u64 > shared.options.calls_size_max as u64 {
                Some("is hbase.ipc.server.max.callqueue.size too small?")
            } else if calls.load(Ordering::Relaxed) >= shared.options.calls_max as u64 {
                Some("too many items queued ?")
            } else if shared.answers.is_over() {
                Some("is bellows.ipc.server.answers.size.max too small, or do clients leave answers unread?")
            } else {
                None
            };
        if let Some(why) = full {
            count(&shard.calls_refused, 1);
            let exception = Exception::new(class::CALL_QUEUE_TOO_BIG, format!("Call queue is full, {why}"));
            return answer(request.call_id, Err(exception), session, shared, share, output);
        }
        count(&shard.calls, 1);
        let (info, service) = session.opened().expect("requests come after the header");
        let (call_id, bytes) = (request.call_id, request.held as u64);
        let call = Call {
            method: request.method,
            param: request.param,
            cells: request.cells,
            connection: Arc::clone(info),
            priority: request.priority,
            timeout: request.timeout,
            deadline,
            received: *received,
            size: request.size,
            attributes: request.attributes,
            traceparent: request.traceparent,
            permit: permit.clone(),
        };
        let result = match env::catch_unwind(|| service.call(call)) {
            Ok(Answer::Now(result)) => {
                count(&shard.calls_inline, 1);
                result
            }
            Ok(Answer::Later(future)) => {
                flight.push(Waiting { call_id, size: bytes, _permit: permit }, future);
                calls.fetch_add(1, Ordering::Relaxed);
                size.fetch_add(bytes, Ordering::Relaxed);
                return;
            }
            Err(panic) => unpanic(Err(panic), shard, *remote),
        };
        answer(call_id, result, session, shared, share, output);
    }

    /// Whether too much output is unsent; if so, [`write`](Self::write) reports when that ends.
    fn holds_back(&mut self) -> bool {
        self.held_back = match self.output.len() {
            0 => false,
            _ if self.shared.answers.is_short() => true,
            waiting => waiting > self.shared.options.output_high,
        };
        self.held_back
    }

    /// Makes step 3 of a round: writes output. Returns whether enough was written for serving to continue after a
    /// pause.
    fn write(&mut self, context: &mut Context<'_>) -> bool {
        while !self.output.is_empty() && !self.broken {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = self.output.slices(&mut slices);
            match Pin::new(&mut self.stream).poll_write_vectored(context, &slices[..used]) {
                Poll::Ready(Ok(sent)) if sent > 0 => {
                    count(&self.shard.writes, 1);
                    count(&self.shard.bytes_sent, sent as u64);
                    self.output.advance(sent);
                    self.stalled = None;
                }
                Poll::Ready(result) => {
                    let error = result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    tracing::debug!(remote = %self.remote, %error, "cannot write");
                    self.broken = true;
                }
                Poll::Pending => {
                    if self.stalled.is_none() {
                        self.stalled = Some(self.shared.world.moment());
                        self.arm();
                    }
                    break;
                }
            }
        }
        self.share.set(self.output.len() as u64);
        self.held_back && !self.holds_back()
    }

    /// Whether the next request may be read: it is small, or has its permit.
    fn is_admitted(&mut self, context: &mut Context<'_>) -> bool {
        let length = (self.input.len() + self.wanted) as u64;
        let budget = self.shared.answers.large();
        if !budget.is_large(length) {
            return true;
        }
        if matches!(self.admission, Admission::None) {
            self.admission = Admission::Waiting(budget.acquire(length));
        }
        let Admission::Waiting(wait) = &mut self.admission else { return true };
        match Pin::new(wait).poll(context) {
            Poll::Ready(permit) => {
                // The client could not send while the request waited, so its time limit begins now.
                self.received = self.shared.world.moment();
                self.admission = Admission::Granted(permit, self.received);
                self.arm();
                true
            }
            Poll::Pending => false,
        }
    }

    /// Whether the request that arrives is a large one that has its permit.
    fn has_permit(&self) -> bool {
        matches!(self.admission, Admission::Granted(..))
    }

    fn leave_queue(&mut self) {
        if matches!(self.admission, Admission::Waiting(_)) {
            self.admission = Admission::None;
        }
    }

    /// Makes step 4 of a round: reads more. Returns whether any bytes arrived.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        // Makes room for the missing bytes, but not for more than was received so far: a length that the client claims
        // allocates nothing.
        let room = self.wanted.min(self.input.len().max(READ_MIN)).clamp(READ_MIN, READ_MAX);
        if self.input.capacity() - self.input.len() < READ_MIN {
            // A request with a permit gets all of its room at once. A buffer that grows would leave its smaller
            // predecessors behind.
            self.input.reserve(if self.has_permit() { self.wanted.max(room) } else { room });
        }
        match poll_read(&mut self.stream, context, &mut self.input) {
            Poll::Pending => false,
            Poll::Ready(Ok(0)) => {
                // A partial frame is lost; complete frames were served. The client may still read pending answers.
                self.phase = Phase::Ending(Ending::Close);
                true
            }
            Poll::Ready(Ok(length)) => {
                count(&self.shard.reads, 1);
                count(&self.shard.bytes_received, length as u64);
                self.received = self.shared.world.moment();
                true
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(remote = %self.remote, %error, "cannot read");
                self.broken = true;
                self.phase = Phase::Ending(Ending::Close);
                true
            }
        }
    }

    fn shut_down(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if ready!(Pin::new(&mut self.stream).poll_shutdown(context)).is_err() {
            self.broken = true;
        }
        Poll::Ready(())
    }

    /// Reads and discards input, so that the system does not reset the connection because of unread bytes before the
    /// client has read our last answer.
    fn drain(&mut self, context: &mut Context<'_>, mut left: u64) -> Poll<()> {
        self.input = BytesMut::with_capacity(READ_MIN);
        loop {
            if left == 0 || self.broken || self.timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            self.input.clear();
            match ready!(poll_read(&mut self.stream, context, &mut self.input)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(length) => {
                    count(&self.shard.bytes_received, length as u64);
                    left = left.saturating_sub(length as u64);
                    self.phase = Phase::Draining(left);
                }
            }
        }
    }

    /// Sets the connection's timer to the earliest moment at which one of its time limits could be exceeded.
    fn arm(&mut self) {
        let options = &self.shared.options;
        let now = self.shared.world.moment();
        let until = |since: Moment, limit: Duration| limit.saturating_sub(now.since(since));
        let mut next = if self.session.opened().is_none() {
            until(self.accepted, options.handshake_max)
        } else {
            let left = until(self.received, options.idle_max);
            let left = if left.is_zero() { options.idle_max / 2 } else { left };
            let stalled = until(self.received, options.read_stall_max);
            if stalled.is_zero() { left } else { left.min(stalled) }
        };
        if let Admission::Granted(_, since) = &self.admission {
            next = next.min(until(*since, options.large_read_max));
        }
        if let Some(stalled) = self.stalled {
            // The memory for answers may run short at any time, and then the shorter time limit applies. So the
            // connection wakes up for both limits.
            let short = until(stalled, options.write_stall_short);
            let short = if short.is_zero() { options.write_stall_short } else { short };
            next = next.min(until(stalled, options.write_stall_max).min(short));
        }
        self.timer = Box::pin(env::sleep(next.max(Duration::from_millis(1))));
    }

    /// Checks the time limits; returns `true` when the connection must end at once. A connection with waiting calls
    /// does not end yet, because they must be polled to their end.
    fn expired(&mut self) -> bool {
        let options = &self.shared.options;
        let now = self.shared.world.moment();
        let quiet = now.since(self.received);
        let is_late = |begun| now.since(begun) >= options.read_stall_max;
        let crowded =
            || self.shared.gauges.connections_open.load(Ordering::Relaxed) > options.idle_threshold as u64;
        let answers = &self.shared.answers;
        let others_wait = self.share.has_permit() && answers.large().waiting() > 0;
        let stall_max = match answers.is_short() || others_wait {
            true => options.write_stall_max.min(options.write_stall_short),
            false => options.write_stall_max,
        };
        let reason = if self.stalled.is_some_and(|since| now.since(since) >= stall_max) {
            Some("it leaves answers unread")
        } else if self.session.opened().is_none() {
            (now.since(self.accepted) >= options.handshake_max)
                .then_some("it sent no connection header in time")
        } else if matches!(&self.admission, Admission::Granted(_, since) if now.since(*since) >= options.large_read_max)
        {
            Some("it sent a large request too slowly (bellows.ipc.server.large.read.timeout)")
        } else if matches!(self.admission, Admission::Waiting(_)) {
            // Here the client waits for an answer of this server, so there is no time limit.
            None
        } else if self.output.is_empty() && quiet >= options.read_stall_max && !self.input.is_empty() {
            Some("it stopped in the middle of a request")
        } else if self.output.is_empty() && !self.has_permit() && self.begun.is_some_and(is_late) {
            Some("it sent a request too slowly (bellows.ipc.server.read.timeout)")
        } else if self.flight.len() == 0 && self.output.is_empty() && quiet >= options.idle_max && crowded() {
            Some("it is idle and there are many others")
        } else {
            None
        };
        match reason {
            Some(reason) => {
                count(&self.shard.connections_expired, 1);
                tracing::info!(remote = %self.remote, "connection closed: {reason}");
                self.broken = true;
                self.phase = Phase::Ending(Ending::Close);
                self.timer = Box::pin(std::future::pending());
                self.flight.len() == 0
            }
            None => {
                self.arm();
                false
            }
        }
    }
}

/// Appends the answer of a call to the output.
fn answer(
    call_id: u32,
    result: Result<Reply, Exception>,
    session: &Session,
    shared: &Shared,
    share: &mut Share,
    output: &mut Output,
) {
    let (info, _) = session.opened().expect("calls come after the header");
    let written = result.and_then(|mut reply| {
        reply.cells = info.compressor.compress(reply.cells);
        // The answer's size is final only now, so the memory that was reserved for it is passed on here.
        let mut has_permit = false;
        if let Some(made) = reply.share.take() {
            has_permit = made.has_permit();
            share.take_over(made);
        }
        let (bytes, large) = ((reply.message.len() + reply.cells.len()) as u64, shared.answers.large());
        if large.is_large(bytes) && !has_permit {
            // This answer is in memory already, so it does not wait, but other requests wait for it.
            share.keep(large.take(bytes));
        }
        output.put_reply(call_id, reply)
    });
    if let Err(exception) = written {
        shared.gauges.exception(&exception.class);
        output.put_exception(call_id, &exception);
    }
}

/// Converts a panic to an exception, so that it fails one call and not the connection.
fn unpanic(
    ended: FutureResult<Result<Reply, Exception>>,
    shard: &Shard,
    remote: SocketAddr,
) -> Result<Reply, Exception> {
    ended.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        count(&shard.panics, 1);
        tracing::error!(%remote, panic = %text, "a service panicked");
        Err(Exception::io(format!("internal error: {text}")))
    })
}

/// Reads into the free room of `input`; `Ok(0)` is the end of the stream.
///
/// The future keeps no state between two polls, so each call may create a new future.
fn poll_read(
    stream: &mut Stream,
    context: &mut Context<'_>,
    input: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    pin!(stream.read_buf(input)).poll(context)
}
