//! The warm-up of `tandem warmup` without the rest of the program: for a machine
//! that has a GPU and no sandbox. Conversations are one JSON object a line, as
//! `tandem demos` writes them.
//!
//! ```sh
//! cargo run -p tandem-trainer --features cuda --example warmup -- \
//!     WEIGHTS DEMOS.jsonl OUT cuda 8 '{"epochs": 2, "batch": 16}'
//! ```

use std::error::Error;
use std::path::Path;

use serde::Deserialize;
use tandem_trainer::Device;
use tandem_trainer::checkpoint::{CheckpointInfo, load_policy, save_adapter};
use tandem_trainer::learner::{WarmupConfig, warm_up};
use tandem_trainer::model::LoraConfig;
use tandem_trainer::tokenizer::ChatMessage;

#[derive(Deserialize)]
struct Demonstration {
    messages: Vec<ChatMessage>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [weights, demos, out, device, rank, settings] = &arguments[..] else {
        return Err("arguments: WEIGHTS DEMOS OUT cpu|cuda RANK SETTINGS-AS-JSON".into());
    };
    let device = match device.as_str() {
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(0),
        "cpu" => Device::flex(),
        other => return Err(format!("`{other}` is not a device of this build").into()),
    };
    let config: WarmupConfig = serde_json::from_str(settings)?;
    let text = std::fs::read_to_string(demos)?;
    let mut conversations = Vec::new();
    for line in text.lines() {
        let demonstration: Demonstration = serde_json::from_str(line)?;
        conversations.push(demonstration.messages);
    }
    let policy = load_policy(Path::new(weights), None, &device)?;
    let rank: usize = rank.parse()?;
    let lora = LoraConfig { rank, alpha: 2.0 * rank as f32, first_layer: 0 };
    let model = policy.model.with_lora(lora, config.seed);
    let mut done = 0;
    let (model, report) = warm_up(model, &policy.chat, &conversations, &config, |steps, report| {
        done += 1;
        if done % 10 == 1 || done == steps {
            let skipped = report.skipped.as_deref().unwrap_or("");
            println!(
                "{done}/{steps} loss {:.4} norm {:.2} {:.2} s {skipped}",
                report.loss, report.grad_norm, report.seconds
            );
        }
    })?;
    let info =
        CheckpointInfo { policy_version: 0, harness_digest: None, parent: None, base: "smollm2-135m".into() };
    save_adapter(Path::new(out), &model, &info)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
