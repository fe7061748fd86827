//! Frees a full disk by the server's own means: tables are disabled and dropped, and clients write again, without a restart.
//!
//! Each file system is in a small image. A client fills it until its puts are refused, and a file takes what is left. The
//! server is also killed and started on the full disk. Rows that were acknowledged are there as long as their table is.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::image::{Image, KINDS};
use crate::server::{Server, no_panic};
use crate::{Outcome, programs};

/// Size of an image in bytes. XFS needs at least 300 MB.
const IMAGE_BYTES: u64 = 400 << 20;
/// What is free for the clients, in bytes.
const FREE_BYTES: u64 = 120 << 20;

/// Maximum number of times that the disk is filled before a put must be refused.
const REFUSALS_MAX: usize = 20;

/// Builds the client.
pub(crate) fn build_client() -> Outcome {
    programs::build_example("full_disk").map(drop)
}

/// Appends up to `bytes_max` bytes to a file, and as many as fit.
pub(crate) fn fill(file: &Path, bytes_max: u64) -> Outcome {
    let filler = OpenOptions::new().create(true).append(true).open(file);
    let mut filler = match filler {
        // There is not even room for the name.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
        filler => filler.map_err(|error| format!("{}: {error}", file.display()))?,
    };
    let mut left = bytes_max;
    // The last bytes are taken by small pieces.
    for piece in [1 << 20, 4096, 1] {
        let bytes = vec![0; piece];
        while left >= piece as u64 && filler.write_all(&bytes).is_ok() {
            left -= piece as u64;
        }
    }
    // What the file system has promised is allocated now. If a part has no room, the disk is full all the same.
    let _full = filler.sync_all();
    Ok(())
}

/// Checks each kind of file system.
pub(crate) fn run(folder: &Path) -> Outcome {
    KINDS.into_iter().try_for_each(|(kind, make)| {
        on(&folder.join(kind), kind, make).map_err(|error| format!("{kind}: {error}"))
    })
}

fn on(folder: &Path, kind: &'static str, make: &[&str]) -> Outcome {
    let image = Image::make_of_size(folder, kind, make, IMAGE_BYTES)?;
    let mount = image.mount()?;
    let log = folder.join("server.log");
    let data = mount.at.join("data");
    let (ballast, rest) = (mount.at.join("ballast"), mount.at.join("rest"));
    let reserve = data.join("bellows.reserve");
    // The chore flushes and frees, so its period is short. Small memstores and log files make many flushes and rolls.
    let options = [
        "hbase.server.thread.wakefrequency=1000",
        "hbase.hregion.memstore.flush.size=8m",
        "bellows.wal.roll.size=16m",
    ];
    let more: Vec<&str> = options.iter().flat_map(|option| ["-D", option]).collect();
    let start = || Server::start_with_log(&data, &log, &more);
    let server = start()?;
    fill(&ballast, free(&mount.at)?.saturating_sub(FREE_BYTES))?;
    let fill_up = |server: &Server, table: &str| {
        let rows = client(server, &["fill", table])?;
        // A flush that fails returns the room of its file, in which a put may fit. A reserve that is spent already is left to
        // the server: nothing can be freed on a disk on which another program takes the reserve.
        for _ in 0..REFUSALS_MAX {
            if std::fs::metadata(&reserve).is_ok_and(|kept| kept.len() > 0) {
                fill(&rest, u64::MAX)?;
            }
            if client(server, &["refused", table]).is_ok() {
                return Ok::<String, String>(rows.trim().to_owned());
            }
        }
        Err("the server accepts puts on the full disk".to_owned())
    };

    let rows = fill_up(&server, "dropped")?;
    client(&server, &["verify", "dropped", &rows])?;
    client(&server, &["disable", "dropped"])?;
    client(&server, &["drop", "dropped"])?;
    client(&server, &["write", "next"])?;
    say!("{kind}: a table with {rows} rows was dropped on the full disk, and the next put was accepted");

    let rows = fill_up(&server, "truncated")?;
    client(&server, &["disable", "truncated"])?;
    client(&server, &["truncate", "truncated"])?;
    client(&server, &["write", "truncated"])?;
    client(&server, &["disable", "truncated"])?;
    client(&server, &["drop", "truncated"])?;
    say!("{kind}: a table with {rows} rows was truncated on the full disk");

    // The server starts twice on the full disk: the second time the reserve is spent.
    let rows = fill_up(&server, "outlived")?;
    server.kill()?;
    let server = start()?;
    client(&server, &["verify", "outlived", &rows])?;
    server.kill()?;
    let server = start()?;
    client(&server, &["verify", "outlived", &rows])?;
    client(&server, &["disable", "outlived"])?;
    client(&server, &["drop", "outlived"])?;
    client(&server, &["write", "next"])?;
    say!("{kind}: a table with {rows} rows was dropped after two starts on the full disk");

    let rows = fill_up(&server, "kept")?;
    client(&server, &["disable", "kept"])?;
    let _gone = std::fs::remove_file(&rest);
    std::fs::remove_file(&ballast).map_err(|error| error.to_string())?;
    client(&server, &["write", "next"])?;
    client(&server, &["enable", "kept"])?;
    client(&server, &["verify", "kept", &rows])?;
    client(&server, &["disable", "kept"])?;
    client(&server, &["drop", "kept"])?;
    fill(&ballast, free(&mount.at)?.saturating_sub(FREE_BYTES))?;
    let rows = fill_up(&server, "kept")?;
    client(&server, &["disable", "kept"])?;
    server.kill()?;
    let server = start()?;
    let _gone = std::fs::remove_file(&rest);
    std::fs::remove_file(&ballast).map_err(|error| error.to_string())?;
    client(&server, &["write", "next"])?;
    client(&server, &["enable", "kept"])?;
    client(&server, &["verify", "kept", &rows])?;
    say!("{kind}: a table that was disabled on the full disk had all rows, also after kill -9");
    server.stop()?;
    let checked = Command::new(crate::server::binary()).arg("fsck").arg(&data).output();
    let checked = checked.map_err(|error| format!("bellows fsck: {error}"))?;
    if !checked.status.success() {
        return Err(format!("bellows fsck: {}", String::from_utf8_lossy(&checked.stdout)));
    }
    mount.unmount()?;
    no_panic(&log)
}

/// Returns the number of bytes that are free on the disk of `at`.
fn free(at: &Path) -> Result<u64, String> {
    let output = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(at).output();
    let output = output.map_err(|error| format!("df: {error}"))?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let free = words.lines().last().and_then(|line| line.trim().parse().ok());
    free.ok_or_else(|| format!("df says {words}"))
}

/// Runs the client with these words; returns its output.
fn client(server: &Server, words: &[&str]) -> Result<String, String> {
    let program = programs::target().join("debug/examples/full_disk");
    let output = Command::new(&program).arg(&server.rpc).args(words).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("full_disk {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
