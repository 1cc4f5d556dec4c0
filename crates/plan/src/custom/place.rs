//! Where a walk stands in an object. Kept as a chain on the stack and spelt out only for an error, so that a valid
//! object costs no text at all. Schema errors and field errors spell map keys differently, hence two spellings.

use std::fmt::Write;

#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    /// A key of a map (`additionalProperties`).
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// `spec.tasks[0]`, map keys as `[key]`; the root is `<nil>`, as an absent path prints.
    pub(super) fn field_path(&self) -> String {
        if matches!(self, Place::Root) {
            return "<nil>".to_owned();
        }
        let mut text = String::new();
        self.write(&mut text, true);
        text
    }

    /// `spec.tasks[0]`, map keys as `.key`; the root is empty. Schema errors name values like this.
    pub(super) fn name(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    fn write(&self, text: &mut String, keys_in_brackets: bool) {
        match self {
            Place::Root => {}
            Place::Field(parent, name) => {
                parent.write(text, keys_in_brackets);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Place::Key(parent, key) => {
                parent.write(text, keys_in_brackets);
                if keys_in_brackets {
                    let _ = write!(text, "[{key}]");
                } else {
                    text.push('.');
                    text.push_str(key);
                }
            }
            Place::Index(parent, index) => {
                parent.write(text, keys_in_brackets);
                let _ = write!(text, "[{index}]");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    // K-CRD-8
    #[test]
    fn map_keys_are_spelt_with_brackets_in_field_paths_and_dots_in_schema_texts() {
        let spec = Place::Field(&Place::Root, "spec");
        let limits = Place::Field(&spec, "limits");
        let gpu = Place::Key(&limits, "nvidia.com/gpu");
        let first = Place::Index(&gpu, 0);
        assert_eq!(first.field_path(), "spec.limits[nvidia.com/gpu][0]");
        assert_eq!(first.name(), "spec.limits.nvidia.com/gpu[0]");
        assert_eq!(Place::Root.field_path(), "<nil>");
        assert_eq!(Place::Root.name(), "");
    }
}
