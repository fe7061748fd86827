//! A harness for micro benchmarks: `cargo bench -p memstore`, and so on.
//!
//! A benchmark beside a hot structure is a program that calls [`Sheet::time`] once for each thing that it measures, with
//! what that thing should cost on paper. What is measured is the CPU time of the calling thread, not the time that went
//! by: the harness is made for machines that others use too. Work is run in many short chunks; the least and the middle
//! of them are told, for a chunk that another process pushed out of the caches costs more.
//!
//! Why not a library: those at hand measure the time that went by and judge its spread, which on a shared machine is the
//! spread of the neighbours; and they bring more crates than the structures that they would measure.
//!
//! `cargo bench -p memstore -- insert` runs what has `insert` in its name. `cargo test --benches` runs every benchmark
//! once, in little: it shows that they work.
//!
//! Beside it, for tests, an [allocator that counts](Counting).

#![expect(clippy::print_stdout, reason = "programs of this harness print their sheets")]

mod allocations;

pub use allocations::{Counting, allocations_of};

use rustix::time::{ClockId, clock_gettime};

/// Chunks of an ordinary run.
const CHUNKS: usize = 25;

/// A benchmark's sheet: a line for each thing measured.
#[derive(Debug)]
pub struct Sheet {
    wanted: Vec<String>,
    /// Once is enough.
    test: bool,
}

/// What one thing was measured to cost, in nanoseconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of the cheapest chunk.
    pub least: f64,
    /// Of the chunk in the middle.
    pub middle: f64,
}

impl Sheet {
    /// Begins a sheet, as the command line says.
    pub fn new(title: &str) -> Sheet {
        let words: Vec<String> = std::env::args().skip(1).collect();
        // Cargo says `--bench` when it benches and nothing when it tests.
        let test = !words.iter().any(|word| word == "--bench");
        let sheet = Sheet { wanted: words.into_iter().filter(|word| !word.starts_with('-')).collect(), test };
        println!("{title}: ns of CPU time");
        println!("{:44} {:>9} {:>9} {:>9}", "", "on paper", "least", "middle");
        sheet
    }

    /// Whether this is only a trial, for which little data is enough.
    pub fn is_trial(&self) -> bool {
        self.test
    }

    /// Measures `work`, which does `times` things at each call, and prints what one of them costs beside what it should
    /// cost `on_paper`, in nanoseconds. `prepare` makes what a call works on and is not measured. Says the cost, unless
    /// nobody wants it.
    pub fn time<T>(
        &self,
        name: &str,
        on_paper: f64,
        times: u64,
        mut prepare: impl FnMut() -> T,
        mut work: impl FnMut(&mut T),
    ) -> Option<Cost> {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            return None;
        }
        let chunks = if self.test { 1 } else { CHUNKS };
        // The first pays for what all others have: warm caches, grown buffers.
        work(&mut prepare());
        let mut costs: Vec<f64> = (0..chunks)
            .map(|_| {
                let mut data = prepare();
                let began = cpu_ns();
                work(&mut data);
                (cpu_ns() - began) as f64 / times.max(1) as f64
            })
            .collect();
        let cost = spread(&mut costs);
        println!("{name:44} {on_paper:9.1} {:9.1} {:9.1}", cost.least, cost.middle);
        Some(cost)
    }
}

/// CPU time of this thread so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The least and the middle of some figures, of which there must be one.
fn spread(costs: &mut [f64]) -> Cost {
    costs.sort_by(f64::total_cmp);
    Cost { least: costs[0], middle: costs[costs.len() / 2] }
}

/// Keeps the compiler from leaving out what makes `value`.
pub fn keep<T>(value: T) -> T {
    std::hint::black_box(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_the_middle_is_no_less_than_the_least() {
        let began = cpu_ns();
        let mut sum = 0u64;
        while cpu_ns() - began < 1_000_000 {
            sum = keep(sum.wrapping_add(1));
        }
        assert!(sum > 0);
        assert_eq!(spread(&mut [3.0, 1.0, 2.0]), Cost { least: 1.0, middle: 2.0 });
    }

    #[test]
    fn what_is_prepared_is_worked_on_and_only_what_is_wanted_runs() {
        let sheet = Sheet { wanted: vec!["this".to_owned()], test: true };
        let mut seen = Vec::new();
        assert_eq!(sheet.time("not that", 0.0, 1, || 1, |_| panic!("it was not wanted")), None);
        assert!(sheet.time("this one", 0.0, 1, || 1, |number| seen.push(*number)).is_some());
        assert_eq!(seen, [1, 1], "once to warm up, once measured");
    }
}
