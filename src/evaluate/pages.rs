//! How is an evaluation told on one page? The same sections as Markdown and as HTML.

use std::fmt::Write;

use super::figures;
use super::numbers::Estimate;
use super::table::{ArmLine, Evaluation, PartTable};

/// A piece of the page.
enum Block {
    Heading(String),
    Text(String),
    Table {
        head: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    },
    /// SVG; Markdown goes without, since its tables say the same.
    Figure(String),
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn points(value: f64) -> String {
    format!("{:+.1}", 100.0 * value)
}

fn between(estimate: &Estimate, shown: fn(f64) -> String) -> String {
    match estimate.interval {
        Some([low, high]) => format!("{} to {}", shown(low), shown(high)),
        None => "too few tasks".into(),
    }
}

fn counts(counts: &std::collections::BTreeMap<String, usize>) -> String {
    let told: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if told.is_empty() { "none".into() } else { told.join(", ") }
}

fn blocks(evaluation: &Evaluation) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(format!("Evaluation of {}", evaluation.name))];
    let head = |digest: &Option<tandem_host::store::Digest>| {
        digest.map_or("none".into(), |digest| digest.to_string())
    };
    blocks.push(Block::Text(format!(
        "Run `{}`, sealed by `{}`; this evaluation by `{}`. {} episodes of a task in each arm, the same seeds in all arms (seed {}). \
         The task is the sample: a pass rate is the mean over tasks of the share of episodes that solved it. An episode \
         without a verdict counts as a failure. Intervals are 95 % percentile bootstraps over tasks; p is McNemar's exact \
         test on tasks that more than half of the episodes solved.",
        evaluation.run,
        head(&evaluation.run_head),
        head(&evaluation.own_head),
        evaluation.episodes,
        evaluation.seed,
    )));
    if !evaluation.mismatches.is_empty() {
        blocks.push(Block::Text(format!(
            "Not like for like: {}. What those arms gain or lose has that in it too.",
            evaluation.mismatches.join("; ")
        )));
    }
    evaluation.parts.iter().for_each(|part| part_blocks(part, evaluation.episodes, &mut blocks));
    blocks
}

fn part_blocks(part: &PartTable, episodes: usize, blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading(format!("{} ({})", part.part.title(), part.tasks)));
    let asked = episodes * part.tasks;
    if let Some(line) = part.arms.iter().find(|line| line.episodes < asked) {
        blocks.push(Block::Text(format!(
            "Not done yet: the arm {} has {} of {asked} episodes.",
            line.arm.name, line.episodes
        )));
    }
    blocks.push(Block::Table {
        head: vec![
            "arm",
            "what it is",
            "policy",
            "harness",
            "pass rate",
            "95 %",
            "solved",
            "turns",
            "tokens",
        ],
        rows: part.arms.iter().map(arm_cells).collect(),
    });
    let rates: Vec<_> = part.arms.iter().map(|line| (line.arm.name.clone(), line.pass)).collect();
    blocks.push(Block::Figure(figures::estimates(&rates, 0.0, 1.0)));
    if !part.comparisons.is_empty() {
        blocks.push(Block::Table {
            head: vec!["from", "to", "points", "95 %", "tasks gained", "tasks lost", "p"],
            rows: part
                .comparisons
                .iter()
                .map(|line| {
                    vec![
                        line.before.clone(),
                        line.after.clone(),
                        points(line.difference.value),
                        between(&line.difference, points),
                        line.mcnemar.gained.to_string(),
                        line.mcnemar.lost.to_string(),
                        if line.mcnemar.p < 0.001 {
                            "< 0.001".into()
                        } else {
                            format!("{:.3}", line.mcnemar.p)
                        },
                    ]
                })
                .collect(),
        });
        let rows: Vec<_> = part
            .comparisons
            .iter()
            .map(|line| (format!("{} → {}", line.before, line.after), line.difference))
            .collect();
        blocks.push(Block::Figure(figures::estimates(&rows, -1.0, 1.0)));
    }
    if let Some(interaction) = &part.interaction {
        blocks.push(Block::Text(format!(
            "Policy and harness together bring {} points more than both alone (95 %: {}).",
            points(interaction.value),
            between(interaction, points)
        )));
    }
    let ks: Vec<usize> =
        part.arms.first().map_or_else(Vec::new, |line| line.pass_at.iter().map(|(k, _)| *k).collect());
    if ks.len() > 1 {
        const HEADS: [&str; 6] = ["arm", "pass@1", "pass@2", "pass@4", "pass@8", "pass@16"];
        blocks.push(Block::Table {
            head: HEADS[..=ks.len()].to_vec(),
            rows: part
                .arms
                .iter()
                .map(|line| {
                    let values = line.pass_at.iter().map(|(_, value)| percent(*value));
                    [line.arm.name.clone()].into_iter().chain(values).collect()
                })
                .collect(),
        });
        let lines: Vec<_> =
            part.arms.iter().map(|line| (line.arm.name.clone(), line.pass_at.clone())).collect();
        blocks.push(Block::Figure(figures::curves(&lines)));
    }
    blocks.push(Block::Table {
        head: vec!["arm", "no verdict, by cause", "ended by a limit or a hook"],
        rows: part
            .arms
            .iter()
            .map(|line| vec![line.arm.name.clone(), counts(&line.no_verdict), counts(&line.cut_short)])
            .collect(),
    });
}

