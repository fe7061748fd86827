//! TCP between simulated machines.
//!
//! Bytes of one direction arrive in order, each segment after the latency of its link. A lost segment is sent again
//! later, so loss is delay. A partition delays segments, and those that overtake an earlier one wait for it; after [`GIVE_UP`] the sender gets an error. A killed process
//! resets its connections. A machine that lost power does not: its peers have half-open connections until it is back
//! and resets them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use env::simulation::{Acceptor, Boxed, Socket};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::random::Random;
use crate::scheduler::{Health, MachineId, Scheduler, try_scheduler};

/// Time after which the sender's system stops repeating a segment, in ns.
const GIVE_UP: u64 = 20_000_000_000;
/// Maximum number of bytes that a vectored write takes at once.
const GATHERED_MAX: usize = 64 << 10;
/// First pause before a segment is sent again, in ns.
const SEND_AGAIN: u64 = 200_000_000;

/// The present quality of the link from one machine to another.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Latency in ns: the minimum, and the maximum random addition.
    pub latency: (u64, u64),
    /// Number of lost segments in 1,000.
    pub lost_of_1000: u64,
    /// Whether the link is cut.
    pub is_cut: bool,
    /// Bytes a second; 0 for no limit.
    pub rate: u64,
}

impl Default for Link {
    fn default() -> Link {
        Link { latency: (20_000, 200_000), lost_of_1000: 0, is_cut: false, rate: 0 }
    }
}

/// The links, listeners and connections of all machines.
pub(crate) struct Network {
    random: Random,
    links: BTreeMap<(MachineId, MachineId), Link>,
    listeners: BTreeMap<SocketAddr, Arc<Mutex<Backlog>>>,
    connections: BTreeMap<u64, Arc<Connection>>,
    next: u64,
    next_port: u16,
}

#[derive(Debug, Default)]
struct Backlog {
    waiting: VecDeque<(End, SocketAddr)>,
    acceptor: Option<Waker>,
}

/// A connection with its two ends; end 0 has dialled.
#[derive(Debug)]
struct Connection {
    number: u64,
    machines: [MachineId; 2],
    addresses: [SocketAddr; 2],
    /// The bytes under way to each end, and those that arrived.
    pipes: Mutex<[Pipe; 2]>,
}

#[derive(Debug, Default)]
struct Pipe {
    arrived: VecDeque<u8>,
    /// Number of bytes that were written and not read.
    unread: usize,
    window: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Arrival time of the last segment, in ns.
    last_arrival: u64,
    /// Number of packets that were sent to this end.
    sent: u64,
    /// Number of packets that were delivered to this end.
    delivered: u64,
    /// Packets that came before an earlier one, by number.
    early: BTreeMap<u64, Load>,
    /// Whether the end of the stream has arrived.
    ended: bool,
    /// Whether the writer has ended the stream.
    closing: bool,
    /// Whether the reader's end is closed.
    is_closed: bool,
    /// The error with which this end sees the connection broken.
    broken: Option<io::ErrorKind>,
}

/// A segment or event under way.
pub(crate) struct Packet {
    connection: u64,
    /// The end that receives the packet.
    to: usize,
    /// The number of the packet among those of its connection to this end.
    number: u64,
    load: Load,
    /// Time at which the packet was first sent, in ns.
    sent: u64,
    again_after: u64,
}

#[derive(Debug)]
enum Load {
    Dial(DialState),
    Bytes(Vec<u8>),
    End,
    Reset(io::ErrorKind),
}

type DialState = Arc<Mutex<Dialling>>;

#[derive(Debug)]
struct Dialling {
    connection: Option<Arc<Connection>>,
    outcome: Option<Result<(), io::ErrorKind>>,
    waker: Option<Waker>,
    /// Whether the event is an answer to the connection's opening.
    is_answer: bool,
}

impl Packet {
    pub(crate) fn digest(&self) -> u64 {
        let size = match &self.load {
            Load::Bytes(bytes) => bytes.len() as u64,
            Load::Dial(_) => 1 << 40,
            Load::End => 2 << 40,
            Load::Reset(_) => 3 << 40,
        };
        (self.connection << 2 | self.to as u64) ^ size << 20
    }
}

impl Network {
    pub(crate) fn new(random: Random) -> Network {
        Network {
            random,
            links: BTreeMap::new(),
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 1,
            next_port: 40_000,
        }
    }

