//! Supervised fine-tuning from a file of examples to an adapter or a policy, with everything that
//! is needed to stop and go on.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::rollout::{Cancel, Cancelled};
use tandem_host::store::write_whole;
use tandem_trainer::checkpoint::{CheckpointInfo, Policy, save_adapter, save_policy};
use tandem_trainer::learner::{self, MOST_SKIPS, Sample, SftConfig, StepReport};
use tandem_trainer::model::{CausalLm, LoraConfig};
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::StoredType;

use super::Devices;
use super::sft_data::{read, split};
use crate::view::{EventLog, Progress, first_change};

/// What to train, on what.
pub struct Sft {
    /// The folder of the run: state to go on from, `steps.jsonl`, `tensorboard/`, and at the end
    /// `adapter/` or `policy/`.
    pub out: PathBuf,
    pub devices: Devices,
    /// `f32` or `bf16`; none for what suits the device.
    pub compute: Option<String>,
    pub resume: bool,
    /// Asks to stop after the step that is under way, with its state kept.
    pub stop: Cancel,
    pub settings: SftSettings,
}

/// Everything that decides what comes out; kept in the run folder as `sft.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SftSettings {
    pub base: String,
    /// Adapters on the base: the last one is trained further, unless all weights are.
    pub adapters: Vec<PathBuf>,
    pub data: PathBuf,
    /// Of the file's bytes.
    pub data_sha256: String,
    pub validation_data: Option<PathBuf>,
    /// Share of the data that is not trained on; not read with `validation_data`.
    pub validation: f64,
    /// Examples of more tokens are left out and counted.
    pub max_tokens: usize,
    pub trained: Trained,
    /// A checkpoint after this many steps; 0 for one after each epoch.
    pub save_every: usize,
    pub config: SftConfig,
}

/// Which weights change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trained {
    /// LoRA factors; the settings are not read when an adapter is trained further.
    Adapter(LoraConfig),
    /// All of them.
    Full,
}

const SETTINGS: &str = "sft.json";
const STEPS: &str = "steps.jsonl";
const STATE: &str = "state";

/// A line of `steps.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct StepRow {
    /// From 1.
    step: usize,
    #[serde(flatten)]
    report: StepReport,
    /// The loss of the validation examples after this step, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    validation_loss: Option<f64>,
}

/// Runs to the end, or goes on with a run that was stopped. Returns one sentence for people.
pub fn run(sft: &Sft, progress: &Progress) -> Result<String> {
    let settings = &sft.settings;
    check_folder(sft)?;
    let device = sft.devices.first_name();
    let life = progress.sign_of_life(&format!("loading {}", settings.base));
    let policy = super::load(&settings.base, &settings.adapters, device, sft.compute.as_deref())?;
    drop(life);
    let examples = read(&settings.data, &policy.tokenizer, &policy.chat, settings.max_tokens)?;
    let (samples, validation) = match &settings.validation_data {
        Some(path) => {
            (examples.samples, read(path, &policy.tokenizer, &policy.chat, settings.max_tokens)?.samples)
        }
        None => split(examples.samples, settings.validation, settings.config.seed),
    };
    progress.say(&format!(
        "{} examples to train on, {} to validate with, {} left out as longer than {} tokens",
        samples.len(),
        validation.len(),
        examples.left_out,
        settings.max_tokens
    ));
    let count = samples.len();
    let Policy { model, tokenizer, .. } = policy;
    // State is kept of what is trained: an adapter goes on the policy without it.
    let state = newest_state(&sft.out)?;
    let training = match &state {
        None => learner::Sft::new(start(model, settings)?, samples, settings.config.clone())?,
        Some((done, folder)) => {
            let base = match (settings.trained, settings.adapters.split_last()) {
                (Trained::Adapter(_), Some((_, before))) => {
                    super::load(&settings.base, before, device, sft.compute.as_deref())?.model.merged()
                }
                _ => model.merged(),
            };
            progress.say(&format!("going on after step {done}"));
            learner::Sft::resume(base, samples, settings.config.clone(), folder, *done)?
        }
    };
    let training = training.with_replicas(sft.devices.others(), sft.devices.exchange())?;
    // From here on the folder holds a run: what could be wrong at the start was not.
    fs::create_dir_all(&sft.out).with_context(|| format!("{} cannot be made", sft.out.display()))?;
    write_whole(&sft.out.join(SETTINGS), serde_json::to_string_pretty(settings)?.as_bytes())?;
    let mut run = Run { sft, training, validation, progress };
    let summary = run.to_the_end()?;
    let written = run.write_result(&tokenizer)?;
    Ok(format!("{count} examples, {summary}; {written}"))
}

