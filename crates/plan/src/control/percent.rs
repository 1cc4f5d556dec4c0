//! Numbers that may be given as a share (`25%`), as rollouts and disruption budgets do.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Clone, Copy)]
pub enum Round {
    Up,
    Down,
}

/// The number, or that share of `total`; what does not read counts as 0 (validation refuses it).
pub fn of(value: &IntOrString, total: i32, round: Round) -> i32 {
    let text = match value {
        IntOrString::Int(number) => return *number,
        IntOrString::String(text) => text,
    };
    let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let hundredths = percent * i64::from(total);
    let whole = match round {
        Round::Up => (hundredths + 99).div_euclid(100),
        Round::Down => hundredths.div_euclid(100),
    };
    i32::try_from(whole).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_the_way_they_are_told() {
        let quarter = IntOrString::String("25%".into());
        assert_eq!(of(&quarter, 10, Round::Up), 3);
        assert_eq!(of(&quarter, 10, Round::Down), 2);
        assert_eq!(of(&quarter, 4, Round::Up), 1);
        assert_eq!(of(&IntOrString::Int(7), 4, Round::Up), 7);
    }
}
