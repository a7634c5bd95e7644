//! How does a core module that speaks WASI 0.1 become a component of WASI 0.2?

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::componentize::{WASI, broken};
use super::error::ForgeError;

/// The module that such imports name.
pub(super) const MODULE: &str = "wasi_snapshot_preview1";

/// `wasi/preview1.wat`, assembled.
pub(super) const ADAPTER: &[u8] = include_bytes!("wasi/preview1.wasm");

/// What the adapter imports. Only what the module really reaches comes into the component.
const WORLD: &str = "
package tandem:preview1;

world adapter {
  import wasi:cli/stdout@0.2.0;
  import wasi:cli/stderr@0.2.0;
  import wasi:cli/exit@0.2.0;
  import wasi:clocks/monotonic-clock@0.2.0;
  import wasi:clocks/wall-clock@0.2.0;
  import wasi:random/random@0.2.0;
}
";

/// The adapter with the types of its imports, as the encoder takes it.
pub(super) fn adapter() -> Result<Vec<u8>, ForgeError> {
    let mut resolve = Resolve::default();
    for (name, text) in WASI {
        resolve.push_source(&format!("{name}.wit"), text).map_err(broken)?;
    }
    let package = resolve.push_source("adapter.wit", WORLD).map_err(broken)?;
    let world = resolve.select_world(&[package], None).map_err(broken)?;
    let mut bytes = ADAPTER.to_vec();
    embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).map_err(broken)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use expect_test::{Expect, expect};
    use serde_json::{Map, json};

    use super::*;
    use crate::forge::componentize;
    use crate::plugin::{
        AdmissionOptions, Engine, HookPoint, NoWorkspace, PluginLimits, RunPoint, check, run_point,
    };

    #[test]
    fn the_assembled_adapter_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/forge/wasi/preview1");
        let mut module = wasm_encoder::Module::new();
        let assembled = wat::parse_file(format!("{path}.wat")).unwrap();
        for payload in wasmparser::Parser::new(0).parse_all(&assembled) {
            let payload = payload.unwrap();
            let named = matches!(&payload, wasmparser::Payload::CustomSection(_));
            if let Some((id, range)) = payload.as_section().filter(|_| !named) {
                module.section(&wasm_encoder::RawSection { id, data: &assembled[range] });
            }
        }
        let assembled = module.finish();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(format!("{path}.wasm"), &assembled).unwrap();
        }
        assert!(assembled == ADAPTER, "preview1.wat changed: run this test with UPDATE_EXPECT=1");
    }

    /// Imports of the functions under test, by name.
    const IMPORTS: [(&str, &str); 9] = [
        ("fd_write", "(param i32 i32 i32 i32) (result i32)"),
        ("clock_time_get", "(param i32 i64 i32) (result i32)"),
        ("random_get", "(param i32 i32) (result i32)"),
        ("poll_oneoff", "(param i32 i32 i32 i32) (result i32)"),
        ("proc_exit", "(param i32)"),
        ("fd_prestat_get", "(param i32 i32) (result i32)"),
        ("environ_sizes_get", "(param i32 i32) (result i32)"),
        ("fd_read", "(param i32 i32 i32 i32) (result i32)"),
        ("tandem_may_leave", "(param i32)"),
    ];

    /// A core module whose hook on model calls runs `body`, with the imports that `body` calls.
    /// The hook answers a note with the `$length` bytes at `$at`, or nothing when that is 0.
    fn core(body: &str) -> Vec<u8> {
        let imports: String = IMPORTS
            .iter()
            .filter(|(name, _)| body.contains(&format!("${name} ")))
            .map(|(name, ty)| format!("(import \"{MODULE}\" \"{name}\" (func ${name} {ty}))\n"))
            .collect();
        wat::parse_str(format!(
            r#"(module {imports}
            (memory (export "memory") 1)
            (data (i32.const 16) "sixteen bytes...")
            (data (i32.const 1024) "\00\08\00\00\06\00\00\00\10\08\00\00\05\00\00\00")
            (data (i32.const 2048) "first\n")
            (data (i32.const 2064) "last\n")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
            (func $show (param $at i32) (param $length i32) (result i32)
                (i32.store (i32.const 512) (i32.const 1))
                (i32.store (i32.const 516) (i32.const 0))
                (i32.store (i32.const 520) (local.get $at))
                (i32.store (i32.const 524) (local.get $length))
                (i32.const 512))
            (func (export "tandem:harness/on-model-call@0.1.0#on-model-call")
                (param i32 i64 i32 i64 i64 i32 i64 i64 i32 i64) (result i32)
                {body}))"#
        ))
        .unwrap()
    }

    fn engine() -> &'static Engine {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
    }

    /// What the hook answers in turn 100; before that, in the trial calls of admission, it is silent.
    async fn answer(body: &str) -> String {
        let body =
            format!("(if (i32.lt_u (local.get 0) (i32.const 100)) (then (return (i32.const 8)))) {body}");
        let made = componentize(&core(&body)).unwrap_or_else(|error| panic!("{error}"));
        let (workspace, settings) = (Arc::new(NoWorkspace), Map::new());
        let how = RunPoint { grants: None, settings, seed: 7, workspace };
        let input = json!({"context": {"turn": 100, "now_ms": 5000}});
        let options = AdmissionOptions::default();
        match run_point(engine(), &made.component, HookPoint::OnModelCall, &input, how, &options).await {
            Ok(run) => run.output.to_string(),
            Err(error) => {
                let text = error.to_string();
                text.split_once("failed in").map_or(text.clone(), |(_, rest)| rest.to_owned())
            }
        }
    }

    #[tokio::test]
    async fn the_last_words_before_a_trap_are_shown() {
        expect![[r#"
             `on-model-call`: it trapped: wasm `unreachable` instruction executed; it wrote: first
            last
            help: handle every input, an empty workspace and missing files too, and return instead of panicking"#]]
        .assert_eq(
            &answer(
                "(drop (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 2) (i32.const 256)))
                (unreachable)",
            )
            .await,
        );
        let output = "(drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 256)))
            (call $proc_exit (i32.const 3)) (unreachable)";
        expect![[r#"
             `on-model-call`: it exited with code 1; it wrote: first
            help: return from the function; a plugin does not exit"#]]
        .assert_eq(&answer(output).await);
    }

    async fn check_answer(body: &str, expected: Expect) {
        expected.assert_eq(&answer(body).await);
    }

    #[tokio::test]
    async fn what_the_host_writes_leaves_no_trace_in_memory() {
        check_answer(
            "(drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 2) (i32.const 256)))
            (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 256)))
            (call $show (i32.const 16) (i32.const 16))",
            expect![[r#"{"note":"sixteen bytes..."}"#]],
        )
        .await;
    }

    /// A body that answers "yes" when `condition` holds, and "no" otherwise.
    fn says_whether(before: &str, condition: &str) -> String {
        format!(
            "{before}
            (i32.store (i32.const 768) (if (result i32) {condition} (then (i32.const 0x736579)) (else (i32.const 0x206f6e))))
            (call $show (i32.const 768) (i32.const 3))"
        )
    }

    #[tokio::test]
    async fn a_write_longer_than_the_host_takes_at_once_is_whole() {
        check_answer(
            &says_whether(
                "(i32.store (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (i32.const 65000))
                (drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 256)))",
                "(i32.eq (i32.load (i32.const 256)) (i32.const 65000))",
            ),
            expect![[r#"{"note":"yes"}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn clocks_and_sleep_are_the_virtual_ones() {
        // 2026-01-01 and 5 s, and the looks of this call.
        let wall = "(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 256)))";
        let start = 1_767_225_605_000_000_000_u64;
        let near = format!(
            "(i64.lt_u (i64.sub (i64.load (i32.const 256)) (i64.const {start})) (i64.const 1000000))"
        );
        check_answer(&says_whether(wall, &near), expect![[r#"{"note":"yes"}"#]]).await;

        // A relative subscription to the monotonic clock: 2 s.
        let sleep = "(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 256)))
            (i32.store (i32.const 4112) (i32.const 1)) (i64.store (i32.const 4120) (i64.const 2000000000))
            (drop (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 1) (i32.const 272)))
            (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 264)))";
        let slept = "(i32.and (i32.eq (i32.load (i32.const 272)) (i32.const 1))
            (i64.lt_u (i64.sub (i64.sub (i64.load (i32.const 264)) (i64.load (i32.const 256)))
                (i64.const 2000000000)) (i64.const 1000000)))";
        check_answer(&says_whether(sleep, slept), expect![[r#"{"note":"yes"}"#]]).await;
    }

    #[tokio::test]
    async fn a_stream_is_ready_before_a_time_is_over() {
        // A write to standard error, and a minute.
        let both = "(i64.store (i32.const 4096) (i64.const 77)) (i32.store8 (i32.const 4104) (i32.const 2))
            (i32.store (i32.const 4112) (i32.const 2))
            (i32.store (i32.const 4160) (i32.const 1)) (i64.store (i32.const 4168) (i64.const 60000000000))
            (drop (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 2) (i32.const 272)))";
        let ready = "(i32.and (i32.eq (i32.load (i32.const 272)) (i32.const 1))
            (i64.eq (i64.load (i32.const 8192)) (i64.const 77)))";
        check_answer(&says_whether(both, ready), expect![[r#"{"note":"yes"}"#]]).await;
    }

    #[tokio::test]
    async fn random_bytes_fill_the_room_and_no_more() {
        let fill = "(drop (call $random_get (i32.const 8192) (i32.const 13)))";
        let within = "(i32.and (i64.ne (i64.load (i32.const 8192)) (i64.const 0))
            (i32.and (i32.ne (i32.and (i32.load (i32.const 8200)) (i32.const -1)) (i32.const 0))
            (i32.eqz (i32.and (i32.load (i32.const 8204)) (i32.const 0xffffff00)))))";
        check_answer(&says_whether(fill, within), expect![[r#"{"note":"yes"}"#]]).await;
    }

    #[tokio::test]
    async fn nothing_is_there_but_empty_streams() {
        let look = "(i32.store (i32.const 300) (i32.const 9))
            (drop (call $environ_sizes_get (i32.const 300) (i32.const 304)))
            (i32.store (i32.const 308) (i32.const 9))
            (drop (call $fd_read (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 308)))";
        let empty = "(i32.and (i32.eq (call $fd_prestat_get (i32.const 3) (i32.const 256)) (i32.const 8))
            (i32.eqz (i32.or (i32.load (i32.const 300)) (i32.load (i32.const 308)))))";
        check_answer(&says_whether(look, empty), expect![[r#"{"note":"yes"}"#]]).await;
    }

    /// Go's collector looks at the clock while the host writes an argument; a call of the host
    /// would be a trap there.
    #[tokio::test]
    async fn a_clock_moves_on_while_the_host_may_not_be_called() {
        let looks = "(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 256)))
            (call $tandem_may_leave (i32.const 0))
            (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 264)))
            (drop (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 2) (i32.const 280)))
            (call $tandem_may_leave (i32.const 1))
            (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 272)))";
        let later = "(i32.and (i64.gt_u (i64.load (i32.const 264)) (i64.load (i32.const 256)))
            (i64.ge_u (i64.load (i32.const 272)) (i64.load (i32.const 264))))";
        check_answer(&says_whether(looks, later), expect![[r#"{"note":"yes"}"#]]).await;
    }

    async fn check_imports(body: &str, expected: Expect) {
        let made = componentize(&core(body)).unwrap_or_else(|error| panic!("{error}"));
        let report = check(engine(), &made.component, None, &AdmissionOptions::default()).await.unwrap();
        let mut wasi: Vec<&str> = report.imports.iter().map(String::as_str).collect();
        wasi.retain(|import| import.starts_with("wasi:"));
        wasi.sort_unstable();
        expected.assert_eq(&wasi.join("\n"));
    }

    #[tokio::test]
    async fn only_what_a_module_reaches_is_imported() {
        check_imports("(i32.const 8)", expect![[""]]).await;
        check_imports(
            "(drop (call $fd_prestat_get (i32.const 3) (i32.const 256))) (i32.const 8)",
            expect![[""]],
        )
        .await;
        check_imports(
            "(drop (call $random_get (i32.const 256) (i32.const 3))) (i32.const 8)",
            expect![["wasi:random/random@0.2.0"]],
        )
        .await;
        check_imports(
            "(drop (call $fd_write (i32.const 2) (i32.const 1024) (i32.const 1) (i32.const 256))) (i32.const 8)",
            expect![[r#"
                wasi:cli/stderr@0.2.0
                wasi:cli/stdout@0.2.0
                wasi:io/error@0.2.0
                wasi:io/streams@0.2.0"#]],
        )
        .await;
    }

    #[test]
    fn a_function_that_wasi_0_1_does_not_have_is_refused_by_name() {
        let module = wat::parse_str(format!(
            r#"(module (import "{MODULE}" "fd_teleport" (func)) (func (export "tandem:harness/on-limit@0.1.0#on-limit")))"#
        ))
        .unwrap();
        expect![[r#"
            the plugin imports `fd_teleport` of `wasi_snapshot_preview1`, which is not part of the contract
            help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]]
        .assert_eq(&componentize(&module).unwrap_err().to_string());
    }
}
