//! Draws results: latencies and progress of each workload, and the server's cost.

use std::path::{Path, PathBuf};

use crate::beside::{labels, medians};
use crate::chart::{Axes, Line, bars, lines};
use crate::outcome::{Outcome, Outcomes};
use crate::{Error, Result};

/// The quantiles on the axis of a latency curve, in nines.
const QUANTILES: [(f64, &str); 6] =
    [(0.0, "0"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %"), (5.0, "99.999 %")];

/// Draws all pictures into a folder, and returns their file names.
pub(crate) fn draw(outcomes: &Outcomes, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut put = |name: String, svg: String| {
        let file = folder.join(name);
        write(&file, &svg).map(|()| files.push(file))
    };
    let (names, medians) = (labels(outcomes), medians(outcomes));
    let mut workloads: Vec<&str> = Vec::new();
    for outcome in &medians {
        if !workloads.contains(&outcome.workload.as_str()) {
            workloads.push(&outcome.workload);
        }
    }
    for workload in &workloads {
        let all: Vec<&Outcome> = medians.iter().filter(|outcome| outcome.workload == *workload).collect();
        let file = workload.replace([' ', ',', '/'], "-");
        let axes = Axes {
            title: &format!("{workload}: latency"),
            across: "quantile",
            up: "µs",
            logarithmic: true,
            signs: &QUANTILES,
        };
        let curves: Vec<Line> = all
            .iter()
            .map(|one| Line { name: one.label.clone(), points: one.curve.clone(), ..Line::default() })
            .collect();
        put(format!("{file}-latency.svg"), lines(&axes, &curves))?;
        let over_time = |points: fn(&Outcome) -> &Vec<(f64, f64)>| -> Vec<Line> {
            let line = |one: &&Outcome| Line {
                name: one.label.clone(),
                points: points(one).clone(),
                flushes: one.flushes.clone(),
                compactions: one.compactions.clone(),
            };
            all.iter().map(line).collect()
        };
        let axes = Axes {
            title: &format!("{workload}: operations a second (▲ flush, ■ compaction)"),
            across: "s",
            up: "operations a second",
            logarithmic: false,
            signs: &[],
        };
        put(format!("{file}-progress.svg"), lines(&axes, &over_time(|one| &one.progress)))?;
        let axes = Axes {
            title: &format!("{workload}: longest latency of each half second (▲ flush, ■ compaction)"),
            across: "s",
            up: "µs",
            logarithmic: true,
            signs: &[],
        };
        put(format!("{file}-longest.svg"), lines(&axes, &over_time(|one| &one.longest)))?;
    }
    let groups: Vec<(String, Vec<Option<f64>>)> = workloads
        .iter()
        .map(|workload| {
            let of =
                |label: &&str| medians.iter().find(|one| one.label == *label && one.workload == *workload);
            let row = |one: &Outcome| one.server_us.map(|cost| cost / one.rows_per_operation.max(1.0));
            ((*workload).to_owned(), names.iter().map(|label| of(label).and_then(row)).collect())
        })
        .collect();
    if groups.iter().any(|(_, figures)| figures.iter().any(Option::is_some)) {
        let axes = Axes {
            title: "CPU time of the server for a row",
            across: "",
            up: "µs",
            logarithmic: true,
            signs: &[],
        };
        put("server-cpu.svg".to_owned(), bars(&axes, &names, &groups))?;
    }
    Ok(files)
}

#[expect(clippy::disallowed_methods, reason = "pictures for people to look at: no files of a server")]
fn write(file: &Path, svg: &str) -> Result<()> {
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, svg))
        .map_err(|error| Error::File { file: file.display().to_string(), reason: error.to_string() })
}
