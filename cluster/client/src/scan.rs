//! Scans: reading rows in key order.
//!
//! A scan visits the regions in key order. In each region it opens a scanner on the server, fetches rows until the
//! region has no more, and then continues in the next region. If a server loses the scanner, moves the region or dies,
//! the scan opens a new scanner after the last complete row. So the caller sees every row once.
//!
//! A server may split a long row into partial results. The scan joins them, unless the caller asks for partial results.
//! In that case, cells that the caller has received before a failure are skipped when the server sends them again.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cell::Comparator;
use proto::pb;
use rpc::class;
use rpc::client::{Connection, Invocation};

use crate::cluster::{Attempts, decode, specifier};
use crate::location::LookupMode;
use crate::operation::{Columns, TimeRange};
use crate::row::{Cells, OwnedCell};
use crate::{Error, Filter, Location, Pause, Result, Row, Table};

const METHOD: &str = "Scan";

/// Which rows a scan reads, and which parts of them.
#[derive(Clone, Debug)]
pub struct Scan {
    start: Bytes,
    include_start: bool,
    stop: Bytes,
    include_stop: bool,
    columns: Columns,
    time_range: TimeRange,
    versions: u32,
    filter: Option<Filter>,
    reversed: bool,
    limit: Option<u64>,
    caching: Option<u32>,
    size_max: Option<u64>,
    batch: Option<u32>,
    partial: bool,
    raw: bool,
    cache_blocks: bool,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan::new()
    }
}

impl Scan {
    /// Reads all rows, with the newest version of every column.
    pub fn new() -> Scan {
        Scan {
            start: Bytes::new(),
            include_start: true,
            stop: Bytes::new(),
            include_stop: false,
            columns: Columns::default(),
            time_range: TimeRange::ALL,
            versions: 1,
            filter: None,
            reversed: false,
            limit: None,
            caching: None,
            size_max: None,
            batch: None,
            partial: false,
            raw: false,
            cache_blocks: true,
        }
    }

    /// Starts at this row, inclusive; for a reversed scan it is the largest row.
    pub fn from(self, start: impl Into<Bytes>) -> Scan {
        Scan { start: start.into(), include_start: true, ..self }
    }

    /// Starts after this row.
    pub fn after(self, start: impl Into<Bytes>) -> Scan {
        Scan { start: start.into(), include_start: false, ..self }
    }

    /// Stops before this row.
    pub fn to(self, stop: impl Into<Bytes>) -> Scan {
        Scan { stop: stop.into(), include_stop: false, ..self }
    }

    /// Stops after this row.
    pub fn through(self, stop: impl Into<Bytes>) -> Scan {
        Scan { stop: stop.into(), include_stop: true, ..self }
    }

    /// Reads the rows whose key begins with this prefix. For forward scans.
    pub fn prefix(self, prefix: impl Into<Bytes>) -> Scan {
        let prefix: Bytes = prefix.into();
        // The first key after the prefix: its last byte below 0xff is incremented and the rest cut off.
        let kept = prefix.iter().rposition(|byte| *byte != 0xff).map_or(0, |at| at + 1);
        let mut stop = prefix[..kept].to_vec();
        if let Some(last) = stop.last_mut() {
            *last += 1;
        }
        self.from(prefix).to(stop)
    }

    /// Adds a family to the families and columns that the scan returns.
    pub fn family(mut self, family: impl Into<Bytes>) -> Scan {
        self.columns.add_family(family.into());
        self
    }

    /// Adds a column to the families and columns that the scan returns.
    pub fn column(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>) -> Scan {
        self.columns.add(family.into(), qualifier.into());
        self
    }

    /// Sets the maximum number of versions of each column. 0 counts as 1, and more than `i32::MAX` as `i32::MAX`.
    pub fn versions(self, versions: u32) -> Scan {
        Scan { versions: versions.clamp(1, i32::MAX as u32), ..self }
    }

    /// Restricts the scan to versions in this time range.
    pub fn time_range(self, time_range: TimeRange) -> Scan {
        Scan { time_range, ..self }
    }

