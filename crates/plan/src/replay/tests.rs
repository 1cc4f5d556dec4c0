//! Replays on one page, the formats of traces, and the figures and the plot that come of them.

use super::formats::{Format, alibaba, detect, own, read};
use super::plot::{Series, svg};
use super::report::{report, span};
use super::run::run;
use super::{Trace, live};
use crate::gang::policy::Policy;
use crate::gang::snapshot::Kind;
use crate::why::world::World;
use jiff::Timestamp;
use serde_json::{Value, json};

fn trace(file: Value) -> Trace {
    own::read(&file, &[]).unwrap()
}

fn waits(trace: &Trace) -> Vec<Option<i64>> {
    let outcome = run(trace, &Policy::default());
    trace.jobs.iter().zip(&outcome.fates).map(|(job, fate)| Some(fate.start? - job.submit)).collect()
}

#[test]
fn nothing_arrives_nothing_happens() {
    let outcome = run(&Trace::default(), &Policy::default());
    assert!(outcome.fates.is_empty() && outcome.steps == 0);
}

#[test]
fn jobs_wait_for_room_and_start_when_it_comes() {
    let trace = trace(json!({"nodes": "1x8gpu", "jobs": [
        {"name": "a", "gpus": 8, "submit": 0, "duration": "10m"},
        {"name": "b", "gpus": 8, "submit": 60, "duration": 100},
        {"name": "c", "gpus": 8, "submit": 70, "duration": 100}]}));
    assert_eq!(waits(&trace), [Some(0), Some(540), Some(630)]);
    let outcome = run(&trace, &Policy::default());
    let report = report(&trace, &outcome, "default");
    assert_eq!((report.all.p50, report.all.p95, report.all.max), (Some(540), Some(630), Some(630)));
    assert_eq!((report.makespan_seconds, report.utilisation), (800, 1.0));
    assert_eq!((report.fairness, report.preemptions, report.never), (Some(1.0), 0, 0));
}

#[test]
fn a_gang_starts_whole_and_one_that_is_too_large_never() {
    let trace = trace(json!({"nodes": "2x4gpu", "jobs": [
        {"pods": 1, "gpus": 2, "duration": 50},
        {"pods": 2, "gpus": 4, "submit": 1, "duration": 10},
        {"pods": 3, "gpus": 4, "submit": 2, "duration": 10},
        {"pods": 1, "gpus": 5, "submit": 2, "duration": 10}]}));
    assert_eq!(waits(&trace), [Some(0), Some(49), None, None]);
    let outcome = run(&trace, &Policy::default());
    let report = report(&trace, &outcome, "default");
    assert_eq!(report.never, 2);
    assert!(report.never_because.unwrap().contains("needs 12 nvidia.com/gpu together"));
}

#[test]
fn a_queue_of_which_no_job_starts_has_no_waits() {
    let never = json!({"queue": "q", "pods": 3, "gpus": 4, "duration": 10});
    let figures = |jobs: Value| {
        let trace = trace(json!({"nodes": "2x4gpu", "jobs": jobs}));
        report(&trace, &run(&trace, &Policy::default()), "default")
    };
    let alone = figures(json!([never]));
    assert_eq!((alone.all.p50, alone.queues["q"].p95, alone.queues["q"].max), (None, None, None));
    assert_eq!((alone.fairness, alone.never), (None, 1));
    let beside = figures(json!([never, {"gpus": 1, "duration": 10}]));
    assert_eq!((beside.queues["q"].p50, beside.queues["default"].p50, beside.fairness), (None, Some(0), Some(0.5)));
}

#[test]
fn higher_priority_evicts_and_the_victim_begins_again() {
    let trace = trace(json!({"nodes": "1x4gpu", "jobs": [
        {"gpus": 4, "duration": 100}, {"gpus": 4, "submit": 40, "duration": 10, "priority": 5}]}));
    let outcome = run(&trace, &Policy::default());
    assert_eq!((outcome.preemptions, outcome.lost), (1, 160));
    assert_eq!((outcome.fates[0].start, outcome.fates[0].end), (Some(50), Some(150)));
    assert_eq!(outcome.fates[1].start, Some(40));
}

#[test]
fn a_queue_keeps_to_its_capability() {
    let trace = trace(json!({"nodes": "1x8gpu", "queues": [{"name": "q", "capability": {"gpu": 4}}], "jobs": [
        {"queue": "q", "gpus": 4, "duration": 100}, {"queue": "q", "gpus": 4, "duration": 100},
        {"queue": "free", "gpus": 4, "duration": 100}]}));
    assert_eq!(waits(&trace), [Some(0), Some(100), Some(0)]);
}

