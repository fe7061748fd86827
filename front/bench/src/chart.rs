//! Draws SVG charts: lines with a linear or logarithmic axis, and groups of bars.
//!
//! The charts need no external styles and no script, so they work in a browser and in Markdown.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 58.0;
/// Colours that are distinguishable with colour blindness.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Times of flushes (triangles) and compactions (squares), shown at the bottom.
    pub(crate) flushes: Vec<f64>,
    pub(crate) compactions: Vec<f64>,
}

/// What the axes of a chart show.
#[derive(Clone, Debug)]
pub(crate) struct Axes<'a> {
    pub(crate) title: &'a str,
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
    pub(crate) logarithmic: bool,
    /// Labels of the horizontal axis and their positions; round numbers if empty.
    pub(crate) signs: &'a [(f64, &'a str)],
}

/// Draws a chart of several lines.
pub(crate) fn lines(axes: &Axes<'_>, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let across_max = points().map(|point| point.0).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let scale = Scale::over(points().map(|point| point.1), axes.logarithmic);
    let x = |across: f64| LEFT + across / across_max * (WIDTH - LEFT - RIGHT);
    let mut svg = frame(axes.title, axes.across, axes.up, &scale);
    let round: Vec<(f64, String)> = match axes.signs {
        [] => steps(0.0, across_max).into_iter().map(|step| (step, number(step))).collect(),
        signs => signs.iter().map(|(at, sign)| (*at, (*sign).to_owned())).collect(),
    };
    for (at, sign) in round.iter().filter(|(at, _)| *at <= across_max) {
        text(&mut svg, x(*at), HEIGHT - BOTTOM + 18.0, "middle", sign);
    }
    for (index, line) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let path: Vec<String> =
            line.points.iter().map(|(across, up)| format!("{:.1},{:.1}", x(*across), scale.y(*up))).collect();
        let _infallible = writeln!(
            svg,
            r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/>"#,
            path.join(" ")
        );
        // The symbols of each line are in a row of their own.
        let foot = HEIGHT - BOTTOM - 4.0 - 11.0 * index as f64;
        for at in line.flushes.iter().map(|at| x(*at)) {
            let _infallible = writeln!(
                svg,
                r#"<path fill="{colour}" d="M{:.1} {foot:.1}h8l-4 -8z"><title>flush</title></path>"#,
                at - 4.0
            );
        }
        for at in line.compactions.iter().map(|at| x(*at)) {
            let _infallible = writeln!(
                svg,
                r#"<path fill="{colour}" d="M{:.1} {foot:.1}h7v-7h-7z"><title>compaction</title></path>"#,
                at - 3.5
            );
        }
    }
    legend(&mut svg, lines.iter().map(|line| line.name.as_str()));
    svg + "</svg>\n"
}

/// Draws a chart of grouped bars; each group has an optional figure for each name.
pub(crate) fn bars(axes: &Axes<'_>, names: &[&str], groups: &[(String, Vec<Option<f64>>)]) -> String {
    let all = groups.iter().flat_map(|(_, figures)| figures.iter().flatten().copied());
    let scale = Scale::over(all, axes.logarithmic);
    let mut svg = frame(axes.title, axes.across, axes.up, &scale);
    let group_width = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let width = group_width * 0.8 / names.len().max(1) as f64;
    for (index, (name, figures)) in groups.iter().enumerate() {
        let begin = LEFT + group_width * (index as f64 + 0.1);
        for (place, figure) in figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            let (left, top) = (begin + width * place as f64, scale.y(*figure));
            let _infallible = writeln!(
                svg,
                r#"<rect fill="{}" x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{:.1}"><title>{}</title></rect>"#,
                COLOURS[place % COLOURS.len()],
                HEIGHT - BOTTOM - top,
                number(*figure)
            );
        }
        let (middle, foot) = (begin + group_width * 0.4, HEIGHT - BOTTOM + 12.0);
        let _infallible = writeln!(
            svg,
            r#"<text x="{middle:.1}" y="{foot:.1}" font-size="10" text-anchor="end" transform="rotate(-28 {middle:.1} {foot:.1})">{}</text>"#,
            escaped(name)
        );
    }
    legend(&mut svg, names.iter().copied());
    svg + "</svg>\n"
}

