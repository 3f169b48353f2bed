//! Writing of documents.

// The methods are always inlined, because a plugin without link-time optimisation would otherwise call a function for
// every field of every event.
#![allow(clippy::inline_always)]

use abi_stable::std_types::RVec;

use super::{
    Exact, MAX_DEPTH, Node, NodeKind, Shape, ValueRef, WriteError, fingerprint, is_json_number,
    resolve_duplicates, root_index,
};

/// Appends one value to the two buffers of a document.
///
/// Calls follow the structure of the value: begin an array or object, write its contents, and end it. In an object,
/// call [`Writer::key`] before each value. After an error, further calls have no effect, and [`Writer::finish`] returns
/// the error. Dropping a writer that was not finished removes everything that it has written. Writing allocates memory
/// only when the buffers grow.
///
/// ```
/// # use tremor_abi::document::{Document, Writer};
/// /// Writes `{"level": level}`.
/// fn write(level: &str, value: &mut Writer<'_>) {
///     value.begin_object();
///     value.key("level");
///     value.str(level);
///     value.end_object();
/// }
/// # let (mut bytes, mut nodes) = Default::default();
/// # let mut writer = Writer::new(&mut bytes, &mut nodes);
/// # write("warn", &mut writer);
/// # let root = writer.finish()?;
/// # let event = Document::new(&bytes, &nodes).root(root);
/// # assert_eq!(event.get("level").and_then(|level| level.as_str()), Some("warn"));
/// # Ok::<(), tremor_abi::document::WriteError>(())
/// ```
pub struct Writer<'b> {
    bytes: &'b mut RVec<u8>,
    nodes: &'b mut RVec<Node>,
    /// Lengths of the buffers at the start of this value.
    start: (usize, usize),
    /// Index of the first node of the innermost open container. Until the container is ended, the payload of that node
    /// is the index of the enclosing container.
    open: Option<usize>,
    in_object: bool,
    key_pending: bool,
    depth: usize,
    error: Option<WriteError>,
    finished: bool,
}

impl<'b> Writer<'b> {
    /// Begins a value at the end of the buffers.
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
            self.fail(WriteError::Misplaced("the value is incomplete"));
        }
        self.status()?;
        let root = root_index(self.start.1)?;
        self.finished = true;
        Ok(root)
    }

    /// Returns the number of nodes written so far.
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

    /// Writes a number in the representation that keeps its value.
    pub fn exact(&mut self, number: &Exact<'_>) {
        match number {
            Exact::I64(value) => self.i64(*value),
            Exact::U64(value) => self.u64(*value),
            Exact::F64(value) => self.f64(*value),
            Exact::Text(text) => self.number(text),
        }
    }

    /// Writes a number as text. Use [`Writer::exact`] unless you know that no 64-bit integer or float represents the
    /// number exactly. The text is written unchanged. A text that is not a JSON number is an error.
    pub fn number(&mut self, text: &str) {
        if !is_json_number(text.as_bytes()) {
            let message = format!("invalid number {text:?}: expected a JSON number");
            return self.fail(WriteError::Custom(message));
        }
        if let Some((offset, len)) = self.data(text.as_bytes()) {
            self.leaf(Node::number(offset, len));
        }
    }

    /// Converts the value that was written last to a number if it is a text that is a JSON number.
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

    /// Ends the array that was begun last.
    pub fn end_array(&mut self) {
        self.end(NodeKind::ARRAY);
    }

    /// Begins an object.
    pub fn begin_object(&mut self) {
        self.begin(Node::object);
    }

    /// Ends the object that was begun last. If a key occurred several times, its last value is kept.
    pub fn end_object(&mut self) {
        self.end(NodeKind::OBJECT);
    }

    /// Writes the key of the next value.
    #[inline(always)]
    pub fn key(&mut self, key: &str) {
        if !self.in_object || self.key_pending {
            return self.fail(WriteError::Misplaced("a key where no key is allowed"));
        }
        let Some((offset, len)) = self.data(key.as_bytes()) else { return };
        self.count();
        self.nodes.push(Node::key(offset, len, fingerprint(key.as_bytes())));
        self.key_pending = true;
    }

    /// Writes a copy of `value`.
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

    /// Copies the pairs of an earlier object of the same buffers into the open object. The text of the pairs is not
    /// copied. If `root` is not the index of an object, nothing is copied.
    pub(crate) fn copy_pairs(&mut self, root: u32) {
        let (root, before) = (root as usize, self.start.1);
        let Some(open) = self.open.filter(|_| self.in_object && !self.key_pending) else {
            return self.fail(WriteError::Misplaced("pairs where no key is allowed"));
        };
        let Some(from) = self.nodes.get(root).filter(|node| node.kind() == NodeKind::OBJECT) else {
            return;
        };
        let span = usize::try_from(from.span()).unwrap_or(usize::MAX);
        let end = root.saturating_add(span);
        let (head, Some(len)) = (self.nodes[open], self.nodes[open].len().checked_add(from.len()))
        else {
            return self.fail(WriteError::TooLarge);
        };
        if end > before || self.error.is_some() {
            return;
        }
        self.nodes.reserve(span);
        for at in root + 1..end {
            let node = self.nodes[at];
            self.nodes.push(node);
        }
        self.nodes[open] = Node::object(len, head.payload());
    }

    /// Returns the first error so far, if any.
    pub(super) fn status(&self) -> Result<(), WriteError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Records the first error.
    #[cold]
    fn fail(&mut self, error: WriteError) {
        self.error.get_or_insert(error);
    }

    /// Appends text or data and returns its offset and length, or `None` after an error.
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
        if self.admit() {
            self.nodes.push(node);
        }
    }

    /// Returns whether a value is allowed at this position. If so, adds it to the length of the open array.
    #[inline(always)]
    fn admit(&mut self) -> bool {
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
        let enclosing = head.payload();
        *head =
            if self.in_object { Node::object(len, enclosing) } else { Node::array(len, enclosing) };
    }

    fn begin(&mut self, head: fn(u32, u64) -> Node) {
        if self.depth == MAX_DEPTH {
            self.fail(WriteError::TooDeep);
        }
        if !self.admit() {
            return;
        }
        let enclosing = self.open.map_or(u64::MAX, |open| open as u64);
        let head = head(0, enclosing);
        self.open = Some(self.nodes.len());
        self.in_object = head.kind() == NodeKind::OBJECT;
        self.depth += 1;
        self.nodes.push(head);
    }

    fn end(&mut self, kind: NodeKind) {
        let open = self.open.and_then(|open| Some((open, *self.nodes.get(open)?)));
        let Some((open, head)) = open.filter(|(_, head)| head.kind() == kind && !self.key_pending)
        else {
            return self.fail(WriteError::Misplaced("an end where no such container is open"));
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
        self.open = usize::try_from(head.payload()).ok().filter(|enclosing| *enclosing < open);
        self.in_object =
            self.open.is_some_and(|enclosing| self.nodes[enclosing].kind() == NodeKind::OBJECT);
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
