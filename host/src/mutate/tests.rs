//! Does each kind of fault apply where it should, and nowhere else?

use std::collections::BTreeSet;

use super::mutations::{Kind, mutations, parse};

/// The bodies that a kind makes of a function `f(a, b)` with `body`, in order.
fn made(kind: Kind, body: &str) -> Vec<String> {
    whole(kind, &format!("def f(a, b):\n    {}\n", body.replace('\n', "\n    ")))
        .into_iter()
        .map(|text| text.strip_prefix("def f(a, b):\n").unwrap().replace("\n    ", "\n").trim().to_owned())
        .collect()
}

fn whole(kind: Kind, source: &str) -> Vec<String> {
    assert!(!parse(source).unwrap().root_node().has_error(), "{source}");
    let found = mutations(source).unwrap();
    let of_kind = found.iter().filter(|mutation| mutation.kind == kind);
    let texts: Vec<String> = of_kind.map(|mutation| mutation.edit.apply(source)).collect();
    for text in &texts {
        assert!(!parse(text).unwrap().root_node().has_error(), "{kind:?} breaks the syntax:\n{text}");
        assert_ne!(text, source);
    }
    texts
}

fn check(kind: Kind, body: &str, expected: &[&str]) {
    assert_eq!(made(kind, body), expected, "{kind:?} of {body}");
}

#[test]
fn wrong_operator() {
    let kind = Kind::WrongOperator;
    check(kind, "return a + b", &["return a - b"]);
    check(kind, "return a // b", &["return a / b"]);
    check(kind, "a -= b", &["a += b"]);
    check(kind, "return a == b", &["return a != b"]);
    check(kind, "return a not in b", &["return a in b"]);
    check(kind, "return a is not b", &["return a is b"]);
    check(kind, "return a and b", &["return a or b"]);
    check(kind, "return a | b << 1", &["return a & b << 1", "return a | b >> 1"]);
    // Texts, unary signs and decorators are left alone.
    check(kind, "return '%s' % a", &[]);
    check(kind, "return 'x' + a + 'y'", &[]);
    check(kind, "return -a", &[]);
    check(kind, "assert a == b", &[]);
}

#[test]
fn off_by_one() {
    let kind = Kind::OffByOne;
    check(kind, "return a < b", &["return a <= b"]);
    check(kind, "return a >= b", &["return a > b"]);
    check(kind, "return a[0]", &["return a[1]"]);
    check(kind, "return a[-1]", &["return a[-0]", "return a[-2]"]);
    check(kind, "return a[1:]", &["return a[0:]", "return a[2:]"]);
    check(kind, "return a + 1", &["return a + 0", "return a + 2"]);
    check(kind, "return range(b)", &["return range(b + 1)", "return range(b - 1)"]);
    check(
        kind,
        "return range(1, b, 2)",
        &[
            "return range(0, b, 2)",
            "return range(2, b, 2)",
            "return range(1, b + 1, 2)",
            "return range(1, b - 1, 2)",
            "return range(1, b, 1)",
            "return range(1, b, 3)",
        ],
    );
    check(kind, "return a * 2", &[]);
    check(kind, "return '1'", &[]);
}

#[test]
fn swapped_arguments() {
    let kind = Kind::SwappedArguments;
    check(kind, "return g(a, b)", &["return g(b, a)"]);
    check(kind, "return g(1,  [2])", &["return g([2],  1)"]);
    check(kind, "return g(a, b, 3)", &["return g(b, a, 3)", "return g(a, 3, b)"]);
    check(kind, "return g(a, a)", &[]);
    check(kind, "return g(a, *b)", &[]);
    check(kind, "return g(a, key=b)", &[]);
    check(kind, "return max(a, b)", &[]);
    check(kind, "return isinstance(a, b)", &[]);
}

#[test]
fn dropped_argument() {
    let kind = Kind::DroppedArgument;
    check(kind, "return g(a, key=b)", &["return g(a)"]);
    check(kind, "return g(key=b)", &["return g()"]);
    check(kind, "return g(x=a, y=b)", &["return g(y=b)", "return g(x=a)"]);
    check(kind, "return g(a, b)", &[]);
}

#[test]
fn wrong_variable() {
    let kind = Kind::WrongVariable;
    check(kind, "return a", &["return b"]);
    check(kind, "return g(b)", &["return g(a)"]);
    check(kind, "x = a", &["x = b"]);
    check(kind, "return g(a=1)", &[]);
    check(kind, "a = 1", &[]);
    check(kind, "return x.a", &[]);
    check(kind, "return a()", &[]);
    assert!(whole(kind, "def f(self, a):\n    return a\n").is_empty(), "self is no variable to mix up");
}

#[test]
fn dropped_branch() {
    let kind = Kind::DroppedBranch;
    check(kind, "if a:\n    return 1\nreturn 2", &["return 2"]);
    check(kind, "if a:\n    x = 1\nelse:\n    x = 2\nreturn x", &["if a:\n    x = 1\nreturn x"]);
    check(kind, "if a:\n    x = 1\nelif b:\n    x = 2\nreturn x", &["if a:\n    x = 1\nreturn x"]);
    check(kind, "if a: return 1", &["pass"]);
    check(kind, "for x in a:\n    g()\nelse:\n    h()", &[]);
    check(kind, "try:\n    g()\nexcept E:\n    h()\nelse:\n    i()", &[]);
}

