//! Attacks a server with invalid input.
//!
//! Every attack sends bytes to one of the four ports. Afterwards a healthy client must be able to connect, put a row and
//! get it back, and the server's memory must not have grown beyond the attack's limit. At the end the server's log must
//! have no panic and not be long. The server must respond as HBase does: with an exception of the right class for the
//! call, or for the connection when no call is known, or by closing the connection.
//!
//! The server is started with the default limit of open files and short timeouts, so that both limits are reached.

mod others;
mod rpc;
mod wire;

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::random::{Random, seed_from_the_clock};
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::talk::Talk;
use crate::{Outcome, programs};

/// Options of the server that shorten its timeouts: the maximum duration of a handshake on each port, in ms.
const OPTIONS: &[&str] = &[
    "-D",
    "bellows.ipc.server.handshake.timeout=1000",
    "-D",
    "bellows.zookeeper.socket.timeout=1000",
    "-D",
    "bellows.web.request.timeout=1000",
    "-D",
    "bellows.ipc.server.answers.size.max=67108864",
    "-D",
    "bellows.ipc.server.write.timeout.short=1000",
];
/// The source files with the services' methods, so that new methods are attacked too.
const SERVICES: [(&str, &str); 9] = [
    ("ClientService", "cluster/regionserver/src/client_service.rs"),
    ("AdminService", "cluster/regionserver/src/admin_service.rs"),
    ("ClientMetaService", "cluster/regionserver/src/client_meta.rs"),
    ("MasterService", "cluster/master/src/service/cluster.rs"),
    ("MasterService", "cluster/master/src/service/namespaces.rs"),
    ("MasterService", "cluster/master/src/service/procedures.rs"),
    ("MasterService", "cluster/master/src/service/regions.rs"),
    ("MasterService", "cluster/master/src/service/switches.rs"),
    ("MasterService", "cluster/master/src/service/tables.rs"),
];
/// Methods that end the server. They are called last.
const LAST: [&str; 3] = ["StopServer", "StopMaster", "Shutdown"];
/// Maximum number of bytes that the server may log.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Maximum wait of a healthy client.
const PULSE_MAX: Duration = Duration::from_secs(10);

/// An attack, and the memory that it may cost: a third more than was measured, because resident memory depends on
/// earlier use of the allocator.
struct Attack {
    name: &'static str,
    megabytes: u64,
    act: fn(&Scene<'_>) -> Outcome,
}

/// The server that is attacked, and the client that checks it.
struct Scene<'a> {
    /// The attacked port.
    address: &'a str,
    is_web: bool,
    is_rpc: bool,
    methods: &'a [(&'static str, String)],
    random: RefCell<Random>,
    pulse: RefCell<Talk>,
    slowest: Cell<Duration>,
    process: u32,
    files_open: usize,
}

