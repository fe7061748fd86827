//! Clients append words to rows and retry with the same nonce. Each acknowledged word is there once, each other one at
//! most once, and the words of a client are in their order. A word may be repeated if the server restarted while its
//! client waited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Append, Get};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, stir, table};
use crate::random::Random;

const TABLE: &str = "appends";

/// The workload; see the module documentation.
pub(super) struct Appends {
    table: TableDescriptor,
    clients: u64,
    rows: u64,
    /// Words by row and client.
    words: Mutex<BTreeMap<(u64, u64), Vec<Word>>>,
}

#[derive(Default)]
struct Word {
    was_acknowledged: bool,
    /// Number of times that the word may be in the row again: how many processes of the server ended while the client
    /// waited, if they may forget which calls they have answered.
    repeats: u64,
}

impl Appends {
    pub(super) fn new(random: &mut Random) -> Appends {
        Appends {
            table: table(TABLE, &["f"], random),
            clients: 1 + random.below(3),
            rows: 1 + random.below(4),
            words: Mutex::default(),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene, client: u64) {
        let table = scene.client(Duration::from_secs(15)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let row = random.below(self.rows);
            let number = {
                let mut words = self.words.lock();
                let own = words.entry((row, client)).or_default();
                own.push(Word::default());
                own.len() - 1
            };
            let word = format!("{client}.{number} ");
            let life = scene.life();
            let append = Append::row(format!("l{row}")).add("f", "q", word.clone());
            // A request with several changes claims its nonces elsewhere than one with a single append does.
            let answer = if random.one_in(4) {
                let mut answers = table.batch(vec![append.into()]).await;
                answers.pop().expect("one answer for each change").map(|outcome| outcome.row)
            } else {
                table.append(append).await
            };
            {
                let mut words = self.words.lock();
                let own = &mut words.get_mut(&(row, client)).expect("it was made")[number];
                let repeats = if scene.keeps_nonces() { 0 } else { scene.life() - life };
                *own = Word { was_acknowledged: answer.is_ok(), repeats };
            }
            match answer {
                Ok(answer) => {
                    let value = answer.value("f", "q").unwrap_or_default();
                    // The answer to a repeated call may be a later state of the row. So the word need not be the last
                    // one.
                    if !value.split_inclusive(|byte| *byte == b' ').any(|known| known == word.as_bytes()) {
                        scene.fail(format!(
                            "appends: l{row} answers {:?} to an append of {word:?}",
                            value.escape_ascii().to_string()
                        ));
                    }
                }
                // The word may still arrive, even after the client's next word. So the client appends no more to this
                // row.
                Err(_) => return,
            }
            scene.pause(&mut random, 400).await;
        }
    }
}

impl Workload for Appends {
    fn name(&self) -> &'static str {
        "appends"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), Vec::new())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> = (0..self.clients)
            .map(|client| Box::pin(Arc::clone(&self).client(scene.clone(), client)) as Job<()>)
            .collect();
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            for row in 0..self.rows {
                let found = table.get(Get::row(format!("l{row}"))).await;
                let found = found.map_err(|error| {
                    Complaint::Unreadable(format!("appends: l{row} cannot be read: {error}"))
                })?;
                let text = String::from_utf8_lossy(found.value("f", "q").unwrap_or_default()).into_owned();
                let mut next: BTreeMap<u64, usize> = BTreeMap::new();
                let mut seen: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
                let words = self.words.lock();
                let mut repeats: BTreeMap<(u64, usize), u64> = BTreeMap::new();
                let mut may_repeat = |client: u64, number: usize| {
                    let own = words.get(&(row, client)).and_then(|own| own.get(number));
                    let so_far = repeats.entry((client, number)).or_default();
                    *so_far += 1;
                    own.is_some_and(|word| *so_far <= word.repeats)
                };
                for word in text.split_whitespace() {
                    let parsed = word.split_once('.').and_then(|(client, number)| {
                        Some((client.parse::<u64>().ok()?, number.parse::<usize>().ok()?))
                    });
                    let (client, number) =
                        parsed.ok_or_else(|| format!("appends: l{row} has {word:?} in it"))?;
                    let at_least = next.entry(client).or_default();
                    if number + 1 == *at_least && may_repeat(client, number) {
                        env::sometimes("appends: a word that was repeated over a start of the server");
                        continue;
                    }
                    if number < *at_least {
                        return Err(
                            format!("appends: l{row} has {word} twice or out of order: {text}").into()
                        );
                    }
                    *at_least = number + 1;
                    seen.entry(client).or_default().push(number);
                }
                for ((_, client), own) in words.iter().filter(|((of, _), _)| *of == row) {
                    let seen = seen.remove(client).unwrap_or_default();
                    let lost = own
                        .iter()
                        .enumerate()
                        .find(|(number, word)| word.was_acknowledged && !seen.contains(number));
                    if let Some((number, _)) = lost {
                        return Err(format!("appends: l{row} has lost {client}.{number}: {text}").into());
                    }
                    if let Some(number) = seen.iter().find(|number| **number >= own.len()) {
                        return Err(
                            format!("appends: l{row} has {client}.{number}, which nobody said").into()
                        );
                    }
                }
            }
            Ok(())
        })
    }
}
