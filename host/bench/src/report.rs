//! How do figures become the page `docs/benchmarks.md`?

use std::fmt::Write as _;

use measure::{Figure, Unit};

const US: f64 = 1e3;
const MS: f64 = 1e6;

/// A goal and the figure that it is about.
struct Goal {
    what: &'static str,
    id: &'static str,
    contender: &'static str,
    bound: Bound,
}

enum Bound {
    /// The median, in the unit of the figure.
    AtMost(f64),
    /// The slowest sample.
    Never(f64),
    /// Times as long as Tandem's median takes.
    Ratio(f64),
    /// No goal: the number is the answer.
    Open,
}

const TANDEM: &str = "tandem";

/// The goals, in the order of the page.
fn goals() -> Vec<Goal> {
    use Bound::{AtMost, Never, Open, Ratio};
    let goal = |what, id, bound| Goal { what, id, contender: TANDEM, bound };
    let peer = |what, contender, bound| Goal { what, id: CALL, contender, bound };
    vec![
        goal("hook call, warm instance, async path", CALL, AtMost(0.8 * US)),
        peer("the same on the bare engine, sync", "bare wasmtime, sync", AtMost(0.5 * US)),
        peer("the same in Extism, times Tandem's", "extism", Ratio(12.0)),
        peer("as a program for `sh`, times Tandem's", "sh", Ratio(1_000.0)),
        peer("as a program for `python3`, times Tandem's", "python3", Ratio(10_000.0)),
        goal("fresh instance, Rust", "start/rust", AtMost(15.0 * US)),
        goal("fresh instance, QuickJS", "start/quickjs", AtMost(150.0 * US)),
        goal("fresh instance, Python", "start/python", AtMost(MS)),
        goal(
            "an episode's first hook call, lease to answer, 6 plugins",
            "episode/first-call",
            AtMost(200.0 * US),
        ),
        goal("memory of an idle instance, Rust (5,000 at once)", "memory/rust", AtMost(40.0)),
        goal("memory of an idle instance, QuickJS", "memory/quickjs", AtMost(250.0)),
        goal("memory of an idle instance, Python", "memory/python", AtMost(1.3 * 1024.0)),
        goal("publish to first lease of the new generation", "publish/swap", AtMost(100.0 * US)),
        goal(
            "cold admission of a 50 kB component, compiled in a child process",
            "admission/cold-child",
            AtMost(150.0 * MS),
        ),
        goal("the same from the code cache", "admission/code-cache", AtMost(5.0 * MS)),
        goal(
            "wait of a neighbour on the same thread while a plugin loops",
            "neighbour/wait",
            Never(6.0 * MS),
        ),
        goal("hook calls, 6 plugins × 10,000 episodes × 20 turns, 2 cores", "chain/calls", Open),
        goal("share of an episode's time that these hooks take", "chain/share", Open),
    ]
}

/// The call that all contenders make.
const CALL: &str = "call/on-model-call";

/// The whole page.
pub fn text(machine: &[(&str, String)], figures: &[Figure], skipped: &[String]) -> String {
    let mut page = String::from(
        "# Benchmarks of the plugin host\n\nWritten by `make bench-host`, in one run, a process for each contender. \
         What is measured and how is in [`host/bench`](../host/bench).\n\n",
    );
    table(&mut page, &["", ""], machine.iter().map(|(what, which)| vec![(*what).to_owned(), which.clone()]));
    if !skipped.is_empty() {
        page.push_str("\nNot measured in this run:\n\n");
        skipped.iter().for_each(|line| page.push_str(&format!("- {line}\n")));
    }

    page.push_str("\n## Goals\n\n");
    let rows = goals().into_iter().map(|goal| goal_row(&goal, figures));
    table(&mut page, &["figure", "goal", "median", "p90", "met"], rows);

    page.push_str(
        "\n## One hook call\n\nA small record in, a variant out; every contender has the same logic.\n\n",
    );
    let ours = find(figures, CALL, TANDEM).map(|figure| figure.median);
    let calls = figures.iter().filter(|figure| figure.id == CALL).map(|figure| {
        let ratio = ours.map_or_else(String::new, |ours| times(figure.median / ours));
        vec![
            figure.contender.clone(),
            number(figure.unit, figure.median),
            number(figure.unit, figure.p90),
            ratio,
        ]
    });
    table(&mut page, &["mechanism", "median", "p90", "times Tandem's"], calls);

    page.push_str("\n## Everything measured\n\n");
    let rows = figures.iter().map(|figure| {
        let [median, p90, max] =
            [figure.median, figure.p90, figure.max].map(|value| number(figure.unit, value));
        vec![format!("`{}`", figure.id), figure.contender.clone(), median, p90, max, figure.samples.clone()]
    });
    table(&mut page, &["figure", "contender", "median", "p90", "slowest", "samples"], rows);
    page.push('\n');
    page.push_str(include_str!("../notes.md"));
    page
}

fn find<'a>(figures: &'a [Figure], id: &str, contender: &str) -> Option<&'a Figure> {
    figures.iter().find(|figure| figure.id == id && figure.contender == contender)
}

fn goal_row(goal: &Goal, figures: &[Figure]) -> Vec<String> {
    let figure = find(figures, goal.id, goal.contender);
    let ours = find(figures, CALL, TANDEM).map(|figure| figure.median);
    let (Some(figure), Some(ours)) = (figure, ours) else {
        return [goal.what, "", "not measured", "", ""].map(str::to_owned).to_vec();
    };
    let said = |value| number(figure.unit, value);
    let (median, p90) = (said(figure.median), said(figure.p90));
    let (wanted, median, p90, met) = match goal.bound {
        Bound::AtMost(most) => (format!("≤ {}", said(most)), median, p90, yes(figure.median <= most)),
        Bound::Never(most) => {
            let slowest = format!("{p90}, slowest {}", said(figure.max));
            (format!("never over {}", said(most)), median, slowest, yes(figure.max <= most))
        }
        Bound::Ratio(least) => {
            let ratio = figure.median / ours;
            (format!("≥ {}", times(least)), times(ratio), String::new(), yes(ratio >= least))
        }
        Bound::Open => (String::new(), median, String::new(), String::new()),
    };
    vec![goal.what.to_owned(), wanted, median, p90, met]
}

fn yes(met: bool) -> String {
    if met { "yes" } else { "**no**" }.to_owned()
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}×") } else { format!("{}×", thousands(ratio)) }
}

/// A number with its unit, with three figures that matter.
fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds if value < 1e6 => format!("{} µs", short(value / 1e3)),
        Unit::Nanoseconds if value < 1e9 => format!("{} ms", short(value / 1e6)),
        Unit::Nanoseconds => format!("{} s", short(value / 1e9)),
        Unit::Kibibytes => format!("{} KiB", short(value)),
        Unit::PerSecond => format!("{} a second", thousands(value)),
        Unit::Percent => format!("{} %", short(value)),
    }
}

fn short(value: f64) -> String {
    let places = if value < 1.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    let text = format!("{value:.places$}");
    match places {
        0 => thousands(value),
        _ => text,
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn table(page: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "| {} |", head.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(head.len()));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
}
