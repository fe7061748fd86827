//! Computes which cells a flush or a compaction keeps, by HBase's rules.
//!
//! 1. A column ends with the first cell beyond the family's versions or time to live or, where markers mask by
//!    timestamp, with the first cell that a marker of the column or family masks. The rest is dropped, markers
//!    included. Only the column with the empty name, where the family's markers are, is read to its end.
//! 2. The following are dropped, too: masked puts, cells whose own time to live has expired, and, of several puts with
//!    one timestamp, all but the last write.
//! 3. Markers stay unless all files take part. Then markers are dropped for which deleted cells are not kept, unless
//!    they are younger than the time for which all are kept.
//! 4. With `NEW_VERSION_BEHAVIOR` everything stays unless all files take part, because earlier versions decide which
//!    versions were displaced. There expired markers also count.

use cell::CellType;

use crate::reference::{Stored, is_expired, masked};
use crate::stream::{Family, Keep};

/// The files that a flush or compaction rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Some files, or only memory.
    Some,
    /// All files.
    All {
        /// How long markers stay, in ms, although all files are rewritten.
        purge_deletes_after: i64,
        /// The oldest timestamp of a put in the files.
        earliest_put: i64,
    },
}

/// Returns for each cell of a row and family, in order, whether it is kept.
pub fn kept(cells: &[&Stored], family: &Family, kind: Kind, now: i64) -> Vec<bool> {
    if family.new_versions && kind == Kind::Some {
        return vec![true; cells.len()];
    }
    let masks = |marker: &Stored| match family.keep {
        Keep::Nothing => true,
        Keep::Deleted => false,
        Keep::UntilTtl => is_expired(family, marker.timestamp, now),
    };
    let is_out_of_time = |cell: &Stored| {
        family.min_versions == 0 && !family.new_versions && is_expired(family, cell.timestamp, now)
    };
    let markers: Vec<&Stored> = cells
        .iter()
        .copied()
        .filter(|cell| cell.kind.is_delete() && masks(cell) && !is_out_of_time(cell) && !cell.is_over(now))
        .collect();
    let mut stays = Vec::new();
    for column in cells.chunk_by(|left, right| left.qualifier == right.qualifier) {
        let masked = masked(column, &markers, family, now);
        let (mut ended, mut versions, mut last) = (false, 0, None);
        for (cell, masked) in column.iter().zip(masked) {
            let mut fate = || {
                if is_out_of_time(cell) {
                    return Fate::End;
                } else if cell.is_over(now) {
                    return Fate::Go;
                } else if cell.kind.is_delete() {
                    let Kind::All { purge_deletes_after, earliest_put } = kind else { return Fate::Stay };
                    if purge_deletes_after > 0 && now - cell.timestamp <= purge_deletes_after {
                        return Fate::Stay;
                    } else if masks(cell) {
                        return Fate::Go;
                    } else if cell.timestamp < earliest_put {
                        return Fate::End;
                    }
                } else if masked {
                    return if masks_the_rest(cell, &markers, family) { Fate::End } else { Fate::Go };
                }
                if last == Some((cell.timestamp, cell.kind)) {
                    return Fate::Go;
                }
                versions += u32::from(!cell.kind.is_delete());
                let is_expired = is_expired(family, cell.timestamp, now);
                if versions > family.versions || (is_expired && versions > family.min_versions) {
                    return Fate::End;
                }
                last = Some((cell.timestamp, cell.kind));
                Fate::Stay
            };
            let fate = if ended { Fate::Go } else { fate() };
            ended |= fate == Fate::End && !cell.qualifier.is_empty();
            stays.push(fate == Fate::Stay);
        }
    }
    stays
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stay,
    Go,
    /// The column ends with this cell.
    End,
}

/// Whether a marker masks a put and all older ones of its column.
fn masks_the_rest(put: &Stored, markers: &[&Stored], family: &Family) -> bool {
    let has = |kind, covers: &dyn Fn(&Stored) -> bool| {
        markers.iter().any(|marker| marker.kind == kind && covers(marker))
    };
    if family.new_versions {
        return false;
    }
    // HBase checks the kinds of markers in this order, and the first one that masks the put decides.
    has(CellType::DeleteFamily, &|marker| put.timestamp <= marker.timestamp)
        || (!has(CellType::DeleteFamilyVersion, &|marker| put.timestamp == marker.timestamp)
            && has(CellType::DeleteColumn, &|marker| {
                marker.qualifier == put.qualifier && put.timestamp <= marker.timestamp
            }))
}
