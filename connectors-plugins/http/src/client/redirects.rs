//! Redirects of the requests of a source.

use hyper::{StatusCode, header::LOCATION};

use super::settings::Settings;
use crate::exchange::{Answer, Url};

/// Returns the target of a redirect, or `None` for another response or if the target is not a URL.
fn target(url: &Url, answer: &Answer) -> Option<Url> {
    let is_redirect = matches!(
        answer.status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = answer.headers.get(LOCATION).filter(|_| is_redirect)?;
    url.join(location.to_str().ok()?).ok()
}

/// Returns the URL to which a response of `url` redirects a request, if the request may follow. A request never follows
/// to another origin, because the configured credentials and headers are for the origin of `url`.
pub(crate) fn redirected(url: &Url, answer: &Answer) -> Option<Url> {
    target(url, answer).filter(|target| target.is_same_origin(url))
}

/// Returns the reason for which a redirect was not followed, and the remedy.
pub(crate) fn not_followed(settings: &Settings, url: &Url, answer: &Answer) -> String {
    let config = &settings.config;
    match (config.redirects, target(url, answer)) {
        (0, _) if config.interval.is_none() => {
            "redirects are not followed, set `url` to the target".to_owned()
        }
        (0, _) => "redirects are not followed, set `url` to the target, or `redirects` to the number of redirects \
                   to follow"
            .to_owned(),
        (_, None) => "the target is not a URL that can be followed".to_owned(),
        (_, Some(target)) if !target.is_same_origin(url) => {
            "redirects to another scheme, host or port are not followed, set `url` to the target".to_owned()
        }
        (most, _) => format!("the request has already followed `redirects: {most}`"),
    }
}
