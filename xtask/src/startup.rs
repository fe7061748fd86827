//! Checks the start of the server from an operator's view.
//!
//! The server is ready within a second, prints what a client needs, and ends in order. If it cannot start, it says
//! why in one line and changes no file. The checks run the real binary. The data is a generated index of packages
//! (see [`crate::packages`]), which is compared completely after all refused starts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::fulldisk;
use crate::packages::{build_example, made_up, packages};
use crate::powercut::{FIRST, apart};
use crate::server::{Server, binary, build, fresh_folder, log_of, no_panic};
use crate::{NOT_RUN, Outcome, java};

/// Maximum time until the server is ready, on files that were closed in order.
const READY_MAX: Duration = Duration::from_secs(1);
/// Maximum time in seconds of a start that must be refused; normally it is much shorter.
const REFUSED_MAX_S: &str = "20";
const ANY_PORTS: [&str; 8] = ["--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"];

/// Runs all checks that need no special rights.
pub(crate) fn run() -> Outcome {
    build()?;
    build_example()?;
    let folder = fresh_folder("startup")?;
    let (data, list) = prepare(&folder)?;

    let server = start_quickly(&data, "in an empty folder")?;
    packages(&server, &["load", &list])?;
    server.stop()?;

    let server = start_quickly(&data, "after an orderly end")?;
    if figure(&server, "bellows_replayed_bytes_total")? != 0.0 {
        return Err("an orderly end leaves something to replay".to_owned());
    }
    web(&server)?;
    paste(&server, &folder)?;
    while_it_runs(&server, &folder, &data)?;
    packages(&server, &["verify", &list])?;
    packages(&server, &["drop"])?;
    packages(&server, &["load", &list])?;
    server.kill()?;

    let server = Server::start_in(&data, &[])?;
    say!("ready after {:4} ms after kill -9", server.ready.as_millis());
    if figure(&server, "bellows_replayed_bytes_total")? == 0.0 {
        return Err("kill -9 left nothing to replay: the figure is not to be believed".to_owned());
    }
    packages(&server, &["verify", &list])?;
    server.stop()?;

    refused_folders(&folder, &data)?;
    // The server is stopped at the moment when it is ready.
    for _ in 0..5 {
        start_quickly(&data, "and ended at once")?.stop()?;
    }
    let server = start_quickly(&data, "after all that")?;
    if figure(&server, "bellows_replayed_bytes_total")? != 0.0 {
        return Err("an orderly end leaves something to replay".to_owned());
    }
    packages(&server, &["verify", &list])?;
    server.stop()?;
    no_panic(&log_of(&data))?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Creates the data folder and a list to load; returns both.
fn prepare(folder: &Path) -> Result<(PathBuf, String), String> {
    let list = folder.join("made-up_Packages");
    std::fs::write(&list, made_up()).map_err(|error| format!("{}: {error}", list.display()))?;
    Ok((folder.join("data"), list.display().to_string()))
}

fn start_quickly(data: &Path, when: &str) -> Result<Server, String> {
    let server = Server::start_in(data, &[])?;
    say!("ready after {:4} ms {when}", server.ready.as_millis());
    if server.ready > READY_MAX {
        return Err(format!("{when} it was ready after {:?} only", server.ready));
    }
    Ok(server)
}

/// Checks starts that are refused because a server has the ports or the folder.
fn while_it_runs(server: &Server, folder: &Path, data: &Path) -> Outcome {
    let other = folder.join("other");
    let taken = server.web.rsplit_once(':').map_or("", |(_, port)| port).to_owned();
    for option in ["--rpc-port", "--master-port", "--zk-port", "--web-port"] {
        // The last value of an option counts.
        let arguments: Vec<&str> = ANY_PORTS
            .chunks(2)
            .flat_map(|pair| if pair[0] == option { vec![option, &taken] } else { pair.to_vec() })
            .collect();
        refused_in(&other, &arguments, &[&format!(":{taken}"), "in use", option])?;
    }
    let process = format!("process {}", server.id());
    refused_in(data, &ANY_PORTS, &[&process, &data.display().to_string(), "--data-dir"])?;

    let with = |more: &[&'static str]| [&ANY_PORTS[..], more].concat();
    refused_in(&other, &["--rpc-prot", "1"], &["--rpc-prot", "--rpc-port", "--help"])?;
    refused_in(&other, &["--rpc-port", "many"], &["--rpc-port", "many", "0 to 65535", "--help"])?;
    refused_in(&other, &["--rpc-port", "7", "--web-port", "7"], &["--rpc-port", "--web-port", "both 7"])?;
    refused_in(&other, &with(&["--bind", "nowhere"]), &["--bind", "nowhere", "127.0.0.1"])?;
    // An address reserved for documentation, which no machine has.
    refused_in(&other, &with(&["--bind", "192.0.2.1"]), &["192.0.2.1", "--bind"])?;
    refused_in(&other, &with(&["-D", "hbase.wal.hsync"]), &["-D", "hbase.wal.hsync", "KEY=VALUE"])?;
    let size = "hbase.hregion.memstore.flush.size";
    refused_in(&other, &with(&["-D", "hbase.hregion.memstore.flush.size=much"]), &[size, "much", "bytes"])?;
    refused_in(&other, &with(&["-D", "hbase.hregion.memstore.flush.size=0"]), &[size, "is 0", "at least"])?;
    let parent = "zookeeper.znode.parent";
    refused_in(&other, &with(&["-D", "zookeeper.znode.parent=hbase"]), &[parent, "hbase", "expected"])?;
    let site = folder.join("site.xml").display().to_string();
    let with_site = [&ANY_PORTS[..], &["--site", &site]].concat();
    refused_in(&other, &with_site, &[&site, "No such file", "--site"])?;
    for (content, words) in [
        ("<configuration><property><name>hbase.wal.hsync</name>", &[&site[..], "--site"][..]),
        ("hbase.wal.hsync=false", &[&site, "--site"]),
        (
            "<configuration><property><name>hbase.wal.hsync</name><value>perhaps</value></property></configuration>",
            &[&site, "hbase.wal.hsync", "perhaps", "true"],
        ),
    ] {
        std::fs::write(&site, content).map_err(|error| format!("{site}: {error}"))?;
        refused_in(&other, &with_site, words)?;
    }
    if other.exists() {
        return Err(format!("{} was made by starts that were refused for other reasons", other.display()));
    }
    Ok(())
}

/// Checks starts that are refused because of the content or the place of the folder.
fn refused_folders(folder: &Path, data: &Path) -> Outcome {
    let file = folder.join("file");
    let made = |path: &Path, content: &str| {
        std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
    };
    made(&file, "")?;
    for place in [file.clone(), file.join("below")] {
        let name = place.display().to_string();
        refused_in(&place, &ANY_PORTS, &[&name, "is a file", "--data-dir"])?;
    }
    let foreign = folder.join("foreign");
    std::fs::create_dir(&foreign).map_err(|error| error.to_string())?;
    made(&foreign.join("hbase.version"), "PBUF\n\u{1}8")?;
    refused_in(&foreign, &ANY_PORTS, &["Apache HBase", "--data-dir"])?;

    let version = data.join("bellows.version");
    let ours =
        std::fs::read_to_string(&version).map_err(|error| format!("{}: {error}", version.display()))?;
    made(&version, "4711\n")?;
    refused_in(data, &ANY_PORTS, &["newer version", "4711", "--data-dir"])?;
    made(&version, "\u{7}")?;
    refused_in(data, &ANY_PORTS, &["bellows.version", "damaged", "--data-dir"])?;
    made(&version, &ours)
}

/// Checks starts that must fail with one line that has these words, and must not change the folder.
fn refused_in(data: &Path, arguments: &[&str], words: &[&str]) -> Outcome {
    let before = content(data)?;
    let output = Command::new("timeout")
        .arg(REFUSED_MAX_S)
        .arg(binary())
        .arg("start")
        .arg("--data-dir")
        .arg(data)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start timeout: {error}"))?;
    let (said, lines) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let what = format!("bellows start {}", arguments.join(" "));
    if !matches!(output.status.code(), Some(1 | 2)) || !lines.is_empty() {
        return Err(format!("{what} was not refused ({}): {lines} {said}", output.status));
    }
    if said.lines().count() != 1 || !said.starts_with("bellows: ") {
        return Err(format!("{what}: one line was expected: {said}"));
    }
    if let Some(word) = words.iter().find(|word| !said.contains(*word)) {
        return Err(format!("{what}: {word:?} is missing in: {said}"));
    }
    if content(data)? != before {
        return Err(format!("{what} changed something in {}", data.display()));
    }
    say!("{}", said.trim());
    Ok(())
}

/// Returns the content of every file, except LOCK, which names the last process.
fn content(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_none_or(|name| name != "LOCK") {
                let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                found.insert(path, bytes);
            }
        }
    }
    Ok(found)
}

