//! The two name rules that CRDs use, with the texts of the reference.

const LABEL_REGEX: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_LENGTH_MAX: usize = 63;
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_LENGTH_MAX: usize = 253;

/// Everything that is wrong with a DNS-1035 label; empty when nothing is.
pub(super) fn label_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > LABEL_LENGTH_MAX {
        problems.push(format!("must be no more than {LABEL_LENGTH_MAX} characters"));
    }
    let starts_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts_with_letter || !is_label_tail(name) {
        problems.push(format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '{LABEL_REGEX}')"
        ));
    }
    problems
}

/// Everything that is wrong with an RFC 1123 subdomain; empty when nothing is.
pub(super) fn subdomain_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > SUBDOMAIN_LENGTH_MAX {
        problems.push(format!("must be no more than {SUBDOMAIN_LENGTH_MAX} characters"));
    }
    let is_segment = |segment: &str| segment.starts_with(|c: char| c != '-') && is_label_tail(segment);
    if !name.split('.').all(is_segment) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN_REGEX}')"
        ));
    }
    problems
}

fn is_label_tail(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.chars().all(allowed) && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-CRD-1
    #[test]
    fn labels_start_with_a_letter_and_subdomains_may_start_with_a_digit() {
        for good in ["jobs", "a", "a-1"] {
            assert!(label_problems(good).is_empty(), "{good}");
            assert!(subdomain_problems(good).is_empty(), "{good}");
        }
        for bad in ["", "1a", "a_b", "A", "-a", "a-", "a.b"] {
            assert_eq!(label_problems(bad).len(), 1, "{bad}");
        }
        for bad in ["", "a..b", ".a", "a.", "A.b", "a.-b"] {
            assert_eq!(subdomain_problems(bad).len(), 1, "{bad}");
        }
        assert!(subdomain_problems("1a.batch.volcano.sh").is_empty());
        assert_eq!(label_problems(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }
}
