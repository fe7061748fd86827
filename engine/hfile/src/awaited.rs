//! Blocks that a caller awaits instead of blocking a thread.
//!
//! A read in memory that misses a block of a file on slow storage fails with [`Error::Missing`](crate::Error::Missing).
//! The error carries the file and the range, and is a future:
//!
//! 1. The caller awaits the [`MissingBlock`]. All callers that miss the same range at the same time share one read.
//! 2. The caller keeps the [`ArrivedBlock`] and repeats its own read. The reader finds the bytes in it, whether or not
//!    the cache has kept the block. So each repetition gets at least one block further.
//! 3. When the last caller drops its [`ArrivedBlock`], the bytes are freed.
//!
//! A file on the local disk has no awaited reads: there the error is [`Error::NotCached`](crate::Error::NotCached), and
//! the caller repeats the read on a blocking thread pool.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use env::sync::Mutex;
use storage::{AwaitedRead, FileName};

use crate::{Error, Result};

/// Number of bytes read at the offset of a block of unknown length: a block of the usual 64 KB and what follows it.
pub(crate) const UNKNOWN_LENGTH: usize = 128 << 10;

/// A block that is not in memory: a future that resolves when its bytes have been read, or with the error of that read.
pub struct MissingBlock {
    fetch: Arc<Fetch>,
}

/// Keeps the bytes of a block in memory for the caller's next attempt.
pub struct ArrivedBlock {
    fetch: Arc<Fetch>,
}

/// The fetches of one file, by offset.
#[derive(Default)]
pub(crate) struct Fetches(Mutex<BTreeMap<u64, Weak<Fetch>>>);

/// The state of the bytes at an offset of the file.
pub(crate) enum Lookup {
    /// The bytes have arrived, beginning at the offset.
    Arrived(Bytes),
    /// The bytes are being read.
    Pending(MissingBlock),
    /// The bytes were not requested.
    Unknown,
}

/// One read that several callers may await.
struct Fetch {
    file: FileName,
    offset: u64,
    length: usize,
    progress: Mutex<Progress>,
    waiting: Arc<Waiting>,
}

enum Progress {
    Reading(AwaitedRead),
    Arrived(Bytes),
    Failed(storage::Error),
}

/// The tasks that await a fetch. Any of them may poll the read, so all of them are woken.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        std::mem::take(&mut *self.0.lock()).into_iter().for_each(Waker::wake);
    }
}

impl Fetches {
    pub(crate) fn lookup(&self, offset: u64) -> Lookup {
        let fetches = self.0.lock();
        let nearest = fetches.range(..=offset).next_back();
        let Some(fetch) = nearest.and_then(|(_, fetch)| fetch.upgrade()) else { return Lookup::Unknown };
        let skipped = offset - fetch.offset;
        if skipped >= fetch.length as u64 {
            return Lookup::Unknown;
        }
        let arrived = match &*fetch.progress.lock() {
            Progress::Arrived(bytes) => Some(bytes.slice(skipped as usize..)),
            Progress::Reading(_) => None,
            Progress::Failed(_) => return Lookup::Unknown,
        };
        match arrived {
            Some(bytes) => Lookup::Arrived(bytes),
            None => Lookup::Pending(MissingBlock { fetch }),
        }
    }

    /// Registers `read`, which has not begun, so that all callers that miss a block in its range share it. If another
    /// read of the same offset was registered first, is at least as long and has not failed, that one is used instead.
    /// Returns the future to await.
    pub(crate) fn begin(
        &self,
        file: &FileName,
        offset: u64,
        length: usize,
        read: AwaitedRead,
    ) -> MissingBlock {
        let fetch = Arc::new(Fetch {
            file: file.clone(),
            offset,
            length,
            progress: Mutex::new(Progress::Reading(read)),
            waiting: Arc::default(),
        });
        let mut fetches = self.0.lock();
        let same = fetches.get(&offset).and_then(Weak::upgrade);
        if let Some(fetch) = same
            && fetch.length >= length
            && !matches!(&*fetch.progress.lock(), Progress::Failed(_))
        {
            return MissingBlock { fetch };
        }
        fetches.retain(|_, fetch| fetch.strong_count() > 0);
        fetches.insert(offset, Arc::downgrade(&fetch));
        MissingBlock { fetch }
    }
}

impl MissingBlock {
    /// Returns the file's name.
    pub fn file(&self) -> &FileName {
        &self.fetch.file
    }

    /// Returns the offset of the awaited range in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.fetch.offset
    }

    /// Returns the length of the awaited range in bytes.
    pub fn length(&self) -> usize {
        self.fetch.length
    }
}

impl Future for MissingBlock {
    type Output = Result<ArrivedBlock>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let fetch = &self.fetch;
        let mut progress = fetch.progress.lock();
        if let Progress::Reading(read) = &mut *progress {
            // The caller is registered before the read is polled. Otherwise the read could end in between and wake
            // nobody.
            {
                let mut waiting = fetch.waiting.0.lock();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
            }
            let waker = Waker::from(Arc::clone(&fetch.waiting));
            let Poll::Ready(outcome) = read.as_mut().poll(&mut Context::from_waker(&waker)) else {
                return Poll::Pending;
            };
            *progress = match outcome {
                Ok(bytes) => Progress::Arrived(bytes),
                Err(error) => Progress::Failed(error),
            };
            waker.wake();
        }
        match &*progress {
            Progress::Failed(error) => Poll::Ready(Err(Error::Storage(error.clone()))),
            _ => Poll::Ready(Ok(ArrivedBlock { fetch: Arc::clone(fetch) })),
        }
    }
}

impl ArrivedBlock {
    /// Returns the number of bytes held.
    pub fn length(&self) -> usize {
        self.fetch.length
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of {}", self.length, self.offset, self.file)
    }
}

impl fmt::Debug for MissingBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MissingBlock({:?})", self.fetch)
    }
}

impl fmt::Debug for ArrivedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrivedBlock({:?})", self.fetch)
    }
}
