//! The content of a version of a key: a put or a delete, and the bytes of a put.
//!
//! Everything follows from seed, key and version. So the expected state of a key is two numbers, and a reader can check
//! every byte of a value without a copy of it.

use bytes::Bytes;
use client::{Action, Delete, Put, Row};

/// Both families of the table. A put writes both, so that a reader detects a change that was applied partly.
pub(crate) const FAMILIES: [&str; 2] = ["f", "g"];
/// The column in each family.
const QUALIFIER: &str = "v";

/// Whether a version puts or deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Delete,
}

/// The content of all keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) seed: u64,
}

/// Mixes the bits of a number: SplitMix64's output function.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the row of a key. Its first digits are spread evenly, so that all regions are written.
pub(crate) fn row_of(key: usize) -> Bytes {
    let digits = mix(key as u64 + 1) & 0xffff;
    format!("{digits:04x}-{key:06}").into()
}

/// Returns the key of a row; `None` for a row that [`row_of`] never returns.
pub(crate) fn key_of(row: &[u8]) -> Option<usize> {
    let key = std::str::from_utf8(row).ok()?.split_once('-')?.1.parse().ok()?;
    (row_of(key) == row).then_some(key)
}

impl Content {
    fn word(&self, key: usize, version: u64, of: u64) -> u64 {
        mix(mix(mix(self.seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(key as u64)).wrapping_add(version))
            .wrapping_add(mix(of + 1))
    }

    /// Returns whether a version puts or deletes. Version 0 is the key before its first write, which counts as a
    /// delete.
    pub(crate) fn kind(&self, key: usize, version: u64) -> Kind {
        match version {
            0 => Kind::Delete,
            _ if mix(self.word(key, version, 0)).is_multiple_of(6) => Kind::Delete,
            _ => Kind::Put,
        }
    }

    /// Returns the value of a put in a family: key and version, then random bytes. Mostly 1 kB, sometimes 100 kB.
    pub(crate) fn value(&self, key: usize, version: u64, family: usize) -> Bytes {
        let mut word = mix(self.word(key, version, 1 + family as u64));
        let length = match word % 200 {
            0 => 50_000 + word / 200 % 100_000,
            1..=9 => 4_000 + word / 200 % 10_000,
            _ => word / 200 % 1_200,
        };
        let mut value = format!("{key}:{version}:").into_bytes();
        while value.len() < length as usize {
            word = mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15));
            value.extend_from_slice(&word.to_le_bytes());
        }
        value.into()
    }

    /// Returns the mutation of a version. The timestamp is the version, so a mutation applied twice or late hides
    /// nothing newer.
    pub(crate) fn mutation(&self, key: usize, version: u64) -> Action {
        let (row, timestamp) = (row_of(key), version as i64);
        match self.kind(key, version) {
            Kind::Delete => Delete::row(row).up_to(timestamp).into(),
            Kind::Put => {
                let put = FAMILIES.iter().enumerate().fold(Put::row(row), |put, (number, family)| {
                    put.set_at(*family, QUALIFIER, timestamp, self.value(key, version, number))
                });
                put.into()
            }
        }
    }

    /// Returns the version that a row shows; `None` if the row does not exist. An error says what is wrong with the row
    /// itself.
    pub(crate) fn version_of(&self, key: usize, row: &Row) -> Result<Option<u64>, String> {
        let Some(first) = row.cells().first() else { return Ok(None) };
        let version = first.timestamp() as u64;
        let columns: Vec<_> = row.cells().iter().map(|cell| (cell.family(), cell.qualifier())).collect();
        let expected: Vec<_> =
            FAMILIES.iter().map(|family| (family.as_bytes(), QUALIFIER.as_bytes())).collect();
        if columns != expected || row.cells().iter().any(|cell| cell.timestamp() as u64 != version) {
            let cells: Vec<String> = row
                .cells()
                .iter()
                .map(|cell| format!("{}@{}", cell.family().escape_ascii(), cell.timestamp()))
                .collect();
            return Err(format!("the row is torn, its columns are {}", cells.join(" ")));
        }
        for (number, cell) in row.cells().iter().enumerate() {
            self.check_value(key, version, number, cell.value())?;
        }
        Ok(Some(version))
    }

    /// Compares a value with that of a version of a key in a family.
    pub(crate) fn check_value(
        &self,
        key: usize,
        version: u64,
        family: usize,
        found: &[u8],
    ) -> Result<(), String> {
        let value = self.value(key, version, family);
        if found == value {
            return Ok(());
        }
        Err(format!(
            "the value of version {version} in family {} is wrong: {} bytes that begin with {}, expected {}",
            FAMILIES[family],
            found.len(),
            found[..found.len().min(40)].escape_ascii(),
            value.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_key() {
        for key in [0, 7, 4_096, 999_999] {
            assert_eq!(key_of(&row_of(key)), Some(key));
        }
        assert_eq!(key_of(b"0000-000007"), None, "the digits belong to another key");
        assert_eq!(key_of(b"without a dash"), None);
    }

    #[test]
    fn content_follows_from_seed_key_and_version() {
        let content = Content { seed: 3 };
        assert_eq!(content.value(5, 9, 0), Content { seed: 3 }.value(5, 9, 0));
        assert_ne!(content.value(5, 9, 0)[4..], content.value(5, 9, 1)[4..]);
        let deletes = (1..6_000).filter(|version| content.kind(1, *version) == Kind::Delete).count();
        assert!((800..1_200).contains(&deletes), "{deletes} of 6,000");
        assert_eq!(content.kind(1, 0), Kind::Delete);
    }
}
