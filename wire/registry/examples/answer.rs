//! Serves a small sample tree to ZooKeeper clients at the given address until standard input ends, to try clients
//! against it.
//!
//! `cargo run -p registry --example answer -- 127.0.0.1:2181`

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use env::World;
use registry::{Options, Server, Tree, payload};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned()).parse()?;
    let world = World::real();
    let tree = Arc::new(Tree::new(world.clone()));
    let id = "\x0a\x24f2b1b6a2-6e3c-4a52-9d3c-3f6f0d0e7a11";
    tree.set("/hbase/hbaseid", payload::wrap("sample:localhost,16000,1", world.random(), id.as_bytes()));
    tree.set("/hbase/running", "");
    tree.set("/hbase/rs", "");
    let _server = Server::bind(world, Options::default(), address)?.serve(tree);
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
