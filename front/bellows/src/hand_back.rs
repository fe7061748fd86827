//! `bellows hand-back`: makes a data directory the root folder of an Apache HBase.

use std::sync::Arc;

use env::World;
use storage::Files;

use crate::args::HandBack;
use crate::data_dir;
use crate::failure::Failure;
use crate::log_place;
use crate::output;
use crate::settings::Settings;

/// Hands the data directory back, unless something in it is not finished.
pub(crate) fn run(
    options: &HandBack,
    mut say: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let world = World::real();
    let settings = Settings::of_root(&options.root, options.site.as_deref(), &options.define)?;
    let root = &settings.root;
    let Some(folder) = root.folder() else {
        return Err(Failure::new(format!(
            "{root} is in {}: only a data directory on a disk of this machine is handed back",
            root.medium()
        )));
    };
    let files: Arc<dyn Files> = Arc::new(data_dir::open_existing(folder)?);
    // The log may be elsewhere (`hbase.wal.dir`). It is looked up as a start does, so that it is not overlooked.
    let wal_dir = settings.wal_dir.as_ref();
    let log = log_place::open(&world, &settings.conf, &files, &root.to_string(), wal_dir)?;
    door::hand_back(&files, &log, &world).map_err(|error| Failure::of_words(root, error))?;
    data_dir::give(&*files, root)?;
    data_dir::forget_lock(folder);
    output::ignoring_closed_pipe(say(&format!(
        "{root} is a root folder of Apache HBase again: set hbase.rootdir to it, and start HBase 2.6\n"
    )))
}
