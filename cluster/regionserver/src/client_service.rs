//! ClientService: reading and writing rows.

mod bulk_load;
mod exec;
mod get;
mod multi;
mod mutate;
mod prefetch;
mod scan;
mod write;

use std::sync::Arc;

use prost::Message;
use proto::pb;
use region::Region;
use rpc::{Answer, Call, Exception, Reply, Service, UpcomingRequests};

use crate::RegionServer;
use crate::counters::count;
use crate::watch::{later, watch};

/// The service that reads and writes the rows of tables.
#[derive(Clone, Debug)]
pub struct ClientService {
    server: Arc<RegionServer>,
}

impl ClientService {
    /// Creates the service for the regions of `server`.
    pub fn new(server: Arc<RegionServer>) -> ClientService {
        ClientService { server }
    }
}

/// Answers a call that names a region by work that runs on the blocking thread pool.
fn blocking_on_region<M: Message + Default + 'static>(
    server: &Arc<RegionServer>,
    call: &Call,
    region_of: fn(&M) -> &pb::RegionSpecifier,
    work: impl FnOnce(&Arc<RegionServer>, &Arc<Region>, &M) -> Result<Reply, Exception> + Send + 'static,
) -> Answer {
    count(&server.counters().requests);
    let request: M = match call.decode() {
        Ok(request) => request,
        Err(refused) => return refused.into(),
    };
    let region = match server.regions().find(region_of(&request)) {
        Ok(region) => region,
        Err(refused) => return refused.into(),
    };
    let running = server.clone();
    later(server, call, env::blocking(move || work(&running, &region, &request)))
}

impl Service for ClientService {
    fn prefetch(&self, upcoming: UpcomingRequests<'_>) -> bool {
        prefetch::prefetch(&self.server, upcoming)
    }

    fn call(&self, call: Call) -> Answer {
        if let Err(stopped) = self.server.check_open() {
            return stopped.into();
        }
        if let Some(replica) = self.server.replica()
            && let Err(refused) = replica.check(&call.method)
        {
            return refused.into();
        }
        let answer = match &*call.method {
            "Get" => get::answer(&self.server, &call),
            "Mutate" => mutate::answer(&self.server, &call),
            "Multi" => multi::answer(&self.server, &call),
            "Scan" => scan::answer(&self.server, &call),
            "ExecService" => exec::answer(&self.server, &call),
            "ExecRegionServerService" => exec::answer_of_server(&call),
            "PrepareBulkLoad" => bulk_load::prepare(&self.server, &call),
            "BulkLoadHFile" => bulk_load::load(&self.server, &call),
            "CleanupBulkLoad" => bulk_load::cleanup(&self.server, &call),
            method => Exception::unknown_method("ClientService", method).into(),
        };
        watch(&self.server, &call, answer)
    }
}
