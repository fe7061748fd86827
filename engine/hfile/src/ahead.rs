//! Asking for memory before it is looked at.
//!
//! Cells of a kilobyte lie further apart than the processor looks ahead by itself. A cursor that steps from one to the
//! next waits for each, unless the line has been asked for while the cells before it were judged and copied.

/// Asks for the line of memory in which `bytes[at]` lies. Nothing but time depends on it.
#[inline]
pub(crate) fn ask_for(bytes: &[u8], at: usize) {
    let Some(byte) = bytes.get(at) else { return };
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the instruction is reached by a function that takes a pointer")]
    // SAFETY: a prefetch reads nothing that a program could see and cannot fault; the pointer is that of a borrow.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
