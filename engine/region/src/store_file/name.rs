//! Names of store files. A name says which file's bytes belong to it.
//!
//! ```text
//! own file    0f3a…                               bytes in this folder
//! link        [ns=]table=region-0f3a…             empty file; the bytes are those of another store's file
//! bulk load   0f3a…_SeqId_N_                      the load gave the file's cells the sequence id N
//! reference   0f3a….region                        half of a file of `region`, a region of the same table
//!             [ns=]table=region-0f3a….region      half of a file that `region` had as a link
//! ```
//!
//! The bytes of a link are first looked for where the file was made, then among MOB files, then in the archive. Source:
//! HBase 2.6 `HFileLink`, `StoreFileInfo`.

use cell::SequenceId;
use proto::{EncodedName, TableName};
use storage::FileName;

/// The archive's folder, which repeats the layout of the root.
pub(crate) const ARCHIVE: &str = "archive";
/// The folder of MOB files, which repeats the layout of the root.
pub(crate) const MOB: &str = "mobdir";
/// Prefix of the folder of a file's back references, before the file's name.
const BACK_REFERENCES: &str = ".links-";
/// The text before the sequence id in the name of a bulk-loaded file.
const LOADED_AS: &str = "_SeqId_";

/// Length of the path of a usual store file, in bytes.
const PATH_BYTES: usize = 160;

/// A store, identified by its folder: a family in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlace {
    /// The path before `data`; empty if the root of the storage is HBase's root.
    root: FileName,
    pub(crate) table: TableName,
    pub(crate) region: String,
    pub(crate) family: String,
}

impl StorePlace {
    /// Returns the store in the folder `[root/]data/ns/table/region/family`; `None` for any other folder.
    pub(crate) fn of_folder(folder: &FileName) -> Option<StorePlace> {
        let parts: Vec<&str> = folder.as_str().split('/').collect();
        let [before @ .., "data", namespace, table, region, family] = &parts[..] else { return None };
        let table = TableName::new(namespace, table).ok()?;
        let root = if before.is_empty() { FileName::root() } else { FileName::new(before.join("/")) };
        Some(StorePlace { root, table, region: (*region).to_owned(), family: (*family).to_owned() })
    }

    fn below(&self, top: Option<&str>) -> FileName {
        self.path(top, &[&self.region, &self.family])
    }

    fn table_below(&self, top: Option<&str>) -> FileName {
        self.path(top, &[])
    }

    /// Returns the path `rest` in the table's folder below `top`. The janitor calls this for each listed file, so the name
    /// is built at once.
    fn path(&self, top: Option<&str>, rest: &[&str]) -> FileName {
        let table = ["data", self.table.namespace(), self.table.qualifier()];
        let before =
            [self.root.as_str(), top.unwrap_or_default()].into_iter().filter(|part| !part.is_empty());
        let parts = before.chain(table).chain(rest.iter().copied());
        let mut name = String::with_capacity(PATH_BYTES);
        for part in parts {
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(part);
        }
        FileName::new(name)
    }

    /// Returns the folder of the store's table.
    pub(crate) fn table_folder(&self) -> FileName {
        self.table_below(None)
    }

    /// Returns the folder of the store.
    pub(crate) fn folder(&self) -> FileName {
        self.below(None)
    }

    /// Returns the folder of the store in the archive.
    pub(crate) fn archive(&self) -> FileName {
        self.below(Some(ARCHIVE))
    }

    /// Returns the place of the MOB files to which stores of this family in `table` refer.
    pub(crate) fn mob_place(&self, table: &TableName) -> StorePlace {
        let region = layout::mob_region(table).to_string();
        StorePlace { table: table.clone(), region, ..self.clone() }
    }

    /// Returns the folder of MOB files, if this is a [MOB place](StorePlace::mob_place).
    pub(crate) fn mob_folder(&self) -> FileName {
        self.below(Some(MOB))
    }

    /// Returns the places where a MOB file can be to which stores of this family in `table` refer, the most likely
    /// first.
    pub(crate) fn mob_places_of(&self, table: &TableName, file: &str) -> [FileName; 2] {
        let place = self.mob_place(table);
        [place.mob_folder(), place.archive()].map(|folder| folder.join(file))
    }

