//! Where can another variable stand by mistake?

use tree_sitter::Node;

use super::mutations::{Kind, Scope};

/// Names of the parameters, without `self` and `cls`.
pub(super) fn parameters<'a>(function: Node, source: &'a str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let Some(list) = function.child_by_field_name("parameters") else { return names };
    let mut cursor = list.walk();
    for parameter in list.named_children(&mut cursor) {
        let name = match parameter.kind() {
            "identifier" => Some(parameter),
            "default_parameter" | "typed_default_parameter" => parameter.child_by_field_name("name"),
            "typed_parameter" => parameter.named_child(0).filter(|name| name.kind() == "identifier"),
            _ => None,
        };
        let name = name.map(|name| &source[name.byte_range()]);
        names.extend(name.filter(|name| !matches!(*name, "self" | "cls" | "_")));
    }
    names
}

/// A parameter that is read becomes the next one.
pub(super) fn mutate(node: Node, scope: &mut Scope) {
    if node.kind() != "identifier" || scope.parameters.len() < 2 || !is_read(node) {
        return;
    }
    let name = scope.text(node);
    if let Some(at) = scope.parameters.iter().position(|known| *known == name) {
        let other = scope.parameters[(at + 1) % scope.parameters.len()];
        scope.replace(Kind::WrongVariable, node, other);
    }
}

fn is_read(node: Node) -> bool {
    let Some(parent) = node.parent() else { return false };
    let field = |name| parent.child_by_field_name(name) == Some(node);
    match parent.kind() {
        "argument_list"
        | "comparison_operator"
        | "binary_operator"
        | "boolean_operator"
        | "return_statement"
        | "not_operator" => true,
        "subscript" => parent.parent().is_none_or(|outer| outer.child_by_field_name("left") != Some(parent)),
        "keyword_argument" => field("value"),
        "assignment" | "augmented_assignment" | "for_statement" | "for_in_clause" => field("right"),
        "if_statement" | "while_statement" | "elif_clause" => field("condition"),
        _ => false,
    }
}
