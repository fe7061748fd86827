//! The page of the configuration: changed keys first.

use conf::Origin;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Frame, page, parts};
use crate::node::Console;
use crate::query::Query;

/// A key as the page shows it.
struct Setting {
    name: String,
    value: String,
    default: String,
    origin: String,
    meaning: String,
    is_default: bool,
}

/// Whether the name of a key says that its value is a secret. No page shows such a value.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["password", "secret", "credential", "access.key", "account.key", "token"]
        .iter()
        .any(|word| name.contains(word))
}

fn settings(console: &Console) -> Vec<Setting> {
    let with_unit = |value: &str, unit: &str| {
        if unit.is_empty() || value.is_empty() { value.to_owned() } else { format!("{value} {unit}") }
    };
    let rows = console.conf.table().rows();
    rows.into_iter()
        .map(|row| Setting {
            name: row.name.to_owned(),
            value: if is_secret(row.name) { "(hidden)".to_owned() } else { with_unit(&row.value, row.unit) },
            default: with_unit(row.default, row.unit),
            is_default: row.origin == Origin::Default,
            origin: row.origin.to_string(),
            meaning: row.meaning.to_owned(),
        })
        .collect()
}

/// Returns a table of keys. With `shows_default` it contains the default and the source of each value.
fn table(settings: &[&Setting], label: &str, shows_default: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.dense.settings {
                thead { tr { th scope="col" { "Key" } th scope="col" { "Value" }
                    @if shows_default { th scope="col" { "Default" } th scope="col" { "Set by" } } th scope="col" { "Meaning" } } }
                tbody {
                    @for setting in settings {
                        tr {
                            th scope="row" { code { (setting.name) } }
                            td { @if setting.is_default { (setting.value) } @else { b { (setting.value) } } }
                            @if shows_default { td { (setting.default) } td { (setting.origin) } }
                            td.words { (setting.meaning) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let words = query.get("q").to_lowercase();
    let all = settings(console);
    let fits = |setting: &&Setting| {
        setting.name.to_lowercase().contains(&words) || setting.meaning.to_lowercase().contains(&words)
    };
    let changed: Vec<&Setting> = all.iter().filter(|setting| !setting.is_default).filter(fits).collect();
    let others: Vec<&Setting> = all.iter().filter(|setting| setting.is_default).filter(fits).collect();
    let unknown: Vec<&str> = console.conf.unknown().collect();
    let live = html! {
        form.choices action="/settings" {
            label { "Words " input type="search" name="q" value=(query.get("q")); }
            button type="submit" { "Show" }
        }
        section aria-labelledby="changed" {
            h2 #changed { "Not the default" }
            @if changed.is_empty() { (parts::empty("Every key has its default.")) } @else { (table(&changed, "Keys that are not at their default", true)) }
        }
        @if !unknown.is_empty() {
            section aria-labelledby="unknown" {
                h2 #unknown { "Without a meaning here" }
                p.note { "These keys were set, and no part of this server reads them: look for a slip of the pen." }
                ul.plain { @for name in &unknown { li { code { (name) } } } }
            }
        }
        section aria-labelledby="defaults" {
            h2 #defaults { "At their default" }
            (table(&others, "Keys at their default", false))
        }
    };
    let frame = Frame {
        title: "Settings",
        menu: "/settings",
        path: "/settings",
        query,
        has_range: false,
        is_live: false,
    };
    page(console, &frame, &live, &html! {})
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    json!({
        "settings": settings(console).iter().map(|setting| json!({
            "name": setting.name, "value": setting.value, "default": setting.default,
            "origin": setting.origin, "isDefault": setting.is_default,
        })).collect::<Vec<_>>(),
        "unknown": console.conf.unknown().collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for (name, secret) in [
            ("fs.s3a.secret.key", true),
            ("fs.azure.account.key.name", true),
            ("hbase.ssl.keystore.Password", true),
            ("hbase.regionserver.port", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }
}
