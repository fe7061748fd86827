//! `bellows debug bundle`: one file with what is needed to find out what is wrong with a server.
//!
//! The bundle has the server's pages, which are read from its web port, and the findings of `bellows doctor`. Pages
//! leave secrets out; the bundle checks again and hides the value of each key whose name is that of a secret. If the
//! server does not send a page, `missing.txt` names the page, and the collection continues: a bundle is most needed
//! when a server hangs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use env::{Runtime, World};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::args::{Bundle, Doctor};
use crate::doctor;
use crate::failure::Failure;
use crate::output;
use crate::page;
use crate::settings::Settings;

/// The pages that are collected, and the names of their files.
const PAGES: &[(&str, &str)] = &[
    ("/conf?format=json", "configuration.json"),
    ("/settings.json", "settings.json"),
    ("/overview.json", "overview.json"),
    ("/tables.json", "tables.json"),
    ("/work.json", "work.json"),
    ("/slow.json", "slow-calls.json"),
    ("/clients.json", "clients.json"),
    ("/memory.json", "memory.json"),
    ("/cache.json", "cache.json"),
    ("/log.json?limit=2000", "log.json"),
    ("/metrics", "metrics.txt"),
    ("/jmx", "jmx.json"),
    ("/stacks", "threads.txt"),
    ("/dump", "dump.txt"),
    ("/healthz", "health.txt"),
    ("/api/check", "check.json"),
    ("/api/history?range=10m", "history-10m.json"),
    ("/api/history?range=6h", "history-6h.json"),
    ("/api/history?range=7d", "history-7d.json"),
];
/// Maximum number of tables whose regions are collected.
const TABLES_MAX: usize = 1_000;
const HIDDEN: &str = "(hidden)";

const README: &str = "What this is: the state of a Bellows server, collected by `bellows debug bundle`.

overview.json        what the server itself finds wrong, and its latest events
check.json           the last check of hbase:meta against the open regions and their folders
doctor.txt           what bellows doctor finds on the machine
configuration.json   every key; secrets are left out
regions/             regions of each table with their load; first and last keys are row keys
slow-calls.json      the latest slow and large calls; they name row keys
history-*.json       every series at three resolutions: seconds since 1970, and a value for each
log.json             the latest lines of the log
missing.txt          what could not be had, and why

Values of cells are not in it. Row keys, host names, user names and addresses are: look before you pass it on.
";

