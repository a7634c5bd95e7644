//! How does a model come from the hub? Its listing, then file after file into the hub's cache,
//! each taken up where it was cut off and compared with its checksum.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::hub_cache::{HubCache, HubId};
use crate::view::Progress;

/// The hub, or a mirror of it.
pub struct Hub {
    endpoint: String,
    token: Option<String>,
    offline: bool,
    cache: HubCache,
}

/// What the hub says of a revision; other fields are not read.
#[derive(Deserialize)]
struct Listing {
    /// The commit.
    sha: String,
    siblings: Vec<Listed>,
}

#[derive(Clone, Deserialize)]
struct Listed {
    rfilename: String,
    size: Option<u64>,
    /// As git names the file's content.
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    /// Of files that lie outside git.
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

/// Tries without a single new byte, after which a download fails.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(300);

/// Files that a policy or an adapter may have beside its weights.
const SMALL_FILES: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "adapter_config.json",
];

impl Hub {
    /// As `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and the variables of the cache say.
    pub fn from_environment() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        let offline = variable("HF_HUB_OFFLINE")
            .is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str()));
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: variable("HF_TOKEN").map(|token| token.trim().to_owned()),
            offline,
            cache: HubCache::from_environment()?,
        })
    }

    /// The folder of a model's files: from the cache if they are all there, else from the hub.
    ///
    /// # Errors
    /// When the model is not in the cache and cannot be had.
    pub fn folder(self, id: &HubId) -> Result<PathBuf> {
        if let Some(folder) = self.cache.snapshot(id) {
            return Ok(folder);
        }
        if self.offline {
            bail!(
                "`{id}` is not in the cache {}, and HF_HUB_OFFLINE forbids asking the hub; nor is there a file or folder of that name\nhelp: unset HF_HUB_OFFLINE, fetch the model on a machine with a network and copy its cache folder, or give the path of its files",
                self.cache.root().display()
            );
        }
        let id = id.clone();
        // A thread of its own, so that it does not matter whether the caller runs in a runtime.
        let fetched = std::thread::spawn(move || -> Result<PathBuf> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(self.fetch(&id)).with_context(|| format!("`{id}` could not be fetched"))
        });
        fetched.join().map_err(|_| anyhow!("the download ended by a fault of the program"))?
    }

    async fn fetch(&self, id: &HubId) -> Result<PathBuf> {
        let client = Client::builder()
            .user_agent(concat!("tandem/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(20))
            .read_timeout(Duration::from_secs(60))
            .build()?;
        let listing = self.listing(&client, id).await?;
        let is_name = !listing.sha.is_empty() && listing.sha.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            bail!("the hub names no commit for it\nhelp: check HF_ENDPOINT");
        }
        let files = chosen(&listing.siblings)?;
        let progress = Progress::new();
        let blobs = self.cache.of(id).join("blobs");
        fs::create_dir_all(&blobs).with_context(|| format!("{} cannot be made", blobs.display()))?;
        for file in &files {
            let name = &file.rfilename;
            let blob = self
                .fetch_file(&client, id, &listing.sha, file, &blobs, &progress)
                .await
                .with_context(|| format!("the file `{name}` did not come"))?;
            self.cache.link(id, &listing.sha, name, &blob)?;
        }
        // Last: a revision that is noted has all its files.
        self.cache.set_revision(id, &listing.sha)?;
        Ok(self.cache.of(id).join("snapshots").join(&listing.sha))
    }

    async fn listing(&self, client: &Client, id: &HubId) -> Result<Listing> {
        let HubId { owner, name, revision } = id;
        let revision = revision.replace('/', "%2F");
        let url = format!("{}/api/models/{owner}/{name}/revision/{revision}?blobs=true", self.endpoint);
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let trouble = match self.ask(client, &url, 0).await {
                Ok(response) if response.status().is_success() => {
                    return response.json().await.map_err(|error| {
                        anyhow!(error.without_url())
                            .context("the hub's answer is no listing\nhelp: check HF_ENDPOINT")
                    });
                }
                Ok(response) => {
                    self.refused(response.status())?;
                    anyhow!("the hub answered {}", response.status())
                }
                Err(error) => anyhow!(error),
            };
            if attempt == TRIES {
                return Err(trouble.context(format!(
                    "the hub at {} cannot be reached\nhelp: check the network, HF_ENDPOINT and the proxy; without a network, give the path of the model's files",
                    self.endpoint
                )));
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the loop ends by returning")
    }

    async fn ask(&self, client: &Client, url: &str, from: u64) -> Result<Response, reqwest::Error> {
        let mut request = client.get(url);
        if let Some(token) = &self.token {
            // Marked as sensitive, and dropped by the client when it is sent to another host.
            request = request.bearer_auth(token);
        }
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        // A signed address of a store is nobody's business.
        request.send().await.map_err(reqwest::Error::without_url)
    }

    /// Answers that another try does not change.
    fn refused(&self, status: StatusCode) -> Result<()> {
        let token = if self.token.is_some() { "HF_TOKEN is set" } else { "HF_TOKEN is not set" };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => bail!(
                "the hub refuses it ({}; {token})\nhelp: accept the model's terms on its page, and set HF_TOKEN to a token that may read it; a wrong name is refused too",
                status.as_u16()
            ),
            StatusCode::NOT_FOUND => bail!(
                "the hub has no such model, revision or file (404; {token}), and there is no file or folder of that name here\nhelp: check the spelling of `owner/name@revision`"
            ),
            _ => Ok(()),
        }
    }

    /// Fetches a file into `blobs` unless it is there; gives the blob's name.
    async fn fetch_file(
        &self,
        client: &Client,
        id: &HubId,
        commit: &str,
        file: &Listed,
        blobs: &Path,
        progress: &Progress,
    ) -> Result<String> {
        let check = Check::of(file);
        let blob = check.name().map_or_else(|| format!("{commit}-{}", file.rfilename), str::to_owned);
        let target = blobs.join(&blob);
        if target.exists() {
            return Ok(blob);
        }
        let partial = blobs.join(format!("{blob}.incomplete"));
        let mut out = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&partial)
            .with_context(|| format!("{} cannot be written", partial.display()))?;
        // Another program may be fetching the same.
        out.lock().with_context(|| format!("{} cannot be locked", partial.display()))?;
        if target.exists() {
            return Ok(blob);
        }
        let size = file.lfs.as_ref().and_then(|lfs| lfs.size).or(file.size);
        progress.say(&format!(
            "fetching {}{}",
            file.rfilename,
            size.map_or(String::new(), |size| format!(" ({:.1} MB)", size as f64 / 1e6))
        ));
        let url = format!("{}/{}/{}/resolve/{commit}/{}", self.endpoint, id.owner, id.name, file.rfilename);
        self.fill(client, &url, size, &mut out).await?;
        out.sync_all()?;
        if let Err(error) = check.verify(&mut out) {
            // What is wrong from the beginning cannot be gone on with.
            fs::remove_file(&partial).with_context(|| format!("{} cannot be removed", partial.display()))?;
            return Err(error);
        }
        fs::rename(&partial, &target)
            .with_context(|| format!("{} cannot be put in place", target.display()))?;
        Ok(blob)
    }

    /// Fetches what is missing of a file, again and again as long as something comes.
    async fn fill(&self, client: &Client, url: &str, size: Option<u64>, out: &mut File) -> Result<()> {
        let (mut tries, mut pause) = (0, FIRST_PAUSE);
        loop {
            let have = out.metadata()?.len();
            if size == Some(have) && have > 0 {
                return Ok(());
            }
            if size.is_some_and(|size| have > size) {
                out.set_len(0)?;
                continue;
            }
            let trouble = match self.ask(client, url, have).await {
                Err(error) => anyhow!(error),
                Ok(response) => {
                    self.refused(response.status())?;
                    match take(response, have, out).await? {
                        None if size
                            .is_none_or(|size| out.metadata().is_ok_and(|data| data.len() == size)) =>
                        {
                            return Ok(());
                        }
                        None => anyhow!("the transfer ended before the file did"),
                        Some(trouble) => trouble,
                    }
                }
            };
            let came = out.metadata()?.len();
            if came > have {
                (tries, pause) = (0, FIRST_PAUSE);
            }
            tries += 1;
            if tries == TRIES {
                return Err(trouble.context(format!(
                    "the transfer broke off {TRIES} times after {came} bytes\nhelp: try again; what came is kept and gone on with"
                )));
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Writes what a response holds after the first `have` bytes. Gives what went wrong on the way,
/// if it is worth another try.
async fn take(mut response: Response, have: u64, out: &mut File) -> Result<Option<anyhow::Error>> {
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
            if !range.is_some_and(|range| range.starts_with(&format!("bytes {have}-"))) {
                out.set_len(0)?;
                return Ok(Some(anyhow!("the server sent another part than was asked for")));
            }
        }
        // It sends everything, whatever was asked for.
        StatusCode::OK => out.set_len(0)?,
        StatusCode::RANGE_NOT_SATISFIABLE => {
            out.set_len(0)?;
            return Ok(Some(anyhow!("the file is shorter than what was here")));
        }
        status => return Ok(Some(anyhow!("the server answered {status}"))),
    }
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => out.write_all(&chunk).context("the file cannot be written")?,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(anyhow!(error.without_url()))),
        }
    }
}

