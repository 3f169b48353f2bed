//! Plugins that are programs: their manifests, and their commands.
//!
//! `docs/isolation.md` describes the keys of a manifest, for authors of such plugins.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::File,
    io::Read,
    path::{self, Path, PathBuf},
};

use rustix::fs::Access;
use serde_json::{Map, Value as Json};
use tremor_abi::metadata::{ArtefactMetadata, Metadata};
use tremor_pdk::Sides;

use super::{
    Error, ErrorKind,
    access::{self, Objection},
};
use crate::is_name;

/// Version of the protocol between the runtime and the processes of plugins.
pub(super) const PROTOCOL: u64 = 1;

/// End of the names of manifests.
const SUFFIX: &str = ".plugin.json";

/// Maximum size of a manifest, in bytes.
const LARGEST: u64 = 1 << 20;

/// Codec of a connector whose manifest names none.
const CODEC: &str = "json";

/// Maximum number of characters of a command, or of a wrong value, that a message shows.
const SHOWN: usize = 60;

/// The program of a plugin, and the connectors that it provides.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Folder of the manifest, in which the program runs.
    folder: PathBuf,
    /// Name or path of the program, followed by its arguments. Never empty.
    command: Vec<String>,
    connectors: BTreeMap<String, Connector>,
}

/// Properties of a connector that metadata does not have.
#[derive(Debug)]
struct Connector {
    /// JSON Schema of the configuration.
    schema: Option<Json>,
    /// Sides that an instance may have.
    sides: Sides,
}

/// Returns whether a file is a manifest according to its name.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()))
}

impl Executable {
    /// Reads a manifest. `canonical` is its path without symbolic links.
    ///
    /// # Errors
    /// Errors of [`Self::parse`], and kind [`Unreadable`](ErrorKind::Unreadable).
    pub(super) fn read(
        path: &Path,
        canonical: &Path,
        file: &File,
    ) -> Result<(Metadata, Self), Error> {
        let mut text = Vec::new();
        let unreadable = |why: &dyn fmt::Display| {
            Error::new(ErrorKind::Unreadable, path, format_args!("cannot be read: {why}"))
        };
        file.take(LARGEST + 1).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
        if text.len() as u64 > LARGEST {
            return Err(unreadable(&"larger than 1 MiB, too large for the manifest of a plugin"));
        }
        Self::parse(path, canonical.parent().unwrap_or(Path::new("/")), &text)
    }

    /// Returns the objection to running the program, if it is named by a path.
    pub(super) fn objection(&self) -> Option<Objection> {
        let program = self.named_program()?;
        access::objection(&program, &program.canonicalize().ok()?)
    }

    /// Reads the manifest `text` of the file `path`, which is in `folder`. Unknown keys are ignored.
    ///
    /// # Errors
    /// Kinds [`BadMetadata`](ErrorKind::BadMetadata), and [`AbiVersion`](ErrorKind::AbiVersion) if the plugin was
    /// written for another version of the protocol.
    fn parse(path: &Path, folder: &Path, text: &[u8]) -> Result<(Metadata, Self), Error> {
        let json: Json = serde_json::from_slice(text).map_err(|error| {
            Error::new(
                ErrorKind::BadMetadata,
                path,
                format_args!("the manifest of the plugin is not JSON: {error}"),
            )
        })?;
        let manifest = Object::new(path, String::new(), &json)?;
        let protocol = manifest.required("protocol", "a number", Json::as_u64)?;
        if protocol != PROTOCOL {
            let message = format!("written for version {protocol} of the protocol of processes");
            return Err(Error::new(ErrorKind::AbiVersion, path, message)
                .expected(format_args!("`\"protocol\": {PROTOCOL}`"))
                .help("update tremor or the plugin, so that both use the same version"));
        }
        let command = manifest.required("command", COMMAND, command)?;
        let all = manifest.required("connectors", CONNECTORS, Json::as_array)?;
        let (mut artefacts, mut connectors) = (Vec::new(), BTreeMap::new());
        for (position, value) in all.iter().enumerate() {
            let object = Object::new(path, format!("connectors[{position}]"), value)?;
            let (artefact, connector) = object.connector()?;
            if connectors.insert(artefact.name.clone(), connector).is_some() {
                return Err(
                    object.wrong("name", "a name that no other connector of the plugin has")
                );
            }
            artefacts.push(artefact);
        }
        if artefacts.is_empty() {
            return Err(manifest.wrong("connectors", CONNECTORS));
        }
        let metadata = Metadata {
            name: manifest.required("name", LINE, line)?,
            version: manifest.required("version", LINE, line)?,
            description: manifest.optional("about", LINE, line)?.unwrap_or_default(),
            abi: format!("protocol {PROTOCOL}"),
            interface: "executable".to_owned(),
            pdk: None,
            panic: None,
            artefacts,
        };
        Ok((metadata, Self { folder: folder.to_owned(), command, connectors }))
    }

