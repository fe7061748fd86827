//! One run of the simulation: a seed, a server, clients, faults, and the judges' verdicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use env::Runtime;
use parking_lot::Mutex;

use crate::faults::{Faults, Kind};
use crate::options::Options;
use crate::preset::Preset;
use crate::random::Random;
use crate::replica::Replica;
use crate::scheduler::Scheduler;
use crate::server::{Server, Settings};
use crate::target::Target;
use crate::transcript::Transcript;
use crate::workload::{self, Complaint, Job, Scene, Workload};

/// Time limit for the clients, and for the judges, to finish after all faults have ended.
const LIVENESS: Duration = Duration::from_secs(1_200);
/// The same, if the disk destroyed acknowledged bytes. The server then repeats what cannot succeed, and a judge gives up each
/// such call only after two minutes.
const LIVENESS_OF_DESTROYED: Duration = Duration::from_secs(12_000);

/// In one of this many runs the server rests before the judges come.
const RESTS_ONE_IN: u64 = 3;
/// Maximum length of a rest. Longer than the grace of files and the time for which the log keeps nonces, so that a rest
/// shows what the periodic work of the server deletes when nobody calls.
const REST_MAX_MS: u64 = 600_000;

/// The result of a run of the simulation.
pub struct Report {
    /// The failures; empty for a good run.
    pub failures: Vec<String>,
    /// The events of the run.
    pub transcript: Transcript,
    /// How much simulated time has passed.
    pub simulated: Duration,
    /// The part of it in which the server rested without a client.
    pub rested: Duration,
    /// Number of steps of the scheduler.
    pub steps: u64,
}

/// Runs a seed, and shows its transcript: with `Some(true)` also the steps of the scheduler.
pub fn run(seed: u64, options: &Options, shows: Option<bool>) -> Report {
    let options = options.clone();
    // Each run has a thread of its own, so that its thread-local state is empty, as in a new process.
    let thread = env::spawn_thread("sim", env::Priority::Foreground, move || {
        let _events = tracing::subscriber::set_default(crate::events::Events);
        let mut random = Random::new(seed ^ 0x6265_6c6c_6f77_7321);
        let (scheduler, running) = Scheduler::start(
            random.bits(),
            options.planted,
            shows.map_or_else(|| Transcript::new(false), Transcript::shown),
        );
        let mut rested = Duration::ZERO;
        let mut failures = act(&scheduler, &mut random, &options, &mut rested);
        failures.extend(scheduler.take_panics().into_iter().map(|words| format!("panic: {words}")));
        let (simulated, steps) = (Duration::from_nanos(scheduler.now()), scheduler.steps());
        drop(running);
        failures
            .extend(scheduler.take_panics().into_iter().map(|words| format!("panic at the end: {words}")));
        let transcript = scheduler.take_transcript();
        Report { failures, transcript, simulated, rested, steps }
    });
    thread.expect("a thread").join().unwrap_or_else(|_| Report {
        failures: vec!["the simulation itself panicked".to_owned()],
        transcript: Transcript::default(),
        simulated: Duration::ZERO,
        rested: Duration::ZERO,
        steps: 0,
    })
}

/// Jobs of clients, and whether all are done.
struct Part {
    left: Arc<AtomicUsize>,
}

impl Part {
    fn begin(runtime: &Arc<Mutex<Option<Runtime>>>, jobs: Vec<Job<()>>) -> Part {
        let left = Arc::new(AtomicUsize::new(jobs.len()));
        let runtime = runtime.lock();
        for job in jobs {
            let left = Arc::clone(&left);
            runtime.as_ref().expect("it runs").spawn(async move {
                job.await;
                left.fetch_sub(1, Ordering::AcqRel);
            });
        }
        Part { left }
    }

    fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

fn act(
    scheduler: &std::rc::Rc<Scheduler>,
    random: &mut Random,
    options: &Options,
    rested: &mut Duration,
) -> Vec<String> {
    let server_machine = scheduler.machine("server");
    let clients_machine = scheduler.machine("clients");
    let mut settings = Settings::draw(random);
    options.apply(&mut settings, random);
    scheduler.note(|| format!("settings: {settings:?}"));
    // A log in a store may have so many parts that its files are not kept for their nonces after flushes.
    let keeps_files = !settings.log.keep_nonces.is_zero() && !settings.has(Target::LogInStore);
    let server = Server::new(scheduler, server_machine, settings);
    let replica = server.has(Target::Replica).then(|| Replica::new(scheduler, &server, random));
    let mut faults =
        Faults::draw(scheduler, &server, replica.as_ref(), clients_machine, Random::new(random.bits()));
    if options.only {
        faults.clear();
    }
    options.faults.iter().for_each(|kind| faults.add(*kind));
    if faults.kinds().contains(&Kind::TakeOver) {
        server.add_standby();
    }
    scheduler.note(|| format!("faults: {:?}", faults.kinds()));
    let workloads = workload::draw(random, options, replica.is_some());
    let names: Vec<_> = workloads.iter().map(|workload| workload.name()).collect();
    scheduler.note(|| format!("workloads: {names:?}"));
    let length = Duration::from_millis(random.spread(3_000, 60_000));
    let steps_back = faults.kinds().contains(&Kind::ClockBack);
    let may_flush = !options.presets.contains(&Preset::NoFlushes);
    let is_emptied = may_flush || faults.kinds().contains(&Kind::Stop);
    let keeps_nonces = faults.keep_nonces() && (keeps_files || !is_emptied);
    let clients = scheduler.world_of(clients_machine);
    let replica_machine = replica.as_ref().map(|replica| replica.machine());
    let scene = Scene::new(&server, replica_machine, clients, steps_back, keeps_nonces, may_flush);
    server.start();

    let runtime: Arc<Mutex<Option<Runtime>>> = Arc::default();
    let started = Arc::new(AtomicBool::new(false));
    let (into, told) = (Arc::clone(&runtime), Arc::clone(&started));
    let begin = move || {
        *into.lock() = Some(Runtime::start("clients", 1).expect("a simulated thread"));
        told.store(true, Ordering::Release);
    };
    scheduler.spawn_on(clients_machine, "begin", Box::new(begin));
    scheduler.run_until(Duration::from_secs(1), || started.load(Ordering::Acquire));

    // The tables are created before the faults begin.
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let tables = {
        let (scene, workloads, wrong) = (scene.clone(), workloads.clone(), Arc::clone(&wrong));
        Box::pin(async move {
            let admin = scene.client(Duration::from_secs(60)).admin();
            for (table, splits) in workloads.iter().flat_map(|workload| workload.tables()) {
                if let Err(error) = admin.create_table(&table, &splits).await {
                    wrong.lock().push(format!("table {} cannot be made: {error}", table.name()));
                }
            }
        }) as Job<()>
    };
    let part = Part::begin(&runtime, vec![tables]);
    if !scheduler.run_until(LIVENESS, || part.is_done()) {
        return vec!["the tables are not made in time".to_owned()];
    }
    let failures = wrong.lock().clone();
    if !failures.is_empty() {
        return failures;
    }

    // The clients run while faults happen.
    replica.iter().for_each(|replica| replica.start());
    let jobs = workloads.iter().flat_map(|workload| Arc::clone(workload).clients(&scene)).collect();
    let part = Part::begin(&runtime, jobs);
    faults.begin();
    let end = scheduler.now() + length.as_nanos() as u64;
    let mut failures = Vec::new();
    while scheduler.now() < end && failures.is_empty() {
        scheduler.run_until(faults.until_next(), || false);
        faults.act();
        failures.extend(faults.supervise());
        failures.extend(scheduler.take_panics().into_iter().map(|words| format!("panic: {words}")));
        failures.extend(scene.failures());
    }
    if !failures.is_empty() {
        return proved(&server, failures);
    }
    scene.end();
    faults.end();
    match settle(scheduler, &mut faults, "clients come to their end", &scene, || {
        part.is_done() && server.replaced().is_none()
    }) {
        End::Done => {}
        End::Noticed => return Vec::new(),
        End::Failed(failures) => return proved(&server, failures),
    }

    if scheduler.below(RESTS_ONE_IN) == 0 {
        let began = scheduler.now();
        let until = began + scheduler.below(REST_MAX_MS) * 1_000_000;
        scheduler.note(|| format!("the server rests until {:.3} s", until as f64 / 1e9));
        let end = settle(scheduler, &mut faults, "the server rests", &scene, || scheduler.now() >= until);
        *rested = Duration::from_nanos(scheduler.now() - began);
        match end {
            End::Done => env::sometimes("server: rested before the judges came"),
            End::Noticed => return Vec::new(),
            End::Failed(failures) => return proved(&server, failures),
        }
    }

    // The judges run, and in two of three runs once more after a crash of the server.
    for round in 0..2 {
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let judges = workloads.iter().map(|workload| judge(workload, &scene, &complaints)).collect();
        let part = Part::begin(&runtime, judges);
        let end = settle(scheduler, &mut faults, "judges come to their end", &scene, || part.is_done());
        let mut failures = match end {
            End::Done => Vec::new(),
            End::Noticed => return Vec::new(),
            End::Failed(failures) => failures,
        };
        for complaint in complaints.lock().drain(..) {
            match complaint {
                Complaint::Unreadable(words) if server.medium().misdirected > 0 => {
                    scheduler.note(|| format!("JUDGE  as the disk destroyed it: {words}"));
                    env::sometimes("judges: something that the disk destroyed cannot be read");
                }
                Complaint::Unreadable(words) | Complaint::Wrong(words) => failures.push(words),
            }
        }
        if !failures.is_empty() {
            return proved(&server, failures);
        }
        if round == 0 {
            match scheduler.below(3) {
                0 => server.lose_power(),
                1 => server.kill(),
                _ => break,
            }
            server.start();
        }
    }
    Vec::new()
}

/// Returns `failures`, or none if a misdirected write has destroyed the end of the log so that nobody can tell it from
/// a torn end. A panic remains a failure, and so does a server that hangs.
fn proved(server: &Server, failures: Vec<String>) -> Vec<String> {
    let is_loss = |words: &String| !words.starts_with("panic: ") && !words.starts_with(NOT_WITHIN);
    if server.medium().is_log_unproved && failures.iter().all(is_loss) {
        env::sometimes("judges: the disk destroyed the end of the log, and nobody could tell");
        return Vec::new();
    }
    failures
}

fn judge(workload: &Arc<dyn Workload>, scene: &Scene, complaints: &Arc<Mutex<Vec<Complaint>>>) -> Job<()> {
    let (workload, scene, complaints) = (Arc::clone(workload), scene.clone(), Arc::clone(complaints));
    Box::pin(async move {
        if let Err(complaint) = workload.judge(scene).await {
            complaints.lock().push(complaint);
        }
    })
}

/// How a wait ended.
enum End {
    /// The work that was waited for is done.
    Done,
    /// The disk destroyed bytes that the server needs, so it reports that and does not start.
    Noticed,
    /// A failure.
    Failed(Vec<String>),
}

/// The first words of the failure of a server that hangs.
const NOT_WITHIN: &str = "not within";

/// Number of consecutive starts that report damage after which the server counts as having detected the destroyed
/// bytes. A server that serves clients is judged, and one that hangs has failed.
const DAMAGED_STARTS_MAX: u32 = 5;

/// Runs until the work is done, within the time limit.
fn settle(
    scheduler: &Scheduler,
    faults: &mut Faults,
    what: &str,
    scene: &Scene,
    is_done: impl Fn() -> bool,
) -> End {
    let began = scheduler.now();
    loop {
        let done = scheduler.run_until(faults.until_next(), &is_done);
        faults.act();
        let mut failures: Vec<String> = Vec::new();
        failures.extend(faults.supervise());
        failures.extend(scheduler.take_panics().into_iter().map(|words| format!("panic: {words}")));
        failures.extend(scene.failures());
        if !failures.is_empty() {
            return End::Failed(failures);
        }
        if done {
            return End::Done;
        }
        if faults.has_destroyed() && faults.damaged_starts() > DAMAGED_STARTS_MAX {
            env::sometimes("judges: the server does not start, for the disk destroyed what it needs");
            return End::Noticed;
        }
        let limit = if faults.has_destroyed() { LIVENESS_OF_DESTROYED } else { LIVENESS };
        if scheduler.now() - began > limit.as_nanos() as u64 {
            let waiting = scheduler.waiting().join(", ");
            let words = format!("{NOT_WITHIN} {limit:?} after all was mended: {what}; threads: {waiting}");
            return End::Failed(vec![words]);
        }
    }
}
