//! What is the agent told of a fault, so that it sees what a user of the package would see?

use std::collections::BTreeSet;
use std::fmt::Write;

use super::edit::Change;
use super::leak;
use super::screen::Example;

/// Examples in one text.
const SHOWN: usize = 3;

/// The text of an issue, or none where no example can be told without giving something away.
pub(super) fn write(
    package: &str,
    root: &str,
    examples: &[Example],
    change: &Change,
    test_names: &BTreeSet<String>,
) -> Option<String> {
    let mut told: Vec<(String, &Example)> = Vec::new();
    for example in examples {
        let Some(text) = tell(example) else { continue };
        if told.len() < SHOWN
            && told.iter().all(|(_, known)| known.call != example.call)
            && leak::found(&text, change, test_names).is_none()
        {
            told.push((text, example));
        }
    }
    if told.is_empty() {
        return None;
    }
    let texts: Vec<String> = told.into_iter().map(|(text, _)| text).collect();
    let place = match root {
        "." => String::new(),
        root => format!(" It lies in `{root}`: `PYTHONPATH={root} python3` imports it from there."),
    };
    let text = format!(
        "`{package}` does not do what it should:\n\n{}\n\n\
         Find the cause in the source of `{package}` and correct it for every input, not only for the ones \
         shown.{place}",
        texts.join("\n\n")
    );
    leak::found(&text, change, test_names).is_none().then_some(text)
}

/// One example as a block of code and a sentence.
fn tell(example: &Example) -> Option<String> {
    let mut text = String::from("```python\n");
    for line in &example.setup {
        text.push_str(line);
        text.push('\n');
    }
    let _ = write!(text, "{}\n```\n\n", example.call);
    let got = match (&example.raised, &example.gave, &example.gave_type) {
        (Some(raised), ..) => format!("fails with {}", quote(raised)),
        (None, Some(gave), _) => format!("gives {}", quote(gave)),
        (None, None, Some(kind)) => format!("gives an object of the type {}", quote(kind)),
        (None, None, None) => match example.want.as_str() {
            "true" => "is false".into(),
            "false" => "is true".into(),
            _ => "gives a value".into(),
        },
    };
    let value = example.value.as_deref().map(quote);
    let should = match (example.want.as_str(), value) {
        ("value", Some(value)) => format!("It should give {value}."),
        ("true", _) => "It should be true.".into(),
        ("false", _) => "It should be false.".into(),
        ("raise", Some(name)) => format!("It should raise {name}."),
        ("value" | "no error", None) if example.raised.is_some() => "It should not fail.".into(),
        _ => return None,
    };
    let _ = write!(text, "{got}. {should}");
    // The sentence goes on from the block.
    Some(text.replacen("```\n\n", "```\n\nThis ", 1))
}

/// A value as code, whatever it holds.
fn quote(value: &str) -> String {
    let value = value.replace('\n', " ");
    if value.contains('`') { format!("`` {value} ``") } else { format!("`{value}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn example() -> Example {
        Example {
            setup: vec!["from shop import price".into()],
            call: "price(3, unit=2)".into(),
            want: "value".into(),
            value: Some("6".into()),
            gave: Some("5".into()),
            test: "tests/test_shop.py::PriceTests::test_unit".into(),
            ..Example::default()
        }
    }

    fn told(example: Example, from: &str, to: &str) -> Option<String> {
        let names = leak::names(["tests/test_shop.py::PriceTests::test_unit[a-1]"]);
        write("shop", ".", &[example], &Change::between(from, to), &names)
    }

    fn check(example: Example, expected: Expect) {
        let text = told(example, "    return count + unit\n", "    return count * unit\n");
        expected.assert_eq(&text.unwrap_or_else(|| "none".into()));
    }

    #[test]
    fn a_text_says_what_came_and_what_should_come() {
        check(
            example(),
            expect![[r#"
                `shop` does not do what it should:

                ```python
                from shop import price
                price(3, unit=2)
                ```

                This gives `5`. It should give `6`.

                Find the cause in the source of `shop` and correct it for every input, not only for the ones shown."#]],
        );
        check(
            Example {
                raised: Some("TypeError: no `len`".into()),
                want: "no error".into(),
                value: None,
                ..example()
            },
            expect![[r#"
                `shop` does not do what it should:

                ```python
                from shop import price
                price(3, unit=2)
                ```

                This fails with `` TypeError: no `len` ``. It should not fail.

                Find the cause in the source of `shop` and correct it for every input, not only for the ones shown."#]],
        );
    }

    #[test]
    fn a_package_under_a_folder_can_be_imported_by_whoever_reads() {
        let change = Change::between("    return count + unit\n", "    return count * unit\n");
        let text = write("shop", "src", &[example()], &change, &BTreeSet::new()).unwrap();
        assert!(
            text.ends_with(" It lies in `src`: `PYTHONPATH=src python3` imports it from there."),
            "{text}"
        );
    }

    #[test]
    fn a_text_that_gives_the_answer_away_is_none() {
        let gone = |example: Example| told(example, "    return a + b\n", "    return a * b\n").is_none();
        assert!(!gone(example()));
        // A line of the reference patch, a line of the fault, and names of tests.
        assert!(gone(Example { call: "f(return_ := 1); return a * b".into(), ..example() }));
        assert!(gone(Example { raised: Some("E: in `return a + b`".into()), ..example() }));
        assert!(gone(Example { setup: vec!["test_unit = 1".into()], ..example() }));
        assert!(gone(Example { gave: Some("<PriceTests>".into()), ..example() }));
        assert!(gone(Example { setup: vec!["from test_shop import x".into()], ..example() }));
        assert!(gone(Example { setup: vec!["from tests.helpers import x".into()], ..example() }));
    }
}
