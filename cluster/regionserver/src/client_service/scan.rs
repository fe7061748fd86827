//! Scan: opening, continuing, renewing and closing scanners.
//!
//! After a call has found or opened its scanner, it takes these steps:
//!
//! 1. It reads rows until the client's number of rows, the size limit of a reply or the time limit of the call is
//!    reached, or until the region is exhausted. It begins on the serving thread, in memory. When a block must be read
//!    or [`INLINE_TIME`] is over, it continues from there on the blocking thread pool.
//! 2. A reply without rows means that the region is exhausted, unless it is a heartbeat. So a call that reaches its
//!    time or size limit before it finds a row replies with a heartbeat.
//! 3. It puts the scanner back. It closes the scanner instead if the region or the scan is exhausted or the client asks
//!    for that.
//!
//! After an error in step 1 the scanner is closed, because rows may have been read that the client never received. The
//! error tells the client so, unless a retry cannot help. If the region is not served any more, the error says that, so
//! that the client pauses before it opens a scanner again. There is one exception: if the region closes after the call
//! has read rows, the reply returns them, and the next call is told that the region has changed. Otherwise a scan would
//! make no progress while its region is closed and opened again and again.

mod edge;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Moment;
use hfile::MissingBlock;
use proto::pb;
use region::{INLINE_TIME, Limits, ReadMode};
use rpc::{Answer, Call, Exception, Reply, Share, class};

use crate::RegionServer;
use crate::awaited::AwaitedBlocks;
use crate::call_sample::is_full_scan;
use crate::cells::CellsOut;
use crate::counters::count;
use crate::request;
use crate::scanners::{OpenScanner, ScannerId, ScannerState, TakenScanner};
use crate::watch::later;

/// Maximum number of rows between two clock readings, since a reading may cost more than a row. If rows are slow,
/// because of the disk or of a filter, the clock is read after every row.
const STEPS_PER_LOOK_MAX: u32 = 16;

/// Maximum number of rows that one step returns: as many as between two clock readings.
const ROWS_AT_ONCE: usize = 16;

/// Number of results for which space is reserved, if the client asks for at least as many.
const RESULTS_AT_ONCE: usize = 64;

/// If the time between two clock readings was longer than this, the clock is read after every row.
const LOOKS_APART_MAX: Duration = Duration::from_micros(100);

/// Answers one call of a scanner.
pub(super) fn answer(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    count(&server.counters().scans);
    if is_full_scan(&call.param) {
        count(&server.counters().full_scans);
    }
    let mut work = match begin(server, call) {
        Ok(ScanStart::Work(work)) => work,
        Ok(ScanStart::Reply(response)) => return Ok(Reply::of(&response)).into(),
        Err(refused) => return refused.into(),
    };
    let inline_end = work.began.plus(INLINE_TIME);
    match work.read(ReadMode::MemoryOnly, Some(inline_end)) {
        Ok(Read::Paused) => {
            count(&server.counters().reads_from_disk);
            later(server, call, work.read_where_it_may_block())
        }
        Ok(Read::Missing(block)) => {
            count(&server.counters().reads_from_disk);
            later(server, call, work.read_awaiting(block))
        }
        outcome => work.finish(outcome.map(drop)).into(),
    }
}

/// Decides when to read the clock. The first reading is after one row. While rows are cheap, the number of rows before
/// the next reading doubles; otherwise it is one again. A filter may take milliseconds for a row, and the call has a
/// deadline.
struct ClockChecks {
    steps_per_check: u32,
    steps: u32,
    last: Moment,
}

impl ClockChecks {
    fn new(now: Moment) -> ClockChecks {
        ClockChecks { steps_per_check: 1, steps: 0, last: now }
    }

    /// Counts the rows of a step. Returns whether the clock must be read after it.
    fn is_due_after(&mut self, rows: usize) -> bool {
        self.steps = self.steps.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
        self.steps >= self.steps_per_check
    }

