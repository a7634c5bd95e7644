//! Does the doctor find the CPU well, and a wrong result wrong?

use burn::tensor::Device;

use super::*;

#[test]
fn the_cpu_is_well_in_both_formats() {
    let checks = examine(&Device::flex(), "", |_| {});
    let bad: Vec<_> = checks.iter().filter(|check| !check.passed()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(checks.len() > 50);
}

#[test]
fn a_result_that_is_off_or_missing_does_not_pass() {
    let check = |found: &[f32], right: &[f32], passes: bool| {
        let check = Check {
            name: "test".into(),
            compute: ComputeType::F32,
            error: distance(found, right),
            limit: 1e-3,
        };
        assert_eq!(check.passed(), passes, "{check:?}");
    };
    check(&[1.0, 2.0], &[1.0, 2.0], true);
    check(&[1.0, 2.0], &[1.0, 2.0005], true);
    check(&[1.0, 2.0], &[1.0, 2.1], false);
    check(&[1.0, f32::NAN], &[1.0, 2.0], false);
    check(&[1.0], &[1.0, 2.0], false);
}
