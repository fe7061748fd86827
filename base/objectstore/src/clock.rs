//! Compares this machine's clock with the store's.
//!
//! The Date header of each reply says what time it is at the store, in whole seconds. Stores refuse signed requests
//! whose time differs too much from theirs, so a server whose clock is wrong cannot read or write anything. The start
//! says so before that happens.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use env::WallTime;

/// Difference of the clocks from which on S3 refuses signed requests (`RequestTimeTooSkewed`).
const REFUSED_FROM: Duration = Duration::from_secs(15 * 60);

/// Difference of the clocks from which on a start logs a warning.
const WARNED_FROM: Duration = Duration::from_secs(30);

/// The latest known difference between the clocks.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    /// How far this machine's clock is ahead of the store's, at least, in ms; negative if it is behind. 0 if no reply
    /// shows a difference.
    ahead_ms: AtomicI64,
}

impl StoreClock {
    /// Notes the Date header of a reply to a request that was sent and answered at these times. Any other text than a
    /// date of HTTP has no effect.
    pub(crate) fn note(&self, date: &str, sent: WallTime, received: WallTime) {
        if let Some(date) = parse(date) {
            self.ahead_ms.store(ahead_ms(date, sent, received), Ordering::Release);
        }
    }

    /// Logs a warning if the clocks differ. Fails with the cause and a remedy if they differ so much that the store
    /// refuses requests.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ahead_ms = self.ahead_ms.load(Ordering::Acquire);
        let difference = Duration::from_millis(ahead_ms.unsigned_abs());
        let seconds = difference.as_secs();
        let direction = if ahead_ms > 0 { "ahead of" } else { "behind" };
        if difference >= REFUSED_FROM {
            return Err(format!(
                "this machine's clock is {seconds} s {direction} the store's, and stores refuse signed requests that differ by {} s; set \
                 the clock, for example with timedatectl set-ntp true",
                REFUSED_FROM.as_secs()
            ));
        }
        if difference >= WARNED_FROM {
            tracing::warn!(
                seconds,
                refused_from_seconds = REFUSED_FROM.as_secs(),
                "this machine's clock is {direction} the object store's; if the difference grows, the store refuses all requests: set \
                 the clock, for example with timedatectl set-ntp true"
            );
        }
        Ok(())
    }
}

/// Returns how far this machine's clock is ahead of the store's, at least, in ms. The store's reply has the time `date`.
/// The store may have taken the time at any moment between `sent` and `received`, and cuts off the fraction of a second.
fn ahead_ms(date: WallTime, sent: WallTime, received: WallTime) -> i64 {
    let ahead = sent.0 - (date.0 + 1_000);
    let behind = date.0 - received.0;
    if ahead > 0 { ahead } else { -behind.max(0) }
}

/// Parses a date of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`; returns `None` for any other text.
fn parse(text: &str) -> Option<WallTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split(' ').collect();
    let [_weekday, day, month, year, time, "GMT"] = parts[..] else { return None };
    let number = |text: &str, range: std::ops::RangeInclusive<i64>| {
        text.parse::<i64>().ok().filter(|number| range.contains(number))
    };
    let (day, year) = (number(day, 1..=31)?, number(year, 1970..=9999)?);
    let month = MONTHS.iter().zip(1..).find_map(|(name, index)| (*name == month).then_some(index))?;
    let mut clock = time.splitn(3, ':');
    let mut next = |max| number(clock.next()?, 0..=max);
    let seconds = next(23)? * 3_600 + next(59)? * 60 + next(60)?;
    Some(WallTime((days(year, month, day) * 86_400 + seconds) * 1_000))
}

/// Returns the number of days from 1970-01-01 to a date. A year begins in March here, so that a leap day is its last
/// day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store with another time")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::{Bucket, Options, S3, Service};

    #[test]
    fn a_date_is_parsed_and_other_texts_are_ignored() {
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Sat, 28 Nov 2026 17:22:13 GMT", Some(1_795_886_533)),
            ("Sat, 28 Nov 2026 17:22:13 UTC", None),
            ("Sat, 28 Nov 2026 17:22 GMT", None),
            ("Sat, 28 Nov 2026 24:00:00 GMT", None),
            ("28 Nov 2026 17:22:13 GMT", None),
            ("", None),
        ] {
            assert_eq!(parse(text), seconds.map(|seconds: i64| WallTime(seconds * 1_000)), "{text}");
        }
    }

    #[test]
    fn only_a_difference_that_neither_rounding_nor_latency_explains_counts() {
        let ahead = |date, sent, received| ahead_ms(WallTime(date), WallTime(sent), WallTime(received));
        assert_eq!(ahead(10_000, 10_000, 10_050), 0);
        assert_eq!(ahead(10_000, 10_999, 11_010), 0, "the store's fraction of a second is unknown");
        assert_eq!(ahead(10_000, 9_000, 19_000), 0, "the reply took ten seconds");
        assert_eq!(ahead(10_000, 12_500, 12_600), 1_500);
        assert_eq!(ahead(10_000, 8_000, 8_500), -1_500);
    }

    #[test]
    fn a_difference_of_a_quarter_of_an_hour_is_refused_in_both_directions() {
        let clock = StoreClock::default();
        clock.check().expect("nothing is known");
        let date = "Thu, 01 Jan 1970 10:00:00 GMT";
        let at = |seconds: i64| {
            let time = WallTime((36_000 + seconds) * 1_000);
            clock.note(date, time, time);
            clock.check()
        };
        for seconds in [0, 31, -31, 890, -890] {
            at(seconds).expect("a store accepts this");
        }
        let ahead = at(902).expect_err("too far ahead");
        assert!(
            ahead.contains("clock is 901 s ahead of the store's") && ahead.contains("set the clock"),
            "{ahead}"
        );
        let behind = at(-901).expect_err("too far behind");
        assert!(behind.contains("clock is 901 s behind the store's"), "{behind}");
        at(0).expect("the clock was set");
    }

    /// Returns the error of a start with a store that gives this answer to every request.
    fn refusal(status: &'static str, body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.expect("accepted");
                let _request = client.read(&mut [0; 16 << 10]);
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"e\"\r\nConnection: close\r\n\
                     Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{body}",
                    body.len()
                );
                let _client_may_be_gone = client.write_all(answer.as_bytes());
            }
        });
        let bucket = Bucket::new(Options {
            endpoint: Some(endpoint),
            service: Service::S3(S3 {
                region: Some("us-east-1".to_owned()),
                keys: Some(("a".to_owned(), "b".to_owned())),
                path_style: true,
                ..S3::default()
            }),
            settle_time: Duration::from_secs(1),
            ..Options::new("bucket", "")
        });
        bucket.expect("a client").probe().expect_err("its clock is decades behind").to_string()
    }

    #[test]
    fn a_start_names_the_clock_whether_or_not_the_store_refuses_requests() {
        let too_skewed = "<Error><Code>RequestTimeTooSkewed</Code><Message>no</Message></Error>";
        for (status, body) in [("403 Forbidden", too_skewed), ("200 OK", "")] {
            let error = refusal(status, body);
            assert!(error.contains("s ahead of the store's") && error.contains("timedatectl"), "{error}");
        }
    }
}
