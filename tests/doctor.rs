//! Does `tandem doctor` find the CPU well, and does it say so?

use std::process::Command;

#[test]
fn the_cpu_is_well() {
    let out =
        Command::new(env!("CARGO_BIN_EXE_tandem")).args(["doctor", "--device", "cpu"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    assert!(text.starts_with("cpu: "), "{text}");
    for name in
        ["matmul 1 × 576 × 960", "attention within a window", "Gemma 3: reading and decoding with a cache"]
    {
        let lines: Vec<_> = text.lines().filter(|line| line.contains(name)).collect();
        assert_eq!(lines.len(), 2, "{name} in f32 and bf16: {text}");
        assert!(lines.iter().all(|line| line.starts_with("ok ")), "{lines:?}");
    }
    assert!(text.trim_end().ends_with("0 off"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_an_error_and_no_verdict() {
    let out =
        Command::new(env!("CARGO_BIN_EXE_tandem")).args(["doctor", "--device", "tpu"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("`tpu` is not a device"));
}
