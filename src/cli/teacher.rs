//! `tandem teacher`: what would a teacher read, and what does it answer?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::plugin::AdmissionOptions;
use tandem_host::task::TaskSet;

use super::{Exit, setup};
use crate::campaign::{
    Bench, Builder, CampaignConfig, EarlierIdeas, Publication, RunRecord, current_plugins,
};
use crate::evolve::teacher::{
    Evidence, HarnessBrief, HarnessTeacher, PluginText, Rules, SearchSetNames, SkillBrief, SkillTeacher,
    TaskSecrets, Teacher, TeacherConfig, TeacherReply, TeacherRequest, TeacherRole,
};
use crate::evolve::{Diagnosis, Edit, Proposal, Signal, diagnose};

#[derive(Subcommand)]
pub enum TeacherCommand {
    /// Ask the teacher of a campaign once, and show what its reply gives.
    Ask(AskArguments),
}

#[derive(clap::Args)]
pub struct AskArguments {
    /// The campaign file.
    campaign: PathBuf,
    /// Which of the campaign's teachers: what it writes.
    #[arg(long, value_enum)]
    role: TeacherRole,
    /// A run folder, or a file with an episode as `tandem episode --json` prints it. Several add up.
    #[arg(long, required = true)]
    evidence: Vec<PathBuf>,
    /// The task that a skill is for; without it, the one that failed most.
    #[arg(long)]
    task: Option<String>,
    /// Print the request and ask nobody.
    #[arg(long)]
    dry_run: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Write the source of a proposal, or the text of a skill, to this file.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Keep a skill in the run that the evidence is from.
    #[arg(long)]
    keep: bool,
}

pub async fn run(command: TeacherCommand) -> Result<Exit> {
    let TeacherCommand::Ask(arguments) = command;
    let config = CampaignConfig::load(&arguments.campaign)?;
    let evidence = read_evidence(&arguments.evidence)?;
    if evidence.records.is_empty() {
        bail!(
            "there is no episode in the evidence\nhelp: name a run folder, or the output of `tandem episode --json`"
        );
    }
    match arguments.role {
        TeacherRole::Harness => harness(&arguments, &config, &evidence).await,
        TeacherRole::Skill => skill(&arguments, &config, &evidence).await,
    }
}

/// What was read, and the run that it is from, if it is from one.
struct Read {
    records: Vec<EpisodeRecord>,
    run: Option<RunRecord>,
}

fn read_evidence(paths: &[PathBuf]) -> Result<Read> {
    let mut read = Read { records: Vec::new(), run: None };
    for path in paths {
        if path.is_dir() {
            let run = setup::existing_record(path)?;
            // Gates and tables are no training episodes.
            for row in run.episodes()?.iter().filter(|row| row.arm == "collect" && !row.thinned) {
                read.records.push(run.episode(row)?);
            }
            read.run = Some(run);
        } else {
            let text = fs::read_to_string(path).with_context(|| {
                format!("the evidence {} cannot be read\nhelp: check the path", path.display())
            })?;
            let record = serde_json::from_str(&text).with_context(|| {
                format!("{} is no episode\nhelp: `tandem episode --json` prints one", path.display())
            })?;
            read.records.push(record);
        }
    }
    Ok(read)
}

/// Where the exchange is written down: the run of the evidence, or a scratch run.
fn log_of(read: &Read, scratch: &Path) -> Result<RunRecord> {
    match &read.run {
        Some(run) => Ok(RunRecord::open(run.folder())?),
        None => RunRecord::open(scratch),
    }
}

/// A place that no campaign uses.
fn place(role: TeacherRole) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("ask/{role}/{}", now.as_millis())
}

