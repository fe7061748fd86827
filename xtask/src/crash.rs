//! What was acknowledged survives `kill -9`.
//!
//! In each round a writer (an example program of the native client) puts numbered rows, one call each, and says every
//! number after it was acknowledged. At a random moment the server is killed; it is started again in the same folder,
//! and the verifier must find every row whose number was said, and no row whose content is not its number's.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::server::{Server, build, fresh_folder};
use crate::{Outcome, run as run_command};

/// Runs so many rounds on one folder.
pub(crate) fn run_rounds(rounds: u32, seed: u64) -> Outcome {
    build()?;
    run_command("cargo", &["build", "--quiet", "-p", "client", "--example", "crash"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = format!("{target}/debug/examples/crash");
    let folder = fresh_folder("crash")?;
    let mut chance = seed;
    let mut acknowledged = 0u64;
    for round in 0..rounds {
        let server = Server::start_in(&folder, &["-D", "hbase.hregion.memstore.flush.size=262144"])?;
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let alive = Duration::from_millis(150 + (chance >> 33) % 900);
        let mut writer = Command::new(&program)
            .args(["write", &server.rpc, &acknowledged.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let output = writer.stdout.take().expect("it is piped");
        let heard = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.filter_map(|line| line.parse::<u64>().ok()).last()
        });
        std::thread::sleep(alive);
        server.kill()?;
        let _ended = writer.kill();
        writer.wait().map_err(|error| error.to_string())?;
        let last = heard.join().map_err(|_| "the listener broke".to_owned())?;
        acknowledged = last.map_or(acknowledged, |last| last + 1);
        let server = Server::start_in(&folder, &[])?;
        run_command(&program, &["verify", &server.rpc, &acknowledged.to_string()])
            .map_err(|why| format!("round {round}, seed {seed}, {acknowledged} rows acknowledged: {why}"))?;
        server.kill()?;
    }
    println!("{rounds} rounds, {acknowledged} rows acknowledged, all there (seed {seed})");
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Runs so many rounds with a seed from the clock.
pub(crate) fn run(rounds: u32) -> Outcome {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    run_rounds(rounds, seed)
}
