//! Writes the cells of an answer: into a cell block if the connection has a codec, or else into the message.
//!
//! Small blocks and messages are written into a buffer that the thread keeps. Each reply is cut off the buffer. Once
//! all of these replies were sent, the buffer is reused from its start. So most small replies allocate no memory.

use std::cell::Cell as Slot;

use bytes::{Bytes, BytesMut};
use cell::{Cell, CellSink, block};
use prost::Message;
use proto::pb;
use rpc::{Codec, Reply};

/// Initial size of a thread's buffer, in bytes.
const ROOM: usize = 16 << 10;
/// If the buffer has less free space than this, in bytes, it is reused from its start. If some replies from it were not
/// sent yet, it is replaced.
const ROOM_LEAST: usize = 2 << 10;
/// Size of a cell in bytes above which its reply may have to wait for memory. Smaller cells are not compared with the
/// limit of the budget.
const LARGE_CELL: usize = 1 << 16;
/// Maximum size in bytes of a buffer that the thread keeps.
const ROOM_KEPT_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Slot<BytesMut> = Slot::new(BytesMut::new());
}

/// A buffer for one reply; its unused part returns to the thread.
#[derive(Debug)]
struct Room(BytesMut);

impl Room {
    /// Returns a buffer for `bytes` bytes of cells and a small message.
    fn of_thread(bytes: usize) -> Room {
        let (mut room, least) = (KEPT.take(), bytes + ROOM_LEAST);
        // The buffer is never grown, because that would copy replies that were cut off it and not sent yet.
        if room.capacity() < least && !room.try_reclaim(least) {
            room = BytesMut::with_capacity(least.max(ROOM));
        }
        Room(room)
    }

    /// Cuts the written bytes off the buffer.
    fn cut(&mut self) -> Bytes {
        if self.0.len() > ROOM_KEPT_MAX {
            return std::mem::take(&mut self.0).freeze();
        }
        self.0.split().freeze()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.clear();
        if self.0.capacity() <= ROOM_KEPT_MAX {
            // While the thread ends, its storage is gone. Then the buffer is freed.
            let _ended = KEPT.try_with(|kept| kept.set(std::mem::take(&mut self.0)));
        }
    }
}

/// Receives the cells of a whole reply from the engine. [`Mark`]s divide them into results.
#[derive(Debug)]
pub(crate) struct CellsOut {
    codec: Codec,
    block: Room,
    messages: Vec<pb::Cell>,
    count: usize,
    heap_size: u64,
    /// Maximum size of a cell in bytes; larger cells are refused.
    cell_bytes_max: u64,
    /// Size of the largest refused cell, in bytes.
    refused: u64,
    /// The number of cells of each row that has [ended](CellSink::row_ends) since the last [`CellsOut::begin_step`].
    ended: Vec<u32>,
    /// The total number of cells when the last row of `ended` ended.
    counted: usize,
}

/// A position between two cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    block: usize,
    count: usize,
    heap_size: u64,
}

impl CellsOut {
    pub(crate) fn new(codec: Codec) -> CellsOut {
        CellsOut::with_room(codec, 0)
    }

    /// Like [`CellsOut::new`], with room for `bytes` bytes of cells, so that a large block is not copied when it grows.
    pub(crate) fn with_room(codec: Codec, bytes: usize) -> CellsOut {
        CellsOut {
            codec,
            block: Room::of_thread(if codec == Codec::None { 0 } else { bytes }),
            messages: Vec::new(),
            count: 0,
            heap_size: 0,
            cell_bytes_max: u64::MAX,
            refused: 0,
            ended: Vec::new(),
            counted: 0,
        }
    }

    /// Refuses cells of more than `bytes` bytes: leaves them out, and records it for [`CellsOut::refused`]. Cells of at
    /// most [`LARGE_CELL`] bytes are not refused.
    pub(crate) fn refuse_above(mut self, bytes: u64) -> CellsOut {
        self.cell_bytes_max = bytes;
        self
    }

    /// Returns the size of the largest cell that was refused, in bytes; 0 if none was. If a cell was refused, the reply
    /// is incomplete.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    #[cold]
    fn refuses(&mut self, bytes: u64) -> bool {
        let refuses = bytes > self.cell_bytes_max;
        if refuses {
            self.refused = self.refused.max(bytes);
        }
        refuses
    }

