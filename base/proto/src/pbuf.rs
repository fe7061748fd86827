//! The magic that precedes a protobuf message in a file or a znode.
//!
//! ```text
//! plain       P B U F | message                      .tableinfo, info:regioninfo
//! delimited   P B U F | varint length | message      .regioninfo, an HFile's file info
//! ```

use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::Error;

/// The magic that precedes a protobuf message.
pub const MAGIC: &[u8; 4] = b"PBUF";

/// Returns the magic followed by the message.
pub fn encode(message: &impl Message) -> Bytes {
    let mut out = BytesMut::with_capacity(MAGIC.len() + message.encoded_len());
    out.extend_from_slice(MAGIC);
    message.encode(&mut out).expect("a growing buffer takes any message");
    out.freeze()
}

/// Returns the magic, the length of the message, and the message.
pub fn encode_delimited(message: &impl Message) -> Bytes {
    let mut out = BytesMut::with_capacity(MAGIC.len() + 5 + message.encoded_len());
    out.extend_from_slice(MAGIC);
    message.encode_length_delimited(&mut out).expect("a growing buffer takes any message");
    out.freeze()
}

/// Decodes the message after the magic. `what` names the message in errors.
pub fn decode<M: Message + Default>(what: &'static str, bytes: &Bytes) -> Result<M, Error> {
    M::decode(after_magic(what, bytes)?).map_err(|cause| Error::Decode { what, cause })
}

/// Decodes the message after the magic and the length. `what` names the message in errors.
pub fn decode_delimited<M: Message + Default>(what: &'static str, bytes: &Bytes) -> Result<M, Error> {
    M::decode_length_delimited(after_magic(what, bytes)?).map_err(|cause| Error::Decode { what, cause })
}

fn after_magic(what: &'static str, bytes: &Bytes) -> Result<Bytes, Error> {
    if bytes.starts_with(MAGIC) { Ok(bytes.slice(MAGIC.len()..)) } else { Err(Error::NoMagic { what }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb;

    #[test]
    fn both_forms_come_back_and_neither_passes_for_the_other() {
        let id = pb::ClusterId { cluster_id: "an id".into() };
        assert_eq!(decode::<pb::ClusterId>("id", &encode(&id)).unwrap(), id);
        assert_eq!(decode_delimited::<pb::ClusterId>("id", &encode_delimited(&id)).unwrap(), id);
        assert_eq!(&encode(&id)[..4], MAGIC);
        assert!(decode::<pb::ClusterId>("id", &encode_delimited(&id)).is_err());
    }

    #[test]
    fn bytes_without_magic_are_refused_by_name() {
        let error = decode::<pb::ClusterId>("id", &Bytes::from_static(b"PBU")).unwrap_err();
        assert_eq!(error.to_string(), "id does not begin with PBUF");
    }
}
