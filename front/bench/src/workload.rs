//! What there is to drive a server with.

use std::fmt;
use std::str::FromStr;

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
}

/// Rows of one operation of [`Workload::Scan`].
pub(crate) const SCAN_STEP: u64 = 1_000;

use Workload::*;

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

    /// All there are.
    pub fn all() -> Vec<Workload> {
        Workload::evaluation()
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
            Filter0 => "scans --range rows; a filter on the value lets none through",
            Filter10 => "scans --range rows; a filter on the value lets every tenth through",
            Increment => "adds one to a number of any row",
            Append => "appends eight bytes to any row",
            CheckAndPut => "puts any row if it has the value that it has",
        }
    }

    /// What its operations are called, in the order of [`Done::kind`](crate::recorder::Done::kind).
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            SequentialWrite | RandomWrite => &["put"],
            BatchWrite => &["batch of puts"],
            SequentialRead | RandomRead => &["get"],
            MultiGet => &["batch of gets"],
            Scan | ScanRange(_) | Filter0 | Filter10 => &["scan"],
            Increment => &["increment"],
            Append => &["append"],
            CheckAndPut => &["check and put"],
        }
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
            Filter0 => "filter-0",
            Filter10 => "filter-10",
            Increment => "increment",
            Append => "append",
            CheckAndPut => "check-and-put",
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
}
