//! Tests of the life of a file: references, links, removal from the list, archive and deletion.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use storage::{Capabilities, Capability};

use super::*;

/// Regions of one server, which share files, log, cache and open files.
pub(super) struct Server {
    pub(super) files: Memory,
    pub(super) log: Arc<wal::Log>,
    pub(super) world: World,
    pub(super) options: RegionOptions,
    cache: Arc<Cache>,
}

impl Server {
    pub(super) fn new() -> Server {
        Server::over(Memory::new())
    }

    pub(super) fn over(files: Memory) -> Server {
        let world = World::simulated(1, WallTime(1_000_000));
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let (log, _) = wal::Log::open(world.clone(), shared, FileName::new("WALs"), wal::Options::default())
            .expect("a log");
        let options = RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() };
        let cache = Arc::new(Cache::with_bytes(1 << 20));
        Server { files, log: Arc::new(log), world, options, cache }
    }

    pub(super) fn info(table: &str, id: u64) -> RegionInfo {
        RegionInfo::new(table.parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(id))
            .expect("a region")
    }

    pub(super) fn folder(info: &RegionInfo) -> FileName {
        let table = info.table();
        let table = FileName::new("data").join(table.namespace()).join(table.qualifier());
        table.join(info.encoded_name().as_str())
    }

    pub(super) fn opening(&self, info: &RegionInfo, family: FamilyDescriptor) -> Opening {
        let mut table = TableDescriptor::new(info.table().clone());
        table.set_family(family);
        Opening {
            info: info.clone(),
            table: Arc::new(table),
            files: Arc::new(self.files.clone()),
            folder: Server::folder(info),
            log: Arc::clone(&self.log),
            cache: Arc::clone(&self.cache),
            world: self.world.clone(),
            options: self.options.clone(),
            recovered: None,
        }
    }

    pub(super) fn open(&self, info: &RegionInfo, family: FamilyDescriptor) -> Arc<Region> {
        Region::open(self.opening(info, family)).expect("opened")
    }

    pub(super) fn janitor(&self) -> Janitor {
        Janitor::new(Arc::new(self.files.clone()), Arc::clone(&self.options.open_files))
    }

    /// Returns the files with cells, by their places.
    fn stored(&self) -> Vec<String> {
        let all = self.files.list(&FileName::root()).expect("listed");
        let is_stored = |name: &str| name.contains("/f/") && !name.contains(".filelist");
        all.into_iter().map(|entry| entry.name.to_string()).filter(|name| is_stored(name)).collect()
    }
}

pub(super) fn f() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

pub(super) fn put(region: &Arc<Region>, row: &str) {
    let put = mutation(MutationKind::Put, row, &[("f:q", 1, CellType::Put, b"v")]);
    let applied = region.apply(&[put], ReadMode::Any).expect("serving");
    applied.outcomes.into_iter().for_each(|outcome| outcome.expect("good"));
    applied.pending.wait_blocking().expect("durable");
}

/// Returns a region with one file for each of these rows.
pub(super) fn region_of(server: &Server, table: &str, rows: &[&str]) -> Arc<Region> {
    let region = server.open(&Server::info(table, 1), f());
    for row in rows {
        put(&region, row);
        region.flush(FlushReason::Requested).expect("flushed");
    }
    region
}

pub(super) fn rows(region: &Arc<Region>) -> String {
    let mut scanner = region.scanner(Scan::default()).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0.iter().map(|cell| cell.split('/').next().expect("a row")).collect::<Vec<_>>().join(" ")
}

fn half(half: Half, row: &str) -> InheritedFiles {
    InheritedFiles::Half(Reference { half, split_row: Bytes::copy_from_slice(row.as_bytes()) })
}

/// Returns the daughters of a region split at `row`. The regions themselves have the parent's key range, so that only
/// the references limit the rows.
fn split(server: &Server, parent: &Arc<Region>, row: &str) -> [Arc<Region>; 2] {
    [(Half::Bottom, 2), (Half::Top, 3)].map(|(side, id)| {
        let info = Server::info(&parent.info().table().to_string(), id);
        parent.write_heir(&Server::folder(&info), &half(side, row)).expect("written");
        server.open(&info, f())
    })
}

