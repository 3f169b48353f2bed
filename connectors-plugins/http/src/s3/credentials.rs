//! Keys with which requests are signed: from the configuration, the environment, a file, or a service of AWS.

mod file;
mod service;

use std::{
    env,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tremor_pdk::{Descriptors, Error, Host, Problem, Result, lock};

use self::service::Service;
use super::{
    config::{AccessKeys, Credentials, CredentialsFile, Instance},
    settings::parse_endpoint,
    sign::Keys,
};

/// Time before the expiry of temporary keys at which they are renewed.
const RENEWED_BEFORE: Duration = Duration::from_mins(5);

/// Pause between two attempts to renew keys that have not expired.
const RETRIED_AFTER: Duration = Duration::from_secs(10);

/// Reads an environment variable. Tests replace this function.
type Variables = fn(&str) -> Option<String>;

/// Keys, and the time until which they can be used.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) keys: Arc<Keys>,
    /// In seconds since the Unix epoch; `None` for keys that do not expire.
    pub(super) expires: Option<u64>,
}

impl From<Keys> for Loaded {
    fn from(keys: Keys) -> Self {
        Self { keys: Arc::new(keys), expires: None }
    }
}

/// Provides the keys, and renews them before they expire.
pub(super) struct Provider {
    host: Host,
    /// Sources of keys, in the order in which they are tried.
    sources: Vec<Source>,
    state: Mutex<State>,
    problem: Problem,
    variables: Variables,
}

#[derive(Default)]
struct State {
    loaded: Option<Loaded>,
    /// Time until which keys that can still be used are not renewed, because the last attempt failed. By the monotonic
    /// clock, in ns.
    resumes_ns: u64,
}

enum Source {
    Keys(Loaded),
    Environment,
    File { path: Option<PathBuf>, profile: Option<String> },
    Service(Box<Service>),
}

