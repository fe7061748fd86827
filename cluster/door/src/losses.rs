//! Finds the features and data of a root that an adoption cannot carry over.

use std::fmt;

use proto::TableDescriptor;
use proto::descriptor::sanity;
use proto::descriptor::tracker::TRACKER;
use storage::{FileName, Files, Kind};

use crate::Result;
use crate::found::{FoundTable, Keeper, LogEnds, Shutdown, choice, is_file_table};
use crate::replay::LogFile;

/// The findings about an adoption, in sentences that name the thing and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the root cannot be adopted, or handed back, as it is.
    pub blockers: Vec<String>,
    /// Features that HBase uses with this root and that Bellows will not provide after the adoption.
    pub left_behind: Vec<String>,
    /// Other findings that the operator should know.
    pub notes: Vec<String>,
    /// Number of regions.
    pub regions: usize,
    /// Number of store files.
    pub files: usize,
    /// Size of the store files in bytes.
    pub bytes: u64,
    /// Number of writes in logs that were not replayed.
    pub writes: usize,
}

impl Report {
    pub(crate) fn blocks(&mut self, why: impl Into<String>) {
        self.blockers.push(why.into());
    }

    pub(crate) fn leaves(&mut self, what: impl Into<String>) {
        self.left_behind.push(what.into());
    }

    pub(crate) fn notes(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { regions, files, bytes, .. } = self;
        write!(f, "{regions} regions, {files} store files, {} MB", bytes >> 20)?;
        if self.writes > 0 {
            write!(f, ", {} writes in logs", self.writes)?;
        }
        writeln!(f)?;
        for (title, lines) in [
            ("cannot be adopted as it is", &self.blockers),
            ("is left behind", &self.left_behind),
            ("note", &self.notes),
        ] {
            for line in lines {
                writeln!(f, "{title}: {line}")?;
            }
        }
        Ok(())
    }
}

/// System tables of HBase's features that Bellows does not have, each with the name of the feature.
const FEATURES: [(&str, &str); 8] = [
    (
        "hbase:acl",
        "permissions are not checked: whoever reaches the server's port may read and write everything",
    ),
    (
        "hbase:labels",
        "visibility labels are not checked: whoever reaches the server's port may read every cell",
    ),
    ("hbase:quota", "quotas and throttles do not act"),
    ("hbase:rsgroup", "groups of region servers do not act"),
    ("hbase:replication", "queues of replication are not shipped"),
    ("hbase:slowlog", "slow calls are no longer written to this table"),
    ("hbase:canary", "the canary's table is an ordinary one"),
    ("backup:system", "incremental backups do not go on"),
];

/// Whether a coprocessor class is built in.
fn is_built_in(class: &str) -> bool {
    sanity::Limits::default().coprocessors.iter().any(|known| known == class)
}

/// Reports the features that a table's descriptor requests and Bellows does not have.
pub(crate) fn of_table(table: &TableDescriptor, report: &mut Report) {
    let name = table.name();
    for family in table.families() {
        let shown = family.name().escape_ascii();
        if Keeper::HBase.found_by(table, family).is_none() {
            report.blocks(format!(
                "family {shown} of table {name} names the store file tracker {}, which HBase 2.6 does not have: set {TRACKER} to \
                 DEFAULT or FILE",
                choice(table, family).tracker
            ));
        }
        if family.attributes().text("REPLICATION_SCOPE").is_some_and(|scope| scope != "0") {
            report.leaves(format!(
                "family {shown} of table {name} is replicated: its peers receive nothing any more"
            ));
        }
    }
    let mut plain = table.clone();
    if is_file_table(name) {
        // It names a policy that Bellows does not have. Nothing is written to the table any more, so it does not grow.
        plain.attributes_mut().remove(b"SPLIT_POLICY");
    }
    for (key, value) in table.attributes().iter() {
        let Ok(key) = std::str::from_utf8(key) else { continue };
        if !key.to_ascii_lowercase().starts_with("coprocessor$") {
            continue;
        }
        let value = String::from_utf8_lossy(value);
        let class = value.split('|').nth(1).unwrap_or(&value).trim().to_owned();
        plain.attributes_mut().remove(key.as_bytes());
        if !is_built_in(&class) {
            report.leaves(format!("table {name} runs the coprocessor {class}: it runs no longer"));
        }
    }
    if let Ok(options) = table.options()
        && options.region_replication > 1
    {
        report.leaves(format!(
            "table {name} has {} replicas of each region: only the first is served",
            options.region_replication
        ));
    }
    let mut lax = plain.clone();
    lax.attributes_mut().set("hbase.table.sanity.checks".into(), "false".into());
    let limits = sanity::Limits::default();
    if let Err(error) = sanity::check(&lax, &limits) {
        report.blocks(format!("table {name}: {error}"));
    } else if let Err(error) = sanity::check(&plain, &limits) {
        report.leaves(format!("table {name} is served, and some of its attributes do not act: {error}"));
    }
}

