//! Charts: drawn by the server, made interactive by script, with a table of the numbers.

use maud::{Markup, PreEscaped, html};

use super::parts;
use crate::history::{History, Range, Values};
use crate::log_ring::LogLine;

/// Width and height of the drawing, in units of its own.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// Maximum number of rows of the table of numbers.
const ROWS: usize = 12;

/// The unit of a chart's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
    Bytes,
    BytesPerSecond,
    Percent,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "per-second",
            Unit::Milliseconds => "ms",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes-per-second",
            Unit::Percent => "percent",
        }
    }

    pub(crate) fn shown(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", parts::count(value)),
            Unit::Milliseconds => parts::ms(value),
            Unit::Bytes => parts::size(value),
            Unit::BytesPerSecond => format!("{}/s", parts::size(value)),
            Unit::Percent => format!("{value:.1} %"),
        }
    }
}

/// A chart of some series.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    /// Names of series in the history, and their names for people.
    pub(crate) series: &'a [(&'a str, &'a str)],
    /// Whether the series are parts of a whole, drawn on top of each other.
    pub(crate) stacked: bool,
}

/// A moment that charts mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The time of the event, in seconds since 1970.
    pub(crate) time: u64,
    pub(crate) level: &'static str,
    pub(crate) text: String,
}

/// Whether a line of the log is an event: a warning, an error, or a change of the server's state.
pub(crate) fn is_event(line: &LogLine) -> bool {
    const TURNS: [&str; 5] = [
        "bellows::start: started",
        "stopping",
        "the configuration was read again",
        "recovered from the log",
        "done from the web page",
    ];
    // Lines about slow and large calls are left out: there may be hundreds, and they have a page of their own.
    let is_call = line.text.contains("(responseTooSlow)") || line.text.contains("(responseTooLarge)");
    (matches!(line.level, "WARN" | "ERROR") && !is_call)
        || (line.level == "INFO" && TURNS.iter().any(|turn| line.text.contains(turn)))
}

impl Event {
    pub(crate) fn of(line: &LogLine) -> Event {
        let time = u64::try_from(line.time.0).unwrap_or(0) / 1_000;
        // The name of the module that wrote the line is cut off, because it does not help the reader.
        let text = match line.text.split_once(": ") {
            Some((target, rest)) if target.contains("::") && !target.contains(' ') => rest,
            _ => &line.text,
        };
        Event { time, level: line.level, text: parts::short(text, 140) }
    }
}

/// Returns the values of a chart; if it is stacked, the values of the series below are added to those of each series.
fn heights(values: &Values, stacked: bool) -> Vec<Vec<f32>> {
    let mut heights = values.series.clone();
    if stacked {
        for at in 1..heights.len() {
            let (below, rest) = heights.split_at_mut(at);
            for (value, below) in rest[0].iter_mut().zip(&below[at - 1]) {
                *value = if value.is_nan() { *below } else { *value + below.max(0.0) };
            }
        }
    }
    heights
}