    /// Returns the name or path of the program, followed by its arguments.
    pub(super) fn command(&self) -> &[String] {
        &self.command
    }

    /// Returns the folder in which the program runs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the JSON Schema of a connector's configuration.
    pub(super) fn schema(&self, connector: &str) -> Option<&Json> {
        self.connectors.get(connector)?.schema.as_ref()
    }

    /// Returns the sides that instances of a connector may have.
    pub(super) fn sides(&self, connector: &str) -> Sides {
        self.connectors.get(connector).map_or(Sides::BOTH, |connector| connector.sides)
    }

    /// Returns the path of the program if it is named by a path.
    fn named_program(&self) -> Option<PathBuf> {
        let name = &self.command[0];
        let path = name.strip_prefix("./").unwrap_or(name);
        name.contains('/').then(|| self.folder.join(path))
    }

    /// Finds the program: at its path, or in the folders of `PATH`.
    ///
    /// `manifest` is the path of the manifest, for messages.
    ///
    /// # Errors
    /// Kind [`Describe`](ErrorKind::Describe), if there is no such program that this process may run.
    pub(super) fn program(&self, manifest: &Path) -> Result<PathBuf, Error> {
        let is_program =
            |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
        let failed =
            |message: fmt::Arguments<'_>| Error::new(ErrorKind::Describe, manifest, message);
        let name = &self.command[0];
        if let Some(path) = self.named_program() {
            let shown = path.display();
            return match path.is_file() {
                true if is_program(&path) => Ok(path),
                true => Err(failed(format_args!("its program `{shown}` is not executable"))
                    .help(format_args!("`chmod +x {shown}`"))),
                false => Err(failed(format_args!("its program `{shown}` does not exist"))
                    .help("correct `command`: a path is relative to the folder of the manifest")),
            };
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&folders).map(|folder| folder.join(name));
        let program = programs.find(|path| is_program(path));
        // The process runs in another folder.
        program.and_then(|path| path::absolute(path).ok()).ok_or_else(|| {
            failed(format_args!(
                "its program `{name}` was not found in PATH, which is `{}`",
                folders.display()
            ))
            .help(format_args!(
                "install `{name}`, or write its path to `command`, such as `./{name}` in the folder of the manifest"
            ))
        })
    }
}

/// Displays the beginning of the command.
impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(self.command.join(" ")))
    }
}

const COMMAND: &str = "the program and its arguments, such as `[\"python3\", \"-m\", \"numbers\"]`";
const CONNECTORS: &str = "an array with an object for each connector";
const LINE: &str = "a text of one line";
const NAME: &str =
    "a text of ASCII letters, digits, `_`, `-` and `.`, not beginning with `-` or `.`";

/// Returns the command in a value. The system accepts no zero byte.
fn command(value: &Json) -> Option<Vec<String>> {
    let words = value.as_array()?.iter();
    let words = words.map(|word| word.as_str().filter(|word| !word.contains('\0')));
    let words: Vec<String> = words.map(|word| word.map(str::to_owned)).collect::<Option<_>>()?;
    words.first().is_some_and(|program| !program.is_empty()).then_some(words)
}

/// Returns the text in a value, if it can be shown in one line.
fn line(value: &Json) -> Option<String> {
    let text = value.as_str()?;
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// An object of a manifest.
struct Object<'m> {
    path: &'m Path,
    /// Path of the object in the manifest, such as `connectors[0]`; empty for the manifest.
    name: String,
    keys: &'m Map<String, Json>,
}

impl<'m> Object<'m> {
    fn new(path: &'m Path, name: String, value: &'m Json) -> Result<Self, Error> {
        match value {
            Json::Object(keys) => Ok(Self { path, name, keys }),
            _ => {
                let what = if name.is_empty() { "it".to_owned() } else { format!("`{name}`") };
                let message =
                    format_args!("invalid manifest of the plugin: {what} is {}", shown(value));
                Err(Error::new(ErrorKind::BadMetadata, path, message).expected("an object"))
            }
        }
    }

