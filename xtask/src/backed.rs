//! Keeps all memory in use while something is measured.
//!
//! Under a hypervisor that takes freed memory back (free page reporting of virtio-balloon), the first use of a page is
//! expensive: 10 µs for 4 KiB were seen, where clearing it takes 0.2. The system's share of a 1 KB row in the log was
//! 3.7 µs with free memory and 0.7 without. A server that has run for a day has no free memory, because files fill it.
//! So this reads a sparse file, which fills the system's cache with pages that are evicted first.
//!
//! The file is read page by page, from its end. With read-ahead the system takes pages by the megabyte and keeps
//! freeing memory for one contiguous megabyte: 900 MiB of 24 GiB stayed free, and a processor did nothing else.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum free memory while something is measured, divided by [what the system itself keeps free](kept_mib). The host
/// takes back memory that is free for long. With 500 MiB of 24 GiB free, where the system itself keeps 211, a put cost
/// 6.5 to 8.3 µs; with 160 or 250 MiB free, 4.4 to 4.9 µs. At 160 MiB the system frees memory as fast as this fills it.
const FREE: f64 = 1.2;
/// Size of the file as a multiple of the memory, so that its pages are never already cached.
const TIMES_MEMORY: u64 = 2;
/// Number of pages read between two checks of the free memory: 16 MiB.
const PAGES: usize = 4_096;
/// Pause between two checks while little is free.
const REST: Duration = Duration::from_millis(200);
/// Maximum time of the first filling, per GiB: a page comes from the host in 1 to 30 µs.
const PATIENCE: Duration = Duration::from_secs(12);

/// Size of a page in bytes on machines with a balloon.
const PAGE: u64 = 4_096;

/// Keeps the free memory of the machine filled until it is dropped.
pub(crate) struct Backed {
    /// The sparse file. Its pages stay in the system's cache while it is open.
    _file: Arc<File>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backed {
    /// Fills the free memory, and keeps it filled in the background. Returns `None` where no host takes memory back,
    /// and an error with the reason where it is not possible.
    pub(crate) fn start() -> Result<Option<Backed>, String> {
        if !is_taken_back() {
            return Ok(None);
        }
        let may_be_free = match kept_mib() {
            Ok(kept) => (FREE * kept as f64) as u64,
            Err(why) => {
                say!("memory is not kept in use: {why}");
                return Ok(None);
            }
        };
        let memory = memory_mib("MemTotal:")?;
        let (file, length) = (Arc::new(unnamed()?), (memory << 20) * TIMES_MEMORY);
        file.set_len(length).map_err(|error| format!("a file of {length} bytes without blocks: {error}"))?;
        let ends = Arc::new(AtomicBool::new(false));
        let (told, read) = (Arc::clone(&ends), Arc::clone(&file));
        let thread = std::thread::spawn(move || fill(&read, length, may_be_free, &told));
        let mut backed = Backed { _file: file, ends, thread: Some(thread) };
        let (began, patience) = (Instant::now(), PATIENCE * (1 + (memory >> 10) as u32));
        while free_mib()? > may_be_free + may_be_free / 4 {
            if began.elapsed() > patience {
                say!("memory is not kept in use as it should be: {} MiB are still free", free_mib()?);
                backed.leave_off();
                break;
            }
            std::thread::sleep(REST);
        }
        Ok(Some(backed))
    }

    /// Ends the thread that reads. The pages that it has read stay in the cache.
    fn leave_off(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Backed {
    fn drop(&mut self) {
        self.leave_off();
    }
}

/// Opens a file that disappears with this process, however the process ends.
fn unnamed() -> Result<File, String> {
    let path = PathBuf::from("target").join(format!("backed-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all("target").map_err(failed)?;
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    fs::remove_file(&path).map_err(failed)?;
    Ok(file)
}

/// Whether a host may take memory back: whether a balloon driver is active.
fn is_taken_back() -> bool {
    let devices = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon");
    let is_device = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("virtio");
    devices.is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(|entry| is_device(&entry.file_name()))))
}

/// Reads more of the file whenever too much memory is free.
fn fill(file: &File, length: u64, may_be_free: u64, ends: &AtomicBool) {
    step_back();
    let (mut page, mut end) = ([0; PAGE as usize], length);
    while !ends.load(Ordering::Relaxed) {
        match free_mib() {
            Ok(free) if free > may_be_free => {}
            Ok(_) => {
                std::thread::sleep(REST);
                continue;
            }
            Err(_) => return,
        }
        for _ in 0..PAGES {
            let at = end - PAGE;
            match file.read_at(&mut page, at) {
                Ok(read) if read > 0 => end = if at == 0 { length } else { at },
                _ => return,
            }
        }
    }
}

/// Lowers the priority of this thread; does nothing if `renice` is missing.
fn step_back() {
    let Ok(thread) = fs::read_link("/proc/thread-self") else { return };
    let Some(id) = thread.file_name() else { return };
    let mut command = Command::new("renice");
    command.args(["-n", "19", "-p"]).arg(id).stdout(Stdio::null()).stderr(Stdio::null());
    drop(command.status());
}

/// Returns how many MiB the system itself keeps free: for each zone its `high` mark, and the memory that it reserves
/// for requests that need this zone.
fn kept_mib() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/zoneinfo").map_err(|error| format!("/proc/zoneinfo: {error}"))?;
    let numbers = |line: &str| -> Vec<u64> {
        line.split(|next: char| !next.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let (mut pages, mut high, mut managed) = (0, 0, 0);
    for line in text.lines().map(str::trim) {
        match line.split_once(' ') {
            Some(("high", rest)) => high = numbers(rest).first().copied().unwrap_or(0),
            Some(("managed", rest)) => managed = numbers(rest).first().copied().unwrap_or(0),
            // This is the last line of a zone that matters here.
            Some(("protection:", rest)) => {
                pages += managed.min(high + numbers(rest).into_iter().max().unwrap_or(0));
            }
            _ => {}
        }
    }
    let kept = (pages * PAGE) >> 20;
    if kept > 0 { Ok(kept) } else { Err("/proc/zoneinfo tells no marks".to_owned()) }
}

/// Returns how many MiB of memory nothing uses, not even file pages.
fn free_mib() -> Result<u64, String> {
    memory_mib("MemFree:")
}

/// Returns the value of this line of `/proc/meminfo`, in MiB.
pub(crate) fn memory_mib(line: &str) -> Result<u64, String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| format!("/proc/meminfo: {error}"))?;
    let rest = text.lines().find_map(|found| found.strip_prefix(line));
    let kibibytes = rest.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.map(|kibibytes| kibibytes >> 10).ok_or_else(|| "/proc/meminfo has another form".to_owned())
}
