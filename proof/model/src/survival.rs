//! Computes which rows a region may show after a crash, from the list of all writes.
//!
//! The model has all writes in their order, and the number of acknowledged ones. A reader sees what the definition
//! says: all cells, ordered; markers mask cells up to their timestamp; of the rest the newest versions. The model has
//! no memstore, files, flushes or compactions.
//!
//! After a crash every state is right that a *prefix* of the writes explains, if it contains all acknowledged ones. The
//! log keeps order, so a write under way may survive, but never without the writes before it. [`Model::settle`] finds
//! that prefix, or says what is wrong.
//!
//! The model does not know *when* versions are dropped. So a workload must not delete a version above an older one that
//! a flush may have dropped; HBase's own results depend on that, too. Here markers mask a column or family, and
//! timestamps grow.

use std::collections::BTreeMap;
use std::fmt;

/// Row, family, qualifier.
pub type Column = (Vec<u8>, Vec<u8>, Vec<u8>);

/// The visible versions of each column, newest first.
pub type Visible = BTreeMap<Column, Vec<(i64, Vec<u8>)>>;

/// One cell of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The column. The qualifier of a family's marker is empty.
    pub column: Column,
    /// The timestamp in ms since 1970.
    pub timestamp: i64,
    /// The kind of cell.
    pub what: What,
}

/// The kind of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A value.
    Put(Vec<u8>),
    /// A marker that masks the column up to the timestamp.
    DeleteColumn,
    /// A marker that masks all columns of row and family up to the timestamp.
    DeleteFamily,
}

/// All writes to one region, across crashes.
#[derive(Clone, Debug)]
pub struct Model {
    max_versions: usize,
    writes: Vec<Vec<Edit>>,
    acknowledged: usize,
}

impl Model {
    /// Creates a model without writes; families keep `max_versions` versions.
    pub fn new(max_versions: usize) -> Model {
        Model { max_versions, writes: Vec::new(), acknowledged: 0 }
    }

    /// Begins a write, all of whose cells become visible together or not at all.
    pub fn begin(&mut self, write: Vec<Edit>) {
        self.writes.push(write);
    }

    /// Records that the last write was refused and did not happen.
    ///
    /// # Panics
    /// When it was acknowledged, or when no write was begun.
    pub fn refuse(&mut self) {
        assert!(self.writes.len() > self.acknowledged, "what was acknowledged was not refused");
        self.writes.pop();
    }

    /// Records that the last write, and so every earlier one, was acknowledged.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.writes.len();
    }

    /// Returns the number of writes that were begun.
    pub fn count(&self) -> usize {
        self.writes.len()
    }

    /// Returns what is visible if nothing crashed.
    pub fn visible(&self) -> Visible {
        self.visible_after(self.writes.len())
    }

    /// Returns what is visible after the first `count` writes. `count` must not exceed [`count`](Model::count).
    pub fn visible_after(&self, count: usize) -> Visible {
        let edits: Vec<&Edit> = self.writes[..count].iter().flatten().collect();
        let masked = |edit: &Edit| {
            edits.iter().any(|marker| {
                let (row, family, qualifier) = &marker.column;
                let here = (row, family) == (&edit.column.0, &edit.column.1);
                let masks = match marker.what {
                    What::Put(_) => false,
                    What::DeleteColumn => here && *qualifier == edit.column.2,
                    What::DeleteFamily => here,
                };
                masks && edit.timestamp <= marker.timestamp
            })
        };
        let mut visible = Visible::new();
        for edit in &edits {
            if let What::Put(value) = &edit.what
                && !masked(edit)
            {
                let versions = visible.entry(edit.column.clone()).or_default();
                // Of two puts at one timestamp the later is the version.
                versions.retain(|(timestamp, _)| *timestamp != edit.timestamp);
                versions.push((edit.timestamp, value.clone()));
            }
        }
        for versions in visible.values_mut() {
            versions.sort_by_key(|(timestamp, _)| std::cmp::Reverse(*timestamp));
            versions.truncate(self.max_versions);
        }
        visible
    }

    /// Compares with what a reader `found` after a crash. Forgets the writes that did not survive. The others count as
    /// acknowledged from now on, because a later crash must not undo what a reader saw.
    pub fn settle(&mut self, found: &Visible) -> Result<(), Box<Mismatch>> {
        // Of several prefixes with the same result the longest is as good as any.
        let prefix =
            (self.acknowledged..=self.writes.len()).rev().find(|count| self.visible_after(*count) == *found);
        match prefix {
            Some(count) => {
                self.writes.truncate(count);
                self.acknowledged = count;
                Ok(())
            }
            None => Err(Box::new(self.mismatch(found))),
        }
    }

    /// Returns the first difference between `found` and what all acknowledged writes show.
    fn mismatch(&self, found: &Visible) -> Mismatch {
        let expected = self.visible_after(self.acknowledged);
        let column = expected
            .keys()
            .chain(found.keys())
            .find(|column| expected.get(*column) != found.get(*column))
            .cloned()
            .unwrap_or_default();
        Mismatch {
            acknowledged: self.acknowledged,
            begun: self.writes.len(),
            expected: expected.get(&column).cloned(),
            found: found.get(&column).cloned(),
            column,
        }
    }
}

