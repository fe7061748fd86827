//! What an implementation of [`Files`](crate::Files) may lack, and how a caller asks for it.
//!
//! Every implementation can create, write, finish, read, list, delete and swap. The rest depends on the storage: an
//! object store publishes a file only when it is whole, and HDFS cannot truncate an open file. A caller that needs a
//! capability first asks for it; a call without it fails with [`Kind::Unsupported`](crate::Kind::Unsupported) and
//! changes nothing.

use std::fmt;

/// An ability that an implementation of [`Files`](crate::Files) may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Capability {
    /// [`FileWriter::sync`](crate::FileWriter::sync) makes the bytes written so far durable before the file is
    /// finished. Readers find all of them once the file is [sealed](crate::Files::seal) or finished. Before that they
    /// may find fewer, as in HDFS. The file has its name as soon as it is created.
    ///
    /// Without this capability a file appears, whole, when it is finished; an unfinished one can neither be listed nor
    /// opened.
    SyncPrefix,
    /// [`FileWriter::write`](crate::FileWriter::write) hands the bytes to the operating system, so they survive the
    /// death of the process.
    ///
    /// Without this capability they survive only after a sync, and a name that was [sealed](crate::Files::seal) can
    /// never be used for a new file.
    WriteThrough,
    /// [`FileWriter::cut`](crate::FileWriter::cut) truncates a file that is being written.
    Cut,
    /// [`Files::reuse_space`](crate::Files::reuse_space) begins a file in the space of another, which ceases to exist.
    ReuseSpace,
    /// A file that is open for reading can be read after it was deleted.
    ///
    /// Without this capability a read of a deleted file may fail with [`Kind::NotFound`](crate::Kind::NotFound), so the
    /// caller deletes a file only when it has no readers.
    ReadAfterDelete,
    /// [`Files::bytes_free`](crate::Files::bytes_free) returns the number of bytes that can still be written.
    FreeSpace,
    /// A [listing](crate::Files::list) has every file that was created before it began and not deleted since.
    ///
    /// Without this capability a listing may be stale.
    ListsAll,
    /// A lock keeps every other process away from the storage, also processes on other machines.
    ///
    /// Without this capability a process records itself in the storage as the owner, and detects there that another
    /// process has taken over.
    OneProcess,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 8] = [
        Capability::SyncPrefix,
        Capability::WriteThrough,
        Capability::Cut,
        Capability::ReuseSpace,
        Capability::ReadAfterDelete,
        Capability::FreeSpace,
        Capability::ListsAll,
        Capability::OneProcess,
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::SyncPrefix => "make a part of an unfinished file durable",
            Capability::WriteThrough => "keep what a process wrote when it dies",
            Capability::ListsAll => "list every file",
            Capability::OneProcess => "keep other processes away",
            Capability::Cut => "cut an unfinished file",
            Capability::ReuseSpace => "reuse the space of a file",
            Capability::ReadAfterDelete => "read a deleted file that is open",
            Capability::FreeSpace => "tell how much space is free",
        })
    }
}

/// A set of [capabilities](Capability).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u8);

impl Capabilities {
    /// The empty set.
    pub const NONE: Capabilities = Capabilities(0);
    /// All capabilities, as the local disk has them.
    pub const ALL: Capabilities = Capabilities::NONE
        .with(Capability::SyncPrefix)
        .with(Capability::Cut)
        .with(Capability::ReuseSpace)
        .with(Capability::ReadAfterDelete)
        .with(Capability::FreeSpace)
        .with(Capability::WriteThrough)
        .with(Capability::ListsAll)
        .with(Capability::OneProcess);

    /// Whether `capability` is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Returns the set with `capability`.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Capabilities {
        Capabilities(self.0 | capability.bit())
    }

    /// Returns the set without `capability`.
    #[must_use]
    pub const fn without(self, capability: Capability) -> Capabilities {
        Capabilities(self.0 & !capability.bit())
    }

    /// Returns every possible set, for tests that run over all of them.
    pub fn combinations() -> impl Iterator<Item = Capabilities> {
        (0..=Capabilities::ALL.0).map(Capabilities)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Capability::ALL.iter().filter(|&&one| self.has(one))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        assert_eq!(Capabilities::combinations().count(), 1 << Capability::ALL.len());
        let all = Capability::ALL.into_iter().fold(Capabilities::NONE, Capabilities::with);
        assert_eq!(all, Capabilities::ALL);
        let set = all.without(Capability::Cut);
        assert!(!set.has(Capability::Cut) && set.has(Capability::SyncPrefix));
        assert_eq!(format!("{:?}", Capabilities::NONE.with(Capability::Cut)), "{Cut}");
    }
}
