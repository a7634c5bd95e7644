//! What does a command reach of the network?

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// Answers each connection with its request line.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let count = client.read(&mut request).unwrap_or(0);
            let line =
                String::from_utf8_lossy(&request[..count]).lines().next().unwrap_or_default().to_owned();
            let text = format!("saw {line}\n");
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
    port
}

/// Fetches with Python, through whatever proxy the environment names.
fn fetch(url: &str) -> String {
    format!(
        "python3 -c 'import urllib.request as r, sys\ntry: print(r.urlopen(\"{url}\", timeout=10).read().decode(), end=\"\")\n\
         except Exception as e: print(\"refused:\", e)'"
    )
}

#[tokio::test]
async fn only_allowed_hosts_are_reached_and_only_through_the_proxy() {
    let (allowed, other) = (server(), server());
    for files in [Files::Copy, Files::Overlay] {
        let network = NetworkConfig { allow: vec![format!("127.0.0.1:{allowed}"), "localhost:1".into()] };
        let config = WorkspaceConfig { network, files, ..WorkspaceConfig::default() };
        let workspace = workspace_over(&config, write_files).await;
        let check = async |script: &str, expected: &str| {
            let output = run(&workspace, script).await.1;
            assert!(output.contains(expected), "{script}: {output}");
        };
        check(&fetch(&format!("http://127.0.0.1:{allowed}/x?y")), "saw GET /x?y HTTP/1.1\n").await;
        check(&fetch(&format!("http://127.0.0.1:{other}/")), "refused: HTTP Error 403").await;
        let tunnel = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT 127.0.0.1:{allowed} HTTP/1.1\\r\\n\\r\\nGET /t HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        check(&tunnel, "saw GET /t HTTP/1.0").await;
        // Without the proxy there is nothing, and a name that leads to this machine is not reached by it.
        check(&format!("(exec 3<>/dev/tcp/127.0.0.1/{allowed}) 2>&1"), "Connection refused").await;
        check(&fetch("http://localhost:1/"), "refused: HTTP Error 502").await;
        // A command of its own exit code and output, with the relay gone after it.
        assert_eq!(run(&workspace, "echo out; exit 7").await, (Some(7), "out\n".into()));
    }
}

#[tokio::test]
async fn a_bad_entry_is_refused_at_the_start() {
    let network = NetworkConfig { allow: vec!["example.org".into()] };
    let config = WorkspaceConfig { network, ..WorkspaceConfig::default() };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let error = Workspace::create(snapshot, &config).await.unwrap_err().to_string();
    assert_eq!(error, "`example.org` is not an allowed host\nhelp: write `name:port` or `*.name:port`");
}
