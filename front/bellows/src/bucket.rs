//! The bucket cache as the server opens it: its keys and its devices.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use cache::{Bucket, BucketOptions, Cache, Persistence};
use conf::{Conf, keys::cache as key};
use env::{Priority, World};
use storage::{Device, LocalDevice};

use crate::failure::Failure;

/// Writing the index of the bucket cache may take at most this part of the time: one divided by this number.
const KEEPING_PART: u32 = 20;

/// Where the bucket cache keeps its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// In memory.
    Offheap,
    /// In these files, read by calls.
    Files(Vec<PathBuf>),
    /// In this file, which is memory-mapped.
    Mapped(PathBuf),
}

/// The settings of the bucket cache.
#[derive(Clone, Debug)]
pub(crate) struct BucketSettings {
    pub(crate) engine: Engine,
    pub(crate) bytes: u64,
    pub(crate) combined: bool,
    pub(crate) options: BucketOptions,
    /// The file of the index; `None` if the cache does not survive a restart.
    persistent: Option<PathBuf>,
    /// How often the index is written.
    interval: Duration,
}

impl BucketSettings {
    /// Returns the settings, or `None` if there is no second tier. A size below 1 is a fraction of `memory`, a greater
    /// one is in megabytes. `machine` is the machine's memory, if known; both are in bytes. Fails for an invalid value,
    /// for a size too small for the engine, and for a tier in memory that is not smaller than the machine's memory.
    pub(crate) fn gather(
        conf: &Conf,
        memory: u64,
        machine: Option<u64>,
    ) -> Result<Option<BucketSettings>, Failure> {
        let said = conf.value(&key::BUCKET_ENGINE)?;
        let Some(engine) = engine(&said)? else { return Ok(None) };
        let size = conf.value(&key::BUCKET_SIZE)?;
        let bytes = if size < 1.0 { size * memory as f64 } else { size * f64::from(1 << 20) } as u64;
        let defaults = BucketOptions::default();
        let options = BucketOptions {
            slot_sizes: slot_sizes(&conf.value(&key::BUCKET_SLOT_SIZES)?)?.unwrap_or(defaults.slot_sizes),
            in_memory_share: conf.value(&key::BUCKET_IN_MEMORY)?,
            fill: conf.value(&key::BUCKET_FILL)?,
            writer_threads: usize::try_from(conf.value(&key::BUCKET_WRITERS)?)
                .unwrap_or(usize::MAX)
                .clamp(1, 256),
            queue_length: usize::try_from(conf.value(&key::BUCKET_QUEUE)?).unwrap_or(usize::MAX),
            errors_tolerated: conf.value(&key::BUCKET_ERRORS_TOLERATED)?,
            head_bytes_max: (conf.value(&key::BUCKET_HEADS)?.max(0.0) * f64::from(1 << 20)) as u64,
        };
        let devices = match &engine {
            Engine::Offheap | Engine::Mapped(_) => 1,
            Engine::Files(paths) => paths.len() as u64,
        };
        let least = if engine == Engine::Offheap { 1 } else { devices * options.bytes_min() };
        if bytes < least {
            return Err(Failure::new(format!(
                "{} is {size}: {bytes} bytes, {} = {said} needs at least {least}; give the size in megabytes, or as a \
                 share of half of the machine's memory below 1",
                key::BUCKET_SIZE.name(),
                key::BUCKET_ENGINE.name(),
            )));
        }
        if let Some(machine) = machine.filter(|machine| engine == Engine::Offheap && bytes >= *machine) {
            return Err(Failure::new(format!(
                "{} is {size}: {} MB, {} = {said} takes them of this machine's memory, which is {} MB; give a size in \
                 megabytes that leaves room for memstores and everything else, or put the cache on a disk with file:PATH \
                 or mmap:PATH",
                key::BUCKET_SIZE.name(),
                bytes >> 20,
                key::BUCKET_ENGINE.name(),
                machine >> 20,
            )));
        }
        let path = conf.value(&key::BUCKET_PERSISTENT)?;
        let path = path.strip_prefix("file:").unwrap_or(&path);
        let persistent = (!path.is_empty() && engine != Engine::Offheap).then(|| PathBuf::from(path));
        let interval = conf.value(&key::BUCKET_PERSIST_INTERVAL)?.max(Duration::from_millis(10));
        let combined = conf.value(&key::BUCKET_COMBINED)?;
        Ok(Some(BucketSettings { engine, bytes, combined, options, persistent, interval }))
    }

