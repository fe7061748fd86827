//! Measures the time until a starting server gives its first answers.
//!
//! The measurement is started together with the server. It retries at short intervals, not with the growing pauses of
//! a client, so that it measures the server's start and not these pauses.

use std::time::Duration;

use client::{Cluster, Get, Options, Table};
use env::World;
use proto::{FamilyDescriptor, TableDescriptor};

use crate::rows::{Layout, Rows};
use crate::{Error, Plan, Result};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum time of one attempt; a killed server may leave a dead connection behind.
const TRY_MAX: Duration = Duration::from_secs(1);
/// Time after which an attempt that fails ends the measurement with its error.
const GIVE_UP: Duration = Duration::from_secs(300);

/// Times of the first answers, since the beginning of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// The time of the first read that returned the row.
    pub read: Duration,
    /// The time of the first successful write.
    pub write: Duration,
}

/// Waits for the first read and the first write of a row of the plan's table, tried in parallel. Creates a missing
/// table; then the read waits for the write.
pub(crate) async fn first(world: World, plan: Plan) -> Result<First> {
    let began = world.moment();
    let rows = plan.rows(Layout::Evaluation);
    let mut options = Options::new(plan.registry.clone());
    (options.retries, options.call_max, options.operation_max) = (0, TRY_MAX, TRY_MAX);
    let fresh = || Cluster::connect(world.clone(), options.clone());
    let is_late = || world.moment().since(began) > GIVE_UP;
    let name = plan.table.to_string();
    let write = async {
        loop {
            let cluster = fresh();
            let put = rows.put(0).durability(plan.durability);
            match cluster.table(&name)?.put(put).await {
                Ok(()) => return Ok(world.moment().since(began)),
                Err(client::Error::TableNotFound(_)) => make(&cluster, &plan, &rows).await,
                Err(error) if is_late() => return Err(Error::from(error)),
                Err(_) => env::sleep(PAUSE).await,
            }
        }
    };
    let read = async {
        loop {
            let found = read_one(&fresh().table(&name)?, &rows).await;
            match judge(found, is_late()) {
                Some(Ok(())) => return Ok(world.moment().since(began)),
                Some(Err(error)) => return Err(error),
                None => env::sleep(PAUSE).await,
            }
        }
    };
    let (read, write) = tokio::try_join!(read, write)?;
    Ok(First { read, write })
}

/// Returns how the wait for the first read ends; `None` if the read is repeated. `found` says whether the last read
/// returned the row.
fn judge(found: client::Result<bool>, is_late: bool) -> Option<Result<()>> {
    match found {
        Ok(true) => Some(Ok(())),
        Ok(false) if is_late => Some(Err(Error::NotRead { waited: GIVE_UP })),
        Err(error) if is_late => Some(Err(error.into())),
        Ok(false) | Err(_) => None,
    }
}

/// Requests the creation of the table; the next write shows whether it exists.
async fn make(cluster: &Cluster, plan: &Plan, rows: &Rows) {
    let family = FamilyDescriptor::new(rows.layout().family()).expect("a family of ours");
    let mut table = TableDescriptor::new(plan.table.clone());
    table.set_family(family);
    if cluster.admin().create_table(&table, &[]).await.is_err() {
        env::sleep(PAUSE).await;
    }
}

async fn read_one(table: &Table, rows: &Rows) -> client::Result<bool> {
    let get = Get::row(rows.key(0)).column(rows.layout().family(), rows.qualifiers()[0].clone());
    Ok(!table.get(get).await?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_never_comes_ends_the_wait() {
        let failed = || Err(client::Error::Invalid("no".to_owned()));
        for found in [Ok(false), failed()] {
            assert!(judge(found, false).is_none(), "it is repeated");
        }
        assert!(matches!(judge(Ok(true), true), Some(Ok(()))));
        assert!(matches!(judge(Ok(false), true), Some(Err(Error::NotRead { .. }))));
        assert!(matches!(judge(failed(), true), Some(Err(Error::Client(_)))));
    }
}
