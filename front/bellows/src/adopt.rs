//! `bellows adopt`: takes over the root folder of an Apache HBase.

use std::fmt::Write as _;
use std::path::Path;

use door::{LogEnds, Shutdown};
use env::World;
use storage::Files;

use crate::args::Adopt;
use crate::data_dir;
use crate::failure::Failure;
use crate::log_place::AdoptedLog;
use crate::output;
use crate::root::{HBasePlace, LOG_FOLDER, Root};
use crate::settings::Settings;

/// Inspects the root, reports what was found, and adopts the root unless something prevents it.
pub(crate) fn run(options: &Adopt, mut say: impl FnMut(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    let settings = Settings::of_root(&options.root, options.site.as_deref(), &options.define)?;
    let log_folder = settings.wal_dir.as_ref().and_then(Root::folder);
    if let Some(log_folder) = log_folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::new(format!(
            "hbase.wal.dir is {}: there is no such folder; mount its disk, or name the folder in which HBase had its logs",
            log_folder.display()
        )));
    }
    // Folders of this machine are locked, which creates a file in each.
    let has_no_lock = |folder: &&Path| storage::open_outside(&folder.join(data_dir::LOCK)).is_err();
    let unlocked: Vec<&Path> =
        [settings.root.folder(), log_folder].into_iter().flatten().filter(has_no_lock).collect();
    let place = settings.root.open_of_hbase(&settings.conf, options.dry_run)?;
    let done = look_and_adopt(options, &settings, &place, &mut say);
    if options.dry_run || done.is_err() {
        unlocked.into_iter().for_each(data_dir::forget_lock);
    }
    done
}

fn look_and_adopt(
    options: &Adopt,
    settings: &Settings,
    place: &HBasePlace,
    say: &mut impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let (world, root, conf, files) = (World::real(), &settings.root, &settings.conf, &place.files);
    let of_door = |error: door::Error| Failure::of_words(root, error);
    let name = root.to_string();
    let adopted = AdoptedLog::open(&world, conf, place, &name, settings.wal_dir.as_ref())?;
    let log = &adopted.files;
    let has_logs = has_logs(settings, &**log)?;
    if options.killed && !has_logs {
        return Err(without_logs(settings));
    }
    let ended = if options.killed { Shutdown::MaybeKilled } else { Shutdown::Clean };
    let closes_logs = options.killed && !options.dry_run && adopted.ends == LogEnds::Hidden;
    if closes_logs {
        door::close_logs(&**log).map_err(of_door)?;
    }
    let ends = if closes_logs { LogEnds::Shown } else { adopted.ends };
    let mut inventory = door::look(files, log, ends, &world, ended).map_err(of_door)?;
    if !has_logs {
        // HBase leaves the folder in a root folder on a disk, also without a log.
        let what = if root.folder().is_some() { "folder WALs" } else { "logs of HBase" };
        inventory.report.notes.push(format!(
            "{} has no {what}, so HBase had its logs elsewhere (hbase.wal.dir): after a kill they have writes that are not in this \
             root; name their place with -D hbase.wal.dir=…, or HBase's hbase-site.xml with --site, and add --killed",
            settings.wal_dir.as_ref().unwrap_or(root)
        ));
    }
    let report = &inventory.report;
    let mut text = format!("{root}: {} tables, {report}", inventory.tables.len());
    let blockers = report.blockers.len();
    let has_losses = !report.left_behind.is_empty() && !options.leave_behind;
    if blockers > 0 || options.dry_run || has_losses {
        text.push_str(match closes_logs {
            true => "nothing was changed, except that logs which HBase had left open were closed\n",
            false => "nothing was changed\n",
        });
        output::ignoring_closed_pipe(say(&text))?;
        if blockers > 0 {
            let them =
                if blockers == 1 { "one thing is".to_owned() } else { format!("{blockers} things are") };
            return Err(Failure::new(format!("{root} cannot be adopted: {them} in the way, see above")));
        }
        if has_losses && !options.dry_run {
            return Err(Failure::new(format!(
                "{root} is not adopted: something would be left behind, see above; repeat with --leave-behind to do without it"
            )));
        }
        return Ok(());
    }
    place.take(conf)?;
    adopted.take(conf)?;
    // Another process may have adopted the root before this one became its owner.
    place.check_is_not_adopted()?;
    door::adopt(&inventory, files, &adopted.own, &world).map_err(of_door)?;
    adopted.record(&world, &**files, &name)?;
    data_dir::take(&**files, root)?;
    door::archive_logs(&**files, &**log).map_err(of_door)?;
    let _in_memory = writeln!(text, "adopted; serve it with: {}", start_command(options, settings));
    output::ignoring_closed_pipe(say(&text))
}

