//! Checks of the places of files: the data directory or bucket, the folder of the log, and the disks below them.

use std::path::Path;
use std::time::Duration;

use env::World;
use storage::{Disk, FileSystem};

use super::{Finding, State, bytes};
use crate::bucket::Engine;
use crate::data_dir::{self, RootOwner};
use crate::log_place;
use crate::root::Root;
use crate::settings::Settings;

/// Free space in bytes below which a server will soon refuse writes.
const FREE_MIN: u64 = 1 << 30;
/// Minimum free fraction of the disk: a compaction needs room for what it writes before it frees what it read.
const FREE_SHARE: f64 = 0.10;
/// Minimum number of files that can still be created.
const FILES_MIN: u64 = 100_000;
/// Number of syncs that are timed.
const SYNCS: usize = 40;
/// Number of bytes that each timed sync writes: a group of small writes.
const SYNC_BYTES: usize = 4 << 10;
/// Median time of a sync above which every write is slow.
const SYNC_SLOW: Duration = Duration::from_millis(20);
/// Time of a sync above which it is reported: the default of `hbase.regionserver.wal.slowsync.ms`.
const SYNC_LONG: Duration = Duration::from_millis(100);
/// Minimum time of a sync that reached a device.
const SYNC_LEAST: Duration = Duration::from_micros(4);

pub(super) fn examine(world: &World, settings: &Settings, is_running: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Root::Folder(folder) = &settings.root {
        findings.push(data_directory(folder, is_running));
        findings.extend(disk("disk space", folder, false));
    }
    let log = settings.wal_dir.as_ref();
    for bucket in [Some(&settings.root), log].into_iter().flatten().filter(|place| place.folder().is_none()) {
        findings.push(object_store(bucket, settings, is_running));
    }
    if findings.iter().all(|finding| finding.state != State::Bad) {
        findings.extend(place_of_log(world, settings, is_running));
    }
    if let Some(folder) = log.and_then(Root::folder) {
        findings.extend(disk("log's disk space", folder, false));
    }
    if let Some(folder) = log.unwrap_or(&settings.root).folder() {
        findings.push(syncs(world, folder));
    }
    let caches: &[_] = match settings.bucket.as_ref().map(|bucket| &bucket.engine) {
        Some(Engine::Files(paths)) => paths,
        Some(Engine::Mapped(path)) => std::slice::from_ref(path),
        Some(Engine::Offheap) | None => &[],
    };
    for path in caches {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        findings.extend(disk("cache's disk", folder.unwrap_or(Path::new(".")), true));
    }
    findings
}

fn data_directory(folder: &Path, is_running: bool) -> Finding {
    const CHECK: &str = "data directory";
    let shown = folder.display();
    match data_dir::owner_of(folder) {
        Ok(RootOwner::Nobody) => {
            Finding::good(CHECK, format!("{shown} is not there yet, or empty: a start makes a new one"))
        }
        Ok(RootOwner::Bellows) if is_running => Finding::good(CHECK, format!("{shown}, whose server runs")),
        Ok(RootOwner::Bellows) => {
            Finding::good(CHECK, format!("{shown}, in a layout that this version knows"))
        }
        Err(failure) => Finding::bad(CHECK, failure, "nothing was changed; a start would say the same"),
    }
}

/// Compares `hbase.wal.dir` with what the data directory records. Locks folders of this machine for a moment, and leaves no
/// file in them.
fn place_of_log(world: &World, settings: &Settings, is_running: bool) -> Option<Finding> {
    const CHECK: &str = "log's place";
    let (root, wal_dir) = (&settings.root, settings.wal_dir.as_ref());
    let is_hdfs = |place: &Root| matches!(place, Root::Hdfs { .. });
    // A running server has checked it at its start, and a log in HDFS cannot be read without ending its server.
    if is_running || settings.is_replica || is_hdfs(root) || wal_dir.is_some_and(is_hdfs) {
        return None;
    }
    let folders: Vec<&Path> = [Some(root), wal_dir].into_iter().flatten().filter_map(Root::folder).collect();
    let has_no_lock = |folder: &&&Path| storage::open_outside(&folder.join(data_dir::LOCK)).is_err();
    let unlocked: Vec<&Path> = folders.iter().filter(has_no_lock).copied().collect();
    // A server with other ports than these options name.
    let in_use = folders.iter().filter(|folder| folder.is_dir()).find_map(|folder| {
        storage::Local::open_for_reading(*folder).err().filter(|error| error.kind() == storage::Kind::InUse)
    });
    if let Some(error) = in_use {
        return Some(Finding::unknown(CHECK, error));
    }
    let examined = log_place::examine(world, &settings.conf, root, wal_dir);
    unlocked.into_iter().filter(|folder| folder.is_dir()).for_each(data_dir::forget_lock);
    Some(match examined {
        Ok(place) => Finding::good(CHECK, place),
        Err(failure) => Finding::bad(CHECK, failure, "nothing was changed; a start would be refused, too"),
    })
}

