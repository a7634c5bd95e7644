//! Do the templates pass the cases of `tandem plugin new`?

use tandem_host::cases;
use tandem_host::forge::{Language, Source};
use tandem_host::plugin::{AdmissionOptions, HookPoint};

use super::super::template::Wanted;
use super::super::test::{Tested, test};
use crate::cli::setup;

/// Builds a plugin with every point and runs the cases that Rust's has.
async fn check(language: Language, settings_schema: bool) {
    let points = HookPoint::ALL.to_vec();
    let wanted = Wanted { name: "every-point".into(), points: points.clone(), settings_schema };
    let text = super::source(&wanted, language);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(cases::FILE), wanted.cases()).unwrap();

    // The cache of the user: the libraries of C alone take half a minute.
    let forge = setup::forge().unwrap();
    if forge.tools(language).is_err() {
        forge.install(language).unwrap_or_else(|error| panic!("{error}"));
    }
    let source = Source::File { name: language.file_name("plugin"), text: text.clone() };
    let built = forge.build(&source).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // In this process: the program of a test has no command that compiles.
    let (engine, admission) = (setup::engine().unwrap(), AdmissionOptions::default());
    match test(dir.path(), Some(built.component), &engine, &admission).await.unwrap() {
        Tested::Refused(refusal) => panic!("{}\n{text}", refusal.text()),
        Tested::Ran(ran) => assert_eq!(ran.report.failed(), 0, "{}\n{text}", ran.report),
    }
}

#[tokio::test]
async fn javascript_passes_the_cases_of_rust() {
    check(Language::JavaScript, false).await;
}

#[tokio::test]
async fn typescript_passes_the_cases_of_rust() {
    check(Language::TypeScript, true).await;
}

#[tokio::test]
async fn python_passes_the_cases_of_rust() {
    check(Language::Python, true).await;
}

#[tokio::test]
async fn c_passes_the_cases_of_rust() {
    check(Language::C, true).await;
}

#[tokio::test]
async fn cpp_passes_the_cases_of_rust() {
    check(Language::Cpp, true).await;
}

#[tokio::test]
async fn zig_passes_the_cases_of_rust() {
    check(Language::Zig, true).await;
}

#[tokio::test]
async fn go_passes_the_cases_of_rust() {
    check(Language::Go, true).await;
}