#[test]
fn the_same_trace_gives_the_same_outcome_and_conserves_work() {
    let jobs: Vec<Value> = (0..400i64)
        .map(|n| {
            json!({"queue": format!("q{}", n % 3), "gpus": 1 + n % 8, "pods": 1 + n % 3, "submit": n * 13 % 997,
            "duration": 20 + n * 7 % 90})
        })
        .collect();
    let trace = trace(json!({"nodes": "6x8gpu", "jobs": jobs}));
    let outcome = run(&trace, &Policy::default());
    assert_eq!(outcome, run(&trace, &Policy::default()));
    let work: i64 = trace
        .jobs
        .iter()
        .map(|job| {
            let gpus: i64 = job.parts[0].requests["nvidia.com/gpu"].parse().unwrap();
            gpus * job.pods() as i64 * job.seconds
        })
        .sum();
    let report = report(&trace, &outcome, "default");
    let used = report.utilisation * report.total as f64 * report.makespan_seconds as f64;
    assert!(outcome.preemptions > 0 || (used - work as f64).abs() < 1.0, "{used} {work}");
    assert!(outcome.samples.iter().all(|sample| sample.used <= outcome.total));
    assert!(outcome.fates.iter().all(|fate| fate.end.is_some()));
}

#[test]
fn formats_are_known_by_their_content() {
    let cases = [
        ("jobs:\n- {gpus: 1}\n", Format::Own),
        ("{\"jobs\": []}", Format::Own),
        ("# jobs\n- {gpus: 1, duration: 5}\n", Format::Own),
        ("# jobs\nsubmit,duration\n0,5\n", Format::OwnTable),
        ("name,submit,duration,gpus\na,0,10,1\n", Format::OwnTable),
        ("[{\"jobid\": \"x\", \"submitted_time\": \"2017-10-07 01:39:24\"}]", Format::Philly),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time\n",
            Format::Openb,
        ),
        ("job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n", Format::Pai),
        ("abc,worker,1.0,Terminated,10.0,20.0,600.0,29.3,100.0,T4\n", Format::Pai),
        ("abc,worker,1.0,Waiting,,,600.0,29.3,100.0,T4\n", Format::Pai),
        (
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
            Format::Slurm,
        ),
        ("; MaxProcs: 128\n1 0 0 10 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n", Format::Swf),
        ("1 0 0 10 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n", Format::Swf),
    ];
    for (text, format) in cases {
        assert_eq!(detect(text), format, "{text}");
    }
}