    fn looked(&mut self, now: Moment) {
        self.steps_per_check = match now.since(self.last) < LOOKS_APART_MAX {
            true => (self.steps_per_check * 2).min(STEPS_PER_LOOK_MAX),
            false => 1,
        };
        (self.steps, self.last) = (0, now);
    }
}

enum ScanStart {
    Work(Box<Work>),
    /// The reply to a call for which there is nothing to read.
    Reply(pb::ScanResponse),
}

fn begin(server: &Arc<RegionServer>, call: &Call) -> Result<ScanStart, Exception> {
    let request: pb::ScanRequest = call.decode()?;
    let mut response = pb::ScanResponse::default();
    let (held, kept) = match (request.scanner_id, &request.scan) {
        (Some(id), _) => {
            let id = ScannerId(id);
            if request.renew() {
                server.scanners.renew(id, request.next_call_seq)?;
                return Ok(ScanStart::Reply(response));
            }
            match server.scanners.take(id, request.next_call_seq)? {
                TakenScanner::Ended => return Ok(ScanStart::Reply(response)),
                TakenScanner::Scanner(held, kept) => {
                    if !server.regions().is_open(&held.region) {
                        server.scanners.abandon(&held);
                        return Err(Exception::not_serving_region(format!(
                            "Region has changed on the scanner {}: regionName={}",
                            id.0,
                            held.region.info()
                        )));
                    }
                    (held, kept)
                }
            }
        }
        (None, Some(scan)) => {
            let (held, kept) = open(server, &request, scan, &mut response)?;
            if edge::needs_heartbeat(&server.options(), &request, scan, held.region.info()) {
                edge::make_heartbeat(&mut response, held.id);
                server.scanners.put_back(&held, kept);
                return Ok(ScanStart::Reply(response));
            }
            (held, kept)
        }
        (None, None) => return Err(Exception::do_not_retry("Missing required input: scannerId or scan")),
    };
    response.scanner_id = Some(held.id.0);
    if let Some(negative) = request.number_of_rows.map(|rows| rows as i32).filter(|rows| *rows < 0) {
        server.scanners.put_back(&held, kept);
        return Err(Exception::io(format!("Illegal Capacity: {negative}")));
    }
    Ok(ScanStart::Work(Box::new(Work::new(server, call, &request, held, kept, response))))
}

fn open(
    server: &RegionServer,
    request: &pb::ScanRequest,
    scan: &pb::Scan,
    response: &mut pb::ScanResponse,
) -> Result<(Arc<OpenScanner>, Box<ScannerState>), Exception> {
    // A request must name a region, even if it also names a scanner.
    let region = server.regions().find(&request.region.clone().unwrap_or_default())?;
    let query = request::scan(&region.table(), scan, &server.foundation().world)?;
    let scanner = region.scanner(query).map_err(|error| server.exception(&error))?;
    response.mvcc_read_point = Some(scanner.read_point().0);
    response.ttl = Some(u32::try_from(server.scanners.lease().as_millis()).unwrap_or(u32::MAX));
    let held = server.scanners.register(region, scan.need_cursor_result(), scan.max_result_size());
    Ok((held, Box::new(ScannerState { scanner, unfinished_row: None, block_bytes: 0 })))
}

/// How [`Work::read`] ended.
enum Read {
    /// The reply is complete.
    Done,
    /// The read must continue on a thread that may block.
    Paused,
    /// The read can continue in memory when this block has arrived.
    Missing(MissingBlock),
}

