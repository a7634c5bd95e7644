//! What can a harness do inside an agent, and what can that agent not express?

use std::fmt;

use serde::Serialize;
use tandem_host::harness::{HarnessManifest, HookPoint, PluginFacts};

use super::agent::Agent;

/// Whether an agent can express an effect, and how, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "expressed", content = "how")]
pub enum Expressed {
    Yes(&'static str),
    /// In part: what of it holds.
    Part(&'static str),
    No(&'static str),
}

/// One effect of one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub plugin: String,
    pub point: HookPoint,
    pub effect: &'static str,
    #[serde(flatten)]
    pub expressed: Expressed,
}

/// What a harness can do in an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub agent: Agent,
    /// The version that this was written against.
    pub version: &'static str,
    pub effects: Vec<Line>,
    /// Parts of the harness that are the agent's own there.
    pub not_used: Vec<&'static str>,
}

/// The effects of a point, each with what an agent makes of it.
pub fn effects(agent: Agent, point: HookPoint) -> Vec<(&'static str, Expressed)> {
    use Agent::{Claude, Codex, OpenHands};
    use Expressed::{No, Part, Yes};
    match point {
        HookPoint::Tools => {
            vec![("a tool", No("hooks bring no tools; `tandem serve mcp` offers them to the agent"))]
        }
        HookPoint::OnEpisodeStart => {
            vec![("note", Yes("text beside the first message of the user (UserPromptSubmit)"))]
        }
        HookPoint::OnModelCall => match agent {
            Claude => vec![
                ("note", Yes("text before each model call (UserPromptSubmit, PostToolBatch)")),
                ("stop", Yes("ends the agent's turn (`continue: false`)")),
            ],
            Codex => vec![
                ("note", Part("text after each tool call: Codex does not say which calls came together")),
                ("stop", Yes("ends the agent's turn (`continue: false`)")),
            ],
            OpenHands => vec![
                ("note", Part("only before the first model call after a message of the user")),
                ("stop", Part("only there: the message is refused")),
            ],
        },
        HookPoint::OnFormatError => {
            vec![("replace", No("the agent parses the model's output itself and tells hooks nothing"))]
        }
        HookPoint::OnToolCall => vec![
            (
                "rewrite",
                match agent {
                    Claude => Yes("new input (`updatedInput`); the user's permissions still hold"),
                    Codex => Yes("new input (`updatedInput`)"),
                    OpenHands => No("OpenHands runs a tool with the arguments of the model"),
                },
            ),
            ("refuse", Yes("the call is not run, and the model reads why")),
        ],
        HookPoint::OnToolResult => match agent {
            Claude => vec![
                ("annotate", Yes("text beside the result (`additionalContext`)")),
                (
                    "replace",
                    Part(
                        "the result of shells, file reads and MCP tools; of a tool that failed, text beside it",
                    ),
                ),
            ],
            Codex => vec![
                ("annotate", Yes("text beside the result (`additionalContext`)")),
                ("replace", Yes("feedback in the place of the result (`decision: block`)")),
            ],
            OpenHands => vec![
                ("annotate", No("OpenHands takes nothing back after a tool has run")),
                ("replace", No("OpenHands takes nothing back after a tool has run")),
            ],
        },
        HookPoint::OnLoop => match agent {
            Claude | Codex => vec![
                ("note", Yes("text beside the result that closed the loop")),
                ("stop", Yes("ends the agent's turn (`continue: false`)")),
            ],
            OpenHands => vec![
                ("note", No("OpenHands takes nothing back after a tool has run")),
                ("stop", No("OpenHands takes nothing back after a tool has run")),
            ],
        },
        HookPoint::OnSubmit => {
            vec![("defer", Yes("the agent goes on when it wants to stop, and reads why"))]
        }
        HookPoint::OnChoosePatch => {
            vec![("choose", No("the agent works in the user's files and hands in no patch"))]
        }
        HookPoint::OnLimit => vec![("salvage", No("the agent tells hooks of no limit, and loses no files"))],
        HookPoint::Observe => vec![(
            "sees",
            Part(
                "episode-start, turn, refused, deferred, stopped, episode-end; nothing of the model's context",
            ),
        )],
    }
}

impl Capabilities {
    /// What the plugins of a harness can do in `agent`.
    pub fn of(agent: Agent, manifest: &HarnessManifest, facts: &[PluginFacts]) -> Self {
        let mut lines = Vec::new();
        for plugin in facts {
            for &point in &plugin.points {
                lines.extend(effects(agent, point).into_iter().map(|(effect, expressed)| Line {
                    plugin: plugin.name.clone(),
                    point,
                    effect,
                    expressed,
                }));
            }
        }
        let mut not_used = vec![
            "its prompts: the agent has its own",
            "its limits of turns, tokens, time and money: the agent has its own, and plugins see no limit",
        ];
        if manifest.plugins.is_empty() {
            not_used.push("it has no plugins, so nothing of it runs in an agent");
        }
        Self { agent, version: agent.version(), effects: lines, not_used }
    }

    /// What is lost or holds in part.
    pub fn lost(&self) -> impl Iterator<Item = &Line> {
        self.effects.iter().filter(|line| !matches!(line.expressed, Expressed::Yes(_)))
    }
}

impl Line {
    /// In a sentence, what an agent makes of it.
    pub fn told(&self, agent: Agent) -> String {
        let (how, what) = match self.expressed {
            Expressed::Yes(how) => ("expresses", how),
            Expressed::Part(how) => ("expresses only in part", how),
            Expressed::No(why) => ("does not express", why),
        };
        let (plugin, point, effect) = (&self.plugin, self.point.name(), self.effect);
        format!("{} {how} what `{plugin}` does at `{point}` ({effect}): {what}", agent.title())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, how) = match self.expressed {
            Expressed::Yes(how) => ("yes", how),
            Expressed::Part(how) => ("part", how),
            Expressed::No(why) => ("no", why),
        };
        write!(f, "{word:<4}  {}  {} {}: {how}", self.plugin, self.point.name(), self.effect)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "In {} (written against {}):", self.agent.title(), self.version)?;
        for line in &self.effects {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "Of the harness itself, this is not used:")?;
        for what in &self.not_used {
            writeln!(f, "  {what}")?;
        }
        Ok(())
    }
}