#[test]
fn public_traces_are_read() {
    let philly = r#"[{"status": "Pass", "vc": "11cb48", "jobid": "app_1", "user": "u", "submitted_time": "2017-10-07 01:39:22",
        "attempts": [{"start_time": "2017-10-07 01:39:24", "end_time": "2017-10-07 01:49:24",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]}]},
        {"vc": "x", "jobid": "app_2", "submitted_time": "2017-10-07 01:39:22", "attempts": [{"start_time": "None", "end_time": "None", "detail": []}]},
        {"vc": "x", "jobid": "app_3", "submitted_time": "2017-10-07 01:39:22", "attempts": [
            {"start_time": "2017-10-07 01:39:24", "end_time": "2017-10-07 01:49:24", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
            {"start_time": "2017-10-07 01:50:24", "end_time": "None", "detail": []}]}]"#;
    let trace = read(Format::Philly, philly).unwrap();
    assert_eq!(trace.jobs.len(), 1);
    assert_eq!((trace.jobs[0].seconds, trace.jobs[0].pods(), trace.jobs[0].queue.as_str()), (600, 2, "11cb48"));
    assert_eq!(trace.notes, ["2 jobs that never ran, or whose end is not known, are left out"], "one still ran");
    let openb = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
        openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0.0\nopenb-pod-0001,6000,12288,1,460,,BE,Running,427061,12902960,427061.0\n\
        openb-pod-0061,11908,47104,1,1000,V100M16|V100M32,BE,Pending,10001278,10001403,\n";
    let trace = read(Format::Openb, openb).unwrap();
    assert_eq!((trace.jobs.len(), trace.jobs[1].queue.as_str()), (2, "be"));
    assert_eq!(trace.jobs[0].parts[0].requests["cpu"], "12000m");
    let notes = [
        "1 pods without a beginning or an end are left out",
        "1 pods that ask for a part of a GPU are given a whole one",
        "1 pods that ask for models of GPUs are given any",
    ];
    assert_eq!(trace.notes, notes);
    let pai = "abc,worker,2.0,Terminated,10.0,20.0,600.0,29.3,50.0,T4\n";
    let trace = read(Format::Pai, pai).unwrap();
    assert_eq!((trace.jobs[0].pods(), trace.jobs[0].seconds), (2, 10));
    assert_eq!(trace.jobs[0].parts[0].requests["nvidia.com/gpu"], "1");
    assert_eq!(
        (&*trace.notes[0], trace.nodes.len()),
        ("1 tasks that ask for a part of a GPU are given a whole one", 1897)
    );
    let swf = "; UnixStartTime: 100\n; MaxNodes: 4\n; MaxProcs: 16\n  1 5 0 10 4 -1 -1 6 20 -1 1 1 1 1 2 1 -1 -1\n2 6 0 -1 4 -1 -1 4 -1 -1 0 1 1 1 1 1 -1 -1\n";
    let trace = read(Format::Swf, swf).unwrap();
    assert_eq!((trace.nodes.len(), trace.jobs.len()), (4, 1));
    let job = &trace.jobs[0];
    assert_eq!((job.submit, job.pods(), job.estimate, job.queue.as_str()), (105, 2, Some(20), "queue-2"));
    let sizes = |swf: &str| {
        let trace = read(
            Format::Swf,
            &format!(
                "{swf}1 5 0 10 4 -1 -1 6 20 -1 1 1 1 1 2 1 -1 -1 {{1}} q\n\
            1 5 0 10 4 -1 -1 6 20 -1 2 1 1 1 2 1 -1 -1\n"
            ),
        );
        let trace = trace.unwrap();
        let node = &trace.nodes[0]["status"]["allocatable"];
        (trace.nodes.len(), node["cpu"].clone(), node["pods"].clone(), trace.jobs.len())
    };
    assert_eq!(sizes("; MaxNodes: 256\n"), (256, "1".into(), "110".into(), 1), "a part of a job is no job");
    assert_eq!(sizes("; MaxProcs: 100\n"), (2, "64".into(), "110".into(), 1));
    assert_eq!(sizes("; MaxNodes: 2\n; MaxProcs: 255\n"), (2, "128".into(), "128".into(), 1));
    let helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
        7,u1,vcA,16,32,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:42:01,2020-06-09 19:42:01,3600,60\n\
        8,u1,vcA,1,1,1,CANCELLED,2020-06-09 18:41:28,,,0,0\n";
    let trace = read(Format::Slurm, helios).unwrap();
    assert_eq!((trace.format, trace.nodes.len(), trace.jobs.len()), ("Helios job list", 264, 1));
    let job = &trace.jobs[0];
    assert_eq!((job.pods(), job.seconds, job.queue.as_str()), (2, 3600, "vca"));
    assert_eq!((&*job.parts[0].requests["nvidia.com/gpu"], &*job.parts[0].requests["cpu"]), ("8", "16"));
    assert_eq!(trace.notes[0], "1 jobs that never ran, or whose end is not known, are left out");
    let acme = "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,end_time,queue\n\
        dlc,u,8,64,960,1000,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 13:01:08+02:00,2023-05-17 11:01:16+00:00,10.0\n";
    let trace = read(Format::Slurm, acme).unwrap();
    let job = &trace.jobs[0];
    assert_eq!((trace.format, job.pods(), job.seconds, job.queue.as_str()), ("Acme job list", 8, 8, "pretrain"));
    assert_eq!(job.parts[0].requests["memory"], "1000G");
    let nodes =
        alibaba::read_nodes("sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,32000,262144,1,P100\n").unwrap();
    assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], "1");
    let pai = "7399a758eb02bae1a3621236,CPU,96,512,0\n7c1c5d1b6ed4,MISC,96,512,8\n";
    assert!(alibaba::has_nodes(pai) && !alibaba::has_nodes("- {kind: Node}\n"));
    let nodes = alibaba::read_nodes(pai).unwrap();
    assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], Value::Null);
    let amounts = &nodes[1]["status"]["allocatable"];
    assert_eq!((&amounts["nvidia.com/gpu"], &amounts["memory"]), (&json!("8"), &json!("512Gi")));
    let nodes = alibaba::read_nodes("machineId, number of GPUs, single GPU mem\nm0,2,12GB\n").unwrap();
    assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], "2");
}

