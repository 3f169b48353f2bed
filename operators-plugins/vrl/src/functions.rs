//! Which functions of VRL's standard library a program may call.

use vrl::compiler::Function;

use crate::log::Log;

/// What a program can call only where its configuration allows it: it asks the machine.
const ENVIRONMENT: [&str; 3] = ["get_env_var", "get_hostname", "get_timezone_name"];

/// The same, for what asks the network. Part of the plugin only with the feature `network`.
const NETWORK: [&str; 3] = ["dns_lookup", "http_request", "reverse_dns"];

fn is_restricted(name: &str) -> bool {
    ENVIRONMENT.contains(&name) || NETWORK.contains(&name)
}

/// The functions.
pub(crate) fn functions(allow_environment: bool) -> Vec<Box<dyn Function>> {
    let mut functions = vrl::stdlib::all();
    functions.retain(|function| {
        let name = function.identifier();
        // Ours writes to the log of the host. That of VRL would write to one that nobody reads.
        name != Log.identifier() && (allow_environment || !is_restricted(name))
    });
    functions.push(Box::new(Log));
    functions
}

/// What to do about a program that does not compile, if it calls what it may not.
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
