//! What does a GGUF file hold?
//!
//! GGUF (the file format of llama.cpp) is a header of typed key-value pairs, a
//! table of tensors, and their data, all little-endian. Versions 2 and 3 have the
//! same layout. Every length in the file is checked against the file before it is
//! used, so a truncated or corrupt file ends in an error and never in a panic or a
//! huge allocation.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::quant::Format;
use super::{HostTensor, NamedTensors, StoredTensor, WeightsError, gguf_names};

const FIRST_VERSION: u32 = 2;
const LAST_VERSION: u32 = 3;

/// An opened GGUF file.
pub struct Gguf {
    path: PathBuf,
    bytes: Mmap,
    metadata: Metadata,
    tensors: Vec<TensorEntry>,
}

/// A row of the table of tensors.
struct TensorEntry {
    name: String,
    /// Outermost first, as Hugging Face counts; the file has them the other way round.
    shape: Vec<usize>,
    format: Format,
    /// Of the data, from the beginning of the file.
    start: usize,
    length: usize,
}

impl Gguf {
    /// Opens and checks a file; the tensors' data are read later.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let file = File::open(path).map_err(WeightsError::io(path))?;
        // SAFETY: the map is only read. Another process that shortens the file while
        // it is mapped could end this one with SIGBUS, as with every mapped weight file.
        let bytes = unsafe { Mmap::map(&file) }.map_err(WeightsError::io(path))?;
        let (metadata, tensors) = read_header(path, &bytes)?;
        Ok(Self { path: path.to_owned(), bytes, metadata, tensors })
    }

    /// The key-value pairs of the header.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors as they lie in the file, under llama.cpp's names.
    pub fn stored(&self) -> Vec<StoredTensor> {
        let stored = |entry: &TensorEntry| StoredTensor {
            name: entry.name.clone(),
            shape: entry.shape.clone(),
            format: entry.format.name(),
            bytes: entry.length as u64,
        };
        self.tensors.iter().map(stored).collect()
    }

    /// All weights, dequantised, under their Hugging Face names and in Hugging Face layout.
    pub fn tensors(&self) -> Result<NamedTensors, WeightsError> {
        let naming = gguf_names::Naming::of(&self.metadata)?;
        let mut all = NamedTensors::new(format!("`{}`", self.path.display()));
        for entry in &self.tensors {
            let data = entry.format.decode(&self.bytes[entry.start..entry.start + entry.length]);
            let tensor = HostTensor::new(entry.shape.clone(), data);
            for (name, tensor) in naming.to_hugging_face(&self.path, &entry.name, tensor)? {
                all.insert(name, tensor);
            }
        }
        Ok(all)
    }
}

/// The key-value pairs of a GGUF header.
#[derive(Debug)]
pub struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

#[derive(Debug)]
enum Value {
    Integer(i128),
    Float(f64),
    Flag(bool),
    Text(String),
    List(Vec<Value>),
}

impl Metadata {
    /// The file that these belong to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<&str, WeightsError> {
        match self.values.get(key) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.missing(key, "a text")),
        }
    }

    /// A number of things.
    pub fn count(&self, key: &str) -> Result<usize, WeightsError> {
        match self.values.get(key) {
            Some(Value::Integer(value)) => {
                usize::try_from(*value).map_err(|_| self.missing(key, "a number that is not negative"))
            }
            _ => Err(self.missing(key, "a whole number")),
        }
    }

    /// A token id.
    pub fn id(&self, key: &str) -> Result<u32, WeightsError> {
        u32::try_from(self.count(key)?).map_err(|_| self.missing(key, "a token id"))
    }

    /// A real number.
    pub fn number(&self, key: &str) -> Result<f64, WeightsError> {
        match self.values.get(key) {
            Some(Value::Float(value)) => Ok(*value),
            Some(Value::Integer(value)) => Ok(*value as f64),
            _ => Err(self.missing(key, "a number")),
        }
    }

    /// A yes or no; absent is no.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Flag(true)))
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, WeightsError> {
        let Some(Value::List(list)) = self.values.get(key) else {
            return Err(self.missing(key, "a list of texts"));
        };
        list.iter()
            .map(|value| match value {
                Value::Text(text) => Ok(text.as_str()),
                _ => Err(self.missing(key, "a list of texts")),
            })
            .collect()
    }

    /// A list of real numbers.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, WeightsError> {
        let Some(Value::List(list)) = self.values.get(key) else {
            return Err(self.missing(key, "a list of numbers"));
        };
        list.iter()
            .map(|value| match value {
                Value::Float(value) => Ok(*value),
                Value::Integer(value) => Ok(*value as f64),
                _ => Err(self.missing(key, "a list of numbers")),
            })
            .collect()
    }

    /// A list of whole numbers.
    pub fn integers(&self, key: &str) -> Result<Vec<i64>, WeightsError> {
        let Some(Value::List(list)) = self.values.get(key) else {
            return Err(self.missing(key, "a list of whole numbers"));
        };
        list.iter()
            .map(|value| match value {
                Value::Integer(value) => {
                    i64::try_from(*value).map_err(|_| self.missing(key, "numbers of 64 bits"))
                }
                _ => Err(self.missing(key, "a list of whole numbers")),
            })
            .collect()
    }

    fn missing(&self, key: &str, expected: &'static str) -> WeightsError {
        WeightsError::MissingKey { path: self.path.clone(), key: key.into(), expected }
    }
}

