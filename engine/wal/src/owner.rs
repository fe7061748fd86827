//! The owner of a log: who may write it, and how another process takes the log over.
//!
//! The object `OWNER` beside the log's files names the owner. A process takes over the log, to write it or only to read
//! it, in three steps:
//!
//! 1. It replaces the object.
//! 2. It lists the files, checks that the object still names it, and [seals](storage::Files::seal) them. From then on the
//!    previous owner's writes to open files fail.
//! 3. It reads the files.
//!
//! The previous owner may still create a file, but it writes nothing to it: after creating a file, and before its first
//! batch, an owner reads the object again. If the object names another owner, the previous owner ends. If not, the file
//! was created before the new owner listed the files, and is sealed with the others.
//!
//! Where a listing may be stale, the object also says which files may exist: the owner records the number of a file in
//! it before it creates the file.
//!
//! So the new owner reads everything that was acknowledged, and the previous owner acknowledges nothing more. The
//! previous owner learns of the change with its next write, sync or roll.

use std::sync::Arc;

use env::World;
use env::sync::Mutex;
use storage::{Capability, FileName, Files, Kind};

use crate::reader::numbered_files;
use crate::register::Register;
use crate::sums::crc32c;
use crate::{Error, Result};

/// The name of the object in the log's folder.
pub(crate) const OWNER: &str = "OWNER";
/// Maximum size of the object, in bytes.
const CONTENT_MAX: usize = 1 << 10;

/// The process that owns a log, or has sealed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOwner {
    /// The owner's epoch, which is larger than that of every earlier owner.
    pub(crate) epoch: u64,
    /// The owner's name, for people.
    pub(crate) name: String,
    /// A random number that distinguishes two owners with the same name.
    nonce: u64,
}

impl LogOwner {
    /// Encodes `epoch=NUMBER nonce=NUMBER files=FIRST..LAST by=NAME crc32c=SUM`, a line that people can read. `files`
    /// is written only where listings may be stale.
    fn encode(&self, files: Option<NotedFiles>) -> Vec<u8> {
        let LogOwner { epoch, name, nonce } = self;
        let files =
            files.map_or_else(String::new, |NotedFiles { first, last }| format!(" files={first}..{last}"));
        let text = format!("epoch={epoch} nonce={nonce:016x}{files} by={name}");
        format!("{text} crc32c={:08x}\n", crc32c(&[text.as_bytes()])).into_bytes()
    }

    fn parse(content: &[u8]) -> Option<(LogOwner, Option<NotedFiles>)> {
        let text = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
        let (text, sum) = text.rsplit_once(" crc32c=")?;
        let fits = u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc32c(&[text.as_bytes()]));
        let (epoch, rest) = text.strip_prefix("epoch=").filter(|_| fits)?.split_once(" nonce=")?;
        let (nonce, name) = rest.split_once(" by=")?;
        let (nonce, files) = match nonce.split_once(" files=") {
            None => (nonce, None),
            Some((nonce, files)) => {
                let (first, last) = files.split_once("..")?;
                (nonce, Some(NotedFiles { first: first.parse().ok()?, last: last.parse().ok()? }))
            }
        };
        let nonce = u64::from_str_radix(nonce, 16).ok()?;
        Some((LogOwner { epoch: epoch.parse().ok()?, name: name.to_owned(), nonce }, files))
    }

    pub(crate) fn is(&self, other: &LogOwner) -> bool {
        (self.epoch, self.nonce) == (other.epoch, other.nonce)
    }

    /// Whether `later`, which the object names after this owner, owns a log that was begun anew: this one was deleted with
    /// all its files, or the object was. Otherwise each owner has a greater epoch than the one before.
    pub(crate) fn is_of_another_log(&self, later: Option<&LogOwner>) -> bool {
        later.is_none_or(|later| !self.is(later) && later.epoch <= self.epoch)
    }
}

/// The numbers of the first and the last file that may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotedFiles {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Returns the files that the owner of the log in `folder` has recorded; `None` where listings are never stale, or if
/// the object does not exist or is damaged.
pub(crate) fn noted_files(files: &dyn Files, folder: &FileName) -> Result<Option<NotedFiles>> {
    if files.capabilities().has(Capability::ListsAll) {
        return Ok(None);
    }
    Ok(read_owner(files, folder)?.and_then(|(_, noted)| noted))
}

