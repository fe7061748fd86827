//! `bellows hand-back`: makes a data directory the root folder of an Apache HBase.

use std::sync::Arc;

use env::World;
use storage::Files;

use crate::args::HandBack;
use crate::data_dir;
use crate::failure::Failure;
use crate::log_place;
use crate::output;
use crate::root::Root;
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
    // The folder of the log (`hbase.wal.dir`) is locked, too, which creates a file in it.
    let log_folder = settings.wal_dir.as_ref().and_then(Root::folder);
    let unlocked = log_folder.filter(|folder| storage::open_outside(&folder.join(data_dir::LOCK)).is_err());
    let done = give_back(&world, &settings, &files);
    if let Some(folder) = unlocked.filter(|_| done.is_err()) {
        data_dir::forget_lock(folder);
    }
    done?;
    data_dir::forget_lock(folder);
    [folder].into_iter().chain(log_folder).for_each(data_dir::forget_reserve);
    output::ignoring_closed_pipe(say(&format!(
        "{root} is a root folder of Apache HBase again: set hbase.rootdir to it, and start HBase 2.6\n"
    )))
}

fn give_back(world: &World, settings: &Settings, files: &Arc<dyn Files>) -> Result<(), Failure> {
    let (root, wal_dir) = (&settings.root, settings.wal_dir.as_ref());
    // The log may be elsewhere. It is looked up as a start does, so that it is not overlooked.
    let log = log_place::open_existing(world, &settings.conf, files, &root.to_string(), wal_dir)?;
    door::hand_back(files, &log, world).map_err(|error| Failure::of_words(root, error))?;
    data_dir::give(&**files, root)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "real folders are the point")]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_folder_of_the_log_is_refused_and_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("bellows-hand-back-{:x}", World::real().random()));
        let (root, log) = (folder.join("data"), folder.join("log"));
        drop(data_dir::open(&root).expect("a new data directory"));
        let hand_back = || {
            let define = vec![("hbase.wal.dir".to_owned(), log.display().to_string())];
            run(&HandBack { root: root.clone(), site: None, define }, |_| Ok(()))
                .expect_err("refused")
                .to_string()
        };
        let refused = hand_back();
        assert!(refused.contains("hbase.wal.dir is ") && refused.contains("no such folder"), "{refused}");
        assert!(!log.exists(), "no folder is created");
        // The root has no hbase:meta, and neither place has a log.
        std::fs::create_dir_all(&log).expect("new");
        let refused = hand_back();
        assert!(!refused.contains("hbase.wal.dir"), "{refused}");
        assert_eq!(std::fs::read_dir(&log).expect("there").count(), 0, "nothing is written into the folder");
        assert!(!root.join("bellows.wal").exists(), "the place is not recorded");
        std::fs::remove_dir_all(&folder).expect("the test's own");
    }
}