/// Collects the pages, writes the file, and prints its name.
pub(crate) fn write(options: &Bundle, say: impl Fn(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    let world = World::real();
    let web = match options.web {
        Some(web) => web,
        None => Settings::gather(&options.start)?.web,
    };
    let seconds = u64::try_from(world.now().0).unwrap_or(0) / 1_000;
    let output =
        options.output.clone().unwrap_or_else(|| PathBuf::from(format!("bellows-debug-{seconds}.tar.gz")));
    let files = collect(options, web)?;
    let packed = pack(&files, seconds).map_err(Failure::new)?;
    storage::write_outside(&output, &packed).map_err(|error| {
        Failure::new(format!("{}: {error}; choose another file with --output", output.display()))
    })?;
    let missing =
        files.iter().find(|file| file.name == "missing.txt").map_or(0, |file| file.content.lines().count());
    let note = if missing == 0 {
        String::new()
    } else {
        format!("; {missing} parts are missing, see missing.txt in it")
    };
    output::ignoring_closed_pipe(say(&format!(
        "{}: {} files, {} bytes{note}",
        output.display(),
        files.len(),
        packed.len()
    )))
}

/// Returns the files as a compressed tar file; `time` is in seconds since 1970.
fn pack(files: &[File], time: u64) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for File { name, content } in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(time);
        tar.append_data(&mut header, format!("bellows-debug/{name}"), content.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

/// A file of the bundle.
struct File {
    name: String,
    content: String,
}

fn collect(options: &Bundle, web: SocketAddr) -> Result<Vec<File>, Failure> {
    let mut files = vec![File { name: "README.txt".to_owned(), content: README.to_owned() }];
    let mut missing = String::new();
    let report = doctor::examine(&Doctor { start: options.start.clone(), json: false })?;
    files.push(File { name: "doctor.txt".to_owned(), content: report.to_string() });
    files.push(File {
        name: "version.txt".to_owned(),
        content: format!("bellows {}\n", env!("CARGO_PKG_VERSION")),
    });
    let runtime = Runtime::start("bundle", 1)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    runtime.handle().block_on(async {
        let mut tables = Vec::new();
        for (path, name) in PAGES {
            match page::get(web, path).await {
                Ok(body) => {
                    if *path == "/tables.json" {
                        tables = names(&body);
                    }
                    files.push(File { name: (*name).to_owned(), content: redacted(name, body) });
                }
                // Writing to a `String` cannot fail.
                Err(error) => {
                    let _infallible = writeln!(missing, "{name}: http://{web}{path}: {error}");
                }
            }
        }
        for (number, table) in tables.iter().take(TABLES_MAX).enumerate() {
            // A table's name consists of letters, digits and `:_-.`, so it can be a part of a path.
            match page::get(web, &format!("/table/{table}.json")).await {
                Ok(content) => files.push(File { name: format!("regions/{number:03}.json"), content }),
                Err(error) => {
                    let _infallible = writeln!(missing, "regions of {table}: {error}");
                }
            }
        }
    });
    if !missing.is_empty() {
        files.push(File { name: "missing.txt".to_owned(), content: missing });
    }
    Ok(files)
}

/// Returns the names of the tables in `/tables.json`.
fn names(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let tables = body["tables"].as_array().into_iter().flatten();
    tables.filter_map(|table| table["name"].as_str().map(str::to_owned)).collect()
}

/// Returns JSON with the values of secrets hidden, and other text as it is. Text that should be JSON and is not is left
/// out.
fn redacted(name: &str, body: String) -> String {
    if !name.ends_with(".json") {
        return body;
    }
    match serde_json::from_str::<Value>(&body) {
        Ok(mut value) => {
            hide(&mut value);
            value.to_string()
        }
        Err(error) => format!("{{\"error\":\"not JSON: {error}\"}}"),
    }
}

/// Hides each `value` beside a `key` or `name` that is the name of a secret, at any depth.
fn hide(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(pairs) => {
            let named = ["key", "name"].iter().find_map(|name| pairs.get(*name)?.as_str());
            if named.is_some_and(web::is_secret)
                && let Some(secret) = pairs.get_mut("value")
            {
                *secret = Value::from(HIDDEN);
            }
            pairs.values_mut().for_each(hide);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_gets_into_a_bundle() {
        let body = r#"{"properties":[{"key":"fs.s3a.secret.key","value":"S"},{"key":"hbase.rootdir","value":"/x"},
            {"name":"hbase.zookeeper.password","value":{"a":"S"}}]}"#;
        let redacted = redacted("configuration.json", body.to_owned());
        assert!(!redacted.contains('S') && redacted.contains("/x"), "{redacted}");
        assert_eq!(redacted.matches(HIDDEN).count(), 2);
    }

    #[test]
    fn answers_that_are_not_json_are_left_out() {
        assert!(redacted("log.json", "secret=S".to_owned()).starts_with("{\"error\""));
        assert_eq!(redacted("threads.txt", "text".to_owned()), "text");
    }

    #[test]
    fn tables_are_found_by_name() {
        assert_eq!(names(r#"{"tables":[{"name":"a"},{"name":"ns:b"}]}"#), ["a", "ns:b"]);
        assert!(names("broken").is_empty());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a real file is the point")]
    fn a_server_that_does_not_answer_has_a_bundle_that_says_so() {
        let path = std::env::temp_dir().join(format!("bellows-bundle-{:x}.tar.gz", World::real().random()));
        let any = Some(0);
        let start = crate::args::Start {
            rpc_port: any,
            master_port: any,
            zk_port: any,
            web_port: any,
            ..Default::default()
        };
        let web = Some("127.0.0.1:1".parse().expect("an address"));
        let options = Bundle { start, web, output: Some(path.clone()) };
        let said = std::cell::RefCell::new(String::new());
        let say = |line: &str| {
            said.borrow_mut().push_str(line);
            Ok(())
        };
        write(&options, say).expect("written");
        assert!(said.borrow().contains(&format!("{} parts are missing", PAGES.len())), "{}", said.borrow());
        let again = write(&options, say).expect_err("it is there").to_string();
        assert!(again.contains("--output"), "{again}");
        let packed = std::fs::read(&path).expect("there");
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).expect("whole");
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains("bellows-debug/missing.txt")
                && text.contains("overview.json: http://127.0.0.1:1/overview.json: ")
        );
        std::fs::remove_file(&path).expect("the test's own");
    }
}
