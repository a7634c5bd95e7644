//! Which device computes which pieces of work?

use std::cmp::Reverse;

/// Divides pieces with these costs among `parts` devices: the dearest first, each to the one that
/// has least so far (Graham 1969: at most a third over the best division). The numbers of a part are in order.
///
/// The same costs are always divided in the same way.
pub(crate) fn split(costs: &[usize], parts: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|piece| Reverse(costs[*piece]));
    let mut all = vec![Vec::new(); parts];
    let mut loads = vec![0; parts];
    for piece in order {
        let least = (0..parts).min_by_key(|part| loads[*part]).unwrap_or(0);
        loads[least] += costs[piece];
        all[least].push(piece);
    }
    all.iter_mut().for_each(|part: &mut Vec<usize>| part.sort_unstable());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_computed_once_and_devices_have_about_the_same() {
        for parts in 1..5 {
            let costs: Vec<usize> = (0..40).map(|piece| 20 + (piece * 37) % 61).collect();
            let divided = split(&costs, parts);
            let mut all: Vec<usize> = divided.concat();
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
            let loads = divided.iter().map(|part| part.iter().map(|piece| costs[*piece]).sum::<usize>());
            let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
            assert!(most - least <= 30, "{parts} parts: {least} to {most}");
        }
    }

    #[test]
    fn there_may_be_more_devices_than_pieces() {
        assert_eq!(split(&[5], 3), [vec![0], vec![], vec![]]);
        assert_eq!(split(&[], 2), [vec![], vec![]] as [Vec<usize>; 2]);
        assert_eq!(split(&[4, 4, 4, 4], 2), [vec![0, 2], vec![1, 3]]);
    }
}
