//! Operators, accounts and users of NATS with signed tokens, like those that `nsc` creates.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};

/// An operator of servers, with an account.
pub struct Operator {
    own: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

impl Default for Operator {
    fn default() -> Self {
        Self::new()
    }
}

impl Operator {
    /// Creates an operator with new keys.
    pub fn new() -> Self {
        Self {
            own: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// Returns lines for the configuration of a server.
    pub fn lines(&self) -> [String; 4] {
        let claims = json!({ "type": "operator", "version": 2 });
        let operator = signed(&self.own, &self.own.public_key(), &claims);
        let limits = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"];
        let mut limits: serde_json::Map<String, Value> =
            limits.iter().map(|it| ((*it).to_owned(), json!(-1))).collect();
        limits.insert("wildcards".to_owned(), json!(true));
        let account = |of: &KeyPair| {
            let claims = json!({ "type": "account", "version": 2, "limits": limits });
            let public = of.public_key();
            let token = signed(&self.own, &public, &claims);
            format!("{public}: \"{token}\"")
        };
        [
            format!("operator: \"{operator}\""),
            "resolver: MEMORY".to_owned(),
            format!("system_account: {}", self.system.public_key()),
            format!(
                "resolver_preload: {{ {}, {} }}",
                account(&self.account),
                account(&self.system)
            ),
        ]
    }

    /// Returns the credentials file of a new user: a token and a seed.
    pub fn credentials(&self) -> String {
        let user = KeyPair::new_user();
        let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
        let token = signed(&self.account, &user.public_key(), &claims);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

/// Returns a token of version 2 with these claims, signed by `by`.
fn signed(by: &KeyPair, subject: &str, claims: &Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let body = json!({
        "jti": subject, "iat": 1_700_000_000, "iss": by.public_key(), "sub": subject, "name": "test", "nats": claims
    });
    let encode = |it: Value| URL_SAFE_NO_PAD.encode(it.to_string());
    let text = format!("{}.{}", encode(header), encode(body));
    let signature = URL_SAFE_NO_PAD.encode(by.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}
