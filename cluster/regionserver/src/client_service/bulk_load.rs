//! Bulk load: HFiles made elsewhere are not taken in here.
//!
//! The answer is that of a server to a feature it does not have, so that the loading tool ends at once and says why.

use rpc::{Answer, Call, Exception};

/// Refuses the call.
pub(super) fn answer(call: &Call) -> Answer {
    Exception::unknown_method("ClientService", &call.method).into()
}
