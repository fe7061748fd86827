//! Get: reads one row, or checks whether the row exists.

use std::sync::Arc;

use proto::pb;
use region::{ReadMode, Region, Scan};
use rpc::{Answer, Call, Codec, Exception, Reply};

use crate::RegionServer;
use crate::awaited;
use crate::cells::{CellCounter, CellsOut};
use crate::counters::count;
use crate::request::{GetQuery, GetRequest};
use crate::watch::later;

/// Answers at once from memory, or later from storage.
pub(super) fn answer(server: &Arc<RegionServer>, call: &Call) -> Answer {
    count(&server.counters().requests);
    count(&server.counters().gets);
    count(&server.counters().row_actions);
    let work = match Work::of(server, call) {
        Ok(work) => work,
        Err(refused) => return refused.into(),
    };
    let large_from = Some(call.connection.answers.large().small_max());
    match work.run(ReadMode::MemoryOnly, large_from) {
        Err(error) if error.would_block() => {
            count(&server.counters().reads_from_disk);
            let (told, mut share) = (server.clone(), call.connection.answers.share());
            later(server, call, async move {
                match awaited::repeat(error, &mut share, move |mode, large_from| work.run(mode, large_from))
                    .await
                {
                    Ok(reply) => Ok(reply.counted_by(share)),
                    Err(error) => Err(told.exception(&error)),
                }
            })
        }
        outcome => outcome.map_err(|error| server.exception(&error)).into(),
    }
}

struct Work {
    region: Arc<Region>,
    query: GetQuery,
    codec: Codec,
}

impl Work {
    fn of(server: &RegionServer, call: &Call) -> Result<Work, Exception> {
        let request = GetRequest::decode(&call.param).map_err(|error| call.unreadable(&error))?;
        let region = server.regions().find(&request.region)?;
        let query = request.query(&region.table(), &server.foundation().world)?;
        // Clients before HBase 1.3, and clients that do not state their version, expect the cells in the message.
        let in_block = call.connection.client_is_at_least(1, 3);
        Ok(Work { region, query, codec: if in_block { call.connection.codec } else { Codec::None } })
    }

    /// Reads the row; fails with [`region::Error::MobValue`] if the row has a cell of more bytes than `large_from`.
    fn run(&self, mode: ReadMode, large_from: Option<u64>) -> Result<Reply, region::Error> {
        if self.query.existence_only() {
            let result = exists(&self.region, &self.query, mode)?;
            return Ok(CellsOut::new(self.codec).reply(&pb::GetResponse { result: Some(result) }));
        }
        let mut out = CellsOut::new(self.codec).refuse_above(large_from.unwrap_or(u64::MAX));
        let start = out.mark();
        match large_from {
            // In memory-only mode no MOB value is read, so the limit is not needed.
            Some(limit) if limit < u64::MAX && mode == ReadMode::Any => {
                let mut query = Scan::clone(&self.query);
                query.mob.value_bytes_max = large_from;
                self.region.get(&query, mode, &mut out)?;
            }
            _ => {
                self.region.get(&self.query, mode, &mut out)?;
            }
        }
        if out.refused() > 0 {
            return Err(region::Error::MobValue { bytes: out.refused() });
        }
        let result = out.result(start);
        Ok(out.reply(&pb::GetResponse { result: Some(result) }))
    }
}

/// Returns the result that says whether a Get finds a cell.
fn exists(region: &Arc<Region>, query: &Scan, mode: ReadMode) -> Result<pb::Result, region::Error> {
    let mut found = CellCounter::default();
    region.get(query, mode, &mut found)?;
    Ok(found.exists())
}
