//! An allocator and a panic handler, which a program without the standard library must provide.

use core::panic::PanicInfo;

use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// The component has no code that panics. So this doesn't print anything, which would need much code.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
