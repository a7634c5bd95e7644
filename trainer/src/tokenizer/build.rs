//! What does the tokenizer.json of a GGUF file's tokenizer look like?
//!
//! A GGUF file has the vocabulary and the merges but only a name for the rest. So
//! the file that Hugging Face would ship is written from them, and everything
//! after that has one source: a tokenizer.json.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::TokenizerError;
use crate::weights::Metadata;

/// llama.cpp's token types: those that text is made of, those that are matched as a whole (control
/// and user-defined), and single bytes.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// The tokenizer.json and tokenizer_config.json that say what the metadata say.
pub(super) fn from_gguf(metadata: &Metadata) -> Result<(Value, Value), TokenizerError> {
    let tokens = metadata.texts("tokenizer.ggml.tokens")?;
    let types = match metadata.has("tokenizer.ggml.token_type") {
        true => metadata.integers("tokenizer.ggml.token_type")?,
        false => Vec::new(),
    };
    let added: Vec<Value> = (0..)
        .zip(&tokens)
        .zip(&types)
        .filter(|(_, kind)| [CONTROL, USER_DEFINED].contains(kind))
        .map(|((id, token), kind)| added_token(id, token, *kind == CONTROL))
        .collect();
    let vocabulary: serde_json::Map<String, Value> =
        (0u32..).zip(&tokens).map(|(id, token)| (token.to_string(), id.into())).collect();
    let token_at = |key: &str| -> Result<Option<&str>, TokenizerError> {
        if !metadata.has(key) {
            return Ok(None);
        }
        let id = metadata.id(key)?;
        let token = tokens.get(id as usize).ok_or_else(|| {
            let reason = format!("`{key}` is {id} and the vocabulary has {} tokens", tokens.len());
            TokenizerError::broken(metadata.path(), reason)
        })?;
        Ok(Some(token))
    };
    let unknown = token_at("tokenizer.ggml.unknown_token_id")?;
    let kind = metadata.text("tokenizer.ggml.model")?;
    let parts = match kind {
        "gpt2" => byte_level_parts(metadata)?,
        "llama" => sentence_piece_parts(metadata, &tokens, &types)?,
        _ => {
            let known = "byte-level BPE (`gpt2`) or SentencePiece (`llama`)";
            return Err(unsupported(metadata, "tokenizer", kind, known));
        }
    };
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": parts.normalizer,
        "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": null,
        "decoder": parts.decoder,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": parts.bytes_are_tokens,
            "byte_fallback": parts.bytes_are_tokens,
            "ignore_merges": false,
            "vocab": vocabulary,
            "merges": parts.merges,
        },
    });
    let context = format!("{}.context_length", metadata.text("general.architecture")?);
    let mut config = json!({
        // The class that takes everything from tokenizer.json.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": metadata.count(&context)?,
    });
    for (name, key) in [
        ("bos_token", "tokenizer.ggml.bos_token_id"),
        ("eos_token", "tokenizer.ggml.eos_token_id"),
        ("pad_token", "tokenizer.ggml.padding_token_id"),
        ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ] {
        if let Some(token) = token_at(key)? {
            config[name] = token.into();
        }
    }
    if metadata.flag("tokenizer.ggml.add_bos_token") {
        config["add_bos_token"] = true.into();
    }
    if metadata.has("tokenizer.chat_template") {
        config["chat_template"] = metadata.text("tokenizer.chat_template")?.into();
    }
    Ok((tokenizer, config))
}

/// What differs between the kinds of tokenizer.
struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    /// As pairs: a merge as one text could not be split if its tokens held spaces.
    merges: Vec<[String; 2]>,
    /// Whether what the vocabulary lacks is spelled in tokens such as `<0x0A>`.
    bytes_are_tokens: bool,
}

/// How texts are cut before byte-level BPE, by the name of llama.cpp. The patterns are the models' own.
fn pre_tokenizer(metadata: &Metadata) -> Result<Value, TokenizerError> {
    /// Of Qwen2: contractions, words, single digits, punctuation, line ends, space.
    const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    /// Of Llama 3: the same with up to three digits.
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let split = |pattern: &str| {
        json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        ]})
    };
    let pre = metadata.text("tokenizer.ggml.pre")?;
    Ok(match pre {
        "smollm" => json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Digits", "individual_digits": true },
            byte_level(),
        ]}),
        "gpt-2" => byte_level(),
        "qwen2" => split(QWEN2),
        "llama-bpe" => split(LLAMA3),
        _ => {
            return Err(unsupported(
                metadata,
                "pre-tokenizer",
                pre,
                "`smollm`, `gpt-2`, `qwen2` or `llama-bpe`",
            ));
        }
    })
}

