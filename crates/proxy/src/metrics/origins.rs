//! What is known of the origins of routes, as their own room counts it.
//!
//! A route's name is its host and path as they are configured, and an origin's its URL: clients can add none.

use std::sync::atomic::Ordering;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use crate::origin::{Origins, Outcome};

/// All of them; where listeners have a route in common, together. None where a name is one that Prometheus does not take,
/// which is a mistake of ours.
pub(crate) fn families(origins: &Origins) -> Vec<MetricFamily> {
    counted(origins).unwrap_or_default()
}

fn counted(origins: &Origins) -> prometheus::Result<Vec<MetricFamily>> {
    let counter = |name: &str, help: &str, label: &[&str]| {
        IntCounterVec::new(Opts::new(name, help), &[&["route", "origin"], label].concat())
    };
    let gauge = |name: &str, help: &str, label: &[&str]| {
        IntGaugeVec::new(Opts::new(name, help), &[&["route", "origin"], label].concat())
    };
    let up = gauge("tinaja_origin_up", "Whether requests are sent to an origin: 1, or 0 while it is out.", &[])?;
    let help = "Requests sent to an origin, by what came of it.";
    let attempts = counter("tinaja_origin_attempts_total", help, &["outcome"])?;
    let help = "Requests sent on to another origin, since this one had failed them.";
    let retries = counter("tinaja_origin_retries_total", help, &[])?;
    let checks = counter("tinaja_origin_checks_total", "Checks of an origin, by their result.", &["result"])?;
    let help = "Connections to an origin that are open, by what they do.";
    let connections = gauge("tinaja_origin_connections", help, &["state"])?;
    for member in origins.groups().iter().flat_map(|group| &group.members) {
        let (route, origin, counts) = (member.route.as_str(), member.url.to_string(), &member.counts);
        let origin = origin.as_str();
        // Twice there by different settings, it is up if it is up for one of them.
        let state = up.get_metric_with_label_values(&[route, origin])?;
        state.set(state.get().max(i64::from(member.is_up())));
        for (outcome, count) in Outcome::ALL.iter().zip(&counts.attempts) {
            attempts
                .get_metric_with_label_values(&[route, origin, outcome.name()])?
                .inc_by(count.load(Ordering::Relaxed));
        }
        retries.get_metric_with_label_values(&[route, origin])?.inc_by(counts.retries.load(Ordering::Relaxed));
        for (result, count) in ["failed", "passed"].iter().zip(&counts.checks) {
            checks.get_metric_with_label_values(&[route, origin, result])?.inc_by(count.load(Ordering::Relaxed));
        }
        let (open, idle) = (counts.open.load(Ordering::Relaxed), counts.idle.load(Ordering::Relaxed));
        connections.get_metric_with_label_values(&[route, origin, "idle"])?.add(idle.max(0));
        connections.get_metric_with_label_values(&[route, origin, "busy"])?.add((open - idle).max(0));
    }
    let mut families = Vec::new();
    for counters in [attempts, retries, checks] {
        families.extend(counters.collect());
    }
    for gauges in [up, connections] {
        families.extend(gauges.collect());
    }
    // Without routes there is nothing to say, and a family without a figure cannot be written.
    families.retain(|family: &MetricFamily| !family.get_metric().is_empty());
    Ok(families)
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder, TextEncoder};

    use super::*;
    use crate::config::{Listener, Mode, behind};
    use crate::limits::Limits;
    use crate::routes::Routes;

    #[test]
    fn every_origin_has_its_figures() {
        let origins = Origins::new(1, Limits::default(), tinaja_clock::Clock::system());
        assert!(families(&origins).is_empty());
        let routes = Routes::new(vec![], Some("http://a:81".parse().unwrap())).unwrap();
        let reverse = Listener { mode: Mode::Reverse(routes), ..Listener::forward("127.0.0.1:1".parse().unwrap()) };
        // Two listeners with one route.
        let again = Listener { address: "127.0.0.1:2".parse().unwrap(), ..reverse.clone() };
        origins.exchange(origins.prepare(behind(&[reverse, again]), &Default::default()).unwrap());
        let mut text = Vec::new();
        TextEncoder::new().encode(&families(&origins), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in [
            "tinaja_origin_up{origin=\"http://a:81\",route=\"*\"} 1",
            "tinaja_origin_attempts_total{origin=\"http://a:81\",outcome=\"answered\",route=\"*\"} 0",
            "tinaja_origin_retries_total{origin=\"http://a:81\",route=\"*\"} 0",
            "tinaja_origin_checks_total{origin=\"http://a:81\",result=\"failed\",route=\"*\"} 0",
            "tinaja_origin_connections{origin=\"http://a:81\",route=\"*\",state=\"idle\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((series, text.matches("# HELP ").count()), (12, 5));
    }
}
