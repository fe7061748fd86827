//! The recipe for messaging: an inbox for each user, and a feed with the posts of those whom a user follows. See
//! `recipes/messaging.md`.

use client::{CheckAndMutate, Comparison, Delete, Filter, Get, Put, Row, Scan, Table};

use crate::session::{Done, Session, check, family, say, text};

const USERS: u32 = 30;
const MESSAGES: u64 = 40;
/// When the first message was sent, in ms from 1970.
const START_MS: u64 = 1_764_000_000_000;

/// Returns the key of a message, `user|time|id`. The time counts down, so that a user's newest message comes first and
/// a scan stops after a page. The user comes first: an inbox is read as one piece and written in as
/// many places as there are users.
fn key(user: &str, time_ms: u64, id: &str) -> String {
    format!("{user}|{:016x}|{id}", u64::MAX - time_ms)
}

fn user(number: u32) -> String {
    format!("user{:03}", number % USERS)
}

struct Mail {
    inbox: Table,
    /// The table of people. In a user's row, family `i` lists whom the user follows, and `by` lists who follows the
    /// user.
    people: Table,
    feed: Table,
}

impl Mail {
    /// Delivers a message. Its id is in the key: a delivery that is repeated writes the same cells again.
    async fn send(&self, from: &str, to: &str, time_ms: u64, id: &str, words: &str) -> Done {
        let message = Put::row(key(to, time_ms, id)).set("m", "from", from.to_owned()).set(
            "m",
            "text",
            words.to_owned(),
        );
        Ok(self.inbox.put(message).await?)
    }

    /// Returns a page of an inbox, newest first, after the last message of the previous page.
    async fn page(&self, user: &str, last: Option<&[u8]>, rows: u64) -> Done<Vec<Row>> {
        let all = Scan::new().prefix(format!("{user}|"));
        let scan = match last {
            Some(last) => all.after(last.to_vec()),
            None => all,
        };
        Ok(self.inbox.scan(scan.limit(rows)).collect().await?)
    }

    /// Marks a message as read; returns false if it was read before, or does not exist any more. The filter makes that
    /// one step.
    async fn read(&self, message: &[u8]) -> Done<bool> {
        let unread = Filter::qualifier(Comparison::Equal, "from");
        if self.inbox.get(Get::row(message.to_vec()).filter(unread)).await?.is_empty() {
            return Ok(false);
        }
        let mark = CheckAndMutate::column(message.to_vec(), "m", "read")
            .then(Put::row(message.to_vec()).set("m", "read", "1"));
        Ok(self.inbox.check_and_mutate(mark).await?.0)
    }

    async fn unread(&self, user: &str) -> Done<usize> {
        let columns = Scan::new().prefix(format!("{user}|")).column("m", "from").column("m", "read");
        let rows = self.inbox.scan(columns).collect().await?;
        Ok(rows.iter().filter(|row| row.cell("m", "read").is_none()).count())
    }

    async fn follow(&self, follower: &str, followed: &str) -> Done {
        let both = [
            Put::row(follower.to_owned()).set("i", followed.to_owned(), ""),
            Put::row(followed.to_owned()).set("by", follower.to_owned(), ""),
        ];
        Ok(self.people.put_all(both).await?)
    }

    /// Writes a post to the feeds of all who follow its author: this makes many small writes once, so that each of many
    /// reads is one short scan. For an author with millions of followers, read the author's posts when a feed is read
    /// instead.
    async fn post(&self, author: &str, time_ms: u64, words: &str) -> Done<usize> {
        let row = self.people.get(Get::row(author.to_owned()).family("by")).await?;
        let followers: Vec<String> = row.cells().iter().map(|cell| text(cell.qualifier())).collect();
        let copies = followers.iter().map(|follower| {
            Put::row(key(follower, time_ms, author)).set("p", "by", author.to_owned()).set(
                "p",
                "text",
                words.to_owned(),
            )
        });
        self.feed.put_all(copies).await?;
        Ok(followers.len())
    }
}

pub(crate) async fn run(session: &Session) -> Done {
    let splits: Vec<bytes::Bytes> = [10, 20].map(|number| user(number).into()).into();
    // Feeds are copies: they go after 90 days by themselves.
    let copies = family("p")?.with("TTL", 90 * 24 * 3600);
    let mail = Mail {
        inbox: session.fresh_table("recipe_inbox", [family("m")?], &splits).await?,
        people: session.fresh_table("recipe_people", [family("i")?, family("by")?], &[]).await?,
        feed: session.fresh_table("recipe_feed", [copies], &splits).await?,
    };

    for number in 0..MESSAGES {
        for to in 0..USERS {
            let from = user(to + 1 + (number % 5) as u32);
            let id = format!("{from}-{number}");
            mail.send(&from, &user(to), START_MS + number * 1000, &id, &format!("message {number}")).await?;
        }
    }
    // The network lost the answer, and the sender repeats.
    mail.send("user008", "user007", START_MS, "user008-0", "message 0").await?;
    say(&format!("{} messages for {USERS} users", MESSAGES * u64::from(USERS)));

    let (mut seen, mut last) = (Vec::new(), None);
    loop {
        let page = mail.page("user007", last.as_deref(), 15).await?;
        last = page.last().map(|row| row.key().to_vec());
        seen.extend(page.iter().filter_map(|row| row.value("m", "text").map(text)));
        if page.len() < 15 {
            break;
        }
    }
    say(&format!("user007 pages from {:?} to {:?}", seen.first(), seen.last()));
    let expected: Vec<String> = (0..MESSAGES).rev().map(|number| format!("message {number}")).collect();
    check!(seen == expected, "every message once, newest first: {seen:?}");

    let page = mail.page("user007", None, 3).await?;
    check!(mail.read(page[0].key()).await?, "the first one is read");
    check!(!mail.read(page[0].key()).await?, "but only once");
    mail.inbox.delete(Delete::row(page[1].key().to_vec())).await?;
    check!(!mail.read(page[1].key()).await?, "a message that was deleted does not come back");
    let unread = mail.unread("user007").await?;
    say(&format!("user007: {unread} unread after one was read and one deleted"));
    check!(unread as u64 == MESSAGES - 2, "of {MESSAGES}");
    check!(mail.unread("user008").await? as u64 == MESSAGES, "nobody else is touched");

    for follower in 0..10 {
        mail.follow(&user(follower), &user(20)).await?;
        mail.follow(&user(follower), &user(21 + follower % 2)).await?;
    }
    for (step, author) in [20, 21, 22, 20].into_iter().enumerate() {
        let time_ms = START_MS + step as u64 * 60_000;
        let copies = mail.post(&user(author), time_ms, &format!("post {step}")).await?;
        say(&format!("{} posts to {copies} feeds", user(author)));
    }
    let feed = mail.feed.scan(Scan::new().prefix("user004|").limit(10)).collect().await?;
    let posts: Vec<String> = feed.iter().filter_map(|row| row.value("p", "text").map(text)).collect();
    say(&format!("feed of user004: {}", posts.join(", ")));
    check!(posts == ["post 3", "post 1", "post 0"], "those of user020 and user021, newest first");
    Ok(())
}
