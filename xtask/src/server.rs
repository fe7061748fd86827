//! Builds, starts and stops a server for one test.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::programs::{self, target};
use crate::run;

/// A running `bellows`, which ends when the value is dropped.
pub(crate) struct Server {
    child: Child,
    /// The address for clients, `host:port`.
    pub(crate) rpc: String,
    /// The address for ZooKeeper clients.
    pub(crate) registry: String,
    /// The address for administrators, `host:port`.
    pub(crate) master: String,
    /// The address for browsers and monitoring, `host:port`.
    pub(crate) web: String,
    /// The lines that the server prints for users to paste.
    pub(crate) greeting: String,
    /// Time from the start of the process to the first line of output.
    pub(crate) ready: Duration,
}

/// A shell command that starts the server with a limit of 1,024 open files, the default of most machines.
const FEW_FILES: &str = r#"ulimit -Sn 1024; exec "$0" "$@""#;

/// Returns the path of the built server.
pub(crate) fn binary() -> PathBuf {
    target().join("debug/bellows")
}

/// Returns the server to measure: the given one, or a release build that is made now.
pub(crate) fn release(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(binary) = given {
        return Ok(binary.to_owned());
    }
    run("cargo", &["build", "--release", "--quiet", "-p", "bellows"])?;
    Ok(target().join("release/bellows"))
}

/// Returns the log file of the server whose files are in `folder`.
pub(crate) fn log_of(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Fails if this log reports a panic of the server.
pub(crate) fn no_panic(log: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", log.display());
    for line in BufReader::new(File::open(log).map_err(failed)?).split(b'\n') {
        let line = line.map_err(failed)?;
        let line = String::from_utf8_lossy(&line);
        if line.contains("panicked") {
            return Err(format!("the server panicked, see {}: {line}", log.display()));
        }
    }
    Ok(())
}

/// How a server is started: the program and its arguments.
pub(crate) struct Start<'a> {
    /// A program that replaces itself by the server, with its arguments; empty to start the server directly.
    pub(crate) before: &'a [&'a str],
    pub(crate) binary: &'a Path,
    /// The value of `--data-dir`.
    pub(crate) folder: &'a Path,
    /// The file to which the server's messages are appended.
    pub(crate) log: &'a Path,
    /// Ports of region server, master, ZooKeeper server and web pages; 0 for a free one.
    pub(crate) ports: [u16; 4],
    pub(crate) more: &'a [&'a str],
}

fn spawn(start: &Start<'_>, output: Stdio) -> Result<Child, String> {
    let &Start { before, binary, folder, log, ports, more } = start;
    let [rpc, master, registry, web] = ports.map(|port| port.to_string());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(|error| format!("{}: {error}", log.display()))?;
    Command::new("bash")
        .args(["-c", FEW_FILES])
        .args(before)
        .arg(binary)
        .args(["start", "--bind", "127.0.0.1", "--data-dir"])
        .arg(folder)
        .args(["--rpc-port", &rpc, "--master-port", &master, "--zk-port", &registry, "--web-port", &web])
        .args(more)
        .stdout(output)
        .stderr(file)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", binary.display()))
}

