//! `$(VAR)` in environment values, commands and arguments (K-POD-4): unknown names stay, `$$` stands for `$`.

/// Replaces each `$(NAME)` by what `value_of` knows.
pub fn expand<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        expanded.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            expanded.push('$');
            rest = escaped;
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            match value_of(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[start..start + name.len() + 3]),
            }
            rest = behind;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    // K-POD-4
    #[test]
    fn references_are_replaced_unknown_ones_stay_and_two_dollars_escape() {
        let value_of = |name: &str| match name {
            "A" => Some("1"),
            "B" => Some("$(A)"),
            "" => Some("empty"),
            _ => None,
        };
        let cases = [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(A)"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("$()", "empty"),
            ("a$", "a$"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, value_of), expected, "{text}");
        }
    }
}
