//! The reference model: all cells that were written and not dropped, in order, and the rules by which a reader sees
//! them.
//!
//! Each rule looks at a whole row and decides for each cell whether a reader sees it. No rule keeps state from one cell
//! to the next, as a matcher does. The rules are those of HBase's documentation and matchers:
//!
//! 1. A marker masks, in its row and family, the puts at its timestamp (`Version`, `FamilyVersion`) or up to it
//!    (`Column`, `Family`), whenever these were written. With a time range, markers older than the range do not
//!    count; where deleted cells are kept, only markers within the range count.
//! 2. With `NEW_VERSION_BEHAVIOR` a marker masks cells written before it. A version that newer ones had displaced when
//!    a marker was written stays displaced; see [`Eras`] for HBase's order.
//! 3. Of the remaining cells the newest versions count, each timestamp once. `MIN_VERSIONS` keeps cells whose time to
//!    live is over.
//! 4. A filter sees the cells within the family's versions; the scan's versions are counted among those that it keeps.
//! 5. Limit and offset of a family count the cells that remain then; batches and sizes cut the row.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cell::CellType;

use crate::stream::{Compare, Family, Keep, Query, Sieve, Single, Value, Walk};

/// Where a cell is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memstore.
    Memory,
    /// In a file of this name.
    File(Rc<str>),
    /// Only in the log: memory has dropped the cell as redundant.
    Log,
    /// Nowhere as a cell: memory has dropped this marker, which still masks. It is recorded in memory, or in the file
    /// of this name.
    Swept(Option<Rc<str>>),
}

/// A written cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The qualifier of the cell.
    pub qualifier: &'static str,
    /// The timestamp of the cell.
    pub timestamp: i64,
    /// The type of the cell.
    pub kind: CellType,
    /// The number of the write in the order of all writes.
    pub sequence: u64,
    /// The value of the cell.
    pub value: Rc<[u8]>,
    /// The tags of the cell.
    pub tags: Rc<[u8]>,
    /// The cell's own time to live in ms, from its tags.
    pub ttl: Option<i64>,
    /// Whether the log has the cell.
    pub logged: bool,
    /// Where the cell is stored.
    pub place: Place,
}

impl Stored {
    fn order(&self) -> (&str, std::cmp::Reverse<i64>, std::cmp::Reverse<u8>, std::cmp::Reverse<u64>) {
        use std::cmp::Reverse;
        (self.qualifier, Reverse(self.timestamp), Reverse(self.kind.code()), Reverse(self.sequence))
    }

    /// Whether the cell's own time to live is over.
    pub fn is_over(&self, now: i64) -> bool {
        self.ttl.is_some_and(|ttl| self.timestamp.saturating_add(ttl) < now)
    }
}

/// Whether the family's time to live is over for this timestamp.
pub fn is_expired(family: &Family, timestamp: i64, now: i64) -> bool {
    family.ttl.is_some_and(|ttl| timestamp < now - i64::from(ttl) * 1_000)
}

/// A cell that a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The row of the cell.
    pub row: Vec<u8>,
    /// The family of the cell.
    pub family: Vec<u8>,
    /// The qualifier of the cell.
    pub qualifier: Vec<u8>,
    /// The timestamp of the cell.
    pub timestamp: i64,
    /// The code of the cell's type.
    pub kind: u8,
    /// The value of the cell.
    pub value: Vec<u8>,
    /// The tags of the cell.
    pub tags: Vec<u8>,
}

/// All cells of a region.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The schemas of the families, in the order of their names.
    pub families: Vec<Family>,
    /// The cells by row and family, in order.
    cells: BTreeMap<(&'static str, usize), Vec<Stored>>,
}

impl Reference {
    /// Creates a reference without cells.
    pub fn new(families: Vec<Family>) -> Reference {
        Reference { families, cells: BTreeMap::new() }
    }

    /// Returns the index of a family.
    ///
    /// # Panics
    /// When there is no such family.
    pub fn family(&self, name: &str) -> usize {
        self.families.iter().position(|family| family.name == name).expect("a family of the setup")
    }

    /// Adds a cell.
    pub fn insert(&mut self, row: &'static str, family: usize, cell: Stored) {
        let cells = self.cells.entry((row, family)).or_default();
        let at = cells.partition_point(|other| other.order() < cell.order());
        cells.insert(at, cell);
    }

