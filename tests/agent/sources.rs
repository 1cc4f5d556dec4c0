//! Code artifacts, packed by W&B's own client: run in pods and as processes of the machine.

use crate::launch::Launch;
use crate::world::World;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
import os, pathlib, sys
sys.path.insert(0, ".")
from below import name
print("trains", name.NAME, sys.argv[1:], os.environ["WANDB_CONFIG"], pathlib.Path.cwd().name)
"#;

fn wandb(launch: &Launch<'_>, folder: &Path, words: &[&str]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/wandb/bin/wandb");
    assert!(program.exists(), "W&B's client is not installed in .cache/wandb; run `make setup` first");
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env("HOME", folder).env("WANDB_DIR", folder);
    command.env("WANDB_BASE_URL", &launch.url).env("WANDB_API_KEY", &launch.key).env("WANDB_ENTITY", &launch.entity);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "wandb {words:?}: {said}\n{}", launch.world.log());
}

// J-1, J-2, J-11, K-42, C-20
#[test]
fn code_of_an_artifact_runs_in_a_pod_and_as_a_process() {
    let world = World::start_parts("cluster,operator,server,agent", &["--server-listen", "127.0.0.1:0"]);
    let launch = Launch::on(&world);
    let folder = world.folder.path().join("work");
    fs::create_dir_all(folder.join("code/below")).unwrap();
    fs::write(folder.join("code/train.py"), PROGRAM).unwrap();
    fs::write(folder.join("code/below/name.py"), "NAME = 'a model'\n").unwrap();
    fs::write(folder.join("code/requirements.txt"), "").unwrap();
    let words =
        ["job", "create", "-p", "p", "-e", &launch.entity, "-n", "train", "-E", "python3 train.py", "code", "code"];
    wandb(&launch, &folder, &words);
    let push = |resource: &str| {
        let spec = json!({ "entity": launch.entity, "project": "p", "resource": resource, "job": format!("{}/p/train:latest", launch.entity),
            "overrides": { "args": ["a word"], "run_config": { "lr": 1 } } });
        launch.push_spec("default", &spec)
    };
    let item = launch.until_end(&push("kubernetes"));
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    assert_eq!(launch.lines(&item), ["trains a model ['a word'] {\"lr\":1} wandb"]);
    launch.make_queue_of("default", "local-process", &json!({}));
    let item = launch.until_end(&push("local-process"));
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    assert_eq!(launch.lines(&item), ["trains a model ['a word'] {\"lr\":1} source"]);
    let gone = json!({ "_version": "v0", "source_type": "artifact",
        "source": { "artifact": "wandb-artifact://_id/QXJ0aWZhY3Q6OTk5OTk5", "entrypoint": ["true"] } });
    let gone = launch.make_job("gone", &gone);
    let spec = json!({ "entity": launch.entity, "project": "p", "resource": "local-process", "job": gone });
    let item = launch.until_end(&launch.push_spec("default", &spec));
    let message = item.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    assert!(message.contains("the code of job") && message.contains("is gone"), "{message}");
}
