//! Tests with concurrent clients, also across crashes: no row is torn, and some order of operations explains the
//! history of each row.

use model::concurrent::{Load, Target, Unanswered, Values, acid, record};
use model::in_process::{InProcess, LEVELS};
use model::linear::{Answer, Operation};

#[test]
fn no_row_is_torn_while_memory_and_files_are_rewritten() {
    for (seed, level) in LEVELS.into_iter().enumerate() {
        let region = InProcess::new(level);
        let load = Load { seed: seed as u64, clients: 3, operations: 400 };
        let seen =
            acid(&region, load, &mut || region.disturb()).unwrap_or_else(|torn| panic!("{level:?}: {torn}"));
        assert_eq!(seen.written, 1_200, "{level:?}");
        assert!(seen.got > 0 && seen.scanned > 0, "{level:?}: {seen:?}");
    }
}

#[test]
fn histories_of_rows_are_linear_while_memory_and_files_are_rewritten() {
    for (seed, level) in LEVELS.into_iter().enumerate() {
        let region = InProcess::new(level);
        let load = Load { seed: seed as u64, clients: 4, operations: 400 };
        let recorded = record(&region, load, 0, &mut || region.disturb());
        let recorded = recorded.unwrap_or_else(|refused| panic!("{level:?}: {refused}"));
        assert_eq!((recorded.answered, recorded.open), (1_600, 0), "{level:?}");
    }
}

#[test]
fn histories_of_rows_are_linear_across_deaths() {
    for power in [false, true] {
        let region = InProcess::new(LEVELS[3]);
        let load = Load { seed: u64::from(power), clients: 4, operations: 600 };
        let (mut turns, mut deaths) = (0, 0);
        let recorded = record(&region, load, 0, &mut || {
            turns += 1;
            if turns % 8 == 1 {
                deaths += 1;
                region.die(power);
            }
            region.disturb();
        });
        let recorded = recorded.unwrap_or_else(|refused| panic!("power {power}: {refused}"));
        assert!(recorded.answered > 1_000 && deaths > 0, "{recorded:?}, {deaths} deaths");
    }
}

/// A target that acknowledges every tenth put without doing it, and returns an older value for one column of a row.
struct Forgetful(InProcess, std::sync::atomic::AtomicU64);

impl Target for Forgetful {
    fn act(&self, row: &str, operation: &Operation) -> Result<Answer, Unanswered> {
        let count = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match operation {
            Operation::Put(_) if count.is_multiple_of(10) => Ok(Answer::Done),
            _ => self.0.act(row, operation),
        }
    }

    fn write(&self, row: &str, value: &[u8]) -> Result<(), Unanswered> {
        self.0.write(row, value)
    }

    fn read(&self, row: &str) -> Result<Values, Unanswered> {
        let mut values = self.0.read(row)?;
        if let Some(value) = values.last_mut() {
            value.push(b'!');
        }
        Ok(values)
    }

    fn scan(&self) -> Result<std::collections::BTreeMap<Vec<u8>, Values>, Unanswered> {
        self.0.scan()
    }

    fn width(&self) -> usize {
        self.0.width()
    }
}

#[test]
fn a_target_that_loses_writes_or_tears_rows_is_detected() {
    let target = Forgetful(InProcess::new(LEVELS[1]), Default::default());
    let load = Load { seed: 1, clients: 2, operations: 300 };
    // If threads happen to run one after the other, a round may repeat each forgotten put before a client reads the
    // row.
    let is_found = |round| record(&target, load, round, &mut std::thread::yield_now).is_err();
    assert!((0..20).any(is_found), "puts are forgotten");
    acid(&target, load, &mut std::thread::yield_now).expect_err("rows are torn");
}
