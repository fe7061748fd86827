//! The empty heartbeat that is the first answer to a scan at the edge of a region.
//!
//! The asynchronous client of HBase 2, and every client of HBase 3, may lose a scan that crosses a region boundary: if
//! the first cells of the next region arrive too early, the scan stops for ever.
//! `AsyncTableResultScanner.resumePrefetch` calls `resumer.resume()` and then sets `resumer = null`:
//!
//! 1. The application's thread takes a row out of a full client cache and calls `resume()`. The region is exhausted, so
//!    the same thread sends the open of the next region.
//! 2. If the answer arrives before that thread has attached its listener, the listener runs inside of `resume()`.
//! 3. If the cells of that answer fill the cache, the client suspends the scan and stores a new resumer. `resume()`
//!    returns, and the new resumer is overwritten by `null`: nothing continues the scan, and `next()` waits for ever.
//!
//! An answer without cells cannot fill the cache in step 3. The client then requests cells by a second call. The answer
//! to this call is always handled on the client's network thread, which waits until the application's thread has left
//! `resume()`. So one more call at the boundary prevents the loss, whatever the speed of server, network and client. A
//! delay would only make the loss rare, because the client's thread may pause for longer.
//!
//! The client's cache holds twice `maxResultSize`, and the client resumes the scan when it is half empty. So only an
//! answer of about `maxResultSize` can fill it. Scans with a `maxResultSize` of at least
//! [`Options::edge_heartbeat_below`] get no heartbeat: to receive such an answer takes far longer than to attach a
//! listener.

use proto::{RegionInfo, pb};

use crate::Options;
use crate::scanners::ScannerId;

/// Whether this request opens a scanner at the edge of `region`, and its client might lose the scan if it got cells at
/// once.
pub(super) fn needs_heartbeat(
    options: &Options,
    request: &pb::ScanRequest,
    scan: &pb::Scan,
    region: &RegionInfo,
) -> bool {
    // A client that asks for no row or closes the scanner makes no second call. So it gets no heartbeat.
    let goes_on = request.number_of_rows() > 0 && !request.close_scanner();
    let understands = request.client_handles_heartbeats() && request.client_handles_partials();
    let is_small =
        matches!(scan.max_result_size(), 1.. if scan.max_result_size() < options.edge_heartbeat_below);
    goes_on && understands && is_small && is_at_edge(scan, region)
}

/// Whether the scan starts where a client continues after it has exhausted the previous region. That is the region's
/// first row or, for a reversed scan, the end of the region. The first region of a scan has no such edge.
fn is_at_edge(scan: &pb::Scan, region: &RegionInfo) -> bool {
    let start = scan.start_row();
    let edge = if scan.reversed() { region.end_key() } else { region.start_key() };
    !start.is_empty() && start == edge && scan.include_start_row() != scan.reversed()
}

/// Makes `response` a heartbeat that says that the scanner has more rows in its region.
pub(super) fn make_heartbeat(response: &mut pb::ScanResponse, id: ScannerId) {
    response.scanner_id = Some(id.0);
    response.heartbeat_message = Some(true);
    response.stale = Some(false);
    (response.more_results, response.more_results_in_region) = (Some(true), Some(true));
}
