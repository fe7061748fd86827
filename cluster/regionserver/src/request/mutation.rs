//! Translates `MutationProto` into the engine's mutation, with cells from the cell block or from the message.

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, TagType, Timestamp, string_binary, tags};
use proto::{TableDescriptor, pb};
use region::{Durability, Mutation, MutationKind};
use rpc::Exception;

use super::{RequestCells, attribute, flag, time_range};
use crate::nonces::Nonce;

use pb::mutation_proto::{DeleteType, Durability as DurabilityProto, MutationType};

/// A requested mutation and its nonce.
#[derive(Debug)]
pub(crate) struct RequestedMutation {
    pub(crate) mutation: Mutation,
    pub(crate) nonce: u64,
}

impl RequestedMutation {
    /// Records the nonce and the client's nonce group in an increment or append, so that the log has them.
    pub(crate) fn of_group(mut self, group: u64) -> RequestedMutation {
        if self.nonce != 0 && matches!(self.mutation.kind, MutationKind::Increment | MutationKind::Append) {
            self.mutation.nonce = Some((group, self.nonce));
        }
        self
    }

    /// Returns the nonce with the client's nonce group.
    pub(crate) fn nonce(&self, group: u64) -> Nonce {
        Nonce { group, nonce: self.nonce }
    }
}

/// Decodes one mutation of `row`, or of the row of its first cell. Takes its cells from `cells` even if it is refused.
/// The row in `proto` is ignored, because several mutations may share the message. Refuses a cell longer than
/// `cell_bytes_max` bytes (0 for no limit).
pub(crate) fn mutation(
    table: &TableDescriptor,
    row: Option<Bytes>,
    proto: &pb::MutationProto,
    cells: &mut RequestCells,
    cell_bytes_max: u64,
) -> Result<RequestedMutation, Exception> {
    let count = usize::try_from(proto.associated_cell_count.unwrap_or(0)).unwrap_or(0);
    let beside = cells.take(count)?;
    let kind = kind(proto)?;
    let row = self::row(row, &beside)?;
    let mut cells = match count {
        0 => cells_of_message(table, kind, proto, &row)?,
        _ => beside,
    };
    if let Some(ttl) = attribute(&proto.attribute, "_ttl") {
        cells = with_ttl(&cells, ttl)?;
    }
    for cell in cells.cells() {
        check(cell, &row, cell_bytes_max)?;
    }
    Ok(RequestedMutation {
        mutation: Mutation {
            kind,
            row,
            cells,
            durability: durability(proto.durability()),
            time_range: time_range(proto.time_range.as_ref())?,
            return_results: attribute(&proto.attribute, "_rr_").is_none_or(flag),
            nonce: None,
        },
        nonce: proto.nonce(),
    })
}

fn kind(proto: &pb::MutationProto) -> Result<MutationKind, Exception> {
    let code = proto.mutate_type.unwrap_or_default();
    Ok(match MutationType::try_from(code) {
        Ok(MutationType::Append) => MutationKind::Append,
        Ok(MutationType::Increment) => MutationKind::Increment,
        Ok(MutationType::Put) => MutationKind::Put,
        Ok(MutationType::Delete) => MutationKind::Delete,
        Err(_) => return Err(Exception::do_not_retry(format!("Unsupported mutate type: {code}"))),
    })
}

fn durability(durability: DurabilityProto) -> Durability {
    match durability {
        DurabilityProto::UseDefault => Durability::UseDefault,
        DurabilityProto::SkipWal => Durability::Skip,
        DurabilityProto::AsyncWal => Durability::Async,
        DurabilityProto::SyncWal => Durability::Sync,
        DurabilityProto::FsyncWal => Durability::Fsync,
    }
}

/// Returns the row `named` or, if there is none, the row of the first cell.
fn row(named: Option<Bytes>, beside: &CellBlock) -> Result<Bytes, Exception> {
    let row = match (named, beside.cells().next()) {
        (Some(row), _) => row,
        (None, Some(cell)) => Bytes::copy_from_slice(cell.row()),
        (None, None) => return Err(Exception::do_not_retry("row cannot be null")),
    };
    super::check_row(&row).map(|()| row)
}

