//! Reports what a folder's file system can do, for an operator who asks before a server starts or while it runs.
//!
//! This needs no lock of the data directory. [`time_syncs`] writes one file of its own and deletes it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use env::World;

/// The kind of a file system, as far as it matters for durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// The file system is on a disk of this machine, as far as the system tells.
    Disk,
    /// The file system is in memory: its files are lost when the machine restarts.
    Memory,
    /// The file system is on another machine.
    Network,
}

/// The free space and the kind of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The queried folder, or its nearest ancestor that exists.
    pub folder: PathBuf,
    /// The kind of the file system.
    pub kind: FileSystem,
    /// Number of bytes that this process may still write.
    pub bytes_free: u64,
    /// Capacity of the file system in bytes.
    pub bytes: u64,
    /// Number of files that can still be created; `None` where the file system has no limit of its own.
    pub files_free: Option<u64>,
    /// Whether the file system is mounted read-only.
    pub is_read_only: bool,
}

impl Disk {
    /// Returns the file system that contains `path`, which need not exist yet.
    pub fn of(path: &Path) -> io::Result<Disk> {
        let folder = existing(path)?;
        let room = rustix::fs::statvfs(&folder)?;
        Ok(Disk {
            kind: kind(&folder)?,
            bytes_free: room.f_bavail.saturating_mul(room.f_frsize),
            bytes: room.f_blocks.saturating_mul(room.f_frsize),
            files_free: (room.f_files > 0).then_some(room.f_favail),
            is_read_only: room.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            folder,
        })
    }
}

/// Returns the path itself if it is a folder, else its nearest ancestor that is one.
fn existing(path: &Path) -> io::Result<PathBuf> {
    // A relative path is relative to the working directory.
    let path = std::path::absolute(path)?;
    for folder in path.ancestors() {
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => return Ok(folder.to_owned()),
            Ok(_) if folder == path => {
                let line = format!("{} is a file, expected a folder", folder.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, line));
            }
            Ok(_) => {
                let line =
                    format!("{} is a file, expected a folder above {}", folder.display(), path.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, line));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(target_os = "linux")]
fn kind(folder: &Path) -> io::Result<FileSystem> {
    // These numbers are from Linux's `<linux/magic.h>`. FUSE and Ceph may be on any machine, and count as network.
    const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58F6];
    const NETWORK: [i64; 6] = [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x00C3_6400, 0x6573_5546, 0x0BD0_0BD0];
    let number = rustix::fs::statfs(folder)?.f_type as i64 & 0xFFFF_FFFF;
    Ok(match number {
        number if MEMORY.contains(&number) => FileSystem::Memory,
        number if NETWORK.contains(&number) => FileSystem::Network,
        _ => FileSystem::Disk,
    })
}

#[cfg(not(target_os = "linux"))]
fn kind(_: &Path) -> io::Result<FileSystem> {
    Ok(FileSystem::Disk)
}

/// Appends `bytes` bytes to a new file in `folder` and syncs it, `rounds` times, as the write-ahead log does. Returns
/// the times of the syncs, shortest first. Deletes the file, also after a failure.
pub fn time_syncs(world: &World, folder: &Path, bytes: usize, rounds: usize) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!("bellows-sync-{:016x}.tmp", world.random()));
    let measured = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let content = vec![0x5A; bytes];
        (0..rounds)
            .map(|_| {
                let began = world.moment();
                file.write_all(&content)?;
                file.sync_data()?;
                Ok(world.moment().since(began))
            })
            .collect::<io::Result<Vec<Duration>>>()
    })();
    match fs::remove_file(&path) {
        Err(error) if measured.is_ok() && error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut times = measured?;
    times.sort();
    Ok(times)
}

/// Writes a new file at a path that an operator named. Fails if the path exists.
pub fn write_outside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("bellows-storage-disk-{:x}", World::real().random()));
        fs::create_dir(&folder).expect("the test's own folder");
        folder
    }

    #[test]
    fn a_folder_that_is_not_there_has_the_room_of_the_one_above() {
        let folder = folder();
        let disk = Disk::of(&folder.join("a/b")).expect("a folder above");
        assert_eq!(disk.folder, std::path::absolute(&folder).expect("a path"));
        assert!(disk.bytes >= disk.bytes_free && disk.bytes > 0 && !disk.is_read_only, "{disk:?}");
        fs::write(folder.join("file"), "x").expect("written");
        for path in ["file", "file/below"] {
            let error = Disk::of(&folder.join(path)).expect_err("no folder");
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{error}");
        }
        fs::remove_dir_all(&folder).expect("the test's own");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_told_from_disks() {
        if let Ok(mounts) = fs::read_to_string("/proc/mounts")
            && mounts
                .lines()
                .any(|line| line.split(' ').nth(1) == Some("/dev/shm") && line.starts_with("tmpfs "))
        {
            assert_eq!(Disk::of(Path::new("/dev/shm")).expect("mounted").kind, FileSystem::Memory);
        }
        assert!(Disk::of(Path::new("/proc/self")).is_ok());
    }

    #[test]
    fn syncs_are_timed_and_leave_nothing() {
        let folder = folder();
        let times = time_syncs(&World::real(), &folder, 4 << 10, 5).expect("writable");
        assert!(times.len() == 5 && times.is_sorted() && times[0] > Duration::ZERO, "{times:?}");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 0);
        assert!(time_syncs(&World::real(), &folder.join("absent"), 1, 1).is_err());
        fs::remove_dir_all(&folder).expect("the test's own");
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = folder();
        let path = folder.join("a");
        write_outside(&path, b"first").expect("new");
        assert_eq!(write_outside(&path, b"second").expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"first");
        fs::remove_dir_all(&folder).expect("the test's own");
    }
}
