//! A cursor over those rows of a file that belong to a store.
//!
//! Both read paths, the merge of cells and the copying of raw rows, read a half like a whole file. When the cursor
//! reaches a row of the other half, it behaves as at the end of a file. For a whole file this costs one pointer test.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellSink, KeyBuf, Position};
use hfile::{CopyLimits, ReadOptions, Refused};

use super::{Half, Reference};

/// A cursor over those rows of a file that belong to a store.
pub(crate) struct FileCursor {
    cursor: hfile::Cursor,
    /// Which rows belong to the store; `None` for the whole file.
    half: Option<Arc<Reference>>,
}

/// Gives access to the methods that do not move the cursor: they are the same for a half.
impl std::ops::Deref for FileCursor {
    type Target = hfile::Cursor;

    #[inline]
    fn deref(&self) -> &hfile::Cursor {
        &self.cursor
    }
}

impl FileCursor {
    pub(crate) fn new(cursor: hfile::Cursor, half: Option<Arc<Reference>>) -> FileCursor {
        FileCursor { cursor, half }
    }

    pub(crate) fn set_options(&mut self, options: ReadOptions) {
        self.cursor.set_options(options);
    }

    pub(crate) fn hold_blocks(&mut self) {
        self.cursor.hold_blocks();
    }

    pub(crate) fn watch_cache(&mut self) {
        self.cursor.watch_cache();
    }

    pub(crate) fn leave(&mut self) {
        self.cursor.leave();
    }

    /// Whether the row is in the half; always true for a whole file.
    #[inline]
    pub(crate) fn has_row(&self, row: &[u8]) -> bool {
        self.half.as_ref().is_none_or(|half| half.has(row, self.cursor.reader().comparator()))
    }

    /// Moves the cursor to the end if it is on a row of the other half.
    #[inline]
    fn clip(&mut self) {
        if self.half.is_some() {
            self.clip_half();
        }
    }

    #[cold]
    fn clip_half(&mut self) {
        if self.cursor.peek().is_some_and(|cell| !self.has_row(cell.row())) {
            self.cursor.leave();
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self) -> hfile::Result<()> {
        self.cursor.advance()?;
        self.clip();
        Ok(())
    }

    /// See [`hfile::Cursor::seek`].
    pub(crate) fn seek(&mut self, position: Position<'_>) -> hfile::Result<()> {
        match self.half.clone() {
            Some(half) if half.half == Half::Top && !self.has_row(position.key.row()) => {
                self.cursor.seek(KeyBuf::first_on_row(&half.split_row).position())?;
            }
            _ => self.cursor.seek(position)?,
        }
        self.clip();
        Ok(())
    }

    /// See [`hfile::Cursor::seek_far`].
    pub(crate) fn seek_far(&mut self, position: Position<'_>) -> hfile::Result<()> {
        if self.half.is_some() {
            return self.seek(position);
        }
        self.cursor.seek_far(position)
    }

    /// See [`hfile::Cursor::seek_row`].
    pub(crate) fn seek_row(&mut self, position: Position<'_>) -> hfile::Result<()> {
        if !self.has_row(position.key.row()) {
            self.cursor.leave();
            return Ok(());
        }
        self.cursor.seek_row(position)?;
        self.clip();
        Ok(())
    }

    /// See [`hfile::Cursor::seek_row_before`].
    pub(crate) fn seek_row_before(&mut self, row: Option<&[u8]>) -> hfile::Result<bool> {
        let Some(half) = self.half.clone() else { return self.cursor.seek_row_before(row) };
        let row = match (row, half.half) {
            (Some(row), Half::Bottom) if self.has_row(row) => Some(row),
            (_, Half::Bottom) => Some(&half.split_row[..]),
            (row, Half::Top) => row,
        };
        self.cursor.seek_row_before(row)?;
        self.clip();
        Ok(self.cursor.peek().is_some())
    }

    /// Returns the row before which a run of rows ends: the caller's `end` or the end of the half, whichever is first;
    /// `None` if there is neither.
    fn end_of_run<'a>(&self, end: Option<&'a [u8]>, half: Option<&'a Reference>) -> Option<&'a [u8]> {
        let half = half.filter(|half| half.half == Half::Bottom).map(|half| &half.split_row[..]);
        match (end, half) {
            (Some(end), Some(half)) if self.cursor.reader().comparator().compare_rows(end, half).is_lt() => {
                Some(end)
            }
            (end, half) => half.or(end),
        }
    }

    /// See [`hfile::Cursor::skip_rows`].
    pub(crate) fn skip_rows(&mut self, end: Option<&[u8]>, refuses: impl Fn(Cell<'_>) -> Refused) -> u64 {
        let half = self.half.clone();
        let end = self.end_of_run(end, half.as_deref());
        let rows = self.cursor.skip_rows(end, refuses);
        self.clip();
        rows
    }

    /// See [`hfile::Cursor::copy_rows`].
    pub(crate) fn copy_rows(
        &mut self,
        end: Option<&[u8]>,
        limits: CopyLimits,
        wanted: Option<&[Bytes]>,
        sink: &mut dyn CellSink,
    ) -> usize {
        let half = self.half.clone();
        let end = self.end_of_run(end, half.as_deref());
        let rows = self.cursor.copy_rows(end, limits, wanted, sink);
        self.clip();
        rows
    }
}
