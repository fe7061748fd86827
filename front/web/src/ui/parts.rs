//! Parts of pages: numbers for people, bars, sortable tables.

use maud::{Markup, html};

use crate::query::Query;

/// Formats a number of bytes for people.
pub(crate) fn size(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes.max(0.0), "B");
    for next in ["KB", "MB", "GB", "TB", "PB"] {
        if value < 1_024.0 {
            break;
        }
        value /= 1_024.0;
        unit = next;
    }
    if unit == "B" || value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Formats a number for people: 1,234 or 12.3 M.
pub(crate) fn count(number: f64) -> String {
    match number.abs() {
        low if low < 10.0 && low.fract() > 0.005 => format!("{number:.1}"),
        low if low < 100_000.0 => grouped(number.round() as i64),
        middle if middle < 1e6 => format!("{:.0} k", number / 1e3),
        high if high < 1e9 => format!("{:.1} M", number / 1e6),
        _ => format!("{:.1} G", number / 1e9),
    }
}

fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

/// Formats milliseconds for people.
pub(crate) fn ms(milliseconds: f64) -> String {
    match milliseconds {
        none if none <= 0.0 => "–".to_owned(),
        micro if micro < 1.0 => format!("{:.0} µs", micro * 1_000.0),
        small if small < 10.0 => format!("{small:.1} ms"),
        middle if middle < 10_000.0 => format!("{middle:.0} ms"),
        large => format!("{:.1} s", large / 1_000.0),
    }
}

/// Formats a time span in seconds for people.
pub(crate) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a moment, in ms since 1970, as `22:13:20` in UTC.
pub(crate) fn clock(milliseconds: i64) -> String {
    let second = milliseconds.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Formats a moment, in ms since 1970, as `2026-11-24 22:13:20` in UTC.
pub(crate) fn date(milliseconds: i64) -> String {
    // Days since the first of March of the year 0, after Howard Hinnant's algorithm.
    let days = milliseconds.div_euclid(86_400_000) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_part + 2) / 5 + 1;
    let month = if month_part < 10 { month_part + 3 } else { month_part - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {}", clock(milliseconds))
}

/// Returns a text; of one with more than `letters` letters the first ones and `…`.
pub(crate) fn short(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let cut: String = text.chars().take(letters).collect();
    format!("{cut}…")
}

/// Draws a bar: fractions of a whole, each with its class. The title describes it.
pub(crate) fn bar(parts: &[(f64, &str)], title: &str) -> Markup {
    let mut from = 0.0;
    let placed: Vec<(f64, f64, &str)> = parts
        .iter()
        .map(|(part, class)| {
            let (x, width) = (from, (part.clamp(0.0, 1.0) * 100.0).min(100.0 - from));
            from += width;
            (x, width, *class)
        })
        .collect();
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(title) {
            title { (title) }
            rect.ground width="100" height="8" {}
            @for (x, width, class) in placed {
                rect class=(class) x=(format!("{x:.2}")) width=(format!("{width:.2}")) height="8" {}
            }
        }
    }
}

/// Returns the head of a column, with a link that sorts by it.
pub(crate) fn sorting(path: &str, query: &Query, name: &str, title: &str, is_number: bool) -> Markup {
    let by = query.get("sort");
    let is_current = by == name;
    let next = if is_current && query.get("order") != "up" { "up" } else { "" };
    let address = query.with("sort", name).with("order", next).address(path);
    let order = is_current.then_some(if query.get("order") == "up" { "ascending" } else { "descending" });
    html! {
        th scope="col" class=[is_number.then_some("n")] aria-sort=[order] {
            a href=(address) { (title) @if let Some(order) = order { (if order == "ascending" { " ↑" } else { " ↓" }) } }
        }
    }
}

/// Returns the text of a page that has nothing to show.
pub(crate) fn empty(sentence: &str) -> Markup {
    html! { p.empty { (sentence) } }
}

/// Returns an error in place of content that could not be loaded.
pub(crate) fn failure(what: &str, why: &str) -> Markup {
    html! { p.failure role="alert" { strong { (what) } " " (why) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_readable_units() {
        assert_eq!([size(0.0), size(1_536.0), size(250.0 * 1_048_576.0)], ["0 B", "1.5 KB", "250 MB"]);
        assert_eq!([count(0.0), count(2.5), count(12_345.0), count(2.5e6)], ["0", "2.5", "12,345", "2.5 M"]);
        assert_eq!([ms(0.0), ms(0.25), ms(3.12), ms(12_000.0)], ["–", "250 µs", "3.1 ms", "12.0 s"]);
        assert_eq!([span(59.0), span(600.0), span(90_000.0)], ["59 s", "10 min", "25 h"]);
        assert_eq!(date(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00");
    }

    #[test]
    fn a_bar_never_exceeds_its_width_and_texts_are_escaped() {
        let drawn = bar(&[(0.7, "a"), (0.7, "b")], "<script>").into_string();
        assert!(drawn.contains("width=\"30.00\"") && !drawn.contains("<script>"), "{drawn}");
    }
}
