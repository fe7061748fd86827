//! Fuzz targets that read bytes from disks.

use std::sync::{Arc, OnceLock};

use cache::{Cache, Caching};
use cell::{CellBlock, KeyBuf};
use hfile::{ReadOptions, Reader};
use storage::{FileName, Files, Memory};
use wal::{Log, Options};

use crate::seal;

/// Maximum number of cells that are read of a file: a changed index may have a cycle.
const CELLS_MAX: usize = 20_000;

fn file_of(name: &FileName, bytes: &[u8]) -> Memory {
    let files = Memory::new();
    let mut writer = files.create(name).expect("new");
    writer.write(bytes).expect("written");
    writer.finish().expect("written");
    files
}

/// Reads an HFile from its first cell on, seeks to some rows, and asks its Bloom filters for them.
pub(crate) fn hfile(bytes: &[u8]) {
    static CACHE: OnceLock<Arc<Cache>> = OnceLock::new();
    let cache = CACHE.get_or_init(|| Arc::new(Cache::with_bytes(1 << 20)));
    let name = FileName::new("file");
    let files = file_of(&name, bytes);
    let file = files.open(&name).expect("it was written");
    let caching = Caching { evict_on_close: true, ..Caching::default() };
    let Ok(reader) = Reader::open(file, name, Arc::clone(cache), caching) else { return };
    let reader = Arc::new(reader);
    let options = ReadOptions { cache_blocks: false, ..ReadOptions::default() };
    let mut cursor = reader.cursor(options);
    let mut rows: Vec<Vec<u8>> = vec![Vec::new(), b"row".to_vec(), vec![0xff; 40]];
    if cursor.seek_first().is_ok() {
        for number in 0..CELLS_MAX {
            let Some(cell) = cursor.peek() else { break };
            let length = cell.row().len() + cell.value().len() + cell.qualifier().len();
            assert!(length <= 64 << 20, "a cell of {length} bytes");
            if number % 500 == 0 {
                rows.push(cell.row().to_vec());
            }
            if cursor.advance().is_err() {
                break;
            }
        }
    }
    for row in &rows {
        // Each may report that the file is damaged.
        let _damaged = reader.may_contain_row(row, options);
        let _damaged = reader.may_contain_column(row, b"q", options);
        let _damaged = reader.may_delete_families_of(row, options);
        let _damaged = cursor.seek(KeyBuf::first_on_row(row).position()).map(|()| cursor.peek().is_some());
        let _damaged = cursor.seek_row_before(Some(row));
    }
}

/// Reads an HFile after correcting its checksums, so that the reader's other checks are reached.
pub(crate) fn hfile_block(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    seal::hfile(&mut bytes);
    hfile(&bytes);
}

/// Reads a valid file whose last bytes are replaced by `bytes`.
pub(crate) fn hfile_trailer(bytes: &[u8]) {
    let good = include_bytes!("../../golden/hfiles/gz-rowindex.hfile");
    let kept = good.len().saturating_sub(bytes.len());
    hfile(&[&good[..kept], bytes].concat());
}

/// Reads a log file, as a process that ended at any moment may have left it.
pub(crate) fn wal_file(bytes: &[u8]) {
    let folder = FileName::new("WALs");
    let files = file_of(&folder.join("00000000000000000001.wal"), bytes);
    let Ok((log, recovered)) = Log::open(env::World::real(), Arc::new(files), folder, Options::default())
    else {
        return;
    };
    for region in recovered.regions() {
        let replayed = recovered.replay::<wal::Error>(&region, |record| {
            // The region refuses edits that are not cells.
            let _cells = CellBlock::parse(bytes::Bytes::copy_from_slice(record.cells));
            Ok(())
        });
        // A good index may lead to damaged batches, which must be refused.
        if let Err(error) = replayed {
            assert!(matches!(error, wal::Error::Corrupt { .. }), "{error}");
        }
        recovered.taken(&region);
    }
    log.close().expect("the place is good");
}

/// Reads records, or other bytes, in a batch with a correct checksum.
pub(crate) fn wal_records(bytes: &[u8]) {
    if !bytes.is_empty() {
        wal_file(&seal::wal(bytes));
    }
}

/// Reads a log file of HBase, plain or compressed.
pub(crate) fn hbase_log(bytes: &[u8]) {
    let name = FileName::new("file");
    let files = file_of(&name, bytes);
    let Ok(mut reader) = hbaselog::Reader::open(files.open(&name).expect("it was written"), name) else {
        return;
    };
    let mut size = 0;
    // An entry takes at least one byte of the file, but may repeat a word of the dictionary.
    while let Ok(Some(entry)) = reader.next_entry() {
        size += entry.cells.cells().map(|cell| cell.row().len() + cell.value().len()).sum::<usize>();
        if size > 64 << 20 {
            return;
        }
    }
    assert!(reader.torn() <= bytes.len() as u64, "{} bytes are torn of {}", reader.torn(), bytes.len());
}
