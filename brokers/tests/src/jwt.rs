//! Users that an operator vouches for, as `nsc` makes them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};

/// Who runs servers, an account of theirs, and a user of it.
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
    /// New ones.
    pub fn new() -> Self {
        Self {
            own: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// Lines for the configuration of a server.
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

    /// The file of a user: a token and a seed.
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

/// What somebody vouches for, of the second version of these tokens.
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
