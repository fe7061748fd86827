//! Selects the tables that a client asks about.

use javaregex::Regex;
use proto::{TableName, pb};
use rpc::Exception;

use crate::Master;
use crate::error::of_proto;
use crate::view::TableEntry;

/// A choice of tables, by names or by pattern and namespace.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// If the list is not empty, selects the tables that it names. Missing tables are left out.
    pub names: &'a [pb::TableName],
    /// If `names` is empty, selects tables whose whole name matches, with or without `default:`.
    pub regex: Option<&'a str>,
    /// Selects tables of this namespace. An empty name selects all, as gohbase sends it.
    pub namespace: Option<&'a str>,
    /// Whether system tables are selected as well.
    pub system: bool,
}

impl<'a> Selection<'a> {
    /// Selects all tables of a namespace.
    pub fn of_namespace(namespace: &'a str) -> Selection<'a> {
        Selection { names: &[], regex: None, namespace: Some(namespace), system: true }
    }

    /// Selects all user tables.
    pub fn of_users() -> Selection<'static> {
        Selection { names: &[], regex: None, namespace: None, system: false }
    }

    /// Returns the predicate that decides by name whether a table is selected. Used if `names` is empty.
    fn test(&self) -> Result<impl Fn(&TableName) -> bool + use<'a>, Exception> {
        // As with Java's `matches`, the pattern must match the whole name.
        let regex = match self.regex {
            None => None,
            Some(pattern) => Some(Regex::new(pattern, 0).map_err(|error| {
                Exception::do_not_retry(format!(
                    "java.util.regex.PatternSyntaxException: {error} in {pattern}"
                ))
            })?),
        };
        let (namespace, system) = (self.namespace.filter(|name| !name.is_empty()), self.system);
        Ok(move |table: &TableName| {
            // A pattern that would need too much backtracking counts as one that matches nothing.
            let matches = |regex: &Regex| {
                let plain = regex.matches(table.as_str()).unwrap_or(false);
                plain
                    || regex.matches(&format!("{}:{}", table.namespace(), table.qualifier())).unwrap_or(false)
            };
            (system || !table.is_system())
                && namespace.is_none_or(|namespace| table.namespace() == namespace)
                && regex.as_ref().is_none_or(matches)
        })
    }
}

impl Master {
    /// Returns the schemas of the selected tables.
    pub(crate) fn descriptors(&self, selection: &Selection<'_>) -> Result<Vec<pb::TableSchema>, Exception> {
        self.select(selection, |_, table| pb::TableSchema::from(&*table.descriptor))
    }

    /// Returns the names of the selected tables.
    pub(crate) fn table_names(&self, selection: &Selection<'_>) -> Result<Vec<pb::TableName>, Exception> {
        self.select(selection, |name, _| name.into())
    }

    /// Returns the schemas of the user tables that are enabled, or, with `enabled` false, of those that are disabled.
    pub(crate) fn descriptors_by_state(&self, enabled: bool) -> Vec<pb::TableSchema> {
        self.by_state(enabled, |table| pb::TableSchema::from(&*table.descriptor))
    }

    /// Returns the names of the user tables that are enabled, or, with `enabled` false, of those that are disabled.
    pub(crate) fn names_by_state(&self, enabled: bool) -> Vec<pb::TableName> {
        self.by_state(enabled, |table| table.descriptor.name().into())
    }

    /// Sorts tables as HBase lists them: by namespace, then by the name in it.
    fn in_order<'a>(
        tables: impl Iterator<Item = (&'a TableName, &'a TableEntry)>,
    ) -> Vec<(&'a TableName, &'a TableEntry)> {
        let mut all: Vec<_> = tables.collect();
        all.sort_by_key(|(name, _)| (name.namespace(), name.qualifier()));
        all
    }

    fn by_state<T>(&self, enabled: bool, form: impl Fn(&TableEntry) -> T) -> Vec<T> {
        use proto::catalog::TableState;
        let state = if enabled { TableState::Enabled } else { TableState::Disabled };
        self.read_view(|view| {
            let tables = view.tables.iter().filter(|(name, table)| !name.is_system() && table.state == state);
            Self::in_order(tables).into_iter().map(|(_, table)| form(table)).collect()
        })
    }

    fn select<T>(
        &self,
        selection: &Selection<'_>,
        form: impl Fn(&TableName, &TableEntry) -> T,
    ) -> Result<Vec<T>, Exception> {
        if !selection.names.is_empty() {
            let names: Result<Vec<_>, _> = selection.names.iter().map(TableName::try_from).collect();
            let names = names.map_err(of_proto)?;
            return Ok(self.read_view(|view| {
                let known = names.iter().filter_map(|name| view.tables.get_key_value(name));
                known.map(|(name, table)| form(name, table)).collect()
            }));
        }
        let test = selection.test()?;
        Ok(self.read_view(|view| {
            let chosen = view.tables.iter().filter(|(name, _)| test(name));
            Self::in_order(chosen).into_iter().map(|(name, table)| form(name, table)).collect()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(selection: &Selection<'_>) -> Vec<&'static str> {
        let test = selection.test().unwrap();
        let all = ["hbase:meta", "users", "users2", "shop:users"];
        all.into_iter().filter(|name| test(&name.parse().unwrap())).collect()
    }

    #[test]
    fn a_pattern_matches_the_whole_name_with_or_without_default() {
        let with = |regex| chosen(&Selection { regex: Some(regex), ..Selection::of_users() });
        assert_eq!(with("users"), ["users"]);
        assert_eq!(with("default:users"), ["users"]);
        assert_eq!(with("users.*"), ["users", "users2"]);
        assert_eq!(with("shop:.*|users"), ["users", "shop:users"]);
        assert_eq!(with(".*"), ["users", "users2", "shop:users"]);
    }

    #[test]
    fn system_tables_and_other_namespaces_are_left_out_unless_asked_for() {
        assert_eq!(chosen(&Selection::of_users()), ["users", "users2", "shop:users"]);
        assert_eq!(chosen(&Selection::of_namespace("hbase")), ["hbase:meta"]);
        assert_eq!(chosen(&Selection::of_namespace("shop")), ["shop:users"]);
        assert_eq!(chosen(&Selection::of_namespace("")), ["hbase:meta", "users", "users2", "shop:users"]);
    }

    #[test]
    fn a_pattern_that_is_none_is_refused_for_good() {
        let selection = Selection { regex: Some("("), ..Selection::of_users() };
        let refusal = selection.test().map(|_| ()).unwrap_err();
        assert!(refusal.do_not_retry && refusal.message.contains("PatternSyntaxException"), "{refusal}");
    }
}