/// The checksum that the hub gives for a file.
enum Check<'a> {
    Sha256(&'a str),
    /// Of git's blob: the word, the length, and the content.
    Git(&'a str),
    None,
}

impl<'a> Check<'a> {
    fn of(file: &'a Listed) -> Self {
        let hex =
            |text: &&'a str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
        let large = file.lfs.as_ref().and_then(|lfs| lfs.sha256.as_deref()).filter(|text| hex(text, 64));
        let small = file.blob_id.as_deref().filter(|text| file.lfs.is_none() && hex(text, 40));
        match (large, small) {
            (Some(sum), _) => Self::Sha256(sum),
            (None, Some(sum)) => Self::Git(sum),
            (None, None) => Self::None,
        }
    }

    /// The name of the blob in the cache.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Sha256(sum) | Self::Git(sum) => Some(sum),
            Self::None => None,
        }
    }

    fn verify(&self, file: &mut File) -> Result<()> {
        let (wanted, found) = match self {
            Self::None => return Ok(()),
            Self::Sha256(sum) => (sum, digest::<Sha256>(file, Sha256::new())?),
            Self::Git(sum) => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {}\0", file.metadata()?.len()));
                (sum, digest::<Sha1>(file, hasher)?)
            }
        };
        if found != **wanted {
            bail!(
                "its checksum is {found}, and the hub says {wanted}; what came was removed\nhelp: try again; if it stays wrong, a proxy or mirror changes files"
            );
        }
        Ok(())
    }
}

