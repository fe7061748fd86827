//! Modes, fields and lines of `bellows top`. Letters and names are hbtop's.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// What a line of the output stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Namespace,
    Table,
    Region,
    Server,
    User,
    Client,
}

impl Mode {
    const ALL: [Mode; 6] =
        [Mode::Namespace, Mode::Table, Mode::Region, Mode::Server, Mode::User, Mode::Client];

    /// Returns the letter of the mode.
    pub(super) fn letter(self) -> char {
        match self {
            Mode::Namespace => 'n',
            Mode::Table => 't',
            Mode::Region => 'r',
            Mode::Server => 's',
            Mode::User => 'u',
            Mode::Client => 'c',
        }
    }

    /// Returns the name of the mode.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Namespace => "namespace",
            Mode::Table => "table",
            Mode::Region => "region",
            Mode::Server => "server",
            Mode::User => "user",
            Mode::Client => "client",
        }
    }

    /// Returns the mode with this letter or name. The error lists them.
    pub(super) fn of_text(text: &str) -> Result<Mode, String> {
        let is_it = |mode: &Mode| text.eq_ignore_ascii_case(mode.name()) || text == mode.letter().to_string();
        let expected =
            || "expected n, t, r, s, u or c, or namespace, table, region, server, user or client".to_owned();
        Mode::ALL.into_iter().find(is_it).ok_or_else(expected)
    }

    /// Returns every field that the mode has.
    pub(super) fn all(self) -> Vec<Field> {
        use Field::*;
        let rates = [Requests, Reads, FilteredReads, Writes];
        let of_files = [FileSize, UncompressedSize, Files, Memstore];
        match self {
            Mode::Namespace => [&[Namespace][..], &rates, &of_files, &[Regions]].concat(),
            Mode::Table => [&[Namespace, Table][..], &rates, &of_files, &[Regions]].concat(),
            Mode::Region => [
                &[RegionName, Namespace, Table, StartCode, ReplicaId, Region, Server, LongServer][..],
                &rates,
                &of_files,
                &[
                    Locality,
                    StartKey,
                    CompactingCells,
                    CompactedCells,
                    CompactionProgress,
                    LastMajorCompaction,
                ],
            ]
            .concat(),
            Mode::Server => {
                [&[Server, LongServer][..], &rates, &of_files, &[Regions, UsedHeap, MaxHeap]].concat()
            }
            Mode::User => [&[User, Clients][..], &rates].concat(),
            Mode::Client => [&[Client, Users][..], &rates].concat(),
        }
    }

    /// Returns the fields that are shown if the options name none.
    pub(super) fn shown(self) -> Vec<Field> {
        use Field::*;
        match self {
            Mode::Region => vec![
                Namespace,
                Table,
                Region,
                Server,
                Requests,
                Reads,
                FilteredReads,
                Writes,
                FileSize,
                Files,
                Memstore,
                Locality,
            ],
            Mode::Server => self
                .all()
                .into_iter()
                .filter(|field| !matches!(field, LongServer | UncompressedSize))
                .collect(),
            _ => self.all().into_iter().filter(|field| *field != UncompressedSize).collect(),
        }
    }

    /// Returns the field by which lines are sorted if the options name none.
    pub(super) fn sorted_by(self) -> Field {
        Field::Requests
    }
}

macro_rules! fields {
    ($($field:ident $name:literal $is_text:literal $meaning:literal,)*) => {
        /// A column of the output.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Field { $($field,)* }

        impl Field {
            const ALL: &[Field] = &[$(Field::$field,)*];

            /// Returns the field's name in hbtop.
            pub(super) fn name(self) -> &'static str {
                match self { $(Field::$field => $name,)* }
            }

            /// Returns the meaning of the field, with its unit.
            pub(super) fn meaning(self) -> &'static str {
                match self { $(Field::$field => $meaning,)* }
            }

            /// Whether the field is text, which is aligned to the left.
            pub(super) fn is_text(self) -> bool {
                match self { $(Field::$field => $is_text,)* }
            }
        }
    };
}

