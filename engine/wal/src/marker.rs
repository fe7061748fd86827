//! Markers: records of flushes, compactions, bulk loads, openings and closings of regions, for followers of the log.
//!
//! Recovery needs no markers: the lists of store files are the truth. A read replica needs them to know which files came and
//! went and what it may drop from memory; replication and backup need them to copy files that came from outside.
//!
//! ```text
//! cells    stores 2B · store, store, …
//! store    family length 1B · family · added 4B · name, name, … · removed 4B · name, name, …
//! name     length 2B · name of the file within the store's folder
//! ```

use crate::format::{Kind, Record};

/// An event of a region, and the store files that it added and removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Which act: any [kind that is a marker](Kind::is_marker).
    pub kind: Kind,
    /// The stores that took part. For [`RegionOpen`](Kind::RegionOpen), all of them, with all their files as added.
    pub stores: Vec<StoreChange>,
}

/// Which files of a store came and went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreChange {
    /// The store's family.
    pub family: Box<[u8]>,
    /// Names of files that came, within the store's folder.
    pub added: Vec<Box<str>>,
    /// Names of files that went.
    pub removed: Vec<Box<str>>,
}

impl Marker {
    /// A marker that names no store.
    pub fn of(kind: Kind) -> Marker {
        Marker { kind, stores: Vec::new() }
    }

    /// Encodes the marker; the bytes take the place of the record's cells.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = (self.stores.len() as u16).to_be_bytes().to_vec();
        for store in &self.stores {
            out.push(store.family.len() as u8);
            out.extend_from_slice(&store.family);
            for names in [&store.added, &store.removed] {
                out.extend_from_slice(&(names.len() as u32).to_be_bytes());
                for name in names {
                    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
                    out.extend_from_slice(name.as_bytes());
                }
            }
        }
        out
    }

    /// Reads a record that is a marker; `None` for any other record, and for bytes that are no marker.
    pub fn decode(record: &Record<'_>) -> Option<Marker> {
        if !record.kind.is_marker() {
            return None;
        }
        let mut rest = record.cells;
        let count = u16::from_be_bytes(array(&mut rest)?);
        let mut stores = Vec::new();
        for _ in 0..count {
            let [length] = array::<1>(&mut rest)?;
            let family = bytes(&mut rest, usize::from(length))?.into();
            stores.push(StoreChange { family, added: names(&mut rest)?, removed: names(&mut rest)? });
        }
        rest.is_empty().then_some(Marker { kind: record.kind, stores })
    }
}

fn array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*first)
}

fn bytes<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(first)
}

fn names(input: &mut &[u8]) -> Option<Vec<Box<str>>> {
    let count = u32::from_be_bytes(array(input)?);
    let mut names = Vec::new();
    for _ in 0..count {
        let length = u16::from_be_bytes(array(input)?);
        names.push(std::str::from_utf8(bytes(input, usize::from(length))?).ok()?.into());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::SequenceId;
    use env::WallTime;

    #[test]
    fn a_marker_is_read_as_written_and_every_cut_is_seen() {
        let store = |family: &[u8], added: &[&str], removed: &[&str]| StoreChange {
            family: family.into(),
            added: added.iter().map(|&name| name.into()).collect(),
            removed: removed.iter().map(|&name| name.into()).collect(),
        };
        let stores = vec![store(b"f", &["new"], &["one", "two"]), store(b"g", &[], &[])];
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_marker()) {
            let marker = Marker { kind, stores: stores.clone() };
            let cells = marker.encode();
            let record = |cells| Record {
                kind,
                region: b"r",
                table: b"t",
                sequence: SequenceId(4),
                time: WallTime(0),
                nonce: None,
                cells,
            };
            assert_eq!(Marker::decode(&record(&cells)), Some(marker));
            for cut in 0..cells.len() {
                assert_eq!(Marker::decode(&record(&cells[..cut])), None, "{kind:?} cut at {cut}");
            }
            assert_eq!(Marker::decode(&Record { kind: Kind::Edit, ..record(&cells) }), None);
        }
    }
}
