//! Bulk load: not supported.
//!
//! The response is the one for an unknown feature, so that the loading tool stops at once with a reason.

use rpc::{Answer, Call, Exception};

/// Refuses the call.
pub(super) fn answer(call: &Call) -> Answer {
    Exception::unknown_method("ClientService", &call.method).into()
}
