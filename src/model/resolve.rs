//! Which files does the name of a model stand for?

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::hub::Hub;
use super::hub_cache::HubId;
use super::known;

/// Whether `base`, written in a file of `folder`, is meant as a path: there is such a file or folder,
/// or it looks like one and can be no hub id.
pub fn is_path(base: &str, folder: &Path) -> bool {
    let looks = base.contains('/') || base.ends_with(".gguf");
    looks && (folder.join(base).exists() || HubId::parse(base).is_none())
}

/// The weights that `base` stands for: a known name (checked by its digest), the path of a GGUF
/// file or of a Hugging Face folder, or a hub id `owner/name[@revision]` from the hub's cache on
/// this machine, else from the hub.
///
/// # Errors
/// When there is no such model, or it cannot be had; the error says what was looked at.
pub fn resolve(base: &str) -> Result<PathBuf> {
    if let Some(fetched) = known::fetched(base) {
        return fetched;
    }
    let path = Path::new(base);
    if path.exists() {
        return Ok(path.to_owned());
    }
    match HubId::parse(base) {
        Some(id) => Hub::from_environment()?.folder(&id),
        None => bail!(
            "there is no model `{base}`: it is no file or folder, no known name and no hub id\nhelp: known names are {}; hub ids are `owner/name` or `owner/name@revision`",
            known::names()
        ),
    }
}