#[test]
fn wrong_default() {
    let check = |source: &str, expected: &[&str]| assert_eq!(whole(Kind::WrongDefault, source), expected);
    check("def f(a, b=True):\n    pass\n", &["def f(a, b=False):\n    pass\n"]);
    check("def f(a, b: int = 3):\n    pass\n", &["def f(a, b: int = 4):\n    pass\n"]);
    check("def f(a=0.5):\n    pass\n", &["def f(a=1.0):\n    pass\n"]);
    check("def f(a=None, b='x', c=-1):\n    pass\n", &[]);
    check("x = 1\n", &[]);
}

#[test]
fn missing_return() {
    let kind = Kind::MissingReturn;
    check(kind, "return g(a)", &["g(a)"]);
    check(kind, "x = a\nreturn x", &["x = a"]);
    check(kind, "return a", &[]);
    check(kind, "x = a\nreturn", &[]);
    check(kind, "x = a\nreturn None", &[]);
}

#[test]
fn negated_condition() {
    let kind = Kind::NegatedCondition;
    check(kind, "if a:\n    g()", &["if not a:\n    g()"]);
    check(kind, "if not a:\n    g()", &["if a:\n    g()"]);
    check(kind, "while a and b:\n    g()", &["while not (a and b):\n    g()"]);
    check(kind, "return 1 if a else 2", &["return 1 if not a else 2"]);
    check(kind, "return [x for x in a if x]", &["return [x for x in a if not x]"]);
    // One operator is the better fault there; and nobody writes `while not True`.
    check(kind, "if a == b:\n    g()", &[]);
    check(kind, "while True:\n    g()", &[]);
}

#[test]
fn dropped_condition() {
    let kind = Kind::DroppedCondition;
    check(kind, "return a and b", &["return a", "return b"]);
    check(kind, "return [x for x in a if x]", &["return [x for x in a]"]);
    check(kind, "return a", &[]);
}

#[test]
fn wrong_constant() {
    let kind = Kind::WrongConstant;
    check(kind, "return a * 2", &["return a * 3"]);
    check(kind, "x = True", &["x = False"]);
    check(kind, "x = 2.5", &["x = 5.0"]);
    check(kind, "x = 0x10", &[]);
    check(kind, "while True:\n    g()", &[]);
    check(kind, "'''one 1'''\nreturn 'a1'", &[]);
}

#[test]
fn dropped_statement() {
    let kind = Kind::DroppedStatement;
    check(kind, "a.append(b)\nreturn a", &["return a"]);
    check(kind, "a[0] = b\nreturn a", &["return a"]);
    check(kind, "a.x = b", &["pass"]);
    check(
        kind,
        "for x in a:\n    if x: continue\n    g(x)",
        &["for x in a:\n    if x: pass\n    g(x)", "for x in a:\n    if x: continue"],
    );
    check(kind, "g(); h()", &["pass; h()", "g(); pass"]);
    check(kind, "g()  # why\nreturn a", &["return a"]);
    // Without these, a name would be unbound: no fault that anybody makes.
    check(kind, "x = a\nreturn x", &[]);
    check(kind, "'''text'''\nreturn a", &[]);
}

#[test]
fn wrong_exception() {
    let kind = Kind::WrongException;
    check(kind, "raise ValueError('x')", &["raise TypeError('x')"]);
    check(
        kind,
        "try:\n    g()\nexcept KeyError as e:\n    h()",
        &["try:\n    g()\nexcept IndexError as e:\n    h()"],
    );
    check(kind, "raise MyError()", &[]);
    check(kind, "return ValueError()", &[]);
}

#[test]
fn wrong_function() {
    let kind = Kind::WrongFunction;
    check(kind, "return max(a)", &["return min(a)"]);
    check(kind, "return a.lstrip(b)", &["return a.rstrip(b)"]);
    check(kind, "return find(a)", &[]);
    check(kind, "return a.max()", &[]);
    check(kind, "return a.popleft()", &["return a.pop()"]);
    // A list has no `popleft`: the error would name the fault.
    check(kind, "return a.pop()", &[]);
}

#[test]
fn nothing_outside_functions_is_changed() {
    for source in [
        "X = 1 + 2\n",
        "if X > 1:\n    Y = 2\n",
        "class A:\n    x = 1 < 2\n",
        "@d(1 + 2)\ndef f():\n    pass\n",
        "def f(a: g(1, 2)) -> h(3, 4):\n    pass\n",
        "def f(:\n    return 1 + 2\n",
    ] {
        assert!(mutations(source).unwrap().is_empty(), "{source}");
    }
}

#[test]
fn a_place_is_the_innermost_function_with_its_decorators() {
    let source = "class A:\n    @d\n    def f(self):\n        def g(x):\n            return x + 2\n        return g(1)\n";
    let found = mutations(source).unwrap();
    let places: BTreeSet<(String, u32, u32)> =
        found.into_iter().map(|one| (one.place.name, one.place.first_line, one.place.last_line)).collect();
    let expected = [("A.f".to_owned(), 2, 6), ("A.f.g".to_owned(), 4, 5)];
    assert_eq!(places, BTreeSet::from(expected));
}

#[test]
fn every_byte_outside_the_edit_stays() {
    let source = "def f(a):\r\n\treturn  a+1 # ü\r\n\r\n\r\nX = '\u{1F600}'";
    for mutation in mutations(source).unwrap() {
        let text = mutation.edit.apply(source);
        assert!(text.starts_with(&source[..mutation.edit.range.start]));
        assert!(text.ends_with(&source[mutation.edit.range.end..]));
    }
    assert_eq!(mutations(source).unwrap().len(), 3);
}

#[test]
fn every_kind_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
    assert_eq!(names.len(), Kind::ALL.len());
}
