//! `bellows promote`: a running read replica becomes the primary of its bucket.
//!
//! 1. The command asks the replica to become the primary. The replica checks that it can write to the store, and that a
//!    server may start there. If not, it says why, and serves on. Otherwise it stops in order.
//! 2. The replica's process replaces itself by a server with the same options and ports and with the primary's place of the
//!    log, but not as a replica (`exec`). The process id stays, so a supervisor does not notice, and all memory of the replica is released.
//! 3. This server takes over the log and the file lists, as every start does. From then on the old primary
//!    acknowledges nothing, whether it hangs, is cut off, or runs.
//! 4. The command waits until the server says that it is the primary.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::{Cluster, Registry};
use env::{Moment, Runtime, World};

use crate::args::{Promote, Start};
use crate::failure::Failure;
use crate::output;

/// Maximum time that the answer to the request for the promotion may take. The replica first tries the store, with requests
/// that are repeated for half a minute.
const PATIENCE: Duration = Duration::from_secs(45);
/// Maximum time of one check whether the server is the primary yet. A check that reaches the replica while it stops may
/// never be answered.
const CHECK_MAX: Duration = Duration::from_secs(1);
/// Maximum time for which nothing listens at the server's address while the process replaces itself. After that the process
/// has ended.
const GONE_MAX: Duration = Duration::from_secs(10);
/// Pause between two checks whether the server is the primary yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks the replica, and waits until it is the primary.
pub(crate) fn run(options: &Promote, say: impl Fn(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    let (world, at) = (World::real(), &options.at);
    let runtime = Runtime::start("promote", 1)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let began = world.moment();
    let connect = || {
        let registry = Registry::rpc([at.clone()]);
        let patience = client::Options {
            retries: 0,
            call_max: PATIENCE,
            operation_max: PATIENCE,
            ..client::Options::new(registry)
        };
        Cluster::connect(world.clone(), patience)
    };
    let words = runtime.handle().block_on(async {
        let asked = connect().admin().promote_replica().await.map_err(|error| {
            Failure::new(format!(
                "{at}: {error}; is a read replica running there? Without one, bellows start on the same bucket starts a primary"
            ))
        })?;
        if asked {
            return Ok(format!("{at} is the primary already"));
        }
        let (check_max, gone_max) = (CHECK_MAX, GONE_MAX);
        let wait = Wait { world: &world, at, began, within: options.within, check_max, gone_max };
        // Each check uses a new connection and looks up the server's name again, because the process is replaced
        // meanwhile.
        wait.until_primary(async || connect().admin().promote_replica().await, async || is_refused(at).await).await
    })?;
    output::ignoring_closed_pipe(say(&words))
}

/// How the command waits for the new primary.
struct Wait<'w> {
    world: &'w World,
    /// The server's address, for messages.
    at: &'w str,
    began: Moment,
    /// Maximum time from `began` until the server is the primary, in seconds.
    within: f64,
    check_max: Duration,
    /// Maximum time for which the address refuses connections.
    gone_max: Duration,
}

/// Whether the machine of `at` says that nothing listens there.
async fn is_refused(at: &str) -> bool {
    let dialled = env::timeout(CHECK_MAX, async {
        let addresses = env::resolve(at).await.unwrap_or_default();
        for address in &addresses {
            let outcome = env::dial(*address).await;
            if !outcome.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
                return false;
            }
        }
        !addresses.is_empty()
    });
    dialled.await.unwrap_or(false)
}

impl Wait<'_> {
    /// Repeats `check`, which returns whether the server is the primary, until it is. A check that is not answered in
    /// time counts as failed. After it, `is_refused` says whether nothing listens at the address. Returns what to print.
    async fn until_primary(
        &self,
        check: impl AsyncFn() -> client::Result<bool>,
        is_refused: impl AsyncFn() -> bool,
    ) -> Result<String, Failure> {
        let Wait { world, at, began, within, check_max, gone_max } = *self;
        // Since when nothing listens.
        let mut gone: Option<Moment> = None;
        loop {
            env::sleep(PAUSE).await;
            let answer = env::timeout(check_max, check()).await;
            gone = match answer {
                Some(Err(_)) if is_refused().await => gone.or_else(|| Some(world.moment())),
                _ => None,
            };
            let waited = world.moment().since(began);
            if let Some(since) = gone
                && world.moment().since(since) >= gone_max
            {
                return Err(Failure::new(format!(
                    "nothing listens at {at} since {} s, so its process has ended; its log says why, and bellows start on the same \
                     bucket starts a primary, there or elsewhere",
                    world.moment().since(since).as_secs()
                )));
            }
            let why = match answer {
                Some(Ok(true)) => {
                    return Ok(format!("{at} is the primary, after {} ms", waited.as_millis()));
                }
                _ if waited.as_secs_f64() < within => continue,
                Some(Ok(false)) => {
                    return Err(Failure::new(format!(
                        "{at} is still a replica after {} ms; its log says why",
                        waited.as_millis()
                    )));
                }
                Some(Err(error)) => error.to_string(),
                None => format!("no answer within {} ms", check_max.as_millis()),
            };
            return Err(Failure::new(format!(
                "{at} does not answer as the primary after {} ms ({why}); its log says why, and bellows start on the same bucket \
                 starts a primary elsewhere",
                waited.as_millis()
            )));
        }
    }
}

/// Replaces this process by a server with these options. Returns only if that fails.
pub(crate) fn start_again(options: &Start) -> Failure {
    let program = match std::env::current_exe() {
        Ok(path) => program(path),
        Err(error) => {
            return Failure::new(format!("cannot find the program to start as the primary: {error}"));
        }
    };
    let error = Command::new(&program).args(options.words()).exec();
    Failure::new(format!("cannot start {} as the primary: {error}", program.display()))
}

