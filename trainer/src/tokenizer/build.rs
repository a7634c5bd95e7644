//! What does the tokenizer.json of a GGUF file's tokenizer look like?
//!
//! A GGUF file has the vocabulary and the merges but only a name for the rest. So
//! the file that Hugging Face would ship is written from them, and everything
//! after that has one source: a tokenizer.json.

use serde_json::{Value, json};

use super::TokenizerError;
use crate::weights::Metadata;

/// llama.cpp's token types that are matched as a whole: control and user-defined.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The tokenizer.json and tokenizer_config.json that say what the metadata say.
pub(super) fn from_gguf(metadata: &Metadata) -> Result<(Value, Value), TokenizerError> {
    let kind = metadata.text("tokenizer.ggml.model")?;
    if kind != "gpt2" {
        return Err(unsupported(metadata, "tokenizer", kind, "byte-level BPE (`gpt2`)"));
    }
    let pre = metadata.text("tokenizer.ggml.pre")?;
    let pre_tokenizer = match pre {
        "smollm" => json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Digits", "individual_digits": true },
            byte_level(),
        ]}),
        "gpt-2" => byte_level(),
        _ => return Err(unsupported(metadata, "pre-tokenizer", pre, "`smollm` or `gpt-2`")),
    };

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
    // As pairs: a merge as one text could not be split if its tokens held spaces.
    let merges = metadata
        .texts("tokenizer.ggml.merges")?
        .into_iter()
        .map(|merge| {
            let (left, right) = merge.split_once(' ').ok_or_else(|| {
                TokenizerError::broken(metadata.path(), format!("its merge `{merge}` is not a pair"))
            })?;
            Ok(json!([left, right]))
        })
        .collect::<Result<Vec<_>, TokenizerError>>()?;

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
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocabulary,
            "merges": merges,
        },
    });
    let mut config = json!({
        // The class that takes everything from tokenizer.json.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": metadata.count("llama.context_length")?,
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
    if metadata.has("tokenizer.chat_template") {
        config["chat_template"] = metadata.text("tokenizer.chat_template")?.into();
    }
    Ok((tokenizer, config))
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
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
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
