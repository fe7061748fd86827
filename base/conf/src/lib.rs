//! HBase's configuration keys, each declared once.
//!
//! ```text
//!   keys::…  declarations: name, kind (with its unit), default, meaning
//!      │
//!   Conf     settings: files in the order they were read, then `-D name=value`; later ones win
//!      │
//!   value()  the text of the setting or the default, `${variables}` replaced, parsed as the key's kind
//! ```
//!
//! A key has one default, in [`keys`], unless the program gives it another one for its files or its machine, with a
//! reason ([`Conf::with_default`]). An error names the key, its text, where the text was set and
//! what was expected. [`Conf::table`] lists every key with its value and origin. Undeclared names are kept, because
//! `${…}` may refer to them, and are listed by [`Conf::unknown`].
//!
//! This crate reads no files and no process environment, and does not know which values fit together. `front` reads the
//! files and passes their text. Each crate checks the options that it derives from values.

mod error;
mod expand;
pub mod key;
pub mod keys;
mod site;
mod table;

pub use error::{Error, Result};
pub use key::{Declared, Key, Kind};
pub use table::Table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where the value of a key was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The value was set nowhere; it is the key's default.
    Default,
    /// The value was set nowhere; it is another default, for the reason given.
    OtherDefault(&'static str),
    /// The value was set in the file of this name.
    File(String),
    /// The value was set on the command line, by `-D`.
    CommandLine,
    /// The program itself set the value.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::OtherDefault(reason) => f.write_str(reason),
            Origin::File(name) => f.write_str(name),
            Origin::CommandLine => f.write_str("-D"),
            Origin::Program => f.write_str("program"),
        }
    }
}

#[derive(Clone, Debug)]
struct Setting {
    text: String,
    origin: Origin,
}

/// The configuration: the names and values that are set, as in `hbase-site.xml`.
#[derive(Clone, Debug, Default)]
pub struct Conf {
    settings: BTreeMap<String, Setting>,
    /// Names of keys that a file marked `<final>`. Later files do not change them; `-D` does.
    fixed: BTreeSet<String>,
    variables: BTreeMap<String, String>,
}

impl Conf {
    /// Creates a configuration in which every key has its default.
    pub fn new() -> Conf {
        Conf::default()
    }

    /// Adds the properties of a file in the form of `hbase-site.xml`. Errors and the table refer to it by `name`. A
    /// later file overrides an earlier one, except for properties that the earlier one marked `<final>`.
    pub fn with_file(mut self, name: &str, xml: &str) -> Result<Conf> {
        let properties = site::read(name, xml)?;
        let fixed_before = self.fixed.clone();
        for property in properties {
            if fixed_before.contains(&property.name) {
                continue;
            }
            if property.is_final {
                self.fixed.insert(property.name.clone());
            }
            let origin = Origin::File(name.to_owned());
            self.settings.insert(property.name, Setting { text: property.value, origin });
        }
        Ok(self)
    }

