//! Runs the server under faults for a given time, with clients that never stop, and judges everything they read.
//!
//! The server has its files on an ext4 or XFS file system in an image. The plan of the seed kills it, also during
//! recovery, pauses it by SIGSTOP, stops it in order, cuts its power, fills its disk for a while, or lets its reads,
//! writes or syncs fail for a while. `proof/fire` has the clients and the judge: writers, readers, scanners, and
//! administrators who flush, compact, split, merge and alter, and who take snapshots, clone and restore them. They
//! continue while the server is away.
//!
//! After each recovery the writers pause until every key was read; then the server checks itself and must find nothing.
//! After each kill `bellows fsck` checks the files as they are. A run with `--calm` has no faults: no operation may fail,
//! and the end tells how long a key was unavailable. A failure prints the command that runs its plan again, and keeps the
//! image, the expected state and the server's log.
//!
//! The seed decides the faults, the values and the order of each client's operations. The operations that are under
//! way when a fault strikes depend on the machine.

pub(crate) mod checks;
pub(crate) mod plan;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::crash::OPTIONS;
use crate::image::{Image, KINDS, Mount};
use crate::powercut::{FIRST, apart, obstacle};
use crate::random::{Random, seed_from_the_clock};
use crate::server::{Server, Start, binary, build, fresh_folder, log_of, no_panic};
use crate::talk::Talk;
use crate::{NOT_RUN, Outcome, programs, run as run_command};
use checks::{Kills, MachineLoad};
use plan::{DiskCall, Fault, Rates, Step};

pub(crate) const USAGE: &str = "\
       cargo xtask fire [--minutes N] [--seed S] [--file-system ext4|xfs] [--kills-per-hour N]
                  [--kills-during-operations-per-hour N] [--power-losses-per-hour N] [--pauses-per-hour N]
                  [--stops-per-hour N] [--full-disks-per-hour N] [--disk-errors-per-hour N] [--checks-per-hour N]
                  [--calm] [--bellows BINARY] [-D KEY=VALUE]… [--plan]
                  (10 minutes unless said otherwise; --calm has no faults, before options that add some; --plan prints
                  the faults only; needs root, loop devices and, for disk errors, strace)";

/// Maximum time until the server accepts writes again after its disk works again.
const ROOM_MAX: Duration = Duration::from_secs(30);
/// Number of acknowledged writes that prove that the server accepts writes again.
const WRITTEN_AGAIN: u64 = 50;
/// What the server's self-check says of a region whose opening failed.
const NOT_OPENED: &str = "could not be opened";
/// Maximum time after a fault until regions whose opening failed during it are open: the server tries it again after pauses
/// of up to a minute.
const REOPENED_MAX: Duration = Duration::from_secs(90);
/// Further options of the server. With them regions can be merged again soon after a split or a merge, and the archive
/// of replaced files stays small.
pub(crate) const MORE_OPTIONS: &[&str] =
    &["-D", "hbase.catalogjanitor.interval=2000", "-D", "hbase.master.cleaner.interval=20000"];
/// A run of at least this time fails if it had no split or no merge.
const COVERAGE_MIN: Duration = Duration::from_secs(10 * 60);
/// A run whose plan has at least this number of times in which reads fail must have a failed read. One such time may have
/// none, because the cache may have all blocks that are read.
const READ_ERRORS_MIN: usize = 3;
/// Maximum time until strace has detached from the server's threads.
const LET_GO_MAX: Duration = Duration::from_secs(1);

