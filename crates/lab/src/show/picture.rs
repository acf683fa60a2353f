//! A report's plots in one file, SVG or PNG by its name.

use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::LabError;
use crate::report::{Plot, Report, Series};

/// Without legends.
const WIDTH: u32 = 900;
const HEIGHT: u32 = 480;
/// Okabe and Ito's colours, which people who are blind to some can tell apart. Their yellow is too light on white, and is dark here.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x9A, 0x8B, 0x00),
];
/// Dashes of curves beyond as many as there are colours, and the gaps between them.
const DASHES: (i32, i32) = (7, 5);
/// A legend has a line for each series, so far apart, beside the plot: there it covers nothing.
const LEGEND_LINE: i32 = 18;
/// A letter of a legend is no wider on average.
const LETTER: usize = 7;
/// The width of a legend, with its samples: at least, and at most.
const LEGEND: (usize, usize) = (90, 320);
/// Where Linux systems keep a font without serifs. A PNG's letters are drawn here; an SVG's by whoever shows it.
const FONTS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
];

/// Draw all plots of a report below each other. Errors: the name ends in neither `.svg` nor `.png`, the report has no
/// plot, no font was found for a PNG, the file cannot be written.
pub fn draw(report: &Report, path: &Path) -> Result<(), LabError> {
    let refused = |why: &str| LabError::Plot { path: path.to_path_buf(), why: why.to_owned() };
    if report.plots.is_empty() {
        return Err(refused(&format!("{} has no plot", report.name)));
    }
    let beside = report.plots.iter().map(legend_width).max().unwrap_or(0);
    let size = (WIDTH + beside, HEIGHT * report.plots.len() as u32);
    let drawn = match path.extension().and_then(|end| end.to_str()) {
        Some("svg") => {
            find_font();
            draw_on(&SVGBackend::new(path, size).into_drawing_area(), &report.plots, beside)
        }
        Some("png") if find_font() => {
            draw_on(&BitMapBackend::new(path, size).into_drawing_area(), &report.plots, beside)
        }
        Some("png") => Err("no font was found for its letters: install fonts-dejavu-core, or draw an .svg".to_owned()),
        _ => Err("its name must end in .svg or .png".to_owned()),
    };
    drawn.map_err(|why| refused(&why))
}

/// One plot as SVG, to stand within a page. Errors: it cannot be drawn.
pub fn svg(report: &Report, plot: &Plot) -> Result<String, LabError> {
    find_font();
    let (mut drawn, beside) = (String::new(), legend_width(plot));
    let area = SVGBackend::with_string(&mut drawn, (WIDTH + beside, HEIGHT)).into_drawing_area();
    let result = draw_on(&area, std::slice::from_ref(plot), beside);
    drop(area);
    result.map_err(|why| LabError::Plot { path: report.name.into(), why })?;
    Ok(drawn)
}

/// Whether there is a font. Sizes of texts are measured by it in an SVG as well; without one they are guessed.
fn find_font() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Some(font) = FONTS.iter().find_map(|path| std::fs::read(path).ok()) {
            // Once in the life of the process: the library keeps fonts for ever.
            let _ = register_font("sans-serif", FontStyle::Normal, font.leak());
        }
    });
    FONTS.iter().any(|path| Path::new(path).exists())
}

fn draw_on<B: DrawingBackend>(area: &DrawingArea<B, Shift>, plots: &[Plot], beside: u32) -> Result<(), String> {
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    for (part, plot) in area.split_evenly((plots.len(), 1)).iter().zip(plots) {
        one(part, plot, beside).map_err(|error| error.to_string())?;
    }
    area.present().map_err(|error| error.to_string())
}

/// The smallest and largest of the numbers, with some air above.
fn span(numbers: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (least, most) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), n| (a.min(n), b.max(n)));
    let least = if from_zero { least.min(0.0) } else { least };
    if most > least { (least, most + (most - least) * 0.05) } else { (least.min(0.0), least.max(0.0) + 1.0) }
}