    /// Sets the key of a `-D` option. Fails if the option does not have the form `name=value`.
    pub fn with_definition(mut self, definition: &str) -> Result<Conf> {
        let (name, value) = definition
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| Error::Definition { found: definition.to_owned() })?;
        let text = value.trim().to_owned();
        self.settings.insert(name.trim().to_owned(), Setting { text, origin: Origin::CommandLine });
        Ok(self)
    }

    /// Sets a key from within the program. The value overrides everything that was set before.
    #[must_use]
    pub fn with<K: Kind>(mut self, key: &Key<K>, text: impl Into<String>) -> Conf {
        self.settings.insert(key.name().to_owned(), Setting { text: text.into(), origin: Origin::Program });
        self
    }

    /// Gives a key another default, unless it is set. The table shows `reason`, such as "default of roots in HDFS", in
    /// place of where the value was set.
    #[must_use]
    pub fn with_default<K: Kind>(
        mut self,
        key: &Key<K>,
        text: impl Into<String>,
        reason: &'static str,
    ) -> Conf {
        let setting = Setting { text: text.into(), origin: Origin::OtherDefault(reason) };
        self.settings.entry(key.name().to_owned()).or_insert(setting);
        self
    }

    /// Adds a variable, such as `user.name` or `env.HOME`, to which `${name}` may refer although it is no key.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, text: impl Into<String>) -> Conf {
        self.variables.insert(name.into(), text.into());
        self
    }

    /// Returns the value of a key, or its default if it is not set. Fails if the text does not have the key's type, or
    /// if it refers to too many variables.
    pub fn value<K: Kind>(&self, key: &Key<K>) -> Result<K::Value> {
        let (text, origin) = self.find(key.name(), key.default_text());
        self.parse::<K>(key.name(), text, &origin)
    }

    /// Returns the value of a key; `None` if it is not set. Fails as [`value`](Conf::value) does. For keys whose
    /// default follows from another key.
    pub fn value_if_set<K: Kind>(&self, key: &Key<K>) -> Result<Option<K::Value>> {
        match self.settings.get(key.name()) {
            Some(setting) => self.parse::<K>(key.name(), &setting.text, &setting.origin).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the value of any name as text, with variables replaced; `None` if the name is neither set nor declared.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let declared = keys::all().find(|key| key.name() == name);
        match (self.settings.get(name), declared) {
            (Some(setting), _) => expand::expand(self, name, &setting.text).map(Some),
            (None, Some(key)) => expand::expand(self, name, key.default_text()).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Parses every declared key, so that a wrong value is an error at start and not when it is first used.
    pub fn check(&self) -> Result<()> {
        keys::all().try_for_each(|key| key.check(self))
    }

    /// Returns the names that are set but not declared: HBase's keys that have no meaning here, and misspelt names.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.settings.keys().map(String::as_str).filter(|name| keys::all().all(|key| key.name() != *name))
    }

    /// Returns every declared key with its value, default, origin and meaning, for printing.
    pub fn table(&self) -> Table<'_> {
        Table::new(self)
    }

    fn find<'a>(&'a self, name: &str, default: &'a str) -> (&'a str, Origin) {
        match self.settings.get(name) {
            Some(setting) => (&setting.text, setting.origin.clone()),
            None => (default, Origin::Default),
        }
    }

    fn parse<K: Kind>(&self, name: &str, text: &str, origin: &Origin) -> Result<K::Value> {
        let text = expand::expand(self, name, text)?;
        K::parse(text.trim()).map_err(|expected| Error::Value {
            name: name.to_owned(),
            found: text.trim().to_owned(),
            origin: origin.to_string(),
            expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SITE: &str = "<configuration>
        <property><name>hbase.client.scanner.timeout.period</name><value>30000</value></property>
        <property><name>hbase.rootdir</name><value>${base}/hbase</value><final>true</final></property>
        <property><name>base</name><value>${user.home}/data</value></property>
    </configuration>";

    #[test]
    fn a_definition_goes_before_the_file_and_the_file_before_the_default() {
        let key = &keys::regionserver::SCANNER_TIMEOUT;
        assert_eq!(Conf::new().value(key).expect("default"), Duration::from_secs(60));
        let conf = Conf::new().with_file("hbase-site.xml", SITE).expect("good file");
        assert_eq!(conf.value(key).expect("file"), Duration::from_secs(30));
        let conf = conf.with_definition("hbase.client.scanner.timeout.period=10s").expect("good definition");
        assert_eq!(conf.value(key).expect("definition"), Duration::from_secs(10));
        let conf = conf.with(key, "5000");
        assert_eq!(conf.value(key).expect("program"), Duration::from_secs(5));
    }

    #[test]
    fn another_default_counts_unless_the_key_is_set_and_shows_its_reason() {
        let key = &keys::regionserver::SCANNER_TIMEOUT;
        let with_other = |conf: Conf| conf.with_default(key, "7000", "default of Sundays");
        let conf = with_other(Conf::new());
        assert_eq!(conf.value(key).expect("other default"), Duration::from_secs(7));
        let row = conf.table().rows().into_iter().find(|row| row.name == key.name()).expect("declared");
        assert_eq!((row.origin.to_string().as_str(), row.default), ("default of Sundays", "60000"));
        let conf = with_other(Conf::new().with_file("hbase-site.xml", SITE).expect("good file"));
        assert_eq!(conf.value(key).expect("file"), Duration::from_secs(30));
    }

    #[test]
    fn variables_are_replaced_and_final_holds_against_later_files_only() {
        let other =
            "<configuration><property><name>hbase.rootdir</name><value>/x</value></property></configuration>";
        let conf = Conf::new()
            .with_variable("user.home", "/home/u")
            .with_file("one.xml", SITE)
            .and_then(|conf| conf.with_file("two.xml", other))
            .expect("good files");
        assert_eq!(conf.value(&keys::cluster::ROOT_DIR).expect("text"), "/home/u/data/hbase");
        let conf = conf.with_definition("hbase.rootdir=/y").expect("good definition");
        assert_eq!(conf.value(&keys::cluster::ROOT_DIR).expect("text"), "/y");
        assert_eq!(conf.unknown().collect::<Vec<_>>(), ["base"]);
        assert_eq!(conf.text("base").expect("expands").as_deref(), Some("/home/u/data"));
        assert_eq!(conf.text("no.such.key").expect("absent"), None);
    }

    #[test]
    fn the_error_for_a_wrong_value_names_key_text_origin_and_expectation() {
        let conf =
            Conf::new().with_definition("hbase.client.scanner.timeout.period=soon").expect("a definition");
        let error = conf.check().expect_err("soon is not a time").to_string();
        assert_eq!(
            error,
            "hbase.client.scanner.timeout.period is \"soon\" (-D), expected a time in ms, or with one of the units ns \
             us ms s m h d"
        );
        assert!(Conf::new().with_definition("no equals sign").is_err());
        assert!(Conf::new().with_definition("=x").is_err());
    }

    #[test]
    fn every_default_is_a_value_and_no_key_is_declared_twice() {
        Conf::new().check().expect("defaults parse");
        let mut seen = BTreeSet::new();
        for key in keys::all() {
            assert!(seen.insert(key.name()), "{} is declared twice", key.name());
            assert!(!key.meaning().is_empty(), "{} has no meaning", key.name());
        }
        assert!(seen.len() > 40);
    }
}
