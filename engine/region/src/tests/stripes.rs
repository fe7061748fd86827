//! Tests of stripes on a whole region: which stripe a file names, which markers are dropped, where a region is split,
//! and that no cell is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use super::file_life::{Server, rows};
use super::*;
use crate::stripes::{StripeRange, Stripes};

fn striped(stripe: StripeOptions) -> RegionOptions {
    RegionOptions {
        compaction_policy: CompactionPolicy::Stripe,
        compaction_size_min: Some(0),
        stripe,
        ..RegionOptions::default()
    }
}

fn bench(family: FamilyDescriptor, stripe: StripeOptions) -> Bench {
    let world = World::simulated(1, WallTime(1_000_000));
    Bench::open_with(Memory::new(), world, table(family), striped(stripe))
}

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

fn flush(region: &Region) -> usize {
    region.flush(FlushReason::Requested).expect("flushed").files
}

fn compact(region: &Region) -> usize {
    let request = StoreCompaction { family: "f".into(), major: true, is_user: true, off_peak: false };
    region.compact_family(&request, &()).expect("compacted")
}

/// The stripes of family f, with the number of files of each, and of level 0.
fn shown(region: &Region) -> String {
    let files = region.stores[0].view.load().files.clone();
    let Stripes { level0, stripes } = Stripes::of(files.iter().map(|file| file.stripe.as_ref()));
    let text = |row: &Bytes| String::from_utf8_lossy(row).into_owned();
    let one =
        |range: &StripeRange, files: usize| format!("{}..{}:{files}", text(&range.start), text(&range.end));
    let stripes = stripes.iter().map(|stripe| one(&stripe.range, stripe.files.len()));
    std::iter::once(format!("level 0:{}", level0.len())).chain(stripes).collect::<Vec<_>>().join(" ")
}

fn put_all(bench: &Bench, rows: &[&str], timestamp: i64) {
    rows.iter().for_each(|row| bench.put(row, "f:q", timestamp, "v"));
}

#[test]
fn flushes_and_compactions_write_stripes_that_hbase_knows() {
    let bench = bench(family(), StripeOptions { initial_count: 3, ..StripeOptions::default() });
    put_all(&bench, &["a", "b", "c", "d", "e", "f"], 1);
    assert_eq!(flush(&bench.region), 3);
    assert_eq!(shown(&bench.region), "level 0:0 ..c:1 c..e:1 e..:1");
    let said: Vec<_> = bench.region.stores[0]
        .view
        .load()
        .files
        .iter()
        .map(|file| {
            let info = file.reader.info();
            [&b"STRIPE_START_KEY"[..], b"STRIPE_END_KEY"]
                .map(|key| info.get(key).expect("it says it").to_vec())
        })
        .collect();
    assert_eq!(said, [[&b""[..], b"c"], [b"c", b"e"], [b"e", b""]]);
    // A flush writes no file for a stripe without cells.
    put_all(&bench, &["d", "cc"], 2);
    assert_eq!(flush(&bench.region), 1);
    assert_eq!(shown(&bench.region), "level 0:0 ..c:1 c..e:2 e..:1");
    let before = bench.all();
    put_all(&bench, &["c"], 0);
    flush(&bench.region);
    assert_eq!(bench.region.load().stores[0].files, 5);
    assert_eq!(compact(&bench.region), 0, "three files of a stripe are not enough");
    put_all(&bench, &["c"], 1);
    flush(&bench.region);
    let plan = bench.region.plan_compaction(&StoreCompaction {
        family: "f".into(),
        major: true,
        is_user: true,
        off_peak: false,
    });
    let plan = plan.expect("four files are enough");
    assert_eq!((plan.files, plan.major), (4, false), "there is no major compaction");
    assert_eq!(compact(&bench.region), 4);
    assert_eq!(shown(&bench.region), "level 0:0 ..c:1 c..e:1 e..:1");
    assert_eq!(bench.all(), before);
    let names = bench.region.file_names(&["f".into()]).expect("named");
    let bench = Bench::open_with(
        bench.files.clone(),
        bench.world.clone(),
        bench.table.clone(),
        striped(StripeOptions::default()),
    );
    assert_eq!(bench.region.file_names(&["f".into()]).expect("named"), names, "in the same order");
    assert_eq!((bench.all(), shown(&bench.region)), (before, "level 0:0 ..c:1 c..e:1 e..:1".to_owned()));
}

