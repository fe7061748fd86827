//! Names of MOB files, and the property of a store file that lists the MOB files that it needs.
//!
//! ```text
//! name            MD5 of the region's first row, 32 hex · date of the newest cell, yyyyMMdd · random, 32 hex · _ · region
//! MOB_FILE_REFS   table/name,name//table/name          empty if the store file has no references
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cell::{Timestamp, string_binary};
use hfile::Reader;
use md5::{Digest, Md5};
use proto::{EncodedName, RegionInfo};

use crate::{Error, Result};

/// The property of a store file that lists its MOB files.
pub(crate) const MOB_FILE_REFS: &str = "MOB_FILE_REFS";
/// The property of a MOB file that says how many cells it has.
pub(crate) const MOB_CELLS_COUNT: &str = "MOB_CELLS_COUNT";
/// The last day that a name can contain, in days since 1970.
const LAST_DAY: i64 = 2_932_896;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// Returns the name of a new MOB file of `region`, whose newest cell has the timestamp `newest`.
pub(crate) fn new_name(region: &RegionInfo, newest: Timestamp, random: [u64; 2]) -> String {
    let start: String = Md5::digest(region.start_key()).iter().map(|byte| format!("{byte:02x}")).collect();
    let encoded: &EncodedName = region.encoded_name();
    format!("{start}{}{:016x}{:016x}_{encoded}", date(newest), random[0], random[1])
}

/// Returns the region that wrote the MOB file with this name; `None` for the names of early versions of HBase, which
/// do not have it.
pub(crate) fn region_of_name(name: &str) -> Option<EncodedName> {
    EncodedName::parse(name.rsplit_once('_')?.1).ok()
}

/// Returns the day of a timestamp in UTC, as yyyyMMdd. A timestamp after the year 9999 counts as that year's last day.
fn date(timestamp: Timestamp) -> String {
    // The calendar repeats every 400 years, which begin on 1 March (`era` is one such period).
    let days = (timestamp.0.max(0) / DAY_MS).min(LAST_DAY) + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_based + 2) / 5 + 1;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}")
}

/// The MOB files that a store file refers to, by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MobFileRefs(BTreeMap<String, BTreeSet<String>>);

impl MobFileRefs {
    /// Returns the MOB files that a store file needs; `None` if the file does not say it. HBase before 2.5 did not
    /// write the property. A file without tags needs none. Fails if the property is damaged.
    pub(crate) fn of_file(reader: &Reader) -> Result<Option<MobFileRefs>> {
        let Some(value) = reader.info().get(MOB_FILE_REFS.as_bytes()) else {
            return Ok((!reader.may_have_tags()).then(MobFileRefs::default));
        };
        let refs = MobFileRefs::parse(value).ok_or_else(|| Error::Corrupt {
            file: reader.name().to_string(),
            what: MOB_FILE_REFS,
            expected: "table/file,file//table/file".to_owned(),
            found: string_binary(value).to_string(),
        })?;
        Ok(Some(refs))
    }

    /// Parses the property's value; `None` if it is no list of names.
    pub(crate) fn parse(value: &[u8]) -> Option<MobFileRefs> {
        let mut refs = MobFileRefs::default();
        // HBase once wrote a single zero byte if there were no names.
        if value.len() <= 1 {
            return Some(refs);
        }
        for of_table in std::str::from_utf8(value).ok()?.split("//") {
            let (table, names) = of_table.split_once('/').filter(|(table, _)| !table.is_empty())?;
            for name in names.split(',').filter(|name| !name.is_empty()) {
                refs.insert(table, name);
            }
        }
        Some(refs)
    }

    /// Returns the value of the property.
    pub(crate) fn to_value(&self) -> Bytes {
        let of_table = |(table, names): (&String, &BTreeSet<String>)| {
            format!("{table}/{}", names.iter().map(String::as_str).collect::<Vec<_>>().join(","))
        };
        self.0.iter().map(of_table).collect::<Vec<_>>().join("//").into()
    }

    pub(crate) fn insert(&mut self, table: &str, name: &str) {
        if self.contains(table, name) {
            return;
        }
        self.0.entry(table.to_owned()).or_default().insert(name.to_owned());
    }

    pub(crate) fn contains(&self, table: &str, name: &str) -> bool {
        self.0.get(table).is_some_and(|names| names.contains(name))
    }

    /// Returns each MOB file as the name of its table and its own name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(table, names)| names.iter().map(move |name| (&table[..], &name[..])))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let of = |ms| date(Timestamp(ms));
        for (day, expected) in [
            (0, "19700101"),
            (59, "19700301"),
            (365 + 365 + 59, "19720229"),
            (11_016, "20000229"),
            (20_782, "20261125"),
            (LAST_DAY, "99991231"),
        ] {
            assert_eq!(of(day * DAY_MS + DAY_MS - 1), expected);
        }
        assert_eq!((of(-5), of(i64::MAX)), ("19700101".to_owned(), "99991231".to_owned()));
    }

    #[test]
    fn refs_are_written_as_hbase_writes_them_and_read_back() {
        let mut refs = MobFileRefs::default();
        assert_eq!((refs.to_value(), refs.is_empty()), (Bytes::new(), true));
        refs.insert("t", "b");
        refs.insert("ns:u", "c");
        refs.insert("t", "a");
        refs.insert("t", "a");
        let value = refs.to_value();
        assert_eq!(value, "ns:u/c//t/a,b");
        assert_eq!(MobFileRefs::parse(&value), Some(refs));
        for empty in [&b""[..], b"\0"] {
            assert_eq!(MobFileRefs::parse(empty), Some(MobFileRefs::default()));
        }
        for wrong in [&b"no table"[..], b"/a,b", b"t/a//", b"t/\xff"] {
            assert_eq!(MobFileRefs::parse(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
