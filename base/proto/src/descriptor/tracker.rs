//! The store file tracker that a descriptor names.
//!
//! HBase has three trackers. With DEFAULT, the files in a store's folder are the store's files. With FILE, a list in
//! the store's folder names them. With MIGRATION, a store migrates from DEFAULT to FILE or back. A family's own tracker
//! counts, or else that of its table, or else that of the site's configuration. Source: HBase 2.6
//! `StoreFileTrackerFactory`, `StoreUtils.createStoreConfiguration`.

use super::{FamilyDescriptor, TableDescriptor};

/// The key of the tracker, in attributes and CONFIGURATION of tables and families, and in the site's configuration.
pub const TRACKER: &str = "hbase.store.file-tracker.impl";
/// The key of the tracker from which a store migrates.
pub const MIGRATION_SOURCE: &str = "hbase.store.file-tracker.migration.src.impl";
/// The key of the tracker to which a store migrates.
pub const MIGRATION_TARGET: &str = "hbase.store.file-tracker.migration.dst.impl";

/// The package of HBase's trackers.
const PACKAGE: &str = "org.apache.hadoop.hbase.regionserver.storefiletracker.";

/// A store file tracker of HBase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackerKind {
    /// The files in the store's folder are the store's files.
    Default,
    /// A list in the store's folder names its files.
    File,
    /// The store migrates from a source to a target, which are the two other trackers. During the migration HBase reads
    /// by the source and writes to both.
    Migration,
}

impl TrackerKind {
    /// All trackers.
    pub const ALL: [TrackerKind; 3] = [TrackerKind::Default, TrackerKind::File, TrackerKind::Migration];

    /// Returns the tracker of this name, in any case, or of this Java class; `None` for any other text.
    pub fn parse(name: &str) -> Option<TrackerKind> {
        TrackerKind::ALL
            .into_iter()
            .find(|known| name.eq_ignore_ascii_case(known.as_str()) || name == known.class_name())
    }

    /// Returns the short name.
    pub fn as_str(self) -> &'static str {
        match self {
            TrackerKind::Default => "DEFAULT",
            TrackerKind::File => "FILE",
            TrackerKind::Migration => "MIGRATION",
        }
    }

    /// Returns the full name of HBase's class.
    pub fn class_name(self) -> String {
        let class = match self {
            TrackerKind::Default => "Default",
            TrackerKind::File => "FileBased",
            TrackerKind::Migration => "Migration",
        };
        format!("{PACKAGE}{class}StoreFileTracker")
    }
}

/// The trackers that a descriptor names for a table, or for one family, as the user wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackerChoice<'a> {
    /// The tracker.
    pub tracker: &'a str,
    /// The tracker from which the store migrates.
    pub source: Option<&'a str>,
    /// The tracker to which the store migrates.
    pub target: Option<&'a str>,
}

impl<'a> TrackerChoice<'a> {
    /// Returns the trackers that the table itself names, or else `site`. Its families may name others.
    pub fn of_table(table: &'a TableDescriptor, site: &'a str) -> Self {
        Self::read(site, |key| table.attributes().text(key))
    }

    /// Returns the trackers that the family names, or else those of the table, or else `site`.
    pub fn of_family(table: &'a TableDescriptor, family: &'a FamilyDescriptor, site: &'a str) -> Self {
        Self::read(site, |key| {
            let own = family.attributes().text(key).or_else(|| family.configured(key));
            own.or_else(|| table.attributes().text(key))
        })
    }

    fn read(site: &'a str, value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let value = |key| value(key).filter(|value| !value.is_empty());
        let tracker = value(TRACKER).unwrap_or(site);
        Self { tracker, source: value(MIGRATION_SOURCE), target: value(MIGRATION_TARGET) }
    }

    /// Returns the tracker by which HBase finds the store's files; during a migration this is the source. Returns
    /// `None` if the name is unknown, or if a migration has no valid source.
    pub fn reads_by(self) -> Option<TrackerKind> {
        match TrackerKind::parse(self.tracker)? {
            TrackerKind::Migration => {
                TrackerKind::parse(self.source?).filter(|source| *source != TrackerKind::Migration)
            }
            tracker => Some(tracker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableName;

    #[test]
    fn names_are_read_in_any_case_and_as_classes() {
        for tracker in TrackerKind::ALL {
            let name = tracker.as_str();
            for said in [name.to_owned(), name.to_lowercase(), tracker.class_name()] {
                assert_eq!(TrackerKind::parse(&said), Some(tracker), "{said}");
            }
            assert_eq!(TrackerKind::parse(&tracker.class_name().to_lowercase()), None, "classes have a case");
        }
        for unknown in ["", "FILES", " FILE", "org.example.Tracker"] {
            assert_eq!(TrackerKind::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_family_counts_before_its_table_and_a_table_before_the_site() {
        let mut table = TableDescriptor::new(TableName::new("default", "t").expect("a name"));
        let mut family = FamilyDescriptor::new("f").expect("a name");
        let of = |table: &TableDescriptor, family: &FamilyDescriptor| {
            let choice = TrackerChoice::of_family(table, family, "site");
            (choice.tracker.to_owned(), choice.source.map(str::to_owned))
        };
        assert_eq!(of(&table, &family), ("site".into(), None));
        table.attributes_mut().set(TRACKER.into(), "of table".into());
        table.attributes_mut().set(MIGRATION_SOURCE.into(), "source of table".into());
        assert_eq!(of(&table, &family), ("of table".into(), Some("source of table".into())));
        assert_eq!(TrackerChoice::of_table(&table, "site").tracker, "of table");
        family.configure(TRACKER, "of configuration");
        assert_eq!(of(&table, &family), ("of configuration".into(), Some("source of table".into())));
        let family = family.with(TRACKER, "of attributes");
        assert_eq!(of(&table, &family).0, "of attributes");
    }

    #[test]
    fn a_migration_reads_by_its_source() {
        let reads_by = |tracker, source| TrackerChoice { tracker, source, target: Some("FILE") }.reads_by();
        assert_eq!(reads_by("file", None), Some(TrackerKind::File));
        assert_eq!(reads_by("MIGRATION", Some("default")), Some(TrackerKind::Default));
        for (tracker, source) in [("MIGRATION", None), ("MIGRATION", Some("MIGRATION")), ("x", None)] {
            assert_eq!(reads_by(tracker, source), None);
        }
    }
}
