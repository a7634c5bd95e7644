//! Whose pairs are taken from where? A policy file says it: the first rule that fits decides.
//!
//! ```toml
//! [[allow]]
//! reference = "registry.example.com/agents/*"
//! keys = ["team.pub", "release.pub"]     # one of them; beside this file
//!
//! [[allow]]
//! reference = "localhost:5000/*"
//! unsigned = true
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::OciError;
use super::reference::{Reference, normal_host};

/// What is asked of a pair's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    /// A signature of one of these public keys.
    OneOf(Vec<PathBuf>),
}

/// Where trust comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody said anything.
    Nobody,
    Keys(Vec<PathBuf>),
    Policy {
        path: PathBuf,
        rules: Vec<Rule>,
    },
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A reference without tag and digest; `*` stands for any text.
    reference: String,
    #[serde(default)]
    keys: Vec<PathBuf>,
    #[serde(default)]
    unsigned: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allow: Vec<Rule>,
}

impl Trust {
    /// Reads a policy file.
    ///
    /// # Errors
    /// A file that says something else, and rules that say nothing or two things.
    pub fn read(path: &Path) -> Result<Self, OciError> {
        let bad = |reason: String| OciError::Policy { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let mut rules = toml::from_str::<File>(&text).map_err(|error| bad(error.message().to_owned()))?.allow;
        let folder = path.parent().unwrap_or(Path::new("."));
        for rule in &mut rules {
            if rule.keys.is_empty() != rule.unsigned {
                let reference = &rule.reference;
                return Err(bad(format!(
                    "the rule for `{reference}` needs `keys`, or `unsigned = true`, and not both"
                )));
            }
            rule.reference = normal(&rule.reference);
            rule.keys.iter_mut().for_each(|key| *key = folder.join(&key));
        }
        Ok(Self::Policy { path: path.to_owned(), rules })
    }

    /// What is asked of a pair from there.
    ///
    /// # Errors
    /// A policy that has no rule for it.
    pub fn asks(&self, reference: &Reference) -> Result<Asked, OciError> {
        match self {
            Self::Nobody => Ok(Asked::Nothing),
            Self::Keys(keys) => Ok(Asked::OneOf(keys.clone())),
            Self::Policy { path, rules } => {
                let place = reference.place.to_string();
                match rules.iter().find(|rule| fits(&rule.reference, &place)) {
                    Some(rule) if rule.unsigned => Ok(Asked::Nothing),
                    Some(rule) => Ok(Asked::OneOf(rule.keys.clone())),
                    None => Err(OciError::NoRule { reference: place, policy: path.clone() }),
                }
            }
        }
    }
}

/// A pattern with its host as references have it: another spelling is no other place.
fn normal(pattern: &str) -> String {
    if pattern.starts_with("oci:") {
        return pattern.to_owned();
    }
    let (host, rest) = pattern.split_at(pattern.find('/').unwrap_or(pattern.len()));
    let small = host.to_ascii_lowercase();
    if !host.contains('*') {
        return format!("{}{rest}", normal_host(host).unwrap_or(small));
    }
    // `*:443` stays: without the port it would stand for every port.
    let name = match small.strip_suffix(":443") {
        Some(name) if !name.ends_with('*') => name,
        _ => small.as_str(),
    };
    format!("{}{rest}", name.trim_end_matches('.'))
}

/// Whether a text is one that a pattern with `*` stands for.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_whole_references() {
        for (pattern, text, expected) in [
            ("h.io/a", "h.io/a", true),
            ("h.io/a", "h.io/ab", false),
            ("h.io/*", "h.io/a/b", true),
            ("h.io/*", "h.io.evil.com/a", false),
            ("*", "anything", true),
            ("h.io/*/agent", "h.io/x/agent", true),
            ("h.io/*/agent", "h.io/agent", false),
            ("a*a", "a", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    fn check(policy: &str, reference: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        std::fs::write(&path, policy).unwrap();
        let told = match Trust::read(&path).and_then(|trust| trust.asks(&reference.parse()?)) {
            Ok(Asked::Nothing) => "nothing".into(),
            Ok(Asked::OneOf(keys)) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|key| key.strip_prefix(dir.path()).unwrap().display().to_string())
                    .collect();
                keys.join(", ")
            }
            Err(error) => error
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .replace(&path.display().to_string(), "POLICY"),
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = "[[allow]]\nreference = \"h.io/a/*\"\nkeys = [\"k.pub\", \"l.pub\"]\n[[allow]]\nreference = \"h.io/*\"\nunsigned = true\n";
        check(policy, "h.io/a/x:1", "k.pub, l.pub");
        check(policy, "h.io/b:1", "nothing");
        check(policy, "i.io/b:1", "no rule of POLICY allows i.io/b");
        // However the host is spelled, in the rule or in the reference.
        check(policy, "H.io:443/a/x:1", "k.pub, l.pub");
        check(policy, "h.io./a/x:1", "k.pub, l.pub");
        check(&policy.replace("h.io/a", "H.IO:443/a"), "h.io/a/x:1", "k.pub, l.pub");
        check("", "i.io/b:1", "no rule of POLICY allows i.io/b");
    }

    #[test]
    fn the_names_of_the_hub_are_one_host_to_a_policy() {
        let names = ["docker.io", "index.docker.io", "registry-1.docker.io", "INDEX.docker.io:443"];
        for rule in names {
            let policy = format!("[[allow]]\nreference = \"{rule}/a/*\"\nkeys = [\"k.pub\"]\n");
            for asked in names {
                check(&policy, &format!("{asked}/a/x:1"), "k.pub");
                check(&policy, &format!("{asked}/b:1"), "no rule of POLICY allows docker.io/b");
            }
            check(&policy, "docker.io.evil.com/a/x:1", "no rule of POLICY allows docker.io.evil.com/a/x");
        }
    }

    #[test]
    fn a_rule_that_says_nothing_is_no_rule() {
        check(
            "[[allow]]\nreference = \"h.io/*\"\n",
            "h.io/b:1",
            "POLICY is no policy for pairs: the rule for `h.io/*` needs `keys`, or `unsigned = true`, and not both",
        );
        check(
            "[[allow]]\nreference = \"h.io/*\"\nkey = \"x\"\n",
            "h.io/b:1",
            "POLICY is no policy for pairs: unknown field `key`, expected one of `reference`, `keys`, `unsigned`",
        );
    }
}