/// Returns status and body of a web server's answer.
pub(crate) fn ask(address: &str, path: &str) -> Result<(u16, String), String> {
    let failed = |error| format!("http://{address}{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("http://{address}{path} answers {head:?}"))?, body.to_owned()))
}

/// Returns the value of a metric in `/metrics`. Fails if it is missing.
pub(crate) fn figure(server: &Server, name: &str) -> Result<f64, String> {
    let (status, body) = ask(&server.web, "/metrics")?;
    let value = body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.ok_or_else(|| format!("/metrics ({status}) has no {name}"))
}

fn web(server: &Server) -> Outcome {
    let (status, body) = ask(&server.web, "/healthz")?;
    if status != 200 {
        return Err(format!("/healthz is {status}: {body}"));
    }
    for name in [
        "hbase_regionserver_region_count",
        "hbase_regionserver_total_request_count",
        "hbase_regionserver_store_file_count",
        "hbase_ipc_call_count",
    ] {
        figure(server, name)?;
    }
    match ask(&server.web, "/nothing")? {
        (404, _) => Ok(()),
        (status, _) => Err(format!("a page that is not there is answered with {status}")),
    }
}

/// Compiles and runs the Java lines that the server prints, in both forms; the other lines must name its ports.
fn paste(server: &Server, folder: &Path) -> Outcome {
    let greeting = &server.greeting;
    let pasted = |heading: &str| {
        let lines = greeting.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
        let lines: Vec<&str> = lines.take_while(|line| line.starts_with("    ")).collect();
        lines.join("\n")
    };
    let (first, second) = (pasted("Java"), pasted("or by the one"));
    let conf = "Configuration conf = HBaseConfiguration.create();";
    if !first.contains(conf) || second.is_empty() {
        return Err(format!("there is nothing to paste in {greeting}"));
    }
    let use_it = "try (Connection c = ConnectionFactory.createConnection(conf); Admin admin = c.getAdmin()) { \
                  System.out.println(\"tables \" + Arrays.toString(admin.listTableNames())); }";
    let program = format!(
        "import java.util.Arrays;\n\
         import org.apache.hadoop.conf.Configuration;\n\
         import org.apache.hadoop.hbase.HBaseConfiguration;\n\
         import org.apache.hadoop.hbase.client.*;\n\
         public class Pasted {{ public static void main(String[] args) throws Exception {{\n\
         {{\n{first}\n{use_it}\n}}\n{{\n{conf}\n{second}\n{use_it}\n}}\n}} }}\n"
    );
    let path = folder.join("Pasted.java");
    std::fs::write(&path, program).map_err(|error| format!("{}: {error}", path.display()))?;
    let class_path = format!("{}:{}", java::CONF, java::class_path("client")?);
    let output = java::java(&class_path, &[], &[&path.display().to_string()])
        .output()
        .map_err(|error| format!("cannot start java: {error}"))?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.matches("tables [packages]\n").count() != 2 {
        return Err(format!("what is to be pasted into Java does not work: {said} {errors}"));
    }
    let zookeeper = server.registry.rsplit_once(':').map_or("", |(_, port)| port);
    let go = format!("gohbase.NewClient(\"localhost:{zookeeper}\"");
    for word in [&go[..], "happybase.Connection("] {
        if !greeting.contains(word) {
            return Err(format!("{word} is missing in {greeting}"));
        }
    }
    say!("what is to be pasted into Java works, with both registries");
    Ok(())
}

/// Checks full disks and a read-only one, in a mount namespace.
pub(crate) fn disks() -> Outcome {
    let this = std::env::current_exe().map_err(|error| format!("this program's own name: {error}"))?;
    let folder = fresh_folder("disks")?;
    let tried = apart().arg(&this).arg("disks-probe").arg(&folder).output();
    match tried {
        Err(error) => return Err(format!("{NOT_RUN}cannot start unshare (package util-linux): {error}")),
        Ok(output) if !output.status.success() => {
            let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(format!("{NOT_RUN}nothing can be mounted here, which takes root: {why}"));
        }
        Ok(_) => {}
    }
    build()?;
    build_example()?;
    fulldisk::build_client()?;
    let mut command = apart();
    command.args(["bash", "-c", FIRST]).arg(this).arg("disks-inside").arg(&folder);
    let status = command.status().map_err(|error| format!("cannot start unshare: {error}"))?;
    if !status.success() {
        return Err(format!("see above ({status})"));
    }
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

fn mount(options: &str, at: &Path) -> Outcome {
    crate::run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &at.display().to_string()])
}