/// The model that is trained.
fn start(model: CausalLm, settings: &SftSettings) -> Result<CausalLm> {
    Ok(match settings.trained {
        Trained::Full => model.merged(),
        Trained::Adapter(_) if model.lora().is_some() => model,
        Trained::Adapter(lora) => {
            lora.targets.check(model.config())?;
            model.with_lora(lora, settings.config.seed)
        }
    })
}

/// Checks that the folder is free, or holds the run to go on with.
fn check_folder(sft: &Sft) -> Result<()> {
    let out = sft.out.display();
    let kept = sft.out.join(SETTINGS);
    if kept.exists() != sft.resume {
        match sft.resume {
            true => bail!("{out} holds no run to go on with\nhelp: leave out `--resume`"),
            false => bail!(
                "{out} holds a run already\nhelp: add `--resume` to go on with it, or give another folder"
            ),
        }
    }
    if result_of(&sft.out).exists() {
        bail!(
            "the run in {out} is done: {} is there\nhelp: give another folder to train again",
            result_of(&sft.out).display()
        );
    }
    if !sft.resume {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&sft.settings)?;
    let before = fs::read_to_string(&kept).with_context(|| format!("{} cannot be read", kept.display()))?;
    if before != text {
        let change = first_change(&before, &text).map(|change| format!(": {change}")).unwrap_or_default();
        bail!(
            "the settings or the data are not those that the run in {out} began with{change}\nhelp: {} has them; undo the change, or give another folder",
            kept.display()
        );
    }
    Ok(())
}

/// Where the result of the run in `out` lies: the folder that is there, else that of an adapter.
fn result_of(out: &Path) -> PathBuf {
    let policy = out.join("policy");
    if policy.exists() { policy } else { out.join("adapter") }
}

/// The newest state of a run: how many steps it has seen, and its folder.
fn newest_state(out: &Path) -> Result<Option<(usize, PathBuf)>> {
    let folder = out.join(STATE);
    if !folder.exists() {
        return Ok(None);
    }
    let entries = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut states: Vec<(usize, PathBuf)> = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(done) = name.strip_prefix("step-").and_then(|digits| digits.parse().ok()) {
            states.push((done, path));
        }
    }
    Ok(states.into_iter().max())
}

/// A run that is going on.
struct Run<'a> {
    sft: &'a Sft,
    training: learner::Sft,
    validation: Vec<Sample>,
    progress: &'a Progress,
}