/// One call that reads from a scanner.
struct Work {
    server: Arc<RegionServer>,
    held: Arc<OpenScanner>,
    kept: Box<ScannerState>,
    response: pb::ScanResponse,
    out: CellsOut,
    /// The part of the answers' memory budget that the reply uses.
    share: Share,
    /// Length of the MOB value at which the read paused, in bytes.
    mob_bytes: u64,
    results: usize,
    /// Whether the last result of the reply is a part of a row that may continue.
    last_is_partial: bool,
    /// The row of the last result; set while rows must be counted or the result is a part of a row.
    last_row: Option<Bytes>,
    complete_rows: usize,
    more: bool,
    scanned: Scanned,
    // The client's limits.
    results_max: usize,
    complete_rows_max: Option<usize>,
    bytes_max: u64,
    allow_partial: bool,
    deadline: Option<Moment>,
    client_deadline: Option<Moment>,
    track_metrics: bool,
    close: bool,
    knows_reset: bool,
    began: Moment,
    /// When the read began, or last continued in memory.
    resumed: Moment,
    /// Time from the arrival of the call until `began`.
    waited: Duration,
}

#[derive(Default)]
struct Scanned {
    rows: u64,
    filtered_rows: u64,
    /// Number of bytes of data blocks that were read.
    block_bytes: u64,
}

impl Work {
    fn new(
        server: &Arc<RegionServer>,
        call: &Call,
        request: &pb::ScanRequest,
        held: Arc<OpenScanner>,
        kept: Box<ScannerState>,
        mut response: pb::ScanResponse,
    ) -> Work {
        let options = server.options();
        let now = server.foundation().world.moment();
        let close = request.close_scanner();
        let allow_partial = request.client_handles_partials();
        let allow_heartbeat = request.client_handles_heartbeats() && allow_partial;
        let bytes_max = match held.result_bytes_max {
            0 => options.result_bytes_max,
            wanted => wanted.min(options.result_bytes_max),
        };
        let time =
            call.deadline.map_or(server.scanners.lease(), |end| end.since(now).min(server.scanners.lease()));
        let out = CellsOut::with_room(call.connection.codec, kept.block_bytes);
        let results_max = request.number_of_rows.unwrap_or(if close { 0 } else { 1 }) as usize;
        if out.is_block() {
            response.cells_per_result.reserve(results_max.min(RESULTS_AT_ONCE));
            response.partial_flag_per_result.reserve(results_max.min(RESULTS_AT_ONCE));
        }
        Work {
            results_max,
            complete_rows_max: request.limit_of_rows.filter(|limit| *limit > 0).map(|limit| limit as usize),
            bytes_max,
            allow_partial,
            deadline: allow_heartbeat.then(|| now.plus((time / 2).max(options.scan_time_min))),
            client_deadline: call.deadline,
            track_metrics: request.track_scan_metrics(),
            close,
            knows_reset: call.connection.client_is_at_least(1, 4),
            began: now,
            resumed: now,
            waited: now.since(call.received),
            out,
            share: call.connection.answers.share(),
            mob_bytes: 0,
            results: 0,
            last_is_partial: false,
            last_row: kept.unfinished_row.clone(),
            complete_rows: 0,
            more: false,
            scanned: Scanned::default(),
            server: server.clone(),
            held,
            kept,
            response,
        }
    }

    /// Waits for memory if the next value is large, and continues on the blocking thread pool.
    async fn read_where_it_may_block(mut self: Box<Self>) -> Result<Reply, Exception> {
        self.share.admit_large(self.mob_bytes).await;
        env::blocking(move || self.read_to_end()).await
    }

    /// Continues to the end on the blocking thread pool.
    fn read_to_end(mut self) -> Result<Reply, Exception> {
        let outcome = self.read(ReadMode::Any, None);
        self.finish(outcome.map(drop))
    }

    /// Awaits `block` and continues in memory; repeats this for every missing block.
    async fn read_awaiting(mut self: Box<Self>, mut block: MissingBlock) -> Result<Reply, Exception> {
        let mut arrived = AwaitedBlocks::default();
        loop {
            let results = self.results;
            match arrived.wait(region::Error::Missing(block)).await {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(error) => return self.finish(Err(error)),
            }
            self.resumed = self.server.foundation().world.moment();
            let inline_end = self.resumed.plus(INLINE_TIME);
            match self.read(ReadMode::MemoryOnly, Some(inline_end)) {
                Ok(Read::Missing(next)) => block = next,
                Ok(Read::Paused) => break,
                outcome => return self.finish(outcome.map(drop)),
            }
            if self.results > results {
                arrived.row_ended();
            }
        }
        self.read_where_it_may_block().await
    }

