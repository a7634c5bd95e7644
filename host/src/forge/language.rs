//! Which languages does the forge build?

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A language that the forge makes components of. Any other language works by handing over a
/// component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    Rust,
    JavaScript,
    TypeScript,
    Python,
    C,
    Cpp,
    Zig,
    Go,
}

impl Language {
    /// All of them, in the order in which they are listed for people.
    pub const ALL: [Self; 8] = [
        Self::Rust,
        Self::JavaScript,
        Self::TypeScript,
        Self::Python,
        Self::C,
        Self::Cpp,
        Self::Zig,
        Self::Go,
    ];

    /// The name in records and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Python => "python",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Zig => "zig",
            Self::Go => "go",
        }
    }

    /// The ending of its source files, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Rust => "rs",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Python => "py",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Zig => "zig",
            Self::Go => "go",
        }
    }

    /// The language that people, and fenced blocks of models, call `name`, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let also = match name.as_str() {
            "c++" | "cxx" | "cc" => Self::Cpp,
            "mjs" | "node" => Self::JavaScript,
            "py" | "python3" => Self::Python,
            "golang" => Self::Go,
            _ => {
                let known = |language: &Self| language.name() == name || language.extension() == name;
                return Self::ALL.into_iter().find(known);
            }
        };
        Some(also)
    }

    /// The language of a source file, by its ending.
    pub fn of_file(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        match extension {
            "mjs" => Some(Self::JavaScript),
            "cc" | "cxx" => Some(Self::Cpp),
            _ => Self::ALL.into_iter().find(|language| language.extension() == extension),
        }
    }

    /// What the source file of the plugin `stem` is called.
    pub fn file_name(self, stem: &str) -> String {
        format!("{stem}.{}", self.extension())
    }

    /// What a source has to have to export something.
    pub(super) fn exporting(self) -> &'static str {
        match self {
            Self::Rust => {
                "implement a trait such as `OnModelCall` and name the type in `export_on_model_call!(Plugin);`"
            }
            Self::C => {
                "define a function such as `tandem_on_model_call`, and write `TANDEM_EXPORT(on_model_call);` after it"
            }
            Self::Cpp => {
                "define a function such as `on_model_call`, and write `TANDEM_EXPORT(on_model_call);` after it"
            }
            Self::Zig => "define a `pub fn` with the name of a point, such as `onModelCall`",
            Self::JavaScript | Self::TypeScript => "export a function such as `onModelCall`",
            Self::Python => "define a function such as `on_model_call`",
            Self::Go => "define a function such as `func OnModelCall(ctx tandem.Context) tandem.NoteOrStop`",
        }
    }

    /// All names, for a message.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_is_found_by_its_names() {
        for language in Language::ALL {
            assert_eq!(Language::named(language.name()), Some(language));
            assert_eq!(Language::named(&language.name().to_uppercase()), Some(language));
            assert_eq!(Language::of_file(Path::new(&language.file_name("plugin"))), Some(language));
            let json = serde_json::to_string(&language).unwrap();
            assert_eq!(json, format!("\"{}\"", language.name()));
        }
        for (name, expected) in [
            ("C++", Some(Language::Cpp)),
            ("py", Some(Language::Python)),
            ("TS", Some(Language::TypeScript)),
            ("golang", Some(Language::Go)),
            ("cobol", None),
            ("", None),
        ] {
            assert_eq!(Language::named(name), expected, "{name}");
        }
        for file in ["plugin", "plugin.wasm", "plugin.h", ".rs", "plugin.RS"] {
            assert_eq!(Language::of_file(Path::new(file)), None, "{file}");
        }
    }
}