/// The options of the command.
struct Options {
    minutes: f64,
    seed: u64,
    kind: &'static str,
    rates: Rates,
    only_plan: bool,
    /// The path of an existing server binary; if `None`, the server is built now.
    binary: Option<PathBuf>,
    /// Keys of the server, each in the form `-D KEY=VALUE`.
    keys: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            minutes: 10.0,
            seed: seed_from_the_clock(),
            kind: "",
            rates: Rates::default(),
            only_plan: false,
            binary: None,
            keys: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            if *name == "--plan" {
                options.only_plan = true;
                continue;
            }
            if *name == "--calm" {
                options.rates = Rates::calm();
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value\nusage:\n{USAGE}"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
            match *name {
                "--minutes" => {
                    options.minutes = value.parse().map_err(|_| format!("{name} {value}: not a number"))?;
                }
                "-D" => options.keys.push((*value).to_owned()),
                "--bellows" => options.binary = Some(PathBuf::from(value)),
                "--seed" => options.seed = number()?,
                "--file-system" => {
                    let kind = KINDS.iter().find(|(kind, _)| kind == value);
                    options.kind = kind.ok_or_else(|| format!("{name} {value}: expected ext4 or xfs"))?.0;
                }
                "--kills-per-hour" => options.rates.kills = number()?,
                "--kills-during-operations-per-hour" => options.rates.kills_during_operations = number()?,
                "--power-losses-per-hour" => options.rates.power_losses = number()?,
                "--pauses-per-hour" => options.rates.pauses = number()?,
                "--stops-per-hour" => options.rates.stops = number()?,
                "--full-disks-per-hour" => options.rates.full_disks = number()?,
                "--disk-errors-per-hour" => options.rates.disk_errors = number()?,
                "--checks-per-hour" => options.rates.checks = number()?,
                _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
            }
        }
        if options.kind.is_empty() {
            options.kind = KINDS[(options.seed % KINDS.len() as u64) as usize].0;
        }
        Ok(options)
    }

    /// Returns the command that runs the same plan.
    fn command(&self) -> String {
        let Rates {
            kills,
            kills_during_operations,
            power_losses,
            pauses,
            stops,
            full_disks,
            disk_errors,
            checks,
        } = self.rates;
        let binary = self.binary.as_ref().map(|binary| format!(" --bellows {}", binary.display()));
        let binary = binary.unwrap_or_default();
        let keys: String = self.keys.iter().map(|key| format!(" -D {key}")).collect();
        format!(
            "cargo xtask fire --minutes {} --seed {} --file-system {} --kills-per-hour {kills} \
             --kills-during-operations-per-hour {kills_during_operations} --power-losses-per-hour {power_losses} \
             --pauses-per-hour {pauses} --stops-per-hour {stops} --full-disks-per-hour {full_disks} \
             --disk-errors-per-hour {disk_errors} --checks-per-hour {checks}{binary}{keys}",
            self.minutes, self.seed, self.kind
        )
    }
}

/// Runs `cargo xtask fire` with these options.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = Options::parse(words)?;
    if options.only_plan {
        for Step { at, fault } in plan::plan(options.seed, options.minutes, &options.rates) {
            say!("{:8.1} s  {fault:?}", at.as_secs_f64());
        }
        return Ok(());
    }
    if let Some(why) = obstacle() {
        return Err(format!("{NOT_RUN}{why}"));
    }
    if options.rates.disk_errors > 0 && Command::new("strace").arg("--version").output().is_err() {
        return Err(format!("{NOT_RUN}strace was not found on the path (package strace)"));
    }
    if options.binary.is_none() {
        build()?;
    }
    programs::build("fire")?;
    let this = std::env::current_exe().map_err(|error| format!("this program's own name: {error}"))?;
    let again = options.command();
    let mut command = apart();
    command.args(["bash", "-c", FIRST]).arg(this).arg("fire-inside");
    command.args(again.split(' ').skip(3));
    let status = command.status().map_err(|error| format!("cannot start unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("see above ({status}); the same plan again: {again}")) }
}

/// Follows the plan. The caller has created the namespaces.
pub(crate) fn run_inside(words: &[&str]) -> Outcome {
    let options = Options::parse(words)?;
    let folder = fresh_folder(&format!("fire-{}", options.seed))?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let folder = folder.canonicalize().map_err(failed)?;
    // The programs are copied, so that a build during the run cannot replace them.
    let keep = |program: PathBuf| {
        let kept = folder.join(program.file_name().unwrap_or_default());
        std::fs::copy(&program, &kept).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok::<PathBuf, String>(kept)
    };
    let (server, client) =
        (keep(options.binary.clone().unwrap_or_else(binary))?, keep(programs::target().join("debug/fire"))?);
    let make = KINDS.iter().find(|(kind, _)| *kind == options.kind).expect("parsed").1;
    let image = Image::make(&folder, options.kind, make)?;
    say!("{}", options.command());
    let mut run = Run::begin(&options, image, server, &client)?;
    let end = Duration::from_secs_f64(options.minutes * 60.0);
    let outcome = run.follow(plan::plan(options.seed, options.minutes, &options.rates), end);
    // If the server has ended by itself, that is the cause of what the clients complain about, and is reported instead.
    let outcome = outcome.or_else(|why| run.check_alive().and(Err(why)));
    let counts = run.clients.ask("counts");
    run.report(counts.as_deref().unwrap_or("unknown"));
    outcome.map_err(|why| {
        format!(
            "{:.1} s after the begin: {why}\n  image, expected state and clients are kept in {}, the log is {}",
            run.began.elapsed().as_secs_f64(),
            folder.display(),
            run.log.display()
        )
    })?;
    drop(run);
    std::fs::remove_dir_all(&folder).map_err(failed)
}

/// The client process of the test. An answer that is a complaint becomes an error.
pub(crate) struct Clients(Talk);

impl Clients {
    /// Starts the program `client` with these arguments: seed, file of the expected state, addresses of the server.
    pub(crate) fn start(client: &Path, arguments: &[&str]) -> Result<Clients, String> {
        Talk::start(client, arguments).map(Clients)
    }

    pub(crate) fn ask(&mut self, line: &str) -> Result<String, String> {
        let answer = self.0.ask(line)?;
        match answer.strip_prefix("bad: ") {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer),
        }
    }
}