/// Reports the features of the whole root that are not carried over.
pub(crate) fn of_root(files: &dyn Files, tables: &[FoundTable], report: &mut Report) -> Result<()> {
    for (name, words) in FEATURES {
        if tables.iter().any(|table| table.descriptor.name().as_str() == name) {
            report.leaves(format!("{name}: {words}"));
        }
    }
    if tables[0].descriptor.family(b"ns").is_some() {
        report.blocks(
            "hbase:meta has the family ns, as in HBase 3, where namespaces are kept in another way: this is for releases 2.x",
        );
    }
    match files.list(&FileName::new("peers")) {
        Ok(peers) if !peers.is_empty() => {
            report.leaves("replication peers in the folder peers receive nothing any more")
        }
        Err(error) if error.kind() != Kind::NotFound => return Err(error.into()),
        _ => {}
    }
    if !files.list(&FileName::new("corrupt"))?.is_empty() {
        report.notes("the folder corrupt has logs that HBase could not read; their writes are not carried, as in HBase");
    }
    report.notes(
        "settings in hbase-site.xml and in ZooKeeper are not read: replication peers, coprocessors of the whole \
         cluster, switches",
    );
    Ok(())
}

/// Reports logs of the master that it did not close, if their ends cannot be read: procedures may be recorded there.
pub(crate) fn of_masters_logs(logs: &[LogFile], ends: LogEnds, ended: Shutdown, report: &mut Report) {
    for log in logs.iter().filter(|log| ends == LogEnds::Hidden && !log.is_closed) {
        match ended {
            Shutdown::Clean => report.blocks(format!(
                "{} was not closed: HBase's master runs, or was killed; make sure that no process of HBase runs, and repeat with \
                 --killed",
                log.name
            )),
            Shutdown::MaybeKilled => report.notes(format!(
                "{} was not closed, so its end cannot be read yet; the adoption closes it, and checks the master's procedures again",
                log.name
            )),
        }
    }
}

/// Reports logs that were not replayed: a server was killed, or still runs.
pub(crate) fn of_logs(logs: &[LogFile], ends: LogEnds, ended: Shutdown, report: &mut Report) {
    for log in logs {
        if ended == Shutdown::Clean {
            report.blocks(format!(
                "{} has writes that HBase has not replayed: HBase runs, or was killed; make sure that no process of it runs, and \
                 repeat with --killed",
                log.name
            ));
            continue;
        }
        report.writes += log.entries;
        if ends == LogEnds::Hidden && !log.is_closed {
            let what = match log.name.last().ends_with(".meta") {
                true => "tables and regions of which it has the only record are missing in this report",
                false => "its last writes are not counted",
            };
            report.notes(format!(
                "{} was not closed, so its end cannot be read yet, and {what}; the adoption closes it, and reads it whole",
                log.name
            ));
        } else if log.torn > 0 {
            report.notes(format!(
                "the last {} bytes of {} are no whole entry: a write that HBase had not acknowledged if its process was killed; after \
                 a loss of power it may have been acknowledged, unless hbase.wal.hsync was true",
                log.torn, log.name
            ));
        }
    }
}
