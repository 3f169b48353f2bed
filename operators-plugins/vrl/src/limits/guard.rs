//! Functions of the crate whose arguments are checked before each call.

use std::sync::{Arc, Mutex};

use vrl::{
    compiler::{TargetValue, compile, prelude::*, state::RuntimeState},
    path::OwnedTargetPath,
    value::Secrets,
};

/// Checks the arguments of a function. Returns the result of the call if the check has computed it already.
pub(crate) type Check = fn(&Arguments<'_>) -> Result<Option<Value>, ExpressionError>;

/// Arguments of a call.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    names: &'a [&'static str],
    values: &'a [Value],
}

impl Arguments<'_> {
    /// Returns an argument, or `None` if the call does not have it.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let position = self.names.iter().position(|known| *known == name)?;
        self.values.get(position)
    }

    /// Returns the bytes of an argument. They are empty if the call does not have the argument, or if this is not text.
    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        self.get(name).and_then(Value::as_bytes).map_or(&[], |bytes| bytes)
    }
}

/// Name of [`Take`].
const TAKE: &str = "take";

/// Function that moves an argument out of the event, which is the array of all arguments.
#[derive(Clone, Copy, Debug)]
struct Take;

impl Function for Take {
    fn identifier(&self) -> &'static str {
        TAKE
    }

    fn usage(&self) -> &'static str {
        "Returns an argument of a call."
    }

    fn category(&self) -> &'static str {
        Category::System.as_ref()
    }

    fn return_kind(&self) -> u16 {
        kind::ANY
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[Parameter::required(
            "argument",
            kind::ANY,
            "Path with the position of the argument.",
        )];
        PARAMETERS
    }

    fn examples(&self) -> &'static [Example] {
        &[]
    }

    fn compile(
        &self,
        _state: &TypeState,
        _context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let path = arguments.required_query("argument")?.external_path().cloned();
        let path = path.expect("the argument is a path of the event");
        Ok(Taken(path).as_expr())
    }
}

/// An argument of a call.
#[derive(Clone, Debug)]
struct Taken(OwnedTargetPath);

impl FunctionExpression for Taken {
    fn resolve(&self, context: &mut Context) -> Resolved {
        let argument = context.target_mut().target_get_mut(&self.0)?;
        Ok(argument.map_or(Value::Null, |value| std::mem::replace(value, Value::Null)))
    }

    fn type_def(&self, _state: &TypeState) -> TypeDef {
        TypeDef::any()
    }
}

/// Function of the crate with a check of its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    pub(crate) function: Arc<dyn Function>,
    pub(crate) check: Check,
}

/// Function that keeps what the function of the crate compiles to.
#[derive(Debug)]
struct Capture {
    function: Arc<dyn Function>,
    call: Arc<Mutex<Option<Box<dyn Expression>>>>,
}

/// Methods of a function that are those of the function of the crate.
macro_rules! forward {
    () => {
        fn identifier(&self) -> &'static str {
            self.function.identifier()
        }

        fn usage(&self) -> &'static str {
            self.function.usage()
        }

        fn category(&self) -> &'static str {
            self.function.category()
        }

        fn return_kind(&self) -> u16 {
            self.function.return_kind()
        }

        fn pure(&self) -> bool {
            self.function.pure()
        }

        fn examples(&self) -> &'static [Example] {
            self.function.examples()
        }

        fn parameters(&self) -> &'static [Parameter] {
            self.function.parameters()
        }
    };
}

pub(super) use forward;

impl Function for Capture {
    forward!();

    fn compile(
        &self,
        state: &TypeState,
        context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let call = self.function.compile(state, context, arguments)?;
        *self.call.lock().expect("no holder of the lock panics") = Some(call.clone());
        Ok(call)
    }
}

impl Function for Guarded {
    forward!();

    fn compile(
        &self,
        state: &TypeState,
        context: &mut FunctionCompileContext,
        arguments: ArgumentList,
    ) -> Compiled {
        let whole = self.function.compile(state, context, arguments.clone())?;
        let names = self.function.parameters().iter().map(|it| it.keyword);
        let names: Vec<_> = names.filter(|name| arguments.optional(name).is_some()).collect();
        // A variable may have another value in a loop than VRL believes, so it counts as a constant only if the function
        // requires one.
        let required = std::iter::once(None).chain(names.iter().copied().map(Some));
        let mut calls = required.filter_map(|required| {
            let given = names.iter().map(|name| {
                let argument = arguments.required(name);
                let none = TypeState::default();
                let state = if required == Some(*name) { state } else { &none };
                let constant = argument.resolve_constant(state);
                let constant = constant.and_then(|value| Some((literal(&value)?, value)));
                constant.map_or(Argument::Expression(argument), Argument::constant)
            });
            let given: Vec<_> = given.collect();
            Some((self.call(&names, &given)?, given))
        });
        let (inner, given) = calls.next().ok_or_else(|| -> Box<dyn DiagnosticMessage> {
            Box::new(ExpressionError::from(format!(
                "cannot check the arguments of `{}` in this call; write constant arguments without quotes, backslashes \
                 and line breaks",
                self.identifier()
            )))
        })?;
        drop(calls);
        Ok(Box::new(Call { whole, inner, names, given, check: self.check }))
    }
}