    /// Sets the filter of the scan.
    pub fn filter(self, filter: Filter) -> Scan {
        Scan { filter: Some(filter), ..self }
    }

    /// Reads in descending key order.
    pub fn reversed(self) -> Scan {
        Scan { reversed: true, ..self }
    }

    /// Sets the maximum number of rows of the whole scan.
    pub fn limit(self, rows: u64) -> Scan {
        Scan { limit: Some(rows), ..self }
    }

    /// Sets the maximum number of rows fetched by one call.
    pub fn caching(self, rows: u32) -> Scan {
        Scan { caching: Some(rows), ..self }
    }

    /// Sets the approximate maximum size fetched by one call, in bytes.
    pub fn size_max(self, bytes: u64) -> Scan {
        Scan { size_max: Some(bytes), ..self }
    }

    /// Splits rows into parts of at most this many cells; see [`Row::is_partial`].
    pub fn batch(self, cells: u32) -> Scan {
        Scan { batch: Some(cells), partial: true, ..self }
    }

    /// Returns long rows in the parts in which they arrive; see [`Row::is_partial`].
    pub fn allow_partial(self) -> Scan {
        Scan { partial: true, ..self }
    }

    /// Returns deleted cells and delete markers as well.
    pub fn raw(self) -> Scan {
        Scan { raw: true, ..self }
    }

    /// Sets whether the server caches the blocks that this scan loads. Default true.
    pub fn cache_blocks(self, cache_blocks: bool) -> Scan {
        Scan { cache_blocks, ..self }
    }
}

/// The row at which the next scanner on a server begins.
struct Position {
    row: Bytes,
    inclusive: bool,
    which: LookupMode,
}

/// A scanner that is open on a server.
struct Open {
    connection: Connection,
    location: Arc<Location>,
    id: u64,
    calls: u64,
}

/// A running scan.
pub struct Scanner {
    table: Table,
    scan: Scan,
    position: Position,
    open: Option<Open>,
    ready: VecDeque<Row>,
    /// The parts of an incomplete row that were received so far.
    pieces: Option<Row>,
    /// The last returned cell of a row that may continue. Cells up to it are skipped when the server sends them again.
    handed_out: Option<OwnedCell>,
    read_point: Option<u64>,
    left: Option<u64>,
    over: bool,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("table", &self.table.name)
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}

impl Scanner {
    pub(crate) fn new(table: Table, scan: Scan) -> Scanner {
        let which = if scan.reversed && scan.start.is_empty() { LookupMode::Before } else { LookupMode::Of };
        let position = Position { row: scan.start.clone(), inclusive: scan.include_start, which };
        let (left, over) = (scan.limit, scan.limit == Some(0));
        Scanner {
            table,
            scan,
            position,
            open: None,
            ready: VecDeque::new(),
            pieces: None,
            handed_out: None,
            read_point: None,
            left,
            over,
        }
    }