    /// Returns the rows of a family with their cells, in order.
    pub fn of_family(&self, family: usize) -> impl Iterator<Item = (&'static str, &[Stored])> {
        self.cells
            .iter()
            .filter(move |((_, of), _)| *of == family)
            .map(|((row, _), cells)| (*row, &cells[..]))
    }

    /// Changes or removes the cells of a family.
    pub fn retain(&mut self, family: usize, mut keep: impl FnMut(&'static str, &mut Stored) -> bool) {
        for ((row, of), cells) in &mut self.cells {
            if *of == family {
                cells.retain_mut(|cell| keep(row, cell));
            }
        }
    }

    /// Returns the cells of a row and family that are visible before any filter. `filtered` says whether a filter is
    /// applied afterwards.
    fn offered<'c>(
        &'c self,
        row: &'static str,
        index: usize,
        query: &Query,
        now: i64,
        filtered: bool,
    ) -> Vec<&'c Stored> {
        let family = &self.families[index];
        let asked = query.families.iter().find(|asked| asked.family == family.name);
        let range = asked.and_then(|asked| asked.range).or(query.range);
        let (from, until) = range.unwrap_or((0, i64::MAX));
        let is_late = |timestamp: i64| until != i64::MAX && timestamp >= until;
        let is_early = |timestamp: i64| from > 0 && timestamp < from;
        let wanted = asked.and_then(|asked| asked.qualifiers.as_deref()).filter(|_| !query.raw);
        let all: Vec<&Stored> = self
            .cells
            .get(&(row, index))
            .into_iter()
            .flatten()
            .filter(|cell| cell.place != Place::Log && !cell.is_over(now))
            // A raw scan returns markers as cells, but not one that memory has dropped.
            .filter(|cell| !(query.raw && matches!(cell.place, Place::Swept(_))))
            .collect();
        let markers: Vec<&Stored> = all
            .iter()
            .copied()
            .filter(|cell| cell.kind.is_delete() && !is_early(cell.timestamp))
            .filter(|cell| family.keep == Keep::Nothing || !is_late(cell.timestamp))
            .collect();
        let limit = match (query.raw, filtered) {
            (true, true) => u32::MAX,
            (true, false) => query.versions,
            (false, true) if !family.new_versions => family.versions,
            (false, _) => family.versions.min(query.versions),
        };
        let mut offered = Vec::new();
        for column in all.chunk_by(|left, right| left.qualifier == right.qualifier) {
            let qualifier = column[0].qualifier;
            if wanted.is_some_and(|wanted| !wanted.contains(&qualifier)) {
                continue;
            }
            let masked = masked(column, &markers, family, now);
            let mut versions = 0;
            let mut last = None;
            for (&cell, masked) in column.iter().zip(masked) {
                let (at, kind) = (cell.timestamp, cell.kind);
                let is_expired = is_expired(family, at, now) && !query.raw;
                let is_hidden = !query.raw && (kind.is_delete() || masked);
                if is_hidden || is_late(at) || is_early(at) || last == Some((at, kind)) {
                    continue;
                }
                versions += u32::from(!kind.is_delete());
                let is_past = match wanted {
                    // Of a requested column HBase returns the first version after MIN_VERSIONS although it has expired.
                    Some(_) if !family.new_versions => versions > limit,
                    _ => versions > limit || (is_expired && versions > family.min_versions),
                };
                if is_past || (is_expired && family.min_versions == 0) {
                    break;
                }
                last = Some((at, kind));
                offered.push(cell);
                let ends =
                    wanted.is_some() && !family.new_versions && is_expired && versions >= family.min_versions;
                if ends {
                    break;
                }
            }
        }
        offered
    }

    /// Returns the cells of a row that a reader gets; none when the row is not returned.
    fn read_row(&self, row: &'static str, query: &Query, now: i64, reversed: bool) -> Vec<Given> {
        let sieve = query.sieve.as_ref();
        if sieve.is_some_and(|sieve| !sieve.passes_row(row, reversed)) {
            return Vec::new();
        }
        let asked = |family: &Family| {
            query.families.is_empty() || query.families.iter().any(|asked| asked.family == family.name)
        };
        let indices: Vec<usize> =
            (0..self.families.len()).filter(|index| asked(&self.families[*index])).collect();
        let is_first = |index: &usize| {
            !query.on_demand || sieve.is_none_or(|of| of.is_essential(self.families[*index].name))
        };
        // Families loaded on demand are read after the others, and sorted into the row.
        let (first, later): (Vec<usize>, Vec<usize>) = indices.into_iter().partition(is_first);
        let mut state = Judged { reversed, ..Judged::default() };
        let mut of_families: BTreeMap<usize, Vec<&Stored>> = BTreeMap::new();
        for index in first {
            of_families.insert(index, self.of_reader(row, index, query, now, &mut state));
        }
        if let Some(sieve) = sieve {
            if of_families.values().all(Vec::is_empty) {
                return Vec::new();
            }
            // The filter is not asked about a row all of whose cells it removes; HBase, too, then reads the families
            // that it does not need.
            let left = sieve.take_out(&self.families, &mut of_families, &state);
            if left && !sieve.keeps_row(&state) {
                return Vec::new();
            }
        } else if of_families.values().all(Vec::is_empty) {
            return Vec::new();
        }
        for index in later {
            of_families.insert(index, self.of_reader(row, index, query, now, &mut state));
        }
        let shown = |index: usize, cell: &Stored| {
            let (value, is_shown_whole) = match sieve.and_then(Sieve::shows) {
                None => (cell.value.to_vec(), true),
                Some(false) => (Vec::new(), false),
                Some(true) => ((cell.value.len() as u32).to_be_bytes().to_vec(), false),
            };
            Given {
                row: row.as_bytes().to_vec(),
                family: self.families[index].name.as_bytes().to_vec(),
                qualifier: cell.qualifier.as_bytes().to_vec(),
                timestamp: cell.timestamp,
                kind: cell.kind.code(),
                value,
                tags: if is_shown_whole { cell.tags.to_vec() } else { Vec::new() },
            }
        };
        of_families.iter().flat_map(|(index, cells)| cells.iter().map(|cell| shown(*index, cell))).collect()
    }

    /// Returns the cells of a row and family after filter, versions, offset and limit.
    fn of_reader<'c>(
        &'c self,
        row: &'static str,
        index: usize,
        query: &Query,
        now: i64,
        state: &mut Judged,
    ) -> Vec<&'c Stored> {
        let family = &self.families[index];
        let offered = self.offered(row, index, query, now, query.sieve.is_some());
        let versions = if query.raw { query.versions } else { query.versions.min(family.versions) };
        let mut kept: Vec<&Stored> = Vec::new();
        let mut is_over = None;
        let asked = query.families.iter().find(|asked| asked.family == family.name);
        let is_explicit = !query.raw && asked.is_some_and(|asked| asked.qualifiers.is_some());
        let last = query.store_limit.map_or(usize::MAX, |limit| (query.store_offset + limit) as usize);
        for cell in offered {
            // After the limit the rest of the family is not read, and after one version too many the rest of the
            // column. The filter does not get these cells either.
            if kept.len() >= last {
                break;
            }
            let Some(sieve) = &query.sieve else {
                kept.push(cell);
                continue;
            };
            // Among the versions of the column with the empty name there may be markers of the family, which are not
            // skipped. A filter that is done with the column gets its next version like that of another column.
            let is_passed = !cell.qualifier.is_empty() || is_explicit;
            state.is_passed = is_passed;
            if is_over == Some(cell.qualifier) || !sieve.judge(row, family.name, cell, state) {
                continue;
            }
            if kept.iter().filter(|other| other.qualifier == cell.qualifier).count() < versions as usize {
                kept.push(cell);
            } else if is_passed {
                is_over = Some(cell.qualifier);
            }
        }
        kept.into_iter().skip(query.store_offset as usize).collect()
    }

    /// Returns the cells of a get.
    pub fn get(&self, row: &'static str, query: &Query, now: i64) -> Vec<Given> {
        self.read_row(row, query, now, false)
    }

    /// Returns the rows of a scan, without empty ones.
    pub fn scan(&self, walk: &Walk, now: i64) -> Vec<Vec<Given>> {
        let mut rows: Vec<&'static str> = self.cells.keys().map(|(row, _)| *row).collect();
        rows.dedup();
        if walk.reversed {
            rows.reverse();
        }
        let before = |one: &str, other: &str| if walk.reversed { one > other } else { one < other };
        let ((start, with_start), (stop, with_stop)) = (walk.start, walk.stop);
        rows.retain(|row| {
            let begins = start.is_empty() || (if *row == start { with_start } else { before(start, row) });
            let ends = stop.is_empty() || (if *row == stop { with_stop } else { before(row, stop) });
            begins && ends
        });
        let mut given: Vec<Vec<Given>> = rows
            .into_iter()
            .map(|row| self.read_row(row, &walk.query, now, walk.reversed))
            .filter(|cells| !cells.is_empty())
            .collect();
        if let Some(Sieve::Page(rows)) = walk.query.sieve {
            given.truncate(rows as usize);
        }
        given
    }
}

