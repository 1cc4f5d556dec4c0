//! Sets of completion indexes and their wire text, `0-2,5`; used by the Job controller and its success policy.

use std::collections::BTreeSet;

pub type Indexes = BTreeSet<i32>;

/// Reads `1,3-5`; parts that do not read and indexes at or past `completions` are left out, as upstream does.
pub fn parse(text: &str, completions: i32) -> Indexes {
    let mut indexes = Indexes::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend(first.max(0)..=last.min(completions - 1));
        }
    }
    indexes
}

/// Writes runs of three or more as `first-last`, and of two as `first,last`.
pub fn text(indexes: &Indexes) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            Some(_) | None => runs.push((index, index)),
        }
    }
    let part = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // K-JOB-3
    #[test]
    fn runs_are_shortened_from_three_on() {
        let check = |indexes: &[i32], expected: &str| {
            assert_eq!(text(&indexes.iter().copied().collect()), expected);
        };
        check(&[], "");
        check(&[0, 1], "0,1");
        check(&[0, 1, 2, 5], "0-2,5");
        check(&[1, 3, 4, 5, 7], "1,3-5,7");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_reads_back(indexes in proptest::collection::btree_set(0..40i32, 0..20)) {
            prop_assert_eq!(parse(&text(&indexes), 40), indexes);
        }
    }
}
