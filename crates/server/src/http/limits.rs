//! How often one may ask: for each key, and for each address whose sign-ins and keys were refused.
//!
//! Requests with a good key are never counted against an address: behind one address there may be a whole company. A
//! replica counts for itself.

use crate::fault::{Fault, Result};
use crate::people::Way;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use volley_plan::people::rate::{Bucket, Rate};

/// Buckets that are kept; when there are more, those that have filled up again are forgotten.
const BUCKETS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub key: Rate,
    pub address: Rate,
}

impl Default for Rates {
    /// A key: a loop that ran wild is stopped, a fleet of agents and loggers is not. An address: a person mistypes a few
    /// times, a guesser gets one try every second.
    fn default() -> Rates {
        Rates { key: Rate { per_second: 10_000.0, burst: 20_000.0 }, address: Rate { per_second: 1.0, burst: 30.0 } }
    }
}

pub struct Limits {
    rates: Rates,
    keys: Mutex<HashMap<Way, Bucket>>,
    addresses: Mutex<HashMap<IpAddr, Bucket>>,
    refused: AtomicU64,
}

impl Limits {
    pub fn new(rates: Rates) -> Limits {
        Limits { rates, keys: Mutex::default(), addresses: Mutex::default(), refused: AtomicU64::new(0) }
    }

    /// A request by somebody who is known.
    pub fn request(&self, way: Way) -> Result<()> {
        take(&self.keys, way, self.rates.key).map_err(|wait| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let what = match way {
                Way::Key(_) => "this API key",
                Way::Session(_) => "this session",
                Way::Launch(_) => "this launch",
            };
            Fault::too_often(format!("{what} asks too often; hint: wait, and ask less often"), wait)
        })
    }

    /// A try to sign in, or a key that is not known.
    pub fn attempt(&self, address: Option<IpAddr>) -> Result<()> {
        let Some(address) = address else {
            return Ok(());
        };
        take(&self.addresses, address, self.rates.address).map_err(|wait| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Fault::too_often("too many failed sign-ins from this address; hint: wait, and check the key", wait)
        })
    }

    /// A try that was right was none.
    pub fn forgive(&self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.addresses.lock().remove(&address);
        }
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

fn take<K: Hash + Eq>(buckets: &Mutex<HashMap<K, Bucket>>, key: K, rate: Rate) -> std::result::Result<(), Duration> {
    let now = Timestamp::now();
    let mut buckets = buckets.lock();
    if buckets.len() >= BUCKETS_MAX {
        buckets.retain(|_, bucket| !bucket.is_full(rate, now));
    }
    buckets.entry(key).or_insert_with(|| Bucket::full(rate, now)).take(rate, now)
}
