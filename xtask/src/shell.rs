//! Compares what each command of HBase's own shell prints on Bellows and on Apache HBase.
//!
//! `proof/hbase/shell` has three files. `commands.rb` has the commands, which the shell reads as if somebody typed
//! them. `hbase.txt` is what Apache HBase 2.6.4 printed (`--record` makes it anew). `differences.txt` has the commands
//! whose output differs on Bellows: the reason, the command, and what Bellows prints. All other commands must print the
//! same on both, and a listed command must differ.
//!
//! The shell is that of HBase 2.4.17, the newest one in Maven Central, on the client of 2.6.4. The folder `commands` has
//! the commands of younger shells, written for this shell, except `whoami`, which asks no server.
//!
//! The server has HBase's value of `hbase.store.file-tracker.impl`, which each table's description shows.

mod transcript;

use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use self::transcript::Transcript;

use self::transcript::Block;
use crate::hbase::HBase;
use crate::server::{Server, fresh_folder};
use crate::{Outcome, java};

pub(crate) const USAGE: &str = "       cargo xtask shell [--against QUORUM | --kept OUTPUT] [--print] | --record   (HBase's shell, line by line; --print
                  shows all that differs in the form of differences.txt; --record starts Apache HBase; OUTPUT is that
                  of a shell that ran before)";

const COMMANDS: &str = "proof/hbase/shell/commands.rb";
/// Commands that the shell does not have, one a file.
const YOUNGER: &str = "proof/hbase/shell/commands";
const RECORDED: &str = "proof/hbase/shell/hbase.txt";
const DIFFERENCES: &str = "proof/hbase/shell/differences.txt";

/// The module of `proof/java` with the shell and JRuby.
const MODULE: &str = "shell";

/// Runs all commands against a server of its own.
pub(crate) fn suite() -> Outcome {
    run(&[])
}

/// Runs `cargo xtask shell` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let (target, print) = match options {
        [rest @ .., "--print"] => (rest, true),
        all => (all, false),
    };
    match target {
        [] => {
            let server = Server::start("shell", &["-D", "hbase.store.file-tracker.impl=DEFAULT"])?;
            let printed = printed(COMMANDS, &server.registry)?;
            // The last command of the script stops the server.
            server.ended()?;
            compare(&printed, print)
        }
        ["--against", quorum] => compare(&printed(COMMANDS, quorum)?, print),
        ["--kept", output] => compare(&kept(COMMANDS, output)?, print),
        ["--record"] if !print => record(),
        ["--record", "--kept", output] if !print => write(&kept(COMMANDS, output)?),
        _ => Err(format!("usage:\n{USAGE}")),
    }
}

fn record() -> Outcome {
    let pages = crate::hbase::free_port()?.to_string();
    let hbase = HBase::start(&[("hbase.regionserver.info.port", &pages)])?;
    write(&printed(COMMANDS, &hbase.quorum)?)?;
    hbase.remove()
}

fn write(printed: &Transcript) -> Outcome {
    std::fs::write(RECORDED, printed.to_string()).map_err(|error| format!("{RECORDED}: {error}"))
}

/// Returns the output of a shell that has read `script` and written it to a file.
fn kept(script: &str, output: &str) -> Result<Transcript, String> {
    let text = std::fs::read(output).map_err(|error| format!("{output}: {error}"))?;
    Transcript::of_output(&read(script)?, &String::from_utf8_lossy(&text))
        .map_err(|why| format!("{why}; see {output}"))
}

