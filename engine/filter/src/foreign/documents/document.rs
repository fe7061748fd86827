//! Documents, built from a row's cells, and lookups of values by path.

use cell::Cell;

use super::TIME_COLUMN;
use super::path::{Path, Step};
use super::value::{Content, Elements, Fault, Kind, Members, NULL, Value};
use crate::foreign::java_stream::JavaStream;

const ID: &str = "_id";

/// The result of a lookup by path: a part of the document, or an array of values from several elements.
pub(super) enum Found<'a> {
    Part(&'a Value),
    Gathered(Value),
}

impl Found<'_> {
    pub(super) fn value(&self) -> &Value {
        match self {
            Found::Part(value) => value,
            Found::Gathered(value) => value,
        }
    }
}

fn id_is_not_last() -> Fault {
    Fault::Other("_id must be the last step of a path".to_owned())
}

impl Value {
    /// Builds the document of a row.
    pub(super) fn of_cells(cells: &[Cell<'_>]) -> Result<Value, Fault> {
        let read = |bytes: &[u8], what: &str| {
            let value = JavaStream::open(bytes).and_then(|mut stream| Value::read(&mut stream, 0));
            value.map_err(|reason| {
                Fault::Other(format!(
                    "{what} is no value of HDocDB: {reason}; use this filter on its tables alone"
                ))
            })
        };
        let mut document = Value::new(Content::Map(Members::default()));
        if let (Some(first), Content::Map(members)) = (cells.first(), &mut document.content) {
            let what = format!("the key {}", first.row().escape_ascii());
            members.id = Some(Box::new(read(first.row(), &what)?));
        }
        for cell in cells {
            let column = String::from_utf8_lossy(cell.qualifier());
            let mut value = read(cell.value(), &format!("{column:?} of row {}", cell.row().escape_ascii()))?;
            value.time = cell.timestamp().0;
            if cell.qualifier() == TIME_COLUMN {
                value.timestamp()?;
            } else {
                document.set(&Path::parse(&column)?.0, value, true)?;
            }
        }
        Ok(document)
    }

    /// Sets the value at a path, and creates missing parents. With `by_time`, a value with a newer timestamp is not
    /// replaced.
    pub(super) fn set(&mut self, path: &[Step], value: Value, by_time: bool) -> Result<(), Fault> {
        let Some((step, rest)) = path.split_first() else { return Ok(()) };
        let (old, is_map) = match (&mut self.content, step) {
            (Content::Map(_), Step::Name(name)) if name.is_empty() => return Ok(()),
            (Content::Map(members), Step::Name(name)) if name == ID => {
                if !rest.is_empty() {
                    return Err(id_is_not_last());
                }
                members.id = Some(Box::new(value));
                return Ok(());
            }
            (Content::Map(members), Step::Name(name)) => (members.entries.get_mut(name), true),
            (Content::Array(elements), Step::Index(Some(index))) => (elements.get_mut(index), false),
            _ => return Ok(()),
        };
        let wanted = rest.first().map(|next| match next {
            Step::Name(_) => Kind::Map,
            Step::Index(_) => Kind::Array,
        });
        let (time, old_time) = (value.time, old.as_ref().map(|old| old.time));
        if let Some(old) = old
            && Some(old.kind()) == wanted
        {
            old.set(rest, value, by_time)?;
            // Only elements of maps get the newer timestamp; elements of arrays keep theirs.
            if is_map {
                old.time = time;
            }
            return Ok(());
        }
        if by_time && old_time.is_some_and(|old| time < old) {
            return Ok(());
        }
        let new = match wanted {
            None => value,
            Some(kind) => {
                let mut new = Value::new(match kind {
                    Kind::Array => Content::Array(Elements::new()),
                    _ => Content::Map(Members::default()),
                });
                new.set(rest, value, by_time)?;
                if is_map {
                    new.time = time;
                }
                new
            }
        };
        match (&mut self.content, step) {
            (Content::Map(members), Step::Name(name)) => drop(members.entries.insert(name.clone(), new)),
            (Content::Array(elements), Step::Index(Some(index))) => drop(elements.insert(*index, new)),
            _ => {}
        }
        Ok(())
    }

    /// Returns the value at a path; `None` if the document has none there.
    pub(super) fn find(&self, path: &Path) -> Result<Option<Found<'_>>, Fault> {
        self.find_in(&path.0)
    }

    fn find_in(&self, path: &[Step]) -> Result<Option<Found<'_>>, Fault> {
        let Some((step, rest)) = path.split_first() else { return Ok(None) };
        let next = match (&self.content, step) {
            (Content::Map(_), Step::Name(name)) if name.is_empty() => return Ok(Some(Found::Part(self))),
            (Content::Map(members), Step::Name(name)) if name == ID => {
                if !rest.is_empty() {
                    return Err(id_is_not_last());
                }
                return Ok(members.id.as_deref().map(Found::Part));
            }
            (Content::Map(members), Step::Name(name)) => members.entries.get(name),
            (Content::Array(elements), Step::Index(None)) => return gather(self, elements, rest),
            (Content::Array(elements), Step::Index(Some(index))) => elements.get(index),
            _ => return Ok(None),
        };
        match next {
            None => Ok(None),
            Some(value) if rest.is_empty() => Ok(Some(Found::Part(value))),
            Some(value) => value.find_in(rest),
        }
    }
}

/// Collects the values at the rest of a path from every element of an array. Nested arrays are joined.
fn gather<'a>(array: &'a Value, elements: &'a Elements, rest: &[Step]) -> Result<Option<Found<'a>>, Fault> {
    let Some(next) = rest.first() else { return Ok(Some(Found::Part(array))) };
    let mut gathered = Vec::new();
    for element in elements.values() {
        match (next, element.kind()) {
            (Step::Name(_), Kind::Map) => {
                let found = element.find_in(rest)?;
                gathered.push(found.as_ref().map_or(&NULL, Found::value).clone());
            }
            (Step::Index(_), Kind::Array) => {
                let found = element.find_in(rest)?;
                let found = found.as_ref().map(Found::value);
                let found = found.ok_or_else(|| {
                    Fault::Other(
                        "an array in an array does not have the element that a path names".to_owned(),
                    )
                })?;
                match found.elements() {
                    Some(elements) => gathered.extend(elements.values().cloned()),
                    None => gathered.push(found.clone()),
                }
            }
            _ => return Ok(None),
        }
    }
    let elements = (0..).zip(gathered).collect();
    Ok(Some(Found::Gathered(Value::new(Content::Array(elements)))))
}
