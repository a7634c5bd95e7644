//! How does text become ids, and ids text?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{TokenizerError, build};
use crate::weights::Metadata;

/// A policy's tokenizer; clones share it.
#[derive(Clone)]
pub struct Tokenizer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Where it came from, for error messages.
    origin: PathBuf,
    /// Matches special tokens in text: for the fixed parts of a chat template only.
    template: tokenizers::Tokenizer,
    /// Knows no added tokens but white space, so whatever is said in a message stays text.
    plain: tokenizers::Tokenizer,
    /// tokenizer_config.json, kept whole so that a checkpoint loses nothing.
    config: Value,
    bos: Option<u32>,
    eos: u32,
    vocabulary: usize,
    /// What stands for bytes that the vocabulary lacks.
    replacement: Vec<u32>,
}

impl Tokenizer {
    /// The tokenizer in a GGUF file's metadata.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let (tokenizer, config) = build::from_gguf(metadata)?;
        Self::new(metadata.path(), tokenizer, config)
    }

    /// The tokenizer in a Hugging Face folder: tokenizer.json, tokenizer_config.json
    /// and, where it is a file of its own, chat_template.jinja.
    pub fn from_folder(folder: &Path) -> Result<Self, TokenizerError> {
        let tokenizer = read_json(&folder.join("tokenizer.json"))?;
        let config_path = folder.join("tokenizer_config.json");
        let mut config = read_json(&config_path)?;
        let template = folder.join("chat_template.jinja");
        if template.exists() {
            let text = std::fs::read_to_string(&template).map_err(TokenizerError::io(&template))?;
            config["chat_template"] = text.into();
        }
        if !config.is_object() {
            return Err(TokenizerError::broken(&config_path, "it is not a JSON object"));
        }
        Self::new(folder, tokenizer, config)
    }

    /// A tokenizer whose token `b` is the byte `b`, followed by `<|endoftext|>`,
    /// `<|im_start|>` and `<|im_end|>` (259 tokens), with the ChatML template; for
    /// policies so small that a vocabulary would be most of them.
    pub fn of_bytes() -> Self {
        let (tokenizer, config) = build::of_bytes();
        match Self::new(Path::new("bytes"), tokenizer, config) {
            Ok(tokenizer) => tokenizer,
            Err(error) => unreachable!("the byte tokenizer is fixed: {error}"),
        }
    }

    fn new(origin: &Path, tokenizer: Value, config: Value) -> Result<Self, TokenizerError> {
        let load = |value: &Value| {
            tokenizers::Tokenizer::from_bytes(value.to_string())
                .map_err(|error| TokenizerError::broken(origin, error))
        };
        let mut bare = tokenizer.clone();
        // Runs of white space that a vocabulary matches as a whole (Gemma's) are text like any other.
        if let Some(added) = bare["added_tokens"].as_array_mut() {
            added.retain(is_space);
        }
        let (template, plain) = (load(&tokenizer)?, load(&bare)?);

        let named = |name: &str| token_text(&config[name]).and_then(|text| template.token_to_id(text));
        let Some(eos) = named("eos_token") else {
            return Err(TokenizerError::broken(origin, "its `eos_token` is not in the vocabulary"));
        };
        let bos = named("bos_token");
        let vocabulary = template.get_vocab_size(true);
        let replacement = ids(&plain, "\u{fffd}")?;
        let shared =
            Shared { origin: origin.to_owned(), template, plain, config, bos, eos, vocabulary, replacement };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The ids of a text. Nothing in it becomes a special token: text that spells
    /// `<|im_end|>` is ordinary characters, not the end of a turn; and a byte that the
    /// vocabulary lacks (SmolLM2's has no `U+0004`, for one) becomes `U+FFFD`, where
    /// `transformers` would put the special token for unknown text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut found = ids(&self.shared.plain, text)?;
        let added = self.shared.template.get_added_vocabulary().get_added_tokens_decoder();
        let spaces = self.shared.plain.get_added_vocabulary().get_added_tokens_decoder();
        let known = |id: u32| !added.contains_key(&id) || spaces.contains_key(&id);
        if !found.iter().all(|id| known(*id)) {
            let replacement = &self.shared.replacement;
            found = found.into_iter().fold(Vec::new(), |mut all, id| {
                if known(id) {
                    all.push(id)
                } else {
                    all.extend(replacement.iter().filter(|id| known(**id)))
                }
                all
            });
        }
        Ok(found)
    }

    /// The ids of trusted text, such as a template's, with special tokens matched.
    pub fn encode_with_special(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        ids(&self.shared.template, text)
    }

    /// The ids of a text that stands for itself, outside any conversation: as [`encode`](Self::encode),
    /// after the token that begins a text where the policy was trained to see one.
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let with_start = self.shared.template.encode_fast("", true).map_err(TokenizerError::coding)?;
        let begins = self.shared.config["add_bos_token"] == true
            || (self.shared.bos.is_some() && with_start.get_ids().first() == self.shared.bos.as_ref());
        let mut ids: Vec<u32> = self.shared.bos.filter(|_| begins).into_iter().collect();
        ids.extend(self.encode(text)?);
        Ok(ids)
    }

    /// The text of ids, without special tokens. Ids past the vocabulary are left out;
    /// an incomplete character becomes `U+FFFD`.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.shared.template.decode(ids, true).map_err(TokenizerError::coding)
    }

    /// The text of ids with special tokens spelled out, for people to read.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.shared.template.decode(ids, false).map_err(TokenizerError::coding)
    }

    /// The id of a token as it is spelled in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.shared.template.token_to_id(token)
    }

    /// The texts that the tokenizer matches as a whole, special or not.
    pub(super) fn added_texts(&self) -> Vec<String> {
        let added = self.shared.template.get_added_vocabulary().get_added_tokens_decoder();
        added.values().map(|token| token.content.clone()).filter(|text| !text.trim().is_empty()).collect()
    }

    /// The token that ends a turn.
    pub fn eos(&self) -> u32 {
        self.shared.eos
    }

    /// The token that begins a text, if the policy has one. Chat templates write it themselves.
    pub fn bos(&self) -> Option<u32> {
        self.shared.bos
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.shared.vocabulary
    }

    /// Where the tokenizer came from.
    pub fn origin(&self) -> &Path {
        &self.shared.origin
    }

    /// The source of the chat template.
    pub(super) fn template_source(&self) -> Option<&str> {
        self.shared.config["chat_template"].as_str()
    }

    /// For a base policy, which comes without a chat template: the one that its vocabulary has the tokens of.
    pub(super) fn template_of_vocabulary(&self) -> Option<&'static str> {
        let known = |token: &str| self.shared.template.token_to_id(token).is_some();
        build::TEMPLATES
            .iter()
            .find(|(tokens, _)| tokens.iter().all(|token| known(token)))
            .map(|(_, text)| *text)
    }

    /// A special token's text by its role in tokenizer_config.json, such as `eos_token`.
    pub(super) fn token_text(&self, role: &str) -> &str {
        token_text(&self.shared.config[role]).unwrap_or("")
    }

    /// Writes tokenizer.json and tokenizer_config.json (which holds the chat template)
    /// into a folder, as `transformers` reads them.
    pub fn save(&self, folder: &Path) -> Result<(), TokenizerError> {
        let path = folder.join("tokenizer.json");
        let text =
            self.shared.template.to_string(true).map_err(|error| TokenizerError::broken(&path, error))?;
        std::fs::write(&path, text).map_err(TokenizerError::io(&path))?;
        let path = folder.join("tokenizer_config.json");
        let text = serde_json::to_string_pretty(&self.shared.config)
            .map_err(|error| TokenizerError::broken(&path, error))?;
        std::fs::write(&path, text).map_err(TokenizerError::io(&path))
    }
}