pub(crate) fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// Fails unless this is what Apache HBase printed, except for the listed differences.
fn compare(printed: &Transcript, print: bool) -> Outcome {
    let recorded = Transcript::parse(&read(RECORDED)?);
    let listed = Transcript::parse(&read(DIFFERENCES)?);
    let mut wrong = Vec::new();
    for block in &printed.blocks {
        let Some(before) = recorded.find(block) else {
            wrong.push(format!("{RECORDED} has no command {}; record it", block.title()));
            continue;
        };
        let differs = before.lines != block.lines;
        let why = match listed.find(block) {
            Some(listed) if !differs => {
                Some(format!("{DIFFERENCES} lists {}, which is equal", listed.title()))
            }
            Some(listed) => (listed.lines != block.lines).then(|| "not as listed".to_owned()),
            None => differs.then(|| "differs".to_owned()),
        };
        if let Some(why) = why {
            wrong.push(format!("{}: {why}\n{}", block.title(), shown(before, block)));
        }
        if print && differs {
            crate::print(&format!("{block}\n"));
        }
    }
    for block in recorded.blocks.iter().chain(&listed.blocks) {
        if printed.find(block).is_none() {
            wrong.push(format!("the shell did not come to {}", block.title()));
        }
    }
    if let Some(block) = listed.blocks.iter().find(|block| block.reason.is_empty()) {
        wrong.push(format!("{DIFFERENCES}: {} has no reason", block.title()));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{} commands of the shell are wrong:\n\n{}", wrong.len(), wrong.join("\n\n")))
}

/// Returns what is wrong if two shells that read the same script did not print the same. The first is called `one`, the
/// other `other`.
pub(crate) fn differences(one: (&str, &Transcript), other: (&str, &Transcript)) -> Vec<String> {
    let ((one, before), (other, after)) = (one, other);
    let mut wrong = Vec::new();
    for block in &after.blocks {
        match before.find(block) {
            Some(before) if before.lines == block.lines => {}
            Some(before) => {
                let lines = |who: &str, block: &Block| {
                    block.lines.iter().map(|line| format!("\n  {who:8} {line}")).collect::<String>()
                };
                wrong.push(format!("{}{}{}", block.title(), lines(one, before), lines(other, block)));
            }
            None => wrong.push(format!("{one} has no command {}", block.title())),
        }
    }
    wrong
}

/// Returns both outputs, without the lines that they share at their beginning and end.
fn shown(recorded: &Block, printed: &Block) -> String {
    let (one, other) = (&recorded.lines[..], &printed.lines[..]);
    let start = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    let lines = one.iter().map(|line| format!("  HBase    {line}"));
    lines.chain(other.iter().map(|line| format!("  Bellows  {line}"))).collect::<Vec<String>>().join("\n")
}

/// Returns what the shell prints for each command of the file `script` against the cluster behind this ZooKeeper address.
pub(crate) fn printed(script: &str, quorum: &str) -> Result<Transcript, String> {
    let jars = format!("{}:{}", java::class_path(MODULE)?, java::class_path("tools")?);
    let folder = fresh_folder("shell-client")?;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let (host, port) = quorum.rsplit_once(':').ok_or("the address of ZooKeeper has no port")?;
    let properties = [
        ("hbase.zookeeper.quorum", host),
        ("hbase.zookeeper.property.clientPort", port),
        // The shell also waits for the retries of commands that fail. So there are few retries, with short pauses.
        ("hbase.client.retries.number", "3"),
        ("hbase.client.pause", "20"),
    ];
    let site: String = properties
        .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
        .concat();
    let site_path = folder.join("hbase-site.xml");
    std::fs::write(&site_path, format!("<configuration>{site}</configuration>"))
        .map_err(|error| failed(&site_path, error))?;
    // The command `trace` of the 2.4 shell names a class that HBase 2.6 does not have, so it is replaced by a command
    // that does nothing.
    let trace = folder.join("shell/commands/trace.rb");
    std::fs::create_dir_all(folder.join("shell/commands")).map_err(|error| failed(&folder, error))?;
    std::fs::write(
        &trace,
        "module Shell\n  module Commands\n    class Trace < Command\n    end\n  end\nend\n",
    )
    .map_err(|error| failed(&trace, error))?;
    let younger = std::fs::read_dir(YOUNGER).map_err(|error| failed(Path::new(YOUNGER), error))?;
    for entry in younger {
        let path = entry.map_err(|error| failed(Path::new(YOUNGER), error))?.path();
        let to = folder.join("shell/commands").join(path.file_name().unwrap_or_default());
        std::fs::copy(&path, &to).map_err(|error| failed(&path, error))?;
    }
    let (output, errors) = (folder.join("output"), folder.join("errors"));
    let file = |path: &Path| std::fs::File::create(path).map_err(|error| failed(path, error));
    let input = std::fs::File::open(script).map_err(|error| format!("{script}: {error}"))?;
    let mut shell = java::java(
        &format!("{}:{}:{jars}", folder.display(), java::CONF),
        &[("proof.log", "OFF")],
        &["org.jruby.JarBootstrapMain"],
    );
    shell.stdin(Stdio::from(input)).stdout(file(&output)?).stderr(file(&errors)?);
    wait_for(shell)?;
    kept(script, &output.display().to_string())
}

/// Waits until the shell has ended. Its status says whether the last command succeeded.
fn wait_for(mut shell: Command) -> Outcome {
    shell.status().map(drop).map_err(|error| format!("cannot start java: {error}"))
}
