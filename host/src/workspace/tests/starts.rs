//! How soon is a workspace there? Prints figures for `docs/workspaces.md`; asserts
//! what does not depend on the load of the machine.

use std::time::Instant;

use super::*;

/// A repository of `files` files and about `megabytes` MB.
fn big(folder: &Path, files: usize, megabytes: usize) {
    let size = megabytes * 1_000_000 / files;
    for at in 0..files {
        let inner = folder.join(format!("package{}/part{}", at % 40, at % 7));
        fs::create_dir_all(&inner).unwrap();
        let mut bytes = format!("# file {at}\n").into_bytes();
        // Bytes that do not compress, as in a repository with assets.
        let mut state = at as u64 + 1;
        while bytes.len() < size {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        fs::write(inner.join(format!("file{at}.dat")), bytes).unwrap();
    }
}

async fn measure(files: Files, count: usize, megabytes: usize, times: usize) {
    let (_root, config) = own_root();
    let config = WorkspaceConfig { files, ..config };
    let folder = tempfile::tempdir().unwrap();
    big(folder.path(), count, megabytes);
    let start = Instant::now();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let taken = start.elapsed();
    let (mut starts, mut commands, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    let mut points = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        let workspace = Workspace::create(snapshot.clone(), &config).await.unwrap();
        starts.push(start.elapsed());
        assert_eq!(workspace.is_overlay(), files != Files::Copy);
        let start = Instant::now();
        assert_eq!(run(&workspace, "echo more >> package0/part0/file0.dat").await.0, Some(0));
        commands.push(start.elapsed());
        let start = Instant::now();
        assert_eq!(workspace.extract().await.unwrap().work_tree.changed, ["package0/part0/file0.dat"]);
        patches.push(start.elapsed());
        let start = Instant::now();
        workspace.checkpoint().await.unwrap();
        points.push(start.elapsed());
    }
    for times in [&mut starts, &mut commands, &mut patches, &mut points] {
        times.sort();
    }
    println!(
        "{files:?}, {count} files, {megabytes} MB: snapshot once {taken:.1?}; start median {:.1?}, best {:.1?}; command {:.1?}; patch {:.1?}; checkpoint {:.1?}",
        starts[times / 2],
        starts[0],
        commands[times / 2],
        patches[times / 2],
        points[times / 2]
    );
}

#[tokio::test]
async fn a_large_repository_is_not_copied() {
    measure(Files::Auto, 400, 8, 3).await;
}

#[tokio::test]
async fn a_workspace_goes_on_from_a_checkpoint_of_any_turn() {
    for files in [Files::Copy, Files::Overlay] {
        let config = WorkspaceConfig { files, ..WorkspaceConfig::default() };
        let workspace = workspace_over(&config, write_files).await;
        run(&workspace, "rm -r app; mkdir app; echo 1 > app/one; echo t > /tmp/t; echo h > ~/h; git add -A; chmod +x run.sh").await;
        let first = workspace.checkpoint().await.unwrap();
        run(&workspace, "rm -r app crlf.txt; ln -s x app; echo 2 > two; rm /tmp/t; git commit -qm later")
            .await;
        let before = (contents(workspace.host_tree()), workspace.extract().await.unwrap());
        let second = workspace.checkpoint().await.unwrap();
        drop(workspace);

        let again = Workspace::resume(&first, &config, Vec::new()).await.unwrap();
        let script =
            "cat app/one /tmp/t ~/h; ls -A; git log --oneline | wc -l; git diff --cached --stat | tail -1";
        let expected = "1\nt\nh\n.git\n.gitattributes\napp\ncrlf.txt\ndata.bin\nlatin.txt\nno_newline.txt\nrun.sh\n1\n 3 files changed, 1 insertion(+), 3 deletions(-)\n";
        assert_eq!(run(&again, script).await, (Some(0), expected.into()), "{files:?}");
        // A second branch from the same point, and a checkpoint of a workspace that went on from one.
        run(&again, "echo 3 > app/three; rm app/one").await;
        let third = again.checkpoint().await.unwrap();
        drop(again);
        let third = Workspace::resume(&third, &config, Vec::new()).await.unwrap();
        assert_eq!(run(&third, "ls app").await.1, "three\n", "{files:?}");
        assert_eq!(
            run(&Workspace::resume(&first, &config, Vec::new()).await.unwrap(), "ls app").await.1,
            "one\n"
        );

        let later = Workspace::resume(&second, &config, Vec::new()).await.unwrap();
        assert_eq!((contents(later.host_tree()), later.extract().await.unwrap()), before, "{files:?}");
    }
}

/// `cargo test --workspace --lib -- --ignored --nocapture workspace::tests::starts`
#[tokio::test]
#[ignore = "a measurement: writes a repository of 200 MB"]
async fn start_of_a_200_mb_repository() {
    measure(Files::Auto, 4_000, 200, 15).await;
    measure(Files::Copy, 4_000, 200, 5).await;
}