/// Returns for each cell of a column whether a marker masks it.
pub(crate) fn masked(column: &[&Stored], markers: &[&Stored], family: &Family, now: i64) -> Vec<bool> {
    let concerns =
        |marker: &Stored| marker.kind.is_family_delete() || marker.qualifier == column[0].qualifier;
    let markers: Vec<&Stored> = markers.iter().copied().filter(|marker| concerns(marker)).collect();
    let covers = |marker: &Stored, timestamp: i64| match marker.kind {
        CellType::DeleteFamily | CellType::DeleteColumn => timestamp <= marker.timestamp,
        _ => timestamp == marker.timestamp,
    };
    if !family.new_versions {
        let masks = |cell: &Stored| markers.iter().any(|marker| covers(marker, cell.timestamp));
        return column.iter().map(|cell| !cell.kind.is_delete() && masks(cell)).collect();
    }
    let mut eras = Eras::new(family.versions as usize);
    if !column[0].qualifier.is_empty() {
        markers.iter().filter(|marker| marker.kind.is_family_delete()).for_each(|marker| eras.mark(marker));
    }
    let counts = |cell: &Stored| markers.iter().any(|marker| std::ptr::eq(*marker, cell));
    let mut masked = Vec::new();
    for &cell in column {
        masked.push(match cell.kind.is_delete() {
            true if counts(cell) => {
                eras.mark(cell);
                true
            }
            false if !cell.is_over(now) => eras.masks(cell),
            _ => true,
        });
    }
    masked
}

