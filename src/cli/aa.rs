//! `tandem gate aa`: does the gate refuse what changes nothing?

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tandem_host::rollout::Cancel;
use tandem_host::store::Digest;

use super::{Exit, gate, setup};
use crate::campaign::{
    AaQuestion, Beginning, Campaign, CampaignConfig, Parts, RunLock, Seeds, UpdateReport, first_harness,
    newest_harness,
};
use crate::model::Devices;
use crate::view::Progress;

#[derive(Args)]
pub struct AaArguments {
    /// The folder of a run, for its newest harness and policy, or a campaign file, for its first ones.
    from: PathBuf,
    /// Where the episodes are recorded: a folder in `RUN/aa` or `runs/NAME-aa` for each harness, policy and
    /// settings; a second start goes on with them.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Gates, each on episodes of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    gates: u32,
    /// Gates on the same episodes, dealt out to the arms again.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    deals: u32,
    /// Most tasks of a gate.
    #[arg(long)]
    tasks: Option<usize>,
    /// Rollouts of a task in each arm.
    #[arg(long)]
    group_size: Option<usize>,
    /// The same seeds in both arms: does the policy repeat itself?
    #[arg(long)]
    shared_seeds: bool,
    /// `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: &AaArguments) -> Result<Exit> {
    let from = &arguments.from;
    let (mut config, place, harness, policy) = match from.is_dir() {
        true => {
            let record = setup::existing_record(from)?;
            let manifest = record.harness(&newest_harness(&record)?)?;
            let updates = record.phases::<UpdateReport>("update")?;
            let version = updates.iter().map(|(.., update)| update.version).max().unwrap_or(0);
            let policy = Some((from.join("checkpoints"), version));
            let harness = (manifest, Some(record.blobs().clone()));
            (gate::kept_campaign(from)?, from.join("aa"), harness, policy)
        }
        false => {
            let config = CampaignConfig::load(from)?;
            let place = Path::new("runs").join(format!("{}-aa", config.name));
            let harness = first_harness(&config.harness)?;
            (config, place, harness, None)
        }
    };
    let settings = &mut config.evolve.gate;
    settings.tasks = arguments.tasks.unwrap_or(settings.tasks);
    settings.group_size = arguments.group_size.unwrap_or(settings.group_size);
    settings.check().map_err(anyhow::Error::msg)?;
    // What saves rollouts would make both arms the same episodes.
    config.evolve.savings = Default::default();
    let seeds = if arguments.shared_seeds { Seeds::Shared } else { Seeds::Own };
    // Another question has other episodes.
    let version = policy.as_ref().map_or(0, |(_, version)| *version);
    let asked = json!([config, harness.0.canonical_json(), version, arguments.shared_seeds]).to_string();
    let folder = arguments.run.clone().unwrap_or_else(|| place.join(Digest::of(asked.as_bytes()).short()));
    let _lock = RunLock::take(&folder, std::time::Duration::ZERO)?;
    let (progress, cancel) = (Progress::new(), Cancel::new());
    super::train::stop_on_signal(&cancel, &progress);
    let parts = Parts {
        engine: setup::engine()?,
        forge: setup::forge()?,
        admission: setup::admission()?,
        workspaces: setup::workspaces_or(config.workspaces.clone())?,
        cancel,
        progress,
        devices: Devices::parse(&arguments.device, None)?,
    };
    let beginning = Beginning { harness: Some(harness), policy };
    let campaign = Campaign::open_at(config, &folder, parts, beginning).await?;
    let (gates, deals) = (arguments.gates as usize, arguments.deals as usize);
    let report = campaign.aa(AaQuestion { gates, deals, seeds }).await?;
    if arguments.json {
        let whole = json!({ "broken": report.is_broken(), "accepted": report.accepted(), "report": report });
        println!("{}", serde_json::to_string_pretty(&whole)?);
    } else {
        print!("{report}");
    }
    Ok(if report.is_broken() { Exit::No } else { Exit::Done })
}
