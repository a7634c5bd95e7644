//! How do the numbers of an evaluation look? Inline SVG, without scripts, fonts or files of others.

use std::fmt::Write;

use super::numbers::Estimate;
use super::pages::escape;

const LABELS: f64 = 130.0;
const PLOT: f64 = 460.0;
const ROW: f64 = 26.0;

/// Estimates with their intervals, one under the other, on an axis from `from` to `to` in percent.
pub fn estimates(rows: &[(String, Estimate)], from: f64, to: f64) -> String {
    let height = ROW * rows.len() as f64 + 34.0;
    let mut svg = open(LABELS + PLOT + 90.0, height);
    let x = |value: f64| LABELS + PLOT * (value - from) / (to - from);
    let step = if to - from > 1.0 { 0.5 } else { 0.25 };
    let mut tick = from;
    while tick <= to + 1e-9 {
        let at = x(tick);
        let colour = if tick.abs() < 1e-9 { "#888" } else { "#ddd" };
        let _ = write!(
            svg,
            r##"<line x1="{at:.1}" y1="4" x2="{at:.1}" y2="{:.1}" stroke="{colour}"/>"##,
            height - 28.0
        );
        let _ = write!(
            svg,
            r##"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{:.0} %</text>"##,
            height - 12.0,
            100.0 * tick
        );
        tick += step;
    }
    for (at, (name, estimate)) in rows.iter().enumerate() {
        let y = ROW * at as f64 + 18.0;
        let _ = write!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
            LABELS - 8.0,
            y + 4.0,
            escape(name)
        );
        if let Some([low, high]) = estimate.interval {
            let _ = write!(
                svg,
                r##"<line x1="{:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#2b6cb0" stroke-width="3"/>"##,
                x(low),
                x(high)
            );
        }
        let _ = write!(svg, r##"<circle cx="{:.1}" cy="{y:.1}" r="5" fill="#2b6cb0"/>"##, x(estimate.value));
        let _ = write!(
            svg,
            r##"<text x="{:.1}" y="{:.1}">{:.1} %</text>"##,
            LABELS + PLOT + 12.0,
            y + 4.0,
            100.0 * estimate.value
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Curves of pass@k, one for each arm.
pub fn curves(lines: &[(String, Vec<(usize, f64)>)]) -> String {
    const COLOURS: [&str; 8] =
        ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#319795"];
    let (height, top) = (220.0, 10.0);
    let mut svg = open(LABELS + PLOT + 90.0, height + 20.0 + 18.0 * lines.len() as f64);
    let most = lines.iter().flat_map(|(_, points)| points.iter().map(|(k, _)| *k)).max().unwrap_or(1).max(2);
    let x = |k: usize| 50.0 + (PLOT + 80.0) * (k as f64).log2() / (most as f64).log2();
    let y = |value: f64| top + (height - 40.0) * (1.0 - value);
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = y(tick);
        let _ =
            write!(svg, r##"<line x1="50" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#ddd"/>"##, x(most));
        let _ = write!(
            svg,
            r##"<text x="44" y="{:.1}" text-anchor="end">{:.0} %</text>"##,
            at + 4.0,
            100.0 * tick
        );
    }
    let mut ks: Vec<usize> = lines.iter().flat_map(|(_, points)| points.iter().map(|(k, _)| *k)).collect();
    ks.sort_unstable();
    ks.dedup();
    for k in ks {
        let _ = write!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="middle">k = {k}</text>"##,
            x(k),
            height - 10.0
        );
    }
    for (at, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let path: Vec<String> =
            points.iter().map(|(k, value)| format!("{:.1},{:.1}", x(*k), y(*value))).collect();
        let _ = write!(
            svg,
            r##"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"##,
            path.join(" ")
        );
        for (k, value) in points {
            let _ =
                write!(svg, r##"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{colour}"/>"##, x(*k), y(*value));
        }
        let below = height + 12.0 + 18.0 * at as f64;
        let _ = write!(svg, r##"<circle cx="56" cy="{:.1}" r="5" fill="{colour}"/>"##, below - 4.0);
        let _ = write!(svg, r##"<text x="68" y="{below:.1}">{}</text>"##, escape(name));
    }
    svg.push_str("</svg>");
    svg
}

fn open(width: f64, height: f64) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="sans-serif" font-size="12" role="img">"##
    )
}
