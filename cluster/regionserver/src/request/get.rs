//! Decodes a `GetRequest`, but only the parts that differ from earlier requests.
//!
//! Clients mostly send the same Get for different rows. A Get's message begins with the row. If the bytes after the row
//! equal those of a Get that this thread served recently, the cached query is reused with the new row, and nothing is
//! allocated.
//!
//! Messages in another field order are decoded as usual. So are Gets with a filter, because a filter's state would be
//! kept for the next row.

use std::cell::Cell as Slot;
use std::ops::{Deref, Range};

use bytes::Bytes;
use env::World;
use prost::{DecodeError, Message};
use proto::wire::{Fields, Value};
use proto::{TableDescriptor, pb};
use region::Scan;
use rpc::{Exception, class};

use super::specifier::specifier;

/// Number of queries that a thread caches.
const CACHED_QUERIES_MAX: usize = 4;
/// Maximum number of bytes after the row of a Get whose query is cached.
const REST_MAX: usize = 4 << 10;

thread_local! {
    #[expect(clippy::vec_box, reason = "a query is taken out and put back as it is, without a copy")]
    static CACHED_QUERIES: Slot<Vec<Box<CachedQuery>>> = const { Slot::new(Vec::new()) };
}

/// A query without its row.
#[derive(Debug)]
struct CachedQuery {
    /// The bytes after the row in the message.
    rest: Vec<u8>,
    existence_only: bool,
    scan: Scan,
}

/// A decoded `pb::GetRequest`.
#[derive(Debug)]
pub(crate) struct GetRequest {
    pub(crate) region: pb::RegionSpecifier,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    /// The row of a Get whose query is in the cache.
    Like(Bytes, Box<CachedQuery>),
    /// A Get that is not in the cache. If its query may be cached, the second field has the bytes after its row.
    Whole(Box<pb::Get>, Option<Vec<u8>>),
}

/// The query of a Get. When it is dropped, it returns to the thread's cache if it may be used again.
#[derive(Debug)]
pub(crate) struct GetQuery {
    kept: Option<Box<CachedQuery>>,
    may_be_kept: bool,
}

impl GetRequest {
    /// Decodes a request. Errors are those of the plain decoder.
    pub(crate) fn decode(bytes: &Bytes) -> Result<GetRequest, DecodeError> {
        if let Some(request) = GetRequest::split(bytes) {
            return Ok(request);
        }
        let request = pb::GetRequest::decode(bytes.clone())?;
        Ok(GetRequest { region: request.region, wanted: Wanted::Whole(Box::new(request.get), None) })
    }

    fn split(bytes: &Bytes) -> Option<GetRequest> {
        let Split { region, get, row, rest } = Split::of(bytes)?;
        let region = specifier(bytes, region)?;
        let row = bytes.slice(row);
        let mut kept = CACHED_QUERIES.take();
        let like = kept.iter().position(|kept| kept.rest == bytes[rest.clone()]);
        let like = like.map(|at| kept.swap_remove(at));
        CACHED_QUERIES.set(kept);
        if let Some(like) = like {
            return Some(GetRequest { region, wanted: Wanted::Like(row, like) });
        }
        // The Get is decoded from a copy of its bytes. Otherwise the cached query would keep the whole frame in memory.
        let get = pb::Get::decode(Bytes::copy_from_slice(&bytes[get])).ok()?;
        let rest = (rest.len() <= REST_MAX).then(|| bytes[rest].to_vec());
        Some(GetRequest { region, wanted: Wanted::Whole(Box::new(pb::Get { row, ..get }), rest) })
    }

    /// Returns the query. Refuses invalid rows and, as HBase 2 does, a Get of the closest row before.
    pub(crate) fn query(self, table: &TableDescriptor, world: &World) -> Result<GetQuery, Exception> {
        match self.wanted {
            Wanted::Like(row, mut kept) => {
                let fits = super::check_row(&row);
                (kept.scan.start, kept.scan.stop) = (row.clone(), row);
                let query = GetQuery { kept: Some(kept), may_be_kept: true };
                fits.map(|()| query)
            }
            Wanted::Whole(get, rest) => {
                let scan = query(table, get.row.clone(), &get, world)?;
                // A Get with a filter or with time ranges of single families is not cached: such ranges depend on the
                // table.
                let may_be_kept = rest.is_some() && scan.filter.is_none() && get.cf_time_range.is_empty();
                let rest = rest.unwrap_or_default();
                let kept = CachedQuery { rest, existence_only: get.existence_only(), scan };
                Ok(GetQuery { kept: Some(Box::new(kept)), may_be_kept })
            }
        }
    }
}

/// Returns the query of a Get for `row`; the row in the message is ignored. Refuses, as HBase 2 does, a Get of the
/// closest row before.
pub(crate) fn query(
    table: &TableDescriptor,
    row: Bytes,
    get: &pb::Get,
    world: &World,
) -> Result<Scan, Exception> {
    if get.closest_row_before() {
        return Err(Exception::new(
            class::UNKNOWN_PROTOCOL,
            "Is this a pre-hbase-1.0.0 or asynchbase client? Client is invoking getClosestRowBefore removed in \
             hbase-2.0.0 replaced by reverse Scan.",
        ));
    }
    super::query::get(table, row, get, world)
}

