//! Compilation of programs.

use tremor_pdk::{Error, Host, Result};
use vrl::{
    compiler::{
        CompileConfig, Compiler, Program, TypeState, compile_with_external, state::ExternalEnv,
    },
    diagnostic::{DiagnosticList, Formatter},
    parser::parse,
    path::{OwnedTargetPath, OwnedValuePath, PathPrefix},
};

use crate::{
    functions::{advice, functions, pure_functions},
    layout::Layout,
    limits::multiply::Rewriter,
};

/// Compiled program and the paths that it uses.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    /// VRL's warnings. Empty if there are none.
    pub(crate) warnings: String,
    /// Index of the path `%port`, if the program sets it.
    pub(crate) port: Option<usize>,
    /// `true` if the values that the program reads determine its result.
    pub(crate) is_pure: bool,
}

/// Compiles a program. Its calls of `log` write to the log of `host`.
///
/// # Errors
/// An error of kind configuration contains VRL's diagnostics.
pub(crate) fn compile(source: &str, allow_environment: bool, host: &Host) -> Result<Compiled> {
    let config = || {
        let mut config = CompileConfig::default();
        config.set_custom(host.clone());
        config
    };
    let failed = |diagnostics: DiagnosticList, advice: Option<String>| {
        let advice = advice.map(|advice| format!("\n{advice}")).unwrap_or_default();
        let diagnostics = Formatter::new(source, diagnostics).to_string();
        let diagnostics = diagnostics.trim_end();
        Error::configuration(format!("the program does not compile:{diagnostics}{advice}"))
    };
    let functions = functions(allow_environment);
    // Comes first, because the compiler takes minutes for some positions.
    let mut rewriter = Rewriter::default();
    let limited = parse(source).ok().map(|program| rewriter.program(program));
    if let Some(position) = rewriter.position {
        let (most, from_end) = (Rewriter::MOST_POSITION, Rewriter::MOST_FROM_END);
        return Err(Error::configuration(format!(
            "the program assigns the element {position} of an array: expected a position from -{from_end} to {most}, \
             because all elements before it are created"
        )));
    }
    let mut compiled = compile_with_external(source, &functions, &ExternalEnv::default(), config())
        .map_err(|diagnostics| failed(diagnostics, advice(source, allow_environment)))?;
    if let Some(limited) = limited.filter(|_| rewriter.is_changed) {
        let advice = "An operand of `*` that can fail and that may be a text must be assigned to a variable first, or \
                      converted to a number, for example with `int!`.";
        compiled.program = Compiler::compile(&functions, limited, &TypeState::default(), config())
            .map_err(|diagnostics| failed(diagnostics, Some(advice.to_owned())))?
            .program;
    }
    let info = compiled.program.info();
    let port = OwnedTargetPath {
        prefix: PathPrefix::Metadata,
        path: OwnedValuePath::single_field("port"),
    };
    let sets_port = info.target_assignments.iter().any(|path| {
        path.prefix == PathPrefix::Metadata && port.path.segments.starts_with(&path.path.segments)
    });
    // `unnest` uses the whole event, but VRL does not report it.
    let event = OwnedTargetPath::root(PathPrefix::Event);
    let metadata = OwnedTargetPath::root(PathPrefix::Metadata);
    let unnamed = if source.contains("unnest") { vec![&event, &metadata] } else { Vec::new() };
    let named = info.target_queries.iter().chain(&info.target_assignments).chain(unnamed);
    let layout = Layout::new(named.chain(sets_port.then_some(&port)));
    let port = layout.find(&port).filter(|_| sets_port);
    let warnings = Formatter::new(source, compiled.warnings).to_string();
    // A program that calls another function does not compile here.
    let (external, config) = (ExternalEnv::default(), CompileConfig::default());
    let is_pure = compile_with_external(source, &pure_functions(), &external, config).is_ok();
    Ok(Compiled { program: compiled.program, layout, warnings, port, is_pure })
}
