//! Asks plugins about the components of several flows at once, so that not every component needs a child process of its
//! own.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use serde_json::Value as Config;
use tremor_pdk::lock;
use twox_hash::xxhash3_128::Hasher;

use super::Components;
use crate::{
    flow::{self, Component, Flow, Kind, Lookup, Resolver},
    plugin::{Library, Question},
};

/// Component of a flow.
type Of<'f> = (&'f Flow, Kind, &'f Component);

impl Components {
    /// Asks plugins about all configurations of these flows. One child process checks all configurations against their
    /// schemas, and one child process for each library creates instances.
    ///
    /// If a configuration is not found to be valid here, it is checked again when its flow is checked. Results
    /// therefore do not depend on this method.
    pub fn look_ahead<'f>(&self, flows: impl IntoIterator<Item = &'f Flow>) {
        let of = |flow: &'f Flow| {
            flow::components(flow).map(move |(kind, component)| (flow, kind, component))
        };
        let all = flows.into_iter().flat_map(of);
        let all: Vec<Of<'_>> = all.filter(|(.., it)| it.config.unknown().is_empty()).collect();
        if self.fit_ahead(&all) {
            self.ask_ahead(&all);
        }
    }

    /// Returns whether all configurations that have a schema fit it.
    fn fit_ahead(&self, all: &[Of<'_>]) -> bool {
        let mut schemas = HashMap::new();
        for (_, kind, component) in all {
            let name = component.name.value.as_str();
            schemas.entry((*kind, name)).or_insert_with(|| {
                match Resolver::find(self, *kind, name) {
                    Lookup::Known { schema } => schema,
                    Lookup::Unknown | Lookup::Unusable(_) => None,
                }
            });
        }
        let mut pairs = HashMap::new();
        for (_, kind, component) in all {
            let schema = schemas.get(&(*kind, component.name.value.as_str()));
            if let Some(Some(schema)) = schema {
                let config = component.config.value();
                pairs.entry(hash(schema, config)).or_insert((schema, config));
            }
        }
        let (hashes, pairs): (Vec<u128>, Vec<_>) = pairs.into_iter().unzip();
        let fit = pairs.is_empty() || self.describer.all_fit(&pairs);
        if fit {
            lock(&self.fitting).extend(hashes);
        }
        fit
    }

    /// Returns whether each of these configurations was already found to fit its schema.
    pub(super) fn are_known_to_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        let known = lock(&self.fitting);
        !known.is_empty()
            && configurations.iter().all(|(schema, config)| known.contains(&hash(schema, config)))
    }

    fn ask_ahead(&self, all: &[Of<'_>]) {
        let mut by_library = HashMap::<PathBuf, (&Library, Vec<Of<'_>>)>::new();
        let mut seen = HashSet::new();
        for (flow, kind, component) in all {
            let (name, config) = (component.name.value.as_str(), component.config.value());
            let Some(library) = self.library(*kind, name) else { continue };
            if seen.insert(Self::question(library, flow, *kind, name, config)) {
                let path = library.path().to_owned();
                by_library
                    .entry(path)
                    .or_insert((library, Vec::new()))
                    .1
                    .push((flow, *kind, component));
            }
        }
        for (library, asked) in by_library.into_values().filter(|(_, asked)| asked.len() > 1) {
            let questions: Vec<_> = asked.iter().copied().map(question).collect();
            let answers = self.describer.check_all(library, &questions);
            let mut answers_so_far = lock(&self.answers);
            for ((flow, kind, component), info) in asked.into_iter().zip(answers) {
                let (name, config) = (&component.name.value, component.config.value());
                if let Some(info) = info {
                    answers_so_far
                        .insert(Self::question(library, flow, kind, name, config), Ok(info));
                }
            }
        }
    }
}

fn question((flow, kind, component): Of<'_>) -> Question<'_> {
    (kind.as_str(), &component.name.value, component.config.value(), flow.folder())
}

/// Returns the hash of a schema and a configuration.
fn hash(schema: &Config, config: &Config) -> u128 {
    let mut hasher = Hasher::new();
    hasher.write(schema.to_string().as_bytes());
    hasher.write(b"\0");
    hasher.write(config.to_string().as_bytes());
    hasher.finish_128()
}
