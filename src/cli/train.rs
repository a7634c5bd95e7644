//! `tandem train`: run a campaign, or go on with one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tandem_host::rollout::Cancel;
use tandem_host::store::write_whole;

use super::{Exit, setup};
use crate::campaign::{Campaign, CampaignConfig, KEPT, Parts, RunLock, RunRecord};
use crate::evaluate::check_campaign;
use crate::model::Devices;
use crate::view::{Progress, Stats, first_change};

#[derive(clap::Args)]
pub struct TrainArguments {
    /// The campaign file.
    campaign: PathBuf,
    /// The run folder; `runs/NAME` if absent.
    #[arg(long)]
    run: Option<PathBuf>,
    /// Go on with a run that was stopped.
    #[arg(long)]
    resume: bool,
    /// `cpu`, or `cuda:N` in a program built for it; several, such as `cuda:0,cuda:1`, share each optimiser step, and
    /// the first one samples.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How several devices add up gradients, `nccl` or `host`; unless given, NCCL between GPUs.
    #[arg(long)]
    exchange: Option<String>,
    /// `f32` or `bf16`, before `policy.compute` of the campaign; a run keeps what it began with.
    #[arg(long)]
    compute: Option<String>,
    /// Before `seed` of the campaign: one file, runs of several seeds.
    #[arg(long)]
    seed: Option<u64>,
}

pub async fn run(arguments: TrainArguments) -> Result<Exit> {
    let mut config = CampaignConfig::load(&arguments.campaign)?;
    config.check_for_training().map_err(anyhow::Error::msg)?;
    config.seed = arguments.seed.unwrap_or(config.seed);
    let devices = Devices::parse(&arguments.device, arguments.exchange.as_deref())?;
    let run = arguments.run.clone().unwrap_or_else(|| Path::new("runs").join(&config.name));
    let lock = claim(&run, &mut config, &arguments)?;
    // Before the engine, which looks its meters up when it is made.
    let stats = Stats::install(&run)?;
    let keeping = tokio::spawn(keep_stats(stats.clone(), run.clone()));
    let progress = Progress::new();
    let cancel = Cancel::new();
    stop_on_signal(&cancel, &progress);
    let parts = Parts {
        engine: setup::engine()?,
        forge: setup::forge()?,
        admission: setup::admission()?,
        workspaces: setup::workspaces_or(config.workspaces.clone())?,
        cancel,
        progress: progress.clone(),
        devices,
    };
    let text = serde_json::to_string_pretty(&config)?;
    let apart = check_campaign(&config);
    // What is wrong with a set itself is told first.
    let mut campaign = Campaign::open(config, &run, parts).await?;
    apart?;
    // From here on the folder holds a run: what could be wrong at the start was not, and nothing is recorded yet.
    write_whole(&run.join(KEPT), text.as_bytes())?;
    if let Some(cost) = campaign.gate_cost()? {
        progress.say(&cost);
    }
    let seed = arguments.seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
    let resume =
        format!("tandem train {} --run {}{seed} --resume", arguments.campaign.display(), run.display());
    let ended = campaign.run().await;
    keeping.abort();
    stats.snapshot().write(&run).unwrap_or_else(|error| tracing::warn!("{error:#}"));
    ended.with_context(|| {
        format!("the campaign stopped; nothing recorded is lost\nhelp: go on with `{resume}`")
    })?;
    drop(lock);
    let record = setup::existing_record(&run)?;
    print!("{}", crate::view::report(&record)?);
    Ok(Exit::Done)
}

/// The number format of this start: that of `--compute`, else of the campaign, else of the run that is taken up again.
/// What a run began with does not change.
fn settle_compute(config: &mut CampaignConfig, run: &Path, arguments: &TrainArguments) -> Result<()> {
    if let Some(asked) = &arguments.compute {
        crate::model::compute(Some(asked), &tandem_trainer::Device::flex())?;
        config.policy.compute = Some(asked.clone());
    }
    let kept = fs::read_to_string(run.join(KEPT)).ok().filter(|_| arguments.resume);
    let before = kept.and_then(|text| serde_json::from_str::<CampaignConfig>(&text).ok());
    // A file that is not there or not whole is refused later on.
    let Some(before) = before else { return Ok(()) };
    if config.policy.compute.is_none() {
        config.policy.compute = before.policy.compute;
    } else if config.policy.compute != before.policy.compute {
        let named = |format: &Option<String>| {
            format.as_ref().map_or("what suits its device".to_string(), |format| format!("`{format}`"))
        };
        bail!(
            "the run in {} computes in {}, and {} is asked for\nhelp: leave out `--compute` and `policy.compute`, or start a new run with `--run`",
            run.display(),
            named(&before.policy.compute),
            named(&config.policy.compute)
        );
    }
    Ok(())
}

