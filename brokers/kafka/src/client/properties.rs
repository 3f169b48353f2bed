//! Properties of librdkafka for connections to the brokers.

use std::path::Path;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};
use tremor_pdk::{net::Address, prelude::*};

use super::{Mechanism, Sasl, Tls};

/// Addresses of the brokers, and the settings to authenticate to them.
pub(crate) struct Peer<'c> {
    pub(crate) brokers: &'c [Address],
    pub(crate) sasl: Option<&'c Sasl>,
    pub(crate) tls: Option<&'c Tls>,
}

impl Peer<'_> {
    /// Returns the librdkafka properties for connections to these brokers.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected.
    pub(crate) fn properties(&self, host: &Host) -> Result<ClientConfig> {
        if self.brokers.is_empty() {
            return Err(Error::configuration(
                "invalid `brokers`: expected at least one address of a broker, such as `kafka-1:9092`",
            ));
        }
        let brokers: Vec<String> = self.brokers.iter().map(Address::to_string).collect();
        let protocol = match (self.tls, self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        let mut properties = ClientConfig::new();
        properties
            .set("bootstrap.servers", brokers.join(","))
            .set("client.id", "tremor")
            .set("client.software.name", "tremor")
            .set("security.protocol", protocol)
            .set("socket.keepalive.enable", "true")
            .set("socket.connection.setup.timeout.ms", "10000")
            // After an outage, the client connects to a broker again within this time.
            .set("reconnect.backoff.max.ms", "2000")
            .set("log_level", "6")
            .set_log_level(RDKafkaLogLevel::Info);
        if let Some(tls) = self.tls {
            tls.add_to(&mut properties, host)?;
        }
        if let Some(sasl) = self.sasl {
            sasl.add_to(&mut properties, host)?;
            let is_readable = matches!(sasl.mechanism, Mechanism::Plain | Mechanism::OauthBearer);
            if is_readable && self.tls.is_none() {
                tremor_pdk::warn!(
                    host,
                    "`sasl` with {} but without `tls` sends the password or the token unencrypted; set `tls`",
                    sasl.mechanism.as_str()
                );
            }
        }
        Ok(properties)
    }
}

impl Tls {
    fn add_to(&self, properties: &mut ClientConfig, host: &Host) -> Result<()> {
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => {
                return Err(Error::configuration(
                    "invalid `tls`: the certificate needs its private key; set `key_file`",
                ));
            }
            (None, Some(_)) => {
                return Err(Error::configuration(
                    "invalid `tls`: the private key needs its certificate; set `cert_file`",
                ));
            }
            _ => {}
        }
        if self.server_name.is_some() {
            return Err(Error::configuration(
                "invalid `tls.server_name`: the Kafka client only compares a certificate with the name in the \
                 broker's address; remove the key, and let the brokers advertise that name",
            ));
        }
        if self.client_auth.is_some() {
            return Err(Error::configuration(
                "invalid `tls.client_auth`: the key is for servers; remove it, and set `cert_file` to send a certificate",
            ));
        }
        if self.min_version.as_deref().is_some_and(|it| it != "1.2") {
            return Err(Error::configuration(
                "invalid `tls.min_version`: the Kafka client accepts TLS 1.2 and later, and cannot require a later \
                 version; set '1.2', or remove the key",
            ));
        }
        // `probe` makes librdkafka search the usual folders for CAs, because the linked OpenSSL does not know where
        // this system stores them.
        let ca = self.ca_file.as_deref().map(|it| path(host, "tls.ca_file", it));
        properties.set("ssl.ca.location", ca.unwrap_or_else(|| Ok("probe".to_owned()))?);
        if let Some(file) = &self.cert_file {
            properties.set("ssl.certificate.location", path(host, "tls.cert_file", file)?);
        }
        if let Some(file) = &self.key_file {
            properties.set("ssl.key.location", path(host, "tls.key_file", file)?);
        }
        Ok(())
    }
}

impl Sasl {
    fn add_to(&self, properties: &mut ClientConfig, host: &Host) -> Result<()> {
        let is_token = self.mechanism == Mechanism::OauthBearer;
        let mechanism = self.mechanism.as_str();
        properties.set("sasl.mechanism", mechanism);
        let texts = [
            ("user", "sasl.username", self.user.as_deref()),
            ("password", "sasl.password", self.password.as_deref()),
        ];
        for (key, property, text) in texts {
            match text {
                None if is_token => {}
                Some(_) if is_token => {
                    return Err(Error::configuration(format_args!(
                        "invalid `sasl.{key}`: {mechanism} authenticates with a token; remove the key, and set `token_file`"
                    )));
                }
                Some(text) if !text.is_empty() && !text.contains('\0') => {
                    properties.set(property, text);
                }
                _ => {
                    return Err(Error::configuration(format_args!(
                        "invalid `sasl.{key}`: expected at least one character, and no NUL character"
                    )));
                }
            }
        }
        match (&self.token_file, is_token) {
            (None, false) => Ok(()),
            (None, true) => Err(Error::configuration(format_args!(
                "invalid `sasl`: {mechanism} needs a token; set `token_file`"
            ))),
            (Some(_), false) => Err(Error::configuration(
                "invalid `sasl.token_file`: only `OAUTHBEARER` uses a token; remove the key",
            )),
            (Some(file), true) => {
                // librdkafka passes this value to the function `token` when it needs a token.
                properties.set("sasl.oauthbearer.config", path(host, "sasl.token_file", file)?);
                Ok(())
            }
        }
    }
}

/// Returns the absolute path of the file that is configured with `key`.
fn path(host: &Host, key: &str, path: &Path) -> Result<String> {
    let path = host.resolve(path).into_os_string().into_string();
    let path = path.ok().filter(|path| !path.contains('\0'));
    path.ok_or_else(|| {
        Error::configuration(format_args!("invalid `{key}`: expected a path in UTF-8"))
    })
}
