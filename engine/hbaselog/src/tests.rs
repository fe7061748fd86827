//! Tests with log files that are written here, in HBase's format. Files that HBase itself wrote are in `proof/golden`.

use std::sync::Arc;

use flate2::{Compress, Compression, FlushCompress};
use prost::Message;
use proto::pb;
use storage::{FileName, Files, Memory};

use crate::dictionary::Dictionary;
use crate::source::{Source, Stop};
use crate::{Error, Reader, Result};

fn number(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(0xff);
    number(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn key(region: &[u8], table: &[u8], sequence: u64, cells: u32) -> Vec<u8> {
    pb::WalKey {
        encoded_region_name: region.to_vec().into(),
        table_name: table.to_vec().into(),
        log_sequence_number: sequence,
        write_time: 5,
        following_kv_count: Some(cells),
        nonce_group: Some(7),
        nonce: Some(8),
        ..pb::WalKey::default()
    }
    .encode_length_delimited_to_vec()
}

fn begin(header: &pb::WalHeader) -> Vec<u8> {
    [&b"PWAL"[..], &header.encode_length_delimited_to_vec()].concat()
}

fn plain_cell(row: &[u8], family: &[u8], value: &[u8]) -> Vec<u8> {
    let mut key = (row.len() as u16).to_be_bytes().to_vec();
    key.extend_from_slice(row);
    key.push(family.len() as u8);
    key.extend_from_slice(family);
    key.push(b'q');
    key.extend_from_slice(&9u64.to_be_bytes());
    key.push(4);
    let mut cell = ((8 + key.len() + value.len()) as u32).to_be_bytes().to_vec();
    cell.extend_from_slice(&(key.len() as u32).to_be_bytes());
    cell.extend_from_slice(&(value.len() as u32).to_be_bytes());
    cell.extend_from_slice(&key);
    cell.extend_from_slice(value);
    cell
}

/// Returns the rows and sequence ids in a file, and the number of bytes of an incomplete last entry.
fn read(bytes: &[u8]) -> Result<(Vec<(String, u64)>, u64)> {
    let files = Memory::new();
    let name = FileName::new("WALs/h,1,2/x");
    let mut writer = files.create(&name).expect("new");
    writer.write(bytes).expect("room");
    writer.finish().expect("durable");
    let mut reader = Reader::open(files.open(&name).expect("there"), name)?;
    let mut found = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        for cell in entry.cells.cells() {
            let text = [cell.row(), b"=", cell.value()].concat();
            found.push((String::from_utf8(text).expect("text"), entry.sequence.0));
        }
        assert_eq!(entry.nonce, Some((7, 8)));
    }
    Ok((found, reader.torn()))
}

fn two_entries() -> Vec<u8> {
    let mut file = begin(&pb::WalHeader::default());
    file.extend(key(b"r", b"t", 1, 2));
    file.extend(plain_cell(b"a", b"f", b"1"));
    file.extend(plain_cell(b"a", b"METAFAMILY", b"marker"));
    file.extend(key(b"r", b"t", 2, 1));
    file.extend(plain_cell(b"b", b"f", b"2"));
    file
}

#[test]
fn a_file_that_was_cut_anywhere_has_the_whole_entries_before_and_a_closed_one_is_damaged() {
    let whole = two_entries();
    let both = vec![("a=1".to_owned(), 1), ("b=2".to_owned(), 2)];
    assert_eq!(read(&whole).expect("whole"), (both.clone(), 0));
    let first_end = whole.len() - key(b"r", b"t", 2, 1).len() - plain_cell(b"b", b"f", b"2").len();
    for cut in 0..whole.len() {
        let (found, torn) = read(&whole[..cut]).expect("torn");
        let expected = if cut < first_end { 0 } else { 1 };
        assert_eq!(found, both[..expected], "cut at {cut}");
        let begins =
            if cut < first_end { begin(&pb::WalHeader::default()).len().min(cut) } else { first_end };
        assert!(torn <= (cut - begins.min(cut)) as u64 + 6, "cut at {cut}: {torn}");
    }
    let zeros = [&whole[..], &[0; 5000]].concat();
    assert_eq!(read(&zeros).expect("zeros follow"), (both.clone(), 5000));
    let trailer = b"\0\0\0\0LAWP";
    assert_eq!(read(&[&whole[..], trailer].concat()).expect("closed"), (both, 0));
    let error = read(&[&whole[..whole.len() - 1], trailer].concat()).expect_err("closed and cut");
    assert!(error.to_string().contains("offset=") && error.to_string().contains("a whole entry"), "{error}");
    let mut bad = whole;
    bad[first_end + 1] = 0xff;
    assert!(matches!(read(&bad), Err(Error::Corrupt { .. })));
    assert!(matches!(read(b"SEQ\x06 and more"), Err(Error::Corrupt { what: "magic", .. })));
}

#[test]
fn compressed_names_rows_values_and_tags_are_read() {
    let header = pb::WalHeader {
        has_compression: Some(true),
        has_tag_compression: Some(true),
        has_value_compression: Some(true),
        value_compression_algorithm: Some(1),
        ..pb::WalHeader::default()
    };
    let mut file = begin(&header);
    let mut stream = Compress::new(Compression::default(), false);
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0];
    for (index, value) in ["one one one one", "", "one one one two", "3"].into_iter().enumerate() {
        let (mut region, mut table) = (Vec::new(), Vec::new());
        if index == 0 {
            word(&mut region, b"r");
            word(&mut table, b"t");
        } else {
            (region, table) = (vec![0, 0], vec![0, 0]);
        }
        file.extend(key(&region, &table, index as u64, 1));
        // The key's length: 2 + row 1 + 1 + family 1 + qualifier 1 + 9.
        for length in [15, value.len() as u32, 6] {
            number(&mut file, length);
        }
        match index {
            0 => [b"a", b"f", b"q"].into_iter().for_each(|part| word(&mut file, part)),
            // Another row, which becomes the second word of its dictionary.
            1 => {
                word(&mut file, b"b");
                file.extend([0, 0, 0, 0]);
            }
            _ => file.extend([0, (index % 2) as u8, 0, 0, 0, 0]),
        }
        file.extend(9u64.to_be_bytes());
        file.push(4);
        let mut packed = if index == 0 { gzip.to_vec() } else { Vec::new() };
        let mut out = Vec::with_capacity(1000);
        stream.compress_vec(value.as_bytes(), &mut out, FlushCompress::Sync).expect("room");
        packed.extend(out);
        number(&mut file, packed.len() as u32);
        file.extend(packed);
        // A tag of type 8 with three bytes of data; its length, 4, is written before it in two bytes.
        if index == 0 { word(&mut file, b"\x08abc") } else { file.extend([0, 0]) }
    }
    let expected = [("a=one one one one", 0), ("b=", 1), ("a=one one one two", 2), ("b=3", 3)];
    let (found, torn) = read(&file).expect("whole");
    assert_eq!((found, torn), (expected.map(|(text, at)| (text.to_owned(), at)).to_vec(), 0));
}

