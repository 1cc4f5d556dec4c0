//! Global ids: base64 of `Kind:number`, as W&B's clients expect them.
//!
//! A client takes artifact ids apart and uses item ids as names of folders, so the text before encoding has only letters,
//! digits and colons, whose encoding has neither `/` nor `+`.

use async_graphql::ID;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub fn encode(kind: &str, number: i64) -> ID {
    ID(STANDARD.encode(format!("{kind}:{number}")))
}

pub fn decode(kind: &str, id: &str) -> Option<i64> {
    let text = text(id)?;
    text.strip_prefix(kind)?.strip_prefix(':')?.parse().ok()
}

/// A run's id is made by the client as well, so its form is fixed.
pub fn run(run: &str, project: &str, entity: &str) -> ID {
    ID(STANDARD.encode(format!("Run:v1:{run}:{project}:{entity}")))
}

pub struct RunPath {
    pub run: String,
    pub project: String,
    pub entity: String,
}

pub fn decode_run(id: &str) -> Option<RunPath> {
    let text = text(id)?;
    let mut parts = text.strip_prefix("Run:v1:")?.splitn(3, ':').map(str::to_owned);
    Some(RunPath { run: parts.next()?, project: parts.next()?, entity: parts.next()? })
}

/// An item as an agent holds it: the item, and which handing-out of it the agent was given.
///
/// The first lease has the item's plain id. A later one has its number behind it, so that an agent that lost the item
/// cannot acknowledge or fail it for the one that holds it now, although W&B's agent sends nothing but this id.
pub fn encode_lease(item: i64, lease: i64) -> ID {
    match lease {
        ..=1 => encode("RunQueueItem", item),
        _ => ID(STANDARD.encode(format!("RunQueueItem:{item}:{lease}"))),
    }
}

/// The item and the lease that an id names.
pub fn decode_lease(id: &str) -> Option<(i64, i64)> {
    let text = text(id)?;
    let numbers = text.strip_prefix("RunQueueItem:")?;
    let (item, lease) = numbers.split_once(':').unwrap_or((numbers, "1"));
    Some((item.parse().ok()?, lease.parse().ok()?))
}

/// An item as people write it: by its id, or by its bare number, which names no lease.
pub fn decode_item(written: &str) -> Option<(i64, i64)> {
    decode_lease(written).or_else(|| written.parse().ok().map(|number| (number, 0)))
}

fn text(id: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(id).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // ID-1, ID-2
    #[test]
    fn ids_have_the_form_that_clients_rely_on() {
        assert_eq!(encode("RunQueueItem", 22).as_str(), "UnVuUXVldWVJdGVtOjIy");
        assert_eq!(decode("RunQueueItem", "UnVuUXVldWVJdGVtOjIy"), Some(22));
        assert_eq!(decode("Artifact", "UnVuUXVldWVJdGVtOjIy"), None);
        assert_eq!(decode("Artifact", "not base64"), None);
        let path = decode_run(&run("r1", "p", "e")).unwrap();
        assert_eq!((path.run.as_str(), path.project.as_str(), path.entity.as_str()), ("r1", "p", "e"));
        for number in 0..5000 {
            let id = encode_lease(number, number % 7);
            assert!(!id.contains(['/', '+']), "{}", id.as_str());
        }
    }

    // RQI-1
    #[test]
    fn the_first_lease_has_the_plain_id_and_a_later_one_its_number() {
        assert_eq!(encode_lease(22, 1), encode("RunQueueItem", 22));
        assert_eq!(decode_lease(&encode_lease(22, 1)), Some((22, 1)));
        assert_eq!(decode_lease(&encode_lease(22, 3)), Some((22, 3)));
    }
}
