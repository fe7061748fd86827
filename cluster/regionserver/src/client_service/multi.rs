//! Multi: actions on many regions of this server in one call.
//!
//! The reply has one result for each RegionAction, in order. If the RegionAction failed as a whole, its result is an
//! exception. Otherwise the result has one entry for each action, in order: an exception, or a result, which is empty
//! for puts and deletes. Only atomic and conditional RegionActions set `processed`. A Java client reads the rest of the
//! reply differently if `processed` is set.
//!
//! 1. RegionActions run one after the other. If a RegionAction is not atomic, its puts and deletes are collected. They
//!    are applied together before its next increment or append, and at its end.
//! 2. The call begins on the serving thread. At the first action that must wait, the rest of the call moves to the
//!    blocking thread pool. An action must wait for the disk, for a row's lock, or for writes of this call that it must
//!    see and that are not durable yet.
//! 3. At the end the call waits for all of its writes together. If a write did not become durable, its entries are
//!    exceptions.
//! 4. Before it waits for anything else, the call hands its writes to the log. Later writes of the regions, and their
//!    clients, wait for these, and this call may wait for one of those.
//!
//! The cells of mutations are in the request's cell block in the order of the actions. They are consumed even if the
//! action is refused. The cells that gets, increments and appends return are in the reply's cell block in the order of
//! their entries. Cells that atomic actions return are in the message.
//!
//! Gets with equal queries share one reader of the region until the call writes something.

mod results;

use std::sync::Arc;

use bytes::Bytes;
use cell::{SequenceId, string_binary};
use proto::pb;
use proto::pb::mutation_proto::MutationType;
use region::{CellSink, Check, Mutation, MutationKind, Pending, ReadMode, Region, RowReader};
use rpc::{Answer, Call, Codec, Exception, LargePermit, Reply, Share, UpcomingRequests, class};
use smallvec::SmallVec;

use self::results::{Entry, RegionResult};
use super::{exec, write};
use crate::cells::{CellCounter, CellsOut};
use crate::counters::{count, count_many};
use crate::nonces::{self, NonceClaim, NonceGuard};
use crate::request::multi::{Action, ActionKind, MultiRequest, RegionAction, RequestError};
use crate::request::{self, RequestCells, RequestedMutation};
use crate::watch::later;
use crate::{Options, RegionServer};

/// Maximum number of actions of a call that begins on the serving thread. More actions would occupy the thread for
/// milliseconds while other clients wait. Moving the call to another thread takes a hundredth of that time.
const INLINE_ACTIONS_MAX: usize = 256;

/// Maximum number of bytes that are reserved for the cells of rows that were not read yet. They are expected to be as
/// large as the first row.
const ROOM_MAX: usize = 256 << 10;

/// Answers once every write is durable.
pub(super) fn answer(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    count(&server.counters().multis);
    let mut work = match Work::of(server, call) {
        Ok(work) => Box::new(work),
        Err(refused) => return refused.into(),
    };
    let run = if work.actions > INLINE_ACTIONS_MAX { Run::MayBlock } else { work.run(ReadMode::MemoryOnly) };
    match run {
        Run::Done if work.pending_writes.is_empty() => work.reply().into(),
        Run::Done => later(server, call, async move {
            work.flush_large();
            work.await_durable().await;
            work.reply()
        }),
        Run::MayBlock => {
            work.entrust();
            later(server, call, async move {
                if work.permit.is_none() {
                    work.share.admit_large(work.mob_bytes).await;
                }
                let mut work = env::blocking(move || {
                    work.run_blocking();
                    work
                })
                .await;
                work.flush_large();
                work.await_durable().await;
                work.reply()
            })
        }
    }
}

/// Where [`Work::run`] has stopped.
enum Run {
    Done,
    /// Before an action that must run on the blocking thread pool.
    MayBlock,
}

/// A write of the call that is not durable yet.
struct PendingWrite {
    region: Arc<Region>,
    pending: Pending,
    /// The index of the RegionAction.
    region_action: usize,
    /// The entries that wait for the write; empty for all entries.
    entries: Vec<usize>,
    /// Whether cells that the write returned are in the reply's block, from which they cannot be removed.
    gave_cells: bool,
    /// Whether the write failed, which the entries already say.
    has_failed: bool,
}

