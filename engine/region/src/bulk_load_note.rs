//! The stored note of a bulk load into several families: its bytes, and the version of it that an opening of the region
//! knows. What it is for, [`bulk_load::intent`](crate::bulk_load) says.
//!
//! ```text
//! <region>/.bulkload:  00 · number 8B · BulkLoadDescriptor · CRC32 4B       no descriptor: no load is unfinished
//! ```
//!
//! Integers are big-endian. Each write of the object increments the number, and the object is never deleted, so no
//! version of it occurs twice. The reason: an object store may carry out a conditional put seconds after it reported
//! failure. If the version that this put expects occurred again, or if the object were missing, the put would bring
//! back a load that has long ended. Earlier versions of this program wrote neither the zero nor the number, and emptied
//! the object.

use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind, Version, swap_confirmed};

use crate::tracker::crc32;
use crate::{Error, Result};

/// The name of the object, in a region's folder.
pub const NAME: &str = ".bulkload";
const SIZE_MAX: usize = 16 << 20;

/// The first byte of a numbered object; no protobuf message begins with it.
const NUMBERED: u8 = 0;

/// The content of the object.
struct Note {
    number: u64,
    /// The load that may not be in all its stores yet; `None` if there is none.
    load: Option<pb::BulkLoadDescriptor>,
}

/// The object as an opening of the region last read or wrote it.
#[derive(Default)]
pub(crate) struct KnownNote {
    /// The object's version; `None` if there is no object.
    version: Option<Version>,
    number: u64,
}

impl KnownNote {
    /// Reads the object. Returns also the load that may not be in all its stores yet.
    pub(crate) fn read(
        files: &dyn Files,
        intent: &FileName,
    ) -> Result<(KnownNote, Option<pb::BulkLoadDescriptor>)> {
        match files.load(intent, SIZE_MAX) {
            Ok(object) => {
                let Note { number, load } = decode(intent, &object.content)?;
                Ok((KnownNote { version: Some(object.version), number }, load))
            }
            Err(error) if error.kind() == Kind::NotFound => Ok((KnownNote::default(), None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the object by one with this load, or without one if `descriptor` is empty. Fails with
    /// [`Kind::Conflict`] if the object has another version than the known one.
    pub(crate) fn replace(
        &mut self,
        files: &dyn Files,
        intent: &FileName,
        descriptor: &[u8],
    ) -> storage::Result<()> {
        let bytes = encode(self.number + 1, descriptor);
        let version = swap_confirmed(files, intent, self.version.as_ref(), &bytes)?;
        *self = KnownNote { version: Some(version), number: self.number + 1 };
        Ok(())
    }
}

/// Whether the object `intent` records a bulk load that may not be in all its families.
pub fn is_unfinished(files: &dyn Files, intent: &FileName) -> Result<bool> {
    Ok(KnownNote::read(files, intent)?.1.is_some())
}

fn encode(number: u64, descriptor: &[u8]) -> Vec<u8> {
    let mut bytes = vec![NUMBERED];
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(descriptor);
    bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
    bytes
}

fn decode(intent: &FileName, bytes: &[u8]) -> Result<Note> {
    let corrupt = |what, expected: &str, found: String| Error::Corrupt {
        file: intent.to_string(),
        what,
        expected: expected.to_owned(),
        found,
    };
    if bytes.is_empty() {
        return Ok(Note { number: 0, load: None });
    }
    let Some((message, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(corrupt("length", "at least 4 bytes", bytes.len().to_string()));
    };
    let (expected, found) = (u32::from_be_bytes(*sum), crc32(message));
    if expected != found {
        return Err(corrupt("checksum", &format!("{expected:08x}"), format!("{found:08x}")));
    }
    let (number, descriptor) = match message.split_first() {
        Some((&NUMBERED, rest)) => match rest.split_first_chunk::<8>() {
            Some((number, descriptor)) => (u64::from_be_bytes(*number), descriptor),
            None => return Err(corrupt("length", "a number of 8 bytes", rest.len().to_string())),
        },
        Some(_) => (0, message),
        None => return Err(corrupt("length", "at least 5 bytes", bytes.len().to_string())),
    };
    if descriptor.is_empty() {
        return Ok(Note { number, load: None });
    }
    let load = pb::BulkLoadDescriptor::decode(descriptor)
        .map_err(|error| corrupt("bulk load", "a message", error.to_string()))?;
    Ok(Note { number, load: Some(load) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> pb::BulkLoadDescriptor {
        let name = pb::TableName { namespace: "default".into(), qualifier: "t".into() };
        pb::BulkLoadDescriptor {
            table_name: name,
            encoded_region_name: "r".into(),
            bulkload_seq_num: 7,
            ..Default::default()
        }
    }

    #[test]
    fn an_intent_is_read_with_its_number_and_its_load() {
        let intent = FileName::new(NAME);
        let note = decode(&intent, &encode(3, &load().encode_to_vec())).expect("whole");
        assert_eq!((note.number, note.load), (3, Some(load())));
        let note = decode(&intent, &encode(4, b"")).expect("whole");
        assert_eq!((note.number, note.load), (4, None));
        for length in 1..encode(4, b"").len() {
            assert!(decode(&intent, &encode(4, b"")[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn intents_without_a_number_are_read() {
        let intent = FileName::new(NAME);
        let mut old = load().encode_to_vec();
        old.extend_from_slice(&crc32(&old).to_be_bytes());
        let note = decode(&intent, &old).expect("whole");
        assert_eq!((note.number, note.load), (0, Some(load())));
        let note = decode(&intent, b"").expect("whole");
        assert_eq!((note.number, note.load), (0, None));
    }

    /// Each write of the object differs from all earlier ones. So a conditional put that an object store carries out
    /// late finds another version than it expects, and fails.
    #[test]
    fn no_two_writes_of_an_intent_are_equal() {
        let (files, intent) = (storage::Memory::new(), FileName::new(NAME));
        let mut seen = std::collections::BTreeSet::new();
        let mut known = KnownNote::default();
        for _ in 0..3 {
            known.replace(&files, &intent, b"").expect("written");
            let (found, _) = KnownNote::read(&files, &intent).expect("read");
            assert!(found.version.is_some(), "an object that is gone can be made again");
            assert!(
                seen.insert(files.load(&intent, SIZE_MAX).expect("there").content),
                "the same bytes twice"
            );
        }
    }
}
