//! Table descriptors on disk: one file for each version of a schema.
//!
//! ```text
//! .tabledesc/.tableinfo.0000000001.637    PBUF TableSchema; 637 is its length
//! ```
//!
//! To change a schema, the master writes a file with a greater number and then deletes the earlier ones. The complete
//! file with the greatest number counts, so a change is made once its file is complete, even if earlier files cannot be
//! deleted. The next change deletes them. The length in the name shows whether a crash cut the file short. Older
//! releases of HBase wrote names without a length or without a number.
//!
//! On a disk the numbers of a table are 1, 2, 3 …, as in HBase. In storage that several processes reach, a number is at
//! least the current time in seconds since 2020. So a table that is created again under the name of a deleted one has
//! greater numbers than the deleted one had. Otherwise a request for a file of the deleted table could reach the store
//! late, from a server that was replaced or from the network, and delete or replace the descriptor of the new table.
//!
//! A running master reserves each number among its [intents](crate::intents) before it writes the file, and keeps an
//! intent of the change until the file is complete. A master that was replaced can reserve nothing. A file whose number
//! it reserved earlier may still appear, but its successor then carries out the same change under a greater number.

use bytes::Bytes;
use env::WallTime;
use proto::{TableDescriptor, TableName};
use storage::{Capability, FileName, Files, Kind, Outcome};

use crate::Error;

/// Maximum size of a descriptor that is read, in bytes.
const SIZE_MAX: usize = 16 << 20;

/// The start of 2020, in seconds since 1970. HBase reads numbers up to 2,147,483,647, which the seconds since 2020 reach
/// in 2088.
const YEAR_2020: i64 = 1_577_836_800;

/// The number and the length in the name of a descriptor's file; the length is missing in names of older releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    number: u64,
    length: Option<u64>,
}

impl Version {
    fn parse(file: &str) -> Option<Version> {
        let rest = file.strip_prefix(".tableinfo")?;
        if rest.is_empty() {
            return Some(Version { number: 0, length: None });
        }
        let mut parts = rest.strip_prefix('.')?.split('.');
        let number = parts.next()?.parse().ok()?;
        let length = match parts.next() {
            None => None,
            Some(length) => Some(length.parse().ok()?),
        };
        parts.next().is_none().then_some(Version { number, length })
    }
}

/// Returns every version of a descriptor in a folder, newest first.
fn versions(files: &dyn Files, folder: &FileName) -> storage::Result<Vec<(Version, FileName)>> {
    let mut found = Vec::new();
    for entry in files.list(folder)? {
        let version = entry.name.below(folder).and_then(Version::parse);
        if let Some(version) =
            version.filter(|version| version.length.is_none_or(|length| length == entry.size))
        {
            found.push((version, entry.name));
        }
    }
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    Ok(found)
}

/// Reads the descriptor of `table`, as [`read_in`] does.
pub fn read(files: &dyn Files, table: &TableName) -> Result<Option<TableDescriptor>, Error> {
    read_in(files, &layout::descriptors(table))
}