fields! {
    RegionName "RNAME" true "whole name of the region",
    Namespace "NAMESPACE" true "namespace",
    Table "TABLE" true "table",
    StartCode "SCODE" true "number in the region's name: when it was made",
    ReplicaId "REPID" true "number of the replica",
    Region "REGION" true "encoded name of the region",
    Server "RS" true "short name of the region server",
    LongServer "LRS" true "whole name of the region server",
    User "USER" true "user",
    Client "CLIENT" true "client's host",
    Users "#USER" false "users",
    Clients "#CLIENT" false "client hosts",
    Requests "#REQ/S" false "reads and writes a second",
    Reads "#READ/S" false "rows read a second",
    FilteredReads "#FREAD/S" false "rows dropped by filters a second",
    Writes "#WRITE/S" false "rows written a second",
    FileSize "SF" false "size of store files",
    UncompressedSize "USF" false "size of store files before compression",
    Files "#SF" false "store files",
    Memstore "MEMSTORE" false "size of memstores",
    Regions "#REGION" false "regions",
    Locality "LOCALITY" false "share of the bytes that are on the server's machine",
    StartKey "SKEY" true "first key of the region",
    CompactingCells "#COMPingCELL" false "cells that are to be compacted",
    CompactedCells "#COMPedCELL" false "of these, cells that are compacted",
    CompactionProgress "%COMP" false "percentage of these cells",
    LastMajorCompaction "LASTMCOMP" false "when all files were compacted last, in ms since 1970",
    UsedHeap "UHEAP" false "used heap; of Bellows, memstores and block cache",
    MaxHeap "MHEAP" false "limit of that",
}

impl Field {
    /// Returns the field of `mode` with this name, in any case; `None` if the mode has none.
    pub(super) fn of_name(mode: Mode, name: &str) -> Option<Field> {
        let of_mode = mode.all();
        Field::ALL
            .iter()
            .copied()
            .find(|field| of_mode.contains(field) && field.name().eq_ignore_ascii_case(name))
    }
}

/// The content of a line in one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A number, shown with some digits after the point and a unit.
    Number {
        value: f64,
        digits: usize,
        unit: &'static str,
    },
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    pub(super) fn number(value: f64, digits: usize) -> Cell {
        Cell::Number { value, digits, unit: "" }
    }

    pub(super) fn megabytes(value: u64) -> Cell {
        Cell::Number { value: value as f64, digits: 0, unit: " MB" }
    }

    /// Returns the content for programs: texts, and numbers in the unit of [`Field::meaning`], megabytes for sizes.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number { value, .. } => json!((value * 1_000.0).round() / 1_000.0),
        }
    }

    /// Sorts numbers before texts; all lines have the same kind in a column.
    pub(super) fn cmp(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Number { value: a, .. }, Cell::Number { value: b, .. }) => a.total_cmp(b),
            (Cell::Number { .. }, Cell::Text(_)) => Ordering::Less,
            (Cell::Text(_), Cell::Number { .. }) => Ordering::Greater,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Number { value, digits, unit } => write!(f, "{value:.digits$}{unit}"),
        }
    }
}

/// What is known of a namespace, table, region, server, user or client, by field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line(BTreeMap<Field, Cell>);

impl Line {
    pub(super) fn with(mut self, field: Field, cell: Cell) -> Line {
        self.0.insert(field, cell);
        self
    }

    /// Returns the content of a column; an empty text if there is none.
    pub(super) fn cell(&self, field: Field) -> &Cell {
        static NOTHING: Cell = Cell::Text(String::new());
        self.0.get(&field).unwrap_or(&NOTHING)
    }

    /// Returns the name by which lines with equal values are sorted: that of the region, client, user, server, table
    /// (without its namespace) or namespace.
    pub(super) fn name(&self) -> &str {
        let names = [
            Field::RegionName,
            Field::Client,
            Field::User,
            Field::LongServer,
            Field::Table,
            Field::Namespace,
        ];
        let mut cells = names.into_iter().map(|field| self.cell(field));
        let name = cells.find_map(|cell| match cell {
            Cell::Text(text) if !text.is_empty() => Some(&text[..]),
            _ => None,
        });
        name.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_letters_names_and_their_own_fields() {
        for mode in Mode::ALL {
            assert_eq!(
                (Mode::of_text(&mode.letter().to_string()), Mode::of_text(mode.name())),
                (Ok(mode), Ok(mode))
            );
            let all = mode.all();
            assert!(mode.shown().iter().all(|field| all.contains(field)), "{mode:?}");
            assert!(all.contains(&mode.sorted_by()), "{mode:?}");
        }
        assert!(Mode::of_text("x").expect_err("none").contains("expected n, t, r"));
        assert_eq!(Field::of_name(Mode::Region, "#req/s"), Some(Field::Requests));
        assert_eq!(Field::of_name(Mode::User, "REGION"), None, "a user has no region");
    }

    #[test]
    fn numbers_are_ordered_as_numbers() {
        assert_eq!(Cell::number(9.0, 0).cmp(&Cell::number(10.0, 0)), Ordering::Less);
        assert_eq!(Cell::text("9").cmp(&Cell::text("10")), Ordering::Greater);
        assert_eq!(
            (Cell::megabytes(5).to_string(), Cell::number(0.5, 2).to_string()),
            ("5 MB".into(), "0.50".into())
        );
    }
}
