//! Measures the limits of this machine: echoes, copies, reads and syncs that do nothing else.
//!
//! Each limit belongs to a workload and is reported for one of its operations or rows, so that a server's cost can be
//! shown as a multiple of it:
//!
//! 1. **Echoes** move the bytes of a workload's requests and answers over the loopback interface, as many at a time
//!    as there are callers, without looking at them. Their cost is the system's part of an answer. Only the thread of
//!    the answering end counts. One echo runs at a rate, and its latencies are reported: they are the part of a
//!    server's tail at that rate which the machine and the generator cause.
//! 2. **Loops** copy, skip, read from a file, or write and sync bytes of the size of the workload's rows. They are
//!    the cost of a store that finds everything without searching.
//!
//! CPU time is that of the thread. Elapsed time is reported beside it, because it includes the disk.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::{Moment, Priority, Runtime, World};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use storage::{FileName, Files, Local};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::pace::{Pace, Schedule};
use crate::random::Random;
use crate::recorder::LATENCY_MAX_NS;
use crate::{Error, Plan, Result};

/// Approximate number of bytes of a request or an answer besides keys and values.
const ENVELOPE: usize = 60;
/// Approximate number of bytes of a cell besides row and value.
const CELL: usize = 40;
/// Number of bytes of an answer to a scan: as many as a client requests at once.
const SCAN_ANSWER: usize = 2 << 20;
/// Number of bytes that loops go over: more than the processor's caches hold.
const DATA: usize = 128 << 20;
/// Number of bytes of a block of a file.
const BLOCK: usize = 64 << 10;
/// Number of writers that share a sync.
const WRITERS: usize = 64;
/// Rate in operations a second of the echo that runs at a rate, as in the mixed load beside Apache HBase. The next
/// constant is its duration: long enough for several operations beyond the 99.9 % quantile.
const RATE: f64 = 8_000.0;
const RATE_SECONDS: f64 = 4.0;

/// The minimal cost of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// A description of the operation.
    pub name: String,
    /// The workload whose cost is compared with the limit; `None` if there is none.
    pub workload: Option<String>,
    /// CPU time of one operation, in µs.
    pub cpu_us: f64,
    /// Elapsed time of one operation, in µs.
    pub wall_us: f64,
}

impl Limit {
    /// Returns the line for the report.
    pub(crate) fn line(&self) -> String {
        let Limit { name, workload, cpu_us, wall_us } = self;
        json!({ "limit": name, "workload": workload, "cpu_us": cpu_us, "wall_us": wall_us }).to_string()
    }
}

/// Returns the CPU time of this thread, in ns.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures all limits for `during` each. Files are written to `folder` and removed afterwards.
pub(crate) fn limits(plan: &Plan, folder: &Path, during: Duration) -> Result<Vec<Limit>> {
    let world = World::real();
    let (row, depth) = (plan.value_size, plan.threads);
    let (key, batch) = (26, plan.batch);
    let cell = key + row + CELL;
    let get = key + 2 * ENVELOPE;
    let echoes = [
        ("random-read", get, cell + ENVELOPE, 1, depth),
        ("random-write", cell + 2 * ENVELOPE, ENVELOPE, 1, depth),
        ("multi-get", batch * get / 2, batch * cell, batch, depth),
        ("batch-write", batch * cell, batch * 8, batch, depth),
        ("scan by 30", ENVELOPE, 30 * cell, 30, depth),
        ("scan", ENVELOPE, SCAN_ANSWER, SCAN_ANSWER / cell, depth),
    ];
    let mut limits = Vec::new();
    for (workload, request, answer, rows, depth) in echoes {
        let (cpu, wall) = echo(&world, request, answer, depth, during)?;
        limits.push(Limit {
            name: format!("echo of {request} and {answer} bytes, {depth} under way"),
            workload: Some(workload.to_owned()),
            cpu_us: cpu / rows as f64,
            wall_us: wall / rows as f64,
        });
    }
    let (cpu, wall) = echo(&world, get, cell + ENVELOPE, 1, during)?;
    let name = format!("echo of {get} and {} bytes, 1 under way", cell + ENVELOPE);
    limits.push(Limit { name, workload: None, cpu_us: cpu, wall_us: wall });
    let (cpu, latencies) =
        echo_at(&world, get, cell + ENVELOPE, RATE, Duration::from_secs_f64(RATE_SECONDS))?;
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        limits.push(Limit {
            name: format!("echo of {get} and {} bytes, {RATE} a second: {name}", cell + ENVELOPE),
            workload: None,
            cpu_us: cpu,
            wall_us: latencies.value_at_quantile(part) as f64 / 1e3,
        });
    }
    limits.extend(memory(&world, cell, during));
    limits.extend(files(&world, cell, folder, during)?);
    Ok(limits)
}

