//! What is asked about a log, and what do we answer?

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tandem_host::swebench::{
    EvalType, Evaluation, Expected, ParseContext, Resolution, StatusMap, Tier, decode_log, evaluate, parse,
    parser_names,
};

use crate::logs::{COPIES, Numbers, all, changed};

/// One question to both.
pub struct Question {
    pub name: String,
    /// Which copy or variant, for people.
    pub what: String,
    pub parser: String,
    instance_id: &'static str,
    version: &'static str,
    log: Vec<u8>,
    grading: Option<(Expected, EvalType)>,
}

impl Question {
    /// As `official.py` reads it.
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "parser": self.parser, "instance_id": self.instance_id, "version": self.version,
        });
        match &self.grading {
            None => value["log"] = String::from_utf8_lossy(&self.log).into(),
            Some((expected, eval_type)) => {
                value["log"] = self.log.iter().map(|byte| char::from(*byte)).collect::<String>().into();
                value["fail_to_pass"] = json!(expected.fail_to_pass);
                value["pass_to_pass"] = json!(expected.pass_to_pass);
                value["eval_type"] = json!(eval_type);
            }
        }
        value
    }
}

/// Instance and version, where a parser asks for them: by the log.
fn context(name: &str, parser: &str) -> (&'static str, &'static str) {
    match parser {
        "parse_log_jekyll" if name.contains("cucumber") => ("jekyll__jekyll-8761", ""),
        "parse_log_jekyll" if name.contains("cargo") => ("jekyll__jekyll-1", ""),
        "parse_log_jekyll" => ("jekyll__jekyll-9141", ""),
        "parse_log_immutable_js" if name.contains("json") => ("immutable-js__immutable-js-2005", ""),
        "parse_log_immutable_js" if name.contains("cargo") => ("immutable-js__immutable-js-1", ""),
        "parse_log_immutable_js" => ("immutable-js__immutable-js-2006", ""),
        "parse_log_lighthouse" if name.contains("mocha") => ("x", "10.0"),
        "parse_log_lighthouse" if name.contains("cargo") => ("x", "many"),
        "parse_log_lighthouse" if name.contains("json") => ("x", "2.4"),
        "parse_log_lighthouse" => ("x", "5.0"),
        "parse_log_next" if name.contains("cypress") => ("x", "1.27"),
        _ => ("x", "1.0"),
    }
}

fn question(name: &str, what: String, parser: &str, log: Vec<u8>) -> Question {
    let (instance_id, version) = context(name, parser);
    let (name, parser) = (name.to_owned(), parser.to_owned());
    Question { name, what, parser, instance_id, version, log, grading: None }
}

/// Every parser about every log as it is.
pub fn maps() -> Vec<Question> {
    let mut questions = Vec::new();
    for (name, log) in all() {
        for parser in parser_names() {
            questions.push(question(&name, "as it is".into(), parser, log.clone().into_bytes()));
        }
    }
    questions
}

