//! More files than may be open.

use std::{collections::BTreeMap, env, fs, path::Path, process::Command, sync::Arc};

use tremor_pdk::{Exceptions, RawBatch, testing::TestHost};

use super::{Scene, batch};
use crate::{
    Config,
    write::{
        syncing::Due,
        targets::{Groups, Targets, Written},
    },
};

/// Environment variable that marks the test's child process, which may have 256 descriptors.
const LIMITED: &str = "FILE_TEST_HAS_FEW_DESCRIPTORS";

#[test]
fn ten_thousand_hosts_need_few_descriptors() {
    if env::var_os(LIMITED).is_none() {
        let name = "write::targets::tests::many::ten_thousand_hosts_need_few_descriptors";
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"ulimit -n 256; exec "$0" --exact --nocapture "$1""#]);
        shell.arg(env::current_exe().unwrap()).arg(name).env(LIMITED, "1");
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    // The default is a quarter of the descriptors.
    for (keys, most) in [("", 64), (r#""max_open_files": 200"#, 200)] {
        let mut scene = Scene::new("{host}.log", keys);
        let hosts: Vec<_> = (0..10_000).map(|number| format!("host-{number}")).collect();
        for round in 0..2 {
            for hosts in hosts.chunks(2_500) {
                let texts: Vec<_> = hosts.iter().map(|host| format!("{host} {round}\n")).collect();
                let texts = texts.iter().map(String::as_str);
                scene.deliver(&hosts.iter().zip(texts).collect::<Vec<_>>());
                assert_eq!(scene.open_files(), most);
            }
        }
        let file = |host: &String| (format!("{host}.log"), format!("{host} 0\n{host} 1\n"));
        let expected: BTreeMap<_, _> = hosts.iter().map(file).collect();
        assert!(scene.contents() == expected, "each event is in exactly one file");
        scene.sink.stop().unwrap();
    }
}

/// Other components may use the descriptors of the process.
#[test]
fn shortage_of_descriptors_closes_files() {
    const CHILD: &str = "FILE_TEST_LACKS_DESCRIPTORS";
    if env::var_os(CHILD).is_none() {
        let name = "write::targets::tests::many::shortage_of_descriptors_closes_files";
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"ulimit -n 64; exec "$0" --exact --nocapture "$1""#]);
        shell.arg(env::current_exe().unwrap()).arg(name).env(CHILD, "1");
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let mut scene = Scene::new("{host}/x", r#""max_open_files": 1000"#);
    let hosts: Vec<_> = (0..200).map(|number| number.to_string()).collect();
    for _ in 0..2 {
        scene.deliver(&hosts.iter().map(|host| (host, "1\n")).collect::<Vec<_>>());
    }
    assert!(scene.open_files() < 60, "other components need descriptors");
    assert!(scene.host.log()[0].1.contains("from now on, at most"));
    let contents = scene.contents();
    assert!(contents.len() == 200 && contents.values().all(|text| text == "1\n1\n"));
}

/// Creates files below a folder, of which one may be open.
fn targets(host: &TestHost, folder: &Path, keys: &str) -> Arc<Targets> {
    let path = folder.join("{host}");
    let config = format!(
        r#"{{ "path": "{}", "mode": "append", "max_open_files": 1, {keys} }}"#,
        path.display()
    );
    let config: Config = serde_json::from_str(&config).unwrap();
    let config = config.check(&host.context()).unwrap();
    Arc::new(Targets::new(&config, config.by_event.as_ref().unwrap(), host.host()).unwrap())
}

#[test]
fn closed_file_is_synced_before_its_events_are_acknowledged() {
    for sync in ["batch", "interval"] {
        let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::new());
        let targets = targets(&host, folder.path(), &format!(r#""sync": "{sync}""#));
        let write = |name: &str| -> Written {
            let batch = RawBatch::from(batch(&[(name, "1\n")]));
            let mut exceptions = Exceptions::none();
            let mut namer = targets.namer.lock().unwrap();
            let groups =
                Groups::of(&batch, &mut namer, &mut exceptions, host.host().memory(), |_| Ok(()));
            let groups = groups.unwrap();
            let mut answers = vec![None];
            targets.write(batch.bytes(), &groups, &mut answers);
            answers.pop().flatten().unwrap().unwrap().unwrap()
        };
        let a = write("a");
        assert_eq!(a.due(0), Due::Now);
        assert!(a.output.upgrade().is_some());
        let b = write("b");
        assert!(a.output.upgrade().is_none(), "the limit is one file");
        assert_eq!((a.due(0), b.due(0)), (Due::Never, Due::Now));
        a.sync(0).unwrap();
        b.sync(0).unwrap();
        assert_eq!(b.due(0), Due::Never);
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "1\n");
    }
}

#[test]
fn order_is_kept_although_files_are_closed_and_opened() {
    let mut scene = Scene::new("{host}", r#""max_open_files": 2"#);
    let mut expected = BTreeMap::<String, String>::new();
    for number in 0..50_u32 {
        let events: Vec<_> = (0..7)
            .map(|it| ((it * number + it % 3) % 5, format!("{number} {it}\n")))
            .map(|(host, text)| (format!("host-{host}"), text))
            .collect();
        for (host, text) in &events {
            expected.entry(host.clone()).or_default().push_str(text);
        }
        scene.deliver(&events.iter().map(|(host, text)| (host, &**text)).collect::<Vec<_>>());
    }
    assert_eq!(scene.contents(), expected);
}