    /// Reads until the reply is complete. If `inline_end` is set, pauses at that time, between two steps of the engine.
    fn read(&mut self, mode: ReadMode, inline_end: Option<Moment>) -> Result<Read, region::Error> {
        let before = hfile::data_bytes_of_thread();
        let outcome = self.read_rows(mode, inline_end);
        self.scanned.block_bytes += hfile::data_bytes_of_thread().wrapping_sub(before);
        outcome
    }

    fn read_rows(&mut self, mode: ReadMode, inline_end: Option<Moment>) -> Result<Read, region::Error> {
        // After a move to another thread time has passed, so the clock is read again.
        let now = inline_end.map_or_else(|| self.server.foundation().world.moment(), |_| self.resumed);
        let mut checks = ClockChecks::new(now);
        while self.results < self.results_max {
            let mark = self.out.begin_step();
            let limits = Limits {
                rows: self.rows_at_once(),
                bytes: self.bytes_max.saturating_sub(self.out.heap_size()),
                deadline: self.deadline,
                allow_partial: self.allow_partial,
            };
            let step = match self.kept.scanner.next_row(&limits, &mut self.out, mode) {
                Err(error @ (region::Error::WouldBlock | region::Error::MobValue { .. })) => {
                    self.out.rewind(mark);
                    self.mob_bytes = error.mob_bytes();
                    return Ok(Read::Paused);
                }
                Err(region::Error::Missing(block)) => {
                    self.out.rewind(mark);
                    return Ok(Read::Missing(block));
                }
                Err(region::Error::NotServing(_)) if self.results > 0 => {
                    self.out.rewind(mark);
                    break;
                }
                step => step?,
            };
            self.more = step.more;
            self.scanned.rows += step.rows_scanned;
            self.scanned.filtered_rows += step.rows_filtered;
            if self.out.since(mark) > 0 {
                if self.is_row_limit_reached_before(mark) {
                    self.out.rewind(mark);
                    break;
                }
                if self.out.ended().len() > 1 {
                    self.add_rows();
                } else {
                    self.add_result(mark, step.partial);
                }
                if self.is_row_limit_reached() {
                    break;
                }
            } else if !step.more {
                self.last_row_is_complete();
            }
            if !step.more {
                break;
            }
            let is_full = step.size_limit
                || self.out.heap_size() >= self.bytes_max
                || !self.share.admits(self.out.heap_size());
            let is_due = checks.is_due_after(self.out.ended().len().max(1)) || step.time_limit;
            if !is_full && !is_due {
                continue;
            }
            let now = self.server.foundation().world.moment();
            checks.looked(now);
            let is_late = self.deadline.is_some_and(|end| now >= end);
            if is_late || is_full {
                if is_late || self.results == 0 {
                    self.response.heartbeat_message = Some(true);
                    if self.held.wants_cursor {
                        let row = self.kept.scanner.row().map(Bytes::copy_from_slice);
                        self.response.cursor = row.map(|row| pb::Cursor { row: Some(row) });
                    }
                }
                break;
            }
            if inline_end.is_some_and(|end| now >= end) {
                return Ok(Read::Paused);
            }
        }
        Ok(Read::Done)
    }

    /// Returns the maximum number of rows that the next step may return.
    fn rows_at_once(&self) -> usize {
        // A step returns a single row if the reply has no cell block, or if the next cells may belong to the row of the
        // last result.
        let may_go_on = if self.results == 0 { self.last_row.is_some() } else { self.last_is_partial };
        if !self.out.is_block() || may_go_on {
            return 1;
        }
        let complete_rows_max = self.complete_rows_max.unwrap_or(usize::MAX);
        let left = complete_rows_max.saturating_sub(self.complete_rows).min(self.results_max - self.results);
        left.clamp(1, ROWS_AT_ONCE)
    }

