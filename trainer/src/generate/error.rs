//! Why was there no reply?

/// Why a sequence could not be opened or a reply not be sampled. None of these is the
/// policy's doing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// More sequences than the cache has slots.
    #[error(
        "generate: {open} sequences are open and the generator has {slots} slots\n\
             help: close sequences that are done, or give the generator more slots"
    )]
    SlotsInUse { open: usize, slots: usize },
    /// The sequence would be longer than a slot.
    #[error(
        "generate: the sequence has {used} tokens and a context holds {limit}\n\
             help: send shorter messages, end the episode, or give the generator a longer context"
    )]
    ContextFull { used: usize, limit: usize },
    /// A token that the policy does not know.
    #[error(
        "generate: token {id} is not in the vocabulary of {vocabulary}\n\
             help: tokenise with the tokenizer of this policy"
    )]
    UnknownToken { id: u32, vocabulary: usize },
    /// A request that asks for nothing.
    #[error(
        "generate: {reason}\nhelp: append at least one token before the first reply and ask for at least one"
    )]
    EmptyRequest { reason: &'static str },
    /// A setting from which no token can be drawn.
    #[error("generate: `{name}` is {value}, wanted {wanted}\nhelp: change it in the request")]
    BadSampling { name: &'static str, value: String, wanted: &'static str },
    /// [`Cancel`](super::Cancel) ended the request; the sequence is as it was before.
    #[error("generate: the request was cancelled\nhelp: ask again; the sequence is as it was before")]
    Cancelled,
    /// A second request for a sequence whose first is running.
    #[error(
        "generate: the sequence is already sampling\nhelp: wait for its reply before asking for the next"
    )]
    Busy,
    /// The computation failed; the sequence is as it was before the request.
    #[error(
        "generate: the policy could not be computed: {reason}\n\
             help: when the device is out of memory, use fewer slots or a shorter context"
    )]
    Failed { reason: String },
    /// The worker thread is gone.
    #[error(
        "generate: the generator has stopped\nhelp: the first error in the log says why; start the run again"
    )]
    Stopped,
}
