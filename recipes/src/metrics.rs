//! The recipe for metrics: counters at three resolutions, each kept for its own time. See `recipes/metrics.md`.

use std::time::Duration;

use client::{Get, Increment, Put, Row, Scan, Table, TimeRange};
use futures::future::try_join_all;

use crate::session::{Done, Session, check, family, note, say, text};

/// The first second that is counted, in seconds since 1970: a midnight.
const START: u64 = 20_000 * 86_400;
const DAY: u64 = 86_400;
/// Number of rows over which one busy counter is spread.
const SHARDS: u64 = 8;

/// The resolutions: family, seconds of one bucket, and how long buckets are kept, in seconds.
const RESOLUTIONS: [(&str, u64, u64); 3] =
    [("m", 60, 2 * DAY), ("h", 3_600, 60 * DAY), ("d", DAY, 10 * 365 * DAY)];

/// Returns the key of a row, which has a day of one metric: `metric|day`.
fn key(metric: &str, second: u64) -> String {
    format!("{metric}|{:06}", second / DAY)
}

/// Returns the name of a bucket's column: the number of the bucket within its day.
fn bucket(second: u64, width: u64) -> Vec<u8> {
    ((second % DAY / width) as u16).to_be_bytes().to_vec()
}

struct Metrics {
    counters: Table,
    busy: Table,
}

impl Metrics {
    /// Counts an event: one call changes all resolutions of a row together, and a repeated call counts once.
    async fn count(&self, metric: &str, second: u64, amount: i64) -> Done {
        let increment =
            RESOLUTIONS.iter().fold(Increment::row(key(metric, second)), |sum, (family, width, _)| {
                sum.add(*family, bucket(second, *width), amount)
            });
        self.counters.increment(increment.return_results(false)).await?;
        Ok(())
    }

    /// Returns the buckets of one day: number within the day, and count.
    async fn day(&self, metric: &str, day: u64, family: &'static str) -> Done<Vec<(u16, i64)>> {
        let row = self.counters.get(Get::row(key(metric, day * DAY)).family(family)).await?;
        Ok(buckets(&row))
    }

    /// Adds to a counter that very many clients increment. One row would take every write; the shard is drawn by the
    /// caller.
    async fn count_busy(&self, name: &str, shard: u64, amount: i64) -> Done {
        let row = format!("{}|{name}", shard % SHARDS);
        self.busy.increment(Increment::row(row).add("n", "", amount).return_results(false)).await?;
        Ok(())
    }

    async fn read_busy(&self, name: &str) -> Done<i64> {
        let rows = self.busy.get_all((0..SHARDS).map(|shard| Get::row(format!("{shard}|{name}")))).await?;
        Ok(rows.iter().filter_map(|row| row.number("n", "")).sum())
    }
}

fn buckets(row: &Row) -> Vec<(u16, i64)> {
    let bucket = |cell: &client::OwnedCell| {
        let number = u16::from_be_bytes(cell.qualifier().try_into().ok()?);
        Some((number, i64::from_be_bytes(cell.value().try_into().ok()?)))
    };
    row.cells().iter().filter_map(bucket).collect()
}

