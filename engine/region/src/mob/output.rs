//! Writes large values to a MOB file while a flush or compaction writes store files.

use cell::{Cell, CellType, Timestamp};
use hfile::{BloomType, ReadOptions, StoreFileInfo, Writer};
use storage::FileName;

use super::values::MobValues;
use crate::mob_format::names::{MOB_CELLS_COUNT, MobFileRefs, new_name};
use crate::mob_format::reference::{
    MobReference, fits, is_reference, length_of_value, reference_tags, write_reference,
};
use crate::open_files::PinnedFile;
use crate::query::MobRead;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StorePlace;
use crate::{Error, Result};

/// The rules by which a flush or compaction writes large values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MobPlan {
    /// Values with more bytes than this are written to a MOB file; `None` for none.
    pub(crate) threshold: Option<u64>,
    /// Whether the values of existing references are read, and written again.
    pub(crate) rewrites: bool,
    /// A new MOB file that has exceeded this size in bytes is ended, and the next value begins another one. Values in
    /// older MOB files of this size stay where they are. `None` for one new file of any size.
    pub(crate) file_bytes_max: Option<u64>,
    /// The newest timestamp of the cells.
    pub(crate) newest: Timestamp,
}

/// The MOB files that one flush or compaction writes. Each is created with its first value.
pub(crate) struct MobOutput<'a> {
    region: &'a Region,
    store: &'a Store,
    plan: MobPlan,
    codec: &'a str,
    info: StoreFileInfo,
    tags: Vec<u8>,
    file: Option<UnfinishedMobFile>,
    finished: Vec<FinishedMobFile>,
    values: MobValues,
    buffer: Vec<u8>,
}

struct UnfinishedMobFile {
    name: String,
    path: FileName,
    pin: PinnedFile,
    writer: Writer,
}

/// A MOB file that is durable. Its pin keeps the janitor from deleting it until a store's list names a file that refers
/// to it.
pub(crate) struct FinishedMobFile {
    path: FileName,
    _pin: PinnedFile,
}

/// Where a cell and its value are written.
enum Placement {
    /// The cell is written to the store file unchanged.
    Same,
    /// The cell is written to the store file, with the value that the reference had replaced.
    Value,
    /// A reference is written to the store file, and the value to the MOB file.
    Mob,
}

