//! Whether a start may have its log in another place than the last one.
//!
//! A place that has a log must have been moved as a whole: the record in it names this data directory. Otherwise the log of
//! the previous place must not be needed any more: its server was stopped in order, and every write in it is in store files.
//! Then the new place may have no log, or an old one of this data directory that is not needed, either.
//!
//! On a disk and in HDFS a file of the log is one file. In an object store it is a folder of parts. Neither can be read in
//! the other, so a log that was copied from one to the other is refused.

use std::fmt;
use std::sync::Arc;

use conf::Conf;
use env::World;
use storage::{Capability, FileName, Files};

use super::{BELONGS, LogState, NOTE, PARTS, Records, growing_log, has_log};
use crate::data_dir;
use crate::failure::Failure;
use crate::root::{LOG_FOLDER, Root};

/// A start with the log in another place than the data directory records.
pub(super) struct Change<'a> {
    pub(super) world: &'a World,
    pub(super) conf: &'a Conf,
    /// The data, which messages call `root`.
    pub(super) files: &'a Arc<dyn Files>,
    pub(super) root: &'a str,
    pub(super) records: &'a Records,
    pub(super) state: &'a LogState,
    /// The new place of the log; empty for the data directory.
    pub(super) to: &'a str,
    /// The storage there.
    pub(super) log: &'a Arc<dyn Files>,
}

impl Change<'_> {
    /// Fails unless the log may be in the new place; see the module documentation. Writes nothing. Returns whether the log is
    /// there already, because the operator has moved it.
    pub(super) fn check(&self) -> Result<bool, Failure> {
        let to = if self.to.is_empty() { self.root } else { self.to };
        let in_place = growing_log(self.world, self.conf, self.log)?;
        let has_log = has_log(&*in_place, to)?;
        let of_place = self.records.belongs.as_ref().map(|(id, _)| id);
        if has_log && of_place.is_some() && of_place == self.records.id.as_ref() {
            return Ok(true);
        }
        self.check_previous(to)?;
        if has_log && let Some(file) = unfinished(&*in_place)? {
            return Err(Failure::new(format!(
                "{to} has an older log of {}, and {file} in it was not finished, so HDFS does not show what it has: name another place, \
                 or delete {to}/{LOG_FOLDER} if you are certain that it is not needed",
                self.root
            )));
        }
        if has_log {
            door::check_log_is_flushed(self.files, &in_place, self.world).map_err(|why| {
                Failure::new(format!(
                    "{to} has an older log of {} that may be needed ({why}): name another place, or delete {to}/{LOG_FOLDER} if you \
                     are certain that it is not needed",
                    self.root
                ))
            })?;
        }
        Ok(false)
    }

    /// Fails if the log in the place where the data directory records it may be needed. `to` is the new place.
    fn check_previous(&self, to: &str) -> Result<(), Failure> {
        let (root, from) = (self.root, &self.records.place[..]);
        check_can_be_read(root, from, to, self.state)?;
        let moved = |why: &dyn fmt::Display| moved(root, from, to, why);
        let files = match from {
            "" => Arc::clone(self.files),
            from => Root::parse(NOTE, from)
                .and_then(|place| place.open_log_to_check(self.conf))
                .map_err(|why| moved(&why))?,
        };
        let log = growing_log(self.world, self.conf, &files)?;
        match has_log(&*log, if from.is_empty() { root } else { from })? {
            true => door::check_log_is_flushed(self.files, &log, self.world).map_err(|why| moved(&why)),
            false if from.is_empty() => self.state.check(root, root, false),
            false => Err(moved(&"it is not there any more")),
        }
    }
}

/// Returns a file of a log in HDFS that is empty as far as can be seen. An orderly stop finishes each file, with an end record.
fn unfinished(log: &dyn Files) -> Result<Option<FileName>, Failure> {
    let can = log.capabilities();
    if can.has(Capability::OneProcess) || !can.has(Capability::SyncPrefix) {
        return Ok(None);
    }
    let folder = FileName::new(LOG_FOLDER);
    let listed = log.list(&folder).map_err(|error| Failure::of_storage(LOG_FOLDER, &error))?;
    Ok(listed.into_iter().find(|entry| entry.size == 0).map(|entry| entry.name))
}