fn arm_cells(line: &ArmLine) -> Vec<String> {
    vec![
        line.arm.name.clone(),
        line.arm.told.clone(),
        format!("v{}", line.arm.policy_version),
        line.arm.harness.short(),
        percent(line.pass.value),
        between(&line.pass, percent),
        format!("{}/{}", line.solved, line.episodes),
        format!("{:.1}", line.turns),
        format!("{:.0}", line.sampled_tokens),
    ]
}

/// The page as Markdown.
pub fn markdown(evaluation: &Evaluation) -> String {
    let mut text = String::new();
    for (at, block) in blocks(evaluation).iter().enumerate() {
        match block {
            Block::Heading(heading) => {
                let _ = writeln!(text, "{} {heading}\n", if at == 0 { "#" } else { "##" });
            }
            Block::Text(paragraph) => {
                let _ = writeln!(text, "{paragraph}\n");
            }
            Block::Table { head, rows } => {
                let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
                let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
                let _ = writeln!(text, "{}\n|{}", line(&head), "---|".repeat(head.len()));
                for row in rows {
                    let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
                    let _ = writeln!(text, "{}", line(&cells));
                }
                text.push('\n');
            }
            Block::Figure(_) => {}
        }
    }
    text
}

/// The page as HTML, with its figures and nothing that would have to be fetched.
pub fn html(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Evaluation of {}</title>\n<style>\
         body{{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}}\
         table{{border-collapse:collapse;margin:1em 0}}td,th{{border-bottom:1px solid #ddd;padding:.25em .7em;text-align:left}}\
         code{{font-size:85%;overflow-wrap:anywhere}}</style></head><body>\n",
        escape(&evaluation.name)
    );
    for (at, block) in blocks(evaluation).iter().enumerate() {
        match block {
            Block::Heading(heading) => {
                let tag = if at == 0 { "h1" } else { "h2" };
                let _ = writeln!(text, "<{tag}>{}</{tag}>", escape(heading));
            }
            Block::Text(paragraph) => {
                // Backticks come in pairs; every second piece is code.
                let pieces: String = paragraph
                    .split('`')
                    .enumerate()
                    .map(|(at, piece)| match at % 2 {
                        0 => escape(piece),
                        _ => format!("<code>{}</code>", escape(piece)),
                    })
                    .collect();
                let _ = writeln!(text, "<p>{pieces}</p>");
            }
            Block::Table { head, rows } => {
                let heads: String = head.iter().map(|cell| format!("<th>{}</th>", escape(cell))).collect();
                let _ = writeln!(text, "<table><tr>{heads}</tr>");
                for row in rows {
                    let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
                    let _ = writeln!(text, "<tr>{cells}</tr>");
                }
                text.push_str("</table>\n");
            }
            Block::Figure(svg) => {
                let _ = writeln!(text, "<p>{svg}</p>");
            }
        }
    }
    text.push_str("</body></html>\n");
    text
}

/// Text inside HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
