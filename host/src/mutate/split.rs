//! Which modules go to training, which to the gate, which are held out?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part of a pool. No module is in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    Train,
    Gate,
    HoldOut,
}

impl Split {
    /// All parts, the largest first.
    pub const ALL: [Self; 3] = [Self::Train, Self::Gate, Self::HoldOut];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Gate => "gate",
            Self::HoldOut => "hold-out",
        }
    }

    /// Its share of the candidates, percent.
    fn share(self) -> usize {
        match self {
            Self::Train => 70,
            Self::Gate | Self::HoldOut => 15,
        }
    }
}

/// Gives each module, with its number of candidates, to the part that lacks most; no part
/// stays empty where there are modules enough.
pub(super) fn assign(modules: &BTreeMap<String, usize>) -> BTreeMap<String, Split> {
    let total: usize = modules.values().sum();
    let mut order: Vec<(&String, usize)> = modules.iter().map(|(name, count)| (name, *count)).collect();
    order.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
    let mut given: BTreeMap<Split, usize> = BTreeMap::new();
    let mut assigned = BTreeMap::new();
    let modules = order.len();
    for (at, (name, count)) in order.into_iter().enumerate() {
        let empty = Split::ALL.iter().filter(|split| !given.contains_key(split)).count();
        let only_empty = modules - at <= empty;
        let lacks = |split: &Split| {
            let has = given.get(split).copied().unwrap_or(0);
            let lack = (split.share() * total) as i64 - 100 * has as i64;
            (only_empty && !given.contains_key(split), lack)
        };
        // Of equals the first: `max_by_key` would take the last.
        let split = Split::ALL.into_iter().rev().max_by_key(lacks).unwrap_or(Split::Train);
        *given.entry(split).or_default() += count;
        assigned.insert(name.clone(), split);
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(modules: &[(&str, usize)], expected: &[(&str, Split)]) {
        let modules = modules.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let expected = expected.iter().map(|(name, split)| ((*name).to_owned(), *split)).collect();
        assert_eq!(assign(&modules), expected);
    }

    #[test]
    fn the_largest_modules_are_trained_on() {
        use Split::{Gate, HoldOut, Train};
        check(&[("a", 10)], &[("a", Train)]);
        check(&[("a", 10), ("b", 70), ("c", 20)], &[("a", HoldOut), ("b", Train), ("c", Gate)]);
        check(
            &[("a", 1), ("b", 1), ("c", 1), ("d", 1)],
            &[("a", Train), ("b", Train), ("c", Gate), ("d", HoldOut)],
        );
        check(&[("a", 40), ("b", 35), ("c", 25)], &[("a", Train), ("b", Gate), ("c", HoldOut)]);
        check(&[("a", 5), ("b", 5)], &[("a", Train), ("b", Gate)]);
        check(&[], &[]);
    }
}
