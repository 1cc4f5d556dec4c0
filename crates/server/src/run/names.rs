//! Names for runs that bring none: a short id, and a label that people can remember.

use rand::RngExt as _;

const ID_LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 8;
const KEY_LENGTH: usize = 12;

const HOW: &[&str] = &[
    "amber", "bold", "brisk", "bright", "calm", "clear", "crisp", "deep", "eager", "fair", "fresh", "gentle", "glad",
    "keen", "lively", "lucid", "mellow", "merry", "noble", "plain", "quick", "quiet", "ready", "sharp", "smooth",
    "solid", "steady", "swift", "vivid", "warm",
];
const WHAT: &[&str] = &[
    "arrow", "beacon", "brook", "canyon", "cedar", "cloud", "comet", "coral", "dawn", "dune", "ember", "falcon",
    "field", "forest", "glade", "harbor", "heron", "island", "lake", "lantern", "maple", "meadow", "moon", "orchard",
    "pine", "river", "sail", "spruce", "summit", "valley",
];

pub fn new_id() -> String {
    letters(ID_LENGTH)
}

/// A key by which clusters know an item.
pub fn new_key() -> String {
    letters(KEY_LENGTH)
}

fn letters(length: usize) -> String {
    let mut rng = rand::rng();
    (0..length).map(|_| char::from(ID_LETTERS[rng.random_range(0..ID_LETTERS.len())])).collect()
}

/// A label, with the number of the run in its project.
pub fn new_label(number: i64) -> String {
    let mut rng = rand::rng();
    let (how, what) = (HOW[rng.random_range(0..HOW.len())], WHAT[rng.random_range(0..WHAT.len())]);
    format!("{how}-{what}-{number}")
}
