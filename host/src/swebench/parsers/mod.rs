//! Which parser reads a log, by the name that a row of the data set gives?

mod compiled;
mod javascript;
mod javascript_suites;
mod jvm;
mod python;
mod ruby_php;

use super::status::StatusMap;

/// What a parser may look at beside the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseContext<'a> {
    pub instance_id: &'a str,
    pub version: &'a str,
}

/// A log, or an instance, that the official parser raises an exception for. The
/// official evaluator counts such an instance under `error_ids`, not as unresolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parser `{parser}` cannot read the log: {reason}")]
pub struct ParserFault {
    pub parser: String,
    pub reason: String,
}

type Parsed = Result<StatusMap, String>;
type Parser = fn(&str, &ParseContext<'_>) -> Parsed;

/// Every parser of swebench 5.0.2, by name.
const PARSERS: &[(&str, Parser)] = &[
    // Python
    ("parse_log_pytest", python::pytest),
    ("parse_log_pytest_options", python::pytest_options),
    ("parse_log_django", python::django),
    ("parse_log_pytest_v2", python::pytest_v2),
    ("parse_log_seaborn", python::seaborn),
    ("parse_log_sympy", python::sympy),
    ("parse_log_matplotlib", python::matplotlib),
    ("parse_log_astroid", python::pytest),
    ("parse_log_flask", python::pytest),
    ("parse_log_marshmallow", python::pytest),
    ("parse_log_pvlib", python::pytest),
    ("parse_log_pyvista", python::pytest),
    ("parse_log_sqlfluff", python::pytest),
    ("parse_log_xarray", python::pytest),
    ("parse_log_pydicom", python::pytest_options),
    ("parse_log_requests", python::pytest_options),
    ("parse_log_pylint", python::pytest_options),
    ("parse_log_astropy", python::pytest_v2),
    ("parse_log_scikit", python::pytest_v2),
    ("parse_log_sphinx", python::pytest_v2),
    // JavaScript
    ("parse_log_calypso", javascript_suites::calypso),
    ("parse_log_bpmn_js", javascript::bpmn_js),
    ("parse_log_carbon", javascript::pass_fail_lines),
    ("parse_log_eslint", javascript::eslint),
    ("parse_log_grommet", javascript::grommet),
    ("parse_log_highlightjs", javascript_suites::highlightjs),
    ("parse_log_lighthouse", javascript_suites::lighthouse),
    ("parse_log_next", javascript_suites::next),
    ("parse_log_openlayers", javascript::openlayers),
    ("parse_log_prismjs", javascript::prismjs),
    ("parse_log_quarto_cli", javascript::quarto_cli),
    ("parse_log_chart_js", javascript::chart_js),
    ("parse_log_marked", javascript::marked),
    ("parse_log_p5js", javascript_suites::p5js),
    ("parse_log_react_pdf", javascript::pass_fail_lines),
    ("parse_log_jest", javascript::jest),
    ("parse_log_jest_json", javascript::jest_json),
    ("parse_log_vitest", javascript::vitest),
    ("parse_log_karma", javascript_suites::karma),
    ("parse_log_tap", javascript::tap),
    ("parse_log_immutable_js", javascript::immutable_js),
    // C and C++
    ("parse_log_redis", compiled::redis),
    ("parse_log_jq", compiled::jq),
    ("parse_log_doctest", compiled::doctest),
    ("parse_log_micropython_test", compiled::micropython),
    ("parse_log_googletest", compiled::googletest),
    // Go
    ("parse_log_gotest", compiled::gotest),
    // Java
    ("parse_log_maven", jvm::maven),
    ("parse_log_ant", jvm::ant),
    ("parse_log_gradle_custom", jvm::gradle),
    // PHP
    ("parse_log_phpunit", ruby_php::phpunit),
    // Ruby
    ("parse_log_minitest", ruby_php::minitest),
    ("parse_log_cucumber", ruby_php::cucumber),
    ("parse_log_ruby_unit", ruby_php::ruby_unit),
    ("parse_log_rspec_transformed_json", ruby_php::rspec),
    ("parse_log_jekyll", ruby_php::jekyll),
    // Rust
    ("parse_log_cargo", compiled::cargo),
];

/// The names of all parsers of SWE-bench.
pub fn parser_names() -> impl Iterator<Item = &'static str> {
    PARSERS.iter().map(|(name, _)| *name)
}

/// Parsers of other data sets that grade as SWE-bench does.
const RELATIVES: &[(&str, Parser)] = &[("swesmith_python", python::swesmith)];

/// Whether there is a parser of a name.
pub fn has_parser(name: &str) -> bool {
    PARSERS.iter().chain(RELATIVES).any(|(known, _)| *known == name)
}

/// Reads a log with the parser of a name.
///
/// # Errors
/// A name that no parser has, and what the official parser raises an exception for.
pub fn parse(parser: &str, log: &str, context: &ParseContext<'_>) -> Result<StatusMap, ParserFault> {
    let fault = |reason: String| ParserFault { parser: parser.to_owned(), reason };
    let Some((_, read)) = PARSERS.iter().chain(RELATIVES).find(|(name, _)| *name == parser) else {
        return Err(fault("there is no parser of this name".into()));
    };
    read(log, context).map_err(fault)
}
