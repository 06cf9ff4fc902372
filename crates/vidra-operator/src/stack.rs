//! Room for code that recurses with the nesting of a text.

/// Many times what the deepest manifest needs, even without optimisation.
const STACK: usize = 16 << 20;

/// Runs something on a thread of its own: how much stack a thread of the runtime has is not ours
/// to say.
pub(crate) fn on_large_stack<T: Send>(work: impl Fn() -> T + Send + Sync) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("decode".to_owned())
            .stack_size(STACK);
        match thread.spawn_scoped(scope, &work) {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread to be had: better here than not at all.
            Err(_) => work(),
        }
    })
}
