//! The functions of VRL's standard library that a program may call.

use vrl::compiler::Function;

use crate::log::Log;

/// Functions that use the machine. A program may call them only if its configuration allows it.
const ENVIRONMENT: [&str; 3] = ["get_env_var", "get_hostname", "get_timezone_name"];

/// Functions that use the network. A program may call them only if its configuration allows it, and if the plugin was
/// built with the feature `network`.
const NETWORK: [&str; 3] = ["dns_lookup", "http_request", "reverse_dns"];

fn is_restricted(name: &str) -> bool {
    ENVIRONMENT.contains(&name) || NETWORK.contains(&name)
}

/// Returns the functions that a program may call.
pub(crate) fn functions(allow_environment: bool) -> Vec<Box<dyn Function>> {
    let mut functions = vrl::stdlib::all();
    functions.retain(|function| {
        let name = function.identifier();
        // `Log` replaces the function `log` of VRL, which does not write to the log of the host.
        name != Log.identifier() && (allow_environment || !is_restricted(name))
    });
    functions.push(Box::new(Log));
    functions
}

/// Returns the remedy if a program does not compile because it calls a restricted function, and otherwise `None`.
pub(crate) fn advice(source: &str, allow_environment: bool) -> Option<String> {
    let calls = |name: &&str| {
        source.match_indices(*name).any(|(at, _)| source[at + name.len()..].starts_with(['(', '!']))
    };
    if !cfg!(feature = "network")
        && let Some(name) = NETWORK.iter().find(|name| calls(name))
    {
        return Some(format!(
            "`{name}` needs the network: build the plugin with the feature `network`, and set \
             `allow_environment: true`"
        ));
    }
    let name = ENVIRONMENT.iter().chain(&NETWORK).find(|name| calls(name))?;
    (!allow_environment).then(|| {
        format!("`{name}` needs the network or the environment: set `allow_environment: true`")
    })
}
