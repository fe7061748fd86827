//! Devices: fixed ranges of bytes with random access, for data that may be lost, such as a cache.
//!
//! Nothing here is durable. Bytes that were never written or whose write failed are undefined, so the user of a device
//! must verify what it reads. [`LocalDevice`] is a file or a block device of this machine. [`Scratch`] is a
//! device for tests, which fails, lies and disappears on command.

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

/// A range of bytes with random access; see the module documentation.
pub trait Device: Send + Sync + 'static {
    /// Returns the size of the device in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `buffer` from `offset` if the bytes are in the system's memory; returns `false` if the read would have to
    /// wait. The content of `buffer` is then undefined.
    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Result<bool>;

    /// Writes `bytes` at `offset`. After a failure the content there is undefined.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Returns the path of the device, for messages to operators.
    fn place(&self) -> String;

    /// Whether [`Device::read_now`] copies bytes from a memory map, without a system call.
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
    /// Whether the file system supports reads that fail instead of waiting. Some file systems do not.
    tells: bool,
}

impl LocalDevice {
    /// Opens `path`: a file, which is created if missing and set to `size` bytes, or a block device of at least that
    /// size.
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

    /// Like [`LocalDevice::open`], but bytes in the system's memory are read from a [map](crate::map). The file's space
    /// is allocated at once, so a full disk is an error here.
    ///
    /// If a page of the map turns out to be missing, because the file was truncated or its disk fails, the map is given
    /// up: [`Device::is_mapped`] becomes false, and the device is read by system calls.
    pub fn open_mapped(path: &Path, size: u64, world: World) -> Result<LocalDevice> {
        let mut device = LocalDevice::open(path, size)?;
        match fallocate(&device.file, FallocateFlags::empty(), 0, size) {
            // Some file systems cannot allocate space in advance. There a later write fails if there is none.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV) => {}
            Err(error) => return Err(device.failed(&error.into(), "take space for")),
        }
        let map = Map::of(&device.file, size, world).map_err(|source| device.failed(&source, "map"))?;
        device.map = Some(map);
        Ok(device)
    }

    /// Whether the file system reports that a read would wait. If not, every read may wait. This is determined when the
    /// device is opened.
    pub fn reads_now(&self) -> bool {
        self.tells
    }

    fn failed(&self, source: &io::Error, act: &'static str) -> Error {
        let outcome = if act == "write" { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
        Error::from_io(source, outcome, &self.name, act)
    }
}

/// Whether the file system of `file` supports reads that do not wait.
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
            // If only a part could be read at once, the read counts as one that would have to wait.
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

/// The injected fault of a [`Scratch`] device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceFault {
    /// Nothing fails.
    #[default]
    None,
    /// Reads fail.
    ReadFails,
    /// Reads end early.
    ReadShort,
    /// Reads return one flipped bit.
    ReadFlips,
    /// Writes fail: no space is left.
    Full,
    /// Writes succeed without effect.
    WriteLost,
    /// All reads and writes fail.
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
    /// Creates a device of `size` zero bytes.
    pub fn new(size: u64) -> Scratch {
        let bytes = vec![0; usize::try_from(size).expect("a device for a test")];
        let state = ScratchState { bytes, fault: DeviceFault::None, waits: false, reads: 0, writes: 0 };
        Scratch { state: Arc::new(Mutex::new(state)), size }
    }

    /// Sets the fault, or removes it with [`DeviceFault::None`].
    pub fn set_fault(&self, fault: DeviceFault) {
        self.state.lock().fault = fault;
    }

    /// Sets whether every read has to wait, so that [`Device::read_now`] returns `false`.
    pub fn set_waits(&self, waits: bool) {
        self.state.lock().waits = waits;
    }

    /// Returns the numbers of reads and writes so far.
    pub fn acts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.reads, state.writes)
    }

    /// Calls `change` to alter the bytes directly, as a damaged device would.
    pub fn damage(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.state.lock().bytes);
    }

    fn failed(kind: Kind, act: &'static str) -> Error {
        let error = Error::new(kind, Outcome::MayHaveHappened, &FileName::new("scratch"), act);
        error.because("an injected fault")
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