async fn harness(arguments: &AskArguments, config: &CampaignConfig, read: &Read) -> Result<Exit> {
    let section = &config.teacher.harness;
    let wrong = |reason: String| anyhow!("`[teacher.harness]` cannot be used: {reason}");
    let writer = HarnessTeacher::open(section).map_err(wrong)?;
    let diagnosis: Diagnosis = diagnose(&read.records);
    let recurring = diagnosis.recurring(config.evolve.min_tasks);
    if recurring.is_empty() {
        bail!(
            "the evidence shows no trouble on {} tasks or more\nhelp: add `--evidence`, or lower `evolve.min_tasks`",
            config.evolve.min_tasks
        );
    }
    let evidence = Evidence::of(&read.records);
    let (manifest, plugins, EarlierIdeas { kept, rejected }) = harness_now(config, read).await?;
    let brief = HarnessBrief {
        evidence: &evidence,
        diagnosis: &diagnosis,
        recurring: &recurring,
        harness: &manifest,
        plugins,
        kept,
        rejected,
    };
    let request = writer.request(&brief).map_err(wrong)?;
    if arguments.dry_run {
        return show_request(&request, arguments.json);
    }
    let teacher = opened(TeacherRole::Harness, section)?;
    let scratch = tempfile::tempdir()?;
    let log = log_of(read, scratch.path())?;
    let place = place(TeacherRole::Harness);
    let reply = teacher.ask(&place, &request, &log).await?;
    let tasks = TaskSet::load(&config.tasks.train)?;
    let names = SearchSetNames::of(tasks.tasks().iter().map(|task| &**task));
    let builder = Builder {
        engine: setup::engine()?,
        forge: Arc::new(setup::forge()?),
        admission: AdmissionOptions {
            forbidden: tasks.tasks().iter().map(|task| task.name().to_owned()).collect(),
            ..setup::admission()?
        },
        blobs: log.blobs().clone(),
    };
    let (tried, taken, made) = Default::default();
    let bench = Bench::new(&builder, &manifest, made);
    let rules = Rules { names: &names, tried: &tried, taken: &taken, judge: &bench };
    let signals: Vec<Signal> = recurring.iter().map(|(signal, _)| *signal).collect();
    let told = cost_line(&log, &place)?;
    match writer.read(&reply, &signals, &rules).await? {
        Ok(proposal) => {
            if let Some(path) = &arguments.output {
                fs::write(path, edit_text(&proposal.edit)?)
                    .with_context(|| format!("{} cannot be written", path.display()))?;
            }
            if arguments.json {
                let manifest = serde_json::to_value(&proposal.manifest)?;
                let shown = match &proposal.edit {
                    Edit::Plugin { source, grants, .. } => {
                        serde_json::json!({"manifest": manifest, "grants": grants, "source": source})
                    }
                    edit => serde_json::json!({"manifest": manifest, "edit": edit}),
                };
                println!("{}", serde_json::to_string_pretty(&shown)?);
            } else {
                print!("{}", proposal_text(&proposal)?);
            }
            eprintln!("{told}");
            Ok(Exit::Done)
        }
        Err(reason) => refused(&reply, &reason, &told, arguments.json),
    }
}

async fn skill(arguments: &AskArguments, config: &CampaignConfig, read: &Read) -> Result<Exit> {
    let Some(section) = &config.teacher.skill else {
        bail!(
            "{} has no section `[teacher.skill]`\nhelp: add one; docs/teachers.md shows it",
            arguments.campaign.display()
        );
    };
    if arguments.keep && read.run.is_none() {
        bail!("there is no run to keep the skill in\nhelp: name a run folder with `--evidence`");
    }
    let wrong = |reason: String| anyhow!("`[teacher.skill]` cannot be used: {reason}");
    let writer = SkillTeacher::open(section).map_err(wrong)?;
    let name = match &arguments.task {
        Some(name) => name.clone(),
        None => {
            most_failed(&read.records).context("no episode of the evidence failed\nhelp: add `--evidence`")?
        }
    };
    let tasks = TaskSet::load(&config.tasks.train)?;
    let task = tasks.get(&name).with_context(|| {
        format!("the campaign has no task `{name}`\nhelp: `tandem tasks list` names them")
    })?;
    let records: Vec<&EpisodeRecord> = read.records.iter().filter(|record| record.task == name).collect();
    let failed = records.iter().filter(|record| record.outcome == Outcome::Unsolved).count();
    if failed == 0 {
        bail!("no episode of `{name}` in the evidence failed\nhelp: name another `--task`");
    }
    let evidence = Evidence::of(records.iter().copied());
    let brief = SkillBrief {
        task: &name,
        instruction: task.instruction(),
        evidence: &evidence,
        episodes: records.len(),
        failed,
    };
    let request = writer.request(&brief).map_err(wrong)?;
    if arguments.dry_run {
        return show_request(&request, arguments.json);
    }
    let teacher = opened(TeacherRole::Skill, section)?;
    let scratch = tempfile::tempdir()?;
    let log = log_of(read, scratch.path())?;
    let place = place(TeacherRole::Skill);
    let reply = teacher.ask(&place, &request, &log).await?;
    let told = cost_line(&log, &place)?;
    match writer.read(&reply, brief.task, &TaskSecrets::of(task)) {
        Ok(skill) => {
            if arguments.keep {
                log.add_skill(&place, &skill)?;
            }
            if let Some(path) = &arguments.output {
                fs::write(path, &skill.text)
                    .with_context(|| format!("{} cannot be written", path.display()))?;
            }
            if arguments.json {
                println!("{}", serde_json::to_string_pretty(&skill)?);
            } else {
                println!(
                    "task: {}\nmechanism: {}\ncheck: {}\n\n{}",
                    skill.task, skill.mechanism, skill.check, skill.text
                );
                let kept = log.skills(&skill.task)?.len();
                if arguments.keep {
                    println!("\nkept: the run has {kept} for this task");
                }
            }
            eprintln!("{told}");
            Ok(Exit::Done)
        }
        Err(reason) => refused(&reply, &reason, &told, arguments.json),
    }
}