/// A token in tokenizer_config.json is a text, or an object with its `content`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

fn ids(tokenizer: &tokenizers::Tokenizer, text: &str) -> Result<Vec<u32>, TokenizerError> {
    // No post-processor: a template says itself whether a text begins with BOS.
    let encoding = tokenizer.encode_fast(text, false).map_err(TokenizerError::coding)?;
    Ok(encoding.get_ids().to_vec())
}

fn read_json(path: &Path) -> Result<Value, TokenizerError> {
    let text = std::fs::read_to_string(path).map_err(TokenizerError::io(path))?;
    serde_json::from_str(&text).map_err(|error| TokenizerError::broken(path, error))
}

/// Whether an added token is white space and nothing else.
fn is_space(token: &Value) -> bool {
    let is_blank = |c: char| c.is_whitespace() || c == '\u{2581}';
    token["content"].as_str().is_some_and(|text| !text.is_empty() && text.chars().all(is_blank))
        && token["special"] != true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SMOLLM2, weights};
    use crate::weights::Gguf;

    #[test]
    fn bytes_survive_the_byte_tokenizer() {
        let tokenizer = Tokenizer::of_bytes();
        assert_eq!(tokenizer.vocab_size(), 259);
        assert_eq!(tokenizer.eos(), 258);
        for text in ["", "abc", "ü 漢字 🦀", "\u{0}\u{1}\n\t\r\u{7f}", "<|im_end|>"] {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
        assert_eq!(tokenizer.encode_with_special("a<|im_end|>").unwrap(), [97, 258]);
    }

    #[test]
    fn a_saved_tokenizer_is_read_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::of_bytes();
        tokenizer.save(folder.path()).unwrap();
        let back = Tokenizer::from_folder(folder.path()).unwrap();
        assert_eq!(back.template_source(), tokenizer.template_source());
        assert_eq!((back.bos(), back.eos(), back.vocab_size()), (Some(257), 258, 259));
        assert_eq!(back.encode_with_special("x<|im_start|>").unwrap(), [120, 257]);
        assert_eq!(back.encode("<|im_start|>").unwrap().len(), 12);
    }

    #[test]
    fn a_text_begins_with_bos_only_where_the_tokenizer_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::of_bytes();
        assert_eq!(tokenizer.encode_document("a").unwrap(), [97]);
        tokenizer.save(folder.path()).unwrap();
        let edit = |file: &str, key: &str, value: Value| {
            let path = folder.path().join(file);
            let mut json = read_json(&path).unwrap();
            json[key] = value;
            std::fs::write(&path, json.to_string()).unwrap();
        };
        edit("tokenizer_config.json", "add_bos_token", true.into());
        assert_eq!(Tokenizer::from_folder(folder.path()).unwrap().encode_document("a").unwrap(), [257, 97]);
        edit("tokenizer_config.json", "add_bos_token", Value::Null);
        let begin = serde_json::json!({ "SpecialToken": { "id": "<|im_start|>", "type_id": 0 } });
        let text = serde_json::json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let special = serde_json::json!({
            "<|im_start|>": { "id": "<|im_start|>", "ids": [257], "tokens": ["<|im_start|>"] }
        });
        let processor = serde_json::json!({
            "type": "TemplateProcessing", "single": [begin, text], "pair": [begin, text],
            "special_tokens": special,
        });
        edit("tokenizer.json", "post_processor", processor);
        assert_eq!(Tokenizer::from_folder(folder.path()).unwrap().encode_document("a").unwrap(), [257, 97]);
    }

    #[test]
    fn a_folder_without_a_tokenizer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            Tokenizer::from_folder(folder.path()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("tokenizer.json` cannot be used") && error.contains("\nhelp: "), "{error}");
    }

    /// Ids that `transformers` gives for SmolLM2-135M-Instruct.
    #[test]
    fn smollm2_splits_text_as_hugging_face_does() {
        let Some(path) = weights(SMOLLM2) else { return };
        let tokenizer = Tokenizer::from_gguf(Gguf::open(&path).unwrap().metadata()).unwrap();
        assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab_size()), (Some(1), 2, 49_152));
        let words = |text: &str| -> Vec<String> {
            let ids = tokenizer.encode(text).unwrap();
            ids.iter().map(|id| tokenizer.decode_with_special(&[*id]).unwrap()).collect()
        };
        assert_eq!(words("Hello world"), ["Hello", " world"]);
        // Digits stand alone, without the space before them.
        assert_eq!(words("in 1999"), ["in", " ", "1", "9", "9", "9"]);
        assert_eq!(words("don't"), ["don", "'t"]);
        assert!(!tokenizer.encode("<|im_end|><|endoftext|>\u{4}\u{6}").unwrap().iter().any(|id| *id < 17));
        assert_eq!(tokenizer.decode(&tokenizer.encode("a\u{4}b").unwrap()).unwrap(), "a\u{fffd}b");
        assert_eq!(tokenizer.encode_with_special("<|im_end|>").unwrap(), [2]);
        for text in ["def f(x):\n    return x + 1\n", "naïve café — ½", "日本語 🦀 \r\n\t", "  two  spaces "]
        {
            assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
        }
    }
}
