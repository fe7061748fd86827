//! Mutate: one put, delete, increment or append, optionally with a condition.

use std::sync::Arc;

use bytes::Bytes;
use cell::{CellType, SequenceId};
use proto::pb;
use region::{Check, MutationKind, Pending, ReadMode, Region};
use rpc::{Answer, Call, Codec, Exception, LargePermit, Reply};
use tokio::sync::watch;

use super::write::{self, WriteOutcome};
use crate::RegionServer;
use crate::cells::CellsOut;
use crate::counters::count;
use crate::nonces::{self, NonceClaim, NonceGuard};
use crate::request::{self, RequestCells, RequestedMutation};
use crate::watch::later;

/// Length of a request, in bytes, above which a put without a condition leaves the serving thread, where copying a
/// large value would delay other clients. The log record of such a put uses the request's memory.
const IN_PLACE_MIN: usize = 1 << 20;

/// Applies the mutation and responds when it is durable.
pub(super) fn answer(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    count(&server.counters().mutates);
    count(&server.counters().row_actions);
    let work = match Work::of(server, call) {
        Ok(work) => work,
        Err(refused) => return refused.into(),
    };
    if call.size > IN_PLACE_MIN && work.is_plain_put() {
        return later(server, call, async move {
            // The connection has dropped the call, so only this put keeps the request's memory.
            if let Some(permit) = &work.permit {
                permit.reclaim().await;
            }
            let (server, region) = (work.server.clone(), work.region.clone());
            let outcome = env::blocking(move || work.put_in_place()).await;
            let (reply, pending) = outcome.map_err(|error| server.exception(&error))?;
            when_durable(server, &region, reply, pending).await
        });
    }
    match work.run_at_once() {
        Ok((reply, pending)) => {
            work.flush_large();
            return later(server, call, work.when_durable(reply, pending));
        }
        Err(error) if error.would_block() => {}
        Err(error) => return work.server.exception(&error).into(),
    }
    later(server, call, async move {
        let mut work = work;
        loop {
            let attempt;
            (work, attempt) = env::blocking(move || {
                let attempt = work.attempt();
                (work, attempt)
            })
            .await;
            match attempt? {
                Attempt::Applied(reply, pending) => {
                    work.flush_large();
                    return work.when_durable(reply, pending).await;
                }
                Attempt::Repeated(reply) => return Ok(reply),
                Attempt::InProgress(ended) => nonces::ended(ended).await,
            }
        }
    })
}

/// How a mutation has ended on the blocking thread pool.
enum Attempt {
    Applied(Reply, Pending),
    /// An earlier call with the same nonce has applied the mutation, and this is the reply to it.
    Repeated(Reply),
    /// A call with the same nonce runs. The mutation must be attempted again when this is closed.
    InProgress(watch::Receiver<()>),
}

struct Work {
    server: Arc<RegionServer>,
    region: Arc<Region>,
    asked: RequestedMutation,
    check: Option<Check>,
    nonce_group: u64,
    codec: Codec,
    permit: Option<LargePermit>,
}

impl Work {
    fn of(server: &Arc<RegionServer>, call: &Call) -> Result<Work, Exception> {
        let request: pb::MutateRequest = call.decode()?;
        let region = server.regions().find(&request.region)?;
        let options = server.options();
        server.check_memory(&options, &region)?;
        let mut cells = RequestCells::new(call.cells.clone());
        let nonce_group = request.nonce_group.unwrap_or(0);
        // The row is copied, because a slice of it would keep the whole memory of a large request.
        let row = request.mutation.row.as_ref().map(|row| match call.size > IN_PLACE_MIN {
            true => Bytes::copy_from_slice(row),
            false => row.clone(),
        });
        let asked =
            request::mutation(&region.table(), row, &request.mutation, &mut cells, options.cell_bytes_max)?;
        let check = request
            .condition
            .as_ref()
            .map(|condition| request::condition(condition, &server.foundation().world))
            .transpose()?;
        request::check_rows(check.as_ref(), &[&asked.mutation])?;
        Ok(Work {
            asked: asked.of_group(nonce_group),
            check,
            nonce_group,
            codec: call.connection.codec,
            permit: call.permit.clone(),
            server: server.clone(),
            region,
        })
    }

