//! What will the gates of a campaign take? Told before the first of them.

use super::config::GateConfig;
use super::pool::Pool;
use super::report::number;
use super::simulate::{Characteristics, Question, simulate};

/// Gates that are simulated of each kind: enough for a first impression in a moment.
const GATES: usize = 200;

/// The lines that tell what gates cost at most, and as simulated on `pools`; `tasks` are the tasks that each
/// of them has to draw from. None when there is no gate, or one without tasks.
pub fn gate_cost(config: &GateConfig, tasks: &[usize], pools: &[Pool]) -> Option<String> {
    let tasks: Vec<_> = tasks.iter().map(|tasks| config.tasks.min(*tasks)).collect();
    let (&first, &last) = (tasks.first()?, tasks.last()?);
    let (&least, &most) = (tasks.iter().min()?, tasks.iter().max()?);
    if least == 0 || pools.is_empty() {
        return None;
    }
    let ask = |gain: f64, tasks: usize, decision: usize| {
        let config = GateConfig { tasks, ..config.clone() };
        let question = Question { config, decision: decision as u32, gain, gates: GATES, seed: 1 };
        pools.iter().map(|pool| simulate(&question, pool)).collect::<Vec<_>>()
    };
    let (nothing, useful) = (ask(0.0, first, 1), ask(config.useful, first, 1));
    let rollouts = |found: &[Characteristics]| range(found, |one| one.rollouts, "");
    let share = |found: &[Characteristics]| range(found, |one| 100.0 * one.accepted, " %");
    let names: Vec<_> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let points = number(100.0 * config.useful);
    let gates = tasks.len();
    let each = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let mut text = format!(
        "gates: {gates} at most, each of {each} tasks × 2 arms × {} rollouts = {} at most, {} in all\n\
         gates: as simulated ({}), one takes {} rollouts when a candidate does nothing, {} when it brings {points} points",
        config.group_size,
        config.most_rollouts(most),
        tasks.iter().map(|tasks| config.most_rollouts(*tasks)).sum::<usize>(),
        names.join(", "),
        rollouts(&nothing),
        rollouts(&useful),
    );
    text.push_str(&format!(
        "\ngates: {points} points are found in {} of the cases by the first gate",
        share(&useful)
    ));
    if gates > 1 {
        text.push_str(&format!(", in {} by gate {gates}", share(&ask(config.useful, last, gates))));
    }
    text.push_str("; see `tandem gate simulate`");
    Some(text)
}

/// The least and the most of one number over the pools.
fn range(found: &[Characteristics], value: fn(&Characteristics) -> f64, unit: &str) -> String {
    let low = found.iter().map(value).fold(f64::INFINITY, f64::min).round();
    let high = found.iter().map(value).fold(0.0, f64::max).round();
    if low == high { format!("{low}{unit}") } else { format!("{low} to {high}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tasks: &[usize], expected: expect_test::Expect) {
        let config = GateConfig { tasks: 64, ..GateConfig::default() };
        expected.assert_eq(&gate_cost(&config, tasks, &Pool::synthetic()).unwrap_or_default());
    }

    #[test]
    fn a_campaign_hears_what_its_gates_cost_before_they_start() {
        check(&[], expect_test::expect![""]);
        check(&[40, 0], expect_test::expect![""]);
        check(
            &[40; 6],
            expect_test::expect![[r#"
                gates: 6 at most, each of 40 tasks × 2 arms × 8 rollouts = 640 at most, 3840 in all
                gates: as simulated (hard, middle, easy), one takes 640 rollouts when a candidate does nothing, 639 to 640 when it brings 5 points
                gates: 5 points are found in 0 to 2 % of the cases by the first gate, in 0 % by gate 6; see `tandem gate simulate`"#]],
        );
    }

    #[test]
    fn a_first_gate_with_few_tasks_is_not_taken_for_one_with_all() {
        check(
            &[16, 200],
            expect_test::expect![[r#"
            gates: 2 at most, each of 16 to 64 tasks × 2 arms × 8 rollouts = 1024 at most, 1280 in all
            gates: as simulated (hard, middle, easy), one takes 256 rollouts when a candidate does nothing, 256 when it brings 5 points
            gates: 5 points are found in 0 % of the cases by the first gate, in 0 to 1 % by gate 2; see `tandem gate simulate`"#]],
        );
    }
}
