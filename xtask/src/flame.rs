//! Profiles the server's CPU time under one workload, as a flame graph.
//!
//! The server is built with frame pointers, in its own folder. `perf` samples it some thousand times a second while the
//! generator drives it. The width of a stack is its share of the samples; equal beginnings of stacks are merged.

mod picture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::server::{Server, fresh_folder, log_of};
use crate::{Outcome, run as run_command};

pub(crate) const USAGE: &str = "\
       cargo xtask flame WORKLOAD [--seconds S] [--rate TIMES] [--out FOLDER] [--bellows BINARY] [WORD...]
             (a flame graph of the server; needs perf; words are the generator's)";

/// Pause before `perf` begins, for connecting and finding regions.
const BEGINNING: Duration = Duration::from_millis(700);

/// The options of the command.
struct Plan<'a> {
    workload: &'a str,
    seconds: u64,
    rate: u32,
    out: PathBuf,
    bellows: Option<PathBuf>,
    words: Vec<&'a str>,
}

impl<'a> Plan<'a> {
    fn of(options: &[&'a str]) -> Result<Plan<'a>, String> {
        let [workload, options @ ..] = options else {
            return Err(format!("which workload?\nusage:\n{USAGE}"));
        };
        let out = PathBuf::from("target/flame");
        let mut plan = Plan { workload, seconds: 5, rate: 1_999, out, bellows: None, words: Vec::new() };
        let mut words = options.iter();
        while let Some(name) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{name} needs a value"));
            let number = |value: &str| value.parse().map_err(|_| format!("{name} {value}: not understood"));
            match *name {
                "--seconds" => plan.seconds = u64::from(number(value()?)?),
                "--rate" => plan.rate = number(value()?)?,
                "--out" => plan.out = PathBuf::from(value()?),
                "--bellows" => plan.bellows = Some(PathBuf::from(value()?)),
                word => plan.words.push(word),
            }
        }
        Ok(plan)
    }
}

/// Runs `cargo xtask flame` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let plan = Plan::of(options)?;
    std::fs::create_dir_all(&plan.out).map_err(|error| format!("{}: {error}", plan.out.display()))?;
    let binary = match &plan.bellows {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let folder = fresh_folder("flame")?;
    let more = ["-D", "hbase.wal.hsync=false"];
    let server = Server::start_binary(&binary, &folder, &log_of(&folder), &more)?;
    // The first run creates and fills the tables that the workload needs.
    generate(&binary, &server, &plan, plan.seconds.min(3))?;
    let samples = plan.out.join(format!("{}.perf", plan.workload));
    looked_at(&binary, &server, &plan, &samples)?;
    server.stop()?;
    let stacks = folded(&script(&samples)?);
    let title = format!("{}: CPU time of the server, {} s", plan.workload, plan.seconds);
    let picture = plan.out.join(format!("{}.svg", plan.workload));
    std::fs::write(&picture, picture::draw(&title, &stacks))
        .map_err(|error| format!("{}: {error}", picture.display()))?;
    say!("{}", picture.display());
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Builds the released server with symbols and frame pointers.
fn build() -> Result<PathBuf, String> {
    let target = Path::new("target/flame-build");
    let status = Command::new("cargo")
        .args(["build", "--profile", "profiling", "--quiet", "-p", "bellows", "--target-dir"])
        .arg(target)
        .env("RUSTFLAGS", "-C force-frame-pointers=yes")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(target.join("profiling/bellows"))
    } else {
        Err(format!("cargo build: {status}"))
    }
}

fn generator(binary: &Path, server: &Server, plan: &Plan<'_>, seconds: u64) -> Command {
    let mut command = Command::new(binary);
    command.args(["bench", "--at", &server.rpc, "--warm-up", "0", "--seconds", &seconds.to_string()]);
    command.arg(plan.workload).args(&plan.words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn generate(binary: &Path, server: &Server, plan: &Plan<'_>, seconds: u64) -> Outcome {
    let status = generator(binary, server, plan, seconds).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the workload {} ended with {status}", plan.workload)) }
}

/// Drives the server while `perf` samples it.
fn looked_at(binary: &Path, server: &Server, plan: &Plan<'_>, samples: &Path) -> Outcome {
    let seconds = plan.seconds + 2;
    let mut load = generator(binary, server, plan, seconds)
        .spawn()
        .map_err(|error| format!("the generator: {error}"))?;
    std::thread::sleep(BEGINNING);
    let looked = Command::new("perf")
        .args(["record", "--quiet", "-g", "-e", "cpu-clock", "-F", &plan.rate.to_string(), "-o"])
        .arg(samples)
        .args(["-p", &server.id().to_string(), "--", "sleep", &plan.seconds.to_string()])
        .status();
    let ended = load.wait().map_err(|error| error.to_string())?;
    match looked {
        Err(error) => {
            Err(format!("perf cannot be started ({error}): it comes with the kernel's tools (linux-perf)"))
        }
        Ok(status) if !status.success() => {
            Err(format!("perf ended with {status}: it may need root, or kernel.perf_event_paranoid at 1"))
        }
        Ok(_) if !ended.success() => Err(format!("the workload {} ended with {ended}", plan.workload)),
        Ok(_) => Ok(()),
    }
}

fn script(samples: &Path) -> Result<String, String> {
    let output = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
        .arg(samples)
        .output()
        .map_err(|error| format!("perf: {error}"))?;
    if !output.status.success() {
        run_command("perf", &["--version"])?;
        return Err(format!("perf script: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the number of samples of each stack: the thread, then functions from the outermost on.
fn folded(script: &str) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    // Each sample has a line with the thread's name, then one line for each function from the innermost to the
    // outermost, then an empty line.
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(thread) = lines.next() else { continue };
        let name = |line: &str| {
            let name = line.trim().split_once(' ').map_or("", |(_, name)| name).trim();
            short(name)
        };
        let mut stack: Vec<String> = lines.map(name).filter(|name| !name.is_empty()).collect();
        stack.push(kind_of_thread(thread.trim()).to_owned());
        stack.reverse();
        *stacks.entry(stack).or_insert(0) += 1;
    }
    stacks
}

/// Returns the thread's name without its number.
fn kind_of_thread(name: &str) -> &str {
    name.trim_end_matches(|last: char| last.is_ascii_digit()).trim_end_matches('-')
}

/// Returns a function's name without generic parameters and the runtime's frames.
fn short(name: &str) -> String {
    const AROUND: [&str; 6] =
        ["core::ops::function", "std::sys", "tokio::runtime", "start_thread", "[unknown]", "clone3"];
    if AROUND.iter().any(|around| name.contains(around)) {
        return String::new();
    }
    let (mut plain, mut depth) = (String::new(), 0);
    let mut rest = name;
    // `<A as B>::f` becomes `A::f`. Other brackets are removed with what is between them.
    if let Some((own, behind)) = name.strip_prefix('<').and_then(|inner| inner.split_once(" as ")) {
        plain.push_str(own.split('<').next().unwrap_or(own));
        rest = behind.rsplit_once(">::").map_or("", |(_, function)| function);
        plain.push_str("::");
    }
    for next in rest.chars() {
        match next {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(next),
            _ => {}
        }
    }
    plain.replace("::{{closure}}", "").replace("::::", "::").trim_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_are_the_same_are_counted_together() {
        let script = "rpc-1 \n\t  1a memstore::tree::Tree::find\n\t 2b <a::B<C> as d::E<F>>::call\n\t 3c start_thread\n\n\
                      rpc-0 \n\t  1f memstore::tree::Tree::find\n\t 2b <a::B<C> as d::E<F>>::call\n\n\
                      wal-sync \n\t 9 fdatasync\n\n";
        let stacks = folded(script);
        let of =
            |names: &[&str]| stacks.get(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["rpc", "a::B::call", "memstore::tree::Tree::find"]), Some(&2));
        assert_eq!((of(&["wal-sync", "fdatasync"]), stacks.len()), (Some(&1), 2));
    }

    #[test]
    fn names_lose_their_types() {
        assert_eq!(short("alloc::vec::Vec<T,A>::push"), "alloc::vec::Vec::push");
        assert_eq!(short("region::apply::<impl region::region::Region>::apply"), "region::apply::apply");
        assert_eq!(short("regionserver::watch::later::{{closure}}"), "regionserver::watch::later");
    }
}
