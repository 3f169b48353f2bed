//! The operator `redact`: removes personal data and secrets from events.
//!
//! ```yaml
//! pipelines:
//!   main:
//!     operators:
//!       - type: redact
//!         config:
//!           rules:
//!             - { fields: [password] }
//!             - { fields: [message], patterns: [email, credit_card] }
//! ```
//!
//! `docs/guide/redact.md` describes the keys. A rule finds texts, which are whole fields or matches of patterns, and
//! replaces, masks or hashes them. Texts are replaced in the document of the event, whose other parts are not copied.

mod change;
mod config;
mod operator;
mod pattern;
mod rule;

pub use self::{
    change::Mask,
    config::{Config, Hash, Missing, RuleConfig},
    operator::Redact,
    pattern::Pattern,
};

tremor_pdk::export! { operators: [Redact] }
