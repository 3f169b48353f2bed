//! The operator `*`, which repeats a text, and positions of elements in paths.
//!
//! The crate does not limit either of them. Therefore a program is compiled from a syntax tree in which each `*` that may
//! repeat a text is a call of [`Multiply`].

use vrl::{
    compiler::{
        expression::{self, Expr},
        prelude::*,
    },
    parser::ast::{
        self, Assignment, AssignmentTarget, Container, Ident, Literal, Node, Opcode, QueryTarget,
    },
    path::{OwnedSegment, OwnedValuePath},
};

use super::mebibytes;
use crate::memory::remaining;

/// Name of the function to which `*` is compiled. Programs cannot call it, because it is not a name.
const FUNCTION: &str = "*";

/// A syntax tree that is changed.
#[derive(Default)]
pub(crate) struct Rewriter {
    /// `true` if the tree has a call of [`Multiply`].
    pub(crate) is_changed: bool,
    /// Position of an element that exceeds [`Self::MOST_POSITION`], if the program assigns one.
    pub(crate) position: Option<isize>,
}

impl Rewriter {
    /// Maximum position of an element in a path that a program assigns, because all elements before it are created.
    pub(crate) const MOST_POSITION: usize = 100_000;

    /// Maximum distance of such an element from the end of an array, because the time to compile the path grows with the
    /// square of the distance.
    pub(crate) const MOST_FROM_END: usize = 1_000;

    pub(crate) fn program(&mut self, program: ast::Program) -> ast::Program {
        let mut root = |root: ast::RootExpr| match root {
            ast::RootExpr::Expr(node) => ast::RootExpr::Expr(self.node(node)),
            error @ ast::RootExpr::Error(_) => error,
        };
        ast::Program(program.into_iter().map(|node| node.map(&mut root)).collect())
    }

    fn node(&mut self, node: Node<ast::Expr>) -> Node<ast::Expr> {
        node.map(|it| self.expression(it))
    }

    fn boxed(&mut self, node: Box<Node<ast::Expr>>) -> Box<Node<ast::Expr>> {
        Box::new(self.node(*node))
    }

    fn expression(&mut self, expression: ast::Expr) -> ast::Expr {
        use ast::Expr as E;
        match expression {
            E::Container(node) => E::Container(node.map(|it| self.container(it))),
            E::IfStatement(node) => E::IfStatement(node.map(|it| ast::IfStatement {
                predicate: it.predicate.map(|it| match it {
                    ast::Predicate::One(node) => ast::Predicate::One(self.boxed(node)),
                    ast::Predicate::Many(nodes) => ast::Predicate::Many(self.nodes(nodes)),
                }),
                if_node: self.block(it.if_node),
                else_node: it.else_node.map(|node| self.block(node)),
            })),
            E::Op(node) => {
                let (span, ast::Op(left, operator, right)) = node.take();
                let (left, right) = (self.boxed(left), self.boxed(right));
                if *operator.inner() == Opcode::Mul && !(is_number(&left) && is_number(&right)) {
                    self.is_changed = true;
                    E::FunctionCall(Node::new(span, multiply(operator.span(), *left, *right)))
                } else {
                    E::Op(Node::new(span, ast::Op(left, operator, right)))
                }
            }
            E::Assignment(node) => E::Assignment(node.map(|it| self.assignment(it))),
            E::Query(node) => E::Query(node.map(|it| ast::Query {
                target: it.target.map(|target| match target {
                    QueryTarget::FunctionCall(call) => QueryTarget::FunctionCall(self.call(call)),
                    QueryTarget::Container(it) => QueryTarget::Container(self.container(it)),
                    other => other,
                }),
                path: it.path,
            })),
            E::FunctionCall(node) => E::FunctionCall(node.map(|it| self.call(it))),
            E::Unary(node) => E::Unary(node.map(|ast::Unary::Not(not)| {
                ast::Unary::Not(not.map(|it| {
                    let (mark, node) = it.take();
                    ast::Not::new(mark.span(), self.node(*node))
                }))
            })),
            E::Abort(node) => E::Abort(
                node.map(|it| ast::Abort { message: it.message.map(|node| self.boxed(node)) }),
            ),
            E::Return(node) => E::Return(node.map(|it| ast::Return { expr: self.boxed(it.expr) })),
            other @ (E::Literal(_) | E::Variable(_) | E::Break(_)) => other,
        }
    }

    fn nodes(&mut self, nodes: impl IntoIterator<Item = Node<ast::Expr>>) -> Vec<Node<ast::Expr>> {
        nodes.into_iter().map(|node| self.node(node)).collect()
    }

    fn block(&mut self, node: Node<ast::Block>) -> Node<ast::Block> {
        node.map(|block| ast::Block(self.nodes(block)))
    }

    fn container(&mut self, container: Container) -> Container {
        match container {
            Container::Group(node) => Container::Group(Box::new(
                node.map(|group| ast::Group(self.node(group.into_inner()))),
            )),
            Container::Block(node) => Container::Block(self.block(node)),
            Container::Array(node) => {
                Container::Array(node.map(|array| self.nodes(array).into_iter().collect()))
            }
            Container::Object(node) => Container::Object(node.map(|object| {
                object.into_iter().map(|(key, value)| (key, self.node(value))).collect()
            })),
        }
    }

    fn call(&mut self, call: ast::FunctionCall) -> ast::FunctionCall {
        let mut argument =
            |it: ast::FunctionArgument| ast::FunctionArgument { expr: self.node(it.expr), ..it };
        let arguments = call.arguments.into_iter().map(|node| node.map(&mut argument)).collect();
        let closure = call
            .closure
            .map(|node| node.map(|it| ast::FunctionClosure { block: self.block(it.block), ..it }));
        ast::FunctionCall { arguments, closure, ..call }
    }

