//! What there is to drive a server with.

use std::fmt;
use std::str::FromStr;

use crate::Keys;
use crate::rows::Layout;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// Puts one row after the other, each with a call of its own.
    SequentialWrite,
    /// Puts rows in no order, each with a call of its own.
    RandomWrite,
    /// Puts many rows with one call.
    BatchWrite,
    /// Gets one row after the other.
    SequentialRead,
    /// Gets rows in no order.
    RandomRead,
    /// Gets many rows in no order with one call.
    MultiGet,
    /// Reads the whole table in order; an operation is [`SCAN_STEP`] rows of it.
    Scan,
    /// Opens a scan anywhere and reads so many rows.
    ScanRange(u32),
    /// Scans rows for a value that none has, as PerformanceEvaluation's `filterScan` does: a list of one filter, which
    /// judges whole rows by one column.
    FilterScan,
    /// Scans rows of which a filter on the value lets none through.
    Filter0,
    /// Scans rows of which a filter on the value lets every tenth through.
    Filter10,
    /// Adds one to a number of any row.
    Increment,
    /// Appends eight bytes to any row.
    Append,
    /// Puts any row if it has the value that it has.
    CheckAndPut,
    /// Puts rows that were not there, in no order.
    Insert,
    /// Puts a row, gets the oldest of those that are there, deletes it.
    Queue,
    /// One of YCSB's.
    Ycsb(Ycsb),
}

/// The workloads of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ycsb {
    /// Half reads, half updates of one field.
    A,
    /// Nineteen reads to one update of one field.
    B,
    /// Reads alone.
    C,
    /// Nineteen reads of what is new to one row added.
    D,
    /// Nineteen scans of up to a hundred rows to one row added.
    E,
    /// Half reads, half reads with an update of one field after them.
    F,
}

/// How many of a hundred operations are what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) reads: u8,
    pub(crate) updates: u8,
    pub(crate) inserts: u8,
    pub(crate) scans: u8,
    pub(crate) modifies: u8,
}

/// Rows of one operation of [`Workload::Scan`].
pub(crate) const SCAN_STEP: u64 = 1_000;
/// Rows of all queues of [`Workload::Queue`] together, about.
pub(crate) const QUEUE: u64 = 1_000;

use Workload::*;

impl Ycsb {
    /// All of them.
    pub const ALL: [Ycsb; 6] = [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::D, Ycsb::E, Ycsb::F];

    pub(crate) fn mix(self) -> Mix {
        let none = Mix { reads: 0, updates: 0, inserts: 0, scans: 0, modifies: 0 };
        match self {
            Ycsb::A => Mix { reads: 50, updates: 50, ..none },
            Ycsb::B => Mix { reads: 95, updates: 5, ..none },
            Ycsb::C => Mix { reads: 100, ..none },
            Ycsb::D => Mix { reads: 95, inserts: 5, ..none },
            Ycsb::E => Mix { scans: 95, inserts: 5, ..none },
            Ycsb::F => Mix { reads: 50, modifies: 50, ..none },
        }
    }
}

impl Workload {
    /// Those of HBase's PerformanceEvaluation, in the order in which a run makes most sense of them: reads first, for
    /// writes leave files and compactions behind.
    pub fn evaluation() -> Vec<Workload> {
        vec![
            RandomRead,
            SequentialRead,
            MultiGet,
            Scan,
            ScanRange(10),
            ScanRange(100),
            ScanRange(1_000),
            ScanRange(10_000),
            FilterScan,
            Filter0,
            Filter10,
            RandomWrite,
            SequentialWrite,
            BatchWrite,
            Increment,
            Append,
            CheckAndPut,
        ]
    }

    /// Those of YCSB, in the order in which YCSB says they should run.
    pub fn ycsb() -> Vec<Workload> {
        [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::F, Ycsb::D, Ycsb::E].map(Ycsb).to_vec()
    }

    /// All there are.
    pub fn all() -> Vec<Workload> {
        let mut all = Workload::evaluation();
        all.extend([Insert, Queue]);
        all.extend(Ycsb::ALL.map(Ycsb));
        all
    }

