//! The recipe for queues: many consumers, of each of which one worker gets each message. See `recipes/queue.md`.

use client::{CheckAndMutate, Delete, Get, Increment, Put, Row, Scan, Table};
use futures::future::try_join_all;

use crate::session::{Done, Session, check, family, note, say, text};

const MESSAGES: u64 = 6_000;
/// Number of messages in a row. A worker claims whole rows, and trimming deletes each by one marker.
const BLOCK: u64 = 100;
const CONSUMERS: [&str; 2] = ["billing", "search"];
const WORKERS: usize = 3;
const COUNTERS: &str = "counters";
const CLOSED: &str = "closed";
/// The value that stands for the worker of a block that is done. A check would take an empty value for no value.
const DONE: &str = "-";

struct Queue {
    /// The table of messages. Each row is a block, named by its number. Its columns are messages, each named by its
    /// number, and `closed` once the block is being read.
    blocks: Table,
    /// The table of the queue's state. The row `counters` has the next number in `n:tail` and each consumer's next
    /// block in `n:CONSUMER`. A row `CONSUMER|block` names the worker that has claimed the block, or has `-` when it is
    /// done.
    state: Table,
}

fn block_key(block: u64) -> Vec<u8> {
    block.to_be_bytes().to_vec()
}

fn claim_key(consumer: &str, block: u64) -> String {
    format!("{consumer}|{block:016x}")
}

impl Queue {
    /// Adds messages. A counter numbers them. A producer so slow that its block is already being read finds the block
    /// closed, and takes new numbers. So no message is added to a block after it was read.
    async fn add(&self, messages: &[String]) -> Done {
        let mut left = messages;
        while !left.is_empty() {
            let take = Increment::row(COUNTERS).add("n", "tail", left.len() as i64);
            let end = self.state.increment(take).await?.number("n", "tail").ok_or("it is a number")? as u64;
            let mut number = end - left.len() as u64;
            while number < end {
                let block = number / BLOCK;
                let part = &left[..(((block + 1) * BLOCK).min(end) - number) as usize];
                let put =
                    part.iter().zip(number..).fold(Put::row(block_key(block)), |put, (message, number)| {
                        put.set("m", number.to_be_bytes().to_vec(), message.clone())
                    });
                let open = CheckAndMutate::column(block_key(block), "m", CLOSED).then(put);
                if !self.blocks.check_and_mutate(open).await?.0 {
                    break;
                }
                (left, number) = (&left[part.len()..], number + part.len() as u64);
            }
        }
        Ok(())
    }

    async fn counter(&self, name: &str) -> Done<u64> {
        Ok(self.state.get(Get::row(COUNTERS)).await?.number("n", name).unwrap_or(0) as u64)
    }

    /// Claims the consumer's next full block for a worker. Two workers never get the same one: both try to move the
    /// consumer's counter from the same value, and only one finds it unchanged.
    async fn claim(&self, consumer: &str, worker: &str) -> Done<Option<u64>> {
        loop {
            let (next, tail) = (self.counter(consumer).await?, self.counter("tail").await?);
            if (next + 1) * BLOCK > tail {
                return Ok(None);
            }
            // The claim is written before the counter advances, so that a crash between the two writes loses no block. A
            // worker that finds a claim writes none.
            let note = CheckAndMutate::column(claim_key(consumer, next), "n", "worker")
                .then(Put::row(claim_key(consumer, next)).set("n", "worker", worker.to_owned()));
            let noted = self.state.check_and_mutate(note).await?.0;
            let unchanged = CheckAndMutate::column(COUNTERS, "n", consumer.to_owned());
            let unchanged =
                if next == 0 { unchanged } else { unchanged.equals((next as i64).to_be_bytes().to_vec()) };
            let move_on =
                Put::row(COUNTERS).set("n", consumer.to_owned(), (next as i64 + 1).to_be_bytes().to_vec());
            // The worker advances the counter even if another worker has claimed the block. Otherwise a worker that dies
            // after its claim, before it advances the counter, would block all others.
            self.state.check_and_mutate(unchanged.then(move_on)).await?;
            if noted {
                return Ok(Some(next));
            }
        }
    }

    /// Closes a block and returns its messages.
    async fn messages(&self, block: u64) -> Done<Vec<String>> {
        self.blocks.put(Put::row(block_key(block)).set("m", CLOSED, "1")).await?;
        let row = self.blocks.get(Get::row(block_key(block))).await?;
        let messages = row.cells().iter().filter(|cell| cell.qualifier() != CLOSED.as_bytes());
        Ok(messages.map(|cell| text(cell.value())).collect())
    }

    /// Ends a claim. The row of the claim stays until the block is trimmed; otherwise a worker that has read old
    /// counters could claim the block again. A worker that dies before this leaves its claim, which another one finds
    /// and takes over.
    async fn done(&self, consumer: &str, block: u64) -> Done {
        Ok(self.state.put(Put::row(claim_key(consumer, block)).set("n", "worker", DONE)).await?)
    }