/// HBase's tracker of a column with `NEW_VERSION_BEHAVIOR`. Each marker that masks many timestamps ends an era; the
/// last era has no end. The tracker gets the cells in order.
struct Eras {
    versions: usize,
    by_end: BTreeMap<u64, Era>,
    newest: Option<(i64, u64)>,
}

#[derive(Default)]
struct Era {
    masked_up_to: Option<i64>,
    /// Markers that delete one timestamp each, by that timestamp and by the moment of their writing.
    exact: BTreeMap<i64, BTreeSet<u64>>,
    /// The writes that existed at the end of each earlier era.
    there: BTreeMap<u64, BTreeSet<u64>>,
}

impl Era {
    fn up_to(masked_up_to: Option<i64>) -> Era {
        Era { masked_up_to, there: BTreeMap::from([(u64::MAX, BTreeSet::new())]), ..Era::default() }
    }
}

impl Eras {
    fn new(versions: usize) -> Eras {
        Eras { versions, by_end: BTreeMap::from([(u64::MAX, Era::up_to(None))]), newest: None }
    }

    fn mark(&mut self, marker: &Stored) {
        let (at, moment) = (marker.timestamp, marker.sequence);
        if matches!(marker.kind, CellType::DeleteFamily | CellType::DeleteColumn) {
            self.by_end.insert(moment, Era::up_to(Some(at)));
            return;
        }
        let (_, era) = self.by_end.range_mut(moment..).next().expect("the last has no end");
        era.exact.entry(at).or_default().insert(moment);
        let (_, next) = era.there.range(moment..).next().expect("the end is among them");
        let before = next.range(..moment).copied().collect();
        era.there.insert(moment, before);
    }

