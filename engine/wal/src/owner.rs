//! The owner of a log: who may write it, and how another process takes the log over.
//!
//! The object `OWNER` beside the log's files names the owner. A process that takes the log over, to write it or only to read
//! it, does three things:
//!
//! 1. It replaces the object.
//! 2. It [seals](storage::Files::seal) every file. From then on the previous owner's writes to open files fail.
//! 3. It reads the files.
//!
//! The previous owner may still create a file, but it writes nothing to it: after creating a file, and before its first batch,
//! an owner reads the object again. If the object names another owner, it ends. If not, the file was created before the
//! new owner listed the files, and is sealed with the others.
//!
//! So the new owner reads everything that was acknowledged, and the previous owner acknowledges nothing more. It learns of
//! the change with its next write, sync or roll.

use std::sync::Arc;

use env::World;
use storage::{FileName, Files, Kind};

use crate::format::crc32c;
use crate::reader::numbered_files;
use crate::register::Register;
use crate::{Error, Result};

/// The name of the object in the log's folder.
pub(crate) const OWNER: &str = "OWNER";
/// Bytes of the object at most.
const CONTENT_MAX: usize = 1 << 10;

/// The process that owns a log, or has sealed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOwner {
    /// Larger than that of every owner before.
    pub(crate) epoch: u64,
    /// For people.
    pub(crate) name: String,
    /// Tells two owners of one name apart.
    nonce: u64,
}

impl LogOwner {
    /// `epoch=NUMBER nonce=NUMBER by=NAME crc32c=SUM`: a line that people can read.
    fn encode(&self) -> Vec<u8> {
        let LogOwner { epoch, name, nonce } = self;
        let text = format!("epoch={epoch} nonce={nonce:016x} by={name}");
        format!("{text} crc32c={:08x}\n", crc32c(&[text.as_bytes()])).into_bytes()
    }

    fn parse(content: &[u8]) -> Option<LogOwner> {
        let text = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
        let (text, sum) = text.rsplit_once(" crc32c=")?;
        let fits = u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc32c(&[text.as_bytes()]));
        let (epoch, rest) = text.strip_prefix("epoch=").filter(|_| fits)?.split_once(" nonce=")?;
        let (nonce, name) = rest.split_once(" by=")?;
        let nonce = u64::from_str_radix(nonce, 16).ok()?;
        Some(LogOwner { epoch: epoch.parse().ok()?, name: name.to_owned(), nonce })
    }
}

/// The right to a log, until another takes it.
pub(crate) struct Claim {
    register: Register,
    pub(crate) owner: LogOwner,
}

impl Claim {
    /// Takes the log from whoever has it. When this returns, nothing that the owner before writes succeeds.
    ///
    /// Fails when another takes it at the same time: one of the two has it then.
    pub(crate) fn take(
        world: &World,
        files: &Arc<dyn Files>,
        folder: &FileName,
        name: &str,
    ) -> Result<Claim> {
        let object = folder.join(OWNER);
        let before = Register::open(files, object.clone(), CONTENT_MAX)?;
        let epoch = before.as_ref().map_or(0, |before| {
            LogOwner::parse(before.content()).map_or_else(
                || {
                    tracing::error!(target: "wal", %object, "the object that names the log's owner is damaged, and replaced");
                    0
                },
                |owner| owner.epoch,
            )
        });
        // A line holds a name without line ends.
        let name = name.chars().take(CONTENT_MAX / 8).filter(|it| !it.is_control()).collect();
        let owner = LogOwner { epoch: epoch + 1, name, nonce: world.random() };
        let register = match before {
            None => Register::create(files, object, &owner.encode())?,
            Some(mut register) => {
                register.replace(&owner.encode())?;
                register
            }
        };
        for (_, name) in numbered_files(&**files, folder)? {
            match files.seal(&name) {
                Err(error) if error.kind() != Kind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Claim { register, owner })
    }

    /// Says in the object that the epoch is at least `epoch`: files that were written before there was such an object have one.
    pub(crate) fn raise_epoch(&mut self, epoch: u64) -> Result<()> {
        if epoch > self.owner.epoch {
            self.owner.epoch = epoch;
            self.register.replace(&self.owner.encode())?;
        }
        Ok(())
    }

    /// Fails with [`Error::Fenced`] when another has taken the log.
    pub(crate) fn check(&self) -> Result<()> {
        let found = self.register.look(CONTENT_MAX)?;
        if found.as_deref() == Some(self.register.content()) {
            return Ok(());
        }
        let other = found.as_deref().and_then(LogOwner::parse);
        Err(match other {
            Some(LogOwner { epoch, name, .. }) => Error::Fenced { epoch, by: name },
            None => Error::Fenced { epoch: 0, by: "somebody who removed the object OWNER".to_owned() },
        })
    }

    /// The error for a file that turns out to be sealed.
    pub(crate) fn fenced(&self) -> Error {
        match self.check() {
            Err(fenced @ Error::Fenced { .. }) => fenced,
            _ => Error::Fenced { epoch: 0, by: "somebody whose name cannot be read".to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owners_object_is_read_as_written_and_damage_is_seen() {
        let owner = LogOwner { epoch: 7, name: "host,16020,1 by=x crc32c=1".to_owned(), nonce: 0xabc };
        let content = owner.encode();
        assert_eq!(LogOwner::parse(&content), Some(owner.clone()));
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 0x04;
            assert_ne!(LogOwner::parse(&damaged), Some(owner.clone()), "byte {at}");
            assert_eq!(LogOwner::parse(&content[..at]), None, "cut at {at}");
        }
    }
}
