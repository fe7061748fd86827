//! `bellows fsck`: checks a data directory that no server has open.

use std::fmt::Write as _;
use std::sync::Arc;

use env::World;
use storage::Files;

use crate::args::{Fsck, Start};
use crate::data_dir;
use crate::failure::Failure;
use crate::log_place;
use crate::output;
use crate::root::Root;
use crate::settings::Settings;

/// Checks the data directory and prints every inconsistency. Returns whether there is none.
pub(crate) fn run(options: &Fsck, mut say: impl FnMut(&str) -> std::io::Result<()>) -> Result<bool, Failure> {
    let world = World::real();
    let settings = Settings::gather(&Start {
        data_dir: options.root.clone(),
        site: options.site.clone(),
        define: options.define.clone(),
        ..Start::default()
    })?;
    let root = &settings.root;
    // The folder of the log is locked, too, which creates a file in it.
    let log_folder = settings.wal_dir.as_ref().and_then(Root::folder).filter(|_| root.folder().is_some());
    let unlocked = log_folder.filter(|folder| storage::open_outside(&folder.join(data_dir::LOCK)).is_err());
    let is_well = check(&world, &settings, &mut say);
    if let Some(folder) = unlocked {
        data_dir::forget_lock(folder);
    }
    is_well
}

fn check(
    world: &World,
    settings: &Settings,
    say: &mut impl FnMut(&str) -> std::io::Result<()>,
) -> Result<bool, Failure> {
    let root = &settings.root;
    let (files, log): (Arc<dyn Files>, Arc<dyn Files>) = match root.folder() {
        Some(folder) => {
            let files: Arc<dyn Files> = Arc::new(data_dir::open_existing_for_reading(folder)?);
            let (name, wal_dir) = (root.to_string(), settings.wal_dir.as_ref());
            let log = log_place::open_to_check(world, &settings.conf, &files, &name, wal_dir)?;
            (files, log)
        }
        None => {
            let files = root.open_for_reading(&settings.conf)?.files;
            let log = log_place::open_for_reading(world, &settings.conf, &files, root, None)?;
            (files, log)
        }
    };
    let checkup = door::fsck(&files, &log, world).map_err(|error| Failure::of_words(root, error))?;
    let mut text = String::new();
    for note in &checkup.notes {
        let _infallible = writeln!(text, "note: {note}");
    }
    for inconsistency in &checkup.inconsistencies {
        let _infallible = writeln!(text, "{inconsistency}");
    }
    let count = match checkup.inconsistencies.len() {
        0 => "no inconsistency".to_owned(),
        1 => "1 inconsistency".to_owned(),
        count => format!("{count} inconsistencies"),
    };
    let _infallible = writeln!(
        text,
        "{root}: {} tables, {} regions, {} store files with {} bytes: {count}",
        checkup.tables, checkup.regions, checkup.files, checkup.bytes
    );
    output::ignoring_closed_pipe(say(&text))?;
    Ok(checkup.inconsistencies.is_empty())
}
