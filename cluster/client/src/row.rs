//! Rows and cells that a read returns.

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
use proto::catalog::{self, TableState};
use proto::pb;

use crate::{Error, Result};

/// A cell that owns a reference to its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedCell(Bytes);

impl OwnedCell {
    /// Returns the cell as a borrowed view.
    pub fn view(&self) -> Cell<'_> {
        Cell::trusted(&self.0, SequenceId::ZERO)
    }

    /// Returns the row key.
    pub fn row(&self) -> &[u8] {
        self.view().row()
    }

    /// Returns the family.
    pub fn family(&self) -> &[u8] {
        self.view().family()
    }

    /// Returns the qualifier.
    pub fn qualifier(&self) -> &[u8] {
        self.view().qualifier()
    }

    /// Returns the timestamp, in ms since 1970.
    pub fn timestamp(&self) -> i64 {
        self.view().timestamp().0
    }

    /// Returns the type; `None` for an unknown type code.
    pub fn cell_type(&self) -> Option<CellType> {
        self.view().cell_type()
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8] {
        self.view().value()
    }

    /// Returns the value together with a reference to its memory.
    pub fn value_bytes(&self) -> Bytes {
        self.0.slice_ref(self.value())
    }
}

impl std::fmt::Debug for OwnedCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{}:{}/{}={}",
            self.row().escape_ascii(),
            self.family().escape_ascii(),
            self.qualifier().escape_ascii(),
            self.timestamp(),
            self.value().escape_ascii()
        )
    }
}

/// The cells of one row, sorted by family, qualifier and descending timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub(crate) cells: Vec<OwnedCell>,
    pub(crate) partial: bool,
}

impl Row {
    /// Returns the row key; empty when the row has no cell.
    pub fn key(&self) -> &[u8] {
        self.cells.first().map_or(&[], OwnedCell::row)
    }

    /// Whether the row has no cell: it does not exist, or contains nothing that the read selects.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns all cells.
    pub fn cells(&self) -> &[OwnedCell] {
        &self.cells
    }

    /// Whether this is a part of a row and more of the row follows.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Returns the newest cell of a column.
    pub fn cell(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&OwnedCell> {
        self.versions(family, qualifier).next()
    }

    /// Returns the newest value of a column.
    pub fn value(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.cell(family, qualifier).map(OwnedCell::value)
    }

    /// Returns the newest value of a column as the counter that Increment writes; `None` unless it has eight bytes.
    pub fn number(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<i64> {
        self.value(family, qualifier)?.try_into().ok().map(i64::from_be_bytes)
    }

    /// Returns all versions of a column, newest first.
    pub fn versions(
        &self,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> impl Iterator<Item = &OwnedCell> {
        self.cells
            .iter()
            .filter(move |cell| cell.family() == family.as_ref() && cell.qualifier() == qualifier.as_ref())
    }

    /// Returns the state of the table of which this is the row in hbase:meta; `None` if the row has none.
    pub(crate) fn table_state(&self) -> Result<Option<TableState>> {
        let state = self.value(catalog::TABLE, catalog::STATE);
        state.map(|value| Ok(catalog::decode_table_state(value)?)).transpose()
    }
}

/// The cells of an answer, from which each result takes its own in order.
pub(crate) struct Cells {
    method: &'static str,
    bytes: Bytes,
    at: usize,
}

impl Cells {
    pub(crate) fn new(method: &'static str, bytes: Bytes) -> Result<Cells> {
        let block = CellBlock::parse(bytes).map_err(|error| unreadable(method, error.to_string()))?;
        Ok(Cells { method, bytes: block.bytes().clone(), at: 0 })
    }

    /// Takes the next `count` cells.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<OwnedCell>> {
        let mut cells = Vec::with_capacity(count.min(self.bytes.len() - self.at));
        for _ in 0..count {
            let Some(length) = self.bytes[self.at..].first_chunk::<4>() else {
                return Err(unreadable(
                    self.method,
                    format!("{count} cells are promised and fewer are there"),
                ));
            };
            let from = self.at + 4;
            self.at = from + u32::from_be_bytes(*length) as usize;
            // The cell need not be checked, because the whole block was validated when it was parsed.
            cells.push(OwnedCell(self.bytes.slice(from..self.at)));
        }
        Ok(cells)
    }

    /// Builds the row of a result, whose cells are in the message or in the cell block.
    pub(crate) fn row(&mut self, result: &pb::Result) -> Result<Row> {
        let mut cells = Vec::new();
        for cell in &result.cell {
            cells.push(from_message(self.method, cell)?);
        }
        cells.extend(self.take(result.associated_cell_count() as usize)?);
        Ok(Row { cells, partial: result.partial() })
    }
}

pub(crate) fn unreadable(method: &'static str, reason: impl Into<String>) -> Error {
    Error::Unreadable { method, reason: reason.into() }
}

fn from_message(method: &'static str, cell: &pb::Cell) -> Result<OwnedCell> {
    let kind = cell.cell_type() as i32;
    let cell_type = u8::try_from(kind)
        .ok()
        .and_then(CellType::from_code)
        .ok_or_else(|| unreadable(method, format!("cell type {kind}")))?;
    let parts = CellParts {
        row: cell.row(),
        family: cell.family(),
        qualifier: cell.qualifier(),
        timestamp: Timestamp(cell.timestamp() as i64),
        cell_type,
        value: cell.value(),
        tags: cell.tags(),
    };
    parts.to_vec().map(|bytes| OwnedCell(bytes.into())).map_err(|error| unreadable(method, error.to_string()))
}
