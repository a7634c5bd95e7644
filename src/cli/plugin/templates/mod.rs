//! What does a new plugin look like in each language? The same behaviour everywhere, so that the
//! cases of `tandem plugin new` hold for all of them.

mod c;
mod cpp;
mod go;
mod javascript;
mod python;
#[cfg(test)]
mod tests;
mod zig;

use tandem_host::forge::Language;
use tandem_host::plugin::HookPoint;

use super::template::Wanted;

/// The source of a new plugin.
pub fn source(wanted: &Wanted, language: Language) -> String {
    let Wanted { name, points, settings_schema } = wanted;
    let settings_schema = *settings_schema;
    match language {
        Language::Rust => wanted.rust(),
        Language::JavaScript | Language::TypeScript => {
            javascript::source(name, points, settings_schema, language == Language::TypeScript)
        }
        Language::Python => python::source(name, points, settings_schema),
        Language::C => Pieces { uses: c::USES.into(), settings: c::SETTINGS, quiet: c::quiet, part: c::part }
            .joined(wanted, "//"),
        Language::Cpp => {
            Pieces { uses: cpp::USES.into(), settings: cpp::SETTINGS, quiet: cpp::quiet, part: cpp::part }
                .joined(wanted, "//")
        }
        Language::Zig => {
            Pieces { uses: zig::USES.into(), settings: zig::SETTINGS, quiet: zig::quiet, part: zig::part }
                .joined(wanted, "//!")
        }
        Language::Go => {
            let uses = go::uses(points, settings_schema);
            Pieces { uses, settings: go::SETTINGS, quiet: go::quiet, part: go::part }.joined(wanted, "//")
        }
    }
}

macro_rules! sdk {
    ($($at:literal from $path:literal),+) => {
        &[$(($at, include_str!(concat!("../../../../plugins/", $path)))),+]
    };
}

/// Files beside the source from which an editor completes and explains. The forge has its own and reads none of them.
pub fn for_the_editor(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::JavaScript | Language::TypeScript => &[
            ("tandem.d.ts", include_str!("../../../../plugins/sdk-javascript/tandem.d.ts")),
            // The name that editors look for in both languages; `checkJs` holds for JavaScript.
            (
                "tsconfig.json",
                "{\n  \"compilerOptions\": {\n    \"allowJs\": true,\n    \"checkJs\": true,\n    \"lib\": [\"ES2023\"],\n    \
                 \"module\": \"ES2022\",\n    \"noEmit\": true,\n    \"strict\": true,\n    \"types\": []\n  }\n}\n",
            ),
        ],
        Language::Python => sdk!(
            "tandem/__init__.py" from "sdk-python/tandem/__init__.py",
            "tandem/_host.py" from "sdk-python/tandem/_host.py",
            "tandem/clock.py" from "sdk-python/tandem/clock.py",
            "tandem/exec.py" from "sdk-python/tandem/exec.py",
            "tandem/log.py" from "sdk-python/tandem/log.py",
            "tandem/random.py" from "sdk-python/tandem/random.py",
            "tandem/settings.py" from "sdk-python/tandem/settings.py",
            "tandem/state.py" from "sdk-python/tandem/state.py",
            "tandem/workspace_read.py" from "sdk-python/tandem/workspace_read.py",
            "tandem/workspace_write.py" from "sdk-python/tandem/workspace_write.py"
        ),
        Language::C => sdk!("tandem.h" from "sdk-c/tandem.h"),
        Language::Cpp => sdk!("tandem.hpp" from "sdk-cpp/tandem.hpp", "tandem.h" from "sdk-c/tandem.h"),
        // Their tools want a project around the file: `Cargo.toml`, `go.mod`, `build.zig`.
        Language::Rust | Language::Go | Language::Zig => &[],
    }
}

/// What the source of a language is put together from.
struct Pieces {
    /// Between the comment at the head and the first part.
    uses: String,
    /// The export `settings-schema`, and the function that the parts ask.
    settings: &'static str,
    /// What stands for `QUIET` in a part that gives back the given answer when it is silenced.
    quiet: fn(&str) -> String,
    /// The source of a part, and its silent answer.
    part: fn(HookPoint) -> (&'static str, &'static str),
}

impl Pieces {
    fn joined(&self, wanted: &Wanted, comment: &str) -> String {
        let names: Vec<_> = wanted.points.iter().map(|point| format!("`{}`", point.name())).collect();
        let grants: Vec<_> = wanted.grants().into_iter().map(|grant| format!("`{grant}`")).collect();
        let grants = if grants.is_empty() { "none".to_owned() } else { grants.join(", ") };
        let mut text = format!(
            "{comment} `{}`: say here what it does, and when it stays silent.\n{comment}\n{comment} Exports: {}.\n{comment} Grants: {grants}.\n\n{}",
            wanted.name,
            names.join(", "),
            self.uses
        );
        if wanted.settings_schema {
            text += self.settings;
        }
        for point in &wanted.points {
            let (part, silent) = (self.part)(*point);
            let quiet = if wanted.settings_schema { (self.quiet)(silent) } else { String::new() };
            text += &part.replace("QUIET", &quiet);
        }
        text
    }
}
