//! The administrators: four tasks that change tables while the clients read and write and faults strike.
//!
//! One splits, merges, flushes and compacts, one alters, one takes snapshots and clones them, and one has a table of its
//! own. So operations of different kinds run at the same time. If the runner wants an operation of some kind, the
//! administrator of this kind begins it next.
//!
//! In calm times every operation must succeed, except those that the server may refuse
//! ([`AdminOperation::may_be_refused`]). A fault may end an operation with an error; then it must have happened
//! completely or not at all.

mod regions;
mod schema;
mod side;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use client::{Admin, Cluster, Error};
use env::{Runtime, Task, World};
use proto::TableName;
use proto::catalog::TableState;

use crate::activity::AdminOperation;
use crate::clients::{TABLE, below, connect, connect_impatiently};
use crate::shared::Shared;

/// Maximum pause of an administrator between two operations, in ms.
const PAUSE_MAX_MS: u64 = 300;
/// Maximum time for which the server may be busy with a table that is to be deleted in the end.
const LEFT_MAX: Duration = Duration::from_secs(60);
/// Pause before a table that the server was busy with is looked at again.
const LEFT_PAUSE: Duration = Duration::from_millis(200);

/// Starts all administrators. Their tasks end when [`Shared::is_ending`] is set.
pub(crate) fn begin(
    runtime: &Runtime,
    shared: &Arc<Shared>,
    servers: &str,
    random: impl Fn(u64) -> World,
) -> Vec<Task<()>> {
    let admin = |task, connect: fn(&str) -> Cluster| Administrator {
        shared: Arc::clone(shared),
        cluster: connect(servers),
        table: TABLE.parse().expect("a good name"),
        random: random(task),
    };
    vec![
        // A region that cannot be split or merged yet must not keep it from others.
        runtime.spawn(regions::work(admin(200, connect_impatiently))),
        runtime.spawn(schema::work(admin(201, connect))),
        runtime.spawn(snapshots::work(admin(202, connect))),
        runtime.spawn(side::work(admin(203, connect))),
    ]
}

/// The state of one administrator: its client, the table of the clients, and its random numbers.
struct Administrator {
    shared: Arc<Shared>,
    cluster: Cluster,
    /// The table that clients write.
    table: TableName,
    random: World,
}

impl Administrator {
    fn below(&self, limit: u64) -> u64 {
        below(&self.random, limit)
    }

    fn one_of<'a, T: ?Sized>(&self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Pauses for a random time of at most [`PAUSE_MAX_MS`]. Returns whether the test continues.
    async fn goes_on(&self) -> bool {
        env::sleep(Duration::from_millis(self.below(PAUSE_MAX_MS))).await;
        !*self.shared.is_ending.borrow()
    }

    /// Returns the first of these kinds that the runner wants, or `otherwise` if it wants none of them.
    fn next(&self, of: &[AdminOperation], otherwise: AdminOperation) -> AdminOperation {
        self.shared.activity.take_wanted(of).unwrap_or(otherwise)
    }

    /// Reads something about the cluster. Returns `None` if that fails, and complains if the server was undisturbed.
    async fn known<T>(&self, what: &str, read: impl Future<Output = Result<T, Error>>) -> Option<T> {
        let start = self.shared.start();
        match read.await {
            Ok(known) => Some(known),
            Err(error) => {
                if self.shared.is_undisturbed_since(start) {
                    self.shared.expected.complain(format!("{what} cannot be read: {error}"));
                }
                None
            }
        }
    }

    async fn state_of(&self, table: &TableName) -> Option<Option<TableState>> {
        self.known("the state of a table", self.cluster.admin().table_state(table)).await
    }

    /// Disables and deletes a table. Returns whether it is gone.
    async fn delete(&self, table: &TableName) -> bool {
        let admin = self.cluster.admin();
        loop {
            let done = match self.state_of(table).await {
                Some(None) => return true,
                Some(Some(TableState::Disabled)) => {
                    self.shared.administrate(AdminOperation::Delete, admin.delete_table(table)).await
                }
                Some(Some(TableState::Enabled)) => {
                    self.shared.administrate(AdminOperation::Disable, admin.disable_table(table)).await
                }
                // Another operation changes the table's state; the loop waits for its end.
                Some(Some(_)) => Ok(()),
                None => return false,
            };
            if done.is_err() && self.shared.expected.complaint().is_some() {
                return false;
            }
            env::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Deletes everything that administrators have left: all tables except the clients', and all snapshots. Fails if
/// something remains.
pub(crate) async fn clean_up(cluster: &Cluster) -> Result<(), Error> {
    let admin = cluster.admin();
    for snapshot in admin.snapshots().await? {
        admin.delete_snapshot(&snapshot.name).await?;
    }
    for table in admin.tables().await?.into_iter().filter(|table| table.as_str() != TABLE) {
        delete_left(&admin, &table).await?;
    }
    let (tables, snapshots) = (admin.tables().await?, admin.snapshots().await?);
    match tables.len() == 1 && snapshots.is_empty() {
        true => Ok(()),
        false => {
            Err(Error::Invalid(format!("there still are tables {tables:?} and snapshots {snapshots:?}")))
        }
    }
}

/// Disables and deletes a table. The server may still finish an operation on it that a fault has interrupted, so its
/// refusals count only after [`LEFT_MAX`].
async fn delete_left(admin: &Admin, table: &TableName) -> Result<(), Error> {
    let mut left = LEFT_MAX;
    loop {
        let state = admin.table_state(table).await?;
        let done = match state {
            None => return Ok(()),
            Some(TableState::Disabled) => admin.delete_table(table).await,
            Some(TableState::Enabled) => admin.disable_table(table).await,
            Some(_) => Err(Error::Invalid(format!("table {table} remains {state:?}"))),
        };
        if let Err(error) = done {
            if left.is_zero() {
                return Err(error);
            }
            left = left.saturating_sub(LEFT_PAUSE);
            env::sleep(LEFT_PAUSE).await;
        }
    }
}
