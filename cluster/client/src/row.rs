//! What a read gives back.

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
use proto::pb;

use crate::{Error, Result};

/// A cell that holds on to its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedCell(Bytes);

impl OwnedCell {
    /// The cell as a view.
    pub fn view(&self) -> Cell<'_> {
        Cell::trusted(&self.0, SequenceId::ZERO)
    }

    /// The row.
    pub fn row(&self) -> &[u8] {
        self.view().row()
    }

    /// The family.
    pub fn family(&self) -> &[u8] {
        self.view().family()
    }

    /// The qualifier.
    pub fn qualifier(&self) -> &[u8] {
        self.view().qualifier()
    }

    /// The timestamp, in ms since 1970.
    pub fn timestamp(&self) -> i64 {
        self.view().timestamp().0
    }

    /// The type; `None` for one that is not known.
    pub fn cell_type(&self) -> Option<CellType> {
        self.view().cell_type()
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        self.view().value()
    }

    /// The value, with a hold on the memory it lies in.
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

/// The cells of one row, in order: by family, qualifier and then the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub(crate) cells: Vec<OwnedCell>,
    pub(crate) partial: bool,
}

impl Row {
    /// The row's key; empty when there is no cell.
    pub fn key(&self) -> &[u8] {
        self.cells.first().map_or(&[], OwnedCell::row)
    }

    /// Whether there is no cell: no such row, or nothing in it that was asked for.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// All cells.
    pub fn cells(&self) -> &[OwnedCell] {
        &self.cells
    }

    /// Whether this is a piece of a row of which more comes.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// The newest cell of a column.
    pub fn cell(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&OwnedCell> {
        self.versions(family, qualifier).next()
    }

    /// The newest value of a column.
    pub fn value(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.cell(family, qualifier).map(OwnedCell::value)
    }

    /// The newest value of a column as the number that Increment keeps there; `None` when it is not eight bytes.
    pub fn number(&self, family: impl AsRef<[u8]>, qualifier: impl AsRef<[u8]>) -> Option<i64> {
        self.value(family, qualifier)?.try_into().ok().map(i64::from_be_bytes)
    }

    /// All versions of a column, the newest first.
    pub fn versions(
        &self,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> impl Iterator<Item = &OwnedCell> {
        self.cells
            .iter()
            .filter(move |cell| cell.family() == family.as_ref() && cell.qualifier() == qualifier.as_ref())
    }
}

/// The cells of an answer, handed out result by result.
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

    /// The next `count` cells.
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
            // Checked as a whole when the block was parsed.
            cells.push(OwnedCell(self.bytes.slice(from..self.at)));
        }
        Ok(cells)
    }

    /// The row of a result, whose cells are in the message or here.
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
