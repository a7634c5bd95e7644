//! What does a safetensors file, or a sharded set of them, hold?

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, View};
use serde::Deserialize;

use super::{HostTensor, NamedTensors, StoredTensor, StoredType, WeightsError};

/// Reads weights from a `.safetensors` file, from an index of shards
/// (`*.safetensors.index.json`), or from a folder that holds either.
pub fn read_safetensors(path: &Path) -> Result<NamedTensors, WeightsError> {
    let path = if path.is_dir() { weights_in(path)? } else { path.to_owned() };
    let mut all = NamedTensors::new(format!("`{}`", path.display()));
    for file in files_of(&path)? {
        read_file(&file, &mut all)?;
    }
    Ok(all)
}

/// What [`read_safetensors`] would read, without reading the data.
///
/// # Errors
/// If a file is missing or broken.
pub fn list_safetensors(path: &Path) -> Result<Vec<StoredTensor>, WeightsError> {
    let path = if path.is_dir() { weights_in(path)? } else { path.to_owned() };
    let mut all = Vec::new();
    for file in files_of(&path)? {
        let opened = File::open(&file).map_err(WeightsError::io(&file))?;
        // SAFETY: as for GGUF files, the map is only read.
        let bytes = unsafe { Mmap::map(&opened) }.map_err(WeightsError::io(&file))?;
        check_length(&file, &bytes)?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| WeightsError::corrupt(&file, error.to_string()))?;
        all.extend(tensors.iter().map(|(name, view)| StoredTensor {
            name: name.to_string(),
            shape: view.shape().to_vec(),
            format: format!("{:?}", view.dtype()),
            bytes: view.data().len() as u64,
        }));
    }
    all.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(all)
}

/// Writes weights to one file, in one number format, replacing it at once when complete.
pub fn write_safetensors(
    path: &Path,
    tensors: &NamedTensors,
    stored: StoredType,
) -> Result<(), WeightsError> {
    // `transformers` refuses files without this entry.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let views = tensors.iter().map(|(name, tensor)| (name, Stored { tensor, stored }));
    safetensors::serialize_to_file(views, Some(metadata), path).map_err(|error| match error {
        SafeTensorError::IoError(source) => WeightsError::Io { path: path.to_owned(), source },
        other => WeightsError::corrupt(path, other.to_string()),
    })
}

/// The index of a sharded model; the field is Hugging Face's.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn weights_in(folder: &Path) -> Result<PathBuf, WeightsError> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if index.exists() && !single.exists() { Ok(index) } else { Ok(single) }
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(vec![path.to_owned()]);
    }
    let text = std::fs::read_to_string(path).map_err(WeightsError::io(path))?;
    let index: Index =
        serde_json::from_str(&text).map_err(|error| WeightsError::corrupt(path, error.to_string()))?;
    let mut names: Vec<String> = index.weight_map.into_values().collect();
    names.sort();
    names.dedup();
    let folder = path.parent().unwrap_or(Path::new("."));
    names
        .into_iter()
        .map(|name| {
            // An index comes with a download, so it may not point out of its folder.
            let shard = Path::new(&name);
            if shard.file_name() != Some(shard.as_os_str()) {
                return Err(WeightsError::corrupt(
                    path,
                    format!("it names the shard `{name}` outside its folder"),
                ));
            }
            Ok(folder.join(shard))
        })
        .collect()
}

fn read_file(path: &Path, all: &mut NamedTensors) -> Result<(), WeightsError> {
    let file = File::open(path).map_err(WeightsError::io(path))?;
    // SAFETY: as for GGUF files, the map is only read.
    let bytes = unsafe { Mmap::map(&file) }.map_err(WeightsError::io(path))?;
    check_length(path, &bytes)?;
    let tensors =
        SafeTensors::deserialize(&bytes).map_err(|error| WeightsError::corrupt(path, error.to_string()))?;
    for (name, view) in tensors.iter() {
        let data = decode(view.dtype(), view.data()).ok_or_else(|| WeightsError::UnsupportedType {
            path: path.to_owned(),
            tensor: name.to_string(),
            found: format!("{:?}", view.dtype()),
            known: "F32, F16, BF16, F64",
        })?;
        all.insert(name, HostTensor::new(view.shape(), data));
    }
    Ok(())
}