    /// Reads a connector.
    fn connector(&self) -> Result<(ArtefactMetadata, Connector), Error> {
        let name = |value: &Json| value.as_str().filter(|name| is_name(name)).map(str::to_owned);
        let schema = |value: &Json| value.is_object().then(|| value.clone());
        let side = |key| self.optional(key, "`true` or `false`", Json::as_bool);
        let sides = Sides::new(side("source")?.unwrap_or(true), side("sink")?.unwrap_or(true));
        if sides == Sides::NONE {
            return Err(self.wrong("sink", "`true` for `source`, `sink` or both"));
        }
        let artefact = ArtefactMetadata {
            kind: "connector".to_owned(),
            name: self.required("name", NAME, name)?,
            description: self.optional("about", LINE, line)?.unwrap_or_default(),
            codec: Some("optional".to_owned()),
            default_codec: self
                .optional("codec", "the name of a codec, such as `json`", line)?
                .or_else(|| Some(CODEC.to_owned())),
            stateless: false,
        };
        let schema = self.optional("config", "a JSON Schema, which is an object", schema)?;
        Ok((artefact, Connector { schema, sides }))
    }

    /// Reads the value of a key, if there is one.
    fn optional<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'m Json) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.keys.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(key, expected))
    }

    /// Reads the value of a key that has to exist.
    fn required<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'m Json) -> Option<T>,
    ) -> Result<T, Error> {
        self.optional(key, expected, read)?.ok_or_else(|| self.wrong(key, expected))
    }

    /// Returns the error of the value of a key, or of a key that is missing.
    fn wrong(&self, key: &str, expected: &str) -> Error {
        let name =
            if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        let found = self
            .keys
            .get(key)
            .map_or_else(|| "is missing".to_owned(), |value| format!("is {}", shown(value)));
        let message = format_args!("invalid manifest of the plugin: `{name}` {found}");
        Error::new(ErrorKind::BadMetadata, self.path, message).expected(expected)
    }
}

/// Returns a value for messages.
fn shown(value: &Json) -> String {
    format!("`{}`", shortened(value.to_string()))
}

