//! Translates `Comparator` messages and compare operators.

use bytes::Bytes;
use filter::{BitOperator, Charset, Comparable, CompareOperator, Pattern};
use javaregex::flag;
use prost::Message;
use proto::pb;
use rpc::Exception;

/// The Java package of HBase's filters and comparators.
pub(super) const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";

/// Returns the operator with this number.
pub(super) fn operator(code: i32) -> Result<CompareOperator, Exception> {
    Ok(match pb::CompareType::try_from(code) {
        Ok(pb::CompareType::Less) => CompareOperator::Less,
        Ok(pb::CompareType::LessOrEqual) => CompareOperator::LessOrEqual,
        Ok(pb::CompareType::Equal) => CompareOperator::Equal,
        Ok(pb::CompareType::NotEqual) => CompareOperator::NotEqual,
        Ok(pb::CompareType::GreaterOrEqual) => CompareOperator::GreaterOrEqual,
        Ok(pb::CompareType::Greater) => CompareOperator::Greater,
        Ok(pb::CompareType::NoOp) => CompareOperator::NoOp,
        Err(_) => return Err(Exception::do_not_retry(format!("Unknown compare operator: {code}"))),
    })
}

/// Returns the comparator for a message, by the name of its Java class.
pub(super) fn comparable(comparator: &pb::Comparator) -> Result<Comparable, Exception> {
    let bytes = comparator.serialized_comparator.clone().unwrap_or_default();
    let name = comparator.name.as_str();
    let value = |comparable: pb::ByteArrayComparable| comparable.value.unwrap_or_default();
    Ok(match name.strip_prefix(PACKAGE).unwrap_or_default() {
        "BinaryComparator" => {
            Comparable::Binary(value(read::<pb::BinaryComparator>(name, bytes)?.comparable))
        }
        "BinaryPrefixComparator" => {
            Comparable::BinaryPrefix(value(read::<pb::BinaryPrefixComparator>(name, bytes)?.comparable))
        }
        "BinaryComponentComparator" => {
            let read: pb::BinaryComponentComparator = read(name, bytes)?;
            Comparable::BinaryComponent { value: read.value, offset: read.offset as usize }
        }
        "LongComparator" => {
            let value = value(read::<pb::LongComparator>(name, bytes)?.comparable);
            let length = value.len();
            let number = value[..].try_into().map_err(|_| {
                Exception::do_not_retry(format!("{name} compares with {length} bytes, expected 8"))
            })?;
            Comparable::Long(i64::from_be_bytes(number))
        }
        "BigDecimalComparator" => {
            Comparable::BigDecimal(value(read::<pb::BigDecimalComparator>(name, bytes)?.comparable))
        }
        "NullComparator" => Comparable::Null,
        "BitComparator" => {
            let read: pb::BitComparator = read(name, bytes)?;
            let operator = match read.bitwise_op() {
                pb::bit_comparator::BitwiseOp::And => BitOperator::And,
                pb::bit_comparator::BitwiseOp::Or => BitOperator::Or,
                pb::bit_comparator::BitwiseOp::Xor => BitOperator::Xor,
            };
            Comparable::Bit { value: value(read.comparable), operator }
        }
        "RegexStringComparator" => {
            let read: pb::RegexStringComparator = read(name, bytes)?;
            let charset = charset(&read.charset)?;
            let pattern =
                Pattern::in_charset(&read.pattern, read.pattern_flags, charset).map_err(|error| {
                    Exception::do_not_retry(match error {
                        filter::Error::Pattern { reason, .. } if read.pattern_flags & !flag::ALL != 0 => {
                            format!("java.lang.IllegalArgumentException: {reason}")
                        }
                        filter::Error::Pattern { pattern, reason } => {
                            format!("java.util.regex.PatternSyntaxException: {reason}\n{pattern}")
                        }
                        other => other.to_string(),
                    })
                })?;
            Comparable::Regex(pattern)
        }
        "SubstringComparator" => Comparable::substring(&read::<pb::SubstringComparator>(name, bytes)?.substr),
        _ => return Err(unknown(name)),
    })
}

/// Returns the charset with this Java name. As in HBase, a syntactically invalid name means the default.
fn charset(name: &str) -> Result<Charset, Exception> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-+:_.".contains(&byte);
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !name.bytes().all(legal) {
        return Ok(Charset::default());
    }
    Charset::by_name(name).ok_or_else(|| {
        Exception::do_not_retry(format!("java.nio.charset.UnsupportedCharsetException: {name}"))
    })
}

/// Returns the bytes of a comparator. In a condition only its bytes count: whatever its class, HBase compares them with
/// the value.
pub(super) fn value_of(comparator: &pb::Comparator) -> Result<Bytes, Exception> {
    Ok(match comparable(comparator)? {
        Comparable::Binary(value)
        | Comparable::BinaryPrefix(value)
        | Comparable::BinaryComponent { value, .. }
        | Comparable::BigDecimal(value)
        | Comparable::Bit { value, .. } => value,
        Comparable::Long(number) => Bytes::copy_from_slice(&number.to_be_bytes()),
        Comparable::Null | Comparable::Missing => Bytes::new(),
        Comparable::Regex(pattern) => Bytes::copy_from_slice(pattern.text().as_bytes()),
        Comparable::Substring(text) => text.into(),
    })
}

/// Decodes the message of the class `name`. Errors contain the name.
pub(super) fn read<M: Message + Default>(name: &str, bytes: Bytes) -> Result<M, Exception> {
    M::decode(bytes).map_err(|error| Exception::do_not_retry(format!("unable to read {name}: {error}")))
}

