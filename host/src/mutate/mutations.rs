//! Which mutations does a source file allow?

use tree_sitter::{Node, Parser};

use super::edit::Edit;
use super::error::MutateError;
use super::{calls, conditions, literals, statements, variables};

/// What kind of fault a mutation brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    WrongOperator,
    OffByOne,
    SwappedArguments,
    DroppedArgument,
    WrongVariable,
    DroppedBranch,
    WrongDefault,
    MissingReturn,
    NegatedCondition,
    DroppedCondition,
    WrongConstant,
    DroppedStatement,
    WrongException,
    WrongFunction,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::WrongOperator,
        Self::OffByOne,
        Self::SwappedArguments,
        Self::DroppedArgument,
        Self::WrongVariable,
        Self::DroppedBranch,
        Self::WrongDefault,
        Self::MissingReturn,
        Self::NegatedCondition,
        Self::DroppedCondition,
        Self::WrongConstant,
        Self::DroppedStatement,
        Self::WrongException,
        Self::WrongFunction,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::WrongOperator => "wrong operator",
            Self::OffByOne => "off by one",
            Self::SwappedArguments => "swapped arguments",
            Self::DroppedArgument => "dropped argument",
            Self::WrongVariable => "wrong variable",
            Self::DroppedBranch => "dropped branch",
            Self::WrongDefault => "wrong default",
            Self::MissingReturn => "missing return",
            Self::NegatedCondition => "negated condition",
            Self::DroppedCondition => "dropped condition",
            Self::WrongConstant => "wrong constant",
            Self::DroppedStatement => "dropped statement",
            Self::WrongException => "wrong exception",
            Self::WrongFunction => "wrong function",
        }
    }
}

/// A function of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Names from the outside in: `Class.method`.
    pub name: String,
    /// First line, decorators included; lines count from 1.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
}

/// One way to break a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub kind: Kind,
    pub edit: Edit,
    /// The innermost function around it.
    pub place: Place,
}

/// What an operator sees of the function it works in.
pub(super) struct Scope<'a> {
    pub(super) source: &'a str,
    place: Place,
    /// Parameters without `self` and `cls`, in order.
    pub(super) parameters: Vec<&'a str>,
    found: Vec<Mutation>,
}

impl<'a> Scope<'a> {
    pub(super) fn text(&self, node: Node) -> &'a str {
        &self.source[node.byte_range()]
    }

    pub(super) fn add(&mut self, kind: Kind, edit: Edit) {
        if self.source[edit.range.clone()] != edit.text {
            self.found.push(Mutation { kind, edit, place: self.place.clone() });
        }
    }

    /// Replaces a node.
    pub(super) fn replace(&mut self, kind: Kind, node: Node, text: impl Into<String>) {
        self.add(kind, Edit::new(node.byte_range(), text));
    }
}

/// All mutations of a file, in the order of the source; none for a file with a syntax error.
///
/// Only what runs inside functions is changed: a fault at import fails every test alike.
/// Decorators, annotations, strings and assertions stay.
pub fn mutations(source: &str) -> Result<Vec<Mutation>, MutateError> {
    let tree = parse(source)?;
    if tree.root_node().has_error() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    visit(tree.root_node(), source, &mut Vec::new(), None, &mut found);
    found.sort_by_key(|one| (one.edit.range.start, one.edit.range.end, one.kind, one.edit.text.clone()));
    // Two kinds may lead to one text.
    let mut seen = std::collections::HashSet::new();
    found.retain(|mutation| seen.insert((mutation.edit.range.clone(), mutation.edit.text.clone())));
    Ok(found)
}

/// The syntax tree of a file.
pub(super) fn parse(source: &str) -> Result<tree_sitter::Tree, MutateError> {
    let mut parser = Parser::new();
    let grammar = |reason: String| MutateError::Grammar { reason };
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).map_err(|error| grammar(error.to_string()))?;
    parser.parse(source, None).ok_or_else(|| grammar("the parser stopped".into()))
}

/// Walks the tree with the names and the function around the node.
fn visit<'a>(
    node: Node,
    source: &'a str,
    names: &mut Vec<&'a str>,
    scope: Option<&mut Scope<'a>>,
    found: &mut Vec<Mutation>,
) {
    match node.kind() {
        "decorator" | "type" | "string" | "concatenated_string" | "assert_statement" | "comment" => {}
        "function_definition" => {
            let Some(name) = node.child_by_field_name("name") else { return };
            names.push(&source[name.byte_range()]);
            let outer = node.parent().filter(|parent| parent.kind() == "decorated_definition");
            let whole = outer.unwrap_or(node);
            let place = Place {
                name: names.join("."),
                first_line: whole.start_position().row as u32 + 1,
                last_line: whole.end_position().row as u32 + 1,
            };
            let parameters = variables::parameters(node, source);
            let mut inner = Scope { source, place, parameters, found: Vec::new() };
            for part in ["parameters", "body"] {
                if let Some(part) = node.child_by_field_name(part) {
                    visit(part, source, names, Some(&mut inner), found);
                }
            }
            found.append(&mut inner.found);
            names.pop();
        }
        "class_definition" => {
            let Some(name) = node.child_by_field_name("name") else { return };
            names.push(&source[name.byte_range()]);
            if let Some(body) = node.child_by_field_name("body") {
                visit(body, source, names, None, found);
            }
            names.pop();
        }
        _ => {
            let mut scope = scope;
            if let Some(scope) = scope.as_deref_mut() {
                conditions::mutate(node, scope);
                literals::mutate(node, scope);
                calls::mutate(node, scope);
                variables::mutate(node, scope);
                statements::mutate(node, scope);
            }
            let mut cursor = node.walk();
            for child in node.children(&mut cursor) {
                visit(child, source, names, scope.as_deref_mut(), found);
            }
        }
    }
}
