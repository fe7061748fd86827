//! Replaces `${name}` in values as Hadoop's configuration does.
//!
//! References are replaced from left to right until none is left, at most [`LIMIT`] times in one value; a value that
//! needs more is an error. `${name}` stands for the variable `name` or, if there is no such variable, for the value of
//! the key `name`. `${env.NAME:-text}` and `${env.NAME-text}` have the default `text`. An unresolved reference is left
//! as it is, as in HBase.

use crate::{Conf, Error, Result, keys};

/// Maximum number of replacements in one value (`Configuration.MAX_SUBST` in Hadoop).
const LIMIT: usize = 20;

/// HBase keys that Bellows uses only as variables in other values, with HBase's defaults.
const VARIABLES: &[(&str, &str)] = &[("hbase.tmp.dir", "${java.io.tmpdir}/hbase-${user.name}")];

/// Replaces all references in `text`, the value of the key `name`.
pub(crate) fn expand(conf: &Conf, name: &str, text: &str) -> Result<String> {
    let mut text = text.to_owned();
    let mut from = 0;
    let mut replaced = 0;
    while let Some((start, end)) = variable(&text, from) {
        let Some(value) = lookup(conf, &text[start + 2..end]) else {
            from = end + 1;
            continue;
        };
        if replaced == LIMIT {
            return Err(Error::Variables { name: name.to_owned(), limit: LIMIT, text });
        }
        text.replace_range(start..=end, &value);
        replaced += 1;
    }
    Ok(text)
}

/// Returns the offsets of the `$` and the `}` of the first innermost `${…}` at or after `from`; `None` if there is
/// none.
fn variable(text: &str, from: usize) -> Option<(usize, usize)> {
    let end = from + text.get(from..)?.find('}')?;
    match text[from..end].rfind("${") {
        Some(start) => Some((from + start, end)),
        None => variable(text, end + 1),
    }
}

fn lookup(conf: &Conf, name: &str) -> Option<String> {
    if let Some(value) = conf.variables.get(name) {
        return Some(value.clone());
    }
    if let Some(rest) = name.strip_prefix("env.") {
        let (variable, default) = match (rest.split_once(":-"), rest.split_once('-')) {
            (Some(parts), _) => (parts.0, Some(parts.1)),
            (None, Some(parts)) => (parts.0, Some(parts.1)),
            (None, None) => (rest, None),
        };
        let value = conf.variables.get(&format!("env.{variable}")).cloned();
        return value.or_else(|| default.map(str::to_owned));
    }
    match conf.settings.get(name) {
        Some(setting) => Some(setting.text.clone()),
        None => {
            let declared = keys::all().find(|key| key.name() == name).map(|key| key.default_text());
            let variable = || VARIABLES.iter().find(|(variable, _)| *variable == name).map(|(_, text)| *text);
            declared.or_else(variable).map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(definitions: &[&str]) -> Conf {
        definitions.iter().fold(Conf::new(), |conf, word| conf.with_definition(word).expect("definition"))
    }

    #[test]
    fn variables_nest_and_the_unknown_stays() {
        let conf = conf(&["a=1", "which=a", "b=${a}${a}"]).with_variable("env.SET", "yes");
        let expand = |text| expand(&conf, "key", text).expect("expands");
        assert_eq!(expand("x${a}y"), "x1y");
        assert_eq!(expand("${${which}}"), "1");
        assert_eq!(expand("${b}"), "11");
        assert_eq!(expand("${nothing} ${a} } ${"), "${nothing} 1 } ${");
        assert_eq!(
            expand("${env.SET:-no} ${env.UNSET:-no} ${env.UNSET-n} ${env.UNSET}"),
            "yes no n ${env.UNSET}"
        );
    }

    #[test]
    fn a_site_may_refer_to_the_folder_for_temporary_files() {
        let text = "${hbase.tmp.dir}/hbase";
        let with_variables =
            |conf: Conf| conf.with_variable("java.io.tmpdir", "/tmp").with_variable("user.name", "u");
        let expand = |conf| expand(&with_variables(conf), "hbase.rootdir", text).expect("expands");
        assert_eq!(expand(Conf::new()), "/tmp/hbase-u/hbase");
        assert_eq!(expand(conf(&["hbase.tmp.dir=/scratch"])), "/scratch/hbase");
    }

    #[test]
    fn a_circle_is_an_error() {
        let conf = conf(&["a=${b}", "b=${a}"]);
        assert!(matches!(expand(&conf, "a", "${a}"), Err(Error::Variables { limit: LIMIT, .. })));
    }
}
