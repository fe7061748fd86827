//! The actions that the pages offer, each with its inputs, the equivalent line of HBase's shell, and its effect.
//!
//! [`crate::guard`] decides who may run an action.

use bytes::Bytes;
use client::Admin;
use proto::{RegionInfo, TableName};

use crate::node::Console;
use crate::query::Query;
use crate::shell::{escape, quoted, unescape};

/// An action on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Flush,
    Compact,
    MajorCompact,
    Split,
    Merge,
    Snapshot,
    Clone,
    Restore,
    DeleteSnapshot,
    Disable,
    Enable,
    Truncate,
    Drop,
}

/// The choices that an input offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Regions,
    Snapshots,
    Nothing,
}

/// An input of an action, besides the name that confirms it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) choice: Choice,
    pub(crate) is_required: bool,
}

const SNAPSHOT: Input =
    Input { name: "snapshot", title: "Snapshot", choice: Choice::Snapshots, is_required: true };

impl Action {
    pub(crate) const ALL: [Action; 13] = [
        Action::Flush,
        Action::Compact,
        Action::MajorCompact,
        Action::Split,
        Action::Merge,
        Action::Snapshot,
        Action::Clone,
        Action::Restore,
        Action::DeleteSnapshot,
        Action::Disable,
        Action::Enable,
        Action::Truncate,
        Action::Drop,
    ];