/// What is known of a nonce before its operation begins.
enum NonceLookup {
    /// The operation may begin.
    New(Option<NonceGuard>),
    /// The operation was applied before.
    Done(SequenceId),
    /// The operation runs now and must be waited for.
    InProgress,
}

/// Why an action did not run.
enum Refused {
    /// The action must run on the blocking thread pool.
    MayBlock,
    Because(Exception),
}

impl From<Exception> for Refused {
    fn from(exception: Exception) -> Refused {
        Refused::Because(exception)
    }
}

struct Work {
    server: Arc<RegionServer>,
    request: Arc<MultiRequest>,
    /// Number of actions.
    actions: usize,
    cells: RequestCells,
    out: CellsOut,
    /// The server's options when the call began.
    options: Arc<Options>,
    /// The part of the answers' memory budget that the reply and the decoded request use.
    share: Share,
    /// The permit of a large request.
    permit: Option<LargePermit>,
    /// Length of the MOB value because of which a get must block, in bytes.
    mob_bytes: u64,
    /// Whether the client understands an answer that tells it to ask for the rest again.
    knows_too_large: bool,
    /// Whether the reply was found full. Then all later actions are refused: if one of them were applied, the client
    /// would send the refused ones before it again, and they would be applied in another order.
    is_full: bool,
    results: Vec<RegionResult>,
    processed: Option<bool>,
    pending_writes: Vec<PendingWrite>,
    /// Number of pending writes that the log completes by itself; the others come after them.
    entrusted: usize,
    /// The exception that replaces the whole reply, if any.
    broken: Option<Exception>,
    /// The interrupted RegionAction, and its progress.
    current: Option<Current>,
}

/// The progress of a RegionAction that is neither atomic nor conditional.
struct Current {
    region: Arc<Region>,
    next: usize,
    entries: Vec<Entry>,
    /// Puts and deletes that were not yet applied.
    gathered: Vec<Mutation>,
    /// The entry of each mutation in `gathered`.
    entries_of_gathered: Vec<usize>,
    /// The exception because of which none of the collected mutations is applied. HBase decodes all mutations before it
    /// applies the first.
    spoiled: Option<Exception>,
    /// A decoded mutation that must run on the blocking thread pool.
    taken: Option<RequestedMutation>,
    /// A reader for gets with equal queries; dropped when the call writes.
    reader: Option<(u32, RowReader)>,
}

impl Work {
    fn of(server: &Arc<RegionServer>, call: &Call) -> Result<Work, Exception> {
        let request = MultiRequest::decode(&call.param).map_err(|error| match error {
            RequestError::Malformed(error) => call.unreadable(&error),
            RequestError::Oversized(error) => Exception::do_not_retry(format!("Multi is refused: {error}")),
        })?;
        let rows: usize = request.region_action.iter().map(|region| region.action.len()).sum();
        count_many(&server.counters().row_actions, rows);
        let options = server.options();
        if rows as u64 > options.batch_rows_warning {
            count(&server.counters().large_batches);
            let first =
                request.region_action.first().map(|action| string_binary(&action.region.value).to_string());
            tracing::warn!(client = %call.connection.remote, rows, threshold = options.batch_rows_warning,
                first_region = first.as_deref().unwrap_or_default(), rejected = options.batch_rows_reject,
                "large batch: hbase.rpc.rows.warning.threshold");
            if !options.batch_rows_reject {
                return Ok(Work::new(server, call, request, rows));
            }
            return Err(Exception::do_not_retry(format!(
                "Rejecting large batch operation for current batch with firstRegionName: {} , Requested Number of \
                 Rows: {rows} , Size Threshold: {}",
                first.unwrap_or_default(),
                options.batch_rows_warning
            )));
        }
        Ok(Work::new(server, call, request, rows))
    }

    fn new(server: &Arc<RegionServer>, call: &Call, request: MultiRequest, rows: usize) -> Work {
        let mut share = call.connection.answers.share();
        // The memory is in use already, so the call goes on even if there is no more.
        let _has_room = share.admits(request.decoded_size() as u64);
        Work {
            server: server.clone(),
            results: Vec::with_capacity(request.region_action.len()),
            request: Arc::new(request),
            actions: rows,
            cells: RequestCells::new(call.cells.clone()),
            out: CellsOut::new(call.connection.codec),
            options: Arc::clone(&server.options()),
            share,
            permit: call.permit.clone(),
            mob_bytes: 0,
            knows_too_large: call.connection.client_is_at_least(1, 2),
            is_full: false,
            processed: None,
            pending_writes: Vec::new(),
            entrusted: 0,
            broken: None,
            current: None,
        }
    }

