//! Tests that HFiles that Apache HBase wrote are read completely, by scans in both directions and by seeks in any
//! order.
#![expect(clippy::disallowed_methods, reason = "the files of this folder are what the tests are about")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cache::Cache;
use cell::{Cell, KeyBuf, SequenceId};
use hfile::{BloomType, ReadOptions, Reader};
use storage::{FileName, Files, Memory};

/// A line `cell …` of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    row: Vec<u8>,
    family: Vec<u8>,
    qualifier: Vec<u8>,
    timestamp: i64,
    type_code: u8,
    mvcc: u64,
    value: Vec<u8>,
    tags: Vec<u8>,
}

impl Line {
    fn of(cell: Cell<'_>) -> Line {
        Line {
            row: cell.row().to_vec(),
            family: cell.family().to_vec(),
            qualifier: cell.qualifier().to_vec(),
            timestamp: cell.timestamp().0,
            type_code: cell.key().type_code(),
            mvcc: cell.sequence().0,
            value: cell.value().to_vec(),
            tags: cell.tags().bytes().to_vec(),
        }
    }
}

/// The content of a file as HBase printed it.
struct Golden {
    bytes: Vec<u8>,
    trailer: BTreeMap<String, String>,
    info: BTreeMap<String, Vec<u8>>,
    cells: Vec<Line>,
}

fn unhex(text: &str) -> Vec<u8> {
    let text = if text == "-" { "" } else { text };
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("hfiles")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder is there");
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.expect("readable").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".hfile").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 40, "the folder is whole, found {names:?}");
    names
}

fn golden(name: &str) -> Golden {
    let text = std::fs::read_to_string(folder().join(format!("{name}.txt"))).expect("a text beside it");
    let mut golden = Golden {
        bytes: std::fs::read(folder().join(format!("{name}.hfile"))).expect("the file"),
        trailer: BTreeMap::new(),
        info: BTreeMap::new(),
        cells: Vec::new(),
    };
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        match parts[..] {
            ["trailer", name, value] => {
                golden.trailer.insert(name.to_owned(), value.to_owned());
            }
            ["info", name, value] => {
                golden.info.insert(name.to_owned(), unhex(value));
            }
            ["cell", row, family, qualifier, timestamp, kind, mvcc, value, tags] => golden.cells.push(Line {
                row: unhex(row),
                family: unhex(family),
                qualifier: unhex(qualifier),
                timestamp: timestamp.parse().expect("a number"),
                type_code: kind.parse().expect("a number"),
                mvcc: mvcc.parse().expect("a number"),
                value: unhex(value),
                tags: unhex(tags),
            }),
            ["meta", _, _] => {}
            _ => panic!("{name}.txt has a line of no known kind: {line}"),
        }
    }
    golden
}

fn open(name: &str, bytes: &[u8]) -> hfile::Result<Arc<Reader>> {
    let (files, name) = (Memory::new(), FileName::new(name));
    let mut writer = files.create(&name).expect("new");
    writer.write(bytes).expect("written");
    writer.finish().expect("written");
    Reader::open(files.open(&name)?, name, Arc::new(Cache::with_bytes(16 << 20)), cache::Caching::default())
        .map(Arc::new)
}

fn readable() -> impl Iterator<Item = (String, Golden, Arc<Reader>)> {
    names().into_iter().map(|name| {
        let golden = golden(&name);
        let reader = open(&name, &golden.bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, golden, reader)
    })
}

fn all(reader: &Arc<Reader>) -> hfile::Result<Vec<Line>> {
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first()?;
    let mut found = Vec::new();
    while let Some(cell) = cursor.peek() {
        found.push(Line::of(cell));
        cursor.advance()?;
    }
    Ok(found)
}

