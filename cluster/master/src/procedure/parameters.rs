//! The parameters of procedures, as `list_procedures` shows them.
//!
//! Each of HBase's procedures keeps its state in a message, which HBase's client shows as JSON. This module writes the
//! same messages. Their parts that are not parameters, such as the numbers of the steps that a procedure went through,
//! are not shown.
//!
//! If the client does not know a message by its name, or misses a required field in it, it lists no procedure at all.
//! So only messages that every HBase 2.x has are used, and procedures of flushes and snapshots have none.
//!
//! Source: HBase 2.6, the messages `…StateData` of its master.

use prost::Message;
use prost_types::Any;
use proto::wire::{put_bytes, put_number};
use proto::{RegionInfo, TableDescriptor, TableName, pb};

/// The field with the user, in every message that has one.
const USER_FIELD: u32 = 1;

/// The parameters of a procedure.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The message's name in HBase.
    message: &'static str,
    /// Whether the message has a field with the user.
    has_user: bool,
    /// The other fields, encoded.
    fields: Vec<u8>,
}

impl Parameters {
    /// Returns the parameters of the creation of a table.
    pub fn create(table: &TableDescriptor, regions: &[RegionInfo]) -> Parameters {
        let parameters = Parameters::by_user("CreateTableStateData").with(2, &pb::TableSchema::from(table));
        parameters.with_regions(3, regions)
    }

    /// Returns the parameters of the deletion of a table.
    pub fn delete(table: &TableName) -> Parameters {
        Parameters::by_user("DeleteTableStateData").with(2, &pb::TableName::from(table))
    }

    /// Returns the parameters of the enabling of a table.
    pub fn enable(table: &TableName) -> Parameters {
        Parameters::by_user("EnableTableStateData").with(2, &pb::TableName::from(table)).with_flag(3, false)
    }

    /// Returns the parameters of the disabling of a table.
    pub fn disable(table: &TableName) -> Parameters {
        Parameters::by_user("DisableTableStateData").with(2, &pb::TableName::from(table)).with_flag(3, false)
    }

    /// Returns the parameters of the truncation of a table.
    pub fn truncate(table: &TableName, preserves_splits: bool) -> Parameters {
        let parameters = Parameters::by_user("TruncateTableStateData").with_flag(2, preserves_splits);
        parameters.with(3, &pb::TableName::from(table))
    }

    /// Returns the parameters of the change of a schema.
    pub fn alter(old: &TableDescriptor, new: &TableDescriptor) -> Parameters {
        let deletes = old.families().iter().any(|family| new.family(family.name()).is_none());
        Parameters::by_user("ModifyTableStateData")
            .with(2, &pb::TableSchema::from(old))
            .with(3, &pb::TableSchema::from(new))
            .with_flag(4, deletes)
    }

    /// Returns the parameters of the split of a region.
    pub fn split(parent: &RegionInfo) -> Parameters {
        Parameters::by_user("SplitTableRegionStateData").with(2, &pb::RegionInfo::from(parent))
    }

    /// Returns the parameters of a merge of regions.
    pub fn merge(parents: &[RegionInfo], is_forcible: bool) -> Parameters {
        Parameters::by_user("MergeTableRegionsStateData").with_regions(2, parents).with_flag(4, is_forcible)
    }

    /// Returns the parameters of the creation of a namespace.
    pub fn create_namespace(namespace: &pb::NamespaceDescriptor) -> Parameters {
        Parameters::of("CreateNamespaceStateData").with(1, namespace)
    }

    /// Returns the parameters of the change of a namespace.
    pub fn modify_namespace(
        old: Option<&pb::NamespaceDescriptor>,
        new: &pb::NamespaceDescriptor,
    ) -> Parameters {
        let parameters = Parameters::of("ModifyNamespaceStateData").with(1, new);
        old.into_iter().fold(parameters, |parameters, old| parameters.with(2, old))
    }

    /// Returns the parameters of the deletion of a namespace.
    pub fn delete_namespace(name: &str, namespace: Option<&pb::NamespaceDescriptor>) -> Parameters {
        let mut parameters = Parameters::of("DeleteNamespaceStateData");
        put_bytes(&mut parameters.fields, 1, name.as_bytes());
        namespace.into_iter().fold(parameters, |parameters, namespace| parameters.with(2, namespace))
    }

    /// Returns the message of a procedure that `user` submitted.
    pub fn to_message(&self, user: &str) -> Any {
        let mut value = Vec::with_capacity(self.fields.len() + user.len() + 8);
        if self.has_user {
            let user = pb::UserInformation { effective_user: user.to_owned(), real_user: None };
            put_bytes(&mut value, USER_FIELD, &user.encode_to_vec());
        }
        value.extend_from_slice(&self.fields);
        Any { type_url: format!("type.googleapis.com/hbase.pb.{}", self.message), value }
    }

    fn of(message: &'static str) -> Parameters {
        Parameters { message, has_user: false, fields: Vec::new() }
    }

    fn by_user(message: &'static str) -> Parameters {
        Parameters { has_user: true, ..Parameters::of(message) }
    }

    fn with(mut self, field: u32, value: &impl Message) -> Parameters {
        put_bytes(&mut self.fields, field, &value.encode_to_vec());
        self
    }

    fn with_regions(self, field: u32, regions: &[RegionInfo]) -> Parameters {
        let regions = regions.iter().map(pb::RegionInfo::from);
        regions.fold(self, |parameters, region| parameters.with(field, &region))
    }

    fn with_flag(mut self, field: u32, is_set: bool) -> Parameters {
        put_number(&mut self.fields, field, u64::from(is_set));
        self
    }
}
