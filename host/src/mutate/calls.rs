//! Which calls can be wrong: their arguments, the function, the exception they make?

use tree_sitter::Node;

use super::edit::Edit;
use super::mutations::{Kind, Scope};

/// Functions for which the order of arguments means nothing, or that nobody would mix up.
const ORDERLESS: [&str; 8] =
    ["min", "max", "isinstance", "issubclass", "print", "hasattr", "getattr", "super"];

/// Functions and methods of which one is easily written for the other.
const FUNCTIONS: [(&str, &str); 22] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("lstrip", "rstrip"),
    ("rstrip", "lstrip"),
    ("startswith", "endswith"),
    ("endswith", "startswith"),
    ("upper", "lower"),
    ("lower", "upper"),
    ("ljust", "rjust"),
    ("rjust", "ljust"),
    ("find", "rfind"),
    ("rfind", "find"),
    ("split", "rsplit"),
    ("rsplit", "split"),
    ("partition", "rpartition"),
    ("rpartition", "partition"),
    ("append", "extend"),
    ("extend", "append"),
    ("popleft", "pop"),
    ("appendleft", "append"),
];

const EXCEPTIONS: [(&str, &str); 8] = [
    ("ValueError", "TypeError"),
    ("TypeError", "ValueError"),
    ("KeyError", "IndexError"),
    ("IndexError", "KeyError"),
    ("AttributeError", "KeyError"),
    ("StopIteration", "ValueError"),
    ("LookupError", "ValueError"),
    ("OverflowError", "ValueError"),
];

pub(super) fn mutate(node: Node, scope: &mut Scope) {
    match node.kind() {
        "call" => {
            let fields = ["function", "arguments"].map(|field| node.child_by_field_name(field));
            let [Some(function), Some(arguments)] = fields else { return };
            if arguments.kind() == "argument_list" {
                self::arguments(function, arguments, scope);
            }
            self::function(function, scope);
        }
        "raise_statement" | "except_clause" => {
            let mut cursor = node.walk();
            for child in node.named_children(&mut cursor) {
                let name = match child.kind() {
                    "call" if node.kind() == "raise_statement" => child.child_by_field_name("function"),
                    "as_pattern" => child.named_child(0),
                    "identifier" => Some(child),
                    _ => None,
                };
                if let Some(name) = name
                    && let Some((_, other)) = EXCEPTIONS.iter().find(|(known, _)| *known == scope.text(name))
                {
                    scope.replace(Kind::WrongException, name, *other);
                }
            }
        }
        _ => {}
    }
}

fn arguments(function: Node, arguments: Node, scope: &mut Scope) {
    let mut cursor = arguments.walk();
    let given: Vec<Node> =
        arguments.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect();
    let splat = |node: &Node| matches!(node.kind(), "list_splat" | "dictionary_splat" | "keyword_argument");
    let orderless = ORDERLESS.contains(&scope.text(function));
    for pair in given.windows(2) {
        if orderless || pair.iter().any(splat) || scope.text(pair[0]) == scope.text(pair[1]) {
            continue;
        }
        let between = &scope.source[pair[0].end_byte()..pair[1].start_byte()];
        let text = [scope.text(pair[1]), between, scope.text(pair[0])].concat();
        scope.add(Kind::SwappedArguments, Edit::new(pair[0].start_byte()..pair[1].end_byte(), text));
    }
    for (at, argument) in given.iter().enumerate() {
        if argument.kind() != "keyword_argument" {
            continue;
        }
        // With the comma before it, or the one after it where it is the first.
        let range = match (at.checked_sub(1), given.get(at + 1)) {
            (Some(before), _) => given[before].end_byte()..argument.end_byte(),
            (None, Some(after)) => argument.start_byte()..after.start_byte(),
            (None, None) => argument.byte_range(),
        };
        scope.add(Kind::DroppedArgument, Edit::new(range, ""));
    }
}

fn function(function: Node, scope: &mut Scope) {
    let name = match function.kind() {
        "attribute" => function.child_by_field_name("attribute"),
        "identifier" => Some(function),
        _ => None,
    };
    let Some(name) = name else { return };
    // `min` and `any` are functions, `find` and `append` methods.
    let builtin = matches!(scope.text(name), "min" | "max" | "any" | "all");
    if builtin != (function.kind() == "identifier") {
        return;
    }
    if let Some((_, other)) = FUNCTIONS.iter().find(|(known, _)| *known == scope.text(name)) {
        scope.replace(Kind::WrongFunction, name, *other);
    }
}