    fn assignment(&mut self, assignment: Assignment) -> Assignment {
        match assignment {
            Assignment::Single { target, op, expr } => {
                self.check(&target);
                Assignment::Single { target, op, expr: self.boxed(expr) }
            }
            Assignment::Infallible { ok, err, op, expr } => {
                self.check(&ok);
                self.check(&err);
                Assignment::Infallible { ok, err, op, expr: self.boxed(expr) }
            }
        }
    }

    /// Records the position of an element that is too large.
    fn check(&mut self, target: &AssignmentTarget) {
        let path: Option<&OwnedValuePath> = match target {
            AssignmentTarget::Noop => None,
            AssignmentTarget::Query(query) => Some(query.path.inner()),
            AssignmentTarget::Internal(_, path) => path.as_ref(),
            AssignmentTarget::External(path) => path.as_ref().map(|path| &path.path),
        };
        for segment in path.into_iter().flat_map(|path| &path.segments) {
            if let OwnedSegment::Index(position) = segment
                && position.unsigned_abs()
                    > if *position < 0 { Self::MOST_FROM_END } else { Self::MOST_POSITION }
            {
                self.position = Some(*position);
            }
        }
    }
}

/// Returns whether an expression is a number, or fails. Such an expression may have errors that a program handles after
/// the multiplication, which is not possible for arguments of a function.
fn is_number(node: &Node<ast::Expr>) -> bool {
    match node.inner() {
        ast::Expr::Literal(literal) => matches!(**literal, Literal::Integer(_) | Literal::Float(_)),
        ast::Expr::Container(container) => match &**container {
            Container::Group(group) => is_number(&group.0),
            _ => false,
        },
        ast::Expr::Op(op) => {
            let ast::Op(left, operator, right) = &**op;
            match operator.inner() {
                Opcode::Sub | Opcode::Div => true,
                Opcode::Mul | Opcode::Err => is_number(left) && is_number(right),
                // A number and a text cannot be added.
                Opcode::Add => is_number(left) || is_number(right),
                _ => false,
            }
        }
        ast::Expr::FunctionCall(call) => NUMBERS.contains(&&**call.ident),
        _ => false,
    }
}

/// Functions whose results are numbers.
const NUMBERS: [&str; 18] = [
    "abs",
    "ceil",
    "find",
    "float",
    "floor",
    "int",
    "length",
    "mod",
    "parse_bytes",
    "parse_duration",
    "parse_float",
    "parse_int",
    "random_float",
    "random_int",
    "round",
    "to_float",
    "to_int",
    "to_unix_timestamp",
];

/// Returns a call of [`Multiply`].
fn multiply(span: Span, left: Node<ast::Expr>, right: Node<ast::Expr>) -> ast::FunctionCall {
    let argument =
        |expr: Node<ast::Expr>| Node::new(expr.span(), ast::FunctionArgument { ident: None, expr });
    ast::FunctionCall {
        ident: Node::new(span, Ident::new(FUNCTION)),
        abort_on_error: false,
        arguments: vec![argument(left), argument(right)],
        closure: None,
    }
}

/// The operator `*` as a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multiply;

impl Function for Multiply {
    fn identifier(&self) -> &'static str {
        FUNCTION
    }

    fn usage(&self) -> &'static str {
        "Multiplies two numbers, or repeats a text."
    }

    fn category(&self) -> &'static str {
        Category::Number.as_ref()
    }

    fn return_kind(&self) -> u16 {
        kind::BYTES | kind::INTEGER | kind::FLOAT
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::required("left", kind::ANY, "Left operand."),
            Parameter::required("right", kind::ANY, "Right operand."),
        ];
        PARAMETERS
    }

    fn examples(&self) -> &'static [Example] {
        &[]
    }

    fn compile(
        &self,
        state: &TypeState,
        context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let [left, right] = ["left", "right"].map(|name| arguments.required_expr(name));
        let node = |it: &Expr| Node::new(context.span(), it.clone());
        let operator = Node::new(context.span(), Opcode::Mul);
        let whole = expression::Op::new(node(&left), operator, node(&right), state)
            .map_err(|error| Box::new(error) as Box<dyn DiagnosticMessage>)?;
        Ok(Box::new(Product { whole, left, right }))
    }
}

/// A product in a program.
#[derive(Clone, Debug)]
struct Product {
    /// The product of the crate, which determines the type of the result.
    whole: expression::Op,
    left: Expr,
    right: Expr,
}

impl Expression for Product {
    fn resolve(&self, context: &mut Context) -> Resolved {
        let (left, right) = (self.left.resolve(context)?, self.right.resolve(context)?);
        if let (Value::Integer(count), text) | (text, Value::Integer(count)) = (&left, &right)
            && let Some(text) = text.as_bytes()
        {
            let size = usize::try_from(*count).unwrap_or(0).saturating_mul(text.len());
            if size > remaining() {
                return Err(format!(
                    "a text of {} bytes repeated {count} times exceeds the {} that the program may still take",
                    text.len(),
                    mebibytes(remaining())
                )
                .into());
            }
        }
        Ok(left.try_mul(right)?)
    }

    fn resolve_constant(&self, state: &TypeState) -> Option<Value> {
        self.whole.resolve_constant(state)
    }

    fn type_info(&self, state: &TypeState) -> TypeInfo {
        self.whole.type_info(state)
    }
}
