//! Why can several devices not work together?

/// What goes wrong between devices.
#[derive(Debug, thiserror::Error)]
pub enum ParallelError {
    #[error(
        "NCCL, which adds up gradients between GPUs, cannot be used: {reason}\n\
         help: put `libnccl.so` of NCCL 2 on the library path, or add up through host memory with `--exchange host`"
    )]
    NoNccl { reason: String },
    #[error("device {device} is named twice\nhelp: name each GPU once")]
    Twice { device: usize },
    #[error(
        "replica {replica} of {replicas} stopped: {reason}\nhelp: go on from the last state that was kept, on fewer devices if memory was short"
    )]
    Stopped { replica: usize, replicas: usize, reason: String },
    #[error(
        "replica {replica} of {replicas} changed its weights by {found} and the first by {expected}, so they are no copies any more\n\
         help: go on from the last state that was kept; if it comes again, add up through host memory with `--exchange host`"
    )]
    Apart { replica: usize, replicas: usize, expected: f64, found: f64 },
}
