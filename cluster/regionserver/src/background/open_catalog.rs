//! The regions of the catalog, for the janitor of MOB files.

use bytes::Bytes;
use proto::catalog::RegionRow;
use proto::{EncodedName, RegionInfo};
use region::{CatalogRegions, Error, Result};

use crate::RegionServer;

/// The catalog, as far as hbase:meta is open on the server.
pub(super) struct OpenCatalog<'a>(pub(super) &'a RegionServer);

impl CatalogRegions for OpenCatalog<'_> {
    fn regions(&self) -> Result<Vec<RegionInfo>> {
        let meta = RegionInfo::meta();
        let meta = self.0.regions().by_encoded_name(meta.encoded_name()).ok_or_else(|| {
            Error::NotServing(
                "hbase:meta, without which it is unknown which regions need MOB files,".to_owned(),
            )
        })?;
        let mut regions = Vec::new();
        for row in region::catalog_rows(&meta)? {
            let columns = row.columns.iter();
            let columns = columns.map(|column| {
                let value: Bytes = column.value.clone();
                (&column.family[..], &column.qualifier[..], value)
            });
            let decoded = RegionRow::decode(columns).map_err(|error| Error::Corrupt {
                file: "hbase:meta".to_owned(),
                what: "row of a region",
                expected: "columns as HBase writes them".to_owned(),
                found: error.to_string(),
            })?;
            if let Some(row) = decoded {
                regions.push(row.region);
                regions.extend(row.merged_from);
                regions.extend(row.daughters.into_iter().flat_map(|daughters| *daughters));
            }
        }
        Ok(regions)
    }

    fn is_settled(&self, region: &EncodedName) -> bool {
        self.0.regions().by_encoded_name(region).is_some_and(|region| !region.is_in_doubt())
    }
}