impl<'a> MobOutput<'a> {
    pub(crate) fn new(
        region: &'a Region,
        store: &'a Store,
        plan: MobPlan,
        codec: &'a str,
        info: StoreFileInfo,
    ) -> MobOutput<'a> {
        MobOutput {
            region,
            store,
            plan,
            codec,
            info,
            tags: reference_tags(region.info.table().as_str()),
            file: None,
            finished: Vec::new(),
            values: MobValues::new(MobRead::default(), ReadOptions::default()),
            buffer: Vec::new(),
        }
    }

    /// Writes a value to the MOB file if it belongs there. Returns the cell for the store file, and the number of bytes
    /// written to the MOB file. If that cell is a reference, its MOB file is added to `refs`.
    pub(crate) fn place<'c>(&'c mut self, cell: Cell<'c>, refs: &mut MobFileRefs) -> Result<(Cell<'c>, u64)> {
        let is_put = cell.cell_type() == Some(CellType::Put);
        let is_mob = is_reference(cell);
        let threshold = self.plan.threshold;
        let is_large =
            |cell: Cell<'_>| threshold.is_some_and(|threshold| cell.value().len() as u64 > threshold);
        let placement = match (is_put, is_mob) {
            (true, true) if self.plan.rewrites => {
                if self.stays_in_its_file(cell)? {
                    Placement::Same
                } else {
                    let value = self.values.value_of(self.region, self.store, cell)?;
                    if is_large(value) && fits(value, &self.tags) { Placement::Mob } else { Placement::Value }
                }
            }
            (true, false) if is_large(cell) && fits(cell, &self.tags) => Placement::Mob,
            _ => Placement::Same,
        };
        match placement {
            Placement::Same => {
                if is_mob && let Some(reference) = MobReference::parse(cell) {
                    refs.insert(reference.table, reference.file);
                }
                Ok((cell, 0))
            }
            Placement::Value => {
                let value = self.values.value_of(self.region, self.store, cell)?;
                Ok((value.with_sequence(cell.sequence()), 0))
            }
            Placement::Mob => {
                self.begin()?;
                let value = self.values.value_of(self.region, self.store, cell)?;
                let file = self.file.as_mut().expect("it was begun");
                file.writer.append(value.with_sequence(cell.sequence()))?;
                write_reference(&mut self.buffer, value, &file.name, &self.tags);
                refs.insert(self.region.info.table().as_str(), &file.name);
                let bytes = value.bytes().len() as u64;
                let size = file.writer.size();
                if self.plan.file_bytes_max.is_some_and(|max| size > max) {
                    self.end()?;
                }
                Ok((Cell::trusted(&self.buffer, cell.sequence()), bytes))
            }
        }
    }

    /// Whether the value of a reference stays where it is because its MOB file has the maximum size. The value is not
    /// read.
    fn stays_in_its_file(&mut self, cell: Cell<'_>) -> Result<bool> {
        let (Some(threshold), Some(max)) = (self.plan.threshold, self.plan.file_bytes_max) else {
            return Ok(false);
        };
        Ok(length_of_value(cell) > threshold
            && self.values.size_of_file(self.region, self.store, cell)? >= max)
    }

    /// Creates the next MOB file, unless one is open.
    fn begin(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let (region, store) = (self.region, self.store);
        region.check_owner()?;
        let here = StorePlace::of_folder(&store.folder).ok_or_else(|| Error::Corrupt {
            file: store.folder.to_string(),
            what: "folder of a family with IS_MOB",
            expected: "data/<namespace>/<table>/<region>/<family>".to_owned(),
            found: store.folder.to_string(),
        })?;
        let random = [region.world.random(), region.world.random()];
        let name = new_name(&region.info, self.plan.newest, random);
        let path = here.mob_place(region.info.table()).mob_folder().join(&name);
        let pin = region.options.open_files.pin(&path).ok_or_else(|| {
            Error::Broken(format!("the janitor has condemned {path}, the random name of a new MOB file"))
        })?;
        let file = region.files.create(&path)?;
        let mut options = store.writer_options(self.codec, true, region.world.now().0);
        // No Bloom filter: a MOB file is only read for a cell that it has.
        options.bloom = BloomType::None;
        let writer = Writer::create(file, path.clone(), options);
        self.file = Some(UnfinishedMobFile { name, path, pin, writer });
        Ok(())
    }

    /// Ends the open MOB file, if there is one, and makes it durable.
    fn end(&mut self) -> Result<()> {
        let Some(UnfinishedMobFile { path, pin, writer, name: _ }) = self.file.take() else { return Ok(()) };
        let cells = writer.entries().to_be_bytes().to_vec();
        let mut info = self.info.clone();
        info.more = vec![(MOB_CELLS_COUNT, cells.into())];
        if let Err(error) = writer.finish(info) {
            self.delete(&path);
            return Err(error.into());
        }
        self.finished.push(FinishedMobFile { path, _pin: pin });
        Ok(())
    }

    /// Makes all MOB files durable, and returns them.
    pub(crate) fn finish(mut self) -> Result<Vec<FinishedMobFile>> {
        match self.end() {
            Ok(()) => Ok(self.finished),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Deletes all MOB files.
    pub(crate) fn abandon(self) {
        for file in &self.finished {
            self.delete(&file.path);
        }
        if let Some(file) = self.file {
            file.writer.abandon();
        }
    }

    /// Deletes a MOB file that no store file names. If that fails, the janitor deletes it.
    fn delete(&self, path: &FileName) {
        let _left = self.region.files.delete(path);
    }
}
