//! Compares the data model with Apache HBase: the same operations on both servers must give the same results.
//!
//! `cargo xtask diff` runs random streams (`proof/java/compat`) for a time. Streams whose results differ are shortened
//! and kept below `target/xtask/diff`. When the difference is fixed, they become cases: `--record` adds HBase's
//! results, and the part `diff` of `cargo xtask test` runs all of `proof/java/compat/cases` without an HBase.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::hbase::HBase;
use crate::java;
use crate::server::Server;

const CASES: &str = "proof/java/compat/cases";
const DIFFERENT: &str = "target/xtask/diff";

/// Settings with which the files of both servers have the same cells. `Side.java` waits until the compactions that
/// follow from them have ended.
const COMPACTIONS: [(&str, &str); 4] = [
    ("hbase.hstore.compaction.min", "3"),
    ("hbase.hstore.compaction.max.size", "1048576"),
    ("hbase.hstore.compaction.ratio", "1000000"),
    ("hbase.hstore.blockingStoreFiles", "100"),
];

/// How often HBase archives compacted files, in ms. Until then it refuses to split or merge their region, because some may
/// have been references.
const ARCHIVES: (&str, &str) = ("hbase.hfile.compaction.discharger.interval", "100");

/// Settings with which a memstore is sealed every few hundred cells, so that reads visit many segments. In-memory
/// compaction drops no cells, because HBase's does not.
const MEMORY: [(&str, &str); 2] = [
    ("hbase.hregion.compacting.memstore.type", "BASIC"),
    ("hbase.memstore.inmemoryflush.threshold.factor", "0.0001"),
];

/// The tester waits for compactions. With the default priority they would wait for other processes of a busy machine.
const PRIORITY: (&str, &str) = ("bellows.background.nice", "0");

fn start_bellows() -> Result<Server, String> {
    let mut words = Vec::new();
    for (name, value) in COMPACTIONS.into_iter().chain(MEMORY).chain([PRIORITY]) {
        words.extend(["-D".to_owned(), format!("{name}={value}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Server::start("diff", &words)
}

fn tester(words: &[&str]) -> Outcome {
    let class_path = java::compile("compat")?;
    let words: Vec<&str> = ["Main"].into_iter().chain(words.iter().copied()).collect();
    // Many operations are refused on purpose. The client would log each refusal, so its log is off.
    let mut command = java::java(&class_path, &[("proof.log", "OFF")], &words);
    command.stderr(std::process::Stdio::null());
    java::succeed("the differential tester", command)
}

/// Runs the recorded cases against a server that it starts.
pub(crate) fn replay() -> Outcome {
    let server = start_bellows()?;
    tester(&["replay", &format!("rpc:{}", server.rpc), CASES])?;
    server.stop()
}

/// The two servers. Those that the options do not name are started by this command.
struct Sides {
    hbase: Option<HBase>,
    bellows: Option<Server>,
    addresses: [String; 2],
}

impl Sides {
    fn of(hbase: Option<&str>, bellows: Option<&str>) -> Result<Sides, String> {
        let own_hbase = if hbase.is_none() {
            Some(HBase::start(&[&COMPACTIONS[..], &[ARCHIVES]].concat())?)
        } else {
            None
        };
        let own_bellows = if bellows.is_none() { Some(start_bellows()?) } else { None };
        let address = |given: Option<&str>, own: Option<&String>| match (given, own) {
            (Some(given), _) => given.to_owned(),
            (None, own) => format!("rpc:{}", own.expect("it was started here")),
        };
        let addresses = [
            address(hbase, own_hbase.as_ref().map(|own| &own.rpc)),
            address(bellows, own_bellows.as_ref().map(|own| &own.rpc)),
        ];
        Ok(Sides { hbase: own_hbase, bellows: own_bellows, addresses })
    }

    fn end(self) -> Outcome {
        if let Some(bellows) = self.bellows {
            bellows.stop()?;
        }
        self.hbase.map_or(Ok(()), HBase::remove)
    }
}

/// Runs `cargo xtask diff`, as its usage says.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let mut minutes = 10.0;
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let mut workers = 4u32;
    let (mut generator, mut hbase, mut bellows) = ("", None, None);
    let mut left = options;
    let wrong = |option: &str, value: &str| format!("{option} {value} is not understood");
    loop {
        left = match left {
            [] => break,
            ["--record", scripts @ ..] => {
                let sides = Sides::of(hbase, Some(""))?;
                let words: Vec<&str> =
                    ["record", &sides.addresses[0]].into_iter().chain(scripts.iter().copied()).collect();
                tester(&words)?;
                return sides.end();
            }
            ["--compare", scripts @ ..] => {
                let sides = Sides::of(hbase, bellows)?;
                let mut words = vec!["compare", &sides.addresses[0], &sides.addresses[1]];
                words.extend(scripts);
                tester(&words)?;
                return sides.end();
            }
            ["--shrink", scripts @ ..] => {
                let sides = Sides::of(hbase, bellows)?;
                let millis = ((minutes * 60_000.0_f64) as u64).to_string();
                let mut words = vec!["shrink", &sides.addresses[0], &sides.addresses[1], &millis];
                words.extend(scripts);
                tester(&words)?;
                return sides.end();
            }
            [option, value, more @ ..] => {
                match *option {
                    "--minutes" => minutes = value.parse().map_err(|_| wrong(option, value))?,
                    "--seed" => seed = value.parse().map_err(|_| wrong(option, value))?,
                    "--workers" => workers = value.parse().map_err(|_| wrong(option, value))?,
                    "--options" => generator = value,
                    "--hbase" => hbase = Some(*value),
                    "--bellows" => bellows = Some(*value),
                    _ => return Err(wrong(option, value)),
                }
                more
            }
            [option] => return Err(format!("{option} needs a value")),
        };
    }
    let sides = Sides::of(hbase, bellows)?;
    let millis = (minutes * 60_000.0_f64) as u64;
    let [hbase, bellows] = &sides.addresses;
    let (seed, millis, workers) = (seed.to_string(), millis.to_string(), workers.to_string());
    std::fs::create_dir_all(DIFFERENT).map_err(|error| format!("{DIFFERENT}: {error}"))?;
    tester(&["run", hbase, bellows, &seed, &millis, &workers, generator, DIFFERENT])?;
    sides.end()
}
