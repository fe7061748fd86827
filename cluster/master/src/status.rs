//! The answer to `GetClusterStatus`.

use proto::catalog::RegionState;
use proto::{ServerName, pb};

use crate::Master;
use crate::switches::Switch;
use crate::view::{TableEntry, is_in_transition};

/// Returns the parts of the status that are wanted; all if none is named.
pub(crate) fn of(master: &Master, wanted: &[i32]) -> pb::ClusterStatus {
    use pb::Option as Part;
    let wants = |part: Part| wanted.is_empty() || wanted.contains(&(part as i32));
    let mut status = pb::ClusterStatus::default();
    if wants(Part::HbaseVersion) {
        status.hbase_version =
            Some(pb::HBaseVersionFileContent { version: master.options.hbase_version.clone() });
    }
    if wants(Part::ClusterId) {
        status.cluster_id = Some(pb::ClusterId { cluster_id: master.cluster_id.clone() });
    }
    if wants(Part::LiveServers) {
        let live = |(server, server_load): (ServerName, _)| pb::LiveServerInfo {
            server: (&server).into(),
            server_load,
        };
        status.live_servers = master.regions.loads().into_iter().map(live).collect();
    }
    if wants(Part::ServersName) {
        status.servers_name = master.regions.live().iter().map(pb::ServerName::from).collect();
    }
    if wants(Part::Master) {
        status.master = Some((&master.name).into());
    }
    if wants(Part::MasterInfoPort) {
        status.master_info_port = Some(master.options.info_port);
    }
    if wants(Part::BalancerOn) {
        status.balancer_on = Some(master.switches.is_on(Switch::Balancer));
    }
    if wants(Part::RegionsInTransition) {
        status.regions_in_transition = in_transition(master);
    }
    if wants(Part::TableToRegionsCount) {
        status.table_region_states_count = master.read_view(|view| {
            let counts = view.tables.iter().map(|(name, table)| pb::TableRegionStatesCount {
                table_name: name.into(),
                region_states_count: count(table),
            });
            counts.collect()
        });
    }
    status
}

fn in_transition(master: &Master) -> Vec<pb::RegionInTransition> {
    let now = u64::try_from(master.world.now().0).ok();
    master.read_view(|view| {
        let rows = view.tables.values().flat_map(|table| &table.regions);
        rows.filter(|row| is_in_transition(row.state))
            .map(|row| pb::RegionInTransition {
                spec: pb::RegionSpecifier {
                    r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
                    value: row.region.name().clone(),
                },
                region_state: pb::RegionState {
                    region_info: (&row.region).into(),
                    state: row.state as i32,
                    stamp: now,
                },
            })
            .collect()
    })
}

fn count(table: &TableEntry) -> pb::RegionStatesCount {
    let count = |test: &dyn Fn(RegionState) -> bool| {
        u32::try_from(table.regions.iter().filter(|row| test(row.state)).count()).unwrap_or(u32::MAX)
    };
    pb::RegionStatesCount {
        open_regions: count(&|state| state == RegionState::Open),
        split_regions: count(&|state| state == RegionState::Split),
        closed_regions: count(&|state| state == RegionState::Closed),
        regions_in_transition: count(&is_in_transition),
        total_regions: count(&|_| true),
    }
}
