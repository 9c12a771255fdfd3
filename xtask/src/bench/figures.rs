//! Figures of several runs: median and spread.

use std::fmt;

use serde::Serialize;

/// One thing that was measured in one run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figure {
    /// The part of the run, the same for all figures of a command.
    pub(super) part: &'static str,
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) value: f64,
    /// CPU seconds of the node up to then, since the beginning of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_cpu: Option<f64>,
    /// CPU seconds of the command's own process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flotilla_cpu: Option<f64>,
    /// What it should stay below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aim: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    #[serde(rename = "s")]
    Seconds,
    /// Millions of bytes.
    #[serde(rename = "MB")]
    Megabytes,
}

impl Figure {
    pub(super) fn seconds(part: &'static str, name: impl Into<String>, value: f64) -> Self {
        let (unit, name) = (Unit::Seconds, name.into());
        Self { part, name, unit, value, node_cpu: None, flotilla_cpu: None, aim: None }
    }

    pub(super) fn megabytes(part: &'static str, name: impl Into<String>, value: f64) -> Self {
        Self { unit: Unit::Megabytes, ..Self::seconds(part, name, value) }
    }

    pub(super) fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }
}

/// The figures of all runs. Displayed, it is a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Summary {
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    part: &'static str,
    name: String,
    unit: Unit,
    #[serde(flatten)]
    value: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_cpu: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flotilla_cpu: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    /// Of how many runs: a step may be missing in some.
    count: usize,
}

impl Summary {
    /// In the order in which the figures first appear.
    pub(super) fn of(runs: &[Vec<Figure>]) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for figure in runs.iter().flatten() {
            if rows.iter().any(|row| (row.part, &row.name) == (figure.part, &figure.name)) {
                continue;
            }
            let same = || {
                let all = runs.iter().flatten();
                all.filter(|other| (other.part, &other.name) == (figure.part, &figure.name))
            };
            rows.push(Row {
                part: figure.part,
                name: figure.name.clone(),
                unit: figure.unit,
                value: Spread::of(same().map(|figure| figure.value)).expect("the figure itself is one"),
                node_cpu: Spread::of(same().filter_map(|figure| figure.node_cpu)),
                flotilla_cpu: Spread::of(same().filter_map(|figure| figure.flotilla_cpu)),
                aim: figure.aim,
            });
        }
        // A step that only a later run had comes after all others: back to its part.
        let parts: Vec<&str> = rows.iter().map(|row| row.part).collect();
        rows.sort_by_key(|row| parts.iter().position(|part| *part == row.part));
        Self { rows }
    }
}

/// The medians of two programs that were measured in turns. Displayed, it is a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Comparison {
    rows: Vec<Compared>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Compared {
    part: &'static str,
    name: String,
    this: f64,
    other: f64,
    ratio: f64,
}

impl Summary {
    /// Of every figure that both have: this program's median divided by the other's.
    pub(super) fn against(&self, other: &Self) -> Comparison {
        let ratio = |row: &Row| {
            let same = other.rows.iter().find(|it| (it.part, &it.name) == (row.part, &row.name))?;
            let (this, other) = (row.value.median, same.value.median);
            Some(Compared { part: row.part, name: row.name.clone(), this, other, ratio: this / other })
        };
        Comparison { rows: self.rows.iter().filter_map(ratio).collect() }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<40} {:>8} {:>8} {:>8}", "", "this", "other", "ratio")?;
        let mut part = "";
        for row in &self.rows {
            if row.part != part {
                part = row.part;
                writeln!(f, "{part}")?;
            }
            writeln!(f, "  {:<38} {:>8.2} {:>8.2} {:>8.2}", row.name, row.this, row.other, row.ratio)?;
        }
        Ok(())
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, min, max, count: values.len() })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<30} {:>11} {:>17} {:>10} {:>14} {:>9}",
            "", "median", "min - max", "node CPU s", "flotilla CPU s", "aim"
        )?;
        let mut part = "";
        for row in &self.rows {
            if row.part != part {
                part = row.part;
                writeln!(f, "{part}")?;
            }
            let (unit, digits) = match row.unit {
                Unit::Seconds => ("s", 2),
                Unit::Megabytes => ("MB", 1),
            };
            let Spread { median, min, max, .. } = row.value;
            let span = format!("{min:.digits$} - {max:.digits$}");
            let median_of = |spread: &Option<Spread>| {
                spread.as_ref().map(|spread| format!("{:.2}", spread.median)).unwrap_or_default()
            };
            let aim = row.aim.map(|aim| format!("< {aim}")).unwrap_or_default();
            let line = format!(
                "  {:<28} {median:>8.digits$} {unit:<2} {span:>17} {:>10} {:>14} {aim:>9}",
                row.name,
                median_of(&row.node_cpu),
                median_of(&row.flotilla_cpu)
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(&'static str, &str, f64)]) -> Vec<Figure> {
        values.iter().map(|(part, name, value)| Figure::seconds(part, *name, *value)).collect()
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        let spread = Spread::of([4.0, 1.0, 2.0, 10.0].into_iter());
        assert_eq!(spread, Some(Spread { median: 3.0, min: 1.0, max: 10.0, count: 4 }));
        assert_eq!(Spread::of([].into_iter()), None);
    }

    #[test]
    fn two_programs_are_compared_by_the_figures_that_both_have() {
        let this = Summary::of(&[run(&[("start", "returns", 4.0), ("start", "step new", 1.0)])]);
        let other = Summary::of(&[run(&[("start", "returns", 5.0)]), run(&[("stop", "returns", 1.0)])]);
        let table = this.against(&other).to_string();
        let expected = "
                                             this    other    ratio
start
  returns                                    4.00     5.00     0.80
";
        assert_eq!(format!("\n{table}"), expected);
    }

    #[test]
    fn the_table_keeps_parts_together_and_counts_only_runs_that_have_a_figure() {
        let runs = [
            run(&[("start", "API serves", 3.0), ("stop", "returns", 1.0)]),
            run(&[("start", "API serves", 5.0), ("start", "step repair", 0.25), ("stop", "returns", 1.5)]),
        ];
        let mut figure = Figure::megabytes("node", "memory", 400.0).aim(90.0);
        (figure.node_cpu, figure.flotilla_cpu) = (Some(1.0), Some(0.5));
        let table = Summary::of(&[runs.concat(), vec![figure]]).to_string();
        let expected = "
                                    median         min - max node CPU s flotilla CPU s       aim
start
  API serves                       4.00 s        3.00 - 5.00
  step repair                      0.25 s        0.25 - 0.25
stop
  returns                          1.25 s        1.00 - 1.50
node
  memory                          400.0 MB     400.0 - 400.0       1.00           0.50      < 90
";
        assert_eq!(format!("\n{table}"), expected);
    }
}