/// Draws a chart.
pub(crate) fn draw(history: &History, chart: &Chart<'_>, range: Range, events: &[Event]) -> Markup {
    let names: Vec<&str> = chart.series.iter().map(|(name, _)| *name).collect();
    let values = history.values(&names, range);
    let heights = heights(&values, chart.stacked);
    let top = heights.iter().flatten().copied().filter(|value| value.is_finite()).fold(0.0_f32, f32::max);
    let top = if chart.unit == Unit::Percent { 100.0 } else { nice(f64::from(top)) };
    let (first, last) =
        (values.times.first().copied().unwrap_or(0), values.times.last().copied().unwrap_or(1));
    let x = |time: u64| (time - first) as f64 / (last - first).max(1) as f64 * WIDTH;
    let latest = |at: usize| values.series[at].iter().rev().copied().find(|value| !value.is_nan());
    let data = chart.series.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    let labels = chart.series.iter().map(|(_, label)| *label).collect::<Vec<_>>().join(",");
    html! {
        figure.chart data-series=(data) data-labels=(labels) data-range=(range.name())
            data-unit=(chart.unit.name()) data-stacked=[chart.stacked.then_some("1")] {
            figcaption {
                span.name { (chart.title) }
                @for (at, (_, label)) in chart.series.iter().enumerate() {
                    span.key.{ "s" (at) } {
                        (label) " "
                        b { (latest(at).map_or_else(|| "–".to_owned(), |value| chart.unit.shown(f64::from(value)))) }
                    }
                }
            }
            @if values.times.len() < 2 {
                p.empty { "The first values are being measured." }
            } @else {
                div.plot {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                        aria-label={ (chart.title) ", the last " (range.title()) } {
                        line.grid x1="0" x2=(WIDTH) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
                        @for event in events.iter().filter(|event| event.time >= first && event.time <= last) {
                            line.event.{ "is-" (event.level) } x1=(format!("{:.1}", x(event.time))) x2=(format!("{:.1}", x(event.time))) y1="0" y2=(HEIGHT) {
                                title { (parts::clock(event.time as i64 * 1_000)) " " (event.text) }
                            }
                        }
                        @for at in (0..heights.len()).rev() {
                            (PreEscaped(path(&values.times, &heights[at], top, at, chart.stacked, x)))
                        }
                    }
                    span.top-label { (chart.unit.shown(top)) }
                    span.from-label { (parts::clock(first as i64 * 1_000)) }
                    span.to-label { (parts::clock(last as i64 * 1_000)) " UTC" }
                }
                details {
                    summary { "Numbers" }
                    (numbers(chart, &values))
                }
            }
        }
    }
}

