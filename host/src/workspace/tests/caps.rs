//! Do the caps of commands hold, and what is a command told that meets one?

use super::*;

async fn limited(change: impl FnOnce(&mut SandboxLimits)) -> Workspace {
    let mut config = WorkspaceConfig::default();
    change(&mut config.sandbox);
    workspace_over(&config, write_files).await
}

#[tokio::test]
async fn memory_of_all_processes_together_is_capped_where_groups_are() {
    let workspace = limited(|limits| limits.memory = 64 << 20).await;
    let hogs = "for i in 1 2 3 4; do python3 -c 'x = bytearray(40 << 20); import time; time.sleep(1); print(len(x))' & done; wait";
    let (code, output) = run(&workspace, hogs).await;
    let finished = output.lines().filter(|line| line.trim() == "41943040").count();
    match workspace.in_force() {
        InForce::CgroupV1 | InForce::CgroupV2 => assert!(finished < 4, "{code:?} {output}"),
        // Each of them is below the cap of a single process.
        _ => assert_eq!(finished, 4, "{output}"),
    }
    // The workspace goes on.
    assert_eq!(run(&workspace, "echo on").await, (Some(0), "on\n".into()));
}

#[tokio::test]
async fn a_fork_bomb_ends_at_the_cap() {
    let workspace = limited(|limits| limits.processes = 60).await;
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.3; echo alive";
    let output = workspace.bash(bomb, Duration::from_secs(3)).await.unwrap();
    assert!(output.exit_code.is_none_or(|code| code != 0) || output.output.bytes().ends_with(b"alive\n"));
    assert_eq!(run(&workspace, "echo on").await, (Some(0), "on\n".into()));
}

#[tokio::test]
async fn processor_time_is_capped() {
    let workspace = limited(|limits| limits.cpu_seconds = Some(1)).await;
    let start = std::time::Instant::now();
    let (code, _) = run(&workspace, "while :; do :; done").await;
    assert!(matches!(code, Some(137 | 152)), "{code:?} after {:?}", start.elapsed());
}

#[tokio::test]
async fn a_share_of_the_processors_is_capped_where_groups_are() {
    let workspace = limited(|limits| limits.cpu_percent = Some(20)).await;
    let busy = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let (_, output) = run(&workspace, &format!("python3 -c '{busy}'")).await;
    let used: f64 = output.trim().parse().unwrap();
    if workspace.in_force() != InForce::ProcessLimits {
        assert!(used < 0.8, "{used} seconds of 1.5 at a fifth of one processor");
    }
}

#[tokio::test]
async fn space_on_the_disk_is_capped_and_both_numbers_are_told() {
    for files in [Files::Copy, Files::Overlay] {
        let mut config = WorkspaceConfig { files, ..WorkspaceConfig::default() };
        config.sandbox.disk_bytes = 8 << 20;
        let workspace = workspace_over(&config, write_files).await;
        let script =
            "for i in $(seq 100); do head -c 1000000 /dev/zero > /tmp/f$i; sleep 0.02; done; echo done";
        let (code, output) = run(&workspace, script).await;
        assert_eq!(code, Some(153), "{output}");
        let told = output.lines().last().unwrap_or_default();
        assert!(
            told.starts_with("[stopped: the workspace takes ") && told.ends_with("and the limit is 8388608]"),
            "{told}"
        );
        // A full workspace can be tidied up: only growth is stopped.
        let (code, output) = run(&workspace, "sleep 0.6; rm /tmp/f*; echo tidy").await;
        assert_eq!((code, output.as_str()), (Some(0), "tidy\n"), "{files:?}");
    }
}

#[tokio::test]
async fn memory_file_systems_are_bounded() {
    let workspace = limited(|_| {}).await;
    let (code, output) = run(&workspace, "head -c 200000000 /dev/zero > /dev/shm/x").await;
    assert_ne!(code, Some(0), "{output}");
}

#[tokio::test]
async fn output_is_bytes_with_head_and_tail() {
    let workspace = limited(|limits| (limits.output_head, limits.output_tail) = (6, 6)).await;
    let output = workspace
        .bash("printf '\\377\\0\\376abc'; head -c 100000 /dev/zero; printf 'xyz\\r\\n\\200'", LONG)
        .await;
    let output = output.unwrap().output;
    assert_eq!(output.total(), 100_012);
    assert_eq!(output.bytes(), b"\xff\0\xfeabc\n[100000 of 100012 bytes not kept]\nxyz\r\n\x80");
}

#[test]
fn the_settings_on_the_page_are_settings() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/workspaces.md")).unwrap();
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let read: WorkspaceConfig = toml::from_str(text).unwrap();
    assert_eq!(read.network.allow.len(), 2);
    let unknown = toml::from_str::<WorkspaceConfig>("[sandbox]\nmemroy = 1\n").unwrap_err();
    assert!(unknown.to_string().contains("unknown field `memroy`"), "{unknown}");
    // Every key that the page's tables name is one.
    let defaults =
        toml::to_string(&WorkspaceConfig { cgroup: Some("/x".into()), ..WorkspaceConfig::default() })
            .unwrap();
    for key in [
        "memory",
        "address_space",
        "processes",
        "file_bytes",
        "disk_bytes",
        "output_head",
        "output_tail",
        "cgroup",
    ] {
        assert!(defaults.contains(&format!("{key} = ")) && page.contains(&format!("`{key}`")), "{key}");
    }
}
