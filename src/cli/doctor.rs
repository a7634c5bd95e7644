//! `tandem doctor`: does a device compute what the CPU computes?

use anyhow::Result;
use clap::Args;
use tandem_trainer::doctor::{Check, examine};

use super::Exit;
use crate::model::parse_device;

#[derive(Args)]
pub struct DoctorArguments {
    /// `cpu`, or `cuda:0` and so on in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Only checks whose name contains this.
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
}

/// Prints a line for each check, and ends with 3 when one is off.
pub fn run(arguments: &DoctorArguments) -> Result<Exit> {
    let device = parse_device(&arguments.device)?;
    println!("{}", facts(&arguments.device));
    let checks = examine(&device, &arguments.only, |check| println!("{}", line(check)));
    let off = checks.iter().filter(|check| !check.passed()).count();
    println!("{} checks on {}, {off} off", checks.len(), arguments.device);
    if off == 0 {
        return Ok(Exit::Done);
    }
    println!("help: do not train on this device; report the lines that are off, with driver and version");
    Ok(Exit::No)
}

fn line(check: &Check) -> String {
    let word = if check.passed() { "ok " } else { "off" };
    let error = match &check.error {
        Ok(error) => format!("error {error:.1e}, limit {:.0e}", check.limit),
        Err(reason) => format!("failed: {}", reason.lines().next().unwrap_or_default()),
    };
    format!("{word}  {:<4}  {}: {error}", check.compute.to_string(), check.name)
}

/// What driver and memory say of themselves.
fn facts(device: &str) -> String {
    let Some(index) = device.strip_prefix("cuda").map(|rest| rest.trim_start_matches(':')) else {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        return format!("{device}: {threads} threads");
    };
    let index = if index.is_empty() { "0" } else { index };
    let query = "--query-gpu=name,driver_version,memory.total,memory.used";
    let asked =
        std::process::Command::new("nvidia-smi").args([query, "--format=csv,noheader", "-i", index]).output();
    match asked {
        Ok(out) if out.status.success() => {
            format!("{device}: {}", String::from_utf8_lossy(&out.stdout).trim())
        }
        _ => format!("{device}: `nvidia-smi` does not say which driver and memory it has"),
    }
}
