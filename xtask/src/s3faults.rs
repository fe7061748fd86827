//! Runs the server on an S3 store behind a proxy that injects faults, one kind at a time, and judges everything that its
//! clients read.
//!
//! Each kind has a store and a bucket of its own. The log is in the store, too. `proof/fire` has the clients, the
//! administrators and the judge. Now and then the server is killed, `bellows fsck` checks the store, and the server is
//! started again. The server must never end by itself: nobody else opens its store.
//!
//! After the faults come the zombies: servers that are suspended while another one takes over their files, and then
//! continue.
//!
//! The seed decides the faults by the order of requests, the values, and the order of each client's operations. Which
//! request is struck depends on the machine.

mod kind;
mod listings;
mod message;
pub(crate) mod proxy;
pub(crate) mod request;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::crash::{OPTIONS, store_options};
use crate::fire::checks::{self, Kills};
use crate::fire::{Clients, MORE_OPTIONS, free_ports};
use crate::random::{Random, seed_from_the_clock};
use crate::s3::{Store, takeovers};
use crate::server::{Server, Start, binary, build, fresh_folder, no_panic};
use crate::workload::Workload;
use crate::{Outcome, programs};
use kind::Kind;
use proxy::{Delays, Proxy};

pub(crate) const USAGE: &str = "\
       cargo xtask s3faults [--only KIND,…] [--operations N] [--seed S] [--bellows BINARY] [--kill-every N]
                  [--delay SECONDS] [--zombies N]
                  (100,000 acknowledged changes of each kind of faults, a kill each 20,000, requests that arrive again
                  after 60 s, and 200 zombies, unless said otherwise; needs Go)";

/// The time after which the server's S3 client gives up a request, as its environment variable has it.
const CLIENT_TIMEOUT: &str = "AWS_TIMEOUT=500ms";
/// After this time a request whose client has given up arrives late.
const LATE: Duration = Duration::from_millis(800);
/// How often the progress of the clients is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum time without an acknowledged change.
const PROGRESS_MAX: Duration = Duration::from_secs(100);
/// Number of zombies, unless said otherwise.
const ZOMBIES: u32 = 200;
/// Number of zombies in one store. Logs are kept for minutes, and the store lists their parts the more slowly the more there
/// are.
const ZOMBIES_IN_A_STORE: u32 = 50;
/// How often a start is repeated, as a supervisor does.
const STARTS_MAX: u32 = 40;
/// Number of tasks that write.
const WRITERS: usize = 24;

/// The options of the command.
struct Options {
    kinds: Vec<Kind>,
    operations: u64,
    seed: u64,
    binary: Option<PathBuf>,
    kill_every: u64,
    delay: Duration,
    zombies: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            kinds: Kind::ALL.into_iter().filter(|kind| kind.must_pass()).collect(),
            operations: 100_000,
            seed: seed_from_the_clock(),
            binary: None,
            kill_every: 20_000,
            delay: Duration::from_secs(60),
            zombies: ZOMBIES,
        };
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value\nusage:\n{USAGE}", pair[0]));
            };
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
            match *name {
                "--only" => {
                    let names = || value.split(',');
                    if names().all(|name| name != "zombies") {
                        options.zombies = 0;
                    }
                    let kinds = names().filter(|name| *name != "zombies").map(|name| {
                        Kind::parse(name).ok_or_else(|| {
                            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                            format!(
                                "{name} is no kind of faults; expected zombies or one of {}",
                                names.join(", ")
                            )
                        })
                    });
                    options.kinds = kinds.collect::<Result<_, _>>()?;
                }
                "--operations" => options.operations = number()?,
                "--seed" => options.seed = number()?,
                "--bellows" => options.binary = Some(PathBuf::from(value)),
                "--kill-every" => options.kill_every = number()?.max(1),
                "--zombies" => {
                    options.zombies = u32::try_from(number()?).map_err(|error| error.to_string())?;
                }
                "--delay" => options.delay = Duration::from_secs(number()?),
                _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

/// Runs `cargo xtask s3faults` with these options.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = Options::parse(words)?;
    if options.binary.is_none() {
        build()?;
    }
    let client = programs::build("fire")?;
    let server = options.binary.clone().unwrap_or_else(binary);
    say!("seed {}", options.seed);
    for kind in &options.kinds {
        play(*kind, &options, &server, &client)
            .map_err(|why| format!("{}, seed {}: {why}", kind.name(), options.seed))?;
    }
    let mut left = options.zombies;
    if left > 0 {
        Workload::build()?;
    }
    while left > 0 {
        let count = left.min(ZOMBIES_IN_A_STORE);
        let store = Store::start_in(&fresh_folder("s3zombies")?)?;
        let seed = options.seed + u64::from(options.zombies - left);
        takeovers(count, seed, &server, &data(), &store_options(&store.endpoint, ""))?;
        left -= count;
    }
    Ok(())
}

