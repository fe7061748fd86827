//! Table and family descriptors: attributes exactly as received, and the typed options parsed from them.
//!
//! A descriptor is an open map of bytes. Clients set attributes that this server does not know, and expect to find them
//! in `describe` and in the file `.tableinfo`. So [`TableDescriptor`] and [`FamilyDescriptor`] keep every pair, in the
//! order received. When a region opens, the attributes that the engine uses are parsed once to [`TableOptions`] and
//! [`FamilyOptions`]. An attribute that is not set has HBase's default in the options and stays unset in the map.

pub mod attributes;
pub mod options;
pub mod sanity;
pub mod tracker;

use bytes::Bytes;
use cell::string_binary;

pub use attributes::Attributes;
pub use options::{
    BloomType, Compression, DataBlockEncoding, Durability, FamilyOptions, InMemoryCompaction,
    KeepDeletedCells, TableOptions,
};

use crate::{Error, TableName, pb, pbuf};

/// A table's name, attributes and families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescriptor {
    name: TableName,
    attributes: Attributes,
    families: Vec<FamilyDescriptor>,
}

/// A column family's name, attributes and overrides of the site configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyDescriptor {
    name: Bytes,
    attributes: Attributes,
    configuration: Vec<(String, String)>,
}

impl TableDescriptor {
    /// Creates a table without attributes or families.
    pub fn new(name: TableName) -> Self {
        Self { name, attributes: Attributes::default(), families: Vec::new() }
    }

    /// Returns the table's name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// Returns the table's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns the table's attributes for changes.
    pub fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// Returns the families, ordered by name.
    pub fn families(&self) -> &[FamilyDescriptor] {
        &self.families
    }

    /// Returns the family with this name; `None` if the table has no such family.
    pub fn family(&self, name: &[u8]) -> Option<&FamilyDescriptor> {
        self.position(name).ok().map(|at| &self.families[at])
    }

    /// Adds a family. If a family of that name exists, replaces and returns it; otherwise returns `None`.
    pub fn set_family(&mut self, family: FamilyDescriptor) -> Option<FamilyDescriptor> {
        match self.position(&family.name) {
            Ok(at) => Some(std::mem::replace(&mut self.families[at], family)),
            Err(at) => {
                self.families.insert(at, family);
                None
            }
        }
    }

    /// Removes a family, and returns it; `None` if the table has no such family.
    pub fn remove_family(&mut self, name: &[u8]) -> Option<FamilyDescriptor> {
        self.position(name).ok().map(|at| self.families.remove(at))
    }

    /// Parses the table's attributes to options, with HBase's defaults. Fails if an attribute's value is invalid for
    /// its type.
    pub fn options(&self) -> Result<TableOptions, Error> {
        TableOptions::read(self)
    }

    /// Encodes the content of a `.tableinfo` file.
    pub fn to_file(&self) -> Bytes {
        pbuf::encode(&pb::TableSchema::from(self))
    }

    /// Parses the content of a `.tableinfo` file.
    pub fn from_file(bytes: &Bytes) -> Result<Self, Error> {
        Self::try_from(pbuf::decode::<pb::TableSchema>(".tableinfo", bytes)?)
    }

    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.families.binary_search_by(|family| (*family.name).cmp(name))
    }
}

impl FamilyDescriptor {
    /// Creates a family without attributes. Refuses the names that HBase refuses, with its messages.
    pub fn new(name: impl Into<Bytes>) -> Result<Self, Error> {
        let name = name.into();
        let illegal = |message: String| Err(Error::IllegalArgument(message));
        let shown = string_binary(&name);
        if name.is_empty() {
            return illegal("Column Family name can not be empty".into());
        }
        if name[0] == b'.' {
            return illegal(format!("Column Family names cannot start with a period: {shown}"));
        }
        if let Some(byte) =
            name.iter().find(|byte| byte.is_ascii_control() || matches!(byte, b':' | b'\\' | b'/'))
        {
            return illegal(format!(
                "Illegal character <{byte}>. Column Family names cannot contain control characters or colons: {shown}"
            ));
        }
        if &*name == b"recovered.edits" {
            return illegal("Column Family name cannot be: recovered.edits".into());
        }
        if name.len() > cell::FAMILY_LENGTH_MAX {
            return illegal(format!(
                "Column Family name is {} bytes long, at most {} are allowed: {shown}",
                name.len(),
                cell::FAMILY_LENGTH_MAX
            ));
        }
        Ok(Self { name, attributes: Attributes::default(), configuration: Vec::new() })
    }

