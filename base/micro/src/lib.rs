//! A harness for micro benchmarks: `cargo bench -p memstore`, and so on.
//!
//! A benchmark is a program that calls [`Sheet::time`] once for each operation, with the cost that was planned for it.
//! The harness measures the CPU time of the calling thread, not elapsed time, so that it also works on machines that
//! others use. It runs the operation in many short chunks and prints the minimum and the median of their costs. A chunk
//! costs more if another process evicted its data from the CPU's caches.
//!
//! Existing libraries measure elapsed time. On a shared machine the spread of elapsed times shows what the other
//! processes did. Those libraries also bring more crates than the benchmarked code.
//!
//! `cargo bench -p memstore -- insert` runs benchmarks with `insert` in their name. `cargo test --benches` runs every
//! benchmark once with little data, to show that it works.
//!
//! For tests there is an [allocator that counts](Counting).

#![expect(clippy::print_stdout, reason = "programs of this harness print their sheets")]

mod allocations;

pub use allocations::{Counting, allocations_of};

use rustix::time::{ClockId, clock_gettime};

/// Number of chunks in which an operation is measured.
const CHUNKS: usize = 25;

/// The output of a benchmark: a line for each operation.
#[derive(Debug)]
pub struct Sheet {
    wanted: Vec<String>,
    /// Whether each benchmark runs only once, as a test.
    test: bool,
}

/// Measured cost of one operation, in nanoseconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The cost in the fastest chunk.
    pub least: f64,
    /// The median of the costs of all chunks.
    pub middle: f64,
}

impl Sheet {
    /// Begins a sheet with the options of the command line.
    pub fn new(title: &str) -> Sheet {
        let words: Vec<String> = std::env::args().skip(1).collect();
        // Cargo passes `--bench` to benchmarks and nothing to tests.
        let test = !words.iter().any(|word| word == "--bench");
        let sheet = Sheet { wanted: words.into_iter().filter(|word| !word.starts_with('-')).collect(), test };
        println!("{title}: ns of CPU time");
        println!("{:44} {:>9} {:>9} {:>9}", "", "planned", "least", "middle");
        sheet
    }

    /// Whether the benchmarks run only once, as a test, for which little data is enough.
    pub fn is_trial(&self) -> bool {
        self.test
    }

    /// Measures `work`, which does `times` operations in each call. Prints the cost of one operation and its `planned`
    /// cost, in nanoseconds. `prepare` makes the data of a call and is not measured. Returns the cost, or `None` if the
    /// command line did not select this benchmark.
    pub fn time<T>(
        &self,
        name: &str,
        planned: f64,
        times: u64,
        mut prepare: impl FnMut() -> T,
        mut work: impl FnMut(&mut T),
    ) -> Option<Cost> {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            return None;
        }
        let chunks = if self.test { 1 } else { CHUNKS };
        // A first call warms caches and grows buffers.
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
        println!("{name:44} {planned:9.1} {:9.1} {:9.1}", cost.least, cost.middle);
        Some(cost)
    }
}

/// Returns the CPU time of this thread so far, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the minimum and the median of `costs`, of which there is at least one.
fn spread(costs: &mut [f64]) -> Cost {
    costs.sort_by(f64::total_cmp);
    Cost { least: costs[0], middle: costs[costs.len() / 2] }
}

/// Keeps the compiler from removing the computation of `value`.
pub fn keep<T>(value: T) -> T {
    std::hint::black_box(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_the_median_is_no_less_than_the_minimum() {
        let began = cpu_ns();
        let mut sum = 0u64;
        while cpu_ns() - began < 1_000_000 {
            sum = keep(sum.wrapping_add(1));
        }
        assert!(sum > 0);
        assert_eq!(spread(&mut [3.0, 1.0, 2.0]), Cost { least: 1.0, middle: 2.0 });
    }

    #[test]
    fn only_selected_benchmarks_run_on_the_prepared_data() {
        let sheet = Sheet { wanted: vec!["this".to_owned()], test: true };
        let mut seen = Vec::new();
        assert_eq!(sheet.time("not that", 0.0, 1, || 1, |_| panic!("it was not wanted")), None);
        assert!(sheet.time("this one", 0.0, 1, || 1, |number| seen.push(*number)).is_some());
        assert_eq!(seen, [1, 1], "once to warm up, once measured");
    }
}