/// Whether a file system can be mounted.
pub(crate) fn disks_probe(folder: &Path) -> Outcome {
    mount("size=1m", folder)
}

/// Runs the checks of disks. The caller has created the namespace.
pub(crate) fn disks_inside(folder: &Path) -> Outcome {
    let disk = folder.join("disk");
    std::fs::create_dir_all(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
    mount("size=32m", &disk)?;
    let (_, list) = prepare(folder)?;
    let (data, log) = (disk.join("data"), folder.join("data.log"));
    let start = || Server::start_with_log(&data, &log, &[]);
    let server = start()?;
    packages(&server, &["load", &list])?;
    server.stop()?;

    let filler = disk.join("filler");
    fulldisk::fill(&filler, u64::MAX)?;
    let name = disk.display().to_string();
    // The data folder has a reserve, and a new folder has none.
    let server = start()?;
    packages(&server, &["verify", &list])?;
    server.kill()?;
    fulldisk::fill(&filler, u64::MAX)?;
    refused_in(&disk.join("new"), &ANY_PORTS, &[&name, "is full", "No space left", "free some space"])?;
    std::fs::remove_file(&filler).map_err(|error| error.to_string())?;
    let server = start()?;
    packages(&server, &["verify", &list])?;
    server.stop()?;

    let remount = |how: &str| crate::run("mount", &["-o", &format!("remount,{how}"), &name]);
    remount("ro")?;
    for place in [data.clone(), disk.join("newer")] {
        refused_in(&place, &ANY_PORTS, &[&name, "cannot be written", "Read-only", "--data-dir"])?;
    }
    let checked = Command::new(binary()).arg("fsck").arg(&data).output();
    let checked = checked.map_err(|error| format!("bellows fsck: {error}"))?;
    if !checked.status.success() {
        let words = String::from_utf8_lossy(&checked.stderr);
        return Err(format!("bellows fsck of a read-only disk: {}, {words}", checked.status));
    }
    remount("rw")?;
    let server = start()?;
    packages(&server, &["verify", &list])?;
    packages(&server, &["drop"])?;
    server.stop()?;
    no_panic(&log)?;
    fulldisk::run(folder)
}
