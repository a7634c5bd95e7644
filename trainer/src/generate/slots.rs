//! Which slot of the cache holds which tokens?

use std::collections::HashMap;

/// Prefixes shorter than this are computed again rather than looked for.
const WORTH_COPYING: usize = 16;

/// The bookkeeping of the cache's slots.
///
/// A slot keeps its tokens after its sequence is closed, until another sequence needs
/// the room; so any slot, live or not, can lend a prefix that a new prompt shares with
/// it and has its salt. The episodes of a group and the common system prompt are computed once.
pub(super) struct Slots {
    slots: Vec<Slot>,
    clock: u64,
}

#[derive(Default)]
struct Slot {
    /// The tokens whose keys and values are in the cache.
    ids: Vec<u32>,
    /// Whose prompts may share them.
    salt: u64,
    owner: Option<u64>,
    used: u64,
}

/// A part of one slot that another one can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub from: usize,
    pub tokens: usize,
}

impl Slots {
    pub fn new(count: usize) -> Self {
        Self { slots: (0..count).map(|_| Slot::default()).collect(), clock: 0 }
    }

    /// The slot of a sequence.
    pub fn of(&self, owner: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.owner == Some(owner))
    }

    /// The slots of all sequences that have one.
    pub fn by_owner(&self) -> HashMap<u64, usize> {
        let owned = |(slot, of): (usize, &Slot)| Some((of.owner?, slot));
        self.slots.iter().enumerate().filter_map(owned).collect()
    }

    /// How many tokens of a slot are in the cache.
    pub fn filled(&self, slot: usize) -> usize {
        self.slots[slot].ids.len()
    }

    /// Notes that tokens were computed into a slot.
    pub fn push(&mut self, slot: usize, ids: &[u32]) {
        self.clock += 1;
        self.slots[slot].used = self.clock;
        self.slots[slot].ids.extend_from_slice(ids);
    }

    /// How much of `prompt` some slot of this salt holds already.
    pub fn longest(&self, prompt: &[u32], salt: u64) -> usize {
        self.best(prompt, salt).map_or(0, |shared| shared.tokens)
    }

    /// Gives a sequence a slot for `prompt`, keeping or sharing what is computed of it.
    /// Returns the slot and what is to be copied into it. At least the last token of the
    /// prompt is left to compute, since its logits are needed.
    ///
    /// None when all slots are taken.
    pub fn place(&mut self, owner: u64, prompt: &[u32], salt: u64) -> Option<(usize, Option<Shared>)> {
        let best = self.best(prompt, salt).filter(|shared| shared.tokens >= WORTH_COPYING);
        let slot = match self.of(owner) {
            Some(own) => own,
            None => match best {
                // The prefix lies in a slot that nobody uses: take it over.
                Some(shared) if self.slots[shared.from].owner.is_none() => shared.from,
                _ => self.least_recent()?,
            },
        };
        let kept = self.shared(slot, prompt, salt);
        self.clock += 1;
        self.slots[slot].salt = salt;
        self.slots[slot].owner = Some(owner);
        self.slots[slot].used = self.clock;
        self.slots[slot].ids.truncate(kept);
        let copy = best.filter(|shared| shared.from != slot && shared.tokens >= kept + WORTH_COPYING);
        if let Some(shared) = copy {
            self.slots[slot].ids = prompt[..shared.tokens].to_vec();
        }
        Some((slot, copy))
    }

    /// Frees the slot of a closed sequence; its tokens can still be shared.
    pub fn release(&mut self, owner: u64) {
        if let Some(slot) = self.of(owner) {
            self.slots[slot].owner = None;
        }
    }

    /// Forgets all tokens: the weights or the cache have changed.
    pub fn forget(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.ids.clear());
    }

    fn best(&self, prompt: &[u32], salt: u64) -> Option<Shared> {
        (0..self.slots.len())
            .map(|from| Shared { from, tokens: self.shared(from, prompt, salt) })
            .max_by_key(|shared| shared.tokens)
    }

    /// How many tokens of `prompt` need not be computed again where `slot` is at hand: never all of them.
    fn shared(&self, slot: usize, prompt: &[u32], salt: u64) -> usize {
        match self.slots[slot].salt == salt {
            true => common(&self.slots[slot].ids, prompt).min(prompt.len().saturating_sub(1)),
            false => 0,
        }
    }

    fn least_recent(&self) -> Option<usize> {
        (0..self.slots.len())
            .filter(|slot| self.slots[*slot].owner.is_none())
            .min_by_key(|slot| (!self.slots[*slot].ids.is_empty(), self.slots[*slot].used))
    }
}

