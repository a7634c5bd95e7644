//! Which constants and defaults can be wrong?

use tree_sitter::Node;

use super::edit::Edit;
use super::mutations::{Kind, Scope};

pub(super) fn mutate(node: Node, scope: &mut Scope) {
    match node.kind() {
        "integer" => {
            let Ok(value) = scope.text(node).replace('_', "").parse::<u64>() else { return };
            let kind = if is_default(node) {
                Kind::WrongDefault
            } else if is_position(node) {
                Kind::OffByOne
            } else {
                Kind::WrongConstant
            };
            scope.replace(kind, node, value.saturating_add(1).to_string());
            if kind == Kind::OffByOne && value > 0 {
                scope.replace(kind, node, (value - 1).to_string());
            }
        }
        "float" => {
            let Ok(value) = scope.text(node).replace('_', "").parse::<f64>() else { return };
            let kind = if is_default(node) { Kind::WrongDefault } else { Kind::WrongConstant };
            scope.replace(kind, node, format!("{:?}", value * 2.0 + f64::from(value == 0.0)));
        }
        "true" | "false" => {
            if node.parent().is_some_and(|parent| parent.kind() == "while_statement") {
                return;
            }
            let kind = if is_default(node) { Kind::WrongDefault } else { Kind::WrongConstant };
            scope.replace(kind, node, if node.kind() == "true" { "False" } else { "True" });
        }
        // `range(n)` stops one too early.
        "call" => range(node, scope),
        _ => {}
    }
}

fn is_default(node: Node) -> bool {
    let parent = node.parent().filter(|parent| {
        matches!(parent.kind(), "default_parameter" | "typed_default_parameter")
            && parent.child_by_field_name("value") == Some(node)
    });
    parent.is_some()
}

/// Whether a number says where something begins, ends or lies.
fn is_position(node: Node) -> bool {
    let Some(parent) = node.parent() else { return false };
    let node = if parent.kind() == "unary_operator" { parent } else { node };
    let Some(parent) = node.parent() else { return false };
    match parent.kind() {
        "slice" | "subscript" | "comparison_operator" => true,
        "binary_operator" => {
            parent.child_by_field_name("operator").is_some_and(|sign| matches!(sign.kind(), "+" | "-"))
        }
        "argument_list" => parent
            .parent()
            .and_then(|call| call.child_by_field_name("function"))
            .is_some_and(|name| name.kind() == "identifier" && name.byte_range().len() == "range".len()),
        _ => false,
    }
}

fn range(node: Node, scope: &mut Scope) {
    let fields = ["function", "arguments"].map(|field| node.child_by_field_name(field));
    let [Some(function), Some(arguments)] = fields else { return };
    if scope.text(function) != "range" || arguments.kind() != "argument_list" {
        return;
    }
    let last = match arguments.named_child_count() {
        1 => arguments.named_child(0),
        _ => arguments.named_child(1),
    };
    if let Some(last) = last.filter(|last| matches!(last.kind(), "identifier" | "call" | "attribute")) {
        let end = last.end_byte();
        scope.add(Kind::OffByOne, Edit::new(end..end, " - 1"));
        scope.add(Kind::OffByOne, Edit::new(end..end, " + 1"));
    }
}