    /// Returns the places where a file made in this store can be, the most likely first.
    pub(crate) fn places_of(&self, file: &str) -> Vec<FileName> {
        [None, Some(MOB), Some(ARCHIVE)].map(|top| self.path(top, &[&self.region, &self.family, file])).into()
    }

    /// Returns the folder of a file's back references; it has one back reference for each store that links to the file.
    pub(crate) fn back_references(&self, file: &str) -> FileName {
        self.archive().join(&format!("{BACK_REFERENCES}{file}"))
    }

    /// Returns the name of the back references that this store's links leave.
    pub(crate) fn as_back_reference(&self) -> String {
        format!("{}.{}", self.region, self.table.as_str().replace(':', "="))
    }

    /// Returns the store whose link has left a back reference with this name; `None` if the name cannot be parsed. Its
    /// family is the family of `self`.
    pub(crate) fn of_back_reference(&self, name: &str) -> Option<StorePlace> {
        let (region, table) = name.split_once('.')?;
        let table = table.replace('=', ":").parse().ok()?;
        Some(StorePlace { table, region: region.to_owned(), ..self.clone() })
    }
}

/// Returns the target of the link that has left this back reference; `None` for the name of any other file.
pub(crate) fn target_of(back: &FileName) -> Option<(StorePlace, String)> {
    let folder = back.parent()?;
    let file = folder.last().strip_prefix(BACK_REFERENCES)?.to_owned();
    let in_archive = folder.parent()?;
    let parts: Vec<&str> = in_archive.as_str().split('/').collect();
    let at = parts.len().checked_sub(6).filter(|&at| parts[at] == ARCHIVE)?;
    let store = [&parts[..at], &parts[at + 1..]].concat().join("/");
    Some((StorePlace::of_folder(&FileName::new(store))?, file))
}

/// The file of another store to which a link points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkTarget {
    pub(crate) table: TableName,
    pub(crate) region: EncodedName,
}

/// The error of a name that no store file has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?}: {problem}")]
pub(crate) struct InvalidName {
    name: String,
    problem: NameProblem,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameProblem {
    #[error("not a file of this folder")]
    OtherFolder,
    #[error("a link without a region")]
    LinkWithoutRegion,
    #[error("a link to an invalid table name")]
    LinkedTable,
    #[error("a link to an invalid region name")]
    LinkedRegion,
    #[error("a reference to an invalid region name")]
    ParentRegion,
    #[error("a reference without a file")]
    NoFile,
}

/// The parsed name of a store file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFileName {
    /// The target of a link, or of a reference to a link.
    pub(crate) link: Option<LinkTarget>,
    /// The name of the file with the bytes.
    pub(crate) file: String,
    /// For a reference, the region that had the file when it was split or merged.
    pub(crate) parent: Option<EncodedName>,
}