    /// Runs the mutation on the serving thread. If it would have to wait for the disk, for a row lock, or for a running
    /// call with the same nonce, it is not applied, and the error's `would_block` returns true.
    fn run_at_once(&self) -> Result<(Reply, Pending), region::Error> {
        let running = match self.claim() {
            Some(NonceClaim::Fresh(running)) => Some(running),
            Some(NonceClaim::Repeated(_) | NonceClaim::InProgress(_)) => {
                return Err(region::Error::WouldBlock);
            }
            None => None,
        };
        self.run(running, ReadMode::MemoryOnly)
    }

    /// Runs the mutation on a thread that may block, but not to wait for a running call with the same nonce.
    fn attempt(&self) -> Result<Attempt, Exception> {
        let running = match self.claim() {
            Some(NonceClaim::Fresh(running)) => Some(running),
            Some(NonceClaim::Repeated(sequence)) => return self.repeat(sequence).map(Attempt::Repeated),
            Some(NonceClaim::InProgress(ended)) => return Ok(Attempt::InProgress(ended)),
            None => None,
        };
        let outcome = self.run(running, ReadMode::Any);
        outcome
            .map(|(reply, pending)| Attempt::Applied(reply, pending))
            .map_err(|error| self.server.exception(&error))
    }

    /// Claims the mutation's nonce; returns `None` if it has none.
    fn claim(&self) -> Option<NonceClaim> {
        let asked = write::first_with_nonce(std::slice::from_ref(&self.asked))?;
        Some(self.server.nonces.begin(asked.nonce(self.nonce_group)))
    }

    fn run(&self, running: Option<NonceGuard>, mode: ReadMode) -> Result<(Reply, Pending), region::Error> {
        let mut out = CellsOut::new(self.codec);
        let start = out.mark();
        let mutations = std::slice::from_ref(&self.asked.mutation);
        let check = self.check.as_ref();
        let written =
            write::write_row(&self.server, &self.region, check, mutations, running, mode, &mut out)?;
        let WriteOutcome { processed, has_result, pending, .. } = written;
        let result = has_result.then(|| out.result(start));
        Ok((out.reply(&pb::MutateResponse { result, processed, metrics: None }), pending))
    }

    /// Returns the reply to a repeated mutation that was applied before, by the write with the sequence id `sequence`.
    fn repeat(&self, sequence: SequenceId) -> Result<Reply, Exception> {
        let mut out = CellsOut::new(self.codec);
        let start = out.mark();
        write::read_again(&self.region, &self.asked.mutation, sequence, &mut out)
            .map_err(|error| self.server.exception(&error))?;
        // The operation was applied, so its condition was true. The repeated reply reports that again.
        let processed = self.check.as_ref().map(|_| true);
        let result = Some(out.result(start));
        Ok(out.reply(&pb::MutateResponse { result, processed, metrics: None }))
    }

    /// Whether the mutation puts values and does nothing else.
    fn is_plain_put(&self) -> bool {
        let is_put = |cell: cell::Cell<'_>| cell.cell_type() == Some(CellType::Put);
        self.check.is_none()
            && self.asked.mutation.kind == MutationKind::Put
            && self.asked.mutation.cells.cells().all(is_put)
    }

    fn put_in_place(self) -> Result<(Reply, Pending), region::Error> {
        let pending = self.region.put_in_place(self.asked.mutation)?;
        self.server.written(&self.region);
        if let Some(permit) = &self.permit {
            self.server.flush_large(&self.region, permit);
        }
        let response = pb::MutateResponse { result: None, processed: Some(true), metrics: None };
        Ok((CellsOut::new(self.codec).reply(&response), pending))
    }

    /// After a large request, flushes the region that the request has written to, if the request has filled it.
    fn flush_large(&self) {
        if let Some(permit) = &self.permit {
            self.server.flush_large(&self.region, permit);
        }
    }

    fn when_durable(
        &self,
        reply: Reply,
        pending: Pending,
    ) -> impl Future<Output = Result<Reply, Exception>> + Send + 'static {
        when_durable(self.server.clone(), &self.region, reply, pending)
    }
}

fn when_durable(
    server: Arc<RegionServer>,
    region: &Region,
    reply: Reply,
    pending: Pending,
) -> impl Future<Output = Result<Reply, Exception>> + Send + 'static {
    let slowing = server.slowing_of(region);
    async move {
        let outcome = pending.await;
        if !slowing.is_zero() {
            env::sleep(slowing).await;
        }
        outcome.map(|()| reply).map_err(|error| server.exception(&error))
    }
}