fn failed(error: std::io::Error) -> Error {
    Error::Options(format!("the loopback interface: {error}"))
}

/// Receives the result of an answering end: the number of its answers, and its CPU time in ns.
type Answered = std::sync::mpsc::Receiver<std::io::Result<(u64, u64)>>;

/// Starts an end that answers every `request` bytes with `answer` bytes until the other end closes the connection.
/// Returns its thread and its address, and a receiver for the result.
fn answering_end(
    request: usize,
    answer: usize,
    depth: usize,
) -> Result<(Runtime, std::net::SocketAddr, Answered)> {
    let server = Runtime::start("limit-server", 1).map_err(Error::Thread)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (cost, answered) = std::sync::mpsc::channel();
    server.spawn(async move {
        let serve = async {
            let listener = env::listen("127.0.0.1:0".parse().expect("an address"))?;
            // The send cannot fail: both ends of both channels exist as long as the measurement runs.
            let _waits = sender.send(listener.local_addr()?);
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (mut input, mut output) = (vec![0; (request * depth).max(BLOCK)], Vec::new());
            let (mut had, mut answers) = (0, 0u64);
            let began = cpu_ns();
            loop {
                // The asking end closes the connection when the time is over, even with requests under way.
                let read = stream.read(&mut input).await.unwrap_or(0);
                if read == 0 {
                    break;
                }
                had += read;
                let whole = had / request;
                had %= request;
                answers += whole as u64;
                output.resize(output.len().max(whole * answer), 7u8);
                if stream.write_all(&output[..whole * answer]).await.is_err() {
                    break;
                }
            }
            Ok::<_, std::io::Error>((answers, cpu_ns() - began))
        };
        let _waits = cost.send(serve.await);
    });
    let address = receiver.recv().map_err(|_| Error::Options("no loopback listener".to_owned()))?;
    Ok((server, address, answered))
}

/// Waits until the asking end has ended, and returns the result of the answering end.
fn outcome(answered: &Answered) -> Result<(u64, u64)> {
    let ended = || Error::Options("the loopback echo ended".to_owned());
    answered.recv().map_err(|_| ended())?.map_err(failed)
}

/// Exchanges requests and answers of these sizes. Returns the CPU time of the answering end and the elapsed time for
/// one exchange, in µs.
fn echo(world: &World, request: usize, answer: usize, depth: usize, during: Duration) -> Result<(f64, f64)> {
    let client = Runtime::start("limit-client", 1).map_err(Error::Thread)?;
    let (_server, address, answered) = answering_end(request, answer, depth)?;
    let clock = world.clone();
    client.spawn(async move {
        let Ok(stream) = env::dial(address).await else { return };
        let (mut input, mut output) = stream.into_system().into_split();
        let until = clock.moment().plus(during);
        let requests = vec![7; request * depth];
        let mut buffer = vec![0; (answer * depth).clamp(BLOCK, SCAN_ANSWER)];
        if output.write_all(&requests).await.is_err() {
            return;
        }
        let mut had = 0;
        while clock.moment() < until {
            let Ok(read) = input.read(&mut buffer).await else { return };
            had += read;
            let whole = had / answer;
            had %= answer;
            // Each answer is followed by the next request; the requests for the answers of one read are sent in one
            // write.
            if read == 0 || output.write_all(&requests[..whole.min(depth) * request]).await.is_err() {
                return;
            }
        }
    });
    let began = world.moment();
    let (answers, cpu) = outcome(&answered)?;
    let wall = world.moment().since(began);
    let answers = answers.max(1) as f64;
    Ok((cpu as f64 / 1e3 / answers, wall.as_secs_f64() * 1e6 / answers))
}

