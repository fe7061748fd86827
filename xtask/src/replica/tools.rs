//! Runs stock programs, unmodified, against a read replica: YCSB's workloads that only read, and HBase's shell.
//!
//! `proof/hbase/replica` has three scripts for the shell. The primary runs `write.rb`. Then primary and replica run
//! `read.rb`, and must print the same. The replica runs `refused.rb`, and must print `refused.txt`: HBase has no such
//! replica that could be recorded.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::server::{Server, fresh_folder, no_panic};
use crate::shell::{self, Transcript};
use crate::tools::{Registry, Tools};
use crate::ycsb::{FIELDS, Load, REGIONS};
use crate::{Outcome, crash};

const WRITE: &str = "proof/hbase/replica/write.rb";
const READ: &str = "proof/hbase/replica/read.rb";
const REFUSED: &str = "proof/hbase/replica/refused.rb";
const EXPECTED: &str = "proof/hbase/replica/refused.txt";

/// YCSB's workloads C, and E without its inserts: the fractions of read, update, insert, scan and read-modify-write.
const WORKLOADS: [(&str, [&str; 5]); 2] =
    [("c", ["1", "0", "0", "0", "0"]), ("e", ["0", "0", "0", "1", "0"])];
const LOAD: Load = Load { records: 5_000, operations: 2_000, threads: 8 };
/// Maximum time until the replica shows every row of the primary.
const LAG_MAX: Duration = Duration::from_secs(30);

/// Tests that a replica serves these programs as its primary does, as far as they only read.
pub(crate) fn serves(endpoint: &str) -> Outcome {
    let folder = fresh_folder("replica-tools")?;
    let data = PathBuf::from(format!("s3://bellows/replica-tools-{}", std::process::id()));
    let options = crash::store_options(endpoint, "");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let of_replica: Vec<&str> = options.iter().copied().chain(["--read-replica"]).collect();
    let log = |name: &str| folder.join(format!("{name}.log"));
    let primary = Server::start_with_log(&data, &log("primary"), &options)?;
    let replica = Server::start_with_log(&data, &log("replica"), &of_replica)?;
    let failed = |why: String| format!("{why}\n  the servers' logs are in {}", folder.display());
    ycsb(&primary, &replica, &folder.join("ycsb")).map_err(failed)?;
    in_shell(&primary, &replica).map_err(failed)?;
    replica.stop()?;
    primary.stop()?;
    ["primary", "replica"].iter().try_for_each(|name| no_panic(&log(name))).map_err(failed)?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

fn ycsb(primary: &Server, replica: &Server, folder: &std::path::Path) -> Outcome {
    let tools_of = |module: &str, server: &Server, name: &str| {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Tools::new(module, server, &folder)
    };
    let tools = tools_of("ycsb", primary, "primary")?;
    tools.run("create", Registry::Rpc, "HBaseBinding", &["usertable", REGIONS])?;
    LOAD.run(&tools, Registry::Rpc, "load", [""; 5], "uniform")?;
    let counting = tools_of("tools", replica, "count")?;
    let (wanted, began) = ((LOAD.records, LOAD.records * FIELDS), Instant::now());
    loop {
        match counting.count("usertable") {
            Ok(found) if found == wanted => break,
            Ok(_) | Err(_) if began.elapsed() < LAG_MAX => {}
            found => {
                return Err(format!(
                    "the replica has (rows, cells) {found:?} after {LAG_MAX:?}, expected {wanted:?}"
                ));
            }
        }
    }
    let tools = tools_of("ycsb", replica, "replica")?;
    for (step, (name, shares)) in WORKLOADS.into_iter().enumerate() {
        let (counts, ended) = LOAD.run(&tools, Registry::of_step(step), name, shares, "zipfian")?;
        say!("YCSB's workload {name} on a replica: {:.1} s, {counts:?}", ended.seconds);
    }
    Ok(())
}

fn in_shell(primary: &Server, replica: &Server) -> Outcome {
    shell::printed(WRITE, &primary.registry)?;
    let of_primary = shell::printed(READ, &primary.registry)?;
    let of_replica = shell::printed(READ, &replica.registry)?;
    let mut wrong = shell::differences(("primary", &of_primary), ("replica", &of_replica));
    let refused = shell::printed(REFUSED, &replica.registry)?;
    let expected = Transcript::parse(&shell::read(EXPECTED)?);
    wrong.extend(shell::differences(("expected", &expected), ("replica", &refused)));
    if wrong.is_empty() {
        say!(
            "HBase's shell on a replica: {} commands read what the primary shows, {} are as expected",
            of_replica.blocks.len(),
            refused.blocks.len()
        );
        return Ok(());
    }
    Err(format!(
        "{} commands of the shell are wrong on a replica:\n\n{}\n\nall that {REFUSED} printed:\n\n{refused}",
        wrong.len(),
        wrong.join("\n\n")
    ))
}