impl Provider {
    /// Validates the key `credentials`.
    ///
    /// # Errors
    /// An error of the kind configuration.
    pub(super) fn check(credentials: Option<&Credentials>) -> Result<()> {
        match credentials {
            Some(Credentials::Keys(keys)) => configured(keys).map(drop),
            Some(Credentials::Instance(Instance { endpoint: Some(endpoint) })) => {
                parse_endpoint(service::ENDPOINT, endpoint).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Creates a provider for the key `credentials`. `region` is that of the bucket.
    ///
    /// # Errors
    /// An error of the kind configuration.
    pub(super) fn new(
        credentials: Option<&Credentials>,
        region: &str,
        host: &Host,
        descriptors: &Descriptors,
    ) -> Result<Self> {
        let variables = |name: &str| env::var(name).ok().filter(|it| !it.is_empty());
        Self::with_variables(credentials, region, host, descriptors, variables)
    }

    fn with_variables(
        credentials: Option<&Credentials>,
        region: &str,
        host: &Host,
        descriptors: &Descriptors,
        variables: Variables,
    ) -> Result<Self> {
        let file = |file: &CredentialsFile| Source::File {
            path: file.path.as_ref().map(|path| host.resolve(path)),
            profile: file.profile.clone(),
        };
        let service = |service| Source::Service(Box::new(service));
        let instance = |instance: &Instance| {
            let endpoint = instance
                .endpoint
                .clone()
                .or_else(|| variables("AWS_EC2_METADATA_SERVICE_ENDPOINT"));
            Service::instance(endpoint.as_deref(), host, descriptors).map(service)
        };
        let container =
            || Service::container(variables, host, descriptors).map(|it| it.map(service));
        let role = || Service::role(variables, region, host, descriptors).map(|it| it.map(service));
        let sources = match credentials {
            Some(Credentials::Keys(keys)) => vec![Source::Keys(configured(keys)?.into())],
            Some(Credentials::Environment) => vec![Source::Environment],
            Some(Credentials::File(found)) => vec![file(found)],
            Some(Credentials::Container) => vec![container()?.ok_or_else(|| {
                Error::configuration(
                    "`credentials: container` needs the environment variable `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` \
                     or `AWS_CONTAINER_CREDENTIALS_FULL_URI`, which ECS and EKS set",
                )
            })?],
            Some(Credentials::WebIdentity) => vec![role()?.ok_or_else(|| {
                Error::configuration(
                    "`credentials: web_identity` needs the environment variables `AWS_ROLE_ARN` and \
                     `AWS_WEB_IDENTITY_TOKEN_FILE`, which EKS sets for service accounts with a role",
                )
            })?],
            Some(Credentials::Instance(found)) => vec![instance(found)?],
            None => {
                let mut sources = vec![Source::Environment, file(&CredentialsFile::default())];
                sources.extend(role()?);
                sources.extend(container()?);
                let is_disabled = variables("AWS_EC2_METADATA_DISABLED")
                    .is_some_and(|it| it.eq_ignore_ascii_case("true"));
                if !is_disabled {
                    sources.push(instance(&Instance::default())?);
                }
                sources
            }
        };
        let problem = host.problem("credentials");
        Ok(Self { host: host.clone(), sources, state: Mutex::default(), problem, variables })
    }

    /// Returns the current keys. Loads them if there are none, or if they expire soon.
    ///
    /// # Errors
    /// No source has keys that can be used.
    pub(super) async fn keys(&self) -> Result<Arc<Keys>> {
        let (now, now_ns) = (self.host.now_ns() / 1_000_000_000, self.host.monotonic_ns());
        let usable = {
            let state = lock(&self.state);
            let loaded =
                state.loaded.clone().filter(|it| it.expires.is_none_or(|expires| now < expires));
            let is_fresh = |it: &Loaded| {
                it.expires.is_none_or(|expires| now + RENEWED_BEFORE.as_secs() < expires)
            };
            match loaded {
                Some(loaded) if is_fresh(&loaded) || now_ns < state.resumes_ns => {
                    return Ok(loaded.keys);
                }
                loaded => loaded,
            }
        };
        let result = self.load().await;
        self.problem.update(&result);
        let mut state = lock(&self.state);
        match (result, usable) {
            (Ok(loaded), _) => {
                let keys = loaded.keys.clone();
                state.loaded = Some(loaded);
                Ok(keys)
            }
            (Err(_), Some(usable)) => {
                state.resumes_ns = now_ns.saturating_add(RETRIED_AFTER.as_secs() * 1_000_000_000);
                Ok(usable.keys)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Forgets the keys, because the server does not accept them. Returns whether other keys may be loaded.
    pub(super) fn forget(&self) -> bool {
        let is_fixed = |source: &Source| matches!(source, Source::Keys(_) | Source::Environment);
        !self.sources.iter().all(is_fixed) && lock(&self.state).loaded.take().is_some()
    }

    async fn load(&self) -> Result<Loaded> {
        let mut problems = Vec::new();
        for source in &self.sources {
            match self.load_from(source).await {
                Ok(Some(loaded)) => return Ok(loaded),
                Ok(None) => {}
                Err(error) if self.sources.len() == 1 => return Err(error),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let problems =
            if problems.is_empty() { String::new() } else { format!(" ({})", problems.join("; ")) };
        Err(Error::authentication(format_args!(
            "found no keys to sign requests with{problems}: set `credentials`, or the environment variables \
             `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`"
        )))
    }

    /// Returns the keys of a source, or `None` if it is not in use.
    async fn load_from(&self, source: &Source) -> Result<Option<Loaded>> {
        match source {
            Source::Keys(loaded) => Ok(Some(loaded.clone())),
            Source::Environment => self.of_environment(),
            Source::File { path, profile } => {
                let home =
                    || Some(PathBuf::from((self.variables)("HOME")?).join(".aws/credentials"));
                let named = || (self.variables)("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
                let Some(path) = path.clone().or_else(named).or_else(home) else { return Ok(None) };
                let profile = profile.clone().or_else(|| (self.variables)("AWS_PROFILE"));
                let is_only = self.sources.len() == 1;
                let profile = profile.unwrap_or_else(|| "default".to_owned());
                let loaded =
                    self.host.blocking(move || file::load(&path, &profile, is_only)).await??;
                Ok(loaded.map(Loaded::from))
            }
            Source::Service(service) => service.load(self.variables).await.map(Some),
        }
    }

    fn of_environment(&self) -> Result<Option<Loaded>> {
        let variable = |name| (self.variables)(name);
        let keys = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
        let (access_key_id, secret_access_key) = match keys {
            (Some(id), Some(secret)) => (id, secret),
            (None, None) if self.sources.len() > 1 => return Ok(None),
            (id, _) => {
                let missing =
                    if id.is_none() { "AWS_ACCESS_KEY_ID" } else { "AWS_SECRET_ACCESS_KEY" };
                return Err(Error::authentication(format_args!(
                    "the environment variable `{missing}` is not set; set it, or set `credentials`"
                )));
            }
        };
        let session_token = variable("AWS_SESSION_TOKEN");
        check(&access_key_id, session_token.as_deref(), "the environment variables of AWS")?;
        Ok(Some(Keys { access_key_id, secret_access_key, session_token }.into()))
    }
}

fn configured(keys: &AccessKeys) -> Result<Keys> {
    let AccessKeys { access_key_id, secret_access_key, session_token } = keys.clone();
    if secret_access_key.is_empty() {
        return Err(Error::configuration(
            "invalid `credentials.keys.secret_access_key`: it is empty",
        ));
    }
    check(&access_key_id, session_token.as_deref(), "`credentials.keys`")
        .map_err(|error| Error::configuration(error.message()))?;
    Ok(Keys { access_key_id, secret_access_key, session_token })
}

/// Checks that keys can be sent in headers. The error does not contain them.
fn check(access_key_id: &str, session_token: Option<&str>, origin: &str) -> Result<()> {
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
    let key = match (is_word(access_key_id), session_token.is_none_or(is_word)) {
        (true, true) => return Ok(()),
        (false, _) => "access key ID",
        (_, false) => "session token",
    };
    Err(Error::authentication(format_args!(
        "invalid {key} in {origin}: expected visible characters of ASCII, without spaces"
    )))
}

#[cfg(test)]
mod tests;
