//! The function `unnest`, which copies the event for each element of an array.

use std::sync::Arc;

use vrl::{
    compiler::{
        expression::{Query, Target},
        prelude::*,
    },
    path::OwnedTargetPath,
};

use super::guard::forward;
use crate::memory::remaining;

/// The function of the crate with a limit.
#[derive(Clone, Debug)]
pub(crate) struct Unnest {
    pub(crate) function: Arc<dyn Function>,
}

impl Function for Unnest {
    forward!();

    fn compile(
        &self,
        state: &TypeState,
        context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let whole = self.function.compile(state, context, arguments.clone())?;
        let path = arguments.required_query("path")?;
        if let Target::FunctionCall(_) | Target::Container(_) = path.target() {
            return Err(Box::new(ExpressionError::from(
                "cannot limit `unnest` of this value; assign the value to a variable, and use the variable",
            )));
        }
        Ok(Box::new(Call { whole, path }))
    }
}

/// Call of `unnest`.
#[derive(Clone, Debug)]
struct Call {
    whole: Box<dyn Expression>,
    path: Query,
}

impl Call {
    fn check(&self, context: &Context) -> Result<(), ExpressionError> {
        let root = match self.path.target() {
            Target::External(prefix) => {
                context.target().target_get(&OwnedTargetPath::root(*prefix))?
            }
            Target::Internal(variable) => context.state().variable(variable.ident()),
            Target::FunctionCall(_) | Target::Container(_) => None,
        };
        let Some(root) = root else { return Ok(()) };
        let Some(Value::Array(array)) = root.get(self.path.path()) else { return Ok(()) };
        let (whole, elements) = (size(root), array.iter().map(size).sum::<usize>());
        let copies = array.len().saturating_mul(whole.saturating_sub(elements));
        let bytes = copies.saturating_add(elements);
        let remaining = remaining();
        if bytes <= remaining {
            return Ok(());
        }
        Err(format!(
            "{} copies of the event may take {}; the program may take only {} more for this event",
            array.len(),
            super::mebibytes(bytes),
            super::mebibytes(remaining)
        )
        .into())
    }
}

impl Expression for Call {
    fn resolve(&self, context: &mut Context) -> Resolved {
        self.check(context)?;
        self.whole.resolve(context)
    }

    fn type_info(&self, state: &TypeState) -> TypeInfo {
        self.whole.type_info(state)
    }
}

/// Returns an estimate of the memory of a value in bytes.
fn size(value: &Value) -> usize {
    let own = size_of::<Value>() + value.as_bytes().map_or(0, Bytes::len);
    match value {
        Value::Array(array) => own + array.iter().map(size).sum::<usize>(),
        Value::Object(object) => {
            let field = |(key, value): (&KeyString, _)| {
                2 * (size_of::<KeyString>() + key.len() + size(value))
            };
            own + object.iter().map(field).sum::<usize>().max(super::checks::OBJECT)
        }
        _ => own,
    }
}
