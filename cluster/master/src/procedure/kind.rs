//! The kinds of procedures, and the names that HBase has for them.

/// What a procedure does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcedureKind {
    /// Creates a table.
    Create,
    /// Deletes a table.
    Delete,
    /// Enables a table.
    Enable,
    /// Disables a table.
    Disable,
    /// Removes all rows of a table.
    Truncate,
    /// Changes the schema of a table.
    Alter,
    /// Sets the store file tracker of a table.
    ModifyTracker,
    /// Sets the store file tracker of a family.
    ModifyFamilyTracker,
    /// Flushes a table.
    Flush,
    /// Takes a snapshot of a table.
    Snapshot,
    /// Creates a table from a snapshot.
    Clone,
    /// Restores a table from a snapshot.
    Restore,
    /// Splits a region.
    Split,
    /// Merges regions.
    Merge,
    /// Removes all rows of a region.
    TruncateRegion,
    /// Moves a region to another server.
    Move,
    /// Opens a region.
    Assign,
    /// Closes a region.
    Unassign,
    /// Opens a region whose opening failed.
    Reopen,
    /// Deletes parents of splits and merges whose files nobody needs.
    CollectParents,
    /// Completes a change that an earlier failure has interrupted.
    CarryOn,
    /// Undoes a creation that failed.
    TakeBack,
    /// Repairs hbase:meta.
    FixMeta,
    /// Sets the state of a table or region in hbase:meta alone.
    SetState,
    /// Creates a namespace.
    CreateNamespace,
    /// Changes a namespace.
    ModifyNamespace,
    /// Deletes a namespace.
    DeleteNamespace,
    /// Brings a read replica's catalog up to date.
    RefreshMeta,
    /// Brings a read replica's regions up to date.
    RefreshHfiles,
}

impl ProcedureKind {
    /// The kinds whose ids clients get, to ask for the outcome. Their procedures have stored records. A flush has none, although
    /// clients get its id: it changes nothing that a client can see, and a record would be half of the requests of a small flush
    /// in an object store.
    const RECORDED: [ProcedureKind; 17] = [
        ProcedureKind::Create,
        ProcedureKind::Delete,
        ProcedureKind::Enable,
        ProcedureKind::Disable,
        ProcedureKind::Truncate,
        ProcedureKind::Alter,
        ProcedureKind::ModifyTracker,
        ProcedureKind::ModifyFamilyTracker,
        ProcedureKind::Snapshot,
        ProcedureKind::Clone,
        ProcedureKind::Restore,
        ProcedureKind::Split,
        ProcedureKind::Merge,
        ProcedureKind::TruncateRegion,
        ProcedureKind::CreateNamespace,
        ProcedureKind::ModifyNamespace,
        ProcedureKind::DeleteNamespace,
    ];

    /// Whether procedures of this kind have a stored record if a client submits them.
    pub fn is_recorded(self) -> bool {
        ProcedureKind::RECORDED.contains(&self)
    }

    /// Returns the recorded kind with this full name of a class; `None` if there is none.
    pub(super) fn of_recorded_class(name: &str) -> Option<ProcedureKind> {
        ProcedureKind::RECORDED.into_iter().find(|kind| kind.class_name() == name)
    }

