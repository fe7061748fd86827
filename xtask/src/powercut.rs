//! What was acknowledged survives the loss of power.
//!
//! The data folder lies on an ext4, then on an XFS file system of its own, in an image that is mounted through a loop
//! device. While the server is under the load of the crash test, the file system is told to go down without writing
//! anything more, its own journal included (`FS_IOC_SHUTDOWN` with `NOLOGFLUSH`). What had not reached the image by then is
//! lost, as when a machine loses power: pages that were written but not synced, names whose folder was not synced, sizes.
//! Then the server is killed, the image is mounted again (its journal is replayed), and everything that was acknowledged
//! must be there. In every other round the server is killed first, and started and looked at on the same mount: what was
//! read then must survive the cut that follows, although no client ever had it acknowledged.
//!
//! What is answered after the cut began counts as not answered: a sync that began before and ends after is called good by
//! Linux on both file systems, although nothing was kept; a machine without power would have answered nothing.
//!
//! What it cannot show: a device that lies, with a cache of its own that a flush does not empty. The image takes every
//! write that reaches it.
//!
//! Everything runs in a process namespace and a mount namespace of its own: when its first process ends, for whatever
//! reason, the system ends the others, and the mounts and their loop devices go with them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::chance::{Chance, seed_from_the_clock};
use crate::crash::{OPTIONS, spread};
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::workload::Workload;
use crate::{NOT_RUN, Outcome, run as run_command};

/// The file systems, and what makes one in an image.
const KINDS: [(&str, &[&str]); 2] =
    [("ext4", &["mkfs.ext4", "-q", "-F"]), ("xfs", &["mkfs.xfs", "-q", "-f"])];
/// Bytes of an image; sparse. XFS refuses less than 300 MB.
const IMAGE_BYTES: u64 = 1 << 30;
/// The first process of the namespaces: passes the end on, so that Ctrl-C ends everything.
pub(crate) const FIRST: &str = r#""$0" "$@" & child=$!; trap 'kill $child' INT TERM; wait $child"#;

/// Runs so many rounds on each file system, in namespaces of its own.
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

/// Namespaces of processes and mounts, which end with their first process.
pub(crate) fn apart() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--"]);
    command
}

/// Why this cannot be run here.
fn obstacle() -> Option<String> {
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
    // Rights, namespaces, loop devices and file systems at once: by doing it.
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

/// The rounds; the caller has made the namespaces.
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
    let mut chance = Chance::new(seed);
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
                std::thread::sleep(Duration::from_millis(50 + chance.below(600)));
                workload.dying()?;
                server.kill()?;
                workload.dead()?;
                server = Server::start_with_log(&data, &log, OPTIONS)?;
                workload.verify(&server.rpc)?;
                workload.load(&server.rpc)?;
                // Often none of what comes now is acknowledged before the cut.
                std::thread::sleep(Duration::from_millis(chance.below(4) * chance.below(200)));
            } else {
                std::thread::sleep(Duration::from_millis(100 + chance.below(1_400)));
            }
            let cutter = mount.cutter()?;
            workload.breaking()?;
            cutter.cut()?;
            mount.is_down()?;
            // The server sees a disk that fails and must not say that anything was kept.
            std::thread::sleep(Duration::from_millis(chance.below(3) * chance.below(150)));
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

/// `xfs_io`, which takes its commands from its input.
struct Cutter {
    child: Child,
    input: ChildStdin,
}

impl Cutter {
    /// The power is gone: nothing more reaches the image.
    fn cut(mut self) -> Outcome {
        self.input.write_all(b"shutdown\n").map_err(|error| format!("xfs_io: {error}"))?;
        drop(self.input);
        let status = self.child.wait().map_err(|error| format!("xfs_io: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("xfs_io -c shutdown ended with {status}")) }
    }
}

/// A file system in a file.
struct Image {
    kind: &'static str,
    folder: PathBuf,
    file: PathBuf,
}

impl Image {
    fn make(folder: &Path, kind: &'static str, make: &[&str]) -> Result<Image, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder.join("mount")).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let file = folder.join("image");
        File::create(&file).and_then(|image| image.set_len(IMAGE_BYTES)).map_err(failed)?;
        run_command(make[0], &[&make[1..], &[&file.display().to_string()]].concat())?;
        Ok(Image { kind, folder, file })
    }

    fn mount(&self) -> Result<Mount, String> {
        let at = self.folder.join("mount");
        // The loop device goes by itself when the mount does.
        let words =
            ["-t", self.kind, "-o", "loop", &self.file.display().to_string(), &at.display().to_string()];
        let output = Command::new("mount")
            .args(words)
            .output()
            .map_err(|error| format!("cannot start mount: {error}"))?;
        if !output.status.success() {
            return Err(format!("mount {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        Ok(Mount { at, mounted: true })
    }
}

/// A mounted file system; unmounted when this is dropped.
struct Mount {
    at: PathBuf,
    mounted: bool,
}

impl Mount {
    /// Gets ready to cut, so that nothing but the cut itself happens at its moment.
    fn cutter(&self) -> Result<Cutter, String> {
        let mut child = Command::new("xfs_io")
            .arg("-x")
            .arg(&self.at)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start xfs_io: {error}"))?;
        let input = child.stdin.take().expect("it is piped");
        Ok(Cutter { child, input })
    }

    /// That it is down is seen, not believed.
    fn is_down(&self) -> Outcome {
        match File::create(self.at.join("after")) {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("{} takes files after its shutdown", self.at.display())),
        }
    }

    fn unmount(mut self) -> Outcome {
        self.mounted = false;
        run_command("umount", &[&self.at.display().to_string()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily: a server that still runs on it is ended by whoever holds it.
            let _gone = Command::new("umount").arg("--lazy").arg(&self.at).stderr(Stdio::null()).status();
        }
    }
}
