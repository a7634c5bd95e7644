//! Which operators and conditions can be wrong?

use tree_sitter::Node;

use super::edit::Edit;
use super::mutations::{Kind, Scope};

/// Operators of which one is easily written for the other.
const OPERATORS: [(&str, &str); 22] = [
    ("+", "-"),
    ("-", "+"),
    ("*", "+"),
    ("/", "//"),
    ("//", "/"),
    ("%", "//"),
    ("**", "*"),
    ("&", "|"),
    ("|", "&"),
    ("^", "|"),
    ("<<", ">>"),
    (">>", "<<"),
    ("+=", "-="),
    ("-=", "+="),
    ("*=", "+="),
    ("==", "!="),
    ("!=", "=="),
    ("is", "is not"),
    ("is not", "is"),
    ("in", "not in"),
    ("not in", "in"),
    ("<>", "=="),
];

/// Comparisons that are off at their boundary.
const BOUNDARIES: [(&str, &str); 4] = [("<", "<="), ("<=", "<"), (">", ">="), (">=", ">")];

pub(super) fn mutate(node: Node, scope: &mut Scope) {
    match node.kind() {
        "binary_operator" | "augmented_assignment" => {
            if let Some(operator) = node.child_by_field_name("operator")
                && !is_text(node, scope)
                && let Some(other) = other(&OPERATORS, operator.kind())
            {
                scope.replace(Kind::WrongOperator, operator, other);
            }
        }
        "comparison_operator" => compare(node, scope),
        "boolean_operator" => combine(node, scope),
        "if_statement" | "elif_clause" | "while_statement" => {
            if let Some(condition) = node.child_by_field_name("condition") {
                negate(condition, scope);
            }
        }
        "conditional_expression" => {
            if let Some(condition) = node.named_child(1) {
                negate(condition, scope);
            }
        }
        "if_clause" => {
            if let Some(condition) = node.named_child(0) {
                negate(condition, scope);
                // The clause and the white space before it.
                let start = scope.source[..node.start_byte()].trim_end().len();
                scope.add(Kind::DroppedCondition, Edit::new(start..node.end_byte(), ""));
            }
        }
        _ => {}
    }
}

fn other(pairs: &[(&str, &'static str)], operator: &str) -> Option<&'static str> {
    pairs.iter().find(|(known, _)| *known == operator).map(|(_, other)| *other)
}

/// `"…" % x` and `"…" + x` are texts: another operator is a fault that nobody makes.
fn is_text(node: Node, scope: &Scope) -> bool {
    let mut cursor = node.walk();
    let text = node.named_children(&mut cursor).any(|child| {
        matches!(child.kind(), "string" | "concatenated_string") || {
            child.kind() == "binary_operator" && is_text(child, scope)
        }
    });
    text
}

fn compare(node: Node, scope: &mut Scope) {
    let mut cursor = node.walk();
    for operator in node.children_by_field_name("operators", &mut cursor) {
        if let Some(other) = other(&BOUNDARIES, operator.kind()) {
            scope.replace(Kind::OffByOne, operator, other);
        } else if let Some(other) = other(&OPERATORS, operator.kind()) {
            scope.replace(Kind::WrongOperator, operator, other);
        }
    }
}

/// `a and b` as `a or b`, as `a`, and as `b`.
fn combine(node: Node, scope: &mut Scope) {
    let fields = ["left", "operator", "right"].map(|field| node.child_by_field_name(field));
    let [Some(left), Some(operator), Some(right)] = fields else { return };
    scope.replace(Kind::WrongOperator, operator, if operator.kind() == "and" { "or" } else { "and" });
    let (left, right) = (scope.text(left), scope.text(right));
    scope.replace(Kind::DroppedCondition, node, left);
    scope.replace(Kind::DroppedCondition, node, right);
}

fn negate(condition: Node, scope: &mut Scope) {
    let inner = match condition.kind() {
        "parenthesized_expression" => condition.named_child(0).unwrap_or(condition),
        _ => condition,
    };
    match inner.kind() {
        // One operator is the better fault there; and nobody writes `while not True`.
        "comparison_operator" | "true" | "false" | "integer" => {}
        "not_operator" => {
            if let Some(argument) = inner.child_by_field_name("argument") {
                let text = scope.text(argument);
                scope.replace(Kind::NegatedCondition, inner, text);
            }
        }
        "boolean_operator" | "conditional_expression" | "named_expression" | "lambda" => {
            let text = format!("not ({})", scope.text(inner));
            scope.replace(Kind::NegatedCondition, inner, text);
        }
        _ => {
            let text = format!("not {}", scope.text(inner));
            scope.replace(Kind::NegatedCondition, inner, text);
        }
    }
}