impl Run<'_> {
    fn to_the_end(&mut self) -> Result<String> {
        let out = &self.sft.out;
        let mut rows = self.rows_so_far()?;
        let mut events = EventLog::create(&out.join("tensorboard"), self.training.done() as i64 + 1)?;
        let mut steps = OpenOptions::new().append(true).create(true).open(out.join(STEPS))?;
        let bar = self.progress.start("steps", self.training.steps());
        bar.skip(self.training.done());
        while let Some(report) = self.training.step()? {
            let step = self.training.done();
            let epoch_ends = step.is_multiple_of(self.training.steps_of_epoch());
            let validation_loss = match epoch_ends && !self.validation.is_empty() {
                true => Some(self.training.loss_of(&self.validation)?),
                false => None,
            };
            let row = StepRow { step, report, validation_loss };
            writeln!(steps, "{}", serde_json::to_string(&row)?)?;
            events.scalars(step as i64, &scalars(&row))?;
            bar.step(&line(&row.report));
            if let Some(reason) = &row.report.skipped {
                self.progress.say(&format!("step {step} was skipped: {reason}"));
            }
            let is_stuck = row.report.skips_in_a_row >= MOST_SKIPS;
            rows.push(row);
            if epoch_ends {
                self.say_epoch(step / self.training.steps_of_epoch(), &rows);
            }
            let every = self.sft.settings.save_every;
            let due = if every == 0 { epoch_ends } else { step.is_multiple_of(every) };
            let stops = self.sft.stop.is_cancelled() && step < self.training.steps();
            if due || is_stuck || stops {
                steps.sync_data()?;
                self.save()?;
            }
            if is_stuck {
                bail!(
                    "{MOST_SKIPS} steps in a row were skipped, so the run ends; its state after step {step} is kept\nhelp: lower the learning rate, or look for broken examples"
                );
            }
            if stops {
                bar.finish();
                return Err(Error::new(Cancelled).context(format!(
                    "fine-tuning stopped after step {step} of {}, and its state is kept\nhelp: go on with the same command and `--resume`",
                    self.training.steps()
                )));
            }
        }
        bar.finish();
        let seconds: f64 = rows.iter().map(|row| row.report.seconds).sum();
        // A tenth of the steps at each end, and no more than ten.
        let few = rows.len().div_ceil(10).min(10);
        let validated = rows.iter().rev().find_map(|row| row.validation_loss);
        let validated = validated.map_or(String::new(), |loss| format!(", validation loss {loss:.3}"));
        Ok(format!(
            "{} steps in {seconds:.0} s: loss {:.3} at the start, {:.3} at the end{validated}",
            rows.len(),
            mean(&rows[..few], |report| report.loss),
            mean(&rows[rows.len() - few..], |report| report.loss),
        ))
    }

    /// The rows of the steps that the state has seen. Those of later steps, which are taken
    /// again, are dropped from the file.
    fn rows_so_far(&self) -> Result<Vec<StepRow>> {
        let path = self.sft.out.join(STEPS);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let done = self.training.done();
        let step_of = |line: &str| {
            // A line that was cut off belongs to a step after the state.
            let row: serde_json::Value = serde_json::from_str(line).ok()?;
            usize::try_from(row["step"].as_u64()?).ok()
        };
        let kept: Vec<&str> =
            text.lines().filter(|line| step_of(line).is_some_and(|step| step <= done)).collect();
        let whole = kept.iter().map(|line| format!("{line}\n")).collect::<String>();
        write_whole(&path, whole.as_bytes())?;
        // Numbers of a skipped step may be no numbers.
        Ok(kept.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn say_epoch(&self, epoch: usize, rows: &[StepRow]) {
        let of_epoch = &rows[rows.len().saturating_sub(self.training.steps_of_epoch())..];
        let tokens: usize = of_epoch.iter().map(|row| row.report.context_tokens).sum();
        let seconds: f64 = of_epoch.iter().map(|row| row.report.seconds).sum();
        let validated = rows.last().and_then(|row| row.validation_loss);
        let validated = validated.map_or(String::new(), |loss| format!(", validation loss {loss:.4}"));
        self.progress.say(&format!(
            "epoch {epoch} of {}: loss {:.4}{validated}, entropy {:.3}, gradient {:.3}, {:.0} tokens/s",
            self.sft.settings.config.epochs,
            mean(of_epoch, |report| report.loss),
            mean(of_epoch, |report| report.entropy),
            mean(of_epoch, |report| report.grad_norm),
            tokens as f64 / seconds.max(1e-9)
        ));
    }

    /// Keeps the state as it is now, and then drops what else is there: older ones, and what a
    /// program that was killed did not finish.
    fn save(&self) -> Result<()> {
        let states = self.sft.out.join(STATE);
        let folder = states.join(format!("step-{:06}", self.training.done()));
        if !folder.exists() {
            self.training.save(&folder)?;
        }
        for entry in fs::read_dir(&states).with_context(|| format!("{} cannot be read", states.display()))? {
            let path = entry?.path();
            if path != folder {
                fs::remove_dir_all(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
            }
        }
        Ok(())
    }

    fn write_result(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let settings = &self.sft.settings;
        let info = CheckpointInfo {
            policy_version: 0,
            harness_digest: None,
            parent: None,
            base: settings.base.clone(),
        };
        let model = self.training.model();
        match settings.trained {
            Trained::Adapter(_) => {
                let folder = self.sft.out.join("adapter");
                save_adapter(&folder, &model, StoredType::BF16, &info)?;
                Ok(format!("adapter written to {}", folder.display()))
            }
            Trained::Full => {
                let folder = self.sft.out.join("policy");
                save_policy(&folder, &model, tokenizer, StoredType::BF16, &info)?;
                Ok(format!("policy written to {}", folder.display()))
            }
        }
    }
}

/// The mean of a number over the steps that were not skipped.
fn mean(rows: &[StepRow], number: impl Fn(&StepReport) -> f64) -> f64 {
    let taken: Vec<f64> =
        rows.iter().map(|row| &row.report).filter(|report| report.skipped.is_none()).map(number).collect();
    taken.iter().sum::<f64>() / taken.len().max(1) as f64
}

/// What a progress line says of a step.
fn line(report: &StepReport) -> String {
    format!(
        "loss {:.3}, entropy {:.2}, gradient {:.2}, rate {:.1e}, {:.0} tokens/s, {:.0} % padding",
        report.loss,
        report.entropy,
        report.grad_norm,
        report.learning_rate,
        report.context_tokens as f64 / report.seconds.max(1e-9),
        100.0 * report.padding
    )
}

fn scalars(row: &StepRow) -> Vec<(&'static str, f64)> {
    let report = &row.report;
    let mut scalars = vec![
        ("train/loss", report.loss),
        ("train/entropy", report.entropy),
        ("train/gradient_norm", report.grad_norm),
        ("train/update_norm", report.update_norm),
        ("train/learning_rate", report.learning_rate),
        ("train/tokens_per_second", report.context_tokens as f64 / report.seconds.max(1e-9)),
        ("train/padding_share", report.padding),
    ];
    scalars.extend(row.validation_loss.map(|loss| ("validation/loss", loss)));
    scalars
}
