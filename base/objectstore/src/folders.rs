//! Removes folders from listings.
//!
//! A store has no folders. Hadoop's S3A writes an empty object with a slash at its end for each folder that it creates,
//! such as `hbase/data/`, and some stores list the folders of a file system in this way. The library drops that slash
//! from the names that it returns.

use storage::{Entry, FileName};

/// Removes the empty entries that are folders, from a listing of `folder` in order of name: `folder` itself, and those
/// with entries below them. An empty folder is not recognised: it stays in the listing as an empty file.
pub(crate) fn remove_folders(listed: &mut Vec<Entry>, folder: &FileName) {
    let is_folder = |entry: &Entry| {
        let below = format!("{}/", entry.name);
        let first = listed.partition_point(|other| other.name.as_str() < &*below);
        entry.name == *folder
            || listed.get(first).is_some_and(|other| other.name.as_str().starts_with(&below))
    };
    let folders: Vec<FileName> = listed
        .iter()
        .filter(|entry| entry.size == 0 && is_folder(entry))
        .map(|entry| entry.name.clone())
        .collect();
    if !folders.is_empty() {
        listed.retain(|entry| entry.size > 0 || folders.binary_search(&entry.name).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_entries_that_have_others_below_them_are_folders() {
        let left_of = |folder: &str, listed: &[(&str, u64)]| {
            let entry = |(name, size): &(&str, u64)| Entry { name: FileName::new(*name), size: *size };
            let mut entries: Vec<Entry> = listed.iter().map(entry).collect();
            remove_folders(&mut entries, &FileName::new(folder));
            entries.into_iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>()
        };
        let listed = [
            ("data", 0),
            ("data/t", 0),
            ("data/t-link", 0),
            ("data/t.empty", 0),
            ("data/t/file", 7),
            ("data/u", 3),
            ("data/u/file", 7),
        ];
        assert_eq!(
            left_of("data", &listed),
            ["data/t-link", "data/t.empty", "data/t/file", "data/u", "data/u/file"]
        );
        assert_eq!(left_of("corrupt", &[("corrupt", 0)]), [""; 0]);
        assert_eq!(left_of("", &[("data", 0), ("link", 0)]), ["data", "link"]);
    }
}