fn object_store(root: &Root, settings: &Settings, is_running: bool) -> Finding {
    // The probe writes objects to the store. A running server has made it at its start, so it is not repeated.
    if is_running {
        return Finding::unknown("object store", format!("{root} is in use by the server that runs"));
    }
    let kept =
        if let Root::Hdfs { .. } = root { "can be reached" } else { "keeps conditional writes and ranges" };
    match root.probe(&settings.conf) {
        Ok(()) => Finding::good("object store", format!("{root} {kept}")),
        Err(failure) => Finding::bad(
            "object store",
            failure,
            "a start would be refused; see \"Files in an object store\" in docs/operations/start-and-stop.md",
        ),
    }
}

fn disk(check: &'static str, folder: &Path, is_cache: bool) -> Vec<Finding> {
    match Disk::of(folder) {
        Ok(disk) => judge_disk(check, &disk, is_cache),
        Err(error) => {
            let remedy = "name a folder of this machine that this user may read, with --data-dir or the key of the folder";
            vec![Finding::bad(check, format!("{}: {error}", folder.display()), remedy)]
        }
    }
}

/// Judges a disk. A cache may be on a file system in memory, and needs no room for compactions.
fn judge_disk(check: &'static str, disk: &Disk, is_cache: bool) -> Vec<Finding> {
    let folder = disk.folder.display();
    if disk.is_read_only {
        let remedy =
            format!("mount it writable, as with mount -o remount,rw, or choose another folder than {folder}");
        return vec![Finding::bad(check, format!("{folder} is mounted for reading only"), remedy)];
    }
    let mut findings = Vec::new();
    let share = disk.bytes_free as f64 / disk.bytes.max(1) as f64;
    let room = format!("{} of {} free at {folder}", bytes(disk.bytes_free), bytes(disk.bytes));
    findings.push(if is_cache || (disk.bytes_free >= FREE_MIN && share >= FREE_SHARE) {
        Finding::good(check, room)
    } else {
        let remedy = "free space or enlarge the disk: a compaction needs room before it frees any, and a full disk refuses writes";
        if disk.bytes_free < FREE_MIN { Finding::bad(check, room, remedy) } else { Finding::warning(check, room, remedy) }
    });
    if let Some(files) = disk.files_free.filter(|files| *files < FILES_MIN) {
        let remedy = "delete small files, or make the file system anew with more inodes (mkfs -i)";
        findings.push(Finding::warning(
            check,
            format!("only {files} more files can be created at {folder}"),
            remedy,
        ));
    }
    match disk.kind {
        FileSystem::Memory if !is_cache => findings.push(Finding::warning(
            check,
            format!("{folder} is in memory: all data is lost when the machine restarts"),
            "choose a folder on a disk with --data-dir; for a trial it does no harm",
        )),
        FileSystem::Network => findings.push(Finding::warning(
            check,
            format!("{folder} is on another machine"),
            "use a local disk: a network file system decides itself when a sync is true, and each sync waits for the network",
        )),
        FileSystem::Memory | FileSystem::Disk => {}
    }
    findings
}

fn syncs(world: &World, folder: &Path) -> Finding {
    const CHECK: &str = "sync time";
    let measured = Disk::of(folder)
        .and_then(|disk| Ok((storage::time_syncs(world, &disk.folder, SYNC_BYTES, SYNCS)?, disk.kind)));
    match measured {
        Ok((times, kind)) => judge_syncs(&times, kind),
        Err(error) => Finding::bad(
            CHECK,
            format!("{}: {error}", folder.display()),
            "let this user create files there, or choose another folder with --data-dir or hbase.wal.dir",
        ),
    }
}

/// Judges the times of syncs, shortest first.
fn judge_syncs(times: &[Duration], kind: FileSystem) -> Finding {
    const CHECK: &str = "sync time";
    let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) else {
        return Finding::unknown(CHECK, "no sync was timed");
    };
    let ms = |time: &Duration| format!("{:.2} ms", time.as_secs_f64() * 1_000.0);
    let found = format!("median {}, longest of {} {}", ms(median), times.len(), ms(longest));
    if kind == FileSystem::Memory {
        return Finding::unknown(CHECK, format!("{found}: in memory a sync means nothing"));
    }
    if *median < SYNC_LEAST {
        return Finding::warning(
            CHECK,
            found,
            "syncs seem to do nothing: a loss of power would lose what was acknowledged. Look for nobarrier, eatmydata or a \
             virtual disk with cache=unsafe",
        );
    }
    if *median > SYNC_SLOW || *longest > SYNC_LONG {
        return Finding::warning(
            CHECK,
            found,
            "every write waits for a sync: put the log on a faster disk with hbase.wal.dir, or look for who else uses this one \
             (iostat -x 1)",
        );
    }
    Finding::good(CHECK, found)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real folders are the point")]