fn read_header(path: &Path, bytes: &[u8]) -> Result<(Metadata, Vec<TensorEntry>), WeightsError> {
    let mut cursor = Cursor { path, bytes, at: 0 };
    let magic = &bytes[..bytes.len().min(4)];
    if magic != b"GGUF" {
        let found =
            if magic.is_empty() { "nothing: it is empty".into() } else { format!("bytes {magic:02x?}") };
        return Err(WeightsError::WrongMagic { path: path.to_owned(), format: "GGUF", found });
    }
    cursor.at = 4;
    let version = cursor.u32("the version")?;
    if !(FIRST_VERSION..=LAST_VERSION).contains(&version) {
        return Err(WeightsError::UnsupportedVersion {
            path: path.to_owned(),
            found: version,
            first: FIRST_VERSION,
            last: LAST_VERSION,
        });
    }
    let tensor_count = cursor.u64("the number of tensors")?;
    let value_count = cursor.u64("the number of metadata entries")?;

    let mut values = BTreeMap::new();
    for _ in 0..value_count {
        let key = cursor.text("a metadata key")?;
        let kind = cursor.u32(&key)?;
        let value = cursor.value(&key, kind)?;
        values.insert(key, value);
    }
    let metadata = Metadata { path: path.to_owned(), values };

    let mut entries = Vec::new();
    for _ in 0..tensor_count {
        entries.push(cursor.tensor_entry()?);
    }

    let alignment = if metadata.has("general.alignment") { metadata.count("general.alignment")? } else { 32 };
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(WeightsError::corrupt(path, format!("its alignment is {alignment}")));
    }
    let data_start = cursor.at.next_multiple_of(alignment) as u64;
    let tensors = entries
        .into_iter()
        .map(|(name, shape, code, offset)| {
            place(path, bytes.len() as u64, data_start, name, shape, code, offset)
        })
        .collect::<Result<_, _>>()?;
    Ok((metadata, tensors))
}

/// Checks where a tensor's data lie.
fn place(
    path: &Path,
    file_length: u64,
    data_start: u64,
    name: String,
    shape: Vec<usize>,
    code: u32,
    offset: u64,
) -> Result<TensorEntry, WeightsError> {
    let Some(format) = Format::of_code(code) else {
        return Err(WeightsError::UnsupportedType {
            path: path.to_owned(),
            tensor: name,
            found: Format::name_of_code(code),
            known: Format::KNOWN,
        });
    };
    let elements = shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length as u64));
    let placed = elements.and_then(|elements| {
        // Blocks do not cross rows, so the innermost length decides.
        format.bytes(*shape.last().unwrap_or(&1) as u64)?;
        let length = format.bytes(elements)?;
        let start = data_start.checked_add(offset)?;
        Some((start, length, start.checked_add(length)?))
    });
    let Some((start, length, end)) = placed else {
        return Err(WeightsError::corrupt(path, format!("tensor `{name}` cannot have shape {shape:?}")));
    };
    if end > file_length {
        return Err(WeightsError::Truncated {
            path: path.to_owned(),
            what: format!("tensor `{name}`"),
            needed: end,
            have: file_length,
        });
    }
    Ok(TensorEntry { name, shape, format, start: start as usize, length: length as usize })
}