    /// Adds the rows that a step has returned, each as one result.
    fn add_rows(&mut self) {
        let rows = self.out.ended();
        self.results += rows.len();
        self.complete_rows += rows.len();
        (self.last_is_partial, self.last_row) = (false, None);
        self.response.cells_per_result.extend_from_slice(rows);
        self.response.partial_flag_per_result.resize(self.response.cells_per_result.len(), false);
    }

    fn add_result(&mut self, mark: crate::cells::Mark, partial: bool) {
        self.results += 1;
        self.last_is_partial = partial;
        self.last_row = (partial || self.complete_rows_max.is_some())
            .then(|| Bytes::copy_from_slice(self.out.row_at(mark).expect("the result has a cell")));
        if self.out.is_block() {
            let cells = u32::try_from(self.out.since(mark)).unwrap_or(u32::MAX);
            self.response.cells_per_result.push(cells);
            self.response.partial_flag_per_result.push(partial);
        } else {
            let result = self.out.result(mark);
            self.response.results.push(pb::Result { partial: Some(partial), ..result });
        }
        if !partial {
            self.complete_rows += 1;
        }
    }

    /// Called before a further result. If the last result is partial and the next one is of another row, the row of the
    /// last result was complete. Returns whether the limit of rows is reached then.
    fn is_row_limit_reached_before(&mut self, mark: crate::cells::Mark) -> bool {
        let before_is_unfinished =
            if self.results == 0 { self.last_row.is_some() } else { self.last_is_partial };
        if self.complete_rows_max.is_some()
            && before_is_unfinished
            && self.last_row.as_deref() != self.out.row_at(mark)
        {
            self.complete_rows += 1;
        }
        self.is_row_limit_reached()
    }

    fn is_row_limit_reached(&mut self) -> bool {
        let reached = self.complete_rows_max.is_some_and(|limit| self.complete_rows >= limit);
        if reached {
            self.response.more_results = Some(false);
        }
        reached
    }

    /// Records that the region ended after a partial result, whose row was therefore complete.
    fn last_row_is_complete(&mut self) {
        if self.results > 0 && self.last_is_partial {
            self.last_is_partial = false;
            if let Some(flag) = self.response.partial_flag_per_result.last_mut() {
                *flag = false;
            }
            if let Some(result) = self.response.results.last_mut() {
                result.partial = Some(false);
            }
        }
    }

