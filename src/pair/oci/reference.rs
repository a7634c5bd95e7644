//! Where does a pair lie? A registry, a repository and a tag; or a folder.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;
use tandem_host::store::Digest;

use super::error::OciError;
use super::registry::is_local;

/// A place and the name of a pair in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub place: Place,
    /// `latest` where the user gave neither tag nor digest.
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

/// Where artefacts lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Layout(PathBuf),
    Registry { host: String, repository: String },
}

impl FromStr for Reference {
    type Err = OciError;

    fn from_str(text: &str) -> Result<Self, OciError> {
        let bad = |reason| OciError::Reference { text: text.to_owned(), reason };
        let (rest, digest) = match text.rsplit_once('@') {
            Some((rest, digest)) => {
                (rest, Some(digest.parse().map_err(|_| bad("what stands after `@` is no sha256 digest"))?))
            }
            None => (text, None),
        };
        // `oci://HOST` is a registry, as others write it.
        let layout = rest.strip_prefix("oci:").filter(|rest| !rest.starts_with("//"));
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') && name != "oci" => (name, Some(tag.to_owned())),
            _ => (rest, None),
        };
        if tag.as_deref().is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("the tag has characters that a tag cannot have"));
        }
        let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_owned()));
        if layout.is_some() {
            let dir = name.strip_prefix("oci:").unwrap_or(name);
            if dir.is_empty() {
                return Err(bad("the folder is missing"));
            }
            return Ok(Self { place: Place::Layout(dir.into()), tag, digest });
        }
        let name =
            ["docker://", "oci://"].iter().find_map(|scheme| name.strip_prefix(scheme)).unwrap_or(name);
        let (host, repository) = name.split_once('/').ok_or_else(|| bad("the registry's host is missing"))?;
        if !(host.contains(['.', ':']) || host == "localhost") || !is_host(host) {
            return Err(bad("what stands first is no host"));
        }
        if !is_repository(repository) {
            return Err(bad("the repository has characters that it cannot have; it is in lower case"));
        }
        let host = normal_host(host).ok_or_else(|| bad("what stands first is no host"))?;
        let place = Place::Registry { host, repository: repository.to_owned() };
        Ok(Self { place, tag, digest })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(dir) => write!(f, "oci:{}", dir.display()),
            Self::Registry { host, repository } => write!(f, "{host}/{repository}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Letters, digits, `_`, `.` and `-`, at most 128, by the OCI Distribution Specification 1.1.
fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    bytes.next().is_some_and(word)
        && bytes.all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
        && tag.len() <= 128
}

/// The names of Docker's hub. The first is the one that is written here.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Where a host answers: Docker's hub does not do so where it is called by.
pub fn address_of(host: &str) -> &str {
    if host == HUB[0] { HUB[2] } else { host }
}

/// Under which names programs keep what belongs to a host, the usual one first.
pub fn names_of(host: &str) -> Vec<&str> {
    if host == HUB[0] { [HUB[1], HUB[0], HUB[2]].to_vec() } else { vec![host] }
}

/// The one way in which a host is written here: as an address has it, without a dot at its end and
/// without the port that is asked anyway, and Docker's hub under one name. Rules of a policy compare hosts
/// as text.
pub fn normal_host(host: &str) -> Option<String> {
    let parsed = |scheme: &str| Url::parse(&format!("{scheme}://{host}/")).ok();
    let url = parsed("https")?;
    let name = url.host_str()?;
    let name = name.strip_suffix('.').unwrap_or(name);
    let port = if is_local(name) { parsed("http")?.port() } else { url.port() };
    match port {
        _ if name.is_empty() || name.ends_with('.') => None,
        None if HUB.contains(&name) => Some(HUB[0].to_owned()),
        Some(port) => Some(format!("{name}:{port}")),
        None if name.contains(['.', ':']) || name == "localhost" => Some(name.to_owned()),
        // A name without a dot is a host only with its port.
        None => Some(format!("{name}:443")),
    }
}

fn is_host(host: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    !host.is_empty() && host.bytes().all(good)
}

/// Words in lower case, joined by `.`, `_`, `__`, `-` and `/`, by the same specification.
fn is_repository(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = |part: &str| {
        part.bytes().next().is_some_and(word)
            && part.bytes().last().is_some_and(word)
            && part.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'_' | b'-'))
            && !part.contains("..")
    };
    name.len() <= 255 && name.split('/').all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let told = match text.parse::<Reference>() {
            Ok(reference) => {
                format!("{:?} {:?} {}", reference.tag, reference.digest.is_some(), reference.place)
            }
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn places_are_told_apart() {
        check("registry.example.com/team/agent:1.0", "Some(\"1.0\") false registry.example.com/team/agent");
        check("localhost:5000/a", "Some(\"latest\") false localhost:5000/a");
        check("docker://localhost/a_b/c-d:x", "Some(\"x\") false localhost/a_b/c-d");
        check("oci:/tmp/x y:1", "Some(\"1\") false oci:/tmp/x y");
        check("oci:dir", "Some(\"latest\") false oci:dir");
        check("oci://[::1]:5000/a:t", "Some(\"t\") false [::1]:5000/a");
        check("Registry.Example.com:443/a:1", "Some(\"1\") false registry.example.com/a");
        check("registry.example.com./a:1", "Some(\"1\") false registry.example.com/a");
        check("registry:443/a:1", "Some(\"1\") false registry:443/a");
        check("localhost:443/a:1", "Some(\"1\") false localhost:443/a");
        for hub in
            ["docker.io", "index.docker.io", "registry-1.docker.io", "Index.Docker.io.", "DOCKER.IO:443"]
        {
            check(&format!("{hub}/team/agent:1"), "Some(\"1\") false docker.io/team/agent");
        }
        // Other ports and longer names are other hosts.
        check("docker.io:5000/a:1", "Some(\"1\") false docker.io:5000/a");
        check("x.docker.io/a:1", "Some(\"1\") false x.docker.io/a");
        let digest = format!("sha256:{}", "a".repeat(64));
        check(&format!("h.io/a@{digest}"), "None true h.io/a");
        check(&format!("h.io/a:t@{digest}"), "Some(\"t\") true h.io/a");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let refused =
            |text: &str, reason: &str| check(text, &format!("`{text}` names no place for a pair: {reason}"));
        refused("agent:1", "the registry's host is missing");
        refused("agent/x:1", "what stands first is no host");
        refused("h.io/Agent", "the repository has characters that it cannot have; it is in lower case");
        refused("h.io/../x", "the repository has characters that it cannot have; it is in lower case");
        refused("h.io/a?x=/b", "the repository has characters that it cannot have; it is in lower case");
        refused("h.io/a:t g", "the tag has characters that a tag cannot have");
        refused("h.io/a@sha256:12", "what stands after `@` is no sha256 digest");
        refused("oci:", "the folder is missing");
    }
}
