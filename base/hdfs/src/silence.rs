//! Reports why HDFS does not answer.
//!
//! The HDFS library repeats a call for minutes while it cannot reach the NameNode, and reports nothing meanwhile. So a
//! call that takes long tries a connection to the NameNode, and logs its failure.

use std::pin::pin;
use std::time::Duration;

/// Time after which a call is first reported, and then again.
const REPORT: Duration = Duration::from_secs(2);
const REPORT_AGAIN: Duration = Duration::from_secs(10);
/// Maximum time of a look at the NameNode.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Runs `work` for at most `limit`. Logs a warning while it takes long. Returns what is known of the NameNode of `url` if
/// the limit is exceeded.
pub(crate) async fn limited<T>(
    limit: Duration,
    url: &str,
    act: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, String> {
    let mut work = pin!(work);
    let (mut waited, mut wait) = (Duration::ZERO, REPORT);
    loop {
        let step = wait.min(limit.saturating_sub(waited));
        if let Some(done) = env::timeout(step, work.as_mut()).await {
            return Ok(done);
        }
        waited += step;
        if waited >= limit {
            return Err(look(url).await);
        }
        wait = REPORT_AGAIN;
        // A task of its own, so that the work goes on meanwhile.
        let url = url.to_owned();
        drop(env::spawn(async move {
            let cause = look(&url).await;
            let (waited_ms, limit_ms) = (waited.as_millis() as u64, limit.as_millis() as u64);
            tracing::warn!(url, act, cause, waited_ms, limit_ms, "a call of HDFS takes long");
        }));
    }
}

/// Connects to the NameNode of `url`, and returns what came of it.
pub(crate) async fn look(url: &str) -> String {
    let Some(address) = url.strip_prefix("hdfs://").filter(|address| address.contains(':')) else {
        return format!("hdfs-site.xml has the addresses of {url}");
    };
    let dialled = env::timeout(LOOK_MAX, async {
        let mut outcome = Err(std::io::Error::other("the name has no address"));
        for one in env::resolve(address).await? {
            outcome = env::dial(one).await.map(drop);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    });
    match dialled.await {
        Some(Ok(())) => format!("{address} accepts connections"),
        Some(Err(error)) => format!("cannot connect to {address}: {error}"),
        None => format!("cannot connect to {address} within {LOOK_MAX:?}"),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a NameNode that does not answer")]
mod tests {
    use std::net::TcpListener;

    use crate::{Hdfs, Options};

    use super::*;

    /// A start need not wait for as long as a running server does.
    #[test]
    fn a_probe_of_namenodes_that_refuse_connections_ends_soon_and_names_them() {
        let closed =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let began = env::World::real().moment();
        let url = format!("hdfs://{closed}");
        let refused = Hdfs::probe(&Options::new(&url, "/folder")).expect_err("nothing listens").to_string();
        let waited = env::World::real().moment().since(began);
        assert!(refused.contains(&format!("cannot connect to {closed}: Connection refused")), "{refused}");
        assert!(waited < Duration::from_secs(15), "{waited:?}");
    }

    #[test]
    fn a_namenode_that_cannot_be_reached_is_named_with_the_cause() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let options = Options {
            call_max: Duration::from_millis(200),
            ..Options::new(format!("hdfs://{address}"), "/folder")
        };
        let take = || Hdfs::open(options.clone()).expect("an address").take();
        let silent = take().expect_err("no answer").to_string();
        assert!(silent.contains("accepts connections"), "{silent}");
        drop(listener);
        let absent = take().expect_err("nothing listens").to_string();
        assert!(absent.contains(&format!("cannot connect to {address}: Connection refused")), "{absent}");
        for error in [silent, absent] {
            assert!(
                error.starts_with("cannot take the root folder: HDFS did not answer within 200ms"),
                "{error}"
            );
        }
    }
}
