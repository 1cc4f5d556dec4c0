//! Queues whose victims give a queue room: its own, and those below a queue above it that is at its bound.

use super::amounts::{Amounts, add};
use super::queues::Ledger;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Kin {
    /// By queue: the first of the asking queue and those above it that gets back what the queue gives.
    levels: BTreeMap<usize, usize>,
    /// How many they are, the asking queue and those above it.
    depth: usize,
}

impl Kin {
    /// Where nobody above lacks what the queue asks for, only its own victims count, and no other queue is looked at.
    pub fn new(ledger: &Ledger, queue: usize, more: &[i64]) -> Kin {
        let line = ledger.line(queue);
        let is_short = |number: &usize| ledger.shortage_at(*number, more, &[], true).is_some();
        let top = line.iter().rposition(is_short).unwrap_or(0);
        let mut levels = BTreeMap::from([(queue, 0)]);
        if top > 0 {
            for number in 0..ledger.accounts.len() {
                let own = ledger.line(number);
                if let Some(level) = line[..=top].iter().position(|above| own.contains(above)) {
                    levels.insert(number, level);
                }
            }
        }
        Kin { levels, depth: line.len() }
    }

    pub fn contains(&self, queue: Option<usize>) -> bool {
        queue.is_some_and(|queue| self.levels.contains_key(&queue))
    }

    /// By level, what has been given back: nothing yet.
    pub fn nothing(&self) -> Vec<Amounts> {
        vec![Amounts::new(); self.depth]
    }

    /// Enters what a victim of the queue gives back.
    pub fn give(&self, freed: &mut [Amounts], queue: Option<usize>, held: &[i64]) {
        if let Some(level) = queue.and_then(|queue| self.levels.get(&queue)) {
            freed[*level..].iter_mut().for_each(|freed| add(freed, held));
        }
    }
}
