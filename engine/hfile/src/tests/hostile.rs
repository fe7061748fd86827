//! Tests that a file made to do harm, which a client may bulk-load, does none.

use bytes::Bytes;
use prost::Message;
use proto::pb;

use super::*;
use crate::format::{BlockHeader, HEADER_LENGTH, TRAILER_LENGTH, checksum};
use crate::info::name;

/// A reader does as many lookups for a search as the file has levels, and an index block may name itself.
#[test]
fn a_file_that_claims_too_many_index_levels_is_refused() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &sample(1_200, 5), WriterOptions { block_size: 1, ..Default::default() });
    assert_eq!(open(&files, &name).expect("whole").levels(), 2);
    let claim = |levels| {
        files.damage(&name, |bytes| {
            let trailer = bytes.len() - TRAILER_LENGTH;
            let message = &bytes[trailer + 8..bytes.len() - 4];
            let message = pb::FileTrailerProto::decode_length_delimited(message).expect("a trailer");
            let message = pb::FileTrailerProto { num_data_index_levels: Some(levels), ..message };
            let message = message.encode_length_delimited_to_vec();
            bytes[trailer + 8..trailer + 8 + message.len()].copy_from_slice(&message);
        });
        open(&files, &name)
    };
    claim(20).expect("a file of small blocks and large keys may have so many");
    let error = claim(u32::MAX).expect_err("no file has so many").to_string();
    assert!(error.contains("index levels") && error.contains("4294967295"), "{error}");
}

/// The cells of a loaded file have the sequence id of the load, so its own ids must not become the region's.
#[test]
fn the_newest_sequence_id_of_a_loaded_file_is_that_of_the_load() {
    for has_ids in [0, 1u32] {
        let (files, file) = (Memory::new(), FileName::new("f"));
        let mut writer =
            Writer::create(files.create(&file).expect("new"), file.clone(), WriterOptions::default());
        for (bytes, sequence) in &sample(1, 5) {
            writer.append(Cell::parse(bytes, *sequence).expect("whole")).expect("in order");
        }
        let claims = vec![
            (name::KEY_VALUE_VERSION, Bytes::copy_from_slice(&has_ids.to_be_bytes())),
            (name::MVCC_MAX, Bytes::copy_from_slice(&u64::MAX.to_be_bytes())),
        ];
        let info = StoreFileInfo { max_sequence: SequenceId(5), major: false, more: claims };
        writer.finish(info).expect("written");
        let reader = Arc::into_inner(open(&files, &file).expect("whole")).expect("one reader");
        let loaded = reader.with_common_sequence(SequenceId(7));
        assert_eq!(
            (loaded.newest_sequence(), loaded.newest_write()),
            (Some(SequenceId(7)), Some(SequenceId(7)))
        );
    }
}

/// A cached block holds the memory of its row index, too, but only the cells count.
#[test]
fn a_row_index_with_more_rows_than_cells_is_refused() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    let cells: Vec<_> = sample(40, 26).into_iter().filter(|(_, sequence)| sequence.0 % 3 == 2).collect();
    write(&files, &name, &cells, WriterOptions { encoding: Encoding::RowIndexV1, ..Default::default() });
    assert_eq!(read_all(&open(&files, &name).expect("whole")).expect("sound").len(), 40);
    // Replaces all cells but the first one by rows of the index. The block keeps its size.
    files.damage(&name, |bytes| {
        let header =
            BlockHeader::parse(bytes.first_chunk::<HEADER_LENGTH>().expect("a block")).expect("a header");
        let end = header.data_size as usize;
        let word = |bytes: &[u8], at: usize| {
            u32::from_be_bytes(*bytes[at..].first_chunk().expect("a number")) as usize
        };
        let first = HEADER_LENGTH + 2;
        let area = word(bytes, end - 4);
        let second = word(bytes, first + area + 8);
        let rows = (end - 4 - (first + second + 4)) / 4;
        let spare = (end - 4 - (first + second + 4)) % 4;
        assert_eq!((spare, rows > 100), (0, true), "whole rows fit");
        bytes[first + second..first + second + 4].copy_from_slice(&(rows as u32).to_be_bytes());
        bytes[end - 4..end].copy_from_slice(&(second as u32).to_be_bytes());
        write_checksums(&header, bytes);
    });
    let error = open(&files, &name).and_then(|reader| read_all(&reader)).expect_err("refused").to_string();
    assert!(error.contains("row index"), "{error}");
}

