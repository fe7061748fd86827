//! The cell block of a request, consumed mutation by mutation.
//!
//! Every mutation states its number of cells, and the cells are in the order of the actions. The cells of a refused
//! mutation must be consumed, too; otherwise the next mutation would get them.

use bytes::Bytes;
use cell::CellBlock;
use rpc::Exception;

/// The part of the cell block that no mutation has consumed yet.
#[derive(Clone, Debug)]
pub(crate) struct RequestCells {
    rest: Bytes,
}

impl RequestCells {
    pub(crate) fn new(block: Bytes) -> RequestCells {
        RequestCells { rest: block }
    }

    /// Takes and checks the next `count` cells, without copying them. If a cell is missing or malformed, the position
    /// of the rest is unknown, so every later call for one or more cells fails, too.
    pub(crate) fn take(&mut self, count: usize) -> Result<CellBlock, Exception> {
        let mut end = 0usize;
        for index in 0..count {
            let length = self.rest.get(end..).and_then(|rest| rest.first_chunk::<4>());
            let next = length.map(|length| end + 4 + u32::from_be_bytes(*length) as usize);
            let Some(next) = next.filter(|next| *next <= self.rest.len()) else {
                self.rest.clear();
                return Err(Exception::do_not_retry(format!(
                    "Cell count of {count} but at index {index} no cell returned"
                )));
            };
            end = next;
        }
        CellBlock::parse(self.rest.split_to(end)).map_err(|error| {
            self.rest.clear();
            Exception::do_not_retry(format!("the request's cell block: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use cell::{Cell, CellParts, CellType, SequenceId, Timestamp, block};

    use super::*;

    fn block_of(rows: &[&[u8]]) -> Bytes {
        let mut out = Vec::new();
        for row in rows {
            let (family, qualifier, value, tags) = (&b"f"[..], &b"q"[..], &b"v"[..], &b""[..]);
            let (timestamp, cell_type) = (Timestamp(1), CellType::Put);
            let cell = CellParts { row, family, qualifier, timestamp, cell_type, value, tags }
                .to_vec()
                .expect("a cell");
            block::write_without_tags(&mut out, Cell::parse(&cell, SequenceId::ZERO).expect("a cell"));
        }
        out.into()
    }

    #[test]
    fn cells_are_taken_in_order_and_once() {
        let mut cells = RequestCells::new(block_of(&[b"a", b"b", b"c"]));
        assert_eq!(
            cells.take(2).expect("two").cells().map(|c| c.row().to_vec()).collect::<Vec<_>>(),
            [b"a", b"b"]
        );
        assert_eq!(cells.take(0).expect("none").count(), 0);
        assert_eq!(cells.take(1).expect("one").cells().next().expect("one").row(), b"c");
        let error = cells.take(1).expect_err("none left");
        assert!(error.message.contains("at index 0 no cell") && error.do_not_retry);
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let mut bytes = block_of(&[b"a", b"b"]).to_vec();
        bytes[0] = 0xff;
        let mut cells = RequestCells::new(bytes.into());
        assert!(cells.take(1).is_err() && cells.take(1).is_err());
        assert_eq!(cells.take(0).expect("none").count(), 0);
    }
}
