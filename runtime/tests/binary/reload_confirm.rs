//! Tests of reloads that have to be confirmed, and of the status of reloads, with the real program.

use serde_json::{Value, json};

use crate::{
    api::Asked,
    reload::{names, run, scene, ticks, until_written, write},
};

/// Returns the status of the reloads.
fn status(asked: &Asked) -> Value {
    asked.json("GET", "/v1/flows")["reload"].take()
}

/// Returns the value of a metric without labels, or with the label `result`.
fn metric(asked: &Asked, name: &str) -> String {
    let (_, text) = asked.request("GET", "/metrics");
    let line =
        text.lines().find(|line| line.strip_prefix(name).is_some_and(|it| it.starts_with(' ')));
    line.unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn unconfirmed_reload_returns_to_the_flows_of_before() {
    let mut asked = run(scene(), &[]);
    until_written(&asked, "out-b");
    write(&asked, "b.yaml", &ticks("out-c"));
    write(&asked, "c.yaml", &ticks("out-d"));
    let printed = asked.tremor(&["reload", "--confirm", "500ms"]);
    printed.expect(0, &[]);
    let expected =
        "applied\nthe flows of before return in 1 s, unless `tremor reload --keep` follows\n";
    assert!(printed.stdout.ends_with(expected), "{}", printed.stdout);
    let warning = asked.until_log("the reload was not confirmed, so the flows of before return");
    assert!(warning.contains("WARN") && warning.contains("within=500ms"), "{warning}");
    let returned = asked.until("/v1/flows", |it| it["reload"]["last"]["result"] == "returned");
    let reload = &returned["reload"];
    assert_eq!((&reload["generation"], &reload["returned"]), (&json!(2), &json!(1)));
    let connectors = json!([
        { "connector": "ticks", "change": "kept" },
        { "connector": "output", "change": "replaced", "reason": "`config.path` has changed" },
    ]);
    let changes = json!([
        { "flow": "a", "change": "kept" },
        { "flow": "b", "change": "changed", "connectors": connectors },
        { "flow": "c", "change": "removed" },
    ]);
    assert_eq!(reload["last"]["flows"], changes);
    assert_eq!(names(&asked), ["a", "b"]);
    assert_eq!(metric(&asked, "tremor_last_reload_failed"), "1");
    assert_eq!(metric(&asked, "tremor_reloads_total{result=\"returned\"}"), "1");
    // The flow of before writes again.
    std::fs::remove_file(asked.path().join("out-b")).unwrap();
    asked.json("POST", "/v1/flows/b/connectors/output/restart");
    until_written(&asked, "out-b");
    let again = asked.json("POST", "/v1/reload");
    assert_eq!(again["result"], "applied", "the files were not changed by the return");
    asked.end();
}

#[test]
fn confirmed_reload_stays() {
    let asked = run(scene(), &[]);
    write(&asked, "b.yaml", &ticks("out-c"));
    let applied = asked.json("POST", "/v1/reload?confirm=1h");
    assert_eq!(
        (&applied["result"], &applied["confirm_seconds"]),
        (&json!("applied"), &json!(3600))
    );
    let left = status(&asked)["confirm_seconds"].as_f64().unwrap();
    assert!(left > 0.0 && left <= 3600.0, "{left}");
    assert_eq!(metric(&asked, "tremor_reload_unconfirmed"), "1");
    let kept = asked.tremor(&["reload", "--keep"]);
    kept.expect(0, &[]);
    assert_eq!(kept.stdout, "confirmed\n");
    assert_eq!(status(&asked)["confirm_seconds"], Value::Null);
    assert_eq!(metric(&asked, "tremor_reload_unconfirmed"), "0");
    asked.tremor(&["reload", "--keep"]).expect(
        1,
        &["status 409: no reload waits for a confirmation: it was confirmed already, or its time"],
    );
    // A reload without a time is a confirmation, also of earlier ones.
    write(&asked, "b.yaml", &ticks("out-d"));
    asked.json("POST", "/v1/reload?confirm=1h");
    assert_eq!(asked.json("POST", "/v1/reload")["confirm_seconds"], Value::Null);
    assert_eq!(status(&asked)["confirm_seconds"], Value::Null);
    // A reload that changes nothing does not have to be confirmed.
    assert_eq!(asked.json("POST", "/v1/reload?confirm=1h")["confirm_seconds"], Value::Null);
    assert_eq!(status(&asked)["returned"], 0);
    asked.end();
}

#[test]
fn signal_ends_run_whose_reload_is_unconfirmed() {
    let asked = run(scene(), &[]);
    write(&asked, "b.yaml", &ticks("out-c"));
    asked.json("POST", "/v1/reload?confirm=1h");
    let log = asked.end();
    assert!(!log.contains("was not confirmed"), "{log}");
}

#[test]
fn misspelt_parameter_reloads_nothing() {
    let asked = run(scene(), &[]);
    write(&asked, "b.yaml", &ticks("out-c"));
    let (code, body) = asked.request("POST", "/v1/reload?confrim=60s");
    assert_eq!(code, 400, "{body}");
    assert!(body.contains("invalid parameter `confrim=60s`: expected `dry_run=true`"), "{body}");
    assert_eq!(status(&asked)["generation"], 0);
    for (arguments, part) in [
        (["--confirm", "2h"], "expected a duration from `1ms` to `1h`"),
        (["--keep", "--dry-run"], "cannot be used with"),
    ] {
        asked.tremor(&[&["reload"], &arguments[..]].concat()).expect(2, &[part]);
    }
    asked.end();
}

#[test]
fn top_prints_generation_and_result_of_the_last_reload() {
    let asked = run(scene(), &[]);
    write(&asked, "b.yaml", &ticks("out-c"));
    asked.json("POST", "/v1/reload?confirm=1h");
    let line = asked.first_line_of(&["top"], "reload ");
    let begin = "reload generation=1 last=applied last_seconds=";
    assert!(line.starts_with(begin) && line.contains(" confirm_seconds="), "{line}");
    asked.end();
}
