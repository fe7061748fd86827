//! Get: reads one row, or whether it exists.

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
    match work.run(ReadMode::MemoryOnly) {
        Err(error) if error.would_block() => {
            count(&server.counters().reads_from_disk);
            let (told, share) = (server.clone(), call.connection.answers.share());
            later(server, call, async move {
                match awaited::repeat(error, move |mode| work.run(mode)).await {
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
        // Clients before 1.3, or of unknown version, expect the cells in the message.
        let in_block = call.connection.client_is_at_least(1, 3);
        Ok(Work { region, query, codec: if in_block { call.connection.codec } else { Codec::None } })
    }

    fn run(&self, mode: ReadMode) -> Result<Reply, region::Error> {
        if self.query.existence_only() {
            let result = exists(&self.region, &self.query, mode)?;
            return Ok(CellsOut::new(self.codec).reply(&pb::GetResponse { result: Some(result) }));
        }
        let mut out = CellsOut::new(self.codec);
        let start = out.mark();
        self.region.get(&self.query, mode, &mut out)?;
        let result = out.result(start);
        Ok(out.reply(&pb::GetResponse { result: Some(result) }))
    }
}

/// The result that tells whether a Get finds a cell.
fn exists(region: &Arc<Region>, query: &Scan, mode: ReadMode) -> Result<pb::Result, region::Error> {
    let mut found = CellCounter::default();
    region.get(query, mode, &mut found)?;
    Ok(found.exists())
}