#[test]
fn daughters_read_their_half_and_compaction_rewrites_it() {
    let server = Server::new();
    let parent = region_of(&server, "ns:t", &["a", "c", "m", "z"]);
    let [bottom, top] = split(&server, &parent, "m");
    assert_eq!((rows(&bottom), rows(&top)), ("a c".to_owned(), "m z".to_owned()));
    let region = parent.info().encoded_name().to_string();
    let names = server.stored();
    let references = names.iter().filter(|name| name.ends_with(&format!(".{region}"))).count();
    assert_eq!(references, 8, "{names:?}");
    // Only the daughters have the parent's files open now.
    parent.close().expect("closed");
    let parent_folder = Server::folder(parent.info());
    drop(parent);
    for daughter in [&bottom, &top] {
        daughter.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    }
    assert_eq!((rows(&bottom), rows(&top)), ("a c".to_owned(), "m z".to_owned()));
    let janitor = server.janitor();
    for daughter in [&bottom, &top] {
        assert_eq!(daughter.clean(&janitor, Search::GivenUp).expect("cleaned"), 4, "the references");
    }
    assert!(!bottom.has_references() && !top.has_references());
    janitor.drop_folder(&parent_folder).expect("dropped");
    assert_eq!(server.stored().len(), 2, "{:?}", server.stored());
    assert!(server.files.list(&FileName::new("archive")).expect("listed").is_empty());
}

#[test]
fn a_parents_files_stay_while_a_daughter_refers_to_them() {
    let server = Server::new();
    let parent = region_of(&server, "t", &["a", "z"]);
    let [bottom, top] = split(&server, &parent, "m");
    parent.close().expect("closed");
    let files = parent.file_names(&[]).expect("a family");
    drop(parent);
    drop((bottom, top));
    // No file is open, so only the lists on disk count.
    let janitor = server.janitor();
    assert!(janitor.collect(&files).expect("asked").is_empty());
    let top = server.open(&Server::info("t", 3), f());
    top.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    // The master drops the parent's folder before the other daughter has compacted.
    janitor.drop_folder(&Server::folder(&Server::info("t", 1))).expect("dropped");
    let archived = server.stored().into_iter().filter(|name| name.starts_with("archive/")).count();
    assert_eq!(archived, 2, "{:?}", server.stored());
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 0);
    let bottom = server.open(&Server::info("t", 2), f());
    assert_eq!((rows(&bottom), rows(&top)), ("a".to_owned(), "z".to_owned()));
    bottom.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 2);
    assert_eq!((rows(&bottom), rows(&top)), ("a".to_owned(), "z".to_owned()));
}

#[test]
fn a_scanner_that_began_before_a_compaction_keeps_its_files() {
    let server = Server::new();
    let region = region_of(&server, "t", &["a", "b", "c"]);
    let janitor = server.janitor();
    let mut scanner = region.scanner(Scan { max_versions: 2, ..Scan::default() }).expect("serving");
    let mut shown = Shown::default();
    scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read");
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!((region.clean(&janitor, Search::Folders).expect("cleaned"), server.stored().len()), (0, 4));
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    assert_eq!(shown.0.len(), 3);
    drop(scanner);
    assert_eq!((region.clean(&janitor, Search::GivenUp).expect("cleaned"), server.stored().len()), (3, 1));
}

#[test]
fn replaced_files_stay_for_a_grace_where_other_processes_read() {
    let grace = Duration::from_secs(300);
    let run = |capabilities: Capabilities| {
        let server = Server::over(Memory::with(capabilities));
        let region = region_of(&server, "t", &["a", "b", "c"]);
        let janitor = server.janitor().keeping(server.world.clone(), grace);
        let clean = |search| region.clean(&janitor, search).expect("cleaned");
        region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        let at_once = clean(Search::GivenUp);
        server.world.advance(grace - Duration::from_secs(1));
        let early = clean(Search::Folders);
        server.world.advance(Duration::from_secs(1));
        let left = (clean(Search::GivenUp), clean(Search::Folders), server.stored().len());
        assert!(!region.has_given_up_files(), "the janitor has forgotten them");
        (at_once, early, left)
    };
    assert_eq!(run(Capabilities::ALL), (3, 0, (0, 0, 1)), "nobody else reads there");
    assert_eq!(run(Capabilities::ALL.without(Capability::OneProcess)), (0, 0, (3, 0, 1)));
}

