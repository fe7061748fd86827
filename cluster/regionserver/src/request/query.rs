//! Translates `Get` and `Scan` messages into the engine's scans.

use bytes::Bytes;
use cell::SequenceId;
use env::World;
use hfile::ReadType;
use proto::{TableDescriptor, pb};
use region::{FamilyQuery, Isolation, MobRead, Scan, TimeRange};
use rpc::Exception;

use super::{attribute, filter, flag, time_range};

/// Returns the query of a Get for `row`; the row in the message is ignored. Unset fields have the message's defaults.
pub(super) fn get(
    table: &TableDescriptor,
    row: Bytes,
    get: &pb::Get,
    world: &World,
) -> Result<Scan, Exception> {
    super::check_row(&row)?;
    let range = time_range(get.time_range.as_ref())?;
    if get.max_versions() as i32 <= 0 {
        return Err(Exception::io("versions must be positive"));
    }
    Ok(Scan {
        families: families(table, &get.column, &get.cf_time_range)?,
        filter: get.filter.as_ref().map(|proto| filter::filter(proto, world)).transpose()?,
        time_range: range.unwrap_or(TimeRange::ALL),
        max_versions: get.max_versions(),
        store_limit: get.store_limit,
        store_offset: offset(get.store_offset()),
        isolation: isolation(&get.attribute),
        cache_blocks: get.cache_blocks(),
        load_families_on_demand: get.load_column_families_on_demand,
        mob: mob(&get.attribute),
        ..Scan::get(row)
    })
}

/// Returns the query of a Scan.
pub(crate) fn scan(table: &TableDescriptor, scan: &pb::Scan, world: &World) -> Result<Scan, Exception> {
    let start = scan.start_row.clone().unwrap_or_default();
    let stop = scan.stop_row.clone().unwrap_or_default();
    for row in [&start, &stop] {
        if row.len() > cell::ROW_LENGTH_MAX {
            return Err(Exception::do_not_retry(format!(
                "a row of {} bytes, at most {} are allowed",
                row.len(),
                cell::ROW_LENGTH_MAX
            )));
        }
    }
    // Clients from before this field ask for one row by a range whose start and stop are equal.
    let include_stop = scan.include_stop_row.unwrap_or(!start.is_empty() && start == stop);
    let raw = attribute(&scan.attribute, "_raw_").is_some_and(flag);
    if raw && scan.column.iter().any(|column| !column.qualifier.is_empty()) {
        return Err(Exception::do_not_retry("Cannot specify any column for a raw scan"));
    }
    let filter = scan.filter.as_ref().map(|proto| filter::filter(proto, world)).transpose()?;
    let batch = scan.batch_size.filter(|batch| *batch > 0);
    if batch.is_some() && filter.as_ref().is_some_and(|filter| filter.has_filter_row()) {
        // The exception allows a retry, as in HBase.
        return Err(Exception::io(
            "Cannot set batch on a scan using a filter that returns true for filter.hasFilterRow",
        ));
    }
    let read_type = match scan.read_type() {
        pb::scan::ReadType::Pread => ReadType::Pread,
        pb::scan::ReadType::Stream => ReadType::Stream,
        pb::scan::ReadType::Default if scan.small() => ReadType::Pread,
        pb::scan::ReadType::Default => ReadType::Default,
    };
    Ok(Scan {
        start,
        include_start: scan.include_start_row(),
        stop,
        include_stop,
        reversed: scan.reversed(),
        families: families(table, &scan.column, &scan.cf_time_range)?,
        filter,
        time_range: time_range(scan.time_range.as_ref())?.unwrap_or(TimeRange::ALL),
        max_versions: scan.max_versions(),
        batch,
        store_limit: scan.store_limit,
        store_offset: offset(scan.store_offset()),
        raw,
        isolation: isolation(&scan.attribute),
        read_point: Some(scan.mvcc_read_point()).filter(|point| *point > 0).map(SequenceId),
        cache_blocks: scan.cache_blocks(),
        load_families_on_demand: scan.load_column_families_on_demand,
        read_type,
        mob: mob(&scan.attribute),
    })
}

