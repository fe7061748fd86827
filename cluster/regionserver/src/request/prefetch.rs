//! Finds the row that a request will read, without decoding the request.

use proto::pb::region_specifier::RegionSpecifierType;
use proto::wire::{Fields, Value};

/// Returns the kind of name and the name in an encoded `RegionSpecifier`; `None` unless its fields are in the usual
/// order.
pub(crate) fn region_named(specifier: &[u8]) -> Option<(RegionSpecifierType, &[u8])> {
    let mut fields = Fields::of(specifier);
    let Some((1, _, Value::Number(by))) = fields.next().ok()? else { return None };
    let Some((2, _, Value::Bytes(name))) = fields.next().ok()? else { return None };
    Some((RegionSpecifierType::try_from(i32::try_from(by).ok()?).ok()?, &specifier[name]))
}

/// Returns the encoded `RegionSpecifier` and the row of a request that reads a row: a Get, or a mutation that reads
/// before it writes. `None` for other requests and for messages that are not understood.
pub(crate) fn row_that_is_read<'a>(method: &[u8], param: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (mut region, mut what, mut reads) = (None, None, method == b"Get");
    if !reads && method != b"Mutate" {
        return None;
    }
    let mut fields = Fields::of(param);
    while let Some(field) = fields.next().ok()? {
        match field {
            (1, _, Value::Bytes(range)) => region = Some(&param[range]),
            (2, _, Value::Bytes(range)) => what = Some(&param[range]),
            // Field 3 of the request is a condition, for which the row is read.
            (3, _, Value::Bytes(_)) => reads = true,
            _ => {}
        }
    }
    let (region, what) = (region?, what?);
    let mut fields = Fields::of(what);
    let Some((1, _, Value::Bytes(row))) = fields.next().ok()? else { return None };
    if !reads {
        // Only an append or an increment (types 0 and 1) reads the row.
        let Some((2, _, Value::Number(0 | 1))) = fields.next().ok()? else { return None };
    }
    Some((region, &what[row]))
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto::pb;
    use proto::pb::mutation_proto::MutationType;

    use super::*;

    fn region() -> pb::RegionSpecifier {
        pb::RegionSpecifier { r#type: 1, value: "t,,1.abc.".into() }
    }

    #[test]
    fn regions_are_found_by_both_kinds_of_name() {
        for by in [RegionSpecifierType::RegionName, RegionSpecifierType::EncodedRegionName] {
            let specifier = pb::RegionSpecifier { r#type: by as i32, ..region() }.encode_to_vec();
            assert_eq!(region_named(&specifier), Some((by, &b"t,,1.abc."[..])));
            assert!((0..specifier.len()).all(|end| region_named(&specifier[..end]).is_none()));
        }
        let unknown = pb::RegionSpecifier { r#type: 9, ..region() }.encode_to_vec();
        assert_eq!(region_named(&unknown), None);
    }

    fn reads(method: &str, param: &impl Message) -> bool {
        let param = param.encode_to_vec();
        let Some(found) = row_that_is_read(method.as_bytes(), &param) else { return false };
        assert_eq!(found, (&region().encode_to_vec()[..], &b"row"[..]));
        true
    }

    fn mutate(kind: MutationType, is_conditional: bool) -> pb::MutateRequest {
        let mutation = pb::MutationProto {
            row: Some("row".into()),
            mutate_type: Some(kind as i32),
            ..Default::default()
        };
        let condition = is_conditional.then(|| pb::Condition { row: "row".into(), ..Default::default() });
        pb::MutateRequest { region: region(), mutation, condition, nonce_group: Some(5) }
    }

    #[test]
    fn gets_and_read_modify_writes_read_a_row() {
        let get =
            pb::GetRequest { region: region(), get: pb::Get { row: "row".into(), ..Default::default() } };
        assert!(reads("Get", &get) && !reads("Scan", &get));
        for kind in [MutationType::Append, MutationType::Increment, MutationType::Put, MutationType::Delete] {
            let looks = matches!(kind, MutationType::Append | MutationType::Increment);
            assert_eq!(reads("Mutate", &mutate(kind, false)), looks, "{kind:?}");
            assert!(reads("Mutate", &mutate(kind, true)), "{kind:?}");
        }
    }

    #[test]
    fn damaged_messages_cause_no_panic() {
        let whole = mutate(MutationType::Increment, true).encode_to_vec();
        for end in 0..whole.len() {
            let _any = row_that_is_read(b"Mutate", &whole[..end]);
            for byte in 0..=255 {
                let mut damaged = whole.clone();
                damaged[end] = byte;
                let _any = row_that_is_read(b"Mutate", &damaged);
            }
        }
    }
}
