//! Questions whether a peer has processed what it has accepted, and the channels of requests.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper::{
    HeaderMap,
    body::Bytes,
    header::{HeaderName, HeaderValue},
};
use tremor_pdk::lock;

use super::url::Url;

/// A request that asks whether the peer has processed the items of an earlier request.
pub(crate) struct Question {
    pub(crate) url: Url,
    /// The body, which is JSON.
    pub(crate) body: Bytes,
    /// Maximum time until the peer answers that it has processed the items.
    pub(crate) within: Duration,
}

/// Channels of a peer that numbers the requests of each channel from 0 on, and begins again after a restart. A request has
/// a channel for itself until its question is answered, so that a number cannot be that of another request.
pub(crate) struct Channels {
    header: HeaderName,
    free: Arc<Mutex<Vec<HeaderValue>>>,
}

/// A channel that a request uses. It is free again when this value is dropped.
pub(crate) struct Channel {
    header: HeaderName,
    value: HeaderValue,
    free: Arc<Mutex<Vec<HeaderValue>>>,
}

impl Channels {
    /// Creates channels whose names are random GUIDs, in this header.
    pub(crate) fn new(header: HeaderName) -> Self {
        Self { header, free: Arc::default() }
    }

    /// Returns a free channel.
    pub(crate) fn take(&self) -> Channel {
        let value = lock(&self.free).pop().unwrap_or_else(guid);
        Channel { header: self.header.clone(), value, free: self.free.clone() }
    }
}

impl Channel {
    /// Returns headers with the one of the channel.
    pub(super) fn added_to(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = headers.clone();
        headers.insert(self.header.clone(), self.value.clone());
        headers
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        lock(&self.free).push(self.value.clone());
    }
}

/// Returns a random GUID, of version 4 of RFC 9562.
fn guid() -> HeaderValue {
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random(), random());
    let (version, variant) = (high & 0xfff, (low >> 48) & 0x3fff | 0x8000);
    let text = format!(
        "{:08x}-{:04x}-4{version:03x}-{variant:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        low & 0xffff_ffff_ffff
    );
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("tremor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_is_used_by_one_request_at_a_time() {
        let channels = Channels::new(HeaderName::from_static("x-channel"));
        let value = |channel: &Channel| channel.value.to_str().unwrap().to_owned();
        let (first, second) = (channels.take(), channels.take());
        let names = [value(&first), value(&second)];
        assert_ne!(names[0], names[1]);
        drop(first);
        let third = channels.take();
        assert_eq!(value(&third), names[0]);
        assert_eq!(third.added_to(&HeaderMap::new())["x-channel"], names[0]);
        let parts: Vec<_> = names[1].split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(
            names[1].as_bytes()[14] == b'4' && b"89ab".contains(&names[1].as_bytes()[19]),
            "{}",
            names[1]
        );
    }
}
