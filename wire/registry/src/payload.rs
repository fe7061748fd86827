//! The envelope that HBase puts around the data of a znode.
//!
//! ```text
//!  0xFF · length 4B · writer's id · salt 8B · "PBUF" · protobuf        length covers id and salt
//! ```
//!
//! The part before `PBUF` says which process wrote the data, which HBase uses to recognize its own writes. Java clients
//! also read data without that part. The client gohbase requires it, with a length between 1 and 65,000.

/// The first byte of the data of a znode with HBase's envelope.
const MAGIC: u8 = 0xff;
/// The magic bytes before a protobuf message, in znodes and elsewhere in HBase.
const PBUF: &[u8; 4] = b"PBUF";
/// Maximum length of the writer's id that gohbase accepts, together with its salt.
const METADATA_LENGTH_MAX: usize = 65_000;

/// Wraps an encoded `message` written by `writer`, such as `master:host,16000,1700000000000`.
///
/// # Panics
/// When the writer's id is longer than clients accept.
pub fn wrap(writer: &str, salt: u64, message: &[u8]) -> Vec<u8> {
    let length = writer.len() + 8;
    assert!(length < METADATA_LENGTH_MAX, "writer's id of {} bytes", writer.len());
    let mut payload = Vec::with_capacity(1 + 4 + length + PBUF.len() + message.len());
    payload.push(MAGIC);
    payload.extend_from_slice(&(length as u32).to_be_bytes());
    payload.extend_from_slice(writer.as_bytes());
    payload.extend_from_slice(&salt.to_be_bytes());
    payload.extend_from_slice(PBUF);
    payload.extend_from_slice(message);
    payload
}

/// Returns the message inside a payload, with the full envelope or with `PBUF` alone; `None` for anything else.
pub fn unwrap(payload: &[u8]) -> Option<&[u8]> {
    let rest = match payload.split_first() {
        Some((&MAGIC, rest)) => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            rest.get(u32::from_be_bytes(*length) as usize..)?
        }
        _ => payload,
    };
    rest.strip_prefix(PBUF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_that_hbase_writes() {
        let payload = wrap("m:h,1,2", 0x0102_0304_0506_0708, b"\x08\x00");
        assert_eq!(payload, b"\xff\x00\x00\x00\x0fm:h,1,2\x01\x02\x03\x04\x05\x06\x07\x08PBUF\x08\x00");
        assert_eq!(unwrap(&payload), Some(&b"\x08\x00"[..]));
        assert_eq!(unwrap(b"PBUFx"), Some(&b"x"[..]));
        for cut in 0..payload.len() - 2 {
            assert_eq!(unwrap(&payload[..cut]), None, "cut at {cut}");
        }
    }
}