fn check(cell: Cell<'_>, row: &[u8], bytes_max: u64) -> Result<(), Exception> {
    if cell.row() != row {
        return Err(Exception::new(
            "org.apache.hadoop.hbase.client.WrongRowIOException",
            format!("The row in {cell:?} doesn't match the original one {}", string_binary(row)),
        ));
    }
    // HBase would accept any type byte, but its own tools could not read the file afterwards. So other types are
    // refused.
    if !matches!(cell.cell_type(), Some(kind) if !matches!(kind, CellType::Minimum | CellType::Maximum)) {
        return Err(Exception::do_not_retry(format!(
            "Cell[{cell:?}] has the type code {}, expected that of a put or of a delete",
            cell.key().type_code()
        )));
    }
    if cell.timestamp().0 < 0 {
        return Err(Exception::io(format!("Timestamp cannot be negative. ts={}", cell.timestamp().0)));
    }
    // HBase counts the 4 bytes of length before a cell, but not the length field of tags if there are none.
    let bytes = if cell.tags().is_empty() { cell.bytes_without_tags() } else { cell.bytes() };
    let size = bytes.len() as u64 + 4;
    if bytes_max > 0 && size > bytes_max {
        return Err(Exception::do_not_retry(format!(
            "Cell[{cell:?}] with size {size} exceeds limit of {bytes_max} bytes"
        )));
    }
    Ok(())
}

/// Returns the cells in the message itself. A delete without columns deletes every family.
fn cells_of_message(
    table: &TableDescriptor,
    kind: MutationKind,
    proto: &pb::MutationProto,
    row: &[u8],
) -> Result<CellBlock, Exception> {
    let default = proto.timestamp.map_or(Timestamp::LATEST, |ts| Timestamp(ts as i64));
    let mut out = Vec::new();
    // The cells are written into the block directly, so that a value is copied only once. They are checked when the
    // block is complete.
    let mut put = |parts: CellParts<'_>| {
        let at = out.len();
        out.reserve(parts.size() + 6);
        out.extend_from_slice(&[0; 4]);
        parts.write(&mut out).map_err(|error| Exception::do_not_retry(error.to_string()))?;
        if parts.tags.is_empty() {
            out.extend_from_slice(&0u16.to_be_bytes());
        }
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok::<(), Exception>(())
    };
    for column in &proto.column_value {
        for value in &column.qualifier_value {
            let cell_type = match (value.delete_type, kind) {
                (None, MutationKind::Delete) => CellType::Delete,
                (None, _) => CellType::Put,
                (Some(code), _) => match DeleteType::try_from(code) {
                    Ok(DeleteType::DeleteOneVersion) => CellType::Delete,
                    Ok(DeleteType::DeleteMultipleVersions) => CellType::DeleteColumn,
                    Ok(DeleteType::DeleteFamily) => CellType::DeleteFamily,
                    Ok(DeleteType::DeleteFamilyVersion) => CellType::DeleteFamilyVersion,
                    Err(_) => return Err(Exception::do_not_retry(format!("Unknown delete type: {code}"))),
                },
            };
            if value.value.is_none() && kind != MutationKind::Delete {
                return Err(Exception::do_not_retry("Missing required field: qualifier value"));
            }
            put(CellParts {
                row,
                family: &column.family,
                // A marker of a whole family has no qualifier. No delete marker has a value, even if the client sends
                // one.
                qualifier: match cell_type.is_family_delete() {
                    true => b"",
                    false => value.qualifier.as_deref().unwrap_or_default(),
                },
                timestamp: value.timestamp.map_or(default, |ts| Timestamp(ts as i64)),
                cell_type,
                value: match cell_type.is_delete() {
                    true => b"",
                    false => value.value.as_deref().unwrap_or_default(),
                },
                tags: value.tags.as_deref().unwrap_or_default(),
            })?;
        }
    }
    if kind == MutationKind::Delete && proto.column_value.is_empty() {
        for family in table.families() {
            put(CellParts {
                row,
                family: family.name(),
                qualifier: b"",
                timestamp: default,
                cell_type: CellType::DeleteFamily,
                value: b"",
                tags: b"",
            })?;
        }
    }
    CellBlock::parse(out.into()).map_err(malformed)
}