/// Returns the offset. Java clients can set a negative offset, which skips nothing.
fn offset(number: u32) -> u32 {
    if number > i32::MAX as u32 { 0 } else { number }
}

fn isolation(attributes: &[pb::NameBytesPair]) -> Isolation {
    match attribute(attributes, "_isolationlevel_") {
        Some([1]) => Isolation::ReadUncommitted,
        _ => Isolation::ReadCommitted,
    }
}

fn mob(attributes: &[pb::NameBytesPair]) -> MobRead {
    let is_set = |name| attribute(attributes, name).is_some_and(flag);
    MobRead {
        value_bytes_max: None,
        raw: is_set("hbase.mob.scan.raw"),
        references_only: is_set("hbase.mob.scan.ref.only"),
        empty_if_missing: is_set("empty.value.on.mobcell.miss"),
        cache_blocks: is_set("hbase.mob.cache.blocks"),
    }
}

/// Returns the requested families, each once, with sorted qualifiers. An empty list means every family of the table. It
/// is expanded only if some family has its own time range. Of a request with more families than the table has, some are
/// left out, but at least one that the table does not have is returned. The region refuses the query because of it.
fn families(
    table: &TableDescriptor,
    columns: &[pb::Column],
    ranges: &[pb::ColumnFamilyTimeRange],
) -> Result<Vec<FamilyQuery>, Exception> {
    let mut families: Vec<FamilyQuery> = Vec::with_capacity(columns.len());
    let mut wanted = |family: &Bytes, qualifiers: &[Bytes]| {
        let at = families.iter().position(|query| query.family == family);
        let is_new = at.is_none();
        let query = match at {
            Some(at) => &mut families[at],
            // Each family is searched among those before it, so their number must be limited.
            None if families.len() > table.families().len() => return,
            None => {
                let qualifiers = (!qualifiers.is_empty()).then(Vec::new);
                families.push(FamilyQuery { family: family.clone(), qualifiers, time_range: None });
                families.last_mut().expect("just added")
            }
        };
        match &mut query.qualifiers {
            // As in HBase, if the request has both a whole family and columns of it, the later one counts.
            Some(_) if qualifiers.is_empty() => query.qualifiers = None,
            Some(known) => known.extend_from_slice(qualifiers),
            None if is_new || qualifiers.is_empty() => {}
            None => query.qualifiers = Some(qualifiers.to_vec()),
        }
    };
    for column in columns {
        wanted(&column.family, &column.qualifier);
    }
    if columns.is_empty() && !ranges.is_empty() {
        for family in table.families() {
            wanted(family.name(), &[]);
        }
    }
    for query in &mut families {
        if let Some(qualifiers) = &mut query.qualifiers {
            qualifiers.sort();
            qualifiers.dedup();
        }
    }
    for range in ranges {
        if let Some(query) = families.iter_mut().find(|query| query.family == range.column_family) {
            query.time_range = Some(time_range(Some(&range.time_range))?.unwrap_or(TimeRange::ALL));
        }
    }
    Ok(families)
}

#[cfg(test)]
mod tests {
    use super::super::samples::table;
    use super::*;

    fn world() -> World {
        World::simulated(1, env::WallTime(0))
    }

