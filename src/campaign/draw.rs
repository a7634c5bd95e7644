//! Which tasks and seeds does a part of a campaign use? Everything is drawn from
//! the campaign's seed and a label, so a resumed campaign draws the same.

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