fn malformed(error: cell::Malformed) -> Exception {
    Exception::do_not_retry(format!("a cell of the request: {error}"))
}

/// Returns the cells with the time to live `ttl` in their tags, which replaces any that they had. `ttl` must have 8
/// bytes: milliseconds, big-endian.
fn with_ttl(cells: &CellBlock, ttl: &[u8]) -> Result<CellBlock, Exception> {
    if ttl.len() != 8 {
        return Err(Exception::io(format!(
            "offset (0) + length (8) exceed the capacity of the array: {}",
            ttl.len()
        )));
    }
    let mut out = Vec::with_capacity(cells.bytes().len() + cells.count() * 16);
    for cell in cells.cells() {
        let mut kept = Vec::new();
        for tag in cell.tags().into_iter().filter(|tag| tag.code != TagType::Ttl as u8) {
            tags::write_tag(&mut kept, tag.code, tag.value);
        }
        tags::write_tag(&mut kept, TagType::Ttl as u8, ttl);
        if kept.len() > cell::TAGS_LENGTH_MAX {
            return Err(Exception::do_not_retry(format!(
                "{} bytes of tags, at most {} are allowed",
                kept.len(),
                cell::TAGS_LENGTH_MAX
            )));
        }
        let plain = cell.bytes_without_tags();
        out.extend_from_slice(&((plain.len() + 2 + kept.len()) as u32).to_be_bytes());
        out.extend_from_slice(plain);
        out.extend_from_slice(&(kept.len() as u16).to_be_bytes());
        out.extend_from_slice(&kept);
    }
    CellBlock::parse(out.into()).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use cell::{SequenceId, block};
    use pb::mutation_proto::ColumnValue;
    use pb::mutation_proto::column_value::QualifierValue;

    use super::super::samples::table;
    use super::*;

    fn proto(kind: MutationType, values: Vec<QualifierValue>) -> pb::MutationProto {
        pb::MutationProto {
            row: Some("r".into()),
            mutate_type: Some(kind as i32),
            column_value: vec![ColumnValue { family: "f".into(), qualifier_value: values }],
            ..Default::default()
        }
    }

    fn read(proto: &pb::MutationProto) -> Result<RequestedMutation, Exception> {
        mutation(&table(), proto.row.clone(), proto, &mut RequestCells::new(Bytes::new()), 100)
    }

    fn value(qualifier: &'static str, value: Option<&'static str>) -> QualifierValue {
        QualifierValue {
            qualifier: Some(qualifier.into()),
            value: value.map(Into::into),
            ..Default::default()
        }
    }

    #[test]
    fn a_put_in_the_message_becomes_cells() {
        let mut put = proto(MutationType::Put, vec![value("a", Some("1")), value("b", Some("2"))]);
        put.timestamp = Some(9);
        put.column_value[0].qualifier_value[1].timestamp = Some(11);
        put.durability = Some(DurabilityProto::SkipWal as i32);
        let asked = read(&put).expect("a put");
        let cells: Vec<_> = asked.mutation.cells.cells().collect();
        assert_eq!((cells[0].timestamp(), cells[1].timestamp()), (Timestamp(9), Timestamp(11)));
        assert_eq!((cells[1].qualifier(), cells[1].value()), (&b"b"[..], &b"2"[..]));
        assert_eq!(asked.mutation.durability, Durability::Skip);
        assert!(asked.mutation.return_results);
        let missing = read(&proto(MutationType::Put, vec![value("a", None)])).expect_err("no value");
        assert!(missing.message.contains("Missing required field"));
    }

    #[test]
    fn a_delete_of_a_row_names_every_family() {
        let mut delete = proto(MutationType::Delete, vec![]);
        delete.column_value.clear();
        let asked = read(&delete).expect("a delete");
        let cells: Vec<_> = asked.mutation.cells.cells().map(|c| (c.family(), c.cell_type())).collect();
        assert_eq!(cells, [(&b"f"[..], Some(CellType::DeleteFamily)), (b"g", Some(CellType::DeleteFamily))]);
        let mut one = value("q", None);
        one.delete_type = Some(DeleteType::DeleteMultipleVersions as i32);
        let asked = read(&proto(MutationType::Delete, vec![one])).expect("a delete");
        let cell = asked.mutation.cells.cells().next().expect("one");
        assert_eq!((cell.cell_type(), cell.timestamp()), (Some(CellType::DeleteColumn), Timestamp::LATEST));
    }

    #[test]
    fn a_time_to_live_becomes_a_tag_of_every_cell() {
        let mut put = proto(MutationType::Put, vec![value("a", Some("1"))]);
        put.attribute = vec![
            pb::NameBytesPair {
                name: "_ttl".into(),
                value: Some(Bytes::copy_from_slice(&5u64.to_be_bytes())),
            },
            pb::NameBytesPair { name: "_rr_".into(), value: Some(Bytes::from_static(&[0])) },
        ];
        let asked = read(&put).expect("a put");
        let cell = asked.mutation.cells.cells().next().expect("one");
        assert_eq!(cell.tags().find(TagType::Ttl).expect("the tag").value, 5u64.to_be_bytes());
        assert!(!asked.mutation.return_results);
        put.attribute[0].value = Some("short".into());
        assert!(read(&put).is_err());
    }

    #[test]
    fn refused_mutations_consume_their_cells() {
        let long = read(&proto(
            MutationType::Put,
            vec![QualifierValue { value: Some(vec![b'x'; 100].into()), ..Default::default() }],
        ))
        .expect_err("too large");
        assert!(long.message.contains("exceeds limit of 100 bytes") && long.do_not_retry);
        let mut block = Vec::new();
        for row in [&b"r"[..], b"s", b"r"] {
            let cell = CellParts {
                row,
                family: b"f",
                qualifier: b"q",
                timestamp: Timestamp(1),
                cell_type: CellType::Put,
                value: b"v",
                tags: b"",
            };
            let cell = cell.to_vec().expect("a cell");
            block::write_without_tags(&mut block, Cell::parse(&cell, SequenceId::ZERO).expect("a cell"));
        }
        let mut cells = RequestCells::new(block.into());
        let beside = |count| pb::MutationProto {
            row: Some("r".into()),
            mutate_type: Some(MutationType::Put as i32),
            associated_cell_count: Some(count),
            ..Default::default()
        };
        let row = || Some("r".into());
        let error = mutation(&table(), row(), &beside(2), &mut cells, 0).expect_err("another row");
        assert!(error.class.ends_with("WrongRowIOException"), "{error}");
        let asked = mutation(&table(), row(), &beside(1), &mut cells, 0).expect("the third cell");
        assert_eq!(asked.mutation.cells.count(), 1);
    }

    #[test]
    fn a_cell_of_no_known_type_is_refused() {
        let cell = CellParts {
            row: b"r",
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(1),
            cell_type: CellType::Put,
            value: b"",
            tags: b"",
        };
        let cell = cell.to_vec().expect("a cell");
        for code in 0..=255u8 {
            let mut cell = cell.clone();
            *cell.last_mut().expect("the type ends a key, and there is no value") = code;
            let mut block = Vec::new();
            block::write_without_tags(&mut block, Cell::parse(&cell, SequenceId::ZERO).expect("a cell"));
            let put = pb::MutationProto {
                mutate_type: Some(MutationType::Put as i32),
                associated_cell_count: Some(1),
                ..Default::default()
            };
            let asked = mutation(&table(), None, &put, &mut RequestCells::new(block.into()), 0);
            assert_eq!(asked.is_ok(), [4, 8, 10, 12, 14].contains(&code), "{code}");
        }
    }
}