fn one<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    plot: &Plot,
    beside: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (title, x_label, y_label, series, groups) = match plot {
        Plot::Lines { title, x, y, series } => (title, x.as_str(), y, series, None),
        Plot::Bars { title, y, groups, series } => (title, "", y, series, Some(groups)),
    };
    let (area, beside) = area.split_horizontally(area.dim_in_pixel().0.saturating_sub(beside) as i32);
    // One series needs no legend: what it is stands at the axis.
    let y_label = match &series[..] {
        [one] => format!("{y_label}; {}", one.name),
        _ => {
            legend(&beside, series, groups.is_some())?;
            y_label.to_owned()
        }
    };
    let points = || series.iter().flat_map(|series| &series.points);
    let (low, high) = span(points().map(|point| point.1), true);
    let (left, right) = match groups {
        Some(groups) => (-0.5, groups.len().max(1) as f64 - 0.5),
        None => span(points().map(|point| point.0), false),
    };
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(left..right, low..high)?;
    let name_of = |x: &f64| match groups {
        // The library also asks for places between the groups.
        Some(groups) if (x - x.round()).abs() < 0.01 => {
            groups.get(x.round().max(0.0) as usize).cloned().unwrap_or_default()
        }
        Some(_) => String::new(),
        None => short(*x),
    };
    let marks = groups.map_or(10, |groups| groups.len() * 2 + 1);
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(marks).x_label_formatter(&name_of).x_desc(x_label).y_desc(y_label.as_str()).light_line_style(WHITE);
    if groups.is_some() {
        mesh.disable_x_mesh();
    }
    mesh.draw()?;
    for (number, Series { points, .. }) in series.iter().enumerate() {
        let (colour, is_dashed) = look(number);
        if groups.is_some() {
            let width = 0.8 / series.len() as f64;
            let from = -0.4 + width * number as f64;
            chart.draw_series(
                points
                    .iter()
                    .map(|&(x, y)| Rectangle::new([(x + from, 0.0), (x + from + width * 0.95, y)], colour.filled())),
            )?;
            continue;
        }
        let (curve, style) = (points.iter().copied(), colour.stroke_width(2));
        if is_dashed {
            chart.draw_series(DashedLineSeries::new(curve, DASHES.0, DASHES.1, style))?;
        } else {
            chart.draw_series(LineSeries::new(curve, style))?;
        }
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    Ok(())
}

/// How a series looks, and whether it is dashed: no two of twice as many as there are colours look the same.
fn look(number: usize) -> (RGBColor, bool) {
    (COLOURS.get(number % COLOURS.len()).copied().unwrap_or(BLACK), number / COLOURS.len() % 2 == 1)
}

/// What a plot's legend takes beside it.
fn legend_width(plot: &Plot) -> u32 {
    let (Plot::Lines { series, .. } | Plot::Bars { series, .. }) = plot;
    let longest = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    if series.len() < 2 { 0 } else { (longest * LETTER + 40).clamp(LEGEND.0, LEGEND.1) as u32 }
}

/// Names of series, each behind a sample of it.
fn legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    series: &[Series],
    of_bars: bool,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    for (number, Series { name, .. }) in series.iter().enumerate() {
        let (y, (colour, is_dashed)) = (50 + number as i32 * LEGEND_LINE, look(number));
        if of_bars {
            area.draw(&Rectangle::new([(4, y - 5), (16, y + 5)], colour.filled()))?;
        } else {
            let ends = if is_dashed {
                vec![(0, DASHES.0), (DASHES.0 + DASHES.1, 2 * DASHES.0 + DASHES.1)]
            } else {
                vec![(0, 20)]
            };
            for (from, to) in ends {
                area.draw(&PathElement::new([(from, y), (to, y)], colour.stroke_width(2)))?;
            }
        }
        area.draw(&Text::new(name.as_str(), (26, y - 6), ("sans-serif", 12)))?;
    }
    Ok(())
}

fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let lines = vec![Series::new("measured", [(1.0, 2.0), (2.0, 3.0)]), Series::new("paper", [(1.0, 1.0)])];
        let bars = vec![Series::bars("measured", [1.0, 2.0]), Series::bars("nothing", [])];
        let plots = vec![
            Plot::Lines { title: "A curve".into(), x: "k".into(), y: "bits".into(), series: lines },
            Plot::Bars {
                title: "Bars".into(),
                y: "rate".into(),
                groups: vec!["set".into(), "log".into()],
                series: bars,
            },
        ];
        Report { name: "n", shows: "s", paper: "p", quick: true, seed: 1, tables: vec![], plots, notes: vec![] }
    }

    #[test]
    fn no_two_of_sixteen_series_look_the_same() {
        let looks: std::collections::HashSet<_> =
            (0..16).map(|number| (look(number).0.rgb(), look(number).1)).collect();
        assert_eq!(looks.len(), 16);
    }

    #[test]
    fn plots_are_drawn_and_bad_names_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let svg = dir.path().join("a.svg");
        draw(&report(), &svg).unwrap();
        let drawn = std::fs::read_to_string(svg).unwrap();
        for word in ["A curve", "measured", "Bars", "set", "log"] {
            assert!(drawn.contains(word), "{word}");
        }
        if find_font() {
            draw(&report(), &dir.path().join("a.png")).unwrap();
            assert!(std::fs::read(dir.path().join("a.png")).unwrap().starts_with(b"\x89PNG"));
        }
        let refused = draw(&report(), &dir.path().join("a.txt")).unwrap_err().to_string();
        assert!(refused.ends_with("its name must end in .svg or .png"), "{refused}");
        assert!(draw(&report(), &dir.path().join("no/such/a.svg")).is_err());
        assert!(draw(&Report { plots: vec![], ..report() }, &dir.path().join("b.svg")).is_err());
    }
}
