//! Declarations of keys, and the types of their values.

use std::marker::PhantomData;
use std::time::Duration;

use crate::{Conf, Result};

/// The type of a value: how its text is parsed, and its unit.
pub trait Kind: 'static {
    /// The type of the parsed value.
    type Value;
    /// The unit of a number that is written without one, as users see it.
    const UNIT: &'static str;
    /// Parses a value. The error says what would be accepted.
    fn parse(text: &str) -> std::result::Result<Self::Value, &'static str>;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $value:ty, $unit:literal, $parse:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $kind {}

            impl Kind for $kind {
                type Value = $value;
                const UNIT: &'static str = $unit;

                fn parse(text: &str) -> std::result::Result<$value, &'static str> {
                    $parse(text)
                }
            }
        )*
    };
}

kinds! {
    /// A duration; a bare number is in milliseconds.
    Millis: Duration, "ms", |text| {
        duration(text, 1_000_000).ok_or("a time in ms, or with one of the units ns us ms s m h d")
    };
    /// A duration; a bare number is in seconds.
    Seconds: Duration, "s", |text| {
        duration(text, 1_000_000_000).ok_or("a time in seconds, or with one of the units ns us ms s m h d")
    };
    /// A size; a bare number is in bytes, and `k m g t` are powers of 1024.
    Size: u64, "bytes", |text| size(text).ok_or("a size in bytes, or with one of the units k m g t");
    /// A count: a whole number, zero or more, decimal or, after `0x`, hexadecimal.
    Count: u64, "", |text| whole(text).ok_or("a whole number, zero or more");
    /// A number that may be negative, for keys to which HBase gives negative values a meaning.
    Number: i64, "", |text: &str| text.parse().map_err(|_| "a whole number");
    /// A fraction or a factor.
    Ratio: f64, "", |text: &str| {
        text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or("a number, zero or more")
    };
    /// A boolean.
    Flag: bool, "", |text: &str| match () {
        () if text.eq_ignore_ascii_case("true") => Ok(true),
        () if text.eq_ignore_ascii_case("false") => Ok(false),
        () => Err("true or false"),
    };
    /// The level of in-memory compaction.
    MemoryCompaction: String, "", |text: &str| {
        let name = text.to_ascii_uppercase();
        let known = ["NONE", "BASIC", "EAGER", "ADAPTIVE"].contains(&&name[..]);
        known.then_some(name).ok_or("NONE, BASIC, EAGER or ADAPTIVE")
    };
    /// The class of a split policy, with or without HBase's package.
    SplitPolicyName: String, "", |text: &str| {
        const KNOWN: [&str; 6] = [
            "SteppingSplitPolicy",
            "IncreasingToUpperBoundRegionSplitPolicy",
            "ConstantSizeRegionSplitPolicy",
            "KeyPrefixRegionSplitPolicy",
            "DelimitedKeyPrefixRegionSplitPolicy",
            "DisabledRegionSplitPolicy",
        ];
        let name = text.strip_prefix("org.apache.hadoop.hbase.regionserver.").unwrap_or(text);
        KNOWN.contains(&name).then(|| name.to_owned()).ok_or(
            "SteppingSplitPolicy, IncreasingToUpperBoundRegionSplitPolicy, ConstantSizeRegionSplitPolicy, \
             KeyPrefixRegionSplitPolicy, DelimitedKeyPrefixRegionSplitPolicy or DisabledRegionSplitPolicy",
        )
    };
    /// Which rows a split keeps together.
    SplitRestrictionKind: String, "", |text: &str| {
        const KNOWN: [&str; 3] = ["None", "KeyPrefix", "DelimitedKeyPrefix"];
        KNOWN.contains(&text).then(|| text.to_owned()).ok_or("None, KeyPrefix or DelimitedKeyPrefix")
    };
    /// The class of a compaction policy, with or without HBase's package.
    CompactionPolicyName: String, "", |text: &str| {
        const KNOWN: [&str; 4] = [
            "ExploringCompactionPolicy",
            "RatioBasedCompactionPolicy",
            "FIFOCompactionPolicy",
            "DateTieredCompactionPolicy",
        ];
        let name = text.strip_prefix("org.apache.hadoop.hbase.regionserver.compactions.").unwrap_or(text);
        KNOWN.contains(&name).then(|| name.to_owned()).ok_or(
            "ExploringCompactionPolicy, RatioBasedCompactionPolicy, FIFOCompactionPolicy or DateTieredCompactionPolicy",
        )
    };
    /// The class of a store engine, with or without HBase's package.
    StoreEngineName: String, "", |text: &str| {
        const KNOWN: [&str; 4] =
            ["DefaultStoreEngine", "DateTieredStoreEngine", "StripeStoreEngine", "PersistedStoreEngine"];
        let name = text.strip_prefix("org.apache.hadoop.hbase.regionserver.").unwrap_or(text);
        KNOWN
            .contains(&name)
            .then(|| name.to_owned())
            .ok_or("DefaultStoreEngine, DateTieredStoreEngine, StripeStoreEngine or PersistedStoreEngine")
    };
    /// The class of a throughput controller for compactions, with or without HBase's package.
    ThroughputControllerName: String, "", |text: &str| {
        const KNOWN: [&str; 2] =
            ["PressureAwareCompactionThroughputController", "NoLimitThroughputController"];
        let name = text.strip_prefix("org.apache.hadoop.hbase.regionserver.throttle.").unwrap_or(text);
        KNOWN
            .contains(&name)
            .then(|| name.to_owned())
            .ok_or("PressureAwareCompactionThroughputController or NoLimitThroughputController")
    };
    /// The class of a throughput controller for flushes, with or without HBase's package.
    FlushThroughputControllerName: String, "", |text: &str| {
        const KNOWN: [&str; 2] = ["PressureAwareFlushThroughputController", "NoLimitThroughputController"];
        let name = text.strip_prefix("org.apache.hadoop.hbase.regionserver.throttle.").unwrap_or(text);
        KNOWN
            .contains(&name)
            .then(|| name.to_owned())
            .ok_or("PressureAwareFlushThroughputController or NoLimitThroughputController")
    };
    /// A TCP port; 0 lets the system choose.
    Port: u16, "", |text: &str| text.parse().map_err(|_| "a port, 0 to 65535");
    /// Any text.
    Text: String, "", |text: &str| Ok(text.to_owned());
    /// Texts separated by commas; surrounding blanks are ignored.
    List: Vec<String>, "", |text: &str| {
        Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
}

fn whole(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..digits], text[digits..].trim())
}

