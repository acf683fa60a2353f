//! Every figure that is scraped has a help, a unit in its name and bounded labels; and what the dashboard asks for is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::support::tinaja::binary;
use tinaja_testkit::nginx::make_certificates;
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::run;

/// What names end with, but for `_total`: units, and what is counted.
const UNITS: &str = "bytes seconds bits connections requests fetches failures handshakes reloads hits misses reads writes \
                     seeks errors timeouts objects records lookups slots disks engines laps lines files limit overs panics attempts \
                     retries checks up bins segments pages checkpoints tunnels certificates bans walks purges nodes";

/// A family of figures, as a scrape has it.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    series: Vec<String>,
    labels: BTreeSet<String>,
}

/// Names of the labels of `{a="x",b="y"}`.
fn label_names(labels: &str) -> impl Iterator<Item = String> {
    labels.split("\",").filter_map(|label| Some(label.trim_start_matches('{').split_once('=')?.0.to_owned()))
}

/// A scrape of a server that nobody uses, by family. It is the only node of a cluster: others have no figures of one.
fn scrape() -> BTreeMap<String, Family> {
    let dir = tempfile::tempdir().unwrap();
    make_certificates(dir.path());
    let [listen, metrics, node] = [(); 3].map(|()| free_port());
    let settings = dir.path().join("tinaja.toml");
    let log = dir.path().join("access.log");
    let text = format!(
        "access_log = \"{}\"\nmetrics = \"127.0.0.1:{metrics}\"\n[[listener]]\naddress = \"127.0.0.1:{listen}\"\n\
         [cluster]\nnode = \"alone\"\nlisten = \"127.0.0.1:{node}\"\nca = \"{home}/ca.pem\"\ncertificate = \"{home}/server.pem\"\n\
         key = \"{home}/server.key\"\nmemory = \"8MiB\"\n",
        log.display(),
        home = dir.path().display()
    );
    fs::write(&settings, text).unwrap();
    let cache = dir.path().join("cache");
    let mut command = binary(&dir);
    command.args(["serve", "--disk", "64MiB", "--cache"]).arg(&cache).arg("--config").arg(&settings);
    let mut process = tinaja_testkit::process::Process::start("tinaja", &mut command, &dir.path().join("output"));
    process.wait_until_listening(([127, 0, 0, 1], listen).into());
    let mut curl = tinaja_testkit::tools::client("curl", dir.path());
    let text = run(curl.args(["-sSf", "--noproxy", "*", &format!("http://127.0.0.1:{metrics}/metrics")]));
    assert!(process.terminate().success(), "{}", process.output());

    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(
                families.insert(name.into(), Family { help: help.into(), ..Family::default() }).is_none(),
                "{name}"
            );
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            families.get_mut(name).unwrap().kind = kind.into();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            let (name, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
            let of = |end: &str| name.strip_suffix(end).filter(|name| families.contains_key(*name)).map(str::to_owned);
            let family = of("_bucket").or(of("_sum")).or(of("_count")).or(of("")).unwrap_or_else(|| panic!("{line}"));
            let family = families.get_mut(&family).unwrap();
            family.series.push(name.to_owned());
            family.labels.extend(label_names(labels));
        }
    }
    families
}

/// Metrics in a query, each with the labels that are asked of it; and the labels that it is summed by.
fn asked(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut metrics = Vec::new();
    for (at, _) in query.match_indices("tinaja_") {
        let rest = &query[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !word(c)).unwrap_or(rest.len()));
        let matchers = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let labels = matchers.split("\",").map(|label| label.chars().take_while(|c| word(*c)).collect::<String>());
        metrics.push((name.to_owned(), labels.filter(|label| !label.is_empty()).collect()));
    }
    let by = query.split("by (").skip(1).flat_map(|rest| rest.split(')').next().unwrap().split(", "));
    (metrics, by.map(str::to_owned).collect())
}

/// Whether each bracket is closed by its like.
fn is_balanced(query: &str) -> bool {
    let mut open = Vec::new();
    query.chars().all(|c| match c {
        '(' | '[' | '{' => {
            open.push(c);
            true
        }
        ')' => open.pop() == Some('('),
        ']' => open.pop() == Some('['),
        '}' => open.pop() == Some('{'),
        _ => true,
    }) && open.is_empty()
}

#[test]
fn figures_are_named_by_their_units_and_the_dashboard_asks_for_what_there_is() {
    let families = scrape();
    assert!(families.len() > 50 && families.contains_key("tinaja_cluster_nodes"), "{families:?}");
    let units: Vec<&str> = UNITS.split_whitespace().collect();
    for (name, family) in &families {
        assert!(name.starts_with("tinaja_"), "{name}");
        assert!(family.help.len() > 10 && family.help.ends_with('.'), "{name}: {}", family.help);
        assert!(!family.series.is_empty(), "{name}: named, and has no series");
        assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name} is a {}", family.kind);
        assert_eq!(family.kind == "histogram", name.ends_with("_duration_seconds"), "{name} is a {}", family.kind);
        let last = name.trim_end_matches("_total").rsplit('_').next().unwrap();
        assert!(units.contains(&last), "{name} ends with no unit");
        // Labels are words of ours; no client, address or URL is one.
        let known =
            ["result", "status", "source", "reason", "le", "outcome", "state", "route", "origin", "kind", "coding"];
        assert!(family.labels.iter().all(|label| known.contains(&label.as_str())), "{name}: {:?}", family.labels);
        assert!(family.series.len() <= 120, "{name} has {} series", family.series.len());
    }

    // Those of engines that do not run here, too: `/metrics` has them as `tinaja_engine_*`.
    let all = tinaja_store::engines::built_in();
    for figure in all.iter().flat_map(|engine| engine.figures) {
        let last = figure.name.rsplit('_').next().unwrap();
        assert!(units.contains(&last) && !figure.name.ends_with("_total"), "{} ends with no unit", figure.name);
        assert!(figure.help.len() > 10 && figure.help.ends_with('.'), "{}: {}", figure.name, figure.help);
    }

    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ops/grafana/tinaja.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() > 40, "{}", queries.len());
    let of_series = |series: &str| families.values().find(|family| family.series.iter().any(|name| name == series));
    for query in &queries {
        assert!(is_balanced(query), "{query}");
        let (metrics, by) = asked(query);
        assert!(!metrics.is_empty(), "{query}");
        for (name, labels) in metrics {
            let family = of_series(&name).unwrap_or_else(|| panic!("{name} is not there: {query}"));
            // What Prometheus adds of its own.
            assert_eq!(labels[..2], ["job", "instance"], "{query}");
            let rest = labels[2..].iter().chain(&by);
            for label in rest {
                assert!(family.labels.contains(label), "{name} has no {label}: {query}");
            }
            let grows = query.contains(&format!("rate({name}")) || query.contains(&format!("increase({name}"));
            assert_eq!(grows, family.kind != "gauge", "{query}");
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        let (metrics, _) = asked(variable["query"].as_str().unwrap());
        assert!(of_series(&metrics[0].0).is_some(), "{variable}");
    }
}
