//! Making documents.

// A plugin that is not optimised as a whole would call these for every field of every event.
#![allow(clippy::inline_always)]

use abi_stable::std_types::RVec;

use super::{
    MAX_DEPTH, Node, NodeKind, Shape, ValueRef, WriteError, fingerprint, is_json_number,
    resolve_duplicates,
};

/// Appends one value to the two buffers of a document.
///
/// Calls follow the order of the value: a container is begun, filled and ended, and in an object
/// every value comes after its key. Errors are kept until [`Writer::finish`], and calls after one
/// do nothing. A value that is not finished leaves nothing in the buffers. While a container
/// is open, its head links to the one around it, so that writing allocates nothing but the buffers'
/// growth.
///
/// ```
/// use abi_stable::std_types::RVec;
/// use tremor_abi::document::{Document, Writer};
///
/// let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
/// let mut writer = Writer::new(&mut bytes, &mut nodes);
/// writer.begin_object();
/// writer.key("level");
/// writer.str("warn");
/// writer.end_object();
/// let root = writer.finish()?;
///
/// let event = Document::new(&bytes, &nodes).root(root);
/// assert_eq!(event.get("level").and_then(|level| level.as_str()), Some("warn"));
/// # Ok::<(), tremor_abi::document::WriteError>(())
/// ```
pub struct Writer<'b> {
    bytes: &'b mut RVec<u8>,
    nodes: &'b mut RVec<Node>,
    /// Where this value starts.
    start: (usize, usize),
    /// The head of the innermost open container. While it is open, its payload is this field's
    /// value from before.
    open: Option<usize>,
    in_object: bool,
    key_pending: bool,
    depth: usize,
    error: Option<WriteError>,
    finished: bool,
}

impl<'b> Writer<'b> {
    /// Begins a value after what the buffers hold.
    pub fn new(bytes: &'b mut RVec<u8>, nodes: &'b mut RVec<Node>) -> Self {
        let start = (bytes.len(), nodes.len());
        Self {
            bytes,
            nodes,
            start,
            open: None,
            in_object: false,
            key_pending: false,
            depth: 0,
            error: None,
            finished: false,
        }
    }

    /// Ends the value and returns the index of its root node.
    pub fn finish(mut self) -> Result<u32, WriteError> {
        if self.nodes.len() == self.start.1 || self.open.is_some() {
            self.fail(WriteError::Misplaced("it is incomplete"));
        }
        self.status()?;
        let root = u32::try_from(self.start.1).map_err(|_| WriteError::TooLarge)?;
        self.finished = true;
        Ok(root)
    }

