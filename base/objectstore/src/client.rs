//! What a bucket needs of the clients of its service.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::list::PaginatedListStore;

use crate::keys::RemoteKeys;
use crate::profile::ProfileKeys;

/// The client of a service, as the library has it.
pub(crate) trait Client: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Client for T {}

/// The clients of a bucket.
pub(crate) struct Clients {
    /// Repeats failed requests by itself.
    pub(crate) store: Arc<dyn Client>,
    /// Repeats nothing.
    pub(crate) once: Arc<dyn Client>,
    /// The keys, if they are those of a profile.
    pub(crate) profile_keys: Option<Arc<ProfileKeys>>,
    /// The keys, if another service gives them.
    pub(crate) remote_keys: Option<RemoteKeys>,
}
