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

use rpc::{Answer, Call, Exception, Service, UpcomingRequests};

use crate::RegionServer;
use crate::watch::watch;

/// The service that reads and writes the rows of tables.
#[derive(Clone, Debug)]
pub struct ClientService {
    server: Arc<RegionServer>,
}

impl ClientService {
    /// Serves the regions of `server`.
    pub fn new(server: Arc<RegionServer>) -> ClientService {
        ClientService { server }
    }
}

impl Service for ClientService {
    fn prefetch(&self, upcoming: UpcomingRequests<'_>) -> bool {
        prefetch::prefetch(&self.server, upcoming)
    }

    fn call(&self, call: Call) -> Answer {
        if let Err(stopped) = self.server.check_open() {
            return stopped.into();
        }
        let answer = match &*call.method {
            "Get" => get::answer(&self.server, &call),
            "Mutate" => mutate::answer(&self.server, &call),
            "Multi" => multi::answer(&self.server, &call),
            "Scan" => scan::answer(&self.server, &call),
            "ExecService" => exec::answer(&self.server, &call),
            "PrepareBulkLoad" => bulk_load::prepare(&self.server, &call),
            "BulkLoadHFile" => bulk_load::load(&self.server, &call),
            "CleanupBulkLoad" => bulk_load::cleanup(&self.server, &call),
            method => Exception::unknown_method("ClientService", method).into(),
        };
        watch(&self.server, &call, answer)
    }
}