impl GetQuery {
    fn kept(&self) -> &CachedQuery {
        self.kept.as_ref().expect("it is taken when this is dropped")
    }

    /// Whether the client asks only whether the row exists.
    pub(crate) fn existence_only(&self) -> bool {
        self.kept().existence_only
    }
}

impl Deref for GetQuery {
    type Target = Scan;

    fn deref(&self) -> &Scan {
        &self.kept().scan
    }
}

impl Drop for GetQuery {
    fn drop(&mut self) {
        let Some(mut query) = self.kept.take().filter(|_| self.may_be_kept) else { return };
        // The row is a slice of the frame. It is dropped, so that the frame's memory becomes free.
        (query.scan.start, query.scan.stop) = (Bytes::new(), Bytes::new());
        // While the thread ends, its storage is gone. Then the query is freed.
        let _ended = CACHED_QUERIES.try_with(|slot| {
            let mut kept = slot.take();
            if kept.len() == CACHED_QUERIES_MAX {
                kept.remove(0);
            }
            kept.push(query);
            slot.set(kept);
        });
    }
}

/// Positions of the parts of a request.
struct Split {
    region: Range<usize>,
    get: Range<usize>,
    row: Range<usize>,
    /// The bytes after the row.
    rest: Range<usize>,
}

impl Split {
    /// Finds the parts of a request. Returns `None` for a request that only the plain decoder can decode.
    fn of(bytes: &Bytes) -> Option<Split> {
        let mut fields = Fields::of(bytes);
        let Some((1, _, Value::Bytes(region))) = fields.next().ok()? else { return None };
        let Some((2, _, Value::Bytes(get))) = fields.next().ok()? else { return None };
        if fields.next().ok()?.is_some() {
            return None;
        }
        let mut fields = Fields::new(bytes, get.clone());
        let Some((1, _, Value::Bytes(row))) = fields.next().ok()? else { return None };
        let rest = fields.rest();
        // If a message has two rows, the second one counts. Only the plain decoder handles that.
        while let Some((number, ..)) = fields.next().ok()? {
            if number == 1 {
                return None;
            }
        }
        Some(Split { region, get, row, rest })
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::super::samples::{bend, table};
    use super::*;

    fn some_request(any: &impl Fn(u64) -> u64) -> pb::GetRequest {
        let range = || pb::TimeRange { from: Some(any(3)), to: Some(3 + any(3)) };
        let column = |name: &'static str| pb::Column {
            family: name.into(),
            qualifier: (0..any(3)).map(|at| Bytes::from(vec![b'a' + at as u8])).collect(),
        };
        let get = pb::Get {
            row: Bytes::from(vec![b'r'; any(9) as usize]),
            column: ["f", "g"].into_iter().filter(|_| any(2) == 0).map(column).collect(),
            max_versions: (any(3) == 0).then(|| any(3) as u32),
            existence_only: (any(9) == 0).then_some(true),
            closest_row_before: (any(30) == 0).then_some(true),
            time_range: (any(4) == 0).then(range),
            cf_time_range: (0..u64::from(any(9) == 0))
                .map(|_| pb::ColumnFamilyTimeRange { column_family: "g".into(), time_range: range() })
                .collect(),
            filter: (any(9) == 0).then(|| pb::Filter {
                name: "org.apache.hadoop.hbase.filter.KeyOnlyFilter".to_owned(),
                serialized_filter: Some(Bytes::new()),
            }),
            ..Default::default()
        };
        pb::GetRequest { region: pb::RegionSpecifier { r#type: 1, value: "r".into() }, get }
    }

    #[test]
    fn decoding_equals_the_plain_decoder_with_a_warm_cache() {
        let world = World::simulated(5, WallTime(0));
        let any = |below: u64| world.random() % below.max(1);
        let (mut likes, mut last) = (0, some_request(&any));
        for _ in 0..4_000 {
            let mut request = some_request(&any);
            if any(2) == 0 {
                request.get = pb::Get { row: request.get.row, ..last.get };
            }
            let mut bytes = request.encode_to_vec();
            last = request;
            if any(3) == 0 {
                bend(&mut bytes, &any);
            }
            let bytes = Bytes::from(bytes);
            let expected = pb::GetRequest::decode(bytes.clone()).map(|request| {
                let scan = query(&table(), request.get.row.clone(), &request.get, &world);
                let scan = scan.map(|scan| format!("{scan:?} {}", request.get.existence_only()));
                (request.region, scan.map_err(|refused| refused.message))
            });
            let found = GetRequest::decode(&bytes).map(|request| {
                likes += u32::from(matches!(request.wanted, Wanted::Like(..)));
                let region = request.region.clone();
                let query = request.query(&table(), &world);
                let scan = query.map(|query| format!("{:?} {}", *query, query.existence_only()));
                (region, scan.map_err(|refused| refused.message))
            });
            assert_eq!(
                found.map_err(|error| error.to_string()),
                expected.map_err(|error| error.to_string()),
                "{}",
                bytes.escape_ascii()
            );
        }
        assert!(likes > 400, "{likes} were like one before");
        let kept = CACHED_QUERIES.take();
        assert_eq!(kept.len(), CACHED_QUERIES_MAX);
        assert!(kept.iter().all(|kept| kept.scan.start.is_empty() && kept.scan.filter.is_none()));
    }
}
