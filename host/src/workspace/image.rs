//! How do the files of a task come out of its container image?
//!
//! Once for each task: a container of the image runs the task's setup script in the image's
//! own work folder, and what lies there then becomes a snapshot like any other, without the
//! repository it came with. Workspaces mount their copy over that folder. Of the old
//! repository only those commits are kept that the scripts of the task name, without any
//! other, and only the workspace of the tests has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::backend::Sandbox;
use super::bubblewrap;
use super::command::{CommandOutput, Mount, SandboxCommand};
use super::config::{Backend, WorkspaceConfig};
use super::container::{Container, Engine, Parts, Place};
use super::error::Error;
use super::scratch::Scratch;
use super::snapshot::{Copy, Snapshot};
use super::tree::in_background;

/// Where a container that files come out of has what it reads and writes.
const OUT: &str = "/tandem/out";
const SETUP: &str = "/tandem/setup";
/// Where the tests find what the setup script put into `$TANDEM_KEEP`.
const KEPT: &str = "/kept";
/// Seconds that the setup script and copying may take together.
const SECONDS: u64 = 1_800;
/// Bytes that come out of an image and its repository at most.
const OUT_BYTES: u64 = 16 << 30;

/// Puts files, kept files and commits into `/tandem/out`. `$1` is the work folder, the rest are commits.
const COPY_OUT: &str = r#"
set -e
place=$1; shift
cd "$place" || { echo "the image has no folder $place"; exit 1; }
mkdir -p /tandem/out/files /tandem/out/kept
if [ -f /tandem/setup/setup.sh ]; then
    TANDEM_FOR=files TANDEM_KEEP=/tandem/out/kept bash /tandem/setup/setup.sh || { echo "setup.sh failed"; exit 1; }
fi
cd "$place"
shopt -s dotglob nullglob
for entry in *; do
    [ "$entry" = .git ] || cp -a -- "$entry" /tandem/out/files/
