//! Services by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Answer, Call, Coming};

/// Something that answers the calls of one protobuf service.
///
/// `call` runs on the thread that serves sockets: it must not wait. What waits (for the log, for the disk, for another
/// server) goes into an [`Answer::Later`], and what blocks a thread goes through `env::blocking` inside of that.
pub trait Service: Send + Sync + 'static {
    /// Answers one call. A method that is not known gets [`Exception::unknown_method`](crate::Exception::unknown_method).
    fn call(&self, call: Call) -> Answer;

    /// Is told of requests that have come together, before the first of them is served, so that what they need can be asked of
    /// memory at once. Each is served as if nobody had been told. Says whether that was of use: where it was not, those that come
    /// next are likely no others.
    fn foresee(&self, _coming: Coming<'_>) -> bool {
        false
    }
}

/// The services that a listener offers, by the unqualified name in their `.proto` file.
#[derive(Clone, Default)]
pub struct Services {
    by_name: BTreeMap<&'static str, Arc<dyn Service>>,
    cluster_id: Option<String>,
}

impl Services {
    /// No service.
    pub fn new() -> Services {
        Services::default()
    }

    /// Adds `service` under `name`, in place of one that had the name before.
    pub fn with(mut self, name: &'static str, service: Arc<dyn Service>) -> Services {
        self.by_name.insert(name, service);
        self
    }

    /// Sets the id that a client gets which asks by the `Regist` preamble, before any connection header.
    pub fn with_cluster_id(mut self, id: impl Into<String>) -> Services {
        self.cluster_id = Some(id.into());
        self
    }

    /// The service called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Service>> {
        self.by_name.get(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by_name.keys().copied()
    }

    /// The cluster's id, once it was set.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("names", &self.by_name.keys())
            .field("cluster_id", &self.cluster_id)
            .finish()
    }
}