    /// Returns the name of HBase's Java class with the same task, without its package. Work that is not a procedure in
    /// HBase gets a name of the same form.
    const fn class(self) -> &'static str {
        match self {
            ProcedureKind::Create => "CreateTableProcedure",
            ProcedureKind::Delete => "DeleteTableProcedure",
            ProcedureKind::Enable => "EnableTableProcedure",
            ProcedureKind::Disable => "DisableTableProcedure",
            ProcedureKind::Truncate => "TruncateTableProcedure",
            ProcedureKind::Alter => "ModifyTableProcedure",
            ProcedureKind::ModifyTracker => "ModifyTableStoreFileTrackerProcedure",
            ProcedureKind::ModifyFamilyTracker => "ModifyColumnFamilyStoreFileTrackerProcedure",
            ProcedureKind::Flush => "FlushTableProcedure",
            ProcedureKind::Snapshot => "SnapshotProcedure",
            ProcedureKind::Clone => "CloneSnapshotProcedure",
            ProcedureKind::Restore => "RestoreSnapshotProcedure",
            ProcedureKind::Split => "SplitTableRegionProcedure",
            ProcedureKind::Merge => "MergeTableRegionsProcedure",
            ProcedureKind::TruncateRegion => "TruncateRegionProcedure",
            ProcedureKind::Move | ProcedureKind::Assign | ProcedureKind::Unassign | ProcedureKind::Reopen => {
                "TransitRegionStateProcedure"
            }
            ProcedureKind::CollectParents => "GCMultipleMergedRegionsProcedure",
            ProcedureKind::CarryOn => "CarryOnProcedure",
            ProcedureKind::TakeBack => "TakeBackCreationProcedure",
            ProcedureKind::FixMeta => "FixMetaProcedure",
            ProcedureKind::SetState => "SetStateInMetaProcedure",
            ProcedureKind::CreateNamespace => "CreateNamespaceProcedure",
            ProcedureKind::ModifyNamespace => "ModifyNamespaceProcedure",
            ProcedureKind::DeleteNamespace => "DeleteNamespaceProcedure",
            ProcedureKind::RefreshMeta => "RefreshMetaProcedure",
            ProcedureKind::RefreshHfiles => "RefreshHFilesTableProcedure",
        }
    }

    /// Returns the full name of the class, as `list_procedures` shows it.
    pub fn class_name(self) -> String {
        let package = match self {
            ProcedureKind::Split
            | ProcedureKind::Merge
            | ProcedureKind::Move
            | ProcedureKind::Assign
            | ProcedureKind::Unassign
            | ProcedureKind::Reopen
            | ProcedureKind::CollectParents => "assignment",
            ProcedureKind::ModifyTracker | ProcedureKind::ModifyFamilyTracker => {
                return format!("org.apache.hadoop.hbase.regionserver.storefiletracker.{}", self.class());
            }
            _ => "procedure",
        };
        format!("org.apache.hadoop.hbase.master.{package}.{}", self.class())
    }

    /// Returns a short name, for threads.
    pub const fn label(self) -> &'static str {
        match self {
            ProcedureKind::Create => "create",
            ProcedureKind::Delete => "delete",
            ProcedureKind::Enable => "enable",
            ProcedureKind::Disable => "disable",
            ProcedureKind::Truncate => "truncate",
            ProcedureKind::Alter => "alter",
            ProcedureKind::ModifyTracker | ProcedureKind::ModifyFamilyTracker => "tracker",
            ProcedureKind::Flush => "flush",
            ProcedureKind::Snapshot => "snapshot",
            ProcedureKind::Clone => "clone",
            ProcedureKind::Restore => "restore",
            ProcedureKind::Split => "split",
            ProcedureKind::Merge => "merge",
            ProcedureKind::TruncateRegion => "truncate-region",
            ProcedureKind::Move => "move",
            ProcedureKind::Assign => "assign",
            ProcedureKind::Unassign => "unassign",
            ProcedureKind::Reopen => "reopen",
            ProcedureKind::CollectParents => "parents",
            ProcedureKind::CarryOn => "carry-on",
            ProcedureKind::TakeBack => "take-back",
            ProcedureKind::FixMeta => "fix-meta",
            ProcedureKind::SetState => "set-state",
            ProcedureKind::CreateNamespace => "create-ns",
            ProcedureKind::ModifyNamespace => "modify-ns",
            ProcedureKind::DeleteNamespace => "delete-ns",
            ProcedureKind::RefreshMeta => "refresh-meta",
            ProcedureKind::RefreshHfiles => "refresh-hfiles",
        }
    }
}