    fn masks(&mut self, put: &Stored) -> bool {
        let (at, moment) = (put.timestamp, put.sequence);
        let replaced = self.newest.filter(|(of, _)| *of == at).map(|(_, by)| by);
        self.newest = replaced.map(|by| (at, by)).or(Some((at, moment)));
        for (_, era) in self.by_end.range_mut(moment..) {
            let taken = era.exact.get(&at).and_then(|markers| markers.range(moment..).next().copied());
            let until = taken.unwrap_or(u64::MAX).min(replaced.unwrap_or(u64::MAX));
            for (_, there) in era.there.range_mut(moment..=until) {
                if there.len() >= self.versions {
                    return true;
                }
                there.insert(moment);
            }
            if taken.is_some() || era.masked_up_to.is_some_and(|up_to| at <= up_to) {
                return true;
            }
        }
        replaced.is_some()
    }
}

/// The state of a filter within a row.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    seen: usize,
    columns: Vec<(String, String)>,
    /// The result of [`Single`] for its column, if the column was found.
    single: Option<bool>,
    stamps: Vec<i64>,
    refused: bool,
    /// Whether the filter skips to the next column.
    is_passed: bool,
    reversed: bool,
}

fn text(value: Value) -> Vec<u8> {
    value.bytes()
}

impl Sieve {
    /// Whether the row key passes.
    fn passes_row(&self, row: &str, reversed: bool) -> bool {
        match self {
            Sieve::Row(compare, with) => compare.holds(row.as_bytes(), with.as_bytes()),
            Sieve::Prefix(prefix) => row.starts_with(prefix),
            Sieve::Stop(stop) => {
                if reversed {
                    row >= *stop
                } else {
                    row <= *stop
                }
            }
            Sieve::Ranges(ranges) => ranges.iter().any(|&(start, with_start, stop, with_stop)| {
                (row > start || (with_start && row == start))
                    && (row < stop || (with_stop && row == stop) || stop.is_empty())
            }),
            Sieve::Fuzzy(keys) => keys
                .iter()
                .any(|key| key.bytes().zip(row.bytes()).all(|(key, row)| key == b'?' || key == row)),
            Sieve::All(of) => of.iter().all(|sieve| sieve.passes_row(row, reversed)),
            Sieve::One(of) => of.iter().any(|sieve| sieve.passes_row(row, reversed)),
            _ => true,
        }
    }

    /// Whether a cell passes, independent of earlier cells.
    fn passes(&self, row: &str, family: &str, cell: &Stored, reversed: bool) -> bool {
        let qualifier = cell.qualifier;
        match self {
            Sieve::Family(compare, with) => compare.holds(family.as_bytes(), with.as_bytes()),
            Sieve::Qualifier(compare, with) => compare.holds(qualifier.as_bytes(), with.as_bytes()),
            Sieve::Value(compare, with) => compare.holds(&cell.value, &text(*with)),
            Sieve::ColumnPrefix(prefix) => qualifier.starts_with(prefix),
            Sieve::ColumnPrefixes(prefixes) => prefixes.iter().any(|prefix| qualifier.starts_with(prefix)),
            Sieve::ColumnRange(min, with_min, max, with_max) => {
                min.is_none_or(|min| qualifier > min || (*with_min && qualifier == min))
                    && max.is_none_or(|max| qualifier < max || (*with_max && qualifier == max))
            }
            Sieve::Timestamps(stamps, _) => stamps.contains(&cell.timestamp),
            Sieve::ColumnValue(of, name, compare, with) => {
                (family, qualifier) == (*of, *name) && compare.holds(&cell.value, &text(*with))
            }
            Sieve::All(of) => of
                .iter()
                .all(|sieve| sieve.passes_row(row, reversed) && sieve.passes(row, family, cell, reversed)),
            Sieve::One(of) => of
                .iter()
                .any(|sieve| sieve.passes_row(row, reversed) && sieve.passes(row, family, cell, reversed)),
            _ => true,
        }
    }

