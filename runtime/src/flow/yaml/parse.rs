//! Construction of the tree from the parser's events.

use std::{borrow::Cow, collections::HashMap, rc::Rc, sync::Arc};

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Range, Tag};

use super::{
    super::{
        diagnostic::Diagnostic,
        limits::Limits,
        reference::Environment,
        source::{Source, Span},
        suggest::quote,
    },
    node::{Data, Entry, Node},
    references::{Problem, References, Scalar, check_length},
    scalar::{self, Unusable},
    syntax,
};

/// Content of a YAML file.
pub(crate) struct Parsed {
    /// Root of the YAML document; `None` if the file is empty.
    pub(crate) root: Option<Node>,
    /// Errors of references in the document.
    pub(crate) problems: Vec<Problem>,
}

/// Parses a file that contains at most one YAML document.
///
/// If an environment is given, references in values are replaced by the values that the environment returns. Otherwise
/// references are plain text.
///
/// # Errors
/// Returns an error for the first part of the file that is not YAML, that uses YAML features which flow files do not
/// support (keys other than text, tags other than `!!str`, numbers that are not finite or exceed 64 bits), or that
/// exceeds a limit. Later parts are not checked, because their meaning is uncertain.
pub(crate) fn parse(
    source: &Arc<Source>,
    limits: &Limits,
    environment: Option<&Environment<'_>>,
) -> Result<Parsed, Diagnostic> {
    let mut builder = Builder {
        source,
        limits,
        references: environment.map(|it| References::new(source, limits, it)),
        open: Vec::new(),
        anchors: HashMap::new(),
        expanded: 0,
        root: None,
    };
    syntax::reject_control_characters(source)?;
    for event in Parser::new_from_str(source.text()) {
        let (event, range) =
            event.map_err(|error| syntax::explain(source, &error, builder.open_bracket()))?;
        builder.take(event, range)?;
    }
    let problems = builder.references.map(|references| references.problems).unwrap_or_default();
    Ok(Parsed { root: builder.root, problems })
}

/// A list or map whose end was not read yet.
struct Open {
    start: Range,
    anchor: usize,
    data: Data,
    /// Key that was read and whose value is read next.
    key: Option<(String, Span)>,
    size: Size,
}

/// Resources that a finished node uses.
#[derive(Clone, Copy)]
struct Size {
    /// Size in bytes, counted as described at [`Limits::max_expanded_bytes`].
    bytes: usize,
    /// Number of nested lists and maps, this node included.
    depth: usize,
}

