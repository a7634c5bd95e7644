//! Who are we to a registry? What the environment says, or Docker's configuration, or Podman's.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use super::error::OciError;
use super::reference::names_of;

/// A name and a secret, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password {
        user: String,
        password: String,
    },
    /// A token that is exchanged for others.
    Identity(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("credentials")
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase", default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

/// The credentials for a host, if there are any.
///
/// # Errors
/// A configuration or a helper that is there and cannot be used.
pub fn find(host: &str) -> Result<Option<Credentials>, OciError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let (Some(user), Some(password)) =
        (variable("TANDEM_REGISTRY_USER"), variable("TANDEM_REGISTRY_PASSWORD"))
    {
        return Ok(Some(Credentials::Password { user, password }));
    }
    for path in files() {
        let Ok(text) = std::fs::read(&path) else { continue };
        let failed = |reason: String| OciError::Credentials { host: host.to_owned(), reason };
        let config: Config = serde_json::from_slice(&text)
            .map_err(|_| failed(format!("{} is no configuration of Docker", path.display())))?;
        if let Some(found) = config.of(host).map_err(failed)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Where credentials may lie, the first that has some for a host wins.
fn files() -> Vec<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let docker = folder("DOCKER_CONFIG").or_else(|| Some(folder("HOME")?.join(".docker")));
    let podman = folder("REGISTRY_AUTH_FILE")
        .or_else(|| Some(folder("XDG_RUNTIME_DIR")?.join("containers/auth.json")));
    docker.map(|folder| folder.join("config.json")).into_iter().chain(podman).collect()
}

impl Config {
    fn of(&self, host: &str) -> Result<Option<Credentials>, String> {
        let names = names_of(host);
        for name in &names {
            if let Some(helper) = self.cred_helpers.get(*name) {
                return helped(helper, name);
            }
        }
        let spelled =
            |name: &&str| [(*name).to_owned(), format!("https://{name}"), format!("https://{name}/v1/")];
        let auth = names.iter().flat_map(spelled).find_map(|name| self.auths.get(&name));
        if let Some(found) = auth.map(Auth::read).transpose()?.flatten() {
            return Ok(Some(found));
        }
        let Some(helper) = &self.creds_store else { return Ok(None) };
        if names.len() > 1 {
            // Docker keeps what belongs to its hub under this address.
            if let Some(found) = helped(helper, &format!("https://{}/v1/", names[0]))? {
                return Ok(Some(found));
            }
        }
        helped(helper, host)
    }
}

impl Auth {
    fn read(&self) -> Result<Option<Credentials>, String> {
        if let Some(token) = self.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::Identity(token.clone())));
        }
        if let (Some(user), Some(password)) = (&self.username, &self.password) {
            return Ok(Some(Credentials::Password { user: user.clone(), password: password.clone() }));
        }
        let Some(auth) = self.auth.as_ref().filter(|auth| !auth.is_empty()) else { return Ok(None) };
        let text = BASE64.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or("what is kept for it is no base64 of a text")?;
        let (user, password) = text.split_once(':').ok_or("what is kept for it has no password")?;
        Ok(Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() }))
    }
}

/// Asks a program of the user's, as Docker does.
fn helped(helper: &str, host: &str) -> Result<Option<Credentials>, String> {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if helper.is_empty() || !helper.bytes().all(named) {
        return Err(format!("`{helper}` is no name of a helper"));
    }
    let program = format!("docker-credential-{helper}");
    let failed = |what: &str| format!("`{program}` {what}");
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| failed("does not start"))?;
    let written = child.stdin.take().map(|mut input| input.write_all(host.as_bytes()));
    let output = child.wait_with_output().map_err(|_| failed("did not end"))?;
    if !output.status.success() || !matches!(written, Some(Ok(()))) {
        // It has nothing for this host.
        return Ok(None);
    }
    let Helped { username, secret } =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("gave no credentials"))?;
    Ok(Some(match username.as_str() {
        "<token>" => Credentials::Identity(secret),
        _ => Credentials::Password { user: username, password: secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, host: &str, expected: &str) {
        let config: Config = serde_json::from_str(config).unwrap();
        let told = match config.of(host) {
            Ok(None) => "none".to_owned(),
            Ok(Some(Credentials::Password { user, password })) => format!("{user}/{password}"),
            Ok(Some(Credentials::Identity(token))) => format!("token {token}"),
            Err(reason) => reason,
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn what_docker_and_podman_keep_is_read() {
        let kept =
            r#"{"auths":{"h.io":{"auth":"dTpwOnc="},"https://i.io/v1/":{"identitytoken":"t"},"j.io":{}}}"#;
        check(kept, "h.io", "u/p:w");
        check(kept, "i.io", "token t");
        check(kept, "j.io", "none");
        check(kept, "k.io", "none");
        // However the hub is called.
        for name in ["docker.io", "index.docker.io", "https://index.docker.io/v1/", "registry-1.docker.io"] {
            let kept = format!(r#"{{"auths":{{"{name}":{{"auth":"dTpw"}}}}}}"#);
            check(&kept, "docker.io", "u/p");
            check(&kept, "x.docker.io", "none");
        }
        check(r#"{"auths":{"h.io":{"auth":"dQ=="}}}"#, "h.io", "what is kept for it has no password");
        check(r#"{"credHelpers":{"h.io":"../x"}}"#, "h.io", "`../x` is no name of a helper");
        check(
            r#"{"HttpHeaders":{},"credsStore":"not-there-at-all"}"#,
            "h.io",
            "`docker-credential-not-there-at-all` does not start",
        );
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Credentials::Password { user: "u".into(), password: "secret".into() };
        assert_eq!(format!("{secret:?}"), "credentials");
    }
}