/// The length of the prefix that both have.
pub(super) fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(shared: usize, own: u32) -> Vec<u32> {
        (0..shared as u32).chain([1000 + own; 8]).collect()
    }

    fn fill(slots: &mut Slots, owner: u64, ids: &[u32]) -> usize {
        let (slot, _) = slots.place(owner, ids, 0).unwrap();
        let done = slots.filled(slot);
        slots.push(slot, &ids[done..]);
        slot
    }

    #[test]
    fn a_live_slot_lends_its_prefix_and_keeps_its_own_tokens() {
        let mut slots = Slots::new(2);
        let first = fill(&mut slots, 1, &prompt(40, 1));
        let (second, copy) = slots.place(2, &prompt(40, 2), 0).unwrap();
        assert_eq!(copy, Some(Shared { from: first, tokens: 40 }));
        assert_eq!((slots.filled(first), slots.filled(second)), (48, 40));
        assert_eq!(slots.place(3, &[1], 0), None);
    }

    #[test]
    fn a_free_slot_with_the_prefix_is_taken_over() {
        let mut slots = Slots::new(3);
        let first = fill(&mut slots, 1, &prompt(40, 1));
        slots.release(1);
        assert_eq!(slots.place(2, &prompt(40, 2), 0), Some((first, None)));
        assert_eq!(slots.filled(first), 40);
    }

    #[test]
    fn a_prefix_of_another_salt_is_neither_lent_nor_kept() {
        let mut slots = Slots::new(2);
        let first = fill(&mut slots, 1, &prompt(40, 1));
        assert_eq!((slots.longest(&prompt(40, 2), 0), slots.longest(&prompt(40, 2), 1)), (40, 0));
        let (second, copy) = slots.place(2, &prompt(40, 2), 1).unwrap();
        assert_eq!((copy, slots.filled(second)), (None, 0));
        // A slot that nobody uses is taken without what is in it.
        slots.release(1);
        let (third, copy) = slots.place(3, &prompt(40, 3), 1).unwrap();
        assert_eq!((third, copy, slots.filled(third)), (first, None, 0));
    }

    #[test]
    fn the_last_token_is_always_left_to_compute() {
        let mut slots = Slots::new(2);
        let ids = prompt(40, 1);
        fill(&mut slots, 1, &ids);
        let (slot, _) = slots.place(2, &ids, 0).unwrap();
        assert_eq!(slots.filled(slot), ids.len() - 1);
        let (slot, _) = slots.place(1, &ids, 0).unwrap();
        assert_eq!(slots.filled(slot), ids.len() - 1);
    }

    #[test]
    fn what_a_failed_request_left_behind_is_not_taken_for_the_sequence() {
        let mut slots = Slots::new(1);
        let slot = fill(&mut slots, 1, &prompt(40, 1));
        slots.place(1, &prompt(20, 3), 0).unwrap();
        assert_eq!(slots.filled(slot), 20);
    }

    #[test]
    fn the_slot_unused_for_longest_goes_first() {
        let mut slots = Slots::new(2);
        let first = fill(&mut slots, 1, &prompt(0, 1));
        let second = fill(&mut slots, 2, &prompt(0, 2));
        slots.push(first, &[5]);
        slots.release(1);
        slots.release(2);
        assert_eq!(slots.place(3, &prompt(0, 3), 0).unwrap().0, second);
    }
}