    /// Returns the name of the action in addresses: the shell's command, except for `truncate`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Flush => "flush",
            Action::Compact => "compact",
            Action::MajorCompact => "major_compact",
            Action::Split => "split",
            Action::Merge => "merge_region",
            Action::Snapshot => "snapshot",
            Action::Clone => "clone_snapshot",
            Action::Restore => "restore_snapshot",
            Action::DeleteSnapshot => "delete_snapshot",
            Action::Disable => "disable",
            Action::Enable => "enable",
            Action::Truncate => "truncate",
            Action::Drop => "drop",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Action::Flush => "Flush",
            Action::Compact => "Compact",
            Action::MajorCompact => "Major compact",
            Action::Split => "Split",
            Action::Merge => "Merge regions",
            Action::Snapshot => "Take a snapshot",
            Action::Clone => "Clone a snapshot",
            Action::Restore => "Restore a snapshot",
            Action::DeleteSnapshot => "Delete a snapshot",
            Action::Disable => "Disable",
            Action::Enable => "Enable",
            Action::Truncate => "Truncate",
            Action::Drop => "Drop",
        }
    }

    /// Returns a description of the action, in a sentence or two.
    pub(crate) fn explained(self) -> &'static str {
        match self {
            Action::Flush => "Writes what is in memory to files. Safe at any time.",
            Action::Compact => {
                "Puts small files together, where there are enough of them. It takes disk and CPU for a while."
            }
            Action::MajorCompact => {
                "Rewrites all files of the table, and drops what is deleted or expired. It takes disk and CPU for as long as that lasts."
            }
            Action::Split => {
                "Makes two regions of one, so that two servers can share its load. Without a region all regions are split; without a row each in the middle of its data."
            }
            Action::Merge => {
                "Makes one region of two or more that lie side by side. Give their names, with spaces between."
            }
            Action::Snapshot => {
                "Keeps the table as it is now under a name, without copying it. Writes go on. Its files stay on disk until the snapshot is deleted."
            }
            Action::Clone => "Makes a new table with the content of a snapshot, without copying it.",
            Action::Restore => {
                "Gives the table the content that it had at the snapshot. What was written since is lost, unless you take another snapshot first. The table must be disabled."
            }
            Action::DeleteSnapshot => {
                "Deletes the snapshot, and the files that nothing else needs. There is no way back."
            }
            Action::Disable => "Closes all regions. Clients get errors until it is enabled again.",
            Action::Enable => "Opens all regions of a disabled table.",
            Action::Truncate => "Deletes every row. There is no way back. The table must be disabled first.",
            Action::Drop => {
                "Deletes the table with every row. There is no way back. The table must be disabled first."
            }
        }
    }

    pub(crate) fn is_dangerous(self) -> bool {
        matches!(
            self,
            Action::Restore | Action::DeleteSnapshot | Action::Disable | Action::Truncate | Action::Drop
        )
    }

    /// Returns the inputs of the action, besides the name that confirms it.
    pub(crate) fn inputs(self) -> &'static [Input] {
        const fn input(name: &'static str, title: &'static str, choice: Choice, is_required: bool) -> Input {
            Input { name, title, choice, is_required }
        }
        const SPLIT: &[Input] = &[
            input("region", "Region, or nothing for all", Choice::Regions, false),
            input("row", "Row at which, or nothing for the middle", Choice::Nothing, false),
        ];
        const MERGE: &[Input] = &[input("regions", "Regions", Choice::Regions, true)];
        const TAKE: &[Input] = &[input("snapshot", "Name of the snapshot", Choice::Nothing, true)];
        const CLONE: &[Input] = &[SNAPSHOT, input("table", "Name of the new table", Choice::Nothing, true)];
        const OLD: &[Input] = &[SNAPSHOT];
        match self {
            Action::Split => SPLIT,
            Action::Merge => MERGE,
            Action::Snapshot => TAKE,
            Action::Clone => CLONE,
            Action::Restore | Action::DeleteSnapshot => OLD,
            _ => &[],
        }
    }

    /// Returns the name that must be typed to confirm the action: that of the thing it changes or deletes.
    pub(crate) fn confirmed_by<'a>(self, table: &'a str, form: &'a Query) -> &'a str {
        if self == Action::DeleteSnapshot { form.get("snapshot") } else { table }
    }

    /// Returns the equivalent line of HBase's shell. Inputs that the form lacks are in capital letters.
    pub(crate) fn shell_line(self, table: &str, form: &Query) -> String {
        let given = |name: &str, missing: &str| {
            let value = form.get(name).trim();
            quoted(if value.is_empty() { missing } else { value })
        };
        match self {
            Action::Truncate => format!("truncate_preserve {}", quoted(table)),
            Action::Split => {
                let target = given("region", table);
                match form.get("row") {
                    "" => format!("split {target}"),
                    row => format!("split {target}, \"{}\"", row.replace('"', "\\\"")),
                }
            }
            Action::Merge => {
                let regions: Vec<&str> = form.get("regions").split_whitespace().collect();
                let regions = if regions.is_empty() { vec!["REGION", "NEXT REGION"] } else { regions };
                let regions: Vec<String> = regions.into_iter().map(quoted).collect();
                format!("merge_region {}", regions.join(", "))
            }
            Action::Snapshot => format!("snapshot {}, {}", quoted(table), given("snapshot", "NAME")),
            Action::Clone => {
                format!("clone_snapshot {}, {}", given("snapshot", "SNAPSHOT"), given("table", "NEW TABLE"))
            }
            Action::Restore | Action::DeleteSnapshot => {
                format!("{} {}", self.name(), given("snapshot", "SNAPSHOT"))
            }
            _ => format!("{} {}", self.name(), quoted(table)),
        }
    }

    /// Runs the action, and returns a message about the result. The error says what is wrong with the inputs, or why
    /// the cluster refused. A split of several regions that fails has split the earlier ones.
    pub(crate) async fn run(self, console: &Console, name: &str, form: &Query) -> Result<String, String> {
        let node = console.node.get().ok_or("the server is starting")?;
        let table = table_name(name)?;
        for input in self.inputs().iter().filter(|input| input.is_required) {
            if form.get(input.name).trim().is_empty() {
                return Err(format!("the field {:?} is empty; fill it in", input.title));
            }
        }
        let admin = node.cluster.admin();
        let snapshot = form.get("snapshot").trim();
        let done = match self {
            Action::Flush => admin.flush(&table).await,
            Action::Compact => admin.compact(&table, false).await,
            Action::MajorCompact => admin.compact(&table, true).await,
            Action::Split => split(&admin, &table, form).await?,
            Action::Merge => {
                let names: Vec<&str> = form.get("regions").split_whitespace().collect();
                if names.len() < 2 {
                    return Err(
                        "a merge takes two regions or more, with spaces between their names".to_owned()
                    );
                }
                admin.merge_regions(&regions_of(&admin, &table, &names).await?, false).await
            }
            Action::Snapshot => admin.snapshot(snapshot, &table).await,
            Action::Clone => {
                let new = table_name(form.get("table").trim())?;
                // For an existing table the master would restore the snapshot. So a clone under its name is refused.
                if admin.table_exists(&new).await.map_err(|error| error.to_string())? {
                    return Err(format!("there is a table {new} already; give another name"));
                }
                admin.clone_snapshot(snapshot, &new).await
            }
            Action::Restore => {
                let all = admin.snapshots().await.map_err(|error| error.to_string())?;
                let its = all.iter().find(|one| one.name == snapshot).and_then(|one| one.table.as_deref());
                match its {
                    Some(its) if its.parse().ok().as_ref() == Some(&table) => {
                        admin.restore_snapshot(snapshot, &table).await
                    }
                    Some(its) => return Err(format!("{snapshot} is a snapshot of {its}, not of {name}")),
                    None => {
                        return Err(format!(
                            "there is no snapshot {snapshot:?}; the page of the table lists its own"
                        ));
                    }
                }
            }
            Action::DeleteSnapshot => admin.delete_snapshot(snapshot).await,
            Action::Disable => admin.disable_table(&table).await,
            Action::Enable => admin.enable_table(&table).await,
            Action::Truncate => admin.truncate_table(&table, true).await,
            Action::Drop => admin.delete_table(&table).await,
        };
        *console.tables.lock() = None;
        done.map_err(|error| error.to_string())?;
        let line = self.shell_line(name, form);
        tracing::info!(table = name, action = self.name(), shell = line, "done from the web page");
        let state = match self {
            Action::Compact | Action::MajorCompact => "has begun; see Work",
            _ => "is done",
        };
        Ok(format!("{line} {state}."))
    }
}