    /// Adds the second tier to `cache`, with the blocks that the previous process left. If its devices cannot be
    /// opened, the cache has no second tier; if the file for the index cannot be opened, the tier starts empty. Both
    /// are logged.
    pub(crate) fn add_to(&self, cache: Cache, world: &World) -> Arc<Cache> {
        let Some(bucket) = self.open(world) else { return Arc::new(cache) };
        let cache = cache.with_bucket(bucket);
        let Some(path) = &self.persistent else { return Arc::new(cache) };
        let size = Persistence::bytes_for(self.bytes, &self.options.slot_sizes);
        let device = match LocalDevice::open(path, size) {
            Ok(device) => device,
            Err(error) => {
                tracing::warn!(%error, key = key::BUCKET_PERSISTENT.name(),
                    "the bucket cache starts empty and will not survive a restart; make the path writable and start again");
                return Arc::new(cache);
            }
        };
        let cache = Arc::new(cache.with_persistence(Persistence::on(Arc::new(device))));
        let (weak, interval, world) = (Arc::downgrade(&cache), self.interval, world.clone());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let keeper = env::spawn_thread("cache-keeper", Priority::Background, move || {
            // The sender is kept as long as the thread runs. So the receiver never gets a message and only ever times
            // out.
            let _nobody_stops = stop;
            let mut failing = false;
            let mut pause = interval;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let Some(cache) = weak.upgrade() else { return };
                let began = world.moment();
                let kept = cache.persist();
                pause = pause_after(interval, world.moment().since(began));
                match kept {
                    Ok(()) => failing = false,
                    Err(error) if !std::mem::replace(&mut failing, true) => {
                        tracing::warn!(%error, "the bucket cache's index cannot be kept; it is tried again");
                    }
                    Err(_) => {}
                }
            }
        });
        if let Err(error) = keeper {
            tracing::warn!(%error, "no thread that keeps the bucket cache's index");
        }
        cache
    }

    /// Opens the second tier. Returns `None` if its devices cannot be opened: that is logged, and the server works
    /// without it.
    pub(crate) fn open(&self, world: &World) -> Option<Bucket> {
        let bucket = match &self.engine {
            Engine::Offheap => {
                Bucket::offheap(usize::try_from(self.bytes).unwrap_or(usize::MAX), &self.options)
            }
            Engine::Files(paths) => {
                let each = self.bytes / paths.len() as u64;
                let open = |path: &PathBuf| LocalDevice::open(path, each);
                self.on(paths.iter().map(open).collect(), world)?
            }
            Engine::Mapped(path) => self.on(
                LocalDevice::open_mapped(path, self.bytes, world.clone()).map(|device| vec![device]),
                world,
            )?,
        };
        tracing::info!(engine = ?self.engine, megabytes = self.bytes >> 20, combined = self.combined, "bucket cache");
        Some(bucket.with_combined(self.combined))
    }

    fn on(&self, devices: storage::Result<Vec<LocalDevice>>, world: &World) -> Option<Bucket> {
        match devices {
            Ok(devices) => {
                let at_once = devices.iter().all(LocalDevice::reads_now);
                let way = match (&self.engine, at_once) {
                    (Engine::Mapped(_), _) => {
                        "out of a map where the system has them in memory, else by pread on threads that may wait"
                    }
                    (_, true) => {
                        "by pread, at once where the system has them in memory, else on threads that may wait"
                    }
                    (_, false) => {
                        "by pread on threads that may wait: this file system does not say what it has in memory"
                    }
                };
                tracing::info!(way, "blocks of the bucket cache are read");
                let devices = devices.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect();
                Some(Bucket::on(devices, &self.options, world.clone()))
            }
            Err(error) => {
                tracing::warn!(%error, key = key::BUCKET_ENGINE.name(),
                    "no bucket cache: blocks are read from storage; make the path writable, with room for the cache, \
                     and start again");
                None
            }
        }
    }
}

/// Returns the pause before the next write of the index, in proportion to the time that the last one took.
fn pause_after(interval: Duration, took: Duration) -> Duration {
    interval.max(took.saturating_mul(KEEPING_PART - 1))
}

fn engine(said: &str) -> Result<Option<Engine>, Failure> {
    let refused = || {
        Failure::new(format!(
            "{} is {said:?}, expected offheap, file:PATH, files:PATH,PATH, mmap:PATH or pmem:PATH",
            key::BUCKET_ENGINE.name()
        ))
    };
    if said.is_empty() {
        return Ok(None);
    }
    if said == "offheap" {
        return Ok(Some(Engine::Offheap));
    }
    let (kind, paths) = said.split_once(':').ok_or_else(refused)?;
    let paths: Vec<PathBuf> = match kind {
        "mmap" | "pmem" if !paths.is_empty() => return Ok(Some(Engine::Mapped(PathBuf::from(paths)))),
        "file" => vec![Path::new(paths).to_owned()],
        "files" => paths.split(',').map(|path| Path::new(path.trim()).to_owned()).collect(),
        _ => return Err(refused()),
    };
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(refused());
    }
    Ok(Some(Engine::Files(paths)))
}

