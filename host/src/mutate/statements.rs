//! Which statements can be missing?

use tree_sitter::Node;

use super::edit::Edit;
use super::mutations::{Kind, Scope};

pub(super) fn mutate(node: Node, scope: &mut Scope) {
    match node.kind() {
        "else_clause" => {
            // `for … else` and `try … else` read alike, and are left in peace.
            if node.parent().is_some_and(|parent| parent.kind() == "if_statement") {
                drop_lines(Kind::DroppedBranch, node, scope);
            }
        }
        "elif_clause" => drop_lines(Kind::DroppedBranch, node, scope),
        "if_statement" if node.child_by_field_name("alternative").is_none() => {
            drop_statement(Kind::DroppedBranch, node, scope);
        }
        "return_statement" => missing_return(node, scope),
        "expression_statement" => {
            if let Some(inner) = node.named_child(0).filter(|_| node.named_child_count() == 1)
                && is_effect(inner)
            {
                drop_statement(Kind::DroppedStatement, node, scope);
            }
        }
        "continue_statement" | "break_statement" | "delete_statement" => {
            drop_statement(Kind::DroppedStatement, node, scope);
        }
        _ => {}
    }
}

/// A statement that is there for what it does; without it the names stay bound.
fn is_effect(node: Node) -> bool {
    match node.kind() {
        "call" | "augmented_assignment" => true,
        "assignment" => node
            .child_by_field_name("left")
            .is_some_and(|left| matches!(left.kind(), "attribute" | "subscript")),
        _ => false,
    }
}

/// `return f(x)` as `f(x)`; another `return` goes as a whole.
fn missing_return(node: Node, scope: &mut Scope) {
    match node.named_child(0) {
        Some(value) if value.kind() == "call" => {
            scope.add(Kind::MissingReturn, Edit::new(node.start_byte()..value.start_byte(), ""));
        }
        Some(value) if value.kind() != "none" && !stands_alone(node) => {
            drop_statement(Kind::MissingReturn, node, scope);
        }
        _ => {}
    }
}

fn stands_alone(node: Node) -> bool {
    let Some(block) = node.parent() else { return true };
    let mut cursor = block.walk();
    let others = block.named_children(&mut cursor).filter(|child| child.kind() != "comment").count();
    block.kind() != "block" || others < 2
}

/// Takes a statement away; `pass` stays where a block would be empty.
fn drop_statement(kind: Kind, node: Node, scope: &mut Scope) {
    if stands_alone(node) || shares_line(node, scope) {
        scope.replace(kind, node, "pass");
    } else {
        drop_lines(kind, node, scope);
    }
}

fn shares_line(node: Node, scope: &Scope) -> bool {
    let before = scope.source[..node.start_byte()].rsplit('\n').next().unwrap_or_default();
    let after = scope.source[node.end_byte()..].split('\n').next().unwrap_or_default().trim_start();
    !before.trim().is_empty() || !(after.trim_end().is_empty() || after.starts_with('#'))
}

/// Takes away the lines of a node that has them for itself.
fn drop_lines(kind: Kind, node: Node, scope: &mut Scope) {
    if shares_line(node, scope) {
        return;
    }
    let start = scope.source[..node.start_byte()].rfind('\n').map_or(0, |at| at + 1);
    let end =
        scope.source[node.end_byte()..].find('\n').map_or(scope.source.len(), |at| node.end_byte() + at + 1);
    scope.add(kind, Edit::new(start..end, ""));
}
