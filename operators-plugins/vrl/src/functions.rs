//! The functions of VRL's standard library that a program may call.

use vrl::compiler::Function;

use crate::{
    limits::{multiply::Multiply, table::limited},
    log::Log,
};

/// Functions that use the machine. A program may call them only if its configuration allows it.
const ENVIRONMENT: [&str; 3] = ["get_env_var", "get_hostname", "get_timezone_name"];

/// Functions that use the network. A program may call them only if its configuration allows it, and if the plugin was
/// built with the feature `network`.
pub(crate) const NETWORK: [&str; 3] = ["dns_lookup", "http_request", "reverse_dns"];

fn is_restricted(name: &str) -> bool {
    ENVIRONMENT.contains(&name) || NETWORK.contains(&name)
}

/// Returns the functions that a program may call, with their limits.
pub(crate) fn functions(allow_environment: bool) -> Vec<Box<dyn Function>> {
    let mut functions = vrl::stdlib::all();
    functions.retain(|function| {
        let name = function.identifier();
        // `Log` replaces the function `log` of VRL, which does not write to the log of the host.
        name != Log.identifier() && (allow_environment || !is_restricted(name))
    });
    let mut functions = limited(functions);
    functions.push(Box::new(Log));
    functions.push(Box::new(Multiply));
    functions
}

/// Functions that depend on nothing but their arguments and the event: not on the time, the machine or chance. Functions
/// that programs rarely call for classification are not listed.
#[rustfmt::skip]
const PURE: [&str; 88] = [
    "abs", "append", "array", "assert", "assert_eq", "basename", "bool", "camelcase", "ceil", "chunks", "compact",
    "contains", "contains_all", "crc", "decode_base16", "decode_base64", "decode_percent", "del", "dirname", "downcase",
    "encode_base16", "encode_base64", "encode_json", "encode_percent", "ends_with", "exists", "filter", "find",
    "flatten", "float", "floor", "for_each", "format_int", "format_number", "get", "includes", "int",
    "ip_aton", "ip_cidr_contains", "ip_ntoa", "ip_subnet", "is_array", "is_boolean", "is_empty", "is_float",
    "is_integer", "is_ipv4", "is_ipv6", "is_null", "is_nullish", "is_object", "is_string", "join", "kebabcase", "keys",
    "length", "map_keys", "map_values", "match", "match_any", "match_array", "md5", "merge", "mod", "object",
    "parse_float", "parse_int", "parse_json", "pascalcase", "pop", "push", "remove", "replace", "round",
    "screamingsnakecase", "set", "sha1", "sha2", "slice", "snakecase", "split", "starts_with", "string",
    "strip_whitespace", "strlen", "to_bool", "to_string", "upcase",
];

/// Returns the functions of [`PURE`].
pub(crate) fn pure_functions() -> Vec<Box<dyn Function>> {
    let mut functions = vrl::stdlib::all();
    functions.retain(|function| PURE.contains(&function.identifier()));
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

#[cfg(test)]
mod tests {
    use super::{PURE, pure_functions};

    #[test]
    fn vrl_has_all_pure_functions() {
        let known: Vec<_> = pure_functions().iter().map(|it| it.identifier()).collect();
        let unknown: Vec<_> = PURE.iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
