//! Metadata of a file: `%file`, and `%kubernetes` for the log of a container.

use std::{borrow::Cow, path::Path};

use tremor_pdk::{Origin, RawBatch, Writer};

/// Returns the origin of the events of a file.
pub(crate) fn of(path: &Path) -> Origin {
    let metadata = FileMetadata::new(path);
    Origin::new(metadata.path(), |writer| metadata.write(writer, None))
}

/// Metadata of the events of a file. Bytes of the path that are not UTF-8 are replaced by U+FFFD.
pub(crate) struct FileMetadata<'p> {
    path: Cow<'p, str>,
    name: Cow<'p, str>,
}

impl<'p> FileMetadata<'p> {
    pub(crate) fn new(path: &'p Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self { path: path.to_string_lossy(), name }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Sets the metadata of the last event of a batch, with the offset of the event in the file.
    pub(crate) fn apply(&self, batch: &mut RawBatch, offset: Option<u64>) {
        if let Some(mut event) = batch.last_mut() {
            let written = event.write_metadata(|writer| self.write(writer, offset));
            debug_assert!(written.is_ok(), "incomplete metadata: {written:?}");
        }
    }

    fn write(&self, writer: &mut Writer<'_>, offset: Option<u64>) {
        writer.begin_object();
        writer.key("file");
        writer.begin_object();
        writer.key("path");
        writer.str(&self.path);
        writer.key("name");
        writer.str(&self.name);
        if let Some(offset) = offset {
            writer.key("offset");
            writer.u64(offset);
        }
        writer.end_object();
        if let Some(container) = Container::of(&self.path) {
            writer.key("kubernetes");
            writer.begin_object();
            writer.key("namespace");
            writer.str(container.namespace);
            writer.key("pod");
            writer.str(container.pod);
            writer.key("container");
            writer.str(container.name);
            writer.end_object();
        }
        writer.end_object();
    }
}

/// The container of a log file that the kubelet of a Kubernetes node has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Container<'p> {
    namespace: &'p str,
    pod: &'p str,
    name: &'p str,
}

impl<'p> Container<'p> {
    /// Parses the end of a path, in any folder, because agents mount the logs of their node in
    /// different folders: `pods/NAMESPACE_POD_UID/CONTAINER/N.log`, also after a rotation, or
    /// `containers/POD_NAMESPACE_CONTAINER-ID.log`. Returns `None` for another path.
    fn of(path: &'p str) -> Option<Self> {
        let mut parts = path.rsplit('/');
        let (file, folder) = (parts.next()?, parts.next()?);
        let found = if folder == "containers" {
            let [pod, namespace, last] = three(file.strip_suffix(".log")?)?;
            let (name, id) = last.rsplit_once('-')?;
            (id.len() == 64 && is_hex(id)).then_some(Self { namespace, pod, name })?
        } else {
            let (number, after) = file.split_once(".log")?;
            let is_log = !number.is_empty()
                && number.bytes().all(|it| it.is_ascii_digit())
                && (after.is_empty() || after.starts_with('.'));
            let [namespace, pod, uid] = three(parts.next()?)?;
            // The UID of a pod is a UUID, or the MD5 of the manifest of a static pod.
            let is_pod = matches!(uid.len(), 32 | 36) && uid.split('-').all(is_hex);
            (is_log && is_pod && parts.next() == Some("pods")).then_some(Self {
                namespace,
                pod,
                name: folder,
            })?
        };
        let is_name = |name: &str| {
            let may_have =
                |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-' || it == b'.';
            !name.is_empty() && name.bytes().all(may_have)
        };
        [found.namespace, found.pod, found.name].into_iter().all(is_name).then_some(found)
    }
}

/// Returns the three parts of a text with two underscores. Names in Kubernetes contain no
/// underscores.
fn three(text: &str) -> Option<[&str; 3]> {
    let mut parts = text.split('_');
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use super::Container;

    const UID: &str = "12345678-1234-1234-1234-123456789abc";

    fn metadata(path: &Path) -> String {
        super::of(path).metadata().unwrap().to_string()
    }

    #[test]
    fn metadata_has_path_and_name_of_the_file() {
        let path = Path::new("/var/log/nginx/access.log");
        let expected = r#"{"file":{"path":"/var/log/nginx/access.log","name":"access.log"}}"#;
        assert_eq!(metadata(path), expected);
        assert_eq!(super::of(path).text(), "/var/log/nginx/access.log");
        let path = Path::new(OsStr::from_bytes(b"/var/\xe4.log"));
        assert_eq!(
            metadata(path),
            "{\"file\":{\"path\":\"/var/\u{fffd}.log\",\"name\":\"\u{fffd}.log\"}}"
        );
    }

    #[test]
    fn log_of_a_container_has_its_namespace_pod_and_name() {
        let id = "0123456789abcdef".repeat(4);
        let hash = "0123456789abcdef".repeat(2);
        let expected = Container { namespace: "shop", pod: "cart-7d4b.x", name: "web" };
        for path in [
            format!("/var/log/pods/shop_cart-7d4b.x_{UID}/web/0.log"),
            format!("/var/log/pods/shop_cart-7d4b.x_{hash}/web/12.log"),
            format!("/host/logs/pods/shop_cart-7d4b.x_{UID}/web/0.log.20261126-101500"),
            format!("/host/logs/pods/shop_cart-7d4b.x_{UID}/web/0.log.20261126-101500.gz"),
            format!("/var/log/containers/cart-7d4b.x_shop_web-{id}.log"),
        ] {
            assert_eq!(Container::of(&path), Some(expected), "{path}");
        }
        let path = format!("/var/log/pods/shop_cart_{UID}/web/0.log");
        let expected = format!(
            r#"{{"file":{{"path":"{path}","name":"0.log"}},"kubernetes":{{"namespace":"shop","pod":"cart","container":"web"}}}}"#
        );
        assert_eq!(metadata(Path::new(&path)), expected);
    }

    #[test]
    fn other_paths_have_no_container() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            String::new(),
            "0.log".to_owned(),
            format!("/var/log/pods/shop_cart_{UID}/web/current.log"),
            format!("/var/log/pods/shop_cart_{UID}/web/0.logs"),
            format!("/var/log/pods/shop_cart_{UID}/web/.log"),
            format!("/var/log/pods/shop_cart_more_{UID}/web/0.log"),
            format!("/var/log/pods/shop_cart_{UID}x/web/0.log"),
            format!("/var/log/pods/_cart_{UID}/web/0.log"),
            format!("/var/log/pod/shop_cart_{UID}/web/0.log"),
            format!("/pods/shop_cart_{UID}/0.log"),
            format!("/var/log/containers/cart_shop_web-{id}.txt"),
            format!("/var/log/containers/cart_shop_web-{}.log", &id[1..]),
            format!("/var/log/containers/cart_web-{id}.log"),
        ] {
            assert_eq!(Container::of(&path), None, "{path}");
        }
    }
}
