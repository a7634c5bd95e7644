//! Who may ask? Who shows the token that the server was started with.

use std::path::Path;

use anyhow::{Context, Result, bail};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The environment variable that holds the token, where no file is named. A command line is no place for
/// it: every user of the machine reads those.
pub const VARIABLE: &str = "TANDEM_SERVE_TOKEN";

/// Shorter ones can be guessed.
const LEAST: usize = 16;

/// A token, kept as its digest alone: it can be compared and never shown.
pub struct AccessToken([u8; 32]);

impl AccessToken {
    /// The token of a file, else that of the environment, else none.
    ///
    /// # Errors
    /// A file that cannot be read, and a token that is too short or could not be sent in a header.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>> {
        let (text, place) = match (file, std::env::var(VARIABLE)) {
            (Some(file), _) => {
                let text = std::fs::read_to_string(file).with_context(|| {
                    format!("the token file {} cannot be read\nhelp: check `--token-file`", file.display())
                })?;
                (text, file.display().to_string())
            }
            (None, Ok(text)) => (text, format!("the variable `{VARIABLE}`")),
            (None, Err(_)) => return Ok(None),
        };
        Self::new(&text).map(Some).with_context(|| format!("the token in {place} cannot be used"))
    }

    /// A token from its text, white space around it left out.
    ///
    /// # Errors
    /// One that is too short, or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!(
                "it holds characters that a header cannot\nhelp: use letters, digits and signs, such as `openssl rand -hex 32` prints"
            );
        }
        if text.len() < LEAST {
            bail!(
                "it has {} characters, and at least {LEAST} are needed\nhelp: make one with `openssl rand -hex 32`",
                text.len()
            );
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Whether the headers of a request show it: `Authorization: Bearer TOKEN`. How long it takes tells
    /// nothing of the token.
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let is_bearer = shown.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        let shown = shown.get(7..).unwrap_or_default().trim_ascii();
        let digest: [u8; 32] = Sha256::digest(shown).into();
        is_bearer & bool::from(digest.ct_eq(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_admitted() {
        let token = AccessToken::new(" 0123456789abcdef\n").unwrap();
        let check = |header: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(AUTHORIZATION, header.parse().unwrap());
            }
            assert_eq!(token.is_shown(&headers), expected, "{header:?}");
        };
        check(Some("Bearer 0123456789abcdef"), true);
        check(Some("bearer  0123456789abcdef"), true);
        check(Some("Bearer 0123456789abcde"), false);
        check(Some("Bearer 0123456789abcdef0"), false);
        check(Some("Basic 0123456789abcdef"), false);
        check(Some("0123456789abcdef"), false);
        check(Some("Bearer "), false);
        check(Some(""), false);
        check(None, false);
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = AccessToken::new(text).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        };
        check("secret", "it has 6 characters, and at least 16 are needed");
        check("secret secret secret", "characters that a header cannot");
        check("", "it has 0 characters");
    }
}
