//! Rows of requests that have come together: their regions are told before the first of them is read.

use rpc::Coming;
use smallvec::SmallVec;

use crate::RegionServer;
use crate::request::row_that_is_read;

/// Tells regions of the rows that are read soon.
pub(super) fn foresee(server: &RegionServer, coming: Coming<'_>) {
    let mut rows: SmallVec<[&[u8]; Coming::TOGETHER]> = SmallVec::new();
    let mut region: &[u8] = &[];
    for (other, row) in coming.filter_map(|(method, param)| row_that_is_read(method, param)) {
        if other != region {
            tell(server, region, &rows);
            rows.clear();
            region = other;
        }
        rows.push(row);
    }
    tell(server, region, &rows);
}

fn tell(server: &RegionServer, region: &[u8], rows: &[&[u8]]) {
    if rows.len() > 1
        && let Some(region) = server.regions().glance(region)
    {
        region.foresee(rows);
    }
}