/// Reads the newest complete descriptor in the folder of a table's descriptors that can be decoded; `None` if the
/// folder has no complete one. Fails if all complete ones are damaged.
pub fn read_in(files: &dyn Files, folder: &FileName) -> Result<Option<TableDescriptor>, Error> {
    let mut damage = None;
    for (_, name) in versions(files, folder)? {
        let content = match files.read(&name, SIZE_MAX) {
            Ok(content) => content,
            Err(error) if error.kind() == Kind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        match TableDescriptor::from_file(&Bytes::from(content)) {
            Ok(descriptor) => return Ok(Some(descriptor)),
            Err(cause) => damage = damage.or(Some(Error::Damaged { name, cause: Box::new(cause) })),
        }
    }
    damage.map_or(Ok(None), Err)
}

/// Writes `descriptor` durably as the newest of its table, and deletes the older ones if possible.
pub fn write(files: &dyn Files, descriptor: &TableDescriptor, now: WallTime) -> storage::Result<()> {
    write_in(files, &layout::descriptors(descriptor.name()), descriptor, now)
}

/// Writes `descriptor` durably as the newest in the folder of a table's descriptors, and deletes the older ones if possible.
pub fn write_in(
    files: &dyn Files,
    folder: &FileName,
    descriptor: &TableDescriptor,
    now: WallTime,
) -> storage::Result<()> {
    write_numbered(files, folder, descriptor, now, Ok)
}

/// Like [`write_in`], for a running master. `reserve` gets the smallest number that the file may have, and returns the
/// number that it gets.
pub(crate) fn write_numbered(
    files: &dyn Files,
    folder: &FileName,
    descriptor: &TableDescriptor,
    now: WallTime,
    reserve: impl FnOnce(u64) -> storage::Result<u64>,
) -> storage::Result<()> {
    let content = descriptor.to_file();
    // Incomplete files count, too, because their numbers must not be used again.
    let entries = files.list(folder)?;
    let parsed = entries.iter().filter_map(|entry| entry.name.below(folder).and_then(Version::parse));
    let next = parsed.map(|version| version.number).max().unwrap_or(0) + 1;
    let number_min =
        if files.capabilities().has(Capability::OneProcess) { next } else { next.max(seconds(now)) };
    // The files were listed before, so those that are deleted below are older than any file of a successor.
    let number = reserve(number_min)?;
    let name = folder.join(&format!(".tableinfo.{number:010}.{}", content.len()));
    // A truncation frees room, and needs this file.
    storage::with_reserve(files, || {
        let mut file = files.create_reserved(&name)?;
        match file.write(&content) {
            Ok(()) => file.finish().map_err(|error| unfinished(files, &name, error)).map(drop),
            Err(error) => {
                file.abandon();
                Err(error)
            }
        }
    })?;
    // The change is made, so a failure from here on must not be reported as a failure of the change.
    for entry in entries {
        if let Err(error) = files.delete(&entry.name) {
            let table = descriptor.name();
            tracing::warn!(%table, %error,
                "an earlier descriptor is not deleted; it does not count, and the next change deletes it");
        }
    }
    Ok(())
}

/// Returns the failure to finish the file `name`, which has its whole length. If it stays, the next start may find it.
fn unfinished(files: &dyn Files, name: &FileName, error: storage::Error) -> storage::Error {
    let is_gone = error.outcome() == Outcome::DidNotHappen
        && (error.kind() == Kind::Exists || files.delete(name).is_ok());
    if is_gone {
        return error;
    }
    storage::Error::new(error.kind(), Outcome::MayHaveHappened, name, "finish").because(error.to_string())
}

/// Returns the seconds since the start of 2020; 0 before it.
fn seconds(now: WallTime) -> u64 {
    u64::try_from(now.0 / 1000 - YEAR_2020).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::{Capabilities, Memory};

    const NOW: WallTime = WallTime((YEAR_2020 + 1_000) * 1000);

    fn names(memory: &Memory, table: &TableDescriptor) -> Vec<String> {
        let entries = memory.list(&layout::descriptors(table.name())).unwrap();
        entries.into_iter().map(|entry| entry.name.last().to_owned()).collect()
    }

    #[test]
    fn a_table_that_is_created_again_in_shared_storage_uses_no_name_again() {
        let table = TableDescriptor::new("t".parse().unwrap());
        let length = table.to_file().len();
        for (memory, numbers) in
            [(Memory::new(), [1, 2, 1]), (Memory::with(Capabilities::NONE), [1_000, 1_001, 1_007])]
        {
            let name = |number: u64| format!(".tableinfo.{number:010}.{length}");
            write(&memory, &table, NOW).unwrap();
            assert_eq!(names(&memory, &table), [name(numbers[0])]);
            write(&memory, &table, NOW).unwrap();
            assert_eq!(names(&memory, &table), [name(numbers[1])], "it was altered in the same second");
            for entry in memory.list(&layout::descriptors(table.name())).unwrap() {
                memory.delete(&entry.name).unwrap();
            }
            write(&memory, &table, WallTime(NOW.0 + 7_000)).unwrap();
            assert_eq!(names(&memory, &table), [name(numbers[2])], "it was dropped and created again");
        }
    }

    #[test]
    fn a_clock_before_2020_does_not_matter() {
        let (memory, table) = (Memory::with(Capabilities::NONE), TableDescriptor::new("t".parse().unwrap()));
        write(&memory, &table, WallTime(1)).unwrap();
        assert!(names(&memory, &table)[0].starts_with(".tableinfo.0000000001."));
    }

    #[test]
    fn names_of_every_release_are_read() {
        let version = |number, length| Some(Version { number, length });
        assert_eq!(Version::parse(".tableinfo"), version(0, None));
        assert_eq!(Version::parse(".tableinfo.0000000007"), version(7, None));
        assert_eq!(Version::parse(".tableinfo.0000000007.637"), version(7, Some(637)));
        for other in
            ["tableinfo", ".tableinfo.", ".tableinfo.x", ".tableinfo.1.x", ".tableinfo.1.2.3", ".tmp"]
        {
            assert_eq!(Version::parse(other), None, "{other}");
        }
    }
}