#[test]
fn a_file_that_is_being_written_gets_its_whole_grace_later() {
    let grace = Duration::from_secs(300);
    let server = Server::over(Memory::with(Capabilities::ALL.without(Capability::OneProcess)));
    let region = region_of(&server, "t", &["a", "b"]);
    let janitor = server.janitor().keeping(server.world.clone(), grace);
    let names = region.file_names(&[]).expect("a family");
    // A search for unlisted files that began before a file was listed offers the file while it is in use.
    assert!(janitor.collect(&names).expect("asked").is_empty());
    server.world.advance(grace);
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(region.clean(&janitor, Search::GivenUp).expect("cleaned"), 0, "its grace begins now");
    server.world.advance(grace);
    assert_eq!(region.clean(&janitor, Search::GivenUp).expect("cleaned"), 2);
}

#[test]
fn a_parent_stays_for_a_grace_after_its_daughters_have_files_of_their_own() {
    let grace = Duration::from_secs(300);
    let server = Server::over(Memory::with(Capabilities::ALL.without(Capability::OneProcess)));
    let parent = region_of(&server, "t", &["a", "z"]);
    let daughters = split(&server, &parent, "m");
    parent.close().expect("closed");
    let folder = Server::folder(parent.info());
    drop(parent);
    let janitor = server.janitor().keeping(server.world.clone(), grace);
    let is_needed = || janitor.is_needed_elsewhere(&folder).expect("asked");
    server.world.advance(grace);
    assert!(is_needed(), "the daughters have halves of its files");
    for daughter in &daughters {
        daughter.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        daughter.clean(&janitor, Search::GivenUp).expect("cleaned");
    }
    assert!(is_needed(), "a replica may not have followed");
    server.world.advance(grace);
    for daughter in &daughters {
        daughter.clean(&janitor, Search::GivenUp).expect("cleaned");
    }
    assert!(!is_needed());
    janitor.drop_folder(&folder).expect("dropped");
    assert!(!is_needed(), "it is gone");
}

#[test]
fn a_clone_reads_by_links_and_its_files_outlive_the_table_in_the_archive() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let clone = Server::info("other", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    // The clone's files are written a second time, as after a crash.
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    let opened = server.open(&clone, f());
    assert_eq!(rows(&opened), "a b");
    let folder = Server::folder(region.info());
    region.close().expect("closed");
    drop(region);
    let janitor = server.janitor();
    janitor.drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    // The drop is repeated, as after a crash.
    janitor.drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    assert!(server.files.list(&folder).expect("listed").is_empty());
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 0, "the clone has them");
    drop(opened);
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 0, "its list names them");
    let opened = server.open(&clone, f());
    assert_eq!(rows(&opened), "a b");
    opened.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(opened.clean(&janitor, Search::GivenUp).expect("cleaned"), 2, "the links");
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 2);
    assert!(server.files.list(&FileName::new("archive")).expect("listed").is_empty());
    assert_eq!((rows(&opened), server.stored().len()), ("a b".to_owned(), 1));
}

