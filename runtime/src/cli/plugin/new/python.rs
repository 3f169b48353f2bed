//! `tremor plugin new --lang python`: creates a plugin in Python, with the package that it needs.

use std::path::Path;

use minijinja::{Environment, Error, UndefinedBehavior, context, syntax::SyntaxConfig};

use super::{
    Failure, Kind, Name, PluginArguments, notes_of_path, print, quoted, run_command, write,
};

// `PACKAGE` and `TEMPLATE`, which the build script finds in `sdk/python`: pairs of a path and the contents.
include!(concat!(env!("OUT_DIR"), "/python.rs"));

/// End of the names of templates.
const RENDERED: &str = ".j2";

/// Keywords of Python, and modules that come with it. A plugin with such a name would replace the module.
const RESERVED: &str = " abc aifc and antigravity argparse array as assert ast async asynchat asyncio asyncore atexit audioop \
    await base64 bdb binascii bisect break builtins bz2 calendar cgi cgitb chunk class cmath cmd code codecs \
    codeop collections colorsys compileall concurrent configparser contextlib contextvars continue copy \
    copyreg crypt csv ctypes curses dataclasses datetime dbm decimal def del difflib dis distutils doctest \
    elif else email encodings ensurepip enum errno except faulthandler fcntl filecmp fileinput finally \
    fnmatch for fractions from ftplib functools gc genericpath getopt getpass gettext glob global graphlib \
    grp gzip hashlib heapq hmac html http idlelib if imaplib imghdr imp import importlib in inspect io \
    ipaddress is itertools json keyword lambda lib2to3 linecache locale logging lzma mailbox mailcap marshal \
    math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nonlocal not nt ntpath \
    nturl2path numbers opcode operator optparse or os ossaudiodev pass pathlib pdb pickle pickletools pipes \
    pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc \
    pydoc_data pyexpat queue quopri raise random re readline reprlib resource return rlcompleter runpy sched \
    secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd \
    sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess \
    sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios test_plugin textwrap \
    this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tremor try tty \
    turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser \
    while winreg winsound with wsgiref xdrlib xml xmlrpc yield zipapp zipfile zipimport zlib zoneinfo ";

pub(super) fn execute(
    name: &str,
    kind: Option<Kind>,
    path: Option<&Path>,
    pdk: Option<&str>,
    plugins: &PluginArguments,
) -> Result<(), Failure> {
    let (kind, description) = match kind {
        None | Some(Kind::Source) => ("source", "Counts down to one."),
        Some(Kind::Sink) => ("sink", "Writes each event to the log, after a prefix."),
        Some(_) => {
            return Err(Failure::of_usage(format_args!(
                "error: a plugin in Python is a source or a sink\n  help: give `--kind source` or `--kind sink`, or \
                 create the plugin in Rust"
            )));
        }
    };
    if pdk.is_some() {
        return Err(Failure::of_usage(format_args!(
            "error: a plugin in Python has no `tremor-pdk`\n  help: remove `--pdk`"
        )));
    }
    let name = Name::parse(name, Kind::Connector, "")?;
    let module = name.as_str().replace('-', "_");
    if RESERVED.contains(&format!(" {module} ")) {
        return Err(Failure::of_usage(format_args!(
            "error: `{module}` cannot be the name of a plugin: Python reserves it, or has a module of that name\n  \
             help: choose another name, such as one with a prefix"
        )));
    }
    let folder = path.unwrap_or(Path::new(name.as_str()));
    let files = render(&name, &module, kind, description).map_err(|error| {
        Failure::of_usage(format_args!("error: cannot render the templates: {error}"))
    })?;
    write(folder, &files)?;
    let own = files.iter().map(|(name, _)| &**name).filter(|name| !name.starts_with(PREFIX));
    print(&format!(
        "created {folder}: {own}, and the package `tremor`\n\nNext:\n\n  cd {folder}\n  python3 -m unittest\n  \
         {run}\n{notes}",
        folder = quoted(folder),
        own = own.collect::<Vec<_>>().join(", "),
        run = run_command(plugins),
        notes = notes_of_path(plugins),
    ))
}

/// Folder of the package in a plugin. Python searches modules in the folder of the program first.
const PREFIX: &str = "tremor/";

/// Returns the files of a plugin, each with its path in the folder of the plugin.
///
/// # Errors
/// A template is invalid, which a test rules out.
fn render(
    name: &Name,
    module: &str,
    kind: &str,
    description: &str,
) -> Result<Vec<(String, String)>, Error> {
    let (type_name, name) = (name.type_name(), name.as_str());
    let values = context! { name, module, type => type_name, kind, description };
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
    let mut files = Vec::new();
    for (path, text) in TEMPLATE {
        // The templates of the other kinds are in folders of their own.
        let path = match path.split_once('/') {
            Some((folder, path)) if folder == kind => path,
            Some(_) => continue,
            None => path,
        };
        let path = match path.strip_suffix(RENDERED).unwrap_or(path) {
            "gitignore" => ".gitignore".to_owned(),
            "plugin.json" => format!("{name}.plugin.json"),
            "plugin.py" => format!("{module}.py"),
            path => path.to_owned(),
        };
        files.push((path, environment.render_str(text, &values)?));
    }
    files.sort();
    files
        .extend(PACKAGE.iter().map(|(path, text)| (format!("{PREFIX}{path}"), (*text).to_owned())));
    Ok(files)
}