/// The error when no prefix of the writes explains the found state.
#[derive(Debug)]
pub struct Mismatch {
    /// Number of writes that were acknowledged.
    pub acknowledged: usize,
    /// Number of writes that were begun.
    pub begun: usize,
    /// The first column that differs from what the acknowledged writes show.
    pub column: Column,
    /// The versions of the column by the model; `None` if it has none.
    pub expected: Option<Vec<(i64, Vec<u8>)>>,
    /// The versions of the column as found; `None` if it has none.
    pub found: Option<Vec<(i64, Vec<u8>)>>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, family, qualifier) = &self.column;
        write!(
            f,
            "no prefix of {}..={} writes explains row '{}' column '{}:{}': expected {:?}, found {:?}",
            self.acknowledged,
            self.begun,
            row.escape_ascii(),
            family.escape_ascii(),
            qualifier.escape_ascii(),
            self.expected,
            self.found
        )
    }
}

impl std::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(column: &str, timestamp: i64, what: What) -> Edit {
        Edit { column: (b"row".to_vec(), b"f".to_vec(), column.as_bytes().to_vec()), timestamp, what }
    }

    fn put(column: &str, timestamp: i64, value: &str) -> Edit {
        edit(column, timestamp, What::Put(value.as_bytes().to_vec()))
    }

    fn seen(model: &Model, column: &str) -> Vec<(i64, String)> {
        let column = edit(column, 0, What::DeleteColumn).column;
        let versions = model.visible().remove(&column).unwrap_or_default();
        versions.into_iter().map(|(at, value)| (at, String::from_utf8_lossy(&value).into_owned())).collect()
    }

    #[test]
    fn versions_markers_and_order_follow_the_definition() {
        let mut model = Model::new(2);
        for (timestamp, value) in [(3, "three"), (1, "one"), (2, "two"), (3, "three again")] {
            model.begin(vec![put("a", timestamp, value)]);
        }
        model.begin(vec![put("b", 5, "five")]);
        assert_eq!(seen(&model, "a"), [(3, "three again".to_owned()), (2, "two".to_owned())]);
        model.begin(vec![edit("a", 2, What::DeleteColumn)]);
        assert_eq!(seen(&model, "a"), [(3, "three again".to_owned())]);
        model.begin(vec![edit("", 4, What::DeleteFamily)]);
        assert_eq!(seen(&model, "a"), []);
        assert_eq!(seen(&model, "b"), [(5, "five".to_owned())]);
    }

    #[test]
    fn a_death_may_take_what_was_in_flight_and_nothing_else() {
        let mut model = Model::new(1);
        model.begin(vec![put("a", 1, "one"), put("b", 1, "one")]);
        model.acknowledge();
        model.begin(vec![put("a", 2, "two"), put("b", 2, "two")]);
        model.begin(vec![put("a", 3, "three")]);

        assert!(model.clone().settle(&model.visible_after(0)).is_err(), "an acknowledged write is gone");
        for survived in 1..=3 {
            let mut after = model.clone();
            after.settle(&model.visible_after(survived)).expect("a prefix");
            assert_eq!((after.count(), after.acknowledged), (survived, survived));
        }
        let mut half = model.visible_after(2);
        half.extend(model.visible_after(1).into_iter().take(1));
        let error = model.clone().settle(&half).expect_err("half a write").to_string();
        assert!(error.contains("f:a") || error.contains("f:b"), "{error}");
        let mut hole = model.visible_after(1);
        let third = model.visible_after(3);
        let (column, versions) = third.iter().next().expect("column a");
        hole.insert(column.clone(), versions.clone());
        assert!(model.clone().settle(&hole).is_err(), "the third without the second");
    }
}
