//! How do threads put together what each one has?

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A place where every thread brings a value and gets all of them as one. Whoever is gone is noticed: nobody waits
/// for a thread that ended.
pub(super) enum Meeting<T> {
    /// Of the thread with rank 0, which puts values together.
    First(Vec<(Receiver<T>, Sender<Arc<T>>)>),
    Other(Sender<T>, Receiver<Arc<T>>),
}

/// The thread with this rank has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone(pub usize);

impl<T> Meeting<T> {
    /// The places of `count` threads, by rank.
    pub fn of(count: usize) -> Vec<Self> {
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for _ in 1..count {
            let (bring, brought) = channel();
            let (give, given) = channel();
            first.push((brought, give));
            all.push(Self::Other(bring, given));
        }
        all.insert(0, Self::First(first));
        all
    }

    /// Brings `own` and waits for the others; `add` is called in the order of ranks.
    ///
    /// # Errors
    /// If a thread has ended.
    pub fn meet(&self, mut own: T, add: impl Fn(&mut T, T)) -> Result<Arc<T>, Gone> {
        match self {
            Self::First(others) => {
                for (rank, (brought, _)) in (1..).zip(others) {
                    add(&mut own, brought.recv().map_err(|_| Gone(rank))?);
                }
                let whole = Arc::new(own);
                for (rank, (_, give)) in (1..).zip(others) {
                    give.send(whole.clone()).map_err(|_| Gone(rank))?;
                }
                Ok(whole)
            }
            Self::Other(bring, given) => {
                bring.send(own).map_err(|_| Gone(0))?;
                given.recv().map_err(|_| Gone(0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_the_same_in_the_order_of_ranks() {
        let places = Meeting::of(3);
        std::thread::scope(|scope| {
            for (rank, place) in places.into_iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..20 {
                        let whole = place.meet(vec![(rank, round)], |all, more| all.extend(more)).unwrap();
                        assert_eq!(*whole, [(0, round), (1, round), (2, round)]);
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_waits_for_a_thread_that_ended() {
        let mut places = Meeting::<u32>::of(3);
        drop(places.remove(2));
        let other = places.remove(1);
        let first = places.remove(0);
        let waiting = std::thread::spawn(move || other.meet(1, |all, more| *all += more));
        assert_eq!(first.meet(0, |all, more| *all += more).unwrap_err(), Gone(2));
        drop(first);
        assert_eq!(waiting.join().unwrap().unwrap_err(), Gone(0));
    }
}