    pub(crate) fn link(&mut self, from: MachineId, to: MachineId) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.listeners.clear();
        self.connections.clear();
    }

    /// Returns the duration of sending `bytes` bytes now.
    fn delay(&mut self, from: MachineId, to: MachineId, bytes: usize) -> u64 {
        let link = *self.link(from, to);
        let mut delay = link.latency.0 + self.random.below(link.latency.1 + 1);
        // A rate of zero means no limit, so nothing is added.
        delay += (bytes as u64 * 1_000_000_000).checked_div(link.rate).unwrap_or(0);
        let mut again = SEND_AGAIN;
        while self.random.below(1_000) < link.lost_of_1000 && again < GIVE_UP {
            delay += again;
            again *= 2;
        }
        delay
    }

    fn is_cut(&self, from: MachineId, to: MachineId) -> bool {
        self.links.get(&(from, to)).is_some_and(|link| link.is_cut)
    }
}

/// Sends bytes, or the beginning or the end of the connection, to one of its two machines. They arrive there in the
/// order in which they were sent.
fn send(scheduler: &Scheduler, connection: &Connection, to: usize, load: Load) {
    let now = scheduler.now();
    let size = if let Load::Bytes(bytes) = &load { bytes.len() } else { 0 };
    let mut network = scheduler.network.borrow_mut();
    let delay = network.delay(connection.machines[1 - to], connection.machines[to], size);
    drop(network);
    let (arrival, number) = {
        let mut pipes = connection.pipes.lock();
        let pipe = &mut pipes[to];
        let arrival = (now + delay).max(pipe.last_arrival + 1);
        pipe.last_arrival = arrival;
        let number = pipe.sent;
        // A reset waits for nothing, and nothing waits for it.
        pipe.sent += u64::from(!matches!(load, Load::Reset(_)));
        (arrival, number)
    };
    let packet =
        Packet { connection: connection.number, to, number, load, sent: now, again_after: SEND_AGAIN };
    scheduler.send_after(arrival - now, packet);
}

/// Delivers a packet. If its link is cut or its receiver has no power, sends it again later; after [`GIVE_UP`] the
/// sender gets an error instead.
pub(crate) fn deliver(scheduler: &Scheduler, mut packet: Packet) {
    if let Load::Dial(state) = &packet.load {
        let state = Arc::clone(state);
        return deliver_dial(scheduler, packet, &state);
    }
    let connection = scheduler.network.borrow().connections.get(&packet.connection).cloned();
    let Some(connection) = connection else { return };
    let (from, to) = (connection.machines[1 - packet.to], connection.machines[packet.to]);
    let is_cut = scheduler.network.borrow().is_cut(from, to);
    if is_cut || scheduler.health(to) == Health::Dark {
        if matches!(packet.load, Load::Reset(_)) {
            return;
        }
        if scheduler.now() - packet.sent > GIVE_UP {
            scheduler.count("network: a sender gave up");
            return break_end(&connection, 1 - packet.to, io::ErrorKind::TimedOut);
        }
        let again = packet.again_after;
        packet.again_after = (again * 2).min(3_000_000_000);
        return scheduler.send_after(again, packet);
    }
    if let Load::Reset(kind) = packet.load {
        return break_end(&connection, packet.to, kind);
    }
    let woken = {
        let mut pipes = connection.pipes.lock();
        let pipe = &mut pipes[packet.to];
        if pipe.is_closed {
            let is_end = matches!(packet.load, Load::End);
            drop(pipes);
            if !is_end {
                let reset = Load::Reset(io::ErrorKind::ConnectionReset);
                send(scheduler, &connection, 1 - packet.to, reset);
            }
            return;
        }
        if packet.number != pipe.delivered {
            env::sometimes("network: a segment waited for an earlier one");
        }
        pipe.early.insert(packet.number, packet.load);
        while let Some(load) = pipe.early.remove(&pipe.delivered) {
            pipe.delivered += 1;
            match load {
                Load::Bytes(bytes) => pipe.arrived.extend(bytes),
                Load::End => pipe.ended = true,
                Load::Reset(_) | Load::Dial(_) => unreachable!("handled above"),
            }
        }
        pipe.reader.take()
    };
    if let Some(woken) = woken {
        woken.wake();
    }
}

/// Breaks a connection for one end, which can read and write nothing any more.
fn break_end(connection: &Connection, end: usize, kind: io::ErrorKind) {
    let woken = {
        let mut pipes = connection.pipes.lock();
        pipes[end].broken.get_or_insert(kind);
        [pipes[end].reader.take(), pipes[1 - end].writer.take()]
    };
    woken.into_iter().flatten().for_each(Waker::wake);
}

