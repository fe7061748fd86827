//! A range of bytes of a fixed size that is written and read anywhere, for what may be lost: a cache.
//!
//! Nothing here is durable, and nothing is promised about bytes that were never written or whose write has failed: who
//! keeps something in a device must know it again by itself. [`LocalDevice`] is a file or a block device of this machine;
//! [`Scratch`] is one for tests, which fails, lies and vanishes as told.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;

use env::World;
use env::sync::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags};

use crate::map::Map;
use crate::{Error, FileName, Kind, Outcome, Result};

/// See the file.
pub trait Device: Send + Sync + 'static {
    /// Bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The same if the bytes are in the system's memory: `false` when somebody would have to wait for them.
    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Result<bool>;

    /// Writes `bytes` at `offset`. After a failure what lies there is not known.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Where it is, for people.
    fn place(&self) -> String;

    /// Whether what is in the system's memory is copied out of a map of the device, with no call of the system.
    fn is_mapped(&self) -> bool {
        false
    }
}

/// A file or block device of this machine, held by this process alone.
#[derive(Debug)]
pub struct LocalDevice {
    file: File,
    name: FileName,
    place: String,
    size: u64,
    map: Option<Map>,
    /// Whether the system says at once that it would have to wait: not every file system does.
    tells: bool,
}

impl LocalDevice {
    /// Takes hold of `path`: a file, made when it is not there and brought to `size`, or a block device that has as much.
    ///
    /// Fails with [`Kind::InUse`] while another process holds it.
    pub fn open(path: &Path, size: u64) -> Result<LocalDevice> {
        let name = FileName::new(path.to_string_lossy().trim_start_matches('/'));
        let failed = |source: &io::Error, act| Error::from_io(source, Outcome::DidNotHappen, &name, act);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|source| failed(&source, "open"))?;
        if let Err(error) = file.try_lock() {
            return Err(Error::new(Kind::InUse, Outcome::DidNotHappen, &name, "lock")
                .because(format!("{error}: another process uses {}", path.display())));
        }
        let kind = file.metadata().map_err(|source| failed(&source, "look at"))?.file_type();
        if !kind.is_block_device() {
            file.set_len(size).map_err(|source| failed(&source, "bring to its size"))?;
        }
        let tells = tells_at_once(&file);
        Ok(LocalDevice { file, name, place: path.display().to_string(), size, map: None, tells })
    }

    /// The same, with what the system has in memory read out of a [map](crate::map). A file's space is taken from the disk
    /// at once: one that is full says so here.
    ///
    /// It is [mapped](Device::is_mapped) until a page is gone when it is touched, for the file was cut or its disk fails:
    /// from then on it is read like one that is not.
    pub fn open_mapped(path: &Path, size: u64, world: World) -> Result<LocalDevice> {
        let mut device = LocalDevice::open(path, size)?;
        match fallocate(&device.file, FallocateFlags::empty(), 0, size) {
            // Where space cannot be taken in advance, a write fails when there is none.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV) => {}
            Err(error) => return Err(device.failed(&error.into(), "take space for")),
        }
        let map = Map::of(&device.file, size, world).map_err(|source| device.failed(&source, "map"))?;
        device.map = Some(map);
        Ok(device)
    }

    /// Whether what is in the system's memory is read without a wait for the rest. Where not, every read may wait. Found out
    /// when it was opened.
    pub fn reads_now(&self) -> bool {
        self.tells
    }

    fn failed(&self, source: &io::Error, act: &'static str) -> Error {
        let outcome = if act == "write" { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
        Error::from_io(source, outcome, &self.name, act)
    }
}

/// Whether the file system of `file` knows reads that do not wait.
fn tells_at_once(file: &File) -> bool {
    let mut byte = [0];
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
    !matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

impl Device for LocalDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|source| self.failed(&source, "read"))
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if let Some(map) = self.map.as_ref().filter(|map| !map.is_lost()) {
            return Ok(map.read_now(offset, buffer));
        }
        if !self.tells {
            return Ok(false);
        }
        let wanted = buffer.len();
        let mut slices = [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            // A part of it is as good as nothing.
            Ok(read) => Ok(read == wanted),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(self.failed(&error.into(), "read")),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|source| self.failed(&source, "write"))
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn is_mapped(&self) -> bool {
        self.map.as_ref().is_some_and(|map| !map.is_lost())
    }
}

