//! Runs the tests of object stores, and a server whose files are in one, against Azurite, Microsoft's emulator of Azure
//! Blob storage: a program for Node.js, installed once with npm.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::java::succeed;
use crate::listening::Listening;
use crate::random::seed_from_the_clock;
use crate::server::binary;
use crate::{NOT_RUN, Outcome, crash, s3};

/// The npm package of the emulator, with its version.
const AZURITE: &str = "azurite@3.35.0";
/// The folder of the program and its blobs.
const FOLDER: &str = "target/azure";
/// The emulator's account and its key, which are the same everywhere.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Number of rounds of load and `kill -9` on a server whose files are in the store.
const ROUNDS: u32 = 3;
/// Number of servers that hang and are replaced.
const TAKEOVERS: u32 = 3;

/// A program for Node.js that creates the container `bellows`, by a request that it signs with the account's key.
const CREATE_CONTAINER: &str = r#"
const [endpoint, account, key] = process.argv.slice(1);
const date = new Date().toUTCString(), version = "2021-08-06";
const headers = `x-ms-date:${date}\nx-ms-version:${version}\n`;
const signed = `PUT${"\n".repeat(12)}${headers}/${account}/${account}/bellows\nrestype:container`;
const hmac = require("crypto").createHmac("sha256", Buffer.from(key, "base64"));
const authorization = `SharedKey ${account}:${hmac.update(signed, "utf8").digest("base64")}`;
fetch(`${endpoint}/${account}/bellows?restype=container`, {
  method: "PUT",
  headers: { "x-ms-date": date, "x-ms-version": version, authorization },
}).then(async (reply) => {
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
});
"#;

/// A running Azurite, which ends when the value is dropped.
struct Azurite {
    _server: Listening,
    /// The URL of the blob service without the account.
    endpoint: String,
}

impl Azurite {
    /// Starts the emulator on a port of its own, with an empty container `bellows`. Deletes the blobs of earlier runs.
    fn start() -> Result<Azurite, String> {
        let folder = std::path::absolute(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
        let program = install(&folder)?;
        let blobs = folder.join("blobs");
        if blobs.exists() {
            std::fs::remove_dir_all(&blobs).map_err(|error| format!("{}: {error}", blobs.display()))?;
        }
        let server = Listening::start("Azurite", |address| {
            let mut command = Command::new("node");
            command
                .arg(&program)
                .args(["--blobHost", "127.0.0.1", "--blobPort", &address.port().to_string(), "--location"])
                .arg(&blobs)
                .args(["--silent", "--disableTelemetry", "--skipApiVersionCheck"])
                // While it parses the deletion of many files it reads nothing else, and then it would close connections
                // that it takes for idle.
                .args(["--blobKeepAliveTimeout", "60"]);
            command
        })?;
        let azurite = Azurite { endpoint: format!("http://{}", server.address), _server: server };
        let mut create = Command::new("node");
        create.args(["-e", CREATE_CONTAINER, &azurite.endpoint, ACCOUNT, KEY]);
        succeed("the creation of the container", create)?;
        Ok(azurite)
    }

    /// Returns the options of a server whose files are in the emulator.
    fn options(&self) -> Vec<String> {
        let set = |key: &str, value: &str| ["-D".to_owned(), format!("{key}={value}")];
        let endpoint = format!("{}/{ACCOUNT}", self.endpoint);
        let key = format!("fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net");
        [set("bellows.azure.endpoint", &endpoint), set(&key, KEY)].concat()
    }
}

/// Installs the program unless it exists. Returns the file that Node.js runs.
fn install(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("node_modules/azurite/dist/src/blob/main.js");
    if program.exists() {
        return Ok(program);
    }
    for needed in ["node", "npm"] {
        if Command::new(needed).arg("--version").stdout(Stdio::null()).status().is_err() {
            return Err(format!("{NOT_RUN}{needed} is not installed, and Azurite is a program for Node.js"));
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(AZURITE);
    succeed("npm install", install)?;
    Ok(program)
}

/// Runs the tests of `base/objectstore`, bulk loads and adoptions in the store, then a server whose files are in the store.
pub(crate) fn suite() -> Outcome {
    let azurite = Azurite::start()?;
    let mut tests = Command::new("cargo");
    tests
        // Built with the features of the whole workspace, so that cargo need not build the libraries again.
        .args(["test", "--quiet", "--workspace", "--test", "store"])
        // Azurite has one thread, and a deletion of many files takes it for seconds.
        .args(["--", "--test-threads", "1"])
        .env("BELLOWS_AZURE_ENDPOINT", &azurite.endpoint);
    succeed("the tests of the object store and of bulk loads", tests)?;
    let options = azurite.options();
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    crash::run_at(ROUNDS, data("crash"), &words)?;
    s3::takeovers(TAKEOVERS, seed_from_the_clock(), &binary(), &data("takeover"), &options)
}

/// Returns a place of data that no other run uses.
fn data(name: &str) -> PathBuf {
    PathBuf::from(format!("abfs://bellows@{ACCOUNT}.dfs.core.windows.net/{name}-{}", std::process::id()))
}