/// Returns where this process's program is, whose file the system says is at `path`. If the file was replaced since the
/// process started, as an upgrade does, there is no file at `path`. The system still has the program that runs.
fn program(path: PathBuf) -> PathBuf {
    if storage::open_outside(&path).is_ok() { path } else { PathBuf::from("/proc/self/exe") }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "an address where something listens")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use clap::Parser;
    use env::{Runtime, World};

    use super::{Wait, is_refused, program};
    use crate::args::{self, Args, Ports, Start};

    fn parsed(words: &[&str]) -> Start {
        let args = Args::try_parse_from(["bellows", "start"].iter().chain(words)).expect("good");
        let args::Command::Start(start) = args.command else { panic!("no start") };
        start
    }

    #[test]
    fn a_promoted_replica_starts_with_its_own_options_and_ports() {
        let replica = parsed(&[
            "--data-dir",
            "s3://bucket/x",
            "--bind",
            "127.0.0.1",
            "--rpc-port",
            "0",
            "--read-replica",
            "--site",
            "/etc/hbase-site.xml",
            "-D",
            "hbase.global.readonly.enabled=true",
            "-D",
            "hbase.wal.dir=s3://other/log",
            "-D",
            "a.key=with=two spaces",
        ]);
        let primary = replica.as_primary(&Ports { rpc: 1, master: 2, zookeeper: 3, web: 4 }, "s3://fast/log");
        let words: Vec<String> =
            primary.words().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let again = parsed(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(format!("{again:?}"), format!("{primary:?}"));
        assert!(!again.read_replica);
        assert_eq!((again.rpc_port, again.web_port), (Some(1), Some(4)));
        let of = |key: &str| {
            again
                .define
                .iter()
                .filter(|(name, _)| name == key)
                .map(|(_, value)| &value[..])
                .collect::<Vec<_>>()
        };
        assert_eq!(of("hbase.global.readonly.enabled"), ["false"]);
        assert_eq!(of("hbase.emr.readreplica.enabled"), ["false"]);
        assert_eq!(of("hbase.wal.dir"), ["s3://fast/log"], "that of the primary");
        assert_eq!(of("a.key"), ["with=two spaces"]);
        assert_eq!(again.site, replica.site);
    }

    #[test]
    fn a_program_whose_file_was_replaced_is_found() {
        let own = std::env::current_exe().expect("on this system");
        assert_eq!(program(own.clone()), own);
        let replaced = program(format!("{} (deleted)", own.display()).into());
        assert!(storage::open_outside(&replaced).is_ok(), "{}", replaced.display());
    }

    /// Waits with checks of at most 10 ms for a primary that never answers the first `unanswered` checks.
    fn wait_for_primary(unanswered: usize, within: f64) -> Result<String, String> {
        let asked = AtomicUsize::new(0);
        let check = async || {
            if asked.fetch_add(1, Ordering::Relaxed) < unanswered {
                std::future::pending::<()>().await;
            }
            Ok(true)
        };
        wait(within, check, async || true)
    }

    /// Waits with checks of at most 10 ms, and for 50 ms while nothing listens.
    fn wait(
        within: f64,
        check: impl AsyncFn() -> client::Result<bool>,
        is_refused: impl AsyncFn() -> bool,
    ) -> Result<String, String> {
        let (world, runtime) = (World::real(), Runtime::start("promote", 1).expect("a thread"));
        let (check_max, gone_max) = (Duration::from_millis(10), Duration::from_millis(50));
        let wait = Wait { world: &world, at: "here", began: world.moment(), within, check_max, gone_max };
        let waited =
            async { env::timeout(Duration::from_secs(20), wait.until_primary(check, is_refused)).await };
        let outcome = runtime.handle().block_on(waited).expect("an outcome in time");
        outcome.map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_check_that_is_never_answered_does_not_hold_up_the_promotion() {
        let said = wait_for_primary(1, 60.0).expect("the second check is answered");
        assert!(said.starts_with("here is the primary, after "), "{said}");
    }

    #[test]
    fn a_server_that_never_answers_is_given_up() {
        let said = wait_for_primary(usize::MAX, 0.2).expect_err("no check is answered");
        assert!(said.contains("(no answer within 10 ms)"), "{said}");
    }

    fn no_connection() -> client::Result<bool> {
        Err(client::Error::Registry("no connection".to_owned()))
    }

    #[test]
    fn a_process_that_has_ended_is_not_waited_for() {
        let said = wait(60.0, async || no_connection(), async || true).expect_err("it has ended");
        assert!(said.starts_with("nothing listens at here since ") && said.contains("has ended"), "{said}");
        let said =
            wait(0.3, async || no_connection(), async || false).expect_err("a machine that is cut off");
        assert!(said.contains("does not answer as the primary") && said.contains("no connection"), "{said}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let runtime = Runtime::start("promote", 1).expect("a thread");
        assert!(!runtime.handle().block_on(is_refused(&address)), "something listens");
        drop(listener);
        assert!(runtime.handle().block_on(is_refused(&address)));
    }

    /// While the process replaces itself, nothing listens for a moment.
    #[test]
    fn a_process_that_replaces_itself_is_waited_for() {
        let asked = AtomicUsize::new(0);
        let check = async || match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 2 => no_connection(),
            1 => Ok(false),
            _ => Ok(true),
        };
        let said = wait(60.0, check, async || true).expect("it comes back");
        assert!(said.starts_with("here is the primary, after "), "{said}");
    }
}
