//! The bytes that wait to be sent on a socket. Small parts are copied together, and large parts are sent without a
//! copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use proto::wire::{put_varint, varint_length};

use crate::envelope::{NO_CALL, RequestHeader, encode_response_header};
use crate::{Exception, Reply};

/// Minimum size of a part that is not copied, in bytes.
const APART_MIN: usize = 16 << 10;

/// Bytes that wait to be sent, in order.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    length: usize,
    header: Vec<u8>,
}

impl Output {
    /// Returns the number of unsent bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether all bytes have been sent.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a copy of `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends `bytes`, without a copy if they are large.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < APART_MIN {
            return self.put(&bytes);
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.length += bytes.len();
        self.pieces.push_back(bytes);
    }

    /// Appends the frame of a successful answer; `cells` are already encoded and compressed.
    ///
    /// The length of a frame is a signed number of four bytes. For a larger answer nothing is appended, and the
    /// exception that should be sent instead is returned.
    pub fn put_reply(&mut self, call_id: u32, reply: Reply) -> Result<(), Exception> {
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        let cells = u32::try_from(reply.cells.len()).unwrap_or(u32::MAX);
        encode_response_header(call_id, None, (cells > 0).then_some(cells), &mut header);
        let total = varint_length(header.len() as u64)
            + header.len()
            + varint_length(reply.message.len() as u64)
            + reply.message.len()
            + reply.cells.len();
        if i32::try_from(total).is_err() {
            self.header = header;
            return Err(Exception::do_not_retry(format!(
                "the answer has {total} bytes, more than a frame holds"
            )));
        }
        let before = self.tail.len();
        self.tail.extend_from_slice(&(total as u32).to_be_bytes());
        put_varint(&mut self.tail, header.len() as u64);
        self.tail.extend_from_slice(&header);
        put_varint(&mut self.tail, reply.message.len() as u64);
        self.length += self.tail.len() - before;
        self.put_shared(reply.message);
        self.put_shared(reply.cells);
        self.header = header;
        Ok(())
    }

    /// Appends the frame of a request; `cells` are already encoded and compressed, and have the length that the header
    /// states.
    pub(crate) fn put_request(&mut self, header: &RequestHeader, param: &Bytes, cells: Bytes) {
        let mut encoded = std::mem::take(&mut self.header);
        encoded.clear();
        header.encode(&mut encoded);
        let total = varint_length(encoded.len() as u64)
            + encoded.len()
            + varint_length(param.len() as u64)
            + param.len()
            + cells.len();
        let total = u32::try_from(total).expect("the caller bounds the request");
        let before = self.tail.len();
        self.tail.extend_from_slice(&total.to_be_bytes());
        put_varint(&mut self.tail, encoded.len() as u64);
        self.tail.extend_from_slice(&encoded);
        put_varint(&mut self.tail, param.len() as u64);
        self.length += self.tail.len() - before;
        self.put_shared(param.clone());
        self.put_shared(cells);
        self.header = encoded;
    }

    /// Appends the frame of an exception.
    pub fn put_exception(&mut self, call_id: u32, exception: &Exception) {
        let mut header = Vec::with_capacity(256);
        encode_response_header(call_id, Some(exception), None, &mut header);
        let mut frame = Vec::with_capacity(header.len() + 8);
        let total = varint_length(header.len() as u64) + header.len();
        frame.extend_from_slice(&(total as u32).to_be_bytes());
        put_varint(&mut frame, header.len() as u64);
        frame.extend_from_slice(&header);
        self.put_shared(frame.into());
    }

    /// Appends a frame that answers no call. Its exception says why the connection ends.
    pub fn put_fatal(&mut self, exception: &Exception) {
        self.put_exception(NO_CALL, exception);
    }

    /// Fills `slices` with the first bytes, and returns how many slices were used.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for bytes in self.pieces.iter().map(|piece| &piece[..]).chain([&self.tail[..]]) {
            if count == slices.len() {
                break;
            }
            if !bytes.is_empty() {
                slices[count] = IoSlice::new(bytes);
                count += 1;
            }
        }
        count
    }

    /// Removes `length` bytes, which were sent, from the front.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub fn advance(&mut self, mut length: usize) {
        assert!(length <= self.length, "{length} bytes sent of {}", self.length);
        self.length -= length;
        while length > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                self.tail.advance(length);
                break;
            };
            let taken = length.min(piece.len());
            piece.advance(taken);
            length -= taken;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        if self.length == 0 {
            // The buffer is empty, so it is reused from its start.
            self.tail.clear();
        }
    }

    /// Takes all bytes as one buffer.
    pub fn take(&mut self) -> Bytes {
        let mut all = BytesMut::with_capacity(self.length);
        for piece in self.pieces.drain(..) {
            all.extend_from_slice(&piece);
        }
        all.extend_from_slice(&self.tail);
        self.tail.clear();
        self.length = 0;
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_however_they_are_cut() {
        let large = Bytes::from(vec![7u8; APART_MIN + 3]);
        let mut expected = b"small".to_vec();
        expected.extend_from_slice(&large);
        expected.extend_from_slice(b"tail");
        for step in [1000usize, 3, 16 << 10, 1 << 20] {
            let mut output = Output::default();
            output.put(b"small");
            output.put_shared(large.clone());
            output.put(b"tail");
            let mut sent = Vec::new();
            while !output.is_empty() {
                let mut slices = [IoSlice::new(&[]); 2];
                let count = output.slices(&mut slices);
                assert!(count > 0);
                let taken = step.min(slices[0].len());
                sent.extend_from_slice(&slices[0][..taken]);
                output.advance(taken);
            }
            assert!(sent == expected, "step {step}");
        }
    }
}
