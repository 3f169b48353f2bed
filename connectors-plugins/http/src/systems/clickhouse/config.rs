//! The `config` section of the connector in a flow file.

use std::collections::BTreeMap;

use tremor_pdk::units::Size;

use crate::exchange::sink_config;

sink_config! {
    /// Configuration of the connector.
    pub(crate) struct Config {
        /// URL of the HTTP interface: `https://clickhouse.example.com:8443`.
        #[schemars(example = "http://127.0.0.1:9/")]
        pub url: String,
        /// Table into which events are inserted.
        pub table: String,
        /// Database of the table. Default: the default database of the user.
        pub database: Option<String>,
        /// Name of the user, as the header `X-ClickHouse-User`. Default: `default`, unless `auth` is set.
        pub user: Option<String>,
        /// Password of the user, as the header `X-ClickHouse-Key`. Default: none.
        #[schemars(extend("writeOnly" = true))]
        pub password: Option<String>,
        /// Makes the server collect the rows of several requests before it writes them. It answers when they are
        /// written.
        #[serde(default)]
        pub async_insert: bool,
        /// Gives each request a token that is derived from its contents, so that a request that is sent again is
        /// written once. The table has to keep these tokens.
        #[serde(default = "deduplicate")]
        pub deduplicate: bool,
        /// Further settings of the server for each request: `{ input_format_skip_unknown_fields: '1' }`.
        #[serde(default)]
        pub settings: BTreeMap<String, String>,
        /// Maximum length of a request body, in bytes before compression. A longer event goes to `err`.
        #[serde(default = "max_body_bytes")]
        pub max_body_bytes: Size,
    }
}

const fn deduplicate() -> bool {
    true
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(10 << 20)
}
