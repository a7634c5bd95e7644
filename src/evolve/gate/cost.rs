//! What will the gates of a campaign take? Told before the first of them.

use super::config::GateConfig;
use super::pool::Pool;
use super::report::number;
use super::simulate::{Characteristics, Question, simulate};

/// Gates that are simulated of each kind: enough for a first impression in a moment.
const GATES: usize = 200;

/// The lines that tell what `gates` gates on a pool of `tasks` tasks cost at most, and as simulated on
/// `pools`; none when there is no gate.
pub fn gate_cost(config: &GateConfig, gates: usize, tasks: usize, pools: &[Pool]) -> Option<String> {
    let tasks = config.tasks.min(tasks);
    if gates == 0 || tasks == 0 || pools.is_empty() {
        return None;
    }
    let config = GateConfig { tasks, ..config.clone() };
    let ask = |gain: f64, decision: usize| {
        let question =
            Question { config: config.clone(), decision: decision as u32, gain, gates: GATES, seed: 1 };
        pools.iter().map(|pool| simulate(&question, pool)).collect::<Vec<_>>()
    };
    let (nothing, useful, last) = (ask(0.0, 1), ask(config.useful, 1), ask(config.useful, gates));
    let most = config.most_rollouts(tasks);
    let rollouts = |found: &[Characteristics]| range(found, |one| one.rollouts, "");
    let share = |found: &[Characteristics]| range(found, |one| 100.0 * one.accepted, " %");
    let names: Vec<_> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let points = number(100.0 * config.useful);
    let mut text = format!(
        "gates: {gates} at most, each of {tasks} tasks × 2 arms × {} rollouts = {most} at most, {} in all\n\
         gates: as simulated ({}), one takes {} rollouts when a candidate does nothing, {} when it brings {points} points",
        config.group_size,
        gates * most,
        names.join(", "),
        rollouts(&nothing),
        rollouts(&useful),
    );
    text.push_str(&format!(
        "\ngates: {points} points are found in {} of the cases by the first gate",
        share(&useful)
    ));
    if gates > 1 {
        text.push_str(&format!(", in {} by gate {gates}", share(&last)));
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

    #[test]
    fn a_campaign_hears_what_its_gates_cost_before_they_start() {
        let config = GateConfig { tasks: 64, ..GateConfig::default() };
        let text = gate_cost(&config, 6, 40, &Pool::synthetic()).unwrap();
        expect_test::expect![[r#"
            gates: 6 at most, each of 40 tasks × 2 arms × 8 rollouts = 640 at most, 3840 in all
            gates: as simulated (hard, middle, easy), one takes 640 rollouts when a candidate does nothing, 639 to 640 when it brings 5 points
            gates: 5 points are found in 0 to 2 % of the cases by the first gate, in 0 % by gate 6; see `tandem gate simulate`"#]].assert_eq(&text);
        assert_eq!(gate_cost(&config, 0, 40, &Pool::synthetic()), None);
    }
}
