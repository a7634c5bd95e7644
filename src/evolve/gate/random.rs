//! Random numbers of simulations: the same for a seed on every machine and for any number of threads.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), and draws
/// from the distributions that a simulated gate needs.
pub struct Random(u64);

impl Random {
    /// Stream `number` of `seed`.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        // Near seeds part at once.
        random.0 = random.next() ^ seed.rotate_left(32);
        random
    }

    /// The generator as its authors have it, from this state.
    pub fn of_state(state: u64) -> Self {
        Self(state)
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A whole number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end - 1)
    }

    fn normal(&mut self) -> f64 {
        // Box and Muller.
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Gamma of shape `shape` (Marsaglia and Tsang, 2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let factor = self.uniform().powf(1.0 / shape);
            return self.gamma(shape + 1.0) * factor;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// Beta(a, b), both over 0.
    pub fn beta(&mut self, a: f64, b: f64) -> f64 {
        let (x, y) = (self.gamma(a), self.gamma(b));
        if x + y == 0.0 { 0.0 } else { x / (x + y) }
    }

    /// Successes of `count` tries with probability `p`.
    pub fn successes(&mut self, count: usize, p: f64) -> usize {
        (0..count).filter(|_| self.uniform() < p).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: f64, b: f64) {
        let mut random = Random::new(5, 0);
        let count = 20_000;
        let draws: Vec<f64> = (0..count).map(|_| random.beta(a, b)).collect();
        let mean = draws.iter().sum::<f64>() / count as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
        let expected = a * b / ((a + b).powi(2) * (a + b + 1.0));
        assert!((mean - a / (a + b)).abs() < 0.01, "Beta({a}, {b}) has mean {mean}");
        assert!((variance - expected).abs() < 0.005, "Beta({a}, {b}) has variance {variance}");
    }

    #[test]
    fn beta_draws_have_the_moments_of_their_distribution() {
        check(0.3, 1.78);
        check(0.5, 0.5);
        check(5.0, 2.0);
    }

    #[test]
    fn streams_of_one_seed_differ_and_come_again() {
        let draw = |seed, number| Random::new(seed, number).next();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(1, 3) && draw(1, 2) != draw(2, 2) && draw(0, 0) != draw(0, 1));
    }
}
