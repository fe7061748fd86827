//! What a table is made of: attributes kept exactly as received, and typed options read out of them.
//!
//! A descriptor is an open map of bytes. Clients put in attributes that this server has never heard of and expect them
//! back, in `describe` and in the file `.tableinfo`; so [`TableDescriptor`] and [`FamilyDescriptor`] keep every pair, in
//! the order received. What the engine acts on is read out once, when a region opens, as [`TableOptions`] and
//! [`FamilyOptions`]; an attribute that is not set has HBase's default there and stays unset in the map.

pub mod attributes;
pub mod options;
pub mod sanity;

use bytes::Bytes;

pub use attributes::Attributes;
pub use options::{
    BloomType, Compression, DataBlockEncoding, Durability, FamilyOptions, InMemoryCompaction,
    KeepDeletedCells, TableOptions,
};

use crate::{Error, TableName, pb, pbuf};

/// A table: its name, attributes and families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescriptor {
    name: TableName,
    attributes: Attributes,
    families: Vec<FamilyDescriptor>,
}

/// A column family: its name, attributes and the site configuration it overrides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyDescriptor {
    name: Bytes,
    attributes: Attributes,
    configuration: Vec<(String, String)>,
}

impl TableDescriptor {
    /// A table without attributes or families.
    pub fn new(name: TableName) -> Self {
        Self { name, attributes: Attributes::default(), families: Vec::new() }
    }

    /// The table's name.
    pub fn name(&self) -> &TableName {
        &self.name
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The attributes, to change.
    pub fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// The families, ordered by name.
    pub fn families(&self) -> &[FamilyDescriptor] {
        &self.families
    }

    /// The family of this name.
    pub fn family(&self, name: &[u8]) -> Option<&FamilyDescriptor> {
        self.position(name).ok().map(|at| &self.families[at])
    }

    /// Adds a family, or puts it in the place of the one of that name, which is then returned.
    pub fn set_family(&mut self, family: FamilyDescriptor) -> Option<FamilyDescriptor> {
        match self.position(&family.name) {
            Ok(at) => Some(std::mem::replace(&mut self.families[at], family)),
            Err(at) => {
                self.families.insert(at, family);
                None
            }
        }
    }

    /// Takes a family out.
    pub fn remove_family(&mut self, name: &[u8]) -> Option<FamilyDescriptor> {
        self.position(name).ok().map(|at| self.families.remove(at))
    }

    /// The options the attributes state; HBase's defaults for the rest.
    pub fn options(&self) -> Result<TableOptions, Error> {
        TableOptions::read(self)
    }

    /// The content of a file `.tableinfo`.
    pub fn to_file(&self) -> Bytes {
        pbuf::encode(&pb::TableSchema::from(self))
    }

    /// Reads a file `.tableinfo`.
    pub fn from_file(bytes: &Bytes) -> Result<Self, Error> {
        Self::try_from(pbuf::decode::<pb::TableSchema>(".tableinfo", bytes)?)
    }

    fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.families.binary_search_by(|family| (*family.name).cmp(name))
    }
}

impl FamilyDescriptor {
    /// A family without attributes. Refuses names that HBase refuses, in its words.
    pub fn new(name: impl Into<Bytes>) -> Result<Self, Error> {
        let name = name.into();
        let illegal = |message: String| Err(Error::IllegalArgument(message));
        let shown = name.escape_ascii();
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

    /// The same family with one attribute set.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.attributes.set(Bytes::from_static(key.as_bytes()), Bytes::from(value.to_string()));
        self
    }

    /// The family's name.
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The attributes, to change.
    pub fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// What the family overrides of the site's configuration, in the order received.
    pub fn configuration(&self) -> &[(String, String)] {
        &self.configuration
    }

    /// One overridden key of the site's configuration.
    pub fn configured(&self, key: &str) -> Option<&str> {
        self.configuration.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The options the attributes state; HBase's defaults for the rest.
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
        // HBase reads the older field `configuration` as more attributes, and writes attributes alone.
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
