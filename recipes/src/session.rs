//! The part that all recipes share: a cluster, fresh tables, printed lines, and checks.

use std::error::Error;
use std::io::Write;

use bytes::Bytes;
use client::{Cluster, Table};
use proto::catalog::TableState;
use proto::{FamilyDescriptor, TableDescriptor, TableName};

/// The result of a recipe; the error is for people.
pub(crate) type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Ends the recipe with a message unless the condition holds.
macro_rules! check {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!("{}:{}: {}", file!(), line!(), format_args!($($what)+)).into());
        }
    };
}
pub(crate) use check;

/// Prints a line that must be the same on every cluster.
pub(crate) fn say(line: &str) {
    // If nobody reads the output, there is nothing to do.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line that differs from run to run, such as a measured figure.
pub(crate) fn note(line: &str) {
    say(&format!("# {line}"));
}

/// A cluster on which recipes run.
pub(crate) struct Session {
    pub(crate) cluster: Cluster,
}

impl Session {
    pub(crate) fn new(cluster: Cluster) -> Session {
        Session { cluster }
    }

    /// Returns an empty table with these families, split at these keys. A table of this name is dropped first.
    pub(crate) async fn fresh_table(
        &self,
        name: &str,
        families: impl IntoIterator<Item = FamilyDescriptor>,
        splits: &[Bytes],
    ) -> Done<Table> {
        let admin = self.cluster.admin();
        let table: TableName = name.parse()?;
        if let Some(state) = admin.table_state(&table).await? {
            if state == TableState::Enabled {
                admin.disable_table(&table).await?;
            }
            admin.delete_table(&table).await?;
        }
        let mut descriptor = TableDescriptor::new(table);
        for family in families {
            descriptor.set_family(family);
        }
        admin.create_table(&descriptor, splits).await?;
        Ok(self.cluster.table(name)?)
    }
}

/// Returns a family with HBase's defaults.
pub(crate) fn family(name: &'static str) -> Done<FamilyDescriptor> {
    Ok(FamilyDescriptor::new(name)?)
}

/// Returns bytes as text, for keys and values that are text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