/// A run of a plan.
struct Run {
    random: Random,
    image: Image,
    mount: Option<Mount>,
    binary: PathBuf,
    log: PathBuf,
    ports: [u16; 4],
    /// The further arguments of the server.
    more: Vec<String>,
    server: Option<Server>,
    clients: Clients,
    began: Instant,
    /// Times from the start of the process to the first answered get, for each recovery.
    recoveries: Vec<Duration>,
    faults: BTreeMap<&'static str, u64>,
    /// Number of the server's system calls that failed by [`Fault::DiskErrors`].
    failed_calls: BTreeMap<DiskCall, u64>,
    verified: u64,
    kills: Kills,
    /// Number of checks that the server made of itself.
    checks: u64,
    load: MachineLoad,
}

impl Run {
    fn begin(options: &Options, image: Image, binary: PathBuf, client: &Path) -> Result<Run, String> {
        let ports = free_ports(options.seed)?;
        let mount = image.mount()?;
        let servers = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
        let state = image.folder.join("expected");
        let arguments = [&options.seed.to_string(), &state.display().to_string(), &servers];
        let clients = Clients::start(client, &arguments.map(String::as_str))?;
        let keys = options.keys.iter().flat_map(|key| ["-D".to_owned(), key.clone()]);
        let mut run = Run {
            random: Random::new(options.seed ^ 1),
            log: log_of(&image.folder),
            image,
            mount: Some(mount),
            binary,
            ports,
            more: OPTIONS.iter().chain(MORE_OPTIONS).map(|word| (*word).to_owned()).chain(keys).collect(),
            server: None,
            clients,
            began: Instant::now(),
            recoveries: Vec::new(),
            faults: BTreeMap::new(),
            failed_calls: BTreeMap::new(),
            verified: 0,
            kills: Kills::default(),
            checks: 0,
            load: MachineLoad::begin(),
        };
        run.server = Some(run.start(Server::start_as)?);
        run.clients.ask("start")?;
        Ok(run)
    }

    fn data(&self) -> PathBuf {
        self.image.folder.join("mount/data")
    }

