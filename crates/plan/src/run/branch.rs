//! A run that begins where another one stood: what of a history is kept, and what the run then knows of itself.

use super::history::{Keys, row, step};
use serde_json::{Map, Value};

/// The part of a history up to a step.
#[derive(Debug, Default)]
pub struct Trunk {
    /// How many lines it has.
    pub lines: usize,
    pub keys: Keys,
    /// The last value of each metric in it.
    pub summary: Map<String, Value>,
}

/// The lines up to and with this step. A line without a step goes with the ones before it.
pub fn trunk<'a>(lines: impl IntoIterator<Item = &'a str>, last: i64) -> Trunk {
    let mut trunk = Trunk::default();
    for line in lines {
        if let Some(row) = row(line) {
            if step(&row).is_some_and(|step| step > last) {
                break;
            }
            trunk.keys.add(&row);
            trunk.summary.extend(row);
        }
        trunk.lines += 1;
    }
    trunk
}

/// From which run, and behind which of its steps, a new run goes on; nothing if its config does not say.
pub fn branch_point(config: &Value) -> Option<(String, i64)> {
    let point = config.pointer("/_wandb/value/branch_point")?;
    let run = point.get("run_id")?.as_str()?;
    let step = point.get("step")?.as_f64()?;
    Some((run.to_owned(), step as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trunk_ends_with_its_step_and_knows_the_last_values() {
        let lines = [r#"{"_step":0,"a":1}"#, r#"{"_step":1,"b":2}"#, "", r#"{"_step":2,"a":3}"#];
        let trunk = trunk(lines, 1);
        assert_eq!(trunk.lines, 3);
        assert_eq!(Value::Object(trunk.summary), json!({"_step": 1, "a": 1, "b": 2}));
        assert_eq!(super::trunk(lines, -1).lines, 0);
        assert_eq!(super::trunk(lines, 9).lines, 4);
    }

    #[test]
    fn the_branch_point_is_in_what_the_client_keeps_for_itself() {
        let config = json!({"_wandb": {"value": {"branch_point": {"run_id": "r", "step": 4.0}}}});
        assert_eq!(branch_point(&config), Some(("r".to_owned(), 4)));
        assert_eq!(branch_point(&json!({})), None);
    }
}
