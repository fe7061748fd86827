//! The configuration as a table for display.

use std::fmt;

use crate::{Conf, Origin, keys};

/// One key in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub name: &'static str,
    /// The value of the key as text, with variables replaced where possible.
    pub value: String,
    /// The unit of a number without one. Empty if the kind has none.
    pub unit: &'static str,
    /// Where the value was set.
    pub origin: Origin,
    /// The default of the key.
    pub default: &'static str,
    /// What the key does.
    pub meaning: &'static str,
}

/// All declared keys, sorted by name, for display as aligned columns: name, value with unit, origin.
#[derive(Debug)]
pub struct Table<'a> {
    conf: &'a Conf,
}

impl<'a> Table<'a> {
    pub(crate) fn new(conf: &'a Conf) -> Table<'a> {
        Table { conf }
    }

    /// Returns a row for each declared key, sorted by name.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = keys::all()
            .map(|key| {
                let (text, origin) = self.conf.find(key.name(), key.default_text());
                // `check` reports a cycle of variables. Here its text is shown as written.
                let value = crate::expand::expand(self.conf, key.name(), text);
                Row {
                    name: key.name(),
                    value: value.unwrap_or_else(|_| text.to_owned()),
                    unit: key.unit(),
                    origin,
                    default: key.default_text(),
                    meaning: key.meaning(),
                }
            })
            .collect();
        rows.sort_by_key(|row| row.name);
        rows
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let shown = |row: &Row| match row.unit {
            "" => row.value.clone(),
            unit => format!("{} {unit}", row.value),
        };
        let name_width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let value_width = rows.iter().map(|row| shown(row).len()).max().unwrap_or(0);
        for row in &rows {
            writeln!(f, "{:name_width$}  {:value_width$}  {}", row.name, shown(row), row.origin)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_value_unit_and_origin() {
        let conf = Conf::new().with_definition("hbase.regionserver.port=0").expect("definition");
        let printed = conf.table().to_string();
        let line = |name: &str| printed.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
        assert!(line("hbase.regionserver.port ").ends_with("-D"));
        let timeout = line("hbase.client.scanner.timeout.period ");
        assert!(timeout.contains("60000 ms") && timeout.ends_with("default"), "{timeout}");
        assert!(printed.lines().is_sorted());
    }
}