/// Whether HBase had its logs in the place that the settings name.
fn has_logs(settings: &Settings, log: &dyn Files) -> Result<bool, Failure> {
    match settings.wal_dir.as_ref().unwrap_or(&settings.root) {
        // HBase creates this folder at its first start, if its logs are in the root folder.
        Root::Folder(folder) if settings.wal_dir.is_none() => Ok(folder.join(LOG_FOLDER).is_dir()),
        Root::Folder(_) => Ok(true),
        place => door::has_logs(log).map_err(|error| Failure::of_words(place, error)),
    }
}

/// Returns the refusal of an HBase that was killed and whose logs are not where the settings name them.
fn without_logs(settings: &Settings) -> Failure {
    let root = &settings.root;
    let name_it = "name that place with -D hbase.wal.dir=…, or name HBase's hbase-site.xml with --site";
    Failure::new(match &settings.wal_dir {
        None => format!(
            "{root} has no folder {LOG_FOLDER}, so its HBase had its logs elsewhere, with writes that are not in store files: {name_it}"
        ),
        Some(place) => format!("hbase.wal.dir is {place}, which has no logs of HBase: {name_it}"),
    })
}

/// Returns the command that serves the adopted root with the log where the adoption has found it. Keys of stores are
/// secrets, so their values are left out.
fn start_command(options: &Adopt, settings: &Settings) -> String {
    let mut command = format!("bellows start --data-dir {}", settings.root);
    if let Some(wal_dir) = &settings.wal_dir {
        let _in_memory = write!(command, " -D hbase.wal.dir={wal_dir}");
    }
    let places = [Some(&settings.root), settings.wal_dir.as_ref()];
    if places.into_iter().flatten().all(|place| place.folder().is_some()) {
        return command;
    }
    // The store is named by other keys.
    if let Some(site) = &options.site {
        let _in_memory = write!(command, " --site {}", site.display());
    }
    for (key, value) in options.define.iter().filter(|(key, _)| key != "hbase.wal.dir") {
        let is_secret = web::is_secret(key) || key.ends_with("key");
        let _in_memory = write!(command, " -D {key}={}", if is_secret { "…" } else { value });
    }
    command
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real folders are the point")]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::log_place;

    /// Number of regions whose writes are only in the logs of the archive.
    const REGIONS: usize = 6;

    /// The root folder of a killed HBase whose `hbase.wal.dir` is another folder. Both are removed at the end.
    struct KilledHBase {
        folder: PathBuf,
    }

    impl Drop for KilledHBase {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.folder).expect("the test's own");
        }
    }

    impl KilledHBase {
        fn unpack() -> KilledHBase {
            let folder = std::env::temp_dir().join(format!("bellows-adopt-{:x}", World::real().random()));
            let archive =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/golden/roots/killed.tar.gz");
            let archive = std::fs::read(archive).expect("the archive is there");
            let root = folder.join("root");
            tar::Archive::new(flate2::read::GzDecoder::new(&archive[..])).unpack(&root).expect("an archive");
            std::fs::create_dir_all(folder.join("log")).expect("new");
            std::fs::rename(root.join("WALs"), folder.join("log/WALs")).expect("moved");
            KilledHBase { folder }
        }

        fn root(&self) -> PathBuf {
            self.folder.join("root")
        }

        /// The definition of `hbase.wal.dir` as a folder beside the root.
        fn define(&self, log: Option<&str>) -> Vec<(String, String)> {
            let place = |log: &str| self.folder.join(log).display().to_string();
            log.map(|log| ("hbase.wal.dir".to_owned(), place(log))).into_iter().collect()
        }

        fn adopt(&self, log: Option<&str>) -> Result<String, Failure> {
            self.run(log, false)
        }

        /// Returns the names of all files, below the folder of the test.
        fn files(&self) -> Vec<String> {
            let (mut folders, mut found) = (vec![self.folder.clone()], Vec::new());
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).expect("there") {
                    let path = entry.expect("readable").path();
                    if path.is_dir() { folders.push(path) } else { found.push(path.display().to_string()) }
                }
            }
            found.sort();
            found
        }

        fn run(&self, log: Option<&str>, dry_run: bool) -> Result<String, Failure> {
            let options = Adopt {
                root: self.root(),
                dry_run,
                leave_behind: true,
                killed: true,
                site: None,
                define: self.define(log),
            };
            let mut said = String::new();
            run(&options, |text| {
                said.push_str(text);
                Ok(())
            })?;
            Ok(said)
        }

        /// Finds the log as a start does, and returns the number of regions with writes in it.
        fn start(&self, log: Option<&str>) -> Result<usize, String> {
            let found = || {
                let settings = Settings::of_root(&self.root(), None, &self.define(log))?;
                let files: Arc<dyn Files> = Arc::new(data_dir::open_existing(&self.root())?);
                let (root, wal_dir) = (settings.root.to_string(), settings.wal_dir.as_ref());
                let (log, _) = log_place::open(&World::real(), &settings.conf, &files, &root, wal_dir, None)?;
                Ok::<_, Failure>(log.files)
            };
            let log = found().map_err(|failure| failure.to_string())?;
            let reader = wal::LogReader::open(&log, &storage::FileName::new("WALs"));
            Ok(reader.expect("a log").regions().len())
        }
    }

    #[test]
    fn a_start_finds_the_adopted_writes_or_is_refused() {
        let hbase = KilledHBase::unpack();
        let said = hbase.adopt(Some("log")).expect("adopted");
        let (root, log) = (hbase.root(), hbase.folder.join("log"));
        let command =
            format!("bellows start --data-dir {} -D hbase.wal.dir={}\n", root.display(), log.display());
        assert!(said.contains("150 writes in logs") && said.ends_with(&command), "{said}");
        for other in [None, Some("other")] {
            let refused = hbase.start(other).expect_err("the log is elsewhere");
            let names_both = refused.contains(&format!("log of {} is in {}", root.display(), log.display()));
            let remedy = format!("start with -D hbase.wal.dir={}", log.display());
            assert!(names_both && refused.contains(&remedy), "{refused}");
        }
        assert_eq!(hbase.start(Some("log")), Ok(REGIONS));
        std::fs::remove_dir_all(log.join("WALs")).expect("lost before the first start");
        let refused = hbase.start(Some("log")).expect_err("writes of HBase are lost");
        assert!(refused.contains("is gone") && refused.contains("bellows.wal.state"), "{refused}");
    }

    #[test]
    fn a_killed_root_without_logs_is_refused() {
        let hbase = KilledHBase::unpack();
        let refused = hbase.adopt(None).expect_err("its logs are elsewhere").to_string();
        assert!(
            refused.contains("has no folder WALs") && refused.contains("-D hbase.wal.dir=…"),
            "{refused}"
        );
        assert_eq!(hbase.adopt(Some("log")).map(drop).map_err(|failure| failure.to_string()), Ok(()));
    }

    /// Whoever does not say that HBase was killed is told of logs that may be elsewhere.
    #[test]
    fn a_root_without_a_folder_of_logs_has_a_note() {
        let hbase = KilledHBase::unpack();
        let looked = |log| {
            let mut said = String::new();
            let options = Adopt {
                root: hbase.root(),
                dry_run: true,
                leave_behind: false,
                killed: false,
                site: None,
                define: hbase.define(log),
            };
            // The root was killed, so something is in the way.
            let _refused = run(&options, |text| {
                said.push_str(text);
                Ok(())
            });
            said
        };
        let note = "has no folder WALs, so HBase had its logs elsewhere (hbase.wal.dir)";
        let said = looked(None);
        assert!(said.contains(note) && said.contains("add --killed"), "{said}");
        let said = looked(Some("log"));
        assert!(!said.contains(note), "{said}");
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let hbase = KilledHBase::unpack();
        let before = hbase.files();
        let said = hbase.run(Some("log"), true).expect("nothing is in the way");
        assert!(said.ends_with("nothing was changed\n"), "{said}");
        assert_eq!(hbase.files(), before);
        let refused = hbase.run(Some("absent"), true).expect_err("no such folder").to_string();
        assert!(refused.contains("/absent: there is no such folder"), "{refused}");
        assert_eq!(hbase.files(), before);
        assert!(!hbase.folder.join("absent").exists());
    }

    #[test]
    fn the_log_of_an_interrupted_adoption_is_refused() {
        let hbase = KilledHBase::unpack();
        hbase.adopt(Some("log")).expect("adopted");
        std::fs::remove_file(hbase.root().join("bellows.version")).expect("as if it had not come so far");
        let copy = KilledHBase::unpack();
        std::fs::rename(copy.folder.join("log"), hbase.folder.join("last")).expect("moved");
        std::fs::create_dir_all(copy.folder.join("log")).expect("new");
        hbase.adopt(Some("last")).expect("repeated");
        let refused = hbase.start(Some("log")).expect_err("the log of the interrupted adoption");
        assert!(refused.contains("/last/WALs"), "{refused}");
        assert_eq!(hbase.start(Some("last")), Ok(REGIONS));
        assert_eq!(hbase.start(Some("last")), Ok(REGIONS), "it is accepted again");
    }

    #[test]
    fn an_adoption_repeated_with_another_folder_of_logs_leads_to_the_last() {
        let hbase = KilledHBase::unpack();
        let interrupted = |log: Option<&str>| {
            hbase.adopt(log).expect("adopted");
            std::fs::remove_file(hbase.root().join("bellows.version")).expect("as if it had not come so far");
            // The adoption has moved the logs of this place away, so the next one needs a copy elsewhere.
            KilledHBase::unpack()
        };
        let copy = interrupted(Some("log"));
        std::fs::rename(copy.folder.join("log/WALs"), hbase.root().join("WALs")).expect("moved");
        let copy = interrupted(None);
        std::fs::create_dir_all(hbase.folder.join("last")).expect("new");
        std::fs::rename(copy.folder.join("log/WALs"), hbase.folder.join("last/WALs")).expect("moved");
        hbase.adopt(Some("last")).expect("repeated");
        let refused =
            hbase.start(None).expect_err("the log under the root is that of an interrupted adoption");
        assert!(refused.contains("/last/WALs"), "{refused}");
        assert_eq!(hbase.start(Some("last")), Ok(REGIONS));
    }

    #[test]
    fn the_log_of_another_data_directory_is_not_deleted() {
        let (hbase, other) = (KilledHBase::unpack(), KilledHBase::unpack());
        other.adopt(Some("log")).expect("adopted");
        let name = "log/WALs/00000000000000000001.wal";
        let before = std::fs::read(other.folder.join(name)).expect("there");
        for folder in ["log", "root"] {
            let place = other.folder.join(folder);
            std::fs::rename(place, hbase.folder.join("foreign")).expect("moved");
            let refused = hbase.adopt(Some("foreign")).expect_err("of another").to_string();
            assert!(refused.contains("/foreign"), "{refused}");
            std::fs::rename(hbase.folder.join("foreign"), other.folder.join(folder)).expect("moved back");
        }
        assert_eq!(std::fs::read(other.folder.join(name)).expect("there"), before);
    }
}
