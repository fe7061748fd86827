//! The recipe for documents: JSON as columns that are named by paths, beside a large body. See `recipes/document.md`.

use client::{CheckAndMutate, Comparison, Delete, Filter, Get, Put, Row, Scan, Table};
use serde_json::{Map, Value, json};

use crate::session::{Done, Session, check, family, say, text};

const DOCUMENTS: u64 = 60;
const BODY_BYTES: usize = 300_000;
/// The column that counts the changes of a document. No path has this name: all others begin with `/`.
const REVISION: &str = "revision";

/// Adds a column for every value of a document. The name is its path as a JSON pointer (RFC 6901); the value begins
/// with its type. Objects and arrays have columns, too, so that an empty array is not lost. The document itself, whose
/// path is empty, is always an object and has none.
fn flatten(path: &str, value: &Value, put: Put) -> Put {
    let own =
        |put: Put, value: String| if path.is_empty() { put } else { put.set("p", path.to_owned(), value) };
    match value {
        Value::Object(members) => members.iter().fold(own(put, "{".to_owned()), |put, (name, member)| {
            flatten(&format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), member, put)
        }),
        Value::Array(elements) => {
            elements.iter().enumerate().fold(own(put, "[".to_owned()), |put, (at, element)| {
                flatten(&format!("{path}/{at}"), element, put)
            })
        }
        Value::String(string) => own(put, format!("\"{string}")),
        other => own(put, format!("={other}")),
    }
}

/// Builds the document from its columns, which come in the order of their names: an object before its members.
fn unflatten(row: &Row) -> Done<Value> {
    let mut document = Value::Object(Map::new());
    for cell in row.cells().iter().filter(|cell| cell.qualifier().starts_with(b"/")) {
        let (path, value) = (text(cell.qualifier()), text(cell.value()));
        let value = match value.split_at_checked(1).ok_or("a value has a type")? {
            ("{", _) => Value::Object(Map::new()),
            ("[", _) => Value::Array(Vec::new()),
            ("\"", string) => Value::String(string.to_owned()),
            (_, other) => serde_json::from_str(other)?,
        };
        let (parent, name) = path.rsplit_once('/').ok_or("a path begins with /")?;
        match document.pointer_mut(parent) {
            Some(Value::Object(members)) => {
                members.insert(name.replace("~1", "/").replace("~0", "~"), value);
            }
            // Elements come as 0, 1, 10, 2: each finds its place.
            Some(Value::Array(elements)) => {
                let at: usize = name.parse()?;
                elements.resize(elements.len().max(at + 1), Value::Null);
                elements[at] = value;
            }
            _ => return Err(format!("{path} has no parent").into()),
        }
    }
    Ok(document)
}

fn made_up(number: u64) -> Value {
    let tags: Vec<Value> = (0..number % 13).map(|tag| json!(format!("tag{tag}"))).collect();
    json!({
        "title": format!("Document {number}"),
        "pages": number * 3,
        "draft": number.is_multiple_of(2),
        "author": { "name": "Ada", "address": { "city": if number.is_multiple_of(3) { "Riga" } else { "Lima" }, "zip": null } },
        "tags": tags,
        "odd/name~": [[], {}, [1.5]],
    })
}

fn key(number: u64) -> String {
    format!("doc{number:05}")
}

/// Changes one path if nobody changed the document since `revision`: two cells are written, not the document.
async fn change(table: &Table, number: u64, path: &str, value: &Value, revision: u64) -> Done<bool> {
    let put = flatten(path, value, Put::row(key(number)));
    let change = CheckAndMutate::column(key(number), "p", REVISION)
        .equals(revision.to_string())
        .then(put.set("p", REVISION, (revision + 1).to_string()));
    Ok(table.check_and_mutate(change).await?.0)
}

/// Removes a value with all that is below it.
async fn remove(table: &Table, number: u64, path: &str) -> Done<usize> {
    let below = Get::row(key(number)).family("p").filter(Filter::column_prefix(path.to_owned()));
    let row = table.get(below).await?;
    // `/a` is a prefix of `/ab`, too.
    let inside = |name: &[u8]| {
        name.strip_prefix(path.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    };
    let names: Vec<_> = row.cells().iter().map(|cell| cell.qualifier()).filter(|name| inside(name)).collect();
    let delete =
        names.iter().fold(Delete::row(key(number)), |delete, name| delete.column("p", name.to_vec()));
    table.delete(delete).await?;
    Ok(names.len())
}

pub(crate) async fn run(session: &Session) -> Done {
    // Bodies are in a family, and so in files, of their own: queries of paths never read them. IS_MOB keeps large values
    // out of compactions.
    let bodies = family("b")?.with("IS_MOB", "true").with("MOB_THRESHOLD", 100_000);
    let paths = family("p")?.with("DATA_BLOCK_ENCODING", "FAST_DIFF");
    let table = session.fresh_table("recipe_documents", [paths, bodies], &[]).await?;

    for number in 0..DOCUMENTS {
        let put = flatten("", &made_up(number), Put::row(key(number))).set("p", REVISION, "1");
        let body = vec![b'a' + (number % 26) as u8; if number < 5 { BODY_BYTES } else { 100 }];
        table.put(put.set("b", "body", body)).await?;
    }
    session.cluster.admin().flush(table.name()).await?;
    for number in 0..DOCUMENTS {
        let read = unflatten(&table.get(Get::row(key(number)).family("p")).await?)?;
        check!(read == made_up(number), "document {number} is what it was: {read}");
    }
    say(&format!("{DOCUMENTS} documents stored as paths and built again"));
    let body = table.get(Get::row(key(3)).family("b")).await?;
    let bytes = body.value("b", "body").ok_or("document 3 has a body")?;
    say(&format!("the body of document 3 has {} bytes", bytes.len()));
    check!(bytes.len() == BODY_BYTES && bytes.iter().all(|&byte| byte == b'd'), "and all of them are right");

    // A part of a document: the server sends the columns below one path.
    let author = Get::row(key(4)).family("p").filter(Filter::column_prefix("/author/address"));
    let row = table.get(author).await?;
    let names: Vec<String> = row.cells().iter().map(|cell| text(cell.qualifier())).collect();
    say(&format!("below /author/address: {}", names.join(" ")));
    check!(names.len() == 3, "the object and its two members");

    let filter = Filter::column_value("p", "/author/address/city", Comparison::Equal, "\"Riga");
    let scan = Scan::new().column("p", "/title").column("p", "/author/address/city").filter(filter);
    let found = table.scan(scan).collect().await?;
    say(&format!(
        "{} documents from Riga, the first is {:?}",
        found.len(),
        found[0].value("p", "/title").map(text)
    ));
    check!(found.len() as u64 == DOCUMENTS / 3, "every third one");

    check!(change(&table, 9, "/author/address/city", &json!("Kyiv"), 1).await?, "the first change is taken");
    check!(!change(&table, 9, "/pages", &json!(0), 1).await?, "one made on an old revision is not");
    let removed = remove(&table, 9, "/odd~1name~0").await?;
    let (mut expected, read) = (made_up(9), unflatten(&table.get(Get::row(key(9)).family("p")).await?)?);
    expected["author"]["address"]["city"] = json!("Kyiv");
    expected.as_object_mut().ok_or("it is an object")?.remove("odd/name~");
    say(&format!("document 9: one path changed, one subtree of {removed} columns removed"));
    check!(read == expected, "the rest is as it was: {read}");
    Ok(())
}
