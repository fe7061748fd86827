//! A file of a store: its own, a link to another store's, or half of a parent region's.
//!
//! The file's [name](name) says of which kind it is, and where its bytes are. All kinds are read by a
//! [cursor](FileCursor) that returns only the store's rows.

mod cursor;
mod listed;
pub(crate) mod name;
pub(crate) mod reference;

use std::sync::Arc;

use bytes::Bytes;
use cache::{Cache, Caching};
use cell::{Comparator, SequenceId, Timestamp};
use hfile::{ReadOptions, Reader, TimeSpan};
use storage::{FileName, FileReader, Files, Kind};

pub(crate) use cursor::FileCursor;
pub(crate) use listed::Listed;
pub(crate) use name::{StoreFileName, StorePlace};
pub use reference::{Half, Reference};

use crate::compaction_policy::FileFacts;
use crate::dropped_markers::{self, DroppedMarkers};
use crate::mob_format::names::MOB_FILE_REFS;
use crate::open_files::{OpenFiles, PinnedFile};
use crate::stripes::{self, StripeRange};
use crate::{Error, Result};

/// A file of a store.
#[derive(Debug)]
pub(crate) struct StoreFile {
    pub(crate) listed: Listed,
    pub(crate) name: StoreFileName,
    pub(crate) reader: Arc<Reader>,
    /// Markers that memory had dropped before the file was written.
    pub(crate) dropped_markers: DroppedMarkers,
    /// The newest timestamp of a dropped marker; `None` if there is none.
    newest_dropped: Option<Timestamp>,
    /// The sequence id of the file's cells if it was bulk-loaded, zero if the load assigned none; `None` for all other
    /// files.
    loaded_as: Option<SequenceId>,
    /// Readers with a smaller read point do not see the file. Zero unless this process has bulk-loaded the file: then the
    /// sequence id of the load, also if the cells have none, because the files of other families are listed later.
    pub(crate) visible_from: SequenceId,
    half: Option<Arc<Reference>>,
    /// The stripe that the file names as its own.
    pub(crate) stripe: Option<StripeRange>,
    /// Whether the file may have references to MOB files.
    pub(crate) has_mob_references: bool,
}

/// The parts of a region that opening a store file needs.
pub(crate) struct FileOpener<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) cache: &'a Arc<Cache>,
    pub(crate) caching: &'a Caching,
    pub(crate) open_files: &'a Arc<OpenFiles>,
}

impl FileOpener<'_> {
    /// Returns the reader of a file, whose last bytes are `end` if they are known.
    fn reader(&self, place: FileName, file: Arc<dyn FileReader>, end: Option<Bytes>) -> Result<Reader> {
        let (cache, caching) = (Arc::clone(self.cache), self.caching.clone());
        Ok(match end {
            Some(end) => Reader::open_written(file, end, place, cache, caching)?,
            None => Reader::open(file, place, cache, caching)?,
        })
    }
}

impl StoreFile {
    /// Opens the file `listed` of the store in `folder`.
    pub(crate) fn open(opener: &FileOpener<'_>, folder: &FileName, listed: Listed) -> Result<StoreFile> {
        StoreFile::open_with(opener, folder, listed, None)
    }

    /// Opens the file `listed`, which was just written. Its last bytes are `end`, so they are not read from storage.
    pub(crate) fn open_written(
        opener: &FileOpener<'_>,
        folder: &FileName,
        listed: Listed,
        end: Bytes,
    ) -> Result<StoreFile> {
        StoreFile::open_with(opener, folder, listed, Some(end))
    }

    fn open_with(
        opener: &FileOpener<'_>,
        folder: &FileName,
        listed: Listed,
        end: Option<Bytes>,
    ) -> Result<StoreFile> {
        let corrupt = |what, expected: &str, found: String| Error::Corrupt {
            file: folder.to_string(),
            what,
            expected: expected.to_owned(),
            found,
        };
        let name = StoreFileName::parse(&listed.name).map_err(|error| {
            corrupt("name in the file list", "the name of a store file", error.to_string())
        })?;
        if name.is_own() {
            let place = folder.join(&listed.name);
            let file = opener.files.open(&place)?;
            if file.size() != listed.size {
                return Err(Error::Corrupt {
                    file: place.to_string(),
                    what: "size",
                    expected: listed.size.to_string(),
                    found: file.size().to_string(),
                });
            }
            let reader = opener.reader(place, file, end)?;
            return Ok(StoreFile::over(opener, reader, listed, name, None));
        }
        let here = StorePlace::of_folder(folder).ok_or_else(|| {
            corrupt(
                "folder of a link or reference",
                "data/<namespace>/<table>/<region>/<family>",
                folder.to_string(),
            )
        })?;
        let half = match (&name.parent, &listed.reference) {
            (None, _) => None,
            (Some(_), Some(reference)) => Some(reference.clone()),
            (Some(_), None) => Some(StoreFile::read_reference(opener.files, &folder.join(&listed.name))?),
        };
        let (place, file, _pin) = StoreFile::find(opener, &name.origin(&here).places_of(&name.file))?;
        let reader = opener.reader(place, file, None)?;
        Ok(StoreFile::over(opener, reader, listed, name, half.map(Arc::new)))
    }

