//! Resource limits of the reader of flow files.

/// Limits on the resources that reading a flow file may take.
///
/// The defaults are far higher than any flow needs. They prevent a broken or hostile file from using up the memory of
/// the process: because of aliases, a YAML file of a few hundred bytes can describe gigabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the file, in bytes.
    pub max_file_bytes: u64,
    /// Maximum size of the parsed tree, in bytes, after every alias and every reference was replaced by its value. The
    /// size is the total length of all texts plus [`Limits::NODE_BYTES`] for every node.
    pub max_expanded_bytes: usize,
    /// Maximum depth of nested lists and maps.
    pub max_depth: usize,
}

impl Limits {
    /// Number of bytes that each node adds to the size that [`Limits::max_expanded_bytes`] limits, in addition to its
    /// text.
    pub const NODE_BYTES: usize = 32;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_file_bytes: 1 << 20, max_expanded_bytes: 32 << 20, max_depth: 64 }
    }
}
