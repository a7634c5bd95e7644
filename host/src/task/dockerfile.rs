//! Which instructions of a task's Dockerfile does this host not follow?

/// A sentence for each kind of instruction that has no effect here, with its lines.
///
/// `FROM`, and `COPY` and `WORKDIR` for the task's own files, are what
/// `environment/workspace` at `/workspace` stands for.
pub(super) fn unused(text: &str) -> Vec<String> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    let mut continued = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let starts = !continued;
        continued = line.ends_with('\\');
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default().to_ascii_uppercase();
        let served = match instruction.as_str() {
            "FROM" | "LABEL" | "MAINTAINER" => true,
            "COPY" => words.find(|word| !word.starts_with("--")).is_some_and(is_workspace),
            "WORKDIR" => words.next() == Some("/workspace"),
            _ => false,
        };
        if starts && !served {
            match found.iter_mut().find(|(name, _)| *name == instruction) {
                Some((_, lines)) => lines.push(at + 1),
                None => found.push((instruction, vec![at + 1])),
            }
        }
    }
    let sentence = |(name, lines): (String, Vec<usize>)| {
        let numbers: Vec<_> = lines.iter().map(ToString::to_string).collect();
        let word = if lines.len() == 1 { "line" } else { "lines" };
        format!("`{name}` in the Dockerfile ({word} {}) is not used", numbers.join(", "))
    };
    found.into_iter().map(sentence).collect()
}

fn is_workspace(source: &str) -> bool {
    source.trim_start_matches("./").trim_end_matches(['/', '.']) == "workspace"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(unused(text), expected, "{text}");
    }

    #[test]
    fn only_what_has_no_effect_is_named() {
        check("FROM python:3.11-slim\nWORKDIR /workspace\nCOPY workspace/ /workspace\n", &[]);
        check("from x\ncopy --chown=a ./workspace/. .\n# RUN\n\n", &[]);
        check(
            "FROM x\nRUN apt-get update && \\\n  apt-get install y\nRUN z\n",
            &["`RUN` in the Dockerfile (lines 2, 4) is not used"],
        );
        check(
            "FROM x\nENV A=1\nWORKDIR /app\nCOPY other /x\n",
            &[
                "`ENV` in the Dockerfile (line 2) is not used",
                "`WORKDIR` in the Dockerfile (line 3) is not used",
                "`COPY` in the Dockerfile (line 4) is not used",
            ],
        );
    }
}
