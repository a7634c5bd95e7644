//! What text does a teacher read? Prompt files, built in, or from a folder of the campaign.

use std::path::Path;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use tandem_host::forge::Language;
use tandem_host::plugin::{Capability, HookPoint};

use super::super::edit::LimitsEdit;
use super::super::signals::Signal;
use super::languages::LanguageText;

/// A prompt file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    HarnessSystem,
    HarnessUser,
    SkillSystem,
    SkillUser,
    Repair,
}

macro_rules! built_in {
    ($name:literal) => {
        ($name, include_str!(concat!("../prompts/", $name)))
    };
}

impl Prompt {
    const ALL: [Self; 5] =
        [Self::HarnessSystem, Self::HarnessUser, Self::SkillSystem, Self::SkillUser, Self::Repair];

    /// File name and built-in text.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Self::HarnessSystem => built_in!("harness.system.md.j2"),
            Self::HarnessUser => built_in!("harness.user.md.j2"),
            Self::SkillSystem => built_in!("skill.system.md.j2"),
            Self::SkillUser => built_in!("skill.user.md.j2"),
            Self::Repair => built_in!("repair.md.j2"),
        }
    }
}

/// The prompts of one teacher.
pub struct Prompts(Environment<'static>);

impl Prompts {
    /// The built-in files, with those of `folder` in their place.
    ///
    /// # Errors
    /// A file that cannot be read or is no template, and a folder in which none of the names is known.
    pub fn open(folder: Option<&Path>) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_keep_trailing_newline(true);
        // These are texts for a model; nothing in them is HTML.
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let mut taken = 0;
        for prompt in Prompt::ALL {
            let (name, text) = prompt.file();
            let path = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
            let text = match &path {
                None => text.to_owned(),
                Some(path) => {
                    taken += 1;
                    std::fs::read_to_string(path).map_err(|error| {
                        format!(
                            "the prompt file {} cannot be read: {error}\nhelp: check `prompts`",
                            path.display()
                        )
                    })?
                }
            };
            environment.add_template_owned(name, text).map_err(|error| broken(name, &error))?;
        }
        if let (Some(folder), 0) = (folder, taken) {
            let names = Prompt::ALL.map(|prompt| prompt.file().0).join(", ");
            return Err(format!(
                "the folder {} holds no prompt file\nhelp: the names are {names}",
                folder.display()
            ));
        }
        Ok(Self(environment))
    }

    /// Renders a prompt.
    ///
    /// # Errors
    /// A file that uses what is not there, in one sentence with its help.
    pub fn render(&self, prompt: Prompt, context: impl Serialize) -> Result<String, String> {
        let name = prompt.file().0;
        let template = self.0.get_template(name).map_err(|error| broken(name, &error))?;
        template.render(context).map_err(|error| broken(name, &error))
    }
}

fn broken(name: &str, error: &minijinja::Error) -> String {
    let line = error.line().map_or_else(String::new, |line| format!(", line {line}"));
    format!(
        "the prompt file {name}{line} cannot be used: {error:#}\nhelp: the built-in files show what each may use"
    )
}

/// A plugin as a teacher sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginText {
    pub name: String,
    pub grants: Vec<String>,
    pub language: Language,
    /// Not known for a component that was handed over without its source.
    pub source: Option<String>,
    /// JSON; empty where there are none.
    pub settings: String,
    /// The JSON Schema of its settings, if it declares one.
    pub schema: Option<String>,
}

/// What the harness teacher reads of the contract and of its language: the same in every
/// request, so that endpoints may keep it in their caches.
#[derive(Serialize)]
pub struct ContractText {
    points: Vec<&'static str>,
    grants: Vec<&'static str>,
    contract: &'static str,
    language: LanguageText,
    /// What each limit may be set to.
    limits: String,
}

impl ContractText {
    pub fn new(language: Language) -> Self {
        Self {
            points: HookPoint::ALL.map(HookPoint::name).to_vec(),
            grants: Capability::ALL.map(Capability::name).to_vec(),
            contract: include_str!("../../../wit/harness.wit").trim_end(),
            language: LanguageText::of(language),
            limits: LimitsEdit::ranges(),
        }
    }
}

/// A source without its tests, which a request has no room for.
pub fn without_tests(source: &str) -> String {
    source.split("\n#[cfg(test)]").next().unwrap_or(source).trim_end().to_owned()
}

/// What a signal means, for a model.
pub fn meaning(signal: Signal) -> &'static str {
    match signal {
        Signal::LimitWithEdits => {
            "a limit ended the episode while the work tree held changes that nobody handed in"
        }
        Signal::LimitWithoutEdits => "a limit ended the episode and nothing had been changed",
        Signal::EmptyPatch => "the policy handed in an empty patch",
        Signal::PatchDoesNotApply => "the text that the policy handed in does not apply",
        Signal::NewFileMissing => "a new file of the work tree is not in the patch that was handed in",
        Signal::FormatError => "a reply did not hold exactly one action",
        Signal::RepeatedCommand => "the same command was run four times or more",
        Signal::CommandTimeout => "a command was stopped at its time limit",
        Signal::UnknownName => "a name that does not exist was called or imported",
        Signal::FailedEdit => "a command that edits a file failed or changed nothing",
        Signal::BrokenSyntax => "after an edit something did not parse any more",
        Signal::TestsEdited => "the patch changes tests that were there before",
        Signal::EncodingChanged => {
            "the patch changes nothing but line endings or the byte order mark of some lines"
        }
        Signal::UntestedHandIn => "nothing was run between the last edit and the hand-in",
        Signal::MissingPath => "paths that do not exist were named, twice or more",
        Signal::InteractiveCommand => "a command waited for a person",
        Signal::FlakyCommand => "a command failed with a cause that often passes",
        Signal::LongTestFailure => "a failing test run had an output that is long to read",
        Signal::LongOutput => "results were long to read, twice or more",
        Signal::SlowSearch => "a search took long, or found more than can be read",
        Signal::ManyLooks => "many looks at files in a row, without a change",
    }
}
