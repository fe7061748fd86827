//! Reads a growing file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::sync::Mutex;

use super::kept::KeptParts;
use super::part::{self, HEADER_LENGTH, Part, PartKind};
use super::{PART_MAX, Segmented, leading_of, parts_among};
use crate::{Error, FileName, FileReader, GrowingFile, Kind, Outcome, Result};

/// Maximum number of parts that a reader that follows a file requests at the same time. It does not know how many there
/// are, so some of these requests find nothing.
const FOLLOWED_AT_ONCE: usize = 16;
/// Maximum size of the parts that are read ahead, in bytes.
const AHEAD_BYTES: u64 = 32 << 20;
/// Maximum size of all parts that are read when files are opened together, in bytes.
const OPENED_BYTES: u64 = 64 << 20;

/// A growing file as it was when it was opened. The reader keeps parts that it has read.
pub(super) struct Reader {
    files: Segmented,
    name: FileName,
    /// Offset of each part's payload in the file.
    starts: Vec<u64>,
    size: u64,
    /// Whether the last part ends or seals the file.
    is_ended: bool,
    parts: KeptParts,
    /// Locked by the thread that requests parts, so that none is requested twice.
    fetching: Mutex<()>,
}

/// Opens files in one folder, in the order of `names`; see [`Files::open_all`](crate::Files::open_all).
///
/// The parts are requested first, for all files at the same time: every listed part of the files that come first in
/// `names` and have together at most [`OPENED_BYTES`] bytes; of the others the first two and the last listed one, which
/// have the beginning and mostly the index of the file. Then the end of each file is searched, one file after the other.
pub(super) fn open_all(files: &Segmented, names: &[FileName]) -> Vec<Result<Arc<dyn FileReader>>> {
    let folder = names.first().and_then(FileName::parent);
    let folder = folder.filter(|folder| names.iter().all(|name| name.parent().as_ref() == Some(folder)));
    let Some(listed) = folder.and_then(|folder| files.base.list(&folder).ok()) else {
        return names.iter().map(|name| crate::Files::open(files, name)).collect();
    };
    let sizes: Vec<_> = names.iter().map(|name| leading_of(parts_among(&listed, name))).collect();
    let (mut wanted, mut left) = (Vec::new(), OPENED_BYTES);
    for (file, sizes) in sizes.iter().enumerate() {
        let bytes = sizes.iter().sum::<u64>();
        let is_read = bytes <= left;
        if is_read {
            left -= bytes;
        }
        let is_wanted = |number: &usize| is_read || *number < 2 || number + 1 == sizes.len();
        wanted.extend((0..sizes.len()).filter(is_wanted).map(|number| (file, number)));
    }
    let found: Vec<_> = sizes.iter().map(|sizes| Mutex::new(vec![None; sizes.len()])).collect();
    let next = AtomicUsize::new(0);
    env::together("log-parts", files.reads_max.min(wanted.len()), || {
        while let Some(&(file, number)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            // A part that cannot be read now is requested again when it is needed, and then an error is reported.
            if let Ok(object) = files.base.load(&part::name(&names[file], number as u32), PART_MAX) {
                found[file].lock()[number] = Some(Arc::from(object.content));
            }
        }
    });
    let found = found.into_iter().map(Mutex::into_inner);
    let opened = names.iter().zip(sizes).zip(found).map(|((name, sizes), found)| {
        let reader = Reader::open_listed(files.clone(), name.clone(), &sizes, found)?;
        Ok(Arc::new(reader) as Arc<dyn FileReader>)
    });
    opened.collect()
}

/// The result of looking for the next part.
enum Next {
    Nothing,
    /// A part with bytes of the file, and whether it is the last.
    Part {
        content: Arc<[u8]>,
        is_last: bool,
    },
    Seal,
}

/// The parts of a file that are known so far, from the first one on.
#[derive(Default)]
struct KnownParts {
    /// The offset of each part's payload in the file.
    starts: Vec<u64>,
    /// The offset after the last part.
    size: u64,
    /// The content of parts that were read.
    parts: Vec<Option<Arc<[u8]>>>,
    is_ended: bool,
}

impl KnownParts {
    /// Adds what was found after the last part. Returns whether more may follow.
    fn add(&mut self, next: Next) -> bool {
        match next {
            Next::Nothing => return false,
            Next::Seal => self.is_ended = true,
            Next::Part { content, is_last } => {
                self.starts.push(self.size);
                self.size += part::payload_size(content.len() as u64);
                self.parts.push(Some(content));
                self.is_ended = is_last;
            }
        }
        !self.is_ended
    }

