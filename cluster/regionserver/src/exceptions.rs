//! Maps errors of the engine and of bulk loads to exceptions for clients. No other place gives an error a Java class.
//! Exceptions for invalid requests are made where the request is decoded (`request`).
//!
//! Each mapping tells the client what to do: look the region up again, wait, or give up.

use proto::ServerName;
use region::Error;
use rpc::{Exception, class};
use storage::Kind;

use crate::bulk_source::PathRefusal;

/// Returns the exception for `error`, from the server called `server`.
pub fn of_region(error: &Error, server: &ServerName) -> Exception {
    let text = error.to_string();
    match error {
        Error::WrongRegion { .. } => Exception::new(class::WRONG_REGION, text),
        Error::NotServing(_) => Exception::not_serving_region(format!("{text} on {server}")),
        Error::NoSuchFamily { .. } | Error::FamilyIsDeleted { .. } => {
            Exception::new(class::NO_SUCH_COLUMN_FAMILY, text)
        }
        Error::TooBusy(_) => Exception::region_too_busy(text),
        Error::RowTooBig { .. } => Exception::new(class::ROW_TOO_BIG, text),
        Error::BadTimestamp { .. } => Exception::new(class::FAILED_SANITY_CHECK, text),
        // As in HBase, the client gets the exception of the comparator. A pattern that takes too many steps would fail
        // again, so the client must not retry.
        Error::Filter(filter::Failure::TooManySteps { .. }) => Exception::do_not_retry(text),
        Error::Filter(_) => Exception::io(text),
        Error::NotALong(_)
        | Error::CellTooLarge { .. }
        | Error::ReadOnly(_)
        | Error::BulkLoad(_)
        | Error::Heir(_)
        | Error::NewCellTooLong { .. }
        | Error::EmptyRow
        | Error::RowTooLong(_)
        | Error::CellOfOtherRow { .. }
        | Error::NegativeTimestamp(_)
        | Error::ReversedOnDemand
        | Error::FilterNeedsWholeRows
        | Error::NoMobValue { .. }
        | Error::Schema(_) => Exception::do_not_retry(text),
        // This region acknowledges nothing any more. The client should look the region up again: the next server that
        // opens it has all acknowledged writes.
        Error::Aborted(_) | Error::Fenced { .. } => {
            Exception::new(class::REGION_SERVER_ABORTED, format!("Server {server} aborting: {text}"))
        }
        // A retry does not repair a damaged file, so the client must not retry.
        Error::Corrupt { .. } | Error::File(_) => Exception::do_not_retry(text),
        Error::Log(_) | Error::Storage(_) | Error::InDoubt { .. } | Error::Broken(_) => Exception::io(text),
        // `WouldBlock` never gets here, because the code that reads in memory handles it. An error that is added later
        // and forgotten here must not make clients retry for ever.
        _ => Exception::do_not_retry(format!("unexpected: {text}")),
    }
}

/// Returns the exception for a bulk load that failed. A missing file gives HBase's `FileNotFoundException`, because the
/// caller has named it.
pub(crate) fn of_bulk_load(error: &Error, server: &ServerName) -> Exception {
    match error {
        Error::Storage(error) if error.kind() == Kind::NotFound => {
            Exception::new(class::FILE_NOT_FOUND, error.to_string())
        }
        error => of_region(error, server),
    }
}

/// Returns the exception for a path of a bulk load that is refused.
pub(crate) fn of_bulk_path(refused: &PathRefusal) -> Exception {
    Exception::do_not_retry(refused.to_string())
}

#[cfg(test)]
mod tests {
    use cell::Malformed;
    use region::{BulkLoadRefusal, Busy, HeirRefusal};

    use super::*;

    #[test]
    fn every_error_maps_to_a_client_action() {
        let server = ServerName { host: "h".into(), port: 16020, start_code: 7 };
        let told = |error: Error| {
            let exception = of_region(&error, &server);
            (exception.class.rsplit('.').next().unwrap_or_default().to_owned(), exception.do_not_retry)
        };
        let text = || "why".to_owned();
        let family = Error::NoSuchFamily { family: text(), region: text(), table: text() };
        let deleted = Error::FamilyIsDeleted { family: text(), region: text(), table: text() };
        let outside =
            Error::WrongRegion { what: "put", region: text(), start: text(), end: text(), row: text() };
        let half = proto::EncodedName::parse("0123456789abcdef0123456789abcdef").expect("a name");
        let cause = Malformed { what: "tags length", offset: 0, expected: 65_535, found: 70_000 };
        for (error, class, never) in [
            (outside, "WrongRegionException", false),
            (family, "NoSuchColumnFamilyException", true),
            (deleted, "NoSuchColumnFamilyException", true),
            (Busy::RowLocked { row: text(), waited_ms: 30_000 }.into(), "RegionTooBusyException", false),
            (Error::NotServing(text()), "NotServingRegionException", false),
            (Error::NotALong(3), "DoNotRetryIOException", true),
            (Error::CellTooLarge { size: 2, limit: 1 }, "DoNotRetryIOException", true),
            (Error::RowTooBig { limit: 1, row: text() }, "RowTooBigException", true),
            (BulkLoadRefusal::NoCells { path: text() }.into(), "DoNotRetryIOException", true),
            (HeirRefusal::HalfFile { file: text(), region: half }.into(), "DoNotRetryIOException", true),
            (Error::NewCellTooLong { column: text(), row: text(), cause }, "DoNotRetryIOException", true),
            (Error::EmptyRow, "DoNotRetryIOException", true),
            (Error::RowTooLong(40_000), "DoNotRetryIOException", true),
            (Error::CellOfOtherRow { cell_row: text(), row: text() }, "DoNotRetryIOException", true),
            (Error::NegativeTimestamp(-1), "DoNotRetryIOException", true),
            (Error::ReversedOnDemand, "DoNotRetryIOException", true),
            (Error::FilterNeedsWholeRows, "DoNotRetryIOException", true),
            (Error::NoMobValue { cell: text(), file: text() }, "DoNotRetryIOException", true),
            (Error::ReadOnly(text()), "DoNotRetryIOException", true),
            (Error::BadTimestamp { cell: text(), slop: 1 }, "FailedSanityCheckException", true),
            (Error::Aborted(text()), "RegionServerAbortedException", false),
        ] {
            assert_eq!(told(error), (class.to_owned(), never));
        }
        let long = of_region(&Error::NotALong(3), &server);
        assert_eq!(long.message, "Field is not a long, it's 3 bytes wide");
        let row = of_region(&Error::RowTooLong(40_000), &server);
        assert_eq!(row.message, "Row length 40000 is > 32767");
        let gone = storage::Error::new(
            Kind::NotFound,
            storage::Outcome::DidNotHappen,
            &storage::FileName::new("job/f/a"),
            "open",
        );
        let gone = of_bulk_load(&Error::Storage(gone), &server);
        assert_eq!((gone.class.as_ref(), gone.do_not_retry), (class::FILE_NOT_FOUND, false));
        let outside = of_bulk_path(&PathRefusal::NotAbsolute { path: "a".to_owned() });
        assert!(outside.do_not_retry && outside.message.contains("name the file by its whole path"));
    }
}
