//! Compares our schemas with HBase's own descriptors: HBase must have every message, field and enum of ours.
//! `omissions.rs` lists what HBase has and we do not, with the reasons.
//!
//! `proof/java/descriptors/check` extracts the descriptors from HBase's jars, and also runs this test.

#[path = "../schemas/compiled.rs"]
mod compiled;
mod flatten;
mod omissions;

use flatten::{Kind, flatten};
use prost::Message;

#[test]
#[expect(clippy::disallowed_methods, reason = "the dump is a real file")]
fn our_schemas_are_hbases() {
    let path = std::env::var("HBASE_DESCRIPTORS")
        .expect("HBASE_DESCRIPTORS names the dump; run proof/java/descriptors/check");
    let dump = std::fs::read(&path).unwrap_or_else(|error| panic!("the dump {path} cannot be read: {error}"));
    let theirs =
        flatten(&prost_types::FileDescriptorSet::decode(&*dump).expect("the dump is a set of descriptors"));
    let ours = flatten(&compiled::compiled());
    // An incomplete dump must not pass as agreement.
    assert!(theirs.len() > 500, "only {} types in the dump", theirs.len());

    let mut wrong = Vec::new();
    for (name, our) in &ours {
        match theirs.get(name) {
            None if omissions::TYPES_BESIDE.contains(&&**name) => {}
            None => wrong.push(format!("{name}: HBase has no such type")),
            Some(their) => compare(name, our, their, &mut wrong),
        }
    }
    for name in theirs.keys().filter(|name| !ours.contains_key(*name)) {
        if omissions::reason(name, &theirs[name].file).is_none() {
            wrong.push(format!("{name} ({}): HBase's, not carried, and no reason given", theirs[name].file));
        }
    }
    for (pattern, _) in omissions::FILES.iter().chain(omissions::TYPES) {
        let used = theirs.iter().any(|(name, their)| {
            !ours.contains_key(name) && (their.file == *pattern || omissions::is_within(name, pattern))
        });
        if !used {
            wrong.push(format!("{pattern}: listed as omitted, and is not"));
        }
    }
    for (name, field) in omissions::LATER.iter().chain(omissions::OURS) {
        let has = |types: &std::collections::BTreeMap<String, flatten::Type>| {
            types.get(*name).is_some_and(|found| found.members.contains_key(*field))
        };
        if !has(&ours) || has(&theirs) {
            wrong.push(format!("{name}.{field}: listed as not HBase's, and is, or is nobody's"));
        }
    }
    for name in omissions::TYPES_BESIDE {
        if !ours.contains_key(*name) || theirs.contains_key(*name) {
            wrong.push(format!("{name}: listed as not HBase's, and is, or is nobody's"));
        }
    }
    assert!(wrong.is_empty(), "{} differences from HBase:\n{}", wrong.len(), wrong.join("\n"));
    let members: usize = ours.values().map(|our| our.members.len()).sum();
    assert!(members > 1000, "only {members} fields and values compared");
}

/// Adds every difference between two types of one name to `wrong`, including fields that only one of them has.
fn compare(name: &str, our: &flatten::Type, their: &flatten::Type, wrong: &mut Vec<String>) {
    if our.kind != their.kind {
        wrong.push(format!("{name}: a {:?}, in HBase a {:?}", our.kind, their.kind));
    }
    let part = if our.kind == Kind::Enum { "value" } else { "field" };
    for (member, shape) in &our.members {
        match their.members.get(member) {
            None if omissions::LATER
                .iter()
                .chain(omissions::OURS)
                .any(|known| *known == (name, member.as_str())) => {}
            None => wrong.push(format!("{name}: HBase has no {part} {member}")),
            Some(other) if other != shape => {
                wrong.push(format!("{name}.{member}: {shape}, in HBase {other}"))
            }
            Some(_) => {}
        }
    }
    for member in their.members.keys().filter(|member| !our.members.contains_key(*member)) {
        wrong.push(format!("{name}: {part} {member} of HBase is missing"));
    }
}

#[test]
fn a_difference_of_any_sort_is_noticed() {
    let base = flatten(&compiled::compiled());
    let name = "hbase.pb.RegionInfo";
    let differences = |change: &dyn Fn(&mut flatten::Type)| {
        let mut changed = base[name].clone();
        change(&mut changed);
        let mut wrong = Vec::new();
        compare(name, &base[name], &changed, &mut wrong);
        wrong.len()
    };
    assert_eq!(differences(&|_| {}), 0);
    assert_eq!(differences(&|t| t.kind = Kind::Enum), 1);
    assert_eq!(differences(&|t| drop(t.members.remove("split"))), 1);
    assert_eq!(differences(&|t| drop(t.members.insert("more".into(), "9".into()))), 1);
    assert_eq!(
        differences(&|t| *t.members.get_mut("split").expect("there") = "optional string = 6".into()),
        1
    );
}
