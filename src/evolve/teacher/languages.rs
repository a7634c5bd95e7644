//! What does a teacher read about the language that it writes? Its SDK as an author sees
//! it, what is left out of it, and plugins that work.

use serde::Serialize;
use tandem_host::forge::Language;

use super::prompts::{PluginText, without_tests};

/// A part of an SDK, or all of it.
#[derive(Serialize)]
pub struct SdkPart {
    /// Its heading.
    title: &'static str,
    text: String,
}

fn part(title: &'static str, text: &str) -> SdkPart {
    SdkPart { title, text: text.trim_end().to_owned() }
}

/// A language as the harness teacher reads it.
#[derive(Serialize)]
pub struct LanguageText {
    /// The word behind the fence of a source.
    name: &'static str,
    /// What a source may depend on, such as "the crate `tandem_plugin`".
    library: &'static str,
    /// What else a source must keep to.
    rules: &'static str,
    sdk: Vec<SdkPart>,
    pub examples: Vec<PluginText>,
}

macro_rules! plugins {
    ($path:literal) => {
        include_str!(concat!("../../../plugins/", $path))
    };
}

macro_rules! example {
    ($path:literal) => {
        include_str!(concat!("../../../examples/plugins/", $path))
    };
}

impl LanguageText {
    pub fn of(language: Language) -> Self {
        // The same plugin in every language but Rust, which has shorter ones.
        let guard = |source| vec![plugin(language, "guard", &["workspace-read"], source)];
        let types = "The contract's types, functions of a plugin, and capabilities";
        match language {
            Language::Rust => rust(),
            Language::JavaScript | Language::TypeScript => Self {
                name: language.name(),
                library: "the modules of `tandem`",
                rules: match language {
                    Language::JavaScript => {
                        "One ES module that runs in QuickJS: no Node, no npm package, no `console`, no timer."
                    }
                    _ => {
                        "One ES module that runs in QuickJS after its types were checked strictly: no Node, no npm \
                         package, no `console`, no timer."
                    }
                },
                sdk: vec![part(types, plugins!("sdk-javascript/tandem.d.ts"))],
                examples: match language {
                    Language::JavaScript => guard(example!("javascript/plugin.js")),
                    _ => guard(example!("typescript/plugin.ts")),
                },
            },
            Language::Python => Self {
                name: language.name(),
                library: "the package `tandem` and the standard library",
                rules: "One module; no other package, no files but by `workspace_read` and `workspace_write`.",
                sdk: vec![
                    part("The package `tandem`", plugins!("sdk-python/tandem/__init__.py")),
                    part("`tandem.state`", plugins!("sdk-python/tandem/state.py")),
                    part("`tandem.settings`", plugins!("sdk-python/tandem/settings.py")),
                    part("`tandem.workspace_read`", plugins!("sdk-python/tandem/workspace_read.py")),
                    part("`tandem.workspace_write`", plugins!("sdk-python/tandem/workspace_write.py")),
                    part("`tandem.exec`", plugins!("sdk-python/tandem/exec.py")),
                    part("`tandem.log`", plugins!("sdk-python/tandem/log.py")),
                    part("`tandem.clock`", plugins!("sdk-python/tandem/clock.py")),
                    part("`tandem.random`", plugins!("sdk-python/tandem/random.py")),
                ],
                examples: guard(example!("python/plugin.py")),
            },
            Language::C => Self {
                name: language.name(),
                library: "`tandem.h` and the standard library",
                rules: "One file of C23; no other header, no files, no threads.",
                sdk: vec![part("`tandem.h`", plugins!("sdk-c/tandem.h"))],
                examples: guard(example!("c/plugin.c")),
            },
            Language::Cpp => Self {
                name: language.name(),
                library: "`tandem.hpp` and the standard library",
                rules: "One file of C++23, without exceptions and RTTI; no other header, no files, no threads.",
                sdk: vec![part("`tandem.hpp`", plugins!("sdk-cpp/tandem.hpp"))],
                examples: guard(example!("cpp/plugin.cpp")),
            },
            Language::Zig => Self {
                name: language.name(),
                library: "`tandem` and the standard library",
                rules: "One file; no other package, no files, no threads.",
                sdk: vec![
                    part("`tandem`", plugins!("sdk-zig/tandem.zig")),
                    part("`tandem.json`", plugins!("sdk-zig/json.zig")),
                ],
                examples: guard(example!("zig/plugin.zig")),
            },
            Language::Go => Self {
                name: language.name(),
                library: "the package `tandem`, those below it, and the standard library",
                rules: "One file; no other package, no `cgo`, no `unsafe`.",
                sdk: vec![
                    part("The package `tandem`", plugins!("sdk-go/tandem.go")),
                    part("`tandem/json`", &go_signatures(plugins!("sdk-go/json/json.go"))),
                    part("`tandem/state`", &go_signatures(plugins!("sdk-go/state/state.go"))),
                    part("`tandem/settings`", &go_signatures(plugins!("sdk-go/settings/settings.go"))),
                    part("`tandem/workspace`", &go_signatures(plugins!("sdk-go/workspace/workspace.go"))),
                    part("`tandem/exec`", &go_signatures(plugins!("sdk-go/exec/exec.go"))),
                    part("`tandem/log`", &go_signatures(plugins!("sdk-go/log/log.go"))),
                    part("`tandem/clock`", &go_signatures(plugins!("sdk-go/clock/clock.go"))),
                    part("`tandem/random`", &go_signatures(plugins!("sdk-go/random/random.go"))),
                ],
                examples: guard(example!("go/plugin.go")),
            },
        }
    }
}

