//! Markers: records of flushes, compactions, bulk loads, openings and closings of regions, for followers of the log.
//!
//! Recovery needs no markers, because the lists of store files are authoritative. A read replica learns from markers
//! which files were added and removed, and what it may drop from memory. Replication and backup would learn from them
//! which bulk-loaded files to copy.
//!
//! ```text
//! cells    stores 2B · store, store, … · list, list, …        one list for each store; no lists in old logs, and in
//!                                                             markers of events that change no list
//! store    family length 1B · family · added 4B · name, name, … · removed 4B · name, name, …
//! name     length 2B · name of the file within the store's folder
//! list     1B, 0 or 1; after a 1: timestamp of the list 8B · digest of the names 8B
//! ```

use crate::format::{Kind, Record};

/// An event of a region, and the store files that it added and removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The kind of event: any [kind that is a marker](Kind::is_marker).
    pub kind: Kind,
    /// The stores that took part. For [`RegionOpen`](Kind::RegionOpen) these are all stores, with all their files as
    /// added.
    pub stores: Vec<StoreChange>,
}

/// The files that a store has gained and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreChange {
    /// The store's family.
    pub family: Box<[u8]>,
    /// Names of the added files, within the store's folder.
    pub added: Vec<Box<str>>,
    /// Names of the removed files, within the store's folder.
    pub removed: Vec<Box<str>>,
    /// The state of the store's file list with this change; `None` if the event changes no list.
    pub list: Option<ListState>,
}

/// Identifies one state of a store's file list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListState {
    /// The list's timestamp. It grows with each list of the store, whoever writes it.
    pub timestamp: u64,
    /// The [digest](ListState::digest) of the names in the list.
    pub digest: u64,
}

impl ListState {
    /// Returns a digest of a set of names, which does not depend on their order.
    pub fn digest<'a>(names: impl IntoIterator<Item = &'a str>) -> u64 {
        // FNV-1a of each name, then a mixing step. Without it, two names might have the same sum as two other names.
        let of_name = |name: &str| {
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        names.into_iter().map(of_name).fold(0, u64::wrapping_add)
    }
}

impl Marker {
    /// Creates a marker that names no store.
    pub fn of(kind: Kind) -> Marker {
        Marker { kind, stores: Vec::new() }
    }

    /// Encodes the marker as the cells of its record.
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
        if self.stores.iter().any(|store| store.list.is_some()) {
            for store in &self.stores {
                out.push(u8::from(store.list.is_some()));
                if let Some(ListState { timestamp, digest }) = store.list {
                    [timestamp, digest].iter().for_each(|part| out.extend_from_slice(&part.to_be_bytes()));
                }
            }
        }
        out
    }

    /// Decodes a marker; `None` for any other record, and for invalid bytes.
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
            let (added, removed) = (names(&mut rest)?, names(&mut rest)?);
            stores.push(StoreChange { family, added, removed, list: None });
        }
        if !rest.is_empty() {
            for store in &mut stores {
                store.list = list(&mut rest)?;
            }
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

fn list(input: &mut &[u8]) -> Option<Option<ListState>> {
    match array(input)? {
        [0] => Some(None),
        [1] => {
            let mut part = || Some(u64::from_be_bytes(array(input)?));
            Some(Some(ListState { timestamp: part()?, digest: part()? }))
        }
        _ => None,
    }
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
    fn a_marker_is_read_as_written_and_every_truncation_is_detected() {
        let store = |family: &[u8], added: &[&str], removed: &[&str]| StoreChange {
            family: family.into(),
            added: added.iter().map(|&name| name.into()).collect(),
            removed: removed.iter().map(|&name| name.into()).collect(),
            list: None,
        };
        let stores = vec![store(b"f", &["new"], &["one", "two"]), store(b"g", &[], &[])];
        let mut listed = stores.clone();
        listed[0].list = Some(ListState { timestamp: u64::MAX, digest: ListState::digest(["new"]) });
        let kinds = || Kind::ALL.into_iter().filter(|kind| kind.is_marker());
        for (kind, stores) in kinds().map(|kind| (kind, &stores)).chain(kinds().map(|kind| (kind, &listed))) {
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
            assert_eq!(Marker::decode(&record(&cells)), Some(marker.clone()));
            // A marker of an old log has no lists.
            let whole = Marker {
                stores: vec![
                    StoreChange { list: None, ..marker.stores[0].clone() },
                    marker.stores[1].clone(),
                ],
                kind,
            };
            let without = whole.encode().len();
            for cut in (0..cells.len()).filter(|cut| *cut != without) {
                assert_eq!(Marker::decode(&record(&cells[..cut])), None, "{kind:?} cut at {cut}");
            }
            assert_eq!(Marker::decode(&Record { kind: Kind::Edit, ..record(&cells) }), None);
        }
    }

    #[test]
    fn a_digest_is_of_the_names_in_any_order() {
        let digest = |names: &[&str]| ListState::digest(names.iter().copied());
        assert_eq!(digest(&["a", "b", "c"]), digest(&["c", "a", "b"]));
        for other in [&["a", "b"][..], &["a", "b", "d"], &["a", "bc"], &["a", "b", "c", "c"], &[]] {
            assert_ne!(digest(&["a", "b", "c"]), digest(other), "{other:?}");
        }
    }
}