    /// One line about it.
    pub fn meaning(self) -> &'static str {
        match self {
            SequentialWrite => "puts one row after the other, each with a call of its own",
            RandomWrite => "puts rows in no order, each with a call of its own",
            BatchWrite => "puts --batch rows in no order with one call",
            SequentialRead => "gets one row after the other",
            RandomRead => "gets rows in no order",
            MultiGet => "gets --batch rows in no order with one call",
            Scan => "reads the whole table in order; an operation is 1000 rows of it",
            ScanRange(_) => "opens a scan anywhere and reads so many rows; any number will do",
            FilterScan => "scans --range rows for a value that none has: a whole row is judged by its column",
            Filter0 => "scans --range rows; a filter on the value lets none through",
            Filter10 => "scans --range rows; a filter on the value lets every tenth through",
            Increment => "adds one to a number of any row",
            Append => "appends eight bytes to any row",
            CheckAndPut => "puts any row if it has the value that it has",
            Insert => "puts rows that were not there, in no order",
            Queue => {
                "puts a row, gets the oldest of some thousand, deletes it; an operation is one of the three"
            }
            Ycsb(Ycsb::A) => "50 % reads, 50 % updates of a field; zipfian keys",
            Ycsb(Ycsb::B) => "95 % reads, 5 % updates of a field; zipfian keys",
            Ycsb(Ycsb::C) => "reads alone; zipfian keys",
            Ycsb(Ycsb::D) => "95 % reads, 5 % rows added; the latest keys",
            Ycsb(Ycsb::E) => "95 % scans of up to 100 rows, 5 % rows added; zipfian keys",
            Ycsb(Ycsb::F) => "50 % reads, 50 % reads with an update of a field after them; zipfian keys",
        }
    }

    /// What its operations are called, in the order of `Done::kind`.
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            SequentialWrite | RandomWrite | Insert => &["put"],
            Queue => &["put", "get", "delete"],
            BatchWrite => &["batch of puts"],
            SequentialRead | RandomRead => &["get"],
            MultiGet => &["batch of gets"],
            Scan | ScanRange(_) | FilterScan | Filter0 | Filter10 => &["scan"],
            Increment => &["increment"],
            Append => &["append"],
            CheckAndPut => &["check and put"],
            Ycsb(_) => &["read", "update", "insert", "scan", "read and update"],
        }
    }

    /// How it chooses rows when nothing else is said.
    pub(crate) fn keys(self) -> Keys {
        match self {
            Ycsb(Ycsb::D) => Keys::Latest,
            Ycsb(_) => Keys::Zipfian,
            _ => Keys::Uniform,
        }
    }

    /// The table that it works on.
    pub(crate) fn layout(self) -> Layout {
        if matches!(self, Ycsb(_)) { Layout::Ycsb } else { Layout::Evaluation }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            SequentialWrite => "sequential-write",
            RandomWrite => "random-write",
            BatchWrite => "batch-write",
            SequentialRead => "sequential-read",
            RandomRead => "random-read",
            MultiGet => "multi-get",
            Scan => "scan",
            ScanRange(rows) => return write!(f, "scan-range-{rows}"),
            FilterScan => "filter-scan",
            Filter0 => "filter-0",
            Filter10 => "filter-10",
            Increment => "increment",
            Append => "append",
            CheckAndPut => "check-and-put",
            Insert => "insert",
            Queue => "queue",
            Ycsb(Ycsb::A) => "ycsb-a",
            Ycsb(Ycsb::B) => "ycsb-b",
            Ycsb(Ycsb::C) => "ycsb-c",
            Ycsb(Ycsb::D) => "ycsb-d",
            Ycsb(Ycsb::E) => "ycsb-e",
            Ycsb(Ycsb::F) => "ycsb-f",
        };
        f.write_str(name)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        if let Some(rows) = text.strip_prefix("scan-range-") {
            return match rows.parse() {
                Ok(rows) if rows > 0 => Ok(ScanRange(rows)),
                _ => Err(format!("{rows:?} is no number of rows")),
            };
        }
        Workload::all()
            .into_iter()
            .find(|workload| workload.to_string() == text)
            .ok_or_else(|| format!("no workload is called {text:?}; --list names all"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_found_by_its_name() {
        for workload in Workload::all() {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert_eq!("scan-range-7".parse(), Ok(ScanRange(7)));
        assert!("scan-range-0".parse::<Workload>().is_err());
        assert!("reading".parse::<Workload>().expect_err("there is none").contains("--list"));
    }

    #[test]
    fn a_mix_is_a_hundred() {
        for ycsb in Ycsb::ALL {
            let Mix { reads, updates, inserts, scans, modifies } = ycsb.mix();
            assert_eq!(reads + updates + inserts + scans + modifies, 100, "{ycsb:?}");
        }
    }
}