/// Returns the owner of the log in `folder`, and the files that it has recorded; `None` if the object does not exist or is
/// damaged. Takes one request.
pub(crate) fn read_owner(
    files: &dyn Files,
    folder: &FileName,
) -> Result<Option<(LogOwner, Option<NotedFiles>)>> {
    match files.read(&folder.join(OWNER), CONTENT_MAX) {
        Ok(content) => Ok(LogOwner::parse(&content)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The right of this process to write a log, until another process takes it over.
pub(crate) struct Claim {
    register: Mutex<Register>,
    pub(crate) owner: LogOwner,
    /// The previous owner's name; `None` if there was none, or if the object was damaged.
    pub(crate) previous: Option<String>,
    /// The files that the previous owner has recorded.
    pub(crate) noted: Option<NotedFiles>,
}

impl Claim {
    /// Takes over the log from its owner. When this returns, every write of the previous owner fails.
    ///
    /// Fails if another process takes over the log at the same time; one of the two then has it, and the other one gets
    /// [`Error::Fenced`] with its name.
    pub(crate) fn take(
        world: &World,
        files: &Arc<dyn Files>,
        folder: &FileName,
        name: &str,
    ) -> Result<Claim> {
        let object = folder.join(OWNER);
        // The name becomes a part of one line of text, so control characters are left out.
        let name: String = name.chars().take(CONTENT_MAX / 8).filter(|it| !it.is_control()).collect();
        let mut owner = LogOwner { epoch: 0, name, nonce: world.random() };
        let mut last = None;
        let (register, previous, noted) = loop {
            let before = Register::open(files, object.clone(), CONTENT_MAX)?;
            let parsed = before.as_ref().map(|before| LogOwner::parse(before.content()));
            if let Some(None) = parsed {
                tracing::error!(target: "wal", %object, "the object that names the log's owner is damaged, and replaced");
            }
            let (previous, noted) = parsed.flatten().unzip();
            let noted = noted.flatten();
            owner.epoch = previous.as_ref().map_or(0, |owner| owner.epoch) + 1;
            let content = owner.encode(noted);
            let taken = match before {
                None => Register::create(files, object.clone(), &content),
                Some(mut register) => register.replace(&content).map(|()| register),
            };
            match taken {
                Ok(register) => break (register, previous.map(|owner| owner.name), noted),
                // The previous owner may just have recorded a file, which changed the object: try again. If the object
                // has not changed since the last attempt, another process is taking over, and the error is returned.
                Err(_) if previous.is_some() && last != Some(noted) => last = Some(noted),
                Err(error) => {
                    return Err(winner(&**files, folder, previous.as_ref(), &owner).unwrap_or(error));
                }
            }
        };
        let numbered = numbered_files(&**files, folder, noted)?;
        let claim = Claim { register: Mutex::new(register), owner, previous, noted };
        // A process that hung may find a file that a later owner has begun, and must not seal it. A later owner that
        // comes after this check begins no file that was listed before it.
        if !files.capabilities().has(Capability::OneProcess) {
            claim.check()?;
        }
        files.seal_all(&numbered.into_iter().map(|(_, name)| name).collect::<Vec<_>>())?;
        Ok(claim)
    }

    /// Raises the epoch in the object to at least `epoch`, for a log whose files are older than the object.
    pub(crate) fn raise_epoch(&mut self, epoch: u64) -> Result<()> {
        if epoch > self.owner.epoch {
            self.owner.epoch = epoch;
            self.register.get_mut().replace(&self.owner.encode(self.noted))?;
        }
        Ok(())
    }

    /// Records in the object which files may exist. Fails with [`Error::Fenced`] if another process has taken over the
    /// log.
    pub(crate) fn note_files(&self, files: NotedFiles) -> Result<()> {
        let content = self.owner.encode(Some(files));
        let mut register = self.register.lock();
        if register.replace(&content).is_ok() {
            return Ok(());
        }
        // Either another process has taken the log, or an earlier replacement by this owner took effect although it was
        // reported as failed.
        if !register.refresh(CONTENT_MAX)? || !self.is_named_in(register.content()) {
            return Err(self.other(Some(register.content())));
        }
        register.replace(&content)
    }

    fn is_named_in(&self, content: &[u8]) -> bool {
        LogOwner::parse(content).is_some_and(|(owner, _)| owner.is(&self.owner))
    }

    /// Fails with [`Error::Fenced`] if another process has taken over the log.
    pub(crate) fn check(&self) -> Result<()> {
        let found = self.register.lock().look(CONTENT_MAX)?;
        if found.as_deref().is_some_and(|content| self.is_named_in(content)) {
            return Ok(());
        }
        Err(self.other(found.as_deref()))
    }

    /// Returns the error that names the new owner, if `content` names another owner than this process.
    fn other(&self, content: Option<&[u8]>) -> Error {
        match content.and_then(LogOwner::parse).filter(|(owner, _)| !owner.is(&self.owner)) {
            Some((LogOwner { epoch, name, .. }, _)) => Error::Fenced { epoch, by: name },
            None => Error::Fenced { epoch: 0, by: "somebody who removed the object OWNER".to_owned() },
        }
    }

    /// Returns the error for a write to a sealed file.
    pub(crate) fn fenced(&self) -> Error {
        match self.check() {
            Err(fenced @ Error::Fenced { .. }) => fenced,
            _ => Error::Fenced { epoch: 0, by: "somebody whose name cannot be read".to_owned() },
        }
    }
}

/// Returns the error that names the process which has taken the log after `previous` and before this process, `owner`; `None`
/// if the object does not name one.
fn winner(
    files: &dyn Files,
    folder: &FileName,
    previous: Option<&LogOwner>,
    owner: &LogOwner,
) -> Option<Error> {
    let (found, _) = read_owner(files, folder).ok()??;
    let is_known = found.nonce == owner.nonce || previous.is_some_and(|previous| previous.is(&found));
    (!is_known).then_some(Error::Fenced { epoch: found.epoch, by: found.name })
}

#[cfg(test)]
mod tests {
    use storage::{Capabilities, Memory, Overlay, Version};

    use super::*;

    /// Storage in which another process takes over the log between this process's reading of the object and its writing.
    struct Contested {
        below: Memory,
        folder: FileName,
    }

    impl Overlay for Contested {
        fn below(&self) -> &dyn Files {
            &self.below
        }

        fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> storage::Result<Version> {
            let below: Arc<dyn Files> = Arc::new(self.below.clone());
            Claim::take(&World::real(), &below, &self.folder, "winner").expect("it is the first");
            self.below.swap(name, expected, new)
        }
    }

    #[test]
    fn the_loser_of_two_names_the_winner() {
        for has_owner in [false, true] {
            let (below, folder) = (Memory::with(Capabilities::NONE), FileName::new("WALs"));
            if has_owner {
                let place: Arc<dyn Files> = Arc::new(below.clone());
                Claim::take(&World::real(), &place, &folder, "previous").expect("it is alone");
            }
            let place: Arc<dyn Files> = Arc::new(Contested { below, folder: folder.clone() });
            match Claim::take(&World::real(), &place, &folder, "loser").map(|claim| claim.owner) {
                Err(Error::Fenced { by, .. }) => assert_eq!(by, "winner", "{has_owner}"),
                other => panic!("{has_owner}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_owners_object_is_read_as_written_and_damage_is_seen() {
        let owner = LogOwner { epoch: 7, name: "host,16020,1 by=x crc32c=1".to_owned(), nonce: 0xabc };
        for files in [None, Some(NotedFiles { first: 3, last: 12 })] {
            let content = owner.encode(files);
            let whole = Some((owner.clone(), files));
            assert_eq!(LogOwner::parse(&content), whole);
            for at in 0..content.len() {
                let mut damaged = content.clone();
                damaged[at] ^= 0x04;
                assert_ne!(LogOwner::parse(&damaged), whole, "byte {at}");
                assert_eq!(LogOwner::parse(&content[..at]), None, "cut at {at}");
            }
        }
    }
}