/// Returns the error for an unknown class; classes of users cannot be loaded.
pub(super) fn unknown(name: &str) -> Exception {
    Exception::do_not_retry(format!("java.lang.ClassNotFoundException: {name}"))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    fn of(class: &str, message: &impl Message) -> Result<Comparable, Exception> {
        let serialized_comparator = Some(message.encode_to_vec().into());
        comparable(&pb::Comparator { name: format!("{PACKAGE}{class}"), serialized_comparator })
    }

    fn bytes(value: &[u8]) -> pb::ByteArrayComparable {
        pb::ByteArrayComparable { value: Some(Bytes::copy_from_slice(value)) }
    }

    #[test]
    fn every_comparator_is_known_by_its_class() {
        let compares = |comparable: Result<Comparable, Exception>, part: &[u8]| {
            comparable.expect("a comparator").compare(part).expect("a comparison")
        };
        let binary = pb::BinaryComparator { comparable: bytes(b"b") };
        assert_eq!(compares(of("BinaryComparator", &binary), b"a"), Ordering::Greater);
        let prefix = pb::BinaryPrefixComparator { comparable: bytes(b"ab") };
        assert_eq!(compares(of("BinaryPrefixComparator", &prefix), b"abc"), Ordering::Equal);
        let component = pb::BinaryComponentComparator { value: "b".into(), offset: 1 };
        assert_eq!(compares(of("BinaryComponentComparator", &component), b"abc"), Ordering::Equal);
        let long = pb::LongComparator { comparable: bytes(&7i64.to_be_bytes()) };
        assert_eq!(compares(of("LongComparator", &long), &(-7i64).to_be_bytes()), Ordering::Greater);
        let decimal = pb::BigDecimalComparator { comparable: bytes(&[0, 0, 0, 1, 25]) };
        assert_eq!(compares(of("BigDecimalComparator", &decimal), &[0, 0, 0, 2, 0, 250]), Ordering::Equal);
        assert_eq!(compares(of("NullComparator", &pb::NullComparator {}), b"x"), Ordering::Greater);
        let bit = pb::BitComparator {
            comparable: bytes(&[0b10]),
            bitwise_op: pb::bit_comparator::BitwiseOp::And as i32,
        };
        assert_eq!(compares(of("BitComparator", &bit), &[0b11]), Ordering::Equal);
        let regex = |pattern: &str, charset: &str| pb::RegexStringComparator {
            pattern: pattern.to_owned(),
            pattern_flags: 32,
            charset: charset.to_owned(),
            engine: Some("JAVA".to_owned()),
        };
        assert_eq!(compares(of("RegexStringComparator", &regex("^a.c$", "UTF-8")), b"a\nc"), Ordering::Equal);
        let binary = regex("^\u{ff}$", "ISO-8859-1");
        assert_eq!(compares(of("RegexStringComparator", &binary), &[255]), Ordering::Equal);
        assert!(of("RegexStringComparator", &regex("(", "UTF-8")).expect_err("no pattern").do_not_retry);
        assert!(of("RegexStringComparator", &regex("a", "none")).expect_err("no charset").do_not_retry);
        let substring = pb::SubstringComparator { substr: "BC".to_owned() };
        assert_eq!(compares(of("SubstringComparator", &substring), b"abcd"), Ordering::Equal);
    }

    #[test]
    fn in_a_condition_the_bytes_count_whatever_the_class() {
        let value = |class: &str, message: &dyn Fn() -> Vec<u8>| {
            let serialized_comparator = Some(message().into());
            value_of(&pb::Comparator { name: format!("{PACKAGE}{class}"), serialized_comparator })
                .expect("a value")
        };
        let prefix = || pb::BinaryPrefixComparator { comparable: bytes(b"ab") }.encode_to_vec();
        assert_eq!(value("BinaryPrefixComparator", &prefix), &b"ab"[..]);
        let long = || pb::LongComparator { comparable: bytes(&7i64.to_be_bytes()) }.encode_to_vec();
        assert_eq!(value("LongComparator", &long), &7i64.to_be_bytes()[..]);
        assert_eq!(value("NullComparator", &|| pb::NullComparator {}.encode_to_vec()), &b""[..]);
        let regex = pb::RegexStringComparator {
            pattern: "a.c".to_owned(),
            charset: "UTF-8".to_owned(),
            ..pb::RegexStringComparator::default()
        };
        assert_eq!(value("RegexStringComparator", &|| regex.encode_to_vec()), &b"a.c"[..]);
        let substring = || pb::SubstringComparator { substr: "bc".to_owned() }.encode_to_vec();
        assert_eq!(value("SubstringComparator", &substring), &b"bc"[..]);
    }

    #[test]
    fn joni_patterns_are_read_as_java_patterns() {
        let joni = |pattern: &str| pb::RegexStringComparator {
            pattern: pattern.to_owned(),
            charset: "UTF-8".to_owned(),
            engine: Some("JONI".to_owned()),
            ..pb::RegexStringComparator::default()
        };
        let possessive = of("RegexStringComparator", &joni("^a++b(?=c)")).expect("a pattern");
        assert_eq!(possessive.compare(b"aabc").expect("a comparison"), Ordering::Equal);
        assert_ne!(possessive.compare(b"aabd").expect("a comparison"), Ordering::Equal);
    }

    #[test]
    fn errors_name_unknown_classes() {
        let error = of("MyComparator", &pb::NullComparator {}).expect_err("not known");
        assert!(error.message.contains("org.apache.hadoop.hbase.filter.MyComparator") && error.do_not_retry);
        let short = pb::LongComparator { comparable: bytes(b"7") };
        assert!(of("LongComparator", &short).expect_err("too short").message.contains("1 bytes, expected 8"));
        assert!(operator(9).is_err());
        assert_eq!(operator(5).expect("the greatest"), CompareOperator::Greater);
    }
}
