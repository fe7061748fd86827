//! Checks that acknowledged writes survive `kill -9`.
//!
//! Each round starts the server, compares its content with what was acknowledged, and then loads it: writers with every
//! kind of change, a reader, and an administrator who flushes, compacts, alters, creates and drops. At a random moment
//! the server is killed, sometimes during an orderly stop, and sometimes again during recovery.
//!
//! The seed decides what happens and when. Which write is running when the server is killed depends on the machine. A
//! failure reports the seed and keeps the data folder and the server's log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::random::{Random, seed_from_the_clock};
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::workload::Workload;
use crate::{Outcome, run as run_command};

/// Options for small memstores and logs, so that flushes, compactions and new logs happen within a round.
pub(crate) const OPTIONS: &[&str] =
    &["-D", "hbase.hregion.memstore.flush.size=1048576", "-D", "bellows.wal.roll.size=4194304"];

/// Where the server of a run has its files, and the options that say so.
struct Place {
    /// The value of `--data-dir`.
    data: PathBuf,
    /// The file with the server's messages.
    log: PathBuf,
    options: Vec<String>,
}

/// Runs this many rounds on one folder; without a seed, the clock provides one.
pub(crate) fn run(rounds: u32, seed: Option<u64>) -> Outcome {
    let folder = fresh_folder("crash")?;
    let place = Place { data: folder.clone(), log: log_of(&folder), options: Vec::new() };
    run_in(rounds, seed, &folder, &place)
}

/// Where a server whose other files are in an object store has its log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogPlace {
    Store,
    Disk,
}

/// Runs this many rounds with a seed from the clock, on a server whose files are in the bucket `bellows` of the object
/// store at `endpoint`. `log` says where its log is.
pub(crate) fn run_on_store(rounds: u32, endpoint: &str, log: LogPlace) -> Outcome {
    let folder = fresh_folder("crash-store")?;
    let wal_dir = match log {
        LogPlace::Store => String::new(),
        LogPlace::Disk => folder.join("wal").display().to_string(),
    };
    let options = store_options(endpoint, &wal_dir);
    let data = PathBuf::from(format!("s3://bellows/crash-{log:?}-{}", std::process::id()));
    run_in(rounds, None, &folder, &Place { data, log: log_of(&folder), options })
}

/// Runs this many rounds with a seed from the clock, on a server with these options whose files are below `data`.
pub(crate) fn run_at(rounds: u32, data: PathBuf, options: &[&str]) -> Outcome {
    let folder = fresh_folder("crash-at")?;
    let options = options.iter().map(|&option| option.to_owned()).collect();
    run_in(rounds, None, &folder, &Place { data, log: log_of(&folder), options })
}

/// Returns the options of a server whose files are in the store at `endpoint`.
pub(crate) fn store_options(endpoint: &str, wal_dir: &str) -> Vec<String> {
    let set = |key: &str, value: &str| ["-D".to_owned(), format!("{key}={value}")];
    let options = [
        set("hbase.wal.dir", wal_dir),
        set("fs.s3a.endpoint", endpoint),
        set("fs.s3a.access.key", "bellows"),
        set("fs.s3a.secret.key", "bellowssecret"),
    ];
    options.concat()
}

fn run_in(rounds: u32, seed: Option<u64>, folder: &Path, place: &Place) -> Outcome {
    let seed = seed.unwrap_or_else(seed_from_the_clock);
    build()?;
    Workload::build()?;
    let mut workload = Workload::start(seed)?;
    say!("{rounds} rounds, seed {seed}");
    let began = Instant::now();
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    for round in 0..=rounds {
        play(place, round == rounds, &mut workload, &mut random, &mut tally).map_err(|why| {
            format!(
                "round {round}, seed {seed}: {why}\n  the data is kept in {}, the log is {}",
                place.data.display(),
                place.log.display()
            )
        })?;
    }
    say!("acknowledged: {}", workload.summary()?);
    let Tally { rows, acknowledged, on_disk, in_order, in_recovery, starts } = tally;
    say!(
        "{rounds} rounds in {:.0} s: {acknowledged} changes acknowledged, {rows} rows at the end, all as they must be; \
         the log on the disk in {on_disk}, handed to the system in {}; {in_order} kills in an orderly end, \
         {in_recovery} in a recovery; {}; seed {seed}",
        began.elapsed().as_secs_f64(),
        rounds - on_disk,
        spread(starts),
    );
    if acknowledged == 0 {
        return Err("nothing was acknowledged: nothing was tested".to_owned());
    }
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

#[derive(Default)]
struct Tally {
    rows: u64,
    acknowledged: u64,
    on_disk: u32,
    in_order: u32,
    in_recovery: u32,
    starts: Vec<Duration>,
}

/// Returns the least, median and greatest time from the start of the process until clients are served.
pub(crate) fn spread(mut starts: Vec<Duration>) -> String {
    starts.sort();
    let at = |index: usize| starts.get(index).map_or(0, Duration::as_millis);
    let (middle, last) = (starts.len() / 2, starts.len().saturating_sub(1));
    format!(
        "{} starts, ready after {} / {} / {} ms (min / median / max)",
        starts.len(),
        at(0),
        at(middle),
        at(last)
    )
}

/// Plays one round: starts the server, compares, loads and kills. The last round only compares.
fn play(
    place: &Place,
    last: bool,
    workload: &mut Workload,
    random: &mut Random,
    tally: &mut Tally,
) -> Outcome {
    // A write must survive a kill with both settings of durability. So they alternate from round to round, on the same
    // data.
    let on_disk = random.below(2) == 0;
    let hsync = format!("hbase.wal.hsync={on_disk}");
    let more: Vec<&str> = place.options.iter().map(String::as_str).collect();
    let options = [OPTIONS, &["-D", &hsync], &more].concat();
    let started = Instant::now();
    let server = Server::start_with_log(&place.data, &place.log, &options)?;
    let start = started.elapsed();
    tally.starts.push(start);
    tally.rows = workload.verify(&server.rpc)?;
    if last {
        server.stop()?;
        return no_panic(&place.log);
    }
    tally.on_disk += u32::from(on_disk);
    workload.load(&server.rpc)?;
    std::thread::sleep(Duration::from_millis(100 + random.below(1_400)));
    workload.dying()?;
    if random.below(6) == 0 {
        tally.in_order += 1;
        run_command("kill", &["-TERM", &server.id().to_string()])?;
        std::thread::sleep(Duration::from_millis(random.below(150)));
    }
    server.kill()?;
    tally.acknowledged = workload.dead()?;
    let again = random.below(6).saturating_sub(3);
    for _ in 0..again {
        tally.in_recovery += 1;
        let time = start.mul_f64(random.below(1_200) as f64 / 1_000.0);
        Server::start_and_kill(&place.data, &place.log, &options, time)?;
    }
    no_panic(&place.log)
}
