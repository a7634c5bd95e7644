//! How much does a bettor win against a null hypothesis? The e-process of the gate.

/// The bets λ over which the wealth is averaged.
const BETS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// The wealth W(x; margin) of one e-process and its running maximum.
#[derive(Clone, Copy, Debug)]
pub struct Wealth {
    bets: [f64; 5],
    max: f64,
}

impl Wealth {
    pub const START: Self = Self { bets: [1.0; 5], max: 1.0 };

    /// Bets on one more `x` of [−1, 1] against the null E[x | past] ≤ −`margin`.
    pub fn push(&mut self, x: f64, margin: f64) {
        for (wealth, bet) in self.bets.iter_mut().zip(BETS) {
            *wealth *= 1.0 + bet * (x + margin);
        }
        self.max = self.max.max(self.mean());
    }

    /// The wealth now.
    pub fn mean(&self) -> f64 {
        self.bets.iter().sum::<f64>() / self.bets.len() as f64
    }

    /// The most that it was so far.
    pub fn max(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wealth_follows_the_golden_vector() {
        let d = [0.25, 0.125, 0.0, 0.5, -0.125, 0.25, 0.375, 0.125, 0.0, 0.25];
        let expected =
            [1.125, 1.197813, 1.197813, 1.513516, 1.407845, 1.600775, 1.940119, 2.082961, 2.082961, 2.394169];
        let mut level = Wealth::START;
        let mut margin = Wealth::START;
        for (x, want) in d.into_iter().zip(expected) {
            level.push(x, 0.0);
            margin.push(x, 0.02);
            assert!((level.mean() - want).abs() < 1e-6, "{} is not {want}", level.mean());
        }
        assert!((margin.mean() - 2.674607).abs() < 1e-6);
        assert!((level.max() - 2.394169).abs() < 1e-6);
    }

    #[test]
    fn wealth_never_falls_below_zero_and_its_maximum_never_falls() {
        let mut wealth = Wealth::START;
        for _ in 0..2_000 {
            wealth.push(-1.0, 0.0);
        }
        assert!(wealth.mean() >= 0.0 && wealth.max() == 1.0);
    }
}
