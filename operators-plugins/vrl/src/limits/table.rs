//! The limit of each function of the crate.

use std::sync::Arc;

use vrl::compiler::Function;

use super::{
    checks::{codecs, nested, parsers, texts},
    guard::{Check, Guarded},
    unnest::Unnest,
};

/// Limit of a function.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// The memory and the time of a call are at most a few times the size of the arguments, and the result has at most
    /// a few levels more than these.
    Linear,
    /// The function calls a closure. VRL asks [`Control`](super::Control) before each expression of the closure.
    Closure,
    /// The arguments are checked before the call.
    Checked(Check),
    /// The function reads the event itself, so that it has a check of its own.
    Unnest,
}

use Limit::{Checked, Closure, Linear};

/// Functions of the crate. A test compares the names with those of the crate.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, Limit)] = &[
    ("abs", Linear),
    ("append", Linear),
    ("array", Linear),
    ("assert", Linear),
    ("assert_eq", Linear),
    ("basename", Linear),
    ("bool", Linear),
    ("camelcase", Checked(texts::words)),
    ("ceil", Linear),
    ("chunks", Checked(nested::chunks)),
    ("community_id", Linear),
    ("compact", Linear),
    ("contains", Linear),
    ("contains_all", Checked(texts::contains_all)),
    ("crc", Linear),
    ("decode_base16", Linear),
    ("decode_base64", Linear),
    ("decode_charset", Linear),
    ("decode_gzip", Checked(codecs::decode_gzip)),
    ("decode_lz4", Checked(codecs::decode_lz4)),
    ("decode_mime_q", Linear),
    ("decode_percent", Linear),
    ("decode_punycode", Checked(texts::punycode)),
    ("decode_snappy", Checked(codecs::decode_snappy)),
    ("decode_zlib", Checked(codecs::decode_zlib)),
    ("decode_zstd", Checked(codecs::decode_zstd)),
    ("decrypt", Linear),
    ("decrypt_ip", Linear),
    ("del", Linear),
    ("dirname", Linear),
    ("dns_lookup", Linear),
    ("downcase", Linear),
    ("encode_base16", Linear),
    ("encode_base64", Linear),
    ("encode_charset", Linear),
    ("encode_csv", Linear),
    ("encode_gzip", Linear),
    ("encode_json", Checked(nested::encode_json)),
    ("encode_key_value", Checked(nested::encode_fields)),
    ("encode_logfmt", Checked(nested::encode_fields)),
    ("encode_lz4", Linear),
    ("encode_percent", Linear),
    ("encode_proto", Linear),
    ("encode_punycode", Checked(texts::punycode)),
    ("encode_snappy", Linear),
    ("encode_zlib", Linear),
    ("encode_zstd", Checked(codecs::encode_zstd)),
    ("encrypt", Linear),
    ("encrypt_ip", Linear),
    ("ends_with", Linear),
    ("exists", Linear),
    ("filter", Closure),
    ("find", Checked(texts::find)),
    ("flatten", Checked(nested::flatten)),
    ("float", Linear),
    ("floor", Linear),
    ("for_each", Closure),
    ("format_int", Linear),
    ("format_number", Checked(texts::format_number)),
    ("format_timestamp", Checked(texts::format_timestamp)),
    ("from_entries", Linear),
    ("from_unix_timestamp", Linear),
    ("get", Linear),
    ("get_env_var", Linear),
    ("get_hostname", Linear),
    ("get_timezone_name", Linear),
    ("haversine", Linear),
    ("hmac", Linear),
    // The size of the answer is the peer's decision.
    ("http_request", Linear),
    ("includes", Linear),
    ("int", Linear),
    ("ip_aton", Linear),
    ("ip_cidr_contains", Linear),
    ("ip_ntoa", Linear),
    ("ip_ntop", Linear),
    ("ip_pton", Linear),
    ("ip_subnet", Linear),
    ("ip_to_ipv6", Linear),
    ("ipv6_to_ipv4", Linear),
    ("is_array", Linear),
    ("is_boolean", Linear),
    ("is_empty", Linear),
    ("is_float", Linear),
    ("is_integer", Linear),
    ("is_ipv4", Linear),
    ("is_ipv6", Linear),
    ("is_json", Linear),
    ("is_null", Linear),
    ("is_nullish", Linear),
    ("is_object", Linear),
    ("is_regex", Linear),
    ("is_string", Linear),
    ("is_timestamp", Linear),
    ("join", Checked(nested::join)),
    ("keys", Linear),
    ("length", Linear),
    ("log", Linear),
    ("map_keys", Closure),
    ("map_values", Closure),
    ("match", Linear),
    ("match_any", Linear),
    ("match_array", Linear),
    ("match_datadog_query", Linear),
    ("md5", Linear),
    ("merge", Linear),
    ("mod", Linear),
    ("now", Linear),
    ("object", Linear),
    ("object_from_array", Linear),
    ("parse_apache_log", Linear),
    ("parse_aws_alb_log", Linear),
    ("parse_aws_cloudwatch_log_subscription_message", Checked(parsers::parse_json)),
    ("parse_aws_vpc_flow_log", Linear),
    ("parse_bytes", Linear),
    ("parse_cbor", Checked(parsers::parse_cbor)),
    ("parse_cef", Checked(parsers::parse_cef)),
    ("parse_common_log", Linear),
    ("parse_csv", Checked(parsers::parse_csv)),
    ("parse_duration", Linear),
    ("parse_etld", Linear),
    ("parse_float", Linear),
    ("parse_glog", Linear),
    ("parse_grok", Checked(parsers::parse_grok)),
    ("parse_groks", Checked(parsers::parse_grok)),
    ("parse_influxdb", Checked(parsers::parse_influxdb)),
    ("parse_int", Linear),
    ("parse_json", Checked(parsers::parse_json)),
    ("parse_key_value", Checked(parsers::parse_key_value)),
    ("parse_klog", Linear),
    ("parse_linux_authorization", Checked(parsers::parse_syslog)),
    ("parse_logfmt", Checked(parsers::parse_key_value)),
    ("parse_nginx_log", Linear),
    ("parse_proto", Checked(parsers::parse_proto)),
    ("parse_query_string", Checked(parsers::parse_query)),
    ("parse_regex", Linear),
    ("parse_regex_all", Checked(texts::parse_regex_all)),
    ("parse_ruby_hash", Checked(parsers::parse_ruby_hash)),
    ("parse_syslog", Checked(parsers::parse_syslog)),
    ("parse_timestamp", Linear),
    ("parse_tokens", Checked(parsers::parse_tokens)),
    ("parse_url", Checked(parsers::parse_query)),
    ("parse_user_agent", Linear),
    ("parse_xml", Checked(parsers::parse_xml)),
    ("parse_yaml", Checked(parsers::parse_yaml)),
    ("pascalcase", Checked(texts::words)),
    ("kebabcase", Checked(texts::words)),
    ("pop", Linear),
    ("push", Linear),
    ("random_bool", Linear),
    ("random_bytes", Checked(texts::random)),
    ("random_float", Checked(texts::random)),
    ("random_int", Checked(texts::random)),
    ("range", Linear),
    // The replacement is a constant of the program.
    ("redact", Linear),
    ("remove", Linear),
    ("replace", Checked(texts::replace)),
    ("replace_with", Closure),
    ("reverse_dns", Linear),
    ("round", Linear),
    ("screamingsnakecase", Checked(texts::words)),
    ("seahash", Linear),
    ("set", Checked(nested::set)),
    ("sha1", Linear),
    ("sha2", Linear),
    ("sha3", Linear),
    ("shannon_entropy", Linear),
    ("sieve", Checked(texts::sieve)),
    ("slice", Linear),
    ("snakecase", Checked(texts::words)),
    ("split", Checked(texts::split)),
    ("split_path", Checked(texts::split_path)),
    ("starts_with", Linear),
    ("string", Linear),
    ("strip_ansi_escape_codes", Linear),
    ("strip_whitespace", Linear),
    ("strlen", Linear),
    ("tag_types_externally", Checked(nested::tag_types)),
    ("tally", Linear),
    ("tally_value", Linear),
    ("timestamp", Linear),
    ("to_bool", Linear),
    ("to_entries", Checked(nested::to_entries)),
    ("to_float", Linear),
    ("to_int", Linear),
    ("to_regex", Checked(texts::to_regex)),
    ("to_string", Linear),
    ("to_syslog_facility", Linear),
    ("to_syslog_facility_code", Linear),
    ("to_syslog_level", Linear),
    ("to_syslog_severity", Linear),
    ("to_unix_timestamp", Linear),
    ("truncate", Linear),
    ("type_def", Linear),
    ("unflatten", Checked(nested::unflatten)),
    ("unique", Linear),
    ("unnest", Limit::Unnest),
    ("upcase", Linear),
    ("uuid_from_friendly_id", Linear),
    ("uuid_v4", Linear),
    ("uuid_v7", Linear),
    ("validate_json_schema", Linear),
    ("values", Linear),
    ("xxhash", Linear),
    ("zip", Checked(nested::zip)),
];

/// Returns the limit of a function. A function that the table does not have is not available to programs.
pub(crate) fn limit(name: &str) -> Option<Limit> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, limit)| *limit)
}

/// Adds its limit to each function. Functions without a known limit are removed.
pub(crate) fn limited(functions: Vec<Box<dyn Function>>) -> Vec<Box<dyn Function>> {
    let limited = |function: Box<dyn Function>| -> Option<Box<dyn Function>> {
        Some(match limit(function.identifier())? {
            Linear | Closure => function,
            Checked(check) => Box::new(Guarded { function: Arc::from(function), check }),
            Limit::Unnest => Box::new(Unnest { function: Arc::from(function) }),
        })
    };
    functions.into_iter().filter_map(limited).collect()
}

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;

    #[test]
    fn table_has_exactly_the_functions_of_the_crate() {
        let mut known: Vec<_> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
        let mut all: Vec<_> = vrl::stdlib::all().iter().map(|it| it.identifier()).collect();
        // Functions that the crate only has with other features.
        known.retain(|name| all.contains(name) || !crate::functions::NETWORK.contains(name));
        known.sort_unstable();
        all.sort_unstable();
        assert_eq!(
            known, all,
            "read the new functions, and add them to the table with their limit"
        );
    }
}
