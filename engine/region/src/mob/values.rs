//! Reads values from MOB files, for readers and for compactions that write them again.

use std::sync::Arc;

use cell::{Cell, Position, SequenceId};
use hfile::{Cursor, ReadOptions, Reader};
use storage::{FileName, Kind};

use crate::mob_format::reference::{MobReference, is_reference, length_of_value, write_without_value};
use crate::query::MobRead;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StorePlace;
use crate::{Error, Result};

/// A reader of one store's values in MOB files. It keeps the file that it read last.
pub(crate) struct MobValues {
    options: ReadOptions,
    empty_if_missing: bool,
    value_bytes_max: u64,
    open: Option<OpenMobFile>,
    /// Buffer for the key of the wanted cell, without a value.
    buffer: Vec<u8>,
}

struct OpenMobFile {
    table: String,
    file: String,
    cursor: Cursor,
}

impl MobValues {
    pub(crate) fn new(read: MobRead, options: ReadOptions) -> MobValues {
        let options = ReadOptions { cache_blocks: read.cache_blocks, ..options };
        let value_bytes_max = read.value_bytes_max.unwrap_or(u64::MAX);
        let empty_if_missing = read.empty_if_missing;
        MobValues { options, empty_if_missing, value_bytes_max, open: None, buffer: Vec::new() }
    }

    /// Sets whether the next reads may block.
    pub(crate) fn set_memory_only(&mut self, memory_only: bool) {
        self.options.memory_only = memory_only;
    }

    /// Returns the cell with the value that a reference replaces; returns any other cell unchanged.
    ///
    /// Fails with [`Error::MobValue`] in memory-only mode and for a longer value than is allowed, and with
    /// [`Error::NoMobValue`] if the value is not there. A reference that names no file has an empty value, as in HBase.
    pub(crate) fn value_of<'a>(
        &'a mut self,
        region: &Region,
        store: &Store,
        cell: Cell<'a>,
    ) -> Result<Cell<'a>> {
        if !is_reference(cell) {
            return Ok(cell);
        }
        let bytes = length_of_value(cell);
        if self.options.memory_only || bytes > self.value_bytes_max {
            return Err(Error::MobValue { bytes });
        }
        let Some(reference) = MobReference::parse(cell) else { return Ok(self.without_value(cell)) };
        match self.find(region, store, cell, reference) {
            Ok(()) => {
                let open = self.open.as_ref().expect("it was found there");
                Ok(open.cursor.peek().expect("the cursor stands on it"))
            }
            Err(Error::NoMobValue { .. }) if self.empty_if_missing => Ok(self.without_value(cell)),
            Err(error) => Err(error),
        }
    }

    /// Returns the size in bytes of the MOB file that a reference names, without reading the value. 0 for a reference
    /// that names no file.
    pub(crate) fn size_of_file(&mut self, region: &Region, store: &Store, cell: Cell<'_>) -> Result<u64> {
        let Some(reference) = MobReference::parse(cell) else { return Ok(0) };
        Ok(self.cursor_of(region, store, cell, reference)?.reader().size())
    }

    fn without_value(&mut self, cell: Cell<'_>) -> Cell<'_> {
        write_without_value(&mut self.buffer, cell);
        Cell::trusted(&self.buffer, cell.sequence())
    }

    /// Returns the cursor over the reference's MOB file, which stays open for the next reference.
    fn cursor_of(
        &mut self,
        region: &Region,
        store: &Store,
        cell: Cell<'_>,
        reference: MobReference<'_>,
    ) -> Result<&mut Cursor> {
        let MobReference { table, file } = reference;
        let is_open = self.open.as_ref().is_some_and(|open| open.file == file && open.table == table);
        if !is_open {
            let reader = open(region, store, cell, reference)?;
            let cursor = reader.cursor(self.options);
            self.open = Some(OpenMobFile { table: table.to_owned(), file: file.to_owned(), cursor });
        }
        Ok(&mut self.open.as_mut().expect("it is open").cursor)
    }

    /// Moves the cursor of the reference's MOB file to the cell with the value.
    fn find(
        &mut self,
        region: &Region,
        store: &Store,
        cell: Cell<'_>,
        reference: MobReference<'_>,
    ) -> Result<()> {
        let options = self.options;
        let cursor = self.cursor_of(region, store, cell, reference)?;
        cursor.set_options(options);
        let comparator = cursor.reader().comparator();
        let is_same = |found: Cell<'_>| comparator.compare_keys(found.key(), cell.key()).is_eq();
        // There may be several writes of one key, the newest first. First search the one with the reference's sequence
        // id. None has it if the reference was bulk-loaded, which gave it another id; then the newest write is taken, as
        // in HBase.
        let newest = Position { key: cell.key(), sequence: SequenceId::MAX };
        cursor.seek(newest)?;
        while let Some(found) = cursor.peek().filter(|found| is_same(*found)) {
            if found.sequence() == cell.sequence() {
                return Ok(());
            }
            cursor.advance()?;
        }
        cursor.seek(newest)?;
        match cursor.peek() {
            Some(found) if is_same(found) => Ok(()),
            _ => Err(missing(cell, cursor.reader().name())),
        }
    }
}

/// Opens the MOB file of a reference, in the folder of MOB files or the archive.
fn open(region: &Region, store: &Store, cell: Cell<'_>, reference: MobReference<'_>) -> Result<Arc<Reader>> {
    let nowhere = || missing(cell, &store.folder.join(reference.file));
    let here = StorePlace::of_folder(&store.folder).ok_or_else(nowhere)?;
    let table = reference.table.parse().map_err(|_| nowhere())?;
    let places = here.mob_places_of(&table, reference.file);
    for place in &places {
        if let Some(reader) = region.options.open_files.kept(place) {
            return Ok(reader);
        }
    }
    for place in &places {
        let _pin = region.options.open_files.pin_to_open(place);
        let file = match region.files.open(place) {
            Ok(file) => file,
            Err(error) if error.kind() == Kind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let caching = Store::caching(&region.info, &store.options());
        let reader = Arc::new(Reader::open(file, place.clone(), Arc::clone(&region.cache), caching)?);
        region.options.open_files.opened(&reader);
        region.options.open_files.keep(&reader);
        return Ok(reader);
    }
    Err(missing(cell, &places[0]))
}

fn missing(cell: Cell<'_>, file: &FileName) -> Error {
    Error::NoMobValue { cell: format!("{:?}", cell.key()), file: file.to_string() }
}