/// Returns a table with the numbers of a chart at up to [`ROWS`] moments.
fn numbers(chart: &Chart<'_>, values: &Values) -> Markup {
    let step = values.times.len().div_ceil(ROWS).max(1);
    let moments = (0..values.times.len()).rev().step_by(step);
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Numbers of " (chart.title) } {
            table {
                thead { tr { th scope="col" { "UTC" } @for (_, label) in chart.series { th.n scope="col" { (label) } } } }
                tbody {
                    @for at in moments {
                        tr {
                            th scope="row" { (parts::clock(values.times[at] as i64 * 1_000)) }
                            @for series in &values.series {
                                td.n { @if series[at].is_nan() { "–" } @else { (chart.unit.shown(f64::from(series[at]))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn path(times: &[u64], heights: &[f32], top: f64, at: usize, filled: bool, x: impl Fn(u64) -> f64) -> String {
    let y = |value: f32| HEIGHT - f64::from(value) / top.max(1e-9) * (HEIGHT - 4.0);
    // More than two points for each unit of width could not be told apart, so the others are left out.
    let step = (times.len() / (WIDTH as usize)).max(1);
    let (mut line, mut is_down) = (String::new(), false);
    let mut area: Vec<(f64, f64)> = Vec::new();
    for (time, values) in times.chunks(step).zip(heights.chunks(step)) {
        let value = values.iter().copied().filter(|value| !value.is_nan()).fold(f32::NAN, f32::max);
        if value.is_nan() {
            is_down = false;
            continue;
        }
        let (x, y) = (x(time[0]), y(value));
        line.push_str(&format!("{}{x:.1} {y:.1}", if is_down { 'L' } else { 'M' }));
        area.push((x, y));
        is_down = true;
    }
    let mut out = String::new();
    if filled && let (Some(first), Some(last)) = (area.first(), area.last()) {
        let points: String = area.iter().map(|(x, y)| format!("L{x:.1} {y:.1}")).collect();
        out.push_str(&format!(
            "<path class=\"area s{at}\" d=\"M{:.1} {HEIGHT}{points}L{:.1} {HEIGHT}Z\"/>",
            first.0, last.0
        ));
    }
    out.push_str(&format!("<path class=\"line s{at}\" d=\"{line}\"/>"));
    out
}

/// Returns the least number of the form 1, 2 or 5 times a power of ten that is not less than `value`; 1 if that is not
/// positive.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10.0_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

/// Draws a small line without labels, for tables and tiles.
pub(crate) fn spark(history: &History, name: &str, range: Range) -> Markup {
    let values = history.values(&[name], range);
    let series = &values.series[0];
    let top = series.iter().copied().filter(|value| value.is_finite()).fold(0.0_f32, f32::max).max(1e-9);
    let step = series.len().div_ceil(60).max(1);
    let (mut line, mut is_down) = (String::new(), false);
    for (at, chunk) in series.chunks(step).enumerate() {
        let value = chunk.iter().copied().filter(|value| !value.is_nan()).fold(f32::NAN, f32::max);
        if value.is_nan() {
            is_down = false;
            continue;
        }
        let x = at as f64 * 100.0 / (series.len().div_ceil(step).max(2) - 1) as f64;
        let y = 19.0 - f64::from(value / top) * 18.0;
        line.push_str(&format!("{}{x:.1} {y:.1}", if is_down { 'L' } else { 'M' }));
        is_down = true;
    }
    html! {
        svg.spark viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true" {
            @if series.len() > 1 { path.line.s0 d=(line) {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Fold;

    fn history() -> History {
        let history = History::default();
        for second in 0..120 {
            let values = [("a", Fold::Mean, second as f64), ("b", Fold::Mean, 10.0)];
            history.push(1_700_000_000 + second, values.into_iter());
        }
        history
    }

    #[test]
    fn a_chart_has_lines_events_and_numbers() {
        let series = [("a", "first"), ("b", "<second>")];
        let chart = Chart { title: "Calls", unit: Unit::PerSecond, series: &series, stacked: true };
        let event = Event { time: 1_700_000_060, level: "WARN", text: "<script>".to_owned() };
        let drawn = draw(&history(), &chart, Range::Minutes, &[event]).into_string();
        assert_eq!(drawn.matches("<path class=\"line").count(), 2);
        assert!(drawn.contains("200/s") && drawn.contains("class=\"event is-WARN\""), "{drawn}");
        assert!(!drawn.contains("<script>") && !drawn.contains("<second>"), "{drawn}");
        assert_eq!(drawn.matches("<tr>").count(), 13);
        let empty = draw(&History::default(), &chart, Range::Minutes, &[]).into_string();
        assert!(empty.contains("being measured"), "{empty}");
    }

    #[test]
    fn a_slow_call_is_no_event_and_another_warning_is() {
        let line = |text: &str| LogLine { time: env::WallTime(0), level: "WARN", text: text.to_owned() };
        assert!(is_event(&line("wal::log: a sync took 900 ms")));
        assert!(!is_event(&line("regionserver::watch: (responseTooSlow) method=Scan")));
        assert!(!is_event(&line("regionserver::watch: (responseTooLarge) method=Scan")));
    }

    #[test]
    fn tops_are_round_and_sparks_fit() {
        assert_eq!([nice(0.0), nice(0.7), nice(11.0), nice(50.0)], [1.0, 1.0, 20.0, 50.0]);
        let drawn = spark(&history(), "a", Range::Minutes).into_string();
        assert!(drawn.contains("M0.0") && drawn.contains("L100.0 1.0"), "{drawn}");
        let gap = History::default();
        for second in [0, 1, 100, 101] {
            gap.push(1_700_000_000 + second, [("a", Fold::Mean, 5.0)].into_iter());
        }
        let drawn = spark(&gap, "a", Range::Minutes).into_string();
        assert_eq!(drawn.matches('M').count(), 2, "a gap is no zero: {drawn}");
        assert!(!spark(&history(), "none", Range::Minutes).into_string().contains("NaN"));
    }
}
