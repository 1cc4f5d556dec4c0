//! What can be said of a CEL expression without evaluating it: its size, its loops, and the names that it uses.

use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::{Context, ExecutionError, Program};

/// Names that rules may use beside `self` and `oldSelf`: types, and the first part of qualified function names.
const KNOWN_NAMES: [&str; 32] = [
    "base64", "bool", "bytes", "cel", "cidr", "double", "duration", "dyn", "format", "google", "int", "ip", "isCIDR",
    "isIP", "jsonpatch", "list", "lists", "map", "math", "null_type", "optional", "optional_type", "quantity", "regex",
    "semver", "sets", "string", "strings", "timestamp", "type", "uint", "url",
];

/// The number of an expression's parts and the depth of its comprehensions.
pub(super) fn measure(expression: &Expr) -> (u64, u32) {
    let mut size = 1;
    let mut nesting = 0;
    let mut visit = |part: &Expr, extra: u32| {
        let (part_size, part_nesting) = measure(part);
        size += part_size;
        nesting = nesting.max(part_nesting + extra);
    };
    if let Expr::Comprehension(loops) = expression {
        visit(&loops.iter_range.expr, 0);
        visit(&loops.loop_step.expr, 1);
    } else {
        parts(expression).into_iter().for_each(|part| visit(part, 0));
    }
    (size, nesting)
}

/// The parts of an expression that have no names of their own.
fn parts(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::Call(call) => {
            call.target.iter().map(|target| &target.expr).chain(call.args.iter().map(|a| &a.expr)).collect()
        }
        Expr::List(list) => list.elements.iter().map(|element| &element.expr).collect(),
        Expr::Select(select) => vec![&select.operand.expr],
        Expr::Comprehension(_)
        | Expr::Unspecified
        | Expr::Ident(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_) => Vec::new(),
    }
}

/// The first name that nothing declares; a rule with it can never be evaluated.
pub(super) fn undeclared<'a>(expression: &'a Expr, declared: &mut Vec<&'a str>) -> Option<&'a str> {
    match expression {
        Expr::Ident(name) => {
            let is_known =
                name.starts_with('@') || declared.contains(&name.as_str()) || KNOWN_NAMES.contains(&name.as_str());
            (!is_known).then_some(name.as_str())
        }
        Expr::Comprehension(loops) => {
            let found =
                undeclared(&loops.iter_range.expr, declared).or_else(|| undeclared(&loops.accu_init.expr, declared));
            let outer = declared.len();
            declared.extend([loops.iter_var.as_str(), loops.accu_var.as_str()]);
            declared.extend(loops.iter_var2.as_deref());
            let inner = [&loops.loop_cond, &loops.loop_step, &loops.result];
            let found = found.or_else(|| inner.into_iter().find_map(|part| undeclared(&part.expr, declared)));
            declared.truncate(outer);
            found
        }
        other => parts(other).into_iter().find_map(|part| undeclared(part, declared)),
    }
}

/// The named functions of a program that are not among the given ones, sorted.
pub(super) fn unsupported<'a>(program: &'a Program, functions: &Context<'_>) -> Vec<&'a str> {
    let mut names = names_of(&program.expression().expr);
    names.retain(|name| is_unknown(name, functions));
    names.sort_unstable();
    names.dedup();
    names
}

fn names_of(expression: &Expr) -> Vec<&str> {
    let mut names = Vec::new();
    if let Expr::Call(call) = expression {
        names.push(call.func_name.as_str());
    }
    if let Expr::Comprehension(loops) = expression {
        let inner = [&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result];
        names.extend(inner.into_iter().flat_map(|part| names_of(&part.expr)));
    }
    names.extend(parts(expression).into_iter().flat_map(names_of));
    names
}

/// Operators have names such as `_&&_`; a named function is known if calling it fails for any other reason.
fn is_unknown(name: &str, functions: &Context<'_>) -> bool {
    let is_named = name.chars().all(|c| c.is_ascii_alphanumeric());
    let call = if is_named { Program::compile(&format!("{name}()")).ok() } else { None };
    call.is_some_and(|call| matches!(call.execute(functions), Err(ExecutionError::UndeclaredReference(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_undeclared(rule: &str) -> Option<String> {
        let program = Program::compile(rule).unwrap();
        undeclared(&program.expression().expr, &mut vec!["self", "oldSelf"]).map(str::to_owned)
    }

    // K-CRD-6
    #[test]
    fn names_must_be_declared_by_the_rule_or_a_loop() {
        assert_eq!(first_undeclared("slef.a == 1").as_deref(), Some("slef"));
        assert_eq!(first_undeclared("self.all(x, y > 1)").as_deref(), Some("y"));
        for good in [
            "self.a == oldSelf.a",
            "self.all(x, x.exists(y, y == x))",
            "type(self.a) == string",
            "sets.contains(self.a, [1]) && math.greatest(1, 2) == 2",
            "quantity(self.a).isGreaterThan(quantity('1'))",
            "optional.of(1).hasValue()",
            "self.map(x, x * 2).filter(x, x > 1).size() == 0",
        ] {
            assert_eq!(first_undeclared(good), None, "{good}");
        }
    }

    // K-CRD-6
    #[test]
    fn loops_inside_loops_are_counted() {
        let nesting = |rule: &str| measure(&Program::compile(rule).unwrap().expression().expr).1;
        assert_eq!(nesting("self.a == 1"), 0);
        assert_eq!(nesting("self.all(x, x > 1) && self.all(y, y > 2)"), 1);
        assert_eq!(nesting("self.all(x, self.all(y, x == y))"), 2);
    }
}