mod tests {
    use super::*;
    use crate::args::Start;

    fn disk(bytes_free: u64, kind: FileSystem) -> Disk {
        Disk {
            folder: "/srv".into(),
            kind,
            bytes_free,
            bytes: 100 << 30,
            files_free: Some(1_000_000),
            is_read_only: false,
        }
    }

    #[test]
    fn a_disk_is_judged_by_what_a_compaction_needs() {
        let states = |disk: &Disk, is_cache| {
            judge_disk("disk space", disk, is_cache).iter().map(|finding| finding.state).collect::<Vec<_>>()
        };
        use State::{Bad, Good, Warning};
        assert_eq!(states(&disk(50 << 30, FileSystem::Disk), false), [Good]);
        assert_eq!(states(&disk(5 << 30, FileSystem::Disk), false), [Warning]);
        assert_eq!(states(&disk(1 << 20, FileSystem::Disk), false), [Bad]);
        assert_eq!(states(&disk(1 << 20, FileSystem::Disk), true), [Good], "a cache takes what it finds");
        assert_eq!(states(&disk(50 << 30, FileSystem::Memory), false), [Good, Warning]);
        assert_eq!(states(&disk(50 << 30, FileSystem::Memory), true), [Good], "a cache may be in memory");
        assert_eq!(states(&disk(50 << 30, FileSystem::Network), true), [Good, Warning]);
        let few = Disk { files_free: Some(10), ..disk(50 << 30, FileSystem::Disk) };
        assert_eq!(states(&few, false), [Good, Warning]);
        let unlimited = Disk { files_free: None, ..few };
        assert_eq!(states(&unlimited, false), [Good]);
        let read_only = Disk { is_read_only: true, ..unlimited };
        let findings = judge_disk("disk space", &read_only, false);
        assert!(findings[0].remedy.contains("remount,rw") && findings[0].state == Bad, "{findings:?}");
    }

    #[test]
    fn slow_syncs_and_syncs_without_effect_are_reported() {
        let state = |times: &[u64], kind| {
            let times: Vec<Duration> = times.iter().map(|time| Duration::from_micros(*time)).collect();
            judge_syncs(&times, kind).state
        };
        use State::{Good, Unknown, Warning};
        assert_eq!(state(&[100, 500, 3_000], FileSystem::Disk), Good);
        assert_eq!(state(&[100, 30_000, 40_000], FileSystem::Disk), Warning, "all are slow");
        assert_eq!(state(&[100, 500, 200_000], FileSystem::Disk), Warning, "one was very long");
        assert_eq!(state(&[1, 1, 2], FileSystem::Disk), Warning, "no device is that fast");
        assert_eq!(state(&[1, 1, 2], FileSystem::Memory), Unknown);
        assert_eq!(state(&[], FileSystem::Disk), Unknown);
    }

    #[test]
    fn a_log_that_a_start_would_refuse_is_found_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("bellows-doctor-{:x}", World::real().random()));
        let (data, other, log) = (folder.join("data"), folder.join("other"), folder.join("log"));
        let found = |wal_dir: Option<&Path>| {
            let define = wal_dir.map(|place| ("hbase.wal.dir".to_owned(), place.display().to_string()));
            let define = define.into_iter().collect();
            let start = Start { data_dir: Some(data.clone()), define, ..Start::default() };
            let settings = Settings::gather(&start).expect("good");
            place_of_log(&World::real(), &settings, false).expect("it does not run")
        };
        assert_eq!(found(Some(&log)).state, State::Good, "a start makes both folders");
        assert!(!folder.exists());
        drop(data_dir::open(&other).expect("new"));
        drop(data_dir::open(&data).expect("new"));
        data_dir::forget_lock(&data);
        let wrong = found(Some(&other));
        assert!(wrong.state == State::Bad && wrong.found.contains("is a data directory"), "{wrong:?}");
        assert_eq!(found(Some(&log)).state, State::Good);
        std::fs::write(data.join("bellows.wal.state"), "open\n1\n").expect("written");
        for wal_dir in [None, Some(&*log)] {
            let lost = found(wal_dir);
            assert!(lost.state == State::Bad && lost.found.contains("is gone"), "{lost:?}");
        }
        assert!(!log.exists() && !data.join(data_dir::LOCK).exists(), "nothing is left");
        let runs = data_dir::open(&data).expect("free");
        let in_use = found(None);
        assert!(in_use.state == State::Unknown && in_use.found.contains("has the folder"), "{in_use:?}");
        drop(runs);
        std::fs::remove_dir_all(&folder).expect("the test's own");
    }
}
