//! Amounts of resources as vectors of one fixed order: CPU in thousandths, memory and disk in bytes, all else in
//! thousandths. A vector may be shorter than another; what it does not name is zero.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use volley_api::kube::quantity::Quantity;

pub type Amounts = Vec<i64>;

/// No bound at all.
pub const UNLIMITED: i64 = i64::MAX;
pub const PODS: usize = 0;
const FIRST: [&str; 4] = ["pods", "cpu", "memory", "ephemeral-storage"];

/// The order of the vectors: names are numbered as they are met, and keep their number.
#[derive(Debug, Clone)]
pub struct Names {
    names: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, usize>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Names { names: Vec::new(), numbers: BTreeMap::new() };
        for name in FIRST {
            names.number(name);
        }
        names
    }
}

impl Names {
    /// How many names there are.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }

    /// All numbers in the order of their names, so that no answer depends on who was met first; devices come before
    /// the resources that every pod asks for, because they are what a gang mostly waits for.
    pub fn by_name(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.width()).collect();
        let rank = |number: usize| (number < FIRST.len(), number == PODS);
        numbers.sort_by(|a, b| (rank(*a), &self.names[*a]).cmp(&(rank(*b), &self.names[*b])));
        numbers
    }

    /// Reads a ResourceList.
    pub fn read(&mut self, list: Option<&Value>) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, value) in list.and_then(Value::as_object).into_iter().flatten() {
            let quantity = match value {
                Value::String(text) => Quantity::parse(text),
                other => Quantity::parse(&other.to_string()),
            };
            if let Ok(quantity) = quantity {
                self.set(&mut amounts, name, quantity);
            }
        }
        amounts
    }

    pub fn set(&mut self, amounts: &mut Amounts, name: &str, quantity: Quantity) {
        let number = self.number(name);
        raise_to(amounts, number, if is_bytes(name) { quantity.value() } else { quantity.milli_value() });
    }

    pub fn show(&self, number: usize, amount: i64) -> String {
        let quantity = if is_bytes(self.name(number)) { Quantity::bytes(amount) } else { Quantity::milli(amount) };
        quantity.to_string()
    }

    /// `cpu 2, nvidia.com/gpu 8`: what is not zero, devices first.
    pub fn show_all(&self, amounts: &[i64]) -> String {
        let asked = self.by_name().into_iter().filter(|number| get(amounts, *number) != 0);
        let shown: Vec<String> =
            asked.map(|number| format!("{} {}", self.name(number), self.show(number, get(amounts, number)))).collect();
        shown.join(", ")
    }
}

fn is_bytes(name: &str) -> bool {
    matches!(name, "memory" | "ephemeral-storage" | "storage") || name.starts_with("hugepages-")
}

fn raise_to(amounts: &mut Amounts, number: usize, amount: i64) {
    if amounts.len() <= number {
        amounts.resize(number + 1, 0);
    }
    amounts[number] = amount;
}

pub fn get(amounts: &[i64], number: usize) -> i64 {
    amounts.get(number).copied().unwrap_or(0)
}

pub fn add(total: &mut Amounts, more: &[i64]) {
    if total.len() < more.len() {
        total.resize(more.len(), 0);
    }
    total.iter_mut().zip(more).for_each(|(total, more)| *total = total.saturating_add(*more));
}

pub fn take(total: &mut Amounts, less: &[i64]) {
    if total.len() < less.len() {
        total.resize(less.len(), 0);
    }
    total.iter_mut().zip(less).for_each(|(total, less)| *total = total.saturating_sub(*less));
}

/// Whether `have` covers what `need` asks for; what it does not ask for may be short.
pub fn covers(have: &[i64], need: &[i64]) -> bool {
    need.iter().enumerate().all(|(number, need)| *need <= 0 || *need <= get(have, number))
}

/// `have`, filled up with zeros to `width`.
pub fn wide(have: &[i64], width: usize) -> Amounts {
    let mut amounts = have.to_vec();
    amounts.resize(width.max(have.len()), 0);
    amounts
}
