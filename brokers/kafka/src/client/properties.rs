//! The properties of librdkafka that say how brokers are reached.

use std::path::Path;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};
use tremor_pdk::{net::Address, prelude::*};

use super::{Mechanism, Sasl, Tls};

/// How brokers are reached.
pub(crate) struct Peer<'c> {
    pub(crate) brokers: &'c [Address],
    pub(crate) sasl: Option<&'c Sasl>,
    pub(crate) tls: Option<&'c Tls>,
}

impl Peer<'_> {
    /// The properties of a client that reaches these brokers.
    ///
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected.
    pub(crate) fn properties(&self, host: &Host) -> Result<ClientConfig> {
        if self.brokers.is_empty() {
            return Err(Error::configuration(
                "`brokers`: expected the address of a broker at least, such as `kafka-1:9092`",
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
            // After an outage a broker is found again within that.
            .set("reconnect.backoff.max.ms", "2000")
            .set("log_level", "6")
            .set_log_level(RDKafkaLogLevel::Info);
        if let Some(tls) = self.tls {
            tls.add_to(&mut properties, host)?;
        }
        if let Some(sasl) = self.sasl {
            sasl.add_to(&mut properties, host)?;
            let is_shown = matches!(sasl.mechanism, Mechanism::Plain | Mechanism::OauthBearer);
            if is_shown && self.tls.is_none() {
                tremor_pdk::warn!(
                    host,
                    "`sasl`: {} without `tls` shows the password or the token to all that can read the network: set `tls`",
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
                    "`tls`: the certificate needs its private key: name its file as `key_file`",
                ));
            }
            (None, Some(_)) => {
                return Err(Error::configuration(
                    "`tls`: the private key needs its certificate: name its file as `cert_file`",
                ));
            }
            _ => {}
        }
        if self.server_name.is_some() {
            return Err(Error::configuration(
                "`tls.server_name`: the client of Kafka compares a certificate with the name in the broker's \
                 address, and with no other: remove the key, and have the brokers advertise that name",
            ));
        }
        if self.client_auth.is_some() {
            return Err(Error::configuration(
                "`tls.client_auth` is for servers: a client shows the certificate of `cert_file`",
            ));
        }
        if self.min_version.as_deref().is_some_and(|it| it != "1.2") {
            return Err(Error::configuration(
                "`tls.min_version`: the client of Kafka speaks 1.2 and later, and can ask for no more: write \
                 '1.2', or remove the key",
            ));
        }
        // Of the system, wherever it has them: OpenSSL is linked, and does not know the system's place.
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
                        "`sasl.{key}`: {mechanism} has a token in its place: name its file as `token_file`"
                    )));
                }
                Some(text) if !text.is_empty() && !text.contains('\0') => {
                    properties.set(property, text);
                }
                _ => {
                    return Err(Error::configuration(format_args!(
                        "`sasl.{key}`: expected a text with a character at least and none that is zero"
                    )));
                }
            }
        }
        match (&self.token_file, is_token) {
            (None, false) => Ok(()),
            (None, true) => Err(Error::configuration(format_args!(
                "`sasl`: {mechanism} needs a token: name its file as `token_file`"
            ))),
            (Some(_), false) => Err(Error::configuration(
                "`sasl.token_file` is for the mechanism `OAUTHBEARER`: remove it",
            )),
            (Some(file), true) => {
                // What librdkafka asks for a token with.
                properties.set("sasl.oauthbearer.config", path(host, "sasl.token_file", file)?);
                Ok(())
            }
        }
    }
}

/// A file of the configuration.
fn path(host: &Host, key: &str, path: &Path) -> Result<String> {
    let path = host.resolve(path).into_os_string().into_string();
    let path = path.ok().filter(|path| !path.contains('\0'));
    path.ok_or_else(|| Error::configuration(format_args!("`{key}`: expected a path in UTF-8")))
}