/// Maps figures to heights in a chart.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn over(figures: impl Iterator<Item = f64>, logarithmic: bool) -> Scale {
        let (mut low, mut high) = (f64::MAX, 0.0f64);
        for figure in figures.filter(|figure| figure.is_finite() && (!logarithmic || *figure > 0.0)) {
            (low, high) = (low.min(figure), high.max(figure));
        }
        if high <= 0.0 {
            (low, high) = (1.0, 10.0);
        }
        if logarithmic {
            let (low, mut high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            if high <= low {
                high = low * 10.0;
            }
            Scale { low, high, logarithmic }
        } else {
            Scale { low: 0.0, high: high * 1.05, logarithmic }
        }
    }

    fn y(&self, figure: f64) -> f64 {
        let part = if self.logarithmic {
            (figure.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            figure / self.high
        };
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }

    fn marks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return steps(0.0, self.high);
        }
        let decades = (self.high / self.low).log10().round() as i32;
        (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect()
    }
}

/// Returns round numbers at equal distances from `low` to `high`, three to seven of them.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(power);
    (0..).map(|count| low + f64::from(count) * step).take_while(|at| *at <= high * 1.000_001).collect()
}

fn number(figure: f64) -> String {
    match figure {
        figure if figure >= 1e6 => format!("{}M", trimmed(figure / 1e6)),
        figure if figure >= 1e3 => format!("{}k", trimmed(figure / 1e3)),
        figure => trimmed(figure),
    }
}

fn trimmed(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _infallible =
        writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escaped(words));
}

fn frame(title: &str, across: &str, up: &str, scale: &Scale) -> String {
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{}</text>
"##,
        escaped(title)
    );
    for mark in scale.marks() {
        let y = scale.y(mark);
        let _infallible = writeln!(
            svg,
            r##"<line x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}" stroke="#ddd"/>"##,
            WIDTH - RIGHT
        );
        text(&mut svg, LEFT - 6.0, y + 4.0, "end", &number(mark));
    }
    text(&mut svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0, "middle", across);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let _infallible = writeln!(
        svg,
        r#"<text x="16" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 16 {middle:.1})">{}</text>"#,
        escaped(up)
    );
    svg
}

fn legend<'a>(svg: &mut String, names: impl Iterator<Item = &'a str>) {
    let mut at = LEFT;
    for (index, name) in names.enumerate() {
        let _infallible = writeln!(
            svg,
            r#"<rect x="{at:.1}" y="30" width="12" height="12" fill="{}"/>"#,
            COLOURS[index % COLOURS.len()]
        );
        text(svg, at + 17.0, 40.0, "start", name);
        at += 34.0 + 7.0 * name.chars().count() as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_cover_the_range() {
        assert_eq!(steps(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(steps(0.0, 0.07), [0.0, 0.02, 0.04, 0.06]);
    }

    #[test]
    fn a_chart_has_every_line_bar_and_mark() {
        let axes = Axes { title: "a < b", across: "s", up: "µs", logarithmic: true, signs: &[] };
        let line = Line {
            name: "one".to_owned(),
            points: vec![(0.0, 10.0), (1.0, 1_000.0)],
            flushes: vec![0.5],
            compactions: vec![0.7],
        };
        let svg = lines(&axes, &[line]);
        assert!(
            svg.contains("a &lt; b") && svg.contains("<title>flush") && svg.contains("<title>compaction")
        );
        // The line goes from the lower left corner to the upper right one.
        assert!(svg.contains(r#"points="78.0,362.0 842.0,52.0""#), "{svg}");
        let svg = bars(&axes, &["one", "two"], &[("w".to_owned(), vec![Some(1.0), None])]);
        assert_eq!(svg.matches("<rect").count(), 1 + 1 + 2, "background, bar, legend");
        // A chart without lines is valid, too.
        assert!(lines(&axes, &[]).ends_with("</svg>\n"));
    }
}