    /// Reserves room for a total of `bytes` bytes of cells.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.is_block() {
            self.block.0.reserve(bytes.saturating_sub(self.block.0.len()));
        }
    }

    /// Returns the size of the cell block in bytes.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block.0.len()
    }

    /// Whether cells are sent in a cell block beside the message.
    pub(crate) fn is_block(&self) -> bool {
        self.codec != Codec::None
    }

    /// Returns the heap size of the cells so far, as HBase counts it for its limits.
    pub(crate) fn heap_size(&self) -> u64 {
        self.heap_size
    }

    /// Returns the position after the last cell.
    pub(crate) fn mark(&self) -> Mark {
        Mark { block: self.block.0.len(), count: self.count, heap_size: self.heap_size }
    }

    /// Like [`CellsOut::mark`], at the beginning of a step that may return several rows.
    pub(crate) fn begin_step(&mut self) -> Mark {
        self.ended.clear();
        self.counted = self.count;
        self.mark()
    }

    /// Returns the number of cells in each row that ended in this step. Empty if the step returned one row through the
    /// matcher.
    pub(crate) fn ended(&self) -> &[u32] {
        &self.ended
    }

    /// Returns the number of cells after `mark`.
    pub(crate) fn since(&self, mark: Mark) -> usize {
        self.count - mark.count
    }

    /// Drops the cells after `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.block.0.truncate(mark.block);
        self.messages.truncate(mark.count);
        (self.count, self.heap_size) = (mark.count, mark.heap_size);
    }

    /// Returns the row of the first cell after `mark`; `None` if there is no such cell.
    pub(crate) fn row_at(&self, mark: Mark) -> Option<&[u8]> {
        if self.is_block() {
            let length = self.block.0.get(mark.block..)?.first_chunk::<4>()?;
            let cell = &self.block.0[mark.block + 4..][..u32::from_be_bytes(*length) as usize];
            return Some(Cell::trusted(cell, cell::SequenceId::ZERO).row());
        }
        self.messages.get(mark.count)?.row.as_deref()
    }

    /// Returns the result with the cells after `mark`. If the cells are in the cell block, the result has only their
    /// number.
    ///
    /// Cells that are not in the block are moved into the result, so results must be made in order.
    pub(crate) fn result(&mut self, mark: Mark) -> pb::Result {
        if self.is_block() {
            let count = i32::try_from(self.since(mark)).unwrap_or(i32::MAX);
            return pb::Result { associated_cell_count: Some(count), ..Default::default() };
        }
        let cell = self.messages.split_off(mark.count);
        self.count = mark.count;
        pb::Result { cell, ..Default::default() }
    }

    /// Returns the cell block; empty if cells are in the message.
    pub(crate) fn into_block(mut self) -> Bytes {
        self.block.cut()
    }

    /// Returns the reply with `message` and the cell block.
    pub(crate) fn reply(mut self, message: &impl Message) -> Reply {
        let cells = self.block.cut();
        message.encode(&mut self.block.0).expect("room grows");
        Reply { message: self.block.cut(), cells, share: None }
    }
}

impl CellSink for CellsOut {
    #[inline]
    fn cell(&mut self, cell: Cell<'_>) {
        self.sized_cell(cell, cell.heap_size());
    }

    #[inline]
    fn sized_cell(&mut self, cell: Cell<'_>, heap_size: usize) {
        let bytes = cell.bytes().len();
        if bytes > LARGE_CELL && self.refuses(bytes as u64) {
            return;
        }
        self.count += 1;
        self.heap_size += heap_size as u64;
        match self.codec {
            Codec::KeyValue => block::write_without_tags(&mut self.block.0, cell),
            Codec::KeyValueWithTags => block::write_with_tags(&mut self.block.0, cell),
            Codec::None => self.messages.push(to_message(cell)),
        }
    }

    fn row_ends(&mut self) {
        self.ended.push(u32::try_from(self.count - self.counted).unwrap_or(u32::MAX));
        self.counted = self.count;
    }
}

/// Returns a cell as a message. All fields share one copy of its bytes. Tags are not sent, as with HBase's
/// `KeyValueCodec`.
pub(crate) fn to_message(cell: Cell<'_>) -> pb::Cell {
    let whole = Bytes::copy_from_slice(cell.bytes_without_tags());
    let part = |part: &[u8]| {
        let at = part.as_ptr() as usize - cell.bytes().as_ptr() as usize;
        whole.slice(at..at + part.len())
    };
    pb::Cell {
        row: Some(part(cell.row())),
        family: Some(part(cell.family())),
        qualifier: Some(part(cell.qualifier())),
        timestamp: Some(cell.timestamp().0 as u64),
        cell_type: Some(i32::from(cell.key().type_code())),
        value: Some(part(cell.value())),
        tags: None,
    }
}

