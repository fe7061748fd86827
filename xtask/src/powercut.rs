//! Checks that acknowledged writes survive a power failure.
//!
//! The data folder is on an ext4, then on an XFS file system in an image that is mounted through a loop device. While
//! the server runs the crash test's load, the file system is shut down without writing anything more, including its
//! journal (`FS_IOC_SHUTDOWN` with `NOLOGFLUSH`). Everything that had not reached the image is lost, as in a power
//! failure: unsynced pages, names in unsynced folders, sizes. Then the server is killed, the image is mounted again
//! (which replays its journal), and everything acknowledged must be there. In every other round the server is killed
//! first, then started and read on the same mount: what was read then must survive the following cut, although no
//! client had it acknowledged.
//!
//! Responses after the begin of the cut do not count: Linux reports success for a sync that began before the cut and
//! ended after it, although nothing was written.
//!
//! The test cannot show a device that lies about its own cache: the image takes every write that reaches it.
//!
//! Everything runs in its own process and mount namespaces: when the first process ends, the system ends the others and
//! removes the mounts and loop devices.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::crash::{OPTIONS, spread};
use crate::image::{Image, KINDS};
use crate::random::{Random, seed_from_the_clock};
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::workload::Workload;
use crate::{NOT_RUN, Outcome};

/// The first process of the namespaces: forwards signals, so that Ctrl-C ends everything.
pub(crate) const FIRST: &str = r#""$0" "$@" & child=$!; trap 'kill $child' INT TERM; wait $child"#;

/// Runs this many rounds on each file system, in its own namespaces.
pub(crate) fn run(rounds: u32, seed: Option<u64>) -> Outcome {
    let seed = seed.unwrap_or_else(seed_from_the_clock);
    if let Some(why) = obstacle() {
        return Err(format!("{NOT_RUN}{why}"));
    }
    build()?;
    Workload::build()?;
    let this = std::env::current_exe().map_err(|error| format!("this program's own name: {error}"))?;
    let mut command = apart();
    command.args(["bash", "-c", FIRST]).arg(this);
    command.args(["powercut-inside", &rounds.to_string(), &seed.to_string()]);
    let status = command.status().map_err(|error| format!("cannot start unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("seed {seed}: see above ({status})")) }
}

/// Returns a command in new process and mount namespaces, which end with their first process.
pub(crate) fn apart() -> Command {
    let mut command = Command::new("unshare");
    // Tools that look at the threads of another process need the `/proc` of their namespace.
    command.args(["--pid", "--mount-proc", "--fork", "--kill-child", "--propagation", "private", "--"]);
    command
}

/// Returns why the test cannot run on this machine; `None` if it can.
pub(crate) fn obstacle() -> Option<String> {
    let tools = [
        ("unshare", "--version", "util-linux"),
        ("losetup", "--version", "util-linux"),
        ("mount", "--version", "mount"),
        ("mkfs.ext4", "-V", "e2fsprogs"),
        ("mkfs.xfs", "-V", "xfsprogs"),
        ("xfs_io", "-V", "xfsprogs"),
    ];
    for (tool, version, package) in tools {
        if Command::new(tool).arg(version).output().is_err() {
            return Some(format!("{tool} was not found on the path (package {package})"));
        }
    }
    // The test needs rights, namespaces, loop devices and file systems. Each is tried by using it.
    let tried = fresh_folder("powercut-probe").and_then(|folder| {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = apart()
            .arg(this)
            .arg("powercut-probe")
            .arg(&folder)
            .output()
            .map_err(|error| format!("cannot start unshare: {error}"))?;
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
    });
    tried
        .err()
        .map(|why| format!("an image cannot be mounted here, which takes root and loop devices: {why}"))
}

/// Mounts each file system once, in `folder`.
pub(crate) fn probe(folder: &Path) -> Outcome {
    KINDS.iter().try_for_each(|(kind, make)| Image::make(&folder.join(kind), kind, make)?.mount()?.unmount())
}

/// Runs the rounds; the caller has made the namespaces.
pub(crate) fn run_inside(rounds: u32, seed: u64) -> Outcome {
    say!("{rounds} rounds on each of ext4 and xfs, seed {seed}");
    for (kind, make) in KINDS {
        let folder = fresh_folder(&format!("powercut-{kind}"))?;
        let image = Image::make(&folder, kind, make)?;
        cut_again_and_again(&image, rounds, seed).map_err(|why| {
            format!(
                "{kind}, seed {seed}: {why}\n  the image is kept as {}, the log is {}",
                image.file.display(),
                log_of(&folder).display()
            )
        })?;
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(())
}

fn cut_again_and_again(image: &Image, rounds: u32, seed: u64) -> Outcome {
    let log = log_of(&image.folder);
    let mut workload = Workload::start(seed)?;
    let mut random = Random::new(seed);
    let began = Instant::now();
    let (mut starts, mut acknowledged, mut rows, mut killed_first) = (Vec::new(), 0, 0, 0);
    for round in 0..=rounds {
        let mut play = || -> Outcome {
            let mount = image.mount()?;
            let data = mount.at.join("data");
            let start = Instant::now();
            let mut server = Server::start_with_log(&data, &log, OPTIONS)?;
            starts.push(start.elapsed());
            rows = workload.verify(&server.rpc)?;
            if round == rounds {
                server.stop()?;
                mount.unmount()?;
                return no_panic(&log);
            }
            workload.load(&server.rpc)?;
            if round % 2 == 1 {
                killed_first += 1;
                std::thread::sleep(Duration::from_millis(50 + random.below(600)));
                workload.dying()?;
                server.kill()?;
                workload.dead()?;
                server = Server::start_with_log(&data, &log, OPTIONS)?;
                workload.verify(&server.rpc)?;
                workload.load(&server.rpc)?;
                // The pause is so short that often none of the writes since then is acknowledged before the cut.
                std::thread::sleep(Duration::from_millis(random.below(4) * random.below(200)));
            } else {
                std::thread::sleep(Duration::from_millis(100 + random.below(1_400)));
            }
            let cutter = mount.cutter()?;
            workload.breaking()?;
            cutter.cut()?;
            mount.is_down()?;
            // For this time the server runs on a disk that has failed. It must not acknowledge anything.
            std::thread::sleep(Duration::from_millis(random.below(3) * random.below(150)));
            server.kill()?;
            acknowledged = workload.dead()?;
            mount.unmount()?;
            no_panic(&log)
        };
        play().map_err(|why| format!("round {round}: {why}"))?;
    }
    say!("{}: acknowledged: {}", image.kind, workload.summary()?);
    say!(
        "{}: {rounds} power cuts in {:.0} s, {killed_first} after a kill: {acknowledged} changes acknowledged, {rows} rows \
         at the end, all as they must be; {}; seed {seed}",
        image.kind,
        began.elapsed().as_secs_f64(),
        spread(starts),
    );
    if acknowledged == 0 {
        return Err("nothing was acknowledged: nothing was tested".to_owned());
    }
    Ok(())
}
