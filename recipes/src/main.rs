//! Runs recipes against a cluster, Bellows or Apache HBase.
//!
//! ```text
//! cargo run -p recipes -- 127.0.0.1:16020                 all recipes, at a master or region server
//! cargo run -p recipes -- 127.0.0.1:16020 queue graph     some of them
//! cargo run -p recipes -- 127.0.0.1:16020 heat 180        writes of good and bad keys for 180 s, for the heat maps
//! ```
//!
//! Each recipe makes its tables (named `recipe_*`, replaced if they exist), loads them, queries them and checks the
//! answers. The lines that it prints are the same on every cluster, except those that begin with `#`.

mod document;
mod entity;
mod graph;
mod heat;
mod messaging;
mod metrics;
mod queue;
mod session;
mod timeseries;

use client::{Cluster, Options, Registry};
use env::{Runtime, World};

use session::{Done, Session, say};

/// Every recipe, in the order of the documentation.
const NAMES: [&str; 7] = ["entity", "timeseries", "messaging", "document", "graph", "queue", "metrics"];

fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((address, names)) = words.split_first() else {
        return Err("usage: recipes HOST:PORT [NAME... | heat SECONDS]".into());
    };
    let cluster = Cluster::connect(World::real(), Options::new(Registry::rpc(address.split(','))));
    let session = Session::new(cluster);
    let names = names.to_vec();
    let runtime = Runtime::start("recipes", 2)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        // The receiver waits below.
        let _sent = sender.send(run(&session, &names).await);
    });
    receiver.recv()?
}

async fn run(session: &Session, names: &[String]) -> Done {
    if let [heat, seconds] = names
        && heat == "heat"
    {
        return heat::run(session, seconds.parse()?).await;
    }
    let all: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
    for name in if names.is_empty() { &all } else { names } {
        say(&format!("== {name}"));
        match name.as_str() {
            "entity" => entity::run(session).await,
            "timeseries" => timeseries::run(session).await,
            "messaging" => messaging::run(session).await,
            "document" => document::run(session).await,
            "graph" => graph::run(session).await,
            "queue" => queue::run(session).await,
            "metrics" => metrics::run(session).await,
            _ => Err(format!("no recipe is called {name}: {}", NAMES.join(", ")).into()),
        }
        .map_err(|error| format!("recipe {name}: {error}"))?;
    }
    Ok(())
}
