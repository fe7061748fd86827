//! The workloads of the load generator.

use std::fmt;
use std::str::FromStr;

use crate::Keys;
use crate::rows::Layout;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// Puts rows in order, one per call.
    SequentialWrite,
    /// Puts random rows, one per call.
    RandomWrite,
    /// Puts many rows in one call.
    BatchWrite,
    /// Gets rows in order.
    SequentialRead,
    /// Gets random rows.
    RandomRead,
    /// Gets many random rows in one call.
    MultiGet,
    /// Reads the whole table in order; an operation is [`SCAN_STEP`] rows.
    Scan,
    /// Opens a scan at a random row and reads this many rows.
    ScanRange(u32),
    /// Scans for a value that no row has, as PerformanceEvaluation's `filterScan` does: a list with one filter, which
    /// judges whole rows by one column.
    FilterScan,
    /// Scans rows with a value filter that accepts no row.
    Filter0,
    /// Scans rows with a value filter that accepts every tenth row.
    Filter10,
    /// Increments a number in a random row.
    Increment,
    /// Appends eight bytes to a random row.
    Append,
    /// Puts a random row by check-and-put. The condition is that the row has its expected value. If it does not hold,
    /// the row counts as wrong.
    CheckAndPut,
    /// Puts new rows in random order.
    Insert,
    /// Puts a row, gets the oldest row of the queue, and deletes it.
    Queue,
    /// One of YCSB's workloads.
    Ycsb(Ycsb),
}

/// The workloads of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ycsb {
    /// Half reads, half updates of one field.
    A,
    /// 95 % reads, 5 % updates of one field.
    B,
    /// All operations are reads.
    C,
    /// 95 % reads of new rows, 5 % new rows.
    D,
    /// 95 % scans of up to a hundred rows, 5 % new rows.
    E,
    /// Half of the operations read a row; the other half read a row and then update one of its fields.
    F,
}

/// The percentages of a mix's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) reads: u8,
    pub(crate) updates: u8,
    pub(crate) inserts: u8,
    pub(crate) scans: u8,
    pub(crate) modifies: u8,
}

/// Number of rows in one operation of [`Workload::Scan`].
pub(crate) const SCAN_STEP: u64 = 1_000;
/// Approximate number of rows in all queues of [`Workload::Queue`] together.
pub(crate) const QUEUE: u64 = 1_000;

use Workload::*;

impl Ycsb {
    /// All workloads of YCSB.
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
    /// Returns the workloads on PerformanceEvaluation's table: its own, and those with value filters. Reads come first, because writes leave files and
    /// compactions behind.
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

    /// Returns the workloads of YCSB, in its recommended order.
    pub fn ycsb() -> Vec<Workload> {
        [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::F, Ycsb::D, Ycsb::E].map(Ycsb).to_vec()
    }

    /// Returns all workloads.
    pub fn all() -> Vec<Workload> {
        let mut all = Workload::evaluation();
        all.extend([Insert, Queue]);
        all.extend(Ycsb::ALL.map(Ycsb));
        all
    }

    /// Returns a description of the workload in one line.
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

    /// Returns the names of the workload's operations, in the order of `Done::kind`.
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

    /// Returns the workload's default distribution.
    pub(crate) fn keys(self) -> Keys {
        match self {
            Ycsb(Ycsb::D) => Keys::Latest,
            Ycsb(_) => Keys::Zipfian,
            _ => Keys::Uniform,
        }
    }

    /// Returns the layout of the table that the workload uses.
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
