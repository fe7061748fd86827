//! Terms. The terms of several orders for one region show which order is the latest.

use std::collections::BTreeMap;

use proto::EncodedName;
use rpc::Exception;

/// The number of an opening of a region. It is greater than the numbers of all earlier openings of that region, on any
/// server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The error of an order whose term is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleTerm {
    /// The encoded name of the region.
    pub region: EncodedName,
    /// The term of the order.
    pub ordered: Term,
    /// The last term of the region that this server knows.
    pub known: Term,
}

impl StaleTerm {
    /// Returns the exception for the sender of the order.
    pub fn exception(self) -> Exception {
        let StaleTerm { region, ordered, known } = self;
        Exception::do_not_retry(format!(
            "the order for region {region} is of term {ordered}, which ended: this server knows term {known}; read the \
             region's row in hbase:meta again"
        ))
    }
}

/// The terms under which a server has its regions open, or has closed them. The ledger refuses orders with an outdated
/// term.
#[derive(Debug, Default)]
pub struct TermLedger {
    regions: BTreeMap<EncodedName, RegionTerm>,
}

#[derive(Debug, Clone, Copy)]
struct RegionTerm {
    term: Term,
    is_open: bool,
}

impl TermLedger {
    /// Admits the opening of a region under `term`. A repeated order is admitted. An order under an earlier term than
    /// the last one, or under a term that was closed, is refused.
    pub fn admit_open(&mut self, region: &EncodedName, term: Term) -> Result<(), StaleTerm> {
        if let Some(known) = self.regions.get(region)
            && (term < known.term || (term == known.term && !known.is_open))
        {
            return Err(StaleTerm { region: region.clone(), ordered: term, known: known.term });
        }
        self.regions.insert(region.clone(), RegionTerm { term, is_open: true });
        Ok(())
    }

    /// Admits the closing of a region under `term`, and ends that term and all earlier ones. An order with an earlier
    /// term than that of the open region is refused.
    pub fn admit_close(&mut self, region: &EncodedName, term: Term) -> Result<(), StaleTerm> {
        if let Some(known) = self.regions.get(region)
            && term < known.term
        {
            return Err(StaleTerm { region: region.clone(), ordered: term, known: known.term });
        }
        self.regions.insert(region.clone(), RegionTerm { term, is_open: false });
        Ok(())
    }

    /// Notes that a region is still open under `term`, because its closing failed. Does nothing if a later order was
    /// admitted meanwhile.
    pub fn stays_open(&mut self, region: &EncodedName, term: Term) {
        if let Some(known) = self.regions.get_mut(region).filter(|known| known.term == term) {
            known.is_open = true;
        }
    }

    /// Returns the term under which a region is open; `None` if it is closed.
    pub fn open_term(&self, region: &EncodedName) -> Option<Term> {
        self.regions.get(region).filter(|known| known.is_open).map(|known| known.term)
    }

    /// Forgets a region that was removed.
    pub fn forget(&mut self, region: &EncodedName) {
        self.regions.remove(region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_late_is_refused_and_one_that_comes_twice_is_not() {
        let region = EncodedName::parse("0123456789abcdef0123456789abcdef").expect("a name");
        let mut ledger = TermLedger::default();
        ledger.admit_open(&region, Term(5)).expect("the first");
        ledger.admit_open(&region, Term(5)).expect("the same again");
        assert_eq!(ledger.open_term(&region), Some(Term(5)));
        ledger.admit_close(&region, Term(4)).expect_err("of a term before the open one");
        ledger.admit_close(&region, Term(5)).expect("the open one");
        ledger.admit_close(&region, Term(5)).expect("the same again");
        assert_eq!(ledger.open_term(&region), None);
        let stale = ledger.admit_open(&region, Term(5)).expect_err("the term ended by the server's own word");
        assert_eq!((stale.ordered, stale.known), (Term(5), Term(5)));
        ledger.admit_open(&region, Term(6)).expect("a later term");
    }

    #[test]
    fn a_region_whose_closing_failed_is_open_unless_a_later_order_came() {
        let region = EncodedName::parse("0123456789abcdef0123456789abcdef").expect("a name");
        let mut ledger = TermLedger::default();
        ledger.admit_open(&region, Term(5)).expect("the first");
        ledger.admit_close(&region, Term(5)).expect("the open one");
        ledger.stays_open(&region, Term(5));
        assert_eq!(ledger.open_term(&region), Some(Term(5)));
        ledger.admit_close(&region, Term(6)).expect("a later one");
        ledger.stays_open(&region, Term(5));
        assert_eq!(ledger.open_term(&region), None);
    }

    #[test]
    fn a_close_ends_terms_that_never_began_here() {
        let region = EncodedName::parse("0123456789abcdef0123456789abcdef").expect("a name");
        let mut ledger = TermLedger::default();
        ledger.admit_close(&region, Term(9)).expect("it is not open");
        let stale =
            ledger.admit_open(&region, Term(9)).expect_err("an order that was overtaken by its own end");
        let exception = stale.exception();
        assert!(exception.message.contains("term 9") && exception.do_not_retry, "{exception}");
    }
}