    fn start<T>(&self, how: impl FnOnce(&Start<'_>) -> T) -> T {
        let data = self.data();
        let (binary, log) = (&self.binary, &self.log);
        let more: Vec<&str> = self.more.iter().map(String::as_str).collect();
        how(&Start { before: &[], binary, folder: &data, log, ports: self.ports, more: &more })
    }

    fn follow(&mut self, steps: Vec<Step>, end: Duration) -> Outcome {
        self.began = Instant::now();
        let all = steps.len();
        let is_read_error = |step: &&Step| matches!(step.fault, Fault::DiskErrors { of: DiskCall::Read, .. });
        let read_errors = steps.iter().filter(is_read_error).count();
        for (number, Step { at, fault }) in steps.into_iter().enumerate() {
            std::thread::sleep(at.saturating_sub(self.began.elapsed()));
            let when = self.began.elapsed().as_secs_f64();
            self.strike(fault).map_err(|why| format!("fault {} of {all}, {fault:?}: {why}", number + 1))?;
            let (rows, last) = (self.verified, self.recoveries.last().map_or(0, Duration::as_millis));
            say!(
                "{when:8.1} s  {fault:?}: {rows} rows are as they must be; the last recovery took {last} ms"
            );
        }
        std::thread::sleep(end.saturating_sub(self.began.elapsed()));
        self.verify()?;
        self.clients.ask("end")?;
        if end >= COVERAGE_MIN {
            checks::has_splits_and_merges(&self.clients.ask("counts")?)?;
        }
        if read_errors >= READ_ERRORS_MIN
            && self.failed_calls.get(&DiskCall::Read).is_none_or(|count| *count == 0)
        {
            return Err("the run proves too little: no read of the server failed".to_owned());
        }
        self.self_check()?;
        self.server()?.stop()?;
        checks::fsck(&self.binary, &self.data(), &[])?;
        no_panic(&self.log)
    }

    fn count(&mut self, what: &'static str) {
        *self.faults.entry(what).or_default() += 1;
    }

    fn server(&mut self) -> Result<Server, String> {
        self.server.take().ok_or_else(|| "the server is away".to_owned())
    }

    fn strike(&mut self, fault: Fault) -> Outcome {
        // Before a fault no check may have failed.
        self.check_alive()?;
        self.clients.ask("counts")?;
        match fault {
            Fault::Check => return self.verify(),
            Fault::KillDuring { operation, part } => self.wait_for_operation(operation, part)?,
            _ => {}
        }
        self.clients.ask("disturbed")?;
        self.act(fault)?;
        self.clients.ask("settled").map(drop)
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

    /// Waits until an operation of an administrator has begun, and then for a part of its usual time.
    fn wait_for_operation(&mut self, operation: &'static str, part: f64) -> Outcome {
        let answer = self.clients.ask(&format!("begin {operation}"))?;
        // If no operation begins in time, the kill happens anyway, and is counted as one without an operation.
        let usual = answer.strip_prefix("begun ").and_then(|us| us.parse().ok()).unwrap_or(0);
        std::thread::sleep(Duration::from_micros(usual).mul_f64(part));
        Ok(())
    }

    /// Kills the server, and checks its files as they are.
    fn kill(&mut self) -> Outcome {
        self.count("kills");
        self.check_alive()?;
        self.server()?.kill()?;
        let under_way = self.clients.ask("under-way")?;
        let found = checks::fsck(&self.binary, &self.data(), &[])?;
        self.kills.count(&under_way, &found);
        Ok(())
    }

    fn act(&mut self, fault: Fault) -> Outcome {
        match fault {
            Fault::Check => Ok(()),
            Fault::KillDuring { .. } => {
                self.kill()?;
                self.recover()
            }
            Fault::Kill { again } => {
                self.kill()?;
                let usual = self.recoveries.last().copied().unwrap_or(Duration::from_millis(200));
                for _ in 0..again {
                    self.count("kills in a recovery");
                    let time = usual.mul_f64(self.random.below(1_200) as f64 / 1_000.0);
                    self.start(|start| Server::start_as_and_kill(start, time))?;
                }
                self.recover()
            }
            Fault::PowerLoss { shortly_after_kill } => {
                if shortly_after_kill {
                    self.kill()?;
                    self.recover()?;
                    std::thread::sleep(Duration::from_millis(self.random.below(4) * self.random.below(200)));
                }
                self.count("power losses");
                self.lose_power()?;
                self.recover()
            }
            Fault::Pause { ms } => {
                self.count("pauses");
                let server = self.server()?;
                let id = server.id().to_string();
                run_command("kill", &["-STOP", &id])?;
                std::thread::sleep(Duration::from_millis(ms));
                run_command("kill", &["-CONT", &id])?;
                self.server = Some(server);
                self.verify()
            }
            Fault::Stop => {
                self.count("orderly stops");
                self.server()?.stop()?;
                self.recover()
            }
            Fault::Full { ms, kills } => {
                self.count("full disks");
                self.fill_disk(Duration::from_millis(ms), kills)
            }
            Fault::DiskErrors { of, ms } => {
                self.count("times of disk errors");
                self.fail_disk(of, Duration::from_millis(ms))
            }
        }
    }

    /// Fills the file system for a time. The server must keep running, or start on the full disk if it is killed then, and
    /// accept writes again when there is space.
    fn fill_disk(&mut self, time: Duration, kills: bool) -> Outcome {
        let mount = self.mount.as_ref().ok_or("nothing is mounted")?;
        self.clients.ask("may-fail")?;
        let filler = Filler::fill(&mount.at)?;
        std::thread::sleep(time);
        if kills {
            self.count("kills on a full disk");
            self.kill()?;
            self.clients.ask("close")?;
            self.start_on_full_disk()?;
        }
        filler.remove()?;
        if kills {
            if self.server.is_none() {
                self.server = Some(self.start(Server::start_as)?);
            }
            self.clients.ask("probe")?;
            self.clients.ask("open")?;
        }
        self.accepts_writes()?;
        self.clients.ask("calm")?;
        self.clients.ask("close")?;
        self.verify()
    }

    /// Starts the server on the full disk. It may refuse that only if the filler has taken the reserve that the server had
    /// given up, and must then say that the disk is full.
    fn start_on_full_disk(&mut self) -> Outcome {
        let reserve = self.data().join("bellows.reserve");
        let has_reserve = std::fs::metadata(&reserve).is_ok_and(|reserve| reserve.len() > 0);
        let log_bytes = checks::size_of(&self.log)?;
        match self.start(Server::start_as) {
            Ok(server) => {
                self.count("starts on a full disk");
                self.server = Some(server);
                Ok(())
            }
            Err(words) if has_reserve => Err(format!("with its reserve, {words}")),
            Err(_) => {
                self.count("starts that a full disk without a reserve refused");
                checks::names_a_full_disk(&self.log, log_bytes)
            }
        }
    }

    /// Lets the server's calls of this kind fail for a time. It may end by itself, with status 1, and is started again;
    /// or it goes on, and must accept writes.
    fn fail_disk(&mut self, of: DiskCall, time: Duration) -> Outcome {
        self.clients.ask("may-fail")?;
        let mut server = self.server()?;
        let log_bytes = checks::size_of(&self.log)?;
        let calls = FailingCalls::begin(&server, of, &self.image.folder.join("strace"))?;
        std::thread::sleep(time);
        *self.failed_calls.entry(of).or_default() += calls.end()?;
        let ended = self.ends_or_accepts_writes(&mut server);
        if !matches!(ended, Ok(Some(_))) {
            self.server = Some(server);
        }
        match ended? {
            Some(status) if status.code() == Some(1) => {
                self.count("ends of the server at disk errors");
                checks::names_a_file(&self.log, log_bytes)?;
                self.recover()?;
            }
            Some(status) => return Err(format!("the server ended with {status}, not with status 1")),
            None => {
                self.clients.ask("close")?;
                self.verify()?;
            }
        }
        self.clients.ask("calm").map(drop)
    }

    /// Waits until writes are acknowledged again.
    fn accepts_writes(&mut self) -> Outcome {
        let mut server = self.server()?;
        let ended = self.ends_or_accepts_writes(&mut server);
        self.server = Some(server);
        ended?.map_or(Ok(()), |status| Err(format!("the server ended by itself with {status}")))
    }

    /// Waits until writes are acknowledged again, or the server has ended. Returns the status of its end.
    fn ends_or_accepts_writes(&mut self, server: &mut Server) -> Result<Option<ExitStatus>, String> {
        let since = Instant::now();
        let before = self.written()?;
        loop {
            if let Some(status) = server.end()? {
                return Ok(Some(status));
            }
            if self.written()? >= before + WRITTEN_AGAIN {
                return Ok(None);
            }
            if since.elapsed() > ROOM_MAX {
                return Err(format!("writes are still refused {ROOM_MAX:?} after the disk was good again"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the number of writes that were acknowledged since the clients started.
    fn written(&mut self) -> Result<u64, String> {
        let counts = self.clients.ask("counts")?;
        let written = counts.split(',').find_map(|part| part.strip_prefix("written="));
        Ok(written.and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    fn lose_power(&mut self) -> Outcome {
        let mount = self.mount.take().ok_or("nothing is mounted")?;
        let server = self.server()?;
        let cutter = mount.cutter()?;
        self.clients.ask("breaking")?;
        cutter.cut()?;
        mount.is_down()?;
        // For this time the server runs on a disk that has failed. It must not acknowledge a write that begins now.
        self.clients.ask("down")?;
        std::thread::sleep(Duration::from_millis(self.random.below(3) * self.random.below(150)));
        server.kill()?;
        self.clients.ask("whole")?;
        mount.unmount()?;
        self.mount = Some(self.image.mount()?);
        Ok(())
    }

    /// Starts the server, waits for the first answer and judges everything.
    fn recover(&mut self) -> Outcome {
        self.clients.ask("close")?;
        let began = Instant::now();
        let server = self.start(Server::start_as)?;
        self.server = Some(server);
        self.clients.ask("probe")?;
        self.recoveries.push(began.elapsed());
        self.verify()?;
        no_panic(&self.log)
    }

    fn verify(&mut self) -> Outcome {
        let answer = self.clients.ask("verify")?;
        let rows = answer.strip_prefix("good ").and_then(|rows| rows.parse().ok());
        self.verified = rows.ok_or_else(|| format!("an answer that is none: {answer:?}"))?;
        self.self_check()?;
        self.clients.ask("open").map(drop)
    }

    /// Makes the server check itself; it must find nothing.
    fn self_check(&mut self) -> Outcome {
        let since = Instant::now();
        loop {
            self.clients.ask("self-check")?;
            self.checks += 1;
            match checks::of_itself(&self.server.as_ref().ok_or("the server is away")?.web) {
                Err(why) if why.contains(NOT_OPENED) && since.elapsed() < REOPENED_MAX => {
                    std::thread::sleep(Duration::from_secs(2));
                }
                outcome => return outcome,
            }
        }
    }

    fn report(&mut self, counts: &str) {
        let faults: Vec<String> = self.faults.iter().map(|(what, count)| format!("{what} {count}")).collect();
        say!("{:.1} minutes; {}", self.began.elapsed().as_secs_f64() / 60.0, faults.join(", "));
        if !self.failed_calls.is_empty() {
            let calls: Vec<String> =
                self.failed_calls.iter().map(|(of, count)| format!("{of:?} {count}")).collect();
            say!("calls that failed with disk errors: {}", calls.join(", "));
        }
        say!("operations: {}", counts.replace(',', ", ").replace('=', " "));
        say!("{}", distribution(&mut self.recoveries));
        say!("{}", self.kills.line());
        say!("the server checked itself {} times", self.checks);
        for what in ["availability", "failures"] {
            let lines = self.clients.ask(what).unwrap_or_default();
            lines.split("; ").filter(|line| !line.is_empty()).for_each(|line| say!("{line}"));
        }
        say!("{}", self.load.line());
    }
}

/// A tracer that lets calls of the server fail with EIO.
struct FailingCalls {
    tracer: Child,
    of: DiskCall,
    /// One line for each failed call.
    trace: PathBuf,
}

impl FailingCalls {
    fn begin(server: &Server, of: DiskCall, trace: &Path) -> Result<FailingCalls, String> {
        let _absent = std::fs::remove_file(trace);
        let calls = of.system_calls();
        let tracer = Command::new("strace")
            .args(["--follow-forks", "--quiet=attach,exit,personality", "--output"])
            .arg(trace)
            .args(["--trace", calls, "--inject", &format!("{calls}:error=EIO")])
            .args(["--attach", &server.id().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start strace (package strace): {error}"))?;
        Ok(FailingCalls { tracer, of, trace: trace.to_owned() })
    }

    /// Ends the fault. Returns how many calls have failed. If syncs should have failed and none did, that is an error.
    fn end(mut self) -> Result<u64, String> {
        if self.tracer.try_wait().map_err(|error| error.to_string())?.is_none() {
            run_command("kill", &["-INT", &self.tracer.id().to_string()])?;
        }
        // If the server ends at this moment, strace waits for ever. Killing strace releases all threads.
        if wait_for(LET_GO_MAX, || self.tracer.try_wait().map_err(|error| error.to_string()))?.is_none() {
            self.tracer.kill().and_then(|()| self.tracer.wait()).map_err(|error| error.to_string())?;
        }
        let trace = std::fs::read_to_string(&self.trace)
            .map_err(|error| format!("strace has not attached: {}: {error}", self.trace.display()))?;
        let failed = trace.lines().filter(|line| line.contains("(INJECTED)")).count() as u64;
        // The writers never stop, so there are always syncs that fail. Reads of files happen only when the cache lacks
        // a block, so there may be none.
        if failed == 0 && self.of == DiskCall::Sync {
            return Err("strace let no sync of the server fail".to_owned());
        }
        Ok(failed)
    }
}

/// Asks until there is an answer, for at most this time.
fn wait_for<T>(
    time: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    let since = Instant::now();
    loop {
        let answer = ask()?;
        if answer.is_some() || since.elapsed() > time {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Files that take all free space of a file system, until they are deleted.
struct Filler(Vec<PathBuf>);

impl Filler {
    /// Takes the space in ever smaller files, down to one block.
    fn fill(folder: &Path) -> Result<Filler, String> {
        let mut files = Vec::new();
        let mut bytes: u64 = 1 << 30;
        while bytes >= 4_096 {
            let file = folder.join(format!("filler-{}", files.len()));
            let status = Command::new("fallocate")
                .args(["--length", &bytes.to_string()])
                .arg(&file)
                .stderr(Stdio::null())
                .status()
                .map_err(|error| format!("cannot start fallocate (package util-linux): {error}"))?;
            if status.success() {
                files.push(file);
            } else {
                // The file may have been written in part, so it is deleted.
                let _absent = std::fs::remove_file(&file);
                bytes /= 2;
            }
        }
        match files.is_empty() {
            true => Err(format!("{} has no room to take", folder.display())),
            false => Ok(Filler(files)),
        }
    }

    fn remove(self) -> Outcome {
        self.0.iter().try_for_each(|file| {
            std::fs::remove_file(file).map_err(|error| format!("{}: {error}", file.display()))
        })
    }
}

/// Returns the number of recoveries, and their times.
fn distribution(times: &mut [Duration]) -> String {
    times.sort();
    let at = |part: f64| {
        let index = (times.len() as f64 * part).ceil() as usize;
        times.get(index.saturating_sub(1)).map_or(0, Duration::as_millis)
    };
    format!(
        "{} recoveries, from the start of the process to the first answered get: p50 {} ms, p90 {} ms, max {} ms",
        times.len(),
        at(0.5),
        at(0.9),
        at(1.0)
    )
}

/// Returns four ports that are free now. They are below those that the system assigns to outgoing connections, because
/// a restarted server must get its ports again.
pub(crate) fn free_ports(seed: u64) -> Result<[u16; 4], String> {
    let mut random = Random::new(seed_from_the_clock() ^ seed);
    let mut ports = [0; 4];
    let mut held = Vec::new();
    for port in &mut ports {
        let found = (0..100).find_map(|_| {
            let port = 10_000 + random.below(20_000) as u16;
            TcpListener::bind(("127.0.0.1", port)).ok().map(|listener| (port, listener))
        });
        let (found, listener) = found.ok_or("no port between 10000 and 30000 is free")?;
        held.push(listener);
        *port = found;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_command_is_understood_and_gives_the_same_plan() {
        let options = Options::parse(&["--minutes", "2.5", "--seed", "9", "--stops-per-hour", "3"]).unwrap();
        let command = options.command();
        let words: Vec<&str> = command.split(' ').skip(3).collect();
        let again = Options::parse(&words).unwrap();
        let plan = |options: &Options| plan::plan(options.seed, options.minutes, &options.rates);
        assert_eq!(plan(&options), plan(&again));
        assert_eq!(options.kind, again.kind);
        assert!(Options::parse(&["--file-system", "fat"]).is_err());
    }

    #[test]
    fn a_distribution_names_its_percentiles() {
        let mut times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let line = distribution(&mut times);
        assert!(line.contains("p50 50 ms, p90 90 ms, max 100 ms"), "{line}");
        assert!(distribution(&mut []).contains("0 recoveries"));
    }
}