    /// After a large request, flushes the regions that the request has filled.
    fn flush_large(&self) {
        let Some(permit) = &self.permit else { return };
        for write in &self.pending_writes {
            self.server.flush_large(&write.region, permit);
        }
    }

    /// Hands the writes of this call to the log, so that no other call waits for this one.
    fn entrust(&mut self) {
        for write in &mut self.pending_writes[self.entrusted..] {
            write.pending.entrust();
        }
        self.entrusted = self.pending_writes.len();
    }

    /// Returns `mode`, or that the next action must not wait, if the log does not have all writes of this call.
    fn mode_now(&self, mode: ReadMode) -> ReadMode {
        if self.entrusted == self.pending_writes.len() { mode } else { ReadMode::MemoryOnly }
    }

    /// Runs the rest of the call on a thread that may block.
    fn run_blocking(&mut self) {
        while let Run::MayBlock = self.run(ReadMode::Any) {
            assert!(self.entrusted < self.pending_writes.len(), "what may block has nothing to wait for");
            self.entrust();
        }
    }

    fn run(&mut self, mode: ReadMode) -> Run {
        let request = self.request.clone();
        if let Some(condition) = &request.condition {
            return self.old_check_and_mutate(&request, condition, mode);
        }
        while let Some(action) = request.region_action.get(self.results.len()) {
            let current = match self.current.take() {
                Some(current) => current,
                None => match self.server.regions().find(&action.region) {
                    Ok(region) if action.condition.is_some() || action.atomic() => {
                        let mode = self.mode_now(mode);
                        match self.row_action(&region, action, action.condition.as_ref(), mode) {
                            Some(result) => self.results.push(RegionResult::Whole(result)),
                            None => return Run::MayBlock,
                        }
                        continue;
                    }
                    Ok(region) => Current {
                        region,
                        next: 0,
                        entries: Vec::with_capacity(action.action.len()),
                        gathered: Vec::new(),
                        entries_of_gathered: Vec::new(),
                        spoiled: None,
                        taken: None,
                        reader: None,
                    },
                    Err(exception) => {
                        self.skip_cells(&action.action);
                        self.results.push(RegionResult::failed(&exception));
                        continue;
                    }
                },
            };
            if let Some(current) = self.actions(current, &request, action, mode) {
                self.current = Some(current);
                return Run::MayBlock;
            }
        }
        Run::Done
    }

    /// Runs the actions of one RegionAction. Returns the progress if the next action would have to block but must not.
    fn actions(
        &mut self,
        mut current: Current,
        request: &MultiRequest,
        actions: &RegionAction,
        mode: ReadMode,
    ) -> Option<Current> {
        while let Some(action) = actions.action.get(current.next) {
            let mode = self.mode_now(mode);
            let mark = self.out.mark();
            let index = action.index();
            let is_full = current.taken.is_none() && self.is_reply_full();
            if !is_full && current.next.is_multiple_of(UpcomingRequests::TOGETHER) {
                let next = actions.action[current.next..].iter().take(UpcomingRequests::TOGETHER);
                let rows: SmallVec<[&[u8]; UpcomingRequests::TOGETHER]> =
                    next.filter_map(|action| request.row_of_get(action)).collect();
                current.region.prefetch_rows(&rows);
            }
            let outcome = if is_full {
                self.skip_cells(std::slice::from_ref(action));
                Err(Exception::new(
                    class::MULTI_ACTION_RESULT_TOO_LARGE,
                    format!("Max size exceeded CellSize: {} BlockSize: 0", self.out.heap_size()),
                ))
            } else {
                match request.kind_of(action) {
                    ActionKind::Get(row, get, alike) => match self.get(&mut current, row, get, alike, mode) {
                        Ok(Some(result)) => Ok(Entry::of(index, result)),
                        Ok(None) => {
                            self.out.rewind(mark);
                            return Some(current);
                        }
                        Err(exception) => Err(exception),
                    },
                    ActionKind::Service(call) => match mode {
                        ReadMode::MemoryOnly => return Some(current),
                        ReadMode::Any => exec::run_blocking(&self.server, &current.region, call)
                            .map(|value| Entry::of_service(index, value)),
                    },
                    ActionKind::Mutation(row, proto) => {
                        match self.mutate(&mut current, index, row, proto, mode) {
                            Err(Refused::MayBlock) => {
                                self.out.rewind(mark);
                                return Some(current);
                            }
                            Err(Refused::Because(exception)) => Err(exception),
                            Ok(entry) => Ok(entry),
                        }
                    }
                    ActionKind::Nothing => Err(Exception::new(
                        "org.apache.hadoop.hbase.HBaseIOException",
                        "Unexpected Action type",
                    )),
                }
            };
            let entry = outcome.unwrap_or_else(|exception| {
                self.out.rewind(mark);
                Entry::failed(index, &exception)
            });
            current.entries.push(entry);
            current.next += 1;
            if current.next == 1 {
                let each = self.out.block_bytes();
                self.out.make_room((each * actions.action.len()).min(each + ROOM_MAX));
            }
        }
        if self.apply_gathered(&mut current, self.mode_now(mode)).is_err() {
            return Some(current);
        }
        self.results.push(RegionResult::Entries(current.entries));
        None
    }

