//! Holders of log files: a file is deleted or reused only when no holder needs it.
//!
//! All regions together are one holder. The files that they need follow from what they have flushed, and are computed
//! at every start. Other users of the log, such as backups, read it after it was written. Each is a named holder with a
//! small object beside the log's files, `holders/NAME`. The object has the number of the lowest file that the holder
//! needs, so a holder outlives the process. A new holder needs all existing files. Read replicas hold no files: if a
//! file is deleted too early, they open their regions again.
//!
//! If a holder's object cannot be read, all files are kept, since a damaged object must not release any.

use std::collections::BTreeMap;
use std::sync::Arc;

use storage::{FileName, Files};

use crate::log::Shared;
use crate::register::Register;
use crate::sums::crc32c;
use crate::{Error, Result};

/// The folder of the holders' objects within the log's.
const HOLDERS: &str = "holders";
/// The folder of the holders' objects, with a slash, as the prefix of a name.
pub(crate) const HOLDERS_WITH_SLASH: &str = "holders/";

/// A named holder of log files: each file from [`lowest`](LogHolder::lowest) on is kept until the holder has released
/// it.
///
/// Dropping this value releases nothing: the holder is durable, and [`Log::hold`](crate::Log::hold) finds it again.
pub struct LogHolder {
    shared: Arc<Shared>,
    name: Box<str>,
}

impl LogHolder {
    pub(crate) fn new(shared: Arc<Shared>, name: Box<str>) -> LogHolder {
        LogHolder { shared, name }
    }

    /// Returns the holder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the lowest file that the holder needs; [`u64::MAX`] if the holder was removed.
    pub fn lowest(&self) -> u64 {
        self.shared.back().held_from.get(&self.name).copied().unwrap_or(u64::MAX)
    }

    /// Releases the files before number `lowest`. Durable when this returns. Does nothing if `lowest` is not greater
    /// than before. Fails if the holder was removed.
    pub fn advance(&self, lowest: u64) -> Result<()> {
        self.shared.advance_holder(&self.name, lowest)
    }

    /// Removes the holder, because it needs no file any more. Fails if its object cannot be deleted; then the files
    /// stay.
    pub fn release(self) -> Result<()> {
        self.shared.release_holder(&self.name)
    }
}

impl std::fmt::Debug for LogHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHolder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The objects of all holders of a log.
#[derive(Default)]
pub(crate) struct HolderObjects(BTreeMap<Box<str>, Register>);

/// The lowest file that each holder needs, by the holder's name.
pub(crate) type HeldFrom = BTreeMap<Box<str>, u64>;

impl HolderObjects {
    /// Finds the holders of the log in `folder`. Returns their objects, and the lowest file that each of them needs.
    pub(crate) fn open(files: &Arc<dyn Files>, folder: &FileName) -> Result<(HolderObjects, HeldFrom)> {
        let (mut objects, mut held) = (HolderObjects::default(), HeldFrom::new());
        let holders = folder.join(HOLDERS);
        for entry in files.list(&holders)? {
            let Some(name) = entry.name.below(&holders) else { continue };
            let Some(register) = Register::open(files, entry.name.clone(), CONTENT_MAX)? else { continue };
            let lowest = parse(register.content()).unwrap_or_else(|| {
                tracing::error!(target: "wal", object = %entry.name,
                    "this holder of log files is damaged, so it holds all of them: let it begin again, or remove the object");
                0
            });
            if lowest == RELEASED {
                // The content says that the holder was released. So a loss of power has undone the deletion of the
                // object, which is repeated now.
                files.delete(&entry.name)?;
                continue;
            }
            held.insert(name.into(), lowest);
            objects.0.insert(name.into(), register);
        }
        Ok((objects, held))
    }

    /// Whether there is a holder of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Records durably that `name` needs the files from `lowest` on.
    pub(crate) fn put(
        &mut self,
        files: &Arc<dyn Files>,
        folder: &FileName,
        name: &str,
        lowest: u64,
    ) -> Result<()> {
        let content = encode(lowest);
        match self.0.get_mut(name) {
            Some(register) => register.replace(&content),
            None => {
                let register = Register::create(files, folder.join(HOLDERS).join(name), &content)?;
                self.0.insert(name.into(), register);
                Ok(())
            }
        }
    }

    /// Removes a holder. Its object is first replaced by one that needs no file, because a loss of power may undo the
    /// removal of the object.
    pub(crate) fn remove(&mut self, files: &Arc<dyn Files>, folder: &FileName, name: &str) -> Result<()> {
        self.put(files, folder, name, RELEASED)?;
        self.0.remove(name);
        Ok(files.delete(&folder.join(HOLDERS).join(name))?)
    }
}

/// The file number in the object of a holder that needs no file.
const RELEASED: u64 = u64::MAX;
/// Maximum size of a holder's object, in bytes.
const CONTENT_MAX: usize = 256;

/// Fails if `name` cannot be the name of a holder, because it would not be a valid part of a file's name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=100).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Error::Storage(format!(
        "{name:?} cannot be the name of a holder of log files: expected 1 to 100 letters, digits, '-', '_' or '.'"
    )))
}

/// Encodes `lowest=NUMBER crc32c=SUM`, a line that people can read.
fn encode(lowest: u64) -> Vec<u8> {
    let text = format!("lowest={lowest}");
    format!("{text} crc32c={:08x}\n", crc32c(&[text.as_bytes()])).into_bytes()
}

fn parse(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
    let (text, sum) = text.split_once(" crc32c=")?;
    let fits = u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc32c(&[text.as_bytes()]));
    text.strip_prefix("lowest=").filter(|_| fits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holders_object_is_read_as_written_and_damage_is_seen() {
        let content = encode(17);
        assert!(content.starts_with(b"lowest=17 crc32c="));
        assert_eq!(parse(&content), Some(17));
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 0x04;
            assert_ne!(parse(&damaged), Some(17), "byte {at}");
            assert_ne!(parse(&content[..at]), Some(17), "cut at {at}");
        }
    }

    #[test]
    fn names_of_holders_must_be_valid_file_names() {
        for good in ["backup", "replication-peer_1", "a.b"] {
            check_name(good).expect(good);
        }
        for bad in ["", "a/b", "..", ".hidden", "a b"] {
            check_name(bad).expect_err(bad);
        }
    }
}