/// Returns the beginning of a text.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value as Json, json};
    use tremor_pdk::Sides;

    use super::{Executable, is_manifest};
    use crate::plugin::{Error, ErrorKind};

    fn manifest() -> Json {
        json!({
            "protocol": 1, "name": "redis", "version": "0.1.0", "command": ["python3", "-m", "redis"],
            "connectors": [{ "name": "redis_list" }],
        })
    }

    fn parse(manifest: &Json) -> Result<Executable, Error> {
        let text = manifest.to_string();
        let folder = Path::new("/plugins");
        Executable::parse(Path::new("x.plugin.json"), folder, text.as_bytes()).map(|it| it.1)
    }

    /// Returns the error of the manifest with another value at a JSON pointer; `None` removes the key.
    fn error_of(pointer: &str, value: Option<Json>) -> Error {
        let mut manifest = manifest();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = manifest.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => _ = parent.insert(key.to_owned(), value),
            None => _ = parent.remove(key),
        }
        parse(&manifest).unwrap_err()
    }

    #[test]
    fn manifests_are_recognised_by_their_names() {
        assert!(is_manifest(Path::new("a/redis.plugin.json")));
        for other in ["plugin.json", "redis.json", "redis.plugin.json.bak", "libredis.so", "/"] {
            assert!(!is_manifest(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn keys_have_defaults_and_unknown_ones_are_ignored() {
        let mut text = manifest();
        text["colour"] = "red".into();
        text["connectors"][0]["colour"] = "red".into();
        let folder = Path::new("/plugins");
        let path = Path::new("x.plugin.json");
        let (metadata, executable) =
            Executable::parse(path, folder, text.to_string().as_bytes()).unwrap();
        let artefact = &metadata.artefacts[0];
        assert_eq!((&*artefact.kind, &*artefact.name), ("connector", "redis_list"));
        assert_eq!(artefact.codec.as_deref(), Some("optional"));
        assert_eq!(artefact.default_codec.as_deref(), Some("json"));
        assert_eq!(executable.sides("redis_list"), Sides::BOTH);
        assert_eq!(executable.schema("redis_list"), None);
        assert_eq!(executable.to_string(), "python3 -m redis");
    }

    #[test]
    fn schema_codec_and_sides_are_those_of_the_manifest() {
        let mut text = manifest();
        let schema = json!({ "type": "object" });
        text["connectors"][0] =
            json!({ "name": "a", "sink": false, "codec": "string", "config": schema });
        let executable = parse(&text).unwrap();
        assert_eq!(executable.sides("a"), Sides::SOURCE);
        assert_eq!(executable.schema("a"), Some(&schema));
    }

    #[test]
    fn wrong_values_name_file_key_and_expectation() {
        for (pointer, value, key, expected) in [
            ("/protocol", None, "`protocol` is missing", "a number"),
            ("/protocol", Some(json!("1")), "`protocol` is `\"1\"`", "a number"),
            ("/name", Some(json!("")), "`name` is `\"\"`", "one line"),
            ("/version", Some(json!("1\n")), "`version` is", "one line"),
            ("/command", Some(json!([])), "`command` is `[]`", "the program and its arguments"),
            ("/command", Some(json!("sh")), "`command` is", "the program and its arguments"),
            ("/command", Some(json!(["sh", 1])), "`command` is", "the program and its arguments"),
            ("/command", Some(json!(["a\0"])), "`command` is", "the program and its arguments"),
            ("/connectors", Some(json!([])), "`connectors` is `[]`", "an array"),
            ("/connectors", Some(json!([7])), "`connectors[0]` is `7`", "an object"),
            (
                "/connectors/0/name",
                Some(json!("-a")),
                "`connectors[0].name` is `\"-a\"`",
                "letters",
            ),
            ("/connectors/0/about", Some(json!(1)), "`connectors[0].about` is `1`", "one line"),
            ("/connectors/0/sink", Some(json!("no")), "`connectors[0].sink` is `\"no\"`", "`true`"),
            ("/connectors/0/codec", Some(json!(null)), "`connectors[0].codec` is `null`", "codec"),
            ("/connectors/0/config", Some(json!(true)), "`connectors[0].config` is", "JSON Schema"),
        ] {
            let error = error_of(pointer, value);
            assert_eq!(error.kind(), ErrorKind::BadMetadata);
            let text = error.to_string();
            let (message, expectation) = text.split_once("\n  expected: ").unwrap();
            assert!(message.starts_with("x.plugin.json: ") && message.contains(key), "{text}");
            assert!(expectation.contains(expected), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_reported_with_its_line() {
        let (path, folder) = (Path::new("x.plugin.json"), Path::new(""));
        let error = Executable::parse(path, folder, b"{\n  'protocol': 1\n}").unwrap_err();
        assert!(error.to_string().contains("not JSON: key must be a string at line 2"), "{error}");
    }

    #[test]
    fn other_version_of_the_protocol_is_refused() {
        let error = error_of("/protocol", Some(json!(2)));
        assert_eq!(error.kind(), ErrorKind::AbiVersion);
        assert!(error.to_string().contains("version 2 of the protocol"), "{error}");
    }

    #[test]
    fn two_connectors_with_the_same_name_are_refused() {
        let connectors = json!([{ "name": "a" }, { "name": "a" }]);
        let error = error_of("/connectors", Some(connectors));
        assert!(error.to_string().contains("`connectors[1].name` is `\"a\"`"), "{error}");
    }

    #[test]
    fn connector_without_a_side_is_refused() {
        let connectors = json!([{ "name": "a", "source": false, "sink": false }]);
        let error = error_of("/connectors", Some(connectors));
        assert!(error.to_string().contains("`true` for `source`, `sink` or both"), "{error}");
    }

    #[test]
    fn missing_programs_are_named_with_the_search_path() {
        let of = |command: &str| {
            let mut text = manifest();
            text["command"] = json!([command]);
            parse(&text).unwrap().program(Path::new("x.plugin.json"))
        };
        assert!(of("sh").unwrap().is_absolute());
        let error = of("no-such-program").unwrap_err().to_string();
        assert!(error.contains("`no-such-program` was not found in PATH"), "{error}");
        let error = of("./run").unwrap_err().to_string();
        assert!(error.contains("`/plugins/run` does not exist"), "{error}");
        let error = of("/etc/passwd").unwrap_err().to_string();
        assert!(error.contains("`/etc/passwd` is not executable"), "{error}");
    }
}
