//! Words that are nearly the same.

/// How many letters have to change.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// The known word that was probably meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let scored = known.map(|other| (distance(&lower, &other.to_lowercase()), other));
    let most = 1 + word.chars().count() / 4;
    scored.filter(|(score, _)| *score <= most).min().map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    // G-10
    #[test]
    fn the_nearest_word_is_found() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("capcity", ["capacity", "claimRef"].into_iter()), Some("capacity"));
        assert_eq!(nearest("stroage", ["storage", "cpu"].into_iter()), Some("storage"));
        assert_eq!(nearest("zzz", ["cpu"].into_iter()), None);
    }
}