    /// Adds all parts that follow. In most calls there is no further part, so only one is requested first. If it exists,
    /// several are requested at once: otherwise a reader would never reach the end of a file that grows fast.
    fn follow(&mut self, files: &Segmented, name: &FileName) -> Result<()> {
        let mut at_once = 1;
        while !self.is_ended {
            let found = next_parts(files, name, self.starts.len() as u32, at_once)?;
            if !found.into_iter().all(|next| self.add(next)) {
                break;
            }
            at_once = (at_once * 2).min(FOLLOWED_AT_ONCE);
        }
        Ok(())
    }
}

/// Requests `count` parts from number `from` on at once. Returns them in order, up to the first absent one.
fn next_parts(files: &Segmented, name: &FileName, from: u32, count: usize) -> Result<Vec<Next>> {
    if count == 1 {
        return Ok(vec![next_part(files, name, from)?]);
    }
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Result<Next>>>> = Mutex::new((0..count).map(|_| None).collect());
    env::together("log-parts", count, || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let part = next_part(files, name, from + index as u32);
            found.lock()[index] = Some(part);
        }
    });
    let mut parts = Vec::with_capacity(count);
    for part in found.into_inner().into_iter().flatten() {
        let part = part?;
        let is_end = matches!(part, Next::Nothing);
        parts.push(part);
        if is_end {
            break;
        }
    }
    Ok(parts)
}

impl Reader {
    pub(super) fn open(files: Segmented, name: FileName) -> Result<Reader> {
        let sizes = files.leading(&name)?;
        Reader::open_listed(files, name, &sizes, Vec::new())
    }

    /// Opens the file whose first parts have the payload sizes `sizes`, according to a listing. `found` has the objects
    /// of some of these parts.
    fn open_listed(
        files: Segmented,
        name: FileName,
        sizes: &[u64],
        found: Vec<Option<Arc<[u8]>>>,
    ) -> Result<Reader> {
        let has_first = found.first().is_some_and(|first| first.is_some());
        // The listed sizes are right, because parts never change. Parts that the listing lacks are searched below.
        let mut known = KnownParts::default();
        for payload in sizes {
            known.starts.push(known.size);
            known.size += payload;
        }
        known.parts = found;
        known.parts.resize(known.starts.len(), None);
        // The last listed part is read again, because it may end the file. If even the first part does not exist, there is no
        // file.
        if let Some(last) = known.starts.pop() {
            known.size = last;
            let number = known.starts.len() as u32;
            let next = match known.parts.pop().flatten() {
                Some(content) => parse_next(&part::name(&name, number), content)?,
                None => next_part(&files, &name, number)?,
            };
            known.add(next);
        }
        known.follow(&files, &name)?;
        if known.starts.is_empty() && !known.is_ended {
            return Err(files.absent(&name, "open"));
        }
        let KnownParts { starts, size, parts, is_ended } = known;
        // A file without its first part was deleted. If the file has ended, it is enough that the first part was there
        // during this call.
        if starts.len() > 1 && !(is_ended && has_first) {
            files.part(&name, 0)?.ok_or_else(|| files.absent(&name, "open"))?;
        }
        let kept = KeptParts::new(Arc::clone(&files.kept), starts.len());
        let reader = Reader { files, name, starts, size, is_ended, parts: kept, fetching: Mutex::default() };
        // A part that does not fit is read again when it is needed, and then the error is reported.
        for (index, part) in parts.into_iter().enumerate() {
            if let Some(content) = part
                && reader.check(index, &content).is_ok()
            {
                reader.parts.insert(index, content);
            }
        }
        Ok(reader)
    }

    /// Returns the header and the payload of a part.
    fn part(&self, index: usize) -> Result<Arc<[u8]>> {
        if let Some(part) = self.parts.get(index) {
            return Ok(part);
        }
        self.fetch(index)
    }

