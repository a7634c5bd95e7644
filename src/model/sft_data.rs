//! Which tokens of a file of examples are learnt?

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tandem_trainer::learner::{Sample, shuffled};
use tandem_trainer::tokenizer::{ChatMessage, ChatTemplate, Tokenizer};

/// A line of the file. Fields beside these, such as the task of a demonstration, are not read.
#[derive(Deserialize)]
struct Row {
    /// A conversation: what the assistant says is learnt, with the token that ends each turn.
    messages: Option<Vec<ChatMessage>>,
    /// A text, and how it goes on: the completion is learnt, with the token that ends a text.
    prompt: Option<String>,
    completion: Option<String>,
}

/// Examples as the learner takes them.
pub struct Examples {
    pub samples: Vec<Sample>,
    /// Examples that were longer than the limit.
    pub left_out: usize,
}

/// Reads a JSONL file of conversations or of prompts with completions.
///
/// # Errors
/// When a line is neither, teaches nothing, or cannot be tokenised; the error names the line.
pub fn read(path: &Path, tokenizer: &Tokenizer, chat: &ChatTemplate, max_tokens: usize) -> Result<Examples> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name} cannot be opened\nhelp: check the path"))?;
    let mut examples = Examples { samples: Vec::new(), left_out: 0 };
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let number = index + 1;
        let line = line.with_context(|| format!("line {number} of {name} cannot be read"))?;
        if line.trim().is_empty() {
            continue;
        }
        let sample = sample(&line, tokenizer, chat)
            .with_context(|| format!("line {number} of {name} is no example"))?;
        if sample.ids.len() > max_tokens {
            examples.left_out += 1;
        } else {
            examples.samples.push(sample);
        }
    }
    if examples.samples.is_empty() {
        match examples.left_out {
            0 => bail!("{name} holds no example\nhelp: write one JSON object on each line"),
            count => bail!(
                "all {count} examples of {name} are longer than {max_tokens} tokens\nhelp: raise `--max-tokens`"
            ),
        }
    }
    Ok(examples)
}

fn sample(line: &str, tokenizer: &Tokenizer, chat: &ChatTemplate) -> Result<Sample> {
    const SHAPE: &str = "help: a line is {\"messages\": [{\"role\": \"user\", \"content\": \"…\"}, {\"role\": \"assistant\", \"content\": \"…\"}]} or {\"prompt\": \"…\", \"completion\": \"…\"}";
    let row: Row = serde_json::from_str(line).with_context(|| format!("it is not right\n{SHAPE}"))?;
    let sample = match row {
        Row { messages: Some(messages), prompt: None, completion: None } => {
            let tokens = chat.conversation(&messages)?;
            Sample::demonstration(tokens.ids, tokens.mask)
        }
        Row { messages: None, prompt: Some(prompt), completion: Some(completion) } => {
            let mut ids = tokenizer.encode_document(&prompt)?;
            let before = ids.len();
            ids.extend(tokenizer.encode(&completion)?);
            ids.push(tokenizer.eos());
            let mask = (0..ids.len()).map(|at| at >= before.max(1)).collect();
            Sample::demonstration(ids, mask)
        }
        _ => bail!("it has neither `messages` alone nor `prompt` and `completion`\n{SHAPE}"),
    };
    if sample.trained() == 0 {
        bail!("nothing of it is learnt\nhelp: a conversation needs at least one message of the assistant");
    }
    Ok(sample)
}

/// Splits off a share of the samples for validation, drawn by `seed`: at least one, and never all.
pub fn split(samples: Vec<Sample>, share: f64, seed: u64) -> (Vec<Sample>, Vec<Sample>) {
    if share <= 0.0 || samples.len() < 2 {
        return (samples, Vec::new());
    }
    let count = ((samples.len() as f64 * share).round() as usize).clamp(1, samples.len() - 1);
    let mut chosen = vec![false; samples.len()];
    // A stream of its own: the order of the first epoch is drawn from the seed as it is.
    for index in &shuffled(samples.len(), !seed)[..count] {
        chosen[*index] = true;
    }
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for (sample, chosen) in samples.into_iter().zip(chosen) {
        if chosen { validation.push(sample) } else { train.push(sample) }
    }
    (train, validation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// What is learnt, between brackets.
    fn check(line: &str, expected: Expect) {
        let tokenizer = Tokenizer::of_bytes();
        let chat = ChatTemplate::new(&tokenizer).unwrap();
        let text = match sample(line, &tokenizer, &chat) {
            Ok(sample) => {
                let mut text = String::new();
                let mut before = false;
                for (id, trained) in sample.ids.iter().zip(sample.mask) {
                    if trained != before {
                        text.push(if trained { '[' } else { ']' });
                    }
                    before = trained;
                    text.push_str(&tokenizer.decode_with_special(&[*id]).unwrap());
                }
                if before { text + "]" } else { text }
            }
            Err(error) => crate::cli::render_error(&error),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn what_the_assistant_says_is_learnt_and_nothing_else() {
        check(
            r#"{"task": "t", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}"#,
            expect![[r#"
                <|im_start|>user
                Hi<|im_end|>
                <|im_start|>assistant
                [Yes?<|im_end|>]
                <|im_start|>user
                x<|im_end|>
                <|im_start|>assistant
                [y<|im_end|>]"#]],
        );
    }

    #[test]
    fn a_completion_is_learnt_with_its_end_and_without_a_template() {
        check(r#"{"prompt": "1 + 1 =", "completion": " 2"}"#, expect!["1 + 1 =[ 2<|im_end|>]"]);
        // Nothing comes before the first token, so it cannot be learnt.
        check(r#"{"prompt": "", "completion": "ab"}"#, expect!["a[b<|im_end|>]"]);
    }

    #[test]
    fn a_line_that_teaches_nothing_is_named_with_the_shape_it_should_have() {
        check(
            r#"{"messages": [{"role": "user", "content": "Hi"}]}"#,
            expect![[r#"
                error: nothing of it is learnt
                help: a conversation needs at least one message of the assistant"#]],
        );
        check(
            r#"{"prompt": "Hi"}"#,
            expect![[r#"
                error: it has neither `messages` alone nor `prompt` and `completion`
                help: a line is {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]} or {"prompt": "…", "completion": "…"}"#]],
        );
    }

    #[test]
    fn a_split_is_a_partition_that_depends_on_the_seed_alone() {
        let samples: Vec<Sample> =
            (0..10).map(|id| Sample::demonstration(vec![id, id], vec![false, true])).collect();
        let firsts = |samples: &[Sample]| samples.iter().map(|sample| sample.ids[0]).collect::<Vec<_>>();
        let (train, validation) = split(samples.clone(), 0.25, 3);
        assert_eq!((train.len(), validation.len()), (7, 3));
        let mut all = [firsts(&train), firsts(&validation)].concat();
        all.sort_unstable();
        assert_eq!(all, firsts(&samples));
        assert_eq!(firsts(&split(samples.clone(), 0.25, 3).1), firsts(&validation));
        assert_eq!(split(samples.clone(), 0.999, 3).0.len(), 1);
        assert_eq!(split(samples, 0.0, 3).1.len(), 0);
    }
}