fn rust() -> LanguageText {
    let sdk = plugins!("sdk/src/lib.rs");
    LanguageText {
        name: Language::Rust.name(),
        library: "the crate `tandem_plugin`",
        rules: "No other crate, no `unsafe`, no build script.",
        sdk: vec![
            // The macros' insides say nothing to an author.
            part("The crate `tandem_plugin`", sdk.split("/// Exports a type's").next().unwrap_or(sdk)),
            part("Capabilities", plugins!("sdk/src/capabilities.rs")),
            part("Its module `json`", &rust_signatures(plugins!("sdk/src/json.rs"))),
        ],
        examples: vec![
            plugin(Language::Rust, "hold-empty-patch", &[], plugins!("hold-empty-patch/src/lib.rs")),
            plugin(
                Language::Rust,
                "new-file-reminder",
                &["workspace-read"],
                plugins!("new-file-reminder/src/lib.rs"),
            ),
        ],
    }
}

fn plugin(language: Language, name: &str, grants: &[&str], source: &str) -> PluginText {
    PluginText {
        name: name.into(),
        grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
        language,
        source: Some(without_tests(source)),
        settings: String::new(),
        schema: None,
    }
}

/// The public items of a Rust source with their comments, bodies left out.
fn rust_signatures(source: &str) -> String {
    let mut text = String::new();
    let mut comments = String::new();
    let mut in_type = false;
    for line in without_tests(source).lines() {
        let code = line.trim_start();
        if in_type {
            text.push_str(line);
            text.push('\n');
            in_type = line != "}";
        } else if code.starts_with("///") {
            comments.push_str(line);
            comments.push('\n');
        } else if code.starts_with("pub fn ") || code.starts_with("pub enum ") || line.starts_with("impl ") {
            text.push_str(&comments);
            in_type = code.starts_with("pub enum ");
            text.push_str(if in_type { line } else { line.trim_end_matches(" {") });
            text.push_str(if code.starts_with("pub fn ") { ";\n" } else { "\n" });
            comments.clear();
        } else {
            comments.clear();
        }
    }
    text.trim_end().to_owned()
}

