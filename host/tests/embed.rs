//! Does the example of embedding run as it is shown?

#[allow(dead_code, reason = "its `main` is for people")]
#[path = "../../examples/embed/src/main.rs"]
mod example;

#[test]
fn a_program_runs_a_hook_without_an_async_runtime() {
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("embed");
    let answer = example::run(&cache).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answer, "note: 2 turns are left.");
    let readme = include_str!("../../examples/embed/README.md");
    assert!(readme.contains(&format!("```text\n{answer}\n```")), "the README shows another answer");
}