/// Counts cells and drops them, for a read that asks only whether the row exists.
#[derive(Debug, Default)]
pub(crate) struct CellCounter(pub(crate) usize);

impl CellCounter {
    /// Returns the result that says whether there was a cell.
    pub(crate) fn exists(&self) -> pb::Result {
        pb::Result { exists: Some(self.0 > 0), stale: Some(false), ..Default::default() }
    }
}

impl CellSink for CellCounter {
    fn cell(&mut self, _: Cell<'_>) {
        self.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use cell::{CellParts, CellType, SequenceId, Timestamp};

    use super::*;

    fn bytes(row: &[u8], value: &[u8]) -> Vec<u8> {
        CellParts {
            row,
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(7),
            cell_type: CellType::Put,
            value,
            tags: &[0, 2, 8, 1],
        }
        .to_vec()
        .expect("within limits")
    }

    #[test]
    fn ended_rows_are_counted_from_the_begin_of_the_step() {
        let (one, two) = (bytes(b"one", b"1"), bytes(b"two", b"22"));
        let cell = |bytes| Cell::parse(bytes, SequenceId::ZERO).expect("whole");
        let mut out = CellsOut::new(Codec::KeyValue);
        out.cell(cell(&one));
        let start = out.begin_step();
        assert!(out.ended().is_empty());
        out.cell(cell(&one));
        out.row_ends();
        out.cell(cell(&two));
        out.cell(cell(&two));
        out.row_ends();
        assert_eq!((out.ended(), out.since(start)), (&[1, 2][..], 3));
        out.begin_step();
        assert!(out.ended().is_empty());
    }

    #[test]
    fn reserved_buffers_are_reused_and_never_grow() {
        let value = vec![7; 1_000];
        let row = bytes(b"row", &value);
        let cell = Cell::parse(&row, SequenceId::ZERO).expect("whole");
        let reply = |rows: usize, on_its_way: &mut Vec<Reply>| {
            let mut out = CellsOut::with_room(Codec::KeyValue, 30 * row.len());
            let before = out.block.0.as_ptr();
            (0..rows).for_each(|_| out.cell(cell));
            assert_eq!(out.block.0.as_ptr(), before, "what was written was not moved");
            on_its_way.push(out.reply(&pb::ScanResponse::default()));
            before
        };
        let mut on_its_way = Vec::new();
        let first = reply(30, &mut on_its_way);
        assert_ne!(reply(30, &mut on_its_way), first, "it is read there");
        on_its_way.clear();
        let second = reply(1, &mut on_its_way);
        on_its_way.clear();
        assert_eq!(reply(30, &mut on_its_way), second);
        assert!(KEPT.take().capacity() <= ROOM_KEPT_MAX);
    }

    #[test]
    fn results_are_cut_by_marks_in_both_forms() {
        let (one, two) = (bytes(b"one", b"1"), bytes(b"two", b"22"));
        for codec in [Codec::None, Codec::KeyValue, Codec::KeyValueWithTags] {
            let mut out = CellsOut::new(codec);
            let start = out.mark();
            out.cell(Cell::parse(&one, SequenceId::ZERO).expect("whole"));
            let first = out.result(start);
            let mark = out.mark();
            out.cell(Cell::parse(&two, SequenceId::ZERO).expect("whole"));
            assert_eq!(out.row_at(mark), Some(&b"two"[..]), "{codec:?}");
            out.rewind(mark);
            assert_eq!(out.since(mark), 0);
            assert_eq!(out.row_at(mark), None);
            out.cell(Cell::parse(&two, SequenceId::ZERO).expect("whole"));
            let second = out.result(mark);
            if codec == Codec::None {
                assert_eq!(first.cell[0].row.as_deref(), Some(&b"one"[..]));
                assert_eq!(second.cell[0].value.as_deref(), Some(&b"22"[..]));
                assert_eq!((second.cell[0].timestamp, second.cell[0].cell_type), (Some(7), Some(4)));
                assert!(out.into_block().is_empty());
            } else {
                assert_eq!((first.associated_cell_count, second.associated_cell_count), (Some(1), Some(1)));
                let block = cell::CellBlock::parse(out.into_block()).expect("a whole block");
                let tags = block.cells().map(|cell| cell.tags().bytes().len()).max();
                assert_eq!((block.count(), tags), (2, Some(if codec == Codec::KeyValue { 0 } else { 4 })));
            }
        }
    }
}
