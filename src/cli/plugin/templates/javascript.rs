//! What does a new plugin in JavaScript or TypeScript look like?

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tandem_host::plugin::HookPoint;

/// One export, with the same behaviour as in Rust, so that the same cases pass.
struct Part {
    /// The exported name. Its type has the same name with a capital letter.
    name: &'static str,
    /// Names of the module `tandem` that the body uses.
    uses: &'static [&'static str],
    /// A line before the function.
    constant: &'static str,
    parameters: &'static str,
    /// The function's body. `QUIET` stands where a setting may end it.
    body: &'static str,
    /// What stands behind `return` when it does nothing.
    silent: &'static str,
}

/// The source of a plugin that has the cases of `tandem plugin new`.
pub fn source(name: &str, points: &[HookPoint], settings_schema: bool, typed: bool) -> String {
    let parts: Vec<Part> = points.iter().map(|point| part(*point)).collect();
    let mut exports: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let mut grants = Vec::new();
    if points.contains(&HookPoint::Observe) {
        grants.push(("log", "info"));
    }
    if settings_schema {
        exports.insert(0, "settingsSchema");
        grants.push(("settings", "settings"));
    }
    let words: Vec<&str> = grants.iter().map(|(grant, _)| *grant).collect();
    let words = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let mut text = format!(
        "// `{name}`: say here what it does, and when it stays silent.\n//\n// Exports: {}. Grants: {words}.\n\n",
        exports.join(", ")
    );

    let values: BTreeSet<&str> = parts.iter().flat_map(|part| part.uses).copied().collect();
    import(&mut text, "import", values, "tandem");
    if typed {
        let types: Vec<String> = parts.iter().map(|part| type_name(part.name)).collect();
        import(&mut text, "import type", types.iter().map(String::as_str).collect(), "tandem");
    }
    for (grant, function) in &grants {
        import(&mut text, "import", BTreeSet::from([*function]), &format!("tandem/{grant}"));
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    if settings_schema {
        text += SETTINGS;
    }
    let functions: Vec<String> = parts.iter().map(|part| function(part, settings_schema, typed)).collect();
    text + &functions.join("\n")
}

fn import(text: &mut String, word: &str, names: BTreeSet<&str>, module: &str) {
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        _ = writeln!(text, "{word} {{ {} }} from \"{module}\";", names.join(", "));
    }
}

fn type_name(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

fn function(part: &Part, settings_schema: bool, typed: bool) -> String {
    let Part { name, constant, parameters, body, silent, .. } = part;
    let indent = if parameters.is_empty() { "      " } else { "  " };
    let quiet = match (settings_schema, silent.is_empty()) {
        (false, _) => String::new(),
        (true, true) => format!("if (quiet()) return;\n{indent}"),
        (true, false) => format!("if (quiet()) return {silent};\n{indent}"),
    };
    let body = body.replace("QUIET", &quiet);
    match (parameters.is_empty(), typed) {
        (true, false) => format!("{constant}export const {name} = {body};\n"),
        (true, true) => format!("{constant}export const {name}: {} = {body};\n", type_name(name)),
        (false, false) => format!("{constant}export function {name}({parameters}) {{\n  {body}\n}}\n"),
        (false, true) => {
            let kind = type_name(name);
            format!("{constant}export const {name}: {kind} = ({parameters}) => {{\n  {body}\n}};\n")
        }
    }
}

const SETTINGS: &str = r#"export const settingsSchema = {
  type: "object",
  properties: { quiet: { type: "boolean" } },
  additionalProperties: false,
};

/** Whether its entry in the harness manifest silences it. */
const quiet = () => settings().quiet === true;

"#;

fn part(point: HookPoint) -> Part {
    match point {
        HookPoint::Tools => Part {
            name: "tools",
            uses: &["lines", "toolError"],
            constant: "",
            parameters: "",
            body: r#"[
  {
    name: "count_lines",
    description: "Counts the lines of a text.",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    call(_context, { text }) {
      QUIETif (typeof text !== "string") return toolError("Give a `text`.");
      return `${lines(text).length} lines`;
    },
  },
]"#,
            silent: r#"toolError("This tool is switched off.")"#,
        },
        HookPoint::OnEpisodeStart => Part {
            name: "onEpisodeStart",
            uses: &[],
            constant: "",
            parameters: "_context, instruction",
            body: r#"QUIETif (instruction.includes("test")) return "Run the tests before you hand in.";"#,
            silent: "",
        },
        HookPoint::OnModelCall => Part {
            name: "onModelCall",
            uses: &["note"],
            constant: "/** Say it in this turn. */\nconst TURN = 3; // parameter\n\n",
            parameters: "context",
            body: r#"QUIETif (context.turn === TURN) return note("Run the tests.");"#,
            silent: "",
        },
        HookPoint::OnFormatError => Part {
            name: "onFormatError",
            uses: &[],
            constant: "",
            parameters: "_context, error, _output",
            body: r#"QUIETif (error === "several-actions") return "Give one command in one block.";"#,
            silent: "",
        },
        HookPoint::OnToolCall => Part {
            name: "onToolCall",
            uses: &["command", "refuse"],
            constant: "",
            parameters: "_context, call",
            body: r#"QUIETif (!command(call)?.includes("git push")) return;
  return refuse("There is nowhere to push to; hand the change in.");"#,
            silent: "",
        },
        HookPoint::OnToolResult => Part {
            name: "onToolResult",
            uses: &["annotate"],
            constant: "",
            parameters: "_context, _call, outcome",
            body: r#"QUIETif (outcome.exitCode === 127) return annotate("That program is not installed; use another one.");"#,
            silent: "",
        },
        HookPoint::OnLoop => Part {
            name: "onLoop",
            uses: &["note"],
            constant: "",
            parameters: "_context, repetition",
            body: r#"QUIETif (repetition === "same-error") return note("The same error again: read it from its start.");"#,
            silent: "",
        },
        HookPoint::OnSubmit => Part {
            name: "onSubmit",
            uses: &[],
            constant: "",
            parameters: "_context, { patch, deferrals }",
            body: r#"QUIETif (patch.bytes === 0 && deferrals === 0) return "Your patch is empty. Hand in the difference.";"#,
            silent: "",
        },
        HookPoint::OnChoosePatch => Part {
            name: "onChoosePatch",
            uses: &[],
            constant: "",
            parameters: "_context, candidates",
            body: r#"QUIETif (candidates[0]?.applies ?? true) return;
  const other = candidates.findIndex((candidate) => candidate.applies);
  return other < 0 ? undefined : other;"#,
            silent: "",
        },
        HookPoint::OnLimit => Part {
            name: "onLimit",
            uses: &[],
            constant: "",
            parameters: "_context, _limit, workTree",
            body: r#"QUIETreturn workTree.applies && workTree.bytes > 0;"#,
            silent: "false",
        },
        HookPoint::Observe => Part {
            name: "observe",
            uses: &[],
            constant: "",
            parameters: "_context, name, payload",
            body: r#"QUIETif (name === "refused") info(`a call was refused: ${payload}`);"#,
            silent: "",
        },
    }
}
