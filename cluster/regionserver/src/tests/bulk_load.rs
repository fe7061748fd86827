//! Tests of PrepareBulkLoad, BulkLoadHFile and CleanupBulkLoad.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellParts, CellType, SequenceId, Timestamp};
use hfile::{StoreFileInfo, Writer, WriterOptions};
use prost::Message;
use proto::pb;
use region::Error;
use rpc::Exception;
use storage::memory::Fault;
use storage::{FileName, Files, Kind, Memory, Outcome};

use super::bench::{Bench, class, region, table};
use crate::{ForeignFile, ForeignStorage, Options, SourcePlace};
use pb::bulk_load_h_file_request::FamilyPath;

/// Writes a file as a job does, with one column in each row.
fn write_file(place: &Memory, name: &str, family: &str, rows: &[&str]) {
    let name = FileName::new(name);
    let mut writer = Writer::create(place.create(&name).expect("new"), name, WriterOptions::default());
    for row in rows {
        let cell = CellParts {
            row: row.as_bytes(),
            family: family.as_bytes(),
            qualifier: b"x",
            timestamp: Timestamp(5),
            cell_type: CellType::Put,
            value: b"loaded",
            tags: b"",
        };
        let cell = cell.to_vec().expect("within limits");
        writer.append(Cell::trusted(&cell, SequenceId::ZERO)).expect("in order");
    }
    writer.finish(StoreFileInfo::default()).expect("durable");
}

fn prepare(bench: &Bench) -> String {
    let table_name = pb::TableName { namespace: "default".into(), qualifier: "t".into() };
    let request = pb::PrepareBulkLoadRequest { table_name, region: None };
    let reply = bench.client("PrepareBulkLoad", &request, Bytes::new()).expect("a token");
    pb::PrepareBulkLoadResponse::decode(reply.message).expect("the method's message").bulk_token
}

