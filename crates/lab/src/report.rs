//! What came out of an experiment: tables, plots and reasons, before anybody has chosen how to show them.

use serde::{Serialize, Serializer};

/// What came out of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The experiment.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Where in which paper.
    pub paper: &'static str,
    /// Whether disks and loads were small.
    pub quick: bool,
    /// What the random numbers began from.
    pub seed: u64,
    /// What was measured, with the paper's figures beside it.
    pub tables: Vec<Table>,
    /// The same as pictures.
    pub plots: Vec<Plot>,
    /// How it was measured, and the reason for each difference.
    pub notes: Vec<String>,
}

/// Rows and columns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// What it lists.
    pub title: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// What it shows, in a sentence or two; empty where the notes say it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sentence: String,
}

/// What stands in one place of a table. In JSON a number is a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number, and how many digits of it are shown behind the point.
    Number(f64, usize),
    /// Nothing is known here.
    Nothing,
}

/// A picture.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Plot {
    /// Curves over a number.
    Lines {
        /// What it shows.
        title: String,
        /// What the horizontal axis counts.
        x: String,
        /// What the vertical axis counts.
        y: String,
        /// The curves.
        series: Vec<Series>,
    },
    /// Bars side by side, a group for each name.
    Bars {
        /// What it shows.
        title: String,
        /// What the bars count.
        y: String,
        /// The groups' names.
        groups: Vec<String>,
        /// One bar in each group for each of these; the first number of a point is the group's, from 0.
        series: Vec<Series>,
    },
}

/// One curve, or one bar in each group.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series from its points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series { name: name.into(), points: points.into_iter().collect() }
    }

    /// One bar in each group.
    pub fn bars(name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Self {
        Series::new(name, heights.into_iter().enumerate().map(|(group, height)| (group as f64, height)))
    }
}

impl Table {
    /// A table without rows yet.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| (*name).into()).collect();
        Table { title: title.into(), columns, ..Table::default() }
    }

    /// The same with a sentence that says what it shows.
    pub fn says(self, sentence: impl Into<String>) -> Self {
        Table { sentence: sentence.into(), ..self }
    }

    /// Add a row; it is filled up or cut to as many cells as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<_> = cells.into_iter().collect();
        row.resize(self.columns.len(), Cell::Nothing);
        self.rows.push(row);
    }

    /// The cells of a column, by its name; none if there is no such column.
    pub fn column(&self, name: &str) -> Vec<&Cell> {
        let at = self.columns.iter().position(|column| column == name);
        at.map(|at| self.rows.iter().filter_map(|row| row.get(at)).collect()).unwrap_or_default()
    }
}

impl Cell {
    /// A number shown with so many digits behind the point.
    pub fn number(value: f64, digits: usize) -> Self {
        if value.is_finite() { Cell::Number(value, digits) } else { Cell::Nothing }
    }

    /// A share from 0 to 1, shown in percent with one digit.
    pub fn percent(share: f64) -> Self {
        Cell::number(share * 100.0, 1)
    }

    /// A number if there is one.
    pub fn maybe(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Cell::Nothing, |value| Cell::number(value, digits))
    }

    /// The number that it holds.
    pub fn value(&self) -> Option<f64> {
        match self {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(value, _) => Some(*value),
            Cell::Text(_) | Cell::Nothing => None,
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Count(count) => serializer.serialize_u64(*count),
            Cell::Number(value, _) => serializer.serialize_f64(*value),
            Cell::Nothing => serializer.serialize_none(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Count(count) => write!(f, "{count}"),
            Cell::Number(value, digits) => write!(f, "{value:.digits$}"),
            Cell::Nothing => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers_in_json() {
        let row = [Cell::number(1.26, 1), Cell::from(3), Cell::from("a"), Cell::Nothing, Cell::number(f64::NAN, 1)];
        assert_eq!(serde_json::to_string(&row).unwrap(), r#"[1.26,3,"a",null,null]"#);
        assert_eq!(row.map(|cell| cell.to_string()), ["1.3", "3", "a", "-", "-"]);
    }

    #[test]
    fn rows_have_as_many_cells_as_columns() {
        let mut table = Table::new("t", &["a", "b"]);
        table.row([Cell::from(1)]);
        table.row([Cell::from(1), Cell::from(2), Cell::from(3)]);
        assert!(table.rows.iter().all(|row| row.len() == 2));
        assert_eq!(table.column("b"), [&Cell::Nothing, &Cell::Count(2)]);
        assert!(table.column("c").is_empty());
    }
}