#[test]
fn unsupported_log_files_are_refused_with_the_reason() {
    let told = |header: pb::WalHeader| read(&begin(&header)).expect_err("refused").to_string();
    let encrypted = pb::WalHeader { encryption_key: Some(b"k".to_vec().into()), ..pb::WalHeader::default() };
    assert!(told(encrypted).contains("WALs/h,1,2/x is encrypted"));
    let codec = pb::WalHeader {
        cell_codec_cls_name: Some("org.apache.hadoop.hbase.regionserver.wal.IndexedWALEditCodec".into()),
        ..pb::WalHeader::default()
    };
    assert!(told(codec).contains("IndexedWALEditCodec"));
    let values = pb::WalHeader {
        has_compression: Some(true),
        has_value_compression: Some(true),
        value_compression_algorithm: Some(3),
        ..pb::WalHeader::default()
    };
    assert!(told(values).contains("algorithm 3"));
}

#[test]
fn a_full_dictionary_forgets_the_word_that_was_used_longest_ago() {
    let files = Memory::new();
    let name = FileName::new("words");
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for text in [&b"a"[..], b"", b"b"] {
        word(&mut bytes, text);
        expected.extend_from_slice(text);
    }
    // Uses word a, so c takes the number of b, and then b takes that of a.
    bytes.extend([0, 0]);
    word(&mut bytes, b"c");
    bytes.extend([0, 1]);
    word(&mut bytes, b"b");
    bytes.extend([0, 0, 0, 1, 0, 2]);
    expected.extend_from_slice(b"accbbc");
    let mut writer = files.create(&name).expect("new");
    writer.write(&bytes).expect("room");
    writer.finish().expect("durable");
    let file = files.open(&name).expect("there");
    let mut source = Source::new(Arc::clone(&file), file.size());
    let (mut words, mut found) = (Dictionary::new(2), Vec::new());
    for _ in 0..9 {
        words.read(&mut source, &mut found).expect("known");
    }
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert!(matches!(words.read(&mut source, &mut found), Err(Stop::Wrong("word", ..))));
}