fn request(
    bench: &Bench,
    row: &str,
    token: &str,
    paths: &[(&'static str, &str)],
) -> pb::BulkLoadHFileRequest {
    let pair =
        |&(family, path): &(&'static str, &str)| FamilyPath { family: family.into(), path: path.into() };
    pb::BulkLoadHFileRequest {
        region: bench.region_of(row.as_bytes()),
        family_path: paths.iter().map(pair).collect(),
        assign_seq_num: Some(true),
        bulk_token: Some(token.to_owned()),
        ..Default::default()
    }
}

fn load(bench: &Bench, request: &pb::BulkLoadHFileRequest) -> Result<bool, Exception> {
    let reply = bench.client("BulkLoadHFile", request, Bytes::new())?;
    Ok(pb::BulkLoadHFileResponse::decode(reply.message).expect("the method's message").loaded)
}

#[test]
fn files_are_loaded_once_and_taken_away() {
    let bench = Bench::new();
    bench.put("a", "f:y", "put");
    write_file(&bench.place, "job/f/one", "f", &["a", "b"]);
    write_file(&bench.place, "job/g/one", "g", &["a"]);
    let token = prepare(&bench);
    assert!(token != prepare(&bench) && token.starts_with("file:memory/staging/unknown__t__"), "{token}");
    let load_both =
        request(&bench, "a", &token, &[("f", "file:memory/job/f/one"), ("g", "file:memory/job/g/one")]);
    assert_eq!(load(&bench, &load_both), Ok(true));
    assert_eq!(bench.row("a"), ["f:x=loaded", "f:y=put", "g:x=loaded"]);
    assert_eq!(
        bench.place.list(&FileName::new("job")).expect("listed"),
        [],
        "the files are the region's now"
    );
    assert_eq!(load(&bench, &load_both), Ok(true), "a repeated call");
    let cleanup = |bulk_token: String| {
        bench.client(
            "CleanupBulkLoad",
            &pb::CleanupBulkLoadRequest { bulk_token, region: None },
            Bytes::new(),
        )
    };
    write_file(&bench.place, &format!("{}/left", &token["file:memory/".len()..]), "f", &["a"]);
    cleanup(token).expect("cleaned");
    assert_eq!(bench.place.list(&FileName::new("staging")).expect("listed"), []);
    for token in ["file:memory/data/default/t", "file:memory/staging", "/tmp"] {
        assert_eq!(class(&cleanup(token.to_owned()).expect_err(token)), "DoNotRetryIOException");
    }
    let bench = bench.kill();
    assert_eq!(bench.row("a"), ["f:x=loaded", "f:y=put", "g:x=loaded"]);
    assert_eq!(load(&bench, &load_both), Ok(true), "a repeated call after a restart");
}

#[test]
fn a_snapshot_of_a_closed_region_has_an_interrupted_load_in_all_families_or_none() {
    for act in 1.. {
        let bench = Bench::new();
        write_file(&bench.place, "job/f/one", "f", &["a"]);
        write_file(&bench.place, "job/g/one", "g", &["a"]);
        let paths = [("f", "file:memory/job/f/one"), ("g", "file:memory/job/g/one")];
        let act = bench.place.acts() + act;
        bench.place.set_fault(Some(Fault {
            act,
            kind: Kind::Failed,
            outcome: Outcome::DidNotHappen,
            last: true,
        }));
        let loaded = load(&bench, &request(&bench, "a", "token", &paths)).is_ok();
        let bench = bench.kill_and_open(&[]);
        let listed = bench.server.snapshot_of_closed(&region("", ""), &Arc::new(table())).expect("listed");
        let counts = listed[0].family_files.iter().map(|family| family.store_files.len()).collect::<Vec<_>>();
        assert!(counts == [1, 1] || counts == [0, 0] && !loaded, "{counts:?} at act {act}");
        if loaded {
            return;
        }
    }
}

/// An aborted region has acknowledged writes in its memory and in the log of this run, where only the next run looks for them.
#[test]
fn a_server_that_has_aborted_a_region_opens_none_until_it_is_restarted() {
    let mut aborted = 0;
    for act in 1.. {
        let bench = Bench::new();
        bench.put("r", "f:y", "acknowledged");
        write_file(&bench.place, "job/f/one", "f", &["a"]);
        write_file(&bench.place, "job/g/one", "g", &["a"]);
        let paths = [("f", "file:memory/job/f/one"), ("g", "file:memory/job/g/one")];
        let (act, outcome) = (bench.place.acts() + act, Outcome::DidNotHappen);
        bench.place.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
        let loaded = load(&bench, &request(&bench, "a", "token", &paths));
        bench.place.set_fault(None);
        if loaded == Ok(true) {
            break;
        }
        let (server, info, table) = (&bench.server, region("", ""), Arc::new(table()));
        if !server.foundation().region_options.first_abort.has_happened() {
            continue;
        }
        aborted += 1;
        let closed = server.close_region(info.encoded_name(), None);
        assert!(matches!(closed, Err(Error::Aborted(_))), "act {act}: {closed:?}");
        let refused = [
            server.open_region(info.clone(), Arc::clone(&table)).map(drop),
            server.truncate_region(info.clone(), Arc::clone(&table)),
            server.snapshot_of_closed(&info, &table).map(drop),
        ];
        for refused in refused {
            let has_remedy = |cause: &String| cause.contains("restart the server");
            assert!(
                matches!(&refused, Err(Error::Aborted(cause)) if has_remedy(cause)),
                "act {act}: {refused:?}"
            );
        }
        let bench = bench.kill();
        assert_eq!(bench.row("r"), ["f:y=acknowledged"], "act {act}");
    }
    assert!(aborted > 0, "no act aborted the region");
}

#[test]
fn files_stay_with_copy_files_and_those_of_the_server_stay_always() {
    let bench = Bench::new();
    write_file(&bench.place, "job/f/one", "f", &["a"]);
    let copy = pb::BulkLoadHFileRequest {
        copy_file: Some(true),
        ..request(&bench, "a", "token", &[("f", "file:memory/job/f/one")])
    };
    assert_eq!(load(&bench, &copy), Ok(true));
    assert!(bench.place.open(&FileName::new("job/f/one")).is_ok(), "the caller keeps its file");
    let region = bench.server.regions().all().remove(0);
    let path = format!("file:memory/{}", region.file_names(&[]).expect("listed")[0]);
    let own = request(&bench, "a", "token", &[("f", &path)]);
    let refused = load(&bench, &own).expect_err("the region's own file");
    assert!(refused.do_not_retry && refused.message.contains("load it with copyFiles"), "{refused:?}");
    assert_eq!(load(&bench, &pb::BulkLoadHFileRequest { copy_file: Some(true), ..own }), Ok(true));
    assert_eq!(bench.row("a"), ["f:x=loaded"]);
}

#[test]
fn files_that_cannot_be_loaded_are_refused_as_by_hbase() {
    let bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    write_file(&bench.place, "job/f/across", "f", &["a", "z"]);
    let across = request(&bench, "a", "token", &[("f", "file:memory/job/f/across")]);
    assert_eq!(load(&bench, &across), Ok(false), "the client cuts the file");
    let refused = |family, path| {
        let refused = load(&bench, &request(&bench, "a", "token", &[(family, path)])).expect_err(path);
        (class(&refused).to_owned(), refused.message)
    };
    let (unknown, message) = refused("x", "file:memory/job/f/across");
    assert_eq!((unknown.as_str(), message.as_str()), ("DoNotRetryIOException", "No such column family x"));
    assert_eq!(refused("f", "file:memory/job/f/none").0, "FileNotFoundException");
    assert_eq!(refused("f", "/no/such/file").0, "FileNotFoundException");
    assert_eq!(refused("f", "hdfs://host/file").0, "DoNotRetryIOException");
    assert_eq!(bench.row("a"), Vec::<String>::new());
}

/// The store `other:`, and the URL `root:` of the server's root.
struct OtherStore(Memory);

impl ForeignStorage for OtherStore {
    fn locate(&self, url: &str) -> Result<SourcePlace, String> {
        match url.split_once("://") {
            Some(("other", name)) => Ok(SourcePlace::Foreign(ForeignFile {
                files: Arc::new(self.0.clone()),
                name: FileName::new(name),
                remedy: "check the other store",
            })),
            Some(("root", name)) => Ok(SourcePlace::Root(FileName::new(name))),
            _ => Err("name it other://NAME".to_owned()),
        }
    }
}

#[test]
fn files_of_another_store_are_copied_and_stay() {
    let other = Memory::new();
    write_file(&other, "out/f/one", "f", &["a", "b"]);
    write_file(&other, "out/g/one", "g", &["a"]);
    let bench = Bench::new();
    let paths = [("f", "other://out/f/one"), ("g", "other://out/g/one")];
    let refused = load(&bench, &request(&bench, "a", "token", &paths)).expect_err("no such storage");
    assert!(
        refused.do_not_retry && refused.message.contains("copy it there and name it file:/PATH"),
        "{refused:?}"
    );
    bench.server.set_foreign_storage(Arc::new(OtherStore(other.clone())));
    let both = request(&bench, "a", "token", &paths);
    assert_eq!(load(&bench, &both), Ok(true));
    let rows = ["f:x=loaded", "g:x=loaded"];
    assert_eq!(bench.row("a"), rows);
    assert_eq!(other.list(&FileName::new("out")).expect("listed").len(), 2, "the sources stay");
    // The response was lost, and the job has deleted its files.
    other.delete(&FileName::new("out/f/one")).expect("deleted");
    other.delete(&FileName::new("out/g/one")).expect("deleted");
    assert_eq!(load(&bench, &both), Ok(true), "a repeated call");
    let bench = bench.kill();
    bench.server.set_foreign_storage(Arc::new(OtherStore(other)));
    assert_eq!(bench.row("a"), rows);
    assert_eq!(load(&bench, &both), Ok(true), "a repeated call after a restart");
    let gone = load(&bench, &request(&bench, "a", "other", &paths)).expect_err("gone");
    assert_eq!(class(&gone), "FileNotFoundException");
    assert!(gone.message.contains("check that other://out/f/one is there"), "{gone:?}");
}

#[test]
fn a_url_of_the_root_names_the_servers_own_file() {
    let bench = Bench::new();
    bench.server.set_foreign_storage(Arc::new(OtherStore(Memory::new())));
    write_file(&bench.place, "job/f/one", "f", &["a"]);
    assert_eq!(load(&bench, &request(&bench, "a", "token", &[("f", "root://job/f/one")])), Ok(true));
    assert_eq!(bench.place.list(&FileName::new("job")).expect("listed"), [], "the file is the region's now");
    let region = bench.server.regions().all().remove(0);
    let path = format!("root://{}", region.file_names(&[]).expect("listed")[0]);
    let refused = load(&bench, &request(&bench, "a", "token", &[("f", &path)])).expect_err("an own file");
    assert!(refused.message.contains("load it with copyFiles"), "{refused:?}");
    let refused =
        load(&bench, &request(&bench, "a", "token", &[("f", "hdfs://host/file")])).expect_err("refused");
    assert_eq!(refused.message, "cannot read hdfs://host/file: name it other://NAME");
    let none = load(&bench, &request(&bench, "a", "token", &[("f", "file:///no//such/file")]));
    let none = none.expect_err("no file");
    assert_eq!(class(&none), "FileNotFoundException");
    assert!(none.message.contains("check that file:/no/such/file is there"), "{none:?}");
}
