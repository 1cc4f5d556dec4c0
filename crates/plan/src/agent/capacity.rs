//! What an agent may still take: by number, and by what is free in its cluster.

use crate::launch::demand::{Amounts, short};
use volley_api::kube::quantity::Quantity;

/// A limit of concurrent launches; -1 in the config means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    AtMost(u32),
    Unlimited,
}

impl Limit {
    fn left(self, running: usize) -> Option<usize> {
        match self {
            Limit::Unlimited => None,
            Limit::AtMost(most) => Some(usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(running)),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    pub jobs: Limit,
    pub schedulers: Limit,
    /// What is free in the cluster, by resource; what is not named is not counted.
    pub free: Amounts,
}

/// How much of it is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub jobs: usize,
    pub schedulers: usize,
}

/// One request asks for this many items at most, so that an agent without a limit still takes them in turns.
pub const TAKE_MAX: usize = 64;

impl Capacity {
    /// How many items to ask the server for; a full agent with room for schedulers asks on, since they do not count.
    pub fn room(&self, load: &Load) -> usize {
        self.jobs.left(load.jobs).unwrap_or(TAKE_MAX).min(TAKE_MAX)
    }

    /// Takes what an item asks for from what is free, or says what is short, so that it is left for another agent.
    pub fn take(&mut self, load: &mut Load, is_scheduler: bool, asked: &Amounts) -> Result<(), String> {
        let (limit, running, noun) = match is_scheduler {
            true => (self.schedulers, &mut load.schedulers, "schedulers"),
            false => (self.jobs, &mut load.jobs, "jobs"),
        };
        if limit.left(*running) == Some(0) {
            return Err(format!("the agent runs {running} {noun}, which is all that it may"));
        }
        let lacking = short(asked, &self.free);
        if !lacking.is_empty() {
            return Err(lacking.join("; "));
        }
        *running += 1;
        for (name, amount) in asked {
            if let Some(free) = self.free.get_mut(name) {
                *free = *free - *amount;
            }
        }
        Ok(())
    }
}

/// The queues in the order to ask them: after one gave an item, the next goes first.
pub fn turns(queues: &[String], last: Option<&str>) -> Vec<String> {
    let start = last.and_then(|last| queues.iter().position(|queue| queue == last)).map_or(0, |at| at + 1);
    queues.iter().cycle().skip(start).take(queues.len()).cloned().collect()
}

/// An amount of a resource that is counted.
pub fn counted(name: &str, amount: i64) -> (String, Quantity) {
    (name.to_owned(), Quantity::whole(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(count: i64) -> Amounts {
        Amounts::from([counted("nvidia.com/gpu", count)])
    }

    //
    #[test]
    fn an_agent_takes_what_fits_and_leaves_the_rest() {
        let mut capacity = Capacity { jobs: Limit::AtMost(3), schedulers: Limit::AtMost(1), free: gpus(4) };
        let mut load = Load::default();
        assert_eq!(capacity.room(&load), 3);
        assert_eq!(capacity.take(&mut load, false, &gpus(2)), Ok(()));
        assert_eq!(
            capacity.take(&mut load, false, &gpus(3)),
            Err("3 of nvidia.com/gpu is asked for and 2 is free".into())
        );
        assert_eq!(capacity.take(&mut load, false, &gpus(2)), Ok(()));
        assert_eq!(capacity.take(&mut load, true, &Amounts::new()), Ok(()));
        assert_eq!(load, Load { jobs: 2, schedulers: 1 });
        assert!(capacity.take(&mut load, true, &Amounts::new()).unwrap_err().contains("1 schedulers"));
        assert_eq!(capacity.take(&mut load, false, &Amounts::new()), Ok(()));
        assert_eq!(capacity.room(&load), 0);
        capacity.jobs = Limit::Unlimited;
        assert_eq!(capacity.room(&load), TAKE_MAX);
    }

    //
    #[test]
    fn queues_take_turns() {
        let queues: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(turns(&queues, None), ["a", "b", "c"]);
        assert_eq!(turns(&queues, Some("a")), ["b", "c", "a"]);
        assert_eq!(turns(&queues, Some("gone")), ["a", "b", "c"]);
    }
}