fn byte_level_parts(metadata: &Metadata) -> Result<Parts, TokenizerError> {
    let merges = metadata
        .texts("tokenizer.ggml.merges")?
        .into_iter()
        .map(|merge| {
            let (left, right) = merge.split_once(' ').ok_or_else(|| {
                TokenizerError::broken(metadata.path(), format!("its merge `{merge}` is not a pair"))
            })?;
            Ok([left.to_owned(), right.to_owned()])
        })
        .collect::<Result<Vec<_>, TokenizerError>>()?;
    let pre_tokenizer = pre_tokenizer(metadata)?;
    let normalizer = match metadata.text("tokenizer.ggml.pre")? {
        "qwen2" => json!({ "type": "NFC" }),
        _ => Value::Null,
    };
    Ok(Parts { normalizer, pre_tokenizer, decoder: byte_level_decoder(), merges, bytes_are_tokens: false })
}

/// SentencePiece's BPE has scores instead of merges: of all pairs that make a token, that of the best
/// token is joined first.
fn sentence_piece_parts(
    metadata: &Metadata,
    tokens: &[&str],
    types: &[i64],
) -> Result<Parts, TokenizerError> {
    let scores = metadata.numbers("tokenizer.ggml.scores")?;
    if scores.len() != tokens.len() || types.len() != tokens.len() {
        let reason =
            format!("it has {} scores and {} types of {} tokens", scores.len(), types.len(), tokens.len());
        return Err(TokenizerError::broken(metadata.path(), reason));
    }
    let is_normal = |id: usize| types[id] == NORMAL;
    let known: HashMap<&str, usize> =
        tokens.iter().enumerate().filter(|(id, _)| is_normal(*id)).map(|(id, token)| (*token, id)).collect();
    // Score, then both sides, so that the order is always the same.
    let mut merges: Vec<(f64, usize, usize)> = Vec::new();
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| is_normal(*id)) {
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            if let (Some(left), Some(right)) = (known.get(left), known.get(right)) {
                merges.push((scores[id], *left, *right));
            }
        }
    }
    merges.sort_by(|one, other| {
        other.0.total_cmp(&one.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2)))
    });
    let merges =
        merges.into_iter().map(|(_, left, right)| [tokens[left].to_owned(), tokens[right].to_owned()]);
    let replace = json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE });
    // llama.cpp adds the space unless the file says no.
    let normalizer = match metadata.has("tokenizer.ggml.add_space_prefix")
        && !metadata.flag("tokenizer.ggml.add_space_prefix")
    {
        true => replace,
        false => {
            json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": SPACE }, replace] })
        }
    };
    let decoder = json!({ "type": "Sequence", "decoders": [
        { "type": "Replace", "pattern": { "String": SPACE }, "content": " " },
        { "type": "ByteFallback" },
        { "type": "Fuse" },
    ]});
    Ok(Parts {
        normalizer,
        pre_tokenizer: Value::Null,
        decoder,
        merges: merges.collect(),
        bytes_are_tokens: true,
    })
}

fn byte_level_decoder() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true })
}

fn byte_level() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true })
}

fn added_token(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": special,
    })
}

fn unsupported(metadata: &Metadata, what: &'static str, found: &str, known: &'static str) -> TokenizerError {
    TokenizerError::Unsupported { path: metadata.path().to_owned(), what, found: found.into(), known }
}

/// The tokens after the 256 bytes of [`of_bytes`]: end of text, and the two of ChatML.
const CHATML: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// ChatML without a default system message.
const CHATML_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' \
    + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Gemma's turns. A system message is a turn of the user, as Gemma has no other place for it.
const GEMMA_TEMPLATE: &str = "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' \
    + ('model' if message['role'] == 'assistant' else 'user') + '\n' + message['content'] + '<end_of_turn>' + '\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}";

/// Chat templates by the tokens that a vocabulary needs for them.
pub(super) const TEMPLATES: [(&[&str], &str); 2] = [
    (&["<start_of_turn>", "<end_of_turn>"], GEMMA_TEMPLATE),
    (&["<|im_start|>", "<|im_end|>"], CHATML_TEMPLATE),
];

/// A tokenizer whose token `b` is the byte `b`, with the special tokens of ChatML after them.
pub(super) fn of_bytes() -> (Value, Value) {
    let mut vocabulary: serde_json::Map<String, Value> =
        (0..=255u8).map(|byte| (byte_character(byte).to_string(), byte.into())).collect();
    let mut added = Vec::new();
    for (id, token) in (256..).zip(CHATML) {
        vocabulary.insert(token.into(), id.into());
        added.push(added_token(id, token, true));
    }
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level(), "post_processor": null,
        "decoder": byte_level_decoder(),
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    });
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
        "bos_token": CHATML[1], "eos_token": CHATML[2], "pad_token": CHATML[2], "unk_token": CHATML[0],
        "chat_template": CHATML_TEMPLATE,
    });
    (tokenizer, config)
}

/// The printable character that stands for a byte in a byte-level vocabulary (GPT-2's table).
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    // The others are numbered from U+0100 in their order.
    let before = (0..byte).filter(|other| !printable(*other)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}