    /// Reads the part with index `from`, and returns it. If the part before it was read, also reads parts that follow
    /// it, of at most [`AHEAD_BYTES`] bytes and a quarter of those that are kept.
    fn fetch(&self, from: usize) -> Result<Arc<[u8]>> {
        let _others_wait = self.fetching.lock();
        if let Some(part) = self.parts.get(from) {
            return Ok(part);
        }
        let ahead = AHEAD_BYTES.min(self.files.kept.bytes_max() / 4);
        let to = match from > 0 && self.parts.get(from - 1).is_some() {
            true => self.starts.partition_point(|start| *start <= self.starts[from] + ahead),
            false => from + 1,
        };
        let next = AtomicUsize::new(from);
        // The part may be dropped again before this call ends, so it is not taken from those that are kept.
        let wanted = Mutex::new(None);
        env::together("log-parts", self.files.reads_max.min(to - from), || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= to {
                    return;
                }
                if self.parts.get(index).is_some() {
                    continue;
                }
                let part = self.load(index);
                if let Ok(part) = &part {
                    self.parts.insert(index, Arc::clone(part));
                }
                // A part that was only read ahead is read again when it is needed, and then an error is reported.
                if index == from {
                    *wanted.lock() = Some(part);
                }
            }
        });
        wanted.into_inner().unwrap_or_else(|| self.load(from))
    }

    fn load(&self, index: usize) -> Result<Arc<[u8]>> {
        let name = part::name(&self.name, index as u32);
        let content = self.files.base.load(&name, PART_MAX)?.content;
        self.check(index, &content)?;
        Ok(content.into())
    }

    /// Fails if the object `content` of a part is damaged, or has other bytes of the file than the parts beside it say.
    fn check(&self, index: usize, content: &[u8]) -> Result<()> {
        let name = part::name(&self.name, index as u32);
        let part = Part::parse(&name, content)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.size);
        let is_expected = part.offset == self.starts[index]
            && (content.len() - HEADER_LENGTH) as u64 == end - self.starts[index];
        if !is_expected {
            return Err(Error::new(Kind::Failed, Outcome::DidNotHappen, &name, "read").because(format!(
                "it has {} bytes at offset {} of the file, expected {} at {}, as the parts beside it say",
                content.len() - HEADER_LENGTH,
                part.offset,
                end - self.starts[index],
                self.starts[index]
            )));
        }
        Ok(())
    }
}

/// Looks for part `number` of the file.
fn next_part(files: &Segmented, name: &FileName, number: u32) -> Result<Next> {
    let at = part::name(name, number);
    let content = match files.base.load(&at, PART_MAX) {
        Ok(object) => object.content,
        Err(error) if error.kind() == Kind::NotFound => return Ok(Next::Nothing),
        Err(error) => return Err(error),
    };
    parse_next(&at, content.into())
}

/// Returns what the object `content` of the part `at` says about the file.
fn parse_next(at: &FileName, content: Arc<[u8]>) -> Result<Next> {
    Ok(match Part::parse(at, &content)?.kind {
        PartKind::Seal => Next::Seal,
        kind => Next::Part { content, is_last: kind == PartKind::End },
    })
}

impl GrowingFile for Reader {
    fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn parts(&self) -> usize {
        self.starts.len()
    }

    fn grown(&self) -> Result<Arc<dyn FileReader>> {
        // A reader that follows the file has read the earlier parts already, so they are not kept.
        let mut known = KnownParts {
            starts: self.starts.clone(),
            size: self.size,
            parts: vec![None; self.starts.len()],
            is_ended: self.is_ended,
        };
        known.follow(&self.files, &self.name)?;
        let KnownParts { starts, size, parts, is_ended } = known;
        if starts.len() == self.starts.len() && !is_ended {
            // A missing next part may also mean that the file was deleted. The first part shows that.
            self.files.part(&self.name, 0)?.ok_or_else(|| self.files.absent(&self.name, "read"))?;
        }
        let (files, name) = (self.files.clone(), self.name.clone());
        let kept = KeptParts::new(Arc::clone(&files.kept), starts.len());
        for (index, part) in parts.into_iter().enumerate() {
            part.into_iter().for_each(|part| kept.insert(index, part));
        }
        Ok(Arc::new(Reader { files, name, starts, size, is_ended, parts: kept, fetching: Mutex::default() }))
    }
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn as_growing(&self) -> Option<&dyn GrowingFile> {
        Some(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read").because(
                format!("{} bytes at offset {offset} expected, the file has {}", buffer.len(), self.size),
            ));
        }
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            // Several parts can begin at one offset, if some are empty. The last of them has the byte.
            let index = self.starts.partition_point(|start| *start <= at) - 1;
            let part = self.part(index)?;
            let from = HEADER_LENGTH + (at - self.starts[index]) as usize;
            let length = rest.len().min(part.len() - from);
            let (front, back) = rest.split_at_mut(length);
            front.copy_from_slice(&part[from..from + length]);
            (at, rest) = (at + length as u64, back);
        }
        Ok(())
    }
}