#[test]
fn level_0_becomes_stripes_and_a_large_stripe_is_split() {
    let level0 = StripeOptions {
        flush_to_level0: true,
        level0_files_min: 2,
        files_min: Some(2),
        split_size: Some(1),
        ..StripeOptions::default()
    };
    let bench = bench(family(), level0.clone());
    put_all(&bench, &["a", "b", "c", "d"], 1);
    flush(&bench.region);
    put_all(&bench, &["a", "d"], 2);
    flush(&bench.region);
    assert_eq!(shown(&bench.region), "level 0:2");
    let before = bench.all();
    assert_eq!(compact(&bench.region), 2);
    // The data of each stripe exceeds its size by far, so there are as many stripes as rows.
    assert_eq!(shown(&bench.region), "level 0:0 ..b:1 b..c:1 c..d:1 d..:1");
    assert_eq!(bench.all(), before);
    put_all(&bench, &["b", "bb", "bc"], 3);
    flush(&bench.region);
    put_all(&bench, &["a"], 3);
    flush(&bench.region);
    let before = bench.all();
    assert_eq!(compact(&bench.region), 2, "level 0 goes into the stripes");
    assert_eq!(shown(&bench.region), "level 0:0 ..b:2 b..c:2 c..d:1 d..:1");
    while compact(&bench.region) > 0 {}
    assert_eq!(shown(&bench.region), "level 0:0 ..b:1 b..bb:1 bb..bc:1 bc..c:1 c..d:1 d..:1");
    assert_eq!(bench.all(), before);
}

#[test]
fn a_row_is_in_one_stripe_however_many_cells_it_has() {
    let bench = bench(family(), StripeOptions { initial_count: 6, ..StripeOptions::default() });
    for (row, column) in ["a", "b"].iter().flat_map(|row| ["f:p", "f:q", "f:r"].map(|column| (row, column))) {
        bench.put(row, column, 1, "v");
    }
    assert_eq!(flush(&bench.region), 2);
    assert_eq!(shown(&bench.region), "level 0:0 ..b:1 b..:1");
}

#[test]
fn markers_go_only_where_all_files_take_part() {
    let numbers = StripeOptions { initial_count: 2, files_min: Some(2), ..StripeOptions::default() };
    let raw = |bench: &Bench| bench.scan(Scan { raw: true, max_versions: 10, ..Scan::default() });
    for with_level0 in [false, true] {
        let bench = bench(family(), numbers.clone());
        put_all(&bench, &["a", "z"], 1);
        assert_eq!(flush(&bench.region), 2);
        if with_level0 {
            // Writes a file that names no stripe, as before stripes were turned on, with the row `b`.
            bench.region.tune(&RegionOptions::default());
            put_all(&bench, &["b"], 1);
            flush(&bench.region);
            bench.region.tune(&striped(numbers.clone()));
        }
        bench.delete("a", "f:q", 1, CellType::DeleteColumn);
        bench.delete("z", "f:q", 1, CellType::DeleteColumn);
        flush(&bench.region);
        assert_eq!(compact(&bench.region), 2);
        assert_eq!(compact(&bench.region), 2);
        let (expected, marks) = match with_level0 {
            false => ("level 0:0 ..z:1 z..:1", ""),
            true => ("level 0:1 ..z:1 z..:1", "a/f:q@1! b/f:q@1=v z/f:q@1!"),
        };
        // A stripe without cells keeps a file.
        assert_eq!((&*shown(&bench.region), &*raw(&bench)), (expected, marks));
    }
}