    /// Runs one mutation of a RegionAction that is not atomic. Puts and deletes are only collected.
    fn mutate(
        &mut self,
        current: &mut Current,
        index: u32,
        row: Option<Bytes>,
        proto: &pb::MutationProto,
        mode: ReadMode,
    ) -> Result<Entry, Refused> {
        let asked = match current.taken.take() {
            Some(asked) => asked,
            None => match self.mutation(&current.region, row, proto) {
                Ok(asked) => asked,
                Err(exception) => {
                    if matches!(proto.mutate_type(), MutationType::Put | MutationType::Delete) {
                        current.spoiled.get_or_insert_with(|| exception.clone());
                    }
                    return Err(exception.into());
                }
            },
        };
        // Puts and deletes are only collected here, and so are deletes of a column's newest version. So a later get of
        // the same RegionAction may not see them, as in HBase.
        if matches!(asked.mutation.kind, MutationKind::Put | MutationKind::Delete) {
            if current.gathered.is_empty() {
                // Puts and deletes mostly come in runs, so room for the rest is reserved.
                let rest = current.entries.capacity() - current.entries.len();
                current.gathered.reserve(rest);
                current.entries_of_gathered.reserve(rest);
            }
            current.gathered.push(asked.mutation);
            current.entries_of_gathered.push(current.entries.len());
            return Ok(Entry::Nothing { index });
        }
        let outcome = self.read_and_write(current, &asked, mode);
        if let Err(Refused::MayBlock) = outcome {
            current.taken = Some(asked);
        }
        outcome.map(|result| Entry::of(index, result))
    }

    fn is_reply_full(&mut self) -> bool {
        if self.is_full {
            return true;
        }
        let bytes = self.out.heap_size();
        // `admits` is always called, because it counts the reply's memory, even if the client does not understand an
        // incomplete reply.
        let in_memory = bytes + self.request.decoded_size() as u64;
        let is_full = !self.share.admits(in_memory) || bytes > self.options.result_bytes_max;
        self.is_full = self.knows_too_large && is_full;
        self.is_full
    }

