//! Tests of the log's place.

use std::path::PathBuf;

use storage::memory::Fault;
use storage::{Capabilities, Local, Memory, Outcome};

use super::*;

/// Starts a server of `data`, whose log is at `place` if one is named, and begins a log file.
fn begin(data: &Memory, place: Option<(&str, &Memory)>) -> Result<(), String> {
    let shared = |memory: &Memory| Arc::new(memory.clone()) as Arc<dyn Files>;
    let elsewhere = place.map(|(name, log)| (name.to_owned(), shared(log)));
    let log = open_at(&World::real(), &Conf::new(), &shared(data), "data", elsewhere, Caller::Server);
    let (log, _) = log.map_err(|failure| failure.to_string())?;
    if let Ok(writer) = log.create(&FileName::new(LOG_FOLDER).join("00000000000000000001.wal")) {
        writer.finish().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Records of the log's place that were written but reported as failed lead the next start to the log, whichever of
/// them a crash undoes.
#[test]
fn records_of_the_logs_place_that_were_written_despite_an_error_lead_to_the_log() {
    let overcome = storage::at_every_false_alarm(
        |_empty| {},
        |data| begin(data, Some(("log", &Memory::new()))).is_ok(),
        |data, succeeded| {
            let elsewhere = begin(data, None);
            assert!(!succeeded || elsewhere.is_err_and(|why| why.contains("move the folder WALs")));
        },
    );
    assert_eq!(overcome, 2, "both records in the data directory are read again");
    let data = env::sync::Mutex::new(Memory::new());
    let overcome = storage::at_every_false_alarm(
        |_empty| *data.lock() = Memory::new(),
        |log| begin(&data.lock(), Some(("log", log))).is_ok(),
        |log, succeeded| {
            let started = begin(&data.lock(), Some(("log", log)));
            assert!(!succeeded || started.is_ok(), "{started:?}");
        },
    );
    // Two failing calls do not fail the start. One is the creation of the log file, which the server postpones. The
    // other is the record in the log's folder, which is read again.
    assert_eq!(overcome, 2, "the record in the log's folder is read again");
}

/// A first start is killed at each of its writes, and repeated.
#[test]
fn a_first_start_that_was_killed_can_be_repeated() {
    let killed = |data: &Memory, log: &Memory, victim: &Memory, act: u64| {
        let fault = Fault { act, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: true };
        victim.set_fault(Some(fault));
        let is_killed = begin(data, Some(("log", log))).is_err();
        let (data, log) = (data.kill(), log.kill());
        begin(&data, Some(("log", &log))).expect("repeated");
        begin(&data, None).expect_err("the log is elsewhere");
        is_killed
    };
    for act in 1..=3 {
        let (data, log) = (Memory::new(), Memory::new());
        assert_eq!(killed(&data, &log, &data, act), act <= 2, "write {act} in the data directory");
        let (data, log) = (Memory::new(), Memory::new());
        assert_eq!(killed(&data, &log, &log, act), act != 2, "write {act} in the log's folder");
    }
}

/// The log was moved back under the data directory, and the record of that was written but reported as failed.
#[test]
fn a_log_that_was_moved_back_is_found_despite_an_error() {
    let moved_back = |data: &Memory| {
        let log = Memory::new();
        begin(data, Some(("log", &log))).expect("new");
        let (of, of_log) = (FileName::new(BELONGS), log.read(&FileName::new(BELONGS), NOTE_MAX));
        data.swap(&of, None, &of_log.expect("written")).expect("moved");
        let writer = data.create(&FileName::new(LOG_FOLDER).join("00000000000000000001.wal"));
        writer.and_then(|writer| writer.finish()).expect("moved");
    };
    let overcome = storage::at_every_false_alarm(
        moved_back,
        |data| begin(data, None).is_ok(),
        |data, _| begin(data, None).expect("the log is there"),
    );
    // Two failing calls do not fail the start. One is the creation of the log file, which exists already. The other is
    // the record in the data directory, which is read again.
    assert_eq!(overcome, 2, "the record is read again");
}

/// The folders `data`, `data2`, `log` and `log2` of one test, which are removed at its end.
struct Folders(PathBuf);

impl Drop for Folders {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own");
    }
}

impl Folders {
    fn new() -> Folders {
        Folders(std::env::temp_dir().join(format!("bellows-log-place-{:x}", World::real().random())))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Starts a server of `data`, which writes to its log, and stops it in order or kills it.
    fn run(&self, data: &str, wal_dir: Option<&str>, is_stopped: bool) -> Result<(), String> {
        let (root, wal_dir) = (self.at(data), wal_dir.map(|name| self.at(name)));
        let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
        let text = root.display().to_string();
        let place = wal_dir.clone().map(Root::Folder);
        let opened = open(&World::real(), &Conf::new(), &files, &text, place.as_ref(), None);
        let (place, mut opened_log) = opened.map_err(|it| it.to_string())?;
        let (folder, options) = (FileName::new(LOG_FOLDER), wal::Options::default());
        let (log, _) = wal::Log::open(World::real(), place.files, folder, options).expect("a log");
        opened_log.begin().map_err(|it| it.to_string())?;
        let opened = wal::Record {
            kind: wal::Kind::RegionOpen,
            region: b"region",
            table: b"table",
            sequence: cell::SequenceId(1),
            time: env::WallTime(0),
            nonce: None,
            cells: &[],
        };
        let ticket = log.append(&opened).expect("the log runs");
        log.sync_blocking(ticket, wal::Level::Disk).expect("durable");
        if is_stopped {
            log.close().expect("in order");
            opened_log.end();
        }
        let place = wal_dir.unwrap_or(root);
        assert!(place.join(LOG_FOLDER).join("OWNER").exists(), "the log is in {}", place.display());
        Ok(())
    }

    fn start(&self, data: &str, wal_dir: Option<&str>) -> Result<(), String> {
        self.run(data, wal_dir, true)
    }

    fn start_and_kill(&self, data: &str, wal_dir: Option<&str>) -> Result<(), String> {
        self.run(data, wal_dir, false)
    }

    fn move_to(&self, from: &str, to: &str, name: &str) {
        std::fs::rename(self.at(from).join(name), self.at(to).join(name)).expect("moved");
    }
}

#[test]
fn a_start_is_refused_if_a_log_that_may_be_needed_is_elsewhere_than_the_key_says() {
    let folders = Folders::new();
    folders.start_and_kill("data", None).expect("under the data directory");
    let refused = folders.start("data", Some("log")).expect_err("its log is elsewhere");
    assert!(
        refused.contains("may be needed") && refused.contains("start without hbase.wal.dir"),
        "{refused}"
    );
    assert!(!refused.contains(PARTS), "a log under the data directory has no record: {refused}");
    folders.move_to("data", "log", LOG_FOLDER);
    let refused = folders.start("data", Some("log")).expect_err("moved without a record");
    assert!(refused.contains("no file bellows.wal.of") && refused.contains("move it back"), "{refused}");
    folders.move_to("log", "data", LOG_FOLDER);
    folders.start("data", None).expect("moved back, and stopped in order");
    folders.start("data", Some("log")).expect("nothing in the log is needed");
    folders.start_and_kill("data", Some("log")).expect("as before");
    for other in [None, Some("log2")] {
        let refused = folders.start("data", other).expect_err("its log is elsewhere, whatever is left here");
        assert!(refused.contains("/log/WALs") && refused.contains(PARTS), "{refused}");
    }
    folders.move_to("log", "log2", LOG_FOLDER);
    let refused = folders.start("data", Some("log2")).expect_err("moved without its record");
    assert!(refused.contains("move bellows.wal.of from there, too"), "{refused}");
    folders.move_to("log", "log2", BELONGS);
    folders.start_and_kill("data", Some("log2")).expect("moved");
    let refused = folders.start("data", Some("log")).expect_err("nothing is left there");
    assert!(refused.contains("/log2/WALs"), "{refused}");
}

/// Both places keep what is left of their logs.
#[test]
fn after_an_orderly_stop_the_log_may_be_elsewhere() {
    let folders = Folders::new();
    for place in [None, Some("log"), None, Some("log2"), Some("log"), Some("log2"), None] {
        folders.start("data", place).unwrap_or_else(|why| panic!("{place:?}: {why}"));
    }
    folders.start_and_kill("data", Some("log")).expect("the log is not needed");
    for other in [None, Some("log2")] {
        let refused = folders.start("data", other).expect_err("killed");
        assert!(refused.contains("was not stopped in order"), "{refused}");
    }
    folders.start("data", Some("log")).expect("recovered");
    folders.start("data", Some("log2")).expect("stopped in order");
}

#[test]
fn the_place_of_another_server_is_refused_and_left_as_it_is() {
    let folders = Folders::new();
    drop(data_dir::open(&folders.at("other")).expect("new"));
    folders.start_and_kill("other", None).expect("its own");
    let owner = || std::fs::read(folders.at("other").join(LOG_FOLDER).join("OWNER")).expect("there");
    let before = owner();
    let refused = folders.start("data", Some("other")).expect_err("of another server");
    assert!(refused.contains("/other, which is a data directory"), "{refused}");
    std::fs::remove_file(folders.at("other").join("bellows.version")).expect("there");
    let refused = folders.start("data", Some("other")).expect_err("the log of another server");
    assert!(refused.contains("no file bellows.wal.of"), "{refused}");
    assert_eq!(owner(), before, "the other server still has its log");
}

#[test]
fn a_folder_of_the_same_name_on_another_machine_is_not_taken_for_the_log() {
    let folders = Folders::new();
    folders.start("data", Some("log")).expect("new");
    std::fs::rename(folders.at("log"), folders.at("elsewhere")).expect("as if its disk were not mounted");
    let refused = folders.start("data", Some("log")).expect_err("an empty folder");
    assert!(refused.contains("/log is not the folder") && refused.contains("mount the disk"), "{refused}");
    let refused = folders.start("data", Some("log")).expect_err("the first attempt has left no note");
    assert!(refused.contains("mount the disk"), "{refused}");
    std::fs::remove_dir_all(folders.at("log")).expect("the test's own");
    std::fs::rename(folders.at("elsewhere"), folders.at("log")).expect("mounted");
    folders.start("data", Some("log")).expect("it is there again");
    // If the log is lost, the operator removes the record in this way.
    for run in [Folders::start, Folders::start_and_kill] {
        run(&folders, "data", Some("log")).expect("it is there");
        std::fs::remove_dir_all(folders.at("log")).expect("lost");
        let refused = folders.start("data", Some("log")).expect_err("lost");
        assert!(refused.contains("delete bellows.wal and bellows.wal.state in "), "{refused}");
        for name in [NOTE, STATE] {
            std::fs::remove_file(folders.at("data").join(name)).expect("given up");
        }
        folders.start("data", Some("log")).expect("a new log");
    }
}

/// Only the log is lost, and not the folder in which it is.
#[test]
fn a_log_that_is_gone_after_a_kill_is_refused_until_the_operator_accepts_the_loss() {
    for place in [None, Some("log")] {
        let folders = Folders::new();
        let logs = folders.at(place.unwrap_or("data")).join(LOG_FOLDER);
        let lose_all = || std::fs::remove_dir_all(&logs).expect("lost");
        let lose_files = || {
            for entry in std::fs::read_dir(&logs).expect("there").flatten() {
                if entry.path().extension().is_some_and(|end| end == "wal") {
                    std::fs::remove_file(entry.path()).expect("lost");
                }
            }
        };
        for lose in [&lose_all as &dyn Fn(), &lose_files] {
            folders.start("data", place).expect("new");
            lose();
            folders.start_and_kill("data", place).expect("nothing in the log was needed");
            lose();
            let before = std::fs::read(folders.at("data").join(STATE)).expect("there");
            let others = [None, Some("log")].into_iter().filter(|other| *other != place);
            for start in [place].into_iter().chain(others) {
                let refused = folders.start("data", start).expect_err("lost");
                let names_places =
                    refused.contains(&format!("{}/WALs", folders.at(place.unwrap_or("data")).display()));
                assert!(names_places, "{start:?}: {refused}");
            }
            let refused = folders.start("data", place).expect_err("lost");
            assert!(
                refused.contains("is gone") && refused.contains("delete bellows.wal.state in "),
                "{refused}"
            );
            let files: Arc<dyn Files> = Arc::new(Local::open(folders.at("data")).expect("free"));
            let elsewhere = place.map(|name| Root::Folder(folders.at(name)));
            let checked = open_to_check(&World::real(), &Conf::new(), &files, "data", elsewhere.as_ref());
            assert!(checked.is_err_and(|why| why.to_string().contains("is gone")));
            drop(files);
            assert_eq!(std::fs::read(folders.at("data").join(STATE)).expect("there"), before);
            std::fs::remove_file(folders.at("data").join(STATE)).expect("the loss is accepted");
            folders.start("data", place).expect("an empty log");
        }
    }
}

#[test]
fn a_damaged_record_of_the_logs_state_is_refused() {
    let data = Memory::new();
    data.swap(&FileName::new(STATE), None, b"opfn\n").expect("written");
    let refused = begin(&data, None).expect_err("damaged");
    assert!(refused.contains("bellows.wal.state is damaged"), "{refused}");
}

/// HDFS whose folder another process has taken.
struct Taken(Memory);

impl storage::Overlay for Taken {
    fn below(&self) -> &dyn Files {
        &self.0
    }

    fn is_taken_over(&self) -> storage::Result<bool> {
        Ok(true)
    }
}

/// A start takes a root in HDFS, and may end before it records anything.
#[test]
fn a_server_whose_root_was_taken_notices_it() {
    let files: Arc<dyn Files> = Arc::new(Taken(Memory::new()));
    let state = LogState::read(&*files, "data").expect("readable");
    let opened = OpenedLog::new(&World::real(), &files, "data", state);
    let runtime = env::Runtime::start("test", 1).expect("a thread");
    let replaced = opened.replaced(Duration::from_millis(10));
    let said = runtime.handle().block_on(async { env::timeout(Duration::from_secs(20), replaced).await });
    assert!(said.expect("noticed").starts_with("another server has taken over data"));
}

/// A server that lost its log to another one, and only notices when it stops, leaves the other one's record.
#[test]
fn the_record_of_a_later_server_stays() {
    let files: Arc<dyn Files> = Arc::new(Memory::new());
    let start = || {
        let state = LogState::read(&*files, "data").expect("readable");
        let mut opened = OpenedLog::new(&World::real(), &files, "data", state);
        opened.begin().expect("recorded");
        opened
    };
    let first = start();
    let runtime = env::Runtime::start("test", 1).expect("a thread");
    let second = start();
    let replaced = |opened: &OpenedLog, limit| {
        let replaced = opened.replaced(Duration::from_millis(10));
        runtime.handle().block_on(async { env::timeout(Duration::from_millis(limit), replaced).await })
    };
    let said = replaced(&first, 20_000).expect("noticed");
    assert_eq!(said, "another server has taken over data, which the log of this one does not show");
    first.end();
    assert!(LogState::read(&*files, "data").expect("readable").is_open);
    assert_eq!(replaced(&second, 200), None, "its own record");
    files.delete(&FileName::new(STATE)).expect("deleted by an operator");
    assert_eq!(replaced(&second, 200), None, "nobody has taken over");
}

#[test]
fn a_check_records_nothing_and_makes_no_folder() {
    let folders = Folders::new();
    let (root, log) = (folders.at("data"), folders.at("log"));
    let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
    let check = || {
        let (text, place) = (root.display().to_string(), Root::Folder(log.clone()));
        open_to_check(&World::real(), &Conf::new(), &files, &text, Some(&place)).map(drop)
    };
    let refused = check().expect_err("there is no such folder").to_string();
    assert!(refused.contains("/log: there is no such folder") && !log.exists(), "{refused}");
    std::fs::create_dir_all(&log).expect("new");
    check().expect("neither place has a log");
    assert!(!root.join(NOTE).exists() && !log.join(BELONGS).exists());
    drop(files);
    folders.start_and_kill("data", None).expect("a start finds its log where it was");
    let files: Arc<dyn Files> = Arc::new(Local::open(&root).expect("free"));
    let place = Root::Folder(log.clone());
    let refused = open_to_check(&World::real(), &Conf::new(), &files, "data", Some(&place));
    assert!(refused.is_err_and(|why| why.to_string().contains("may be needed")));
}

#[test]
fn two_data_directories_do_not_share_a_log() {
    let folders = Folders::new();
    folders.start("data", Some("log")).expect("new");
    let refused = folders.start("data2", Some("log")).expect_err("of another");
    assert!(refused.contains("another data directory"), "{refused}");
    folders.start("data2", Some("log2")).expect("its own");
}

#[test]
fn a_log_in_the_form_of_another_storage_is_refused_and_left_there() {
    let name = FileName::new(LOG_FOLDER).join("00000000000000000001.wal");
    for (data, name, found) in [
        (Memory::new(), name.join("00000000.part"), "a part of a log file of an object store"),
        (Memory::with(Capabilities::NONE), name, "a log file of a disk"),
    ] {
        data.swap(&name, None, b"bytes").expect("copied there");
        let refused = begin(&data, None).expect_err("of another storage");
        assert!(refused.contains(found) && refused.contains("nothing was changed"), "{refused}");
        assert_eq!(data.read(&name, 100).expect("it is still there"), b"bytes");
    }
}
