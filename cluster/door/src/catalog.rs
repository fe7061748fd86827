//! Reads the content of hbase:meta.

use std::collections::BTreeMap;

use proto::TableName;
use proto::catalog::{self, CatalogRow, RegionRow, TableState};

use crate::{Error, Result};

/// The content of hbase:meta.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) regions: BTreeMap<TableName, Vec<RegionRow>>,
    pub(crate) states: BTreeMap<TableName, TableState>,
}

impl Catalog {
    /// Decodes the rows of hbase:meta. A row that cannot be decoded is an error, because it may be the only record of a
    /// region.
    pub(crate) fn of_rows(rows: &[CatalogRow]) -> Result<Catalog> {
        let mut content = Catalog::default();
        for row in rows {
            let failed = |cause| Error::Row {
                table: "hbase:meta",
                row: row.key.escape_ascii().to_string(),
                cause: Box::new(cause),
            };
            let columns = row.columns.iter().map(|c| (&*c.family, &*c.qualifier, c.value.clone()));
            if let Some(region) = RegionRow::decode(columns).map_err(failed)? {
                content.regions.entry(region.region.table().clone()).or_default().push(region);
            }
            let is_state =
                |c: &&catalog::Column| *c.family == *catalog::TABLE && *c.qualifier == *catalog::STATE;
            // HBase clears a column by writing an empty value.
            if let Some(column) = row.columns.iter().find(is_state).filter(|column| !column.value.is_empty())
            {
                let table = TableName::from_bytes(&row.key).map_err(failed)?;
                content.states.insert(table, catalog::decode_table_state(&column.value).map_err(failed)?);
            }
        }
        Ok(content)
    }
}