#[test]
fn what_is_wrong_with_a_trace_is_told_with_line_and_field() {
    let problems = |format: Format, text: &str| -> Vec<String> {
        read(format, text).unwrap_err().iter().map(ToString::to_string).collect()
    };
    let table = "name,submit,duration,gpus\na,0,soon,1\nb,0,10,many\nc,0,,1\n";
    assert_eq!(
        problems(Format::OwnTable, table),
        [
            "line 2, field duration: `soon` is no time; want seconds, 90s or 2h30m",
            "line 3, field gpus: `many` is no whole number",
            "line 4, field duration: is missing",
        ]
    );
    let wrong = "name,submit,duration,queu\na,0,10,1\n";
    assert!(problems(Format::OwnTable, wrong)[0].starts_with("line 1, field queu: is not known; did you mean queue?"));
    assert!(
        problems(Format::OwnTable, "name,gpus\na,1\n")[0].starts_with("line 1, field submit: the column is missing")
    );
    assert_eq!(
        problems(Format::Swf, "1 0 0 x 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n"),
        ["line 1, field 4: `x` is no number"]
    );
    assert_eq!(problems(Format::Swf, "; a\n1 2 3\n"), ["line 2, field 3: a job has 18 fields, this one 3"]);
    let philly = r#"[{"jobid": "a", "submitted_time": "yesterday"}]"#;
    assert!(problems(Format::Philly, philly)[0].starts_with("job 1 (a), field submitted_time: `yesterday` is no time"));
    assert!(problems(Format::Philly, "[{\"submitted_time\": 3")[0].starts_with("line 1, column "));
    let file = json!({"jobs": [{"gpus": 1, "duration": 5}, {"gpus": -1, "duration": 5}, {"gpu": 1, "duration": "x"}],
        "nodes": "many", "queues": [{"wieght": 1}]});
    let told: Vec<String> = own::read(&file, &[2, 3, 9]).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "line 3, field gpus: is too small");
    assert!(
        told[1] == "line 9, field gpu: is not known; did you mean gpus?"
            && told[2].starts_with("line 9, field duration"),
        "{told:?}"
    );
    assert_eq!(told.len(), 5);
}

#[test]
fn a_live_cluster_is_a_trace_of_what_runs_and_what_waits() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let node = json!({"metadata": {"name": "a"}, "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "pods": "9"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let pod = |name: &str, node: Value, gpus: &str| {
        json!({"metadata": {"name": name, "namespace": "d",
        "annotations": {"scheduling.k8s.io/group-name": name}}, "spec": {"nodeName": node, "containers": [{"name": "c",
        "resources": {"requests": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": if node.is_null() { "Pending" } else { "Running" }, "startTime": "1970-01-12T13:36:40Z"}})
    };
    let group = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "d",
        "annotations": {"volley.dev/running-estimate": "20m"}}, "spec": {"queue": "q"}, "status": {"phase": "Running"}})
    };
    let world = World {
        objects: vec![
            (Kind::Node, vec![node]),
            (Kind::Pod, vec![pod("runs", json!("a"), "4"), pod("waits", Value::Null, "2")]),
            (Kind::PodGroup, vec![group("runs"), group("waits")]),
        ],
        ..World::default()
    };
    let trace = live::trace(&world, now);
    let outcome = run(&trace, &Policy::default());
    // It began ten minutes ago and takes twenty.
    assert_eq!(outcome.fates[0].end, Some(1_000_600));
    assert_eq!(outcome.fates[1].start, Some(1_000_600));
}

#[test]
fn a_plot_has_both_policies_and_reads_in_the_dark() {
    let trace = trace(json!({"nodes": "1x8gpu", "jobs": [{"gpus": 8, "duration": 100}, {"gpus": 8, "duration": 100}]}));
    let outcome = run(&trace, &Policy::default());
    let both = [Series { name: "default", outcome: &outcome }, Series { name: "a<b", outcome: &outcome }];
    let text = svg("two jobs", &both, span(&trace, &outcome));
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    assert!(text.contains("prefers-color-scheme:dark") && text.contains("a&lt;b"));
    assert_eq!(text.matches("class=\"line b\"").count(), 3);
    assert!(!text.contains("NaN") && !text.contains("inf"));
}