/// What a [`Scratch`] device does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceFault {
    /// Nothing.
    #[default]
    None,
    /// Reads fail.
    ReadFails,
    /// Reads end before what was asked for.
    ReadShort,
    /// Reads come back with one bit changed.
    ReadFlips,
    /// Writes fail: no space is left.
    Full,
    /// Writes succeed and leave everything as it was.
    WriteLost,
    /// Everything fails.
    Gone,
}

/// A device in memory, for tests. Clones share it.
#[derive(Clone)]
pub struct Scratch {
    state: Arc<Mutex<ScratchState>>,
    size: u64,
}

struct ScratchState {
    bytes: Vec<u8>,
    fault: DeviceFault,
    waits: bool,
    reads: u64,
    writes: u64,
}

impl Scratch {
    /// A device of zeros.
    pub fn new(size: u64) -> Scratch {
        let bytes = vec![0; usize::try_from(size).expect("a device for a test")];
        let state = ScratchState { bytes, fault: DeviceFault::None, waits: false, reads: 0, writes: 0 };
        Scratch { state: Arc::new(Mutex::new(state)), size }
    }

    /// Begins to do something wrong, or ends it.
    pub fn set_fault(&self, fault: DeviceFault) {
        self.state.lock().fault = fault;
    }

    /// Whether every read has to wait.
    pub fn set_waits(&self, waits: bool) {
        self.state.lock().waits = waits;
    }

    /// Reads and writes so far.
    pub fn acts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.reads, state.writes)
    }

    /// Changes its bytes behind everybody's back.
    pub fn damage(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.state.lock().bytes);
    }

    fn failed(kind: Kind, act: &'static str) -> Error {
        let error = Error::new(kind, Outcome::MayHaveHappened, &FileName::new("scratch"), act);
        error.because("a fault that the test asked for")
    }
}

impl Device for Scratch {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.reads += 1;
        let from = offset as usize;
        let Some(bytes) = state.bytes.get(from..from + buffer.len()) else {
            return Err(Scratch::failed(Kind::TooShort, "read"));
        };
        buffer.copy_from_slice(bytes);
        match state.fault {
            DeviceFault::ReadFails | DeviceFault::Gone => Err(Scratch::failed(Kind::Failed, "read")),
            DeviceFault::ReadShort => Err(Scratch::failed(Kind::TooShort, "read")),
            DeviceFault::ReadFlips => {
                let middle = buffer.len() / 2;
                buffer[middle] ^= 0x10;
                Ok(())
            }
            DeviceFault::None | DeviceFault::Full | DeviceFault::WriteLost => Ok(()),
        }
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if self.state.lock().waits {
            return Ok(false);
        }
        self.read_at(offset, buffer).map(|()| true)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.writes += 1;
        match state.fault {
            DeviceFault::Full => return Err(Scratch::failed(Kind::Full, "write")),
            DeviceFault::Gone => return Err(Scratch::failed(Kind::Failed, "write")),
            DeviceFault::WriteLost => return Ok(()),
            DeviceFault::None | DeviceFault::ReadFails | DeviceFault::ReadShort | DeviceFault::ReadFlips => {}
        }
        let from = offset as usize;
        match state.bytes.get_mut(from..from + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Scratch::failed(Kind::Full, "write")),
        }
    }

    fn place(&self) -> String {
        "scratch".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_device_of_its_size_for_one_process() {
        let folder = std::env::temp_dir().join(format!("bellows-device-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("cache");
        let device = LocalDevice::open(&path, 1 << 20).expect("opened");
        device.write_at(500_000, b"anywhere").expect("written");
        let mut read = [0; 8];
        device.read_at(500_000, &mut read).expect("read");
        assert_eq!(&read, b"anywhere");
        let mut now = [0; 8];
        assert!(device.reads_now() || !device.read_now(500_000, &mut now).expect("sound"));
        if device.read_now(500_000, &mut now).expect("sound") {
            assert_eq!(&now, b"anywhere");
        }
        assert_eq!(LocalDevice::open(&path, 1).expect_err("held").kind(), Kind::InUse);
        assert_eq!(device.read_at((1 << 20) - 4, &mut read).expect_err("too short").kind(), Kind::TooShort);
        drop(device);
        let again = LocalDevice::open(&path, 1 << 20).expect("free again");
        again.read_at(500_000, &mut read).expect("read");
        assert_eq!((&read, again.size()), (b"anywhere", 1 << 20));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