#[test]
fn every_cell_is_read_with_its_tags_and_sequence_id() {
    for (name, golden, reader) in readable() {
        let found = all(&reader).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.len(), golden.cells.len(), "{name}");
        for (found, expected) in found.iter().zip(&golden.cells) {
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn every_entry_of_the_file_info_is_read() {
    for (name, golden, reader) in readable() {
        let found: BTreeMap<String, Vec<u8>> = reader
            .info()
            .iter()
            .map(|(key, value)| (String::from_utf8(key.to_vec()).expect("text"), value.to_vec()))
            .collect();
        assert_eq!(found, golden.info, "{name}");
        assert_eq!(reader.entries().to_string(), golden.trailer["entry_count"], "{name}");
        let store_file = golden.info.contains_key("MAX_SEQ_ID_KEY");
        assert_eq!(reader.max_sequence(), store_file.then_some(SequenceId(4711)), "{name}");
        assert_eq!(reader.is_major(), name == "deletes-rowcol-major", "{name}");
        assert_eq!(
            reader.last_key().map(|key| key.bytes().to_vec()),
            golden.info.get("hfile.LASTKEY").cloned()
        );
    }
}

#[test]
fn every_cell_is_found_by_its_key_and_every_row_by_a_reversed_scan() {
    for (name, golden, reader) in readable() {
        let mut cursor = reader.cursor(ReadOptions::default());
        let mut rows: Vec<&[u8]> = Vec::new();
        for line in &golden.cells {
            if rows.last() != Some(&line.row.as_slice()) {
                rows.push(&line.row);
            }
        }
        for line in golden.cells.iter().rev() {
            let key = KeyBuf::first_on_column(&line.row, &line.family, &line.qualifier);
            cursor.seek(key.position()).expect("sound");
            let cell = cursor.peek().unwrap_or_else(|| panic!("{name}: {line:?} is not found"));
            assert_eq!((cell.row(), cell.qualifier()), (&line.row[..], &line.qualifier[..]), "{name}");
        }
        for pair in rows.windows(2) {
            assert!(cursor.seek_row_before(Some(pair[1])).expect("sound"), "{name}");
            assert_eq!(cursor.peek().expect("there").row(), pair[0], "{name}");
        }
        let last = cursor.seek_row_before(None).expect("sound");
        assert_eq!(last.then(|| cursor.peek().expect("there").row()), rows.last().copied(), "{name}");
    }
}

#[test]
fn bloom_filters_admit_every_stored_key_and_few_others() {
    let mut asked = 0;
    let mut admitted = 0;
    for (name, golden, reader) in readable() {
        let options = ReadOptions::default();
        for line in &golden.cells {
            assert!(reader.may_contain_row(&line.row, options).expect("sound"), "{name}: {line:?}");
            assert!(
                reader.may_contain_column(&line.row, &line.qualifier, options).expect("sound"),
                "{name}: {line:?}"
            );
            if matches!(line.type_code, 10 | 14) {
                assert!(
                    reader.may_delete_families_of(&line.row, options).expect("sound"),
                    "{name}: {line:?}"
                );
            }
        }
        if golden.cells.is_empty() || reader.bloom() == BloomType::None {
            continue;
        }
        for stranger in 0..200 {
            let row = format!("row-{stranger:05}x");
            asked += 1;
            let found = match reader.bloom() {
                BloomType::RowColumn => reader.may_contain_column(row.as_bytes(), b"column1", options),
                _ => reader.may_contain_row(row.as_bytes(), options),
            };
            admitted += u32::from(found.expect("sound"));
        }
    }
    assert!(asked > 5_000, "the blooms were asked, {asked} times");
    assert!(admitted * 20 < asked, "{admitted} of {asked} strangers were admitted");
}

#[test]
fn a_flipped_bit_in_a_block_is_an_error_and_never_read_as_data() {
    // All blocks of two files: one compressed, one not. In a file without checksums damage is not detected.
    for name in ["one-block", "gz-plain", "zstd-rowindex-tags", "encoding-fast-diff-tags"] {
        let golden = golden(name);
        let end: usize = golden.trailer["load_on_open_offset"].parse().expect("a number");
        for at in (0..end).step_by(37) {
            let mut bytes = golden.bytes.clone();
            bytes[at] ^= 0x10;
            // A bit in the offset of the previous block may go unnoticed, but no cell may differ.
            if let Ok(found) = open(name, &bytes).and_then(|reader| all(&reader)) {
                assert_eq!(found, golden.cells, "{name}: the bit at {at} was read as data");
            }
        }
    }
}