#[test]
fn a_server_whose_list_another_one_has_taken_acknowledges_nothing_more() {
    let server = Server::over(Memory::with(Capabilities::ALL.without(Capability::OneProcess)));
    let region = region_of(&server, "t", &["a"]);
    // Another server takes over the files and has a log of its own, so this one's log does not tell.
    let world = World::simulated(2, WallTime(2_000_000));
    let options = wal::Options { owner: "other:16020".into(), ..wal::Options::default() };
    let opened = wal::Log::open(world.clone(), Arc::new(Memory::new()), FileName::new("WALs"), options)
        .expect("a log");
    let log = Arc::new(opened.0);
    let taken = Server { files: server.files.clone(), log, world, ..Server::new() };
    assert_eq!(rows(&taken.open(region.info(), f())), "a");
    put(&region, "b");
    let told = pin!(server.options.first_abort.happened());
    let error = region.flush(FlushReason::Requested).expect_err("the list is not its own");
    assert!(matches!(error, Error::Fenced { .. }), "{error:?}");
    assert!(server.options.is_fenced.load(Ordering::Acquire));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(told.poll(&mut context), Poll::Ready(cause) if cause.contains("must end")));
    let late = mutation(MutationKind::Put, "c", &[("f:q", 1, CellType::Put, b"v")]);
    let refused = region.apply(&[late], ReadMode::Any).map(|applied| applied.outcomes).expect_err("aborted");
    assert!(matches!(refused, Error::Aborted(_)), "{refused:?}");
}

#[test]
fn a_clone_reads_from_the_cache_after_its_source_was_compacted() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let info = Server::info("other", 9);
    region.write_heir(&Server::folder(&info), &InheritedFiles::Links).expect("written");
    let clone = server.open(&info, f());
    assert_eq!(rows(&clone), "a b");
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    let get = |mode| clone.get(&Scan::get("a".into()), mode, &mut Shown::default());
    assert_eq!(get(ReadMode::Any).expect("read"), 1);
    assert_eq!(get(ReadMode::MemoryOnly).expect("the block is in memory"), 1);
}

#[test]
fn a_link_to_a_half_is_that_half() {
    let server = Server::new();
    let parent = region_of(&server, "t", &["a", "z"]);
    let [_bottom, top] = split(&server, &parent, "m");
    let clone = Server::info("other", 9);
    top.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    assert_eq!(rows(&server.open(&clone, f())), "z");
    let again = top.write_heir(&Server::folder(&Server::info("t", 4)), &half(Half::Top, "zz"));
    assert!(matches!(again, Err(Error::Heir(HeirRefusal::HalfFile { .. }))), "{again:?}");
}

#[test]
fn the_parent_of_a_split_clone_is_needed_while_a_daughter_refers_to_its_links() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "z"]);
    let clone = Server::info("other", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    region.close().expect("closed");
    drop(region);
    let parent = server.open(&clone, f());
    drop(split(&server, &parent, "m"));
    parent.close().expect("closed");
    drop(parent);
    // No file is open, so only what is stored counts.
    let (janitor, folder) = (server.janitor(), Server::folder(&clone));
    assert!(janitor.is_needed_elsewhere(&folder).expect("asked"), "the daughters have halves of its links");
    janitor.drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 0);
    let daughters = [2, 3].map(|id| server.open(&Server::info("other", id), f()));
    assert_eq!(daughters.each_ref().map(rows), ["a", "z"]);
    for daughter in &daughters {
        daughter.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        daughter.clean(&janitor, Search::GivenUp).expect("cleaned");
    }
    assert!(!janitor.is_needed_elsewhere(&folder).expect("asked"), "each has files of its own");
    janitor.drop_folder(&folder).expect("dropped");
    assert_eq!(janitor.clean_archive(&FileName::root()).expect("cleaned"), 2);
    assert_eq!(daughters.each_ref().map(rows), ["a", "z"]);
}

/// A server was stopped before it dropped a table, and goes on after another one has taken over, dropped the table and
/// created it again.
#[test]
fn a_server_that_was_replaced_drops_nothing() {
    let shared = Capabilities::ALL.without(Capability::OneProcess);
    let first = Server::over(Memory::with(shared));
    let table = FileName::new("data/default/t");
    region_of(&first, "t", &["a"]).close().expect("closed");
    let janitor = first.janitor().owning(Arc::clone(&first.log));
    let next = Server::over(first.files.clone());
    next.janitor().owning(Arc::clone(&next.log)).drop_folder(&table).expect("dropped");
    let again = next.open(&Server::info("t", 2), f());
    put(&again, "b");
    again.flush(FlushReason::Requested).expect("flushed");
    let before = next.files.list(&table).expect("listed");
    let refused = janitor.drop_folder(&table).expect_err("another process has taken over");
    assert!(matches!(refused, Error::Log(wal::Error::Fenced { .. })), "{refused}");
    assert_eq!(next.files.list(&table).expect("listed"), before);
    again.close().expect("closed");
    drop(again);
    assert_eq!(rows(&next.open(&Server::info("t", 2), f())), "b");
}

