//! Splits and merges regions of all tables under the other workloads, whose judges detect lost or doubled rows. Its own
//! judge checks that the regions of each table cover every row once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::Location;
use proto::{TableDescriptor, TableName};

use super::{Complaint, Job, Scene, Verdict, Workload};
use crate::random::Random;

/// Number of regions above which it only merges.
const REGIONS_MAX: usize = 8;

/// The workload; see the module documentation.
pub(super) struct Division {
    seed: u64,
}

impl Division {
    pub(super) fn new(random: &mut Random) -> Division {
        Division { seed: random.bits() }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let admin = scene.client(Duration::from_secs(10)).admin();
        let mut random = Random::new(self.seed);
        while !scene.is_over() {
            scene.pause(&mut random, 3_000).await;
            let Ok(tables) = admin.tables().await else { continue };
            let tables: Vec<TableName> = tables.into_iter().filter(|table| !table.is_system()).collect();
            if tables.is_empty() {
                continue;
            }
            let table = &tables[random.below(tables.len() as u64) as usize];
            let Ok(regions) = admin.regions(table).await else { continue };
            if regions.is_empty() {
                continue;
            }
            let at = random.below(regions.len() as u64) as usize;
            if random.one_in(2) && regions.len() < REGIONS_MAX {
                // The region is split at a key that it probably has, or at the middle that the server finds.
                let row =
                    (!random.one_in(4)).then(|| Bytes::from(vec![random.choose(b"13579bdfhjlnprtvxz")]));
                if admin.split_region(&regions[at].region, row).await.is_ok() {
                    env::sometimes("division: a region was split");
                }
            } else if let Some(pair) = regions.get(at..at + 2) {
                let pair: Vec<_> = pair.iter().map(|location| location.region.clone()).collect();
                if admin.merge_regions(&pair, false).await.is_ok() {
                    env::sometimes("division: two regions were merged");
                }
            }
        }
    }

    fn check(table: &TableName, regions: &[Location]) -> Result<(), String> {
        let mut next = Some(Bytes::new());
        for Location { region, .. } in regions {
            if next.as_ref() != Some(region.start_key()) {
                return Err(format!(
                    "division: region {region} of {table} begins elsewhere than at {next:?}"
                ));
            }
            next = Some(region.end_key().clone()).filter(|end| !end.is_empty());
        }
        match next {
            None => Ok(()),
            Some(end) => Err(format!("division: the regions of {table} end at {end:?}")),
        }
    }
}

impl Workload for Division {
    fn name(&self) -> &'static str {
        "division"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        Vec::new()
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        vec![Box::pin(Arc::clone(&self).client(scene.clone()))]
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let admin = scene.client(Duration::from_secs(120)).admin();
            let words = |error: client::Error| {
                Complaint::Unreadable(format!("division: the regions cannot be listed: {error}"))
            };
            for table in admin.tables().await.map_err(words)? {
                // Another workload may have left its table disabled or created only in part. Such a table is left out.
                let is_enabled = admin.table_state(&table).await.map_err(words)?
                    == Some(proto::catalog::TableState::Enabled);
                if is_enabled && !table.is_system() {
                    let mut regions = admin.regions(&table).await.map_err(words)?;
                    regions.sort_by(|left, right| left.region.start_key().cmp(right.region.start_key()));
                    Division::check(&table, &regions)?;
                }
            }
            Ok(())
        })
    }
}