impl Guarded {
    /// Compiles a call of the function of the crate with these arguments, if this is possible.
    fn call(&self, names: &[&str], given: &[Argument]) -> Option<Box<dyn Expression>> {
        let given = names.iter().zip(given).enumerate();
        let texts = given.map(|(position, (name, argument))| match argument {
            Argument::Constant(text, _) => format!("{name}: {text}"),
            Argument::Expression(_) => format!("{name}: {TAKE}(.[{position}])"),
        });
        let arguments: Vec<_> = texts.collect();
        let source = format!("{}!({})", self.identifier(), arguments.join(", "));
        let call = Arc::default();
        let capture = Capture { function: self.function.clone(), call: Arc::clone(&call) };
        // Only the captured call is needed, so that warnings about this program do not matter.
        let _ = compile(&source, &[Box::new(capture), Box::new(Take)]);
        call.lock().expect("no holder of the lock panics").take()
    }
}

/// Returns the text of a constant in a program, or `None` if it cannot be written in one.
fn literal(value: &Value) -> Option<String> {
    let is_plain = |text: &str| !text.contains(['\\', '\'', '"', '{', '\n']);
    match value {
        Value::Null | Value::Boolean(_) | Value::Integer(_) => Some(value.to_string()),
        Value::String(_) | Value::Bytes(_) => {
            let text = std::str::from_utf8(value.as_bytes()?).ok()?;
            (!text.contains(['\\', '\''])).then(|| format!("s'{text}'"))
        }
        Value::Array(array) => {
            let elements = array.iter().map(literal).collect::<Option<Vec<_>>>()?;
            Some(format!("[{}]", elements.join(", ")))
        }
        Value::Object(object) => {
            let field = |(key, value): (&KeyString, &Value)| {
                is_plain(key).then_some(())?;
                Some(format!("\"{key}\": {}", literal(value)?))
            };
            let fields = object.iter().map(field).collect::<Option<Vec<_>>>()?;
            Some(format!("{{{}}}", fields.join(", ")))
        }
        Value::Float(_) | Value::Timestamp(_) | Value::Regex(_) => None,
    }
}

#[derive(Clone, Debug)]
enum Argument {
    /// Constant as the text of a program, and its value.
    Constant(String, Value),
    Expression(Box<dyn Expression>),
}

impl Argument {
    fn constant((text, value): (String, Value)) -> Self {
        Self::Constant(text, value)
    }
}

/// Call of a guarded function.
#[derive(Clone, Debug)]
struct Call {
    /// Call of the function of the crate with the arguments of the program. It determines the type of the result.
    whole: Box<dyn Expression>,
    /// Call of the function of the crate, which takes the arguments from an event.
    inner: Box<dyn Expression>,
    names: Vec<&'static str>,
    given: Vec<Argument>,
    check: Check,
}

impl Expression for Call {
    fn resolve(&self, context: &mut Context) -> Resolved {
        let mut values = Vec::with_capacity(self.given.len());
        for argument in &self.given {
            values.push(match argument {
                Argument::Constant(_, value) => value.clone(),
                Argument::Expression(expression) => expression.resolve(context)?,
            });
        }
        let arguments = Arguments { names: &self.names, values: &values };
        let result = if let Some(known) = (self.check)(&arguments)? {
            known
        } else {
            let (value, metadata) = (Value::Array(values), Value::Null);
            let mut target = TargetValue { value, metadata, secrets: Secrets::default() };
            let (mut state, timezone) = (RuntimeState::default(), *context.timezone());
            self.inner.resolve(&mut Context::new(&mut target, &mut state, &timezone))?
        };
        // The result may be the argument of another function without an expression in between.
        context.checkpoint()?;
        Ok(result)
    }

    fn resolve_constant(&self, state: &TypeState) -> Option<Value> {
        self.whole.resolve_constant(state)
    }

    fn type_info(&self, state: &TypeState) -> TypeInfo {
        self.whole.type_info(state)
    }
}