/// Reads the header from front to back.
struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, what: &str, length: u64) -> Result<&'a [u8], WeightsError> {
        let left = (self.bytes.len() - self.at) as u64;
        if length > left {
            return Err(WeightsError::Truncated {
                path: self.path.to_owned(),
                what: format!("its header ({what})"),
                needed: (self.at as u64).saturating_add(length),
                have: self.bytes.len() as u64,
            });
        }
        let start = self.at;
        self.at += length as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], WeightsError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N as u64)?);
        Ok(array)
    }

    fn u32(&mut self, what: &str) -> Result<u32, WeightsError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64, WeightsError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn text(&mut self, what: &str) -> Result<String, WeightsError> {
        let length = self.u64(what)?;
        let bytes = self.take(what, length)?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| WeightsError::corrupt(self.path, format!("{what} is not valid UTF-8")))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<Value, WeightsError> {
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array(key)?).into()),
            1 => Value::Integer(i8::from_le_bytes(self.array(key)?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array(key)?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.array(key)?).into()),
            4 => Value::Integer(u32::from_le_bytes(self.array(key)?).into()),
            5 => Value::Integer(i32::from_le_bytes(self.array(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array(key)?).into()),
            7 => Value::Flag(self.array::<1>(key)?[0] != 0),
            8 => Value::Text(self.text(key)?),
            9 => self.list(key)?,
            10 => Value::Integer(u64::from_le_bytes(self.array(key)?).into()),
            11 => Value::Integer(i64::from_le_bytes(self.array(key)?).into()),
            12 => Value::Float(f64::from_le_bytes(self.array(key)?)),
            _ => {
                let reason = format!("metadata `{key}` has the unknown type {kind}");
                return Err(WeightsError::corrupt(self.path, reason));
            }
        })
    }

    fn list(&mut self, key: &str) -> Result<Value, WeightsError> {
        let kind = self.u32(key)?;
        let length = self.u64(key)?;
        // A list of lists would let a small file recurse without end; no model has one.
        if kind == 9 {
            return Err(WeightsError::corrupt(self.path, format!("metadata `{key}` is a list of lists")));
        }
        // No reservation by `length`: a corrupt length must end as "truncated", not as an allocation.
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(self.value(key, kind)?);
        }
        Ok(Value::List(list))
    }

    fn tensor_entry(&mut self) -> Result<(String, Vec<usize>, u32, u64), WeightsError> {
        let name = self.text("a tensor's name")?;
        let dimensions = self.u32(&name)?;
        if dimensions > 4 {
            let reason = format!("tensor `{name}` has {dimensions} dimensions; GGUF allows 4");
            return Err(WeightsError::corrupt(self.path, reason));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(self.u64(&name)? as usize);
        }
        shape.reverse();
        let code = self.u32(&name)?;
        let offset = self.u64(&name)?;
        Ok((name, shape, code, offset))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::io::Write;

    /// Writes small GGUF files for the tests.
    #[derive(Default)]
    pub struct Builder {
        values: Vec<u8>,
        value_count: u64,
        table: Vec<u8>,
        data: Vec<u8>,
        tensor_count: u64,
    }

    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    impl Builder {
        pub fn text(mut self, key: &str, value: &str) -> Self {
            text(&mut self.values, key);
            self.values.extend(8u32.to_le_bytes());
            text(&mut self.values, value);
            self.value_count += 1;
            self
        }

        pub fn count(mut self, key: &str, value: u32) -> Self {
            text(&mut self.values, key);
            self.values.extend(4u32.to_le_bytes());
            self.values.extend(value.to_le_bytes());
            self.value_count += 1;
            self
        }

        pub fn tensor(mut self, name: &str, shape: &[u64], code: u32, data: &[u8]) -> Self {
            text(&mut self.table, name);
            self.table.extend((shape.len() as u32).to_le_bytes());
            for length in shape.iter().rev() {
                self.table.extend(length.to_le_bytes());
            }
            self.table.extend(code.to_le_bytes());
            self.table.extend((self.data.len() as u64).to_le_bytes());
            self.data.extend(data);
            self.data.resize(self.data.len().next_multiple_of(32), 0);
            self.tensor_count += 1;
            self
        }

        pub fn build(self) -> Vec<u8> {
            let mut file = b"GGUF".to_vec();
            file.extend(3u32.to_le_bytes());
            file.extend(self.tensor_count.to_le_bytes());
            file.extend(self.value_count.to_le_bytes());
            file.extend(self.values);
            file.extend(self.table);
            file.resize(file.len().next_multiple_of(32), 0);
            file.extend(self.data);
            file
        }
    }

    pub fn open(bytes: &[u8]) -> Result<Gguf, WeightsError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Gguf::open(file.path())
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn small() -> Builder {
        Builder::default()
            .text("general.architecture", "llama")
            .count("llama.attention.head_count", 1)
            .count("llama.attention.head_count_kv", 1)
    }

    #[test]
    fn q_rows_come_back_in_hugging_face_order() {
        // One head of 4 rows: llama.cpp stores HF rows 0, 1, 2, 3 as 0, 2, 1, 3.
        let bytes = small()
            .tensor("blk.0.attn_q.weight", &[4, 1], 0, &floats(&[0.0, 2.0, 1.0, 3.0]))
            .tensor("blk.0.attn_v.weight", &[4, 1], 0, &floats(&[0.0, 1.0, 2.0, 3.0]))
            .build();
        let tensors = open(&bytes).unwrap().tensors().unwrap();
        for name in ["q", "v"] {
            let tensor = tensors.get(&format!("model.layers.0.self_attn.{name}_proj.weight")).unwrap();
            assert_eq!(tensor, &HostTensor::new([4, 1], vec![0.0, 1.0, 2.0, 3.0]), "{name}");
        }
    }

    #[test]
    fn every_truncation_is_an_error_and_never_a_panic() {
        let bytes = small().tensor("output_norm.weight", &[8], 0, &floats(&[1.0; 8])).build();
        assert!(open(&bytes).is_ok());
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn every_damaged_byte_of_the_header_is_survived() {
        let bytes = small().tensor("output_norm.weight", &[8], 0, &floats(&[1.0; 8])).build();
        for position in 0..bytes.len() - 32 {
            for value in [0x00, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] = value;
                if let Ok(file) = open(&damaged) {
                    let _ = file.tensors();
                }
            }
        }
    }

    fn check(bytes: &[u8], expected: Expect) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        let error = match Gguf::open(&path).and_then(|file| file.tensors()) {
            Ok(_) => panic!("the file was accepted"),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&error.replace(&format!("{}/", directory.path().display()), ""));
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_to_do() {
        check(
            b"version https://git-lfs.github.com/spec/v1",
            expect![[r#"
            weights: `model.gguf` is not a GGUF file: it begins with bytes [76, 65, 72, 73]
            help: give a .gguf or .safetensors file; an HTML page or a Git LFS pointer here means that the download failed, so fetch it again"#]],
        );
        let full = small().tensor("output_norm.weight", &[8], 0, &floats(&[1.0; 8])).build();
        check(
            &full[..full.len() - 10],
            expect![[r#"
            weights: `model.gguf` is truncated: tensor `output_norm.weight` would end at byte 256 and the file has 246
            help: the download was interrupted or the disk was full; delete the file and fetch it again"#]],
        );
        check(
            &small().tensor("blk.0.ffn_up.weight", &[1, 256], 10, &[0; 84]).build(),
            expect![[r#"
            weights: tensor `blk.0.ffn_up.weight` of `model.gguf` is stored as Q2_K, which is not read
            help: use a file in one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K"#]],
        );
        check(
            &Builder::default().text("general.architecture", "mamba").build(),
            expect![[r#"
            weights: `model.gguf` holds a `mamba` model; `llama` (with SmolLM2), `qwen2` (with Qwen2.5), `qwen3`, `qwen3_moe` and `gemma3_text` models are supported
            help: use a policy of a supported family"#]],
        );
    }
}
