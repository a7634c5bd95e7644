//! What is a policy: its shape, its size on disk and in memory, its tokens?

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tandem_trainer::checkpoint::inspect_policy;

/// What `tandem model info` tells, as text and as JSON.
#[derive(Debug, Serialize)]
pub struct ModelInfo {
    pub name: String,
    pub path: PathBuf,
    /// As `transformers` names it in `model_type`.
    pub architecture: String,
    pub layers: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub attention_heads: usize,
    pub key_value_heads: usize,
    pub head_dim: usize,
    /// Experts, and how many of them a token uses.
    pub experts: Option<[usize; 2]>,
    pub sliding_window: Option<usize>,
    pub rope_theta: f64,
    pub tied_head: bool,
    /// Tokens that the policy was trained to see at once.
    pub context: usize,
    /// Counted in the files, not derived from the shape.
    pub parameters: u64,
    /// By number format.
    pub stored: BTreeMap<String, Stored>,
    pub bytes_on_disk: u64,
    /// Weights that the shape asks for and the files lack, and the other way round.
    pub missing_tensors: Vec<String>,
    pub unexpected_tensors: Vec<String>,
    pub kv_cache_bytes_per_1000_tokens: CacheBytes,
    pub vocabulary: usize,
    pub bos: Option<u32>,
    pub eos: u32,
    pub end_of_turn: Option<u32>,
    /// Why the chat template does not work, if it does not.
    pub chat_template_fault: Option<String>,
    /// Of a checkpoint that was written here.
    pub policy_version: Option<u64>,
    pub harness_digest: Option<String>,
    pub base: Option<String>,
}

/// What is stored in one number format.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    pub tensors: u64,
    pub parameters: u64,
    pub bytes: u64,
}

/// Bytes of keys and values.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct CacheBytes {
    pub bf16: u64,
    pub f32: u64,
}

impl ModelInfo {
    /// Reads what the files at `path` say; `name` is what the user called it.
    ///
    /// # Errors
    /// If a file is missing or broken.
    pub fn read(name: &str, path: &Path) -> anyhow::Result<Self> {
        let facts = inspect_policy(path)?;
        let mut stored: BTreeMap<String, Stored> = BTreeMap::new();
        for tensor in &facts.tensors {
            let row = stored.entry(tensor.format.clone()).or_default();
            row.tensors += 1;
            row.parameters += tensor.shape.iter().map(|length| *length as u64).product::<u64>();
            row.bytes += tensor.bytes;
        }
        let cache = 1000 * facts.cache_elements();
        let config = &facts.config;
        Ok(Self {
            name: name.into(),
            path: path.to_owned(),
            architecture: config.family.model_type().into(),
            layers: config.num_hidden_layers,
            hidden_size: config.hidden_size,
            intermediate_size: config.intermediate_size,
            attention_heads: config.num_attention_heads,
            key_value_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            experts: config.experts.as_ref().map(|experts| [experts.count, experts.per_token]),
            sliding_window: config.window.as_ref().map(|window| window.tokens),
            rope_theta: config.rope_theta,
            tied_head: config.tie_word_embeddings,
            context: config.max_position_embeddings,
            parameters: facts.parameters(),
            bytes_on_disk: facts.bytes(),
            stored,
            kv_cache_bytes_per_1000_tokens: CacheBytes { bf16: 2 * cache, f32: 4 * cache },
            vocabulary: facts.tokenizer.vocab_size(),
            bos: facts.tokenizer.bos(),
            eos: facts.tokenizer.eos(),
            end_of_turn: facts.chat.as_ref().ok().map(|chat| chat.end_of_turn()),
            chat_template_fault: facts.chat.as_ref().err().map(|error| {
                let text = error.to_string();
                text.split("\nhelp: ").next().unwrap_or_default().to_owned()
            }),
            policy_version: facts.manifest.as_ref().map(|manifest| manifest.policy_version),
            harness_digest: facts.manifest.as_ref().and_then(|manifest| manifest.harness_digest.clone()),
            base: facts.manifest.as_ref().map(|manifest| manifest.base.clone()),
            missing_tensors: facts.missing,
            unexpected_tensors: facts.unexpected,
        })
    }
}

impl fmt::Display for ModelInfo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut row = |label: &str, text: String| writeln!(f, "{label:<14} {text}");
        row("model", self.name.clone())?;
        row("path", self.path.display().to_string())?;
        row("architecture", self.shape())?;
        let window = self.sliding_window.map_or(String::new(), |tokens| {
            format!("; some layers see the newest {} tokens only", grouped(tokens as u64))
        });
        row(
            "attention",
            format!(
                "{} heads of {}, {} for keys and values; RoPE base {}{window}",
                self.attention_heads,
                self.head_dim,
                self.key_value_heads,
                grouped(self.rope_theta as u64)
            ),
        )?;
        let head = if self.tied_head { "the embedding serves as head" } else { "with a head of its own" };
        row("parameters", format!("{}; {head}", grouped(self.parameters)))?;
        let formats = self.stored.iter().map(|(format, stored)| {
            let tensors = if stored.tensors == 1 { "tensor" } else { "tensors" };
            format!("{format} {} in {} {tensors}", grouped(stored.parameters), grouped(stored.tensors))
        });
        row("on disk", format!("{}: {}", size(self.bytes_on_disk), formats.collect::<Vec<_>>().join(", ")))?;
        row("context", format!("{} tokens", grouped(self.context as u64)))?;
        let cache = &self.kv_cache_bytes_per_1000_tokens;
        row(
            "KV cache",
            format!("1,000 tokens take {} in bf16, {} in f32", size(cache.bf16), size(cache.f32)),
        )?;
        let bos = self.bos.map_or("no token that begins a text".into(), |bos| format!("{bos} begins a text"));
        row("tokenizer", format!("{} tokens; {bos}, {} ends it", grouped(self.vocabulary as u64), self.eos))?;
        row(
            "chat template",
            match (&self.chat_template_fault, self.end_of_turn) {
                (Some(fault), _) => format!("not usable: {fault}"),
                (None, Some(end)) => format!("usable; token {end} ends a turn"),
                (None, None) => "usable".into(),
            },
        )?;
        if let (Some(version), Some(base)) = (self.policy_version, &self.base) {
            let harness = self.harness_digest.as_deref().unwrap_or("none");
            row("checkpoint", format!("policy v{version} of `{base}`, harness {harness}"))?;
        }
        for (label, names) in [("missing", &self.missing_tensors), ("unexpected", &self.unexpected_tensors)] {
            if let Some(first) = names.first() {
                row(label, format!("{} tensors, `{first}` among them", names.len()))?;
            }
        }
        Ok(())
    }
}

impl ModelInfo {
    fn shape(&self) -> String {
        let experts = self
            .experts
            .map_or(String::new(), |[count, used]| format!(", {count} experts of which a token uses {used}"));
        format!(
            "{}: {} layers, {} wide, feed-forward {}{experts}",
            self.architecture,
            self.layers,
            grouped(self.hidden_size as u64),
            grouped(self.intermediate_size as u64)
        )
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in decimal units, as disks are sold.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}
