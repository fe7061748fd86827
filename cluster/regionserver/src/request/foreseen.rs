//! The row that a request will read, without decoding the request.

use super::fields::{Fields, Value};

/// The region and the row of a request that reads a row: a get, or a mutation that looks at what there is before it writes. The
/// region is as the message has it, a `RegionSpecifier`. What is not understood is none.
pub(crate) fn row_that_is_read<'a>(method: &[u8], param: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (mut region, mut what, mut reads) = (None, None, method == b"Get");
    if !reads && method != b"Mutate" {
        return None;
    }
    let mut fields = Fields { bytes: param, at: 0, end: param.len() };
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(range)) => region = Some(&param[range]),
            (2, Value::Bytes(range)) => what = Some(&param[range]),
            // A condition.
            (3, Value::Bytes(_)) => reads = true,
            _ => {}
        }
    }
    let (region, what) = (region?, what?);
    let mut fields = Fields { bytes: what, at: 0, end: what.len() };
    let Some((1, Value::Bytes(row))) = fields.next()? else { return None };
    if !reads {
        // The mutation's type: an append or an increment.
        let Some((2, Value::Number(0 | 1))) = fields.next()? else { return None };
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
    fn gets_and_what_looks_before_it_writes_read_a_row() {
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
    fn what_is_cut_or_damaged_is_none_or_something_inside() {
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