    /// Makes the reply, and puts the scanner back or closes it.
    fn finish(mut self, outcome: Result<(), region::Error>) -> Result<Reply, Exception> {
        self.held.region.count_filtered(self.scanned.filtered_rows);
        let now = self.server.foundation().world.moment();
        // A filter that cannot judge a cell would fail again at the same cell, so the client must not open a new
        // scanner.
        let is_of_filter = matches!(outcome, Err(region::Error::Filter(_)));
        let outcome = outcome.map_err(|error| self.server.exception(&error)).and_then(|()| {
            // If the client's deadline is over, it does not wait any more. Its next call would miss the rows that were
            // read, so the scanner is closed.
            match self.client_deadline {
                Some(end) if now > end => {
                    Err(Exception::io("Client deadline exceeded, cannot return results"))
                }
                _ => Ok(()),
            }
        });
        if let Err(exception) = outcome {
            self.server.scanners.abandon(&self.held);
            return Err(if is_of_filter { exception } else { self.after_failure(exception) });
        }
        let response = &mut self.response;
        response.stale = Some(false);
        response.more_results_in_region = Some(match self.results_max {
            // A call that asks for no rows does not end the scan, unless it closes the scanner.
            0 => !self.close,
            _ => self.more,
        });
        // Old clients ignore the rows of a reply with this flag. So only a reply without rows has it.
        if self.results == 0 && self.kept.scanner.is_filter_done() {
            response.more_results = Some(false);
        }
        let more_results = *response.more_results.get_or_insert(true);
        if self.track_metrics {
            let metric = |name: &str, value: u64| pb::NameInt64Pair {
                name: Some(name.to_owned()),
                value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
            };
            response.scan_metrics = Some(pb::ScanMetrics {
                metrics: vec![
                    metric("ROWS_SCANNED", self.scanned.rows),
                    metric("ROWS_FILTERED", self.scanned.filtered_rows),
                    metric("BLOCK_BYTES_SCANNED", self.scanned.block_bytes),
                    metric("RPC_SCAN_QUEUE_WAIT_TIME", self.waited.as_millis() as u64),
                    metric("RPC_SCAN_PROCESSING_TIME", now.since(self.began).as_millis() as u64),
                ],
            });
        }
        let goes_on = more_results && response.more_results_in_region() && !self.close;
        if goes_on {
            if self.results > 0 {
                self.kept.unfinished_row = self.last_row.take().filter(|_| self.last_is_partial);
            }
            self.kept.block_bytes = self.out.block_bytes();
            self.server.scanners.put_back(&self.held, self.kept);
        } else {
            self.server.scanners.end(&self.held);
        }
        Ok(self.out.reply(&self.response).counted_by(self.share))
    }

    /// Returns the exception for the client. Either it forbids a retry, or it says that the scanner is closed or that
    /// the region is not served.
    fn after_failure(&self, exception: Exception) -> Exception {
        // On NotServingRegionException a client opens a new scanner, too, and pauses before each further attempt to
        // open it. On ScannerResetException Java clients open it without a pause. If the region is closed for seconds,
        // they would have no attempts left when it is open again.
        if exception.do_not_retry || exception.class == class::NOT_SERVING_REGION {
            return exception;
        }
        let (class, text) = match self.knows_reset {
            true => (class::SCANNER_RESET, "Scanner is closed on the server-side"),
            false => (
                class::UNKNOWN_SCANNER,
                "Throwing UnknownScannerException to reset the client scanner state for clients older than 1.3.",
            ),
        };
        Exception::new(class, format!("{text}\nCaused by: {}", exception.text()))
    }
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};

    use super::*;

    /// Returns the steps after which the clock is read, out of `steps` steps that each take `cost`.
    fn checks(world: &World, checks: &mut ClockChecks, cost: Duration, steps: u32) -> Vec<u32> {
        let is_looked_after = |_: &u32| {
            world.advance(cost);
            let is_due = checks.is_due_after(1);
            if is_due {
                checks.looked(world.moment());
            }
            is_due
        };
        (1..=steps).filter(is_looked_after).collect()
    }

    #[test]
    fn the_clock_is_read_after_slow_rows_and_groups_of_fast_rows() {
        let world = World::simulated(1, WallTime(0));
        let mut state = ClockChecks::new(world.moment());
        let (cheap, dear) = (Duration::from_micros(1), Duration::from_millis(13));
        assert_eq!(checks(&world, &mut state, cheap, 63), [1, 3, 7, 15, 31, 47, 63]);
        // Rows were cheap so far, so the clock is read only after 16 more rows. Then it is read after each row.
        assert_eq!(checks(&world, &mut state, dear, 19), [16, 17, 18, 19]);
        assert_eq!(checks(&world, &mut state, cheap, 7), [1, 3, 7]);
        let mut state = ClockChecks::new(world.moment());
        assert_eq!(checks(&world, &mut state, dear, 5), [1, 2, 3, 4, 5]);
        // For rows of medium cost the clock is read after as many rows as fit into the permitted time.
        let mut state = ClockChecks::new(world.moment());
        assert_eq!(checks(&world, &mut state, Duration::from_micros(30), 13), [1, 3, 7, 8, 10]);
    }
}