    /// Returns the next row; `None` at the end. After an error the next call continues where the scan was.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        let mut tries = self.table.cluster.tries();
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if self.over {
                return Ok(None);
            }
            if let Err(error) = self.fetch().await {
                self.recover(error, &mut tries).await?;
            }
        }
    }

    /// Reads all remaining rows.
    pub async fn collect(mut self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while let Some(row) = self.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    async fn recover(&mut self, error: Error, tries: &mut Attempts) -> Result<()> {
        let open = self.open.take();
        self.pieces = None;
        if let Some(open) = &open {
            self.table.cluster.learn(&error, &open.location);
        }
        match error.class() {
            // The server lost the scanner, but the region's location may still be right. A call that opens a scanner
            // also reads, and fails in this way if the region is closed meanwhile.
            Some(
                class::UNKNOWN_SCANNER
                | class::SCANNER_RESET
                | class::OUT_OF_ORDER_SCANNER_NEXT
                | class::LEASE,
            ) => tries.pause(Pause::Backoff, error).await,
            _ => tries.again(self.table.cluster.explained(&self.table.name, error).await).await,
        }
    }

    async fn fetch(&mut self) -> Result<()> {
        if self.open.is_some() { self.more().await } else { self.begin().await }
    }

    fn rows_wanted(&self) -> u32 {
        let most = self.scan.caching.unwrap_or(self.table.cluster.0.options.scan_rows_max);
        self.left.map_or(most, |left| u32::try_from(left).map_or(most, |left| left.min(most)))
    }

    fn request(&self) -> pb::ScanRequest {
        pb::ScanRequest {
            number_of_rows: Some(self.rows_wanted()),
            close_scanner: Some(false),
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            track_scan_metrics: Some(false),
            limit_of_rows: self.left.and_then(|left| u32::try_from(left).ok()),
            ..pb::ScanRequest::default()
        }
    }

    fn message(&self) -> pb::Scan {
        let scan = &self.scan;
        let mut attribute = Vec::new();
        if scan.raw {
            attribute.push(pb::NameBytesPair {
                name: "_raw_".to_owned(),
                value: Some(Bytes::from_static(&[0xff])),
            });
        }
        pb::Scan {
            column: scan.columns.to_message(),
            attribute,
            start_row: Some(self.position.row.clone()),
            include_start_row: Some(self.position.inclusive),
            stop_row: Some(scan.stop.clone()),
            include_stop_row: Some(scan.include_stop),
            filter: scan.filter.as_ref().map(|filter| filter.0.clone()),
            time_range: Some(scan.time_range.to_message()),
            max_versions: Some(scan.versions),
            cache_blocks: Some(scan.cache_blocks),
            batch_size: scan.batch,
            max_result_size: Some(scan.size_max.unwrap_or(self.table.cluster.0.options.scan_size_max)),
            reversed: scan.reversed.then_some(true),
            caching: Some(self.rows_wanted()),
            allow_partial_results: scan.partial.then_some(true),
            mvcc_read_point: self.read_point,
            ..pb::Scan::default()
        }
    }

    /// Opens a scanner at the position; the answer contains the first rows.
    async fn begin(&mut self) -> Result<()> {
        let cluster = self.table.cluster.clone();
        let Position { row, which, .. } = &self.position;
        let location = cluster.find(&self.table.name, row, *which).await?;
        let request = pb::ScanRequest {
            region: Some(specifier(&location.region)),
            scan: Some(self.message()),
            ..self.request()
        };
        let invocation = cluster.timed(&location.region, Invocation::of(METHOD, &request));
        let answered = match cluster.connection(&location.server).await {
            Ok(connection) => {
                connection.call(invocation).await.map(|answer| (connection, answer)).map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        let (connection, response) = answered.inspect_err(|error| cluster.learn(error, &location))?;
        let answer: pb::ScanResponse = decode(METHOD, &response)?;
        let id = answer.scanner_id();
        if let Some(point) = answer.mvcc_read_point.filter(|point| *point > 0) {
            self.read_point = Some(point);
        }
        self.open = Some(Open { connection, location, id, calls: 0 });
        self.take_in(answer, response.cells)
    }

    /// Fetches more rows from the open scanner.
    async fn more(&mut self) -> Result<()> {
        let mut request = self.request();
        let cluster = self.table.cluster.clone();
        let open = self.open.as_mut().expect("asked only when open");
        request.scanner_id = Some(open.id);
        request.next_call_seq = Some(open.calls);
        open.calls += 1;
        let invocation = cluster.timed(&open.location.region, Invocation::of(METHOD, &request));
        let response = open.connection.call(invocation).await?;
        let answer: pb::ScanResponse = decode(METHOD, &response)?;
        self.take_in(answer, response.cells)
    }

    fn take_in(&mut self, answer: pb::ScanResponse, cells: Bytes) -> Result<()> {
        let mut cells = Cells::new(METHOD, cells)?;
        let mut count = 0;
        for (index, length) in answer.cells_per_result.iter().enumerate() {
            let partial = answer.partial_flag_per_result.get(index).copied().unwrap_or(false);
            self.row(Row { cells: cells.take(*length as usize)?, partial });
            count += 1;
        }
        for result in &answer.results {
            let row = cells.row(result)?;
            self.row(row);
            count += 1;
        }
        if answer.more_results == Some(false) || self.left == Some(0) {
            self.whole();
            self.over = true;
            if answer.more_results_in_region != Some(false) {
                self.close();
            }
            self.open = None;
            return Ok(());
        }
        // Servers before HBase 1.1 do not report whether the region has more rows. An empty answer then means that it
        // has none.
        let exhausted = !answer.heartbeat_message() && count == 0 && answer.more_results_in_region.is_none();
        if exhausted || answer.more_results_in_region == Some(false) {
            self.whole();
            self.next_region();
        }
        Ok(())
    }

    /// Adds a row or a partial row to the result.
    fn row(&mut self, mut row: Row) {
        if self.left == Some(0) {
            // A server may return more rows than were requested. The rest is dropped.
            return;
        }
        if let Some(last) = &self.handed_out {
            // Of this row the cells up to `last` were received before a failure. They are skipped.
            if row.key() == last.row() {
                let comparator = self.comparator();
                row.cells.retain(|cell| {
                    comparator.compare_keys(cell.view().key(), last.view().key())
                        == std::cmp::Ordering::Greater
                });
            } else {
                self.handed_out = None;
            }
        }
        if row.is_empty() {
            return;
        }
        if self.scan.partial {
            let last = row.cells.last().cloned();
            let whole = !row.partial;
            self.position = Position {
                row: Bytes::copy_from_slice(row.key()),
                // A partial row may continue, and after a failure it is sent again from its beginning.
                inclusive: !whole,
                which: LookupMode::Of,
            };
            self.handed_out = if whole { None } else { last };
            if whole {
                self.left = self.left.map(|left| left.saturating_sub(1));
            }
            self.ready.push_back(row);
            return;
        }
        if self.pieces.as_ref().is_some_and(|pieces| pieces.key() != row.key()) {
            self.whole();
        }
        let partial = row.partial;
        let mut pieces = self.pieces.take().unwrap_or_default();
        pieces.cells.append(&mut row.cells);
        self.pieces = Some(pieces);
        if !partial {
            self.whole();
        }
    }

    /// Moves the partial row, which is now known to be complete, to the rows that are ready.
    fn whole(&mut self) {
        if let Some(row) = self.pieces.take() {
            self.position = Position {
                row: Bytes::copy_from_slice(row.key()),
                inclusive: env::planted(13),
                which: LookupMode::Of,
            };
            self.left = self.left.map(|left| left.saturating_sub(1));
            self.ready.push_back(row);
            self.over |= self.left == Some(0);
        }
    }

    fn comparator(&self) -> Comparator {
        if self.table.name.is_meta() { Comparator::Meta } else { Comparator::Table }
    }

    /// Continues after the region that has no more rows.
    fn next_region(&mut self) {
        let Some(open) = self.open.take() else { return };
        let region = &open.location.region;
        let stop = &self.scan.stop;
        (self.read_point, self.handed_out) = (None, None);
        let (edge, reached) = if self.scan.reversed {
            let edge = region.start_key().clone();
            let reached = !stop.is_empty() && edge <= *stop;
            (edge, reached)
        } else {
            let edge = region.end_key().clone();
            let reached = !stop.is_empty() && (edge > *stop || edge == *stop && !self.scan.include_stop);
            (edge, reached)
        };
        if edge.is_empty() || reached {
            self.over = true;
            return;
        }
        let which = if self.scan.reversed { LookupMode::Before } else { LookupMode::Of };
        self.position = Position { row: edge, inclusive: !self.scan.reversed, which };
    }

    /// Closes the scanner on the server without waiting for the answer.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let request = pb::ScanRequest {
                scanner_id: Some(open.id),
                number_of_rows: Some(0),
                close_scanner: Some(true),
                ..pb::ScanRequest::default()
            };
            drop(open.connection.call(Invocation::of(METHOD, &request)));
        }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_scan_ends_before_the_first_row_after_the_prefix() {
        let stop = |prefix: &'static [u8]| Scan::new().prefix(prefix).stop;
        assert_eq!(stop(b"ab"), &b"ac"[..]);
        assert_eq!(stop(b"a\xff\xff"), &b"b"[..]);
        assert_eq!(stop(b"\xff"), &b""[..], "to the table's end");
    }
}