    /// Returns the claims that were not ended, oldest first.
    async fn open_claims(&self, consumer: &str) -> Done<Vec<(u64, String)>> {
        let rows = self.state.scan(Scan::new().prefix(format!("{consumer}|"))).collect().await?;
        let claim = |row: &Row| {
            let block = u64::from_str_radix(text(row.key()).split('|').nth(1)?, 16).ok()?;
            Some((block, text(row.value("n", "worker")?)))
        };
        Ok(rows.iter().filter_map(claim).filter(|(_, worker)| worker != DONE).collect())
    }

    /// Deletes the blocks that every consumer is done with: those before the oldest open claim and the counter of the
    /// slowest. Scans of the queue begin there, so that no scan has to skip what was deleted. Returns the first block
    /// left.
    async fn trim(&self) -> Done<u64> {
        let mut first = u64::MAX;
        for consumer in CONSUMERS {
            let oldest = self.open_claims(consumer).await?.first().map_or(u64::MAX, |claim| claim.0);
            first = first.min(self.counter(consumer).await?).min(oldest);
        }
        let head = self.counter("head").await?;
        let first = first.max(head);
        self.blocks.delete_all((head..first).map(|block| Delete::row(block_key(block)).family("m"))).await?;
        for consumer in CONSUMERS {
            let claims = (head..first).map(|block| Delete::row(claim_key(consumer, block)).family("n"));
            self.state.delete_all(claims).await?;
        }
        let head = Put::row(COUNTERS).set("n", "head", (first as i64).to_be_bytes().to_vec());
        self.state.put(head).await?;
        Ok(first)
    }

    /// Claims and ends blocks until there is none; returns the messages.
    async fn work(&self, consumer: &str, worker: &str) -> Done<Vec<String>> {
        let mut seen = Vec::new();
        while let Some(block) = self.claim(consumer, worker).await? {
            seen.extend(self.messages(block).await?);
            self.done(consumer, block).await?;
        }
        Ok(seen)
    }
}

pub(crate) async fn run(session: &Session) -> Done {
    // A queue's cells live for seconds. EAGER drops the deleted ones while they are still in memory.
    let messages = family("m")?.with("IN_MEMORY_COMPACTION", "EAGER");
    let state = family("n")?.with("IN_MEMORY_COMPACTION", "EAGER");
    let queue = Queue {
        blocks: session.fresh_table("recipe_queue", [messages], &[]).await?,
        state: session.fresh_table("recipe_queue_state", [state], &[]).await?,
    };
    let mut written = 0;
    for round in 0..MESSAGES / 500 {
        let messages: Vec<String> =
            (0..500).map(|number| format!("message {}", round * 500 + number)).collect();
        queue.add(&messages).await?;
        written += messages.len();
    }
    say(&format!("{written} messages in {} blocks", MESSAGES / BLOCK));

    // One worker dies with a block in its hands.
    let lost = queue.claim("billing", "worker that dies").await?.ok_or("there are blocks")?;
    for consumer in CONSUMERS {
        let names: Vec<String> = (0..WORKERS).map(|worker| format!("worker {worker}")).collect();
        let parts = try_join_all(names.iter().map(|name| queue.work(consumer, name))).await?;
        let mut all: Vec<String> = parts.into_iter().flatten().collect();
        let seen = all.len();
        all.sort();
        all.dedup();
        say(&format!("{consumer}: {WORKERS} workers saw {seen} messages, {} different", all.len()));
        let expected = MESSAGES - if consumer == "billing" { BLOCK } else { 0 };
        check!(seen == all.len() && seen as u64 == expected, "each message once");
    }

    let first = queue.trim().await?;
    check!(first == lost, "nothing is deleted that a dead worker had claimed: {first}");
    let claims = queue.open_claims("billing").await?;
    say(&format!("open claims of billing: {claims:?}"));
    let again = queue.messages(claims[0].0).await?.len() as u64;
    check!(claims.len() == 1 && again == BLOCK, "another worker takes the block over");
    queue.done("billing", lost).await?;
    let first = queue.trim().await?;
    say(&format!("trimmed below block {first}"));
    check!(first == MESSAGES / BLOCK, "the slowest consumer is through");
    check!(queue.blocks.scan(Scan::new()).collect().await?.is_empty(), "the queue is empty");

    // What reached the disk: the files after a flush hold what a raw scan finds, deleted cells and markers too.
    session.cluster.admin().flush(queue.blocks.name()).await?;
    let raw = queue.blocks.scan(Scan::new().raw().versions(10)).collect().await?;
    let on_disk: usize = raw.iter().map(|row| row.cells().len()).sum();
    note(&format!("{written} cells written, {on_disk} reached the disk"));
    check!(on_disk < written / 20, "trimmed cells are not written to files: {on_disk}");
    Ok(())
}