/// Writes the checksums of the block at the start of `bytes`.
fn write_checksums(header: &BlockHeader, bytes: &mut [u8]) {
    let (end, chunk) = (header.data_size as usize, header.bytes_per_checksum as usize);
    for (index, at) in (0..end).step_by(chunk).enumerate() {
        let sum = checksum(header.checksum, &bytes[at..end.min(at + chunk)]).to_be_bytes();
        bytes[end + 4 * index..end + 4 * index + 4].copy_from_slice(&sum);
    }
}

/// Reads the rows with even numbers cell by cell, and looks for the row after each other one, as scans do. Fails the test
/// after ten times as many steps as the file has cells.
fn scan_rows(reader: &Arc<Reader>, cells: usize) -> Result<()> {
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first()?;
    for _ in 0..10 * cells {
        let Some(row) = cursor.peek().map(|cell| cell.row().to_vec()) else { return Ok(()) };
        match row.last() {
            Some(digit) if digit % 2 == 0 => cursor.advance()?,
            _ => cursor.seek(KeyBuf::first_on_row(&[&row[..], b"\0"].concat()).position())?,
        }
    }
    panic!("the scan does not end");
}

/// A reader that meets such cells may return to rows that it has read, and never end.
#[test]
fn a_loaded_file_whose_cells_are_out_of_order_is_an_error_that_names_it() {
    let cells: Vec<_> = sample(60, 5).into_iter().filter(|(_, sequence)| (sequence.0 / 3) % 7 != 0).collect();
    // One block with all cells, and a block for each cell.
    for block_size in [1 << 20, 1] {
        let (files, name) = (Memory::new(), FileName::new("f"));
        write(&files, &name, &cells, WriterOptions { block_size, ..Default::default() });
        let reader = || Arc::into_inner(open(&files, &name).expect("whole")).expect("one reader");
        let loaded = Arc::new(reader().with_common_sequence(SequenceId(9)));
        scan_rows(&loaded, cells.len()).expect("in order");
        assert_eq!(read_all(&loaded).expect("in order").len(), cells.len());
        // After the even row 40 comes row 11, from which a scan finds row 40 again.
        files.damage(&name, |bytes| {
            let data = open_data(bytes);
            for place in 0..data - 10 {
                if &bytes[place..place + 10] == b"row-000041" {
                    bytes[place + 8] = b'1';
                }
            }
            let mut at = 0;
            while at < data {
                let header = bytes[at..].first_chunk::<HEADER_LENGTH>().expect("a block");
                let header = BlockHeader::parse(header).expect("a header");
                write_checksums(&header, &mut bytes[at..]);
                at += header.disk_length() as usize;
            }
        });
        let loaded = Arc::new(reader().with_common_sequence(SequenceId(9)));
        for outcome in [scan_rows(&loaded, cells.len()), read_all(&loaded).map(drop)] {
            let error = outcome.expect_err("out of order").to_string();
            assert!(error.contains("order of cells") && error.contains("file=f"), "{error}");
        }
    }
}

/// Returns the number of bytes up to the end of the last data block.
fn open_data(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LENGTH>()) {
        match BlockHeader::parse(header) {
            Ok(header) if matches!(header.kind, crate::format::BlockType::Data) => {
                at += header.disk_length() as usize;
            }
            _ => break,
        }
    }
    at
}