fn slot_sizes(said: &[String]) -> Result<Option<Vec<u32>>, Failure> {
    let sizes: Option<Vec<u32>> = said
        .iter()
        .map(|size| size.parse().ok().filter(|size| *size > 0 && size % 256 == 0 && *size <= 1 << 30))
        .collect();
    let sizes = sizes.ok_or_else(|| {
        let (name, said) = (key::BUCKET_SLOT_SIZES.name(), said.join(","));
        Failure::new(format!(
            "{name} is {said:?}, expected sizes in bytes, multiples of 256, separated by commas"
        ))
    })?;
    Ok((!sizes.is_empty()).then_some(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(pairs: &[&str]) -> Result<Option<BucketSettings>, String> {
        let conf =
            pairs.iter().fold(Conf::new(), |conf, pair| conf.with_definition(pair).expect("a definition"));
        BucketSettings::gather(&conf, 1 << 30, Some(2 << 30)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn engine_and_size_are_configured_as_in_hbase() {
        assert!(gather(&[]).expect("none").is_none());
        let said = |engine: &str, size: &str| {
            let pairs =
                [format!("hbase.bucketcache.ioengine={engine}"), format!("hbase.bucketcache.size={size}")];
            gather(&[&pairs[0], &pairs[1]]).map(|settings| settings.expect("there is one"))
        };
        let files = |paths: &[&str]| Engine::Files(paths.iter().map(PathBuf::from).collect());
        let settings = said("offheap", "0.5").expect("good");
        assert_eq!((settings.engine, settings.bytes, settings.combined), (Engine::Offheap, 512 << 20, true));
        let settings = said("files:/a/x,/b/y", "1024").expect("good");
        assert_eq!((settings.engine, settings.bytes), (files(&["/a/x", "/b/y"]), 1 << 30));
        assert_eq!(said("file:/c", "100").expect("good").engine, files(&["/c"]));
        for alias in ["mmap:/c", "pmem:/c"] {
            assert_eq!(said(alias, "100").expect("good").engine, Engine::Mapped(PathBuf::from("/c")));
        }
        for (engine, size, word) in [
            ("heap", "100", "expected offheap"),
            ("file:", "100", "file:PATH"),
            ("file:/c", "1", "at least"),
            ("mmap:/c", "1", "at least"),
            ("mmap:", "100", "mmap:PATH"),
            ("offheap", "0", "at least"),
            ("offheap", "2048", "memory, which is 2048 MB"),
            ("offheap", "102400", "102400 MB, hbase.bucketcache.ioengine = offheap takes them"),
        ] {
            let failure = said(engine, size).expect_err("refused");
            assert!(failure.contains(word) && failure.contains("hbase.bucketcache."), "{failure}");
        }
        assert_eq!(said("offheap", "2047").expect("it fits").bytes, 2_047 << 20);
        assert_eq!(said("file:/c", "102400").expect("a disk may have more").bytes, 100 << 30);
        let sizes =
            |said: &str| gather(&["hbase.bucketcache.ioengine=offheap", "hbase.bucketcache.size=10", said]);
        let settings =
            sizes("hbase.bucketcache.bucket.sizes=5120, 17408").expect("good").expect("there is one");
        assert_eq!(settings.options.slot_sizes, [5_120, 17_408]);
        assert!(sizes("hbase.bucketcache.bucket.sizes=5121").expect_err("refused").contains("256"));
    }

    #[test]
    fn the_index_is_written_as_often_as_configured_unless_it_is_large() {
        let second = Duration::from_secs(1);
        assert_eq!(pause_after(second, second / 100), second);
        for took in [second, second * 10, Duration::MAX] {
            let whole = pause_after(second, took).saturating_add(took);
            assert!(whole >= took.saturating_mul(20), "{took:?}");
        }
    }

    #[test]
    fn the_server_starts_without_a_tier_whose_path_cannot_be_used() {
        for engine in ["file", "mmap"] {
            let engine = format!("hbase.bucketcache.ioengine={engine}:/proc/nowhere/cache");
            let settings = gather(&[&engine, "hbase.bucketcache.size=100"]);
            let settings = settings.expect("good").expect("there is one");
            assert!(settings.open(&World::real()).is_none());
        }
    }
}
