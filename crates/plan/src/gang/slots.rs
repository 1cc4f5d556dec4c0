//! Objects by number: a number is small, is an index, and is used again once its object has gone.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

#[derive(Debug, Clone)]
pub struct Slots<K, T> {
    numbers: BTreeMap<K, u32>,
    slots: Vec<Option<T>>,
    unused: Vec<u32>,
}

impl<K, T> Default for Slots<K, T> {
    fn default() -> Self {
        Slots { numbers: BTreeMap::new(), slots: Vec::new(), unused: Vec::new() }
    }
}

impl<K: Ord, T> Slots<K, T> {
    pub fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.numbers.get(key).copied()
    }

    /// The number of what has this key; `make` fills a new slot.
    pub fn ensure(&mut self, key: K, make: impl FnOnce() -> T) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion objects fit into memory")
        });
        self.slots[number as usize] = Some(make());
        self.numbers.insert(key, number);
        number
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let number = self.numbers.remove(key)?;
        self.unused.push(number);
        self.slots[number as usize].take()
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.numbers.values().map(|number| (*number, &self[*number]))
    }

    /// One more than the greatest number in use.
    pub fn bound(&self) -> usize {
        self.slots.len()
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl<K, T> Index<u32> for Slots<K, T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.slots[number as usize].as_ref().expect("a number is kept only while its slot is filled")
    }
}

impl<K, T> IndexMut<u32> for Slots<K, T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.slots[number as usize].as_mut().expect("a number is kept only while its slot is filled")
    }
}