/// Exchanges requests and answers of these sizes at a rate, without waiting for answers. Returns the CPU time of the
/// answering end for one exchange, in µs, and the latencies in ns. Each latency counts from when its request was due.
fn echo_at(
    world: &World,
    request: usize,
    answer: usize,
    rate: f64,
    during: Duration,
) -> Result<(f64, Histogram<u64>)> {
    let client = Runtime::start_as("limit-client", Priority::Prompt, 1).map_err(Error::Thread)?;
    let (_server, address, answered) = answering_end(request, answer, 1)?;
    let began = world.moment();
    let schedule = Schedule { from: began, to: began.plus(during), rate, thread: 0, threads: 1 };
    let pace = Pace::start(&client, world, schedule, 1).map_err(Error::Thread)?;
    let (told, latencies) = std::sync::mpsc::channel();
    let clock = world.clone();
    client.spawn(async move {
        let Ok(stream) = env::dial(address).await else { return };
        let (input, output) = stream.into_system().into_split();
        let under_way = Arc::new(Mutex::new(VecDeque::new()));
        env::spawn(ask_at(pace, output, request, Arc::clone(&under_way)));
        let _waits = told.send(hear(&clock, input, answer, &under_way).await);
    });
    let latencies =
        latencies.recv().map_err(|_| Error::Options("the loopback echo at a rate ended".to_owned()))?;
    let (answers, cpu) = outcome(&answered)?;
    Ok((cpu as f64 / 1e3 / answers.max(1) as f64, latencies))
}