/// A server was stopped before it searched for files that no list names, and goes on after another one has taken over and
/// uploaded a file that it lists next.
#[test]
fn a_server_that_was_replaced_deletes_no_file_that_is_not_listed_yet() {
    let shared = Capabilities::ALL.without(Capability::OneProcess);
    let first = Server::over(Memory::with(shared));
    let region = region_of(&first, "t", &["a"]);
    let janitor = first.janitor().owning(Arc::clone(&first.log));
    let upload = |name: &str| {
        let file = Server::folder(region.info()).join("f").join(name);
        let mut writer = first.files.create(&file).expect("a new file");
        writer.write(b"rows").expect("written");
        writer.finish().expect("finished");
        file
    };
    let unneeded = upload("0123456789abcdef0123456789abcdef");
    assert_eq!(region.clean(&janitor, Search::Folders).expect("it is the owner"), 1);
    first.files.open(&unneeded).map(drop).expect_err("no list named it");
    let _next = Server::over(first.files.clone());
    let uploaded = upload("fedcba9876543210fedcba9876543210");
    let refused = region.clean(&janitor, Search::Folders).expect_err("another process has taken over");
    assert!(matches!(refused, Error::Log(wal::Error::Fenced { .. })), "{refused}");
    first.files.open(&uploaded).expect("its owner lists it next");
}

#[test]
fn a_dropped_table_leaves_only_held_files() {
    let server = Server::new();
    let region = region_of(&server, "t", &["a", "b"]);
    region.close().expect("closed");
    drop(region);
    server.janitor().drop_folder(&FileName::new("data/default/t")).expect("dropped");
    let left: Vec<_> = server.files.list(&FileName::new("data")).expect("listed");
    assert!(left.is_empty() && server.stored().is_empty(), "{left:?}");
}

/// A holder that needs every file, or that cannot decide.
struct Stubborn(bool);

impl FileHolder for Stubborn {
    fn mark_held(&self, _: &[FileName], held: &mut [bool]) -> Result<()> {
        held.fill(true);
        if self.0 { Ok(()) } else { Err(Error::Broken("the manifest cannot be read".to_owned())) }
    }
}

#[test]
fn files_stay_if_a_holder_needs_them_or_cannot_tell() {
    for knows in [true, false] {
        let server = Server::new();
        let region = region_of(&server, "t", &["a", "b"]);
        region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        let janitor = server.janitor().asking(Arc::new(Stubborn(knows)));
        assert_eq!(region.clean(&janitor, Search::GivenUp).ok(), knows.then_some(0));
        assert_eq!(server.stored().len(), 3);
        assert_eq!(region.clean(&server.janitor(), Search::GivenUp).expect("cleaned"), 2);
    }
}

#[test]
fn an_unreadable_list_keeps_every_file() {
    let server = Server::new();
    let region = region_of(&server, "t", &["a", "b"]);
    let other = Server::info("t", 7);
    region.write_heir(&Server::folder(&other), &half(Half::Top, "b")).expect("written");
    let lists = server.files.list(&Server::folder(&other).join("f/.filelist")).expect("listed");
    server.files.damage(&lists[0].name, |bytes| bytes[6] ^= 1);
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    let outcome = region.clean(&server.janitor(), Search::Folders);
    assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
    assert_eq!(server.stored().len(), 5);
}

