//! Copies a file and compares the copy with its source.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{Capability, EarlyRead, Error, FileName, FileReader, Files, Kind, Outcome, Result};

/// Number of bytes that a copy reads at once: 1 MB.
const PART_BYTES: usize = 1 << 20;

/// Number of parts that are requested before they are needed, where [`FileReader::read_early`] gains anything.
const PARTS_AHEAD: usize = 4;

/// Number of attempts before a copy fails.
const ATTEMPTS: usize = 3;

/// Writes all bytes of `from` into the new file `to`, finishes it, and compares both by reading them again. Returns the
/// size in bytes.
///
/// Callers delete the source afterwards, so one wrong read of the source must not become the only content that is left.
/// A copy that differs is deleted and written again. If the third copy differs, too, the call fails with
/// [`Kind::Failed`], and there is no copy. After any other error there may be one, also an incomplete one.
///
/// In storage that several processes reach, a process that was replaced may run this beside its successor, which deletes
/// the source when it has its copy. So a copy is deleted only if it differs from the source, and not if one of them
/// could not be read or written: the process may have stopped before the deletion, and by now it is the successor's copy.
pub fn copy<F: Files + ?Sized>(from: &dyn FileReader, files: &F, to: &FileName) -> Result<u64> {
    for _ in 0..ATTEMPTS {
        write_parts(from, files, to)?;
        if first_difference(from, files, to)?.is_none() {
            return Ok(from.size());
        }
        files.delete(to)?;
    }
    Err(Error::new(Kind::Failed, Outcome::DidNotHappen, to, "copy a file to").because(format!(
        "the copy differed from its source {ATTEMPTS} times; the source is kept; check the device for read and write errors"
    )))
}

/// Copies a file as [`copy`] does. If `to` exists and has the same bytes, it counts as the copy; with other bytes it is
/// replaced.
pub fn copy_unless_there<F: Files + ?Sized>(from: &dyn FileReader, files: &F, to: &FileName) -> Result<u64> {
    match copy(from, files, to) {
        Err(error) if error.kind() == Kind::Exists => {}
        copied => return copied,
    }
    if first_difference(from, files, to)?.is_some() {
        files.delete(to)?;
        return copy(from, files, to);
    }
    Ok(from.size())
}

/// Whether the file `to` has the same bytes as `from`. Fails if there is no file `to`.
pub fn is_copy<F: Files + ?Sized>(from: &dyn FileReader, files: &F, to: &FileName) -> Result<bool> {
    Ok(first_difference(from, files, to)?.is_none())
}

fn write_parts<F: Files + ?Sized>(from: &dyn FileReader, files: &F, name: &FileName) -> Result<u64> {
    let mut to = files.create(name)?;
    for part in Parts::of(from) {
        if let Err(error) = part.and_then(|(_, part)| to.write(&part)) {
            // Where an unfinished file has its name already, another process may have replaced it.
            let can = files.capabilities();
            if can.has(Capability::OneProcess) || !can.has(Capability::SyncPrefix) {
                to.abandon();
            }
            return Err(error);
        }
    }
    to.finish()
}

/// Returns the offset of the first part in which the file `to` differs from `from`; 0 if the sizes differ, `None` if
/// the files are equal.
fn first_difference<F: Files + ?Sized>(
    from: &dyn FileReader,
    files: &F,
    to: &FileName,
) -> Result<Option<u64>> {
    let copy = files.open(to)?;
    if copy.size() != from.size() {
        return Ok(Some(0));
    }
    for (source, written) in Parts::of(from).zip(Parts::of(&*copy)) {
        let ((at, source), (_, written)) = (source?, written?);
        if source != written {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// A file that is read from its beginning to its end, part by part.
struct Parts<'a> {
    from: &'a dyn FileReader,
    /// The offset up to which parts were requested.
    requested: u64,
    /// The parts that were requested, with their offsets. A part is `None` where it is read when it is needed.
    waiting: VecDeque<(u64, usize, Option<EarlyRead>)>,
}

impl Parts<'_> {
    fn of(from: &dyn FileReader) -> Parts<'_> {
        Parts { from, requested: 0, waiting: VecDeque::new() }
    }
}

impl Iterator for Parts<'_> {
    /// The offset of a part, and its bytes.
    type Item = Result<(u64, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.waiting.len() < PARTS_AHEAD && self.requested < self.from.size() {
            let at = self.requested;
            let length = (self.from.size() - at).min(PART_BYTES as u64) as usize;
            self.waiting.push_back((at, length, self.from.read_early(at, length)));
            self.requested += length as u64;
        }
        let (at, length, early) = self.waiting.pop_front()?;
        let bytes = early.map_or_else(
            || {
                let mut part = vec![0; length];
                self.from.read_at(at, &mut part).map(|()| part.into())
            },
            |early| early(),
        );
        Some(bytes.map(|bytes| (at, bytes)))
    }
}