/// Creates an empty folder below `target/`.
pub(crate) fn fresh_folder(name: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(format!("target/xtask/{name}-{}", std::process::id()));
    let failed = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

/// Builds the server, unless it is built.
pub(crate) fn build() -> Result<(), String> {
    programs::build("bellows").map(drop)
}

impl Server {
    /// Builds the server and starts it in a folder of its own.
    pub(crate) fn start(name: &str, more: &[&str]) -> Result<Server, String> {
        build()?;
        Server::start_in(&fresh_folder(name)?, more)
    }

    /// Starts the built server in `folder`, on free ports, and waits until it is ready. The log is appended to a file
    /// with the folder's name and `.log`.
    pub(crate) fn start_in(folder: &Path, more: &[&str]) -> Result<Server, String> {
        Server::start_with_log(folder, &log_of(folder), more)
    }

    /// Starts the built server as [`start_in`](Server::start_in) does, with another log file.
    pub(crate) fn start_with_log(folder: &Path, log: &Path, more: &[&str]) -> Result<Server, String> {
        Server::start_binary(&binary(), folder, log, more)
    }

    /// Starts the server `binary` as [`start_with_log`](Server::start_with_log) starts the built one.
    pub(crate) fn start_binary(
        binary: &Path,
        folder: &Path,
        log: &Path,
        more: &[&str],
    ) -> Result<Server, String> {
        Server::start_behind(&[], binary, folder, log, more)
    }

    /// Starts the server `binary` through the command `before`, a program with its arguments that replaces itself by
    /// the server. Folder, log and ports are those of [`start_with_log`](Server::start_with_log).
    pub(crate) fn start_behind(
        before: &[&str],
        binary: &Path,
        folder: &Path,
        log: &Path,
        more: &[&str],
    ) -> Result<Server, String> {
        Server::start_as(&Start { before, binary, folder, log, ports: [0; 4], more })
    }

    /// Starts a server with all settings given.
    pub(crate) fn start_as(start: &Start<'_>) -> Result<Server, String> {
        let began = Instant::now();
        let log = start.log;
        let mut child = spawn(start, Stdio::piped())?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).map_err(|error| format!("the server says nothing: {error}"))?;
            Ok::<String, String>(line)
        };
        let first = line()?;
        let ready = began.elapsed();
        // There is an empty line after the first, and one at the end.
        let mut greeting = first.clone() + &line()?;
        loop {
            let next = line()?;
            greeting += &next;
            if next.trim().is_empty() {
                break;
            }
        }
        // The pipe is kept open, as a user's terminal is.
        child.stdout = Some(output.into_inner());
        let word = |before: &str| -> Option<String> {
            let rest = &first[first.find(before)? + before.len()..];
            Some(rest.split([',', ' ', '\n']).next()?.trim_end_matches('/').to_owned())
        };
        let words = (word("region server "), word("registry "), word("master "), word("web http://"));
        match words {
            (Some(rpc), Some(registry), Some(master), Some(web)) if first.starts_with("ready after") => {
                Ok(Server { child, rpc, registry, master, web, greeting, ready })
            }
            _ => {
                let _gone = child.kill();
                let status = child.wait().map_err(|error| error.to_string())?;
                Err(format!("the server is not ready ({status}), see {}: {first:?}", log.display()))
            }
        }
    }

    /// Starts the server and kills it after `time`, ready or not.
    pub(crate) fn start_and_kill(
        folder: &Path,
        log: &Path,
        more: &[&str],
        time: Duration,
    ) -> Result<(), String> {
        let start = Start { before: &[], binary: &binary(), folder, log, ports: [0; 4], more };
        Server::start_as_and_kill(&start, time)
    }

    /// Starts a server with all settings given, and kills it after `time`, ready or not.
    pub(crate) fn start_as_and_kill(start: &Start<'_>, time: Duration) -> Result<(), String> {
        let mut child = spawn(start, Stdio::null())?;
        std::thread::sleep(time);
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// The exit status if the server has ended by itself; `None` while it runs.
    pub(crate) fn end(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| error.to_string())
    }

    /// Suspends the server with SIGSTOP.
    pub(crate) fn pause(&self) -> Result<(), String> {
        run("kill", &["-STOP", &self.child.id().to_string()])
    }

    /// Continues a paused server, which must end by itself within `time`, with the status of a server whose files another
    /// one has taken over.
    pub(crate) fn resume_and_end(mut self, time: Duration) -> Result<(), String> {
        run("kill", &["-CONT", &self.child.id().to_string()])?;
        let began = Instant::now();
        while began.elapsed() < time {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.code() == Some(3) => return Ok(()),
                Some(status) => return Err(format!("the server ended with {status}, not with status 3")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(format!("the server still ran {time:?} after it was resumed"))
    }

    /// Waits for the end of the server, which a client has requested, and fails if the server ends with an error.
    pub(crate) fn ended(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}, not in order")) }
    }

    /// Stops the server in order with SIGTERM, and fails if the server ends with an error.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        run("kill", &["-TERM", &self.child.id().to_string()])?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status} after SIGTERM")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Normally the server has ended already, and killing it fails.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
