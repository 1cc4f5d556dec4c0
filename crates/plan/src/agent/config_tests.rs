//! Cases of an agent's settings.

use super::*;

fn problems(text: &str) -> Vec<String> {
    read(text).err().into_iter().flatten().map(|problem| problem.to_string()).collect()
}

//
#[test]
fn every_documented_key_is_read() {
    let text = "entity: team\nproject: p\nqueue: extra\nqueues: [a, b]\nmax_jobs: '4'\nmax_schedulers: -1\nsecure_mode: true\n\
        verbosity: 2\nstopped_run_timeout: 5\nenvironment: {type: azure}\nregistry: {type: local}\nrunner: {type: x}\n\
        builder:\n  type: kaniko\n  destination: https://1.dkr.ecr.eu.amazonaws.com/repo\n  build-context-store: s3://b/p\n  \
        secret-name: s\n  secret-key: k\n  kaniko-config: {spec: {}}\n\
        policy: privileged\nmacros: {env: [REGION, 'TEAM_*']}\nrunners: {local-process: true}\ncapacity: {nvidia.com/gpu: 4}\n\
        namespace: wandb\nvolumes: [/data]\nstart_timeout: 0\n";
    let Read { config, warnings } = read(text).unwrap();
    assert_eq!(config.queues, ["a", "b", "extra"]);
    assert_eq!((config.max_jobs, config.max_schedulers), (Limit::AtMost(4), Limit::Unlimited));
    assert!(config.is_secure && config.allows_processes);
    assert_eq!(config.cloud, Some(Cloud { kind: "azure".into(), region: None }));
    assert_eq!(config.builder.destination.as_deref(), Some("1.dkr.ecr.eu.amazonaws.com/repo"));
    assert_eq!(config.builder.rest["secret-name"], "s");
    assert_eq!(config.policy, Policy::Privileged);
    assert_eq!(config.macro_environment, ["REGION", "TEAM_*"]);
    assert_eq!(config.start_timeout, None);
    assert_eq!(warnings.iter().map(|warning| warning.path.as_str()).collect::<Vec<_>>(), ["project", "runner"]);
    assert_eq!(read("").unwrap().config, Config::default());
    assert_eq!(read("# nothing\n").unwrap().config, Config::default());
}

//
#[test]
fn all_problems_are_told_with_their_places() {
    let text = "queuess: [a]\nmax_jobs: -2\nmax_schedulers: many\nsecure_mode: maybe\nenvironment:\n  type: aws\n  regoin: x\n\
        builder:\n  destination: host/repo:tag\n  build-context-store: /tmp\n  secret-name: x\nentity: [1]\n";
    assert_eq!(
        problems(text),
        [
            "line 1, column 1: `queuess` is no setting of a launch agent; did you mean `queues`?",
            "line 2, column 11: `max_jobs` must be -1 (unlimited), 0 or more, but is -2",
            "line 3, column 17: `max_schedulers` must be a whole number, but is \"many\"",
            "line 4, column 14: `secure_mode` must be true or false, but is \"maybe\"",
            "line 6, column 3: `environment.region` is needed for aws",
            "line 9, column 16: `builder.destination` must not have a tag, but is `host/repo:tag`",
            "line 10, column 24: `builder.build-context-store` must be `s3://…`, `gs://…` or an Azure blob URL, but is `/tmp`",
            "line 9, column 3: `builder` needs both `secret-name` and `secret-key`, or neither",
            "line 12, column 9: `entity` must be a text, but is [1]",
        ]
    );
    assert!(problems("a: [\n")[0].contains("not YAML"));
    assert_eq!(problems("- a\n"), ["line 1, column 1: `` is not a mapping of settings"]);
    assert_eq!(problems("queues: a\nqueues: [b]\n").len(), 2);
    let odd = read("builder: {typ: noop}\nqueues: [q]\n").unwrap().warnings;
    assert_eq!(
        odd[0].to_string(),
        "line 1, column 11: `builder.typ` is unknown and has no effect; did you mean `type`?"
    );
}

//
#[test]
fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
    let file = read("entity: file\nmax_jobs: 1\nqueues: [f]\n").unwrap().config;
    let set =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment =
        set(&[("WANDB_ENTITY", "env"), ("WANDB_LAUNCH_MAX_JOBS", "-1"), ("WANDB_LAUNCH_START_TIMEOUT", "60")]);
    let settled = settle(file.clone(), &environment, &Flags::default()).unwrap();
    assert_eq!((settled.entity.as_deref(), settled.max_jobs), (Some("env"), Limit::Unlimited));
    assert_eq!(settled.start_timeout, Some(SignedDuration::from_secs(60)));
    let flags = Flags { entity: Some("flag".into()), max_jobs: Some(3), queues: vec!["c".into()], verbosity: Some(1) };
    let settled = settle(file.clone(), &environment, &flags).unwrap();
    assert_eq!((settled.entity.as_deref(), settled.max_jobs), (Some("flag"), Limit::AtMost(3)));
    assert_eq!(settled.queues, ["c"]);
    assert!(settle(file, &set(&[("WANDB_LAUNCH_START_TIMEOUT", "soon")]), &Flags::default()).is_err());
    assert!(settle(Config::default(), &BTreeMap::new(), &Flags::default()).unwrap_err().contains("--queue"));
}