/// Sends requests when they are due. At the end it closes the connection in this direction, which tells the answering
/// end to stop.
async fn ask_at(
    pace: Arc<Pace>,
    mut output: OwnedWriteHalf,
    request: usize,
    under_way: Arc<Mutex<VecDeque<Moment>>>,
) {
    let mut bytes = Vec::new();
    while let Some(due) = pace.next(0).await {
        // Requests that are due at the same time are sent together.
        let due: Vec<Moment> = std::iter::once(due).chain(std::iter::from_fn(|| pace.next_now(0))).collect();
        bytes.resize(due.len() * request, 7);
        under_way.lock().extend(due);
        if output.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Records the latency of each answer, until the answering end closes the connection.
async fn hear(
    world: &World,
    mut input: OwnedReadHalf,
    answer: usize,
    under_way: &Mutex<VecDeque<Moment>>,
) -> Histogram<u64> {
    let mut latencies =
        Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("constants that fit each other");
    let (mut buffer, mut had) = (vec![0; BLOCK], 0);
    loop {
        let read = input.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return latencies;
        }
        let now = world.moment();
        had += read;
        for due in under_way.lock().drain(..had / answer) {
            latencies.saturating_record(now.since(due).as_nanos() as u64);
        }
        had %= answer;
    }
}

/// Runs `step` repeatedly. Returns CPU time and elapsed time of one run, in µs.
fn time(world: &World, during: Duration, mut step: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let (began, began_cpu, mut steps) = (world.moment(), cpu_ns(), 0u64);
    while world.moment().since(began) < during {
        step()?;
        steps += 1;
    }
    let (cpu, wall) = (cpu_ns() - began_cpu, world.moment().since(began));
    Ok((cpu as f64 / 1e3 / steps as f64, wall.as_secs_f64() * 1e6 / steps as f64))
}

fn memory(world: &World, cell: usize, during: Duration) -> Vec<Limit> {
    let data = vec![7u8; DATA];
    let mut random = Random::new(1, 0);
    let mut target = vec![0u8; cell];
    let rows = DATA / cell;
    let mut limits = Vec::new();
    let mut add = |name: String, workload: Option<&str>, rows: usize, (cpu, wall): (f64, f64)| {
        let workload = workload.map(str::to_owned);
        limits.push(Limit { name, workload, cpu_us: cpu / rows as f64, wall_us: wall / rows as f64 });
    };
    // One step copies a thousand times, because reading the clock costs as much as one copy.
    let copied = time(world, during, || {
        for _ in 0..1_000 {
            let from = random.below(rows as u64) as usize * cell;
            target.copy_from_slice(&data[from..from + cell]);
            std::hint::black_box(&target);
        }
        Ok(())
    });
    add(
        format!("copy of {cell} bytes from anywhere in memory"),
        None,
        1_000,
        copied.expect("it cannot fail"),
    );
    let stepped = time(world, during, || {
        let mut sum = 0u64;
        for row in 0..rows {
            sum += u64::from(data[row * cell]);
        }
        std::hint::black_box(sum);
        Ok(())
    });
    add(format!("a look at every {cell}th byte"), Some("filter-0"), rows, stepped.expect("it cannot fail"));
    limits
}

fn files(world: &World, cell: usize, folder: &Path, during: Duration) -> Result<Vec<Limit>> {
    let failed =
        |error: storage::Error| Error::File { file: folder.display().to_string(), reason: error.to_string() };
    let files = Local::open(folder).map_err(failed)?;
    let name = FileName::new("limits");
    // A file that an earlier, killed run has left is deleted first.
    files.delete(&name).map_err(failed)?;
    let mut file = files.create(&name).map_err(failed)?;
    let mut limits = Vec::new();
    let bytes = vec![7u8; cell];
    for (writers, workload) in [(1, None), (WRITERS, Some("random-write fsync"))] {
        let (cpu, wall) = time(world, during, || {
            for _ in 0..writers {
                file.write(&bytes).map_err(failed)?;
            }
            file.sync().map_err(failed)
        })?;
        limits.push(Limit {
            name: format!("write of {cell} bytes, {writers} with one fdatasync"),
            workload: workload.map(str::to_owned),
            cpu_us: cpu / writers as f64,
            // All writers wait for the same sync, so each of them waits this long.
            wall_us: wall,
        });
    }
    let (cpu, wall) = time(world, during, || file.write(&bytes).map_err(failed))?;
    limits.push(Limit {
        name: format!("write of {cell} bytes to the system"),
        workload: None,
        cpu_us: cpu,
        wall_us: wall,
    });
    while file.size() < 2 * DATA as u64 / 4 {
        file.write(&vec![7; BLOCK]).map_err(failed)?;
    }
    let size = file.finish().map_err(failed)?;
    let reader = files.open(&name).map_err(failed)?;
    let (mut block, mut random) = (vec![0; BLOCK], Random::new(2, 0));
    let (cpu, wall) = time(world, during, || {
        let at = random.below(size / BLOCK as u64 - 1) * BLOCK as u64;
        reader.read_at(at, &mut block).map_err(failed)
    })?;
    let name_of = format!("pread of {BLOCK} bytes that the system has in memory");
    limits.push(Limit { name: name_of, workload: None, cpu_us: cpu, wall_us: wall });
    files.delete(&name).map_err(failed)?;
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_answers_every_request_and_costs_something() {
        let world = World::real();
        let (cpu, wall) = echo(&world, 100, 3_000, 4, Duration::from_millis(50)).expect("loopback");
        assert!(cpu > 0.0 && wall > 0.0, "{cpu} {wall}");
    }

    #[test]
    fn an_echo_at_a_rate_tells_the_latency_of_every_request() {
        let world = World::real();
        let (cpu, latencies) =
            echo_at(&world, 100, 3_000, 2_000.0, Duration::from_millis(100)).expect("loopback");
        assert_eq!(latencies.len(), 200);
        assert!(cpu > 0.0 && latencies.min() > 0, "{cpu} {}", latencies.min());
    }
}