fn opened(role: TeacherRole, section: &TeacherConfig) -> Result<Teacher> {
    let teacher = Teacher::open(role, section, None)
        .map_err(|reason| anyhow!("`[teacher.{role}]` cannot be used: {reason}"))?;
    teacher.with_context(|| {
        format!("`teacher.{role}.kind` is `catalog`, which cannot be asked\nhelp: name another kind; docs/teachers.md lists them")
    })
}

/// The newest harness of the run, or the campaign's first, with its plugins and what was proposed before.
async fn harness_now(
    config: &CampaignConfig,
    read: &Read,
) -> Result<(HarnessManifest, Vec<PluginText>, EarlierIdeas)> {
    if let Some(run) = &read.run
        && let Some(Publication { digest, .. }) = run.publications()?.last()
    {
        let manifest = run.harness(digest)?;
        let (engine, admission) = (setup::engine()?, setup::admission()?);
        let built = Generation::build_with(&engine, manifest.clone(), run.blobs(), &admission).await?;
        let plugins = current_plugins(run, &manifest, &built.facts())?;
        let ideas = EarlierIdeas::of(run, &manifest)?;
        return Ok((manifest, plugins, ideas));
    }
    let manifest = match &config.harness.manifest {
        Some(path) => HarnessManifest::read(path)?,
        None => HarnessManifest::bare(),
    };
    // Without a run there is no folder of blobs in which plugins could lie.
    let manifest = HarnessManifest { plugins: Vec::new(), ..manifest };
    Ok((manifest, Vec::new(), EarlierIdeas::default()))
}

fn most_failed(records: &[EpisodeRecord]) -> Option<String> {
    let mut failed = std::collections::BTreeMap::new();
    for record in records.iter().filter(|record| record.outcome == Outcome::Unsolved) {
        *failed.entry(record.task.clone()).or_insert(0usize) += 1;
    }
    let most = failed.values().copied().max()?;
    failed.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name)
}

fn show_request(request: &TeacherRequest, json: bool) -> Result<Exit> {
    if json {
        println!("{}", request.to_json());
    } else {
        println!("=== system\n{}\n=== user\n{}", request.system, request.user);
    }
    eprintln!("request {}: at most {} tokens", request.digest().short(), request.estimated_tokens());
    Ok(Exit::Done)
}

fn proposal_text(proposal: &Proposal) -> Result<String> {
    let list = |items: &[String]| if items.is_empty() { "none".into() } else { items.join(", ") };
    let mut text = format!("{}: {}\n", proposal.name, proposal.rationale);
    let admitted = match &proposal.edit {
        Edit::Plugin { .. } => "built and admitted",
        edit => {
            text.push_str(&format!("changes {}\n", edit.what()));
            "admitted"
        }
    };
    if let Some(manifest) = &proposal.manifest {
        if let Edit::Plugin { grants, .. } = &proposal.edit {
            text.push_str(&format!("points: {}\ngrants: {}\n", list(&manifest.points), list(grants)));
        }
        text.push_str(&format!("fixes: {}\nrisks: {}\n", list(&manifest.fixes), list(&manifest.risks)));
    }
    Ok(format!("{text}{admitted}\n\n{}", edit_text(&proposal.edit)?))
}

/// What a person works on with: the source of a plugin, the text of a prompt, any other edit as JSON.
fn edit_text(edit: &Edit) -> Result<String> {
    Ok(match edit {
        Edit::Plugin { source, .. } => source.clone(),
        Edit::Prompt { text, .. } => format!("{text}\n"),
        edit => format!("{}\n", serde_json::to_string_pretty(edit)?),
    })
}

fn refused(reply: &TeacherReply, reason: &str, told: &str, json: bool) -> Result<Exit> {
    if json {
        let shown = serde_json::json!({"refused": reason, "reply": reply.text});
        println!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        println!("{}\n", reply.text.trim_end());
        eprintln!("error: {reason}");
    }
    eprintln!("{told}");
    Ok(Exit::No)
}

/// What the exchange used, from its row.
fn cost_line(log: &RunRecord, place: &str) -> Result<String> {
    let rows = log.exchanges()?;
    let tries: Vec<_> = rows.iter().filter(|row| row.place == place).collect();
    let sum = |of: fn(&crate::campaign::ExchangeRow) -> u64| tries.iter().map(|row| of(row)).sum::<u64>();
    let cost: f64 = tries.iter().map(|row| row.cost).sum();
    let seconds: f64 = tries.iter().map(|row| row.seconds).sum();
    let about = if tries.iter().any(|row| row.estimated) { ", estimated" } else { "" };
    Ok(format!(
        "{} tries, {} + {} tokens{about}, cost {cost:.4}, {seconds:.1} s",
        tries.len(),
        sum(|row| row.prompt_tokens),
        sum(|row| row.reply_tokens),
    ))
}
