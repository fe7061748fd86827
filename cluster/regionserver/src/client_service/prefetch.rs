//! Prefetches the rows of requests that arrived together, before the first of them is read.

use rpc::UpcomingRequests;
use smallvec::SmallVec;

use crate::RegionServer;
use crate::request::{region_named, row_that_is_read};

/// Prefetches the rows that these requests will read, from each open region of which they read several rows. Returns
/// whether there is such a region.
pub(super) fn prefetch(server: &RegionServer, upcoming: UpcomingRequests<'_>) -> bool {
    let mut any = false;
    let asked = upcoming.filter_map(|(method, param)| row_that_is_read(method, param));
    by_region(asked, |region, rows| {
        let region = region_named(region).and_then(|(by, name)| server.regions().find_open(by, name));
        if let Some(region) = region {
            region.prefetch_rows(rows);
            any = true;
        }
    });
    any
}

/// Calls `tell` with the rows of each region from which several rows are requested. The regions come in
/// the order of their encoded specifiers.
fn by_region<'a>(asked: impl Iterator<Item = (&'a [u8], &'a [u8])>, mut tell: impl FnMut(&[u8], &[&[u8]])) {
    let mut asked: SmallVec<[_; UpcomingRequests::TOGETHER]> = asked.collect();
    if !asked.is_sorted_by_key(|(region, _)| *region) {
        asked.sort_by_key(|(region, _)| *region);
    }
    for group in asked.chunk_by(|(one, _), (other, _)| one == other).filter(|group| group.len() > 1) {
        let rows: SmallVec<[&[u8]; UpcomingRequests::TOGETHER]> = group.iter().map(|(_, row)| *row).collect();
        tell(group[0].0, &rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_region() {
        let told = |asked: &[(&'static str, &'static str)]| {
            let asked = asked.iter().map(|(region, row)| (region.as_bytes(), row.as_bytes()));
            let mut told = Vec::new();
            by_region(asked, |region, rows| told.push(format!("{} {}", region.escape_ascii(), rows.len())));
            told
        };
        assert_eq!(
            told(&[("b", "1"), ("a", "2"), ("b", "3"), ("c", "4"), ("a", "5"), ("b", "6")]),
            ["a 2", "b 3"]
        );
        assert_eq!(told(&[("a", "1"), ("a", "2")]), ["a 2"]);
        assert!(told(&[("a", "1"), ("b", "2")]).is_empty() && told(&[]).is_empty());
    }
}
