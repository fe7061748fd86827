//! Writes and reads with good and bad keys for some time, for the pictures of the heat map in the pages of the recipes.

use std::time::Duration;

use bytes::Bytes;
use client::{Get, Increment, Put};
use futures::future::try_join_all;

use crate::session::{Done, Session, family, note};

/// A table, and the function that returns the key of its write `number` by a thread in second `second`.
type Keyed = (&'static str, fn(u64, u64) -> Bytes);

const TABLES: [Keyed; 4] = [
    // A time series whose key begins with the time: all sensors write at the end of the table.
    ("recipe_heat_time_first", |second, sensor| format!("{second:010}|sensor{sensor:04}").into()),
    ("recipe_heat_sensor_first", |second, sensor| format!("sensor{sensor:04}|{second:010}").into()),
    // A counter in one row among others, and over 16 shards.
    ("recipe_heat_one_counter", |second, number| match number % 4 {
        0 => format!("counter{:04}", (second * 7 + number * 13) % 500).into(),
        _ => "counter0250".into(),
    }),
    ("recipe_heat_many_shards", |second, number| match number % 4 {
        0 => format!("{:x}|counter{:04}", number % 16, (second * 7 + number * 13) % 500).into(),
        _ => format!("{:x}|counter0250", (number * 5 + second * 3) % 16).into(),
    }),
];

/// Number of calls to each table in one second.
const RATE: u64 = 400;

pub(crate) async fn run(session: &Session, seconds: u64) -> Done {
    let world = env::World::real();
    let mut tables = Vec::new();
    for (name, key) in TABLES {
        tables.push((session.fresh_table(name, [family("d")?], &[]).await?, key));
    }
    for second in 0..seconds {
        let began = world.moment();
        for (table, key) in &tables {
            let counted =
                table.name().to_string().contains("count") || table.name().to_string().contains("shard");
            let call = async |number: u64| -> Done {
                let row = key(second, number);
                if counted {
                    table.increment(Increment::row(row).add("d", "n", 1).return_results(false)).await?;
                } else {
                    table.put(Put::row(row.clone()).set("d", "v", "21.5")).await?;
                    if number.is_multiple_of(8) {
                        table.get(Get::row(row)).await?;
                    }
                }
                Ok(())
            };
            try_join_all((0..RATE).map(call)).await?;
        }
        let spent = world.moment().since(began);
        env::sleep(Duration::from_secs(1).saturating_sub(spent)).await;
    }
    note(&format!("{} calls to each of {} tables", RATE * seconds, tables.len()));
    Ok(())
}