/// Returns a server with table `t`, which is closed, and its clone `other`.
fn dropped_and_cloned(files: Memory) -> (Server, RegionInfo) {
    let server = Server::over(files);
    let region = region_of(&server, "t", &["a", "b"]);
    let clone = Server::info("other", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    region.close().expect("closed");
    (server, clone)
}

#[test]
fn a_drop_that_ends_at_any_act_loses_no_file_of_a_clone() {
    for outcome in [storage::Outcome::DidNotHappen, storage::Outcome::MayHaveHappened] {
        for act in 1.. {
            let (server, clone) = dropped_and_cloned(Memory::new());
            let at = server.files.acts() + act;
            let fault = storage::memory::Fault { act: at, kind: storage::Kind::Failed, outcome, last: true };
            server.files.set_fault(Some(fault));
            let table = FileName::new("data/default/t");
            let ended = server.janitor().drop_folder(&table).is_ok();
            server.files.set_fault(None);
            let files = if act % 2 == 0 { server.files.kill() } else { server.files.crash(act) };
            let next = Server::over(files);
            let opened = next.open(&clone, f());
            assert_eq!(rows(&opened), "a b", "act {act}");
            // The master may repeat the drop, before or after the archive is cleaned.
            next.janitor().clean_archive(&FileName::root()).expect("cleaned");
            next.janitor().drop_folder(&table).expect("repeated");
            next.janitor().clean_archive(&FileName::root()).expect("cleaned");
            assert!(next.files.list(&table).expect("listed").is_empty(), "act {act}");
            drop(opened);
            assert_eq!(rows(&next.open(&clone, f())), "a b", "act {act}");
            if ended {
                assert!(act > 6, "the drop has {act} acts");
                break;
            }
        }
    }
}

#[test]
fn a_reader_reads_on_after_its_table_was_dropped() {
    for files in with_and_without_read_after_delete() {
        let server = Server::over(files);
        let region = region_of(&server, "t", &["a", "b"]);
        let reader = Region::open_for_reading(server.opening(region.info(), f())).expect("opened");
        region.close().expect("closed");
        drop(region);
        let janitor = server.janitor();
        janitor.drop_folder(&FileName::new("data/default/t")).expect("dropped");
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert_eq!(rows(&reader), "a b");
        drop(reader);
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert!(server.stored().is_empty(), "{:?}", server.stored());
    }
}

/// Storage with all capabilities, and storage where a deleted file cannot be read.
fn with_and_without_read_after_delete() -> [Memory; 2] {
    [Capabilities::ALL, Capabilities::ALL.without(Capability::ReadAfterDelete)].map(Memory::with)
}

/// A holder that needs no file. When it is first asked, it opens a region.
struct OpensMeanwhile {
    opening: env::sync::Mutex<Option<Opening>>,
    opened: env::sync::Mutex<Option<Arc<Region>>>,
}

impl FileHolder for OpensMeanwhile {
    fn mark_held(&self, _: &[FileName], _: &mut [bool]) -> Result<()> {
        if let Some(opening) = self.opening.lock().take() {
            *self.opened.lock() = Some(Region::open(opening)?);
        }
        Ok(())
    }
}

#[test]
fn a_region_that_is_opened_while_its_files_move_to_the_archive_can_be_read() {
    for files in with_and_without_read_after_delete() {
        let (server, clone) = dropped_and_cloned(files);
        let holder = Arc::new(OpensMeanwhile {
            opening: env::sync::Mutex::new(Some(server.opening(&clone, f()))),
            opened: env::sync::Mutex::default(),
        });
        let janitor = server.janitor().asking(Arc::clone(&holder) as Arc<dyn FileHolder>);
        let table = FileName::new("data/default/t");
        janitor.drop_folder(&table).expect("dropped");
        let opened = holder.opened.lock().take().expect("it was asked");
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert_eq!(rows(&opened), "a b");
        // The originals are deleted when they have no readers.
        opened.close().expect("closed");
        drop(opened);
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert!(server.files.list(&table).expect("listed").is_empty());
        assert_eq!(rows(&server.open(&clone, f())), "a b");
    }
}

/// Storage in which something happens in the middle of an operation.
pub(super) struct Interrupted {
    files: Memory,
    after: After,
    call: env::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// After what it happens, the first time.
pub(super) enum After {
    /// A file below this folder was opened.
    Open(FileName),
    /// This folder was listed.
    List(FileName),
}

impl Interrupted {
    pub(super) fn by(files: &Memory, after: After, call: impl FnOnce() + Send + 'static) -> Interrupted {
        Interrupted { files: files.clone(), after, call: env::sync::Mutex::new(Some(Box::new(call))) }
    }

    fn interrupt(&self) {
        let call = self.call.lock().take();
        call.into_iter().for_each(|call| call());
    }
}

impl Files for Interrupted {
    fn capabilities(&self) -> Capabilities {
        self.files.capabilities()
    }

    fn create(&self, name: &FileName) -> storage::Result<Box<dyn storage::FileWriter>> {
        self.files.create(name)
    }

    fn open(&self, name: &FileName) -> storage::Result<Arc<dyn storage::FileReader>> {
        let opened = self.files.open(name)?;
        if matches!(&self.after, After::Open(folder) if name.below(folder).is_some()) {
            self.interrupt();
        }
        Ok(opened)
    }

    fn sync(&self, name: &FileName) -> storage::Result<()> {
        self.files.sync(name)
    }

    fn list(&self, folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
        let listed = self.files.list(folder)?;
        if matches!(&self.after, After::List(after) if after == folder) {
            self.interrupt();
        }
        Ok(listed)
    }

    fn delete(&self, name: &FileName) -> storage::Result<()> {
        self.files.delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
        self.files.load(name, bytes_max)
    }

    fn swap(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Version> {
        self.files.swap(name, expected, new)
    }

    fn settle(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Settled> {
        self.files.settle(name, expected, new)
    }

    fn place(&self) -> String {
        self.files.place()
    }
}

#[test]
fn a_file_that_is_deleted_while_it_is_copied_to_the_archive_is_no_error() {
    let files = Memory::with(Capabilities::ALL.without(Capability::ReadAfterDelete));
    let region = Server::folder(&Server::info("t", 1));
    let name = region.join("f").join("0123456789abcdef0123456789abcdef");
    let mut file = files.create(&name).expect("created");
    file.write(b"bytes").expect("written");
    file.finish().expect("finished");
    let delete = {
        let (files, name) = (files.clone(), name.clone());
        move || files.delete(&name).expect("deleted")
    };
    let files = Interrupted::by(&files, After::Open(region), delete);
    crate::janitor::archive::copy_to_archive(&files, &name).expect("nobody needed the file");
}

#[test]
fn a_file_that_is_being_opened_is_not_deleted() {
    for files in with_and_without_read_after_delete() {
        let (server, clone) = dropped_and_cloned(files);
        let table = FileName::new("data/default/t");
        let janitor = Arc::new(server.janitor());
        let drop_table = {
            let (janitor, table) = (Arc::clone(&janitor), table.clone());
            move || janitor.drop_folder(&table).expect("dropped")
        };
        let files = Interrupted::by(&server.files, After::Open(table.clone()), drop_table);
        let opening = Opening { files: Arc::new(files), ..server.opening(&clone, f()) };
        let opened = Region::open(opening).expect("opened");
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert_eq!(rows(&opened), "a b");
        opened.close().expect("closed");
        drop(opened);
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert!(server.files.list(&table).expect("listed").is_empty());
    }
}

#[test]
fn a_dropped_family_does_not_come_back_after_a_loss_of_power() {
    for seed in 0..16 {
        let (server, clone) = dropped_and_cloned(Memory::new());
        let info = Server::info("t", 1);
        server.janitor().drop_folder(&Server::folder(&info).join("f")).expect("dropped");
        let next = Server::over(server.files.crash(seed));
        assert_eq!(rows(&next.open(&info, f())), "", "seed {seed}");
        assert_eq!(rows(&next.open(&clone, f())), "a b", "seed {seed}");
    }
}

#[test]
fn no_block_of_a_dropped_table_stays_in_the_cache() {
    let server = Server::new();
    let region = region_of(&server, "t", &["a", "b"]);
    assert_eq!(rows(&region), "a b");
    let folder = Server::folder(region.info());
    region.close().expect("closed");
    drop(region);
    assert!(server.cache.counts().blocks > 0, "the region could be opened again");
    server.janitor().evicting(server.cache.clone()).drop_folder(&folder).expect("dropped");
    assert_eq!(server.cache.counts().blocks, 0);
}
