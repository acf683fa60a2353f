//! What was measured, as pictures.

use super::runs::Ran;
use crate::report::{Plot, Series};

/// Figure 7, and how it went on.
pub fn all(ran: &[Ran]) -> Vec<Plot> {
    vec![figure_7(ran), in_time(ran)]
}

fn figure_7(ran: &[Ran]) -> Plot {
    let bars = |name: &str, height: &dyn Fn(&Ran) -> f64| Series::bars(name, ran.iter().map(height));
    Plot::Bars {
        title: "Requests a second (Figure 7)".to_owned(),
        y: "requests/s".to_owned(),
        groups: ran.iter().map(|one| one.system.peer.name()).collect(),
        series: vec![bars("measured", &|one| one.whole.tally.rate()), bars("Figure 7", &|one| one.system.paper.1)],
    }
}

fn in_time(ran: &[Ran]) -> Plot {
    let line = |one: &Ran| {
        let mut until = 0.0;
        let points = one.parts.iter().map(|part| {
            until += part.seconds();
            (until - part.seconds() / 2.0, part.tally.rate())
        });
        Series::new(one.system.peer.name(), points.collect::<Vec<_>>())
    };
    Plot::Lines {
        title: "Requests a second as the cache fills".to_owned(),
        x: "seconds".to_owned(),
        y: "requests/s".to_owned(),
        series: ran.iter().map(line).collect(),
    }
}
