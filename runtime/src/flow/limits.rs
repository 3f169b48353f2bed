//! Bounds on what a flow file may cost to read.

/// Bounds on what a flow file may cost to read.
///
/// They are far above what flows need and keep a broken or hostile file from taking the process's
/// memory: YAML aliases let a file of a few hundred bytes describe gigabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Size of the file in bytes.
    pub max_file_bytes: u64,
    /// Size of the parsed tree once every alias is replaced by what it stands for: the bytes of
    /// all texts and [`Limits::NODE_BYTES`] for every node.
    pub max_expanded_bytes: usize,
    /// How deep lists and maps may nest.
    pub max_depth: usize,
}

impl Limits {
    /// What a node counts for in [`Limits::max_expanded_bytes`], besides its text.
    pub const NODE_BYTES: usize = 32;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_file_bytes: 1 << 20, max_expanded_bytes: 32 << 20, max_depth: 64 }
    }
}