fn log(name: &str) -> String {
    let path = crate::logs::here().join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A parser about changed copies of a log.
pub fn mutated(name: &str, parser: &str) -> Vec<Question> {
    let log = log(name);
    let copy = |at| question(name, format!("copy {at}"), parser, changed(name, &log, at).into_bytes());
    (0..COPIES).map(copy).collect()
}

/// Other names of parsers that are asked about under their first name. They are asked
/// about logs as they are, not about changed copies.
pub const ALIASES: [&str; 13] = [
    "parse_log_astroid",
    "parse_log_flask",
    "parse_log_marshmallow",
    "parse_log_pvlib",
    "parse_log_pyvista",
    "parse_log_sqlfluff",
    "parse_log_xarray",
    "parse_log_pydicom",
    "parse_log_requests",
    "parse_log_pylint",
    "parse_log_scikit",
    "parse_log_sphinx",
    "parse_log_react_pdf",
];

/// Gradings of a log: markers, codes and bytes in several states, both kinds of
/// evaluation, and expected tests of which some are missing, some cut.
pub fn graded(name: &str, parser: &str) -> Vec<Question> {
    const START: &str = "+ : '>>>>> Start Test Output'\n";
    const END: &str = "\n+ : '>>>>> End Test Output'\n";
    let log = log(name);
    let (instance_id, version) = context(name, parser);
    let map = parse(parser, &log, &ParseContext { instance_id, version }).unwrap_or_default();
    let mut questions = Vec::new();
    let whole = format!("Cloning…\n{START}{log}{END}");
    let broken = |bytes: &[u8]| {
        let mut log = whole.clone().into_bytes();
        let at = Numbers::new(name, 99).below(log.len());
        log.splice(at..at, bytes.iter().copied());
        log
    };
    let logs: Vec<(&str, Vec<u8>)> = vec![
        ("whole", whole.clone().into_bytes()),
        ("windows", whole.replace('\n', "\r\n").into_bytes()),
        ("outside", format!("{log}{START}nothing{END}").into_bytes()),
        ("no start", format!("{log}{END}").into_bytes()),
        ("no end", format!("{START}{log}").into_bytes()),
        ("end first", format!("{END}{log}{START}{log}").into_bytes()),
        ("twice", format!("{START}{log}{START}{log}{END}").into_bytes()),
        ("exit 0", format!("{whole}>>>>> Test Exit Code: 0\n").into_bytes()),
        ("exit 1", format!("{whole}>>>>> Test Exit Code: 1\n").into_bytes()),
        ("exit -9", format!("{whole}>>>>> Test Exit Code:\n -9\n").into_bytes()),
        ("apply failed", format!(">>>>> Patch Apply Failed\n{whole}").into_bytes()),
        ("timed out", format!("{whole}\n>>>>> Tests Timed Out").into_bytes()),
        ("stopped", format!("{START}{log}\n\nTimeout error: 1800 seconds exceeded.").into_bytes()),
        ("half a character", broken(b"\xe2\x9c")),
        ("no UTF-8", broken(b"\xff\xf0\x9d\x94\xc0\xaf\xed\xa0\x80\n")),
        ("nothing", format!("{START}Killed{END}").into_bytes()),
        ("quiet", format!("{START}Executed 3 of 4{END}").into_bytes()),
    ];
    for (what, log) in logs {
        // Every log once; those that are graded or all but graded in each way.
        let ways = if matches!(what, "whole" | "outside" | "exit 1" | "nothing" | "quiet") { 3 } else { 1 };
        let all =
            [(false, EvalType::PassAndFail), (true, EvalType::PassAndFail), (false, EvalType::FailOnly)];
        for (cut, eval_type) in all.into_iter().take(ways) {
            let mut asked = question(name, format!("{what}, {eval_type:?}, cut {cut}"), parser, log.clone());
            asked.grading = Some((expected(&map, cut), eval_type));
            questions.push(asked);
        }
    }
    questions
}

/// Tests that pass are to be repaired, others to be kept; a few are unknown.
fn expected(map: &StatusMap, cut: bool) -> Expected {
    let mut expected = Expected::default();
    for (at, (name, status)) in map.iter().enumerate() {
        let shown = match name.find('[') {
            Some(open) if cut => name.chars().take(name[..open].chars().count() + 2).collect(),
            _ => name.to_owned(),
        };
        if status.is_pass() && at % 2 == 0 {
            expected.fail_to_pass.push(shown);
        } else if status.is_pass() || at % 3 == 0 {
            expected.pass_to_pass.push(shown);
        }
    }
    if map.len() % 2 == 1 {
        expected.pass_to_pass.push("unknown::test".into());
    }
    expected
}

/// Our answer, in the words of `official.py`.
pub fn ours(question: &Question) -> Value {
    let context = ParseContext { instance_id: question.instance_id, version: question.version };
    let fault = |_| json!({"fault": true});
    let Some((expected, eval_type)) = &question.grading else {
        let log = String::from_utf8_lossy(&question.log);
        return parse(&question.parser, &log, &context).map_or_else(fault, |map| {
            let pairs: Vec<_> = map.iter().map(|(name, status)| [name, status.word()]).collect();
            json!({"map": pairs})
        });
    };
    let log = decode_log(&question.log);
    let evaluation = match evaluate(&log, &question.parser, &context, expected, *eval_type) {
        Ok(evaluation) => evaluation,
        Err(error) => return fault(error),
    };
    let resolution = evaluation.resolution();
    match evaluation {
        Evaluation::Graded { report, .. } => json!({
            "applied": true, "resolved": resolution == Resolution::Full, "reason": null, "infra": false,
            "resolution": resolution,
            "FAIL_TO_PASS": [report.fail_to_pass_success, report.fail_to_pass_failure],
            "PASS_TO_PASS": [report.pass_to_pass_success, report.pass_to_pass_failure],
        }),
        Evaluation::NotGraded { infra, .. } => json!({
            "applied": false, "resolved": false, "reason": infra.map(|infra| infra.reason),
            "infra": infra.is_some_and(|infra| infra.tier == Tier::Environment),
        }),
    }
}

/// The first 16 digits of a SHA-256.
pub fn short(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))[..16].to_owned()
}