/// Fails if the log of the data directory `root` may be needed, and is in HDFS. HDFS does not show what the last server wrote to
/// the file that it had open, so such a log would look as if nothing were in it. `from` is the recorded place of the log.
fn check_can_be_read(root: &str, from: &str, to: &str, state: &LogState) -> Result<(), Failure> {
    let is_in_hdfs = Root::parse(NOTE, if from.is_empty() { root } else { from })
        .is_ok_and(|place| matches!(place, Root::Hdfs { .. }));
    if state.is_open && is_in_hdfs {
        return Err(not_stopped(root, from, to));
    }
    Ok(())
}

/// Returns the refusal of a start with the log in `to`, because the server with the log in `from` may run.
pub(super) fn not_stopped(root: &str, from: &str, to: &str) -> Failure {
    moved(root, from, to, &"its server was not stopped in order, or still runs")
}

/// Returns the refusal of a start with the log in `to`. `why` says why the log in its previous place, which is `before` or the
/// data directory `root`, may be needed.
fn moved(root: &str, before: &str, to: &str, why: &dyn fmt::Display) -> Failure {
    let (from, start) = match before {
        "" => (root, "without hbase.wal.dir".to_owned()),
        place => (place, format!("with -D hbase.wal.dir={place}")),
    };
    // Only a log that is not in the data directory has its record beside it.
    let is_same_kind = |from: &str| {
        let kinds = [from, to].map(|place| Root::parse(NOTE, place).map(|place| place.is_bucket()));
        matches!(kinds, [Ok(from), Ok(to)] if from == to)
    };
    let or_move = match before {
        "" => String::new(),
        from if is_same_kind(from) => {
            format!(". If {from} cannot be used any more, move {PARTS} from it to {to}")
        }
        _ => String::new(),
    };
    Failure::new(format!(
        "the write-ahead log of {root} is in {from}/{LOG_FOLDER}, and may be needed ({why}): start {start}; to have the log in \
         {to}, stop that server in order (SIGTERM, status 0), and start again{or_move}"
    ))
}

/// Fails if the place `name` without a record may have something that is not of the data directory `root`.
pub(super) fn check_is_free(name: &str, root: &str, log: &dyn Files) -> Result<(), Failure> {
    if data_dir::is_root(log, name)? {
        return Err(Failure::new(format!(
            "hbase.wal.dir is {name}, which is a data directory or a root folder of HBase, and not the place of the log of {root}; \
             name a place of its own"
        )));
    }
    if has_log(log, name)? {
        return Err(Failure::new(format!(
            "{name}/{LOG_FOLDER} has a log, and no file {BELONGS} beside it that says to which data directory it belongs; name \
             another place. If it was moved there from the hbase.wal.dir of {root}, move {BELONGS} from there, too; if it was moved \
             there from {root}, move it back, start without hbase.wal.dir, stop in order, and start again"
        )));
    }
    Ok(())
}

/// Fails if the place `name` has a log in the form of another kind of storage. Such a file would be ignored or deleted.
pub(super) fn check_format(log: &dyn Files, name: &str) -> Result<(), Failure> {
    let folder = FileName::new(LOG_FOLDER);
    let listed = log.list(&folder).map_err(|error| Failure::of_storage(name, &error))?;
    let is_whole = log.capabilities().has(Capability::SyncPrefix);
    let foreign = listed.iter().find(|entry| {
        let below = entry.name.below(&folder).and_then(|below| below.split_once(".wal"));
        below.is_some_and(|(number, rest)| {
            number.bytes().all(|byte| byte.is_ascii_digit())
                && (if is_whole { rest.starts_with('/') } else { rest.is_empty() })
        })
    });
    let Some(foreign) = foreign else { return Ok(()) };
    let (found, expected) = match is_whole {
        true => ("a part of a log file of an object store", "is none: there a log file is one file"),
        false => {
            ("a log file of a disk or of HDFS", "is an object store: there a log file is a folder of parts")
        }
    };
    Err(Failure::new(format!(
        "{name}/{} is {found}, and {name} {expected}, so it cannot be read here; nothing was changed. Move the files back to where \
         the server wrote them, start with the log there, stop in order (SIGTERM, status 0), and start with the log in {name} again",
        foreign.name
    )))
}