impl StoreFileName {
    /// Parses a name. The name comes from a list on disk, and is not trusted.
    pub(crate) fn parse(name: &str) -> Result<StoreFileName, InvalidName> {
        let fail = |problem| Err(InvalidName { name: name.to_owned(), problem });
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return fail(NameProblem::OtherFolder);
        }
        let (link, rest) = match name.rsplit_once('=') {
            None => (None, name),
            Some((table, rest)) => {
                let Some((region, rest)) = rest.split_once('-') else {
                    return fail(NameProblem::LinkWithoutRegion);
                };
                let Ok(table) = table.replace('=', ":").parse() else {
                    return fail(NameProblem::LinkedTable);
                };
                let Ok(region) = EncodedName::parse(region) else {
                    return fail(NameProblem::LinkedRegion);
                };
                (Some(LinkTarget { table, region }), rest)
            }
        };
        let (file, parent) = match rest.split_once('.') {
            Some((file, parent)) => match EncodedName::parse(parent) {
                Ok(parent) => (file, Some(parent)),
                Err(_) => return fail(NameProblem::ParentRegion),
            },
            None => (rest, None),
        };
        if file.is_empty() {
            return fail(NameProblem::NoFile);
        }
        Ok(StoreFileName { link, file: file.to_owned(), parent })
    }

    /// Returns the name of a link to a file of the store `of`. If that file is itself a link or a reference, the new
    /// link has the same target. Fails if `of` is not in a region's folder.
    pub(crate) fn link(of: &StorePlace, name: &StoreFileName) -> Result<StoreFileName, InvalidName> {
        let StorePlace { table, region, .. } = name.origin(of);
        let region = EncodedName::parse(&region)
            .map_err(|_| InvalidName { name: region, problem: NameProblem::LinkedRegion })?;
        let target = LinkTarget { table, region };
        Ok(StoreFileName { link: Some(target), ..name.clone() })
    }

    /// Returns the name of a reference to half of the file `name` in the region `parent`.
    pub(crate) fn reference(name: &StoreFileName, parent: &EncodedName) -> StoreFileName {
        StoreFileName { parent: Some(parent.clone()), ..name.clone() }
    }

    /// Returns the store that made the file; `here` is the store that lists this name.
    pub(crate) fn origin(&self, here: &StorePlace) -> StorePlace {
        let mut place = here.clone();
        if let Some(LinkTarget { table, region }) = &self.link {
            (place.table, place.region) = (table.clone(), region.to_string());
        } else if let Some(parent) = &self.parent {
            place.region = parent.to_string();
        }
        place
    }

    /// Returns the name of a bulk-loaded file whose cells have the sequence id `sequence`.
    pub(crate) fn loaded(file: &str, sequence: SequenceId) -> String {
        format!("{file}{LOADED_AS}{}_", sequence.0)
    }

    /// Returns the sequence id that a bulk load gave the file's cells; `None` for any other file.
    pub(crate) fn loaded_as(&self) -> Option<SequenceId> {
        let number = self.file.split_once(LOADED_AS)?.1.split('_').next()?;
        // HBase writes -1 if the load assigned no sequence id.
        number.parse::<i64>().ok().map(|number| SequenceId(u64::try_from(number).unwrap_or(0)))
    }

    /// For a reference to a link, returns the place of the parent's link, and `None` for any other name; `here` is the
    /// store that lists this name.
    pub(crate) fn link_of_parent(&self, here: &StorePlace) -> Option<FileName> {
        let parent = self.parent.as_ref().filter(|_| self.link.is_some())?;
        let store = StorePlace { region: parent.to_string(), ..here.clone() };
        Some(store.folder().join(&StoreFileName { parent: None, ..self.clone() }.to_string()))
    }

    /// Whether the bytes are in the folder of the store that lists this name.
    pub(crate) fn is_own(&self) -> bool {
        self.link.is_none() && self.parent.is_none()
    }
}