struct Builder<'s> {
    source: &'s Arc<Source>,
    limits: &'s Limits,
    /// `None` if references are plain text.
    references: Option<References<'s>>,
    open: Vec<Open>,
    /// Nodes that aliases can refer to, by the number that the parser assigned to the anchor.
    anchors: HashMap<usize, (Rc<Node>, Size)>,
    expanded: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, range: Range) -> Result<(), Diagnostic> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(false)
            | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(true) if self.root.is_none() => Ok(()),
            Event::DocumentStart(true) => Err(self
                .error(
                    range,
                    "a second document starts here, but a flow file contains a single flow",
                )
                .help(
                    "put each flow into a file of its own, and pass all of them to `tremor run`",
                )),
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style, anchor, tag.as_deref(), range)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Data::List(Vec::new()), anchor, tag.as_deref(), range)
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(Data::Map(Vec::new()), anchor, tag.as_deref(), range)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(range),
            Event::Alias(anchor) => self.alias(anchor, range),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        range: Range,
    ) -> Result<(), Diagnostic> {
        let is_text = style != ScalarStyle::Plain || self.check_tag(tag, range)?;
        let is_key = self.awaits_key();
        let marks = usize::from(style != ScalarStyle::Plain);
        let as_written = range.start.line() == range.end.line()
            && range.len() == text.chars().count() + 2 * marks;
        let at = self.span(range);
        if !is_key
            && text.contains("${")
            && let Some(references) = &mut self.references
        {
            let node = references.resolve(&Scalar { text: &text, is_text, at, marks })?;
            let length = if let Data::Text(text) = &node.data { text.len() } else { 0 };
            let size = Size { bytes: Limits::NODE_BYTES + length, depth: 0 };
            return self.finish(node, anchor, size, range);
        }
        let size = Size { bytes: Limits::NODE_BYTES + text.len(), depth: 0 };
        let data = if is_key || is_text {
            if is_key && !is_text && text == "<<" {
                return Err(self
                    .error(range, "merge keys (`<<`) are not part of YAML 1.2")
                    .help("repeat the keys, or share a whole value with `&name` and `*name`"));
            }
            Data::Text(text.into_owned())
        } else {
            scalar::resolve(&text).map_err(|unusable| self.unusable(unusable, &text, range))?
        };
        let inline = as_written.then_some(marks);
        let node = Node { at, data, inline, references: None, variables: None, written: None };
        self.finish(node, anchor, size, range)
    }

    fn unusable(&self, unusable: Unusable, text: &str, range: Range) -> Diagnostic {
        let description = unusable.description();
        self.error(range, format!("{} is {description}", quote(text)))
            .help("put it in quotes if it is meant as a text")
    }

    /// Returns whether the tag makes the next value a text. Every tag except `!!str` and `!` is an error.
    fn check_tag(&self, tag: Option<&Tag>, range: Range) -> Result<bool, Diagnostic> {
        match tag {
            None => Ok(false),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(true),
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Ok(true),
            Some(_) => Err(self
                .error(range, "this value has a YAML tag, which flow files do not use")
                .help("remove the `!…` before the value, or quote a text that starts with `!`")),
        }
    }

    fn begin(
        &mut self,
        data: Data,
        anchor: usize,
        tag: Option<&Tag>,
        range: Range,
    ) -> Result<(), Diagnostic> {
        if self.awaits_key() {
            return Err(self
                .error(range, "expected a text as a key, found a list or a map")
                .help("quote a text that starts with `[` or `{`"));
        }
        self.check_tag(tag, range)?;
        self.check_depth(self.open.len() + 1, range)?;
        let size = Size { bytes: Limits::NODE_BYTES, depth: 1 };
        self.open.push(Open { start: range, anchor, data, key: None, size });
        Ok(())
    }

    fn end(&mut self, range: Range) -> Result<(), Diagnostic> {
        let Some(Open { start, anchor, data, size, .. }) = self.open.pop() else {
            return Err(self.error(range, "this closes a list or map that was never opened"));
        };
        let at = self.span(Range::new(start.start, range.end));
        self.finish(
            Node { at, data, inline: None, references: None, variables: None, written: None },
            anchor,
            size,
            start,
        )
    }

    fn alias(&mut self, anchor: usize, range: Range) -> Result<(), Diagnostic> {
        let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
            return Err(self
                .error(range, "this alias is part of the value that it refers to")
                .help("an alias can only refer to a value that ends above it"));
        };
        self.check_depth(self.open.len() + size.depth, range)?;
        // The size is counted before the node is copied, so that the limit is never exceeded.
        self.count(size.bytes, range)?;
        let node = Node::clone(&node);
        if self.awaits_key() && !matches!(node.data, Data::Text(_)) {
            return Err(
                self.error(range, "expected a text as a key, found an alias of another value")
            );
        }
        if self.awaits_key() && node.references.is_some() {
            return Err(self.error(range, "a key cannot be the value of a reference"));
        }
        self.attach(node, size, range)
    }

    /// Adds a complete node of the file.
    fn finish(
        &mut self,
        node: Node,
        anchor: usize,
        size: Size,
        range: Range,
    ) -> Result<(), Diagnostic> {
        if anchor != 0 {
            // This copy, from which aliases are created, takes memory as well.
            self.count(size.bytes, range)?;
            self.anchors.insert(anchor, (Rc::new(node.clone()), size));
        }
        let own = match node.data {
            Data::List(_) | Data::Map(_) => Limits::NODE_BYTES,
            _ => size.bytes,
        };
        self.count(own, range)?;
        self.attach(node, size, range)
    }

    /// Adds a node to the innermost open list or map, or makes it the root.
    fn attach(&mut self, node: Node, size: Size, range: Range) -> Result<(), Diagnostic> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.size.bytes = parent.size.bytes.saturating_add(size.bytes);
        parent.size.depth = parent.size.depth.max(size.depth + 1);
        match (&mut parent.data, parent.key.take()) {
            (Data::List(items), _) => items.push(node),
            (Data::Map(entries), Some((key, at))) => entries.push(Entry { key, at, value: node }),
            (_, _) => match node.data {
                Data::Text(key) if !key.is_empty() => {
                    let at = self.span(range);
                    if let Some(parent) = self.open.last_mut() {
                        parent.key = Some((key, at));
                    }
                }
                _ => return Err(self.error(range, "expected a key before `:`, found nothing")),
            },
        }
        Ok(())
    }

    /// Returns whether the next node is a key: whether the innermost open collection is a map, and no key waits for its
    /// value.
    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.key.is_none() && matches!(open.data, Data::Map(_)))
    }

    fn check_depth(&self, depth: usize, range: Range) -> Result<(), Diagnostic> {
        if depth <= self.limits.max_depth {
            return Ok(());
        }
        let message = format!("lists and maps nest deeper than {} levels", self.limits.max_depth);
        Err(self.error(range, message).help("reduce the depth of the value"))
    }

    fn count(&mut self, bytes: usize, range: Range) -> Result<(), Diagnostic> {
        self.expanded = self.expanded.saturating_add(bytes);
        check_length(self.expanded, self.limits, self.source, self.span(range))
    }

    fn span(&self, range: Range) -> Span {
        let (line, column) = (range.start.line(), range.start.col() + 1);
        let end = if range.end.line() == line {
            range.end.col() + 1
        } else {
            self.source.line(line).trim_end().chars().count() + 1
        };
        Span { line, column, width: end.saturating_sub(column) }
    }

    /// Returns the location of the innermost `[` or `{` that has not been closed.
    fn open_bracket(&self) -> Option<Span> {
        let is_bracket = |at: &Span| {
            let c = self.source.line(at.line).chars().nth(at.column - 1);
            matches!(c, Some('[' | '{'))
        };
        self.open.iter().rev().map(|open| self.span(open.start)).find(is_bracket)
    }

    fn error(&self, range: Range, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Arc::clone(self.source), self.span(range), message)
    }
}
