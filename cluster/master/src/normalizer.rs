//! The normalizer: splits regions that are large in comparison with the others of their table, and merges small
//! neighbours.
//!
//! ```text
//! Normalize (a client) ──▶ queue of tables ──▶ plans of one table ──▶ ordinary splits and merges
//! the chore, each period ─▶      (last)          (at most so many bytes a second)
//! ```
//!
//! As in HBase, the call is answered as soon as its tables are in the queue, from which the chore takes them. If a plan
//! is refused when it is submitted, because the table has changed since, the plan is logged and given up. The next run
//! makes new plans.

pub(crate) mod plans;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Moment;
use proto::catalog::{RegionState, TableState};
use proto::{TableName, pb};
use rpc::Exception;

use crate::Master;
use crate::selection::Selection;
use crate::switches::Switch;
use crate::view::is_in_transition;
use plans::{Plan, SizedRegion, TableRules};

/// The tables that wait for the normalizer, and the remaining plans of the table that was taken last.
#[derive(Debug, Default)]
pub(crate) struct NormalizerQueue {
    tables: VecDeque<TableName>,
    plans: VecDeque<Plan>,
    /// When the next plan may be submitted; `None` if no pause is needed.
    next_plan: Option<Moment>,
}

impl NormalizerQueue {
    /// Whether a table can be taken from the queue now: the plans of the previous table are submitted first.
    pub(crate) fn has_tables(&self) -> bool {
        self.plans.is_empty() && !self.tables.is_empty()
    }

    /// Adds tables to the queue, each once: before all others if `first` is set, or else after them.
    fn add(&mut self, tables: Vec<TableName>, first: bool) {
        if first {
            self.tables.retain(|waiting| !tables.contains(waiting));
            tables.into_iter().rev().for_each(|table| self.tables.push_front(table));
        } else {
            for table in tables {
                if !self.tables.contains(&table) {
                    self.tables.push_back(table);
                }
            }
        }
    }
}

/// The sizes of open regions in MB, by region name.
type Sizes = BTreeMap<Bytes, u64>;

impl Master {
    /// Puts the selected tables that are enabled into the normalizer's queue. Returns whether the normalizer runs. It
    /// does not run if it is switched off or while a region is in transition.
    pub(crate) fn normalize(&self, selection: &Selection<'_>, first: bool) -> Result<bool, Exception> {
        let in_transition = self.read_view(|view| {
            view.tables.values().flat_map(|table| &table.regions).any(|row| is_in_transition(row.state))
        });
        if in_transition || !self.switches.is_on(Switch::Normalizer) {
            return Ok(false);
        }
        let selected = self.table_names(selection)?;
        let selected = selected.iter().filter_map(|name| TableName::try_from(name).ok());
        let enabled = self.read_view(|view| {
            let is_enabled = |table: &TableName| {
                view.tables.get(table).is_some_and(|table| table.state == TableState::Enabled)
            };
            selected.filter(is_enabled).collect()
        });
        self.normalizer.lock().add(enabled, first);
        // The chores' thread checks the queue under this lock before it waits. Taking the lock once makes sure that it
        // sees the new tables.
        drop(self.stopping.lock());
        self.stopped.notify_all();
        Ok(true)
    }

    /// Makes plans for the tables in the queue and submits them, as far as the limit of bytes a second allows. If the
    /// normalizer is switched off, empties the queue instead.
    pub(crate) fn run_normalizer(self: &Arc<Self>) {
        // The sizes are read at most once in a run, when the first table needs them.
        let mut sizes: Option<Sizes> = None;
        loop {
            if !self.switches.is_on(Switch::Normalizer) {
                *self.normalizer.lock() = NormalizerQueue::default();
                return;
            }
            let now = self.world.moment();
            let mut queue = self.normalizer.lock();
            let plan = match queue.plans.pop_front() {
                Some(plan) if queue.next_plan.is_some_and(|next| next > now) => {
                    queue.plans.push_front(plan);
                    return;
                }
                Some(plan) => plan,
                None => {
                    let Some(table) = queue.tables.pop_front() else { return };
                    drop(queue);
                    let plans = self.plan_table(&table, &mut sizes);
                    self.normalizer.lock().plans.extend(plans);
                    continue;
                }
            };
            let rate = self.options.normalizer.bytes_per_second;
            if rate > 0 {
                // As in HBase, each plan counts as one megabyte at least. The next plan waits until the limit permits
                // it.
                let bytes = plan.megabytes().max(1) << 20;
                let pause = Duration::from_secs_f64(bytes as f64 / rate as f64);
                queue.next_plan = Some(now.plus(pause));
            }
            drop(queue);
            self.submit_plan(plan);
        }
    }

    /// Returns the plans for a table; none if the table does not exist, is not enabled, or is not to be normalized.
    fn plan_table(&self, table: &TableName, sizes: &mut Option<Sizes>) -> Vec<Plan> {
        let rules = self.read_view(|view| {
            let table = view.tables.get(table).filter(|table| table.state == TableState::Enabled)?;
            TableRules::of(&table.descriptor, &self.options.normalizer)
        });
        let Some(mut rules) = rules else { return Vec::new() };
        rules.restrict(self.switches.is_on(Switch::Split), self.switches.is_on(Switch::Merge));
        let sizes = sizes.get_or_insert_with(|| self.region_sizes());
        let regions: Vec<SizedRegion> = self.read_view(|view| {
            let serving = view.tables.get(table).into_iter().flat_map(|table| table.serving());
            let sized = serving.map(|row| SizedRegion {
                info: row.region.clone(),
                megabytes: sizes.get(row.region.name()).copied().unwrap_or(0),
                // Without a report the size of a region is unknown, so the region counts as closed.
                is_open: row.state == RegionState::Open && sizes.contains_key(row.region.name()),
            });
            sized.collect()
        });
        let now = u64::try_from(self.world.now().0).unwrap_or(0);
        let plans = rules.plan(&regions, now);
        tracing::debug!(%table, regions = regions.len(), plans = plans.len(), "the normalizer has looked at a table");
        plans
    }

    fn region_sizes(&self) -> Sizes {
        let loads = self.regions.loads();
        let regions = loads.into_iter().flat_map(|(_, load)| load.region_loads);
        let size = |load: pb::RegionLoad| {
            (load.region_specifier.value, u64::from(load.storefile_size_mb.unwrap_or(0)))
        };
        regions.map(size).collect()
    }

    fn submit_plan(self: &Arc<Self>, plan: Plan) {
        let megabytes = plan.megabytes();
        let (verb, first, submitted) = match plan {
            Plan::Split(region) => {
                let submitted = self.split_region(&pb::RegionInfo::from(&region.info), None, None);
                ("split", region.info, submitted)
            }
            Plan::Merge(regions) => {
                let specifier = |region: &SizedRegion| pb::RegionSpecifier {
                    r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
                    value: region.info.name().clone(),
                };
                let specifiers: Vec<_> = regions.iter().map(specifier).collect();
                let submitted = self.merge_regions(&specifiers, false, None);
                let Some(first) = regions.into_iter().next() else { return };
                ("merge", first.info, submitted)
            }
        };
        let table = first.table();
        match submitted {
            Ok(id) => {
                tracing::info!(%table, region = %first, megabytes, pid = id.0, "the normalizer begins a {verb}")
            }
            Err(refusal) => {
                tracing::info!(%table, region = %first, megabytes, %refusal, "the normalizer's {verb} is refused");
            }
        }
    }
}
