//! Requests that have been received but not served yet.
//!
//! A client may send several requests at once. While the first is served, the others are behind it in the buffer. A
//! service may inspect them, so that it can prefetch memory for all of them together. An inspection only finds the
//! parts of requests and consumes nothing. It ends at a malformed request, which is reported when it is served.

use crate::envelope::{method_of, request_part};

/// Iterates over the complete requests at the front of a buffer: the name of each method, and its parameter.
#[derive(Clone, Debug)]
pub struct UpcomingRequests<'a> {
    input: &'a [u8],
    left: usize,
}

impl<'a> UpcomingRequests<'a> {
    /// Maximum number of requests that are inspected together. The memory that a service prefetches for them fits in
    /// the processor's first-level cache.
    pub const TOGETHER: usize = 16;

    pub(crate) fn of(input: &'a [u8]) -> UpcomingRequests<'a> {
        UpcomingRequests { input, left: UpcomingRequests::TOGETHER }
    }

    /// Whether the buffer has more than one complete request.
    pub(crate) fn is_several(&self) -> bool {
        let behind = |input: &'a [u8]| {
            let (length, rest) = input.split_first_chunk::<4>()?;
            rest.get(u32::from_be_bytes(*length) as usize..)
        };
        behind(self.input).and_then(behind).is_some()
    }

    fn look(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (length, rest) = self.input.split_first_chunk::<4>()?;
        let (frame, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.input = rest;
        let header = request_part(frame, 0).ok()?;
        let param = request_part(frame, header.range.end).ok()?;
        Some((method_of(frame, header.range)?, &frame[param.range]))
    }
}

impl<'a> Iterator for UpcomingRequests<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.look()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use env::{WallTime, World};

    use super::*;
    use crate::envelope::RequestHeader;
    use crate::{Output, Text};

    fn request(method: &'static str, param: &[u8]) -> Vec<u8> {
        let method = Text::from_static(method);
        let header = RequestHeader { call_id: 7, method, has_param: true, ..RequestHeader::default() };
        let mut output = Output::default();
        output.put_request(&header, &Bytes::copy_from_slice(param), Bytes::from_static(b"cells"));
        output.take().to_vec()
    }

    #[test]
    fn whole_requests_are_seen_and_the_one_that_is_cut_is_not() {
        let all = [request("Get", b"one"), request("Mutate", b""), request("Get", b"three")].concat();
        let seen = |end| UpcomingRequests::of(&all[..end]).collect::<Vec<_>>();
        assert_eq!(seen(all.len()), [(&b"Get"[..], &b"one"[..]), (b"Mutate", b""), (b"Get", b"three")]);
        let ends = [1, 2].map(|whole| (1..all.len()).find(|&end| seen(end).len() == whole).expect("an end"));
        assert_eq!(ends, [request("Get", b"one").len(), all.len() - request("Get", b"three").len()]);
        let several = |end| UpcomingRequests::of(&all[..end]).is_several();
        assert!((0..=all.len()).all(|end| several(end) == (seen(end).len() > 1)));
        let many = request("Get", b"again").repeat(UpcomingRequests::TOGETHER + 1);
        assert_eq!(UpcomingRequests::of(&many).count(), UpcomingRequests::TOGETHER);
    }

    #[test]
    fn any_bytes_are_searched_without_a_panic() {
        let world = World::simulated(3, WallTime(0));
        let sound = [request("Get", b"one"), request("Scan", b"two")].concat();
        for _ in 0..20_000 {
            let mut bytes = sound.clone();
            for _ in 0..1 + world.random() % 3 {
                let at = world.random() as usize % bytes.len();
                bytes[at] = world.random() as u8;
            }
            assert!(UpcomingRequests::of(&bytes).count() <= UpcomingRequests::TOGETHER);
        }
    }
}