/// Plays one kind of faults.
fn play(kind: Kind, options: &Options, server: &Path, client: &Path) -> Outcome {
    let folder = fresh_folder(&format!("s3faults-{}", kind.name()))?;
    let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
    // The programs are copied, so that a build during the run cannot replace them.
    let keep = |program: &Path| {
        let kept = folder.join(program.file_name().unwrap_or_default());
        std::fs::copy(program, &kept).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok::<PathBuf, String>(kept)
    };
    let (server, client) = (keep(server)?, keep(client)?);
    let mut run = Run::begin(kind, options, &folder, server, &client)?;
    let outcome = run.follow(options);
    // If the server has ended by itself, that is the cause of what the clients complain about, and is reported instead.
    let outcome = outcome.or_else(|why| run.check_alive().and(Err(why)));
    let outcome = outcome.and_then(|()| match run.proxy.injected() {
        0 => Err("no fault was injected; the run needs more --operations".to_owned()),
        _ => Ok(()),
    });
    run.report();
    outcome.map_err(|why| {
        format!(
            "{:.1} s after the begin: {why}\n  expected state, store and the server's log are kept in {}",
            run.began.elapsed().as_secs_f64(),
            folder.display()
        )
    })?;
    drop(run);
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// A run of one kind of faults.
struct Run {
    kind: Kind,
    store: Store,
    proxy: Proxy,
    binary: PathBuf,
    log: PathBuf,
    ports: [u16; 4],
    /// The further arguments of the server.
    more: Vec<String>,
    server: Option<Server>,
    clients: Clients,
    random: Random,
    began: Instant,
    kills: Kills,
    kills_in_recovery: u64,
    starts: u64,
    failed_starts: u64,
}

impl Run {
    fn begin(
        kind: Kind,
        options: &Options,
        folder: &Path,
        binary: PathBuf,
        client: &Path,
    ) -> Result<Run, String> {
        let seed = options.seed ^ kind as u64;
        let store = Store::start_in(&folder.join("store"))?;
        let delays = Delays { again: options.delay, late: LATE, ..Delays::default() };
        let proxy = Proxy::start(&store.endpoint, kind, seed, delays)
            .map_err(|error| format!("the proxy does not start: {error}"))?;
        let ports = free_ports(seed)?;
        let servers = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
        let state = folder.join("expected").display().to_string();
        let clients =
            Clients::start(client, &[&options.seed.to_string(), &state, &servers, &WRITERS.to_string()])?;
        let more = OPTIONS.iter().chain(MORE_OPTIONS).map(|word| (*word).to_owned());
        let mut run = Run {
            kind,
            more: more.chain(store_options(&proxy.endpoint, "")).collect(),
            store,
            proxy,
            binary,
            log: folder.join("bellows.log"),
            ports,
            server: None,
            clients,
            random: Random::new(seed ^ 1),
            began: Instant::now(),
            kills: Kills::default(),
            kills_in_recovery: 0,
            starts: 0,
            failed_starts: 0,
        };
        run.start()?;
        // Operations of clients and administrators may fail as long as there are faults.
        for words in ["may-fail", "disturbed", "start"] {
            run.clients.ask(words)?;
        }
        Ok(run)
    }

    fn with_start<T>(&self, how: impl FnOnce(&Start<'_>) -> T) -> T {
        let more: Vec<&str> = self.more.iter().map(String::as_str).collect();
        how(&Start {
            before: &["env", CLIENT_TIMEOUT],
            binary: &self.binary,
            folder: &data(),
            log: &self.log,
            ports: self.ports,
            more: &more,
        })
    }

    fn start(&mut self) -> Outcome {
        let mut attempt = 1;
        self.server = loop {
            self.starts += 1;
            match self.with_start(Server::start_as) {
                Ok(server) => break Some(server),
                Err(why) if attempt == STARTS_MAX => return Err(why),
                Err(_) => self.failed_starts += 1,
            }
            attempt += 1;
        };
        Ok(())
    }

    fn follow(&mut self, options: &Options) -> Outcome {
        let mut next_kill = options.kill_every;
        let (mut acknowledged, mut since) = (0, Instant::now());
        while acknowledged < options.operations {
            std::thread::sleep(LOOK);
            self.check_alive()?;
            let now = self.acknowledged()?;
            if now > acknowledged {
                (acknowledged, since) = (now, Instant::now());
            } else if since.elapsed() > PROGRESS_MAX {
                return Err(format!("no change was acknowledged for {PROGRESS_MAX:?}"));
            }
            if acknowledged >= next_kill {
                next_kill = acknowledged + options.kill_every;
                std::thread::sleep(Duration::from_millis(self.random.below(500)));
                self.kill()?;
                self.recover()?;
            }
        }
        self.end()
    }

    /// Kills the server, sometimes again in its recovery, and checks its files as they are.
    fn kill(&mut self) -> Outcome {
        self.check_alive()?;
        self.server.take().ok_or("the server is away")?.kill()?;
        let under_way = self.clients.ask("under-way")?;
        let found = self.fsck()?;
        self.kills.count(&under_way, &found);
        for _ in 0..self.random.below(4).saturating_sub(1) {
            self.kills_in_recovery += 1;
            let time = Duration::from_millis(self.random.below(1_000));
            self.with_start(|start| Server::start_as_and_kill(start, time))?;
        }
        Ok(())
    }

    /// Starts the server, and judges everything.
    fn recover(&mut self) -> Outcome {
        self.clients.ask("close")?;
        self.start()?;
        self.clients.ask("probe")?;
        self.verify()?;
        no_panic(&self.log)
    }

    fn verify(&mut self) -> Outcome {
        self.clients.ask("verify")?;
        self.clients.ask("self-check")?;
        checks::of_itself(&self.server.as_ref().ok_or("the server is away")?.web)?;
        self.clients.ask("open").map(drop)
    }

    /// Ends the faults. From then on every operation must succeed. Everything is judged, and once more after a start
    /// on what the store has when the last late request has arrived.
    fn end(&mut self) -> Outcome {
        self.clients.ask("close")?;
        self.proxy.settle();
        self.verify()?;
        for words in ["close", "settled", "calm", "end"] {
            self.clients.ask(words)?;
        }
        self.check_alive()?;
        self.server.take().ok_or("the server is away")?.stop()?;
        self.fsck()?;
        self.recover()?;
        self.check_alive()?;
        self.server.take().ok_or("the server is away")?.stop()?;
        self.fsck()?;
        no_panic(&self.log)
    }

    /// Fails if the server has ended by itself.
    fn check_alive(&mut self) -> Outcome {
        let Some(server) = &mut self.server else { return Ok(()) };
        match server.end()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("the server ended by itself with {status}, see {}", self.log.display()))
            }
        }
    }

    /// Checks the files without the proxy.
    fn fsck(&self) -> Result<String, String> {
        checks::fsck(&self.binary, &data(), &store_options(&self.store.endpoint, ""))
    }

    /// Returns the number of changes that were acknowledged.
    fn acknowledged(&mut self) -> Result<u64, String> {
        let counts = self.clients.ask("counts")?;
        let changes = counts.split(',').filter_map(|count| {
            let (kind, count) = count.split_once('=')?;
            ["written", "added", "added-by-check"].contains(&kind).then(|| count.parse::<u64>().ok())?
        });
        Ok(changes.sum())
    }

    fn report(&mut self) {
        let counts = self.clients.ask("counts").unwrap_or_else(|why| why);
        let (requests, faults) = self.proxy.report();
        say!(
            "{}: {} changes acknowledged in {:.0} s; {} faults in {requests} requests; {} starts, {} more failed; {} kills \
             in a recovery",
            self.kind.name(),
            self.acknowledged().unwrap_or(0),
            self.began.elapsed().as_secs_f64(),
            self.proxy.injected(),
            self.starts - self.failed_starts,
            self.failed_starts,
            self.kills_in_recovery,
        );
        say!("  faults: {faults}");
        say!("  operations: {}", counts.replace(',', ", ").replace('=', " "));
        say!("  {}", self.kills.line());
    }
}

/// The value of `--data-dir`.
fn data() -> PathBuf {
    PathBuf::from("s3://bellows/faults")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_kinds() {
        let options = Options::parse(&["--only", "again,storm", "--operations", "7"]).unwrap();
        assert_eq!((options.kinds, options.operations), (vec![Kind::Again, Kind::Storm], 7));
        assert_eq!(options.zombies, 0);
        let options = Options::parse(&["--only", "zombies", "--zombies", "3"]).unwrap();
        assert_eq!((options.kinds, options.zombies), (vec![], 3));
        let options = Options::parse(&[]).unwrap();
        assert_eq!((options.kinds.len(), options.zombies), (Kind::ALL.len() - 1, ZOMBIES));
        let error = Options::parse(&["--only", "nothing"]).err().unwrap();
        assert!(
            error.contains("nothing is no kind of faults; expected zombies or one of error-after"),
            "{error}"
        );
        assert!(Options::parse(&["--only"]).is_err());
    }
}
