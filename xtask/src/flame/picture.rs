//! Draws a flame graph as SVG for a browser.
//!
//! A box shows as much of its function's name as fits, and the whole name while the pointer is over it.

use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1_400.0;
const BOX: f64 = 17.0;
const TOP: f64 = 34.0;
/// Width of a character, in units of the drawing.
const LETTER: f64 = 6.4;
/// Minimum width of a box that is drawn, in units of the drawing.
const NARROWEST: f64 = 0.6;

/// A tree of functions by their callers.
#[derive(Default)]
struct Tower<'a> {
    count: u64,
    above: BTreeMap<&'a str, Tower<'a>>,
}

impl<'a> Tower<'a> {
    fn add(&mut self, names: &'a [String], count: u64) {
        self.count += count;
        if let [first, rest @ ..] = names {
            self.above.entry(first).or_default().add(rest, count);
        }
    }

    fn height(&self, all: u64) -> usize {
        let drawn = self.above.values().filter(|tower| tower.width(all) >= NARROWEST);
        drawn.map(|tower| 1 + tower.height(all)).max().unwrap_or(0)
    }

    fn width(&self, all: u64) -> f64 {
        self.count as f64 / all as f64 * WIDTH
    }
}

/// Draws stacks, each from the outermost function on, with the number of samples.
pub(super) fn draw(title: &str, stacks: &BTreeMap<Vec<String>, u64>) -> String {
    let mut root = Tower::default();
    for (stack, count) in stacks {
        root.add(stack, *count);
    }
    let all = root.count.max(1);
    let height = TOP + BOX * root.height(all) as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" \
         font-size=\"10.5\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"21\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    boxes(&mut svg, &root, all, 0.0, height - 8.0);
    svg + "</svg>\n"
}

/// Draws the boxes over `tower`, which begins at `left` and ends at `foot`.
fn boxes(svg: &mut String, tower: &Tower<'_>, all: u64, mut left: f64, foot: f64) {
    for (name, above) in &tower.above {
        let width = above.width(all);
        if width >= NARROWEST {
            let top = foot - BOX;
            let share = above.count as f64 / all as f64 * 100.0;
            let _infallible = write!(
                svg,
                "<g><title>{} ({share:.1} %)</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\" rx=\"1\" fill=\"{}\"/>",
                escaped(name),
                (width - 0.4).max(0.4),
                BOX - 1.0,
                colour(name)
            );
            let letters = ((width - 5.0) / LETTER) as usize;
            if letters > 3 {
                let _infallible = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    left + 2.5,
                    top + 12.0,
                    escaped(&fitting(name, letters))
                );
            }
            svg.push_str("</g>\n");
            boxes(svg, above, all, left, top);
        }
        left += width;
    }
}

/// Returns the end of a name, which is more specific than its beginning, in at most this many characters.
fn fitting(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    if count <= letters {
        name.to_owned()
    } else {
        name.chars().skip(count - letters + 1).fold("…".to_owned(), |mut end, next| {
            end.push(next);
            end
        })
    }
}

/// Returns the colour of a function: this project's functions by crate; those of the kernel and other libraries are
/// grey.
fn colour(name: &str) -> &'static str {
    match name.split("::").next().unwrap_or_default() {
        "memstore" => "#e8a33d",
        "region" => "#efc15c",
        "wal" => "#d98880",
        "hfile" | "cache" => "#9ec48b",
        "rpc" => "#8fb8de",
        "regionserver" => "#b3cde8",
        "cell" | "filter" => "#d7bde2",
        _ => "#d5d8dc",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share_and_stand_on_their_callers() {
        let stack = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let stacks = BTreeMap::from([
            (stack(&["rpc", "region::get"]), 3),
            (stack(&["rpc", "wal::<write>"]), 1),
            (stack(&["wal"]), 4),
        ]);
        let svg = draw("a & b", &stacks);
        assert!(svg.contains("a &amp; b") && svg.contains("<title>region::get (37.5 %)</title>"), "{svg}");
        assert!(svg.contains("wal::&lt;write&gt; (12.5 %)"));
        // Half of all samples are in the thread itself. The functions that it calls begin at its left edge, one box
        // higher.
        assert!(svg.contains("(50.0 %)</title><rect x=\"0.0\" y=\"51.0\" width=\"699.6\""), "{svg}");
        assert!(svg.contains("(37.5 %)</title><rect x=\"0.0\" y=\"34.0\" width=\"524.6\""), "{svg}");
    }
}
