//! The recipe for time series: readings of many sensors, queried by sensor and time. See `recipes/timeseries.md`.

use bytes::Bytes;
use client::{Get, Put, Row, Scan, Table};

use crate::session::{Done, Session, check, family, say};

const SENSORS: u32 = 20;
/// The hour of the first reading, in hours since 1970.
const FIRST_HOUR: u32 = 498_000;
const HOURS: u32 = 4;
const STEP_SECONDS: u16 = 10;

/// Returns the key of a row, which holds an hour of one sensor: the sensor, then the hour, each in four bytes,
/// big-endian. All sensors write at the same time to different places. A key that began with the hour would send every
/// write to the same region.
fn key(sensor: u32, hour: u32) -> Bytes {
    [sensor.to_be_bytes(), hour.to_be_bytes()].concat().into()
}

fn hour(row: &Row) -> u32 {
    row.key().get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// A reading: the time in seconds since 1970, and the value.
type Reading = (u64, f64);

/// Returns the readings in a row. The name of a column is the second within the hour, in two bytes, so that columns
/// are in the order of time.
fn readings(row: &Row) -> Vec<Reading> {
    let start = u64::from(hour(row)) * 3600;
    let reading = |cell: &client::OwnedCell| {
        let second = u16::from_be_bytes(cell.qualifier().try_into().ok()?);
        let value = f64::from_be_bytes(cell.value().try_into().ok()?);
        Some((start + u64::from(second), value))
    };
    row.cells().iter().filter_map(reading).collect()
}

/// Returns the made-up value that sensor `sensor` measures at a time; it involves no random number.
fn measured(sensor: u32, hour: u32, second: u16) -> f64 {
    f64::from(sensor) + f64::from((hour * 3600 + u32::from(second)) % 7200) / 7200.0
}

struct Store(Table);

impl Store {
    /// Returns a put with an hour of one sensor. A collector would write its readings every few seconds, into the same
    /// row.
    fn hour_of(sensor: u32, hour: u32) -> Put {
        (0..3600u16).step_by(usize::from(STEP_SECONDS)).fold(Put::row(key(sensor, hour)), |put, second| {
            put.set("r", second.to_be_bytes().to_vec(), measured(sensor, hour, second).to_be_bytes().to_vec())
        })
    }

    /// Returns the readings of a sensor from `from` until before `to`, in seconds since 1970.
    async fn range(&self, sensor: u32, from: u64, to: u64) -> Done<Vec<Reading>> {
        let hours = |second: u64| u32::try_from(second / 3600).unwrap_or(u32::MAX);
        let scan = Scan::new().from(key(sensor, hours(from))).through(key(sensor, hours(to)));
        let mut scanner = self.0.scan(scan);
        let mut all = Vec::new();
        while let Some(row) = scanner.next().await? {
            all.extend(readings(&row).into_iter().filter(|(second, _)| (from..to).contains(second)));
        }
        Ok(all)
    }

    /// Returns the newest reading of a sensor, by a reversed scan of one row from the end of the sensor's keys.
    async fn latest(&self, sensor: u32) -> Done<Option<Reading>> {
        let scan = Scan::new().reversed().from(key(sensor, u32::MAX)).to(key(sensor, 0)).limit(1);
        Ok(self.0.scan(scan).collect().await?.first().and_then(|row| readings(row).pop()))
    }
}

pub(crate) async fn run(session: &Session) -> Done {
    // Keys of neighbours differ in a few bytes, which FAST_DIFF does not store twice; GZ makes the values small. Readings go
    // after a year, file by file, without a delete. One region for five sensors from the start.
    let family = family("r")?
        .with("DATA_BLOCK_ENCODING", "FAST_DIFF")
        .with("COMPRESSION", "GZ")
        .with("TTL", 365 * 24 * 3600);
    let splits: Vec<Bytes> = [5, 10, 15].map(|sensor| key(sensor, 0)).into();
    let store = Store(session.fresh_table("recipe_readings", [family], &splits).await?);

    let mut cells = 0;
    for hour in FIRST_HOUR..FIRST_HOUR + HOURS {
        store.0.put_all((0..SENSORS).map(|sensor| Store::hour_of(sensor, hour))).await?;
        cells += SENSORS * 3600 / u32::from(STEP_SECONDS);
    }
    say(&format!("{cells} readings in {} rows", SENSORS * HOURS));
    session.cluster.admin().flush(store.0.name()).await?;

    let from = u64::from(FIRST_HOUR) * 3600;
    let window = store.range(7, from + 3000, from + 4200).await?;
    let mean = window.iter().map(|(_, value)| value).sum::<f64>() / window.len() as f64;
    say(&format!("sensor 7, 20 minutes over the hour: {} readings, mean {mean:.4}", window.len()));
    check!(window.len() == 120, "one reading in ten seconds");
    check!(window.windows(2).all(|pair| pair[0].0 + 10 == pair[1].0), "in order, without a gap");
    for (second, value) in &window {
        let (hour, second) = ((second / 3600) as u32, (second % 3600) as u16);
        check!(*value == measured(7, hour, second), "what was written at {hour}:{second} is read");
    }

    let latest = store.latest(7).await?.ok_or("sensor 7 has readings")?;
    say(&format!("sensor 7, latest: {:.4} at second {}", latest.1, latest.0 - from));
    check!(latest.0 == from + u64::from(HOURS) * 3600 - 10, "the newest one");
    check!(store.latest(SENSORS + 1).await?.is_none(), "a sensor that never reported");

    // Columns within the row: the last minute of an hour needs no other cell of it.
    let get = (3540..3600u16)
        .step_by(usize::from(STEP_SECONDS))
        .fold(Get::row(key(3, FIRST_HOUR)), |get, second| get.column("r", second.to_be_bytes().to_vec()));
    let minute = readings(&store.0.get(get).await?);
    say(&format!("sensor 3, last minute of the first hour: {} readings", minute.len()));
    check!(minute.len() == 6, "six of them");

    // All sensors at one time: one get each, sent together. This is what such a key is bad at; see the page.
    let gets = (0..SENSORS)
        .map(|sensor| Get::row(key(sensor, FIRST_HOUR + 1)).column("r", 0u16.to_be_bytes().to_vec()));
    let rows = store.0.get_all(gets).await?;
    let sum: f64 = rows.iter().flat_map(readings).map(|(_, value)| value).sum();
    say(&format!("all {} sensors on the hour: sum {sum:.1}", rows.len()));
    check!(rows.iter().all(|row| readings(row).len() == 1), "each has a reading");
    Ok(())
}