    /// Returns the family with one attribute set.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.attributes.set(Bytes::from_static(key.as_bytes()), Bytes::from(value.to_string()));
        self
    }

    /// Returns the family's name.
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Returns the family's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns the family's attributes for changes.
    pub fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// Returns the family's overrides of the site configuration, in the order received.
    pub fn configuration(&self) -> &[(String, String)] {
        &self.configuration
    }

    /// Returns the family's override of the site configuration for `key`; `None` if it has none.
    pub fn configured(&self, key: &str) -> Option<&str> {
        self.configuration.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Sets the family's override of the site configuration for `key`.
    pub fn configure(&mut self, key: &str, value: &str) {
        self.configuration.retain(|(known, _)| known != key);
        self.configuration.push((key.to_owned(), value.to_owned()));
    }

    /// Removes an override of the site configuration.
    pub fn unconfigure(&mut self, key: &str) {
        self.configuration.retain(|(known, _)| known != key);
    }

    /// Parses the family's attributes to options, with HBase's defaults. Fails if an attribute's value is invalid for
    /// its type.
    pub fn options(&self) -> Result<FamilyOptions, Error> {
        FamilyOptions::read(self)
    }
}

impl TryFrom<pb::TableSchema> for TableDescriptor {
    type Error = Error;

    fn try_from(schema: pb::TableSchema) -> Result<Self, Error> {
        let name = schema
            .table_name
            .as_ref()
            .ok_or_else(|| Error::malformed("table schema", "without a table's name"))?;
        let mut table = Self::new(TableName::try_from(name)?);
        for pair in schema.attributes {
            table.attributes.set(pair.first, pair.second);
        }
        // HBase reads the older field `configuration` as further attributes, and writes only attributes.
        for pair in schema.configuration {
            table.attributes.set(pair.name.into(), pair.value.into());
        }
        for family in schema.column_families {
            table.set_family(FamilyDescriptor::try_from(family)?);
        }
        Ok(table)
    }
}

impl TryFrom<pb::ColumnFamilySchema> for FamilyDescriptor {
    type Error = Error;

    fn try_from(schema: pb::ColumnFamilySchema) -> Result<Self, Error> {
        let mut family = Self::new(schema.name)?;
        for pair in schema.attributes {
            family.attributes.set(pair.first, pair.second);
        }
        family.configuration = schema.configuration.into_iter().map(|pair| (pair.name, pair.value)).collect();
        Ok(family)
    }
}

impl From<&TableDescriptor> for pb::TableSchema {
    fn from(table: &TableDescriptor) -> Self {
        Self {
            table_name: Some((&table.name).into()),
            attributes: table.attributes.to_pairs(),
            column_families: table.families.iter().map(Into::into).collect(),
            configuration: Vec::new(),
        }
    }
}

impl From<&FamilyDescriptor> for pb::ColumnFamilySchema {
    fn from(family: &FamilyDescriptor) -> Self {
        let pair = |(name, value): &(String, String)| pb::NameStringPair {
            name: name.clone(),
            value: value.clone(),
        };
        Self {
            name: family.name.clone(),
            attributes: family.attributes.to_pairs(),
            configuration: family.configuration.iter().map(pair).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: &'static str, second: &'static str) -> pb::BytesBytesPair {
        pb::BytesBytesPair { first: first.into(), second: second.into() }
    }

    fn schema() -> pb::TableSchema {
        pb::TableSchema {
            table_name: Some((&"ns:t".parse::<TableName>().unwrap()).into()),
            attributes: vec![pair("Z_UNKNOWN", "\u{0}1"), pair("DURABILITY", "ASYNC_WAL"), pair("A", "b")],
            column_families: vec![
                pb::ColumnFamilySchema {
                    name: "f".into(),
                    attributes: vec![pair("X", "y"), pair("VERSIONS", "3")],
                    configuration: vec![pb::NameStringPair { name: "k".into(), value: "v".into() }],
                },
                pb::ColumnFamilySchema { name: "g".into(), attributes: vec![], configuration: vec![] },
            ],
            configuration: vec![],
        }
    }

    #[test]
    fn every_pair_is_kept_in_the_order_received() {
        let table = TableDescriptor::try_from(schema()).unwrap();
        assert_eq!(pb::TableSchema::from(&table), schema());
        assert_eq!(TableDescriptor::from_file(&table.to_file()).unwrap(), table);
        assert_eq!(table.family(b"f").unwrap().configured("k"), Some("v"));
        assert!(table.family(b"h").is_none());
    }

    #[test]
    fn families_are_replaced_and_removed_by_name() {
        let mut table = TableDescriptor::try_from(schema()).unwrap();
        let old = table.set_family(FamilyDescriptor::new("f").unwrap().with("VERSIONS", 9)).unwrap();
        assert_eq!(old.options().unwrap().versions_max, 3);
        assert_eq!(table.family(b"f").unwrap().options().unwrap().versions_max, 9);
        assert!(table.remove_family(b"f").is_some() && table.remove_family(b"f").is_none());
        assert_eq!(table.families().len(), 1);
    }

    #[test]
    fn names_of_families_follow_hbases_rules() {
        for bad in ["", ".f", "a:b", "a/b", "a\\b", "a\nb", "recovered.edits"] {
            assert!(FamilyDescriptor::new(bad).is_err(), "{bad:?}");
        }
        assert!(FamilyDescriptor::new(vec![b'f'; 128]).is_err());
        assert!(FamilyDescriptor::new(vec![b'f'; 127]).is_ok());
    }
}