    /// Runs one get; returns `None` if it would have to block but must not.
    fn get(
        &mut self,
        current: &mut Current,
        row: Bytes,
        get: &pb::Get,
        alike: Option<u32>,
        mode: ReadMode,
    ) -> Result<Option<pb::Result>, Exception> {
        // A get must see the writes of this call to the same region, so it waits until they are durable.
        if self.pending_writes.iter().any(|write| Arc::ptr_eq(&write.region, &current.region)) {
            match mode {
                ReadMode::MemoryOnly => return Ok(None),
                ReadMode::Any => env::block_on(self.complete_writes(&mut current.entries)),
            }
        }
        let (mark, mut count) = (self.out.mark(), CellCounter::default());
        let sink: &mut dyn CellSink = if get.existence_only() { &mut count } else { &mut self.out };
        let is_open =
            alike.is_some() && current.reader.as_ref().is_some_and(|(like, _)| Some(*like) == alike);
        let read = match &mut current.reader {
            Some((_, reader)) if is_open => {
                request::check_row(&row)?;
                reader.read(&row, mode, sink)
            }
            _ => {
                let world = &self.server.foundation().world;
                let query = request::get(&current.region.table(), row.clone(), get, world)?;
                match alike {
                    Some(alike) if query.filter.is_none() => {
                        current.region.row_reader(query).and_then(|reader| {
                            let (_, reader) = current.reader.insert((alike, reader));
                            reader.read(&row, mode, sink)
                        })
                    }
                    _ => current.region.get(&query, mode, sink),
                }
            }
        };
        match read {
            Ok(_) if get.existence_only() => Ok(Some(count.exists())),
            Ok(_) => Ok(Some(self.out.result(mark))),
            Err(error) if error.would_block() => {
                self.mob_bytes = error.mob_bytes();
                Ok(None)
            }
            Err(error) => Err(self.server.exception(&error)),
        }
    }

    fn mutation(
        &mut self,
        region: &Region,
        row: Option<Bytes>,
        proto: &pb::MutationProto,
    ) -> Result<RequestedMutation, Exception> {
        let cell_bytes_max = self.options.cell_bytes_max;
        let asked = request::mutation(&region.table(), row, proto, &mut self.cells, cell_bytes_max)?;
        self.server.check_memory(&self.options, region)?;
        Ok(asked.of_group(self.request.nonce_group.unwrap_or_default()))
    }

    /// Applies the collected puts and deletes. If a put or delete of the region could not be decoded, all of them fail.
    /// If applying would block and `mode` forbids it, they stay collected.
    fn apply_gathered(&mut self, current: &mut Current, mode: ReadMode) -> Result<(), Refused> {
        if let Some(exception) = current.spoiled.take() {
            current.gathered.clear();
            for entry in current.entries_of_gathered.drain(..) {
                current.entries[entry].fail(&exception);
            }
        }
        if current.gathered.is_empty() {
            return Ok(());
        }
        current.reader = None;
        let applied = match current.region.apply(&current.gathered, mode) {
            Err(error) if error.would_block() => return Err(Refused::MayBlock),
            applied => applied,
        };
        current.gathered.clear();
        let mut entries = std::mem::take(&mut current.entries_of_gathered);
        match applied {
            Ok(applied) => {
                let mut outcomes = applied.outcomes.into_iter();
                entries.retain(|entry| match outcomes.next() {
                    Some(Err(error)) => {
                        current.entries[*entry].fail(&self.server.exception(&error));
                        false
                    }
                    _ => true,
                });
                self.server.written(&current.region);
                if !entries.is_empty() {
                    self.pending_writes.push(PendingWrite {
                        region: current.region.clone(),
                        pending: applied.pending,
                        region_action: self.results.len(),
                        entries,
                        gave_cells: false,
                        has_failed: false,
                    });
                }
            }
            Err(error) => {
                let exception = self.server.exception(&error);
                for entry in entries {
                    current.entries[entry].fail(&exception);
                }
            }
        }
        Ok(())
    }

    /// Runs one increment or append, after the mutations collected before it.
    fn read_and_write(
        &mut self,
        current: &mut Current,
        asked: &RequestedMutation,
        mode: ReadMode,
    ) -> Result<pb::Result, Refused> {
        self.apply_gathered(current, mode)?;
        let mode = self.mode_now(mode);
        current.reader = None;
        let region = current.region.clone();
        let mark = self.out.mark();
        let running = match self.begin(std::slice::from_ref(asked), mode) {
            NonceLookup::New(running) => running,
            NonceLookup::Done(_) if mode == ReadMode::MemoryOnly => return Err(Refused::MayBlock),
            NonceLookup::Done(sequence) => {
                write::read_again(&region, &asked.mutation, sequence, &mut self.out)
                    .map_err(|error| self.server.exception(&error))?;
                return Ok(self.out.result(mark));
            }
            NonceLookup::InProgress => return Err(Refused::MayBlock),
        };
        let mutations = std::slice::from_ref(&asked.mutation);
        let written = write::write_row(&self.server, &region, None, mutations, running, mode, &mut self.out);
        let written = written.map_err(|error| self.refused(&error))?;
        self.pending_writes.push(PendingWrite {
            region,
            pending: written.pending,
            region_action: self.results.len(),
            entries: vec![current.entries.len()],
            gave_cells: self.out.is_block() && self.out.since(mark) > 0,
            has_failed: false,
        });
        Ok(if written.has_result { self.out.result(mark) } else { pb::Result::default() })
    }

