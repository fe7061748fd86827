//! Services, which a server finds by their names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Answer, Call, Reclaim, UpcomingRequests};

/// Answers the calls of one protobuf service.
///
/// `call` runs on a thread that serves sockets, so it must not wait. If a call must wait (for the log, the disk,
/// another server), it returns an [`Answer::Later`]. Work that blocks a thread runs in `env::blocking` inside that
/// future.
pub trait Service: Send + Sync + 'static {
    /// Answers one call. Unknown methods get [`Exception::unknown_method`](crate::Exception::unknown_method).
    fn call(&self, call: Call) -> Answer;

    /// Lets the service inspect requests that arrived together, before the first of them is served, so that it can
    /// prefetch memory for all of them. This must not change any result. Returns whether the service prefetched
    /// anything; if not, it probably will not for the next requests, either.
    ///
    /// The steps of a prefetch: the connection finds several requests in its buffer ([`UpcomingRequests`]).
    /// `regionserver` reads the region and the row of each Get, and of each write that reads, without decoding the
    /// request. `Region`, `Store`, the memstore's `Segment` and `hfile::Reader` each have a function `prefetch_rows`.
    /// It makes each step of the lookup for all rows, and prefetches the memory that the next step reads. A Multi does
    /// the same for its own actions. `docs/rfcs/0007-prefetch.md` has the reasons and the figures.
    fn prefetch(&self, _upcoming: UpcomingRequests<'_>) -> bool {
        false
    }
}

/// The services that a server offers, by their names in the `.proto` file without the package.
#[derive(Clone, Default)]
pub struct Services {
    by_name: BTreeMap<&'static str, Arc<dyn Service>>,
    cluster_id: Option<String>,
    reclaim: Option<Reclaim>,
}

impl Services {
    /// Creates an empty set of services.
    pub fn new() -> Services {
        Services::default()
    }

    /// Adds `service` under `name`, and replaces an earlier one of that name.
    pub fn with(mut self, name: &'static str, service: Arc<dyn Service>) -> Services {
        self.by_name.insert(name, service);
        self
    }

    /// Sets the cluster id that clients receive after the `Regist` preamble, before any connection header.
    pub fn with_cluster_id(mut self, id: impl Into<String>) -> Services {
        self.cluster_id = Some(id.into());
        self
    }

    /// Sets the function that gives freed memory back to the system after a large request or answer.
    pub fn with_reclaim(mut self, reclaim: Option<Reclaim>) -> Services {
        self.reclaim = reclaim;
        self
    }

    /// Returns the function that [`with_reclaim`](Services::with_reclaim) has set.
    pub(crate) fn reclaim(&self) -> Option<Reclaim> {
        self.reclaim.clone()
    }

    /// Returns the service called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Service>> {
        self.by_name.get(name)
    }

    /// Returns the names of the services, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by_name.keys().copied()
    }

    /// Returns the cluster id, if it is set.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("names", &self.by_name.keys())
            .field("cluster_id", &self.cluster_id)
            .finish_non_exhaustive()
    }
}
