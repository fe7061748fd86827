//! `bellows adopt`: takes over the root folder of an Apache HBase.

use std::fmt::Write as _;
use std::sync::Arc;

use door::Shutdown;
use env::World;
use storage::Files;

use crate::args::Adopt;
use crate::data_dir;
use crate::failure::Failure;
use crate::output;
use crate::settings::Settings;

/// Inspects the root, reports what was found, and adopts the root unless something prevents it.
pub(crate) fn run(options: &Adopt, mut say: impl FnMut(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    let world = World::real();
    let settings = Settings::of_root(&options.root, options.site.as_deref(), &options.define)?;
    let root = &settings.root;
    let Some(folder) = root.folder() else {
        return Err(Failure::new(format!(
            "{root} is in an object store: only a root folder on a disk of this machine is adopted; copy it to one first"
        )));
    };
    let was_locked = storage::open_outside(&folder.join(data_dir::LOCK)).is_ok();
    let files: Arc<dyn Files> = Arc::new(data_dir::open_of_hbase(folder)?);
    let done = look_and_adopt(options, &settings, &files, &world, &mut say);
    if !was_locked && (options.dry_run || done.is_err()) {
        data_dir::forget_lock(folder);
    }
    done
}

fn look_and_adopt(
    options: &Adopt,
    settings: &Settings,
    files: &Arc<dyn Files>,
    world: &World,
    say: &mut impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let root = &settings.root;
    let of_door = |error: door::Error| Failure::of_words(root, error);
    let log = match &settings.wal_dir {
        Some(place) => place.open_for_log(&settings.conf)?,
        None => Arc::clone(files),
    };
    let ended = if options.killed { Shutdown::MaybeKilled } else { Shutdown::Clean };
    let inventory = door::look(files, &log, world, ended).map_err(of_door)?;
    let report = &inventory.report;
    let mut text = format!("{root}: {} tables, {report}", inventory.tables.len());
    let blockers = report.blockers.len();
    let has_losses = !report.left_behind.is_empty() && !options.leave_behind;
    if blockers > 0 || options.dry_run || has_losses {
        text.push_str("nothing was changed\n");
        output::ignoring_closed_pipe(say(&text))?;
        if blockers > 0 {
            let them =
                if blockers == 1 { "one thing is".to_owned() } else { format!("{blockers} things are") };
            return Err(Failure::new(format!("{root} cannot be adopted: {them} in the way, see above")));
        }
        if has_losses && !options.dry_run {
            return Err(Failure::new(format!(
                "{root} is not adopted: something would be left behind, see above; repeat with --leave-behind to do without it"
            )));
        }
        return Ok(());
    }
    door::adopt(&inventory, files, &log, world).map_err(of_door)?;
    data_dir::take(&**files, root)?;
    door::archive_logs(&**files, &*log).map_err(of_door)?;
    let _in_memory = write!(text, "adopted; serve it with: bellows start --data-dir {root}");
    text.push('\n');
    output::ignoring_closed_pipe(say(&text))
}
