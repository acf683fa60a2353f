//! What the main rows cost, as pictures.

use super::lines::{Line, Sample};
use crate::peers::field::Product;
use crate::report::{Plot, Series};

/// Processor time and the slow end of the times, of each kind of request a group.
pub fn all(lines: &[(&str, &Line)]) -> Vec<Plot> {
    vec![
        bars("Processor time of a request of 8 KiB", "µs", lines, |sample| sample.cpu_us),
        bars("The time that 99 of 100 requests are below, 16 connections", "ms", lines, |sample| sample.p99_ms),
    ]
}

fn bars(title: &str, y: &str, lines: &[(&str, &Line)], of: fn(&Sample) -> f64) -> Plot {
    let is_in = |product: &Product| lines.iter().any(|(_, line)| line.median(*product, of).is_some());
    let heights = |product: Product| lines.iter().map(move |(_, line)| line.median(product, of).unwrap_or_default());
    let series = Product::ALL.into_iter().filter(is_in).map(|product| Series::bars(product.name(), heights(product)));
    Plot::Bars {
        title: title.to_owned(),
        y: y.to_owned(),
        groups: lines.iter().map(|(name, _)| (*name).to_owned()).collect(),
        series: series.collect(),
    }
}
