//! Brings the view, hbase:meta and the regions of a table together again after a write to hbase:meta failed.
//!
//! A write that fails may still take place: on a full disk the log keeps it in memory and writes it once there is room. Then
//! hbase:meta has a row that the view lacks, and a region may be open that is recorded as closed. Such a table is noted as *in
//! doubt*. The next procedure of the table, or the chore within ten seconds, reads the table's rows from hbase:meta and opens or
//! closes what the table's state asks for. Changes that have an intent need no note: they are carried on as a whole.
//!
//! Likewise an intent may be stored although its write failed. A later start would carry it out, after clients have gone on with
//! the table. [`Master::begin_change`] removes such an intent. If that fails, too, the intent is noted with its table, and it is
//! removed before anything else is done with the table. Until then, or if the process ends, this must lose no row:
//!
//! | intent whose write failed | why no row is lost |
//! |---|---|
//! | deletion, truncation or restoration of a table | the table is disabled, and is not enabled before the intent is removed |
//! | truncation of a region | the region was closed first, and stays closed until the intent is removed |
//! | deletion of families | the regions refuse puts to these families until the intent is removed |
//! | change of a schema | the table serves on, and an alteration that takes place late deletes no row |
//! | first step of a split or a merge | the regions serve on, and a start only deletes folders of children that nobody has used |
//! | creation, clone, and the deletion that undoes them | no table has the name, and a later creation replaces the intent |
//! | later steps of a split, a merge or a restoration | the change is under way, and goes on from the older or the newer step |

use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, TableName};
use rpc::Exception;

use crate::Master;
use crate::error::of_storage;
use crate::intents::{Intent, IntentKey};

impl Master {
    /// Notes that a write of this table's rows failed, and returns the cause.
    pub(crate) fn note_doubt(&self, table: &TableName, cause: Exception) -> Exception {
        self.in_doubt.lock().insert(table.clone());
        cause
    }

    /// Stores the first intent of a change of a table that exists. If that fails, the intent is not stored afterwards, or it is
    /// [noted](Master::is_doubtful).
    pub(crate) fn begin_change(&self, intent: &Intent) -> Result<(), Exception> {
        let Err(cause) = self.intents.begin(intent.clone()).map_err(of_storage) else { return Ok(()) };
        let Err(also) = self.withdraw(intent) else { return Err(cause) };
        let message = format!(
            "{}; the order for this change may be stored all the same. Until it can be withdrawn, which is tried every ten \
             seconds, table {} can be neither changed nor enabled: {also}",
            cause.message,
            intent.table()
        );
        Err(Exception { message, ..cause })
    }

    /// Removes the first intent of a change, which may be stored although its write failed. If that fails, notes the intent: the
    /// table is in doubt until the intent is removed.
    pub(crate) fn withdraw(&self, intent: &Intent) -> Result<(), Exception> {
        self.intents.end(&intent.key()).map_err(of_storage).inspect_err(|_| {
            self.doubtful_intents.lock().insert(intent.key());
            self.in_doubt.lock().insert(intent.table().clone());
        })
    }

    /// Whether an intent with this key may be stored although its write failed.
    pub(crate) fn is_doubtful(&self, key: &IntentKey) -> bool {
        self.doubtful_intents.lock().contains(key)
    }

    /// Removes the intents of a table that may be stored although their writes failed. The caller has the lock of the table.
    pub(crate) fn end_doubtful_intents(&self, name: &TableName) -> Result<(), Exception> {
        let doubtful = self.doubtful_intents.lock().clone();
        for key in doubtful.iter().filter(|key| key.table() == name) {
            self.intents.end(key).map_err(|cause| {
                Exception::io(format!(
                    "the order for a failed change of table {name} may be stored and cannot be withdrawn, so nothing is done \
                     with the table; call again when the storage can be written: {cause}"
                ))
            })?;
            self.doubtful_intents.lock().remove(key);
        }
        Ok(())
    }

    /// Whether a write of this table's rows failed, and the table was not settled since.
    pub(crate) fn is_in_doubt(&self, table: &TableName) -> bool {
        self.in_doubt.lock().contains(table)
    }

    /// Settles a table that is in doubt. The caller has the lock of the table. If this fails, the table stays in doubt.
    pub(crate) fn settle_doubt(&self, name: &TableName) -> Result<(), Exception> {
        if !self.in_doubt.lock().remove(name) {
            return Ok(());
        }
        self.settle(name).map_err(|cause| self.note_doubt(name, cause))
    }

    fn settle(&self, name: &TableName) -> Result<(), Exception> {
        if name.is_meta() {
            // No catalog lists hbase:meta. If it is closed, the chore opens it.
            return Ok(());
        }
        let mut content = self.catalog.read().map_err(|error| Exception::io(error.to_string()))?;
        let (rows, state) = (content.regions.remove(name).unwrap_or_default(), content.states.get(name));
        let table = self.update_view(|view| {
            if let (true, Some(state)) = (view.tables.contains_key(name), state) {
                view.set_state(name, *state);
            }
            let table = view.tables.get_mut(name)?;
            rows.into_iter().for_each(|row| table.update(row));
            Some((table.state, table.serving().cloned().collect::<Vec<_>>()))
        });
        let Some((state, rows)) = table else { return Ok(()) };
        let is_open = |region: &RegionInfo| {
            self.regions.owner(region.encoded_name()).is_some_and(|owner| !owner.is_closing)
        };
        let is_wanted_open = matches!(state, TableState::Enabled | TableState::Enabling);
        let is_wrong = |row: &RegionRow| {
            let is_recorded =
                row.state == if is_wanted_open { RegionState::Open } else { RegionState::Closed };
            !is_recorded || is_open(&row.region) != is_wanted_open
        };
        let wrong: Vec<RegionRow> = rows.into_iter().filter(is_wrong).collect();
        tracing::info!(table = %name, regions = wrong.len(), "the table is settled after a failed write to hbase:meta");
        if is_wanted_open {
            self.in_parallel(wrong, |row| self.open_or_record(row))?;
            self.accept_puts(name)?;
        } else {
            self.in_parallel(wrong, |row| self.close_to_disable(&row.region))?;
        }
        match state {
            TableState::Enabling => self.set_state(name, TableState::Enabled),
            TableState::Disabling => self.set_state(name, TableState::Disabled),
            TableState::Enabled | TableState::Disabled => Ok(()),
        }
    }
}