    /// Whether the next cell of a row is kept.
    fn judge(&self, row: &str, family: &str, cell: &Stored, state: &mut Judged) -> bool {
        state.seen += 1;
        let column = (family.to_owned(), cell.qualifier.to_owned());
        match self {
            Sieve::FirstKeyOnly => state.seen == 1,
            Sieve::Pagination(limit, offset) => {
                let is_new = !state.is_passed || !state.columns.contains(&column);
                if is_new {
                    state.columns.push(column);
                }
                let at = state.columns.len() as u32;
                is_new && at > *offset && at <= offset + limit
            }
            Sieve::ColumnCount(limit) => {
                let is_new = !state.is_passed || !state.columns.contains(&column);
                if is_new {
                    state.columns.push(column);
                }
                is_new && state.columns.len() as u32 <= *limit
            }
            Sieve::Single(single) => {
                single.look(family, cell, state);
                // A version that excludes its row is not kept itself.
                (family, cell.qualifier) != single.column
                    || !single.latest_only
                    || state.single != Some(false)
            }
            Sieve::Dependent(of, name, drop) => {
                let is_column = (family, cell.qualifier) == (*of, *name);
                if is_column {
                    state.stamps.push(cell.timestamp);
                }
                !(is_column && *drop)
            }
            Sieve::Skip(inner) => {
                let passes = inner.passes(row, family, cell, state.reversed);
                state.refused |= !passes;
                passes
            }
            Sieve::All(of) => {
                if let Some(Sieve::Single(single)) = of.first() {
                    single.look(family, cell, state);
                    let is_column = (family, cell.qualifier) == single.column;
                    if is_column && single.latest_only && state.single == Some(false) {
                        return false;
                    }
                }
                self.passes(row, family, cell, state.reversed)
            }
            _ => self.passes(row, family, cell, state.reversed),
        }
    }

    /// Removes cells from the complete row; returns whether any are left.
    fn take_out(&self, families: &[Family], row: &mut BTreeMap<usize, Vec<&Stored>>, state: &Judged) -> bool {
        for (index, cells) in row.iter_mut() {
            match self {
                Sieve::Dependent(..) => cells.retain(|cell| state.stamps.contains(&cell.timestamp)),
                Sieve::Single(single) => single.take_out(families[*index].name, cells),
                Sieve::All(of) => {
                    if let Some(Sieve::Single(single)) = of.first() {
                        single.take_out(families[*index].name, cells);
                    }
                }
                _ => {}
            }
        }
        row.values().any(|cells| !cells.is_empty())
    }

    /// Whether the complete row is returned.
    fn keeps_row(&self, state: &Judged) -> bool {
        match self {
            Sieve::Single(single) => state.single.unwrap_or(!single.if_missing),
            Sieve::All(of) => match of.first() {
                Some(single @ Sieve::Single(_)) => single.keeps_row(state),
                _ => true,
            },
            Sieve::Skip(_) => !state.refused,
            _ => true,
        }
    }

    /// Returns how values are replaced: by their length (`true`), by nothing (`false`), or not at all (`None`).
    fn shows(&self) -> Option<bool> {
        match self {
            Sieve::KeyOnly(length) => Some(*length),
            Sieve::All(of) => of.iter().find_map(Sieve::shows),
            _ => None,
        }
    }

    fn is_essential(&self, family: &str) -> bool {
        match self {
            Sieve::Single(single) => !single.if_missing || single.column.0 == family,
            Sieve::ColumnValue(of, ..) => *of == family,
            Sieve::All(of) | Sieve::One(of) => of.iter().any(|sieve| sieve.is_essential(family)),
            Sieve::Skip(inner) => inner.is_essential(family),
            _ => true,
        }
    }
}

impl Single {
    fn look(&self, family: &str, cell: &Stored, state: &mut Judged) {
        if (family, cell.qualifier) == self.column && !(self.latest_only && state.single.is_some()) {
            let holds = self.compare.holds(&cell.value, &text(self.value));
            state.single = Some(state.single == Some(true) || holds);
        }
    }

    fn take_out(&self, family: &str, cells: &mut Vec<&Stored>) {
        if self.exclude {
            cells.retain(|cell| (family, cell.qualifier) != self.column);
        }
    }
}

/// Whether `expected op value` holds as in check-and-mutate; `value` is `None` when the column has none.
pub fn check_holds(compare: Compare, expected: Option<Value>, value: Option<&[u8]>) -> bool {
    let expected = expected.map(text).unwrap_or_default();
    match (expected.is_empty(), compare) {
        (true, Compare::NotEqual) => value.is_some_and(|value| !value.is_empty()),
        (true, _) => value.is_none_or(<[u8]>::is_empty),
        (false, _) => value.is_some_and(|value| compare.holds(&expected, value)),
    }
}
