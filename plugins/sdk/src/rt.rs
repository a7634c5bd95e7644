//! What the generated bindings need at run time: memory for values that cross
//! the boundary, and the start of the language's own runtime.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// A block of memory that is freed when dropped, unless it went to the host.
pub struct Cleanup {
    block: *mut u8,
    layout: Layout,
}

impl Cleanup {
    /// A block of `layout` and its owner; null and none when the size is 0.
    pub fn new(layout: Layout) -> (*mut u8, Option<Self>) {
        if layout.size() == 0 {
            return (std::ptr::null_mut(), None);
        }
        // SAFETY: the size is not 0.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        (block, Some(Self { block, layout }))
    }

    /// Leaves the block to whoever has its address.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // SAFETY: `block` came from `alloc` with this layout and has one owner.
        unsafe { dealloc(self.block, self.layout) }
    }
}

/// Runs the static constructors before the first export runs. Naming
/// `__wasm_call_ctors` also keeps the linker from running them at each call.
#[cfg(target_arch = "wasm32")]
pub fn run_ctors_once() {
    use std::sync::atomic::{AtomicBool, Ordering};

    unsafe extern "C" {
        fn __wasm_call_ctors();
    }
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        // SAFETY: made by the linker; called once.
        unsafe { __wasm_call_ctors() }
    }
}

/// How the host gets memory in the guest (canonical ABI, `cabi_realloc`).
///
/// # Safety
/// `old` is null with `old_size` 0, or came from here with that size and `align`.
#[cfg(target_arch = "wasm32")]
#[unsafe(export_name = "cabi_realloc")]
pub unsafe extern "C" fn cabi_realloc(
    old: *mut u8,
    old_size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    if new_size == 0 {
        return align as *mut u8;
    }
    // SAFETY: the canonical ABI passes a power of two as `align`, and `old` as promised above.
    let block = unsafe {
        if old_size == 0 {
            alloc(Layout::from_size_align_unchecked(new_size, align))
        } else {
            std::alloc::realloc(old, Layout::from_size_align_unchecked(old_size, align), new_size)
        }
    };
    if block.is_null() {
        std::process::abort();
    }
    block
}
