//! Figures that are kept elsewhere, in the form that Prometheus's library writes.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use tinaja_store::{TIME_BOUNDS_US, Times};

/// What holds at this moment.
pub(crate) fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_gauge(gauge);
    family(name, help, MetricType::GAUGE, metric)
}

/// What only grows.
pub(crate) fn counter(name: &str, help: &str, value: u64) -> MetricFamily {
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    family(name, help, MetricType::COUNTER, metric)
}

/// What only grows, by the values of one label.
pub(crate) fn counters(name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> MetricFamily {
    let metrics = values.iter().map(|(labelled, value)| {
        let (mut counter, mut pair, mut metric) = (Counter::default(), LabelPair::default(), Metric::default());
        counter.set_value(*value as f64);
        pair.set_name(label.to_owned());
        pair.set_value((*labelled).to_owned());
        metric.set_label(vec![pair]);
        metric.set_counter(counter);
        metric
    });
    let mut family = family(name, help, MetricType::COUNTER, Metric::default());
    family.set_metric(metrics.collect());
    family
}

/// Times, in seconds.
pub(super) fn times(name: &str, help: &str, times: &Times) -> MetricFamily {
    let mut sum = 0;
    let buckets = TIME_BOUNDS_US.iter().zip(times.counts).map(|(bound_us, count)| {
        sum += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound_us as f64 / 1e6);
        bucket.set_cumulative_count(sum);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(times.counts.iter().sum());
    histogram.set_sample_sum(times.total_us as f64 / 1e6);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    family(name, help, MetricType::HISTOGRAM, metric)
}

fn family(name: &str, help: &str, kind: MetricType, metric: Metric) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(vec![metric]);
    family
}
