//! How does a command reach the few hosts that it may reach, and no other?
//!
//! A sandbox has no network but its own loopback. The host answers an HTTP proxy
//! on a Unix socket that is mounted into the sandbox; a small relay inside listens
//! on [`PORT`] for programs that speak to proxies by TCP. It knows names and
//! ports, not what is said: an allowed host may pass anything on. Programs that
//! use no proxy reach nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::command::Mount;
use super::config::NetworkConfig;
use super::error::Error;

/// Where commands find the proxy by TCP.
const PORT: u16 = 3128;
/// Where the socket and the relay lie for commands.
const INSIDE: &str = "/run/proxy";
/// Bytes of a request that are read before it is refused.
const REQUEST_BYTES: usize = 16 << 10;
/// Connections of one workspace at once.
const CONNECTIONS: usize = 64;
/// Time for a request to come and a host to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy of one workspace. Dropping it ends it and all its connections.
#[derive(Debug)]
pub(super) struct Proxy {
    folder: PathBuf,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy with its socket in a new folder; none when nothing is allowed.
    pub(super) fn start(folder: PathBuf, network: &NetworkConfig) -> Result<Option<Self>, Error> {
        if network.allow.is_empty() {
            return Ok(None);
        }
        let allowed = Arc::new(Allowed::read(network)?);
        let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
        let socket = folder.join("socket");
        let make = || -> io::Result<UnixListener> {
            std::fs::create_dir(&folder)?;
            open(&folder, 0o755)?;
            let relay = folder.join("relay.py");
            std::fs::write(&relay, include_str!("relay.py"))?;
            open(&relay, 0o644)?;
            let listener = UnixListener::bind(&socket)?;
            open(&socket, 0o666)?;
            Ok(listener)
        };
        let listener = make().map_err(Error::io("making a proxy in", &folder))?;
        let task = tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            // Its connections end with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (allowed, places) = (allowed.clone(), places.clone());
                while connections.try_join_next().is_some() {}
                connections.spawn(async move {
                    if let Ok(_place) = places.acquire().await {
                        let _ = serve(client, &allowed).await;
                    }
                });
            }
        });
        Ok(Some(Self { folder, task }))
    }

    /// What commands see of it.
    pub(super) fn mount(&self) -> Mount {
        Mount::read_only(&self.folder, INSIDE)
    }

    /// What the shell runs before a command: the relay, which returns when it listens.
    pub(super) fn relay(&self) -> String {
        format!(
            "/usr/bin/python3 -I -S {INSIDE}/relay.py {INSIDE}/socket {PORT} </dev/null >/dev/null 2>&1; "
        )
    }

    /// Variables that tell programs of it.
    pub(super) fn env(&self) -> impl Iterator<Item = (&'static str, String)> {
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]
            .into_iter()
            .map(|name| (name, format!("http://127.0.0.1:{PORT}")))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Names and ports that may be reached.
#[derive(Debug, PartialEq, Eq)]
struct Allowed(Vec<(String, u16)>);

impl Allowed {
    fn read(network: &NetworkConfig) -> Result<Self, Error> {
        let mut read = Vec::new();
        for entry in &network.allow {
            let parts = split_port(entry).filter(|(name, _)| {
                let name = name.strip_prefix("*.").unwrap_or(name);
                !name.is_empty() && !name.contains(['*', '/', '@', ' '])
            });
            let Some((name, port)) = parts else {
                return Err(Error::BadAllowed { entry: entry.clone() });
            };
            read.push((name.to_ascii_lowercase(), port));
        }
        Ok(Self(read))
    }

    fn holds(&self, name: &str, port: u16) -> bool {
        let name = name.to_ascii_lowercase();
        self.0.iter().any(|(allowed, at)| {
            *at == port
                && match allowed.strip_prefix("*.") {
                    Some(domain) => name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
                    None => *allowed == name,
                }
        })
    }
}

/// What a client wants: a tunnel, or one request carried on.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    name: String,
    port: u16,
    /// Bytes to send on: none for a tunnel.
    first: Vec<u8>,
    tunnel: bool,
}

async fn serve(mut client: UnixStream, allowed: &Allowed) -> io::Result<()> {
    let asked = tokio::time::timeout(PATIENCE, read_request(&mut client)).await;
    let refuse = async |mut client: UnixStream, status: &str, why: &str| {
        let text = format!("{why}\n");
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
        client.write_all(head.as_bytes()).await?;
        client.write_all(text.as_bytes()).await
    };
    let Ok(Ok(Some(request))) = asked else {
        return refuse(client, "400 Bad Request", "this proxy knows CONNECT and absolute http:// addresses")
            .await;
    };
    let Request { name, port, first, tunnel } = request;
    if !allowed.holds(&name, port) {
        tracing::info!("a command asked for {name}:{port}, which is not among the allowed hosts");
        let why = format!("{name}:{port} is not among the hosts that this workspace may reach");
        return refuse(client, "403 Forbidden", &why).await;
    }
    let Ok(Ok(mut server)) = tokio::time::timeout(PATIENCE, connect(&name, port)).await else {
        return refuse(client, "502 Bad Gateway", &format!("{name}:{port} cannot be reached")).await;
    };
    if tunnel {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    }
    server.write_all(&first).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// Connects to a name that is allowed. A name that leads to this machine or a
/// private network is not what was allowed, unless it is an address itself.
async fn connect(name: &str, port: u16) -> io::Result<TcpStream> {
    if let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return TcpStream::connect((address, port)).await;
    }
    let found: Vec<SocketAddr> = tokio::net::lookup_host((name, port)).await?.collect();
    let public: Vec<_> = found.into_iter().filter(|address| is_public(address.ip())).collect();
    match public.is_empty() {
        true => Err(io::ErrorKind::AddrNotAvailable.into()),
        false => TcpStream::connect(public.as_slice()).await,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || first == 0
                || v4.is_multicast()
                || v4.is_broadcast()
                || (first == 100 && second & 0xc0 == 64))
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(v4.into()),
            None => {
                let first = v6.segments()[0];
                // All of ::/16 is loopback, unspecified, or a form of an address of version 4.
                !(v6.is_multicast() || first == 0 || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80)
            }
        },
    }
}