fn digest<D: sha2::Digest>(file: &mut File, mut hasher: D) -> Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// The files of a policy or an adapter among all of a repository.
fn chosen(files: &[Listed]) -> Result<Vec<Listed>> {
    let has = |name: &str| files.iter().any(|file| file.rfilename == name);
    let weights = |name: &str| match (has("model.safetensors"), has("model.safetensors.index.json")) {
        (true, _) => name == "model.safetensors",
        (false, true) => {
            name == "model.safetensors.index.json"
                || (name.starts_with("model-") && name.ends_with(".safetensors"))
        }
        (false, false) => name == "adapter_model.safetensors",
    };
    let found: Vec<Listed> = files
        .iter()
        .filter(|file| !file.rfilename.contains('/'))
        .filter(|file| weights(&file.rfilename) || SMALL_FILES.contains(&file.rfilename.as_str()))
        .cloned()
        .collect();
    if !found.iter().any(|file| file.rfilename.ends_with(".safetensors")) {
        let all: Vec<&str> = files.iter().map(|file| file.rfilename.as_str()).take(12).collect();
        bail!(
            "it has no weights in safetensors; it holds {}\nhelp: take a repository with model.safetensors; of a GGUF repository, download the file and give its path",
            all.join(", ")
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Result<&[&str], &str>) {
        let file = |name: &&str| Listed { rfilename: name.to_string(), size: None, blob_id: None, lfs: None };
        let files: Vec<Listed> = names.iter().map(file).collect();
        match (chosen(&files), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<_> = found.iter().map(|file| file.rfilename.as_str()).collect();
                assert_eq!(found, expected);
            }
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, expected) => panic!("{:?} and not {expected:?}", found.map(|files| files.len())),
        }
    }

    #[test]
    fn what_a_policy_needs_is_fetched_and_nothing_twice() {
        check(
            &["README.md", "config.json", "model.safetensors", "onnx/model.safetensors", "pytorch_model.bin"],
            Ok(&["config.json", "model.safetensors"]),
        );
        check(
            &[
                "config.json",
                "model-1-of-2.safetensors",
                "model-2-of-2.safetensors",
                "model.safetensors.index.json",
            ],
            Ok(&[
                "config.json",
                "model-1-of-2.safetensors",
                "model-2-of-2.safetensors",
                "model.safetensors.index.json",
            ]),
        );
        check(
            &["adapter_config.json", "adapter_model.safetensors", "README.md"],
            Ok(&["adapter_config.json", "adapter_model.safetensors"]),
        );
        check(&["config.json", "model.gguf"], Err("it holds config.json, model.gguf"));
    }
}