impl std::fmt::Display for StoreFileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(LinkTarget { table, region }) = &self.link {
            write!(f, "{}={region}-", table.as_str().replace(':', "="))?;
        }
        f.write_str(&self.file)?;
        self.parent.as_ref().map_or(Ok(()), |parent| write!(f, ".{parent}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: &str = "0123456789abcdef0123456789abcdef";
    const PARENT: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn names_have_hbases_form() {
        let here = StorePlace::of_folder(&FileName::new("data/ns/t/daughter/f")).expect("a store");
        let origin = |name: &str| {
            let parsed = StoreFileName::parse(name).expect("a name");
            assert_eq!(parsed.to_string(), name);
            let origin = parsed.origin(&here);
            (origin.places_of(&parsed.file).remove(0).to_string(), parsed.is_own())
        };
        assert_eq!(origin("abc123"), ("data/ns/t/daughter/f/abc123".to_owned(), true));
        assert_eq!(origin("abc_SeqId_4_").0, "data/ns/t/daughter/f/abc_SeqId_4_");
        assert_eq!(origin(&format!("abc.{PARENT}")), (format!("data/ns/t/{PARENT}/f/abc"), false));
        let link = format!("other=a-table.x={REGION}-abc");
        assert_eq!(origin(&link), (format!("data/other/a-table.x/{REGION}/f/abc"), false));
        let link = format!("a-table={REGION}-abc");
        assert_eq!(origin(&link), (format!("data/default/a-table/{REGION}/f/abc"), false));
        assert_eq!(origin(&format!("{link}.{PARENT}")).0, format!("data/default/a-table/{REGION}/f/abc"));
        let between = |name: &str| StoreFileName::parse(name).expect("a name").link_of_parent(&here);
        let parent = FileName::new(format!("data/ns/t/{PARENT}/f/{link}"));
        assert_eq!(between(&format!("{link}.{PARENT}")), Some(parent));
        assert_eq!((between(&link), between(&format!("abc.{PARENT}"))), (None, None));
    }

    #[test]
    fn the_name_of_a_bulk_loaded_file_has_its_sequence_id() {
        let loaded_as = |name: &str| StoreFileName::parse(name).expect("a name").loaded_as();
        let name = StoreFileName::loaded("abc", SequenceId(17));
        assert_eq!((name.as_str(), loaded_as(&name)), ("abc_SeqId_17_", Some(SequenceId(17))));
        assert_eq!(loaded_as(&format!("t={REGION}-{name}.{PARENT}")), Some(SequenceId(17)));
        assert_eq!((loaded_as("abc"), loaded_as("abc_SeqId_-1_")), (None, Some(SequenceId::ZERO)));
    }

    #[test]
    fn invalid_names_are_refused() {
        for (problem, names) in [
            (NameProblem::OtherFolder, &["", ".", "..", "a/b", "../x", "a\0"][..]),
            (NameProblem::LinkWithoutRegion, &["t=abc"]),
            (NameProblem::LinkedTable, &["=-"]),
            (NameProblem::LinkedRegion, &["t=r-abc"]),
            (NameProblem::ParentRegion, &["abc.", "abc.parent", ".filelist"]),
            (NameProblem::NoFile, &[&format!(".{PARENT}")]),
        ] {
            for name in names {
                let expected = InvalidName { name: (*name).to_owned(), problem };
                assert_eq!(StoreFileName::parse(name), Err(expected), "{name:?}");
            }
        }
        let outside = StorePlace::of_folder(&FileName::new("data/ns/t/region/f")).expect("a store");
        let own = StoreFileName::parse("abc").expect("a name");
        let refused = StoreFileName::link(&outside, &own).expect_err("no region is called so");
        assert_eq!(refused.to_string(), "\"region\": a link to an invalid region name");
    }

    #[test]
    fn back_references_name_their_store() {
        let target = StorePlace::of_folder(&FileName::new("root/data/ns/t/r/f")).expect("a store");
        let folder = target.back_references("abc");
        assert_eq!(folder.as_str(), "root/archive/data/ns/t/r/f/.links-abc");
        assert_eq!(target_of(&folder.join("x.other=clone")), Some((target.clone(), "abc".to_owned())));
        assert_eq!(target_of(&FileName::new("root/archive/data/ns/t/r/f/abc")), None);
        let linking = StorePlace::of_folder(&FileName::new("root/data/other/clone/x/f")).expect("a store");
        assert_eq!(linking.as_back_reference(), "x.other=clone");
        assert_eq!(target.of_back_reference("x.other=clone"), Some(linking));
        let default = StorePlace::of_folder(&FileName::new("data/default/t/r/f")).expect("a store");
        assert_eq!(default.as_back_reference(), "r.t");
        assert_eq!(default.of_back_reference("r.t"), Some(default.clone()));
    }

    #[test]
    fn a_link_to_a_link_is_a_link_to_its_file() {
        let here = StorePlace::of_folder(&FileName::new(format!("data/ns/t/{REGION}/f"))).expect("a store");
        let own = StoreFileName::parse("abc").expect("a name");
        let link = StoreFileName::link(&here, &own).expect("a region");
        assert_eq!(link.to_string(), format!("ns=t={REGION}-abc"));
        let half = StoreFileName::parse(&format!("abc.{PARENT}")).expect("a name");
        let link_of_half = StoreFileName::link(&here, &half).expect("a region");
        assert_eq!(link_of_half.to_string(), format!("ns=t={PARENT}-abc.{PARENT}"));
        let other = StorePlace { region: PARENT.to_owned(), ..here };
        assert_eq!(StoreFileName::link(&other, &link).expect("a region"), link);
    }
}
