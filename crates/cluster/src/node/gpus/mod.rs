//! See the parent's reading order.

/// Which of the machine's GPUs pods may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuChoice {
    All,
    None,
    /// By index, as `nvidia-smi` numbers them.
    Some(Vec<u32>),
    /// Pretend that there are this many.
    Fake(u32),
}