impl Scene<'_> {
    fn below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    /// Checks that a healthy client is served in time.
    fn alive(&self, when: &str) -> Outcome {
        let began = Instant::now();
        let answer = self.pulse.borrow_mut().ask("beat")?;
        let took = began.elapsed();
        self.slowest.set(self.slowest.get().max(took));
        if !answer.starts_with("alive") {
            return Err(format!("{when}: {answer}"));
        }
        if took > PULSE_MAX {
            return Err(format!("{when}: a put and a get took {took:?}"));
        }
        Ok(())
    }

    /// Checks that the server has released what closed connections held.
    fn settled(&self) -> Outcome {
        let began = Instant::now();
        loop {
            let open = files_open(self.process)?;
            if open <= self.files_open + 64 {
                return Ok(());
            }
            if began.elapsed() > Duration::from_secs(20) {
                return Err(format!("{open} files are open, {} were before", self.files_open));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Runs all attacks, from a seed.
pub(crate) fn run(seed: Option<u64>) -> Outcome {
    let seed = seed.unwrap_or_else(seed_from_the_clock);
    build()?;
    programs::build_example("pulse")?;
    let folder = fresh_folder("hostile")?;
    say!("seed {seed}");
    attack_all(&Server::start_in(&folder, OPTIONS)?, seed)
        .map_err(|why| format!("seed {seed}: {why}\n  the server's log is {}", log_of(&folder).display()))?;
    let log = log_of(&folder);
    no_panic(&log)?;
    let logged = log.metadata().map_err(|error| format!("{}: {error}", log.display()))?.len();
    say!("the server logged {} KB", logged >> 10);
    if logged > LOG_BYTES_MAX {
        return Err(format!("the server logged {logged} bytes, see {}", log.display()));
    }
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

fn attack_all(server: &Server, seed: u64) -> Outcome {
    let methods = methods()?;
    let mut scene = Scene {
        address: &server.rpc,
        is_web: false,
        is_rpc: true,
        methods: &methods,
        random: RefCell::new(Random::new(seed)),
        pulse: RefCell::new(Talk::with("pulse", &server.rpc)?),
        slowest: Cell::default(),
        process: server.id(),
        files_open: 0,
    };
    scene.alive("before anything")?;
    scene.files_open = files_open(server.id())?;
    let at_first = memory(server.id(), "VmRSS")?;
    let ports = [
        ("rpc", &server.rpc, rpc::attacks()),
        ("master", &server.master, rpc::attacks()),
        ("zookeeper", &server.registry, others::registry()),
        ("web", &server.web, others::web()),
    ];
    for (port, address, attacks) in ports {
        (scene.address, scene.is_web) = (address, port == "web");
        scene.is_rpc = matches!(port, "rpc" | "master");
        for attack in attacks.into_iter().chain(others::everywhere()) {
            let what = format!("{port}: {}", attack.name);
            one(&scene, &attack, &what).map_err(|why| format!("{what}: {why}"))?;
        }
    }
    let at_last = memory(server.id(), "VmRSS")?;
    say!(
        "resident {} MB before, {} MB after; the slowest put and get took {} ms",
        at_first >> 10,
        at_last >> 10,
        scene.slowest.get().as_millis()
    );
    Ok(())
}

fn one(scene: &Scene<'_>, attack: &Attack, what: &str) -> Outcome {
    at_rest(scene.process)?;
    // Resets the process's peak of resident memory, so that the next peak is that of this attack.
    std::fs::write(format!("/proc/{}/clear_refs", scene.process), "5")
        .map_err(|error| format!("clear_refs: {error}"))?;
    let before = memory(scene.process, "VmRSS")?;
    let began = Instant::now();
    (attack.act)(scene)?;
    let took = began.elapsed();
    scene.alive("afterwards")?;
    let grown = memory(scene.process, "VmHWM")?.saturating_sub(before);
    let mut line = String::new();
    write!(line, "{what:66} {:6} ms  {:4} MB at most", took.as_millis(), grown >> 10)
        .map_err(|error| error.to_string())?;
    say!("{line}");
    if grown > attack.megabytes << 10 {
        return Err(format!("it cost {} MB, {} are allowed", grown >> 10, attack.megabytes));
    }
    Ok(())
}

/// Waits up to some seconds until the work of the previous attack is over, so that its memory does not count for the
/// next one: a scan of a client that left is read to the end of its reply.
fn at_rest(process: u32) -> Outcome {
    let mut last = memory(process, "VmRSS")?;
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let now = memory(process, "VmRSS")?;
        if now.abs_diff(last) < 1 << 10 {
            break;
        }
        last = now;
    }
    Ok(())
}

/// Returns a figure in `/proc/PID/status`, in KB.
fn memory(process: u32, what: &str) -> Result<u64, String> {
    let file = format!("/proc/{process}/status");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let line = text.lines().find(|line| line.starts_with(what));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.ok_or_else(|| format!("{file} says nothing of {what}"))
}

fn files_open(process: u32) -> Result<usize, String> {
    let folder = format!("/proc/{process}/fd");
    Ok(std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?.count())
}

/// Returns every method that a service handles by name.
fn methods() -> Result<Vec<(&'static str, String)>, String> {
    let mut all = Vec::new();
    for (service, file) in SERVICES {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        for line in text.lines().map(str::trim) {
            // A method is named by an arm of a match or by an entry in a table of handlers.
            let arm = line.starts_with('"').then(|| line.split_once("=>")).flatten().map(|(names, _)| names);
            let entry = line
                .strip_prefix('(')
                .filter(|rest| rest.starts_with('"'))
                .and_then(|rest| rest.split_once(','));
            let Some(names) = arm.or(entry.map(|(name, _)| name)) else { continue };
            let names = names.split('"').skip(1).step_by(2);
            all.extend(names.filter(|name| !LAST.contains(name)).map(|name| (service, name.to_owned())));
        }
    }
    if all.len() < 60 {
        return Err(format!("only {} methods are found in the services' sources", all.len()));
    }
    Ok(all)
}