#[test]
fn markers_stay_while_a_file_that_says_another_stripe_has_their_row() {
    let numbers = StripeOptions { initial_count: 2, files_min: Some(2), ..StripeOptions::default() };
    let bench = bench(family(), numbers.clone());
    put_all(&bench, &["a", "z"], 1);
    flush(&bench.region);
    bench.delete("a", "f:q", 1, CellType::DeleteColumn);
    flush(&bench.region);
    // A file that names the second stripe, and has a row of the first.
    let store = &bench.region.stores[0];
    let view = store.view.load_full();
    let liar = StripeRange { start: "z".into(), end: Bytes::new() };
    let first = Arc::clone(&view.files[0]);
    let info = hfile::StoreFileInfo { more: liar.facts().to_vec(), ..Default::default() };
    let caching = crate::new_file::BlocksToCache::OfFlush { into_room: false };
    let made = bench.region.write_file_by(store, "NONE", info, caching, |writer| {
        let mut cursor = first.cursor(hfile::ReadOptions::default());
        cursor.seek_far(cell::KeyBuf::first_on_row(b"").position())?;
        Ok(writer.append(cursor.peek().expect("a cell"))?)
    });
    let made = made.expect("written");
    let commit = crate::commit::Commit {
        remove: &[],
        add: vec![Arc::clone(&made.file)],
        are_oldest: true,
        view: &crate::view::View::clone,
        while_closing: false,
        marker: None,
    };
    bench.region.commit(store, commit).expect("committed");
    assert_eq!(compact(&bench.region), 2);
    assert_eq!(bench.all(), "z/f:q@1=v", "the marker still masks the cell in the other file");
}

#[test]
fn stripes_that_have_expired_become_one() {
    let numbers = StripeOptions { initial_count: 3, ..StripeOptions::default() };
    let bench = bench(family().with("TTL", 100), numbers);
    let now = bench.world.now().0;
    put_all(&bench, &["a", "b", "c"], now);
    flush(&bench.region);
    bench.world.advance(Duration::from_secs(60));
    put_all(&bench, &["c"], now + 60_000);
    flush(&bench.region);
    bench.world.advance(Duration::from_secs(60));
    assert_eq!(shown(&bench.region), "level 0:0 ..b:1 b..c:1 c..:2");
    // In the last stripe the older file is removed without being read. In the other stripes the newest file must stay.
    assert_eq!(compact(&bench.region), 3);
    assert_eq!(shown(&bench.region), "level 0:0 ..c:1 c..:1");
    assert_eq!(bench.all(), "c/f:q@1060000=v");
    assert_eq!(compact(&bench.region), 0, "a file without cells is not written again");
    bench.world.advance(Duration::from_secs(1_000));
    assert_eq!(compact(&bench.region), 0, "as in HBase, the last stripe is not merged");
}

#[test]
fn a_region_is_split_between_its_stripes() {
    let mut server = Server::new();
    server.options =
        striped(StripeOptions { initial_count: 4, files_min: Some(2), ..StripeOptions::default() });
    let info = Server::info("t", 1);
    let region = server.open(&info, family());
    for row in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        super::file_life::put(&region, row);
    }
    assert_eq!((flush(&region), &*shown(&region)), (4, "level 0:0 ..c:1 c..e:1 e..g:1 g..:1"));
    assert_eq!(region.best_split_row().expect("read").as_deref(), Some(&b"e"[..]));
    region.close().expect("closed");
    let daughters = [(Half::Bottom, 2), (Half::Top, 3)].map(|(half, id)| {
        let daughter = Server::info("t", id);
        let reference = Reference { half, split_row: "e".into() };
        let folder = Server::folder(&daughter);
        region.write_heir(&folder, &InheritedFiles::Half(reference)).expect("written");
        server.open(&daughter, family())
    });
    for (daughter, all, stripes) in [
        (&daughters[0], "a b c d", "level 0:0 ..b:1 b..c:1 c..d:1 d..:1"),
        (&daughters[1], "e f g h", "level 0:0 ..f:1 f..g:1 g..h:1 h..:1"),
    ] {
        assert_eq!(rows(daughter), all);
        assert_eq!(daughter.best_split_row().expect("read"), None, "it has references");
        assert_eq!(compact(daughter), 4, "references are compacted first");
        assert_eq!((&*rows(daughter), &*shown(daughter)), (all, stripes));
    }
}