    fn refused(&self, error: &region::Error) -> Refused {
        match error {
            error if error.would_block() => Refused::MayBlock,
            error => Refused::Because(self.server.exception(error)),
        }
    }

    /// Claims the nonce of the first mutation that has one.
    fn begin(&self, asked: &[RequestedMutation], mode: ReadMode) -> NonceLookup {
        let Some(asked) = write::first_with_nonce(asked) else { return NonceLookup::New(None) };
        let nonce = asked.nonce(self.request.nonce_group.unwrap_or_default());
        loop {
            match self.server.nonces.begin(nonce) {
                NonceClaim::Fresh(running) => return NonceLookup::New(Some(running)),
                NonceClaim::Repeated(sequence) => return NonceLookup::Done(sequence),
                NonceClaim::InProgress(_) if mode == ReadMode::MemoryOnly => return NonceLookup::InProgress,
                NonceClaim::InProgress(ended) => env::block_on(nonces::ended(ended)),
            }
        }
    }

    /// Runs an atomic or conditional RegionAction, whose mutations of one row are applied together. Returns `None` if
    /// it would have to block but must not.
    fn row_action(
        &mut self,
        region: &Arc<Region>,
        action: &RegionAction,
        condition: Option<&pb::Condition>,
        mode: ReadMode,
    ) -> Option<pb::RegionActionResult> {
        let cells = self.cells.clone();
        Some(match self.try_row_action(region, action, condition, mode) {
            Ok((processed, merged)) => {
                // The entries are numbered here by their position, because clients count them. The indexes in the
                // request do not matter.
                let entry = |index: usize| pb::ResultOrException {
                    index: Some(index as u32),
                    result: (condition.is_none()).then(pb::Result::default),
                    ..Default::default()
                };
                let mut entries: Vec<_> = (0..action.action.len()).map(entry).collect();
                if let (Some(first), Some(merged)) = (entries.first_mut(), merged) {
                    first.result = Some(merged);
                }
                if condition.is_none() {
                    // Clients before HBase 2.4 read `processed` from the reply itself.
                    self.processed = Some(true);
                }
                pb::RegionActionResult {
                    result_or_exception: entries,
                    processed: Some(processed),
                    ..Default::default()
                }
            }
            Err(Refused::Because(exception)) => results::failed(&exception),
            Err(Refused::MayBlock) => {
                self.cells = cells;
                return None;
            }
        })
    }

    fn try_row_action(
        &mut self,
        region: &Arc<Region>,
        action: &RegionAction,
        condition: Option<&pb::Condition>,
        mode: ReadMode,
    ) -> Result<(bool, Option<pb::Result>), Refused> {
        let asked = self.mutations(region, &action.action)?;
        let check: Option<Check> = condition
            .map(|condition| request::condition(condition, &self.server.foundation().world))
            .transpose()?;
        let of_one_row: Vec<&Mutation> = asked.iter().map(|asked| &asked.mutation).collect();
        request::check_rows(check.as_ref(), &of_one_row)?;
        // The cells that an atomic action returns are in the message, not in the cell block.
        let mut out = CellsOut::new(Codec::None);
        let mark = out.mark();
        let running = match self.begin(&asked, mode) {
            NonceLookup::New(running) => running,
            NonceLookup::Done(_) if mode == ReadMode::MemoryOnly => return Err(Refused::MayBlock),
            NonceLookup::InProgress => return Err(Refused::MayBlock),
            NonceLookup::Done(sequence) => {
                for asked in &asked {
                    write::read_again(region, &asked.mutation, sequence, &mut out)
                        .map_err(|error| self.server.exception(&error))?;
                }
                return Ok((true, Some(out.result(mark))));
            }
        };
        let mutations: Vec<Mutation> = asked.into_iter().map(|asked| asked.mutation).collect();
        let written =
            write::write_row(&self.server, region, check.as_ref(), &mutations, running, mode, &mut out)
                .map_err(|error| self.refused(&error))?;
        self.pending_writes.push(PendingWrite {
            region: region.clone(),
            pending: written.pending,
            region_action: self.results.len(),
            entries: Vec::new(),
            gave_cells: false,
            has_failed: false,
        });
        Ok((written.processed.unwrap_or(true), written.has_result.then(|| out.result(mark))))
    }

