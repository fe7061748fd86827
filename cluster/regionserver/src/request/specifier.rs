//! Reads the region of a request without decoding the request.

use std::ops::Range;

use bytes::Bytes;
use proto::pb;
use proto::wire::{Fields, Value};

/// Returns the region specifier at `range`, in the form that clients write; `None` if the plain decoder must decode it.
pub(super) fn specifier(bytes: &Bytes, range: Range<usize>) -> Option<pb::RegionSpecifier> {
    let mut fields = Fields::new(bytes, range);
    let Some((1, _, Value::Number(by))) = fields.next().ok()? else { return None };
    let Some((2, _, Value::Bytes(name))) = fields.next().ok()? else { return None };
    let is_all = fields.next().ok()?.is_none();
    is_all.then(|| pb::RegionSpecifier { r#type: by as i32, value: bytes.slice(name) })
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};
    use prost::Message;

    use super::*;

    #[test]
    fn the_specifier_equals_that_of_the_plain_decoder() {
        let world = World::simulated(7, WallTime(0));
        let any = |below: u64| world.random() % below;
        // The bytes of the test messages are put together from these parts: keys of both fields and of others, lengths,
        // long numbers, and truncated names.
        let parts: [&[u8]; 12] = [
            b"\x08\x01",
            b"\x08\x02",
            b"\x88\x00\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x12\x01r",
            b"\x12\x00",
            b"\x92\x80\x00\x02rr",
            b"\x12\x05r",
            b"\x18\x01",
            b"\x0a\x01r",
            b"\x11",
        ];
        let mut named = 0;
        for _ in 0..20_000 {
            let bytes = (0..any(4)).flat_map(|_| parts[any(12) as usize]).copied();
            let bytes: Bytes = bytes.collect::<Vec<_>>().into();
            if let Some(found) = specifier(&bytes, 0..bytes.len()) {
                named += 1;
                let expected = pb::RegionSpecifier::decode(bytes.clone());
                assert_eq!(expected.ok(), Some(found), "{}", bytes.escape_ascii());
            }
        }
        assert!(named > 200, "{named} were named as clients do");
        let region = pb::RegionSpecifier { r#type: 1, value: "t,,1.abc.".into() };
        let bytes = Bytes::from([b"..", &region.encode_to_vec()[..], b"."].concat());
        assert_eq!(specifier(&bytes, 2..bytes.len() - 1), Some(region));
    }
}