/// Tells a truncated file from other damage, since that is the fault people meet.
fn check_length(path: &Path, bytes: &[u8]) -> Result<(), WeightsError> {
    let truncated = |what: &str, needed: u64| WeightsError::Truncated {
        path: path.to_owned(),
        what: what.into(),
        needed,
        have: bytes.len() as u64,
    };
    let Some(length) = bytes.first_chunk::<8>() else {
        return Err(truncated("the length of its header", 8));
    };
    let header = u64::from_le_bytes(*length);
    let Some(header_end) = header.checked_add(8).filter(|_| bytes.get(8) == Some(&b'{')) else {
        return Err(WeightsError::WrongMagic {
            path: path.to_owned(),
            format: "safetensors",
            found: format!("bytes {length:02x?}"),
        });
    };
    if header_end > bytes.len() as u64 {
        return Err(truncated("its header", header_end));
    }
    let header: HashMap<String, serde_json::Value> =
        serde_json::from_slice(&bytes[8..header_end as usize])
            .map_err(|error| WeightsError::corrupt(path, error.to_string()))?;
    let data_end = header.values().filter_map(|entry| entry["data_offsets"][1].as_u64()).max().unwrap_or(0);
    let needed = header_end.saturating_add(data_end);
    if needed > bytes.len() as u64 {
        return Err(truncated("its tensors", needed));
    }
    Ok(())
}

fn decode(format: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match format {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect(),
        Dtype::F64 => bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk) as f32).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|chunk| f16::from_le_bytes(*chunk).to_f32()).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|chunk| bf16::from_le_bytes(*chunk).to_f32()).collect(),
        _ => return None,
    })
}

/// A tensor as it will be written.
struct Stored<'a> {
    tensor: &'a HostTensor,
    stored: StoredType,
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        match self.stored {
            StoredType::F32 => Dtype::F32,
            StoredType::BF16 => Dtype::BF16,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let values = self.tensor.data.iter();
        Cow::Owned(match self.stored {
            StoredType::F32 => values.flat_map(|value| value.to_le_bytes()).collect(),
            StoredType::BF16 => values.flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        let bytes = match self.stored {
            StoredType::F32 => 4,
            StoredType::BF16 => 2,
        };
        self.tensor.data.len() * bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn sample() -> NamedTensors {
        let mut tensors = NamedTensors::default();
        tensors.insert("a", HostTensor::new([2, 2], vec![1.0, -2.5, 0.0, 3.0]));
        tensors.insert("b", HostTensor::new([3], vec![0.5, 0.25, 0.125]));
        tensors
    }

    fn same(left: &NamedTensors, right: &NamedTensors) {
        assert!(left.iter().eq(right.iter()));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for stored in [StoredType::F32, StoredType::BF16] {
            let path = folder.path().join("model.safetensors");
            write_safetensors(&path, &sample(), stored).unwrap();
            same(&read_safetensors(&path).unwrap(), &sample());
            same(&read_safetensors(folder.path()).unwrap(), &sample());
        }
    }

    #[test]
    fn shards_are_joined() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = serde_json::json!({ "weight_map": {} });
        for (number, (name, tensor)) in sample().iter().enumerate() {
            let mut shard = NamedTensors::default();
            shard.insert(name, tensor.clone());
            let file = format!("model-{number}.safetensors");
            write_safetensors(&folder.path().join(&file), &shard, StoredType::F32).unwrap();
            index["weight_map"][name] = file.into();
        }
        std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        same(&read_safetensors(folder.path()).unwrap(), &sample());
    }

    fn check(file: &str, bytes: &[u8], expected: Expect) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        let error = read_safetensors(&path).unwrap_err().to_string();
        expected.assert_eq(&error.replace(&format!("{}/", folder.path().display()), ""));
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        write_safetensors(&path, &sample(), StoredType::F32).unwrap();
        let good = std::fs::read(&path).unwrap();
        check(
            "model.safetensors",
            &good[..good.len() - 4],
            expect![[r#"
            weights: `model.safetensors` is truncated: its tensors would end at byte 180 and the file has 176
            help: the download was interrupted or the disk was full; delete the file and fetch it again"#]],
        );
        check(
            "model.safetensors",
            b"<!DOCTYPE html><html>",
            expect![[r#"
            weights: `model.safetensors` is not a safetensors file: it begins with bytes [3c, 21, 44, 4f, 43, 54, 59, 50]
            help: give a .gguf or .safetensors file; an HTML page or a Git LFS pointer here means that the download failed, so fetch it again"#]],
        );
        check(
            "model.safetensors.index.json",
            br#"{"weight_map": {"a": "../../secret.safetensors"}}"#,
            expect![[r#"
            weights: `model.safetensors.index.json` is corrupt: it names the shard `../../secret.safetensors` outside its folder
            help: delete the file and fetch it again"#]],
        );
    }

    #[test]
    fn every_truncation_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        write_safetensors(&path, &sample(), StoredType::F32).unwrap();
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(read_safetensors(&path).is_err(), "cut to {length} bytes");
        }
    }
}
