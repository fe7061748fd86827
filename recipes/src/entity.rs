//! The recipe for entities: one row for each thing that has an id. See `recipes/entity.md`.

use client::{CheckAndMutate, Comparison, Filter, Get, Put, Row, Scan, Table};

use crate::session::{Done, Session, check, family, say, text};

const USERS: u64 = 200;

/// The users, and which user owns an address.
struct Store {
    users: Table,
    emails: Table,
}

/// Returns the key of a user: the id with its digits reversed. Ids come from a counter, so the newest users, who are
/// the busiest, share their first digits. Reversed, neighbouring ids are far apart, and every region gets its part.
fn key(id: u64) -> String {
    format!("{id:08}").chars().rev().collect()
}

impl Store {
    /// Registers a user; returns false if another one owns the address. Repeating a call that was interrupted completes
    /// it.
    async fn register(&self, id: u64, name: &str, email: &str, city: &str) -> Done<bool> {
        // The address first: whoever holds it may write the user. A claim of a user that is not there yet is its own.
        let owner = id.to_string();
        let claim = CheckAndMutate::column(email.to_owned(), "u", "id").then(Put::row(email.to_owned()).set(
            "u",
            "id",
            owner.clone(),
        ));
        if !self.emails.check_and_mutate(claim).await?.0 && self.owner(email).await? != Some(id) {
            return Ok(false);
        }
        let user = Put::row(key(id))
            .set("i", "name", name.to_owned())
            .set("i", "email", email.to_owned())
            .set("i", "city", city.to_owned())
            .set("i", "revision", "1");
        self.users.put(user).await?;
        Ok(true)
    }

    async fn owner(&self, email: &str) -> Done<Option<u64>> {
        let row = self.emails.get(Get::row(email.to_owned())).await?;
        Ok(row.value("u", "id").map(text).map(|id| id.parse()).transpose()?)
    }

    async fn by_id(&self, id: u64) -> Done<Row> {
        Ok(self.users.get(Get::row(key(id))).await?)
    }

    async fn by_email(&self, email: &str) -> Done<Option<Row>> {
        match self.owner(email).await? {
            Some(id) => Ok(Some(self.by_id(id).await?)),
            None => Ok(None),
        }
    }

    /// Moves a user to a city, unless somebody changed the row after `revision` was read.
    async fn move_to(&self, id: u64, city: &str, revision: u64) -> Done<bool> {
        let change = CheckAndMutate::column(key(id), "i", "revision").equals(revision.to_string()).then(
            Put::row(key(id)).set("i", "city", city.to_owned()).set(
                "i",
                "revision",
                (revision + 1).to_string(),
            ),
        );
        Ok(self.users.check_and_mutate(change).await?.0)
    }

    /// Returns one page of users in key order, and where the next page begins.
    async fn page(&self, after: Option<Vec<u8>>, rows: u64) -> Done<(Vec<Row>, Option<Vec<u8>>)> {
        let scan = match after {
            Some(key) => Scan::new().after(key),
            None => Scan::new(),
        };
        let page = self.users.scan(scan.limit(rows)).collect().await?;
        let next = page.last().filter(|_| page.len() as u64 == rows).map(|row| row.key().to_vec());
        Ok((page, next))
    }
}

fn value(row: &Row, column: &str) -> String {
    row.value("i", column).map(text).unwrap_or_default()
}

pub(crate) async fn run(session: &Session) -> Done {
    // Three versions: who changed what is answered for a while. Reversed ids spread over ten regions by their last digit.
    let splits: Vec<_> = (1..10).map(|digit| bytes::Bytes::from(digit.to_string())).collect();
    let store = Store {
        users: session.fresh_table("recipe_users", [family("i")?.with("VERSIONS", 3)], &splits).await?,
        emails: session.fresh_table("recipe_user_emails", [family("u")?], &[]).await?,
    };

    for id in 1..=USERS {
        let city = ["Bern", "Lyon", "Oslo", "Turin"][(id % 4) as usize];
        let new = store.register(id, &format!("User {id}"), &format!("u{id}@example.org"), city).await?;
        check!(new, "user {id} is new");
    }
    say(&format!("{USERS} users registered"));

    // An address has one owner, whoever asks twice or at the same time.
    check!(!store.register(900, "Thief", "u7@example.org", "Bern").await?, "the address is taken");
    check!(store.by_id(900).await?.is_empty(), "and no row was written");
    check!(store.register(7, "User 7", "u7@example.org", "Turin").await?, "the owner may repeat the call");
    say("an address that is taken is refused; a repeated call is not");

    let row = store.by_email("u42@example.org").await?.ok_or("there is a u42")?;
    say(&format!(
        "u42@example.org is {} in {}, key {}",
        value(&row, "name"),
        value(&row, "city"),
        text(row.key())
    ));
    check!(value(&row, "name") == "User 42", "the address leads to its user: {row:?}");
    check!(store.by_email("nobody@example.org").await?.is_none(), "nobody has this one");

    // Two people edit what they both read: the second one is told.
    check!(store.move_to(42, "Porto", 1).await?, "the first edit is taken");
    check!(!store.move_to(42, "Paris", 1).await?, "the second one was made on old data");
    let row = store.users.get(Get::row(key(42)).column("i", "city").versions(3)).await?;
    let cities: Vec<String> = row.versions("i", "city").map(|cell| text(cell.value())).collect();
    say(&format!("cities of user 42, newest first: {}", cities.join(", ")));
    check!(cities == ["Porto", "Oslo"], "both versions are there: {cities:?}");

    let (mut pages, mut seen, mut after) = (0, 0, None);
    loop {
        let (page, next) = store.page(after, 30).await?;
        (pages, seen) = (pages + 1, seen + page.len() as u64);
        after = next;
        if after.is_none() {
            break;
        }
    }
    say(&format!("{seen} users on {pages} pages of 30"));
    check!(seen == USERS, "every user is on one page");

    // Without an index the server reads all rows, but sends only those that match. Fine for reports, not for requests.
    let filter = Filter::column_value("i", "city", Comparison::Equal, "Lyon");
    let lyon = store.users.scan(Scan::new().filter(filter)).collect().await?;
    say(&format!("{} users in Lyon, found by a filter", lyon.len()));
    check!(lyon.len() as u64 == USERS / 4, "a quarter lives there");
    Ok(())
}