fn table_name(name: &str) -> Result<TableName, String> {
    name.parse().map_err(|_| format!("{name:?} is no name of a table, expected letters, digits and _-."))
}

/// Returns the regions of a table with these encoded names, in key order. Fails if the table lacks one of them.
async fn regions_of(admin: &Admin, table: &TableName, names: &[&str]) -> Result<Vec<RegionInfo>, String> {
    let all = admin.regions(table).await.map_err(|error| error.to_string())?;
    for name in names {
        if !all.iter().any(|location| location.region.encoded_name().as_str() == *name) {
            return Err(format!(
                "{table} has no region {name}; regions are named by 32 letters and digits, see above"
            ));
        }
    }
    let is_named = |region: &RegionInfo| names.contains(&region.encoded_name().as_str());
    Ok(all.into_iter().map(|location| location.region).filter(is_named).collect())
}

async fn split(admin: &Admin, table: &TableName, form: &Query) -> Result<client::Result<()>, String> {
    let (region, row) = (form.get("region").trim(), form.get("row"));
    let row = (!row.is_empty()).then(|| Bytes::from(unescape(row)));
    let regions = if region.is_empty() {
        let all = admin.regions(table).await.map_err(|error| error.to_string())?;
        all.into_iter().map(|location| location.region).collect()
    } else {
        regions_of(admin, table, &[region]).await?
    };
    for region in regions.iter().filter(|region| row.as_ref().is_none_or(|row| region.contains_row(row))) {
        if let Err(error) = admin.split_region(region, row.clone()).await {
            return Ok(Err(error));
        }
    }
    match &row {
        Some(row) if !regions.iter().any(|region| region.contains_row(row)) => {
            Err(format!("row {} is not in that region", escape(row)))
        }
        _ => Ok(Ok(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_line_of_the_shell() {
        for action in Action::ALL {
            assert_eq!(Action::of_name(action.name()), Some(action));
            let line = action.shell_line("it's", &Query::default());
            assert!(
                line.contains("'it\\'s'") != line.chars().any(|letter| letter.is_ascii_uppercase())
                    || action == Action::Snapshot,
                "{line}"
            );
        }
        let line = |action: Action, form: &str| action.shell_line("t", &Query::parse(form));
        assert_eq!(line(Action::Split, ""), "split 't'");
        assert_eq!(line(Action::Split, "region=ab&row=x%5Cx00"), "split 'ab', \"x\\x00\"");
        assert_eq!(line(Action::Merge, "regions=a+b"), "merge_region 'a', 'b'");
        assert_eq!(line(Action::Snapshot, "snapshot=s"), "snapshot 't', 's'");
        assert_eq!(line(Action::Clone, "snapshot=s&table=n"), "clone_snapshot 's', 'n'");
        assert_eq!(line(Action::Restore, ""), "restore_snapshot 'SNAPSHOT'");
        assert_eq!(line(Action::Truncate, ""), "truncate_preserve 't'");
    }

    #[test]
    fn the_name_of_the_thing_that_is_lost_must_be_typed() {
        let form = Query::parse("snapshot=s");
        assert_eq!(Action::DeleteSnapshot.confirmed_by("t", &form), "s");
        assert_eq!(Action::Restore.confirmed_by("t", &form), "t");
    }
}