    fn over(
        opener: &FileOpener<'_>,
        mut reader: Reader,
        listed: Listed,
        name: StoreFileName,
        half: Option<Arc<Reference>>,
    ) -> StoreFile {
        // The cells of a bulk-loaded file have the sequence id of the load; zero if the load assigned none.
        let loaded = name.loaded_as().or_else(|| reader.is_for_bulk_load().then_some(SequenceId::ZERO));
        if let Some(sequence) = loaded {
            reader = reader.with_common_sequence(sequence);
        }
        let dropped_markers = DroppedMarkers::of_fact(reader.info().get(dropped_markers::FACT.as_bytes()));
        let of_stripe = |key: &str| reader.info().get(key.as_bytes()).cloned();
        let stripe = of_stripe(stripes::START_KEY)
            .zip(of_stripe(stripes::END_KEY))
            .map(|(start, end)| StripeRange { start, end });
        let has_mob_references =
            reader.info().get(MOB_FILE_REFS.as_bytes()).is_some_and(|refs| refs.len() > 1);
        let reader = Arc::new(reader);
        opener.open_files.opened(&reader);
        StoreFile {
            listed,
            name,
            reader,
            newest_dropped: dropped_markers.newest(),
            dropped_markers,
            loaded_as: loaded,
            visible_from: SequenceId::ZERO,
            half,
            stripe,
            has_mob_references,
        }
    }

    /// Opens the first of these files that exists. The janitor deletes no file while the returned pin exists.
    fn find(
        opener: &FileOpener<'_>,
        places: &[FileName],
    ) -> Result<(FileName, Arc<dyn FileReader>, PinnedFile)> {
        let mut missing = None;
        for place in places {
            let pin = opener.open_files.pin_to_open(place);
            match opener.files.open(place) {
                Ok(file) => return Ok((place.clone(), file, pin)),
                // If no place has the file, the error names the first place, where an operator would look.
                Err(error) if error.kind() == Kind::NotFound => _ = missing.get_or_insert(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(missing.expect("every store file has a place").into())
    }

    fn read_reference(files: &dyn Files, place: &FileName) -> Result<Reference> {
        let corrupt = |found: String| Error::Corrupt {
            file: place.to_string(),
            what: "reference",
            expected: "PBUF and a reference".to_owned(),
            found,
        };
        let bytes = match files.read(place, reference::SIZE_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == Kind::TooLarge => return Err(corrupt(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        Reference::of_file(&bytes).map_err(corrupt)
    }

    /// Returns the greater of two sequence ids: the newest one of a cell in the file, and the one up to which the
    /// file records the store's writes as flushed.
    pub(crate) fn newest_sequence(&self) -> SequenceId {
        self.max_sequence().max(self.reader.newest_sequence().unwrap_or_default())
    }

    /// Returns the sequence id up to which this file and the older ones have all writes; it orders the files of a
    /// store.
    pub(crate) fn max_sequence(&self) -> SequenceId {
        self.loaded_as.or_else(|| self.reader.max_sequence()).unwrap_or(SequenceId::ZERO)
    }

    /// Creates a cursor over those rows of the file that belong to the store. The cursor has no position yet.
    pub(crate) fn cursor(&self, options: ReadOptions) -> FileCursor {
        FileCursor::new(self.reader.cursor(options), self.half.clone())
    }

    /// Whether the store has only half of the file.
    pub(crate) fn is_half(&self) -> bool {
        self.half.is_some()
    }

    /// Returns the number of cells; for a half, half of the file's number.
    pub(crate) fn entries(&self) -> u64 {
        self.reader.entries() / if self.is_half() { 2 } else { 1 }
    }

    /// Returns the size in bytes; for a half, half of the file's size.
    pub(crate) fn size(&self) -> u64 {
        if self.is_half() { self.reader.size() / 2 } else { self.reader.size() }
    }

    /// Returns the facts about the file that a compaction policy needs.
    pub(crate) fn facts(&self) -> FileFacts {
        FileFacts {
            size: self.size(),
            entries: self.entries(),
            written_at: self.reader.created(),
            span: self.span(),
            is_reference: self.is_half(),
            is_major: self.reader.is_major(),
            is_bulk_loaded: self.loaded_as.is_some(),
        }
    }

    /// Returns the oldest and the newest timestamp in the file. Dropped markers count as if the file had them: until they
    /// expire, the file is needed.
    fn span(&self) -> Option<TimeSpan> {
        let span = self.reader.span()?;
        let newest = self.newest_dropped.map_or(span.newest, |dropped| span.newest.max(dropped));
        Some(TimeSpan { newest, ..span })
    }

    /// Whether the file may have rows from `start` to `stop`; both are inclusive, and empty means unbounded.
    pub(crate) fn may_have_rows(&self, start: &[u8], stop: &[u8], comparator: Comparator) -> bool {
        let is_behind = |row: &[u8], other: &[u8]| comparator.compare_rows(row, other).is_gt();
        (start.is_empty() || self.reader.last_key().is_none_or(|last| !is_behind(start, last.row())))
            && (stop.is_empty() || self.reader.first_key().is_none_or(|first| !is_behind(first.row(), stop)))
            && self.half.as_ref().is_none_or(|half| half.may_have(start, stop, comparator))
    }

    /// Whether the file may have rows of a stripe.
    pub(crate) fn may_have_rows_of(&self, range: &StripeRange) -> bool {
        match (self.reader.first_key(), self.reader.last_key()) {
            (Some(first), Some(last)) => range.overlaps(first.row(), last.row()),
            _ => false,
        }
    }

    /// Tells the cache that the store no longer uses the file. Blocks of a link's or reference's target stay, since
    /// others may use them. A clone on the same server may also use a file of this store.
    pub(crate) fn forget_blocks(&self) {
        if self.name.is_own() {
            self.reader.cached().remove_unless_shared();
        }
    }
}
