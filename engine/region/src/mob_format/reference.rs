//! Reference cells. Each has the key of a cell whose value is in a MOB file, and the name of that file.
//!
//! ```text
//! value   length of the MOB value 4B · name of the MOB file
//! tags    MOB_REFERENCE without a value · MOB_TABLE_NAME with the name of the table that wrote the file · the cell's own
//! ```

use cell::{Cell, TagType};

/// Number of bytes of the length, which precedes the file's name.
const LENGTH: usize = 4;

/// A parsed reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MobReference<'a> {
    /// The name of the table in whose folder the MOB file was made.
    pub(crate) table: &'a str,
    /// The MOB file's name.
    pub(crate) file: &'a str,
}

/// Whether a cell is a reference.
#[inline]
pub(crate) fn is_reference(cell: Cell<'_>) -> bool {
    let tags = cell.tags();
    !tags.is_empty() && tags.find(TagType::MobReference).is_some()
}

impl<'a> MobReference<'a> {
    /// Parses a reference cell; `None` if it names no file. The content is not trusted, because a client may have
    /// written it.
    pub(crate) fn parse(cell: Cell<'a>) -> Option<MobReference<'a>> {
        let table = std::str::from_utf8(cell.tags().find(TagType::MobTableName)?.value).ok()?;
        let file = std::str::from_utf8(cell.value().get(LENGTH..)?).ok()?;
        let is_name = !matches!(file, "" | "." | "..") && !file.contains(['/', '\\', '\0', ',']);
        is_name.then_some(MobReference { table, file })
    }
}

/// Returns the length in bytes of the value that a reference replaces; 0 if the reference does not state it.
pub(crate) fn length_of_value(reference: Cell<'_>) -> u64 {
    reference.value().first_chunk::<LENGTH>().map_or(0, |length| u64::from(u32::from_be_bytes(*length)))
}

/// Returns the tags that a reference to a file of `table` has before the cell's own tags.
pub(crate) fn reference_tags(table: &str) -> Vec<u8> {
    let mut tags = Vec::new();
    cell::tags::write_tag(&mut tags, TagType::MobReference as u8, b"");
    cell::tags::write_tag(&mut tags, TagType::MobTableName as u8, table.as_bytes());
    tags
}

/// Whether the reference's tags fit into a cell beside the cell's own tags.
pub(crate) fn fits(cell: Cell<'_>, tags: &[u8]) -> bool {
    cell.tags().bytes().len() + tags.len() <= cell::TAGS_LENGTH_MAX
}

/// Writes the reference to `cell`, whose value is in the MOB file `file`, to `out`, and replaces the content of `out`.
/// `tags` are the [`reference_tags`].
pub(crate) fn write_reference(out: &mut Vec<u8>, cell: Cell<'_>, file: &str, tags: &[u8]) {
    let (key, own) = (cell.key().bytes(), cell.tags().bytes());
    out.clear();
    out.extend_from_slice(&(key.len() as u32).to_be_bytes());
    out.extend_from_slice(&((LENGTH + file.len()) as u32).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&(cell.value().len() as u32).to_be_bytes());
    out.extend_from_slice(file.as_bytes());
    out.extend_from_slice(&((tags.len() + own.len()) as u16).to_be_bytes());
    out.extend_from_slice(tags);
    out.extend_from_slice(own);
}

/// Writes `cell` without its value to `out`, and replaces the content of `out`.
pub(crate) fn write_without_value(out: &mut Vec<u8>, cell: Cell<'_>) {
    let (key, tags) = (cell.key().bytes(), cell.tags().bytes());
    out.clear();
    out.extend_from_slice(&(key.len() as u32).to_be_bytes());
    out.extend_from_slice(&0u32.to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&(tags.len() as u16).to_be_bytes());
    out.extend_from_slice(tags);
}

#[cfg(test)]
mod tests {
    use cell::{CellParts, CellType, SequenceId, Timestamp};

    use super::*;

    fn cell(value: &[u8], tags: &[u8]) -> Vec<u8> {
        let parts = CellParts {
            row: b"row",
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(7),
            cell_type: CellType::Put,
            value,
            tags,
        };
        parts.to_vec().expect("within limits")
    }

    #[test]
    fn a_reference_has_the_bytes_of_hbase() {
        let own = [0, 2, TagType::Acl as u8, b'x'];
        let (bytes, mut out) = (cell(&[9; 300], &own), Vec::new());
        let cell = Cell::trusted(&bytes, SequenceId(5));
        write_reference(&mut out, cell, "file", &reference_tags("ns:t"));
        let reference = Cell::parse(&out, SequenceId(5)).expect("a cell");
        assert_eq!(reference.key().bytes(), cell.key().bytes());
        assert_eq!(reference.value(), b"\0\0\x01\x2cfile");
        assert_eq!(reference.tags().bytes(), b"\0\x01\x05\0\x05\x06ns:t\0\x02\x01x");
        assert!(is_reference(reference) && !is_reference(cell));
        assert_eq!(MobReference::parse(reference), Some(MobReference { table: "ns:t", file: "file" }));
    }

    #[test]
    fn what_names_no_file_is_no_reference() {
        let tags = reference_tags("t");
        for value in [&b""[..], b"\0\0\0\x01", b"\0\0\0\x01..", b"\0\0\0\x01a/b", b"\0\0\0\x01\xff"] {
            let bytes = cell(value, &tags);
            assert_eq!(MobReference::parse(Cell::trusted(&bytes, SequenceId(1))), None);
        }
        let bytes = cell(b"\0\0\0\x01file", &tags[..3]);
        assert_eq!(MobReference::parse(Cell::trusted(&bytes, SequenceId(1))), None, "no table");
    }
}
