//! Which tasks and seeds does a part of a campaign use? Everything is drawn from
//! the campaign's seed and a label, so a resumed campaign draws the same.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// A seed that depends on the campaign's seed and `label` alone.
pub fn seed(campaign: u64, label: &str) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(campaign.to_le_bytes());
    hasher.update(label.as_bytes());
    let digest = hasher.finalize();
    u64::from_le_bytes(digest[..8].try_into().expect("a SHA-256 has 32 bytes"))
}

/// The order in which `names` are used under `label`: a shuffle that does not
/// depend on the order in which they were given.
pub fn order(campaign: u64, label: &str, names: &[String]) -> Vec<String> {
    let mut keyed: Vec<_> =
        names.iter().map(|name| (seed(campaign, &format!("{label}/{name}")), name.clone())).collect();
    keyed.sort();
    keyed.into_iter().map(|(_, name)| name).collect()
}

/// As [`order`], with the names that were used most often last, so that what was seen before is
/// looked at again only when there is nothing else.
pub fn fresh_first(
    campaign: u64,
    label: &str,
    names: &[String],
    used: &BTreeMap<String, usize>,
) -> Vec<String> {
    let mut names = order(campaign, label, names);
    // Stable: equally fresh names stay shuffled.
    names.sort_by_key(|name| used.get(name).copied().unwrap_or(0));
    names
}

/// `count` names for round `round` (from 1): the rounds walk through one shuffle
/// after another, so that every task is used before one is used again.
pub fn for_round(campaign: u64, label: &str, names: &[String], round: u32, count: usize) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    let start = (round as usize - 1) * count;
    let mut drawn = Vec::with_capacity(count);
    let mut epoch = start / names.len();
    let mut at = start % names.len();
    while drawn.len() < count.min(names.len()) {
        let shuffled = order(campaign, &format!("{label}/{epoch}"), names);
        let wanted = count.min(names.len()) - drawn.len();
        let fresh: Vec<_> =
            shuffled.iter().skip(at).filter(|name| !drawn.contains(*name)).take(wanted).cloned().collect();
        drawn.extend(fresh);
        epoch += 1;
        at = 0;
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("t{i}")).collect()
    }

    #[test]
    fn a_draw_depends_on_seed_and_label_alone() {
        assert_eq!(order(1, "a", &names(9)), order(1, "a", &names(9)));
        let mut reversed = names(9);
        reversed.reverse();
        assert_eq!(order(1, "a", &names(9)), order(1, "a", &reversed));
        assert_ne!(order(1, "a", &names(9)), order(2, "a", &names(9)));
        assert_ne!(order(1, "a", &names(9)), order(1, "b", &names(9)));
    }

    #[test]
    fn what_an_earlier_gate_used_comes_last() {
        let used: BTreeMap<_, _> = [("t1", 1), ("t3", 2), ("t4", 1)].map(|(n, c)| (n.to_owned(), c)).into();
        let drawn = fresh_first(1, "r1/gate1", &names(6), &used);
        assert_eq!(drawn[5], "t3");
        let fresh: Vec<_> = drawn[..3].iter().filter(|name| used.contains_key(*name)).collect();
        assert!(fresh.is_empty(), "{drawn:?}");
        // Which of the fresh ones comes first is drawn, and from the seed.
        let firsts: std::collections::BTreeSet<_> =
            (0..40).map(|seed| fresh_first(seed, "r1/gate1", &names(6), &used)[0].clone()).collect();
        assert_eq!(firsts.len(), 3);
        assert_eq!(drawn, fresh_first(1, "r1/gate1", &names(6), &used));
    }

    #[test]
    fn every_task_is_used_before_one_is_used_again() {
        let mut used: Vec<_> = (1..=3).flat_map(|round| for_round(1, "c", &names(9), round, 3)).collect();
        used.sort();
        assert_eq!(used, names(9));
    }

    #[test]
    fn a_round_never_holds_a_task_twice() {
        for round in 1..20 {
            let mut drawn = for_round(7, "c", &names(10), round, 7);
            assert_eq!(drawn.len(), 7);
            drawn.sort();
            drawn.dedup();
            assert_eq!(drawn.len(), 7);
        }
        assert_eq!(for_round(7, "c", &names(3), 5, 8).len(), 3);
    }
}
