//! What the scheduler has done, as Prometheus reads it: Volcano's names where it has one (spec/volcano.md 11.4), and what
//! its users miss (MET-1).

use parking_lot::Mutex;
use std::fmt::Write;
use std::time::Duration;

/// Upper bounds in milliseconds: from one decision on an idle machine to a long wait in a queue.
const BOUNDS: [f64; 14] =
    [0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0, 10_000.0, 60_000.0, 600_000.0];

#[derive(Debug, Default)]
struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn note(&mut self, took: Duration) {
        let milliseconds = took.as_secs_f64() * 1000.0;
        for (bound, count) in BOUNDS.iter().zip(&mut self.counts) {
            *count += u64::from(milliseconds <= *bound);
        }
        self.count += 1;
        self.sum += milliseconds;
    }

    fn show(&self, name: &str, text: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (bound, count) in BOUNDS.iter().zip(&self.counts) {
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(text, "{name}_sum {}\n{name}_count {}", self.sum, self.count);
    }
}

#[derive(Debug, Default)]
struct Numbers {
    decisions: Histogram,
    pods: Histogram,
    bound: u64,
    refused: u64,
    evicted: u64,
    given_back: u64,
    waiting_gangs: usize,
    waiting_pods: usize,
}

/// Shared by the scheduler and whoever asks.
#[derive(Debug, Default)]
pub struct Metrics {
    numbers: Mutex<Numbers>,
}

impl Metrics {
    pub(crate) fn decided(&self, took: Duration, (gangs, pods): (usize, usize)) {
        let mut numbers = self.numbers.lock();
        numbers.decisions.note(took);
        (numbers.waiting_gangs, numbers.waiting_pods) = (gangs, pods);
    }

    /// A pod was bound so long after it was first seen.
    pub(crate) fn bound(&self, after: Duration) {
        let mut numbers = self.numbers.lock();
        numbers.bound += 1;
        numbers.pods.note(after);
    }

    pub(crate) fn refused(&self) {
        self.numbers.lock().refused += 1;
    }

    pub(crate) fn evicted(&self, is_given_back: bool) {
        let mut numbers = self.numbers.lock();
        match is_given_back {
            true => numbers.given_back += 1,
            false => numbers.evicted += 1,
        }
    }

    /// In Prometheus' text form.
    pub fn render(&self) -> String {
        let numbers = self.numbers.lock();
        let mut text = String::new();
        numbers.decisions.show("volcano_e2e_scheduling_latency_milliseconds", &mut text);
        numbers.pods.show("volcano_task_scheduling_latency_milliseconds", &mut text);
        let rows = [
            ("volcano_schedule_attempts_total{result=\"scheduled\"}", "counter", numbers.bound),
            ("volcano_schedule_attempts_total{result=\"error\"}", "counter", numbers.refused),
            ("volcano_pod_preemption_victims", "counter", numbers.evicted),
            ("volley_scheduler_given_back_total", "counter", numbers.given_back),
            ("volcano_unschedule_job_count", "gauge", numbers.waiting_gangs as u64),
            ("volcano_unschedule_task_count", "gauge", numbers.waiting_pods as u64),
        ];
        let mut last = "";
        for (series, kind, value) in rows {
            let name = series.split('{').next().unwrap_or(series);
            if last != name {
                let _ = writeln!(text, "# TYPE {name} {kind}");
                last = name;
            }
            let _ = writeln!(text, "{series} {value}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MET-1
    #[test]
    fn what_was_done_is_counted_and_timed() {
        let metrics = Metrics::default();
        metrics.decided(Duration::from_micros(300), (2, 5));
        metrics.bound(Duration::from_millis(3));
        metrics.bound(Duration::from_secs(3600));
        metrics.refused();
        metrics.evicted(false);
        let text = metrics.render();
        for line in [
            "volcano_e2e_scheduling_latency_milliseconds_bucket{le=\"0.25\"} 0",
            "volcano_e2e_scheduling_latency_milliseconds_bucket{le=\"0.5\"} 1",
            "volcano_task_scheduling_latency_milliseconds_bucket{le=\"5\"} 1",
            "volcano_task_scheduling_latency_milliseconds_bucket{le=\"+Inf\"} 2",
            "volcano_schedule_attempts_total{result=\"scheduled\"} 2",
            "volcano_schedule_attempts_total{result=\"error\"} 1",
            "volcano_pod_preemption_victims 1",
            "volcano_unschedule_job_count 2",
            "volcano_unschedule_task_count 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("# TYPE volcano_schedule_attempts_total counter").count(), 1);
    }
}