fn deliver_dial(scheduler: &Scheduler, mut packet: Packet, state: &DialState) {
    let connection = scheduler.network.borrow().connections.get(&packet.connection).cloned();
    let Some(connection) = connection else { return };
    let is_answer = state.lock().is_answer;
    let (from, to) =
        (connection.machines[usize::from(is_answer)], connection.machines[usize::from(!is_answer)]);
    let is_cut = scheduler.network.borrow().is_cut(from, to);
    if is_cut || scheduler.health(to) == Health::Dark {
        if scheduler.now() - packet.sent > GIVE_UP {
            state.lock().outcome = Some(Err(io::ErrorKind::TimedOut));
        } else {
            let again = packet.again_after.max(1_000_000_000);
            packet.again_after = again * 2;
            return scheduler.send_after(again, packet);
        }
    } else if !is_answer {
        let backlog = scheduler.network.borrow().listeners.get(&connection.addresses[1]).cloned();
        let outcome = match backlog {
            Some(backlog) if scheduler.health(to) != Health::Killed => {
                let end = End { connection: Arc::clone(&connection), end: 1 };
                let mut backlog = backlog.lock();
                backlog.waiting.push_back((end, connection.addresses[0]));
                if let Some(acceptor) = backlog.acceptor.take() {
                    acceptor.wake();
                }
                Ok(())
            }
            _ => Err(io::ErrorKind::ConnectionRefused),
        };
        let delay = scheduler.network.borrow_mut().delay(to, from, 0);
        let mut dialling = state.lock();
        (dialling.is_answer, dialling.outcome) = (true, Some(outcome));
        drop(dialling);
        return scheduler.send_after(delay, packet);
    }
    let waker = {
        let mut dialling = state.lock();
        dialling.is_answer = true;
        if dialling.outcome == Some(Ok(())) {
            dialling.connection = Some(connection);
        }
        dialling.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Connects from a machine to an address. Fails if no machine has the address, nobody listens there, or no answer comes
/// within [`GIVE_UP`].
pub(crate) fn dial(
    scheduler: &Scheduler,
    from: MachineId,
    address: SocketAddr,
) -> Boxed<io::Result<Box<dyn Socket>>> {
    let Some(to) = MachineId::of(address) else {
        return Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) });
    };
    let (connection, delay) = {
        let mut network = scheduler.network.borrow_mut();
        let number = network.next;
        network.next += 1;
        network.next_port = network.next_port.checked_add(1).unwrap_or(40_000);
        let own = SocketAddr::new(from.ip(), network.next_port);
        let window = network.random.spread(4 << 10, 1 << 20) as usize;
        let pipe = || Pipe { window, ..Pipe::default() };
        let connection = Arc::new(Connection {
            number,
            machines: [from, to],
            addresses: [own, address],
            pipes: Mutex::new([pipe(), pipe()]),
        });
        network.connections.insert(number, Arc::clone(&connection));
        (connection, network.delay(from, to, 0))
    };
    let state =
        Arc::new(Mutex::new(Dialling { connection: None, outcome: None, waker: None, is_answer: false }));
    let packet = Packet {
        connection: connection.number,
        to: 1,
        number: 0,
        load: Load::Dial(Arc::clone(&state)),
        sent: scheduler.now(),
        again_after: SEND_AGAIN,
    };
    scheduler.send_after(delay, packet);
    // If the caller drops the future, this end is dropped, too, which closes the connection.
    let end = End { connection, end: 0 };
    Box::pin(async move {
        std::future::poll_fn(|context| {
            let mut dialling = state.lock();
            match (dialling.outcome, dialling.is_answer) {
                (Some(Err(kind)), true) => Poll::Ready(Err(io::Error::from(kind))),
                (Some(Ok(())), true) if dialling.connection.is_some() => Poll::Ready(Ok(())),
                _ => {
                    dialling.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        Ok(Box::new(end) as Box<dyn Socket>)
    })
}

/// Listens on a machine, at a new port if the port of `address` is 0. Fails if the port is in use.
pub(crate) fn listen(
    scheduler: &Scheduler,
    machine: MachineId,
    address: SocketAddr,
) -> io::Result<Box<dyn Acceptor>> {
    let mut network = scheduler.network.borrow_mut();
    let mut local = SocketAddr::new(machine.ip(), address.port());
    if address.port() == 0 {
        network.next_port = network.next_port.checked_add(1).unwrap_or(40_000);
        local.set_port(network.next_port);
    }
    if network.listeners.contains_key(&local) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let backlog = Arc::<Mutex<Backlog>>::default();
    network.listeners.insert(local, Arc::clone(&backlog));
    Ok(Box::new(Listening { local, backlog }))
}

/// Ends the connections and listeners of a machine that was killed or lost power.
pub(crate) fn machine_is_gone(scheduler: &Scheduler, machine: MachineId, how: Health) {
    let (gone, backlogs): (Vec<_>, Vec<_>) = {
        let mut network = scheduler.network.borrow_mut();
        let of_machine = |address: &SocketAddr| MachineId::of(*address) == Some(machine);
        let backlogs = network.listeners.iter().filter(|(address, _)| of_machine(address));
        let backlogs = backlogs.map(|(_, backlog)| Arc::clone(backlog)).collect();
        network.listeners.retain(|address, _| !of_machine(address));
        let gone = network.connections.values().filter(|connection| connection.machines.contains(&machine));
        (gone.cloned().collect(), backlogs)
    };
    for connection in gone {
        for end in 0..2 {
            if connection.machines[end] == machine {
                {
                    let mut pipes = connection.pipes.lock();
                    pipes[end].is_closed = true;
                    // The objects are leaked. Their destructors could touch state that a dead thread has left half
                    // changed.
                    std::mem::forget((pipes[end].reader.take(), pipes[1 - end].writer.take()));
                    pipes[1 - end].closing = true;
                }
                if how == Health::Killed {
                    send(scheduler, &connection, 1 - end, Load::Reset(io::ErrorKind::ConnectionReset));
                }
            }
        }
    }
    for backlog in backlogs {
        std::mem::forget(backlog.lock().acceptor.take());
        let waiting = std::mem::take(&mut backlog.lock().waiting);
        drop(waiting);
    }
}

#[derive(Debug)]
struct Listening {
    local: SocketAddr,
    backlog: Arc<Mutex<Backlog>>,
}

impl Acceptor for Listening {
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Socket>, SocketAddr)>> {
        let mut backlog = self.backlog.lock();
        match backlog.waiting.pop_front() {
            Some((end, remote)) => Poll::Ready(Ok((Box::new(end), remote))),
            None => {
                backlog.acceptor = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(scheduler) = try_scheduler() else { return };
        let mut network = scheduler.network.borrow_mut();
        if network.listeners.get(&self.local).is_some_and(|backlog| Arc::ptr_eq(backlog, &self.backlog)) {
            network.listeners.remove(&self.local);
        }
        drop(network);
        let waiting = std::mem::take(&mut self.backlog.lock().waiting);
        drop(waiting);
    }
}

/// One end of a connection.
#[derive(Debug)]
struct End {
    connection: Arc<Connection>,
    end: usize,
}

impl Socket for End {
    fn peer(&self) -> SocketAddr {
        self.connection.addresses[1 - self.end]
    }

    fn local(&self) -> SocketAddr {
        self.connection.addresses[self.end]
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let writer = {
            let mut pipes = self.connection.pipes.lock();
            let pipe = &mut pipes[self.end];
            if let Some(kind) = pipe.broken {
                return Poll::Ready(Err(kind.into()));
            }
            if pipe.arrived.is_empty() {
                if pipe.ended {
                    return Poll::Ready(Ok(()));
                }
                pipe.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = buffer.remaining().min(pipe.arrived.len());
            let (front, back) = pipe.arrived.as_slices();
            let of_front = count.min(front.len());
            buffer.put_slice(&front[..of_front]);
            buffer.put_slice(&back[..count - of_front]);
            pipe.arrived.drain(..count);
            pipe.unread -= count;
            pipe.writer.take()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let piece = {
            let mut pipes = self.connection.pipes.lock();
            if let Some(kind) = pipes[self.end].broken {
                return Poll::Ready(Err(kind.into()));
            }
            let pipe = &mut pipes[1 - self.end];
            if pipe.closing {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let room = pipe.window.saturating_sub(pipe.unread);
            if room == 0 {
                pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = room.min(bytes.len());
            pipe.unread += count;
            bytes[..count].to_vec()
        };
        let count = piece.len();
        if let Some(scheduler) = try_scheduler()
            && count > 0
        {
            send(&scheduler, &self.connection, 1 - self.end, Load::Bytes(piece));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut piece = Vec::new();
        for slice in slices {
            let room = GATHERED_MAX - piece.len();
            piece.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.poll_write(context, &piece)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end_writing();
        Poll::Ready(Ok(()))
    }
}

impl End {
    fn end_writing(&self) {
        {
            let mut pipes = self.connection.pipes.lock();
            if std::mem::replace(&mut pipes[1 - self.end].closing, true) {
                return;
            }
        }
        if let Some(scheduler) = try_scheduler() {
            send(&scheduler, &self.connection, 1 - self.end, Load::End);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.end_writing();
        let mut pipes = self.connection.pipes.lock();
        pipes[self.end].is_closed = true;
        let both = pipes[0].is_closed && pipes[1].is_closed;
        drop(pipes);
        if both && let Some(scheduler) = try_scheduler() {
            // Segments that are still under way are dropped.
            scheduler.network.borrow_mut().connections.remove(&self.connection.number);
        }
    }
}
