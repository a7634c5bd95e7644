//! The rules of grading, a case each. Equality with the official package over whole
//! logs is the test `host/tests/swebench`.

use super::*;

fn expected(fail_to_pass: &[&str], pass_to_pass: &[&str]) -> Expected {
    let owned = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
    Expected { fail_to_pass: owned(fail_to_pass), pass_to_pass: owned(pass_to_pass) }
}

fn log(body: &str) -> String {
    format!("+ : '>>>>> Start Test Output'\n{body}\n+ : '>>>>> End Test Output'\n")
}

/// Grades with the parser of pytest.
fn check(log: &str, expected: &Expected, resolution: Resolution) {
    let graded = evaluate(log, "parse_log_pytest", &ParseContext::default(), expected, EvalType::PassAndFail);
    assert_eq!(graded.unwrap().resolution(), resolution, "{log}");
}

#[test]
fn every_expected_test_must_succeed() {
    let both = expected(&["a", "b"], &["c"]);
    check(&log("PASSED a\nPASSED b\nPASSED c"), &both, Resolution::Full);
    check(&log("PASSED a\nXFAIL b\nSKIPPED c"), &both, Resolution::Full);
    check(&log("PASSED a\nSKIPPED b\nPASSED c"), &both, Resolution::Partial);
    check(&log("PASSED a\nFAILED b - x\nPASSED c"), &both, Resolution::Partial);
    check(&log("PASSED a\nPASSED b\nERROR c"), &both, Resolution::No);
    check(&log("PASSED a\nPASSED b"), &both, Resolution::No);
    check(&log("FAILED a\nFAILED b\nPASSED c"), &both, Resolution::No);
}

#[test]
fn a_truncated_name_needs_tests_that_agree() {
    let cut = expected(&["t[log(photon"], &[]);
    check(&log("PASSED t[log(photon-1]\nXFAIL t[log(photon-2]"), &cut, Resolution::Full);
    check(&log("PASSED t[log(photon-1]\nFAILED t[log(photon-2]"), &cut, Resolution::No);
    check(&log("PASSED t[x]"), &cut, Resolution::No);
    // A whole name is answered by that name alone.
    check(&log("PASSED t[log(photon]x"), &expected(&["t[log(photon]"], &[]), Resolution::No);
}

#[test]
fn a_skipped_test_that_a_truncated_name_begins_is_no_regression() {
    let cut = expected(&[], &["t[a"]);
    check(&log("SKIPPED t[a1]\nFAILED t[a2]"), &cut, Resolution::Full);
    check(&log("FAILED t[a1]\nSKIPPED t[a2]"), &cut, Resolution::No);
}

#[test]
fn a_log_that_is_not_of_a_whole_run_is_not_graded() {
    let check = |log: &str, cause: NotGraded| {
        let graded = evaluate(
            log,
            "parse_log_pytest",
            &ParseContext::default(),
            &expected(&["a"], &[]),
            EvalType::FailOnly,
        );
        match graded.unwrap() {
            Evaluation::NotGraded { cause: found, .. } => assert_eq!(found, cause, "{log}"),
            graded => panic!("{log}: {graded:?}"),
        }
    };
    check("", NotGraded::NoMarkers);
    check("PASSED a\n>>>>> End Test Output", NotGraded::NoMarkers);
    check(&log("PASSED a\n>>>>> Tests Timed Out"), NotGraded::TestsTimedOut);
    check(&log("bash: no such program"), NotGraded::NothingRan);
    check(&log("Executed 0 of 0"), NotGraded::NothingRan);
    check(&format!("{}>>>>> Test Exit Code: 1", log("PASSED a")), NotGraded::ExitCodeDisagrees);
}

#[test]
fn results_outside_of_the_markers_are_read_where_none_are_inside() {
    check(&format!("{}\nPASSED a", log("nothing")), &expected(&["a"], &[]), Resolution::Full);
}

#[test]
fn a_script_records_the_exit_code_after_the_end_marker() {
    expect_test::expect![[r#"
        #!/bin/bash
        set -uxo pipefail
        cd /testbed
        : '>>>>> Start Test Output'
        pytest -rA
        SWEBENCH_TEST_EXIT_CODE=$?
        : '>>>>> End Test Output'
        echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"
        git checkout x
    "#]]
    .assert_eq(&record_exit_code(
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest -rA\n: '>>>>> End Test Output'\ngit checkout x\n",
    ));
}

#[test]
fn a_name_without_a_parser_is_a_fault() {
    let fault = parse("parse_log_fortran", "", &ParseContext::default()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the parser `parse_log_fortran` cannot read the log: there is no parser of this name"
    );
    assert_eq!(parser_names().count(), 57);
}
