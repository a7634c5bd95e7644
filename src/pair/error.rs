//! Why is a pair refused?

use std::path::PathBuf;

use tandem_host::harness::{CONTRACT, HarnessError};
use tandem_host::store::Digest;

use super::manifest::LAYOUT;

/// A half of a pair that is not the one that was evaluated. `--allow-mismatch` uses it all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error(
        "the policy is {found}{why}, and the harness of this pair was evaluated with the policy {expected}"
    )]
    Policy {
        expected: Digest,
        found: Digest,
        /// The first file that differs, in brackets; empty where another policy was named.
        why: String,
    },
    #[error("the base policy `{name}` is {found}, and the adapter of this pair belongs on {expected}")]
    Base { name: String, expected: Digest, found: Digest },
    #[error("the harness is {found}, and the policy of this pair was evaluated with the harness {expected}")]
    Harness { expected: Digest, found: Digest },
    #[error("the policy says that its harness is {found}, and this pair has the harness {expected}")]
    TrainedWith { expected: Digest, found: String },
    #[error(
        "the component of the plugin `{plugin}` was changed: it is {found}, and {expected} was evaluated"
    )]
    Component { plugin: String, expected: Digest, found: Digest },
}

/// What using halves that do not match costs, for messages.
pub const COST: &str = "the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves";

/// Why a pair cannot be read or used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("{path} is not a pair: it has no pair.json\nhelp: `tandem pair pack RUN -o DIR` makes a pair from a run; a finished run has one in its folder `pair`", path = .path.display())]
    NotAPair { path: PathBuf },
    #[error("{path} is not a pair manifest: {reason}\nhelp: copy the pair again", path = .path.display())]
    BadManifest { path: PathBuf, reason: String },
    #[error(
        "the pair has layout {found}, and this program reads layout {LAYOUT}\nhelp: use the program version that wrote it, or one that is newer than this"
    )]
    Layout { found: u64 },
    #[error("the pair in {path} has layout 1, which does not say what its policy is, who wrote its plugins or how it was evaluated\nhelp: pack it again with `tandem pair pack RUN -o DIR` from its run; `tandem pair verify` still checks it", path = .path.display())]
    Layout1 { path: PathBuf },
    #[error(
        "the pair needs the contract `{found}`, and this program speaks `{CONTRACT}`\nhelp: use a program version that speaks it; nothing of the pair can run here"
    )]
    Contract { found: String },
    #[error(
        "pair.json was changed: its digest is {found}, and it says {expected}\nhelp: copy the pair again"
    )]
    Manifest { expected: Digest, found: Digest },
    #[error(
        "the pair is {found}, and {expected} was asked for\nhelp: get the pair that you mean, or leave out `--digest`"
    )]
    OtherPair { expected: Digest, found: Digest },
    #[error("the pair in {path} has layout 1, which has no digest of the whole, and {expected} was asked for\nhelp: pack it again with `tandem pair pack RUN -o DIR` from its run, or leave out `--digest`", path = .path.display())]
    NoDigest { path: PathBuf, expected: Digest },
    #[error("the pair lacks its file {file}\nhelp: copy the pair again")]
    Missing { file: String },
    #[error(
        "file {file} of the pair was changed: its digest is {found}, and {expected} is expected\nhelp: copy the pair again"
    )]
    Changed { file: String, expected: Digest, found: Digest },
    #[error(
        "the pair holds {file}, which its manifest does not name\nhelp: delete that file, or copy the pair again"
    )]
    Unnamed { file: String },
    #[error(
        "the pair holds {file}, which is a link or a special file\nhelp: a pair has plain files alone; copy it again, and do not use this one"
    )]
    NotPlain { file: String },
    #[error(
        "the pair names the file `{file}`, which is no place inside a pair\nhelp: do not use this pair: whoever made it tried to reach other files"
    )]
    Outside { file: String },
    #[error(
        "the pair does not agree with itself: {what}\nhelp: copy the pair again, or pack it again from its run"
    )]
    Torn { what: String },
    #[error(
        "{mismatch}\nhelp: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: {COST}"
    )]
    Mismatch { mismatch: Mismatch },
    #[error(
        "the pair is not signed\nhelp: ask for a signed one; its owner signs it with `tandem pair sign PAIR --key KEY`"
    )]
    NotSigned,
    #[error("the signature of the pair is not one of the key {key}\nhelp: use no pair that you do not know who vouches for; ask its owner for the right key or pair", key = .key.display())]
    Signature { key: PathBuf },
    #[error("{path} is no key that can be used: {reason}\nhelp: `tandem pair new-key NAME` makes one; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` does too", path = .path.display())]
    Key { path: PathBuf, reason: String },
    #[error(
        "the plugin `{plugin}` of the harness runs the command `{runs}`, and a pair with a command in it is not packed by itself\nhelp: take the plugin out of the harness, or pack it with `--allow-commands`; whoever gets the pair is told of the command"
    )]
    RunsCommand { plugin: String, runs: String },
    #[error("{path} exists already, and nothing is overwritten\nhelp: give another name", path = .path.display())]
    Exists { path: PathBuf },
    #[error("{path} is not a folder of this user alone, and what lies in it is not trusted\nhelp: remove it, or give another new folder", path = .path.display())]
    NotOwn { path: PathBuf },
    #[error("{path} cannot be {action}\nhelp: check the path, who may use it, and the room on the disk", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

impl PairError {
    /// Names the file of an error of the file system.
    pub fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the answer is no, and nothing is broken here.
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            Self::Io { .. }
                | Self::NotAPair { .. }
                | Self::Exists { .. }
                | Self::NotOwn { .. }
                | Self::Key { .. }
        )
    }
}