    fn column(family: &'static str, qualifiers: &[&'static str]) -> pb::Column {
        pb::Column { family: family.into(), qualifier: qualifiers.iter().map(|q| Bytes::from(*q)).collect() }
    }

    #[test]
    fn columns_are_gathered_by_family() {
        let query = pb::Get {
            row: "r".into(),
            column: vec![
                column("f", &["b"]),
                column("g", &[]),
                column("f", &["a", "b"]),
                column("g", &["x"]),
                column("h", &["x"]),
                column("h", &[]),
            ],
            ..Default::default()
        };
        let scan = get(&table(), query.row.clone(), &query, &world()).expect("a query");
        assert_eq!(scan.families.len(), 3);
        assert_eq!(scan.families[0].qualifiers, Some(vec!["a".into(), "b".into()]));
        assert_eq!(scan.families[1].qualifiers, Some(vec!["x".into()]), "what is named last counts");
        assert_eq!(scan.families[2].qualifiers, None, "also when it is the whole family");
        assert_eq!((scan.max_versions, scan.cache_blocks), (1, true));
        assert_eq!((&*scan.start, &*scan.stop, scan.include_stop), (&b"r"[..], &b"r"[..], true));
    }

    #[test]
    fn of_very_many_unknown_families_few_are_looked_at() {
        let unknown =
            (0..2_000).map(|number| pb::Column { family: format!("u{number}").into(), qualifier: vec![] });
        let query = pb::Get {
            row: "r".into(),
            column: std::iter::once(column("f", &["a"]))
                .chain(unknown)
                .chain([column("f", &["b"])])
                .collect(),
            ..Default::default()
        };
        let families = get(&table(), query.row.clone(), &query, &world()).expect("a query").families;
        assert_eq!(
            families.iter().map(|query| &query.family[..]).collect::<Vec<_>>(),
            [&b"f"[..], b"u0", b"u1"]
        );
        assert_eq!(
            families[0].qualifiers,
            Some(vec!["a".into(), "b".into()]),
            "known families count to the end"
        );
    }

    #[test]
    fn a_family_may_have_a_time_range_of_its_own() {
        let range = pb::TimeRange { from: Some(3), to: Some(9) };
        let query = pb::Scan {
            cf_time_range: vec![pb::ColumnFamilyTimeRange { column_family: "g".into(), time_range: range }],
            ..Default::default()
        };
        let scan = scan(&table(), &query, &world()).expect("a query");
        assert_eq!(scan.families.len(), 2, "spelt out");
        assert_eq!(scan.families[0].time_range, None);
        assert_eq!(scan.families[1].time_range.expect("its own").from.0, 3);
    }

    #[test]
    fn a_filter_that_judges_whole_rows_gets_no_parts_of_rows() {
        let page = pb::Filter {
            name: "org.apache.hadoop.hbase.filter.PageFilter".to_owned(),
            serialized_filter: Some(vec![8, 3].into()),
        };
        let query = |batch_size| pb::Scan { filter: Some(page.clone()), batch_size, ..Default::default() };
        assert!(scan(&table(), &query(None), &world()).is_ok());
        let refusal = scan(&table(), &query(Some(4)), &world()).expect_err("not both");
        assert!(refusal.message.contains("Cannot set batch") && !refusal.do_not_retry, "{refusal:?}");
    }

    #[test]
    fn old_forms_of_a_scan_are_understood() {
        let same = |include| pb::Scan {
            start_row: Some("r".into()),
            stop_row: Some("r".into()),
            include_stop_row: include,
            small: Some(true),
            ..Default::default()
        };
        let old = scan(&table(), &same(None), &world()).expect("a query");
        assert!(old.include_stop && old.include_start);
        assert_eq!(old.read_type, ReadType::Pread);
        assert!(!scan(&table(), &same(Some(false)), &world()).expect("a query").include_stop);
        assert!(!scan(&table(), &pb::Scan::default(), &world()).expect("all").include_stop);
    }

    #[test]
    fn attributes_set_raw_and_isolation() {
        let pair =
            |name: &str, byte: u8| pb::NameBytesPair { name: name.into(), value: Some(vec![byte].into()) };
        let mut query = pb::Scan {
            attribute: vec![pair("_raw_", 1), pair("_isolationlevel_", 1)],
            mvcc_read_point: Some(12),
            batch_size: Some(0),
            store_offset: Some(u32::MAX),
            ..Default::default()
        };
        let raw = scan(&table(), &query, &world()).expect("a query");
        assert!(raw.raw && raw.isolation == Isolation::ReadUncommitted && raw.batch.is_none());
        assert_eq!(raw.store_offset, 0, "-1");
        assert_eq!(raw.read_point, Some(SequenceId(12)));
        query.column.push(column("f", &["q"]));
        assert!(scan(&table(), &query, &world()).expect_err("columns of a raw scan").do_not_retry);
    }
}