done
if [ -e .git ] && [ $# -gt 0 ]; then
    export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
    export GIT_CONFIG_KEY_1=protocol.file.allow GIT_CONFIG_VALUE_1=always
    known=()
    for commit in "$@"; do
        git cat-file -e "$commit^{commit}" 2>/dev/null && known+=("$commit")
    done
    if [ ${#known[@]} -gt 0 ]; then
        git init -q /tandem/out/repository
        git -C /tandem/out/repository fetch -q --depth=1 --no-tags \
            --upload-pack='git -c uploadpack.allowAnySHA1InWant=true upload-pack' "file://$place" "${known[@]}"
    fi
fi
"#;

/// An image with the files of a task.
#[derive(Clone, Debug)]
pub struct ImageFiles<'a> {
    /// The image, which the engine has.
    pub image: &'a str,
    /// The folder of the image that the files lie in; the image's own choice if none.
    pub folder: Option<&'a str>,
    /// A folder with the `setup.sh` of the task and what it reads. It runs three times:
    /// with `TANDEM_FOR=files` in the image's own folder before the files are taken, and
    /// with `agent` and `tests` at the start of each such workspace.
    pub setup: Option<&'a Path>,
    /// Commits of the image's repository that the tests name.
    pub commits: &'a [String],
}

/// What a snapshot keeps of the image it came out of.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) image: String,
    /// The folder of the image that workspaces lie over.
    pub(super) folder: String,
    /// The text of the setup script.
    pub(super) setup: Option<String>,
    /// Whether the setup script kept something for the tests.
    pub(super) kept: bool,
}

impl Origin {
    pub(super) fn place(&self) -> Place {
        Place { image: self.image.clone(), folder: self.folder.clone(), of_task: true, writable: true }
    }

    /// What only the workspace of tests has.
    pub(super) fn mounts_of_tests(&self, snapshot: &Snapshot) -> Option<Mount> {
        self.kept.then(|| Mount::read_only(snapshot.kept(), KEPT))
    }

    /// Runs the setup script in a workspace.
    ///
    /// # Errors
    /// A script that fails.
    pub(super) async fn set_up(&self, sandbox: &dyn Sandbox, role: &'static str) -> Result<(), Error> {
        let Some(script) = &self.setup else { return Ok(()) };
        let command = SandboxCommand::bash(script, Duration::from_secs(SECONDS)).env("TANDEM_FOR", role);
        succeeded(&sandbox.run(&command).await?, &self.image)
    }
}

impl Snapshot {
    /// Takes the files of a task out of its image and commits them. Needs a container
    /// engine, whatever the back-end of the configuration.
    ///
    /// # Errors
    /// As [`Snapshot::take`]; an image that the engine does not have; a setup script that fails.
    pub async fn take_from_image(from: &ImageFiles<'_>, config: &WorkspaceConfig) -> Result<Self, Error> {
        if config.backend != Backend::Container {
            return Err(Error::NeedsContainer { image: from.image.to_owned() });
        }
        super::disk::room(config).await?;
        let scratch = Arc::new(Scratch::new("image", config)?);
        let out = scratch.path().join("out");
        fs::create_dir(&out).map_err(Error::io("making", &out))?;
        let engine = Engine::connect(config).await?;
        let folder = match from.folder {
            Some(folder) => folder.to_owned(),
            None => engine.work_folder(from.image).await?,
        };
        if !folder.starts_with('/') || folder.trim_end_matches('/').is_empty() {
            let reason = format!("its work folder is `{folder}`");
            return Err(Error::ImageSetup { image: from.image.to_owned(), reason });
        }
        engine.hand_over(&out)?;
        let mut mounts = vec![Mount::read_write(&out, OUT)];
        let mut setup = None;
        if let Some(folder) = from.setup {
            let copy = scratch.path().join("setup");
            Copy::new(config.extract.entries, config.extract.total_bytes).folder(
                folder,
                &copy,
                Path::new(""),
            )?;
            let script = copy.join("setup.sh");
            setup = Some(fs::read_to_string(&script).map_err(Error::io("reading", &script))?);
            mounts.push(Mount::read_only(copy, SETUP));
        }
        let mut inner = config.clone();
        (inner.sandbox.disk_bytes, inner.sandbox.file_bytes) = (OUT_BYTES, OUT_BYTES);
        let space = bubblewrap::space(vec![out.clone()], 0, &inner.sandbox);
        let place = Place { image: from.image.to_owned(), folder: "/".into(), of_task: true, writable: true };
        let parts = Parts { mounts, proxy: None, space, place };
        let container = Container::start(engine, &inner, &scratch, parts).await?;
        let words = ["/bin/bash", "-c", COPY_OUT, "bash", &folder];
        let words = words.into_iter().map(str::to_owned).chain(from.commits.iter().cloned());
        let ran = container.run(&SandboxCommand::argv(words, Duration::from_secs(SECONDS))).await?;
        succeeded(&ran, from.image)?;
        drop(container);

        let kept = out.join("kept");
        let origin = Origin {
            image: from.image.to_owned(),
            folder: folder.trim_end_matches('/').to_owned(),
            setup,
            kept: fs::read_dir(&kept).is_ok_and(|mut entries| entries.next().is_some()),
        };
        let mut snapshot = Self::take(&out.join("files"), config).await?;
        if origin.kept {
            let to = snapshot.kept();
            let limits = (config.extract.entries, config.extract.total_bytes);
            in_background(move || Copy::new(limits.0, limits.1).folder(&kept, &to, Path::new(""))).await?;
        }
        snapshot.keep_commits(&out.join("repository"))?;
        snapshot.came_out_of(origin);
        Ok(snapshot)
    }

    /// Makes the repository that tests get: that of agents, with the commits of another
    /// beside it, each without the ones before.
    fn keep_commits(&self, repository: &Path) -> Result<(), Error> {
        let (from, to) = (repository.join(".git"), self.tests_repository());
        if !from.is_dir() {
            return Ok(());
        }
        fs::create_dir(&to).map_err(Error::io("making", &to))?;
        let git = to.join(".git");
        Copy::new(u64::MAX, u64::MAX).folder(&self.agent_repository().join(".git"), &git, Path::new(""))?;
        let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop).map_err(Error::io("copying", from));
        let packs = from.join("objects/pack");
        for entry in fs::read_dir(&packs).map_err(Error::io("reading", &packs))? {
            let entry = entry.map_err(Error::io("reading", &packs))?;
            copy(&entry.path(), &git.join("objects/pack").join(entry.file_name()))?;
        }
        self.copy_loose(&from.join("objects"), &git.join("objects"))?;
        copy(&from.join("shallow"), &git.join("shallow"))
    }

    /// Objects that a small fetch leaves as files of their own.
    fn copy_loose(&self, from: &Path, to: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(from).map_err(Error::io("reading", from))? {
            let entry = entry.map_err(Error::io("reading", from))?;
            if entry.file_name().len() != 2 {
                continue;
            }
            let folder: PathBuf = to.join(entry.file_name());
            if !folder.is_dir() {
                fs::create_dir(&folder).map_err(Error::io("making", &folder))?;
            }
            for object in fs::read_dir(entry.path()).map_err(Error::io("reading", from))? {
                let object = object.map_err(Error::io("reading", from))?;
                let target = folder.join(object.file_name());
                if !target.exists() {
                    fs::copy(object.path(), &target).map_err(Error::io("copying", &target))?;
                }
            }
        }
        Ok(())
    }
}

fn succeeded(ran: &CommandOutput, image: &str) -> Result<(), Error> {
    if ran.exit_code == Some(0) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ran.output.bytes()).trim().to_owned();
    let skip = text.chars().count().saturating_sub(1_000);
    let reason = match ran.exit_code {
        Some(_) => text.chars().skip(skip).collect(),
        None => format!("it did not end within {SECONDS} seconds"),
    };
    Err(Error::ImageSetup { image: image.to_owned(), reason })
}