pub(crate) async fn run(session: &Session) -> Done {
    // A counter is written again and again: memory keeps only its newest value (EAGER), so that one cell, not a thousand,
    // is flushed. Each resolution has its own family and so its own time to live.
    let resolution = |(name, _, ttl): (&'static str, u64, u64)| {
        Ok(family(name)?.with("TTL", ttl).with("IN_MEMORY_COMPACTION", "EAGER"))
    };
    let families = RESOLUTIONS.into_iter().map(resolution).collect::<Done<Vec<_>>>()?;
    let splits: Vec<bytes::Bytes> = (1..SHARDS).map(|shard| shard.to_string().into()).collect();
    let metrics = Metrics {
        counters: session.fresh_table("recipe_metrics", families, &[]).await?,
        busy: session
            .fresh_table(
                "recipe_busy_counters",
                [family("n")?.with("IN_MEMORY_COMPACTION", "EAGER")],
                &splits,
            )
            .await?,
    };

    // Two days, an event each minute, ten in the second hour of a day; several callers at once.
    let mut events = 0;
    for chunk in (0..2 * DAY).step_by(60).collect::<Vec<_>>().chunks(64) {
        let amount = |second: u64| if second % DAY / 3_600 == 1 { 10 } else { 1 };
        events += chunk.iter().map(|&second| amount(second)).sum::<i64>();
        try_join_all(chunk.iter().map(|&second| metrics.count("logins", START + second, amount(second))))
            .await?;
    }
    say(&format!("{events} events counted at three resolutions"));
    let first_day = START / DAY;
    for (family, width, _) in RESOLUTIONS {
        let (first, second) = (
            metrics.day("logins", first_day, family).await?,
            metrics.day("logins", first_day + 1, family).await?,
        );
        let total: i64 = first.iter().chain(&second).map(|bucket| bucket.1).sum();
        say(&format!("buckets of {width} s: {} a day, {total} events", first.len()));
        check!(total == events && first.len() as u64 == DAY / width, "nothing lost, nothing twice");
        check!(first == second, "both days are alike");
    }
    let hours = metrics.day("logins", first_day, "h").await?;
    let peak = hours.iter().max_by_key(|bucket| bucket.1).ok_or("there are hours")?;
    say(&format!("the peak of the first day is hour {} with {} events", peak.0, peak.1));
    check!(*peak == (1, 600), "ten a minute in the second hour");

    // A month of days is one scan over rows that lie together; only the family of days is read.
    let month = Scan::new().from(key("logins", START)).to(key("logins", START + 30 * DAY)).family("d");
    let days = metrics.counters.scan(month).collect().await?;
    say(&format!("{} rows for a month of days", days.len()));
    check!(days.len() == 2, "two days have events");

    let adds = (0..400).map(|number| metrics.count_busy("clicks", number * 7, 1));
    try_join_all(adds).await?;
    let clicks = metrics.read_busy("clicks").await?;
    say(&format!("{clicks} clicks over {SHARDS} shards"));
    check!(clicks == 400, "the shards add up");

    // Expiry: what is older than the family's time to live is not read any more, at once and without a delete.
    let now_ms = env::World::real().now().0;
    let old = now_ms - 3 * DAY as i64 * 1000;
    let aged =
        RESOLUTIONS.iter().fold(Put::row("aged|0"), |put, (family, ..)| put.set_at(*family, "b", old, "1"));
    metrics.counters.put(aged).await?;
    // A cell may also have a time to live of its own.
    metrics.counters.put(Put::row("brief|0").set("d", "b", "1").ttl(300)).await?;
    check!(!metrics.counters.get(Get::row("brief|0")).await?.is_empty(), "it is there for 300 ms");
    env::sleep(Duration::from_millis(400)).await;
    check!(metrics.counters.get(Get::row("brief|0")).await?.is_empty(), "and then it is not");
    let kept = metrics.counters.get(Get::row("aged|0").time_range(TimeRange::ALL)).await?;
    let kept: Vec<String> = kept.cells().iter().map(|cell| text(cell.family())).collect();
    say(&format!("of three resolutions written three days ago remain: {}", kept.join(" ")));
    check!(kept == ["d", "h"], "minutes are kept for two days");

    session.cluster.admin().flush(metrics.counters.name()).await?;
    let raw = metrics.counters.scan(Scan::new().prefix("logins").raw().versions(1 << 20)).collect().await?;
    let on_disk: usize = raw.iter().map(|row| row.cells().len()).sum();
    let written = 2 * DAY / 60 * 3;
    note(&format!("{written} cells written by increments, {on_disk} reached the disk"));
    Ok(())
}