    /// How many nodes have been written so far.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.nodes.len() - self.start.1
    }

    /// Writes `null`.
    #[inline(always)]
    pub fn null(&mut self) {
        self.leaf(Node::null());
    }

    /// Writes a truth value.
    #[inline(always)]
    pub fn bool(&mut self, value: bool) {
        self.leaf(Node::bool(value));
    }

    /// Writes a signed integer.
    #[inline(always)]
    pub fn i64(&mut self, value: i64) {
        self.leaf(Node::i64(value));
    }

    /// Writes an unsigned integer.
    #[inline(always)]
    pub fn u64(&mut self, value: u64) {
        self.leaf(Node::u64(value));
    }

    /// Writes a float.
    #[inline(always)]
    pub fn f64(&mut self, value: f64) {
        self.leaf(Node::f64(value));
    }

    /// Writes a number that is kept as text: one that no 64-bit integer and no float is equal to. The
    /// text stays unchanged. Text that is not a JSON number is an error.
    pub fn number(&mut self, text: &str) {
        if !is_json_number(text.as_bytes()) {
            let message = format!("invalid number {text:?}: expected a JSON number");
            return self.fail(WriteError::Custom(message));
        }
        if let Some((offset, len)) = self.data(text.as_bytes()) {
            self.leaf(Node::number(offset, len));
        }
    }

    /// Turns the text that was written last into a number. Any other value stays unchanged.
    pub(super) fn text_to_number(&mut self) {
        let Some(last) = self.nodes.last_mut().filter(|_| self.error.is_none()) else { return };
        let text = last.data().and_then(|range| self.bytes.get(range));
        if last.kind() == NodeKind::STRING && text.is_some_and(is_json_number) {
            *last = Node::number(last.payload(), last.len());
        }
    }

    /// Writes text.
    #[inline(always)]
    pub fn str(&mut self, text: &str) {
        if let Some((offset, len)) = self.data(text.as_bytes()) {
            self.leaf(Node::string(offset, len));
        }
    }

    /// Writes binary data.
    #[inline(always)]
    pub fn bytes(&mut self, data: &[u8]) {
        if let Some((offset, len)) = self.data(data) {
            self.leaf(Node::bytes(offset, len));
        }
    }

    /// Begins an array.
    pub fn begin_array(&mut self) {
        self.begin(Node::array);
    }

    /// Ends the array begun last.
    pub fn end_array(&mut self) {
        self.end(NodeKind::ARRAY);
    }

    /// Begins an object.
    pub fn begin_object(&mut self) {
        self.begin(Node::object);
    }

    /// Ends the object begun last. Where a key occurred twice, its last value stays.
    pub fn end_object(&mut self) {
        self.end(NodeKind::OBJECT);
    }

    /// Writes the key of the value that comes next.
    #[inline(always)]
    pub fn key(&mut self, key: &str) {
        if !self.in_object || self.key_pending {
            return self.fail(WriteError::Misplaced("a key where none can be"));
        }
        let Some((offset, len)) = self.data(key.as_bytes()) else { return };
        self.count();
        self.nodes.push(Node::key(offset, len, fingerprint(key.as_bytes())));
        self.key_pending = true;
    }

    /// Writes a value that lies elsewhere.
    pub fn write_value(&mut self, value: ValueRef<'_>) {
        match value.shape() {
            Shape::Null => self.null(),
            Shape::Bool(value) => self.bool(value),
            Shape::I64(value) => self.i64(value),
            Shape::U64(value) => self.u64(value),
            Shape::F64(value) => self.f64(value),
            Shape::Number(text) => self.number(text),
            Shape::String(text) => self.str(text),
            Shape::Bytes(data) => self.bytes(data),
            Shape::Array(array) => {
                self.begin_array();
                for element in array {
                    if self.error.is_some() {
                        return;
                    }
                    self.write_value(element);
                }
                self.end_array();
            }
            Shape::Object(object) => {
                self.begin_object();
                for (key, value) in object {
                    if self.error.is_some() {
                        return;
                    }
                    self.key(key);
                    self.write_value(value);
                }
                self.end_object();
            }
        }
    }

    /// The error so far.
    pub(super) fn status(&self) -> Result<(), WriteError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Keeps the first error.
    #[cold]
    fn fail(&mut self, error: WriteError) {
        self.error.get_or_insert(error);
    }

    /// Stores text or data; nothing after an error.
    #[inline(always)]
    fn data(&mut self, data: &[u8]) -> Option<(u64, u32)> {
        if self.error.is_some() {
            return None;
        }
        let Ok(len) = u32::try_from(data.len()) else {
            self.fail(WriteError::TooLarge);
            return None;
        };
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_copy_slice(data);
        Some((offset, len))
    }

    #[inline(always)]
    fn leaf(&mut self, node: Node) {
        if self.place() {
            self.nodes.push(node);
        }
    }

    /// Whether a value can stand here; counts it if so.
    #[inline(always)]
    fn place(&mut self) -> bool {
        if self.error.is_some() {
            return false;
        }
        if self.in_object {
            if !self.key_pending {
                self.fail(WriteError::Misplaced("a value without a key"));
                return false;
            }
            self.key_pending = false;
        } else if self.open.is_some() {
            self.count();
        } else if self.nodes.len() > self.start.1 {
            self.fail(WriteError::Misplaced("a second value"));
            return false;
        }
        self.error.is_none()
    }

    /// Adds one to the length of the open container.
    #[inline(always)]
    fn count(&mut self) {
        let Some(head) = self.open.and_then(|open| self.nodes.get_mut(open)) else { return };
        let Some(len) = head.len().checked_add(1) else { return self.fail(WriteError::TooLarge) };
        let around = head.payload();
        *head = if self.in_object { Node::object(len, around) } else { Node::array(len, around) };
    }

    fn begin(&mut self, head: fn(u32, u64) -> Node) {
        if self.depth == MAX_DEPTH {
            self.fail(WriteError::TooDeep);
        }
        if !self.place() {
            return;
        }
        let around = self.open.map_or(u64::MAX, |open| open as u64);
        let head = head(0, around);
        self.open = Some(self.nodes.len());
        self.in_object = head.kind() == NodeKind::OBJECT;
        self.depth += 1;
        self.nodes.push(head);
    }

    fn end(&mut self, kind: NodeKind) {
        let open = self.open.and_then(|open| Some((open, *self.nodes.get(open)?)));
        let Some((open, head)) = open.filter(|(_, head)| head.kind() == kind && !self.key_pending)
        else {
            return self.fail(WriteError::Misplaced("an end where none can be"));
        };
        if self.error.is_some() {
            return;
        }
        if kind == NodeKind::OBJECT {
            resolve_duplicates(self.bytes, self.nodes, open);
        } else {
            self.nodes[open] = Node::array(head.len(), (self.nodes.len() - open) as u64);
        }
        self.depth -= 1;
        self.open = usize::try_from(head.payload()).ok().filter(|around| *around < open);
        self.in_object =
            self.open.is_some_and(|around| self.nodes[around].kind() == NodeKind::OBJECT);
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.bytes.truncate(self.start.0);
            self.nodes.truncate(self.start.1);
        }
    }
}