#[test]
fn a_table_may_change_to_stripes_and_back() {
    let bench = bench(family(), StripeOptions::default());
    bench.region.tune(&RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() });
    for row in ["a", "b", "c", "d"] {
        put_all(&bench, &[row], 1);
        flush(&bench.region);
    }
    assert_eq!(shown(&bench.region), "level 0:4");
    bench.region.tune(&striped(StripeOptions::default()));
    let before = bench.all();
    assert_eq!(compact(&bench.region), 4);
    assert_eq!((&*shown(&bench.region), bench.all()), ("level 0:0 ..:1", before.clone()));
    bench.region.tune(&RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() });
    put_all(&bench, &["a"], 1);
    flush(&bench.region);
    assert_eq!(compact(&bench.region), 2);
    assert_eq!((&*shown(&bench.region), bench.all()), ("level 0:1", before));
}

/// Random writes, flushes, compactions, losses of power and changes of settings. A reader must see what was written,
/// and stripes must cover all rows without gaps.
#[test]
fn no_cell_is_lost_or_comes_back() {
    for seed in 0..60u64 {
        let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 33) % below
        };
        let numbers = |random: &mut dyn FnMut(u64) -> u64| StripeOptions {
            initial_count: 1 + random(4) as usize,
            split_size: Some([1, 2_500, 6_000, 1 << 20][random(4) as usize]),
            split_parts: [2.0, 1.5, 3.0][random(3) as usize],
            flush_to_level0: random(3) == 0,
            level0_files_min: 1 + random(3) as usize,
            files_min: Some(2 + random(2) as usize),
            files_max: Some(3 + random(4) as usize),
            split_imbalance_max: 1.5,
        };
        let mut bench = bench(family(), numbers(&mut random));
        // The newest timestamp of each row, and whether it is a put.
        let mut expected: BTreeMap<String, (i64, bool)> = BTreeMap::new();
        let (mut compacted, mut stripes_max) = (0, 0);
        for step in 1..=120i64 {
            match random(10) {
                0..=4 => {
                    let row = format!("r{:02}", random(40));
                    let is_put = random(4) > 0;
                    match is_put {
                        false => bench.delete(&row, "f:q", step, CellType::DeleteColumn),
                        true => bench.put(&row, "f:q", step, "v"),
                    }
                    expected.insert(row, (step, is_put));
                }
                5 | 6 => _ = flush(&bench.region),
                7 => compacted += compact(&bench.region),
                8 => {
                    let options = match random(5) {
                        0 => RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() },
                        _ => striped(numbers(&mut random)),
                    };
                    bench.region.tune(&options);
                }
                _ => {
                    let files = bench.files.crash(seed + step as u64);
                    let options = striped(numbers(&mut random));
                    bench = Bench::open_with(files, bench.world.clone(), bench.table.clone(), options);
                }
            }
            let there = expected.iter().filter(|(_, (_, is_put))| *is_put);
            let all: Vec<String> = there.map(|(row, (at, _))| format!("{row}/f:q@{at}=v")).collect();
            assert_eq!(bench.all(), all.join(" "), "seed {seed}, step {step}, {}", shown(&bench.region));
            let files = bench.region.stores[0].view.load().files.clone();
            let stripes = Stripes::of(files.iter().map(|file| file.stripe.as_ref())).stripes;
            stripes_max = stripes_max.max(stripes.len());
            for pair in stripes.windows(2) {
                assert_eq!(pair[0].range.end, pair[1].range.start, "seed {seed}, step {step}");
            }
        }
        assert!(compacted > 0 || stripes_max <= 4, "seed {seed} compacts nothing");
    }
}
