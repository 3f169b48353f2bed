//! The name of a new plugin, which has to be a valid name of a crate, a type and a component.

use tremor_runtime::{components::built_in_names, flow};

use super::{Failure, Kind};

/// A valid name: words of lowercase letters and digits, separated by `-` or `_`.
#[derive(Debug)]
pub(super) struct Name(String);

/// Keywords of Rust 2024, including reserved ones, and names of crates that cannot be used for another crate.
const RESERVED: &str = " abstract as async await become box break const continue crate do dyn else enum \
    extern false final fn for gen if impl in let loop macro match mod move mut override priv pub ref \
    return self static struct super trait true try type typeof unsafe unsized use virtual where while \
    yield alloc core proc-macro proc_macro std test tremor-abi tremor_abi tremor-pdk tremor_pdk \
    tremor-pdk-macros tremor_pdk_macros ";

const OTHER: &str = "choose another name, such as one with a prefix";

/// Maximum length that crates.io accepts.
const MAX_LENGTH: usize = 64;

/// Components of the plugins that come with tremor, by kind.
const OURS: [(flow::Kind, &[&str]); 4] = [
    (
        flow::Kind::Connector,
        &[
            "bench",
            "clickhouse",
            "elasticsearch",
            "exec",
            "exit",
            "file",
            "http_client",
            "http_server",
            "journald",
            "kafka_consumer",
            "kafka_producer",
            "loki",
            "metronome",
            "nats_consumer",
            "nats_producer",
            "null",
            "prometheus_exporter",
            "prometheus_remote_write",
            "s3",
            "splunk_hec",
            "stdio",
            "tcp_client",
            "tcp_server",
            "udp_client",
            "udp_server",
            "unix_client",
            "unix_server",
            "victorialogs",
            "ws_client",
            "ws_server",
        ],
    ),
    (flow::Kind::Codec, &["otlp", "prometheus"]),
    (flow::Kind::Operator, &["logging", "lookup", "parse", "redact", "vrl"]),
    (flow::Kind::Preprocessor, &["prometheus"]),
];

impl Name {
    /// Checks the name of a plugin of this kind. `code` is the code that is going to be generated.
    ///
    /// # Errors
    /// The name, the reason why it is invalid, and advice.
    pub(super) fn parse(text: &str, kind: Kind, code: &str) -> Result<Self, Failure> {
        let wrong = |what: &str, help: &str| {
            Err(Failure::of_usage(format_args!(
                "error: `{text}` cannot be the name of a plugin: {what}\n  help: {help}"
            )))
        };
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let is_good =
            text.split(['-', '_']).all(is_word) && !text.starts_with(|c: char| c.is_ascii_digit());
        if !is_good || text.len() > MAX_LENGTH {
            return wrong(
                "it is not a valid name of a crate",
                "use at most 64 lowercase letters and digits, a letter first, and `-` or `_` between words",
            );
        }
        if RESERVED.contains(&format!(" {text} ")) {
            return wrong("the name is reserved by Rust or the kit", OTHER);
        }
        let name = Self(text.to_owned());
        let component = kind.component();
        let ours = OURS.iter().filter(|(kind, _)| *kind == component).flat_map(|(_, names)| *names);
        if built_in_names(component).chain(ours.copied()).any(|taken| taken == text) {
            return wrong(&format!("tremor comes with the {component} `{text}`"), OTHER);
        }
        let type_name = name.type_name();
        let mut code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let has = |line: &str| line.split(|c: char| !c.is_alphanumeric()).any(|it| it == type_name);
        if code.any(has) {
            return wrong(
                &format!("its type would shadow `{type_name}`, which its code uses"),
                OTHER,
            );
        }
        Ok(name)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the type: `LogLines` for `log-lines`.
    pub(super) fn type_name(&self) -> String {
        let capitalised = |word: &str| word[..1].to_uppercase() + &word[1..];
        self.0.split(['-', '_']).map(capitalised).collect()
    }
}