    /// Decodes all mutations of a RegionAction. Consumes the cells of all, even if one is refused.
    fn mutations(
        &mut self,
        region: &Region,
        actions: &[Action],
    ) -> Result<Vec<RequestedMutation>, Exception> {
        let request = self.request.clone();
        let mut all = Ok(Vec::with_capacity(actions.len()));
        for action in actions {
            let one = match request.mutation(action) {
                Some((row, proto)) => self.mutation(region, row, proto),
                None => Err(Exception::do_not_retry("Atomic put and/or delete only, not a Get")),
            };
            all = match (all, one) {
                (Ok(mut all), Ok(one)) => {
                    all.push(one);
                    Ok(all)
                }
                (Err(first), _) => Err(first),
                (_, Err(error)) => Err(error),
            };
        }
        all
    }

    fn skip_cells(&mut self, actions: &[Action]) {
        let request = self.request.clone();
        for (_, mutation) in actions.iter().filter_map(|action| request.mutation(action)) {
            let count = usize::try_from(mutation.associated_cell_count.unwrap_or(0)).unwrap_or(0);
            // If the block has too few cells, decoding the next mutation fails.
            let _skipped = self.cells.take(count);
        }
    }

    /// Runs a checkAndMutate with several mutations as sent by clients before HBase 2.4: the request has one condition.
    fn old_check_and_mutate(
        &mut self,
        request: &MultiRequest,
        condition: &pb::Condition,
        mode: ReadMode,
    ) -> Run {
        let Some(action) = request.region_action.first() else {
            self.processed = Some(true);
            return Run::Done;
        };
        let result = match self.server.regions().find(&action.region) {
            Ok(region) => match self.row_action(&region, action, Some(condition), mode) {
                Some(result) => result,
                None => return Run::MayBlock,
            },
            Err(exception) => results::failed(&exception),
        };
        self.processed = result.processed;
        self.results.push(RegionResult::Whole(pb::RegionActionResult { processed: None, ..result }));
        Run::Done
    }

    /// Waits until all writes are durable.
    async fn await_durable(&mut self) {
        let slowing = self.pending_writes.iter().map(|write| self.server.slowing_of(&write.region)).max();
        self.complete_writes(&mut []).await;
        if let Some(slowing) = slowing.filter(|slowing| !slowing.is_zero()) {
            env::sleep(slowing).await;
        }
    }

    /// Waits until all writes so far are durable and visible. `entries` are those of the RegionAction that runs.
    async fn complete_writes(&mut self, entries: &mut [Entry]) {
        let mut writes = std::mem::take(&mut self.pending_writes);
        self.entrusted = 0;
        // While this call waits for writes of other calls, no other call may wait for a write of this one.
        for write in &mut writes {
            if let Err(error) = write.pending.logged().await {
                write.has_failed = true;
                self.fail(write, &error, entries);
            }
        }
        for mut write in writes {
            if !write.has_failed
                && let Err(error) = (&mut write.pending).await
            {
                self.fail(&write, &error, entries);
            }
        }
    }

    /// Replaces the entries of a failed write by exceptions.
    fn fail(&mut self, write: &PendingWrite, error: &region::Error, entries: &mut [Entry]) {
        let exception = self.server.exception(error);
        match self.results.get_mut(write.region_action) {
            Some(result) => result.fail(&write.entries, &exception),
            None => write.entries.iter().for_each(|entry| entries[*entry].fail(&exception)),
        }
        if write.gave_cells {
            self.broken = Some(exception);
        }
    }

    /// Makes the reply. Cells are in the block in the order of the entries. If a write that returned cells did not
    /// become durable, the client would take its cells for those of another entry. Then the whole reply is the
    /// exception.
    fn reply(self: Box<Self>) -> Result<Reply, Exception> {
        if let Some(exception) = self.broken {
            return Err(exception);
        }
        let message = results::encode(&self.results, self.processed);
        let reply = Reply { message: message.into(), cells: self.out.into_block(), share: None };
        Ok(reply.counted_by(self.share))
    }
}
