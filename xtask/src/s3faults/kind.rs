//! The kinds of faults, and which requests each of them strikes.

use super::message::Message;
use super::request::{RequestKind, parameter};
use crate::random::Random;

/// The folder of the log.
const LOG: &str = "/WALs";

/// A kind of faults of the connection to a store, or of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The store carries the request out, and the client gets status 500.
    ErrorAfter,
    /// The store carries the request out, and the connection breaks before the reply or within it.
    ResetAfter,
    /// The client never gets a reply. The store carries the request out at once, or after the client has given up, or
    /// never gets it.
    Timeout,
    /// The store gets the request twice at the same time. The client gets one of the replies.
    Twice,
    /// The store gets a request that writes once more after the delay of the run.
    Again,
    /// The store gets a request that deletes once more after the delay of the run. By then a table may have been created
    /// again under the name of a deleted one.
    DeleteAgain,
    /// The store answers a conditional PUT with 409 ConditionalRequestConflict, and does nothing.
    Conflict,
    /// For some seconds the store answers every request with 503 SlowDown.
    Storm,
    /// For some seconds a proxy in front of the store answers every request with a 404 of its own.
    NoRoute,
    /// Listings of the log miss objects that were created, and show objects that were deleted, within the last seconds.
    StaleLogList,
    /// The same for all listings. A store that promises no more is refused at the start: the server finds the file lists
    /// of its stores by listings, so it loses data.
    StaleList,
    /// All of the others except those of listings and [`DeleteAgain`](Kind::DeleteAgain), each less often.
    Mixed,
}

impl Kind {
    pub(crate) const ALL: [Kind; 12] = [
        Kind::ErrorAfter,
        Kind::ResetAfter,
        Kind::Timeout,
        Kind::Twice,
        Kind::Again,
        Kind::DeleteAgain,
        Kind::Conflict,
        Kind::Storm,
        Kind::NoRoute,
        Kind::StaleLogList,
        Kind::StaleList,
        Kind::Mixed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::ErrorAfter => "error-after",
            Kind::ResetAfter => "reset-after",
            Kind::Timeout => "timeout",
            Kind::Twice => "twice",
            Kind::Again => "again",
            Kind::DeleteAgain => "delete-again",
            Kind::Conflict => "conflict",
            Kind::Storm => "storm",
            Kind::NoRoute => "no-route",
            Kind::StaleLogList => "stale-log-list",
            Kind::StaleList => "stale-list",
            Kind::Mixed => "mixed",
        }
    }

    /// Returns whether the server must lose nothing in such faults.
    pub(crate) fn must_pass(self) -> bool {
        self != Kind::StaleList
    }

    pub(crate) fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns how many of a thousand requests are struck.
    fn rate(self) -> u64 {
        match self {
            // Each of these faults costs the time after which the client gives up.
            Kind::Timeout => 5,
            Kind::Storm | Kind::NoRoute => 1_000,
            Kind::Conflict => 100,
            Kind::DeleteAgain => 500,
            Kind::StaleLogList | Kind::StaleList => 500,
            _ => 50,
        }
    }

    /// Returns what happens to this request; `None` if nothing does. `in_storm` says that a storm is on.
    pub(crate) fn strike(self, request: &Message, random: &mut Random, in_storm: bool) -> Option<Act> {
        let kind = RequestKind::of(request);
        if self == Kind::Mixed {
            const PARTS: [Kind; 8] = [
                Kind::ErrorAfter,
                Kind::ResetAfter,
                Kind::Timeout,
                Kind::Twice,
                Kind::Again,
                Kind::Conflict,
                Kind::Storm,
                Kind::NoRoute,
            ];
            return PARTS[random.below(PARTS.len() as u64) as usize].strike(request, random, in_storm);
        }
        if random.below(1_000) >= self.rate() {
            return None;
        }
        let is_conditional = request.field("if-none-match").is_some() || request.field("if-match").is_some();
        match self {
            Kind::ErrorAfter => Some(Act::ErrorAfter),
            Kind::ResetAfter => Some(Act::ResetAfter { within_reply: random.below(2) == 0 }),
            Kind::Timeout => Some(Act::Silence(match random.below(4) {
                0 => Arrival::Never,
                1 => Arrival::Late,
                _ => Arrival::AtOnce,
            })),
            Kind::Twice => Some(Act::Twice { first_replies: random.below(2) == 0 }),
            Kind::Again => (kind.is_change() && !kind.is_deletion()).then_some(Act::Again),
            Kind::DeleteAgain => kind.is_deletion().then_some(Act::Again),
            Kind::Conflict => (kind == RequestKind::Put && is_conditional)
                .then_some(Act::Refuse { status: "409 Conflict", code: "ConditionalRequestConflict" }),
            Kind::Storm => in_storm.then_some(Act::Refuse { status: "503 Slow Down", code: "SlowDown" }),
            Kind::NoRoute => in_storm.then_some(Act::NoRoute),
            Kind::StaleLogList => {
                let (_, query) = request.target();
                let prefix = parameter(query, "prefix").unwrap_or_default();
                (kind == RequestKind::List && prefix.contains(LOG)).then_some(Act::StaleList)
            }
            Kind::StaleList => (kind == RequestKind::List).then_some(Act::StaleList),
            Kind::Mixed => unreachable!("one of its parts was chosen"),
        }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    ErrorAfter,
    ResetAfter { within_reply: bool },
    Silence(Arrival),
    Twice { first_replies: bool },
    Again,
    Refuse { status: &'static str, code: &'static str },
    NoRoute,
    StaleList,
}

/// When the store gets a request whose client waits in vain for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    AtOnce,
    /// After the client has given up.
    Late,
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Message {
        Message::request(&mut format!("{head}\r\n\r\n").as_bytes()).unwrap().unwrap()
    }

    fn struck(kind: Kind, request: &Message) -> usize {
        let mut random = Random::new(7);
        (0..10_000).filter(|_| kind.strike(request, &mut random, true).is_some()).count()
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()), Some(kind));
        }
        assert_eq!(Kind::parse("nothing"), None);
    }

    #[test]
    fn a_kind_strikes_the_requests_that_it_should() {
        let (put, get) = (request("PUT /b/k HTTP/1.1"), request("GET /b/k HTTP/1.1"));
        let conditional = request("PUT /b/k HTTP/1.1\r\nIf-None-Match: *");
        let list = request("GET /b?list-type=2 HTTP/1.1");
        for kind in [Kind::ErrorAfter, Kind::ResetAfter, Kind::Twice] {
            assert!((400..600).contains(&struck(kind, &get)), "{kind:?}");
        }
        assert_eq!(struck(Kind::Again, &get), 0);
        assert!(struck(Kind::Again, &put) > 400);
        let delete = request("DELETE /b/k HTTP/1.1");
        assert_eq!((struck(Kind::Again, &delete), struck(Kind::DeleteAgain, &put)), (0, 0));
        assert!(struck(Kind::DeleteAgain, &delete) > 4_000);
        assert_eq!(struck(Kind::Conflict, &put), 0);
        assert!(struck(Kind::Conflict, &conditional) > 800);
        assert_eq!(struck(Kind::StaleLogList, &list), 0);
        let of_log = request("GET /b?list-type=2&prefix=faults%2FWALs%2F HTTP/1.1");
        assert!(struck(Kind::StaleLogList, &of_log) > 4_000);
        assert_eq!(struck(Kind::StaleList, &get), 0);
        assert!(struck(Kind::StaleList, &list) > 4_000);
        assert_eq!((struck(Kind::Storm, &get), struck(Kind::NoRoute, &put)), (10_000, 10_000));
    }
}
