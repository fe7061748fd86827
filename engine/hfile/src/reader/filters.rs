//! Checks the Bloom filters of an open file.

use cache::BlockKind;

use super::Reader;
use crate::Result;
use crate::bloom::{BloomType, Filter, column_key};
use crate::cursor::ReadOptions;
use crate::held::BlockAccess;

impl Reader {
    /// Whether the file may contain cells of `row`, by its Bloom filter; `true` if it has none of rows or prefixes.
    pub fn may_contain_row(&self, row: &[u8], options: ReadOptions) -> Result<bool> {
        self.row_may_be_here(row, options.into())
    }

    pub(crate) fn row_may_be_here(&self, row: &[u8], way: BlockAccess<'_>) -> Result<bool> {
        match &self.bloom {
            Some((kind, filter)) => kind.key_of_row(row).map_or(Ok(true), |key| self.ask(filter, key, way)),
            None => Ok(true),
        }
    }

    /// Whether the file has a Bloom filter that contains rows or row prefixes.
    pub(crate) fn knows_rows(&self) -> bool {
        self.bloom.as_ref().is_some_and(|(kind, _)| *kind != BloomType::RowColumn)
    }

    /// Whether the file may contain cells of rows from `start` to `stop`. Uses a filter of prefixes, if the file has
    /// one and all these rows have the same prefix.
    pub fn may_contain_rows(&self, start: &[u8], stop: &[u8], options: ReadOptions) -> Result<bool> {
        match &self.bloom {
            Some((BloomType::RowPrefix(length), filter)) => {
                let length = usize::from(*length);
                match (start.get(..length), stop.get(..length)) {
                    (Some(prefix), Some(same)) if prefix == same => self.ask(filter, prefix, options.into()),
                    _ => Ok(true),
                }
            }
            _ => Ok(true),
        }
    }

    /// Whether the file may contain cells of the column, other than deletes of the whole family.
    pub fn may_contain_column(&self, row: &[u8], qualifier: &[u8], options: ReadOptions) -> Result<bool> {
        self.column_may_be_here(row, qualifier, options.into())
    }

    pub(crate) fn column_may_be_here(
        &self,
        row: &[u8],
        qualifier: &[u8],
        way: BlockAccess<'_>,
    ) -> Result<bool> {
        match &self.bloom {
            Some((BloomType::RowColumn, filter)) => {
                self.ask(filter, column_key(row, qualifier).key().bytes(), way)
            }
            _ => self.row_may_be_here(row, way),
        }
    }

    /// Whether the file may contain markers that delete a whole family of `row`.
    pub fn may_delete_families_of(&self, row: &[u8], options: ReadOptions) -> Result<bool> {
        self.families_may_be_deleted(row, options.into())
    }

    pub(crate) fn families_may_be_deleted(&self, row: &[u8], way: BlockAccess<'_>) -> Result<bool> {
        if self.deletes_no_family {
            return Ok(false);
        }
        self.delete_bloom.as_ref().map_or(Ok(true), |filter| self.ask(filter, row, way))
    }

    fn ask(&self, filter: &Filter, key: &[u8], way: BlockAccess<'_>) -> Result<bool> {
        let Some((offset, length)) = filter.chunk_of(key) else { return Ok(false) };
        let chunk = self.block(offset, Some(length), BlockKind::Bloom, way)?;
        Ok(filter.may_hold(&chunk.bytes, key))
    }
}