/// The exported items of a Go source with their comments, bodies of functions left out.
fn go_signatures(source: &str) -> String {
    let exported = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    let mut text = String::new();
    let mut comments = String::new();
    let mut in_type = false;
    for line in source.lines() {
        // `func Name(` and `func (receiver) Name(`.
        let name = line.strip_prefix("func ").map(|rest| match rest.strip_prefix('(') {
            Some(method) => method.split_once(") ").map_or("", |(_, name)| name),
            None => rest,
        });
        if in_type {
            text.push_str(line);
            text.push('\n');
            in_type = !matches!(line, "}" | ")");
        } else if line.starts_with("//") {
            comments.push_str(line);
            comments.push('\n');
        } else if line.starts_with("package ") || name.is_some_and(exported) {
            text.push_str(&comments);
            text.push_str(line.trim_end_matches(" {"));
            text.push('\n');
            comments.clear();
        } else if ["type ", "var ", "const "]
            .iter()
            .any(|word| line.strip_prefix(word).is_some_and(|rest| exported(rest) || rest == "("))
        {
            text.push_str(&comments);
            text.push_str(line);
            text.push('\n');
            in_type = line.ends_with(['{', '(']);
            comments.clear();
        } else {
            comments.clear();
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tokens::estimate;
    use super::*;

    /// Everything of the SDK that the example of the language uses is told to the teacher.
    fn check(language: Language, told: &[&str], untold: &[&str]) {
        let text = LanguageText::of(language);
        let all: String = text.sdk.iter().map(|part| format!("{}\n{}\n", part.title, part.text)).collect();
        for part in told {
            assert!(all.contains(part), "{language}: `{part}` is missing in\n{all}");
        }
        for part in untold {
            assert!(!all.contains(part), "{language}: `{part}` is in\n{all}");
        }
        assert!(text.examples.iter().all(|example| example.source.is_some() && example.language == language));
        assert_eq!(Language::named(text.name), Some(language));
        let tokens = estimate(&all);
        assert!(tokens < 20_000, "{language}: the SDK takes {tokens} tokens of each request");
    }

    #[test]
    fn the_sdk_of_each_language_is_told_without_its_insides() {
        check(
            Language::Rust,
            &["Guest as OnSubmit", "pub fn parse(", "search, stat, untracked"],
            &["macro_rules!", "mod tests"],
        );
        check(
            Language::JavaScript,
            &["export type OnSubmit", "export function untracked"],
            &["componentize"],
        );
        check(
            Language::TypeScript,
            &["export type OnSubmit", "export function untracked"],
            &["componentize"],
        );
        check(Language::Python, &["on_submit(context", "def untracked()"], &["_shim"]);
        check(Language::C, &["tandem_on_submit", "tandem_workspace_untracked"], &["cabi_realloc"]);
        check(Language::Cpp, &["on_submit", "untracked"], &["cabi_realloc"]);
        check(Language::Zig, &["onSubmit", "untracked"], &["cabi_realloc"]);
        check(
            Language::Go,
            &["func OnSubmit", "func Untracked(", "type Object", "func (o Object) Text("],
            &["cabi_realloc", "func (p *parser)", "maxDepth"],
        );
    }

    #[test]
    fn bodies_of_go_are_left_out() {
        let source = "// Package a is one.\npackage a\n\n// F does.\nfunc F(x int) int {\n\treturn g(x)\n}\n\nfunc g(x int) int {\n\treturn x\n}\n\n// T is one.\ntype T struct {\n\tA int\n}\n\n// M too.\nfunc (t T) M() {\n}\n\nfunc (t T) m() {\n}\n";
        let expected = "// Package a is one.\npackage a\n// F does.\nfunc F(x int) int\n// T is one.\ntype T struct {\n\tA int\n}\n// M too.\nfunc (t T) M()";
        assert_eq!(go_signatures(source), expected);
    }
}