/// Makes the run folder or takes it up again. One program at a time holds it, and what lies in it is read by who
/// holds it alone.
fn claim(run: &Path, config: &mut CampaignConfig, arguments: &TrainArguments) -> Result<RunLock> {
    let no_run = || format!("{} holds no run to go on with\nhelp: leave out `--resume`", run.display());
    if arguments.resume && !run.is_dir() {
        // No folder is made for a run that is not there.
        bail!(no_run());
    }
    let lock = RunLock::take(run, Duration::from_secs(10))?;
    settle_compute(config, run, arguments)?;
    let kept = run.join(KEPT);
    match (kept.exists(), arguments.resume) {
        (true, false) => bail!(
            "{} holds a run already\nhelp: add `--resume` to go on with it, or take another folder with `--run`",
            run.display()
        ),
        (false, true) => bail!(no_run()),
        (true, true) => {
            let before =
                fs::read_to_string(&kept).with_context(|| format!("{} cannot be read", kept.display()))?;
            let text = serde_json::to_string_pretty(config)?;
            if before != text {
                let change = first_change(&before, &text).map(|change| format!(": {change}"));
                bail!(
                    "{} says something else than the campaign that this run began with{}\nhelp: undo the change (the first version is {}; a `--seed` has to be given again), or start a new run with `--run`",
                    arguments.campaign.display(),
                    change.unwrap_or_default(),
                    kept.display()
                );
            }
        }
        // A start that failed records nothing, so this is more than that.
        (false, false) if RunRecord::open(run)?.head()?.is_some() => bail!(
            "{} holds the record of a run without the campaign that it began with, {}\nhelp: put that file back and add `--resume`, take another folder with `--run`, or remove this one if its start failed under an older program",
            run.display(),
            kept.display()
        ),
        (false, false) => {}
    }
    Ok(lock)
}

/// Writes down every few seconds what plugins cost, for `tandem harness stats`.
async fn keep_stats(stats: Stats, run: PathBuf) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        // The record of a run does not depend on it.
        stats.snapshot().write(&run).unwrap_or_else(|error| tracing::warn!("{error:#}"));
    }
}

/// The first signal stops between turns; the second ends the program at once,
/// which loses nothing that is recorded.
pub(super) fn stop_on_signal(cancel: &Cancel, progress: &Progress) {
    let (cancel, progress) = (cancel.clone(), progress.clone());
    tokio::spawn(async move {
        let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(signal) => signal,
            Err(_) => return,
        };
        for time in 0..2 {
            tokio::select! {
                result = tokio::signal::ctrl_c() => if result.is_err() { return },
                _ = terminate.recv() => {}
            }
            if time == 0 {
                cancel.cancel();
                progress.say("stopping: what is recorded is kept; once more ends the program at once");
            } else {
                std::process::exit(Exit::Interrupted as i32);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(compute: Option<&str>) -> CampaignConfig {
        let text = "name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\n";
        let mut config = CampaignConfig::parse(text, Path::new("/here")).unwrap();
        config.policy.compute = compute.map(str::to_owned);
        config
    }

    fn start(compute: Option<&str>, resume: bool) -> TrainArguments {
        TrainArguments {
            campaign: "c.toml".into(),
            run: None,
            resume,
            device: "cpu".into(),
            exchange: None,
            compute: compute.map(str::to_owned),
            seed: None,
        }
    }

    /// What a campaign computes in, if its run began with `before`.
    fn settle(before: Option<&str>, file: Option<&str>, asked: Option<&str>) -> Result<Option<String>> {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join(KEPT), serde_json::to_string(&campaign(before)).unwrap()).unwrap();
        let mut config = campaign(file);
        let arguments = start(asked, true);
        settle_compute(&mut config, Path::new(run.path()), &arguments)?;
        Ok(config.policy.compute)
    }

    /// A first start that waits for another program reads what that one wrote meanwhile.
    #[test]
    fn a_run_that_began_while_a_start_waited_for_the_lock_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let other = RunLock::take(&run, Duration::ZERO).unwrap();
        let kept = run.join(KEPT);
        let begins = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            fs::write(kept, "{}").unwrap();
            drop(other);
        });
        let said = claim(&run, &mut campaign(None), &start(None, false)).err().unwrap().to_string();
        begins.join().unwrap();
        assert!(said.contains("holds a run already"), "{said}");
    }

    #[test]
    fn a_run_that_is_not_there_leaves_no_folder_behind() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let said = claim(&run, &mut campaign(None), &start(None, true)).err().unwrap().to_string();
        assert!(said.ends_with("holds no run to go on with\nhelp: leave out `--resume`"), "{said}");
        assert!(!run.exists());
    }

    #[test]
    fn a_run_keeps_the_number_format_that_it_began_with() {
        assert_eq!(settle(None, None, None).unwrap(), None);
        assert_eq!(settle(Some("bf16"), None, None).unwrap().as_deref(), Some("bf16"));
        assert_eq!(settle(Some("bf16"), Some("f32"), Some("bf16")).unwrap().as_deref(), Some("bf16"));
        let check = |before, file, asked, expected: expect_test::Expect| {
            let said = settle(before, file, asked).unwrap_err().to_string();
            let (folder, rest) = said.split_once(" computes").unwrap();
            assert!(folder.starts_with("the run in "));
            expected.assert_eq(rest.trim_start());
        };
        check(
            Some("bf16"),
            None,
            Some("f32"),
            expect_test::expect![[r#"
                in `bf16`, and `f32` is asked for
                help: leave out `--compute` and `policy.compute`, or start a new run with `--run`"#]],
        );
        check(
            None,
            Some("f32"),
            None,
            expect_test::expect![[r#"
                in what suits its device, and `f32` is asked for
                help: leave out `--compute` and `policy.compute`, or start a new run with `--run`"#]],
        );
        let said = settle(None, None, Some("f16")).unwrap_err().to_string();
        assert!(said.starts_with("`f16` is not a number format"), "{said}");
    }
}
