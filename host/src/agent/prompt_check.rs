//! Do the prompts of a harness hold for whatever happens in an episode?

use super::actions::Malformed;
use super::prompts::{TemplateError, Templates};
use crate::harness::{FormatError, Limits, Prompts, ToolResult, ToolStatus};

/// What the prompts of a harness say, for values such as an episode has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPrompts {
    pub system: String,
    pub instance: String,
    /// One for each way in which a call ends.
    pub observations: Vec<String>,
    /// One for each way in which a reply is no action.
    pub format_errors: Vec<String>,
}

/// Renders every prompt of a harness in every case that an episode knows. `instruction` is the text of
/// the task, `text` the output of a call.
///
/// # Errors
/// The first prompt that cannot be used.
pub fn render_prompts(
    prompts: &Prompts,
    limits: &Limits,
    instruction: &str,
    text: &str,
) -> Result<RenderedPrompts, TemplateError> {
    let templates = Templates::new(prompts, limits)?;
    let ends = [
        (ToolStatus::Finished, Some(0)),
        (ToolStatus::Finished, Some(1)),
        (ToolStatus::Finished, None),
        (ToolStatus::TimedOut, None),
        (ToolStatus::Failed, None),
        (ToolStatus::Refused, None),
    ];
    let observation = |(status, exit_code)| {
        let result = ToolResult { status, exit_code, text: text.into(), raw_bytes: text.len() as u64 };
        templates.observation(&result)
    };
    let kinds = [
        (FormatError::NoAction, 0),
        (FormatError::NoAction, 1),
        (FormatError::SeveralActions, 2),
        (FormatError::UnknownTool, 1),
        (FormatError::BadArguments, 1),
        (FormatError::CutOff, 0),
        (FormatError::CutOff, 1),
    ];
    let mut format_errors = Vec::new();
    for (kind, actions) in kinds {
        for sentence in ["", "The block has no closing fence."] {
            let malformed = Malformed { kind, sentence: sentence.into(), actions };
            format_errors.push(templates.format_error(&malformed, 256)?);
        }
    }
    Ok(RenderedPrompts {
        system: templates.system()?,
        instance: templates.instance(instruction)?,
        observations: ends.into_iter().map(observation).collect::<Result<_, _>>()?,
        format_errors,
    })
}

/// What is no template, or names a value that is not there, is found before an episode is.
///
/// # Errors
/// The first prompt that cannot be used.
pub fn check_prompts(prompts: &Prompts, limits: &Limits) -> Result<(), TemplateError> {
    render_prompts(prompts, limits, "Repair it.", "a.py").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_some_ends_of_a_call_read_is_found() {
        let check = |change: fn(&mut Prompts), expected: Option<&str>| {
            let mut prompts = Prompts::default();
            change(&mut prompts);
            let found = check_prompts(&prompts, &Limits::default()).err();
            assert_eq!(found.map(|error| error.name), expected);
        };
        check(|_| {}, None);
        check(
            |p| p.observation = "{% if status == 'refused' %}{{ why }}{% endif %}".into(),
            Some("observation"),
        );
        check(
            |p| p.format_error = "{% if kind == 'cut-off' %}{{ why }}{% endif %}".into(),
            Some("format_error"),
        );
        check(|p| p.system = "{{ instruction }}".into(), Some("system"));
        check(|p| p.instance = "{{ instruction }}".into(), None);
    }

    #[test]
    fn what_was_given_stands_in_what_is_said() {
        let said = render_prompts(&Prompts::default(), &Limits::default(), "Mend\nit.", "out\nput").unwrap();
        assert!(said.instance.contains("Mend\nit."));
        assert!(said.observations.iter().all(|text| text.contains("out\nput")));
        assert_eq!((said.observations.len(), said.format_errors.len()), (6, 14));
    }
}
