//! `/metrics` in Prometheus' text form: requests by verb and code, open watches, objects, revision.

use super::ApiServer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Upper bounds of the latency histogram, in seconds; the last bucket is `+Inf`.
const BOUNDS: [f64; 8] = [0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0];

#[derive(Default)]
struct Latency {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

/// Counters of one server.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    latency: Mutex<BTreeMap<String, Latency>>,
    watches: AtomicI64,
}

impl Metrics {
    pub fn request(&self, method: &str, code: u16, took: Duration) {
        *self.requests.lock().entry((method.to_owned(), code)).or_default() += 1;
        let mut latency = self.latency.lock();
        let entry = latency.entry(method.to_owned()).or_default();
        let seconds = took.as_secs_f64();
        for (count, bound) in entry.buckets.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        entry.count += 1;
        entry.sum += seconds;
    }

    pub fn watch_opened(&self) {
        self.watches.fetch_add(1, Ordering::Relaxed);
    }

    pub fn watch_closed(&self) {
        self.watches.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn render(&self, server: &ApiServer) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# HELP apiserver_request_total Requests answered, by method and code.");
        let _ = writeln!(out, "# TYPE apiserver_request_total counter");
        for ((method, code), count) in self.requests.lock().iter() {
            let _ = writeln!(out, "apiserver_request_total{{verb=\"{method}\",code=\"{code}\"}} {count}");
        }
        let _ = writeln!(out, "# HELP apiserver_request_duration_seconds Time to answer, by method.");
        let _ = writeln!(out, "# TYPE apiserver_request_duration_seconds histogram");
        for (method, latency) in self.latency.lock().iter() {
            for (count, bound) in latency.buckets.iter().zip(BOUNDS) {
                let _ = writeln!(
                    out,
                    "apiserver_request_duration_seconds_bucket{{verb=\"{method}\",le=\"{bound}\"}} {count}"
                );
            }
            let (count, sum) = (latency.count, latency.sum);
            let _ = writeln!(out, "apiserver_request_duration_seconds_bucket{{verb=\"{method}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "apiserver_request_duration_seconds_sum{{verb=\"{method}\"}} {sum}");
            let _ = writeln!(out, "apiserver_request_duration_seconds_count{{verb=\"{method}\"}} {count}");
        }
        let _ = writeln!(out, "# HELP apiserver_longrunning_requests Open watches.");
        let _ = writeln!(out, "# TYPE apiserver_longrunning_requests gauge");
        let _ =
            writeln!(out, "apiserver_longrunning_requests{{verb=\"WATCH\"}} {}", self.watches.load(Ordering::Relaxed));
        let _ = writeln!(out, "# HELP volley_store_revision The last committed revision.");
        let _ = writeln!(out, "# TYPE volley_store_revision counter");
        let _ = writeln!(out, "volley_store_revision {}", server.store.revision());
        let _ = writeln!(out, "# HELP apiserver_storage_objects Stored objects, by resource.");
        let _ = writeln!(out, "# TYPE apiserver_storage_objects gauge");
        for bucket in server.store.buckets() {
            let count = server.store.list(&bucket, "").entries.len();
            let _ = writeln!(out, "apiserver_storage_objects{{resource=\"{}\"}} {count}", bucket.name());
        }
        out
    }
}
