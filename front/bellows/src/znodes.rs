//! The nodes below `zookeeper.znode.parent` that clients read, with HBase's names and contents.
//!
//! ```text
//! hbaseid               ClusterId
//! master                Master
//! meta-region-server    MetaRegionServer
//! running               ClusterUp
//! rs/<server>           RegionServerInfo
//! table/<table>         DeprecatedTableState, a mirror for HBase 1 clients: to them a table without it does not exist
//! ```

use std::sync::Arc;

use env::World;
use master::TableStateMirror;
use prost::Message;
use proto::catalog::TableState;
use proto::{ServerName, TableName, pb};
use registry::{Tree, payload};

/// Writes the znodes that clients of one cluster read.
pub(crate) struct Znodes {
    tree: Arc<Tree>,
    parent: String,
    writer: String,
    world: World,
}

impl Znodes {
    /// Creates a writer of nodes below `parent`, in the name of `master`.
    pub(crate) fn new(tree: Arc<Tree>, parent: &str, master: &ServerName, world: World) -> Znodes {
        Znodes { tree, parent: parent.to_owned(), writer: format!("master:{master}"), world }
    }

    /// Sets the nodes that name the serving master and region servers. `info_port` is the port of the web pages.
    pub(crate) fn set_servers(
        &self,
        master: &ServerName,
        server: &ServerName,
        cluster_id: &str,
        info_port: u16,
    ) {
        let proto_name = |name: &ServerName| pb::ServerName::from(name);
        self.set("hbaseid", &pb::ClusterId { cluster_id: cluster_id.to_owned() });
        let web = Some(u32::from(info_port));
        self.set("master", &pb::Master { master: proto_name(master), rpc_version: Some(0), info_port: web });
        let meta = pb::MetaRegionServer {
            server: proto_name(server),
            rpc_version: Some(0),
            state: Some(pb::region_state::State::Open as i32),
        };
        self.set("meta-region-server", &meta);
        self.set("running", &pb::ClusterUp { start_date: self.world.now().0.to_string() });
        let server_info =
            pb::RegionServerInfo { info_port: Some(i32::from(info_port)), ..Default::default() };
        self.set(&format!("rs/{server}"), &server_info);
    }

    fn set(&self, path: &str, message: &impl Message) {
        let content = payload::wrap(&self.writer, self.world.random(), &message.encode_to_vec());
        self.tree.set(&self.path(path), content);
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.parent)
    }
}

impl TableStateMirror for Znodes {
    fn set(&self, table: &TableName, state: Option<TableState>) {
        use pb::deprecated_table_state::State;
        let path = format!("table/{table}");
        let Some(state) = state else {
            let _was_there = self.tree.remove(&self.path(&path));
            return;
        };
        let state = match state {
            TableState::Enabled => State::Enabled,
            TableState::Disabled => State::Disabled,
            TableState::Disabling => State::Disabling,
            TableState::Enabling => State::Enabling,
        };
        Znodes::set(self, &path, &pb::DeprecatedTableState { state: state as i32 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;

    #[test]
    fn a_table_has_its_node_as_hbase_writes_it_until_it_is_removed() {
        let world = World::simulated(1, WallTime(0));
        let tree = Arc::new(Tree::new(world.clone()));
        let master = "localhost,16000,1".parse().expect("a server's name");
        let znodes = Znodes::new(Arc::clone(&tree), "/hbase", &master, world);
        let table: TableName = "ns:t".parse().expect("a table's name");
        let mirror: &dyn TableStateMirror = &znodes;
        for (state, bytes) in [
            (TableState::Enabled, b"\x08\x00"),
            (TableState::Disabled, b"\x08\x01"),
            (TableState::Disabling, b"\x08\x02"),
            (TableState::Enabling, b"\x08\x03"),
        ] {
            mirror.set(&table, Some(state));
            let (content, _) = tree.read("/hbase/table/ns:t").expect("the node is there");
            assert_eq!(payload::unwrap(&content), Some(&bytes[..]));
        }
        mirror.set(&table, None);
        assert_eq!(tree.children("/hbase/table").expect("the parent stays").0, Vec::<String>::new());
    }
}