async fn read_request(client: &mut UnixStream) -> io::Result<Option<Request>> {
    let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = client.read(&mut chunk).await?;
        read.extend_from_slice(&chunk[..count]);
        if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
            return Ok(parse_request(&read, end + 4));
        }
        if count == 0 || read.len() > REQUEST_BYTES {
            return Ok(None);
        }
    }
}

/// Reads a request whose head ends at `end`.
fn parse_request(bytes: &[u8], end: usize) -> Option<Request> {
    let line_end = memchr::memmem::find(bytes, b"\r\n")?;
    let line = std::str::from_utf8(&bytes[..line_end]).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    if method == "CONNECT" {
        let (name, port) = split_port(target)?;
        return Some(Request { name: name.to_owned(), port, first: bytes[end..].to_vec(), tunnel: true });
    }
    let rest = target.strip_prefix("http://")?;
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (name, port) = split_port(place).unwrap_or((place, 80));
    if name.contains('@') {
        return None;
    }
    let path = if path.is_empty() { "/" } else { path };
    // One request on a connection: the next could name another host.
    let mut first = format!("{method} {path} {version}\r\nConnection: close\r\n").into_bytes();
    for header in bytes[line_end + 2..end - 2].split_inclusive(|byte| *byte == b'\n') {
        let name = header.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        if name != b"connection" && !name.starts_with(b"proxy-") {
            first.extend_from_slice(header);
        }
    }
    first.extend_from_slice(b"\r\n");
    first.extend_from_slice(&bytes[end..]);
    Some(Request { name: name.to_owned(), port, first, tunnel: false })
}

fn split_port(text: &str) -> Option<(&str, u16)> {
    let (name, port) = text.rsplit_once(':')?;
    Some((name, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(entries: &[&str]) -> Result<Allowed, Error> {
        Allowed::read(&NetworkConfig { allow: entries.iter().map(|entry| (*entry).to_owned()).collect() })
    }

    #[test]
    fn only_the_named_hosts_are_allowed() {
        let list = allowed(&["Example.org:443", "*.data.test:80"]).unwrap();
        let check = |name: &str, port: u16, expected: bool| {
            assert_eq!(list.holds(name, port), expected, "{name}:{port}");
        };
        check("example.org", 443, true);
        check("EXAMPLE.org", 443, true);
        check("example.org", 80, false);
        check("a.example.org", 443, false);
        check("example.org.evil.test", 443, false);
        check("a.data.test", 80, true);
        check("a.b.data.test", 80, true);
        check("data.test", 80, false);
        check("evildata.test", 80, false);
        for bad in ["example.org", "*:443", "", ":443", "a/b:80", "x*.y:80", "user@host:80", "host:99999"] {
            assert!(allowed(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_leads_inside_is_no_public_address() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_public(text.parse().unwrap()), expected, "{text}");
        };
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::",
        ] {
            check(inside, false);
        }
        check("93.184.216.34", true);
        check("2606:2800:220:1::1", true);
    }

    #[test]
    fn requests_are_read_strictly() {
        let check = |text: &str, expected: Option<(&str, u16, &str, bool)>| {
            let end = text.find("\r\n\r\n").unwrap() + 4;
            let read = parse_request(text.as_bytes(), end);
            let read = read.map(|it| (it.name, it.port, String::from_utf8(it.first).unwrap(), it.tunnel));
            let expected =
                expected.map(|(name, port, first, tunnel)| (name.to_owned(), port, first.to_owned(), tunnel));
            assert_eq!(read, expected, "{text}");
        };
        check("CONNECT a.test:443 HTTP/1.1\r\nHost: b\r\n\r\nrest", Some(("a.test", 443, "rest", true)));
        check(
            "GET http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\r\n",
            Some(("a.test", 80, "GET /x?y HTTP/1.1\r\nConnection: close\r\nHost: a.test\r\n\r\n", false)),
        );
        check(
            "GET http://a.test:81 HTTP/1.1\r\n\r\n",
            Some(("a.test", 81, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", false)),
        );
        check("GET /x HTTP/1.1\r\n\r\n", None);
        check("GET http://user@a.test/ HTTP/1.1\r\n\r\n", None);
        check("CONNECT a.test HTTP/1.1\r\n\r\n", None);
        check("nonsense\r\n\r\n", None);
    }
}
