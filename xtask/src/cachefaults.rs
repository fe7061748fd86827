//! Damages a running server's cache file: no wrong byte and no failed request may result.
//!
//! The bucket cache is smaller than the data, so it is read, written and emptied all the time. While clients get, scan
//! and multi-get, bits of its file are flipped, the file is truncated and extended, and finally deleted. The generator
//! checks each row and fails on a wrong one or a failed operation. The server must report the damage and continue with
//! sound blocks.
//!
//! The same is done to a mapped file, where touching a truncated part raises a signal that by default ends the process.
//! The server must report it, and then read the file by system calls.
//!
//! Failing, full and lost devices are tested in the region server (`cache_faults`).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::random::Random;
use crate::server::{Server, binary, build, fresh_folder, log_of, no_panic};
use crate::startup::figure;

const CACHE_MIB: u64 = 16;
const ROWS: &str = "40000";

/// Runs the whole test on each engine.
pub(crate) fn run() -> Outcome {
    build()?;
    let folder = std::path::absolute(fresh_folder("cachefaults")?).map_err(|error| error.to_string())?;
    for engine in ["file", "files", "mmap"] {
        one(&folder, engine).map_err(|why| format!("{engine}: {why}"))?;
    }
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// A cache file that the test damages, and how.
struct Victim {
    path: PathBuf,
    file: File,
    size: u64,
    random: Random,
}

impl Victim {
    fn of(path: &Path) -> Result<Victim, String> {
        let failed = |error| format!("{}: {error}", path.display());
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Victim { path: path.to_owned(), file, size, random: Random::new(1) })
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Flips a bit in the file every `step` bytes.
    fn flip(&mut self, step: u64) -> Outcome {
        let mut at = self.random.below(step);
        while at < self.size {
            let mut byte = [0];
            // The file may be shorter than it was, because the test also truncates it.
            if self.file.read_at(&mut byte, at).map_err(|error| self.failed(&error))? == 1 {
                byte[0] ^= 1 << self.random.below(8);
                self.file.write_all_at(&byte, at).map_err(|error| self.failed(&error))?;
            }
            at += step;
        }
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Outcome {
        self.file.set_len(size).map_err(|error| self.failed(&error))
    }

    /// Damages the file repeatedly until the load has ended.
    fn harm_until_ended(&mut self, load: &mut Child) -> Outcome {
        loop {
            if load.try_wait().map_err(|error| error.to_string())?.is_some() {
                return self.cut(self.size);
            }
            match self.random.below(4) {
                0 => self.flip(20_011)?,
                1 => self.cut(0)?,
                2 => {
                    let size = self.random.below(self.size);
                    self.cut(size)?;
                }
                _ => self.cut(self.size)?,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn one(folder: &Path, engine: &str) -> Outcome {
    let path = folder.join(format!("{engine}-blocks"));
    let data = folder.join(engine);
    let setting = |name: &str, value: String| ["-D".to_owned(), format!("{name}={value}")];
    let paths = match engine {
        "files" => format!("{},{}", path.display(), folder.join("files-more-blocks").display()),
        _ => path.display().to_string(),
    };
    let words: Vec<String> = [
        setting("hbase.bucketcache.ioengine", format!("{engine}:{paths}")),
        setting("hbase.bucketcache.size", CACHE_MIB.to_string()),
        setting("hbase.bucketcache.bucket.sizes", "5120,17408,70656".to_owned()),
        setting("hfile.block.cache.size", "0.001".to_owned()),
    ]
    .concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = Server::start_in(&data, &words)?;
    let harm = || -> Result<f64, String> {
        let figures = ["corrupt", "failed"].map(|what| format!("bellows_bucket_cache_{what}_total"));
        figures.iter().try_fold(0.0, |sum, name| Ok(sum + figure(&server, name)?))
    };
    let mut victim = Victim::of(&path)?;
    ended(load(&server, "0.5")?)?;
    if harm()? > 0.0 {
        return Err("a sound file is said to be damaged".to_owned());
    }
    let mut clients = load(&server, "1.5")?;
    victim.harm_until_ended(&mut clients)?;
    ended(clients)?;
    let met = harm()?;
    if met == 0.0 {
        return Err("the server did not notice what was done to its cache".to_owned());
    }
    std::fs::remove_file(&path).map_err(|error| victim.failed(&error))?;
    ended(load(&server, "0.3")?)?;
    let disabled = figure(&server, "bellows_bucket_cache_disabled")?;
    say!("{engine}: {met} blocks were damaged or could not be read, and none was given to a client");
    if disabled != 0.0 {
        return Err("the faults have ended, and the cache is disabled".to_owned());
    }
    server.stop()?;
    let log = log_of(&data);
    let said = std::fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    if engine == "mmap" && !said.contains("has mapped is missing") {
        return Err(format!("a page of the map was gone, and {} does not say so", log.display()));
    }
    no_panic(&log)
}

/// Starts clients that read in three ways, each for `seconds`.
fn load(server: &Server, seconds: &str) -> Result<Child, String> {
    Command::new(binary())
        .args(["bench", "random-read", "multi-get", "scan-range-100", "--json", "--at", &server.rpc])
        .args(["--rows", ROWS, "--threads", "8", "--warm-up", "0", "--seconds", seconds])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the generator cannot be started: {error}"))
}

/// Waits for the clients, and checks that they succeeded.
fn ended(clients: Child) -> Outcome {
    let began = Instant::now();
    let output = clients.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("clients ended after {:?} more with {}: {last}", began.elapsed(), output.status))
}
