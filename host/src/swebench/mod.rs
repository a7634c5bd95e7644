//! What does the log of a SWE-bench evaluation say, and is the instance resolved?
//!
//! The answers are those of the package `swebench` 5.0.2: the same parsers by the
//! same names, the same markers, the same rules for the two lists of tests. What
//! this room deliberately does not do: it runs nothing, and it reads no files and
//! no dataset. Log in, status of each test and resolution out.

mod evaluation;
mod infra;
mod parsers;
mod patch_ladder;
mod report;
mod status;
mod text;

#[cfg(test)]
mod tests;

pub use evaluation::{
    END_TEST_OUTPUT, Evaluation, NotGraded, START_TEST_OUTPUT, decode_log, evaluate, record_exit_code,
};
pub use infra::{Infra, Tier, classify};
pub use parsers::{ParseContext, ParserFault, has_parser, parse, parser_names};
pub use patch_ladder::{APPLY_COMMANDS, RESET_COMMAND, REVERSE_CHECK};
pub use report::{EvalType, Expected, Report, Resolution};
pub use status::{Status, StatusMap};