fn duration(text: &str, nanos_of_bare: u64) -> Option<Duration> {
    let (number, unit) = split_unit(text);
    let nanos = match unit {
        "" => nanos_of_bare,
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    // People write Java's Long.MAX_VALUE in ms for "never": more nanoseconds than 64 bits hold.
    let nanos = u128::from(number.parse::<u64>().ok()?) * u128::from(nanos);
    Some(Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32))
}

fn size(text: &str) -> Option<u64> {
    if let Some(bytes) = whole(text) {
        return Some(bytes);
    }
    let (number, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A key of the configuration.
#[derive(Debug)]
pub struct Key<K: Kind> {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Key<K> {
    /// Declares a key with its name, its default as text, and its meaning. Used in [`keys`](crate::keys), which lists
    /// all keys.
    pub(crate) const fn new(name: &'static str, default: &'static str, meaning: &'static str) -> Key<K> {
        Key { name, default, meaning, kind: PhantomData }
    }

    /// Returns the key's name, as in `hbase-site.xml`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the key's default as text, before variables are replaced.
    pub const fn default_text(&self) -> &'static str {
        self.default
    }
}

/// A declared key, whatever the type of its value.
pub trait Declared: Sync {
    /// Returns the key's name, as in `hbase-site.xml`.
    fn name(&self) -> &'static str;
    /// Returns the key's default as text, before variables are replaced.
    fn default_text(&self) -> &'static str;
    /// Returns what the key does, in sentences.
    fn meaning(&self) -> &'static str;
    /// Returns the unit of a number that is written without one; empty if the key has no unit.
    fn unit(&self) -> &'static str;
    /// Checks that the value in `conf` has the key's type.
    fn check(&self, conf: &Conf) -> Result<()>;
}

impl<K: Kind> Declared for Key<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn default_text(&self) -> &'static str {
        self.default
    }

    fn meaning(&self) -> &'static str {
        self.meaning.trim()
    }

    fn unit(&self) -> &'static str {
        K::UNIT
    }

    fn check(&self, conf: &Conf) -> Result<()> {
        conf.value(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_take_units() {
        assert_eq!(Millis::parse("250"), Ok(Duration::from_millis(250)));
        assert_eq!(Millis::parse("2 m"), Ok(Duration::from_secs(120)));
        assert_eq!(Seconds::parse("7"), Ok(Duration::from_secs(7)));
        assert_eq!(Seconds::parse("7ms"), Ok(Duration::from_millis(7)));
        assert_eq!(Millis::parse("9223372036854775807"), Ok(Duration::from_millis(i64::MAX as u64)));
        assert!(
            Millis::parse("-1").is_err() && Millis::parse("").is_err() && Millis::parse("5 weeks").is_err()
        );
        assert_eq!(Size::parse("10485760"), Ok(10 << 20));
        assert_eq!(Size::parse("64m"), Ok(64 << 20));
        assert_eq!(Size::parse("2GB"), Ok(2 << 30));
        assert_eq!(Size::parse("0x10"), Ok(16));
        assert!(Size::parse("99999999999999999999").is_err() && Size::parse("20000000t").is_err());
    }

    #[test]
    fn the_engine_of_amazons_site_files_is_known() {
        let class =
            |name: &str| StoreEngineName::parse(&format!("org.apache.hadoop.hbase.regionserver.{name}"));
        assert_eq!(class("PersistedStoreEngine"), Ok("PersistedStoreEngine".to_owned()));
        assert!(class("SomeEngine").expect_err("unknown").contains("PersistedStoreEngine"));
    }

    #[test]
    fn the_plain_kinds_refuse_what_they_are_not() {
        assert_eq!(Flag::parse("TRUE"), Ok(true));
        assert!(Flag::parse("yes").is_err());
        assert_eq!(Port::parse("16020"), Ok(16020));
        assert!(Port::parse("70000").is_err());
        assert_eq!(Number::parse("-1"), Ok(-1));
        assert!(Count::parse("-1").is_err());
        assert_eq!(Ratio::parse("0.4"), Ok(0.4));
        assert!(Ratio::parse("NaN").is_err() && Ratio::parse("-0.1").is_err());
        assert_eq!(List::parse(" a, b ,,c").expect("list"), ["a", "b", "c"]);
    }
}
